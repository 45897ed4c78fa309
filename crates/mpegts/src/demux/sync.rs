//! Bytes cut at any place into packets.
//!
//! A packet is taken where the sync byte is, and is again a packet further. While that holds,
//! packets follow each other; where it does not, the next place is looked for at which three sync
//! bytes are a packet apart, so that a 0x47 in a payload is not taken for one.

use crate::{PACKET_BYTES, SYNC_BYTE};

/// Sync bytes that have to be where they belong before packets are taken.
const TO_LOCK: usize = 3;

/// Finds packets.
#[derive(Debug, Default)]
pub(super) struct Sync {
    /// Bytes that are no whole packet, or among which none has been found: less than three packets.
    rest: Vec<u8>,
    is_locked: bool,
}

impl Sync {
    /// Takes bytes in and hands on packets. Returns how often the packets' place was lost.
    pub(super) fn push(&mut self, bytes: &[u8], mut packet: impl FnMut(&[u8; PACKET_BYTES])) -> u64 {
        let mut losses = 0;
        if self.rest.is_empty() {
            let used = self.take(bytes, &mut packet, &mut losses);
            self.rest.extend_from_slice(&bytes[used..]);
            return losses;
        }
        self.rest.extend_from_slice(bytes);
        let joined = std::mem::take(&mut self.rest);
        let used = self.take(&joined, &mut packet, &mut losses);
        self.rest = joined;
        self.rest.drain(..used);
        losses
    }

    /// Hands on what is complete, and says how many bytes are done with.
    fn take(
        &mut self,
        bytes: &[u8],
        packet: &mut impl FnMut(&[u8; PACKET_BYTES]),
        losses: &mut u64,
    ) -> usize {
        let mut at = 0;
        loop {
            if !self.is_locked {
                match find(&bytes[at..]) {
                    Ok(found) => (at, self.is_locked) = (at + found, true),
                    Err(useless) => return at + useless,
                }
            }
            let Some(next) = bytes[at..].first_chunk::<PACKET_BYTES>() else { return at };
            if next[0] != SYNC_BYTE {
                self.is_locked = false;
                *losses += 1;
                continue;
            }
            packet(next);
            at += PACKET_BYTES;
        }
    }
}

/// Where packets begin; or how many bytes are certainly no beginning.
fn find(bytes: &[u8]) -> Result<usize, usize> {
    for at in 0..bytes.len() {
        let mut places = (0..TO_LOCK).map(|packet| bytes.get(at + packet * PACKET_BYTES));
        if places.clone().all(|byte| byte == Some(&SYNC_BYTE)) {
            return Ok(at);
        }
        if places.all(|byte| byte.is_none_or(|byte| *byte == SYNC_BYTE)) {
            return Err(at);
        }
    }
    Err(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets_of(sync: &mut Sync, bytes: &[u8], chunk: usize) -> (Vec<u8>, u64) {
        let (mut marks, mut losses) = (Vec::new(), 0);
        for chunk in bytes.chunks(chunk) {
            losses += sync.push(chunk, |packet| marks.push(packet[1]));
            assert!(sync.rest.len() < TO_LOCK * PACKET_BYTES);
        }
        (marks, losses)
    }

    fn packets(marks: std::ops::Range<u8>) -> Vec<u8> {
        marks.flat_map(|mark| [&[SYNC_BYTE, mark][..], &[SYNC_BYTE; PACKET_BYTES - 2]].concat()).collect()
    }

    #[test]
    fn packets_are_found_in_any_chunks() {
        let bytes = packets(0..9);
        for chunk in [1, 2, 187, 188, 189, 376, 5_000] {
            let (marks, losses) = packets_of(&mut Sync::default(), &bytes, chunk);
            assert_eq!((marks, losses), ((0..9).collect(), 0), "{chunk}");
        }
    }

    #[test]
    fn after_a_cut_packets_are_found_again() {
        let mut second = packets(10..20);
        second.iter_mut().skip(1).step_by(2).for_each(|byte| *byte &= !1);
        for cut in 1..PACKET_BYTES {
            let first: Vec<u8> =
                (0..5u8).flat_map(|mark| [&[SYNC_BYTE, mark][..], &[0; PACKET_BYTES - 2]].concat()).collect();
            let bytes = [&first[..first.len() - cut], &first[..]].concat();
            let (marks, losses) = packets_of(&mut Sync::default(), &bytes, 100);
            assert!(marks.starts_with(&[0, 1, 2, 3]), "{marks:?}");
            assert!(marks.ends_with(&[1, 2, 3, 4]) && losses == 1, "cut {cut}: {marks:?} {losses}");
        }
    }

    #[test]
    fn noise_is_not_kept() {
        let mut sync = Sync::default();
        assert_eq!(packets_of(&mut sync, &[0; 100_000], 1_000), (vec![], 0));
        assert_eq!(sync.rest.len(), 0);
    }
}
