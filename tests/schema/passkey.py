"""A passkey without a device: answers as a browser does whose user has unlocked the authenticator (W3C Web
Authentication)."""

import secrets

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from fido2.cose import ES256
from fido2.utils import sha256, websafe_decode
from fido2.webauthn import (
    Aaguid,
    AttestationObject,
    AttestedCredentialData,
    AuthenticationResponse,
    AuthenticatorAssertionResponse,
    AuthenticatorAttestationResponse,
    AuthenticatorData,
    CollectedClientData,
    RegistrationResponse,
)

FLAG = AuthenticatorData.FLAG


class Passkey:
    """A passkey of a user at a site at `https://` and its host name."""

    def __init__(self, options):
        """Creates the passkey that the options of a registration request."""
        options = options["publicKey"]
        self.site = options["rp"]["id"]
        self.user = websafe_decode(options["user"]["id"])
        self.id = secrets.token_bytes(32)
        self.key = ec.generate_private_key(ec.SECP256R1())
        public = ES256.from_cryptography_key(self.key.public_key())
        made = AttestedCredentialData.create(Aaguid.NONE, self.id, public)
        client = self._client(CollectedClientData.TYPE.CREATE, options)
        attestation = AttestationObject.create("none", self._data(FLAG.AT, made), {})
        response = AuthenticatorAttestationResponse(client_data=client, attestation_object=attestation)
        #: The answer that completes the registration.
        self.registration = dict(RegistrationResponse(raw_id=self.id, response=response))

    def answer(self, options):
        """Returns the answer to the options of a log-in."""
        client, data = self._client(CollectedClientData.TYPE.GET, options["publicKey"]), self._data()
        response = AuthenticatorAssertionResponse(
            client_data=client,
            authenticator_data=data,
            signature=self.key.sign(data + client.hash, ec.ECDSA(hashes.SHA256())),
            user_handle=self.user,
        )
        return dict(AuthenticationResponse(raw_id=self.id, response=response))

    def _client(self, kind, options):
        return CollectedClientData.create(kind, options["challenge"], f"https://{self.site}")

    def _data(self, flags=FLAG(0), made=b""):
        # A counter that stays 0 counts nothing, as for passkeys that are on several devices.
        return AuthenticatorData.create(sha256(self.site.encode()), FLAG.UP | FLAG.UV | flags, 0, made)
