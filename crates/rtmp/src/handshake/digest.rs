//! The digest form of the handshake: HMAC-SHA256 with keys that every implementation publishes.
//!
//! ```text
//!  block of 1536:  time 4 | version 4, not zero | two parts of 764, in an order called the scheme
//!  digest part:    offset 4 | .. | digest 32 at (sum of the 4 offset bytes) mod 728 behind them | ..
//!  key part:       random here; only RTMPE puts a Diffie-Hellman key in it
//!
//!  scheme 0:  8 digest part | 772 key part      scheme 1:  8 key part | 772 digest part
//! ```
//!
//! The digest of C1 or S1 is the HMAC of the block without its digest. The answer block (S2, C2) is random
//! except for its last 32 bytes: the HMAC of the rest under a key that is itself the HMAC of the digest it
//! answers. Source: the behaviour of Flash Player and Flash Media Server as ffmpeg, librtmp and
//! nginx-rtmp agree on it; there is no official text.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::{BLOCK_BYTES, Block};

pub(super) const DIGEST_BYTES: usize = 32;

/// Keys of one role: the text alone signs C1 or S1, text and tail together make the answer's key.
#[derive(Debug, Clone, Copy)]
pub(super) struct RoleKey(&'static [u8]);

pub(super) const CLIENT_KEY: RoleKey = RoleKey(b"Genuine Adobe Flash Player 001");
pub(super) const SERVER_KEY: RoleKey = RoleKey(b"Genuine Adobe Flash Media Server 001");

/// Where the digest part begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    Zero,
    One,
}

/// Finds out whether `block` carries a digest under `key`, and in which scheme.
pub(super) fn find(block: &Block, key: RoleKey) -> Option<(Scheme, [u8; DIGEST_BYTES])> {
    [Scheme::Zero, Scheme::One].into_iter().find_map(|scheme| {
        let offset = digest_offset(block, scheme);
        let digest = digest_around(block, offset, key);
        (block[offset..offset + DIGEST_BYTES] == digest).then_some((scheme, digest))
    })
}

/// Writes the digest into `block`, whose other bytes are final, and returns it.
pub(super) fn sign(block: &mut Block, scheme: Scheme, key: RoleKey) -> [u8; DIGEST_BYTES] {
    let offset = digest_offset(block, scheme);
    let digest = digest_around(block, offset, key);
    block[offset..offset + DIGEST_BYTES].copy_from_slice(&digest);
    digest
}

/// Writes the last 32 bytes of an answer block: proof that `digest` was read.
pub(super) fn sign_answer(block: &mut Block, digest: &[u8; DIGEST_BYTES], key: RoleKey) {
    let answer_key = hmac(&[key.0, &KEY_TAIL].concat(), &[digest]);
    let (random, proof) = block.split_at_mut(BLOCK_BYTES - DIGEST_BYTES);
    proof.copy_from_slice(&hmac(&answer_key, &[random]));
}

/// `part + 4 <= offset` and `offset + 32 <= part + 764`, whatever the four bytes say.
fn digest_offset(block: &Block, scheme: Scheme) -> usize {
    let part = match scheme {
        Scheme::Zero => 8,
        Scheme::One => 772,
    };
    let sum: usize = block[part..part + 4].iter().map(|byte| usize::from(*byte)).sum();
    part + 4 + sum % 728
}

fn digest_around(block: &Block, offset: usize, key: RoleKey) -> [u8; DIGEST_BYTES] {
    hmac(key.0, &[&block[..offset], &block[offset + DIGEST_BYTES..]])
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; DIGEST_BYTES] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// Follows either role's text in the key of the answer.
const KEY_TAIL: [u8; 32] = [
    0xf0, 0xee, 0xc2, 0x4a, 0x80, 0x68, 0xbe, 0xe8, 0x2e, 0x00, 0xd0, 0xd1, 0x02, 0x9e, 0x7e, 0x57, 0x6e,
    0xec, 0x5d, 0x2d, 0x29, 0x80, 0x6f, 0xab, 0x93, 0xb8, 0xe6, 0x36, 0xcf, 0xeb, 0x31, 0xae,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signed_block_is_found_under_its_key_and_scheme_only() {
        for scheme in [Scheme::Zero, Scheme::One] {
            for offset_byte in [0, 1, 0xb6, 0xff] {
                let mut block = [offset_byte; BLOCK_BYTES];
                let digest = sign(&mut block, scheme, CLIENT_KEY);
                assert_eq!(find(&block, CLIENT_KEY), Some((scheme, digest)), "offset byte {offset_byte}");
                assert_eq!(find(&block, SERVER_KEY), None);
                block[4] ^= 1;
                assert_eq!(find(&block, CLIENT_KEY), None);
            }
        }
    }
}
