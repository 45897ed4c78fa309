//! RTMP, HTTP and both by TLS at one address: the first bytes say which.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use crate::common::server::Server;
use crate::common::tools::{Player, frames_of, publish, sample};
use crate::common::{TIMEOUT, http, port_for_later, raw};

/// A server with all of it at one address.
fn server(more: &str) -> (Server, SocketAddr) {
    let free = SocketAddr::from((Ipv4Addr::LOCALHOST, port_for_later()));
    let sections = ["rtmp", "http", "rtmps", "https"];
    let listen: String = sections.map(|section| format!("[{section}]\nlisten = \"{free}\"\n")).concat();
    let server = Server::start_workers(2, &format!("{listen}[tls]\nself_signed = true\n{more}"));
    assert_eq!((server.rtmp, server.http), (free, free));
    assert_eq!((server.rtmps, server.https), (Some(free), Some(free)));
    (server, free)
}

#[test]
fn publishers_and_players_of_four_protocols_meet_at_one_port() {
    let source = frames_of(&sample());
    let (server, at) = server("");
    let urls = ["rtmp", "rtmps", "http", "https"].map(|scheme| {
        let end = if scheme.starts_with("http") { ".flv" } else { "" };
        format!("{scheme}://{at}/live/mill{end}")
    });
    for publish_by in &urls[..2] {
        let players = urls.each_ref().map(|url| {
            let name = format!("{}-{}", publish_by.split(':').next().unwrap_or_default(), url.len());
            let scheme = url.split(':').next().unwrap_or_default();
            Player::start(url, server.dir.path().join(format!("{name}-{scheme}")))
        });
        server.wait_for_players("live/mill", 4);
        let publisher = publish(publish_by, 4);
        server.wait_for_publisher("live/mill", true);
        let sessions = server.sessions("stream=live/mill");
        let mut protocols: Vec<_> = sessions.iter().filter_map(|it| it["protocol"].as_str()).collect();
        protocols.sort_unstable();
        protocols.dedup();
        assert_eq!(protocols, ["http-flv", "https-flv", "rtmp", "rtmps"]);
        publisher.finish();
        for player in players {
            player.frames_after_end().assert_same_as(&source);
        }
        server.wait_for_publisher("live/mill", false);
    }
}

#[test]
fn a_client_may_take_its_time_over_the_first_bytes_and_not_longer() {
    let (mut server, at) = server("[limits]\nhandshake_timeout_ms = 1000\n");
    let mut slow = TcpStream::connect(at).expect("a connection");
    let silent = TcpStream::connect(at).expect("a connection");
    let mut hello = TcpStream::connect(at).expect("a connection");
    // A record of TLS that never ends.
    hello.write_all(&[0x16]).expect("room");
    for byte in b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n" {
        slow.write_all(&[*byte]).expect("room");
    }
    let mut answer = String::new();
    slow.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 "), "{answer}");
    for mut client in [silent, hello] {
        assert!(raw::read_until_closed(&mut client, TIMEOUT).is_some(), "it is closed");
    }
    for rubbish in [&[0_u8; 64][..], &[0xff; 64], &[0x16; 64], &[3; 4000], b"\r\n\r\n\r\n"] {
        let mut client = TcpStream::connect(at).expect("a connection");
        client.write_all(rubbish).expect("room");
        assert!(raw::read_until_closed(&mut client, TIMEOUT).is_some(), "{rubbish:?}");
    }
    assert_eq!(http::get(at, "/api/v1/streams").expect("an answer").status, 200);
    server.assert_healthy();
}
