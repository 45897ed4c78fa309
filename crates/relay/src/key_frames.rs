//! Key-frame requests of all nodes for the tracks of one stream, merged to what one publisher would
//! get.

use ssrc_map::SsrcMap;
use std::time::Instant;

use crate::limits::KEY_FRAME_INTERVAL;

/// The tracks of a stream, by SSRC.
#[derive(Debug)]
pub(crate) struct KeyFrames {
    tracks: SsrcMap<Track>,
}

#[derive(Debug, Default)]
struct Track {
    requested_at: Option<Instant>,
    is_waiting: bool,
}

impl KeyFrames {
    pub(crate) fn new(tracks_max: usize) -> Self {
        Self { tracks: SsrcMap::new(tracks_max) }
    }

    /// A packet of this SSRC is sent. When there are as many tracks as there may be, it is not
    /// remembered.
    #[inline]
    pub(crate) fn note(&mut self, ssrc: u32) {
        if !self.tracks.contains(ssrc) {
            let _ = self.tracks.insert(ssrc, Track::default());
        }
    }

    /// A node asks for a key frame: when the publisher may be asked, if it is not to be already.
    pub(crate) fn request(&mut self, now: Instant, ssrc: u32) -> Option<Instant> {
        let track = self.tracks.get_mut(ssrc).filter(|track| !track.is_waiting)?;
        track.is_waiting = true;
        Some(track.requested_at.map_or(now, |at| now.max(at + KEY_FRAME_INTERVAL)))
    }

    /// The publisher is asked, or will not be.
    pub(crate) fn requested(&mut self, ssrc: u32, at: Option<Instant>) {
        if let Some(track) = self.tracks.get_mut(ssrc) {
            track.is_waiting = false;
            track.requested_at = at.or(track.requested_at);
        }
    }
}
