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
        let height_max = session.height_max;
        // What the last publisher has sent is known for longer than it is there.
        let is_published = stream.publication.source.is_some();
        let track = tracks.next().filter(|_| is_published);
        Some(RtcPathSnapshot {
            estimate_bits_per_second: path.estimate_bits_per_second,
            target_bits_per_second: path.target_bits_per_second,
            limit_bits_per_second: session.bits_per_second_max,
            height_max,
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
            is_published,
            layer: track.and_then(|track| stream.layer_of(now, viewer, track, height_max)),
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

    /// What a viewer that wants pictures of at most this height gets of a track. `None` before there is
    /// anything to get.
    fn layer_of(
        &self,
        now: Instant,
        viewer: ViewerId,
        track: TrackIndex,
        height_max: Option<u16>,
    ) -> Option<RtcPathLayer> {
        let mut live = self.sfu.layers(now, track);
        live.retain(|one| one.is_live && one.bits_per_second > 0);
        let (current, wanted) = self.sfu.layer_of(viewer, track)?;
        let (current, wanted) = (self.resolved(track, current)?, self.resolved(track, wanted)?);
        let at = live.iter().position(|one| one.layer == current);
        let above = at.map_or(&[][..], |at| &live[at + 1..]);
        let (better, is_too_high) = next_better(above, height_max);
        Some(RtcPathLayer {
            current: self.named(track, current),
            wanted: self.named(track, wanted),
            is_fixed: self.sfu.fixed_layer(viewer, track).is_some(),
            better: better.map(|better| (self.named(track, better.layer), better.bits_per_second)),
            is_too_high,
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

/// Which of the layers above the one that a viewer gets it would get next, and whether its pictures are
/// higher than the viewer wants. As in `sfu`, a layer whose size is not known fits.
fn next_better(above: &[LayerRate], height_max: Option<u16>) -> (Option<&LayerRate>, bool) {
    let fits = |one: &&LayerRate| one.size.zip(height_max).is_none_or(|(size, most)| size.height <= most);
    match above.iter().find(fits) {
        Some(better) => (Some(better), false),
        None => (above.first(), !above.is_empty()),
    }
}

/// A report of layers takes so long at most to be seen by a worker that sleeps.
const REPORT_WAKE_MS: u64 = 20;

#[cfg(test)]
mod tests {
    use rtp::payload::PictureSize;

    use super::*;

    #[test]
    fn a_layer_that_is_too_high_is_the_next_one_only_if_no_other_is() {
        let layer = |encoding, height: Option<u16>| LayerRate {
            layer: Layer::of(encoding),
            bits_per_second: 1,
            is_live: true,
            size: height.map(|height| PictureSize { width: 2 * height, height }),
        };
        let (h, f) = (layer(1, Some(360)), layer(2, Some(720)));
        // By height and not by rate: a tall one may take less.
        let unordered = [f, h];
        let cases = [
            (&[h, f][..], None, Some(h), false, "no limit"),
            (&[h, f], Some(360), Some(h), false, "its path keeps it from h"),
            (&[h, f], Some(180), Some(h), true, "both are too high"),
            (&unordered, Some(360), Some(h), false, "the second fits"),
            (&[layer(1, None)], Some(180), Some(layer(1, None)), false, "of unknown size"),
            (&[], Some(180), None, false, "it has the best"),
        ];
        for (above, height_max, better, is_too_high, remark) in cases {
            let found = next_better(above, height_max);
            assert_eq!((found.0.copied(), found.1), (better, is_too_high), "{remark}");
        }
    }
}
