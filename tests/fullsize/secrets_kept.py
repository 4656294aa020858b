"""Secrets stay out of logs, metrics and answers."""

import asyncio
import base64
import json
import urllib.parse

from .client import KEYS, PASSWORD, Client, Owner, Visitor
from .gateway import SECRET, Admin, Gateway, chains
from .node import Node
from .servers import free_port
from .sessions import beginning_of_a_step, first_step, with_app

NODE_SECRET = "a-secret-in-the-path-of-a-node"


async def promise_45(run):
    """No secret is in a log at any level, in a metric, or in the text of an error."""
    node = await Node().start()
    pages = free_port()
    secrets, answers = {"the secret of keys": SECRET, "the secret of tokens": "s" * 32, "a node's path": NODE_SECRET}, []
    lines = chains(eth=([node], "")).replace(node.url(), f"{node.url()}/{NODE_SECRET}")
    metrics = f'listen = "127.0.0.1:{pages}"'
    admin = Admin(run, "", log="trace")
    gateway = Gateway(run, lines, log="trace", database=admin.database, secret=SECRET, telemetry=metrics)
    async with admin, gateway:
        email = "ada@example.com"
        await beginning_of_a_step()
        owner, totp_secret, recovery = await with_app(admin, email)
        secrets |= {"a password": PASSWORD, "an authenticator's secret": totp_secret, "a recovery code": recovery[0]}
        secrets |= {"an unused recovery code": recovery[9], "an access token": owner.token}

        visitor = Visitor(admin.port)
        for wrong in ("wrong-password-of-ada-1", "wrong-password-of-ada-2"):
            secrets[wrong] = wrong
            answers.append((await visitor.login(email, wrong))[2])
        pending = await first_step(visitor, email)
        secrets["a token of a log-in"] = pending
        answers.append((await visitor.post("mfa/verify", {"mfa_token": pending, "recovery_code": "0000-0000-0000-0000"}))[2])
        _, _, answer = await visitor.post("mfa/verify", {"mfa_token": pending, "recovery_code": recovery[0]})
        tokens = json.loads(answer)
        secrets |= {"an access token with a factor": tokens["token"], "a refresh token": tokens["refresh_token"]}
        _, _, answer = await visitor.post("refresh", {"refresh_token": tokens["refresh_token"]})
        fresh = json.loads(answer)
        secrets |= {"a refreshed access token": fresh["token"], "a fresh refresh token": fresh["refresh_token"]}
        answers.append((await visitor.post("refresh", {"refresh_token": tokens["refresh_token"]}))[2])

        # Mails carry tokens; the outbox is the mail server here.
        await visitor.post("password/forgot", {"email": email})
        for _ in range(100):
            mails = [path.read_text() for path in (admin.folder / "outbox").glob("*.eml")]
            found = [mail.split("?token=", 1)[1].split()[0] for mail in mails if "?token=" in mail]
            if len(found) > 1:
                break
            await asyncio.sleep(0.1)
        run.must(45, len(found) > 1, f"mails with a token: {len(found)}")
        secrets |= {f"the token of mail {number}": token for number, token in enumerate(found)}

        owner.token = await again(visitor, email, recovery[1])
        secrets["another access token"] = owner.token
        _, me = await owner.ask("GET", "auth/me")
        _, project = await owner.ask("POST", f"tenants/{me['tenant_id']}/projects", {"name": "of secrets"})
        _, key = await owner.make_key(project["id"])
        secrets |= {"a key": key, "a key of the file": KEYS["one"]}
        status, made = await owner.ask(
            "POST", "auth/tokens", {"name": "for a script", "scopes": ["read"], "current_password": PASSWORD}
        )
        run.must(45, status == 201, f"a personal access token: {status} {made}")
        secrets["a personal access token"] = made["token"]
        script = Owner(admin)
        script.token = made["token"]
        answers.append(json.dumps(await script.ask("GET", f"tenants/{me['tenant_id']}/projects")).encode())
        answers.append(json.dumps(await script.ask("POST", "auth/logout-all")).encode())
        script.token = owner.token[:-4] + "AAAA"
        answers.append(json.dumps(await script.ask("GET", "auth/me")).encode())

        # The key in each place where a client may put it, and in each form of a mistake.
        await asyncio.sleep(1.5)
        clients = Client(gateway, key)
        status, _, answer = await clients.call("eth_blockNumber", [])
        run.must(45, status == 200, f"a call with the new key got {status} {answer}")
        quoted, basic = urllib.parse.quote(key), base64.b64encode(f":{key}".encode()).decode()
        body = b'{"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":["0x0"]}'
        for head in (
            f"POST /eth?apikey={quoted} HTTP/1.1",
            f"POST /eth/{key} HTTP/1.1",
            f"POST /nowhere?apikey={quoted} HTTP/1.1",
            f"POST /eth HTTP/1.1\r\nauthorization: Bearer {key}",
            f"POST /eth HTTP/1.1\r\nauthorization: Basic {basic}",
            f"POST /eth HTTP/1.1\r\ncookie: apikey={key}",
            f"POST /eth HTTP/1.1\r\nx-api-key: {key}",
            f"POST /eth HTTP/1.1\r\napikey: {key}x",
            f"POST /eth HTTP/1.1\r\napikey: {key}\r\napikey: {KEYS['two']}",
            f"PUT /eth?x=1&apikey={quoted} HTTP/1.1",
        ):
            try:
                answers.append((await Client(gateway, key).exchange(head, body))[2])
            except (asyncio.IncompleteReadError, ConnectionError):
                pass
        for wrong in (b"{", key.encode(), json.dumps({"jsonrpc": "2.0", "id": key, "method": "no_such"}).encode()):
            try:
                _, _, answer = await Client(gateway, key).post(wrong)
                answers.append(answer.replace(json.dumps(key).encode(), b'"its own id"'))
            except (asyncio.IncompleteReadError, ConnectionError):
                pass
        node.mode = "cut head"
        answers.append(json.dumps((await clients.call("eth_getBalance", ["0x1"]))[2]).encode())

        reader, writer = await asyncio.open_connection("127.0.0.1", pages)
        writer.write(b"GET /metrics HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n")
        metrics = await reader.read()
        writer.close()
        run.must(45, b"rpcgate_" in metrics, "the page of metrics is there")
        owner.close()
        visitor.close()
        places = {"the gateway's log": gateway.heard(), "the management side's log": admin.heard(), "metrics": metrics.decode()}
    places["answers"] = b"\n".join(answers).decode(errors="replace")
    run.must(45, all(len(places[log]) > 1_000 for log in list(places)[:2]), "something is logged")
    told = 0
    for name, secret in secrets.items():
        for form in {secret, urllib.parse.quote(secret, safe=""), base64.b64encode(secret.encode()).decode()[:24]}:
            for place, text in places.items():
                told += form in text
                run.must(45, form not in text, f"{name} is in {place}: {around(text, form)}")
    sizes = ", ".join(f"{place} of {len(text):,}" for place, text in places.items())
    run.say(45, f"of {len(secrets)} secrets that are told ({sizes} characters)", told, 0, "")


async def again(visitor, email, code):
    """Returns the access token of a new log-in with this recovery code."""
    pending = await first_step(visitor, email)
    _, _, answer = await visitor.post("mfa/verify", {"mfa_token": pending, "recovery_code": code})
    return json.loads(answer)["token"]


def around(text, form):
    at = text.find(form)
    return text[max(0, at - 200) : at + 20].replace(form, "…") if at >= 0 else ""
