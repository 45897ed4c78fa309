//! stub
use super::Codec;
/// x
#[derive(Debug, Clone, PartialEq)]
pub struct AudioFormat {
    /// Profile.
    pub profile: String,
    /// Hz.
    pub sample_rate: u32,
    /// Channels.
    pub channels: u8,
}
/// x
pub fn audio_format(_codec: Codec, _body: &[u8]) -> Option<AudioFormat> {
    None
}
