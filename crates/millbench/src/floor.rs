//! The floor: what it costs the kernel alone to send the sample to N players.
//!
//! No server can send these bytes at this cadence with less than one plain write per socket and turn. So
//! this does just that: it answers the RTMP set-up with the same machine a server uses, takes each
//! message from the sample when it is due, serialises it once into one contiguous log, and hands every
//! socket the span of the log it has not got yet. Per socket it keeps an offset and nothing else: no reading
//! after the set-up, no epoll registration, no queue, no cache of key frames (a player starts with the
//! next message).
//!
//! Cadence. At 100 ms and 350 ms sockets are spread evenly over the period in slots of 5 ms, and get what is
//! ready in their slot. In low latency every socket gets each message as soon as it is due. When the loop
//! is late, what has become due meanwhile leaves in the same write: the policy of the servers compared.
//! A socket that takes nothing keeps its offset and is tried again at its next turn.
//!
//! Stamps carry the instant a message was due, so that latency includes the loop's own lateness.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use rtmp::chunk::write_play_message;
use rtmp::server::{PublishReject, ServerConfig, ServerEvent, ServerSession};
use serde::Serialize;
use socket2::{Domain, Protocol, Socket, Type};

use crate::cli::{Cadence, FloorArgs};
use crate::clock;
use crate::machine::{self, StopSignals};
use crate::sample::{Sample, Timeline};

/// Serves until SIGINT or SIGTERM. Prints `{"listen":...,"pid":...}`, then counters once a second.
///
/// # Errors
/// A text for the user when it cannot listen or the sample is unreadable.
pub fn run(args: &FloorArgs) -> Result<(), String> {
    let sample = match &args.sample {
        None => Sample::embedded()?,
        Some(path) => std::fs::read(path)
            .map_err(|error| error.to_string())
            .and_then(|file| Sample::from_flv(&file))
            .map_err(|error| format!("{}: {error}", path.display()))?,
    };
    if let Some(core) = args.core {
        machine::pin_to_core(core)?;
    }
    machine::ensure_descriptors(DESCRIPTORS)?;
    let signals = StopSignals::new().map_err(|error| format!("signals: {error}"))?;
    let listener = listen(args.listen).map_err(|error| format!("{}: {error}", args.listen))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    print_line(&serde_json::json!({ "listen": address.to_string(), "pid": std::process::id() }));
    let mut floor = Floor::new(listener, sample, args.mode).map_err(|error| format!("epoll: {error}"))?;
    while !signals.arrived() {
        floor.turn().map_err(|error| format!("epoll: {error}"))?;
    }
    print_line(&serde_json::json!(floor.counters));
    Ok(())
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(TcpListener::from_std(socket.into()))
}

struct Floor {
    poll: Poll,
    events: Events,
    listener: TcpListener,
    /// Connections in their RTMP set-up; the index is the epoll token.
    joining: Vec<Option<Joining>>,
    free: Vec<usize>,
    /// Players by slot of the period; one slot in low latency.
    slots: Vec<Vec<Player>>,
    next_slot: usize,
    /// Slot the next player gets.
    next_join: usize,
    /// When the next slot's turn is, wall clock nanoseconds (unused in low latency).
    slot_at_ns: u64,
    sample: Sample,
    timeline: Timeline,
    origin_ns: u64,
    /// Serialised messages; `log_base` is the offset of its first byte.
    log: Vec<u8>,
    log_base: u64,
    /// Metadata and sequence headers, serialised.
    prelude: Vec<u8>,
    print_at_ns: u64,
    counters: Counters,
}

struct Joining {
    socket: TcpStream,
    session: ServerSession,
    accepted: bool,
}

struct Player {
    socket: TcpStream,
    /// Offset in the log of the first byte not yet sent.
    sent: u64,
}

/// What is printed: sums since the start, and the number of players now.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Counters {
    /// Seconds since the start.
    t: f64,
    players: usize,
    /// Sum over time of the number of players, seconds.
    client_seconds: f64,
    /// `write` calls to players.
    writes: u64,
    /// Calls among them that took nothing or only a part.
    short_writes: u64,
    bytes: u64,
    messages: u64,
    /// Players whose connection was lost or that fell more than the log behind.
    gone: u64,
}

impl Floor {
    fn new(mut listener: TcpListener, sample: Sample, cadence: Cadence) -> io::Result<Floor> {
        let poll = Poll::new()?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let mut prelude = Vec::new();
        for (kind, body) in &sample.headers {
            write_play_message(&mut prelude, *kind, 0, body);
        }
        let slots = match cadence {
            Cadence::LowLatency => 1,
            Cadence::Ms100 => 100 / SLOT_MS,
            Cadence::Ms350 => 350 / SLOT_MS,
        };
        let now_ns = clock::wall_ns();
        Ok(Floor {
            poll,
            events: Events::with_capacity(1024),
            listener,
            joining: Vec::new(),
            free: Vec::new(),
            slots: (0..slots).map(|_| Vec::new()).collect(),
            next_slot: 0,
            next_join: 0,
            slot_at_ns: now_ns,
            sample,
            timeline: Timeline::new(now_ns),
            origin_ns: now_ns,
            log: Vec::with_capacity(2 * LOG_KEEP_BYTES),
            log_base: 0,
            prelude,
            print_at_ns: now_ns + PRINT_INTERVAL_NS,
            counters: Counters::default(),
        })
    }

    fn turn(&mut self) -> io::Result<()> {
        let wake_ns = if self.slots.len() > 1 { self.slot_at_ns } else { self.due_ns() };
        let timeout = Duration::from_nanos(wake_ns.saturating_sub(clock::wall_ns())).min(IDLE_TURN);
        match self.poll.poll(&mut self.events, Some(timeout)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => other?,
        }
        let now_ns = clock::wall_ns();
        let new_messages = self.append_due(now_ns);
        if self.slots.len() > 1 {
            while self.slot_at_ns <= now_ns {
                self.send_slot(self.next_slot);
                self.next_slot = (self.next_slot + 1) % self.slots.len();
                self.slot_at_ns += SLOT_MS as u64 * NS_PER_MS;
            }
        } else if new_messages {
            self.send_slot(0);
        }
        self.handle_joining();
        if now_ns >= self.print_at_ns {
            self.print_counters(now_ns);
        }
        Ok(())
    }

    fn due_ns(&self) -> u64 {
        self.origin_ns + self.timeline.next_due_ms(&self.sample) * NS_PER_MS
    }

    /// Serialises what has become due; `true` if there was anything.
    fn append_due(&mut self, now_ns: u64) -> bool {
        if self.log.len() > 2 * LOG_KEEP_BYTES {
            let dropped = self.log.len() - LOG_KEEP_BYTES;
            self.log.drain(..dropped);
            self.log_base += dropped as u64;
        }
        let before = self.log.len();
        while self.due_ns() <= now_ns {
            let due_ns = self.due_ns();
            let due = self.timeline.take(&mut self.sample, due_ns);
            write_play_message(&mut self.log, due.kind, due.timestamp, due.body);
            self.counters.messages += 1;
        }
        self.log.len() > before
    }

    /// One write per socket of the slot.
    fn send_slot(&mut self, slot: usize) {
        let end = self.log_base + self.log.len() as u64;
        let (log, base, counters) = (&self.log, self.log_base, &mut self.counters);
        self.slots[slot].retain_mut(|player| {
            let Some(unsent) = player.sent.checked_sub(base).and_then(|from| log.get(from as usize..)) else {
                counters.gone += 1;
                return false;
            };
            if unsent.is_empty() {
                return true;
            }
            counters.writes += 1;
            match player.socket.write(unsent) {
                Ok(written) => {
                    player.sent += written as u64;
                    counters.bytes += written as u64;
                    counters.short_writes += u64::from(player.sent < end);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => counters.short_writes += 1,
                Err(_) => {
                    counters.gone += 1;
                    return false;
                }
            }
            true
        });
    }

    fn handle_joining(&mut self) {
        let tokens: Vec<Token> = self.events.iter().map(|event| event.token()).collect();
        for token in tokens {
            if token == LISTENER {
                self.accept();
            } else {
                self.advance_joining(token.0);
            }
        }
    }

    /// Accepts all waiting connections. An error is no reason to stop: the peer may have closed
    /// already.
    fn accept(&mut self) {
        while let Ok((mut socket, _)) = self.listener.accept() {
            let index = self.free.pop().unwrap_or_else(|| {
                self.joining.push(None);
                self.joining.len() - 1
            });
            let registered = self.poll.registry().register(
                &mut socket,
                Token(index),
                Interest::READABLE | Interest::WRITABLE,
            );
            if socket.set_nodelay(true).is_err() || registered.is_err() {
                self.free.push(index);
                continue;
            }
            let session = ServerSession::new(&ServerConfig::default(), clock::wall_ns());
            self.joining[index] = Some(Joining { socket, session, accepted: false });
        }
    }

    fn advance_joining(&mut self, index: usize) {
        let Some(mut joining) = self.joining[index].take() else { return };
        match joining.advance(&self.prelude) {
            Ok(false) => {
                self.joining[index] = Some(joining);
                return;
            }
            Ok(true) => {
                if self.poll.registry().deregister(&mut joining.socket).is_ok() {
                    let sent = self.log_base + self.log.len() as u64;
                    self.slots[self.next_join].push(Player { socket: joining.socket, sent });
                    self.next_join = (self.next_join + 1) % self.slots.len();
                }
            }
            Err(()) => {}
        }
        self.free.push(index);
    }

    fn print_counters(&mut self, now_ns: u64) {
        let t = (now_ns - self.origin_ns) as f64 / 1e9;
        self.counters.players = self.slots.iter().map(Vec::len).sum();
        self.counters.client_seconds += self.counters.players as f64 * (t - self.counters.t);
        self.counters.t = t;
        self.print_at_ns += PRINT_INTERVAL_NS;
        print_line(&serde_json::json!(self.counters));
    }
}

impl Joining {
    /// Reads, answers and flushes; `Ok(true)` once the player has its prelude and only media is
    /// left to send. `Err` when the connection is useless.
    fn advance(&mut self, prelude: &[u8]) -> Result<bool, ()> {
        let mut buffer = [0; 16 * 1024];
        loop {
            match self.socket.read(&mut buffer) {
                Ok(0) => return Err(()),
                Ok(length) => self.session.handle_input(&buffer[..length]).map_err(|_| ())?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return Err(()),
            }
        }
        while let Some(event) = self.session.poll_event() {
            match event {
                ServerEvent::Connect(_) => self.session.accept_connect(),
                ServerEvent::Play(_) => {
                    self.session.accept_play();
                    self.session.output().extend_from_slice(prelude);
                    self.accepted = true;
                }
                ServerEvent::Publish(_) => {
                    self.session.reject_publish(PublishReject::BadName, "the floor only plays")
                }
                _ => {}
            }
        }
        let output = self.session.output();
        while !output.is_empty() {
            match self.socket.write(output) {
                Ok(written) => drop(output.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(_) => return Err(()),
            }
        }
        Ok(self.accepted)
    }
}

/// A closed standard output only means that the counters are not wanted.
fn print_line(value: &serde_json::Value) {
    let _ = writeln!(io::stdout(), "{value}");
}

const LISTENER: Token = Token(usize::MAX - 1);
const BACKLOG: i32 = 4096;
const SLOT_MS: usize = 5;

/// What a slow socket may be behind: 55 s of the embedded sample.
const LOG_KEEP_BYTES: usize = 4 << 20;
const DESCRIPTORS: usize = 18_000;
const IDLE_TURN: Duration = Duration::from_millis(100);
const PRINT_INTERVAL_NS: u64 = 1_000_000_000;
const NS_PER_MS: u64 = 1_000_000;
