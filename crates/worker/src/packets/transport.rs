//! Drives a session's peer: what it wants sent, what it has to say, and when it wants to be asked again.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use group_send::peer_table::PeerKey;
use rtc::{Event, FailReason, Path, SrtpKeys};
use srtp::{InboundContext, OutboundContext};

use crate::event_loop::Worker;
use crate::ids::{IceTcpId, PacketStreamId, PeerId, PortId, TableId};
use crate::packets::Due;
use crate::packets::Rtc;
use crate::packets::inputs;
use crate::packets::session::{Route, RtcSession, SendTransport};
use crate::stats::columns::packets_reference;
use worker_api::EndReason;
use worker_api::rtc::{RtcNotice, RtcRole};

/// How long after its last datagram a session keeps its address against another that proves to be there,
/// milliseconds. Peers are heard from every few seconds: consent (RFC 7675 section 5.1) and reports.
const HELD_MS: u64 = 7_000;

/// Soonest a timer fires again. What claims to be due for ever, by a defect of ours or of a library, then costs a thousand
/// calls a second and not the worker.
const TIMER_MIN: Duration = Duration::from_millis(1);

impl Worker {
    /// Takes from the peer what it has for us. To be called after everything that is done to it.
    pub(crate) fn rtc_drive(&mut self, peer: PeerId) {
        loop {
            let Some(session) = self.rtc.sessions.get_mut(peer) else { return };
            let Some(event) = session.peer.poll_event() else { break };
            self.rtc_event(peer, event);
        }
        self.rtc.send_transmits(peer, self.ctx.now_ms);
        self.rtc.prune_addresses(peer);
        self.rtc.set_session_timer(peer, self.ctx.now);
    }

    fn rtc_event(&mut self, peer: PeerId, event: Event) {
        let id = self.rtc.sessions[peer].id;
        match event {
            Event::PathSelected(path) => {
                let route = self.rtc.route(peer, &path);
                if let (Some(route), Some(Some(transport))) =
                    (route, self.rtc.send_transports.get_mut(peer.index()))
                {
                    tracing::debug!(session = %id, remote = %path.remote, "path selected");
                    transport.route = route;
                    transport.paused = false;
                }
                self.rtc.sessions[peer].lost_ms = None;
                self.rtc_join(peer);
            }
            Event::Connected(keys) => self.rtc_connected(peer, &keys),
            Event::ConsentLost => {
                tracing::debug!(session = %id, "consent lost");
                if let Some(Some(transport)) = self.rtc.send_transports.get_mut(peer.index()) {
                    transport.paused = true;
                }
                self.rtc.sessions[peer].lost_ms = Some(self.ctx.now_ms);
            }
            Event::Closed(_) => self.rtc_end(peer, EndReason::ClosedByPeer),
            Event::Failed(reason) => {
                tracing::debug!(session = %id, ?reason, "connection failed");
                let expired = matches!(reason, FailReason::IceTimeout | FailReason::DtlsTimeout);
                self.rtc.counters.expired += u64::from(expired);
                self.rtc_end(peer, EndReason::ConnectFailed);
            }
        }
    }

    /// ICE and DTLS are done: media may flow.
    fn rtc_connected(&mut self, peer: PeerId, keys: &SrtpKeys) {
        let session = &mut self.rtc.sessions[peer];
        let id = session.id;
        let config = srtp::Config::default();
        let contexts =
            InboundContext::new(&config, std::slice::from_ref(&keys.inbound)).and_then(|inbound| {
                Ok((inbound, OutboundContext::new(&config, std::slice::from_ref(&keys.outbound))?))
            });
        let (inbound, outbound) = match contexts {
            Ok(contexts) => contexts,
            Err(error) => {
                tracing::error!(session = %id, %error, "keys that DTLS gave are not usable");
                return self.rtc_end(peer, EndReason::Defect);
            }
        };
        session.inbound = Some(Box::new(inbound));
        let (role, stream) = (session.role.told(), packets_reference(session.stream));
        session.received_ms = self.ctx.now_ms;
        // DTLS can be done before the peer has chosen a path: then media waits for that.
        let path = session.peer.path();
        let route = path.and_then(|path| self.rtc.route(peer, &path));
        let transport =
            SendTransport { outbound, paused: route.is_none(), route: route.unwrap_or(Route::NOWHERE) };
        self.rtc.set_send_transport(peer, Some(transport));
        self.rtc.columns.takes_role(peer, role, stream);
        let (remote, transport) = path.map(|path| (path.remote, path.transport)).unzip();
        tracing::info!(session = %id, ?remote, ?transport, profile = ?keys.profile, "connected");
        self.rtc.counters.connected += 1;
        // Fails when the control side has gone, which ends the process.
        let _ = self.rtc.notices.send(RtcNotice::Connected(id));
        self.rtc_join(peer);
    }

    /// Makes a player a viewer of its stream, once it can be sent to: a picture that finds no way is gone.
    fn rtc_join(&mut self, peer: PeerId) {
        let session = &mut self.rtc.sessions[peer];
        let can_send =
            matches!(self.rtc.send_transports.get(peer.index()), Some(Some(transport)) if !transport.paused);
        if session.role != RtcRole::Play || session.viewer.is_some() || !can_send {
            return;
        }
        let Some(stream) = self.rtc.streams.slab.get_mut(session.stream) else {
            return self.rtc_end(peer, EndReason::StreamGone);
        };
        let published = stream.tracks.as_deref().unwrap_or_default();
        let input = inputs::viewer(u64::from(peer.0), &session.tracks, &session.published, published);
        match stream.packets.join(self.ctx.now, &input) {
            Ok(viewer) => {
                session.viewer = Some(viewer);
                let stream = session.stream;
                self.rtc.mark_dirty(stream);
            }
            Err(error) => {
                tracing::warn!(session = %session.id, ?error, "player could not join");
                self.rtc_end(peer, EndReason::StreamFull);
            }
        }
    }

    /// Does what is due by the clock.
    pub(crate) fn rtc_timers(&mut self) {
        while let Some(&Reverse((due, what))) = self.rtc.timers.peek() {
            if due > self.ctx.now {
                break;
            }
            self.rtc.timers.pop();
            match what {
                Due::Session(peer) => {
                    // Only the entry that the session was last set to counts.
                    let Some(session) = self.rtc.sessions.get_mut(peer) else { continue };
                    if session.due == Some(due) {
                        session.due = None;
                        self.rtc_guarded(peer, |worker| {
                            worker.rtc.sessions[peer].peer.handle_timeout(worker.ctx.now);
                            worker.rtc_drive(peer);
                        });
                    }
                }
                Due::Bridge(bridge) => self.bridge_due(bridge, due),
                Due::Stream(id) => {
                    let Some(stream) = self.rtc.streams.slab.get_mut(id) else { continue };
                    if stream.due == Some(due) {
                        stream.due = None;
                        self.rtc_stream_due(id);
                    }
                }
            }
        }
    }
}

impl Rtc {
    /// A path in terms of this worker.
    pub(crate) fn route(&self, peer: PeerId, path: &Path) -> Option<Route> {
        match path.transport {
            rtc::sdp::Transport::Udp => {
                let (port, _) = self.ports.iter().find(|(_, port)| port.local == path.local)?;
                Some(Route::Udp { port, remote: path.remote })
            }
            rtc::sdp::Transport::Tcp => {
                let own = self.tcp.of_session(peer);
                let same =
                    |&connection: &IceTcpId| self.tcp.get(connection).is_some_and(|peer| peer.path == *path);
                let connection = own.into_iter().find(same)?;
                Some(Route::Tcp { connection, path: *path })
            }
        }
    }

    pub(crate) fn send_transmits(&mut self, peer: PeerId, now_ms: u64) {
        while let Some(transmit) =
            self.sessions.get_mut(peer).and_then(|session| session.peer.poll_transmit())
        {
            match self.route(peer, &transmit.path) {
                Some(Route::Udp { port, remote }) => {
                    self.ports[port].push(remote, &transmit.bytes, now_ms, &mut self.sent);
                }
                Some(Route::Tcp { connection, path }) => {
                    self.tcp.datagram(connection, &path, transmit.bytes.len(), |out| {
                        out.copy_from_slice(&transmit.bytes);
                        Some(transmit.bytes.len())
                    });
                }
                None => {}
            }
        }
    }

    /// Adds an address to the table of its port, if the peer has proved to be there.
    ///
    /// An address that a session in use is heard from stays that session's: a check of one's own session can be sent
    /// under a stranger's address, and must not take it away.
    pub(crate) fn bind_address(&mut self, peer: PeerId, route: Route, path: &Path, now_ms: u64) {
        let Route::Udp { port, remote } = route else { return };
        let Some(session) = self.sessions.get(peer) else { return };
        let holder = self.ports[port].session_at(remote);
        if holder == Some(peer) || !session.peer.is_valid(path) {
            return;
        }
        let in_use = |other: &RtcSession| other.is_connected() && other.received_ms + HELD_MS > now_ms;
        if holder.and_then(|holder| self.sessions.get(holder)).is_some_and(in_use) {
            return;
        }
        self.prune_addresses(peer);
        let Some(session) = self.sessions.get_mut(peer) else { return };
        // A peer has fewer valid paths than there are places. One that was taken over and comes back is listed already.
        session.places.retain(|place| *place != (port, remote));
        if session.places.is_full() {
            return;
        }
        // Full only when every session has all places, which the table was made for.
        if self.ports[port].peers.insert(PeerKey::from(remote), peer).is_ok() {
            session.places.push((port, remote));
        }
    }

    /// Takes out of the tables where the peer no longer is.
    fn prune_addresses(&mut self, peer: PeerId) {
        let mut at = 0;
        while let Some(session) = self.sessions.get_mut(peer) {
            let Some(&(port, remote)) = session.places.get(at) else { return };
            let path = Path::udp(self.ports[port].local, remote);
            if session.peer.is_valid(&path) {
                at += 1;
            } else {
                session.places.remove(at);
                self.unbind_address(peer, port, remote);
            }
        }
    }

    pub(crate) fn unbind_address(&mut self, peer: PeerId, port: PortId, remote: std::net::SocketAddr) {
        let peers = &mut self.ports[port].peers;
        // Somebody else may be there by now.
        if peers.get(PeerKey::from(remote)) == Some(&peer) {
            peers.remove(PeerKey::from(remote));
        }
    }

    fn set_session_timer(&mut self, peer: PeerId, now: Instant) {
        let Some(session) = self.sessions.get_mut(peer) else { return };
        let due = session.peer.next_timeout().map(|due| due.max(now + TIMER_MIN));
        if let Some(due) = due.filter(|due| session.due.is_none_or(|set| *due < set)) {
            session.due = Some(due);
            self.timers.push(Reverse((due, Due::Session(peer))));
        }
    }

    pub(crate) fn set_stream_timer(&mut self, id: PacketStreamId, due: Option<Instant>, now: Instant) {
        let Some(stream) = self.streams.slab.get_mut(id) else { return };
        let due = due.map(|due| due.max(now + TIMER_MIN));
        if let Some(due) = due.filter(|due| stream.due.is_none_or(|set| *due < set)) {
            stream.due = Some(due);
            self.timers.push(Reverse((due, Due::Stream(id))));
        }
    }
}
