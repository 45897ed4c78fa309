//! H.265 (RFC 7798 sections 4.4.1 to 4.4.3): single NAL units, aggregation packets, fragmentation
//! units. The layouts are drawn in `payload/h265.rs`.
//!
//! Without decoding order numbers: `sprop-max-don-diff` above 0 is not negotiated. PACI is refused.

use super::Broken;
use super::nal::Fragments;

#[derive(Debug, Default)]
pub(super) struct State {
    fragments: Fragments,
}

impl State {
    pub(super) fn push(&mut self, payload: &[u8], frame: &mut Vec<u8>) -> Result<(), Broken> {
        let (head, rest) = payload.split_first_chunk().ok_or(Broken::Malformed)?;
        match kind_of(*head)? {
            0..AGGREGATION => self.fragments.whole(payload, frame),
            AGGREGATION => self.aggregation(rest, frame),
            FRAGMENTATION => self.fragment(*head, rest, frame),
            _ => Err(Broken::Unsupported),
        }
    }

    fn aggregation(&self, mut rest: &[u8], frame: &mut Vec<u8>) -> Result<(), Broken> {
        loop {
            let (size, behind) = rest.split_first_chunk().ok_or(Broken::Malformed)?;
            let size = usize::from(u16::from_be_bytes(*size));
            let (unit, behind) = behind.split_at_checked(size).ok_or(Broken::Malformed)?;
            let (head, _) = unit.split_first_chunk().ok_or(Broken::Malformed)?;
            if kind_of(*head)? >= AGGREGATION {
                return Err(Broken::Malformed);
            }
            self.fragments.whole(unit, frame)?;
            if behind.is_empty() {
                return Ok(());
            }
            rest = behind;
        }
    }

    fn fragment(&mut self, head: [u8; 2], rest: &[u8], frame: &mut Vec<u8>) -> Result<(), Broken> {
        let (fu, body) = rest.split_first().ok_or(Broken::Malformed)?;
        let (start, end, kind) = (fu & 0x80 != 0, fu & 0x40 != 0, fu & 0x3f);
        // One fragment is no fragmentation (RFC 7798 section 4.4.3), and only units are fragmented.
        if (start && end) || kind >= AGGREGATION {
            return Err(Broken::Malformed);
        }
        if start {
            // Layer and temporal ids are those of the payload's head.
            self.fragments.start(kind, &[head[0] & 0x81 | kind << 1, head[1]], body, frame)
        } else {
            self.fragments.go_on(kind, body, end, frame)
        }
    }

    pub(super) fn end(&self) -> Result<(), Broken> {
        self.fragments.end()
    }
}

/// Type of a unit. The forbidden bit must be 0, the temporal id plus 1 must not.
fn kind_of(head: [u8; 2]) -> Result<u8, Broken> {
    if head[0] & 0x80 != 0 || head[1] & 7 == 0 {
        return Err(Broken::Malformed);
    }
    Ok(head[0] >> 1 & 0x3f)
}

const AGGREGATION: u8 = 48;
const FRAGMENTATION: u8 = 49;

#[cfg(test)]
mod tests {
    use crate::depacketize::{Broken, Depacketizer};
    use crate::payload::Codec;

    fn frame(payloads: &[&[u8]]) -> Result<Vec<u8>, Broken> {
        let mut depacketizer = Depacketizer::new(Codec::H265);
        for payload in payloads {
            let _ = depacketizer.push(payload);
        }
        depacketizer.finish().map(|frame| frame.to_vec())
    }

    /// Payloads, the expected result, and a remark.
    type Row<'a> = (&'a [&'a [u8]], &'a [u8], &'a str);

    #[test]
    fn each_packetization_gives_its_units() {
        let rows: [Row<'_>; 4] = [
            (&[&[0x26, 1, 0xaf, 7]], &[0, 0, 0, 4, 0x26, 1, 0xaf, 7], "one unit"),
            (
                &[&[0x60, 1, 0, 3, 0x40, 1, 9, 0, 2, 0x42, 1]],
                &[0, 0, 0, 3, 0x40, 1, 9, 0, 0, 0, 2, 0x42, 1],
                "aggregation",
            ),
            (
                &[&[0x62, 1, 0x93, 1], &[0x62, 1, 0x13, 2], &[0x62, 1, 0x53, 3]],
                &[0, 0, 0, 5, 0x26, 1, 1, 2, 3],
                "fragments",
            ),
            (&[&[0x62, 2, 0x81, 1], &[0x62, 2, 0x41]], &[0, 0, 0, 3, 0x02, 2, 1], "of a temporal layer"),
        ];
        for (payloads, expected, remark) in rows {
            assert_eq!(frame(payloads).as_deref(), Ok(expected), "{remark}");
        }
    }

    #[test]
    fn what_cannot_be_put_together_says_why() {
        let rows: [(&[&[u8]], Broken, &str); 14] = [
            (&[&[0x26]], Broken::Malformed, "half a head"),
            (&[&[0x62, 1, 0x13, 2]], Broken::MissingStart, "no start"),
            (&[&[0x62, 1, 0x93, 2]], Broken::MissingEnd, "no end"),
            (&[&[0x62, 1, 0x93, 2], &[0x02, 1, 3]], Broken::MissingEnd, "another unit within"),
            (&[&[0x62, 1, 0x93, 2], &[0x62, 1, 0x41, 2]], Broken::MissingStart, "the end of another"),
            (&[&[0x62, 1, 0xd3, 2]], Broken::Malformed, "start and end"),
            (&[&[0x62, 1, 0xb0, 0, 2, 0x42, 1]], Broken::Malformed, "aggregation inside a fragment"),
            (&[&[0x62, 1]], Broken::Malformed, "fragment of nothing"),
            (&[&[0x60, 1]], Broken::Malformed, "aggregation of nothing"),
            (&[&[0x60, 1, 0, 1, 0x42]], Broken::Malformed, "half a head inside"),
            (&[&[0x60, 1, 0, 2, 0x60, 1]], Broken::Malformed, "aggregation inside aggregation"),
            (&[&[0x26, 0, 1]], Broken::Malformed, "temporal id"),
            (&[&[0xa6, 1, 1]], Broken::Malformed, "forbidden bit"),
            (&[&[0x64, 1, 1]], Broken::Unsupported, "PACI"),
        ];
        for (payloads, expected, remark) in rows {
            assert_eq!(frame(payloads), Err(expected), "{remark}");
        }
    }
}
