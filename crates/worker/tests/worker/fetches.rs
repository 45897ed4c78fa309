//! Streams of other nodes: players wait for them and stay, and what is fetched is in nobody's way.

use std::time::Duration;

use media::FrameRole;
use rtp::payload::Codec;
use worker_api::EndReason;
use worker_api::internal::Refusal;
use worker_api::settings::ApplicationSettings;
use worker_api::snapshot::Protocol;
use worker_api::streams::{Published, WebrtcAvailability};

use crate::common::cluster::Report;
use crate::common::rtc::turn_until;
use crate::common::rtmp::RtmpClient;
use crate::common::{Node, names, rtc, sample, send, until};

const UNKNOWN: Published = Published::Frames(WebrtcAvailability::Unknown);

/// A node whose players do not wait for publishers.
fn impatient() -> Node {
    let settings = ApplicationSettings {
        wait_for_publisher: Some(Duration::ZERO),
        merge_latency: Duration::ZERO,
        ..ApplicationSettings::default()
    };
    Node::start(settings)
}

#[tokio::test]
async fn a_fetched_stream_is_not_reported_and_gives_way_to_every_publisher() {
    let node = Node::start_usual();
    let mut fetched = node.publish(0, "mill", Protocol::Node).await.expect("it is free");
    let mut second = node.publish(1, "mill", Protocol::Node).await.expect("another parent");
    assert_eq!(fetched.ended().await, EndReason::TakenOver);
    let client = RtmpClient::publish(node.rtmp(), "live/mill").await.expect("it is in nobody's way");
    assert_eq!(second.ended().await, EndReason::TakenOver);
    let Report::Started { epoch, .. } = node.cluster.next("live/mill").await else { panic!() };
    assert_eq!(node.publish(0, "mill", Protocol::Node).await.err(), Some(Refusal::Taken));
    drop(client);
    assert_eq!(node.cluster.next("live/mill").await, Report::Ended { epoch });

    // A source of the server, and one by WebRTC.
    let mut fetched = node.publish(0, "mill", Protocol::Node).await.expect("it is free");
    let source = node.publish(1, "mill", Protocol::Channel).await.expect("it is in nobody's way");
    assert_eq!(fetched.ended().await, EndReason::TakenOver);
    source.finish().await;
    let mut fetched = node.publish(0, "mill", Protocol::Node).await.expect("it is free");
    let _client = rtc::publish(&node, 1, "mill").await.expect("it is in nobody's way");
    assert_eq!(fetched.ended().await, EndReason::TakenOver);
    assert_eq!(
        names(&node.sessions(|_| true).await).into_iter().collect::<Vec<_>>(),
        [("whip".to_owned(), 1)]
    );
}

#[tokio::test]
async fn players_who_do_not_wait_for_publishers_wait_for_a_fetch_and_stay_between_two() {
    let node = impatient();
    let refusal = RtmpClient::play(node.rtmp(), "live/mill").await.err().expect("nobody has it");
    assert!(refusal.contains("no such stream"), "{refusal}");
    assert_eq!(node.cluster.unseen(), [], "a stream that nobody has was not wanted");
    node.cluster.publish("live/mill", UNKNOWN);
    let mut players = Vec::new();
    // With two workers, several reach both.
    for _ in 0..6 {
        players.push(RtmpClient::play(node.rtmp(), "live/mill").await.expect("another node has it"));
    }
    assert_eq!(node.cluster.next("live/mill").await, Report::Wanted);
    let frames = sample();
    let mut last = vec![-1; players.len()];
    for worker in [0, 1, 1] {
        let mut fetched = node.publish(worker, "mill", Protocol::Node).await.expect("it is free");
        send(&mut fetched, &frames[..40]).await;
        for (player, last) in players.iter_mut().zip(&mut last) {
            let mut key_frames = 0;
            while key_frames == 0 {
                let frame = player.next_frame().await;
                assert!(frame.dts.millis() >= *last, "time goes on");
                *last = frame.dts.millis();
                key_frames += usize::from(frame.role == FrameRole::Key);
            }
        }
        // The link is lost.
        drop(fetched);
        until("it ends", async || {
            node.sessions(|session| session.protocol == Protocol::Node).await.is_empty().then_some(())
        })
        .await;
    }
    assert_eq!(node.sessions(|_| true).await.len(), players.len());
    assert_eq!(node.cluster.unseen(), [], "it was wanted all the time");
    // The home's publisher ends as well.
    node.cluster.unpublish("live/mill");
    let fetched = node.publish(0, "mill", Protocol::Node).await.expect("it is free");
    fetched.finish().await;
    for mut player in players {
        let said = player.end().await;
        assert!(said.contains(EndReason::NoPublisher.text()), "{said}");
    }
    assert_eq!(node.cluster.next("live/mill").await, Report::Unwanted);
}

#[tokio::test]
async fn a_publisher_that_comes_here_while_the_stream_is_fetched_goes_on_for_the_same_players() {
    let node = impatient();
    node.cluster.publish("live/mill", UNKNOWN);
    let mut player = RtmpClient::play(node.rtmp(), "live/mill").await.expect("another node has it");
    assert_eq!(node.cluster.next("live/mill").await, Report::Wanted);
    let frames = sample();
    let mut fetched = node.publish(0, "mill", Protocol::Node).await.expect("it is free");
    send(&mut fetched, &frames[..20]).await;
    player.next_frame().await;
    // The publisher has moved: it ends there, and begins here before this node has let go of the stream.
    node.cluster.unpublish("live/mill");
    let mut publisher = RtmpClient::publish(node.rtmp(), "live/mill").await.expect("it is free");
    assert_eq!(node.cluster.next("live/mill").await, Report::Unwanted);
    let Report::Started { epoch, .. } = node.cluster.next("live/mill").await else { panic!() };
    for frame in &frames[..60] {
        publisher.send(frame).await;
    }
    let marked = frames[..60].iter().rfind(|frame| frame.role == FrameRole::Audio).expect("audio");
    while player.next_frame().await.data() != marked.data() {}
    // And back.
    node.cluster.publish("live/mill", UNKNOWN);
    drop(publisher);
    let report = node.cluster.next("live/mill").await;
    assert!(matches!(report, Report::Changed { .. }), "{report:?}");
    assert_eq!(node.cluster.next("live/mill").await, Report::Ended { epoch });
    assert_eq!(node.cluster.next("live/mill").await, Report::Wanted);
    let mut fetched = node.publish(1, "mill", Protocol::Node).await.expect("it is free");
    send(&mut fetched, &frames).await;
    let marked = frames.iter().rfind(|frame| frame.role == FrameRole::Audio).expect("audio");
    while player.next_frame().await.data() != marked.data() {}
}

#[tokio::test]
async fn a_player_who_comes_back_before_the_stream_is_let_go_has_it_at_once() {
    let node = impatient();
    node.cluster.publish("live/mill", UNKNOWN);
    let first = RtmpClient::play(node.rtmp(), "live/mill").await.expect("another node has it");
    assert_eq!(node.cluster.next("live/mill").await, Report::Wanted);
    let mut fetched = node.publish(0, "mill", Protocol::Node).await.expect("it is free");
    send(&mut fetched, &sample()[..40]).await;
    drop(first);
    assert_eq!(node.cluster.next("live/mill").await, Report::Unwanted);
    let mut again = RtmpClient::play(node.rtmp(), "live/mill").await.expect("it is here");
    assert_eq!(node.cluster.next("live/mill").await, Report::Wanted);
    while again.next_frame().await.role != FrameRole::Key {}
    // And one who comes when it was let go at that very moment waits for the next fetch.
    drop(again);
    assert_eq!(node.cluster.next("live/mill").await, Report::Unwanted);
    fetched.finish().await;
    let mut again = RtmpClient::play(node.rtmp(), "live/mill").await.expect("another node has it");
    assert_eq!(node.cluster.next("live/mill").await, Report::Wanted);
    let mut fetched = node.publish(1, "mill", Protocol::Node).await.expect("it is free");
    send(&mut fetched, &sample()[..40]).await;
    while again.next_frame().await.role != FrameRole::Key {}
}

#[tokio::test]
async fn a_player_by_webrtc_is_answered_before_the_stream_is_fetched() {
    let node = impatient();
    let frames = sample();
    // What a node says of the sample.
    let mut publisher = node.publish(0, "mill", Protocol::Channel).await.expect("it is free");
    let Report::Started { epoch, .. } = node.cluster.next("live/mill").await else { panic!() };
    send(&mut publisher, &frames[..20]).await;
    let Report::Changed { published, .. } = node.cluster.next("live/mill").await else { panic!() };
    publisher.finish().await;
    assert_eq!(node.cluster.next("live/mill").await, Report::Ended { epoch });
    assert_eq!((node.published)("live/mill"), Published::Nobody);

    let bytes = published.to_bytes().expect("it is small");
    node.cluster.publish("live/mill", Published::from_bytes(&bytes).expect("as it was written"));
    let mut viewer = rtc::play(&node, 1, "mill", Some(Codec::H264)).await.expect("another node has it");
    assert_eq!(node.cluster.next("live/mill").await, Report::Wanted);
    let mut fetched = node.publish(0, "mill", Protocol::Node).await.expect("it is free");
    assert_eq!((node.published)("live/mill"), published, "its home knows more as long as nothing has come");
    send(&mut fetched, &frames[..100]).await;
    turn_until(&mut viewer, "media arrives", |viewer| viewer.media.len() > 20).await;
    assert_eq!(node.cluster.unseen(), []);
}

#[tokio::test]
async fn a_stream_that_another_node_publishes_as_packets_is_answered_by_its_tracks() {
    let node = impatient();
    let publisher = rtc::publish(&node, 0, "cam").await.expect("it is free");
    let Report::Started { published, epoch, .. } = node.cluster.next("live/cam").await else { panic!() };
    let reason = EndReason::Kicked;
    assert_eq!(node.handles.end_publication(0, "live/cam", epoch, reason).await, Ok(true));
    assert_eq!(node.cluster.next("live/cam").await, Report::Ended { epoch });
    drop(publisher);
    let bytes = published.to_bytes().expect("it is small");
    node.cluster.publish("live/cam", Published::from_bytes(&bytes).expect("as it was written"));
    assert_eq!((node.published)("live/cam"), published);
    let viewer = rtc::play(&node, 1, "cam", None).await.expect("another node has it");
    assert!(viewer.is_connected());
    assert_eq!(node.cluster.next("live/cam").await, Report::Wanted);
    // Players of frames are let in as well. On a busy machine the viewer may have waited too long by then, and
    // the stream is wanted again.
    let _player = RtmpClient::play(node.rtmp(), "live/cam").await.expect("another node has it");
    let unseen = node.cluster.unseen();
    let is_of_players = |(_, report): &(String, Report)| matches!(report, Report::Wanted | Report::Unwanted);
    assert!(unseen.iter().all(is_of_players), "{unseen:?}");
}
