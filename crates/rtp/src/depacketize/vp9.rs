//! VP9 (RFC 9628 section 4.2): descriptors are removed; the layer frames of a picture become a
//! superframe.
//!
//! ```text
//! superframe (VP9 bitstream specification, annex B)
//!   frame | frame | ... | 110 | size bytes - 1 (2) | frames - 1 (3) | sizes, little endian | the same byte again
//! ```
//! `payload/vp9.rs` reads descriptors.

use super::Broken;
use crate::payload::vp9::Descriptor;

#[derive(Debug, Default)]
pub(super) struct State {
    /// Sizes of the layer frames so far, the last one still growing if `is_open`.
    sizes: [u32; LAYER_FRAMES_MAX],
    frames: usize,
    is_open: bool,
}

impl State {
    pub(super) fn push(&mut self, payload: &[u8], frame: &mut Vec<u8>) -> Result<(), Broken> {
        let descriptor = Descriptor::parse(payload).ok_or(Broken::Malformed)?;
        match (self.is_open, descriptor.starts_layer_frame) {
            (false, false) => return Err(Broken::MissingStart),
            (true, true) => return Err(Broken::MissingEnd),
            (false, true) if self.frames == LAYER_FRAMES_MAX => return Err(Broken::Malformed),
            (false, true) => self.frames += 1,
            (true, false) => {}
        }
        let body = &payload[descriptor.len..];
        self.sizes[self.frames - 1] += body.len() as u32;
        self.is_open = !descriptor.ends_layer_frame;
        frame.extend_from_slice(body);
        Ok(())
    }

    pub(super) fn end(&self, frame: &mut Vec<u8>) -> Result<(), Broken> {
        if self.is_open {
            return Err(Broken::MissingEnd);
        }
        if self.frames > 1 {
            let sizes = &self.sizes[..self.frames];
            let longest = sizes.iter().max().copied().unwrap_or(0);
            let bytes = (4 - longest.leading_zeros() as usize / 8).max(1);
            let head = 0xc0 | (bytes as u8 - 1) << 3 | (self.frames as u8 - 1);
            frame.push(head);
            for size in sizes {
                frame.extend_from_slice(&size.to_le_bytes()[..bytes]);
            }
            frame.push(head);
        }
        Ok(())
    }
}

/// Maximum frames of a superframe.
const LAYER_FRAMES_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use crate::depacketize::{Broken, Depacketizer};
    use crate::payload::Codec;

    /// Payloads, the expected result, and a remark.
    type Row<'a> = (&'a [&'a [u8]], Result<&'a [u8], Broken>, &'a str);

    #[test]
    fn layer_frames_become_a_superframe() {
        let rows: [Row<'_>; 7] = [
            (&[&[0x0c, 1, 2]], Ok(&[1, 2]), "one packet"),
            (&[&[0x88, 0x80, 7, 1], &[0x80, 0x80, 7, 2], &[0x84, 0x80, 7, 3]], Ok(&[1, 2, 3]), "three"),
            (
                &[&[0x2c, 0x00, 0, 1], &[0x28, 0x02, 0, 2], &[0x24, 0x02, 0, 3]],
                Ok(&[1, 2, 3, 0xc1, 1, 2, 0xc1]),
                "two spatial layers",
            ),
            (&[&[0x04, 1]], Err(Broken::MissingStart), "no start"),
            (&[&[0x08, 1]], Err(Broken::MissingEnd), "no end"),
            (&[&[0x08, 1], &[0x0c, 1]], Err(Broken::MissingEnd), "no end before the next"),
            (&[&[0x0c]], Err(Broken::Malformed), "a descriptor and nothing else"),
        ];
        for (payloads, expected, remark) in rows {
            let mut depacketizer = Depacketizer::new(Codec::Vp9);
            for payload in payloads {
                let _ = depacketizer.push(payload);
            }
            assert_eq!(depacketizer.finish().as_deref(), expected.as_ref().map(|frame| *frame), "{remark}");
        }
    }

    #[test]
    fn sizes_have_as_many_bytes_as_the_longest_needs() {
        let mut depacketizer = Depacketizer::new(Codec::Vp9);
        depacketizer.push(&[&[0x0c][..], &[1; 300]].concat()).unwrap();
        depacketizer.push(&[0x0c, 2]).unwrap();
        assert_eq!(depacketizer.finish().unwrap()[301..], [0xc9, 44, 1, 1, 0, 0xc9]);
        for _ in 0..8 {
            depacketizer.push(&[0x0c, 2]).unwrap();
        }
        assert_eq!(depacketizer.push(&[0x0c, 2]), Err(Broken::Malformed), "nine of them");
    }
}
