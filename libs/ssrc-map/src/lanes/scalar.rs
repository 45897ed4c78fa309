//! Plain comparison, one SSRC after the other: for every CPU, and the oracle that the other lane
//! files are tested with.

use super::Block;

/// See [`super::first`].
#[inline(always)]
pub(crate) fn first<const LEN: usize>(block: &Block<LEN>, ssrc: u32) -> usize {
    position(&block.0, ssrc).unwrap_or(LEN)
}

/// See [`super::position`].
pub(crate) fn position(ssrcs: &[u32], ssrc: u32) -> Option<usize> {
    ssrcs.iter().position(|&other| other == ssrc)
}

/// As many as fit beside the values in a cache line.
pub(crate) const BLOCK: usize = 8;
