//! Sixteen SSRCs to a register with AVX-512F; the last few with a mask instead of a loop.
//!
//! Nothing here may run before the CPU is known to have it; `mod.rs` sees to that.

use core::arch::x86_64::{
    _mm512_cmpeq_epi32_mask, _mm512_loadu_si512, _mm512_mask_cmpeq_epi32_mask, _mm512_maskz_loadu_epi32,
    _mm512_set1_epi32,
};
use core::ptr;

use super::Block;

/// See [`super::first`].
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn first(block: &Block<BLOCK>, ssrc: u32) -> usize {
    // SAFETY: a block is 64 readable bytes, and the load needs no alignment.
    let lanes = unsafe { _mm512_loadu_si512(ptr::from_ref(block).cast()) };
    let equal = _mm512_cmpeq_epi32_mask(lanes, _mm512_set1_epi32(ssrc as i32));
    (u32::from(equal) | 1 << BLOCK).trailing_zeros() as usize
}

/// See [`super::position`].
#[target_feature(enable = "avx512f")]
pub(crate) fn position(ssrcs: &[u32], ssrc: u32) -> Option<usize> {
    let sought = _mm512_set1_epi32(ssrc as i32);
    let (groups, rest) = ssrcs.as_chunks::<BLOCK>();
    for (at, group) in groups.iter().enumerate() {
        // SAFETY: `group` is 64 readable bytes, and the load needs no alignment.
        let lanes = unsafe { _mm512_loadu_si512(group.as_ptr().cast()) };
        let mask = _mm512_cmpeq_epi32_mask(lanes, sought);
        if mask != 0 {
            return Some(at * BLOCK + mask.trailing_zeros() as usize);
        }
    }
    let used = ((1_u32 << rest.len()) - 1) as u16;
    // SAFETY: only the lanes of `used` are read, and these are the elements of `rest`.
    let lanes = unsafe { _mm512_maskz_loadu_epi32(used, rest.as_ptr().cast()) };
    let mask = _mm512_mask_cmpeq_epi32_mask(used, lanes, sought);
    (mask != 0).then(|| groups.len() * BLOCK + mask.trailing_zeros() as usize)
}

/// One register.
pub(crate) const BLOCK: usize = 16;
