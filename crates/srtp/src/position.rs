//! How far the streams of a context are, for one in another process to go on with.
//!
//! A context is not copied: two that protect under one key would use an index twice. Who takes the positions
//! of a context protects and unprotects nothing with it any more.

use crate::SetupError;
use crate::packet::ReplayWindow;

/// Which indices were used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsedIndices {
    /// The highest one.
    pub highest: u64,
    /// Bit `i` is set if the index `i` below it was used. All earlier ones count as used.
    pub recent: u64,
}

/// How far a stream is that is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutboundPosition {
    /// The stream.
    pub ssrc: u32,
    /// Indices of its packets; `None` before the first.
    pub rtp: Option<UsedIndices>,
    /// Index of its next SRTCP packet.
    pub rtcp_next: u32,
}

/// How far a stream is that is unprotected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InboundPosition {
    /// The stream.
    pub ssrc: u32,
    /// Indices of its packets; `None` before the first.
    pub rtp: Option<UsedIndices>,
    /// Indices of its SRTCP packets; `None` before the first.
    pub rtcp: Option<UsedIndices>,
}

impl UsedIndices {
    /// Of what a window has marked.
    pub(crate) fn of(window: &ReplayWindow) -> Option<Self> {
        let highest = window.highest()?;
        let recent = (0..64.min(highest + 1)).filter(|back| window.is_marked(highest - back));
        Some(Self { highest, recent: recent.fold(0, |bits, back| bits | 1 << back) })
    }

    /// A window of `size` indices in which these, and all before, are marked.
    pub(crate) fn window(self, size: usize) -> ReplayWindow {
        let mut window = ReplayWindow::all_marked(size, self.highest);
        // The highest one is marked whatever the bits say.
        let unused = (1..64.min(self.highest + 1)).filter(|back| self.recent >> back & 1 == 0);
        unused.for_each(|back| window.unmark(self.highest - back));
        window
    }
}

/// Refuses indices that no stream can have.
pub(crate) fn check_position(rtp: Option<UsedIndices>, rtcp: Option<u64>) -> Result<(), SetupError> {
    let is_possible =
        rtp.is_none_or(|used| used.highest < 1 << 48) && rtcp.is_none_or(|index| index < 1 << 31);
    if is_possible { Ok(()) } else { Err(SetupError::IndexTooLarge) }
}
