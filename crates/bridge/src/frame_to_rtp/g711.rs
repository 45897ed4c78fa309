//! Two channels of G.711 (ITU-T G.711) to one: FLV can hold two, the static payload types of RTP
//! cannot (RFC 3551 section 6), and browsers know no others.
//!
//! ```text
//!  mu-law   all bits inverted:       sign 1 | segment 3 | step 4
//!  A-law    every other bit (0x55):  sign 1 | segment 3 | step 4
//! ```

/// How samples are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Law {
    Mu,
    A,
}

/// Appends the mean of each pair of samples of `stereo` to `mono`; half a pair at the end is left out.
pub(super) fn mix(law: Law, stereo: &[u8], mono: &mut Vec<u8>) {
    mono.extend(
        stereo.chunks_exact(2).map(|pair| law.encode((law.decode(pair[0]) + law.decode(pair[1])) / 2)),
    );
}

impl Law {
    /// A sample in 16 bits, of which the lowest are 0.
    fn decode(self, byte: u8) -> i32 {
        let bits = match self {
            Self::Mu => !byte,
            Self::A => byte ^ A_INVERTED,
        };
        let (segment, step) = (i32::from(bits >> 4 & 7), i32::from(bits & 0x0f));
        let magnitude = match (self, segment) {
            (Self::Mu, _) => ((step << 3 | MU_BIAS) << segment) - MU_BIAS,
            (Self::A, 0) => step << 4 | 8,
            (Self::A, _) => (step << 4 | 0x108) << (segment - 1),
        };
        // In A-law the sign bit is set in positive samples.
        if (bits & 0x80 != 0) == (self == Self::Mu) { -magnitude } else { magnitude }
    }

    /// The code for a sample of at most 16 bits.
    fn encode(self, sample: i32) -> u8 {
        let is_negative = sample < 0;
        let sign = if is_negative == (self == Self::Mu) { 0x80 } else { 0 };
        let magnitude = match self {
            Self::Mu => (sample.abs() + MU_BIAS).min(0x7fff),
            // What lies below 0 begins one step further.
            Self::A => (if is_negative { -sample - 1 } else { sample }).clamp(0, 0x7fff),
        };
        // The highest bit from the eighth on says the segment, the four behind it the step.
        let segment = (magnitude >> 7 | 1).ilog2();
        let step = match (self, segment) {
            (Self::A, 0) => magnitude >> 4 & 0x0f,
            _ => magnitude >> (segment + 3) & 0x0f,
        };
        let bits = sign | (segment as u8) << 4 | step as u8;
        match self {
            Self::Mu => !bits,
            Self::A => bits ^ A_INVERTED,
        }
    }
}

const MU_BIAS: i32 = 0x84;
const A_INVERTED: u8 = 0x55;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_that_of_its_sample() {
        for law in [Law::Mu, Law::A] {
            for byte in 0..=u8::MAX {
                let again = law.encode(law.decode(byte));
                // Mu-law has two codes for 0.
                assert!(
                    again == byte || (law == Law::Mu && byte == 0x7f && again == 0xff),
                    "{law:?} {byte:#x}"
                );
            }
        }
    }

    /// Ends and middles of the tables 1a, 1b, 2a and 2b of the recommendation, in 16 bits.
    #[test]
    fn samples_are_those_of_the_tables() {
        for (law, byte, sample) in [
            (Law::Mu, 0x80, 32_124),
            (Law::Mu, 0x00, -32_124),
            (Law::Mu, 0xff, 0),
            (Law::Mu, 0x8f, 16_764),
            (Law::Mu, 0xfe, 8),
            (Law::A, 0xaa, 32_256),
            (Law::A, 0x2a, -32_256),
            (Law::A, 0xd5, 8),
            (Law::A, 0x55, -8),
            (Law::A, 0xc5, 264),
        ] {
            assert_eq!(law.decode(byte), sample, "{law:?} {byte:#x}");
        }
    }

    #[test]
    fn the_mean_of_two_samples_is_written() {
        let mut mono = Vec::new();
        mix(Law::Mu, &[0x80, 0x00, 0xff, 0xff, 0x8f, 0x8f, 0x80], &mut mono);
        mix(Law::A, &[0xaa, 0xaa, 0xd5, 0x55], &mut mono);
        assert_eq!(mono[..3], [0xff, 0xff, 0x8f]);
        assert_eq!(mono[3], 0xaa);
        assert_eq!(Law::A.decode(mono[4]).abs(), 8, "next to nothing");
        assert_eq!(mono.len(), 5);
        for (left, right) in [(0x90, 0xa3), (0x12, 0xb4), (0xf0, 0x70)] {
            for law in [Law::Mu, Law::A] {
                let mut mixed = Vec::new();
                mix(law, &[left, right], &mut mixed);
                let (mean, got) = ((law.decode(left) + law.decode(right)) / 2, law.decode(mixed[0]));
                // Half a step of the segment.
                assert!((mean - got).abs() <= mean.abs() / 32 + 8, "{law:?}: {mean} became {got}");
            }
        }
    }
}
