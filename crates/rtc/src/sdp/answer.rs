//! Answers: which media descriptions, formats and extensions of an offer are accepted, and under
//! which terms.
//!
//! Each media description gets a [`Decision`]; those not accepted are rejected individually, and
//! only an offer of which nothing would be accepted is refused. The transport is that of the first
//! accepted description of the bundle (RFC 9143 section 7.3.1), which need not be the first of the
//! offer.

use rtp::extension::{Extension, ExtensionMap};
use rtp::payload::MediaKind;

use super::error::NegotiationError;
use super::fmtp;
use super::offer::Offer;
use super::policy::{LocalDescription, Policy};
use super::print::{self, Description, Live, LocalTransport, Media};
use super::section::{Direction, OfferedMedia, RemoteTransport, Setup};
use super::track::{FecFormat, Format, RedFormat, Source, TrackDescription};

/// An answer and what was agreed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The session description to send.
    pub sdp: String,
    /// Accepted media descriptions that carry media, in their order. Never empty.
    pub tracks: Vec<TrackDescription>,
    /// For a viewer: which of the published tracks of its kind each of `tracks` plays. Counted by
    /// kind, because the stream may have lost or got another kind by the time the viewer is
    /// connected.
    pub published: Vec<usize>,
    /// The other end of the transport.
    pub remote: RemoteTransport,
    /// What this side wrote as `a=setup`: `Active` makes it the DTLS client, `Passive` the server.
    pub setup: Setup,
}

/// Answers the offer of a publisher: WHIP (RFC 9725 section 4.2).
///
/// Every allowed format of an accepted media description is accepted, in the order of the offer: a
/// browser sends the first, others (Pion) insist on one further down. They have one clock rate,
/// that of the first, so that timestamps continue when the sender switches between them. Simulcast
/// layers are all accepted, and redundant audio if the policy has it.
///
/// # Errors
///
/// See [`NegotiationError`].
pub fn answer_publish(
    offer: &Offer,
    local: &LocalDescription,
    policy: &Policy,
) -> Result<Answer, NegotiationError> {
    answer(offer, local, policy, Direction::Receive, |media, _| decide_publish(media, policy))
}

/// Answers the offer of a viewer: WHEP, with the tracks of the stream it requested.
///
/// The n-th description of a kind plays the n-th published track of this kind; those without one
/// are answered as inactive. Every format the viewer offers is accepted, those that match the
/// published one first, so that a publisher that returns with another codec is still played.
/// Repair packets are accepted for video, if the policy has them, under an SSRC of their own.
/// Generic NACK is accepted for formats with RTX (RFC 4588), or for all where none has it: then the
/// very same packet is sent again.
///
/// # Errors
///
/// See [`NegotiationError`].
pub fn answer_play(
    offer: &Offer,
    local: &LocalDescription,
    policy: &Policy,
    published: &[TrackDescription],
) -> Result<Answer, NegotiationError> {
    answer(offer, local, policy, Direction::Send, |media, before| {
        let seen = before.iter().filter(|decision| decision.kind() == media.kind).count();
        let mut of_kind = published.iter().enumerate().filter(|(_, track)| Some(track.kind) == media.kind);
        match of_kind.nth(seen) {
            Some((index, track)) => {
                let index = u32::try_from(index).unwrap_or_default();
                let ssrc = local.first_ssrc.wrapping_add(2 * index);
                let fec_ssrc = local.first_ssrc.wrapping_add(FEC_SSRCS_FROM + index);
                decide_play(media, policy, (ssrc, fec_ssrc), seen, track)
            }
            None => Decision::Inactive,
        }
    })
}

/// The decision on one media description.
enum Decision {
    Rejected,
    /// Part of the bundle, without media.
    Inactive,
    /// The formats as they are written, and the track; for a viewer with which of the published
    /// tracks of its kind.
    Accepted(Vec<Format>, TrackDescription, Option<usize>),
}

impl Decision {
    fn kind(&self) -> Option<MediaKind> {
        match self {
            Self::Accepted(_, track, _) => Some(track.kind),
            _ => None,
        }
    }
}

fn answer(
    offer: &Offer,
    local: &LocalDescription,
    policy: &Policy,
    direction: Direction,
    decide: impl Fn(&OfferedMedia, &[Decision]) -> Decision,
) -> Result<Answer, NegotiationError> {
    if offer.ice_lite && local.ice_lite {
        return Err(NegotiationError::BothIceLite);
    }
    let wanted = |media: &OfferedMedia| match direction {
        Direction::Send => media.direction.receives(),
        _ => media.direction.sends(),
    };
    let mut decisions: Vec<Decision> = Vec::with_capacity(offer.media.len());
    for media in &offer.media {
        let accepted = decisions.iter().filter(|it| it.kind().is_some() && it.kind() == media.kind).count();
        let decision = if !media.live || !media.is_encrypted_rtp() || media.formats.is_empty() {
            Decision::Rejected
        } else if !wanted(media) || accepted >= policy.tracks_per_kind_max {
            Decision::Inactive
        } else {
            decide(media, &decisions)
        };
        decisions.push(decision);
    }
    let in_direction = offer.media.iter().any(|media| media.live && media.kind.is_some() && wanted(media));
    let bundle = bundle_of(offer, &decisions);
    let first = first_of_bundle(offer, &decisions, &bundle);
    let (Some(first), true) = (first, decisions.iter().any(|it| matches!(it, Decision::Accepted(..)))) else {
        let none = NegotiationError::NothingInThisDirection;
        return Err(if in_direction { NegotiationError::NoCommonCodec } else { none });
    };
    // `parse_offer` has made sure that every description in use has a transport.
    let remote = offer.transport_of(first).map_err(|_| NegotiationError::Setup)?;
    let setup = answered_setup(remote.setup, local.ice_lite)?;
    let sdp = write_answer(offer, local, direction, &decisions, bundle, setup);
    let (mut tracks, mut published) = (Vec::new(), Vec::new());
    for decision in decisions {
        if let Decision::Accepted(_, track, index) = decision {
            tracks.push(track);
            published.extend(index);
        }
    }
    Ok(Answer { sdp, tracks, published, remote, setup })
}

/// RFC 8842 section 5.3. A server waits, so that it sends nothing before the peer has proved its
/// address; a client begins, which saves a round trip.
fn answered_setup(offered: Setup, ice_lite: bool) -> Result<Setup, NegotiationError> {
    match offered {
        Setup::ActPass if ice_lite => Ok(Setup::Passive),
        Setup::ActPass | Setup::Passive => Ok(Setup::Active),
        Setup::Active => Ok(Setup::Passive),
        Setup::HoldConn => Err(NegotiationError::Setup),
    }
}

/// `a=mid`s that stay in the bundle, in the offer's order.
fn bundle_of<'a>(offer: &'a Offer, decisions: &[Decision]) -> Vec<&'a str> {
    let stays = |mid: &str| {
        let mut media = offer.media.iter().zip(decisions);
        media.any(|(media, decision)| media.mid == mid && !matches!(decision, Decision::Rejected))
    };
    let mut bundle: Vec<&str> = Vec::new();
    for mid in &offer.bundle {
        if stays(mid) && !bundle.contains(&mid.as_str()) {
            bundle.push(mid);
        }
    }
    bundle
}

fn first_of_bundle<'a>(
    offer: &'a Offer,
    decisions: &[Decision],
    bundle: &[&str],
) -> Option<&'a OfferedMedia> {
    let mut media = offer.media.iter().zip(decisions);
    let first = bundle.first();
    media
        .find(|(media, decision)| {
            !matches!(decision, Decision::Rejected) && first.is_none_or(|mid| media.mid == *mid)
        })
        .map(|(media, _)| media)
}

fn decide_publish(media: &OfferedMedia, policy: &Policy) -> Decision {
    let Some(kind) = media.kind else { return Decision::Rejected };
    let extensions = accepted_extensions(media, policy, Direction::Receive);
    let allowed = media.formats.iter().filter(|format| policy.codecs.contains(&format.codec));
    let mut formats: Vec<Format> = allowed.map(|format| agreed(format, policy, &extensions)).collect();
    let Some(clock_rate) = formats.first().map(|format| format.clock_rate) else { return Decision::Rejected };
    formats.retain(|format| format.clock_rate == clock_rate);
    // Layers are distinguished by their RID; without the extension there is one.
    let has_rid = extensions.id_of(Extension::Rid).is_some();
    let sendable = |payload_types: &[u8]| {
        payload_types.is_empty() || formats.iter().any(|format| payload_types.contains(&format.payload_type))
    };
    let rids = media.rids_sent.iter().filter(|rid| has_rid && sendable(&rid.payload_types));
    let mut written = formats.clone();
    for format in &mut written {
        format.fmtp = fmtp::for_receiving(format.codec, &format.fmtp);
    }
    let track = TrackDescription {
        mid: media.mid.clone(),
        kind,
        red: media.red.filter(|red| policy.red && carries_one_of(*red, &formats)),
        fec: None,
        rids: rids.map(|rid| rid.id.clone()).collect(),
        sources: media.sources.clone(),
        extmap_allow_mixed: media.extmap_allow_mixed,
        extensions,
        formats,
    };
    Decision::Accepted(written, track, None)
}

fn decide_play(
    media: &OfferedMedia,
    policy: &Policy,
    (ssrc, fec_ssrc): (u32, u32),
    nth: usize,
    published: &TrackDescription,
) -> Decision {
    let mut extensions = accepted_extensions(media, policy, Direction::Send);
    let allowed = media.formats.iter().filter(|format| policy.codecs.contains(&format.codec));
    let mut formats: Vec<Format> = allowed.map(|format| agreed(format, policy, &extensions)).collect();
    if formats.iter().any(|format| format.feedback.ccfb) {
        extensions.remove(Extension::TransportCc);
    }
    // With RTX for some, those without are not sent again.
    if formats.iter().any(|format| format.rtx_payload_type.is_some()) {
        for format in &mut formats {
            format.feedback.nack &= format.rtx_payload_type.is_some();
        }
    }
    // What the publisher prefers, or what it may send instead.
    let mut by_preference = published.formats.iter().filter_map(|format| fmtp::best_match(format, &formats));
    let Some(best) = by_preference.next().map(|format| format.payload_type) else {
        return Decision::Inactive;
    };
    // A stable sort: behind the one that is used, the viewer's order stays.
    formats.sort_by_key(|format| format.payload_type != best);
    let mut written = formats.clone();
    for format in &mut written {
        format.fmtp = fmtp::for_sending(Some(published.format()), format);
    }
    let with_rtx = formats.iter().any(|format| format.rtx_payload_type.is_some());
    let source = Source { ssrc, rtx_ssrc: with_rtx.then(|| ssrc.wrapping_add(1)) };
    let fec_payload_type = media.fec_payload_type.filter(|_| policy.fec);
    let track = TrackDescription {
        mid: media.mid.clone(),
        kind: published.kind,
        red: media.red.filter(|red| policy.red && carries_one_of(*red, &formats)),
        fec: fec_payload_type.map(|payload_type| FecFormat { payload_type, ssrc: fec_ssrc }),
        rids: Vec::new(),
        sources: vec![source],
        extmap_allow_mixed: media.extmap_allow_mixed,
        extensions,
        formats,
    };
    Decision::Accepted(written, track, Some(nth))
}

/// Whether what RED carries is among the formats that are accepted.
fn carries_one_of(red: RedFormat, formats: &[Format]) -> bool {
    formats.iter().any(|format| format.payload_type == red.media_payload_type)
}

/// A format with what of it is agreed.
fn agreed(offered: &Format, policy: &Policy, extensions: &ExtensionMap) -> Format {
    let mut feedback = offered.feedback.and(policy.feedback);
    // Without its sequence number the feedback has nothing to speak of. Where RFC 8888 says the same and
    // more, packets need none.
    feedback.transport_cc &= extensions.id_of(Extension::TransportCc).is_some() && !feedback.ccfb;
    let rtx_payload_type = offered.rtx_payload_type.filter(|_| policy.rtx);
    Format { feedback, rtx_payload_type, ..offered.clone() }
}

/// The extensions both sides support, the first id of each. `ours` is the direction of media from
/// this side.
fn accepted_extensions(media: &OfferedMedia, policy: &Policy, ours: Direction) -> ExtensionMap {
    let mut map = ExtensionMap::new();
    for offered in &media.extensions {
        let fits = offered.direction.is_none_or(|theirs| match ours {
            Direction::Send => theirs.receives(),
            _ => theirs.sends(),
        });
        let free = map.id_of(offered.extension).is_none() && map.extension_of(offered.id).is_none();
        if fits && free && policy.extensions.contains(&offered.extension) {
            map.set(offered.id, offered.extension);
        }
    }
    map
}

fn write_answer(
    offer: &Offer,
    local: &LocalDescription,
    direction: Direction,
    decisions: &[Decision],
    bundle: Vec<&str>,
    setup: Setup,
) -> String {
    let stream_id = token(&local.stream_id);
    let section = |(media, decision)| write_section(media, decision, direction, &stream_id);
    print::description(&Description {
        session_id: local.session_id,
        ice_lite: local.ice_lite,
        extmap_allow_mixed: offer.extmap_allow_mixed,
        bundle,
        transport: LocalTransport {
            ice: &local.ice,
            fingerprint: &local.fingerprint,
            setup,
            candidates: &local.candidates,
            trickle: false,
        },
        media: offer.media.iter().zip(decisions).map(section).collect(),
    })
}

fn write_section<'a>(
    media: &'a OfferedMedia,
    decision: &'a Decision,
    direction: Direction,
    stream_id: &'a str,
) -> Media<'a> {
    let live = |direction, formats: &[Format]| Live {
        name: &media.name,
        protocol: &media.protocol,
        mid: &media.mid,
        direction,
        rtcp_reduced_size: media.rtcp_reduced_size,
        extmap_allow_mixed: media.extmap_allow_mixed,
        formats: formats.to_vec(),
        red: None,
        extensions: Vec::new(),
        rids: &[],
        sources: &[],
        fec: None,
        stream_id,
    };
    match decision {
        Decision::Rejected => Media::Rejected {
            name: &media.name,
            protocol: &media.protocol,
            format_list: &media.format_list,
            mid: &media.mid,
        },
        Decision::Inactive => Media::Live(Box::new(live(Direction::Inactive, &media.formats[..1]))),
        Decision::Accepted(formats, track, _) => {
            let extensions = media
                .extensions
                .iter()
                .filter(|offered| track.extensions.id_of(offered.extension) == Some(offered.id));
            let extensions =
                extensions.map(|it| (it.id, it.direction.map(|_| direction), it.extension)).collect();
            let sources = if direction == Direction::Send { track.sources.as_slice() } else { &[] };
            let live = live(direction, formats);
            let fec = track.fec.map(|fec| (fec.payload_type, Some(fec.ssrc)));
            let (rids, red) = (&track.rids, track.red);
            Media::Live(Box::new(Live { extensions, rids, sources, red, fec, ..live }))
        }
    }
}

/// SSRCs of repair packets, counted from the first SSRC of a viewer: behind two for each track.
const FEC_SSRCS_FROM: u32 = 2 * super::MEDIA_MAX as u32;

/// `text` with everything outside SDP's `token` replaced; never empty.
pub(super) fn token(text: &str) -> String {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+' | '~');
    let text: String = text.chars().take(64).map(|c| if good(c) { c } else { '-' }).collect();
    if text.is_empty() { "-".to_owned() } else { text }
}
