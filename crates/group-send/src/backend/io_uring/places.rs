//! The connected sockets of the `io_uring` back end: one for each recipient, up to a limit, and what is read from them.
//!
//! A socket is bound to the caller's own address and port, so that a peer sees one sender; that takes `SO_REUSEPORT`
//! on the caller's socket, which the caller has to want (any process of the same user may then bind there), so it is
//! not set here. The kernel delivers a peer's datagrams to the socket connected to it. Between `bind` and `connect` a
//! datagram of anybody may get into one: they are not lost, and [`Answers`] gives each with its true source.

use crate::error::SendError;
use crate::linux::{self, Family};
use crate::linux_uring::{self, Ring};
use crate::peer_table::{PeerKey, PeerTable};
use crate::socket;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::resource::{Resource, getrlimit};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

/// What peers have sent back to the connected sockets of a sender that uses `io_uring`, from
/// [`Sender::answers`](crate::Sender::answers).
///
/// **Whoever expects answers must read them here as well as from their own socket**: a recipient's datagrams arrive
/// here once it has a connected socket. As a descriptor it is readable when there is something: add it to `epoll` or
/// `poll` (level-triggered), and call [`Answers::for_each_ready`] then.
pub struct Answers<'a> {
    places: &'a mut Places,
}

impl Answers<'_> {
    /// Looks at up to 64 sockets that have something, and returns at how many; calls `receive` for those that have
    /// datagrams. Each is to be read until it would block or as far as the caller likes, with
    /// [`RecvBatch`](crate::RecvBatch) for example; what remains is there the next time. They are non-blocking. Look at
    /// the source of each datagram: it need not be the peer. Errors that came back are not for the reader: they fail
    /// the recipient's next datagram.
    ///
    /// # Errors
    /// Of `epoll_wait(2)`.
    pub fn for_each_ready(&mut self, mut receive: impl FnMut(BorrowedFd<'_>)) -> io::Result<usize> {
        let mut events = [EpollEvent::empty(); READY_MAX];
        let ready = self.places.epoll.wait(&mut events, EpollTimeout::ZERO)?;
        for event in &events[..ready] {
            let Some(Some(place)) = self.places.places.get_mut(event.data() as usize) else { continue };
            if event.events().contains(EpollFlags::EPOLLERR) {
                place.error = place.drain_errors().or(place.error);
            }
            if event.events().contains(EpollFlags::EPOLLIN) {
                receive(place.socket.as_fd());
            }
        }
        Ok(ready)
    }
}

impl AsFd for Answers<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.places.epoll.0.as_fd()
    }
}

/// The sockets, by recipient.
pub(super) struct Places {
    template: Template,
    /// By number in the ring's table.
    places: Vec<Option<Place>>,
    free: Vec<u32>,
    by_peer: PeerTable<Standing>,
    epoll: Epoll,
    /// Counts recipients sent to: what age is measured in, since this crate has no clock.
    now: u64,
    /// Sockets that may still be opened in this turn.
    opens_left: u32,
    /// The place that the last look-up found. Groups are sent to in the same order again and again.
    latest: usize,
    /// The next place to be asked whether it may be given to somebody else.
    hand: usize,
}

/// What new sockets are made like.
struct Template {
    caller: Socket,
    local: SockAddr,
    family: Family,
    device: Option<Vec<u8>>,
}

struct Place {
    destination: SocketAddr,
    socket: Socket,
    used_at: u64,
    /// Came back for an earlier datagram, and fails the next one.
    error: Option<SendError>,
}

impl Place {
    /// Takes the errors that came back, of which the latest is told.
    fn drain_errors(&self) -> Option<SendError> {
        let mut latest = None;
        socket::drain_errors(self.socket.as_fd(), |_, error| latest = Some(error));
        let pending = self.socket.take_error().ok().flatten();
        latest.or_else(|| pending?.raw_os_error().map(SendError::from_errno))
    }
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
        let template = Template::new(caller)?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(|error| format!("epoll: {error}"))?;
        Ok(Self {
            template,
            places: Vec::new(),
            free: (0..sockets_max).rev().collect(),
            by_peer: PeerTable::new(2 * sockets_max as usize),
            epoll,
            now: 0,
            opens_left: 0,
            latest: 0,
            hand: 0,
        })
    }

    /// Begins another call of the back end.
    pub(super) fn begin_turn(&mut self) {
        self.opens_left = OPENS_A_TURN;
    }

    /// The number of the recipient's socket, which is opened if that is possible now.
    pub(super) fn find_or_open(&mut self, destination: &SocketAddr, ring: &Ring) -> Option<u32> {
        self.now += 1;
        let next = self.latest + 1;
        let place = match self.places.get_mut(next) {
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
        let number = self.free.pop().or_else(|| self.evict(ring))?;
        let opened = self.template.connect(destination).and_then(|socket| {
            self.epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, u64::from(number)))?;
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
        self.places[number as usize] =
            Some(Place { destination: *destination, socket, used_at: self.now, error: None });
        Some(number)
    }

    /// Takes the place of a recipient that has not been sent to for long and has nothing unread. Looks at a few places
    /// a call, so that a full table costs nothing to speak of.
    fn evict(&mut self, ring: &Ring) -> Option<u32> {
        let idle_since = self.now.saturating_sub(self.places.len() as u64 * IDLE_ROUNDS);
        for _ in 0..PROBES.min(self.places.len()) {
            self.hand = (self.hand + 1) % self.places.len();
            let Some(place) = &self.places[self.hand] else { continue };
            if place.used_at <= idle_since && !has_unread(&place.socket) {
                self.by_peer.remove(PeerKey::from(place.destination));
                self.vacate(self.hand as u32, ring);
                return self.free.pop();
            }
        }
        None
    }

    /// The error that came back for an earlier datagram of a place's recipient, if any. It is told once.
    pub(super) fn take_error(&mut self, number: u32) -> Option<SendError> {
        self.places[number as usize].as_mut()?.error.take()
    }

    /// The same, after a send has failed by `errno`, which may be such an error.
    pub(super) fn error_behind(&mut self, number: u32, errno: i32) -> Option<SendError> {
        let place = self.places[number as usize].as_ref()?;
        place.drain_errors().or((errno == libc::ECONNREFUSED).then_some(SendError::Refused))
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
        if let Some(place) = self.places[number as usize].take() {
            // Neither can fail for a socket that was put there; without them the table would keep it open.
            let _ = self.epoll.delete(&place.socket);
            let _ = ring.set_socket(number, None);
            self.free.push(number);
        }
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

    pub(super) fn answers(&mut self) -> Answers<'_> {
        Answers { places: self }
    }
}

impl Template {
    fn new(caller: &SockRef<'_>) -> Result<Self, String> {
        let failed = |error: io::Error| format!("the socket cannot be asked: {error}");
        let local = caller.local_addr().map_err(failed)?;
        if local.as_socket().is_none_or(|local| local.port() == 0) {
            return Err("the socket is not bound to a port yet".to_owned());
        }
        if !caller.reuse_port().map_err(failed)? {
            return Err(
                "the sockets of recipients must share the socket's port, and SO_REUSEPORT is not set"
                    .to_owned(),
            );
        }
        let template = Self {
            caller: caller.try_clone().map_err(failed)?,
            local,
            family: linux::family(caller).map_err(failed)?,
            device: caller.device().map_err(failed)?,
        };
        template.bind().map_err(|error| format!("no second socket can have the socket's port: {error}"))?;
        Ok(template)
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

    fn bind(&self) -> io::Result<Socket> {
        let domain = if self.family == Family::V4 { Domain::IPV4 } else { Domain::IPV6 };
        let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
        // A socket is of the namespace of the thread that makes it.
        if !linux::same_namespace(socket.as_fd(), self.caller.as_fd()) {
            return Err(io::Error::other("this thread is in another network namespace"));
        }
        socket.set_nonblocking(true)?;
        socket.set_reuse_port(true)?;
        if domain == Domain::IPV6 {
            socket.set_only_v6(self.family == Family::V6Only)?;
        }
        if let Some(device) = &self.device {
            socket.bind_device(Some(device))?;
        }
        linux_uring::copy_options(self.caller.as_fd(), socket.as_fd())?;
        socket.bind(&self.local)?;
        Ok(socket)
    }

    fn connect(&self, destination: &SocketAddr) -> io::Result<Socket> {
        let socket = self.bind()?;
        let destination = match destination {
            SocketAddr::V4(v4) if self.family == Family::Dual => {
                SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port())
            }
            other => *other,
        };
        socket.connect(&destination.into())?;
        Ok(socket)
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

fn has_unread(socket: &Socket) -> bool {
    socket.peek(&mut [MaybeUninit::uninit()]).is_ok()
}

/// Sockets opened in one call of the back end, at most: each takes about 15 us, so that a new group of 1000 does not
/// hold up a turn by 15 ms.
const OPENS_A_TURN: u32 = 8;

/// A recipient keeps its socket until so many times as many sends as there are sockets have passed without one for it.
const IDLE_ROUNDS: u64 = 16;

/// Places that are asked at a time whether they may be given to somebody else.
const PROBES: usize = 32;

/// Sends to all recipients together after which one that could not have a socket is tried again.
const RETRY_AFTER: u64 = 1 << 16;

/// Sockets that one [`Answers::for_each_ready`] hands out.
const READY_MAX: usize = 64;

/// Registered files of a ring, at most (`IORING_MAX_FIXED_FILES`), halved for the table that refers to them.
const REGISTERED_MAX: u32 = 1 << 19;
