//! Forward error correction: FlexFEC in the form that WebRTC clients have, that of
//! draft-ietf-payload-flexible-fec-scheme-03 (`flexfec-03` in SDP). RFC 8627 came later, with
//! another header.
//!
//! A repair packet has a stream of its own. Its payload is the parity of some packets of one media
//! stream, and says which: with it a receiver makes the one of them that it has not got.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! |R|F|P|X|  CC   |M| PT recovery |        length recovery        |  section 4.2, R = 0 and F = 0
//! |                          TS recovery                          |
//! |  SSRC count   |                   reserved                    |  one SSRC
//! |                            SSRC_i                             |
//! |           SN base_i           |k|         mask [0..=14]       |  k: no more masks
//! |k|                       mask [15..=45]                        |
//! |k|                                                             |
//! |                        mask [46..=108]                        |
//! |                  parity behind the fixed header ...           |
//! ```
//! Mask bit `i`, counted from the left and without `k`, is for the packet `SN base + i`. P, X, CC,
//! M, PT and the timestamp are the exclusive or of those of the packets; the length is that of
//! their lengths without the fixed header, and the parity that of all behind it, shorter packets
//! taken as ending in zeros. Number and SSRC of a packet follow from the mask.
//!
//! - [`Generator`] makes repair packets, without an allocation per packet.
//! - [`Repair`] reads one, [`Recoverer`] does what a receiver does: for tests and tools, as this
//!   server receives none.
//!
//! Header extensions that are filled in when a packet leaves ([`volatile_ids`]) count as zeros:
//! libwebrtc's receiver clears them before it computes, as its sender makes parity before it has
//! them. Pion's does not, so the packets it recovers are right but for these extensions.
//!
//! Left out: retransmission by this format (R = 1), rows and columns of a fixed size (F = 1),
//! several media streams in one repair packet. Neither libwebrtc nor Pion takes them.

mod generator;
mod recoverer;

use std::error::Error;
use std::fmt;

use crate::FIXED_HEADER_LEN;
use crate::extension::{Elements, Extension, ExtensionMap};

pub use generator::{GROUP_NUMBERS_MAX, Generator, PROTECTED_LEN_MAX, ProtectError, ROWS_MAX};
pub use recoverer::Recoverer;

/// Bytes of the header that [`Generator::write`] writes at most.
pub const REPAIR_HEADER_LEN_MAX: usize = MASK_AT + 6;
/// Bytes that it writes at most, parity and all.
pub const REPAIR_PAYLOAD_LEN_MAX: usize = REPAIR_HEADER_LEN_MAX + PROTECTED_LEN_MAX - FIXED_HEADER_LEN;

/// Why a payload is not that of a repair packet, or of one that is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepairError {
    /// It ends within its header.
    TooShort,
    /// It is a retransmission (R), has rows and columns of a fixed size (F), or is of several
    /// streams.
    Unsupported,
    /// It is of no packet, or its masks do not end.
    BadMask,
}

impl fmt::Display for RepairError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::TooShort => "the repair packet ends within its header",
            Self::Unsupported => "a form of repair packets that is not taken",
            Self::BadMask => "a repair packet of no packets",
        })
    }
}

impl Error for RepairError {}

/// A view over the payload of a repair packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repair<'a> {
    /// First two bytes of the header, length and timestamp, as they are in the packet.
    recovery: [u8; RECOVERY_LEN],
    ssrc: u32,
    base: u16,
    /// Bit `i`, the lowest being 0, is for `base + i`. Never zero.
    mask: u128,
    parity: &'a [u8],
}

impl<'a> Repair<'a> {
    /// Reads the payload of a repair packet.
    ///
    /// # Errors
    ///
    /// See [`RepairError`].
    pub fn parse(payload: &'a [u8]) -> Result<Self, RepairError> {
        let (head, mut rest) = payload.split_first_chunk::<MASK_AT>().ok_or(RepairError::TooShort)?;
        if head[0] & (RETRANSMISSION_BIT | FIXED_BIT) != 0 || head[8] != 1 {
            return Err(RepairError::Unsupported);
        }
        let mut mask = 0;
        let mut bits = 0;
        for len in [2, 4, 8] {
            let (word, behind) = rest.split_at_checked(len).ok_or(RepairError::TooShort)?;
            rest = behind;
            let width = 8 * len - 1;
            let is_last = word[0] & LAST_MASK_BIT != 0;
            let word = word.iter().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
            // Reversed, its first packet is behind `k`, which goes.
            mask |= u128::from(word.reverse_bits() >> (64 - width)) << bits;
            bits += width;
            if is_last {
                break;
            } else if len == 8 {
                return Err(RepairError::BadMask);
            }
        }
        if mask == 0 {
            return Err(RepairError::BadMask);
        }
        let [.., a, b, c, d, high, low] = *head;
        let recovery = *head.first_chunk().expect("the header begins with it");
        let (ssrc, base) = (u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([high, low]));
        Ok(Self { recovery, ssrc, base, mask, parity: rest })
    }

    /// SSRC of the media that it is for.
    pub fn ssrc(&self) -> u32 {
        self.ssrc
    }

    /// Sequence numbers of the packets that it is for, in their order; at least one.
    pub fn sequence_numbers(&self) -> impl Iterator<Item = u16> + use<> {
        let (base, mask) = (self.base, self.mask);
        (0..128).filter(move |bit| mask >> bit & 1 != 0).map(move |bit| base.wrapping_add(bit))
    }
}

/// Ids of the header extensions that are filled in when a packet leaves, and that parity leaves
/// out: transport-wide number and send time. 0 for those that are not used.
pub fn volatile_ids(extensions: &ExtensionMap) -> [u8; 2] {
    [Extension::TransportCc, Extension::AbsSendTime].map(|it| extensions.id_of(it).unwrap_or(0))
}

/// Where in a packet, or its header, the values of these extensions are.
fn volatile_ranges(header: &[u8], ids: [u8; 2]) -> impl Iterator<Item = std::ops::Range<usize>> {
    let first = header.first().copied().unwrap_or(0);
    let block_at = FIXED_HEADER_LEN + 4 * usize::from(first & 0x0f);
    let has_any = first & 0x10 != 0 && ids != [0; 2];
    let block = header.get(block_at..).filter(|_| has_any).unwrap_or_default();
    // Of a whole packet the block ends where its head says.
    let words = if let [_, _, high, low, ..] = *block { u16::from_be_bytes([high, low]) } else { 0 };
    let block = &block[..block.len().min(4 + 4 * usize::from(words))];
    let mut elements = Elements::new(block);
    std::iter::from_fn(move || {
        let (id, data) = elements.next()?;
        let end = block_at + block.len() - elements.rest_len();
        Some((id, end - data.len()..end))
    })
    .filter(move |(id, _)| ids.contains(id))
    .map(|(_, range)| range)
}

/// Bytes of the header that are parity themselves.
const RECOVERY_LEN: usize = 8;
/// Bytes ahead of the masks.
const MASK_AT: usize = 18;
/// R: the payload is a packet that is sent again.
const RETRANSMISSION_BIT: u8 = 0x80;
/// F: rows and columns instead of masks.
const FIXED_BIT: u8 = 0x40;
/// k, in the first byte of each mask.
const LAST_MASK_BIT: u8 = 0x80;

#[cfg(test)]
mod tests {
    use super::*;

    /// A header with these masks.
    fn payload(first: u8, streams: u8, masks: &[u8]) -> Vec<u8> {
        let mut payload = vec![first, 0x62, 0x00, 0x05, 1, 2, 3, 4, streams, 0, 0, 0, 0, 0, 0x10, 0x01];
        payload.extend([0xff, 0xfe]);
        payload.extend(masks);
        payload
    }

    #[test]
    fn masks_of_each_length_name_their_packets() {
        let cases: [(&[u8], &[u16]); 7] = [
            (&[0xc0, 0x00], &[0]),
            (&[0x80, 0x01], &[14]),
            (&[0xff, 0xff], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]),
            (&[0x40, 0x00, 0xc0, 0x00, 0x00, 0x01], &[0, 15, 45]),
            (&[0x00, 0x00, 0x80, 0x00, 0x00, 0x02], &[44]),
            (&[0x40, 0x00, 0x00, 0x00, 0x00, 0x01, 0xc0, 0, 0, 0, 0, 0, 0, 0x01], &[0, 45, 46, 108]),
            (&[0x00, 0x01, 0x40, 0x00, 0x00, 0x00, 0x80, 0, 0, 0, 0, 0, 0, 0x02], &[14, 15, 107]),
        ];
        for (masks, offsets) in cases {
            let payload = payload(0x10, 1, masks);
            let repair = Repair::parse(&payload).unwrap_or_else(|error| panic!("{masks:x?}: {error}"));
            let expected: Vec<u16> = offsets.iter().map(|offset| 0xfffeu16.wrapping_add(*offset)).collect();
            assert_eq!(repair.sequence_numbers().collect::<Vec<_>>(), expected, "{masks:x?}");
            assert_eq!((repair.ssrc(), repair.parity), (0x1001, &[][..]));
        }
    }

    #[test]
    fn what_is_no_repair_packet_or_not_ours_is_refused() {
        let whole = payload(0x10, 1, &[0x40, 0, 0, 0, 0, 1, 0xc0, 0, 0, 0, 0, 0, 0, 1]);
        for len in 0..whole.len() {
            assert_eq!(Repair::parse(&whole[..len]), Err(RepairError::TooShort), "{len} bytes");
        }
        for (first, streams, masks, expected) in [
            (0x90, 1, &[0xc0, 0][..], RepairError::Unsupported), // R
            (0x50, 1, &[0xc0, 0], RepairError::Unsupported),     // F
            (0x10, 0, &[0xc0, 0], RepairError::Unsupported),     // of no stream
            (0x10, 2, &[0xc0, 0], RepairError::Unsupported),     // of two
            (0x10, 1, &[0x80, 0], RepairError::BadMask),         // of no packet
            (0x10, 1, &[0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0], RepairError::BadMask),
            (0x10, 1, &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], RepairError::BadMask), // a fourth mask
        ] {
            assert_eq!(Repair::parse(&payload(first, streams, masks)), Err(expected), "{first:x} {masks:x?}");
        }
    }

    #[test]
    fn values_that_differ_by_when_a_packet_is_sent_are_found_in_both_forms() {
        let one_byte =
            [0x90, 0xe0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xbe, 0xde, 0, 2, 0x10, b'v', 0x31, 7, 8, 0, 0, 0];
        let two_byte =
            [0x91, 0xe0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 9, 9, 9, 0x10, 0, 0, 2, 3, 2, 7, 8, 5, 2, 1, 1];
        let found =
            |bytes: &[u8], ids| volatile_ranges(bytes, ids).map(|it| (it.start, it.end)).collect::<Vec<_>>();
        assert_eq!(found(&one_byte, [3, 0]), [(19, 21)]);
        assert_eq!(found(&two_byte, [5, 3]), [(22, 24), (26, 28)]);
        assert_eq!(found(&one_byte, [0, 0]), []);
        assert_eq!(
            found(&[&one_byte[..], &[0x31, 1, 1]].concat(), [3, 0]),
            [(19, 21)],
            "the payload is none"
        );
        for len in 0..two_byte.len() {
            assert!(found(&two_byte[..len], [5, 3]).iter().all(|(_, end)| *end <= len), "{len} bytes");
        }
    }
}
