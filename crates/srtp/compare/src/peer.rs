//! Ours and libsrtp as senders and receivers under one interface, and every pair of them a test should try.
//!
//! Packets go in and out as vectors here, because tests keep and mix them. Ours is called in both
//! of its ways: every second packet in place, the others from separate header and payload into a
//! destination.

use srtp::{
    Backend, Config, InboundContext, MasterKey, OutboundContext, Profile, ProtectError, UnprotectError,
};

use crate::libsrtp::{Key, Session, Ssrc, Status, TRAILER_MAX};
use crate::packet;
use crate::random::Random;

/// Why a packet was refused, in words both sides have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Seen before.
    Replayed,
    /// Older than the replay window.
    TooOld,
    /// Its tag is wrong.
    AuthFailed,
    /// No key is named by its MKI.
    UnknownMki,
    /// No key is for its SSRC.
    UnknownSsrc,
    /// Something else, in ours or in libsrtp (its status).
    OtherProtect(ProtectError),
    OtherUnprotect(UnprotectError),
    OtherStatus(i32),
}

/// Protects packets; one direction of a conversation.
pub trait Sender {
    fn protect_rtp(&mut self, plain: &[u8]) -> Result<Vec<u8>, Refusal>;
    fn protect_rtcp(&mut self, plain: &[u8]) -> Result<Vec<u8>, Refusal>;
    fn add_stream(&mut self, ssrc: u32, keys: &[Key]);
    /// For a stream that exists.
    fn set_roc(&mut self, ssrc: u32, roc: u32);
    /// Which of the first keys protects from now on, counted from 0.
    fn select_key(&mut self, key: usize);
}

/// Unprotects packets; the other end.
pub trait Receiver {
    fn unprotect_rtp(&mut self, packet: &[u8]) -> Result<Vec<u8>, Refusal>;
    fn unprotect_rtcp(&mut self, packet: &[u8]) -> Result<Vec<u8>, Refusal>;
    fn add_stream(&mut self, ssrc: u32, keys: &[Key]);
    /// For a stream that exists.
    fn set_roc(&mut self, ssrc: u32, roc: u32);
    fn roc(&mut self, ssrc: u32) -> Option<u32>;
}

/// The sender and the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    OursToLibsrtp,
    LibsrtpToOurs,
}

/// One pair that must understand each other.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub profile: Profile,
    pub backend: Backend,
    pub direction: Direction,
}

impl Case {
    /// Every profile on every backend this CPU runs, in both directions.
    pub fn all() -> impl Iterator<Item = Self> {
        let backends = Backend::ALL.into_iter().filter(|backend| backend.is_supported());
        backends.flat_map(|backend| {
            Profile::ALL.into_iter().flat_map(move |profile| {
                let directions = [Direction::OursToLibsrtp, Direction::LibsrtpToOurs];
                directions.map(|direction| Self { profile, backend, direction })
            })
        })
    }

    /// A pair that shares keys for every SSRC.
    pub fn pair(&self, keys: &[Key]) -> (Box<dyn Sender>, Box<dyn Receiver>) {
        let config = Config { backend: self.backend, rtp_replay_window_packets: WINDOW, ..Config::default() };
        let ours = master_keys(self.profile, keys);
        match self.direction {
            Direction::OursToLibsrtp => (
                Box::new(OurSender::new(OutboundContext::new(&config, &ours).unwrap(), self.profile, keys)),
                Box::new(LibsrtpPeer::new(self.profile, Ssrc::AnyInbound, keys)),
            ),
            Direction::LibsrtpToOurs => (
                Box::new(LibsrtpPeer::new(self.profile, Ssrc::AnyOutbound, keys)),
                Box::new(OurReceiver {
                    context: InboundContext::new(&config, &ours).unwrap(),
                    profile: self.profile,
                }),
            ),
        }
    }

    /// A pair that has keys for `ssrc` only.
    pub fn pair_of_one_stream(&self, ssrc: u32, keys: &[Key]) -> (Box<dyn Sender>, Box<dyn Receiver>) {
        let config = Config { backend: self.backend, rtp_replay_window_packets: WINDOW, ..Config::default() };
        let libsrtp = LibsrtpPeer::new(self.profile, Ssrc::Only(ssrc), keys);
        match self.direction {
            Direction::OursToLibsrtp => {
                let mut ours = OurSender::new(OutboundContext::new(&config, &[]).unwrap(), self.profile, &[]);
                Sender::add_stream(&mut ours, ssrc, keys);
                (Box::new(ours), Box::new(libsrtp))
            }
            Direction::LibsrtpToOurs => {
                let context = InboundContext::new(&config, &[]).unwrap();
                let mut ours = OurReceiver { context, profile: self.profile };
                Receiver::add_stream(&mut ours, ssrc, keys);
                (Box::new(libsrtp), Box::new(ours))
            }
        }
    }
}

/// Packets of the replay window on both sides.
pub const WINDOW: usize = 1024;

/// A random key without an MKI.
pub fn key(random: &mut Random, profile: Profile) -> Key {
    Key { key: random.bytes(profile.key_len()), salt: random.bytes(profile.salt_len()), mki: Vec::new() }
}

/// The same keys in the form of our crate.
pub fn master_keys(profile: Profile, keys: &[Key]) -> Vec<MasterKey> {
    let master_key = |key: &Key| {
        let master = MasterKey::new(profile, &key.key, &key.salt).unwrap();
        if key.mki.is_empty() { master } else { master.with_mki(&key.mki).unwrap() }
    };
    keys.iter().map(master_key).collect()
}

/// Our outbound context.
pub struct OurSender {
    context: OutboundContext,
    profile: Profile,
    mkis: Vec<Vec<u8>>,
    calls: usize,
}

impl OurSender {
    fn new(context: OutboundContext, profile: Profile, keys: &[Key]) -> Self {
        Self { context, profile, mkis: keys.iter().map(|key| key.mki.clone()).collect(), calls: 0 }
    }
}

impl Sender for OurSender {
    fn protect_rtp(&mut self, plain: &[u8]) -> Result<Vec<u8>, Refusal> {
        let mut out = vec![0; plain.len() + TRAILER_MAX];
        self.calls += 1;
        let len = if self.calls.is_multiple_of(2) {
            out[..plain.len()].copy_from_slice(plain);
            self.context.protect_rtp(&mut out, plain.len())?
        } else {
            let (header, payload) = plain.split_at(packet::rtp_header_len(plain));
            self.context.protect_rtp_from(header, payload, &mut out)?
        };
        out.truncate(len);
        Ok(out)
    }

    fn protect_rtcp(&mut self, plain: &[u8]) -> Result<Vec<u8>, Refusal> {
        let mut out = vec![0; plain.len() + TRAILER_MAX];
        self.calls += 1;
        let len = if self.calls.is_multiple_of(2) {
            out[..plain.len()].copy_from_slice(plain);
            self.context.protect_rtcp(&mut out, plain.len())?
        } else {
            self.context.protect_rtcp_from(plain, &mut out)?
        };
        out.truncate(len);
        Ok(out)
    }

    fn add_stream(&mut self, ssrc: u32, keys: &[Key]) {
        self.context.add_stream(ssrc, &master_keys(self.profile, keys)).unwrap();
    }

    fn set_roc(&mut self, ssrc: u32, roc: u32) {
        self.context.set_roc(ssrc, roc).unwrap();
    }

    fn select_key(&mut self, key: usize) {
        self.context.select_key(&self.mkis[key]).unwrap();
    }
}

/// Our inbound context.
pub struct OurReceiver {
    context: InboundContext,
    profile: Profile,
}

impl Receiver for OurReceiver {
    fn unprotect_rtp(&mut self, packet: &[u8]) -> Result<Vec<u8>, Refusal> {
        let mut plain = packet.to_vec();
        match self.context.unprotect_rtp(&mut plain) {
            Ok(len) => plain.truncate(len),
            Err(error) => {
                assert_eq!(plain, packet, "a refused packet was changed");
                return Err(error.into());
            }
        }
        Ok(plain)
    }

    fn unprotect_rtcp(&mut self, packet: &[u8]) -> Result<Vec<u8>, Refusal> {
        let mut plain = packet.to_vec();
        match self.context.unprotect_rtcp(&mut plain) {
            Ok(len) => plain.truncate(len),
            Err(error) => {
                assert_eq!(plain, packet, "a refused packet was changed");
                return Err(error.into());
            }
        }
        Ok(plain)
    }

    fn add_stream(&mut self, ssrc: u32, keys: &[Key]) {
        self.context.add_stream(ssrc, &master_keys(self.profile, keys)).unwrap();
    }

    fn set_roc(&mut self, ssrc: u32, roc: u32) {
        self.context.set_roc(ssrc, roc).unwrap();
    }

    fn roc(&mut self, ssrc: u32) -> Option<u32> {
        self.context.roc(ssrc)
    }
}

/// A libsrtp session, of either direction.
pub struct LibsrtpPeer {
    session: Session,
    profile: Profile,
    key: usize,
}

impl LibsrtpPeer {
    pub fn new(profile: Profile, ssrc: Ssrc, keys: &[Key]) -> Self {
        Self { session: Session::new(profile, ssrc, keys, WINDOW).unwrap(), profile, key: 0 }
    }
}

impl Sender for LibsrtpPeer {
    fn protect_rtp(&mut self, plain: &[u8]) -> Result<Vec<u8>, Refusal> {
        let mut packet = [plain, &[0; TRAILER_MAX]].concat();
        let len = self.session.protect_rtp(&mut packet, plain.len(), self.key)?;
        packet.truncate(len);
        Ok(packet)
    }

    fn protect_rtcp(&mut self, plain: &[u8]) -> Result<Vec<u8>, Refusal> {
        let mut packet = [plain, &[0; TRAILER_MAX]].concat();
        let len = self.session.protect_rtcp(&mut packet, plain.len(), self.key)?;
        packet.truncate(len);
        Ok(packet)
    }

    fn add_stream(&mut self, ssrc: u32, keys: &[Key]) {
        self.session.add_stream(self.profile, Ssrc::Only(ssrc), keys, WINDOW).unwrap();
    }

    fn set_roc(&mut self, ssrc: u32, roc: u32) {
        self.session.set_roc(ssrc, roc).unwrap();
    }

    fn select_key(&mut self, key: usize) {
        self.key = key;
    }
}

impl Receiver for LibsrtpPeer {
    fn unprotect_rtp(&mut self, packet: &[u8]) -> Result<Vec<u8>, Refusal> {
        let mut plain = packet.to_vec();
        let len = self.session.unprotect_rtp(&mut plain)?;
        plain.truncate(len);
        Ok(plain)
    }

    fn unprotect_rtcp(&mut self, packet: &[u8]) -> Result<Vec<u8>, Refusal> {
        let mut plain = packet.to_vec();
        let len = self.session.unprotect_rtcp(&mut plain)?;
        plain.truncate(len);
        Ok(plain)
    }

    fn add_stream(&mut self, ssrc: u32, keys: &[Key]) {
        self.session.add_stream(self.profile, Ssrc::Only(ssrc), keys, WINDOW).unwrap();
    }

    fn set_roc(&mut self, ssrc: u32, roc: u32) {
        self.session.set_roc(ssrc, roc).unwrap();
    }

    fn roc(&mut self, ssrc: u32) -> Option<u32> {
        self.session.roc(ssrc).ok()
    }
}

impl From<ProtectError> for Refusal {
    fn from(error: ProtectError) -> Self {
        match error {
            ProtectError::IndexUsed => Self::Replayed,
            ProtectError::TooOld => Self::TooOld,
            ProtectError::UnknownSsrc => Self::UnknownSsrc,
            other => Self::OtherProtect(other),
        }
    }
}

impl From<UnprotectError> for Refusal {
    fn from(error: UnprotectError) -> Self {
        match error {
            UnprotectError::Replayed => Self::Replayed,
            UnprotectError::TooOld => Self::TooOld,
            UnprotectError::AuthFailed => Self::AuthFailed,
            UnprotectError::UnknownMki => Self::UnknownMki,
            UnprotectError::UnknownSsrc => Self::UnknownSsrc,
            other => Self::OtherUnprotect(other),
        }
    }
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        match status {
            Status::REPLAY_FAIL => Self::Replayed,
            Status::REPLAY_OLD | Status::INDEX_OLD => Self::TooOld,
            Status::AUTH_FAIL => Self::AuthFailed,
            Status::BAD_MKI => Self::UnknownMki,
            Status::NO_CONTEXT => Self::UnknownSsrc,
            Status(status) => Self::OtherStatus(status),
        }
    }
}
