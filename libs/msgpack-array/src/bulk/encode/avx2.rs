//! AVX2: 32 bytes of input a step, compacted by the same tables as in `sse.rs`.
//!
//! Forms and markers are found for twice as many elements at once. Compaction stays at 16 bytes,
//! which is as far as `pshufb` reaches in wider registers too; so do numbers of eight bytes, where
//! it is most of the work.

use core::arch::x86_64::*;
use core::mem::MaybeUninit;

use super::large::Line;
use super::run::Run;
use super::sse;
use super::tables::{highest, markers, short_markers, short_slots, slots};

/// 32 bytes from element `first` on.
#[inline]
#[target_feature(enable = "avx2")]
fn load<T, const N: usize>(values: &[T; N], first: usize) -> __m256i {
    let values = &values[first..];
    assert!(size_of_val(values) >= 32);
    // SAFETY: 32 readable bytes, and the load needs no alignment.
    unsafe { _mm256_loadu_si256(values.as_ptr().cast()) }
}

/// Twice the same 16 bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn twice(bytes: &[u8; 16]) -> __m256i {
    _mm256_broadcastsi128_si256(sse::load(bytes, 0))
}

/// The halves of a register.
#[inline]
#[target_feature(enable = "avx2")]
fn halves(register: __m256i) -> [__m128i; 2] {
    [_mm256_castsi256_si128(register), _mm256_extracti128_si256::<1>(register)]
}

/// Writes 32 bytes at `at`.
#[inline]
#[target_feature(enable = "avx2")]
fn store<const N: usize>(out: &mut [MaybeUninit<u8>; N], at: usize, bytes: __m256i) {
    debug_assert!(at + 32 <= N);
    // SAFETY: `at + 32 <= N`, as `at` is a constant within the room of the block; the store needs
    // no alignment.
    unsafe { _mm256_storeu_si256(out.as_mut_ptr().add(at).cast(), bytes) }
}

/// Copies lines past the caches; see [`super::large`].
#[target_feature(enable = "avx2")]
pub(super) fn stream(lines: &[Line], places: &mut [Line]) {
    for (line, place) in lines.iter().zip(places) {
        debug_assert!(line.as_ptr().addr().is_multiple_of(32) && place.as_ptr().addr().is_multiple_of(32));
        for at in [0, 32] {
            let bytes = load(line, at);
            // SAFETY: 32 writable bytes, aligned to 32 as `large::encode` promises.
            unsafe { _mm256_stream_si256(place[at..].as_mut_ptr().cast(), bytes) };
        }
    }
}

// --- Elements that all take the longest form.

/// In each half what `sse::marked` does.
#[inline]
#[target_feature(enable = "avx2")]
fn marked<const SIZE: usize, const SIGNED: bool, const MARKER: u8>(numbers: __m256i) -> __m256i {
    let bytes = _mm256_shuffle_epi8(numbers, twice(const { &short_slots::<SIZE>(0, 0) }));
    let line = _mm256_or_si256(bytes, twice(const { &short_markers::<SIZE>(0, MARKER) }));
    if !SIGNED {
        return line;
    }
    let highest = _mm256_shuffle_epi8(numbers, twice(const { &highest::<SIZE>() }));
    let differences = twice(const { &short_markers::<SIZE>(0, 0x1c) });
    _mm256_xor_si256(line, _mm256_and_si256(_mm256_cmpgt_epi8(_mm256_setzero_si256(), highest), differences))
}

/// Writes 24 numbers of four bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn longest_4<T, const SIGNED: bool, const MARKER: u8>(
    values: &[T; 25],
    room: &mut [MaybeUninit<u8>; 126],
) -> usize {
    for (element, at) in [(0, 0), (6, 30), (12, 60), (18, 90)] {
        let numbers = _mm256_set_m128i(sse::load(values, element + 3), sse::load(values, element));
        let [first, second] = halves(marked::<4, SIGNED, MARKER>(numbers));
        sse::store(room, at, first);
        sse::store(room, at + 15, second);
    }
    120
}

/// The parts of four numbers of eight bytes from which the two halves of a register's worth of
/// output can be made: in the second half the lower part of the second number, of which two bytes
/// are left, the third, and the upper part of the fourth.
const PARTS: [i32; 8] = [0, 1, 2, 3, 2, 4, 5, 7];

/// For each byte of these 32 where it is in its half of [`PARTS`]; with `HIGHEST` that of a
/// number's highest byte for the markers and nothing else, without it nothing for the markers.
const fn parts<const HIGHEST: bool>() -> [u8; 32] {
    let (numbers, fixed) = (slots::<8>(0, 0), markers::<8>(0));
    let mut table = [0x80; 32];
    let mut at = 0;
    while at < 32 {
        let mut part = at / 16 * 4;
        while PARTS[part] != numbers[at] as i32 / 4 {
            part += 1;
        }
        if (fixed[at] != 0) == HIGHEST {
            table[at] = part as u8 % 4 * 4 + numbers[at] % 4;
        }
        at += 1;
    }
    table
}

/// `byte` where those 32 bytes have markers.
const fn part_markers(byte: u8) -> [u8; 32] {
    let fixed = markers::<8>(0);
    let mut table = [0; 32];
    let mut at = 0;
    while at < 32 {
        table[at] = fixed[at] & byte;
        at += 1;
    }
    table
}

/// Writes four numbers of eight bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn longest_8<const SIGNED: bool, const MARKER: u8, const N: usize>(
    numbers: __m256i,
    room: &mut [MaybeUninit<u8>; N],
    at: usize,
) {
    let chosen = _mm256_permutevar8x32_epi32(numbers, load(&PARTS, 0));
    let bytes = _mm256_shuffle_epi8(chosen, load(const { &parts::<false>() }, 0));
    let mut line = _mm256_or_si256(bytes, load(const { &part_markers(MARKER) }, 0));
    if SIGNED {
        let highest = _mm256_shuffle_epi8(chosen, load(const { &parts::<true>() }, 0));
        let negative = _mm256_cmpgt_epi8(_mm256_setzero_si256(), highest);
        line = _mm256_xor_si256(line, _mm256_and_si256(negative, load(const { &part_markers(0x1c) }, 0)));
    }
    store(room, at, line);
    // The lower part of the fourth number is left.
    let last = _mm256_extract_epi32::<6>(numbers) as u32;
    room[at + 32..at + 36].write_copy_of_slice(&last.to_be_bytes());
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn f32s(values: &[f32], out: &mut [MaybeUninit<u8>]) -> usize {
    let mut run = Run::new(values, out);
    run.blocks::<24, 25, 126>(|values, room| longest_4::<_, false, 0xca>(values, room));
    run.blocks::<3, 4, 16>(|values, room| {
        sse::store(room, 0, sse::marked::<4, false, 0xca>(sse::load(values, 0)));
        15
    });
    run.finish(super::scalar::f32s)
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn f64s(values: &[f64], out: &mut [MaybeUninit<u8>]) -> usize {
    let mut run = Run::new(values, out);
    run.blocks::<8, 8, 72>(|values, room| {
        longest_8::<false, 0xcb, 72>(load(values, 0), room, 0);
        longest_8::<false, 0xcb, 72>(load(values, 4), room, 36);
        72
    });
    run.finish(super::scalar::f64s)
}

// --- One byte.

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn bools(values: &[bool], out: &mut [MaybeUninit<u8>]) -> usize {
    let mut run = Run::new(values, out);
    run.blocks::<64, 64, 64>(|values, room| {
        let marker = _mm256_set1_epi8(0xc2_u8 as i8);
        store(room, 0, _mm256_or_si256(load(values, 0), marker));
        store(room, 32, _mm256_or_si256(load(values, 32), marker));
        64
    });
    run.finish(super::scalar::bools)
}

macro_rules! bytes {
    ($name:ident $element:ty, $marker:literal, $forms:expr) => {
        #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
        pub(super) fn $name(values: &[$element], out: &mut [MaybeUninit<u8>]) -> usize {
            let markers = _mm_set1_epi8($marker as i8);
            let mut run = Run::new(values, out);
            run.blocks::<32, 32, 64>(|values, room| {
                let bytes = load(values, 0);
                let forms = _mm256_movemask_epi8($forms(bytes)) as u32;
                if forms == 0 {
                    store(room, 0, bytes);
                    return 32;
                }
                let [first, second] = halves(bytes);
                let at = sse::compact::<1, 64>(_mm_unpacklo_epi64(first, markers), forms, room, 0);
                let at = sse::compact::<1, 64>(_mm_unpackhi_epi64(first, markers), forms >> 8, room, at);
                let at = sse::compact::<1, 64>(_mm_unpacklo_epi64(second, markers), forms >> 16, room, at);
                sse::compact::<1, 64>(_mm_unpackhi_epi64(second, markers), forms >> 24, room, at)
            });
            run.finish(super::scalar::$name)
        }
    };
}

bytes!(i8s i8, 0xd0_u8, |bytes| _mm256_cmpgt_epi8(_mm256_set1_epi8(-32), bytes));
bytes!(u8s u8, 0xcc_u8, |bytes| bytes);

// --- Two bytes.

macro_rules! words {
    ($name:ident $element:ty, $signed:literal) => {
        #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
        pub(super) fn $name(values: &[$element], out: &mut [MaybeUninit<u8>]) -> usize {
            let mut run = Run::new(values, out);
            run.blocks::<16, 16, 52>(|values, room| words::<$signed, 52>(load(values, 0), room, 0));
            run.finish(super::scalar::$name)
        }
    };
}

words!(i16s i16, true);
words!(u16s u16, false);

/// Writes 16 numbers at `at`, and returns where the next ones go.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
fn words<const SIGNED: bool, const N: usize>(
    numbers: __m256i,
    room: &mut [MaybeUninit<u8>; N],
    at: usize,
) -> usize {
    let (forms, markers) = forms_2::<SIGNED>(numbers);
    let [first, third] = halves(_mm256_unpacklo_epi16(numbers, markers));
    let [second, fourth] = halves(_mm256_unpackhi_epi16(numbers, markers));
    let at = sse::compact::<2, N>(first, forms, room, at);
    let at = sse::compact::<2, N>(second, forms >> 8, room, at);
    let at = sse::compact::<2, N>(third, forms >> 16, room, at);
    sse::compact::<2, N>(fourth, forms >> 24, room, at)
}

/// The forms of 16 numbers, two bits each, and their markers, as in `sse.rs`.
#[inline]
#[target_feature(enable = "avx2")]
fn forms_2<const SIGNED: bool>(numbers: __m256i) -> (u32, __m256i) {
    let zero = _mm256_setzero_si256();
    let (mut size, mut fixint_size, mut markers) = (numbers, numbers, _mm256_set1_epi16(0xcd));
    if SIGNED {
        let signs = _mm256_srai_epi16::<15>(numbers);
        let complement = _mm256_xor_si256(numbers, signs);
        size = _mm256_add_epi16(complement, _mm256_and_si256(complement, signs));
        fixint_size = _mm256_add_epi16(size, _mm256_and_si256(size, signs));
        markers = _mm256_add_epi16(markers, _mm256_and_si256(signs, _mm256_set1_epi16(4)));
    }
    let byte = _mm256_cmpeq_epi16(_mm256_srli_epi16::<8>(size), zero);
    let fixint = _mm256_and_si256(byte, _mm256_cmpeq_epi16(_mm256_srli_epi16::<7>(fixint_size), zero));
    let unused = _mm256_and_si256(byte, _mm256_or_si256(fixint, _mm256_set1_epi16(0xff00_u16 as i16)));
    (!_mm256_movemask_epi8(unused) as u32, _mm256_add_epi16(markers, byte))
}

// --- Four bytes.

macro_rules! dwords {
    ($name:ident $element:ty, $signed:literal) => {
        #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
        pub(super) fn $name(values: &[$element], out: &mut [MaybeUninit<u8>]) -> usize {
            let mut run = Run::new(values, out);
            run.blocks::<24, 25, 126>(|values, room| {
                let sizes = [0, 8, 16].map(|first| size::<$signed>(load(values, first)).0);
                let short = sizes
                    .map(|size| _mm256_cmpeq_epi32(_mm256_srli_epi32::<16>(size), _mm256_setzero_si256()));
                if _mm256_movemask_epi8(_mm256_or_si256(_mm256_or_si256(short[0], short[1]), short[2])) == 0 {
                    return longest_4::<_, $signed, 0xce>(values, room);
                }
                if [0, 8, 16].into_iter().all(|first| fits_words::<$signed>(load(values, first))) {
                    let at =
                        words::<$signed, 126>(to_words::<$signed>(load(values, 0), load(values, 8)), room, 0);
                    let [first, second] = halves(load(values, 16));
                    let last = if $signed {
                        _mm_packs_epi32(first, second)
                    } else {
                        _mm_packus_epi32(first, second)
                    };
                    return sse::words::<$signed, 126>(last, room, at);
                }
                [0, 8, 16]
                    .into_iter()
                    .fold(0, |at, first| dwords::<$signed, 126>(load(values, first), room, at))
            });
            run.blocks::<8, 8, 46>(|values, room| dwords::<$signed, 46>(load(values, 0), room, 0));
            run.finish(super::scalar::$name)
        }
    };
}

dwords!(i32s i32, true);
dwords!(u32s u32, false);

/// Whether all of eight numbers can be written with 16 bits.
#[inline]
#[target_feature(enable = "avx2")]
fn fits_words<const SIGNED: bool>(numbers: __m256i) -> bool {
    let lower = if SIGNED {
        _mm256_srai_epi32::<16>(_mm256_slli_epi32::<16>(numbers))
    } else {
        _mm256_and_si256(numbers, _mm256_set1_epi32(0xffff))
    };
    _mm256_movemask_epi8(_mm256_cmpeq_epi32(lower, numbers)) == -1
}

/// Sixteen such numbers.
#[inline]
#[target_feature(enable = "avx2")]
fn to_words<const SIGNED: bool>(first: __m256i, second: __m256i) -> __m256i {
    let words = if SIGNED { _mm256_packs_epi32(first, second) } else { _mm256_packus_epi32(first, second) };
    // Each half of a register has numbers of both: four of the first, four of the second.
    _mm256_permute4x64_epi64::<0b11_01_10_00>(words)
}

/// How large eight numbers are, as in `sse.rs`, and their signs.
#[inline]
#[target_feature(enable = "avx2")]
fn size<const SIGNED: bool>(numbers: __m256i) -> (__m256i, __m256i) {
    if !SIGNED {
        return (numbers, _mm256_setzero_si256());
    }
    let signs = _mm256_srai_epi32::<31>(numbers);
    let complement = _mm256_xor_si256(numbers, signs);
    (_mm256_add_epi32(complement, _mm256_and_si256(complement, signs)), signs)
}

/// Writes eight numbers at `at`, and returns where the next ones go.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
fn dwords<const SIGNED: bool, const N: usize>(
    numbers: __m256i,
    room: &mut [MaybeUninit<u8>; N],
    at: usize,
) -> usize {
    let zero = _mm256_setzero_si256();
    let (size, signs) = size::<SIGNED>(numbers);
    let short = _mm256_cmpeq_epi32(_mm256_srli_epi32::<16>(size), zero);
    let byte = _mm256_cmpeq_epi32(_mm256_srli_epi32::<8>(size), zero);
    let fixint_size = _mm256_add_epi32(size, _mm256_and_si256(size, signs));
    let fixint = _mm256_and_si256(byte, _mm256_cmpeq_epi32(_mm256_srli_epi32::<7>(fixint_size), zero));
    let unused = _mm256_and_si256(byte, _mm256_or_si256(fixint, _mm256_set1_epi32(!0xff)));
    let unused = _mm256_and_si256(short, _mm256_or_si256(unused, _mm256_set1_epi32(!0xffff)));
    let markers = _mm256_add_epi32(_mm256_set1_epi32(0xce), _mm256_and_si256(signs, _mm256_set1_epi32(4)));
    let markers = _mm256_add_epi32(_mm256_add_epi32(markers, byte), short);

    let forms = !_mm256_movemask_epi8(unused) as u32;
    let [first, third] = halves(_mm256_unpacklo_epi32(numbers, markers));
    let [second, fourth] = halves(_mm256_unpackhi_epi32(numbers, markers));
    let at = sse::compact::<4, N>(first, forms, room, at);
    let at = sse::compact::<4, N>(second, forms >> 8, room, at);
    let at = sse::compact::<4, N>(third, forms >> 16, room, at);
    sse::compact::<4, N>(fourth, forms >> 24, room, at)
}

// --- Eight bytes.

macro_rules! qwords {
    ($name:ident $element:ty, $signed:literal, $narrow:expr) => {
        #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
        pub(super) fn $name(values: &[$element], out: &mut [MaybeUninit<u8>]) -> usize {
            let mut run = Run::new(values, out);
            run.blocks::<16, 16, 152>(|values, room| {
                let numbers = [0, 4, 8, 12].map(|first| load(values, first));
                let half = numbers.map($narrow);
                let half =
                    _mm256_or_si256(_mm256_or_si256(half[0], half[1]), _mm256_or_si256(half[2], half[3]));
                if _mm256_movemask_epi8(half) == 0 {
                    for (numbers, at) in numbers.into_iter().zip([0, 36, 72, 108]) {
                        longest_8::<$signed, 0xcf, 152>(numbers, room, at);
                    }
                    return 144;
                }
                let [a, b, c, d] = numbers;
                let parts = [lower_and_upper(a, b), lower_and_upper(c, d)];
                let fits = parts.map(|(low, high)| {
                    let signs = if $signed { _mm256_srai_epi32::<31>(low) } else { _mm256_setzero_si256() };
                    _mm256_cmpeq_epi32(high, signs)
                });
                if _mm256_movemask_epi8(_mm256_and_si256(fits[0], fits[1])) == -1 {
                    return parts.into_iter().fold(0, |at, (low, _)| dwords::<$signed, 152>(low, room, at));
                }
                numbers.into_iter().fold(0, |at, numbers| {
                    let [first, second] = halves(numbers);
                    sse::qwords::<$signed, 152>(first, second, room, at)
                })
            });
            run.blocks::<4, 4, 44>(|values, room| {
                sse::qwords::<$signed, 44>(sse::load(values, 0), sse::load(values, 2), room, 0)
            });
            run.finish(super::scalar::$name)
        }
    };
}

/// The lower and the upper halves of eight numbers.
#[inline]
#[target_feature(enable = "avx2")]
fn lower_and_upper(first: __m256i, second: __m256i) -> (__m256i, __m256i) {
    let (a, b) = (_mm256_castsi256_ps(first), _mm256_castsi256_ps(second));
    let low = _mm256_castps_pd(_mm256_shuffle_ps::<0b10_00_10_00>(a, b));
    let high = _mm256_castps_pd(_mm256_shuffle_ps::<0b11_01_11_01>(a, b));
    // Each half of a register has the numbers of both: two of the first, two of the second.
    let in_order =
        [low, high].map(|parts| _mm256_castpd_si256(_mm256_permute4x64_pd::<0b11_01_10_00>(parts)));
    in_order.into()
}

// Which take five bytes at most: those between the two limits.
qwords!(i64s i64, true, |numbers| _mm256_andnot_si256(
    _mm256_cmpgt_epi64(_mm256_set1_epi64x(-0x8000_0000), numbers),
    _mm256_cmpgt_epi64(_mm256_set1_epi64x(0x1_0000_0000), numbers),
));
qwords!(u64s u64, false, |numbers| _mm256_cmpeq_epi64(
    _mm256_srli_epi64::<32>(numbers),
    _mm256_setzero_si256(),
));
