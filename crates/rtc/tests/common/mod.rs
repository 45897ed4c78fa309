//! A client and a server joined by a network in virtual time, and STUN written by hand.
//!
//! The network loses, delays and duplicates; a NAT stands before the client and may forget its mapping. Everything follows
//! from a seed.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part")]

pub mod stun;

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rtc::dtls::{self, Certificate, DtlsRole};
use rtc::sdp::Transport;
use rtc::{
    Candidate, Event, IceCredentials, LocalAddress, Path, Peer, PeerConfig, Side, Signal, Timeouts, Transmit,
};

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

/// The path a client's datagrams come over, as the server sees it.
pub fn client_path() -> Path {
    Path::udp(address(SERVER), address(MAPPED))
}

pub fn path_from(remote: &str) -> Path {
    Path::udp(address(SERVER), address(remote))
}

/// SplitMix64.
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }
}

/// One end, and what it has said.
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

struct InFlight {
    at: Instant,
    to_server: bool,
    /// As the receiver sees it.
    path: Path,
    bytes: Vec<u8>,
}

/// Client, NAT, network, server.
pub struct World {
    pub now: Instant,
    pub client: End,
    pub server: End,
    /// One way.
    pub delay: Duration,
    pub loss_per_mille: u64,
    pub duplicates_per_mille: u64,
    pub random: Random,
    /// The client's address as the server sees it. Datagrams to any other are lost.
    pub mapped: SocketAddr,
    /// Whether the network carries anything to the server, and to the client.
    pub to_server_open: bool,
    pub to_client_open: bool,
    /// Everything the server has sent, with where to.
    pub server_sent: Vec<(Instant, Transmit)>,
    /// Everything the client has sent.
    pub client_sent: Vec<(Instant, Transmit)>,
    in_flight: Vec<InFlight>,
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
            delay: millis(10),
            loss_per_mille: 0,
            duplicates_per_mille: 0,
            random: Random(seed),
            mapped: address(MAPPED),
            to_server_open: true,
            to_client_open: true,
            server_sent: Vec::new(),
            client_sent: Vec::new(),
            in_flight: Vec::new(),
        }
    }

    /// A world whose two ends are connected.
    pub fn connected() -> Self {
        let mut world = Self::new();
        world.run_until(millis(10_000), World::is_connected);
        assert!(world.is_connected(), "{:?} {:?}", world.client.events, world.server.events);
        world
    }

    pub fn is_connected(&self) -> bool {
        self.client.connected().is_some() && self.server.connected().is_some()
    }

    /// Takes what both ends have to say.
    pub fn collect(&mut self) {
        let now = self.now;
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
                self.send(true, path, transmit.bytes);
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
                self.send(false, path, transmit.bytes);
            }
        }
    }

    fn send(&mut self, to_server: bool, path: Path, bytes: Vec<u8>) {
        let copies = 1 + u64::from(self.random.below(1000) < self.duplicates_per_mille);
        for _ in 0..copies {
            if self.random.below(1000) >= self.loss_per_mille {
                let at = self.now + self.delay + Duration::from_micros(self.random.below(1000));
                self.in_flight.push(InFlight { at, to_server, path, bytes: bytes.clone() });
            }
        }
    }

    /// Lets the next thing happen, if it happens before `end`.
    fn step(&mut self, end: Instant) -> bool {
        self.collect();
        let arrival = self.in_flight.iter().enumerate().min_by_key(|(_, datagram)| datagram.at);
        let arrival = arrival.map(|(index, datagram)| (index, datagram.at));
        let timers = [self.client.peer.next_timeout(), self.server.peer.next_timeout()];
        let timer = timers.into_iter().flatten().min();
        let next = [arrival.map(|(_, at)| at), timer].into_iter().flatten().min();
        let Some(next) = next.filter(|next| *next <= end) else {
            self.now = end;
            return false;
        };
        self.now = self.now.max(next);
        match arrival {
            Some((index, at)) if at <= self.now => {
                let datagram = self.in_flight.swap_remove(index);
                let end = if datagram.to_server { &mut self.server } else { &mut self.client };
                let _ = end.peer.handle_signal(self.now, datagram.path, &datagram.bytes);
            }
            _ => {
                for end in [&mut self.client, &mut self.server] {
                    if end.peer.next_timeout().is_some_and(|due| due <= self.now) {
                        end.peer.handle_timeout(self.now);
                    }
                }
            }
        }
        self.collect();
        true
    }

    pub fn run(&mut self, time: Duration) {
        self.run_until(time, |_| false);
    }

    /// Runs until something is so, or for `time`. Says whether it is so.
    pub fn run_until(&mut self, time: Duration, is_so: impl Fn(&World) -> bool) -> bool {
        let end = self.now + time;
        for steps in 0.. {
            assert!(steps < 1_000_000, "two ends keep each other busy without end");
            if is_so(self) {
                return true;
            }
            if !self.step(end) {
                break;
            }
        }
        is_so(self)
    }

    /// Gives the server a datagram from anywhere.
    pub fn inject(&mut self, path: Path, datagram: &[u8]) -> Signal {
        let signal = self.server.peer.handle_signal(self.now, path, datagram);
        self.collect();
        signal
    }
}
