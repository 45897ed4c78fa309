//! Which encodings other nodes get, and which they are asked for, looked at again where that may
//! have changed.

use sfu::{EncodingSet, TrackIndex};

use super::encodings::Change;
use super::serve::ServedSource;
use super::{Link, PacketRelay};
use crate::event_loop::Worker;
use crate::registry::StreamId;

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
