//! What the fuzz targets of `rtc` check: nothing unauthenticated changes a peer or is answered, and nothing
//! makes it panic.
//!
//! The input is a little program: datagrams from several addresses, some of them sealed with the right
//! password, and time that passes. Passwords depend on all of the input, so that a fuzzer cannot work out a
//! sum byte by byte. `crates/rtc/tests/rtc/fuzz_corpus.rs` includes this file and replays the kept corpus.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit, Mac};
use rtc::dtls::{Certificate, Config, DtlsRole};
use rtc::{
    Candidate, IceCredentials, LocalAddress, Path, Peer, PeerConfig, Side, Signal, Timeouts, Transport,
    VALID_PATHS_MAX,
};
use sha1::Sha1;

/// A check: panics if `data` shows something wrong.
pub type Check = fn(data: &[u8]);

/// All checks, by the name of their target and corpus folder.
pub const CHECKS: &[(&str, Check)] = &[("stun", stun)];

/// Small enough that a bad input is found again by reading it.
const STEPS_MAX: usize = 32;

/// STUN at a server's side and at a client's.
pub fn stun(data: &[u8]) {
    let mut input = Input(data);
    let first = input.byte();
    let side = if first & 1 == 0 { Side::Lite } else { Side::Full };
    let mut world = World::new(side, data);
    for _ in 0..STEPS_MAX {
        if input.0.is_empty() {
            break;
        }
        world.step(&mut input);
    }
}

struct World {
    peer: Peer,
    now: Instant,
    /// Our password, and the other side's.
    local: IceCredentials,
    remote: IceCredentials,
    /// Transaction ids of checks the peer has sent, with their paths.
    asked: Vec<([u8; 12], Path)>,
}

impl World {
    #[expect(clippy::disallowed_methods, reason = "virtual time begins somewhere")]
    fn new(side: Side, data: &[u8]) -> Self {
        let hash = data.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let credentials = |ufrag: &str, salt: u64| {
            IceCredentials::new(ufrag, &format!("password{:016x}", hash ^ salt)).expect("good characters")
        };
        let (local, remote) = (credentials("here", 0), credentials("there", u64::MAX));
        static CERTIFICATE: OnceLock<Arc<Certificate>> = OnceLock::new();
        let certificate =
            CERTIFICATE.get_or_init(|| Arc::new(Certificate::generate().expect("random bytes")));
        let now = Instant::now();
        let config = PeerConfig {
            side,
            local_ice: local.clone(),
            remote_ice: remote.clone(),
            local_addresses: vec![LocalAddress { transport: Transport::Udp, address: address(0) }],
            remote_candidates: vec![Candidate::host(address(1), Transport::Udp, 1)],
            dtls: Config::new(certificate.clone(), vec![certificate.fingerprint()]),
            dtls_role: DtlsRole::Server,
            timeouts: Timeouts::default(),
        };
        let peer = Peer::new(config, now).expect("a good configuration");
        let mut world = Self { peer, now, local, remote, asked: Vec::new() };
        world.fetch();
        world
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let operation = input.byte();
        let path = Path::udp(address(0), address(1 + u16::from(input.byte() % 12)));
        let length = usize::from(input.byte());
        let body = input.take(length);
        match operation % 5 {
            // As it is: whoever wrote it does not know the password.
            0 => self.refuses(path, body),
            1 => {
                self.now += Duration::from_millis(64 * length as u64);
                self.peer.handle_timeout(self.now);
                self.fetch();
            }
            2 => {
                // A request of the peer's, with whatever attributes besides.
                let mut message = header(operation >> 3, 0x0001, input.transaction());
                attribute(&mut message, 0x0006, b"here:there");
                attribute(&mut message, 0x0024, &[1, 2, 3, 4]);
                message.extend(&body[..body.len() & !3]);
                let password = self.local.password.clone();
                let _ = self.take(path, &seal(message, &password));
            }
            3 => {
                // An answer to a check, if there was one, with whatever attributes.
                let kind = if operation & 8 == 0 { 0x0101 } else { 0x0111 };
                let asked = self.asked.get(usize::from(operation >> 4)).copied();
                let (transaction, path) = asked.unwrap_or((input.transaction(), path));
                let mut message = header(0, kind, transaction);
                message.extend(&body[..body.len() & !3]);
                let password = self.remote.password.clone();
                let _ = self.take(path, &seal(message, &password));
            }
            _ => {
                // The right form with the wrong password.
                let mut message = header(0, 0x0001, input.transaction());
                attribute(&mut message, 0x0006, b"here:there");
                attribute(&mut message, 0x0024, &[1, 2, 3, 4]);
                message.extend(&body[..body.len() & !3]);
                self.refuses(path, &seal(message, "another password of 30 bytes.."));
            }
        }
    }

    fn refuses(&mut self, path: Path, datagram: &[u8]) {
        let before = self.state();
        let signal = self.take(path, datagram);
        let is_dtls = datagram.first().is_some_and(|first| (20..64).contains(first));
        if !is_dtls {
            assert!(matches!(signal, Signal::Refused(_)), "{datagram:02x?}");
            assert_eq!(self.state(), before, "{datagram:02x?}");
        }
    }

    fn take(&mut self, path: Path, datagram: &[u8]) -> Signal {
        let _ = rtc::demux::stun_local_ufrag(datagram);
        let signal = self.peer.handle_signal(self.now, path, datagram);
        let sent = self.fetch();
        assert!(sent <= 3, "{sent} datagrams for one");
        let valid: Vec<Path> = self.peer.valid_paths().collect();
        assert!(valid.len() <= VALID_PATHS_MAX + 1);
        if let Some(path) = self.peer.path() {
            assert!(self.peer.is_valid(&path) && valid.contains(&path));
        }
        signal
    }

    fn fetch(&mut self) -> usize {
        let mut sent = 0;
        while let Some(transmit) = self.peer.poll_transmit() {
            sent += 1;
            if transmit.bytes[..2] == [0, 1] {
                let id = transmit.bytes[8..20].try_into().expect("12 bytes");
                self.asked.insert(0, (id, transmit.path));
                self.asked.truncate(16);
            }
        }
        while self.peer.poll_event().is_some() {}
        sent
    }

    fn state(&mut self) -> (Option<Path>, u32, Option<Instant>, bool) {
        (self.peer.path(), self.peer.paths_version(), self.peer.next_timeout(), self.peer.is_closed())
    }
}

fn address(number: u16) -> SocketAddr {
    let host = if number < 6 { [192, 0, 2, 1] } else { [192, 0, 2, number as u8] };
    SocketAddr::from((host, 1000 + number))
}

/// With a message type near the one that is wanted, mostly that one.
fn header(flip: u8, kind: u16, transaction: [u8; 12]) -> Vec<u8> {
    let kind = if flip == 31 { kind ^ 0x0110 } else { kind };
    let mut message = kind.to_be_bytes().to_vec();
    message.extend([0, 0, 0x21, 0x12, 0xa4, 0x42]);
    message.extend(transaction);
    message
}

fn attribute(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    message.extend(kind.to_be_bytes());
    message.extend((value.len() as u16).to_be_bytes());
    message.extend(value);
    message.resize(message.len().next_multiple_of(4), 0);
}

/// Puts MESSAGE-INTEGRITY behind it.
fn seal(mut message: Vec<u8>, password: &str) -> Vec<u8> {
    let length = (message.len() + 24 - 20) as u16;
    message[2..4].copy_from_slice(&length.to_be_bytes());
    let mut sum = Hmac::<Sha1>::new_from_slice(password.as_bytes()).expect("any length");
    sum.update(&message);
    let sum = sum.finalize().into_bytes();
    attribute(&mut message, 0x0008, &sum);
    message
}

/// What is left of the input; zeros behind its end.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn transaction(&mut self) -> [u8; 12] {
        [self.byte() % 8; 12]
    }
}
