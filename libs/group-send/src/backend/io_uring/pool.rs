//! The socket pool of the `io_uring` back end: one connected socket per recipient, up to a limit.
//!
//! **Order.** Datagrams leave a socket by the queue that the socket's hash chose, so a recipient's
//! datagrams keep their order only while they use one socket. A recipient therefore moves between
//! the caller's socket and its own only when the kernel holds nothing of the socket it leaves
//! (`SIOCOUTQ`): to its own once the caller's is idle, and back (the pool is full, or the socket
//! became useless) once its own is idle.
//!
//! The source address of a connected socket is fixed when it connects: after any change of routes,
//! addresses or interfaces all sockets are closed and reopened. `template.rs` says how they are
//! made.

use super::template::Template;
use crate::backend::mmsg;
use crate::linux::bytes_in_flight;
use crate::linux::uring::Ring;
use crate::netlink::socket::NetlinkSocket;
use crate::peer_table::{PeerKey, PeerTable};
use nix::sys::resource::{Resource, getrlimit};
use socket2::SockRef;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

/// How a recipient's datagrams are sent in this call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// Through its own socket, which has this number in the ring's table.
    Own(u32),
    /// Through the caller's socket.
    Caller,
    /// Not yet: its own socket must not be used any more and still holds datagrams.
    Blocked,
}

/// Which socket the datagrams to be sent ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SocketPreference {
    /// Its own: one is opened if that is possible now.
    Own,
    /// Either socket will do.
    Either,
    /// Only the caller's can send them.
    Caller,
}

/// The sockets, by recipient.
pub(super) struct SocketPool {
    template: Template,
    /// By number in the ring's table.
    entries: Vec<Option<PoolEntry>>,
    free: Vec<u32>,
    by_peer: PeerTable<PeerState>,
    /// Entries that are not parked.
    in_use: usize,
    /// Reports changes that may give a recipient another source address.
    changes: NetlinkSocket,
    /// Counts recipients sent to: the unit of age here, since this crate reads no clock.
    now: u64,
    /// Sockets that may still be opened in this turn.
    opens_left: u32,
    /// Whether the kernel held nothing of the caller's socket in this turn, if it was asked.
    caller_is_idle: Option<bool>,
    /// No socket is used before this time, because there were more recipients than sockets.
    crowded_until: u64,
    /// The entry that the last look-up found. Groups are sent repeatedly in the same order.
    latest: usize,
    /// The next entry to be considered for eviction.
    hand: usize,
}

struct PoolEntry {
    destination: SocketAddr,
    used_at: u64,
    state: EntryState,
    /// The ring's table holds it as well.
    socket: mmsg::Socket,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryState {
    /// The recipient's datagrams go through it.
    InUse,
    /// They go through the caller's socket, and nothing is in flight here.
    Parked,
    /// To be closed as soon as nothing is in flight.
    Closing,
}

/// What the pool knows of a recipient.
#[derive(Clone, Copy)]
enum PeerState {
    Entry(u32),
    /// No socket before this time: one could not be opened, or was useless.
    RetryAt(u64),
}

impl SocketPool {
    /// Up to `sockets_max` sockets beside `caller`, or the reason why there can be none.
    pub(super) fn open(caller: &SockRef<'_>, sockets_max: u32) -> Result<Self, String> {
        let failed = |error: io::Error| format!("no notification of route changes: {error}");
        Ok(Self {
            template: Template::new(caller)?,
            changes: NetlinkSocket::subscribed(&CHANGES).map_err(failed)?,
            entries: Vec::new(),
            free: (0..sockets_max).rev().collect(),
            by_peer: PeerTable::new(2 * sockets_max as usize),
            in_use: 0,
            now: 0,
            opens_left: 0,
            caller_is_idle: None,
            crowded_until: 0,
            latest: 0,
            hand: 0,
        })
    }

    /// Whether any recipient may have another route than the caller's socket.
    pub(super) fn is_in_use(&self) -> bool {
        self.in_use > 0
    }

    /// Begins another call of the back end, before anything is sent. Costs a system call, 100 ns.
    pub(super) fn begin_turn(&mut self, ring: &Ring) {
        self.opens_left = OPENS_PER_TURN;
        self.caller_is_idle = None;
        let mut changed = false;
        // A bounded number of notices; one that was lost or cannot be read counts as a change too.
        for _ in 0..NOTICES_PER_TURN {
            match self.changes.receive() {
                Ok(None) => break,
                Ok(Some(_)) | Err(_) => changed = true,
            }
        }
        if changed {
            for number in 0..self.entries.len() as u32 {
                if !self.close_if_idle(number, ring) {
                    self.close_when_idle(number);
                }
            }
            self.forget_failures();
        }
    }

    /// The route of all datagrams for this recipient in this turn. Opens a socket if one is
    /// preferred and possible now.
    pub(super) fn route(
        &mut self,
        destination: &SocketAddr,
        preference: SocketPreference,
        ring: &Ring,
    ) -> Route {
        self.now += 1;
        // With more recipients than sockets, sockets would be evicted before they are used again:
        // sending to part of a thousand by sockets that are cold by then took 1096 ns a datagram,
        // to all by one 980.
        let is_crowded = self.now < self.crowded_until;
        let preference = match preference {
            SocketPreference::Own if is_crowded => SocketPreference::Either,
            preference => preference,
        };
        if self.in_use == 0 && preference != SocketPreference::Own {
            return Route::Caller;
        }
        let Some(number) = self.find(destination) else {
            return match preference {
                SocketPreference::Own => self.open_for(destination, ring).map_or(Route::Caller, Route::Own),
                SocketPreference::Either | SocketPreference::Caller => Route::Caller,
            };
        };
        let Some(Some(entry)) = self.entries.get_mut(number as usize) else { return Route::Caller };
        self.latest = number as usize;
        entry.used_at = self.now;
        match (entry.state, preference) {
            (EntryState::InUse, SocketPreference::Own | SocketPreference::Either) if !is_crowded => {
                Route::Own(number)
            }
            // To the caller's socket as soon as the order allows; until then its own is used.
            (EntryState::InUse, _) if entry.is_idle() => {
                entry.state = EntryState::Parked;
                self.in_use -= 1;
                Route::Caller
            }
            (EntryState::InUse, SocketPreference::Caller) => Route::Blocked,
            (EntryState::InUse, _) => Route::Own(number),
            // Back to its own socket, once nothing is left in the caller's.
            (EntryState::Parked, SocketPreference::Own) => {
                let template = &self.template;
                if !*self.caller_is_idle.get_or_insert_with(|| template.caller_is_idle()) {
                    return Route::Caller;
                }
                entry.state = EntryState::InUse;
                self.in_use += 1;
                Route::Own(number)
            }
            (EntryState::Parked, _) => Route::Caller,
            (EntryState::Closing, _) => {
                let key = PeerKey::from(entry.destination);
                if !self.close_if_idle(number, ring) {
                    return Route::Blocked;
                }
                self.remember(key, PeerState::RetryAt(self.now + RETRY_AFTER));
                Route::Caller
            }
        }
    }

    /// The socket of an entry that [`Self::route`] has named in this turn.
    pub(super) fn socket(&mut self, number: u32) -> Option<&mut mmsg::Socket> {
        self.entries.get_mut(number as usize)?.as_mut().map(|entry| &mut entry.socket)
    }

    /// From now on the recipient is blocked until the socket can be closed.
    pub(super) fn close_when_idle(&mut self, number: u32) {
        if let Some(Some(entry)) = self.entries.get_mut(number as usize)
            && entry.state == EntryState::InUse
        {
            entry.state = EntryState::Closing;
        }
    }

    fn find(&mut self, destination: &SocketAddr) -> Option<u32> {
        let next = self.latest + 1;
        match self.entries.get(next) {
            Some(Some(entry)) if entry.destination == *destination => Some(next as u32),
            _ => match self.by_peer.get(PeerKey::from(*destination))? {
                PeerState::Entry(number) => Some(*number),
                PeerState::RetryAt(_) => None,
            },
        }
    }

    /// Opens a socket for a recipient that has none, if that is possible in this turn.
    fn open_for(&mut self, destination: &SocketAddr, ring: &Ring) -> Option<u32> {
        if !self.template.suits(destination) {
            return None;
        }
        let key = PeerKey::from(*destination);
        if matches!(self.by_peer.get(key), Some(&PeerState::RetryAt(time)) if self.now < time) {
            return None;
        }
        let template = &self.template;
        if self.opens_left == 0 || !*self.caller_is_idle.get_or_insert_with(|| template.caller_is_idle()) {
            return None;
        }
        self.opens_left -= 1;
        let number = self.open_entry(destination, ring);
        let state = number.map_or(PeerState::RetryAt(self.now + RETRY_AFTER), PeerState::Entry);
        self.remember(key, state);
        number
    }

    fn open_entry(&mut self, destination: &SocketAddr, ring: &Ring) -> Option<u32> {
        let Some(number) = self.free.pop().or_else(|| self.evict(ring)) else {
            self.crowded_until = self.now + RETRY_AFTER;
            return None;
        };
        let opened = self.template.connect(destination).and_then(|socket| {
            ring.set_socket(number, Some(socket.as_fd()))?;
            Ok(socket)
        });
        let Ok(socket) = opened else {
            self.free.push(number);
            return None;
        };
        if self.entries.len() <= number as usize {
            self.entries.resize_with(number as usize + 1, || None);
        }
        self.entries[number as usize] = Some(PoolEntry {
            destination: *destination,
            used_at: self.now,
            state: EntryState::InUse,
            socket: mmsg::Socket::connected(socket.into()),
        });
        self.in_use += 1;
        self.latest = number as usize;
        Some(number)
    }

    /// Frees the entry of a recipient that nothing was sent to for long. Looks at a few entries a
    /// call, so that a full pool costs next to nothing.
    fn evict(&mut self, ring: &Ring) -> Option<u32> {
        let idle_since = self.now.saturating_sub(self.entries.len() as u64 * IDLE_ROUNDS);
        for _ in 0..PROBES.min(self.entries.len()) {
            self.hand = (self.hand + 1) % self.entries.len();
            let Some(entry) = &self.entries[self.hand] else { continue };
            if entry.used_at <= idle_since && self.close_if_idle(self.hand as u32, ring) {
                return self.free.pop();
            }
        }
        None
    }

    /// Closes a socket if nothing is in flight on it, and says whether it is closed.
    fn close_if_idle(&mut self, number: u32, ring: &Ring) -> bool {
        let Some(entry) = self.entries[number as usize].take_if(|entry| entry.is_idle()) else {
            return self.entries[number as usize].is_none();
        };
        self.in_use -= usize::from(entry.state != EntryState::Parked);
        self.by_peer.remove(PeerKey::from(entry.destination));
        // Cannot fail for an existing number; the table would only keep the socket open until the
        // next one takes the number.
        let _ = ring.set_socket(number, None);
        self.free.push(number);
        true
    }

    /// A full table forgets the peers that could not get a socket, which costs another attempt
    /// each.
    fn remember(&mut self, key: PeerKey, state: PeerState) {
        if self.by_peer.insert(key, state).is_err() {
            self.forget_failures();
            // There is room for twice as many peers as entries.
            let _ = self.by_peer.insert(key, state);
        }
    }

    fn forget_failures(&mut self) {
        let failed = |(key, state): (PeerKey, &PeerState)| match state {
            PeerState::Entry(_) => None,
            PeerState::RetryAt(_) => Some(key),
        };
        let forgotten: Vec<PeerKey> = self.by_peer.iter().filter_map(failed).collect();
        for key in forgotten {
            self.by_peer.remove(key);
        }
    }
}

impl PoolEntry {
    /// Whether the kernel holds no datagram of its socket. A parked one has not been used since it
    /// was idle.
    fn is_idle(&self) -> bool {
        self.state == EntryState::Parked || bytes_in_flight(self.socket.as_fd()).is_ok_and(|bytes| bytes == 0)
    }
}

/// The limit of sockets: the configured one, and at most half of the process's descriptors.
pub(super) fn sockets_max(configured: u32) -> Result<u32, String> {
    let (descriptors, _) =
        getrlimit(Resource::RLIMIT_NOFILE).map_err(|error| format!("getrlimit: {error}"))?;
    match configured.min(u32::try_from(descriptors / 2).unwrap_or(u32::MAX)).min(REGISTERED_MAX) {
        0 => Err("no socket may be opened: IoUringConfig::sockets_max or RLIMIT_NOFILE".to_owned()),
        sockets_max => Ok(sockets_max),
    }
}

/// Groups of the route socket (linux/rtnetlink.h): links, addresses, routes, rules and next hops
/// of both families.
const CHANGES: [i32; 8] = [1, 5, 7, 8, 9, 11, 19, 32];

/// Notices of changes read in one call of the back end, at most.
const NOTICES_PER_TURN: usize = 64;

/// Sockets opened in one call of the back end, at most: each takes about 15 us, so a new group of
/// 1000 would otherwise delay a turn by 15 ms.
const OPENS_PER_TURN: u32 = 8;

/// A recipient keeps its socket until this many times as many sends as there are sockets have
/// passed without one for it.
const IDLE_ROUNDS: u64 = 16;

/// Entries considered for eviction at a time.
const PROBES: usize = 32;

/// Sends, to all recipients together, after which a failed attempt is repeated.
const RETRY_AFTER: u64 = 1 << 16;

/// Registered files of a ring, at most (`IORING_MAX_FIXED_FILES`), halved for the table that refers
/// to them.
const REGISTERED_MAX: u32 = 1 << 19;
