//! Streams as all workers and the control side name them, and what is known of what is published.

mod description;

pub use description::{DESCRIPTION_BYTES_MAX, DescriptionError};

use std::fmt;
use std::sync::Arc;

use bridge::Refused;
use rtc::sdp::TrackDescription;

/// Number of a stream, the same on all workers; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub u64);

/// Number of a publication; a later one of the same stream is larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(pub u64);

/// What is published in a stream of packets.
pub type PublishedTracks = Arc<[TrackDescription]>;

/// What a stream of frames would be as packets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum WebrtcAvailability {
    /// The publisher has not said enough yet.
    #[default]
    Unknown,
    /// Packets of these tracks; if one of the publisher's is missing, why.
    Tracks(PublishedTracks, Option<NotBridged>),
    /// Nothing, for this reason.
    Impossible(NotBridged),
}

/// Why players of the other lane do not get what is published, or not all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotBridged {
    /// It is published as frames, and bridges are off.
    ToPacketsOff,
    /// It is published as packets, and bridges are off.
    ToFramesOff,
    /// The stream met a bug.
    Bug,
    /// WebRTC has no way to carry it.
    Refused(Refused),
}

impl fmt::Display for NotBridged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ToPacketsOff => {
                "the stream is published by RTMP, and bridges to WebRTC are off for this application"
            }
            Self::ToFramesOff => {
                "the stream is published by WebRTC, and bridges to RTMP are off for this application"
            }
            Self::Bug => "a defect in the server, which is logged",
            Self::Refused(refused) => return refused.fmt(f),
        })
    }
}

/// How a stream is published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Published {
    /// It has no publisher.
    Nobody,
    /// It is published as frames, which make these packets.
    Frames(WebrtcAvailability),
    /// It is published as packets of these tracks.
    Packets(PublishedTracks),
}
