//! Players that stop reading: bounded, closed with a reason, and nobody else notices.

use std::net::TcpStream;
use std::time::Duration;

use crate::common::flv::{TagReader, sample_tags};
use crate::common::http;
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use rtmp::MediaKind;
use rtmp::flv::Tag;
use socket2::{Domain, Socket, Type};

const STALLED: usize = 500;
const MIB: u64 = 1 << 20;

#[test]
fn five_hundred_players_that_stop_reading_disturb_nobody() {
    let _turn = crate::common::many_descriptors(4 * STALLED as u64);
    let mut server =
        Server::spawn("[stream]\nplayer_stall_timeout_ms = 2000\nplayer_queue_max_bytes = 2097152\n");
    let tags = sample_tags();
    let mut good_rtmp = RtmpClient::play(server.rtmp, "live/mill");
    let address = server.http;
    let opening =
        std::thread::spawn(move || http::open(address, "GET", "/live/mill.flv", &[]).expect("play"));
    server.wait_for_players("live/mill", 2);
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    // Metadata, two configurations, the first audio frame and the first key frame: from here on
    // players may begin.
    let (beginning, rest) = tags.split_at(5);
    publisher.send_tags(beginning);
    let good_flv = opening.join().expect("a response");
    let stalled: Vec<TcpStream> = (0..STALLED).map(|_| stalled_player(&server, "/live/mill.flv")).collect();
    crate::common::eventually("all play", || {
        (server.api("/api/v1/streams/live/mill")["players"].as_u64()? == STALLED as u64 + 2).then_some(())
    });
    let before = server.resident_bytes();

    // Eight loops of the sample, 6 MB, about eight times faster than it plays.
    let loops: Vec<Tag> = (0..8).flat_map(|round| looped(rest, round * 10_100)).collect();
    let expected: Vec<Tag> = looped(beginning, 0).into_iter().chain(loops.iter().cloned()).collect();
    let mut largest = 0;
    std::thread::scope(|scope| {
        let expected = &expected;
        let flv = scope.spawn(move || {
            let mut reader = TagReader::new(good_flv);
            for (index, want) in expected.iter().enumerate() {
                let got = loop {
                    let tag = reader.next().expect("the good HTTP player is served");
                    // Configuration may be repeated to a player; frames may not.
                    if tag.kind != MediaKind::Data && (tag.body == want.body || !is_configuration(&tag)) {
                        break tag;
                    }
                };
                assert!(got.body == want.body, "HTTP-FLV: message {index}");
            }
        });
        let rtmp = scope.spawn(move || {
            for (index, want) in expected.iter().enumerate() {
                let got = loop {
                    let message = good_rtmp.next_media().expect("the good RTMP player is served");
                    let tag = Tag { kind: message.kind, timestamp: message.timestamp, body: message.payload };
                    if tag.kind != MediaKind::Data && (tag.body == want.body || !is_configuration(&tag)) {
                        break tag;
                    }
                };
                assert!(got.body == want.body, "RTMP: message {index}");
            }
        });
        for group in loops.chunks(5) {
            publisher.send_tags(group);
            std::thread::sleep(Duration::from_millis(9)); // the pace of a publisher, faster than real time
            largest = largest.max(server.resident_bytes());
        }
        flv.join().expect("the good HTTP player got everything");
        rtmp.join().expect("the good RTMP player got everything");
    });
    let grown = largest.saturating_sub(before);
    assert!(grown <= 64 * MIB, "{} MiB for {STALLED} stalled players of one stream", grown / MIB);

    crate::common::eventually("the stalled players are closed", || {
        publisher.send_tags(&looped(&rest[..20], 90_000));
        (server.api("/api/v1/streams/live/mill")["players"].as_u64()? <= 2).then_some(())
    });
    assert!(server.log().contains("player took nothing for too long"), "the log says why");
    let metrics = http::get(server.http, "/metrics").expect("GET /metrics").text();
    let counter = metrics.lines().find(|line| line.starts_with("millstream_slow_players_disconnected_total"));
    let counted = counter.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    assert_eq!(counted, Some(STALLED), "each is counted");
    drop(stalled);
    server.assert_healthy();
}

/// A player with the smallest receive buffer the kernel gives, which never reads.
fn stalled_player(server: &Server, path: &str) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(2048).expect("set SO_RCVBUF");
    socket.connect(&server.http.into()).expect("connect");
    let mut socket = TcpStream::from(socket);
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    std::io::Write::write_all(&mut socket, request.as_bytes()).expect("send");
    socket
}

fn looped(tags: &[Tag], offset: u32) -> Vec<Tag> {
    let frames = tags.iter().filter(|tag| tag.kind != MediaKind::Data && !is_configuration(tag));
    frames
        .map(|tag| Tag { kind: tag.kind, timestamp: tag.timestamp + offset, body: tag.body.clone() })
        .collect()
}

/// Sequence headers of H.264 and AAC have packet type 0.
fn is_configuration(tag: &Tag) -> bool {
    tag.body.len() > 1 && tag.body[1] == 0
}
