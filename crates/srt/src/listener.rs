//! A listener's half of the handshake (draft-sharabayko-srt-01 section 4.3.1).
//!
//! ```text
//! caller                                   listener
//!   induction, version 4 ─────────────────▶  nothing is kept
//!   ◀───────── induction, version 5, cookie  of address and time
//!   conclusion, cookie, extensions ───────▶  cookie checked, then read: [`Request`]
//!   ◀──── conclusion, extensions, or a code  [`Asked::accept`], [`Request::reject`]
//! ```
//!
//! The cookie is a keyed hash of the caller's address and the time, so that an address is known to be
//! real before anything is remembered about it. An answer to an induction is no longer than the
//! induction.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use aws_lc_rs::{hmac, rand};

use crate::cipher::CipherMode;
use crate::connection::{Agreed, Connection, Limits};
use crate::handshake::{Capabilities, Extensions, Handshake, Kind, Reject, Writing, flags};
use crate::keys::{KeyError, Keys, Passphrase};
use crate::peer_clock::PeerClock;
use crate::wire::{Body, Control, HEADER_BYTES, MTU, Packet, SocketId};

/// Time for which a cookie is made; it is valid for as long again.
const COOKIE_PERIOD: Duration = Duration::from_secs(60);
/// Smallest MTU of a peer: less has no room for a packet of a transport stream.
pub(crate) const MTU_MIN: u32 = 76 + 188;

/// What makes cookies: the same for all sockets of a server.
#[derive(Clone)]
pub struct CookieSecret(hmac::Key);

impl std::fmt::Debug for CookieSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CookieSecret(..)")
    }
}

impl CookieSecret {
    /// A new one.
    pub fn random() -> Self {
        let mut secret = [0; 32];
        rand::fill(&mut secret).expect("the system has random bytes");
        Self::new(&secret)
    }

    /// Of these bytes.
    pub fn new(secret: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// The cookie of an address in a period.
    fn cookie(&self, peer: SocketAddr, period: u64) -> u32 {
        let mut context = hmac::Context::with_key(&self.0);
        match peer.ip() {
            IpAddr::V4(ip) => context.update(&ip.octets()),
            IpAddr::V6(ip) => context.update(&ip.octets()),
        }
        context.update(&peer.port().to_be_bytes());
        context.update(&period.to_be_bytes());
        let tag = context.sign();
        let word = tag.as_ref().first_chunk().copied().unwrap_or_default();
        // 0 is what a caller has that has none.
        u32::from_be_bytes(word).max(1)
    }

    /// Reads a datagram that is for no connection. `since` is the time since any moment that all sockets
    /// of the server share.
    pub fn handle<'a>(
        &self,
        since: Duration,
        peer: SocketAddr,
        datagram: &'a [u8],
    ) -> Result<Incoming<'a>, Ignored> {
        let Ok(Packet::Control(Control { timestamp, body: Body::Handshake(handshake), .. })) =
            Packet::read(datagram)
        else {
            return Err(Ignored::NoHandshake);
        };
        let period = since.as_secs() / COOKIE_PERIOD.as_secs();
        match handshake.kind {
            // The answer has version 5 and goes to the caller's socket: it is no induction itself, so that a
            // datagram with the address of a listener as its source starts no exchange without end.
            Kind::Induction if handshake.version != 4 || handshake.socket == SocketId(0) => {
                Err(Ignored::NoHandshake)
            }
            Kind::Induction => {
                let mut answer = Vec::with_capacity(HEADER_BYTES + 48);
                let writing = Writing {
                    kind: Kind::Induction,
                    is_first: false,
                    is_response: true,
                    encryption: 0,
                    initial: handshake.initial,
                    mtu: MTU,
                    flow_window: handshake.flow_window,
                    socket: handshake.socket,
                    cookie: self.cookie(peer, period),
                    capabilities: None,
                    keys: None,
                    stream_id: "",
                };
                writing.write(0, handshake.socket, &mut answer);
                Ok(Incoming::Induction(answer))
            }
            Kind::Conclusion => {
                let is_ours = [period, period.wrapping_sub(1)]
                    .into_iter()
                    .any(|period| self.cookie(peer, period) == handshake.cookie);
                if !is_ours {
                    return Err(Ignored::WrongCookie);
                }
                Ok(Incoming::Conclusion(Request { handshake, timestamp }))
            }
            Kind::Rejection(_) | Kind::Rendezvous => Err(Ignored::NoHandshake),
        }
    }
}

/// A datagram for a listener.
#[derive(Debug)]
pub enum Incoming<'a> {
    /// A caller begins: the answer.
    Induction(Vec<u8>),
    /// A caller whose address is known to be real asks for a connection.
    Conclusion(Request<'a>),
}

/// Why a datagram is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ignored {
    /// It is no handshake, or none of a caller.
    NoHandshake,
    /// Its cookie is not one of this server for its address.
    WrongCookie,
}

/// A caller that asks for a connection. **Read it by [`Request::read`].**
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    handshake: Handshake<'a>,
    timestamp: u32,
}

/// What a caller asks for.
#[derive(Debug)]
pub struct Asked<'a> {
    request: Request<'a>,
    extensions: Extensions<'a>,
    capabilities: Capabilities,
}

/// What a listener has for a caller.
#[derive(Debug, Clone)]
pub struct Accept {
    /// The number of the socket here, which nobody can guess.
    pub socket: SocketId,
    /// The least delay, in both directions.
    pub latency: Duration,
    /// The most, in both directions: a caller that wants to have more may, of packets that it holds itself.
    pub latency_max: Duration,
    /// What the caller has to have.
    pub passphrase: Option<Passphrase>,
    /// Limits of the connection.
    pub limits: Limits,
}

impl<'a> Request<'a> {
    /// The number of the caller's socket.
    pub fn socket(&self) -> SocketId {
        self.handshake.socket
    }

    /// Reads what it asks for.
    pub fn read(self) -> Result<Asked<'a>, Reject> {
        let handshake = &self.handshake;
        if handshake.version != 5 {
            return Err(Reject::Version);
        }
        if handshake.mtu < MTU_MIN || handshake.flow_window < 2 || handshake.socket == SocketId(0) {
            return Err(Reject::Rogue);
        }
        let extensions = handshake.read_extensions(false)?;
        let capabilities = extensions.capabilities.ok_or(Reject::Rogue)?;
        if capabilities.flags & flags::STREAM != 0 {
            return Err(Reject::MessageApi);
        }
        if capabilities.version < 0x0001_0300 {
            return Err(Reject::Version);
        }
        Ok(Asked { request: self, extensions, capabilities })
    }

    /// The datagram that refuses it.
    pub fn reject(&self, reason: Reject) -> Vec<u8> {
        let mut answer = Vec::with_capacity(HEADER_BYTES + 48);
        self.answer(Kind::Rejection(reason.code()), SocketId(0)).write(0, self.socket(), &mut answer);
        answer
    }

    fn answer(&self, kind: Kind, socket: SocketId) -> Writing<'static> {
        Writing {
            kind,
            is_first: false,
            is_response: true,
            encryption: 0,
            initial: self.handshake.initial,
            mtu: self.handshake.mtu.min(MTU),
            flow_window: 0,
            socket,
            cookie: self.handshake.cookie,
            capabilities: None,
            keys: None,
            stream_id: "",
        }
    }
}

impl Asked<'_> {
    /// The stream ID, or "".
    pub fn stream_id(&self) -> &str {
        self.extensions.stream_id.as_deref().unwrap_or_default()
    }

    /// The caller's version of SRT.
    pub fn version(&self) -> (u8, u8, u8) {
        let [_, major, minor, patch] = self.capabilities.version.to_be_bytes();
        (major, minor, patch)
    }

    /// Opens a connection, and says what to answer. The answer is to be sent again when the caller asks
    /// again. With a passphrase it takes about half a millisecond.
    pub fn accept(&self, now: Instant, accept: &Accept) -> Result<(Connection, Vec<u8>), Reject> {
        let keys = match (&accept.passphrase, self.extensions.keys) {
            (None, None) => None,
            (Some(_), None) | (None, Some(_)) => return Err(Reject::Unsecure),
            (Some(passphrase), Some(message)) => {
                Some(Keys::read(passphrase, message).map_err(|error| match error {
                    KeyError::Malformed => Reject::Rogue,
                    KeyError::Cipher => Reject::Crypto,
                    KeyError::BadSecret => Reject::BadSecret,
                })?)
            }
        };
        if keys.as_ref().map(Keys::mode) == Some(CipherMode::Gcm) && !self.capabilities.has_safe_gcm() {
            return Err(Reject::Crypto);
        }
        let Request { handshake, timestamp } = self.request;
        let latencies = Latencies::of_listener(accept, &self.capabilities);
        let mut answer = Vec::with_capacity(256);
        let writing = Writing {
            encryption: keys.as_ref().map_or(0, Keys::length_field),
            flow_window: accept.limits.window_packets as u32,
            capabilities: Some(Capabilities::ours(latencies.receive_ms, latencies.send_ms)),
            keys: self.extensions.keys,
            ..self.request.answer(Kind::Conclusion, accept.socket)
        };
        writing.write(0, handshake.socket, &mut answer);
        let agreed = Agreed {
            local: accept.socket,
            peer: handshake.socket,
            send_first: handshake.initial,
            receive_first: handshake.initial,
            peer_clock: PeerClock::new(now, timestamp),
            receive_latency: Duration::from_millis(latencies.receive_ms.into()),
            send_latency: Duration::from_millis(latencies.send_ms.into()),
            peer_window: handshake.flow_window as usize,
            payload_max: payload_max(handshake.mtu),
            keys,
            epoch: now,
            limits: accept.limits,
            // The first packet of the handshake leaves nothing here.
            round_trip: None,
        };
        Ok((Connection::new(now, agreed), answer))
    }
}

/// Longest payload where packets may be so long.
pub(crate) fn payload_max(mtu: u32) -> usize {
    mtu.min(MTU) as usize - 28 - HEADER_BYTES
}

/// Agreed delays (section 4.4): of each direction, the larger of what both ends want.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Latencies {
    receive_ms: u16,
    send_ms: u16,
}

impl Latencies {
    fn of_listener(accept: &Accept, theirs: &Capabilities) -> Self {
        let ms = |time: Duration| u16::try_from(time.as_millis()).unwrap_or(u16::MAX);
        let ours = ms(accept.latency);
        Self {
            receive_ms: theirs.send_delay_ms.max(ours).min(ms(accept.latency_max)),
            send_ms: theirs.receive_delay_ms.max(ours).min(ms(accept.latency_max)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequence::SequenceNumber;

    fn peer(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    fn induction() -> Vec<u8> {
        let mut out = Vec::new();
        let writing = Writing {
            kind: Kind::Induction,
            is_first: true,
            is_response: false,
            encryption: 0,
            initial: SequenceNumber::new(1),
            mtu: MTU,
            flow_window: 8192,
            socket: SocketId(5),
            cookie: 0,
            capabilities: None,
            keys: None,
            stream_id: "",
        };
        writing.write(0, SocketId(0), &mut out);
        out
    }

    fn conclusion(cookie: u32) -> Vec<u8> {
        let mut out = induction();
        out[16..20].copy_from_slice(&5u32.to_be_bytes());
        out[36..40].copy_from_slice(&u32::MAX.to_be_bytes());
        out[44..48].copy_from_slice(&cookie.to_be_bytes());
        out
    }

    fn cookie_of(secret: &CookieSecret, since: Duration, peer: SocketAddr) -> u32 {
        let asked = induction();
        match secret.handle(since, peer, &asked) {
            Ok(Incoming::Induction(answer)) => {
                assert!(answer.len() <= asked.len(), "nothing is amplified");
                crate::wire::word(&answer, 44)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_cookie_is_for_one_address_and_two_periods() {
        let secret = CookieSecret::new(&[7; 32]);
        let since = Duration::from_secs(600);
        let cookie = cookie_of(&secret, since, peer(1));
        let is_taken = |since: Duration, peer, secret: &CookieSecret| {
            matches!(secret.handle(since, peer, &conclusion(cookie)), Ok(Incoming::Conclusion(_)))
        };
        assert!(is_taken(since, peer(1), &secret));
        assert!(is_taken(since + COOKIE_PERIOD, peer(1), &secret));
        assert!(!is_taken(since + COOKIE_PERIOD * 2, peer(1), &secret));
        assert!(!is_taken(since, peer(2), &secret));
        assert!(!is_taken(since, peer(1), &CookieSecret::new(&[8; 32])));
        assert_eq!(secret.handle(since, peer(1), &conclusion(0)).err(), Some(Ignored::WrongCookie));
        assert_eq!(secret.handle(since, peer(1), &[0x80; 10]).err(), Some(Ignored::NoHandshake));
    }

    #[test]
    fn an_answer_is_not_answered() {
        let secret = CookieSecret::new(&[7; 32]);
        let Ok(Incoming::Induction(answer)) = secret.handle(Duration::ZERO, peer(1), &induction()) else {
            panic!("an induction is answered");
        };
        let mut to_a_listener = answer.clone();
        to_a_listener[12..16].fill(0);
        let mut of_nobody = induction();
        of_nobody[40..44].fill(0);
        for datagram in [answer, to_a_listener, of_nobody] {
            assert_eq!(secret.handle(Duration::ZERO, peer(2), &datagram).err(), Some(Ignored::NoHandshake));
        }
    }

    #[test]
    fn a_conclusion_without_what_it_needs_is_refused() {
        let secret = CookieSecret::new(&[7; 32]);
        let cookie = cookie_of(&secret, Duration::ZERO, peer(1));
        let refused = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut packet = conclusion(cookie);
            change(&mut packet);
            match secret.handle(Duration::ZERO, peer(1), &packet) {
                Ok(Incoming::Conclusion(request)) => request.read().err(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(refused(&|_| {}), Some(Reject::Rogue), "no HSREQ");
        assert_eq!(refused(&|packet| packet[19] = 4), Some(Reject::Version));
        assert_eq!(refused(&|packet| packet[28..32].fill(0)), Some(Reject::Rogue), "no MTU");
        assert_eq!(refused(&|packet| packet[32..36].fill(0)), Some(Reject::Rogue), "no window");
        assert_eq!(refused(&|packet| packet[40..44].fill(0)), Some(Reject::Rogue), "no socket");
        let with = |flags: u32, version: u32| {
            move |packet: &mut Vec<u8>| {
                let words = [1 << 16 | 3, version, flags, 0x0078_0078];
                words.iter().for_each(|word: &u32| packet.extend(word.to_be_bytes()));
            }
        };
        assert_eq!(refused(&with(flags::OURS | flags::STREAM, 0x0001_0500)), Some(Reject::MessageApi));
        assert_eq!(refused(&with(flags::OURS, 0x0001_0203)), Some(Reject::Version));
        assert_eq!(refused(&with(flags::OURS, 0x0001_0300)), None);
    }

    #[test]
    fn each_direction_has_the_larger_delay_within_the_limit() {
        let accept = Accept {
            socket: SocketId(1),
            latency: Duration::from_millis(120),
            latency_max: Duration::from_millis(8_000),
            passphrase: None,
            limits: Limits::default(),
        };
        for (receive_delay_ms, send_delay_ms, expected) in
            [(0, 0, (120, 120)), (500, 80, (120, 500)), (80, 500, (500, 120)), (9_000, 9_000, (8_000, 8_000))]
        {
            let theirs = Capabilities { receive_delay_ms, send_delay_ms, ..Capabilities::ours(0, 0) };
            let Latencies { receive_ms, send_ms } = Latencies::of_listener(&accept, &theirs);
            assert_eq!((receive_ms, send_ms), expected);
        }
    }
}
