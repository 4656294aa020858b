"""xrpl-py 5 over its WebsocketClient, with the key in the query."""

from check import run
from xrpl.clients import WebsocketClient
from xrpl.models import ServerInfo, StreamParameter, Subscribe, Unsubscribe


def body(chain, check):
    with WebsocketClient(f"{chain['ws']}?apikey={chain['key']}") as client:
        with check("the server"):
            assert client.request(ServerInfo()).result["info"]["server_state"] == "full"

        with check("closed ledgers are told one after another"):
            client.send(Subscribe(streams=[StreamParameter.LEDGER]))
            indices = []
            for message in client:
                if message.get("type") == "ledgerClosed":
                    indices.append(message["ledger_index"])
                if len(indices) == 3:
                    break
            client.send(Unsubscribe(streams=[StreamParameter.LEDGER]))
            assert indices == list(range(indices[0], indices[0] + 3)), indices
            check.note(indices)


run("xrpl-py", body)
