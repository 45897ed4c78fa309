//! Counter mode by AWS-LC and HMAC-SHA1 by the RustCrypto crates: the backend for every CPU.
//!
//! Each part by the faster library: AWS-LC's HMAC spends hundreds of cycles a packet before the
//! first byte, and the other's counter mode takes longer a block (`scripts/bench srtp-ciphers`).
//! Both ask the CPU what it has.

use aws_lc_rs::cipher::{AES_128, AES_256, EncryptingKey, EncryptionContext, UnboundCipherKey};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha1::Sha1;

use super::MAC_BYTES;

/// Both parts of a session key.
pub(super) struct Key {
    pub(super) aes: Aes,
    pub(super) mac: Mac,
}

impl Key {
    pub(super) fn new(encryption_key: &[u8], auth_key: &[u8; 20]) -> Self {
        Self { aes: Aes::new(encryption_key), mac: Mac::new(auth_key) }
    }
}

/// AES in counter mode.
pub(super) struct Aes(EncryptingKey);

impl Aes {
    /// Panics when `key` is not 16 or 32 bytes long.
    pub(super) fn new(key: &[u8]) -> Self {
        let algorithm = if key.len() == 16 { &AES_128 } else { &AES_256 };
        let key = UnboundCipherKey::new(algorithm, key).and_then(EncryptingKey::ctr);
        Self(key.expect("AES keys of SRTP are 16 or 32 bytes long"))
    }

    #[inline]
    pub(super) fn encrypt(&self, iv: &[u8; 16], source: Option<&[u8]>, text: &mut [u8]) {
        if let Some(source) = source {
            text.copy_from_slice(source);
        }
        let context = EncryptionContext::Iv128(iv.into());
        self.0.less_safe_encrypt(text, context).expect("counter mode takes every length");
    }
}

/// HMAC-SHA1, the key's two blocks hashed already.
pub(super) struct Mac(Hmac<Sha1>);

impl Mac {
    fn new(key: &[u8; 20]) -> Self {
        Self(Hmac::new_from_slice(key).expect("HMAC takes every length"))
    }

    #[inline]
    pub(super) fn of(&self, packet: &[u8], suffix: &[u8; 4]) -> [u8; MAC_BYTES] {
        let mut mac = self.0.clone();
        mac.update(packet);
        mac.update(suffix);
        mac.finalize().into_bytes().into()
    }
}
