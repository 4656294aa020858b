"""Deliveries of webhooks. Endpoints, events and deliveries are written into the database as watchers write them."""

import asyncio
import collections
import json
import random
import time
import uuid

from .gateway import Admin
from .oracle import part
from .receiver import Receiver
from .sealed import sealed

JWT_SECRET = "s" * 32
SECRET = "whsec_" + "0123456789abcdef" * 4
WAITS = 1, 5, 30
LEASE = 30


def micros():
    return int(time.time() * 1_000_000)


class Hooks:
    """A receiver and its endpoints."""

    def __init__(self, admin):
        self.admin, self.database = admin, admin.database
        self.receiver = Receiver(SECRET.encode())
        self.database.admit(f"rpcg_{uuid.uuid4().hex:x<45}")
        ((project,),) = self.database.rows("SELECT id FROM projects", of_usage=False)
        self.project = project if isinstance(project, bytes) else uuid.UUID(project).bytes
        self.log = {}

    def endpoints(self, paths):
        """Creates endpoints with these paths and returns their ids."""
        ids, rows = [uuid.uuid4().bytes for _ in paths], []
        for id, path in zip(ids, paths):
            secret = sealed(JWT_SECRET, "webhooks", id, SECRET.encode())
            url = f"http://127.0.0.1:{self.receiver.port}/{path}"
            of = self.database.id(id), self.database.id(self.project), f"'{url}'", self.database.blob(secret)
            rows.append(f"({', '.join(of)}, true, false, 0, 0)")
        columns = "id, project_id, url, secret, active, standard_headers, created_at, updated_at"
        self.insert("webhooks", columns, rows)
        return ids

    def insert(self, table, columns, rows):
        for at in range(0, len(rows), 500):
            self.database.change(f"INSERT INTO {table} ({columns}) VALUES {', '.join(rows[at:at + 500])}")

    def deliver(self, endpoints, bodies=(b'{"chain":"eth"}',)):
        """Creates a due delivery to each endpoint, of these events in turn. Returns their ids as texts."""
        now, events, rows, ids = micros(), [uuid.uuid4().bytes for _ in bodies], [], []
        columns = "id, chain, event_type, block_num, block_hash, removed, body, created_at"
        stored = [f"({self.database.id(id)}, 'eth', 'new_block', 1, 'h', false, {self.database.blob(body)}, {now})" for id, body in zip(events, bodies)]
        self.insert("chain_events", columns, stored)
        for number, endpoint in enumerate(endpoints):
            id, event = uuid.uuid4(), events[number % len(events)]
            of = ", ".join(self.database.id(one) for one in (id.bytes, endpoint, event))
            rows.append(f"({of}, 'pending', false, 0, {now}, {now})")
            ids.append(str(id))
        self.insert("deliveries", "id, webhook_id, event_id, status, replay, attempts, due_at, created_at", rows)
        self.log.update(dict.fromkeys(ids, time.time()))
        return ids

    def statuses(self):
        found = self.database.rows("SELECT status, count(*) FROM deliveries GROUP BY status", of_usage=False)
        return dict(found)

    async def settled(self, patience):
        """Waits until no delivery is pending. Returns the number of those that are."""
        end = time.monotonic() + patience
        while (pending := self.statuses().get("pending", 0)) and time.monotonic() < end:
            await asyncio.sleep(0.1)
        return pending


def admin(run, more="", **other):
    return Admin(run, f"[webhooks]\nallow_private_targets = true\n{more}", **other)


async def promise_27(run):
    """The dispatcher is killed between an attempt and its mark; and two dispatchers share the deliveries."""
    kills = max(3, int(200 * run.scale))
    first = admin(run)
    await first.start()
    hooks = Hooks(first)
    in_flight = 0
    for endpoint in hooks.endpoints([f"kill/{number}" for number in range(kills)]):
        hooks.receiver.victim.value = first.process.pid
        hooks.deliver([endpoint])
        for _ in range(3_000):
            if first.process.poll() is not None:
                break
            await asyncio.sleep(0.01)
        run.must(27, first.process.poll() is not None, "the receiver kills the dispatcher")
        # Deliveries of the last second may be answered and not yet marked.
        in_flight += len({one[2] for one in hooks.receiver.seen() if one[0] > time.time() - 1})
        await first.start()
    back = time.monotonic()
    pending = await hooks.settled(LEASE + 30)
    run.say(27, f"time after the last of {kills} restarts until all was delivered", time.monotonic() - back, 35, "s")
    sends = collections.Counter(one[2] for one in hooks.receiver.seen())
    run.say(27, f"deliveries lost in {kills} kills", pending + sum(sends[id] == 0 for id in hooks.log), 0, "")
    run.say(27, f"sends beyond one for each delivery ({in_flight} were in flight at the kills)", sum(sends.values()) - kills, in_flight, "")
    hooks.receiver.close()
    await first.__aexit__()

    count = max(500, int(10_000 * run.scale))
    async with admin(run) as first, admin(run, database=first.database):
        hooks = Hooks(first)
        endpoints = hooks.endpoints([f"ok/{number}" for number in range(20)])
        hooks.deliver([endpoints[number % 20] for number in range(count)])
        pending = await hooks.settled(120)
        sends = collections.Counter(one[2] for one in hooks.receiver.seen())
        run.say(27, f"deliveries of {count:,} that two dispatchers made twice", sum(many > 1 for many in sends.values()), 0, "")
        run.say(27, "deliveries that neither made", pending + count - len(sends), 0, "")
        hooks.receiver.close()


async def promise_28(run):
    """The first three waits in real time, with the same bytes and signature in each attempt."""
    count = max(5, int(100 * run.scale))
    async with admin(run) as only:
        hooks = Hooks(only)
        hooks.deliver(hooks.endpoints([f"fail/{number}" for number in range(count)]))
        came = await hooks.receiver.until(4 * count, 60)
        run.say(28, f"attempts of {4 * count} that did not come", 4 * count - came, 0, "")
        attempts = collections.defaultdict(list)
        for at, _, id, number, holds, body, signature in hooks.receiver.seen():
            attempts[id].append((number, at, holds, body, signature))
        for index, wait in enumerate(WAITS):
            gaps = [sorted(all)[index + 1][1] - sorted(all)[index][1] for all in attempts.values()]
            run.must(28, min(gaps) >= wait, f"a wait of {wait} s was {min(gaps):.3f} s")
            run.say(28, f"the longest wait of {wait} s", max(gaps), wait * 1.2 + 0.5, "s")
        forms = sum(len({one[2:] for one in all}) != 1 for all in attempts.values())
        run.say(28, "deliveries whose bytes or signature differ between attempts", forms, 0, "")
        hooks.receiver.close()


async def promise_29(run):
    """One deadline for everything until the head of the answer."""
    modes = {"hang": False, "driphead": False, "after/10.5": False, "after/9.5": True, "dripbody": True, "endless": True}
    async with admin(run) as only:
        hooks = Hooks(only)
        ids = dict(zip(modes, hooks.deliver(hooks.endpoints(list(modes)))))
        await asyncio.sleep(11.5)
        found = only.database.rows("SELECT delivery_id, number, duration_ms, http_status, length(answer) FROM delivery_attempts", of_usage=False)
        found = {str(uuid.UUID(bytes=id) if isinstance(id, bytes) else id): row for id, *row in found if row[0] == 1}
        for mode, succeeds in modes.items():
            number, took, status, kept = found[ids[mode]]
            run.must(29, bool(status) == succeeds, f"{mode}: {'acknowledged' if succeeds else 'failed'}, got {status}")
            if mode != "after/9.5" and mode != "endless":
                run.must(29, 10_000 <= took, f"{mode}: cut after {took} ms")
                run.say(29, f"{mode}: cut after", took / 1_000, 10.5, "s")
            run.say(29, f"{mode}: bytes kept of the answer", int(kept or 0), 1_024, "")
        hooks.receiver.close()


async def spread(run, hanging, seconds):
    """Returns the p99 from due to received at those of 1,000 endpoints that do not hang, each with one delivery a
    second."""
    count = max(50, int(1_000 * run.scale))
    hanging = int(hanging * count) if hanging < 1 else hanging
    async with admin(run) as only:
        hooks = Hooks(only)
        endpoints = hooks.endpoints([f"hang/{n}" if n < hanging else f"ok/{n}" for n in range(count)])
        for _ in range(seconds):
            began = time.monotonic()
            await asyncio.to_thread(hooks.deliver, endpoints)
            await asyncio.sleep(max(0.0, began + 1 - time.monotonic()))
        expected = (count - hanging) * seconds
        end = time.monotonic() + 60
        while time.monotonic() < end:
            took = [at - hooks.log[id] for at, path, id, *_ in hooks.receiver.seen() if path.startswith("/ok/")]
            if len(took) >= expected:
                break
            await asyncio.sleep(0.2)
        run.must(30, len(took) == expected, f"each healthy endpoint gets its deliveries: {len(took)} of {expected}")
        hooks.receiver.close()
        return part(took, 0.99)


async def promise_30(run):
    """Endpoints that hang do not delay the others."""
    seconds = max(5, int(30 * run.scale))
    alone, one, many = [await spread(run, hanging, seconds) for hanging in (0, 1, 0.2)]
    run.say(30, "p99 from due to received while a fifth of 1,000 endpoints hangs", many, 2.0, "s")
    run.say(30, f"what one dead endpoint adds to the p99 of the others ({alone * 1000:.0f} ms without)", max(0.0, one - alone), max(0.1, alone * 0.2), "s")


def bodies(dice, count):
    """Returns bodies of every kind."""
    for number in range(count):
        data = {"name": "Zürich ✓ 東京 🚀", "value": str(2**256 - 1 - number), "nonce": 2**64 - 1, "text": dice.choice(["", "\"\\/\b\n", "\u2028"])}
        if number % 50 == 0:
            data["topics"] = [dice.randbytes(32).hex() for _ in range(300)]
        yield json.dumps({"chain": "eth", "event_type": "contract_event", "data": data}, ensure_ascii=False).encode()


async def promise_54(run):
    """Signatures, checked by Python's own HMAC, and the number of deliveries a second of one dispatcher."""
    count = max(500, int(10_000 * run.scale))
    async with admin(run) as only:
        hooks = Hooks(only)
        endpoints = hooks.endpoints([f"ok/{number}" for number in range(20)])
        hooks.deliver([endpoints[number % 20] for number in range(count)], list(bodies(random.Random(run.seed), count)))
        pending = await hooks.settled(180)
        seen = hooks.receiver.seen()
        run.must(54, pending == 0 and len({one[2] for one in seen}) == count, f"all {count} events arrive, got {len(seen)}")
        run.say(54, f"signatures of {count:,} events that do not hold", sum(not one[4] for one in seen), 0, "")
        many = 4 * count
        first = len(seen)
        hooks.deliver([endpoints[number % 20] for number in range(many)])
        await hooks.settled(180)
        times = sorted(one[0] for one in hooks.receiver.seen()[first:])
        # The first ones may arrive while the rest is still being written.
        half = times[len(times) // 2 :]
        rate = len(half) / (half[-1] - half[0])
        run.say(54, f"time for each delivery to a fast receiver ({rate:,.0f} deliveries a second)", 1_000 / rate, 1_000 / 3_000, "ms")
        hooks.receiver.close()
