//! Keys of a stream, and how they cross (draft-sharabayko-srt-01 sections 3.2.2 and 6).
//!
//! ```text
//! passphrase, salt ─▶ PBKDF2 ─▶ KEK ─▶ AES key wrap ─▶ the stream's key (SEK), even or odd
//! SEK, salt, header ─▶ cipher.rs ─▶ payload
//! ```
//!
//! Key material says by which cipher: counter mode as the draft has it, or AES-GCM as libsrt has it
//! since 1.5.4 (decision 49).

use aws_lc_rs::cipher::{DecryptingKey, DecryptionContext};
use aws_lc_rs::cipher::{EncryptingKey, EncryptionContext, UnboundCipherKey};
use aws_lc_rs::{pbkdf2, rand};
use std::num::NonZeroU32;
use zeroize::Zeroizing;

use crate::cipher::{CipherMode, Header, KeyLength, PayloadKey, SALT_BYTES};
use crate::wire::{KeyFlag, word};

/// Bytes in front of the salt.
const HEAD_BYTES: usize = 16;
/// Rounds of PBKDF2 (section 6.1.4).
const ROUNDS: NonZeroU32 = NonZeroU32::new(2048).expect("not 0");
/// Version 1, key material, and the sign "HAI" (section 3.2.2).
const SIGNATURE: u32 = 0x0012_2029;
/// Passphrases have 10 to 80 characters, as libsrt's have.
pub const PASSPHRASE_BYTES: std::ops::RangeInclusive<usize> = 10..=80;

/// What is agreed on with whoever has the passphrase.
#[derive(Clone)]
pub struct Passphrase(Zeroizing<Box<[u8]>>);

impl Passphrase {
    /// One of allowed length.
    pub fn new(text: &str) -> Option<Self> {
        PASSPHRASE_BYTES.contains(&text.len()).then(|| Self(Zeroizing::new(text.as_bytes().into())))
    }

    /// The key that keys are wrapped with: about half a millisecond of work.
    fn key(&self, salt: &[u8; SALT_BYTES], length: KeyLength) -> Zeroizing<Vec<u8>> {
        let mut key = Zeroizing::new(vec![0; length.bytes()]);
        // The last eight bytes of the salt (section 6.1.4).
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA1, ROUNDS, &salt[8..], &self.0, &mut key);
        key
    }
}

impl std::fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Passphrase(..)")
    }
}

/// Why key material is of no use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyError {
    /// It is not what it has to be.
    Malformed,
    /// It asks for a cipher that is not known.
    Cipher,
    /// It was wrapped with another passphrase.
    BadSecret,
}

/// A key of one parity.
struct Key {
    payload: PayloadKey,
    /// As it crosses.
    bytes: Zeroizing<Vec<u8>>,
}

/// The two keys of one direction, of which one may be there only, and what they are wrapped with.
pub(crate) struct Keys {
    salt: [u8; SALT_BYTES],
    length: KeyLength,
    mode: CipherMode,
    wrapping: Zeroizing<Vec<u8>>,
    even: Option<Key>,
    odd: Option<Key>,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (even, odd) = (self.even.is_some(), self.odd.is_some());
        write!(f, "Keys({:?}, {:?}, even: {even}, odd: {odd})", self.length, self.mode)
    }
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).expect("the system has random bytes");
    bytes
}

impl Key {
    fn new(bytes: Zeroizing<Vec<u8>>, length: KeyLength, mode: CipherMode) -> Option<Self> {
        Some(Self { payload: PayloadKey::new(mode, length, &bytes)?, bytes })
    }

    fn random(length: KeyLength, mode: CipherMode) -> Self {
        let bytes = Zeroizing::new(random::<32>()[..length.bytes()].to_vec());
        Self::new(bytes, length, mode).expect("the length is the cipher's")
    }
}

impl Keys {
    /// New ones, of which the even one is there.
    pub(crate) fn generate(passphrase: &Passphrase, length: KeyLength, mode: CipherMode) -> Self {
        let salt = random();
        let wrapping = passphrase.key(&salt, length);
        Self { salt, length, mode, wrapping, even: Some(Key::random(length, mode)), odd: None }
    }

    /// Reads key material.
    pub(crate) fn read(passphrase: &Passphrase, message: &[u8]) -> Result<Self, KeyError> {
        let (salt, length, mode, _) = read_head(message)?;
        let wrapping = passphrase.key(&salt, length);
        let mut keys = Self { salt, length, mode, wrapping, even: None, odd: None };
        keys.update(message)?;
        Ok(keys)
    }

    /// Takes the keys of further key material. With another salt the passphrase would be needed: that is
    /// refused, as the salt of a connection does not change, nor its cipher.
    pub(crate) fn update(&mut self, message: &[u8]) -> Result<(), KeyError> {
        let (salt, length, mode, flags) = read_head(message)?;
        if (salt, length, mode) != (self.salt, self.length, self.mode) {
            return Err(KeyError::Malformed);
        }
        let wrapped = &message[HEAD_BYTES + SALT_BYTES..];
        let count = flags.count_ones() as usize;
        if wrapped.len() != 8 + count * length.bytes() {
            return Err(KeyError::Malformed);
        }
        let bytes = unwrap(&self.wrapping, length, wrapped).ok_or(KeyError::BadSecret)?;
        let mut each = bytes.chunks_exact(length.bytes());
        let mut next = || {
            let bytes = Zeroizing::new(each.next()?.to_vec());
            Key::new(bytes, length, mode)
        };
        // The even one is the first of two (section 3.2.2).
        if flags & 1 != 0 {
            self.even = next();
        }
        if flags & 2 != 0 {
            self.odd = next();
        }
        Ok(())
    }

    /// The same keys for the other direction.
    pub(crate) fn for_sending(&self) -> Self {
        let Self { salt, length, mode, .. } = *self;
        let copy = |key: &Option<Key>| {
            key.as_ref().and_then(|key| Key::new(Zeroizing::new(key.bytes.to_vec()), length, mode))
        };
        let wrapping = Zeroizing::new(self.wrapping.to_vec());
        let (even, odd) = (copy(&self.even), copy(&self.odd));
        Self { salt, length, mode, wrapping, even, odd }
    }

    /// How payloads are encrypted.
    pub(crate) fn mode(&self) -> CipherMode {
        self.mode
    }

    /// The parity of the first key that there is.
    pub(crate) fn first(&self) -> KeyFlag {
        if self.even.is_some() { KeyFlag::Even } else { KeyFlag::Odd }
    }

    /// Replaces the key that is not `current` by a new one.
    pub(crate) fn renew_other(&mut self, current: KeyFlag) {
        let key = Some(Key::random(self.length, self.mode));
        match current {
            KeyFlag::Odd => self.even = key,
            KeyFlag::Even | KeyFlag::Clear => self.odd = key,
        }
    }

    /// What says the length in a handshake: units of 8 bytes.
    pub(crate) fn length_field(&self) -> u16 {
        (self.length.bytes() / 8) as u16
    }

    /// Key material with all keys that there are.
    pub(crate) fn write(&self) -> Vec<u8> {
        let flags = u32::from(self.even.is_some()) | u32::from(self.odd.is_some()) << 1;
        let mut out = Vec::with_capacity(HEAD_BYTES + SALT_BYTES + 72);
        let lengths = (((SALT_BYTES / 4) << 8) | (self.length.bytes() / 4)) as u32;
        // No index of the KEK; lengths in words.
        let words = [SIGNATURE << 8 | flags, 0, cipher_field(self.mode) << 8, lengths];
        words.iter().for_each(|word| out.extend(word.to_be_bytes()));
        out.extend_from_slice(&self.salt);
        let keys: Vec<u8> =
            [&self.even, &self.odd].into_iter().flatten().flat_map(|key| key.bytes.iter().copied()).collect();
        out.extend(wrap(&self.wrapping, self.length, &Zeroizing::new(keys)));
        out
    }

    /// Encrypts the payload of a packet with this header. False without that key.
    pub(crate) fn seal(&self, key: KeyFlag, header: &Header, payload: &mut Vec<u8>) -> bool {
        let key = self.key(key);
        if let Some(key) = key {
            key.payload.seal(&self.salt, header, payload);
        }
        key.is_some()
    }

    /// Decrypts it. False without that key, or if it is not what the sender has sent.
    pub(crate) fn open(&self, key: KeyFlag, header: &Header, payload: &mut Vec<u8>) -> bool {
        self.key(key).is_some_and(|key| key.payload.open(&self.salt, header, payload))
    }

    fn key(&self, key: KeyFlag) -> Option<&Key> {
        match key {
            KeyFlag::Clear => None,
            KeyFlag::Even => self.even.as_ref(),
            KeyFlag::Odd => self.odd.as_ref(),
        }
    }
}

/// Cipher, authentication and SRT's encapsulation, a byte each.
fn cipher_field(mode: CipherMode) -> u32 {
    match mode {
        CipherMode::Ctr => 2 << 16 | 2,
        CipherMode::Gcm => 4 << 16 | 1 << 8 | 2,
    }
}

/// Salt, length, cipher and flags of key material that is written as ours is.
fn read_head(message: &[u8]) -> Result<([u8; SALT_BYTES], KeyLength, CipherMode, u32), KeyError> {
    let malformed = KeyError::Malformed;
    let (head, rest) = message.split_at_checked(HEAD_BYTES).ok_or(malformed)?;
    let flags = word(head, 0) & 3;
    let is_known = word(head, 0) >> 8 == SIGNATURE
        && flags != 0
        && word(head, 4) == 0
        && word(head, 12) >> 8 & 0xff == (SALT_BYTES / 4) as u32;
    let length = KeyLength::of_bytes((word(head, 12) & 0xff) as usize * 4).ok_or(malformed)?;
    let salt = rest.first_chunk().copied().filter(|_| is_known).ok_or(malformed)?;
    let cipher = word(head, 8) >> 8;
    let mode = [CipherMode::Ctr, CipherMode::Gcm].into_iter().find(|mode| cipher_field(*mode) == cipher);
    Ok((salt, length, mode.ok_or(KeyError::Cipher)?, flags))
}

const WRAP_VALUE: [u8; 8] = [0xa6; 8];

/// AES key wrap (RFC 3394 section 2.2.1).
fn wrap(key: &[u8], length: KeyLength, plain: &[u8]) -> Vec<u8> {
    let cipher = UnboundCipherKey::new(length.algorithm(), key).and_then(EncryptingKey::ecb);
    let cipher = cipher.expect("the length is the cipher's");
    let mut out = [&WRAP_VALUE[..], plain].concat();
    let blocks = plain.len() / 8;
    for step in 0..6 * blocks {
        let at = 8 + step % blocks * 8;
        let mut block = [0; 16];
        block[..8].copy_from_slice(&out[..8]);
        block[8..].copy_from_slice(&out[at..at + 8]);
        cipher.less_safe_encrypt(&mut block, EncryptionContext::None).expect("it is one block");
        let count = (step as u64 + 1).to_be_bytes();
        block[..8].iter_mut().zip(count).for_each(|(byte, count)| *byte ^= count);
        out[..8].copy_from_slice(&block[..8]);
        out[at..at + 8].copy_from_slice(&block[8..]);
    }
    out
}

/// The other way (RFC 3394 section 2.2.2). `None` when the integrity check fails.
fn unwrap(key: &[u8], length: KeyLength, wrapped: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let cipher = UnboundCipherKey::new(length.algorithm(), key).and_then(DecryptingKey::ecb).ok()?;
    let mut out = Zeroizing::new(wrapped.to_vec());
    let blocks = wrapped.len().checked_sub(8).filter(|rest| *rest > 0 && rest.is_multiple_of(8))? / 8;
    for step in (0..6 * blocks).rev() {
        let at = 8 + step % blocks * 8;
        let mut block = [0; 16];
        let count = (step as u64 + 1).to_be_bytes();
        block[..8].copy_from_slice(&out[..8]);
        block[..8].iter_mut().zip(count).for_each(|(byte, count)| *byte ^= count);
        block[8..].copy_from_slice(&out[at..at + 8]);
        cipher.decrypt(&mut block, DecryptionContext::None).ok()?;
        out[..8].copy_from_slice(&block[..8]);
        out[at..at + 8].copy_from_slice(&block[8..]);
    }
    (out[..8] == WRAP_VALUE).then(|| Zeroizing::new(out[8..].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::HEADER_BYTES;

    const MODES: [CipherMode; 2] = [CipherMode::Ctr, CipherMode::Gcm];
    const PAYLOAD: &[u8] = b"seven packets of a transport stream";

    fn bytes(hex: &str) -> Vec<u8> {
        let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
        (0..hex.len()).step_by(2).map(digit).collect()
    }

    #[test]
    fn keys_are_wrapped_as_rfc_3394_section_4_has_it() {
        let cases = [
            // 4.1, 4.2 and 4.3: 128 bits with keys of 128, 192 and 256.
            (KeyLength::Aes128, 16, "1FA68B0A8112B447AEF34BD8FB5A7B829D3E862371D2CFE5"),
            (KeyLength::Aes192, 16, "96778B25AE6CA435F92B5B97C050AED2468AB8A17AD84E5D"),
            (KeyLength::Aes256, 16, "64E8C3F9CE0F5BA263E9777905818A2A93C8191E7D6E8AE7"),
        ];
        let kek = bytes("000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F");
        let plain = bytes("00112233445566778899AABBCCDDEEFF");
        for (length, count, wrapped) in cases {
            let kek = &kek[..length.bytes()];
            assert_eq!(wrap(kek, length, &plain[..count]), bytes(wrapped), "{length:?}");
            let mut wrapped = bytes(wrapped);
            assert_eq!(unwrap(kek, length, &wrapped).as_deref(), Some(&plain[..count].to_vec()));
            wrapped[9] ^= 1;
            assert!(unwrap(kek, length, &wrapped).is_none());
        }
    }

    #[test]
    fn a_passphrase_becomes_a_key_as_rfc_6070_derives_them() {
        // Its vectors have other rounds and salts; the derivation is the library's, so what is ours is
        // which half of the salt is used.
        let passphrase = Passphrase::new("a passphrase").expect("long enough");
        let (mut one, mut other) = ([1; SALT_BYTES], [1; SALT_BYTES]);
        one[0] = 9;
        assert_eq!(passphrase.key(&one, KeyLength::Aes128), passphrase.key(&other, KeyLength::Aes128));
        other[8] = 9;
        assert_ne!(passphrase.key(&one, KeyLength::Aes128), passphrase.key(&other, KeyLength::Aes128));
        for text in ["too short", &"x".repeat(81)] {
            assert!(Passphrase::new(text).is_none());
        }
    }

    #[test]
    fn both_ends_have_the_same_keys_and_strangers_none() {
        let passphrase = Passphrase::new("correct horse").expect("long enough");
        let lengths = [KeyLength::Aes128, KeyLength::Aes192, KeyLength::Aes256];
        for (length, mode) in lengths.into_iter().flat_map(|length| MODES.map(|mode| (length, mode))) {
            let mut ours = Keys::generate(&passphrase, length, mode);
            let mut theirs = Keys::read(&passphrase, &ours.write()).expect("the same passphrase");
            assert_eq!(theirs.mode(), mode);
            let header = [0x12; HEADER_BYTES];
            let check = |ours: &Keys, theirs: &Keys, key| {
                let mut payload = PAYLOAD.to_vec();
                assert!(ours.seal(key, &header, &mut payload));
                assert_ne!(payload[..PAYLOAD.len()], *PAYLOAD);
                assert!(theirs.open(key, &header, &mut payload));
                assert_eq!(payload, PAYLOAD);
            };
            check(&ours, &theirs, KeyFlag::Even);
            assert!(!theirs.open(KeyFlag::Odd, &header, &mut vec![0; 32]), "there is none yet");
            ours.renew_other(KeyFlag::Even);
            theirs.update(&ours.write()).expect("the same salt");
            check(&ours, &theirs, KeyFlag::Even);
            check(&ours, &theirs, KeyFlag::Odd);
            check(&ours, &theirs.for_sending(), KeyFlag::Odd);
            ours.even = None;
            assert_eq!(ours.first(), KeyFlag::Odd);
            check(&Keys::read(&passphrase, &ours.write()).expect("odd alone"), &theirs, KeyFlag::Odd);
            let other = Passphrase::new("wrong horse").expect("long enough");
            assert_eq!(Keys::read(&other, &ours.write()).err(), Some(KeyError::BadSecret));
        }
    }

    #[test]
    fn key_material_of_every_length_and_with_any_bit_flipped_is_refused_or_read() {
        let passphrase = Passphrase::new("correct horse").expect("long enough");
        for mode in MODES {
            let ours = Keys::generate(&passphrase, KeyLength::Aes128, mode);
            let message = ours.write();
            let mut theirs = ours.for_sending();
            for len in 0..message.len() {
                assert_eq!(theirs.update(&message[..len]).err(), Some(KeyError::Malformed), "{len}");
            }
            for bit in 0..message.len() * 8 {
                let mut message = message.clone();
                message[bit / 8] ^= 1 << (bit % 8);
                // Some bits mean nothing: those that are reserved.
                let _ = theirs.update(&message);
            }
        }
    }

    #[test]
    fn the_cipher_of_a_connection_is_a_known_one_and_does_not_change() {
        let passphrase = Passphrase::new("correct horse").expect("long enough");
        let mut ours = Keys::generate(&passphrase, KeyLength::Aes128, CipherMode::Ctr);
        let message = ours.write();
        let with = |cipher, authentication| {
            let mut message = message.clone();
            (message[8], message[9]) = (cipher, authentication);
            message
        };
        // Counter mode and AES-GCM as libsrt writes them.
        assert!(ours.update(&with(2, 0)).is_ok());
        assert_eq!(ours.update(&with(4, 1)).err(), Some(KeyError::Malformed), "it would change");
        for (cipher, authentication) in [(0, 0), (1, 0), (2, 1), (3, 0), (4, 0), (4, 2), (255, 1)] {
            let message = with(cipher, authentication);
            assert_eq!(Keys::read(&passphrase, &message).err(), Some(KeyError::Cipher), "{cipher}");
        }
        assert_eq!(Keys::read(&passphrase, &with(4, 1)).map(|keys| keys.mode()).ok(), Some(CipherMode::Gcm));
    }
}
