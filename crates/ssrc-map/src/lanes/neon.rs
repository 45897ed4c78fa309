//! Four SSRCs to a register with NEON, which every 64-bit ARM CPU has.

use core::arch::aarch64::{
    uint32x4_t, vceqq_u32, vdupq_n_u32, vget_lane_u64, vld1q_u32, vmovn_u32, vreinterpret_u64_u16,
};

use super::Block;

/// See [`super::first`].
#[inline]
#[target_feature(enable = "neon")]
pub(crate) fn first(block: &Block<LANES>, ssrc: u32) -> usize {
    first_of(&block.0, vdupq_n_u32(ssrc))
}

/// See [`super::position`].
#[target_feature(enable = "neon")]
pub(crate) fn position(ssrcs: &[u32], ssrc: u32) -> Option<usize> {
    let sought = vdupq_n_u32(ssrc);
    let (groups, rest) = ssrcs.as_chunks::<LANES>();
    for (at, group) in groups.iter().enumerate() {
        let lane = first_of(group, sought);
        if lane < LANES {
            return Some(at * LANES + lane);
        }
    }
    let at = rest.iter().position(|&other| other == ssrc)?;
    Some(groups.len() * LANES + at)
}

/// Narrows each comparison to 16 bits, for there is no move of one bit per lane, and counts the zeros before the first.
#[inline]
#[target_feature(enable = "neon")]
fn first_of(lanes: &[u32; LANES], sought: uint32x4_t) -> usize {
    // SAFETY: `lanes` is 16 readable bytes, and the load needs no alignment beyond that of `u32`.
    let lanes = unsafe { vld1q_u32(lanes.as_ptr()) };
    let equal = vget_lane_u64::<0>(vreinterpret_u64_u16(vmovn_u32(vceqq_u32(lanes, sought))));
    equal.trailing_zeros() as usize / 16
}

pub(crate) const LANES: usize = 4;
