//! What a client offers: who it is, and its media.

use std::net::SocketAddr;
use std::sync::Arc;

use aws_lc_rs::rand;
use bridge::PublishedFormats;
use rtc::dtls::{Certificate, Config, DtlsError, Fingerprint};
use rtc::sdp::{
    Candidate, Direction, Feedback, Format, IceCredentials, OfferConfig, OfferMedia, Setup, Source,
    TrackDescription, Transport,
};
use rtp::extension::ExtensionMap;
use rtp::payload::{Codec, MediaKind, clock_rate};

/// Payload type of Opus; of video there are several, from [`VIDEO`] on.
const OPUS: u8 = 111;
/// The first payload type of video. Each is followed by that of its retransmissions.
const VIDEO: u8 = 96;
/// Level 5.2, which nobody has to keep to: what is sent says its own.
const H264_RECEIVED: [&str; 3] = ["640034", "4d0034", "42e034"];

/// Who a client is to one server: a certificate and credentials that no other session has.
#[derive(Clone)]
pub struct Identity {
    certificate: Arc<Certificate>,
    ice: IceCredentials,
    random: u64,
}

impl Identity {
    /// Makes one.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn generate() -> Result<Self, DtlsError> {
        let mut bytes = [0; 32];
        rand::fill(&mut bytes).map_err(|_| DtlsError::Internal)?;
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let ice = IceCredentials::new(&hex(&bytes[..4]), &hex(&bytes[4..20])).ok_or(DtlsError::Internal)?;
        let random = u64::from_be_bytes(bytes[24..].try_into().map_err(|_| DtlsError::Internal)?);
        Ok(Self { certificate: Arc::new(Certificate::generate()?), ice, random })
    }

    pub(crate) fn dtls(&self, fingerprints: Vec<Fingerprint>) -> Config {
        Config::new(Arc::clone(&self.certificate), fingerprints)
    }

    /// An SSRC of this session: different for each `number`, never 0.
    pub fn ssrc(&self, number: u8) -> u32 {
        (self.random as u32 & 0xffff_fff0 | 0x10) + u32::from(number & 0xf)
    }

    /// The offer of these media, by a client at these addresses.
    pub fn offer(&self, local: &[SocketAddr], media: Vec<OfferMedia>) -> OfferConfig {
        let preference = |at: usize| 65_535 - at.min(1_000) as u16;
        let candidates = local.iter().enumerate();
        OfferConfig {
            ice: self.ice.clone(),
            fingerprint: self.certificate.fingerprint(),
            setup: Setup::ActPass,
            candidates: candidates
                .map(|(at, address)| Candidate::host(*address, Transport::Udp, preference(at)))
                .collect(),
            trickle: false,
            session_id: self.random >> 1,
            stream_id: "millstream".to_owned(),
            media,
        }
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("ice", &self.ice).finish_non_exhaustive()
    }
}

/// Media of a client that publishes what a bridge has: audio, then video.
pub fn sent(formats: &PublishedFormats, identity: &Identity) -> Vec<OfferMedia> {
    let audio = formats.audio.map(|codec| {
        let source = Source { ssrc: identity.ssrc(1), rtx_ssrc: None };
        let formats = vec![format(codec, audio_type(codec), String::new())];
        media(MediaKind::Audio, Direction::Send, formats, Some(source))
    });
    let video = formats.video.as_ref().map(|video| {
        let source = Source { ssrc: identity.ssrc(2), rtx_ssrc: Some(identity.ssrc(3)) };
        let formats = vec![format(video.codec, VIDEO, video.fmtp.clone())];
        media(MediaKind::Video, Direction::Send, formats, Some(source))
    });
    audio.into_iter().chain(video).collect()
}

/// Media of a client that takes whatever there is: one audio, one video.
pub fn received() -> Vec<OfferMedia> {
    let audio = [Codec::Opus, Codec::Pcmu, Codec::Pcma];
    let audio = audio.map(|codec| format(codec, audio_type(codec), String::new())).to_vec();
    let h264 = H264_RECEIVED.iter().map(|profile| {
        let fmtp = format!("level-asymmetry-allowed=1;packetization-mode=1;profile-level-id={profile}");
        (Codec::H264, fmtp)
    });
    let others = [Codec::H265, Codec::Av1, Codec::Vp9, Codec::Vp8].map(|codec| (codec, String::new()));
    let video = h264.chain(others).zip((VIDEO..).step_by(2));
    let video = video.map(|((codec, fmtp), number)| format(codec, number, fmtp)).collect();
    vec![
        media(MediaKind::Audio, Direction::Receive, audio, None),
        media(MediaKind::Video, Direction::Receive, video, None),
    ]
}

/// The tracks of an answer, of each kind the first.
pub fn carried(tracks: &[Option<TrackDescription>], kind: MediaKind) -> Option<&TrackDescription> {
    tracks.iter().flatten().find(|track| track.kind == kind)
}

fn media(kind: MediaKind, direction: Direction, formats: Vec<Format>, source: Option<Source>) -> OfferMedia {
    OfferMedia {
        mid: if kind == MediaKind::Audio { "0" } else { "1" }.to_owned(),
        kind,
        direction,
        formats,
        extensions: ExtensionMap::default(),
        sources: source.into_iter().collect(),
        rids: Vec::new(),
        fec_payload_type: None,
    }
}

fn format(codec: Codec, payload_type: u8, fmtp: String) -> Format {
    let is_video = codec.kind() == MediaKind::Video;
    let feedback = Feedback { nack: is_video, pli: is_video, fir: is_video, ..Feedback::default() };
    Format {
        payload_type,
        codec,
        clock_rate: clock_rate(codec),
        channels: if codec == Codec::Opus { 2 } else { 1 },
        fmtp,
        rtx_payload_type: is_video.then_some(payload_type + 1),
        feedback,
    }
}

fn audio_type(codec: Codec) -> u8 {
    match codec {
        Codec::Pcmu => 0,
        Codec::Pcma => 8,
        _ => OPUS,
    }
}
