//! What viewers' paths carry, and layers by their names: what viewers ask for and what they get.
//!
//! `sfu` numbers the encodings of a track and chooses among them; publishers have named them by RIDs.

use std::sync::Arc;
use std::time::Instant;

use rtc::sdp::TrackDescription;
use rtp::payload::MediaKind;
use sfu::{Layer, LayerRate, Share, TrackIndex, ViewerId};

use super::session::{Session, Subscription};
use super::streams::Stream;
use super::{Action, Actions, Packets};
use crate::context::Context;
use crate::ids::PeerId;
use crate::mailbox::{MessageBody, WorkerMessage};
use crate::publication::Source;
use crate::registry::{Lane, Origin};
use worker_api::rtc::{LayerChoice, LayerRefusal, LayerRequest};
use worker_api::snapshot::{
    RtcCounters, RtcLayer, RtcLayerSnapshot, RtcPathLayer, RtcPathSnapshot, RtcShare, SessionId,
};

impl Packets {
    /// Gives a viewer the layer that it asks for, or leaves the choice to its path again.
    pub(crate) fn choose_layer(
        &mut self,
        ctx: &mut Context,
        id: SessionId,
        request: LayerRequest,
    ) -> Result<(), LayerRefusal> {
        let peer = self.find(id).ok_or(LayerRefusal::NoSession)?;
        let session = self.sessions.get(peer).ok_or(LayerRefusal::NoSession)?;
        let subscription = session.subscriptions.first().ok_or(LayerRefusal::NoSession)?;
        let (stream_id, viewer) = (subscription.stream, subscription.viewer.ok_or(LayerRefusal::NoTrack)?);
        let track = subscription.video_track(request.track).ok_or(LayerRefusal::NoTrack)?;
        let is_paced = self.transports.get(peer).is_some_and(|transport| transport.pacer.is_some());
        let stream = self.streams.get(stream_id).ok_or(LayerRefusal::NoTrack)?;
        let layer = request.layer.map(|choice| stream.layer_for(ctx.now, track, &choice)).transpose()?;
        self.guard(ctx, peer, |packets, ctx| {
            let Some(stream) = packets.streams.get_mut(stream_id) else { return };
            stream.sfu.fix_layer(ctx.now, viewer, track, layer);
            // Without congestion control nothing would end the fixed one.
            if layer.is_none() && !is_paced {
                stream.sfu.set_layer(ctx.now, viewer, track, Layer::BEST);
            }
            packets.streams.mark_dirty(stream_id);
        });
        Ok(())
    }

    /// Adds what viewers' paths have counted, and how much of their video they get.
    pub(super) fn count_paths(&self, now: Instant, counters: &mut RtcCounters) {
        for (peer, session) in self.sessions.iter().filter(|(_, session)| session.is_connected()) {
            let pacer = self.transports.get(peer).and_then(|transport| transport.pacer.as_ref());
            if let Some(pacer) = pacer {
                let path = pacer.stats(now);
                counters.probes += path.probes;
                counters.viewers_stopped += u64::from(path.is_stopped);
                // Without reports of packets the estimate is what may be sent, mostly, and nothing known.
                if pacer.reports_packets() {
                    counters.estimate_bits_per_second += path.estimate_bits_per_second;
                    counters.target_bits_per_second += path.target_bits_per_second;
                }
            }
            for (stream, viewer) in self.viewers_of(session) {
                let stats = stream.sfu.viewer_stats(viewer).unwrap_or_default();
                counters.padding_bytes += stats.padding_bytes;
                counters.times_behind += stats.times_behind;
                counters.switches_up += u64::from(stats.switches_up);
                counters.switches_down += u64::from(stats.switches_down);
                match stats.share {
                    Share::All => counters.viewers_all += 1,
                    Share::KeyFrames => counters.viewers_key_frames += 1,
                    Share::Nothing => counters.viewers_audio_only += 1,
                }
            }
        }
    }

    /// What a viewer's path carries; `None` without congestion control.
    pub(super) fn path_snapshot(
        &self,
        now: Instant,
        peer: PeerId,
        session: &Session,
    ) -> Option<RtcPathSnapshot> {
        let path = self.transports.get(peer)?.pacer.as_ref()?.stats(now);
        let (stream, viewer) = self.viewers_of(session).next()?;
        let stats = stream.sfu.viewer_stats(viewer)?;
        let mut tracks = session.subscriptions.iter().flat_map(Subscription::video_tracks);
        Some(RtcPathSnapshot {
            estimate_bits_per_second: path.estimate_bits_per_second,
            target_bits_per_second: path.target_bits_per_second,
            limit_bits_per_second: session.bits_per_second_max,
            queue_ms: path.queue.as_secs_f32() * 1000.0,
            probes: path.probes,
            padding_bytes: stats.padding_bytes,
            times_behind: stats.times_behind,
            share: match stats.share {
                Share::All => RtcShare::All,
                Share::KeyFrames => RtcShare::KeyFrames,
                Share::Nothing => RtcShare::AudioOnly,
            },
            is_stopped: path.is_stopped,
            layer: tracks.next().and_then(|track| stream.layer_of(now, viewer, track)),
        })
    }

    fn viewers_of<'a>(&'a self, session: &'a Session) -> impl Iterator<Item = (&'a Stream, ViewerId)> {
        let subscriptions = session.subscriptions.iter();
        subscriptions
            .filter_map(|subscription| Some((self.streams.get(subscription.stream)?, subscription.viewer?)))
    }
}

impl Stream {
    /// Tells other workers which layers there are, and the home, worker or node, what is needed of them here.
    pub(super) fn exchange_layers(&mut self, ctx: &mut Context, actions: &mut Actions) {
        let Some(Source { epoch, origin }) = self.publication.source else { return };
        let about = (self.publication.id, epoch, Lane::Packets);
        if origin != Origin::Worker {
            let has_remotes = !self.publication.remotes.is_empty();
            if let Some(report) = has_remotes.then(|| self.sfu.poll_layers_report(ctx.now)).flatten() {
                let report = Arc::new(report);
                for remote in &self.publication.remotes {
                    let body = MessageBody::Layers(Arc::clone(&report));
                    let message = WorkerMessage { stream: about.0, epoch, lane: about.2, body };
                    if !ctx.mailboxes.try_send(remote.worker, message, ctx.now_ms + REPORT_WAKE_MS) {
                        tracing::trace!(
                            worker = remote.worker.0,
                            "report of layers left out: the ring is full"
                        );
                    }
                }
            }
            if origin == Origin::Node {
                let (remotes, has_bridge) = (&self.publication.remotes, self.publication.bridge.is_some());
                let needs_main = |track| has_bridge || remotes.iter().any(|it| it.wants(track).has_main());
                // Where only other workers, or nodes, have viewers, it is there for nobody.
                let awaits = remotes.is_empty() && (self.publication.players > 0 || !self.is_sent_on);
                while let Some((track, encodings)) =
                    self.sfu.poll_encodings_wanted(ctx.now, awaits, needs_main)
                {
                    let stream = self.publication.id;
                    actions.queue.push_back(Action::EncodingsWanted { stream, track, encodings });
                }
            }
            return;
        }
        let (is_served, has_bridge) = (self.is_served, self.publication.bridge.is_some());
        let relayed = &self.relayed;
        let is_split = |track| relayed.iter().any(|(known, _)| *known == track);
        let needs_main = |track| has_bridge || is_served && !is_split(track);
        while let Some((track, wanted)) = self.sfu.poll_layers_wanted(ctx.now, needs_main) {
            let home = ctx.directory.home(&self.publication.key).map(|(_, home)| home.worker);
            if let Some(home) = home.filter(|home| *home != ctx.worker) {
                ctx.send(home, about, MessageBody::LayersWanted { track, wanted });
            }
        }
    }
}

impl Subscription {
    /// The video tracks of the stream that it plays.
    fn video_tracks(&self) -> impl Iterator<Item = TrackIndex> + '_ {
        (0..self.tracks.len()).filter_map(|at| self.video_track(at))
    }

    /// The track of the stream that the one at `at` plays, if that is video.
    fn video_track(&self, at: usize) -> Option<TrackIndex> {
        let track = self.tracks.get(at).filter(|track| track.kind == MediaKind::Video)?;
        TrackIndex::new(track.kind, *self.published.get(at)?)
    }
}

impl Stream {
    /// What viewers can be given of a video track.
    pub(super) fn layer_snapshots(&self, now: Instant, track: TrackIndex) -> Vec<RtcLayerSnapshot> {
        let layers = self.sfu.layers(now, track);
        let mut viewers = vec![0; layers.len()];
        for layer in self.sfu.viewer_layers(track) {
            let layer = self.resolved(track, layer);
            if let Some(at) = layers.iter().position(|one| Some(one.layer) == layer) {
                viewers[at] += 1;
            }
        }
        let snapshot = |(one, viewers): (&LayerRate, u64)| RtcLayerSnapshot {
            layer: self.named(track, one.layer),
            bits_per_second: one.bits_per_second,
            is_live: one.is_live,
            size: one.size.map(|size| (size.width, size.height)),
            viewers,
        };
        layers.iter().zip(viewers).map(snapshot).collect()
    }

    /// What a viewer gets of a track. `None` before there is anything to get.
    fn layer_of(&self, now: Instant, viewer: ViewerId, track: TrackIndex) -> Option<RtcPathLayer> {
        let mut live = self.sfu.layers(now, track);
        live.retain(|one| one.is_live && one.bits_per_second > 0);
        let (current, wanted) = self.sfu.layer_of(viewer, track)?;
        let (current, wanted) = (self.resolved(track, current)?, self.resolved(track, wanted)?);
        let at = live.iter().position(|one| one.layer == current);
        let better = at.and_then(|at| live.get(at + 1));
        Some(RtcPathLayer {
            current: self.named(track, current),
            wanted: self.named(track, wanted),
            is_fixed: self.sfu.fixed_layer(viewer, track).is_some(),
            better: better.map(|better| (self.named(track, better.layer), better.bits_per_second)),
            least_bits_per_second: live.first().map_or(0, |least| least.bits_per_second),
        })
    }

    /// The layer that a viewer has asked for by name.
    fn layer_for(
        &self,
        now: Instant,
        track: TrackIndex,
        choice: &LayerChoice,
    ) -> Result<Layer, LayerRefusal> {
        let layers = self.sfu.layers(now, track);
        let encodings = layers.iter().filter_map(|one| one.layer.encoding).max().map_or(0, |most| most + 1);
        let encoding = match &choice.name {
            _ if encodings == 0 => return Err(LayerRefusal::NoChoice),
            None if encodings > 1 => return Err(LayerRefusal::EncodingMissing),
            None => 0,
            Some(name) => {
                let found = (0..encodings).find(|at| self.encoding_name(track, *at) == *name);
                found.ok_or(LayerRefusal::NoEncoding)?
            }
        };
        // What is not there would be waited for without end.
        let limit = |wanted: Option<u8>, of: fn(Layer) -> u8| {
            let mut known = layers.iter().filter(|one| one.layer.encoding == Some(encoding));
            wanted.filter(|limit| known.any(|one| of(one.layer) == *limit)).unwrap_or(Layer::ALL)
        };
        let spatial = limit(choice.spatial, |layer| layer.spatial);
        let temporal = limit(choice.temporal, |layer| layer.temporal);
        Ok(Layer { encoding: Some(encoding), spatial, temporal })
    }

    /// The encoding that "the best" means at present.
    fn resolved(&self, track: TrackIndex, layer: Layer) -> Option<Layer> {
        if layer.encoding.is_some() { Some(layer) } else { self.sfu.main_layer(track) }
    }

    fn named(&self, track: TrackIndex, layer: Layer) -> RtcLayer {
        let limit = |limit: u8| Some(limit).filter(|limit| *limit < Layer::ALL);
        RtcLayer {
            name: layer.encoding.map_or_else(String::new, |at| self.encoding_name(track, at)),
            spatial: limit(layer.spatial),
            temporal: limit(layer.temporal),
        }
    }

    fn encoding_name(&self, track: TrackIndex, encoding: u8) -> String {
        let described = self.tracks.as_deref().unwrap_or_default().iter();
        let mut of_kind = described.filter(|described| described.kind == track.kind());
        // Tracks of the two kinds alternate in the numbering.
        let rids = of_kind.nth(track.position() / 2).map(|described: &TrackDescription| &described.rids);
        let rid = rids.and_then(|rids| rids.get(usize::from(encoding)));
        rid.cloned().unwrap_or_else(|| encoding.to_string())
    }
}

/// A report of layers takes so long at most to be seen by a worker that sleeps.
const REPORT_WAKE_MS: u64 = 20;
