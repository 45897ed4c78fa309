//! What was agreed for one media description: the part that the worker and the relay need.

use rtp::extension::ExtensionMap;
use rtp::payload::{Codec, MediaKind};
use serde::{Deserialize, Serialize};

/// Feedback that both sides agreed on for a format (RFC 4585, RFC 5104,
/// draft-holmer-rmcat-transport-wide-cc).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feedback {
    /// Generic NACK: `nack`.
    pub nack: bool,
    /// Picture loss indication: `nack pli`.
    pub pli: bool,
    /// Full intra request: `ccm fir`.
    pub fir: bool,
    /// Transport-wide congestion control: `transport-cc`.
    pub transport_cc: bool,
    /// Receiver estimated maximum bitrate: `goog-remb`.
    pub remb: bool,
    /// Congestion control feedback (RFC 8888): `ack ccfb`, which is for all formats or none.
    pub ccfb: bool,
}

impl Feedback {
    /// What both have.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            nack: self.nack && other.nack,
            pli: self.pli && other.pli,
            fir: self.fir && other.fir,
            transport_cc: self.transport_cc && other.transport_cc,
            remb: self.remb && other.remb,
            ccfb: self.ccfb && other.ccfb,
        }
    }

    /// What either has.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            nack: self.nack || other.nack,
            pli: self.pli || other.pli,
            fir: self.fir || other.fir,
            transport_cc: self.transport_cc || other.transport_cc,
            remb: self.remb || other.remb,
            ccfb: self.ccfb || other.ccfb,
        }
    }
}

/// A codec under a payload type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Format {
    /// RTP payload type, 0 to 127.
    pub payload_type: u8,
    /// Payload format.
    pub codec: Codec,
    /// Clock of the RTP timestamps in Hz.
    pub clock_rate: u32,
    /// Audio channels of `a=rtpmap`; 1 for video.
    pub channels: u8,
    /// Value of `a=fmtp` without the payload type; may be empty.
    pub fmtp: String,
    /// Payload type of retransmissions by RFC 4588, if agreed.
    pub rtx_payload_type: Option<u8>,
    /// Feedback messages.
    pub feedback: Feedback,
}

/// Redundant audio, RED (RFC 2198), of Opus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedFormat {
    /// Its payload type, 0 to 127.
    pub payload_type: u8,
    /// Payload type of the Opus in it: the same for all blocks.
    pub media_payload_type: u8,
    /// Whether the offer has it ahead of that: a publisher would send RED.
    pub is_preferred: bool,
}

/// Repair packets for a track, by draft-ietf-payload-flexible-fec-scheme-03 ([`rtp::fec`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FecFormat {
    /// Their payload type, 0 to 127.
    pub payload_type: u8,
    /// Their SSRC (`a=ssrc-group:FEC-FR`, RFC 5956 section 4.3).
    pub ssrc: u32,
}

/// An SSRC named in the session description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// SSRC of the media.
    pub ssrc: u32,
    /// SSRC of its retransmissions (`a=ssrc-group:FID`, RFC 5576).
    pub rtx_ssrc: Option<u32>,
}

/// One media description as it was agreed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrackDescription {
    /// `a=mid`; empty when the offer has none.
    pub mid: String,
    /// Audio or video.
    pub kind: MediaKind,
    /// Formats that may occur, the preferred one first; never empty. A publisher's have one clock
    /// rate and it may send any of them; a viewer's are all that it can take.
    pub formats: Vec<Format>,
    /// Header extensions and their ids.
    pub extensions: ExtensionMap,
    /// SSRCs signalled by the sender, best layer first if it gave an order; empty when it relies on
    /// MID, RID or payload types. For a viewer: the SSRC it receives.
    pub sources: Vec<Source>,
    /// Both forms of header extensions may occur in one stream (`a=extmap-allow-mixed`, RFC 8285
    /// section 6); otherwise the one-byte form only.
    pub extmap_allow_mixed: bool,
    /// RIDs of simulcast layers, the sender's preferred one first (RFC 8853 section 5.2); empty
    /// without simulcast.
    pub rids: Vec<String>,
    /// Redundant audio, besides the format that it carries.
    pub red: Option<RedFormat>,
    /// For a viewer: the repair packets it may be sent for its one source.
    pub fec: Option<FecFormat>,
}

impl TrackDescription {
    /// The preferred format.
    ///
    /// # Panics
    ///
    /// If `formats` is empty, which negotiation never produces.
    #[must_use]
    pub fn format(&self) -> &Format {
        self.formats.first().expect("negotiation makes no track without a format")
    }

    /// The format of a viewer's track under which packets of `published` can be sent to it
    /// unchanged.
    #[must_use]
    pub fn format_for(&self, published: &Format) -> Option<&Format> {
        super::fmtp::best_match(published, &self.formats)
    }

    /// The codec of the preferred format.
    #[must_use]
    pub fn codec(&self) -> Codec {
        self.format().codec
    }
}
