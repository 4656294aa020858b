"""Creates the objects that calls of the management API need to succeed: users, projects, tickets, tokens from mails."""

import base64
import contextlib
import datetime
import email
import email.policy
import hashlib
import http.server
import itertools
import json
import pathlib
import re
import threading
import time
import urllib.error
import urllib.request
import uuid

BASE = "/api/v1"
PASSWORD = "a password for tests"
#: The seconds to wait for an answer, and for a mail.
PATIENCE = 20


class Refused(Exception):
    """The API refused a request that the call under test depends on."""


class Site:
    """A running demo, described by its `demo.json`."""

    def __init__(self, sheet):
        self.sheet = json.loads(pathlib.Path(sheet).read_text())
        self.url = self.sheet["admin"].rstrip("/")
        self.outbox = pathlib.Path(self.sheet["outbox"])
        self.read = set()
        self.mails = {}
        self.lock = threading.Lock()

    def ask(self, method, path, body=None, token=None):
        """Returns the answer of a call that must succeed; retries while the service is busy. The body is JSON or a
        file."""
        is_file = isinstance(body, bytes)
        data = body if body is None or is_file else json.dumps(body).encode()
        headers = {"content-type": "application/octet-stream" if is_file else "application/json"}
        if token:
            headers["authorization"] = f"Bearer {token}"
        deadline = time.monotonic() + PATIENCE
        while True:
            request = urllib.request.Request(self.url + BASE + path, data, headers, method=method)
            try:
                with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                    return json.loads(answer.read() or b"null")
            except urllib.error.HTTPError as error:
                said = error.read().decode(errors="replace")
                if error.code not in (429, 503) or time.monotonic() > deadline:
                    raise Refused(f"{method} {path}: {error.code} {said}") from error
            time.sleep(0.2)

    def solution(self):
        """Returns the solution of a new challenge, as a browser sends it."""
        challenge = self.ask("GET", "/auth/challenge")
        for number in range(challenge["maxnumber"] + 1):
            tried = hashlib.sha256(f"{challenge['salt']}{number}".encode()).hexdigest()
            if tried == challenge["challenge"]:
                return base64.b64encode(json.dumps(challenge | {"number": number}).encode()).decode()
        raise Refused("the challenge has no solution")

    def mailed(self, to):
        """Returns the token in the link of the newest mail to an address."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            with self.lock:
                for path in sorted(set(self.outbox.glob("*.eml")) - self.read):
                    self.read.add(path)
                    mail = email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
                    token = re.search(r"[?&]token=([\w.~-]+)", mail.get_body(("plain",)).get_content())
                    if token:
                        self.mails[str(mail["to"])] = token[1]
                if token := self.mails.pop(to, None):
                    return token
            time.sleep(0.02)
        raise Refused(f"no mail with a link came for {to}")

    def login(self, address, password):
        return self.ask("POST", "/auth/login", {"email": address, "password": password})

    def applicant(self):
        """Returns the address of a registered user who has not confirmed it."""
        address = fresh_address()
        form = {"email": address, "password": PASSWORD, "name": "Ada", "challenge": self.solution()}
        self.ask("POST", "/auth/register", form)
        return address

    def forgotten(self, address):
        """Returns the token that sets the password of an address."""
        self.ask("POST", "/auth/password/forgot", {"email": address})
        return self.mailed(address)

    def user(self):
        """Returns the address of a new user, who has their own organisation."""
        address = self.applicant()
        self.ask("POST", "/auth/confirm", {"token": self.mailed(address)})
        return address

    def person(self):
        return Person(self, self.user())

    def operator(self):
        return Person(self, **self.sheet["operator"])

    def customer(self):
        """Returns the owner of the demo's account, logged in. The account is old enough to have invoices."""
        return Person(self, self.sheet["email"], self.sheet["password"])


class Person:
    """A logged-in user and the objects that they own."""

    def __init__(self, site, email, password=PASSWORD):
        self.site, self.address, self.password = site, email, password
        tokens = site.login(email, password)
        self.token, self.refresh_token = tokens["token"], tokens["refresh_token"]
        me = self.ask("GET", "/auth/me")
        self.id, self.tenant = me["id"], me["tenant_id"]

    def ask(self, method, path, body=None):
        return self.site.ask(method, path, body, self.token)

    def project(self):
        """Creates a project and returns its identifier."""
        return self.ask("POST", f"/tenants/{self.tenant}/projects", {"name": "of the tests"})["id"]

    def key(self, project):
        """Creates a key and returns its identifier and its text."""
        key = self.ask("POST", f"/projects/{project}/keys", {"description": "of the tests"})
        return key["id"], key["key"]

    def webhook(self, project, url="https://hooks.example/"):
        return self.ask("POST", f"/projects/{project}/webhooks", {"url": url})["id"]

    def subscription(self, webhook):
        new = {"chain": "eth", "event_type": "health"}
        return self.ask("POST", f"/webhooks/{webhook}/subscriptions", new)["id"]

    def delivery(self, webhook):
        """Makes a delivery to a webhook, waits until it has ended and returns its identifier."""
        delivery = self.ask("POST", f"/webhooks/{webhook}/test")["id"]
        deadline = time.monotonic() + PATIENCE
        while self.ask("GET", f"/deliveries/{delivery}")["status"] == "pending":
            if time.monotonic() > deadline:
                raise Refused("nothing is delivered")
            time.sleep(0.1)
        return delivery

    def use(self, project):
        """Sends valid and invalid calls to the gateway and waits until usage reports them."""
        _, key = self.key(project)
        gateway = self.site.sheet["gateway"].rstrip("/")
        calls = [("eth", "eth_blockNumber"), ("eth", "eth_chainId"), ("bsc", "eth_nonsense"), ("btc", "getblockcount"), ("btc", "stop")]
        for number, (chain, method) in enumerate(calls * 2):
            body = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": []}).encode()
            request = urllib.request.Request(f"{gateway}/{chain}", body, {"apikey": key})
            with contextlib.suppress(urllib.error.HTTPError), urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                answer.read()
        deadline = time.monotonic() + PATIENCE
        while (told := self.ask("GET", "/usage?group_by=method,status,key")["totals"]["requests"]) < 2 * len(calls):
            if time.monotonic() > deadline:
                raise Refused(f"of {2 * len(calls)} calls, usage reports {told}")
            time.sleep(0.1)

    def request(self, project):
        """Makes a request to the gateway and returns its identifier."""
        _, key = self.key(project)
        body = b'{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}'
        request = urllib.request.Request(f"{self.site.sheet['gateway'].rstrip('/')}/eth", body, {"apikey": key})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.headers["x-request-id"]
        except urllib.error.HTTPError as refused:
            return refused.headers["x-request-id"]

    def notification(self):
        """Returns the identifier of a notification, which a minute of refused calls causes."""
        if not (told := self.ask("GET", "/notifications")):
            _, key = self.key(self.project())
            gateway, deadline = self.site.sheet["gateway"].rstrip("/"), time.monotonic() + PATIENCE
            while not (told := self.ask("GET", "/notifications")):
                if time.monotonic() > deadline:
                    raise Refused("a burst of refusals causes no notification")
                for _ in range(70):
                    body = b'{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}'
                    request = urllib.request.Request(f"{gateway}/eth", body, {"apikey": key})
                    with contextlib.suppress(urllib.error.HTTPError), urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                        answer.read()
                time.sleep(0.5)
        return told[0]["id"]

    def limit_request(self):
        """Returns the identifier of the pending request for another plan; creates one if necessary."""
        pending = [one["id"] for one in self.ask("GET", "/limit-requests") if one["status"] == "pending"]
        wanted = {"requested_tier": "premium", "reason": "of the tests"}
        return pending[0] if pending else self.ask("POST", "/limit-requests", wanted)["id"]

    def access_token(self):
        return self.ask("POST", "/auth/tokens", {"name": "of the tests", "scopes": ["read"], "current_password": self.password})["id"]

    def ticket(self):
        return self.ask("POST", "/support/tickets", {"category": "question", "subject": "Of the tests", "text": "Why?"})["id"]

    def open_ticket(self):
        """Returns the identifier of a support ticket that is not closed; creates one if necessary."""
        told = self.ask("GET", "/support/tickets?status=open")
        return told[0]["id"] if told else self.ticket()

    def closed_ticket(self):
        """Closes a support ticket and returns its identifier."""
        ticket = self.open_ticket()
        self.ask("POST", f"/support/tickets/{ticket}/close")
        return ticket

    def attachment(self, ticket):
        return self.ask("POST", f"/support/tickets/{ticket}/attachments", b"of the tests")["id"]

    def invoices(self):
        """Returns the numbers of the invoices, newest first, once the last month has its own."""
        month, deadline = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-01"), time.monotonic() + PATIENCE
        while True:
            told = self.ask("GET", f"/tenants/{self.tenant}/invoices")
            if told and told[0]["period"]["to"] >= month:
                return [invoice["number"] for invoice in told]
            if time.monotonic() > deadline:
                raise Refused(f"the last of {len(told)} invoices is not that of the last month")
            time.sleep(0.1)

    def invitation(self):
        """Creates an invitation and returns its identifier and the address of its mail."""
        address = fresh_address()
        invitation = self.ask("POST", f"/tenants/{self.tenant}/invitations", {"email": address, "role": "developer"})
        return invitation["id"], address

    def colleague(self):
        """Creates a member of the same tenant and returns its identifier."""
        _, address = self.invitation()
        self.site.ask("POST", "/auth/invitation", {"token": self.site.mailed(address), "password": PASSWORD})
        members = self.ask("GET", f"/tenants/{self.tenant}/members")
        return next(member["id"] for member in members if member["email"] == address)


class Acknowledgement(http.server.BaseHTTPRequestHandler):
    """A receiver of deliveries that acknowledges them all."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def receiver():
    """Returns the URL of a receiver of deliveries, which runs until this program ends."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Acknowledgement)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/"


COUNT = itertools.count()
RUN = uuid.uuid4().hex[:12]


def fresh_address():
    return f"u{next(COUNT)}-{RUN}@example.com"
