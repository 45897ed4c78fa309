//! What ends by the clock, what is sampled once a second, and the worker's loop as far as WebRTC takes part in it.

use std::time::{Duration, Instant};

use mio::event::Event;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use std::io;
use std::os::fd::AsRawFd;

use crate::ids::{IceTcpId, PeerId, PortId, TableId};
use crate::packets::FIRST_CONNECTION;

use crate::packets::FIRST_LISTENER;

use crate::packets::FIRST_PORT;

use crate::packets::PORTS_MAX;

use crate::event_loop::Worker;
use crate::packets::Rtc;
use worker_api::EndReason;
use worker_api::rtc::RtcRole;

/// Time a session whose peer fell silent has for a restart of ICE, milliseconds.
const RESTART_MS_MAX: u64 = 5_000;

impl Rtc {
    /// Puts ports and listeners into the event queue.
    pub(crate) fn register(&mut self, registry: &Registry) -> io::Result<()> {
        if self.ports.len() > PORTS_MAX || self.listeners.len() > PORTS_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "more than 1024 addresses for WebRTC"));
        }
        for (id, port) in self.ports.iter() {
            let descriptor = port.socket.as_raw_fd();
            registry.register(
                &mut SourceFd(&descriptor),
                Token(FIRST_PORT + id.index()),
                Interest::READABLE,
            )?;
        }
        for (index, listener) in self.listeners.iter_mut().enumerate() {
            registry.register(listener, Token(FIRST_LISTENER + index), Interest::READABLE)?;
        }
        Ok(())
    }

    /// Bytes sent since this was asked last.
    pub(crate) fn take_sent_bytes(&mut self) -> u64 {
        self.sent.bytes - std::mem::replace(&mut self.sampled_bytes, self.sent.bytes)
    }

    /// Stops taking connections; sessions go on.
    pub(crate) fn stop_listening(&mut self, registry: &Registry) {
        for mut listener in std::mem::take(&mut self.listeners) {
            // Fails only when it was never registered.
            let _ = registry.deregister(&mut listener);
        }
        self.accept_again.clear();
        self.accept_later.clear();
    }
}

impl Worker {
    /// Whether a token is of WebRTC.
    pub(crate) fn is_rtc(token: Token) -> bool {
        (FIRST_CONNECTION..FIRST_LISTENER + PORTS_MAX).contains(&token.0)
    }

    /// Notes or handles an event of WebRTC.
    pub(crate) fn rtc_socket_event(&mut self, event: &Event) {
        match event.token().0 {
            token if token >= FIRST_LISTENER => {
                if token - FIRST_LISTENER < self.rtc.listeners.len() {
                    self.rtc.accept_again.push(token - FIRST_LISTENER);
                }
            }
            token if token >= FIRST_PORT => self.rtc.ports[PortId::at(token - FIRST_PORT)].readable = true,
            token => self.rtc_tcp_event(IceTcpId::at(token - FIRST_CONNECTION), event),
        }
    }

    /// Input of this turn, forwarded as it comes.
    pub(crate) fn rtc_input(&mut self) {
        for listener in std::mem::take(&mut self.rtc.accept_again) {
            self.rtc_accept(listener);
        }
        for connection in std::mem::take(&mut self.rtc.tcp_read_again) {
            self.rtc_read_tcp(connection);
        }
        self.rtc_receive();
    }

    /// The end of a turn: what other workers and the clock gave rise to, then everything leaves.
    pub(crate) fn rtc_output(&mut self) {
        self.rtc_forward();
        self.rtc_timers();
        for connection in self.rtc.flush(self.ctx.now_ms) {
            self.rtc_close_tcp(connection);
        }
    }

    /// How long the loop may sleep as far as WebRTC is concerned.
    pub(crate) fn rtc_sleep(&self, now: Instant) -> Duration {
        if self.rtc.has_input() {
            return Duration::ZERO;
        }
        let timer =
            self.rtc.timers.peek().map_or(Duration::MAX, |entry| entry.0.0.saturating_duration_since(now));
        // A socket that was full is tried again soon: the kernel does not say when a UDP socket has room.
        if self.rtc.ports.iter().any(|(_, port)| port.is_blocked()) {
            timer.min(Duration::from_millis(1))
        } else {
            timer
        }
    }

    /// Ends what is over by the clock.
    pub(crate) fn rtc_sweep(&mut self) {
        self.rtc.accept_again.append(&mut self.rtc.accept_later);
        let sessions = &self.rtc.sessions;
        let is_valid = |session: PeerId, path: &rtc::Path| {
            sessions.get(session).is_some_and(|session| session.peer.is_valid(path))
        };
        let stale = self.rtc.tcp.stale(is_valid);
        for connection in self.rtc.tcp.overdue(self.ctx.now_ms).into_iter().chain(stale) {
            self.rtc_close_tcp(connection);
        }
        for peer in self.rtc.sessions.ids() {
            if !self.rtc.sessions.contains(peer) {
                continue;
            }
            if let Some(reason) = self.rtc_overdue(peer) {
                self.rtc_guarded(peer, |worker| worker.rtc_end(peer, reason));
            }
        }
    }

    fn rtc_overdue(&mut self, peer: PeerId) -> Option<EndReason> {
        let session = &self.rtc.sessions[peer];
        let passed =
            |since_ms: u64, limit: Duration| u128::from(self.ctx.now_ms - since_ms) > limit.as_millis();
        if self.ctx.draining_until.is_some() {
            return Some(EndReason::Draining);
        }
        if !session.is_connected()
            && passed(self.rtc.columns.opened_ms(peer), self.ctx.settings.rtc.pending_timeout)
        {
            self.rtc.counters.expired += 1;
            return Some(EndReason::ConnectTimeout);
        }
        if session.lost_ms.is_some_and(|since_ms| self.ctx.now_ms - since_ms > RESTART_MS_MAX) {
            self.rtc.counters.consent_lost += 1;
            return Some(EndReason::SilentPeer);
        }
        let wait = self.rtc.streams.slab.get(session.stream).and_then(|stream| stream.wait_for_publisher);
        if session.role == RtcRole::Play
            && session.waiting_since_ms.zip(wait).is_some_and(|(since_ms, limit)| passed(since_ms, limit))
        {
            return Some(EndReason::NoPublisher);
        }
        None
    }
}
