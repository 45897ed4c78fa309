//! One function per element type, for callers who would rather name the type than have it inferred.

use alloc::vec::Vec;

use crate::error::DecodeError;

macro_rules! functions {
    ($($type:ty: $encode:ident $decode:ident),* $(,)?) => { $(
        #[doc = concat!("[`encode`](crate::encode) for `", stringify!($type), "`.")]
        ///
        /// # Panics
        /// With more than 2^32 - 1 elements.
        pub fn $encode(values: &[$type], out: &mut Vec<u8>) {
            crate::encode(values, out);
        }

        #[doc = concat!("[`decode_into`](crate::decode_into) for `", stringify!($type), "`.")]
        ///
        /// # Errors
        /// See [`DecodeError`]; `out` then has the elements it had before.
        pub fn $decode(input: &[u8], out: &mut Vec<$type>) -> Result<usize, DecodeError> {
            crate::decode_into(input, out)
        }
    )* };
}

functions! {
    i8: encode_i8s decode_i8s,
    i16: encode_i16s decode_i16s,
    i32: encode_i32s decode_i32s,
    i64: encode_i64s decode_i64s,
    u8: encode_u8s decode_u8s,
    u16: encode_u16s decode_u16s,
    u32: encode_u32s decode_u32s,
    u64: encode_u64s decode_u64s,
    f32: encode_f32s decode_f32s,
    f64: encode_f64s decode_f64s,
    bool: encode_bools decode_bools,
}
