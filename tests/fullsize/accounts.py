"""Passwords."""

import asyncio
import collections
import concurrent.futures
import json
import math
import multiprocessing
import os
import random
import statistics
import time

from .client import PASSWORD, Client, Owner, Visitor, timed
from .gateway import SECRET, Admin, Gateway, chains
from .node import Node


async def promise_33(run):
    """Password guessing is stopped, regardless of the number of simultaneous attempts."""
    async with Admin(run, "") as admin:
        email, unregistered = "known@example.com", "unregistered@example.com"
        visitors = [Visitor(admin.port) for _ in range(200)]
        status, _, answer = await visitors[0].register(email)
        run.must(33, status == 201, f"registering got {status} {answer}")
        status, _, _ = await visitors[0].login(email, PASSWORD)
        run.must(33, status == 200, f"the right password got {status}")
        seen = {}
        for address in (email, unregistered):
            asking = [visitor.login(address, f"{PASSWORD} {number}") for number, visitor in enumerate(visitors)]
            answers = await asyncio.gather(*asking)
            statuses = collections.Counter(status for status, _, _ in answers)
            run.must(33, set(statuses) == {401, 403}, f"200 at once got {dict(statuses)}")
            run.say(33, f"guesses of 200 at once that were checked, {address} ({dict(statuses)})", statuses[401], 5, "")
            seen[address] = {(status, tuple(sorted(headers.items())), text) for status, headers, text in answers}
        run.must(33, seen[email] == seen[unregistered], f"an unregistered address gets the same answers: {seen}")
        # The store counts each checked guess, independently of its answer.
        noted = 0
        for _ in range(40):
            ((noted,),) = admin.database.rows("select count(*) from audit where action = 'login.failed'", of_usage=False)
            await asyncio.sleep(0.05)
        run.say(33, "guesses in the audit log", noted, 5, "")
        refused = [await visitors[0].login(email, PASSWORD) for _ in range(5)]
        run.must(33, {status for status, _, _ in refused} == {403}, f"the right password while it is locked: {refused}")
        # Sixteen minutes pass for the store.
        admin.database.change("update attempts set at = at - 16 * 60 * 1000000")
        status, _, answer = await visitors[0].login(email, PASSWORD)
        run.must(33, status == 200, f"the right password after the lock: {status} {answer}")
        for visitor in visitors:
            visitor.close()


async def promise_34(run):
    """Neither answers nor their times reveal whether an address has an account. Needs an otherwise idle machine."""
    pairs = max(40, int(300 * run.scale))
    dice = random.Random(run.seed)
    async with Admin(run, "") as admin:
        visitor = Visitor(admin.port)
        # Each address is tried too rarely to be locked.
        known, confirmed = ([f"{kind}{number}@example.com" for number in range(-(-pairs // 4))] for kind in ("known", "confirmed"))
        for email in known + confirmed:
            await visitor.register(email)
        admin.database.change("update users set confirmed_at = created_at where email like 'confirmed%'")

        async def login(email):
            return await timed(visitor.login(email, "not the password"))

        async def register(email):
            application = await visitor.application(email)
            return await timed(visitor.post("register", application))

        async def compare(what, ask, taken, free):
            times, answers = ([], []), (set(), set())
            for number in range(pairs):
                kinds = [(0, taken(number)), (1, free(number))]
                dice.shuffle(kinds)
                for kind, email in kinds:
                    (status, headers, text), took = await ask(email)
                    times[kind].append(took)
                    # The answer repeats the address, whose length differs.
                    shown = text.replace(email.encode(), b"it")
                    answers[kind].add((status, tuple(sorted(set(headers.items()) - {("content-length", str(len(text)))})), shown))
            run.must(34, answers[0] == answers[1] and len(answers[0]) == 1, f"{what}: answers differ: {answers}")
            there, not_there = (statistics.median(kind) for kind in times)
            # Other load of the machine affects both calls of a pair, so pairs are compared.
            gap = statistics.median(a - b for a, b in zip(*times)) / statistics.median(times[0] + times[1])
            shown = f"{there * 1000:.2f} ms for an address that is taken, {not_there * 1000:.2f} ms for another"
            run.say(34, f"{what}, {pairs} pairs ({shown}): median gap", abs(gap) * 100, 5, "%")
            p = mann_whitney(*times)
            run.say(34, f"{what}: confidence that the times differ (Mann-Whitney, p = {p:.3f})", 1 - p, 0.99, "")

        await compare("log-in", login, lambda n: known[n % len(known)], lambda n: f"other{n % len(known)}@example.com")
        await compare("registration", register, lambda n: known[n % len(known)], lambda n: f"fresh{n}@example.com")
        await compare("registration of a confirmed address", register, lambda n: confirmed[n % len(known)], lambda n: f"new{n}@example.com")
        visitor.close()


async def promise_35(run):
    """A flood of log-ins takes one core at most and does not slow a gateway. Needs an otherwise idle machine."""
    seconds, node = max(1, int(5 * run.scale)), await Node().start()
    async with Admin(run, "") as admin, Gateway(run, chains(eth=([node], "")), database=admin.database, secret=SECRET) as gateway:
        client, answers, used = Client(gateway), collections.Counter(), 0.0

        async def calls(times):
            """Makes a call every 10 ms, timed from the moment at which it is due."""
            start = time.perf_counter()
            for number in range(seconds * 100):
                due = start + number / 100
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                status, _, _ = await client.call("eth_getBalance", [len(times)])
                run.must(35, status == 200, f"a call during a flood of log-ins got {status}")
                times.append(time.perf_counter() - due)

        quiet, flooded = [], []
        # The flood runs in a separate process: its work must not delay the clock of the calls.
        with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            await asyncio.wrap_future(pool.submit(flood, admin.port, 0, 0))
            # Alternates parts with and without the flood, so that other load of the machine affects both.
            for part in range(4):
                await calls(quiet)
                start, before = time.perf_counter(), cpu_seconds(admin.process.pid)
                flooding = asyncio.wrap_future(pool.submit(flood, admin.port, part * 10_000, seconds))
                await calls(flooded)
                answers += await flooding
                used = max(used, (cpu_seconds(admin.process.pid) - before) / (time.perf_counter() - start))
        run.must(35, set(answers) <= {"401", "429"} and answers["429"] > 0, f"log-ins got {dict(answers)}")
        # The rest after hashing is the exchange of 200 requests a second, each on a new connection.
        run.say(35, f"cores of the management service under 200 log-ins a second {dict(answers)}", used, 1.3, "")
        p99 = [statistics.quantiles(times, n=100)[98] * 1000 for times in (quiet, flooded)]
        shown = f"{p99[0]:.2f} ms without, {p99[1]:.2f} ms with them"
        run.say(35, f"the 99th percentile of a gateway's calls, {shown}: ratio", p99[1] / p99[0], 1.3, "")
        client.close()


def flood(port, first, seconds):
    """Returns the statuses of 200 log-ins a second, from 50 addresses of clients, each with its own account name."""
    return asyncio.run(flooding(port, first, seconds))


async def flooding(port, first, seconds):
    answers, start = collections.Counter(), time.perf_counter()

    async def login(number):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(f"127.0.1.{number % 50 + 1}", 0))
        body = json.dumps({"email": f"visitor{number}@example.com", "password": PASSWORD})
        head = "POST /api/v1/auth/login HTTP/1.1\r\nhost: h\r\nconnection: close\r\ncontent-type: application/json"
        writer.write(f"{head}\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode())
        answer = await reader.read()
        writer.close()
        answers[answer.split(b" ", 2)[1].decode()] += 1

    asking = []
    for number in range(seconds * 200):
        await asyncio.sleep(max(0.0, start + number / 200 - time.perf_counter()))
        asking.append(asyncio.create_task(login(first + number)))
    await asyncio.gather(*asking)
    return answers


def cpu_seconds(process):
    """Returns the processor time of a process in seconds."""
    with open(f"/proc/{process}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def promise_67(run):
    """A tenant with very many rows of usage in an hour delays neither the start of a gateway nor the usage of others."""
    rows = max(30_000, int(300_000 * run.scale))
    async with Admin(run, "") as admin:
        hostile, other = Owner(admin), Owner(admin)
        for owner, email in ((hostile, "hostile@example.com"), (other, "other@example.com")):
            await owner.settle(email)
        _, me = await hostile.ask("GET", "auth/me")
        tenant = admin.database.id(bytes.fromhex(me["tenant_id"].replace("-", "")))
        fresh = "randomblob(16)" if run.server is None else "gen_random_uuid()"
        counted = "requests, billed_requests, billable_units, window_requests"
        others = "errors, rejected, cache_hits, ws_connections, ws_refused, ws_messages, request_bytes, response_bytes, latency_us, latency_count"
        hour = int(time.time()) // 3600 - 1
        admin.database.change(
            f"INSERT INTO rollups (hour, tenant, project, key, chain, method, transport, status, stream, {counted}, {others}) "
            f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows}) "
            f"SELECT {hour}, {tenant}, {fresh}, {fresh}, 'eth', 'm' || i, 0, 200, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 FROM n",
            of_usage=True,
        )
        gateway = Gateway(run, "", database=admin.database, secret=SECRET)
        _, took = await timed(gateway.start())
        run.say(67, f"a gateway's start with {rows:,} rows of a tenant in an hour", took, 30, "s")
        done, answers = asyncio.Event(), collections.Counter()

        async def bother():
            visitor = Owner(admin)
            visitor.token = hostile.token
            while not done.is_set():
                status, _ = await visitor.ask("GET", "usage?period=30d&group_by=hour,key,method")
                answers[status] += 1
            visitor.close()

        bothering = [asyncio.ensure_future(bother()) for _ in range(8)]
        times = []
        for _ in range(100):
            (status, _), took = await timed(other.ask("GET", "usage?period=30d&group_by=day,method"))
            run.must(67, status == 200, f"another tenant's usage got {status}")
            times.append(took)
            await asyncio.sleep(0.05)
        done.set()
        await asyncio.gather(*bothering)
        run.must(67, set(answers) <= {200, 400, 429}, f"large queries got {dict(answers)}")
        median = statistics.median(times) * 1000
        run.say(67, f"usage of another tenant during large queries ({dict(answers)}), median", median, 100, "ms")
        await gateway.__aexit__()
        for owner in (hostile, other):
            owner.close()


def mann_whitney(a, b):
    """Returns the two-sided p-value of the Mann-Whitney rank test, by the normal approximation."""
    ordered = sorted([(value, 0) for value in a] + [(value, 1) for value in b])
    ranks = sum(rank for rank, (_, kind) in enumerate(ordered, 1) if kind == 0)
    m, n = len(a), len(b)
    expected, deviation = m * (m + n + 1) / 2, math.sqrt(m * n * (m + n + 1) / 12)
    return math.erfc(abs(ranks - expected) / deviation / math.sqrt(2))
