//! What a node says of its cluster.

use cluster::NodeName;
use control::cluster::{LinkState, ListedStreams, StreamEdge, StreamsByHome};
use tokio::time::{Duration, sleep};

use crate::node::{Node, Options, STREAM, frame, received_up_to};
use crate::server::{Server, in_time};

#[tokio::test]
async fn nodes_links_and_streams_are_seen_as_they_are() {
    let Some(server) = Server::start().await else { return };
    let a = Node::start(&server, "a", Options::default()).await;
    let b = Node::start(&server, "b", Options::default()).await;
    a.linked(1).await;
    b.linked(1).await;
    a.worker.publish(STREAM, false);
    a.worker.publish("live/other", false);
    a.worker.send(STREAM, frame(0));
    b.knows("live/other").await;
    b.worker.want(STREAM, true);
    received_up_to(&b, STREAM, 0).await;

    let seen = b.status().await;
    assert_eq!(seen.node, "b");
    assert!(seen.directory.heard && !seen.directory.server_version.is_empty());
    let nodes: Vec<_> = seen.nodes.iter().map(|node| (node.name.as_str(), node.reachable)).collect();
    assert_eq!(nodes, [("a", true), ("b", true)]);
    let names: Vec<_> =
        seen.streams.iter().map(|stream| (stream.stream.as_str(), stream.home.as_str())).collect();
    assert_eq!(names, [(STREAM, "a"), ("live/other", "a")]);
    assert_eq!(seen.streams[0].edges, [StreamEdge { node: "b".to_owned(), parent: "a".to_owned() }]);
    assert_eq!(seen.streams_by_home, StreamsByHome { here: 0, fetched: 1, elsewhere: 1 });
    let link = &seen.links[0];
    assert_eq!((link.node.as_str(), link.state, link.received.streams), ("a", LinkState::Up, 1));
    assert!(link.received.frames > 0 && link.round_trip_ms.is_some());
    assert_eq!(a.status().await.streams_by_home, StreamsByHome { here: 2, fetched: 0, elsewhere: 0 });

    let listed = ListedStreams { search: Some("OTHER".to_owned()), limit: 5, ..ListedStreams::default() };
    let page = b.nodes().view().snapshot(listed).await.expect("it runs");
    assert_eq!((page.streams.len(), page.streams_total), (1, 1));

    // Rates are of the last second, so something has to be sent for more than one.
    in_time("there are rates", async {
        for number in 1.. {
            a.worker.send(STREAM, frame(number));
            let (sent, received) = (a.status().await, b.status().await);
            if sent.links[0].sent.bits_per_second > 0 && received.links[0].received.bits_per_second > 0 {
                break;
            }
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await;

    drop(a);
    b.linked(0).await;
    let gone = NodeName::new("a").expect("a name").to_string();
    let seen = b.status().await;
    if let Some(link) = seen.links.iter().find(|link| link.node == gone) {
        assert!(link.last_problem.is_some(), "why there is none: {link:?}");
        assert!(seen.nodes.iter().any(|node| node.name == gone && !node.reachable));
    }
}
