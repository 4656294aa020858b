"""aptos-sdk, the Python SDK of Aptos. Its configuration has no option for headers, so the script sets the key in the
headers of its HTTP client."""

import asyncio
import json

from aptos_sdk.account import Account
from aptos_sdk.async_client import AccountNotFound, ApiError, ClientConfig, RestClient
from aptos_sdk.bcs import Serializer
from aptos_sdk.transactions import EntryFunction, TransactionArgument, TransactionPayload

from check import run

#: The secret key of an account that the simulated node funds.
SECRET = "0x" + "01" * 32
COIN = "0x1::aptos_coin::AptosCoin"


async def failure(call):
    """Returns the error of a call that must fail: its status and the node's answer."""
    try:
        result = await call
    except ApiError as error:
        # Some calls add the requested address.
        return error.status_code, json.JSONDecoder().raw_decode(str(error))[0]
    raise AssertionError(f"succeeded with {result!r}")


async def checks(chain, check):
    def client(key=True, **config):
        one = RestClient(f"{chain['url']}/v1", ClientConfig(**config))
        if key:
            one.client.headers["apikey"] = chain["key"]
        return one

    aptos = client()
    owner, payee = Account.load_key(SECRET), Account.generate()
    address = owner.address()

    with check("no key is a 401"):
        status, answer = await failure(client(key=False).info())
        assert status == 401 and answer["message"], answer

    with check("the ledger and its blocks"):
        ledger = await aptos.info()
        assert await aptos.chain_id() == ledger["chain_id"] == 1
        height = int(ledger["block_height"]) - 1
        block = await aptos.blocks_by_height(height, with_transactions=True)
        assert int(block["block_height"]) == height
        first = block["transactions"][0]
        assert first["type"] == "block_metadata_transaction", first
        version = int(first["version"])
        assert version == int(block["first_version"])
        assert await aptos.transaction_by_version(version) == first
        assert await aptos.transaction_by_hash(first["hash"]) == first
        assert (await aptos.blocks_by_version(version))["block_hash"] == block["block_hash"]
        found = await aptos.transactions(limit=3, start=version)
        assert [int(one["version"]) for one in found] == [version, version + 1, version + 2], found
        assert abs(await aptos.current_timestamp() - int(block["block_timestamp"]) / 1e6) < 60

    with check("an account, its resources and views of it"):
        assert (await aptos.account(address))["authentication_key"] == str(address)
        resource = await aptos.account_resource(address, "0x1::account::Account")
        assert resource in await aptos.account_resources(address)
        assert int(resource["data"]["sequence_number"]) == await aptos.account_sequence_number(address)
        balance = await aptos.account_balance(address)
        viewed = await aptos.view("0x1::coin::balance", [COIN], [str(address)])
        assert json.loads(viewed) == [str(balance)] and balance > 0, viewed

    with check("missing objects"):
        status, answer = await failure(aptos.transaction_by_hash("0x" + "12" * 32))
        assert (status, answer["error_code"]) == (404, "transaction_not_found"), answer
        status, answer = await failure(aptos.account(payee.address()))
        assert (status, answer["error_code"]) == (404, "account_not_found"), answer
        # The client treats this 404 as an account that has sent nothing.
        assert await aptos.account_sequence_number(payee.address()) == 0
        status, answer = await failure(aptos.blocks_by_height(1))
        assert (status, answer["error_code"]) == (410, "block_pruned"), answer
        try:
            await aptos.account_resources(payee.address())
        except AccountNotFound:
            pass
        else:
            raise AssertionError("resources of a missing account")

    with check("a transfer, simulated, sent and found"):
        before, sequence = await aptos.account_balance(address), await aptos.account_sequence_number(address)
        arguments = [
            TransactionArgument(payee.address(), Serializer.struct),
            TransactionArgument(777, Serializer.u64),
        ]
        function = EntryFunction.natural("0x1::aptos_account", "transfer", [], arguments)
        unsigned = await aptos.create_bcs_transaction(owner, TransactionPayload(function))
        [simulated] = await aptos.simulate_transaction(unsigned, owner)
        assert simulated["success"] and simulated["vm_status"] == "Executed successfully", simulated
        name = await aptos.bcs_transfer(owner, payee.address(), 777)
        await aptos.wait_for_transaction(name)
        done = await aptos.transaction_by_hash(name)
        assert done["gas_used"] == simulated["gas_used"], done
        assert await aptos.transaction_by_version(int(done["version"])) == done
        fee = int(done["gas_used"]) * int(done["gas_unit_price"])
        assert await aptos.account_balance(payee.address()) == 777
        assert await aptos.account_balance(address) == before - 777 - fee
        assert await aptos.account_transaction_sequence_number_status(address, sequence)
        [sent] = await aptos.transactions_by_account(address, limit=1, start=sequence)
        assert sent == done, sent
        check.note(name)

    with check("a transfer of a coin"):
        name = await aptos.transfer_coins(owner, payee.address(), COIN, 5)
        await aptos.wait_for_transaction(name)
        assert (await aptos.transaction_by_hash(name))["payload"]["function"] == "0x1::aptos_account::transfer_coins"
        assert await aptos.account_balance(payee.address()) == 782

    with check("transactions that are refused"):
        status, answer = await failure(client(gas_unit_price=1).bcs_transfer(owner, payee.address(), 5))
        assert (status, answer["error_code"], answer["vm_error_code"]) == (400, "vm_error", 16), answer
        status, answer = await failure(aptos.bcs_transfer(owner, payee.address(), 5, sequence_number=0))
        assert (status, answer["error_code"], answer["vm_error_code"]) == (400, "vm_error", 3), answer


run("aptos-sdk", lambda chain, check: asyncio.run(checks(chain, check)))
