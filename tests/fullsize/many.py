"""Several gateways that may be killed, frozen or reloaded."""

import asyncio
import collections
import hashlib
import random
import shutil
import time
import uuid

from .client import Client, Owner, timed
from .cluster import CONNECTIONS, Cluster, admitted, ask, started
from .gateway import SECRET, chains
from .ledger import Ledger
from .node import Node
from .oracle import Oracle, mixed

LIMIT = 600


async def promise_1(run):
    """kill -9 of gateways and of the management side, in turn."""
    oracle, dice = Oracle(run.seed), random.Random(run.seed + 1)
    nodes, lines = mixed()
    await started(nodes)
    rounds, over, kept, slowest = max(3, int(20 * run.scale)), asyncio.Event(), [], 0.0
    async with Cluster(run, lines(), admin=True, secret=SECRET) as cluster:
        owner = Owner(cluster.admin)
        project = await owner.settle("ada@example.com")
        loads = [cluster.load(oracle, over, gateway) for gateway in cluster.gateways]
        for number in range(rounds):
            await asyncio.sleep(dice.uniform(0.5, 3.0))
            if number % 3 < 2:
                gateway, other = cluster.gateways[number % 3], 1 - number % 3
                lost = len(oracle.unanswered)
                gateway.kill()
                await loads[number % 3]
                run.must(1, not loads[other].done(), "calls to the other gateway go on")
                run.must(1, len(oracle.unanswered) - lost <= CONNECTIONS // 2, "every unanswered request was in flight")
                await gateway.start()
                loads[number % 3] = cluster.load(oracle, over, gateway)
                continue
            (_, spared), (key, revoked) = await owner.make_key(project), await owner.make_key(project)
            clients = [(Client(gateway, spared), Client(gateway, revoked)) for gateway in cluster.gateways]
            for pair in clients:
                for client in pair:
                    run.must(1, (await ask(client))[0] == 200, "a new key is served")
            status, _ = await owner.ask("DELETE", f"keys/{key}")
            run.must(1, status == 204, f"revoking got {status}")
            # The management side is killed right after the answer.
            cluster.admin.kill()
            since = time.perf_counter()
            for _, client in clients:
                while (await ask(client))[0] != 401:
                    await asyncio.sleep(0.005)
                slowest = max(slowest, time.perf_counter() - since)
            await cluster.admin.start()
            kept.append(spared)
            for pair in clients:
                for client in pair:
                    client.close()
        for gateway in cluster.gateways:
            for key in kept:
                client = Client(gateway, key)
                run.must(1, (await ask(client))[0] == 200, "a new key is stored")
                client.close()
        over.set()
        await asyncio.gather(*loads)
        shipped = await cluster.complete(oracle)
        owner.close()
        run.say(1, f"until a key revoked right before a kill was refused everywhere, {len(kept)} times", slowest, 1.0, "s")
        run.say(1, "from the last call until the usage records were complete", shipped, 60, "s")
        run.say(1, f"requests in flight at {rounds} kills of 2 gateways and the management side, seed {run.seed}", len(oracle.unanswered), CONNECTIONS // 2 * rounds, "")
        await cluster.ends(run, 1, oracle)


async def promise_3(run):
    """Two gateways replay at once records that could not be shipped before."""
    oracle = Oracle(run.seed)
    nodes, lines = mixed()
    await started(nodes)
    count = max(100, int(2_000 * run.scale))
    async with Cluster(run, lines()) as cluster:
        one, other = cluster.gateways
        other.kill()
        client = Client(one)
        for _ in range(count):
            await oracle.send(client)
        cluster.postgresql.stop()
        for _ in range(count):
            await oracle.send(client)
        one.kill()
        client.close()
        shutil.rmtree(other.folder / "journal")
        shutil.copytree(one.folder / "journal", other.folder / "journal")
        held = {gateway: {path.name: path.read_bytes() for path in one.segments()} for gateway in cluster.gateways}
        cluster.postgresql.start()
        changed, before = 0, None
        for _ in range(3):
            for gateway, files in held.items():
                for name, data in files.items():
                    (gateway.folder / "journal" / name).write_bytes(data)
            await asyncio.gather(one.start(), other.start())
            sums = Ledger(cluster).sums()
            changed += before not in (None, sums)
            before = sums
            one.kill()
            other.kill()
        ledger = Ledger(cluster)
        run.say(3, f"units of {oracle.charged():,} that replays by 2 gateways at once changed", abs(ledger.total()[1] - oracle.charged()), 0, "")
        run.say(3, "of 3 replays by both that changed a sum", changed, 0, "")
        oracle.compare(run, 3, list(ledger.events()))
        await asyncio.gather(one.start(), other.start())


async def promise_55(run):
    """A gateway is frozen for longer than the others wait for it, and then continues."""
    oracle, over, dice = Oracle(run.seed), asyncio.Event(), random.Random(run.seed + 1)
    nodes, lines = mixed()
    await started(nodes)
    rounds = max(2, int(20 * run.scale))
    premium = f"[plans.premium]\nper_minute = 1000000000\nper_hour = 1000000000\nper_day = {LIMIT}\n"
    async with Cluster(run, lines() + premium) as cluster:
        loads = [cluster.load(oracle, over, gateway) for gateway in cluster.gateways]
        overrun = stale = 0
        dearest, slowest, longest = 0, 0.0, 0.0
        for number in range(rounds):
            frozen, other = cluster.gateways[number % 2], cluster.gateways[1 - number % 2]
            window = cluster.database.admit(f"rpcg_{f'window{number}':x<45}", "premium")
            units = cluster.database.admit(f"rpcg_{f'units{number}':x<45}", "enterprise", 100_000)
            # Both know the keys and have a slice of the ceiling.
            used = 0
            for gateway in cluster.gateways:
                run.must(55, (await admitted([gateway], window, 20))[0] == 20, "it is served")
                client = Client(gateway, units)
                for call in range(10):
                    used += int((await ask(client, "eth_call", [number, call]))[1]["x-compute-units"])
                client.close()
            await asyncio.sleep(dice.uniform(0.0, 0.3))
            frozen.freeze()
            # Gateways count a gateway as live for 10 s; a transaction of a frozen one ends sooner.
            nap = 12.0 if number % 4 < 2 else dice.uniform(0.3, 3.0)
            thaw = time.perf_counter() + nap
            before = len(oracle.took)
            served, _ = await admitted([other], window, LIMIT)
            run.must(55, served == LIMIT - 40, f"the other gateway admits the rest of the window, got {served}")
            client = Client(other, units)
            while True:
                _, headers, answers = await client.batch([("eth_sendRawTransaction", [number, n]) for n in range(100)])
                used += int(headers["x-compute-units"])
                if any("error" in answer for answer in answers):
                    break
            client.close()
            client = Client(other, "two")
            while time.perf_counter() < thaw:
                _, took = await timed(ask(client))
                slowest = max(slowest, took)
                await asyncio.sleep(0.05)
            client.close()
            run.must(55, len(oracle.took) > before + 20, "the other gateway continues")
            frozen.thaw()
            # Units that the others have used count here at once.
            (served, _), took = await timed(admitted([frozen], window, 20))
            overrun, longest = overrun + served, max(longest, took)
            client = Client(frozen, units)
            for call in range(200):
                _, headers, _ = await ask(client, "eth_sendRawTransaction", [number, "late", call])
                used += int(headers["x-compute-units"])
            client.close()
            dearest = max(dearest, used - 100_000)
            stale += any(load.done() for load in loads)
        over.set()
        await asyncio.gather(*loads)
        shipped = await cluster.complete(oracle)
        run.say(55, f"rounds of {rounds} after which calls of the load ended", stale, 0, "")
        run.say(55, "requests without an answer", len(oracle.unanswered), 0, "")
        run.say(55, f"calls admitted beyond windows that others had used up, {rounds} times", overrun, 0, "")
        run.say(55, "units over a ceiling of 100,000", dearest, 20, "")
        run.say(55, "slowest answer of the other gateway", slowest, 1.0, "s")
        run.say(55, "from its thaw until it had answered 20 calls", longest, 5.0, "s")
        run.say(55, "from the last call until the usage records were complete", shipped, 60, "s")
        await cluster.ends(run, 55, oracle)


async def promise_25(run):
    """Reloads of two gateways under load."""
    oracle, over = Oracle(run.seed), asyncio.Event()
    nodes, lines = mixed()
    extra = await Node().start()
    await started(nodes)
    rounds = max(4, int(20 * run.scale))

    def with_weight(weight):
        return lines() + chains(avax=([extra], f"cu = {{ weighed = {weight} }}"))

    async with Cluster(run, with_weight(5)) as cluster:
        loads = [cluster.load(oracle, over, gateway) for gateway in cluster.gateways]
        charged, failed = {}, []

        async def weigh(gateway):
            client = Client(gateway)
            while not over.is_set():
                status, headers, answer = await client.call("weighed", [], "avax")
                charged[uuid.UUID(headers["x-request-id"])] = int(headers["x-compute-units"])
                if (status, answer.get("result")) != (200, "ok"):
                    failed.append((status, answer))
                await asyncio.sleep(0.002)
            client.close()

        weighing = [asyncio.create_task(weigh(gateway)) for gateway in cluster.gateways for _ in range(4)]
        wrong = refused = 0
        for number in range(rounds):
            weight = (7, 5)[number % 2]
            for gateway in cluster.gateways:
                gateway.lines = with_weight(weight)
                run.must(25, await gateway.reload(gateway.text()), "a configuration is accepted")
                client = Client(gateway)
                wrong += int((await client.call("weighed", [], "avax"))[1]["x-compute-units"]) != weight
                if number % 2:
                    refused += not await gateway.reload(gateway.text().replace("cu = {", "cu = { weighed = -1, "))
                    wrong += int((await client.call("weighed", [], "avax"))[1]["x-compute-units"]) != weight
                client.close()
            await asyncio.sleep(0.5)
        over.set()
        await asyncio.gather(*loads, *weighing)
        run.say(25, f"calls of {len(oracle.took):,} and {len(charged):,} that failed over {rounds} reloads of 2 gateways", len(failed) + len(oracle.wrong) + len(oracle.unanswered), 0, "")
        run.must(25, refused == 2 * (rounds // 2), f"invalid files are refused: {refused}")
        run.say(25, "calls after a reload, or an invalid file, that were charged with other weights", wrong, 0, "")
        await asyncio.gather(*(gateway.stop() for gateway in cluster.gateways))
        found = {}
        for event in Ledger(cluster).events():
            if event.chain == "avax":
                found[event.request] = sum(line.cu for line in event.lines)
        differ = sum(found.get(request) != units for request, units in charged.items())
        run.must(25, set(charged.values()) == {5, 7}, f"both weights occur: {collections.Counter(charged.values())}")
        run.say(25, f"of {len(charged):,} rows that are billed differently from their answers", differ, 0, "")
        oracle.compare(run, 25, [event for event in Ledger(cluster).events() if event.chain != "avax"])


async def promise_66(run):
    """A quota is lowered to 0 while three gateways serve a load under it."""
    node = await Node().start()
    async with Cluster(run, chains(eth=([node], "")), gateways=3, admin=True) as cluster:
        operator = Owner(cluster.admin)
        await operator.log_in_as_operator("operator@example.com")
        late, rounds = 0.0, max(2, int(10 * run.scale))
        for number in range(rounds):
            key = cluster.database.admit(f"rpcg_{f'lower{number}':x<45}", "enterprise", 1_000_000)
            ((project,),) = cluster.database.rows(f"SELECT project_id FROM keys WHERE prefix = '{key[:12]}' AND hash = {cluster.database.blob(hashlib.sha256(key.encode()).digest())}")
            over, last = asyncio.Event(), [0.0] * 3

            async def caller(place, gateway):
                client = Client(gateway, key)
                while not over.is_set():
                    _, _, answer = await ask(client, "eth_getBalance", [number, place, time.perf_counter()])
                    if "result" in answer:
                        last[place] = time.perf_counter()
                client.close()

            callers = [asyncio.create_task(caller(place, gateway)) for place, gateway in enumerate(cluster.gateways) for _ in range(4)]
            await asyncio.sleep(1.0 + number % 2)
            lowered = time.perf_counter()
            run.must(66, min(last) > lowered - 0.5, "calls are served at every gateway until then")
            status, answer = await operator.ask("PUT", f"operator/projects/{project}/quota", {"cu_per_day": 0})
            run.must(66, status == 200, f"lowering a quota got {status}: {answer}")
            await asyncio.sleep(4.0)
            over.set()
            await asyncio.gather(*callers)
            late = max(late, max(last) - lowered)
        run.say(66, f"from lowering a quota to 0 until none of three gateways served a call, {rounds} times", late, 1.0, "s")
        operator.close()
