//! The functions of `cxx.cpp`.
#![cfg(msgpack_cxx)]

use std::ffi::c_char;

/// An `msgpack::sbuffer`.
#[repr(C)]
pub(crate) struct Sbuffer {
    opaque: [u8; 0],
}

type Encode<T> = unsafe extern "C" fn(buffer: *mut Sbuffer, values: *const T, count: usize) -> usize;
type Decode<T> =
    unsafe extern "C" fn(bytes: *const c_char, length: usize, out: *mut T, capacity: usize) -> usize;

/// The functions for one element type.
pub(crate) struct Functions<T> {
    pub(crate) encode: Encode<T>,
    pub(crate) decode: Decode<T>,
}

macro_rules! declare {
    ($($encode:ident $decode:ident $type:ty;)*) => { unsafe extern "C" { $(
        pub(crate) fn $encode(buffer: *mut Sbuffer, values: *const $type, count: usize) -> usize;
        pub(crate) fn $decode(bytes: *const c_char, length: usize, out: *mut $type, capacity: usize) -> usize;
    )* } };
}

declare! {
    cxx_encode_i8 cxx_decode_i8 i8;
    cxx_encode_i16 cxx_decode_i16 i16;
    cxx_encode_i32 cxx_decode_i32 i32;
    cxx_encode_i64 cxx_decode_i64 i64;
    cxx_encode_u8 cxx_decode_u8 u8;
    cxx_encode_u16 cxx_decode_u16 u16;
    cxx_encode_u32 cxx_decode_u32 u32;
    cxx_encode_u64 cxx_decode_u64 u64;
    cxx_encode_f32 cxx_decode_f32 f32;
    cxx_encode_f64 cxx_decode_f64 f64;
    cxx_encode_bool cxx_decode_bool bool;
}

unsafe extern "C" {
    fn cxx_buffer_new() -> *mut Sbuffer;
    fn cxx_buffer_data(buffer: *const Sbuffer) -> *const c_char;
    fn cxx_buffer_free(buffer: *mut Sbuffer);
}

/// A buffer that stays from array to array.
pub(crate) struct Buffer(*mut Sbuffer);

impl Buffer {
    pub(crate) fn new() -> Self {
        // SAFETY: no preconditions; it never returns null.
        Self(unsafe { cxx_buffer_new() })
    }

    /// Encodes and returns the number of bytes.
    pub(crate) fn encode<T>(&mut self, functions: &Functions<T>, values: &[T]) -> usize {
        // SAFETY: the buffer lives, and so many values may be read.
        unsafe { (functions.encode)(self.0, values.as_ptr(), values.len()) }
    }

    /// The first `length` bytes, as many as [`Buffer::encode`] returned last.
    pub(crate) fn bytes(&self, length: usize) -> &[u8] {
        // SAFETY: the buffer lives.
        let data = unsafe { cxx_buffer_data(self.0) };
        // SAFETY: `length` bytes were written, and nothing changes them while the buffer is
        // borrowed.
        unsafe { std::slice::from_raw_parts(data.cast(), length) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: it came from `cxx_buffer_new` and is not used any more.
        unsafe { cxx_buffer_free(self.0) }
    }
}

/// Decodes into `out`, whose capacity is the number of elements.
pub(crate) fn decode<T>(functions: &Functions<T>, bytes: &[u8], out: &mut Vec<T>) {
    out.clear();
    // SAFETY: so many bytes may be read and so many elements written.
    let count =
        unsafe { (functions.decode)(bytes.as_ptr().cast(), bytes.len(), out.as_mut_ptr(), out.capacity()) };
    // SAFETY: the first `count` elements were written, and no more than the capacity.
    unsafe { out.set_len(count) };
}
