//! Packets of other nodes within a turn of the loop, and what other nodes are due.

use std::sync::Arc;

use sfu::{KeyFrameRequest, Packet, TrackIndex};

use super::PacketRelay;
use crate::event_loop::Worker;
use crate::registry::StreamId;

/// Datagrams after which no more are read in a turn; what is left is read in the next one.
const DATAGRAMS_MAX: usize = 4_096;

impl Worker {
    /// The socket has datagrams, which [`Worker::receive_from_nodes`] reads.
    pub(crate) fn relay_readable(&mut self) {
        if let Some(relay) = &mut self.relay {
            relay.port.readable = true;
        }
    }

    /// Takes in what other nodes have sent, and forwards after each batch.
    pub(crate) fn receive_from_nodes(&mut self) {
        let Some(relay) = self.relay.as_mut().filter(|relay| relay.port.readable) else { return };
        let mut read = 0;
        while relay.port.readable && read < DATAGRAMS_MAX {
            let packets = &mut self.packets;
            read += relay.receive_batch(&mut self.ctx, &mut self.received, |ctx, packet| {
                packets.receive_relayed(ctx, packet)
            });
            self.packets.forward(&mut self.ctx);
        }
        self.carry_out_actions();
    }

    /// Sends other nodes what is due by the clock, and asks publishers for the key frames that they want.
    pub(crate) fn run_relay_timers(&mut self) {
        let Some(relay) = &mut self.relay else { return };
        let PacketRelay { sender, review, of_out, .. } = &mut **relay;
        sender.poll_left_out(|_, out| review.extend(of_out.get(&out)));
        self.review_encodings();
        let Some(relay) = &mut self.relay else { return };
        let (packets, now) = (&mut self.packets, self.ctx.now);
        let mut is_any_asked = false;
        relay.run_timers(&self.ctx, |id, track, encoding| {
            let Some(stream) = packets.streams.find(id) else { return };
            let request = KeyFrameRequest { track, encoding, is_for_one: false };
            packets.streams[stream].sfu.request_key_frame_of(now, request);
            packets.streams.mark_dirty(stream);
            is_any_asked = true;
        });
        if is_any_asked {
            self.packets.forward(&mut self.ctx);
            self.carry_out_actions();
        }
    }

    /// Ends what is over by the clock.
    pub(crate) fn sweep_relay(&mut self) {
        let Some(relay) = &mut self.relay else { return };
        let bytes = relay.port.counts.bytes;
        self.ctx.load.bytes_out += bytes - std::mem::replace(&mut relay.sampled_bytes, bytes);
        for id in relay.sweep(self.ctx.now) {
            self.forget_served(id);
        }
    }

    /// Packets of a stream that other nodes get have come in.
    pub(crate) fn serve_packets(&mut self, id: StreamId, packets: &[(Arc<Packet>, Option<u64>)]) {
        let Some(relay) = &mut self.relay else { return };
        let clock = self.packets.streams.clock;
        if let Some(stream) = self.packets.streams.find(id) {
            relay.seal(&self.ctx, (clock, &self.packets.streams[stream].sfu), id, packets);
        }
    }

    /// A node here needs a key frame of a stream that it fetches.
    pub(crate) fn request_of_parent(&mut self, id: StreamId, track: TrackIndex, encoding: Option<u8>) {
        let Some(relay) = &mut self.relay else { return };
        if let Some(fetched) = relay.fetched.get(&id) {
            relay.counters.key_frame_requests_out += 1;
            let ssrc = track.relayed_ssrc(encoding.unwrap_or(0));
            relay.receiver.request_key_frame(self.ctx.now, fetched.into, ssrc);
        }
    }
}
