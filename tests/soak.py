#!/usr/bin/env python3
"""Runs two gateways behind HAProxy, a management side, PostgreSQL and Redis under mixed load (HTTP, batches, WebSocket,
gRPC) for two hours, with faults around them: lost and slow nodes, servers that are restarted and frozen, gateways
that are killed and drained, reloads, a rollback.

Prints lost requests and survived faults, and the memory, file handles and threads of a gateway that is never
restarted. Exit code 1 if a promise is broken. Needs the same as `tests/promises.py --database postgresql`, and
`rpcgate-admin` in the folder of the gateway's binary.

    cargo build --release
    python3 tests/soak.py                      # two hours
    python3 tests/soak.py --minutes 20         # shorter: the slope of memory counts from half an hour on
"""

import argparse
import asyncio
import os
import random
import signal
import sys
import types

from fullsize.gateway import NotStarted
from fullsize.soak import soak
from promises import Run


async def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--program", default="target/release/rpcgate-server", help="the binary (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=120.0, help="how long (default: %(default)s)")
    parser.add_argument("--rate", type=int, default=300, help="HTTP requests a second (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="seed of calls and faults (default: random)")
    given = parser.parse_args()
    if not os.path.exists(given.program):
        sys.exit(f"{given.program} is missing: cargo build --release")
    run = Run(types.SimpleNamespace(program=given.program, scale=1.0, seed=given.seed, database="sqlite"))
    # The programs under test end with this one.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print(f"        56  seed {given.seed}", flush=True)
    try:
        await soak(run, given.minutes, given.rate)
    except NotStarted as why:
        sys.exit(str(why))
    sys.exit(1 if run.broken else 0)


if __name__ == "__main__":
    asyncio.run(main())
