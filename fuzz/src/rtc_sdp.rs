//! What the fuzz target of session descriptions checks: every text is refused or answered, and
//! answers are well-formed.
//!
//! `crates/rtc/tests/rtc/sdp_fuzz_corpus.rs` includes this file and replays the kept corpus.

use rtc::dtls::{Fingerprint, FingerprintHash};
use rtc::sdp::{
    Answer, Candidate, Feedback, Format, IceCredentials, LocalDescription, Offer, Policy, TrackDescription,
    Transport, answer_play, answer_publish, parse_fragment, parse_offer,
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
    let feedback = Feedback { nack: true, pli: true, ..Feedback::default() };
    let channels = if codec == Codec::Opus { 2 } else { 1 };
    let fmtp = if codec == Codec::H264 { "packetization-mode=1;profile-level-id=42e01f" } else { "" };
    TrackDescription {
        mid: String::new(),
        kind: codec.kind(),
        formats: vec![Format {
            payload_type: 96,
            codec,
            clock_rate: rtp::payload::clock_rate(codec),
            channels,
            fmtp: fmtp.to_owned(),
            rtx_payload_type: Some(97),
            feedback,
        }],
        extensions: ExtensionMap::new(),
        extmap_allow_mixed: false,
        sources: Vec::new(),
        rids: Vec::new(),
        red: None,
        fec: None,
    }
}
