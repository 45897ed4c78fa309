//! STUN written by hand: the naive twin of `rtc`'s reader and writer, and what an attacker sends.
//!
//! HMAC and CRC come from RustCrypto and a bitwise loop: nothing here uses the code under test.

use std::net::{IpAddr, SocketAddr};

use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;

/// USERNAME (RFC 8489 section 14.3).
pub const USERNAME: u16 = 0x0006;
/// MESSAGE-INTEGRITY (section 14.5).
pub const MESSAGE_INTEGRITY: u16 = 0x0008;
/// ERROR-CODE (section 14.8).
pub const ERROR_CODE: u16 = 0x0009;
/// XOR-MAPPED-ADDRESS (section 14.2).
pub const XOR_MAPPED_ADDRESS: u16 = 0x0020;
/// PRIORITY (RFC 8445 section 16.1).
pub const PRIORITY: u16 = 0x0024;
/// USE-CANDIDATE (RFC 8445 section 16.1).
pub const USE_CANDIDATE: u16 = 0x0025;
/// FINGERPRINT (RFC 8489 section 14.7).
pub const FINGERPRINT: u16 = 0x8028;
/// ICE-CONTROLLED (RFC 8445 section 16.1).
pub const ICE_CONTROLLED: u16 = 0x8029;
/// ICE-CONTROLLING (RFC 8445 section 16.1).
pub const ICE_CONTROLLING: u16 = 0x802a;

/// A Binding request.
pub const REQUEST: u16 = 0x0001;
/// A Binding indication.
pub const INDICATION: u16 = 0x0011;
/// A Binding success response.
pub const SUCCESS: u16 = 0x0101;
/// A Binding error response.
pub const ERROR: u16 = 0x0111;

/// A message being written: its bytes so far, which need not be well-formed.
#[derive(Clone, Debug)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    /// The header of a message of this type.
    pub fn new(kind: u16, transaction: [u8; 12]) -> Self {
        let mut bytes = kind.to_be_bytes().to_vec();
        bytes.extend([0, 0, 0x21, 0x12, 0xa4, 0x42]);
        bytes.extend(transaction);
        Self(bytes)
    }

    /// Appends an attribute, padded to four bytes.
    pub fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        self.0.extend(kind.to_be_bytes());
        self.0.extend((value.len() as u16).to_be_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self.set_length(0)
    }

    /// Writes the length as if `more` bytes followed.
    fn set_length(mut self, more: usize) -> Self {
        let length = (self.0.len() - 20 + more) as u16;
        self.0[2..4].copy_from_slice(&length.to_be_bytes());
        self
    }

    /// Appends MESSAGE-INTEGRITY with this password.
    ///
    /// # Panics
    /// Never: HMAC takes keys of any length.
    pub fn integrity(self, password: &str) -> Self {
        let covered = self.set_length(24);
        let mut sum =
            Hmac::<Sha1>::new_from_slice(password.as_bytes()).expect("HMAC takes keys of any length");
        sum.update(&covered.0);
        let sum = sum.finalize().into_bytes();
        covered.attribute(MESSAGE_INTEGRITY, &sum)
    }

    /// Appends FINGERPRINT.
    pub fn fingerprint(self) -> Self {
        let covered = self.set_length(8);
        let sum = crc32(&covered.0) ^ 0x5354_554e;
        covered.attribute(FINGERPRINT, &sum.to_be_bytes())
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ (0xedb8_8320 * (sum & 1)))
    })
}

/// A connectivity check.
#[derive(Clone, Debug)]
pub struct Check {
    /// `receiver:sender`, both user fragments.
    pub username: String,
    /// The receiver's.
    pub password: String,
    /// Transaction id.
    pub transaction: [u8; 12],
    /// Has USE-CANDIDATE.
    pub nominates: bool,
    /// [`ICE_CONTROLLING`] or [`ICE_CONTROLLED`].
    pub role: u16,
}

impl Check {
    /// A controlling client's check that nominates.
    pub fn new(username: &str, password: &str, transaction: [u8; 12]) -> Self {
        let (username, password) = (username.to_owned(), password.to_owned());
        Self { username, password, transaction, nominates: true, role: ICE_CONTROLLING }
    }

    /// The same without USE-CANDIDATE.
    #[must_use]
    pub fn without_nomination(self) -> Self {
        Self { nominates: false, ..self }
    }

    /// The whole message.
    pub fn bytes(&self) -> Vec<u8> {
        self.open().integrity(&self.password).fingerprint().0
    }

    /// Everything before MESSAGE-INTEGRITY.
    pub fn open(&self) -> Writer {
        let writer = Writer::new(REQUEST, self.transaction)
            .attribute(USERNAME, self.username.as_bytes())
            .attribute(self.role, &7u64.to_be_bytes())
            .attribute(PRIORITY, &0x6eff_ffffu32.to_be_bytes());
        if self.nominates { writer.attribute(USE_CANDIDATE, &[]) } else { writer }
    }
}

/// A transaction id that has this number in it.
pub fn transaction(number: u64) -> [u8; 12] {
    let mut id = [0xa5; 12];
    id[..8].copy_from_slice(&number.to_be_bytes());
    id
}

/// The value of an XOR-MAPPED-ADDRESS attribute.
///
/// # Panics
/// On an IPv6 address.
pub fn xor_mapped(address: SocketAddr) -> Vec<u8> {
    let IpAddr::V4(ip) = address.ip() else { panic!("IPv4 only") };
    let port = (address.port() ^ 0x2112).to_be_bytes();
    let ip: Vec<u8> = ip.octets().iter().zip([0x21, 0x12, 0xa4, 0x42]).map(|(a, b)| a ^ b).collect();
    [&[0, 1], &port[..], &ip].concat()
}

/// The value of an attribute in a well-formed message.
///
/// # Panics
/// If the message is cut short.
pub fn find(message: &[u8], kind: u16) -> Option<&[u8]> {
    let mut at = 20;
    while at < message.len() {
        let length = usize::from(u16::from_be_bytes([message[at + 2], message[at + 3]]));
        if message[at..at + 2] == kind.to_be_bytes() {
            return Some(&message[at + 4..at + 4 + length]);
        }
        at += 4 + length.next_multiple_of(4);
    }
    None
}

/// Whether MESSAGE-INTEGRITY and FINGERPRINT, the last two attributes, are correct.
///
/// # Panics
/// As [`find`].
pub fn is_sealed(message: &[u8], password: &str) -> bool {
    let (Some(integrity), Some(fingerprint)) = (find(message, MESSAGE_INTEGRITY), find(message, FINGERPRINT))
    else {
        return false;
    };
    let body = Writer(message[..message.len() - 32].to_vec()).integrity(password).fingerprint().0;
    find(&body, MESSAGE_INTEGRITY) == Some(integrity) && find(&body, FINGERPRINT) == Some(fingerprint)
}
