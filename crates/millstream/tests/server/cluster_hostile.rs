//! Strangers, nodes of another version, and a directory with more in it than there should be.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::common::cluster::{Cluster, play, wait_for_lines};
use crate::common::flv::sample_tags;
use crate::common::rtc::{Client, Options, exchange, start_flow};
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use crate::common::tls::credulous;
use crate::common::{TIMEOUT, eventually, lasting_address};

/// How a node of version 3, whatever that may be, introduces itself: what stands before the body is the same
/// in all versions.
const ANOTHER_VERSION: &[u8] = b"MSNL\x00\x03\x059.9.9\x00\x04what";

#[test]
fn a_node_of_another_version_is_refused_and_both_sides_learn_both_versions() {
    let Some(cluster) = Cluster::start() else { return };
    let (address, listener) = (lasting_address(), TcpListener::bind("127.0.0.1:0").expect("a port"));
    let listen = format!("relay_listen = [\"{address}\"]");
    let a = Server::start(&cluster.config_by(cluster.nats(), "a", &listen));

    // It opens a link to this one.
    let mut socket = StreamOwned::new(credulous(), TcpStream::connect(address).expect("a connection"));
    socket.sock.set_read_timeout(Some(TIMEOUT)).expect("a socket option");
    socket.write_all(ANOTHER_VERSION).expect("it listens");
    names_our_version(&mut socket);
    let both = "the other node has version 3 of the protocol (software 9.9.9), this one has version 2";
    wait_for_lines(&a, &format!("a node was refused: {both}"), 1);

    // This one opens a link to it, because it comes first by name.
    let z = cluster.enter("z", &listener.local_addr().expect("its address").to_string(), 0);
    let (socket, _) = listener.accept().expect("a connection");
    socket.set_read_timeout(Some(TIMEOUT)).expect("a socket option");
    let mut socket = StreamOwned::new(server(), socket);
    names_our_version(&mut socket);
    socket.write_all(ANOTHER_VERSION).expect("it listens");
    socket.flush().expect("it listens");
    wait_for_lines(&a, &format!("no link: {both}"), 1);
    let link = eventually("the link is said to have a problem", || {
        let links = a.api("/api/v1/cluster")["links"].clone();
        links.as_array()?.iter().find(|link| link["node"] == "z" && !link["last_problem"].is_null()).cloned()
    });
    assert_eq!(link["state"], "down");
    assert!(link["last_problem"].as_str().is_some_and(|problem| problem.contains(both)), "{link}");
    drop(z);
}

/// Reads the beginning of an introduction or a refusal.
fn names_our_version(socket: &mut impl Read) {
    let mut head = [0; 7];
    socket.read_exact(&mut head).expect("an introduction or a refusal");
    assert_eq!(head[..6], *b"MSNL\x00\x02");
    let mut software = vec![0; usize::from(head[6])];
    socket.read_exact(&mut software).expect("its software");
    assert_eq!(software, env!("CARGO_PKG_VERSION").as_bytes());
}

#[test]
fn garbage_of_every_length_at_the_ports_for_nodes_changes_nothing_and_is_not_answered() {
    let Some(cluster) = Cluster::start() else { return };
    let address = lasting_address();
    let listen = format!("linger_ms = 300\nrelay_listen = [\"{address}\"]");
    let a = Server::start_workers(2, &cluster.config_by(cluster.nats(), "a", &listen));
    let b = cluster.node("b");
    wait_for_lines(&b, "linked to a node", 1);
    let mut publisher = Client::publish(&a, "live/cam");
    wait_for_lines(&a, "published in the cluster", 1);
    let mut viewer = Client::play_when_ready(&b, "live/cam", &Options::default());
    let mut number = start_flow(&mut publisher, &mut viewer, 0);

    let stranger = UdpSocket::bind("127.0.0.1:0").expect("a port");
    for len in 0..=1_500_usize {
        // Also what looks like the relay's own by its first byte.
        for first in [0xd1, 0xd2, len as u8] {
            let mut garbage: Vec<u8> = (0..len).map(|at| (at * 31 + len) as u8).collect();
            garbage.iter_mut().take(1).for_each(|byte| *byte = first);
            stranger.send_to(&garbage, address).expect("send");
        }
        let mut socket = TcpStream::connect(address).expect("a connection");
        // It may be closed before all is written.
        let _ = socket.write_all(&vec![len as u8; len]);
        if len % 100 == 0 {
            exchange(&mut publisher, &mut viewer, number..number + 1);
            number += 1;
        }
    }
    stranger.set_nonblocking(true).expect("a socket option");
    let answer = stranger.recv(&mut [0; 2_000]);
    assert!(answer.is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "nothing is answered");
    assert_eq!(b.log().matches("linked to a node").count(), 1, "the link has lived through it");
}

#[test]
fn ten_thousand_streams_of_one_node_disturb_no_other() {
    let Some(cluster) = Cluster::start() else { return };
    // Neither publisher nor player does anything while the streams are found, which takes a busy machine
    // long.
    let patient = "linger_ms = 300\n[limits]\npublisher_idle_timeout_ms = 600000\n\
        [stream]\nplayer_stall_timeout_ms = 600000";
    let [a, b] = ["a", "b"].map(|name| Server::start_workers(2, &cluster.config(name, patient)));
    wait_for_lines(&b, "linked to a node", 1);
    let tags = sample_tags();
    let mut publisher = RtmpClient::publish(a.rtmp, "live/mill");
    publisher.send_tags(&tags[..200]);
    let mut player = play(&b);
    player.next().expect("the stream");
    let z = cluster.enter("z", "", 10_000);
    for node in [&a, &b] {
        eventually("all are known", || {
            let cluster = node.api("/api/v1/cluster?limit=1");
            assert_eq!(cluster["streams"].as_array().map(Vec::len), Some(1), "a page has what was asked for");
            (cluster["streams_total"] == 10_001).then_some(())
        });
        let refusal = RtmpClient::begin_publish(node.rtmp, "live/9999").wait_started().expect_err("taken");
        assert!(refusal.contains("another node"), "{refusal}");
    }
    // Streams and names of the others are as they were.
    publisher.send_tags(&tags[200..]);
    while player.next().expect("the stream goes on").body != tags[tags.len() - 1].body {}
    let mut other = RtmpClient::publish(b.rtmp, "live/other");
    other.send_tags(&tags[..200]);
    RtmpClient::play(a.rtmp, "live/other").take_frames(3);
    drop(z);
    for node in [&a, &b] {
        eventually("they are gone with their node", || {
            (node.api("/api/v1/cluster?limit=1")["streams_total"] == 2).then_some(())
        });
    }
}

#[test]
fn a_directory_full_of_nonsense_is_ignored_and_spoken_of_once() {
    let Some(cluster) = Cluster::start() else { return };
    let (a, b) = (cluster.node("a"), cluster.node("b"));
    wait_for_lines(&b, "linked to a node", 1);
    let mut nats = TcpStream::connect(cluster.nats()).expect("a connection");
    let mut nonsense = b"CONNECT {\"verbose\":false}\r\n".to_vec();
    let mut put = |subject: String, value: &[u8]| {
        nonsense.extend(format!("PUB {subject} {}\r\n", value.len()).bytes());
        nonsense.extend(value);
        nonsense.extend(b"\r\n");
    };
    for len in 0..500 {
        let mut value = vec![len as u8; len];
        // As of this version and kind, whatever follows.
        value.iter_mut().zip(*b"\x01S").for_each(|(byte, as_ours)| *byte = as_ours);
        put(format!("$KV.millstream_streams.s.live_2Fx{len}"), &value);
        put(format!("$KV.millstream_nodes.x{len}"), &value);
    }
    nats.write_all(&nonsense).expect("NATS takes it");
    for node in [&a, &b] {
        eventually("all of it is counted", || {
            (node.api("/api/v1/cluster")["directory"]["ignored"].as_u64()? >= 1_000).then_some(())
        });
        let cluster = node.api("/api/v1/cluster");
        assert_eq!(
            (&cluster["nodes"].as_array().map(Vec::len), &cluster["streams_total"]),
            (&Some(2), &0.into())
        );
        let lines = node.log().matches("that no node of this version writes were ignored").count();
        // One a minute: on a machine that stands still meanwhile there may be a second.
        assert!((1..=2).contains(&lines), "{lines} lines");
    }
    // A name under nonsense can be had.
    let mut publisher = RtmpClient::publish(a.rtmp, "live/x7");
    publisher.send_tags(&sample_tags()[..200]);
    let mut player = RtmpClient::play(b.rtmp, "live/x7");
    player.take_frames(3);
}

fn server() -> ServerConnection {
    let (certificate, key) = self_signed::certificate(["localhost".to_owned()]).expect("a certificate");
    let config = ServerConfig::builder().with_no_client_auth();
    let config = config.with_single_cert(certificate, key).expect("a certificate");
    ServerConnection::new(Arc::new(config)).expect("a session")
}
