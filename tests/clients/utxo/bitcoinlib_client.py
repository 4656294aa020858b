"""python-bitcoinlib 0.12: its proxy, and its readers of blocks and transactions."""

from bitcoin.core import CBlock, b2lx, lx
from bitcoin.rpc import JSONRPCError, Proxy, RawProxy

from check import KeyConnection, failure, run
from flow import NONE, errors, reads, send


def checks(chain, check):
    connection = KeyConnection(chain)
    url = chain["url"].replace("//", "//someone:else@")
    raw = RawProxy(url, connection=connection)
    typed = Proxy(url, connection=connection)

    def call(method, *params):
        return getattr(raw, method)(*params)

    reads(chain, check, call, connection)

    with check("a batch"):
        calls = [{"version": "1.1", "method": "getblockcount", "params": [], "id": 7},
                 {"version": "1.1", "method": "getblockhash", "params": [999_999_999], "id": "8"},
                 {"version": "1.1", "method": "getblockcount", "params": [], "id": None}]
        answers = {answer["id"]: answer for answer in raw._batch(calls)}
        assert answers[7]["error"] is None and answers[7]["result"] == answers[None]["result"]
        assert answers["8"]["result"] is None and answers["8"]["error"]["code"] == -8

    with check("typed calls"):
        height = typed.getblockcount()
        name = typed.getblockhash(height - 1)
        assert len(name) == 32
        # Dogecoin and Liquid have their own block headers, Dash its own transactions.
        if chain["name"] not in ("doge", "dash", "liquid"):
            block = typed.getblock(name)
            assert isinstance(block, CBlock) and block.GetHash() == name
            assert b2lx(block.calc_merkle_root()) == call("getblock", b2lx(name))["merkleroot"]
            tx = typed.getrawtransaction(block.vtx[0].GetTxid())
            assert tx.GetTxid() == block.vtx[0].GetTxid()
        assert isinstance(failure(typed.getblockhash, 999_999_999), IndexError)
        assert isinstance(failure(typed.getrawtransaction, lx(NONE)), IndexError)

    with check("no key is a 401"):
        bare = KeyConnection(chain, key=False)
        error = failure(RawProxy(url, connection=bare).getblockcount)
        assert isinstance(error, JSONRPCError) and bare.status == 401, repr(error)
        check.note(repr(error))

    errors(chain, check, call, connection)
    if chain["name"] != "liquid":
        send(chain, check, call, connection, 3)


run("python-bitcoinlib", checks)
