//! AES-GCM by AWS-LC: the portable twin of `avx512.rs`, its oracle in tests, and the implementation
//! for every other CPU.
//!
//! Sealing reads the source and writes the ciphertext in one pass. Opening costs a copy of the
//! ciphertext, because AWS-LC clears its output when the tag is wrong and [`Key::open`] promises to
//! leave the packet as it was received. AWS-LC clears the key when it frees it.

use arrayvec::ArrayVec;
use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use super::{TAG_BYTES, TEXT_BYTES_MAX};

pub(super) struct Key(LessSafeKey);

impl Key {
    pub(super) fn new(key: &[u8]) -> Self {
        let algorithm = match key.len() {
            16 => &AES_128_GCM,
            32 => &AES_256_GCM,
            other => panic!("an AES-GCM key has 16 or 32 bytes, not {other}"),
        };
        Self(LessSafeKey::new(UnboundKey::new(algorithm, key).expect("the length is the algorithm's")))
    }

    pub(super) fn seal(
        &self,
        nonce: &[u8; 12],
        aad: &[u8],
        source: Option<&[u8]>,
        text: &mut [u8],
    ) -> [u8; TAG_BYTES] {
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let mut tag = [0; TAG_BYTES];
        match source {
            Some(source) => {
                self.0.seal_out_of_place_scatter(nonce, Aad::from(aad), source, text, &[], &mut tag)
            }
            None => self.0.seal_in_place_scatter(nonce, Aad::from(aad), text, &[], &mut tag),
        }
        .expect("lengths are equal and far below the limit of AES-GCM");
        tag
    }

    pub(super) fn open(&self, nonce: &[u8; 12], aad: &[u8], text: &mut [u8], tag: &[u8; TAG_BYTES]) -> bool {
        // Two sizes of scratch memory on the stack: probing 64 KiB of it would cost a small packet
        // its caches.
        match text.len() {
            0..=2048 => self.open_from_copy::<2048>(nonce, aad, text, tag),
            _ => self.open_from_copy::<TEXT_BYTES_MAX>(nonce, aad, text, tag),
        }
    }

    #[inline(never)]
    fn open_from_copy<const BYTES: usize>(
        &self,
        nonce: &[u8; 12],
        aad: &[u8],
        text: &mut [u8],
        tag: &[u8; TAG_BYTES],
    ) -> bool {
        let mut received = ArrayVec::<u8, BYTES>::new();
        received.try_extend_from_slice(text).expect("the caller chose BYTES by the text's length");
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = self.0.open_separate_gather(nonce, Aad::from(aad), &received, tag, text).is_ok();
        if !opened {
            text.copy_from_slice(&received);
        }
        opened
    }
}
