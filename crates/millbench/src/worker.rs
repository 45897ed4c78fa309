//! One event-loop thread and the sessions that live on it.
//!
//! The loop is single-threaded and edge-triggered: every socket is registered once for reading and
//! writing. Orders come from the coordinator over a channel looked at once per turn; reports go back over
//! another. Nothing else is shared between threads.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use group_send::{RecvBatch, RecvConfig};
use mio::{Events, Poll, Token};

use crate::clock;
use crate::counters::{Counters, Traffic};
use crate::net::{Protocols, Target};
use crate::sample::Sample;
use crate::session::{Lent, Phase, Role, Session};
use crate::stats::{Counted, Times, counted};
use crate::tally::{Count, Judged};

/// What a worker needs to know from the start.
#[derive(Clone, Debug)]
pub struct WorkerConfig {
    /// Number of this worker, from 0.
    pub index: usize,
    /// Workers of the run; session `k` lives on worker `k % workers`.
    pub workers: usize,
    /// Where publishers go.
    pub publish: Option<Target>,
    /// Where players go.
    pub play: Option<Target>,
    /// Streams that `{}` counts through.
    pub streams: usize,
    /// Sessions started per second by the whole run.
    pub ramp: f64,
    /// Time a session has to come up.
    pub start_timeout: Duration,
    /// Age of the last frame at which a player has failed at the end.
    pub silence: Duration,
    /// Simulated players' buffer, milliseconds.
    pub buffer_ms: u32,
    /// Time between two pulses of a publisher, milliseconds; 0 sends each message when it is due.
    pub pulse_ms: u32,
    /// Least time between two looks at the sockets, milliseconds.
    pub turn_ms: u32,
    /// Media to publish.
    pub sample: Sample,
}

/// What the coordinator wants.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    /// Hold this many publishers in the whole run.
    Publishers(usize),
    /// Hold this many players in the whole run.
    Players(usize),
    /// Begin measuring.
    OpenWindow,
    /// End measuring and report the window.
    CloseWindow,
    /// Judge, close and return.
    Finish,
}

/// A report of a worker.
#[derive(Debug)]
pub enum Report {
    /// State now; sent about ten times a second.
    Status(Box<Status>),
    /// Answer to `CloseWindow`.
    Window(Box<Window>),
    /// Answer to `Finish`; the last report.
    Finished(Box<Verdict>),
}

/// State of a worker at one moment.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Number of the worker.
    pub worker: usize,
    /// Publishers by phase.
    pub publishers: Population,
    /// Players by phase.
    pub players: Population,
    /// Counters since the start.
    pub traffic: Traffic,
    /// Latencies since the last status.
    pub latency: Times,
}

/// Sessions by phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Population {
    /// Connecting or waiting for acceptance or the first frame.
    pub starting: usize,
    /// Up.
    pub up: usize,
    /// Failed.
    pub failed: usize,
}

counted!(Population { starting, up, failed });

/// What happened between `OpenWindow` and `CloseWindow`.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// Traffic of the window.
    pub traffic: Traffic,
    /// Latencies of live frames that arrived in the window.
    pub latency: Times,
    /// What stamps that arrived in the window say.
    pub judged: Judged,
    /// Bytes not delivered in time: players that fell behind their publisher by more than a second during the
    /// window, times the sample's rate. Stamps cannot show these, because what is late may still come.
    pub late_bytes: u64,
    /// Media bytes publishers' sockets did not take at the end of the window.
    pub unsent_bytes: u64,
    /// Playback stalls that began in the window.
    pub stalls: u64,
    /// Players up at the end of the window, stamped or not.
    pub players_up: usize,
    /// Players whose stream carries stamps.
    pub players_stamped: usize,
}

impl Window {
    /// Adds another worker's window.
    pub fn merge(&mut self, other: &Window) {
        self.traffic.add(&other.traffic);
        self.latency.merge(&other.latency);
        self.judged.add(&other.judged);
        self.late_bytes += other.late_bytes;
        self.unsent_bytes += other.unsent_bytes;
        self.stalls += other.stalls;
        self.players_up += other.players_up;
        self.players_stamped += other.players_stamped;
    }
}

/// The final report of a worker on its sessions.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Sessions that did all they should.
    pub succeeded: usize,
    /// Sessions that failed, by reason.
    pub failures: BTreeMap<String, usize>,
    /// Stamped comparison over the whole run.
    pub judged: Judged,
    /// Players with and without stamps.
    pub players_stamped: usize,
    /// Players that never saw a stamp but received frames.
    pub players_unstamped: usize,
    /// Playback stalls of all players.
    pub stalls: u64,
    /// Players that stalled at least once.
    pub players_stalled: usize,
    /// Time spent dry by all players, nanoseconds.
    pub stalled_ns: u64,
    /// Traffic of the whole run.
    pub traffic: Traffic,
    /// Times to the first frame.
    pub first_frame: Times,
    /// How late publishers' messages were sent.
    pub send_lateness: Times,
}

impl Verdict {
    /// Adds another worker's verdict.
    pub fn merge(&mut self, other: &Verdict) {
        self.succeeded += other.succeeded;
        for (reason, count) in &other.failures {
            *self.failures.entry(reason.clone()).or_default() += count;
        }
        self.judged.add(&other.judged);
        self.players_stamped += other.players_stamped;
        self.players_unstamped += other.players_unstamped;
        self.stalls += other.stalls;
        self.players_stalled += other.players_stalled;
        self.stalled_ns += other.stalled_ns;
        self.traffic.add(&other.traffic);
        self.first_frame.merge(&other.first_frame);
        self.send_lateness.merge(&other.send_lateness);
    }
}

/// Runs until `Finish` or until the coordinator has ended.
///
/// # Errors
/// When epoll itself fails; session errors are verdicts.
pub fn run(config: WorkerConfig, orders: &Receiver<Order>, reports: &Sender<Report>) -> io::Result<()> {
    let mut worker = Worker::new(config)?;
    loop {
        while let Ok(order) = orders.try_recv() {
            // A send fails only when the coordinator has ended, and then the answer is not needed.
            match order {
                Order::Publishers(total) => worker.publishers.raise(total),
                Order::Players(total) => worker.players.raise(total),
                Order::OpenWindow => worker.open_window(),
                Order::CloseWindow => {
                    let _ = reports.send(Report::Window(Box::new(worker.close_window())));
                }
                Order::Finish => {
                    let _ = reports.send(Report::Finished(Box::new(worker.finish())));
                    return Ok(());
                }
            }
        }
        worker.turn()?;
        if worker.status_due() && reports.send(Report::Status(Box::new(worker.status()))).is_err() {
            return Ok(());
        }
    }
}

struct Worker {
    config: WorkerConfig,
    poll: Poll,
    events: Events,
    buffer: Vec<u8>,
    batch: RecvBatch,
    sessions: Vec<Session>,
    /// Sessions whose URL is none: whether they would publish, and what is wrong.
    unstartable: Vec<(bool, String)>,
    /// Connections the server has not answered yet.
    unanswered: usize,
    publishers: Ramp,
    players: Ramp,
    /// Next message of each publisher: due time and session index.
    agenda: BinaryHeap<Reverse<(u64, usize)>>,
    counters: Counters,
    /// When to look at the sockets next, with `turn_ms`.
    turn_at: Instant,
    status_at: Instant,
    start_timeouts_at: Instant,
    window: OpenWindow,
}

/// State at the begin of the window.
#[derive(Default)]
struct OpenWindow {
    traffic: Traffic,
    latency: Times,
    judged: Judged,
    stalls: u64,
}

/// How many sessions of one role to hold, and how fast to get there.
#[derive(Debug, Default)]
struct Ramp {
    /// Sessions of the whole run to hold.
    target: usize,
    /// Next session number of this worker.
    next_number: usize,
    since: Option<(Instant, usize)>,
}

impl Ramp {
    fn raise(&mut self, target: usize) {
        self.target = target.max(self.target);
        self.since = Some((clock::monotonic(), self.next_number));
    }

    /// The next session to start now, if any. Numbers of the run rise by `ramp` per second.
    fn next(&mut self, ramp: f64, workers: usize) -> Option<usize> {
        let (since, first) = self.since?;
        let reached = first as f64 + since.elapsed().as_secs_f64() * ramp;
        if self.next_number >= self.target || self.next_number as f64 > reached {
            return None;
        }
        let number = self.next_number;
        self.next_number += workers;
        Some(number)
    }
}

impl Worker {
    fn new(config: WorkerConfig) -> io::Result<Worker> {
        let now = clock::monotonic();
        let ramp = || Ramp { next_number: config.index, ..Ramp::default() };
        Ok(Worker {
            poll: Poll::new()?,
            events: Events::with_capacity(EVENTS_PER_TURN),
            buffer: vec![0; READ_BUFFER_BYTES],
            batch: RecvBatch::new(RecvConfig::default()),
            sessions: Vec::new(),
            unstartable: Vec::new(),
            unanswered: 0,
            publishers: ramp(),
            players: ramp(),
            agenda: BinaryHeap::new(),
            counters: Counters::default(),
            turn_at: now,
            status_at: now + STATUS_INTERVAL,
            start_timeouts_at: now + START_TIMEOUT_INTERVAL,
            window: OpenWindow::default(),
            config,
        })
    }

    fn turn(&mut self) -> io::Result<()> {
        let timeout = if self.config.turn_ms == 0 {
            let idle = self.sessions.iter().filter_map(|session| session.due).min();
            let idle = idle.map_or(IDLE_TURN, |due| {
                due.saturating_duration_since(clock::monotonic()).clamp(MIN_TURN, IDLE_TURN)
            });
            self.agenda.peek().map_or(idle, |Reverse((due_ns, _))| {
                Duration::from_nanos(due_ns.saturating_sub(clock::wall_ns())).min(idle)
            })
        } else {
            // Sleeping in `epoll_wait` is what makes the server pay.
            std::thread::sleep(self.turn_at.saturating_duration_since(clock::monotonic()));
            self.turn_at = clock::monotonic() + Duration::from_millis(self.config.turn_ms.into());
            Duration::ZERO
        };
        match self.poll.poll(&mut self.events, Some(timeout)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => other?,
        }
        self.handle_events();
        self.handle_timeouts();
        self.send_due();
        self.start_sessions();
        if clock::monotonic() >= self.start_timeouts_at {
            self.start_timeouts_at += START_TIMEOUT_INTERVAL;
            self.check_start_timeouts();
        }
        Ok(())
    }

    fn handle_events(&mut self) {
        let buffer_ms = self.config.buffer_ms;
        let Worker { buffer, batch, counters, .. } = self;
        let mut lent = Lent { buffer, batch, counters, buffer_ms };
        for event in &self.events {
            let index = event.token().0;
            let session = &mut self.sessions[index];
            let bytes_in = lent.counters.bytes_in;
            session.handle_ready(&mut lent);
            self.unanswered -= usize::from(session.take_answered(bytes_in, lent.counters.bytes_in));
            if session.phase == Phase::Up
                && let Role::Publisher(publisher) = &mut session.role
                && publisher.origin_ns.is_none()
            {
                let now_ns = clock::wall_ns();
                publisher.start(&self.config.sample, now_ns);
                self.agenda.push(Reverse((now_ns, index)));
            }
        }
    }

    /// Sessions whose protocol has timers of its own.
    fn handle_timeouts(&mut self) {
        let now = clock::monotonic();
        let buffer_ms = self.config.buffer_ms;
        let Worker { buffer, batch, counters, .. } = self;
        let mut lent = Lent { buffer, batch, counters, buffer_ms };
        for session in &mut self.sessions {
            if session.due.is_some_and(|due| due <= now) {
                session.handle_ready(&mut lent);
                self.unanswered -= usize::from(session.take_answered(0, 0));
            }
        }
    }

    fn send_due(&mut self) {
        let buffer_ms = self.config.buffer_ms;
        let Worker { buffer, batch, counters, .. } = self;
        let mut lent = Lent { buffer, batch, counters, buffer_ms };
        let now_ns = clock::wall_ns();
        while let Some(&Reverse((due_ns, index))) = self.agenda.peek()
            && due_ns <= now_ns
        {
            self.agenda.pop();
            if let Some(next_ns) = self.sessions[index].send_due(&mut self.config.sample, now_ns, &mut lent) {
                let pulse_ns = due_ns + u64::from(self.config.pulse_ms) * 1_000_000;
                self.agenda.push(Reverse((next_ns.max(pulse_ns), index)));
            }
        }
    }

    fn start_sessions(&mut self) {
        let (ramp, workers) = (self.config.ramp, self.config.workers);
        for _ in 0..STARTS_PER_TURN {
            if self.unanswered >= UNANSWERED_MAX {
                break;
            }
            if let Some(number) = self.publishers.next(ramp, workers) {
                self.start_session(number, true);
            } else if let Some(number) = self.players.next(ramp, workers) {
                self.start_session(number, false);
            } else {
                break;
            }
        }
    }

    fn start_session(&mut self, number: usize, publishes: bool) {
        let target = if publishes { &self.config.publish } else { &self.config.play };
        let Some(target) = target else { return };
        let url = target.url_of(number % self.config.streams + 1);
        let session = match (publishes, target.protocol) {
            (true, Protocols::Srt) => Session::srt_publisher(number, &url, run_of(number)),
            (true, _) => Session::publisher(number, &url, run_of(number)),
            (false, Protocols::Rtmp) => Session::rtmp_player(number, &url),
            (false, Protocols::HttpFlv) => Session::flv_player(number, &url),
            (false, Protocols::HttpTs) => Session::ts_player(number, &url),
            (false, Protocols::Srt) => Session::srt_player(number, &url),
            (false, Protocols::RtspTcp) => Session::rtsp_player(number, &url, target.address, false),
            (false, Protocols::RtspUdp) => Session::rtsp_player(number, &url, target.address, true),
        };
        match session {
            Ok(mut session) => {
                session.connect(target.address, self.poll.registry(), Token(self.sessions.len()));
                self.unanswered += usize::from(!session.take_answered(0, 0));
                self.sessions.push(session);
            }
            Err(reason) => self.unstartable.push((publishes, reason)),
        }
    }

    /// Fails sessions that did not come up in time.
    fn check_start_timeouts(&mut self) {
        let timeout_ns = self.config.start_timeout.as_nanos() as u64;
        let overdue_before = clock::wall_ns().saturating_sub(timeout_ns);
        let seconds = self.config.start_timeout.as_secs_f64();
        for session in &mut self.sessions {
            if session.begun_ns >= overdue_before {
                continue;
            }
            match (&session.phase, &session.role) {
                (Phase::Connecting, _) => session.fail(format!("connect: no answer within {seconds} s")),
                (Phase::Starting, Role::Publisher(_)) => {
                    session.fail(format!("publishing was not accepted within {seconds} s"));
                }
                (Phase::Starting, Role::Player(_)) => session.fail(format!("no frame within {seconds} s")),
                _ => continue,
            }
            self.unanswered -= usize::from(session.take_answered(0, 0));
        }
    }

    fn status_due(&mut self) -> bool {
        let now = clock::monotonic();
        if now < self.status_at {
            return false;
        }
        self.status_at = now + STATUS_INTERVAL;
        true
    }

    fn status(&mut self) -> Status {
        let mut status =
            Status { worker: self.config.index, traffic: self.counters.traffic, ..Status::default() };
        for session in &self.sessions {
            let population = match session.role {
                Role::Publisher(_) => &mut status.publishers,
                Role::Player(_) => &mut status.players,
            };
            match session.phase {
                Phase::Connecting | Phase::Starting => population.starting += 1,
                Phase::Up => population.up += 1,
                Phase::Failed(_) => population.failed += 1,
            }
        }
        for (publishes, _) in &self.unstartable {
            let population = if *publishes { &mut status.publishers } else { &mut status.players };
            population.failed += 1;
        }
        self.window.latency.merge(&self.counters.latency);
        status.latency = self.counters.latency.clone();
        self.counters.latency.clear();
        status
    }

    fn open_window(&mut self) {
        let (judged, stalls) = self.judge_players();
        let now_ns = clock::wall_ns();
        for session in &mut self.sessions {
            if let Role::Player(player) = &mut session.role {
                player.tally.behind_at_open_ns = player.tally.behind_ns(now_ns);
            }
        }
        // Latencies of before the window still belong to the next status, not to the window.
        self.window = OpenWindow { traffic: self.counters.traffic, latency: Times::new(), judged, stalls };
        self.counters.latency.clear();
    }

    fn close_window(&mut self) -> Window {
        let (judged, stalls) = self.judge_players();
        let now_ns = clock::wall_ns();
        let mut window = Window {
            traffic: self.counters.traffic.since(&self.window.traffic),
            latency: self.window.latency.clone(),
            judged: judged.since(&self.window.judged),
            stalls: stalls - self.window.stalls,
            ..Window::default()
        };
        window.latency.merge(&self.counters.latency);
        let bytes_per_ns = self.config.sample.bytes_per_second() / 1e9;
        for session in &mut self.sessions {
            match &session.role {
                Role::Publisher(_) => window.unsent_bytes += session.unsent_bytes() as u64,
                Role::Player(player) => {
                    window.players_up += usize::from(session.phase == Phase::Up);
                    window.players_stamped += usize::from(player.tally.is_stamped());
                    let fell_behind_ns =
                        player.tally.behind_ns(now_ns).saturating_sub(player.tally.behind_at_open_ns);
                    if fell_behind_ns > LATE_IN_WINDOW_NS {
                        window.late_bytes += (fell_behind_ns as f64 * bytes_per_ns) as u64;
                    }
                }
            }
        }
        window
    }

    /// Sums over all players so far.
    fn judge_players(&mut self) -> (Judged, u64) {
        let now_ns = clock::wall_ns();
        let (mut judged, mut stalls) = (Judged::default(), 0);
        for session in &mut self.sessions {
            if let Role::Player(player) = &mut session.role {
                player.tally.playback.advance(now_ns);
                judged.add(&player.tally.judged);
                stalls += u64::from(player.tally.playback.stalls());
            }
        }
        (judged, stalls)
    }

    fn finish(&mut self) -> Verdict {
        let now_ns = clock::wall_ns();
        let mut verdict = Verdict::default();
        (verdict.judged, verdict.stalls) = self.judge_players();
        for session in &mut self.sessions {
            judge(session, now_ns, self.config.silence, &mut verdict);
            session.end(&mut self.counters);
        }
        self.drain(&mut verdict);
        for session in &self.sessions {
            match &session.phase {
                Phase::Failed(reason) => *verdict.failures.entry(reason.clone()).or_default() += 1,
                _ => verdict.succeeded += 1,
            }
        }
        for (_, reason) in &self.unstartable {
            *verdict.failures.entry(reason.clone()).or_default() += 1;
        }
        verdict.traffic = self.counters.traffic;
        verdict.first_frame = std::mem::take(&mut self.counters.first_frame);
        verdict.send_lateness = std::mem::take(&mut self.counters.send_lateness);
        verdict
    }

    /// Gives publishers a second to hand over their last bytes.
    fn drain(&mut self, verdict: &mut Verdict) {
        let deadline = clock::monotonic() + DRAIN_TIME;
        let mut open: Vec<usize> = (0..self.sessions.len()).collect();
        loop {
            let Worker { buffer, batch, counters, sessions, .. } = &mut *self;
            let mut lent = Lent { buffer, batch, counters, buffer_ms: 0 };
            open.retain(|&index| !sessions[index].is_drained(&mut lent));
            if open.is_empty() || clock::monotonic() >= deadline {
                break;
            }
            std::thread::sleep(IDLE_TURN);
        }
        for index in open {
            let session = &mut self.sessions[index];
            let unsent = session.unsent_bytes() as u64;
            if unsent > 0 {
                verdict.judged.missing.bytes += unsent;
                session.fail("the server did not read the last bytes published".to_owned());
            }
        }
    }
}

/// Marks the stamps of a publisher.
fn run_of(number: usize) -> u64 {
    clock::wall_ns() ^ (number as u64) << 12
}

/// Turns what is known of a session at the end into a failure, if it is one.
fn judge(session: &mut Session, now_ns: u64, silence: Duration, verdict: &mut Verdict) {
    if let Role::Player(player) = &session.role {
        let tally = &player.tally;
        verdict.players_stamped += usize::from(tally.is_stamped());
        verdict.players_unstamped += usize::from(!tally.is_stamped() && tally.first_frame_ns.is_some());
        verdict.players_stalled += usize::from(tally.playback.stalls() > 0);
        verdict.stalled_ns += tally.playback.stalled_ns(now_ns);
        let silent = Duration::from_nanos(now_ns.saturating_sub(tally.last_media_ns)) > silence;
        let judged = tally.judged;
        if judged.missing != Count::default() {
            session.fail("media missing".to_owned());
        } else if judged.excess != Count::default() {
            session.fail("media repeated or made up".to_owned());
        } else if tally.first_frame_ns.is_some() && silent {
            session.fail(format!("silent for more than {} s at the end", silence.as_secs_f64()));
        }
    }
    match (&session.phase, &session.role) {
        (Phase::Connecting, _) => session.fail("connect: no answer until the end".to_owned()),
        (Phase::Starting, Role::Publisher(_)) => {
            session.fail("publishing was not accepted until the end".to_owned())
        }
        (Phase::Starting, Role::Player(_)) => session.fail("no frame until the end".to_owned()),
        _ => {}
    }
}

/// Enough for the largest burst a socket buffer of ordinary size holds.
const READ_BUFFER_BYTES: usize = 256 * 1024;
const EVENTS_PER_TURN: usize = 1024;

/// New connections per turn: keeps a turn short while a ramp runs.
const STARTS_PER_TURN: usize = 64;

/// Maximum connection attempts at once: fewer than the backlog of any listener, so that no SYN is
/// lost and retried a second later. A ramp is never faster than the server answers.
const UNANSWERED_MAX: usize = 256;
/// Timers of the kernel are no finer.
const MIN_TURN: Duration = Duration::from_millis(1);
const IDLE_TURN: Duration = Duration::from_millis(10);
const STATUS_INTERVAL: Duration = Duration::from_millis(100);
const START_TIMEOUT_INTERVAL: Duration = Duration::from_millis(500);
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// Longer than any merge period with its jitter, shorter than a measured window.
const LATE_IN_WINDOW_NS: u64 = 1_000_000_000;
