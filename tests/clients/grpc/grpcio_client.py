"""grpcio with the messages of the file that the demo writes for command line clients. The key is in the metadata."""

import concurrent.futures
import json
import urllib.parse
import urllib.request

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

from check import failure, run

#: By chain: a read, a member of its answer, and a call that the node refuses.
CHAINS = {
    "tron": ("protocol.Wallet/GetNowBlock", {}, "blockHeader", "protocol.Wallet/GetBlock", {"idOrNum": "x"}),
    "cosmos": (
        "cosmos.bank.v1beta1.Query/SupplyOf", {"denom": "uatom"}, "amount",
        "cosmos.base.tendermint.v1beta1.Service/GetBlockByHeight", {"height": "99999999999"},
    ),
}


def methods(path):
    """Returns the methods of a file of descriptors: by path, the classes of request and answer."""
    with open(path, "rb") as file:
        files = descriptor_pb2.FileDescriptorSet.FromString(file.read()).file
    pool = descriptor_pool.DescriptorPool()
    for one in files:
        pool.Add(one)
    found = {}
    for one in files:
        for service in pool.FindFileByName(one.name).services_by_name.values():
            for method in service.methods:
                classes = (message_factory.GetMessageClass(kind) for kind in (method.input_type, method.output_type))
                found[f"{service.full_name}/{method.name}"] = tuple(classes)
    return found, pool


def checks(chain, check):
    known, pool = methods(chain["protoset"])
    read, request, member, refused, wrong = CHAINS[chain["name"]]
    with open(chain["grpc_ca"], "rb") as file:
        trust = grpc.ssl_channel_credentials(root_certificates=file.read())
    target = urllib.parse.urlsplit(chain["grpc"]).netloc
    channel = grpc.secure_channel(target, trust)
    key = (("apikey", chain["key"]),)

    def call(method, request, metadata=key, timeout=30):
        asked, answered = known[method]
        serve = channel.unary_unary(f"/{method}", asked.SerializeToString, answered.FromString)
        message = json_format.ParseDict(request, asked())
        answer = serve(message, metadata=metadata, timeout=timeout)
        return json_format.MessageToDict(answer, descriptor_pool=pool)

    def code(*args, **named):
        error = failure(call, *args, **named)
        assert isinstance(error, grpc.RpcError), error
        return error.code()

    with check("no key and a wrong key are UNAUTHENTICATED"):
        assert code(read, request, metadata=()) == grpc.StatusCode.UNAUTHENTICATED
        assert code(read, request, metadata=(("apikey", "rpcg_wrong"),)) == grpc.StatusCode.UNAUTHENTICATED

    with check("a read"):
        answer = call(read, request)
        assert answer[member], answer

    with check("every call without parameters that the file describes"):
        asked = [method for method, (kind, _) in known.items() if not kind.DESCRIPTOR.fields]
        assert len(asked) > 5
        for method in asked:
            call(method, {})
        check.note(f"{len(asked)} calls")

    with check("a transaction that a block lists"):
        if chain["name"] == "tron":
            numbers = range(int(answer["blockHeader"]["rawData"]["number"]), 0, -1)
            blocks = (call("protocol.Wallet/GetBlockByNum2", {"num": number}) for number in numbers)
            block = next(block for block in blocks if block.get("transactions"))
            listed = block["transactions"][0]
            found = call("protocol.Wallet/GetTransactionById", {"value": listed["txid"]})
            assert found == listed["transaction"], (found, listed)
            info = call("protocol.Wallet/GetTransactionInfoById", {"value": listed["txid"]})
            assert info["blockNumber"] == block["blockHeader"]["rawData"]["number"], info
        else:
            latest = call("cosmos.base.tendermint.v1beta1.Service/GetLatestBlock", {})
            height = int(latest["block"]["header"]["height"])
            search = "cosmos.tx.v1beta1.Service/GetTxsEvent"
            pages = (call(search, {"query": f"tx.height={one}"}) for one in range(height, 0, -1))
            listed = next(page for page in pages if page.get("txs"))
            name = listed["txResponses"][0]["txhash"]
            found = call("cosmos.tx.v1beta1.Service/GetTx", {"hash": name})
            assert found["tx"] == listed["txs"][0], (found, listed)
            request_over_http = urllib.request.Request(
                f"{chain['url']}/cosmos/tx/v1beta1/txs/{name}", headers={"apikey": chain["key"]}
            )
            with urllib.request.urlopen(request_over_http, timeout=60) as over_http:
                shown = json.load(over_http)["tx_response"]
            assert shown["gas_used"] == found["txResponse"]["gasUsed"], (shown, found)

    with check("a node's INVALID_ARGUMENT"):
        assert code(refused, wrong) == grpc.StatusCode.INVALID_ARGUMENT

    with check("unknown methods and packages are UNIMPLEMENTED"):
        raw = (lambda message: message), (lambda message: message)
        for path in (f"/{read}Not", "/nowhere.v1.Nothing/One"):
            error = failure(channel.unary_unary(path, *raw), b"", metadata=key, timeout=30)
            assert error.code() == grpc.StatusCode.UNIMPLEMENTED, (path, error)
            error = failure(lambda: list(channel.unary_stream(path, *raw)(b"", metadata=key, timeout=30)))
            assert error.code() == grpc.StatusCode.UNIMPLEMENTED, (path, error)

    with check("50 calls at a time on one connection"):
        with concurrent.futures.ThreadPoolExecutor(50) as workers:
            answers = list(workers.map(lambda _: call(read, request), range(50)))
        assert all(answer[member] for answer in answers)

    with check("deadlines"):
        assert code(read, request, timeout=-1) == grpc.StatusCode.DEADLINE_EXCEEDED
        assert call(read, request, timeout=30)[member]


run("grpcio", checks)
