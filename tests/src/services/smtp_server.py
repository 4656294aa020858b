"""A mail server (aiosmtpd) that prints its port, and then each mail as a line of JSON, until its input ends.

Arguments: the port or 0, `plain`, `starttls` or `implicit`, then for TLS the files of a certificate and its key. The user is "post" with
the password "p:w%". The recipient "gone@…" is refused.
"""

import asyncio
import json
import ssl
import sys

from aiosmtpd.smtp import SMTP, AuthResult


class Handler:
    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.startswith("gone@"):
            return "550 5.1.1 no such recipient"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        encrypted = server.transport.get_extra_info("cipher") is not None
        mail = {
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "encrypted": encrypted,
            "user": session.auth_data,
            "content": envelope.content.decode("ascii"),
        }
        print(json.dumps(mail), flush=True)
        return "250 OK"


def authenticate(server, session, envelope, mechanism, data):
    if (data.login, data.password) == (b"post", b"p:w%"):
        return AuthResult(success=True, auth_data="post")
    return AuthResult(success=False, handled=False)


async def main(port, mode, *files):
    context = None
    if files:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*files)
    starttls = mode == "starttls"

    def protocol():
        return SMTP(
            Handler(),
            hostname="localhost",
            tls_context=context if starttls else None,
            require_starttls=starttls,
            authenticator=authenticate,
            auth_required=bool(files),
            auth_require_tls=starttls,
        )

    loop = asyncio.get_running_loop()
    server = await loop.create_server(protocol, "127.0.0.1", int(port), ssl=context if mode == "implicit" else None)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


asyncio.run(main(*sys.argv[1:]))
