//! A simulation from its seed: how many servers, which settings, who comes, and what goes wrong.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::AddAssign;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use netsim::Random;
use netsim::kernel::{self, Faults, Path};
use worker_api::pattern::Pattern;
use worker_api::rtc::RtcRole;
use worker_api::settings::{
    Application, ApplicationSettings, BridgeSettings, RelaySettings, SecondPublisher, TranscodingSettings,
    UdpBackend, WorkerSettings,
};

use crate::actors::cluster::{self, Cluster, Directory, SHARED_FROM, relay_ip};
use crate::actors::flv::{Carrier, FlvPlayer};
use crate::actors::hostile::{Habit, Hostile};
use crate::actors::internal::InternalPublisher;
use crate::actors::operator::Operator;
use crate::actors::rtc::{self, RtcClient};
use crate::actors::rtmp_play::{self, RtmpPlayer};
use crate::actors::rtmp_publish::{self, RtmpPublisher};
use crate::actors::stranger::Stranger;
use crate::actors::{Leave, Shows, ms};
use crate::ledger::{Ledger, StreamKey};
use crate::server::Server;
use crate::world::{Schedule, World};

/// What a seed stands for. [`Config::of`] draws it; a part can be switched off to find out whether a failure
/// needs it.
#[derive(Debug, Clone)]
pub struct Config {
    /// The seed.
    pub seed: u64,
    /// Servers.
    pub servers: usize,
    /// Workers of each.
    pub workers: usize,
    /// UDP ports of each worker.
    pub ports: u16,
    /// Streams published by RTMP, on each server.
    pub streams: usize,
    /// Streams published by WebRTC, on each server.
    pub rtc_streams: usize,
    /// Players of frames of each stream.
    pub players: usize,
    /// Viewers of each WebRTC stream.
    pub viewers: usize,
    /// Viewers by WebRTC of each RTMP stream, and players by RTMP and FLV of each WebRTC stream.
    pub bridged: usize,
    /// Streams published by WebRTC that are one on all servers, which are a cluster if there are any.
    pub shared: usize,
    /// Links between the servers break and come back.
    pub breaks: bool,
    /// Publishers of ten that are sources inside the server.
    pub internal: u64,
    /// The API of each server is used; sessions are ended by it as well.
    pub operator: Option<bool>,
    /// Players by RTMP of ten that pause for a while.
    pub pauses: u64,
    /// Hostile clients of each server.
    pub hostile: usize,
    /// Clients of each server that have no credentials and send to all of its UDP ports.
    pub strangers: usize,
    /// Viewers of ten that send RTCP that makes no sense, or show another certificate than their own.
    pub storms: u64,
    /// WebRTC streams of ten that have simulcast layers, among which viewers choose all the time.
    pub layers: u64,
    /// The same of streams that all nodes of a cluster have.
    pub shared_layers: u64,
    /// Some WebRTC clients whose address changes are on another host then.
    pub roams: bool,
    /// Caches are so small that some groups of pictures do not fit.
    pub has_small_caches: bool,
    /// Connections that wait for a server to accept them, at most.
    pub backlog: Option<usize>,
    /// Second publishers of streams that have one.
    pub rivals: usize,
    /// They come again when they were thrown out, as encoders do, all of them.
    pub fights: bool,
    /// Publishers leave after some seconds and come back.
    pub flaps: bool,
    /// Publishers of ten that send frames in lots.
    pub bursts: u64,
    /// Everybody comes at once and stays.
    pub is_full: bool,
    /// How long it lasts, before everybody leaves.
    pub lasts: Duration,
    /// Clients on bad paths, of ten.
    pub bad_paths: u64,
    /// Clients of ten whose datagrams arrive in clumps.
    pub clumps: u64,
    /// What system calls do.
    pub faults: Faults,
    /// What the scheduler does.
    pub schedule: Schedule,
    /// The servers are told to stop while everybody is there.
    pub drains: bool,
    /// A token is needed.
    pub needs_token: bool,
    /// The settings of all servers.
    pub settings: WorkerSettings,
    /// Of how many turns, of everybody, one is followed by a full audit if it was a worker's.
    pub audit_every: u64,
}

/// What came of a seed.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// What was found wrong.
    pub violations: Vec<String>,
    /// Virtual time.
    pub virtual_time: Duration,
    /// Times an invariant was checked.
    pub checks: u64,
    /// Turns of everybody.
    pub steps: u64,
    /// Frames that players got.
    pub frames: u64,
    /// Packets that viewers got.
    pub packets: u64,
    /// Datagrams that servers got from each other.
    pub relayed: u64,
    /// Frames that players missed.
    pub missed: u64,
    /// Messages of several datagrams that servers sent.
    pub runs: u64,
    /// Datagrams that servers received behind others in one message.
    pub joined: u64,
    /// The same for two runs of one seed.
    pub digest: u64,
}

impl Outcome {
    /// What the first violation says, whoever it is of and whenever it was: all but the numbers.
    fn kind(&self) -> Option<String> {
        let text = self.violations.first()?;
        Some(text.chars().filter(|char| !char.is_ascii_digit() && !matches!(char, ' ' | '.')).collect())
    }
}

impl AddAssign for Outcome {
    fn add_assign(&mut self, other: Self) {
        self.violations.extend(other.violations);
        self.virtual_time += other.virtual_time;
        self.checks += other.checks;
        self.steps += other.steps;
        self.frames += other.frames;
        self.packets += other.packets;
        self.relayed += other.relayed;
        self.missed += other.missed;
        self.runs += other.runs;
        self.joined += other.joined;
        self.digest ^= other.digest;
    }
}

impl Config {
    /// The simulation of a seed.
    pub fn of(seed: u64) -> Self {
        let random = &mut Random::new(seed);
        let mut some = |probability: f64, value: f64| if random.chance(probability) { value } else { 0.0 };
        let faults = Faults {
            partial_read: some(0.4, 0.2),
            partial_write: some(0.4, 0.2),
            false_report: some(0.3, 0.05),
            interrupt: some(0.3, 0.05),
            abort_accept: some(0.2, 0.2),
            no_buffers: some(0.2, 0.05),
            ..Faults::default()
        };
        let schedule = Schedule { delay: some(0.4, 0.3), stall: some(0.1, 0.0005), drowsy: 0.0 };
        let random = &mut Random::new(seed ^ 0x636f_6e66);
        let pick = |random: &mut Random, of: &[u64]| of[random.below(of.len() as u64) as usize];
        let application = ApplicationSettings {
            merge_latency: ms(pick(random, &[0, 20, 100, 350])),
            merge_messages: pick(random, &[0, 0, 1, 8]) as u32,
            gop_cache: random.chance(0.8),
            player_queue_bytes_max: pick(random, &[64 << 10, 512 << 10, 8 << 20]) as usize,
            player_queue_duration_max: ms(pick(random, &[2_000, 10_000])),
            player_stall_timeout: ms(pick(random, &[3_000, 10_000])),
            wait_for_publisher: [Some(Duration::ZERO), Some(ms(5_000)), Some(ms(30_000)), None]
                [random.below(4) as usize],
            second_publisher: if random.chance(0.5) {
                SecondPublisher::TakeOver
            } else {
                SecondPublisher::Refuse
            },
            bridge: BridgeSettings { enabled: random.chance(0.7), ..BridgeSettings::default() },
            ..ApplicationSettings::default()
        };
        let settings = WorkerSettings {
            workers: 1 + random.below(3) as usize,
            handshake_timeout: ms(pick(random, &[3_000, 10_000])),
            publisher_idle_timeout: ms(pick(random, &[5_000, 30_000])),
            sessions_max: pick(random, &[50_000, 50_000, 50_000, 12]) as usize,
            ring_frames: pick(random, &[4096, 4096, 64, 4]) as usize,
            applications: vec![Application { pattern: Pattern::new("*"), settings: Arc::new(application) }],
            transcoding: TranscodingSettings { streams_max: 0, ..TranscodingSettings::default() },
            ..WorkerSettings::default()
        };
        // What came later draws from numbers of its own, so that seeds stay what they were.
        let more = &mut Random::new(seed ^ 0x6d6f_7265);
        // In this order: each draws from what those before it have left.
        let mut config = Self {
            servers: 1 + random.below(3) as usize,
            streams: random.below(4) as usize,
            rtc_streams: random.below(3) as usize,
            players: random.below(8) as usize,
            viewers: random.below(5) as usize,
            bridged: more.below(3) as usize,
            internal: pick(more, &[0, 0, 2, 5]),
            operator: [None, Some(false), Some(true)][more.below(3) as usize],
            hostile: if random.chance(0.5) { random.below(8) as usize } else { 0 },
            rivals: if random.chance(0.4) { 2 } else { 0 },
            lasts: ms(20_000 + random.below(40_000)),
            bad_paths: pick(random, &[0, 0, 3, 8]),
            faults,
            schedule,
            drains: random.chance(0.15),
            needs_token: random.chance(0.3),
            ..Self::quiet(seed, settings)
        };
        if random.chance(0.1) {
            config.faults.descriptors = Some(12 + random.below(20) as usize);
        }
        if random.chance(0.1) {
            config.faults.receive_queue = Some(16);
        }
        if more.chance(0.1) {
            config.faults.refuse_send = 0.02;
        }
        if more.chance(0.1) {
            config.settings.rtc.sessions_max = 3;
        }
        if more.chance(0.1) {
            config.settings.sessions_max = 4;
        }
        config.fights = more.chance(0.3);
        config.flaps = more.chance(0.25);
        config.bursts = pick(more, &[0, 0, 3, 8]);
        config.schedule.drowsy = if more.chance(0.5) { 0.3 } else { 0.0 };
        let offload = &mut Random::new(seed ^ 0x6f66_666c_6f61);
        config.faults.coalesce = pick(offload, &[0, 5, 10, 10]) as f64 / 10.0;
        config.faults.refuse_run = if offload.chance(0.2) { 0.05 } else { 0.0 };
        config.faults.no_memory = if offload.chance(0.1) { 0.02 } else { 0.0 };
        config.clumps = pick(offload, &[0, 0, 3, 8]);
        if offload.chance(0.2) {
            config.settings.rtc.udp_backend = UdpBackend::Sendmmsg;
        }
        // A port takes a descriptor, of which there may be just enough.
        let ports = &mut Random::new(seed ^ 0x0070_6f72_7473);
        config.ports = if ports.chance(0.25) && config.faults.descriptors.is_none() { 2 } else { 1 };
        config.pauses = pick(&mut Random::new(seed ^ 0x7061_7573_6573), &[0, 0, 2, 5]);
        let rings = &mut Random::new(seed ^ 0x7269_6e67_7300);
        config.faults.late_room = if rings.chance(0.5) { 0.5 } else { 0.0 };
        let cluster = &mut Random::new(seed ^ 0x636c_7573_7465_7200);
        if config.servers > 1 && cluster.chance(0.4) {
            (config.shared, config.breaks) = (1 + cluster.below(2) as usize, cluster.chance(0.3));
        }
        let hostile = &mut Random::new(seed ^ 0x7374_7261_6e67_6572);
        config.strangers = pick(hostile, &[0, 0, 1, 2]) as usize;
        config.storms = pick(hostile, &[0, 0, 2, 5]);
        config.layers = pick(&mut Random::new(seed ^ 0x6c61_7965_7273), &[0, 0, 3, 8]);
        config.audit_every = pick(&mut Random::new(seed ^ 0x6175_6469_7400), &[1, 7, 7, 7]);
        config.shared_layers = pick(&mut Random::new(seed ^ 0x7368_6c61_7965), &[0, 5, 10]);
        config.roams = hostile.chance(0.5);
        config.has_small_caches = hostile.chance(0.2);
        config.backlog = hostile.chance(0.1).then(|| hostile.below(3) as usize);
        config
    }

    /// The load that the speed is measured with: three servers, ten streams of 200 kbit/s, a hundred players.
    pub fn load(seed: u64) -> Self {
        let mut settings = WorkerSettings { workers: 2, ..WorkerSettings::default() };
        settings.transcoding.streams_max = 0;
        Self {
            servers: 3,
            streams: 3,
            rtc_streams: 1,
            players: 8,
            viewers: 10,
            bridged: 1,
            operator: Some(false),
            hostile: 1,
            is_full: true,
            bad_paths: 1,
            faults: Faults { partial_read: 0.02, partial_write: 0.02, ..Faults::default() },
            schedule: Schedule { delay: 0.1, stall: 0.0, drowsy: 0.1 },
            audit_every: 64,
            ..Self::quiet(seed, settings)
        }
    }

    /// A server for a minute without anybody and without faults.
    fn quiet(seed: u64, settings: WorkerSettings) -> Self {
        Self {
            seed,
            servers: 1,
            workers: settings.workers,
            ports: 1,
            streams: 0,
            rtc_streams: 0,
            players: 0,
            viewers: 0,
            bridged: 0,
            shared: 0,
            breaks: false,
            internal: 0,
            operator: None,
            pauses: 0,
            hostile: 0,
            strangers: 0,
            storms: 0,
            layers: 0,
            shared_layers: 0,
            roams: false,
            has_small_caches: false,
            backlog: None,
            rivals: 0,
            fights: false,
            flaps: false,
            bursts: 0,
            is_full: false,
            lasts: ms(60_000),
            bad_paths: 0,
            clumps: 0,
            faults: Faults::default(),
            schedule: Schedule::default(),
            drains: false,
            needs_token: false,
            settings,
            audit_every: 7,
        }
    }

    /// The smallest simulation of this seed that still fails as in `outcome`, and what was left out.
    ///
    /// Parts are left out one after the other; each draws its numbers from the seed whether others are there
    /// or not, but for where they meet in time.
    pub fn shrink(&self, outcome: &Outcome) -> (Self, Vec<String>) {
        type Change = (&'static str, fn(&mut Config));
        const CHANGES: [Change; 38] = [
            ("no scheduler delays", |config| config.schedule = Schedule::default()),
            ("no faults", |config| config.faults = Faults::default()),
            ("no partial reads", |config| config.faults.partial_read = 0.0),
            ("no partial writes", |config| config.faults.partial_write = 0.0),
            ("no false reports", |config| config.faults.false_report = 0.0),
            ("no interrupts", |config| config.faults.interrupt = 0.0),
            ("no full buffers", |config| {
                (config.faults.no_buffers, config.faults.refuse_send) = (0.0, 0.0);
                (config.faults.no_memory, config.faults.refuse_run) = (0.0, 0.0);
            }),
            ("no joined datagrams", |config| config.faults.coalesce = 0.0),
            ("no clumps", |config| config.clumps = 0),
            ("no bad paths", |config| config.bad_paths = 0),
            ("no hostile clients", |config| config.hostile = 0),
            ("no strangers", |config| config.strangers = 0),
            ("no storms", |config| config.storms = 0),
            ("no layers", |config| config.layers = 0),
            ("no layers between nodes", |config| config.shared_layers = 0),
            ("no other hosts", |config| config.roams = false),
            ("caches of the usual size", |config| config.has_small_caches = false),
            ("the usual backlog", |config| config.backlog = None),
            ("no pauses", |config| config.pauses = 0),
            ("no rivals", |config| config.rivals = 0),
            ("no rivals by WebRTC", |config| config.fights = false),
            ("nobody comes back", |config| config.flaps = false),
            ("no lots", |config| config.bursts = 0),
            ("no drain", |config| config.drains = false),
            ("no token", |config| config.needs_token = false),
            ("no bridges", |config| config.bridged = 0),
            ("no cluster", |config| config.shared = 0),
            ("no broken links", |config| config.breaks = false),
            ("no operator", |config| config.operator = None),
            ("no sources inside", |config| config.internal = 0),
            ("no WebRTC", |config| config.rtc_streams = 0),
            ("no RTMP", |config| config.streams = 0),
            ("one server", |config| config.servers = 1),
            ("one worker", |config| config.workers = 1),
            ("one port", |config| config.ports = 1),
            ("one stream", |config| config.streams = config.streams.min(1)),
            ("one player", |config| config.players = config.players.min(1)),
            ("one viewer", |config| config.viewers = config.viewers.min(1)),
        ];
        // Another violation would be another bug.
        let kind = outcome.kind();
        let (mut smallest, mut left_out) = (self.clone(), Vec::new());
        for (name, change) in CHANGES {
            let mut config = smallest.clone();
            change(&mut config);
            if format!("{config:?}") == format!("{smallest:?}") {
                continue;
            }
            if config.run(false).kind() == kind {
                smallest = config;
                left_out.push(name.to_owned());
            }
        }
        (smallest, left_out)
    }

    /// Runs it.
    pub fn run(&self, trace: bool) -> Outcome {
        let mut outcome = Outcome::default();
        let ran = catch_unwind(AssertUnwindSafe(|| self.run_unguarded(trace, &mut outcome)));
        if let Err(panic) = ran {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            outcome.violations.push(format!("panic: {}", text.unwrap_or_default()));
        }
        outcome
    }

    fn run_unguarded(&self, trace: bool, outcome: &mut Outcome) {
        let faults = Faults { backlog: self.backlog, ..self.faults.clone() };
        kernel::begin(self.seed, Path::default(), faults);
        let mut ledger = Ledger::new(self.seed);
        ledger.trace = trace;
        // A worker stands still for a second at most, and not often.
        ledger.slack = if self.schedule.stall > 0.0 { ms(5_000) } else { Duration::ZERO };
        ledger.is_crowded = self.faults.descriptors.is_some() || self.settings.sessions_max < 1_000;
        ledger.is_crowded |= self.backlog.is_some();
        ledger.has_few_rtc_sessions = self.settings.rtc.sessions_max < 1_000;
        ledger.has_strangers = self.strangers > 0;
        ledger.loses_between_workers = self.workers > 1 && self.settings.ring_frames < 1_000;
        ledger.ends_sessions = self.operator == Some(true);
        ledger.is_plain_http = self.hostile == 0 && self.internal == 0;
        let mut settings = self.settings.clone();
        settings.workers = self.workers;
        if self.has_small_caches {
            // The least that the configuration takes; any key frame fits.
            settings.rtc.history_bytes_max = 65_536;
            settings.rtc.gop_cache_bytes_max = 30_000;
            for application in &mut settings.applications {
                let settings = Arc::make_mut(&mut application.settings);
                (settings.gop_cache_bytes_max, settings.gop_cache_duration_max) = (20_000, ms(1_500));
            }
        }
        let port = |at| SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 9_000 + 100 * at);
        settings.rtc.udp = (0..self.ports).map(port).collect();
        let token = self.needs_token.then(|| "secret".to_owned());
        let directory = Arc::new(Directory::default());
        let is_cluster = self.shared > 0;
        ledger.has_good_links = is_cluster && !self.breaks && self.faults.receive_queue.is_none();
        ledger.has_broken_links = is_cluster && self.breaks;
        ledger.has_shared_layers = is_cluster && self.shared_layers > 0;
        let servers = (0..self.servers).map(|server| {
            let ip = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1 + server as u8));
            let mut settings = settings.clone();
            let listen = SocketAddr::new(relay_ip(server), 9_000);
            let udp_backend = settings.rtc.udp_backend;
            settings.relay = is_cluster.then_some(RelaySettings { listen, udp_backend, interface: None });
            let elsewhere = is_cluster.then(|| directory.of(server));
            Server::start(&mut ledger, ip, settings, token.clone(), elsewhere)
        });
        let servers = servers.collect();
        let mut world = World::new(self.seed, ledger, servers, self.schedule);
        world.audit_every = self.audit_every;
        if is_cluster {
            self.cluster(&mut world, directory);
        }
        self.populate(&mut world);
        world.run_until(self.lasts);
        if world.ledger.violations.is_empty() {
            if self.drains {
                world.drain(ms(5_000));
            } else {
                world.come_to_rest();
                if world.ledger.violations.is_empty() {
                    world.drain(ms(1_000));
                }
            }
        }
        outcome.violations = std::mem::take(&mut world.ledger.violations);
        outcome.virtual_time = kernel::elapsed();
        outcome.checks = world.ledger.checks;
        outcome.steps = world.steps;
        outcome.frames = world.ledger.frames_received;
        outcome.packets = world.ledger.packets_received;
        outcome.relayed = world.ledger.relayed;
        outcome.missed = world.ledger.frames_missed;
        (outcome.runs, outcome.joined) = (kernel::totals().runs, kernel::totals().joined);
        outcome.digest = kernel::digest();
    }

    fn populate(&self, world: &mut World) {
        let random = &mut Random::new(self.seed ^ 0x706f_7075);
        let (mut host, mut bridged_host, mut rival_host) = (0_u16, 0x8000_u16, 0xc000_u16);
        let mut stranger_host = 0xe000_u16;
        for server in 0..self.servers {
            for stream in 0..self.streams {
                let key = StreamKey { server, stream };
                for rival in 0..=self.rivals {
                    self.publisher(world, random, &mut host, key, rival > 0);
                }
                for _ in 0..self.players {
                    self.player(world, random, &mut host, (key, server), true);
                }
            }
            for stream in 0..self.rtc_streams {
                let key = StreamKey { server, stream: 100 + stream };
                self.rtc(world, random, &mut host, key, RtcRole::Publish);
                for _ in 0..self.viewers {
                    self.rtc(world, random, &mut host, key, RtcRole::Play);
                }
            }
            self.bridged(world, server, &mut bridged_host);
            self.rtc_rivals(world, server, &mut rival_host);
            if let Some(kicks) = self.operator {
                let lasts = self.lasts;
                world.arrive(ms(1_000), Box::new(move |_| Box::new(Operator::new(server, lasts, kicks))));
            }
            for _ in 0..self.strangers {
                let own = &mut Random::new(self.seed ^ u64::from(stranger_host) << 32 ^ 0x7374_7261);
                let (from, _) = self.address(own, &mut stranger_host);
                let (seed, lasts, after) = (own.next_u64(), own.up_to(self.lasts), own.up_to(self.lasts));
                world.arrive(
                    after,
                    Box::new(move |_| Box::new(Stranger::new(server, from, kernel::now() + lasts, seed))),
                );
            }
            for _ in 0..self.hostile {
                let (from, _) = self.address(random, &mut host);
                let habit = Habit::ALL[random.below(6) as usize];
                let after = random.up_to(self.lasts);
                world.arrive(
                    after,
                    Box::new(move |ledger| Box::new(Hostile::new(ledger, server, from, habit))),
                );
            }
        }
    }

    /// The servers become a cluster, with streams that all of them have.
    fn cluster(&self, world: &mut World, directory: Arc<Directory>) {
        let random = &mut Random::new(self.seed ^ 0x6e6f_6465_7300);
        let mut host = 0x4000_u16;
        for server in 0..self.servers {
            let is_bad = random.below(10) < self.bad_paths;
            let some = |random: &mut Random, value: f64| if random.chance(0.5) { value } else { 0.0 };
            let path = Path { delay: random.up_to(ms(30)), ..Path::default() };
            let path = match is_bad {
                true => Path {
                    jitter: random.up_to(ms(20)),
                    loss: some(random, 0.03),
                    duplicate: some(random, 0.03),
                    reorder: some(random, 0.03),
                    corrupt: some(random, 0.01),
                    ..path
                },
                false => path,
            };
            world.ledger.has_good_links &= !is_bad;
            kernel::set_path(relay_ip(server), path);
        }
        let breaks = self.breaks;
        world.arrive(ms(0), Box::new(move |ledger| Box::new(Cluster::new(ledger, directory, breaks))));
        let (links_stay, is_good) = (!self.breaks, world.ledger.has_good_links);
        for stream in 0..self.shared {
            let home = random.below(self.servers as u64) as usize;
            let key = cluster::shared(home, stream);
            for rival in 0..=if self.fights { 2 } else { 0 } {
                let address = self.address(random, &mut host);
                let at = if rival > 0 { random.below(self.servers as u64) as usize } else { home };
                let plan = rtc::Plan { at, ..self.rtc_plan(random, address, host, key, RtcRole::Publish) };
                let plan = match self.flaps {
                    true => rtc::Plan { lasts: ms(2_000) + random.up_to(self.lasts), ..plan },
                    false => plan,
                };
                let after = if rival > 0 { random.up_to(self.lasts) } else { random.up_to(ms(1_000)) };
                world.arrive(after, Box::new(move |ledger| Box::new(RtcClient::new(ledger, plan))));
            }
            for at in 0..self.servers {
                for _ in 0..=self.viewers.min(2) {
                    let (from, is_steady) = self.address(random, &mut host);
                    // What is lost between nodes comes again.
                    let address = (from, is_steady && (links_stay || at == home));
                    let plan = rtc::Plan { at, ..self.rtc_plan(random, address, host, key, RtcRole::Play) };
                    let after = ms(1_000) + random.up_to(self.lasts);
                    world.arrive(after, Box::new(move |ledger| Box::new(RtcClient::new(ledger, plan))));
                }
                for _ in 0..self.bridged {
                    self.player(world, random, &mut host, (key, at), is_good || at == home);
                }
            }
        }
    }

    /// Viewers of what is published by RTMP, and players of what is published by WebRTC.
    fn bridged(&self, world: &mut World, server: usize, host: &mut u16) {
        let random = &mut Random::new(self.seed ^ 0x6272_6964_6765 ^ server as u64);
        for _ in 0..self.bridged {
            for stream in 0..self.streams {
                self.rtc(world, random, host, StreamKey { server, stream }, RtcRole::Play);
            }
            for stream in 0..self.rtc_streams {
                let key = StreamKey { server, stream: 100 + stream };
                self.player(world, random, host, (key, server), true);
            }
        }
    }

    /// Second publishers of what is published by WebRTC, by WebRTC.
    fn rtc_rivals(&self, world: &mut World, server: usize, host: &mut u16) {
        let random = &mut Random::new(self.seed ^ 0x7274_6372_6976 ^ server as u64);
        for stream in 0..if self.fights { self.rtc_streams } else { 0 } {
            let key = StreamKey { server, stream: 100 + stream };
            for _ in 0..2 {
                let address = self.address(random, host);
                let plan = self.rtc_plan(random, address, *host, key, RtcRole::Publish);
                let after = random.up_to(self.lasts);
                world.arrive(after, Box::new(move |ledger| Box::new(RtcClient::new(ledger, plan))));
            }
        }
    }

    /// A client's address, and whether its path is a good one.
    fn address(&self, random: &mut Random, host: &mut u16) -> (IpAddr, bool) {
        *host += 1;
        let [high, low] = host.to_be_bytes();
        let ip = IpAddr::V4(Ipv4Addr::new(10, 1, high, low));
        let is_bad = random.below(10) < self.bad_paths;
        let path = if is_bad {
            Path {
                delay: random.up_to(ms(200)),
                jitter: random.up_to(ms(100)),
                tcp_bits_per_second: random.chance(0.5).then(|| 50_000 + random.below(2_000_000)),
                tcp_window_bytes: 2_000 + random.below(100_000) as usize,
                loss: if random.chance(0.5) { 0.05 } else { 0.0 },
                duplicate: if random.chance(0.3) { 0.05 } else { 0.0 },
                reorder: if random.chance(0.3) { 0.05 } else { 0.0 },
                corrupt: if random.chance(0.2) { 0.02 } else { 0.0 },
                clump: Duration::ZERO,
            }
        } else {
            Path { delay: random.up_to(ms(20)), ..Path::default() }
        };
        let own = &mut Random::new(self.seed ^ u64::from(*host) << 32 ^ 0x636c_756d);
        let clump = if own.below(10) < self.clumps { ms(20) + own.up_to(ms(180)) } else { Duration::ZERO };
        let path = Path { clump, ..path };
        kernel::set_path(ip, path);
        (ip, !is_bad)
    }

    fn publisher(
        &self,
        world: &mut World,
        random: &mut Random,
        host: &mut u16,
        key: StreamKey,
        is_rival: bool,
    ) {
        let (from, is_steady) = self.address(random, host);
        let after = if is_rival { random.up_to(self.lasts) } else { random.up_to(ms(3_000)) };
        let stays = random.chance(0.5);
        let plan = rtmp_publish::Plan {
            key,
            from,
            gop: 10 + random.below(50) as u32,
            video_bytes: 200 + random.below(1_000) as u32,
            lasts: if stays { self.lasts * 2 } else { random.up_to(self.lasts) },
            leave: Leave::any(random),
            retries: if is_rival { 0 } else { random.below(3) as u32 },
            is_steady,
            shows: if random.chance(0.1) { Shows::Nothing } else { Shows::Token },
            burst: Duration::ZERO,
            returns: (0, Duration::ZERO),
        };
        let own = &mut Random::new(self.seed ^ u64::from(*host) << 32 ^ 0x696e_7465);
        let is_internal = own.below(10) < self.internal;
        let plan = rtmp_publish::Plan {
            // Many encoders make one in ten seconds.
            gop: if own.chance(0.15) { 60 + own.below(200) as u32 } else { plan.gop },
            shows: if own.chance(0.15) { Shows::Wrong } else { plan.shows },
            burst: if own.below(10) < self.bursts { own.up_to(ms(1_500)) } else { Duration::ZERO },
            retries: if self.fights { 10 + own.below(30) as u32 } else { plan.retries },
            ..plan
        };
        let plan = if self.is_full {
            rtmp_publish::Plan { video_bytes: 850, lasts: self.lasts * 2, ..plan }
        } else {
            plan
        };
        // More at once than a worker reads at once, where players may be so far behind.
        let settings = worker_api::settings::settings_for(&self.settings.applications, "live");
        let is_heavy = own.chance(0.1) && !self.is_full && settings.player_queue_bytes_max >= 8 << 20;
        let plan = match is_heavy && is_steady && !is_internal {
            true => {
                let path = Path { delay: own.up_to(ms(20)), tcp_window_bytes: 4 << 20, ..Path::default() };
                kernel::set_path(from, path);
                // So much at once is more than small caches hold: nobody could begin with its key frame.
                let burst = if self.has_small_caches { Duration::ZERO } else { ms(1_500) };
                rtmp_publish::Plan { video_bytes: 9_000, burst, ..plan }
            }
            false => plan,
        };
        let plan = match self.flaps {
            true => rtmp_publish::Plan {
                lasts: ms(500) + own.up_to(ms(5_000)),
                returns: (20, own.up_to(ms(2_500))),
                leave: if plan.leave == Leave::Silently { Leave::Closing } else { plan.leave },
                ..plan
            },
            false => plan,
        };
        let after = if self.is_full { ms(0) } else { after };
        world.arrive(
            after,
            Box::new(move |ledger| {
                if is_internal {
                    Box::new(InternalPublisher::new(ledger, plan))
                } else {
                    Box::new(RtmpPublisher::new(ledger, plan))
                }
            }),
        );
    }

    /// A player of frames of a stream at a server, to which that comes on good paths or not.
    fn player(
        &self,
        world: &mut World,
        random: &mut Random,
        host: &mut u16,
        (key, at): (StreamKey, usize),
        comes_well: bool,
    ) {
        let (from, is_steady) = self.address(random, host);
        let is_steady = is_steady && comes_well;
        let after = random.up_to(self.lasts);
        let is_slow = random.chance(0.15);
        let plan = rtmp_play::Plan {
            key,
            at,
            from,
            bytes_per_second: is_slow.then(|| random.below(30_000) as usize),
            lasts: random.up_to(self.lasts),
            leave: Leave::any(random),
            is_steady,
            shows: if random.chance(0.1) { Shows::Nothing } else { Shows::Token },
            naps: None,
            pauses: None,
        };
        let own = &mut Random::new(self.seed ^ u64::from(*host) << 32 ^ 0x706c_6179);
        let from_to = own.up_to(self.lasts / 2);
        let plan = rtmp_play::Plan {
            shows: if own.chance(0.15) { Shows::Wrong } else { plan.shows },
            // Some do not read at all.
            bytes_per_second: plan.bytes_per_second.map(|rate| if own.chance(0.2) { 0 } else { rate }),
            naps: own.chance(0.15).then(|| (from_to, from_to + own.up_to(ms(4_000)))),
            ..plan
        };
        if (is_slow || plan.naps.is_some()) && own.chance(0.7) {
            // What they do not read is soon the server's to keep.
            let tcp_window_bytes = if is_slow { 2_000 } else { 20_000 } + own.below(30_000) as usize;
            kernel::set_path(from, Path { delay: own.up_to(ms(5)), tcp_window_bytes, ..Path::default() });
        }
        let (after, plan) = match self.is_full {
            true => (after / 30, rtmp_play::Plan { lasts: self.lasts * 2, ..plan }),
            false => (after, plan),
        };
        let own = &mut Random::new(self.seed ^ u64::from(*host) << 32 ^ 0x7061_7573);
        let plan = match own.below(10) < self.pauses {
            true => {
                let from = own.up_to(self.lasts / 2);
                rtmp_play::Plan { pauses: Some((from, from + own.up_to(ms(15_000)))), ..plan }
            }
            false => plan,
        };
        let carrier = [None, Some(Carrier::Plain), Some(Carrier::Chunked), Some(Carrier::WebSocket)]
            [random.below(4) as usize];
        world.arrive(
            after,
            Box::new(move |ledger| match carrier {
                None => Box::new(RtmpPlayer::new(ledger, plan)),
                Some(carrier) => Box::new(FlvPlayer::new(ledger, plan, carrier)),
            }),
        );
    }

    fn rtc(&self, world: &mut World, random: &mut Random, host: &mut u16, key: StreamKey, role: RtcRole) {
        let (from, is_steady) = self.address(random, host);
        let after = match role {
            RtcRole::Publish => random.up_to(ms(1_000)),
            RtcRole::Play => ms(3_000) + random.up_to(self.lasts),
        };
        let plan = self.rtc_plan(random, (from, is_steady), *host, key, role);
        let (after, plan) = match self.is_full {
            true => (after.min(ms(3_000)), rtc::Plan { lasts: self.lasts * 2, ..plan }),
            false => (after, plan),
        };
        world.arrive(after, Box::new(move |ledger| Box::new(RtcClient::new(ledger, plan))));
    }

    fn rtc_plan(
        &self,
        random: &mut Random,
        (from, is_steady): (IpAddr, bool),
        host: u16,
        key: StreamKey,
        role: RtcRole,
    ) -> rtc::Plan {
        let plan = rtc::Plan {
            key,
            at: key.server,
            from,
            role,
            lasts: if role == RtcRole::Publish { self.lasts } else { random.up_to(self.lasts) },
            leave: Leave::any(random),
            is_steady: is_steady
                && self.faults.no_buffers == 0.0
                && self.faults.refuse_send == 0.0
                && self.faults.no_memory == 0.0
                && self.faults.receive_queue.is_none(),
            moves: random.chance(0.1).then(|| (random.up_to(self.lasts), from)),
            goes_on: false,
            is_greedy: random.chance(0.2),
            is_bridged: role == RtcRole::Play && key.stream < 100,
            is_forged: Random::new(self.seed ^ u64::from(host) << 32 ^ 0x666f_7267).chance(0.2),
            storms: None,
            layers: None,
            is_impostor: false,
        };
        // The same for all of a stream, whoever publishes it.
        let of_stream = (key.server as u64) << 48 | (key.stream as u64) << 32;
        let layered = match key.stream {
            ..100 => 0,
            100..SHARED_FROM => self.layers,
            _ => self.shared_layers,
        };
        let is_layered = Random::new(self.seed ^ of_stream ^ 0x6c61_7965_7200).below(10) < layered;
        let own = &mut Random::new(self.seed ^ u64::from(host) << 32 ^ 0x0073_746f_726d);
        let is_wild = role == RtcRole::Play && own.below(10) < self.storms;
        let is_impostor = is_wild && own.chance(0.3);
        let moves = plan.moves.map(|(after, from)| match self.roams && own.chance(0.5) {
            true => {
                let [high, low] = host.to_be_bytes();
                let to = IpAddr::V4(Ipv4Addr::new(10, 4, high, low));
                kernel::set_path(to, Path { delay: own.up_to(ms(20)), ..Path::default() });
                (after, to)
            }
            false => (after, from),
        });
        // Early enough that it is seen what comes of it.
        let moves_soon = self.roams && role == RtcRole::Play && own.chance(0.2);
        let moves = if moves_soon { Some((ms(3_000) + own.up_to(ms(5_000)), from)) } else { moves };
        rtc::Plan {
            lasts: if moves_soon { self.lasts } else { plan.lasts },
            is_steady: plan.is_steady && moves.is_none() && !is_impostor,
            goes_on: plan.is_steady && self.roams && !is_impostor,
            moves,
            storms: (is_wild && !is_impostor).then(|| own.next_u64()),
            layers: is_layered.then(|| own.next_u64()),
            is_impostor,
            ..plan
        }
    }
}
