//! Frames as packets of a transport stream, and what it cannot carry.

use media::{Frame, FrameRole, MediaKind};
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
        // Headers of a stream that began long ago may say its beginning, or 0.
        let base = match frame.role {
            FrameRole::Key | FrameRole::Inter | FrameRole::Audio => *self.base.get_or_insert(frame.dts),
            _ => self.base.unwrap_or(frame.dts),
        };
        let written = self.muxer.write(&mut self.bytes, frame, frame.dts - base, is_entry);
        written.map_err(|error| match error {
            NotCarried::Frame => NotSent::Frame,
            other => NotSent::Track(other.reason().to_owned()),
        })
    }

    /// The next payload of a datagram, whole packets of at most so many bytes.
    pub(crate) fn next_payload(&self, bytes_max: usize) -> Option<&[u8]> {
        let rest = &self.bytes[self.sent..];
        let bytes_max = bytes_max.min(PAYLOAD_BYTES) / PACKET_BYTES * PACKET_BYTES;
        (!rest.is_empty()).then(|| &rest[..rest.len().min(bytes_max)])
    }

    /// So many bytes have left.
    pub(crate) fn advance(&mut self, bytes: usize) {
        self.sent += bytes;
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

#[cfg(test)]
mod tests {
    use media::{Codec, Timestamp, TrackId};

    use super::*;

    #[test]
    fn times_begin_with_the_first_frame_whatever_headers_say() {
        let mut ts = TsOutput::default();
        let time = Timestamp::from_millis(36_000_000);
        for (role, at, data) in
            [(FrameRole::Config, Timestamp::ZERO, vec![0x12, 0x10]), (FrameRole::Audio, time, vec![7; 100])]
        {
            let frame = Frame::new(TrackId::AUDIO, role, Codec::Aac, (at, at), data);
            ts.write(&frame).expect("it is carried");
        }
        let mut demuxer = mpegts::Demuxer::new(mpegts::DemuxSettings::default());
        demuxer.push(&ts.bytes);
        demuxer.finish();
        let frames: Vec<Frame> = std::iter::from_fn(|| demuxer.next_frame()).collect();
        assert_eq!(frames.last().expect("a frame").dts, mpegts::MUX_DELAY);
    }

    #[test]
    fn a_payload_has_whole_packets_however_few_fit() {
        let mut ts = TsOutput::default();
        let time = Timestamp::from_millis(40);
        for _ in 0..20 {
            let frame = Frame::new(TrackId::AUDIO, FrameRole::Audio, Codec::Mp3, (time, time), vec![7; 500]);
            ts.write(&frame).expect("it is carried");
        }
        let whole = ts.bytes.clone();
        for bytes_max in [PACKET_BYTES, 204, 1_300, PAYLOAD_BYTES, 1_456] {
            let (mut left, mut sent) = (TsOutput { bytes: whole.clone(), ..TsOutput::default() }, Vec::new());
            while let Some(payload) = left.next_payload(bytes_max) {
                let bytes = payload.len();
                assert!(
                    bytes > 0 && bytes <= bytes_max.min(PAYLOAD_BYTES) && bytes.is_multiple_of(PACKET_BYTES)
                );
                sent.extend_from_slice(payload);
                left.advance(bytes);
            }
            assert_eq!(sent, whole, "{bytes_max}");
        }
    }
}
