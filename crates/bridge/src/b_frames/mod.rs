//! Coded pictures of H.264 and H.265: parameter sets, picture order, and which pictures can be left out.
//!
//! ```text
//! sequence header ─▶ record ─▶ parameter sets ─┐ (rewritten: decoders do not wait)
//! frame ─▶ nal ─▶ headers of slices ─▶ order, references ─▶ Verdict, units to send
//! ```
//! WebRTC shows pictures in the order they are sent, so a picture that is to be shown ahead of one
//! already sent has to be left out. That is valid only where no picture that is sent refers to it:
//! [`PictureFilter`] follows the reference pictures of encoder and decoder and refuses a stream
//! where they part. `docs/decisions/0018-b-frames.md` has the reasons.
//!
//! AV1 and VP8/VP9 need nothing of the kind: pictures that are not shown at once travel within the
//! temporal unit or superframe of one that is, and a frame of the container always shows exactly
//! one, in order.

mod h264;
mod h265;
mod units;
mod verdict;

use media::bitstream::Nals;
use media::config::RecordError;
use rtp::payload::Codec;
use serde::{Deserialize, Serialize};
use verdict::Stop;
pub use verdict::{B_FRAMES_WARNING, BFrames, Dropped, Refusal, Verdict};

/// Frames of one configuration: keeps what can be shown in the order it is sent.
///
/// **Make a new one when the sequence header changes, and only then.** After one frame was refused, all are.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PictureFilter {
    codec: ByCodec,
    #[serde(skip)]
    b_frames: BFrames,
    #[serde(skip)]
    refused: Option<Refusal>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum ByCodec {
    H264(Box<h264::Filter>),
    H265(Box<h265::Filter>),
}

impl PictureFilter {
    /// A filter for frames of `codec`, H.264 or H.265, with the decoder configuration `record`
    /// (`avcC` or `hvcC`).
    ///
    /// # Errors
    /// The record cannot be used.
    pub fn new(codec: Codec, record: &[u8], b_frames: BFrames) -> Result<Self, RecordError> {
        let codec = match codec {
            Codec::H264 => ByCodec::H264(Box::new(h264::Filter::new(record)?)),
            Codec::H265 => ByCodec::H265(Box::new(h265::Filter::new(record)?)),
            _ => return Err(RecordError::Version),
        };
        Ok(Self { codec, b_frames, refused: None })
    }

    /// One of another process, with the settings of this one.
    pub(crate) fn resumed(self, b_frames: BFrames) -> Self {
        Self { b_frames, ..self }
    }

    /// Decides about one frame; `key`: the container says that it is a key frame.
    ///
    /// What is to be sent of it is in `out` afterwards, parameter sets in front of key frames;
    /// nothing if it is not kept.
    pub fn frame(&mut self, frame: &[u8], key: bool, out: &mut Nals) -> Verdict {
        out.clear();
        if let Some(refusal) = self.refused {
            return Verdict::Refuse(refusal);
        }
        let (seen, gate) = match &mut self.codec {
            ByCodec::H264(filter) => (filter.units(frame, out), &mut filter.gate),
            ByCodec::H265(filter) => (filter.units(frame, out), &mut filter.gate),
        };
        let verdict = match seen {
            Err(Stop::Broken) => {
                gate.started = false;
                Verdict::Drop(Dropped::Broken)
            }
            Err(Stop::Refused(refusal)) => Verdict::Refuse(refusal),
            Ok(seen) if seen.key => return Verdict::Keep { key: true },
            Ok(seen) if seen.pictures == 0 => Verdict::Drop(Dropped::Empty),
            Ok(seen) => {
                gate.open_key_frames += u32::from(key);
                if gate.open_key_frames >= OPEN_KEY_FRAMES_MAX {
                    Verdict::Refuse(Refusal::NoIdr)
                } else if !gate.started {
                    Verdict::Drop(Dropped::NoKeyFrame)
                } else if seen.sent > 0 {
                    return Verdict::Keep { key: false };
                } else if self.b_frames == BFrames::Refuse {
                    Verdict::Refuse(Refusal::BFrames)
                } else {
                    Verdict::Drop(Dropped::BFrame)
                }
            }
        };
        out.clear();
        if let Verdict::Refuse(refusal) = verdict {
            self.refused = Some(refusal);
        }
        verdict
    }

    /// Value of `a=fmtp`.
    pub fn fmtp(&self) -> String {
        match &self.codec {
            ByCodec::H264(filter) => filter.fmtp(),
            ByCodec::H265(filter) => filter.fmtp(),
        }
    }
}

/// Key frames of the container that are no IDR pictures, after which viewers that come would wait for ever.
const OPEN_KEY_FRAMES_MAX: u32 = 2;
