"""Load, and its expected records."""

import asyncio
import json
import random
import time
import uuid

from .client import Client, timed
from .gateway import chains
from .node import Node


# Compute Units by method.
ON_EVM = {
    0: "eth_chainId net_version net_listening web3_clientVersion",
    1: "eth_blockNumber eth_gasPrice eth_maxPriorityFeePerGas",
    5: "eth_feeHistory eth_getBalance eth_getTransactionCount eth_getTransactionByHash eth_getTransactionReceipt",
    10: "eth_getBlockByNumber eth_getBlockByHash eth_getCode eth_getStorageAt",
    15: "eth_call eth_estimateGas",
    20: "eth_sendRawTransaction",
    75: "eth_getLogs",
}
ON_BTC = {
    1: "getblockcount getbestblockhash getblockhash getblockchaininfo getnetworkinfo estimatesmartfee",
    5: "getmempoolinfo gettxout",
    10: "getblock getrawtransaction",
    20: "sendrawtransaction",
}
ON_LTC_AND_DASH = {1: "getblockcount getbestblockhash getblockchaininfo getnetworkinfo gettxout", 10: "getblock getrawtransaction", 20: "sendrawtransaction"}
ON_BCH_AND_LIQUID = {1: "getblockcount getbestblockhash getblockhash getblock getrawtransaction sendrawtransaction getmempoolinfo gettxout"}
WEIGHTS = {
    chain: {method: cu for cu, methods in table.items() for method in methods.split()}
    for table, chains in (
        (ON_EVM, "eth bsc polygon avax"),
        (ON_BTC, "btc"),
        (ON_LTC_AND_DASH, "ltc dash"),
        (ON_BCH_AND_LIQUID, "bch doge liquid"),
    )
    for chain in chains.split()
}
WEIGHTS["eth"]["eth_sendTransaction"] = 20


def weight(chain, method):
    return WEIGHTS[chain].get(method, 1)


def part(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def load(gateway, seconds, rate=300, connections=64, chain="eth"):
    """Sends `rate` mixed calls a second on schedule. Returns their latencies in seconds."""
    clients = asyncio.Queue()
    for _ in range(connections):
        clients.put_nowait(Client(gateway, chain=chain))
    latencies, failed = [], 0

    async def one(number):
        nonlocal failed
        client = await clients.get()
        kinds = [("eth_getBalance", [number]), ("eth_chainId", []), ("eth_call", [number % 50])]
        try:
            if number % 4 == 3:
                (_, _, answer), took = await timed(client.batch(kinds))
                failed += any("error" in item for item in answer)
            else:
                (_, _, answer), took = await timed(client.call(*kinds[number % 4]))
                failed += "error" in answer
            latencies.append(took)
        finally:
            clients.put_nowait(client)

    start, tasks = time.perf_counter(), []
    for number in range(int(rate * seconds)):
        await asyncio.sleep(max(0.0, start + number / rate - time.perf_counter()))
        tasks.append(asyncio.create_task(one(number)))
    await asyncio.gather(*tasks)
    while not clients.empty():
        clients.get_nowait().close()
    return latencies, failed


def is_refused(method):
    return method in ("admin_peers", "stop")


class Oracle:
    """Requests of clients and their answers."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.answered, self.unanswered, self.number = {}, [], 1_000
        self.took, self.wrong = [], []

    def request(self):
        """Returns chain, body and expected record: method, Compute Units and outcome of each call."""
        chain = self.dice.choice(["eth", "eth", "eth", "bsc", "btc"])
        evm = "eth_getBalance eth_getBalance eth_call eth_call eth_chainId eth_sendRawTransaction broken_call unheard_of admin_peers"
        utxo = "getblock getrawtransaction getblockcount broken_call unheard_of stop"
        pool = (utxo if chain == "btc" else evm).split()
        methods = [self.dice.choice(pool) for _ in range(self.dice.choice([1, 1, 1, 2, 5, 20]))]
        items, wanted = [], []
        for method in methods:
            self.number += 1
            params = [] if method in ("eth_chainId", "getblockcount") else [self.number % 20 if method == "eth_call" else self.number]
            items.append({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
            if is_refused(method):
                wanted.append((method, 0, "refused"))
            else:
                wanted.append((method, weight(chain, method), "node error" if method == "broken_call" else "answered"))
        return chain, json.dumps(items[0] if len(items) == 1 else items).encode(), wanted

    async def send(self, client):
        chain, body, wanted = self.request()
        try:
            (status, headers, answer), took = await timed(client.post(body, chain))
        except ConnectionRefusedError:
            return False  # nothing was sent
        except (ConnectionError, asyncio.IncompleteReadError):
            self.unanswered.append((chain, wanted))
            client.close()
            return False
        self.took.append(took)
        if int(headers.get("x-compute-units", -1)) == sum(cu for _, cu, _ in wanted):
            self.answered[uuid.UUID(headers["x-request-id"])] = (chain, wanted)
        else:
            self.wrong.append((body[:200], status, headers, answer[:200]))
        return True

    async def load(self, gateway, rate=300, connections=64, over=None):
        """Sends `rate` requests a second on schedule, until one is not answered or the time is up."""
        clients, alive, tasks = asyncio.Queue(), True, set()
        for _ in range(connections):
            clients.put_nowait(Client(gateway))

        async def one(client):
            nonlocal alive
            alive = await self.send(client) and alive
            clients.put_nowait(client)

        start, number = time.perf_counter(), 0
        while alive and not (over and over.is_set()):
            task = asyncio.create_task(one(await clients.get()))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            number += 1
            await asyncio.sleep(max(0.0, start + number / rate - time.perf_counter()))
        await asyncio.gather(*tasks)
        while not clients.empty():
            clients.get_nowait().close()

    def charged(self):
        """Returns the Compute Units of all answered calls."""
        return sum(cu for _, wanted in self.answered.values() for _, cu, _ in wanted)

    def compare(self, run, promise, recorded):
        """Compares with the records: missing answers, requests recorded twice, and requests without an answer."""
        run.must(promise, not self.wrong, f"{len(self.wrong)} of {len(self.took):,} answers differ from the expected ones: {self.wrong[:2]}")
        by_id, twice, wrong = {}, 0, 0
        for event in recorded:
            twice += event.request in by_id
            by_id[event.request] = event
        missing = 0
        for request, (chain, wanted) in self.answered.items():
            event = by_id.pop(request, None)
            if all(outcome == "refused" for _, _, outcome in wanted):
                continue
            if event is None:
                missing += 1
            else:
                wrong += (event.chain, [(line.method, line.cu, line.outcome) for line in event.lines]) != (chain, wanted)
        left = [event for event in by_id.values() if any(line.outcome != "refused" for line in event.lines)]
        in_flight, unsent = list(self.unanswered), []
        for event in left:
            found = (event.chain, [(line.method, line.cu, line.outcome) for line in event.lines])
            if found in in_flight:
                in_flight.remove(found)
            else:
                unsent.append(event)
        run.must(promise, not unsent, f"{len(unsent)} requests are billed but were never sent: {unsent[:3]}")
        run.say(promise, f"of {len(self.answered):,} answers are not billed", missing, 0, "")
        run.say(promise, "requests are billed differently from their answers", wrong, 0, "")
        run.say(promise, "requests are billed twice", twice, 0, "")
        run.say(promise, "requests are billed without an answer, of those in flight at the kill", len(left), len(self.unanswered), "")


def mixed():
    """Returns nodes for an oracle's load, and the configuration of their chains."""
    nodes = [Node() for _ in range(3)] + [Node(), Node(utxo=True)]
    for node in nodes:
        node.errors["broken_call"] = {"code": -5, "message": "no"}
    return nodes, lambda: chains(eth=(nodes[:3], ""), bsc=([nodes[3]], ""), btc=([nodes[4]], ""))
