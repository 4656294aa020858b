"""Keys that are revoked and tenants that are suspended while three gateways serve their calls and streams."""

import asyncio
import collections
import time

from .client import Client, Owner
from .cluster import Cluster, ask
from .gateway import SECRET
from .h2 import ANSWER, MIRROR, WATCH, GrpcClient, GrpcNode
from .node import Node
from .servers import free_port
from .websocket import Refused, StreamNode, WebSocket

REVOKED, SUSPENDED = (401, 16), (402, 7)
# The total at each gateway.
CALLS, STREAMS = 50, 2


class Silencer:
    """A proxy between a gateway and its database. `feed` silences the connections that wait for notifications, `all`
    silences every connection: they stay open, and nothing arrives."""

    def __init__(self, port):
        self.server_port, self.port, self.silent = port, free_port(), ""

    async def start(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", self.port)

    async def serve(self, reader, writer):
        listens = False

        async def pass_on(source, sink, is_asking):
            nonlocal listens
            try:
                while data := await source.read(1 << 16):
                    listens = listens or (is_asking and b"LISTEN " in data)
                    if self.silent == "all" or (self.silent == "feed" and listens):
                        continue
                    sink.write(data)
                    await sink.drain()
            except ConnectionError:
                pass
            sink.close()

        theirs, ours = await asyncio.open_connection("127.0.0.1", self.server_port)
        await asyncio.gather(pass_on(reader, ours, True), pass_on(theirs, writer, False))


class Use:
    """The use of a key at a gateway: 50 calls a second, and streams of every kind."""

    def __init__(self, gateway, key):
        self.gateway, self.key = gateway, key
        # The time of the last served call, and the statuses of the others.
        self.served, self.others = 0.0, collections.Counter()
        self.endings, self.over, self.tasks = [], False, []

    async def start(self):
        self.grpc = await GrpcClient(self.gateway.port, self.key).start()
        begun = time.perf_counter()
        self.tasks = [asyncio.create_task(self.calls())]
        for _ in range(STREAMS):
            stream = await WebSocket.open(self.gateway.port, self.key)
            stream.call(1, "eth_subscribe", "newHeads")
            await stream.next()
            self.tasks.append(asyncio.create_task(self.until_ended("websocket", stream)))
            for path, last in ((WATCH, True), (MIRROR, False)):
                call = await self.grpc.call(path, b"hello", last)
                assert await call.next() is not None, f"{path} is served"
                self.tasks.append(asyncio.create_task(self.until_ended("grpc", call)))
        while self.served < begun:
            await asyncio.sleep(0.01)

    async def calls(self):
        client, number, start = Client(self.gateway, self.key), 0, time.perf_counter()
        while not self.over:
            status, _, _ = await ask(client, "eth_getBalance", [number])
            if status == 200:
                self.served = time.perf_counter()
            else:
                self.others[status] += 1
            number += 1
            await asyncio.sleep(max(0.0, start + number / CALLS - time.perf_counter()))
        client.close()

    async def until_ended(self, kind, stream):
        if kind == "websocket":
            ending = await stream.until_ended()
        else:
            while await stream.next() is not None:
                pass
            ending = stream.status, stream.text
        self.endings.append((kind, time.perf_counter(), ending))

    def has_ended(self):
        return len(self.endings) == 3 * STREAMS and sum(self.others.values()) > 0

    async def statuses(self):
        """Returns the statuses of a handshake and of a gRPC call that begin now."""
        try:
            (await WebSocket.open(self.gateway.port, self.key)).close()
            handshake = 101
        except Refused as refused:
            handshake = refused.status
        return handshake, (await self.grpc.ask(ANSWER))[0]

    async def end(self):
        self.over = True
        await self.tasks[0]
        for task in self.tasks:
            task.cancel()
        self.grpc.close()


class Lags:
    """The greatest lags of many changes, in seconds."""

    def __init__(self, run, number, limit):
        self.run, self.number, self.limit, self.most = run, number, limit, collections.Counter()

    def note(self, what, since, at):
        self.most[what] = max(self.most[what], at - since)

    async def ends(self, uses, since, expected, also=()):
        """Waits until the key of these uses is refused everywhere and all of its streams have ended. `expected` are the
        statuses of an HTTP call, which a handshake gets too, and of a gRPC call; HTTP calls may have got `also`
        before."""
        patience = since + self.limit + 10
        while not all(use.has_ended() for use in uses) and time.perf_counter() < patience:
            await asyncio.sleep(0.005)
        for use in uses:
            self.note("a call was served", since, use.served)
            self.run.must(self.number, len(use.endings) == 3 * STREAMS, f"every stream ends: {use.endings}")
            for kind, at, ending in use.endings:
                self.note(f"a stream was open, {kind}", since, at)
                wanted = 1008 if kind == "websocket" else expected[1]
                self.run.must(self.number, ending[0] == wanted, f"a stream ends with {wanted}, {kind}: {ending}")
            self.run.must(self.number, set(use.others) <= {expected[0], *also}, f"calls are refused with {expected[0]}: {use.others}")
            found = await use.statuses()
            self.run.must(self.number, found == expected, f"a handshake and a gRPC call get {expected}: {found}")

    def say(self, change, times, beside):
        for what, most in self.most.items():
            self.run.say(self.number, f"after {change} {what}, {times} times, {beside}", float(most), self.limit, "s")


class Scene:
    """Three gateways on one database and Redis with a management side, each behind a silencer."""

    def __init__(self, run):
        self.run, self.nodes = run, (Node(), StreamNode(), GrpcNode())

    async def __aenter__(self):
        http, stream, grpc = [await node.start() for node in self.nodes]
        lines = f'[[chains.eth.nodes]]\nurl = "{http.url()}"\nws = "{stream.url()}"\n[[chains.tron.nodes]]\ngrpc = "{grpc.url()}"\n'
        self.cluster = Cluster(self.run, lines, gateways=3, admin=True, secret=SECRET, settings="h2c = true")
        self.silencers = []
        for gateway in self.cluster.gateways:
            silencer = Silencer(self.cluster.postgresql.port)
            await silencer.start()
            gateway.database = BehindSilencer(self.cluster.database, silencer)
            self.silencers.append(silencer)
        await self.cluster.__aenter__()
        self.owner, self.operator = Owner(self.cluster.admin), Owner(self.cluster.admin)
        self.project = await self.owner.settle("ada@example.com")
        await self.operator.log_in_as_operator("operator@example.com")
        _, me = await self.owner.ask("GET", "auth/me")
        self.tenant = me["tenant_id"]
        await self.change({"tier": "enterprise"})
        return self

    async def __aexit__(self, *_):
        self.owner.close()
        self.operator.close()
        await self.cluster.__aexit__()

    async def change(self, what):
        """Changes the tenant. Returns the time of the answer."""
        status, answer = await self.operator.ask("PUT", f"operator/tenants/{self.tenant}", what)
        assert status == 200, (status, answer)
        return time.perf_counter()

    async def uses(self, key, gateways=None):
        uses = [Use(gateway, key) for gateway in gateways or self.cluster.gateways]
        await asyncio.gather(*(use.start() for use in uses))
        await asyncio.sleep(0.2)
        return uses

    def silence(self, what):
        """Cuts the push channels: the notifications of the database, and Redis; or the whole database at the last
        gateway."""
        if what == "feed":
            self.cluster.redis.freeze()
        for silencer in self.silencers[-1:] if what == "all" else self.silencers:
            silencer.silent = what

    def end_silence(self):
        for silencer in self.silencers:
            silencer.silent = ""
        self.cluster.redis.thaw()


class BehindSilencer:
    """The database, at the address of a silencer."""

    def __init__(self, database, silencer):
        self.url = database.url.replace(f":{database.server.port}/", f":{silencer.port}/")


PLAIN, CUT, ALONE = "nothing cut", "notifications and Redis cut", "the database cut at one gateway"


async def promise_19(run):
    """A key that is in use is deleted."""
    async with Scene(run) as scene:
        for beside, times, limit in ((PLAIN, 100, 1.0), (CUT, 100, 30.0), (ALONE, 10, 5.0)):
            times, lags, alone = max(3, int(times * run.scale)), Lags(run, 19, limit), Lags(run, 19, 1.0)
            for _ in range(times):
                id, key = await scene.owner.make_key(scene.project)
                uses = await scene.uses(key)
                if beside != PLAIN:
                    scene.silence("feed" if beside == CUT else "all")
                status, _ = await scene.owner.ask("DELETE", f"keys/{id}")
                since = time.perf_counter()
                run.must(19, status == 204, f"a DELETE got {status}")
                query = f"SELECT revoked_at IS NULL FROM keys WHERE id = '{id}'"
                rows = await asyncio.to_thread(scene.cluster.database.rows, query)
                run.must(19, rows == [("f",)], f"a DELETE is stored when it is answered: {rows}")
                if beside == ALONE:
                    # That gateway learns from the others that something has changed. Until it knows what, it refuses
                    # calls and keeps streams.
                    await asyncio.sleep(3.0)
                    for use in uses:
                        alone.note("a call was served", since, use.served)
                    scene.end_silence()
                    since = time.perf_counter()
                await lags.ends(uses, since, REVOKED, [503] if beside == ALONE else [])
                scene.end_silence()
                await asyncio.gather(*(use.end() for use in uses))
            alone.say("a DELETE", times, beside)
            lags.say("a DELETE" if beside != ALONE else "its return", times, beside)


async def promise_20(run):
    """A tenant that is in use is suspended, and reactivated."""
    async with Scene(run) as scene:
        _, key = await scene.owner.make_key(scene.project)
        for beside, times, limit in ((PLAIN, 100, 1.0), (CUT, 100, 30.0)):
            times, lags, back = max(3, int(times * run.scale)), Lags(run, 20, limit), Lags(run, 20, max(2.0, limit))
            for _ in range(times):
                uses = await scene.uses(key)
                if beside == CUT:
                    scene.silence("feed")
                await lags.ends(uses, await scene.change({"status": "suspended"}), SUSPENDED)
                await asyncio.gather(*(use.end() for use in uses))
                again = [Use(gateway, key) for gateway in scene.cluster.gateways]
                since = await scene.change({"status": "active"})
                await asyncio.gather(*(served_again(use, back, since) for use in again))
                scene.end_silence()
                for use in again:
                    use.grpc.close()
            lags.say("a suspension", times, beside)
            back.say("a reactivation", times, beside)


async def served_again(use, lags, since):
    """Waits until the same key is served in every way."""
    use.grpc, client = GrpcClient(use.gateway.port, use.key), Client(use.gateway, use.key)
    while (await ask(client))[0] != 200 or await use.statuses() != (101, 0):
        if time.perf_counter() > since + lags.limit + 10:
            lags.run.must(lags.number, False, "the key is served again")
            break
        await asyncio.sleep(0.005)
    lags.note("the key was not served in every way", since, time.perf_counter())
    client.close()
