//! The offer of a test client, with credentials of its own.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use rtc::dtls::{Certificate, Fingerprint};
use rtc::sdp::{
    Candidate, Direction, Feedback, Format, IceCredentials, OfferConfig, OfferMedia, Setup, Source, Transport,
};
use rtp::extension::Extension;
use rtp::payload::{Codec, MediaKind};

/// Payload type of Opus.
pub const OPUS: u8 = 111;
/// Payload type of video.
pub const VP8: u8 = 96;
/// Payload type of retransmitted video.
pub const VP8_RTX: u8 = 97;
/// Payload type of repair packets.
pub const FLEXFEC: u8 = 49;
/// SSRC of a publisher's audio.
pub const AUDIO_SSRC: u32 = 0x0a00_0001;
/// SSRC of a publisher's video.
pub const VIDEO_SSRC: u32 = 0x0a00_0002;
/// SSRC of a publisher's retransmitted video.
pub const VIDEO_RTX_SSRC: u32 = 0x0a00_0003;

/// Any profile that browsers decode, in packets of RFC 6184's mode 1.
const H264_FMTP: &str = "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=64001f";

/// What differs from an offer of Opus and VP8.
#[derive(Debug, Clone, Copy, Default)]
pub struct OfferOptions {
    /// Signal this fingerprint in place of the client's own.
    pub fingerprint: Option<Fingerprint>,
    /// Offer this in place of VP8, under the same payload types.
    pub video: Option<Codec>,
    /// Offer this in place of Opus, under the same payload type.
    pub audio: Option<Codec>,
    /// Offer to receive repair packets for video.
    pub fec: bool,
    /// Offer no retransmissions for video.
    pub no_rtx: bool,
    /// Offer no video.
    pub audio_only: bool,
    /// Offer to report packets of video by SSRC and sequence number (RFC 8888).
    pub ccfb: bool,
}

/// An offer of audio and video; to send with SSRCs, to receive without.
pub fn offer(direction: Direction, local: SocketAddr, options: &OfferOptions) -> OfferConfig {
    let feedback =
        Feedback { nack: true, pli: true, fir: true, transport_cc: false, remb: false, ccfb: options.ccfb };
    let format = |codec: Codec, payload_type, rtx_payload_type, feedback| Format {
        payload_type,
        codec,
        clock_rate: rtp::payload::clock_rate(codec),
        channels: if codec == Codec::Opus { 2 } else { 1 },
        fmtp: if codec == Codec::H264 { H264_FMTP.to_owned() } else { String::new() },
        rtx_payload_type,
        feedback,
    };
    let media = |mid: &str, kind, format, source| OfferMedia {
        mid: mid.to_owned(),
        kind,
        direction,
        formats: vec![format],
        extensions: [(1, Extension::Mid)].into_iter().collect(),
        sources: if direction.sends() { vec![source] } else { Vec::new() },
        rids: Vec::new(),
        fec_payload_type: options.fec.then_some(FLEXFEC).filter(|_| kind == MediaKind::Video),
    };
    let audio = format(options.audio.unwrap_or(Codec::Opus), OPUS, None, Feedback::default());
    let video =
        format(options.video.unwrap_or(Codec::Vp8), VP8, (!options.no_rtx).then_some(VP8_RTX), feedback);
    let audio_source = Source { ssrc: AUDIO_SSRC, rtx_ssrc: None };
    let video_source = Source { ssrc: VIDEO_SSRC, rtx_ssrc: Some(VIDEO_RTX_SSRC) };
    let mut tracks = vec![media("0", MediaKind::Audio, audio, audio_source)];
    if !options.audio_only {
        tracks.push(media("1", MediaKind::Video, video, video_source));
    }
    OfferConfig {
        ice: credentials(),
        fingerprint: options.fingerprint.unwrap_or_else(|| certificate().fingerprint()),
        setup: Setup::ActPass,
        candidates: vec![Candidate::host(local, Transport::Udp, 65535)],
        trickle: true,
        session_id: random(),
        stream_id: "test".to_owned(),
        media: tracks,
    }
}

/// Credentials no other client has.
pub fn credentials() -> IceCredentials {
    let (ufrag, password) =
        (format!("{:08x}", random() as u32), format!("{:016x}{:016x}", random(), random()));
    IceCredentials::new(&ufrag, &password).expect("hexadecimal digits")
}

/// One certificate for all clients of a process: generating it is not what is tested.
pub fn certificate() -> Arc<Certificate> {
    static CERTIFICATE: OnceLock<Arc<Certificate>> = OnceLock::new();
    CERTIFICATE.get_or_init(|| Arc::new(Certificate::generate().expect("random bytes"))).clone()
}

/// Different on every call.
pub fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
