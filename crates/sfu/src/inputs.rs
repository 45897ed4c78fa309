//! What was negotiated with publishers and viewers, as far as packets are concerned.
//!
//! The caller fills these from the offer and answer; nothing here is parsed. Both sides are matched
//! by kind: the first video of the publisher goes to the first video of each viewer, and so on.

use rtp::extension::{ExtensionMap, Form};
use rtp::payload::{Codec, MediaKind};

use super::track::TrackIndex;

/// What a publisher may send, by the answer it got.
#[derive(Debug, Clone, Default)]
pub struct PublisherInput {
    /// Its m-lines that were accepted, in order. Those that are no track of ours
    /// ([`TRACKS_MAX`](super::TRACKS_MAX)) are left out.
    pub tracks: Vec<TrackInput>,
    /// SSRC our RTCP to it comes from.
    pub feedback_ssrc: u32,
    /// CNAME of our RTCP (RFC 3550 section 6.5.1). At most 255 bytes of it are sent.
    pub cname: String,
    /// Reduced-size RTCP was negotiated (RFC 5506): feedback may come without a report ahead of it.
    pub reduced_size: bool,
}

/// One accepted m-line of a publisher.
#[derive(Debug, Clone)]
pub struct TrackInput {
    /// Audio or video.
    pub kind: MediaKind,
    /// Identification of the m-line, as in the MID extension; empty if there is none.
    pub mid: String,
    /// Payload types it may use, the preferred one first.
    pub payloads: Vec<TrackPayload>,
    /// Ids of the header extensions it may use.
    pub extensions: ExtensionMap,
    /// SSRCs it signalled, one for each layer, with that of the retransmissions if signalled
    /// (`ssrc-group:FID`).
    pub ssrcs: Vec<(u32, Option<u32>)>,
    /// RIDs it signalled, one for each layer; empty without simulcast by RID.
    pub rids: Vec<String>,
    /// NACK may be sent to it (`rtcp-fb nack`).
    pub nack: bool,
    /// Picture loss may be sent to it (`nack pli`).
    pub pli: bool,
    /// Full intra requests may be sent to it (`ccm fir`); used where PLI is not negotiated.
    pub fir: bool,
    /// Transport-wide feedback was negotiated (`transport-cc`).
    pub transport_cc: bool,
    /// REMB was negotiated (`goog-remb`); used where transport-wide feedback is not.
    pub remb: bool,
}

/// A payload type of a publisher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrackPayload {
    /// Payload type of the media, `0..=127`.
    pub payload_type: u8,
    /// Its codec.
    pub codec: Codec,
    /// Its clock, in Hz.
    pub clock_rate: u32,
    /// Payload type of its retransmissions, if negotiated (RFC 4588).
    pub rtx: Option<u8>,
    /// Payload type of packets that repeat earlier payloads of it ahead of their own, if negotiated
    /// (RED, RFC 2198).
    pub red: Option<u8>,
}

/// A viewer that joins.
#[derive(Debug, Clone, Default)]
pub struct ViewerInput {
    /// The caller's name for it, given back with everything that is for this viewer.
    pub token: u64,
    /// CNAME of what it gets: the same for all of its tracks, or receivers do not play audio and
    /// video in sync.
    pub cname: String,
    /// The tracks it takes, at most one for each of the stream.
    pub tracks: Vec<ViewerTrackInput>,
}

/// One accepted m-line of a viewer.
#[derive(Debug, Clone)]
pub struct ViewerTrackInput {
    /// Which track of the stream.
    pub track: TrackIndex,
    /// SSRC in its answer.
    pub ssrc: u32,
    /// SSRC of retransmissions in its answer, if RTX was negotiated.
    pub rtx_ssrc: Option<u32>,
    /// Identification of the m-line, sent in the MID extension if that is negotiated.
    pub mid: String,
    /// Codecs it takes. Packets of others are not sent to it.
    pub payloads: Vec<ViewerPayload>,
    /// Ids of its header extensions.
    pub extensions: ExtensionMap,
    /// Which forms of header extensions it takes.
    pub form: Form,
    /// Repair packets (FlexFEC) were negotiated: their payload type and SSRC.
    pub fec: Option<(u8, u32)>,
    /// NACK was negotiated. Without, its NACKs are not answered; with it, those for formats that
    /// have RTX are, or all if there is no RTX.
    pub nack: bool,
}

impl ViewerTrackInput {
    /// Whether what its viewer misses is sent again as it was, byte for byte: there is no RTX. The caller
    /// has to be able to protect such a packet again under its index ([`Resend::is_same`]).
    ///
    /// [`Resend::is_same`]: super::Resend::is_same
    pub fn is_sent_again_as_it_was(&self) -> bool {
        self.nack && self.rtx_ssrc.is_none()
    }
}

/// A payload type of a viewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ViewerPayload {
    /// The codec.
    pub codec: Codec,
    /// Payload type of the media, `0..=127`.
    pub payload_type: u8,
    /// Payload type of its retransmissions, if negotiated.
    pub rtx: Option<u8>,
    /// Payload type of redundant packets (RED), if negotiated. They go to this viewer as they came, if
    /// the publisher's number for the codec is this viewer's too, which is in them; else without
    /// their redundancy.
    pub red: Option<u8>,
}
