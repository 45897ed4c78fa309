//! The cluster is told what this node wants and publishes: each change once, in order.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use worker_api::settings::{ApplicationSettings, SecondPublisher};
use worker_api::snapshot::Protocol;
use worker_api::streams::{Published, WebrtcAvailability};

use crate::common::cluster::Report;
use crate::common::rtmp::RtmpClient;
use crate::common::{Node, rtc, sample, send, until};

const UNKNOWN: Published = Published::Frames(WebrtcAvailability::Unknown);

#[tokio::test]
async fn players_of_all_workers_and_lanes_want_a_stream_once() {
    let node = Node::start_usual();
    let first = node.tap(0, "mill").await.expect("it waits");
    assert_eq!(node.cluster.next("live/mill").await, Report::Wanted);
    let second = node.tap(1, "mill").await.expect("it waits");
    let mut players = Vec::new();
    for _ in 0..4 {
        players.push(RtmpClient::play(node.rtmp(), "live/mill").await.expect("it waits"));
    }
    assert_eq!((node.wanted)(), ["live/mill"]);
    drop((first, second));
    players.truncate(1);
    until("one is left", async || (node.sessions(|_| true).await.len() == 1).then_some(())).await;
    assert_eq!(node.cluster.unseen(), []);
    players.clear();
    assert_eq!(node.cluster.next("live/mill").await, Report::Unwanted);
    assert_eq!((node.wanted)(), [""; 0]);
    let _again = node.tap(1, "mill").await.expect("it waits");
    assert_eq!(node.cluster.next("live/mill").await, Report::Wanted);
}

#[tokio::test]
async fn a_publisher_is_reported_with_what_becomes_known_of_it() {
    let node = Node::start_usual();
    let mut publisher = node.publish(1, "mill", Protocol::Channel).await.expect("nobody else publishes");
    let Report::Started { epoch, worker, published, takes_over } = node.cluster.next("live/mill").await
    else {
        panic!("it was not reported");
    };
    assert_eq!((worker, published, takes_over), (1, UNKNOWN, false));
    let frames = sample();
    // Headers that say the same again are no news.
    send(&mut publisher, &frames[..20]).await;
    send(&mut publisher, &frames[..20]).await;
    let Report::Changed { epoch: of, published } = node.cluster.next("live/mill").await else {
        panic!("no change was reported");
    };
    assert_eq!((of, &published), (epoch, &(node.published)("live/mill")));
    assert_eq!(published.codecs(), ["Opus", "H.264"]);
    publisher.finish().await;
    assert_eq!(node.cluster.next("live/mill").await, Report::Ended { epoch });
    assert_eq!(node.cluster.unseen(), []);
}

#[tokio::test]
async fn players_want_a_stream_again_when_its_publisher_here_has_gone() {
    let node = Node::start_usual();
    let _player = node.tap(0, "mill").await.expect("it waits");
    assert_eq!(node.cluster.next("live/mill").await, Report::Wanted);
    let publisher = rtc::publish(&node, 1, "mill").await.expect("nobody else publishes");
    assert_eq!(node.cluster.next("live/mill").await, Report::Unwanted);
    let Report::Started { epoch, worker: 1, published: Published::Packets(tracks), .. } =
        node.cluster.next("live/mill").await
    else {
        panic!("it was not reported");
    };
    assert_eq!(tracks.len(), 2);
    let (key, reason) = ("live/mill", worker_api::EndReason::Kicked);
    assert_eq!(node.handles.end_publication(1, key, epoch, reason).await, Ok(true));
    assert_eq!(node.cluster.next("live/mill").await, Report::Ended { epoch });
    assert_eq!(node.cluster.next("live/mill").await, Report::Wanted);
    drop(publisher);
    assert_eq!(node.cluster.unseen(), []);
}

#[tokio::test]
async fn one_that_replaces_another_here_is_reported_and_the_other_has_not_ended() {
    let settings =
        ApplicationSettings { second_publisher: SecondPublisher::TakeOver, ..ApplicationSettings::default() };
    let node = Node::start(settings);
    let mut epochs = Vec::new();
    let mut publishers = Vec::new();
    for _ in 0..3 {
        publishers.push(RtmpClient::publish(node.rtmp(), "live/mill").await.expect("it takes over"));
        let Report::Started { epoch, takes_over: true, .. } = node.cluster.next("live/mill").await else {
            panic!("it was not reported");
        };
        epochs.push(epoch);
    }
    assert!(epochs.is_sorted_by(|before, after| before < after), "{epochs:?}");
    drop(publishers);
    assert_eq!(node.cluster.next("live/mill").await, Report::Ended { epoch: epochs[2] });
    until("all sessions end", async || node.sessions(|_| true).await.is_empty().then_some(())).await;
    assert_eq!(node.cluster.unseen(), []);
}

#[tokio::test]
async fn to_ask_whether_a_stream_is_there_does_not_fetch_it() {
    let node = Node::start_usual();
    assert_eq!(head(node.addresses.http[0]).await, "HTTP/1.1 404");
    node.cluster.publish("live/mill", UNKNOWN);
    assert_eq!(head(node.addresses.http[0]).await, "HTTP/1.1 200");
    let settings = ApplicationSettings::default();
    let bridge = worker_api::settings::BridgeSettings { enabled: false, ..settings.bridge };
    let unbridged = Node::start(ApplicationSettings { bridge, ..settings });
    unbridged.cluster.publish("live/mill", Published::Packets([].into()));
    assert_eq!(head(unbridged.addresses.http[0]).await, "HTTP/1.1 406");
    assert_eq!((node.cluster.unseen(), unbridged.cluster.unseen()), (vec![], vec![]));
}

/// The first words of the answer to a HEAD of the stream by HTTP-FLV.
async fn head(address: SocketAddr) -> String {
    let mut socket = TcpStream::connect(address).await.expect("a connection");
    socket.write_all(b"HEAD /live/mill.flv HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("sent");
    let mut answer = [0; 12];
    socket.read_exact(&mut answer).await.expect("an answer");
    String::from_utf8_lossy(&answer).into_owned()
}
