"""Kills, truncated journals, replays, exact sums."""

import asyncio
import collections
import json
import pathlib
import random
import shutil
import tempfile

from .client import Client
from .gateway import Gateway, chains
from .journal import events
from .ledger import Ledger
from .node import Node
from .oracle import WEIGHTS, Oracle, is_refused, mixed, weight


async def promise_1(run):
    """kill -9 loses no record of an answered call."""
    seed = run.seed
    oracle, dice = Oracle(seed), random.Random(seed + 1)
    nodes, lines = mixed()
    for node in nodes:
        await node.start()
    kills, gateway = max(3, int(20 * run.scale)), None
    async with Gateway(run, lines()) as gateway:
        for number in range(kills):
            # Every other time at full speed.
            load = asyncio.create_task(oracle.load(gateway, rate=300 if number % 2 else 100_000))
            await asyncio.sleep(dice.uniform(0.5, 3.0))
            gateway.kill()
            await load
            if dice.random() < 0.3:
                # The gateway is killed again, in about half of the cases before it is ready.
                starting = asyncio.create_task(gateway.start())
                await asyncio.sleep(dice.uniform(0.0, 0.1))
                gateway.kill()
                await asyncio.gather(starting, return_exceptions=True)
            await gateway.start()
        recorded = list(Ledger(gateway).events())
    oracle.compare(run, 1, recorded)
    run.say(1, f"requests in flight at {kills} kills, seed {seed}", len(oracle.unanswered), 64 * kills, "")


async def left_behind(run, oracle, folder, lines, count, env=None):
    """Returns a gateway that was killed after this number of requests of one caller, and its journal's segments."""
    gateway = await Gateway(run, lines, folder=folder, env=env).start()
    client = Client(gateway)
    for _ in range(count):
        await oracle.send(client)
    gateway.kill()
    client.close()
    return gateway


async def promise_2(run):
    """Wherever the journal is truncated, each of its complete records is replayed once."""
    oracle = Oracle(run.seed)
    nodes, lines = mixed()
    for node in nodes:
        await node.start()
    with tempfile.TemporaryDirectory() as folder:
        gateway = await left_behind(run, oracle, folder, lines(), 400, {"TOKIO_WORKER_THREADS": "1"})
        segments = gateway.segments()
        run.must(2, len(segments) == 1, f"one thread writes one segment, got {len(segments)}")
        data = segments[0].read_bytes()
        written = list(events(data[64:]))
        charged = sum(line.cu for event in written for line in event.lines)
        charged_calls = oracle.charged()
        run.must(2, charged == charged_calls and 64 + written[-1].end == len(data), f"{charged} units in the journal, {charged_calls} in the answers")
        tail = range(len(data) - min(4096, len(data)), len(data) + 1)
        cuts = sorted(random.Random(run.seed).sample(tail, min(len(tail), max(10, int(200 * run.scale)))))
        wrong = 0
        for cut in cuts:
            with tempfile.TemporaryDirectory() as copy:
                journal = pathlib.Path(copy) / "journal"
                journal.mkdir(mode=0o700)
                shutil.copy(pathlib.Path(folder) / "journal" / "gateway", journal)
                (journal / segments[0].name).write_bytes(data[:cut])
                whole = [event for event in written if 64 + event.end <= cut]
                again = Gateway(run, lines(), folder=copy)
                for _ in range(2):
                    await again.start()
                    again.kill()
                    found = {event.request: event for event in Ledger(again).events()}
                    calls, units = Ledger(again).total()
                    wanted = sum(line.calls for event in whole for line in event.lines), sum(line.cu for event in whole for line in event.lines)
                    wrong += (calls, units) != wanted or list(found) != [event.request for event in whole]
        run.say(2, f"starts of {2 * len(cuts)} on a truncated journal that lost or doubled a complete record", wrong, 0, "")


async def promise_3(run):
    """Replay is idempotent."""
    oracle = Oracle(run.seed)
    nodes, lines = mixed()
    for node in nodes:
        await node.start()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as twin:
        gateway = await left_behind(run, oracle, folder, lines(), max(200, int(2_000 * run.scale)))
        held = {path: path.read_bytes() for path in gateway.segments()}
        shutil.copytree(pathlib.Path(folder) / "journal", pathlib.Path(twin) / "journal")
        other = Gateway(run, lines(), folder=twin, database=gateway.database)
        # Both replay the same journal at once into the same database.
        await asyncio.gather(gateway.start(), other.start())
        other.kill()
        gateway.kill()
        ledger = Ledger(gateway)
        before = ledger.sums()
        charged_calls = oracle.charged()
        run.say(3, f"units of {charged_calls:,} that two replays at once changed", abs(ledger.total()[1] - charged_calls), 0, "")
        changed = 0
        for _ in range(3):
            for path, data in held.items():
                path.write_bytes(data)
            await gateway.start()
            gateway.kill()
            changed += ledger.sums() != before
        run.say(3, "of 3 replays that changed a sum", changed, 0, "")
        oracle.compare(run, 3, list(ledger.events()))


async def promise_4(run):
    """Metering is exact."""
    dice, count = random.Random(run.seed), int(1_000_000 * run.scale) + 2_000
    nodes = {chain: await Node(utxo=chain not in ("eth", "bsc", "polygon", "avax")).start() for chain in WEIGHTS}
    pools = {}
    for chain, node in nodes.items():
        node.errors["broken_call"] = {"code": -5, "message": "no"}
        pools[chain] = list(WEIGHTS[chain]) + ["unheard_of", "broken_call", "stop" if node.utxo else "admin_peers"]
    # A key may call it once a minute, so it is called once below.
    pools["eth"].remove("eth_getLogs")
    model = collections.defaultdict(lambda: [0] * 8)
    number = 0

    def add(chain, method, bytes_in, bytes_out):
        cu = 0 if is_refused(method) else weight(chain, method)
        parts = (1, cu > 0, cu, method == "broken_call" or is_refused(method), is_refused(method), 0, bytes_in, bytes_out)
        model[chain, method] = [a + b for a, b in zip(model[chain, method], parts)]
        return cu

    async def ask(client, chain, methods):
        nonlocal number
        items = []
        for method in methods:
            number += 1
            # Some calls are repeated; they are cached if their method is.
            params = [number % 7 if dice.random() < 0.3 else number]
            items.append(json.dumps({"jsonrpc": "2.0", "id": 1_000 + number, "method": method, "params": params}))
        batch = len(items) > 1
        body = f"[{','.join(items)}]" if batch else items[0]
        status, headers, answer = await client.post(body.encode(), chain)
        text, at, slices = answer.decode(), 0, [len(answer)]
        if batch:
            decoder, slices = json.JSONDecoder(), []
            for _ in items:
                at += 1
                _, end = decoder.raw_decode(text, at)
                slices.append(end - at)
                at = end
            run.must(4, text[at:] == "]", f"the answer of a batch ends with its items: {text[at:][:40]!r}")
        # Bytes that belong to no call are counted for the first call.
        spare_in, spare_out = len(body) - sum(map(len, items)), len(answer) - sum(slices)
        units = 0
        for place, (method, item, out) in enumerate(zip(methods, items, slices)):
            first = place == 0
            units += add(chain, method, len(item) + first * spare_in, out + first * spare_out)
        run.must(4, int(headers["x-compute-units"]) == units, f"{headers['x-compute-units']} units charged, {units} due: {body[:200]}")

    async def worker(gateway, share):
        client, done = Client(gateway), 0
        while done < share:
            chain = dice.choice(list(pools))
            size = dice.choice([1, 1, 2, 10, 50, 100])
            await ask(client, chain, dice.choices(pools[chain], k=size))
            done += size
        client.close()

    async with Gateway(run, chains(**{chain: ([node], "") for chain, node in nodes.items()})) as gateway:
        await ask(Client(gateway), "eth", ["eth_getLogs"])
        await asyncio.gather(*(worker(gateway, count // 16) for _ in range(16)))
        await gateway.stop()
        sums, calls = Ledger(gateway).sums(), sum(row[0] for row in model.values())
        for (chain, method), row in model.items():
            asked = sum(n for (name, _), n in nodes[chain].counts.items() if name == method)
            # Answered calls without a request to a node came from the cache.
            row[5] = 0 if is_refused(method) else row[0] - asked
        missing = set(pools_rows(pools)) - set(sums)
        run.must(4, not missing or run.scale < 1, f"called of every method: {sorted(missing)}")
        differ = {name: (sums.get(name), tuple(row)) for name, row in model.items() if sums.get(name) != tuple(row)}
        for name, (found, due) in sorted(differ.items())[:5]:
            run.must(4, False, f"{name}: the usage records have {found}, due is {due}")
        run.say(4, "rows of the usage records without a call", len(set(sums) - set(model)), 0, "")
        units = sum(row[2] for row in sums.values()), sum(row[2] for row in model.values())
        run.say(4, f"difference of the usage records in units, of {units[1]:,} for {calls:,} calls, seed {run.seed}", abs(units[0] - units[1]), 0, "")
        run.say(4, "sums of a chain's method that differ (calls, billed, units, errors, cache hits, bytes)", len(differ), 0, "")


def pools_rows(pools):
    return [(chain, method) for chain, pool in pools.items() for method in pool]
