//! What players of WebRTC are answered for streams of RTMP: what a bridge makes of them, or why
//! there is nothing.

use super::*;

#[tokio::test]
async fn players_of_streams_of_rtmp_get_what_a_bridge_makes_of_them() {
    let server = server();
    let answer = server.post("/whep/live/bridged", play_offer()).await;
    assert_eq!(answer.status, 201, "{}", answer.body);
    assert!(
        answer.body.contains("a=rtpmap:96 H264/90000") && answer.body.contains("a=rtpmap:111 opus/48000/2")
    );
    {
        let opened = server.workers.opened.lock().expect("not poisoned");
        assert_eq!((opened[0].role, opened[0].published.as_slice()), (RtcRole::Play, &[0, 0][..]));
    }
    for (path, inactive) in [("/whep/live/silent", [true, false]), ("/whep/live/radio", [false, true])] {
        let answer = server.post(path, play_offer()).await;
        assert_eq!(answer.status, 201, "{path}: {}", answer.body);
        let (audio, video) = answer.body.split_once("m=video").expect("video");
        let found = [audio, video].map(|media| media.contains("a=inactive\r\n"));
        assert_eq!(found, inactive, "{path}: what is not there does not come");
    }
    let without_video =
        play_offer().split_once("m=video").expect("video").0.replace("BUNDLE 0 1", "BUNDLE 0");
    for path in ["/whep/live/422", "/whep/live/audio_only"] {
        let audio = server.post(path, without_video.clone()).await;
        assert_eq!(audio.status, 201, "who wants the audio alone gets it: {}", audio.body);
    }
}

#[tokio::test]
async fn players_are_told_what_a_stream_needs_and_what_they_lack() {
    let server = server();
    let cases = [
        (
            "/whep/live/audio_only",
            play_offer(),
            "video: the stream has B-frames; play the stream by RTMP or FLV",
        ),
        ("/whep/live/frames", play_offer(), "video: the stream has B-frames; play the stream by RTMP or FLV"),
        (
            "/whep/live/422",
            play_offer(),
            "the stream's video is H.264 High 4:2:2 (profile-level-id 7a0028), and this player takes H.264 Constrained Baseline",
        ),
        (
            "/whep/live/h265",
            play_offer(),
            "the stream's video is H.265 Main, and this player takes H.264 Constrained Baseline",
        ),
        (
            "/whep/live/h265",
            offer("recvonly", "X9/90000"),
            "the stream's video is H.265 Main, and this player offers no codec that is known here",
        ),
        (
            "/whep/live/radio",
            play_offer().replace("opus/48000/2", "speex/8000"),
            "the stream's audio is Opus, and this player offers no codec that is known here",
        ),
    ];
    for (path, body, message) in cases {
        let answer = server.post(path, body).await;
        assert_eq!(answer.status, 406, "{path}: {}", answer.body);
        let said: Value = serde_json::from_str(&answer.body).expect("JSON");
        assert_eq!(said["error"]["message"], message, "{path}");
    }
}

#[test]
fn ways_to_play_are_those_that_the_publisher_and_bridges_allow() {
    let server = server();
    let cases = [
        ("live", "nobody", (true, true), None),
        ("live", "begun", (true, true), None),
        ("live", "packets", (true, true), None),
        ("live", "bridged", (true, true), None),
        ("live", "audio_only", (true, true), Some(B_FRAMES)),
        ("live", "frames", (true, false), Some(B_FRAMES)),
        ("unbridged", "packets", (false, true), Some(NotBridged::ToFramesOff)),
    ];
    for (app, name, options, note) in cases {
        let found = server.context.rtc.playback_options(app, name);
        assert_eq!((found.frames, found.packets), options, "{app}/{name}");
        assert_eq!(found.note, note, "{app}/{name}");
    }
}
