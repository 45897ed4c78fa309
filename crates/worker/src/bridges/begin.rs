//! Bridges begin, with the first player of the other lane, and end.

use std::sync::Arc;

use ::bridge::{FrameToRtp, FrameToRtpSettings, RtpToFrame, RtpToFrameSettings};
use media::{Frame, FrameRole, Timestamp};
use rtp::payload::MediaKind;
use sfu::Packet;

use super::transcoding::Audio;
use super::{Bridge, BridgeEnd, Bridges, Cost, Machine, describe};
use crate::context::Context;
use crate::event_loop::Worker;
use crate::ids::{BridgeId, FrameStreamId, PacketStreamId};
use crate::mailbox::{MessageBody, Start};
use crate::publication::{LaneStream, Remote, Source};
use crate::registry::{Epoch, Lane, Origin, StreamId};
use worker_api::hand_over::HandedBridge;
use worker_api::settings::BridgeSettings;
use worker_api::snapshot::BridgeDirection;

/// Longest RTP payload of packets that are made here. With every header up to IPv6 it fits into 1280 bytes,
/// the least that every IPv6 path carries (RFC 8200 section 5): 40 + 8 + 12 + 24 of extensions + 16 of SRTP +
/// 1180.
const PAYLOAD_BYTES_MAX: usize = 1_180;

/// Audio that a bridge begins with, milliseconds. Older audio would be played before what comes now, and late
/// for good.
const AUDIO_MS: i64 = 100;

/// Packets after which a turn is taken while a bridge begins: half of what a stream holds for one.
const TURN_PACKETS: u64 = 4_000;

impl Worker {
    /// Somebody wants a stream as packets: begins the bridge, if the stream is published here as frames.
    pub(crate) fn bridge_to_packets(&mut self, id: StreamId) {
        self.begin_bridge_to_packets(id, None);
    }

    /// The same; it goes on where one of another process was, if there is one.
    pub(super) fn begin_bridge_to_packets(&mut self, id: StreamId, handed: Option<HandedBridge>) {
        let Some(frames) = self.frames.find(id) else { return };
        let local = &self.frames.streams[frames];
        let Some(Source { epoch: publication, origin: Origin::Connection(_) }) = local.publication.source
        else {
            return;
        };
        if local.publication.bridge.is_some() || !local.settings.bridge.enabled {
            return;
        }
        let (settings, key) = (local.settings.bridge, Arc::clone(&local.publication.key));
        let Some((epoch, others)) =
            self.ctx.directory.bridge(&local.publication.key, publication, Lane::Packets)
        else {
            return;
        };
        let name = (local.publication.app(), local.publication.name());
        let packets = self.packets.streams.find_or_insert(id, name, local.settings.wait_for_publisher);
        let sfu = &mut self.packets.streams[packets].sfu;
        sfu.publisher_started(self.ctx.now, epoch.0, describe::virtual_publisher());
        let machine = match &handed {
            Some(handed) => {
                sfu.resume_publisher(self.ctx.now, &handed.publisher);
                self.resumed_machine(frames, handed)
            }
            None => FrameToRtp::new(frame_to_rtp_settings(settings), self.ctx.now),
        };
        let source = Source { epoch, origin: Origin::Bridge };
        let tracks = describe::tracks(machine.formats());
        self.start_source(LaneStream::Packets(packets), source, Some(tracks));
        let machine = Machine::FrameToRtp(Box::new(machine));
        let epochs = (publication, epoch);
        let index = self.bridges.insert(&self.ctx, (id, key), (frames, packets), epochs, machine);
        self.frames.streams[frames].publication.bridge = Some(index);
        self.update_read_interest(frames);
        self.packets.streams[packets].publication.remotes = Vec::new();
        self.bridge_feed_cached_frames(index, epoch);
        // A defect may have ended it.
        if self.bridges.slab.get(index).is_none_or(|bridge| bridge.epoch != epoch) {
            return;
        }
        if let Some(handed) = handed {
            self.ctx.directory.bridge_resumed(&handed.key(), publication);
        }
        for worker in others {
            self.add_remote(Lane::Packets, worker, id);
        }
    }

    /// The same, if somebody has been playing it as packets.
    pub(crate) fn bridge_to_packets_if_wanted(&mut self, id: StreamId) {
        if self
            .packets
            .streams
            .find(id)
            .is_some_and(|packets| self.packets.streams[packets].publication.players > 0)
        {
            self.bridge_to_packets(id);
        }
    }

    /// What a player that joined now would begin with.
    fn bridge_feed_cached_frames(&mut self, index: BridgeId, epoch: Epoch) {
        let delivery = &self.frames.streams[self.bridges.slab[index].frames].delivery;
        let cached: Vec<(Timestamp, Arc<Frame>)> = delivery.gop().frames().cloned().collect();
        let headers = if cached.is_empty() { delivery.headers() } else { delivery.entry_headers() };
        let begin = cached.first().map_or(Timestamp::ZERO, |(time, _)| *time);
        let headers: Vec<_> = headers.iter().map(|header| (begin, Arc::clone(header))).collect();
        // What is over may go on.
        for config in delivery.ended().map(Arc::clone).collect::<Vec<_>>() {
            self.run_bridge(index, |bridges, ctx| bridges.ended_track(ctx, index, begin, &config));
        }
        let newest = cached.last().map_or(Timestamp::ZERO, |(time, _)| *time);
        let audio_from = newest - Timestamp::from_millis(AUDIO_MS);
        let is_wanted =
            |(time, frame): &&(Timestamp, Arc<Frame>)| frame.role != FrameRole::Audio || *time >= audio_from;
        for (time, frame) in headers.iter().chain(cached.iter().filter(is_wanted)) {
            self.bridge_frame(index, *time, frame);
            let Some(bridge) = self.bridges.slab.get_mut(index).filter(|bridge| bridge.epoch == epoch) else {
                return;
            };
            // What goes into one turn a new viewer gets in one go, so all of it should, as far as a turn
            // holds it.
            if bridge.totals().packets > bridge.forwarded + TURN_PACKETS {
                bridge.forwarded = bridge.totals().packets;
                self.packets.forward(&mut self.ctx);
            }
        }
    }

    /// Somebody wants a stream as frames: begins the bridge, if the stream is published here as packets.
    pub(crate) fn bridge_to_frames(&mut self, id: StreamId) {
        let Some(packets) = self.packets.streams.find(id) else { return };
        let entry = &self.packets.streams[packets];
        let source = entry.publication.source.filter(|source| source.origin.sends_packets());
        let Some(Source { epoch: publication, .. }) = source else { return };
        let settings = self.ctx.settings_for(entry.publication.app()).bridge;
        if entry.publication.bridge.is_some() || !settings.enabled {
            return;
        }
        let Some((epoch, others)) =
            self.ctx.directory.bridge(&entry.publication.key, publication, Lane::Frames)
        else {
            return;
        };
        let key = Arc::clone(&entry.publication.key);
        let name = (entry.publication.app(), entry.publication.name());
        let frames = self.frames.find_or_insert(&self.ctx, id, name);
        self.start_source(LaneStream::Frames(frames), Source { epoch, origin: Origin::Bridge }, None);
        let audio_to_aac = settings.audio_to_aac && cfg!(feature = "fdk-aac");
        let settings = RtpToFrameSettings {
            delay_max: settings.delay_max,
            key_frame_interval_max: settings.key_frame_interval_max,
            audio_to_aac,
        };
        let machine = RtpToFrame::new(settings, self.ctx.now);
        let machine = Machine::RtpToFrame(Box::new(machine));
        let epochs = (publication, epoch);
        let index = self.bridges.insert(&self.ctx, (id, key), (frames, packets), epochs, machine);
        self.packets.streams[packets].publication.bridge = Some(index);
        self.packets.update_watched(self.ctx.now, packets);
        // Nobody begins with audio when there will be pictures.
        let tracks = self.packets.streams[packets].tracks.as_deref().unwrap_or_default();
        let wait_for_key = tracks.iter().any(|track| track.kind == MediaKind::Video);
        if wait_for_key {
            self.frames.wait_for_key(frames);
        }
        for &worker in &others {
            let start = Box::new(Start::new_frames(wait_for_key));
            self.ctx.send(worker, (id, epoch, Lane::Frames), MessageBody::Start(start));
        }
        let remotes = others.into_iter().map(Remote::new);
        self.frames.streams[frames].publication.remotes = remotes.collect();
        let cached: Vec<Arc<Packet>> =
            self.packets.streams[packets].sfu.cached(self.ctx.now).map(Arc::clone).collect();
        self.bridge_packets(index, &cached);
        self.run_bridge(index, |bridges, ctx| bridges.poll(ctx, index));
    }

    /// The publication that goes into a stream's bridge has ended.
    pub(crate) fn bridge_source_ended(&mut self, id: StreamId, publication: Epoch) {
        if let Some(&index) = self.bridges.by_stream.get(&id)
            && self.bridges.slab[index].publication == publication
        {
            self.bridge_end(index, BridgeEnd::PublisherGone);
        }
    }

    /// A defect in the server has ended the packets of a stream: its bridge ends, if there is one.
    pub(crate) fn bridge_failed(&mut self, id: StreamId) {
        if let Some(&index) = self.bridges.by_stream.get(&id) {
            self.bridge_end(index, BridgeEnd::Defect);
        }
    }

    /// Ends a bridge, and the publication that came out of it.
    pub(super) fn bridge_end(&mut self, index: BridgeId, reason: BridgeEnd) {
        let Some(bridge) = self.bridges.slab.remove(index) else { return };
        self.bridges.by_stream.remove(&bridge.stream);
        bridge.totals().add_to(&mut self.bridges.counters);
        let direction = bridge.machine.direction();
        let Bridge { stream: id, key, frames, packets, epoch, .. } = bridge;
        let seconds = (self.ctx.now_ms - bridge.started_ms) / 1000;
        tracing::info!(stream = &*key, ?direction, reason = reason.text(), seconds, "bridge ended");
        let source = Source { epoch, origin: Origin::Bridge };
        match bridge.machine {
            Machine::FrameToRtp(_) => {
                self.ctx.directory.bridge_ended(&key);
                if let Some(local) =
                    self.frames.streams.get_mut(frames).filter(|local| local.publication.id == id)
                {
                    local.publication.bridge = None;
                    self.update_read_interest(frames);
                }
                self.end_publication(LaneStream::Packets(packets), source);
            }
            Machine::RtpToFrame(_) => {
                if let Some(entry) =
                    self.packets.streams.get_mut(packets).filter(|entry| entry.publication.id == id)
                {
                    entry.publication.bridge = None;
                    self.packets.update_watched(self.ctx.now, packets);
                }
                self.end_publication(LaneStream::Frames(frames), source);
            }
        }
    }

    /// Ends bridges nobody has played from for a while; `samples` once a second.
    pub(crate) fn bridge_sweep(&mut self, samples: bool) {
        self.describe_late();
        for index in self.bridges.slab.ids() {
            let Some(bridge) = self.bridges.slab.get(index) else { continue };
            let local = &self.frames.streams[bridge.frames];
            let entry = &self.packets.streams[bridge.packets];
            let linger_ms = local.settings.bridge.linger.as_millis() as u64;
            // Players of one that goes on in another process may be about to come.
            let may_end = !self.packets.is_frozen();
            let is_idle = match bridge.machine {
                Machine::FrameToRtp(_) => {
                    entry.publication.players == 0 && entry.publication.remotes.is_empty()
                }
                Machine::RtpToFrame(_) => {
                    local.publication.players == 0 && local.publication.remotes.is_empty()
                }
            };
            let bridge = &mut self.bridges.slab[index];
            if samples {
                bridge.cost.video.sample();
                bridge.cost.audio.sample();
            }
            let since_ms = (is_idle && may_end).then(|| bridge.idle_since_ms.unwrap_or(self.ctx.now_ms));
            bridge.idle_since_ms = since_ms;
            if since_ms.is_some_and(|since_ms| self.ctx.now_ms - since_ms >= linger_ms) {
                self.bridge_end(index, BridgeEnd::NoPlayer);
            }
        }
    }
}

impl Bridges {
    /// A bridge of `publication`, whose output is `epoch`.
    fn insert(
        &mut self,
        ctx: &Context,
        (stream, key): (StreamId, Arc<str>),
        (frames, packets): (FrameStreamId, PacketStreamId),
        (publication, epoch): (Epoch, Epoch),
        machine: Machine,
    ) -> BridgeId {
        let direction = machine.direction();
        tracing::info!(stream = &*key, ?direction, "bridge started");
        match direction {
            BridgeDirection::FrameToRtp => self.counters.frame_to_rtp_started += 1,
            BridgeDirection::RtpToFrame => self.counters.rtp_to_frame_started += 1,
        }
        let id = self.slab.insert(Bridge {
            stream,
            key,
            frames,
            packets,
            publication,
            epoch,
            machine,
            audio: Audio::default(),
            idle_since_ms: None,
            started_ms: ctx.now_ms,
            due: None,
            cost: Cost::default(),
            refused: None,
            forwarded: 0,
        });
        self.by_stream.insert(stream, id);
        id
    }
}

/// For a bridge of the crate.
pub(super) fn frame_to_rtp_settings(settings: BridgeSettings) -> FrameToRtpSettings {
    FrameToRtpSettings { b_frames: settings.b_frames, payload_bytes_max: PAYLOAD_BYTES_MAX }
}
