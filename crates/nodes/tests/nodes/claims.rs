//! One publisher of a name in the whole cluster.

use worker_api::EndReason;

use crate::node::{Node, Options, STREAM, frame, received_up_to};
use crate::server::{DEADLINE, Server, until};

#[tokio::test]
async fn of_two_publishers_at_once_one_stays_and_the_other_learns_why() {
    let Some(server) = Server::start().await else { return };
    let a = Node::start(&server, "a", Options::default()).await;
    let b = Node::start(&server, "b", Options::default()).await;
    for round in 0..5 {
        let stream = format!("live/{round}");
        a.worker.publish(&stream, false);
        b.worker.publish(&stream, false);
        until("one has ended", || a.worker.ended().len() + b.worker.ended().len() == round + 1).await;
        let (_, reason) =
            a.worker.ended().into_iter().chain(b.worker.ended()).next_back().expect("one has ended");
        assert_eq!(reason, EndReason::PublishedElsewhere);
    }
}

#[tokio::test]
async fn a_name_that_is_taken_is_refused_and_one_that_is_let_go_is_free() {
    let Some(server) = Server::start().await else { return };
    let a = Node::start(&server, "a", Options::default()).await;
    let b = Node::start(&server, "b", Options::default()).await;
    a.worker.publish(STREAM, false);
    b.knows(STREAM).await;
    b.worker.publish(STREAM, false);
    until("it has ended", || b.worker.ended() == [(STREAM.to_owned(), EndReason::PublishedElsewhere)]).await;
    assert!(a.worker.ended().is_empty());
    a.worker.end(STREAM);
    until("it is free", || b.published(STREAM).is_none()).await;
    b.worker.publish(STREAM, false);
    a.knows(STREAM).await;
    assert_eq!(b.worker.ended().len(), 1);
}

#[tokio::test]
async fn by_policy_a_publisher_takes_over_and_players_everywhere_get_it() {
    let Some(server) = Server::start().await else { return };
    let a = Node::start(&server, "a", Options::default()).await;
    let b = Node::start(&server, "b", Options::default()).await;
    let c = Node::start(&server, "c", Options::default()).await;
    c.linked(2).await;
    a.worker.publish(STREAM, true);
    a.worker.send(STREAM, frame(0));
    c.worker.want(STREAM, true);
    received_up_to(&c, STREAM, 0).await;
    b.worker.publish(STREAM, true);
    until("the first has ended", || !a.worker.ended().is_empty()).await;
    assert_eq!(a.worker.ended(), [(STREAM.to_owned(), EndReason::PublishedElsewhere)]);
    b.worker.send(STREAM, frame(10));
    received_up_to(&c, STREAM, 10).await;
    // One on the same node replaces it there, and the cluster has the new one.
    b.worker.publish(STREAM, true);
    b.worker.send(STREAM, frame(20));
    received_up_to(&c, STREAM, 20).await;
    assert!(b.worker.ended().is_empty(), "{:?}", b.worker.ended());
}

#[tokio::test]
async fn without_nats_names_are_given_and_a_split_ends_with_one_publisher() {
    let Some(mut server) = Server::start().await else { return };
    let a = Node::start(&server, "a", Options::default()).await;
    let b = Node::start(&server, "b", Options::default()).await;
    b.linked(1).await;
    a.worker.publish("live/before", false);
    b.knows("live/before").await;
    server.kill();
    a.worker.publish(STREAM, false);
    b.worker.publish(STREAM, false);
    // What was known is refused without asking anybody, and what runs goes on.
    b.worker.publish("live/before", false);
    until("it has ended", || b.worker.ended().len() == 1).await;
    a.worker.send("live/before", frame(0));
    b.worker.want("live/before", true);
    received_up_to(&b, "live/before", 0).await;
    tokio::time::timeout(DEADLINE, server.run()).await.expect("NATS comes back");
    let of = |node: &Node| node.worker.ended().iter().filter(|(name, _)| name == STREAM).count();
    until("one has ended", || of(&a) + of(&b) == 1).await;
    a.worker.send("live/before", frame(1));
    received_up_to(&b, "live/before", 1).await;
}

#[tokio::test]
async fn of_two_nodes_of_one_name_that_meet_one_ends_its_publications_and_leaves() {
    let Some(mut server) = Server::start().await else { return };
    server.kill();
    // Without NATS nobody can say that the name is taken.
    let one = Node::start(&server, "a", Options::default()).await;
    let two = Node::start(&server, "a", Options::default()).await;
    one.worker.publish("live/one", false);
    two.worker.publish("live/two", false);
    server.run().await;
    until("one has ended", || one.worker.ended().len() + two.worker.ended().len() == 1).await;
    let (out, stays) = if one.worker.ended().is_empty() { (two, one) } else { (one, two) };
    let reason = out.worker.ended()[0].1;
    assert!(matches!(reason, EndReason::Refused(text) if text.contains("another node")), "{reason:?}");
    // It takes no publisher any more, and the other one is not disturbed.
    out.worker.publish("live/three", false);
    until("it is refused", || out.worker.ended().len() == 2).await;
    let c = Node::start(&server, "c", Options::default()).await;
    c.linked(1).await;
    assert!(stays.worker.ended().is_empty());
}

#[tokio::test]
async fn a_second_node_of_a_name_does_not_start() {
    let Some(server) = Server::start().await else { return };
    let mut a = Node::start(&server, "a", Options::default()).await;
    let second = Node::try_start(server.port, "a", Options::default()).await;
    let error = second.err().expect("the name is taken");
    assert!(error.contains("another living node has the name a"), "{error}");
    a.leave().await;
    Node::try_start(server.port, "a", Options::default()).await.expect("the name is free");
}
