//! The connection against servers that close it, refuse it or send garbage, over loopback.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};

use tungstenite::handshake::server::{Request as Asked, Response as Answer};
use tungstenite::protocol::CloseFrame;
use tungstenite::protocol::frame::coding::CloseCode;

use super::*;
use crate::sample;
use crate::tls::{Trust, client_config};

type Socket = WebSocket<TcpStream>;

/// A server that handles each connection by the next of `turns`, and a client for it.
fn serve(turns: Vec<fn(TcpStream)>) -> (Connector, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let server = thread::spawn(move || {
        for turn in turns {
            turn(listener.accept().expect("a connection").0);
        }
    });
    let target = Target::parse(&format!("localhost:{port}")).expect("a target");
    (Connector::new(target, Some("keeper"), None).expect("a connector"), server)
}

/// Runs the client until it ends by itself, or has delivered as many events as are taken from the answer.
fn events(connector: Connector) -> Receiver<FeedEvent> {
    let (sender, events) = channel();
    thread::spawn(move || run(&connector, |event| sender.send(event).is_ok()));
    events
}

fn accept(stream: TcpStream) -> Socket {
    #[expect(clippy::result_large_err, reason = "the library's signature")]
    let check = |asked: &Asked, mut answer: Answer| {
        let headers = asked.headers();
        assert_eq!(asked.uri().path(), "/api/v1/stats/stream");
        assert_eq!(headers[header::AUTHORIZATION], "Bearer keeper");
        answer
            .headers_mut()
            .insert(header::SEC_WEBSOCKET_PROTOCOL, headers[header::SEC_WEBSOCKET_PROTOCOL].clone());
        Ok(answer)
    };
    tungstenite::accept_hdr(stream, check).expect("a handshake")
}

fn send(socket: &mut Socket, sequence: u64) {
    let mut message = sample::message(1, 1, 3);
    message.sequence = sequence;
    socket.send(Frame::Binary(message.to_messagepack().into())).expect("sent");
}

/// Answers any request with `answer`, once it is complete.
fn answer(mut stream: TcpStream, answer: &str) {
    let mut asked = Vec::new();
    let mut byte = [0];
    while !asked.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("a request");
        asked.push(byte[0]);
    }
    stream.write_all(answer.as_bytes()).expect("sent");
}

#[test]
fn a_lost_connection_is_made_again() {
    let (connector, server) = serve(vec![
        |stream| {
            let mut socket = accept(stream);
            send(&mut socket, 1);
            socket.send(Frame::Ping(b"?".to_vec().into())).expect("sent");
            assert_eq!(socket.read().expect("an answer"), Frame::Pong(b"?".to_vec().into()));
            send(&mut socket, 2);
            let frame = CloseFrame { code: CloseCode::Away, reason: "the server stops".into() };
            socket.close(Some(frame)).expect("sent");
            while socket.read().is_ok() {}
        },
        drop, // no answer at all
        |stream| send(&mut accept(stream), 3),
    ]);
    let events = events(connector);
    let next = || events.recv().expect("an event");
    let sequence =
        |event| if let FeedEvent::Message(message) = event { Some(message.sequence) } else { None };
    assert!(matches!(next(), FeedEvent::Connecting));
    assert_eq!((sequence(next()), sequence(next())), (Some(1), Some(2)));
    let FeedEvent::Lost { reason, retry } = next() else { panic!("the server ended it") };
    assert!(reason.contains("the server stops") && retry == RETRY.0, "{reason} {retry:?}");
    assert!(matches!(next(), FeedEvent::Connecting));
    assert!(matches!(next(), FeedEvent::Lost { retry, .. } if retry == RETRY.0 * 2), "it waits longer");
    assert!(matches!(next(), FeedEvent::Connecting));
    assert_eq!(sequence(next()), Some(3));
    assert!(matches!(next(), FeedEvent::Lost { retry, .. } if retry == RETRY.0), "it was there in between");
    server.join().expect("the server's assertions hold");
}

/// What a server does with a connection.
type Server = fn(TcpStream);

#[test]
fn what_would_happen_again_ends_it() {
    let cases: [(Server, &str); 7] = [
        (
            |stream| {
                let body = r#"{"error":{"code":"token_wrong","message":"the token\u0007 is wrong"}}"#;
                let head = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nContent-Length: ";
                answer(stream, &format!("{head}{}\r\n\r\n{body}", body.len()));
            },
            "the token\u{fffd} is wrong",
        ),
        (|stream| answer(stream, "HTTP/1.1 401 Unauthorized\r\n\r\n"), "the token is not valid"),
        (|stream| accept(stream).send(Frame::text("{}")).expect("sent"), "the server sends text"),
        (
            |stream| answer(stream, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
            "is it a Millstream?",
        ),
        (|stream| answer(stream, "HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n"), "302"),
        (
            |stream| {
                let mut message = sample::message(1, 1, 1);
                message.version = 2;
                let mut socket = accept(stream);
                socket.send(Frame::Binary(message.to_messagepack().into())).expect("sent");
            },
            "version 2",
        ),
        (
            |stream| accept(stream).send(Frame::Binary(b"\xc1rubbish".to_vec().into())).expect("sent"),
            "not a statistics message",
        ),
    ];
    for (turn, expected) in cases {
        let (connector, server) = serve(vec![turn]);
        let events: Vec<FeedEvent> = events(connector).iter().collect();
        let Some(FeedEvent::Refused(reason)) = events.last() else { panic!("{expected}: {events:?}") };
        assert!(reason.contains(expected) && !reason.contains('\u{7}'), "{reason}");
        server.join().expect("the server's assertions hold");
    }
}

#[test]
fn what_may_change_is_tried_again() {
    let body = r#"{"error":{"code":"too_many_subscribers","message":"64 are connected"}}"#;
    for (status, body, expected) in [
        (StatusCode::SERVICE_UNAVAILABLE, body, "503 Service Unavailable (64 are connected)"),
        (StatusCode::BAD_GATEWAY, "<html>", "502 Bad Gateway"),
        (StatusCode::TOO_MANY_REQUESTS, "", "429"),
    ] {
        let Failure::Lost(reason) = refusal(status, body.as_bytes(), true) else { panic!("{status}") };
        assert!(reason.contains(expected), "{reason}");
    }
}

#[test]
fn a_token_that_no_header_can_hold_is_refused_at_once() {
    let target = Target::parse("localhost").expect("a target");
    assert!(Connector::new(target, Some("a\nb"), None).is_err());
}

#[test]
fn who_has_no_token_is_told_where_to_give_one() {
    let body = br#"{"error":{"code":"token_missing","message":"this server asks for a token"}}"#;
    let expected = "a token is needed, by MILLSTREAM_TOP_TOKEN or --token";
    assert_eq!(refusal(StatusCode::UNAUTHORIZED, body, false), Failure::Refused(expected.to_owned()));
    let message = Failure::Refused("this server asks for a token".to_owned());
    assert_eq!(refusal(StatusCode::UNAUTHORIZED, body, true), message, "it was given");
}

/// Time for a message in tests of servers that never send one, and for the test to end at all.
const SHORT: Duration = Duration::from_millis(200);
const FOREVER: Duration = Duration::from_secs(60);

/// Sends `bytes` again and again until the client has closed.
fn repeat(mut stream: TcpStream, bytes: &[u8]) {
    while stream.write_all(bytes).is_ok() {}
}

#[test]
fn a_server_that_keeps_the_connection_busy_with_anything_but_messages_is_given_up() {
    let cases: [(&str, bool, Server); 6] = [
        ("silence", false, |stream| _ = io::copy(&mut &stream, &mut io::sink())),
        ("a head without end", false, |stream| {
            // Slower than the limit of headers ends it, faster than a limit of each read would.
            let mut bytes =
                b"HTTP/1.1 101 Switching Protocols\r\nX: ".iter().copied().chain(std::iter::repeat(b'x'));
            stream.set_read_timeout(Some(SHORT / 20)).expect("a timeout");
            while (&stream).write_all(&[bytes.next().expect("more")]).is_ok() && !has_gone(&stream) {}
        }),
        ("silence after the handshake", true, |stream| {
            assert!(accept(stream).read().is_err(), "it has gone")
        }),
        ("pings", true, |stream| {
            accept(stream.try_clone().expect("a socket"));
            repeat(stream, &[0x89, 0]);
        }),
        ("empty pieces of a message", true, |stream| {
            accept(stream.try_clone().expect("a socket"));
            (&stream).write_all(&[0x02, 0]).expect("sent");
            repeat(stream, &[0x00, 0]);
        }),
        ("a message byte by byte", true, |stream| {
            accept(stream.try_clone().expect("a socket"));
            (&stream).write_all(&[0x82, 127, 0, 0, 0, 0, 1, 0, 0, 0]).expect("sent");
            stream.set_read_timeout(Some(SHORT / 20)).expect("a timeout");
            while (&stream).write_all(b"x").is_ok() && !has_gone(&stream) {}
        }),
    ];
    for (name, has_handshake, turn) in cases {
        let (mut connector, server) = serve(vec![turn]);
        // Handshakes have time, however busy the machine is.
        connector.timeout = if has_handshake { FOREVER } else { SHORT };
        let (sender, result) = channel();
        thread::spawn(move || {
            let next = |mut feed: Feed| {
                feed.timeout = SHORT;
                feed.next()
            };
            let _ = sender.send(connector.connect().and_then(next));
        });
        let result = result.recv_timeout(2 * FOREVER).unwrap_or_else(|_| panic!("{name}: it waits for ever"));
        let Err(Failure::Lost(reason)) = result else { panic!("{name}: {result:?}") };
        assert_eq!(reason, silent(), "{name}");
        server.join().expect("the server's assertions hold");
    }
}

/// Waits for the timeout of reads, or until the client has closed; ignores what it sends.
fn has_gone(mut stream: &TcpStream) -> bool {
    match stream.read(&mut [0; 1024]) {
        Ok(count) => count == 0,
        Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut),
    }
}

#[test]
fn a_port_of_something_else_is_told_as_what_it_may_be() {
    let plain: [(Server, &str); 4] = [
        (|stream| answer(stream, ""), "is it the HTTP port of a Millstream"),
        (drop, "is it the HTTP port of a Millstream"),
        (|stream| answer(stream, "\x15\x03\x03\0\x02\x02\x16"), "and not https://?"),
        (|stream| answer(stream, "220 mail.example ESMTP\r\n\r\n"), "what answers there is no WebSocket"),
    ];
    for (turn, expected) in plain {
        let (connector, server) = serve(vec![turn]);
        let Err(Failure::Lost(reason)) = connector.connect().map(|_| ()) else { panic!("{expected}") };
        assert!(reason.contains(expected), "{reason}");
        server.join().expect("the server's assertions hold");
    }
    let secure: [(Server, Failure); 2] = [
        (
            |mut stream| {
                stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").expect("sent");
                has_gone(&stream);
            },
            Failure::Refused(
                "what answers there is no TLS; is it the HTTPS port of a Millstream? Or is it http://?"
                    .to_owned(),
            ),
        ),
        (drop, Failure::Lost("it ended without an answer; is it the HTTPS port of a Millstream?".to_owned())),
    ];
    for (turn, expected) in secure {
        let (mut connector, server) = serve(vec![turn]);
        connector.target.tls = true;
        connector.tls = Some(client_config(&Trust::Anybody).expect("a configuration"));
        assert_eq!(connector.connect().map(|_| ()), Err(expected));
        server.join().expect("the server's assertions hold");
    }
}

/// A server that checks the request for the cluster and answers with this.
fn cluster_answer(mut stream: TcpStream, answer: &str) {
    let mut asked = Vec::new();
    let mut byte = [0];
    while !asked.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("a request");
        asked.push(byte[0]);
    }
    let asked = String::from_utf8(asked).expect("text");
    let line = asked.lines().next().expect("a line");
    assert_eq!(line, "GET /api/v1/cluster?limit=0 HTTP/1.0");
    assert!(asked.contains("\r\nHost: localhost:") && asked.contains("\r\nAuthorization: Bearer keeper\r\n"));
    // The client may have enough before all is written.
    let _ = stream.write_all(answer.as_bytes());
}

#[test]
fn the_cluster_is_read_to_its_length_or_to_the_end() {
    let turns: Vec<Server> = vec![
        |stream| {
            let open = stream.try_clone().expect("a socket");
            cluster_answer(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-length: 34\r\n\r\n{\"node\":\"a\",\"nodes\":[],\"links\":[]}",
            );
            // It is not closed before the client has closed.
            io::copy(&mut &open, &mut io::sink()).expect("closed by the client");
        },
        |stream| cluster_answer(stream, "HTTP/1.0 200 OK\r\n\r\n{\"node\":\"b\",\"nodes\":[],\"links\":[]}"),
    ];
    let (connector, server) = serve(turns);
    for node in ["a", "b"] {
        assert_eq!(connector.cluster().expect("an answer").node, node);
    }
    server.join().expect("the server's assertions hold");
}

#[test]
fn why_there_is_no_cluster_is_told() {
    let cases: [(Server, Failure); 6] = [
        (
            |stream| cluster_answer(stream, "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}"),
            Failure::Refused("this server is not part of a cluster".to_owned()),
        ),
        (
            |stream| {
                let body = r#"{"error":{"code":"cluster_unavailable","message":"it did not answer"}}"#;
                cluster_answer(stream, &format!("HTTP/1.1 503 Service Unavailable\r\n\r\n{body}"));
            },
            Failure::Lost("the server answered 503 Service Unavailable (it did not answer)".to_owned()),
        ),
        (
            |stream| cluster_answer(stream, "HTTP/1.1 403 Forbidden\r\n\r\n"),
            Failure::Refused("not allowed from here".to_owned()),
        ),
        (
            |stream| cluster_answer(stream, "220 mail.example ESMTP\r\n\r\n"),
            Failure::Lost("what answers there is no HTTP".to_owned()),
        ),
        (
            |stream| cluster_answer(stream, &"x".repeat(1 << 20)),
            Failure::Lost("the answer is too long".to_owned()),
        ),
        (drop, Failure::Lost("what answers there is no HTTP".to_owned())),
    ];
    for (turn, expected) in cases {
        let (connector, server) = serve(vec![turn]);
        let found = connector.cluster().map(|_| ()).expect_err("no cluster");
        // A socket that was closed with something unread is reset, which ends it as well.
        let was_reset = matches!(&found, Failure::Lost(reason) if reason.contains("reset"));
        assert!(found == expected || was_reset, "{found:?} instead of {expected:?}");
        server.join().expect("the server's assertions hold");
    }
    let (connector, server) =
        serve(vec![|stream| cluster_answer(stream, "HTTP/1.0 200 OK\r\n\r\n{\"node\":")]);
    let Err(Failure::Lost(reason)) = connector.cluster() else { panic!("half an answer") };
    assert!(reason.starts_with("the answer cannot be read"), "{reason}");
    server.join().expect("the server's assertions hold");
}
