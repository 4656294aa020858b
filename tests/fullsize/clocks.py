"""Several gateways, and clocks that jump."""

import asyncio
import collections
import glob
import pathlib
import random
import time
import uuid

from .client import Client, timed
from .cluster import Cluster, ask, started
from .gateway import chains
from .ledger import Ledger
from .node import Node
from .oracle import Oracle, mixed, weight


class FakeTime:
    """The wall clock of gateways, as an offset in seconds from the real one. The monotonic clock is not changed."""

    def __init__(self, folder):
        found = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
        if not found:
            raise SystemExit("needs libfaketime (apt install faketime)")
        self.file = pathlib.Path(folder) / "faketime"
        self.beside = 0.0
        self.set(0)
        self.env = {"LD_PRELOAD": found[0], "FAKETIME_TIMESTAMP_FILE": str(self.file), "FAKETIME_NO_CACHE": "1", "DONT_FAKE_MONOTONIC": "1"}

    def set(self, beside):
        self.beside = beside
        new = self.file.with_name("faketime.new")
        new.write_text(f"{beside:+f}\n")
        new.replace(self.file)

    def now(self):
        return time.time() + self.beside


def arrival(headers):
    """Returns the arrival of a request in seconds, from its id."""
    return (uuid.UUID(headers["x-request-id"]).int >> 80) / 1000


async def promise_21(run):
    """The clock of one gateway, and then of both, is set forward and back by an hour."""
    oracle, over = Oracle(run.seed), asyncio.Event()
    nodes, lines = mixed()
    hung = await Node().start()
    hung.mode = "hang"
    await started(nodes)
    premium = "[plans.premium]\nper_minute = 60\nper_hour = 1000000000\nper_day = 1000000000\n"
    more = chains(polygon=([hung], 'timeout = "2s"')) + premium
    async with Cluster(run, lines() + more) as cluster:
        clocks = [FakeTime(gateway.folder) for gateway in cluster.gateways]
        for gateway, clock in zip(cluster.gateways, clocks):
            gateway.kill()
            gateway.env = clock.env
            await gateway.start()
            await gateway.until_together()
        loads = [cluster.load(oracle, over, gateway) for gateway in cluster.gateways]
        strange, longest, waits, seen = 0, 0.0, [], 0
        for number, (one, both) in enumerate([(3600, 0), (0, 0), (-3600, 0), (0, 0), (3600, 3600), (0, 0), (-3600, -3600), (0, 0)] * 2):
            clocks[0].set(one)
            clocks[1].set(both)
            before = len(oracle.took)
            end = time.perf_counter() + max(1.0, 10 * run.scale)
            key = cluster.database.admit(f"rpcg_{f'jump{number}':x<45}", "premium")
            for gateway, clock in zip(cluster.gateways, clocks):
                client = Client(gateway, key)
                for _ in range(100):
                    status, headers, _ = await ask(client)
                    seen += abs(arrival(headers) - clock.now()) < 5
                    if status == 429:
                        waits.append(int(headers["retry-after"]))
                    strange += status not in (200, 429)
                client.close()
                client = Client(gateway, "two")
                (_, _, answer), took = await timed(client.call("eth_getBalance", [number], "polygon"))
                client.close()
                run.must(21, answer["error"]["code"] == -32603, f"a call to a node that hangs is -32603, got {answer}")
                longest = max(longest, took)
            while time.perf_counter() < end or len(oracle.took) < before + 200:
                await asyncio.sleep(0.01)
        over.set()
        await asyncio.gather(*loads)
        run.must(21, seen == 16 * 2 * 100, f"the clock was set: {seen}")
        run.must(21, waits and all(0 <= wait <= 60 for wait in waits), f"Retry-After is within this minute: {min(waits)} to {max(waits)}")
        run.say(21, f"statuses other than 200 and 429 (Retry-After {min(waits)} to {max(waits)} s, {len(waits)} times)", strange, 0, "")
        run.say(21, "a call to a node that hangs, whose timeout is 2 s", longest, 2.5, "s")
        run.say(21, "requests without an answer at 16 jumps by an hour", len(oracle.unanswered), 0, "")
        run.say(21, "from the last call until the usage records were complete", await cluster.complete(oracle), 60, "s")
        await cluster.ends(run, 21, oracle)


async def promise_22(run):
    """Units leave the quota 24 hours after the start of the hour of their use, regardless of the gateway."""
    dice, node = random.Random(run.seed), await Node().start()
    steps, ceiling = max(200, int(10_000 * run.scale)), 2_000
    methods = ["unheard_of", "eth_getBalance", "eth_getBlockByNumber", "eth_call", "eth_sendRawTransaction"]
    # All servers stay reachable: all gateways must count together, even on a slow machine.
    async with Cluster(run, chains(eth=([node], "")), patience="10s") as cluster:
        clock = FakeTime(cluster.gateways[0].folder)
        for gateway in cluster.gateways:
            gateway.kill()
            gateway.env = clock.env
            await gateway.start()
            await gateway.until_together()
        key = cluster.database.admit(f"rpcg_{'quota':x<45}", "enterprise", ceiling)
        clients, hours, wrong, refused = [Client(gateway, key) for gateway in cluster.gateways], collections.Counter(), 0, 0

        def used(hour):
            return sum(units for at, units in hours.items() if hour - 24 < at <= hour)

        async def step(number, client, method):
            """Reports whether the call was served. Counts differences from the model."""
            nonlocal wrong, refused
            _, headers, answer = await ask(client, method, [number])
            hour, cost = int(arrival(headers) // 3600), weight("eth", method)
            served, due = "result" in answer, used(hour) < ceiling
            wrong += served != due or int(headers["x-compute-units"]) != (cost if served else 0)
            run.must(22, served == due or wrong > 5, f"step {number}: {used(hour)} units are used, and the call got {answer} at {arrival(headers):.3f}")
            refused += not served
            hours[hour] += cost if served else 0
            return served, arrival(headers)

        for number in range(steps):
            if dice.random() < 0.05:
                clock.set(clock.beside + dice.uniform(0, 10_800))
            await step(number, dice.choice(clients), dice.choice(methods))
        run.must(22, refused > steps / 50, f"the ceiling was reached: {refused}")
        late = early = 0
        for number in range(max(1, int(10 * run.scale))):
            # The quota is used up within an hour, so it is free again a day after the start of that hour.
            clock.set(clock.beside + 90_000 + 3_600 - clock.now() % 3_600 + 5)
            while (await step(number, dice.choice(clients), "eth_sendRawTransaction"))[0]:
                pass
            clock.set(clock.beside + 86_400 - clock.now() % 3_600 - 0.5)
            free = int(clock.now() // 3600 + 1) * 3600
            served, at = False, 0.0
            while not served:
                served, at = await step(number, clients[number % 2], "unheard_of")
            late, early = max(late, at - free), max(early, free - at)
        run.say(22, f"calls of {steps:,} at 2 gateways over {len(hours)} hours that differ from the model ({refused} refused)", wrong, 0, "")
        run.say(22, "units free again after h+24:00:00", late, 1.0, "s")
        run.say(22, "units free before that time", early, 0.0, "s")
        for client in clients:
            client.close()
        await asyncio.gather(*(gateway.stop() for gateway in cluster.gateways))
        _, units = Ledger(cluster).total()
        run.say(22, f"difference of the usage records in units, of {sum(hours.values()):,}", abs(units - sum(hours.values())), 0, "")
