//! A client and a server connected by a network in virtual time.
//!
//! The network loses, delays and duplicates; the client is behind a NAT that may forget its mapping.
//! Everything follows from a seed. Both ends are bare [`Peer`]s, not `rtc-test`'s client: the tests
//! look at each event and datagram, and know all credentials.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part")]

pub mod offers;

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

pub use netsim::Random;
use netsim::{Link, LinkConfig, earliest};
use rtc::dtls::{self, Certificate, DtlsRole};
use rtc::sdp::Transport;
use rtc::{
    Candidate, Event, IceCredentials, LocalAddress, Path, Peer, PeerConfig, Side, Signal, Timeouts, Transmit,
};
use rtc_test::stun::{Check, transaction};

pub const SERVER: &str = "192.0.2.1:8189";
pub const CLIENT: &str = "10.0.0.2:40000";
/// Where the server sees the client.
pub const MAPPED: &str = "198.51.100.7:50000";
pub const STRANGER: &str = "203.0.113.66:6666";

pub const SERVER_UFRAG: &str = "serverUF";
pub const SERVER_PASSWORD: &str = "server/password+of24char";
pub const CLIENT_UFRAG: &str = "clnt";
pub const CLIENT_PASSWORD: &str = "clientpasswordof22char";

pub fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

pub fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Some instant to begin at; only differences matter.
#[expect(clippy::disallowed_methods, reason = "virtual time begins somewhere")]
pub fn start() -> Instant {
    Instant::now()
}

pub fn server_ice() -> IceCredentials {
    IceCredentials::new(SERVER_UFRAG, SERVER_PASSWORD).unwrap()
}

pub fn client_ice() -> IceCredentials {
    IceCredentials::new(CLIENT_UFRAG, CLIENT_PASSWORD).unwrap()
}

/// Certificates of the server and of the client, made once.
pub fn certificates() -> &'static [Arc<Certificate>; 2] {
    static CERTIFICATES: OnceLock<[Arc<Certificate>; 2]> = OnceLock::new();
    CERTIFICATES.get_or_init(|| [(); 2].map(|()| Arc::new(Certificate::generate().unwrap())))
}

pub fn server_config() -> PeerConfig {
    let [server, client] = certificates();
    PeerConfig {
        side: Side::Lite,
        local_ice: server_ice(),
        remote_ice: client_ice(),
        local_addresses: Vec::new(),
        remote_candidates: Vec::new(),
        dtls: dtls::Config::new(server.clone(), vec![client.fingerprint()]),
        dtls_role: DtlsRole::Server,
        timeouts: Timeouts::default(),
    }
}

pub fn client_config() -> PeerConfig {
    let [server, client] = certificates();
    PeerConfig {
        side: Side::Full,
        local_ice: client_ice(),
        remote_ice: server_ice(),
        local_addresses: vec![LocalAddress { transport: Transport::Udp, address: address(CLIENT) }],
        remote_candidates: vec![Candidate::host(address(SERVER), Transport::Udp, 65535)],
        dtls: dtls::Config::new(client.clone(), vec![server.fingerprint()]),
        dtls_role: DtlsRole::Client,
        timeouts: Timeouts::default(),
    }
}

/// The client's check as the server expects it.
pub fn genuine_check(number: u64) -> Check {
    Check::new(&format!("{SERVER_UFRAG}:{CLIENT_UFRAG}"), SERVER_PASSWORD, transaction(number))
}

/// The path a client's datagrams come over, as the server sees it.
pub fn client_path() -> Path {
    Path::udp(address(SERVER), address(MAPPED))
}

pub fn path_from(remote: &str) -> Path {
    Path::udp(address(SERVER), address(remote))
}

/// So many bytes.
pub fn bytes(random: &mut Random, length: usize) -> Vec<u8> {
    (0..length).map(|_| random.next_u64() as u8).collect()
}

/// One end and its events.
pub struct End {
    pub peer: Peer,
    pub events: Vec<(Instant, Event)>,
}

impl End {
    fn new(config: PeerConfig, now: Instant) -> Self {
        Self { peer: Peer::new(config, now).unwrap(), events: Vec::new() }
    }

    /// When it was connected, and with which keys.
    pub fn connected(&self) -> Option<Instant> {
        self.events.iter().find(|(_, event)| matches!(event, Event::Connected(_))).map(|(at, _)| *at)
    }

    pub fn count(&self, is: impl Fn(&Event) -> bool) -> usize {
        self.events.iter().filter(|(_, event)| is(event)).count()
    }
}

/// Client, NAT, network, server.
pub struct World {
    pub now: Instant,
    pub client: End,
    pub server: End,
    /// What the network does, in each direction.
    pub network: LinkConfig,
    /// The client's address as the server sees it. Datagrams to any other are lost.
    pub mapped: SocketAddr,
    /// Whether the network carries anything to the server, and to the client.
    pub to_server_open: bool,
    pub to_client_open: bool,
    /// Everything the server has sent, with where to.
    pub server_sent: Vec<(Instant, Transmit)>,
    /// Everything the client has sent.
    pub client_sent: Vec<(Instant, Transmit)>,
    /// Datagrams with their path as the receiver sees it.
    to_server: Link<(Path, Vec<u8>)>,
    to_client: Link<(Path, Vec<u8>)>,
}

impl World {
    pub fn new() -> Self {
        Self::of(client_config(), server_config(), 1)
    }

    pub fn of(client: PeerConfig, server: PeerConfig, seed: u64) -> Self {
        let now = start();
        Self {
            now,
            client: End::new(client, now),
            server: End::new(server, now),
            network: LinkConfig { delay: millis(10), ..LinkConfig::default() },
            mapped: address(MAPPED),
            to_server_open: true,
            to_client_open: true,
            server_sent: Vec::new(),
            client_sent: Vec::new(),
            to_server: Link::new(LinkConfig::default(), seed),
            to_client: Link::new(LinkConfig::default(), !seed),
        }
    }

    /// A world whose two ends are connected.
    pub fn connected() -> Self {
        Self::connected_with(1)
    }

    pub fn connected_with(seed: u64) -> Self {
        let mut world = Self::of(client_config(), server_config(), seed);
        world.run_until(millis(10_000), World::is_connected);
        assert!(world.is_connected(), "{:?} {:?}", world.client.events, world.server.events);
        world
    }

    pub fn is_connected(&self) -> bool {
        self.client.connected().is_some() && self.server.connected().is_some()
    }

    /// Collects the events and datagrams of both ends.
    pub fn collect(&mut self) {
        let now = self.now;
        self.to_server.set_config(self.network.clone());
        self.to_client.set_config(self.network.clone());
        for end in [&mut self.client, &mut self.server] {
            while let Some(event) = end.peer.poll_event() {
                end.events.push((now, event));
            }
        }
        while let Some(transmit) = self.client.peer.poll_transmit() {
            self.client_sent.push((now, transmit.clone()));
            let path =
                Path { local: transmit.path.remote, remote: self.mapped, transport: transmit.path.transport };
            if self.to_server_open {
                self.to_server.send(now, (path, transmit.bytes));
            }
        }
        while let Some(transmit) = self.server.peer.poll_transmit() {
            self.server_sent.push((now, transmit.clone()));
            let path = Path {
                local: address(CLIENT),
                remote: transmit.path.local,
                transport: transmit.path.transport,
            };
            if self.to_client_open && transmit.path.remote == self.mapped {
                self.to_client.send(now, (path, transmit.bytes));
            }
        }
    }

    /// Lets the next thing happen, if it happens before `end`.
    fn step(&mut self, end: Instant) -> bool {
        self.collect();
        let arrivals = [self.to_server.next_timeout(), self.to_client.next_timeout()];
        let timers = [self.client.peer.next_timeout(), self.server.peer.next_timeout()];
        let Some(next) = earliest(arrivals.into_iter().chain(timers)).filter(|next| *next <= end) else {
            self.now = end;
            return false;
        };
        self.now = self.now.max(next);
        if let Some((path, bytes)) = self.to_server.poll(self.now) {
            let _ = self.server.peer.handle_signal(self.now, path, &bytes);
        } else if let Some((path, bytes)) = self.to_client.poll(self.now) {
            let _ = self.client.peer.handle_signal(self.now, path, &bytes);
        } else {
            for end in [&mut self.client, &mut self.server] {
                if end.peer.next_timeout().is_some_and(|due| due <= self.now) {
                    end.peer.handle_timeout(self.now);
                }
            }
        }
        self.collect();
        true
    }

    pub fn run(&mut self, time: Duration) {
        self.run_until(time, |_| false);
    }

    /// Runs until `check` holds, or for `time`. Returns whether it holds.
    pub fn run_until(&mut self, time: Duration, check: impl Fn(&World) -> bool) -> bool {
        let end = self.now + time;
        for steps in 0.. {
            assert!(steps < 1_000_000, "two ends keep each other busy without end");
            if check(self) {
                return true;
            }
            if !self.step(end) {
                break;
            }
        }
        check(self)
    }

    /// Gives the server a datagram from anywhere.
    pub fn inject(&mut self, path: Path, datagram: &[u8]) -> Signal {
        let signal = self.server.peer.handle_signal(self.now, path, datagram);
        self.collect();
        signal
    }
}
