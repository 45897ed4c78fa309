//! What a bridge can offer of a stream, and why some of it is missing.

use std::sync::Arc;

use rtp::payload::Codec;

use super::audio::Audio;
use super::video::Video;

/// Video as viewers are told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedVideo {
    /// Payload format.
    pub codec: Codec,
    /// `a=fmtp` value: profile and level; may be empty.
    pub fmtp: String,
}

/// What can be offered of a stream in packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PublishedFormats {
    /// Video, if there is some that can be bridged, or was until the publisher ended it.
    pub video: Option<PublishedVideo>,
    /// Audio as it is sent in packets, if there is some that can be bridged, or was until the publisher ended it.
    pub audio: Option<Codec>,
    /// Why video or audio is missing although the publisher sends it: for the player's error and the log.
    pub refused: Option<Arc<str>>,
}

pub(super) fn join(video: &Video, audio: &Audio) -> PublishedFormats {
    let refused = match (video.refused(), audio.refused()) {
        (Some(video), Some(audio)) => Some(format!("{video}; {audio}").into()),
        (Some(one), None) | (None, Some(one)) => Some(Arc::clone(one)),
        (None, None) => None,
    };
    PublishedFormats { video: video.published().cloned(), audio: audio.published(), refused }
}
