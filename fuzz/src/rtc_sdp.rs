//! What the fuzz target of session descriptions checks: every text is refused or answered, and
//! answers are well-formed.
//!
//! `crates/rtc/tests/rtc/sdp_fuzz_corpus.rs` includes this file and replays the kept corpus.

use rtc::dtls::{Fingerprint, FingerprintHash};
use rtc::sdp::{
    Answer, Candidate, Direction, Feedback, Format, IceCredentials, LocalDescription, Offer, OfferConfig,
    OfferMedia, Policy, Setup, Source, TrackDescription, Transport, answer_play, answer_publish,
    parse_fragment, parse_offer, read_answer,
};
use rtp::extension::ExtensionMap;
use rtp::payload::Codec;

/// A text as an offer of a publisher, as one of a viewer, and as a fragment.
pub fn sdp(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(fragment) = parse_fragment(&text) {
        let again = parse_fragment(&fragment.to_string()).expect("what is printed can be read");
        assert_eq!((&again.ufrag, &again.candidates), (&fragment.ufrag, &fragment.candidates));
    }
    let Ok(offer) = parse_offer(&text) else { return };
    let (local, stream) = (server(), [track(Codec::Opus), track(Codec::H264), track(Codec::Vp8)]);
    if let Ok(answer) = answer_publish(&offer, &local, &Policy::publish()) {
        check(&offer, &local, &answer);
        for track in &answer.tracks {
            assert!(track.formats.iter().all(|format| format.clock_rate == track.format().clock_rate));
        }
    }
    let play = Policy { red: true, fec: true, ..Policy::play() };
    if let Ok(answer) = answer_play(&offer, &local, &play, &stream) {
        check(&offer, &local, &answer);
        for (track, nth) in answer.tracks.iter().zip(&answer.published) {
            let played = stream.iter().filter(|other| other.kind == track.kind).nth(*nth).expect("published");
            assert_eq!(track.format_for(played.format()), Some(track.format()));
        }
    }
}

/// What holds for every answer.
fn check(offer: &Offer, local: &LocalDescription, answer: &Answer) {
    assert!(!answer.tracks.is_empty() && answer.tracks.len() <= 2 * Policy::publish().tracks_per_kind_max);
    assert!(!answer.remote.fingerprints.is_empty());
    // The answer may be refused when it is read as an offer, but not as malformed.
    let read = parse_offer(&answer.sdp).expect("what is printed can be read");
    assert!(read.ice_lite);
    assert_eq!(read.media.len(), offer.media.len(), "each description is answered");
    for (ours, theirs) in read.media.iter().zip(&offer.media) {
        assert_eq!(ours.mid, theirs.mid);
        assert!(!ours.live || theirs.live, "nothing is accepted that was not offered");
    }
    let written = answer.sdp.matches("\r\na=candidate:").count();
    assert_eq!(written, local.candidates.len(), "once each");
}

/// A text as a server's answer to what a client of WHIP and one of WHEP offers.
pub fn sdp_answer(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for direction in [Direction::Send, Direction::Receive] {
        let offer = offer(direction);
        let Ok(answer) = read_answer(&text, &offer) else { continue };
        assert_eq!(answer.tracks.len(), offer.media.len());
        assert!(!answer.remote.fingerprints.is_empty());
        assert!(matches!(answer.remote.setup, Setup::Active | Setup::Passive));
        for (agreed, media) in answer.tracks.iter().zip(&offer.media) {
            let Some(agreed) = agreed else { continue };
            assert_eq!((&agreed.mid, agreed.kind), (&media.mid, media.kind));
            assert!(!agreed.formats.is_empty(), "the first of them is what is sent");
            for format in &agreed.formats {
                let is_same = |offered: &&Format| {
                    (offered.payload_type, offered.codec) == (format.payload_type, format.codec)
                };
                let offered = media.formats.iter().find(is_same).expect("nothing that was not offered");
                assert_eq!(format.clock_rate, offered.clock_rate, "the codec's");
                assert!(format.rtx_payload_type.is_none_or(|rtx| Some(rtx) == offered.rtx_payload_type));
            }
        }
    }
}

/// What a client offers: audio, then video.
fn offer(direction: Direction) -> OfferConfig {
    let media = |mid: &str, codecs: &[Codec], first: u8| OfferMedia {
        mid: mid.to_owned(),
        kind: codecs[0].kind(),
        direction,
        formats: codecs
            .iter()
            .zip((first..).step_by(2))
            .map(|(codec, number)| format(*codec, number))
            .collect(),
        extensions: ExtensionMap::default(),
        sources: match direction {
            Direction::Send => vec![Source { ssrc: u32::from(first), rtx_ssrc: Some(7) }],
            _ => Vec::new(),
        },
        rids: Vec::new(),
        fec_payload_type: None,
    };
    OfferConfig {
        ice: IceCredentials::new("clnt", "clientPassword0123456789").expect("well-formed"),
        fingerprint: Fingerprint::of(FingerprintHash::Sha256, b"certificate of the client"),
        setup: Setup::ActPass,
        candidates: Vec::new(),
        trickle: false,
        session_id: 7,
        stream_id: "millstream".to_owned(),
        media: vec![
            media("0", &[Codec::Opus, Codec::Pcmu], 111),
            media("1", &[Codec::H264, Codec::Vp8, Codec::Av1], 96),
        ],
    }
}

fn server() -> LocalDescription {
    let address = |text: &str| text.parse().expect("an address");
    LocalDescription {
        ice: IceCredentials::new("srvUfrag", "serverPassword0123456789").expect("well-formed"),
        fingerprint: Fingerprint::of(FingerprintHash::Sha256, b"certificate"),
        candidates: vec![
            Candidate::host(address("203.0.113.5:8189"), Transport::Udp, 65535),
            Candidate::host(address("[2001:db8::5]:8189"), Transport::Tcp, 65535),
        ],
        ice_lite: true,
        session_id: 7,
        first_ssrc: u32::MAX,
        stream_id: "live/fuzz".to_owned(),
    }
}

fn track(codec: Codec) -> TrackDescription {
    TrackDescription {
        mid: String::new(),
        kind: codec.kind(),
        formats: vec![format(codec, 96)],
        extensions: ExtensionMap::new(),
        extmap_allow_mixed: false,
        sources: Vec::new(),
        rids: Vec::new(),
        red: None,
        fec: None,
    }
}

fn format(codec: Codec, payload_type: u8) -> Format {
    Format {
        payload_type,
        codec,
        clock_rate: rtp::payload::clock_rate(codec),
        channels: if codec == Codec::Opus { 2 } else { 1 },
        fmtp: match codec {
            Codec::H264 => "packetization-mode=1;profile-level-id=42e01f".to_owned(),
            _ => String::new(),
        },
        rtx_payload_type: Some(payload_type + 1),
        feedback: Feedback { nack: true, pli: true, ..Feedback::default() },
    }
}
