"""cosmpy 0.12: its clients of single modules over its REST client, with the key in a header.

Its LedgerClient drops the path of the URL, so the script does not use it.
"""

import time

# Validators have keys of this kind; cosmpy decodes only imported kinds.
import cosmpy.protos.cosmos.crypto.ed25519.keys_pb2  # noqa: F401
from cosmpy.auth.rest_client import AuthRestClient
from cosmpy.bank.rest_client import BankRestClient
from cosmpy.common.rest_client import RestClient
from cosmpy.crypto.address import Address
from cosmpy.crypto.keypairs import PrivateKey
from cosmpy.protos.cosmos.auth.v1beta1.auth_pb2 import BaseAccount
from cosmpy.protos.cosmos.auth.v1beta1.query_pb2 import QueryAccountRequest
from cosmpy.protos.cosmos.bank.v1beta1.query_pb2 import (
    QueryAllBalancesRequest,
    QueryBalanceRequest,
    QuerySupplyOfRequest,
    QueryTotalSupplyRequest,
)
from cosmpy.protos.cosmos.bank.v1beta1.tx_pb2 import MsgSend
from cosmpy.protos.cosmos.base.query.v1beta1.pagination_pb2 import PageRequest
from cosmpy.protos.cosmos.base.tendermint.v1beta1.query_pb2 import (
    GetBlockByHeightRequest,
    GetLatestBlockRequest,
    GetLatestValidatorSetRequest,
    GetNodeInfoRequest,
    GetSyncingRequest,
)
from cosmpy.protos.cosmos.base.v1beta1.coin_pb2 import Coin
from cosmpy.protos.cosmos.crypto.secp256k1.keys_pb2 import PubKey
from cosmpy.protos.cosmos.staking.v1beta1.query_pb2 import QueryPoolRequest, QueryValidatorsRequest
from cosmpy.protos.cosmos.tx.signing.v1beta1.signing_pb2 import SIGN_MODE_DIRECT
from cosmpy.protos.cosmos.tx.v1beta1 import service_pb2 as service
from cosmpy.protos.cosmos.tx.v1beta1 import tx_pb2 as tx
from cosmpy.staking.rest_client import StakingRestClient
from cosmpy.tendermint.rest_client import CosmosBaseTendermintRestClient
from cosmpy.tx.rest_client import TxRestClient
from google.protobuf.any_pb2 import Any

from check import failure, run

#: The secret key of an account that the simulated node funds: the mnemonic "test test … junk" on Cosmos' own path.
SECRET = "e64e7928d4f6c06f01fefd31f760c51f59a16426e792761cd00529b76501c8a0"


def packed(message):
    held = Any()
    held.Pack(message, type_url_prefix="/")
    return held


def once(ask):
    """Polls until there is an answer: a block comes every six seconds."""
    for _ in range(60):
        try:
            return ask()
        except RuntimeError as error:
            assert "404" in str(error), error
            time.sleep(0.5)
    raise AssertionError("missing after 30 seconds")


def checks(chain, check):
    client = RestClient(chain["url"])
    client._session.headers["apikey"] = chain["key"]
    node, bank, auth = CosmosBaseTendermintRestClient(client), BankRestClient(client), AuthRestClient(client)
    staking, txs = StakingRestClient(client), TxRestClient(client)
    key = PrivateKey(bytes.fromhex(SECRET))
    owner = str(Address(key.public_key, "cosmos"))
    payee = str(Address(PrivateKey().public_key, "cosmos"))

    def balance(address):
        request = QueryBalanceRequest(address=address, denom="uatom")
        return int(bank.Balance(request).balance.amount)

    def account():
        base = BaseAccount()
        auth.Account(QueryAccountRequest(address=owner)).account.Unpack(base)
        return base

    def transfer(amount, sequence):
        send = MsgSend(from_address=owner, to_address=payee, amount=[Coin(denom="uatom", amount=str(amount))])
        body = tx.TxBody(messages=[packed(send)], memo="check")
        signer = tx.SignerInfo(
            public_key=packed(PubKey(key=key.public_key.public_key_bytes)),
            mode_info=tx.ModeInfo(single=tx.ModeInfo.Single(mode=SIGN_MODE_DIRECT)),
            sequence=sequence,
        )
        fee = tx.Fee(amount=[Coin(denom="uatom", amount="1000")], gas_limit=150_000)
        info = tx.AuthInfo(signer_infos=[signer], fee=fee)
        document = tx.SignDoc(
            body_bytes=body.SerializeToString(),
            auth_info_bytes=info.SerializeToString(),
            chain_id="cosmoshub-4",
            account_number=account().account_number,
        )
        signature = key.sign(document.SerializeToString(), deterministic=True, canonicalise=True)
        return tx.Tx(body=body, auth_info=info, signatures=[signature])

    def broadcast(signed):
        raw = signed.SerializeToString()
        request = service.BroadcastTxRequest(tx_bytes=raw, mode=service.BROADCAST_MODE_SYNC)
        return txs.BroadcastTx(request).tx_response

    with check("no key is a 401"):
        bare = CosmosBaseTendermintRestClient(RestClient(chain["url"]))
        error = failure(bare.GetSyncing, GetSyncingRequest())
        assert "401" in str(error), error

    with check("the node and its blocks"):
        assert node.GetNodeInfo(GetNodeInfoRequest()).default_node_info.network == "cosmoshub-4"
        assert not node.GetSyncing(GetSyncingRequest()).syncing
        newest = node.GetLatestBlock(GetLatestBlockRequest()).block
        before = node.GetBlockByHeight(GetBlockByHeightRequest(height=newest.header.height - 1))
        assert newest.header.last_block_id.hash == before.block_id.hash
        assert node.GetLatestValidatorSet(GetLatestValidatorSetRequest()).validators

    with check("balances and the supply"):
        assert len(bank.AllBalances(QueryAllBalancesRequest(address=owner)).balances) > 1
        pages = QueryTotalSupplyRequest(pagination=PageRequest(limit=2))
        assert len(bank.TotalSupply(pages).supply) == 2
        assert int(bank.SupplyOf(QuerySupplyOfRequest(denom="uatom")).amount.amount) > 0

    with check("validators by pages"):
        first = staking.Validators(QueryValidatorsRequest(pagination=PageRequest(limit=5)))
        assert len(first.validators) == 5 and first.pagination.next_key
        following = PageRequest(limit=5, key=first.pagination.next_key)
        second = staking.Validators(QueryValidatorsRequest(pagination=following))
        assert second.validators[0].operator_address > "" and second.validators[0] not in first.validators
        assert int(staking.Pool(QueryPoolRequest()).pool.bonded_tokens) > 0

    with check("a missing account"):
        error = failure(auth.Account, QueryAccountRequest(address=payee))
        assert "404" in str(error) and "not found" in str(error), error

    with check("a transfer, simulated, sent and found"):
        sequence, before = account().sequence, balance(owner)
        signed = transfer(12_345, sequence)
        used = txs.Simulate(service.SimulateRequest(tx=signed)).gas_info.gas_used
        assert 50_000 < used < 150_000, used
        taken = broadcast(signed)
        assert taken.code == 0, taken
        found = once(lambda: txs.GetTx(service.GetTxRequest(hash=taken.txhash))).tx_response
        assert found.code == 0 and found.gas_used == used, found
        assert (balance(payee), balance(owner)) == (12_345, before - 12_345 - 1_000)
        assert account().sequence == sequence + 1
        events = service.GetTxsEventRequest(events=[f"tx.height={found.height}"])
        assert taken.txhash in [one.txhash for one in txs.GetTxsEvent(events).tx_responses]
        check.note(taken.txhash)

    with check("transactions that are refused"):
        assert broadcast(transfer(1, account().sequence + 9)).code == 32
        forged = transfer(1, account().sequence)
        forged.body.memo = "another"
        assert broadcast(forged).code == 4


run("cosmpy", checks)
