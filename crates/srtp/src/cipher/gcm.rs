//! AES-GCM session keys (RFC 7714; NIST SP 800-38D) of 128 and 256 bits.
//!
//! A key holds whatever its backend computes in advance, so that a packet costs no set-up:
//! `avx512.rs` is our vector kernel, `library.rs` the same by AWS-LC. The nonce is always 12 bytes
//! and the tag always 16 (RFC 7714 §8.1, §13.2). What is nonce, associated data and text of a
//! packet, and whether a nonce may be used, is decided by the caller.

#[cfg(target_arch = "x86_64")]
mod avx512;
mod library;

use crate::Backend;

/// Longest text of a packet in bytes; datagrams are shorter. No counter can wrap below it: it has
/// 4096 blocks, and the 32-bit block counter starts at 2 in every packet (SP 800-38D §7.1).
pub const TEXT_BYTES_MAX: usize = 1 << 16;

/// Bytes of a tag.
pub const TAG_BYTES: usize = 16;

/// One session key for AES-GCM. Its memory is cleared when it is dropped; moving it may leave a
/// copy behind, so keys should be created once and not moved.
pub struct GcmKey(Inner);

/// Not boxed: with the keys of a thousand contexts in rotation, each pointer is a cache miss.
enum Inner {
    #[cfg(target_arch = "x86_64")]
    Aes128(avx512::Key128),
    #[cfg(target_arch = "x86_64")]
    Aes256(avx512::Key256),
    Library(library::Key),
}

impl GcmKey {
    /// Prepares a key of 16 or 32 bytes.
    ///
    /// # Panics
    /// When `key` has another length, or this CPU cannot run `backend`.
    pub fn new(key: &[u8], backend: Backend) -> Self {
        assert!(backend.is_supported(), "the caller chose a backend of this CPU");
        Self(match (backend, key.len()) {
            #[cfg(target_arch = "x86_64")]
            (Backend::Avx512, 16) => Inner::Aes128(avx512::Key128::new(key)),
            #[cfg(target_arch = "x86_64")]
            (Backend::Avx512, 32) => Inner::Aes256(avx512::Key256::new(key)),
            _ => Inner::Library(library::Key::new(key)),
        })
    }

    /// Encrypts `text` in place, or `source` into `text` in one pass, and returns the tag over
    /// `aad` and the ciphertext.
    ///
    /// # Panics
    /// When `source` is not as long as `text`, or `text` is longer than [`TEXT_BYTES_MAX`].
    #[inline]
    pub fn seal(
        &self,
        nonce: &[u8; 12],
        aad: &[u8],
        source: Option<&[u8]>,
        text: &mut [u8],
    ) -> [u8; TAG_BYTES] {
        assert!(text.len() <= TEXT_BYTES_MAX, "a datagram is shorter than 64 KiB");
        assert!(source.is_none_or(|source| source.len() == text.len()), "source and text are one packet's");
        match &self.0 {
            #[cfg(target_arch = "x86_64")]
            Inner::Aes128(key) => key.seal(nonce, aad, source, text),
            #[cfg(target_arch = "x86_64")]
            Inner::Aes256(key) => key.seal(nonce, aad, source, text),
            Inner::Library(key) => key.seal(nonce, aad, source, text),
        }
    }

    /// Decrypts `text` in place if `tag` is right for it and `aad`, and says so. If not, `text` is as it was.
    ///
    /// # Panics
    /// When `text` is longer than [`TEXT_BYTES_MAX`].
    #[inline]
    pub fn open(&self, nonce: &[u8; 12], aad: &[u8], text: &mut [u8], tag: &[u8; TAG_BYTES]) -> bool {
        assert!(text.len() <= TEXT_BYTES_MAX, "a datagram is shorter than 64 KiB");
        match &self.0 {
            #[cfg(target_arch = "x86_64")]
            Inner::Aes128(key) => key.open(nonce, aad, text, tag),
            #[cfg(target_arch = "x86_64")]
            Inner::Aes256(key) => key.open(nonce, aad, text, tag),
            Inner::Library(key) => key.open(nonce, aad, text, tag),
        }
    }
}

#[cfg(test)]
mod tests;
