//! Coded pictures of H.264 and H.265: parameter sets, picture order, and which pictures can be left out.
//!
//! ```text
//! sequence header ─▶ record ─▶ parameter sets ─┐ (rewritten: decoders do not wait)
//! frame ─▶ nal ─▶ headers of slices ─▶ order, references ─▶ Verdict, units to send
//! ```
//! WebRTC shows pictures in the order they are sent, so a picture that is to be shown ahead of one already sent has to be
//! left out. That is valid only where no picture that is sent refers to it: [`PictureFilter`] follows the reference
//! pictures of encoder and decoder and refuses a stream where they part. `docs/decisions/0018-b-frames.md` has the reasons.
//!
//! AV1 and VP8/VP9 need nothing of the kind: pictures that are not shown at once travel within the temporal unit or
//! superframe of one that is, and a frame of the container always shows exactly one, in order.

mod bits;
mod h264;
mod h265;
mod nal;
mod record;

pub use nal::{NAL_UNITS_MAX, NalError, NalUnits, Nals};
pub use record::{PARAMETER_SET_BYTES_MAX, PARAMETER_SETS_MAX, Record, RecordError, read_avcc, read_hvcc};
use rtp::payload::Codec;

use crate::frame_to_rtp::BFrames;

/// What an operator is told once of a stream whose B-frames are left out.
pub const B_FRAMES_WARNING: &str = "the stream has B-frames, which WebRTC cannot show; they are left out for WebRTC \
     viewers, who see fewer pictures per second: set B-frames to 0 in the encoder (OBS: \"Max B-frames\" 0 or x264 option \
     bframes=0; ffmpeg: -bf 0)";

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is sent.
    Keep {
        /// A decoder can start with it, and the parameter sets are ahead of it.
        key: bool,
    },
    /// It is left out; the stream goes on.
    Drop(Dropped),
    /// Nothing more of this stream can be sent, until its configuration changes.
    Refuse(Refusal),
}

/// Why a frame was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// It is to be shown ahead of a picture that was sent.
    BFrame,
    /// No key frame was there yet, or none since a broken frame.
    NoKeyFrame,
    /// Its bytes are no NAL units, or a header cannot be read.
    Broken,
    /// It has no picture.
    Empty,
}

/// Why a stream cannot be shown by WebRTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// It has B-frames, and the settings say to refuse these.
    BFrames,
    /// Pictures that would be sent refer to B-frames that would be left out.
    ReferencedBFrames,
    /// No picture a decoder can start with comes where the encoder marks its key frames.
    NoIdr,
}

impl Refusal {
    /// For the player's error and the log: what it is, and which setting of the encoder to change.
    pub fn text(self) -> &'static str {
        match self {
            Self::BFrames => {
                "the stream has B-frames, which WebRTC cannot show, and bridge_b_frames is \"refuse\": set B-frames to 0 in the \
                 encoder (OBS: \"Max B-frames\" 0 or x264 option bframes=0; ffmpeg: -bf 0)"
            }
            Self::ReferencedBFrames => {
                "the stream has B-frames that other pictures are predicted from, so they cannot be left out for WebRTC: set \
                 B-frames to 0 in the encoder (OBS: \"Max B-frames\" 0 or x264 option bframes=0; ffmpeg: -bf 0), or at \
                 least turn B-frames as references off (x264 option b-pyramid=none, NVENC: b_ref_mode disabled)"
            }
            Self::NoIdr => {
                "the key frames of the stream are no IDR pictures, which WebRTC needs to start: turn open GOP and intra \
                 refresh off in the encoder (x264 options open-gop=0 intra-refresh=0)"
            }
        }
    }
}

/// Key frames of the container that are no IDR pictures, after which viewers that come would wait for ever.
const OPEN_KEY_FRAMES_MAX: u32 = 2;

/// Frames of one configuration: keeps what can be shown in the order it is sent.
///
/// **Make a new one when the sequence header changes, and only then.** After one frame was refused, all are.
#[derive(Debug)]
pub struct PictureFilter {
    codec: ByCodec,
}

#[derive(Debug)]
enum ByCodec {
    H264(Box<h264::Filter>),
    H265(Box<h265::Filter>),
}

impl PictureFilter {
    /// A filter for frames of `codec`, H.264 or H.265, with the decoder configuration `record` (`avcC` or `hvcC`).
    ///
    /// # Errors
    /// The record cannot be used.
    pub fn new(codec: Codec, record: &[u8], b_frames: BFrames) -> Result<Self, RecordError> {
        let codec = match codec {
            Codec::H264 => ByCodec::H264(Box::new(h264::Filter::new(record, b_frames)?)),
            Codec::H265 => ByCodec::H265(Box::new(h265::Filter::new(record, b_frames)?)),
            _ => return Err(RecordError::Version),
        };
        Ok(Self { codec })
    }

    /// Decides about one frame; `key`: the container says that it is a key frame.
    ///
    /// What is to be sent of it is in `out` afterwards, parameter sets in front of key frames; nothing if it is not kept.
    pub fn frame(&mut self, frame: &[u8], key: bool, out: &mut Nals) -> Verdict {
        out.clear();
        let verdict = match &mut self.codec {
            ByCodec::H264(filter) => filter.frame(frame, key, out),
            ByCodec::H265(filter) => filter.frame(frame, key, out),
        };
        if !matches!(verdict, Verdict::Keep { .. }) {
            out.clear();
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

/// What a frame had in it.
#[derive(Debug, Default)]
struct Seen {
    /// A picture a decoder can start with.
    key: bool,
    /// The picture is none as it came and becomes one.
    recovers: bool,
    pictures: u32,
    sent: u32,
}

/// Why going through a frame ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Broken,
    Refused(Refusal),
}

impl From<bits::Malformed> for Stop {
    fn from(_: bits::Malformed) -> Self {
        Self::Broken
    }
}
