#!/usr/bin/env python3
"""Measures the gateway's promises at full size; the tests check them on a small scale.

Runs `rpcgate-server run` on free ports of the loopback interface, in front of its own scripted faulty nodes, and
prints one line for each promise: the measured value and the promised limit. Exit code 1 if a promise is broken.
Needs only Python 3.11. `--database postgresql`, which measures the promises of several gateways, also needs the
binaries of PostgreSQL and Redis, HAProxy for 26, and libfaketime for 21, 22 and 65. Some promises need
`rpcgate-admin` in the folder of the gateway's binary.

The program reads the records of a gateway from its files, by the documentation of their format
(rpcgate_core::journal), and compares them with its own requests and their answers: no figure comes from the program
under test alone.

    cargo build --release
    python3 tests/promises.py                  # all promises, about half an hour
    python3 tests/promises.py --only 16,17     # two of them
    python3 tests/promises.py --scale 0.05     # quick: a twentieth of the calls, keys and minutes
    python3 tests/promises.py --database postgresql --only 1,2,3,4
"""

import argparse
import asyncio
import os
import random
import signal
import sys

from fullsize import accounts, away, calls, clocks, crash, drained, frames, hostile, many, outage, overload, revoked, secrets_kept, sessions, webhooks
from fullsize.gateway import NotStarted
from fullsize.servers import Postgresql, Sqlite


class Run:
    """The settings and the progress of a measurement."""

    def __init__(self, given):
        self.program, self.scale, self.seed, self.broken = os.path.abspath(given.program), given.scale, given.seed, 0
        self.server = Postgresql() if given.database == "postgresql" else None

    def new_database(self, folder):
        """Returns the databases of a gateway with this folder, or on the server if there is one."""
        return self.server.database() if self.server else Sqlite(folder)

    def say(self, promise, what, value, limit, unit):
        kept = value <= limit
        self.broken += not kept
        shown = f"{value:.3g}" if isinstance(value, float) else str(value)
        print(f"{'kept  ' if kept else 'BROKEN'}  {promise:>3}  {what}: {shown} {unit} (at most {limit:.4g})", flush=True)

    def must(self, promise, holds, what):
        if not holds:
            self.broken += 1
            print(f"BROKEN  {promise:>3}  {what}", flush=True)


def promises(database):
    """Returns the tests that this database supports, by the number of the promise."""
    tests = {}
    for module in [crash, calls, accounts, sessions, secrets_kept, hostile, frames, overload, webhooks] + ([many, outage, clocks, revoked, drained] if database == "postgresql" else [away]):
        for name, test in vars(module).items():
            if name.startswith("promise_"):
                tests.setdefault(int(name.split("_")[1]), []).append(test)
    return tests


async def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default="target/release/rpcgate-server", help="the binary (default: %(default)s)")
    parser.add_argument("--only", default="", help="numbers of promises, separated by commas")
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite", help="the database of the gateways (default: %(default)s)")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full size (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="seed of the random calls (default: random)")
    given = parser.parse_args()
    if not os.path.exists(given.program):
        sys.exit(f"{given.program} is missing: cargo build --release")
    known, run = promises(given.database), Run(given)
    # The programs under test end with this one.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        for number in [int(n) for n in given.only.split(",") if n] or sorted(known):
            for test in known[number]:
                await test(run)
    except NotStarted as why:
        sys.exit(str(why))
    finally:
        if run.server:
            run.server.close()
    sys.exit(1 if run.broken else 0)


if __name__ == "__main__":
    asyncio.run(main())
