"""Gateways that are stopped while they serve calls and streams."""

import asyncio
import collections
import json
import signal
import time

from .client import KEYS, Client, Connection
from .cluster import Cluster, started
from .gateway import Gateway
from .h2 import ANSWER, WATCH, GrpcClient, GrpcNode
from .ledger import Ledger
from .oracle import Oracle, mixed
from .node import Node
from .servers import Haproxy
from .websocket import Refused, StreamNode, WebSocket

SLOW_BODY, PIECES = 16 << 10, 10


async def streamed():
    """Returns nodes of every transport, and the configuration of their chains."""
    nodes, lines = mixed()
    stream, grpc, slow = await StreamNode().start(), await GrpcNode().start(), await Node().start()
    await started(nodes)
    text = lines().replace("[chains.eth]\nnodes = [", f'[chains.eth]\nnodes = [{{ ws = "{stream.url()}" }}, ')
    return f'{text}[chains.polygon]\nnodes = ["{slow.url()}"]\n[[chains.tron.nodes]]\ngrpc = "{grpc.url()}"\n', grpc, slow


async def subscribed(port, key=KEYS["two"]):
    stream = await WebSocket.open(port, key)
    stream.call(1, "eth_subscribe", "newHeads")
    await stream.next()
    return stream


async def slow_body(gateway, number, seconds):
    """Returns the answer to a call whose body is sent in pieces over this time."""
    call = {"jsonrpc": "2.0", "id": number, "method": "eth_getBalance", "params": [f"slow {number} {'a' * SLOW_BODY}"]}
    body = json.dumps(call).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    head = f"POST /polygon HTTP/1.1\r\nhost: h\r\nconnection: close\r\napikey: {KEYS['two']}\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode())
    size = len(body) // PIECES + 1
    for at in range(0, len(body), size):
        writer.write(body[at : at + size])
        await writer.drain()
        await asyncio.sleep(seconds / PIECES)
    return (await reader.read()).startswith(b"HTTP/1.1 200 ")


async def readiness(gateway, over):
    """Returns the time at which a balancer first sees that the gateway is not ready, on an open connection and on a new
    one for each check."""
    held, seen = Connection(gateway.port), {}
    while len(seen) < 2 and not over.is_set():
        for name, look in (("open", held), ("new", Connection(gateway.port))):
            try:
                status, _, _ = await look.exchange("GET /readyz HTTP/1.1", b"")
            except (ConnectionError, asyncio.IncompleteReadError):
                status = 0
            if status != 200:
                seen.setdefault(name, time.perf_counter())
            if name == "new":
                look.close()
        await asyncio.sleep(0.01)
    return max(seen.values(), default=float("inf"))


async def promise_26(run):
    """SIGTERM under load, with streams and long calls."""
    lines, grpc, slow = await streamed()
    streams, bodies = max(10, int(200 * run.scale)), max(5, int(50 * run.scale))
    oracle, over = Oracle(run.seed), asyncio.Event()
    gateway = Gateway(run, lines, log="info", settings="h2c = true")
    async with gateway:
        load = asyncio.create_task(oracle.load(gateway, over=over))
        open_streams = [await subscribed(gateway.port) for _ in range(streams)]
        watchers = [await GrpcClient(gateway.port, KEYS["two"]).start() for _ in range(10)]
        watches = [await client.call(WATCH, b"watch") for client in watchers]
        await asyncio.sleep(max(2.0, 20 * run.scale))
        # Calls in flight: bodies that have begun, and calls that wait for their nodes, over HTTP/1 and HTTP/2.
        arriving = [asyncio.create_task(slow_body(gateway, number, 8.0)) for number in range(bodies)]
        grpc.gate.clear()
        asking = [asyncio.create_task(GrpcClient(gateway.port, KEYS["two"]).ask(ANSWER, b"late")) for _ in range(bodies)]
        unready = asyncio.create_task(readiness(gateway, over))
        ends = [asyncio.create_task(ending(stream)) for stream in open_streams]
        await asyncio.sleep(1.0)
        gateway.process.send_signal(signal.SIGTERM)
        since = time.perf_counter()
        exited = asyncio.create_task(asyncio.to_thread(gateway.process.wait, 40))
        await asyncio.sleep(3.0)
        grpc.gate.set()
        lefts = [client.link.left for client in watchers]
        # Half of the clients leave when the gateway asks them to.
        for call in watches[::2]:
            call.cancel()
        code = await exited
        took = time.perf_counter() - since
        over.set()
        await load
        run.say(26, "from SIGTERM until the gateway is seen unready", await unready - since, 0.5, "s")
        run.say(26, f"of {len(oracle.took):,} calls of the load that were sent and not answered", len(oracle.unanswered), 0, "")
        served = await asyncio.gather(*arriving)
        run.say(26, f"of {bodies} calls with slow bodies that were not served", served.count(False), 0, "")
        statuses = collections.Counter(status for status, _ in await asyncio.gather(*asking))
        run.say(26, f"of {bodies} gRPC calls in flight that were not served", bodies - statuses[0], 0, "")
        closes = await asyncio.gather(*ends)
        codes = collections.Counter(code for _, (code, _) in closes)
        run.say(26, f"of {streams} WebSocket streams that were not closed with 1001", streams - codes[1001], 0, "")
        run.say(26, "from SIGTERM until the last of them was closed", max(at for at, _ in closes) - since, 30, "s")
        most = max(sum(0 <= other - at < 1 for other, _ in closes) for at, _ in closes)
        run.say(26, "of them that were closed in one second", most, streams / 4, "")
        stayed = collections.Counter(call.status for call in watches[1::2])
        run.must(26, stayed == {14: len(watches) // 2}, f"gRPC streams whose clients stay end with 14: {stayed}")
        run.must(26, all(left and left[0] == 0 for left in lefts), f"connections of HTTP/2 get GOAWAY: {lefts}")
        run.must(26, code == 0, f"the process ends with 0: {code}")
        run.say(26, "from SIGTERM until the process has ended", took, 30, "s")
        recorded = list(Ledger(gateway).events())
        # Only the load uses its key.
        parties = {event.party for event in recorded if event.request in oracle.answered}
        oracle.compare(run, 26, [event for event in recorded if event.party in parties])
        ends_recorded = sum(line.calls for event in recorded for line in event.lines if line.method == "WS:disconnect")
        run.say(26, "streams whose end is not recorded", streams - ends_recorded, 0, "")


async def ending(stream):
    ended = await stream.until_ended()
    return time.perf_counter(), ended


async def promise_26_behind_a_balancer(run):
    """Three gateways behind HAProxy, restarted one after another."""
    lines, _, _ = await streamed()
    streams = max(10, int(200 * run.scale))
    oracle, over = Oracle(run.seed), asyncio.Event()
    async with Cluster(run, lines, gateways=3, settings="h2c = true") as cluster:
        with Haproxy([gateway.port for gateway in cluster.gateways]) as balancer:
            load = asyncio.create_task(oracle.load(balancer, over=over))
            endings, refused, statuses, asked = collections.Counter(), collections.Counter(), collections.Counter(), 0

            async def watch():
                while not over.is_set():
                    try:
                        stream = await subscribed(balancer.port)
                    except Refused as why:
                        refused[why.status] += 1
                        continue
                    ended = asyncio.create_task(stream.until_ended())
                    done, _ = await asyncio.wait([ended, asyncio.create_task(over.wait())], return_when=asyncio.FIRST_COMPLETED)
                    if ended not in done:
                        ended.cancel()
                        return stream.close()
                    endings[ended.result()[0]] += 1

            async def ask_grpc():
                client = GrpcClient(balancer.grpc_port, KEYS["two"])
                while not over.is_set():
                    statuses[(await client.ask(ANSWER, b"ask"))[0]] += 1
                    await asyncio.sleep(0.1)
                client.close()

            users = [asyncio.create_task(watch()) for _ in range(streams)] + [asyncio.create_task(ask_grpc()) for _ in range(8)]
            await asyncio.sleep(3.0)
            for gateway in cluster.gateways:
                gateway.process.send_signal(signal.SIGTERM)
                code = await asyncio.to_thread(gateway.process.wait, 40)
                run.must(26, code == 0, f"a gateway ends with 0: {code}")
                gateway.log.close()
                await gateway.launch(gateway.program, gateway.text())
                await gateway.until_together()
                await asyncio.sleep(2.0)
            run.must(26, not load.done(), "the load goes on")
            over.set()
            await asyncio.gather(load, *users)
            run.say(26, f"of {len(oracle.took):,} calls through HAProxy that failed while 3 gateways were restarted", len(oracle.unanswered) + len(oracle.wrong), 0, "")
            run.say(26, f"of {statuses.total():,} gRPC calls that failed", statuses.total() - statuses[0], 0, "")
            run.must(26, endings[1001] >= streams, f"every stream was closed with 1001: {endings}")
            run.say(26, f"of {endings.total()} ended WebSocket streams that were not closed with 1001", endings.total() - endings[1001], 0, "")
            run.say(26, "handshakes that were refused", refused.total(), 0, "")
        await cluster.complete(oracle)
        await cluster.ends(run, 26, oracle)
