"""cosmpy 0.12: its LedgerClient over gRPC. An interceptor adds the key to the metadata of every call."""

import urllib.parse

import certifi
import grpc
from cosmpy.aerial.client import LedgerClient
from cosmpy.aerial.config import NetworkConfig
from cosmpy.aerial.wallet import LocalWallet
from cosmpy.crypto.keypairs import PrivateKey
# Validators have keys of this kind; cosmpy decodes only imported kinds.
import cosmpy.protos.cosmos.crypto.ed25519.keys_pb2  # noqa: F401

from check import failure, run

#: The secret key of an account that the simulated node funds: the mnemonic "test test … junk" on Cosmos' own path.
SECRET = "e64e7928d4f6c06f01fefd31f760c51f59a16426e792761cd00529b76501c8a0"


class KeyInterceptor(grpc.UnaryUnaryClientInterceptor):
    """Adds the gateway's key to the metadata."""

    def __init__(self, key):
        self.key = key

    def intercept_unary_unary(self, continuation, client_call_details, request):
        metadata = [*(client_call_details.metadata or ()), ("apikey", self.key)]
        return continuation(client_call_details._replace(metadata=metadata), request)


def ledger(chain, key):
    """Returns a client that trusts the demo's certificate. LedgerClient has no option for that, nor for metadata."""
    channel = grpc.secure_channel

    def with_key(target, credentials):
        made = channel(target, credentials)
        return grpc.intercept_channel(made, KeyInterceptor(key)) if key else made

    certifi.where, grpc.secure_channel = (lambda: chain["grpc_ca"]), with_key
    try:
        return LedgerClient(NetworkConfig(
            chain_id="cosmoshub-4",
            url=f"grpc+https://{urllib.parse.urlsplit(chain['grpc']).netloc}",
            fee_minimum_gas_price=0.01,
            fee_denomination="uatom",
            staking_denomination="uatom",
        ))
    finally:
        grpc.secure_channel = channel


def checks(chain, check):
    client = ledger(chain, chain["key"])
    wallet = LocalWallet(PrivateKey(bytes.fromhex(SECRET)), prefix="cosmos")
    payee = LocalWallet(PrivateKey(), prefix="cosmos")

    with check("no key is UNAUTHENTICATED"):
        error = failure(ledger(chain, None).query_latest_block)
        assert error.code() == grpc.StatusCode.UNAUTHENTICATED, error

    with check("blocks"):
        newest = client.query_latest_block()
        assert newest.chain_id == "cosmoshub-4" and newest.height > 1_000_000
        assert client.query_block(newest.height - 1).height == newest.height - 1
        assert client.query_height() >= newest.height

    with check("balances and validators"):
        assert client.query_bank_balance(wallet.address(), "uatom") > 0
        assert len(client.query_bank_all_balances(wallet.address())) > 1
        assert len(client.query_validators()) > 10

    with check("a missing account is NOT_FOUND"):
        error = failure(client.query_account, payee.address())
        assert error.code() == grpc.StatusCode.NOT_FOUND, error

    with check("a transfer: its gas estimated, sent, included and found"):
        before = client.query_account(wallet.address())
        sent = client.send_tokens(payee.address(), 12_345, "uatom", wallet)
        sent.wait_to_complete(timeout=60)
        assert client.query_bank_balance(payee.address(), "uatom") == 12_345
        assert client.query_account(wallet.address()).sequence == before.sequence + 1
        found = client.query_tx(sent.tx_hash)
        assert found.code == 0 and 50_000 < found.gas_used < found.gas_wanted, found
        check.note(sent.tx_hash)

    with check("a transaction that the node refuses"):
        error = failure(client.send_tokens, payee.address(), 10**30, "uatom", wallet)
        check.note(error)


run("cosmpy", checks)
