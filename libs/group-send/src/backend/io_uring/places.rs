//! The connected sockets of the `io_uring` back end: one for each recipient, up to a limit, and which of them are used.
//!
//! **Order.** What a socket holds leaves by the queue that the socket's hash chose, so datagrams of a recipient keep their
//! order only on one socket. A recipient therefore changes between the caller's socket and its own only when the kernel
//! holds nothing of the one it leaves (`SIOCOUTQ`): for its own it waits for a moment when the caller's is idle, and it
//! goes back, for want of sockets or because its own is of no use any more, when its own is.
//!
//! A socket's source address is the one that was right when it was connected: whenever routes, addresses or interfaces
//! change, all of them are closed and opened anew. How they are made is in `template.rs`.

use super::template::Template;
use crate::backend::mmsg;
use crate::linux::bytes_under_way;
use crate::linux::uring::Ring;
use crate::netlink::socket::NetlinkSocket;
use crate::peer_table::{PeerKey, PeerTable};
use nix::sys::resource::{Resource, getrlimit};
use socket2::SockRef;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

/// How datagrams go to a recipient now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Through its own socket, which is this one.
    Own(u32),
    /// Through the caller's.
    Caller,
    /// Not yet: its own shall not be used any more, and still holds some.
    Wait,
}

/// What is to be sent to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// What an own socket would be good for: it gets one if that is possible now.
    Own,
    /// What either socket takes.
    Either,
    /// What only the caller's takes.
    Caller,
}

/// The sockets, by recipient.
pub(super) struct Places {
    template: Template,
    /// By number in the ring's table.
    places: Vec<Option<Place>>,
    free: Vec<u32>,
    by_peer: PeerTable<Standing>,
    /// Places that are not parked.
    in_use: usize,
    /// Tells of changes that may give a recipient another source address.
    changes: NetlinkSocket,
    /// Counts recipients sent to: what age is measured in, since this crate has no clock.
    now: u64,
    /// Sockets that may still be opened in this turn.
    opens_left: u32,
    /// Whether the kernel held nothing of the caller's socket in this turn, if that was asked.
    caller_is_idle: Option<bool>,
    /// No socket is used before this time, because there were recipients for whom there was none to have.
    crowded_until: u64,
    /// The place that the last look-up found. Groups are sent to in the same order again and again.
    latest: usize,
    /// The next place to be asked whether it may be given to somebody else.
    hand: usize,
}

struct Place {
    destination: SocketAddr,
    used_at: u64,
    state: State,
    /// The ring's table holds it as well.
    socket: mmsg::Socket,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The recipient's datagrams go through it.
    InUse,
    /// They go through the caller's, and nothing is under way here.
    Parked,
    /// To be closed as soon as nothing is under way.
    Condemned,
}

/// What a recipient has.
#[derive(Clone, Copy)]
enum Standing {
    Place(u32),
    /// None before this time: one could not be opened, or was of no use.
    NotBefore(u64),
}

impl Places {
    /// Up to `sockets_max` sockets beside `caller`, or why there can be none.
    pub(super) fn open(caller: &SockRef<'_>, sockets_max: u32) -> Result<Self, String> {
        let failed = |error: io::Error| format!("changes of routes cannot be heard of: {error}");
        Ok(Self {
            template: Template::new(caller)?,
            changes: NetlinkSocket::subscribed(&CHANGES).map_err(failed)?,
            places: Vec::new(),
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

    /// Whether anybody's way may be another one than the caller's socket.
    pub(super) fn are_in_use(&self) -> bool {
        self.in_use > 0
    }

    /// Begins another call of the back end, before anything is sent. Costs a system call, 100 ns.
    pub(super) fn begin_turn(&mut self, ring: &Ring) {
        self.opens_left = OPENS_A_TURN;
        self.caller_is_idle = None;
        if self.has_changed() {
            for number in 0..self.places.len() as u32 {
                if !self.vacate(number, ring) {
                    self.condemn(number);
                }
            }
            self.forget_failures();
        }
    }

    /// Reads what there is, a bounded number; what is lost or cannot be read is a change as well.
    fn has_changed(&mut self) -> bool {
        let mut changed = false;
        for _ in 0..CHANGES_A_TURN {
            match self.changes.receive() {
                Ok(None) => break,
                Ok(Some(_)) | Err(_) => changed = true,
            }
        }
        changed
    }

    /// How the recipient's datagrams of this turn go, all of them. A socket is opened if one is wished for and possible
    /// now. None is used by anybody for long while there are more recipients than sockets: a part of a thousand by sockets
    /// that are cold by then took 1096 ns a datagram, all by one socket 980.
    pub(super) fn way(&mut self, destination: &SocketAddr, wish: Wish, ring: &Ring) -> Way {
        self.now += 1;
        let is_crowded = self.now < self.crowded_until;
        let wish = if is_crowded && wish == Wish::Own { Wish::Either } else { wish };
        if self.in_use == 0 && wish != Wish::Own {
            return Way::Caller;
        }
        let Some(number) = self.find(destination) else {
            return match wish {
                Wish::Own => self.open_for(destination, ring).map_or(Way::Caller, Way::Own),
                Wish::Either | Wish::Caller => Way::Caller,
            };
        };
        let Some(Some(place)) = self.places.get_mut(number as usize) else { return Way::Caller };
        self.latest = number as usize;
        place.used_at = self.now;
        match (place.state, wish) {
            (State::InUse, Wish::Own | Wish::Either) if !is_crowded => Way::Own(number),
            (State::InUse, _) => self.park(number, wish),
            (State::Parked, Wish::Own) => self.go_back_to(number),
            (State::Parked, _) => Way::Caller,
            (State::Condemned, _) => self.close(number, ring),
        }
    }

    /// The socket of a place that [`Self::way`] has named in this turn.
    pub(super) fn socket(&mut self, number: u32) -> Option<&mut mmsg::Socket> {
        self.places.get_mut(number as usize)?.as_mut().map(|place| &mut place.socket)
    }

    fn find(&mut self, destination: &SocketAddr) -> Option<u32> {
        let next = self.latest + 1;
        match self.places.get(next) {
            Some(Some(place)) if place.destination == *destination => Some(next as u32),
            _ => match self.by_peer.get(PeerKey::from(*destination))? {
                Standing::Place(number) => Some(*number),
                Standing::NotBefore(_) => None,
            },
        }
    }

    /// To the caller's socket, whenever that is possible; until then its own goes on if it can.
    fn park(&mut self, number: u32, wish: Wish) -> Way {
        match &mut self.places[number as usize] {
            Some(place) if place.is_idle() => {
                place.state = State::Parked;
                self.in_use -= 1;
                Way::Caller
            }
            _ if wish == Wish::Caller => Way::Wait,
            _ => Way::Own(number),
        }
    }

    fn go_back_to(&mut self, number: u32) -> Way {
        if !self.caller_is_idle() {
            return Way::Caller;
        }
        if let Some(place) = &mut self.places[number as usize] {
            place.state = State::InUse;
            self.in_use += 1;
        }
        Way::Own(number)
    }

    fn caller_is_idle(&mut self) -> bool {
        *self.caller_is_idle.get_or_insert_with(|| self.template.caller_is_idle())
    }

    fn open_for(&mut self, destination: &SocketAddr, ring: &Ring) -> Option<u32> {
        if !self.template.suits(destination) {
            return None;
        }
        let key = PeerKey::from(*destination);
        if matches!(self.by_peer.get(key), Some(&Standing::NotBefore(time)) if self.now < time) {
            return None;
        }
        if self.opens_left == 0 || !self.caller_is_idle() {
            return None;
        }
        self.opens_left -= 1;
        let number = self.open_place(destination, ring);
        let standing = number.map_or(Standing::NotBefore(self.now + RETRY_AFTER), Standing::Place);
        self.remember(key, standing);
        number
    }

    fn open_place(&mut self, destination: &SocketAddr, ring: &Ring) -> Option<u32> {
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
        if self.places.len() <= number as usize {
            self.places.resize_with(number as usize + 1, || None);
        }
        let socket = mmsg::Socket::connected(socket.into());
        let place = Place { destination: *destination, used_at: self.now, state: State::InUse, socket };
        self.places[number as usize] = Some(place);
        self.in_use += 1;
        self.latest = number as usize;
        Some(number)
    }

    /// Takes the place of a recipient that has not been sent to for long. Looks at a few places a call, so that a full
    /// table costs nothing to speak of.
    fn evict(&mut self, ring: &Ring) -> Option<u32> {
        let idle_since = self.now.saturating_sub(self.places.len() as u64 * IDLE_ROUNDS);
        for _ in 0..PROBES.min(self.places.len()) {
            self.hand = (self.hand + 1) % self.places.len();
            let Some(place) = &self.places[self.hand] else { continue };
            if place.used_at <= idle_since && self.vacate(self.hand as u32, ring) {
                return self.free.pop();
            }
        }
        None
    }

    /// From now on the recipient waits until the socket may be closed.
    pub(super) fn condemn(&mut self, number: u32) {
        if let Some(Some(place)) = self.places.get_mut(number as usize)
            && place.state == State::InUse
        {
            place.state = State::Condemned;
        }
    }

    /// Closes a socket that is of no use any more. Its recipient gets another one after a while.
    fn close(&mut self, number: u32, ring: &Ring) -> Way {
        let key = self.places[number as usize].as_ref().map(|place| PeerKey::from(place.destination));
        if !self.vacate(number, ring) {
            return Way::Wait;
        }
        if let Some(key) = key {
            self.remember(key, Standing::NotBefore(self.now + RETRY_AFTER));
        }
        Way::Caller
    }

    /// Closes a socket if nothing is under way there, and says whether that is so.
    fn vacate(&mut self, number: u32, ring: &Ring) -> bool {
        let Some(place) = self.places[number as usize].take_if(|place| place.is_idle()) else {
            return self.places[number as usize].is_none();
        };
        self.in_use -= usize::from(place.state != State::Parked);
        self.by_peer.remove(PeerKey::from(place.destination));
        // Cannot fail for a place that there is; the table would keep the socket open until somebody else's comes.
        let _ = ring.set_socket(number, None);
        self.free.push(number);
        true
    }

    /// A full table forgets who could not have a socket, which costs them another attempt.
    fn remember(&mut self, key: PeerKey, standing: Standing) {
        if self.by_peer.insert(key, standing).is_err() {
            self.forget_failures();
            // There are twice as many entries as places.
            let _ = self.by_peer.insert(key, standing);
        }
    }

    fn forget_failures(&mut self) {
        let failed = |(key, standing): (PeerKey, &Standing)| match standing {
            Standing::Place(_) => None,
            Standing::NotBefore(_) => Some(key),
        };
        let forgotten: Vec<PeerKey> = self.by_peer.iter().filter_map(failed).collect();
        for key in forgotten {
            self.by_peer.remove(key);
        }
    }
}

impl Place {
    /// Whether the kernel holds no datagram of its socket. A parked one has not been used since it was.
    fn is_idle(&self) -> bool {
        self.state == State::Parked || bytes_under_way(self.socket.as_fd()).is_ok_and(|bytes| bytes == 0)
    }
}

/// How many sockets there may be: what is wished for, and no more than half of the process's descriptors.
pub(super) fn sockets_max(wished: u32) -> Result<u32, String> {
    let (descriptors, _) =
        getrlimit(Resource::RLIMIT_NOFILE).map_err(|error| format!("getrlimit: {error}"))?;
    match wished.min(u32::try_from(descriptors / 2).unwrap_or(u32::MAX)).min(REGISTERED_MAX) {
        0 => Err("no socket may be opened: IoUringConfig::sockets_max or RLIMIT_NOFILE".to_owned()),
        sockets_max => Ok(sockets_max),
    }
}

/// Groups of the route socket (linux/rtnetlink.h): links, addresses, routes, rules and next hops of both families.
const CHANGES: [i32; 8] = [1, 5, 7, 8, 9, 11, 19, 32];

/// Notices of changes read in one call of the back end, at most.
const CHANGES_A_TURN: usize = 64;

/// Sockets opened in one call of the back end, at most: each takes about 15 us, so that a new group of 1000 does not
/// hold up a turn by 15 ms.
const OPENS_A_TURN: u32 = 8;

/// A recipient keeps its socket until so many times as many sends as there are sockets have passed without one for it.
const IDLE_ROUNDS: u64 = 16;

/// Places that are asked at a time whether they may be given to somebody else.
const PROBES: usize = 32;

/// Sends to all recipients together after which is tried again what was not to be had.
const RETRY_AFTER: u64 = 1 << 16;

/// Registered files of a ring, at most (`IORING_MAX_FIXED_FILES`), halved for the table that refers to them.
const REGISTERED_MAX: u32 = 1 << 19;
