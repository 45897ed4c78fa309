//! Encoding elements in bulk: the one algorithm above a file per instruction set.
//!
//! An array goes to its end in blocks of a fixed number of elements. An instruction set's file has
//! a function per element type that says how a block is written; `Run` walks through the array,
//! keeps inside both slices and hands what is less than a block to the scalar code. Headers of
//! arrays and the choice of the instruction set are left to the callers.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod large;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod neon;
#[cfg(any(
    target_arch = "x86_64",
    all(target_arch = "aarch64", target_endian = "little"),
    all(target_arch = "wasm32", target_feature = "simd128")
))]
mod run;
mod scalar;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod simd128;
#[cfg(target_arch = "x86_64")]
mod sse;
#[cfg(any(
    target_arch = "x86_64",
    all(target_arch = "aarch64", target_endian = "little"),
    all(target_arch = "wasm32", target_feature = "simd128")
))]
mod tables;

#[cfg(test)]
mod tests;

use core::mem::MaybeUninit;

use super::Isa;
use super::element::EncodeElement;
use crate::element::Element;

/// Room behind the longest possible output that lets the kernels write whole vectors to the end;
/// never required.
pub(crate) const SLACK: usize = 64;

/// See [`super::encode`].
pub(super) fn encode<T: Element>(isa: Isa, values: &[T], out: &mut [MaybeUninit<u8>]) -> usize {
    // SAFETY: the caller of `bulk::encode` has checked that this machine has `isa`; the length has
    // been checked there.
    unsafe { T::encode_run(isa, values, out) }
}

/// Calls a function of an instruction set, or lets it encode piece by piece.
#[cfg(target_arch = "x86_64")]
macro_rules! kernel {
    ($isa:ident $function:ident $values:ident $out:ident) => {
        if large::is_large($values) {
            large::encode(
                $values,
                $out,
                // SAFETY: the caller of `encode_run` promises that this machine has the instruction
                // set.
                |values, out| unsafe { $isa::$function(values, out) },
                // SAFETY: as above.
                |lines, places| unsafe { $isa::stream(lines, places) },
            )
        } else {
            // SAFETY: as above.
            unsafe { $isa::$function($values, $out) }
        }
    };
}

macro_rules! elements {
    ($($element:ty: $function:ident),*) => { $(
        impl EncodeElement for $element {
            #[inline]
            unsafe fn encode_run(isa: Isa, values: &[Self], out: &mut [MaybeUninit<u8>]) -> usize {
                match isa {
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx512 => kernel!(avx512 $function values out),
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx2 => kernel!(avx2 $function values out),
                    #[cfg(target_arch = "x86_64")]
                    Isa::Sse => kernel!(sse $function values out),
                    #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
                    // SAFETY: the caller promises that this machine has it.
                    Isa::Neon => unsafe { neon::$function(values, out) },
                    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
                    Isa::Simd128 => simd128::$function(values, out),
                    _ => scalar::$function(values, out),
                }
            }
        }
    )* };
}

elements!(bool: bools, i8: i8s, u8: u8s, i16: i16s, u16: u16s, i32: i32s, u32: u32s, i64: i64s, u64: u64s, f32: f32s, f64: f64s);
