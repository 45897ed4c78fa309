"""What the tests have in common: types, the values at which encodings change, arrays of every length, and every encoding of
a number by hand (MessagePack specification, int and float format families)."""

import functools
import struct

import numpy as np

import msgpack_array

ISAS = msgpack_array.instruction_sets()
SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
INTEGERS = SIGNED + UNSIGNED
FLOATS = ["float32", "float64"]
DTYPES = ["bool", *INTEGERS, *FLOATS]
LENGTHS = [*range(301), 65535, 65536]

# Where an integer's shortest form changes, and where types end.
EDGES = [0, 0x80, 0x100, 0x8000, 0x1_0000, 1 << 31, 1 << 32, 1 << 63, 1 << 64]
EDGES += [-0x20, -0x80, -0x8000, -(1 << 31), -(1 << 63)]
AROUND_EDGES = sorted({edge + offset for edge in EDGES for offset in (-2, -1, 0, 1)})


def integers_of(dtype):
    """Those around the edges that `dtype` has."""
    info = np.iinfo(dtype)
    return [value for value in AROUND_EDGES if info.min <= value <= info.max]


def array_of(dtype, length, seed=0):
    """An array in which every width occurs, in no order."""
    random = np.random.default_rng([seed, length])
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return random.integers(0, 2, length).astype(bool)
    if dtype.kind == "f":
        bits = random.integers(0, 1 << (8 * dtype.itemsize), length, dtype=f"u{dtype.itemsize}")
        return bits.view(dtype)
    info = np.iinfo(dtype)
    values = random.integers(info.min, info.max, length, dtype=dtype, endpoint=True)
    return values >> random.integers(0, 8 * dtype.itemsize, length).astype(dtype)


def expected(array):
    """The bytes of an array of one dimension, without this package and without msgpack where that changes floats."""
    length = len(array)
    if length <= 15:
        header = bytes([0x90 | length])
    else:
        header = struct.pack(">BH", 0xDC, length) if length <= 0xFFFF else struct.pack(">BI", 0xDD, length)
    if array.dtype.kind == "f":
        marker, bits = (0xCA, "u4") if array.dtype.itemsize == 4 else (0xCB, "u8")
        records = np.empty(length, [("marker", "u1"), ("bits", f">{bits}")])
        records["marker"], records["bits"] = marker, np.ascontiguousarray(array).view(bits)
        return header + records.tobytes()
    return header + b"".join(map(shortest, array.tolist()))


@functools.lru_cache(1 << 20, typed=True)
def shortest(value):
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    return min(all_forms(value), key=len)


def all_forms(value):
    """Every encoding of an integer, of a positive one the unsigned before the signed of the same length."""
    forms = [struct.pack(">b", value)] if -0x20 <= value <= 0x7F else []
    for marker, code in ((0xCC, "B"), (0xCD, "H"), (0xCE, "I"), (0xCF, "Q"), (0xD0, "b"), (0xD1, "h"), (0xD2, "i"), (0xD3, "q")):
        try:
            forms.append(bytes([marker]) + struct.pack(f">{code}", value))
        except struct.error:
            continue
    return forms


def same(left, right):
    """Whether both have the same type, shape and bits."""
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
