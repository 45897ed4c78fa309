//! Encoding elements in bulk: the one algorithm above a file per instruction set.
//!
//! An array goes to its end in blocks of a fixed number of elements. An instruction set's file has a function per element
//! type that says how a block is written; [`Run`] walks through the array, keeps inside both slices and hands what is less than
//! a block to the scalar code. Headers of arrays and the choice of the instruction set are left to the callers.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod large;
mod scalar;
#[cfg(target_arch = "x86_64")]
mod sse;
#[cfg(target_arch = "x86_64")]
mod tables;

#[cfg(test)]
mod tests;

use core::mem::MaybeUninit;

use super::Isa;
use crate::element::Element;

/// See [`super::encode`].
pub(super) fn encode<T: Element>(isa: Isa, values: &[T], out: &mut [MaybeUninit<u8>]) -> usize {
    T::encode_run(isa, values, out)
}

/// What the algorithm knows of an element type: its functions in the files of the instruction sets.
pub trait EncodeElement: Sized {
    /// Writes all `values` to the beginning of `out`, which is long enough for the longest form of each.
    #[doc(hidden)]
    fn encode_run(isa: Isa, values: &[Self], out: &mut [MaybeUninit<u8>]) -> usize;
}

/// Calls a function of an instruction set, or lets it encode piece by piece.
#[cfg(target_arch = "x86_64")]
macro_rules! kernel {
    ($isa:ident $function:ident $values:ident $out:ident) => {
        if large::is_large($values) {
            large::encode(
                $values,
                $out,
                // SAFETY: the callers of `bulk::encode` have asked whether this machine has the instruction set.
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
            fn encode_run(isa: Isa, values: &[Self], out: &mut [MaybeUninit<u8>]) -> usize {
                match isa {
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx512 => kernel!(avx512 $function values out),
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx2 => kernel!(avx2 $function values out),
                    #[cfg(target_arch = "x86_64")]
                    Isa::Sse => kernel!(sse $function values out),
                    _ => scalar::$function(values, out),
                }
            }
        }
    )* };
}

elements!(bool: bools, i8: i8s, u8: u8s, i16: i16s, u16: u16s, i32: i32s, u32: u32s, i64: i64s, u64: u64s, f32: f32s, f64: f64s);

/// How far an array has come: the elements that are left, and the bytes written so far.
struct Run<'a, T> {
    values: &'a [T],
    out: &'a mut [MaybeUninit<u8>],
    written: usize,
}

impl<'a, T: Copy> Run<'a, T> {
    #[inline(always)]
    fn new(values: &'a [T], out: &'a mut [MaybeUninit<u8>]) -> Self {
        Self { values, out, written: 0 }
    }

    /// Writes `STEP` elements at a time, as long as `READ` can be read and `ROOM` bytes overwritten. `block` returns the bytes that
    /// count.
    #[inline(always)]
    fn blocks<const STEP: usize, const READ: usize, const ROOM: usize>(
        &mut self,
        mut block: impl FnMut(&[T; READ], &mut [MaybeUninit<u8>; ROOM]) -> usize,
    ) {
        while let Some(values) = self.values.first_chunk()
            && let Some(room) = self.out.get_mut(self.written..).and_then(<[_]>::first_chunk_mut)
        {
            self.written += block(values, room);
            self.values = &self.values[STEP..];
        }
    }

    /// Writes what is left, at most `STEP` elements at a time, as long as `ROOM` bytes can be overwritten.
    #[inline(always)]
    fn rest<const STEP: usize, const ROOM: usize>(
        &mut self,
        mut block: impl FnMut(&[T], &mut [MaybeUninit<u8>; ROOM]) -> usize,
    ) {
        while !self.values.is_empty()
            && let Some(room) = self.out.get_mut(self.written..).and_then(<[_]>::first_chunk_mut)
        {
            let (values, rest) = self.values.split_at(self.values.len().min(STEP));
            self.written += block(values, room);
            self.values = rest;
        }
    }

    /// Writes what is left by `encode`, and returns how long it all is.
    #[inline(always)]
    fn finish(self, encode: impl FnOnce(&[T], &mut [MaybeUninit<u8>]) -> usize) -> usize {
        match self.values {
            [] => self.written,
            values => self.written + encode(values, &mut self.out[self.written..]),
        }
    }
}
