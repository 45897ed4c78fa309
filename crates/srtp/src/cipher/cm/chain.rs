//! HMAC-SHA1 of one packet or two under AVX-512 keys, by the SHA extensions: shorter chains than `sha_ni.rs`.
//!
//! SHA-1 of a packet alone is a chain of twenty groups of rounds a block, four cycles each at best.
//! Two things keep it at 85 cycles a block here, where the instructions made for the purpose need
//! 117: the schedule is computed by plain vector instructions, because SHA1MSG2 takes four cycles
//! of the unit that the chain needs; and E is rotated and added by two instructions of a cycle
//! each, because SHA1NEXTE, including the moves to and from the vector unit, takes five cycles of
//! which four are free.
//!
//! The SHA extensions have only the legacy encoding, and each legacy instruction costs some 400
//! cycles here while the upper part of a vector register is in use; so a hash is a function of its
//! own that begins by clearing them.
//!
//! Constant time: no branch and no address depends on key, text or hash, only on lengths.
#![expect(unsafe_code, reason = "calls of code for this CPU")]

use std::arch::x86_64::*;

use super::avx512::Supported;
use super::sha_ni::{State, hmac_rows, in_turn, load, tail, twenty_groups};
use super::{BLOCK_BYTES, MAC_BYTES, Message, inner_blocks};

/// HMAC-SHA1 of `N` messages.
#[inline]
pub(super) fn hmac<const N: usize>(_: Supported, messages: &[Message<'_>; N]) -> [[u8; MAC_BYTES]; N] {
    // SAFETY: a key of `avx512.rs` was made, so the CPU has the instructions.
    unsafe { hmac_messages(messages) }
}

#[inline(never)]
#[target_feature(enable = "sha,ssse3,sse4.1,avx512f,avx512vl")]
fn hmac_messages<const N: usize>(messages: &[Message<'_>; N]) -> [[u8; MAC_BYTES]; N] {
    _mm256_zeroupper();
    // Were the mask known, the compiler would blend, which takes a cycle more than to rotate under a mask.
    let highest: __mmask8 = std::hint::black_box(0b1000);
    let next = |before, words| _mm_add_epi32(words, _mm_maskz_rol_epi32::<30>(highest, before));
    hmac_rows!(messages, N, schedule, next)
}

/// Words of group `GROUP` of the message schedule (FIPS 180-4 section 6.1.2, step 1), the first one highest.
///
/// From word 32 on, `W[t] = (W[t-3] ^ W[t-8] ^ W[t-14] ^ W[t-16]) <<< 1` put into itself gives
/// `W[t] = (W[t-6] ^ W[t-16] ^ W[t-28] ^ W[t-32]) <<< 2`, in which none of four words needs
/// another. Before, the last one needs the first.
#[inline]
#[target_feature(enable = "ssse3,avx512f,avx512vl")]
fn schedule<const GROUP: usize>(words: &[__m128i; 20]) -> __m128i {
    if GROUP >= 8 {
        let back_6 = _mm_alignr_epi8::<8>(words[GROUP - 2], words[GROUP - 1]);
        let older = _mm_ternarylogic_epi32::<XOR>(words[GROUP - 4], words[GROUP - 7], words[GROUP - 8]);
        return _mm_rol_epi32::<2>(_mm_xor_si128(older, back_6));
    }
    let back_14 = _mm_alignr_epi8::<8>(words[GROUP - 4], words[GROUP - 3]);
    let older = _mm_ternarylogic_epi32::<XOR>(words[GROUP - 2], back_14, words[GROUP - 4]);
    let sum = _mm_xor_si128(older, _mm_slli_si128::<4>(words[GROUP - 1]));
    let first = _mm_rol_epi32::<2>(_mm_srli_si128::<12>(sum));
    _mm_xor_si128(_mm_rol_epi32::<1>(sum), first)
}

/// Truth table of three inputs.
const XOR: i32 = 0x96;
