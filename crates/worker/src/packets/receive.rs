//! Datagrams in: from a UDP port or a TCP connection to the session they belong to, and its packets to its
//! stream.
//!
//! STUN finds its session by the username fragment, everything else by the address it came from, which is in
//! a port's table only once an authentic check came from there. Packets whose tag is wrong go no further than
//! the counter.

use std::io;
use std::time::Duration;

use rtc::demux::{self, Kind};
use rtc::tcp_framing::Deframer;
use rtc::{Path, Refusal, Signal};
use sfu::Received;
use srtp::UnprotectError;

use super::Packets;
use super::session::{Route, State};
use crate::context::Context;
use crate::ids::{IceTcpId, PeerId, PortId};
use crate::net::ice_tcp::UNSENT_BYTES_MAX;
use crate::net::{Interest, Readiness, ReceivedBatch, Token};
use crate::packet_relay::RelayedPacket;
use crate::publication::Source;
use crate::registry::Origin;
use crate::stats::columns::Reception;
use worker_api::snapshot::RtcCounters;

/// Datagrams read from a port per turn at most; the next turn reads the rest, so that one port does not hold
/// up the others. The limit is above what arrives during the longest turn: in a socket, audio, requests and
/// checks wait behind video. A worker with too much video to send would lose them with it.
const DATAGRAMS_MAX: usize = 4_096;
/// ICE-TCP connections accepted per listener and turn.
const ACCEPTS_MAX: usize = 64;

impl Packets {
    /// A listener has connections, which [`Packets::input`] accepts.
    pub(crate) fn listener_event(&mut self, listener: usize) {
        if listener < self.listeners.len() {
            self.accept_again(listener);
        }
    }

    /// A listener has its turn in the next one; once, however many ask for it.
    pub(super) fn accept_again(&mut self, listener: usize) {
        if !self.accept_again.contains(&listener) {
            self.accept_again.push_back(listener);
        }
    }

    /// A port has datagrams, which [`Packets::input`] reads.
    pub(crate) fn port_event(&mut self, port: PortId) {
        self.sockets.ports[port].readable = true;
    }

    /// Reads what waits at listeners, connections and ports, and forwards after each batch.
    pub(crate) fn input(&mut self, ctx: &mut Context, received: &mut ReceivedBatch) {
        // Those that have more are added behind, for the next turn.
        for _ in 0..self.accept_again.len() {
            if let Some(listener) = self.accept_again.pop_front() {
                self.accept(ctx, listener);
            }
        }
        for _ in 0..self.tcp_read_again.len() {
            if let Some(connection) = self.tcp_read_again.pop_front() {
                self.read_tcp(ctx, connection);
            }
        }
        for port in self.sockets.ports.ids() {
            let udp = &mut self.sockets.ports[port];
            udp.readable |= udp.reading.begin_round(ctx.now);
            let mut read = 0;
            while read < DATAGRAMS_MAX {
                let udp = &mut self.sockets.ports[port];
                if !udp.readable {
                    break;
                }
                if let Err(error) = udp.receive(received) {
                    if error.kind() != io::ErrorKind::WouldBlock {
                        tracing::debug!(%error, "receiving failed");
                    }
                    break;
                }
                let local = udp.local;
                read += received.len();
                self.batch_is_urgent = false;
                for datagram in received.iter_mut() {
                    let remote = datagram.source;
                    self.datagram(
                        ctx,
                        Route::Udp { port, remote },
                        Path::udp(local, remote),
                        datagram.payload,
                    );
                }
                let udp = &mut self.sockets.ports[port];
                if let Some(change) = udp.reading.note_batch(received.len(), self.batch_is_urgent) {
                    udp.change_reading(port, &ctx.events, change, ctx.now);
                }
                self.forward(ctx);
            }
        }
    }

    /// Takes one datagram in. A defect that makes a session panic ends that session.
    pub(super) fn datagram(&mut self, ctx: &mut Context, route: Route, path: Path, datagram: &mut [u8]) {
        ctx.counters.bytes_in += datagram.len() as u64;
        ctx.load.bytes_in += datagram.len() as u64;
        let at_route = || match route {
            Route::Udp { port, remote } => self.sockets.ports[port].session_at(remote),
            Route::Tcp { connection, .. } => self.sockets.tcp.get(connection)?.session,
        };
        let kind = demux::classify(datagram);
        let peer = match kind {
            Kind::Stun => {
                let ufrag = demux::stun_local_ufrag(datagram);
                // An answer to our own check has no username: its session is the one at its address.
                ufrag.and_then(|ufrag| self.by_ufrag.get(ufrag).copied()).or_else(at_route)
            }
            Kind::Other => None,
            Kind::Dtls | Kind::Rtp | Kind::Rtcp => at_route(),
        };
        let Some(peer) = peer else {
            if self.pass_datagram(ctx, (kind, route), datagram) {
                return;
            }
            self.counters.unknown_source += 1;
            tracing::trace!(remote = %path.remote, ?kind, "datagram dropped: it belongs to no session");
            return;
        };
        self.guard(ctx, peer, |packets, ctx| match kind {
            Kind::Rtp => packets.rtp(ctx, peer, datagram),
            Kind::Rtcp => packets.rtcp(ctx, peer, datagram),
            _ => packets.signal(ctx, peer, route, path, datagram),
        });
    }

    fn rtp(&mut self, ctx: &mut Context, peer: PeerId, datagram: &mut [u8]) {
        let bytes = datagram.len() as u64;
        let Some(session) = self.sessions.get_mut(peer) else { return };
        let State::Connected(inbound) = &mut session.transport.state else {
            return drop_packet(&mut self.counters, "there are no keys yet");
        };
        let len = match inbound.unprotect_rtp(datagram) {
            Ok(len) => len,
            Err(error) => return refuse(&mut self.counters, error),
        };
        session.transport.received_ms = ctx.now_ms;
        self.columns.received(peer, bytes);
        self.counters.packets_in += 1;
        // With several publications the SSRC, or the MID of its first packets, will say which one a packet is
        // of.
        let Some(publication) = session.publications.first() else {
            return drop_packet(&mut self.counters, "the session publishes nothing");
        };
        self.columns.passed(peer, 1);
        let id = publication.stream;
        let source = Some(Source { epoch: publication.epoch, origin: Origin::Peer(peer) });
        let stream = self.streams.get_mut(id).filter(|stream| stream.publication.source == source);
        let Some(stream) = stream else {
            return drop_packet(&mut self.counters, "another session publishes the stream");
        };
        let is_watched = stream.publication.is_watched();
        self.batch_is_urgent |= is_watched;
        stream.sfu.set_watched(ctx.now, is_watched);
        match stream.sfu.receive(ctx.now, &datagram[..len]) {
            Ok(received) => {
                // Unless somebody watches, it is gone with the next packet.
                if received.ends_key_frame {
                    stream.read_key_frames();
                }
                self.streams.mark_dirty(id);
            }
            Err(reason) => drop_packet(&mut self.counters, reason.name()),
        }
    }

    fn rtcp(&mut self, ctx: &mut Context, peer: PeerId, datagram: &mut [u8]) {
        let bytes = datagram.len() as u64;
        let Some(session) = self.sessions.get_mut(peer) else { return };
        let State::Connected(inbound) = &mut session.transport.state else {
            return drop_packet(&mut self.counters, "there are no keys yet");
        };
        let len = match inbound.unprotect_rtcp(datagram) {
            Ok(len) => len,
            Err(error) => return refuse(&mut self.counters, error),
        };
        session.transport.received_ms = ctx.now_ms;
        self.batch_is_urgent |= !session.subscriptions.is_empty();
        self.columns.received(peer, bytes);
        self.counters.packets_in += 1;
        let rtcp = &datagram[..len];
        // A compound packet may be about any of the streams; each looks for the SSRCs that it knows. A BYE is
        // counted, and ends nothing: a session ends by close_notify, `DELETE` or a time limit.
        for publication in &session.publications {
            let stream = self.streams.get_mut(publication.stream);
            if let Some(stream) = stream.filter(|stream| stream.publication.peer() == Some(peer)) {
                let events = stream.sfu.receive_rtcp(ctx.now, rtcp);
                self.counters.byes_in += u64::from(events.bye);
                if events.is_malformed {
                    drop_packet(&mut self.counters, "malformed RTCP");
                }
                self.streams.mark_dirty(publication.stream);
            }
        }
        for subscription in &session.subscriptions {
            let Some(stream) = self.streams.get_mut(subscription.stream) else { continue };
            let Some(viewer) = subscription.viewer else {
                drop_packet(&mut self.counters, "RTCP before anything was sent");
                continue;
            };
            let pacer = self.transports.get_mut(peer).and_then(|transport| transport.pacer.as_deref_mut());
            stream.note_others();
            let events = stream.sfu.viewer_rtcp(ctx.now, viewer, rtcp, pacer, &mut self.resends);
            self.counters.nacks_in += events.nacked_packets;
            self.counters.resends_refused += events.not_resent;
            self.counters.key_frame_requests_in += events.key_frame_requests;
            self.counters.byes_in += u64::from(events.bye);
            if events.is_malformed {
                drop_packet(&mut self.counters, "malformed RTCP");
            }
            if events.is_report {
                let stats = stream.sfu.viewer_stats(viewer).unwrap_or_default();
                let milliseconds = |time: Duration| time.as_secs_f32() * 1000.0;
                self.columns.reported(
                    peer,
                    Reception {
                        lost_packets: stats.lost.max(0) as u64,
                        loss_percent: stats.fraction_lost * 100.0,
                        rtt_ms: stats.round_trip.map_or(f32::NAN, milliseconds),
                        jitter_ms: milliseconds(stats.jitter),
                    },
                );
            }
            self.streams.mark_dirty(subscription.stream);
        }
        // What a worker cannot send once it does not send twice.
        if self.video.is_late(ctx.now) && !self.resends.is_empty() {
            tracing::trace!(?peer, packets = self.resends.len(), "packets not resent: video is late already");
            self.counters.resends_refused += self.resends.len() as u64;
            self.resends.clear();
        }
        self.resend(ctx, peer);
    }

    /// Takes in a packet of another node's publication, RTP or a sender report. What became of RTP.
    pub(crate) fn receive_relayed(
        &mut self,
        ctx: &mut Context,
        relayed: RelayedPacket<'_>,
    ) -> Option<Received> {
        self.receive_of(ctx, Origin::Node, relayed)
    }

    /// Takes in a packet of what `origin` publishes, which was in no session of WebRTC. A defect that makes
    /// the stream panic ends its sessions.
    pub(crate) fn receive_of(
        &mut self,
        ctx: &mut Context,
        origin: Origin,
        packet: RelayedPacket<'_>,
    ) -> Option<Received> {
        let RelayedPacket { stream: id, epoch, packet, is_rtcp } = packet;
        let mut received = None;
        self.guard_stream(ctx, id, |packets, ctx| {
            let source = Some(Source { epoch, origin });
            let stream = packets.streams.get_mut(id).filter(|stream| stream.publication.source == source);
            let Some(stream) = stream else { return };
            if stream.publication.is_sent_by_client() {
                stream.sfu.set_watched(ctx.now, stream.publication.is_watched());
            }
            if is_rtcp {
                if stream.sfu.receive_rtcp(ctx.now, packet).is_malformed {
                    drop_packet(&mut packets.counters, "malformed RTCP of a publisher without a session");
                }
                return packets.streams.mark_dirty(id);
            }
            match stream.sfu.receive(ctx.now, packet) {
                Ok(taken) => {
                    if taken.ends_key_frame {
                        stream.read_key_frames();
                    }
                    packets.streams.mark_dirty(id);
                    received = Some(taken);
                }
                Err(reason) => drop_packet(&mut packets.counters, reason.name()),
            }
        });
        received
    }

    /// STUN or DTLS.
    fn signal(&mut self, ctx: &mut Context, peer: PeerId, route: Route, path: Path, datagram: &[u8]) {
        let Some(session) = self.sessions.get_mut(peer) else { return };
        self.batch_is_urgent |= !session.subscriptions.is_empty();
        match session.transport.peer.handle_signal(ctx.now, path, datagram) {
            Signal::Accepted => {
                session.transport.received_ms = ctx.now_ms;
                match route {
                    Route::Tcp { connection, .. } => self.claim_tcp(ctx, connection, peer),
                    Route::Udp { port, remote } => self.bind_address(peer, port, remote, &path, ctx.now_ms),
                }
            }
            Signal::Refused(refusal) => {
                self.counters.signals_refused += 1;
                tracing::trace!(session = %session.id, reason = refusal.name(), "signal refused");
                // Of the others nothing has changed, and a flood of them should cost no more than it must.
                if !matches!(refusal, Refusal::RoleConflict | Refusal::DtlsRejected) {
                    return;
                }
            }
        }
        self.drive(ctx, peer);
    }

    /// Accepts what waits at a listener of ICE-TCP.
    pub(super) fn accept(&mut self, ctx: &mut Context, listener: usize) {
        for _ in 0..ACCEPTS_MAX {
            let (socket, remote) = match self.listeners[listener].accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    tracing::debug!(%error, "ICE-TCP accept failed");
                    // Others may wait behind it, and without descriptors a pause helps.
                    return self.accept_later.push(listener);
                }
            };
            let Ok(local) = socket.local_addr() else { continue };
            // Media is written in whole packets at the time they come.
            let _ = socket.set_nodelay();
            let _ = socket.set_unsent_bytes_max(UNSENT_BYTES_MAX);
            let connection = self.sockets.tcp.vacant_id();
            if let Err(error) = ctx.events.add(&socket, Token::IceTcp(connection), Interest::ReadWrite) {
                tracing::warn!(%error, "ICE-TCP connection not registered");
            } else if self.sockets.tcp.insert(socket, local, remote, ctx.now_ms).is_none() {
                tracing::debug!(%remote, "ICE-TCP connection refused: too many that nobody claims");
            }
        }
        self.accept_again(listener);
    }

    /// Something happened to a connection of ICE-TCP, which [`Packets::input`] reads.
    pub(crate) fn tcp_event(&mut self, ctx: &mut Context, connection: IceTcpId, ready: &Readiness) {
        let Some(tcp) = self.sockets.tcp.get_mut(connection) else { return };
        if ready.writable && tcp.write().is_err() {
            return self.close_tcp(ctx, connection);
        }
        if ready.readable || ready.closed {
            self.read_tcp_again(connection);
        }
    }

    /// Reads a connection once and handles its datagrams; what may be left is for the next turn.
    pub(super) fn read_tcp(&mut self, ctx: &mut Context, connection: IceTcpId) {
        let Some(tcp) = self.sockets.tcp.get_mut(connection) else { return };
        tcp.reads_again = false;
        let goes_on = match tcp.read(&mut ctx.read_buffer) {
            Ok(0) => false,
            Ok(_) => {
                let path = tcp.path;
                // Taken out, because what is in a datagram may end the session and with it the connection.
                let deframer = std::mem::take(&mut tcp.deframer);
                self.take_framed(ctx, connection, path, deframer)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) => error.kind() == io::ErrorKind::Interrupted,
        };
        if goes_on {
            self.read_tcp_again(connection);
        } else {
            self.close_tcp(ctx, connection);
        }
        self.forward(ctx);
    }

    /// A connection is read when input is next; once, so that one that sends without pause does not
    /// come round twice as often.
    fn read_tcp_again(&mut self, connection: IceTcpId) {
        if let Some(tcp) = self.sockets.tcp.get_mut(connection)
            && !std::mem::replace(&mut tcp.reads_again, true)
        {
            self.tcp_read_again.push_back(connection);
        }
    }

    /// Handles the datagrams of a connection. False if it cannot go on.
    pub(super) fn take_framed(
        &mut self,
        ctx: &mut Context,
        connection: IceTcpId,
        path: Path,
        mut deframer: Deframer,
    ) -> bool {
        let is_whole = loop {
            let datagram = match deframer.pop() {
                Ok(Some(datagram)) => datagram,
                Ok(None) => break true,
                Err(_) => break false,
            };
            let tcp = self.sockets.tcp.get(connection).filter(|tcp| tcp.path == path);
            if let Some(owner) = tcp.and_then(|tcp| self.owner_of_connection(tcp.session, datagram)) {
                let first = datagram.to_vec();
                if let Some(tcp) = self.sockets.tcp.remove(connection) {
                    self.pass_connection(ctx, owner, (tcp.socket, path), (first, deframer));
                }
                return true;
            }
            self.datagram(ctx, Route::Tcp { connection, path }, path, datagram);
        };
        if let Some(tcp) = self.sockets.tcp.get_mut(connection).filter(|tcp| tcp.path == path) {
            tcp.deframer = deframer;
        }
        is_whole
    }

    /// Ends a connection; its session may have another way.
    pub(super) fn close_tcp(&mut self, ctx: &mut Context, connection: IceTcpId) {
        let Some(mut tcp) = self.sockets.tcp.remove(connection) else { return };
        // Last words of a session that ended; the peer has other ways to notice.
        let _ = tcp.write();
        ctx.events.remove(&tcp.socket);
        let Some(peer) = tcp.session.filter(|peer| self.sessions.contains(*peer)) else { return };
        if let Some(transport) = self.transports.get_mut(peer)
            && matches!(transport.route, Route::Tcp { path, .. } if path == tcp.path)
        {
            transport.paused = true;
        }
        self.guard(ctx, peer, |packets, ctx| {
            packets.sessions[peer].transport.peer.path_closed(ctx.now, &tcp.path);
            packets.drive(ctx, peer);
        });
    }

    /// A check of `peer` came over a connection and was authentic.
    fn claim_tcp(&mut self, ctx: &mut Context, connection: IceTcpId, peer: PeerId) {
        let Some(tcp) = self.sockets.tcp.get(connection) else { return };
        let path = tcp.path;
        // The first one keeps it: a connection carries one peer.
        let is_new = tcp.session.is_none() && self.sessions[peer].transport.peer.is_valid(&path);
        if is_new && !self.sockets.tcp.claim(connection, peer) {
            self.close_tcp(ctx, connection);
            self.sessions[peer].transport.peer.path_closed(ctx.now, &path);
        }
    }
}

/// Drops a packet that came in.
fn drop_packet(counters: &mut RtcCounters, reason: &str) {
    counters.dropped += 1;
    tracing::trace!(reason, "packet dropped");
}

/// Drops a packet that could not be decrypted.
fn refuse(counters: &mut RtcCounters, error: UnprotectError) {
    match error {
        UnprotectError::AuthFailed => counters.unauthentic += 1,
        _ => counters.dropped += 1,
    }
    tracing::trace!(%error, "packet dropped");
}
