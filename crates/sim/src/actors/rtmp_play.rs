//! A player by RTMP, built on the client machine of `rtmp`.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use netsim::kernel::{self, EventQueue};
use rtmp::RtmpUrl;
use rtmp::client::{ClientConfig, ClientEvent, ClientSession};

use super::line::Line;
use super::{Actor, Leave, Next, Shows, ms};
use crate::checker::Checker;
use crate::ledger::{Ledger, StreamKey};

/// Longest time until who has not read for a while is up to date: the next key frame, if it missed some.
const NAP_SLACK: Duration = Duration::from_secs(13);

/// How one plays, by any protocol over TCP.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Which stream.
    pub key: StreamKey,
    /// At which server: that of the stream, or another of its cluster.
    pub at: usize,
    /// From where.
    pub from: IpAddr,
    /// Bytes it reads in a second; `None`: all.
    pub bytes_per_second: Option<usize>,
    /// How long.
    pub lasts: Duration,
    /// And then.
    pub leave: Leave,
    /// Its path loses no time, so that it is in time if it reads all.
    pub is_steady: bool,
    /// If there is a token.
    pub shows: Shows,
    /// It reads nothing between these times after it came, and then all.
    pub naps: Option<(Duration, Duration)>,
    /// It has paused between these times after it came, if its protocol knows that.
    pub pauses: Option<(Duration, Duration)>,
}

impl Plan {
    /// The bytes to be read in a turn, and when the next one is.
    pub(super) fn pace(&self, now: Instant, began: Instant) -> (usize, Next) {
        match (self.bytes_per_second, self.naps) {
            (Some(rate), _) => (rate.div_ceil(10), Next::At(now + ms(100))),
            (None, Some((from, to))) if (began + from..began + to).contains(&now) => {
                (0, Next::At(began + to))
            }
            (None, _) => (usize::MAX, Next::At(now + ms(500))),
        }
    }

    /// Whether it reads all it gets, and has for a while, so that it is in time.
    pub(super) fn is_attentive(&self, now: Instant, began: Instant) -> bool {
        let is_over = |(from, to)| now < began + from || now > began + to + NAP_SLACK;
        let is_rested = self.naps.is_none_or(is_over) && self.pauses.is_none_or(is_over);
        self.is_steady && self.bytes_per_second.is_none() && is_rested
    }

    /// Whether nothing that it does, or does not do, is a reason to end it.
    pub(super) fn may_stay(&self) -> bool {
        self.is_steady && self.bytes_per_second.is_none() && self.naps.is_none()
    }

    /// Whether its server may refuse it, if it shows what lets it in.
    pub(super) fn may_be_refused(&self, ledger: &Ledger) -> bool {
        !self.is_steady || ledger.has_broken_links || ledger.may_end_player(self.key, self.at)
    }

    /// The longest a frame may be under way to a player that reads all.
    pub(super) fn delay_max(&self, ledger: &Ledger) -> Duration {
        ledger.servers[self.at].merge_latency + ms(2_000)
    }

    /// The query that lets in, if it has one.
    pub(super) fn query(&self, ledger: &Ledger) -> String {
        self.shows.query(ledger, self.at)
    }

    pub(super) fn is_allowed(&self, ledger: &Ledger) -> bool {
        self.shows.lets_in(ledger, self.at)
    }
}

/// A player.
pub struct RtmpPlayer {
    plan: Plan,
    queue: EventQueue,
    line: Line,
    session: ClientSession,
    checker: Checker,
    began: Instant,
    started: bool,
    leaving: bool,
    is_silent: bool,
    /// Since when it has paused.
    paused: Option<Instant>,
    next_look: Instant,
    /// When it is looked at next whether it is in time.
    next_check: Instant,
    inbox: Vec<u8>,
}

impl RtmpPlayer {
    /// One that connects now.
    pub fn new(ledger: &mut Ledger, plan: Plan) -> Self {
        let queue = EventQueue::new();
        let server = &ledger.servers[plan.at];
        let (ip, port) = (server.rtmp.ip(), server.rtmp.port());
        let text = format!("rtmp://{ip}:{port}/live/{}{}", plan.key.name(), plan.query(ledger));
        let url: RtmpUrl = text.parse().expect("a URL");
        let line = Line::connect(&queue, plan.from, server.rtmp);
        let session = ClientSession::play(&url, &ClientConfig::default(), ledger.random.next_u64());
        let now = kernel::now();
        let who = format!("RTMP player {} of {:?}", plan.from, plan.key);
        let checker = Checker::new(plan.key, plan.at, who, line.local());
        Self {
            plan,
            queue,
            line,
            session,
            checker,
            began: now,
            started: false,
            leaving: false,
            is_silent: false,
            paused: None,
            next_look: now,
            next_check: now,
            inbox: Vec::new(),
        }
    }
}

impl Actor for RtmpPlayer {
    fn turn(&mut self, ledger: &mut Ledger) -> Next {
        self.queue.wait(&mut Vec::new());
        let now = kernel::now();
        let (most, next) = self.plan.pace(now, self.began);
        if self.plan.bytes_per_second.is_none() || now >= self.next_look {
            self.next_look = now + ms(100);
            self.inbox.clear();
            let ended = self.line.read(most, &mut self.inbox);
            if let Err(error) = self.session.handle_input(&self.inbox) {
                ledger.violation(format!("RTMP player: the server breaks the protocol: {error:?}"));
                return Next::Done;
            }
            let mut over = ended.is_some();
            while let Some(event) = self.session.poll_event() {
                match event {
                    ClientEvent::Started => {
                        self.started = true;
                        let may = self.plan.is_allowed(ledger);
                        ledger.check(may, || format!("{:?}: let in without a token", self.plan));
                    }
                    ClientEvent::Media(media) => {
                        let under_way = self.plan.delay_max(ledger) + ledger.slack;
                        let is_quiet = self.paused.is_some_and(|since| now > since + under_way);
                        ledger.check(!is_quiet || !self.plan.may_stay(), || {
                            format!("RTMP player {}: gets media in a pause", self.plan.from)
                        });
                        self.checker.message(ledger, media.kind, media.timestamp, &media.payload);
                    }
                    ClientEvent::Rejected { code, .. } => {
                        let may = !self.plan.is_allowed(ledger) || self.plan.may_be_refused(ledger);
                        ledger.check(may, || format!("{:?}: rejected: {code}", self.plan));
                        over = true;
                    }
                    ClientEvent::Ended { .. } => over = true,
                    ClientEvent::Status { .. } => {}
                }
            }
            if over {
                ledger.say(|| format!("RTMP player {} over: {ended:?}", self.plan.from));
                if self.started && self.plan.may_stay() {
                    self.checker.is_ended_for_a_reason(ledger);
                }
                return Next::Done;
            }
        }
        if self.leaving || !self.is_silent && now >= self.began + self.plan.lasts {
            match self.plan.leave {
                Leave::Properly => {
                    self.session.end();
                    self.line.out.append(self.session.output());
                    self.line.flush();
                    self.line.finish();
                }
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
        let pauses = |(from, to)| (self.began + from..self.began + to).contains(&now);
        let pauses = self.started && self.plan.pauses.is_some_and(pauses);
        if pauses != self.paused.is_some() {
            self.paused = pauses.then_some(now);
            self.session.pause(pauses, 0);
            self.checker.skips();
        }
        let is_checked = self.started && self.plan.is_attentive(now, self.began);
        if is_checked && now >= self.next_check {
            self.next_check = now + ms(100);
            self.checker.is_in_time(ledger, self.plan.delay_max(ledger));
            self.checker.is_not_forgotten(ledger);
        }
        self.line.out.append(self.session.output());
        self.line.flush();
        next
    }

    fn queue(&self) -> &EventQueue {
        &self.queue
    }

    fn leave(&mut self) {
        self.leaving = true;
    }
}

impl std::fmt::Debug for RtmpPlayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RtmpPlayer").field("plan", &self.plan).finish_non_exhaustive()
    }
}
