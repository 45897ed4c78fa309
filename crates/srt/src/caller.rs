//! A caller's half of the handshake (draft-sharabayko-srt-01 section 4.3.1).

use std::time::{Duration, Instant};

use crate::cipher::{CipherMode, KeyLength};
use crate::connection::{Agreed, Connection, Limits};
use crate::handshake::{Capabilities, Handshake, Kind, Writing};
use crate::keys::{Keys, Passphrase};
use crate::listener::{MTU_MIN, payload_max};
use crate::peer_clock::PeerClock;
use crate::sequence::SequenceNumber;
use crate::wire::{Body, Control, DATAGRAM_BYTES_MAX, MTU, Packet, SocketId, word};

/// Time after which a packet that was not answered is sent again (section 4.3), at most.
const REPEAT_INTERVAL: Duration = Duration::from_millis(250);

/// The same where the round trip is known, at least. A listener that sends media does so from its answer
/// on, whether or not that arrives.
const REPEAT_INTERVAL_MIN: Duration = Duration::from_millis(50);

/// Data packets that are kept until the answer comes.
const EARLY_PACKETS_MAX: usize = 128;

/// What libsrt says in place of key material whose cipher it does not take.
const BAD_CRYPTO_MODE: u32 = 5;

/// What a caller wants.
#[derive(Debug, Clone)]
pub struct Call {
    /// The number of the socket here; not 0.
    pub socket: SocketId,
    /// The number of the first packet.
    pub initial: SequenceNumber,
    /// What the listener is asked for; at most [`STREAM_ID_BYTES_MAX`](crate::STREAM_ID_BYTES_MAX) bytes.
    pub stream_id: String,
    /// Delay of what is received.
    pub receive_latency: Duration,
    /// Delay of what is sent, at the listener.
    pub send_latency: Duration,
    /// The most delay of what is received that is agreed to.
    pub latency_max: Duration,
    /// What payloads are encrypted by.
    pub encryption: Option<(Passphrase, KeyLength, CipherMode)>,
    /// A listener that has not answered after this long is dropped.
    pub timeout: Duration,
    /// Limits of the connection.
    pub limits: Limits,
}

/// Why there is no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallError {
    /// The listener did not answer in time.
    Timeout,
    /// It speaks an older version of the protocol.
    Version,
    /// It refused, with this code.
    Rejected(u32),
    /// What it answered makes no sense.
    Malformed,
    /// It did not agree to the passphrase.
    BadSecret,
    /// It has no passphrase, or no AES-GCM that is safe.
    Crypto,
}

impl CallError {
    /// One sentence.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Timeout => "the listener does not answer",
            Self::Version => "the listener speaks an older version of SRT",
            Self::Malformed => "the listener's answer is not a valid one",
            Self::BadSecret => "the listener has another passphrase, or none",
            Self::Crypto => "the listener has no passphrase, or not the AES-GCM of libsrt 1.5.4",
            Self::Rejected(code) => match code {
                1002 => "the listener's application refused the connection",
                1003 => "the listener has no room",
                1010 => "the listener has another passphrase",
                1011 => "the listener has a passphrase and this end has none, or the other way around",
                1016 => "the listener gave the connection up",
                1017 => "the listener asks for the other `cryptomode`",
                1400 => "the listener does not understand the stream id",
                1401 => "the listener asks for a valid token",
                1402 | 1503 => "the listener takes no more sessions",
                1403 => "the listener does not allow it",
                1404 => "the listener has no such stream",
                1409 => "the stream has a publisher",
                _ => "the listener refused the connection",
            },
        }
    }
}

/// A call that is not answered yet.
///
/// **Send what [`poll_transmit`](Self::poll_transmit) writes, now and at
/// [`next_timeout`](Self::next_timeout), and give it every datagram of the listener.**
#[derive(Debug)]
pub struct Caller {
    call: Call,
    keys: Option<Keys>,
    /// The cookie, once it has come.
    cookie: Option<u32>,
    started_at: Instant,
    next_at: Instant,
    /// When the first packet was sent, until it is sent again: an answer may be to either then.
    asked_at: Option<Instant>,
    round_trip: Option<Duration>,
    /// What the listener has sent behind an answer that was lost, or comes later.
    early: Vec<(Instant, Vec<u8>)>,
}

impl Caller {
    /// Begins to call. With encryption it takes about half a millisecond.
    pub fn new(now: Instant, call: Call) -> Self {
        let encryption = call.encryption.as_ref();
        let keys = encryption.map(|(passphrase, length, mode)| Keys::generate(passphrase, *length, *mode));
        Self {
            call,
            keys,
            cookie: None,
            started_at: now,
            next_at: now,
            asked_at: None,
            round_trip: None,
            early: Vec::new(),
        }
    }

    /// The number of the socket here.
    pub fn socket(&self) -> SocketId {
        self.call.socket
    }

    /// When to call [`poll_transmit`](Self::poll_transmit) next.
    pub fn next_timeout(&self) -> Instant {
        self.next_at.min(self.started_at + self.call.timeout)
    }

    /// Writes the packet that is due, if one is, and says how long it is. `out` has
    /// [`DATAGRAM_BYTES_MAX`] bytes.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut [u8]) -> Result<Option<usize>, CallError> {
        if now.saturating_duration_since(self.started_at) >= self.call.timeout {
            return Err(CallError::Timeout);
        }
        if now < self.next_at {
            return Ok(None);
        }
        let repeat = self.round_trip.map_or(REPEAT_INTERVAL, |round_trip| round_trip * 2);
        self.next_at = now + repeat.clamp(REPEAT_INTERVAL_MIN, REPEAT_INTERVAL);
        let ms = |time: Duration| u16::try_from(time.as_millis()).unwrap_or(u16::MAX);
        let message = self.keys.as_ref().map(Keys::write);
        let is_first = self.cookie.is_none();
        self.asked_at = (is_first && now == self.started_at).then_some(now);
        let writing = Writing {
            kind: if is_first { Kind::Induction } else { Kind::Conclusion },
            is_first,
            is_response: false,
            encryption: self.keys.as_ref().filter(|_| !is_first).map_or(0, Keys::length_field),
            initial: self.call.initial,
            mtu: MTU,
            flow_window: self.call.limits.window_packets as u32,
            socket: self.call.socket,
            cookie: self.cookie.unwrap_or_default(),
            capabilities: (!is_first)
                .then(|| Capabilities::ours(ms(self.call.receive_latency), ms(self.call.send_latency))),
            keys: message.as_deref().filter(|_| !is_first),
            stream_id: if is_first { "" } else { &self.call.stream_id },
        };
        let mut packet = Vec::with_capacity(DATAGRAM_BYTES_MAX);
        let timestamp = now.saturating_duration_since(self.started_at).as_micros() as u32;
        writing.write(timestamp, SocketId(0), &mut packet);
        out[..packet.len()].copy_from_slice(&packet);
        Ok(Some(packet.len()))
    }

    /// Takes a datagram of the listener: the connection, when it is the last one. Data of the connection
    /// that is to come is kept for it, and everything else but handshakes left out.
    pub fn handle_packet(&mut self, now: Instant, datagram: &[u8]) -> Result<Option<Connection>, CallError> {
        let (timestamp, destination, handshake) = match Packet::read(datagram) {
            Ok(Packet::Control(Control { timestamp, destination, body: Body::Handshake(handshake) })) => {
                (timestamp, destination, handshake)
            }
            Ok(Packet::Data(data)) => {
                let is_ours = data.destination == self.call.socket && self.cookie.is_some();
                if is_ours && self.early.len() < EARLY_PACKETS_MAX {
                    self.early.push((now, datagram.to_vec()));
                }
                return Ok(None);
            }
            _ => return Ok(None),
        };
        if destination != self.call.socket {
            return Ok(None);
        }
        match (handshake.kind, self.cookie) {
            (Kind::Induction, None) => {
                if !handshake.has_magic() {
                    return Err(CallError::Version);
                }
                self.cookie = Some(handshake.cookie);
                self.round_trip = self.asked_at.map(|at| now.saturating_duration_since(at));
                self.next_at = now;
                Ok(None)
            }
            (Kind::Conclusion, Some(_)) => self.conclude(now, timestamp, &handshake).map(Some),
            // What libsrt before 1.5.2 says to AES-GCM, and one that has no passphrase.
            (Kind::Rejection(1011), _) if self.asks_for_gcm() => Err(CallError::Crypto),
            (Kind::Rejection(code), _) => Err(CallError::Rejected(code)),
            _ => Ok(None),
        }
    }

    fn asks_for_gcm(&self) -> bool {
        self.keys.as_ref().map(Keys::mode) == Some(CipherMode::Gcm)
    }

    fn conclude(
        &mut self,
        now: Instant,
        timestamp: u32,
        handshake: &Handshake<'_>,
    ) -> Result<Connection, CallError> {
        if handshake.version != 5 {
            return Err(CallError::Version);
        }
        let extensions = handshake.read_extensions(true).map_err(|_| CallError::Malformed)?;
        let theirs = extensions.capabilities.ok_or(CallError::Malformed)?;
        if handshake.socket == SocketId(0) || handshake.mtu < MTU_MIN {
            return Err(CallError::Malformed);
        }
        if self.asks_for_gcm() && !theirs.has_safe_gcm() {
            return Err(CallError::Crypto);
        }
        match (&self.keys, extensions.keys) {
            (None, None) => {}
            // A listener without a passphrase may let a caller in that has one, and not understand it: what
            // it says in a word. One that does not echo the keys has not taken them.
            (Some(keys), Some(answer)) if answer == keys.write() => {}
            (None, Some(state)) if state.len() == 4 && word(state, 0) == 0 => {}
            (Some(_), Some(state)) if state.len() == 4 && word(state, 0) == BAD_CRYPTO_MODE => {
                return Err(CallError::Crypto);
            }
            _ => return Err(CallError::BadSecret),
        }
        let ms = |time: Duration| u16::try_from(time.as_millis()).unwrap_or(u16::MAX);
        let receive_ms =
            theirs.send_delay_ms.max(ms(self.call.receive_latency)).min(ms(self.call.latency_max));
        let early = std::mem::take(&mut self.early);
        // An answer that was sent again says when the first was sent: the data behind that came sooner.
        let mut peer_clock = PeerClock::new(now, timestamp);
        for (at, datagram) in &early {
            if let Ok(Packet::Data(data)) = Packet::read(datagram) {
                peer_clock.came_sooner(*at, data.timestamp);
            }
        }
        let agreed = Agreed {
            local: self.call.socket,
            peer: handshake.socket,
            send_first: self.call.initial,
            receive_first: handshake.initial,
            peer_clock,
            receive_latency: Duration::from_millis(receive_ms.into()),
            send_latency: Duration::from_millis(theirs.receive_delay_ms.into()),
            // A listener that says nothing has room for what is common.
            peer_window: match handshake.flow_window {
                0 => 8192,
                window => window as usize,
            },
            payload_max: payload_max(handshake.mtu),
            keys: self.keys.take(),
            epoch: self.started_at,
            limits: self.call.limits,
            round_trip: self.round_trip,
        };
        let mut connection = Connection::new(now, agreed);
        for (at, datagram) in early {
            // What it does not take is counted there.
            let _ = connection.handle_packet(at, &datagram);
        }
        Ok(connection)
    }
}
