//! The server's side of ICE: answers checks, sends none (ICE-lite, RFC 8445 §2.5), and RFC 7675's
//! consent.
//!
//! A peer is reached at whatever address an authentic check of it came from, so this side needs no
//! list of candidates, neither its own nor the peer's: a host with many addresses, or one announced
//! by another address (NAT 1:1), needs no configuration. The crate `is` has such an agent, too;
//! it keeps the path of the higher priority until that has been silent for 15 s, where a peer whose
//! NAT forgot it must be followed at its first check, and it has no limit on addresses learned. It
//! reads and writes the messages here, and is the client's side in `full.rs`.
//!
//! The path to send on is the one nominated last. Once media flows, it has to lead to a host that
//! has proven to receive what is sent to it: by finishing the DTLS handshake, by a TCP connection,
//! or by answering a check of ours (the one exception to "sends none"). So neither a replayed check
//! from another address, nor a viewer that forges the source of its own checks, directs a stream at
//! a third party. A new port on the same host, as after a NAT rebinding, is followed at once.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use is::stun::{StunMessage, TransId};

use crate::established::Established;
use crate::ice::{IceEvent, Refusal, USERNAME_BYTES_MAX, VALID_PATHS_MAX};
use crate::sdp::{IceCredentials, Transport};
use crate::stun::{Class, Envelope, TransactionId, transaction_of, write};
use crate::transmit::TransmitQueue;
use crate::{Path, Timeouts};

/// Transaction ids of authentic requests that are remembered, to know a replay. At one check in 2.5
/// s they reach back 80 s, longer than a path lives without checks.
const TRANSACTIONS_MAX: usize = 32;

/// How long the selected path may be without a check before one without USE-CANDIDATE moves it.
///
/// Peers that nominate once (RFC 8445 §8.1.1) do not say it again from their new port after a NAT
/// forgot them. Consent checks come every 4 to 6 s (RFC 7675 §5.1).
const SELECTED_SILENT: Duration = Duration::from_secs(7);

/// When a check of ours to a new host is repeated, after the one before.
const CHALLENGE_REPEATS: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
    Duration::from_millis(800),
];

/// A path over which an authentic check has arrived.
struct ValidPath {
    path: Path,
    checked: Instant,
    nominated: bool,
}

/// An authentic request and its path, as hashes: thousands of peers each remember [`TRANSACTIONS_MAX`] of
/// them. A replay whose path matches by chance gets a response, and nothing changes; a new request that
/// is taken for an old one is followed by the next in seconds.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// 0 for none.
    transaction: u32,
    path: u32,
}

impl Seen {
    fn new(path: Path, transaction: TransactionId) -> Self {
        Self { transaction: hash_of(transaction.0).max(1), path: hash_of(path) }
    }
}

/// A check of ours to a new host of a peer that is connected.
struct Challenge {
    path: Path,
    transaction: TransactionId,
    request: Vec<u8>,
    repeated: usize,
    next: Option<Instant>,
}

/// ICE-lite agent of one session.
pub(crate) struct LiteAgent {
    local: IceCredentials,
    remote: IceCredentials,
    timeouts: Timeouts,
    started: Instant,
    /// At most [`VALID_PATHS_MAX`].
    paths: Vec<ValidPath>,
    /// Where to send; with the time of its last check. After a restart it may be one that is no
    /// longer in `paths`.
    selected: Option<(Path, Instant)>,
    seen: [Seen; TRANSACTIONS_MAX],
    seen_next: usize,
    challenge: Option<Challenge>,
    /// Media flows; and the path whose host has proven to receive, if one has.
    media_flows: bool,
    proven: Option<Path>,
    over: bool,
}

impl LiteAgent {
    pub(crate) fn new(
        local: IceCredentials,
        remote: IceCredentials,
        timeouts: Timeouts,
        now: Instant,
    ) -> Self {
        Self {
            local,
            remote,
            timeouts,
            started: now,
            paths: Vec::new(),
            selected: None,
            seen: [Seen::default(); TRANSACTIONS_MAX],
            seen_next: 0,
            challenge: None,
            media_flows: false,
            proven: None,
            over: false,
        }
    }

    /// What another process goes on with; `None` unless media flows.
    pub(crate) fn established(&self, now: Instant) -> Option<Established> {
        let (path, checked) = self.selected.filter(|_| self.media_flows && !self.over)?;
        let seen = self.seen.iter().filter(|seen| seen.transaction != 0);
        Some(Established {
            local_ice: self.local.clone(),
            remote_ice: self.remote.clone(),
            path,
            checked: now.saturating_duration_since(checked),
            proven: self.proven,
            seen: seen.map(|seen| (seen.transaction, seen.path)).collect(),
        })
    }

    /// Goes on where another one was.
    pub(crate) fn resumed(established: Established, timeouts: Timeouts, now: Instant) -> Self {
        let Established { local_ice, remote_ice, path, checked, proven, seen } = established;
        let checked = now.checked_sub(checked).unwrap_or(now);
        let mut agent = Self::new(local_ice, remote_ice, timeouts, now);
        agent.paths.push(ValidPath { path, checked, nominated: true });
        agent.selected = Some((path, checked));
        (agent.media_flows, agent.proven) = (true, proven);
        for (place, (transaction, path)) in agent.seen.iter_mut().zip(seen) {
            *place = Seen { transaction, path };
            agent.seen_next = (agent.seen_next + 1) % TRANSACTIONS_MAX;
        }
        agent
    }

    /// Handles a STUN message. The order of the steps matters: find the owner, verify integrity,
    /// parse, check for a replay, and only then change state.
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
        if envelope.class() != Class::Request {
            return self.handle_answer(now, path, &envelope);
        }
        if envelope.usernames() != Some((&self.local.ufrag, &self.remote.ufrag)) {
            return Err(Refusal::WrongUsername);
        }
        if !envelope.is_authentic(&self.local.password) {
            return Err(Refusal::WrongIntegrity);
        }
        let request = envelope.open()?;
        if request.ice_controlled().is_some() {
            let answer = StunMessage::binding_role_conflict_reply(request.trans_id());
            transmits.push(path, write(answer, &self.local.password));
            return Err(Refusal::RoleConflict);
        }
        let repeated = self.is_repeated(path, envelope.transaction())?;
        let answer = StunMessage::binding_reply(request.trans_id(), path.remote);
        transmits.push(path, write(answer, &self.local.password));
        if repeated {
            return Ok(None);
        }
        self.remember(path, envelope.transaction());
        self.note_check(now, path, request.use_candidate());
        Ok(self.consider(now, path, request.use_candidate(), transmits))
    }

    /// Whether a request is a replay, by its transaction id: a sender that missed the response
    /// repeats it on the same path, and gets the response again. On any other path it is a replay.
    fn is_repeated(&self, path: Path, transaction: TransactionId) -> Result<bool, Refusal> {
        let request = Seen::new(path, transaction);
        match self.seen.iter().find(|seen| seen.transaction == request.transaction) {
            None => Ok(false),
            Some(seen) if seen.path == request.path => Ok(true),
            Some(_) => Err(Refusal::Replayed),
        }
    }

    fn remember(&mut self, path: Path, transaction: TransactionId) {
        self.seen[self.seen_next] = Seen::new(path, transaction);
        self.seen_next = (self.seen_next + 1) % TRANSACTIONS_MAX;
    }

    /// Makes the path valid, or notes that it still is.
    fn note_check(&mut self, now: Instant, path: Path, nominated: bool) {
        if let Some(selected) = self.selected.as_mut().filter(|selected| selected.0 == path) {
            selected.1 = now;
        }
        if let Some(valid) = self.paths.iter_mut().find(|valid| valid.path == path) {
            valid.checked = now;
            valid.nominated |= nominated;
            return;
        }
        if self.paths.len() == VALID_PATHS_MAX {
            let spared = self.selected_path();
            let others = self.paths.iter().enumerate().filter(|(_, valid)| Some(valid.path) != spared);
            if let Some((oldest, _)) = others.min_by_key(|(_, valid)| valid.checked) {
                self.paths.swap_remove(oldest);
            }
        }
        // Nearly all peers have one.
        self.paths.reserve_exact(1);
        self.paths.push(ValidPath { path, checked: now, nominated });
    }

    /// Decides whether a check moves the path to send on: at once, after a check of ours, or not.
    fn consider(
        &mut self,
        now: Instant,
        path: Path,
        nominates: bool,
        transmits: &mut TransmitQueue,
    ) -> Option<IceEvent> {
        let moves = match self.selected {
            None => nominates,
            Some((selected, _)) if selected == path => false,
            Some((_, checked)) => nominates || now.saturating_duration_since(checked) >= SELECTED_SILENT,
        };
        if !moves {
            return None;
        }
        if self.may_receive_media(&path) {
            return Some(self.select(now, path));
        }
        self.challenge(now, path, transmits);
        None
    }

    /// Whether media may be sent over a path without asking first.
    fn may_receive_media(&self, path: &Path) -> bool {
        !self.media_flows
            || path.transport == Transport::Tcp
            || self.proven.is_some_and(|proven| path.same_remote_host(&proven))
    }

    fn select(&mut self, now: Instant, path: Path) -> IceEvent {
        self.selected = Some((path, now));
        self.challenge = None;
        IceEvent::Selected(path)
    }

    /// Asks the peer to prove that it is at this host, unless it is being asked already.
    fn challenge(&mut self, now: Instant, path: Path, transmits: &mut TransmitQueue) {
        if self.challenge.as_ref().is_some_and(|asked| asked.path == path && asked.next.is_some()) {
            return;
        }
        let username = format!("{}:{}", self.remote.ufrag, self.local.ufrag);
        if username.len() > USERNAME_BYTES_MAX {
            return;
        }
        let check = StunMessage::binding_request(
            &username,
            TransId::new(),
            false,
            TIE_BREAKER,
            CHECK_PRIORITY,
            false,
        );
        let request = write(check, &self.remote.password);
        transmits.push(path, request.clone());
        let transaction = transaction_of(&request);
        let next = Some(now + CHALLENGE_REPEATS[0]);
        self.challenge = Some(Challenge { path, transaction, request, repeated: 0, next });
    }

    /// A response can only belong to our pending check.
    fn handle_answer(
        &mut self,
        now: Instant,
        path: Path,
        envelope: &Envelope<'_>,
    ) -> Result<Option<IceEvent>, Refusal> {
        let asked = self.challenge.as_ref().ok_or(Refusal::UnknownTransaction)?;
        if asked.transaction != envelope.transaction() || asked.path != path {
            return Err(Refusal::UnknownTransaction);
        }
        if !envelope.is_authentic(&self.remote.password) {
            return Err(Refusal::WrongIntegrity);
        }
        if envelope.class() == Class::Error {
            self.challenge = None;
            return Ok(None);
        }
        self.proven = Some(path);
        Ok(Some(self.select(now, path)))
    }

    /// Runs timers: retransmission of our check, expiry of unchecked paths, of the ICE timeout, of
    /// consent.
    pub(crate) fn handle_timeout(&mut self, now: Instant, transmits: &mut TransmitQueue) -> Option<IceEvent> {
        if self.over {
            return None;
        }
        self.repeat_challenge(now, transmits);
        let consent = self.timeouts.consent;
        self.paths.retain(|valid| now < valid.checked + consent);
        let (deadline, event) = match self.selected {
            None => (self.started + self.timeouts.ice, IceEvent::Failed),
            Some((_, checked)) => (checked + consent, IceEvent::ConsentLost),
        };
        if now < deadline {
            return None;
        }
        self.stop();
        Some(event)
    }

    fn repeat_challenge(&mut self, now: Instant, transmits: &mut TransmitQueue) {
        let Some(asked) = self.challenge.as_mut() else { return };
        if asked.next.is_none_or(|next| now < next) {
            return;
        }
        transmits.push(asked.path, asked.request.clone());
        asked.repeated += 1;
        asked.next = CHALLENGE_REPEATS.get(asked.repeated).map(|&after| now + after);
    }

    /// When [`LiteAgent::handle_timeout`] has something to do.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        if self.over {
            return None;
        }
        let end = match self.selected {
            None => self.started + self.timeouts.ice,
            Some((_, checked)) => checked + self.timeouts.consent,
        };
        let stale = self.paths.iter().map(|valid| valid.checked + self.timeouts.consent).min();
        let repeat = self.challenge.as_ref().and_then(|asked| asked.next);
        [Some(end), stale, repeat].into_iter().flatten().min()
    }

    /// Sets new credentials (RFC 8445 §9). Checks with the old ones no longer count; media
    /// continues over the old path until a check with the new ones nominates one, for as long as
    /// consent for it lasts.
    pub(crate) fn restart(&mut self, local: IceCredentials, remote: IceCredentials, now: Instant) {
        (self.local, self.remote) = (local, remote);
        self.started = now;
        let kept = self.selected_path();
        self.paths.retain(|valid| Some(valid.path) == kept);
        self.challenge = None;
        self.over = false;
    }

    /// Forgets a path whose connection has ended. Another nominated path takes its place if there
    /// is one.
    pub(crate) fn path_closed(&mut self, path: &Path, now: Instant) -> Option<IceEvent> {
        self.paths.retain(|valid| valid.path != *path);
        if self.challenge.as_ref().is_some_and(|asked| asked.path == *path) {
            self.challenge = None;
        }
        if self.selected_path() != Some(*path) {
            return None;
        }
        self.selected = None;
        self.started = now;
        let nominated =
            self.paths.iter().filter(|valid| valid.nominated && self.may_receive_media(&valid.path));
        let next = nominated.max_by_key(|valid| valid.checked)?;
        let (path, checked) = (next.path, next.checked);
        self.selected = Some((path, checked));
        Some(IceEvent::Selected(path))
    }

    /// From now on what is sent is media, and goes to hosts only that receive it. `proven` is where
    /// the datagrams went to without which the peer could not have finished the handshake.
    ///
    /// A path selected meanwhile that leads elsewhere has to wait for its answer, and media takes
    /// the proven one; so it does while none is selected, because Chromium nominates when the
    /// handshake is done.
    pub(crate) fn media_flows(
        &mut self,
        now: Instant,
        proven: Option<Path>,
        transmits: &mut TransmitQueue,
    ) -> Option<IceEvent> {
        (self.media_flows, self.proven) = (true, proven);
        let selected = self.selected_path();
        if selected.is_some_and(|selected| self.may_receive_media(&selected)) {
            return None;
        }
        let known = self.paths.iter().find(|valid| Some(valid.path) == proven);
        self.selected = known.map(|valid| (valid.path, valid.checked));
        if let Some(selected) = selected {
            self.challenge(now, selected, transmits);
        }
        self.selected_path().map(IceEvent::Selected)
    }

    /// Ends all of it: nothing is valid any more.
    pub(crate) fn stop(&mut self) {
        self.over = true;
        self.selected = None;
        self.challenge = None;
        self.paths = Vec::new();
    }

    pub(crate) fn selected_path(&self) -> Option<Path> {
        self.selected.map(|(path, _)| path)
    }

    pub(crate) fn is_valid(&self, path: &Path) -> bool {
        self.paths.iter().any(|valid| valid.path == *path) || self.selected_path() == Some(*path)
    }

    pub(crate) fn valid_paths(&self) -> impl Iterator<Item = Path> + '_ {
        let kept = self.selected_path().filter(|kept| self.paths.iter().all(|valid| valid.path != *kept));
        self.paths.iter().map(|valid| valid.path).chain(kept)
    }
}

fn hash_of(value: impl Hash) -> u32 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish() as u32
}

/// Of checks of ours. Their receiver is the controlling side, which does not compare it.
const TIE_BREAKER: u64 = 0;

/// PRIORITY of checks of ours: that of a peer-reflexive candidate (RFC 8445 §7.1.1).
const CHECK_PRIORITY: u32 = 110 << 24 | 0xffff << 8 | 255;
