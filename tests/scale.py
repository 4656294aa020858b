#!/usr/bin/env python3
"""Measures how the costs of a gateway grow with the keys in its SQLite database, and prints a row for each number of keys.

    cargo build --release
    python3 tests/scale.py                     # 1,000, 100,000 and 1,000,000 keys
    python3 tests/scale.py --keys 1000,10000

Columns: the database's size; seconds until a gateway is ready; milliseconds of a first call with a key, which is
looked up, and of a second one, which is cached (median and 99th percentile of up to 2,000 keys); bytes of memory for
each cached key, by calls with up to 100,000 of them; milliseconds from a revocation in the database until the key is
refused (median and longest of 20), and the same behind changes of all keys that were committed with it.
"""

import argparse
import asyncio
import hashlib
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
import types
from uuid import UUID

from fullsize.client import Client, timed
from fullsize.gateway import Gateway, NotStarted, chains
from fullsize.node import Node
from fullsize.oracle import part
from promises import Run

# The number of keys of a project, and of parallel calls.
PROJECT, AT_ONCE = 100, 64
# `REMEMBERED` keys fit into a gateway's cache.
SAMPLE, REMEMBERED, REVOKED = 2_000, 100_000, 20


def text(number):
    return f"rpcg_{number:0>45}"


def fill(file, keys):
    """Creates tenants with a project of a hundred keys each."""
    with sqlite3.connect(file, timeout=60) as database:
        database.execute("PRAGMA synchronous = OFF")
        owners = [(number.to_bytes(16), number.to_bytes(16)) for number in range(1, keys // PROJECT + 2)]
        database.executemany("INSERT INTO tenants (id, name, tier, suspended, created_at) VALUES (?, 't', 'enterprise', false, 0)", [row[:1] for row in owners])
        columns = "id, tenant_id, name, allowed_methods, blocked_methods, created_at"
        database.executemany(f"INSERT INTO projects ({columns}) VALUES (?, ?, 'p', '[]', '[]', 0)", owners)

        def rows():
            for number in range(1, keys + 1):
                key = text(number)
                yield (1 << 64 | number).to_bytes(16), (number // PROJECT + 1).to_bytes(16), key[:12], hashlib.sha256(key.encode()).digest()

        columns = "id, project_id, description, prefix, hash, created_at"
        database.executemany(f"INSERT INTO keys ({columns}) VALUES (?, ?, '', ?, ?, 0)", rows())
    database.close()


def uuid(number):
    return str(UUID(int=1 << 64 | number))


async def call(client):
    status, _, _ = await client.call("eth_chainId", [])
    return status


async def measure(run, keys):
    node, dice = await Node().start(), random.Random(run.seed)
    kept = tempfile.TemporaryDirectory()
    gateway = Gateway(run, chains(eth=([node], "")), folder=kept.name)
    # The first start creates the databases.
    await gateway.start()
    await gateway.stop()
    fill(gateway.database.file, keys)
    size = sum(path.stat().st_size for path in gateway.folder.glob("rpcgate.db*"))
    _, ready = await timed(gateway.start())
    sample = dice.sample(range(1, keys + 1), min(SAMPLE, keys))
    client = Client(gateway)
    await call(client)

    async def took(numbers):
        times = []
        for number in numbers:
            client.key = text(number)
            status, seconds = await timed(call(client))
            assert status == 200, status
            times.append(seconds * 1000)
        return times

    first, second = await took(sample), await took(sample)
    before, known = gateway.rss(), len(sample)
    rest = [number for number in range(1, keys + 1) if number not in set(sample)][: REMEMBERED - known]
    waiting = iter(rest)

    async def work():
        own = Client(gateway)
        for number in waiting:
            own.key = text(number)
            assert await call(own) == 200
        own.close()

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    memory = (gateway.rss() - before) * (1 << 20) / len(rest) if len(rest) > 10_000 else float("nan")

    async def revoked(number, others=0):
        client.key = text(number)
        assert await call(client) == 200
        with sqlite3.connect(gateway.database.file, timeout=60) as database:
            database.execute("UPDATE keys SET revoked_at = 1 WHERE id = ?", ((1 << 64 | number).to_bytes(16),))
            database.executemany("INSERT INTO changes (kind, subject, at) VALUES ('key', ?, 0)", ((uuid(other),) for other in range(1, others + 1)))
            database.execute("INSERT INTO changes (kind, subject, at) VALUES ('key', ?, 0)", (uuid(number),))
            begun = time.perf_counter()
        database.close()
        while await call(client) == 200:
            await asyncio.sleep(0.005)
        return (time.perf_counter() - begun) * 1000

    lags = [await revoked(number) for number in sample[:REVOKED]]
    behind = await revoked(sample[REVOKED], keys)
    client.close()
    await gateway.stop()
    kept.cleanup()
    one, two = (f"{part(times, 0.5):.2f}, {part(times, 0.99):.2f}" for times in (first, second))
    each = "" if memory != memory else f"{memory:.0f}"
    print(f"| {keys:,} | {size / (1 << 20):.0f} MiB | {ready:.2f} s | {one} | {two} | {each} | {part(lags, 0.5):.0f}, {max(lags):.0f} | {behind:.0f} |", flush=True)


async def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default="target/release/rpcgate-server", help="the binary (default: %(default)s)")
    parser.add_argument("--keys", default="1000,100000,1000000", help="numbers of keys, separated by commas (default: %(default)s)")
    given = parser.parse_args()
    if not os.path.exists(given.program):
        sys.exit(f"{given.program} is missing: cargo build --release")
    run = Run(types.SimpleNamespace(program=given.program, scale=1.0, seed=7, database="sqlite"))
    # The programs under test end with this one.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print("| keys | database | ready after | first call, ms | second call, ms | bytes a key | refused after, ms | behind changes of all, ms |")
    print("|---|---|---|---|---|---|---|---|")
    try:
        for keys in given.keys.split(","):
            await measure(run, int(keys))
    except NotStarted as why:
        sys.exit(str(why))


if __name__ == "__main__":
    asyncio.run(main())
