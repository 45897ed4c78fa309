//! A player by HTTP-FLV or WebSocket-FLV, built on `rtmp`'s FLV reader.

use std::collections::VecDeque;
use std::time::Instant;

use netsim::kernel::{self, EventQueue};
use rtmp::flv::FlvReader;

use super::line::Line;
use super::rtmp_play::Plan;
use super::{Actor, Leave, Next, ms};
use crate::checker::Checker;
use crate::ledger::Ledger;

/// How FLV is carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// The body of an HTTP/1.0 response.
    Plain,
    /// The chunked body of an HTTP/1.1 response.
    Chunked,
    /// Binary messages of a WebSocket.
    WebSocket,
}

/// A player.
pub struct FlvPlayer {
    plan: Plan,
    carrier: Carrier,
    queue: EventQueue,
    line: Line,
    flv: FlvReader,
    checker: Checker,
    began: Instant,
    /// The response head has come.
    started: bool,
    leaving: bool,
    is_silent: bool,
    next_look: Instant,
    /// When it is looked at next whether it is in time.
    next_check: Instant,
    /// Pings of a WebSocket that were not answered yet: when, and what they say.
    pings: VecDeque<(Instant, u32)>,
    next_ping: Instant,
    /// What has come and was not taken apart.
    inbox: Vec<u8>,
}

impl FlvPlayer {
    /// One that connects now.
    pub fn new(ledger: &mut Ledger, plan: Plan, carrier: Carrier) -> Self {
        let queue = EventQueue::new();
        let mut line = Line::connect(&queue, plan.from, ledger.servers[plan.at].http);
        let (path, query) = (plan.key.name(), plan.query(ledger));
        let version = if carrier == Carrier::Plain { "1.0" } else { "1.1" };
        let upgrade = match carrier {
            Carrier::WebSocket => {
                "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                 Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            }
            _ => "",
        };
        let request = format!("GET /live/{path}.flv{query} HTTP/{version}\r\nHost: sim\r\n{upgrade}\r\n");
        line.out.extend(request.into_bytes());
        let now = kernel::now();
        let who = format!("{carrier:?} FLV player {} of {:?}", plan.from, plan.key);
        let checker = Checker::new(plan.key, plan.at, who, line.local());
        Self {
            plan,
            carrier,
            queue,
            line,
            flv: FlvReader::new(16 << 20),
            checker,
            began: now,
            started: false,
            leaving: false,
            is_silent: false,
            next_look: now,
            next_check: now,
            pings: VecDeque::new(),
            next_ping: now,
            inbox: Vec::new(),
        }
    }

    /// Takes apart what has come; says whether it is over.
    fn take_apart(&mut self, ledger: &mut Ledger) -> bool {
        if !self.started {
            let Some(end) = self.inbox.windows(4).position(|four| four == b"\r\n\r\n") else { return false };
            let head: Vec<u8> = self.inbox.drain(..end + 4).collect();
            let head = String::from_utf8_lossy(&head).into_owned();
            let expected = if self.carrier == Carrier::WebSocket { " 101 " } else { " 200 " };
            let status = head.lines().next().unwrap_or_default();
            if !status.contains(expected) {
                let may = !self.plan.is_allowed(ledger) || self.plan.may_be_refused(ledger);
                ledger.check(may, || format!("FLV player {}: {status}", self.plan.from));
                ledger.say(|| format!("FLV player {}: {status}", self.plan.from));
                return true;
            }
            let is_chunked = head.contains("Transfer-Encoding: chunked");
            ledger.check(is_chunked == (self.carrier == Carrier::Chunked), || format!("answered by {head}"));
            let may = self.plan.is_allowed(ledger);
            ledger.check(may, || format!("{:?}: let in without a token", self.plan));
            self.started = true;
        }
        let mut over = false;
        match self.carrier {
            Carrier::Plain => {
                self.flv.push(&self.inbox);
                self.inbox.clear();
            }
            Carrier::Chunked => {
                while let Some(end) = self.inbox.windows(2).position(|two| two == b"\r\n") {
                    let size = str::from_utf8(&self.inbox[..end]).ok();
                    let Some(size) = size.and_then(|size| usize::from_str_radix(size, 16).ok()) else {
                        ledger.violation(format!("FLV player: a chunk of size {:?}", &self.inbox[..end]));
                        return true;
                    };
                    let whole = end + 2 + size + 2;
                    if self.inbox.len() < whole {
                        break;
                    }
                    self.flv.push(&self.inbox[end + 2..end + 2 + size]);
                    self.inbox.drain(..whole);
                    over |= size == 0;
                    if self.tags(ledger) {
                        return true;
                    }
                }
            }
            Carrier::WebSocket => {
                while self.inbox.len() >= 2 {
                    let (opcode, short) = (self.inbox[0] & 0x0f, usize::from(self.inbox[1]));
                    let (header, len) = match short {
                        126 if self.inbox.len() >= 4 => {
                            (4, usize::from(u16::from_be_bytes([self.inbox[2], self.inbox[3]])))
                        }
                        127 if self.inbox.len() >= 10 => {
                            let bytes = self.inbox[2..10].try_into().expect("eight bytes");
                            (10, u64::from_be_bytes(bytes) as usize)
                        }
                        126 | 127 => break,
                        short => (2, short),
                    };
                    if self.inbox.len() < header + len {
                        break;
                    }
                    match opcode {
                        2 => self.flv.push(&self.inbox[header..header + len]),
                        8 => over = true,
                        10 => {
                            let pong = self.inbox[header..header + len].to_vec();
                            let ping = self.pings.pop_front();
                            let is_right = ping.is_some_and(|(_, number)| pong == number.to_be_bytes());
                            ledger.check(is_right, || format!("FLV player: {pong:?} answers {ping:?}"));
                        }
                        other => ledger.violation(format!("FLV player: a WebSocket frame of type {other}")),
                    }
                    self.inbox.drain(..header + len);
                    if self.tags(ledger) {
                        return true;
                    }
                }
            }
        }
        self.tags(ledger) || over
    }

    /// Takes the tags that are whole; says whether it is over.
    fn tags(&mut self, ledger: &mut Ledger) -> bool {
        loop {
            match self.flv.next_tag() {
                Ok(Some(tag)) => self.checker.message(ledger, tag.kind, tag.timestamp, &tag.body),
                Ok(None) => return false,
                Err(error) => {
                    ledger.violation(format!("FLV player {}: not FLV: {error:?}", self.plan.from));
                    return true;
                }
            }
        }
    }
}

impl Actor for FlvPlayer {
    fn turn(&mut self, ledger: &mut Ledger) -> Next {
        self.queue.wait(&mut Vec::new());
        let now = kernel::now();
        self.line.flush();
        let (most, next) = self.plan.pace(now, self.began);
        if self.plan.bytes_per_second.is_none() || now >= self.next_look {
            self.next_look = now + ms(100);
            let ended = self.line.read(most, &mut self.inbox);
            if self.take_apart(ledger) || ended.is_some() {
                ledger.say(|| format!("FLV player {} over: {ended:?}", self.plan.from));
                if self.started && self.plan.may_stay() {
                    self.checker.is_ended_for_a_reason(ledger);
                }
                return Next::Done;
            }
        }
        let pings = self.started && self.carrier == Carrier::WebSocket && !self.is_silent;
        if pings && now >= self.next_ping && self.pings.len() < 8 {
            self.next_ping = now + ms(100 + ledger.random.below(3_000));
            let number = ledger.random.next_u64() as u32;
            self.pings.push_back((now, number));
            // Masked with zeros.
            self.line.out.extend([0x89, 0x84, 0, 0, 0, 0]);
            self.line.out.extend(number.to_be_bytes());
            self.line.flush();
        }
        if self.leaving || !self.is_silent && now >= self.began + self.plan.lasts {
            match self.plan.leave {
                Leave::Properly if self.started && self.carrier == Carrier::WebSocket => {
                    // A masked close frame without a reason.
                    self.line.out.extend([0x88, 0x80, 1, 2, 3, 4]);
                    self.line.flush();
                    self.line.finish();
                }
                Leave::Properly => self.line.finish(),
                Leave::Resetting => self.line.close(true),
                Leave::Closing => {}
                Leave::Silently if self.leaving => {}
                // It reads no more, and its server has to notice.
                Leave::Silently => {
                    (self.plan.bytes_per_second, self.is_silent) = (Some(0), true);
                    return Next::At(now + ms(100));
                }
            }
            return Next::Done;
        }
        let is_checked = self.started && self.plan.is_attentive(now, self.began);
        if is_checked && now >= self.next_check {
            self.next_check = now + ms(100);
            let most = self.plan.delay_max(ledger);
            let slack = ledger.slack;
            let late = self.pings.front().is_some_and(|(since, _)| now > *since + most + slack);
            ledger.check(!late || ledger.is_draining, || {
                format!("FLV player {}: a ping without a pong", self.plan.from)
            });
            self.checker.is_in_time(ledger, most);
            self.checker.is_not_forgotten(ledger);
        }
        next
    }

    fn queue(&self) -> &EventQueue {
        &self.queue
    }

    fn leave(&mut self) {
        self.leaving = true;
    }
}

impl std::fmt::Debug for FlvPlayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlvPlayer").field("plan", &self.plan).finish_non_exhaustive()
    }
}
