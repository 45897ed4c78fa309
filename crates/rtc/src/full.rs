//! The client's side of ICE: sends checks, nominates, keeps consent (RFC 8445, RFC 7675), over the
//! agent of crate `is`.
//!
//! This file adds what that agent leaves open: messages are authenticated before it parses
//! them, an answer has to come from where the check went (RFC 8445 §7.2.5.2.1), addresses learned
//! from the peer have a limit, and consent is counted by answers on the selected path alone, while
//! the agent also lets the peer's own checks keep a path alive.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use aws_lc_rs::rand;
use is::stun::StunPacket;
use is::{IceAgent, IceAgentEvent, IceCreds, Protocol};

use crate::ice::{
    CANDIDATE_PAIRS_MAX, IceEvent, REMOTE_CANDIDATES_MAX, Refusal, USERNAME_BYTES_MAX, VALID_PATHS_MAX,
};
use crate::sdp::{Candidate, CandidateKind, IceCredentials, TcpType, Transport};
use crate::stun::{Class, Envelope, HmacSha1, TransactionId, transaction_of};
use crate::transmit::TransmitQueue;
use crate::{LocalAddress, Path, PeerError, Timeouts};

/// Checks whose answer is waited for. The agent repeats each of its pairs at most every 3 s; an
/// answer that takes longer than this many checks is not known any more, and the next one counts.
const ASKED_MAX: usize = 64;

/// Maximum addresses at which a peer may report to see us. Each becomes a candidate in the agent.
const MAPPED_MAX: usize = 16;

/// Controlling ICE agent of one client session.
pub(crate) struct FullAgent {
    agent: IceAgent,
    local: IceCredentials,
    remote: IceCredentials,
    timeouts: Timeouts,
    started: Instant,
    asked: VecDeque<(TransactionId, Path)>,
    /// Paths over which a response was received; at most [`VALID_PATHS_MAX`].
    valid: Vec<Path>,
    /// Where to send; with the time of the last answer over it.
    selected: Option<(Path, Instant)>,
    mapped: Vec<SocketAddr>,
    remotes: Vec<SocketAddr>,
    over: bool,
}

impl FullAgent {
    /// Sends its first check at once.
    pub(crate) fn new(
        local: IceCredentials,
        remote: IceCredentials,
        addresses: &[LocalAddress],
        timeouts: Timeouts,
        now: Instant,
    ) -> Result<Self, PeerError> {
        check_username(&local, &remote)?;
        let mut agent = IceAgent::with_hmac(creds(&local), &HmacSha1);
        agent.set_controlling(true);
        agent.set_max_candidate_pairs(CANDIDATE_PAIRS_MAX);
        agent.set_control_tie_breaker(random_u64()?);
        agent.set_remote_credentials(creds(&remote));
        for address in addresses.iter().take(VALID_PATHS_MAX) {
            agent.add_local_candidate(local_candidate(address)?);
        }
        Ok(Self {
            agent,
            local,
            remote,
            timeouts,
            started: now,
            asked: VecDeque::new(),
            valid: Vec::new(),
            selected: None,
            mapped: Vec::new(),
            remotes: Vec::new(),
            over: false,
        })
    }

    /// Takes an address of the peer. What cannot be reached from here is ignored, and what is
    /// beyond [`REMOTE_CANDIDATES_MAX`].
    pub(crate) fn add_remote_candidate(&mut self, candidate: &Candidate) {
        let reachable = match candidate.transport {
            Transport::Udp => true,
            Transport::Tcp => candidate.tcp_type == Some(TcpType::Passive),
        };
        if reachable && candidate.component == 1 && self.knows_remote(candidate.address) {
            self.agent.add_remote_candidate(remote_candidate(candidate));
        }
    }

    /// Whether an address is a known one of the peer, which it becomes here if there is room.
    fn knows_remote(&mut self, address: SocketAddr) -> bool {
        if self.remotes.contains(&address) {
            return true;
        }
        let room = self.remotes.len() < REMOTE_CANDIDATES_MAX;
        if room {
            self.remotes.push(address);
        }
        room
    }

    pub(crate) fn handle(
        &mut self,
        now: Instant,
        path: Path,
        datagram: &[u8],
        transmits: &mut TransmitQueue,
    ) -> Result<Option<IceEvent>, Refusal> {
        if self.over {
            return Err(Refusal::Closed);
        }
        let envelope = Envelope::parse(datagram)?;
        match envelope.class() {
            Class::Request => self.handle_request(now, path, &envelope)?,
            Class::Success | Class::Error => self.handle_answer(now, path, &envelope)?,
        }
        let event = self.drain(now, transmits);
        if event.is_some() {
            // The agent would wait up to 50 ms with the check that nominates, and the server with
            // media for it.
            self.agent.handle_timeout(now);
            self.drain(now, transmits);
        }
        Ok(event)
    }

    /// A check of the peer. The agent answers it, and may switch roles for it.
    fn handle_request(&mut self, now: Instant, path: Path, envelope: &Envelope<'_>) -> Result<(), Refusal> {
        if envelope.usernames() != Some((&self.local.ufrag, &self.remote.ufrag)) {
            return Err(Refusal::WrongUsername);
        }
        if !envelope.is_authentic(&self.local.password) {
            return Err(Refusal::WrongIntegrity);
        }
        let message = envelope.open()?;
        if !self.knows_remote(path.remote) {
            return Err(Refusal::TooManyCandidates);
        }
        self.agent.handle_packet(now, packet(path, message));
        Ok(())
    }

    /// An answer to a check of ours, from where the check went, once.
    fn handle_answer(&mut self, now: Instant, path: Path, envelope: &Envelope<'_>) -> Result<(), Refusal> {
        let transaction = envelope.transaction();
        let known = self.asked.iter().position(|asked| *asked == (transaction, path));
        let known = known.ok_or(Refusal::UnknownTransaction)?;
        if !envelope.is_authentic(&self.remote.password) {
            return Err(Refusal::WrongIntegrity);
        }
        let message = envelope.open()?;
        if let Some(mapped) = message.mapped_address().filter(|mapped| !self.mapped.contains(mapped)) {
            if self.mapped.len() == MAPPED_MAX {
                return Err(Refusal::TooManyCandidates);
            }
            self.mapped.push(mapped);
        }
        self.asked.remove(known);
        if envelope.class() == Class::Success {
            self.note_answer(now, path);
        }
        self.agent.handle_packet(now, packet(path, message));
        Ok(())
    }

    /// Makes the path valid, and renews consent if it is the selected one.
    fn note_answer(&mut self, now: Instant, path: Path) {
        if let Some(selected) = self.selected.as_mut().filter(|selected| selected.0 == path) {
            selected.1 = now;
        }
        if self.valid.contains(&path) {
            return;
        }
        if self.valid.len() == VALID_PATHS_MAX {
            let spared = self.selected_path();
            let oldest = self.valid.iter().position(|valid| Some(*valid) != spared);
            self.valid.remove(oldest.expect("one of several is not the selected one"));
        }
        self.valid.push(path);
    }

    /// Takes over what the agent has to send and to say.
    fn drain(&mut self, now: Instant, transmits: &mut TransmitQueue) -> Option<IceEvent> {
        while let Some(transmit) = self.agent.poll_transmit() {
            let transport = if transmit.proto == Protocol::Udp { Transport::Udp } else { Transport::Tcp };
            let path = Path { local: transmit.source, remote: transmit.destination, transport };
            let bytes: Vec<u8> = transmit.contents.into();
            if bytes[..2] == [0, 1] {
                if self.asked.len() == ASKED_MAX {
                    self.asked.pop_front();
                }
                self.asked.push_back((transaction_of(&bytes), path));
            }
            transmits.push(path, bytes);
        }
        let mut selected = None;
        while let Some(event) = self.agent.poll_event() {
            if let IceAgentEvent::NominatedSend { proto, source, destination } = event {
                let transport = if proto == Protocol::Udp { Transport::Udp } else { Transport::Tcp };
                selected = Some(Path { local: source, remote: destination, transport });
            }
        }
        let path =
            selected.filter(|path| self.valid.contains(path) && self.selected_path() != Some(*path))?;
        self.selected = Some((path, now));
        Some(IceEvent::Selected(path))
    }

    /// Sends the checks that are due, and ends waiting and consent.
    pub(crate) fn handle_timeout(&mut self, now: Instant, transmits: &mut TransmitQueue) -> Option<IceEvent> {
        if self.over {
            return None;
        }
        if now >= self.deadline() {
            let event = if self.selected.is_some() { IceEvent::ConsentLost } else { IceEvent::Failed };
            self.stop();
            return Some(event);
        }
        self.agent.handle_timeout(now);
        self.drain(now, transmits)
    }

    fn deadline(&self) -> Instant {
        match self.selected {
            None => self.started + self.timeouts.ice,
            Some((_, answered)) => answered + self.timeouts.consent,
        }
    }

    pub(crate) fn next_timeout(&mut self) -> Option<Instant> {
        if self.over {
            return None;
        }
        let check = self.agent.poll_timeout().unwrap_or(self.started);
        Some(check.min(self.deadline()))
    }

    /// Sets new credentials (RFC 8445 §9). Media continues over the old path until a new one is
    /// found.
    pub(crate) fn restart(
        &mut self,
        local: IceCredentials,
        remote: IceCredentials,
        candidates: &[Candidate],
        now: Instant,
    ) -> Result<(), PeerError> {
        check_username(&local, &remote)?;
        self.agent.ice_restart(creds(&local), true);
        self.agent.set_remote_credentials(creds(&remote));
        (self.local, self.remote) = (local, remote);
        self.asked.clear();
        self.remotes.clear();
        let kept = self.selected_path();
        self.valid.retain(|path| Some(*path) == kept);
        self.started = now;
        self.over = false;
        for candidate in candidates {
            self.add_remote_candidate(candidate);
        }
        Ok(())
    }

    /// Forgets a path whose connection has ended.
    pub(crate) fn path_closed(&mut self, path: &Path, now: Instant) -> Option<IceEvent> {
        self.valid.retain(|valid| valid != path);
        self.asked.retain(|(_, asked)| asked != path);
        if self.selected_path() == Some(*path) {
            self.selected = None;
            self.started = now;
        }
        let gone = self.agent.remote_candidates().find(|candidate| candidate.addr() == path.remote);
        if let Some(gone) = gone {
            self.agent.invalidate_candidate(&gone);
        }
        None
    }

    pub(crate) fn stop(&mut self) {
        self.over = true;
        self.selected = None;
        self.valid = Vec::new();
        self.asked = VecDeque::new();
    }

    pub(crate) fn selected_path(&self) -> Option<Path> {
        self.selected.map(|(path, _)| path)
    }

    pub(crate) fn is_valid(&self, path: &Path) -> bool {
        self.valid.contains(path)
    }

    pub(crate) fn valid_paths(&self) -> impl Iterator<Item = Path> + '_ {
        self.valid.iter().copied()
    }

    /// Round-trip time of the last check on the selected path.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        self.agent.nominated_pair_rtt()
    }
}

/// The agent panics when it cannot write a USERNAME, so one that is too long never gets there.
fn check_username(local: &IceCredentials, remote: &IceCredentials) -> Result<(), PeerError> {
    let length = local.ufrag.len() + 1 + remote.ufrag.len();
    if length <= USERNAME_BYTES_MAX { Ok(()) } else { Err(PeerError::UfragTooLong) }
}

fn creds(credentials: &IceCredentials) -> IceCreds {
    IceCreds { ufrag: credentials.ufrag.clone(), pass: credentials.password.clone() }
}

fn random_u64() -> Result<u64, PeerError> {
    let mut bytes = [0; 8];
    rand::fill(&mut bytes).map_err(|_| PeerError::NoRandomness)?;
    Ok(u64::from_be_bytes(bytes))
}

fn packet<'a>(path: Path, message: is::stun::StunMessage<'a>) -> StunPacket<'a> {
    StunPacket { proto: protocol(path.transport), source: path.remote, destination: path.local, message }
}

fn protocol(transport: Transport) -> Protocol {
    match transport {
        Transport::Udp => Protocol::Udp,
        Transport::Tcp => Protocol::Tcp,
    }
}

fn local_candidate(address: &LocalAddress) -> Result<is::Candidate, PeerError> {
    let candidate = is::Candidate::builder();
    let built = match address.transport {
        Transport::Udp => candidate.udp().host(address.address).build(),
        Transport::Tcp => candidate.tcp().host(address.address).build(),
    };
    built.map_err(|_| PeerError::BadLocalAddress)
}

fn remote_candidate(candidate: &Candidate) -> is::Candidate {
    let kind = match candidate.kind {
        CandidateKind::Host => is::CandidateKind::Host,
        CandidateKind::ServerReflexive => is::CandidateKind::ServerReflexive,
        CandidateKind::PeerReflexive => is::CandidateKind::PeerReflexive,
        CandidateKind::Relayed => is::CandidateKind::Relayed,
    };
    is::Candidate::from_parts(
        candidate.foundation.clone(),
        1,
        protocol(candidate.transport),
        candidate.priority,
        candidate.address,
        kind,
        candidate.related,
        None,
        None,
    )
}
