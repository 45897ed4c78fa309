//! Two nodes, and between them the simplest thing that can carry a stream: what a tap of one gives is
//! published on the other.

use std::sync::Arc;

use media::FrameRole;
use worker_api::internal::Publisher;
use worker_api::snapshot::Protocol;
use worker_api::streams::{Epoch, Published, WebrtcAvailability};
use worker_api::tap::{Tap, TapItem};

use crate::common::cluster::Report;
use crate::common::rtmp::RtmpClient;
use crate::common::{Node, sample, until};

const UNKNOWN: Published = Published::Frames(WebrtcAvailability::Unknown);

/// Carries `live/mill` to a node until one side ends.
async fn carry(mut tap: Tap, to: Arc<Node>) {
    let mut present: Option<(Epoch, Publisher)> = None;
    while let Ok(item) = tap.next().await {
        let frames = match item {
            TapItem::Start { epoch, frames } => {
                let publisher = to.publish(1, "mill", Protocol::Node).await.expect("nobody publishes it");
                present = Some((epoch, publisher));
                frames
            }
            TapItem::Frame(frame) => vec![frame],
            TapItem::Gap { .. } => panic!("it reads at once"),
            TapItem::Stop => {
                present = None;
                continue;
            }
        };
        let Some((_, publisher)) = &mut present else { panic!("a frame of no publication") };
        for frame in frames {
            if publisher.send(frame).await.is_err() {
                return;
            }
        }
        publisher.flush();
    }
}

#[tokio::test]
async fn a_player_on_one_node_gets_what_is_published_on_the_other_as_it_came() {
    let (home, edge) = (Node::start_usual(), Arc::new(Node::start_usual()));
    let frames = sample();
    let mut player = RtmpClient::play(edge.rtmp(), "live/mill").await.expect("it waits");
    assert_eq!(edge.cluster.next("live/mill").await, Report::Wanted);
    let mut publisher = RtmpClient::publish(home.rtmp(), "live/mill").await.expect("it is free");
    edge.cluster.publish("live/mill", UNKNOWN);
    let tap = home.tap(0, "mill").await.expect("a tap");
    let carrying = tokio::spawn(carry(tap, Arc::clone(&edge)));
    until("it is carried", async || {
        let fetched = edge.sessions(|session| session.protocol == Protocol::Node).await;
        (!fetched.is_empty()).then_some(())
    })
    .await;
    // It waited, and begins where a player would that came later: with headers, at a key frame.
    let first = frames.iter().position(|frame| frame.role == FrameRole::Key).expect("a key frame");
    for frame in &frames[..=first] {
        publisher.send(frame).await;
    }
    while player.next_frame().await.data() != frames[first].data() {}
    for frame in &frames[first + 1..] {
        publisher.send(frame).await;
    }
    for expected in &frames[first + 1..] {
        let got = player.next_frame().await;
        assert_eq!((got.role, got.track), (expected.role, expected.track));
        assert!(got.data() == expected.data(), "{} bytes, {}", got.bytes(), expected.bytes());
    }
    // The publisher's connection is lost, and it comes back to the other node.
    edge.cluster.unpublish("live/mill");
    drop(publisher);
    until("the home has let it go", async || {
        edge.sessions(|session| session.protocol == Protocol::Node).await.is_empty().then_some(())
    })
    .await;
    let mut publisher = RtmpClient::publish(edge.rtmp(), "live/mill").await.expect("it is free");
    for frame in &frames[..50] {
        publisher.send(frame).await;
    }
    while player.next_frame().await.role != FrameRole::Key {}
    carrying.abort();
}
