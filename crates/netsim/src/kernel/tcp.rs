//! TCP: connections of two pipes, listeners that share an address.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use super::{Event, Kernel, Socket, SocketId, with, with_any};

/// Time until a connection request that nobody took is sent again.
const SYN_AGAIN: Duration = Duration::from_secs(1);
/// Requests until a client gives up.
const SYN_TRIES: u8 = 5;
/// `EMFILE`.
const OUT_OF_DESCRIPTORS: i32 = 24;

/// What travels to one side of a connection.
#[derive(Debug)]
enum Item {
    Bytes(Vec<u8>),
    Fin,
    Reset,
}

/// One direction of a connection.
#[derive(Debug)]
pub(super) struct Pipe {
    in_flight: VecDeque<(Instant, Item)>,
    received: VecDeque<u8>,
    /// Bytes in flight and received.
    bytes: usize,
    capacity: usize,
    /// The writer's end is in `received`.
    ended: bool,
    /// The writer has said that nothing follows.
    finished: bool,
    /// The writer was not taken all bytes from, and is to be told of room.
    writer_waits: bool,
    room_is_coming: bool,
    last_arrival: Instant,
    /// When the line has sent what it was given.
    line_idle: Instant,
}

/// One side of a connection.
#[derive(Debug)]
struct Side {
    local: SocketAddr,
    /// The handle; `None` before it is accepted and after it is closed.
    socket: Option<SocketId>,
    closed: bool,
    /// A reset arrived, or the connection was refused.
    error: Option<io::ErrorKind>,
    /// The error has been told once.
    told: bool,
}

#[derive(Debug)]
pub(crate) struct Connection {
    sides: [Side; 2],
    /// By the side that reads.
    pipes: [Pipe; 2],
    established: bool,
}

#[derive(Debug)]
pub(crate) struct ListenerState {
    address: SocketAddr,
    shared: bool,
    backlog_max: usize,
    /// Connections that wait to be accepted.
    pub(super) backlog: VecDeque<u32>,
}

impl ListenerState {
    pub(super) fn is_at(&self, server: IpAddr) -> bool {
        self.address.ip() == server
    }
}

impl Pipe {
    fn new(now: Instant, capacity: usize) -> Self {
        Self {
            in_flight: VecDeque::new(),
            received: VecDeque::new(),
            bytes: 0,
            capacity,
            ended: false,
            finished: false,
            writer_waits: false,
            room_is_coming: false,
            last_arrival: now,
            line_idle: now,
        }
    }

    fn has_room(&self) -> bool {
        // A third, as Linux has it, so that a writer is not told of every byte.
        self.capacity - self.bytes.min(self.capacity) >= (self.capacity / 3).max(1)
    }
}

impl Connection {
    /// Readable, writable, closed.
    pub(super) fn readiness(&self, side: usize) -> (bool, bool, bool) {
        let (input, output) = (&self.pipes[side], &self.pipes[1 - side]);
        let broken = self.sides[side].error.is_some();
        let readable = !input.received.is_empty() || input.ended || broken;
        let writable = broken || (self.established && output.has_room());
        (readable, writable, input.ended || broken)
    }

    /// Whether this side could write, and no event is on its way that says so. A peer that has closed answers
    /// with a reset.
    pub(super) fn has_untold_room(&self, side: usize) -> bool {
        let output = &self.pipes[1 - side];
        self.readiness(side).1
            && !self.sides[1 - side].closed
            && !(output.writer_waits && output.room_is_coming)
    }
}

impl Kernel {
    fn server_of(address: SocketAddr) -> IpAddr {
        address.ip()
    }

    fn take_descriptor(&mut self, address: SocketAddr) {
        *self.descriptors.entry(Self::server_of(address)).or_default() += 1;
    }

    fn give_descriptor(&mut self, address: SocketAddr) {
        if let Some(count) = self.descriptors.get_mut(&Self::server_of(address)) {
            *count -= 1;
        }
    }

    /// Puts something on its way to a side.
    fn send(&mut self, connection: u32, to: usize, item: Item) {
        let Some(state) = self.connections.get(&connection) else { return };
        let (a, b) = (state.sides[0].local.ip(), state.sides[1].local.ip());
        let path = self.path(a, b).clone();
        let jitter = self.random.up_to(path.jitter);
        let now = self.clock.now();
        let Some(state) = self.connections.get_mut(&connection) else { return };
        let pipe = &mut state.pipes[to];
        let departs = match (path.tcp_bits_per_second, &item) {
            (Some(rate), Item::Bytes(bytes)) => {
                let takes = Duration::from_secs_f64(bytes.len() as f64 * 8.0 / rate as f64);
                pipe.line_idle = pipe.line_idle.max(now) + takes;
                pipe.line_idle
            }
            _ => pipe.line_idle.max(now),
        };
        let at = (departs + path.delay + jitter).max(pipe.last_arrival);
        pipe.last_arrival = at;
        pipe.in_flight.push_back((at, item));
        self.at(at, Event::Arrival(connection, to));
    }

    /// The first item in flight to this side arrives.
    pub(super) fn arrive(&mut self, connection: u32, side: usize) {
        let Some(state) = self.connections.get_mut(&connection) else { return };
        let Some((_, item)) = state.pipes[side].in_flight.pop_front() else { return };
        let (socket, closed) = (state.sides[side].socket, state.sides[side].closed);
        match item {
            Item::Bytes(bytes) => {
                let len = bytes.len() as u64;
                self.totals.tcp_bytes += len;
                if closed {
                    // Nobody reads it any more.
                    state.pipes[side].bytes -= bytes.len();
                    if state.sides[1 - side].error.is_none() {
                        self.send(connection, 1 - side, Item::Reset);
                    }
                    return;
                }
                let was_empty = state.pipes[side].received.is_empty();
                state.pipes[side].received.extend(bytes);
                self.note(u64::from(connection) << 32 | len);
                // Linux reports every arrival; only the first is promised.
                if was_empty || self.random.chance(0.5) {
                    socket.inspect(|&socket| self.report(socket, true, false, false));
                }
            }
            Item::Fin => {
                state.pipes[side].ended = true;
                socket.inspect(|&socket| self.report(socket, true, false, true));
                self.forget_if_over(connection);
            }
            Item::Reset => {
                self.totals.resets += 1;
                state.sides[side].error.get_or_insert(io::ErrorKind::ConnectionReset);
                state.pipes[side].received.clear();
                socket.inspect(|&socket| self.report(socket, true, true, true));
                self.forget_if_over(connection);
            }
        }
    }

    /// This side learns of room for what it sends.
    pub(super) fn room(&mut self, connection: u32, side: usize) {
        let Some(state) = self.connections.get_mut(&connection) else { return };
        let pipe = &mut state.pipes[1 - side];
        pipe.room_is_coming = false;
        if !pipe.writer_waits || !pipe.has_room() {
            return;
        }
        pipe.writer_waits = false;
        if let Some(socket) = state.sides[side].socket {
            self.report(socket, false, true, false);
        }
    }

    /// Room that the reader at `side` has made reaches the writer after a while.
    fn announce_room(&mut self, connection: u32, side: usize) {
        let Some(state) = self.connections.get(&connection) else { return };
        let pipe = &state.pipes[side];
        if !pipe.writer_waits || pipe.room_is_coming || !pipe.has_room() {
            return;
        }
        let (a, b) = (state.sides[0].local.ip(), state.sides[1].local.ip());
        let at = self.clock.now() + self.path(a, b).delay;
        if let Some(state) = self.connections.get_mut(&connection) {
            state.pipes[side].room_is_coming = true;
        }
        self.at(at, Event::Room(connection, 1 - side));
    }

    /// A connection request arrives at the server.
    pub(super) fn syn(&mut self, connection: u32, tries: u8) {
        let Some(state) = self.connections.get(&connection) else { return };
        let (client, server) = (state.sides[0].local, state.sides[1].local);
        let any = SocketAddr::new(
            if server.is_ipv4() {
                std::net::Ipv4Addr::UNSPECIFIED.into()
            } else {
                std::net::Ipv6Addr::UNSPECIFIED.into()
            },
            server.port(),
        );
        let listeners = self.listening.get(&server).or_else(|| self.listening.get(&any));
        let count = listeners.map_or(0, Vec::len);
        if count == 0 {
            if let Some(state) = self.connections.get_mut(&connection) {
                state.sides[0].error.get_or_insert(io::ErrorKind::ConnectionRefused);
                let socket = state.sides[0].socket;
                socket.inspect(|&socket| self.report(socket, true, true, true));
            }
            return;
        }
        // As the kernel deals connections out: by a hash, so at random.
        let chosen = self.random.below(count as u64) as usize;
        let listener =
            self.listening.get(&server).or_else(|| self.listening.get(&any)).map(|all| all[chosen]);
        let Some(listener) = listener else { return };
        let delay = self.path(client.ip(), server.ip()).delay;
        let Some(state) = self.listeners.get_mut(&listener) else { return };
        // One more than it says, as on Linux.
        if state.backlog.len() > state.backlog_max {
            if tries < SYN_TRIES {
                let at = self.clock.now() + SYN_AGAIN * 2_u32.pow(u32::from(tries));
                self.at(at, Event::Syn(connection, tries + 1));
            } else if let Some(state) = self.connections.get_mut(&connection) {
                state.sides[0].error.get_or_insert(io::ErrorKind::TimedOut);
                let socket = state.sides[0].socket;
                socket.inspect(|&socket| self.report(socket, true, true, true));
            }
            return;
        }
        state.backlog.push_back(connection);
        self.report(listener, true, false, false);
        let at = self.clock.now() + delay;
        self.at(at, Event::Connected(connection));
    }

    pub(super) fn connected(&mut self, connection: u32) {
        self.totals.connections += 1;
        let Some(state) = self.connections.get_mut(&connection) else { return };
        state.established = true;
        if let Some(socket) = state.sides[0].socket {
            self.report_all(socket);
        }
        // Closed before it was established.
        self.forget_if_over(connection);
    }

    /// Both sides are closed and nothing is under way.
    fn forget_if_over(&mut self, connection: u32) {
        if self.connections.get(&connection).is_some_and(|state| {
            state.established
                && state.sides.iter().all(|side| side.closed)
                && state.pipes.iter().all(|pipe| pipe.in_flight.is_empty())
        }) {
            self.connections.remove(&connection);
        }
    }

    fn read(&mut self, socket: SocketId, buffer: &mut [u8]) -> io::Result<usize> {
        self.disturb(socket)?;
        let Some(&Socket::Tcp(connection, side)) = self.sockets.get(&socket) else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let partial = self.faults.partial_read > 0.0 && self.random.chance(self.faults.partial_read);
        let part = self.random.next_u64();
        let Some(state) = self.connections.get_mut(&connection) else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        if let Some(error) = state.sides[side].error {
            // A reset is told once; after it there is an end.
            return if std::mem::replace(&mut state.sides[side].told, true) {
                Ok(0)
            } else {
                Err(error.into())
            };
        }
        let pipe = &mut state.pipes[side];
        if pipe.received.is_empty() {
            return if pipe.ended { Ok(0) } else { Err(io::ErrorKind::WouldBlock.into()) };
        }
        let mut len = pipe.received.len().min(buffer.len());
        if partial && len > 1 {
            len = 1 + (part % (len as u64 - 1)) as usize;
        }
        let (first, second) = pipe.received.as_slices();
        let from_first = first.len().min(len);
        buffer[..from_first].copy_from_slice(&first[..from_first]);
        buffer[from_first..len].copy_from_slice(&second[..len - from_first]);
        pipe.received.drain(..len);
        pipe.bytes -= len;
        let rest = !pipe.received.is_empty();
        if rest && len < buffer.len() {
            // As if the rest had arrived while the call returned.
            self.report(socket, true, false, false);
        }
        self.announce_room(connection, side);
        Ok(len)
    }

    fn write(&mut self, socket: SocketId, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.disturb(socket)?;
        let Some(&Socket::Tcp(connection, side)) = self.sockets.get(&socket) else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let partial = self.faults.partial_write > 0.0 && self.random.chance(self.faults.partial_write);
        let part = self.random.next_u64();
        let Some(state) = self.connections.get_mut(&connection) else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        if let Some(error) = state.sides[side].error {
            let first = !std::mem::replace(&mut state.sides[side].told, true);
            return Err(if first { error } else { io::ErrorKind::BrokenPipe }.into());
        }
        let established = state.established;
        let pipe = &mut state.pipes[1 - side];
        if pipe.finished {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let offered: usize = slices.iter().map(|slice| slice.len()).sum();
        if offered == 0 {
            return Ok(0);
        }
        let room = if established { pipe.capacity.saturating_sub(pipe.bytes) } else { 0 };
        if room == 0 {
            pipe.writer_waits = true;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut len = offered.min(room);
        if partial && len > 1 {
            len = 1 + (part % (len as u64 - 1)) as usize;
        }
        let mut bytes = Vec::with_capacity(len);
        for slice in slices {
            bytes.extend_from_slice(&slice[..slice.len().min(len - bytes.len())]);
        }
        pipe.bytes += len;
        if len < offered {
            pipe.writer_waits = true;
        }
        self.send(connection, 1 - side, Item::Bytes(bytes));
        if len < offered {
            self.announce_room(connection, 1 - side);
        }
        Ok(len)
    }

    fn finish(&mut self, socket: SocketId) -> io::Result<()> {
        let Some(&Socket::Tcp(connection, side)) = self.sockets.get(&socket) else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let Some(state) = self.connections.get_mut(&connection) else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        if state.sides[side].error.is_some() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        if !std::mem::replace(&mut state.pipes[1 - side].finished, true) {
            self.send(connection, 1 - side, Item::Fin);
        }
        Ok(())
    }

    fn close(&mut self, socket: SocketId, reset: bool) {
        let Some(&Socket::Tcp(connection, side)) = self.sockets.get(&socket) else { return };
        self.forget_socket(socket);
        let Some(state) = self.connections.get_mut(&connection) else { return };
        let local = state.sides[side].local;
        (state.sides[side].socket, state.sides[side].closed) = (None, true);
        let unread = !state.pipes[side].received.is_empty();
        let broken = state.sides[side].error.is_some();
        let finished = std::mem::replace(&mut state.pipes[1 - side].finished, true);
        if !broken {
            if reset || unread {
                // As Linux does: closing with unread bytes sends a reset.
                self.send(connection, 1 - side, Item::Reset);
            } else if !finished {
                self.send(connection, 1 - side, Item::Fin);
            }
        }
        if side == 1 {
            self.give_descriptor(local);
        }
        self.forget_if_over(connection);
    }

    fn connect(&mut self, from: IpAddr, to: SocketAddr) -> SocketId {
        self.last_connection += 1;
        let connection = self.last_connection;
        let port = self.free_port();
        let local = SocketAddr::new(from, port);
        let socket = self.new_socket(Socket::Tcp(connection, 0));
        let path = self.path(from, to.ip()).clone();
        let now = self.clock.now();
        let side = |local, socket| Side { local, socket, closed: false, error: None, told: false };
        let pipe = || Pipe::new(now, path.tcp_window_bytes.max(1));
        let state = Connection {
            sides: [side(local, Some(socket)), side(to, None)],
            pipes: [pipe(), pipe()],
            established: false,
        };
        self.connections.insert(connection, state);
        let at = now + path.delay + self.random.up_to(path.jitter);
        self.at(at, Event::Syn(connection, 0));
        socket
    }

    fn accept(&mut self, listener: SocketId) -> io::Result<(SocketId, SocketAddr)> {
        let aborts = self.faults.abort_accept > 0.0 && self.random.chance(self.faults.abort_accept);
        let Some(state) = self.listeners.get(&listener) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        if state.backlog.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let server = Self::server_of(state.address);
        let used = self.descriptors.get(&server).copied().unwrap_or(0);
        if self.faults.descriptors.is_some_and(|most| used >= most) {
            return Err(io::Error::from_raw_os_error(OUT_OF_DESCRIPTORS));
        }
        let Some(state) = self.listeners.get_mut(&listener) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let Some(connection) = state.backlog.pop_front() else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        if aborts {
            self.abort(connection);
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let socket = self.new_socket(Socket::Tcp(connection, 1));
        let Some(state) = self.connections.get_mut(&connection) else {
            return Err(io::ErrorKind::ConnectionAborted.into());
        };
        state.sides[1].socket = Some(socket);
        let (local, peer) = (state.sides[1].local, state.sides[0].local);
        self.take_descriptor(local);
        Ok((socket, peer))
    }

    /// A connection nobody accepted ends.
    fn abort(&mut self, connection: u32) {
        self.send(connection, 0, Item::Reset);
        if let Some(state) = self.connections.get_mut(&connection) {
            state.sides[1].closed = true;
        }
        self.forget_if_over(connection);
    }
}

/// A connection. Never blocks. Dropping it closes it; what was not read is answered by a reset.
#[derive(Debug)]
pub struct TcpSocket(SocketId);

impl TcpSocket {
    /// Begins to connect from an address; it is reported as writable once that is done.
    pub fn connect(from: IpAddr, to: SocketAddr) -> Self {
        Self(with(|kernel| kernel.connect(from, to)))
    }

    /// The socket's number, for an event queue.
    pub fn id(&self) -> SocketId {
        self.0
    }

    /// Our end of it.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let local = self.of_connection(|state, side| state.sides[side].local);
        local.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Whether the handshake of a connection that was begun here is done.
    pub fn is_established(&self) -> bool {
        self.of_connection(|state, _| state.established).unwrap_or(false)
    }

    /// Whether the program of the other side has accepted it.
    pub fn is_accepted(&self) -> bool {
        let accepted = |state: &Connection, _| state.sides[1].socket.is_some() || state.sides[1].closed;
        self.of_connection(accepted).unwrap_or(false)
    }

    /// When the last of what was sent so far arrives, or has arrived.
    pub fn last_arrival(&self) -> Option<Instant> {
        self.of_connection(|state, side: usize| state.pipes[1 - side].last_arrival)
    }

    /// Looks at the connection, of which this is a side.
    fn of_connection<T>(&self, look: impl FnOnce(&Connection, usize) -> T) -> Option<T> {
        with(|kernel| {
            let Some(&Socket::Tcp(connection, side)) = kernel.sockets.get(&self.0) else { return None };
            kernel.connections.get(&connection).map(|state| look(state, side))
        })
    }

    /// Tells the peer that nothing follows.
    pub fn shutdown_write(&self) -> io::Result<()> {
        with(|kernel| kernel.finish(self.0))
    }

    /// Closes it with a reset.
    pub fn reset(self) {
        with(|kernel| kernel.close(self.0, true));
    }

    /// Writes several slices in one call.
    pub fn write_slices(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        with(|kernel| kernel.write(self.0, slices))
    }

    /// Gives the connection away under a descriptor of the real system, whoever has that.
    pub fn hand_over(self, descriptor: i32) {
        with(|kernel| kernel.handed_over.insert(descriptor, self.0));
        std::mem::forget(self);
    }

    /// The connection that was given away under this descriptor.
    pub fn taken_over(descriptor: i32) -> Option<Self> {
        with(|kernel| kernel.handed_over.remove(&descriptor)).map(Self)
    }
}

impl Read for TcpSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        with(|kernel| kernel.read(self.0, buffer))
    }
}

impl Write for TcpSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_slices(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.write_slices(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for TcpSocket {
    fn drop(&mut self) {
        with_any(|kernel| kernel.close(self.0, false));
    }
}

/// A listening socket. Never blocks.
#[derive(Debug)]
pub struct TcpListener(SocketId);

impl TcpListener {
    /// Binds `address` without listening yet; with others there if all of them say `shared`.
    pub fn bind(mut address: SocketAddr, shared: bool) -> io::Result<Self> {
        with(|kernel| {
            if address.port() == 0 {
                address.set_port(kernel.free_port());
            }
            let others = kernel.listeners.values().filter(|other| other.address == address);
            if others.into_iter().any(|other| !shared || !other.shared) {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            let socket = kernel.new_socket(Socket::Listener);
            let state = ListenerState { address, shared, backlog_max: 0, backlog: VecDeque::new() };
            kernel.listeners.insert(socket, state);
            kernel.take_descriptor(address);
            Ok(Self(socket))
        })
    }

    /// Takes connections from now on, `backlog` of them while nobody accepts.
    pub fn listen(&self, backlog: usize) {
        with(|kernel| {
            if let Some(state) = kernel.listeners.get_mut(&self.0) {
                state.backlog_max = kernel.faults.backlog.map_or(backlog, |most| backlog.min(most));
                kernel.listening.entry(state.address).or_default().push(self.0);
            }
        });
    }

    /// The socket's number, for an event queue.
    pub fn id(&self) -> SocketId {
        self.0
    }

    /// The next connection and where it is from.
    pub fn accept(&self) -> io::Result<(TcpSocket, SocketAddr)> {
        with(|kernel| kernel.accept(self.0)).map(|(socket, peer)| (TcpSocket(socket), peer))
    }

    /// The address it is bound to.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        with(|kernel| kernel.listeners.get(&self.0).map(|state| state.address))
            .ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }
}

impl Drop for TcpListener {
    fn drop(&mut self) {
        with_any(|kernel| {
            kernel.forget_socket(self.0);
            let Some(state) = kernel.listeners.remove(&self.0) else { return };
            kernel.give_descriptor(state.address);
            if let Some(all) = kernel.listening.get_mut(&state.address) {
                all.retain(|other| *other != self.0);
            }
            for connection in state.backlog {
                kernel.abort(connection);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{self, Faults, Path};

    #[test]
    fn connections_beyond_the_backlog_come_about_when_there_is_room() {
        let faults = Faults { backlog: Some(1), ..Faults::default() };
        kernel::begin(5, Path::default(), faults);
        let address = "10.0.0.1:80".parse().expect("an address");
        let listener = TcpListener::bind(address, false).expect("a free port");
        listener.listen(100);
        let client = "10.1.0.1".parse().expect("an address");
        let sockets: Vec<TcpSocket> = (0..4).map(|_| TcpSocket::connect(client, address)).collect();
        let pass = |time| kernel::advance_to(kernel::now() + time);
        let established = || sockets.iter().filter(|socket| socket.is_established()).count();
        pass(Duration::from_millis(500));
        // One more than it says, as on Linux.
        assert_eq!((established(), kernel::waiting(address.ip())), (2, 2));
        let mut accepted = vec![listener.accept().expect("the first")];
        pass(Duration::from_millis(100));
        assert_eq!(established(), 2, "the others ask again later");
        pass(Duration::from_secs(2));
        assert_eq!((established(), kernel::waiting(address.ip())), (3, 2));
        while let Ok(next) = listener.accept() {
            accepted.push(next);
        }
        pass(Duration::from_secs(60));
        accepted.push(listener.accept().expect("the last"));
        assert_eq!((established(), accepted.len()), (4, 4));
    }

    #[test]
    fn a_client_gives_up_after_it_has_asked_for_long() {
        kernel::begin(5, Path::default(), Faults { backlog: Some(0), ..Faults::default() });
        let address = "10.0.0.1:80".parse().expect("an address");
        let listener = TcpListener::bind(address, false).expect("a free port");
        listener.listen(100);
        let client = "10.1.0.1".parse().expect("an address");
        let mut sockets: Vec<TcpSocket> = (0..2).map(|_| TcpSocket::connect(client, address)).collect();
        kernel::advance_to(kernel::now() + Duration::from_secs(120));
        let errors = sockets.iter_mut().filter_map(|socket| socket.read(&mut [0; 8]).err());
        let mut kinds: Vec<String> = errors.map(|error| format!("{:?}", error.kind())).collect();
        kinds.sort();
        assert_eq!(kinds, ["TimedOut", "WouldBlock"]);
    }
}
