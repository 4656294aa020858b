"""Several gateways with one PostgreSQL and one Redis."""

import asyncio
import collections
import time

from .client import Client
from .gateway import Admin, Gateway
from .ledger import Ledger
from .servers import Postgresql, Redis

RATE = 300
CONNECTIONS = 64


class Cluster:
    """Gateways, each a process with its own folder, and their shared servers."""

    def __init__(self, run, lines, gateways=2, admin=False, secret="", patience="250ms", settings=""):
        self.postgresql, self.redis = Postgresql(), Redis()
        self.database = self.postgresql.database()
        redis = f'url = "{self.redis.url}"\ntimeout = "{patience}"'
        shared = {"database": self.database, "redis": redis, "log": "info", "settings": settings}
        self.gateways = [Gateway(run, lines, secret=secret, **shared) for _ in range(gateways)]
        self.admin = Admin(run, "", database=self.database) if admin else None

    def members(self):
        return self.gateways + ([self.admin] if self.admin else [])

    async def __aenter__(self):
        for member in self.members():
            await member.start()
        for gateway in self.gateways:
            await gateway.until_together()
        return self

    async def __aexit__(self, *_):
        try:
            for member in self.members():
                await member.__aexit__()
        finally:
            self.postgresql.close()
            self.redis.close()

    def load(self, oracle, over, gateway, rate=None):
        """Starts load L, divided between the gateways."""
        share = len(self.gateways)
        return asyncio.create_task(oracle.load(gateway, rate or RATE // share, CONNECTIONS // share, over))

    async def complete(self, oracle, patience=60):
        """Returns the seconds until the sum of the usage records equals the answered calls."""
        start = time.perf_counter()
        while time.perf_counter() < start + patience:
            _, units = await asyncio.to_thread(Ledger(self).total)
            if units >= oracle.charged():
                break
            await asyncio.sleep(0.2)
        return time.perf_counter() - start

    async def ends(self, run, number, oracle):
        """Drains all gateways and compares their records with their answers."""
        await asyncio.gather(*(gateway.stop() for gateway in self.gateways))
        ledger = Ledger(self)
        recorded = list(ledger.events())
        units = sum(line.cu for event in recorded for line in event.lines)
        run.say(number, f"difference between hourly and single records in units, of {units:,}", abs(ledger.total()[1] - units), 0, "")
        # Other keys were used in addition to the load.
        parties = {event.party for event in recorded if event.request in oracle.answered}
        run.must(number, len(parties) == 1, f"the load has one key: {parties}")
        oracle.compare(run, number, [event for event in recorded if event.party in parties])


async def started(nodes):
    for node in nodes:
        await node.start()


async def ask(client, method="eth_chainId", params=(), chain="eth"):
    status, headers, answer = await client.call(method, list(params), chain)
    return status, headers, answer


async def admitted(gateways, key, each, workers=4):
    """Makes calls at each gateway at once. Returns the served ones and the statuses of the others."""
    others = collections.Counter()

    async def work(gateway):
        client, served = Client(gateway, key), 0
        for _ in range(each // workers):
            status, _, _ = await ask(client)
            served += status == 200
            others[status] += status != 200
        client.close()
        return served

    served = await asyncio.gather(*(work(gateway) for gateway in gateways for _ in range(workers)))
    return sum(served), +others
