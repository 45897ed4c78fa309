//! Ending a session through the management API.

use crate::common::flv::{TagReader, sample_tags};
use crate::common::http;
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;

#[test]
fn a_kicked_player_is_closed_and_the_others_go_on() {
    for workers in [1, 2] {
        let server = Server::start_workers(workers, "");
        let tags = sample_tags();
        let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
        let mut kicked = RtmpClient::play(server.rtmp, "live/mill");
        server.wait_for_players("live/mill", 1);
        let id = server.sessions("role=player")[0]["id"].as_str().expect("an id").to_owned();
        let mut other = RtmpClient::play(server.rtmp, "live/mill");
        server.wait_for_players("live/mill", 2);
        publisher.send_tags(&tags[..60]);
        other.take_frames(50);
        assert_eq!(delete(&server, &id), 204);
        while kicked.next_event().is_some() {}
        server.wait_for_players("live/mill", 1);
        publisher.send_tags(&tags[60..120]);
        other.take_frames(50);
        crate::common::eventually("the session is gone", || (delete(&server, &id) == 404).then_some(()));
    }
}

#[test]
fn a_kicked_http_player_is_closed() {
    let server = Server::start("");
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&sample_tags()[..60]);
    let mut player = TagReader::new(http::open(server.http, "GET", "/live/mill.flv", &[]).expect("play"));
    player.next().expect("a tag");
    server.wait_for_players("live/mill", 1);
    let id = server.sessions("role=player")[0]["id"].as_str().expect("an id").to_owned();
    assert_eq!(delete(&server, &id), 204);
    while player.next().is_some() {}
    server.wait_for_players("live/mill", 0);
}

#[test]
fn a_kicked_publisher_leaves_its_players_waiting() {
    let server = Server::start("");
    let tags = sample_tags();
    let mut player = RtmpClient::play(server.rtmp, "live/mill");
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&tags[..60]);
    player.take_frames(50);
    let id = server.sessions("role=publisher")[0]["id"].as_str().expect("an id").to_owned();
    assert_eq!(delete(&server, &id), 204);
    while publisher.next_event().is_some() {}
    server.wait_for_publisher("live/mill", false);
    let mut next = RtmpClient::publish(server.rtmp, "live/mill");
    next.send_tags(&tags[..60]);
    player.take_frames(50);
}

#[test]
fn ids_that_are_none_are_not_found() {
    let mut server = Server::start("");
    for id in ["0", "99999999", "-1", "x", "18446744073709551616", "%00", "1%2F2"] {
        let status = delete(&server, id);
        assert!(matches!(status, 400 | 404), "{id}: {status}");
    }
    server.assert_healthy();
}

fn delete(server: &Server, id: &str) -> u16 {
    http::request(server.http, "DELETE", &format!("/api/v1/sessions/{id}"), &[]).expect("an answer").status
}
