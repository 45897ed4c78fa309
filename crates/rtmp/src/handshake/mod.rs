//! The handshake (Adobe RTMP 1.0 section 5.2), simple and with digest, for both roles.
//!
//! ```text
//!  client                      server        C0, S0   1 byte: version 3
//!    C0 C1  ------------------>              C1, S1   1536 bytes: time 4 | zero or version 4 | random
//!           <------------------  S0 S1 S2    C2, S2   1536 bytes: the other side's C1 / S1 (simple)
//!    C2     ------------------>
//! ```
//!
//! The digest form, which Flash Player asked for before it played H.264 and which ffmpeg offers, is not in
//! the specification; `digest.rs` describes it. A server answers in the form the client chose. The last
//! 1536 bytes of each side (C2, S2) prove nothing that matters here: they are counted and not kept.
//!
//! Versions other than 3 are refused at the first byte. Among them are RTMPE (6 and 8), a TLS hello (0x16)
//! and an HTTP request: waiting for 1536 more bytes of those would help nobody.

mod client;
mod digest;
mod server;

pub use client::{ClientHandshake, HandshakeForm};
pub use server::ServerHandshake;

/// Length of C1, C2, S1 and S2.
pub const BLOCK_BYTES: usize = 1536;

const VERSION: u8 = 3;

type Block = [u8; BLOCK_BYTES];

/// Splits what C0 and C1, or S0 and S1, look like from the front of the input, using `received` to keep
/// what came before. `None`: more is needed, all of the input was taken.
fn take_version_and_block(
    received: &mut Vec<u8>,
    input: &mut &[u8],
) -> Result<Option<Box<Block>>, super::RtmpError> {
    let missing = 1 + BLOCK_BYTES - received.len();
    let (taken, rest) = input.split_at(missing.min(input.len()));
    *input = rest;
    if received.len() + taken.len() > received.capacity() {
        // All of it at once, as usual, or exactly what came: half-open connections stay small.
        received.reserve_exact(taken.len());
    }
    received.extend_from_slice(taken);
    if received.first().is_some_and(|version| *version != VERSION) {
        return Err(super::RtmpError::BadHandshake);
    }
    let Some(block) = received.get(1..).and_then(|block| <&Block>::try_from(block).ok()) else {
        return Ok(None);
    };
    let block = Box::new(*block);
    *received = Vec::new();
    Ok(Some(block))
}

/// Counts off the bytes of C2 or S2 that are in the input; true when none are left to come.
fn skip_block(left: &mut usize, input: &mut &[u8]) -> bool {
    let skipped = (*left).min(input.len());
    *input = &input[skipped..];
    *left -= skipped;
    *left == 0
}

/// Fills with numbers that need not be secret (splitmix64, Steele, Lea and Flood 2014).
fn fill_random(seed: &mut u64, bytes: &mut [u8]) {
    for chunk in bytes.chunks_mut(8) {
        *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let random = (z ^ (z >> 31)).to_le_bytes();
        chunk.copy_from_slice(&random[..chunk.len()]);
    }
}
