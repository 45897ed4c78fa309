//! Offers of viewers are answered with the tracks a stream has, in formats the viewer takes
//! unchanged.

use crate::common::offers::{sample, server};
use rtc::sdp::{NegotiationError, Policy, TrackDescription, answer_play, answer_publish, parse_offer};
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
            (4, Extension::Mid),
            (5, Extension::AbsCaptureTime),
            (9, Extension::DependencyDescriptor),
            (12, Extension::PlayoutDelay),
            (13, Extension::VideoOrientation),
        ]
    );
    assert!(!answer.sdp.contains("transport-cc") && answer.sdp.contains("goog-remb"), "{}", answer.sdp);
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
fn generic_nack_is_agreed_on_for_formats_with_retransmissions_only() {
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
            assert_eq!(format.feedback.nack, format.rtx_payload_type.is_some(), "{format:?}");
            let line = format!("a=rtcp-fb:{} nack\r\n", format.payload_type);
            assert_eq!(answer.sdp.contains(&line), format.feedback.nack, "{}", answer.sdp);
        }
        let video = answer.tracks[1].format();
        assert_eq!((video.payload_type, video.feedback.nack, video.feedback.pli), (96, vp8, true));
        assert!(answer.tracks[1].formats.iter().any(|format| format.feedback.nack), "others keep it");
    }
}
