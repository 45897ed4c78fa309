//! Reading an offer, and what is refused before any codec is looked at.
//!
//! An answer is read by the same steps (`client.rs`): [`Offer`] is a description of either kind.

use super::error::{Limit, SdpError};
use super::section::{self, OfferedMedia, RemoteTransport, Setup, TransportLines};
use super::{CANDIDATES_MAX, IceCredentials, LINE_BYTES_MAX, LINES_MAX, MEDIA_MAX, SDP_BYTES_MAX};
use crate::dtls::Fingerprint;

/// A session description of a WebRTC peer that is encrypted, bundled and has rtcp-mux.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Media descriptions in their order. Those that are `live` are of the bundle and can be
    /// accepted.
    pub media: Vec<OfferedMedia>,
    /// The peer is ICE-lite.
    pub ice_lite: bool,
    /// `a=ice-options:trickle`: more candidates may come (RFC 8838 section 3).
    pub trickle: bool,
    /// `a=mid`s of the bundle in its order; empty without `a=group:BUNDLE`.
    pub(super) bundle: Vec<String>,
    /// Transport attributes before the first media description.
    pub(super) session: TransportLines,
    pub(super) extmap_allow_mixed: bool,
}

/// Reads an offer.
///
/// # Errors
///
/// See [`SdpError`]; the size is looked at first, and the work for a refused text is bounded by it.
pub fn parse_offer(text: &str) -> Result<Offer, SdpError> {
    let offer = read_description(text)?;
    offer.check_safety()?;
    Ok(offer)
}

/// Reads a description without deciding whether its media are acceptable.
pub(super) fn read_description(text: &str) -> Result<Offer, SdpError> {
    check_size(text)?;
    let session =
        sdp_types::Session::parse(text.as_bytes()).map_err(|error| SdpError::Syntax(line_of(&error)))?;
    let mut offer = Offer {
        media: session.medias.iter().map(section::read).collect::<Result<_, _>>()?,
        ice_lite: false,
        trickle: false,
        bundle: Vec::new(),
        session: TransportLines::default(),
        extmap_allow_mixed: false,
    };
    let mut direction = None;
    for attribute in &session.attributes {
        let value = attribute.value.as_deref().unwrap_or_default();
        match attribute.attribute.as_str() {
            "ice-lite" => offer.ice_lite = true,
            "extmap-allow-mixed" => offer.extmap_allow_mixed = true,
            "group" => offer.add_group(value),
            name if offer.session.take(name, value)? => {}
            name => direction = section::Direction::from_name(name).or(direction),
        }
    }
    offer.trickle = has_trickle(&session);
    offer.inherit(direction, &session);
    offer.check_mids()?;
    offer.leave_out_unbundled();
    Ok(offer)
}

impl Offer {
    /// The transport of a media description: its own attributes, or the session's, or, bundled,
    /// those of the first of the bundle that has them (RFC 9143 section 7.2 leaves them out of
    /// bundle-only descriptions).
    ///
    /// # Errors
    ///
    /// [`SdpError::NoIceCredentials`], [`SdpError::NoFingerprint`], [`SdpError::WeakFingerprint`].
    pub(super) fn transport_of(&self, media: &OfferedMedia) -> Result<RemoteTransport, SdpError> {
        let candidates = self.places(media).find(|lines| !lines.candidates.is_empty());
        Ok(RemoteTransport {
            ice: self.ice_of(media)?,
            fingerprints: self.fingerprints_of(media)?.to_vec(),
            // RFC 4145 section 4: an offer without the attribute is active.
            setup: self.places(media).find_map(|lines| lines.setup).unwrap_or(Setup::Active),
            candidates: candidates.map_or_else(Vec::new, |lines| lines.candidates.clone()),
            end_of_candidates: self.places(media).any(|lines| lines.end_of_candidates),
        })
    }

    /// Where attributes of the transport of `media` may be, the most specific first.
    fn places<'a>(&'a self, media: &'a OfferedMedia) -> impl Iterator<Item = &'a TransportLines> {
        let others = self.media.iter().filter(|other| other.live).map(|other| &other.transport);
        [&media.transport, &self.session].into_iter().chain(others)
    }

    fn ice_of(&self, media: &OfferedMedia) -> Result<IceCredentials, SdpError> {
        let lines = self.places(media).find(|lines| lines.ufrag.is_some() || lines.password.is_some());
        lines.and_then(TransportLines::ice).ok_or(SdpError::NoIceCredentials)
    }

    fn fingerprints_of<'a>(&'a self, media: &'a OfferedMedia) -> Result<&'a [Fingerprint], SdpError> {
        let signalled = |lines: &&TransportLines| !lines.fingerprints.is_empty() || lines.weak_fingerprint;
        let lines = self.places(media).find(signalled).ok_or(SdpError::NoFingerprint)?;
        if lines.fingerprints.is_empty() { Err(SdpError::WeakFingerprint) } else { Ok(&lines.fingerprints) }
    }

    /// Requirements on every media description that may be accepted, for publishing and playing.
    fn check_safety(&self) -> Result<(), SdpError> {
        for media in self.media.iter().filter(|media| media.kind.is_some()) {
            if media.is_plaintext() {
                return Err(SdpError::PlaintextMedia);
            }
            if media.live && !media.rtcp_mux {
                return Err(SdpError::NoRtcpMux);
            }
            if media.live {
                self.fingerprints_of(media)?;
                self.ice_of(media)?;
            }
        }
        let usable = self.media.iter().filter(|media| media.kind.is_some() && media.has_port).count();
        let live = self.media.iter().filter(|media| media.kind.is_some() && media.live).count();
        if usable > 1 && live == 0 { Err(SdpError::NotBundled) } else { Ok(()) }
    }

    fn add_group(&mut self, value: &str) {
        let mut words = value.split_ascii_whitespace();
        // The first bundle counts: there is one transport here.
        if words.next() == Some("BUNDLE") && self.bundle.is_empty() {
            self.bundle = words.take(MEDIA_MAX).map(str::to_owned).collect();
        }
    }

    /// Gives media descriptions what the session's part says for all of them.
    fn inherit(&mut self, direction: Option<section::Direction>, session: &sdp_types::Session) {
        for (media, lines) in self.media.iter_mut().zip(&session.medias) {
            let own =
                lines.attributes.iter().any(|it| section::Direction::from_name(&it.attribute).is_some());
            if let (Some(direction), false) = (direction, own) {
                media.direction = direction;
            }
            media.extmap_allow_mixed |= self.extmap_allow_mixed;
        }
    }

    fn check_mids(&self) -> Result<(), SdpError> {
        let mut mids: Vec<&str> = self.media.iter().map(|media| media.mid.as_str()).collect();
        mids.retain(|mid| !mid.is_empty());
        mids.sort_unstable();
        if mids.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(SdpError::DuplicateMid);
        }
        // A token, which this server repeats in its answer and compares with header extensions.
        let good = |mid: &&str| mid.len() <= 32 && mid.bytes().all(|byte| byte.is_ascii_graphic());
        if self.media.is_empty() {
            return Err(SdpError::NoMedia);
        }
        if mids.iter().all(good) { Ok(()) } else { Err(SdpError::BadAttribute("mid")) }
    }

    /// Takes out of use what is not of the bundle. One media description alone needs no bundle.
    fn leave_out_unbundled(&mut self) {
        if self.bundle.is_empty() && self.media.iter().filter(|media| media.live).count() <= 1 {
            return;
        }
        let bundle = std::mem::take(&mut self.bundle);
        for media in &mut self.media {
            media.live &= !media.mid.is_empty() && bundle.contains(&media.mid);
        }
        self.bundle = bundle;
    }
}

impl OfferedMedia {
    /// Whether its media would not be encrypted (RFC 8827 section 6.5 forbids to offer or accept
    /// that).
    fn is_plaintext(&self) -> bool {
        self.has_port
            && matches!(self.protocol.as_str(), "RTP/AVP" | "RTP/AVPF" | "UDP/RTP/AVP" | "UDP/RTP/AVPF")
    }

    /// Whether its protocol is SRTP keyed by DTLS. JSEP wants the older names without it read, too
    /// (RFC 9429 section 5.1.2): a fingerprint is demanded of all.
    pub(super) fn is_encrypted_rtp(&self) -> bool {
        matches!(
            self.protocol.as_str(),
            "UDP/TLS/RTP/SAVPF"
                | "UDP/TLS/RTP/SAVP"
                | "TCP/DTLS/RTP/SAVPF"
                | "TCP/DTLS/RTP/SAVP"
                | "RTP/SAVPF"
                | "RTP/SAVP"
        )
    }
}

fn has_trickle(session: &sdp_types::Session) -> bool {
    let all = session.attributes.iter().chain(session.medias.iter().flat_map(|media| &media.attributes));
    all.filter(|it| it.attribute == "ice-options")
        .filter_map(|it| it.value.as_deref())
        .any(|options| options.split_ascii_whitespace().any(|option| option == "trickle"))
}

/// Counts before anything is stored. One pass over at most [`SDP_BYTES_MAX`] bytes.
fn check_size(text: &str) -> Result<(), SdpError> {
    if text.len() > SDP_BYTES_MAX {
        return Err(SdpError::TooMuch(Limit::Bytes));
    }
    let (mut media, mut candidates) = (0, 0);
    for (at, line) in text.split('\n').enumerate() {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if at >= LINES_MAX {
            return Err(SdpError::TooMuch(Limit::Lines));
        }
        if line.len() > LINE_BYTES_MAX {
            return Err(SdpError::TooMuch(Limit::LineBytes));
        }
        // A control character could end a line of the answer that repeats it.
        if line.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
            return Err(SdpError::Syntax(u32::try_from(at + 1).unwrap_or(u32::MAX)));
        }
        media += usize::from(line.starts_with("m="));
        candidates += usize::from(line.starts_with("a=candidate:"));
    }
    if media > MEDIA_MAX {
        return Err(SdpError::TooMuch(Limit::MediaSections));
    }
    if candidates > CANDIDATES_MAX {
        return Err(SdpError::TooMuch(Limit::Candidates));
    }
    Ok(())
}

/// The line an error of the line parser is about; 1 when it is about the whole.
fn line_of(error: &sdp_types::ParserError) -> u32 {
    use sdp_types::ParserError as E;
    let line = match error {
        E::InvalidLineFormat(line, _)
        | E::InvalidFieldEncoding(line, _)
        | E::InvalidFieldFormat(line, _)
        | E::MissingField(line, _)
        | E::FieldTrailingData(line, _)
        | E::InvalidVersion(line, _)
        | E::MultipleVersions(line)
        | E::MultipleOrigins(line)
        | E::MultipleSessionNames(line)
        | E::MultipleSessionDescription(line)
        | E::MultipleUris(line)
        | E::MultipleConnections(line)
        | E::MultipleTimeZones(line)
        | E::MultipleMediaTitles(line)
        | E::MultipleKeys(line)
        | E::RepeatWithoutTime(line) => *line,
        _ => 1,
    };
    u32::try_from(line).unwrap_or(u32::MAX)
}
