//! The functions with a type in their name. Written out, because cbindgen sees no further than the
//! text of a macro; what they do is in `lib.rs`.

use msgpack_array::Isa;

use crate::{Decoded, Status, decode, encode};

/// Writes `count` values to `out` as one MessagePack array, each in its shortest form, and the
/// bytes that took to `*written`, 0 if it was not done. `out_size` must be at least the length of
/// the header, which is 1 for up to 15 elements, 3 for up to 65535 and 5 for more, and 5 bytes for
/// each element; `msgpack_array_max_encoded_len` is always enough. Bytes behind those written,
/// within `out_size`, may change.
///
/// Returns BAD_ARGUMENT, TOO_SMALL, TOO_MANY or OK. `values` may be NULL if `count` is 0.
///
/// # Safety
/// `values` may be read for `count` elements and `out` written to for `out_size` bytes, and do not
/// overlap; `written` is NULL or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msgpack_array_encode_i32(
    values: *const i32,
    count: usize,
    out: *mut u8,
    out_size: usize,
    written: *mut usize,
) -> Status {
    // SAFETY: the same contract as this function's.
    unsafe { encode(Isa::detect(), values, count, out, out_size, written) }
}

/// As `msgpack_array_encode_i32`, for 1 byte an element. Every value must be 0 or 1.
///
/// # Safety
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msgpack_array_encode_bool(
    values: *const bool,
    count: usize,
    out: *mut u8,
    out_size: usize,
    written: *mut usize,
) -> Status {
    // SAFETY: the same contract as this function's.
    unsafe { encode(Isa::detect(), values, count, out, out_size, written) }
}

/// As `msgpack_array_encode_i32`, for 2 bytes an element.
///
/// # Safety
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msgpack_array_encode_i8(
    values: *const i8,
    count: usize,
    out: *mut u8,
    out_size: usize,
    written: *mut usize,
) -> Status {
    // SAFETY: the same contract as this function's.
    unsafe { encode(Isa::detect(), values, count, out, out_size, written) }
}

/// As `msgpack_array_encode_i32`, for 3 bytes an element.
///
/// # Safety
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msgpack_array_encode_i16(
    values: *const i16,
    count: usize,
    out: *mut u8,
    out_size: usize,
    written: *mut usize,
) -> Status {
    // SAFETY: the same contract as this function's.
    unsafe { encode(Isa::detect(), values, count, out, out_size, written) }
}

/// As `msgpack_array_encode_i32`, for 9 bytes an element.
///
/// # Safety
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msgpack_array_encode_i64(
    values: *const i64,
    count: usize,
    out: *mut u8,
    out_size: usize,
    written: *mut usize,
) -> Status {
    // SAFETY: the same contract as this function's.
    unsafe { encode(Isa::detect(), values, count, out, out_size, written) }
}

/// As `msgpack_array_encode_i32`, for 2 bytes an element.
///
/// # Safety
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msgpack_array_encode_u8(
    values: *const u8,
    count: usize,
    out: *mut u8,
    out_size: usize,
    written: *mut usize,
) -> Status {
    // SAFETY: the same contract as this function's.
    unsafe { encode(Isa::detect(), values, count, out, out_size, written) }
}

/// As `msgpack_array_encode_i32`, for 3 bytes an element.
///
/// # Safety
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msgpack_array_encode_u16(
    values: *const u16,
    count: usize,
    out: *mut u8,
    out_size: usize,
    written: *mut usize,
) -> Status {
    // SAFETY: the same contract as this function's.
    unsafe { encode(Isa::detect(), values, count, out, out_size, written) }
}

/// As `msgpack_array_encode_i32`, for 5 bytes an element.
///
/// # Safety
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msgpack_array_encode_u32(
    values: *const u32,
    count: usize,
    out: *mut u8,
    out_size: usize,
    written: *mut usize,
) -> Status {
    // SAFETY: the same contract as this function's.
    unsafe { encode(Isa::detect(), values, count, out, out_size, written) }
}

/// As `msgpack_array_encode_i32`, for 9 bytes an element.
///
/// # Safety
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msgpack_array_encode_u64(
    values: *const u64,
    count: usize,
    out: *mut u8,
    out_size: usize,
    written: *mut usize,
) -> Status {
    // SAFETY: the same contract as this function's.
    unsafe { encode(Isa::detect(), values, count, out, out_size, written) }
}

/// As `msgpack_array_encode_i32`, for 5 bytes an element. Floats are not shortened.
///
/// # Safety
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msgpack_array_encode_f32(
    values: *const f32,
    count: usize,
    out: *mut u8,
    out_size: usize,
    written: *mut usize,
) -> Status {
    // SAFETY: the same contract as this function's.
    unsafe { encode(Isa::detect(), values, count, out, out_size, written) }
}

/// As `msgpack_array_encode_i32`, for 9 bytes an element. Floats are not shortened.
///
/// # Safety
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msgpack_array_encode_f64(
    values: *const f64,
    count: usize,
    out: *mut u8,
    out_size: usize,
    written: *mut usize,
) -> Status {
    // SAFETY: the same contract as this function's.
    unsafe { encode(Isa::detect(), values, count, out, out_size, written) }
}

/// Reads the MessagePack array at the beginning of `input` to `out`, which has room for `capacity`
/// elements. They may have any width in the input, as long as the values fit. Of `out`, the first
/// `decoded->count` elements are written with the status OK, and any may have changed with another.
///
/// Returns BAD_ARGUMENT, TOO_SMALL, TRUNCATED, NOT_AN_ARRAY, WRONG_TYPE, OUT_OF_RANGE or OK. `out`
/// may be NULL if `capacity` is 0: `decoded->count` then holds the required capacity, with the
/// status TOO_SMALL or, for an empty array, OK.
///
/// # Safety
/// `input` may be read for `input_size` bytes and `out` written to for `capacity` elements, and do
/// not overlap; `decoded` is NULL or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msgpack_array_decode_i32(
    input: *const u8,
    input_size: usize,
    out: *mut i32,
    capacity: usize,
    decoded: *mut Decoded,
) -> Status {
    // SAFETY: the same contract as this function's.
    unsafe { decode(Isa::detect(), input, input_size, out, capacity, decoded) }
}

/// As `msgpack_array_decode_i32`. Numbers are not accepted as booleans.
///
/// # Safety
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msgpack_array_decode_bool(
    input: *const u8,
    input_size: usize,
    out: *mut bool,
    capacity: usize,
    decoded: *mut Decoded,
) -> Status {
    // SAFETY: the same contract as this function's.
    unsafe { decode(Isa::detect(), input, input_size, out, capacity, decoded) }
}

/// As `msgpack_array_decode_i32`.
///
/// # Safety
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msgpack_array_decode_i8(
    input: *const u8,
    input_size: usize,
    out: *mut i8,
    capacity: usize,
    decoded: *mut Decoded,
) -> Status {
    // SAFETY: the same contract as this function's.
    unsafe { decode(Isa::detect(), input, input_size, out, capacity, decoded) }
}

/// As `msgpack_array_decode_i32`.
///
/// # Safety
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msgpack_array_decode_i16(
    input: *const u8,
    input_size: usize,
    out: *mut i16,
    capacity: usize,
    decoded: *mut Decoded,
) -> Status {
    // SAFETY: the same contract as this function's.
    unsafe { decode(Isa::detect(), input, input_size, out, capacity, decoded) }
}

/// As `msgpack_array_decode_i32`.
///
/// # Safety
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msgpack_array_decode_i64(
    input: *const u8,
    input_size: usize,
    out: *mut i64,
    capacity: usize,
    decoded: *mut Decoded,
) -> Status {
    // SAFETY: the same contract as this function's.
    unsafe { decode(Isa::detect(), input, input_size, out, capacity, decoded) }
}

/// As `msgpack_array_decode_i32`.
///
/// # Safety
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msgpack_array_decode_u8(
    input: *const u8,
    input_size: usize,
    out: *mut u8,
    capacity: usize,
    decoded: *mut Decoded,
) -> Status {
    // SAFETY: the same contract as this function's.
    unsafe { decode(Isa::detect(), input, input_size, out, capacity, decoded) }
}

/// As `msgpack_array_decode_i32`.
///
/// # Safety
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msgpack_array_decode_u16(
    input: *const u8,
    input_size: usize,
    out: *mut u16,
    capacity: usize,
    decoded: *mut Decoded,
) -> Status {
    // SAFETY: the same contract as this function's.
    unsafe { decode(Isa::detect(), input, input_size, out, capacity, decoded) }
}

/// As `msgpack_array_decode_i32`.
///
/// # Safety
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msgpack_array_decode_u32(
    input: *const u8,
    input_size: usize,
    out: *mut u32,
    capacity: usize,
    decoded: *mut Decoded,
) -> Status {
    // SAFETY: the same contract as this function's.
    unsafe { decode(Isa::detect(), input, input_size, out, capacity, decoded) }
}

/// As `msgpack_array_decode_i32`.
///
/// # Safety
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msgpack_array_decode_u64(
    input: *const u8,
    input_size: usize,
    out: *mut u64,
    capacity: usize,
    decoded: *mut Decoded,
) -> Status {
    // SAFETY: the same contract as this function's.
    unsafe { decode(Isa::detect(), input, input_size, out, capacity, decoded) }
}

/// As `msgpack_array_decode_i32`. Doubles and integers are taken if a float holds them exactly.
///
/// # Safety
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msgpack_array_decode_f32(
    input: *const u8,
    input_size: usize,
    out: *mut f32,
    capacity: usize,
    decoded: *mut Decoded,
) -> Status {
    // SAFETY: the same contract as this function's.
    unsafe { decode(Isa::detect(), input, input_size, out, capacity, decoded) }
}

/// As `msgpack_array_decode_i32`. Floats are taken, and integers that a double holds exactly.
///
/// # Safety
/// As for that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msgpack_array_decode_f64(
    input: *const u8,
    input_size: usize,
    out: *mut f64,
    capacity: usize,
    decoded: *mut Decoded,
) -> Status {
    // SAFETY: the same contract as this function's.
    unsafe { decode(Isa::detect(), input, input_size, out, capacity, decoded) }
}
