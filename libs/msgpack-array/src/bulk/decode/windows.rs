//! Decoding with shuffles of 16 bytes: the algorithm of every instruction set that has no larger
//! ones.
//!
//! The same two ways as with AVX-512, in windows of 16 bytes. A vector has one or two of them,
//! which are adjacent in the input; the result of each window is stored separately. Without shifts
//! by different amounts, bytes of a lane beyond the payload are left out by the shuffle and filled
//! with the sign.

use core::marker::PhantomData;
use core::mem::MaybeUninit;

use super::pairs::{Carry, Looks, restricted_marker};
use super::{Progress, tables};
use crate::bulk::Kind;
use crate::element::Element;

/// Bytes of a window.
pub(super) const WINDOW: usize = 16;

/// One or two windows, and what can be done with their bytes.
///
/// The constructor's caller has checked that the machine has the instructions: [`run`] and
/// [`mixed`] are only called from functions for them.
pub(super) trait Vector: Copy {
    /// How many.
    const WINDOWS: usize;

    /// Reads windows that begin `distance` bytes apart.
    ///
    /// # Safety
    /// All of them can be read.
    unsafe fn load(at: *const u8, distance: usize) -> Self;

    /// Writes a window.
    ///
    /// # Safety
    /// [`WINDOW`] bytes at `to` can be written.
    unsafe fn store(self, window: usize, to: *mut u8);

    /// The same bytes in every window.
    fn table(bytes: &[u8; WINDOW]) -> Self;

    /// The same byte everywhere.
    fn splat(byte: u8) -> Self;

    /// Of each window the bytes that `indices` says; 0 where the highest bit is set. Others have to
    /// be below [`WINDOW`].
    fn shuffle(self, indices: Self) -> Self;

    /// The same, with 0 for all indices that are too large.
    fn look_up(self, indices: Self) -> Self;

    fn and(self, other: Self) -> Self;
    /// The bits that `other` does not have.
    fn without(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    /// Without the sign.
    fn abs(self) -> Self;
    /// All bits of bytes that are equal.
    fn equal(self, other: Self) -> Self;
    /// All bits of bytes that are greater as numbers with sign.
    fn greater(self, other: Self) -> Self;
    /// The highest bit of each byte.
    fn highest_bits(self) -> u32;

    /// Sends `entry`, a position in every byte, through the jumps of the windows: out of each that
    /// is `block` less in the next. Returns where each is entered, where it is left, and where the
    /// window behind will be entered.
    fn chain(jump: Self, entry: Self, block: Self) -> Chain<Self>;

    /// Writes the bytes of eight that `order` says.
    ///
    /// # Safety
    /// Eight bytes can be read and written.
    unsafe fn close_up(from: *const u8, order: &[u8; 8], to: *mut u8);
}

/// See [`Vector::chain`].
pub(super) struct Chain<V> {
    pub(super) entries: V,
    pub(super) exits: V,
    /// In every byte of the first window at least.
    pub(super) next: V,
}

/// See [`Kernel::run`](super::vectors::Kernel::run).
#[inline(always)]
pub(super) fn run<V: Vector, T: Element, const STRIDE: usize>(
    input: &[u8],
    out: &mut [MaybeUninit<T>],
) -> usize {
    const UNROLLED: usize = 4;
    let strided = Strided::<V, T, STRIDE>::new();
    let elements = Strided::<V, T, STRIDE>::ELEMENTS;
    let room = out.len();
    let fits = |done: usize, vectors: usize| {
        let before = done + (vectors - 1) * elements;
        input.len() >= before * STRIDE + Strided::<V, T, STRIDE>::READ
            && room >= before + Strided::<V, T, STRIDE>::WRITTEN
    };
    let mut done = 0;
    while fits(done, UNROLLED) {
        let mut odd = V::splat(0);
        for at in (done..).step_by(elements).take(UNROLLED) {
            // SAFETY: `fits` says that the last of these vectors can be read and written.
            odd =
                odd.or(unsafe { strided.vector(input.as_ptr().add(at * STRIDE), out.as_mut_ptr().add(at)) });
        }
        if strided.odd_headers(odd) != 0 {
            break;
        }
        done += UNROLLED * elements;
    }
    while fits(done, 1) {
        // SAFETY: `fits` says that one vector can be read and written.
        let odd = unsafe { strided.vector(input.as_ptr().add(done * STRIDE), out.as_mut_ptr().add(done)) };
        let odd = strided.odd_headers(odd);
        if odd != 0 {
            let (window, byte) =
                (odd.trailing_zeros() as usize / WINDOW, odd.trailing_zeros() as usize % WINDOW);
            return done + window * Strided::<V, T, STRIDE>::PER_WINDOW + byte / STRIDE;
        }
        done += elements;
    }
    done
}

/// Elements that are all `STRIDE` bytes long.
struct Strided<V, T, const STRIDE: usize> {
    shuffle: V,
    marker: V,
    headers: V,
    _element: PhantomData<T>,
}

impl<V: Vector, T: Element, const STRIDE: usize> Strided<V, T, STRIDE> {
    const WIDTH: usize = size_of::<T>();
    /// Elements of 9 bytes are read two at once, though a window has the payload of one: with a
    /// second window 2 bytes on.
    const SECOND: usize = if STRIDE == 9 { 2 } else { 0 };
    /// Elements of a window: as many as it has of either side.
    const PER_WINDOW: usize = {
        let read = (WINDOW + Self::SECOND) / STRIDE;
        let written = WINDOW / Self::WIDTH;
        if read < written { read } else { written }
    };
    const ELEMENTS: usize = V::WINDOWS * Self::PER_WINDOW;
    const READ: usize = (V::WINDOWS - 1) * Self::PER_WINDOW * STRIDE + WINDOW + 2;
    const WRITTEN: usize = (V::WINDOWS - 1) * Self::PER_WINDOW + WINDOW / Self::WIDTH;
    const SHUFFLE: [u8; WINDOW] = tables::strided(Self::WIDTH, STRIDE, WINDOW / STRIDE, 0x80);
    const HEADERS: [u8; WINDOW] = tables::ones_at(tables::headers(STRIDE, Self::PER_WINDOW));
    const PAYLOAD: [u8; WINDOW] = tables::ones_at(tables::payload(Self::WIDTH, STRIDE));

    #[inline(always)]
    fn new() -> Self {
        Self {
            shuffle: V::table(&const { Self::SHUFFLE }),
            marker: V::splat(tables::marker(T::KIND, STRIDE)),
            headers: V::table(&const { Self::HEADERS }),
            _element: PhantomData,
        }
    }

    /// A bit per header that is not acceptable, by the result of [`vector`](Self::vector).
    #[inline(always)]
    fn odd_headers(&self, odd: V) -> u32 {
        let all = (1 << (WINDOW * V::WINDOWS - 1) << 1) - 1_u64;
        !odd.and(self.headers).equal(V::splat(0)).highest_bits() & all as u32
    }

    /// Reads a vector of elements. Of the result those bytes that headers stood at are 0 if the
    /// elements are acceptable.
    ///
    /// # Safety
    /// [`READ`](Self::READ) bytes at `input` can be read, [`WRITTEN`](Self::WRITTEN) elements at
    /// `out` can be written.
    #[inline(always)]
    unsafe fn vector(&self, input: *const u8, out: *mut MaybeUninit<T>) -> V {
        let distance = Self::PER_WINDOW * STRIDE;
        // SAFETY: the caller's promise, which includes a byte more.
        let (window, next) = unsafe { (V::load(input, distance), V::load(input.add(1), distance)) };
        let (values, odd) = match (T::KIND, STRIDE) {
            (Kind::Bool, _) => (window.and(V::splat(1)), window.xor(self.marker).without(V::splat(1))),
            (_, 1) => {
                let lowest = V::splat(if T::KIND == Kind::Signed { 0xe0 } else { 0 });
                (self.extend(window.shuffle(self.shuffle)), lowest.greater(window))
            }
            // SAFETY: the caller's promise.
            (_, 9) => (unsafe { self.two(input, window, distance) }, self.odd(window, next)),
            _ => (self.extend(window.shuffle(self.shuffle)), self.odd(window, next)),
        };
        for at in 0..V::WINDOWS {
            // SAFETY: the caller's promise.
            unsafe { values.store(at, out.add(at * Self::PER_WINDOW).cast()) };
        }
        odd
    }

    /// Two payloads of 8 bytes: one behind the first header of `window`, the other at the end of a
    /// window 2 bytes on.
    ///
    /// # Safety
    /// [`READ`](Self::READ) bytes at `input` can be read.
    #[inline(always)]
    unsafe fn two(&self, input: *const u8, window: V, distance: usize) -> V {
        const NONE: u8 = 0x80;
        const FIRST: [u8; WINDOW] = [8, 7, 6, 5, 4, 3, 2, 1, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE];
        const SECOND: [u8; WINDOW] =
            [NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, 15, 14, 13, 12, 11, 10, 9, 8];
        // SAFETY: the caller's promise.
        let last = unsafe { V::load(input.add(Self::SECOND), distance) };
        window.shuffle(V::table(&FIRST)).or(last.shuffle(V::table(&SECOND)))
    }

    /// Fills the bytes of a lane beyond the payload, which so far are the header.
    #[inline(always)]
    fn extend(&self, lanes: V) -> V {
        if STRIDE > Self::WIDTH || Self::WIDTH == 1 {
            return lanes;
        }
        let payload = V::table(&const { Self::PAYLOAD });
        let values = lanes.and(payload);
        if T::KIND != Kind::Signed {
            return values;
        }
        // Of the two headers only that of negative values has this bit; a fixint is its own
        // payload.
        let negative = V::splat(if STRIDE == 1 { 0x80 } else { 0x10 });
        values.or(lanes.without(payload).and(negative).equal(negative))
    }

    /// See [`vector`](Self::vector); `next` is the window one byte on, so with the first payload
    /// byte where the header is.
    #[inline(always)]
    fn odd(&self, window: V, next: V) -> V {
        if T::KIND != Kind::Signed {
            return window.xor(self.marker);
        }
        // The two markers are 2 below and 2 above the middle.
        let two = V::splat(2);
        let side = window.sub(self.marker.add(two));
        let other = side.abs().xor(two);
        let high = V::splat(0x80);
        // With the unsigned marker the highest bit of a payload as wide as the type has to be 0;
        // with the signed one of a narrower payload it is 1, or an encoder has not chosen the
        // shortest form: that is left to `mixed`.
        let side = if STRIDE > Self::WIDTH { side.and(next).and(high) } else { high.without(side.or(next)) };
        other.or(side)
    }
}

/// See [`Kernel::mixed`](super::vectors::Kernel::mixed).
#[inline(always)]
pub(super) fn mixed<V: Vector, T: Element>(input: &[u8], out: &mut [MaybeUninit<T>]) -> Progress {
    match size_of::<T>() {
        1 => pairs::<V, T>(input, out),
        _ => walk::<V, T>(input, out),
    }
}

/// 8-bit integers, see `pairs.rs`.
#[inline(always)]
fn pairs<V: Vector, T: Element>(input: &[u8], out: &mut [MaybeUninit<T>]) -> Progress {
    let mut done = Progress::default();
    let mut carry = Carry::default();
    while let (Some(block), Some(room)) =
        (input[done.bytes..].first_chunk::<64>(), out[done.elements..].first_chunk_mut::<64>())
    {
        let pairs = looks::<V>(block, T::KIND).pairs(&mut carry);
        let mut written = 0;
        for (at, eight) in block.as_chunks::<8>().0.iter().enumerate() {
            let values = usize::from((pairs.values >> (8 * at)) as u8);
            // SAFETY: eight bytes are read; at most `8 * at` elements of one byte were written
            // before, so there is room for 8.
            unsafe {
                let to = room.as_mut_ptr().add(written);
                V::close_up(eight.as_ptr(), &tables::CLOSED_UP[values], to.cast());
            }
            written += usize::from(tables::COUNTS[values]);
        }
        if pairs.odd != 0 {
            return pairs.before_the_odd_one(done);
        }
        done += Progress { elements: written, bytes: block.len() };
    }
    done.bytes = carry.unread(done.bytes);
    done
}

#[inline(always)]
fn looks<V: Vector>(block: &[u8; 64], kind: Kind) -> Looks {
    let mut looks = Looks { marker: 0, restricted: 0, high: 0, not_fixint: 0 };
    for at in (0..block.len()).step_by(V::WINDOWS * WINDOW) {
        // SAFETY: a block is a multiple of a vector.
        let bytes = unsafe { V::load(block.as_ptr().add(at), WINDOW) };
        let unsigned = bytes.equal(V::splat(0xcc));
        let signed = bytes.equal(V::splat(0xd0));
        let bits = |vector: V| u64::from(vector.highest_bits()) << at;
        looks.marker |= bits(unsigned.or(signed));
        looks.restricted |= bits(if restricted_marker(kind) == 0xcc { unsigned } else { signed });
        looks.high |= bits(bytes);
        looks.not_fixint |= match kind {
            Kind::Signed => bits(V::splat(0xe0).greater(bytes)),
            _ => bits(bytes),
        };
    }
    looks
}

/// Integers of 16 bits or more: see `Walker` of `avx512.rs`, which does the same.
#[inline(always)]
fn walk<V: Vector, T: Element>(input: &[u8], out: &mut [MaybeUninit<T>]) -> Progress {
    let mut done = Progress::default();
    let walker = Walker::<V, T>::new();
    let mut entry = V::splat(0);
    // Length of the first element of the windows before. Those of one vector are too few to
    // recognize a run.
    let mut previous = V::splat(0);
    while let (Some(block), Some(room)) =
        (input[done.bytes..].first_chunk::<64>(), out[done.elements..].first_chunk_mut::<64>())
    {
        // SAFETY: the last window begins before byte 16 of the block and so ends in it.
        let windows = unsafe { V::load(block.as_ptr(), Walker::<V, T>::BLOCK) };
        let walk = walker.walk(windows, entry);
        let lengths = walk.ends.sub(walk.starts);
        // Odd: a byte that begins no element, or an element out of range.
        if walker.is_odd(&walk, lengths, windows) {
            break;
        }
        done.elements += walk.store::<T>(lengths, windows, room);
        done.bytes += V::WINDOWS * Walker::<V, T>::BLOCK;
        entry = walk.next;
        let lengths = lengths.without(V::splat(RESTRICTED));
        if walk.is_uniform(lengths, previous) {
            break;
        }
        previous = lengths.shuffle(V::splat(0));
    }
    let mut bytes = [0; WINDOW];
    // SAFETY: there are as many bytes as a window has.
    unsafe { entry.store(0, bytes.as_mut_ptr()) };
    done.bytes += usize::from(bytes[0]);
    done
}

/// Tables to find the elements of windows with.
struct Walker<V, T> {
    lengths: V,
    block: V,
    _element: PhantomData<T>,
}

/// The elements that begin in a window before [`Walker::BLOCK`], one per byte; behind them the exit
/// is repeated.
struct Walk<V> {
    starts: V,
    /// First bytes behind the elements, and [`RESTRICTED`].
    ends: V,
    exits: V,
    next: V,
}

/// Set where the markers 0xcc to 0xcf of a signed type, or 0xd0 to 0xd3 of an unsigned one begin an
/// element.
const RESTRICTED: u8 = 0x80;

impl<V: Vector, T: Element> Walker<V, T> {
    const WIDTH: usize = size_of::<T>();
    /// Elements that begin before this end in the window, and not with its last byte.
    const BLOCK: usize = WINDOW - (1 + Self::WIDTH);
    const LENGTHS: [u8; WINDOW] = tables::lengths_from(0xcc, T::KIND, Self::WIDTH, RESTRICTED);

    #[inline(always)]
    fn new() -> Self {
        Self {
            lengths: V::table(&const { Self::LENGTHS }),
            block: V::table(&const { tables::ones_below(Self::BLOCK) }),
            _element: PhantomData,
        }
    }

    #[inline(always)]
    fn walk(&self, windows: V, entry: V) -> Walk<V> {
        // Lengths of the elements that would begin at every byte; 0 for no element, which is a jump
        // to itself.
        let before_fixints = V::splat(if T::KIND == Kind::Signed { 0xdf } else { 0xff });
        let fixint = windows.greater(before_fixints).and(V::splat(1));
        let length = fixint.or(self.lengths.look_up(windows.sub(V::splat(0xcc)))).and(self.block);
        let next = length.add(V::table(&const { tables::positions() }));
        let jump_1 = next.without(V::splat(RESTRICTED));
        let jump_2 = jump_1.shuffle(jump_1);
        let jump_4 = jump_2.shuffle(jump_2);
        let jump_8 = jump_4.shuffle(jump_4);
        // Where 8 bytes begin elements, as many jumps lead out of all of them.
        let jump = if Self::BLOCK <= 8 { jump_8 } else { jump_8.shuffle(jump_8) };
        let Chain { entries, exits, next: behind } = V::chain(jump, entry, V::splat(Self::BLOCK as u8));
        let starts = jumped::<V, 0>(entries, jump_1);
        let starts = jumped::<V, 1>(starts, jump_2);
        let starts = jumped::<V, 2>(starts, jump_4);
        // All starts behind the eighth one are the exit then.
        let starts = jumped::<V, 3>(starts, if Self::BLOCK <= 8 { jump } else { jump_8 });
        Walk { starts, ends: next.shuffle(starts), exits, next: behind }
    }

    #[inline(always)]
    fn is_odd(&self, walk: &Walk<V>, lengths: V, windows: V) -> bool {
        let stuck = V::splat(Self::BLOCK as u8).greater(walk.exits);
        let highest = windows.shuffle(walk.first_of_payload(lengths));
        let restricted = match T::KIND {
            Kind::Signed => lengths.equal(V::splat(RESTRICTED | (1 + Self::WIDTH as u8))),
            _ => lengths,
        };
        stuck.or(restricted.and(highest)).highest_bits() != 0
    }
}

/// Moves the elements whose number has `BIT` on by a jump.
#[inline(always)]
fn jumped<V: Vector, const BIT: u32>(starts: V, jump: V) -> V {
    let moved = V::table(&const { tables::numbers_with_bit(BIT) });
    jump.shuffle(starts).and(moved).or(starts.without(moved))
}

impl<V: Vector> Walk<V> {
    /// Where the payload begins: behind the marker, if there is one.
    #[inline(always)]
    fn first_of_payload(&self, lengths: V) -> V {
        let behind = lengths.without(V::splat(RESTRICTED)).greater(V::splat(1));
        self.starts.sub(behind)
    }

    /// Whether all elements of every window have the `expected` length.
    #[inline(always)]
    fn is_uniform(&self, lengths: V, expected: V) -> bool {
        let others = lengths.equal(expected).or(self.starts.equal(self.exits));
        others.highest_bits() as u64 == (1 << (WINDOW * V::WINDOWS)) - 1
    }

    /// Writes the elements, and others behind them. Returns how many.
    #[inline(always)]
    fn store<T: Element>(&self, lengths: V, windows: V, out: &mut [MaybeUninit<T>; 64]) -> usize {
        // Elements of a window of lanes, and the windows that are filled without asking whether
        // there are so many elements.
        let lanes = WINDOW / size_of::<T>();
        const GROUPS: usize = 2;
        let first = self.first_of_payload(lengths);
        let negative = V::splat(0).greater(windows.shuffle(first).without(lengths));
        let behind = self.starts.equal(self.exits).highest_bits();
        let group = |group| lanes_of::<V, T>(windows, self.ends, first, negative, group);
        let filled = [group(0), group(1)];
        let mut written = 0;
        for window in 0..V::WINDOWS {
            let count = (!behind >> (window * WINDOW) as u32 & 0xffff).count_ones() as usize;
            for (at, filled) in filled.iter().enumerate() {
                // SAFETY: `out` is 64 elements; of two windows less than 16 elements each begin in
                // 32, and registers of them too.
                unsafe { filled.store(window, out.as_mut_ptr().add(written + at * lanes).cast()) };
            }
            if count > GROUPS * lanes {
                for at in GROUPS..size_of::<T>() {
                    // SAFETY: as above.
                    unsafe { group(at).store(window, out.as_mut_ptr().add(written + at * lanes).cast()) };
                }
            }
            written += count;
        }
        written
    }
}

/// The `group`-th lanes of all windows.
#[inline(always)]
fn lanes_of<V: Vector, T: Element>(windows: V, ends: V, first: V, negative: V, group: usize) -> V {
    let spread = V::table(&SPREAD[size_of::<T>().ilog2() as usize][group]);
    let back = V::table(&const { tables::backwards(size_of::<T>()) });
    let last = ends.without(V::splat(RESTRICTED)).shuffle(spread).sub(back);
    let beyond = first.shuffle(spread).greater(last);
    // All bits are set of an index that is none.
    let lanes = windows.shuffle(last.or(beyond));
    match T::KIND {
        Kind::Signed => lanes.or(beyond.and(negative.shuffle(spread))),
        _ => lanes,
    }
}

static SPREAD: [[[u8; WINDOW]; 8]; 4] = tables::spreads();
