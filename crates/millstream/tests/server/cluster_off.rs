//! A server without `[cluster]` has nothing of it: no thread, no socket, no metric.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;

use serde_json::Value;

use crate::common::cluster::Cluster;
use crate::common::flv::sample_tags;
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use crate::common::{eventually, http};

/// State of a socket in `/proc/net/tcp`: `TCP_LISTEN` of the kernel.
const LISTENS: &str = "0A";

#[test]
fn a_single_server_has_no_thread_socket_or_metric_of_a_cluster() {
    let server = Server::spawn("");
    RtmpClient::publish(server.rtmp, "live/mill").send_tags(&sample_tags()[..100]);
    assert_eq!(threads(&server), ["ingest", "log", "millstream", "pushes", "segments", "worker-0"]);
    eventually("it has the sockets that it says, and no other", || {
        (sockets(&server) == (named(&server), 0)).then_some(())
    });
    let metrics = http::get(server.http, "/metrics").expect("GET /metrics").text();
    let of_nodes: Vec<&str> =
        metrics.lines().filter(|line| line.contains("cluster") || line.contains("relay")).collect();
    assert!(of_nodes.is_empty(), "{of_nodes:#?}");
    assert_eq!(http::get(server.http, "/api/v1/cluster").expect("an answer").status, 404);

    // What this looks at would show.
    let Some(cluster) = Cluster::start() else { return };
    let node = cluster.spawn("a");
    assert!(threads(&node).contains(&"nodes".to_owned()), "{:?}", threads(&node));
    let (of_node, connections) = sockets(&node);
    assert_eq!(of_node.difference(&named(&node)).count(), 1, "for packets of other nodes: {of_node:?}");
    assert!(connections >= 1, "NATS, at least");
}

fn threads(server: &Server) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).expect("the server runs");
    let names = tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    let mut names: Vec<String> = names.map(|name| name.trim_end().to_owned()).collect();
    names.sort_unstable();
    names
}

/// Ports that it listens on over TCP or has over UDP, and the number of its TCP connections.
fn sockets(server: &Server) -> (BTreeSet<(&'static str, u16)>, usize) {
    let descriptors = fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("the server runs");
    let links = descriptors.flatten().filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
    let its: BTreeSet<String> = links.map(|link| link.to_string_lossy().into_owned()).collect();
    let (mut ports, mut connections) = (BTreeSet::new(), 0);
    for (file, protocol) in [("tcp", "tcp"), ("tcp6", "tcp"), ("udp", "udp"), ("udp6", "udp")] {
        // A host without IPv6 has two of them.
        let table = fs::read_to_string(format!("/proc/{}/net/{file}", server.pid())).unwrap_or_default();
        for line in table.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            if !its.contains(&format!("socket:[{}]", fields[9])) {
                continue;
            }
            if protocol == "tcp" && fields[3] != LISTENS {
                connections += 1;
                continue;
            }
            let port = fields[1].rsplit(':').next().and_then(|port| u16::from_str_radix(port, 16).ok());
            ports.insert((protocol, port.expect("a port")));
        }
    }
    (ports, connections)
}

/// The ports that it says it has.
fn named(server: &Server) -> BTreeSet<(&'static str, u16)> {
    let ports = fs::read(server.dir.path().join("ports.json")).expect("the ports file");
    let ports: Value = serde_json::from_slice(&ports).expect("JSON");
    let lists = ports.as_object().expect("lists by name").iter();
    let named = lists.filter_map(|(name, list)| Some((name, list.as_array()?))).flat_map(|(name, list)| {
        let protocol = if matches!(&**name, "rtc_udp" | "srt" | "rtsp_udp") { "udp" } else { "tcp" };
        list.iter()
            .filter_map(move |address| Some((protocol, address.as_str()?.parse::<SocketAddr>().ok()?.port())))
    });
    named.collect()
}
