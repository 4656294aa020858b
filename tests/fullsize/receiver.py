"""A receiver of webhooks in a separate process. The path of an endpoint selects what it does with a delivery."""

import asyncio
import hashlib
import hmac
import multiprocessing
import os
import signal
import time

from .servers import free_port

OK = b"HTTP/1.1 204 No Content\r\n\r\n"


class Delivery(asyncio.Protocol):
    """A connection."""

    def __init__(self, seen, secret, victim):
        self.seen, self.secret, self.victim, self.data = seen, secret, victim, b""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.data += data
        while (end := self.data.find(b"\r\n\r\n")) >= 0:
            lines = self.data[:end].split(b"\r\n")
            headers = dict(line.lower().split(b": ", 1) for line in lines[1:])
            length = int(headers[b"content-length"])
            if len(self.data) < end + 4 + length:
                return
            body, self.data = self.data[end + 4 : end + 4 + length], self.data[end + 4 + length :]
            expected = b"sha256=" + hmac.new(self.secret, body, hashlib.sha256).hexdigest().encode()
            holds = hmac.compare_digest(expected, headers[b"x-signature"])
            path = lines[0].split(b" ")[1].decode()
            about = path, headers[b"x-delivery-id"].decode(), int(headers[b"x-delivery-attempt"])
            self.seen.append((time.time(), *about, holds, hashlib.sha256(body).digest()[:8], headers[b"x-signature"][-8:]))
            self.answer(path, about[1])

    def answer(self, path, delivery):
        mode = path.split("/")[1]
        if mode == "kill" and sum(one[2] == delivery for one in self.seen) == 1:
            # The dispatcher dies before it learns that this was delivered.
            os.kill(self.victim.value, signal.SIGKILL)
        elif mode in ("ok", "kill"):
            self.transport.write(OK)
        elif mode == "fail":
            self.transport.write(b"HTTP/1.1 500 X\r\ncontent-length: 2\r\n\r\nno")
        elif mode == "after":
            asyncio.get_running_loop().call_later(float(path.split("/")[2]), self.transport.write, OK)
        elif mode in ("driphead", "dripbody", "endless"):
            asyncio.create_task(self.drip(mode))
        # A hanging one answers nothing.

    async def drip(self, mode):
        head = b"HTTP/1.1 200 OK\r\n" + (b"x: " if mode == "driphead" else b"content-length: 999999999\r\n\r\n")
        self.transport.write(head)
        while not self.transport.is_closing():
            self.transport.write(b"x" * (1 if mode != "endless" else 4_096))
            await asyncio.sleep(1 if mode != "endless" else 0.001)


def serve(port, secret, victim, pipe):
    async def work():
        seen = []
        server = await asyncio.get_running_loop().create_server(lambda: Delivery(seen, secret, victim), "127.0.0.1", port, backlog=1_000)
        pipe.send("ready")
        while True:
            while not pipe.poll():
                await asyncio.sleep(0.01)
            word = pipe.recv()
            if word == "end":
                server.close()
                return
            pipe.send(len(seen) if word == "count" else seen)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(work())


class Receiver:
    """A receiver that checks each signature with this secret. Each delivery is recorded as a tuple of time, path,
    delivery, attempt, whether its signature is valid, a hash of its body and the end of its signature."""

    def __init__(self, secret):
        self.port, self.victim = free_port(), multiprocessing.Value("i", 0)
        self.pipe, other = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=serve, args=(self.port, secret, self.victim, other), daemon=True)
        self.process.start()
        self.pipe.recv()

    def ask(self, word):
        self.pipe.send(word)
        return self.pipe.recv()

    def seen(self):
        return self.ask("all")

    async def until(self, count, patience):
        """Waits for this many deliveries. Returns the number of those that arrived."""
        end = time.monotonic() + patience
        while (have := self.ask("count")) < count and time.monotonic() < end:
            await asyncio.sleep(0.02)
        return have

    def close(self):
        self.pipe.send("end")
        self.process.join(5)
        self.process.kill()
