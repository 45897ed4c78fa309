//! The kernel deals connections out unevenly: those of a worker that is full go to another.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::common::eventually;
use crate::common::flv::{TagReader, sample_tags};
use crate::common::http;
use crate::common::rtmp::RtmpClient;
use crate::common::tls;

/// Of one session each; four are left for what the test asks. That the kernel gives each player and the
/// publisher a worker of its own happens in 24! / 4! / 24^20 of all runs, six in a million.
const WORKERS: u32 = 24;
const PLAYERS: usize = 19;

#[test]
fn players_of_every_kind_are_served_as_long_as_any_worker_has_room() {
    let (server, certificate, _files) = tls::server(WORKERS, "[limits]\nsessions_per_worker = 1\n");
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&sample_tags()[..60]);
    let https = server.https.expect("an HTTPS address");
    let (mut rtmp, mut flv, mut sockets) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..PLAYERS {
        match number % 4 {
            0 => rtmp.push(RtmpClient::play(server.rtmp, "live/mill")),
            1 => {
                let response = http::open(server.http, "GET", "/live/mill.flv", &[]).expect("an answer");
                assert_eq!(response.status, 200);
                flv.push(Box::new(response) as Box<dyn Read>);
            }
            2 => {
                let mut stream = tls::connect(https, &certificate, &["http/1.1"]);
                stream.write_all(b"GET /live/mill.flv HTTP/1.0\r\nHost: localhost\r\n\r\n").expect("sent");
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).expect("an answer");
                    head.push(byte[0]);
                }
                assert!(head.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&head));
                flv.push(Box::new(stream));
            }
            _ => {
                let socket = TcpStream::connect(server.http).expect("a connection");
                let url = format!("ws://{}/live/mill.flv", server.http);
                sockets.push(tungstenite::client(url, socket).expect("an upgrade").0);
            }
        }
    }
    server.wait_for_players("live/mill", PLAYERS);
    publisher.send_tags(&sample_tags()[60..]);
    rtmp.iter_mut().for_each(|player| assert_eq!(player.take_frames(20).len(), 20));
    for player in flv {
        let mut reader = TagReader::new(player);
        (0..20).for_each(|tag| assert!(reader.next().is_some(), "tag {tag}"));
    }
    for socket in &mut sockets {
        assert!(socket.read().expect("a message").is_binary());
    }
    eventually("connections were handed over", || {
        (server.counter("millstream_connections_handed_over") > 0).then_some(())
    });
    assert_eq!(server.counter("millstream_connections_refused_full"), 0);
}
