//! Numbers that wrap: packets (31 bits) and times of the wire (32 bits of microseconds).

/// Sequence number of a data packet; wraps at 2^31 (draft-sharabayko-srt-01 section 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SequenceNumber(u32);

impl SequenceNumber {
    const MASK: u32 = 0x7fff_ffff;

    /// A number that nobody can guess.
    pub fn random() -> Self {
        let mut bytes = [0; 4];
        aws_lc_rs::rand::fill(&mut bytes).expect("the system has random bytes");
        Self::new(u32::from_be_bytes(bytes))
    }

    /// The number in the lower 31 bits.
    pub fn new(number: u32) -> Self {
        Self(number & Self::MASK)
    }

    /// As on the wire; the highest bit is 0.
    pub fn number(self) -> u32 {
        self.0
    }

    /// The number so many later.
    pub fn plus(self, count: u32) -> Self {
        Self::new(self.0.wrapping_add(count))
    }

    /// How much later than `other` it is, by the shorter way around: -2^30 to 2^30 - 1.
    pub fn since(self, other: Self) -> i32 {
        // Shifted up, the sign of 31 bits is that of 32.
        ((self.0.wrapping_sub(other.0) << 1) as i32) >> 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_go_the_shorter_way_around() {
        let cases = [
            (0, 0, 0),
            (1, 0, 1),
            (0, 0x7fff_ffff, 1), // around the end
            (0x7fff_ffff, 0, -1),
            (0x3fff_ffff, 0, 0x3fff_ffff),
            (0x4000_0000, 0, -0x4000_0000),
            (5, 0x7fff_fff0, 21),
        ];
        for (of, other, expected) in cases {
            let (of, other) = (SequenceNumber::new(of), SequenceNumber::new(other));
            assert_eq!(of.since(other), expected, "{of:?} {other:?}");
            if expected >= 0 {
                assert_eq!(other.plus(expected as u32), of);
            }
        }
        assert_eq!(SequenceNumber::new(u32::MAX).number(), 0x7fff_ffff);
    }
}
