#!/usr/bin/env python3
"""Measures the gateway's promises at full size, where the tests show them in small.

Runs `rpcgate-server run` on free ports of the loopback interface, before nodes of its own that break as they are told,
and prints one line for each promise: what was measured, what was promised. Exit code 1 if one is not kept. Needs
Python 3.11 and nothing else.

What a gateway recorded is read from its files, by what their format's documentation says (rpcgate_core::journal), and
compared with what this program asked for and was told: no figure is taken from the program under test alone.

    cargo build --release
    python3 tests/promises.py                  # all of them, about half an hour
    python3 tests/promises.py --only 16,17     # some of them
    python3 tests/promises.py --scale 0.05     # a quick look: a twentieth of calls and keys
"""

import argparse
import asyncio
import base64
import collections
import fcntl
import hashlib
import json
import math
import os
import pathlib
import random
import shutil
import signal
import socket
import sqlite3
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import uuid
import zlib

KEYS = {name: f"rpcg_{name:x<45}" for name in ("one", "two")}
PASSWORD = "a password for tests"
MIB = 1 << 20


class Node:
    """A JSON-RPC node on a socket. `mode` says how it answers."""

    def __init__(self, utxo=False):
        self.utxo = utxo
        self.mode = "pass"
        self.errors = {}
        self.calls = 0
        self.bytes = 0
        self.counts = {}
        self.results = {}
        self.height = 1_000_000
        self.gate = asyncio.Event()
        self.gate.set()

    async def start(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0, backlog=4096)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    def url(self):
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = 0
                for line in head.split(b"\r\n"):
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                body = await reader.readexactly(length)
                if not await self.answer(body, reader, writer):
                    break
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def answer(self, body, reader, writer):
        request = json.loads(body)
        items = request if isinstance(request, list) else [request]
        probe = len(items) == 1 and items[0].get("id") == 1 and items[0]["method"] in ("eth_blockNumber", "getblockcount")
        probe = probe and items[0].get("params") == []
        if not probe:
            self.bytes += len(body)
            for item in items:
                self.calls += 1
                name = (item["method"], json.dumps(item.get("params")))
                self.counts[name] = self.counts.get(name, 0) + 1
            await self.gate.wait()
        replies = []
        for item in items:
            height = self.height if self.utxo else hex(self.height)
            result = height if probe else self.results.get(item["method"], "ok")
            error = self.errors.get(item["method"])
            if self.utxo:
                replies.append({"result": None if error else result, "error": error, "id": item.get("id")})
            else:
                outcome = {"error": error} if error else {"result": result}
                replies.append({"jsonrpc": "2.0", "id": item.get("id")} | outcome)
        text = json.dumps(replies if isinstance(request, list) else replies[0]).encode()
        mode = "pass" if probe else self.mode
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        if mode == "pass":
            writer.write(head % len(text) + text)
        elif mode == "cut head":
            writer.write((head % len(text))[:20])
            return False
        elif mode == "cut body":
            writer.write(head % len(text) + text[: len(text) // 2])
            return False
        elif mode == "reset":
            writer.write(head % len(text) + text[: len(text) // 2])
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            return False
        elif mode == "bad length":
            writer.write(head % (len(text) + 100) + text)
            return False
        elif mode == "garbage":
            writer.write(b"\x00\xff\x16\x03 this is no answer\r\n\r\n")
            return False
        elif mode == "garbage body":
            writer.write(head % 9 + b"\xff\xfe<html>x")
        elif mode == "html 502":
            writer.write(b"HTTP/1.1 502 Bad Gateway\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>")
        elif mode == "closed":
            return False
        elif mode == "hang":
            await reader.read(1)  # until the gateway gives up
            return False
        await writer.drain()
        return True


class Connection:
    """A connection that is kept."""

    def __init__(self, port):
        self.port = port
        self.reader = self.writer = None

    async def exchange(self, head, body):
        """The answer to a request of these lines, which lack the length of the body."""
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port, limit=80 * MIB)
        try:
            self.writer.write(f"{head}\r\nhost: h\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
            await self.writer.drain()
        except ConnectionError:
            pass  # answered and closed before all of it was read
        head = await self.reader.readuntil(b"\r\n\r\n")
        lines = head.decode("latin1").split("\r\n")
        status = int(lines[0].split(" ")[1])
        headers = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
        if headers.get("transfer-encoding") == "chunked":
            answer = b""
            while size := int(await self.reader.readuntil(b"\r\n"), 16):
                answer += (await self.reader.readexactly(size + 2))[:-2]
            await self.reader.readuntil(b"\r\n")
        else:
            answer = await self.reader.readexactly(int(headers.get("content-length", 0)))
        if headers.get("connection") == "close":
            self.close()
        return status, headers, answer

    def close(self):
        if self.writer:
            self.writer.close()
        self.reader = self.writer = None


class Client(Connection):
    """A caller of the gateway."""

    def __init__(self, gateway, key="one", chain="eth"):
        super().__init__(gateway.port)
        self.gateway, self.key, self.chain = gateway, KEYS[key], chain
        self.id = 1_000

    async def post(self, body, chain=None):
        self.port = self.gateway.port  # another one after a restart
        return await self.exchange(f"POST /{chain or self.chain} HTTP/1.1\r\napikey: {self.key}", body)

    async def call(self, method, params, chain=None):
        self.id += 1
        body = json.dumps({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params}).encode()
        status, headers, answer = await self.post(body, chain)
        return status, headers, json.loads(answer)

    async def batch(self, calls):
        items = [{"jsonrpc": "2.0", "id": n, "method": m, "params": p} for n, (m, p) in enumerate(calls)]
        status, headers, answer = await self.post(json.dumps(items).encode())
        return status, headers, json.loads(answer)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class NotStarted(Exception):
    """The gateway has ended, or was not ready in time."""


class Gateway:
    """The program under test, with a configuration of its own, in a folder of its own."""

    def __init__(self, program, lines, log="warn", ceiling=10**12, journal="", folder=None, env=None):
        self.program, self.lines, self.level, self.env = program, lines, log, env or {}
        self.ceiling, self.journal = ceiling, journal
        self.dir = None if folder else tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(folder or self.dir.name)
        self.database = self.folder / "rpcgate.db"

    async def __aenter__(self):
        return await self.start()

    async def start(self):
        """A process in the folder, once it wants calls."""
        self.port = free_port()
        plan = 'per_minute = 1000000000\nper_hour = 1000000000\nper_day = 1000000000\nheavy_per_minute = 1000000000'
        keys = "".join(f'[keys.{name}]\nkey = "{key}"\n' for name, key in KEYS.items())
        text = (
            f'[gateway]\nlisten = "127.0.0.1:{self.port}"\n[telemetry]\nlog_filter = "{self.level}"\n[plans.enterprise]\n{plan}\n'
            f'[database]\nurl = "sqlite://{self.database}"\n[journal]\n{self.journal}\n'
            f'[tenants.default]\nplan = "enterprise"\n[projects.default]\ncu_per_day = {self.ceiling}\n{keys}{self.lines}'
        )
        return await self.launch(self.program, text)

    async def launch(self, program, text):
        """A process with this configuration, once it is ready."""
        path = self.folder / "rpcgate.toml"
        path.write_text(text)
        self.log = open(self.folder / "log", "a+b")
        self.process = subprocess.Popen(
            [program, "run", "--config", str(path)], stdout=self.log, stderr=self.log, cwd=self.folder, env=os.environ | self.env
        )
        for _ in range(3_000):
            if self.process.poll() is not None:
                break
            if await self.ready():
                return self
            await asyncio.sleep(0.01)
        raise NotStarted(f"it did not start:\n{self.heard()}")

    async def ready(self):
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.write(b"GET /readyz HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n")
            answer = await reader.read()
            writer.close()
            return answer.startswith(b"HTTP/1.1 200 ")
        except ConnectionError:
            return False

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.log.close()

    async def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            await asyncio.to_thread(self.process.wait, 35)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()

    async def __aexit__(self, *_):
        if self.process.poll() is None:
            await self.stop()
        if "panicked" in self.heard():
            sys.exit(f"the gateway panicked:\n{self.heard()}")
        if self.dir:
            self.dir.cleanup()

    def heard(self):
        """All of its log."""
        return (self.folder / "log").read_text(errors="replace")

    def segments(self):
        return sorted((self.folder / "journal").glob("*.segment"))

    def rss(self):
        """Resident memory in MiB."""
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        return 0.0


class Numbers:
    """Names that stand for numbers in a row of frames."""

    def __init__(self):
        self.known = []

    def read(self, cursor, definition):
        reference = cursor.number()
        if 0 < reference <= len(self.known):
            return self.known[reference - 1]
        value = definition(cursor)
        if reference:
            self.known.append(value)
        return value


class Cursor:
    """What is left of a payload."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def bytes(self, length):
        self.at += length
        return self.data[self.at - length : self.at]

    def number(self):
        number = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number


OUTCOMES = ("answered", "node error", "refused", "failed", "abandoned")
Line = collections.namedtuple("Line", "method cu status outcome cached calls bytes_in bytes_out")
Event = collections.namedtuple("Event", "request chain windowed lines end")


def events(data):
    """The events in a row of frames, up to the first that is not whole. `end` is where one ends."""
    parties, chains, methods = Numbers(), Numbers(), Numbers()
    at, name = 0, lambda cursor: cursor.bytes(cursor.number())
    while len(data) - at >= 8:
        length, checksum = struct.unpack_from("<II", data, at)
        payload = data[at + 8 : at + 8 + length]
        if length == 0 or len(payload) < length or zlib.crc32(payload) != checksum:
            return
        at += 8 + length
        cursor = Cursor(payload)
        bits = cursor.bytes(1)[0]
        request = uuid.UUID(bytes=cursor.bytes(16))
        parties.read(cursor, lambda cursor: (cursor.bytes(49), cursor.number()))
        chain = chains.read(cursor, name).decode()
        cursor.number(), cursor.number()  # arrival, latency
        windowed = cursor.number() if bits & 16 else 1
        lines = []
        while cursor.at < length:
            flags = cursor.bytes(1)[0]
            method, cu = methods.read(cursor, name).decode(errors="replace"), cursor.number()
            status = cursor.number() if flags & 16 else 200
            calls = cursor.number() if flags & 32 else 1
            lines.append(Line(method, cu, status, OUTCOMES[flags & 7], bool(flags & 8), calls, cursor.number(), cursor.number()))
        yield Event(request, chain, windowed, lines, at)


def frames(block):
    """The frames of a block: each payload stands there without what it has in common with the one before."""
    form, checksum = struct.unpack_from("<BI", block)
    rest = block[5:]
    if form != 2 or zlib.crc32(rest) != checksum:
        raise ValueError("a block that is damaged")
    cursor, former, whole = Cursor(rest), b"", bytearray()
    while cursor.at < len(rest):
        length = cursor.number()
        payload = bytearray(former[:length].ljust(length, b"\0"))
        for start in range(0, length, 8):
            differs = cursor.bytes(1)[0]
            for bit in range(8):
                if differs >> bit & 1:
                    payload[start + bit] = cursor.bytes(1)[0]
        whole += struct.pack("<II", length, zlib.crc32(payload)) + payload
        former = payload
    return bytes(whole)


class Ledger:
    """What a gateway's usage database holds."""

    def __init__(self, gateway):
        self.file = gateway.database.with_name("rpcgate-usage.db")

    def rows(self, query):
        database = sqlite3.connect(f"file:{self.file}?mode=ro", uri=True, timeout=20)
        try:
            return database.execute(query).fetchall()
        finally:
            database.close()

    def events(self):
        for (block,) in self.rows("SELECT bytes FROM blocks ORDER BY id"):
            yield from events(frames(block))

    def sums(self):
        """By chain and method: calls, calls charged, Compute Units, errors, rejected, cache hits, bytes in, bytes out."""
        metrics = "requests billed_requests billable_units errors rejected cache_hits request_bytes response_bytes".split()
        columns = ", ".join(f"SUM({metric})" for metric in metrics)
        rows = self.rows(f"SELECT chain, method, {columns} FROM rollups GROUP BY chain, method")
        return {(chain, method): tuple(sums) for chain, method, *sums in rows}

    def total(self):
        """Calls and Compute Units."""
        sums = self.sums().values()
        return sum(row[0] for row in sums), sum(row[2] for row in sums)


# Compute Units (specification, "Compute Units").
ON_EVM = {
    0: "eth_chainId net_version net_listening web3_clientVersion",
    1: "eth_blockNumber eth_gasPrice eth_maxPriorityFeePerGas",
    5: "eth_feeHistory eth_getBalance eth_getTransactionCount eth_getTransactionByHash eth_getTransactionReceipt",
    10: "eth_getBlockByNumber eth_getBlockByHash eth_getCode eth_getStorageAt",
    15: "eth_call eth_estimateGas",
    20: "eth_sendRawTransaction",
    75: "eth_getLogs",
}
ON_BTC = {
    1: "getblockcount getbestblockhash getblockhash getblockchaininfo getnetworkinfo estimatesmartfee",
    5: "getmempoolinfo gettxout",
    10: "getblock getrawtransaction",
    20: "sendrawtransaction",
}
ON_LTC_AND_DASH = {1: "getblockcount getbestblockhash getblockchaininfo getnetworkinfo gettxout", 10: "getblock getrawtransaction", 20: "sendrawtransaction"}
ON_BCH_AND_LIQUID = {1: "getblockcount getbestblockhash getblockhash getblock getrawtransaction sendrawtransaction getmempoolinfo gettxout"}
WEIGHTS = {
    chain: {method: cu for cu, methods in table.items() for method in methods.split()}
    for table, chains in (
        (ON_EVM, "eth bsc polygon avax"),
        (ON_BTC, "btc"),
        (ON_LTC_AND_DASH, "ltc dash"),
        (ON_BCH_AND_LIQUID, "bch doge liquid"),
    )
    for chain in chains.split()
}
WEIGHTS["eth"]["eth_sendTransaction"] = 20


def weight(chain, method):
    return WEIGHTS[chain].get(method, 1)


class Admin(Gateway):
    """The management side alone, whose binary stands beside the gateway's."""

    async def start(self):
        self.port = free_port()
        return await self.launch(
            pathlib.Path(self.program).with_name("rpcgate-admin"),
            f'[gateway]\nkey_secret = "{"k" * 32}"\n[admin]\nlisten = "127.0.0.1:{self.port}"\nauth_per_minute = 1000000\n'
            f'[admin.jwt]\nsecret = "{"s" * 32}"\n[admin.mail]\noutbox = "{self.folder / "outbox"}"\n[admin.challenge]\ndifficulty = 1000\n'
            f'[telemetry]\nlog_filter = "{self.level}"\n[database]\nurl = "sqlite://{self.database}"\n',
        )


class Visitor(Connection):
    """Somebody at the management API."""

    async def post(self, path, body):
        head = f"POST /api/v1/auth/{path} HTTP/1.1\r\ncontent-type: application/json"
        status, headers, answer = await self.exchange(head, json.dumps(body).encode())
        # These are other ones in every answer.
        return status, {name: text for name, text in headers.items() if name not in ("date", "x-request-id")}, answer

    async def login(self, email, password):
        return await self.post("login", {"email": email, "password": password})

    async def application(self, email):
        """What registers an address, with the solution of a new challenge."""
        _, _, answer = await self.exchange("GET /api/v1/auth/challenge HTTP/1.1", b"")
        posed = json.loads(answer)
        for number in range(posed["maxnumber"] + 1):
            if hashlib.sha256(f"{posed['salt']}{number}".encode()).hexdigest() == posed["challenge"]:
                break
        solution = base64.b64encode(json.dumps(posed | {"number": number}).encode()).decode()
        return {"email": email, "password": PASSWORD, "name": "", "challenge": solution}

    async def register(self, email):
        return await self.post("register", await self.application(email))


def part(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def timed(awaitable):
    start = time.perf_counter()
    result = await awaitable
    return result, time.perf_counter() - start


async def load(gateway, seconds, rate=300, connections=64, chain="eth"):
    """Latencies in seconds of `rate` calls a second, mixed, sent when they are due."""
    clients = asyncio.Queue()
    for _ in range(connections):
        clients.put_nowait(Client(gateway, chain=chain))
    latencies, failed = [], 0

    async def one(number):
        nonlocal failed
        client = await clients.get()
        kinds = [("eth_getBalance", [number]), ("eth_chainId", []), ("eth_call", [number % 50])]
        try:
            if number % 4 == 3:
                (_, _, answer), took = await timed(client.batch(kinds))
                failed += any("error" in item for item in answer)
            else:
                (_, _, answer), took = await timed(client.call(*kinds[number % 4]))
                failed += "error" in answer
            latencies.append(took)
        finally:
            clients.put_nowait(client)

    start, tasks = time.perf_counter(), []
    for number in range(int(rate * seconds)):
        await asyncio.sleep(max(0.0, start + number / rate - time.perf_counter()))
        tasks.append(asyncio.create_task(one(number)))
    await asyncio.gather(*tasks)
    while not clients.empty():
        clients.get_nowait().close()
    return latencies, failed


def chains(**nodes):
    lines = ""
    for chain, (urls, extra) in nodes.items():
        urls = ", ".join(f'"{node.url()}"' for node in urls)
        lines += f"[chains.{chain}]\nnodes = [{urls}]\n{extra}\n"
    return lines


def is_refused(method):
    return method in ("admin_peers", "stop")


class Oracle:
    """What callers asked for and were told."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.answered, self.unanswered, self.number = {}, [], 1_000

    def request(self):
        """Chain, body and what it must come to: method, Compute Units and outcome of each call."""
        chain = self.dice.choice(["eth", "eth", "eth", "bsc", "btc"])
        evm = "eth_getBalance eth_getBalance eth_call eth_call eth_chainId eth_sendRawTransaction broken_call unheard_of admin_peers"
        utxo = "getblock getrawtransaction getblockcount broken_call unheard_of stop"
        pool = (utxo if chain == "btc" else evm).split()
        methods = [self.dice.choice(pool) for _ in range(self.dice.choice([1, 1, 1, 2, 5, 20]))]
        items, wanted = [], []
        for method in methods:
            self.number += 1
            params = [] if method in ("eth_chainId", "getblockcount") else [self.number % 20 if method == "eth_call" else self.number]
            items.append({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
            if is_refused(method):
                wanted.append((method, 0, "refused"))
            else:
                wanted.append((method, weight(chain, method), "node error" if method == "broken_call" else "answered"))
        return chain, json.dumps(items[0] if len(items) == 1 else items).encode(), wanted

    async def send(self, client):
        chain, body, wanted = self.request()
        try:
            status, headers, _ = await client.post(body, chain)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.unanswered.append((chain, wanted))
            client.close()
            return False
        assert int(headers["x-compute-units"]) == sum(cu for _, cu, _ in wanted), (body, headers)
        self.answered[uuid.UUID(headers["x-request-id"])] = (chain, wanted)
        return True

    async def load(self, gateway, rate=300, connections=64):
        """Sends `rate` requests a second, when they are due, until one is not answered."""
        clients, alive, tasks = asyncio.Queue(), True, set()
        for _ in range(connections):
            clients.put_nowait(Client(gateway))

        async def one(client):
            nonlocal alive
            alive = await self.send(client) and alive
            clients.put_nowait(client)

        start, number = time.perf_counter(), 0
        while alive:
            task = asyncio.create_task(one(await clients.get()))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            number += 1
            await asyncio.sleep(max(0.0, start + number / rate - time.perf_counter()))
        await asyncio.gather(*tasks)
        while not clients.empty():
            clients.get_nowait().close()

    def compare(self, run, promise, recorded):
        """Of what is recorded: answers that are missing, requests that are there twice, and those without an answer."""
        by_id, twice, wrong = {}, 0, 0
        for event in recorded:
            twice += event.request in by_id
            by_id[event.request] = event
        missing = 0
        for request, (chain, wanted) in self.answered.items():
            event = by_id.pop(request, None)
            if all(outcome == "refused" for _, _, outcome in wanted):
                continue
            if event is None:
                missing += 1
            else:
                wrong += (event.chain, [(line.method, line.cu, line.outcome) for line in event.lines]) != (chain, wanted)
        left = [event for event in by_id.values() if any(line.outcome != "refused" for line in event.lines)]
        under_way = list(self.unanswered)
        for event in left:
            found = (event.chain, [(line.method, line.cu, line.outcome) for line in event.lines])
            run.must(promise, found in under_way, f"billed, and nobody asked for it: {event}")
            if found in under_way:
                under_way.remove(found)
        run.say(promise, f"of {len(self.answered):,} answers are not billed", missing, 0, "")
        run.say(promise, "are billed otherwise than they were told", wrong, 0, "")
        run.say(promise, "requests are billed twice", twice, 0, "")
        run.say(promise, "are billed without an answer, of those under way when it was killed", len(left), len(self.unanswered), "")


def mixed():
    """Nodes for an oracle's load, and the configuration of their chains."""
    nodes = [Node() for _ in range(3)] + [Node(), Node(utxo=True)]
    for node in nodes:
        node.errors["broken_call"] = {"code": -5, "message": "no"}
    return nodes, lambda: chains(eth=(nodes[:3], ""), bsc=([nodes[3]], ""), btc=([nodes[4]], ""))


async def promise_1(run):
    """kill -9 loses no bill."""
    seed = run.seed
    oracle, dice = Oracle(seed), random.Random(seed + 1)
    nodes, lines = mixed()
    for node in nodes:
        await node.start()
    kills, gateway = max(3, int(20 * run.scale)), None
    async with Gateway(run.program, lines()) as gateway:
        for number in range(kills):
            # Every other time as fast as it goes.
            load = asyncio.create_task(oracle.load(gateway, rate=300 if number % 2 else 100_000))
            await asyncio.sleep(dice.uniform(0.5, 3.0))
            gateway.kill()
            await load
            if dice.random() < 0.3:
                # Killed again, as often as not before it is ready.
                starting = asyncio.create_task(gateway.start())
                await asyncio.sleep(dice.uniform(0.0, 0.1))
                gateway.kill()
                await asyncio.gather(starting, return_exceptions=True)
            await gateway.start()
        recorded = list(Ledger(gateway).events())
    oracle.compare(run, 1, recorded)
    run.say(1, f"under way at {kills} kills, seed {seed}", len(oracle.unanswered), 64 * kills, "")


async def left_behind(run, oracle, folder, lines, count, env=None):
    """A gateway that was killed after so many requests of one caller, and its journal's segments."""
    gateway = await Gateway(run.program, lines, folder=folder, env=env).start()
    client = Client(gateway)
    for _ in range(count):
        await oracle.send(client)
    gateway.kill()
    client.close()
    return gateway


async def promise_2(run):
    """Wherever the journal is torn, its whole records are there once."""
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
        told = sum(cu for _, wanted in oracle.answered.values() for _, cu, _ in wanted)
        run.must(2, charged == told and 64 + written[-1].end == len(data), f"{charged} units in the journal, {told} told")
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
                for _ in range(2):
                    again = await Gateway(run.program, lines(), folder=copy).start()
                    again.kill()
                    found = {event.request: event for event in Ledger(again).events()}
                    calls, units = Ledger(again).total()
                    wanted = sum(line.calls for event in whole for line in event.lines), sum(line.cu for event in whole for line in event.lines)
                    wrong += (calls, units) != wanted or list(found) != [event.request for event in whole]
        run.say(2, f"starts of {2 * len(cuts)} on a torn journal that lost or doubled a whole record", wrong, 0, "")


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
        other = Gateway(run.program, lines(), folder=twin)
        other.database = gateway.database
        # Both replay the same journal at once, into the same database.
        await asyncio.gather(gateway.start(), other.start())
        other.kill()
        gateway.kill()
        ledger = Ledger(gateway)
        before = ledger.sums()
        told = sum(cu for _, wanted in oracle.answered.values() for _, cu, _ in wanted)
        run.say(3, f"units of {told:,} that two replays at once changed", abs(ledger.total()[1] - told), 0, "")
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
    # One a minute is all that a key has of it: once it is asked for below.
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
            # A few ask the same again and again: they are cached where their method is.
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
        # What belongs to no call is the first one's.
        spare_in, spare_out = len(body) - sum(map(len, items)), len(answer) - sum(slices)
        units = 0
        for place, (method, item, out) in enumerate(zip(methods, items, slices)):
            first = place == 0
            units += add(chain, method, len(item) + first * spare_in, out + first * spare_out)
        run.must(4, int(headers["x-compute-units"]) == units, f"{headers['x-compute-units']} units told, {units} due: {body[:200]}")

    async def worker(gateway, share):
        client, done = Client(gateway), 0
        while done < share:
            chain = dice.choice(list(pools))
            size = dice.choice([1, 1, 2, 10, 50, 100])
            await ask(client, chain, dice.choices(pools[chain], k=size))
            done += size
        client.close()

    async with Gateway(run.program, chains(**{chain: ([node], "") for chain, node in nodes.items()})) as gateway:
        await ask(Client(gateway), "eth", ["eth_getLogs"])
        await asyncio.gather(*(worker(gateway, count // 16) for _ in range(16)))
        await gateway.stop()
        sums, calls = Ledger(gateway).sums(), sum(row[0] for row in model.values())
        for (chain, method), row in model.items():
            asked = sum(n for (name, _), n in nodes[chain].counts.items() if name == method)
            # What was answered and not asked of a node came from the cache.
            row[5] = 0 if is_refused(method) else row[0] - asked
        missing = set(pools_rows(pools)) - set(sums)
        run.must(4, not missing or run.scale < 1, f"called of every method: {sorted(missing)}")
        differ = {name: (sums.get(name), tuple(row)) for name, row in model.items() if sums.get(name) != tuple(row)}
        for name, (found, due) in sorted(differ.items())[:5]:
            run.must(4, False, f"{name}: the ledger has {found}, due is {due}")
        run.say(4, "rows of the ledger that nobody called", len(set(sums) - set(model)), 0, "")
        units = sum(row[2] for row in sums.values()), sum(row[2] for row in model.values())
        run.say(4, f"units that the ledger differs by, of {units[1]:,} for {calls:,} calls, seed {run.seed}", abs(units[0] - units[1]), 0, "")
        run.say(4, "sums of a chain's method that differ (calls, billed, units, errors, cache hits, bytes)", len(differ), 0, "")


def pools_rows(pools):
    return [(chain, method) for chain, pool in pools.items() for method in pool]


async def promise_5(run):
    """The databases away: SQLite, held by somebody else."""
    oracle = Oracle(run.seed)
    nodes, lines = mixed()
    for node in nodes:
        await node.start()
    stored, nobodys = f"rpcg_{'stored':x<45}", f"rpcg_{'nobodys':x<45}"
    seconds = max(10.0, 600 * run.scale)
    async with Gateway(run.program, lines()) as gateway:
        KEYS.update(stored=stored, nobodys=nobodys)
        database = sqlite3.connect(gateway.database, isolation_level=None, timeout=20)
        one = uuid.UUID(int=1).bytes
        database.execute("INSERT INTO tenants VALUES (?, 't', 'enterprise', 0, 0)", [one])
        database.execute("INSERT INTO projects VALUES (?, ?, 'p', '[]', '[]', 0)", [one, one])
        digest = hashlib.sha256(stored.encode()).digest()
        database.execute("INSERT INTO keys VALUES (?, ?, '', ?, ?, NULL, NULL, NULL, 0)", [one, one, stored[:12], digest])
        database.close()
        known, unknown = Client(gateway, "stored"), Client(gateway, "nobodys")

        async def ask(client):
            client.id += 1
            status, _, _ = await client.post(json.dumps({"id": client.id, "method": "eth_chainId"}).encode(), "eth")
            return status

        told = await ask(known), await ask(unknown)
        run.must(5, told == (200, 401), f"a stored key is known, another is not: {told}")
        usage = sqlite3.connect(Ledger(gateway).file, isolation_level=None, timeout=20)
        usage.execute("BEGIN EXCLUSIVE")
        # Nobody can begin to read: these five locks are those of readers (SQLite, "WAL-mode file format").
        locks = open(f"{gateway.database}-shm", "r+b", buffering=0)
        while True:
            try:
                fcntl.lockf(locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 5, 123)
                break
            except OSError:
                await asyncio.sleep(0.001)
        load = asyncio.create_task(oracle.load(gateway))
        failed = asked = lied = unheard = 0
        slowest, end = 0.0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            status, took = await timed(ask(known))
            asked, failed = asked + 1, failed + (status != 200)
            slowest = max(slowest, took)
            status, took = await timed(ask(unknown))
            lied, unheard = lied + (status == 401), unheard + (status != 503)
            slowest = max(slowest, took)
            await asyncio.sleep(0.2)
        run.say(5, f"calls of a known key that failed in {seconds:.0f} s without a database", failed / asked, 0.001, "of all")
        run.say(5, "unknown keys that were told so although nobody could know", lied, 0, "")
        run.say(5, "unknown keys that were not told to come back", unheard, 0, "")
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
        run.say(5, "from the databases' return until the ledger was complete and the gateway drained", time.perf_counter() - back, 60, "s")
        oracle.compare(run, 5, [event for event in Ledger(gateway).events() if event.request in oracle.answered])


async def promise_8(run):
    """Upstream down."""
    nodes = [await Node().start() for _ in range(3)]
    with socket.socket() as refusing:
        refusing.bind(("127.0.0.1", 0))
        dead = Node()
        dead.port = refusing.getsockname()[1]
        lines = chains(eth=(nodes[:2] + [dead], ""), bsc=([dead], ""))
        async with Gateway(run.program, lines) as gateway:
            client = Client(gateway, chain="bsc")
            slowest = 0.0
            for number in range(50):
                (status, headers, answer), took = await timed(client.call("eth_getBalance", [number]))
                slowest = max(slowest, took)
                run.must(8, answer.get("error", {}).get("code") == -32603 and headers["x-compute-units"] == "0", "a refused connect is -32603, not charged")
            run.say(8, "slowest -32603 on a refused connect", slowest, 1.0, "s")
            nodes[0].mode = "cut body"
            count = int(2_000 * run.scale) + 100
            client = Client(gateway)
            for number in range(count):
                await client.call("eth_getBalance", [number])
            asked = sum(node.calls for node in nodes)
            run.say(8, "more calls at the nodes than were made", (asked - count) / count, 0.10 + 60 / count, "of all")
            twice = 0
            for number in range(count // 4):
                await client.call("eth_sendRawTransaction", [number])
                name = ("eth_sendRawTransaction", json.dumps([number]))
                twice += sum(node.counts.get(name, 0) for node in nodes) > 1
            run.say(8, "broadcasts that reached nodes twice", twice, 0, "")


async def promise_9(run):
    """A hung chain stays local."""
    eth, btc = await Node().start(), await Node().start()
    btc.mode = "hang"
    seconds = max(3.0, 20 * run.scale)
    async with Gateway(run.program, chains(eth=([eth], ""), btc=([btc], 'max_in_flight = 256\ntimeout = "60s"'))) as gateway:
        await load(gateway, 1)
        before, failed = await load(gateway, seconds)
        rss = gateway.rss()
        # They only wait: what else they did would be measured with the rest, for both share this process.
        clients = [Client(gateway, chain="btc") for _ in range(300)]
        hung = [asyncio.create_task(client.call("getdifficulty", [])) for client in clients]
        await asyncio.sleep(0.5)
        told = [task.result()[0] for task in hung if task.done()]
        run.must(9, told == [503] * 44, f"beyond the 256 calls in flight of the chain the rest is 503, got {told}")
        during, more = await load(gateway, seconds)
        run.say(9, "growth beside a hung chain", gateway.rss() - rss, 100, "MiB")
        # Small figures are the machine's noise: half a millisecond is always allowed.
        base, p99 = part(before, 0.99), part(during, 0.99)
        run.say(9, f"p99 of another chain ({base * 1000:.2f} ms without)", p99 * 1000, max(1.2 * base * 1000, base * 1000 + 0.5) + 2.0, "ms")
        run.say(9, "calls of another chain that failed", failed + more, 0, "")
        for task in hung:
            task.cancel()
        await asyncio.gather(*hung, return_exceptions=True)
        for client in clients:
            client.close()


async def promise_10(run):
    """Broken answers."""
    node = await Node().start()
    async with Gateway(run.program, chains(eth=([node], 'timeout = "1s"'))) as gateway:
        client = Client(gateway)
        wrong = cached = charged = 0
        for mode in ("cut head", "cut body", "reset", "bad length", "garbage", "garbage body", "html 502", "closed", "hang"):
            for number in range(max(1, int(20 * run.scale)) if mode != "hang" else 1):
                node.mode = mode
                params = [mode, number]
                for method in ("eth_getBalance", "eth_call", "eth_sendRawTransaction"):
                    status, headers, answer = await client.call(method, params)
                    wrong += (status, answer.get("error", {}).get("code")) != (200, -32603)
                    charged += int(headers["x-compute-units"])
                status, headers, answer = await client.batch([("eth_getBalance", params), ("eth_getCode", params)])
                wrong += status != 200 or any(item["error"]["code"] != -32603 for item in answer)
                charged += int(headers["x-compute-units"])
                node.mode = "pass"
                status, headers, answer = await client.call("eth_call", params)
                cached += headers["x-cache"] == "hit" or answer.get("result") != "ok"
        run.say(10, "broken answers not told as -32603", wrong, 0, "")
        run.say(10, "broken answers that were kept", cached, 0, "")
        run.say(10, "Compute Units charged for them", charged, 0, "")


async def promise_11(run):
    """Malformed bodies."""
    node = await Node().start()
    call = b'{"id":9,"method":"m"}'
    bodies = [
        b"", b"{", b"[", b"]", b"nul", b"5", b"{}", b"[]", b'{"id":9}', b'{"id":9,"method":5}', b'{"id":9,"method":""}',
        b'{"id":9,"method":"m","method":"n"}', b'{"id":9,"m\\u0065thod":"n","method":"m"}', b'{"id":9,"Method":"m"}', b'{"ID":1,"id":9,"method":"m"}',
        b'{"id":9,"method":"m","Params":[]}', b'{"id":9,"method":"' + b"m" * 257 + b'"}', b'{"id":9,"method":"\\ud800"}', b'{"id":9,"method":"\xff"}',
        b"\xef\xbb\xbf" + call, call + b"\0", call + call, call + b"x", b"\0" + call, b'{"id":9,"method":"a\nb"}', call.decode().encode("utf-16"),
        b"[" * 129 + b"]" * 129, b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100_000, b'{"id":9,"method":"m","params":' + b"[" * 2_000_000,
        b"[" + b"0," * 2_000_000 + b"0]", b'{"id":9,"method":"m",' + b",".join(b'"x%d":0' % n for n in range(200_000)) + b"}",
        b'{"id":' + b"9" * 4_000_000 + b',"method":5}', b'"' + b"\\u0041" * 800_000, b" " * (5 * MIB), b'{"id":9,"method":"m","params":"' + b"\\" * 1_000_001 + b'"}',
    ]
    async with Gateway(run.program, chains(eth=([node], ""))) as gateway:
        client = Client(gateway)
        slowest = 0.0
        for body in bodies * max(1, int(5 * run.scale)):
            (status, _, answer), took = await timed(client.post(body))
            code = json.loads(answer)["error"]["code"]
            run.must(11, status in (400, 413) and code in (-32700, -32600), f"{body[:60]!r} got {status} {code}")
            slowest = max(slowest, took)
        run.say(11, "slowest refusal of a malformed body, up to 5 MiB", slowest * 1000, 50, "ms")
        run.say(11, "bytes that reached a node", node.bytes, 0, "")


async def promise_12(run):
    """Huge bodies and batches."""
    node = await Node().start()
    async with Gateway(run.program, chains(eth=([node], ""))) as gateway:
        await Client(gateway).call("eth_chainId", [])
        before = gateway.rss()
        frame = b'{"jsonrpc":"2.0","id":9,"method":"eth_getBalance","params":["%s"]}'
        body = frame % (b"a" * (5 * MIB - len(frame) + 2))
        node.gate.clear()
        calls = [asyncio.create_task(Client(gateway).post(body)) for _ in range(64)]
        peak = 0.0
        for _ in range(100):
            await asyncio.sleep(0.05)
            peak = max(peak, gateway.rss() - before)
        node.gate.set()
        statuses = [status for status, _, _ in await asyncio.gather(*calls)]
        run.must(12, set(statuses) <= {200, 503} and statuses.count(200) > 0, f"64 bodies of 5 MiB got {sorted(set(statuses))}")
        run.say(12, f"growth under 64 bodies of 5 MiB ({statuses.count(503)} told to come back)", peak, 256 * 1.2 + 64, "MiB")
        status, _, _ = await Client(gateway).post(body + b" ")
        run.must(12, status == 413, "a byte more is 413")
        asked = node.calls
        for count in (101, 1_000, 20_000):
            status, _, answer = await Client(gateway).batch([("eth_sendRawTransaction", [])] * count)
            run.must(12, status == 413 and answer["error"]["message"] == "batch too large", f"{count} items are 413")
        run.say(12, "calls executed of batches that were refused", node.calls - asked, 0, "")


async def promise_16(run):
    """A herd on one key."""
    node = await Node().start()
    count = max(50, int(1_000 * run.scale))
    async with Gateway(run.program, chains(eth=([node], 'timeout = "3s"'))) as gateway:
        clients = [Client(gateway) for _ in range(count)]
        await asyncio.gather(*(client.call("eth_getBalance", []) for client in clients))
        for mode, code in (("pass", None), ("cut body", -32603), ("html 502", -32603), ("hang", -32603)):
            node.calls, node.mode = 0, mode
            node.gate.clear()
            asking = [asyncio.create_task(client.call("eth_call", [mode])) for client in clients]
            await asyncio.sleep(1.0)
            node.gate.set()
            answers = await asyncio.gather(*asking)
            codes = {answer.get("error", {}).get("code") for _, _, answer in answers}
            charged = sum(int(headers["x-compute-units"]) for _, headers, _ in answers)
            run.must(16, codes == {code}, f"{mode}: everybody gets the leader's answer, got {codes}")
            run.must(16, charged == (0 if code else 15 * count), f"{mode}: {charged} units charged")
            # A kept connection that breaks is renewed once.
            run.say(16, f"node calls for {count} at once, {mode}", node.calls, 1 if mode != "cut body" else 2, "")
            node.mode = "pass"
            _, _, answer = await clients[0].call("eth_call", [mode, "after"])
            run.must(16, answer.get("result") == "ok", f"{mode}: poisons nothing")


async def promise_17(run):
    """A flood of distinct keys."""
    node = await Node().start()
    node.results["eth_call"] = "0x" + "ab" * 100
    keys, size = int(1_000_000 * run.scale), 64
    async with Gateway(run.program, f'[cache]\nbytes = "{size}MiB"\n' + chains(eth=([node], 'ttl = { eth_call = "forever" }'))) as gateway:
        await Client(gateway).call("eth_chainId", [])
        before = gateway.rss()
        hits = asked = 0
        peak = 0.0

        async def flood(worker, workers):
            nonlocal hits, asked, peak
            client = Client(gateway)
            for number in range(worker, max(keys // 100, workers), workers):
                await client.batch([("eth_call", [number * 100 + n]) for n in range(100)])
                _, headers, _ = await client.call("eth_chainId", [])
                asked += 1
                hits += headers["x-cache"] == "hit"
                peak = max(peak, gateway.rss() - before)

        await asyncio.gather(*(flood(worker, 8) for worker in range(8)))
        run.say(17, f"growth under {keys:,} distinct keys, cache of {size} MiB", peak, size * 1.2, "MiB")
        run.say(17, "calls of the hot key that missed", 1 - hits / asked, 0.10, "of all")


async def promise_24(run):
    """The ceiling is overrun by one call at most."""
    node = await Node().start()
    ceiling, heavy = 100_000, ("eth_getLogs", [])
    for name in ("64 calls at once", "one batch of 100"):
        async with Gateway(run.program, chains(bsc=([node], "")), ceiling=ceiling) as gateway:
            client, used = Client(gateway, chain="bsc"), 0
            while used < 0.999 * ceiling:
                _, headers, _ = await client.batch([heavy] * min(100, int(0.999 * ceiling - used) // 75))
                used += int(headers["x-compute-units"])
            run.must(24, used == 99_900, f"99.9 % of the ceiling are used: {used}")
            if name.startswith("64"):
                # All of them are under way before the first is answered.
                node.gate.clear()
                clients = [Client(gateway, chain="bsc") for _ in range(64)]
                calls = [asyncio.create_task(client.call(*heavy)) for client in clients]
                await asyncio.sleep(0.5)
                node.gate.set()
                answers = [answer for _, _, answer in await asyncio.gather(*calls)]
                for client in clients:
                    client.close()
            else:
                _, _, answers = await client.batch([heavy] * 100)
            served = sum("result" in answer for answer in answers)
            refused = sum(answer.get("error", {}).get("code") == -32005 for answer in answers)
            run.must(24, served == 2 and served + refused == len(answers), f"{name}: {served} served, {refused} refused")
            await gateway.stop()
            _, units = Ledger(gateway).total()
            run.say(24, f"units over the ceiling of {ceiling:,}, {name}", units - ceiling, 75, "")


async def promise_33(run):
    """Guessing passwords is stopped, however many are tried at once."""
    async with Admin(run.program, "") as admin:
        email, stranger = "known@example.com", "nobody@example.com"
        visitors = [Visitor(admin.port) for _ in range(200)]
        status, _, answer = await visitors[0].register(email)
        run.must(33, status == 201, f"registering got {status} {answer}")
        status, _, _ = await visitors[0].login(email, PASSWORD)
        run.must(33, status == 200, f"the right password got {status}")
        seen = {}
        for address in (email, stranger):
            asking = [visitor.login(address, f"{PASSWORD} {number}") for number, visitor in enumerate(visitors)]
            answers = await asyncio.gather(*asking)
            statuses = collections.Counter(status for status, _, _ in answers)
            run.must(33, set(statuses) <= {401, 403, 429}, f"200 at once got {dict(statuses)}")
            run.must(33, statuses[403] > 0, f"an address is locked: {dict(statuses)}")
            run.say(33, f"guesses of 200 at once that were looked at, {address} ({dict(statuses)})", statuses[401], 5, "")
            seen[address] = {(status, tuple(sorted(headers.items())), text) for status, headers, text in answers}
        run.must(33, seen[email] == seen[stranger], f"an address that nobody has looks the same: {seen}")
        # The store notes of each guess that was looked at, whatever its caller was told.
        noted = 0
        for _ in range(40):
            with sqlite3.connect(admin.database) as database:
                (noted,) = database.execute("select count(*) from audit where action = 'login.failed'").fetchone()
            await asyncio.sleep(0.05)
        run.say(33, "guesses that the audit tells of", noted, 5, "")
        refused = [await visitors[0].login(email, PASSWORD) for _ in range(5)]
        run.must(33, {status for status, _, _ in refused} == {403}, f"the right password while it is locked: {refused}")
        with sqlite3.connect(admin.database) as database:
            # Sixteen minutes later, as far as the store can tell.
            database.execute("update attempts set at = at - 16 * 60 * 1000000")
        status, _, answer = await visitors[0].login(email, PASSWORD)
        run.must(33, status == 200, f"the right password after the lock: {status} {answer}")
        for visitor in visitors:
            visitor.close()


async def promise_34(run):
    """Whether an address has an account shows in no answer and in no time. Wants a machine that does nothing else."""
    pairs = max(40, int(300 * run.scale))
    dice = random.Random(run.seed)
    async with Admin(run.program, "") as admin:
        visitor = Visitor(admin.port)
        # No address is tried so often that it is locked.
        known = [f"known{number}@example.com" for number in range(-(-pairs // 4))]
        for email in known:
            await visitor.register(email)

        async def login(email):
            return await timed(visitor.login(email, "not the password"))

        async def register(email):
            application = await visitor.application(email)
            return await timed(visitor.post("register", application))

        async def compare(what, ask, taken, free):
            times, answers = ([], []), (set(), set())
            for number in range(pairs):
                kinds = [(0, taken(number)), (1, free(number))]
                dice.shuffle(kinds)
                for kind, email in kinds:
                    (status, headers, text), took = await ask(email)
                    times[kind].append(took)
                    # The address itself is said again, and is of another length.
                    shown = text.replace(email.encode(), b"it")
                    answers[kind].add((status, tuple(sorted(set(headers.items()) - {("content-length", str(len(text)))})), shown))
            run.must(34, answers[0] == answers[1] and len(answers[0]) == 1, f"{what}: answers differ: {answers}")
            there, not_there = (statistics.median(kind) for kind in times)
            # What else the machine does meets both of a pair, so it is they that are compared.
            gap = statistics.median(a - b for a, b in zip(*times)) / statistics.median(times[0] + times[1])
            shown = f"{there * 1000:.2f} ms for an address that is taken, {not_there * 1000:.2f} ms for another"
            run.say(34, f"{what}, {pairs} pairs ({shown}): median gap", abs(gap) * 100, 5, "%")
            p = mann_whitney(*times)
            run.say(34, f"{what}: how sure it is that the times differ (Mann-Whitney, p = {p:.3f})", 1 - p, 0.99, "")

        await compare("log-in", login, lambda n: known[n % len(known)], lambda n: f"other{n % len(known)}@example.com")
        await compare("registration", register, lambda n: known[n % len(known)], lambda n: f"fresh{n}@example.com")
        visitor.close()


def mann_whitney(a, b):
    """The chance that two samples of one thing differ by as much in rank, two-sided, by the normal distribution."""
    ordered = sorted([(value, 0) for value in a] + [(value, 1) for value in b])
    ranks = sum(rank for rank, (_, kind) in enumerate(ordered, 1) if kind == 0)
    m, n = len(a), len(b)
    expected, deviation = m * (m + n + 1) / 2, math.sqrt(m * n * (m + n + 1) / 12)
    return math.erfc(abs(ranks - expected) / deviation / math.sqrt(2))


async def promise_45(run):
    """No key in a log, however much is logged."""
    node = await Node().start()
    async with Gateway(run.program, chains(eth=([node], "")), log="trace") as gateway:
        key = KEYS["one"]
        escaped = "".join(f"%{byte:02x}" for byte in key.encode())
        call = b'{"id":9,"method":"%s"}'
        heads = [f"apikey: {key}", f"x-api-key: {key}", f"authorization: Bearer {key}", f"cookie: {key}", f"x-other: {key}", f"apikey: {key}x"]
        targets = ["/eth", f"/eth?apikey={key}", f"/eth?apikey={escaped}", f"/nochain?apikey={key}", f"/eth?apikey={key}x", f"/{key}"]
        for method in (b"m", b"admin_x", b"debug_x", b"\xff"):
            for target in targets:
                for head in heads:
                    body = call % method
                    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
                    writer.write(f"POST {target} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n{head}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
                    answer = await reader.read()
                    writer.close()
                    run.must(45, key.encode() not in answer, f"an answer to {target} with {head} has the key in it")
        log = (gateway.folder / "log").read_bytes()
        run.must(45, len(log) > 1_000, "something is logged")
        run.say(45, "lines of the log with a key in it", sum(text.encode() in log for text in (key, escaped, key[12:30])), 0, "")


async def promise_18(run):
    """Nothing of one caller in another's answer."""
    node = await Node().start()
    count = max(100, int(5_000 * run.scale))
    async with Gateway(run.program, chains(eth=([node], ""), bsc=([node], ""))) as gateway:
        wrong = 0

        async def caller(key, chain, worker):
            nonlocal wrong
            client = Client(gateway, key, chain)
            for number in range(count // 8):
                own = {"key": key, "worker": worker, "number": number}
                body = json.dumps({"jsonrpc": "2.0", "id": own, "method": "eth_call", "params": [number % 50]}).encode()
                _, headers, answer = await client.post(body)
                wrong += json.loads(answer) != {"jsonrpc": "2.0", "id": own, "result": "ok"} or "x-request-id" not in headers

        await asyncio.gather(*(caller(key, chain, w) for key in KEYS for chain in ("eth", "bsc") for w in range(2)))
        run.say(18, f"wrong answers of {count} to two keys on two chains", wrong, 0, "")
        client = Client(gateway)
        node.results["eth_getTransactionReceipt"] = None
        for _ in range(3):
            _, headers, answer = await client.call("eth_getTransactionReceipt", ["0x1"])
            run.must(18, answer["result"] is None and headers["x-cache"] == "miss", "null is never kept")
        node.results["eth_getTransactionReceipt"] = {"blockNumber": "0x10"}
        _, _, answer = await client.call("eth_getTransactionReceipt", ["0x1"])
        run.must(18, answer["result"] is not None, "a receipt is seen as soon as there is one")


class Run:
    def __init__(self, program, scale, seed):
        self.program, self.scale, self.seed, self.broken = program, scale, seed, 0

    def say(self, promise, what, value, limit, unit):
        kept = value <= limit
        self.broken += not kept
        shown = f"{value:.3g}" if isinstance(value, float) else str(value)
        print(f"{'kept  ' if kept else 'BROKEN'}  {promise:>3}  {what}: {shown} {unit} (at most {limit:.4g})", flush=True)

    def must(self, promise, so, what):
        if not so:
            self.broken += 1
            print(f"BROKEN  {promise:>3}  {what}", flush=True)


async def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default="target/release/rpcgate-server", help="the binary (default: %(default)s)")
    parser.add_argument("--only", default="", help="numbers of promises, with commas")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full size (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="of the calls that are made up (default: another each time)")
    given = parser.parse_args()
    program = os.path.abspath(given.program)
    if not os.path.exists(program):
        sys.exit(f"{given.program} is missing: cargo build --release")
    run = Run(program, given.scale, given.seed)
    known = {int(name.split("_")[1]): test for name, test in globals().items() if name.startswith("promise_")}
    for number in [int(n) for n in given.only.split(",") if n] or sorted(known):
        try:
            await known[number](run)
        except NotStarted as why:
            sys.exit(str(why))
    sys.exit(1 if run.broken else 0)


if __name__ == "__main__":
    asyncio.run(main())
