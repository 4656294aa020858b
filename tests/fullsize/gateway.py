"""The programs under test."""

import asyncio
import atexit
import os
import pathlib
import signal
import ssl
import subprocess
import sys
import tempfile

from .client import KEYS
from .servers import free_port

TOGETHER, ALONE = "counting together", "counts alone"


class NotStarted(Exception):
    """The gateway has ended, or was not ready in time."""


class Gateway:
    """The program under test, with its own configuration and folder."""

    def __init__(self, run, lines, log="warn", ceiling=10**12, journal="", folder=None, env=None, database=None, redis="", secret="", tls=False, settings="", telemetry="", plan=""):
        self.program, self.lines, self.level, self.env, self.settings = run.program, lines, log, env or {}, settings
        self.ceiling, self.journal, self.redis, self.secret, self.telemetry, self.plan = ceiling, journal, redis, secret, telemetry, plan
        self.dir = None if folder else tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(folder or self.dir.name)
        self.database = database or run.new_database(self.folder)
        self.tls = self.certify() if tls else None

    def certify(self):
        """Creates its certificate and returns the TLS context of clients."""
        files = self.folder / "cert.pem", self.folder / "key.pem"
        subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
        make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
        subprocess.run(make + subject + ["-out", files[0], "-keyout", files[1]], check=True, capture_output=True)
        return ssl.create_default_context(cafile=files[0])

    async def __aenter__(self):
        return await self.start()

    async def start(self):
        """Starts a process in the folder and waits until it is ready."""
        self.port = free_port()
        return await self.launch(self.program, self.text())

    def text(self):
        plan = "per_minute = 1000000000\nper_hour = 1000000000\nper_day = 1000000000\nheavy_per_minute = 1000000000\n" + self.plan
        keys = "".join(f'[keys.{name}]\nkey = "{key}"\n' for name, key in KEYS.items())
        secret = f'key_secret = "{self.secret}"\n' if self.secret else ""
        tls = f'[gateway.tls]\ncert = "{self.folder}/cert.pem"\nkey = "{self.folder}/key.pem"\n' if self.tls else ""
        redis = f"[redis]\n{self.redis}\n" if self.redis else ""
        return (
            f'[gateway]\nlisten = "127.0.0.1:{self.port}"\n{self.settings}\n{secret}{tls}[telemetry]\nlog_filter = "{self.level}"\n{self.telemetry}\n[plans.enterprise]\n{plan}\n'
            f'[database]\nurl = "{self.database.url}"\n{redis}[journal]\n{self.journal}\n'
            f'[tenants.default]\nplan = "enterprise"\n[projects.default]\ncu_per_day = {self.ceiling}\n{keys}{self.lines}'
        )

    def write(self, text):
        path = self.folder / "rpcgate.toml"
        path.write_text(text)
        return path

    async def launch(self, program, text):
        """Starts a process with this configuration and waits until it is ready."""
        path = self.write(text)
        self.log = open(self.folder / "log", "a+b")
        self.process = subprocess.Popen(
            [program, "run", "--config", str(path)], stdout=self.log, stderr=self.log, cwd=self.folder, env=os.environ | self.env
        )
        # The process ends with this program.
        atexit.register(self.process.kill)
        for _ in range(3_000):
            if self.process.poll() is not None:
                break
            if await self.ready():
                return self
            await asyncio.sleep(0.01)
        state = "it is running" if self.process.poll() is None else f"it ended with {self.process.returncode}"
        raise NotStarted(f"the gateway is not ready, {state}:\n{self.heard()}")

    async def ready(self):
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=self.tls)
            writer.write(b"GET /readyz HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n")
            answer = await reader.read()
            writer.close()
            return answer.startswith(b"HTTP/1.1 200 ")
        except OSError:
            return False

    async def reload(self, text):
        """Reloads this configuration and waits for the log. Returns whether the configuration is in effect."""
        done, refused = "configuration reloaded", "configuration not reloaded"
        before = [self.heard().count(words) for words in (done, refused)]
        self.write(text)
        self.process.send_signal(signal.SIGHUP)
        for _ in range(3_000):
            now = [self.heard().count(words) for words in (done, refused)]
            if now != before:
                return now[0] > before[0]
            await asyncio.sleep(0.01)
        raise TimeoutError(f"the log has no result of the reload:\n{self.heard()}")

    def is_together(self):
        """Reports whether the gateway counts together with others, according to its log."""
        heard = self.heard()
        return heard.rfind(TOGETHER) > heard.rfind(ALONE)

    async def until_together(self, is_so=True):
        for _ in range(6_000):
            if self.is_together() == is_so:
                return
            await asyncio.sleep(0.01)
        raise TimeoutError(f"the log does not say how the gateway counts:\n{self.heard()}")

    def freeze(self):
        """Suspends it: its connections stay open."""
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

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
        return (self.folder / "log").read_text(errors="replace")

    def segments(self):
        return sorted((self.folder / "journal").glob("*.segment"))

    def rss(self):
        """Returns the resident memory in MiB."""
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        return 0.0


SECRET = "k" * 32


class Admin(Gateway):
    """The management side alone. Its binary is in the folder of the gateway's."""

    async def start(self):
        self.port = free_port()
        return await self.launch(
            pathlib.Path(self.program).with_name("rpcgate-admin"),
            f'[gateway]\nkey_secret = "{SECRET}"\n[admin]\nlisten = "127.0.0.1:{self.port}"\nauth_per_minute = 1000000\n'
            f'[admin.jwt]\nsecret = "{"s" * 32}"\n[admin.mail]\noutbox = "{self.folder / "outbox"}"\n[admin.challenge]\ndifficulty = 1000\n'
            f'[telemetry]\nlog_filter = "{self.level}"\n[database]\nurl = "{self.database.url}"\n{self.lines}',
        )


def chains(**nodes):
    lines = ""
    for chain, (urls, extra) in nodes.items():
        urls = ", ".join(f'"{node.url()}"' for node in urls)
        lines += f"[chains.{chain}]\nnodes = [{urls}]\n{extra}\n"
    return lines
