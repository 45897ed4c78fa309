//! Datagrams in: from a UDP port or a TCP connection to the session they belong to, and its packets to its stream.
//!
//! STUN finds its session by the username fragment, everything else by the address it came from, which is in a port's
//! table only once an authentic check came from there. Packets whose tag is wrong go no further than the counter.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use rtc::demux::{self, Kind};
use rtc::{Path, Refusal, Signal};
use sfu::ViewerStats;
use srtp::UnprotectError;

use crate::event_loop::Worker;
use crate::ids::{IceTcpId, PeerId, PortId};
use crate::packets::session::Route;
use crate::stats::columns::Reception;
use worker_api::EndReason;
use worker_api::rtc::RtcRole;
use worker_api::snapshot::RtcCounters;

/// Batches read from one port in a turn; what is left is read in the next one, so that others have their turn.
const BATCHES_MAX: usize = 8;

impl Worker {
    /// Reads every port that has something, and forwards after each batch.
    pub(crate) fn rtc_receive(&mut self) {
        for port in self.rtc.ports.ids() {
            if self.rtc.ports[port].readable {
                self.rtc_receive_port(port);
            }
        }
    }

    fn rtc_receive_port(&mut self, port: PortId) {
        let Some(mut received) = self.rtc.received.take() else { return };
        for _ in 0..BATCHES_MAX {
            let result = received.recv(&self.rtc.ports[port].socket);
            self.rtc.ports[port].readable = result.is_ok() && received.is_full();
            if let Err(error) = result {
                if error.kind() != std::io::ErrorKind::WouldBlock {
                    tracing::debug!(%error, "receiving failed");
                    // Something may wait behind the error.
                    self.rtc.ports[port].readable = error.kind() == std::io::ErrorKind::Interrupted;
                }
                break;
            }
            let local = self.rtc.ports[port].local;
            for datagram in received.iter_mut() {
                let path = Path::udp(local, datagram.source);
                self.rtc_datagram(Route::Udp { port, remote: datagram.source }, path, datagram.payload);
            }
            self.rtc_forward();
            if !self.rtc.ports[port].readable {
                break;
            }
        }
        self.rtc.received = Some(received);
    }

    /// Takes one datagram in. A defect that makes a session panic ends that session.
    pub(crate) fn rtc_datagram(&mut self, route: Route, path: Path, datagram: &mut [u8]) {
        self.ctx.counters.bytes_in += datagram.len() as u64;
        self.ctx.load.bytes_in += datagram.len() as u64;
        let kind = demux::classify(datagram);
        let peer = match kind {
            Kind::Stun => {
                demux::stun_local_ufrag(datagram).and_then(|ufrag| self.rtc.by_ufrag.get(ufrag).copied())
            }
            Kind::Other => None,
            Kind::Dtls | Kind::Rtp | Kind::Rtcp => self.rtc_session_at(route),
        };
        // An answer to a check of ours names nobody: it belongs to whoever is at its address.
        let peer = peer.or_else(|| if kind == Kind::Stun { self.rtc_session_at(route) } else { None });
        let Some(peer) = peer else {
            self.rtc.counters.unknown_source += 1;
            return;
        };
        let handled = catch_unwind(AssertUnwindSafe(|| match kind {
            Kind::Rtp => self.rtc_rtp(peer, datagram),
            Kind::Rtcp => self.rtc_rtcp(peer, datagram),
            _ => self.rtc_signal(peer, route, path, datagram),
        }));
        if handled.is_err() {
            self.rtc_panicked(peer);
        }
    }

    fn rtc_session_at(&self, route: Route) -> Option<PeerId> {
        match route {
            Route::Udp { port, remote } => self.rtc.ports[port].session_at(remote),
            Route::Tcp { connection, .. } => self.rtc.tcp.get(connection)?.session,
        }
    }

    fn rtc_rtp(&mut self, peer: PeerId, datagram: &mut [u8]) {
        let bytes = datagram.len() as u64;
        let Some(session) = self.rtc.sessions.get_mut(peer) else { return };
        let Some(inbound) = &mut session.inbound else {
            self.rtc.counters.dropped += 1;
            return;
        };
        let len = match inbound.unprotect_rtp(datagram) {
            Ok(len) => len,
            Err(error) => return count_refused(&mut self.rtc.counters, error),
        };
        session.received_ms = self.ctx.now_ms;
        self.rtc.columns.received(peer, bytes);
        self.rtc.counters.packets_in += 1;
        let stream = session.stream;
        // A viewer has nothing to say by RTP.
        if session.role == RtcRole::Play {
            return;
        }
        self.rtc.columns.passed(peer, 1);
        let Some(stream_entry) = self.rtc.streams.slab.get_mut(stream) else { return };
        if stream_entry.publication.peer() != Some(peer) {
            return;
        }
        match stream_entry.packets.receive(self.ctx.now, &datagram[..len]) {
            Ok(_) => self.rtc.mark_dirty(stream),
            Err(reason) => {
                self.rtc.counters.dropped += 1;
                tracing::trace!(?reason, "packet dropped");
            }
        }
    }

    fn rtc_rtcp(&mut self, peer: PeerId, datagram: &mut [u8]) {
        let bytes = datagram.len() as u64;
        let Some(session) = self.rtc.sessions.get_mut(peer) else { return };
        let Some(inbound) = &mut session.inbound else {
            self.rtc.counters.dropped += 1;
            return;
        };
        let len = match inbound.unprotect_rtcp(datagram) {
            Ok(len) => len,
            Err(error) => return count_refused(&mut self.rtc.counters, error),
        };
        session.received_ms = self.ctx.now_ms;
        self.rtc.columns.received(peer, bytes);
        self.rtc.counters.packets_in += 1;
        let stream = session.stream;
        let Some(stream_entry) = self.rtc.streams.slab.get_mut(stream) else { return };
        match (session.role, session.viewer) {
            (RtcRole::Publish, _) if stream_entry.publication.peer() == Some(peer) => {
                stream_entry.packets.receive_rtcp(self.ctx.now, &datagram[..len]);
                self.rtc.mark_dirty(stream);
            }
            (RtcRole::Play, Some(viewer)) => {
                let mut resends = std::mem::take(&mut self.rtc.resends);
                let before = stream_entry.packets.viewer_stats(viewer).unwrap_or_default();
                stream_entry.packets.viewer_rtcp(self.ctx.now, viewer, &datagram[..len], &mut resends);
                let after = stream_entry.packets.viewer_stats(viewer).unwrap_or_default();
                let counters = &mut self.rtc.counters;
                counters.nacks_in += after.nacks - before.nacks;
                counters.resends_refused += after.not_resent - before.not_resent;
                counters.key_frame_requests_in += after.key_frame_requests - before.key_frame_requests;
                if after.reports > before.reports {
                    self.rtc.columns.reported(peer, viewer_reception(&after));
                }
                for resend in resends.drain(..) {
                    self.rtc.send_again(peer, &resend, self.ctx.now_ms);
                }
                self.rtc.resends = resends;
                self.rtc.mark_dirty(stream);
            }
            _ => {}
        }
    }

    /// STUN or DTLS.
    fn rtc_signal(&mut self, peer: PeerId, route: Route, path: Path, datagram: &[u8]) {
        let Some(session) = self.rtc.sessions.get_mut(peer) else { return };
        match session.peer.handle_signal(self.ctx.now, path, datagram) {
            Signal::Accepted => {
                session.received_ms = self.ctx.now_ms;
                if let Route::Tcp { connection, .. } = route {
                    self.rtc_adopt(connection, peer);
                }
                self.rtc.bind_address(peer, route, &path, self.ctx.now_ms);
            }
            Signal::Refused(refusal) => {
                self.rtc.counters.signals_refused += 1;
                tracing::trace!(session = %session.id, reason = refusal.name(), "signal refused");
                // Of the others nothing has changed, and a flood of them should cost no more than it must.
                if !matches!(refusal, Refusal::RoleConflict | Refusal::DtlsRejected) {
                    return;
                }
            }
        }
        self.rtc_drive(peer);
    }

    /// A defect of ours, met by this session's input: the others go on.
    fn rtc_panicked(&mut self, peer: PeerId) {
        self.rtc.counters.panics += 1;
        let Some(session) = self.rtc.sessions.get(peer) else { return };
        tracing::error!(session = %session.id, "a defect in the server ended this session");
        let stream = session.stream;
        let ended = catch_unwind(AssertUnwindSafe(|| self.rtc_end(peer, EndReason::Defect)));
        if ended.is_err() {
            // Saying goodbye met the defect again, in the peer or in the stream: both are given up, without a word.
            self.rtc.streams.start_anew(stream);
            self.rtc_leave_all(peer, EndReason::Defect);
        }
    }

    /// Does something for a session; a defect that makes it panic ends that session, and nothing else.
    pub(crate) fn rtc_guarded(&mut self, peer: PeerId, work: impl FnOnce(&mut Self)) {
        if catch_unwind(AssertUnwindSafe(|| work(self))).is_err() {
            self.rtc_panicked(peer);
        }
    }

    /// A reader of a TCP connection gives its datagrams here.
    pub(crate) fn rtc_datagram_by_tcp(&mut self, connection: IceTcpId, path: Path, datagram: &mut [u8]) {
        self.rtc_datagram(Route::Tcp { connection, path }, path, datagram);
    }
}

/// What a viewer's last report says.
fn viewer_reception(stats: &ViewerStats) -> Reception {
    let milliseconds = |time: Duration| time.as_secs_f32() * 1000.0;
    Reception {
        lost_packets: stats.lost.max(0) as u64,
        loss_percent: stats.fraction_lost * 100.0,
        rtt_ms: stats.round_trip.map_or(f32::NAN, milliseconds),
        jitter_ms: milliseconds(stats.jitter),
    }
}

fn count_refused(counters: &mut RtcCounters, error: UnprotectError) {
    match error {
        UnprotectError::AuthFailed => counters.unauthentic += 1,
        _ => counters.dropped += 1,
    }
}
