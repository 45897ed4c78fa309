//! Media through bridges: from where it comes in to the other lane, and what is due by the clock.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use media::{Frame, MediaKind, Timestamp};
use sfu::{Packet, TrackIndex};

use super::cost::{clock, cpu_time};
use super::describe;
use super::{Bridge, Machine};
use crate::event_loop::Worker;
use crate::ids::BridgeId;
use crate::mailbox::{MessageBody, Start};
use crate::registry::Lane;

const AUDIO: MediaKind = MediaKind::Audio;
const VIDEO: MediaKind = MediaKind::Video;

/// Soonest a bridge is asked again, by a timer of its own.
const TIMER_MIN: Duration = Duration::from_millis(1);

impl Worker {
    /// A frame of the publisher, at its place on the stream's timeline.
    pub(crate) fn bridge_frame(&mut self, index: BridgeId, time: Timestamp, frame: &Arc<Frame>) {
        self.bridge_guarded(index, |worker| {
            let mut out = std::mem::take(&mut worker.bridges.packets_out);
            let now = worker.ctx.now;
            let begun = cpu_time();
            if let Some(Bridge { machine: Machine::FrameToRtp(machine), .. }) =
                worker.bridges.slab.get_mut(index)
            {
                machine.frame(now, time, frame, &mut out);
                worker.bridge_take_packets(index, &mut out);
            }
            worker.bridge_took(index, begun, frame.track.kind == VIDEO);
            worker.bridges.packets_out = out;
        });
    }

    /// Packets of the publisher that have just been taken in.
    pub(crate) fn bridge_packets(&mut self, index: BridgeId, packets: &[Arc<Packet>]) {
        self.bridge_guarded(index, |worker| {
            let mut out = std::mem::take(&mut worker.bridges.frames_out);
            let now = worker.ctx.now;
            let begun = cpu_time();
            if let Some(Bridge { machine: Machine::RtpToFrame(machine), .. }) =
                worker.bridges.slab.get_mut(index)
            {
                for packet in packets {
                    machine.packet(now, packet, &mut out);
                }
                worker.bridge_take_frames(index, &mut out);
            }
            worker.bridge_took(index, begun, false);
            worker.bridges.frames_out = out;
        });
    }

    /// Does what is due by the clock.
    pub(crate) fn bridge_poll(&mut self, index: BridgeId) {
        self.bridge_guarded(index, |worker| worker.bridge_poll_machine(index));
    }

    fn bridge_poll_machine(&mut self, index: BridgeId) {
        let begun = cpu_time();
        let now = self.ctx.now;
        let Some(bridge) = self.bridges.slab.get_mut(index) else { return };
        match &mut bridge.machine {
            Machine::FrameToRtp(machine) => {
                let mappings = machine.report(now);
                let packets = bridge.packets;
                for (kind, mapping) in [(VIDEO, mappings.video), (AUDIO, mappings.audio)] {
                    if let (Some(track), Some(mapping)) = (TrackIndex::new(kind, 0), mapping)
                        && let Some(entry) = self.packets.streams.get_mut(packets)
                    {
                        entry.sfu.set_clock(track, mapping);
                        self.packets.streams.mark_dirty(packets);
                    }
                }
            }
            Machine::RtpToFrame(machine) => {
                let mut out = std::mem::take(&mut self.bridges.frames_out);
                machine.poll(now, &mut out);
                self.bridge_take_frames(index, &mut out);
                self.bridges.frames_out = out;
            }
        }
        self.bridge_took(index, begun, false);
        self.bridge_set_timer(index);
    }

    /// Audio that has been transcoded comes back.
    pub(crate) fn bridge_replies(&mut self) {
        while let Some(reply) = self.bridges.transcoding.next_reply() {
            let Some(index) = self.bridge_note_reply(&reply) else { continue };
            self.bridge_guarded(index, |worker| worker.bridge_audio(index, &reply.audio));
        }
    }

    fn bridge_audio(&mut self, index: BridgeId, audio: &[::bridge::CodedAudio]) {
        let begun = cpu_time();
        let now = self.ctx.now;
        let Some(bridge) = self.bridges.slab.get_mut(index) else { return };
        match &mut bridge.machine {
            Machine::FrameToRtp(machine) => {
                let mut out = std::mem::take(&mut self.bridges.packets_out);
                audio.iter().for_each(|audio| machine.audio(now, audio, &mut out));
                self.bridge_take_packets(index, &mut out);
                self.bridges.packets_out = out;
            }
            Machine::RtpToFrame(machine) => {
                let mut out = std::mem::take(&mut self.bridges.frames_out);
                audio.iter().for_each(|audio| machine.audio(now, audio, &mut out));
                self.bridge_take_frames(index, &mut out);
                self.bridges.frames_out = out;
            }
        }
        self.bridge_took(index, begun, false);
    }

    /// Packets that were made go into the stream, as if they had been received.
    fn bridge_take_packets(&mut self, index: BridgeId, out: &mut ::bridge::PacketsOut) {
        let packets = self.bridges.slab[index].packets;
        if let Some(entry) = self.packets.streams.get_mut(packets) {
            for (fields, payload) in out.packets() {
                if let Err(reason) = entry.sfu.receive_packet(self.ctx.now, fields, payload) {
                    self.packets.counters.dropped += 1;
                    tracing::debug!(?reason, "a packet of a bridge was dropped");
                }
            }
        }
        self.packets.streams.mark_dirty(packets);
        self.bridge_transcode(index, &mut out.audio);
        out.clear();
        self.bridge_note_formats(index);
    }

    /// What the bridge has found out of the stream.
    fn bridge_note_formats(&mut self, index: BridgeId) {
        let Some(bridge) = self.bridges.slab.get_mut(index) else { return };
        let Machine::FrameToRtp(machine) = &mut bridge.machine else { return };
        let Some(local) = self.streams.slab.get_mut(bridge.frames) else { return };
        let key = &*local.publication.key;
        // Once a publication, however many bridges it has had.
        if let Some(warning) = machine.take_warning()
            && !std::mem::replace(&mut local.warned, true)
        {
            tracing::warn!(stream = key, warning, "bridge to WebRTC");
        }
        if !machine.take_formats_change() {
            return;
        }
        let formats = machine.formats();
        if let Some(reason) = formats.refused.as_deref().filter(|_| formats.refused != bridge.note) {
            tracing::warn!(stream = key, reason, "not bridged to WebRTC");
        }
        bridge.note = formats.refused.clone();
        let Bridge { stream: id, frames, packets, epoch, .. } = *bridge;
        let without_video = formats.video.is_none() && formats.refused.is_some();
        let tracks = describe::tracks(formats);
        self.describe_as_packets(frames);
        let Some(entry) = self.packets.streams.get_mut(packets) else { return };
        let before = entry.tracks.replace(Arc::clone(&tracks));
        let had_video = before.iter().flat_map(|tracks| tracks.iter()).any(|track| track.kind == VIDEO);
        if without_video && had_video {
            // Who waits for a picture is sent away, and told why when it comes again; who came for audio stays.
            for remote in entry.publication.remotes.clone() {
                let start = Start::Packets { tracks: Arc::clone(&tracks), packets: Vec::new() };
                let body = MessageBody::Start(Box::new(start));
                self.ctx.send(remote.worker, (id, epoch, Lane::Packets), body);
            }
            self.packets.end_video_players(&mut self.ctx, packets);
        }
    }

    /// Frames that were made go to players, as if a publisher had sent them.
    fn bridge_take_frames(&mut self, index: BridgeId, out: &mut ::bridge::FramesOut) {
        let Bridge { frames, packets, .. } = self.bridges.slab[index];
        for frame in out.frames.drain(..) {
            self.fan_out(frames, &frame);
        }
        if std::mem::take(&mut out.key_frame_wanted)
            && let Some(track) = TrackIndex::new(VIDEO, 0)
            && let Some(entry) = self.packets.streams.get_mut(packets)
        {
            entry.sfu.request_key_frame(self.ctx.now, track);
            let due = entry.sfu.next_timeout();
            self.packets.set_stream_timer(packets, due, self.ctx.now);
        }
        self.bridge_transcode(index, &mut out.audio);
    }

    /// Adds up what a call has cost.
    fn bridge_took(&mut self, index: BridgeId, begun: Duration, is_video: bool) {
        let took = cpu_time().saturating_sub(begun);
        self.bridges.counters.cpu_us += took.as_micros() as u64;
        let Some(bridge) = self.bridges.slab.get_mut(index) else { return };
        bridge.cost.cpu += took;
        match &bridge.machine {
            // The frame came in within this turn.
            Machine::FrameToRtp(_) if is_video => {
                bridge.cost.video.note(clock().saturating_duration_since(self.ctx.now));
            }
            Machine::RtpToFrame(machine) => {
                if let Some(latency) = machine.stats().video_latency {
                    // As of the beginning of this turn, when the packet came in that was waited for.
                    bridge.cost.video.note(latency + clock().saturating_duration_since(self.ctx.now));
                }
            }
            Machine::FrameToRtp(_) => {}
        }
        self.bridge_set_timer(index);
    }

    fn bridge_set_timer(&mut self, index: BridgeId) {
        let Some(bridge) = self.bridges.slab.get_mut(index) else { return };
        let due = match &bridge.machine {
            // The first report is due at once, but after everything else of the turn.
            Machine::FrameToRtp(machine) if machine.stats().packets > 0 => {
                Some(machine.next_timeout().unwrap_or(self.ctx.now))
            }
            Machine::FrameToRtp(_) => None,
            Machine::RtpToFrame(machine) => machine.next_timeout(),
        };
        let due = due.map(|due| due.max(self.ctx.now + TIMER_MIN));
        if let Some(due) = due.filter(|due| bridge.due.is_none_or(|set| *due < set)) {
            bridge.due = Some(due);
            self.packets.wake_bridge(index, due);
        }
    }

    /// A timer that was set for a bridge has run out.
    pub(crate) fn bridge_due(&mut self, index: BridgeId, due: std::time::Instant) {
        // Only the entry that it was last set to counts.
        if let Some(bridge) = self.bridges.slab.get_mut(index).filter(|bridge| bridge.due == Some(due)) {
            bridge.due = None;
            self.bridge_poll(index);
        }
    }

    /// Does something for a bridge; a defect that makes it panic ends that bridge, and nothing else.
    fn bridge_guarded(&mut self, index: BridgeId, work: impl FnOnce(&mut Self)) {
        if catch_unwind(AssertUnwindSafe(|| work(self))).is_err() {
            self.packets.counters.panics += 1;
            tracing::error!("a defect in the server ended a bridge");
            self.bridge_end(index, "defect in the server");
        }
    }
}
