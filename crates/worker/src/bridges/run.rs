//! Media to bridges and from them: from the lane it comes in by to the stream of the other lane.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use media::{Frame, MediaKind, Timestamp};
use sfu::{Packet, TrackIndex};

use super::{Bridge, BridgeEnd, Bridges, Machine, Output, describe};
use crate::context::Context;
use crate::event_loop::Worker;
use crate::ids::{BridgeId, PacketStreamId};
use crate::mailbox::{MessageBody, Start};
use crate::net::Clock;
use crate::registry::Lane;

const AUDIO: MediaKind = MediaKind::Audio;
const VIDEO: MediaKind = MediaKind::Video;

/// Soonest a bridge is asked again, by a timer of its own.
const TIMER_MIN: Duration = Duration::from_millis(1);

impl Worker {
    /// A frame of the publisher, at its place on the stream's timeline.
    pub(crate) fn bridge_frame(&mut self, id: BridgeId, time: Timestamp, frame: &Frame) {
        self.run_bridge(id, |bridges, ctx| bridges.frame(ctx, id, time, frame));
    }

    /// Packets of the publisher that have just been taken in.
    pub(crate) fn bridge_packets(&mut self, id: BridgeId, packets: &[Arc<Packet>]) {
        self.run_bridge(id, |bridges, ctx| bridges.packets(ctx, id, packets));
    }

    /// Takes in audio that has been transcoded.
    pub(crate) fn take_transcoded_audio(&mut self) {
        while let Some(reply) = self.bridges.next_reply() {
            if let Some(id) = self.bridges.note_reply(&self.ctx, &reply) {
                self.run_bridge(id, |bridges, ctx| bridges.transcoded(ctx, id, &reply));
            }
        }
    }

    /// Does what bridges have to do by the clock.
    pub(crate) fn poll_due_bridges(&mut self) {
        while let Some(id) = self.bridges.next_due(self.ctx.now) {
            self.run_bridge(id, |bridges, ctx| bridges.poll(ctx, id));
        }
    }

    /// Puts something into a bridge, and what comes out into the streams that it is between. A defect that
    /// makes it panic ends that bridge, and nothing else.
    pub(super) fn run_bridge(
        &mut self,
        id: BridgeId,
        work: impl FnOnce(&mut Bridges, &Context) -> Option<Output>,
    ) {
        let worked = catch_unwind(AssertUnwindSafe(|| {
            if let Some(mut out) = work(&mut self.bridges, &self.ctx) {
                if !out.packets.audio.is_empty() || !out.frames.audio.is_empty() {
                    self.bridges.transcode(&self.ctx, &mut out);
                }
                self.take_output(&mut out);
                self.bridges.finish(&self.ctx, out);
            }
        }));
        if worked.is_err() {
            self.ctx.counters.panics += 1;
            tracing::error!("a defect in the server ended a bridge");
            self.bridge_end(id, BridgeEnd::Defect);
        }
    }

    /// Asks the publisher of a stream for a key frame of its video, as often as it may be asked.
    pub(crate) fn request_key_frame(&mut self, stream: PacketStreamId) {
        if let Some(track) = TrackIndex::new(VIDEO, 0)
            && let Some(entry) = self.packets.streams.get_mut(stream)
        {
            entry.sfu.request_key_frame(self.ctx.now, track);
            let due = entry.sfu.next_timeout();
            self.packets.set_stream_timer(stream, due, self.ctx.now);
        }
    }

    fn take_output(&mut self, out: &mut Output) {
        let Bridge { frames, packets, ref machine, .. } = self.bridges.slab[out.bridge];
        if let Machine::RtpToFrame(_) = machine {
            for frame in out.frames.frames.drain(..) {
                self.frames.fan_out(&mut self.ctx, frames, &frame);
            }
            if out.frames.key_frame_wanted {
                self.request_key_frame(packets);
            }
            return;
        }
        if let Some(entry) = self.packets.streams.get_mut(packets) {
            for (fields, payload, is_key) in out.packets.packets() {
                if let Err(reason) = entry.sfu.receive_packet(self.ctx.now, fields, payload, is_key) {
                    self.packets.counters.dropped += 1;
                    tracing::trace!(?reason, "packet of a bridge dropped");
                }
            }
            for (kind, mapping) in [(VIDEO, out.mappings.video), (AUDIO, out.mappings.audio)] {
                if let (Some(track), Some(mapping)) = (TrackIndex::new(kind, 0), mapping) {
                    entry.sfu.set_clock(track, mapping);
                }
            }
            self.packets.streams.mark_dirty(packets);
        }
        // Once a publication, however many bridges it has had.
        if let Some(warning) = out.packets.warning
            && let Some(local) = self.frames.streams.get_mut(frames)
            && !std::mem::replace(&mut local.description.is_warned, true)
        {
            tracing::warn!(stream = &*local.publication.key, warning, "bridge to WebRTC");
        }
        if out.packets.formats_changed {
            self.bridge_formats_changed(out.bridge);
        }
    }

    /// What a stream of frames is as packets has changed.
    fn bridge_formats_changed(&mut self, id: BridgeId) {
        let bridge = &mut self.bridges.slab[id];
        let Machine::FrameToRtp(machine) = &bridge.machine else { return };
        let formats = machine.formats();
        if let Some(reason) = formats.refused.filter(|_| formats.refused != bridge.refused) {
            tracing::warn!(stream = &*bridge.key, %reason, "not bridged to WebRTC");
        }
        bridge.refused = formats.refused;
        let Bridge { stream, frames, packets, epoch, .. } = *bridge;
        let without_video = formats.video.is_none() && formats.refused.is_some();
        let tracks = describe::tracks(formats);
        self.describe_as_packets(frames);
        let Some(entry) = self.packets.streams.get_mut(packets) else { return };
        let before = entry.tracks.replace(Arc::clone(&tracks));
        let had_video = before.iter().flat_map(|tracks| tracks.iter()).any(|track| track.kind == VIDEO);
        if without_video && had_video {
            // Viewers with video end, and get the reason when they connect again. Those with audio alone
            // stay.
            for remote in entry.publication.remotes.clone() {
                let body = MessageBody::Start(Box::new(Start::new_packets(&tracks)));
                self.ctx.send(remote.worker, (stream, epoch, Lane::Packets), body);
            }
            self.packets.end_video_players(&mut self.ctx, packets);
        }
    }
}

impl Bridges {
    /// A frame of the publisher, at its place on the stream's timeline.
    pub(super) fn frame(
        &mut self,
        ctx: &Context,
        id: BridgeId,
        time: Timestamp,
        frame: &Frame,
    ) -> Option<Output> {
        let Machine::FrameToRtp(machine) = &mut self.slab.get_mut(id)?.machine else { return None };
        let mut out = Output::begin(&mut self.spare, id);
        machine.frame(ctx.now, time, frame, &mut out.packets);
        out.is_video = frame.track.kind == VIDEO;
        Some(out)
    }

    /// The configuration of a track that has ended, and may go on.
    pub(super) fn ended_track(
        &mut self,
        ctx: &Context,
        id: BridgeId,
        time: Timestamp,
        config: &Frame,
    ) -> Option<Output> {
        let mut out = self.frame(ctx, id, time, config)?;
        if let Machine::FrameToRtp(machine) = &mut self.slab[id].machine {
            machine.track_ended(config.track.kind, &mut out.packets);
        }
        Some(out)
    }

    /// Packets of the publisher that have just been taken in.
    pub(super) fn packets(&mut self, ctx: &Context, id: BridgeId, packets: &[Arc<Packet>]) -> Option<Output> {
        let Machine::RtpToFrame(machine) = &mut self.slab.get_mut(id)?.machine else { return None };
        let mut out = Output::begin(&mut self.spare, id);
        for packet in packets {
            machine.packet(ctx.now, packet, &mut out.frames);
        }
        Some(out)
    }

    /// Does what is due by the clock.
    pub(super) fn poll(&mut self, ctx: &Context, id: BridgeId) -> Option<Output> {
        let bridge = self.slab.get_mut(id)?;
        let mut out = Output::begin(&mut self.spare, id);
        match &mut bridge.machine {
            Machine::FrameToRtp(machine) => out.mappings = machine.report(ctx.now),
            Machine::RtpToFrame(machine) => machine.poll(ctx.now, &mut out.frames),
        }
        Some(out)
    }

    /// Adds up what a call has cost, what came of its output included, and sets the timer.
    pub(super) fn finish(&mut self, ctx: &Context, mut out: Output) {
        // CPU time of this thread, twice for a frame of a bridged stream, never per packet.
        let took = Clock::thread_cpu_time().saturating_sub(out.begun);
        self.counters.cpu_us += took.as_micros() as u64;
        // Of a bridge that has ended, the memory goes too.
        let Some(bridge) = self.slab.get_mut(out.bridge) else { return };
        bridge.cost.cpu += took;
        let due = match &bridge.machine {
            Machine::FrameToRtp(machine) => {
                out.packets.clear();
                // The frame came in within this turn.
                if out.is_video {
                    bridge.cost.video.note(Clock::now().saturating_duration_since(ctx.now));
                }
                // The first report is due at once, but after everything else of the turn.
                let has_sent = machine.stats().packets > 0;
                has_sent.then(|| machine.next_timeout().unwrap_or(ctx.now))
            }
            Machine::RtpToFrame(machine) => {
                out.frames.clear();
                if let Some(latency) = machine.stats().video_latency {
                    // As of the beginning of this turn, when the packet came in that was waited for.
                    bridge.cost.video.note(latency + Clock::now().saturating_duration_since(ctx.now));
                }
                machine.next_timeout()
            }
        };
        if let Some(due) = due {
            self.timers.set(out.bridge, &mut bridge.due, due.max(ctx.now + TIMER_MIN));
        }
        self.spare = (out.packets, out.frames);
    }

    /// A bridge whose timer has run out; call it until there is none.
    pub(super) fn next_due(&mut self, now: Instant) -> Option<BridgeId> {
        while let Some((due, id)) = self.timers.pop(now) {
            let bridge = self.slab.get_mut(id);
            if bridge.is_some_and(|bridge| bridge.due.take_if(|set| *set == due).is_some()) {
                return Some(id);
            }
        }
        None
    }

    /// How long the loop may sleep as far as bridges are concerned.
    pub(crate) fn timeout(&self, now: Instant) -> Duration {
        self.timers.next().map_or(Duration::MAX, |due| due.saturating_duration_since(now))
    }
}
