//! Streams as all workers and the control side name them, and what is known of what is published.

use std::sync::Arc;

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
    Tracks(PublishedTracks, Option<Arc<str>>),
    /// Nothing, for this reason.
    Impossible(Arc<str>),
}

/// What there is of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Published {
    /// It has no publisher.
    Nobody,
    /// It is published as frames, which make these packets.
    Frames(WebrtcAvailability),
    /// It is published as packets of these tracks.
    Packets(PublishedTracks),
}
