//! A player that is too slow for a while: it loses whole groups of pictures and nothing else.

use std::io::Read;
use std::net::TcpStream;
use std::time::Duration;

use crate::common::eventually;
use crate::common::flv::{TagReader, sample_tags};
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use rtmp::MediaKind;
use rtmp::flv::Tag;
use socket2::{Domain, Socket, Type};

#[test]
fn a_slow_player_goes_on_with_a_key_frame_and_whole_messages() {
    let server = Server::start("[stream]\nplayer_queue_max_ms = 3000\nplayer_stall_timeout_ms = 60000\n");
    let tags = sample_tags();
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&tags[..10]);
    let mut slow = connect_with_small_buffer(&server);
    server.wait_for_players("live/mill", 1);

    // Ten seconds of media in about one, again and again, until the player is further behind than it may be.
    let queue_ms = || server.sessions("role=player").first()?["queue_ms"].as_u64();
    let mut round = 0;
    eventually("the player is behind", || {
        let offset = round * 10_100;
        round += 1;
        for part in tags[3..].chunks(7) {
            publisher.send_tags(&part.iter().map(|tag| later(tag, offset)).collect::<Vec<_>>());
            // The publisher's pace: what a player is behind by is the time since a message arrived.
            std::thread::sleep(Duration::from_millis(10));
        }
        queue_ms().filter(|queue_ms| *queue_ms > 5_000)
    });

    // It catches up: what it reads now is what had been begun, then everything from a later key frame on.
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        slow.read_exact(&mut byte).expect("a response head");
        head.push(byte[0]);
    }
    let reading = std::thread::spawn(move || {
        let mut reader = TagReader::new(slow);
        let mut received = Vec::new();
        // The last tag sent is marked by its size.
        while received.last().is_none_or(|tag: &Tag| tag.body.len() != MARK_BYTES) {
            received.push(reader.next().expect("the player is still served"));
        }
        (received, reader)
    });
    let offset = round * 10_100;
    for part in tags[3..].chunks(50) {
        // Not so much at once that it is too slow again.
        eventually("the player keeps up", || queue_ms().filter(|queue_ms| *queue_ms < 1_000));
        publisher.send_tags(&part.iter().map(|tag| later(tag, offset)).collect::<Vec<_>>());
    }
    eventually("the player keeps up", || queue_ms().filter(|queue_ms| *queue_ms < 1_000));
    let mut mark = vec![0x27, 1, 0, 0, 0];
    mark.resize(MARK_BYTES, 7);
    publisher.send(MediaKind::Video, offset + 10_050, &mark);
    let (received, _still_connected) = reading.join().expect("well-formed FLV to the end");

    let video: Vec<&Tag> = received.iter().filter(|tag| tag.kind == MediaKind::Video).collect();
    let mut gaps = 0;
    for pair in video.windows(2) {
        let step = pair[1].timestamp.wrapping_sub(pair[0].timestamp);
        if step > 300 {
            gaps += 1;
            let begins = pair[1].body.starts_with(&[0x17]);
            assert!(begins, "after a gap of {step} ms comes {:02x?}, no key frame", &pair[1].body[..2]);
        }
    }
    assert!(gaps > 0, "there was a gap");
    let dropped = server.sessions("role=player")[0]["dropped_frames"].as_u64().expect("a number");
    assert!(dropped > 100, "and it is counted: {dropped}");
    for tag in received.iter().filter(|tag| tag.kind != MediaKind::Data && tag.body.len() != MARK_BYTES) {
        assert!(tags.iter().any(|sent| sent.body == tag.body), "a message that was never published");
    }
}

const MARK_BYTES: usize = 12_345;

fn later(tag: &Tag, offset: u32) -> Tag {
    Tag { kind: tag.kind, timestamp: tag.timestamp + offset, body: tag.body.clone() }
}

/// Asks for the stream in HTTP/1.0, so that the body is FLV and nothing else.
fn connect_with_small_buffer(server: &Server) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(4096).expect("set SO_RCVBUF");
    socket.connect(&server.http.into()).expect("connect");
    let mut socket = TcpStream::from(socket);
    socket.set_read_timeout(Some(crate::common::TIMEOUT)).expect("set a timeout");
    std::io::Write::write_all(&mut socket, b"GET /live/mill.flv HTTP/1.0\r\n\r\n").expect("send");
    socket
}
