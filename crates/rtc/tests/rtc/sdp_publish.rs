//! Offers of publishers, as real peers write them, are answered with what the server forwards.

use crate::common::offers::{sample, server};
use rtc::sdp::{NegotiationError, Policy, Setup, answer_publish, parse_offer};
use rtp::extension::Extension;
use rtp::payload::Codec;

/// The expected contents of one media description of an answer.
struct Expected {
    codec: Codec,
    payload_type: u8,
    rtx: Option<u8>,
    /// Feedback by first letters: nack, pli, fir, transport-cc.
    feedback: &'static str,
    sources: &'static [(u32, Option<u32>)],
    rids: &'static [&'static str],
}

fn track(
    codec: Codec,
    payload_type: u8,
    rtx: Option<u8>,
    feedback: &'static str,
    sources: &'static [(u32, Option<u32>)],
    rids: &'static [&'static str],
) -> Expected {
    Expected { codec, payload_type, rtx, feedback, sources, rids }
}

#[test]
fn each_peer_gets_the_first_of_its_codecs_with_what_belongs_to_it() {
    use Codec::{H264, Opus, Vp8};
    let cases: Vec<(&str, Setup, Vec<Expected>)> = vec![
        (
            "chromium_publish",
            Setup::Passive,
            vec![
                track(Opus, 111, None, "t", &[(3_683_430_295, None)], &[]),
                track(Vp8, 96, Some(97), "npft", &[(494_461_468, Some(1_311_297_865))], &[]),
            ],
        ),
        ("chromium_simulcast", Setup::Passive, vec![track(Vp8, 96, Some(97), "npft", &[], &["h", "m", "l"])]),
        (
            "firefox_publish",
            Setup::Passive,
            vec![
                track(Opus, 109, None, "", &[(2_655_508_255, None)], &[]),
                track(Vp8, 120, Some(124), "npft", &[(827_385_710, Some(4_218_283_745))], &[]),
            ],
        ),
        (
            "firefox_simulcast",
            Setup::Passive,
            vec![
                track(Opus, 109, None, "", &[(2_655_508_255, None)], &[]),
                track(Vp8, 120, Some(124), "npft", &[], &["high", "low"]),
            ],
        ),
        (
            "safari_publish",
            Setup::Passive,
            vec![
                track(Opus, 111, None, "t", &[(1_842_371_195, None)], &[]),
                track(H264, 96, Some(97), "npft", &[(3_174_829_501, Some(2_093_847_561))], &[]),
            ],
        ),
        (
            "aiortc_publish",
            Setup::Passive,
            vec![
                track(Opus, 96, None, "", &[(1_393_711_123, None)], &[]),
                track(Vp8, 97, Some(98), "np", &[(2_870_112_345, Some(3_120_984_756))], &[]),
            ],
        ),
        (
            "pion_publish",
            Setup::Passive,
            vec![
                track(Vp8, 96, Some(97), "npft", &[(3_912_837_465, Some(1_122_334_455))], &[]),
                track(Opus, 111, None, "t", &[(2_233_445_566, None)], &[]),
            ],
        ),
        (
            "gstreamer_publish",
            Setup::Passive,
            vec![
                track(H264, 96, Some(97), "npft", &[(1_357_924_680, Some(2_468_013_579))], &[]),
                track(Opus, 97, None, "np", &[(3_692_581_470, None)], &[]),
            ],
        ),
        (
            "obs_publish",
            Setup::Passive,
            vec![
                track(Opus, 111, None, "", &[(1_000_000_001, None)], &[]),
                track(H264, 96, None, "np", &[(1_000_000_002, None)], &[]),
            ],
        ),
        (
            "ffmpeg_publish",
            Setup::Active,
            vec![
                track(Opus, 111, None, "", &[(3_020_304_050, None)], &[]),
                track(H264, 106, None, "", &[(3_020_304_051, None)], &[]),
            ],
        ),
    ];
    for (name, setup, expected) in cases {
        check(name, setup, &expected);
    }
}

fn check(name: &str, setup: Setup, expected: &[Expected]) {
    let offer = parse_offer(sample(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let answer =
        answer_publish(&offer, &server(), &Policy::publish()).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert_eq!(answer.setup, setup, "{name}");
    assert_eq!(answer.tracks.len(), expected.len(), "{name}");
    for (track, expected) in answer.tracks.iter().zip(expected) {
        let format = track.format();
        assert!(track.formats.iter().all(|other| other.clock_rate == format.clock_rate), "{name}");
        assert_eq!((format.codec, format.payload_type), (expected.codec, expected.payload_type), "{name}");
        assert_eq!(format.rtx_payload_type, expected.rtx, "{name} {:?}", expected.codec);
        let agreed = format.feedback;
        let letters: String =
            [(agreed.nack, 'n'), (agreed.pli, 'p'), (agreed.fir, 'f'), (agreed.transport_cc, 't')]
                .iter()
                .filter_map(|(agreed, letter)| agreed.then_some(letter))
                .collect();
        assert_eq!(letters, expected.feedback, "{name} {:?}", expected.codec);
        assert!(!agreed.remb, "{name}: bandwidth of publishers is estimated by transport-cc");
        assert_eq!(track.rids, expected.rids, "{name}");
        let sources: Vec<_> = track.sources.iter().map(|source| (source.ssrc, source.rtx_ssrc)).collect();
        assert_eq!(sources, expected.sources, "{name} {:?}", expected.codec);
    }
}

#[test]
fn layers_are_accepted_for_receiving_in_the_order_offered() {
    let offer = parse_offer(sample("chromium_simulcast")).expect("readable");
    let answer = answer_publish(&offer, &server(), &Policy::publish()).expect("answered");
    for line in ["a=rid:h recv", "a=rid:m recv", "a=rid:l recv", "a=simulcast:recv h;m;l", "a=recvonly"] {
        assert!(answer.sdp.lines().any(|it| it == line), "{line} in\n{}", answer.sdp);
    }
    let ids = answer.tracks[0].extensions;
    assert_eq!(ids.id_of(Extension::Mid), Some(9));
    assert_eq!(ids.id_of(Extension::Rid), Some(10));
    assert_eq!(ids.id_of(Extension::RepairedRid), Some(11));
    assert_eq!(ids.id_of(Extension::DependencyDescriptor), Some(13));
    assert_eq!(ids.id_of(Extension::AudioLevel), None);
}

#[test]
fn layers_without_the_extension_that_names_them_are_not_accepted() {
    let text = sample("chromium_simulcast").replace("sdes:rtp-stream-id", "sdes:something-else");
    let offer = parse_offer(&text).expect("readable");
    let answer = answer_publish(&offer, &server(), &Policy::publish()).expect("answered");
    assert!(answer.tracks[0].rids.is_empty());
    assert!(!answer.sdp.contains("simulcast"), "{}", answer.sdp);
}

#[test]
fn every_codec_of_a_publisher_that_is_ours_is_accepted_in_its_order() {
    // Pion sends the one its track was made for, wherever it stands, and fails when the answer
    // lacks it.
    let offer = parse_offer(sample("pion_publish")).expect("readable");
    let answer = answer_publish(&offer, &server(), &Policy::publish()).expect("answered");
    let codecs: Vec<_> =
        answer.tracks[0].formats.iter().map(|format| (format.codec, format.payload_type)).collect();
    assert_eq!(codecs, [(Codec::Vp8, 96), (Codec::H264, 102), (Codec::Av1, 45), (Codec::Vp9, 98)]);
    assert!(
        answer.sdp.contains("m=video 9 UDP/TLS/RTP/SAVPF 96 97 102 103 45 46 98 99\r\n"),
        "{}",
        answer.sdp
    );
    // G.711 has another clock than Opus: timestamps could not continue from one to the other.
    let codecs: Vec<_> = answer.tracks[1].formats.iter().map(|format| format.codec).collect();
    assert_eq!(codecs, [Codec::Opus]);
}

#[test]
fn layers_restricted_to_another_format_are_left_out() {
    let text = sample("chromium_simulcast")
        .replace("a=rid:m send", "a=rid:m send pt=118,120")
        .replace("a=rid:l send", "a=rid:l send pt=96;max-width=320");
    let offer = parse_offer(&text).expect("readable");
    let answer = answer_publish(&offer, &server(), &Policy::publish()).expect("answered");
    assert_eq!(answer.tracks[0].rids, ["h", "l"]);
}

#[test]
fn a_data_channel_is_rejected_and_the_rest_answered() {
    let offer = parse_offer(sample("pion_publish")).expect("readable");
    let answer = answer_publish(&offer, &server(), &Policy::publish()).expect("answered");
    assert!(answer.sdp.contains("a=group:BUNDLE 0 1\r\n"), "{}", answer.sdp);
    let rejected = "m=application 0 UDP/DTLS/SCTP webrtc-datachannel\r\nc=IN IP4 0.0.0.0\r\na=mid:2\r\n";
    assert!(answer.sdp.contains(rejected), "{}", answer.sdp);
    assert_eq!(answer.tracks.len(), 2);
}

#[test]
fn the_transport_is_that_of_the_first_accepted_description() {
    // aiortc gives each description a transport of its own; with the first rejected, the second's
    // is used.
    let text = sample("aiortc_publish");
    let both = parse_offer(text).expect("readable");
    let answer = answer_publish(&both, &server(), &Policy::publish()).expect("answered");
    assert_eq!(answer.remote.ice.ufrag, "aB3d");
    assert_eq!(answer.remote.candidates.len(), 2);
    assert_eq!(answer.remote.fingerprints.len(), 3);
    assert!(answer.remote.end_of_candidates);

    let no_audio =
        text.replace("m=audio 40112 UDP/TLS/RTP/SAVPF 96 9 0 8", "m=audio 40112 UDP/TLS/RTP/SAVPF 9");
    let answer = answer_publish(&parse_offer(&no_audio).expect("readable"), &server(), &Policy::publish());
    let answer = answer.expect("answered");
    assert_eq!(answer.remote.ice.ufrag, "xY9z");
    assert!(
        answer.sdp.contains("a=group:BUNDLE 1\r\n") && answer.sdp.contains("m=audio 0 "),
        "{}",
        answer.sdp
    );
    // The candidates moved there, too.
    let (_, video) = answer.sdp.split_once("m=video").expect("a video description");
    assert_eq!(video.matches("a=candidate:").count(), server().candidates.len());
}

#[test]
fn several_descriptions_of_a_kind_are_tracks_of_their_own() {
    let mut text = sample("obs_publish").replace("BUNDLE 0 1", "BUNDLE 0 1 2 3").replace("\r\n", "\n");
    let video = text[text.find("m=video").expect("a video description")..].to_owned();
    text += &video.replace("a=mid:1", "a=mid:2").replace("1000000002", "1000000003");
    text +=
        &video.replace("a=mid:1", "a=mid:3").replace("640032", "42e01f").replace("1000000002", "1000000004");
    let offer = parse_offer(&text).expect("readable");
    let answer = answer_publish(&offer, &server(), &Policy::publish()).expect("answered");
    let ssrcs: Vec<u32> = answer.tracks.iter().map(|track| track.sources[0].ssrc).collect();
    assert_eq!(ssrcs, [1_000_000_001, 1_000_000_002, 1_000_000_003, 1_000_000_004]);

    let two = Policy { tracks_per_kind_max: 2, ..Policy::publish() };
    let answer = answer_publish(&offer, &server(), &two).expect("answered");
    assert_eq!(answer.tracks.len(), 3, "two of a kind");
    assert_eq!(answer.sdp.matches("a=inactive").count(), 1);
}

#[test]
fn codecs_that_are_not_allowed_are_passed_over() {
    let offer = parse_offer(sample("chromium_publish")).expect("readable");
    let policy = Policy { codecs: vec![Codec::Av1, Codec::Pcma], ..Policy::publish() };
    let answer = answer_publish(&offer, &server(), &policy).expect("answered");
    let codecs: Vec<_> = answer.tracks.iter().map(|track| track.codec()).collect();
    assert_eq!(codecs, [Codec::Pcma, Codec::Av1]);
    assert_eq!(answer.tracks[1].format().rtx_payload_type, Some(46));

    let none = Policy { codecs: vec![Codec::H265], ..Policy::publish() };
    assert_eq!(answer_publish(&offer, &server(), &none), Err(NegotiationError::NoCommonCodec));
}

#[test]
fn one_who_only_receives_cannot_publish() {
    for name in ["chromium_play", "firefox_play", "safari_play"] {
        let offer = parse_offer(sample(name)).expect("readable");
        let refused = answer_publish(&offer, &server(), &Policy::publish());
        assert_eq!(refused, Err(NegotiationError::NothingInThisDirection), "{name}");
    }
}

#[test]
fn a_client_answers_a_server_that_offers() {
    let offer = parse_offer(sample("janus_stream")).expect("readable");
    let client = rtc::sdp::LocalDescription { ice_lite: false, ..server() };
    let answer = answer_publish(&offer, &client, &Policy::publish()).expect("answered");
    assert_eq!(answer.setup, Setup::Active);
    assert_eq!(answer.tracks[1].format().rtx_payload_type, Some(97));
    assert_eq!(answer.remote.candidates[0].address.to_string(), "192.0.2.30:20001");
    assert!(!answer.sdp.contains("a=ice-lite"));
}

#[test]
fn roles_and_lite_sides_that_do_not_fit_are_refused() {
    let text = sample("chromium_publish");
    let role = |role: &str| {
        let offer =
            parse_offer(&text.replace("a=setup:actpass", &format!("a=setup:{role}"))).expect("readable");
        answer_publish(&offer, &server(), &Policy::publish()).map(|answer| answer.setup)
    };
    assert_eq!(role("active"), Ok(Setup::Passive));
    assert_eq!(role("passive"), Ok(Setup::Active));
    assert_eq!(role("holdconn"), Err(NegotiationError::Setup));
    let lite = text.replace("a=extmap-allow-mixed", "a=ice-lite");
    let offer = parse_offer(&lite).expect("readable");
    assert_eq!(answer_publish(&offer, &server(), &Policy::publish()), Err(NegotiationError::BothIceLite));
    let full = rtc::sdp::LocalDescription { ice_lite: false, ..server() };
    assert!(answer_publish(&offer, &full, &Policy::publish()).is_ok());
}

#[test]
fn the_answer_has_what_a_client_needs_of_the_server() {
    let offer = parse_offer(sample("obs_publish")).expect("readable");
    let answer = answer_publish(&offer, &server(), &Policy::publish()).expect("answered");
    let (session, media) = answer.sdp.split_once("m=audio").expect("an audio description");
    assert!(
        session.starts_with("v=0\r\no=- 655884233731895160 1 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n"),
        "{session}"
    );
    assert!(session.contains("a=ice-lite\r\n") && session.contains("a=group:BUNDLE 0 1\r\n"), "{session}");
    for line in [
        "a=ice-ufrag:srvUfrag",
        "a=ice-pwd:serverPassword0123456789",
        "a=setup:passive",
        "a=rtcp-mux",
        "a=rtpmap:111 opus/48000/2",
        "a=fmtp:111 minptime=10;maxaveragebitrate=160000;stereo=1;useinbandfec=1",
        "a=end-of-candidates",
        "a=rtpmap:96 H264/90000",
        "a=fmtp:96 profile-level-id=640032;packetization-mode=1;level-asymmetry-allowed=1",
    ] {
        assert!(media.contains(&format!("{line}\r\n")), "{line} in\n{media}");
    }
    assert_eq!(media.matches(&format!("a=fingerprint:{}", server().fingerprint)).count(), 2);
    let candidates: Vec<&str> = media.lines().filter(|line| line.starts_with("a=candidate:")).collect();
    assert!(candidates[0].ends_with(" udp 2130706431 203.0.113.5 8189 typ host"), "{candidates:?}");
    assert!(candidates[1].contains(" 2001:db8::5 8189 typ host"), "{candidates:?}");
    assert!(candidates[2].ends_with(" 203.0.113.5 8189 typ host tcptype passive"), "{candidates:?}");
}
