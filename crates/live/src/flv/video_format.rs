//! stub
use super::Codec;
/// x
#[derive(Debug, Clone, PartialEq)]
pub struct VideoFormat {
    /// Profile.
    pub profile: String,
    /// Level.
    pub level: String,
    /// Pixels.
    pub width: u32,
    /// Pixels.
    pub height: u32,
    /// Frames per second.
    pub frame_rate: Option<f32>,
}
/// x
pub fn video_format(_codec: Codec, _config_body: &[u8]) -> Option<VideoFormat> {
    None
}
