//! Two windows at a time with AVX2.
//!
//! Nothing here may run before the CPU is known to have it; `bulk/mod.rs` ensures that.

use core::arch::x86_64::*;
use core::mem::MaybeUninit;

use super::Progress;
use super::vectors::Kernel;
use super::windows::{self, Chain, Vector, WINDOW};
use crate::element::Element;

pub(super) struct Avx2;

impl Kernel for Avx2 {
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    unsafe fn run<T: Element, const STRIDE: usize>(input: &[u8], out: &mut [MaybeUninit<T>]) -> usize {
        windows::run::<Windows, T, STRIDE>(input, out)
    }

    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    unsafe fn mixed<T: Element>(input: &[u8], out: &mut [MaybeUninit<T>]) -> Progress {
        windows::mixed::<Windows, T>(input, out)
    }
}

#[derive(Clone, Copy)]
struct Windows(__m256i);

/// Functions of two vectors that are one instruction.
macro_rules! instructions {
    ($($name:ident: $instruction:ident),*) => { $(
        #[inline(always)]
        fn $name(self, other: Self) -> Self {
            // SAFETY: only code for this instruction set makes a `Windows`.
            Self(unsafe { $instruction(self.0, other.0) })
        }
    )* };
}

impl Vector for Windows {
    const WINDOWS: usize = 2;

    instructions! {
        shuffle: _mm256_shuffle_epi8, and: _mm256_and_si256, or: _mm256_or_si256, xor: _mm256_xor_si256, add: _mm256_add_epi8,
        sub: _mm256_sub_epi8, equal: _mm256_cmpeq_epi8, greater: _mm256_cmpgt_epi8
    }

    #[inline(always)]
    unsafe fn load(at: *const u8, distance: usize) -> Self {
        // SAFETY: the caller's promise; the loads need no alignment.
        Self(unsafe { _mm256_loadu2_m128i(at.add(distance).cast(), at.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, window: usize, to: *mut u8) {
        // SAFETY: the caller's promise; the stores need no alignment.
        unsafe {
            match window {
                0 => _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(self.0)),
                _ => _mm_storeu_si128(to.cast(), _mm256_extracti128_si256::<1>(self.0)),
            }
        }
    }

    #[inline(always)]
    fn table(bytes: &[u8; WINDOW]) -> Self {
        // SAFETY: the table is as long as a window, and the load needs no alignment.
        Self(unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(bytes.as_ptr().cast())) })
    }

    #[inline(always)]
    fn splat(byte: u8) -> Self {
        // SAFETY: only code for this instruction set calls this.
        Self(unsafe { _mm256_set1_epi8(byte as i8) })
    }

    #[inline(always)]
    fn look_up(self, indices: Self) -> Self {
        // What is too large gets the highest bit; the shuffle does not look at the others above the
        // lowest four. SAFETY: only code for this instruction set makes a `Windows`.
        let indices = Self(unsafe { _mm256_adds_epu8(indices.0, _mm256_set1_epi8(0x70)) });
        self.shuffle(indices)
    }

    #[inline(always)]
    fn without(self, other: Self) -> Self {
        // SAFETY: only code for this instruction set makes a `Windows`.
        Self(unsafe { _mm256_andnot_si256(other.0, self.0) })
    }

    #[inline(always)]
    fn abs(self) -> Self {
        // SAFETY: only code for this instruction set makes a `Windows`.
        Self(unsafe { _mm256_abs_epi8(self.0) })
    }

    #[inline(always)]
    fn highest_bits(self) -> u32 {
        // SAFETY: only code for this instruction set makes a `Windows`.
        unsafe { _mm256_movemask_epi8(self.0) as u32 }
    }

    #[inline(always)]
    fn chain(jump: Self, entry: Self, block: Self) -> Chain<Self> {
        // SAFETY: only code for this instruction set makes a `Windows`.
        unsafe {
            let block = _mm256_castsi256_si128(block.0);
            let entry = _mm256_castsi256_si128(entry.0);
            let exit = _mm_shuffle_epi8(_mm256_castsi256_si128(jump.0), entry);
            let second_entry = _mm_sub_epi8(exit, block);
            let second_exit = _mm_shuffle_epi8(_mm256_extracti128_si256::<1>(jump.0), second_entry);
            Chain {
                entries: Self(_mm256_set_m128i(second_entry, entry)),
                exits: Self(_mm256_set_m128i(second_exit, exit)),
                next: Self(_mm256_castsi128_si256(_mm_sub_epi8(second_exit, block))),
            }
        }
    }

    #[inline(always)]
    unsafe fn close_up(from: *const u8, order: &[u8; 8], to: *mut u8) {
        // SAFETY: eight bytes each, by the caller's promise; these loads and the store need no
        // alignment.
        unsafe {
            let bytes = _mm_loadl_epi64(from.cast());
            let order = _mm_loadl_epi64(order.as_ptr().cast());
            _mm_storel_epi64(to.cast(), _mm_shuffle_epi8(bytes, order));
        }
    }
}
