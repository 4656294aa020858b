"""Second factors, and the end of sessions."""

import asyncio
import base64
import collections
import hashlib
import hmac
import json
import struct
import time

from .client import PASSWORD, Owner, Visitor
from .gateway import Admin

NEW_PASSWORD = "another password for tests"


def totp(secret, at):
    """Returns the code of an authenticator app at this Unix time (RFC 6238: SHA-1, 30 seconds, 6 digits)."""
    counter = struct.pack(">Q", int(at) // 30)
    digest = hmac.new(base64.b32decode(secret + "=" * (-len(secret) % 8)), counter, hashlib.sha1).digest()
    start = digest[-1] & 15
    return f"{(struct.unpack('>I', digest[start:start + 4])[0] & 0x7FFFFFFF) % 1_000_000:06}"


async def beginning_of_a_step():
    """Waits until a code is valid for at least 20 more seconds, so that a test does not run into the next one."""
    while time.time() % 30 > 10:
        await asyncio.sleep(0.2)


async def with_app(admin, email):
    """Creates a user with an authenticator app. Returns the user, the app's secret, and the recovery codes."""
    owner = Owner(admin)
    await owner.settle(email)
    _, offered = await owner.ask("POST", "auth/mfa/totp/enroll", {"current_password": PASSWORD})
    # The code of the previous step: that of this step is for the test.
    status, made = await owner.ask("POST", "auth/mfa/totp/activate", {"code": totp(offered["secret"], time.time() - 30)})
    assert status == 200, (status, made)
    return owner, offered["secret"], made["recovery_codes"]


async def first_step(visitor, email, password=PASSWORD):
    """Returns the token with which a log-in is completed."""
    _, _, answer = await visitor.login(email, password)
    answer = json.loads(answer)
    assert answer.get("mfa_required") is True, answer
    return answer["mfa_token"]


async def at_once(admin, bodies):
    """Returns the statuses of these second steps, all sent at the same time, each on its own connection."""
    visitors = [Visitor(admin.port) for _ in bodies]
    await asyncio.gather(*(visitor.exchange("GET /healthz HTTP/1.1", b"") for visitor in visitors))
    answers = await asyncio.gather(*(visitor.post("mfa/verify", body) for visitor, body in zip(visitors, bodies)))
    for visitor in visitors:
        visitor.close()
    return collections.Counter(status for status, _, _ in answers)


async def promise_36(run):
    """A code works once for a user, also in parallel, and a log-in has five tries."""
    async with Admin(run, "") as admin:
        email = "ada@example.com"
        await beginning_of_a_step()
        owner, secret, recovery = await with_app(admin, email)
        visitor, code = Visitor(admin.port), totp(secret, time.time())
        token = await first_step(visitor, email)
        statuses = await at_once(admin, [{"mfa_token": token, "code": code}] * 50)
        run.say(36, f"of 50 log-ins at once with one code and one token that succeed {dict(statuses)}", abs(statuses[200] - 1), 0, "away from one")
        tokens = [await first_step(visitor, email) for _ in range(4)]
        statuses = await at_once(admin, [{"mfa_token": token, "code": code} for token in tokens])
        run.say(36, f"log-ins with a code that was used, each with a token of its own {dict(statuses)}", statuses[200], 0, "")
        # A recovery code is a code too. The four wrong tries count for the user, so sixteen minutes pass for the store.
        admin.database.change("update attempts set at = at - 16 * 60 * 1000000")
        tokens = [await first_step(visitor, email) for _ in range(4)]
        statuses = await at_once(admin, [{"mfa_token": token, "recovery_code": recovery[0]} for token in tokens])
        run.say(36, f"of 4 log-ins at once with one recovery code that succeed {dict(statuses)}", abs(statuses[200] - 1), 0, "away from one")
        admin.database.change("update attempts set at = at - 16 * 60 * 1000000")
        token = await first_step(visitor, email)
        ((before,),) = admin.database.rows("select count(*) from audit where action = 'factor.wrong'", of_usage=False)
        near = {totp(secret, time.time() + shift) for shift in range(-120, 121, 30)}
        wrong = next(text for text in ("000000", "111111", "222222") if text not in near)
        statuses = await at_once(admin, [{"mfa_token": token, "code": wrong}] * 50)
        run.must(36, statuses[200] == 0, f"a wrong code opens nothing: {dict(statuses)}")
        run.say(36, f"wrong factors of 50 at once that were checked {dict(statuses)}", statuses[401], 5, "")
        # The store records each of them after its answer.
        for _ in range(100):
            ((noted,),) = admin.database.rows("select count(*) from audit where action = 'factor.wrong'", of_usage=False)
            if noted - before == statuses[401]:
                break
            await asyncio.sleep(0.05)
        run.must(36, noted - before == statuses[401], f"each is in the audit log: {noted - before} of {statuses[401]}")
        status, _, answer = await visitor.post("mfa/verify", {"mfa_token": token, "recovery_code": recovery[1]})
        run.must(36, status != 200, f"after five tries a log-in begins anew, also with a right factor: {status} {answer}")
        for shift, holds in ((-90, False), (90, False)):
            admin.database.change("update attempts set at = at - 16 * 60 * 1000000")
            token = await first_step(visitor, email)
            status, _, _ = await visitor.post("mfa/verify", {"mfa_token": token, "code": totp(secret, time.time() + shift)})
            run.must(36, (status == 200) == holds, f"a code {shift} s away got {status}")
        owner.close()
        visitor.close()


async def promise_38(run):
    """Every end of a session ends its tokens at once, and a refresh token that is used twice ends its session."""
    async with Admin(run, "") as admin:
        email = "ada@example.com"
        await beginning_of_a_step()
        owner, secret, recovery = await with_app(admin, email)
        recovery, password = iter(recovery), PASSWORD

        async def session():
            """Returns the tokens of a new session."""
            visitor = Visitor(admin.port)
            token = await first_step(visitor, email, password)
            status, _, answer = await visitor.post("mfa/verify", {"mfa_token": token, "recovery_code": next(recovery)})
            assert status == 200, (status, answer)
            visitor.close()
            return json.loads(answer)

        async def is_open(tokens):
            seen = Owner(admin)
            seen.token = tokens["token"]
            status, _ = await seen.ask("GET", "auth/me")
            seen.close()
            return status == 200

        async def until_ended(what, tokens):
            since = time.perf_counter()
            while await is_open(tokens):
                if time.perf_counter() - since > 5:
                    break
                await asyncio.sleep(0.01)
            run.say(38, f"after {what}, a token was accepted for", time.perf_counter() - since, 1, "s")
            visitor = Visitor(admin.port)
            status, _, answer = await visitor.post("refresh", {"refresh_token": tokens["refresh_token"]})
            run.must(38, status == 401, f"after {what}, its refresh token got {status} {answer}")
            visitor.close()

        async def ask(tokens, method, path, body=None):
            caller = Owner(admin)
            caller.token = tokens["token"]
            status, answer = await caller.ask(method, path, body)
            run.must(38, status < 300, f"{method} {path} got {status} {answer}")
            caller.close()
            return answer

        left = await session()
        await ask(left, "POST", "auth/logout", {"refresh_token": left["refresh_token"]})
        await until_ended("a log-out", left)

        here, there = await session(), await session()
        listed = await ask(here, "GET", "auth/sessions")
        other = max((one for one in listed if not one["current"]), key=lambda one: one["created_at"])
        await ask(here, "DELETE", f"auth/sessions/{other['id']}")
        await until_ended("its session was ended", there)

        there = await session()
        await ask(here, "POST", "auth/me/password", {"current_password": PASSWORD, "new_password": NEW_PASSWORD})
        password = NEW_PASSWORD
        await until_ended("a change of the password", there)

        here, there = await session(), await session()
        used = dict(here)
        visitor = Visitor(admin.port)
        status, _, answer = await visitor.post("refresh", {"refresh_token": used["refresh_token"]})
        run.must(38, status == 200, f"a refresh token got {status} {answer}")
        status, _, answer = await visitor.post("refresh", {"refresh_token": used["refresh_token"]})
        run.must(38, status == 401, f"a refresh token that was used got {status} {answer}")
        await until_ended("its refresh token was used twice", here)
        run.must(38, await is_open(there), "a refresh token that was used twice ends its own session alone")
        visitor.close()

        here = await session()
        await ask(here, "POST", "auth/mfa/totp/disable", {"recovery_code": next(recovery)})
        await until_ended("a factor was removed", there)

        visitor = Visitor(admin.port)
        _, _, answer = await visitor.login(email, password)
        plain = json.loads(answer)
        visitor.close()
        await ask(plain, "POST", "auth/logout-all")
        await until_ended("a log-out everywhere", plain)
        owner.close()
