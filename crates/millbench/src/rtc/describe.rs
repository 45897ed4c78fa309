//! Session descriptions of this program's publishers and viewers, and what was agreed.
//!
//! Publishers and viewers offer what browsers do for one video and one Opus track, with
//! retransmission and feedback; video is of the one codec that is published. Janus offers instead,
//! and is answered. Reading and writing the descriptions is `rtc::sdp`'s work.

use std::sync::Arc;

use rtc::dtls::{self, Certificate, DtlsRole};
use rtc::sdp::{
    self, Direction, Feedback, Format, LocalDescription, OfferConfig, OfferMedia, Policy, RemoteTransport,
    Setup, Source, TrackDescription,
};
use rtc::{Candidate, IceCredentials, Transport};
use rtp::extension::{Extension, ExtensionMap};
use rtp::payload::{Codec, MediaKind};

use super::media::{Track, VideoCoding};
use super::viewer::{Formats, Meaning};

/// What both sides agreed on.
#[derive(Debug)]
pub struct Agreed {
    /// The server's end of the transport.
    pub remote: RemoteTransport,
    /// This side's part in DTLS.
    pub dtls_role: DtlsRole,
    /// Audio and video in turn, if agreed.
    pub tracks: Vec<Option<TrackDescription>>,
}

/// SSRCs of a pair of a publisher's tracks: media of [`Track::ALL`], then RTX of both.
pub fn ssrcs(number: usize, pair: usize) -> [u32; 4] {
    let first = 0x5000_0000 | (number as u32) << 8 | (pair as u32) << 2;
    [first, first + 1, first + 2, first + 3]
}

/// Credentials that differ from session to session. They need not be secret in a load generator.
pub fn credentials(seed: u64) -> IceCredentials {
    let mut state = seed;
    let mut word = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 16
    };
    let (ufrag, password) = (format!("{:08x}", word() as u32), format!("{:016x}{:016x}", word(), word()));
    IceCredentials::new(&ufrag, &password).expect("hexadecimal digits, long enough")
}

/// How lost packets are repaired.
#[derive(Clone, Copy, Debug)]
pub struct Repair {
    /// By a format of its own for what is sent again (RFC 4588).
    pub rtx: bool,
    /// Audio too, which browsers do not offer.
    pub audio: bool,
}

/// What a session offers.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// To send, not to receive.
    pub publish: bool,
    /// Number of the session.
    pub number: usize,
    /// How lost packets are repaired.
    pub repair: Repair,
    /// Pairs of an audio and a video track.
    pub pairs: usize,
    /// Which payload types and extension ids, below [`SHAPES_MAX`].
    pub shape: usize,
    /// Codec of the video.
    pub video: &'a VideoCoding,
    /// Transport-wide numbers and reports of arrivals.
    pub transport_cc: bool,
}

/// An offer to publish, or to play.
pub fn offer(wanted: &Wanted<'_>, ice: IceCredentials, certificate: &Certificate) -> OfferConfig {
    let Wanted { publish, number, repair, pairs, shape, video, transport_cc } = *wanted;
    let numbers = Numbers::of(shape);
    let direction = if publish { Direction::Send } else { Direction::Receive };
    let media = |pair: usize, track: Track| {
        let ssrcs = ssrcs(number, pair);
        let mut format = format_of(track, repair, &numbers, video);
        let mut extensions = extensions_of(track, &numbers);
        format.feedback.transport_cc = transport_cc;
        if !transport_cc {
            extensions.remove(Extension::TransportCc);
        }
        let rtx_ssrc = format.rtx_payload_type.map(|_| ssrcs[2 + track.index()]);
        let source = Source { ssrc: ssrcs[track.index()], rtx_ssrc };
        OfferMedia {
            mid: (2 * pair + track.index()).to_string(),
            kind: kind_of(track),
            direction,
            formats: vec![format],
            extensions,
            sources: if publish { vec![source] } else { Vec::new() },
            rids: Vec::new(),
            fec_payload_type: None,
        }
    };
    OfferConfig {
        ice,
        fingerprint: certificate.fingerprint(),
        setup: Setup::ActPass,
        candidates: Vec::new(),
        trickle: false,
        session_id: number as u64 + 1,
        stream_id: format!("millbench-{number}"),
        media: (0..pairs).flat_map(|pair| Track::ALL.map(|track| media(pair, track))).collect(),
    }
}

/// Reads the server's answer.
///
/// # Errors
/// A text for the session.
pub fn read_answer(offer: &OfferConfig, answer: &str) -> Result<Agreed, String> {
    let answer = sdp::read_answer(answer, offer).map_err(|error| format!("the answer: {error}"))?;
    let tracks = answer.tracks;
    if tracks.iter().skip(1).step_by(2).any(Option::is_none) {
        return Err("the answer has no video, or not all of it".to_owned());
    }
    let dtls_role = answer.remote.setup.offerer_role();
    Ok(Agreed { remote: answer.remote, dtls_role, tracks })
}

/// Answers a server that offers (Janus).
///
/// # Errors
/// A text for the session.
pub fn answer(
    offer: &str,
    number: usize,
    ice: IceCredentials,
    certificate: &Certificate,
) -> Result<(String, Agreed), String> {
    let offer = sdp::parse_offer(offer).map_err(|error| format!("the offer: {error}"))?;
    let local = LocalDescription {
        ice,
        fingerprint: certificate.fingerprint(),
        candidates: Vec::new(),
        ice_lite: false,
        session_id: number as u64 + 1,
        first_ssrc: 1,
        stream_id: "millbench".to_owned(),
    };
    let answer = sdp::answer_publish(&offer, &local, &Policy::publish())
        .map_err(|error| format!("the offer: {error}"))?;
    let of_kind = |kind| answer.tracks.iter().find(|track| track.kind == kind).cloned();
    let tracks = vec![of_kind(MediaKind::Audio), of_kind(MediaKind::Video)];
    let dtls_role = answer.setup.answerer_role();
    Ok((answer.sdp, Agreed { remote: answer.remote, dtls_role, tracks }))
}

impl Agreed {
    /// The server's address that is used: the one of the HTTP server's host if it is among them.
    ///
    /// # Errors
    /// A text for the session.
    pub fn candidate(&self, host: std::net::IpAddr) -> Result<Candidate, String> {
        let udp =
            || self.remote.candidates.iter().filter(|it| it.transport == Transport::Udp && it.component == 1);
        let same_family = |it: &&Candidate| it.address.is_ipv4() == host.is_ipv4();
        udp()
            .find(|it| it.address.ip() == host)
            .or_else(|| udp().find(same_family))
            .cloned()
            .ok_or_else(|| "the server names no UDP address".to_owned())
    }

    /// What each payload type stands for.
    pub fn meanings(&self) -> Box<[Option<Meaning>; 128]> {
        let mut meanings = Box::new([None; 128]);
        for track in Track::ALL {
            for format in self.tracks[track.index()].iter().flat_map(|described| &described.formats) {
                meanings[usize::from(format.payload_type & 0x7f)] = Some(Meaning { track, again: false });
                if let Some(rtx) = format.rtx_payload_type {
                    meanings[usize::from(rtx & 0x7f)] = Some(Meaning { track, again: true });
                }
            }
        }
        meanings
    }

    /// The codec of its video; H.264 if there is none.
    pub fn video_codec(&self) -> Codec {
        self.tracks[Track::Video.index()].as_ref().map_or(Codec::H264, |video| video.format().codec)
    }

    /// What a viewer gets.
    pub fn formats(&self) -> Formats {
        let transport_cc = self.tracks.iter().flatten().find_map(|track| {
            let is_agreed = track.formats.iter().any(|format| format.feedback.transport_cc);
            track.extensions.id_of(Extension::TransportCc).filter(|_| is_agreed)
        });
        Formats {
            video_codec: self.video_codec(),
            meanings: self.meanings(),
            nack: self.nack(),
            transport_cc,
        }
    }

    /// For which tracks missing packets may be asked for.
    pub fn nack(&self) -> [bool; 2] {
        let agreed = |track: &Option<TrackDescription>| {
            track.iter().flat_map(|track| &track.formats).any(|format| format.feedback.nack)
        };
        [agreed(&self.tracks[0]), agreed(&self.tracks[1])]
    }

    /// The DTLS side of a peer.
    pub fn dtls(&self, certificate: &Arc<Certificate>, profiles: &[srtp::Profile]) -> dtls::Config {
        let mut config = dtls::Config::new(Arc::clone(certificate), self.remote.fingerprints.clone());
        config.srtp_profiles = profiles.to_vec();
        config
    }
}

fn kind_of(track: Track) -> MediaKind {
    match track {
        Track::Audio => MediaKind::Audio,
        Track::Video => MediaKind::Video,
    }
}

/// Numbers that each client chooses for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Numbers {
    /// Payload types of audio and video in turn.
    payload_types: [u8; 2],
    /// The same of what is sent again.
    rtx: [u8; 2],
    /// Ids of audio level, time of sending, transport sequence number and MID.
    extensions: [u8; 4],
}

/// Payload types of audio and video where nothing is negotiated: as the first kind of client has them.
pub const USUAL_PAYLOAD_TYPES: [u8; 2] = BROWSERS[0].payload_types;

/// What viewers get there.
pub fn usual_formats() -> Formats {
    let mut meanings = Box::new([None; 128]);
    for track in Track::ALL {
        meanings[usize::from(USUAL_PAYLOAD_TYPES[track.index()])] = Some(Meaning { track, again: false });
    }
    Formats { video_codec: Codec::H264, meanings, nack: [false; 2], transport_cc: None }
}

/// As Chromium, Firefox and Safari have them.
const BROWSERS: [Numbers; 3] = [
    Numbers { payload_types: [111, 102], rtx: [112, 103], extensions: [1, 2, 3, 4] },
    Numbers { payload_types: [109, 126], rtx: [110, 127], extensions: [1, 4, 7, 3] },
    Numbers { payload_types: [111, 96], rtx: [112, 97], extensions: [1, 2, 3, 4] },
];

/// Kinds of offers there are.
pub const SHAPES_MAX: i64 = 56;

impl Numbers {
    /// Those of browsers, then others: no two are alike.
    fn of(shape: usize) -> Numbers {
        if let Some(&numbers) = BROWSERS.get(shape) {
            return numbers;
        }
        // 8 groups of payload types and 14 ids, which are together the same again after 56.
        let first = 96 + (shape % 8 * 4) as u8;
        let extensions = [0, 1, 2, 3].map(|index| ((shape + index) % 14) as u8 + 1);
        Numbers { payload_types: [first, first + 1], rtx: [first + 2, first + 3], extensions }
    }
}

fn format_of(track: Track, repair: Repair, numbers: &Numbers, video: &VideoCoding) -> Format {
    let (payload_type, rtx) = (numbers.payload_types[track.index()], numbers.rtx[track.index()]);
    match track {
        Track::Audio => Format {
            payload_type,
            codec: Codec::Opus,
            clock_rate: 48_000,
            channels: 2,
            fmtp: "minptime=10;useinbandfec=1".to_owned(),
            rtx_payload_type: (repair.audio && repair.rtx).then_some(rtx),
            feedback: Feedback { transport_cc: true, nack: repair.audio, ..Feedback::default() },
        },
        Track::Video => Format {
            payload_type,
            codec: video.codec,
            clock_rate: 90_000,
            channels: 1,
            fmtp: video.fmtp.clone(),
            rtx_payload_type: repair.rtx.then_some(rtx),
            feedback: Feedback {
                nack: true,
                pli: true,
                fir: true,
                transport_cc: true,
                remb: true,
                ccfb: false,
            },
        },
    }
}

/// What browsers offer of those that say something about this media.
fn extensions_of(track: Track, numbers: &Numbers) -> ExtensionMap {
    let [level, send_time, transport, mid] = numbers.extensions;
    let common =
        [(send_time, Extension::AbsSendTime), (transport, Extension::TransportCc), (mid, Extension::Mid)];
    let level = (track == Track::Audio).then_some((level, Extension::AudioLevel));
    common.into_iter().chain(level).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtc::media::Media;

    const REPAIR: Repair = Repair { rtx: true, audio: false };

    fn offer_of(publish: bool, number: usize, shape: usize) -> OfferConfig {
        let video = &Media::new().video;
        let wanted = Wanted { publish, number, repair: REPAIR, pairs: 1, shape, video, transport_cc: true };
        offer(&wanted, credentials(number as u64), &certificate())
    }

    /// Payload types and what they stand for.
    fn known(agreed: &Agreed) -> Vec<(usize, Track, bool)> {
        let meanings = agreed.meanings();
        (0..128).filter_map(|kind| meanings[kind].map(|it| (kind, it.track, it.again))).collect()
    }

    fn certificate() -> Certificate {
        Certificate::generate().expect("this machine has random numbers")
    }

    /// A server's end.
    fn local() -> LocalDescription {
        let address = "127.0.0.1:9000".parse().expect("an address");
        LocalDescription {
            ice: credentials(9),
            fingerprint: certificate().fingerprint(),
            candidates: vec![Candidate::host(address, Transport::Udp, 1)],
            ice_lite: true,
            session_id: 7,
            first_ssrc: 100,
            stream_id: "s".to_owned(),
        }
    }

    /// What a server answers to `offer`, with `published` for a viewer's.
    fn server(offer: &OfferConfig, published: Option<&[TrackDescription]>) -> sdp::Answer {
        let parsed = sdp::parse_offer(&sdp::make_offer(offer)).expect("our own offer");
        match published {
            None => sdp::answer_publish(&parsed, &local(), &Policy::publish()),
            Some(published) => sdp::answer_play(&parsed, &local(), &Policy::play(), published),
        }
        .expect("an answer")
    }

    #[test]
    fn publisher_and_viewer_agree_with_a_server_on_both_tracks() {
        let publish = offer_of(true, 3, 0);
        let published = server(&publish, None);
        let agreed = read_answer(&publish, &published.sdp).expect("it answers");
        assert_eq!(agreed.dtls_role, DtlsRole::Client);
        let video = agreed.tracks[1].as_ref().expect("video");
        assert_eq!((video.format().payload_type, video.format().rtx_payload_type), (102, Some(103)));
        assert_eq!(video.sources, [Source { ssrc: ssrcs(3, 0)[1], rtx_ssrc: Some(ssrcs(3, 0)[3]) }]);

        let play = offer_of(false, 4, 0);
        let agreed = read_answer(&play, &server(&play, Some(&published.tracks)).sdp).expect("it answers");
        let expected = [(102, Track::Video, false), (103, Track::Video, true), (111, Track::Audio, false)];
        assert_eq!(known(&agreed), expected);
        let host = "127.0.0.1".parse().expect("an address");
        assert_eq!(agreed.candidate(host).map(|it| it.address.port()), Ok(9000));
        assert!(agreed.candidate("::1".parse().expect("an address")).is_err());
    }

    #[test]
    fn arrivals_are_reported_only_to_a_server_that_agrees_on_it() {
        let publish = offer_of(true, 3, 0);
        let published = server(&publish, None);
        let play = offer_of(false, 4, 1);
        let agreed = |policy: &Policy| {
            let parsed = sdp::parse_offer(&sdp::make_offer(&play)).expect("our own offer");
            let answer = sdp::answer_play(&parsed, &local(), policy, &published.tracks).expect("an answer");
            read_answer(&play, &answer.sdp).expect("it answers").formats().transport_cc
        };
        let feedback = Feedback { transport_cc: true, ..Policy::play().feedback };
        let extensions = Extension::ALL.to_vec();
        assert_eq!(
            agreed(&Policy { feedback, extensions, ..Policy::play() }),
            Some(7),
            "as Firefox numbers it"
        );
        let (feedback, extensions) =
            (Feedback { transport_cc: false, ..feedback }, vec![Extension::AbsSendTime, Extension::Mid]);
        assert_eq!(agreed(&Policy { feedback, extensions, ..Policy::play() }), None);
    }

    #[test]
    fn every_shape_is_answered_with_its_own_numbers() {
        let publish = offer_of(true, 0, 0);
        let published = server(&publish, None);
        let mut seen = Vec::new();
        for shape in 0..SHAPES_MAX as usize {
            let play = offer_of(false, 1, shape);
            let agreed = read_answer(&play, &server(&play, Some(&published.tracks)).sdp).expect("it answers");
            let Numbers { payload_types: [audio, video], rtx: [_, again], extensions } = Numbers::of(shape);
            let mut expected = [
                (usize::from(video), Track::Video, false),
                (usize::from(again), Track::Video, true),
                (usize::from(audio), Track::Audio, false),
            ];
            expected.sort_by_key(|&(kind, ..)| kind);
            assert_eq!(known(&agreed), expected, "{shape}");
            let mid = |track: &Option<TrackDescription>| track.as_ref()?.extensions.id_of(Extension::Mid);
            assert_eq!([0, 1].map(|index| mid(&agreed.tracks[index])), [Some(extensions[3]); 2], "{shape}");
            assert!(!seen.contains(&Numbers::of(shape)), "{shape} is like another one");
            seen.push(Numbers::of(shape));
        }
    }

    #[test]
    fn an_offering_server_is_answered() {
        let theirs = offer_of(true, 1, 0);
        let (text, agreed) =
            answer(&sdp::make_offer(&theirs), 2, credentials(6), &certificate()).expect("an answer");
        assert!(agreed.tracks.iter().all(Option::is_some));
        let read = sdp::read_answer(&text, &theirs).expect("it answers");
        assert_eq!(agreed.dtls_role == DtlsRole::Client, read.remote.setup == Setup::Active);
        assert!(answer("v=1", 2, credentials(6), &certificate()).is_err());
    }

    #[test]
    fn credentials_differ() {
        let mut seen = std::collections::HashSet::new();
        assert!((0..1000).all(|seed| seen.insert(credentials(seed).ufrag)));
    }
}
