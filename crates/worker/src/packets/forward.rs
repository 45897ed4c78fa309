//! Packets out: what came in since the last time, to every viewer of its stream.
//!
//! The order is viewer by viewer, so that one viewer's packets of a frame stand next to each other and leave as one run.
//! Per packet and viewer this is a header of some twenty bytes, one pass of the cipher from the history straight into
//! the datagram, and nothing else: no look-up by name, no allocation, no copy.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use sfu::{Batch, HEADER_LEN_MAX, Resend};
use srtp::OutboundContext;

use crate::event_loop::Worker;
use crate::ids::{PacketStreamId, PeerId, PortId, Table, TableId};
use crate::mailbox::{MessageBody, WorkerMessage};
use crate::net::ice_tcp::TcpPeers;
use crate::net::udp_port::{SendCounters, UdpPort};
use crate::packets::Rtc;
use crate::packets::session::{Route, SendTransport};
use crate::registry::Lane;
use crate::stats::columns::Columns;
use worker_api::EndReason;

/// Bytes a packet grows by at most when it is protected: the tag of AES-GCM (RFC 7714 section 5).
const TAG_BYTES_MAX: usize = 16;
/// The same for RTCP, with its id (RFC 3711 section 3.4).
const RTCP_TRAILER_BYTES_MAX: usize = TAG_BYTES_MAX + 4;

/// Where datagrams are written to: all ways out of a worker.
struct Egress<'a> {
    ports: &'a mut Table<PortId, UdpPort>,
    tcp: &'a mut TcpPeers,
    counters: &'a mut SendCounters,
    columns: &'a mut Columns,
    now_ms: u64,
}

impl Egress<'_> {
    /// Lets `write` make a datagram of up to `len_max` bytes for the outlet of session `peer`, where it will be sent from.
    /// Says whether there is one now.
    fn datagram(
        &mut self,
        peer: PeerId,
        transport: &mut SendTransport,
        len_max: usize,
        write: impl FnOnce(&mut OutboundContext, &mut [u8]) -> Option<usize>,
    ) -> bool {
        if transport.paused {
            return false;
        }
        let sent = match transport.route {
            Route::Udp { port, remote } => {
                let port = &mut self.ports[port];
                let Some(id) = port.reserve(remote, len_max, self.now_ms, self.counters) else {
                    return false;
                };
                let batch = port.batch();
                let len = write(&mut transport.outbound, batch.buffer(id));
                match len {
                    Some(len) => batch.set_len(id, len),
                    None => batch.discard(id),
                }
                len
            }
            Route::Tcp { connection, path } => {
                self.tcp.datagram(connection, &path, len_max, |out| write(&mut transport.outbound, out))
            }
        };
        if let Some(len) = sent {
            self.columns.sent(peer, len as u64);
            self.counters.packets += 1;
            self.counters.bytes += len as u64;
        }
        sent.is_some()
    }
}

impl Worker {
    /// Forwards what came in since the last time. A defect that makes a stream panic ends that stream's sessions.
    pub(crate) fn rtc_forward(&mut self) {
        while let Some(id) = self.rtc.dirty_streams.pop() {
            let forwarded = catch_unwind(AssertUnwindSafe(|| self.rtc_forward_stream(id)));
            if forwarded.is_err() {
                self.rtc_stream_panicked(id);
            }
        }
    }

    fn rtc_forward_stream(&mut self, id: PacketStreamId) {
        let Some(stream) = self.rtc.streams.slab.get_mut(id) else { return };
        stream.dirty = false;
        let Batch { packets, viewers } = stream.packets.prepare_batch();
        if let Some(source) = stream.publication.source.filter(|_| !stream.publication.remotes.is_empty()) {
            for remote in &stream.publication.remotes {
                for at in 0..packets.len() {
                    let Some(packet) = packets.packet(at).map(Arc::clone) else { continue };
                    let message = WorkerMessage {
                        stream: stream.publication.id,
                        epoch: source.epoch,
                        lane: Lane::Packets,
                        body: MessageBody::Packet(packet),
                    };
                    let lost = !self.ctx.mailboxes.try_send(remote.worker, message);
                    self.rtc.counters.ring_drops += u64::from(lost);
                }
            }
        }
        let bridge = stream.publication.bridge;
        let mut tapped = Vec::new();
        if bridge.is_some() {
            tapped = std::mem::take(&mut self.bridges.tapped);
            tapped.extend((0..packets.len()).filter_map(|at| packets.packet(at)).map(Arc::clone));
        }
        let mut egress = Egress {
            ports: &mut self.rtc.ports,
            tcp: &mut self.rtc.tcp,
            counters: &mut self.rtc.sent,
            columns: &mut self.rtc.columns,
            now_ms: self.ctx.now_ms,
        };
        let mut header = [0; HEADER_LEN_MAX];
        for viewer in viewers.iter_mut() {
            let session = PeerId(viewer.token() as u32);
            let transport = self.rtc.send_transports.get_mut(session.index()).and_then(Option::as_mut);
            let Some(transport) = transport.filter(|transport| !transport.paused) else { continue };
            let mut sent = 0;
            for at in 0..packets.len() {
                let Some(len) = viewer.header_for(&packets, at, &mut header) else { continue };
                let payload = packets.payload(at);
                let len_max = len + payload.len() + TAG_BYTES_MAX;
                sent += u64::from(egress.datagram(session, transport, len_max, |outbound, out| {
                    outbound.protect_rtp_from(&header[..len], payload, out).ok()
                }));
            }
            egress.columns.passed(session, sent);
        }
        stream.packets.finish_batch();
        if stream.packets.has_backlog() {
            let send_transports = &mut self.rtc.send_transports;
            stream.packets.send_backlog(self.ctx.now, |token, header, payload| {
                let session = PeerId(token as u32);
                let Some(Some(transport)) = send_transports.get_mut(session.index()) else { return };
                let len_max = header.len() + payload.len() + TAG_BYTES_MAX;
                let sent = egress.datagram(session, transport, len_max, |outbound, out| {
                    outbound.protect_rtp_from(header, payload, out).ok()
                });
                egress.columns.passed(session, u64::from(sent));
            });
        }
        let due = stream.packets.next_timeout();
        self.rtc.set_stream_timer(id, due, self.ctx.now);
        if let Some(bridge) = bridge {
            self.bridge_packets(bridge, &tapped);
            tapped.clear();
            self.bridges.tapped = tapped;
        }
    }

    /// The stream's timer: feedback to its publisher, reports to its viewers, and what new viewers still have to get.
    pub(crate) fn rtc_stream_due(&mut self, id: PacketStreamId) {
        let done = catch_unwind(AssertUnwindSafe(|| self.rtc_stream_reports(id)));
        if done.is_err() {
            self.rtc_stream_panicked(id);
        }
    }

    fn rtc_stream_reports(&mut self, id: PacketStreamId) {
        let Some(stream) = self.rtc.streams.slab.get_mut(id) else { return };
        let mut egress = Egress {
            ports: &mut self.rtc.ports,
            tcp: &mut self.rtc.tcp,
            counters: &mut self.rtc.sent,
            columns: &mut self.rtc.columns,
            now_ms: self.ctx.now_ms,
        };
        let scratch = &mut self.rtc.scratch;
        let publisher = stream.publication.peer();
        loop {
            scratch.clear();
            if !stream.packets.poll_feedback(self.ctx.now, scratch) {
                break;
            }
            let transport = publisher.and_then(|session| {
                Some((session, self.rtc.send_transports.get_mut(session.index())?.as_mut()?))
            });
            if let Some((session, transport)) = transport {
                send_rtcp(&mut egress, session, transport, scratch);
            }
        }
        let send_transports = &mut self.rtc.send_transports;
        stream.packets.send_reports(self.ctx.now, |token, report| {
            let session = PeerId(token as u32);
            if let Some(Some(transport)) = send_transports.get_mut(session.index()) {
                send_rtcp(&mut egress, session, transport, report);
            }
        });
        while let Some(track) = self
            .rtc
            .streams
            .slab
            .get_mut(id)
            .and_then(|stream| stream.packets.poll_key_frame_request(self.ctx.now))
        {
            self.rtc_ask_home(id, track);
        }
        self.rtc_forward_stream(id);
    }

    /// A defect of ours, met by this stream's packets: other streams go on.
    pub(crate) fn rtc_stream_panicked(&mut self, id: PacketStreamId) {
        self.rtc.counters.panics += 1;
        if self.rtc.streams.slab.get(id).is_none() {
            return;
        }
        // What panicked is not asked again.
        self.rtc.streams.start_anew(id);
        self.bridge_end_of_stream(self.rtc.streams.slab[id].publication.id, EndReason::Defect.text());
        if self.rtc.streams.slab.get(id).is_none() {
            return;
        }
        let stream = &self.rtc.streams.slab[id];
        tracing::error!(
            stream = &*stream.publication.key,
            "a defect in the server ended this stream's sessions"
        );
        let of_stream = |(at, session): (PeerId, &crate::packets::session::RtcSession)| {
            (session.stream == id).then_some(at)
        };
        let sessions: Vec<PeerId> = self.rtc.sessions.iter().filter_map(of_stream).collect();
        for session in sessions {
            self.rtc_end(session, EndReason::Defect);
        }
    }
}

impl Rtc {
    /// Sends a packet again that a viewer has missed.
    pub(crate) fn send_again(&mut self, peer: PeerId, resend: &Resend, now_ms: u64) {
        let Some(Some(transport)) = self.send_transports.get_mut(peer.index()) else { return };
        let mut egress = Egress {
            ports: &mut self.ports,
            tcp: &mut self.tcp,
            counters: &mut self.sent,
            columns: &mut self.columns,
            now_ms,
        };
        let packets_resent = &mut self.counters.packets_resent;
        egress.datagram(peer, transport, resend.packet_len() + TAG_BYTES_MAX, |outbound, out| {
            let len = resend.write(out)?;
            let len = outbound.protect_rtp(out, len).ok()?;
            *packets_resent += 1;
            Some(len)
        });
    }

    /// Sends a compound RTCP packet to a session.
    pub(crate) fn send_report(&mut self, peer: PeerId, plain: &[u8], now_ms: u64) {
        let Some(Some(transport)) = self.send_transports.get_mut(peer.index()) else { return };
        let mut egress = Egress {
            ports: &mut self.ports,
            tcp: &mut self.tcp,
            counters: &mut self.sent,
            columns: &mut self.columns,
            now_ms,
        };
        send_rtcp(&mut egress, peer, transport, plain);
    }
}

fn send_rtcp(egress: &mut Egress<'_>, peer: PeerId, transport: &mut SendTransport, plain: &[u8]) {
    egress.datagram(peer, transport, plain.len() + RTCP_TRAILER_BYTES_MAX, |outbound, out| {
        outbound.protect_rtcp_from(plain, out).ok()
    });
}
