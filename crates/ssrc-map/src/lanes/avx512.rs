//! Sixteen SSRCs to a register with AVX-512F; the last few with a mask instead of a loop.
//!
//! Nothing here may run before the CPU is known to have it; `mod.rs` sees to that.

use core::arch::x86_64::{
    _mm512_cmpeq_epi32_mask, _mm512_loadu_si512, _mm512_mask_cmpeq_epi32_mask, _mm512_maskz_loadu_epi32,
    _mm512_set1_epi32,
};

use super::BLOCK;

/// See [`super::matches`].
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn matches(block: &[u32; BLOCK], ssrc: u32) -> u32 {
    tail(block, ssrc)
}

/// See [`super::position`].
#[target_feature(enable = "avx512f")]
pub(crate) fn position(ssrcs: &[u32], ssrc: u32) -> Option<usize> {
    let sought = _mm512_set1_epi32(ssrc as i32);
    let (groups, rest) = ssrcs.as_chunks::<LANES>();
    for (at, group) in groups.iter().enumerate() {
        // SAFETY: `group` is 64 readable bytes, and the load needs no alignment.
        let lanes = unsafe { _mm512_loadu_si512(group.as_ptr().cast()) };
        let mask = _mm512_cmpeq_epi32_mask(lanes, sought);
        if mask != 0 {
            return Some(at * LANES + mask.trailing_zeros() as usize);
        }
    }
    let mask = tail(rest, ssrc);
    (mask != 0).then(|| groups.len() * LANES + mask.trailing_zeros() as usize)
}

/// Compares at most 16 SSRCs.
#[inline]
#[target_feature(enable = "avx512f")]
fn tail(ssrcs: &[u32], ssrc: u32) -> u32 {
    assert!(ssrcs.len() <= LANES);
    let used = ((1_u32 << ssrcs.len()) - 1) as u16;
    // SAFETY: only the lanes of `used` are read, and these are the elements of `ssrcs`.
    let lanes = unsafe { _mm512_maskz_loadu_epi32(used, ssrcs.as_ptr().cast()) };
    u32::from(_mm512_mask_cmpeq_epi32_mask(used, lanes, _mm512_set1_epi32(ssrc as i32)))
}

const LANES: usize = 16;
