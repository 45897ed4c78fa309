//! How a payload is encrypted with one key: AES in counter mode, or AES-GCM.
//!
//! ```text
//! counter mode (draft-sharabayko-srt-01 section 6.2.2), 128 bits:
//!   salt 0..14  XOR  | 0 * 10 | sequence number, 4 | and behind it 16 bits that count blocks
//! AES-GCM (libsrt 1.5.4), 96 bits:
//!   salt 0..12  XOR  | 0 * 8 | sequence number, 4 |
//!   authenticated besides the payload: the packet's header, its bit R 0; tag of 16 bytes behind it
//! ```
//!
//! A nonce is used once: a key is of one sender, which changes it long before its sequence numbers
//! wrap, and keeps a packet as it was encrypted for when it is sent again.

use aws_lc_rs::aead::{AES_128_GCM, AES_192_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::cipher::{self, AES_128, AES_192, AES_256};
use aws_lc_rs::cipher::{EncryptingKey, EncryptionContext, UnboundCipherKey};
use aws_lc_rs::iv::FixedLength;

use crate::wire::HEADER_BYTES;

/// Bytes of the salt (section 3.2.2: always 16).
pub(crate) const SALT_BYTES: usize = 16;
/// Bytes of the tag of AES-GCM.
const TAG_BYTES: usize = 16;
/// The bit of a header's byte 4 that says that the packet is sent again.
const RETRANSMITTED: u8 = 1 << 2;

/// Length of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyLength {
    /// AES-128.
    Aes128,
    /// AES-192.
    Aes192,
    /// AES-256.
    Aes256,
}

/// How payloads are encrypted, which the caller chooses ("crypto mode" in libsrt).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CipherMode {
    /// AES in counter mode: every peer has it. What is changed on the way goes unnoticed.
    #[default]
    Ctr,
    /// AES-GCM: what is changed on the way is dropped. libsrt has it since 1.5.4, if it was built with it.
    Gcm,
}

/// What the first 16 bytes of a data packet are.
pub(crate) type Header = [u8; HEADER_BYTES];

/// A key that is ready for use.
pub(crate) enum PayloadKey {
    // 504 bytes, 20 times the other.
    Ctr(Box<EncryptingKey>),
    Gcm(LessSafeKey),
}

impl KeyLength {
    /// Bytes of such a key.
    pub fn bytes(self) -> usize {
        match self {
            Self::Aes128 => 16,
            Self::Aes192 => 24,
            Self::Aes256 => 32,
        }
    }

    pub(crate) fn of_bytes(bytes: usize) -> Option<Self> {
        [Self::Aes128, Self::Aes192, Self::Aes256].into_iter().find(|length| length.bytes() == bytes)
    }

    pub(crate) fn algorithm(self) -> &'static cipher::Algorithm {
        match self {
            Self::Aes128 => &AES_128,
            Self::Aes192 => &AES_192,
            Self::Aes256 => &AES_256,
        }
    }
}

impl CipherMode {
    /// Bytes that a payload grows by.
    pub(crate) fn overhead_bytes(self) -> usize {
        match self {
            Self::Ctr => 0,
            Self::Gcm => TAG_BYTES,
        }
    }
}

impl PayloadKey {
    /// `None` if the key has another length.
    pub(crate) fn new(mode: CipherMode, length: KeyLength, key: &[u8]) -> Option<Self> {
        match mode {
            CipherMode::Ctr => {
                let key = UnboundCipherKey::new(length.algorithm(), key).ok()?;
                EncryptingKey::ctr(key).ok().map(|key| Self::Ctr(Box::new(key)))
            }
            CipherMode::Gcm => {
                let algorithm = match length {
                    KeyLength::Aes128 => &AES_128_GCM,
                    KeyLength::Aes192 => &AES_192_GCM,
                    KeyLength::Aes256 => &AES_256_GCM,
                };
                UnboundKey::new(algorithm, key).ok().map(|key| Self::Gcm(LessSafeKey::new(key)))
            }
        }
    }

    /// Encrypts the payload of a packet that has this header.
    pub(crate) fn seal(&self, salt: &[u8; SALT_BYTES], header: &Header, payload: &mut Vec<u8>) {
        match self {
            Self::Ctr(key) => apply_counter(key, salt, header, payload),
            Self::Gcm(key) => {
                let tag = key
                    .seal_in_place_separate_tag(nonce(salt, header), authenticated(header), payload)
                    .expect("a datagram is shorter than what AES-GCM takes");
                payload.extend_from_slice(tag.as_ref());
            }
        }
    }

    /// Decrypts it. False: it is not what the sender has sent, and `payload` is of no use.
    pub(crate) fn open(&self, salt: &[u8; SALT_BYTES], header: &Header, payload: &mut Vec<u8>) -> bool {
        match self {
            Self::Ctr(key) => {
                apply_counter(key, salt, header, payload);
                true
            }
            Self::Gcm(key) => {
                let opened = key.open_in_place(nonce(salt, header), authenticated(header), payload);
                let Ok(len) = opened.map(|opened| opened.len()) else { return false };
                payload.truncate(len);
                true
            }
        }
    }
}

/// Encrypts or decrypts, which in counter mode is the same.
fn apply_counter(key: &EncryptingKey, salt: &[u8; SALT_BYTES], header: &Header, payload: &mut [u8]) {
    let mut counter = [0; 16];
    counter[10..14].copy_from_slice(&header[..4]);
    counter[..14].iter_mut().zip(salt).for_each(|(byte, salt)| *byte ^= salt);
    let context = EncryptionContext::Iv128(FixedLength::from(counter));
    key.less_safe_encrypt(payload, context).expect("counter mode takes any length");
}

fn nonce(salt: &[u8; SALT_BYTES], header: &Header) -> Nonce {
    let mut nonce = [0; 12];
    nonce[8..].copy_from_slice(&header[..4]);
    nonce.iter_mut().zip(salt).for_each(|(byte, salt)| *byte ^= salt);
    Nonce::assume_unique_for_key(nonce)
}

fn authenticated(header: &Header) -> Aad<Header> {
    let mut header = *header;
    header[4] &= !RETRANSMITTED;
    Aad::from(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALT: [u8; SALT_BYTES] = *b"sixteen of salt!";
    const HEADER: Header = [0x12, 0x34, 0x56, 0x78, 0xc8, 0, 0, 9, 0, 0, 1, 2, 3, 4, 5, 6];
    const LENGTHS: [KeyLength; 3] = [KeyLength::Aes128, KeyLength::Aes192, KeyLength::Aes256];

    fn key(mode: CipherMode, length: KeyLength) -> PayloadKey {
        PayloadKey::new(mode, length, &[7; 32][..length.bytes()]).expect("the length is the key's")
    }

    fn sealed(key: &PayloadKey, header: &Header, payload: &[u8]) -> Vec<u8> {
        let mut sealed = payload.to_vec();
        key.seal(&SALT, header, &mut sealed);
        sealed
    }

    #[test]
    fn payloads_of_every_length_come_back_as_they_went() {
        let plain: Vec<u8> = (0..1440).map(|at| at as u8).collect();
        for mode in [CipherMode::Ctr, CipherMode::Gcm] {
            for length in LENGTHS {
                let key = key(mode, length);
                for len in [0, 1, 15, 16, 17, 188, 1316, 1440] {
                    let mut payload = sealed(&key, &HEADER, &plain[..len]);
                    assert_eq!(payload.len(), len + mode.overhead_bytes());
                    assert!(len < 16 || payload[..len] != plain[..len]);
                    assert!(key.open(&SALT, &HEADER, &mut payload));
                    assert_eq!(payload, plain[..len], "{mode:?} {length:?} {len}");
                }
                assert!(PayloadKey::new(mode, length, &[7; 5]).is_none());
            }
        }
    }

    #[test]
    fn a_bit_that_changes_anywhere_is_noticed_by_gcm() {
        for length in LENGTHS {
            let key = key(CipherMode::Gcm, length);
            let whole = sealed(&key, &HEADER, b"one packet of a transport stream");
            for bit in 0..whole.len() * 8 {
                let mut payload = whole.clone();
                payload[bit / 8] ^= 1 << (bit % 8);
                assert!(!key.open(&SALT, &HEADER, &mut payload), "{bit}");
            }
            for len in 0..whole.len() {
                assert!(!key.open(&SALT, &HEADER, &mut whole[..len].to_vec()), "{len}");
            }
            for bit in 0..HEADER.len() * 8 {
                let mut header = HEADER;
                header[bit / 8] ^= 1 << (bit % 8);
                let is_taken = key.open(&SALT, &header, &mut whole.clone());
                // The bit R of a packet that is sent again.
                assert_eq!(is_taken, bit == 4 * 8 + 2, "{bit}");
            }
        }
    }

    #[test]
    fn what_is_sent_again_is_the_same_and_what_follows_is_not() {
        let mut again = HEADER;
        again[4] |= RETRANSMITTED;
        let mut next = HEADER;
        next[3] += 1;
        for mode in [CipherMode::Ctr, CipherMode::Gcm] {
            let key = key(mode, KeyLength::Aes128);
            assert_eq!(sealed(&key, &HEADER, &[1; 188]), sealed(&key, &again, &[1; 188]));
            assert_ne!(sealed(&key, &HEADER, &[1; 188]), sealed(&key, &next, &[1; 188]));
        }
    }

    #[test]
    fn the_last_bit_of_a_sequence_number_makes_another_nonce() {
        // libsrt 1.5.2 and 1.5.3 cut it off: 65,536 packets had one nonce.
        let mut next = HEADER;
        next[3] ^= 1;
        let bytes = |header: &Header| *nonce(&[0; SALT_BYTES], header).as_ref();
        assert_eq!(bytes(&HEADER), [0, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x34, 0x56, 0x78]);
        assert_ne!(bytes(&HEADER), bytes(&next));
    }
}
