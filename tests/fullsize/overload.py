"""More calls than a chain's nodes can answer."""

import asyncio
import json
import time

from .client import Client
from .gateway import Gateway, chains
from .node import NodeApart

# The number of calls that the node works on at a time, and the seconds that each takes.
PLACES, TAKES = 24, 0.06
CAPACITY = PLACES / TAKES


class SmallNode(NodeApart):
    """A node in a separate process that works on `PLACES` calls at a time and queues the others."""

    async def start(self):
        self.places = asyncio.Semaphore(PLACES)
        return await super().start()

    async def answer(self, body, reader, writer):
        if json.loads(body).get("method") == "m":
            async with self.places:
                await asyncio.sleep(TAKES)
        return await super().answer(body, reader, writer)


class Load:
    """Calls at a rate that does not depend on their answers."""

    def __init__(self, gateway):
        self.gateway, self.idle, self.calls, self.number, self.seen = gateway, [], set(), 0, []

    async def call(self):
        """Makes one call and records its start, its latency, its status, and whether the answer has `Retry-After`."""
        client = self.idle.pop() if self.idle else Client(self.gateway)
        self.number += 1
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "m", "params": [self.number]}).encode()
        start = time.perf_counter()
        try:
            status, headers, _ = await client.post(body)
        except (OSError, asyncio.IncompleteReadError):
            client.close()
            status, headers = 0, {}
        self.seen.append((start, time.perf_counter() - start, status, "retry-after" in headers))
        self.idle.append(client)

    async def run(self, seconds, begin, end):
        """Calls for `seconds`, at a rate that goes from one multiple of the capacity to another. Returns start and end.
        """
        start = due = time.perf_counter()
        while (passed := due - start) < seconds:
            if (early := due - time.perf_counter()) > 0:
                await asyncio.sleep(early)
            task = asyncio.create_task(self.call())
            self.calls.add(task)
            task.add_done_callback(self.calls.discard)
            due += 1 / (CAPACITY * (begin + (end - begin) * passed / seconds))
        return start, start + seconds

    async def end(self):
        while self.calls:
            await asyncio.wait(self.calls)
        for client in self.idle:
            client.close()

    def among(self, span, statuses):
        """Returns the calls with these statuses that started in this time."""
        return [seen for seen in self.seen if span[0] <= seen[0] < span[1] and seen[2] in statuses]


def p99(calls):
    took = sorted(seen[1] for seen in calls)
    return took[len(took) * 99 // 100] if took else 0.0


def goodput(load, span):
    """Returns the answered calls per second, by the time of their answers."""
    return sum(span[0] <= made + took < span[1] for made, took, status, _ in load.seen if status == 200) / (span[1] - span[0])


async def promise_15(run):
    """From half of the node's capacity to three times as much and back."""
    node = SmallNode().start_apart()
    length = max(0.5, run.scale)
    async with Gateway(run, chains(eth=([node], ""))) as gateway:
        load = Load(gateway)
        half = await load.run(10 * length, 0.5, 0.5)
        ramp = await load.run(20 * length, 0.5, 3)
        full = await load.run(30 * length, 3, 3)
        back = await load.run(15 * length, 0.5, 0.5)
        await load.end()
    node.process.kill()

    usual = p99(load.among(half, {200}))
    run.must(15, not load.among(half, {503}), "half of the capacity is admitted")
    # The best five seconds from the ramp on.
    windows = int((full[1] - ramp[0]) // 5)
    peak = max(goodput(load, (ramp[0] + 5 * n, ramp[0] + 5 * n + 5)) for n in range(windows))
    kept = goodput(load, full)
    run.say(15, f"goodput lost at three times the capacity ({kept:.0f} calls/s, at its peak {peak:.0f})", 100 * (1 - kept / peak), 15, "%")
    shed = load.among(full, {503})
    run.must(15, len(shed) > len(load.among(full, {200})), f"what exceeds the capacity is refused: {len(shed)} calls")
    run.must(15, all(seen[3] for seen in shed), "a refusal says when to come again")
    others = [seen for seen in load.seen if seen[2] not in (200, 503)]
    run.must(15, not others, f"{len(others)} calls were answered neither 200 nor 503")
    run.say(15, "p99 of refusals at three times the capacity", 1000 * p99(shed), 20, "ms")
    late = p99(load.among(full, {200}))
    run.say(15, f"p99 of admitted calls ({1000 * late:.0f} ms) by that at half of the capacity ({1000 * usual:.0f} ms)", late / usual, 3, "times")
    after = [made - back[0] for made, took, status, _ in load.among(back, {200, 503}) if status == 503 or took > 3 * usual]
    run.say(15, "time until everything is admitted and in time again", max(after, default=0.0), 5, "s")
