//! Why a session description, or what it asks for, is refused.
//!
//! All of these are the sender's fault; the control plane turns them into an HTTP status by
//! [`SdpError::is_malformed`] and shows the text to the client. It never contains parts of the
//! client's text.

use std::fmt;

/// What of a session description may only be so long or so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// [`super::SDP_BYTES_MAX`].
    Bytes,
    /// [`super::LINES_MAX`].
    Lines,
    /// [`super::LINE_BYTES_MAX`].
    LineBytes,
    /// [`super::MEDIA_MAX`].
    MediaSections,
    /// [`super::FORMATS_MAX`].
    Formats,
    /// [`super::CANDIDATES_MAX`].
    Candidates,
    /// [`super::SOURCES_MAX`].
    Sources,
    /// [`super::RIDS_MAX`].
    Rids,
    /// [`super::FINGERPRINTS_MAX`].
    Fingerprints,
    /// [`super::EXTENSIONS_MAX`].
    Extensions,
}

/// Why a text was not taken as a session description of a WebRTC peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SdpError {
    /// More of something than is accepted.
    TooMuch(Limit),
    /// Not SDP (RFC 8866): the line with this number, counted from 1.
    Syntax(u32),
    /// An attribute that is needed cannot be read; its name.
    BadAttribute(&'static str),
    /// No `m=` line at all.
    NoMedia,
    /// Two media descriptions have the same `a=mid` (RFC 5888 section 9.1).
    DuplicateMid,
    /// No `a=ice-ufrag` and `a=ice-pwd`, or not as RFC 8839 section 5.4 has them.
    NoIceCredentials,
    /// No `a=fingerprint`: media would not be encrypted (RFC 8122, RFC 8827 section 6.5).
    NoFingerprint,
    /// Only fingerprints of hashes that no longer prove anything, like SHA-1.
    WeakFingerprint,
    /// Media are offered over a transport without encryption (`RTP/AVP`, `RTP/AVPF`).
    PlaintextMedia,
    /// Several media descriptions and no `a=group:BUNDLE` with them (RFC 9143).
    NotBundled,
    /// Media without `a=rtcp-mux` (RFC 5761): RTCP would need a second port.
    NoRtcpMux,
    /// An answer that does not answer the offer: other media descriptions, or none that is in use.
    AnswerMismatch,
}

impl SdpError {
    /// Whether the text itself is wrong (HTTP 400), as opposed to asking for what is not done here
    /// (422).
    #[must_use]
    pub fn is_malformed(self) -> bool {
        !matches!(
            self,
            Self::NoFingerprint
                | Self::WeakFingerprint
                | Self::PlaintextMedia
                | Self::NotBundled
                | Self::NoRtcpMux
        )
    }
}

impl fmt::Display for SdpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match *self {
            Self::TooMuch(limit) => return write!(f, "session description too large: {limit}"),
            Self::Syntax(line) => return write!(f, "not a session description: line {line}"),
            Self::BadAttribute(name) => return write!(f, "attribute cannot be read: a={name}"),
            Self::NoMedia => "session description without media",
            Self::DuplicateMid => "two media descriptions have the same a=mid",
            Self::NoIceCredentials => "a=ice-ufrag or a=ice-pwd missing or not as RFC 8839 has them",
            Self::NoFingerprint => "a=fingerprint missing: media are accepted over DTLS-SRTP only",
            Self::WeakFingerprint => "a=fingerprint only by a hash that is not accepted; use sha-256",
            Self::PlaintextMedia => "media offered without encryption: accepted over DTLS-SRTP only",
            Self::NotBundled => "several media descriptions without a=group:BUNDLE: accepted bundled only",
            Self::NoRtcpMux => "media without a=rtcp-mux: RTCP is accepted on the port of RTP only",
            Self::AnswerMismatch => "the answer does not fit the offer",
        };
        f.write_str(text)
    }
}

impl std::error::Error for SdpError {}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bytes => "bytes",
            Self::Lines => "lines",
            Self::LineBytes => "bytes in a line",
            Self::MediaSections => "media descriptions",
            Self::Formats => "formats in a media description",
            Self::Candidates => "candidates",
            Self::Sources => "SSRCs in a media description",
            Self::Rids => "RIDs in a media description",
            Self::Fingerprints => "fingerprints",
            Self::Extensions => "header extensions in a media description",
        })
    }
}

/// Why a readable offer is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NegotiationError {
    /// No medium is offered in the direction that is needed: a publisher sends, a viewer receives.
    NothingInThisDirection,
    /// Media in the right direction, but no codec that both know (for a viewer: that the stream
    /// has).
    NoCommonCodec,
    /// Both sides are ICE-lite, so that neither would send checks (RFC 8445 section 6.1.1).
    BothIceLite,
    /// A value of `a=setup` that is not allowed in the answer (RFC 8842 section 5).
    Setup,
}

impl fmt::Display for NegotiationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NothingInThisDirection => {
                "no media in the needed direction: a publisher offers to send, a viewer to receive"
            }
            Self::NoCommonCodec => "no codec in common",
            Self::BothIceLite => "both sides are ICE-lite: one has to send connectivity checks",
            Self::Setup => "a=setup cannot be answered",
        })
    }
}

impl std::error::Error for NegotiationError {}
