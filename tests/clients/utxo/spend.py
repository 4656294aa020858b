"""Signs a transaction that spends a block's reward, with python-bitcoinlib."""

import hashlib

from bitcoin.core import CMutableTransaction, CMutableTxIn, CMutableTxOut, COutPoint, CTxInWitness, CTxWitness, lx
from bitcoin.core.key import CECKey
from bitcoin.core.script import (
    OP_CHECKSIG, OP_DUP, OP_EQUALVERIFY, OP_HASH160, SIGHASH_ALL, SIGVERSION_WITNESS_V0, CScript, CScriptWitness,
    SignatureHash,
)

#: In 10^-8 coins.
FEE = 100_000


class Owner:
    """The owner of a secret key, given as a number."""

    def __init__(self, secret):
        self.key = CECKey()
        self.key.set_secretbytes(secret.to_bytes(32, "big"))
        self.key.set_compressed(True)
        self.public = self.key.get_pubkey()
        self.hash = hashlib.new("ripemd160", hashlib.sha256(self.public).digest()).digest()
        self.script = CScript([OP_DUP, OP_HASH160, self.hash, OP_EQUALVERIFY, OP_CHECKSIG])

    def spend(self, txid, vout, value, script):
        """Returns a signed transaction that pays an output of `value` back to its owner, less the fee."""
        script = CScript(script)
        tx = CMutableTransaction([CMutableTxIn(COutPoint(lx(txid), vout))], [CMutableTxOut(value - FEE, self.script)])
        if script == self.script:
            tx.vin[0].scriptSig = CScript([self.sign(SignatureHash(script, tx, 0, SIGHASH_ALL)), self.public])
        elif script == CScript([0, self.hash]):
            digest = SignatureHash(self.script, tx, 0, SIGHASH_ALL, value, SIGVERSION_WITNESS_V0)
            witness = CScriptWitness([self.sign(digest), self.public])
            tx.wit = CTxWitness([CTxInWitness(witness)])
        else:
            raise ValueError(f"no way to spend {script!r}")
        return tx

    def sign(self, digest):
        return self.key.sign(digest) + bytes([SIGHASH_ALL])
