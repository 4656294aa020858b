"""The stores of gateways: files, or temporary servers."""

import csv
import glob
import hashlib
import io
import os
import pathlib
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import time
import uuid

NOBODY = 65_534  # PostgreSQL's server does not run as root


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Database:
    """The databases of a service; queries go to the usage database by default."""

    def admit(self, text, tier="enterprise", ceiling=None):
        """Creates a tenant on this plan, whose project has this text as its key."""
        tenant, project, key = (uuid.uuid4().bytes for _ in range(3))
        digest = hashlib.sha256(text.encode()).digest()
        self.change(f"INSERT INTO tenants (id, name, tier, suspended, created_at) VALUES ({self.id(tenant)}, 't', '{tier}', false, 0)")
        columns = "id, tenant_id, name, allowed_methods, blocked_methods, created_at"
        self.change(f"INSERT INTO projects ({columns}) VALUES ({self.id(project)}, {self.id(tenant)}, 'p', '[]', '[]', 0)")
        if ceiling is not None:
            self.change(f"INSERT INTO quotas (project_id, cu_per_day) VALUES ({self.id(project)}, {ceiling})")
        columns = "id, project_id, description, prefix, hash, created_at"
        self.change(
            f"INSERT INTO keys ({columns}) VALUES ({self.id(key)}, {self.id(project)}, '', '{text[:12]}', {self.blob(digest)}, 0)"
        )
        return text


class Sqlite(Database):
    """Two files in a folder."""

    def __init__(self, folder):
        self.file = pathlib.Path(folder) / "rpcgate.db"
        self.usage = self.file.with_name("rpcgate-usage.db")
        self.url = f"sqlite://{self.file}"

    def rows(self, query, of_usage=True):
        file = self.usage if of_usage else self.file
        database = sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=20)
        try:
            return database.execute(query).fetchall()
        finally:
            database.close()

    def change(self, statement, of_usage=False):
        with sqlite3.connect(self.usage if of_usage else self.file, timeout=20) as database:
            database.execute(statement)
        database.close()

    def blob(self, data):
        return f"X'{data.hex()}'"

    id = blob


class OnServer(Database):
    """One database of a PostgreSQL server."""

    def __init__(self, server, name):
        self.server, self.name = server, name
        self.url = f"postgres://rpcgate:secret@127.0.0.1:{server.port}/{name}"

    def rows(self, query, of_usage=True):
        csv.field_size_limit(1 << 30)
        text = self.server.psql(self.name, f"COPY ({query}) TO STDOUT WITH (FORMAT csv)")
        return [tuple(map(value, row)) for row in csv.reader(io.StringIO(text))]

    def change(self, statement, of_usage=False):
        self.server.psql(self.name, statement)

    def blob(self, data):
        return f"'\\x{data.hex()}'"

    def id(self, data):
        return f"'{uuid.UUID(bytes=data)}'"


def value(text):
    """Reads a value in the output of psql."""
    if text.startswith("\\x"):
        return bytes.fromhex(text[2:])
    return int(text) if text.removeprefix("-").isdigit() else text


class Leashed:
    """A server in another process, which a shell stops when this process ends in any way."""

    def run(self, start, end, *words):
        """Runs `start` in a shell with these arguments, and `end` when it is released."""
        script = f"trap '' INT TERM HUP\n{start} &\nserver=$!\necho $server\nread word\n{end}"
        rights = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
        self.shell = subprocess.Popen(
            ["sh", "-c", script, "leash", *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/", start_new_session=True, **rights
        )
        self.server = int(self.shell.stdout.readline())

    def let_go(self, word):
        if self.shell:
            self.shell.communicate(word.encode())
            self.shell = None

    def signal(self, number):
        # The first process creates the others, so it is suspended before they are listed.
        processes = [self.server]
        if number == signal.SIGSTOP:
            os.kill(self.server, number)
        for stat in glob.glob("/proc/[0-9]*/stat"):
            try:
                parent = pathlib.Path(stat).read_text().rpartition(")")[2].split()[1]
            except OSError:
                continue
            if int(parent) == self.server:
                processes.append(int(stat.split("/")[2]))
        for process in reversed(processes):
            try:
                os.kill(process, number)
            except ProcessLookupError:
                pass

    def freeze(self):
        """Suspends it: connections stay open without answers."""
        self.signal(signal.SIGSTOP)

    def thaw(self):
        self.signal(signal.SIGCONT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Postgresql(Leashed):
    """A server from the installed binaries."""

    def __init__(self):
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin/postgres"))
        found = shutil.which("postgres") or (found[-1] if found else None)
        if not found:
            raise SystemExit("needs postgresql (apt install postgresql)")
        self.binaries = pathlib.Path(found).resolve().parent
        self.folder = tempfile.mkdtemp(prefix="rpcgate-postgresql-")
        self.databases, self.port = 0, free_port()
        if os.getuid() == 0:
            os.chown(self.folder, NOBODY, NOBODY)
        password = pathlib.Path(self.folder) / "password"
        password.write_text("secret")
        password.chmod(0o644)
        initdb = [self.binaries / "initdb", "--no-sync", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--username=rpcgate"]
        rights = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
        subprocess.run([*initdb, f"--pwfile={password}", f"--pgdata={self.folder}/data"], check=True, stdout=subprocess.DEVNULL, cwd="/", **rights)
        self.start()

    def start(self):
        """Starts it, or restarts it after a stop."""
        settings = "-c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off -c full_page_writes=off -c max_connections=200"
        self.run(
            f'"$1/postgres" -D "$2/data" -p $3 {settings} 2>>"$2/log"',
            'kill -QUIT $server; kill -CONT $server; wait $server; [ "$word" = keep ] || rm -rf "$2"',
            self.binaries,
            self.folder,
            self.port,
        )
        end = time.monotonic() + 30
        while True:
            try:
                self.psql("postgres", "SELECT 1")
                return
            except subprocess.CalledProcessError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def stop(self):
        """Stops it at once, as if it had crashed; committed data stays."""
        self.let_go("keep\n")

    def close(self):
        self.let_go("end\n")
        shutil.rmtree(self.folder, ignore_errors=True)

    def database(self):
        self.databases += 1
        name = f"t{self.databases}"
        self.psql("postgres", f"CREATE DATABASE {name}")
        return OnServer(self, name)

    def psql(self, database, statement):
        words = ["-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", str(self.port), "-U", "rpcgate", "-d", database]
        # Statements may be longer than an argument.
        done = subprocess.run(
            [self.binaries / "psql", *words], input=statement, text=True, env=os.environ | {"PGPASSWORD": "secret"}, check=True, capture_output=True
        )
        return done.stdout


class Redis(Leashed):
    """A server that writes nothing to disk."""

    def __init__(self):
        self.binary = shutil.which("redis-server")
        if not self.binary:
            raise SystemExit("needs redis-server (apt install redis-server)")
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.start()

    def start(self):
        """Starts it, empty."""
        settings = "--bind 127.0.0.1 --save '' --appendonly no --dir /"
        self.run(f'"$1" --port $2 {settings} >/dev/null 2>&1', "kill -9 $server", self.binary, self.port)
        end = time.monotonic() + 30
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1) as link:
                    link.sendall(b"PING\r\n")
                    if link.recv(100) == b"+PONG\r\n":
                        return
            except OSError:
                if time.monotonic() > end:
                    raise
            time.sleep(0.01)

    def stop(self):
        """Kills it, which loses its data."""
        self.let_go("end\n")

    close = stop


class Haproxy(Leashed):
    """A balancer in front of gateways, which checks the readiness of each five times a second. `port` accepts HTTP/1
    and WebSocket, `grpc_port` HTTP/2."""

    def __init__(self, ports):
        self.binary = shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin")
        if not self.binary:
            raise SystemExit("needs haproxy (apt install haproxy)")
        self.folder = tempfile.mkdtemp(prefix="rpcgate-haproxy-")
        os.chmod(self.folder, 0o755)
        self.port, self.grpc_port, self.tls = free_port(), free_port(), None
        lines = "defaults\nmode http\nretries 3\noption redispatch 1\ntimeout connect 1s\ntimeout client 75s\ntimeout server 75s\ntimeout tunnel 1h\ntimeout check 1s\n"
        for name, port, speaks in (("http", self.port, ""), ("grpc", self.grpc_port, "proto h2")):
            lines += f"frontend {name}\nbind 127.0.0.1:{port} {speaks}\ndefault_backend {name}\n"
            lines += f"backend {name}\nbalance roundrobin\noption httpchk GET /readyz\n"
            for number, address in enumerate(ports):
                lines += f"server {number} 127.0.0.1:{address} {speaks} check check-proto h1 inter 200ms fall 1 rise 1\n"
        file = pathlib.Path(self.folder) / "haproxy.cfg"
        file.write_text(lines)
        self.run('"$1" -db -f "$2" >/dev/null 2>&1', "kill -9 $server", self.binary, file)
        end = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                if time.monotonic() > end:
                    raise
            time.sleep(0.01)

    def close(self):
        self.let_go("end\n")
        shutil.rmtree(self.folder, ignore_errors=True)
