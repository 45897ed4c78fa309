//! Tracks of several encodings between nodes: which of them are sent, and which are asked for.
//!
//! Each node says to those that it gets a stream from which encodings it leaves out: those that neither its own
//! viewers nor the nodes behind it use. A node that has not said anything gets what viewers without a
//! target would get, the best one of each track.

use sfu::{EncodingSet, RelayedTrack, TrackIndex};

use super::serve::ServedSource;
use super::{Link, PacketRelay};
use crate::event_loop::Worker;
use crate::packets::inputs;
use crate::registry::{PublishedTracks, StreamId};

/// The tracks of a stream that cross by encodings. Few.
#[derive(Debug, Default)]
pub(super) struct Encodings(Vec<OfTrack>);

#[derive(Debug)]
struct OfTrack {
    track: TrackIndex,
    all: EncodingSet,
    /// What this node uses itself, once known. Of a fetched stream.
    own: Option<EncodingSet>,
    /// What is sent to any node, or asked for.
    wanted: EncodingSet,
}

/// Encodings of a track that are used from now on; of these, those that were not before; and those that
/// are used no longer.
struct Change {
    track: TrackIndex,
    wanted: EncodingSet,
    new: EncodingSet,
    gone: EncodingSet,
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
    fn left_out(&self, wants: impl Fn(&OfTrack, u8) -> bool) -> Vec<u32> {
        let ssrcs = |of: &OfTrack| -> Vec<u32> {
            let left_out = of.all.iter().filter(|at| !wants(of, *at));
            left_out.map(|at| of.track.relayed_ssrc(at)).collect()
        };
        self.0.iter().flat_map(ssrcs).collect()
    }

    /// Sets what is wanted of each track; what has changed.
    fn set(&mut self, wanted: impl Fn(&OfTrack) -> EncodingSet) -> Vec<Change> {
        let changes = self.0.iter_mut().filter_map(|of| {
            let wanted = wanted(of);
            let before = std::mem::replace(&mut of.wanted, wanted);
            let (new, gone) = (wanted.without(before), before.without(wanted));
            (wanted != before).then_some(Change { track: of.track, wanted, new, gone })
        });
        changes.collect()
    }
}

impl Worker {
    /// Players of a stream that is fetched use these encodings of a track.
    pub(crate) fn use_encodings(&mut self, id: StreamId, track: TrackIndex, wanted: EncodingSet) {
        let Some(relay) = &mut self.relay else { return };
        let Some(fetched) = relay.fetched.get_mut(&id) else { return };
        if let Some(of) = fetched.encodings.0.iter_mut().find(|of| of.track == track) {
            of.own = Some(wanted);
            relay.review.push(id);
        }
    }

    /// Reviews which encodings other nodes get, and which they are asked for, of streams where that may have
    /// changed.
    pub(super) fn review_encodings(&mut self) {
        let Some(relay) = &mut self.relay else { return };
        let mut review = std::mem::take(&mut relay.review);
        review.sort_unstable();
        review.dedup();
        for id in review.drain(..) {
            self.review_served_encodings(id);
            self.review_fetched_encodings(id);
        }
        if let Some(relay) = &mut self.relay {
            relay.review = review;
        }
    }

    fn review_served_encodings(&mut self, id: StreamId) {
        let Some(relay) = &mut self.relay else { return };
        let PacketRelay { sender, served, links, .. } = &mut **relay;
        let Some(served) = served.get_mut(&id).filter(|served| !served.encodings.0.is_empty()) else {
            return;
        };
        let Some(stream) = self.packets.streams.get_mut(served.stream) else { return };
        let best = |track: TrackIndex| stream.sfu.main_layer(track).and_then(|layer| layer.encoding);
        // Of nodes that have not said what they leave out.
        let left_out = served.encodings.left_out(|of, at| best(of.track).is_none_or(|best| best == at));
        for Link { ends, .. } in served.children.iter().filter_map(|child| links.get(child)) {
            sender.leave_out(served.out, ends.out, &left_out);
        }
        if matches!(served.source, ServedSource::Forwarded) {
            stream.is_sent_on = !served.children.is_empty();
            return;
        }
        let changes = served.encodings.set(|of| {
            let best = best(of.track);
            let is_wanted = |at: &u8| match served.children.is_empty() {
                true => best.is_none_or(|best| best == *at),
                false => sender.is_wanted(served.out, of.track.relayed_ssrc(*at)),
            };
            of.all.iter().filter(is_wanted).fold(EncodingSet::NONE, EncodingSet::with)
        });
        if changes.is_empty() {
            return;
        }
        for Change { track, wanted, gone, .. } in &changes {
            tracing::debug!(stream = &*served.key, ?track, ?wanted, "encodings that other nodes get");
            stream.relayed.retain(|(known, _)| known != track);
            stream.relayed.push((*track, *wanted));
            gone.iter().for_each(|at| served.starts.forget(track.relayed_ssrc(at)));
        }
        stream.review_mirrored(self.ctx.now);
        if served.is_begun {
            for (track, at) in changes.iter().flat_map(|of| of.new.iter().map(|at| (of.track, at))) {
                served.report_soon(track.relayed_ssrc(at));
                stream.sfu.request_key_frame_of_encoding(self.ctx.now, track, at);
            }
        }
        self.packets.streams.mark_dirty(served.stream);
    }

    fn review_fetched_encodings(&mut self, id: StreamId) {
        let Some(relay) = &mut self.relay else { return };
        let PacketRelay { sender, receiver, served, fetched, .. } = &mut **relay;
        let Some(fetched) = fetched.get_mut(&id) else { return };
        // Before anything is known of them, the other node sends what it takes for the best.
        if fetched.encodings.0.iter().all(|of| of.own.is_none()) {
            return;
        }
        let children = served.get(&id).filter(|served| !served.children.is_empty());
        let changes = fetched.encodings.set(|of| {
            let is_wanted = |at: &u8| {
                of.own.is_none_or(|own| own.has(*at))
                    || children.is_some_and(|served| sender.is_wanted(served.out, of.track.relayed_ssrc(*at)))
            };
            of.all.iter().filter(is_wanted).fold(EncodingSet::NONE, EncodingSet::with)
        });
        if changes.is_empty() && fetched.has_said {
            return;
        }
        fetched.has_said = true;
        let left_out = fetched.encodings.left_out(|of, at| of.wanted.has(at));
        receiver.leave_out(self.ctx.now, fetched.into, &left_out);
        for Change { track, wanted, gone, .. } in changes {
            tracing::debug!(stream = &*fetched.key, ?track, ?wanted, "encodings that are fetched");
            gone.iter().for_each(|at| fetched.starts.forget(track.relayed_ssrc(at)));
            if let Some(stream) = self.packets.streams.get_mut(fetched.stream) {
                stream.sfu.set_arriving(self.ctx.now, track, wanted);
            }
        }
        self.packets.streams.mark_dirty(fetched.stream);
    }
}
