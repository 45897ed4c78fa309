//! Clients that mean no good, or are broken, and those that ask for what is not media.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use netsim::kernel::{self, EventQueue};

use super::line::Line;
use super::{Actor, Next, ms};
use crate::ledger::Ledger;

/// Longest time for an answer to a request of the API.
const ANSWER_MAX: Duration = Duration::from_secs(8);

/// Most bytes that somebody gets who never asks for anything: the server's side of an RTMP
/// handshake, which is as long as the client's, or an error.
const ANSWER_BYTES_MAX: usize = 1 + 2 * 1_536 + 512;

/// What one does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Habit {
    /// Connects and says nothing.
    Mute,
    /// Sends random bytes.
    Garbage,
    /// Sends a request, a byte a second.
    Slow,
    /// Sends half of something and closes.
    Half,
    /// Asks for something of the API, one request after the other, on one connection.
    Api,
    /// Asks for many streams that are not there, without reading the answers.
    Unread,
}

impl Habit {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Mute, Self::Garbage, Self::Slow, Self::Half, Self::Api, Self::Unread];
}

/// One of them.
pub struct Hostile {
    habit: Habit,
    server: usize,
    from: IpAddr,
    queue: EventQueue,
    line: Line,
    began: Instant,
    /// When it was seen that the server has it; for who may have to wait for a descriptor, that a worker has
    /// accepted it.
    admitted: Option<Instant>,
    requests: u32,
    answers: u32,
    asked: Instant,
    leaving: bool,
    inbox: Vec<u8>,
}

impl Hostile {
    /// One that connects now, to RTMP or HTTP.
    pub fn new(ledger: &mut Ledger, server: usize, from: IpAddr, habit: Habit) -> Self {
        let queue = EventQueue::new();
        let view = &ledger.servers[server];
        let by_http = matches!(habit, Habit::Slow | Habit::Api | Habit::Unread);
        let to = if by_http || ledger.random.chance(0.5) { view.http } else { view.rtmp };
        let mut line = Line::connect(&queue, from, to);
        match habit {
            Habit::Garbage | Habit::Half => {
                let len = ledger.random.below(5_000) as usize;
                // The first byte is RTMP's version now and then.
                let first = if ledger.random.chance(0.5) { 3 } else { b'G' };
                line.out.push(first);
                line.out.extend((0..len).map(|_| ledger.random.next_u64() as u8));
            }
            Habit::Unread => {
                let request = "GET /live/nothing.flv HTTP/1.1\r\nHost: sim\r\n\r\n".repeat(20_000);
                line.out.extend(request.into_bytes());
            }
            Habit::Mute | Habit::Slow | Habit::Api => {}
        }
        let now = kernel::now();
        Self {
            habit,
            server,
            from,
            queue,
            line,
            began: now,
            admitted: None,
            requests: 0,
            answers: 0,
            asked: now,
            leaving: false,
            inbox: Vec::new(),
        }
    }
}

impl Hostile {
    /// Whether an answer should have come.
    fn is_overdue(&self, ledger: &Ledger) -> bool {
        let since = self.admitted.map(|since| since.max(self.asked));
        let late = since.is_some_and(|since| kernel::now() > since + ANSWER_MAX + ledger.slack);
        late && !ledger.is_draining
    }
}

impl Actor for Hostile {
    fn turn(&mut self, ledger: &mut Ledger) -> Next {
        self.queue.wait(&mut Vec::new());
        let now = kernel::now();
        if self.habit == Habit::Unread {
            self.line.flush();
            let over = self.leaving || now > self.began + ms(20_000);
            return if over { Next::Done } else { Next::At(now + ms(1_000)) };
        }
        let ended = self.line.read(usize::MAX, &mut self.inbox);
        let most = if self.habit == Habit::Api { usize::MAX } else { ANSWER_BYTES_MAX };
        let (habit, len) = (self.habit, self.inbox.len());
        ledger.check(len <= most, || format!("{habit:?} client {} was answered {len} bytes", self.from));
        if ended.is_some() {
            ledger.say(|| format!("{:?} {} over: {ended:?}", self.habit, self.from));
            return Next::Done;
        }
        if self.leaving {
            return Next::Done;
        }
        let is_admitted =
            if ledger.is_crowded { self.line.is_accepted() } else { self.line.is_established() };
        if self.admitted.is_none() && is_admitted {
            self.admitted = Some(now);
        }
        // It has to be thrown out, but for one that asks properly.
        let limit = ledger.servers[self.server].handshake_timeout + ms(8_000) + ledger.slack;
        let is_late = self.admitted.is_some_and(|since| now > since + limit);
        if is_late && self.habit != Habit::Api {
            ledger.violation(format!("{:?} client {} is still there after {limit:?}", self.habit, self.from));
            return Next::Done;
        }
        match self.habit {
            Habit::Slow => {
                let request =
                    b"GET /live/s0.flv HTTP/1.1\r\nX-Long: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
                let due = (now - self.began).as_secs() as usize;
                while (self.requests as usize) < due.min(request.len()) {
                    self.line.out.push(request[self.requests as usize]);
                    self.requests += 1;
                }
            }
            Habit::Half => {
                self.line.flush();
                if self.line.out.is_empty() {
                    return Next::Done;
                }
            }
            Habit::Api => {
                let answered = self.inbox.windows(4).filter(|four| *four == b"\r\n\r\n").count() as u32;
                if answered > self.answers {
                    self.answers = answered;
                    ledger.check(self.answers <= self.requests, || "an answer nobody asked for".to_owned());
                }
                if self.answers == self.requests {
                    if self.requests >= 5 {
                        return Next::Done;
                    }
                    // Now and then without waiting for the answer to the one before.
                    for _ in 0..1 + ledger.random.below(2) {
                        self.requests += 1;
                        self.asked = now;
                        self.line.out.extend(b"GET /api/v1/health HTTP/1.1\r\nHost: sim\r\n\r\n");
                    }
                } else if self.is_overdue(ledger) {
                    ledger.violation(format!("{} has no answer to request {}", self.from, self.requests));
                    return Next::Done;
                }
            }
            Habit::Mute | Habit::Garbage | Habit::Unread => {}
        }
        self.line.flush();
        Next::At(now + ms(500))
    }

    fn queue(&self) -> &EventQueue {
        &self.queue
    }

    fn leave(&mut self) {
        self.leaving = true;
    }
}

impl std::fmt::Debug for Hostile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hostile").field("habit", &self.habit).finish_non_exhaustive()
    }
}
