"""Clients of a gateway and of the management API."""

import asyncio
import base64
import hashlib
import json
import pathlib
import subprocess
import time

KEYS = {name: f"rpcg_{name:x<45}" for name in ("one", "two")}
PASSWORD = "a password for tests"
MIB = 1 << 20


class Connection:
    """A kept-alive connection."""

    def __init__(self, port, tls=None):
        self.port, self.tls = port, tls
        self.reader = self.writer = None

    async def exchange(self, head, body):
        """Sends a request with these lines and the length of the body. Returns the answer."""
        if self.writer is None or self.reader.at_eof():
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port, limit=80 * MIB, ssl=self.tls)
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
    """A client of the gateway with a key of this name or text."""

    def __init__(self, gateway, key="one", chain="eth"):
        super().__init__(gateway.port, gateway.tls)
        self.gateway, self.key, self.chain = gateway, KEYS.get(key, key), chain
        self.id = 1_000

    async def post(self, body, chain=None):
        self.port = self.gateway.port  # the port changes with a restart
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


class Visitor(Connection):
    """A user of the management API."""

    async def post(self, path, body):
        head = f"POST /api/v1/auth/{path} HTTP/1.1\r\ncontent-type: application/json"
        status, headers, answer = await self.exchange(head, json.dumps(body).encode())
        # These differ in every answer.
        return status, {name: text for name, text in headers.items() if name not in ("date", "x-request-id")}, answer

    async def login(self, email, password):
        return await self.post("login", {"email": email, "password": password})

    async def application(self, email):
        """Returns the body of a registration, with the solution of a new challenge."""
        _, _, answer = await self.exchange("GET /api/v1/auth/challenge HTTP/1.1", b"")
        posed = json.loads(answer)
        for number in range(posed["maxnumber"] + 1):
            if hashlib.sha256(f"{posed['salt']}{number}".encode()).hexdigest() == posed["challenge"]:
                break
        solution = base64.b64encode(json.dumps(posed | {"number": number}).encode()).decode()
        return {"email": email, "password": PASSWORD, "name": "", "challenge": solution}

    async def register(self, email):
        return await self.post("register", await self.application(email))


class Owner(Visitor):
    """A registered user who owns a tenant."""

    def __init__(self, admin):
        super().__init__(admin.port)
        self.admin, self.token = admin, ""

    async def ask(self, method, path, body=None):
        if self.port != self.admin.port:
            self.close()
        self.port = self.admin.port  # the port changes with a restart
        head = f"{method} /api/v1/{path} HTTP/1.1\r\ncontent-type: application/json\r\nauthorization: Bearer {self.token}"
        status, _, answer = await self.exchange(head, json.dumps(body).encode() if body is not None else b"")
        return status, json.loads(answer) if answer else None

    async def settle(self, email):
        """Registers, confirms the address by the mailed link, and logs in. Returns the id of a project."""
        await self.register(email)
        while not (mails := list((self.admin.folder / "outbox").glob("*.eml"))):
            await asyncio.sleep(0.05)  # it is sent after the answer
        mail = max(mails).read_text()
        token = mail.split("?token=", 1)[1].split()[0]
        await self.post("confirm", {"token": token})
        _, _, answer = await self.login(email, PASSWORD)
        self.token = json.loads(answer)["token"]
        _, me = await self.ask("GET", "auth/me")
        _, project = await self.ask("POST", f"tenants/{me['tenant_id']}/projects", {"name": "wallet"})
        return project["id"]

    async def log_in_as_operator(self, email):
        """Creates an operator with this address and logs in."""
        program = pathlib.Path(self.admin.program).with_name("rpcgate-admin")
        words = [program, "operator", "create", "--email", email, "--password-stdin", "--config", self.admin.folder / "rpcgate.toml"]
        await asyncio.to_thread(subprocess.run, words, input=PASSWORD.encode(), check=True, capture_output=True)
        _, _, answer = await self.login(email, PASSWORD)
        self.token = json.loads(answer)["token"]

    async def make_key(self, project):
        """Returns the id and the text of a new key."""
        status, made = await self.ask("POST", f"projects/{project}/keys", {"description": "a key"})
        assert status == 201, (status, made)
        return made["id"], made["key"]


async def timed(awaitable):
    start = time.perf_counter()
    result = await awaitable
    return result, time.perf_counter() - start
