//! VP8 (RFC 7741 section 4): the descriptor is taken off, the rest is the frame. `payload/vp8.rs`
//! reads descriptors.

use super::Broken;
use crate::payload::vp8::Descriptor;

#[derive(Debug, Default)]
pub(super) struct State {
    has_started: bool,
}

impl State {
    pub(super) fn push(&mut self, payload: &[u8], frame: &mut Vec<u8>) -> Result<(), Broken> {
        let descriptor = Descriptor::parse(payload).ok_or(Broken::Malformed)?;
        let starts = descriptor.starts_partition && descriptor.partition == 0;
        match (self.has_started, starts) {
            (false, false) => return Err(Broken::MissingStart),
            // The first partition of another frame, with no end of this one before it.
            (true, true) => return Err(Broken::MissingEnd),
            _ => self.has_started = true,
        }
        frame.extend_from_slice(&payload[descriptor.len..]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::depacketize::{Broken, Depacketizer};
    use crate::payload::Codec;

    /// Payloads, the expected result, and a remark.
    type Row<'a> = (&'a [&'a [u8]], Result<&'a [u8], Broken>, &'a str);

    #[test]
    fn descriptors_are_taken_off() {
        let rows: [Row<'_>; 6] = [
            (&[&[0x10, 1, 2]], Ok(&[1, 2]), "one packet"),
            (
                &[&[0x90, 0x80, 0x92, 0x34, 1], &[0x80, 0x80, 0x92, 0x34, 2], &[0x11, 3]],
                Ok(&[1, 2, 3]),
                "three",
            ),
            (&[&[0x00, 1]], Err(Broken::MissingStart), "no start"),
            (&[&[0x11, 1]], Err(Broken::MissingStart), "the second partition first"),
            (&[&[0x10, 1], &[0x10, 1]], Err(Broken::MissingEnd), "two starts"),
            (&[&[0x10, 1], &[0x90, 0x80]], Err(Broken::Malformed), "a descriptor that is cut off"),
        ];
        for (payloads, expected, remark) in rows {
            let mut depacketizer = Depacketizer::new(Codec::Vp8);
            for payload in payloads {
                let _ = depacketizer.push(payload);
            }
            assert_eq!(depacketizer.finish().as_deref(), expected.as_ref().map(|frame| *frame), "{remark}");
        }
    }
}
