"""Reads a gateway's journal by the documentation of its format (rpcgate_core::journal)."""

import collections
import struct
import uuid
import zlib


class Numbers:
    """Names and their numbers in a sequence of frames."""

    def __init__(self):
        self.known = []

    def read(self, cursor, definition):
        reference = cursor.number()
        if 0 < reference <= len(self.known):
            return self.known[reference - 1]
        value = definition(cursor)
        if reference:
            self.known.append(value)
        return value


class Cursor:
    """The rest of a payload."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def bytes(self, length):
        self.at += length
        return self.data[self.at - length : self.at]

    def number(self):
        number = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number


OUTCOMES = ("answered", "node error", "refused", "failed", "abandoned")
Line = collections.namedtuple("Line", "method cu status outcome cached calls bytes_in bytes_out")
Event = collections.namedtuple("Event", "request party chain windowed lines end")


def events(data):
    """Returns the events in a sequence of frames, up to the first incomplete one. `end` is the end of the last one."""
    parties, chains, methods = Numbers(), Numbers(), Numbers()
    at, name = 0, lambda cursor: cursor.bytes(cursor.number())
    while len(data) - at >= 8:
        length, checksum = struct.unpack_from("<II", data, at)
        payload = data[at + 8 : at + 8 + length]
        if length == 0 or len(payload) < length or zlib.crc32(payload) != checksum:
            return
        at += 8 + length
        cursor = Cursor(payload)
        bits = cursor.bytes(1)[0]
        request = uuid.UUID(bytes=cursor.bytes(16))
        party, _ = parties.read(cursor, lambda cursor: (cursor.bytes(49), cursor.number()))
        chain = chains.read(cursor, name).decode()
        cursor.number(), cursor.number()  # arrival, latency
        windowed = cursor.number() if bits & 16 else 1
        lines = []
        while cursor.at < length:
            flags = cursor.bytes(1)[0]
            method, cu = methods.read(cursor, name).decode(errors="replace"), cursor.number()
            status = cursor.number() if flags & 16 else 200
            calls = cursor.number() if flags & 32 else 1
            lines.append(Line(method, cu, status, OUTCOMES[flags & 7], bool(flags & 8), calls, cursor.number(), cursor.number()))
        yield Event(request, party, chain, windowed, lines, at)


def frames(block):
    """Returns the frames of a block: each payload is stored without the bytes that it shares with the previous one."""
    form, checksum = struct.unpack_from("<BI", block)
    rest = block[5:]
    if form != 2 or zlib.crc32(rest) != checksum:
        raise ValueError("damaged block")
    cursor, former, whole = Cursor(rest), b"", bytearray()
    while cursor.at < len(rest):
        length = cursor.number()
        payload = bytearray(former[:length].ljust(length, b"\0"))
        for start in range(0, length, 8):
            differs = cursor.bytes(1)[0]
            for bit in range(8):
                if differs >> bit & 1:
                    payload[start + bit] = cursor.bytes(1)[0]
        whole += struct.pack("<II", length, zlib.crc32(payload)) + payload
        former = payload
    return bytes(whole)
