//! A run: one thread with all players and the publisher, step by step, each step measured.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::{Duration, Instant};

use group_send::{RecvBatch, RecvConfig};
use mio::{Events, Poll, Token};

use super::cli::{HlsPlayArgs, Mode};
use super::copies::Copies;
use super::player::{Counters, Lent, Player};
use super::playlist::Playlists;
use super::report::{HlsOutcome, HlsReport, HlsStep};
use crate::machine::{self, Reading, StopSignals};
use crate::net::{self, HttpUrl, Protocols, Target};
use crate::sample::Sample;
use crate::session::{self, Phase, Role, Session};
use crate::stats::Times;
use crate::{clock, counters};

/// Plays N times, after publishing if asked to.
///
/// # Errors
/// A text for the user when the run could not be done at all. Failed players are no error but a result.
pub fn play(args: &HlsPlayArgs) -> Result<HlsReport, String> {
    args.run.validate()?;
    if args.run.html.is_some() || args.run.watch.is_some() || args.run.perf {
        return Err("--html, --watch and --perf are not for HLS".to_owned());
    }
    let url = HttpUrl::from_str(&args.run.url).map_err(|error| format!("{}: {error}", args.run.url))?;
    let address = net::resolve(&url.host, url.port)?;
    let sample = match &args.sample {
        None => Sample::embedded()?,
        Some(path) => std::fs::read(path)
            .map_err(|error| error.to_string())
            .and_then(|file| Sample::from_flv(&file))
            .map_err(|error| format!("{}: {error}", path.display()))?,
    };
    let sockets = if args.mode == Mode::Dash { 2 } else { 1 };
    let signals = machine::prepare(&args.run, args.run.sessions_max() * sockets + 1)?;
    machine::pin(&args.run)?;
    let mut run = Run::new(args, url, address, sample, signals)?;
    run.publish()?;
    let before = Reading::now(args.run.server_pid);
    let baseline_rss_kib = before.usage.map_or(0, |usage| usage.rss_kib);
    let mut steps = Vec::new();
    for &sessions in &args.run.sessions {
        if run.is_interrupted {
            break;
        }
        run.start_players(sessions)?;
        run.wait(args.run.settle)?;
        if !run.is_interrupted {
            steps.push(run.measure(sessions, baseline_rss_kib)?);
        }
    }
    let outcome = run.outcome();
    Ok(HlsReport {
        command: format!("hls play {} --mode {}", args.run.url, args.mode.name()),
        mode: args.mode.name(),
        machine: machine::describe(),
        steps,
        outcome,
    })
}

struct Run<'a> {
    args: &'a HlsPlayArgs,
    url: HttpUrl,
    address: SocketAddr,
    sample: Sample,
    /// The sample as it is published, with stamps.
    published: Sample,
    publisher: Option<Session>,
    publisher_due_ns: u64,
    publisher_counters: counters::Counters,
    poll: Poll,
    events: Events,
    buffer: Vec<u8>,
    /// Nothing comes by UDP.
    batch: RecvBatch,
    players: Vec<Player>,
    copies: Copies,
    playlists: Playlists,
    counters: Counters,
    signals: StopSignals,
    is_interrupted: bool,
    turn_at: Instant,
    tidy_at: Instant,
}

impl<'a> Run<'a> {
    fn new(
        args: &'a HlsPlayArgs,
        url: HttpUrl,
        address: SocketAddr,
        sample: Sample,
        signals: StopSignals,
    ) -> Result<Self, String> {
        let now = clock::monotonic();
        Ok(Self {
            args,
            url,
            address,
            published: sample.clone(),
            sample,
            publisher: None,
            publisher_due_ns: u64::MAX,
            publisher_counters: counters::Counters::default(),
            poll: Poll::new().map_err(|error| format!("epoll: {error}"))?,
            events: Events::with_capacity(1024),
            buffer: vec![0; READ_BUFFER_BYTES],
            batch: RecvBatch::new(RecvConfig { messages: 1, message_bytes: 2048 }),
            players: Vec::new(),
            copies: Copies::default(),
            playlists: Playlists::default(),
            counters: Counters::default(),
            signals,
            is_interrupted: false,
            turn_at: now,
            tidy_at: now + TIDY_INTERVAL,
        })
    }

    /// Starts the publisher and waits for the server to accept it.
    fn publish(&mut self) -> Result<(), String> {
        let Some(url) = &self.args.publish else { return Ok(()) };
        let target = Target::resolve(url, Protocols::Rtmp)?;
        let mut publisher = Session::publisher(0, url, clock::wall_ns())?;
        publisher.connect(target.address, self.poll.registry(), PUBLISHER);
        self.publisher = Some(publisher);
        let deadline = clock::monotonic() + self.args.run.start_timeout;
        while clock::monotonic() < deadline && self.publisher_due_ns == u64::MAX {
            self.turn()?;
        }
        match self.publisher_due_ns {
            u64::MAX => Err("publishing was not accepted".to_owned()),
            // Playlists have their full length once their first segments have left them.
            _ => self.wait(PUBLISH_FIRST),
        }
    }

    /// Starts players up to so many, and waits until each has a frame or has failed.
    fn start_players(&mut self, sessions: usize) -> Result<(), String> {
        self.counters.first_frame.clear();
        let (began, before) = (clock::monotonic(), self.players.len());
        let ramp = Duration::from_secs_f64((sessions - before) as f64 / self.args.ramp);
        let deadline = began + ramp + self.args.run.start_timeout + Duration::from_secs(1);
        while !self.is_interrupted && clock::monotonic() < deadline {
            let reached = before as f64 + began.elapsed().as_secs_f64() * self.args.ramp;
            let starting = self.players.iter().rev().take(STARTING_MAX);
            let mut room = STARTING_MAX
                - starting.filter(|each| each.next_frame.is_none() && each.failure.is_none()).count();
            while self.players.len() < sessions && (self.players.len() as f64) < reached && room > 0 {
                let number = self.players.len();
                let (registry, address) = (self.poll.registry(), self.address);
                let lent = Lent {
                    buffer: &mut self.buffer,
                    copies: &mut self.copies,
                    playlists: &mut self.playlists,
                    counters: &mut self.counters,
                    url: &self.url,
                    mode: self.args.mode,
                    source: None,
                };
                self.players.push(Player::start(number, address, registry, 2 * number, &lent));
                room -= 1;
            }
            let is_up = |player: &Player| player.next_frame.is_some() || player.failure.is_some();
            if self.players.len() == sessions && self.players.iter().rev().all(is_up) {
                break;
            }
            self.turn()?;
        }
        Ok(())
    }

    fn measure(&mut self, sessions: usize, baseline_rss_kib: u64) -> Result<HlsStep, String> {
        let first_frame = self.counters.first_frame.percentiles();
        let newest = self.counters.newest_frame;
        for player in &mut self.players {
            player.behind_at_open = newest - player.next_frame.unwrap_or(newest).min(newest);
        }
        self.counters.latency = Times::new();
        let open = Counters { latency: Times::new(), first_frame: Times::new(), ..self.counters };
        let before = Reading::now(self.args.run.server_pid);
        self.wait(self.args.run.duration)?;
        let cost = Reading::now(self.args.run.server_pid).since(&before, sessions, baseline_rss_kib);
        if self.args.run.server_pid.is_some() && cost.server.is_none() {
            return Err("the server under test has ended".to_owned());
        }
        let newest = self.counters.newest_frame;
        let made = newest - open.newest_frame;
        let allowed = match self.args.mode {
            // Between two segments.
            Mode::Plain => made_in(BEHIND_PLAIN, made, cost.seconds),
            _ => made_in(BEHIND, made, cost.seconds),
        };
        let (mut late, mut up) = (0, 0);
        for player in &self.players {
            if player.failure.is_some() {
                late += made;
                continue;
            }
            up += 1;
            let behind = newest - player.next_frame.unwrap_or(0).min(newest);
            late += behind.saturating_sub(player.behind_at_open + allowed);
        }
        late += (sessions - self.players.len().min(sessions)) as u64 * made;
        let received = self.counters.frames - open.frames;
        let expected = received + self.counters.missing - open.missing + late;
        Ok(HlsStep {
            sessions,
            sessions_up: up,
            seconds: cost.seconds,
            requests_per_client_s: (self.counters.responses - open.responses) as f64
                / (sessions as f64 * cost.seconds),
            bits_per_second: (self.counters.bytes - open.bytes) as f64 * 8.0 / cost.seconds,
            delivered: (expected > 0).then(|| received as f64 / expected as f64),
            latency: self.counters.latency.percentiles(),
            first_frame,
            server: cost.server,
            generator_core_percent: cost.own_cpu_s * 100.0 / cost.seconds,
            others_core_percent: cost.others_core_percent,
        })
    }

    fn outcome(&self) -> HlsOutcome {
        let mut failures: BTreeMap<String, usize> = BTreeMap::new();
        for player in &self.players {
            let reason = player.failure.clone();
            let reason = reason.or_else(|| player.next_frame.is_none().then(|| "no frame".to_owned()));
            if let Some(reason) = reason {
                *failures.entry(reason).or_default() += 1;
            }
        }
        let missing_messages = self.counters.missing;
        let ok = failures.is_empty() && missing_messages == 0 && !self.players.is_empty();
        HlsOutcome { ok, failures, missing_messages, missing_bytes: 0, excess_bytes: 0 }
    }

    fn wait(&mut self, time: Duration) -> Result<(), String> {
        let until = clock::monotonic() + time;
        while !self.is_interrupted && clock::monotonic() < until {
            self.turn()?;
        }
        Ok(())
    }

    fn turn(&mut self) -> Result<(), String> {
        let turn_ms = self.args.run.turn_ms;
        let timeout = if turn_ms == 0 {
            Duration::from_nanos(self.publisher_due_ns.saturating_sub(clock::wall_ns())).min(IDLE_TURN)
        } else {
            // Sleeping in `epoll_wait` is what makes the server pay.
            std::thread::sleep(self.turn_at.saturating_duration_since(clock::monotonic()));
            self.turn_at = clock::monotonic() + Duration::from_millis(turn_ms.into());
            Duration::ZERO
        };
        match self.poll.poll(&mut self.events, Some(timeout)) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            other => other.map_err(|error| format!("epoll: {error}"))?,
        }
        let mut lent = Lent {
            buffer: &mut self.buffer,
            copies: &mut self.copies,
            playlists: &mut self.playlists,
            counters: &mut self.counters,
            url: &self.url,
            mode: self.args.mode,
            source: (self.publisher.is_some() && !self.args.no_source).then_some(&self.sample),
        };
        let mut is_publisher_ready = false;
        for event in &self.events {
            match event.token() {
                PUBLISHER => is_publisher_ready = true,
                Token(token) => self.players[token / 2].handle_ready(token % 2 == 1, &mut lent),
            }
        }
        let now = clock::monotonic();
        for player in &mut self.players {
            if player.due.is_some_and(|due| due <= now) {
                player.handle_due(&mut lent);
            }
        }
        self.drive_publisher(is_publisher_ready)?;
        if now >= self.tidy_at {
            self.tidy_at = now + TIDY_INTERVAL;
            self.copies.expire(now);
            self.is_interrupted |= self.signals.arrived();
            let now_ns = clock::wall_ns();
            self.players.iter_mut().for_each(|each| each.check_start(self.args.run.start_timeout, now_ns));
        }
        Ok(())
    }

    fn drive_publisher(&mut self, is_ready: bool) -> Result<(), String> {
        let Some(publisher) = &mut self.publisher else { return Ok(()) };
        let counters = &mut self.publisher_counters;
        let (buffer, batch) = (&mut self.buffer, &mut self.batch);
        let mut lent = session::Lent { buffer, batch, counters, buffer_ms: 0 };
        if is_ready {
            publisher.handle_ready(&mut lent);
            if publisher.phase == Phase::Up
                && let Role::Publisher(role) = &mut publisher.role
                && role.origin_ns.is_none()
            {
                let now_ns = clock::wall_ns();
                role.start(&self.published, now_ns);
                self.publisher_due_ns = now_ns;
            }
        }
        let now_ns = clock::wall_ns();
        if self.publisher_due_ns <= now_ns {
            let next = publisher.send_due(&mut self.published, now_ns, &mut lent);
            self.publisher_due_ns = next.unwrap_or(u64::MAX);
        }
        match &publisher.phase {
            Phase::Failed(reason) => Err(format!("the publisher failed: {reason}")),
            _ => Ok(()),
        }
    }
}

/// Frames that are made in a time, if `made` were made in so many seconds.
fn made_in(time: Duration, made: u64, seconds: f64) -> u64 {
    (made as f64 * time.as_secs_f64() / seconds.max(f64::MIN_POSITIVE)) as u64
}

const PUBLISHER: Token = Token(usize::MAX - 1);
const READ_BUFFER_BYTES: usize = 256 * 1024;
const IDLE_TURN: Duration = Duration::from_millis(10);
const TIDY_INTERVAL: Duration = Duration::from_millis(500);
const PUBLISH_FIRST: Duration = Duration::from_secs(8);
/// Players that have no answer yet: fewer than the backlog of any listener.
const STARTING_MAX: usize = 256;
/// What a player may fall behind within a step before that counts as not delivered.
const BEHIND: Duration = Duration::from_secs(1);
const BEHIND_PLAIN: Duration = Duration::from_secs(5);
