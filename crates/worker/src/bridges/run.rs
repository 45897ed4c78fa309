//! Media to bridges and from them: from the lane it comes in by to the stream of the other lane.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use media::{Frame, MediaKind, Timestamp};
use sfu::{Packet, TrackIndex};

use super::convert::Output;
use super::{Bridge, BridgeEnd, Bridges, Machine, describe};
use crate::context::Context;
use crate::event_loop::Worker;
use crate::ids::BridgeId;
use crate::mailbox::{MessageBody, Start};
use crate::registry::Lane;

const AUDIO: MediaKind = MediaKind::Audio;
const VIDEO: MediaKind = MediaKind::Video;

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
                self.take_output(&mut out);
                self.bridges.finish(&self.ctx, out);
            }
        }));
        if worked.is_err() {
            self.packets.counters.panics += 1;
            tracing::error!("a defect in the server ended a bridge");
            self.bridge_end(id, BridgeEnd::Defect);
        }
    }

    fn take_output(&mut self, out: &mut Output) {
        let Bridge { frames, packets, ref machine, .. } = self.bridges.slab[out.bridge];
        if let Machine::RtpToFrame(_) = machine {
            for frame in out.frames.frames.drain(..) {
                self.frames.fan_out(&mut self.ctx, frames, &frame);
            }
            if out.frames.key_frame_wanted
                && let Some(track) = TrackIndex::new(VIDEO, 0)
                && let Some(entry) = self.packets.streams.get_mut(packets)
            {
                entry.sfu.request_key_frame(self.ctx.now, track);
                let due = entry.sfu.next_timeout();
                self.packets.set_stream_timer(packets, due, self.ctx.now);
            }
            return;
        }
        if let Some(entry) = self.packets.streams.get_mut(packets) {
            for (fields, payload) in out.packets.packets() {
                if let Err(reason) = entry.sfu.receive_packet(self.ctx.now, fields, payload) {
                    self.packets.counters.dropped += 1;
                    tracing::debug!(?reason, "a packet of a bridge was dropped");
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
            && !std::mem::replace(&mut local.warned, true)
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
            // Who waits for a picture is sent away, and told why when it comes again; who came for audio
            // stays.
            for remote in entry.publication.remotes.clone() {
                let start = Start::Packets { tracks: Arc::clone(&tracks), packets: Vec::new() };
                let body = MessageBody::Start(Box::new(start));
                self.ctx.send(remote.worker, (stream, epoch, Lane::Packets), body);
            }
            self.packets.end_video_players(&mut self.ctx, packets);
        }
    }
}
