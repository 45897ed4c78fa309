//! Peers that ask and ask and never read the answers: what waits for them is bounded.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use crate::common::raw::{self, chunk_header};
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;

const MIB: u64 = 1 << 20;
/// Each of these connections sends as much as the server takes, up to this.
const FLOOD_BYTES: usize = 64 << 20;
/// A server that has taken nothing for so long waits for its answers to be read. On a busy machine a flood
/// may end too soon by this: then less is tested, and nothing fails.
const TAKES_NOTHING: Duration = Duration::from_millis(500);

#[test]
fn rtmp_pings_that_nobody_reads_the_answers_of() {
    // User Control, event 6: Ping Request (Adobe RTMP specification 1.0, section 7.1.7).
    let mut ping = chunk_header(2, 0, 6, 4, 0);
    ping.extend([0, 6, 0, 0, 0, 0]);
    flood(&ping, |server| {
        let mut socket = raw::handshake(server.rtmp);
        socket.write_all(&raw::connect_and_create("live")).expect("send");
        socket.write_all(&raw::play("mill")).expect("send");
        socket
    });
}

#[test]
fn rtmp_commands_that_nobody_reads_the_answers_of() {
    use raw::Amf;
    let command = raw::command(&[Amf::Text(b"createStream"), Amf::Number(7.0), Amf::Null]);
    flood(&command, |server| {
        let mut socket = raw::handshake(server.rtmp);
        socket.write_all(&raw::connect_and_create("live")).expect("send");
        socket.write_all(&raw::play("mill")).expect("send");
        socket
    });
}

#[test]
fn websocket_pings_that_nobody_reads_the_answers_of() {
    // A masked ping of 125 bytes (RFC 6455 section 5.5.2); the mask is zero.
    let ping = [vec![0x89, 0x80 | 125, 0, 0, 0, 0], vec![0x50; 125]].concat();
    flood(&ping, |server| {
        let mut socket = TcpStream::connect(server.http).expect("connect");
        let request = "GET /live/mill.flv HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                       Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        socket.write_all(request.as_bytes()).expect("send");
        socket
    });
}

#[test]
fn requests_in_a_row_on_one_http_connection() {
    flood(b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n", |server| {
        TcpStream::connect(server.http).expect("connect")
    });
}

/// Sends `message` again and again on a few connections, reads nothing, and watches the server's memory.
fn flood(message: &[u8], connect: impl Fn(&Server) -> TcpStream) {
    let mut server = Server::spawn("");
    let mut publisher = RtmpClient::publish(server.rtmp, "live/other");
    let mut player = RtmpClient::play(server.rtmp, "live/other");
    let tags = crate::common::flv::sample_tags();
    publisher.send_tags(&tags[..60]);
    player.take_frames(50);
    let before = server.resident_bytes();
    let batch = message.repeat((64 << 10) / message.len());
    let (mut largest, mut open) = (0, Vec::new());
    for _ in 0..4 {
        let mut socket = connect(&server);
        socket.set_write_timeout(Some(TAKES_NOTHING)).expect("set SO_SNDTIMEO");
        let mut sent = 0;
        let mut rest: &[u8] = &batch;
        // Until all is sent, the server closes, or it takes nothing any more.
        while sent < FLOOD_BYTES {
            match socket.write(rest) {
                Ok(0) | Err(_) => break,
                Ok(written) => {
                    sent += written;
                    rest = if written == rest.len() { &batch } else { &rest[written..] };
                }
            }
            largest = largest.max(server.resident_bytes());
        }
        open.push(socket);
    }
    let grown = largest.saturating_sub(before);
    // A quarter of a megabyte may wait for each; the allocator takes and keeps megabytes at a time for each
    // thread. Without a bound it would be what was sent, four times 64 MiB.
    assert!(grown <= 64 * MIB, "{} MiB for four connections that only ask", grown / MIB);
    publisher.send_tags(&tags[60..120]);
    player.take_frames(50);
    server.assert_healthy();
}
