//! Counter mode and HMAC-SHA1 by AWS-LC: the backend for every CPU, and what the kernels are compared with.

use aws_lc_rs::cipher::{AES_128, AES_256, EncryptingKey, EncryptionContext, UnboundCipherKey};
use aws_lc_rs::hmac;

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

/// HMAC-SHA1.
pub(super) struct Mac(hmac::Key);

impl Mac {
    fn new(key: &[u8; 20]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, key))
    }

    #[inline]
    pub(super) fn of(&self, packet: &[u8], suffix: &[u8; 4]) -> [u8; MAC_BYTES] {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(packet);
        context.update(suffix);
        *context.sign().as_ref().first_chunk().expect("HMAC-SHA1 is 20 bytes long")
    }
}
