//! What a publisher announces (RFC 8866), as far as its media can be carried.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use media::bitstream::{BitReader, StreamMuxConfig};
use media::config::{AudioSpecificConfig, PARAMETER_SET_BYTES_MAX, PARAMETER_SETS_MAX};
use media::{Codec, MediaKind};
use rtp::depacketize::aac::{AacLayout, AacPackets};

/// Media of a description; more make it an error.
const MEDIA_MAX: usize = 16;
/// Attributes of one of them that are looked at.
const ATTRIBUTES_MAX: usize = 128;

/// One medium of a description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnnouncedTrack {
    /// What names it in the URL of its SETUP; empty for the URL of the description itself.
    pub control: String,
    /// Audio or video; other kinds are taken in and dropped.
    pub kind: MediaKind,
    /// Its codec; [`Codec::None`] of other kinds.
    pub codec: Codec,
    /// Payload type of its packets.
    pub payload_type: u8,
    /// Units of its timestamps in a second.
    pub clock_rate: u32,
    /// Channels of audio.
    pub channels: u8,
    /// Value of `a=fmtp`.
    pub fmtp: String,
    /// Parameter sets that the description brings along (H.264, H.265), each a NAL unit.
    pub parameter_sets: Vec<Vec<u8>>,
    /// AudioSpecificConfig of AAC, and how it lies in packets.
    pub aac: Option<(Vec<u8>, AacPackets)>,
}

/// Which of a publisher's tracks are carried: of audio and video, the first of each.
pub fn carried(tracks: &[AnnouncedTrack]) -> impl Iterator<Item = bool> + '_ {
    let is_media = |kind| matches!(kind, MediaKind::Audio | MediaKind::Video);
    tracks.iter().enumerate().map(move |(at, track)| {
        is_media(track.kind) && tracks[..at].iter().all(|before| before.kind != track.kind)
    })
}

/// Why a description cannot be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SdpError {
    /// It is none.
    Malformed,
    /// It has too many media.
    TooMany,
    /// It has no audio and no video.
    NoMedia,
    /// A codec, or a form of one, that is not carried; the sentence says which.
    NotCarried(&'static str),
}

impl SdpError {
    /// For the publisher and the log.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Malformed => "the session description is malformed",
            Self::TooMany => "the session description has too many media",
            Self::NoMedia => "the session description has neither audio nor video",
            Self::NotCarried(reason) => reason,
        }
    }
}

/// Reads a description.
///
/// # Errors
/// See [`SdpError`].
pub fn announced(text: &[u8]) -> Result<Vec<AnnouncedTrack>, SdpError> {
    let session = sdp_types::Session::parse(text).map_err(|_| SdpError::Malformed)?;
    if session.medias.len() > MEDIA_MAX {
        return Err(SdpError::TooMany);
    }
    let tracks: Vec<AnnouncedTrack> = session.medias.iter().map(track).collect::<Result<_, _>>()?;
    if tracks.iter().all(|track| track.kind == MediaKind::Data) {
        return Err(SdpError::NoMedia);
    }
    Ok(tracks)
}

/// What the server of a stream says that it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// Its media. Those that are not carried have no codec and are no audio or video.
    pub tracks: Vec<AnnouncedTrack>,
    /// `a=control` of the whole.
    pub control: Option<String>,
    /// Why media are not carried.
    pub notes: Vec<&'static str>,
}

/// Reads the description of a stream that is to be played: what can be carried of it.
///
/// # Errors
/// See [`SdpError`]; one medium that is carried is enough.
pub fn described(text: &[u8]) -> Result<Described, SdpError> {
    let session = sdp_types::Session::parse(text).map_err(|_| SdpError::Malformed)?;
    if session.medias.len() > MEDIA_MAX {
        return Err(SdpError::TooMany);
    }
    let mut controls = session.attributes.iter().take(ATTRIBUTES_MAX);
    let control = controls.find(|one| one.attribute == "control").and_then(|one| one.value.clone());
    let (mut tracks, mut notes, mut refused) = (Vec::new(), Vec::new(), None);
    for media in &session.medias {
        match track(media) {
            Ok(track) => tracks.push(track),
            Err(error) => {
                refused = refused.or(Some(error));
                notes.push(error.reason());
                // Others keep their places.
                let name = "application".to_owned();
                let left_out = sdp_types::Media { media: name, attributes: Vec::new(), ..media.clone() };
                tracks.push(track(&left_out)?);
            }
        }
    }
    if tracks.iter().all(|track| track.kind == MediaKind::Data) {
        return Err(refused.unwrap_or(SdpError::NoMedia));
    }
    Ok(Described { tracks, control: control.map(|control| control.trim().to_owned()), notes })
}

fn track(media: &sdp_types::Media) -> Result<AnnouncedTrack, SdpError> {
    let kind = match media.media.as_str() {
        "audio" => MediaKind::Audio,
        "video" => MediaKind::Video,
        _ => MediaKind::Data,
    };
    let attributes = || media.attributes.iter().take(ATTRIBUTES_MAX);
    let values = |name: &'static str| {
        attributes().filter(move |one| one.attribute == name).filter_map(|one| one.value.as_deref())
    };
    let control = values("control").next().unwrap_or_default().trim().to_owned();
    let mut track = AnnouncedTrack {
        control,
        kind,
        codec: Codec::None,
        payload_type: 0,
        clock_rate: 90_000,
        channels: 0,
        fmtp: String::new(),
        parameter_sets: Vec::new(),
        aac: None,
    };
    if kind == MediaKind::Data {
        return Ok(track);
    }
    if !matches!(media.proto.as_str(), "RTP/AVP" | "RTP/AVPF" | "RTP/AVP/TCP" | "RTP/AVP/UDP") {
        return Err(SdpError::NotCarried("only RTP/AVP is carried"));
    }
    // Of several formats the first is what is sent.
    let payload_type = media.fmt.split_ascii_whitespace().next().and_then(|text| text.parse().ok());
    let payload_type: u8 = payload_type.filter(|number| *number < 128).ok_or(SdpError::Malformed)?;
    track.payload_type = payload_type;
    let of_format = |value: &str| {
        let (number, rest) = value.trim().split_once(char::is_whitespace)?;
        (number.parse() == Ok(payload_type)).then(|| rest.trim().to_owned())
    };
    let map = values("rtpmap").find_map(of_format);
    track.fmtp = values("fmtp").find_map(of_format).unwrap_or_default();
    let (name, rate, channels) = match &map {
        Some(map) => {
            let mut parts = map.split('/');
            let name = parts.next().unwrap_or_default().to_ascii_uppercase();
            let rate: Option<u32> = parts.next().and_then(|rate| rate.trim().parse().ok());
            (name, rate, parts.next().and_then(|channels| channels.trim().parse().ok()))
        }
        // Static payload types (RFC 3551 section 6).
        None if payload_type == 0 => ("PCMU".to_owned(), Some(8_000), None),
        None if payload_type == 8 => ("PCMA".to_owned(), Some(8_000), None),
        None => return Err(SdpError::NotCarried("the payload type has no rtpmap")),
    };
    // Of video it is this one by every payload format (RFC 6184 section 8.2.1, RFC 7798 section 7.1), and what
    // a camera says instead is not what its timestamps have.
    let rate = if kind == MediaKind::Video { Some(90_000) } else { rate };
    track.clock_rate = rate.filter(|rate| (1_000..=1_000_000).contains(rate)).ok_or(SdpError::Malformed)?;
    track.channels = channels.unwrap_or(1);
    track.codec = match (kind, name.as_str()) {
        (MediaKind::Video, "H264") => Codec::H264,
        (MediaKind::Video, "H265" | "HEVC") => Codec::H265,
        (MediaKind::Video, "AV1") => Codec::Av1,
        (MediaKind::Video, "VP8") => Codec::Vp8,
        (MediaKind::Video, "VP9") => Codec::Vp9,
        (MediaKind::Audio, "OPUS") => Codec::Opus,
        (MediaKind::Audio, "PCMU") => Codec::Pcmu,
        (MediaKind::Audio, "PCMA") => Codec::Pcma,
        (MediaKind::Audio, "MPEG4-GENERIC" | "MP4A-LATM") => Codec::Aac,
        (MediaKind::Video, _) => {
            return Err(SdpError::NotCarried(
                "the video codec is not carried: H.264, H.265, AV1, VP8, VP9 are",
            ));
        }
        _ => return Err(SdpError::NotCarried("the audio codec is not carried: AAC, Opus, G.711 are")),
    };
    match track.codec {
        Codec::H264 => {
            if parameter(&track.fmtp, "packetization-mode") == Some("2") {
                return Err(SdpError::NotCarried("H.264 in interleaved mode is not carried"));
            }
            track.parameter_sets = sets(&track.fmtp, &["sprop-parameter-sets"]);
        }
        Codec::H265 => track.parameter_sets = sets(&track.fmtp, &["sprop-vps", "sprop-sps", "sprop-pps"]),
        Codec::Pcma | Codec::Pcmu if track.clock_rate != 8_000 || track.channels != 1 => {
            return Err(SdpError::NotCarried("G.711 is carried with one channel at 8000 Hz"));
        }
        Codec::Opus if track.clock_rate != 48_000 => return Err(SdpError::Malformed),
        Codec::Aac if name == "MP4A-LATM" => track.aac = Some(latm(&track)?),
        Codec::Aac => track.aac = Some(aac(&track)?),
        _ => {}
    }
    Ok(track)
}

/// Configuration and layout of AAC (RFC 3640 section 4.1).
fn aac(track: &AnnouncedTrack) -> Result<(Vec<u8>, AacPackets), SdpError> {
    let number = |name| parameter(&track.fmtp, name).map_or(Ok(0), |text| text.parse::<u8>());
    let bits = |name| number(name).ok().filter(|bits| *bits <= 32).ok_or(SdpError::Malformed);
    let layout = AacLayout {
        size_bits: bits("sizelength")?,
        index_bits: bits("indexlength")?,
        index_delta_bits: bits("indexdeltalength")?,
    };
    let extras = ["ctsdeltalength", "dtsdeltalength", "randomaccessindication", "streamstateindication"];
    let has_more =
        extras.iter().any(|name| number(name) != Ok(0)) || number("auxiliarydatasizelength") != Ok(0);
    if has_more {
        return Err(SdpError::NotCarried(
            "AAC with more than sizes and indices in its headers is not carried",
        ));
    }
    if layout.size_bits == 0 {
        return Err(SdpError::NotCarried("AAC needs sizelength in its fmtp"));
    }
    let config = parameter(&track.fmtp, "config").and_then(from_hex).unwrap_or_default();
    match AudioSpecificConfig::read(&config) {
        Ok(read) if read.sample_rate > 0 => Ok((config, AacPackets::Units(layout))),
        _ => Err(SdpError::NotCarried("AAC needs its configuration in fmtp")),
    }
}

/// Configuration of AAC in elements of LATM (RFC 6416 section 7.3).
fn latm(track: &AnnouncedTrack) -> Result<(Vec<u8>, AacPackets), SdpError> {
    let is_in_band = parameter(&track.fmtp, "cpresent").is_none_or(|value| value != "0");
    let mut config = parameter(&track.fmtp, "config").and_then(from_hex).unwrap_or_default();
    // GStreamer ends it with AudioSpecificConfig; what should follow is zero for what is read here.
    config.extend([0; 2]);
    match StreamMuxConfig::read(&mut BitReader::new(&config)) {
        Ok(config) if config.sample_rate > 0 => {
            Ok((config.record.clone(), AacPackets::Latm { config, is_in_band }))
        }
        _ => Err(SdpError::NotCarried("AAC in LATM needs one program's configuration in fmtp")),
    }
}

/// The value of `name` in an `a=fmtp` value, without regard to case.
pub(crate) fn parameter<'a>(fmtp: &'a str, name: &str) -> Option<&'a str> {
    fmtp.split(';').find_map(|part| {
        let (key, value) = part.split_once('=')?;
        key.trim().eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// Parameter sets in base 64, separated by commas. What cannot be one is left out.
fn sets(fmtp: &str, names: &[&str]) -> Vec<Vec<u8>> {
    let texts = names.iter().filter_map(|name| parameter(fmtp, name)).flat_map(|value| value.split(','));
    let sets = texts.take(PARAMETER_SETS_MAX).filter_map(|text| STANDARD.decode(text.trim()).ok());
    sets.filter(|set| (2..=PARAMETER_SET_BYTES_MAX).contains(&set.len())).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let is_hex = text.len().is_multiple_of(2)
        && text.len() <= 128
        && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| {
        let pairs = text.as_bytes().chunks(2).filter_map(|pair| std::str::from_utf8(pair).ok());
        pairs.filter_map(|pair| u8::from_str_radix(pair, 16).ok()).collect()
    })
}
