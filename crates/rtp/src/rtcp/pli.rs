//! Picture loss indication (RFC 4585 section 6.3.1): a receiver cannot decode and requests a key
//! frame.

use super::{PAYLOAD_SPECIFIC, PICTURE_LOSS, begin, end, word};

/// A picture loss indication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pli {
    /// SSRC of the requester.
    pub sender_ssrc: u32,
    /// For a key frame of which stream.
    pub media_ssrc: u32,
}

impl Pli {
    pub(super) fn read(body: &[u8]) -> Option<Self> {
        Some(Self { sender_ssrc: word(body, 0)?, media_ssrc: word(body, 4)? })
    }

    /// Appends it.
    pub fn write(self, out: &mut Vec<u8>) {
        let start = begin(out, PAYLOAD_SPECIFIC, PICTURE_LOSS);
        out.extend(self.sender_ssrc.to_be_bytes());
        out.extend(self.media_ssrc.to_be_bytes());
        end(out, start);
    }
}
