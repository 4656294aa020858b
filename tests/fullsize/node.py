"""Scripted faulty nodes."""

import asyncio
import json
import multiprocessing
import socket
import struct


class Node:
    """A JSON-RPC node on a socket. `mode` selects how it answers."""

    def __init__(self, utxo=False):
        self.utxo = utxo
        self.mode = "pass"
        self.errors = {}
        self.requests = 0
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
            self.requests += 1
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
        elif mode == "429":
            writer.write(b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n")
        elif mode == "closed":
            return False
        elif mode == "hang":
            await reader.read(1)  # until the gateway gives up
            return False
        await writer.drain()
        return True


class NodeApart(Node):
    """A node in a separate process."""

    def start_apart(self):
        ours, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.get_context("fork").Process(target=self.run, args=(theirs,), daemon=True)
        self.process.start()
        self.port = ours.recv()
        return self

    def run(self, pipe):
        async def forever():
            await self.start()
            pipe.send(self.port)
            await asyncio.Event().wait()

        asyncio.new_event_loop().run_until_complete(forever())


class LargeAnswers(NodeApart):
    """A node in a separate process that sends large answers in pieces, as they are read, so that they block no other
    client."""

    PIECE = 128 << 10

    async def start(self):
        self.large = {method: memoryview(json.dumps(result).encode()) for method, result in self.results.items()}
        await super().start()
        # The kernel's buffers for client, gateway and node are limited, and are not part of this measurement.
        for listening in self.server.sockets:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.PIECE)
        return self

    async def answer(self, body, reader, writer):
        call = json.loads(body)
        large = self.large.get(call["method"]) if isinstance(call, dict) else None
        if large is None:
            return await super().answer(body, reader, writer)
        begin = b'{"jsonrpc":"2.0","id":%s,"result":' % json.dumps(call.get("id")).encode()
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        writer.write(head % (len(begin) + len(large) + 1) + begin)
        for at in range(0, len(large), self.PIECE):
            writer.write(large[at : at + self.PIECE])
            await writer.drain()
        writer.write(b"}")
        await writer.drain()
        return True
