//! A run: publishers first, then step by step more sessions, each step measured; in the end a verdict.
//!
//! Steps run like those of the RTMP side: raise the number of sessions, wait until all are up or
//! have failed, let things settle, then measure for a while. CPU and loss are differences over that
//! window.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::cli::{ProfileName, RtcLoadArgs, RtcPlayArgs, RtcPublishArgs};
use super::counters::Counters;
use super::describe::Repair;
use super::engine::{Engine, EngineConfig};
use super::flv::FlvMedia;
use super::link::Link;
use super::media::{Media, Track};
use super::recording::Recording;
use super::report::{RtcOutcome, RtcReport, RtcStep};
use super::session::{Phase, Role, Session};
use super::target::{Scheme, Target};
use super::track::Counts;
use super::viewer::{Viewer, ViewerConfig};
use crate::clock;
use crate::live::{Live, Watch};
use crate::machine::{self, StopSignals};
use crate::procfs::{self, Usage};
use crate::report::Point;
use crate::stats::{Counted, Percentiles, Times};

/// Publishes N times.
///
/// # Errors
/// A text for the user when the run could not be done at all. Failed sessions are no error but a result.
pub fn publish(args: &RtcPublishArgs) -> Result<RtcReport, String> {
    let target = Target::resolve(&args.load.run.url)?;
    match target.scheme {
        Scheme::Rtmp => return Err("publishing by RTMP alone: use millbench rtmp publish".to_owned()),
        Scheme::Floor => return Err("the floor takes no publishers".to_owned()),
        Scheme::Http | Scheme::Rtp | Scheme::Janus { .. } => {}
    }
    if args.load.run.sessions_max() > 1 && !target.has_placeholder() {
        return Err("several publishers need streams of their own: put {} into the stream name".to_owned());
    }
    let mut config = config(&args.load, Some(target), None, 1, false);
    config.pairs = args.pairs.into();
    let media = media(&args.load)?;
    let command = command("rtc publish", &args.load);
    Conductor::start(&args.load, config, media, 0, 1, command)?.run(&args.load)
}

/// Plays N times, after publishing if asked to.
///
/// # Errors
/// As for [`publish`].
pub fn play(args: &RtcPlayArgs) -> Result<RtcReport, String> {
    let target = Target::resolve(&args.load.run.url)?;
    if matches!(target.scheme, Scheme::Rtp | Scheme::Rtmp) {
        return Err("WebRTC sessions play from http://, janus:// or floor://".to_owned());
    }
    let publish = match args.publish.as_deref() {
        None => None,
        Some("") => Some(target.to_publish()?),
        Some(url) => Some(Target::resolve(url)?),
    };
    if matches!(&publish, Some(target) if matches!(target.scheme, Scheme::Janus { .. } | Scheme::Floor)) {
        return Err("--publish takes http://, rtmp://, and rtp:// for Janus's mountpoints".to_owned());
    }
    let publishers = match &publish {
        None => 0,
        Some(target) if target.has_placeholder() => {
            args.load.run.streams.unwrap_or(args.load.run.sessions_max())
        }
        Some(_) => 1,
    };
    // The answering side uses the offer's payload types.
    let shapes = if target.scheme == Scheme::Http { args.shapes.into() } else { 1 };
    let mut config = config(&args.load, publish, Some(target), args.decrypt, !args.no_nack);
    config.shapes = shapes;
    config.transport_feedback = args.transport_feedback;
    if args.load.sample.is_some()
        && config.publish.as_ref().is_some_and(|target| target.scheme == Scheme::Rtmp)
    {
        return Err("--sample goes by WebRTC; for an RTMP publisher use millbench rtmp publish".to_owned());
    }
    let media = media(&args.load)?;
    config.trace = args.trace.is_some();
    let command = command("rtc play", &args.load);
    let mut conductor = Conductor::start(&args.load, config, media, publishers, args.decrypt, command)?;
    conductor.trace.clone_from(&args.trace);
    conductor.run(&args.load)
}

/// What runs, as one line.
fn command(what: &str, load: &RtcLoadArgs) -> String {
    let name = load.sample.as_deref().and_then(Path::file_name);
    let sample = name.map_or_else(String::new, |name| format!(" --sample {}", name.display()));
    format!("{what} {}{sample}", load.run.url)
}

/// What is published, and played.
fn media(load: &RtcLoadArgs) -> Result<Media, String> {
    let Some(path) = &load.sample else { return Ok(Media::new()) };
    let media = Media::recorded(&Recording::open(path)?);
    media.map_err(|error| format!("{}: {error}", path.display()))
}

/// What a browser is to play, if anything: the stream of the run, by WHEP.
fn watch(load: &RtcLoadArgs, played: Option<&Target>) -> Result<Option<Watch>, String> {
    let Some(url) = load.run.watch.clone() else { return Ok(None) };
    let of_run = || match played {
        Some(target) if target.scheme == Scheme::Http => Ok(target.url.replacen("/whip/", "/whep/", 1)),
        _ => {
            Err("--watch needs a URL here: --watch=http://host/whep/app/stream, or that of a page".to_owned())
        }
    };
    let url = if url.is_empty() { of_run()? } else { url };
    let streams = load.run.streams.unwrap_or(load.run.sessions_max());
    let token = load.token.clone().unwrap_or_default();
    Ok(Some(Watch { url, streams, token, headed: load.run.headed }))
}

fn config(
    load: &RtcLoadArgs,
    publish: Option<Target>,
    play: Option<Target>,
    decrypt_one_in: u32,
    nack: bool,
) -> EngineConfig {
    let streams = load.run.streams.unwrap_or(load.run.sessions_max());
    let played = if play.as_ref().is_some_and(Target::has_placeholder) { streams } else { 1 };
    // A round trip through the faults, and some time to be served.
    let retry = Duration::from_millis(2 * u64::from(load.delay)) + RETRY_SLACK;
    EngineConfig {
        publish,
        play,
        streams,
        ramp: load.ramp,
        start_timeout: load.run.start_timeout,
        turn: Duration::from_millis(load.run.turn_ms.into()),
        viewer: ViewerConfig { decrypt_one_in, nack, retry, begins_anywhere: false, streams: played },
        transport_feedback: false,
        faults: load.faults(),
        repair: Repair { rtx: !load.no_rtx, audio: load.nack_audio },
        pairs: 1,
        shapes: 1,
        profiles: load.profiles.iter().map(|name| name.profile()).collect(),
        timestamps: !load.no_timestamps,
        signal_threads: load.signal_threads.into(),
        token: load.token.clone(),
        trace: false,
    }
}

/// State of a run.
struct Conductor {
    engine: Engine,
    signals: StopSignals,
    interrupted: bool,
    server_pid: Option<u32>,
    baseline_rss_kib: u64,
    /// Publishers to have before the first viewer.
    publishers: usize,
    /// Whether the sessions counted by steps are publishers.
    steps_publish: bool,
    /// Whether publishers send whole frames (RTMP).
    publishes_frames: bool,
    /// Where the first viewer's trace goes.
    trace: Option<PathBuf>,
    live: Live,
    begun: Instant,
    point_interval: Duration,
    last_point: LastPoint,
    /// Latency in the present step, but for what came since the last point.
    step_latency: Times,
    report: RtcReport,
}

/// Counts at the last point, for differences.
struct LastPoint {
    at: Instant,
    packets: u64,
    bytes: u64,
    reads: u64,
    server_cpu_s: f64,
    own_cpu_s: f64,
}

/// Everything that a window is a difference of.
struct Reading {
    machine: machine::Reading,
    counters: Counters,
    /// Of all viewers: audio and video.
    tracks: [Counts; 2],
}

impl Conductor {
    fn start(
        load: &RtcLoadArgs,
        config: EngineConfig,
        media: Media,
        publishers: usize,
        decrypted_one_in: u32,
        command: String,
    ) -> Result<Conductor, String> {
        load.run.validate()?;
        let descriptors = load.run.sessions_max() + publishers + 2 * config.signal_threads;
        let signals = machine::prepare(&load.run, descriptors)?;
        let Some(target) = config.play.as_ref().or(config.publish.as_ref()) else {
            return Err("neither publishers nor viewers".to_owned());
        };
        let server_pid = machine::server_pid(&load.run, target.address)?;
        let watch = watch(load, Some(target))?;
        let live = Live::start(&load.run, &command, target.address, server_pid, watch)?;
        machine::pin(&load.run)?;
        let begun = clock::monotonic();
        let report = RtcReport {
            command,
            begun_at_unix_s: clock::wall_ns() / 1_000_000_000,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            machine: machine::describe(),
            decrypted_one_in,
            shapes: config.play.as_ref().map(|_| config.shapes.min(load.run.sessions_max())),
            arrival_times: if config.timestamps { "kernel" } else { "program" },
            ..RtcReport::default()
        };
        let steps_publish = config.play.is_none();
        let publishes_frames = config.publish.as_ref().is_some_and(|target| target.scheme == Scheme::Rtmp);
        Ok(Conductor {
            engine: Engine::new(config, media)?,
            signals,
            interrupted: false,
            server_pid,
            baseline_rss_kib: 0,
            publishers,
            steps_publish,
            publishes_frames,
            trace: None,
            live,
            begun,
            point_interval: load.run.interval,
            last_point: LastPoint {
                at: begun,
                packets: 0,
                bytes: 0,
                reads: 0,
                server_cpu_s: server_usage(server_pid).map_or(0.0, |usage| usage.cpu_s),
                own_cpu_s: machine::own_cpu_s(),
            },
            step_latency: Times::new(),
            report,
        })
    }

    fn run(mut self, load: &RtcLoadArgs) -> Result<RtcReport, String> {
        if self.publishers > 0 {
            self.live.stage("publishers begin", 0);
            self.engine.raise_publishers(self.publishers);
            self.wait_until_up(self.publishers, true, load)?;
            self.wait(load.run.settle)?;
        }
        self.baseline_rss_kib = server_usage(self.server_pid).map_or(0, |usage| usage.rss_kib);
        for &sessions in &load.run.sessions {
            if self.interrupted {
                break;
            }
            self.live.stage("sessions begin", sessions);
            if self.steps_publish {
                self.engine.raise_publishers(sessions);
            } else {
                self.engine.raise_viewers(sessions);
            }
            self.wait_until_up(sessions, self.steps_publish, load)?;
            self.live.watch()?;
            self.live.stage("things settle", sessions);
            self.wait(load.run.settle)?;
            if self.interrupted {
                break;
            }
            let step = self.measure(sessions, load)?;
            self.live.line(step_line(&step));
            let is_last = load.stop_at_loss && (step.lost > 0 || step.sessions_up < step.sessions);
            self.report.steps.push(step);
            if is_last {
                break;
            }
        }
        self.finish(load)
    }

    /// Waits until as many sessions are up or failed. Sessions have their own deadline, so this ends.
    fn wait_until_up(&mut self, sessions: usize, publishers: bool, load: &RtcLoadArgs) -> Result<(), String> {
        let ramp = Duration::from_secs_f64(sessions as f64 / load.ramp);
        let deadline = clock::monotonic() + ramp + load.run.start_timeout + Duration::from_secs(2);
        while !self.interrupted && clock::monotonic() < deadline {
            let now = self.engine.population(publishers);
            if now.up + now.failed >= sessions {
                break;
            }
            self.wait(LOOK_INTERVAL)?;
        }
        Ok(())
    }

    fn wait(&mut self, time: Duration) -> Result<(), String> {
        let until = clock::monotonic() + time;
        while !self.interrupted && clock::monotonic() < until {
            self.engine.turn()?;
            self.interrupted |= self.signals.arrived();
            if clock::monotonic() - self.last_point.at >= self.point_interval {
                self.add_point();
            }
        }
        Ok(())
    }

    fn add_point(&mut self) {
        let now = clock::monotonic();
        let seconds = (now - self.last_point.at).as_secs_f64();
        let (usage, own_cpu_s) = (server_usage(self.server_pid), machine::own_cpu_s());
        let latency = self.take_latency();
        let counters = &self.engine.shared.counters;
        let (packets, bytes) = match self.steps_publish {
            true => (counters.packets_sent, counters.bytes_sent),
            false => (counters.packets_received, counters.bytes_received),
        };
        let last = std::mem::replace(
            &mut self.last_point,
            LastPoint {
                at: now,
                packets,
                bytes,
                reads: counters.reads,
                server_cpu_s: usage.map_or(0.0, |usage| usage.cpu_s),
                own_cpu_s,
            },
        );
        let population = self.engine.population(self.steps_publish);
        let client_seconds = population.up.max(1) as f64 * seconds;
        let mut point = Point {
            t: (now - self.begun).as_secs_f64(),
            sessions_up: population.up,
            sessions_failed: population.failed,
            media_bits_per_second: (bytes - last.bytes) as f64 * 8.0 / seconds,
            latency_ms_p50: latency.map(|latency| latency.p50_ms),
            latency_ms_p99: latency.map(|latency| latency.p99_ms),
            server_core_percent: usage.map(|usage| (usage.cpu_s - last.server_cpu_s) * 100.0 / seconds),
            server_rss_kib: usage.map(|usage| usage.rss_kib),
            reads_per_client_s: (self.last_point.reads - last.reads) as f64 / client_seconds,
            generator_core_percent: (own_cpu_s - last.own_cpu_s) * 100.0 / seconds,
            packets_per_second: Some((packets - last.packets) as f64 / seconds),
            lost: (!self.steps_publish).then(|| sum(self.viewers(), 0..=1).lost()),
            ..Point::default()
        };
        self.live.point(&mut point);
        self.report.points.push(point);
    }

    /// Latency since the last point, which is kept for the step.
    fn take_latency(&mut self) -> Option<Percentiles> {
        let latency = &mut self.engine.shared.counters.latency;
        self.step_latency.merge(latency);
        let percentiles = latency.percentiles();
        latency.clear();
        percentiles
    }

    fn measure(&mut self, sessions: usize, load: &RtcLoadArgs) -> Result<RtcStep, String> {
        let counters = &mut self.engine.shared.counters;
        // What was started for this step, before what is measured now.
        let started = (counters.first_key.percentiles(), counters.connected.percentiles());
        counters.latency.clear();
        self.step_latency.clear();
        counters.delays.clear();
        counters.audio_latency.clear();
        counters.lateness.clear();
        for session in &mut self.engine.sessions {
            if let Role::Viewer(Some(viewer)) = &mut session.role {
                viewer.pauses.clear();
            }
        }
        self.live.stage(&format!("measuring for {:.0} s", load.run.duration.as_secs_f64()), sessions);
        let before = self.read();
        self.wait(load.run.duration)?;
        self.take_latency();
        let after = self.read();
        if self.server_pid.is_some() && after.machine.usage.is_none() {
            return Err("the server under test has ended".to_owned());
        }
        self.engine.shared.counters.first_key.clear();
        self.engine.shared.counters.connected.clear();
        let mut step = self.step(sessions, &before, &after);
        (step.first_key, step.connected) = started;
        Ok(step)
    }

    fn step(&self, sessions: usize, before: &Reading, after: &Reading) -> RtcStep {
        let cost = after.machine.since(&before.machine, sessions, self.baseline_rss_kib);
        let seconds = cost.seconds;
        let client_seconds = (sessions as f64 * seconds).max(f64::MIN_POSITIVE);
        let (old, new) = (&before.counters, &after.counters);
        let (packets, bytes) = match self.steps_publish {
            true => (new.packets_sent - old.packets_sent, new.bytes_sent - old.bytes_sent),
            false => (new.packets_received - old.packets_received, new.bytes_received - old.bytes_received),
        };
        let [audio, video] = [0, 1].map(|track| after.tracks[track].since(&before.tracks[track]));
        let mut tracks = audio;
        tracks.add(&video);
        // A server may packetize the frames of an RTMP publisher as it likes: whole frames are
        // counted.
        let media = &self.engine.shared.media;
        let (arrived, due) = match self.publishes_frames {
            true => (audio.received + video.frames, client_seconds * f64::from(FlvMedia::FRAMES_PER_SECOND)),
            // The rate of a file varies: what was sent counts, as if all publishers were up.
            false if media.is_recorded => {
                let sent = (new.packets_sent - old.packets_sent) as f64;
                (tracks.received, sent * sessions as f64 / self.publishers.max(1) as f64)
            }
            false => (tracks.received, client_seconds * media.packets_per_second()),
        };
        let mut step = RtcStep {
            sessions,
            sessions_up: self.engine.population(self.steps_publish).up,
            publishers_up: self.engine.population(true).up,
            begun_s: (before.machine.at - self.begun).as_secs_f64(),
            seconds,
            packets,
            media_bits_per_second: bytes as f64 * 8.0 / seconds,
            us_per_packet: cost.server_cpu_s.map(|cpu_s| cpu_s * 1e6 / packets.max(1) as f64),
            delivered: (!self.steps_publish && self.publishers > 0).then(|| arrived as f64 / due),
            latency: self.step_latency.percentiles(),
            delays: new.delays.percentiles(),
            audio_latency: new.audio_latency.percentiles(),
            jitter: self.jitter().percentiles(),
            longest_pause: self.longest_pauses().percentiles(),
            send_lateness: new.lateness.percentiles(),
            nacks_sent: new.nacks.asked - old.nacks.asked,
            nacks_received: new.nacks.heard - old.nacks.heard,
            nacks_answered: new.nacks.answered - old.nacks.answered,
            plis_sent: new.plis_sent - old.plis_sent,
            plis_received: new.plis_received - old.plis_received,
            transport_reports_sent: new.transport_reports_sent - old.transport_reports_sent,
            server: cost.server,
            generator_core_percent: cost.own_cpu_s * 100.0 / seconds,
            others_core_percent: cost.others_core_percent,
            reads_per_client_s: (new.reads - old.reads) as f64 / client_seconds,
            ..RtcStep::default()
        };
        step.set_counts(&tracks);
        (step.lost_audio, step.lost_video) = (audio.lost(), video.lost());
        step
    }

    fn read(&self) -> Reading {
        Reading {
            machine: machine::Reading::now(self.server_pid),
            counters: self.engine.shared.counters.clone(),
            tracks: [0, 1].map(|track| sum(self.viewers(), track..=track)),
        }
    }

    fn viewers(&self) -> impl Iterator<Item = &Viewer> {
        self.engine.sessions.iter().filter_map(|session| match &session.role {
            Role::Viewer(Some(viewer)) => Some(&**viewer),
            _ => None,
        })
    }

    fn longest_pauses(&self) -> Times {
        let now_ns = clock::wall_ns();
        let mut times = Times::new();
        for longest_ns in self.viewers().filter_map(|viewer| viewer.pauses.longest_ns(now_ns)) {
            times.record_ns(longest_ns);
        }
        times
    }

    fn jitter(&self) -> Times {
        let mut times = Times::new();
        for viewer in self.viewers() {
            for track in Track::ALL {
                if let Some(jitter_s) = viewer.tracks[track.index()].jitter_s(track.clock_rate()) {
                    times.record_ns((jitter_s * 1e9) as u64);
                }
            }
        }
        times
    }

    fn finish(mut self, load: &RtcLoadArgs) -> Result<RtcReport, String> {
        self.live.stop();
        let ended_at = clock::monotonic();
        self.engine.stop_publishing();
        // Packets in flight and retransmissions may still arrive.
        self.wait(DRAIN_TIME + Duration::from_millis(4 * u64::from(load.delay)))?;
        self.report.profiles = profiles(&self.engine.sessions);
        let mut outcome = RtcOutcome { interrupted: self.interrupted, ..RtcOutcome::default() };
        for session in &mut self.engine.sessions {
            judge(session, ended_at, load);
            outcome.taken_away += session.link.as_ref().map_or(0, Link::taken_away);
            match &session.phase {
                Phase::Failed(reason) => *outcome.failures.entry(reason.clone()).or_default() += 1,
                _ => outcome.succeeded += 1,
            }
        }
        if let Some(path) = &self.trace {
            let tracer = self.viewers().next().and_then(|viewer| viewer.tracer.as_ref());
            let trace = tracer.and_then(|tracer| tracer.finish());
            trace.ok_or("--trace: the first viewer did not get 4.5 s of media")?.write(path)?;
        }
        let tracks = sum(self.viewers(), 0..=1);
        self.engine.end(END_TIME)?;
        self.report.observed = self.live.finish();
        if let Some(reason) = self.report.observed.failure() {
            outcome.failures.insert(reason, 1);
        }
        set_outcome(&mut outcome, &tracks, &self.engine.shared.counters, load);
        self.report.outcome = outcome;
        Ok(self.report)
    }
}

/// What the given tracks of the viewers counted together.
fn sum<'a>(viewers: impl Iterator<Item = &'a Viewer>, tracks: std::ops::RangeInclusive<usize>) -> Counts {
    let mut sum = Counts::default();
    viewers.flat_map(|viewer| &viewer.tracks[tracks.clone()]).for_each(|track| sum.add(&track.counts));
    sum
}

fn profiles(sessions: &[Session]) -> BTreeMap<String, usize> {
    let mut profiles = BTreeMap::new();
    for profile in sessions.iter().filter_map(|session| session.link.as_ref()?.profile()) {
        *profiles.entry(ProfileName::name_of(profile)).or_default() += 1;
    }
    profiles
}

/// Turns what is known of a session at the end into a failure, if it is one.
fn judge(session: &mut Session, ended_at: Instant, load: &RtcLoadArgs) {
    match session.phase {
        Phase::Asking => session.fail("the server did not answer until the end".to_owned()),
        Phase::Connecting => session.fail("not connected until the end".to_owned()),
        Phase::Starting => session.fail("no key frame until the end".to_owned()),
        Phase::Up | Phase::Failed(_) => {}
    }
    let Role::Viewer(Some(viewer)) = &session.role else { return };
    let counts = sum(std::iter::once(&**viewer), 0..=1);
    let last = viewer.last_media.unwrap_or(session.begun);
    if counts.lost() as f64 > counts.expected as f64 * load.accept_loss {
        session.fail("packets missing".to_owned());
    } else if ended_at.saturating_duration_since(last) > load.silence {
        session.fail("silent at the end".to_owned());
    }
}

fn set_outcome(outcome: &mut RtcOutcome, tracks: &Counts, counters: &Counters, load: &RtcLoadArgs) {
    outcome.expected = tracks.expected;
    outcome.lost = tracks.lost();
    outcome.decrypted = counters.decrypted;
    outcome.not_authentic = counters.not_authentic;
    outcome.replayed = counters.replayed;
    outcome.unknown = counters.unknown;
    outcome.early = counters.early;
    outcome.not_sent = counters.not_sent;
    outcome.sender_reports = counters.sender_reports;
    outcome.receiver_reports = counters.receiver_reports;
    outcome.transport_feedback = counters.transport_feedback;
    outcome.failed = outcome.failures.values().sum();
    let lost_too_many = outcome.lost as f64 > outcome.expected as f64 * load.accept_loss;
    let wrong = outcome.not_authentic + outcome.unknown + outcome.not_sent;
    outcome.ok = outcome.failed == 0 && !lost_too_many && wrong == 0;
}

fn server_usage(pid: Option<u32>) -> Option<Usage> {
    procfs::read(pid?).ok()
}

/// A step, before the whole is reported.
fn step_line(step: &RtcStep) -> String {
    let us = step.us_per_packet.map_or_else(String::new, |us| format!(", {us:.2} us a packet"));
    format!("n={} up={} lost={}{us}", step.sessions, step.sessions_up, step.lost)
}

/// Beyond the round trip through the faults.
const RETRY_SLACK: Duration = Duration::from_millis(40);
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
const DRAIN_TIME: Duration = Duration::from_millis(200);

/// Time the server has to answer all DELETEs.
const END_TIME: Duration = Duration::from_secs(5);
