//! A client's offer is read by the server, and the server's answer by the client, to the same
//! agreement.

use crate::common::offers::server;
use proptest::prelude::*;
use rtc::dtls::{Fingerprint, FingerprintHash};
use rtc::sdp::{
    Candidate, Direction, FecFormat, Feedback, Format, IceCredentials, OfferConfig, OfferMedia, Policy,
    SdpError, Setup, Source, Transport, answer_play, answer_publish, make_offer, parse_offer, read_answer,
};
use rtp::extension::Extension;
use rtp::payload::{Codec, MediaKind};

const ALL: Feedback =
    Feedback { nack: true, pli: true, fir: true, transport_cc: true, remb: true, ccfb: false };

fn format(
    codec: Codec,
    payload_type: u8,
    fmtp: &str,
    rtx_payload_type: Option<u8>,
    feedback: Feedback,
) -> Format {
    let channels = if codec == Codec::Opus { 2 } else { 1 };
    let clock_rate = rtp::payload::clock_rate(codec);
    Format { payload_type, codec, clock_rate, channels, fmtp: fmtp.to_owned(), rtx_payload_type, feedback }
}

fn media(mid: &str, kind: MediaKind, direction: Direction, formats: Vec<Format>) -> OfferMedia {
    let extensions = [(1, Extension::Mid), (3, Extension::TransportCc), (4, Extension::AbsSendTime)];
    OfferMedia {
        mid: mid.to_owned(),
        kind,
        direction,
        formats,
        extensions: extensions.into_iter().collect(),
        sources: Vec::new(),
        rids: Vec::new(),
        fec_payload_type: None,
    }
}

fn config(media: Vec<OfferMedia>) -> OfferConfig {
    OfferConfig {
        ice: IceCredentials::new("clnt", "clientPassword0123456789").expect("well-formed"),
        fingerprint: Fingerprint::of(FingerprintHash::Sha256, b"certificate of the client"),
        setup: Setup::ActPass,
        candidates: vec![Candidate::host(
            "192.0.2.50:50000".parse().expect("an address"),
            Transport::Udp,
            65535,
        )],
        trickle: true,
        session_id: 77,
        stream_id: "load generator 7".to_owned(),
        media,
    }
}

#[test]
fn a_publisher_and_the_server_come_to_the_same_tracks() {
    let opus = format(Codec::Opus, 111, "minptime=10;useinbandfec=1", None, Feedback::default());
    let h264 = format(Codec::H264, 96, "packetization-mode=1;profile-level-id=42e01f", Some(97), ALL);
    let vp8 = format(Codec::Vp8, 98, "", Some(99), ALL);
    let mut audio = media("0", MediaKind::Audio, Direction::Send, vec![opus]);
    audio.sources = vec![Source { ssrc: 11, rtx_ssrc: None }];
    let mut video = media("1", MediaKind::Video, Direction::Send, vec![h264, vp8]);
    video.sources = vec![Source { ssrc: 21, rtx_ssrc: Some(22) }];
    let client = config(vec![audio, video]);

    let offer = parse_offer(&make_offer(&client)).expect("the server reads it");
    assert!(offer.trickle && !offer.ice_lite);
    let answer = answer_publish(&offer, &server(), &Policy::publish()).expect("the server answers");
    assert_eq!(answer.remote.ice, client.ice);
    assert_eq!(answer.remote.fingerprints, [client.fingerprint]);
    assert_eq!(answer.remote.candidates, client.candidates);

    let read = read_answer(&answer.sdp, &client).expect("the client reads it");
    assert!(read.ice_lite);
    assert_eq!(read.remote.ice, server().ice);
    assert_eq!(read.remote.fingerprints, [server().fingerprint]);
    assert_eq!(read.remote.candidates, server().candidates);
    assert_eq!((read.remote.setup, answer.setup), (Setup::Passive, Setup::Passive));
    let tracks: Vec<_> = read.tracks.into_iter().map(|track| track.expect("accepted")).collect();
    assert_eq!(tracks, answer.tracks);
    assert_eq!(tracks[1].format().rtx_payload_type, Some(97));
}

#[test]
fn a_viewer_learns_the_ssrcs_it_will_be_sent() {
    let vp8 = format(Codec::Vp8, 100, "", Some(101), ALL);
    let client = config(vec![media("v", MediaKind::Video, Direction::Receive, vec![vp8])]);
    let published = {
        let vp8 = format(Codec::Vp8, 96, "", None, ALL);
        let publisher = config(vec![media("0", MediaKind::Video, Direction::Send, vec![vp8])]);
        let offer = parse_offer(&make_offer(&publisher)).expect("readable");
        answer_publish(&offer, &server(), &Policy::publish()).expect("answered").tracks
    };
    let offer = parse_offer(&make_offer(&client)).expect("readable");
    let answer = answer_play(&offer, &server(), &Policy::play(), &published).expect("answered");
    let read = read_answer(&answer.sdp, &client).expect("readable");
    let track = read.tracks[0].as_ref().expect("accepted");
    assert_eq!(track.sources, [Source { ssrc: 0x4d53_0000, rtx_ssrc: Some(0x4d53_0001) }]);
    assert_eq!(track.format(), answer.tracks[0].format());
    assert!(track.format().feedback.remb);
}

#[test]
fn a_viewer_learns_the_ssrc_of_repair_packets_if_it_takes_them() {
    let vp8 = || format(Codec::Vp8, 100, "", Some(101), ALL);
    let opus = format(Codec::Opus, 111, "", None, Feedback::default());
    let published = {
        let media = [
            media("0", MediaKind::Audio, Direction::Send, vec![opus.clone()]),
            media("1", MediaKind::Video, Direction::Send, vec![vp8()]),
        ];
        let offer = parse_offer(&make_offer(&config(media.to_vec()))).expect("readable");
        answer_publish(&offer, &server(), &Policy::publish()).expect("answered").tracks
    };
    assert!(published.iter().all(|track| track.fec.is_none()));
    for (is_offered, is_wanted) in [(true, true), (true, false), (false, true)] {
        let mut video = media("v", MediaKind::Video, Direction::Receive, vec![vp8()]);
        video.fec_payload_type = is_offered.then_some(49);
        let audio = media("a", MediaKind::Audio, Direction::Receive, vec![opus.clone()]);
        let client = config(vec![audio, video]);
        let offer = parse_offer(&make_offer(&client)).expect("readable");
        let policy = Policy { fec: is_wanted, ..Policy::play() };
        let answer = answer_play(&offer, &server(), &policy, &published).expect("answered");
        let read = read_answer(&answer.sdp, &client).expect("readable");
        let expected =
            (is_offered && is_wanted).then_some(FecFormat { payload_type: 49, ssrc: 0x4d53_0000 + 256 + 1 });
        let video = read.tracks[1].as_ref().expect("accepted");
        assert_eq!((video.fec, answer.tracks[1].fec), (expected, expected));
        assert_eq!(video.sources, answer.tracks[1].sources, "the repair packets are no source");
        assert_eq!(answer.tracks[0].fec, None, "audio has none");
        assert_eq!(answer.sdp.contains("flexfec"), expected.is_some(), "{}", answer.sdp);
    }
}

#[test]
fn layers_are_read_back_as_they_were_accepted() {
    let mut video =
        media("0", MediaKind::Video, Direction::Send, vec![format(Codec::Vp8, 96, "", None, ALL)]);
    video.extensions.set(5, Extension::Rid);
    video.rids = vec!["hi".to_owned(), "mid".to_owned(), "lo".to_owned()];
    let client = config(vec![video]);
    let offer = parse_offer(&make_offer(&client)).expect("readable");
    let answer = answer_publish(&offer, &server(), &Policy::publish()).expect("answered");
    assert_eq!(answer.tracks[0].rids, ["hi", "mid", "lo"]);
    let read = read_answer(&answer.sdp, &client).expect("readable");
    assert_eq!(read.tracks[0].as_ref().expect("accepted").rids, ["hi", "mid", "lo"]);
}

#[test]
fn fifty_pairs_of_tracks_are_published_and_played_over_one_transport() {
    let pairs = |direction: Direction| {
        let pair = |at: u32| {
            let (audio, video) = (MediaKind::Audio, MediaKind::Video);
            let opus = format(Codec::Opus, 111, "", None, Feedback::default());
            let mut audio = media(&format!("a{at}"), audio, direction, vec![opus]);
            let mut video =
                media(&format!("v{at}"), video, direction, vec![format(Codec::Vp8, 96, "", Some(97), ALL)]);
            if direction.sends() {
                audio.sources = vec![Source { ssrc: 3 * at, rtx_ssrc: None }];
                video.sources = vec![Source { ssrc: 3 * at + 1, rtx_ssrc: Some(3 * at + 2) }];
            }
            [audio, video]
        };
        config((0..50).flat_map(pair).collect())
    };
    let offer = parse_offer(&make_offer(&pairs(Direction::Send))).expect("within the limits");
    let published = answer_publish(&offer, &server(), &Policy::publish()).expect("answered").tracks;
    assert_eq!(published.len(), 100);
    assert_eq!(published[99].sources, [Source { ssrc: 148, rtx_ssrc: Some(149) }]);

    let client = pairs(Direction::Receive);
    let offer = parse_offer(&make_offer(&client)).expect("within the limits");
    let answer = answer_play(&offer, &server(), &Policy::play(), &published).expect("answered");
    assert_eq!(answer.published, (0..100).map(|at| at / 2).collect::<Vec<_>>());
    let read = read_answer(&answer.sdp, &client).expect("readable");
    let mut ssrcs: Vec<u32> = read.tracks.iter().flatten().map(|track| track.sources[0].ssrc).collect();
    ssrcs.sort_unstable();
    ssrcs.dedup();
    assert_eq!(ssrcs.len(), 100, "each track has an SSRC of its own");
}

#[test]
fn answers_to_something_else_are_not_taken() {
    let audio =
        || media("0", MediaKind::Audio, Direction::Send, vec![format(Codec::Opus, 111, "", None, ALL)]);
    let client = config(vec![audio()]);
    let offer = parse_offer(&make_offer(&client)).expect("readable");
    let answer = answer_publish(&offer, &server(), &Policy::publish()).expect("answered").sdp;
    let two = config(vec![audio(), media("1", MediaKind::Audio, Direction::Send, audio().formats)]);
    assert_eq!(read_answer(&answer, &two), Err(SdpError::AnswerMismatch));
    let renamed = config(vec![OfferMedia { mid: "9".to_owned(), ..audio() }]);
    assert_eq!(read_answer(&answer, &renamed), Err(SdpError::AnswerMismatch));
    let unanswered = answer.replace("a=setup:passive", "a=setup:actpass");
    assert_eq!(read_answer(&unanswered, &client), Err(SdpError::BadAttribute("setup")));
    // A payload type that was not offered, or has another codec, is refused.
    let other = answer.replace("111", "112");
    assert_eq!(read_answer(&other, &client).expect("readable").tracks, [None]);
    let other = answer.replace("opus/48000/2", "PCMU/8000");
    assert_eq!(read_answer(&other, &client).expect("readable").tracks, [None]);
    let rejected = answer.replace("m=audio 9", "m=audio 0");
    assert_eq!(read_answer(&rejected, &client), Err(SdpError::AnswerMismatch));
}

prop_compose! {
    /// Any offer a client could make: codecs in any order under any payload types, any extensions,
    /// any direction.
    fn any_offer()(
        sections in prop::collection::vec(
            (any::<bool>(), 0..4_u8, prop::sample::subsequence(vec![0_usize, 1, 2, 3, 4, 5, 6, 7], 1..=8),
             any::<u32>(), prop::sample::subsequence((0..10).collect::<Vec<usize>>(), 0..=10), any::<bool>()),
            1..5,
        ),
        session_id in any::<u64>(),
    ) -> OfferConfig {
        let sections = sections.into_iter().enumerate().map(|(at, section)| any_media(at, section)).collect();
        OfferConfig { session_id, ..config(sections) }
    }
}

fn any_media(
    at: usize,
    (is_video, direction, codecs, ssrc, extensions, layers): (bool, u8, Vec<usize>, u32, Vec<usize>, bool),
) -> OfferMedia {
    const VIDEO: [(Codec, &str); 8] = [
        (Codec::H264, "packetization-mode=1;profile-level-id=42e01f"),
        (Codec::Vp8, ""),
        (Codec::Vp9, "profile-id=2"),
        (Codec::Av1, "profile=0;level-idx=5;tier=0"),
        (Codec::H265, "profile-id=1"),
        (Codec::H264, "packetization-mode=0;profile-level-id=640032"),
        (Codec::Vp9, "profile-id=0"),
        (Codec::H264, ""),
    ];
    const AUDIO: [(Codec, &str); 3] =
        [(Codec::Opus, "minptime=10;stereo=1"), (Codec::Pcmu, ""), (Codec::Pcma, "")];
    let direction = [Direction::Send, Direction::Receive, Direction::SendReceive, Direction::Inactive]
        [usize::from(direction)];
    let choice = if is_video { &VIDEO[..] } else { &AUDIO[..] };
    let formats = codecs.iter().filter_map(|&index| choice.get(index).map(|it| (index as u8, it)));
    let formats: Vec<Format> = formats
        .map(|(index, (codec, fmtp))| {
            format(*codec, 96 + 2 * index, fmtp, is_video.then_some(97 + 2 * index), ALL)
        })
        .collect();
    // The audio codecs are fewer than the indices there are to choose from.
    let formats = if formats.is_empty() { vec![format(Codec::Opus, 111, "", None, ALL)] } else { formats };
    let mut media = media(&format!("m{at}"), formats[0].codec.kind(), direction, formats);
    media.extensions = extensions.iter().map(|&index| (1 + index as u8, Extension::ALL[index])).collect();
    media.sources = vec![Source { ssrc, rtx_ssrc: is_video.then(|| ssrc.wrapping_add(1)) }];
    media.fec_payload_type = is_video.then_some(40);
    if layers && media.kind == MediaKind::Video {
        media.rids = vec!["a".to_owned(), "b".to_owned()];
        media.sources = Vec::new();
    }
    media
}

proptest! {
    #[test]
    fn any_answer_is_read_by_the_client_and_by_the_line_parser(client in any_offer(), stream in any_offer()) {
        let offer = parse_offer(&make_offer(&client)).expect("own offers are readable");
        let play = Policy { fec: true, ..Policy::play() };
        let published = answer_publish(&parse_offer(&make_offer(&stream)).expect("readable"), &server(), &Policy::publish());
        let answers = [
            answer_publish(&offer, &server(), &Policy::publish()),
            published.and_then(|stream| answer_play(&offer, &server(), &play, &stream.tracks)),
        ];
        for answer in answers.into_iter().flatten() {
            prop_assert!(sdp_types::Session::parse(answer.sdp.as_bytes()).is_ok());
            let read = read_answer(&answer.sdp, &client).expect("own answers are readable");
            prop_assert_eq!(&read.remote.ice, &server().ice);
            prop_assert_eq!(&read.remote.candidates, &server().candidates);
            let read: Vec<_> = read.tracks.into_iter().flatten().collect();
            prop_assert_eq!(read.len(), answer.tracks.len());
            for (ours, theirs) in read.iter().zip(&answer.tracks) {
                prop_assert_eq!(&ours.mid, &theirs.mid);
                prop_assert_eq!(ours.format().payload_type, theirs.format().payload_type);
                prop_assert_eq!(ours.format().rtx_payload_type, theirs.format().rtx_payload_type);
                prop_assert_eq!(ours.format().feedback, theirs.format().feedback);
                prop_assert_eq!(ours.extensions, theirs.extensions);
                prop_assert_eq!(ours.extmap_allow_mixed, theirs.extmap_allow_mixed);
                prop_assert_eq!(&ours.sources, &theirs.sources);
                prop_assert_eq!(&ours.rids, &theirs.rids);
                prop_assert_eq!(ours.fec, theirs.fec);
            }
        }
    }
}
