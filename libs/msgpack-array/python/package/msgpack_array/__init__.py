"""MessagePack arrays of numbers at memory speed, for NumPy.

`pack` and `unpack` are for one array, `pack_to` and `unpack_from` for arrays between other things, `packb` and `unpackb`
for whole documents. What is not numbers is left to the package `msgpack`, which only these last two need.
"""

from msgpack_array._documents import Dtypes, packb, unpackb
from msgpack_array._native import DecodeError, instruction_sets, pack, pack_to, unpack, unpack_from

__all__ = [
    "DecodeError",
    "Dtypes",
    "instruction_sets",
    "pack",
    "pack_to",
    "packb",
    "unpack",
    "unpack_from",
    "unpackb",
]
