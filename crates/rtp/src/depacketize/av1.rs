//! AV1 (RTP payload format for AV1, section 4): OBU fragments are joined and get their sizes back.
//! The layout is drawn in `payload/av1.rs`.
//!
//! Temporal delimiters, tile lists and padding are left out, as in files (AV1 ISOBMFF binding, section 2.4).

use media::bitstream::{sized, write_leb128};

use super::Broken;

#[derive(Debug, Default)]
pub(super) struct State {
    /// An OBU that continues in the next packet.
    partial: Vec<u8>,
    is_partial: bool,
}

impl State {
    pub(super) fn push(&mut self, payload: &[u8], frame: &mut Vec<u8>) -> Result<(), Broken> {
        let (aggregation, mut rest) = payload.split_first().ok_or(Broken::Malformed)?;
        let (continues, goes_on) = (aggregation & 0x80 != 0, aggregation & 0x40 != 0);
        let count = usize::from(aggregation >> 4 & 3);
        match (continues, self.is_partial) {
            (true, false) => return Err(Broken::MissingStart),
            (false, true) => return Err(Broken::MissingEnd),
            _ => {}
        }
        if rest.is_empty() || continues && aggregation & 0x08 != 0 {
            return Err(Broken::Malformed);
        }
        let mut index = 0;
        while !rest.is_empty() {
            index += 1;
            let element;
            (element, rest) = match count != 0 && index == count {
                true => (rest, &[][..]),
                false => sized(rest).ok_or(Broken::Malformed)?,
            };
            let is_last = rest.is_empty();
            self.element(element, is_last && goes_on, frame)?;
        }
        // Fewer elements than were announced.
        if count == 0 || index == count { Ok(()) } else { Err(Broken::Malformed) }
    }

    /// A piece of an OBU, or all of it.
    fn element(&mut self, element: &[u8], goes_on: bool, frame: &mut Vec<u8>) -> Result<(), Broken> {
        if frame.len() + self.partial.len() + element.len() > super::FRAME_BYTES_MAX {
            return Err(Broken::TooLarge);
        }
        if goes_on {
            self.partial.extend_from_slice(element);
            self.is_partial = true;
            return Ok(());
        }
        if !self.is_partial {
            return obu(element, frame);
        }
        self.partial.extend_from_slice(element);
        self.is_partial = false;
        let written = obu(&self.partial, frame);
        self.partial.clear();
        written
    }

    pub(super) fn end(&self) -> Result<(), Broken> {
        if self.is_partial { Err(Broken::MissingEnd) } else { Ok(()) }
    }
}

/// Appends an OBU with its size. An empty element is none.
fn obu(element: &[u8], frame: &mut Vec<u8>) -> Result<(), Broken> {
    let Some((&head, rest)) = element.split_first() else { return Ok(()) };
    if head & FORBIDDEN != 0 {
        return Err(Broken::Malformed);
    }
    let (extension, body) = match head & HAS_EXTENSION != 0 {
        true => rest.split_at_checked(1).ok_or(Broken::Malformed)?,
        false => (&[][..], rest),
    };
    // Senders should leave sizes out (section 4.5), and some do not.
    let body = match head & HAS_SIZE != 0 {
        true => sized(body).filter(|(_, behind)| behind.is_empty()).ok_or(Broken::Malformed)?.0,
        false => body,
    };
    if !matches!(head >> 3 & 0x0f, TEMPORAL_DELIMITER | TILE_LIST | PADDING) {
        frame.push(head | HAS_SIZE);
        frame.extend_from_slice(extension);
        write_leb128(body.len(), frame);
        frame.extend_from_slice(body);
    }
    Ok(())
}

const FORBIDDEN: u8 = 0x80;
const HAS_EXTENSION: u8 = 0x04;
const HAS_SIZE: u8 = 0x02;
const TEMPORAL_DELIMITER: u8 = 2;
const TILE_LIST: u8 = 8;
const PADDING: u8 = 15;

#[cfg(test)]
mod tests {
    use crate::depacketize::{Broken, Depacketizer};
    use crate::payload::Codec;

    fn frame(payloads: &[&[u8]]) -> Result<Vec<u8>, Broken> {
        let mut depacketizer = Depacketizer::new(Codec::Av1);
        for payload in payloads {
            let _ = depacketizer.push(payload);
        }
        depacketizer.finish().map(|frame| frame.to_vec())
    }

    /// Payloads, the expected result, and a remark.
    type Row<'a> = (&'a [&'a [u8]], &'a [u8], &'a str);

    #[test]
    fn obus_get_their_sizes_back() {
        let rows: [Row<'_>; 9] = [
            (&[&[0x10, 0x30, 7]], &[0x32, 1, 7], "one OBU"),
            (&[&[0x28, 2, 0x08, 5, 0x30, 7]], &[0x0a, 1, 5, 0x32, 1, 7], "two, counted"),
            (&[&[0x08, 2, 0x08, 5, 2, 0x30, 7]], &[0x0a, 1, 5, 0x32, 1, 7], "two, not counted"),
            (&[&[0x50, 0x30, 1], &[0xd0, 2], &[0x90, 3]], &[0x32, 3, 1, 2, 3], "over three packets"),
            (&[&[0x50, 0x30], &[0xa0, 1, 2, 0x30, 3]], &[0x32, 1, 2, 0x32, 1, 3], "the end and another"),
            (&[&[0x10, 0x34, 0x48, 7]], &[0x36, 0x48, 1, 7], "with a layer"),
            (&[&[0x10, 0x32, 1, 7]], &[0x32, 1, 7], "with a size already"),
            (&[&[0x20, 1, 0x10, 0x30, 7]], &[0x32, 1, 7], "a temporal delimiter"),
            (&[&[0x20, 0, 0x30, 7]], &[0x32, 1, 7], "an empty element"),
        ];
        for (payloads, expected, remark) in rows {
            assert_eq!(frame(payloads).as_deref(), Ok(expected), "{remark}");
        }
        let long = frame(&[&[&[0x10, 0x30][..], &[9; 200]].concat()]).unwrap();
        assert_eq!(long[..3], [0x32, 0xc8, 0x01]);
    }

    #[test]
    fn what_cannot_be_put_together_says_why() {
        let rows: [(&[&[u8]], Broken, &str); 11] = [
            (&[&[0x90, 1]], Broken::MissingStart, "no start"),
            (&[&[0x50, 0x30, 1]], Broken::MissingEnd, "no end"),
            (&[&[0x50, 0x30, 1], &[0x10, 0x30, 1]], Broken::MissingEnd, "another one within"),
            (&[&[0x10]], Broken::Malformed, "nothing inside"),
            (&[&[0x10, 0xb0]], Broken::Malformed, "forbidden bit"),
            (&[&[0x10, 0x34]], Broken::Malformed, "extension cut off"),
            (&[&[0x00, 3, 0x30, 1]], Broken::Malformed, "a byte is missing"),
            (&[&[0x20, 2, 0x30, 1]], Broken::Malformed, "an element is missing"),
            (&[&[0x10, 0x32, 2, 7]], Broken::Malformed, "a size that is not its own"),
            (&[&[0x50, 0x30], &[0x98, 1]], Broken::Malformed, "goes on and begins a sequence"),
            (&[&[0x10, 0x10]], Broken::Empty, "only a delimiter"),
        ];
        for (payloads, expected, remark) in rows {
            assert_eq!(frame(payloads), Err(expected), "{remark}");
        }
    }
}
