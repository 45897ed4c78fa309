//! SHA-1 by the SHA extensions, on one packet or two at once; AES is the library's.
//!
//! For CPUs without AVX-512. Also compresses the key's blocks for the AVX-512 key. A single hash is
//! a chain of dependent instructions; a second one fits into the gaps.
//!
//! Constant time: no branch and no address depends on key, text or hash, only on lengths.
#![expect(unsafe_code, reason = "vector loads through pointers, and calls of code for this CPU")]

use std::arch::x86_64::*;

use super::library::Aes;
use super::{BLOCK_BYTES, MAC_BYTES, Message, Midstates, inner_blocks};

/// AES key of the library and HMAC midstates.
pub(super) struct Key {
    pub(super) mac: Midstates,
    pub(super) aes: Aes,
}

impl Key {
    /// **The CPU must run [`Backend::ShaNi`](crate::Backend::ShaNi)**, which is asserted here.
    pub(super) fn new(encryption_key: &[u8], auth_key: &[u8; 20]) -> Self {
        Self { mac: Midstates::new(auth_key), aes: Aes::new(encryption_key) }
    }
}

/// HMAC-SHA1 of `N` messages.
#[inline]
pub(super) fn hmac<const N: usize>(messages: &[Message<'_>; N]) -> [[u8; MAC_BYTES]; N] {
    // SAFETY: midstates were made, so the CPU has the instructions.
    unsafe { hmac_messages(messages) }
}

/// One block after `state`.
pub(super) fn compress(state: [u32; 5], block: &[u8; BLOCK_BYTES]) -> [u32; 5] {
    assert!(crate::Backend::ShaNi.is_supported());
    // SAFETY: the CPU was asked for these instructions above.
    unsafe { compress_bytes(state, block) }
}

/// HMAC-SHA1 of `N` messages. Not part of its caller, so that no register is left in the caller's
/// state (see `chain.rs`).
#[inline(never)]
#[target_feature(enable = "sha,ssse3,sse4.1")]
fn hmac_messages<const N: usize>(messages: &[Message<'_>; N]) -> [[u8; MAC_BYTES]; N] {
    let next = |before, words| _mm_sha1nexte_epu32(before, words);
    hmac_rows!(messages, N, schedule, next)
}

#[target_feature(enable = "sha,ssse3,sse4.1")]
fn compress_bytes(state: [u32; 5], block: &[u8; BLOCK_BYTES]) -> [u32; 5] {
    let next = |before, words| _mm_sha1nexte_epu32(before, words);
    let (mut states, words) = ([State::new(state)], [load(block)]);
    const ONE: usize = 1;
    twenty_groups!(states, words, ONE, schedule, next, in_turn);
    let tag = states[0].tag();
    std::array::from_fn(|word| u32::from_be_bytes(tag.as_chunks().0[word]))
}

/// Writes what does not fill a block, the suffix and the padding (FIPS 180-4 section 5.1.1) into
/// one block or two that were zero.
#[inline]
pub(super) fn tail(message: &Message<'_>, tail: &mut [u8; 2 * BLOCK_BYTES]) {
    let (_, rest) = message.bytes.as_chunks::<BLOCK_BYTES>();
    tail[..rest.len()].copy_from_slice(rest);
    tail[rest.len()..rest.len() + 4].copy_from_slice(&message.suffix);
    tail[rest.len() + 4] = 0x80;
    let end = if rest.len() + 4 + 9 <= BLOCK_BYTES { BLOCK_BYTES } else { 2 * BLOCK_BYTES };
    let bits = ((BLOCK_BYTES + message.bytes.len() + 4) * 8) as u32;
    tail[end - 4..end].copy_from_slice(&bits.to_be_bytes());
}

/// State of a hash in the order of the instructions: A in the highest word.
#[derive(Clone, Copy)]
pub(super) struct State {
    pub(super) abcd: __m128i,
    /// E in the highest word, the others zero.
    pub(super) e: __m128i,
}

impl State {
    pub(super) const ZERO: Self = {
        // SAFETY: all bits zero is a register.
        let zero = unsafe { std::mem::zeroed() };
        Self { abcd: zero, e: zero }
    };

    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn new([a, b, c, d, e]: [u32; 5]) -> Self {
        let [a, b, c, d, e] = [a, b, c, d, e].map(u32::cast_signed);
        Self { abcd: _mm_set_epi32(a, b, c, d), e: _mm_set_epi32(e, 0, 0, 0) }
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn inner(Midstates(words): &Midstates) -> Self {
        Self::new([words[0], words[1], words[2], words[3], words[8]])
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn outer(Midstates(words): &Midstates) -> Self {
        Self::new([words[4], words[5], words[6], words[7], words[9]])
    }

    /// The only block of the outer hash after the key's: this inner hash and the padding.
    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn outer_block(self) -> [__m128i; 4] {
        let end = _mm_or_si128(self.e, _mm_set_epi32(0, i32::MIN, 0, 0));
        let bits = ((BLOCK_BYTES + MAC_BYTES) * 8) as i32;
        [self.abcd, end, _mm_setzero_si128(), _mm_set_epi32(0, 0, 0, bits)]
    }

    #[inline]
    #[target_feature(enable = "sse4.1")]
    pub(super) fn tag(self) -> [u8; MAC_BYTES] {
        let words = [
            _mm_extract_epi32::<3>(self.abcd),
            _mm_extract_epi32::<2>(self.abcd),
            _mm_extract_epi32::<1>(self.abcd),
            _mm_extract_epi32::<0>(self.abcd),
            _mm_extract_epi32::<3>(self.e),
        ];
        let mut tag = [0; MAC_BYTES];
        for (bytes, word) in tag.as_chunks_mut().0.iter_mut().zip(words) {
            *bytes = word.to_be_bytes();
        }
        tag
    }
}

/// HMAC-SHA1 of `$n` messages, a block of each in a row. For `$schedule` and `$next` see [`twenty_groups`].
macro_rules! hmac_rows {
    ($messages:ident, $n:ident, $schedule:ident, $next:ident) => {{
        let mut states = [State::ZERO; $n];
        let mut tails = [[0; 2 * BLOCK_BYTES]; $n];
        let mut rows = [0; $n];
        for at in 0..$n {
            states[at] = State::inner($messages[at].mac);
            tail(&$messages[at], &mut tails[at]);
            rows[at] = inner_blocks($messages[at].bytes.len());
        }
        let mut tags = [[0; MAC_BYTES]; $n];
        let last = rows.iter().copied().max().unwrap_or(0);
        // The row behind a message's last is the outer hash. A message that is through runs along
        // until all are.
        for row in 0..=last {
            let mut words = [[_mm_setzero_si128(); 4]; $n];
            for at in 0..$n {
                if row < rows[at] {
                    let (blocks, _) = $messages[at].bytes.as_chunks();
                    let block = blocks.get(row);
                    words[at] = load(block.unwrap_or_else(|| &tails[at].as_chunks().0[row - blocks.len()]));
                } else if row == rows[at] {
                    words[at] = states[at].outer_block();
                    states[at] = State::outer($messages[at].mac);
                }
            }
            twenty_groups!(states, words, $n, $schedule, $next, in_turn);
            for at in 0..$n {
                if row == rows[at] {
                    tags[at] = states[at].tag();
                }
            }
        }
        tags
    }};
}
pub(super) use hmac_rows;

/// The words of a block, the first one highest.
#[inline]
#[target_feature(enable = "ssse3")]
pub(super) fn load(block: &[u8; BLOCK_BYTES]) -> [__m128i; 4] {
    let reverse = _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f);
    let mut words = [_mm_setzero_si128(); 4];
    for (words, bytes) in words.iter_mut().zip(block.as_chunks::<16>().0) {
        // SAFETY: 16 readable bytes; the load needs no alignment.
        let loaded = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
        *words = _mm_shuffle_epi8(loaded, reverse);
    }
    words
}

/// The 80 rounds of a block (FIPS 180-4 section 6.1.2), twenty groups of four. `N` blocks are
/// worked on in turn.
///
/// `$schedule(words, group)` gives the words of the groups from the fourth on.
/// `$next(before, words)` adds E to the first word: it is A from before the previous group,
/// rotated. `$in_turn(states)` keeps the blocks in step.
macro_rules! twenty_groups {
    ($states:ident, $words:ident, $n:ident, $schedule:ident, $next:ident, $in_turn:ident) => {{
        let start = $states;
        let mut words = [[_mm_setzero_si128(); 20]; $n];
        let mut before = [_mm_setzero_si128(); $n];
        for at in 0..$n {
            words[at][..4].copy_from_slice(&$words[at]);
            before[at] = $states[at].abcd;
            let e = _mm_add_epi32($states[at].e, words[at][0]);
            $states[at].abcd = _mm_sha1rnds4_epu32::<0>(before[at], e);
        }
        macro_rules! group {
            ($function:literal: $group:literal) => {
                for at in 0..$n {
                    if $group >= 4 {
                        words[at][$group] = $schedule::<$group>(&words[at]);
                    }
                    let e = $next(before[at], words[at][$group]);
                    before[at] = $states[at].abcd;
                    $states[at].abcd = _mm_sha1rnds4_epu32::<$function>(before[at], e);
                }
                $in_turn(&mut $states);
            };
        }
        group!(0: 1);
        group!(0: 2);
        group!(0: 3);
        group!(0: 4);
        group!(1: 5);
        group!(1: 6);
        group!(1: 7);
        group!(1: 8);
        group!(1: 9);
        group!(2: 10);
        group!(2: 11);
        group!(2: 12);
        group!(2: 13);
        group!(2: 14);
        group!(3: 15);
        group!(3: 16);
        group!(3: 17);
        group!(3: 18);
        group!(3: 19);
        for at in 0..$n {
            $states[at].abcd = _mm_add_epi32($states[at].abcd, start[at].abcd);
            $states[at].e = $next(before[at], start[at].e);
        }
    }};
}
pub(super) use twenty_groups;

/// Keeps the compiler from finishing one of several blocks before it begins the next: it sees an
/// instruction here that needs all of them. There is none.
#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn in_turn<const N: usize>(states: &mut [State; N]) {
    if let [first, second, ..] = states.as_mut_slice() {
        // SAFETY: no instruction.
        unsafe {
            std::arch::asm!(
                "/* {0} {1} */",
                inout(xmm_reg) first.abcd,
                inout(xmm_reg) second.abcd,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
    }
}

/// Words of group `GROUP` of the message schedule.
#[inline]
#[target_feature(enable = "sha")]
fn schedule<const GROUP: usize>(words: &[__m128i; 20]) -> __m128i {
    let older = _mm_sha1msg1_epu32(words[GROUP - 4], words[GROUP - 3]);
    _mm_sha1msg2_epu32(_mm_xor_si128(older, words[GROUP - 2]), words[GROUP - 1])
}
