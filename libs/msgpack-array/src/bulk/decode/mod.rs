//! Decoding elements in bulk: which code runs on which machine.
//!
//! `vectors.rs` is the algorithm above the files of the instruction sets, of which all but AVX-512
//! share `windows.rs`. `scalar.rs` is for machines without any of them and for the remaining
//! elements. [`BulkElement::decode_one`](super::BulkElement::decode_one) decides which number is
//! acceptable for which type, whenever an element is unusual.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod neon;
#[cfg(any(
    target_arch = "x86_64",
    all(target_arch = "aarch64", target_endian = "little"),
    all(target_arch = "wasm32", target_feature = "simd128")
))]
mod pairs;
mod scalar;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod simd128;
#[cfg(target_arch = "x86_64")]
mod sse;
#[cfg_attr(
    not(any(
        target_arch = "x86_64",
        all(target_arch = "aarch64", target_endian = "little"),
        all(target_arch = "wasm32", target_feature = "simd128")
    )),
    expect(dead_code, reason = "for vectors, which this machine does not have")
)]
mod tables;
#[cfg(test)]
mod tests;
#[cfg(any(
    target_arch = "x86_64",
    all(target_arch = "aarch64", target_endian = "little"),
    all(target_arch = "wasm32", target_feature = "simd128")
))]
mod vectors;
#[cfg(any(
    target_arch = "x86_64",
    all(target_arch = "aarch64", target_endian = "little"),
    all(target_arch = "wasm32", target_feature = "simd128")
))]
mod windows;

use core::mem::MaybeUninit;

use super::{Isa, Stop};
use crate::element::Element;

pub(super) fn decode<T: Element>(isa: Isa, input: &[u8], out: &mut [MaybeUninit<T>]) -> Decoded {
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the caller has checked that the machine has the instruction set.
        Isa::Avx512 => unsafe { vectors::decode::<avx512::Avx512, T>(input, out) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Isa::Avx2 => unsafe { vectors::decode::<avx2::Avx2, T>(input, out) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Isa::Sse => unsafe { vectors::decode::<sse::Sse, T>(input, out) },
        #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
        // SAFETY: as above.
        Isa::Neon => unsafe { vectors::decode::<neon::Neon, T>(input, out) },
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        // SAFETY: as above.
        Isa::Simd128 => unsafe { vectors::decode::<simd128::Simd128, T>(input, out) },
        _ => scalar::decode(input, out),
    }
}

/// How far decoding came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decoded {
    /// Elements written.
    pub(crate) elements: usize,
    /// Bytes they took.
    pub(crate) bytes: usize,
    /// Why not all were, if so.
    pub(crate) stop: Option<Stop>,
}

/// How far a kernel came.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Progress {
    elements: usize,
    bytes: usize,
}

impl Progress {
    fn stopped(self, stop: Option<Stop>) -> Decoded {
        Decoded { elements: self.elements, bytes: self.bytes, stop }
    }
}

impl core::ops::AddAssign for Progress {
    fn add_assign(&mut self, more: Self) {
        self.elements += more.elements;
        self.bytes += more.bytes;
    }
}
