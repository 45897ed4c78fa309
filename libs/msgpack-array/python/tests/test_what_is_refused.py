"""Bytes that are not what was asked for."""

import msgpack
import numpy as np
import pytest
from vectors import AROUND_EDGES, DTYPES, FLOATS, INTEGERS, ISAS, UNSIGNED, all_forms, array_of, integers_of

import msgpack_array
from msgpack_array import DecodeError


def refused(packed, dtype, index=None, **how):
    with pytest.raises(DecodeError) as failure:
        msgpack_array.unpack(packed, dtype, **how)
    assert failure.value.index == index, failure.value
    return str(failure.value)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_part_of_an_array_is_truncated(dtype, isa):
    packed = msgpack_array.pack(array_of(dtype, 100))
    for length in range(len(packed)):
        assert "end before" in refused(packed[:length], dtype, isa=isa), length
    assert refused(packed + b"\x00", dtype, isa=isa) == "1 byte follows the array"
    assert refused(packed + b"\x00\x00", dtype, isa=isa) == "2 bytes follow the array"


@pytest.mark.parametrize("dtype", DTYPES)
def test_nothing_is_allocated_for_elements_that_are_not_there(dtype):
    for claimed in (1, 1000, (1 << 32) - 1):
        header = b"\xdd" + claimed.to_bytes(4, "big")
        assert "end before" in refused(header, dtype)
        assert "end before" in refused(b"\xdd\xff\xff\xff\xff" * claimed if claimed < 2000 else header, dtype, ndim=2)
    # Thousands of rows that claim as many elements as there are bytes in all.
    row = b"\xdd" + (6000).to_bytes(4, "big")
    assert "end before" in refused(msgpack.packb([0] * 1000)[:3] + row * 1000, dtype, ndim=2)
    assert "end before" in refused(b"\x91" * 20 + b"\xdd\xff\xff\xff\xff", dtype, ndim=21)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_an_integer_that_does_not_fit_is_named(dtype, isa):
    info = np.iinfo(dtype)
    for value in AROUND_EDGES:
        if info.min <= value <= info.max or not -(1 << 63) <= value < 1 << 64:
            continue
        for form in all_forms(value):
            for index in (0, 1, 15, 16, 63, 64, 99):
                packed = msgpack.packb([0] * 100)[:3] + b"\x05" * index + form + b"\x05" * (99 - index)
                assert "exactly" in refused(packed, dtype, index, isa=isa), (value, form)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_elements_of_other_types_are_named(dtype, isa):
    others = [None, "text", b"bytes", [1], {}, msgpack.ExtType(1, b"x"), msgpack.Timestamp(1)]
    others += [1.5] if dtype not in FLOATS else []
    others += [True] if dtype != "bool" else [1]
    for other in others:
        for index in (0, 1, 15, 16, 63, 64, 99):
            values = array_of(dtype, 100).tolist()
            values[index] = other
            assert "another type" in refused(msgpack.packb(values), dtype, index, isa=isa), other


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_not_an_array_is_told_by_its_first_byte(dtype):
    for first in range(256):
        if not (0x90 <= first <= 0x9F or first in (0xDC, 0xDD)):
            assert f"{first:#04x}" in refused(bytes([first, 0, 0, 0, 0]), dtype)
            assert f"{first:#04x}" in refused(bytes([first]), dtype)


def test_a_double_goes_into_a_float_only_exactly():
    assert msgpack_array.unpack(msgpack.packb([1.5, float("inf"), 3]), "float32").tolist() == [1.5, float("inf"), 3.0]
    assert "exactly" in refused(msgpack.packb([1.5, 0.1]), "float32", 1)
    assert "exactly" in refused(msgpack.packb([1.5, 1e300]), "float32", 1)
    assert "exactly" in refused(msgpack.packb([(1 << 24) + 1]), "float32", 0)
    assert "exactly" in refused(msgpack.packb([0.0, (1 << 53) + 1]), "float64", 1)


@pytest.mark.parametrize("isa", ISAS)
def test_garbage_is_an_array_or_refused_alike_by_every_instruction_set(isa):
    random = np.random.default_rng(7)
    for round in range(2000):
        length = int(random.integers(0, 200))
        garbage = random.integers(0, 256, length, dtype="uint8")
        if round % 2:  # mostly legal numbers
            garbage = np.where(random.integers(0, 9, length) > 0, garbage & 0x7F, garbage | 0xC0).astype("uint8")
        packed = bytes([0xDC, 0, length // 2]) + garbage.tobytes()
        for dtype in DTYPES:
            assert outcome(packed, dtype, isa) == outcome(packed, dtype, "scalar"), packed


def outcome(packed, dtype, isa):
    try:
        array, end = msgpack_array.unpack_from(packed, 0, dtype, isa=isa)
        return array.tobytes(), end
    except DecodeError as error:
        return str(error), error.index


def test_rows_have_one_length_and_are_rows():
    assert "differ" in refused(msgpack.packb([[1, 2], [3]]), "int8", ndim=2)
    assert "differ" in refused(msgpack.packb([[], [3, 4, 5]]), "int8", ndim=2)
    assert "not begin an array" in refused(msgpack.packb([[1], 2]), "int8", ndim=2)
    assert "another type than dtype int8: rows need ndim=2" in refused(msgpack.packb([1, [2]]), "int8", 1)
    assert "rows need ndim=3" in refused(msgpack.packb([[[1]]]), "int8", 0, ndim=2)
    assert "rows" not in refused(msgpack.packb([[b""]]), "int8", 0, ndim=2)
    # The index is that in the whole array.
    assert "exactly" in refused(msgpack.packb([[1, 2], [3, 400]]), "int8", 3, ndim=2)


def test_arguments_are_checked():
    for dtype in (None, "no such type", "float16", "complex64", "O", "U3", "V8", "M8[s]", "m8[s]", [("a", "i4")]):
        with pytest.raises(TypeError):
            msgpack_array.unpack(b"\x90", dtype)
    with pytest.raises(TypeError):
        msgpack_array.unpack(b"\xc4\x00", "int16", bin=True)
    with pytest.raises(TypeError):
        msgpack_array.unpack(b"\xc4\x00", "uint8", bin=True, ndim=2)
    with pytest.raises(TypeError):
        msgpack_array.unpack("text", "int8")
    with pytest.raises(ValueError, match="33"):
        msgpack_array.unpack(b"\x90", "int8", ndim=33)
    with pytest.raises(OverflowError):
        msgpack_array.unpack(b"\x90", "int8", ndim=-1)
    with pytest.raises(ValueError, match="offset"):
        msgpack_array.unpack_from(b"\x90", 2, "int8")
    with pytest.raises(BufferError):
        msgpack_array.unpack(memoryview(bytes(8))[::2], "int8")


def test_an_error_that_is_nobodys_has_no_index():
    assert DecodeError("x").index is None
    assert issubclass(DecodeError, ValueError)


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_numbers_below_zero_do_not_go_into_unsigned(dtype):
    for value in (-1, -32, -33, -128, -(1 << 63)):
        refused(msgpack.packb([0, value]), dtype, 1)
    assert 0 in integers_of(dtype)
