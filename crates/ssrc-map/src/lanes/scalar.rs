//! Plain comparison, one SSRC after the other: for every CPU, and the oracle that the other lane files are tested with.

use super::BLOCK;

/// See [`super::matches`].
#[inline(always)]
pub(crate) fn matches(block: &[u32; BLOCK], ssrc: u32) -> u32 {
    let mut mask = 0;
    for (lane, &other) in block.iter().enumerate() {
        mask |= u32::from(other == ssrc) << lane;
    }
    mask
}

/// See [`super::position`].
pub(crate) fn position(ssrcs: &[u32], ssrc: u32) -> Option<usize> {
    ssrcs.iter().position(|&other| other == ssrc)
}
