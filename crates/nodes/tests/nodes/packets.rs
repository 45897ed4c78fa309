//! Streams of packets: what the relays of the nodes are asked for, and in which order.

use std::time::Duration;

use worker_api::EndReason;
use worker_api::relay::RelayNotice;

use crate::faults::{forgets, start_with_nats_by_wire};
use crate::node::{Node, Options, STREAM, frame, received_up_to};
use crate::overheard::Overheard;
use crate::server::{DEADLINE, Server, until};

/// Waits until the relay was asked for this last, leaving out what links alone have it asked for.
async fn asked(node: &Node, what: &[&str]) {
    let of_streams = || {
        let mut relayed = node.worker.relayed();
        relayed.retain(|call| !["Notify", "AddLink", "RemoveLink"].contains(&call.as_str()));
        relayed
    };
    let begun = tokio::time::Instant::now();
    while of_streams() != what {
        let so_far = of_streams();
        assert!(begun.elapsed() < DEADLINE, "{}: {so_far:?} instead of {what:?}", node.name);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Three nodes: the first publishes a stream of packets, the second fetches it, and feeds the third.
async fn chain() -> Option<(Server, Node, Node, Node)> {
    let options = Options { fan_out_max: 1, ..Options::default() };
    three(options.clone(), options).await
}

/// Three nodes: the first publishes a stream of packets, the others fetch it, the second with options of its
/// own.
async fn three(options: Options, of_second: Options) -> Option<(Server, Node, Node, Node)> {
    let server = Server::start().await?;
    let a = Node::start(&server, "a", options.clone()).await;
    let b = Node::start(&server, "b", of_second).await;
    let c = Node::start(&server, "c", options).await;
    c.linked(2).await;
    b.linked(2).await;
    a.worker.publish_packets(STREAM);
    for node in [&b, &c] {
        node.knows(STREAM).await;
        node.worker.want(STREAM, true);
        asked(node, &["Fetch [0]"]).await;
    }
    Some((server, a, b, c))
}

#[tokio::test]
async fn a_stream_is_offered_then_fetched_then_served_and_let_go_on_both_sides() {
    let Some(server) = Server::start().await else { return };
    let a = Node::start(&server, "a", Options::default()).await;
    let b = Node::start(&server, "b", Options::default()).await;
    b.linked(1).await;
    a.worker.publish_packets(STREAM);
    b.knows(STREAM).await;
    b.worker.want(STREAM, true);
    asked(&a, &["Offer", "Serve 7 from None"]).await;
    asked(&b, &["Fetch [0]"]).await;
    b.worker.want(STREAM, false);
    asked(&a, &["Offer", "Serve 7 from None", "StopServing"]).await;
    asked(&b, &["Fetch [0]", "RemoveParent", "EndFetch"]).await;
}

#[tokio::test]
async fn a_node_goes_on_from_another_parent_where_it_stands() {
    let Some((_server, a, mut b, c)) = chain().await else { return };
    asked(&b, &["Fetch [0]", "Offer", "Serve 7 from None"]).await;
    b.kill();
    asked(&c, &["Fetch [0]", "RemoveParent", "AddKey 0", "AddParent"]).await;
    until("it is served from there", || {
        a.worker.relayed().last().is_some_and(|call| call == "Serve 8 from Some(42)")
    })
    .await;
    assert_eq!(c.worker.publications(STREAM), 1, "its viewers notice nothing");
}

#[tokio::test]
async fn a_node_without_players_keeps_what_it_feeds_others_with() {
    let Some((_server, a, b, c)) = chain().await else { return };
    asked(&b, &["Fetch [0]", "Offer", "Serve 7 from None"]).await;
    // A stream that goes later is gone: by then this one would be as well.
    a.worker.publish("live/frames", false);
    a.worker.send("live/frames", frame(0));
    b.worker.want("live/frames", true);
    received_up_to(&b, "live/frames", 0).await;
    b.worker.want(STREAM, false);
    b.worker.want("live/frames", false);
    until("the other stream is let go", || b.worker.epoch("live/frames").is_none()).await;
    asked(&b, &["Fetch [0]", "Offer", "Serve 7 from None"]).await;
    assert_eq!(c.worker.publications(STREAM), 1, "its viewers notice nothing");
    c.worker.want(STREAM, false);
    asked(&b, &["Fetch [0]", "Offer", "Serve 7 from None", "StopServing", "RemoveParent", "EndFetch"]).await;
}

#[tokio::test]
async fn a_new_key_is_at_all_nodes_before_it_is_used() {
    let Some((_server, a, _b, c)) = chain().await else { return };
    a.worker.has_no_room_for(&["NewKey", "UseNewKey"]);
    a.worker.notice(RelayNotice::KeyWorn { stream: STREAM.to_owned() });
    asked(&c, &["Fetch [0]", "AddKey 1"]).await;
    assert!(a.worker.relayed().iter().all(|call| !call.starts_with("UseNewKey")), "not yet");
    until("it is used", || a.worker.relayed().last().is_some_and(|call| call == "UseNewKey 1")).await;
}

#[tokio::test]
async fn a_fetch_that_succeeds_after_it_was_given_up_ends() {
    let Some(server) = Server::start().await else { return };
    let a = Node::start(&server, "a", Options::default()).await;
    let b = Node::start(&server, "b", Options { linger: Duration::ZERO, ..Options::default() }).await;
    b.linked(1).await;
    a.worker.publish_packets(STREAM);
    b.knows(STREAM).await;
    b.worker.waits_with(&["Fetch"]);
    b.worker.want(STREAM, true);
    asked(&b, &["Fetch [0]"]).await;
    b.worker.want(STREAM, false);
    asked(&b, &["Fetch [0]", "RemoveParent"]).await;
    b.worker.answer();
    asked(&b, &["Fetch [0]", "RemoveParent", "EndFetch"]).await;
}

#[tokio::test]
async fn a_link_that_ends_before_the_relay_has_it_is_not_left_there() {
    let Some(server) = Server::start().await else { return };
    let a = Node::start(&server, "a", Options::default()).await;
    a.worker.waits_with(&["AddLink"]);
    let mut b = Node::start(&server, "b", Options::default()).await;
    let count = |what: &str| a.worker.relayed().iter().filter(|call| *call == what).count();
    until("the relay is given the link", || count("AddLink") == 1).await;
    b.kill();
    until("it is taken away", || count("RemoveLink") == 1).await;
    a.worker.answer();
}

#[tokio::test]
async fn what_the_relay_ends_is_asked_for_again_or_is_over() {
    let Some(server) = Server::start().await else { return };
    let a = Node::start(&server, "a", Options::default()).await;
    let b = Node::start(&server, "b", Options::default()).await;
    b.linked(1).await;
    a.worker.publish_packets(STREAM);
    b.knows(STREAM).await;
    b.worker.want(STREAM, true);
    asked(&b, &["Fetch [0]"]).await;
    let (stream, epoch) = (STREAM.to_owned(), b.worker.epoch(STREAM).unwrap());
    b.worker.notice(RelayNotice::FetchEnded { stream, epoch, reason: EndReason::Defect });
    until("it is fetched again", || b.worker.publications(STREAM) == 2).await;
    // The publisher leaves: the relay says so, and so does the directory.
    let (stream, epoch) = (STREAM.to_owned(), a.worker.epoch(STREAM).unwrap());
    a.worker.notice(RelayNotice::ServedEnded { stream, epoch });
    a.worker.end(STREAM);
    until("it is over", || b.worker.epoch(STREAM).is_none()).await;
    tokio::time::timeout(DEADLINE, async {
        while b.published(STREAM).is_some() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("it is not published any more");
}

#[tokio::test]
async fn no_key_secret_or_media_goes_through_nats() {
    let Some(server) = Server::start().await else { return };
    let overheard = Overheard::at(server.port);
    let a = Node::start(&server, "a", Options::default()).await;
    let b = Node::start(&server, "b", Options::default()).await;
    b.linked(1).await;
    a.worker.publish("live/frames", false);
    a.worker.send("live/frames", frame(0));
    b.worker.want("live/frames", true);
    received_up_to(&b, "live/frames", 0).await;
    a.worker.publish_packets(STREAM);
    b.knows(STREAM).await;
    b.worker.want(STREAM, true);
    asked(&b, &["Fetch [0]"]).await;
    a.worker.notice(RelayNotice::KeyWorn { stream: STREAM.to_owned() });
    until("the next key has come", || b.worker.keys().len() == 2).await;
    until("both streams were heard of", || {
        [&b"s.live_2Fframes"[..], b"f.live_2Fa.b"].iter().all(|key| overheard.contains(key))
    })
    .await;
    for key in b.worker.keys() {
        // Without its number.
        assert!(!overheard.contains(&key.to_bytes()[4..]), "{key:?}");
    }
    assert!(!overheard.contains(Options::default().secret));
    assert!(!overheard.contains(&frame(0).data()[..32]));
}

/// It writes nothing of itself in the directory, so that the source cannot know that it comes or goes.
#[tokio::test]
async fn the_key_changes_when_a_node_leaves_of_which_only_its_parent_knows() {
    let Some(server) = Server::start().await else { return };
    let options = Options { fan_out_max: 1, ..Options::default() };
    let a = Node::start(&server, "a", options.clone()).await;
    let b = Node::start(&server, "b", options.clone()).await;
    let (c, nats) = start_with_nats_by_wire(&server, "c", options).await;
    c.linked(2).await;
    b.linked(2).await;
    a.worker.publish_packets(STREAM);
    b.knows(STREAM).await;
    b.worker.want(STREAM, true);
    asked(&b, &["Fetch [0]"]).await;
    c.knows(STREAM).await;
    nats.set_open(false);
    forgets(&a, "c").await;
    c.worker.want(STREAM, true);
    asked(&c, &["Fetch [0]"]).await;
    asked(&b, &["Fetch [0]", "Offer", "Serve 7 from None"]).await;
    c.worker.want(STREAM, false);
    until("the key is changed", || a.worker.relayed().iter().any(|call| call == "NewKey")).await;
}

/// A way that is open for TCP alone, as behind a firewall, or in one direction alone.
#[tokio::test]
async fn a_parent_of_which_no_datagram_comes_is_left_for_another_one() {
    // In another region, so that the third fetches from the first, whatever round trips a busy machine makes.
    let of_second = Options { region: "ams", ..Options::default() };
    let Some((_server, _a, b, c)) = three(Options::default(), of_second).await else { return };
    assert!(c.status().await.links.iter().all(|link| link.packets_heard));
    c.worker.set_hears("a", false);
    asked(&c, &["Fetch [0]", "RemoveParent", "AddKey 0", "AddParent"]).await;
    asked(&b, &["Fetch [0]", "Offer", "Serve 8 from Some(42)"]).await;
    assert_eq!(c.worker.publications(STREAM), 1, "its viewers notice nothing but the pause");
    let seen = c.status().await;
    assert_eq!(seen.silent_parents, 1);
    let heard = |name: &str| seen.links.iter().find(|link| link.node == name).expect("a link").packets_heard;
    assert!(!heard("a") && heard("b"));
}

#[tokio::test]
async fn an_only_parent_of_which_no_datagram_comes_is_tried_again() {
    let Some(server) = Server::start().await else { return };
    let a = Node::start(&server, "a", Options::default()).await;
    let b = Node::start(&server, "b", Options::default()).await;
    b.linked(1).await;
    a.worker.publish_packets(STREAM);
    b.knows(STREAM).await;
    b.worker.set_hears("a", false);
    b.worker.want(STREAM, true);
    asked(&b, &["Fetch [0]", "RemoveParent"]).await;
    assert_eq!(b.status().await.silent_parents, 1);
    b.worker.set_hears("a", true);
    asked(&b, &["Fetch [0]", "RemoveParent", "AddKey 0", "AddParent"]).await;
    until("it is served again", || {
        a.worker.relayed().last().is_some_and(|call| call == "Serve 8 from Some(42)")
    })
    .await;
}

#[tokio::test]
async fn a_node_that_gets_no_datagrams_of_its_parent_changes_places_with_its_child() {
    let Some((_server, a, b, c)) = chain().await else { return };
    asked(&b, &["Fetch [0]", "Offer", "Serve 7 from None"]).await;
    // It reaches only the one that it feeds.
    b.worker.set_hears("a", false);
    until("the child gets it from the home", || {
        c.worker.relayed().last().is_some_and(|call| call == "Serve 8 from Some(42)")
    })
    .await;
    until("the node gets it from its child", || {
        b.worker.relayed().last().is_some_and(|call| call == "AddParent")
    })
    .await;
    assert!(a.worker.relayed().ends_with(&["Serve 8 from Some(42)".to_owned()]));
    let edges = |edges: &[control::cluster::StreamEdge]| {
        edges.iter().map(|edge| format!("{} from {}", edge.node, edge.parent)).collect::<Vec<_>>()
    };
    let begun = tokio::time::Instant::now();
    loop {
        let tree = a.status().await.streams.first().map(|stream| edges(&stream.edges)).unwrap_or_default();
        if tree == ["b from c", "c from a"] {
            break;
        }
        assert!(begun.elapsed() < DEADLINE, "{tree:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
