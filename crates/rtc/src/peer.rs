//! One peer: ICE, DTLS and the keys of its media, as one state machine.
//!
//! ```text
//! STUN ─▶ ICE ─▶ valid paths, selected path ──▶ media may flow here
//! DTLS ─▶ from valid paths only ─▶ handshake ─▶ fingerprint ─▶ SRTP keys
//! ```
//!
//! Media itself never comes here: the worker asks [`Peer::is_valid`] where it may come from,
//! [`Peer::path`] where it goes, and encrypts with the keys of [`Event::Connected`].

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::Path;
use crate::demux::{self, Kind};
use crate::dtls::{self, Dtls, DtlsError, DtlsEvent, DtlsRole, SrtpKeys};
use crate::established::Established;
use crate::full::FullAgent;
use crate::ice::{IceEvent, Refusal, Timeouts};
use crate::lite::LiteAgent;
use crate::sdp::{Candidate, IceCredentials, Transport};
use crate::transmit::{Transmit, TransmitQueue};

/// Our role in ICE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// A server that anybody can reach: answers checks, sends none (RFC 8445 §2.5).
    Lite,
    /// A client: sends checks and nominates.
    Full,
}

/// An address of this host that a client's side sends from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LocalAddress {
    /// UDP, or an established TCP connection.
    pub transport: Transport,
    /// Address and port of the socket; not the wildcard address.
    pub address: std::net::SocketAddr,
}

/// Configuration of a peer: the outcome of an offer and its answer.
#[derive(Clone)]
pub struct PeerConfig {
    /// Server or client.
    pub side: Side,
    /// Our ICE credentials, as signalled.
    pub local_ice: IceCredentials,
    /// The peer's.
    pub remote_ice: IceCredentials,
    /// Where a client sends from; at most [`VALID_PATHS_MAX`](crate::VALID_PATHS_MAX) count. A
    /// server needs none: any address a check comes to is one of ours, however the host is
    /// announced.
    pub local_addresses: Vec<LocalAddress>,
    /// Where a client sends its checks. A server needs none.
    pub remote_candidates: Vec<Candidate>,
    /// Certificates, SRTP profiles and versions.
    pub dtls: dtls::Config,
    /// Which side starts the handshake.
    pub dtls_role: DtlsRole,
    /// How long to wait for what.
    pub timeouts: Timeouts,
}

/// Why a [`Peer`] cannot be made, or restarted, of what it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerError {
    /// Both ICE user fragments together are longer than a check can carry (a client's side only).
    /// Fault of the peer.
    UfragTooLong,
    /// An unusable local address: wildcard, multicast or link-local. Fault of the caller.
    BadLocalAddress,
    /// The system has no random bytes.
    NoRandomness,
    /// The peer has been closed, or has failed.
    Closed,
}

impl std::fmt::Display for PeerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::UfragTooLong => "ICE user fragments too long for a check",
            Self::BadLocalAddress => "a local address that cannot be sent from",
            Self::NoRandomness => "the system gives no random bytes",
            Self::Closed => "the peer has been closed",
        })
    }
}

impl std::error::Error for PeerError {}

/// The result of handling a datagram. For counters; nothing else depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum Signal {
    /// It was authentic.
    Accepted,
    /// It was not, and changed nothing.
    Refused(Refusal),
}

/// What happened to a peer.
#[derive(Debug)]
pub enum Event {
    /// Media goes over this path from now on. Of several before a poll only the last is reported.
    PathSelected(Path),
    /// The handshake is done and the certificate is the signalled one. Comes once, and never
    /// without both.
    Connected(Box<SrtpKeys>),
    /// Consent has expired (RFC 7675): [`Peer::path`] is `None` until ICE is restarted.
    ConsentLost,
    /// Over, in order. The last event.
    Closed(CloseReason),
    /// Over, before or after it was connected. The last event.
    Failed(FailReason),
}

/// Which side closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// [`Peer::close`].
    Local,
    /// The peer's close_notify.
    Remote,
}

/// Why a connection failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailReason {
    /// No path was found within [`Timeouts::ice`].
    IceTimeout,
    /// There was a path, but no keys within [`Timeouts::dtls`].
    DtlsTimeout,
    /// The handshake failed.
    Dtls(DtlsError),
}

enum Agent {
    Lite(Box<LiteAgent>),
    Full(Box<FullAgent>),
}

/// Progress of the peer. DTLS takes no memory before there is a path.
enum Handshake {
    /// Waits for a path.
    Waiting(Box<dtls::Config>),
    /// In the handshake; `deadline` is `None` once there are keys.
    Running { dtls: Box<Dtls>, deadline: Option<Instant> },
    /// Done by another process, which had the association.
    DoneElsewhere,
    /// The peer has closed or failed.
    Over,
}

/// One peer.
///
/// **After each call of a `handle_*` method, [`Peer::restart_ice`], [`Peer::path_closed`] or
/// [`Peer::close`]: poll transmits and events until there are none, and then ask for the next timeout.**
/// All calls of one peer get times that never go back.
pub struct Peer {
    agent: Agent,
    handshake: Handshake,
    dtls_role: DtlsRole,
    dtls_timeout: Duration,
    /// Where DTLS came from last; its answers go there while no path is selected.
    dtls_path: Option<Path>,
    /// Where DTLS was sent to last. A peer that finishes the handshake has received it there.
    dtls_sent: Option<Path>,
    transmits: TransmitQueue,
    /// At most one [`Event::PathSelected`] at a time, and of the others as many as there can ever
    /// be: about five.
    events: VecDeque<Event>,
}

impl Peer {
    /// A new peer. A client has its first check to send at once.
    ///
    /// # Errors
    ///
    /// [`PeerError`], for a client's side only.
    pub fn new(config: PeerConfig, now: Instant) -> Result<Self, PeerError> {
        let agent = match config.side {
            Side::Lite => Agent::Lite(Box::new(LiteAgent::new(
                config.local_ice,
                config.remote_ice,
                config.timeouts,
                now,
            ))),
            Side::Full => {
                let (local, remote) = (config.local_ice, config.remote_ice);
                let mut agent = FullAgent::new(local, remote, &config.local_addresses, config.timeouts, now)?;
                config.remote_candidates.iter().for_each(|candidate| agent.add_remote_candidate(candidate));
                Agent::Full(Box::new(agent))
            }
        };
        let mut peer = Self {
            agent,
            handshake: Handshake::Waiting(Box::new(config.dtls)),
            dtls_role: config.dtls_role,
            dtls_timeout: config.timeouts.dtls,
            dtls_path: None,
            dtls_sent: None,
            transmits: TransmitQueue::default(),
            events: VecDeque::new(),
        };
        peer.handle_timeout(now);
        Ok(peer)
    }

    /// What another process has to know to go on with this peer; `None` unless it is connected, and a
    /// server's side. Nothing changes.
    #[must_use]
    pub fn established(&self, now: Instant) -> Option<Established> {
        let is_connected = match &self.handshake {
            Handshake::Running { deadline, .. } => deadline.is_none(),
            Handshake::DoneElsewhere => true,
            Handshake::Waiting(_) | Handshake::Over => false,
        };
        match &self.agent {
            Agent::Lite(agent) if is_connected => agent.established(now),
            _ => None,
        }
    }

    /// Goes on with a peer of another process. It is connected, and reports neither that nor its path.
    #[must_use]
    pub fn resume(established: Established, timeouts: Timeouts, now: Instant) -> Self {
        Self {
            agent: Agent::Lite(Box::new(LiteAgent::resumed(established, timeouts, now))),
            handshake: Handshake::DoneElsewhere,
            dtls_role: DtlsRole::Server,
            dtls_timeout: timeouts.dtls,
            dtls_path: None,
            dtls_sent: None,
            transmits: TransmitQueue::default(),
            events: VecDeque::new(),
        }
    }

    /// Takes a datagram of which [`demux::classify`] says that it is STUN or DTLS.
    ///
    /// Nothing changes before it has been authenticated; see [`Refusal`] for what it can fail at.
    pub fn handle_signal(&mut self, now: Instant, path: Path, datagram: &[u8]) -> Signal {
        let result = match demux::classify(datagram) {
            _ if self.is_closed() => Err(Refusal::Closed),
            Kind::Stun => self.handle_stun(now, path, datagram),
            Kind::Dtls => self.handle_dtls(now, path, datagram),
            Kind::Rtp | Kind::Rtcp | Kind::Other => Err(Refusal::NotSignal),
        };
        match result {
            Ok(()) => Signal::Accepted,
            Err(refusal) => Signal::Refused(refusal),
        }
    }

    fn handle_stun(&mut self, now: Instant, path: Path, datagram: &[u8]) -> Result<(), Refusal> {
        let event = match &mut self.agent {
            Agent::Lite(agent) => agent.handle(now, path, datagram, &mut self.transmits)?,
            Agent::Full(agent) => agent.handle(now, path, datagram, &mut self.transmits)?,
        };
        self.take_ice_event(now, event);
        Ok(())
    }

    /// DTLS is taken from valid paths only, so that a handshake costs nothing before the peer has
    /// shown our ICE password.
    fn handle_dtls(&mut self, now: Instant, path: Path, datagram: &[u8]) -> Result<(), Refusal> {
        if !self.is_valid(&path) {
            return Err(Refusal::UnvalidatedPath);
        }
        self.dtls_path = Some(path);
        if self.dtls_role == DtlsRole::Server {
            self.begin_handshake(now);
        }
        let Handshake::Running { dtls, .. } = &mut self.handshake else { return Err(Refusal::DtlsRejected) };
        let result = dtls.handle_datagram(now, datagram);
        self.pump_dtls(now);
        result.map_err(|error| {
            self.fail(FailReason::Dtls(error));
            Refusal::DtlsRejected
        })
    }

    /// Runs everything that is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.is_closed() {
            return;
        }
        let event = match &mut self.agent {
            Agent::Lite(agent) => agent.handle_timeout(now, &mut self.transmits),
            Agent::Full(agent) => agent.handle_timeout(now, &mut self.transmits),
        };
        self.take_ice_event(now, event);
        let Handshake::Running { dtls, deadline } = &mut self.handshake else { return };
        if deadline.is_some_and(|deadline| now >= deadline) {
            return self.fail(FailReason::DtlsTimeout);
        }
        let result = match dtls.next_timeout() {
            Some(due) if due <= now => dtls.handle_timeout(now),
            _ => Ok(()),
        };
        self.pump_dtls(now);
        if let Err(error) = result {
            self.fail(FailReason::Dtls(error));
        }
    }

    fn take_ice_event(&mut self, now: Instant, event: Option<IceEvent>) {
        match event {
            None => {}
            Some(IceEvent::Selected(path)) => {
                self.events.retain(|event| !matches!(event, Event::PathSelected(_)));
                self.events.push_back(Event::PathSelected(path));
                self.begin_handshake(now);
            }
            Some(IceEvent::ConsentLost) => self.events.push_back(Event::ConsentLost),
            Some(IceEvent::Failed) => self.fail(FailReason::IceTimeout),
        }
    }

    /// Starts the time for the handshake, and as a client the handshake itself.
    fn begin_handshake(&mut self, now: Instant) {
        let Handshake::Waiting(config) = &self.handshake else { return };
        let dtls = match self.dtls_role {
            DtlsRole::Server => Ok(Dtls::server((**config).clone())),
            DtlsRole::Client => Dtls::client((**config).clone(), now),
        };
        match dtls {
            Ok(dtls) => {
                let deadline = Some(now + self.dtls_timeout);
                self.handshake = Handshake::Running { dtls: Box::new(dtls), deadline };
                self.pump_dtls(now);
            }
            Err(error) => self.fail(FailReason::Dtls(error)),
        }
    }

    /// Takes datagrams and events from DTLS.
    fn pump_dtls(&mut self, now: Instant) {
        let path = self.path().or(self.dtls_path);
        let proven = self.dtls_sent;
        let Handshake::Running { dtls, deadline } = &mut self.handshake else { return };
        while let Some(bytes) = dtls.poll_transmit() {
            if let Some(path) = path {
                self.transmits.push(path, bytes);
                self.dtls_sent = Some(path);
            }
        }
        let (mut connected, mut closed) = (false, false);
        while let Some(event) = dtls.poll_event() {
            match event {
                DtlsEvent::Keys(keys) => {
                    *deadline = None;
                    self.events.push_back(Event::Connected(keys));
                    connected = true;
                }
                DtlsEvent::Closed => closed = true,
            }
        }
        if let (true, Agent::Lite(agent)) = (connected, &mut self.agent) {
            let event = agent.media_flows(now, proven, &mut self.transmits);
            let path = agent.selected_path();
            self.events.retain(|event| !matches!(event, Event::PathSelected(told) if Some(*told) != path));
            self.take_ice_event(now, event);
        }
        if closed {
            self.end(Event::Closed(CloseReason::Remote));
        }
    }

    fn fail(&mut self, reason: FailReason) {
        self.end(Event::Failed(reason));
    }

    /// The end: no path, no DTLS, one last event. What waits to be sent (an alert) can still be
    /// polled.
    fn end(&mut self, event: Event) {
        if self.is_closed() {
            return;
        }
        self.handshake = Handshake::Over;
        match &mut self.agent {
            Agent::Lite(agent) => agent.stop(),
            Agent::Full(agent) => agent.stop(),
        }
        self.events.push_back(event);
    }

    /// The next datagram to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front();
        if self.events.is_empty() {
            self.events = VecDeque::new();
        }
        event
    }

    /// When to call [`Peer::handle_timeout`]; `None` when the peer has ended.
    pub fn next_timeout(&mut self) -> Option<Instant> {
        if self.is_closed() {
            return None;
        }
        let agent = match &mut self.agent {
            Agent::Lite(agent) => agent.next_timeout(),
            Agent::Full(agent) => agent.next_timeout(),
        };
        let (dtls, deadline) = match &self.handshake {
            Handshake::Running { dtls, deadline } => (dtls.next_timeout(), *deadline),
            Handshake::Waiting(_) | Handshake::DoneElsewhere | Handshake::Over => (None, None),
        };
        [agent, dtls, deadline].into_iter().flatten().min()
    }

    /// Takes one more address of the peer (trickle ICE, RFC 8838). A server ignores it: it waits
    /// for checks.
    pub fn add_remote_candidate(&mut self, now: Instant, candidate: &Candidate) {
        if let Agent::Full(agent) = &mut self.agent {
            agent.add_remote_candidate(candidate);
        }
        self.handle_timeout(now);
    }

    /// Restarts ICE with new credentials on both sides (RFC 8445 §9), also after
    /// [`Event::ConsentLost`].
    ///
    /// Media continues over the old path until the new checks have found one, for as long as
    /// consent for the old path lasts. DTLS and the keys are kept. From now on the owner has to
    /// look up this peer by the new local fragment.
    ///
    /// # Errors
    ///
    /// [`PeerError::Closed`] when it has closed or failed, [`PeerError::UfragTooLong`] for a
    /// client's side; nothing has changed then.
    pub fn restart_ice(
        &mut self,
        now: Instant,
        local: IceCredentials,
        remote: IceCredentials,
        remote_candidates: &[Candidate],
    ) -> Result<(), PeerError> {
        if self.is_closed() {
            return Err(PeerError::Closed);
        }
        match &mut self.agent {
            Agent::Lite(agent) => agent.restart(local, remote, now),
            Agent::Full(agent) => agent.restart(local, remote, remote_candidates, now)?,
        }
        self.handle_timeout(now);
        Ok(())
    }

    /// A TCP connection has ended.
    pub fn path_closed(&mut self, now: Instant, path: &Path) {
        let event = match &mut self.agent {
            Agent::Lite(agent) => agent.path_closed(path, now),
            Agent::Full(agent) => agent.path_closed(path, now),
        };
        self.take_ice_event(now, event);
    }

    /// Ends it with a close_notify for the peer, which is left to poll.
    pub fn close(&mut self, now: Instant) {
        if self.is_closed() {
            return;
        }
        if let Handshake::Running { dtls, .. } = &mut self.handshake {
            dtls.close(now);
        }
        self.pump_dtls(now);
        self.end(Event::Closed(CloseReason::Local));
    }

    /// Where media goes: the selected path. `None` before there is one, and when consent is lost.
    #[must_use]
    pub fn path(&self) -> Option<Path> {
        match &self.agent {
            Agent::Lite(agent) => agent.selected_path(),
            Agent::Full(agent) => agent.selected_path(),
        }
    }

    /// Whether media and DTLS may come over a path: an authentic check has, not longer ago than
    /// consent lasts.
    #[must_use]
    pub fn is_valid(&self, path: &Path) -> bool {
        match &self.agent {
            Agent::Lite(agent) => agent.is_valid(path),
            Agent::Full(agent) => agent.is_valid(path),
        }
    }

    /// Every path for which [`Peer::is_valid`] is true, in no order; at most one more than
    /// [`VALID_PATHS_MAX`](crate::VALID_PATHS_MAX).
    pub fn valid_paths(&self) -> impl Iterator<Item = Path> + '_ {
        let (lite, full) = match &self.agent {
            Agent::Lite(agent) => (Some(agent.valid_paths()), None),
            Agent::Full(agent) => (None, Some(agent.valid_paths())),
        };
        lite.into_iter().flatten().chain(full.into_iter().flatten())
    }

    /// Whether it has closed or failed; no event comes after that of the end.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.handshake, Handshake::Over)
    }

    /// Round-trip time of the last check. A server, which sends none, has no such figure.
    #[must_use]
    pub fn round_trip(&self) -> Option<Duration> {
        match &self.agent {
            Agent::Lite(_) => None,
            Agent::Full(agent) => agent.round_trip(),
        }
    }
}
