//! Why WebRTC viewers do not get what a publisher sends, and the text for their error and the log.

use std::fmt;

use rtp::payload::Codec;

use crate::b_frames;

/// Why a track is not offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackRefusal {
    /// WebRTC has no such video codec.
    NoCodec(Codec),
    /// Audio of this codec is neither sent as it is nor transcoded.
    NotTranscoded(Codec),
    /// Opus with a channel mapping that RTP has no place for.
    OpusChannels,
    /// The sequence header is longer than any that makes sense.
    HeaderTooLong(Codec),
    /// The sequence header cannot be read.
    HeaderBroken(Codec),
    /// Its pictures cannot be shown.
    Pictures(b_frames::Refusal),
    /// The transcoder does not take it, for this reason.
    Transcoder(&'static str),
}

/// What of a publisher is refused: video, audio, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Why there is no video.
    pub video: Option<TrackRefusal>,
    /// Why there is no audio.
    pub audio: Option<TrackRefusal>,
}

impl fmt::Display for TrackRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCodec(codec) => write!(f, "WebRTC has no {codec}"),
            Self::NotTranscoded(codec) => write!(f, "{codec} is not transcoded"),
            Self::OpusChannels => f.write_str("WebRTC has no Opus of more than two channels"),
            Self::HeaderTooLong(codec) => write!(f, "the sequence header of {codec} is too long"),
            Self::HeaderBroken(codec) => write!(f, "the sequence header of {codec} is broken"),
            Self::Pictures(refusal) => f.write_str(refusal.text()),
            Self::Transcoder(reason) => f.write_str(reason),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.video, self.audio) {
            (Some(video), Some(audio)) => write!(f, "video: {video}; audio: {audio}"),
            (Some(video), None) => write!(f, "video: {video}"),
            (None, Some(audio)) => write!(f, "audio: {audio}"),
            (None, None) => Ok(()),
        }
    }
}
