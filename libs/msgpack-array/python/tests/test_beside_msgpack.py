"""What one side writes, the other reads; and where there is one encoding, both write it."""

import msgpack
import msgspec
import numpy as np
import pytest
from vectors import DTYPES, FLOATS, INTEGERS, ISAS, LENGTHS, all_forms, array_of, expected, integers_of, same

import msgpack_array


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_length_is_packed_as_by_msgpack_and_read_by_it(dtype, isa):
    for length in LENGTHS:
        array = array_of(dtype, length)
        packed = msgpack_array.pack(array, isa=isa)
        assert packed == expected(array), length
        if dtype not in FLOATS:
            assert packed == msgpack.packb(array.tolist()), length
        read = np.array(msgpack.unpackb(packed, use_list=False), dtype)
        if dtype == "float32":
            # In Python it was a double, and a signalling NaN does not stay one.
            assert np.array_equal(read, array, equal_nan=True), length
        else:
            assert same(read, array), length


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_msgpack_packs_is_read_at_every_length(dtype, isa):
    for length in LENGTHS:
        array = array_of(dtype, length, seed=1)
        if dtype in FLOATS:
            array = np.where(np.isnan(array), 0, array).astype(dtype)
        packed = msgpack.packb(array.tolist())
        assert same(msgpack_array.unpack(packed, dtype, isa=isa), array), length


@pytest.mark.parametrize("dtype", DTYPES)
def test_msgspec_reads_it_too(dtype):
    array = array_of(dtype, 300)
    if dtype in FLOATS:
        array = np.where(np.isnan(array), 0, array).astype(dtype)
    assert msgspec.msgpack.decode(msgpack_array.pack(array)) == array.tolist()
    assert same(msgpack_array.unpack(msgspec.msgpack.encode(array.tolist()), dtype), array)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_around_every_change_of_width_the_shortest_form_is_chosen(dtype, isa):
    edges = integers_of(dtype)
    for before in (0, 1, 7, 31):  # the edges at several places of a vector
        values = [0] * before + edges
        array = np.array(values, dtype)
        assert msgpack_array.pack(array, isa=isa) == msgpack.packb(values)
        for edge in edges:  # and alone, over several vectors
            array = np.full(70, edge, dtype)
            assert msgpack_array.pack(array, isa=isa) == msgpack.packb(array.tolist()), edge


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_every_legal_encoding_of_every_value_is_read(dtype, isa):
    elements = [(value, form) for value in integers_of(dtype) for form in all_forms(value)]
    packed = msgpack.packb([0] * len(elements))[:3] + b"".join(form for _, form in elements)
    assert msgpack_array.unpack(packed, dtype, isa=isa).tolist() == [value for value, _ in elements]
    for value, form in elements:
        packed = msgpack.packb([0] * 70)[:3] + form * 70
        assert (msgpack_array.unpack(packed, dtype, isa=isa) == value).all(), form


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_infinities_zeros_and_the_bits_of_nans_stay(dtype, isa):
    bits = f"u{np.dtype(dtype).itemsize}"
    info = np.finfo(dtype)
    sign, infinity = 1 << (info.bits - 1), ((1 << info.iexp) - 1) << info.nmant
    # Quiet and signalling NaNs with payloads, of both signs; both infinities and zeros; the smallest and largest numbers.
    words = [infinity | payload for payload in (0, 1, 2, 0x1234, 1 << (info.nmant - 1), (1 << info.nmant) - 1)]
    words += [0, 1, infinity - 1, 1 << info.nmant]
    array = np.array([word | with_sign for word in words for with_sign in (0, sign)] * 9, bits).view(dtype)
    packed = msgpack_array.pack(array, isa=isa)
    assert packed == expected(array)
    assert same(msgpack_array.unpack(packed, dtype, isa=isa), array)


@pytest.mark.parametrize("isa", ISAS)
def test_a_float_of_4_bytes_is_read_as_one_of_8(isa):
    array = np.array([0.0, -0.0, 1.5, np.inf, -np.inf, 2.0**-149, 3.25], "float32").repeat(13)
    assert same(msgpack_array.unpack(msgpack_array.pack(array), "float64", isa=isa), array.astype("float64"))
