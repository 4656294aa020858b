"""Frames of gRPC, WebSocket and HTTP/2 that are misrouted, too large, or too many."""

import asyncio
import collections
import multiprocessing
import os
import random
import re
import resource
import socket
import struct
import time

from .client import KEYS, MIB, Client, timed
from .gateway import Gateway, chains
from .h2 import ANSWER, CONTINUATION, DATA, END_HEADERS, GOAWAY, HEADERS, PING, PREFACE, PRIORITY, RST_STREAM, SETTINGS, WINDOW_UPDATE
from .h2 import GrpcClient, GrpcNode, Link, fields, frame
from .hostile import OTHER, OTHER_PROJECT, peak_growth
from .node import Node
from .oracle import part
from .websocket import BINARY, CLOSE, PONG, StreamNode, WebSocket
from .websocket import CONTINUATION as NEXT_FRAGMENT
from .websocket import PING as PING_OPCODE
from .websocket import frame as ws_frame
from .websocket import read_frame

# The calls cost more than a project may use in a day by default.
UNBOUND = OTHER_PROJECT.replace("[projects.other]\n", f"[projects.other]\ncu_per_day = {10**12}\n")
SOUND = re.compile(r"/([a-z][A-Za-z0-9_.]*)\.[A-Z]\w*/[A-Z]\w*", re.ASCII)
PACKAGES = {"protocol": "tron", "cosmos": "cosmos", "ibc": "cosmos", "cometbft": "cosmos", "tendermint": "cosmos"}
SPOOFED = (
    "/protocolx.Wallet/GetNowBlock",
    "/xprotocol.Wallet/GetNowBlock",
    "/Protocol.Wallet/GetNowBlock",
    "/protocol.wallet/GetNowBlock",
    "/protocol.Wallet/getNowBlock",
    "/protocol/Wallet/GetNowBlock",
    "/protocol.Wallet/../protocol.Wallet/GetNowBlock",
    "/protocol.Wallet/GetNowBlock/",
    "//protocol.Wallet/GetNowBlock",
    "/protocol.Wallet//GetNowBlock",
    "/protocol.Wallet/Get%4eowBlock",
    "/protocol%2eWallet/GetNowBlock",
    "/protocol..Wallet/GetNowBlock",
    "/.protocol.Wallet/GetNowBlock",
    "/protocol.Wallet/GetNowBlock;/cosmos.bank.v1beta1.Query/SupplyOf",
    "/protocol.Wallet\\GetNowBlock",
    "/eth/protocol.Wallet/GetNowBlock",
    "/tron",
    f"/protocol.Wallet/{'G' * 2000}",
)
# The first label of a path selects the chain, even if a later one is the name of a different package.
ROUTED = {
    ANSWER: "tron",
    "/cosmos.bank.v1beta1.Query/SupplyOf": "cosmos",
    "/ibc.core.client.v1.Query/ClientStates": "cosmos",
    "/cosmos.protocol.Wallet/GetNowBlock": "cosmos",
    "/protocol.cosmos.Query/SupplyOf": "tron",
}


def chain_of(path):
    """Returns the chain that a path leads to, by the rule of its form."""
    found = SOUND.fullmatch(path)
    labels = found[1].split(".") if found else [""]
    return PACKAGES.get(labels[0]) if all(labels) and len(path) <= 1024 else None


async def promise_47(run):
    """Paths that look like those of another package."""
    nodes = {"tron": await GrpcNode().start(), "cosmos": await GrpcNode().start()}
    lines = "".join(f'[[chains.{chain}.nodes]]\ngrpc = "{node.url()}"\n' for chain, node in nodes.items())
    dice, count = random.Random(run.seed), max(500, int(20_000 * run.scale))
    paths = [*SPOOFED, *ROUTED]
    alphabet = "./%\\;?#:@~\x7f\u00e9 aAzZ09_-pPcC"
    while len(paths) < count:
        letters = list(dice.choice([*SPOOFED[:16], *ROUTED]))
        for _ in range(dice.choice([1, 1, 2, 3])):
            at = dice.randrange(1, len(letters))
            letters[at : at + dice.choice([0, 1])] = dice.choice(alphabet)
        paths.append("".join(letters))
    async with Gateway(run, lines, settings="h2c = true") as gateway:
        wanted, wrong = {chain: collections.Counter() for chain in nodes}, []

        async def ask(paths):
            client = GrpcClient(gateway.port, KEYS["one"])
            for path in paths:
                # Fragments and queries are not part of the path, and are not sent to a node.
                bare = path.partition("#")[0].partition("?")[0]
                chain = chain_of(bare)
                status, _ = await client.ask(path, b"ask")
                if status == 0:
                    wanted[chain or "tron"][bare] += 1
                # A query that is invalid in a URI is refused as well.
                if (status == 0 and not chain) or (status != 0 and chain and bare == path):
                    wrong.append((path, chain, status))
            client.close()

        await asyncio.gather(*(ask(paths[part::8]) for part in range(8)))
        run.must(47, all(chain_of(path) is None for path in SPOOFED), "the spoofed paths have no chain")
        run.must(47, all(chain_of(path) == chain for path, chain in ROUTED.items()), "the others have one")
        run.say(47, f"of {len(paths):,} paths, {len(SPOOFED)} written and the rest mutated, that were not routed by their package, seed {run.seed}", len(wrong), 0, "")
        run.must(47, not wrong, f"{wrong[:5]}")
        seen = {chain: node.paths for chain, node in nodes.items()}
        astray = [(chain, path) for chain in nodes for path in seen[chain] if chain_of(path) != chain]
        run.say(47, f"of {sum(paths.total() for paths in seen.values()):,} calls at nodes that were another chain's", len(astray), 0, "")
        run.must(47, seen == wanted, "a node gets each path as it was sent, once")
        run.must(47, all(seen.values()), "calls of both chains are served")


async def until(what, seconds):
    """Waits until this holds or `seconds` have passed. Returns the time."""
    start = time.perf_counter()
    while not what() and time.perf_counter() < start + seconds:
        await asyncio.sleep(0.05)
    return time.perf_counter() - start


async def closed(stream):
    """Returns the code of the close frame, after any other frames."""
    try:
        while True:
            _, opcode, payload = await read_frame(stream.reader)
            if opcode == CLOSE:
                return int.from_bytes(payload[:2])
    except (asyncio.IncompleteReadError, ConnectionError):
        return 0
    finally:
        stream.close()


async def closed_late(stream, node, name):
    """Does the same as `closed` for a client that reads on only once its node's connection is closed."""
    while name not in node.seen or name in node.floods:
        await asyncio.sleep(0.05)
    stream.writer.transport.resume_reading()
    return await closed(stream)


async def promise_48(run):
    """Messages at the limits of their size, clients that read nothing, and clients that have disappeared."""
    node, http = await StreamNode(every=1.0).start(), await Node().start()
    count = max(10, int(100 * run.scale))
    lines = f'[[chains.eth.nodes]]\nurl = "{http.url()}"\nws = "{node.url()}"\n{UNBOUND}'
    async with Gateway(run, lines) as gateway:
        async def stream(key=KEYS["one"], limit=1 << 25):
            return await WebSocket.open(gateway.port, key, limit=limit)

        whole, large = bytes(16 * MIB), bytes(16 * MIB + 1)
        one = await stream()
        one.writer.write(ws_frame(BINARY, whole))
        run.must(48, await one.next() == whole, "a message of 16 MiB passes both ways")
        for number in range(16):
            one.writer.write(ws_frame(NEXT_FRAGMENT if number else BINARY, whole[:MIB], fin=number == 15))
        echoed = 0
        while echoed < 16 * MIB:
            echoed += len(await one.next() or b"x" * 17 * MIB)
        run.must(48, echoed == 16 * MIB, "a message of 16 MiB in fragments passes both ways")
        one.close()
        codes = collections.Counter()
        for pieces in ([large], [whole, b"x"]):
            one = await stream()
            for number, piece in enumerate(pieces):
                one.writer.write(ws_frame(NEXT_FRAGMENT if number else BINARY, piece, fin=number == len(pieces) - 1))
            codes[await closed(one)] += 1
        run.must(48, codes == {1009: 2}, f"larger messages are closed with 1009: {codes}")
        run.must(48, await until(lambda: node.open == 0, 10) < 10, "no node's connection is left")
        quiet, _ = await calls_of_another(gateway, 10, rate=50)
        before, over = gateway.rss(), asyncio.Event()
        watching = asyncio.create_task(peak_growth(gateway, before, over))
        # Half of the clients read nothing of a flood, half answer no ping.
        slow, gone = [], []
        for number in range(count):
            one = await stream(limit=1 << 12)
            if number % 2:
                one.call(1, "eth_subscribe", "flood", 64 << 10, number)
                one.writer.transport.pause_reading()
            else:
                one.call(1, "eth_call")
            (slow if number % 2 else gone).append(one)
        since = time.perf_counter()
        busy = asyncio.create_task(calls_of_another(gateway, 60, rate=50))
        ends = [asyncio.create_task(closed(one)) for one in gone]
        # The close frame waits a few seconds for those that read nothing.
        late = [asyncio.create_task(closed_late(one, node, 2 * place + 1)) for place, one in enumerate(slow)]
        took = await until(lambda: node.open == 0, 75)
        over.set()
        latencies, failed = await busy
        run.say(48, f"until the last of {count} clients that read nothing or answer no ping was found", took, 62, "s")
        found = collections.Counter(await asyncio.gather(*ends))
        run.must(48, found == {1008: len(gone)}, f"clients that answer no ping are closed with 1008: {found}")
        codes = collections.Counter(await asyncio.gather(*late))
        # The total that waits for all clients of a project has a limit as well.
        run.must(48, set(codes) <= {1008, 1013}, f"clients that read nothing are closed with 1008, or 1013 without memory: {codes}")
        # For each client at most the backlog, a message on its way and the memory that the allocator keeps; for all the
        # memory of bodies.
        growth, most = await watching, 1.1 * min(256, 5 * len(slow))
        run.say(48, f"growth under {len(slow)} that read nothing, of which {codes[1013]} found no memory", growth, most, "MiB")
        run.say(48, "calls of another project's key that failed meanwhile", failed, 0, "")
        print(f"        48  p99 of calls: {part(quiet, 0.99) * 1000:.1f} ms before, {part(latencies, 0.99) * 1000:.1f} ms meanwhile, {time.perf_counter() - since:.0f} s in all", flush=True)


def request(stream, path, end, *more):
    head = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "h"), ("apikey", KEYS["one"]), *more]
    return frame(HEADERS, END_HEADERS | end, stream, fields(*head))


GRPC = ("content-type", "application/grpc"), ("te", "trailers")
# Returns the frames of a flood by its round. The streams of a client are odd.
FLOODS = {
    "rapid reset of gRPC calls": lambda n: request(2 * n + 1, ANSWER, 0, *GRPC) + frame(RST_STREAM, 0, 2 * n + 1, struct.pack(">I", 8)),
    "rapid reset of HTTP calls": lambda n: request(2 * n + 1, "/eth", 0) + frame(RST_STREAM, 0, 2 * n + 1, struct.pack(">I", 8)),
    "resets that the server has to make": lambda n: request(2 * n + 1, "/eth", 0) + frame(WINDOW_UPDATE, 0, 2 * n + 1, bytes(4)),
    "CONTINUATION": lambda n: frame(CONTINUATION, 0, 1, fields((f"x-{n}", "y" * 64))) if n else frame(HEADERS, 0, 1, fields((":method", "POST"))),
    "empty CONTINUATION": lambda n: frame(CONTINUATION, 0, 1) if n else frame(HEADERS, 0, 1, fields((":method", "POST"))),
    "PING": lambda n: frame(PING, 0, 0, struct.pack(">Q", n)),
    "SETTINGS": lambda n: frame(SETTINGS, 0, 0, struct.pack(">HI", 3, n % 100)),
    "PRIORITY": lambda n: frame(PRIORITY, 0, 2 * n + 1, struct.pack(">IB", 0, 7)),
    "empty DATA": lambda n: frame(DATA, 0, 1) if n else request(1, ANSWER, 0, *GRPC),
}
AT_ONCE, FRAMES = 10, 100_000


def flood(port, build, turn, over, result):
    """Opens connections one after another, during its turns, and sends frames on each until it is cut."""
    # Otherwise the flood takes the processors from the load and from the gateway.
    os.nice(19)
    endings, longest = collections.Counter(), 0
    while not over.is_set():
        if not turn.wait(0.05):
            continue
        link = socket.create_connection(("127.0.0.1", port))
        link.sendall(PREFACE + frame(SETTINGS, 0, 0))
        link.setblocking(False)
        heard, sent, unsent, code, limit = b"", 0, b"", "cut", time.monotonic() + 20
        while True:
            if sent >= FRAMES or time.monotonic() > limit:
                code = "not cut"
                break
            if not unsent:
                unsent = b"".join(build(n) for n in range(sent, sent + 50))
                sent += 50
            try:
                unsent = unsent[link.send(unsent) :]
                more = link.recv(1 << 16)
                if not more:
                    break
                heard += more
            except BlockingIOError:
                time.sleep(0.001)
            except OSError:
                break
        link.settimeout(1)
        try:
            while more := link.recv(1 << 16):
                heard += more
        except OSError:
            pass
        link.close()
        at = 0
        while at + 17 <= len(heard):
            if heard[at + 3] == GOAWAY:
                code = f"GOAWAY {int.from_bytes(heard[at + 13 : at + 17])}"
            at += 9 + int.from_bytes(heard[at : at + 3])
        endings[code] += 1
        longest = max(longest, sent)
        # A new connection takes a remote client some round trips.
        time.sleep(0.25)
    result.send((endings, longest))


class Flooders:
    """Processes that flood a gateway in turns with its usual load."""

    def __init__(self, gateway, build):
        spawn, self.pipes = multiprocessing.get_context("fork"), []
        self.turn, self.over = spawn.Event(), spawn.Event()
        for _ in range(AT_ONCE):
            ours, theirs = multiprocessing.Pipe()
            spawn.Process(target=flood, args=(gateway.port, build, self.turn, self.over, theirs), daemon=True).start()
            self.pipes.append(ours)

    async def end(self):
        """Returns the endings of all connections, and the most frames that one of them sent."""
        self.over.set()
        endings, longest = collections.Counter(), 0
        for pipe in self.pipes:
            more, most = await asyncio.to_thread(pipe.recv)
            endings, longest = endings + more, max(longest, most)
        return endings, longest


async def calls_of_another(gateway, seconds, rate=100):
    client, latencies, failed = Client(gateway, OTHER), [], 0
    start = time.perf_counter()
    for number in range(int(seconds * rate)):
        (status, _, answer), took = await timed(client.call("eth_getBalance", [number]))
        failed += status != 200 or "error" in answer
        latencies.append(took)
        await asyncio.sleep(max(0.0, start + number / rate - time.perf_counter()))
    client.close()
    return latencies, failed


async def promise_48_many(run):
    """Idle streams over shared HTTP/2 connections (RFC 8441)."""
    node, http = await StreamNode().start(), await Node().start()
    # A stream needs two files. A gateway that may open 20,000 files holds the corresponding streams and keeps some
    # files for the rest.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1] * 45 // 100
    count, together = min(max(100, int(10_000 * run.scale)), most) // 100 * 100, 100
    plan = f"ws_connections = {count}\nws_connections_per_key = {count}"
    lines = f'[[chains.eth.nodes]]\nurl = "{http.url()}"\nws = "{node.url()}"\n{OTHER_PROJECT}'
    async with Gateway(run, lines, tls=True, plan=plan) as gateway:
        gateway.tls.set_alpn_protocols(["h2"])
        ping, pong = ws_frame(PING_OPCODE, b"here"), ws_frame(PONG, b"here", masked=False)
        before, links, streams = gateway.rss(), [], []
        for _ in range(count // together):
            link = Link(*await asyncio.open_connection("127.0.0.1", gateway.port, ssl=gateway.tls))
            links.append(link)
            await asyncio.wait_for(link.ready.wait(), 30)
            head = [(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "https"), (":path", "/ws/eth"), (":authority", "h")]
            head += [("sec-websocket-version", "13"), ("apikey", KEYS["one"])]
            streams += [link.request(*head) for _ in range(together)]
            took = await until(lambda: all(one.head for one in streams[-together:]), 60)
            run.must(48, took < 60, "handshakes over HTTP/2 are answered")
        opened = sum(one.head.get(":status") == "200" for one in streams)
        run.must(48, opened == count == node.open, f"{opened} of {count} streams are open, {node.open} at the node")
        await asyncio.sleep(5)
        run.say(48, f"memory of each of {count} idle streams", (gateway.rss() - before) * 1024 / count, 16, "KiB")
        for one in streams:
            one.raw = b""
            one.has_data = lambda data, one=one: setattr(one, "raw", one.raw + data)
            one.link.send(DATA, 0, one.number, ping)
        took = await until(lambda: all(pong in one.raw for one in streams), 60)
        run.must(48, took < 60, f"all streams answer: {sum(pong in one.raw for one in streams)}")
        for link in links:
            link.close()
        run.must(48, await until(lambda: node.open == 0, 30) < 30, f"no node's connection is left: {node.open}")


async def promise_49(run):
    """Floods of frames that cost their sender nothing."""
    http, grpc = await Node().start(), await GrpcNode().start()
    lines = f'{UNBOUND}{chains(eth=([http], ""))}[[chains.tron.nodes]]\ngrpc = "{grpc.url()}"\n'
    async with Gateway(run, lines, settings="h2c = true") as gateway:
        # The threads and caches of a gateway that has been in use.
        await calls_of_another(gateway, 2)
        for name, build in FLOODS.items():
            flooders, usual, latencies, failed = Flooders(gateway, build), [], [], 0
            await asyncio.sleep(1)
            before, over = gateway.rss(), asyncio.Event()
            watching = asyncio.create_task(peak_growth(gateway, before, over))
            # In turns, so that other load of the machine affects both.
            for _ in range(max(2, int(10 * run.scale))):
                usual += (await calls_of_another(gateway, 2))[0]
                flooders.turn.set()
                more, lost = await calls_of_another(gateway, 2)
                flooders.turn.clear()
                latencies, failed = latencies + more, failed + lost
                await asyncio.sleep(0.2)
            endings, longest = await flooders.end()
            over.set()
            without = sum(count for code, count in endings.items() if not code.startswith("GOAWAY"))
            run.must(49, endings["not cut"] == 0, f"every connection is cut, {name}: {dict(endings)}")
            # The last bytes are lost if the kernel answers later data with a reset.
            run.say(49, f"of {endings.total()} connections that ended without GOAWAY, {name}, {', '.join(sorted(endings))}", without, endings.total() / 50, "")
            run.say(49, f"frames that one of them sent at most, {name}", longest, FRAMES - 1, "")
            run.say(49, f"growth meanwhile, {name}", await watching, 20, "MiB")
            run.say(49, f"calls of another project's key that failed, {name}", failed, 0, "")
            p99 = part(latencies, 0.99), part(usual, 0.99)
            run.say(49, f"p99 of its calls ({p99[0] * 1000:.2f} ms) to that without a flood ({p99[1] * 1000:.2f} ms), {name}", p99[0] / p99[1], 1.5, "times")
