//! Plain comparison, one SSRC after the other: for every CPU, and the oracle that the other lane files are tested with.

use super::Block;

/// See [`super::first`].
#[inline(always)]
pub(crate) fn first<const LANES: usize>(block: &Block<LANES>, ssrc: u32) -> usize {
    position(&block.0, ssrc).unwrap_or(LANES)
}

/// See [`super::position`].
pub(crate) fn position(ssrcs: &[u32], ssrc: u32) -> Option<usize> {
    ssrcs.iter().position(|&other| other == ssrc)
}

/// As if there were a register of four.
pub(crate) const LANES: usize = 4;
