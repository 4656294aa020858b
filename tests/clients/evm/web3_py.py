"""web3.py 8 over its HTTPProvider, with the key in a header; once in the query."""

import itertools
import json
import pathlib

import requests
from eth_account import Account
from web3 import Web3
from web3.exceptions import BlockNotFound, ContractLogicError, TransactionNotFound, Web3RPCError
from web3.middleware import ExtraDataToPOAMiddleware

from check import direct, failure, minute_with, run

CONTRACT = json.loads(pathlib.Path(__file__).with_name("contract.json").read_text(encoding="utf-8"))
EMPTY = "0x000000000000000000000000000000000000dEaD"


def item(name, kind):
    return {"name": name, "type": kind}


def function(name, takes, gives, mutability="view"):
    return {"type": "function", "name": name, "stateMutability": mutability,
            "inputs": [item(*one) for one in takes], "outputs": [item("", gives)]}


TOKEN = [
    function("symbol", [], "string"),
    function("transfer", [("to", "address"), ("amount", "uint256")], "bool", "nonpayable"),
]


def checks(chain, check):
    provider = Web3.HTTPProvider(chain["url"], request_kwargs={"headers": {"apikey": chain["key"]}})
    w3 = Web3(provider)
    # Blocks of BNB Smart Chain and Polygon contain more extra data than the yellow paper allows.
    w3.middleware_onion.inject(ExtraDataToPOAMiddleware, layer=0)
    account = Account.from_key(chain["account"])
    payee = Account.create().address

    def send(transaction):
        signed = account.sign_transaction(transaction)
        return signed, w3.eth.wait_for_transaction_receipt(w3.eth.send_raw_transaction(signed.raw_transaction))

    def transaction(**members):
        return {"from": account.address, "chainId": chain["id"], "gas": 100_000,
                "nonce": w3.eth.get_transaction_count(account.address),
                "maxFeePerGas": 2 * w3.eth.gas_price + 10**9, "maxPriorityFeePerGas": w3.eth.max_priority_fee, **members}

    with check("connected, client version and chain id"):
        assert w3.is_connected()
        assert w3.eth.chain_id == chain["id"] and w3.net.version == str(chain["id"])
        check.note(w3.client_version)

    with check("the key in the query"):
        other = Web3(Web3.HTTPProvider(f"{chain['url']}?apikey={chain['key']}"))
        assert other.eth.chain_id == chain["id"]

    with check("no key is a 401"):
        bare = Web3.HTTPProvider(chain["url"], exception_retry_configuration=None)
        error = failure(bare.make_request, "eth_chainId", [])
        assert isinstance(error, requests.HTTPError) and error.response.status_code == 401, repr(error)
        assert error.response.json() == {"message": "No API key found in request"}

    with check("blocks by tag, number and hash"):
        newest = w3.eth.get_block("latest")
        assert w3.eth.get_block(newest.number, True).hash == newest.hash
        assert w3.eth.get_block(newest.hash).number == newest.number
        assert w3.eth.block_number > 0
        assert isinstance(failure(w3.eth.get_block, newest.number + 1_000_000), BlockNotFound)

    with check("account and fees"):
        assert w3.eth.get_balance(account.address) > 0 == w3.eth.get_balance(payee)
        assert w3.eth.get_code(EMPTY) == b"" and w3.eth.gas_price > 0
        history = w3.eth.fee_history(2, "latest", [20.0])
        assert len(history.baseFeePerGas) == len(history.gasUsedRatio) + 1

    with check("a batch"), w3.batch_requests() as batch:
        batch.add(w3.eth.get_block("latest"))
        batch.add(w3.eth.get_balance(account.address))
        batch.add(w3.eth.get_transaction_count(account.address))
        block, balance, nonce = batch.execute()
        assert block.number > 0 and balance > 0 and nonce >= 0

    with check("a batch of one"), w3.batch_requests() as batch:
        batch.add(w3.eth.get_balance(account.address))
        assert batch.execute()[0] > 0

    with check("ids beyond 2^53 are echoed digit for digit"):
        for first in (0, 2**53 + 1, 2**63 - 1, 2**64 + 1):
            big = Web3.HTTPProvider(chain["url"], request_kwargs={"headers": {"apikey": chain["key"]}})
            big.request_counter = itertools.count(first)
            assert big.make_request("eth_chainId", [])["id"] == first

    with check("an unknown method's error is the node's"):
        error = provider.make_request("eth_noSuchMethod", [])["error"]
        assert error["code"] == -32601, error
        if "direct" in chain:
            assert error == direct(chain, "eth_noSuchMethod", [])["error"]
        assert isinstance(failure(w3.manager.request_blocking, "eth_noSuchMethod", []), Web3RPCError)

    with check("debug, trace and control methods are closed"):
        if chain["name"] == "eth":
            error = failure(provider.make_request, "debug_traceTransaction", ["0x" + "00" * 32])
            assert error.response.status_code == 403, repr(error)
            assert error.response.json() == {"error": "debug methods not permitted"}
        else:
            error = provider.make_request("debug_traceTransaction", ["0x" + "00" * 32])["error"]
            assert error == {"code": -32601, "message": "method not available"}
        for method in ("trace_block", "admin_peers", "personal_listAccounts"):
            error = provider.make_request(method, ["latest"])["error"]
            assert error == {"code": -32601, "message": "method not available"}, method

    with check("a transaction signed here is mined"):
        before = w3.eth.get_transaction_count(account.address)
        signed, receipt = send(transaction(to=payee, value=4242))
        assert receipt.status == 1 and receipt.transactionHash == signed.hash
        assert w3.eth.get_balance(payee) == 4242
        assert w3.eth.get_transaction_count(account.address) == before + 1
        assert w3.eth.get_transaction(signed.hash)["value"] == 4242
        assert isinstance(failure(w3.eth.get_transaction_receipt, "0x" + "00" * 32), TransactionNotFound)

    with check("sending twice is harmless"):
        signed = account.sign_transaction(transaction(to=payee, value=1))
        w3.eth.send_raw_transaction(signed.raw_transaction)
        # The transaction is in the node's pool, or already in a block.
        error = failure(w3.eth.send_raw_transaction, signed.raw_transaction)
        assert isinstance(error, Web3RPCError), repr(error)
        message = error.rpc_response["error"]["message"]
        assert any(text in message for text in ("already known", "already imported", "nonce too low")), message
        assert w3.eth.wait_for_transaction_receipt(signed.hash).status == 1
        assert w3.eth.get_balance(payee) == 4243
        check.note(message)

    with check("sending it again gives the node's error"):
        again = [signed.raw_transaction.to_0x_hex()]
        error = provider.make_request("eth_sendRawTransaction", again)["error"]
        assert error["code"] < 0
        if "direct" in chain:
            assert error == direct(chain, "eth_sendRawTransaction", again)["error"]
        check.note(error["message"])

    topic = None
    if "direct" in chain:
        with check("a contract is deployed and its event seen in a receipt"):
            factory = w3.eth.contract(abi=CONTRACT["abi"], bytecode=CONTRACT["bytecode"])
            _, receipt = send(factory.constructor().build_transaction(transaction(gas=500_000)))
            deployed = w3.eth.contract(receipt.contractAddress, abi=CONTRACT["abi"])
            _, receipt = send(transaction(to=deployed.address))
            topic = w3.keccak(text="Ping()")
            assert receipt.logs[0].topics[0] == topic
        with check("a reverted call carries its reason"):
            error = failure(deployed.functions.refuse().call)
            assert isinstance(error, ContractLogicError) and "not today" in str(error), repr(error)
    else:
        deployed = w3.eth.contract(w3.to_checksum_address(chain["token"]), abi=TOKEN)
        with check("a contract is read and its event seen in a receipt"):
            assert "USD" in deployed.functions.symbol().call()
            _, receipt = send(deployed.functions.transfer(payee, 0).build_transaction(transaction()))
            topic = w3.keccak(text="Transfer(address,address,uint256)")
            assert receipt.logs[0].topics[0] == topic
        with check("a reverted call carries its reason"):
            error = failure(deployed.functions.transfer(payee, 1).call, {"from": EMPTY})
            assert isinstance(error, ContractLogicError) and "exceeds balance" in str(error), repr(error)

    with check("logs; on eth once a minute"):
        minute_with(20)
        span = {"address": deployed.address, "fromBlock": receipt.blockNumber, "toBlock": receipt.blockNumber,
                "topics": [topic]}
        assert receipt.transactionHash in [log.transactionHash for log in w3.eth.get_logs(span)]
        if chain["name"] == "eth":
            error = failure(w3.eth.get_logs, span)
            assert isinstance(error, requests.HTTPError) and error.response.status_code == 429, repr(error)
            assert error.response.json() == {"message": "Heavy method rate limit: 1/min for eth_getLogs"}
            check.note(f"429, Retry-After {error.response.headers['retry-after']}: {error}"[:200])
        else:
            assert w3.eth.get_logs(span)


run("web3", checks)
