"""The checks that both Python clients of the UTXO chains run, over `call(method, *params)`."""

import time
from decimal import Decimal

from bitcoin.base58 import CBase58Data
from bitcoin.core import b2lx

from check import direct, failure
from spend import FEE, Owner

#: The first byte of a pay-to-key-hash address of litecoind's regtest.
REGTEST = 111
NONE = "00" * 31 + "01"


def code(error):
    return error.error["code"]


def reads(chain, check, call, connection):
    with check("blocks by height and hash"):
        height = call("getblockcount")
        name = call("getblockhash", height - 1)
        block = call("getblock", name)
        assert block["hash"] == name and block["height"] == height - 1
        assert call("getblockheader", name)["merkleroot"] == block["merkleroot"]
        assert call("getblock", name, 0 if chain["name"] != "doge" else False).startswith(call("getblockheader", name, False)[:160])
        # The exact string matters: python-bitcoinrpc compares it.
        assert (connection.status, connection.kind) == (200, "application/json")

    with check("the node's state"):
        info = call("getblockchaininfo")
        assert info["blocks"] >= height and len(info["bestblockhash"]) == 64
        assert call("getmininginfo")["blocks"] >= height
        assert call("getmempoolinfo")["size"] >= 0
        check.note(call("getnetworkinfo")["subversion"])

    with check("an absent output is null"):
        assert call("gettxout", NONE, 0) is None

    with check("fees keep their digits"):
        fee = call("getnetworkinfo")["relayfee"]
        assert isinstance(fee, Decimal) and fee.as_tuple().exponent == -8, fee
        if chain["name"] in ("bch", "doge"):
            fee = call("estimatefee") if chain["name"] == "bch" else call("estimatefee", 6)
            assert isinstance(fee, Decimal) and fee > 0
        elif not chain["real"]:
            fee = call("estimatesmartfee", 6)["feerate"]
            assert isinstance(fee, Decimal) and fee.as_tuple().exponent == -8 and fee > 0
        check.note(f"{fee:f}")


def errors(chain, check, call, connection):
    with check("the node's errors, with its HTTP status"):
        for method, params, expected, status in (
            ("getblockhash", [999_999_999], -8, 500),
            ("getrawtransaction", [NONE], -5, 500),
            ("sendrawtransaction", ["00"], -22, 500),
            ("nosuchmethod", [], -32601, 404),
        ):
            error = failure(call, method, *params)
            assert (code(error), connection.status) == (expected, status), (method, error, connection.status)
            assert connection.kind == "application/json"
            if chain["real"]:
                assert error.error == direct(chain, method, params)["error"], method

    with check("wallet and control methods are closed"):
        before = call("getmininginfo")["blocks"]
        for method, params in (
            ("generatetoaddress", [1, chain["address"]]),
            ("getbalance", []),
            ("dumpprivkey", [chain["address"]]),
            ("invalidateblock", [NONE]),
            ("addnode", ["127.0.0.1:1", "onetry"]),
            ("stop", []),
        ):
            error = failure(call, method, *params)
            assert error.error == {"code": -32601, "message": "method not available"}, (method, error)
            assert connection.status == 200, (method, connection.status)
        after = call("getmininginfo")["blocks"]
        if chain["real"]:
            assert direct(chain, "getblockcount", [])["error"] is None
            check.note(f"blocks {before} before, {after} after")


def mine(chain, count, address):
    return direct(chain, "generatetoaddress", [count, address])["result"]


def send(chain, check, call, connection, secret):
    """Spends a block's reward through the gateway and waits until the transaction is in a block."""
    if chain["real"]:
        owner = Owner(secret)
        address = str(CBase58Data.from_bytes(owner.hash, REGTEST))
        block = mine(chain, 101, address)[0]
    else:
        # Simulated blocks pay to this key; clients may spend those of odd height.
        owner, address = Owner(1), None
        height = call("getblockcount") - 130
        block = call("getblockhash", height - 1 + height % 2)

    def confirmations(txid):
        return call("getrawtransaction", txid, True if chain["name"] == "bch" else 1).get("confirmations", 0)

    with check("a transaction signed here is sent, found and mined"):
        coinbase = call("getblock", block)["tx"][0]
        reward = call("getrawtransaction", coinbase, 1, block) if chain["name"] != "doge" else call("getrawtransaction", coinbase, 1)
        output = next(output for output in reward["vout"] if owner.hash.hex() in output["scriptPubKey"]["hex"])
        value = int(output["value"] * 10**8)
        tx = owner.spend(coinbase, output["n"], value, bytes.fromhex(output["scriptPubKey"]["hex"]))
        txid, raw = b2lx(tx.GetTxid()), tx.serialize().hex()
        assert call("decoderawtransaction", raw)["txid"] == txid
        # A look-up before the transaction exists: the gateway must not cache the error.
        assert code(failure(call, "getrawtransaction", txid)) == -5
        assert call("sendrawtransaction", raw) == txid
        assert call("getrawtransaction", txid) == raw
        assert txid in call("getrawmempool") or not chain["real"]
        if address:
            mine(chain, 1, address)
        deadline = time.monotonic() + 60
        while confirmations(txid) < 1:
            assert time.monotonic() < deadline, "not confirmed"
            time.sleep(0.5)
        paid = call("gettxout", txid, 0)["value"]
        assert f"{paid:f}" == f"{Decimal(value - FEE) / 10**8:.8f}", paid
        check.note(f"{txid} pays {paid:f}")

    with check("sending it again gives the node's error"):
        error = failure(call, "sendrawtransaction", raw)
        assert code(error) in (-27, -25), error
        assert connection.status == 500
        if chain["real"]:
            assert error.error == direct(chain, "sendrawtransaction", [raw])["error"]
        check.note(error.error["message"])
