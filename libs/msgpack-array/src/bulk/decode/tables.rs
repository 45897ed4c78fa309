//! Tables of the decoding kernels, all made by `const fn` from the format's definition (MessagePack
//! specification, int and float format families).
//!
//! A kernel sees a window of bytes and moves those of the payloads with one shuffle: an index per
//! byte of the result. Payloads are big-endian and end where the element ends, results are
//! little-endian, so byte `b` of a result comes from `b + 1` bytes before the end of its element.
//! `LEN` is the bytes of a register.

use crate::bulk::Kind;

/// Bytes of the element that begins with `marker`, or 0 where an array of `kind` and `width` does
/// not take it from a kernel: other types, integers wider than the type (which may still fit, but
/// hardly ever occur), other floats.
pub(super) const fn length(kind: Kind, width: usize, marker: u8) -> usize {
    let length = match (kind, marker) {
        (Kind::Bool, 0xc2 | 0xc3) => 1,
        (Kind::Signed | Kind::Unsigned, 0x00..=0x7f) => 1,
        // Never in range of an unsigned type.
        (Kind::Signed, 0xe0..=0xff) => 1,
        (Kind::Signed | Kind::Unsigned, 0xcc | 0xd0) => 2,
        (Kind::Signed | Kind::Unsigned, 0xcd | 0xd1) => 3,
        (Kind::Signed | Kind::Unsigned, 0xce | 0xd2) | (Kind::Float, 0xca) => 5,
        (Kind::Signed | Kind::Unsigned, 0xcf | 0xd3) | (Kind::Float, 0xcb) => 9,
        _ => return 0,
    };
    match kind {
        Kind::Float if length != width + 1 => 0,
        _ if length > width + 1 => 0,
        _ => length,
    }
}

/// [`length`] of every marker.
pub(super) const fn lengths(kind: Kind, width: usize) -> [u8; 256] {
    let mut table = [0; 256];
    let mut marker = 0;
    while marker < 256 {
        table[marker] = length(kind, width, marker as u8) as u8;
        marker += 1;
    }
    table
}

/// [`length`] of the markers from `first` on, with `restricted` added where an integer of the type
/// cannot have the highest bit of the payload: without sign in a signed type, with sign in an
/// unsigned one.
pub(super) const fn lengths_from<const LEN: usize>(
    first: u8,
    kind: Kind,
    width: usize,
    restricted: u8,
) -> [u8; LEN] {
    let mut table = [0; LEN];
    let mut at = 0;
    while at < LEN {
        let marker = first + at as u8;
        table[at] = length(kind, width, marker) as u8;
        if table[at] > 1 && matches!(marker, 0xcc..=0xcf) == matches!(kind, Kind::Signed) {
            table[at] |= restricted;
        }
        at += 1;
    }
    table
}

/// The marker of integers without and with sign, or of floats, whose elements are `stride` bytes
/// long.
pub(super) const fn marker(kind: Kind, stride: usize) -> u8 {
    match (kind, stride) {
        (Kind::Bool, _) => 0xc2,
        (Kind::Float, 5) => 0xca,
        (Kind::Float, _) => 0xcb,
        (_, 2) => 0xcc,
        (_, 3) => 0xcd,
        (_, 5) => 0xce,
        _ => 0xcf,
    }
}

/// A bit per byte of a window where `elements` elements of `stride` bytes begin.
pub(super) const fn headers(stride: usize, elements: usize) -> u64 {
    let mut mask = 0;
    let mut element = 0;
    while element < elements {
        mask |= 1 << (element * stride);
        element += 1;
    }
    mask
}

/// Shuffle of a window of elements all `stride` bytes long to little-endian lanes of `width` bytes.
/// Bytes of a lane beyond the payload take the header. Lanes from `elements` on are left empty
/// (index `empty`).
pub(super) const fn strided<const LEN: usize>(
    width: usize,
    stride: usize,
    elements: usize,
    empty: u8,
) -> [u8; LEN] {
    let mut table = [empty; LEN];
    let mut at = 0;
    while at < LEN && at / width < elements {
        let header = at / width * stride;
        let back = at % width;
        table[at] = if back + 1 < stride { header + stride - 1 - back } else { header } as u8;
        at += 1;
    }
    table
}

/// A bit per byte of a register that belongs to the payload of its lane, elements all being
/// `stride` bytes long. One byte is its own payload.
pub(super) const fn payload(width: usize, stride: usize) -> u64 {
    let mut mask = 0;
    let mut at = 0;
    while at < 64 {
        if at % width == 0 || at % width + 1 < stride {
            mask |= 1 << at;
        }
        at += 1;
    }
    mask
}

/// 0, 1, 2 ..: every byte's own position.
pub(super) const fn positions<const LEN: usize>() -> [u8; LEN] {
    let mut table = [0; LEN];
    let mut at = 0;
    while at < LEN {
        table[at] = at as u8;
        at += 1;
    }
    table
}

/// All bits below byte `end`.
pub(super) const fn ones_below<const LEN: usize>(end: usize) -> [u8; LEN] {
    let mut table = [0; LEN];
    let mut at = 0;
    while at < end {
        table[at] = 0xff;
        at += 1;
    }
    table
}

/// All bits of the bytes whose number has `bit` set.
pub(super) const fn numbers_with_bit<const LEN: usize>(bit: u32) -> [u8; LEN] {
    let mut table = [0; LEN];
    let mut at = 0;
    while at < LEN {
        table[at] = if at >> bit & 1 == 1 { 0xff } else { 0 };
        at += 1;
    }
    table
}

/// The element every byte of the `group`-th register of lanes of `width` bytes belongs to.
pub(super) const fn spread<const LEN: usize>(width: usize, group: usize) -> [u8; LEN] {
    let mut table = [0; LEN];
    let mut at = 0;
    while at < LEN {
        table[at] = (at / width + group * (LEN / width)) as u8;
        at += 1;
    }
    table
}

/// [`spread`] by the logarithm of the width and by group.
pub(super) const fn spreads<const LEN: usize>() -> [[[u8; LEN]; 8]; 4] {
    let mut tables = [[[0; LEN]; 8]; 4];
    let mut log = 0;
    while log < 4 {
        let mut group = 0;
        while group < 1 << log {
            tables[log][group] = spread(1 << log, group);
            group += 1;
        }
        log += 1;
    }
    tables
}

/// Bytes from an element's end back to every byte of its little-endian lane, at least 1.
pub(super) const fn backwards<const LEN: usize>(width: usize) -> [u8; LEN] {
    let mut table = [0; LEN];
    let mut at = 0;
    while at < LEN {
        table[at] = (at % width) as u8 + 1;
        at += 1;
    }
    table
}

/// All bits of the bytes that have a bit in `mask`.
pub(super) const fn ones_at<const LEN: usize>(mask: u64) -> [u8; LEN] {
    let mut table = [0; LEN];
    let mut at = 0;
    while at < LEN {
        table[at] = if mask >> at & 1 == 1 { 0xff } else { 0 };
        at += 1;
    }
    table
}

/// By a bit per byte of eight: the positions of those bytes, one behind the other, then 0.
pub(super) static CLOSED_UP: [[u8; 8]; 256] = {
    let mut tables = [[0; 8]; 256];
    let mut mask = 0;
    while mask < 256 {
        let (mut from, mut to) = (0, 0);
        while from < 8 {
            if mask >> from & 1 == 1 {
                tables[mask][to] = from;
                to += 1;
            }
            from += 1;
        }
        mask += 1;
    }
    tables
};

/// The bits of every byte that are set, for instruction sets that cannot count them.
pub(super) static COUNTS: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).count_ones() as u8;
        byte += 1;
    }
    table
};
