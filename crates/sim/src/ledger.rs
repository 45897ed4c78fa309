//! What every actor knows of the world, and what was found wrong: publications, expectations, violations.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use netsim::{FastMap, Random};
use worker_api::command::WorkerHandle;
use worker_api::rtc::RtcEndpoint;
use worker_api::snapshot::SessionId;
use worker_api::streams::Published;

use crate::content::Content;

/// A stream: a name on a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamKey {
    /// Which server.
    pub server: usize,
    /// Which stream there.
    pub stream: usize,
}

impl StreamKey {
    /// The name of the stream in its application.
    pub fn name(self) -> String {
        format!("s{}", self.stream)
    }
}

/// A publication as its publisher has it.
#[derive(Debug)]
pub struct PublicationRecord {
    /// Where.
    pub key: StreamKey,
    /// What.
    pub content: Content,
    /// When each frame was given to the network, by number.
    pub sent: Vec<Instant>,
    /// When it ended.
    pub ended: Option<Instant>,
    /// Its path loses no time, so that its frames reach the server at once.
    pub is_steady: bool,
}

/// A publication by WebRTC.
#[derive(Debug)]
pub struct RtcRecord {
    /// Where.
    pub key: StreamKey,
    /// At which server: that of the stream, or another of its cluster.
    pub at: usize,
    /// When each audio packet was sent, by number.
    pub audio: Vec<Instant>,
    /// How many pictures were sent.
    pub video: u32,
    /// When it ended.
    pub ended: Option<Instant>,
    /// Its path loses neither packets nor time.
    pub is_steady: bool,
    /// It has several encodings, each of which says the same.
    pub is_layered: bool,
}

/// A server as clients see it.
pub struct ServerView {
    /// Its address.
    pub ip: IpAddr,
    /// Where it takes RTMP.
    pub rtmp: SocketAddr,
    /// Where it takes HTTP.
    pub http: SocketAddr,
    /// Where its relay is, if it is a node of a cluster.
    pub relay: Option<SocketAddr>,
    /// Where its workers take WebRTC.
    pub rtc: Vec<RtcEndpoint>,
    /// The workers' queues of commands, for the control side.
    pub handles: Vec<WorkerHandle>,
    /// What is published.
    pub published: Box<dyn Fn(&str) -> Published>,
    /// The token that lets in.
    pub token: Option<String>,
    /// Longest time for a handshake.
    pub handshake_timeout: Duration,
    /// Longest silence of a publisher.
    pub publisher_idle_timeout: Duration,
    /// How long a message may wait for others.
    pub merge_latency: Duration,
    /// Whether players begin with the last group of pictures.
    pub gop_cache: bool,
    /// How long a player waits for a publisher.
    pub wait_for_publisher: Option<Duration>,
    /// What is published by one kind of protocol can be played by the other.
    pub bridges: bool,
}

/// What is shared by all actors.
pub struct Ledger {
    seed: u64,
    /// Everybody's randomness.
    pub random: Random,
    /// The servers.
    pub servers: Vec<ServerView>,
    /// All publications so far.
    pub publications: BTreeMap<u64, PublicationRecord>,
    /// All publications by WebRTC so far.
    pub rtc: BTreeMap<u64, RtcRecord>,
    last_publication: u64,
    /// How many have asked to publish a stream, whatever came of it.
    attempts: FastMap<StreamKey, u32>,
    /// WebRTC sessions that servers have ended.
    pub ended_sessions: BTreeSet<(usize, SessionId)>,
    /// What was found wrong.
    pub violations: Vec<String>,
    /// Times an invariant was checked and held.
    pub checks: u64,
    /// By how much everything may be later than it should be, because workers stand still.
    pub slack: Duration,
    /// There are fewer descriptors or sessions than clients: who comes may be kept waiting, or sent away.
    pub is_crowded: bool,
    /// There may be fewer WebRTC sessions than clients.
    pub has_few_rtc_sessions: bool,
    /// Somebody without credentials sends to the servers' UDP ports.
    pub has_strangers: bool,
    /// User names of ICE that have passed by, if there are strangers to see them.
    pub user_names: Vec<String>,
    /// The servers stop: whoever is thrown out does not come back.
    pub is_draining: bool,
    /// The servers are nodes of a cluster, whose links are good and stay.
    pub has_good_links: bool,
    /// They are nodes whose links break.
    pub has_broken_links: bool,
    /// Streams with layers go from node to node.
    pub has_shared_layers: bool,
    /// How often a node has let a stream go that it had from another, by name: its players may get parts of it
    /// again when it comes back.
    pub let_go: BTreeMap<(usize, String), u64>,
    /// Sessions are ended at the API.
    pub ends_sessions: bool,
    /// Nobody asks for more than one thing on an HTTP connection, and there are no sources inside: sessions
    /// and reasons are as many.
    pub is_plain_http: bool,
    /// The rings between workers are so small that frames are lost there.
    pub loses_between_workers: bool,
    /// Frames that players got.
    pub frames_received: u64,
    /// Frames that players did not get between others.
    pub frames_missed: u64,
    /// The same by server.
    pub missed_by_server: Vec<u64>,
    /// By address of a client, how many messages servers have counted that it did not get, each time there
    /// were more.
    pub dropped: FastMap<SocketAddr, Vec<u64>>,
    /// Publishers of frames of a server were cut off, so that not all they sent arrives.
    pub is_cut: Vec<bool>,
    /// Packets that viewers got.
    pub packets_received: u64,
    /// Datagrams that servers got from each other.
    pub relayed: u64,
    /// Lines of what happened, if wanted.
    pub trace: bool,
}

impl Ledger {
    /// An empty one.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            random: Random::new(seed ^ 0x6163_746f_7273),
            servers: Vec::new(),
            publications: BTreeMap::new(),
            rtc: BTreeMap::new(),
            last_publication: 0,
            attempts: FastMap::default(),
            ended_sessions: BTreeSet::new(),
            violations: Vec::new(),
            checks: 0,
            slack: Duration::ZERO,
            is_crowded: false,
            has_few_rtc_sessions: false,
            has_strangers: false,
            user_names: Vec::new(),
            is_draining: false,
            has_good_links: false,
            has_broken_links: false,
            has_shared_layers: false,
            let_go: BTreeMap::new(),
            ends_sessions: false,
            is_plain_http: false,
            loses_between_workers: false,
            frames_received: 0,
            frames_missed: 0,
            missed_by_server: Vec::new(),
            dropped: FastMap::default(),
            is_cut: Vec::new(),
            packets_received: 0,
            relayed: 0,
            trace: false,
        }
    }

    /// Notes that an invariant was broken.
    pub fn violation(&mut self, text: String) {
        let at = netsim::kernel::elapsed();
        self.violations.push(format!("[{:>10.6}] {text}", at.as_secs_f64()));
    }

    /// Checks an invariant.
    pub fn check(&mut self, holds: bool, text: impl FnOnce() -> String) {
        self.checks += 1;
        if !holds {
            self.violation(text());
        }
    }

    /// Prints what happens, if wanted.
    pub fn say(&self, text: impl FnOnce() -> String) {
        if self.trace {
            let at = netsim::kernel::elapsed();
            eprintln!("[{:>10.6}] {}", at.as_secs_f64(), text());
        }
    }

    /// Somebody asks to publish a stream.
    pub fn attempt(&mut self, key: StreamKey) {
        *self.attempts.entry(key).or_default() += 1;
    }

    /// Whether a publisher of this stream, which sends all the time, may be ended or refused: by another one, by
    /// somebody at the API, or because the servers stop or are full.
    pub fn may_end_publisher(&self, key: StreamKey) -> bool {
        let is_contested = self.attempts.get(&key).is_some_and(|attempts| *attempts > 1);
        is_contested || self.ends_sessions || self.is_draining || self.is_crowded
    }

    /// Whether a player of this stream at this server may be ended or refused: for the same, or because no
    /// publisher has been there for a while.
    pub fn may_end_player(&self, key: StreamKey, at: usize) -> bool {
        let known = Duration::from_secs(2) + self.slack;
        let has_come =
            |first: Option<&Instant>| first.is_some_and(|first| *first + known < netsim::kernel::now());
        let bridges = self.servers[at].bridges;
        let mut frames = self.publications.values().filter(|record| record.key == key);
        let is_there =
            frames.any(|record| record.is_steady && record.ended.is_none() && has_come(record.sent.first()));
        let mut rtc = self.rtc.values().filter(|record| bridges && record.key == key);
        let is_there = is_there
            || rtc.any(|record| {
                let comes_well = record.at == at || self.has_good_links;
                record.is_steady && comes_well && record.ended.is_none() && has_come(record.audio.first())
            });
        !is_there || self.ends_sessions || self.is_draining || self.is_crowded
    }

    /// A new publication begins.
    pub fn publish(&mut self, key: StreamKey, gop: u32, video_bytes: u32, is_steady: bool) -> Content {
        self.last_publication += 1;
        let begins_ms = self.random.below(100_000) as u32;
        // An encoder that connects again goes on where it was, which is seldom at a key frame.
        let own = &mut Random::new(self.seed ^ self.last_publication << 32 ^ 0x7068_6173);
        let phase = if own.chance(0.3) { own.below(u64::from(gop)) as u32 } else { 0 };
        let content = Content { id: self.last_publication, gop, phase, video_bytes, begins_ms };
        let record = PublicationRecord { key, content, sent: Vec::new(), ended: None, is_steady };
        self.publications.insert(content.id, record);
        content
    }

    /// A new publication by WebRTC begins.
    pub fn publish_rtc(&mut self, key: StreamKey, at: usize, is_steady: bool, is_layered: bool) -> u64 {
        self.last_publication += 1;
        let record = RtcRecord { key, at, audio: Vec::new(), video: 0, ended: None, is_steady, is_layered };
        self.rtc.insert(self.last_publication, record);
        self.last_publication
    }

    /// Frame `number` of a publication was given to the network.
    pub fn sent(&mut self, id: u64, number: u32) {
        let now = netsim::kernel::now();
        if let Some(record) = self.publications.get_mut(&id) {
            debug_assert_eq!(record.sent.len(), number as usize);
            record.sent.push(now);
        }
    }

    /// A publication ended, as far as its publisher knows.
    pub fn ended(&mut self, id: u64) {
        let now = netsim::kernel::now();
        if let Some(record) = self.publications.get_mut(&id) {
            record.ended.get_or_insert(now);
        }
    }

    /// A publisher of frames ended, or was ended, before the server had all it sent.
    pub fn cut(&mut self, key: StreamKey) {
        self.is_cut[key.server] = true;
    }

    /// The publication that was there instead of this one at this moment, and had been for a while, if one
    /// was. Numbers are given when publishers are told, so two of one moment may be the other way round.
    pub fn replaced(&self, id: u64, at: Instant) -> Option<u64> {
        let key = self.publications.get(&id)?.key;
        let known = Duration::from_millis(300) + self.slack;
        let mut newer = self.publications.range(id + 1..).filter(|(_, record)| {
            let has_come = record.sent.first().is_some_and(|sent| *sent + known < at);
            let goes_on = record.ended.is_none_or(|ended| ended > at);
            record.key == key && record.is_steady && has_come && goes_on
        });
        newer.next().map(|(id, _)| *id)
    }

    /// The publication of a stream that goes on, if there is one and only one.
    pub fn live(&self, key: StreamKey) -> Option<&PublicationRecord> {
        let mut live =
            self.publications.values().filter(|record| record.key == key && record.ended.is_none());
        let first = live.next()?;
        live.next().is_none().then_some(first)
    }
}
