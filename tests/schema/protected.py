"""Users with a second factor."""

import base64
import hmac
import time

from passkey import Passkey
from people import PASSWORD, Person


def app_code(secret):
    """Returns the code that an authenticator app with this secret shows now (RFC 6238)."""
    step = int(time.time()) // 30
    digest = hmac.digest(base64.b32decode(secret), step.to_bytes(8, "big"), "sha1")
    offset = digest[-1] & 15
    number = int.from_bytes(digest[offset : offset + 4], "big") & 0x7FFFFFFF
    return f"{number % 1_000_000:06}"


class ProtectedPerson(Person):
    """A user with a passkey, which answers every request for a second factor."""

    def __init__(self, site, address):
        super().__init__(site, address)
        self.passkey = None
        begun = self.begun_registration()
        self.passkey_id = self.ask("POST", "/auth/passkeys/register/finish", begun)["passkey"]["id"]

    def answer(self, ceremony):
        """Returns the second half of a ceremony."""
        return {"ceremony": ceremony["ceremony"], "credential": self.passkey.answer(ceremony["options"])}

    def factor(self):
        """Returns the passkey as a member of a body."""
        return {"passkey": self.answer(self.ask("POST", "/auth/passkeys/factor/start"))}

    def begun_registration(self):
        """Begins to add a passkey and returns the body that completes it."""
        given = self.factor() if self.passkey else {"current_password": self.password}
        ceremony = self.ask("POST", "/auth/passkeys/register/start", given)
        added = Passkey(ceremony["options"])
        self.passkey = self.passkey or added
        return {"ceremony": ceremony["ceremony"], "credential": added.registration, "name": "of the tests"}

    def further_passkeys(self):
        """Returns the identifiers of all other passkeys."""
        return [one["id"] for one in self.ask("GET", "/auth/passkeys") if one["id"] != self.passkey_id]

    def further_passkey(self):
        """Returns the identifier of a second passkey; adds one if necessary."""
        if further := self.further_passkeys():
            return further[0]
        return self.ask("POST", "/auth/passkeys/register/finish", self.begun_registration())["passkey"]["id"]

    def another_registration(self):
        """Removes the other passkeys and returns the body that completes the registration of a new one."""
        for passkey in self.further_passkeys():
            self.ask("DELETE", f"/auth/passkeys/{passkey}", self.factor())
        return self.begun_registration()

    def has_app(self):
        return self.ask("GET", "/auth/mfa")["totp"]

    def activation(self):
        """Disables the authenticator app, if any, and returns the body that activates a new one."""
        if self.has_app():
            self.ask("POST", "/auth/mfa/totp/disable", self.factor())
        offered = self.ask("POST", "/auth/mfa/totp/enroll", {"current_password": self.password})
        return {"code": app_code(offered["secret"]), **self.factor()}

    def deactivation(self):
        """Returns the body that disables the authenticator app; activates one if necessary."""
        if not self.has_app():
            self.ask("POST", "/auth/mfa/totp/activate", self.activation())
        return self.factor()

    def pending_log_in(self):
        """Returns the token of a log-in that waits for the second factor."""
        return self.site.login(self.address, PASSWORD)["mfa_token"]

    def second_step(self):
        """Returns the body that completes a log-in."""
        token = self.pending_log_in()
        ceremony = self.site.ask("POST", "/auth/passkeys/login/start", {"mfa_token": token})
        return {"mfa_token": token, "passkey": self.answer(ceremony)}

    def log_in(self):
        """Returns the body of a log-in without a password."""
        return self.answer(self.site.ask("POST", "/auth/passkeys/login/start", {}))
