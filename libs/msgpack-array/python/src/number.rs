//! What packing has to know of an element type: how to take an array's elements as such, and how
//! long they become.
//!
//! The lengths are for arrays so long that a `bytes` object is made for just as many bytes as there
//! will be. Encoding itself is the crate's part.

use core::slice;
use std::borrow::Cow;

use msgpack_array::Isa;

use crate::input::Array;

/// An element type of both crates.
pub(crate) trait Number: msgpack_array::Element + numpy::Element {
    /// Whether every element takes [`ENCODED_MAX`](msgpack_array::Element::ENCODED_MAX) bytes.
    const CONSTANT_LENGTH: bool = true;

    /// Whether every bit pattern is a value.
    const ANY_BITS: bool = true;

    /// Bytes that elements take.
    fn encoded_len(isa: Isa, elements: &[Self]) -> usize {
        debug_assert!(Self::CONSTANT_LENGTH, "{isa:?}");
        elements.len() * Self::ENCODED_MAX
    }

    /// The elements of `array`.
    ///
    /// # Safety
    /// `array` is an [`Array`] of this type, and must not be written to while the elements are in
    /// use.
    unsafe fn elements<'a>(array: &'a Array<'_>) -> Cow<'a, [Self]> {
        // SAFETY: as the caller says.
        Cow::Borrowed(unsafe { array.elements_of() })
    }
}

impl Number for f32 {}
impl Number for f64 {}

impl Number for bool {
    const ANY_BITS: bool = false;

    /// NumPy's booleans may have any value in memory, of which all but 0 are true; Rust's only 0
    /// and 1.
    unsafe fn elements<'a>(array: &'a Array<'_>) -> Cow<'a, [Self]> {
        // SAFETY: as the caller says; a byte may have any value.
        let bytes: &[u8] = unsafe { array.elements_of() };
        if bytes.iter().fold(0, |all, byte| all | byte) > 1 {
            return Cow::Owned(bytes.iter().map(|byte| *byte != 0).collect());
        }
        // SAFETY: the same memory; every byte is 0 or 1.
        Cow::Borrowed(unsafe { slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) })
    }
}

/// Integers take a byte, and one, two, four or eight more where the value does not fit into less
/// (MessagePack specification, int format family). Sums of comparisons, which the compiler
/// vectorizes; in blocks short enough that the sum fits into the width of an element. AVX2 has the
/// 64-bit comparison that baseline x86-64 lacks.
macro_rules! integer {
    ($($type:ty, $signed:ty, $unsigned:ty;)*) => { $(
        impl Number for $type {
            const CONSTANT_LENGTH: bool = false;

            fn encoded_len(isa: Isa, elements: &[Self]) -> usize {
                const BLOCK: usize = if size_of::<$type>() == 1 { 255 } else { 4096 };

                /// Bytes after the first.
                #[inline(always)]
                fn more(value: $type) -> $unsigned {
                    let wider = |value: $unsigned, highest: u64, more| {
                        if <$unsigned>::try_from(highest).is_ok_and(|highest| value > highest) { more } else { 0 }
                    };
                    // A number below zero fits where a positive one of twice the distance from -1
                    // does; the fixint is an exception.
                    let negative = <$type>::MIN != 0 && (value as $signed) < 0;
                    let fixint = if negative { 0x3f } else { 0x7f };
                    let value = if negative { !(value as $unsigned) << 1 | 1 } else { value as $unsigned };
                    wider(value, fixint, 1) + wider(value, 0xff, 1) + wider(value, 0xffff, 2) + wider(value, 0xffff_ffff, 4)
                }

                #[inline(always)]
                fn of_all(elements: &[$type]) -> usize {
                    let of_block = |block: &[$type]| block.iter().fold(0, |sum, value| sum + more(*value)) as usize;
                    elements.len() + elements.chunks(BLOCK).map(of_block).sum::<usize>()
                }

                #[cfg(target_arch = "x86_64")]
                if matches!(isa, Isa::Avx2 | Isa::Avx512) && isa.is_available() {
                    #[target_feature(enable = "avx2")]
                    fn with_avx2(elements: &[$type]) -> usize {
                        of_all(elements)
                    }
                    // SAFETY: the machine has it.
                    return unsafe { with_avx2(elements) };
                }
                of_all(elements)
            }
        }
    )* };
}

integer! {
    i8, i8, u8;
    i16, i16, u16;
    i32, i32, u32;
    i64, i64, u64;
    u8, i8, u8;
    u16, i16, u16;
    u32, i32, u32;
    u64, i64, u64;
}
