"""HTTP/2 connections (RFC 9113) with headers compressed by HPACK (RFC 7541), and gRPC calls on them."""

import asyncio
import collections
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 7, 8, 9
ACK = END_STREAM = 1
END_HEADERS, PADDED, PRIORITIZED = 4, 8, 32
CANCEL = 8
WINDOW = 1 << 24

# The lengths of the codes of RFC 7541, appendix B. The code is canonical, so they define it.
LENGTHS = (
    "13 23 28x7 24 30 28x2 30 28x8 30 28x9 6 10x2 12 13 6 8 11 10x2 8 11 8 6x3 5x3 6x7 7 8 15 6 12 10 13 6 7x22 8 7 8 13 19 13 14 6 "
    "15 5 6 5 6 5 6x3 5 7x2 6x3 5 6 7 6 5x2 6 7x5 15 11 14 13 28 20 22 20x2 22x3 23 22 23x5 24 23 24x2 22 23 24 23x4 21 22 23 22 23x2 "
    "24 22 21 20 22x2 23x2 21 23 22x2 24 21 22 23x2 21x2 22 21 23 22 23x2 20 22x3 23 22x2 23 26x2 20 19 22 23 22 25 26x3 27x2 26 24 25 "
    "19 21 26 27x2 26 27 24 21x2 26x2 28 27x3 20 24 20 21 22 21x2 23 22x2 25x2 24x2 26 23 26 27 26x2 27x5 28 27x5 26"
)
# RFC 7541, appendix A: names, and the value after `=`.
STATIC = (
    ":authority :method=GET :method=POST :path=/ :path=/index.html :scheme=http :scheme=https :status=200 :status=204 :status=206 "
    ":status=304 :status=400 :status=404 :status=500 accept-charset accept-encoding=gzip,~deflate accept-language accept-ranges accept "
    "access-control-allow-origin age allow authorization cache-control content-disposition content-encoding content-language "
    "content-length content-location content-range content-type cookie date etag expect expires from host if-match if-modified-since "
    "if-none-match if-range if-unmodified-since last-modified link location max-forwards proxy-authenticate proxy-authorization range "
    "referer refresh retry-after server set-cookie strict-transport-security transfer-encoding user-agent vary via www-authenticate"
)
STATIC = [tuple(entry.replace("~", " ").partition("=")[::2]) for entry in STATIC.split()]


def codes():
    """Returns symbols by length and code."""
    lengths = [int(part.partition("x")[0]) for part in LENGTHS.split() for _ in range(int(part.partition("x")[2] or 1))]
    found, code, before = {}, 0, 0
    for length, symbol in sorted((length, symbol) for symbol, length in enumerate(lengths)):
        code <<= length - before
        found[length, code] = symbol
        code, before = code + 1, length
    return found


CODES = codes()


def frame(kind, flags, stream, payload=b""):
    """A frame (RFC 9113, section 4.1)."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def integer(value, bits, first=0):
    """Encodes an integer with a prefix of `bits` bits, in an octet that begins with `first` (RFC 7541, section 5.1)."""
    most = (1 << bits) - 1
    if value < most:
        return bytes([first | value])
    out, value = [first | most], value - most
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def fields(*pairs):
    """Encodes a block of fields that neither side adds to its table."""
    return b"".join(b"\0" + b"".join(integer(len(text), 7) + text for text in (name.encode(), value.encode())) for name, value in pairs)


class Fields:
    """The dynamic table for the blocks of the other side."""

    def __init__(self):
        self.recent, self.limit = collections.deque(), 4096

    def read(self, block):
        """Returns the fields of a block."""
        found, at = {}, 0

        def number(bits):
            nonlocal at
            most, shift = (1 << bits) - 1, 0
            value = block[at] & most
            at += 1
            if value == most:
                while True:
                    octet = block[at]
                    at, value, shift = at + 1, value + ((octet & 127) << shift), shift + 7
                    if octet < 128:
                        break
            return value

        def text():
            nonlocal at
            coded, length = block[at] & 128, number(7)
            raw = block[at : at + length]
            at += length
            return (decoded(raw) if coded else raw).decode("latin1")

        while at < len(block):
            first = block[at]
            if first & 128:
                name, value = self.entry(number(7))
            elif first & 0xE0 == 0x20:
                self.limit = number(5)
                self.forget()
                continue
            else:
                index = number(6 if first & 64 else 4)
                name = self.entry(index)[0] if index else text()
                value = text()
                if first & 64:
                    self.recent.appendleft((name, value))
                    self.forget()
            found[name] = value
        return found

    def entry(self, index):
        return STATIC[index - 1] if index <= len(STATIC) else self.recent[index - 1 - len(STATIC)]

    def forget(self):
        while sum(len(name) + len(value) + 32 for name, value in self.recent) > self.limit:
            self.recent.pop()


def decoded(raw):
    out, code, length = bytearray(), 0, 0
    for octet in raw:
        for bit in range(7, -1, -1):
            code, length = code << 1 | octet >> bit & 1, length + 1
            symbol = CODES.get((length, code))
            if symbol is not None:
                out.append(symbol)
                code = length = 0
    return bytes(out)


class Exchange:
    """A request and its answer. `status` is the gRPC status once it has ended, or -1 if it was cut off."""

    def __init__(self, link, number):
        self.link, self.number = link, number
        self.head, self.messages, self.status, self.text, self.held = {}, asyncio.Queue(), None, "", b""

    def has_fields(self, found, last):
        if not self.head:
            self.head = found
        if last:
            self.status, self.text = int(found.get("grpc-status", -1)), found.get("grpc-message", "")

    def has_data(self, data):
        self.held += data
        while len(self.held) >= 5 and len(self.held) >= 5 + (length := int.from_bytes(self.held[1:5])):
            self.messages.put_nowait(self.held[5 : 5 + length])
            self.held = self.held[5 + length :]

    def ends(self):
        self.status = -1 if self.status is None else self.status
        self.messages.put_nowait(None)

    async def next(self):
        """Returns the next message; `None` at the end."""
        message = await self.messages.get()
        if message is None:
            self.messages.put_nowait(None)
        return message

    def fields(self, *pairs, last=False):
        self.link.send(HEADERS, END_HEADERS | last * END_STREAM, self.number, fields(*pairs))

    def send(self, message, last=False):
        self.link.send(DATA, last * END_STREAM, self.number, struct.pack(">BI", 0, len(message)) + message)

    def cancel(self):
        self.link.send(RST_STREAM, 0, self.number, struct.pack(">I", CANCEL))


class Link:
    """One side of a connection. It sends less than the first window of the other side on each stream."""

    def __init__(self, reader, writer, serve=None):
        self.reader, self.writer, self.serve = reader, writer, serve
        self.fields, self.open, self.tasks = Fields(), {}, set()
        self.next, self.taken = 1, 0
        # The code of the GOAWAY that the other side has sent, and its last stream.
        self.left = None
        # Set once the other side has sent its settings.
        self.ready = asyncio.Event()
        writer.write((b"" if serve else PREFACE) + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, WINDOW)))
        writer.write(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", WINDOW)))
        self.reading = asyncio.create_task(self.read())

    def send(self, *words):
        if not self.writer.is_closing():
            self.writer.write(frame(*words))

    def request(self, *pairs):
        exchange = Exchange(self, self.next)
        self.open[self.next], self.next = exchange, self.next + 2
        exchange.fields(*pairs)
        return exchange

    async def read(self):
        try:
            if self.serve:
                await self.reader.readexactly(len(PREFACE))
            while True:
                head = await self.reader.readexactly(9)
                payload = await self.reader.readexactly(int.from_bytes(head[:3]))
                self.take(head[3], head[4], int.from_bytes(head[5:]) & 0x7FFFFFFF, payload)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.writer.close()
            for exchange in list(self.open.values()):
                exchange.ends()
            for task in self.tasks:
                task.cancel()

    def take(self, kind, flags, stream, payload):
        if kind == SETTINGS and not flags & ACK:
            self.send(SETTINGS, ACK, 0)
            self.ready.set()
        elif kind == PING and not flags & ACK:
            self.send(PING, ACK, 0, payload)
        elif kind == GOAWAY:
            last, code = struct.unpack(">II", payload[:8])
            self.left = code, last & 0x7FFFFFFF
        elif kind == RST_STREAM:
            if exchange := self.open.pop(stream, None):
                exchange.ends()
        elif kind == HEADERS:
            assert flags & END_HEADERS, "a block in one frame"
            if flags & PADDED:
                payload = payload[1 : len(payload) - payload[0]]
            found = self.fields.read(payload[5:] if flags & PRIORITIZED else payload)
            exchange = self.open.get(stream)
            if exchange is None:
                if not self.serve:
                    return  # it was cancelled
                exchange = self.open[stream] = Exchange(self, stream)
                task = asyncio.create_task(self.serve(exchange))
                self.tasks.add(task)
                task.add_done_callback(self.tasks.discard)
            exchange.has_fields(found, flags & END_STREAM)
        elif kind == DATA:
            self.taken += len(payload)
            if self.taken > WINDOW // 2:
                self.send(WINDOW_UPDATE, 0, 0, struct.pack(">I", self.taken))
                self.taken = 0
            if exchange := self.open.get(stream):
                exchange.has_data(payload)
        if flags & END_STREAM and kind in (HEADERS, DATA) and stream in self.open:
            self.open[stream].ends()
            if not self.serve:
                del self.open[stream]

    def close(self):
        self.reading.cancel()


class GrpcClient:
    """A gRPC client with a key, on one connection."""

    def __init__(self, port, key, tls=None):
        self.port, self.key, self.tls, self.link = port, key, tls, None

    async def start(self):
        self.link = Link(*await asyncio.open_connection("127.0.0.1", self.port, ssl=self.tls))
        return self

    async def call(self, path, message=b"", last=True):
        """Starts a call with this message."""
        if self.link is None or self.link.left or self.link.reading.done():
            await self.start()
        head = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "h"), ("te", "trailers")]
        exchange = self.link.request(*head, ("content-type", "application/grpc"), ("apikey", self.key))
        exchange.send(message, last)
        return exchange

    async def ask(self, path, message=b""):
        """Returns the status of a call and its first message."""
        exchange = await self.call(path, message)
        first = await exchange.next()
        while first is not None and await exchange.next() is not None:
            pass
        return exchange.status, first

    def close(self):
        if self.link:
            self.link.close()


ANSWER, WATCH, MIRROR = "/protocol.Wallet/GetNowBlock", "/protocol.Wallet/Watch", "/protocol.Wallet/Mirror"


class GrpcNode:
    """A node that answers a call with its message, and streams one message after another to subscribers."""

    def __init__(self, every=0.05):
        self.every, self.paths, self.gate = every, collections.Counter(), asyncio.Event()
        self.gate.set()

    async def start(self):
        self.server = await asyncio.start_server(lambda *ends: Link(*ends, serve=self.serve), "127.0.0.1", 0, backlog=4096)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    def url(self):
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, exchange):
        await asyncio.sleep(0)  # until its fields are read
        path = exchange.head[":path"]
        self.paths[path] += 1
        first = await exchange.next()
        await self.gate.wait()
        exchange.fields((":status", "200"), ("content-type", "application/grpc"))
        if path == WATCH:
            while exchange.number in exchange.link.open:
                exchange.send(b"head")
                await asyncio.sleep(self.every)
            return
        while first is not None:
            exchange.send(first)
            first = await exchange.next() if path == MIRROR else None
        exchange.fields(("grpc-status", "0"), last=True)
        exchange.link.open.pop(exchange.number, None)
