//! Drives a session's peer: what it wants sent, what it has to say, where it is, and when it wants to be
//! asked again.

use std::net::SocketAddr;

use group_send::peer_table::PeerKey;
use rtc::{Event, FailReason, Path, SrtpKeys};
use rtp::payload::MediaKind;
use sfu::Pacer;
use srtp::{InboundContext, OutboundContext};

use super::inputs;
use super::session::{Route, SendTransport, Session, State};
use super::{Due, Packets, TIMER_MIN};
use crate::context::Context;
use crate::ids::{IceTcpId, PeerId, PortId};
use crate::net::udp_port::Heading;
use crate::stats::columns::packets_reference;
use worker_api::EndReason;
use worker_api::columns::NO_STREAM;
use worker_api::rtc::RtcNotice;
use worker_api::traces::Stage;

impl Packets {
    /// Takes from the peer what it has for us. To be called after everything that is done to it.
    pub(crate) fn drive(&mut self, ctx: &mut Context, peer: PeerId) {
        loop {
            let Some(session) = self.sessions.get_mut(peer) else { return };
            let Some(event) = session.transport.peer.poll_event() else { break };
            let (id, is_handed_over) = (session.id, session.is_handed_over);
            match event {
                Event::PathSelected(path) => {
                    session.transport.consent_lost_ms = None;
                    if let Some(trace) = &mut session.trace {
                        trace.reach(ctx.now, Stage::Dtls);
                    }
                    let route = self.route(peer, &path);
                    if let (Some(route), Some(transport)) = (route, self.transports.get_mut(peer)) {
                        tracing::debug!(session = %id, remote = %path.remote, "path selected");
                        if transport.route != route
                            && let Some(pacer) = &mut transport.pacer
                        {
                            pacer.forget_socket();
                        }
                        transport.route = route;
                        transport.paused = is_handed_over;
                    }
                    self.join(ctx, peer);
                }
                Event::Connected(keys) => self.connected(ctx, peer, &keys),
                Event::ConsentLost => {
                    tracing::debug!(session = %id, "consent lost");
                    session.transport.consent_lost_ms = Some(ctx.now_ms);
                    if let Some(transport) = self.transports.get_mut(peer) {
                        transport.paused = true;
                    }
                }
                Event::Closed(_) => self.end(ctx, peer, EndReason::ClosedByPeer),
                Event::Failed(reason) => {
                    tracing::debug!(session = %id, ?reason, "connection failed");
                    let expired = matches!(reason, FailReason::IceTimeout | FailReason::DtlsTimeout);
                    self.counters.expired += u64::from(expired);
                    self.end(ctx, peer, EndReason::ConnectFailed);
                }
            }
        }
        self.send_transmits(peer, ctx.now_ms);
        self.prune_addresses(peer);
        let Some(session) = self.sessions.get_mut(peer) else { return };
        let transport = &mut session.transport;
        if let Some(due) = transport.peer.next_timeout() {
            self.timers.set(Due::Session(peer), &mut transport.due, due.max(ctx.now + TIMER_MIN));
        }
    }

    /// ICE and DTLS are done: media may flow.
    fn connected(&mut self, ctx: &mut Context, peer: PeerId, keys: &SrtpKeys) {
        let session = &mut self.sessions[peer];
        let id = session.id;
        let config = srtp::Config::default();
        let contexts =
            InboundContext::new(&config, std::slice::from_ref(&keys.inbound)).and_then(|inbound| {
                Ok((inbound, OutboundContext::new(&config, std::slice::from_ref(&keys.outbound))?))
            });
        let (inbound, outbound) = match contexts {
            Ok(contexts) => contexts,
            Err(error) => {
                tracing::error!(session = %id, %error, "the keys that DTLS negotiated cannot be used");
                return self.end(ctx, peer, EndReason::Defect);
            }
        };
        session.transport.state = State::Connected(Box::new(inbound));
        session.keys = Some(Box::new(keys.clone()));
        if let Some(trace) = &mut session.trace {
            // Where DTLS was done first, the path is the last that is waited for; it is there in a moment.
            trace.reach(ctx.now, Stage::Dtls);
            trace.reach(ctx.now, Stage::FirstKeyFrame);
        }
        session.transport.received_ms = ctx.now_ms;
        let stream = session.streams().next().map_or(NO_STREAM, packets_reference);
        self.columns.takes_role(peer, session.role.for_stats(), stream);
        let plays = !session.subscriptions.is_empty();
        let pacer = inputs::pacer(session.tracks(), session.bits_per_second_max, &ctx.settings.rtc);
        let pacer = pacer.filter(|_| plays);
        let pacer = pacer.map(|input| Box::new(Pacer::new(ctx.now, input)));
        // DTLS can be done before the peer has chosen a path: then media waits for that.
        let path = session.transport.peer.path();
        let route = path.and_then(|path| self.route(peer, &path));
        let transport = SendTransport {
            outbound,
            paused: route.is_none(),
            route: route.unwrap_or(Route::NOWHERE),
            pacer,
        };
        self.transports.set(peer, Some(transport));
        let (remote, transport) = path.map(|path| (path.remote, path.transport)).unzip();
        tracing::info!(session = %id, ?remote, ?transport, profile = ?keys.profile, "connected");
        self.counters.connected += 1;
        // Fails when the control side has gone, which ends the process.
        let _ = self.notices.send(RtcNotice::Connected(id));
        self.join(ctx, peer);
    }

    /// Makes a session a viewer of the streams that it plays, once it can be sent to: a picture that finds no
    /// route is gone.
    pub(super) fn join(&mut self, ctx: &mut Context, peer: PeerId) {
        if self.transports.get(peer).is_none_or(|transport| transport.paused) {
            return;
        }
        let session = &mut self.sessions[peer];
        for subscription in &mut session.subscriptions {
            if subscription.viewer.is_some() {
                continue;
            }
            let Some(stream) = self.streams.get_mut(subscription.stream) else {
                return self.end(ctx, peer, EndReason::StreamGone);
            };
            let published = stream.tracks.as_deref().unwrap_or_default();
            let token = u64::from(peer.0);
            let input = inputs::viewer(token, &subscription.tracks, &subscription.published, published);
            match stream.sfu.join(ctx.now, &input) {
                Ok(viewer) => {
                    subscription.viewer = Some(viewer);
                    stream.sfu.limit_height(viewer, session.height_max);
                    let same = input.tracks.iter().filter(|track| track.is_sent_again_as_it_was());
                    if let Some(transport) = self.transports.get_mut(peer) {
                        for track in same {
                            // Refused only where there is no room for the stream at all.
                            let _ = transport.outbound.remember_packets(track.ssrc);
                        }
                    }
                    // It begins with the layer that its path is taken to carry.
                    let transport = self.transports.get_mut(peer);
                    if let Some(pacer) = transport.and_then(|transport| transport.pacer.as_deref_mut()) {
                        stream.sfu.adapt(ctx.now, viewer, pacer);
                    }
                    self.streams.mark_dirty(subscription.stream);
                }
                Err(error) => {
                    tracing::warn!(session = %session.id, ?error, "player could not join");
                    return self.end(ctx, peer, EndReason::StreamFull);
                }
            }
        }
    }

    /// A path in terms of this worker.
    pub(super) fn route(&self, peer: PeerId, path: &Path) -> Option<Route> {
        match path.transport {
            rtc::sdp::Transport::Udp => {
                let (port, _) = self.sockets.ports.iter().find(|(_, port)| port.local == path.local)?;
                Some(Route::Udp { port, remote: path.remote })
            }
            rtc::sdp::Transport::Tcp => {
                let tcp = &self.sockets.tcp;
                let is_same = |id: &IceTcpId| tcp.get(*id).is_some_and(|tcp| tcp.path == *path);
                let connection = tcp.of_session(peer).into_iter().find(is_same)?;
                Some(Route::Tcp { connection, path: *path })
            }
        }
    }

    /// Sends what the peer has to send: STUN and DTLS.
    pub(super) fn send_transmits(&mut self, peer: PeerId, now_ms: u64) {
        while let Some(transmit) =
            self.sessions.get_mut(peer).and_then(|session| session.transport.peer.poll_transmit())
        {
            let write = |out: &mut [u8]| {
                out.copy_from_slice(&transmit.bytes);
                Some(transmit.bytes.len())
            };
            let len = transmit.bytes.len();
            match self.route(peer, &transmit.path) {
                Some(Route::Udp { port, remote }) => {
                    let sent = &mut self.sockets.sent;
                    self.sockets.ports[port].datagram(
                        Heading::new(remote, MediaKind::Data),
                        len,
                        now_ms,
                        sent,
                        |out, _| write(out),
                    );
                }
                Some(Route::Tcp { connection, path }) => {
                    let made = self.sockets.tcp.datagram(connection, &path, len, write);
                    self.sockets.sent.packets += u64::from(made.is_some());
                }
                None => {
                    self.sockets.sent.paused += 1;
                    tracing::trace!(path = ?transmit.path, "signal not sent: its path is gone");
                }
            }
        }
    }

    /// Adds an address to the table of its port, if the peer has proved to be there.
    ///
    /// An address that a session in use is heard from stays that session's: a check of one's own session can
    /// be sent under a stranger's address, and must not take it away.
    pub(super) fn bind_address(
        &mut self,
        peer: PeerId,
        port: PortId,
        remote: SocketAddr,
        path: &Path,
        now_ms: u64,
    ) {
        let holder = self.sockets.ports[port].session_at(remote);
        if holder == Some(peer) || !self.sessions[peer].transport.peer.is_valid(path) {
            return;
        }
        let in_use = |other: &Session| other.is_in_use(now_ms);
        if holder.and_then(|holder| self.sessions.get(holder)).is_some_and(in_use)
            || self.passing.as_mut().is_some_and(|passing| passing.is_held(port, remote, now_ms))
        {
            return;
        }
        self.prune_addresses(peer);
        // A peer has fewer valid paths than there are places. One that was taken over and comes back is
        // listed already.
        let addresses = &mut self.sessions[peer].transport.addresses;
        addresses.retain(|address| *address != (port, remote));
        // Full only when every session has all places, which the table was made for.
        if !addresses.is_full() && self.sockets.ports[port].peers.insert(PeerKey::from(remote), peer).is_ok()
        {
            addresses.push((port, remote));
            if let Some(passing) = &mut self.passing {
                passing.bound(port, remote);
            }
        }
    }

    /// Takes out of the tables where the peer no longer is.
    fn prune_addresses(&mut self, peer: PeerId) {
        let Some(session) = self.sessions.get_mut(peer) else { return };
        let transport = &mut session.transport;
        transport.addresses.retain(|(port, remote)| {
            let udp = &mut self.sockets.ports[*port];
            let is_valid = transport.peer.is_valid(&Path::udp(udp.local, *remote));
            if !is_valid
                && udp.unbind(*remote, peer)
                && let Some(passing) = &mut self.passing
            {
                passing.unbound(*port, *remote);
            }
            is_valid
        });
    }
}
