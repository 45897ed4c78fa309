//! Nodes that die or leave, links that are cut or slow.

use std::time::Duration;

use media::{Codec, Frame, FrameRole, Timestamp, TrackId};
use tokio::time::{sleep, timeout};

use crate::node::{Node, Options, STREAM, frame, numbers, received_up_to};
use crate::server::{DEADLINE, Server, in_time, until};
use crate::wire::Wire;

/// Two nodes, of which the first opens a link to the second by a wire.
async fn wired(server: &Server) -> (Node, Node, Wire) {
    let wire = Wire::new().await;
    let a = Node::start(server, "a", Options::default()).await;
    let announced = Some(wire.address);
    let b = Node::start(server, "b", Options { announced, ..Options::default() }).await;
    wire.set_target(b.nodes().addresses()[0]);
    a.linked(1).await;
    (a, b, wire)
}

#[tokio::test]
async fn players_get_the_publisher_that_appears_after_the_home_has_died() {
    let Some(server) = Server::start().await else { return };
    let mut a = Node::start(&server, "a", Options::default()).await;
    let b = Node::start(&server, "b", Options::default()).await;
    let c = Node::start(&server, "c", Options::default()).await;
    c.linked(2).await;
    a.worker.publish(STREAM, false);
    a.worker.send(STREAM, frame(0));
    c.worker.want(STREAM, true);
    received_up_to(&c, STREAM, 0).await;
    a.kill();
    // The name is free as soon as it is known that nobody is there to have it.
    loop {
        let ended = b.worker.ended().len();
        b.worker.publish(STREAM, false);
        b.worker.send(STREAM, frame(10));
        let has_it = || numbers(&c.worker.received(STREAM)).last() == Some(&10);
        until("it is had, or refused", || has_it() || b.worker.ended().len() > ended).await;
        if has_it() {
            break;
        }
    }
}

#[tokio::test]
async fn a_link_that_was_cut_is_back_after_it_has_healed_and_brings_what_was_missed() {
    let Some(server) = Server::start().await else { return };
    let (a, b, wire) = wired(&server).await;
    b.worker.publish(STREAM, false);
    b.worker.send(STREAM, frame(0));
    a.worker.want(STREAM, true);
    received_up_to(&a, STREAM, 0).await;
    for round in 0..2 {
        let first = round * 4 + 1;
        wire.set_open(false);
        (first..first + 3).for_each(|number| b.worker.send(STREAM, frame(number)));
        // Longer than a link may be silent: it ends, and cannot be opened again until the cut has healed.
        until("the silence is noticed", || a.worker.taps(STREAM) + b.worker.taps(STREAM) == 0).await;
        wire.set_open(true);
        b.worker.send(STREAM, frame(first + 3));
        received_up_to(&a, STREAM, first + 3).await;
    }
    // The group of pictures reaches back to what was there already: each frame once, without a gap.
    assert_eq!(numbers(&a.worker.received(STREAM)), (0..=8).collect::<Vec<_>>());
    assert_eq!(a.worker.publications(STREAM), 1, "players notice nothing but the pause");
    let received = a.status().await.links[0].received;
    assert!(received.repeated_frames > 0, "what was there already is counted: {received:?}");
}

/// While the connection of a link that is over takes no bytes, nobody may find the link: who does asks it
/// again, without a pause.
#[tokio::test]
async fn a_link_that_is_cut_while_much_waits_for_it_does_not_hold_up_its_node() {
    let Some(server) = Server::start().await else { return };
    let (a, b, wire) = wired(&server).await;
    let send_large = |number: i64| {
        let time = Timestamp::from_millis(number * 40);
        let role = if number % 10 == 0 { FrameRole::Key } else { FrameRole::Inter };
        let frame = Frame::new(TrackId::VIDEO, role, Codec::H264, (time, time), vec![7; 40_000]);
        a.worker.send("live/large", frame);
    };
    // One gets a stream of the other, each way.
    a.worker.publish("live/large", false);
    send_large(0);
    b.worker.want("live/large", true);
    b.worker.publish(STREAM, false);
    b.worker.send(STREAM, frame(0));
    a.worker.want(STREAM, true);
    received_up_to(&a, STREAM, 0).await;
    until("the large one arrives", || !b.worker.received("live/large").is_empty()).await;
    wire.set_open(false);
    let is_over = async {
        let mut number = 1;
        while a.links_up().await != 0 {
            send_large(number);
            number += 1;
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(10), is_over).await.expect("the link ends, and the node answers");
    // That it ends is seen before it is closed, which takes as long as the other node does not read.
    timeout(Duration::from_secs(10), a.nodes().drain()).await.expect("the node does what it is asked for");
}

/// A node that has a way to NATS of its own, which can be cut.
pub(crate) async fn start_with_nats_by_wire(server: &Server, name: &str, options: Options) -> (Node, Wire) {
    let nats = Wire::new().await;
    nats.set_target(([127, 0, 0, 1], server.port).into());
    let node = Node::try_start(nats.address.port(), name, options).await.unwrap();
    (node, nats)
}

/// Waits until a node is forgotten by another one's directory.
pub(crate) async fn forgets(node: &Node, name: &str) {
    let begun = tokio::time::Instant::now();
    while node.status().await.nodes.iter().any(|known| known.name == name) {
        assert!(begun.elapsed() < DEADLINE, "{name} is still known");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_home_that_only_nats_cannot_reach_is_fetched_from_until_its_publisher_ends() {
    let Some(server) = Server::start().await else { return };
    let a = Node::start(&server, "a", Options::default()).await;
    let (b, nats) = start_with_nats_by_wire(&server, "b", Options::default()).await;
    a.linked(1).await;
    b.worker.publish(STREAM, false);
    b.worker.send(STREAM, frame(0));
    a.worker.want(STREAM, true);
    received_up_to(&a, STREAM, 0).await;
    nats.set_open(false);
    forgets(&a, "b").await;
    for number in 1..5 {
        b.worker.send(STREAM, frame(number));
        received_up_to(&a, STREAM, number).await;
    }
    assert_eq!(a.worker.publications(STREAM), 1, "players notice nothing");
    b.worker.end(STREAM);
    until("the end arrives", || !a.worker.is_fetched(STREAM)).await;
}

#[tokio::test]
async fn a_publisher_that_comes_goes_before_a_home_that_only_nats_cannot_reach() {
    let Some(server) = Server::start().await else { return };
    let a = Node::start(&server, "a", Options::default()).await;
    let (b, nats) = start_with_nats_by_wire(&server, "b", Options::default()).await;
    let c = Node::start(&server, "c", Options::default()).await;
    a.linked(2).await;
    b.worker.publish(STREAM, false);
    b.worker.send(STREAM, frame(0));
    a.worker.want(STREAM, true);
    received_up_to(&a, STREAM, 0).await;
    nats.set_open(false);
    forgets(&a, "b").await;
    forgets(&c, "b").await;
    c.worker.publish(STREAM, false);
    c.worker.send(STREAM, frame(10));
    received_up_to(&a, STREAM, 10).await;
    nats.set_open(true);
    // Which of both publishers stays is the directory's to say; there is one again, and all get it.
    until("one of them is ended", || b.worker.ended().len() + c.worker.ended().len() == 1).await;
}

#[tokio::test]
async fn a_node_between_that_only_nats_cannot_reach_keeps_its_links_and_feeds_on() {
    let Some(server) = Server::start().await else { return };
    let options = || Options { fan_out_max: 1, ..Options::default() };
    let a = Node::start(&server, "a", options()).await;
    let (b, nats) = start_with_nats_by_wire(&server, "b", options()).await;
    let c = Node::start(&server, "c", options()).await;
    for node in [&a, &b, &c] {
        node.linked(2).await;
    }
    // c is the home; b gets the stream from it, and a from b.
    c.worker.publish(STREAM, false);
    c.worker.send(STREAM, frame(0));
    for node in [&b, &a] {
        node.worker.want(STREAM, true);
        received_up_to(node, STREAM, 0).await;
    }
    until("b feeds a", || b.worker.taps(STREAM) == 1).await;
    nats.set_open(false);
    forgets(&a, "b").await;
    forgets(&c, "b").await;
    for number in 1..5 {
        c.worker.send(STREAM, frame(number));
        received_up_to(&a, STREAM, number).await;
    }
    nats.set_open(true);
    for node in [&a, &b, &c] {
        node.linked(2).await;
    }
    c.worker.send(STREAM, frame(5));
    received_up_to(&a, STREAM, 5).await;
    for node in [&a, &b] {
        assert_eq!(node.worker.publications(STREAM), 1, "{}: players notice nothing", node.name);
    }
}

#[tokio::test]
async fn a_node_that_only_one_direction_leads_to_is_linked_by_that() {
    let Some(server) = Server::start().await else { return };
    // The first by name would open the link, and gets no answer there.
    let wire = Wire::new().await;
    let a = Node::start(&server, "a", Options::default()).await;
    let b = Node::start(&server, "b", Options { announced: Some(wire.address), ..Options::default() }).await;
    a.linked(1).await;
    b.linked(1).await;
    b.worker.publish(STREAM, false);
    b.worker.send(STREAM, frame(0));
    a.worker.want(STREAM, true);
    received_up_to(&a, STREAM, 0).await;
    assert_eq!(wire.carried(), 0);
}

#[tokio::test]
async fn streams_go_on_while_nats_stands_still_and_names_are_settled_afterwards() {
    let Some(server) = Server::start().await else { return };
    let (a, b, _wire) = wired(&server).await;
    a.worker.publish(STREAM, false);
    a.worker.send(STREAM, frame(0));
    b.worker.want(STREAM, true);
    received_up_to(&b, STREAM, 0).await;
    server.freeze(true).await;
    a.worker.send(STREAM, frame(1));
    received_up_to(&b, STREAM, 1).await;
    // Granted without being asked for, since nobody answers.
    b.worker.publish("live/other", false);
    b.worker.send("live/other", frame(0));
    in_time("NATS is not heard", async {
        while b.status().await.directory.heard {
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    server.freeze(false).await;
    a.knows("live/other").await;
    a.worker.want("live/other", true);
    received_up_to(&a, "live/other", 0).await;
    a.worker.send(STREAM, frame(2));
    received_up_to(&b, STREAM, 2).await;
    assert!(a.worker.ended().is_empty() && b.worker.ended().is_empty());
}

#[tokio::test]
async fn a_slow_link_leaves_frames_out_up_to_a_key_frame_and_disturbs_no_other_stream_or_link() {
    let Some(server) = Server::start().await else { return };
    let (a, b, wire) = wired(&server).await;
    let c = Node::start(&server, "c", Options::default()).await;
    c.linked(2).await;
    // The third one is as large as the first, and goes by another link.
    let (large, small, other) = ("live/large", "live/small", "live/other");
    for (stream, node) in [(large, &a), (small, &a), (other, &c)] {
        b.worker.publish(stream, false);
        b.worker.send(stream, frame(0));
        node.worker.want(stream, true);
        received_up_to(node, stream, 0).await;
    }
    let big = |number: i64| {
        let role = if number % 10 == 0 { FrameRole::Key } else { FrameRole::Inter };
        let time = Timestamp::from_millis(number * 40);
        Frame::new(TrackId::VIDEO, role, Codec::H264, (time, time), vec![number as u8; 40_000])
    };
    // Twice what the link carries, whatever that is: a busy machine slows all of it down.
    wire.set_rate(500_000);
    let mut carried = wire.carried();
    for number in 1..150 {
        b.worker.send(large, big(number));
        b.worker.send(small, frame(number));
        b.worker.send(other, big(number));
        carried += 20_000;
        // Nothing waits while frames up to a key frame are left out.
        let half = until("the link has carried half of it", || wire.carried() >= carried);
        let _ = timeout(Duration::from_millis(200), half).await;
        carried = carried.min(wire.carried());
        let arrived = |node: &Node, stream| node.worker.received(stream).len() as i64 + 10 > number;
        until("the others keep up", || arrived(&a, small) && arrived(&c, other)).await;
    }
    received_up_to(&a, small, 149).await;
    assert_eq!(numbers(&a.worker.received(small)), (0..150).collect::<Vec<_>>());
    let number = |frame: &Frame| frame.dts.millis() / 40;
    until("the other link has all", || c.worker.received(other).last().map(number) == Some(149)).await;
    assert!(c.worker.received(other).iter().map(number).eq(0..150), "each once, in order");
    wire.set_rate(u64::MAX);
    b.worker.send(large, big(150));
    until("the link recovers", || a.worker.received(large).last().map(number) == Some(150)).await;
    let received = a.worker.received(large);
    assert!((20..130).contains(&received.len()), "{} of 151", received.len());
    for pair in received.windows(2) {
        let (before, next) = (number(&pair[0]), number(&pair[1]));
        assert!(next == before + 1 || next > before && pair[1].is_key(), "{before}, then {next}");
    }
    let links = a.status().await.links;
    assert!(links[0].received.dropped_frames > 0, "the other node said so");
}

#[tokio::test]
async fn nothing_new_is_taken_from_a_node_that_drains_and_what_it_serves_goes_on() {
    let Some(server) = Server::start().await else { return };
    let mut a = Node::start(&server, "a", Options::default()).await;
    let b = Node::start(&server, "b", Options::default()).await;
    let c = Node::start(&server, "c", Options::default()).await;
    a.linked(2).await;
    b.linked(2).await;
    c.linked(2).await;
    a.worker.publish(STREAM, false);
    a.worker.send(STREAM, frame(0));
    b.worker.want(STREAM, true);
    received_up_to(&b, STREAM, 0).await;
    a.nodes().drain().await;
    // It is fetched from the node that has it from there.
    until("it is known", || c.published(STREAM).is_some()).await;
    c.worker.want(STREAM, true);
    received_up_to(&c, STREAM, 0).await;
    a.worker.send(STREAM, frame(1));
    received_up_to(&c, STREAM, 1).await;
    received_up_to(&b, STREAM, 1).await;
    assert_eq!((a.worker.taps(STREAM), b.worker.taps(STREAM)), (1, 1));
    a.leave().await;
    until("it is forgotten at once", || b.published(STREAM).is_none() && c.published(STREAM).is_none()).await;
    until("players wait", || !b.worker.is_fetched(STREAM) && !c.worker.is_fetched(STREAM)).await;
}

#[tokio::test]
async fn a_link_without_streams_carries_next_to_nothing() {
    let Some(server) = Server::start().await else { return };
    let (a, b, wire) = wired(&server).await;
    b.worker.publish(STREAM, false);
    a.knows(STREAM).await;
    let carried = wire.carried();
    let pings = a.status().await.links[0].sent.bytes;
    (0..100).for_each(|number| b.worker.send(STREAM, frame(number)));
    in_time("pings are sent", async {
        while a.status().await.links[0].sent.bytes < pings + 8 {
            sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    assert!(wire.carried() - carried < 500, "{} bytes", wire.carried() - carried);
}
