//! One media description (`m=` and what follows it), of an offer or an answer.
//!
//! Attributes are read once, in their order. What is optional and malformed is skipped, as peers
//! differ; what the transport's safety rests on (fingerprints) is refused. Which descriptions
//! belong together is decided in `offer.rs`.

use rtp::extension::Extension;
use rtp::payload::MediaKind;

use super::error::{Limit, SdpError};
use super::formats::FormatTable;
use super::simulcast::SimulcastLines;
use super::sources::SourceLines;
use super::track::{Format, RedFormat, Source};
use super::{Candidate, EXTENSIONS_MAX, FINGERPRINTS_MAX, IceCredentials};
use crate::dtls::{DtlsRole, Fingerprint, FingerprintError};

/// Which way media go, seen from the side that wrote it (RFC 8866 section 6.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// `a=sendrecv`, also when none is given.
    SendReceive,
    /// `a=sendonly`.
    Send,
    /// `a=recvonly`.
    Receive,
    /// `a=inactive`.
    Inactive,
}

impl Direction {
    /// Whether the writer sends.
    #[must_use]
    pub fn sends(self) -> bool {
        matches!(self, Self::SendReceive | Self::Send)
    }

    /// Whether the writer receives.
    #[must_use]
    pub fn receives(self) -> bool {
        matches!(self, Self::SendReceive | Self::Receive)
    }

    /// The attribute.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::SendReceive => "sendrecv",
            Self::Send => "sendonly",
            Self::Receive => "recvonly",
            Self::Inactive => "inactive",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        [Self::SendReceive, Self::Send, Self::Receive, Self::Inactive]
            .into_iter()
            .find(|it| it.name() == name)
    }
}

/// Which side begins the DTLS handshake (`a=setup`, RFC 8842 section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setup {
    /// The writer leaves it to the other; only in offers.
    ActPass,
    /// The writer is the DTLS client.
    Active,
    /// The writer is the DTLS server.
    Passive,
    /// Neither side begins yet.
    HoldConn,
}

impl Setup {
    /// The role in DTLS of the side that answers with it.
    pub fn answerer_role(self) -> DtlsRole {
        if self == Self::Active { DtlsRole::Client } else { DtlsRole::Server }
    }

    /// The role in DTLS of the side that is answered with it.
    pub fn offerer_role(self) -> DtlsRole {
        if self == Self::Active { DtlsRole::Server } else { DtlsRole::Client }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ActPass => "actpass",
            Self::Active => "active",
            Self::Passive => "passive",
            Self::HoldConn => "holdconn",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [Self::ActPass, Self::Active, Self::Passive, Self::HoldConn].into_iter().find(|it| it.name() == name)
    }
}

/// A header extension as it was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfferedExtension {
    /// Its id; 1 to 15 are used here.
    pub id: u8,
    /// Which one.
    pub extension: Extension,
    /// The direction after the id (RFC 8285 section 5), if one was given.
    pub direction: Option<Direction>,
}

/// A simulcast layer as it was offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedRid {
    /// Its name: 1 to 16 letters, digits, `-`, `_`.
    pub id: String,
    /// Paused at first (`~`).
    pub paused: bool,
    /// Payload types it is restricted to; empty: all.
    pub payload_types: Vec<u8>,
}

/// The other side's end of the transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteTransport {
    /// For STUN.
    pub ice: IceCredentials,
    /// Of the certificate it will show; never empty, and only hashes that are accepted.
    pub fingerprints: Vec<Fingerprint>,
    /// Its DTLS role as it wrote it.
    pub setup: Setup,
    /// Where it can be reached; those that can be used here.
    pub candidates: Vec<Candidate>,
    /// Whether no more candidates will follow (`a=end-of-candidates`).
    pub end_of_candidates: bool,
}

/// One media description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedMedia {
    /// `a=mid`; empty when there is none.
    pub mid: String,
    /// Audio or video; `None` for what is not ours (data channels).
    pub kind: Option<MediaKind>,
    /// Whether it is to be used: a port, or none but `a=bundle-only`; in an answer, a port.
    pub live: bool,
    /// Which way media go.
    pub direction: Direction,
    /// RTP and RTCP on one port (RFC 5761).
    pub rtcp_mux: bool,
    /// RTCP packets that are not compound (RFC 5506).
    pub rtcp_reduced_size: bool,
    /// Formats whose codec is one of ours, in the order of the `m=` line.
    pub formats: Vec<Format>,
    /// Redundant audio of one of them.
    pub red: Option<RedFormat>,
    /// Payload type of repair packets by FlexFEC-03.
    pub fec_payload_type: Option<u8>,
    /// SSRC of the repair packets the writer will send.
    pub fec_ssrc: Option<u32>,
    /// Header extensions of ours.
    pub extensions: Vec<OfferedExtension>,
    /// SSRCs the writer will use.
    pub sources: Vec<Source>,
    /// Layers the writer sends, preferred one first.
    pub rids_sent: Vec<OfferedRid>,
    /// Layers the writer receives, preferred one first.
    pub rids_received: Vec<OfferedRid>,
    /// Both header forms in one stream (RFC 8285 section 4.1.2).
    pub extmap_allow_mixed: bool,
    /// First word of the `m=` line.
    pub(super) name: String,
    /// Third word of it.
    pub(super) protocol: String,
    /// The rest of it.
    pub(super) format_list: String,
    /// Whether it was meant to be used, in the bundle or not.
    pub(super) has_port: bool,
    pub(super) transport: TransportLines,
}

/// Attributes of the transport, in a media description or in the session's part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TransportLines {
    pub(super) ufrag: Option<String>,
    pub(super) password: Option<String>,
    pub(super) fingerprints: Vec<Fingerprint>,
    /// A fingerprint was there, but none that is accepted.
    pub(super) weak_fingerprint: bool,
    pub(super) setup: Option<Setup>,
    pub(super) candidates: Vec<Candidate>,
    pub(super) end_of_candidates: bool,
    fingerprint_lines: usize,
}

impl TransportLines {
    /// Takes an attribute if it is one of the transport.
    pub(super) fn take(&mut self, name: &str, value: &str) -> Result<bool, SdpError> {
        match name {
            "ice-ufrag" => self.ufrag = Some(value.trim().to_owned()),
            "ice-pwd" => self.password = Some(value.trim().to_owned()),
            "fingerprint" => self.add_fingerprint(value)?,
            "setup" => {
                self.setup = Some(Setup::from_name(value.trim()).ok_or(SdpError::BadAttribute("setup"))?);
            }
            // Of RTCP's own component there is nothing here.
            "candidate" => self.candidates.extend(Candidate::parse(value).filter(|it| it.component == 1)),
            "end-of-candidates" => self.end_of_candidates = true,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn add_fingerprint(&mut self, value: &str) -> Result<(), SdpError> {
        self.fingerprint_lines += 1;
        if self.fingerprint_lines > FINGERPRINTS_MAX {
            return Err(SdpError::TooMuch(Limit::Fingerprints));
        }
        match Fingerprint::parse(value) {
            Ok(fingerprint) => self.fingerprints.push(fingerprint),
            // RFC 8122 section 5: several may be there, and those one does not know are ignored.
            Err(FingerprintError::RefusedHash) => self.weak_fingerprint = true,
            Err(FingerprintError::Malformed) => return Err(SdpError::BadAttribute("fingerprint")),
        }
        Ok(())
    }

    pub(super) fn ice(&self) -> Option<IceCredentials> {
        IceCredentials::new(self.ufrag.as_deref()?, self.password.as_deref()?)
    }
}

/// Reads a media description.
pub(super) fn read(media: &sdp_types::Media) -> Result<OfferedMedia, SdpError> {
    let kind = match media.media.as_str() {
        "audio" => Some(MediaKind::Audio),
        "video" => Some(MediaKind::Video),
        _ => None,
    };
    let mut section = empty_section(media, kind);
    let mut bundle_only = false;
    let mut formats = FormatTable::default();
    let (mut sources, mut simulcast) = (SourceLines::default(), SimulcastLines::default());
    let mut extension_lines = 0;
    for attribute in &media.attributes {
        let value = attribute.value.as_deref().unwrap_or_default();
        match attribute.attribute.as_str() {
            "mid" => value.trim().clone_into(&mut section.mid),
            "rtcp-mux" | "rtcp-mux-only" => section.rtcp_mux = true,
            "rtcp-rsize" => section.rtcp_reduced_size = true,
            "bundle-only" => bundle_only = true,
            "extmap-allow-mixed" => section.extmap_allow_mixed = true,
            "rtpmap" | "fmtp" | "rtcp-fb" => formats.take(&attribute.attribute, value),
            "extmap" => {
                extension_lines += 1;
                section.extensions.extend(read_extension(value));
            }
            "ssrc" => sources.add_ssrc(value)?,
            "ssrc-group" => sources.add_group(value)?,
            "rid" => simulcast.add_rid(value)?,
            "simulcast" => simulcast.add_simulcast(value),
            name if section.transport.take(name, value)? => {}
            name => section.direction = Direction::from_name(name).unwrap_or(section.direction),
        }
    }
    if extension_lines > EXTENSIONS_MAX {
        return Err(SdpError::TooMuch(Limit::Extensions));
    }
    section.has_port = media.port != 0 || bundle_only;
    section.live = section.has_port;
    (section.sources, section.fec_ssrc) = (sources.sources(), sources.fec_ssrc());
    (section.rids_sent, section.rids_received) = (simulcast.layers("send")?, simulcast.layers("recv")?);
    section.formats = formats.known(kind, &section.format_list)?;
    section.red = formats.red(&section.format_list, &section.formats);
    section.fec_payload_type = formats.fec(kind, &section.format_list);
    Ok(section)
}

fn empty_section(media: &sdp_types::Media, kind: Option<MediaKind>) -> OfferedMedia {
    OfferedMedia {
        mid: String::new(),
        kind,
        live: false,
        direction: Direction::SendReceive,
        rtcp_mux: false,
        rtcp_reduced_size: false,
        formats: Vec::new(),
        red: None,
        fec_payload_type: None,
        fec_ssrc: None,
        extensions: Vec::new(),
        sources: Vec::new(),
        rids_sent: Vec::new(),
        rids_received: Vec::new(),
        extmap_allow_mixed: false,
        name: media.media.clone(),
        protocol: media.proto.clone(),
        format_list: media.fmt.clone(),
        has_port: false,
        transport: TransportLines::default(),
    }
}

/// `<id>[/<direction>] <uri> [attributes]`. Encrypted ones (RFC 6904) have another URI and are not
/// taken.
fn read_extension(value: &str) -> Option<OfferedExtension> {
    let mut words = value.split_ascii_whitespace();
    let (id, direction) = match words.next()?.split_once('/') {
        Some((id, direction)) => (id, Some(Direction::from_name(direction)?)),
        None => (value.split_ascii_whitespace().next()?, None),
    };
    let id = id.parse().ok().filter(|id| (1..=15).contains(id))?;
    Some(OfferedExtension { id, extension: Extension::from_uri(words.next()?)?, direction })
}
