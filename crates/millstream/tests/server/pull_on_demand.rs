//! Pulls that are begun by the first player and ended after the last, at every door.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::common::bridge::{Viewed, metric};
use crate::common::cluster::{Cluster, wait_for_lines};
use crate::common::flv::sample_tags;
use crate::common::http;
use crate::common::origin::{LOCAL, Origin};
use crate::common::rtc::{Client, Options};
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use crate::common::tools::publish_repeated;
use crate::common::{TIMEOUT, eventually};
use rtc::sdp::Direction;
use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

fn config(url: &str, more: &str) -> String {
    format!(
        "{LOCAL}on_demand_linger_ms = 300\n{more}[[pull]]\nstream = \"cam/*\"\nurl = \"{url}\"\non_demand = true\n"
    )
}

/// Names and states of the pulls.
fn pulls(server: &Server) -> Vec<(String, String)> {
    let list = server.api("/api/v1/pulls")["pulls"].as_array().cloned().unwrap_or_default();
    let text = |pull: &Value, key: &str| pull[key].as_str().unwrap_or_default().to_owned();
    list.iter().map(|pull| (text(pull, "name"), text(pull, "state"))).collect()
}

fn only_the_pattern() -> Vec<(String, String)> {
    vec![("*".to_owned(), "idle".to_owned())]
}

fn wait_until_idle(server: &Server) {
    eventually("only the pattern is left", || (pulls(server) == only_the_pattern()).then_some(()));
}

#[test]
fn the_first_player_begins_it_and_the_last_one_ends_it() {
    for workers in [1, 2] {
        let origin = Origin::start();
        let url = origin.url("/{stream}.flv?a={app}&token=secret");
        let server = Server::start_workers(workers, &config(&url, ""));
        assert_eq!(pulls(&server), only_the_pattern());
        let shown = server.api("/api/v1/pulls/cam/*");
        assert!(shown["url"].as_str().is_some_and(|url| url.ends_with("/{stream}.flv?...")), "{shown}");
        assert_eq!(shown["on_demand"], json!(true));
        assert!(origin.accept_now().is_none(), "nobody plays");
        let mut player = RtmpClient::play(server.rtmp, "cam/front@1");
        let mut asked = origin.accept();
        assert!(asked.head[0].starts_with("GET /front%401.flv?a=cam&token=secret "), "{:?}", asked.head);
        let others =
            [RtmpClient::play(server.rtmp, "cam/front@1"), RtmpClient::play(server.rtmp, "cam/front@1")];
        asked.begin();
        asked.send_tags(&sample_tags()[..100], 0);
        player.take_frames(50);
        let front = ("front@1".to_owned(), "live".to_owned());
        assert!(pulls(&server).contains(&front), "{:?}", pulls(&server));
        assert!(origin.accept_now().is_none(), "one connection for all");
        drop(player);
        server.wait_for_players("cam/front@1", 2);
        assert!(pulls(&server).contains(&front), "two still play");
        drop(others);
        asked.wait_closed();
        server.wait_for_publisher("cam/front@1", false);
        wait_until_idle(&server);
        assert_eq!(metric(&server, "millstream_pulls", "state=\"idle\""), Some(1.0));
    }
}

#[test]
fn what_is_sent_on_to_another_server_keeps_none() {
    let origin = Server::start_workers(1, "");
    let _publisher = publish_repeated(&origin.rtmp_url("live/mill"), 1, 30);
    origin.wait_for_publisher("live/mill", true);
    let receiver = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let target = receiver.local_addr().expect("an address");
    let push = format!("[[push]]\nstream = \"cam/mill\"\nurl = \"udp://{target}\"\n");
    let server = Server::spawn(&config(&origin.flv_url("live/{stream}"), &push));
    let mut player = RtmpClient::play(server.rtmp, "cam/mill");
    player.take_frames(5);
    assert!(receiver.recv(&mut [0; 2048]).is_ok(), "it is pushed");
    drop(player);
    wait_until_idle(&server);
}

#[test]
fn every_door_begins_one_and_lets_it_end() {
    let origin = Server::start_workers(1, "");
    let _publisher = publish_repeated(&origin.rtmp_url("live/mill"), 1, 9);
    origin.wait_for_publisher("live/mill", true);
    let url = origin.flv_url("live/{stream}");
    // Longer than this waits for the list of pulls on a busy machine.
    let server = Server::start_workers(2, &config(&url, "[hls]\nlinger_seconds = 3\n"));
    let wait_until_pulled = |by: &str| {
        eventually(&format!("a pull for {by}"), || (pulls(&server).len() > 1).then_some(()));
    };
    for path in ["/cam/mill.flv", "/cam/mill.ts"] {
        let mut player = http::open(server.http, "GET", path, &[]).expect("an answer");
        assert_eq!(player.status, 200, "{path}");
        player.read_exact(&mut [0; 4096]).expect("media");
        wait_until_pulled(path);
        drop(player);
        wait_until_idle(&server);
    }
    for path in ["/cam/mill.m3u8", "/cam/mill.mpd"] {
        let answer = http::get(server.http, path).expect("an answer");
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        // Segments of the pull before may have answered, and this one begins behind them.
        wait_until_pulled(path);
        wait_until_idle(&server);
    }
    let mut viewer = Client::play_h264(&server, "cam/mill");
    let mut viewed = Viewed::default();
    viewer.until("a picture", |viewer| {
        viewed.take(viewer);
        viewed.key_frame
    });
    wait_until_pulled("WHEP");
    assert_eq!(viewer.delete(), 200);
    wait_until_idle(&server);
}

#[test]
fn what_cannot_be_had_is_refused_by_each_protocol() {
    let origin = Origin::start();
    let dead = origin.url("/{stream}");
    let server = Server::start(&config(&dead, "on_demand_timeout_ms = 700\n"));
    // The origin takes connections and says nothing.
    for path in ["/cam/a.m3u8", "/cam/b.mpd"] {
        let answer = http::get(server.http, path).expect("an answer");
        assert_eq!(answer.status, 404, "{path}: {}", answer.text());
    }
    let offer = Client::try_open(&server, "/whep/cam/c", Direction::Receive, &Options::default());
    assert_eq!(offer.err().map(|answer| answer.status), Some(409), "as for any that is not live");
    let mut player = RtmpClient::play(server.rtmp, "cam/d");
    while player.next_event().is_some() {}
    wait_until_idle(&server);
    // Names that no stream may have begin nothing.
    for path in ["/cam/..%2Fa.flv", "/cam/.a.flv", "/cam/a%20b.flv", "/cam/a%3Fb.m3u8"] {
        let answer = http::get(server.http, path).expect("an answer");
        assert!((400..500).contains(&answer.status), "{path}: {}", answer.status);
    }
    let answer = http::get(server.http, "/other/a.m3u8").expect("an answer");
    assert_eq!(answer.status, 404, "no pattern");
    assert_eq!(pulls(&server), only_the_pattern());
}

#[test]
fn as_many_run_as_may_and_who_may_not_play_begins_none() {
    let origin = Origin::start();
    let more = "on_demand_max = 1\n[auth]\nplay_token = \"sesame\"\n";
    let server = Server::start(&config(&origin.url("/{stream}"), more));
    let refused = http::get(server.http, "/cam/a.flv").expect("an answer");
    assert_eq!(refused.status, 401);
    assert!(origin.accept_now().is_none());
    let _first = RtmpClient::play(server.rtmp, "cam/a?token=sesame");
    let _asked = origin.accept();
    let second = http::get(server.http, "/cam/b.m3u8?token=sesame").expect("an answer");
    assert_eq!(second.status, 404, "{}", second.text());
    assert!(origin.accept_now().is_none());
}

#[test]
fn one_address_holds_a_part_of_the_places_with_names_that_nobody_has() {
    let origin = Origin::start();
    let more = "on_demand_max = 8\non_demand_timeout_ms = 60000\n";
    let server = Server::start(&config(&origin.url("/{stream}.flv"), more));
    let _made_up: Vec<_> =
        (0..8).map(|at| RtmpClient::play(server.rtmp, &format!("cam/made-up-{at}"))).collect();
    let mut held = [origin.accept(), origin.accept()];
    assert!(held.iter().all(|asked| asked.head[0].starts_with("GET /made-up-")));
    // The others wait, and somebody else does not.
    let mut socket = from_elsewhere(&server);
    socket.write_all(b"GET /cam/front.flv HTTP/1.1\r\nHost: a\r\n\r\n").expect("a request");
    let mut front = origin.accept();
    assert!(front.head[0].starts_with("GET /front.flv "), "{:?}", front.head);
    front.begin();
    front.send_tags(&sample_tags()[..100], 0);
    socket.read_exact(&mut [0; 4096]).expect("media");
    assert!(origin.accept_now().is_none());
    // Nor for a name that the first waits for as well.
    let _waits = RtmpClient::play(server.rtmp, "cam/back");
    assert!(origin.accept_now().is_none());
    let mut socket = from_elsewhere(&server);
    socket.write_all(b"GET /cam/back.flv HTTP/1.1\r\nHost: a\r\n\r\n").expect("a request");
    let mut back = origin.accept();
    assert!(back.head[0].starts_with("GET /back.flv "), "{:?}", back.head);
    back.begin();
    back.send_tags(&sample_tags()[..100], 0);
    socket.read_exact(&mut [0; 4096]).expect("media");
    // A source that answers makes room for the next of those that wait.
    held[0].begin();
    held[0].send_tags(&sample_tags()[..100], 0);
    let next = origin.accept();
    assert!(next.head[0].starts_with("GET /made-up-"), "{:?}", next.head);
}

/// A connection of another client's address.
fn from_elsewhere(server: &Server) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from(([127, 0, 0, 2], 0)).into()).expect("an address of this host");
    socket.connect(&server.http.into()).expect("a connection");
    let socket = TcpStream::from(socket);
    socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    socket
}

#[test]
fn in_a_cluster_the_node_of_the_first_player_pulls_and_the_others_fetch() {
    let Some(cluster) = Cluster::start() else { return };
    let origin = Origin::start();
    let rules = format!("linger_ms = 300\n{}", config(&origin.url("/{stream}.flv"), ""));
    let node = |name| Server::start_workers(2, &cluster.config(name, &rules));
    let (a, b) = (node("a"), node("b"));
    wait_for_lines(&b, "linked to a node", 1);
    let mut first = RtmpClient::play(b.rtmp, "cam/front");
    let mut asked = origin.accept();
    asked.begin();
    asked.send_tags(&sample_tags()[..100], 0);
    first.take_frames(50);
    wait_for_lines(&b, "published in the cluster", 1);
    let mut second = RtmpClient::play(a.rtmp, "cam/front");
    asked.send_tags(&sample_tags()[..100], 4_000);
    second.take_frames(20);
    assert!(origin.accept_now().is_none(), "one connection for all nodes");
    assert_eq!(pulls(&a), only_the_pattern());
    assert_eq!(a.sessions("stream=cam/front&role=publisher")[0]["protocol"], "node");
    // The player of the other node keeps it.
    drop(first);
    b.wait_for_players("cam/front", 1);
    asked.send_tags(&sample_tags()[..100], 8_000);
    second.take_frames(20);
    drop(second);
    asked.wait_closed();
    wait_until_idle(&b);
}

#[test]
fn a_pull_of_one_name_is_idle_until_it_is_played_and_can_be_removed() {
    let origin = Origin::start();
    let server = Server::start(LOCAL);
    let add = |app: &str, name: &str, url: &str| {
        let body = json!({ "app": app, "name": name, "url": url, "on_demand": true }).to_string();
        crate::common::origin::post(&server, "/api/v1/pulls", &body).status
    };
    assert_eq!(add("live", "*", &origin.url("/x")), 400, "a pattern without a place for the name");
    assert_eq!(add("live", "*", "http://{stream}/x"), 400, "players do not choose the server");
    assert_eq!(add("live", "a", &origin.url("/{stream}?x")), 201);
    assert_eq!(pulls(&server), [("a".to_owned(), "idle".to_owned())]);
    let mut player = RtmpClient::play(server.rtmp, "live/a");
    let mut asked = origin.accept();
    assert!(asked.head[0].starts_with("GET /a?x "), "{:?}", asked.head);
    asked.begin();
    asked.send_tags(&sample_tags()[..100], 0);
    player.take_frames(50);
    assert_eq!(pulls(&server), [("a".to_owned(), "live".to_owned())]);
    let removed = http::request(server.http, "DELETE", "/api/v1/pulls/live/a", &[]).expect("an answer");
    assert_eq!(removed.status, 204);
    asked.wait_closed();
    server.wait_for_publisher("live/a", false);
    assert!(pulls(&server).is_empty());
    assert!(origin.accept_now().is_none());
}
