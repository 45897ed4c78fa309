//! Streams of one node on another.

use nodes::Redirect;

use crate::node::{Node, Options, STREAM, frame, numbers, received_up_to};
use crate::server::{Server, until};

/// Two nodes, of which the second has fetched the first frame that is published on the first.
async fn fetched(server: &Server) -> (Node, Node) {
    let a = Node::start(server, "a", Options::default()).await;
    let b = Node::start(server, "b", Options::default()).await;
    b.linked(1).await;
    a.worker.publish(STREAM, false);
    a.worker.send(STREAM, frame(0));
    b.worker.want(STREAM, true);
    received_up_to(&b, STREAM, 0).await;
    (a, b)
}

#[tokio::test]
async fn a_stream_is_fetched_while_it_is_wanted_and_let_go_afterwards() {
    let Some(server) = Server::start().await else { return };
    let a = Node::start(&server, "a", Options::default()).await;
    let b = Node::start(&server, "b", Options::default()).await;
    a.linked(1).await;
    b.linked(1).await;
    a.worker.publish(STREAM, false);
    (0..25).for_each(|number| a.worker.send(STREAM, frame(number)));
    b.knows(STREAM).await;
    assert_eq!(a.published(STREAM), None, "it is this node's own");

    b.worker.want(STREAM, true);
    received_up_to(&b, STREAM, 24).await;
    assert_eq!(numbers(&b.worker.received(STREAM)), (20..25).collect::<Vec<_>>(), "from a key frame on");
    (25..60).for_each(|number| a.worker.send(STREAM, frame(number)));
    received_up_to(&b, STREAM, 59).await;
    assert_eq!(numbers(&b.worker.received(STREAM)), (20..60).collect::<Vec<_>>(), "each once, in order");
    assert_eq!(a.worker.taps(STREAM), 1);

    // Players that come back in time find it as it was.
    b.worker.want(STREAM, false);
    b.worker.want(STREAM, true);
    (60..70).for_each(|number| a.worker.send(STREAM, frame(number)));
    received_up_to(&b, STREAM, 69).await;
    assert_eq!(b.worker.publications(STREAM), 1);

    b.worker.want(STREAM, false);
    until("it is let go", || a.worker.taps(STREAM) == 0 && !b.worker.is_fetched(STREAM)).await;
    let sent = a.status().await.links[0].sent.frames;
    (70..80).for_each(|number| a.worker.send(STREAM, frame(number)));
    assert_eq!(a.status().await.links[0].sent.frames, sent, "the link carries nothing of it");
    b.worker.want(STREAM, true);
    received_up_to(&b, STREAM, 79).await;
}

#[tokio::test]
async fn players_are_sent_to_the_home_or_to_a_node_with_room_if_that_is_wanted() {
    let Some(server) = Server::start().await else { return };
    let with = |redirect| Options { redirect, ..Options::default() };
    let mut a = Node::start(&server, "a", with(Redirect::Always)).await;
    let b = Node::start(&server, "b", with(Redirect::Always)).await;
    let c = Node::start(&server, "c", with(Redirect::WhenFull)).await;
    let d = Node::start(&server, "d", with(Redirect::Never)).await;
    assert_eq!(b.redirect(STREAM, true), None, "nobody publishes it");
    a.worker.publish(STREAM, false);
    for node in [&b, &c, &d] {
        node.knows(STREAM).await;
    }
    let home = Some("https://a.example.com".to_owned());
    for is_full in [false, true] {
        assert_eq!(a.redirect(STREAM, is_full), None, "it is here");
        assert_eq!(b.redirect(STREAM, is_full), home);
        assert_eq!(d.redirect(STREAM, is_full), None);
    }
    assert_eq!(c.redirect(STREAM, false), None);
    let other = c.redirect(STREAM, true).expect("a node with room");
    assert!(!other.contains("//c."), "{other}");
    // Nobody is sent to a node that will leave.
    a.nodes().drain().await;
    until("it is known to drain", || b.redirect(STREAM, false).is_none()).await;
    a.leave().await;
}

#[tokio::test]
async fn hundreds_of_streams_share_one_link() {
    let Some(server) = Server::start().await else { return };
    let a = Node::start(&server, "a", Options::default()).await;
    let b = Node::start(&server, "b", Options::default()).await;
    b.linked(1).await;
    let streams: Vec<String> = (0..300).map(|number| format!("live/{number}")).collect();
    for stream in &streams {
        a.worker.publish(stream, false);
        a.worker.send(stream, frame(0));
        b.worker.want(stream, true);
    }
    // Who comes later begins with a later key frame.
    for stream in &streams {
        received_up_to(&b, stream, 0).await;
    }
    for number in 1..8 {
        streams.iter().for_each(|stream| a.worker.send(stream, frame(number)));
    }
    for stream in &streams {
        received_up_to(&b, stream, 7).await;
        assert_eq!(numbers(&b.worker.received(stream)), (0..8).collect::<Vec<_>>(), "{stream}");
    }
    streams.iter().for_each(|stream| b.worker.want(stream, false));
    until("all are let go", || streams.iter().all(|stream| !b.worker.is_fetched(stream))).await;
}

#[tokio::test]
async fn players_wait_for_a_publisher_that_appears_elsewhere_and_comes_back() {
    let Some(server) = Server::start().await else { return };
    let a = Node::start(&server, "a", Options::default()).await;
    let b = Node::start(&server, "b", Options::default()).await;
    b.linked(1).await;
    b.worker.want(STREAM, true);
    for _ in 0..2 {
        a.worker.publish(STREAM, false);
        a.worker.send(STREAM, frame(0));
        received_up_to(&b, STREAM, 0).await;
        a.worker.send(STREAM, frame(1));
        received_up_to(&b, STREAM, 1).await;
        a.worker.end(STREAM);
        until("its end is passed on", || !b.worker.is_fetched(STREAM)).await;
    }
    assert_eq!(numbers(&b.worker.received(STREAM)), [0, 1, 0, 1]);
}

#[tokio::test]
async fn a_publisher_here_ends_the_fetch() {
    let Some(server) = Server::start().await else { return };
    let (a, b) = fetched(&server).await;
    // By policy it takes the name over; the players here are its own now.
    b.worker.publish(STREAM, true);
    b.worker.want(STREAM, false);
    until("nothing is fetched", || a.worker.taps(STREAM) == 0).await;
    until("the other publisher has ended", || !a.worker.ended().is_empty()).await;
    a.worker.want(STREAM, true);
    b.worker.send(STREAM, frame(10));
    received_up_to(&a, STREAM, 10).await;
}

#[tokio::test]
async fn a_fetched_stream_that_an_operator_ends_comes_back_for_its_players() {
    let Some(server) = Server::start().await else { return };
    let (a, b) = fetched(&server).await;
    b.worker.kick(STREAM);
    until("it is fetched again", || b.worker.publications(STREAM) == 2).await;
    a.worker.send(STREAM, frame(1));
    received_up_to(&b, STREAM, 1).await;
}
