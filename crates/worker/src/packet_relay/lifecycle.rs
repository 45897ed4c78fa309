//! Streams of other nodes begin and end here, and streams that other nodes get.

use std::sync::Arc;

use relay::{OpenKey, SealKey};

use super::encodings::Encodings;
use super::fetch::Fetched;
use super::serve::{Served, ServedSource};
use super::starts::Starts;
use super::{Counts, split};
use crate::event_loop::Worker;
use crate::ids::PacketStreamId;
use crate::packets::inputs;
use crate::publication::{LaneStream, Source};
use crate::registry::{Claimant, Epoch, Lane, Origin, Published, PublishedTracks, StreamId};
use worker_api::EndReason;
use worker_api::relay::{LinkId, Offered, RelayNotice, RelayRefusal};

impl Worker {
    /// Publishes another node's stream here.
    pub(super) fn fetch(
        &mut self,
        link: LinkId,
        key: &str,
        tracks: PublishedTracks,
        keys: Vec<OpenKey>,
    ) -> Result<worker_api::relay::Fetched, RelayRefusal> {
        if self.ctx.draining_until.is_some() {
            return Err(RelayRefusal::Draining);
        }
        let relay = self.relay.as_mut().ok_or(RelayRefusal::NoRelay)?;
        let (into, handle) = relay.attach_stream(&self.ctx, link, &keys)?;
        let claim =
            self.ctx.directory.claim(key, self.ctx.worker, Claimant::Fetch, Some(Arc::clone(&tracks)));
        let Ok(claim) = claim else {
            relay.receiver.remove_stream(self.ctx.now, into);
            return Err(RelayRefusal::Taken);
        };
        let (id, epoch) = (claim.id, claim.epoch);
        let stream = self.claimed_packets(&claim, split(key), &tracks);
        let entry = &mut self.packets.streams[stream];
        entry.sfu.relayed_publisher_started(self.ctx.now, epoch.0, inputs::relayed(&tracks));
        if let Some(relay) = &mut self.relay {
            let fetched = Fetched {
                key: key.into(),
                stream,
                epoch,
                into,
                keys,
                parents: vec![link],
                out: None,
                starts: Starts::default(),
                encodings: Encodings::all_of(&tracks),
                has_said: false,
                newest: None,
                counts: Counts::default(),
            };
            tracing::info!(stream = &*fetched.key, ?link, "stream of another node");
            relay.fetched.insert(id, fetched);
            let len = relay.of_in.len().max(into.index() + 1);
            relay.of_in.resize(len, None);
            relay.of_in[into.index()] = Some(id);
            if relay.forwarded(id).is_err() {
                tracing::warn!(stream = key, "nothing is kept for further nodes");
            }
        }
        self.start_packets(&claim, stream, Origin::Node, tracks);
        self.packets.update_watched(self.ctx.now, stream);
        Ok(worker_api::relay::Fetched { epoch, handle })
    }

    /// Ends a fetched stream because of something on this worker, and notifies the thread of `nodes`.
    pub(crate) fn end_fetch(&mut self, id: StreamId, reason: EndReason) {
        let Some(relay) = &self.relay else { return };
        let Some(fetched) = relay.fetched.get(&id) else { return };
        let stream = fetched.key.to_string();
        relay.notify(RelayNotice::FetchEnded { stream, epoch: fetched.epoch, reason });
        self.forget_fetched(id, reason);
    }

    /// Ends a fetched stream.
    pub(super) fn forget_fetched(&mut self, id: StreamId, reason: EndReason) {
        self.end_served(id);
        let Some(relay) = &mut self.relay else { return };
        let Some(fetched) = relay.fetched.remove(&id) else { return };
        relay.receiver.remove_stream(self.ctx.now, fetched.into);
        relay.of_in[fetched.into.index()] = None;
        if let Some(out) = fetched.out {
            relay.sender.remove_stream(out);
            relay.of_out.remove(&out);
        }
        let Counts { packets, bytes } = fetched.counts;
        tracing::info!(
            stream = &*fetched.key,
            reason = reason.text(),
            packets,
            bytes,
            "stream of another node ended"
        );
        let source = Source { epoch: fetched.epoch, origin: Origin::Node };
        self.end_publication(LaneStream::Packets(fetched.stream), source);
    }

    /// Ends a publication of another node, if it is still this one.
    pub(super) fn end_fetch_of(&mut self, stream: &str, epoch: Epoch) {
        let Some(relay) = &self.relay else { return };
        let Some(id) = relay.id_of(&self.ctx, stream) else { return };
        if relay.fetched.get(&id).is_some_and(|fetched| fetched.epoch == epoch) {
            self.forget_fetched(id, EndReason::ClosedByPeer);
        }
    }

    /// Prepares to serve a stream, and says what it is.
    pub(super) fn offer(&mut self, key: &str) -> Result<Offered, RelayRefusal> {
        if self.ctx.draining_until.is_some() {
            return Err(RelayRefusal::Draining);
        }
        let Some((id, home, tracks)) = self.ctx.directory.packets(key) else {
            return Err(match self.ctx.directory.published(key) {
                Published::Nobody | Published::Packets(_) => RelayRefusal::NoStream,
                Published::Frames(_) => RelayRefusal::NotPackets,
            });
        };
        let known = self.relay.as_ref().and_then(|relay| relay.served.get(&id));
        if known.is_some_and(|served| served.epoch != home.epoch) {
            self.end_served(id);
        }
        let relay = self.relay.as_mut().ok_or(RelayRefusal::NoRelay)?;
        if let Some(served) = relay.served.get_mut(&id) {
            served.idle_since = self.ctx.now;
        } else if let Some(fetched) = relay.fetched.get(&id) {
            let stream = fetched.stream;
            let out = relay.forwarded(id)?;
            let of = (key.into(), stream, home.epoch);
            let served = Served::new(of, (out, ServedSource::Forwarded), &tracks, self.ctx.now);
            relay.served.insert(id, served);
        } else {
            let first = SealKey::random(0);
            let keys = vec![first.open_key()];
            let out = relay.sender.add_stream(first)?;
            let subscribed = self.subscribe(Lane::Packets, key, split(key), None);
            let stream = subscribed.and_then(|id| self.packets.streams.find(id));
            let relay = self.relay.as_mut().ok_or(RelayRefusal::NoRelay)?;
            let Some(stream) = stream else {
                relay.sender.remove_stream(out);
                return Err(RelayRefusal::NoStream);
            };
            let source = ServedSource::Sealed { keys, next: None, is_worn: false };
            let served = Served::new((key.into(), stream, home.epoch), (out, source), &tracks, self.ctx.now);
            relay.served.insert(id, served);
            relay.of_out.insert(out, id);
            // What waits is in the cache already, and would be sealed twice.
            self.packets.forward(&mut self.ctx);
            self.packets.streams[stream].is_served = true;
            self.packets.player_joined(&self.ctx, stream);
            // Which encodings they begin with.
            if let Some(relay) = &mut self.relay {
                relay.review.push(id);
            }
            self.review_encodings();
            self.seal_cached(id, stream);
        }
        let keys = self.relay.as_ref().map_or(Vec::new(), |relay| relay.keys(id));
        Ok(Offered { epoch: home.epoch, tracks, keys })
    }

    /// Seals what a player would begin with, for nodes that come.
    fn seal_cached(&mut self, id: StreamId, stream: PacketStreamId) {
        let Some(served) = self.relay.as_mut().and_then(|relay| relay.served.get_mut(&id)) else { return };
        served.is_begun = true;
        let entry = &mut self.packets.streams[stream];
        let mut cached = entry
            .sfu
            .cached_for_relay(self.ctx.now, |track| entry.relayed.iter().any(|(it, _)| *it == track));
        cached.sort_by_key(|(packet, _)| packet.arrival());
        // Of what nothing is cached, as soon as possible.
        for (track, encoding) in
            entry.relayed.iter().flat_map(|(track, set)| set.iter().map(|at| (*track, at)))
        {
            if !cached.iter().any(|(packet, _)| packet.track() == track && packet.encoding() == encoding) {
                entry.sfu.request_key_frame_of_encoding(self.ctx.now, track, encoding);
            }
        }
        self.serve_packets(id, &cached);
    }

    /// A stream has a source. If that is another publication than the one other nodes get, serving ends.
    pub(crate) fn review_served(&mut self, stream: PacketStreamId) {
        let Some(relay) = &self.relay else { return };
        let publication = &self.packets.streams[stream].publication;
        let epoch = publication.source.map(|source| source.epoch);
        if relay.served.get(&publication.id).is_some_and(|served| Some(served.epoch) != epoch) {
            self.end_served(publication.id);
        }
    }

    /// The publication that other nodes get has ended.
    pub(crate) fn end_served(&mut self, id: StreamId) {
        let Some(relay) = &self.relay else { return };
        let Some(served) = relay.served.get(&id) else { return };
        relay.notify(RelayNotice::ServedEnded { stream: served.key.to_string(), epoch: served.epoch });
        self.forget_served(id);
    }

    /// Other nodes get no more of a stream.
    pub(super) fn forget_served(&mut self, id: StreamId) {
        let Some(relay) = &mut self.relay else { return };
        let Some(served) = relay.served.remove(&id) else { return };
        relay.catching_up.retain(|(of, _)| *of != id);
        match served.source {
            // What is kept of a stream that is fetched is kept as long as that.
            ServedSource::Forwarded => {
                for link in served.children.iter().filter_map(|link| relay.links.get(link)) {
                    relay.sender.unsubscribe(served.out, link.ends.out);
                }
                if let Some(stream) = self.packets.streams.get_mut(served.stream) {
                    stream.is_sent_on = false;
                }
                relay.review.push(id);
            }
            ServedSource::Sealed { .. } => {
                relay.sender.remove_stream(served.out);
                relay.of_out.remove(&served.out);
                let entry = self.packets.streams.get_mut(served.stream);
                if let Some(entry) = entry.filter(|entry| entry.publication.id == id) {
                    entry.is_served = false;
                    entry.relayed.clear();
                    entry.review_mirrored(self.ctx.now);
                    self.packets.player_left(&mut self.ctx, served.stream);
                }
            }
        }
        tracing::debug!(stream = &*served.key, "stream goes to no node any more");
    }
}
