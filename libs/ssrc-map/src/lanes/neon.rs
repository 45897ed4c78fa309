//! Four SSRCs to a register with NEON, which every 64-bit ARM CPU has.

use core::arch::aarch64::{
    uint32x4_t, vceqq_u32, vcombine_u16, vdupq_n_u32, vget_lane_u64, vld1q_u32, vmovn_u16, vmovn_u32,
    vreinterpret_u64_u8,
};

use super::Block;

/// See [`super::first`].
#[inline]
#[target_feature(enable = "neon")]
pub(crate) fn first(block: &Block<BLOCK>, ssrc: u32) -> usize {
    first_of(&block.0, vdupq_n_u32(ssrc))
}

/// See [`super::position`].
#[target_feature(enable = "neon")]
pub(crate) fn position(ssrcs: &[u32], ssrc: u32) -> Option<usize> {
    let sought = vdupq_n_u32(ssrc);
    let (groups, rest) = ssrcs.as_chunks::<BLOCK>();
    for (at, group) in groups.iter().enumerate() {
        let lane = first_of(group, sought);
        if lane < BLOCK {
            return Some(at * BLOCK + lane);
        }
    }
    let at = rest.iter().position(|&other| other == ssrc)?;
    Some(groups.len() * BLOCK + at)
}

/// Narrows each comparison to a byte, for there is no move of one bit per lane, and counts the
/// zeros before the first.
#[inline]
#[target_feature(enable = "neon")]
fn first_of(block: &[u32; BLOCK], sought: uint32x4_t) -> usize {
    let (halves, _) = block.as_chunks::<4>();
    let low = vmovn_u32(vceqq_u32(load(&halves[0]), sought));
    let high = vmovn_u32(vceqq_u32(load(&halves[1]), sought));
    let equal = vget_lane_u64::<0>(vreinterpret_u64_u8(vmovn_u16(vcombine_u16(low, high))));
    equal.trailing_zeros() as usize / 8
}

#[inline]
#[target_feature(enable = "neon")]
fn load(lanes: &[u32; 4]) -> uint32x4_t {
    // SAFETY: `lanes` is 16 readable bytes, and the load needs no alignment beyond that of `u32`.
    unsafe { vld1q_u32(lanes.as_ptr()) }
}

/// Two registers.
pub(crate) const BLOCK: usize = 8;
