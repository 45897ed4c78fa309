//! A publisher by RTMP, built on the client machine of `rtmp`.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use netsim::kernel::{self, EventQueue};
use rtmp::RtmpUrl;
use rtmp::client::{ClientConfig, ClientEvent, ClientSession};

use super::line::Line;
use super::{Actor, Leave, Next, Shows, ms};
use crate::content::{Content, FRAME_MS};
use crate::ledger::{Ledger, StreamKey};

/// Bytes a publisher keeps for a slow line before it makes no more frames.
const BACKLOG_MAX: usize = 64 << 10;

/// How one publishes.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Which stream.
    pub key: StreamKey,
    /// From where.
    pub from: IpAddr,
    /// Pictures from one key frame to the next.
    pub gop: u32,
    /// Bytes of a picture.
    pub video_bytes: u32,
    /// How long, from the start on.
    pub lasts: Duration,
    /// And then.
    pub leave: Leave,
    /// Times it connects again when it was thrown out.
    pub retries: u32,
    /// Its path loses no time.
    pub is_steady: bool,
    /// If there is a token.
    pub shows: Shows,
    /// Time between two lots of frames: those of it are sent at once.
    pub burst: Duration,
    /// Times it comes back after it left, and how long it is away.
    pub returns: (u32, Duration),
}

/// A publisher.
pub struct RtmpPublisher {
    plan: Plan,
    queue: EventQueue,
    line: Line,
    session: ClientSession,
    content: Option<Content>,
    number: u32,
    next_frame: Instant,
    next_lot: Instant,
    began: Option<Instant>,
    connected: Instant,
    /// It has left, and comes back then.
    away_until: Option<Instant>,
    /// It has fallen silent: since when the server has heard nothing.
    silent: Option<Instant>,
    leaving: bool,
    inbox: Vec<u8>,
}

impl RtmpPublisher {
    /// One that connects now.
    pub fn new(ledger: &mut Ledger, plan: Plan) -> Self {
        let queue = EventQueue::new();
        let (line, session) = connect(ledger, &plan, &queue);
        let now = kernel::now();
        Self {
            plan,
            queue,
            line,
            session,
            content: None,
            number: 0,
            next_frame: now,
            next_lot: now,
            began: None,
            connected: now,
            away_until: None,
            silent: None,
            leaving: false,
            inbox: Vec::new(),
        }
    }

    fn who(&self) -> String {
        format!("RTMP publisher {} of {:?}", self.plan.from, self.plan.key)
    }

    fn events(&mut self, ledger: &mut Ledger) -> bool {
        let mut over = false;
        while let Some(event) = self.session.poll_event() {
            let who = self.who();
            match event {
                ClientEvent::Started => {
                    let may = self.plan.shows.lets_in(ledger, self.plan.key.server);
                    ledger.check(may, || format!("{who}: let in without a token"));
                    let Plan { key, gop, video_bytes, is_steady, .. } = self.plan;
                    let content = ledger.publish(key, gop, video_bytes, is_steady);
                    ledger.say(|| format!("{who}: publication {} begins", content.id));
                    for config in content.configs() {
                        self.session.send_media(config.kind, config.timestamp, &config.body);
                    }
                    self.content = Some(content);
                    self.number = 0;
                    (self.began, self.next_frame) = (Some(kernel::now()), kernel::now());
                }
                ClientEvent::Rejected { code, description } => {
                    let may = !self.plan.shows.lets_in(ledger, self.plan.key.server)
                        || ledger.may_end_publisher(self.plan.key);
                    ledger.check(may, || format!("{who}: rejected: {code} {description}"));
                    ledger.say(|| format!("{who}: rejected: {code} {description}"));
                    over = true;
                }
                ClientEvent::Ended { code } => {
                    ledger.say(|| format!("{who}: ended: {code}"));
                    over = true;
                }
                ClientEvent::Status { .. } => {}
                ClientEvent::Media(_) => ledger.violation(format!("{who}: got media")),
            }
        }
        over
    }

    fn end(&mut self, ledger: &mut Ledger) {
        if let Some(content) = self.content.take() {
            ledger.ended(content.id);
        }
    }

    /// The connection is over: connect again, or leave for good.
    fn over(&mut self, ledger: &mut Ledger) -> Next {
        if self.content.is_some() {
            ledger.cut(self.plan.key);
            // Who sends all the time, and not in lots, is ended for a reason.
            let stays = self.plan.is_steady && self.silent.is_none() && self.plan.burst.is_zero();
            let may = !stays || self.leaving || ledger.may_end_publisher(self.plan.key);
            ledger.check(may, || format!("{}: ended", self.who()));
        }
        self.end(ledger);
        self.line.close(false);
        if self.plan.retries == 0 || self.leaving || self.silent.is_some() {
            return Next::Done;
        }
        self.plan.retries -= 1;
        self.connect_again(ledger)
    }

    fn connect_again(&mut self, ledger: &mut Ledger) -> Next {
        (self.line, self.session) = connect(ledger, &self.plan, &self.queue);
        (self.connected, self.began) = (kernel::now(), None);
        Next::At(kernel::now() + ms(100))
    }
}

fn connect(ledger: &mut Ledger, plan: &Plan, queue: &EventQueue) -> (Line, ClientSession) {
    ledger.attempt(plan.key);
    let server = &ledger.servers[plan.key.server];
    let query = plan.shows.query(ledger, plan.key.server);
    let text = format!("rtmp://{}:{}/live/{}{query}", server.rtmp.ip(), server.rtmp.port(), plan.key.name());
    let url: RtmpUrl = text.parse().expect("a URL");
    let line = Line::connect(queue, plan.from, server.rtmp);
    let chunk_size = [128, 4096, 60_000][ledger.random.below(3) as usize];
    let config = ClientConfig { chunk_size, ..ClientConfig::default() };
    (line, ClientSession::publish(&url, &config, ledger.random.next_u64()))
}

impl Actor for RtmpPublisher {
    fn turn(&mut self, ledger: &mut Ledger) -> Next {
        self.queue.wait(&mut Vec::new());
        let now = kernel::now();
        if let Some(until) = self.away_until {
            if self.leaving {
                return Next::Done;
            }
            if now < until {
                return Next::At(until);
            }
            self.away_until = None;
            return self.connect_again(ledger);
        }
        self.inbox.clear();
        let ended = self.line.read(usize::MAX, &mut self.inbox);
        if let Err(error) = self.session.handle_input(&self.inbox) {
            ledger.violation(format!("{}: the server breaks the protocol: {error:?}", self.who()));
            return Next::Done;
        }
        let over = self.events(ledger);
        if let Some(ended) = ended {
            let who = self.who();
            ledger.say(|| format!("{who}: connection over: {ended:?}"));
            return self.over(ledger);
        }
        if over {
            return self.over(ledger);
        }
        if let Some(since) = self.silent {
            // The server ends it.
            let limit = ledger.servers[self.plan.key.server].publisher_idle_timeout + ms(5_000);
            let (who, late) = (self.who(), now > since + limit + ledger.slack);
            ledger.check(!late, || {
                format!("{who}: silent for {:?} and not ended", now.saturating_duration_since(since))
            });
            return if late || self.leaving { self.over(ledger) } else { Next::At(now + ms(500)) };
        }
        if self.began.is_some_and(|began| now >= began + self.plan.lasts) || self.leaving {
            self.end(ledger);
            if self.plan.leave == Leave::Properly {
                self.session.end();
            }
            self.line.out.append(self.session.output());
            self.line.flush();
            if self.plan.leave == Leave::Resetting || !self.line.out.is_empty() {
                ledger.cut(self.plan.key);
            }
            match self.plan.leave {
                Leave::Properly => self.line.finish(),
                Leave::Resetting => self.line.close(true),
                Leave::Closing => {}
                Leave::Silently if !self.leaving => {
                    self.silent = Some(self.line.last_arrival().map_or(now, |last| last.max(now)));
                    return Next::At(now + ms(500));
                }
                Leave::Silently => {}
            }
            self.line.close(false);
            let (left, away) = self.plan.returns;
            if left == 0 || self.leaving {
                return Next::Done;
            }
            self.plan.returns.0 -= 1;
            self.away_until = Some(now + away);
            return Next::At(now + away);
        }
        if let Some(content) = self.content.filter(|_| now >= self.next_lot) {
            self.next_lot = now + self.plan.burst;
            while self.next_frame <= now && self.line.out.len() < BACKLOG_MAX {
                let frame = content.frame(self.number);
                self.session.send_media(frame.kind, frame.timestamp, &frame.body);
                ledger.sent(content.id, self.number);
                self.number += 1;
                self.next_frame += ms(u64::from(FRAME_MS));
            }
            if self.next_frame <= now {
                self.next_frame = now;
            }
        }
        self.line.out.append(self.session.output());
        self.line.flush();
        let next = if self.content.is_some() {
            self.next_frame.max(self.next_lot).max(now + ms(1))
        } else {
            now + ms(500)
        };
        Next::At(next)
    }

    fn queue(&self) -> &EventQueue {
        &self.queue
    }

    fn leave(&mut self) {
        self.leaving = true;
    }
}

impl std::fmt::Debug for RtmpPublisher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RtmpPublisher").field("plan", &self.plan).finish_non_exhaustive()
    }
}
