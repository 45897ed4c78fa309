//! A proxy between a client and a server that takes as long as a long and narrow link would.
//!
//! `path` is the arithmetic, `connection` the bytes between two sockets, this file the clock:
//! events in the order of their time. An event that the machine handles late keeps the time it was
//! due at, so that what follows from it is not late as well and the rate of the link does not
//! depend on how busy the machine is.
//!
//! Emulated: a round trip for the handshake, half of one for everything sent, one bottleneck each
//! way for all connections, slow start of each response's sender, and that a sender learns half a
//! round trip later that its client has left. Not emulated: loss, the sizes of headers below HTTP,
//! the kernel's own figures (`TCP_INFO` describes loopback).

mod connection;
mod path;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;

use connection::Connection;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use path::{Bottleneck, Shape, Window};

use crate::Options;

/// How long to wait for what is in flight when standard input has ended.
const DRAIN_NS: u64 = 2_000_000_000;
const SCRATCH_BYTES: usize = 1 << 20;

/// Runs until standard input ends.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let upstream: SocketAddr = options.value("upstream")?;
    let (rtt_ms, mbit): (f64, f64) = (options.value("rtt-ms")?, options.value("mbit")?);
    if !(rtt_ms > 0.0 && mbit > 0.0) {
        return Err("round trip and rate are positive".to_owned());
    }
    let shape = Shape { round_trip: (rtt_ms * 1e6) as u64, bytes_per_second: (mbit * 1e6 / 8.0) as u64 };
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| format!("cannot listen: {error}"))?;
    listener.set_nonblocking(true).map_err(|error| error.to_string())?;
    println!("{}", listener.local_addr().map_err(|error| error.to_string())?.port());
    let mut link = Link::new(listener, upstream, shape);
    link.run().map_err(|error| error.to_string())?;
    link.report();
    Ok(())
}

/// What happens at a time.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// Bytes of a request reach the server.
    Request(Vec<u8>),
    /// Bytes of a response reach the client.
    Arrival(u64),
    /// The client's word that it has them reaches the server.
    Acknowledgement(u64),
    /// The server's end reaches the client.
    Finish,
    /// The client's end reaches the server.
    Gone,
}

struct Link {
    listener: TcpListener,
    upstream: SocketAddr,
    shape: Shape,
    down: Bottleneck,
    up: Bottleneck,
    /// In the order of their time, then of their making.
    events: BinaryHeap<Reverse<(u64, u64, usize, Event)>>,
    events_made: u64,
    connections: Vec<Option<Connection>>,
    requests: u64,
    scratch: Vec<u8>,
    begun: u64,
    opened_at: Option<u64>,
    delivered_at: u64,
}

/// Which descriptor is ready.
#[derive(Debug, Clone, Copy)]
enum Ready {
    Input,
    Listener,
    Client(usize),
    Server(usize),
}

impl Link {
    fn new(listener: TcpListener, upstream: SocketAddr, shape: Shape) -> Self {
        Self {
            listener,
            upstream,
            shape,
            down: Bottleneck::new(shape),
            up: Bottleneck::new(shape),
            events: BinaryHeap::new(),
            events_made: 0,
            connections: Vec::new(),
            requests: 0,
            scratch: vec![0; SCRATCH_BYTES],
            begun: monotonic(),
            opened_at: None,
            delivered_at: 0,
        }
    }

    fn run(&mut self) -> io::Result<()> {
        let mut end: Option<u64> = None;
        loop {
            self.handle_due();
            let open = self.connections.iter().any(Option::is_some);
            if end.is_some_and(|end| !open || self.now() > end) {
                return Ok(());
            }
            for (who, flags) in self.wait(end)? {
                match who {
                    Ready::Input => {
                        if io::stdin().read(&mut self.scratch)? == 0 {
                            end = Some(self.now() + DRAIN_NS);
                        }
                    }
                    Ready::Listener => self.accept()?,
                    Ready::Client(index) => self.client_ready(index, flags),
                    Ready::Server(index) => self.server_ready(index, flags),
                }
            }
        }
    }

    /// Sleeps until a socket is ready or an event is due.
    fn wait(&self, end: Option<u64>) -> io::Result<Vec<(Ready, PollFlags)>> {
        let input = io::stdin();
        let mut pollable = Vec::new();
        let mut polled = Vec::new();
        if end.is_none() {
            pollable.push(Ready::Input);
            polled.push(PollFd::new(input.as_fd(), PollFlags::POLLIN));
        }
        pollable.push(Ready::Listener);
        polled.push(PollFd::new(self.listener.as_fd(), PollFlags::POLLIN));
        for (index, connection) in self.connections.iter().enumerate() {
            let Some(connection) = connection else { continue };
            let (client_blocked, server_blocked) = connection.blocked();
            if let Some(client) = &connection.client {
                let mut flags = PollFlags::POLLIN;
                flags.set(PollFlags::POLLOUT, client_blocked);
                pollable.push(Ready::Client(index));
                polled.push(PollFd::new(client.as_fd(), flags));
            }
            if let Some(server) = &connection.server {
                let mut flags = PollFlags::empty();
                flags.set(PollFlags::POLLIN, connection.wants_server());
                flags.set(PollFlags::POLLOUT, server_blocked);
                if !flags.is_empty() {
                    pollable.push(Ready::Server(index));
                    polled.push(PollFd::new(server.as_fd(), flags));
                }
            }
        }
        let due = self.events.peek().map(|Reverse((at, ..))| *at).into_iter().chain(end).min();
        let pause = due.map(|due| TimeSpec::from_duration(nanoseconds(due.saturating_sub(self.now()))));
        match ppoll(&mut polled, pause, None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = pollable.into_iter().zip(&polled).filter_map(|(who, polled)| {
            Some((who, polled.revents()?)).filter(|(_, flags)| !flags.is_empty())
        });
        Ok(ready.collect())
    }

    fn accept(&mut self) -> io::Result<()> {
        while let Ok((client, _)) = self.listener.accept() {
            let now = self.now();
            self.opened_at.get_or_insert(now);
            let server = TcpStream::connect(self.upstream)?;
            let open_at = now + self.shape.round_trip;
            let window = Window::new(self.shape);
            self.connections.push(Some(Connection::new(client, server, open_at, window)?));
        }
        Ok(())
    }

    fn client_ready(&mut self, index: usize, flags: PollFlags) {
        let now = self.now();
        if flags.contains(PollFlags::POLLOUT) {
            self.deliver(now, index);
        }
        let Some(connection) = &mut self.connections[index] else { return };
        let (scratch, open_at) = (&mut self.scratch, connection.open_at);
        match connection.read_client(scratch) {
            Some((0, _)) => {}
            Some((bytes, requests)) => {
                self.requests += requests;
                let text = scratch[..bytes].to_vec();
                let arrival = self.up.send(now.max(open_at), bytes as u64);
                self.schedule(arrival, index, Event::Request(text));
            }
            None => self.client_left(now, index),
        }
    }

    fn server_ready(&mut self, index: usize, flags: PollFlags) {
        let Some(connection) = &mut self.connections[index] else { return };
        if flags.contains(PollFlags::POLLOUT) {
            connection.write_server();
        }
        let open = connection.read_server(&mut self.scratch);
        let now = self.now();
        self.send(now, index);
        if !open && let Some(connection) = &mut self.connections[index] {
            connection.server = None;
            self.schedule(now + self.shape.round_trip / 2, index, Event::Finish);
        }
    }

    /// Everything that is due.
    fn handle_due(&mut self) {
        while let Some(Reverse((at, ..))) = self.events.peek()
            && *at <= self.now()
            && let Some(Reverse((at, _, index, event))) = self.events.pop()
        {
            self.handle(at, index, event);
            if self.connections[index].as_ref().is_some_and(Connection::is_over) {
                self.connections[index] = None;
            }
        }
    }

    fn handle(&mut self, at: u64, index: usize, event: Event) {
        let Some(connection) = &mut self.connections[index] else { return };
        match event {
            Event::Request(bytes) => connection.request_arrives(&bytes),
            Event::Arrival(bytes) => {
                connection.arrive(bytes);
                self.deliver(at, index);
            }
            Event::Acknowledgement(bytes) => {
                connection.window.acknowledged(bytes);
                // What the server has by now it had then: the machine was only late to fetch it.
                connection.read_server(&mut self.scratch);
                self.send(at, index);
            }
            Event::Finish => {
                connection.finish();
                self.deliver(at, index);
            }
            Event::Gone => connection.server_knows(),
        }
    }

    /// Puts on the link what the window allows.
    fn send(&mut self, now: u64, index: usize) {
        loop {
            let Some(connection) = &mut self.connections[index] else { return };
            let bytes = connection.window.may_send(now, connection.waiting());
            if bytes == 0 {
                return;
            }
            connection.send(now, bytes);
            let arrival = self.down.send(now, bytes);
            self.schedule(arrival, index, Event::Arrival(bytes));
        }
    }

    /// Hands the client what has arrived, and acknowledges what it takes.
    fn deliver(&mut self, now: u64, index: usize) {
        let Some(connection) = &mut self.connections[index] else { return };
        if connection.client.is_none() {
            return;
        }
        match connection.write_client() {
            Some(0) => {}
            Some(bytes) => {
                self.delivered_at = self.now();
                self.schedule(now + self.shape.round_trip / 2, index, Event::Acknowledgement(bytes));
            }
            None => self.client_left(now, index),
        }
    }

    fn client_left(&mut self, now: u64, index: usize) {
        let Some(connection) = &mut self.connections[index] else { return };
        connection.client_left();
        let known = now.max(connection.open_at) + self.shape.round_trip / 2;
        self.schedule(known, index, Event::Gone);
    }

    fn schedule(&mut self, at: u64, index: usize, event: Event) {
        self.events_made += 1;
        self.events.push(Reverse((at, self.events_made, index, event)));
    }

    fn now(&self) -> u64 {
        monotonic() - self.begun
    }

    /// One JSON object; times are of the clock that does not jump, in seconds.
    fn report(&self) {
        let seconds = |at: u64| (self.begun + at) as f64 / 1e9;
        println!(
            "{{\"connections\": {}, \"requests\": {}, \"bytes_down\": {}, \"bytes_up\": {}, \"opened_at\": {:.6}, \"delivered_at\": {:.6}}}",
            self.connections.len(),
            self.requests,
            self.down.bytes,
            self.up.bytes,
            seconds(self.opened_at.unwrap_or(0)),
            seconds(self.delivered_at),
        );
    }
}

fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("Linux has this clock");
    u64::try_from(now.tv_sec()).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec()).unwrap_or(0)
}

fn nanoseconds(count: u64) -> std::time::Duration {
    std::time::Duration::from_nanos(count)
}
