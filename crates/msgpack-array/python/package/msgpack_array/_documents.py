"""Whole documents with arrays in them: maps and lists are walked here, what is in them is packed by `msgpack` and by `pack`.

An array has no mark of its own in MessagePack, so a document does not say which of its arrays were NumPy's: `unpackb` is
told where to make some. Hooks and extension types are not needed for any of it, and stay the caller's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from msgpack_array._native import DecodeError, pack_to, unpack_from

if TYPE_CHECKING:
    from typing_extensions import Buffer

Dtypes = Union[str, type, "np.dtype[Any]", Mapping[Any, "Dtypes"], "list[Dtypes]"]
"""Where a document has arrays: a dtype for an array, a mapping of keys for a map, a list with one element for every element
of an array."""

_NIL = 0xC0


def packb(document: Any, **options: Any) -> bytes:
    """The document as bytes, as `msgpack.packb` makes them, with NumPy's arrays and numbers anywhere in it.

    `options` are those of `msgpack.Packer`. Floats of float32 arrays stay of 4 bytes. An array of uint8 is an array as any
    other; for `bin`, put `memoryview(array)` or `array.tobytes()` into the document.
    """
    import msgpack

    out = bytearray()
    _write(msgpack.Packer(**options), document, out)
    return bytes(out)


def unpackb(data: Buffer, dtypes: Dtypes, **options: Any) -> Any:
    """The document in `data`, as `msgpack.unpackb` reads it, with NumPy arrays where `dtypes` says so.

    `{"time_ms": .., "sessions": {"rtt_ms": [..]}}` gets one by `dtypes={"sessions": {"rtt_ms": "float32"}}`, and a document that
    is an array itself by a dtype alone. Keys that the document does not have are of no matter; nil stays None. `options` are
    those of `msgpack.Unpacker`; what they say about maps and lists holds for those that `dtypes` does not mention.

    Raises DecodeError where `dtypes` asks for something else than there is, and what `msgpack.unpackb` raises.
    """
    import msgpack

    view = memoryview(data).cast("B")
    options.setdefault("max_buffer_size", len(view))
    unpacker = msgpack.Unpacker(**options)
    unpacker.feed(view)
    try:
        document = _read(unpacker, view, dtypes, options.get("strict_map_key", True))
    except msgpack.OutOfData:
        raise ValueError("the bytes end before the document does") from None
    if unpacker.tell() != len(view):
        raise msgpack.ExtraData(document, bytes(view[unpacker.tell() :]))
    return document


def _write(packer: Any, value: Any, out: bytearray) -> None:
    if isinstance(value, dict):
        out += packer.pack_map_header(len(value))
        for key, element in value.items():
            out += packer.pack(key)
            _write(packer, element, out)
    elif isinstance(value, (list, tuple)) and any(isinstance(element, _WALKED) for element in value):
        out += packer.pack_array_header(len(value))
        for element in value:
            _write(packer, element, out)
    elif isinstance(value, _NUMPY):
        pack_to(value, out)
    else:
        out += packer.pack(value)


_NUMPY = (np.ndarray, np.bool_, np.integer, np.floating)
_WALKED = (dict, list, tuple, *_NUMPY)


def _read(unpacker: Any, data: memoryview, dtypes: Dtypes, strict_map_key: bool) -> Any:
    start = unpacker.tell()
    if start < len(data) and data[start] == _NIL:
        return unpacker.unpack()
    if isinstance(dtypes, Mapping):
        return _read_map(unpacker, data, dtypes, strict_map_key)
    if isinstance(dtypes, list):
        if len(dtypes) != 1:
            raise TypeError("a list in dtypes has one element, which is for every element of the array")
        count = _header(unpacker.read_array_header, "an array")
        return [_read(unpacker, data, dtypes[0], strict_map_key) for _ in range(count)]
    array, end = unpack_from(data, start, dtypes)
    unpacker.read_bytes(end - start)
    return array


def _read_map(unpacker: Any, data: memoryview, dtypes: Mapping[Any, Dtypes], strict_map_key: bool) -> dict[Any, Any]:
    result = {}
    for _ in range(_header(unpacker.read_map_header, "a map")):
        key = unpacker.unpack()
        if strict_map_key and not isinstance(key, (str, bytes)):
            raise ValueError(f"{type(key).__name__} is not allowed for map key when strict_map_key=True")
        wanted = dtypes.get(key)
        result[key] = unpacker.unpack() if wanted is None else _read(unpacker, data, wanted, strict_map_key)
    return result


def _header(read: Any, what: str) -> int:
    """Of a map or an array; the unpacker says `Unexpected type header on stream` when there is none."""
    try:
        return int(read())
    except ValueError as error:
        raise DecodeError(f"dtypes asks for {what}, and there is something else") from error
