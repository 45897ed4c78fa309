//! Generic NACK (RFC 4585 section 6.2.1): which packets of a stream are missed.
//!
//! ```text
//! | packet sender SSRC | media SSRC | PID (16) | BLP (16) | ...      bit i of BLP: PID + i + 1 is missed too
//! ```

use super::{GENERIC_NACK, TRANSPORT_LAYER, begin, end, word};

/// Most entries of one NACK that is written: with 17 packets each, more than any window holds.
pub const NACK_ENTRIES_MAX: usize = 253;

/// A NACK.
#[derive(Clone, Copy, Debug)]
pub struct Nack<'a> {
    /// SSRC of the receiver that lost them.
    pub sender_ssrc: u32,
    /// Of which stream.
    pub media_ssrc: u32,
    entries: &'a [u8],
}

impl<'a> Nack<'a> {
    pub(super) fn read(body: &'a [u8]) -> Option<Self> {
        Some(Self { sender_ssrc: word(body, 0)?, media_ssrc: word(body, 4)?, entries: &body[8..] })
    }

    /// Each sequence number asked for, at most 17 per four bytes; a sender may repeat some.
    pub fn lost(&self) -> impl Iterator<Item = u16> + 'a {
        self.entries.as_chunks().0.iter().flat_map(|[a, b, c, d]| {
            let (first, following) = (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]));
            // Bit 0 of the mask is the packet itself.
            let mask = u32::from(following) << 1 | 1;
            (0..17).filter(move |bit| mask >> bit & 1 != 0).map(move |bit| first.wrapping_add(bit))
        })
    }

    /// Appends a NACK for as many of `lost` as fit [`NACK_ENTRIES_MAX`] entries, and returns how
    /// many those are.
    ///
    /// Numbers in rising order need the fewest entries. Nothing is appended for none.
    pub fn write(out: &mut Vec<u8>, sender_ssrc: u32, media_ssrc: u32, lost: &[u16]) -> usize {
        if lost.is_empty() {
            return 0;
        }
        let start = begin(out, TRANSPORT_LAYER, GENERIC_NACK);
        out.extend(sender_ssrc.to_be_bytes());
        out.extend(media_ssrc.to_be_bytes());
        let mut rest = lost;
        for _ in 0..NACK_ENTRIES_MAX {
            let Some((first, mut behind)) = rest.split_first() else { break };
            let mut mask = 0u16;
            while let Some((next, more)) = behind.split_first() {
                let distance = next.wrapping_sub(*first);
                if !(1..=16).contains(&distance) {
                    break;
                }
                mask |= 1 << (distance - 1);
                behind = more;
            }
            out.extend(first.to_be_bytes());
            out.extend(mask.to_be_bytes());
            rest = behind;
        }
        end(out, start);
        lost.len() - rest.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtcp::{Rtcp, packets};

    fn round_trip(lost: &[u16]) -> (usize, usize, Vec<u16>) {
        let mut out = Vec::new();
        let written = Nack::write(&mut out, 1, 2, lost);
        let read = packets(&out).next().map(|packet| match packet {
            Ok(Rtcp::Nack(nack)) => {
                assert_eq!((nack.sender_ssrc, nack.media_ssrc), (1, 2));
                nack.lost().collect()
            }
            other => panic!("{other:?}"),
        });
        (written, out.len(), read.unwrap_or_default())
    }

    #[test]
    fn neighbours_share_an_entry_across_the_wrap() {
        for (lost, entries) in [
            (&[][..], None),
            (&[7], Some(1)),
            (&[0xfffe, 0xffff, 0, 1, 14], Some(1)), // 16 behind the first
            (&[0xfffe, 15], Some(2)),               // 17 after it
            (&[5, 4], Some(2)),                     // falling
            (&[5, 5], Some(2)),                     // twice
            (&[1, 100, 200], Some(3)),
        ] {
            let (written, len, read) = round_trip(lost);
            assert_eq!(read, lost);
            assert_eq!(written, lost.len());
            assert_eq!(len, entries.map_or(0, |entries: usize| 12 + 4 * entries), "{lost:?}");
        }
    }

    #[test]
    fn numbers_out_of_order_or_named_twice_come_back_in_order_and_once() {
        let (written, len, read) = round_trip(&[5, 10, 7, 7, 10]);
        assert_eq!((written, len, read), (5, 16, vec![5, 7, 10]));
    }

    #[test]
    fn a_long_list_is_written_as_far_as_it_fits() {
        let lost: Vec<u16> = (0..300).map(|at| at * 20).collect();
        let (written, len, read) = round_trip(&lost);
        assert_eq!((written, len), (NACK_ENTRIES_MAX, 12 + 4 * NACK_ENTRIES_MAX));
        assert_eq!(read, lost[..written]);
    }
}
