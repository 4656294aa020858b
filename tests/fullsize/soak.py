"""Two gateways behind a balancer under mixed load for hours, with faults around them."""

import asyncio
import collections
import json
import pathlib
import random
import subprocess
import time
import uuid

from .client import KEYS, PASSWORD, Client, Owner
from .cluster import Cluster, ask, started
from .drained import subscribed
from .fault_table import FaultTable
from .gateway import SECRET
from .h2 import ANSWER, GrpcClient, GrpcNode
from .ledger import Ledger
from .oracle import Oracle, mixed, part
from .servers import Haproxy
from .websocket import Refused, StreamNode

CONNECTIONS, STREAMS, GRPC = 64, 20, 4
# The seconds for which a fault lasts, and after which the service must be healthy again.
FAULT, PATIENCE = 5.0, 60.0
# The growth of a gateway that is allowed: MiB of memory in ten minutes, and file handles over the whole time. The last
# limit is for the minimum of handles and threads, which connections that come and go do not affect.
SLOPE, HANDLES, FEWEST = 1.0, 64, 4
# The units by which operators change the weight of eth_call (Faults.settings_are_rolled_back).
DEARER = 2
# A slow read may be sent to a second node, and every read is in the end.
SILENT = 'next_node_after = "2s"\n'
HEDGE = "[chains.eth.hedge]\nenabled = true\nmax_percent = 50\n"
OPERATOR = "operator@example.com"


class MixedLoad(Oracle):
    """HTTP calls, single and in batches. The identifier, the charged units and the fault at the time of each answer are
    recorded."""

    def __init__(self, seed, faults):
        super().__init__(seed)
        self.faults, self.charged_by_id, self.took_for = faults, {}, []
        self.lost, self.sent, self.cut_off = collections.Counter(), 0, 0
        self.differing = []

    async def send(self, client):
        chain, body, wanted = self.request()
        self.sent += 1
        begun = time.perf_counter()
        table = self.faults.table
        try:
            status, headers, answer = await client.post(body, chain)
        except (ConnectionError, asyncio.IncompleteReadError) as why:
            client.close()
            if isinstance(why, ConnectionRefusedError):
                self.sent -= 1
            else:
                self.cut_off += 1
                self.lost["no answer", self.faults.of(begun)] += 1
                table.count(self.faults.of(begun), "calls")
                table.count(self.faults.of(begun), "lost")
            return False
        took = time.perf_counter() - begun
        fault = self.faults.of(begun)
        table.count(fault, "calls")
        if not fault:
            self.took_for.append(took)
        if "x-compute-units" in headers:
            self.charged_by_id[uuid.UUID(headers["x-request-id"]).bytes] = int(headers["x-compute-units"]), fault
        if status == 200 and b"-32603" not in answer:
            if why := difference(body, headers, answer, wanted):
                table.count(fault, "wrong")
                self.differing.append((why, body[:200], headers, answer[:200]))
        else:
            # An answer of the balancer: the gateway may have forwarded the call.
            self.cut_off += "x-request-id" not in headers
            self.lost[f"status {status}" if status != 200 else f"a node failed, {failed_methods(body, answer)}", fault] += 1
            table.count(fault, "lost")
        return True

    async def keep_on(self, balancer, rate, over):
        """Restarts the load when a connection was cut."""
        while not over.is_set():
            await self.load(balancer, rate, CONNECTIONS, over)
            await asyncio.sleep(0.1)


def failed_methods(body, answer):
    """Returns the methods that were answered with an internal error."""
    asked, got = (value if isinstance(value, list) else [value] for value in (json.loads(body), json.loads(answer)))
    methods = {call["id"]: call["method"] for call in asked}
    failed = {methods.get(item.get("id")) for item in got if item.get("error", {}).get("code") == -32603}
    return " and ".join(sorted(map(str, failed)))


def difference(body, headers, answer, wanted):
    """Returns the fault of an answer: another identifier than its call's, or units that its calls do not cost."""
    try:
        asked, got = json.loads(body), json.loads(answer)
    except ValueError:
        return "no JSON"
    asked, got = (value if isinstance(value, list) else [value] for value in (asked, got))
    if sorted(call["id"] for call in asked) != sorted(item.get("id") or 0 for item in got):
        return "identifiers"
    least = sum(units for _, units, _ in wanted)
    most = least + DEARER * sum(method == "eth_call" for method, _, _ in wanted)
    units = int(headers.get("x-compute-units", -1))
    return "" if least <= units <= most else f"{units} units, and not {least} to {most}"


class Faults:
    """Causes faults, one after another, and records those that the service survived."""

    def __init__(self, cluster, nodes, dice):
        self.cluster, self.nodes, self.dice = cluster, nodes, dice
        self.now, self.ended = "", 0.0
        self.table, self.failed = FaultTable(), collections.Counter()
        self.operator = Owner(cluster.admin)

    def of(self, begun):
        """Returns the fault since the start of a request, or just before it."""
        return self.now if self.now or begun > self.ended + 2.0 else "the end of a fault"

    async def a_node_is_gone(self):
        node = self.dice.choice(self.nodes)
        node.server.close()
        node.mode = "closed"
        await asyncio.sleep(FAULT)
        node.server = await asyncio.start_server(node.serve, "127.0.0.1", node.port, backlog=4096)
        node.mode = "pass"

    async def a_node_is_sick(self):
        node = self.dice.choice(self.nodes)
        node.mode = self.dice.choice(["cut head", "cut body", "reset", "bad length", "garbage body", "html 502", "429", "hang"])
        await asyncio.sleep(FAULT)
        node.mode = "pass"

    async def redis_is_restarted(self):
        await asyncio.to_thread(self.cluster.redis.stop)
        await asyncio.sleep(FAULT)
        await asyncio.to_thread(self.cluster.redis.start)

    async def postgresql_is_restarted(self):
        await asyncio.to_thread(self.cluster.postgresql.stop)
        await asyncio.sleep(FAULT)
        await asyncio.to_thread(self.cluster.postgresql.start)

    async def postgresql_is_frozen(self):
        self.cluster.postgresql.freeze()
        await asyncio.sleep(FAULT)
        self.cluster.postgresql.thaw()

    async def a_gateway_is_killed(self):
        gateway = self.cluster.gateways[-1]
        gateway.kill()
        await asyncio.sleep(1.0)
        await gateway.launch(gateway.program, gateway.text())

    async def a_gateway_is_drained(self):
        gateway = self.cluster.gateways[-1]
        await gateway.stop()
        await gateway.launch(gateway.program, gateway.text())

    async def configurations_are_reloaded(self):
        for gateway in self.cluster.gateways:
            text = gateway.text()
            assert await gateway.reload(text.replace('[chains.bsc]\n', '[chains.bsc]\ntimeout = "20s"\n'))
            assert not await gateway.reload(text + "\n[nonsense]\n"), "a bad file is refused"
            assert await gateway.reload(text)

    async def settings_are_rolled_back(self):
        """Sets a weight as an operator, checks that it is charged, and takes it back with the command line."""
        _, _, answer = await self.operator.login(OPERATOR, PASSWORD)
        self.operator.token = json.loads(answer)["token"]
        for cu in (16, 17):
            status, answer = await self.operator.ask("PUT", "operator/cu-weights/eth/eth_call", {"cu": cu})
            assert status == 200, (status, answer)
        before = json.loads((await self.command("config", "history", "--of", "settings", "--limit", "2", "--json")).splitlines()[1])
        await self.command("config", "rollback", str(before["number"]), "--yes")
        await asyncio.sleep(1.0)
        _, answer = await self.operator.ask("GET", "operator/cu-weights/eth/eth_call")
        assert answer["cu"] == 16, answer

    async def command(self, *words):
        admin = self.cluster.admin
        program = pathlib.Path(admin.program).with_name("rpcgate-admin")
        words = [program, *words, "--config", admin.folder / "rpcgate.toml"]
        done = await asyncio.to_thread(subprocess.run, words, capture_output=True, check=True, cwd=admin.folder)
        return done.stdout.decode()

    async def run_until(self, over, samples, pause):
        """Causes each kind once, in a random order, and repeats until the time is up."""
        kinds = [
            self.a_node_is_gone, self.a_node_is_sick, self.redis_is_restarted, self.postgresql_is_restarted, self.postgresql_is_frozen,
            self.a_gateway_is_killed, self.a_gateway_is_drained, self.configurations_are_reloaded, self.settings_are_rolled_back,
        ]  # fmt: skip
        while not over.is_set():
            for kind in self.dice.sample(kinds, len(kinds)):
                name = kind.__name__.replace("_", " ")
                self.now, before = name, samples.now()
                try:
                    await kind()
                    await self.until_well()
                    self.table.survived(name, before, samples.now())
                except Exception as why:
                    self.failed[f"{name}: {type(why).__name__}: {str(why)[:300]}"] += 1
                self.now, self.ended = "", time.perf_counter()
                try:
                    await asyncio.wait_for(over.wait(), pause)
                    return
                except asyncio.TimeoutError:
                    pass

    async def until_well(self):
        """Waits until every gateway is ready and counts with the other, and a call succeeds at each."""
        since = time.perf_counter()
        for gateway in self.cluster.gateways:
            while not await gateway.ready():
                if time.perf_counter() > since + PATIENCE:
                    raise TimeoutError("a gateway is not ready")
                await asyncio.sleep(0.05)
            await gateway.until_together()
            client, answer = Client(gateway, "two"), {}
            while "result" not in answer:
                if time.perf_counter() > since + PATIENCE:
                    raise TimeoutError(f"no call succeeds: {answer}")
                # A new parameter each time, so that no cache answers.
                _, _, answer = await ask(client, "eth_getBalance", [client.id])
                await asyncio.sleep(0.05)
            client.close()


class Streams:
    """Streams and gRPC calls at each gateway, which restart when they end."""

    def __init__(self, cluster, faults):
        self.cluster, self.faults = cluster, faults
        self.calls, self.messages = 0, 0

    async def watch(self, gateway, over):
        while not over.is_set():
            began = time.perf_counter()
            try:
                stream = await subscribed(gateway.port)
            except (Refused, OSError):
                await asyncio.sleep(0.2)
                continue
            number = 1
            while not over.is_set() and await stream.next() is not None:
                self.messages += 1
                number += 1
                if number % 10 == 0:
                    stream.call(number, "eth_getBalance", hex(number))
                began = time.perf_counter()
            if over.is_set():
                stream.close()
                return
            self.faults.table.count(self.faults.of(began), "streams cut")

    async def ask(self, gateway, over):
        client = GrpcClient(gateway.port, KEYS["two"])
        while not over.is_set():
            began = time.perf_counter()
            try:
                status, _ = await asyncio.wait_for(client.ask(ANSWER, b"ask"), 60)
            except (OSError, asyncio.TimeoutError):
                status = -1
                client.link = None
            self.calls += 1
            if status != 0:
                self.faults.table.count(self.faults.of(began), "gRPC failed")
            await asyncio.sleep(0.2)
        client.close()


class Samples:
    """Memory, file handles and threads of a process that is never restarted."""

    def __init__(self, gateway):
        self.gateway, self.taken = gateway, []

    def now(self):
        """Returns memory in MiB, file handles and threads."""
        process = pathlib.Path(f"/proc/{self.gateway.process.pid}")
        handles, tasks = (len(list((process / name).iterdir())) for name in ("fd", "task"))
        return float(self.gateway.rss()), handles, tasks

    async def take(self, over, every):
        while not over.is_set():
            self.taken.append((time.perf_counter(), *self.now()))
            await asyncio.sleep(every)

    def later(self):
        """Returns the samples of the last two thirds, in which caches and pools are full."""
        return self.taken[len(self.taken) // 3 :]

    def slope(self, column):
        """Returns the growth in ten minutes, by a least squares fit."""
        points = [(row[0], row[column]) for row in self.later()]
        at, value = (sum(values) / len(points) for values in zip(*points))
        spread = sum((x - at) ** 2 for x, _ in points)
        return 600 * sum((x - at) * (y - value) for x, y in points) / spread if spread else 0.0


    def judge(self, run, name, long):
        """Checks that the resources do not grow. The slope of memory counts only in a `long` run."""
        run.say(56, f"memory of the {name} added in ten minutes", self.slope(1), SLOPE if long else float("inf"), "MiB")
        rows = self.later()
        half = len(rows) // 2
        for column, what in ((2, "file handles"), (3, "threads")):
            values = [[row[column] for row in part_of] for part_of in (rows[:half], rows[half:])]
            for extreme, which, limit in ((max, "at most", HANDLES), (min, "at least", FEWEST if long else HANDLES)):
                first, last = (extreme(part_of, default=0) for part_of in values)
                run.say(56, f"{what} of the {name} added ({last} {which}, in the end)", last - first, limit, "")


async def soak(run, minutes, rate):
    # No fault begins once it is `late`: every damage must be repaired under load.
    dice, over, late = random.Random(run.seed), asyncio.Event(), asyncio.Event()
    nodes, lines = mixed()
    await started(nodes)
    stream, grpc = await StreamNode().start(), await GrpcNode().start()
    lines = lines().replace("[chains.eth]\nnodes = [", f'[chains.eth]\nnodes = [{{ ws = "{stream.url()}" }}, ')
    lines += f'[[chains.tron.nodes]]\ngrpc = "{grpc.url()}"\n'
    # Three nodes, so that no call is lost with one of them. The only node of a second chain gets its calls in arrays.
    lines = lines.replace("[chains.eth]\n", "[chains.eth]\nbroadcast_nodes = 3\n" + SILENT) + HEDGE + "[chains.bsc.batching]\nenabled = true\n"
    # A cache that is full after some minutes: the growth of a larger one would look like a leak.
    lines += '[cache]\nbytes = "4MiB"\n'
    async with Cluster(run, lines, gateways=2, admin=True, secret=SECRET, settings="h2c = true") as cluster:
        balancer = Haproxy([gateway.port for gateway in cluster.gateways])
        # The other chains have one node each.
        faults = Faults(cluster, nodes[:3], dice)
        await faults.operator.log_in_as_operator(OPERATOR)
        load, streams = MixedLoad(run.seed, faults), Streams(cluster, faults)
        samples = Samples(cluster.gateways[0])
        watched = [("gateway", samples), ("management side", Samples(cluster.admin))]
        share = len(cluster.gateways)
        begun = time.perf_counter()
        tasks = [asyncio.create_task(load.keep_on(balancer, rate, over))]
        tasks += [asyncio.create_task(streams.watch(gateway, over)) for gateway in cluster.gateways for _ in range(STREAMS // share)]
        tasks += [asyncio.create_task(streams.ask(gateway, over)) for gateway in cluster.gateways for _ in range(GRPC // share)]
        tasks += [asyncio.create_task(of.take(over, min(10.0, minutes / 4))) for _, of in watched]
        going_wrong = asyncio.create_task(faults.run_until(late, samples, min(45.0, minutes * 4)))
        end = begun + 60 * minutes
        while time.perf_counter() < end:
            await asyncio.sleep(min(60.0, max(0.0, end - time.perf_counter())))
            left, done = max(0.0, end - time.perf_counter()) / 60, faults.table.times.total()
            print(f"        56  {left:.0f} minutes are left: {load.sent:,} requests, {done} faults, {samples.gateway.rss():.0f} MiB", flush=True)
            dead = [task for task in tasks if task.done() and not task.cancelled()]
            for task in dead:
                task.result()
            run.must(56, not dead, "the load goes on")
        late.set()
        await going_wrong
        over.set()
        await asyncio.gather(*tasks)
        balancer.close()
        lasted = time.perf_counter() - begun
        answered = len(load.charged_by_id)
        print(f"        56  load: {answered / lasted:.0f} answered requests a second of {rate} for {lasted / 60:.0f} minutes", flush=True)
        print(f"        56  streams: {streams.messages:,} messages; gRPC: {streams.calls:,} calls", flush=True)
        for (what, fault), count in sorted(load.lost.items()):
            print(f"        56  lost: {count:,} requests, {what}, {fault or 'without a fault'}", flush=True)
        for what in faults.failed:
            run.must(56, False, f"not survived: {what}")
        kinds = len(faults.table.times)
        run.must(56, kinds == 9 or minutes < 15, f"every kind of fault happened: {kinds} of 9")
        run.must(56, load.sent > 0 and streams.messages > 0 and streams.calls > 0, "there is load of every kind")
        run.must(56, not load.differing, f"{len(load.differing)} answers differ from what was asked: {load.differing[:2]}")
        slowest = part(load.took_for, 0.99) if load.took_for else 0.0
        run.say(56, "99th percentile of requests while no fault was going on", slowest * 1000, 1000, "ms")
        for name, of in watched:
            of.judge(run, name, minutes >= 30)
        await asyncio.gather(*(gateway.stop() for gateway in cluster.gateways))
        await compare(run, cluster, load, faults.table)
        for line in faults.table.lines():
            print(f"        56  {line}", flush=True)
        faults.table.judge(run, 56)


async def compare(run, cluster, load, table):
    """Checks that every answered request is recorded once, with the units of its answer."""
    due, recorded, twice = load.charged_by_id, {}, 0
    events = await asyncio.to_thread(lambda: list(Ledger(cluster).events()))
    parties = {event.party for event in events if event.request.bytes in due}
    run.must(56, len(parties) <= 1, f"the load has one key: {len(parties)}")
    for event in events:
        if event.party in parties:
            if event.request.bytes in recorded:
                twice += event.request.bytes not in due
                if event.request.bytes in due:
                    table.count(due[event.request.bytes][1], "billed twice")
            recorded[event.request.bytes] = sum(line.cu for line in event.lines)
    wrong = 0
    for request, (units, fault) in due.items():
        billed = recorded.pop(request, None)
        if billed is None and units > 0:
            table.count(fault, "not billed")
        wrong += billed is not None and billed != units
    left = sum(units > 0 for units in recorded.values())
    run.say(56, f"of {len(due):,} answers billed differently", wrong, 0, "")
    run.say(56, "requests without an answer that are billed twice", twice, 0, "")
    run.say(56, "requests billed without an answer, of those cut off", left, load.cut_off, "")
