//! RTP header extensions (RFC 8285): which there are, which id each has in a session, reading,
//! writing, renaming.
//!
//! ```text
//! one-byte form   |    0xbede     |     words     |  then |  id |len-1| data ...      id 1..=14, 1..=16 bytes
//! two-byte form   | 0x100 |appbits|     words     |  then |   id    |   len   | data  id 1..=255, 0..=255 bytes
//! ```
//! Zero bytes between elements are padding. What the data of an element says is in `values` and
//! `dependency_descriptor`; which ids a session has is negotiated by SDP, elsewhere.

mod block;
mod dependency_descriptor;
mod map;
mod values;

pub use block::{BLOCK_LEN_MAX, BlockWriter, Elements, Form, NoRoom, find, rewrite};
pub use dependency_descriptor::DependencyDescriptor;
pub use map::ExtensionMap;
pub use values::{
    AbsoluteCaptureTime, AudioLevel, PlayoutDelay, VideoOrientation, abs_send_time, abs_send_time_from_ntp,
    text, transport_sequence_number,
};

/// The header extensions this server takes part in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Extension {
    /// The m-line of the packet (RFC 9143 section 15).
    Mid,
    /// Which simulcast layer (RFC 8852 section 3.1).
    Rid,
    /// The simulcast layer of a repair packet (RFC 8852 section 3.2).
    RepairedRid,
    /// Client-to-mixer audio level (RFC 6464).
    AudioLevel,
    /// When the packet was sent, 24 bits of NTP time.
    AbsSendTime,
    /// Transport-wide sequence number (draft-holmer-rmcat-transport-wide-cc-extensions-01).
    TransportCc,
    /// Coordination of video orientation, CVO (3GPP TS 26.114 section 7.4.5).
    VideoOrientation,
    /// Frames and layers beside the payload (AV1 RTP specification, appendix A).
    DependencyDescriptor,
    /// Least and greatest playout delay.
    PlayoutDelay,
    /// When the first byte of the frame was captured.
    AbsCaptureTime,
}

impl Extension {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Mid,
        Self::Rid,
        Self::RepairedRid,
        Self::AudioLevel,
        Self::AbsSendTime,
        Self::TransportCc,
        Self::VideoOrientation,
        Self::DependencyDescriptor,
        Self::PlayoutDelay,
        Self::AbsCaptureTime,
    ];

    /// Its name in `a=extmap`.
    pub fn uri(self) -> &'static str {
        match self {
            Self::Mid => "urn:ietf:params:rtp-hdrext:sdes:mid",
            Self::Rid => "urn:ietf:params:rtp-hdrext:sdes:rtp-stream-id",
            Self::RepairedRid => "urn:ietf:params:rtp-hdrext:sdes:repaired-rtp-stream-id",
            Self::AudioLevel => "urn:ietf:params:rtp-hdrext:ssrc-audio-level",
            Self::AbsSendTime => "http://www.webrtc.org/experiments/rtp-hdrext/abs-send-time",
            Self::TransportCc => "http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01",
            Self::VideoOrientation => "urn:3gpp:video-orientation",
            Self::DependencyDescriptor => {
                "https://aomediacodec.github.io/av1-rtp-spec/#dependency-descriptor-rtp-header-extension"
            }
            Self::PlayoutDelay => "http://www.webrtc.org/experiments/rtp-hdrext/playout-delay",
            Self::AbsCaptureTime => "http://www.webrtc.org/experiments/rtp-hdrext/abs-capture-time",
        }
    }

    /// The extension of that name, if it is one of ours.
    pub fn from_uri(uri: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|extension| extension.uri() == uri)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_uri_names_its_extension_and_no_other() {
        for extension in Extension::ALL {
            assert_eq!(Extension::from_uri(extension.uri()), Some(extension));
        }
        assert_eq!(Extension::from_uri("urn:ietf:params:rtp-hdrext:toffset"), None);
        assert_eq!(Extension::from_uri(""), None);
    }
}
