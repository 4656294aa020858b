"""Shared code of the Python clients: the address of the gateway, and the record of a check."""

import concurrent.futures
import http.client
import importlib.metadata
import json
import os
import sys
import threading
import time
import traceback
import urllib.error
import urllib.request

_WRITING = threading.Lock()


def report(**line):
    with _WRITING:
        print(json.dumps(line), flush=True)


class Check:
    """Runs the checks of one chain. `with check("title"): …` runs one; `note` adds an observation."""

    def __init__(self, chain):
        self.chain, self.title, self.seen, self.start = chain, None, None, 0.0

    def __call__(self, title):
        self.title, self.seen = title, None
        return self

    def note(self, seen):
        self.seen = str(seen)

    def __enter__(self):
        self.start = time.monotonic()
        return self

    def __exit__(self, kind, error, trace):
        line = {"chain": self.chain, "check": self.title, "ok": error is None, "note": self.seen}
        if error is not None:
            line["note"] = "".join(traceback.format_exception(kind, error, trace, chain=False))[-1500:]
        report(**line, ms=round(1000 * (time.monotonic() - self.start)))
        return isinstance(error, Exception)


def run(package, body):
    """Runs `body(chain, check)` for every chain at the same time and ends the process."""
    with open(sys.argv[1], encoding="utf-8") as file:
        chains = json.load(file)["chains"]
    report(version=importlib.metadata.version(package))

    def one(chain):
        try:
            body(chain, Check(chain["name"]))
        except Exception:
            report(chain=chain["name"], check="runs to its end", ok=False, note=traceback.format_exc()[-1500:])

    with concurrent.futures.ThreadPoolExecutor(len(chains)) as pool:
        list(pool.map(one, chains))
    report(done=True)
    sys.stdout.flush()
    os._exit(0)


def failure(call, *args, **named):
    """Returns the error of a call that must fail."""
    try:
        result = call(*args, **named)
    except Exception as error:
        return error
    raise AssertionError(f"succeeded with {result!r}")


def direct(chain, method, params):
    """Returns the node's whole answer to a call, without the gateway."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    headers = {"content-type": "application/json"}
    if "login" in chain:
        headers["authorization"] = chain["login"]
    request = urllib.request.Request(chain["direct"], body, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as answer:
        return json.load(answer)


def minute_with(seconds):
    """Waits until the current UTC minute has this many seconds left."""
    left = 60 - time.time() % 60
    if left < seconds:
        time.sleep(left + 0.5)


class KeyConnection(http.client.HTTPConnection):
    """Adds the gateway's key to the requests of a client without an option for headers, and stores the last status."""

    def __init__(self, chain, key=True):
        address = chain["url"].split("/")[2]
        super().__init__(address, timeout=60)
        self.extra = {"apikey": chain["key"]} if key else {}
        self.status = self.kind = None

    def request(self, method, url, body=None, headers=None, **named):
        super().request(method, url, body, {**(headers or {}), **self.extra}, **named)

    def getresponse(self):
        response = super().getresponse()
        self.status, self.kind = response.status, response.getheader("content-type")
        return response
