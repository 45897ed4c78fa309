//! Eight SSRCs to a register with AVX2.
//!
//! Nothing here may run before the CPU is known to have it; `mod.rs` sees to that.

use core::arch::x86_64::{
    __m256i, _mm256_castsi256_ps, _mm256_cmpeq_epi32, _mm256_loadu_si256, _mm256_movemask_ps,
    _mm256_set1_epi32,
};

use super::Block;

/// See [`super::first`].
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn first(block: &Block<BLOCK>, ssrc: u32) -> usize {
    (equal(&block.0, _mm256_set1_epi32(ssrc as i32)) | 1 << BLOCK).trailing_zeros() as usize
}

/// See [`super::position`].
#[target_feature(enable = "avx2")]
pub(crate) fn position(ssrcs: &[u32], ssrc: u32) -> Option<usize> {
    let sought = _mm256_set1_epi32(ssrc as i32);
    let (groups, rest) = ssrcs.as_chunks::<BLOCK>();
    for (at, group) in groups.iter().enumerate() {
        let mask = equal(group, sought);
        if mask != 0 {
            return Some(at * BLOCK + mask.trailing_zeros() as usize);
        }
    }
    let at = rest.iter().position(|&other| other == ssrc)?;
    Some(groups.len() * BLOCK + at)
}

#[inline]
#[target_feature(enable = "avx2")]
fn equal(lanes: &[u32; BLOCK], sought: __m256i) -> u32 {
    // SAFETY: `lanes` is 32 readable bytes, and the load needs no alignment.
    let lanes = unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) };
    _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(lanes, sought))) as u32
}

/// One register.
pub(crate) const BLOCK: usize = 8;
