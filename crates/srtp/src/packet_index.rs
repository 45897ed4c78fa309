//! Packet index of SRTP: estimates the rollover counter (ROC) of a packet.
//!
//! Only the low 16 bits travel in the packet; both sides count the rounds (RFC 3711 section 3.3.1,
//! appendix A).

/// SRTP packet index `2^16 * ROC + SEQ`, 48 significant bits (RFC 3711 section 3.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PacketIndex(pub(crate) u64);

impl PacketIndex {
    /// The index of a sequence number in a known round.
    pub(crate) const fn new(roc: u32, sequence: u16) -> Self {
        Self((roc as u64) << 16 | sequence as u64)
    }

    /// Rollover counter: how often the sequence number has wrapped.
    pub(crate) const fn roc(self) -> u32 {
        (self.0 >> 16) as u32
    }

    /// The index with this sequence number that is nearest to `self`, the highest one so far.
    ///
    /// Before the first round there is none: a sequence number that looks late then counts as a jump ahead.
    /// `None` past the last round, 2^48.
    #[inline]
    pub(crate) fn estimate(self, sequence: u16) -> Option<Self> {
        let ahead = sequence.wrapping_sub(self.0 as u16);
        // Half of the range lies ahead; the middle, 2^15, counts as behind only in the upper half of a round
        // (the comparisons of RFC 3711 appendix A are strict on both sides).
        let ahead = if ahead < 0x8000 || (ahead == 0x8000 && (self.0 as u16) < 0x8000) {
            i64::from(ahead)
        } else {
            i64::from(ahead) - 0x1_0000
        };
        let nearest = self.0 as i64 + ahead;
        match nearest {
            ..0 => Some(Self(u64::from(sequence))),
            0..=LAST => Some(Self(nearest as u64)),
            _ => None,
        }
    }
}

const LAST: i64 = (1 << 48) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimate_follows_the_nearest_rollover() {
        for (highest, sequence, expected) in [
            (0x0000, 1, Some(0x0_0001)),                        // next packet
            (0xffff, 0, Some(0x1_0000)),                        // next packet rolls over
            (0xfffe, 5, Some(0x1_0005)),                        // the last packet of a round was lost
            (0x1_0002, 0xfffe, Some(0x0_fffe)),                 // late packet of the round before
            (0x0002, 0xfffe, Some(0x0_fffe)),                   // there is no round before the first
            (0x7fff, 0xffff, Some(0x0_ffff)),                   // the middle from the lower half: same round
            (0x1_7fff, 0xffff, Some(0x1_ffff)),                 // and in a later round
            (0x1_8000, 0x0000, Some(0x1_0000)),                 // the middle from the upper half: same round
            (0x1_8001, 0x0000, Some(0x2_0000)),                 // one past the middle: next round
            (0x1_7fff, 0x0000, Some(0x1_0000)),                 // behind in the same round
            (0x1_0000, 0x8001, Some(0x0_8001)),                 // more than half ahead is behind
            (0xffff_ffff_ffff, 0xffff, Some(0xffff_ffff_ffff)), // the very last index
            (0xffff_ffff_ffff, 0x0000, None),                   // the key must be changed now
        ] {
            let estimated = PacketIndex(highest).estimate(sequence).map(|index| index.0);
            assert_eq!(estimated, expected, "highest {highest:#x}, sequence {sequence:#x}");
        }
    }

    /// The pseudocode of RFC 3711 appendix A, where a round before the first is possible.
    fn appendix_a(highest: u64, sequence: u16) -> i64 {
        let (roc, last) = ((highest >> 16) as i64, i64::from(highest as u16));
        let sequence = i64::from(sequence);
        let round = if last < 32_768 {
            if sequence - last > 32_768 { roc - 1 } else { roc }
        } else if last - 32_768 > sequence {
            roc + 1
        } else {
            roc
        };
        round * 65_536 + sequence
    }

    #[test]
    fn estimate_is_that_of_appendix_a() {
        for highest in (0x1_0000u64..0x2_0000).step_by(97).chain([0x1_7fff, 0x1_8000, 0x1_8001, 0x1_ffff]) {
            for sequence in (0..=0xffffu16).step_by(31).chain([0x7fff, 0x8000, 0x8001, 0xffff]) {
                let estimated = PacketIndex(highest).estimate(sequence).map(|index| index.0 as i64);
                assert_eq!(estimated, Some(appendix_a(highest, sequence)), "{highest:#x} {sequence:#x}");
            }
        }
    }
}
