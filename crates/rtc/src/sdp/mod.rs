//! Offer and answer (RFC 3264, RFC 9429) as WHIP (RFC 9725) and WHEP (draft-ietf-wish-whep) need
//! them, both sides.
//!
//! ```text
//! text --parse_offer--> Offer --answer_publish / answer_play--> Answer { text, tracks, remote transport }
//! make_offer(OfferConfig) --> text ... answer's text --read_answer--> RemoteAnswer      (the client's side)
//! text --parse_fragment--> TrickleFragment --print--> text                  (PATCH: trickle, ICE restart)
//! ```
//!
//! Everything goes over one transport: media that are not bundled, or without rtcp-mux, are
//! refused, and so is what would not be encrypted. Media that are not ours (data channels, unknown
//! codecs) are rejected one by one, with port 0, and the rest is answered.
//!
//! Lines are split by `sdp-types` 0.3.1; what attributes mean is read here. The other parser in
//! question was `webrtc-sdp` 0.3.17 (Firefox's), which types every attribute. Both took all 17
//! descriptions in `tests/rtc/offers`; of the same 17 with one harmless oddity each out of 19 (no
//! `s=`, an unknown candidate type, an `a=fmtp` of a codec that is not used, an unknown kind of
//! line ...) `webrtc-sdp` refused 164 of 323 as a whole, `sdp-types` none. An offer of Chromium
//! cost 83 us against 28 us (2026-11, EPYC Zen 4).
//!
//! Sizes are checked before that crate sees a byte, so that the work for one text is bounded.

mod answer;
mod candidate;
mod client;
mod credentials;
mod error;
mod fmtp;
mod formats;
mod fragment;
mod offer;
mod policy;
mod print;
mod section;
mod simulcast;
mod sources;
mod track;

pub use answer::{Answer, answer_play, answer_publish};
pub use candidate::{Candidate, CandidateKind, TcpType, Transport};
pub use client::{OfferConfig, OfferMedia, RemoteAnswer, make_offer, read_answer};
pub use credentials::IceCredentials;
pub use error::{Limit, NegotiationError, SdpError};
pub use fragment::{TrickleFragment, parse_fragment};
pub use offer::{Offer, parse_offer};
pub use policy::{LocalDescription, Policy};
pub use section::{Direction, OfferedExtension, OfferedMedia, OfferedRid, RemoteTransport, Setup};
pub use track::{FecFormat, Feedback, Format, RedFormat, Source, TrackDescription};

/// Largest session description that is read, in bytes. An offer of Chromium for audio and video has
/// 8 000.
pub const SDP_BYTES_MAX: usize = 128 * 1024;

/// Most lines of a session description. An offer of Chromium for audio and video has 200.
pub const LINES_MAX: usize = 4096;

/// Longest line, in bytes.
pub const LINE_BYTES_MAX: usize = 4096;

/// Most media descriptions.
pub const MEDIA_MAX: usize = 128;

/// Longest time between a packet and the repair packet that protects it, in microseconds: the
/// `repair-window` of answers (RFC 8627 section 5.1).
pub const FEC_REPAIR_WINDOW_US: u64 = 250_000;

/// Most formats of a media description: every payload type once.
pub const FORMATS_MAX: usize = 128;

/// Most candidates of a whole description, usable or not.
pub const CANDIDATES_MAX: usize = 256;

/// Most SSRCs of a media description.
pub const SOURCES_MAX: usize = 64;

/// Most simulcast layers of a media description.
pub const RIDS_MAX: usize = 16;

/// Most fingerprints of a media description or session, usable or not.
pub const FINGERPRINTS_MAX: usize = 16;

/// Most `a=extmap` lines of a media description.
pub const EXTENSIONS_MAX: usize = 64;
