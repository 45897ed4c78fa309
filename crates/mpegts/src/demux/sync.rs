//! Bytes cut at any place into packets.
//!
//! A packet is taken where the sync byte is, and is again a packet further. While that holds,
//! packets follow each other; where it does not, the next place is looked for at which three sync
//! bytes are a packet apart, so that a 0x47 in a payload is not taken for one.
//!
//! Packets may have other bytes between them ([`PACKET_DISTANCES`]), which are passed over:
//!
//! ```text
//!  | 0x47 | 187 bytes | 0x47 | ..                     ISO/IEC 13818-1 section 2.4.3.2
//!  | time stamp 32 | 0x47 | 187 bytes | ..            M2TS of recorders and Blu-ray
//!  | 0x47 | 187 bytes | Reed-Solomon 128 | 0x47 | ..  ETSI EN 300 421 section 4.4.2
//! ```

use crate::{PACKET_BYTES, PACKET_DISTANCES, SYNC_BYTE};

/// Sync bytes that have to be where they belong before packets are taken.
const TO_LOCK: usize = 3;

/// Finds packets.
#[derive(Debug, Default)]
pub(super) struct Sync {
    /// Bytes that are no whole packet, or among which none has been found: less than three packets.
    rest: Vec<u8>,
    /// From one packet to the next, where they have been found.
    distance: Option<usize>,
    /// Bytes to be passed over before the next packet.
    between: usize,
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
            let passed = self.between.min(bytes.len() - at);
            (at, self.between) = (at + passed, self.between - passed);
            let distance = match self.distance {
                Some(distance) => distance,
                None => match find(&bytes[at..]) {
                    Ok((found, distance)) => {
                        (at, self.distance) = (at + found, Some(distance));
                        distance
                    }
                    Err(useless) => return at + useless,
                },
            };
            let Some(next) = bytes[at..].first_chunk::<PACKET_BYTES>() else { return at };
            if next[0] != SYNC_BYTE {
                self.distance = None;
                *losses += 1;
                continue;
            }
            packet(next);
            (at, self.between) = (at + PACKET_BYTES, distance - PACKET_BYTES);
        }
    }
}

/// Where packets begin and how far apart they do; or how many bytes are certainly no beginning.
///
/// The shorter distance goes first, and is waited for: what is found does not depend on how the bytes
/// are cut.
fn find(bytes: &[u8]) -> Result<(usize, usize), usize> {
    for at in (0..bytes.len()).filter(|at| bytes[*at] == SYNC_BYTE) {
        for distance in PACKET_DISTANCES {
            let mut places = (0..TO_LOCK).map(|packet| bytes.get(at + packet * distance));
            if places.clone().all(|byte| byte == Some(&SYNC_BYTE)) {
                return Ok((at, distance));
            }
            if places.all(|byte| byte.is_none_or(|byte| *byte == SYNC_BYTE)) {
                return Err(at);
            }
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
            assert!(sync.rest.len() < TO_LOCK * PACKET_DISTANCES[2]);
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
    fn packets_with_bytes_between_them_are_found_in_any_chunks() {
        for (ahead, behind) in [(4, 0), (0, 16)] {
            let bytes: Vec<u8> = (0..9u8)
                .flat_map(|mark| {
                    // Time stamps and parity have sync bytes, too.
                    let packet = [&[SYNC_BYTE, mark][..], &[0x55; PACKET_BYTES - 2]].concat();
                    let between = [SYNC_BYTE + mark; 16];
                    [&between[..ahead], &packet, &between[..behind]].concat()
                })
                .collect();
            for chunk in [1, 2, 187, 188, 192, 204, 376, 1_316, 5_000] {
                let (marks, losses) = packets_of(&mut Sync::default(), &bytes, chunk);
                assert_eq!((marks, losses), ((0..9).collect(), 0), "{ahead} {behind} {chunk}");
            }
            // The last packet does not wait for what follows it.
            let mut sync = Sync::default();
            let end = bytes.len() - behind;
            assert_eq!(packets_of(&mut sync, &bytes[..end], 100).0.len(), 9);
            // The other kinds follow.
            let plain: Vec<u8> = (20..30u8)
                .flat_map(|mark| [&[SYNC_BYTE, mark][..], &[0x55; PACKET_BYTES - 2]].concat())
                .collect();
            assert_eq!(packets_of(&mut sync, &plain, 100).0.last(), Some(&29));
            let (marks, losses) = packets_of(&mut sync, &bytes, 100);
            assert!(marks.ends_with(&[5, 6, 7, 8]) && losses == 1, "{marks:?} {losses}");
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
