//! The relay's sockets and clock.
//!
//! Clients share one socket; each has a flow with a socket of its own towards the server, which
//! therefore sees as many addresses as there are clients. Datagrams count from when the kernel got
//! them, so that a relay that is woken late does not make a queue of its own out of it.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, UNIX_EPOCH};

use group_send::{RecvBatch, RecvConfig, socket};
use mio::event::Event;
use mio::net::UdpSocket;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use netsim::bottleneck::{MS, Path, SECOND, Us};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use rtc::demux::{self, Kind};
use serde_json::json;

use super::cli::{BottleneckArgs, Direction};
use super::ledger::Ledger;
use super::line::Line;
use crate::clock;
use crate::machine::StopSignals;

/// Relays until SIGINT or SIGTERM. Prints `{"listen":...,"pid":...}`, `{"began_ns":...}` with the first
/// packet of media, and what was measured at the end.
///
/// # Errors
/// A text for the user when a socket or the log cannot be opened.
pub fn run(args: &BottleneckArgs) -> Result<(), String> {
    let signals = StopSignals::new().map_err(|error| format!("signals: {error}"))?;
    let mut relay = Relay::new(args)?;
    let listen = relay.clients.local_addr().map_err(|error| error.to_string())?;
    print_line(&json!({ "listen": listen.to_string(), "pid": std::process::id() }));
    while !signals.arrived() {
        relay.turn().map_err(|error| format!("poll: {error}"))?;
    }
    let now = relay.now();
    let mut report = relay.lines.iter_mut().find_map(|line| line.report(now)).unwrap_or_default();
    report["clients_refused"] = relay.clients_refused.into();
    print_line(&report);
    Ok(())
}

struct Relay {
    poll: Poll,
    events: Events,
    timer: TimerFd,
    to: SocketAddr,
    limit: Direction,
    clients: UdpSocket,
    flows: Vec<Flow>,
    by_client: HashMap<SocketAddr, usize>,
    /// Clients for which there was no flow.
    clients_refused: u64,
    /// Down, up.
    lines: [Line; 2],
    /// Lent while what it holds is looked at.
    batch: Option<RecvBatch>,
    /// When this began, or the first packet of media came: 0 of the lines' time, wall clock nanoseconds.
    origin_ns: u64,
    has_media: bool,
}

struct Flow {
    client: SocketAddr,
    server: UdpSocket,
}

impl Relay {
    fn new(args: &BottleneckArgs) -> Result<Relay, String> {
        let log = match &args.log {
            None => None,
            Some(path) => {
                let file = File::create(path).map_err(|error| format!("{}: {error}", path.display()))?;
                Some(Box::new(BufWriter::new(file)) as Box<dyn Write>)
            }
        };
        let path = Path::new(args.path(), args.seed);
        let ledger = Ledger::new(args.from * SECOND, args.until * SECOND);
        let limited = Line::limited(path, ledger, args.bulk_from.map(|from| from * SECOND), log);
        let plain = Line::plain(args.delay_ms * MS);
        let lines = match args.limit {
            Direction::Down => [limited, plain],
            Direction::Up => [plain, limited],
        };
        let poll = Poll::new().map_err(|error| format!("epoll: {error}"))?;
        let clients =
            open(args.listen, &poll, CLIENTS).map_err(|error| format!("{}: {error}", args.listen))?;
        let timer =
            TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC);
        let timer = timer.map_err(|error| format!("timer: {error}"))?;
        poll.registry()
            .register(&mut SourceFd(&timer.as_fd().as_raw_fd()), TIMER, Interest::READABLE)
            .map_err(|error| format!("epoll: {error}"))?;
        Ok(Relay {
            poll,
            events: Events::with_capacity(FLOWS_MAX + 2),
            timer,
            to: args.to,
            limit: args.limit,
            clients,
            flows: Vec::new(),
            by_client: HashMap::new(),
            clients_refused: 0,
            lines,
            batch: Some(RecvBatch::new(RecvConfig { messages: 64, message_bytes: 2048 })),
            origin_ns: clock::wall_ns(),
            has_media: false,
        })
    }

    fn now(&self) -> Us {
        clock::wall_ns().saturating_sub(self.origin_ns) / 1000
    }

    /// Waits for datagrams, or until one under way arrives.
    fn turn(&mut self) -> io::Result<()> {
        let now = self.now();
        let due = self.lines.iter().filter_map(Line::next_due).min().unwrap_or(now + TURN_MAX);
        // A timer of microseconds: those of `epoll_wait(2)` are milliseconds. Zero would stop it.
        let wait = Duration::from_micros(due.saturating_sub(now).clamp(1, TURN_MAX));
        self.timer.set(Expiration::OneShot(TimeSpec::from_duration(wait)), TimerSetTimeFlags::empty())?;
        match self.poll.poll(&mut self.events, None) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        let ready: Vec<Token> = self.events.iter().map(Event::token).collect();
        for token in ready {
            match token {
                CLIENTS => self.receive(None),
                TIMER => {}
                Token(flow) => self.receive(Some(flow)),
            }
        }
        self.deliver();
        Ok(())
    }

    /// Takes what clients have sent, or the server for one flow.
    fn receive(&mut self, from: Option<usize>) {
        let Some(mut batch) = self.batch.take() else { return };
        loop {
            let socket = from.map_or(&self.clients, |flow| &self.flows[flow].server);
            // The server's port may be closed for a moment: nothing came then.
            if batch.recv(socket).is_err() {
                break;
            }
            for datagram in batch.iter() {
                let since = datagram.received_at.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
                let at_ns = since.map_or_else(clock::wall_ns, |since| since.as_nanos() as u64);
                let (direction, flow) = match from {
                    Some(flow) => (Direction::Down, Some(flow)),
                    None => (Direction::Up, self.flow_of(datagram.source)),
                };
                if let Some(flow) = flow {
                    self.take(direction, flow, at_ns, datagram.payload);
                }
            }
            if !batch.is_full() {
                break;
            }
        }
        self.batch = Some(batch);
    }

    fn take(&mut self, direction: Direction, flow: usize, at_ns: u64, bytes: &[u8]) {
        if !self.has_media && direction == self.limit && matches!(demux::classify(bytes), Kind::Rtp) {
            // What is under way keeps its time: all of it is there before anything else is looked at.
            self.deliver_all();
            self.has_media = true;
            self.origin_ns = at_ns;
            print_line(&json!({ "began_ns": at_ns }));
        }
        let now = at_ns.saturating_sub(self.origin_ns) / 1000;
        let line = &mut self.lines[direction as usize];
        line.send(now, flow, bytes, self.has_media);
    }

    fn flow_of(&mut self, client: SocketAddr) -> Option<usize> {
        if let Some(&flow) = self.by_client.get(&client) {
            return Some(flow);
        }
        let any: SocketAddr = if self.to.is_ipv4() { ([0; 4], 0).into() } else { ([0; 16], 0).into() };
        let token = Token(self.flows.len());
        let server = if self.flows.len() < FLOWS_MAX { open(any, &self.poll, token).ok() } else { None };
        let Some(server) = server.filter(|server| server.connect(self.to).is_ok()) else {
            self.clients_refused += 1;
            return None;
        };
        self.flows.push(Flow { client, server });
        self.by_client.insert(client, self.flows.len() - 1);
        Some(self.flows.len() - 1)
    }

    /// Hands over what has arrived.
    fn deliver(&mut self) {
        let now = self.now();
        self.deliver_until(now);
        if self.has_media {
            self.lines[self.limit as usize].send_bulk(now);
        }
    }

    fn deliver_all(&mut self) {
        self.deliver_until(Us::MAX);
    }

    fn deliver_until(&mut self, now: Us) {
        let [down, up] = &mut self.lines;
        // What a socket does not take is lost, as elsewhere.
        while let Some((flow, bytes)) = down.poll(now) {
            let _ = self.clients.send_to(&bytes, self.flows[flow].client);
        }
        while let Some((flow, bytes)) = up.poll(now) {
            let _ = self.flows[flow].server.send(&bytes);
        }
    }
}

fn open(address: SocketAddr, poll: &Poll, token: Token) -> io::Result<UdpSocket> {
    let opened = std::net::UdpSocket::bind(address)?;
    opened.set_nonblocking(true)?;
    socket::enable_timestamps(&opened)?;
    let _ = socket::size_buffers(&opened, BUFFER_BYTES)?;
    let mut opened = UdpSocket::from_std(opened);
    poll.registry().register(&mut opened, token, Interest::READABLE)?;
    Ok(opened)
}

fn print_line(value: &serde_json::Value) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{value}").and_then(|()| out.flush());
}

/// Tokens beyond those of flows.
const CLIENTS: Token = Token(FLOWS_MAX);
const TIMER: Token = Token(FLOWS_MAX + 1);

/// Signals and the bulk flow are looked at this often.
const TURN_MAX: Us = 10 * MS;
/// Clients at a time. Further ones get no answer.
const FLOWS_MAX: usize = 64;
const BUFFER_BYTES: usize = 1024 * 1024;
