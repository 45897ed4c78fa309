//! One window at a time with WebAssembly's vectors.
//!
//! A module that has them is refused where they are missing, so nothing has to be asked, and all
//! instructions but loads and stores are safe functions.

use core::arch::wasm32::*;
use core::mem::MaybeUninit;

use super::Progress;
use super::vectors::Kernel;
use super::windows::{self, Chain, Vector, WINDOW};
use crate::element::Element;

pub(super) struct Simd128;

impl Kernel for Simd128 {
    unsafe fn run<T: Element, const STRIDE: usize>(input: &[u8], out: &mut [MaybeUninit<T>]) -> usize {
        windows::run::<Window, T, STRIDE>(input, out)
    }

    unsafe fn mixed<T: Element>(input: &[u8], out: &mut [MaybeUninit<T>]) -> Progress {
        windows::mixed::<Window, T>(input, out)
    }
}

#[derive(Clone, Copy)]
struct Window(v128);

/// Functions of two vectors that are one instruction.
macro_rules! instructions {
    ($($name:ident: $instruction:ident),*) => { $(
        #[inline(always)]
        fn $name(self, other: Self) -> Self {
            Self($instruction(self.0, other.0))
        }
    )* };
}

impl Vector for Window {
    const WINDOWS: usize = 1;

    // Indices that are too large give 0 in either case.
    instructions! {
        shuffle: i8x16_swizzle, look_up: i8x16_swizzle, and: v128_and, without: v128_andnot, or: v128_or,
        xor: v128_xor, add: i8x16_add, sub: i8x16_sub, equal: i8x16_eq, greater: i8x16_gt
    }

    #[inline(always)]
    unsafe fn load(at: *const u8, _distance: usize) -> Self {
        // SAFETY: the caller's promise; the load needs no alignment.
        Self(unsafe { v128_load(at.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, _window: usize, to: *mut u8) {
        // SAFETY: the caller's promise; the store needs no alignment.
        unsafe { v128_store(to.cast(), self.0) };
    }

    #[inline(always)]
    fn table(bytes: &[u8; WINDOW]) -> Self {
        // SAFETY: the table is as long as a window, and the load needs no alignment.
        Self(unsafe { v128_load(bytes.as_ptr().cast()) })
    }

    #[inline(always)]
    fn splat(byte: u8) -> Self {
        Self(u8x16_splat(byte))
    }

    #[inline(always)]
    fn abs(self) -> Self {
        Self(i8x16_abs(self.0))
    }

    #[inline(always)]
    fn highest_bits(self) -> u32 {
        i8x16_bitmask(self.0).into()
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
            let bytes = v128_load64_zero(from.cast());
            let order = v128_load64_zero(order.as_ptr().cast());
            v128_store64_lane::<0>(i8x16_swizzle(bytes, order), to.cast());
        }
    }
}
