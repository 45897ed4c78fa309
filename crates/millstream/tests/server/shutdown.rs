//! SIGTERM: no new connections, everybody is told, exit status 0 within the drain time.

use std::io::Read;
use std::time::Duration;

use crate::common::flv::sample_tags;
use crate::common::http;
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use nix::sys::signal::Signal;
use rtmp::client::ClientEvent;

#[test]
fn sigterm_tells_everybody_and_ends_with_status_zero() {
    for workers in [1, 2] {
        let mut server = Server::spawn_workers(workers, "[shutdown]\ndrain_seconds = 5\n");
        let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
        let mut player = RtmpClient::play(server.rtmp, "live/mill");
        let mut waiting = RtmpClient::play(server.rtmp, "live/nobody");
        publisher.send_tags(&sample_tags()[..60]);
        let mut flv = http::open(server.http, "GET", "/live/mill.flv", &[]).expect("play");
        player.take_frames(50);
        server.terminate();
        for (name, client) in
            [("publisher", &mut publisher), ("player", &mut player), ("waiting player", &mut waiting)]
        {
            let mut told = false;
            while let Some(event) = client.next_event() {
                told |= matches!(event, ClientEvent::Status { .. } | ClientEvent::Ended { .. });
            }
            assert!(told, "the {name} is told before its connection ends");
        }
        let mut rest = Vec::new();
        flv.read_to_end(&mut rest).expect("the HTTP response ends");
        let status = server.wait_for_exit(Duration::from_secs(20));
        assert_eq!(status.code(), Some(0), "{status}: {}", server.log());
        assert!(std::net::TcpStream::connect(server.rtmp).is_err(), "nothing listens any more");
    }
}

#[test]
fn what_was_published_before_the_signal_still_arrives() {
    let mut server = Server::spawn("[stream]\nmerge_latency_ms = 1000\n");
    let tags = sample_tags();
    let mut player = RtmpClient::play(server.rtmp, "live/mill");
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&tags[..120]);
    crate::common::eventually("the server has read all of it", || {
        let sent: u64 = tags[..120].iter().map(|tag| tag.body.len() as u64).sum();
        (server.api("/api/v1/streams/live/mill")["bytes_in"].as_u64()? >= sent).then_some(())
    });
    server.terminate();
    assert_eq!(player.take_frames(115).len(), 115, "messages that waited to be merged are flushed");
    assert_eq!(server.wait_for_exit(Duration::from_secs(20)).code(), Some(0));
}

#[test]
fn a_client_that_does_not_leave_is_closed_at_the_deadline() {
    let mut server = Server::spawn("[shutdown]\ndrain_seconds = 1\n");
    let _idle = std::net::TcpStream::connect(server.rtmp).expect("connect");
    let _player = RtmpClient::play(server.rtmp, "live/mill");
    server.terminate();
    assert_eq!(server.wait_for_exit(Duration::from_secs(20)).code(), Some(0));
}

#[test]
fn sigint_does_the_same() {
    let mut server = Server::spawn("");
    server.signal(Signal::SIGINT);
    assert_eq!(server.wait_for_exit(Duration::from_secs(20)).code(), Some(0));
}
