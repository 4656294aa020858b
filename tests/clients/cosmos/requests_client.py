"""The REST API of the Cosmos Hub by plain GET and POST, as a client in any language sees it."""

import base64
import hashlib
import re
import time

from check import run
from rest import Rest, doors, shape

#: An account that the simulated node funds.
OWNER = "cosmos15yk64u7zc9g9k2yr2wmzeva5qgwxps6yxj00e7"
TENDERMINT, BANK = "/cosmos/base/tendermint/v1beta1", "/cosmos/bank/v1beta1"
STAKING, TX = "/cosmos/staking/v1beta1", "/cosmos/tx/v1beta1"

#: 64-bit numbers are text; so are fractions, with 18 places.
NUMBER, FRACTION = re.compile(r"\d+"), re.compile(r"\d+\.\d{18}")
HASH = re.compile("[A-Za-z0-9+/]{43}=")
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
BLOCK_ID = {"hash": HASH, "part_set_header": {"total": int, "hash": HASH}}
COIN = {"denom": str, "amount": NUMBER}
FAULT = {"code": int, "message": str, "details": list}


def header(proposer):
    return {
        "version": {"block": "11", "app": NUMBER},
        "chain_id": "cosmoshub-4",
        "height": NUMBER,
        "time": MOMENT,
        "last_block_id": BLOCK_ID,
        **{f"{name}_hash": HASH for name in ("last_commit", "data", "validators", "next_validators", "consensus")},
        **{f"{name}_hash": HASH for name in ("app", "last_results", "evidence")},
        "proposer_address": proposer,
    }


def block(proposer):
    data = {"txs": list}
    commit = {"height": NUMBER, "round": int, "block_id": BLOCK_ID, "signatures": [{"block_id_flag": str}]}
    return {"header": header(proposer), "data": data, "evidence": {"evidence": list}, "last_commit": commit}


WHOLE = {
    "block_id": BLOCK_ID,
    "block": block(re.compile("[A-Za-z0-9+/]{27}=")),
    "sdk_block": block(re.compile("cosmosvalcons1[a-z0-9]{38}")),
}
VALIDATOR = {
    "operator_address": re.compile("cosmosvaloper1[a-z0-9]{38}"),
    "consensus_pubkey": {"@type": "/cosmos.crypto.ed25519.PubKey", "key": HASH},
    "jailed": bool,
    "status": re.compile("BOND_STATUS_(BONDED|UNBONDING|UNBONDED)"),
    "tokens": NUMBER,
    "delegator_shares": FRACTION,
    "description": {"moniker": str, "identity": str, "website": str, "security_contact": str, "details": str},
    "unbonding_height": NUMBER,
    "unbonding_time": MOMENT,
    "commission": {
        "commission_rates": {"rate": FRACTION, "max_rate": FRACTION, "max_change_rate": FRACTION},
        "update_time": MOMENT,
    },
    "min_self_delegation": NUMBER,
}


def body(chain, check):
    rest = Rest(chain)
    doors(rest, check, f"{TENDERMINT}/syncing")

    with check("the node"):
        shape(
            rest.get(f"{TENDERMINT}/node_info"),
            {
                "default_node_info": {
                    "protocol_version": {"p2p": NUMBER, "block": NUMBER, "app": NUMBER},
                    "default_node_id": re.compile("[0-9a-f]{40}"),
                    "network": "cosmoshub-4",
                    "version": str,
                    "other": {"tx_index": "on"},
                },
                "application_version": {"name": "gaia", "version": str, "cosmos_sdk_version": str},
            },
        )
        assert rest.get(f"{TENDERMINT}/syncing") == {"syncing": False}

    with check("blocks link"):
        latest = rest.get(f"{TENDERMINT}/blocks/latest")
        shape(latest, WHOLE)
        height = int(latest["block"]["header"]["height"])
        before = rest.get(f"{TENDERMINT}/blocks/{height - 1}")
        shape(before, WHOLE)
        assert int(before["block"]["header"]["height"]) == height - 1
        assert latest["block"]["header"]["last_block_id"] == before["block_id"]
        check.note(height)

    with check("new blocks come, and a block by number stays the same"):
        deadline = time.monotonic() + 30
        while int(rest.get(f"{TENDERMINT}/blocks/latest")["block"]["header"]["height"]) == height:
            assert time.monotonic() < deadline, "no block in 30 seconds"
            time.sleep(0.5)
        assert rest.get(f"{TENDERMINT}/blocks/{height}") == latest

    with check("transactions of a block are found by their hash"):
        # Some blocks are empty.
        full = next(
            one
            for below in range(1, 30)
            if (one := rest.get(f"{TENDERMINT}/blocks/{height - below}")["block"])["data"]["txs"]
        )
        of, raws = full["header"]["height"], full["data"]["txs"]
        name = hashlib.sha256(base64.b64decode(raws[0])).hexdigest().upper()
        found = rest.get(f"{TX}/txs/{name}")
        shape(
            found,
            {
                "tx": {"body": {"messages": [{"@type": str}]}, "auth_info": dict, "signatures": [str]},
                "tx_response": {
                    "height": of,
                    "txhash": name,
                    "code": int,
                    "gas_wanted": NUMBER,
                    "gas_used": NUMBER,
                    "tx": {"@type": "/cosmos.tx.v1beta1.Tx"},
                    "timestamp": MOMENT,
                    "events": [{"type": str, "attributes": [{"key": str, "value": str, "index": bool}]}],
                },
            },
        )
        page = rest.get(f"{TX}/txs", query=f"tx.height={of}", limit=2)
        assert name in [one["txhash"] for one in page["tx_responses"]], page
        assert int(page["total"]) == len(raws)

    with check("the supply and balances"):
        supply = rest.get(f"{BANK}/supply/by_denom", denom="uatom")
        shape(supply, {"amount": {"denom": "uatom", "amount": NUMBER}})
        none = rest.get(f"{BANK}/supply/by_denom", denom="nothing")
        assert none == {"amount": {"denom": "nothing", "amount": "0"}}, none
        held = rest.get(f"{BANK}/balances/{OWNER}")
        shape(held, {"balances": [COIN], "pagination": {"next_key": None, "total": str(len(held["balances"]))}})
        one = rest.get(f"{BANK}/balances/{OWNER}/by_denom", denom="uatom")["balance"]
        assert one in held["balances"] and int(one["amount"]) > 0, held

    with check("validators by pages"):
        first = rest.get(f"{STAKING}/validators", **{"pagination.limit": 5, "pagination.count_total": "true"})
        shape(first, {"validators": [VALIDATOR], "pagination": {"next_key": str, "total": NUMBER}})
        following = {"pagination.limit": 5, "pagination.key": first["pagination"]["next_key"]}
        second = rest.get(f"{STAKING}/validators", **following)
        assert len(first["validators"]) == len(second["validators"]) == 5
        names = [one["operator_address"] for one in first["validators"] + second["validators"]]
        assert len(set(names)) == 10, names
        bonded = rest.get(f"{STAKING}/validators", status="BOND_STATUS_BONDED", **{"pagination.limit": 500})
        assert {one["status"] for one in bonded["validators"]} == {"BOND_STATUS_BONDED"}
        assert 10 < len(bonded["validators"]) <= int(first["pagination"]["total"])

    with check("errors keep their status and code"):
        for path, status, code in [
            (f"{BANK}/balances/cosmos1nobody", 400, 3),
            (f"{TENDERMINT}/blocks/99999999999", 400, 3),
            (f"{STAKING}/validators?pagination.limit=many", 400, 3),
            (f"{TX}/txs/{'0' * 64}", 404, 5),
            ("/cosmos/nothing/v1/here", 501, 12),
        ]:
            fault = rest.get(path, status)
            shape(fault, FAULT)
            assert fault["code"] == code, (path, fault)

    with check("bytes that are not a transaction"):
        posted = {"tx_bytes": base64.b64encode(b"nothing").decode(), "mode": "BROADCAST_MODE_SYNC"}
        answer = rest.ask("POST", f"{TX}/txs", 200, json=posted).json()["tx_response"]
        assert answer["code"] == 2 and answer["codespace"] == "sdk", answer
        shape(rest.ask("POST", f"{TX}/txs", 400, json={}).json(), FAULT)

    with check("JSON-RPC is not supported"):
        call = {"jsonrpc": "2.0", "id": 1, "method": "status", "params": {}}
        none = {"code": 12, "message": "Not Implemented"}
        assert rest.ask("POST", "", 501, json=call).json() == none
        assert rest.ask("GET", "/status", 501).json() == none
        error = rest.ask("POST", "", 200, json=[call]).json()["error"]
        assert error["code"] == -32603, error

    with check("paths are refused rather than repaired"):
        for path in (f"/{BANK}/supply", f"{BANK}/../supply", f"{BANK}/%2e%2e/supply", f"{BANK}%2fsupply"):
            answer = rest.untidied(path, 400).json()
            assert answer == {"message": "invalid path"}, (path, answer)


run("requests", body)
