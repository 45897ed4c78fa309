//! Offers of viewers are answered with the tracks a stream has, in formats the viewer takes
//! unchanged.

use crate::common::offers::{sample, server};
use rtc::sdp::{
    FecFormat, NegotiationError, Policy, RedFormat, TrackDescription, answer_play, answer_publish,
    parse_offer,
};
use rtp::extension::Extension;
use rtp::payload::{Codec, MediaKind};

/// The tracks of a stream that `publisher` publishes with these codecs.
fn stream(publisher: &str, codecs: &[Codec]) -> Vec<TrackDescription> {
    let offer = parse_offer(sample(publisher)).expect("readable");
    let policy = Policy { codecs: codecs.to_vec(), ..Policy::publish() };
    answer_publish(&offer, &server(), &policy).expect("answered").tracks
}

#[test]
fn each_viewer_gets_what_the_publisher_sends_under_its_own_payload_type() {
    use Codec::{Av1, H264, Opus, Pcmu, Vp8, Vp9};
    // Publisher, codecs, viewer, payload types of audio and video.
    let cases: [(&str, &[Codec], &str, &[u8]); 14] = [
        ("chromium_publish", &[Opus, Vp8], "chromium_play", &[111, 96]),
        ("chromium_publish", &[Opus, Av1], "chromium_play", &[111, 45]),
        ("chromium_publish", &[Pcmu, Vp9], "firefox_play", &[0, 121]),
        ("chromium_publish", &[Opus, Av1], "firefox_play", &[109, 99]),
        // High profile to a viewer that names baseline only: packetization mode decides.
        ("obs_publish", &[Opus, H264], "firefox_play", &[109, 126]),
        ("obs_publish", &[Opus, H264], "safari_play", &[111, 96]),
        ("ffmpeg_publish", &[Opus, H264], "safari_play", &[111, 98]),
        ("ffmpeg_publish", &[Opus, H264], "chromium_play", &[111, 108]),
        ("gstreamer_publish", &[Opus, H264], "chromium_play", &[111, 108]),
        ("obs_publish", &[Opus, H264], "aiortc_play", &[96, 99]),
        ("ffmpeg_publish", &[Opus, H264], "aiortc_play", &[96, 101]),
        // The viewer's video comes first in its offer.
        ("chromium_publish", &[Opus, Vp8], "pion_play", &[96, 111]),
        ("chromium_publish", &[Opus, Vp8], "gstreamer_play", &[96, 101]),
        // Only the audio can be played.
        ("chromium_publish", &[Opus, Av1], "gstreamer_play", &[96]),
    ];
    for (publisher, codecs, viewer, payload_types) in cases {
        let what = format!("{codecs:?} of {publisher} to {viewer}");
        let published = stream(publisher, codecs);
        let offer = parse_offer(sample(viewer)).unwrap_or_else(|error| panic!("{what}: {error}"));
        let answer = answer_play(&offer, &server(), &Policy::play(), &published)
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        let found: Vec<u8> = answer.tracks.iter().map(|track| track.format().payload_type).collect();
        assert_eq!(found, payload_types, "{what}");
        for (track, &nth) in answer.tracks.iter().zip(&answer.published) {
            let mut of_kind = published.iter().enumerate().filter(|(_, other)| other.kind == track.kind);
            let (index, played) = of_kind.nth(nth).expect("a published track");
            let mut by_preference = played.formats.iter().filter_map(|format| track.format_for(format));
            assert_eq!(by_preference.next(), Some(track.format()), "{what}: the one used comes first");
            assert_eq!(track.sources[0].ssrc, 0x4d53_0000 + 2 * index as u32, "{what}");
            assert_eq!(
                track.sources[0].rtx_ssrc.is_some(),
                track.format().rtx_payload_type.is_some(),
                "{what}"
            );
        }
        assert_eq!(answer.sdp.matches("a=sendonly").count(), payload_types.len(), "{what}\n{}", answer.sdp);
    }
}

#[test]
fn all_formats_of_the_viewer_stay_usable_should_the_publisher_change() {
    let published = stream("chromium_publish", &[Codec::Opus, Codec::Vp9]);
    let offer = parse_offer(sample("chromium_play")).expect("readable");
    let answer = answer_play(&offer, &server(), &Policy::play(), &published).expect("answered");
    let video = &answer.tracks[1];
    assert_eq!(video.codec(), Codec::Vp9);
    for codec in [Codec::H264, Codec::Vp8, Codec::Av1] {
        let later = stream("chromium_publish", &[codec]);
        let format =
            video.format_for(later[0].format()).unwrap_or_else(|| panic!("{codec:?} is playable later"));
        assert!(answer.sdp.contains(&format!("a=rtpmap:{} ", format.payload_type)));
    }
    assert_eq!(answer.tracks[0].format_for(video.format()), None);
}

#[test]
fn what_the_stream_lacks_is_inactive_and_keeps_the_bundle_together() {
    let video_only = stream("chromium_simulcast", &[Codec::H264]);
    let offer = parse_offer(sample("chromium_play")).expect("readable");
    let answer = answer_play(&offer, &server(), &Policy::play(), &video_only).expect("answered");
    assert_eq!(answer.tracks.len(), 1);
    assert_eq!((answer.tracks[0].kind, answer.published.as_slice()), (MediaKind::Video, &[0][..]));
    assert!(answer.tracks[0].rids.is_empty(), "a viewer gets one layer");
    let (audio, video) = answer.sdp.split_once("m=video").expect("a video description");
    assert!(audio.contains("m=audio 9 ") && audio.contains("a=inactive\r\n"), "{audio}");
    assert!(audio.contains("a=group:BUNDLE 0 1\r\n"), "{audio}");
    assert!(audio.contains("a=candidate:") && !video.contains("a=candidate:"));
    assert!(video.contains("a=sendonly\r\n") && !video.contains("simulcast"), "{video}");
}

#[test]
fn extensions_are_those_that_can_be_passed_on_under_the_viewers_ids() {
    let published = stream("chromium_publish", &[Codec::Opus, Codec::Vp8]);
    let offer = parse_offer(sample("chromium_play")).expect("readable");
    let answer = answer_play(&offer, &server(), &Policy::play(), &published).expect("answered");
    let video = answer.tracks[1].extensions;
    let ids: Vec<_> = video.iter().collect();
    assert_eq!(
        ids,
        [
            (2, Extension::AbsSendTime),
            (3, Extension::TransportCc),
            (4, Extension::Mid),
            (5, Extension::AbsCaptureTime),
            (9, Extension::DependencyDescriptor),
            (12, Extension::PlayoutDelay),
            (13, Extension::VideoOrientation),
        ]
    );
    assert!(answer.sdp.contains("transport-cc") && answer.sdp.contains("goog-remb"), "{}", answer.sdp);
    let plain = Policy::play().without_estimation();
    let plain = answer_play(&offer, &server(), &plain, &published).expect("answered");
    assert!(!plain.sdp.contains("transport") && !plain.sdp.contains("goog-remb"), "{}", plain.sdp);
    assert!(answer.sdp.contains("a=ssrc-group:FID 1297285122 1297285123\r\n"), "{}", answer.sdp);
    assert!(answer.sdp.contains("a=ssrc:1297285120 cname:live-camera\r\n"), "{}", answer.sdp);
    assert!(answer.sdp.contains("a=msid:live-camera live-camera-video-1\r\n"), "{}", answer.sdp);
}

#[test]
fn extensions_given_for_the_other_direction_are_not_used() {
    let published = stream("firefox_publish", &[Codec::Opus, Codec::Vp8]);
    let offer = parse_offer(sample("firefox_play")).expect("readable");
    let answer = answer_play(&offer, &server(), &Policy::play(), &published).expect("answered");
    // Firefox receives the playout delay only: so it is sent to a viewer and not accepted from a
    // publisher.
    assert_eq!(answer.tracks[1].extensions.id_of(Extension::PlayoutDelay), Some(6));
    assert!(answer.sdp.contains("a=extmap:6/sendonly "), "{}", answer.sdp);
    assert_eq!(published[1].extensions.id_of(Extension::PlayoutDelay), None);
}

#[test]
fn both_forms_of_extensions_are_sent_to_those_only_who_allow_it() {
    let published = stream("chromium_publish", &[Codec::Opus, Codec::Vp8]);
    let session_wide = sample("chromium_play").to_owned();
    let nowhere = session_wide.replace("a=extmap-allow-mixed\r\n", "");
    let for_video = nowhere.replace("a=mid:1\r\n", "a=mid:1\r\na=extmap-allow-mixed\r\n");
    for (text, expected) in
        [(session_wide, [true, true]), (nowhere, [false, false]), (for_video, [false, true])]
    {
        let offer = parse_offer(&text).expect("readable");
        let answer = answer_play(&offer, &server(), &Policy::play(), &published).expect("answered");
        let agreed: Vec<bool> = answer.tracks.iter().map(|track| track.extmap_allow_mixed).collect();
        assert_eq!(agreed, expected);
        let (_, audio) = answer.sdp.split_once("m=audio").expect("an audio description");
        let (audio, video) = audio.split_once("m=video").expect("a video description");
        assert_eq!([audio, video].map(|part| part.contains("a=extmap-allow-mixed\r\n")), expected);
    }
}

#[test]
fn repair_packets_are_agreed_on_with_viewers_who_offer_them() {
    let published = stream("chromium_publish", &[Codec::Opus, Codec::Vp8]);
    let policy = Policy { fec: true, ..Policy::play() };
    let chromium = sample("chromium_play").to_owned();
    let lines = [
        "a=rtpmap:49 flexfec-03/90000\r\na=fmtp:49 repair-window=250000\r\n",
        "a=ssrc-group:FEC-FR 1297285122 1297285377\r\n",
        "a=ssrc:1297285377 cname:live-camera\r\n",
    ];
    let cases = [
        (chromium.clone(), true),
        // Who keeps packets for a tenth of a second only cannot use what comes later.
        (chromium.replace("repair-window=10000000", "repair-window=100000"), false),
        (chromium.replace("a=fmtp:49 repair-window=10000000\r\n", ""), true),
        // RFC 8627 has the same name without the draft's number, and another header.
        (chromium.replace("flexfec-03/90000", "flexfec/90000"), false),
        (chromium.replace("flexfec-03/90000", "flexfec-03/48000"), false),
        // Not in the list of the media description.
        (chromium.replace(" 118 119 120 49\r\n", " 118 119 120\r\n"), false),
        (sample("firefox_play").to_owned(), false),
        (sample("pion_play").to_owned(), false),
    ];
    for (at, (text, expected)) in cases.into_iter().enumerate() {
        let offer = parse_offer(&text).expect("readable");
        let answer = answer_play(&offer, &server(), &policy, &published).expect("answered");
        let video = answer.tracks.iter().find(|track| track.kind == MediaKind::Video).expect("a video track");
        let fec = FecFormat { payload_type: 49, ssrc: 0x4d53_0000 + 256 + 1 };
        assert_eq!(video.fec, expected.then_some(fec), "case {at}");
        assert_eq!(video.sources.len(), 1, "case {at}");
        for line in lines {
            assert_eq!(answer.sdp.contains(line), expected, "case {at}: {line}\n{}", answer.sdp);
        }
        assert_eq!(answer.sdp.matches("flexfec").count(), usize::from(expected), "case {at}");
        let without = Policy { fec: false, ..Policy::play() };
        let without = answer_play(&offer, &server(), &without, &published).expect("answered");
        assert!(!without.sdp.contains("flexfec") && !without.sdp.contains("FEC-FR"), "case {at}");
    }
}

#[test]
fn redundant_audio_is_agreed_on_in_the_order_of_the_offer_if_the_policy_has_it() {
    let published = stream("chromium_publish", &[Codec::Opus, Codec::Vp8]);
    let red = |is_preferred| RedFormat { payload_type: 63, media_payload_type: 111, is_preferred };
    let first = |text: &str| text.replace("SAVPF 111 63 9", "SAVPF 63 111 9");
    for name in ["chromium_play", "chromium_publish"] {
        let text = sample(name).to_owned();
        let cases = [
            (text.clone(), Some(red(false))),
            (first(&text), Some(red(true))),
            (text.replace("a=fmtp:63 111/111\r\n", ""), None),
            (text.replace("a=fmtp:63 111/111", "a=fmtp:63 111"), None),
            // Blocks of several formats, and of one that is not there.
            (text.replace("a=fmtp:63 111/111", "a=fmtp:63 111/0"), None),
            (text.replace("a=fmtp:63 111/111", "a=fmtp:63 63/63"), None),
            (text.replace("a=fmtp:63 111/111", "a=fmtp:63 0/0"), None),
            (text.replace("a=rtpmap:63 red/48000/2", "a=rtpmap:63 red/8000"), None),
        ];
        for (at, (text, expected)) in cases.into_iter().enumerate() {
            let offer = parse_offer(&text).expect("readable");
            let answer = |red| match name {
                "chromium_play" => {
                    answer_play(&offer, &server(), &Policy { red, ..Policy::play() }, &published)
                }
                _ => answer_publish(&offer, &server(), &Policy { red, ..Policy::publish() }),
            };
            let with = answer(true).expect("answered");
            assert_eq!(with.tracks[0].red, expected, "{name}, case {at}");
            assert!(with.tracks[1..].iter().all(|track| track.red.is_none()));
            let list = match expected {
                Some(RedFormat { is_preferred: true, .. }) => "m=audio 9 UDP/TLS/RTP/SAVPF 63 111",
                Some(_) => "m=audio 9 UDP/TLS/RTP/SAVPF 111 63",
                None => "m=audio 9 UDP/TLS/RTP/SAVPF 111",
            };
            assert!(with.sdp.contains(list), "{name}, case {at}: {}", with.sdp);
            let lines = "a=rtpmap:63 red/48000/2\r\na=fmtp:63 111/111\r\n";
            assert_eq!(with.sdp.contains(lines), expected.is_some(), "{name}, case {at}: {}", with.sdp);
            assert_eq!(with.sdp.matches("red/").count(), usize::from(expected.is_some()));
            let without = answer(false).expect("answered");
            assert!(without.tracks.iter().all(|track| track.red.is_none()) && !without.sdp.contains("red/"));
        }
    }
    assert!(Policy::publish().red && Policy::play().red);
}

#[test]
fn a_publisher_is_not_asked_for_repair_packets() {
    let text = sample("chromium_publish").replace(" 120\r\n", " 120 49\r\na=rtpmap:49 flexfec-03/90000\r\n");
    assert_ne!(text, sample("chromium_publish"));
    let offer = parse_offer(&text).expect("readable");
    let policy = Policy { fec: true, ..Policy::publish() };
    let answer = answer_publish(&offer, &server(), &policy).expect("answered");
    assert!(answer.tracks.iter().all(|track| track.fec.is_none()));
    assert!(!answer.sdp.contains("flexfec"), "{}", answer.sdp);
}

#[test]
fn viewers_without_a_codec_of_the_stream_are_refused() {
    let published = stream("safari_publish", &[Codec::H265]);
    let offer = parse_offer(sample("firefox_play")).expect("readable");
    let refused = answer_play(&offer, &server(), &Policy::play(), &published);
    assert_eq!(refused, Err(NegotiationError::NoCommonCodec));
    let offer = parse_offer(sample("chromium_publish")).expect("readable");
    let refused = answer_play(&offer, &server(), &Policy::play(), &published);
    assert_eq!(refused, Err(NegotiationError::NothingInThisDirection));
}

#[test]
fn generic_nack_is_agreed_on_for_formats_with_retransmissions_or_for_all_without_any() {
    let published = stream("chromium_publish", &[Codec::Opus, Codec::Vp8]);
    let session = sample("chromium_play").to_owned();
    // A viewer with retransmission for audio too, and with one video format that has lost its RTX.
    let session = session.replace("a=rtpmap:111 ", "a=rtcp-fb:111 nack\r\na=rtpmap:111 ");
    let without = session.replace("apt=96\r\n", "apt=126\r\n");
    assert_ne!(session, without);
    for (text, vp8) in [(session, true), (without, false)] {
        let offer = parse_offer(&text).expect("readable");
        assert!(offer.media[0].formats[0].feedback.nack, "it is offered for audio");
        let answer = answer_play(&offer, &server(), &Policy::play(), &published).expect("answered");
        for format in answer.tracks.iter().flat_map(|track| &track.formats) {
            // Those of audio have none.
            let is_resent = format.rtx_payload_type.is_some() || format.payload_type == 111;
            assert_eq!(format.feedback.nack, is_resent, "{format:?}");
            let line = format!("a=rtcp-fb:{} nack\r\n", format.payload_type);
            assert_eq!(answer.sdp.contains(&line), format.feedback.nack, "{}", answer.sdp);
        }
        let video = answer.tracks[1].format();
        assert_eq!((video.payload_type, video.feedback.nack, video.feedback.pli), (96, vp8, true));
        assert!(answer.tracks[1].formats.iter().any(|format| format.feedback.nack), "others keep it");
    }
    // Without any RTX the same packets are sent again.
    let offer = parse_offer(sample("chromium_play")).expect("readable");
    let policy = Policy { rtx: false, ..Policy::play() };
    let answer = answer_play(&offer, &server(), &policy, &published).expect("answered");
    let video = &answer.tracks[1];
    assert!(video.formats.iter().all(|format| format.feedback.nack), "{:?}", video.formats);
    assert_eq!(video.sources[0].rtx_ssrc, None);
}

/// Reports by SSRC and sequence number say all that others do, marks besides, and packets need no number.
#[test]
fn congestion_feedback_is_taken_where_it_is_offered_and_replaces_numbers() {
    let published = stream("chromium_publish", &[Codec::Opus, Codec::Vp8]);
    let with =
        |line: &str| sample("chromium_play").replace("a=rtcp-mux\r\n", &format!("a=rtcp-mux\r\n{line}\r\n"));
    let offer = parse_offer(&with("a=rtcp-fb:* ack ccfb")).expect("readable");
    let answer = answer_play(&offer, &server(), &Policy::play(), &published).expect("answered");
    assert_eq!(answer.sdp.matches("a=rtcp-fb:* ack ccfb\r\n").count(), 2, "{}", answer.sdp);
    assert!(!answer.sdp.contains("transport-"), "{}", answer.sdp);
    for track in &answer.tracks {
        assert!(track.formats.iter().all(|format| format.feedback.ccfb && !format.feedback.transport_cc));
        assert_eq!(track.extensions.id_of(Extension::TransportCc), None);
    }
    let plain = answer_play(&offer, &server(), &Policy::play().without_estimation(), &published);
    assert!(!plain.expect("answered").sdp.contains("ccfb"));
    // It is for all formats or none.
    let offer = parse_offer(&with("a=rtcp-fb:96 ack ccfb")).expect("readable");
    let answer = answer_play(&offer, &server(), &Policy::play(), &published).expect("answered");
    assert!(!answer.sdp.contains("ccfb") && answer.sdp.contains("transport-cc"), "{}", answer.sdp);
}
