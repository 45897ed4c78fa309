//! The coordinator of a run: starts workers, climbs the steps, watches the server, collects the report.
//!
//! It works about twenty times a second and touches no socket, so that measuring does not disturb what is
//! measured. Steps run like this: raise the number of sessions, wait until all are up or have failed, let
//! things settle, then measure for a while. CPU and delivery figures are differences over that window.

use std::fs;
use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::cli::{LoadArgs, PlayArgs, PublishArgs};
use crate::clock;
use crate::counters::Traffic;
use crate::live::{Live, Watch};
use crate::machine::{self, Reading, StopSignals};
use crate::net::{Protocols, Target};
use crate::procfs::{self, Usage};
use crate::report::{Outcome, Point, RunReport, SampleReport, StepReport};
use crate::sample::Sample;
use crate::stats::{Counted, Times};
use crate::tally::Count;
use crate::worker::{self, Order, Population, Report, Status, Verdict, Window, WorkerConfig};

/// Publishes N times.
///
/// # Errors
/// A text for the user when the run could not be done at all. Failed sessions are no error but a result.
pub fn publish(args: &PublishArgs, protocol: Protocols) -> Result<RunReport, String> {
    let target = Target::resolve(&args.load.run.url, protocol)?;
    if args.load.run.sessions_max() > 1 && !target.has_placeholder() {
        return Err("several publishers need streams of their own: put {} into the stream name".to_owned());
    }
    let plan = Plan { publish: Some(target), play: None, publishers: 0, buffer_ms: 0, what: "publish" };
    run(&args.load, plan)
}

/// Plays N times, after publishing if asked to.
///
/// # Errors
/// As for [`publish`].
pub fn play(args: &PlayArgs, protocol: Protocols) -> Result<RunReport, String> {
    let target = Target::resolve(&args.load.run.url, protocol)?;
    let publish = match args.publish.as_deref() {
        None => None,
        Some("") if protocol == Protocols::Rtmp => Some(target.clone()),
        Some("") => {
            return Err("--publish needs a URL here: --publish=rtmp://host/app/stream, or srt://".to_owned());
        }
        Some(url) => Some(Target::resolve(url, Protocols::of_publisher(url))?),
    };
    let streams = args.load.run.streams.unwrap_or(args.load.run.sessions_max());
    let publishers = match &publish {
        None => 0,
        Some(target) if target.has_placeholder() => streams,
        Some(_) => 1,
    };
    run(&args.load, Plan { publish, play: Some(target), publishers, buffer_ms: args.buffer_ms, what: "play" })
}

/// What kind of sessions a run holds.
struct Plan {
    publish: Option<Target>,
    /// `None`: the steps count publishers.
    play: Option<Target>,
    /// Publishers to have before the first player.
    publishers: usize,
    buffer_ms: u32,
    what: &'static str,
}

fn run(load: &LoadArgs, plan: Plan) -> Result<RunReport, String> {
    load.run.validate()?;
    let sample = match &load.sample {
        None => Sample::embedded()?,
        Some(path) => {
            let file = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
            Sample::from_flv(&file).map_err(|error| format!("{}: {error}", path.display()))?
        }
    };
    let sockets = plan.play.as_ref().map_or(1, |target| target.protocol.sockets());
    let signals = machine::prepare(&load.run, load.run.sessions_max() * sockets + plan.publishers)?;
    let mut conductor = Conductor::start(load, &plan, sample, signals)?;
    conductor.climb(load, &plan)?;
    conductor.finish()
}

/// What a browser is to play, if anything: it knows neither RTMP nor FLV.
fn watch(load: &LoadArgs, streams: usize) -> Result<Option<Watch>, String> {
    match load.run.watch.clone() {
        None => Ok(None),
        Some(url) if url.is_empty() => {
            Err("--watch needs a URL here: --watch=http://host/whep/app/stream, or that of a page".to_owned())
        }
        Some(url) => Ok(Some(Watch { url, streams, token: String::new(), headed: load.run.headed })),
    }
}

/// State of a run.
struct Conductor {
    workers: Vec<JoinHandle<io::Result<()>>>,
    orders: Vec<Sender<Order>>,
    reports: Receiver<Report>,
    statuses: Vec<Status>,
    signals: StopSignals,
    interrupted: bool,
    begun: Instant,
    server_pid: Option<u32>,
    /// Whether the sessions counted by steps are publishers.
    steps_publish: bool,
    sample_bytes_per_second: f64,
    baseline_rss_kib: u64,
    point_interval: Duration,
    last_point: PointState,
    point_latency: Times,
    live: Live,
    report: RunReport,
}

/// Counters at the last point, for differences.
struct PointState {
    at: Instant,
    media_bytes: u64,
    reads: u64,
    server_cpu_s: f64,
    own_cpu_s: f64,
}

impl Conductor {
    fn start(
        load: &LoadArgs,
        plan: &Plan,
        sample: Sample,
        signals: StopSignals,
    ) -> Result<Conductor, String> {
        let protocol = plan.play.as_ref().or(plan.publish.as_ref()).map(|target| target.protocol.name());
        let command = format!("{} {} {}", protocol.unwrap_or_default(), plan.what, load.run.url);
        let streams = load.run.streams.unwrap_or(load.run.sessions_max());
        let Some(server) = plan.play.as_ref().or(plan.publish.as_ref()) else {
            return Err("neither publishers nor players".to_owned());
        };
        let server_pid = machine::server_pid(&load.run, server.address)?;
        let live = Live::start(&load.run, &command, server.address, server_pid, watch(load, streams)?)?;
        machine::pin(&load.run)?;
        let (report_sender, reports) = mpsc::channel();
        let threads = usize::from(load.threads);
        let (mut workers, mut orders) = (Vec::new(), Vec::new());
        for index in 0..threads {
            let config = WorkerConfig {
                index,
                workers: threads,
                publish: plan.publish.clone(),
                play: plan.play.clone(),
                streams,
                ramp: load.ramp,
                start_timeout: load.run.start_timeout,
                silence: load.silence,
                buffer_ms: plan.buffer_ms,
                pulse_ms: load.pulse_ms,
                turn_ms: load.run.turn_ms,
                sample: sample.clone(),
            };
            let (order_sender, worker_orders) = mpsc::channel();
            let (worker_reports, core) = (report_sender.clone(), load.run.core.map(|core| core + index));
            let thread = thread::Builder::new().name(format!("load-{index}")).spawn(move || {
                core.map_or(Ok(()), machine::pin_to_core).map_err(io::Error::other)?;
                worker::run(config, &worker_orders, &worker_reports)
            });
            workers.push(thread.map_err(|error| format!("cannot start a thread: {error}"))?);
            orders.push(order_sender);
        }
        let begun = clock::monotonic();
        let server_cpu_s = server_pid.and_then(|pid| procfs::read(pid).ok()).unwrap_or_default().cpu_s;
        let report = RunReport {
            command,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            begun_at_unix_s: clock::wall_ns() / 1_000_000_000,
            machine: machine::describe(),
            threads,
            sample: plan.publish.is_some().then(|| SampleReport {
                bits_per_second: sample.bytes_per_second() * 8.0,
                messages_per_second: sample.messages_per_second(),
                stamped: sample.is_stamped(),
            }),
            ..RunReport::default()
        };
        Ok(Conductor {
            statuses: vec![Status::default(); threads],
            workers,
            orders,
            reports,
            signals,
            interrupted: false,
            begun,
            server_pid,
            steps_publish: plan.play.is_none(),
            sample_bytes_per_second: sample.bytes_per_second(),
            baseline_rss_kib: 0,
            point_interval: load.run.interval,
            last_point: PointState {
                at: begun,
                media_bytes: 0,
                reads: 0,
                server_cpu_s,
                own_cpu_s: machine::own_cpu_s(),
            },
            point_latency: Times::new(),
            live,
            report,
        })
    }

    /// Publishers first, then step by step up to the last.
    fn climb(&mut self, load: &LoadArgs, plan: &Plan) -> Result<(), String> {
        if plan.publishers > 0 {
            self.live.stage("publishers begin", 0);
            self.order(Order::Publishers(plan.publishers));
            self.wait_until_up(plan.publishers, load, |conductor| conductor.population().0)?;
            self.wait(load.run.settle)?;
        }
        self.baseline_rss_kib = self.usage().map_or(0, |usage| usage.rss_kib);
        for &sessions in &load.run.sessions {
            if self.interrupted {
                break;
            }
            self.live.stage("sessions begin", sessions);
            let order =
                if self.steps_publish { Order::Publishers(sessions) } else { Order::Players(sessions) };
            self.order(order);
            self.wait_until_up(sessions, load, Conductor::counted)?;
            self.live.watch()?;
            self.live.stage("things settle", sessions);
            self.wait(load.run.settle)?;
            if !self.interrupted {
                self.measure(sessions, load.run.duration)?;
            }
        }
        Ok(())
    }

    /// Waits until as many sessions are up or failed. Sessions have their own deadline, so this ends.
    fn wait_until_up(
        &mut self,
        sessions: usize,
        load: &LoadArgs,
        population: impl Fn(&Conductor) -> Population,
    ) -> Result<(), String> {
        let ramp = Duration::from_secs_f64(sessions as f64 / load.ramp);
        let deadline = clock::monotonic() + ramp + load.run.start_timeout + Duration::from_secs(2);
        while !self.interrupted && clock::monotonic() < deadline {
            let now = population(self);
            if now.up + now.failed >= sessions {
                break;
            }
            self.pump(deadline)?;
        }
        Ok(())
    }

    fn wait(&mut self, time: Duration) -> Result<(), String> {
        let until = clock::monotonic() + time;
        while !self.interrupted && clock::monotonic() < until {
            self.pump(until)?;
        }
        Ok(())
    }

    fn measure(&mut self, sessions: usize, duration: Duration) -> Result<(), String> {
        self.live.stage(&format!("measuring for {:.0} s", duration.as_secs_f64()), sessions);
        self.order(Order::OpenWindow);
        let before = Reading::now(self.server_pid);
        self.wait(duration)?;
        self.order(Order::CloseWindow);
        let cost = Reading::now(self.server_pid).since(&before, sessions, self.baseline_rss_kib);
        let seconds = cost.seconds;
        let window = self.collect_window()?;
        let client_seconds = (sessions as f64 * seconds).max(f64::MIN_POSITIVE);
        if self.server_pid.is_some() && cost.server.is_none() {
            return Err("the server under test has ended".to_owned());
        }
        let up = self.counted().up;
        let delivery = self.delivery(&window, sessions, up, seconds);
        self.report.steps.push(StepReport {
            sessions,
            sessions_up: up,
            begun_s: (before.at - self.begun).as_secs_f64(),
            seconds,
            media_bits_per_second: delivery.received as f64 * 8.0 / seconds,
            expected_bytes: delivery.expected,
            received_bytes: delivery.received,
            delivered: delivery.ratio,
            latency: window.latency.percentiles(),
            stalls: window.stalls,
            server: cost.server,
            generator_cpu_ms_per_client_s: cost.own_cpu_s * 1000.0 / client_seconds,
            generator_core_percent: cost.own_cpu_s * 100.0 / seconds,
            others_core_percent: cost.others_core_percent,
            reads_per_client_s: window.traffic.reads as f64 / client_seconds,
            packets: window.traffic.packets,
            us_per_packet: cost
                .server_cpu_s
                .filter(|_| window.traffic.packets > 0)
                .map(|seconds| seconds * 1e6 / window.traffic.packets as f64),
        });
        Ok(())
    }

    /// What a window should have carried and what it did. Sessions that are not up count with the
    /// sample's rate.
    fn delivery(&self, window: &Window, sessions: usize, up: usize, seconds: f64) -> Delivery {
        let absent = sessions.saturating_sub(up) as f64 * seconds * self.sample_bytes_per_second;
        if self.steps_publish {
            let expected = window.traffic.media_sent.bytes + absent as u64;
            let received = window.traffic.media_sent.bytes.saturating_sub(window.unsent_bytes);
            return Delivery { expected: Some(expected), received, ratio: ratio(received, expected) };
        }
        let received = window.traffic.media_received.bytes;
        if window.players_stamped < window.players_up || window.players_stamped == 0 {
            return Delivery { expected: None, received, ratio: None };
        }
        let expected = window.judged.expected.bytes + window.late_bytes + absent as u64;
        let complete = window.judged.expected.bytes - window.judged.missing.bytes;
        Delivery {
            expected: Some(expected),
            received: window.judged.received.bytes,
            ratio: ratio(complete, expected),
        }
    }

    fn collect_window(&mut self) -> Result<Window, String> {
        let mut merged = Window::default();
        let mut missing = self.workers.len();
        let deadline = clock::monotonic() + REPLY_TIME;
        while missing > 0 {
            if let Some(Report::Window(window)) = self.receive(deadline)? {
                merged.merge(&window);
                missing -= 1;
            }
            if clock::monotonic() > deadline {
                return Err("a load thread did not report in time".to_owned());
            }
        }
        Ok(merged)
    }

    fn finish(mut self) -> Result<RunReport, String> {
        self.live.stop();
        self.order(Order::Finish);
        let mut merged = Verdict::default();
        let mut missing = self.workers.len();
        let deadline = clock::monotonic() + REPLY_TIME;
        while missing > 0 {
            if let Some(Report::Finished(verdict)) = self.receive(deadline)? {
                merged.merge(&verdict);
                missing -= 1;
            }
            if clock::monotonic() > deadline {
                return Err("a load thread did not finish in time".to_owned());
            }
        }
        for worker in self.workers {
            let ended = worker.join().map_err(|_| "a load thread panicked".to_owned())?;
            ended.map_err(|error| format!("a load thread failed: {error}"))?;
        }
        self.report.observed = self.live.finish();
        self.report.outcome = outcome(&merged, self.interrupted, self.report.observed.failure());
        Ok(self.report)
    }

    fn order(&mut self, order: Order) {
        for sender in &self.orders {
            // A worker that has ended is noticed by its missing report.
            let _ = sender.send(order);
        }
    }

    /// Works for a moment: takes one report, keeps charts and progress up to date.
    fn pump(&mut self, until: Instant) -> Result<(), String> {
        self.receive(until).map(drop)
    }

    /// Takes one report; a status is digested here, anything else is returned.
    fn receive(&mut self, until: Instant) -> Result<Option<Report>, String> {
        let time = until.saturating_duration_since(clock::monotonic()).min(PUMP_TIME);
        let report = match self.reports.recv_timeout(time) {
            Ok(Report::Status(status)) => {
                self.point_latency.merge(&status.latency);
                let worker = status.worker;
                self.statuses[worker] = *status;
                None
            }
            Ok(report) => Some(report),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return Err("all load threads ended early".to_owned()),
        };
        self.interrupted |= self.signals.arrived();
        if self.last_point.at.elapsed() >= self.point_interval {
            self.add_point();
        }
        Ok(report)
    }

    fn add_point(&mut self) {
        let now = clock::monotonic();
        let seconds = (now - self.last_point.at).as_secs_f64();
        let (usage, own_cpu_s) = (self.usage(), machine::own_cpu_s());
        let traffic = self.traffic();
        let media = if self.steps_publish { traffic.media_sent } else { traffic.media_received };
        let latency = self.point_latency.percentiles();
        let population = self.counted();
        let reads = (traffic.reads - self.last_point.reads) as f64;
        let mut point = Point {
            t: (now - self.begun).as_secs_f64(),
            sessions_up: population.up,
            sessions_failed: population.failed,
            media_bits_per_second: (media.bytes - self.last_point.media_bytes) as f64 * 8.0 / seconds,
            latency_ms_p50: latency.map(|latency| latency.p50_ms),
            latency_ms_p99: latency.map(|latency| latency.p99_ms),
            server_core_percent: usage
                .map(|usage| (usage.cpu_s - self.last_point.server_cpu_s) * 100.0 / seconds),
            server_rss_kib: usage.map(|usage| usage.rss_kib),
            reads_per_client_s: if population.up == 0 {
                0.0
            } else {
                reads / (population.up as f64 * seconds)
            },
            generator_core_percent: (own_cpu_s - self.last_point.own_cpu_s) * 100.0 / seconds,
            ..Point::default()
        };
        self.point_latency.clear();
        let server_cpu_s = usage.map_or(0.0, |usage| usage.cpu_s);
        self.last_point =
            PointState { at: now, media_bytes: media.bytes, reads: traffic.reads, server_cpu_s, own_cpu_s };
        self.live.point(&mut point);
        self.report.points.push(point);
    }

    /// Publishers and players of all workers.
    fn population(&self) -> (Population, Population) {
        let (mut publishers, mut players) = (Population::default(), Population::default());
        for status in &self.statuses {
            publishers.add(&status.publishers);
            players.add(&status.players);
        }
        (publishers, players)
    }

    /// The sessions that steps count.
    fn counted(&self) -> Population {
        let (publishers, players) = self.population();
        if self.steps_publish { publishers } else { players }
    }

    fn traffic(&self) -> Traffic {
        let mut traffic = Traffic::default();
        self.statuses.iter().for_each(|status| traffic.add(&status.traffic));
        traffic
    }

    fn usage(&self) -> Option<Usage> {
        procfs::read(self.server_pid?).ok()
    }
}

struct Delivery {
    expected: Option<u64>,
    received: u64,
    ratio: Option<f64>,
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn outcome(verdict: &Verdict, interrupted: bool, browser: Option<String>) -> Outcome {
    let judged = &verdict.judged;
    let mut failures = verdict.failures.clone();
    failures.extend(browser.map(|reason| (reason, 1)));
    let failed = failures.values().sum();
    Outcome {
        ok: failed == 0 && judged.missing == Count::default() && judged.excess == Count::default(),
        interrupted,
        succeeded: verdict.succeeded,
        failed,
        failures,
        expected_bytes: (verdict.players_stamped > 0).then_some(judged.expected.bytes),
        received_bytes: judged.received.bytes,
        missing_messages: judged.missing.messages,
        missing_bytes: judged.missing.bytes,
        excess_bytes: judged.excess.bytes,
        players_unstamped: verdict.players_unstamped,
        stalls: verdict.stalls,
        players_stalled: verdict.players_stalled,
        stalled_ms_mean: verdict.stalled_ns as f64 / 1e6 / verdict.players_stalled.max(1) as f64,
        first_frame: verdict.first_frame.percentiles(),
        send_lateness: verdict.send_lateness.percentiles(),
    }
}

const PUMP_TIME: Duration = Duration::from_millis(50);

/// A worker answers within one turn, and `Finish` within its drain time.
const REPLY_TIME: Duration = Duration::from_secs(30);
