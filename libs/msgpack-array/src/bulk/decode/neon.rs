//! One window at a time with the vectors of 64-bit ARM.
//!
//! Every 64-bit ARM has them, so nothing has to be asked. `mod.rs` leaves big-endian ones to the
//! scalar code.

use core::arch::aarch64::*;
use core::mem::MaybeUninit;

use super::Progress;
use super::vectors::Kernel;
use super::windows::{self, Chain, Vector, WINDOW};
use crate::element::Element;

pub(super) struct Neon;

impl Kernel for Neon {
    unsafe fn run<T: Element, const STRIDE: usize>(input: &[u8], out: &mut [MaybeUninit<T>]) -> usize {
        windows::run::<Window, T, STRIDE>(input, out)
    }

    unsafe fn mixed<T: Element>(input: &[u8], out: &mut [MaybeUninit<T>]) -> Progress {
        windows::mixed::<Window, T>(input, out)
    }
}

#[derive(Clone, Copy)]
struct Window(uint8x16_t);

/// Functions of two vectors that are one instruction.
macro_rules! instructions {
    ($($name:ident: $instruction:ident),*) => { $(
        #[inline(always)]
        fn $name(self, other: Self) -> Self {
            // SAFETY: NEON belongs to the target.
            Self(unsafe { $instruction(self.0, other.0) })
        }
    )* };
}

impl Vector for Window {
    const WINDOWS: usize = 1;

    // Indices that are too large give 0 in either case.
    instructions! {
        shuffle: vqtbl1q_u8, look_up: vqtbl1q_u8, and: vandq_u8, without: vbicq_u8, or: vorrq_u8, xor: veorq_u8,
        add: vaddq_u8, sub: vsubq_u8, equal: vceqq_u8
    }

    #[inline(always)]
    unsafe fn load(at: *const u8, _distance: usize) -> Self {
        // SAFETY: the caller's promise; the load needs no alignment.
        Self(unsafe { vld1q_u8(at) })
    }

    #[inline(always)]
    unsafe fn store(self, _window: usize, to: *mut u8) {
        // SAFETY: the caller's promise; the store needs no alignment.
        unsafe { vst1q_u8(to, self.0) };
    }

    #[inline(always)]
    fn table(bytes: &[u8; WINDOW]) -> Self {
        // SAFETY: the table is as long as a window, and the load needs no alignment.
        Self(unsafe { vld1q_u8(bytes.as_ptr()) })
    }

    #[inline(always)]
    fn splat(byte: u8) -> Self {
        // SAFETY: NEON belongs to the target.
        Self(unsafe { vdupq_n_u8(byte) })
    }

    #[inline(always)]
    fn abs(self) -> Self {
        // SAFETY: NEON belongs to the target.
        Self(unsafe { vreinterpretq_u8_s8(vabsq_s8(vreinterpretq_s8_u8(self.0))) })
    }

    #[inline(always)]
    fn greater(self, other: Self) -> Self {
        // SAFETY: NEON belongs to the target.
        Self(unsafe { vcgtq_s8(vreinterpretq_s8_u8(self.0), vreinterpretq_s8_u8(other.0)) })
    }

    /// Gives each byte the bit of its place in eight, and adds up those that are to be seen.
    #[inline(always)]
    fn highest_bits(self) -> u32 {
        const PLACES: [u8; WINDOW] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];
        let high = Self::splat(0).greater(self).and(Self::table(&PLACES));
        // SAFETY: NEON belongs to the target.
        let (low, high) = unsafe { (vaddv_u8(vget_low_u8(high.0)), vaddv_u8(vget_high_u8(high.0))) };
        u32::from(low) | u32::from(high) << 8
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
        unsafe { vst1_u8(to, vtbl1_u8(vld1_u8(from), vld1_u8(order.as_ptr()))) };
    }
}
