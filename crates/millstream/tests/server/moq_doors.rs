//! What comes by MoQ plays everywhere, and what comes by RTMP plays by MoQ, byte for byte.

use std::time::Duration;

use media::FrameRole;
use moq::catalog::CatalogReader;
use moq::outgoing::read_payload;
use rtmp::MediaKind;
use rtmp::flv::{Tag, read_frames};

use crate::common::flv::{is_frame, sample_tags};
use crate::common::http;
use crate::common::moq::{MoqClient, TrackReader, runtime, soon};
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;

const MOQ: &str = "[moq]\nlisten = [\"127.0.0.1:0\"]\n";
/// Longer than a test takes: nothing is late.
const PATIENT: Duration = Duration::from_secs(60);

/// Time of presentation in microseconds and data of the frames of a kind.
fn frames_of(tags: &[Tag], kind: MediaKind) -> Vec<(u64, Vec<u8>)> {
    let of_kind = tags.iter().filter(|tag| tag.kind == kind).filter(is_frame);
    let frames = of_kind.filter_map(|tag| read_frames(tag.clone().into()).ok());
    let frames = frames.map(|(frame, _)| frame).filter(|frame| frame.role != FrameRole::Config);
    frames.map(|frame| (frame.pts.micros().max(0).cast_unsigned(), frame.data().to_vec())).collect()
}

#[test]
fn what_is_published_by_rtmp_is_played_by_moq() {
    let server = Server::start(MOQ);
    let hash = http::get(server.http, "/certificate.sha256").expect("answered");
    assert_eq!(
        (hash.status, hash.text().len(), hash.header("access-control-allow-origin")),
        (200, 64, Some("*"))
    );
    let tags = sample_tags();
    runtime().block_on(async {
        let mut publisher = RtmpClient::publish(server.rtmp, "live/cam");
        publisher.send_tags(&tags);
        let client = MoqClient::connect(&server, "live").await;
        let broadcast = client.broadcast("cam").await;
        let mut catalog = TrackReader::subscribe(&broadcast, "catalog.json", PATIENT).await;
        let mut reader = CatalogReader::default();
        let read = loop {
            let frame = catalog.next().await.expect("a catalogue");
            if frame.is_first {
                reader.begin_group();
            }
            let read = reader.frame(&frame.payload).expect("a catalogue");
            // The first one may have come between the configurations.
            if read.video.is_some() && read.audio.is_some() {
                break read;
            }
        };
        let video = &read.video.expect("video").renditions["video0"];
        assert!(video.codec.starts_with("avc1.") && video.description.is_some(), "{video:?}");
        assert_eq!(read.audio.expect("audio").renditions["audio0"].codec, "mp4a.40.2");
        let mut track = TrackReader::subscribe(&broadcast, "video0", PATIENT).await;
        let first = track.next().await.expect("the last key frame and what came since");
        assert!(first.is_first);
        let sent = frames_of(&tags, MediaKind::Video);
        let mut frame = first;
        let (time, data) = read_payload(&frame.payload).expect("a frame");
        let begins = sent.iter().position(|(at, sent)| (*at, &**sent) == (time, data)).expect("it was sent");
        for (index, expected) in sent.iter().enumerate().skip(begins) {
            let (time, data) = read_payload(&frame.payload).expect("a frame");
            assert_eq!((time, data), (expected.0, &*expected.1), "frame {index}");
            if index + 1 < sent.len() {
                frame = track.next().await.expect("the next");
            }
        }
        let sessions = server.sessions("role=player&stream=live/cam");
        assert_eq!((sessions.len(), &sessions[0]["protocol"]), (1, &"moq".into()));
        let _ = soon("the session ends", client.session.close()).await;
    });
}

#[test]
fn a_stream_is_announced_while_it_is_published_and_its_tracks_are_others_the_next_time() {
    let server = Server::start(MOQ);
    let tags = sample_tags();
    let publish = || {
        let mut publisher = RtmpClient::publish(server.rtmp, "live/cam");
        publisher.send_tags(&tags[..40]);
        publisher
    };
    runtime().block_on(async {
        let client = MoqClient::connect(&server, "live").await;
        let mut announced = client.play.announced();
        let publisher = publish();
        let update = soon("an announcement", announced.next()).await.expect("the session goes on");
        assert_eq!((update.prefix.as_str(), update.kind.is_active()), ("cam", true));
        drop(publisher);
        let update = soon("a retraction", announced.next()).await.expect("the session goes on");
        assert_eq!((update.prefix.as_str(), update.kind.is_active()), ("cam", false));
        // Whose URL names the stream can wait for it, and goes on when it comes back.
        let waiting = MoqClient::connect(&server, "live/cam").await;
        let broadcast = waiting.broadcast("").await;
        let mut catalog = TrackReader::subscribe(&broadcast, "catalog.json", PATIENT).await;
        for name in ["video0", "video0.1"] {
            let publisher = publish();
            let mut reader = CatalogReader::default();
            loop {
                let frame = catalog.next().await.expect("a catalogue");
                reader.begin_group();
                let read = reader.frame(&frame.payload).expect("a catalogue");
                if read.video.is_some_and(|video| video.renditions.contains_key(name)) {
                    break;
                }
            }
            drop(publisher);
            server.wait_for_publisher("live/cam", false);
        }
    });
}

#[test]
fn a_subscriber_that_has_left_a_stream_can_come_back_in_its_session() {
    let server = Server::start(MOQ);
    let mut publisher = RtmpClient::publish(server.rtmp, "live/cam");
    publisher.send_tags(&sample_tags()[..40]);
    runtime().block_on(async {
        let client = MoqClient::connect(&server, "live/cam").await;
        let mut announced = client.play.announced();
        for round in 0..2 {
            while !soon("an announcement", announced.next()).await.expect("more").kind.is_active() {}
            let broadcast = client.broadcast("").await;
            let mut catalog = TrackReader::subscribe(&broadcast, "catalog.json", PATIENT).await;
            assert!(catalog.next().await.is_some(), "round {round}");
            let mut track = TrackReader::subscribe(&broadcast, "video0", PATIENT).await;
            assert!(track.next().await.is_some(), "round {round}");
            server.wait_for_players("live/cam", 1);
            drop((track, catalog, broadcast));
            while soon("a retraction", announced.next()).await.expect("more").kind.is_active() {}
            server.wait_for_players("live/cam", 0);
        }
    });
}
