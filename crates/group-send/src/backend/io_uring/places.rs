//! The connected sockets of the `io_uring` back end: one for each recipient, up to a limit.
//!
//! **They send as the caller's socket does and receive nothing.** A connected socket that is bound to the caller's own
//! address would take its peer's answers away from the caller. These are bound to the caller's port of a multicast
//! address that belongs to nobody: the kernel then uses the address for receiving only, where nothing matches it, and
//! gives what is sent the source address of the route (`inet_saddr` and `inet_rcv_saddr`, net/ipv4/af_inet.c and
//! net/ipv6/af_inet6.c). Beside a socket at the wildcard address that takes `SO_REUSEPORT` on both.
//!
//! A socket costs memory of the kernel and a descriptor, and nothing when datagrams arrive: it is in none of the lists
//! that the kernel searches then. Its source address is the one that was right when it was connected: whenever routes,
//! addresses or interfaces change, all of them are closed and opened anew.

use crate::linux::uring::Ring;
use crate::linux::{self, Family};
use crate::netlink::socket::NetlinkSocket;
use crate::peer_table::{PeerKey, PeerTable};
use nix::sys::resource::{Resource, getrlimit};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;

/// The sockets, by recipient.
pub(super) struct Places {
    template: Template,
    /// By number in the ring's table.
    places: Vec<Option<Place>>,
    free: Vec<u32>,
    by_peer: PeerTable<Standing>,
    /// Tells of changes that may give a recipient another source address.
    changes: NetlinkSocket,
    /// Counts recipients sent to: what age is measured in, since this crate has no clock.
    now: u64,
    /// Sockets that may still be opened in this turn.
    opens_left: u32,
    /// No socket is used before this time, because there were recipients for whom there was none to have.
    crowded_until: u64,
    /// The place that the last look-up found. Groups are sent to in the same order again and again.
    latest: usize,
    /// The next place to be asked whether it may be given to somebody else.
    hand: usize,
}

/// What new sockets are made like.
struct Template {
    caller: Socket,
    local: SocketAddr,
    family: Family,
    device: Option<Vec<u8>>,
}

struct Place {
    destination: SocketAddr,
    used_at: u64,
    /// The ring's table holds it as well.
    _socket: Socket,
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
            now: 0,
            opens_left: 0,
            crowded_until: 0,
            latest: 0,
            hand: 0,
        })
    }

    /// Begins another call of the back end. Costs a system call, 100 ns.
    pub(super) fn begin_turn(&mut self, ring: &Ring) {
        self.opens_left = OPENS_A_TURN;
        if self.has_changed() {
            for number in 0..self.places.len() as u32 {
                self.vacate(number, ring);
            }
            self.by_peer.clear();
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

    /// The number of the recipient's socket, which is opened if that is possible now. None for anybody while there are
    /// more recipients than sockets: a part of a thousand by sockets that are cold by then took 1096 ns a datagram, all
    /// by one socket 980.
    pub(super) fn find_or_open(&mut self, destination: &SocketAddr, ring: &Ring) -> Option<u32> {
        self.now += 1;
        if self.now < self.crowded_until {
            return None;
        }
        let next = self.latest + 1;
        let place = match self.places.get(next) {
            Some(Some(place)) if place.destination == *destination => next,
            _ => self.look_up(destination, ring)?,
        };
        self.latest = place;
        self.places[place].as_mut()?.used_at = self.now;
        Some(place as u32)
    }

    fn look_up(&mut self, destination: &SocketAddr, ring: &Ring) -> Option<usize> {
        if !self.template.suits(destination) {
            return None;
        }
        let key = PeerKey::from(*destination);
        match self.by_peer.get(key) {
            Some(&Standing::Place(place)) => Some(place as usize),
            Some(&Standing::NotBefore(time)) if self.now < time => None,
            _ if self.opens_left == 0 => None,
            _ => {
                self.opens_left -= 1;
                let place = self.open_place(destination, ring);
                let standing = place.map_or(Standing::NotBefore(self.now + RETRY_AFTER), Standing::Place);
                self.remember(key, standing);
                place.map(|place| place as usize)
            }
        }
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
        let Ok(_socket) = opened else {
            self.free.push(number);
            return None;
        };
        if self.places.len() <= number as usize {
            self.places.resize_with(number as usize + 1, || None);
        }
        self.places[number as usize] = Some(Place { destination: *destination, used_at: self.now, _socket });
        Some(number)
    }

    /// Takes the place of a recipient that has not been sent to for long. Looks at a few places a call, so that a full
    /// table costs nothing to speak of.
    fn evict(&mut self, ring: &Ring) -> Option<u32> {
        let idle_since = self.now.saturating_sub(self.places.len() as u64 * IDLE_ROUNDS);
        for _ in 0..PROBES.min(self.places.len()) {
            self.hand = (self.hand + 1) % self.places.len();
            let Some(place) = &self.places[self.hand] else { continue };
            if place.used_at <= idle_since {
                self.by_peer.remove(PeerKey::from(place.destination));
                self.vacate(self.hand as u32, ring);
                return self.free.pop();
            }
        }
        None
    }

    /// Closes a socket that is of no use any more. Its recipient gets another one after a while.
    pub(super) fn close(&mut self, number: u32, ring: &Ring) {
        if let Some(Some(place)) = self.places.get(number as usize) {
            let key = PeerKey::from(place.destination);
            self.vacate(number, ring);
            self.remember(key, Standing::NotBefore(self.now + RETRY_AFTER));
        }
    }

    fn vacate(&mut self, number: u32, ring: &Ring) {
        if self.places[number as usize].take().is_none() {
            return;
        }
        // Cannot fail for a place that there is; the table would keep the socket open until somebody else's comes.
        let _ = ring.set_socket(number, None);
        self.free.push(number);
    }

    /// A full table forgets who could not have a socket, which costs them another attempt.
    fn remember(&mut self, key: PeerKey, standing: Standing) {
        if self.by_peer.insert(key, standing).is_ok() {
            return;
        }
        let failed = |(key, standing): (PeerKey, &Standing)| match standing {
            Standing::Place(_) => None,
            Standing::NotBefore(_) => Some(key),
        };
        let forgotten: Vec<PeerKey> = self.by_peer.iter().filter_map(failed).collect();
        for key in forgotten {
            self.by_peer.remove(key);
        }
        // There are twice as many entries as places.
        let _ = self.by_peer.insert(key, standing);
    }
}

impl Template {
    fn new(caller: &SockRef<'_>) -> Result<Self, String> {
        let failed = |error: io::Error| format!("the socket cannot be asked: {error}");
        let local = caller.local_addr().map_err(failed)?.as_socket();
        let Some(local) = local.filter(|local| local.port() != 0) else {
            return Err("the socket is not bound to a port yet".to_owned());
        };
        let family = linux::family(caller).map_err(failed)?;
        let device = caller.device().map_err(failed)?;
        let template = Self { caller: caller.try_clone().map_err(failed)?, local, family, device };
        let probe = if family == Family::V4 { Domain::IPV4 } else { Domain::IPV6 };
        match template.bind(probe) {
            Ok(_) => Ok(template),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(NOT_SHARED.to_owned()),
            Err(error) => Err(format!("no second socket can have the socket's port: {error}")),
        }
    }

    /// Whether a socket connected to this address does what one that is not would do. `connect` takes port 0, and fixes
    /// a flow label; multicast has options of its own.
    fn suits(&self, destination: &SocketAddr) -> bool {
        let ip = destination.ip().to_canonical();
        let label = match destination {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(v6) => v6.flowinfo(),
        };
        self.family.reaches(destination)
            && label == 0
            && destination.port() != 0
            && !ip.is_multicast()
            && !ip.is_unspecified()
    }

    /// A socket like the caller's that only sends.
    fn bind(&self, domain: Domain) -> io::Result<Socket> {
        let socket = self.like_callers(domain)?;
        socket.set_reuse_port(true)?;
        let nobody = if domain == Domain::IPV4 { NOBODY_V4 } else { NOBODY_V6 };
        socket.bind(&SocketAddr::new(nobody, self.local.port()).into())?;
        Ok(socket)
    }

    fn like_callers(&self, domain: Domain) -> io::Result<Socket> {
        let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
        // A socket is of the namespace of the thread that makes it.
        if !linux::same_namespace(socket.as_fd(), self.caller.as_fd()) {
            return Err(io::Error::other("this thread is in another network namespace"));
        }
        if domain == Domain::IPV6 {
            socket.set_only_v6(true)?;
        }
        if let Some(device) = &self.device {
            socket.bind_device(Some(device))?;
        }
        linux::uring::copy_options(self.caller.as_fd(), socket.as_fd())?;
        Ok(socket)
    }

    fn connect(&self, destination: &SocketAddr) -> io::Result<Socket> {
        let ip = destination.ip().to_canonical();
        let domain = if ip.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
        let destination = if ip.is_ipv4() { SocketAddr::new(ip, destination.port()) } else { *destination };
        let own = self.local.ip().to_canonical();
        if !own.is_unspecified() && self.source(domain, destination)? != own {
            return Err(io::Error::other("the route's source address is not the one the socket is bound to"));
        }
        let socket = self.bind(domain)?;
        socket.connect(&destination.into())?;
        Ok(socket)
    }

    /// The source address of the route, which a connected socket has that is not bound.
    fn source(&self, domain: Domain, destination: SocketAddr) -> io::Result<IpAddr> {
        let socket = self.like_callers(domain)?;
        socket.connect(&destination.into())?;
        let local = socket.local_addr()?.as_socket();
        local.map(|local| local.ip()).ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
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

const NOT_SHARED: &str = "no second socket can have the socket's port: SO_REUSEPORT is not set on it";

/// Guaranteed not to be assigned to any group (RFC 1112 section 4).
const NOBODY_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(224, 0, 0, 0));

/// Reserved, and never to be assigned to any group (RFC 4291 section 2.7.1).
const NOBODY_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xff0e, 0, 0, 0, 0, 0, 0, 0));

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
