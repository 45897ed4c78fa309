//! Encoding one element at a time, without branches: what runs where there are no vectors, and the
//! ends of arrays.
//!
//! The form of an integer is looked up by the number of its bits, without branches. Header and
//! payload are always stored, and the next element overwrites what is not used.

use core::mem::MaybeUninit;

use super::super::BulkElement;

/// Bytes that an element may overwrite.
const ROOM: usize = 9;

/// Header and number of payload bytes behind it (0: the header is not used, the value is its own
/// header), by the number of bits that the value has, or its complement for negative ones, and
/// whether it is negative.
static FORMS: [[Form; 65]; 2] = [forms(false), forms(true)];

#[derive(Clone, Copy)]
struct Form {
    header: u8,
    /// 0 or 1.
    header_length: u8,
    payload_length: u8,
}

/// The shortest form for each number of bits.
const fn forms(negative: bool) -> [Form; 65] {
    // A negative number has a sign bit in front of those of its complement, a fixint of them a
    // header of three bits.
    let (sign, fixint, headers) = if negative { (1, 5, 0xd0) } else { (0, 7, 0xcc) };
    let mut forms = [Form { header: 0, header_length: 0, payload_length: 1 }; 65];
    let mut bits = fixint + 1;
    while bits <= 64 {
        let log2 = match bits + sign {
            0..=8 => 0,
            9..=16 => 1,
            17..=32 => 2,
            _ => 3,
        };
        forms[bits] = Form { header: headers + log2, header_length: 1, payload_length: 1 << log2 };
        bits += 1;
    }
    forms
}

/// Writes `value`, which is negative if `negative`, and returns its length.
#[inline(always)]
fn integer(value: u64, negative: bool, out: &mut [MaybeUninit<u8>; ROOM]) -> usize {
    let complement = if negative { !value } else { value };
    let form = FORMS[usize::from(negative)][64 - complement.leading_zeros() as usize];
    let payload = (value << (64 - 8 * u32::from(form.payload_length))).to_be_bytes();
    out[0].write(form.header);
    let (at, length) = (usize::from(form.header_length & 1), usize::from(form.payload_length));
    out[at..at + 8].write_copy_of_slice(&payload);
    at + length
}

/// Elements that are looked at together.
const GROUP: usize = 8;

/// Writes each of `values` by `write`, or a group of fixints as the bytes they are; the last ones,
/// where [`ROOM`] would not do, by the oracle.
#[inline(always)]
fn each<T: BulkElement>(
    values: &[T],
    out: &mut [MaybeUninit<u8>],
    fixint: impl Fn(T) -> Option<u8>,
    write: impl Fn(T, &mut [MaybeUninit<u8>; ROOM]) -> usize,
) -> usize {
    let mut at = 0;
    let (groups, rest) = values.as_chunks::<GROUP>();
    for group in groups {
        // Not `all`, which would ask for one after the other.
        if group.iter().fold(true, |all, &value| all & fixint(value).is_some()) {
            out[at..][..GROUP].write_copy_of_slice(&group.map(|value| fixint(value).unwrap_or_default()));
            at += GROUP;
        } else {
            at += some(group, &mut out[at..], &write);
        }
    }
    at + some(rest, &mut out[at..], write)
}

#[inline(always)]
fn some<T: BulkElement>(
    values: &[T],
    out: &mut [MaybeUninit<u8>],
    write: impl Fn(T, &mut [MaybeUninit<u8>; ROOM]) -> usize,
) -> usize {
    let mut at = 0;
    for &value in values {
        at += match out[at..].first_chunk_mut() {
            Some(room) => write(value, room),
            None => one(value, &mut out[at..]),
        };
    }
    at
}

#[cold]
fn one<T: BulkElement>(value: T, out: &mut [MaybeUninit<u8>]) -> usize {
    let mut bytes = [0; 9];
    let length = value.encode_one(&mut bytes);
    out[..length].write_copy_of_slice(&bytes[..length]);
    length
}

/// Writes one byte, behind `marker` if `marked`, and returns how many that makes.
#[inline(always)]
fn byte(value: u8, marker: u8, marked: bool, out: &mut [MaybeUninit<u8>; ROOM]) -> usize {
    out[0].write(marker);
    out[usize::from(marked)].write(value);
    1 + usize::from(marked)
}

pub(super) fn u8s(values: &[u8], out: &mut [MaybeUninit<u8>]) -> usize {
    let fixint = |value| (value <= 127).then_some(value);
    each(values, out, fixint, |value, out| byte(value, 0xcc, value > 127, out))
}

pub(super) fn i8s(values: &[i8], out: &mut [MaybeUninit<u8>]) -> usize {
    let fixint = |value| (value >= -32).then_some(value as u8);
    each(values, out, fixint, |value, out| byte(value as u8, 0xd0, value < -32, out))
}

macro_rules! integers {
    ($($function:ident: $element:ty as $wide:ty, $negative:expr, $fixint:expr;)*) => { $(
        pub(super) fn $function(values: &[$element], out: &mut [MaybeUninit<u8>]) -> usize {
            let fixint = |value| $fixint.contains(&value).then_some(value as u8);
            each(values, out, fixint, |value, out| integer(<$wide>::from(value) as u64, $negative(value), out))
        }
    )* };
}

integers! {
    u16s: u16 as u64, |_| false, (0..=127);
    u32s: u32 as u64, |_| false, (0..=127);
    u64s: u64 as u64, |_| false, (0..=127);
    i16s: i16 as i64, |value| value < 0, (-32..=127);
    i32s: i32 as i64, |value| value < 0, (-32..=127);
    i64s: i64 as i64, |value| value < 0, (-32..=127);
}

pub(super) fn f32s(values: &[f32], out: &mut [MaybeUninit<u8>]) -> usize {
    let (slots, _) = out.as_chunks_mut::<5>();
    for (slot, value) in slots.iter_mut().zip(values) {
        slot[0].write(0xca);
        slot[1..].write_copy_of_slice(&value.to_bits().to_be_bytes());
    }
    values.len() * 5
}

pub(super) fn f64s(values: &[f64], out: &mut [MaybeUninit<u8>]) -> usize {
    let (slots, _) = out.as_chunks_mut::<9>();
    for (slot, value) in slots.iter_mut().zip(values) {
        slot[0].write(0xcb);
        slot[1..].write_copy_of_slice(&value.to_bits().to_be_bytes());
    }
    values.len() * 9
}

pub(super) fn bools(values: &[bool], out: &mut [MaybeUninit<u8>]) -> usize {
    for (out, value) in out.iter_mut().zip(values) {
        out.write(0xc2 + u8::from(*value));
    }
    values.len()
}
