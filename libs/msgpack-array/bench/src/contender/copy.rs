//! Copying the encoded bytes of an array: the measure of how near the others come to the speed of
//! memory.

use crate::contender::{Op, Output, Run};
use crate::number::Number;
use crate::values::Pool;

/// Elements from which on a copy past the caches is tried as well.
pub(crate) const LONG: usize = 1 << 20;

/// Whether this machine has instructions for it that are used here.
pub(crate) const HAS_NON_TEMPORAL: bool = cfg!(target_arch = "x86_64");

/// Makes the second argument equal to the first.
pub(crate) type Function = fn(&[u8], &mut Vec<u8>);

/// A way to copy; encoding and decoding are the same to it.
pub(crate) struct Copy {
    pub(crate) copy: Function,
}

impl<T: Number> Run<T> for Copy {
    fn run(&mut self, _op: Op, pool: &Pool<T>, first: usize, count: usize, output: &mut Output<T>) {
        for index in pool.indices(first, count) {
            (self.copy)(&pool.encoded[index], &mut output.bytes);
        }
    }

    fn encoded(&self) -> Option<&[u8]> {
        None
    }

    fn decoded(&self) -> Option<&[T]> {
        None
    }
}

/// libc's `memcpy`.
pub(crate) fn within_caches(from: &[u8], to: &mut Vec<u8>) {
    to.clear();
    to.extend_from_slice(from);
}

/// Stores that do not read the destination's cache lines first.
#[cfg(target_arch = "x86_64")]
pub(crate) fn past_caches(from: &[u8], to: &mut Vec<u8>) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};

    to.clear();
    // Elements of the vector up to the first address that is a multiple of 64.
    let before = to.as_ptr().align_offset(64).min(from.len());
    to.extend_from_slice(&from[..before]);
    let (lines, rest) = from[before..].as_chunks::<64>();
    assert!(to.capacity() >= from.len());
    // SAFETY: `before` bytes are in use, and the capacity is no less.
    let mut out: *mut __m128i = unsafe { to.as_mut_ptr().add(before) }.cast();
    for line in lines {
        let line: *const __m128i = line.as_ptr().cast();
        for part in 0..4 {
            // SAFETY: `line` has four parts, all readable.
            let value = unsafe { _mm_loadu_si128(line.add(part)) };
            // SAFETY: the capacity suffices for all of `from`, and the address is a multiple of 16.
            unsafe { _mm_stream_si128(out.add(part), value) };
        }
        // SAFETY: still within the capacity, or just behind.
        out = unsafe { out.add(4) };
    }
    // SAFETY: every x86-64 has it.
    unsafe { _mm_sfence() };
    // SAFETY: all lines were written.
    unsafe { to.set_len(before + 64 * lines.len()) };
    to.extend_from_slice(rest);
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn past_caches(from: &[u8], to: &mut Vec<u8>) {
    within_caches(from, to);
}
