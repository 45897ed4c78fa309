//! VP8 and VP9 of Enhanced RTMP: frames that say all of themselves.
//!
//! The bitstream, not the tag, says which frames are key frames: receivers go by the descriptor made of it.

use rtp::packetize::{FrameWriter, vp8, vp9};
use rtp::payload::Codec;

/// One of the two.
#[derive(Debug)]
pub(super) struct Vp {
    codec: Codec,
}

impl Vp {
    /// If the frame is a key frame of `codec`: a writer for it and what follows, and the `a=fmtp` value (RFC
    /// 9628 section 7.1; VP8 has none).
    pub(super) fn of_key_frame(codec: Codec, frame: &[u8]) -> Option<(Self, String)> {
        let vp = Self { codec };
        if !vp.is_key(frame)? {
            return None;
        }
        let fmtp = match codec {
            Codec::Vp9 => media::vp9_fmtp(vp9::profile(frame)?),
            _ => String::new(),
        };
        Some((vp, fmtp))
    }

    /// Whether a decoder can start with a frame; `None` if it is none.
    pub(super) fn is_key(&self, frame: &[u8]) -> Option<bool> {
        match self.codec {
            Codec::Vp8 => vp8::is_key_frame(frame),
            Codec::Vp9 => vp9::is_key_frame(frame),
            _ => None,
        }
    }

    /// Writes a frame.
    pub(super) fn write(
        &self,
        frame: &[u8],
        picture_id: u16,
        is_key: bool,
        payload_bytes_max: usize,
        writer: &mut FrameWriter<'_>,
    ) {
        match self.codec {
            Codec::Vp8 => vp8::packetize(frame, picture_id, payload_bytes_max, writer),
            _ => vp9::packetize(frame, picture_id, is_key, payload_bytes_max, writer),
        }
    }
}
