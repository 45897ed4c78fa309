//! H.264 (RFC 6184 sections 5.6 to 5.8): single NAL units, STAP-A, FU-A. The layouts are drawn in
//! `payload/h264.rs`.
//!
//! STAP-B, MTAP and FU-B belong to the interleaved mode, which is never negotiated here, and are
//! refused.

use super::Broken;
use super::nal::Fragments;

#[derive(Debug, Default)]
pub(super) struct State {
    fragments: Fragments,
}

impl State {
    pub(super) fn push(&mut self, payload: &[u8], frame: &mut Vec<u8>) -> Result<(), Broken> {
        let head = *payload.first().ok_or(Broken::Malformed)?;
        if head & FORBIDDEN != 0 {
            return Err(Broken::Malformed);
        }
        match head & 0x1f {
            1..=23 => self.fragments.whole(payload, frame),
            STAP_A => self.aggregation(&payload[1..], frame),
            FU_A => self.fragment(head, &payload[1..], frame),
            STAP_B..=FU_B => Err(Broken::Unsupported),
            _ => Err(Broken::Malformed),
        }
    }

    fn aggregation(&self, mut rest: &[u8], frame: &mut Vec<u8>) -> Result<(), Broken> {
        // At least one unit, none of them empty, none of them an aggregation or a fragment.
        loop {
            let (size, behind) = rest.split_first_chunk().ok_or(Broken::Malformed)?;
            let size = usize::from(u16::from_be_bytes(*size));
            let (unit, behind) = behind.split_at_checked(size).ok_or(Broken::Malformed)?;
            let head = *unit.first().ok_or(Broken::Malformed)?;
            if head & FORBIDDEN != 0 || !(1..=23).contains(&(head & 0x1f)) {
                return Err(Broken::Malformed);
            }
            self.fragments.whole(unit, frame)?;
            if behind.is_empty() {
                return Ok(());
            }
            rest = behind;
        }
    }

    fn fragment(&mut self, indicator: u8, rest: &[u8], frame: &mut Vec<u8>) -> Result<(), Broken> {
        let (fu, body) = rest.split_first().ok_or(Broken::Malformed)?;
        let (start, end, kind) = (fu & 0x80 != 0, fu & 0x40 != 0, fu & 0x1f);
        // A unit of one fragment must not be sent as fragments (RFC 6184 section 5.8), and only units are.
        if (start && end) || !(1..=23).contains(&kind) {
            return Err(Broken::Malformed);
        }
        if start {
            self.fragments.start(kind, &[indicator & 0x60 | kind], body, frame)
        } else {
            self.fragments.go_on(kind, body, end, frame)
        }
    }

    pub(super) fn end(&self) -> Result<(), Broken> {
        self.fragments.end()
    }
}

const FORBIDDEN: u8 = 0x80;
const STAP_A: u8 = 24;
const STAP_B: u8 = 25;
const FU_A: u8 = 28;
const FU_B: u8 = 29;

#[cfg(test)]
mod tests {
    use crate::depacketize::{Broken, Depacketizer};
    use crate::payload::Codec;

    /// The frame of these payloads.
    fn frame(payloads: &[&[u8]]) -> Result<Vec<u8>, Broken> {
        let mut depacketizer = Depacketizer::new(Codec::H264);
        for payload in payloads {
            let _ = depacketizer.push(payload);
        }
        depacketizer.finish().map(|frame| frame.to_vec())
    }

    /// Payloads, the expected result, and a remark.
    type Row<'a> = (&'a [&'a [u8]], &'a [u8], &'a str);

    #[test]
    fn each_packetization_gives_its_units() {
        let single: &[u8] = &[0x65, 0x88, 1, 2];
        let rows: [Row<'_>; 5] = [
            (&[single], &[0, 0, 0, 4, 0x65, 0x88, 1, 2], "one unit"),
            (
                &[&[0x67, 1], &[0x68, 2], &[0x65, 3]],
                &[0, 0, 0, 2, 0x67, 1, 0, 0, 0, 2, 0x68, 2, 0, 0, 0, 2, 0x65, 3],
                "three",
            ),
            (&[&[0x78, 0, 2, 0x67, 1, 0, 1, 0x68]], &[0, 0, 0, 2, 0x67, 1, 0, 0, 0, 1, 0x68], "STAP-A"),
            (&[&[0x7c, 0x85, 1], &[0x7c, 0x05, 2], &[0x7c, 0x45, 3]], &[0, 0, 0, 4, 0x65, 1, 2, 3], "FU-A"),
            (
                &[&[0x78, 0, 1, 0x67], &[0x5c, 0x81, 1], &[0x5c, 0x41], &[0x06, 9]],
                &[0, 0, 0, 1, 0x67, 0, 0, 0, 2, 0x41, 1, 0, 0, 0, 2, 0x06, 9],
                "all of them, a fragment empty",
            ),
        ];
        for (payloads, expected, remark) in rows {
            assert_eq!(frame(payloads).as_deref(), Ok(expected), "{remark}");
        }
    }

    #[test]
    fn what_cannot_be_put_together_says_why() {
        let rows: [(&[&[u8]], Broken, &str); 19] = [
            (&[], Broken::Empty, "nothing"),
            (&[&[]], Broken::Malformed, "an empty payload"),
            (&[&[0x7c, 0x05, 2], &[0x7c, 0x45, 3]], Broken::MissingStart, "no start"),
            (&[&[0x7c, 0x45, 3]], Broken::MissingStart, "only the end"),
            (&[&[0x7c, 0x85, 1], &[0x7c, 0x05, 2]], Broken::MissingEnd, "no end"),
            (&[&[0x7c, 0x85, 1], &[0x7c, 0x85, 1]], Broken::MissingEnd, "two starts"),
            (&[&[0x7c, 0x85, 1], &[0x41, 1]], Broken::MissingEnd, "another unit within"),
            (&[&[0x7c, 0x85, 1], &[0x78, 0, 1, 6]], Broken::MissingEnd, "STAP-A within"),
            (&[&[0x7c, 0x85, 1], &[0x7c, 0x41, 1]], Broken::MissingStart, "the end of another"),
            (&[&[0x7c, 0xc5, 1]], Broken::Malformed, "start and end"),
            (&[&[0x7c, 0x98, 0, 1, 6]], Broken::Malformed, "STAP-A inside FU-A"),
            (&[&[0x7c, 0x9c, 0x85]], Broken::Malformed, "FU-A inside FU-A"),
            (&[&[0x7c]], Broken::Malformed, "FU-A of nothing"),
            (&[&[0x78]], Broken::Malformed, "STAP-A of nothing"),
            (&[&[0x78, 0, 0]], Broken::Malformed, "an empty unit"),
            (&[&[0x78, 0, 3, 6, 1]], Broken::Malformed, "a unit that is cut off"),
            (&[&[0x78, 0, 1, 0x78]], Broken::Malformed, "STAP-A inside STAP-A"),
            (&[&[0xe5, 1]], Broken::Malformed, "forbidden bit"),
            (&[&[0x7d, 0x85, 0, 0, 1]], Broken::Unsupported, "FU-B"),
        ];
        for (payloads, expected, remark) in rows {
            assert_eq!(frame(payloads), Err(expected), "{remark}");
        }
    }
}
