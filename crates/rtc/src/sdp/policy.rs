//! What an answer is made of besides the offer: this side's end of the transport, and what of an
//! offer is wanted.

use rtp::extension::Extension;
use rtp::payload::Codec;

use super::track::Feedback;
use super::{Candidate, IceCredentials};
use crate::dtls::Fingerprint;

/// This side, as an answer describes it.
#[derive(Clone, Debug)]
pub struct LocalDescription {
    /// For STUN.
    pub ice: IceCredentials,
    /// Of the certificate that will be shown.
    pub fingerprint: Fingerprint,
    /// All addresses: nothing is trickled from this side.
    pub candidates: Vec<Candidate>,
    /// A server is ICE-lite and lets the peer begin DTLS; a client is neither.
    pub ice_lite: bool,
    /// Unguessable and different for every answer (RFC 8866 section 5.2).
    pub session_id: u64,
    /// SSRC of the first published track towards a viewer; track `k` has `+ 2k`, its
    /// retransmissions `+ 2k + 1`, and behind those of all tracks its repair packets `+ 256 + k`.
    pub first_ssrc: u32,
    /// Name of the media stream that the viewer's tracks are joined by; characters that SDP has not
    /// become `-`.
    pub stream_id: String,
}

/// What of an offer is taken if it is there.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Codecs that are accepted.
    pub codecs: Vec<Codec>,
    /// Header extensions that are accepted.
    pub extensions: Vec<Extension>,
    /// Feedback that is understood.
    pub feedback: Feedback,
    /// Retransmissions by RFC 4588.
    pub rtx: bool,
    /// Redundant audio (RFC 2198), in the place that the offer has it in.
    ///
    /// Default yes. Browsers offer it behind plain Opus, and then send that: whoever publishes decides
    /// whether the audio is sent twice, about 4 kB/s, for losses that nothing else repairs. Viewers get
    /// what was published.
    pub red: bool,
    /// Repair packets for video by FlexFEC-03, towards viewers.
    ///
    /// Default yes towards viewers, where Chromium offers to receive them; no of publishers.
    pub fec: bool,
    /// Media descriptions of one kind that are accepted; further ones become inactive. Default 64,
    /// as many as a stream is forwarded with: more would be accepted to be thrown away.
    pub tracks_per_kind_max: usize,
}

/// Every codec that is forwarded.
const CODECS: [Codec; 8] =
    [Codec::H264, Codec::H265, Codec::Vp8, Codec::Vp9, Codec::Av1, Codec::Opus, Codec::Pcmu, Codec::Pcma];

impl Policy {
    /// What a server takes of a publisher: everything but REMB, as it estimates by transport-wide
    /// feedback.
    #[must_use]
    pub fn publish() -> Self {
        let feedback =
            Feedback { nack: true, pli: true, fir: true, transport_cc: true, remb: false, ccfb: false };
        Self {
            codecs: CODECS.to_vec(),
            extensions: Extension::ALL.to_vec(),
            feedback,
            rtx: true,
            red: true,
            fec: false,
            tracks_per_kind_max: 64,
        }
    }

    /// What a server gives a viewer.
    ///
    /// RIDs are left out, because a viewer gets one layer at a time.
    #[must_use]
    pub fn play() -> Self {
        let not_sent = [Extension::Rid, Extension::RepairedRid];
        let feedback =
            Feedback { nack: true, pli: true, fir: true, transport_cc: true, remb: true, ccfb: true };
        let extensions = Extension::ALL.into_iter().filter(|it| !not_sent.contains(it)).collect();
        Self {
            codecs: CODECS.to_vec(),
            extensions,
            feedback,
            rtx: true,
            red: true,
            fec: true,
            tracks_per_kind_max: 64,
        }
    }

    /// The same without reports on what the viewer's path carries.
    #[must_use]
    pub fn without_estimation(mut self) -> Self {
        let feedback = self.feedback;
        self.feedback = Feedback { transport_cc: false, remb: false, ccfb: false, ..feedback };
        self.extensions.retain(|extension| *extension != Extension::TransportCc);
        self
    }
}
