"""The status of a Stellar node by plain GET. Stellar's SDKs need Horizon, which the gateway does not serve."""

import re
import time

from check import run
from rest import Rest, doors, shape

HASH, SHORT, WHOLE = re.compile("[0-9a-f]{64}"), re.compile("G[A-Z2-7]{4}"), re.compile("G[A-Z2-7]{55}")
TRANSITIVE = {"critical": None, "intersection": True, "last_check_ledger": int, "node_count": int}
INFO = {
    "build": str,
    "ledger": {
        "age": int,
        "baseFee": int,
        "baseReserve": int,
        "closeTime": int,
        "hash": HASH,
        "maxTxSetSize": int,
        "num": int,
        "version": int,
    },
    "network": "Public Global Stellar Network ; September 2015",
    "peers": {"authenticated_count": int, "pending_count": int},
    "protocol_version": int,
    "quorum": {
        "qset": {
            "agree": int,
            "delayed": int,
            "disagree": int,
            "fail_at": int,
            "hash": str,
            "lag_ms": int,
            "ledger": int,
            "missing": int,
            "phase": str,
        },
        "transitive": TRANSITIVE,
    },
    "startedOn": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"),
    "state": "Synced!",
}


def quorum(name):
    """Returns the shape of a node's quorum status; `name` is the shape of nodes' names."""
    return {
        "node": name,
        "qset": {
            "agree": [name],
            "fail_at": int,
            "fail_with": [name],
            "hash": str,
            "ledger": int,
            "phase": str,
            "value": {"t": int, "v": [{"t": int, "v": [name]}]},
        },
        "transitive": TRANSITIVE,
    }


def body(chain, check):
    rest = Rest(chain)
    doors(rest, check, "/info")

    with check("the node is in sync"):
        info = rest.get("/info")
        shape(info, {"info": INFO})
        ledger = info["info"]["ledger"]
        assert ledger["age"] < 60 and abs(time.time() - ledger["closeTime"]) < 60, ledger
        assert ledger["version"] == info["info"]["protocol_version"], info
        check.note(ledger["num"])

    with check("ledgers close"):
        deadline = time.monotonic() + 30
        while (after := rest.get("/info")["info"]["ledger"])["num"] == ledger["num"]:
            assert time.monotonic() < deadline, "no ledger in 30 seconds"
            time.sleep(0.5)
        assert after["num"] > ledger["num"] and after["closeTime"] > ledger["closeTime"], (ledger, after)
        assert after["hash"] != ledger["hash"]

    with check("the quorum, with short and full names"):
        short, whole = rest.get("/quorum"), rest.get("/quorum", fullkeys="true")
        shape(short, quorum(SHORT))
        shape(whole, quorum(WHOLE))
        assert whole["node"].startswith(short["node"])

    with check("the quorum as counts, and the quorum of all nodes"):
        compact = rest.get("/quorum", compact="true")
        shape(compact["qset"], {name: int for name in ("agree", "delayed", "disagree", "missing", "fail_at")})
        nodes = rest.get("/quorum", transitive="true")
        shape(nodes, {**TRANSITIVE, "nodes": [{"node": SHORT, "status": str}]})
        assert len(nodes["nodes"]) == nodes["node_count"], nodes

    with check("all metrics, and metrics by name"):
        every = rest.get("/metrics")
        shape(every, {"metrics": {"ledger.ledger.close": {"type": "timer", "count": int, "mean": float}}})
        assert {one["type"] for one in every["metrics"].values()} >= {"counter", "meter", "timer", "histogram"}
        chosen = rest.get("/metrics", enable="scp")["metrics"]
        assert chosen and all(name.startswith("scp.") for name in chosen), list(chosen)
        assert set(chosen) < set(every["metrics"])

    with check("other query parameters than the key reach the node"):
        one = rest.get("/metrics", apikey=chain["key"], enable="ledger.ledger.close")["metrics"]
        assert list(one) == ["ledger.ledger.close"], list(one)

    with check("other paths and POST are refused"):
        none = {"message": "no Route matched with those values"}
        for verb, path in [
            ("POST", "/info"),
            ("PUT", "/info"),
            ("GET", ""),
            ("GET", "/tx?blob=AAAA"),
            ("GET", "/manualclose"),
            ("GET", "/ll?level=debug"),
            ("GET", "/info/more"),
            ("GET", "/accounts/GA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJVSGZ"),
        ]:
            answer = rest.ask(verb, path, 404).json()
            assert answer == none, (verb, path, answer)


run("requests", body)
