//! Opus packets with room for a mark: padding, which decoders skip (RFC 6716 section 3.2.5).
//!
//! ```text
//! one frame     | toc |..frame          becomes  | toc, code 3 | 0 1  1 | padding length | frame   | padding |
//! code 3        | toc | v p=0 M |..     becomes  | toc         | v 1  M | padding length | ..      | padding |
//! ```
//! The code is the low two bits of the first byte: one frame, two of one size, two of two sizes, or
//! any number M as the next byte says. The sizes of two frames are written alike in codes 2 and 3.

use super::mark::MARK_BYTES;

/// The packet with padding for a mark at its end; `None` if it has padding already, or is empty.
pub(super) fn with_room(packet: &[u8]) -> Option<Vec<u8>> {
    let (&toc, body) = packet.split_first()?;
    let (frames, body) = match toc & CODE {
        0 => (1, body),
        1 => (2, body),
        2 => (VBR | 2, body),
        _ => {
            let (&frames, body) = body.split_first()?;
            (frames, body)
        }
    };
    if frames & PADDING != 0 {
        return None;
    }
    let mut padded = vec![toc | CODE, frames | PADDING, ROOM_BYTES as u8];
    padded.extend_from_slice(body);
    padded.resize(padded.len() + ROOM_BYTES, 0);
    Some(padded)
}

/// A mark, and the byte behind it.
const ROOM_BYTES: usize = MARK_BYTES + 1;

const CODE: u8 = 0b11;
const VBR: u8 = 0x80;
const PADDING: u8 = 0x40;

#[cfg(test)]
mod tests {
    use super::super::mark::{self, Mark};
    use super::*;

    #[test]
    fn padding_goes_behind_what_every_kind_of_packet_has() {
        type Bytes = &'static [u8];
        let cases: [(Bytes, Bytes, Bytes); 5] = [
            (&[0xfc, 7, 8], &[0xff, 0x41], &[7, 8]),
            (&[0xfd, 7, 8], &[0xff, 0x42], &[7, 8]),
            (&[0xfe, 1, 7, 8], &[0xff, 0xc2], &[1, 7, 8]),
            (&[0xff, 0x83, 1, 1, 7, 8, 9], &[0xff, 0xc3], &[1, 1, 7, 8, 9]),
            (&[0xfc], &[0xff, 0x41], &[]), // a frame of no bytes: transmission is off
        ];
        for (packet, head, body) in cases {
            let mut padded = with_room(packet).expect("it has no padding");
            assert_eq!((&padded[..2], padded[2]), (head, 25), "{packet:x?}");
            assert_eq!(padded[3..padded.len() - 25], *body, "{packet:x?}");
            mark::write(&mut padded, &Mark { number: 9, ..Mark::default() });
            assert_eq!(mark::find(&padded).map(|mark| mark.number), Some(9));
            assert_eq!(padded[3..padded.len() - 25], *body, "the mark is in the padding");
        }
        for packet in [&[][..], &[0xff], &[0xff, 0x41, 1, 7, 0]] {
            assert_eq!(with_room(packet), None, "{packet:x?}");
        }
    }
}
