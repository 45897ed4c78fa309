//! NEON: 16 bytes of input a step, compacted by `tbl` with tables.
//!
//! The same as `sse.rs` step by step. Where that has one instruction to collect a bit of every
//! byte, here each byte keeps the bit that is its own, and the eight of a half are added up.

use core::arch::aarch64::*;
use core::mem::MaybeUninit;

use super::run::Run;
use super::tables::{BYTES, Compaction, DWORDS, QWORDS, SECOND, WORDS, highest, short_markers, short_slots};

/// 16 bytes from element `first` on.
#[inline]
#[target_feature(enable = "neon")]
fn load<T, const N: usize>(values: &[T; N], first: usize) -> uint8x16_t {
    let values = &values[first..];
    assert!(size_of_val(values) >= 16);
    // SAFETY: 16 readable bytes, and the load needs no alignment.
    unsafe { vld1q_u8(values.as_ptr().cast()) }
}

/// Writes 16 bytes at `at`.
#[inline]
#[target_feature(enable = "neon")]
fn store<const N: usize>(out: &mut [MaybeUninit<u8>; N], at: usize, bytes: uint8x16_t) {
    debug_assert!(at + 16 <= N);
    // SAFETY: `at + 16 <= N`, as blocks have room for the longest forms of all elements before and
    // a register behind them; the store needs no alignment.
    unsafe { vst1q_u8(out.as_mut_ptr().add(at).cast(), bytes) }
}

/// A bit for each byte of either half of `bytes`, of which each is 0 or 0xff.
#[inline]
#[target_feature(enable = "neon")]
fn bits(bytes: uint8x16_t) -> [u8; 2] {
    const OWN: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];
    let own = vandq_u8(bytes, load(&OWN, 0));
    [vaddv_u8(vget_low_u8(own)), vaddv_u8(vget_high_u8(own))]
}

/// Writes the elements of `bytes` in the forms `forms`, and returns where the next ones go.
#[inline]
#[target_feature(enable = "neon")]
fn compact<const SIZE: usize, const N: usize>(
    bytes: uint8x16_t,
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
    store(out, at, vqtbl1q_u8(bytes, load(&table[usize::from(forms)], 0)));
    at + 8 / SIZE + forms.count_ones() as usize
}

// --- Elements that all take the longest form.

/// See `marked` in `sse.rs`.
#[inline]
#[target_feature(enable = "neon")]
fn marked<const SIZE: usize, const SIGNED: bool, const MARKER: u8>(numbers: uint8x16_t) -> uint8x16_t {
    let bytes = vqtbl1q_u8(numbers, load(const { &short_slots::<SIZE>(0, 0) }, 0));
    let line = vorrq_u8(bytes, load(const { &short_markers::<SIZE>(0, MARKER) }, 0));
    if !SIGNED {
        return line;
    }
    let highest = vqtbl1q_u8(numbers, load(const { &highest::<SIZE>() }, 0));
    let negative = vcltzq_s8(vreinterpretq_s8_u8(highest));
    veorq_u8(line, vandq_u8(negative, load(const { &short_markers::<SIZE>(0, 0x1c) }, 0)))
}

/// Writes 12 numbers of four bytes.
#[inline]
#[target_feature(enable = "neon")]
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
#[target_feature(enable = "neon")]
fn longest_8<const SIGNED: bool, const MARKER: u8, const N: usize>(
    numbers: uint8x16_t,
    room: &mut [MaybeUninit<u8>; N],
    at: usize,
) {
    // The second number lacks its last two bytes here, and is written again without its marker.
    store(room, at, marked::<8, SIGNED, MARKER>(numbers));
    store(room, at + 10, vqtbl1q_u8(numbers, load(&SECOND, 0)));
}

#[target_feature(enable = "neon")]
pub(super) fn f32s(values: &[f32], out: &mut [MaybeUninit<u8>]) -> usize {
    let mut run = Run::new(values, out);
    run.blocks::<12, 13, 66>(|values, room| longest_4::<_, false, 0xca>(values, room));
    run.finish(super::scalar::f32s)
}

#[target_feature(enable = "neon")]
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

#[target_feature(enable = "neon")]
pub(super) fn bools(values: &[bool], out: &mut [MaybeUninit<u8>]) -> usize {
    let mut run = Run::new(values, out);
    run.blocks::<64, 64, 64>(|values, room| {
        for at in [0, 16, 32, 48] {
            store(room, at, vorrq_u8(load(values, at), vdupq_n_u8(0xc2)));
        }
        64
    });
    run.finish(super::scalar::bools)
}

macro_rules! bytes {
    ($name:ident $element:ty, $marker:literal, $forms:expr) => {
        #[target_feature(enable = "neon")]
        pub(super) fn $name(values: &[$element], out: &mut [MaybeUninit<u8>]) -> usize {
            let markers = vdupq_n_u64(u64::from_ne_bytes([$marker; 8]));
            let mut run = Run::new(values, out);
            run.blocks::<16, 16, 32>(|values, room| {
                let bytes = load(values, 0);
                let marked = $forms(vreinterpretq_s8_u8(bytes));
                if vmaxvq_u8(marked) == 0 {
                    store(room, 0, bytes);
                    return 16;
                }
                let ([first, second], bytes) = (bits(marked), vreinterpretq_u64_u8(bytes));
                let at = compact::<1, 32>(vreinterpretq_u8_u64(vzip1q_u64(bytes, markers)), first, room, 0);
                compact::<1, 32>(vreinterpretq_u8_u64(vzip2q_u64(bytes, markers)), second, room, at)
            });
            run.finish(super::scalar::$name)
        }
    };
}

bytes!(i8s i8, 0xd0, |bytes| vcltq_s8(bytes, vdupq_n_s8(-32)));
bytes!(u8s u8, 0xcc, |bytes| vcltzq_s8(bytes));

// --- Two bytes.

macro_rules! words {
    ($name:ident $element:ty, $signed:literal) => {
        #[target_feature(enable = "neon")]
        pub(super) fn $name(values: &[$element], out: &mut [MaybeUninit<u8>]) -> usize {
            let mut run = Run::new(values, out);
            run.blocks::<8, 8, 28>(|values, room| {
                let numbers = vreinterpretq_u16_u8(load(values, 0));
                let (used, markers) = words::<$signed>(numbers);
                let [first, second] = bits(used);
                let at = compact::<2, 28>(vreinterpretq_u8_u16(vzip1q_u16(numbers, markers)), first, room, 0);
                compact::<2, 28>(vreinterpretq_u8_u16(vzip2q_u16(numbers, markers)), second, room, at)
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
#[target_feature(enable = "neon")]
fn words<const SIGNED: bool>(numbers: uint16x8_t) -> (uint8x16_t, uint16x8_t) {
    let (mut size, mut fixint_size, mut markers) = (numbers, numbers, vdupq_n_u16(0xcc));
    if SIGNED {
        // Negative numbers are measured by their complement, which may have one bit less, and as a
        // fixint two bits less.
        let signs = vcltzq_s16(vreinterpretq_s16_u16(numbers));
        let complement = veorq_u16(numbers, signs);
        size = vaddq_u16(complement, vandq_u16(complement, signs));
        fixint_size = vaddq_u16(size, vandq_u16(size, signs));
        markers = vaddq_u16(markers, vandq_u16(signs, vdupq_n_u16(4)));
    }
    let two = vcgtq_u16(size, vdupq_n_u16(0xff));
    let marker = vorrq_u16(two, vcgtq_u16(fixint_size, vdupq_n_u16(0x7f)));
    // The marker in the lower byte; the number's upper byte in the upper one. All ones are minus
    // one.
    let used = vandq_u16(marker, vorrq_u16(two, vdupq_n_u16(0xff)));
    (vreinterpretq_u8_u16(used), vsubq_u16(markers, two))
}

// --- Four bytes.

macro_rules! dwords {
    ($name:ident $element:ty, $signed:literal) => {
        #[target_feature(enable = "neon")]
        pub(super) fn $name(values: &[$element], out: &mut [MaybeUninit<u8>]) -> usize {
            let mut run = Run::new(values, out);
            run.blocks::<12, 13, 66>(|values, room| {
                let dwords = [0, 4, 8].map(|first| {
                    let numbers = vreinterpretq_u32_u8(load(values, first));
                    (numbers, Dwords::new::<$signed>(numbers))
                });
                let long = vandq_u32(vandq_u32(dwords[0].1.long, dwords[1].1.long), dwords[2].1.long);
                if vminvq_u32(long) != 0 {
                    return longest_4::<_, $signed, 0xce>(values, room);
                }
                let mut at = 0;
                for (numbers, dwords) in &dwords {
                    at = dwords.write(*numbers, room, at);
                }
                at
            });
            run.blocks::<4, 4, 26>(|values, room| {
                let numbers = vreinterpretq_u32_u8(load(values, 0));
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
    size: uint32x4_t,
    signs: uint32x4_t,
    /// All bits of those of more than two bytes.
    long: uint32x4_t,
}

impl Dwords {
    #[inline]
    #[target_feature(enable = "neon")]
    fn new<const SIGNED: bool>(numbers: uint32x4_t) -> Self {
        let signs = if SIGNED { vcltzq_s32(vreinterpretq_s32_u32(numbers)) } else { vdupq_n_u32(0) };
        Self::with_signs(numbers, signs)
    }

    #[inline]
    #[target_feature(enable = "neon")]
    fn with_signs(numbers: uint32x4_t, signs: uint32x4_t) -> Self {
        // As in `words`.
        let complement = veorq_u32(numbers, signs);
        let size = vaddq_u32(complement, vandq_u32(complement, signs));
        Self { size, signs, long: vcgtq_u32(size, vdupq_n_u32(0xffff)) }
    }

    /// All bits of the bytes that stand for the parts of their forms, and their markers.
    #[inline]
    #[target_feature(enable = "neon")]
    fn forms(&self) -> (uint32x4_t, uint32x4_t) {
        let Self { size, signs, long } = *self;
        let two = vcgtq_u32(size, vdupq_n_u32(0xff));
        let fixint_size = vaddq_u32(size, vandq_u32(size, signs));
        let marker = vorrq_u32(two, vcgtq_u32(fixint_size, vdupq_n_u32(0x7f)));
        let used = vandq_u32(marker, vorrq_u32(two, vdupq_n_u32(0xff)));
        let used = vandq_u32(used, vorrq_u32(long, vdupq_n_u32(0xffff)));
        let markers = vaddq_u32(vdupq_n_u32(0xcc), vandq_u32(signs, vdupq_n_u32(4)));
        (used, vsubq_u32(vsubq_u32(markers, two), long))
    }

    /// Writes the numbers at `at`, and returns where the next ones go.
    #[inline]
    #[target_feature(enable = "neon")]
    fn write<const N: usize>(
        &self,
        numbers: uint32x4_t,
        room: &mut [MaybeUninit<u8>; N],
        at: usize,
    ) -> usize {
        let (used, markers) = self.forms();
        let [first, second] = bits(vreinterpretq_u8_u32(used));
        let at = compact::<4, N>(vreinterpretq_u8_u32(vzip1q_u32(numbers, markers)), first, room, at);
        compact::<4, N>(vreinterpretq_u8_u32(vzip2q_u32(numbers, markers)), second, room, at)
    }
}

// --- Eight bytes.

macro_rules! qwords {
    ($name:ident $element:ty, $signed:literal) => {
        #[target_feature(enable = "neon")]
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
#[target_feature(enable = "neon")]
fn qwords<const SIGNED: bool>(
    first: uint8x16_t,
    second: uint8x16_t,
    room: &mut [MaybeUninit<u8>; 44],
) -> usize {
    let (a, b) = (vreinterpretq_u32_u8(first), vreinterpretq_u32_u8(second));
    let (low, high) = (vuzp1q_u32(a, b), vuzp2q_u32(a, b));
    // Whole are those whose upper half is not 0, but for negative ones whose upper half and the bit
    // below it are 1.
    let (mut whole, mut signs) = (vtstq_u32(high, high), vdupq_n_u32(0));
    if SIGNED {
        signs = vcltzq_s32(vreinterpretq_s32_u32(high));
        let half = vandq_u32(vceqq_u32(high, vdupq_n_u32(u32::MAX)), vcltzq_s32(vreinterpretq_s32_u32(low)));
        whole = vbicq_u32(whole, half);
    }
    if vminvq_u32(whole) != 0 {
        longest_8::<SIGNED, 0xcf, 44>(first, room, 0);
        longest_8::<SIGNED, 0xcf, 44>(second, room, 18);
        return 36;
    }
    let (used, markers) = Dwords::with_signs(low, signs).forms();
    let used = vorrq_u32(used, whole);
    let longest = vaddq_u32(vdupq_n_u32(0xcf), vandq_u32(signs, vdupq_n_u32(4)));
    let markers = vbslq_u32(whole, longest, markers);
    // Four bits of a number's lower half and four of its upper one, for two numbers after the
    // other.
    let forms = [vzip1q_u32(used, whole), vzip2q_u32(used, whole)];
    let markers = [vzip1q_u32(markers, markers), vzip2q_u32(markers, markers)];
    let mut at = 0;
    for ((numbers, markers), forms) in [first, second].into_iter().zip(markers).zip(forms) {
        let (numbers, markers) = (vreinterpretq_u64_u8(numbers), vreinterpretq_u64_u32(markers));
        let [first, second] = bits(vreinterpretq_u8_u32(forms));
        at = compact::<8, 44>(vreinterpretq_u8_u64(vzip1q_u64(numbers, markers)), first, room, at);
        at = compact::<8, 44>(vreinterpretq_u8_u64(vzip2q_u64(numbers, markers)), second, room, at);
    }
    at
}
