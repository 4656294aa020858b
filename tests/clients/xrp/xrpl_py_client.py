"""xrpl-py 5. Its HTTP client has no option for headers, so the key is in the query."""

from check import failure, run
from xrpl.account import does_account_exist, get_balance, get_next_valid_seq_number
from xrpl.clients import JsonRpcClient
from xrpl.constants import CryptoAlgorithm
from xrpl.ledger import get_fee, get_latest_validated_ledger_sequence
from xrpl.models import AccountInfo, Ledger, Payment, ServerInfo, SubmitOnly, Tx
from xrpl.transaction import autofill_and_sign, submit_and_wait
from xrpl.wallet import Wallet

#: The phrase "masterpassphrase". A fresh ledger gives everything to its account.
SECRET = "snoPBrXtMeMyMHUVTgbuqAfg1SUTb"
EMPTY = "rrrrrrrrrrrrrrrrrrrrrhoLvTp"


def body(chain, check):
    client = JsonRpcClient(f"{chain['url']}?apikey={chain['key']}")
    payer = Wallet.from_seed(SECRET, algorithm=CryptoAlgorithm.SECP256K1)
    payee = Wallet.create()

    with check("no key is refused"):
        # It ignores the status, and fails because the body of the 401 has no result.
        error = failure(get_fee, JsonRpcClient(chain["url"]))
        assert isinstance(error, KeyError) and error.args == ("result",), repr(error)

    with check("the server and its validated ledger"):
        info = client.request(ServerInfo()).result["info"]
        assert info["server_state"] == "full", info
        low, high = map(int, info["complete_ledgers"].split("-"))
        assert low < info["validated_ledger"]["seq"] == high
        assert abs(get_latest_validated_ledger_sequence(client) - high) <= 3
        assert int(get_fee(client)) >= 10
        check.note(high)

    with check("ledgers link, and list transactions that are found"):
        ledger = client.request(Ledger(ledger_index="validated", transactions=True)).result["ledger"]
        parent = client.request(Ledger(ledger_hash=ledger["parent_hash"])).result["ledger"]
        assert parent["ledger_hash"] == ledger["parent_hash"]
        assert int(parent["ledger_index"]) + 1 == int(ledger["ledger_index"])
        found = client.request(Tx(transaction=ledger["transactions"][0])).result
        assert found["validated"] and found["ledger_hash"] == ledger["ledger_hash"], found

    with check("a pruned ledger, and an account and a transaction that do not exist"):
        for request, error in [
            (Ledger(ledger_index=5), "lgrNotFound"),
            (AccountInfo(account=EMPTY), "actNotFound"),
            (Tx(transaction="0" * 64), "txnNotFound"),
        ]:
            answer = client.request(request)
            assert not answer.is_successful() and answer.result["error"] == error, answer
        assert not does_account_exist(payee.address, client)

    with check("a payment is validated and paid out"):
        before = get_balance(payer.address, client)
        payment = Payment(account=payer.address, destination=payee.address, amount="30000000")
        done = submit_and_wait(payment, client, payer).result
        assert done["validated"] and done["meta"]["TransactionResult"] == "tesSUCCESS", done
        assert done["meta"]["delivered_amount"] == "30000000"
        assert get_balance(payee.address, client) == 30_000_000
        assert before - get_balance(payer.address, client) == 30_000_000 + int(done["tx_json"]["Fee"])
        check.note(done["hash"])

    with check("the payee can pay, with a key of another curve"):
        assert get_next_valid_seq_number(payee.address, client) > 1
        payment = Payment(account=payee.address, destination=payer.address, amount="1000000")
        assert submit_and_wait(payment, client, payee).result["validated"]

    with check("a sequence number that is used"):
        payment = Payment(account=payer.address, destination=payee.address, amount="1", sequence=1)
        signed = autofill_and_sign(payment, client, payer)
        answer = client.request(SubmitOnly(tx_blob=signed.blob())).result
        assert answer["engine_result"] == "tefPAST_SEQ", answer

    with check("bytes that are not a transaction"):
        answer = client.request(SubmitOnly(tx_blob="1200002200"))
        assert answer.result["error"] == "invalidTransaction", answer

    with check("more than the balance"):
        payment = Payment(account=payee.address, destination=payer.address, amount="900000000")
        error = failure(submit_and_wait, payment, client, payee)
        assert "tecUNFUNDED_PAYMENT" in str(error), error


run("xrpl-py", body)
