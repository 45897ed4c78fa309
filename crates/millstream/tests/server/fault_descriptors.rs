//! No file descriptors left: accepting pauses without spinning, and goes on when there are some again.

use std::net::TcpStream;

use crate::common::flv::sample_tags;
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;

#[test]
fn accepting_pauses_without_spinning_and_recovers() {
    const LIMIT: usize = 100;
    let launcher = ["sh", "-c", "ulimit -n 100 && exec \"$0\" \"$@\""];
    let mut server = Server::spawn_under(&launcher, 1, "[limits]\nhandshake_timeout_ms = 600000\n");
    let tags = sample_tags();
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    let mut player = RtmpClient::play(server.rtmp, "live/mill");
    publisher.send_tags(&tags[..60]);
    player.take_frames(50);

    // The kernel completes connections up to the backlog, so none of these fails here.
    let idle: Vec<TcpStream> =
        (0..2 * LIMIT).map(|_| TcpStream::connect(server.rtmp).expect("connect")).collect();
    crate::common::eventually("the server notices", || {
        let log = server.log().to_ascii_lowercase();
        (log.contains("descriptor") || log.contains("too many open files") || log.contains("emfile"))
            .then_some(())
    });
    // Meanwhile media is served.
    for piece in tags[60..120].chunks(2) {
        publisher.send_tags(piece);
        player.take_frames(2);
    }
    let lines = server.log().lines().count();
    assert!(lines < 200, "the log has {lines} lines");

    drop(idle);
    crate::common::eventually("connections are accepted again", || {
        crate::common::http::get(server.http, "/healthz")
            .ok()
            .filter(|response| response.status == 200)
            .map(|_| ())
    });
    let mut late = RtmpClient::play(server.rtmp, "live/mill");
    publisher.send_tags(&tags[120..180]);
    late.take_frames(20);
    player.take_frames(50);
    // A loop that spins makes some hundred thousand in that time.
    let turns = server.counter("millstream_loop_turns");
    assert!(turns < 5_000, "{turns} turns for 200 connections and 180 messages");
    server.assert_healthy();
}

#[test]
fn sessions_beyond_the_configured_number_are_closed_at_once() {
    let mut server = Server::start("[limits]\nsessions_per_worker = 20\nhandshake_timeout_ms = 600000\n");
    let mut sockets: Vec<TcpStream> =
        (0..40).map(|_| TcpStream::connect(server.rtmp).expect("connect")).collect();
    let closed = sockets
        .iter_mut()
        .rev()
        .take(15)
        .filter_map(|socket| crate::common::raw::read_until_closed(socket, crate::common::TIMEOUT))
        .count();
    assert_eq!(closed, 15, "the last fifteen of forty are closed");
    drop(sockets);
    crate::common::eventually("there is room again", || {
        crate::common::http::get(server.http, "/healthz")
            .ok()
            .filter(|response| response.status == 200)
            .map(|_| ())
    });
    server.assert_healthy();
}
