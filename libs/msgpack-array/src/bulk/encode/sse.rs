//! SSSE3 and SSE4.1: 16 bytes of input a step, compacted by `pshufb` with tables.
//!
//! For all elements of a register it is found out at once which bytes their shortest forms have.
//! These bits are an index into a table of shuffles that drop the others. Blocks in which every
//! element takes the longest form need no such tables. Functions that AVX2 has no wider use for run
//! there as they are.

use core::arch::x86_64::*;
use core::mem::MaybeUninit;

use super::large::Line;
use super::run::Run;
use super::tables::{BYTES, Compaction, DWORDS, QWORDS, SECOND, WORDS, highest, short_markers, short_slots};

/// 16 bytes from element `first` on.
#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn load<T, const N: usize>(values: &[T; N], first: usize) -> __m128i {
    let values = &values[first..];
    assert!(size_of_val(values) >= 16);
    // SAFETY: 16 readable bytes, and the load needs no alignment.
    unsafe { _mm_loadu_si128(values.as_ptr().cast()) }
}

/// Writes 16 bytes at `at`.
#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn store<const N: usize>(out: &mut [MaybeUninit<u8>; N], at: usize, bytes: __m128i) {
    debug_assert!(at + 16 <= N);
    // SAFETY: `at + 16 <= N`, as blocks have room for the longest forms of all elements before and
    // a register behind them; the store needs no alignment.
    unsafe { _mm_storeu_si128(out.as_mut_ptr().add(at).cast(), bytes) }
}

/// Copies lines past the caches; see [`super::large`].
#[target_feature(enable = "sse2")]
pub(super) fn stream(lines: &[Line], places: &mut [Line]) {
    for (line, place) in lines.iter().zip(places) {
        debug_assert!(line.as_ptr().addr().is_multiple_of(16) && place.as_ptr().addr().is_multiple_of(16));
        for at in [0, 16, 32, 48] {
            let bytes = load(line, at);
            // SAFETY: 16 writable bytes, aligned to 16 as `large::encode` promises.
            unsafe { _mm_stream_si128(place[at..].as_mut_ptr().cast(), bytes) };
        }
    }
}

/// Writes the elements of `bytes`, whose forms are the lowest eight bits of `forms`, and returns
/// where the next ones go.
#[inline]
#[target_feature(enable = "ssse3,popcnt")]
pub(super) fn compact<const SIZE: usize, const N: usize>(
    bytes: __m128i,
    forms: u32,
    out: &mut [MaybeUninit<u8>; N],
    at: usize,
) -> usize {
    let table: &Compaction = match SIZE {
        1 => &BYTES,
        2 => &WORDS,
        4 => &DWORDS,
        _ => &QWORDS,
    };
    let forms = forms as u8;
    store(out, at, _mm_shuffle_epi8(bytes, load(&table[usize::from(forms)], 0)));
    at + 8 / SIZE + forms.count_ones() as usize
}

// --- Elements that all take the longest form.

/// The first 16 bytes of an array of `SIZE`-byte numbers with `marker` in front of each, 0x1c more
/// than that for negative ones if `SIGNED`: the difference of 0xd2 from 0xce and of 0xd3 from 0xcf
/// is in these bits.
#[inline]
#[target_feature(enable = "ssse3")]
pub(super) fn marked<const SIZE: usize, const SIGNED: bool, const MARKER: u8>(numbers: __m128i) -> __m128i {
    let markers = load(const { &short_markers::<SIZE>(0, MARKER) }, 0);
    let bytes = _mm_shuffle_epi8(numbers, load(const { &short_slots::<SIZE>(0, 0) }, 0));
    let line = _mm_or_si128(bytes, markers);
    if !SIGNED {
        return line;
    }
    // The highest byte of each number, in the place of its marker.
    let highest = _mm_shuffle_epi8(numbers, load(const { &highest::<SIZE>() }, 0));
    let differences = load(const { &short_markers::<SIZE>(0, 0x1c) }, 0);
    _mm_xor_si128(line, _mm_and_si128(_mm_cmpgt_epi8(_mm_setzero_si128(), highest), differences))
}

/// Writes 12 numbers of four bytes.
#[inline]
#[target_feature(enable = "ssse3")]
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
#[target_feature(enable = "ssse3")]
fn longest_8<const SIGNED: bool, const MARKER: u8, const N: usize>(
    numbers: __m128i,
    room: &mut [MaybeUninit<u8>; N],
    at: usize,
) {
    // The second number lacks its last two bytes here, and is written again without its marker.
    store(room, at, marked::<8, SIGNED, MARKER>(numbers));
    store(room, at + 10, _mm_shuffle_epi8(numbers, load(&SECOND, 0)));
}

#[target_feature(enable = "ssse3,sse4.1,popcnt")]
pub(super) fn f32s(values: &[f32], out: &mut [MaybeUninit<u8>]) -> usize {
    let mut run = Run::new(values, out);
    run.blocks::<12, 13, 66>(|values, room| longest_4::<_, false, 0xca>(values, room));
    run.finish(super::scalar::f32s)
}

#[target_feature(enable = "ssse3,sse4.1,popcnt")]
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

#[target_feature(enable = "ssse3,sse4.1,popcnt")]
pub(super) fn bools(values: &[bool], out: &mut [MaybeUninit<u8>]) -> usize {
    let mut run = Run::new(values, out);
    run.blocks::<64, 64, 64>(|values, room| {
        for at in [0, 16, 32, 48] {
            store(room, at, _mm_or_si128(load(values, at), _mm_set1_epi8(0xc2_u8 as i8)));
        }
        64
    });
    run.finish(super::scalar::bools)
}

macro_rules! bytes {
    ($name:ident $element:ty, $marker:literal, $forms:expr) => {
        #[target_feature(enable = "ssse3,sse4.1,popcnt")]
        pub(super) fn $name(values: &[$element], out: &mut [MaybeUninit<u8>]) -> usize {
            let markers = _mm_set1_epi8($marker as i8);
            let mut run = Run::new(values, out);
            run.blocks::<16, 16, 32>(|values, room| {
                let bytes = load(values, 0);
                let forms = _mm_movemask_epi8($forms(bytes)) as u32;
                if forms == 0 {
                    store(room, 0, bytes);
                    return 16;
                }
                let at = compact::<1, 32>(_mm_unpacklo_epi64(bytes, markers), forms, room, 0);
                compact::<1, 32>(_mm_unpackhi_epi64(bytes, markers), forms >> 8, room, at)
            });
            run.finish(super::scalar::$name)
        }
    };
}

bytes!(i8s i8, 0xd0_u8, |bytes| _mm_cmpgt_epi8(_mm_set1_epi8(-32), bytes));
bytes!(u8s u8, 0xcc_u8, |bytes| bytes);

// --- Two bytes.

macro_rules! words {
    ($name:ident $element:ty, $signed:literal) => {
        #[target_feature(enable = "ssse3,sse4.1,popcnt")]
        pub(super) fn $name(values: &[$element], out: &mut [MaybeUninit<u8>]) -> usize {
            let mut run = Run::new(values, out);
            run.blocks::<8, 8, 28>(|values, room| words::<$signed, 28>(load(values, 0), room, 0));
            run.finish(super::scalar::$name)
        }
    };
}

words!(i16s i16, true);
words!(u16s u16, false);

/// Writes eight numbers at `at`, and returns where the next ones go.
#[inline]
#[target_feature(enable = "ssse3,popcnt")]
pub(super) fn words<const SIGNED: bool, const N: usize>(
    numbers: __m128i,
    room: &mut [MaybeUninit<u8>; N],
    at: usize,
) -> usize {
    let (forms, markers) = forms_2::<SIGNED>(numbers);
    let at = compact::<2, N>(_mm_unpacklo_epi16(numbers, markers), forms, room, at);
    compact::<2, N>(_mm_unpackhi_epi16(numbers, markers), forms >> 8, room, at)
}

/// The forms of eight numbers, two bits each, and their markers.
#[inline]
#[target_feature(enable = "ssse3")]
fn forms_2<const SIGNED: bool>(numbers: __m128i) -> (u32, __m128i) {
    let zero = _mm_setzero_si128();
    let (mut size, mut fixint_size, mut markers) = (numbers, numbers, _mm_set1_epi16(0xcd));
    if SIGNED {
        // Negative numbers are measured by their complement, which may have one bit less, and as a
        // fixint two bits less.
        let signs = _mm_srai_epi16::<15>(numbers);
        let complement = _mm_xor_si128(numbers, signs);
        size = _mm_add_epi16(complement, _mm_and_si128(complement, signs));
        fixint_size = _mm_add_epi16(size, _mm_and_si128(size, signs));
        markers = _mm_add_epi16(markers, _mm_and_si128(signs, _mm_set1_epi16(4)));
    }
    let byte = _mm_cmpeq_epi16(_mm_srli_epi16::<8>(size), zero);
    let fixint = _mm_and_si128(byte, _mm_cmpeq_epi16(_mm_srli_epi16::<7>(fixint_size), zero));
    let unused = _mm_and_si128(byte, _mm_or_si128(fixint, _mm_set1_epi16(0xff00_u16 as i16)));
    (!_mm_movemask_epi8(unused) as u32, _mm_add_epi16(markers, byte))
}

// --- Four bytes.

macro_rules! dwords {
    ($name:ident $element:ty, $signed:literal) => {
        #[target_feature(enable = "ssse3,sse4.1,popcnt")]
        pub(super) fn $name(values: &[$element], out: &mut [MaybeUninit<u8>]) -> usize {
            let mut run = Run::new(values, out);
            run.blocks::<12, 13, 66>(|values, room| {
                let numbers = [0, 4, 8].map(|first| load(values, first));
                let short = numbers.map(|numbers| Dwords::new::<$signed>(numbers).short);
                if _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(short[0], short[1]), short[2])) == 0 {
                    return longest_4::<_, $signed, 0xce>(values, room);
                }
                let mut at = 0;
                for numbers in numbers {
                    at = dwords::<$signed, 66>(numbers, room, at);
                }
                at
            });
            run.blocks::<4, 4, 26>(|values, room| dwords::<$signed, 26>(load(values, 0), room, 0));
            run.finish(super::scalar::$name)
        }
    };
}

dwords!(i32s i32, true);
dwords!(u32s u32, false);

/// Writes four numbers at `at`, and returns where the next ones go.
#[inline]
#[target_feature(enable = "ssse3,popcnt")]
fn dwords<const SIGNED: bool, const N: usize>(
    numbers: __m128i,
    room: &mut [MaybeUninit<u8>; N],
    at: usize,
) -> usize {
    let (unused, markers) = Dwords::new::<SIGNED>(numbers).forms();
    let forms = !_mm_movemask_epi8(unused) as u32;
    let at = compact::<4, N>(_mm_unpacklo_epi32(numbers, markers), forms, room, at);
    compact::<4, N>(_mm_unpackhi_epi32(numbers, markers), forms >> 8, room, at)
}

/// How large four numbers are that have 32 bits, and a sign, if they have one, in all bits of
/// another register.
struct Dwords {
    size: __m128i,
    signs: __m128i,
    /// All bits of those of two bytes at most.
    short: __m128i,
}

impl Dwords {
    #[inline]
    #[target_feature(enable = "ssse3")]
    fn new<const SIGNED: bool>(numbers: __m128i) -> Self {
        let signs = if SIGNED { _mm_srai_epi32::<31>(numbers) } else { _mm_setzero_si128() };
        Self::with_signs(numbers, signs)
    }

    #[inline]
    #[target_feature(enable = "ssse3")]
    fn with_signs(numbers: __m128i, signs: __m128i) -> Self {
        // As in `forms_2`.
        let complement = _mm_xor_si128(numbers, signs);
        let size = _mm_add_epi32(complement, _mm_and_si128(complement, signs));
        let short = _mm_cmpeq_epi32(_mm_srli_epi32::<16>(size), _mm_setzero_si128());
        Self { size, signs, short }
    }

    /// All bits of the bytes that are not used, as the tables of compaction want them, and the
    /// markers.
    #[inline]
    #[target_feature(enable = "ssse3")]
    fn forms(&self) -> (__m128i, __m128i) {
        let Self { size, signs, short } = *self;
        let zero = _mm_setzero_si128();
        let byte = _mm_cmpeq_epi32(_mm_srli_epi32::<8>(size), zero);
        let fixint_size = _mm_add_epi32(size, _mm_and_si128(size, signs));
        let fixint = _mm_and_si128(byte, _mm_cmpeq_epi32(_mm_srli_epi32::<7>(fixint_size), zero));
        let unused = _mm_and_si128(byte, _mm_or_si128(fixint, _mm_set1_epi32(!0xff)));
        let unused = _mm_and_si128(short, _mm_or_si128(unused, _mm_set1_epi32(!0xffff)));
        let markers = _mm_add_epi32(_mm_set1_epi32(0xce), _mm_and_si128(signs, _mm_set1_epi32(4)));
        (unused, _mm_add_epi32(_mm_add_epi32(markers, byte), short))
    }
}

// --- Eight bytes.

macro_rules! qwords {
    ($name:ident $element:ty, $signed:literal) => {
        #[target_feature(enable = "ssse3,sse4.1,popcnt")]
        pub(super) fn $name(values: &[$element], out: &mut [MaybeUninit<u8>]) -> usize {
            let mut run = Run::new(values, out);
            run.blocks::<4, 4, 44>(|values, room| {
                qwords::<$signed, 44>(load(values, 0), load(values, 2), room, 0)
            });
            run.finish(super::scalar::$name)
        }
    };
}

qwords!(i64s i64, true);
qwords!(u64s u64, false);

/// The lower and the upper halves of four numbers.
#[inline]
#[target_feature(enable = "sse2")]
fn lower_and_upper(first: __m128i, second: __m128i) -> (__m128i, __m128i) {
    let (a, b) = (_mm_castsi128_ps(first), _mm_castsi128_ps(second));
    let low = _mm_shuffle_ps::<0b10_00_10_00>(a, b);
    let high = _mm_shuffle_ps::<0b11_01_11_01>(a, b);
    (_mm_castps_si128(low), _mm_castps_si128(high))
}

/// Writes four numbers at `at`, and returns where the next ones go.
#[inline]
#[target_feature(enable = "ssse3,sse4.1,popcnt")]
pub(super) fn qwords<const SIGNED: bool, const N: usize>(
    first: __m128i,
    second: __m128i,
    room: &mut [MaybeUninit<u8>; N],
    at: usize,
) -> usize {
    let (low, high) = lower_and_upper(first, second);
    // Half as wide are those whose upper half is 0, and with a sign those whose upper half and the
    // bit below it are 1.
    let mut half = _mm_cmpeq_epi32(high, _mm_setzero_si128());
    let mut signs = _mm_setzero_si128();
    if SIGNED {
        signs = _mm_srai_epi32::<31>(high);
        let ones = _mm_cmpeq_epi32(high, _mm_set1_epi32(-1));
        half = _mm_or_si128(half, _mm_and_si128(ones, _mm_srai_epi32::<31>(low)));
    }
    if _mm_movemask_epi8(half) == 0 {
        longest_8::<SIGNED, 0xcf, N>(first, room, at);
        longest_8::<SIGNED, 0xcf, N>(second, room, at + 18);
        return at + 36;
    }
    let (unused, markers) = Dwords::with_signs(low, signs).forms();
    let unused = _mm_and_si128(unused, half);
    let markers = _mm_blendv_epi8(
        _mm_add_epi32(_mm_set1_epi32(0xcf), _mm_and_si128(signs, _mm_set1_epi32(4))),
        markers,
        half,
    );
    // Four bits of a number's lower half and four of its upper one, for two numbers after the
    // other.
    let forms = !_mm_movemask_epi8(_mm_unpacklo_epi32(unused, half)) as u32;
    let more = !_mm_movemask_epi8(_mm_unpackhi_epi32(unused, half)) as u32;
    let doubled = _mm_unpacklo_epi32(markers, markers);
    let at = compact::<8, N>(_mm_unpacklo_epi64(first, doubled), forms, room, at);
    let at = compact::<8, N>(_mm_unpackhi_epi64(first, doubled), forms >> 8, room, at);
    let doubled = _mm_unpackhi_epi32(markers, markers);
    let at = compact::<8, N>(_mm_unpacklo_epi64(second, doubled), more, room, at);
    compact::<8, N>(_mm_unpackhi_epi64(second, doubled), more >> 8, room, at)
}
