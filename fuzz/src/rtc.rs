//! What the fuzz targets of `rtc` check: nothing unauthenticated changes a peer or is answered, and
//! nothing makes it panic.
//!
//! The input is a small program: datagrams from several addresses, some of them with the right
//! password, and time that passes. Passwords depend on all of the input, so that a fuzzer cannot
//! find an HMAC byte by byte. `crates/rtc/tests/rtc/fuzz_corpus.rs` includes this file and replays
//! the kept corpus.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rtc::dtls::{Certificate, Config, DtlsRole};
use rtc::{
    Candidate, IceCredentials, LocalAddress, Path, Peer, PeerConfig, Side, Signal, Timeouts, Transport,
    VALID_PATHS_MAX,
};
use rtc_test::stun::{self, Writer};

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
            // Unchanged: the input cannot know the password.
            0 => self.refuses(path, body),
            1 => {
                self.now += Duration::from_millis(64 * length as u64);
                self.peer.handle_timeout(self.now);
                self.fetch();
            }
            2 => {
                // A request of the remote side, with any further attributes.
                let message = request(operation >> 3, input.transaction(), body);
                let _ = self.take(path, &message.integrity(&self.local.password.clone()).0);
            }
            3 => {
                // An answer to a check, if there was one, with any attributes.
                let kind = if operation & 8 == 0 { stun::SUCCESS } else { stun::ERROR };
                let asked = self.asked.get(usize::from(operation >> 4)).copied();
                let (transaction, path) = asked.unwrap_or((input.transaction(), path));
                let message = followed_by(Writer::new(kind, transaction), body);
                let _ = self.take(path, &message.integrity(&self.remote.password.clone()).0);
            }
            _ => {
                // The right form with the wrong password.
                let message = request(0, input.transaction(), body);
                self.refuses(path, &message.integrity("another password of 30 bytes..").0);
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

    fn state(&mut self) -> (Option<Path>, Vec<Path>, Option<Instant>, bool) {
        let valid = self.peer.valid_paths().collect();
        (self.peer.path(), valid, self.peer.next_timeout(), self.peer.is_closed())
    }
}

fn address(number: u16) -> SocketAddr {
    let host = if number < 6 { [192, 0, 2, 1] } else { [192, 0, 2, number as u8] };
    SocketAddr::from((host, 1000 + number))
}

/// A check without its integrity: a request, or for one value of `flip` another message type.
fn request(flip: u8, transaction: [u8; 12], body: &[u8]) -> Writer {
    let kind = if flip == 31 { stun::REQUEST ^ 0x0110 } else { stun::REQUEST };
    let check = Writer::new(kind, transaction)
        .attribute(stun::USERNAME, b"here:there")
        .attribute(stun::PRIORITY, &[1, 2, 3, 4]);
    followed_by(check, body)
}

/// Appends bytes as they are, in whole words.
fn followed_by(mut message: Writer, body: &[u8]) -> Writer {
    message.0.extend(&body[..body.len() & !3]);
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
