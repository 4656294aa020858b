"""Outages of PostgreSQL and Redis with several gateways."""

import asyncio
import collections
import time

from .client import Client, Visitor, timed
from .cluster import Cluster, admitted, ask, started
from .oracle import Oracle, mixed, part
from .servers import Postgresql, Redis

LIMIT = 600
CEILING = 12_000


async def without_postgresql(run, number, what, leave, come_back):
    oracle, over = Oracle(run.seed), asyncio.Event()
    nodes, lines = mixed()
    await started(nodes)
    seconds = max(10.0, 600 * run.scale)
    async with Cluster(run, lines(), admin=True) as cluster:
        stored = cluster.database.admit(f"rpcg_{'stored':x<45}")
        known = [Client(gateway, stored) for gateway in cluster.gateways]
        unknown = [Client(gateway, f"rpcg_{'missing':x<45}") for gateway in cluster.gateways]
        loads = [cluster.load(oracle, over, gateway) for gateway in cluster.gateways]
        await asyncio.sleep(max(5.0, 60 * run.scale))
        for client, status in [(client, 200) for client in known] + [(client, 401) for client in unknown]:
            run.must(number, (await ask(client))[0] == status, "a stored key is known, another is not")
        before = part(oracle.took, 0.99)
        await asyncio.to_thread(leave, cluster.postgresql)
        began, first = time.perf_counter(), len(oracle.took)
        seen, slowest, waited, end = collections.Counter(), 0.0, 0.0, began + seconds
        managed = collections.Counter()

        async def manage():
            nonlocal waited
            while time.perf_counter() < end:
                visitor = Visitor(cluster.admin.port)
                (status, _, _), took = await timed(visitor.login("unregistered@example.com", "not the password"))
                visitor.close()
                managed[status] += 1
                waited = max(waited, took)
                await asyncio.sleep(1.0)

        async def call(clients, name):
            nonlocal slowest
            while time.perf_counter() < end:
                for client in clients:
                    (status, _, _), took = await timed(ask(client))
                    seen[name, status] += 1
                    slowest = max(slowest, took)
                await asyncio.sleep(0.2)

        await asyncio.gather(manage(), call(known, "known"), call(unknown, "unknown"))
        during = oracle.took[first:]
        await asyncio.to_thread(come_back, cluster.postgresql)
        over.set()
        await asyncio.gather(*loads)
        shipped = await cluster.complete(oracle)
        all_known = sum(count for (name, _), count in seen.items() if name == "known")
        where = f"with PostgreSQL {what} for {seconds:.0f} s"
        run.say(number, f"calls of a known key that failed {where} ({all_known} and {len(during):,} of the load)", 1 - seen["known", 200] / all_known, 0.001, "of all")
        run.say(number, "unknown keys that did not get a 503", sum(count for (name, status), count in seen.items() if name == "unknown" and status != 503), 0, "")
        run.say(number, f"answers of the management side that were not 503, of {sum(managed.values())}", sum(managed.values()) - managed[503], 0, "")
        run.say(number, "its slowest answer", waited, 2.0, "s")
        run.say(number, f"slowest answer to the load (p99 {part(during, 0.99) * 1000:.1f} ms, before {before * 1000:.1f} ms)", max(during), 1.1, "s")
        run.say(number, "slowest answer to a known or an unknown key", slowest, 1.1, "s")
        run.say(number, "from its return until the usage records were complete", shipped, 60, "s")
        back = time.perf_counter()
        for client, status in [(client, 200) for client in known] + [(client, 401) for client in unknown]:
            while (await ask(client))[0] != status and time.perf_counter() < back + 60:
                await asyncio.sleep(0.05)
            run.must(number, (await ask(client))[0] == status, f"{status} again after its return")
            client.close()
        run.say(number, "and then until unknown keys were refused again", time.perf_counter() - back, 60, "s")
        await cluster.ends(run, number, oracle)


async def promise_5(run):
    """PostgreSQL stopped under load."""
    await without_postgresql(run, 5, "stopped", Postgresql.stop, Postgresql.start)


async def promise_6(run):
    """PostgreSQL frozen under load."""
    await without_postgresql(run, 6, "frozen", Postgresql.freeze, Postgresql.thaw)


async def without_redis(run, what, leave, come_back):
    oracle, over = Oracle(run.seed), asyncio.Event()
    nodes, lines = mixed()
    await started(nodes)
    seconds, gateways = max(10.0, 600 * run.scale), 3
    premium = f"[plans.premium]\nper_minute = 1000000000\nper_hour = 1000000000\nper_day = {LIMIT}\n"
    async with Cluster(run, lines() + premium, gateways) as cluster:
        def key(name, tier="premium", ceiling=None):
            return cluster.database.admit(f"rpcg_{name:x<45}", tier, ceiling)

        async def spend(name, units):
            """Returns the Compute Units granted out of `units`, requested at all gateways in turn."""
            clients, granted = [Client(gateway, name) for gateway in cluster.gateways], 0
            for number in range(units // 20):
                _, headers, answer = await ask(clients[number % gateways], "eth_sendRawTransaction", [number])
                granted += int(headers["x-compute-units"])
                run.must(7, "result" in answer or answer["error"]["code"] == -32005, f"granted or refused, got {answer}")
            for client in clients:
                client.close()
            return granted

        day = time.gmtime().tm_yday
        loads = [cluster.load(oracle, over, gateway) for gateway in cluster.gateways]
        spent, half, poor, rich = key("spent"), key("half"), key("poor", "enterprise", CEILING), key("rich", "enterprise", CEILING)
        served, others = await admitted(cluster.gateways, spent, LIMIT)
        run.must(7, served == LIMIT and set(others) == {429}, f"{gateways} gateways together admit {LIMIT}, got {served} {others}")
        before_half, _ = await admitted(cluster.gateways, half, LIMIT // 6)
        used = await spend(poor, CEILING + 400), await spend(rich, CEILING // 2)
        run.must(7, CEILING <= used[0] < CEILING + 20, f"the ceiling is used up exactly, got {used[0]}")
        first = len(oracle.took)
        await asyncio.sleep(max(5.0, 60 * run.scale))
        before = part(oracle.took[first:], 0.99)
        await asyncio.to_thread(leave, cluster.redis)
        began, first = time.perf_counter(), len(oracle.took)
        await asyncio.gather(*(gateway.until_together(False) for gateway in cluster.gateways))
        alone = time.perf_counter() - began
        await asyncio.sleep(max(0.0, began + 1 - time.perf_counter()))
        settled = len(oracle.took)
        overrun, strange = 0, collections.Counter()
        while time.perf_counter() < began + seconds:
            served, others = await admitted(cluster.gateways, spent, 8)
            overrun += served
            strange.update({status: count for status, count in others.items() if status != 429})
            await asyncio.sleep(1)
        served_half, others = await admitted(cluster.gateways, half, LIMIT + 20)
        fresh = key("fresh")
        served_fresh, more = await admitted(cluster.gateways, fresh, LIMIT + 20)
        strange.update({status: count for status, count in (others + more).items() if status != 429})
        over_ceiling, more_units = await spend(poor, 1_000), await spend(rich, 4 * CEILING)
        during, after = oracle.took[first:], oracle.took[settled:]
        back = time.perf_counter()
        await asyncio.to_thread(come_back, cluster.redis)
        await asyncio.gather(*(gateway.until_together() for gateway in cluster.gateways))
        back = time.perf_counter() - back
        late = [await admitted(cluster.gateways, name, 40) for name in (spent, half, fresh)]
        late_units = await spend(poor, 400) + await spend(rich, 400)
        served, others = await admitted(cluster.gateways, key("newborn"), LIMIT)
        same_day = time.gmtime().tm_yday == day
        over.set()
        await asyncio.gather(*loads)
        where = f"with Redis {what} for {seconds:.0f} s"
        run.must(7, same_day, "the limits were reset at midnight: run it again")
        run.say(7, f"until all {gateways} gateways counted alone, {where}", alone, 1.0, "s")
        run.say(7, f"statuses that are neither 200 nor 429: {dict(strange)}", sum(strange.values()), 0, "")
        run.say(7, "calls admitted beyond a limit that was used up before", overrun, 0, "")
        run.say(7, f"calls admitted by a limit of {LIMIT}, {before_half} of them before", before_half + served_half, gateways * LIMIT, "")
        run.say(7, f"calls admitted by an unused limit of {LIMIT}", served_fresh, gateways * LIMIT, "")
        run.must(7, served_fresh >= LIMIT and before_half + served_half >= LIMIT, f"no call is refused too early: {served_half} {served_fresh}")
        run.say(7, f"units granted over a ceiling of {CEILING:,} that was used up before", over_ceiling, 0, "")
        run.say(7, f"units granted of a ceiling of {CEILING:,}, {used[1]:,} of them before", used[1] + more_units, gateways * CEILING, "")
        run.must(7, used[1] + more_units >= CEILING, f"no call under the ceiling is refused too early: {used[1]} {more_units}")
        p99 = part(after, 0.99)
        run.say(7, f"increase of the p99 of {len(after):,} calls of the load after a second ({before * 1000:.1f} ms before)", (p99 - before) * 1000, 5, "ms")
        run.say(7, "slowest answer to the load", max(during), 1.0, "s")
        run.say(7, "from its return until all counted together", back, 10, "s")
        run.say(7, "calls and units admitted afterwards beyond limits and ceilings that were used up", sum(count for count, _ in late) + late_units, 0, "")
        run.must(7, served == LIMIT and set(others) <= {429}, f"and a new limit is exact again: {served} {others}")
        await cluster.ends(run, 7, oracle)


async def promise_7(run):
    """Redis stopped, and frozen, under load."""
    await without_redis(run, "stopped", Redis.stop, Redis.start)
    await without_redis(run, "frozen", Redis.freeze, Redis.thaw)
