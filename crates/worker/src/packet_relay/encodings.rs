//! Tracks of several encodings between nodes: which of them are sent, and which are asked for.
//!
//! Each node says to those that it gets a stream from which encodings it leaves out: those that
//! neither its own viewers nor the nodes behind it use. A node that has not said anything gets what
//! viewers without a target would get, the best one of each track.

use sfu::{EncodingSet, RelayedTrack, TrackIndex};

use crate::packets::inputs;
use crate::registry::PublishedTracks;

/// The tracks of a stream that cross by encodings. Few.
#[derive(Debug, Default)]
pub(super) struct Encodings(pub(super) Vec<OfTrack>);

#[derive(Debug)]
pub(super) struct OfTrack {
    pub(super) track: TrackIndex,
    pub(super) all: EncodingSet,
    /// What this node uses itself, once known. Of a fetched stream.
    pub(super) own: Option<EncodingSet>,
    /// What is sent to any node, or asked for.
    pub(super) wanted: EncodingSet,
}

/// Encodings of a track that are used from now on; of these, those that were not before; and those that
/// are used no longer.
pub(super) struct Change {
    pub(super) track: TrackIndex,
    pub(super) wanted: EncodingSet,
    pub(super) new: EncodingSet,
    pub(super) gone: EncodingSet,
}

impl Encodings {
    /// Those of a stream, of which none are sent yet.
    pub(super) fn of(tracks: &PublishedTracks) -> Self {
        let mut counts = [0; 2];
        let tracks = inputs::relayed(tracks).filter_map(|described: RelayedTrack| {
            let count = &mut counts[usize::from(described.kind == rtp::payload::MediaKind::Video)];
            let track = TrackIndex::new(described.kind, *count);
            *count += 1;
            let all = EncodingSet::first(described.encodings);
            let wanted = EncodingSet::NONE;
            described.is_split().then_some(OfTrack { track: track?, all, own: None, wanted })
        });
        Self(tracks.collect())
    }

    /// The same, all of which come.
    pub(super) fn all_of(tracks: &PublishedTracks) -> Self {
        let mut encodings = Self::of(tracks);
        encodings.0.iter_mut().for_each(|of| of.wanted = of.all);
        encodings
    }

    /// Whether a track crosses by encodings.
    pub(super) fn has(&self, track: TrackIndex) -> bool {
        self.0.iter().any(|of| of.track == track)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn tracks(&self) -> impl Iterator<Item = TrackIndex> {
        self.0.iter().map(|of| of.track)
    }

    /// SSRCs of what `wants` says no to.
    pub(super) fn left_out(&self, wants: impl Fn(&OfTrack, u8) -> bool) -> Vec<u32> {
        let ssrcs = |of: &OfTrack| -> Vec<u32> {
            let left_out = of.all.iter().filter(|at| !wants(of, *at));
            left_out.map(|at| of.track.relayed_ssrc(at)).collect()
        };
        self.0.iter().flat_map(ssrcs).collect()
    }

    /// Sets what is wanted of each track; what has changed.
    pub(super) fn set(&mut self, wanted: impl Fn(&OfTrack) -> EncodingSet) -> Vec<Change> {
        let changes = self.0.iter_mut().filter_map(|of| {
            let wanted = wanted(of);
            let before = std::mem::replace(&mut of.wanted, wanted);
            let (new, gone) = (wanted.without(before), before.without(wanted));
            (wanted != before).then_some(Change { track: of.track, wanted, new, gone })
        });
        changes.collect()
    }
}
