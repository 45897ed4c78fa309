"""Arrays however they lie in memory, what else has numbers in memory, and what is refused."""

import array
import ctypes
import itertools

import msgpack
import numpy as np
import pytest
from vectors import DTYPES, INTEGERS, ISAS, array_of, expected, integers_of, same

import msgpack_array

# More than the stage on the stack, and than what is packed while other threads wait.
LONG = [3000, 30_000, 300_000]


@pytest.mark.parametrize("dtype", DTYPES)
def test_strides_of_all_kinds(dtype):
    whole = array_of(dtype, 600)
    for step in (2, 3, 7, -1, -2):
        view = whole[::step]
        assert msgpack_array.pack(view) == expected(np.array(view)), step
    repeated = np.broadcast_to(whole[:1], 100)
    assert repeated.strides == (0,)
    assert msgpack_array.pack(repeated) == expected(np.array(repeated))


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if np.dtype(dtype).itemsize > 1])
def test_both_byte_orders_both_ways(dtype):
    native = array_of(dtype, 300)
    for order in "<>":
        swapped = native.astype(np.dtype(dtype).newbyteorder(order)) if native.dtype.kind != "f" else None
        if swapped is None:  # astype may change NaNs
            swapped = native.view(f"u{native.itemsize}").astype(f"{order}u{native.itemsize}").view(f"{order}f{native.itemsize}")
        packed = msgpack_array.pack(swapped)
        assert packed == expected(native)
        assert same(msgpack_array.unpack(packed, swapped.dtype), swapped)


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_at_every_address(dtype):
    packed = expected(array_of(dtype, 100))
    for offset in range(64):
        memory = np.zeros(offset + 100 * np.dtype(dtype).itemsize, "uint8")[offset:]
        memory[:] = array_of(dtype, 100).view("uint8")
        assert msgpack_array.pack(memory.view(dtype)) == packed, offset
        assert same(msgpack_array.unpack(memoryview(bytes(offset) + packed)[offset:], dtype), array_of(dtype, 100))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_long_arrays(dtype, isa):
    for length in LONG:
        values = array_of(dtype, length)
        packed = msgpack_array.pack(values, isa=isa)
        assert packed == expected(values), length
        assert same(msgpack_array.unpack(packed, dtype, isa=isa), values), length


@pytest.mark.parametrize("dtype", INTEGERS)
def test_long_arrays_of_one_width(dtype):
    info = np.iinfo(dtype)
    for value in (info.max, info.min, 1):
        values = np.full(300_000, value, dtype)
        assert msgpack_array.pack(values) == expected(values), value


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_long_arrays_are_measured_right_at_every_change_of_width(dtype, isa):
    for length in (40_000, 40_001):
        values = np.resize(np.array(integers_of(dtype), dtype), length)
        assert msgpack_array.pack(values, isa=isa) == expected(values)


@pytest.mark.parametrize("shape", [(), (0,), (5,), (0, 3), (3, 0), (2, 3), (1, 1, 1), (2, 16, 3), (70, 20), (2, 3, 4, 5)])
@pytest.mark.parametrize("dtype", ["bool", "int32", "float64"])
def test_dimensions_are_those_of_tolist(shape, dtype):
    values = array_of(dtype, int(np.prod(shape))).reshape(shape)
    packed = msgpack_array.pack(values)
    assert packed == msgpack.packb(values.tolist())
    back = msgpack_array.unpack(packed, dtype, ndim=len(shape))
    if 0 in shape:
        assert back.size == 0 and back.shape[: shape.index(0) + 1] == shape[: shape.index(0) + 1]
    else:
        assert same(back, values)


def test_columns_first_and_transposed_are_packed_as_they_are_indexed():
    values = np.arange(24, dtype="int16").reshape(2, 3, 4)
    for axes in itertools.permutations(range(3)):
        view = values.transpose(axes)
        assert msgpack_array.pack(view) == msgpack.packb(view.tolist())
        assert msgpack_array.pack(np.asfortranarray(view)) == msgpack.packb(view.tolist())


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_of_numpy_are_numbers(dtype):
    for value in array_of(dtype, 20):
        assert msgpack_array.pack(value) == expected(np.array([value], dtype))[1:]


def test_what_has_numbers_in_memory():
    for code in "bBhHiIlLqQfd":
        numbers = array.array(code, [0, 1, 100, 127])
        assert msgpack_array.pack(numbers) == expected(np.array(numbers))
    doubles = (ctypes.c_double * 3)(0.5, 1.5, 2.5)
    assert msgpack_array.pack(doubles) == expected(np.array([0.5, 1.5, 2.5]))
    assert msgpack_array.pack(memoryview(b"\x00\x7f\x80\xff")) == msgpack.packb([0, 127, 128, 255])
    assert msgpack_array.pack(memoryview(bytearray(range(200)))[::3]) == msgpack.packb(list(range(0, 200, 3)))


def test_booleans_with_other_bytes_than_0_and_1_are_true():
    strange = np.array([0, 1, 2, 128, 255] * 30, "uint8").view(bool)
    assert msgpack_array.pack(strange) == msgpack.packb([False, True, True, True, True] * 30)


def test_bin_is_what_msgpack_makes_of_bytes():
    for length in (0, 1, 255, 256, 65535, 65536):
        values = array_of("uint8", length)
        packed = msgpack_array.pack(values, bin=True)
        assert packed == msgpack.packb(values.tobytes())
        assert same(msgpack_array.unpack(packed, "uint8", bin=True), values)
        with pytest.raises(msgpack_array.DecodeError):
            msgpack_array.unpack(packed, "uint8")
        signed = values.view("int8")
        assert msgpack_array.pack(signed, bin=True) == packed
        assert same(msgpack_array.unpack(packed, "int8", bin=True), signed)
    assert msgpack_array.pack(memoryview(b"abc")[::2], bin=True) == msgpack.packb(b"ac")


def test_pack_to_appends():
    out = bytearray(b"before")
    for dtype in DTYPES:
        for values in (array_of(dtype, 30), array_of(dtype, 30_000), array_of(dtype, 1_200_000), array_of(dtype, 6).reshape(2, 3)):
            packed, before = msgpack_array.pack(values), bytes(out)
            assert msgpack_array.pack_to(values, out) == len(packed)
            assert out == before + packed
            del out[6:]
    assert msgpack_array.pack_to(array_of("uint8", 30), out, bin=True) == 32
    with memoryview(out), pytest.raises(BufferError):
        msgpack_array.pack_to(array_of("uint8", 30), out)
    with pytest.raises(TypeError):
        msgpack_array.pack_to(array_of("uint8", 30), memoryview(out))


def test_the_array_is_not_changed_and_need_not_be_writable():
    values = array_of("int64", 100)
    values.flags.writeable = False
    before = values.copy()
    msgpack_array.pack(values)
    assert same(values, before)


@pytest.mark.parametrize(
    "what",
    [
        [1, 2],
        3,
        "text",
        b"bytes",
        bytearray(b"bytes"),
        None,
        np.zeros(2, "float16"),
        np.zeros(2, "complex128"),
        np.zeros(2, "longdouble"),
        np.zeros(2, "datetime64[s]"),
        np.zeros(2, "timedelta64[s]"),
        np.zeros(2, [("a", "i4")]),
        np.array(["text"]),
        np.array([None]),
        np.ma.array([1, 2], mask=[0, 1]),
    ],
    ids=repr,
)
def test_what_is_no_array_of_numbers_is_refused(what):
    with pytest.raises(TypeError):
        msgpack_array.pack(what)


def test_what_cannot_be_is_refused():
    with pytest.raises(TypeError):
        msgpack_array.pack(np.zeros(2, "int16"), bin=True)
    with pytest.raises(TypeError):
        msgpack_array.pack(np.zeros((2, 2), "uint8"), bin=True)
    with pytest.raises(ValueError, match="instruction set"):
        msgpack_array.pack(np.zeros(2), isa="mmx")
    # Nothing to pack, but a length that has no header.
    with pytest.raises(OverflowError):
        msgpack_array.pack(np.broadcast_to(np.zeros((1, 0)), (1 << 32, 0)))
