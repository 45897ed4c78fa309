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
    dtypes = {"columns": {dtype: dtype for dtype in document()["columns"]}, "nothing": "int8", "names": None}
    found = unpackb(packed, dtypes, strict_map_key=False)
    for dtype, array in document()["columns"].items():
        assert same(found["columns"].pop(dtype), array)
    expected = plain(document())
    expected["columns"], expected["raw"] = {}, b"raw"
    assert found == expected


def test_a_list_is_for_every_element():
    packed = packb({"rows": [array_of("int32", n) for n in range(20)], "maps": [{"x": array_of("int8", 3)}, {}]})
    found = unpackb(packed, {"rows": ["int32"], "maps": [{"x": "int8"}]}, allow_missing=True)
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


def test_errors_say_where_in_the_document():
    packed = packb({"sessions": {"rtt_ms": [1, 2.5]}, "rows": [[1], [2, 3, 400]], "maps": [{"x": [1]}, {"x": [[1]]}], "t": 0.5})
    cases = [
        ({"sessions": {"rtt_ms": "int8"}}, "sessions.rtt_ms: element 1: byte 0xcb begins a value of another type than dtype int8", 1),
        ({"rows": ["int8"]}, "rows[1]: element 2: dtype int8 cannot hold the value exactly", 2),
        ({"rows": "int8"}, "rows: element 0: byte 0x91 begins a value of another type than dtype int8: rows need ndim=2", 0),
        ({"maps": [{"x": "int8"}]}, "maps[1].x: element 0: byte 0x91 ", 0),
        ({"sessions": {"rtt_ms": {"a": "int8"}}}, "sessions.rtt_ms: dtypes asks for a map, and there is something else", None),
        ({"t": ["int8"]}, "t: dtypes asks for an array, and there is something else", None),
        ({"t": "int8"}, "t: byte 0xcb does not begin an array", None),
        ("int8", "byte 0x84 does not begin an array", None),
    ]  # fmt: skip
    for dtypes, words, index in cases:
        with pytest.raises(DecodeError) as failure:
            unpackb(packed, dtypes)
        assert str(failure.value).startswith(words) and failure.value.index == index, failure.value
    with pytest.raises(DecodeError) as failure:
        unpackb(packb({7: {b"b": [300]}}), {7: {b"b": "int8"}}, strict_map_key=False)
    assert str(failure.value).startswith("[7][b'b']: element 0: ")


def test_keys_that_the_document_does_not_have_are_refused_unless_allowed():
    packed = packb({"sessions": {"rtt_ms": np.zeros(2)}, "maps": [{"x": np.zeros(1)}, {}]})
    for dtypes, words in (
        ({"session": "int8"}, "session: in dtypes, and not in the document"),
        ({"sessions": {"rtt": "float64"}}, "sessions.rtt: in dtypes, and not in the document"),
        ({"maps": [{"x": "float64"}]}, "maps[1].x: in dtypes, and not in the document"),
    ):
        with pytest.raises(DecodeError) as failure:
            unpackb(packed, dtypes)
        assert str(failure.value) == words and failure.value.index is None
        unpackb(packed, dtypes, allow_missing=True)
    found = unpackb(packed, {"sessions": {"rtt_ms": "float64", "rtt": "int8"}, "more": {"x": "int8"}}, allow_missing=True)
    assert same(found["sessions"].pop("rtt_ms"), np.zeros(2)) and found == {"sessions": {}, "maps": [{"x": [0.0]}, {}]}


def test_without_dtypes_it_reads_as_msgpack_does():
    for value in (plain(document()) | {7: 0}, [1, [2.5]], None, "text", {}):
        packed = packb(value)
        assert unpackb(packed, strict_map_key=False) == msgpack.unpackb(packed, strict_map_key=False)
    assert unpackb(packb({"a": (1, 2)}), use_list=False) == {"a": (1, 2)}
    with pytest.raises(ValueError):
        unpackb(b"\x92\x01")
    with pytest.raises(msgpack.ExtraData):
        unpackb(b"\x01\x02")


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
