//! Limits of a context.

use crate::packet::ReplayWindow;
use crate::{Backend, SetupError};

/// How large a context may grow, and which code it runs.
#[derive(Clone, Debug)]
pub struct Config {
    /// Most streams (SSRCs) of one context. Default 512.
    ///
    /// A stream costs 230 (sending) to 280 bytes (receiving) with the default windows, and its
    /// share of the table. At the cap, packets that would begin a stream are refused
    /// ([`UnprotectError::TooManyStreams`](crate::UnprotectError::TooManyStreams),
    /// [`ProtectError::TooManyStreams`](crate::ProtectError::TooManyStreams)).
    pub streams_max: usize,
    /// Newest SRTP indices of a stream that are remembered, in packets: a multiple of 64 from 64 to
    /// 32,768. Default 1024.
    ///
    /// A packet that comes later than this is dropped; one that is to be sent later than this is
    /// refused. One bit of memory each, a power of two in all.
    pub rtp_replay_window_packets: usize,
    /// The same for SRTCP. Default 128.
    pub rtcp_replay_window_packets: usize,
    /// Code that does the ciphers' arithmetic. Default [`Backend::current`] at the time the `Config` is made.
    pub backend: Backend,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            streams_max: 512,
            rtp_replay_window_packets: 1024,
            rtcp_replay_window_packets: 128,
            backend: Backend::current(),
        }
    }
}

impl Config {
    pub(crate) fn check(&self) -> Result<(), SetupError> {
        if !ReplayWindow::is_valid_size(self.rtp_replay_window_packets)
            || !ReplayWindow::is_valid_size(self.rtcp_replay_window_packets)
        {
            return Err(SetupError::ReplayWindow);
        }
        if !self.backend.is_supported() {
            return Err(SetupError::UnsupportedBackend);
        }
        Ok(())
    }
}
