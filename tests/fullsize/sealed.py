"""Values as the management side seals them: ChaCha20-Poly1305 (RFC 8439) under a key derived from `admin.jwt.secret`.
"""

import hashlib
import hmac
import os
import struct

MASK = 0xFFFFFFFF


def quarter(s, a, b, c, d):
    for x, y, z, by in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        s[x] = (s[x] + s[y]) & MASK
        turned = s[z] ^ s[x]
        s[z] = ((turned << by) | (turned >> (32 - by))) & MASK


def block(key, counter, nonce):
    start = list(struct.unpack("<16I", b"expand 32-byte k" + key + struct.pack("<I", counter) + nonce))
    s = start[:]
    for _ in range(10):
        for column in ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)):
            quarter(s, *column)
        for diagonal in ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)):
            quarter(s, *diagonal)
    return struct.pack("<16I", *((a + b) & MASK for a, b in zip(s, start)))


def padded(data):
    return data + bytes(-len(data) % 16)


def tag(one_time, data):
    r = int.from_bytes(one_time[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    total = 0
    for at in range(0, len(data), 16):
        total = (total + int.from_bytes(data[at : at + 16] + b"\1", "little")) * r % ((1 << 130) - 5)
    return ((total + int.from_bytes(one_time[16:32], "little")) & ((1 << 128) - 1)).to_bytes(16, "little")


def sealed(jwt_secret, table, row, value):
    """Seals `value` for the row with this id (16 bytes) of a table."""
    key = hmac.new(jwt_secret.encode(), b"rpcgate sealed values", hashlib.sha256).digest()
    nonce, about = os.urandom(12), f"{table} {row.hex()}".encode()
    stream = b"".join(block(key, 1 + n, nonce) for n in range(-(-len(value) // 64)))
    hidden = bytes(a ^ b for a, b in zip(value, stream))
    lengths = struct.pack("<QQ", len(about), len(hidden))
    return nonce + hidden + tag(block(key, 0, nonce), padded(about) + padded(hidden) + lengths)
