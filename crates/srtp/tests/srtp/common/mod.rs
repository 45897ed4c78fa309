//! What the behaviour tests share: packets, keys, and contexts with the naive twin of the same keys
//! beside them.
#![allow(dead_code, unreachable_pub, reason = "shared by three test binaries, each of which uses some of it")]

pub mod naive;

use naive::{Naive, shape};
use srtp::internals::{self, SessionKeys};
use srtp::{
    Backend, Config, InboundContext, MasterKey, OutboundContext, Profile, ProtectError, UnprotectError,
};

/// Bytes of hexadecimal digits; spaces and line breaks are for the eye.
pub fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<char> = digits.chars().filter(|digit| !digit.is_whitespace()).collect();
    assert!(digits.len().is_multiple_of(2), "an odd number of digits");
    digits.chunks(2).map(|pair| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap()).collect()
}

/// An RTP packet to be.
#[derive(Clone, Debug)]
pub struct Rtp {
    pub ssrc: u32,
    pub sequence: u16,
    pub timestamp: u32,
    pub payload_type: u8,
    pub marker: bool,
    pub padding: bool,
    pub csrcs: usize,
    /// Words of the header extension, if it has one.
    pub extension: Option<u16>,
    pub payload: Vec<u8>,
}

impl Rtp {
    pub fn new(ssrc: u32, sequence: u16, payload: &[u8]) -> Self {
        Self {
            ssrc,
            sequence,
            timestamp: 0x1234_5678,
            payload_type: 96,
            marker: false,
            padding: false,
            csrcs: 0,
            extension: None,
            payload: payload.to_vec(),
        }
    }

    pub fn header(&self) -> Vec<u8> {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let first = 0x80 | flag(self.padding, 0x20) | flag(self.extension.is_some(), 0x10) | self.csrcs as u8;
        let mut header = vec![first, flag(self.marker, 0x80) | self.payload_type];
        header.extend(self.sequence.to_be_bytes());
        header.extend(self.timestamp.to_be_bytes());
        header.extend(self.ssrc.to_be_bytes());
        (0..self.csrcs).for_each(|csrc| header.extend((0xc0ff_ee00 + csrc as u32).to_be_bytes()));
        if let Some(words) = self.extension {
            header.extend([0xbe, 0xde]);
            header.extend(words.to_be_bytes());
            header.extend((0..4 * usize::from(words)).map(|at| at as u8));
        }
        header
    }

    pub fn bytes(&self) -> Vec<u8> {
        [self.header(), self.payload.clone()].concat()
    }
}

/// An RTCP packet with `body` behind the sender's SSRC.
pub fn rtcp(ssrc: u32, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x80, 200];
    packet.extend((body.len() as u16 / 4 + 1).to_be_bytes());
    packet.extend(ssrc.to_be_bytes());
    packet.extend(body);
    packet
}

/// A master key and all made from it. Printed by failing tests, so never a real one.
#[derive(Clone, Debug)]
pub struct Keys {
    pub profile: Profile,
    pub key: Vec<u8>,
    pub salt: Vec<u8>,
    pub mki: Vec<u8>,
}

impl Keys {
    /// Keys of some profile; another `seed` gives others.
    pub fn new(profile: Profile, seed: u8) -> Self {
        let shape = shape(profile);
        let bytes = |len: usize, step: u8| {
            (0..len).map(|at| (at as u8).wrapping_mul(step) ^ seed.wrapping_mul(0x55)).collect()
        };
        Self { profile, key: bytes(shape.key, 7), salt: bytes(shape.salt, 11), mki: Vec::new() }
    }

    pub fn with_mki(self, mki: &[u8]) -> Self {
        Self { mki: mki.to_vec(), ..self }
    }

    pub fn master(&self) -> MasterKey {
        let master = MasterKey::new(self.profile, &self.key, &self.salt).unwrap();
        if self.mki.is_empty() { master } else { master.with_mki(&self.mki).unwrap() }
    }

    pub fn naive(&self) -> Naive {
        Naive::new(self.profile, &self.key, &self.salt, &self.mki)
    }

    pub fn outbound(&self, config: &Config) -> OutboundContext {
        OutboundContext::new(config, &[self.master()]).unwrap()
    }

    pub fn inbound(&self, config: &Config) -> InboundContext {
        InboundContext::new(config, &[self.master()]).unwrap()
    }

    /// Most bytes these keys add to a packet of either protocol.
    pub fn overhead(&self) -> usize {
        self.profile.rtcp_overhead().max(self.profile.rtp_overhead()) + self.mki.len()
    }
}

/// All backends this machine can run; `Portable` at least.
pub fn backends() -> Vec<Backend> {
    Backend::ALL.into_iter().filter(|backend| backend.is_supported()).collect()
}

pub fn config(backend: Backend) -> Config {
    Config { backend, ..Config::default() }
}

/// Room for everything the tests use to grow a packet.
const ROOM: usize = 256;

/// Protects a copy of `plain`.
pub fn protect_rtp(context: &mut OutboundContext, plain: &[u8]) -> Result<Vec<u8>, ProtectError> {
    let mut packet = [plain, &[0; ROOM]].concat();
    let len = context.protect_rtp(&mut packet, plain.len())?;
    packet.truncate(len);
    Ok(packet)
}

/// Protects a copy of `plain`.
pub fn protect_rtcp(context: &mut OutboundContext, plain: &[u8]) -> Result<Vec<u8>, ProtectError> {
    let mut packet = [plain, &[0; ROOM]].concat();
    let len = context.protect_rtcp(&mut packet, plain.len())?;
    packet.truncate(len);
    Ok(packet)
}

/// Unprotects a copy of `protected`; on an error, it must be as it was.
pub fn unprotect_rtp(context: &mut InboundContext, protected: &[u8]) -> Result<Vec<u8>, UnprotectError> {
    let mut packet = protected.to_vec();
    let result = context.unprotect_rtp(&mut packet);
    taken(packet, protected, result)
}

/// Unprotects a copy of `protected`; on an error, it must be as it was.
pub fn unprotect_rtcp(context: &mut InboundContext, protected: &[u8]) -> Result<Vec<u8>, UnprotectError> {
    let mut packet = protected.to_vec();
    let result = context.unprotect_rtcp(&mut packet);
    taken(packet, protected, result)
}

fn taken(
    mut packet: Vec<u8>,
    protected: &[u8],
    result: Result<usize, UnprotectError>,
) -> Result<Vec<u8>, UnprotectError> {
    match result {
        Ok(len) => packet.truncate(len),
        Err(error) => assert_eq!(packet, protected, "{error}, and the bytes are not as they were"),
    }
    result.map(|_| packet)
}

/// A generator of numbers that look random and are the same in every run (xorshift64*, Vigna 2016).
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 11) % end
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| (self.next() >> 56) as u8).collect()
    }
}

/// Encrypted zeros are the key stream: with SSRC, rollover counter and sequence number 0 the
/// counter begins at the salt, as in the vectors of RFC 3711 appendix B.2 and RFC 6188 section 7.1.
/// Checked for every backend, and back.
pub fn assert_key_stream(profiles: [Profile; 2], key: &str, salt: &str, stream: &str) {
    let keys = SessionKeys {
        rtp_encryption: hex(key),
        rtp_authentication: [0; 20],
        rtp_salt: hex(salt),
        rtcp_encryption: hex(key),
        rtcp_authentication: [0; 20],
        rtcp_salt: hex(salt),
    };
    let plain = Rtp::new(0, 0, &[0; 48]).bytes();
    for profile in profiles {
        for backend in backends() {
            let mut outbound = internals::outbound_from_session_keys(&config(backend), profile, &keys);
            let protected = protect_rtp(&mut outbound, &plain).unwrap();
            assert_eq!(protected[12..60], hex(stream), "{profile} {backend}");
            let mut inbound = internals::inbound_from_session_keys(&config(backend), profile, &keys);
            assert_eq!(unprotect_rtp(&mut inbound, &protected), Ok(plain.clone()), "{profile} {backend}");
        }
    }
}
