//! Four SSRCs to a register with SSE2, which every x86-64 CPU has.

use core::arch::x86_64::{
    __m128i, _mm_castsi128_ps, _mm_cmpeq_epi32, _mm_load_si128, _mm_loadu_si128, _mm_movemask_epi8,
    _mm_movemask_ps, _mm_or_si128, _mm_packs_epi16, _mm_packs_epi32, _mm_set1_epi16, _mm_set1_epi32,
};
use core::{hint, ptr};

use super::Block;

/// See [`super::first`].
#[inline]
#[target_feature(enable = "sse2")]
pub(crate) fn first(block: &Block<BLOCK>, ssrc: u32) -> usize {
    let sought = _mm_set1_epi32(ssrc as i32);
    let halves: *const __m128i = ptr::from_ref(block).cast();
    // SAFETY: a block is 32 readable bytes, and aligned to 16.
    let low = unsafe { _mm_load_si128(halves) };
    // SAFETY: these are the other 16 bytes.
    let high = unsafe { _mm_load_si128(halves.add(1)) };
    let equal = _mm_packs_epi32(_mm_cmpeq_epi32(low, sought), _mm_cmpeq_epi32(high, sought));
    // Behind the eight lanes come eight bits that are set.
    let mask = _mm_movemask_epi8(_mm_packs_epi16(equal, _mm_set1_epi16(-1)));
    // SAFETY: it is not zero, by the line before; counting the zeros of zero would take one more
    // instruction.
    unsafe { hint::assert_unchecked(mask != 0) };
    mask.trailing_zeros() as usize
}

/// See [`super::position`].
#[target_feature(enable = "sse2")]
pub(crate) fn position(ssrcs: &[u32], ssrc: u32) -> Option<usize> {
    let sought = _mm_set1_epi32(ssrc as i32);
    let (groups, rest) = ssrcs.as_chunks::<LANES>();
    let (pairs, _) = groups.as_chunks::<2>();
    for (at, [a, b]) in pairs.iter().enumerate() {
        let (a, b) = (_mm_cmpeq_epi32(load(a), sought), _mm_cmpeq_epi32(load(b), sought));
        if mask(_mm_or_si128(a, b)) != 0 {
            let mask = mask(a) | mask(b) << LANES;
            return Some(at * 2 * LANES + mask.trailing_zeros() as usize);
        }
    }
    for (at, group) in groups.iter().enumerate().skip(pairs.len() * 2) {
        let mask = mask(_mm_cmpeq_epi32(load(group), sought));
        if mask != 0 {
            return Some(at * LANES + mask.trailing_zeros() as usize);
        }
    }
    let at = rest.iter().position(|&other| other == ssrc)?;
    Some(groups.len() * LANES + at)
}

#[inline]
#[target_feature(enable = "sse2")]
fn load(lanes: &[u32; LANES]) -> __m128i {
    // SAFETY: `lanes` is 16 readable bytes, and the load needs no alignment.
    unsafe { _mm_loadu_si128(lanes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "sse2")]
fn mask(equal: __m128i) -> u32 {
    _mm_movemask_ps(_mm_castsi128_ps(equal)) as u32
}

/// Two registers.
pub(crate) const BLOCK: usize = 2 * LANES;
const LANES: usize = 4;
