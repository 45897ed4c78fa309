//! Which URL belongs to which session, and how many sessions wait for their client.
//!
//! A URL ends in a token of 24 random bytes: 8 to look it up by, 16 that are compared in constant
//! time. Whoever knows it may change and end the session (RFC 9725 section 5); it cannot be
//! guessed, and how long a wrong guess takes says nothing about the right one. Entries go when
//! their worker says that the session has ended, so there are never more than sessions. Counts are
//! taken before a worker is asked and given back by dropping the [`Reservation`].

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use subtle::ConstantTimeEq;

use worker_api::network;
use worker_api::overload::Overload;
use worker_api::rtc::RtcNotice;
use worker_api::snapshot::SessionId;

/// Bytes by which an entry is found.
const SELECTOR_BYTES: usize = 8;
/// Bytes that prove the right to it.
const VERIFIER_BYTES: usize = 16;
/// Length of a token's text: four characters for three bytes.
const TOKEN_CHARS: usize = (SELECTOR_BYTES + VERIFIER_BYTES) / 3 * 4;

type Selector = [u8; SELECTOR_BYTES];

/// Limits of [`Registry::reserve`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Sessions of one worker.
    pub(super) sessions_max: usize,
    /// Those of one worker that are not connected.
    pub(super) pending_max: usize,
    /// Those of one address (IPv6: /64) that are not connected, over all workers.
    pub(super) pending_per_address_max: usize,
}

/// The home of a stream takes its viewers while it has at most 1/8 more sessions than the least loaded
/// worker (or one more): there, a packet needs no message to another worker. With few sessions, where
/// messages cost next to nothing, all workers get as many; and none is idle while another is full.
const HOME_EXCESS_DIVISOR: usize = 8;

/// Why there is no room for another session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AtCapacity {
    /// The address has as many sessions without a connection as it may.
    Address,
    /// Every worker has as many sessions, or as many without a connection, as it may.
    Workers,
    /// Those that have places have too much to do.
    Overloaded(Overload),
}

/// Sessions with a URL; `T` is what the handlers keep of one.
pub(super) struct Registry<T> {
    inner: Arc<Mutex<Inner<T>>>,
}

struct Inner<T> {
    limits: Limits,
    entries: HashMap<Selector, Entry<T>>,
    by_session: HashMap<SessionId, Selector>,
    pending_by_address: HashMap<IpAddr, usize>,
    workers: Vec<Load>,
    /// Reservations whose worker has not answered yet.
    opening: usize,
    /// What workers said of sessions that are not entered yet; emptied when no reservation is open.
    early: HashMap<SessionId, RtcNotice>,
}

struct Entry<T> {
    verifier: [u8; VERIFIER_BYTES],
    session: SessionId,
    network: IpAddr,
    pending: bool,
    data: Arc<T>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Load {
    sessions: usize,
    pending: usize,
}

impl<T> Registry<T> {
    /// An empty one for `workers` workers.
    pub(super) fn new(workers: usize, limits: Limits) -> Self {
        let inner = Inner {
            limits,
            entries: HashMap::new(),
            by_session: HashMap::new(),
            pending_by_address: HashMap::new(),
            workers: vec![Load::default(); workers],
            opening: 0,
            early: HashMap::new(),
        };
        Self { inner: Arc::new(Mutex::new(inner)) }
    }

    /// Other limits, for reservations from now on.
    pub(super) fn set_limits(&self, limits: Limits) {
        self.lock().limits = limits;
    }

    /// A reservation for a session of `address`: on `home`, the worker where its stream is published, if that
    /// has not many more sessions than others, else on the one with the fewest. `overload` says why a worker
    /// takes nobody more, if it does not.
    pub(super) fn reserve(
        &self,
        address: IpAddr,
        home: Option<usize>,
        overload: impl Fn(usize) -> Option<Overload>,
    ) -> Result<Reservation<T>, AtCapacity> {
        let network = network(address);
        let mut inner = self.lock();
        let of_address = inner.pending_by_address.get(&network).copied().unwrap_or(0);
        if of_address >= inner.limits.pending_per_address_max {
            return Err(AtCapacity::Address);
        }
        let Limits { sessions_max, pending_max, .. } = inner.limits;
        let room = |load: &Load| load.sessions < sessions_max && load.pending < pending_max;
        let (mut full, mut candidates) = (AtCapacity::Workers, Vec::new());
        for (worker, load) in inner.workers.iter().enumerate().filter(|(_, load)| room(load)) {
            match overload(worker) {
                Some(overload) => full = AtCapacity::Overloaded(overload),
                None => candidates.push((worker, load)),
            }
        }
        let least = candidates.iter().min_by_key(|(_, load)| load.sessions).ok_or(full)?;
        let most = least.1.sessions + (least.1.sessions / HOME_EXCESS_DIVISOR).max(1);
        let at_home = candidates.iter().find(|(worker, load)| Some(*worker) == home && load.sessions < most);
        let (worker, _) = *at_home.unwrap_or(least);
        inner.workers[worker].sessions += 1;
        inner.workers[worker].pending += 1;
        *inner.pending_by_address.entry(network).or_default() += 1;
        inner.opening += 1;
        Ok(Reservation { registry: Arc::clone(&self.inner), worker, network, used: false })
    }

    /// What the handlers keep of the session whose URL ends in `token`.
    pub(super) fn find(&self, token: &str) -> Option<(SessionId, Arc<T>)> {
        let (selector, verifier) = split(token)?;
        let inner = self.lock();
        let entry = inner.entries.get(&selector)?;
        bool::from(entry.verifier.ct_eq(&verifier)).then(|| (entry.session, Arc::clone(&entry.data)))
    }

    /// Tokens of sessions and what is kept of them, for another process. One that has connected may not be
    /// known to have here yet.
    pub(super) fn hand_over(&self) -> Vec<(SessionId, Vec<u8>, Arc<T>)> {
        let inner = self.lock();
        let handed = inner.entries.iter().map(|(selector, entry)| {
            (entry.session, [&selector[..], &entry.verifier].concat(), Arc::clone(&entry.data))
        });
        handed.collect()
    }

    /// Enters a connected session of another process, which `client` has asked for. Nothing happens with a
    /// token that is none.
    pub(super) fn resume(&self, session: SessionId, token: &[u8], client: IpAddr, data: T) {
        let Some((selector, verifier)) = token.split_first_chunk() else { return };
        let Ok(verifier) = verifier.try_into() else { return };
        let mut inner = self.lock();
        let entry =
            Entry { verifier, session, network: network(client), pending: false, data: Arc::new(data) };
        inner.entries.insert(*selector, entry);
        inner.by_session.insert(session, *selector);
        if let Some(load) = inner.workers.get_mut(session.worker()) {
            load.sessions += 1;
        }
    }

    /// Takes in what a worker says about a session.
    pub(super) fn notice(&self, notice: RtcNotice) {
        let mut inner = self.lock();
        let (RtcNotice::Connected(session) | RtcNotice::Ended(session)) = notice;
        match (inner.by_session.get(&session).copied(), notice) {
            (Some(selector), RtcNotice::Connected(_)) => inner.connected(selector),
            (Some(selector), RtcNotice::Ended(_)) => inner.forget(selector),
            // Said before the answer to the request that opened it has been read.
            (None, _) if inner.opening > 0 => {
                inner.early.insert(session, notice);
            }
            (None, _) => {}
        }
    }

    /// Sessions with a URL.
    pub(super) fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Whether nothing is counted for anybody.
    #[cfg(test)]
    pub(super) fn is_clear(&self) -> bool {
        let inner = self.lock();
        inner.entries.is_empty()
            && inner.by_session.is_empty()
            && inner.pending_by_address.is_empty()
            && inner.early.is_empty()
            && inner.opening == 0
            && inner.workers.iter().all(|load| load.sessions == 0 && load.pending == 0)
    }

    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> std::fmt::Debug for Registry<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Never the tokens.
        write!(f, "{} sessions with a URL", self.lock().entries.len())
    }
}

impl<T> Inner<T> {
    fn connected(&mut self, selector: Selector) {
        let Some(entry) = self.entries.get_mut(&selector).filter(|entry| entry.pending) else { return };
        entry.pending = false;
        let (worker, network) = (entry.session.worker(), entry.network);
        self.not_pending(worker, network);
    }

    fn forget(&mut self, selector: Selector) {
        let Some(entry) = self.entries.remove(&selector) else { return };
        self.by_session.remove(&entry.session);
        let worker = entry.session.worker();
        if entry.pending {
            self.not_pending(worker, entry.network);
        }
        if let Some(load) = self.workers.get_mut(worker) {
            load.sessions = load.sessions.saturating_sub(1);
        }
    }

    fn not_pending(&mut self, worker: usize, network: IpAddr) {
        if let Some(load) = self.workers.get_mut(worker) {
            load.pending = load.pending.saturating_sub(1);
        }
        if let Some(count) = self.pending_by_address.get_mut(&network) {
            *count -= 1;
            if *count == 0 {
                self.pending_by_address.remove(&network);
            }
        }
    }

    fn reservation_closed(&mut self) {
        self.opening -= 1;
        if self.opening == 0 {
            self.early.clear();
        }
    }
}

/// A reservation that is counted; given back when dropped without [`Reservation::enter`].
pub(super) struct Reservation<T> {
    registry: Arc<Mutex<Inner<T>>>,
    worker: usize,
    network: IpAddr,
    used: bool,
}

impl<T> Reservation<T> {
    /// The worker it is on.
    pub(super) fn worker(&self) -> usize {
        self.worker
    }

    /// Enters the session its worker has opened, and returns the token for its URL. `None`: it has
    /// ended already, or the system gives no random bytes.
    pub(super) fn enter(mut self, session: SessionId, data: T) -> Option<String> {
        let mut bytes = [0; SELECTOR_BYTES + VERIFIER_BYTES];
        rustls::crypto::aws_lc_rs::default_provider().secure_random.fill(&mut bytes).ok()?;
        let token = URL_SAFE_NO_PAD.encode(bytes);
        let (selector, verifier) = split(&token)?;
        let mut inner = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let early = inner.early.remove(&session);
        if matches!(early, Some(RtcNotice::Ended(_))) || inner.entries.contains_key(&selector) {
            drop(inner);
            return None;
        }
        let entry = Entry { verifier, session, network: self.network, pending: true, data: Arc::new(data) };
        inner.entries.insert(selector, entry);
        inner.by_session.insert(session, selector);
        if early.is_some() {
            inner.connected(selector);
        }
        inner.reservation_closed();
        drop(inner);
        self.used = true;
        Some(token)
    }
}

impl<T> Drop for Reservation<T> {
    fn drop(&mut self) {
        if self.used {
            return;
        }
        let mut inner = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        inner.not_pending(self.worker, self.network);
        if let Some(load) = inner.workers.get_mut(self.worker) {
            load.sessions = load.sessions.saturating_sub(1);
        }
        inner.reservation_closed();
    }
}

/// Both parts of a token's text.
fn split(token: &str) -> Option<(Selector, [u8; VERIFIER_BYTES])> {
    if token.len() != TOKEN_CHARS {
        return None;
    }
    let mut bytes = [0; SELECTOR_BYTES + VERIFIER_BYTES];
    let count = URL_SAFE_NO_PAD.decode_slice(token, &mut bytes).ok()?;
    let (selector, verifier) = bytes.get(..count)?.split_at_checked(SELECTOR_BYTES)?;
    Some((selector.try_into().ok()?, verifier.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits { sessions_max: 3, pending_max: 2, pending_per_address_max: 2 }
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_session_is_found_by_its_whole_token_only() {
        let registry = Registry::new(1, limits());
        let session = SessionId::new(0, 7);
        let token = registry
            .reserve(ip("192.0.2.1"), None, |_| None)
            .expect("a reservation")
            .enter(session, "data")
            .expect("entered");
        assert_eq!(token.len(), TOKEN_CHARS);
        assert_eq!(registry.find(&token).map(|(id, data)| (id, *data)), Some((session, "data")));
        for at in 0..token.len() {
            let mut other = token.clone().into_bytes();
            other[at] = if other[at] == b'A' { b'B' } else { b'A' };
            let other = String::from_utf8(other).expect("ASCII");
            assert!(registry.find(&other).is_none(), "character {at} is of no account");
        }
        for other in ["", &token[..TOKEN_CHARS - 1], &format!("{token}A"), &"=".repeat(TOKEN_CHARS)] {
            assert!(registry.find(other).is_none(), "{other}");
        }
        assert!(!format!("{registry:?}").contains(&token));
    }

    #[test]
    fn a_token_is_good_in_another_process() {
        let old = Registry::new(2, limits());
        let reservation = old.reserve(ip("192.0.2.1"), Some(0), |_| None).expect("a reservation");
        let known = reservation.enter(SessionId::new(0, 1), "data").expect("entered");
        let new = Registry::new(2, limits());
        for (session, token, data) in old.hand_over() {
            new.resume(session, &token, ip("192.0.2.1"), *data);
            new.resume(SessionId::new(0, 9), &token[1..], ip("192.0.2.1"), *data);
        }
        let found = new.find(&known).map(|(id, data)| (id, *data));
        assert_eq!(found, Some((SessionId::new(0, 1), "data")));
        assert_eq!(new.len(), 1);
        new.notice(RtcNotice::Ended(SessionId::new(0, 1)));
        assert!(new.find(&known).is_none() && new.is_clear());
    }

    #[test]
    fn what_has_ended_is_forgotten() {
        let registry = Registry::new(2, limits());
        let sessions = [SessionId::new(0, 1), SessionId::new(1, 1)];
        let tokens = sessions.map(|session| {
            let reservation = registry.reserve(ip("192.0.2.1"), None, |_| None).expect("a reservation");
            assert_eq!(reservation.worker(), session.worker(), "the one with the fewest sessions");
            reservation.enter(session, ()).expect("entered")
        });
        registry.notice(RtcNotice::Connected(sessions[0]));
        registry.notice(RtcNotice::Connected(sessions[0]));
        for (session, token) in sessions.iter().zip(&tokens) {
            registry.notice(RtcNotice::Ended(*session));
            registry.notice(RtcNotice::Ended(*session));
            assert!(registry.find(token).is_none());
        }
        assert!(registry.is_clear());
    }

    #[test]
    fn workers_with_too_much_to_do_get_none_even_if_the_stream_is_published_there() {
        let registry = Registry::<()>::new(2, limits());
        let overload = |worker: usize| (worker == 0).then_some(Overload::Load);
        let reservation = registry.reserve(ip("192.0.2.1"), Some(0), overload).expect("a reservation");
        assert_eq!(reservation.worker(), 1);
        let refused = registry.reserve(ip("192.0.2.1"), Some(0), |_| Some(Overload::Egress)).err();
        assert_eq!(refused, Some(AtCapacity::Overloaded(Overload::Egress)));
        drop(reservation);
        assert!(registry.is_clear());
    }

    #[test]
    fn sessions_without_a_connection_are_limited_by_address_and_by_worker() {
        let registry = Registry::<()>::new(2, limits());
        let _a = registry.reserve(ip("2001:db8::1"), None, |_| None).expect("a reservation");
        let _b = registry.reserve(ip("2001:db8::2"), None, |_| None).expect("a reservation");
        assert_eq!(
            registry.reserve(ip("2001:db8::3"), None, |_| None).err(),
            Some(AtCapacity::Address),
            "one network"
        );
        let c = registry.reserve(ip("192.0.2.1"), None, |_| None).expect("a reservation");
        let _d = registry.reserve(ip("192.0.2.2"), None, |_| None).expect("a reservation");
        assert_eq!(
            registry.reserve(ip("192.0.2.3"), None, |_| None).err(),
            Some(AtCapacity::Workers),
            "both have two"
        );
        drop(c);
        assert!(registry.reserve(ip("192.0.2.3"), None, |_| None).is_ok(), "a reservation was given back");
    }

    #[test]
    fn viewers_are_at_home_until_others_have_much_more_room() {
        let limits = Limits { sessions_max: 300, pending_max: 300, pending_per_address_max: 1000 };
        let registry = Registry::<()>::new(3, limits);
        let mut all = Vec::new();
        let mut sessions = [0; 3];
        let mut reserve = |count: usize, home| {
            for _ in 0..count {
                let reservation = registry.reserve(ip("192.0.2.1"), home, |_| None).expect("a reservation");
                sessions[reservation.worker()] += 1;
                all.push(reservation);
            }
            sessions
        };
        assert_eq!(reserve(1, Some(1)), [0, 1, 0]);
        assert_eq!(reserve(2, Some(1)), [1, 1, 1], "then the least busy");
        assert_eq!(reserve(600, Some(1)), [193, 217, 193], "all get about as many");
        assert_eq!(reserve(1, None), [194, 217, 193]);
        assert_eq!(reserve(1, Some(9)), [194, 217, 194], "a worker that is none");
    }

    #[test]
    fn connected_sessions_are_no_longer_waiting_but_are_sessions() {
        let registry = Registry::new(1, limits());
        for serial in 0..3 {
            let reservation = registry.reserve(ip("192.0.2.1"), None, |_| None).expect("a reservation");
            reservation.enter(SessionId::new(0, serial), ()).expect("entered");
            registry.notice(RtcNotice::Connected(SessionId::new(0, serial)));
        }
        assert_eq!(registry.reserve(ip("192.0.2.1"), None, |_| None).err(), Some(AtCapacity::Workers));
        registry.notice(RtcNotice::Ended(SessionId::new(0, 1)));
        assert!(registry.reserve(ip("192.0.2.1"), None, |_| None).is_ok());
    }

    #[test]
    fn news_that_overtake_the_answer_count() {
        let registry = Registry::new(1, limits());
        let (first, second) = (SessionId::new(0, 1), SessionId::new(0, 2));
        let (a, b) = (
            registry.reserve(ip("::1"), None, |_| None).expect("a reservation"),
            registry.reserve(ip("::1"), None, |_| None).expect("a reservation"),
        );
        registry.notice(RtcNotice::Ended(first));
        registry.notice(RtcNotice::Connected(second));
        assert!(a.enter(first, ()).is_none(), "it has ended");
        assert!(b.enter(second, ()).is_some());
        assert_eq!(registry.len(), 1);
        let _c = registry.reserve(ip("::1"), None, |_| None).expect("a reservation");
        let _d = registry.reserve(ip("::1"), None, |_| None).expect("both are free: the second is connected");
        registry.notice(RtcNotice::Ended(second));
        drop((_c, _d));
        assert!(registry.is_clear());
    }
}
