"""Unreachable databases."""

import asyncio
import fcntl
import json
import signal
import sqlite3
import time

from .client import Client, timed
from .gateway import Gateway
from .ledger import Ledger
from .oracle import Oracle, mixed


async def promise_5(run):
    """The databases are unavailable: SQLite, locked by another process."""
    oracle = Oracle(run.seed)
    nodes, lines = mixed()
    for node in nodes:
        await node.start()
    stored, missing = f"rpcg_{'stored':x<45}", f"rpcg_{'missing':x<45}"
    seconds = max(10.0, 600 * run.scale)
    async with Gateway(run, lines()) as gateway:
        gateway.database.admit(stored)
        known, unknown = Client(gateway, stored), Client(gateway, missing)

        async def ask(client):
            client.id += 1
            status, _, _ = await client.post(json.dumps({"id": client.id, "method": "eth_chainId"}).encode(), "eth")
            return status

        statuses = await ask(known), await ask(unknown)
        run.must(5, statuses == (200, 401), f"a stored key is known, another is not: {statuses}")
        usage = sqlite3.connect(gateway.database.usage, isolation_level=None, timeout=20)
        usage.execute("BEGIN EXCLUSIVE")
        # No reader can start: these are the five locks of readers (SQLite, "WAL-mode file format").
        locks = open(f"{gateway.database.file}-shm", "r+b", buffering=0)
        while True:
            try:
                fcntl.lockf(locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 5, 123)
                break
            except OSError:
                await asyncio.sleep(0.001)
        load = asyncio.create_task(oracle.load(gateway))
        failed = asked = guessed = unavailable = 0
        slowest, end = 0.0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            status, took = await timed(ask(known))
            asked, failed = asked + 1, failed + (status != 200)
            slowest = max(slowest, took)
            status, took = await timed(ask(unknown))
            guessed, unavailable = guessed + (status == 401), unavailable + (status != 503)
            slowest = max(slowest, took)
            await asyncio.sleep(0.2)
        run.say(5, f"calls of a known key that failed in {seconds:.0f} s without a database", failed / asked, 0.001, "of all")
        run.say(5, "unknown keys that got a 401 although no look-up was possible", guessed, 0, "")
        run.say(5, "unknown keys that did not get a 503", unavailable, 0, "")
        run.say(5, "slowest answer", slowest, 1.1, "s")
        usage.execute("COMMIT")
        usage.close()
        back = time.perf_counter()
        locks.close()
        while await ask(unknown) != 401 and time.perf_counter() < back + 60:
            await asyncio.sleep(0.05)
        known.close()
        unknown.close()
        gateway.process.send_signal(signal.SIGTERM)
        await load
        await asyncio.to_thread(gateway.process.wait, 60)
        run.say(5, "from the databases' return until the usage records were complete and the gateway drained", time.perf_counter() - back, 60, "s")
        oracle.compare(run, 5, [event for event in Ledger(gateway).events() if event.request in oracle.answered])
