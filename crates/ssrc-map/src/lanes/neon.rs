//! Four SSRCs to a register with NEON, which every 64-bit ARM CPU has.

use core::arch::aarch64::{
    uint32x4_t, vaddlvq_u32, vandq_u32, vceqq_u32, vdupq_n_u32, vld1q_u32, vmaxvq_u32, vorrq_u32,
};

use super::BLOCK;

/// See [`super::matches`].
#[inline]
#[target_feature(enable = "neon")]
pub(crate) fn matches(block: &[u32; BLOCK], ssrc: u32) -> u32 {
    let sought = vdupq_n_u32(ssrc);
    let (halves, _) = block.as_chunks::<LANES>();
    let low = vandq_u32(vceqq_u32(load(&halves[0]), sought), load(&[1, 2, 4, 8]));
    let high = vandq_u32(vceqq_u32(load(&halves[1]), sought), load(&[16, 32, 64, 128]));
    // The bits are distinct, so their sum is their union.
    vaddlvq_u32(vorrq_u32(low, high)) as u32
}

/// See [`super::position`].
#[target_feature(enable = "neon")]
pub(crate) fn position(ssrcs: &[u32], ssrc: u32) -> Option<usize> {
    let sought = vdupq_n_u32(ssrc);
    let (groups, rest) = ssrcs.as_chunks::<BLOCK>();
    for (at, group) in groups.iter().enumerate() {
        let (halves, _) = group.as_chunks::<LANES>();
        let any = vorrq_u32(vceqq_u32(load(&halves[0]), sought), vceqq_u32(load(&halves[1]), sought));
        if vmaxvq_u32(any) != 0 {
            return Some(at * BLOCK + matches(group, ssrc).trailing_zeros() as usize);
        }
    }
    let at = rest.iter().position(|&other| other == ssrc)?;
    Some(groups.len() * BLOCK + at)
}

#[inline]
#[target_feature(enable = "neon")]
fn load(lanes: &[u32; LANES]) -> uint32x4_t {
    // SAFETY: `lanes` is 16 readable bytes, and the load needs no alignment beyond that of `u32`.
    unsafe { vld1q_u32(lanes.as_ptr()) }
}

const LANES: usize = 4;
