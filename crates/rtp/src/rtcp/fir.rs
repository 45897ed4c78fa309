//! Full intra request (RFC 5104 section 4.3.1): requests key frames, each with a number that
//! distinguishes it from repeats.

use super::{FULL_INTRA, PAYLOAD_SPECIFIC, begin, end, word};

/// A full intra request.
#[derive(Clone, Copy, Debug)]
pub struct Fir<'a> {
    /// SSRC of the requester.
    pub sender_ssrc: u32,
    entries: &'a [u8],
}

/// One stream a key frame is asked of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirEntry {
    /// The stream.
    pub ssrc: u32,
    /// Number of the command; the same number is a repeat. Wraps.
    pub sequence_number: u8,
}

impl<'a> Fir<'a> {
    pub(super) fn read(body: &'a [u8]) -> Option<Self> {
        // The media SSRC of the head is unused.
        word(body, 4)?;
        Some(Self { sender_ssrc: word(body, 0)?, entries: &body[8..] })
    }

    /// Each stream asked, one per eight bytes.
    pub fn entries(&self) -> impl Iterator<Item = FirEntry> + 'a {
        self.entries.as_chunks().0.iter().map(|[a, b, c, d, sequence_number, _, _, _]| FirEntry {
            ssrc: u32::from_be_bytes([*a, *b, *c, *d]),
            sequence_number: *sequence_number,
        })
    }

    /// Appends a request of one stream.
    pub fn write(out: &mut Vec<u8>, sender_ssrc: u32, entry: FirEntry) {
        let start = begin(out, PAYLOAD_SPECIFIC, FULL_INTRA);
        for word in [sender_ssrc, 0, entry.ssrc, u32::from(entry.sequence_number) << 24] {
            out.extend(word.to_be_bytes());
        }
        end(out, start);
    }
}
