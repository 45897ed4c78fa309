//! The client's side: an offer to publish or to play, and what the server's answer agreed to.
//!
//! For load generators and tests, and later for servers that pull from others. One offer is made
//! and never changed; an answer is read against its offer, so that formats and extensions that were
//! not offered are not accepted.

use rtp::extension::ExtensionMap;
use rtp::payload::MediaKind;

use super::answer::token;
use super::error::SdpError;
use super::offer::{Offer, parse_offer};
use super::print::{self, Description, Live, LocalTransport, Media};
use super::section::{Direction, OfferedMedia, RemoteTransport, Setup};
use super::track::{FecFormat, Format, Source, TrackDescription};
use super::{Candidate, IceCredentials};
use crate::dtls::Fingerprint;

/// An offer to make.
#[derive(Clone, Debug)]
pub struct OfferConfig {
    /// For STUN.
    pub ice: IceCredentials,
    /// Of the certificate that will be shown.
    pub fingerprint: Fingerprint,
    /// `ActPass` unless a role is wanted.
    pub setup: Setup,
    /// Addresses, as far as they are known.
    pub candidates: Vec<Candidate>,
    /// Whether more of them may follow by PATCH.
    pub trickle: bool,
    /// Different for every offer.
    pub session_id: u64,
    /// Joins the tracks that are sent; also their CNAME.
    pub stream_id: String,
    /// What is offered; at least one.
    pub media: Vec<OfferMedia>,
}

/// One media description of an offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferMedia {
    /// `a=mid`: unique, one to 32 visible characters.
    pub mid: String,
    /// Audio or video.
    pub kind: MediaKind,
    /// `Send` to publish, `Receive` to play.
    pub direction: Direction,
    /// Formats by preference, under distinct payload types.
    pub formats: Vec<Format>,
    /// Header extensions.
    pub extensions: ExtensionMap,
    /// SSRCs that will be sent; none with `rids`.
    pub sources: Vec<Source>,
    /// Simulcast layers that will be sent, preferred one first.
    pub rids: Vec<String>,
    /// Payload type under which repair packets can be received.
    pub fec_payload_type: Option<u8>,
}

/// What a server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteAnswer {
    /// The server's end of the transport. Its `setup` is what the server wrote: `Passive` makes us
    /// the DTLS client.
    pub remote: RemoteTransport,
    /// The server is ICE-lite.
    pub ice_lite: bool,
    /// For each media description of the offer what was agreed; `None` when it was rejected or is
    /// inactive.
    pub tracks: Vec<Option<TrackDescription>>,
}

/// Writes an offer.
#[must_use]
pub fn make_offer(config: &OfferConfig) -> String {
    let stream_id = token(&config.stream_id);
    print::description(&Description {
        session_id: config.session_id,
        ice_lite: false,
        extmap_allow_mixed: true,
        bundle: config.media.iter().map(|media| media.mid.as_str()).collect(),
        transport: LocalTransport {
            ice: &config.ice,
            fingerprint: &config.fingerprint,
            setup: config.setup,
            candidates: &config.candidates,
            trickle: config.trickle,
        },
        media: config.media.iter().map(|media| Media::Live(Box::new(describe(media, &stream_id)))).collect(),
    })
}

fn describe<'a>(media: &'a OfferMedia, stream_id: &'a str) -> Live<'a> {
    Live {
        name: name_of(media.kind),
        protocol: "UDP/TLS/RTP/SAVPF",
        mid: &media.mid,
        direction: media.direction,
        rtcp_reduced_size: true,
        extmap_allow_mixed: true,
        formats: media.formats.clone(),
        red: None,
        extensions: media.extensions.iter().map(|(id, extension)| (id, None, extension)).collect(),
        rids: &media.rids,
        sources: &media.sources,
        fec: media.fec_payload_type.map(|payload_type| (payload_type, None)),
        stream_id,
    }
}

/// Reads the answer to `offer`.
///
/// # Errors
///
/// As of [`parse_offer`]; [`SdpError::AnswerMismatch`] when it does not answer this offer.
pub fn read_answer(text: &str, offer: &OfferConfig) -> Result<RemoteAnswer, SdpError> {
    let answer = parse_offer(text)?;
    if answer.media.len() != offer.media.len() {
        return Err(SdpError::AnswerMismatch);
    }
    let tracks: Vec<_> = offer
        .media
        .iter()
        .zip(&answer.media)
        .map(|(ours, theirs)| agreed(ours, theirs))
        .collect::<Result<_, _>>()?;
    let remote = answer.transport_of(first_in_use(&answer).ok_or(SdpError::AnswerMismatch)?)?;
    if !matches!(remote.setup, Setup::Active | Setup::Passive) {
        return Err(SdpError::BadAttribute("setup"));
    }
    Ok(RemoteAnswer { remote, ice_lite: answer.ice_lite, tracks })
}

/// The description whose transport is used (RFC 9143 section 7.3.1).
fn first_in_use(answer: &Offer) -> Option<&OfferedMedia> {
    let bundled = answer
        .bundle
        .iter()
        .find_map(|mid| answer.media.iter().find(|media| media.live && media.mid == *mid));
    bundled.or_else(|| answer.media.iter().find(|media| media.live))
}

/// What both have of one media description.
fn agreed(ours: &OfferMedia, theirs: &OfferedMedia) -> Result<Option<TrackDescription>, SdpError> {
    if theirs.kind != Some(ours.kind) || (!theirs.mid.is_empty() && theirs.mid != ours.mid) {
        return Err(SdpError::AnswerMismatch);
    }
    let sending = ours.direction.sends() && theirs.direction.receives();
    let flows = sending || (ours.direction.receives() && theirs.direction.sends());
    let formats: Vec<Format> = theirs.formats.iter().filter_map(|format| common(ours, format)).collect();
    if !theirs.live || !flows || formats.is_empty() {
        return Ok(None);
    }
    let extensions = theirs.extensions.iter().map(|offered| (offered.id, offered.extension));
    let extensions =
        extensions.filter(|(id, extension)| ours.extensions.id_of(*extension) == Some(*id)).collect();
    let rids = theirs.rids_received.iter().map(|rid| rid.id.clone()).filter(|rid| ours.rids.contains(rid));
    let fec_payload_type = theirs.fec_payload_type.filter(|fec| ours.fec_payload_type == Some(*fec));
    let fec = fec_payload_type.zip(theirs.fec_ssrc.filter(|_| !sending));
    Ok(Some(TrackDescription {
        mid: ours.mid.clone(),
        kind: ours.kind,
        formats,
        extensions,
        extmap_allow_mixed: theirs.extmap_allow_mixed,
        sources: if sending { ours.sources.clone() } else { theirs.sources.clone() },
        rids: rids.collect(),
        // It is never offered.
        red: None,
        fec: fec.map(|(payload_type, ssrc)| FecFormat { payload_type, ssrc }),
    }))
}

/// A format of the answer as both sides have it, if it was offered.
fn common(ours: &OfferMedia, theirs: &Format) -> Option<Format> {
    let same = |format: &&Format| format.payload_type == theirs.payload_type && format.codec == theirs.codec;
    let offered = ours.formats.iter().find(same)?;
    Some(Format {
        rtx_payload_type: theirs.rtx_payload_type.filter(|rtx| offered.rtx_payload_type == Some(*rtx)),
        feedback: theirs.feedback.and(offered.feedback),
        ..theirs.clone()
    })
}

fn name_of(kind: MediaKind) -> &'static str {
    match kind {
        MediaKind::Audio => "audio",
        MediaKind::Video => "video",
        MediaKind::Data => "application",
    }
}
