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

Dtypes = Union[str, type, "np.dtype[Any]", Mapping[Any, "Dtypes"], "list[Dtypes]", None]
"""Where a document has arrays: a dtype for an array, a mapping of keys for a map, a list with one element for every element
of an array, None for what is read as `msgpack` reads it."""

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


def unpackb(data: Buffer, dtypes: Dtypes = None, *, allow_missing: bool = False, **options: Any) -> Any:
    """The document in `data`, as `msgpack.unpackb` reads it, with NumPy arrays where `dtypes` says so.

    `{"time_ms": .., "sessions": {"rtt_ms": [..]}}` gets one by `dtypes={"sessions": {"rtt_ms": "float32"}}`, and a document that
    is an array itself by a dtype alone. nil stays None. A key of `dtypes` that the document does not have is an error, unless
    `allow_missing`. `options` are those of `msgpack.Unpacker`; what they say about maps and lists holds for those that `dtypes`
    does not mention.

    Raises DecodeError where `dtypes` asks for something else than there is, which begins with where that is:
    "sessions.rtt_ms: element 3: ..". And what `msgpack.unpackb` raises.
    """
    import msgpack

    view = memoryview(data).cast("B")
    options.setdefault("max_buffer_size", len(view))
    unpacker = msgpack.Unpacker(**options)
    unpacker.feed(view)
    try:
        document = _Reader(unpacker, view, allow_missing, options.get("strict_map_key", True)).read(dtypes, ())
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


class _Reader:
    """Reads a document by its dtypes; a path is the keys and indices that lead to a part of it."""

    def __init__(self, unpacker: Any, data: memoryview, allow_missing: bool, strict_map_key: bool) -> None:
        self.unpacker = unpacker
        self.data = data
        self.allow_missing = allow_missing
        self.strict_map_key = strict_map_key

    def read(self, dtypes: Dtypes, path: tuple[Any, ...]) -> Any:
        start = self.unpacker.tell()
        if dtypes is None or (start < len(self.data) and self.data[start] == _NIL):
            return self.unpacker.unpack()
        if isinstance(dtypes, Mapping):
            return self.read_map(dtypes, path)
        if isinstance(dtypes, list):
            if len(dtypes) != 1:
                raise TypeError("a list in dtypes has one element, which is for every element of the array")
            count = _header(self.unpacker.read_array_header, "an array", path)
            return [self.read(dtypes[0], (*path, index)) for index in range(count)]
        try:
            array, end = unpack_from(self.data, start, dtypes)
        except DecodeError as error:
            raise _refused(path, str(error), error.index) from None
        self.unpacker.read_bytes(end - start)
        return array

    def read_map(self, dtypes: Mapping[Any, Dtypes], path: tuple[Any, ...]) -> dict[Any, Any]:
        result = {}
        for _ in range(_header(self.unpacker.read_map_header, "a map", path)):
            key = self.unpacker.unpack()
            if self.strict_map_key and not isinstance(key, (str, bytes)):
                raise ValueError(f"{type(key).__name__} is not allowed for map key when strict_map_key=True")
            wanted = dtypes.get(key)
            result[key] = self.unpacker.unpack() if wanted is None else self.read(wanted, (*path, key))
        for key in dtypes:
            if not self.allow_missing and key not in result:
                raise _refused((*path, key), "in dtypes, and not in the document")
        return result


def _header(read: Any, what: str, path: tuple[Any, ...]) -> int:
    """Of a map or an array; the unpacker says `Unexpected type header on stream` when there is none."""
    try:
        return int(read())
    except ValueError:
        raise _refused(path, f"dtypes asks for {what}, and there is something else") from None


def _refused(path: tuple[Any, ...], why: str, index: int | None = None) -> DecodeError:
    where = ""
    for step in path:
        where += (f".{step}" if where else step) if isinstance(step, str) else f"[{step!r}]"
    error = DecodeError(f"{where}: {why}" if path else why)
    error.index = index
    return error
