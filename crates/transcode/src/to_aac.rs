//! Opus to AAC in a build without the feature `fdk-aac`.

/// This build has no AAC encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotBuiltIn;

impl NotBuiltIn {
    pub(crate) const TEXT: &str = "this build has no AAC encoder (cargo feature fdk-aac)";
}

impl std::fmt::Display for NotBuiltIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(Self::TEXT)
    }
}

impl std::error::Error for NotBuiltIn {}

/// Opus to AAC, which this build lacks. The type is there and cannot be made, so that callers need no
/// conditional compilation.
#[cfg(not(feature = "fdk-aac"))]
pub struct ToAac {
    never: std::convert::Infallible,
}

#[cfg(not(feature = "fdk-aac"))]
impl ToAac {
    /// A transcoder nothing has gone through.
    ///
    /// # Errors
    /// Always [`NotBuiltIn`].
    pub fn new(_settings: crate::AacSettings) -> Result<Self, NotBuiltIn> {
        Err(NotBuiltIn)
    }

    /// Transcodes an Opus packet and appends the frames that it completes to `out`.
    pub fn push(
        &mut self,
        _pts_us: i64,
        _opus: &[u8],
        _out: &mut Vec<media::CodedAudio>,
    ) -> Result<(), crate::TranscodeError> {
        match self.never {}
    }

    /// The AudioSpecificConfig (ISO/IEC 14496-3 §1.6.2.1) of everything that comes out.
    pub fn config(&self) -> &[u8] {
        match self.never {}
    }
}
