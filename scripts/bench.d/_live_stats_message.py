"""Reads a message of the live statistics: MessagePack as far as it occurs there, without a package to install."""

import struct

# Marker: length of the payload and how struct reads it.
NUMBERS = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
}
# Marker: what follows and how its length is read.
SIZED = {
    0xD9: ("text", ">B"), 0xDA: ("text", ">H"), 0xDB: ("text", ">I"), 0xDC: ("array", ">H"), 0xDD: ("array", ">I"),
    0xDE: ("map", ">H"), 0xDF: ("map", ">I"),
}


def unpack(data):
    """The value that all of `data` is."""
    value, end = value_at(data, 0)
    if end != len(data):
        raise ValueError(f"{len(data) - end} bytes behind the message")
    return value


def value_at(data, at):
    """The value at `at`, and where it ends."""
    marker = data[at]
    at += 1
    if marker <= 0x7F:
        return marker, at
    if marker >= 0xE0:
        return marker - 256, at
    if marker in NUMBERS:
        layout = NUMBERS[marker]
        return struct.unpack_from(layout, data, at)[0], at + struct.calcsize(layout)
    if marker in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[marker], at
    if marker in SIZED:
        kind, layout = SIZED[marker]
        count = struct.unpack_from(layout, data, at)[0]
        at += struct.calcsize(layout)
    elif marker <= 0x8F:
        kind, count = "map", marker & 15
    elif marker <= 0x9F:
        kind, count = "array", marker & 15
    elif marker <= 0xBF:
        kind, count = "text", marker & 31
    else:
        raise ValueError(f"byte {marker:#04x} is not used in messages of the statistics")
    if kind == "text":
        return data[at : at + count].decode(), at + count
    if kind == "array":
        return values_at(data, at, count)
    flat, at = values_at(data, at, 2 * count)
    return dict(zip(flat[::2], flat[1::2])), at


def values_at(data, at, count):
    values = []
    for _ in range(count):
        value, at = value_at(data, at)
        values.append(value)
    return values, at
