//! `cluster.redirect`: players by HTTP are sent to another node, where they get the stream.

use std::net::SocketAddr;

use rtc::sdp::Direction;

use crate::common::cluster::{Cluster, wait_for_lines};
use crate::common::flv::{TagReader, sample_tags};
use crate::common::http::{self, Response, Streaming};
use crate::common::rtc::{Client, Options, start_flow};
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use crate::common::{eventually, lasting_address};

const FLV: &str = "/live/mill.flv?x=1";
const WHEP: &str = "/whep/live/cam?x=1";

/// A node with more of `[cluster]` and of other sections, and where others send its players.
fn node(cluster: &Cluster, name: &str, more: &str) -> Server {
    // Where it will be reached is known before it starts.
    let address = lasting_address();
    let public = format!("linger_ms = 300\npublic_url = \"http://{address}\"\n{more}");
    Server::start(&cluster.config(name, &format!("{public}\n[http]\nlisten = [\"{address}\"]")))
}

/// A publisher of `live/mill` by RTMP, and one of `live/cam` by WebRTC, which the others know of.
fn publish(home: &Server, others: &[&Server]) -> (RtmpClient, Packets) {
    others.iter().for_each(|node| wait_for_lines(node, "linked to a node", others.len()));
    let mut frames = RtmpClient::publish(home.rtmp, "live/mill");
    frames.send_tags(&sample_tags()[..200]);
    let packets = Client::publish(home, "live/cam");
    for node in others {
        eventually("the streams are known", || {
            (node.api("/api/v1/cluster")["streams_total"] == 2).then_some(())
        });
    }
    (frames, Packets(packets, 0))
}

fn play(server: &Server) -> Streaming {
    http::open(server.http, "GET", FLV, &[]).expect("an answer")
}

fn watch(server: &Server) -> Result<Client, Response> {
    Client::try_open(server, WHEP, Direction::Receive, &Options::default())
}

/// Where a viewer is sent.
fn watch_elsewhere(server: &Server) -> SocketAddr {
    let response = watch(server).err().expect("nobody plays here");
    assert_eq!(response.status, 307, "{}", response.text());
    place(response.header("location"), WHEP)
}

/// The node that a location names, and with it the request that was made here.
fn place(location: Option<&str>, request: &str) -> SocketAddr {
    let location = location.expect("a location");
    let rest = location.strip_prefix("http://").and_then(|rest| rest.strip_suffix("&redirected"));
    let address = rest.and_then(|rest| rest.strip_suffix(request));
    address.and_then(|address| address.parse().ok()).unwrap_or_else(|| panic!("sent to {location}"))
}

/// A publisher of packets, and the number of the next one.
struct Packets(Client, u32);

impl Packets {
    /// A viewer gets them.
    fn reach(&mut self, mut viewer: Client) -> Client {
        viewer.connect();
        self.1 = start_flow(&mut self.0, &mut viewer, self.1);
        viewer
    }
}

#[test]
fn players_are_sent_to_the_node_of_the_publisher_if_that_is_wanted() {
    let Some(cluster) = Cluster::start() else { return };
    let a = node(&cluster, "a", "");
    let b = node(&cluster, "b", "redirect = \"always\"");
    let (_frames, mut packets) = publish(&a, &[&b]);
    let response = play(&b);
    assert_eq!(response.status, 307);
    assert_eq!(place(response.header("location"), FLV), a.http);
    assert_eq!(watch_elsewhere(&b), a.http);
    // The same requests get the streams there.
    TagReader::new(play(&a)).next().expect("frames");
    packets.reach(watch(&a).ok().expect("an answer"));
    let sent_here = http::open(b.http, "GET", &format!("{FLV}&redirected"), &[]).expect("an answer");
    assert_eq!(sent_here.status, 200, "nobody is sent on");
    // By RTMP they stay, unless it is said how they reach the other.
    RtmpClient::play(b.rtmp, "live/mill").take_frames(3);
}

#[test]
fn players_by_rtmp_are_sent_to_the_port_that_all_nodes_have() {
    let Some(cluster) = Cluster::start() else { return };
    let a = node(&cluster, "a", "");
    let port = a.rtmp.port();
    let b = node(&cluster, "b", &format!("redirect = \"always\"\npublic_rtmp_port = {port}"));
    let (_frames, _packets) = publish(&a, &[&b]);
    let outcome = RtmpClient::begin_play(b.rtmp, "live/mill?x=1").wait_started();
    let words = "NetConnection.Connect.Rejected: the stream is played by another node";
    assert_eq!(outcome, Err(words.to_owned()));
    RtmpClient::play(a.rtmp, "live/mill?x=1&redirected").take_frames(3);
    // Nobody is sent on.
    RtmpClient::play(b.rtmp, "live/mill?redirected").take_frames(3);
}

#[test]
fn players_of_every_kind_go_to_another_node_while_this_one_has_too_much_to_do() {
    let Some(cluster) = Cluster::start() else { return };
    let a = node(&cluster, "a", "");
    let b = node(&cluster, "b", "redirect = \"when_full\"\n[limits]\nmemory_bytes = 1");
    let (_frames, mut packets) = publish(&a, &[&b]);
    let response = play(&b);
    assert_eq!(response.status, 307);
    assert_eq!(place(response.header("location"), FLV), a.http);
    assert_eq!(watch_elsewhere(&b), a.http);
    packets.reach(watch(&a).ok().expect("there is room"));
}

#[test]
fn nobody_is_sent_to_another_node_unless_that_is_wanted() {
    let Some(cluster) = Cluster::start() else { return };
    let a = node(&cluster, "a", "");
    let b = node(&cluster, "b", "[rtc]\nsessions_per_worker = 1");
    let (_frames, mut packets) = publish(&a, &[&b]);
    TagReader::new(play(&b)).next().expect("frames");
    let _viewer = packets.reach(watch(&b).ok().expect("an answer"));
    assert_eq!(watch(&b).err().expect("it is full").status, 503);
}

#[test]
fn viewers_go_to_another_node_while_this_one_is_full_and_to_none_that_is_full_itself() {
    let Some(cluster) = Cluster::start() else { return };
    // Players cannot reach this one.
    let a = Server::start(&cluster.config("a", ""));
    let small = "redirect = \"when_full\"\n[rtc]\nsessions_per_worker = 1";
    let (b, c) = (node(&cluster, "b", small), node(&cluster, "c", small));
    let (_frames, mut packets) = publish(&a, &[&b, &c]);
    let mut first = packets.reach(watch(&b).ok().expect("there is room"));
    assert_eq!(watch_elsewhere(&b), c.http);
    TagReader::new(play(&b)).next().expect("frames, for which there is room");
    let mut second = packets.reach(watch(&c).ok().expect("there is room"));
    // Now both are full, and soon know it of each other.
    for node in [&b, &c] {
        eventually("viewers are sent to no node that is full", || {
            [&mut packets.0, &mut first, &mut second].into_iter().for_each(|client| client.turn());
            (watch(node).err().expect("it is full").status == 503).then_some(())
        });
    }
    assert_eq!(first.delete(), 200);
    packets.reach(eventually("there is room again", || watch(&b).ok()));
}

#[test]
fn players_of_frames_go_to_another_node_while_this_one_has_no_place_for_sessions() {
    let Some(cluster) = Cluster::start() else { return };
    let a = node(&cluster, "a", "");
    let b = node(&cluster, "b", "redirect = \"when_full\"\n[limits]\nsessions_per_worker = 8");
    let (_frames, _packets) = publish(&a, &[&b]);
    let mut players = Vec::new();
    let location = std::iter::from_fn(|| Some(play(&b))).find_map(|response| match response.status {
        200 => {
            players.push(TagReader::new(response));
            None
        }
        307 => response.header("location").map(str::to_owned),
        status => panic!("status {status} after {} players", players.len()),
    });
    assert_eq!(place(location.as_deref(), FLV), a.http);
    TagReader::new(play(&a)).next().expect("frames");
    assert!(players.len() >= 5, "{} of 8 places were used", players.len());
    players.iter_mut().for_each(|player| _ = player.next().expect("frames"));
    // Who is answered takes no place for long.
    (0..20).for_each(|_| assert_eq!(play(&b).status, 307));
    players.truncate(2);
    eventually("there is room again", || (play(&b).status == 200).then_some(()));
}
