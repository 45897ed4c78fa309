//! A name that another node has is refused or taken over, and one that was lost to another node is given up.

use worker_api::EndReason;
use worker_api::internal::Refusal;
use worker_api::rtc::RtcRefusal;
use worker_api::settings::{ApplicationSettings, SecondPublisher};
use worker_api::snapshot::Protocol;
use worker_api::streams::{Epoch, Published, WebrtcAvailability};

use crate::common::cluster::Report;
use crate::common::rtc::turn_until;
use crate::common::rtmp::RtmpClient;
use crate::common::{Node, rtc};

const UNKNOWN: Published = Published::Frames(WebrtcAvailability::Unknown);

#[tokio::test]
async fn a_publisher_is_told_that_the_stream_is_published_on_another_node() {
    let node = Node::start_usual();
    node.cluster.publish("live/mill", UNKNOWN);
    let refusal = RtmpClient::publish(node.rtmp(), "live/mill").await.err().expect("it is refused");
    assert!(refusal.contains("on another node"), "{refusal}");
    assert_eq!(rtc::publish(&node, 0, "mill").await.err(), Some(RtcRefusal::TakenElsewhere));
    let source = node.publish(0, "mill", Protocol::Channel).await;
    assert_eq!(source.err(), Some(Refusal::TakenElsewhere));
    assert_eq!(node.cluster.unseen(), [], "nothing has begun");
    node.cluster.unpublish("live/mill");
    RtmpClient::publish(node.rtmp(), "live/mill").await.expect("it is free");
}

#[tokio::test]
async fn an_encoder_that_moves_to_this_node_is_faster_than_the_news_of_its_end_elsewhere() {
    let node = Node::start_usual();
    node.cluster.publish("live/mill", UNKNOWN);
    let publishes = RtmpClient::publish(node.rtmp(), "live/mill");
    let news = async {
        // Its claim has been refused once by now, or will succeed.
        tokio::task::yield_now().await;
        node.cluster.unpublish("live/mill");
    };
    let (publishes, ()) = tokio::join!(publishes, news);
    publishes.expect("it is asked for again");
}

#[tokio::test]
async fn where_newcomers_take_over_they_do_so_across_nodes_and_sources_never_do() {
    let settings =
        ApplicationSettings { second_publisher: SecondPublisher::TakeOver, ..ApplicationSettings::default() };
    let node = Node::start(settings);
    for (stream, is_rtc) in [("mill", false), ("cam", true)] {
        let key = format!("live/{stream}");
        node.cluster.publish(&key, UNKNOWN);
        let source = node.publish(0, stream, Protocol::Pull).await;
        assert_eq!(source.err(), Some(Refusal::TakenElsewhere));
        let (mut by_rtmp, mut by_rtc) = (None, None);
        match is_rtc {
            false => by_rtmp = Some(RtmpClient::publish(node.rtmp(), &key).await.expect("it takes over")),
            true => by_rtc = Some(rtc::publish(&node, 0, stream).await.expect("it takes over")),
        }
        let report = node.cluster.next(&key).await;
        assert!(matches!(report, Report::Started { takes_over: true, .. }), "{report:?}");
        assert_eq!((by_rtmp.is_some(), by_rtc.is_some()), (!is_rtc, is_rtc));
        if let Some(publisher) = by_rtmp {
            drop(publisher);
            let report = node.cluster.next(&key).await;
            assert!(matches!(report, Report::Ended { .. }), "{report:?}");
        }
    }
}

#[tokio::test]
async fn a_publication_that_lost_its_name_ends_and_says_why_and_a_newer_one_is_left_alone() {
    let node = Node::start_usual();
    let end = async |worker, epoch| {
        let reason = EndReason::PublishedElsewhere;
        node.handles.end_publication(worker, "live/mill", epoch, reason).await.expect("an answer")
    };
    assert!(!end(0, Epoch(1)).await, "nobody publishes");
    let mut player = node.tap(0, "mill").await.expect("it waits");
    assert_eq!(node.cluster.next("live/mill").await, Report::Wanted);

    let mut publisher = RtmpClient::publish(node.rtmp(), "live/mill").await.expect("it is free");
    assert_eq!(node.cluster.next("live/mill").await, Report::Unwanted);
    let Report::Started { epoch, worker, .. } = node.cluster.next("live/mill").await else { panic!() };
    assert!(!end(worker, Epoch(epoch.0 - 1)).await, "an older one");
    assert!(!end(1 - worker, epoch).await, "not there");
    assert!(end(worker, epoch).await);
    let said = publisher.end().await;
    assert!(said.contains(EndReason::PublishedElsewhere.text()), "{said}");
    assert_eq!(node.cluster.next("live/mill").await, Report::Ended { epoch });
    assert_eq!(node.cluster.next("live/mill").await, Report::Wanted);

    let mut publisher = rtc::publish(&node, 1, "mill").await.expect("it is free");
    assert_eq!(node.cluster.next("live/mill").await, Report::Unwanted);
    let Report::Started { epoch: second, worker: 1, .. } = node.cluster.next("live/mill").await else {
        panic!();
    };
    assert!(!end(1, epoch).await && second > epoch, "the first has ended");
    assert!(end(1, second).await);
    turn_until(&mut publisher, "its session ends", |publisher| publisher.closed).await;
    assert_eq!(node.ended("taken_over").await, 2);
    assert_eq!(node.sessions(|session| session.id == player.session()).await.len(), 1, "players stay");
    assert!(player.try_next().is_some());
}
