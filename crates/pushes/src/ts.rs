//! Frames as packets of a transport stream, and what it cannot carry.

use media::{Frame, MediaKind};
use mpegts::{Muxer, NotCarried, PACKET_BYTES};

use crate::failure::NotSent;

/// Packets in a datagram: as many as fit into one that is not fragmented.
pub(crate) const PAYLOAD_BYTES: usize = 7 * PACKET_BYTES;

/// Writes one stream.
#[derive(Debug, Default)]
pub(crate) struct TsOutput {
    muxer: Muxer,
    /// Packets that have not left.
    bytes: Vec<u8>,
    sent: usize,
    has_video: bool,
    base: Option<media::Timestamp>,
}

impl TsOutput {
    pub(crate) fn write(&mut self, frame: &Frame) -> Result<(), NotSent> {
        self.has_video |= frame.track.kind == MediaKind::Video;
        let is_entry = frame.is_key() || !self.has_video;
        let base = *self.base.get_or_insert(frame.dts);
        let written = self.muxer.write(&mut self.bytes, frame, frame.dts - base, is_entry);
        written.map_err(|error| match error {
            NotCarried::Frame => NotSent::Frame,
            other => NotSent::Track(other.reason().to_owned()),
        })
    }

    /// The next payload of a datagram.
    pub(crate) fn next_payload(&self) -> Option<&[u8]> {
        let rest = &self.bytes[self.sent..];
        (!rest.is_empty()).then(|| &rest[..rest.len().min(PAYLOAD_BYTES)])
    }

    /// That payload has left.
    pub(crate) fn advance(&mut self) {
        self.sent += self.next_payload().map_or(0, <[u8]>::len);
        if self.sent == self.bytes.len() {
            self.bytes.clear();
            self.sent = 0;
        }
    }

    /// Bytes that have not left.
    pub(crate) fn pending(&self) -> usize {
        self.bytes.len() - self.sent
    }
}
