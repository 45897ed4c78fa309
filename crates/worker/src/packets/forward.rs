//! Packets out: what came in since the last time, to every viewer of its stream.
//!
//! The order is viewer by viewer, so that one viewer's packets of a frame stand next to each other and leave
//! as one run. Per packet and viewer this is a header of some twenty bytes, one pass of the cipher from the
//! packet cache straight into the datagram, and nothing else: no look-up by name, no allocation, no copy.

use std::cmp::Reverse;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use sfu::{Batch, HEADER_LEN_MAX};
use srtp::OutboundContext;

use super::session::{Route, SendTransport};
use super::streams::Streams;
use super::{Action, Due, Packets, TIMER_MIN};
use crate::context::Context;
use crate::ids::{PacketStreamId, PeerId, PortId, Table, TableId};
use crate::mailbox::{MessageBody, WorkerMessage};
use crate::net::ice_tcp::TcpPeers;
use crate::net::udp_port::{SendCounters, UdpPort};
use crate::registry::Lane;
use worker_api::EndReason;

/// Bytes a packet grows by at most when it is protected: the tag of AES-GCM (RFC 7714 section 5).
const TAG_BYTES_MAX: usize = 16;
/// The same for RTCP, with its index (RFC 3711 section 3.4).
const RTCP_TRAILER_BYTES_MAX: usize = TAG_BYTES_MAX + 4;

/// The send transports of all sessions that are connected.
#[derive(Default)]
pub(super) struct SendTransports(Vec<Option<SendTransport>>);

impl SendTransports {
    /// That of a session.
    pub(super) fn get(&self, peer: PeerId) -> Option<&SendTransport> {
        self.0.get(peer.index())?.as_ref()
    }

    /// That of a session.
    pub(super) fn get_mut(&mut self, peer: PeerId) -> Option<&mut SendTransport> {
        self.0.get_mut(peer.index())?.as_mut()
    }

    /// Sets that of a session.
    pub(super) fn set(&mut self, peer: PeerId, transport: Option<SendTransport>) {
        if self.0.len() <= peer.index() {
            self.0.resize_with(peer.index() + 1, || None);
        }
        self.0[peer.index()] = transport;
    }
}

/// The sockets of sessions: ports, and connections of those without UDP.
pub(super) struct Sockets {
    pub(super) ports: Table<PortId, UdpPort>,
    pub(super) tcp: TcpPeers,
    pub(super) sent: SendCounters,
}

impl Sockets {
    /// Lets `write` protect a packet of up to `len_max` bytes in the place that it is sent from. Its length,
    /// if there is one now.
    #[inline]
    pub(super) fn send(
        &mut self,
        transport: &mut SendTransport,
        now_ms: u64,
        len_max: usize,
        write: impl FnOnce(&mut OutboundContext, &mut [u8]) -> Option<usize>,
    ) -> Option<usize> {
        if transport.paused {
            self.sent.paused += 1;
            tracing::trace!("packet not sent: the session has no path");
            return None;
        }
        let outbound = &mut transport.outbound;
        let len = match transport.route {
            Route::Udp { port, remote } => {
                let sent = &mut self.sent;
                self.ports[port].datagram(remote, len_max, now_ms, sent, |out| write(outbound, out))
            }
            Route::Tcp { connection, path } => {
                self.tcp.datagram(connection, &path, len_max, |out| write(outbound, out))
            }
        }?;
        self.sent.packets += 1;
        self.sent.bytes += len as u64;
        Some(len)
    }
}

impl Streams {
    /// The stream has something to forward. Streams wait in a queue until a receive batch has been taken in:
    /// a batch costs little more than a packet, since viewers are walked once and equal datagrams leave as
    /// one.
    pub(crate) fn mark_dirty(&mut self, stream: PacketStreamId) {
        if let Some(entry) = self.table.get_mut(stream)
            && !std::mem::replace(&mut entry.queued, true)
        {
            self.dirty.push(stream);
        }
    }
}

impl Packets {
    /// Forwards what came in since the last time. A defect that makes a stream panic ends that stream's
    /// sessions.
    pub(crate) fn forward(&mut self, ctx: &mut Context) {
        while let Some(stream) = self.streams.dirty.pop() {
            self.guard_stream(ctx, stream, |packets, ctx| packets.forward_stream(ctx, stream));
        }
    }

    fn forward_stream(&mut self, ctx: &mut Context, id: PacketStreamId) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        stream.queued = false;
        let publication = &stream.publication;
        let Batch { packets, viewers } = stream.sfu.prepare_batch();
        if let Some(source) = publication.source {
            for (remote, at) in
                publication.remotes.iter().flat_map(|remote| (0..packets.len()).map(move |at| (remote, at)))
            {
                let Some(packet) = packets.packet(at).map(Arc::clone) else { continue };
                let body = MessageBody::Packet(packet);
                let message =
                    WorkerMessage { stream: publication.id, epoch: source.epoch, lane: Lane::Packets, body };
                if !ctx.mailboxes.try_send(remote.worker, message) {
                    self.counters.ring_drops += 1;
                    tracing::trace!(
                        worker = remote.worker.0,
                        "packet dropped: the other worker's ring is full"
                    );
                }
            }
        }
        if let Some(bridge) = publication.bridge.filter(|_| !packets.is_empty()) {
            let from = self.actions.tapped.len();
            self.actions
                .tapped
                .extend((0..packets.len()).filter_map(|at| packets.packet(at)).map(Arc::clone));
            self.actions.queue.push_back(Action::Bridge { bridge, packets: from..self.actions.tapped.len() });
        }
        let mut header = [0; HEADER_LEN_MAX];
        for viewer in viewers.iter_mut() {
            let peer = PeerId(viewer.token() as u32);
            let Some(transport) = self.transports.get_mut(peer).filter(|transport| !transport.paused) else {
                self.sockets.sent.paused += packets.len() as u64;
                tracing::trace!(
                    ?peer,
                    packets = packets.len(),
                    "packets dropped: the viewer's path is paused"
                );
                continue;
            };
            let (mut sent, mut bytes) = (0, 0);
            for at in 0..packets.len() {
                // `None` for a track that the viewer does not take or has not begun with.
                let Some(len) = viewer.header_for(&packets, at, &mut header) else { continue };
                let payload = packets.payload(at);
                let len_max = len + payload.len() + TAG_BYTES_MAX;
                let made = self.sockets.send(transport, ctx.now_ms, len_max, |outbound, out| {
                    outbound.protect_rtp_from(&header[..len], payload, out).ok()
                });
                sent += u64::from(made.is_some());
                bytes += made.unwrap_or(0) as u64;
            }
            self.columns.sent(peer, bytes);
            self.columns.passed(peer, sent);
        }
        stream.sfu.finish_batch();
        if stream.sfu.has_backlog() {
            stream.sfu.send_backlog(ctx.now, |token, header, payload| {
                let peer = PeerId(token as u32);
                let Some(transport) = self.transports.get_mut(peer) else { return };
                let len_max = header.len() + payload.len() + TAG_BYTES_MAX;
                let made = self.sockets.send(transport, ctx.now_ms, len_max, |outbound, out| {
                    outbound.protect_rtp_from(header, payload, out).ok()
                });
                self.columns.sent(peer, made.unwrap_or(0) as u64);
                self.columns.passed(peer, u64::from(made.is_some()));
            });
        }
        let due = stream.sfu.next_timeout();
        self.set_stream_timer(id, due, ctx.now);
    }

    /// A stream wants to be asked at `due`.
    pub(crate) fn set_stream_timer(&mut self, id: PacketStreamId, due: Option<Instant>, now: Instant) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        let due = due.map(|due| due.max(now + TIMER_MIN));
        if let Some(due) = due.filter(|due| stream.due.is_none_or(|set| *due < set)) {
            stream.due = Some(due);
            self.timers.push(Reverse((due, Due::Stream(id))));
        }
    }

    /// The stream's timer: feedback to its publisher, reports to its viewers, and what new viewers still have
    /// to get.
    pub(super) fn stream_due(&mut self, ctx: &mut Context, id: PacketStreamId) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        let publisher = stream.publication.peer();
        loop {
            self.scratch.clear();
            if !stream.sfu.poll_feedback(ctx.now, &mut self.scratch) {
                break;
            }
            if let Some(peer) = publisher
                && let Some(transport) = self.transports.get_mut(peer)
            {
                let len = send_rtcp(&mut self.sockets, transport, &self.scratch, ctx.now_ms);
                self.columns.sent(peer, len);
            }
        }
        stream.sfu.send_reports(ctx.now, |token, report| {
            let peer = PeerId(token as u32);
            if let Some(transport) = self.transports.get_mut(peer) {
                self.columns.sent(peer, send_rtcp(&mut self.sockets, transport, report, ctx.now_ms));
            }
        });
        // Viewers of a mirror that cannot go on without a key frame: the home has to ask for it.
        while let Some(track) = stream.sfu.poll_key_frame_request(ctx.now) {
            let home = ctx.directory.home(&stream.publication.key);
            if let Some((_, home)) = home.filter(|(_, home)| home.worker != ctx.worker) {
                let about = (stream.publication.id, home.epoch, Lane::Packets);
                ctx.send(home.worker, about, MessageBody::KeyFrameWanted(track));
            }
        }
        self.forward_stream(ctx, id);
    }

    /// Sends packets again that a viewer has missed: those in `resends`.
    pub(super) fn resend(&mut self, now_ms: u64, peer: PeerId) {
        let Some(transport) = self.transports.get_mut(peer) else { return self.resends.clear() };
        for resend in self.resends.drain(..) {
            let len_max = resend.packet_len() + TAG_BYTES_MAX;
            let made = self.sockets.send(transport, now_ms, len_max, |outbound, out| {
                let len = resend.write(out)?;
                outbound.protect_rtp(out, len).ok()
            });
            self.counters.packets_resent += u64::from(made.is_some());
            self.columns.sent(peer, made.unwrap_or(0) as u64);
        }
    }

    /// Does something for a stream. A defect of ours that makes it panic ends that stream's sessions; others
    /// go on.
    pub(crate) fn guard_stream(
        &mut self,
        ctx: &mut Context,
        stream: PacketStreamId,
        work: impl FnOnce(&mut Self, &mut Context),
    ) {
        if catch_unwind(AssertUnwindSafe(|| work(self, ctx))).is_err() {
            self.stream_panicked(ctx, stream);
        }
    }

    /// A defect of ours, met by this stream's packets.
    pub(crate) fn stream_panicked(&mut self, ctx: &mut Context, id: PacketStreamId) {
        self.counters.panics += 1;
        let Some(stream) = self.streams.get(id) else { return };
        let key = &*stream.publication.key;
        tracing::error!(stream = key, "a defect in the server ended this stream's sessions");
        self.actions.queue.push_back(Action::StreamFailed(stream.publication.id));
        // What panicked is not asked again.
        self.streams.reset(id);
        let of_stream = |peer: &PeerId| self.sessions[*peer].streams().any(|stream| stream == id);
        let sessions = self.sessions.iter().map(|(peer, _)| peer);
        let sessions: Vec<PeerId> = sessions.filter(of_stream).collect();
        for peer in sessions {
            self.end(ctx, peer, EndReason::Defect);
        }
    }
}

/// Sends a compound RTCP packet. The bytes sent.
pub(super) fn send_rtcp(
    sockets: &mut Sockets,
    transport: &mut SendTransport,
    plain: &[u8],
    now_ms: u64,
) -> u64 {
    let len_max = plain.len() + RTCP_TRAILER_BYTES_MAX;
    let made =
        sockets.send(transport, now_ms, len_max, |outbound, out| outbound.protect_rtcp_from(plain, out).ok());
    made.unwrap_or(0) as u64
}
