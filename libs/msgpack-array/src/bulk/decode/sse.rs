//! One window at a time with SSSE3, SSE4.1 and POPCNT.
//!
//! Nothing here may run before the CPU is known to have it; `bulk/mod.rs` ensures that.

use core::arch::x86_64::*;
use core::mem::MaybeUninit;

use super::Progress;
use super::vectors::Kernel;
use super::windows::{self, Chain, Vector, WINDOW};
use crate::element::Element;

pub(super) struct Sse;

impl Kernel for Sse {
    #[target_feature(enable = "ssse3,sse4.1,popcnt")]
    unsafe fn run<T: Element, const STRIDE: usize>(input: &[u8], out: &mut [MaybeUninit<T>]) -> usize {
        windows::run::<Windows, T, STRIDE>(input, out)
    }

    #[target_feature(enable = "ssse3,sse4.1,popcnt")]
    unsafe fn mixed<T: Element>(input: &[u8], out: &mut [MaybeUninit<T>]) -> Progress {
        windows::mixed::<Windows, T>(input, out)
    }
}

#[derive(Clone, Copy)]
struct Windows(__m128i);

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
    const WINDOWS: usize = 1;

    instructions! {
        shuffle: _mm_shuffle_epi8, and: _mm_and_si128, or: _mm_or_si128, xor: _mm_xor_si128, add: _mm_add_epi8,
        sub: _mm_sub_epi8, equal: _mm_cmpeq_epi8, greater: _mm_cmpgt_epi8
    }

    #[inline(always)]
    unsafe fn load(at: *const u8, _distance: usize) -> Self {
        // SAFETY: the caller's promise; the load needs no alignment.
        Self(unsafe { _mm_loadu_si128(at.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, _window: usize, to: *mut u8) {
        // SAFETY: the caller's promise; the store needs no alignment.
        unsafe { _mm_storeu_si128(to.cast(), self.0) };
    }

    #[inline(always)]
    fn table(bytes: &[u8; WINDOW]) -> Self {
        // SAFETY: the table is as long as a window, and the load needs no alignment.
        Self(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) })
    }

    #[inline(always)]
    fn splat(byte: u8) -> Self {
        // SAFETY: only code for this instruction set calls this.
        Self(unsafe { _mm_set1_epi8(byte as i8) })
    }

    #[inline(always)]
    fn look_up(self, indices: Self) -> Self {
        // What is too large gets the highest bit; the shuffle does not look at the others above the
        // lowest four. SAFETY: only code for this instruction set makes a `Windows`.
        let indices = Self(unsafe { _mm_adds_epu8(indices.0, _mm_set1_epi8(0x70)) });
        self.shuffle(indices)
    }

    #[inline(always)]
    fn without(self, other: Self) -> Self {
        // SAFETY: only code for this instruction set makes a `Windows`.
        Self(unsafe { _mm_andnot_si128(other.0, self.0) })
    }

    #[inline(always)]
    fn abs(self) -> Self {
        // SAFETY: only code for this instruction set makes a `Windows`.
        Self(unsafe { _mm_abs_epi8(self.0) })
    }

    #[inline(always)]
    fn highest_bits(self) -> u32 {
        // SAFETY: only code for this instruction set makes a `Windows`.
        unsafe { _mm_movemask_epi8(self.0) as u32 }
    }

    #[inline(always)]
    fn chain(jump: Self, entry: Self, block: Self) -> Chain<Self> {
        let exits = jump.shuffle(entry);
        Chain { entries: entry, exits, next: exits.sub(block) }
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
