//! Decoding with vectors: the algorithm above the instruction sets.
//!
//! Elements come in runs of one length, which a vector takes apart with a fixed shuffle, or mixed,
//! where it first has to find out where each one begins. The kernels do that for whole vectors and
//! stop where something is odd, or near the end of input or output. What they leave goes through
//! them once more from a buffer with room to spare ([`stage`]), and in the end to the scalar code,
//! which says what is wrong with an element.

use core::mem::MaybeUninit;

use super::{Progress, scalar, tables};
use crate::bulk::{Decoded, Kind};
use crate::element::Element;

/// What every instruction set has to offer. The functions stop early, by choice or not, but never
/// beyond the end of `input` or `out`; all elements before the stop are written, and behind them in
/// `out` may be others that do not count.
pub(super) trait Kernel {
    /// Reads elements that are all `STRIDE` bytes long. Returns how many.
    ///
    /// # Safety
    /// The machine has the instruction set.
    unsafe fn run<T: Element, const STRIDE: usize>(input: &[u8], out: &mut [MaybeUninit<T>]) -> usize;

    /// Reads integers of any length that `T` needs.
    ///
    /// # Safety
    /// The machine has the instruction set.
    unsafe fn mixed<T: Element>(input: &[u8], out: &mut [MaybeUninit<T>]) -> Progress;
}

/// # Safety
/// The machine has the instruction set of `K`.
pub(super) unsafe fn decode<K: Kernel, T: Element>(input: &[u8], out: &mut [MaybeUninit<T>]) -> Decoded {
    let mut done = Progress::default();
    loop {
        // SAFETY: as the caller promises.
        done += unsafe { bulk::<K, T>(&input[done.bytes..], &mut out[done.elements..]) };
        let (rest, room) = (&input[done.bytes..], &mut out[done.elements..]);
        let near_the_end = is_near_the_end(rest, room);
        if near_the_end && !is_for_scalar(rest, room) {
            // SAFETY: as the caller promises.
            done += unsafe { stage::<K, T>(rest, room) };
        }
        let (rest, room) = (&input[done.bytes..], &mut out[done.elements..]);
        let next = if near_the_end { room.len() } else { FEW.min(room.len()) };
        let mut decoded = scalar::decode(rest, &mut room[..next]);
        decoded.elements += done.elements;
        decoded.bytes += done.bytes;
        if near_the_end || decoded.stop.is_some() {
            return decoded;
        }
        done = Progress { elements: decoded.elements, bytes: decoded.bytes };
    }
}

/// Whether the last elements are so few that the scalar code is done with them before they are
/// copied to a stage. It is faster when they are all alike.
fn is_for_scalar<T: Element>(input: &[u8], out: &[MaybeUninit<T>]) -> bool {
    const FEW_ALIKE: usize = 32;
    out.len() <= FEW || out.len() <= FEW_ALIKE && look_ahead::<T>(input).1
}

/// Elements that make it likely that a run continues after an element of another length.
const LONG_RUN: usize = 16;

/// See [`is_near_the_end`].
const NEAR_BYTES: usize = 80;
const NEAR_ELEMENTS: usize = 64;
/// So few elements are read one after the other, as the kernels do not pay.
const FEW: usize = 4;

/// Reads on while the kernels find something to do.
///
/// Whether a run is tried and where a call ends is decided so that mixed elements take the same way
/// every time: a wrong guess of the processor costs as much as the elements of a vector.
///
/// # Safety
/// The machine has the instruction set of `K`.
unsafe fn bulk<K: Kernel, T: Element>(input: &[u8], out: &mut [MaybeUninit<T>]) -> Progress {
    let mut done = Progress::default();
    loop {
        let before = done;
        let (rest, room) = (&input[done.bytes..], &mut out[done.elements..]);
        let (stride, is_run) = look_ahead::<T>(rest);
        if stride == 0 {
            return done;
        }
        if is_run {
            // SAFETY: as the caller promises.
            let elements = unsafe { run::<K, T>(stride, rest, room) };
            done += Progress { elements, bytes: elements * stride };
            if is_near_the_end(&input[done.bytes..], &out[done.elements..]) {
                return done;
            }
            if elements >= LONG_RUN {
                // Often one element of another length interrupts it.
                let room = &mut out[done.elements..];
                let next = room.len().min(1);
                let one = scalar::decode(&input[done.bytes..], &mut room[..next]);
                done += Progress { elements: one.elements, bytes: one.bytes };
                if one.elements == 0 {
                    return done;
                }
                continue;
            }
        }
        if matches!(T::KIND, Kind::Signed | Kind::Unsigned) {
            // SAFETY: as the caller promises.
            done += unsafe { K::mixed(&input[done.bytes..], &mut out[done.elements..]) };
        }
        let near_the_end = is_near_the_end(&input[done.bytes..], &out[done.elements..]);
        if done == before || near_the_end {
            return done;
        }
    }
}

/// The length of the first element, and whether the two after it are as long. 0 if it is none for
/// the kernels.
fn look_ahead<T: Element>(input: &[u8]) -> (usize, bool) {
    let length = |at: usize| match input.get(at) {
        Some(&marker) => {
            usize::from((const { &tables::lengths(T::KIND, size_of::<T>()) })[usize::from(marker)])
        }
        None => 0,
    };
    let stride = length(0);
    (stride, length(stride) == stride && length(2 * stride) == stride)
}

/// Reads elements that are all `stride` bytes long, and returns how many.
///
/// # Safety
/// The machine has the instruction set of `K`.
unsafe fn run<K: Kernel, T: Element>(stride: usize, input: &[u8], out: &mut [MaybeUninit<T>]) -> usize {
    // SAFETY: as the caller promises.
    unsafe {
        match (stride, size_of::<T>()) {
            (1, _) => K::run::<T, 1>(input, out),
            (2, _) => K::run::<T, 2>(input, out),
            (3, 2..) => K::run::<T, 3>(input, out),
            (5, 4..) => K::run::<T, 5>(input, out),
            (9, 8..) => K::run::<T, 9>(input, out),
            _ => 0,
        }
    }
}

/// Whether the kernels may have to stop because of an end. None reads further or writes more
/// elements at once.
fn is_near_the_end<T>(input: &[u8], out: &[MaybeUninit<T>]) -> bool {
    input.len() < NEAR_BYTES || out.len() < NEAR_ELEMENTS
}

/// Reads the last elements of `input` or `out` from a copy with so many bytes of no element behind
/// that the kernels come to the end of it.
///
/// # Safety
/// The machine has the instruction set of `K`.
unsafe fn stage<K: Kernel, T: Element>(input: &[u8], out: &mut [MaybeUninit<T>]) -> Progress {
    const BYTES: usize = NEAR_ELEMENTS * 9;
    const NO_ELEMENT: u8 = 0xc1;
    let mut bytes = [NO_ELEMENT; BYTES + NEAR_BYTES];
    let mut elements = [MaybeUninit::<T>::uninit(); 3 * NEAR_ELEMENTS];
    let there = input.len().min(BYTES);
    bytes[..there].copy_from_slice(&input[..there]);
    let staged = &bytes[..there + NEAR_BYTES];
    // SAFETY: as the caller promises.
    let done = unsafe { bulk::<K, T>(staged, &mut elements) };
    if done.bytes > there || done.elements > out.len() {
        return Progress::default();
    }
    out[..done.elements].copy_from_slice(&elements[..done.elements]);
    done
}
