//! WebAssembly's vectors: 16 bytes of input a step, compacted by `i8x16_swizzle` with tables.
//!
//! The same as `sse.rs` step by step, and as there a bit of every byte is collected by one
//! instruction. A module either has these instructions or is refused where they are missing, so
//! they are chosen when it is compiled, and all of them but loads and stores are safe functions.

use core::arch::wasm32::*;
use core::mem::MaybeUninit;

use super::run::Run;
use super::tables::{BYTES, Compaction, DWORDS, QWORDS, SECOND, WORDS, highest, short_markers, short_slots};

/// 16 bytes from element `first` on.
#[inline]
fn load<T, const N: usize>(values: &[T; N], first: usize) -> v128 {
    let values = &values[first..];
    assert!(size_of_val(values) >= 16);
    // SAFETY: 16 readable bytes, and the load needs no alignment.
    unsafe { v128_load(values.as_ptr().cast()) }
}

/// Writes 16 bytes at `at`.
#[inline]
fn store<const N: usize>(out: &mut [MaybeUninit<u8>; N], at: usize, bytes: v128) {
    debug_assert!(at + 16 <= N);
    // SAFETY: `at + 16 <= N`, as blocks have room for the longest forms of all elements before and
    // a register behind them; the store needs no alignment.
    unsafe { v128_store(out.as_mut_ptr().add(at).cast(), bytes) }
}

/// A bit for each byte of either half of `bytes`, of which each is 0 or 0xff.
#[inline]
fn bits(bytes: v128) -> [u8; 2] {
    i8x16_bitmask(bytes).to_le_bytes()
}

/// Writes the elements of `bytes` in the forms `forms`, and returns where the next ones go.
#[inline]
fn compact<const SIZE: usize, const N: usize>(
    bytes: v128,
    forms: u8,
    out: &mut [MaybeUninit<u8>; N],
    at: usize,
) -> usize {
    let table: &Compaction = match SIZE {
        1 => &BYTES,
        2 => &WORDS,
        4 => &DWORDS,
        _ => &QWORDS,
    };
    store(out, at, i8x16_swizzle(bytes, load(&table[usize::from(forms)], 0)));
    at + 8 / SIZE + forms.count_ones() as usize
}

// --- Elements that all take the longest form.

/// See `marked` in `sse.rs`.
#[inline]
fn marked<const SIZE: usize, const SIGNED: bool, const MARKER: u8>(numbers: v128) -> v128 {
    let bytes = i8x16_swizzle(numbers, load(const { &short_slots::<SIZE>(0, 0) }, 0));
    let line = v128_or(bytes, load(const { &short_markers::<SIZE>(0, MARKER) }, 0));
    if !SIGNED {
        return line;
    }
    let highest = i8x16_swizzle(numbers, load(const { &highest::<SIZE>() }, 0));
    let negative = i8x16_lt(highest, i8x16_splat(0));
    v128_xor(line, v128_and(negative, load(const { &short_markers::<SIZE>(0, 0x1c) }, 0)))
}

/// Writes 12 numbers of four bytes.
#[inline]
fn longest_4<T, const SIGNED: bool, const MARKER: u8>(
    values: &[T; 13],
    room: &mut [MaybeUninit<u8>; 66],
) -> usize {
    for (element, at) in [(0, 0), (3, 15), (6, 30), (9, 45)] {
        store(room, at, marked::<4, SIGNED, MARKER>(load(values, element)));
    }
    60
}

/// Writes two numbers of eight bytes at `at`.
#[inline]
fn longest_8<const SIGNED: bool, const MARKER: u8, const N: usize>(
    numbers: v128,
    room: &mut [MaybeUninit<u8>; N],
    at: usize,
) {
    // The second number lacks its last two bytes here, and is written again without its marker.
    store(room, at, marked::<8, SIGNED, MARKER>(numbers));
    store(room, at + 10, i8x16_swizzle(numbers, load(&SECOND, 0)));
}

pub(super) fn f32s(values: &[f32], out: &mut [MaybeUninit<u8>]) -> usize {
    let mut run = Run::new(values, out);
    run.blocks::<12, 13, 66>(longest_4::<_, false, 0xca>);
    run.finish(super::scalar::f32s)
}

pub(super) fn f64s(values: &[f64], out: &mut [MaybeUninit<u8>]) -> usize {
    let mut run = Run::new(values, out);
    run.blocks::<4, 4, 44>(|values, room| {
        longest_8::<false, 0xcb, 44>(load(values, 0), room, 0);
        longest_8::<false, 0xcb, 44>(load(values, 2), room, 18);
        36
    });
    run.finish(super::scalar::f64s)
}

// --- One byte.

pub(super) fn bools(values: &[bool], out: &mut [MaybeUninit<u8>]) -> usize {
    let mut run = Run::new(values, out);
    run.blocks::<64, 64, 64>(|values, room| {
        for at in [0, 16, 32, 48] {
            store(room, at, v128_or(load(values, at), u8x16_splat(0xc2)));
        }
        64
    });
    run.finish(super::scalar::bools)
}

macro_rules! bytes {
    ($name:ident $element:ty, $marker:literal, $forms:expr) => {
        pub(super) fn $name(values: &[$element], out: &mut [MaybeUninit<u8>]) -> usize {
            let markers = u64x2_splat(u64::from_ne_bytes([$marker; 8]));
            let mut run = Run::new(values, out);
            run.blocks::<16, 16, 32>(|values, room| {
                let bytes = load(values, 0);
                let marked = $forms(bytes);
                if !v128_any_true(marked) {
                    store(room, 0, bytes);
                    return 16;
                }
                let [first, second] = bits(marked);
                let at = compact::<1, 32>(i64x2_shuffle::<0, 2>(bytes, markers), first, room, 0);
                compact::<1, 32>(i64x2_shuffle::<1, 3>(bytes, markers), second, room, at)
            });
            run.finish(super::scalar::$name)
        }
    };
}

bytes!(i8s i8, 0xd0, |bytes| i8x16_lt(bytes, i8x16_splat(-32)));
bytes!(u8s u8, 0xcc, |bytes| i8x16_lt(bytes, i8x16_splat(0)));

// --- Two bytes.

macro_rules! words {
    ($name:ident $element:ty, $signed:literal) => {
        pub(super) fn $name(values: &[$element], out: &mut [MaybeUninit<u8>]) -> usize {
            let mut run = Run::new(values, out);
            run.blocks::<8, 8, 28>(|values, room| {
                let numbers = load(values, 0);
                let (used, markers) = words::<$signed>(numbers);
                let [first, second] = bits(used);
                let at = compact::<2, 28>(
                    i16x8_shuffle::<0, 8, 1, 9, 2, 10, 3, 11>(numbers, markers),
                    first,
                    room,
                    0,
                );
                compact::<2, 28>(
                    i16x8_shuffle::<4, 12, 5, 13, 6, 14, 7, 15>(numbers, markers),
                    second,
                    room,
                    at,
                )
            });
            run.finish(super::scalar::$name)
        }
    };
}

words!(i16s i16, true);
words!(u16s u16, false);

/// All bits of the bytes of eight numbers that stand for the parts of their forms, and their
/// markers.
#[inline]
fn words<const SIGNED: bool>(numbers: v128) -> (v128, v128) {
    let (mut size, mut fixint_size, mut markers) = (numbers, numbers, u16x8_splat(0xcc));
    if SIGNED {
        // Negative numbers are measured by their complement, which may have one bit less, and as a
        // fixint two bits less.
        let signs = i16x8_shr(numbers, 15);
        let complement = v128_xor(numbers, signs);
        size = i16x8_add(complement, v128_and(complement, signs));
        fixint_size = i16x8_add(size, v128_and(size, signs));
        markers = i16x8_add(markers, v128_and(signs, u16x8_splat(4)));
    }
    let two = u16x8_gt(size, u16x8_splat(0xff));
    let marker = v128_or(two, u16x8_gt(fixint_size, u16x8_splat(0x7f)));
    // The marker in the lower byte; the number's upper byte in the upper one. All ones are minus
    // one.
    let used = v128_and(marker, v128_or(two, u16x8_splat(0xff)));
    (used, i16x8_sub(markers, two))
}

// --- Four bytes.

macro_rules! dwords {
    ($name:ident $element:ty, $signed:literal) => {
        pub(super) fn $name(values: &[$element], out: &mut [MaybeUninit<u8>]) -> usize {
            let mut run = Run::new(values, out);
            run.blocks::<12, 13, 66>(|values, room| {
                let dwords = [0, 4, 8].map(|first| {
                    let numbers = load(values, first);
                    (numbers, Dwords::new::<$signed>(numbers))
                });
                let long = v128_and(v128_and(dwords[0].1.long, dwords[1].1.long), dwords[2].1.long);
                if i32x4_all_true(long) {
                    return longest_4::<_, $signed, 0xce>(values, room);
                }
                let mut at = 0;
                for (numbers, dwords) in &dwords {
                    at = dwords.write(*numbers, room, at);
                }
                at
            });
            run.blocks::<4, 4, 26>(|values, room| {
                let numbers = load(values, 0);
                Dwords::new::<$signed>(numbers).write(numbers, room, 0)
            });
            run.finish(super::scalar::$name)
        }
    };
}

dwords!(i32s i32, true);
dwords!(u32s u32, false);

/// How large four numbers are that have 32 bits, and a sign, if they have one, in all bits of
/// another register.
struct Dwords {
    size: v128,
    signs: v128,
    /// All bits of those of more than two bytes.
    long: v128,
}

impl Dwords {
    #[inline]
    fn new<const SIGNED: bool>(numbers: v128) -> Self {
        let signs = if SIGNED { i32x4_shr(numbers, 31) } else { u32x4_splat(0) };
        Self::with_signs(numbers, signs)
    }

    #[inline]
    fn with_signs(numbers: v128, signs: v128) -> Self {
        // As in `words`.
        let complement = v128_xor(numbers, signs);
        let size = i32x4_add(complement, v128_and(complement, signs));
        Self { size, signs, long: u32x4_gt(size, u32x4_splat(0xffff)) }
    }

    /// All bits of the bytes that stand for the parts of their forms, and their markers.
    #[inline]
    fn forms(&self) -> (v128, v128) {
        let Self { size, signs, long } = *self;
        let two = u32x4_gt(size, u32x4_splat(0xff));
        let fixint_size = i32x4_add(size, v128_and(size, signs));
        let marker = v128_or(two, u32x4_gt(fixint_size, u32x4_splat(0x7f)));
        let used = v128_and(marker, v128_or(two, u32x4_splat(0xff)));
        let used = v128_and(used, v128_or(long, u32x4_splat(0xffff)));
        let markers = i32x4_add(u32x4_splat(0xcc), v128_and(signs, u32x4_splat(4)));
        (used, i32x4_sub(i32x4_sub(markers, two), long))
    }

    /// Writes the numbers at `at`, and returns where the next ones go.
    #[inline]
    fn write<const N: usize>(&self, numbers: v128, room: &mut [MaybeUninit<u8>; N], at: usize) -> usize {
        let (used, markers) = self.forms();
        let [first, second] = bits(used);
        let at = compact::<4, N>(i32x4_shuffle::<0, 4, 1, 5>(numbers, markers), first, room, at);
        compact::<4, N>(i32x4_shuffle::<2, 6, 3, 7>(numbers, markers), second, room, at)
    }
}

// --- Eight bytes.

macro_rules! qwords {
    ($name:ident $element:ty, $signed:literal) => {
        pub(super) fn $name(values: &[$element], out: &mut [MaybeUninit<u8>]) -> usize {
            let mut run = Run::new(values, out);
            run.blocks::<4, 4, 44>(|values, room| qwords::<$signed>(load(values, 0), load(values, 2), room));
            run.finish(super::scalar::$name)
        }
    };
}

qwords!(i64s i64, true);
qwords!(u64s u64, false);

/// Writes four numbers.
#[inline]
fn qwords<const SIGNED: bool>(first: v128, second: v128, room: &mut [MaybeUninit<u8>; 44]) -> usize {
    let low = i32x4_shuffle::<0, 2, 4, 6>(first, second);
    let high = i32x4_shuffle::<1, 3, 5, 7>(first, second);
    // Whole are those whose upper half is not 0, but for negative ones whose upper half and the bit
    // below it are 1.
    let (mut whole, mut signs) = (i32x4_ne(high, u32x4_splat(0)), u32x4_splat(0));
    if SIGNED {
        signs = i32x4_shr(high, 31);
        let half = v128_and(i32x4_eq(high, u32x4_splat(u32::MAX)), i32x4_shr(low, 31));
        whole = v128_andnot(whole, half);
    }
    if i32x4_all_true(whole) {
        longest_8::<SIGNED, 0xcf, 44>(first, room, 0);
        longest_8::<SIGNED, 0xcf, 44>(second, room, 18);
        return 36;
    }
    let (used, markers) = Dwords::with_signs(low, signs).forms();
    let used = v128_or(used, whole);
    let longest = i32x4_add(u32x4_splat(0xcf), v128_and(signs, u32x4_splat(4)));
    let markers = v128_bitselect(longest, markers, whole);
    // Four bits of a number's lower half and four of its upper one, for two numbers after the
    // other.
    let forms = [i32x4_shuffle::<0, 4, 1, 5>(used, whole), i32x4_shuffle::<2, 6, 3, 7>(used, whole)];
    let markers =
        [i32x4_shuffle::<0, 4, 1, 5>(markers, markers), i32x4_shuffle::<2, 6, 3, 7>(markers, markers)];
    let mut at = 0;
    for ((numbers, markers), forms) in [first, second].into_iter().zip(markers).zip(forms) {
        let [first, second] = bits(forms);
        at = compact::<8, 44>(i64x2_shuffle::<0, 2>(numbers, markers), first, room, at);
        at = compact::<8, 44>(i64x2_shuffle::<1, 3>(numbers, markers), second, room, at);
    }
    at
}
