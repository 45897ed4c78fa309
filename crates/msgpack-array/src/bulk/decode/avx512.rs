//! 64 bytes at a time with AVX-512 (VBMI for shuffles across the whole register, VBMI2 to close up 8-bit values).
//!
//! Nothing here may run before the CPU is known to have it; `mod.rs` sees to that.

use core::arch::x86_64::*;
use core::mem::MaybeUninit;

use super::pairs::{Carry, Looks, restricted_marker};
use super::{Kernel, Progress, tables};
use crate::bulk::Kind;
use crate::element::Element;

/// Bytes of a register.
const REGISTER: usize = 64;

pub(super) struct Avx512;

impl Kernel for Avx512 {
    #[target_feature(
        enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi1,bmi2,lzcnt,popcnt"
    )]
    unsafe fn run<T: Element, const STRIDE: usize>(input: &[u8], out: &mut [MaybeUninit<T>]) -> usize {
        const UNROLLED: usize = 4;
        let strided = Strided::<T, STRIDE>::new();
        let elements = Strided::<T, STRIDE>::ELEMENTS;
        let room = out.len();
        let fits = |done: usize, vectors: usize| {
            let before = (vectors - 1) * elements;
            input.len() >= (done + before) * STRIDE + Strided::<T, STRIDE>::READ
                && room >= done + before + REGISTER / size_of::<T>()
        };
        let mut done = 0;
        while fits(done, UNROLLED) {
            let mut odd = _mm512_setzero_si512();
            for at in (done..).step_by(elements).take(UNROLLED) {
                // SAFETY: `fits` says that the last of these vectors can be read and written.
                odd = _mm512_or_si512(odd, unsafe {
                    strided.vector(input.as_ptr().add(at * STRIDE), out.as_mut_ptr().add(at))
                });
            }
            if _mm512_test_epi8_mask(odd, odd) & Strided::<T, STRIDE>::HEADERS != 0 {
                break;
            }
            done += UNROLLED * elements;
        }
        while fits(done, 1) {
            // SAFETY: `fits` says that one vector can be read and written.
            let odd =
                unsafe { strided.vector(input.as_ptr().add(done * STRIDE), out.as_mut_ptr().add(done)) };
            let odd = _mm512_test_epi8_mask(odd, odd) & Strided::<T, STRIDE>::HEADERS;
            if odd != 0 {
                return done + odd.trailing_zeros() as usize / STRIDE;
            }
            done += elements;
        }
        done
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
    _element: core::marker::PhantomData<T>,
}

impl<T: Element, const STRIDE: usize> Strided<T, STRIDE> {
    const WIDTH: usize = size_of::<T>();
    /// Whether eight 9-byte elements are read from two windows: one has the payloads of seven, but the headers of all eight.
    const TWO_WINDOWS: bool = STRIDE == 9;
    /// Elements of a vector: as many as a window and a register have.
    const ELEMENTS: usize = {
        let read = REGISTER / STRIDE + Self::TWO_WINDOWS as usize;
        let written = REGISTER / Self::WIDTH;
        if read < written { read } else { written }
    };
    const HEADERS: u64 = tables::headers(STRIDE, Self::ELEMENTS);
    /// Bytes that are read, or touched at least.
    const READ: usize = REGISTER + if Self::TWO_WINDOWS { 8 } else { 1 };
    const SHUFFLE: [u8; REGISTER] = tables::strided(Self::WIDTH, STRIDE, REGISTER / STRIDE, 0);

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn new() -> Self {
        Self {
            shuffle: table(&const { Self::SHUFFLE }),
            marker: _mm512_set1_epi8(tables::marker(T::KIND, STRIDE) as i8),
            _element: core::marker::PhantomData,
        }
    }

    /// Reads a vector of elements. Of the result those bytes that headers stood at are 0 if the elements are acceptable.
    ///
    /// # Safety
    /// [`READ`](Self::READ) bytes at `input` can be read, a register at `out` can be written.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    unsafe fn vector(&self, input: *const u8, out: *mut MaybeUninit<T>) -> __m512i {
        // SAFETY: the caller's promise; no load needs alignment.
        let (window, next) =
            unsafe { (_mm512_loadu_si512(input.cast()), _mm512_loadu_si512(input.add(1).cast())) };
        let (values, odd) = match (T::KIND, STRIDE) {
            (Kind::Bool, _) => (
                _mm512_and_si512(window, _mm512_set1_epi8(1)),
                _mm512_andnot_si512(_mm512_set1_epi8(1), _mm512_xor_si512(window, self.marker)),
            ),
            (_, 1) => self.fixints(window),
            // SAFETY: the caller's promise.
            _ => (self.extend(unsafe { self.payloads(window, input) }), self.odd(window, next)),
        };
        // SAFETY: the caller's promise; the store needs no alignment.
        unsafe { _mm512_storeu_si512(out.cast(), values) };
        odd
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

    /// # Safety
    /// [`READ`](Self::READ) bytes at `input` can be read.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    unsafe fn payloads(&self, window: __m512i, input: *const u8) -> __m512i {
        const LAST: u64 = 0xff << 56;
        let values = _mm512_permutexvar_epi8(self.shuffle, window);
        if !Self::TWO_WINDOWS {
            return values;
        }
        // SAFETY: the caller's promise; the load needs no alignment.
        let last = unsafe { _mm512_loadu_si512(input.add(8).cast()) };
        let reversed = _mm512_set1_epi64(0x38393a3b3c3d3e3f);
        _mm512_mask_permutexvar_epi8(values, LAST, reversed, last)
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

    /// See [`vector`](Self::vector); `next` is the window one byte on, so with the first payload byte where the header is.
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
        // With the unsigned marker the highest bit of a payload as wide as the type has to be 0; with the signed one of a narrower
        // payload it is 1, or an encoder has not chosen the shortest form: that is left to `mixed`.
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
        let bad = walk.store(window, room);
        if bad != 0 {
            let good = bad.trailing_zeros() as usize;
            return Progress {
                elements: done.elements + good,
                bytes: done.bytes + usize::from(bytes_of(walk.starts)[good]),
            };
        }
        done.elements += walk.count();
        if !walk.reaches_the_end {
            done.bytes += usize::from(bytes_of(walk.exit)[0]);
            return done;
        }
        entry = _mm512_sub_epi8(walk.exit, _mm512_set1_epi8(Walker::<T>::BLOCK as i8));
        done.bytes += Walker::<T>::BLOCK;
        if walk.is_uniform() {
            break;
        }
    }
    done.bytes += usize::from(bytes_of(entry)[0]);
    done
}

#[inline]
#[target_feature(enable = "avx512f")]
fn bytes_of(register: __m512i) -> [u8; REGISTER] {
    // SAFETY: both are 64 bytes without padding, all values of which are valid.
    unsafe { core::mem::transmute(register) }
}

/// Finds the elements of a window by jumps from header to header that double: first one element on, then two, four, and so on.
struct Walker<T> {
    lengths: __m512i,
    positions: __m512i,
    _element: core::marker::PhantomData<T>,
}

/// The elements that begin in a window before [`Walker::BLOCK`], one per byte; behind them `exit` is repeated.
struct Walk<T> {
    starts: __m512i,
    /// First bytes behind the elements.
    ends: __m512i,
    /// In every byte: first byte behind the last element.
    exit: __m512i,
    /// A bit per element.
    elements: u64,
    /// Whether no byte stood in the way that begins no element.
    reaches_the_end: bool,
    _element: core::marker::PhantomData<T>,
}

impl<T: Element> Walker<T> {
    const WIDTH: usize = size_of::<T>();
    /// Elements that begin before this end in the window, and at most at its last byte, so that positions need 6 bits.
    const BLOCK: usize = REGISTER - (1 + Self::WIDTH);
    const LENGTHS: [u8; REGISTER] = tables::lengths_from::<0xc0, REGISTER>(T::KIND, Self::WIDTH);

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new() -> Self {
        Self {
            lengths: table(&const { Self::LENGTHS }),
            positions: table(&const { tables::positions() }),
            _element: core::marker::PhantomData,
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn walk(&self, window: __m512i, entry: __m512i) -> Walk<T> {
        let block = (1 << Self::BLOCK) - 1;
        // Lengths of the elements that would begin at every byte; 0 for no element, which is a jump to itself.
        let marked = _mm512_cmpge_epu8_mask(window, _mm512_set1_epi8(0xc0_u8 as i8));
        let fixint = _mm512_maskz_mov_epi8(!_mm512_movepi8_mask(window) & block, _mm512_set1_epi8(1));
        let length = _mm512_mask_permutexvar_epi8(fixint, marked & block, window, self.lengths);
        let next = _mm512_add_epi8(self.positions, length);
        // Element `n` is reached by the jumps of the bits of `n`.
        let mut starts = entry;
        let mut jump = next;
        let bits = [0xaaaa_aaaa_aaaa_aaaa, 0xcccc_cccc_cccc_cccc, 0xf0f0_f0f0_f0f0_f0f0];
        for bit in
            bits.into_iter().chain([0xff00_ff00_ff00_ff00, 0xffff_0000_ffff_0000, 0xffff_ffff_0000_0000])
        {
            starts = _mm512_mask_permutexvar_epi8(starts, bit, starts, jump);
            jump = _mm512_permutexvar_epi8(jump, jump);
        }
        let exit = _mm512_permutexvar_epi8(entry, jump);
        Walk {
            starts,
            ends: _mm512_permutexvar_epi8(starts, next),
            exit,
            elements: _mm512_cmpneq_epu8_mask(starts, exit),
            reaches_the_end: _mm512_cmplt_epu8_mask(exit, _mm512_set1_epi8(Self::BLOCK as i8)) == 0,
            _element: core::marker::PhantomData,
        }
    }
}

impl<T: Element> Walk<T> {
    const WIDTH: usize = size_of::<T>();
    /// Elements of a register.
    const LANES: usize = REGISTER / Self::WIDTH;
    /// Registers that are filled without asking whether there are so many elements: that would be hard to predict.
    const GROUPS: usize = if Self::WIDTH == 8 { 3 } else { 2 };

    #[inline]
    #[target_feature(enable = "popcnt")]
    fn count(&self) -> usize {
        self.elements.count_ones() as usize
    }

    /// Whether all elements are of one length.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn is_uniform(&self) -> bool {
        let lengths = _mm512_sub_epi8(self.ends, self.starts);
        let first = _mm512_broadcastb_epi8(_mm512_castsi512_si128(lengths));
        _mm512_mask_cmpneq_epu8_mask(self.elements, lengths, first) == 0
    }

    /// Writes the elements, and others behind them. Returns a bit for each that is out of range.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vbmi,popcnt")]
    fn store(&self, window: __m512i, out: &mut [MaybeUninit<T>; REGISTER]) -> u64 {
        let headers = _mm512_permutexvar_epi8(self.starts, window);
        let class = _mm512_and_si512(headers, _mm512_set1_epi8(0xfc_u8 as i8));
        let unsigned = _mm512_cmpeq_epi8_mask(class, _mm512_set1_epi8(0xcc_u8 as i8));
        let lengths = _mm512_sub_epi8(self.ends, self.starts);
        let unused = _mm512_shuffle_epi8(table(&const { tables::unused_bits(size_of::<T>()) }), lengths);
        let restricted = match T::KIND {
            Kind::Signed => unsigned,
            _ => !unsigned,
        };
        let mut bad = 0;
        let count = self.count();
        for group in 0..Self::WIDTH {
            if group >= Self::GROUPS && group * Self::LANES >= count {
                break;
            }
            let unsigned = unsigned >> (group * Self::LANES);
            let (values, high) = self.group(window, unused, unsigned, group);
            // SAFETY: `out` is 64 elements, which is as many registers as an element has bytes; the store needs no alignment.
            unsafe { _mm512_storeu_si512(out.as_mut_ptr().add(group * Self::LANES).cast(), values) };
            bad |= high << (group * Self::LANES);
        }
        bad & restricted & self.elements
    }

    /// A register of elements, and a bit for each whose highest bit would be out of range if it was restricted.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vbmi")]
    fn group(&self, window: __m512i, unused: __m512i, unsigned: u64, group: usize) -> (__m512i, u64) {
        let spread = table(&SPREAD[Self::WIDTH.ilog2() as usize][group]);
        let lowest = (1 << Self::WIDTH.ilog2()) - 1;
        let back = table(&const { tables::backwards(size_of::<T>()) });
        let payload = _mm512_sub_epi8(_mm512_permutexvar_epi8(spread, self.ends), back);
        let left = _mm512_permutexvar_epi8(payload, window);
        let _ = lowest;
        let signed = T::KIND == Kind::Signed;
        match Self::WIDTH {
            2 => {
                let unused = _mm512_maskz_permutexvar_epi8(0x5555_5555_5555_5555, spread, unused);
                let left = _mm512_sllv_epi16(left, unused);
                if signed {
                    let values = _mm512_srav_epi16(left, unused);
                    let values = _mm512_mask_srlv_epi16(values, unsigned as u32, left, unused);
                    return (values, _mm512_movepi16_mask(values).into());
                }
                (_mm512_srlv_epi16(left, unused), _mm512_movepi16_mask(left).into())
            }
            4 => {
                let unused = _mm512_maskz_permutexvar_epi8(0x1111_1111_1111_1111, spread, unused);
                let left = _mm512_sllv_epi32(left, unused);
                if signed {
                    let values = _mm512_srav_epi32(left, unused);
                    let values = _mm512_mask_srlv_epi32(values, unsigned as u16, left, unused);
                    return (values, _mm512_movepi32_mask(values).into());
                }
                (_mm512_srlv_epi32(left, unused), _mm512_movepi32_mask(left).into())
            }
            _ => {
                let unused = _mm512_maskz_permutexvar_epi8(0x0101_0101_0101_0101, spread, unused);
                let left = _mm512_sllv_epi64(left, unused);
                if signed {
                    let values = _mm512_srav_epi64(left, unused);
                    let values = _mm512_mask_srlv_epi64(values, unsigned as u8, left, unused);
                    return (values, _mm512_movepi64_mask(values).into());
                }
                (_mm512_srlv_epi64(left, unused), _mm512_movepi64_mask(left).into())
            }
        }
    }
}

/// [`tables::spread`] by the logarithm of the width and by group.
static SPREAD: [[[u8; REGISTER]; 8]; 4] = {
    let mut tables = [[[0; REGISTER]; 8]; 4];
    let mut log = 0;
    while log < 4 {
        let mut group = 0;
        while group < 1 << log {
            tables[log][group] = tables::spread(1 << log, group);
            group += 1;
        }
        log += 1;
    }
    tables
};
