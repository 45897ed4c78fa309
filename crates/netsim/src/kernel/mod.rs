//! The kernel of every host of a simulation: sockets, event queues and the clock, in one thread.
//!
//! Everything lives in one `Kernel` of the thread, made by [`begin`]. Sockets are handles like
//! descriptors: programs hold a [`TcpSocket`], a [`TcpListener`] or a [`UdpSocket`], put it into an
//! [`EventQueue`], and call it without ever blocking. The scheduler of the simulation moves the
//! time with [`advance_to`], learns from [`next_ready`] whose queue has something, and decides who
//! runs next.
//!
//! ```text
//! program ── write ──▶ TcpSocket ─▶ Pipe: in flight ─▶ received ──▶ read ── program
//!    ▲                                 │ arrival, room again
//!    └── EventQueue::wait ◀── report ──┘
//! ```
//!
//! What can go wrong is in [`Path`] (per client address) and [`Faults`] (of everyone). All of it
//! follows from the seed. Not simulated: routing, congestion control, fragments.
//!
//! Files are in [`disk`], which knows nothing of sockets.

pub mod disk;
#[cfg(test)]
mod disk_tests;
mod queue;
mod tcp;
mod udp;

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use crate::disk::DiskState;
use crate::{Clock, FastMap, Random};

pub use queue::{EventQueue, Interest, Ready};
pub use tcp::{TcpListener, TcpSocket};
pub use udp::{Outgoing, Received, SendFault, UdpSocket};

use queue::QueueState;
use tcp::{Connection, ListenerState};
use udp::UdpState;

/// A number of a socket; never used twice in a simulation.
pub type SocketId = u32;
/// A number of an event queue.
pub type QueueId = u32;

/// What the way between a client and the servers is like, in both directions.
#[derive(Debug, Clone)]
pub struct Path {
    /// Least delay.
    pub delay: Duration,
    /// Most that is added to it. TCP stays in order.
    pub jitter: Duration,
    /// Bits per second of TCP in each direction; `None`: any.
    pub tcp_bits_per_second: Option<u64>,
    /// Bytes of a TCP connection and direction that were written and not read yet.
    pub tcp_window_bytes: usize,
    /// Probability that a datagram is lost.
    pub loss: f64,
    /// Probability that a datagram comes twice.
    pub duplicate: f64,
    /// Probability that a datagram takes up to 50 ms longer than those behind it.
    pub reorder: f64,
    /// Probability that a byte of a datagram is changed.
    pub corrupt: f64,
    /// Datagrams arrive at multiples of this only, all together, as behind radio links; zero: at once.
    pub clump: Duration,
}

impl Default for Path {
    fn default() -> Self {
        Self {
            delay: Duration::from_millis(5),
            jitter: Duration::ZERO,
            tcp_bits_per_second: None,
            tcp_window_bytes: 256 << 10,
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            corrupt: 0.0,
            clump: Duration::ZERO,
        }
    }
}

/// What goes wrong in system calls, as probabilities of each call; all of it is allowed to.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// A read gives fewer bytes than there are.
    pub partial_read: f64,
    /// A write takes fewer bytes than there is room for.
    pub partial_write: f64,
    /// A socket is reported again although nothing has changed, or for what is not so.
    pub false_report: f64,
    /// A call is interrupted by a signal.
    pub interrupt: f64,
    /// A connection is gone before it is accepted.
    pub abort_accept: f64,
    /// A call that sends messages finds no room after some of them (`EAGAIN`).
    pub no_buffers: f64,
    /// There is no memory for a message (`ENOBUFS`).
    pub no_memory: f64,
    /// A message is refused for good (`EPERM` of a firewall).
    pub refuse_send: f64,
    /// A run of datagrams is refused, which would be taken one by one (`EIO`, `EINVAL`).
    pub refuse_run: f64,
    /// A datagram is joined with the one before it, if a kernel may do it.
    pub coalesce: f64,
    /// Messages a socket keeps while nobody reads it, each of one datagram or several that came joined;
    /// `None`: 4096.
    pub receive_queue: Option<usize>,
    /// Sockets of one server, listeners included; `None`: any number.
    pub descriptors: Option<usize>,
    /// Connections that wait for a listener at most, whatever it says (`net.core.somaxconn`). Others are
    /// asked for again, a second later and then ever later.
    pub backlog: Option<usize>,
    /// A [`ring`](crate::ring) seems full to one thread although the other has taken something out.
    pub late_room: f64,
}

/// Counts of what happened in the network.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Connections that were established.
    pub connections: u64,
    /// Bytes read from TCP sockets.
    pub tcp_bytes: u64,
    /// Datagrams sent.
    pub datagrams: u64,
    /// Datagrams lost on the way or for want of room.
    pub datagrams_lost: u64,
    /// Messages sent of more than one datagram.
    pub runs: u64,
    /// Datagrams that were received behind others in one message.
    pub joined: u64,
    /// Resets that arrived.
    pub resets: u64,
}

pub(crate) struct Kernel {
    clock: Clock,
    random: Random,
    faults: Faults,
    paths: FastMap<IpAddr, Path>,
    /// Addresses that no datagram reaches or leaves.
    cut_off: BTreeSet<IpAddr>,
    default_path: Path,
    /// Addresses of the host whose program runs, for a bind to all of them.
    local_addresses: Vec<IpAddr>,
    events: BinaryHeap<Reverse<(Instant, u64, Event)>>,
    last_event: u64,
    sockets: FastMap<SocketId, Socket>,
    last_socket: SocketId,
    connections: FastMap<u32, Connection>,
    last_connection: u32,
    listeners: FastMap<SocketId, ListenerState>,
    /// Listeners by address; several share one.
    listening: FastMap<SocketAddr, Vec<SocketId>>,
    udp: FastMap<SocketId, UdpState>,
    udp_at: FastMap<SocketAddr, SocketId>,
    queues: Vec<QueueState>,
    /// The queue of each socket that is in one.
    queue_of: FastMap<SocketId, QueueId>,
    ready_queues: VecDeque<QueueId>,
    /// Sockets of each server.
    descriptors: FastMap<IpAddr, usize>,
    next_port: u16,
    /// Connections that changed hands by a descriptor.
    handed_over: FastMap<i32, SocketId>,
    disks: Vec<DiskState>,
    /// What random numbers of disks begin with.
    disk_seed: u64,
    totals: Totals,
    digest: u64,
}

/// What a handle stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Socket {
    Listener,
    /// A side of a connection: 0 connected, 1 accepted.
    Tcp(u32, usize),
    Udp,
}

/// What happens at a time.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// A connection request arrives, for the so-many-th time.
    Syn(u32, u8),
    /// The client learns that it is connected.
    Connected(u32),
    /// What is first in flight towards this side arrives.
    Arrival(u32, usize),
    /// This side learns that there is room again.
    Room(u32, usize),
    /// A datagram arrives.
    Datagram { to: SocketAddr, from: SocketAddr, bytes: Vec<u8> },
    /// The so-many-th message of this socket takes no more datagrams in.
    Joined(SocketId, u64),
}

thread_local! {
    static KERNEL: RefCell<Option<Kernel>> = const { RefCell::new(None) };
}

/// Calls `f` with the kernel of this thread.
///
/// # Panics
/// If no simulation has begun in this thread.
pub(crate) fn with<T>(f: impl FnOnce(&mut Kernel) -> T) -> T {
    KERNEL.with_borrow_mut(|kernel| f(kernel.as_mut().expect("a simulation has begun in this thread")))
}

/// The same for what may be dropped after the simulation.
pub(crate) fn with_any(f: impl FnOnce(&mut Kernel)) {
    let _ = KERNEL.try_with(|kernel| {
        if let Ok(mut kernel) = kernel.try_borrow_mut()
            && let Some(kernel) = kernel.as_mut()
        {
            f(kernel);
        }
    });
}

/// Begins a simulation in this thread. What was there before is gone.
pub fn begin(seed: u64, default_path: Path, faults: Faults) {
    let kernel = Kernel {
        clock: Clock::new(),
        random: Random::new(seed ^ 0x6b65_726e_656c),
        faults,
        paths: FastMap::default(),
        cut_off: BTreeSet::new(),
        default_path,
        local_addresses: Vec::new(),
        events: BinaryHeap::new(),
        last_event: 0,
        sockets: FastMap::default(),
        last_socket: 2,
        connections: FastMap::default(),
        last_connection: 0,
        listeners: FastMap::default(),
        listening: FastMap::default(),
        udp: FastMap::default(),
        udp_at: FastMap::default(),
        queues: Vec::new(),
        queue_of: FastMap::default(),
        ready_queues: VecDeque::new(),
        descriptors: FastMap::default(),
        next_port: 20_000,
        handed_over: FastMap::default(),
        disks: Vec::new(),
        disk_seed: seed ^ 0x6469_736b,
        totals: Totals::default(),
        digest: 0xcbf2_9ce4_8422_2325,
    };
    KERNEL.set(Some(kernel));
}

/// The time.
pub fn now() -> Instant {
    with(|kernel| kernel.clock.now())
}

/// Time since the simulation began.
pub fn elapsed() -> Duration {
    with(|kernel| kernel.clock.elapsed())
}

/// Moves the time forward and lets everything happen that is due until then.
pub fn advance_to(at: Instant) {
    with(|kernel| {
        while let Some(Reverse((due, ..))) = kernel.events.peek()
            && *due <= at
        {
            let Some(Reverse((due, _, event))) = kernel.events.pop() else { break };
            kernel.clock.advance_to(due);
            kernel.happen(event);
        }
        kernel.clock.advance_to(at);
    });
}

/// When something happens next in the network.
pub fn next_event() -> Option<Instant> {
    with(|kernel| kernel.events.peek().map(|Reverse((due, ..))| *due))
}

/// A queue that has something to report, each once until its next wait.
pub fn next_ready() -> Option<QueueId> {
    with(|kernel| kernel.ready_queues.pop_front())
}

/// Whether a thread does not know yet what another has done.
pub(crate) fn learns_late() -> bool {
    with(|kernel| {
        let probability = kernel.faults.late_room;
        probability > 0.0 && kernel.random.chance(probability)
    })
}

/// Sets what the path of a client is like from now on.
pub fn set_path(client: IpAddr, path: Path) {
    with(|kernel| kernel.paths.insert(client, path));
}

/// No datagram to or from this address arrives from now on, or they do again.
pub fn cut_off(address: IpAddr, is_cut: bool) {
    with(|kernel| match is_cut {
        true => kernel.cut_off.insert(address),
        false => kernel.cut_off.remove(&address),
    });
}

/// Changes what goes wrong from now on.
pub fn set_faults(faults: Faults) {
    with(|kernel| kernel.faults = faults);
}

/// Addresses of the host whose program runs from now on.
pub fn set_local_addresses(addresses: Vec<IpAddr>) {
    with(|kernel| kernel.local_addresses = addresses);
}

/// Addresses of the host whose program runs.
pub fn local_addresses() -> Vec<IpAddr> {
    with(|kernel| kernel.local_addresses.clone())
}

/// Sockets that the programs of a server have open.
pub fn descriptors(server: IpAddr) -> usize {
    with(|kernel| kernel.descriptors.get(&server).copied().unwrap_or(0))
}

/// Connections that wait for a server to accept them.
pub fn waiting(server: IpAddr) -> usize {
    with(|kernel| {
        let own = kernel.listeners.values().filter(|listener| listener.is_at(server));
        own.map(|listener| listener.backlog.len()).sum()
    })
}

/// What happened in the network so far.
pub fn totals() -> Totals {
    with(|kernel| kernel.totals)
}

/// A number that two runs of one seed have in common at every moment, and hardly any two others.
pub fn digest() -> u64 {
    with(|kernel| kernel.digest)
}

/// Adds to [`digest`].
pub fn note(value: u64) {
    with(|kernel| kernel.note(value));
}

impl Kernel {
    pub(crate) fn note(&mut self, value: u64) {
        self.digest = (self.digest ^ value).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(17);
    }

    pub(crate) fn at(&mut self, at: Instant, event: Event) {
        self.last_event += 1;
        self.events.push(Reverse((at, self.last_event, event)));
    }

    pub(crate) fn new_socket(&mut self, socket: Socket) -> SocketId {
        self.last_socket += 1;
        self.sockets.insert(self.last_socket, socket);
        self.last_socket
    }

    /// The path between two addresses: that of the one that has one.
    pub(crate) fn path(&self, a: IpAddr, b: IpAddr) -> &Path {
        self.paths.get(&a).or_else(|| self.paths.get(&b)).unwrap_or(&self.default_path)
    }

    pub(crate) fn free_port(&mut self) -> u16 {
        self.next_port = self.next_port.checked_add(1).unwrap_or(20_000);
        self.next_port
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Syn(connection, tries) => self.syn(connection, tries),
            Event::Connected(connection) => self.connected(connection),
            Event::Arrival(connection, side) => self.arrive(connection, side),
            Event::Room(connection, side) => self.room(connection, side),
            Event::Datagram { to, from, bytes } => self.datagram(to, from, bytes),
            Event::Joined(socket, joined) => self.joined(socket, joined),
        }
    }
}
