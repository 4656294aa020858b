"""Clients and nodes that use more than their share."""

import asyncio
import json
import socket
import ssl
import struct
import tempfile
import time

from .client import KEYS, MIB, Client, timed
from .clocks import FakeTime
from .gateway import Gateway, chains
from .h2 import PREFACE, fields, frame
from .ledger import Ledger
from .node import LargeAnswers, Node
from .oracle import load

# A key of another project, which must not be affected.
OTHER = f"rpcg_{'other':x<45}"
OTHER_PROJECT = f'[projects.other]\n[keys.other]\nkey = "{OTHER}"\nproject = "other"\n'


async def peak_growth(gateway, before, until):
    """Returns the largest growth of the gateway in MiB until this event is set."""
    peak = 0.0
    while not until.is_set():
        peak = max(peak, gateway.rss() - before)
        await asyncio.sleep(0.02)
    return peak


async def promise_57(run):
    """Batches whose calls have the same large answer."""
    node = await Node().start()
    size = max(1, int(16 * run.scale)) * MIB
    node.results["eth_call"] = "0x" + "a" * size
    evm = ("eth", "bsc", "polygon", "avax")
    async with Gateway(run, chains(**{chain: ([node], "") for chain in evm})) as gateway:
        await Client(gateway).call("eth_chainId", [])
        for chain in evm:
            before, over = gateway.rss(), asyncio.Event()
            watching = asyncio.create_task(peak_growth(gateway, before, over))
            clients = [Client(gateway, chain=chain) for _ in range(10)]
            answers = await asyncio.gather(*(client.batch([("eth_call", [chain])] * 100) for client in clients), return_exceptions=True)
            over.set()
            peak = await watching
            refused = 0
            for answer in answers:
                if isinstance(answer, BaseException):
                    run.must(57, False, f"a batch has no answer: {answer!r}")
                    continue
                status, headers, items = answer
                if status == 503:
                    continue
                served = sum("result" in item for item in items)
                errors = [item["error"] for item in items if "error" in item]
                refused += len(errors)
                run.must(57, status == 200 and len(items) == 100, f"a batch of 100 has {len(items)} answers")
                run.must(57, all(error == {"code": -32005, "message": "batch response too large"} for error in errors), f"an item beyond the limit is refused: {errors[:1]}")
                run.must(57, int(headers["x-compute-units"]) == 15 * served, "an item beyond the limit is not charged")
                run.must(57, served * size <= 64 * MIB, f"{served} answers of {size} bytes were joined")
            run.must(57, refused > 0 or run.scale < 1, "items beyond the limit are refused")
            run.say(57, f"growth under ten batches of 100 calls with an answer of {size // MIB} MiB, {chain}", peak, 256 + 128, "MiB")
            for client in clients:
                client.close()


def h2_request(port, key, body):
    """Returns the bytes of an HTTP/2 connection with one call, whose client never opens a window."""
    head = fields((":method", "POST"), (":scheme", "https"), (":path", "/eth"), (":authority", f"127.0.0.1:{port}"), ("apikey", key))
    settings = struct.pack(">HI", 4, 0)
    return PREFACE + frame(4, 0, 0, settings) + frame(1, 4, 1, head) + frame(0, 1, 1, body)


async def promise_58(run):
    """Clients that stop reading."""
    node = LargeAnswers()
    # More than the kernel buffers: bytes in its buffers need no more work of the gateway.
    node.results["eth_getCode"] = "0x" + "a" * (3 * MIB)
    node.start_apart()
    count = max(60, int(1_100 * run.scale))
    wait = 30 if run.scale >= 0.2 else 5
    limits = f'[gateway.limits]\nwrite_timeout = "{wait}s"\n{OTHER_PROJECT}'
    call = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "eth_getCode", "params": []}).encode()
    async with Gateway(run, limits + chains(eth=([node], "")), tls=True) as gateway:
        await load(gateway, 1)
        before = gateway.rss()
        for kind in ("HTTP/1.1", "HTTP/2 with a window of zero", "HTTP/1.1, a byte at intervals"):
            sockets = []
            for _ in range(count):
                sock = socket.socket()
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                sock.connect(("127.0.0.1", gateway.port))
                tls = ssl.create_default_context(cafile=gateway.folder / "cert.pem")
                tls.set_alpn_protocols(["h2" if kind.startswith("HTTP/2") else "http/1.1"])
                sock = tls.wrap_socket(sock, server_hostname="127.0.0.1")
                if kind.startswith("HTTP/2"):
                    sock.sendall(h2_request(gateway.port, KEYS["one"], call))
                else:
                    # Readers beyond their project's share are refused and hold no connection.
                    head = f"POST /eth HTTP/1.1\r\nhost: h\r\nconnection: close\r\napikey: {KEYS['one']}\r\ncontent-length: {len(call)}\r\n\r\n"
                    sock.sendall(head.encode() + call)
                sock.setblocking(False)
                sockets.append(sock)
            end, failed, latencies = time.perf_counter() + wait + 12, 0, []
            while time.perf_counter() < end:
                took, more = await load_of_another(gateway)
                latencies, failed = latencies + took, failed + more
                if kind.endswith("while"):
                    for sock in sockets:
                        try:
                            sock.recv(1)
                        except OSError:
                            pass  # nothing to read, or cut
            run.say(58, f"calls of another project's key that failed beside {count} readers that stop, {kind}", failed, 0, "")
            run.say(58, "its slowest call", max(latencies), 1.0, "s")
            run.say(58, f"connections that readers still hold after {wait + 12} s, of {count}", held(gateway, sockets), 0, "")
            for sock in sockets:
                sock.close()
            await asyncio.sleep(1)
            # The allocator keeps a part of some 300 MiB, which does not grow from one kind to the next.
            run.say(58, "growth after they were cut", gateway.rss() - before, 128, "MiB")
        clients = [Client(gateway) for _ in range(32)]
        answers = await asyncio.gather(*(client.call("eth_getBalance", [number]) for number, client in enumerate(clients)))
        run.must(58, all(status == 200 for status, _, _ in answers), "the same key is served as before")


def held(gateway, sockets):
    """Returns the number of these connections that the gateway still has open, according to the kernel."""
    ours = {sock.getsockname()[1] for sock in sockets}
    open_here = 0
    with open("/proc/net/tcp") as table:
        for line in table.readlines()[1:]:
            fields = line.split()
            local, remote = (int(address.split(":")[1], 16) for address in fields[1:3])
            open_here += local == gateway.port and remote in ours and fields[3] == "01"
    return open_here


async def load_of_another(gateway):
    client, latencies, failed = Client(gateway, OTHER), [], 0
    for number in range(20):
        (status, _, answer), took = await timed(client.call("eth_getBalance", [number]))
        failed += status != 200 or "error" in answer
        latencies.append(took)
        await asyncio.sleep(0.05)
    client.close()
    return latencies, failed


async def promise_60(run):
    """One key sends many large and slow uploads."""
    node = await Node().start()
    async with Gateway(run, OTHER_PROJECT + chains(eth=([node], ""))) as gateway:
        slow, answered = [], []
        for _ in range(64):
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            head = f"POST /eth HTTP/1.1\r\nhost: h\r\napikey: {KEYS['one']}\r\ncontent-length: {5 * MIB}\r\n\r\n"
            writer.write(head.encode() + b"[" + b" " * (4 * MIB))
            slow.append(writer)
            answered.append(asyncio.create_task(status_of(reader)))
        patience, start = 60 + 5, time.perf_counter()
        body = json.dumps({"jsonrpc": "2.0", "id": 9, "method": "eth_getBalance", "params": ["a" * (4 * MIB)]}).encode()
        refused, asked = 0, 0
        client = Client(gateway, key=OTHER)
        drip = 0.0
        while time.perf_counter() < start + patience:
            status, _, _ = await client.post(body)
            asked += 1
            refused += status != 200
            if time.perf_counter() > start + drip:
                drip += 1
                for writer in slow:
                    if not writer.is_closing():
                        writer.write(b" " * 2048)
            await asyncio.sleep(0.1)
        run.say(60, f"of {asked} uploads of another project that were not served beside 64 slow ones", refused, 0, "")
        statuses = await asyncio.wait_for(asyncio.gather(*answered), 5)
        for writer in slow:
            writer.close()
        run.must(60, set(statuses) == {408, 503}, f"slow uploads are refused: { {status: statuses.count(status) for status in set(statuses)} }")


async def status_of(reader):
    """Returns the status of an answer that may come before the request is complete; 0 without an answer."""
    try:
        return int((await reader.readuntil(b"\r\n")).split()[1])
    except (asyncio.IncompleteReadError, ConnectionError):
        return 0


async def promise_62(run):
    """One deadline covers all attempts and waits."""
    node = await Node().start()
    node.mode = "hang"
    timeout, count = 6, max(10, int(100 * run.scale))
    async with Gateway(run, chains(eth=([node], f'timeout = "{timeout}s"'))) as gateway:
        slowest, wrong = 0.0, 0

        async def batch(number):
            nonlocal slowest, wrong
            client = Client(gateway, "one" if number % 2 else "two")
            # Some calls are equal in all batches and share a request; the others differ.
            calls = [("eth_call", [n if n % 2 else (number, n)]) for n in range(100)]
            (status, _, answers), took = await timed(client.batch(calls))
            slowest = max(slowest, took)
            if status == 200:
                wrong += sum(answer.get("error", {}).get("code") != -32603 for answer in answers)
            client.close()

        async def single(number):
            nonlocal slowest
            client = Client(gateway)
            _, took = await timed(client.call("eth_call", [number]))
            slowest = max(slowest, took)
            client.close()

        async def later(number):
            await asyncio.sleep(number * 0.1)
            await asyncio.gather(batch(number), single(2 * number + 1))

        await asyncio.gather(*(later(number) for number in range(count)))
        run.say(62, f"slowest answer of {count} batches of 100 and {count} single calls with a node that hangs", slowest, timeout + 1.0, "s")
        run.say(62, "calls of them without an error -32603", wrong, 0, "")


async def promise_63(run):
    """Node requests beyond the calls made."""
    nodes = [await Node().start() for _ in range(3)]
    count = max(300, int(5_000 * run.scale))
    async with Gateway(run, chains(eth=(nodes, ""))) as gateway:
        for mode in ("html 502", "429", "cut body", "reset", "garbage body", "closed"):
            for node in nodes:
                node.mode, node.requests = mode, 0
            clients = [Client(gateway) for _ in range(8)]

            async def caller(client, worker):
                for number in range(worker, count, 8):
                    if number % 5:
                        await client.call("eth_getBalance", [mode, number])
                    else:
                        await client.batch([("eth_getBalance", [mode, number]), ("eth_getCode", [mode, number])])

            await asyncio.gather(*(caller(client, worker) for worker, client in enumerate(clients)))
            asked = sum(node.requests for node in nodes)
            # A tenth of the calls, and the minimum of a pool: three a second, for ten seconds.
            run.say(63, f"requests to the nodes beyond the {count} calls made, {mode}", asked - count, 0.10 * count + 30, "")
            for client in clients:
                client.close()


async def promise_64(run):
    """A call is not charged if no byte of it was written to a node."""
    with socket.socket() as deaf:
        # Its queue of connections is full: new connections wait.
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        address = deaf.getsockname()
        queue = []
        for _ in range(4):
            sock = socket.socket()
            sock.setblocking(False)
            sock.connect_ex(address)
            queue.append(sock)
        hole = Node()
        hole.port = address[1]
        async with Gateway(run, chains(bsc=([hole], 'timeout = "20s"'))) as gateway:
            clients = [Client(gateway, chain="bsc") for _ in range(max(10, int(100 * run.scale)))]
            calls = [asyncio.create_task(client.call("eth_sendRawTransaction", [number])) for number, client in enumerate(clients)]
            await asyncio.sleep(0.5)
            for client in clients:
                client.close()
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
            await asyncio.sleep(0.5)
            await gateway.stop()
            _, units = Ledger(gateway).total()
            run.say(64, f"units charged for {len(clients)} calls whose connection was never established, after the clients left", units, 0, "")
        for sock in queue:
            sock.close()


async def promise_65(run):
    """No cached answer outlives its lifetime, regardless of the wall clock."""
    node, folder = await Node().start(), tempfile.TemporaryDirectory()
    clock = FakeTime(folder.name)
    async with Gateway(run, chains(eth=([node], "")), env=clock.env) as gateway:
        client, stale, kept = Client(gateway), 0, 0
        for number, step in enumerate([0, 3600, 0, -3600, 0, 7200, -7200, 0] * max(1, int(2 * run.scale))):
            node.results["eth_call"] = f"before {number}"
            await client.call("eth_call", ["a"])
            _, headers, answer = await client.call("eth_call", ["a"])
            kept += headers["x-cache"] == "hit" and answer["result"] == f"before {number}"
            clock.set(step)
            node.results["eth_call"] = f"after {number}"
            # Such an answer is valid for 2 s of real time.
            await asyncio.sleep(2.2)
            _, _, answer = await client.call("eth_call", ["a"])
            stale += answer["result"] != f"after {number}"
            await asyncio.sleep(2.2)
        run.must(65, kept > 0, "answers are cached")
        run.say(65, "answers that outlived 2 s over steps of one and two hours", stale, 0, "")
    folder.cleanup()
