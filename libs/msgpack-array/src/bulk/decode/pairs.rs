//! Arrays of 8-bit integers, whose elements are one byte or a pair of marker and payload: which
//! byte is what, worked out on 64 bytes at once as bits of words.
//!
//! A byte that looks like a marker is one unless it is the payload of the marker before it. In a
//! run of such bytes therefore every other one is a marker, from the first on; an addition with its
//! carry running through finds which.

use super::Progress;
use crate::bulk::Kind;

/// What 64 bytes look like, each by itself, a bit per byte. Bytes that are not there are 0 in all
/// of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Looks {
    /// 0xcc or 0xd0.
    pub(super) marker: u64,
    /// 0xcc for signed elements, 0xd0 for unsigned ones: the payload's highest bit is against the
    /// range.
    pub(super) restricted: u64,
    /// The highest bit is set.
    pub(super) high: u64,
    /// No element by itself.
    pub(super) not_fixint: u64,
}

/// What the bytes before say about the next one, each 0 or 1.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Carry {
    /// It is a payload.
    payload: u64,
    /// And one whose highest bit has to be 0.
    restricted: u64,
}

impl Carry {
    /// Where the first element begins that has not been counted, if all bytes before `bytes` have
    /// been looked at.
    #[inline(always)]
    pub(super) fn unread(self, bytes: usize) -> usize {
        bytes - self.payload as usize
    }
}

/// What 64 bytes are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pairs {
    /// Bytes that are values: all that are not markers.
    pub(super) values: u64,
    /// Values that are not acceptable.
    pub(super) odd: u64,
    payload: u64,
}

impl Looks {
    #[inline(always)]
    pub(super) fn pairs(self, carry: &mut Carry) -> Pairs {
        const EVEN: u64 = 0x5555_5555_5555_5555;
        let candidates = self.marker & !carry.payload;
        let runs = candidates & !(candidates << 1);
        // Adding the first bit of a run clears the run; here only those that begin at an even
        // position.
        let from_even = candidates & !candidates.wrapping_add(runs & EVEN);
        let markers = from_even & EVEN | candidates & !from_even & !EVEN;
        let payload = markers << 1 | carry.payload;
        let restricted = (markers & self.restricted) << 1 | carry.restricted;
        *carry = Carry { payload: markers >> 63, restricted: (markers & self.restricted) >> 63 };
        let odd = restricted & self.high | !payload & !markers & self.not_fixint;
        Pairs { values: !markers, odd, payload }
    }
}

impl Pairs {
    /// How far the bytes from `bytes` on are acceptable, some being odd.
    pub(super) fn before_the_odd_one(self, Progress { elements, bytes }: Progress) -> Progress {
        let odd = self.odd & self.odd.wrapping_neg();
        Progress {
            elements: elements + (self.values & (odd - 1)).count_ones() as usize,
            bytes: bytes + odd.trailing_zeros() as usize - usize::from(odd & self.payload != 0),
        }
    }
}

/// The marker whose payload's highest bit has to be 0.
pub(super) const fn restricted_marker(kind: Kind) -> u8 {
    match kind {
        Kind::Signed => 0xcc,
        _ => 0xd0,
    }
}
