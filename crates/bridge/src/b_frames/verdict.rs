//! What becomes of a frame, why, and what the codecs see in one.

use media::bitstream::Malformed;
use serde::{Deserialize, Serialize};

/// What becomes of a stream whose pictures are not shown in the order they are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BFrames {
    /// Pictures that no other needs are left out.
    #[default]
    Drop,
    /// The stream is not bridged.
    Refuse,
}

/// Warning for the operator, once per stream whose B-frames are left out.
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
    /// It counts its pictures in a way that is not followed.
    PictureOrder,
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
            Self::PictureOrder => {
                "the order of the pictures is coded as type 1, which is not supported: use another encoder \
                 (x264, OBS and ffmpeg use types 0 and 2)"
            }
            Self::NoIdr => {
                "the key frames of the stream are no IDR pictures, which WebRTC needs to start: turn open GOP and intra \
                 refresh off in the encoder (x264 options open-gop=0 intra-refresh=0)"
            }
        }
    }
}

/// What a frame had in it.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// A picture a decoder can start with.
    pub(super) key: bool,
    /// The picture is none as it came and becomes one.
    pub(super) recovers: bool,
    pub(super) pictures: u32,
    pub(super) sent: u32,
}

/// How far a stream has come, whichever its codec.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Gate {
    /// A picture a decoder can start with was there, and nothing has been broken since.
    pub(super) started: bool,
    /// Key frames of the container since then that are no IDR pictures.
    pub(super) open_key_frames: u32,
}

/// Why going through a frame ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    Broken,
    Refused(Refusal),
}

impl From<Malformed> for Stop {
    fn from(_: Malformed) -> Self {
        Self::Broken
    }
}
