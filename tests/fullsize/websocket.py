"""WebSocket clients and nodes (RFC 6455)."""

import asyncio
import base64
import hashlib
import json
import os
import struct

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
MASK = b"\x37\xfa\x21\x3d"


def frame(opcode, payload=b"", masked=True, fin=True):
    """Returns a frame (section 5.2). The mask of a client is always the same."""
    length = len(payload)
    first, mask = bytes([fin << 7 | opcode]), masked << 7
    if length < 126:
        head = bytes([mask | length])
    elif length < 65_536:
        head = struct.pack(">BH", mask | 126, length)
    else:
        head = struct.pack(">BQ", mask | 127, length)
    return first + head + (MASK + unmasked(payload, MASK) if masked else payload)


def unmasked(payload, mask):
    length = len(payload)
    repeated = int.from_bytes((mask * (length // 4 + 1))[:length])
    return (int.from_bytes(payload) ^ repeated).to_bytes(length)


async def read_frame(reader):
    """Reads a frame. Returns whether it is final, its opcode and its payload."""
    first, second = await reader.readexactly(2)
    length = second & 127
    if length > 125:
        length = int.from_bytes(await reader.readexactly(2 if length == 126 else 8))
    mask = await reader.readexactly(4) if second & 128 else None
    payload = await reader.readexactly(length)
    return bool(first & 128), first & 15, unmasked(payload, mask) if mask else payload


class Refused(Exception):
    """A handshake was answered with a status other than 101."""

    def __init__(self, status):
        super().__init__(status)
        self.status = status


class WebSocket:
    """A client's stream. `ended` is the code and the reason of the close frame, or `(None, "cut")`."""

    def __init__(self, reader, writer):
        self.reader, self.writer, self.ended = reader, writer, None

    @classmethod
    async def open(cls, port, key, chain="eth", tls=None, limit=1 << 25):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, limit=limit)
        nonce = base64.b64encode(os.urandom(16)).decode()
        lines = [f"GET /ws/{chain} HTTP/1.1", "host: h", "connection: upgrade", "upgrade: websocket", "sec-websocket-version: 13"]
        lines += [f"sec-websocket-key: {nonce}", f"apikey: {key}"]
        try:
            writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
            head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            raise Refused(0) from None
        status = int(head.split(b" ")[1])
        if status != 101:
            writer.close()
            raise Refused(status)
        return cls(reader, writer)

    def send(self, text, opcode=TEXT):
        self.writer.write(frame(opcode, text if isinstance(text, bytes) else text.encode()))

    def call(self, number, method, *params):
        self.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}))

    async def next(self):
        """Returns the payload of the next frame with data; `None` at the end. Answers pings."""
        try:
            while True:
                _, opcode, payload = await read_frame(self.reader)
                if opcode == PING:
                    self.writer.write(frame(PONG, payload))
                elif opcode == CLOSE:
                    code = int.from_bytes(payload[:2]) if payload else None
                    self.ended = code, payload[2:].decode()
                    self.writer.write(frame(CLOSE, payload[:2]))
                    self.writer.close()
                    return None
                elif opcode != PONG:
                    return payload
        except (asyncio.IncompleteReadError, ConnectionError):
            self.ended = self.ended or (None, "cut")
            self.writer.close()
            return None

    async def until_ended(self):
        while await self.next() is not None:
            pass
        return self.ended

    def close(self):
        self.writer.close()


class StreamNode:
    """A node that answers each call, sends heads to subscribers, and large messages on request."""

    def __init__(self, every=0.1):
        self.every, self.open = every, 0
        # Floods that are being sent, and all that have begun, by the client's name for them.
        self.floods, self.seen = set(), set()

    async def start(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0, backlog=4096)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    def url(self):
        return f"ws://127.0.0.1:{self.port}"

    async def serve(self, reader, writer):
        pushing = []
        self.open += 1
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin1")
            (nonce,) = [line.split(": ", 1)[1] for line in head.split("\r\n") if line.lower().startswith("sec-websocket-key: ")]
            accept = base64.b64encode(hashlib.sha1(nonce.encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()).decode()
            writer.write(f"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: {accept}\r\n\r\n".encode())
            while True:
                fin, opcode, payload = await read_frame(reader)
                if opcode == PING:
                    writer.write(frame(PONG, payload, masked=False))
                elif opcode == CLOSE:
                    writer.write(frame(CLOSE, payload[:2], masked=False))
                    break
                elif opcode in (BINARY, CONTINUATION) or not fin:
                    writer.write(frame(opcode, payload, masked=False, fin=fin))
                    await writer.drain()
                elif opcode == TEXT:
                    call = json.loads(payload)
                    answer = {"jsonrpc": "2.0", "id": call["id"], "result": call["method"]}
                    writer.write(frame(TEXT, json.dumps(answer).encode(), masked=False))
                    if call["method"] == "eth_subscribe":
                        pushing.append(asyncio.create_task(self.push(writer, *call["params"])))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.open -= 1
            for task in pushing:
                task.cancel()
            writer.close()

    async def push(self, writer, what, size=0, name=None):
        """Sends messages of a subscription: heads at intervals, or those of a flood as fast as they are read."""
        message = {"jsonrpc": "2.0", "method": "eth_subscription", "params": {"subscription": "0x1", "result": "0x" + "a" * size}}
        data = frame(TEXT, json.dumps(message).encode(), masked=False)
        self.floods.add(name)
        self.seen.add(name)
        try:
            while True:
                writer.write(data)
                await writer.drain()
                if what != "flood":
                    await asyncio.sleep(self.every)
        except ConnectionError:
            pass
        finally:
            self.floods.discard(name)
