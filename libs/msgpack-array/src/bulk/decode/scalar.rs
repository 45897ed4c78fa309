//! One element after the other, without vectors: for machines without any, and for what the vectors
//! leave.
//!
//! Branches that a processor cannot predict cost more than everything else here. So an element as
//! wide as the type, which most are where they are alike, is read after one comparison, and all
//! other integers by a table and shifts. Whatever is odd goes to
//! [`BulkElement::decode_one`](crate::bulk::BulkElement::decode_one), which judges and is the
//! oracle.

use core::mem::MaybeUninit;

use super::{Progress, tables};
use crate::bulk::{Decoded, Kind};
use crate::element::Element;

/// Reads elements until `out` is full, or says why not.
pub(super) fn decode<T: Element>(input: &[u8], out: &mut [MaybeUninit<T>]) -> Decoded {
    let mut done = Progress::default();
    while done.elements < out.len() {
        let (rest, room) = (&input[done.bytes..], &mut out[done.elements..]);
        if let Some(window) = rest.first_chunk()
            && let Some(read) = fast::<T>(window, room)
        {
            done += read;
            continue;
        }
        match T::decode_one(rest) {
            Ok((value, length)) => {
                room[0].write(value);
                done += Progress { elements: 1, bytes: length };
            }
            Err(stop) => return done.stopped(Some(stop)),
        }
    }
    done.stopped(None)
}

/// Writes the lowest bits as a number of that type.
#[inline(always)]
fn write_bits<T: Element>(out: &mut MaybeUninit<T>, bits: u64) {
    let out = out.as_mut_ptr();
    // SAFETY: `T` is an integer or float of that size, for which all bits are valid; `fast` has
    // none of a `bool`.
    unsafe {
        match size_of::<T>() {
            1 => out.cast::<u8>().write(bits as u8),
            2 => out.cast::<u16>().write(bits as u16),
            4 => out.cast::<u32>().write(bits as u32),
            _ => out.cast::<u64>().write(bits),
        }
    }
}

/// The longest element.
const WINDOW: usize = 9;

/// Reads one element or some from `window` into `out`, which has room for one, if nothing is odd.
#[inline(always)]
fn fast<T: Element>(window: &[u8; WINDOW], out: &mut [MaybeUninit<T>]) -> Option<Progress> {
    let (bits, bytes) = match T::KIND {
        Kind::Bool => return None,
        Kind::Float if window[0] == tables::marker(T::KIND, wide::<T>()) => {
            (payload(window) >> unused::<T>(), wide::<T>())
        }
        Kind::Float => return None,
        Kind::Signed | Kind::Unsigned => {
            if let Some(bits) = wide_integer::<T>(window) {
                (bits, wide::<T>())
            } else if let Some(out) = out.first_chunk_mut()
                && let Some(read) = fixints(window, out).or_else(|| pairs(window, out))
            {
                return Some(read);
            } else {
                integer::<T>(window)?
            }
        }
    };
    write_bits(&mut out[0], bits);
    Some(Progress { elements: 1, bytes })
}

/// Integers that are read at once if they have one byte each.
const FIXINTS: usize = 8;

#[inline(always)]
fn fixints<T: Element>(window: &[u8; WINDOW], out: &mut [MaybeUninit<T>; FIXINTS]) -> Option<Progress> {
    const HIGHEST: u64 = 0x8080_8080_8080_8080;
    let [bytes @ .., _] = window;
    let word = u64::from_le_bytes(*bytes);
    // Of a negative one the highest three bits are set.
    let negative = if T::KIND == Kind::Signed { word & word << 1 & word << 2 } else { 0 };
    if (word ^ negative) & HIGHEST != 0 {
        return None;
    }
    for (out, byte) in out.iter_mut().zip(bytes) {
        write_bits(out, *byte as i8 as u64);
    }
    Some(Progress { elements: FIXINTS, bytes: FIXINTS })
}

/// Four 8-bit integers of two bytes each.
#[inline(always)]
fn pairs<T: Element>(window: &[u8; WINDOW], out: &mut [MaybeUninit<T>; FIXINTS]) -> Option<Progress> {
    const EACH: u64 = 0x0001_0001_0001_0001;
    let [bytes @ .., _] = window;
    let word = u64::from_le_bytes(*bytes);
    let unsigned = u64::from(tables::marker(T::KIND, 2));
    let variants = (word & (EACH * 0xff)).wrapping_sub(EACH * unsigned);
    if size_of::<T>() > 1 || variants & !(EACH * u64::from(SIGN)) != 0 {
        return None;
    }
    let signed = variants / u64::from(SIGN);
    let restricted = if T::KIND == Kind::Signed { !signed } else { signed };
    if restricted & word >> 15 & EACH != 0 {
        return None;
    }
    for (out, pair) in out.iter_mut().zip(bytes.as_chunks::<2>().0) {
        write_bits(out, pair[1].into());
    }
    Some(Progress { elements: 4, bytes: 8 })
}

/// An integer whose payload is as wide as the type. Those of one byte are better read some at a
/// time.
#[inline(always)]
fn wide_integer<T: Element>(window: &[u8; WINDOW]) -> Option<u64> {
    // 0 without sign, SIGN with it.
    let variant = window[0].wrapping_sub(tables::marker(T::KIND, wide::<T>()));
    if size_of::<T>() == 1 || variant & !SIGN != 0 {
        return None;
    }
    let left = payload(window);
    let restricted = (variant == 0) == (T::KIND == Kind::Signed);
    (!(restricted && left >> 63 == 1)).then_some(left >> unused::<T>())
}

#[inline(always)]
fn integer<T: Element>(window: &[u8; WINDOW]) -> Option<(u64, usize)> {
    let marker = window[0];
    let Class { length, unused, signed } = const { &classes(T::KIND, size_of::<T>()) }[usize::from(marker)];
    let left = if length == 1 { u64::from(marker) << 56 } else { payload(window) };
    // The sign is the highest bit; without one the payload is filled with zeros.
    let value = ((left as i64) >> unused) as u64;
    let value = if signed { value } else { left >> unused };
    let negative = signed & (left >> 63 == 1);
    let fits = match T::KIND {
        Kind::Signed => negative | (value >> (8 * size_of::<T>() - 1) == 0),
        _ => !negative,
    };
    ((length != 0) & fits).then_some((value, length.into()))
}

/// The difference of the markers of an integer with sign and of one of the same width without.
const SIGN: u8 = 0xd0 - 0xcc;

/// Bytes of an element whose payload is as wide as the type.
#[inline(always)]
const fn wide<T: Element>() -> usize {
    1 + size_of::<T>()
}

/// Bits of a word that a number of the type leaves unused.
#[inline(always)]
const fn unused<T: Element>() -> usize {
    64 - 8 * size_of::<T>()
}

/// The bytes behind the marker, the first one highest.
#[inline(always)]
fn payload(&[_, ref payload @ ..]: &[u8; WINDOW]) -> u64 {
    u64::from_be_bytes(*payload)
}

/// What a marker says.
#[derive(Clone, Copy)]
struct Class {
    /// Bytes of the element, 0 if it is none that is read here.
    length: u8,
    /// Bits of a word that the payload leaves unused; an element of one byte is its own payload.
    unused: u8,
    signed: bool,
}

const fn classes(kind: Kind, width: usize) -> [Class; 256] {
    let mut classes = [Class { length: 0, unused: 0, signed: false }; 256];
    let mut marker = 0;
    while marker < 256 {
        let length = tables::length(kind, width, marker as u8);
        classes[marker] = Class {
            length: length as u8,
            unused: if length > 1 { 64 - 8 * (length as u8 - 1) } else { 56 },
            signed: matches!(marker, 0xd0..=0xd3 | 0xe0..=0xff),
        };
        marker += 1;
    }
    classes
}
