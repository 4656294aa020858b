"""python-bitcoinrpc 1.0. It has no option for headers, so its connection carries the key."""

import decimal

from bitcoinrpc.authproxy import AuthServiceProxy, JSONRPCException

from check import KeyConnection, failure, run
from flow import NONE, code, errors, reads, send


def checks(chain, check):
    # For its log it rounds every number to 8 decimals, and fails if the result has more digits than the context allows,
    # as the hashes per second of a main network do.
    decimal.getcontext().prec = 60
    connection = KeyConnection(chain)
    # It always sends a user and a password; they are not the node's and must not reach it.
    url = chain["url"].replace("//", "//someone:else@")
    proxy = AuthServiceProxy(url, connection=connection)

    def call(method, *params):
        return getattr(proxy, method)(*params)

    reads(chain, check, call, connection)

    with check("a batch"):
        height = call("getblockcount")
        name, info, output = proxy.batch_([["getblockhash", height], ["getblockchaininfo"], ["gettxout", NONE, 0]])
        assert len(name) == 64 and info["blocks"] >= height and output is None

    with check("an error in a batch"):
        error = failure(proxy.batch_, [["getblockcount"], ["getblockhash", 999_999_999]])
        assert isinstance(error, JSONRPCException) and code(error) == -8 and connection.status == 200

    with check("no key is a 401"):
        bare = KeyConnection(chain, key=False)
        error = failure(AuthServiceProxy(url, connection=bare).getblockcount)
        assert isinstance(error, JSONRPCException) and bare.status == 401, repr(error)
        check.note(repr(error))

    errors(chain, check, call, connection)
    if chain["name"] != "liquid":
        send(chain, check, call, connection, 2)


run("python-bitcoinrpc", checks)
