//! Opus packets of WebRTC to AAC-LC, as RTMP players expect it. Needs the feature `fdk-aac`.
//!
//! Without the feature the type is there and cannot be made: callers need no conditional compilation.

use crate::{AacSettings, Coded, TranscodeError};

/// This build has no AAC encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotBuiltIn;

impl std::fmt::Display for NotBuiltIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("this build has no AAC encoder (cargo feature fdk-aac)")
    }
}

impl std::error::Error for NotBuiltIn {}

/// Decodes and encodes: always two channels at 48 kHz, 1,024 samples a frame. **Call [`ToAac::push`] with every packet
/// in order, off the threads that serve sockets.**
pub struct ToAac {
    #[cfg(feature = "fdk-aac")]
    inner: crate::fdk::ToAac,
    #[cfg(not(feature = "fdk-aac"))]
    never: std::convert::Infallible,
}

#[cfg(feature = "fdk-aac")]
impl ToAac {
    /// A transcoder nothing has gone through.
    ///
    /// # Errors
    /// [`NotBuiltIn`] without the feature `fdk-aac`.
    pub fn new(settings: AacSettings) -> Result<Self, NotBuiltIn> {
        // The library refuses only parameters it does not know, and memory it does not get.
        crate::fdk::ToAac::new(settings).map(|inner| Self { inner }).map_err(|_| NotBuiltIn)
    }

    /// Transcodes an Opus packet and appends the frames that it completes to `out`, usually one.
    ///
    /// A hole of up to a second is concealed by the Opus decoder; after a longer one the times jump.
    pub fn push(&mut self, pts_us: i64, opus: &[u8], out: &mut Vec<Coded>) -> Result<(), TranscodeError> {
        self.inner.push(pts_us, opus, out)
    }

    /// The AudioSpecificConfig (ISO/IEC 14496-3 §1.6.2.1) of everything that comes out.
    pub fn config(&self) -> &[u8] {
        self.inner.config()
    }
}

#[cfg(not(feature = "fdk-aac"))]
impl ToAac {
    /// A transcoder nothing has gone through.
    ///
    /// # Errors
    /// [`NotBuiltIn`] without the feature `fdk-aac`.
    pub fn new(_settings: AacSettings) -> Result<Self, NotBuiltIn> {
        Err(NotBuiltIn)
    }

    /// Transcodes an Opus packet and appends the frames that it completes to `out`, usually one.
    ///
    /// A hole of up to a second is concealed by the Opus decoder; after a longer one the times jump.
    pub fn push(&mut self, _pts_us: i64, _opus: &[u8], _out: &mut Vec<Coded>) -> Result<(), TranscodeError> {
        match self.never {}
    }

    /// The AudioSpecificConfig (ISO/IEC 14496-3 §1.6.2.1) of everything that comes out.
    pub fn config(&self) -> &[u8] {
        match self.never {}
    }
}
