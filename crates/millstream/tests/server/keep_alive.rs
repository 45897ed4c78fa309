//! HTTP/1 connections that carry more than one request: between workers and control and back, with and
//! without TLS.
#![expect(clippy::disallowed_methods, reason = "time limits of a server in real time")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::common::TIMEOUT;
use crate::common::flv::{TagReader, sample_tags};
use crate::common::http;
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use crate::common::tls;

const HEALTH: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

fn connect(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).expect("a connection");
    socket.set_read_timeout(Some(TIMEOUT)).expect("a socket option");
    socket.set_nodelay(true).expect("a socket option");
    socket
}

/// Reads one answer, and no byte more: its head in lower case, and its body.
fn answer(stream: &mut impl Read) -> (String, String) {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("an answer");
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("text").to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().expect("a number"))];
    stream.read_exact(&mut body).expect("a body");
    (head, String::from_utf8(body).expect("text"))
}

fn assert_healthy(stream: &mut (impl Read + Write), remark: &str) {
    stream.write_all(HEALTH).unwrap_or_else(|error| panic!("{remark}: {error}"));
    let (head, body) = answer(stream);
    assert!(head.starts_with("http/1.1 200 ok\r\n") && body == "ok\n", "{remark}: {head}{body}");
    assert!(!head.contains("connection: close"), "{remark}: {head}");
}

/// Waits until `count` connections are idle on workers.
fn wait_for_idle(server: &Server, count: u64) {
    server.wait_for_counter("millstream_http_idle_connections", count);
}

#[test]
fn ten_thousand_idle_connections_take_at_most_four_kilobytes_each() {
    const COUNT: usize = 9_500;
    const WARM_UP: usize = 500;
    let _turn = crate::common::many_descriptors(COUNT as u64 + WARM_UP as u64 + 500);
    let mut server =
        Server::spawn("[http]\nkeep_alive_connections_per_address = 20000\nkeep_alive_seconds = 600\n");
    let open = |count: usize| -> Vec<TcpStream> {
        let connect = |_| {
            let mut socket = connect(server.http);
            assert_healthy(&mut socket, "first request");
            socket
        };
        (0..count).map(connect).collect()
    };
    // What is not per connection: code paths that run for the first time, tables of the allocator.
    let mut sockets = open(WARM_UP);
    wait_for_idle(&server, WARM_UP as u64);
    let before = server.resident_bytes();
    sockets.extend(open(COUNT));
    wait_for_idle(&server, (WARM_UP + COUNT) as u64);
    let each = server.resident_bytes().saturating_sub(before) / COUNT as u64;
    eprintln!("RESULT http idle_connections={} bytes_each={each}", sockets.len());
    assert!(each <= 4096, "{each} bytes for each of {COUNT} idle connections");
    for (index, socket) in sockets.iter_mut().enumerate() {
        assert_healthy(socket, &format!("second request of connection {index}"));
    }
    drop(sockets);
    wait_for_idle(&server, 0);
    server.assert_healthy();
}

#[test]
fn a_stream_can_be_asked_for_on_a_connection_that_was_idle() {
    let server = Server::start("");
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&sample_tags()[..60]);
    let mut socket = connect(server.http);
    assert_healthy(&mut socket, "before");
    wait_for_idle(&server, 1);
    // The publisher: an idle connection is no session.
    server.wait_for_session_count(1);
    socket.write_all(b"GET /live/mill.flv HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sent");
    let response = http::read_head(socket).expect("an answer");
    assert_eq!((response.status, response.header("content-type")), (200, Some("video/x-flv")));
    assert!(TagReader::new(response).next().is_some(), "tags follow");
    server.wait_for_counter("millstream_http_kept_connections", 0);
}

#[test]
fn a_stream_can_be_asked_for_behind_another_request() {
    let server = Server::start("");
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&sample_tags()[..60]);
    let mut socket = connect(server.http);
    let media: &[u8] =
        b"GET /live/mill.flv HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                  Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    socket.write_all(&[HEALTH, HEALTH, media].concat()).expect("sent");
    for _ in 0..2 {
        assert_eq!(answer(&mut socket).1, "ok\n");
    }
    assert!(answer(&mut socket).0.starts_with("http/1.1 101 "), "WebSocket, too");
    let mut header = [0; 2];
    socket.read_exact(&mut header).expect("a WebSocket message");
    assert_eq!(header[0], 0x82, "a binary one");
}

#[test]
fn short_answers_of_a_worker_leave_the_connection_open() {
    let server = Server::start("[stream]\nwait_for_publisher_seconds = 0\n");
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&sample_tags()[..60]);
    let rows = [
        ("HEAD /live/mill.flv", "200"),
        ("OPTIONS /live/mill.flv", "204"),
        ("DELETE /live/mill.flv", "405"),
        ("GET /live/nobody.flv", "404"),
    ];
    let request = |line: &str| format!("{line} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut socket = connect(server.http);
    for (line, status) in rows {
        socket.write_all(request(line).as_bytes()).expect("sent");
        let (head, _) = answer(&mut socket);
        assert!(head.starts_with(&format!("http/1.1 {status} ")), "{line}: {head}");
        assert!(!head.contains("connection: close"), "{line}: {head}");
        wait_for_idle(&server, 1);
        assert_healthy(&mut socket, line);
    }
    // All at once, and behind them one for the control side.
    let all: String = rows.iter().map(|(line, _)| request(line)).collect();
    socket.write_all(&[all.as_bytes(), HEALTH].concat()).expect("sent");
    for (line, status) in rows {
        assert!(answer(&mut socket).0.starts_with(&format!("http/1.1 {status} ")), "{line}");
    }
    assert_eq!(answer(&mut socket).1, "ok\n");
    // Nobody would read the body, which would be taken for the next request.
    let with_body = b"POST /live/mill.flv HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nhi";
    socket.write_all(with_body).expect("sent");
    assert!(answer(&mut socket).0.contains("connection: close"));
}

#[test]
fn live_statistics_can_be_asked_for_on_a_connection_that_was_idle() {
    let server = Server::start("");
    let mut socket = connect(server.http);
    for _ in 0..2 {
        assert_healthy(&mut socket, "before");
    }
    wait_for_idle(&server, 1);
    let url = format!("ws://localhost:{}/api/v1/stats/stream", server.http.port());
    let (mut reader, _) = tungstenite::client(url, socket).expect("the stream begins");
    assert!(reader.read().expect("a message").is_binary());
}

#[test]
fn tls_state_goes_along_both_ways() {
    let (server, certificate, _files) = tls::server(1, "");
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&sample_tags()[..60]);
    let mut stream = tls::connect(server.https.expect("HTTPS"), &certificate, &["http/1.1"]);
    for round in 0..3 {
        assert_healthy(&mut stream, &format!("round {round}"));
        wait_for_idle(&server, 1);
    }
    // A record in two parts: the first wakes the worker and is no request.
    stream.conn.writer().write_all(HEALTH).expect("encrypted");
    let mut record = Vec::new();
    stream.conn.write_tls(&mut record).expect("a record");
    stream.sock.write_all(&record[..20]).expect("sent");
    wait_for_idle(&server, 1);
    stream.sock.write_all(&record[20..]).expect("sent");
    assert_eq!(answer(&mut stream).1, "ok\n");
    // A whole record and a part of one at once: the part travels to control, and back, within the TLS state.
    let mut records = Vec::new();
    for _ in 0..2 {
        stream.conn.writer().write_all(HEALTH).expect("encrypted");
        stream.conn.write_tls(&mut records).expect("a record");
    }
    let (now, later) = records.split_at(records.len() - 10);
    stream.sock.write_all(now).expect("sent");
    assert_eq!(answer(&mut stream).1, "ok\n");
    wait_for_idle(&server, 1);
    stream.sock.write_all(later).expect("sent");
    assert_eq!(answer(&mut stream).1, "ok\n");
    wait_for_idle(&server, 1);
    stream.write_all(b"GET /live/mill.flv HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sent");
    assert!(answer(&mut stream).0.contains("content-type: video/x-flv"));
}

#[test]
fn an_idle_connection_is_closed_after_its_time() {
    let server = Server::start("[http]\nkeep_alive_seconds = 1\n");
    let mut socket = connect(server.http);
    let asked = Instant::now();
    assert_healthy(&mut socket, "before");
    assert_eq!(socket.read(&mut [0; 1]).expect("an end in order"), 0);
    assert!(asked.elapsed() >= Duration::from_secs(1), "{:?}", asked.elapsed());
    wait_for_idle(&server, 0);
}

#[test]
fn keep_alive_can_be_off() {
    let server = Server::start("[http]\nkeep_alive_seconds = 0\n");
    let mut socket = connect(server.http);
    socket.write_all(HEALTH).expect("sent");
    assert!(answer(&mut socket).0.contains("connection: close"));
    assert_eq!(socket.read(&mut [0; 1]).expect("an end in order"), 0);
}

#[test]
fn a_second_request_has_as_much_time_as_the_first() {
    let mut server = Server::start("[limits]\nhandshake_timeout_ms = 500\n");
    let mut socket = connect(server.http);
    assert_healthy(&mut socket, "before");
    wait_for_idle(&server, 1);
    // A byte at a time, and never the end.
    let begun = Instant::now();
    let mut received = Vec::new();
    socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a socket option");
    for byte in b"GET /healthz HTTP/1.1\r\nX: ".iter().chain(std::iter::repeat(&b'x')) {
        assert!(begun.elapsed() < TIMEOUT, "it is closed");
        let mut bytes = [0; 500];
        match socket.write_all(&[*byte]).and_then(|()| socket.read(&mut bytes)) {
            Ok(0) => break,
            Ok(count) => received.extend_from_slice(&bytes[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
    }
    assert!(received.starts_with(b"HTTP/1.1 408 "), "{}", String::from_utf8_lossy(&received));
    server.assert_healthy();
}

#[test]
fn an_address_keeps_so_many_connections_and_no_more() {
    let server = Server::start("[http]\nkeep_alive_connections_per_address = 2\n");
    let mut kept = [connect(server.http), connect(server.http)];
    kept.iter_mut().for_each(|socket| assert_healthy(socket, "first request"));
    let mut third = connect(server.http);
    third.write_all(HEALTH).expect("sent");
    assert!(answer(&mut third).0.contains("connection: close"));
    wait_for_idle(&server, 2);
    kept.iter_mut().for_each(|socket| assert_healthy(socket, "second request"));
}

#[test]
fn idle_connections_do_not_keep_a_server_from_stopping() {
    // As long as it may wait for clients: longer than this test does.
    let mut server = Server::spawn("[shutdown]\ndrain_seconds = 600\n");
    let mut idle = connect(server.http);
    assert_healthy(&mut idle, "before");
    wait_for_idle(&server, 1);
    server.terminate();
    assert_eq!(idle.read(&mut [0; 1]).expect("an end in order"), 0);
    assert_eq!(server.wait_for_exit(TIMEOUT).code(), Some(0));
}

/// An HTTP/2 frame (RFC 9113 section 4.1): type, flags, stream and payload.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// HEADERS that ask for `path`, with nothing to follow: `:method GET` and `:scheme http` of the static table
/// (RFC 7541 appendix A), `:path` and `:authority` as literals.
fn headers(stream: u32, path: &str) -> Vec<u8> {
    let mut block = vec![0x82, 0x86, 0x04, path.len() as u8];
    block.extend(path.as_bytes());
    block.extend(b"\x01\x09localhost");
    frame(1, 0x05, stream, &block)
}

/// The next frame that is of `stream`: type and payload.
fn next_frame(connection: &mut impl Read, stream: u32) -> (u8, Vec<u8>) {
    loop {
        let mut head = [0; 9];
        connection.read_exact(&mut head).expect("a frame");
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        connection.read_exact(&mut payload).expect("its payload");
        if u32::from_be_bytes([head[5], head[6], head[7], head[8]]) == stream {
            return (head[3], payload);
        }
    }
}

/// Asks for health and for a stream on one connection of HTTP/2.
fn speaks_http2(connection: &mut (impl Read + Write)) {
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    // In pieces: the preface may come in any.
    connection.write_all(&preface[..10]).expect("sent");
    connection.write_all(&preface[10..]).expect("sent");
    connection.write_all(&frame(4, 0, 0, &[])).expect("sent");
    connection.write_all(&headers(1, "/healthz")).expect("sent");
    let (kind, block) = next_frame(connection, 1);
    assert_eq!((kind, block[0]), (1, 0x88), "HEADERS with `:status 200` of the static table");
    assert_eq!(next_frame(connection, 1), (0, b"ok\n".to_vec()), "DATA");
    connection.write_all(&headers(3, "/live/mill.flv")).expect("sent");
    assert_eq!(next_frame(connection, 3), (3, vec![0, 0, 0, 0x0d]), "RST_STREAM with HTTP_1_1_REQUIRED");
    connection.write_all(&headers(5, "/healthz")).expect("sent");
    assert_eq!(next_frame(connection, 5).0, 1, "the connection goes on");
}

#[test]
fn http2_is_spoken_in_clear_text_and_over_tls() {
    let (server, certificate, _files) = tls::server(1, "");
    speaks_http2(&mut connect(server.http));
    let mut stream = tls::connect(server.https.expect("HTTPS"), &certificate, &["h2", "http/1.1"]);
    speaks_http2(&mut stream);
    assert_eq!(stream.conn.alpn_protocol(), Some(&b"h2"[..]));
    // Of two, one is open still.
    server.wait_for_counter("millstream_http2_connections", 1);

    let mut stream = tls::connect(server.rtmps.expect("RTMPS"), &certificate, &["h2", "http/1.1"]);
    let _ = stream.conn.complete_io(&mut stream.sock);
    assert_eq!(stream.conn.alpn_protocol(), Some(&b"http/1.1"[..]), "RTMPS offers no HTTP/2");
}
