//! AVX-512 with VBMI2: 64 bytes of output a step.
//!
//! Every element gets a slot with room for its longest form, header and big-endian number put there
//! by one shuffle of bytes; then `vpcompressb` drops the bytes that the shortest form does without.
//! Where all elements of a block take the longest form, or none needs a header, this is seen before
//! and nothing is dropped. Numbers of one byte go the other way: `vpexpandb` makes room for the
//! headers. Arrays end with masked loads.

use core::arch::x86_64::*;
use core::mem::MaybeUninit;

use super::large::Line;
use super::run::Run;
use super::tables::{markers, slots};

/// 64 bytes to load into a register.
#[repr(C, align(64))]
struct Table([u8; 64]);

impl Table {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn get(&self) -> __m512i {
        // SAFETY: 64 readable bytes, aligned to 64.
        unsafe { _mm512_load_si512(self.0.as_ptr().cast()) }
    }
}

/// The first 64 bytes of `values`.
#[inline]
#[target_feature(enable = "avx512f")]
fn load<T, const N: usize>(values: &[T; N], first: usize) -> __m512i {
    const { assert!(size_of::<T>() <= 8) };
    let values = &values[first..];
    assert!(size_of_val(values) >= 64);
    // SAFETY: 64 readable bytes, and the load needs no alignment.
    unsafe { _mm512_loadu_si512(values.as_ptr().cast()) }
}

/// `values`, which are at most 64 bytes, and zeros behind them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,bmi2")]
fn load_some<T>(values: &[T]) -> __m512i {
    let length = size_of_val(values);
    assert!(length <= 64);
    // SAFETY: only the bytes of `values` are read.
    unsafe { _mm512_maskz_loadu_epi8(low_bits(length), values.as_ptr().cast()) }
}

/// The lowest `count` bits, `0 <= count <= 64`.
#[inline]
#[target_feature(enable = "bmi2")]
fn low_bits(count: usize) -> u64 {
    _bzhi_u64(u64::MAX, count as u32)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store<const N: usize>(out: &mut [MaybeUninit<u8>; N], at: usize, bytes: __m512i) {
    let out: &mut Line = out[at..].first_chunk_mut().expect("constant places within the room of a block");
    // SAFETY: 64 writable bytes, and the store needs no alignment.
    unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), bytes) }
}

/// Copies lines past the caches; see [`super::large`].
#[target_feature(enable = "avx512f")]
pub(super) fn stream(lines: &[Line], places: &mut [Line]) {
    for (line, place) in lines.iter().zip(places) {
        debug_assert!(line.as_ptr().addr().is_multiple_of(64) && place.as_ptr().addr().is_multiple_of(64));
        // SAFETY: 64 readable bytes, aligned to 64 as `large::encode` promises.
        let bytes = unsafe { _mm512_load_si512(line.as_ptr().cast()) };
        // SAFETY: 64 writable bytes, aligned to 64 in the same way.
        unsafe { _mm512_stream_si512(place.as_mut_ptr().cast(), bytes) };
    }
}

// --- Floats: constant stride.

/// Writes the line at `OFFSET` bytes of an array of `SIZE`-byte floats, elements from `FIRST` on
/// being in `input`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
fn float_line<const SIZE: usize, const OFFSET: usize, const FIRST: usize>(
    input: __m512i,
    marker: u8,
) -> __m512i {
    struct Tables<const SIZE: usize, const OFFSET: usize, const FIRST: usize>;
    impl<const SIZE: usize, const OFFSET: usize, const FIRST: usize> Tables<SIZE, OFFSET, FIRST> {
        const SLOTS: &Table = &Table(slots::<SIZE>(OFFSET, FIRST));
        const MARKERS: &Table = &Table(markers::<SIZE>(OFFSET));
    }
    let slots = Tables::<SIZE, OFFSET, FIRST>::SLOTS.get();
    let markers = Tables::<SIZE, OFFSET, FIRST>::MARKERS.get();
    let bytes = _mm512_permutexvar_epi8(slots, input);
    // Each bit: from the marker where `markers` has one, from the bytes where not.
    _mm512_ternarylogic_epi32::<0xca>(markers, _mm512_set1_epi8(marker as i8), bytes)
}

macro_rules! lines {
    ($values:ident $room:ident $size:literal $marker:literal: $($offset:literal $first:literal),*) => { $(
        let line = float_line::<$size, $offset, $first>(load($values, $first), $marker);
        store($room, $offset, line);
    )* };
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
pub(super) fn f64s(values: &[f64], out: &mut [MaybeUninit<u8>]) -> usize {
    let mut run = Run::new(values, out);
    run.blocks::<64, 64, 576>(|values, room| {
        lines!(values room 8 0xcb: 0 0, 64 7, 128 14, 192 21, 256 28, 320 35, 384 42, 448 49, 512 56);
        576
    });
    run.blocks::<8, 8, 72>(|values, room| {
        lines!(values room 8 0xcb: 0 0, 8 0);
        72
    });
    run.finish(super::scalar::f64s)
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
pub(super) fn f32s(values: &[f32], out: &mut [MaybeUninit<u8>]) -> usize {
    let mut run = Run::new(values, out);
    run.blocks::<64, 64, 320>(|values, room| {
        lines!(values room 4 0xca: 0 0, 64 12, 128 25, 192 38, 256 48);
        320
    });
    run.blocks::<16, 16, 80>(|values, room| {
        lines!(values room 4 0xca: 0 0, 16 0);
        80
    });
    run.finish(super::scalar::f32s)
}

// --- One byte.

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
pub(super) fn bools(values: &[bool], out: &mut [MaybeUninit<u8>]) -> usize {
    let mut run = Run::new(values, out);
    run.blocks::<64, 64, 64>(|values, room| {
        store(room, 0, _mm512_or_si512(load(values, 0), _mm512_set1_epi8(0xc2_u8 as i8)));
        64
    });
    run.rest::<64, 64>(|values, room| {
        store(room, 0, _mm512_or_si512(load_some(values), _mm512_set1_epi8(0xc2_u8 as i8)));
        values.len()
    });
    run.finish(super::scalar::bools)
}

/// Writes 32 bytes, those of `marked` with the marker in front, and returns the length.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
fn half(bytes: __m512i, marker: __m512i, marked: u32, out: &mut Line) -> usize {
    // Two places for each byte, marker and value, and which of them are used ...
    const VALUES: u64 = 0xaaaa_aaaa_aaaa_aaaa;
    let used = _pdep_u64(u64::from(marked), !VALUES) | VALUES;
    // ... so that the used ones, one after the other, are markers but for the values.
    let values = _pext_u64(VALUES, used);
    store(out, 0, _mm512_mask_expand_epi8(marker, values, bytes));
    32 + marked.count_ones() as usize
}

/// Writes 64 bytes the same way.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
fn whole(
    bytes: __m512i,
    upper: __m512i,
    marker: u8,
    marked: u64,
    room: &mut [MaybeUninit<u8>; 128],
) -> usize {
    if marked == 0 {
        store(room, 0, bytes);
        return 64;
    }
    let marker = _mm512_set1_epi8(marker as i8);
    let (first, _) = room.split_first_chunk_mut().expect("128 bytes");
    let at = half(bytes, marker, marked as u32, first);
    let second = room[at..].first_chunk_mut().expect("64 more bytes after at most 64");
    at + half(upper, marker, (marked >> 32) as u32, second)
}

macro_rules! bytes {
    ($name:ident $element:ty, $marker:literal, $marked:expr) => {
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
        pub(super) fn $name(values: &[$element], out: &mut [MaybeUninit<u8>]) -> usize {
            let mut run = Run::new(values, out);
            run.blocks::<64, 64, 128>(|values, room| {
                let bytes = load(values, 0);
                let upper = _mm512_castsi256_si512(_mm512_extracti64x4_epi64::<1>(bytes));
                whole(bytes, upper, $marker, $marked(bytes), room)
            });
            run.rest::<64, 128>(|values, room| {
                let bytes = load_some(values);
                let upper = _mm512_castsi256_si512(_mm512_extracti64x4_epi64::<1>(bytes));
                // The zeros behind the values are fixints, so only they are too many.
                whole(bytes, upper, $marker, $marked(bytes), room) - (64 - values.len())
            });
            run.finish(super::scalar::$name)
        }
    };
}

bytes!(i8s i8, 0xd0, |bytes| _mm512_cmplt_epi8_mask(bytes, _mm512_set1_epi8(-32)));
bytes!(u8s u8, 0xcc, |bytes| _mm512_movepi8_mask(bytes));

// --- Two, four and eight bytes.

/// What the slots of `SIZE`-byte integers look like.
struct Slots<const SIZE: usize>;

impl<const SIZE: usize> Slots<SIZE> {
    /// Elements that fit into a register with their markers: 21, 12, 7.
    const COUNT: usize = 64 / (SIZE + 1);
    const LENGTH: usize = Self::COUNT * (SIZE + 1);
    const MARKER_MASK: u64 = marker_mask::<SIZE>(0);
    const NUMBERS: &Table = &Table(slots::<SIZE>(0, 0));
    /// For each byte of a slot the lowest byte of the element, where its marker has been found.
    const MARKERS: &Table = &Table(Self::lowest());
    const BITS: &Table = &Table(Self::forms().0);
    const AT_LEAST: &Table = &Table(Self::forms().1);

    const fn lowest() -> [u8; 64] {
        let mut table = [0; 64];
        let mut at = 0;
        while at < 64 {
            table[at] = (at / (SIZE + 1) * SIZE % 64) as u8;
            at += 1;
        }
        table
    }

    /// For each byte of a slot what the bits in the first table must at least be, in the marker,
    /// for the byte to be used.
    const fn forms() -> ([u8; 64], [u8; 64]) {
        let (mut bits, mut at_least) = ([0; 64], [0xff; 64]);
        let mut at = 0;
        while at < Self::LENGTH {
            // The lowest two bits of a marker are the logarithm of the bytes that follow.
            (bits[at], at_least[at]) = match SIZE - at % (SIZE + 1) {
                place if place == SIZE => (0x40, 0x40),
                0 => (0, 0),
                1 => (3, 1),
                2 | 3 => (2, 2),
                _ => (3, 3),
            };
            at += 1;
        }
        (bits, at_least)
    }
}

/// A bit for each byte of a line that is a marker.
const fn marker_mask<const SIZE: usize>(offset: usize) -> u64 {
    let table = markers::<SIZE>(offset);
    let mut mask = 0;
    let mut at = 0;
    while at < 64 {
        mask |= ((table[at] & 1) as u64) << at;
        at += 1;
    }
    mask
}

/// Writes the elements of `numbers` with the markers that are in their lowest bytes, all in the
/// shortest form, and returns the length.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
fn shortest<const SIZE: usize>(numbers: __m512i, markers: __m512i, count: usize, out: &mut Line) -> usize {
    let everywhere = _mm512_permutexvar_epi8(Slots::<SIZE>::MARKERS.get(), markers);
    let bits = _mm512_and_si512(everywhere, Slots::<SIZE>::BITS.get());
    let used = _mm512_cmpge_epu8_mask(bits, Slots::<SIZE>::AT_LEAST.get()) & low_bits(count * (SIZE + 1));
    let slots = _mm512_mask_permutexvar_epi8(
        everywhere,
        !Slots::<SIZE>::MARKER_MASK,
        Slots::<SIZE>::NUMBERS.get(),
        numbers,
    );
    store(out, 0, _mm512_maskz_compress_epi8(used, slots));
    used.count_ones() as usize
}

/// Writes the elements of `numbers` in the longest form.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
fn longest<const SIZE: usize, const SIGNED: bool>(numbers: __m512i, out: &mut Line) {
    let longest = marker(8 * SIZE as u32 - SIGNED as u32, false);
    let slots = _mm512_permutexvar_epi8(Slots::<SIZE>::NUMBERS.get(), numbers);
    let mut line = _mm512_mask_mov_epi8(slots, Slots::<SIZE>::MARKER_MASK, _mm512_set1_epi8(longest as i8));
    if SIGNED {
        let negative = marker(8 * SIZE as u32 - 1, true);
        let signs = _mm512_movepi8_mask(slots) & Slots::<SIZE>::MARKER_MASK;
        line = _mm512_mask_mov_epi8(line, signs, _mm512_set1_epi8(negative as i8));
    }
    store(out, 0, line);
}

/// The integer marker before the shortest form of a number with `bits` significant bits (of its
/// complement, if `negative`); [`FIXINT`] when it is its own marker. `uint 8` to `uint 64` are 0xcc
/// to 0xcf, `int 8` to `int 64` 0xd0 to 0xd3.
const fn marker(bits: u32, negative: bool) -> u8 {
    let (uint, negative_bits) = if negative { (0xd0, bits + 1) } else { (0xcc, bits) };
    match (negative_bits, negative, bits) {
        (_, false, 0..=7) | (_, true, 0..=5) => FIXINT,
        (0..=8, ..) => uint,
        (0..=16, ..) => uint + 1,
        (0..=32, ..) => uint + 2,
        _ => uint + 3,
    }
}

/// Stands for the marker of a number that needs none. Neither bit 6, which every marker has, nor a
/// width in the lowest two bits.
const FIXINT: u8 = 0x20;

/// Markers by number of bits: index `(leading zeros) - skipped`, 32 more for negative numbers.
const fn marker_table(size_bits: u32, skipped: u32) -> Table {
    let mut table = [0; 64];
    let mut at = 0;
    while at < 64 {
        table[at as usize] = marker(size_bits - skipped - at % 32, at >= 32);
        at += 1;
    }
    Table(table)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,avx512cd,bmi2,popcnt")]
fn markers_32<const SIGNED: bool>(numbers: __m512i) -> __m512i {
    const TABLE: &Table = &marker_table(32, 0);
    let signs = if SIGNED { _mm512_srai_epi32::<31>(numbers) } else { _mm512_setzero_si512() };
    // A bit more makes no difference to numbers as small as 7, and keeps the zeros below 32:
    // (numbers ^ signs) | 4.
    let small = _mm512_ternarylogic_epi32::<0xbe>(numbers, signs, _mm512_set1_epi32(4));
    let zeros = _mm512_lzcnt_epi32(small);
    // zeros | signs & 32
    let index = _mm512_ternarylogic_epi32::<0xf8>(zeros, signs, _mm512_set1_epi32(32));
    _mm512_permutexvar_epi8(index, TABLE.get())
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,avx512cd,bmi2,popcnt")]
fn markers_64<const SIGNED: bool>(numbers: __m512i) -> __m512i {
    const TABLE: &Table = &marker_table(64, 31);
    let signs = if SIGNED { _mm512_srai_epi64::<63>(numbers) } else { _mm512_setzero_si512() };
    let small = _mm512_ternarylogic_epi64::<0xbe>(numbers, signs, _mm512_set1_epi64(4));
    // More bits than 33 are as good as 33, for either sign.
    let zeros = _mm512_subs_epu8(_mm512_lzcnt_epi64(small), _mm512_set1_epi64(31));
    let index = _mm512_ternarylogic_epi64::<0xf8>(zeros, signs, _mm512_set1_epi64(32));
    _mm512_permutexvar_epi8(index, TABLE.get())
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,avx512cd,bmi2,popcnt")]
fn markers_16<const SIGNED: bool>(numbers: __m512i) -> __m512i {
    const SIGNED_TABLE: &Table = &{
        let mut table = [0; 64];
        let mut at = 0;
        while at < 64 {
            let value = at as i32 * 32 - 128;
            table[at] = match at {
                63 => 0xd1,
                _ if value < 0 => marker(32 - (!value).leading_zeros(), true),
                _ => marker(32 - value.leading_zeros(), false),
            };
            at += 1;
        }
        Table(table)
    };
    const TABLE: &Table = &{
        let mut table = [0; 64];
        (table[0], table[1], table[2]) = (FIXINT, 0xcc, 0xcd);
        Table(table)
    };
    if SIGNED {
        let steps = _mm512_srai_epi16::<5>(_mm512_adds_epi16(numbers, _mm512_set1_epi16(128)));
        let steps = _mm512_max_epi16(_mm512_min_epi16(steps, _mm512_set1_epi16(12)), _mm512_set1_epi16(-1));
        _mm512_permutexvar_epi8(steps, SIGNED_TABLE.get())
    } else {
        let steps = _mm512_srli_epi16::<7>(_mm512_min_epu16(numbers, _mm512_set1_epi16(256)));
        _mm512_permutexvar_epi8(steps, TABLE.get())
    }
}

macro_rules! words {
    ($name:ident $element:ty, $signed:literal) => {
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,avx512cd,bmi2,popcnt")]
        pub(super) fn $name(values: &[$element], out: &mut [MaybeUninit<u8>]) -> usize {
            let mut run = Run::new(values, out);
            run.blocks::<21, 32, 64>(|values, room| {
                let numbers = load(values, 0);
                shortest::<2>(numbers, markers_16::<$signed>(numbers), 21, room)
            });
            run.rest::<21, 64>(|values, room| {
                let numbers = load_some(values);
                shortest::<2>(numbers, markers_16::<$signed>(numbers), values.len(), room)
            });
            run.finish(super::scalar::$name)
        }
    };
}

words!(i16s i16, true);
words!(u16s u16, false);

macro_rules! dwords {
    ($name:ident $element:ty, $signed:literal, $least:expr, $below:expr) => {
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,avx512cd,bmi2,popcnt")]
        pub(super) fn $name(values: &[$element], out: &mut [MaybeUninit<u8>]) -> usize {
            let mut run = Run::new(values, out);
            run.blocks::<48, 52, 256>(|values, room| {
                let least =
                    [0, 16, 32].map(|at| _mm512_sub_epi32(load(values, at), _mm512_set1_epi32($least)));
                let smallest = _mm512_min_epu32(_mm512_min_epu32(least[0], least[1]), least[2]);
                if _mm512_cmplt_epu32_mask(smallest, _mm512_set1_epi32($below)) == 0 {
                    for at in [0, 12, 24, 36] {
                        let line = room[at * 5..].first_chunk_mut().expect("64 bytes");
                        longest::<4, $signed>(load(values, at), line);
                    }
                    return 240;
                }
                let mut written = 0;
                for at in [0, 12, 24, 36] {
                    let numbers = load(values, at);
                    let line = room[written..].first_chunk_mut().expect("64 bytes");
                    written += shortest::<4>(numbers, markers_32::<$signed>(numbers), 12, line);
                }
                written
            });
            run.rest::<12, 64>(|values, room| {
                let numbers = load_some(values);
                shortest::<4>(numbers, markers_32::<$signed>(numbers), values.len(), room)
            });
            run.finish(super::scalar::$name)
        }
    };
}

dwords!(i32s i32, true, -0x8000, 0x1_8000);
dwords!(u32s u32, false, 0, 0x1_0000);

macro_rules! qwords {
    ($name:ident $element:ty, $signed:literal, $least:expr, $below:expr) => {
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,avx512cd,bmi2,popcnt")]
        pub(super) fn $name(values: &[$element], out: &mut [MaybeUninit<u8>]) -> usize {
            let mut run = Run::new(values, out);
            run.blocks::<28, 29, 256>(|values, room| {
                let least =
                    [0, 7, 14, 21].map(|at| _mm512_sub_epi64(load(values, at), _mm512_set1_epi64($least)));
                let below = _mm512_set1_epi64($below);
                let least = least.map(|least| _mm512_cmplt_epu64_mask(least, below));
                if least[0] | least[1] | least[2] | least[3] == 0 {
                    for at in [0, 7, 14, 21] {
                        let line = room[at * 9..].first_chunk_mut().expect("64 bytes");
                        longest::<8, $signed>(load(values, at), line);
                    }
                    return 252;
                }
                let mut written = 0;
                for at in [0, 7, 14, 21] {
                    let numbers = load(values, at);
                    let line = room[written..].first_chunk_mut().expect("64 bytes");
                    written += shortest::<8>(numbers, markers_64::<$signed>(numbers), 7, line);
                }
                written
            });
            run.rest::<7, 64>(|values, room| {
                let numbers = load_some(values);
                shortest::<8>(numbers, markers_64::<$signed>(numbers), values.len(), room)
            });
            run.finish(super::scalar::$name)
        }
    };
}

qwords!(i64s i64, true, -0x8000_0000, 0x1_8000_0000);
qwords!(u64s u64, false, 0, 0x1_0000_0000);
