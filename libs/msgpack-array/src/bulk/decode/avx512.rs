//! 64 bytes at a time with AVX-512 (VBMI for shuffles across the whole register, VBMI2 to close up
//! 8-bit values).
//!
//! Nothing here may run before the CPU is known to have it; `bulk/mod.rs` ensures that.

use core::arch::x86_64::*;
use core::marker::PhantomData;
use core::mem::MaybeUninit;

use super::pairs::{Carry, Looks, restricted_marker};
use super::vectors::Kernel;
use super::{Progress, tables};
use crate::bulk::Kind;
use crate::element::Element;

/// Bytes of a register.
const REGISTER: usize = 64;

/// Bytes ahead of a run that are fetched, which the hardware does not do well enough when input
/// comes out of the second level cache: a tenth of the time of 64-bit floats.
const AHEAD: usize = 512;

/// Elements that make it worth while to write whole lines.
const MANY: usize = 128;

pub(super) struct Avx512;

impl Kernel for Avx512 {
    #[target_feature(
        enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi1,bmi2,lzcnt,popcnt"
    )]
    unsafe fn run<T: Element, const STRIDE: usize>(input: &[u8], out: &mut [MaybeUninit<T>]) -> usize {
        let strided = Strided::<T, STRIDE>::new();
        let mut done = strided.whole_vectors(input, out);
        loop {
            let left = (input.len() - done * STRIDE) / STRIDE;
            let elements = Strided::<T, STRIDE>::IN_WINDOW.min(left).min(out.len() - done);
            if elements == 0 {
                return done;
            }
            // SAFETY: so many elements are left of input and output.
            let odd = unsafe {
                strided.some(input.as_ptr().add(done * STRIDE), out.as_mut_ptr().add(done), elements)
            };
            if odd != 0 {
                return done + odd.trailing_zeros() as usize / STRIDE;
            }
            done += elements;
        }
    }

    #[target_feature(
        enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi1,bmi2,lzcnt,popcnt"
    )]
    unsafe fn mixed<T: Element>(input: &[u8], out: &mut [MaybeUninit<T>]) -> Progress {
        match size_of::<T>() {
            1 => pairs(input, out),
            _ => mixed(input, out),
        }
    }
}

/// Elements that are all `STRIDE` bytes long.
struct Strided<T, const STRIDE: usize> {
    shuffle: __m512i,
    marker: __m512i,
    _element: PhantomData<T>,
}

impl<T: Element, const STRIDE: usize> Strided<T, STRIDE> {
    const WIDTH: usize = size_of::<T>();
    /// Elements whose payloads are in a window and fit a register.
    const IN_WINDOW: usize = {
        let (read, written) = (REGISTER / STRIDE, REGISTER / Self::WIDTH);
        if read < written { read } else { written }
    };
    /// Elements of a whole vector. Of 9 bytes a window has the payloads of seven, but the headers
    /// of all eight that a register holds: the eighth one is moved by itself, so that whole lines
    /// are written.
    const ELEMENTS: usize = if STRIDE == 9 { 8 } else { Self::IN_WINDOW };
    const HEADERS: u64 = tables::headers(STRIDE, Self::ELEMENTS);
    /// Bytes that are read.
    const READ: usize = REGISTER + if STRIDE == 9 { 8 } else { 1 };
    const SHUFFLE: [u8; REGISTER] = tables::strided(Self::WIDTH, STRIDE, REGISTER / STRIDE, 0);

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn new() -> Self {
        Self {
            shuffle: table(&const { Self::SHUFFLE }),
            marker: _mm512_set1_epi8(tables::marker(T::KIND, STRIDE) as i8),
            _element: PhantomData,
        }
    }

    /// Reads whole vectors of elements, some at a time, until one is odd or they are not whole any
    /// more. Returns how many elements.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,bmi1")]
    fn whole_vectors(&self, input: &[u8], out: &mut [MaybeUninit<T>]) -> usize {
        const AT_ONCE: usize = 4;
        const BEFORE_LAST: usize = AT_ONCE - 1;
        let mut done = 0;
        if Self::ELEMENTS * Self::WIDTH == REGISTER && out.len() >= MANY && input.len() >= MANY * STRIDE {
            // SAFETY: many elements are more than a vector.
            let odd = odd_headers(unsafe { self.vector(input.as_ptr(), out.as_mut_ptr()) }, Self::HEADERS);
            if odd == 0 {
                done = out.as_ptr().cast::<u8>().align_offset(REGISTER) / Self::WIDTH;
            }
        }
        while input.len() >= (done + BEFORE_LAST * Self::ELEMENTS) * STRIDE + Self::READ
            && out.len() >= done + BEFORE_LAST * Self::ELEMENTS + REGISTER / Self::WIDTH
        {
            let mut odd = [_mm512_setzero_si512(); AT_ONCE];
            for (at, odd) in (done..).step_by(Self::ELEMENTS).zip(&mut odd) {
                // SAFETY: the last of these vectors can be read and written, as just compared.
                *odd = unsafe { self.vector(input.as_ptr().add(at * STRIDE), out.as_mut_ptr().add(at)) };
            }
            let [a, b, c, d] = odd;
            let any = _mm512_or_si512(_mm512_or_si512(a, b), _mm512_or_si512(c, d));
            if odd_headers(any, Self::HEADERS) != 0 {
                let odd = odd.map(|odd| odd_headers(odd, Self::HEADERS));
                let vector = odd.iter().take_while(|odd| **odd == 0).count();
                return done + vector * Self::ELEMENTS + odd[vector].trailing_zeros() as usize / STRIDE;
            }
            done += AT_ONCE * Self::ELEMENTS;
        }
        done
    }

    /// Reads a vector of elements. Of the result those bytes that headers stood at are 0 if the
    /// elements are acceptable.
    ///
    /// # Safety
    /// [`READ`](Self::READ) bytes at `input` can be read, a register at `out` can be written.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    unsafe fn vector(&self, input: *const u8, out: *mut MaybeUninit<T>) -> __m512i {
        // SAFETY: the caller's promise; no load needs alignment.
        let (window, next) =
            unsafe { (_mm512_loadu_si512(input.cast()), _mm512_loadu_si512(input.add(1).cast())) };
        let (values, odd) = self.decode(window, next);
        _mm_prefetch::<_MM_HINT_T0>(input.wrapping_add(AHEAD).cast());
        // SAFETY: the caller's promise; the store needs no alignment.
        unsafe { _mm512_storeu_si512(out.cast(), values) };
        if STRIDE == 9 {
            // SAFETY: the caller's promise: the payload is at the end of what can be read, its
            // place at the end of the register.
            unsafe {
                let last = input.add(REGISTER).cast::<u64>().read_unaligned();
                out.add(7).cast::<u64>().write(last.swap_bytes());
            }
        }
        odd
    }

    /// Reads `elements` elements, at most those of a window. Returns a bit for each header that is
    /// not acceptable.
    ///
    /// # Safety
    /// They can be read at `input` and written at `out`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,bmi2")]
    unsafe fn some(&self, input: *const u8, out: *mut MaybeUninit<T>, elements: usize) -> u64 {
        let read = _bzhi_u64(u64::MAX, (elements * STRIDE) as u32);
        // SAFETY: the caller's promise; only bytes of the masks are read, and no load needs
        // alignment.
        let (window, next) = unsafe {
            (
                _mm512_maskz_loadu_epi8(read, input.cast()),
                _mm512_maskz_loadu_epi8(read >> 1, input.wrapping_add(1).cast()),
            )
        };
        let (values, odd) = self.decode(window, next);
        let written = _bzhi_u64(u64::MAX, (elements * Self::WIDTH) as u32);
        // SAFETY: the caller's promise; only bytes of the mask are written, and the store needs no
        // alignment.
        unsafe { _mm512_mask_storeu_epi8(out.cast(), written, values) };
        odd_headers(odd, Self::HEADERS & read)
    }

    /// The elements of a window, and a register of which those bytes that headers stood at are 0 if
    /// the elements are acceptable. `next` is the window one byte on.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn decode(&self, window: __m512i, next: __m512i) -> (__m512i, __m512i) {
        let one = _mm512_set1_epi8(1);
        match (T::KIND, STRIDE) {
            (Kind::Bool, _) => {
                let odd = _mm512_andnot_si512(one, _mm512_xor_si512(window, self.marker));
                (_mm512_and_si512(window, one), odd)
            }
            (_, 1) => self.fixints(window),
            _ => {
                let lanes = _mm512_permutexvar_epi8(self.shuffle, window);
                (self.extend(lanes), self.odd(window, next))
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn fixints(&self, window: __m512i) -> (__m512i, __m512i) {
        let bytes = window;
        let high = _mm512_set1_epi8(-0x80);
        if T::KIND == Kind::Signed {
            let values = match Self::WIDTH {
                1 => bytes,
                2 => _mm512_cvtepi8_epi16(_mm512_castsi512_si256(bytes)),
                4 => _mm512_cvtepi8_epi32(_mm512_castsi512_si128(bytes)),
                _ => _mm512_cvtepi8_epi64(_mm512_castsi512_si128(bytes)),
            };
            (values, _mm512_and_si512(_mm512_adds_epi8(bytes, _mm512_set1_epi8(0x20)), high))
        } else {
            let values = match Self::WIDTH {
                1 => bytes,
                2 => _mm512_cvtepu8_epi16(_mm512_castsi512_si256(bytes)),
                4 => _mm512_cvtepu8_epi32(_mm512_castsi512_si128(bytes)),
                _ => _mm512_cvtepu8_epi64(_mm512_castsi512_si128(bytes)),
            };
            (values, _mm512_and_si512(bytes, high))
        }
    }

    /// Fills the bytes of a lane beyond the payload, which so far are the header.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn extend(&self, lanes: __m512i) -> __m512i {
        if STRIDE > Self::WIDTH {
            return lanes;
        }
        let payload = const { tables::payload(Self::WIDTH, STRIDE) };
        let values = _mm512_maskz_mov_epi8(payload, lanes);
        if T::KIND != Kind::Signed {
            return values;
        }
        // Of the two headers only that of negative values has this bit.
        let negative = _mm512_set1_epi8(0x10);
        let fill = _mm512_movm_epi8(!payload);
        match Self::WIDTH {
            2 => {
                let negative = _mm512_test_epi16_mask(lanes, _mm512_and_si512(fill, negative));
                _mm512_or_si512(values, _mm512_maskz_mov_epi16(negative, fill))
            }
            4 => {
                let negative = _mm512_test_epi32_mask(lanes, _mm512_and_si512(fill, negative));
                _mm512_mask_or_epi32(values, negative, values, fill)
            }
            _ => {
                let negative = _mm512_test_epi64_mask(lanes, _mm512_and_si512(fill, negative));
                _mm512_mask_or_epi64(values, negative, values, fill)
            }
        }
    }

    /// See [`decode`](Self::decode); `next` is the window one byte on, so with the first payload
    /// byte where the header is.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn odd(&self, window: __m512i, next: __m512i) -> __m512i {
        if T::KIND != Kind::Signed {
            return _mm512_xor_si512(window, self.marker);
        }
        // The two markers are 2 below and 2 above the middle.
        let two = _mm512_set1_epi8(2);
        let side = _mm512_sub_epi8(window, _mm512_add_epi8(self.marker, two));
        let other = _mm512_xor_si512(_mm512_abs_epi8(side), two);
        let high = _mm512_set1_epi8(-0x80);
        // With the unsigned marker the highest bit of a payload as wide as the type has to be 0;
        // with the signed one of a narrower payload it is 1, or an encoder has not chosen the
        // shortest form: that is left to `mixed`.
        let side = if STRIDE > Self::WIDTH {
            _mm512_and_si512(side, next)
        } else {
            _mm512_andnot_si512(_mm512_or_si512(side, next), high)
        };
        _mm512_or_si512(other, _mm512_and_si512(side, high))
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn table(table: &[u8; REGISTER]) -> __m512i {
    // SAFETY: the table is as long as a register, and the load needs no alignment.
    unsafe { _mm512_loadu_si512(table.as_ptr().cast()) }
}

/// The bits of `headers` whose byte is not 0.
#[inline]
#[target_feature(enable = "avx512bw")]
fn odd_headers(odd: __m512i, headers: u64) -> u64 {
    _mm512_test_epi8_mask(odd, odd) & headers
}

/// 8-bit integers, see `pairs.rs`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt,bmi1")]
fn pairs<T: Element>(input: &[u8], out: &mut [MaybeUninit<T>]) -> Progress {
    let mut done = Progress::default();
    let mut carry = Carry::default();
    let unsigned_marker = _mm512_set1_epi8(0xcc_u8 as i8);
    let signed_marker = _mm512_set1_epi8(0xd0_u8 as i8);
    while let (Some(block), Some(room)) =
        (input[done.bytes..].first_chunk::<REGISTER>(), out[done.elements..].first_chunk_mut::<REGISTER>())
    {
        // SAFETY: a block is 64 readable bytes, and the load needs no alignment.
        let bytes = unsafe { _mm512_loadu_si512(block.as_ptr().cast()) };
        let unsigned = _mm512_cmpeq_epi8_mask(bytes, unsigned_marker);
        let signed = _mm512_cmpeq_epi8_mask(bytes, signed_marker);
        let high = _mm512_movepi8_mask(bytes);
        let looks = Looks {
            marker: unsigned | signed,
            restricted: if restricted_marker(T::KIND) == 0xcc { unsigned } else { signed },
            high,
            not_fixint: match T::KIND {
                Kind::Signed => _mm512_cmplt_epi8_mask(bytes, _mm512_set1_epi8(-0x20)),
                _ => high,
            },
        };
        let pairs = looks.pairs(&mut carry);
        let values = _mm512_maskz_compress_epi8(pairs.values, bytes);
        // SAFETY: there is room for 64 elements of one byte, and the store needs no alignment.
        unsafe { _mm512_storeu_si512(room.as_mut_ptr().cast(), values) };
        if pairs.odd != 0 {
            return pairs.before_the_odd_one(done);
        }
        done.elements += pairs.values.count_ones() as usize;
        done.bytes += REGISTER;
    }
    done.bytes = carry.unread(done.bytes);
    done
}

/// Integers of 16 bits or more.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vbmi,popcnt,bmi1")]
fn mixed<T: Element>(input: &[u8], out: &mut [MaybeUninit<T>]) -> Progress {
    let mut done = Progress::default();
    let walker = Walker::<T>::new();
    // In every byte: where in the window the first element begins.
    let mut entry = _mm512_setzero_si512();
    while let (Some(block), Some(room)) =
        (input[done.bytes..].first_chunk::<REGISTER>(), out[done.elements..].first_chunk_mut::<REGISTER>())
    {
        // SAFETY: a block is 64 readable bytes, and the load needs no alignment.
        let window = unsafe { _mm512_loadu_si512(block.as_ptr().cast()) };
        let walk = walker.walk(window, entry);
        let count = walk.elements.count_ones() as usize;
        if !walk.store(window, count, room) {
            break;
        }
        done.elements += count;
        let (first, exit) = (lowest_byte(entry), lowest_byte(walk.exit));
        if exit < Walker::<T>::BLOCK {
            // A byte that begins no element for the kernels.
            done.bytes += exit;
            return done;
        }
        entry = _mm512_sub_epi8(walk.exit, _mm512_set1_epi8(Walker::<T>::BLOCK as i8));
        done.bytes += Walker::<T>::BLOCK;
        if walk.seems_uniform(first, exit, count) {
            break;
        }
    }
    done.bytes += lowest_byte(entry);
    done
}

#[inline]
#[target_feature(enable = "avx512f")]
fn lowest_byte(register: __m512i) -> usize {
    _mm_cvtsi128_si32(_mm512_castsi512_si128(register)) as usize & 0xff
}

/// Finds the elements of a window by jumps from header to header that double: first one element on,
/// then two, four, and so on.
///
/// A position needs 6 bits. The highest bit of a byte of `next` says that the element is
/// *restricted*: that its payload's highest bit has to be 0 if it is as wide as the type.
struct Walker<T> {
    lengths: __m512i,
    positions: __m512i,
    _element: PhantomData<T>,
}

/// The elements that begin in a window before [`Walker::BLOCK`], one per byte; behind them `exit`
/// is repeated.
struct Walk<T> {
    starts: __m512i,
    /// First bytes behind the elements, and [`RESTRICTED`].
    ends: __m512i,
    /// In every byte: first byte behind the last element.
    exit: __m512i,
    /// A bit per element.
    elements: u64,
    _element: PhantomData<T>,
}

/// Set where the markers 0xcc to 0xcf of a signed type, or 0xd0 to 0xd3 of an unsigned one begin an
/// element.
const RESTRICTED: u8 = 0x80;

impl<T: Element> Walker<T> {
    const WIDTH: usize = size_of::<T>();
    /// Elements that begin before this end in the window, and not with its last byte, so that
    /// positions need 6 bits.
    const BLOCK: usize = REGISTER - (1 + Self::WIDTH);
    const LENGTHS: [u8; REGISTER] = tables::lengths_from(0xc0, T::KIND, Self::WIDTH, RESTRICTED);

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new() -> Self {
        Self {
            lengths: table(&const { Self::LENGTHS }),
            positions: table(&const { tables::positions() }),
            _element: PhantomData,
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn walk(&self, window: __m512i, entry: __m512i) -> Walk<T> {
        // Lengths of the elements that would begin at every byte; 0 for no element, which is a jump
        // to itself.
        let one = _mm512_set1_epi8(1);
        let fixint = _mm512_andnot_si512(_mm512_srli_epi16::<7>(window), one);
        let marked = _mm512_cmpge_epu8_mask(window, _mm512_set1_epi8(0xc0_u8 as i8));
        let length = _mm512_mask_permutexvar_epi8(fixint, marked, window, self.lengths);
        let block = table(&const { tables::ones_below::<REGISTER>(Self::BLOCK) });
        let next = _mm512_add_epi8(self.positions, _mm512_and_si512(length, block));
        // Element `n` is reached by the jumps of the bits of `n`.
        let jump = _mm512_andnot_si512(_mm512_set1_epi8(RESTRICTED as i8), next);
        let (starts, jump) = jumped::<0>(entry, jump);
        let (starts, jump) = jumped::<1>(starts, jump);
        let (starts, jump) = jumped::<2>(starts, jump);
        let (starts, jump) = jumped::<3>(starts, jump);
        let (starts, jump) = jumped::<4>(starts, jump);
        let (starts, jump) = jumped::<5>(starts, jump);
        let exit = _mm512_permutexvar_epi8(entry, jump);
        Walk {
            starts,
            ends: _mm512_permutexvar_epi8(starts, next),
            exit,
            elements: _mm512_cmpneq_epu8_mask(starts, exit),
            _element: PhantomData,
        }
    }
}

/// Moves the elements whose number has `BIT` on by a jump, and makes it one of twice as many
/// elements.
///
/// Chosen with a mask in a vector: moving masks to mask registers would take the port that shuffles
/// need.
#[inline]
#[target_feature(enable = "avx512f,avx512vbmi")]
fn jumped<const BIT: u32>(starts: __m512i, jump: __m512i) -> (__m512i, __m512i) {
    const CHOOSE: i32 = 0xca;
    let moved = table(&const { tables::numbers_with_bit(BIT) });
    let landed = _mm512_permutexvar_epi8(starts, jump);
    (_mm512_ternarylogic_epi64::<CHOOSE>(moved, landed, starts), _mm512_permutexvar_epi8(jump, jump))
}

impl<T: Element> Walk<T> {
    const WIDTH: usize = size_of::<T>();
    /// Elements of a register.
    const LANES: usize = REGISTER / Self::WIDTH;
    /// Registers that are filled without asking whether there are so many elements: that would be
    /// hard to predict.
    const GROUPS: usize = if Self::WIDTH == 8 { 3 } else { 2 };

    /// Whether all elements may be as long as the first one.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn seems_uniform(&self, entry: usize, exit: usize, count: usize) -> bool {
        let first = (lowest_byte(self.ends) & 0x3f) - entry;
        first * count == exit - entry
    }

    /// Writes the `count` elements, and others behind them. Returns whether all are in range.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vbmi")]
    fn store(&self, window: __m512i, count: usize, out: &mut [MaybeUninit<T>; REGISTER]) -> bool {
        const OR_OF_AND: i32 = 0xf8;
        let restricted = _mm512_set1_epi8(RESTRICTED as i8);
        let lengths = _mm512_sub_epi8(self.ends, self.starts);
        let unused = table(&const { unused_bits(size_of::<T>()) });
        let unused = _mm512_shuffle_epi8(unused, _mm512_andnot_si512(restricted, lengths));
        let shifts = _mm512_ternarylogic_epi64::<OR_OF_AND>(unused, restricted, lengths);
        let mut bad = _mm512_setzero_si512();
        for group in 0..Self::WIDTH {
            if group >= Self::GROUPS && group * Self::LANES >= count {
                break;
            }
            let (values, high) = self.group(window, shifts, group);
            // SAFETY: `out` is 64 elements, which is as many registers as an element has bytes; the
            // store needs no alignment.
            unsafe { _mm512_storeu_si512(out.as_mut_ptr().add(group * Self::LANES).cast(), values) };
            bad = _mm512_or_si512(bad, high);
        }
        highest_bits::<T>(bad) == 0
    }

    /// A register of elements, and another one with the highest bits of those set that are out of
    /// range.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vbmi")]
    fn group(&self, window: __m512i, shifts: __m512i, group: usize) -> (__m512i, __m512i) {
        let spread = table(&SPREAD[Self::WIDTH.ilog2() as usize][group]);
        let back = table(&const { tables::backwards(size_of::<T>()) });
        let payload = _mm512_sub_epi8(_mm512_permutexvar_epi8(spread, self.ends), back);
        let left = _mm512_permutexvar_epi8(payload, window);
        let shifts = _mm512_permutexvar_epi8(spread, shifts);
        let (left, values) = match Self::WIDTH {
            2 => shift_16(left, shifts, T::KIND),
            4 => shift_32(left, shifts, T::KIND),
            _ => shift_64(left, shifts, T::KIND),
        };
        // A restricted element of a signed type is filled with zeros, so its highest bit says the
        // same before and after.
        let highest = if T::KIND == Kind::Signed { values } else { left };
        (values, _mm512_and_si512(highest, shifts))
    }
}

/// A bit for each lane whose highest bit is set.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
fn highest_bits<T: Element>(lanes: __m512i) -> u32 {
    match size_of::<T>() {
        2 => _mm512_movepi16_mask(lanes),
        4 => _mm512_movepi32_mask(lanes).into(),
        _ => _mm512_movepi64_mask(lanes).into(),
    }
}

/// Shifts lanes to the left by the bits that are unused, and back; those of a signed type that are
/// not restricted with their sign.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
fn shift_16(lanes: __m512i, shifts: __m512i, kind: Kind) -> (__m512i, __m512i) {
    let unused = _mm512_and_si512(shifts, _mm512_set1_epi16(0x7f));
    let left = _mm512_sllv_epi16(lanes, unused);
    let filled = _mm512_srlv_epi16(left, unused);
    match kind {
        Kind::Signed => {
            let restricted = _mm512_movepi16_mask(shifts);
            (left, _mm512_mask_srav_epi16(filled, !restricted, left, unused))
        }
        _ => (left, filled),
    }
}

/// Shifts lanes to the left by the bits that are unused, and back; those of a signed type that are
/// not restricted with their sign.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
fn shift_32(lanes: __m512i, shifts: __m512i, kind: Kind) -> (__m512i, __m512i) {
    let unused = _mm512_and_si512(shifts, _mm512_set1_epi32(0x7f));
    let left = _mm512_sllv_epi32(lanes, unused);
    let filled = _mm512_srlv_epi32(left, unused);
    match kind {
        Kind::Signed => {
            let restricted = _mm512_movepi32_mask(shifts);
            (left, _mm512_mask_srav_epi32(filled, !restricted, left, unused))
        }
        _ => (left, filled),
    }
}

/// Shifts lanes to the left by the bits that are unused, and back; those of a signed type that are
/// not restricted with their sign.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
fn shift_64(lanes: __m512i, shifts: __m512i, kind: Kind) -> (__m512i, __m512i) {
    let unused = _mm512_and_si512(shifts, _mm512_set1_epi64(0x7f));
    let left = _mm512_sllv_epi64(lanes, unused);
    let filled = _mm512_srlv_epi64(left, unused);
    match kind {
        Kind::Signed => {
            let restricted = _mm512_movepi64_mask(shifts);
            (left, _mm512_mask_srav_epi64(filled, !restricted, left, unused))
        }
        _ => (left, filled),
    }
}

static SPREAD: [[[u8; REGISTER]; 8]; 4] = tables::spreads();

/// By length of an element (repeated every 16 bytes): bits of a lane of `width` bytes that its
/// payload leaves unused. An element of one byte is its own payload.
const fn unused_bits(width: usize) -> [u8; REGISTER] {
    let mut table = [0; REGISTER];
    let mut at = 0;
    while at < REGISTER {
        let length = at % 16;
        let payload = if length > 1 { length - 1 } else { 1 };
        table[at] = if payload < width { 8 * (width - payload) } else { 0 } as u8;
        at += 1;
    }
    table
}
