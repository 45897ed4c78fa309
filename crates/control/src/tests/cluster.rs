//! The cluster in the API and in metrics, over a source that is played by the test.

use super::*;
use crate::cluster::{
    Answer, ClusterLink, ClusterNode, ClusterSnapshot, ClusterSource, ClusterStream, DirectoryHealth, Lane,
    LinkDirection, LinkState, ListedStreams, NodeLoad, RefusedConnections, StreamEdge, StreamsByHome,
};

/// Node `a` of a cluster of four; silent where `snapshot` is none.
#[derive(Debug)]
struct Played {
    snapshot: Option<ClusterSnapshot>,
}

impl ClusterSource for Played {
    fn node(&self) -> &str {
        "a"
    }

    fn snapshot(&self, listed: ListedStreams) -> Answer<'_> {
        Box::pin(async move {
            let Some(mut snapshot) = self.snapshot.clone() else { return std::future::pending().await };
            let (page, total) = listed.page(snapshot.streams, |stream| &stream.stream);
            (snapshot.streams, snapshot.streams_total) = (page, total);
            Some(snapshot)
        })
    }
}

/// `context` as that of node `a`.
pub(super) fn in_cluster(context: Arc<Context>) -> Arc<Context> {
    with(context, Played { snapshot: Some(four_nodes()) })
}

fn with(context: Arc<Context>, cluster: Played) -> Arc<Context> {
    let mut context = Arc::into_inner(context).expect("nobody else has it yet");
    context.cluster = Some(Arc::new(cluster));
    Arc::new(context)
}

/// `b` is linked and plays `live/show` of this node, `c` cannot be reached, `d` drains.
fn four_nodes() -> ClusterSnapshot {
    let node = |name: &str, reachable| ClusterNode {
        name: name.to_owned(),
        region: "fra".to_owned(),
        version: "0.1.0".to_owned(),
        relay_tcp: format!("{name}.example:8290"),
        load: NodeLoad { players: 7, streams: 1, cpu_percent: 12.5, egress_bits_per_second: 4_000_000 },
        reachable,
        ..ClusterNode::default()
    };
    let sent = LinkDirection {
        streams: 1,
        bytes: 1_000,
        bits_per_second: 600_000,
        packets: 90,
        packets_per_second: 75,
        repaired_packets: 3,
        given_up_packets: 1,
        loss_percent: Some(4.5),
        ..LinkDirection::default()
    };
    let received = LinkDirection {
        bytes: 20,
        frames: 5,
        dropped_frames: 2,
        repeated_frames: 3,
        ..LinkDirection::default()
    };
    let link = |name: &str, state| ClusterLink { node: name.to_owned(), state, ..ClusterLink::default() };
    let stream = |name: &str, home: &str, edges: &[(&str, &str)]| ClusterStream {
        stream: name.to_owned(),
        lane: Lane::Packets,
        codecs: vec!["H264".to_owned()],
        home: home.to_owned(),
        edges: edges
            .iter()
            .map(|(node, parent)| StreamEdge { node: (*node).to_owned(), parent: (*parent).to_owned() })
            .collect(),
    };
    ClusterSnapshot {
        node: "a".to_owned(),
        directory: DirectoryHealth {
            heard: true,
            settled: false,
            server_version: "2.10.22".to_owned(),
            last_problem: None,
            ignored: 4,
            messages_in: 12,
            messages_out: 10,
        },
        nodes: vec![
            node("a", true),
            node("b", true),
            node("c", false),
            ClusterNode { draining: true, ..node("d", true) },
        ],
        links: vec![
            ClusterLink {
                state_seconds: 61,
                round_trip_ms: Some(8.5),
                packets_heard: true,
                sent,
                received,
                ..link("b", LinkState::Up)
            },
            ClusterLink { last_problem: Some("connection refused".to_owned()), ..link("c", LinkState::Down) },
            link("d", LinkState::Up),
        ],
        streams: vec![
            stream("live/show", "a", &[("b", "a"), ("d", "b")]),
            stream("live/a b", "b", &[]),
            stream("film/one", "d", &[("a", "d")]),
        ],
        streams_total: 0,
        streams_by_home: StreamsByHome { here: 1, fetched: 1, elsewhere: 1 },
        silent_parents: 3,
        refused_connections: RefusedConnections { late: 2, ..RefusedConnections::default() },
    }
}

#[tokio::test]
async fn the_cluster_is_shown_as_this_node_sees_it() {
    let context = in_cluster(local());
    let (status, body) = ask(&context, "GET", "/api/v1/cluster").await;
    assert_eq!((status.as_u16(), &body["node"]), (200, &json!("a")), "{body}");
    assert_eq!(body["directory"]["heard"], true);
    assert_eq!(body["nodes"][2]["reachable"], false);
    assert_eq!(body["nodes"][0]["load"]["egress_bits_per_second"], 4_000_000);
    let link = &body["links"][0];
    assert_eq!((&link["state"], &link["round_trip_ms"]), (&json!("up"), &json!(8.5)));
    assert_eq!(link["sent"]["repaired_packets"], 3);
    assert_eq!(link["received"]["loss_percent"], Value::Null, "optional values are there as null");
    assert_eq!(body["links"][1]["last_problem"], "connection refused");
    let names: Vec<_> = body["streams"].as_array().expect("a list").iter().map(|s| &s["stream"]).collect();
    assert_eq!(names, ["film/one", "live/a b", "live/show"]);
    assert_eq!(body["streams"][2]["edges"][1], json!({ "node": "d", "parent": "b" }));
    assert_eq!(body["streams_by_home"], json!({ "here": 1, "fetched": 1, "elsewhere": 1 }));
    let (_, body) = ask(&context, "GET", "/api/v1/server").await;
    assert_eq!(body["cluster_node"], "a");
}

#[tokio::test]
async fn streams_of_the_cluster_are_filtered_and_paged() {
    let context = in_cluster(local());
    let cases = [
        ("?stream=live/a%20b", 1, vec!["live/a b"]),
        ("?stream=live/none", 0, vec![]),
        ("?search=LIVE", 2, vec!["live/a b", "live/show"]),
        ("?offset=1&limit=1", 3, vec!["live/a b"]),
        ("?limit=0", 3, vec![]),
        ("?limit=100000", 3, vec!["film/one", "live/a b", "live/show"]),
    ];
    for (query, total, expected) in cases {
        let (status, body) = ask(&context, "GET", &format!("/api/v1/cluster{query}")).await;
        let streams = body["streams"].as_array().expect("a list").iter();
        let names: Vec<_> = streams.map(|stream| stream["stream"].as_str().expect("a name")).collect();
        assert_eq!(
            (status.as_u16(), &body["streams_total"], names),
            (200, &json!(total), expected),
            "{query}"
        );
    }
    for query in ["?limit=many", "?offset=-1", "?page=2"] {
        let (status, body) = ask(&context, "GET", &format!("/api/v1/cluster{query}")).await;
        assert_eq!((status.as_u16(), &body["error"]["code"]), (400, &json!("bad_request")), "{query}");
    }
}

#[tokio::test]
async fn a_single_node_says_that_it_is_one() {
    let (status, body) = ask(&local(), "GET", "/api/v1/cluster").await;
    assert_eq!((status.as_u16(), &body["error"]["code"]), (404, &json!("not_found")));
    let (_, body) = ask(&local(), "GET", "/api/v1/server").await;
    assert_eq!(body.get("cluster_node"), Some(&Value::Null));
    let (_, _, body) = ask_as(&local(), "127.0.0.1", "GET", "/metrics", &[]).await;
    assert!(!body.contains("millstream_cluster_"), "{body}");
}

#[tokio::test]
async fn nodes_links_and_streams_of_the_cluster_are_measured() {
    let (status, _, body) = ask_as(&in_cluster(local()), "127.0.0.1", "GET", "/metrics", &[]).await;
    assert_eq!(status, 200);
    let expected = [
        "millstream_cluster_node_info{node=\"a\"} 1",
        "millstream_cluster_answers 1.0",
        "millstream_cluster_directory_heard 1.0",
        "millstream_cluster_directory_settled 0.0",
        "millstream_cluster_directory_ignored_total 4",
        "millstream_cluster_directory_messages_total{direction=\"sent\"} 10",
        "millstream_cluster_nodes{state=\"this\"} 1.0",
        "millstream_cluster_nodes{state=\"reachable\"} 1.0",
        "millstream_cluster_nodes{state=\"draining\"} 1.0",
        "millstream_cluster_nodes{state=\"unreachable\"} 1.0",
        "millstream_cluster_streams{home=\"fetched\"} 1.0",
        "millstream_cluster_link_up{node=\"b\"} 1.0",
        "millstream_cluster_link_up{node=\"c\"} 0.0",
        "millstream_cluster_link_round_trip_seconds{node=\"b\"} 0.0085",
        "millstream_cluster_link_streams{node=\"b\",direction=\"sent\"} 1.0",
        "millstream_cluster_link_bytes_total{node=\"b\",direction=\"sent\"} 1000",
        "millstream_cluster_link_packets_total{node=\"b\",direction=\"sent\"} 90",
        "millstream_cluster_link_repaired_packets_total{node=\"b\",direction=\"sent\"} 3",
        "millstream_cluster_link_given_up_packets_total{node=\"b\",direction=\"sent\"} 1",
        "millstream_cluster_silent_parents_total 3",
        "millstream_cluster_refused_connections_total{cause=\"late\"} 2",
        "millstream_cluster_link_packets_heard{node=\"b\"} 1.0",
        "millstream_cluster_link_packets_heard{node=\"d\"} 0.0",
        "millstream_cluster_link_dropped_frames_total{node=\"b\",direction=\"sent\",cause=\"too_slow\"} 0",
        "millstream_cluster_link_dropped_frames_total{node=\"b\",direction=\"received\",cause=\"too_slow\"} 2",
        "millstream_cluster_link_dropped_frames_total{node=\"b\",direction=\"received\",cause=\"repeated\"} 3",
        "millstream_cluster_link_dropped_frames_total{node=\"b\",direction=\"received\",cause=\"unwanted\"} 0",
        "millstream_cluster_link_frames_total{node=\"d\",direction=\"received\"} 0",
    ];
    for line in expected {
        assert!(body.lines().any(|found| found == line), "{line}\nin {body}");
    }
    let unknown = "millstream_cluster_link_round_trip_seconds{node=\"c\"}";
    assert!(!body.contains(unknown), "a round trip that is not known is no sample");
    assert!(!body.contains("film/one"), "streams are counted, not named");
}

#[tokio::test(start_paused = true)]
async fn a_silent_cluster_is_an_error_of_its_own() {
    let context = with(local(), Played { snapshot: None });
    let (status, body) = ask(&context, "GET", "/api/v1/cluster").await;
    assert_eq!((status.as_u16(), &body["error"]["code"]), (503, &json!("cluster_unavailable")));
    let (status, _, body) = ask_as(&context, "127.0.0.1", "GET", "/metrics", &[]).await;
    assert_eq!(status, 200, "workers are seen as before");
    assert!(body.contains("\nmillstream_cluster_answers 0.0\n"), "{body}");
    assert!(body.contains("\nmillstream_sent_bytes_total{worker=\"1\"} "), "{body}");
    assert!(!body.contains("millstream_cluster_nodes"), "{body}");
}
