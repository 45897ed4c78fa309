"""Arrays between other things: in documents of this package's, and by hand beside msgpack's Packer and Unpacker."""

import msgpack
import numpy as np
import pytest
from vectors import DTYPES, array_of, same

import msgpack_array
from msgpack_array import DecodeError, packb, unpackb


def document():
    return {
        "version": 1,
        "names": ["a", "b"],
        "columns": {dtype: array_of(dtype, 40) for dtype in DTYPES if not dtype.startswith("float")},
        "points": [{"xy": np.arange(4.0).reshape(2, 2)}, {"xy": np.arange(6.0).reshape(3, 2)}],
        "numbers": (np.int64(-5), np.float64(0.5), np.bool_(True), np.uint8(200)),
        "nothing": None,
        "raw": memoryview(b"raw"),
        7: {b"bytes": np.zeros(0, "int32")},
    }


def plain(value):
    """With lists for arrays."""
    if isinstance(value, dict):
        return {key: plain(element) for key, element in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(element) for element in value]
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def test_a_document_is_packed_as_msgpack_packs_it_with_lists():
    assert packb(document()) == msgpack.packb(plain(document()))
    assert packb(array_of("int16", 300)) == msgpack.packb(array_of("int16", 300).tolist())
    assert packb([]) == b"\x90" and packb(None) == b"\xc0" and packb({}) == b"\x80"


def test_options_are_those_of_the_packer():
    assert packb({"a": 1.5, "b": [np.zeros(1)]}, use_single_float=True) == b"\x82\xa1a\xca\x3f\xc0\0\0\xa1b\x91\x91\xcb" + bytes(8)
    assert packb([{1}, np.zeros(0)], default=sorted) == b"\x92\x91\x01\x90"
    with pytest.raises(TypeError):
        packb([{1}, np.zeros(0)])
    with pytest.raises(TypeError):
        packb({"a": np.zeros(2, "float16")})


def test_arrays_come_back_where_dtypes_says_so():
    packed = packb(document())
    dtypes = {"columns": {dtype: dtype for dtype in document()["columns"]}, "nothing": "int8", "absent": {"x": "int8"}}
    found = unpackb(packed, dtypes, strict_map_key=False)
    for dtype, array in document()["columns"].items():
        assert same(found["columns"].pop(dtype), array)
    expected = plain(document())
    expected["columns"], expected["raw"] = {}, b"raw"
    assert found == expected


def test_a_list_is_for_every_element():
    packed = packb({"rows": [array_of("int32", n) for n in range(20)], "maps": [{"x": array_of("int8", 3)}, {}]})
    found = unpackb(packed, {"rows": ["int32"], "maps": [{"x": "int8"}]})
    assert all(same(row, array_of("int32", n)) for n, row in enumerate(found["rows"]))
    assert same(found["maps"][0]["x"], array_of("int8", 3)) and found["maps"][1] == {}
    assert same(unpackb(msgpack.packb([1, 2]), np.uint8), np.array([1, 2], "uint8"))


def test_every_part_of_a_document_is_refused():
    packed = packb({"a": array_of("int32", 40), "b": [1, {"c": 2}]})
    for length in range(len(packed)):
        with pytest.raises(ValueError):
            unpackb(packed[:length], {"a": "int32"})
    with pytest.raises(msgpack.ExtraData) as failure:
        unpackb(packed + b"\x07\x08", {"a": "int32"})
    assert failure.value.extra == b"\x07\x08" and same(failure.value.unpacked["a"], array_of("int32", 40))


def test_other_things_than_dtypes_asks_for_are_refused():
    packed = msgpack.packb({"a": [1, 2], "m": {"x": [300]}})
    for dtypes in ({"a": {"x": "int8"}}, {"m": ["int8"]}, {"m": "int8"}, {"m": {"x": "int8"}}):
        with pytest.raises(DecodeError):
            unpackb(packed, dtypes)
    with pytest.raises(TypeError):
        unpackb(packed, {"a": ["int8", "int16"]})
    with pytest.raises(ValueError, match="strict_map_key"):
        unpackb(msgpack.packb({1: [2]}), {1: "int8"})
    # A billion maps in a few bytes are no work.
    with pytest.raises(ValueError):
        unpackb(b"\xdd\xff\xff\xff\xff\x80", [{"x": "int8"}])


def test_by_hand_beside_msgpack():
    packer, out = msgpack.Packer(), bytearray()
    times, names = np.linspace(0, 1, 50), ["a", "b"]
    out += packer.pack_map_header(2)
    out += packer.pack("times")
    msgpack_array.pack_to(times, out)
    out += packer.pack("names")
    out += packer.pack(names)
    assert msgpack.unpackb(out) == {"times": times.tolist(), "names": names}

    unpacker = msgpack.Unpacker()
    unpacker.feed(out)
    assert unpacker.read_map_header() == 2 and unpacker.unpack() == "times"
    array, end = msgpack_array.unpack_from(out, unpacker.tell(), "float64")
    unpacker.read_bytes(end - unpacker.tell())
    assert same(array, times) and unpacker.unpack() == "names" and unpacker.unpack() == names


def test_arrays_one_after_the_other():
    packed = b"".join(msgpack_array.pack(array_of(dtype, 33)) for dtype in DTYPES)
    offset = 0
    for dtype in DTYPES:
        array, offset = msgpack_array.unpack_from(packed, offset, dtype)
        assert same(array, array_of(dtype, 33))
    assert offset == len(packed)
