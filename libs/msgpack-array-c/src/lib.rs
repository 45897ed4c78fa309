//! `msgpack-array` for C and C++: `include/msgpack_array.h`, `libmsgpack_array_c.a` and
//! `libmsgpack_array_c.so`.
//!
//! All memory is the caller's; nothing is allocated here. The functions with a type in their name
//! are in `typed.rs`, what they share and the ones for any type are here. The header is made from
//! both files by cbindgen, kept in the repository, and compared by `tests/msgpack-array-c/main.rs`;
//! programs in C and C++ are compiled and run against both libraries. Arrays are encoded by
//! `msgpack-array`.
//!
//! A panic, which would be a bug in `msgpack-array`, ends the process at the boundary and never
//! unwinds into C.

mod typed;

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::slice;

use msgpack_array::{DecodeError, Element, ElementError};
pub use typed::*;

/// What came of a call.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// It was done.
    Ok = 0,
    /// A pointer that must not be NULL was, or a number stands for no type or no instruction set;
    /// nothing has been written.
    BadArgument = 1,
    /// The output is too small; nothing has been written to it.
    TooSmall = 2,
    /// More than 2^32 - 1 elements or bytes, which MessagePack cannot count; nothing has been written.
    TooMany = 3,
    /// This machine does not have the instruction set; nothing has been written.
    IsaNotAvailable = 4,
    /// The input ends before the array does.
    Truncated = 5,
    /// The input begins with something else than an array, or than a `bin` where one was asked for.
    NotAnArray = 6,
    /// An element is of another type: text in an array of numbers, a float in an array of integers.
    WrongType = 7,
    /// An element has a value that the type cannot hold exactly.
    OutOfRange = 8,
}

/// The types of elements, for the functions that take any.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Type {
    /// `bool`, each 0 or 1
    Bool = 0,
    /// `int8_t`
    I8 = 1,
    /// `int16_t`
    I16 = 2,
    /// `int32_t`
    I32 = 3,
    /// `int64_t`
    I64 = 4,
    /// `uint8_t`
    U8 = 5,
    /// `uint16_t`
    U16 = 6,
    /// `uint32_t`
    U32 = 7,
    /// `uint64_t`
    U64 = 8,
    /// `float`
    F32 = 9,
    /// `double`
    F64 = 10,
}

/// Instruction sets there is code for.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Isa {
    /// No vectors; every machine has it.
    Scalar = 0,
    /// x86-64: SSSE3 and SSE4.1
    Sse = 1,
    /// x86-64: AVX2
    Avx2 = 2,
    /// x86-64: AVX-512 with VBMI2
    Avx512 = 3,
    /// 64-bit ARM
    Neon = 4,
}

/// What has been read.
#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Decoded {
    /// Elements of the array, or bytes of the `bin`, as its header says; 0 if that could not be
    /// read. With the status TOO_SMALL the input has at least as many bytes behind the header, so
    /// that one may allocate as many elements.
    pub count: usize,
    /// Bytes that the array took, header included. 0 with every other status than OK.
    pub bytes: usize,
    /// With the status WRONG_TYPE or OUT_OF_RANGE: the element at fault, from 0. Else 0.
    pub index: usize,
}

/// Runs `$body` with the name `$T` for the Rust type of a [`Type`]'s number.
macro_rules! with_type {
    ($number:expr, $T:ident => $body:expr, else $none:expr) => {
        with_type!(@ $number, $T => $body, else $none, Bool bool, I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32,
            U64 u64, F32 f32, F64 f64)
    };
    (@ $number:expr, $T:ident => $body:expr, else $none:expr, $($variant:ident $type:ty),*) => {
        match TYPES.get($number as usize) {
            $(Some(Type::$variant) => {
                type $T = $type;
                $body
            })*
            None => $none,
        }
    };
}

/// Maximum bytes of an array of `count` elements of a `msgpack_array_type`, header included; 0 if
/// there is no such type, SIZE_MAX if there is no such array: above 2^32 - 1 elements, or if the
/// length does not fit into a size_t.
#[unsafe(no_mangle)]
pub extern "C" fn msgpack_array_max_encoded_len(element_type: u32, count: usize) -> usize {
    with_type!(element_type, T => match u32::try_from(count) {
        Ok(_) => msgpack_array::max_encoded_len::<T>(count),
        Err(_) => usize::MAX,
    }, else 0)
}

/// The best instruction set of this machine, which the functions without one in their arguments
/// use: a `msgpack_array_isa`.
#[unsafe(no_mangle)]
pub extern "C" fn msgpack_array_isa_detect() -> u32 {
    ISAS.iter().position(|isa| *isa == msgpack_array::Isa::detect()).map_or(0, |index| index as u32)
}

/// Whether this machine has a `msgpack_array_isa`.
#[unsafe(no_mangle)]
pub extern "C" fn msgpack_array_isa_is_available(isa: u32) -> bool {
    ISAS.get(isa as usize).is_some_and(|isa| isa.is_available())
}

/// As `msgpack_array_encode_i32` for elements of a `msgpack_array_type`, with a
/// `msgpack_array_isa`: for tests and measurements.
///
/// # Safety
/// As for that function; `values` are aligned as their type needs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msgpack_array_encode(
    isa: u32,
    element_type: u32,
    values: *const c_void,
    count: usize,
    out: *mut u8,
    out_size: usize,
    written: *mut usize,
) -> Status {
    // SAFETY: `written` is as the contract says.
    unsafe { write_if_wanted(written, 0) };
    let isa = match isa_of(isa) {
        Ok(isa) => isa,
        Err(status) => return status,
    };
    with_type!(element_type, T => {
        // SAFETY: the same contract as this function's.
        unsafe { encode::<T>(isa, values.cast(), count, out, out_size, written) }
    }, else Status::BadArgument)
}

/// As `msgpack_array_decode_i32` for elements of a `msgpack_array_type`, with a
/// `msgpack_array_isa`: for tests and measurements.
///
/// # Safety
/// As for that function; `out` is aligned as its type needs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msgpack_array_decode(
    isa: u32,
    element_type: u32,
    input: *const u8,
    input_size: usize,
    out: *mut c_void,
    capacity: usize,
    decoded: *mut Decoded,
) -> Status {
    // SAFETY: `decoded` is as the contract says.
    unsafe { write_if_wanted(decoded, Decoded::default()) };
    let isa = match isa_of(isa) {
        Ok(isa) => isa,
        Err(status) => return status,
    };
    with_type!(element_type, T => {
        // SAFETY: the same contract as this function's.
        unsafe { decode::<T>(isa, input, input_size, out.cast(), capacity, decoded) }
    }, else Status::BadArgument)
}

/// Writes the header of an array of `count` elements to `out`, of which it takes 5 bytes at most,
/// and how many it took to `*written`. Any MessagePack values may follow as its elements.
///
/// Returns BAD_ARGUMENT, TOO_SMALL or OK.
///
/// # Safety
/// `out` may be written to for `out_size` bytes; `written` is NULL or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msgpack_array_encode_header(
    count: u32,
    out: *mut u8,
    out_size: usize,
    written: *mut usize,
) -> Status {
    // SAFETY: `written` is as the contract says.
    unsafe { write_if_wanted(written, 0) };
    let (header, length) = msgpack_array::array_header(count);
    // SAFETY: the same contract as this function's.
    unsafe { write(&[&header[..length]], out, out_size, written) }
}

/// Reads the header of an array: its elements go to `decoded->count`, and the bytes of the header
/// alone to `decoded->bytes`. What the header says may be a lie: do not allocate by it before there
/// are as many bytes.
///
/// Returns BAD_ARGUMENT, TRUNCATED, NOT_AN_ARRAY or OK.
///
/// # Safety
/// `input` may be read for `input_size` bytes; `decoded` is NULL or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msgpack_array_decode_header(
    input: *const u8,
    input_size: usize,
    decoded: *mut Decoded,
) -> Status {
    // SAFETY: `decoded` is as the contract says.
    unsafe { write_if_wanted(decoded, Decoded::default()) };
    // SAFETY: the same contract as this function's.
    let Some(input) = (unsafe { readable(input, input_size) }) else { return Status::BadArgument };
    let (status, result) = match msgpack_array::decode_array_header(input) {
        Ok((count, bytes)) => (Status::Ok, Decoded { count: count as usize, bytes, index: 0 }),
        Err(error) => failed(error, 0),
    };
    // SAFETY: `decoded` is as the contract says.
    unsafe { write_if_wanted(decoded, result) };
    status
}

/// Writes `count` bytes as a MessagePack `bin`, which most readers take for a string of bytes and
/// not for an array. It takes 5 bytes more at most.
///
/// Returns BAD_ARGUMENT, TOO_SMALL, TOO_MANY or OK.
///
/// # Safety
/// As for `msgpack_array_encode_u8`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msgpack_array_encode_bin(
    bytes: *const u8,
    count: usize,
    out: *mut u8,
    out_size: usize,
    written: *mut usize,
) -> Status {
    // SAFETY: `written` is as the contract says.
    unsafe { write_if_wanted(written, 0) };
    // SAFETY: the same contract as this function's.
    let Some(bytes) = (unsafe { readable(bytes, count) }) else { return Status::BadArgument };
    let Ok(count) = u32::try_from(count) else { return Status::TooMany };
    let (header, length) = msgpack_array::bin_header(count);
    // SAFETY: the same contract as this function's.
    unsafe { write(&[&header[..length], bytes], out, out_size, written) }
}

/// Finds the bytes of a MessagePack `bin`: `*payload` becomes where in `input` they begin, NULL
/// with every other status than OK, and `decoded->count` how many they are.
///
/// Returns BAD_ARGUMENT, TRUNCATED, NOT_AN_ARRAY or OK.
///
/// # Safety
/// `input` may be read for `input_size` bytes; `payload` and `decoded` are NULL or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msgpack_array_decode_bin(
    input: *const u8,
    input_size: usize,
    payload: *mut *const u8,
    decoded: *mut Decoded,
) -> Status {
    let mut place = core::ptr::null();
    // SAFETY: `payload` is as the contract says.
    unsafe { write_if_wanted(payload, place) };
    // SAFETY: `decoded` is as the contract says.
    unsafe { write_if_wanted(decoded, Decoded::default()) };
    // SAFETY: the same contract as this function's.
    let Some(input) = (unsafe { readable(input, input_size) }) else { return Status::BadArgument };
    let (status, result) = match msgpack_array::decode_bin(input) {
        Ok((bytes, end)) => {
            place = bytes.as_ptr();
            (Status::Ok, Decoded { count: bytes.len(), bytes: end, index: 0 })
        }
        Err(error) => failed(error, 0),
    };
    // SAFETY: `payload` is as the contract says.
    unsafe { write_if_wanted(payload, place) };
    // SAFETY: `decoded` is as the contract says.
    unsafe { write_if_wanted(decoded, result) };
    status
}

/// # Safety
/// `values` may be read for `count` elements and `out` written to for `out_size` bytes, and do not
/// overlap; `written` is NULL or may be written to.
unsafe fn encode<T: Element>(
    isa: msgpack_array::Isa,
    values: *const T,
    count: usize,
    out: *mut u8,
    out_size: usize,
    written: *mut usize,
) -> Status {
    // SAFETY: `written` is as the contract says.
    unsafe { write_if_wanted(written, 0) };
    // SAFETY: the same contract as this function's.
    let (values, out) = unsafe { (readable(values, count), writable(out, out_size)) };
    let (Some(values), Some(out)) = (values, out) else { return Status::BadArgument };
    let Ok(count) = u32::try_from(count) else { return Status::TooMany };
    let (header, length) = msgpack_array::array_header(count);
    let Some((head, body)) = out.split_at_mut_checked(length) else { return Status::TooSmall };
    let Some(elements) = msgpack_array::encode_elements_uninit(isa, values, body) else {
        return Status::TooSmall;
    };
    head.write_copy_of_slice(&header[..length]);
    // SAFETY: `written` is as the contract says.
    unsafe { write_if_wanted(written, length + elements) };
    Status::Ok
}

/// # Safety
/// `input` may be read for `input_size` bytes and `out` written to for `capacity` elements, and do
/// not overlap; `decoded` is NULL or may be written to.
unsafe fn decode<T: Element>(
    isa: msgpack_array::Isa,
    input: *const u8,
    input_size: usize,
    out: *mut T,
    capacity: usize,
    decoded: *mut Decoded,
) -> Status {
    // SAFETY: the same contract as this function's.
    let (input, out) = unsafe { (readable(input, input_size), writable(out, capacity)) };
    let (status, result) = match (input, out) {
        (Some(input), Some(out)) => decode_into(isa, input, out),
        _ => (Status::BadArgument, Decoded::default()),
    };
    // SAFETY: `decoded` is as the contract says.
    unsafe { write_if_wanted(decoded, result) };
    status
}

fn decode_into<T: Element>(
    isa: msgpack_array::Isa,
    input: &[u8],
    out: &mut [MaybeUninit<T>],
) -> (Status, Decoded) {
    let (count, header) = match msgpack_array::decode_array_header(input) {
        Ok((count, header)) => (count as usize, header),
        Err(error) => return failed(error, 0),
    };
    let elements = &input[header..];
    // Each element takes a byte at least.
    if count > elements.len() {
        return failed(DecodeError::Truncated, count);
    }
    let Some(out) = out.get_mut(..count) else {
        return (Status::TooSmall, Decoded { count, ..Decoded::default() });
    };
    match msgpack_array::decode_elements_uninit(isa, elements, out) {
        Ok(bytes) => (Status::Ok, Decoded { count, bytes: header + bytes, index: 0 }),
        Err(error) => failed(error, count),
    }
}

fn failed(error: DecodeError, count: usize) -> (Status, Decoded) {
    let (status, index) = match error {
        DecodeError::Truncated => (Status::Truncated, 0),
        DecodeError::NotAnArray { .. } | DecodeError::NotBin { .. } => (Status::NotAnArray, 0),
        DecodeError::Element { index, error: ElementError::WrongType { .. } } => (Status::WrongType, index),
        DecodeError::Element { index, error: ElementError::OutOfRange } => (Status::OutOfRange, index),
    };
    (status, Decoded { count, bytes: 0, index })
}

fn isa_of(number: u32) -> Result<msgpack_array::Isa, Status> {
    let isa = *ISAS.get(number as usize).ok_or(Status::BadArgument)?;
    if isa.is_available() { Ok(isa) } else { Err(Status::IsaNotAvailable) }
}

/// By the numbers of [`Isa`].
const ISAS: [msgpack_array::Isa; 5] = {
    use msgpack_array::Isa;
    [Isa::Scalar, Isa::Sse, Isa::Avx2, Isa::Avx512, Isa::Neon]
};

/// By their numbers.
const TYPES: [Type; 11] = {
    use Type::*;
    [Bool, I8, I16, I32, I64, U8, U16, U32, U64, F32, F64]
};

/// Copies `parts` to `out`, one after the other, or none of them.
///
/// # Safety
/// `out` may be written to for `out_size` bytes and does not overlap them; `written` is NULL or may
/// be written to.
unsafe fn write(parts: &[&[u8]], out: *mut u8, out_size: usize, written: *mut usize) -> Status {
    // SAFETY: the same contract as this function's.
    let Some(mut out) = (unsafe { writable(out, out_size) }) else { return Status::BadArgument };
    let length = parts.iter().map(|part| part.len()).sum();
    if length > out.len() {
        return Status::TooSmall;
    }
    // SAFETY: `written` is as the contract says.
    unsafe { write_if_wanted(written, length) };
    for part in parts {
        let (place, rest) = out.split_at_mut(part.len());
        place.write_copy_of_slice(part);
        out = rest;
    }
    Status::Ok
}

/// `None` for NULL, unless nothing is to be read there.
///
/// # Safety
/// `from` may be read for `count` elements while the result is in use, and must not be written to
/// meanwhile.
unsafe fn readable<'a, T>(from: *const T, count: usize) -> Option<&'a [T]> {
    match (from.is_null(), count) {
        (_, 0) => Some(&[]),
        (true, _) => None,
        // SAFETY: not NULL, and the caller vouches for the rest.
        (false, _) => Some(unsafe { slice::from_raw_parts(from, count) }),
    }
}

/// `None` for NULL, unless nothing may be written there.
///
/// # Safety
/// `to` may be written to for `count` elements while the result is in use, and must not be used
/// otherwise meanwhile.
unsafe fn writable<'a, T>(to: *mut T, count: usize) -> Option<&'a mut [MaybeUninit<T>]> {
    match (to.is_null(), count) {
        (_, 0) => Some(&mut []),
        (true, _) => None,
        // SAFETY: not NULL, and the caller vouches for the rest; it need not be initialised.
        (false, _) => Some(unsafe { slice::from_raw_parts_mut(to.cast(), count) }),
    }
}

/// # Safety
/// `to` is NULL or may be written to.
unsafe fn write_if_wanted<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: it is not NULL, so it may be written to.
        unsafe { to.write(value) };
    }
}

#[cfg(test)]
mod tests {
    //! The C test does more; here Miri can watch.

    use super::*;

    #[test]
    fn numbers_of_types_and_instruction_sets_are_those_of_the_header() {
        for (number, element_type) in TYPES.into_iter().enumerate() {
            assert_eq!(element_type as usize, number);
        }
        let isas = [Isa::Scalar, Isa::Sse, Isa::Avx2, Isa::Avx512, Isa::Neon];
        for (number, (isa, name)) in isas.into_iter().zip(ISAS).enumerate() {
            assert_eq!(isa as usize, number);
            assert_eq!(format!("{isa:?}"), format!("{name:?}"));
        }
    }

    #[test]
    fn arrays_come_back_and_outputs_that_are_too_small_stay_as_they_were() {
        let values = [1_i32, -33, 70_000];
        let mut out = [0xa5_u8; 16];
        let mut written = 7;
        for out_size in 0..16 {
            // SAFETY: all of it is memory of this function's, of those lengths.
            let status = unsafe {
                msgpack_array_encode_i32(values.as_ptr(), 3, out.as_mut_ptr(), out_size, &raw mut written)
            };
            assert_eq!((status, written, out), (Status::TooSmall, 0, [0xa5; 16]), "{out_size}");
        }
        // SAFETY: as above.
        let status =
            unsafe { msgpack_array_encode_i32(values.as_ptr(), 3, out.as_mut_ptr(), 16, &raw mut written) };
        assert_eq!(status, Status::Ok);
        assert_eq!(out[..written], [0x93, 1, 0xd0, 0xdf, 0xce, 0, 1, 0x11, 0x70]);

        let mut decoded = Decoded::default();
        let mut back = [0_i32; 3];
        // SAFETY: as above.
        let status = unsafe {
            msgpack_array_decode_i32(out.as_ptr(), written, back.as_mut_ptr(), back.len(), &raw mut decoded)
        };
        assert_eq!((status, decoded), (Status::Ok, Decoded { count: 3, bytes: written, index: 0 }));
        assert_eq!(back, values);
    }
}
