//! Receiver estimated maximum bitrate (draft-alvestrand-rmcat-remb-03 section 2.2).
//!
//! ```text
//! | sender SSRC | 0 | 'R' 'E' 'M' 'B' | SSRCs (8) | exponent (6) | mantissa (18) | SSRC ...
//! ```

use super::{APPLICATION, PAYLOAD_SPECIFIC, begin, end, word};

/// An estimate.
#[derive(Clone, Copy, Debug)]
pub struct Remb<'a> {
    /// SSRC of the receiver that estimates.
    pub sender_ssrc: u32,
    /// What all the streams together may have, in bits per second; capped at `u64::MAX`.
    pub bits_per_second: u64,
    ssrcs: &'a [u8],
}

/// Whether an application-layer feedback is a REMB.
pub(super) fn is_remb(body: &[u8]) -> bool {
    body.get(8..12) == Some(NAME)
}

impl<'a> Remb<'a> {
    pub(super) fn read(body: &'a [u8]) -> Option<Self> {
        let rate = word(body, 12)?;
        let (exponent, mantissa) = (rate >> 18 & 0x3f, u64::from(rate & 0x3_ffff));
        let bits_per_second =
            if mantissa.leading_zeros() < exponent { u64::MAX } else { mantissa << exponent };
        let ssrcs = body[16..].get(..4 * (rate >> 24) as usize)?;
        Some(Self { sender_ssrc: word(body, 0)?, bits_per_second, ssrcs })
    }

    /// The streams it is about; at most 255.
    pub fn ssrcs(&self) -> impl Iterator<Item = u32> + 'a {
        self.ssrcs.as_chunks().0.iter().map(|ssrc| u32::from_be_bytes(*ssrc))
    }

    /// Appends an estimate for at most 255 streams, rounded down to 18 bits.
    pub fn write(out: &mut Vec<u8>, sender_ssrc: u32, bits_per_second: u64, ssrcs: &[u32]) {
        let ssrcs = &ssrcs[..ssrcs.len().min(255)];
        let exponent = (u64::BITS - bits_per_second.leading_zeros()).saturating_sub(18);
        let mantissa = (bits_per_second >> exponent) as u32;
        let start = begin(out, PAYLOAD_SPECIFIC, APPLICATION);
        out.extend(sender_ssrc.to_be_bytes());
        out.extend([0; 4]);
        out.extend(NAME);
        out.extend(((ssrcs.len() as u32) << 24 | exponent << 18 | mantissa).to_be_bytes());
        ssrcs.iter().for_each(|ssrc| out.extend(ssrc.to_be_bytes()));
        end(out, start);
    }
}

const NAME: &[u8] = b"REMB";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtcp::{Rtcp, packets};

    #[test]
    fn rates_are_rounded_down_to_18_bits_and_never_overflow() {
        for (rate, expected) in [
            (0, 0),
            (262_143, 262_143), // largest exact mantissa
            (262_145, 262_144), // one bit lost
            (2_500_000, 2_500_000),
            (u64::MAX, 0x3_ffff << 46),
        ] {
            let mut out = Vec::new();
            Remb::write(&mut out, 7, rate, &[1, 2]);
            let Some(Ok(Rtcp::Remb(remb))) = packets(&out).next() else { panic!("{out:x?}") };
            assert_eq!((remb.sender_ssrc, remb.bits_per_second), (7, expected));
            assert_eq!(remb.ssrcs().collect::<Vec<_>>(), [1, 2]);
        }
        let mut body = [&[0; 8][..], NAME, &[0, 0xff, 0xff, 0xff]].concat();
        assert_eq!(Remb::read(&body).unwrap().bits_per_second, u64::MAX, "an exponent of 63");
        body[12] = 1;
        assert!(Remb::read(&body).is_none(), "an SSRC that is missing");
    }
}
