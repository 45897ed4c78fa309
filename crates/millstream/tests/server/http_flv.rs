//! HTTP-FLV as a plain client sees it: headers, HEAD, CORS, waiting for a publisher, and the tags themselves.

use std::io::Read;

use crate::common::flv::{TagReader, sample_tags};
use crate::common::http;
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use rtmp::MediaKind;

#[test]
fn tags_arrive_with_the_published_bodies_and_times() {
    let server = Server::start("");
    let tags = sample_tags();
    let waiting = std::thread::scope(|scope| {
        let player = scope.spawn(|| http::open(server.http, "GET", "/live/mill.flv", &[]).expect("play"));
        server.wait_for_players("live/mill", 1);
        let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
        publisher.send_tags(&tags);
        let response = player.join().expect("a response");
        assert_eq!(response.status, 200);
        assert_eq!(response.header("content-type"), Some("video/x-flv"));
        assert_eq!(response.header("cache-control").map(|value| value.contains("no-")), Some(true));
        let mut reader = TagReader::new(response);
        let mut received = Vec::new();
        while received.len() < tags.iter().filter(|tag| tag.kind != MediaKind::Data).count() {
            let tag = reader.next().expect("the stream goes on");
            if tag.kind != MediaKind::Data {
                received.push(tag);
            }
        }
        drop(publisher);
        received
    });
    let published: Vec<_> = tags.iter().filter(|tag| tag.kind != MediaKind::Data).collect();
    for (index, (got, want)) in waiting.iter().zip(&published).enumerate() {
        assert_eq!(got.kind, want.kind, "kind of tag {index}");
        assert_eq!(
            got.timestamp - waiting[0].timestamp,
            want.timestamp - published[0].timestamp,
            "time of tag {index}"
        );
        assert!(got.body == want.body, "body of tag {index}");
    }
}

#[test]
fn the_first_tags_of_a_late_player_are_metadata_configuration_and_a_key_frame() {
    let server = Server::start("");
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(sample_tags().iter().filter(|tag| tag.timestamp < 3_000));
    crate::common::eventually("the stream has a group of pictures", || {
        (server.api("/api/v1/streams/live/mill")["gop"]["frames"].as_u64()? > 20).then_some(())
    });
    let mut reader = TagReader::new(http::open(server.http, "GET", "/live/mill.flv", &[]).expect("play"));
    let first: Vec<_> = std::iter::from_fn(|| reader.next()).take(12).collect();
    assert_eq!(first[0].kind, MediaKind::Data, "metadata first");
    let video: Vec<_> = first.iter().filter(|tag| tag.kind == MediaKind::Video).collect();
    assert_eq!(video[0].body[..2], [0x17, 0], "then the H.264 configuration");
    assert_eq!(video[1].body[..2], [0x17, 1], "then a key frame");
    let audio: Vec<_> = first.iter().filter(|tag| tag.kind == MediaKind::Audio).collect();
    assert_eq!(audio[0].body[1], 0, "and the AAC configuration before any audio");
}

#[test]
fn head_answers_without_a_body() {
    let server = Server::start("");
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&sample_tags()[..40]);
    let mut response = http::open(server.http, "HEAD", "/live/mill.flv", &[]).expect("HEAD");
    assert_eq!(response.status, 200);
    assert_eq!(response.header("content-type"), Some("video/x-flv"));
    let mut rest = Vec::new();
    response.socket().set_read_timeout(Some(crate::common::TIMEOUT)).expect("set a timeout");
    // The body's framing is the head's; what counts is that no byte follows before the server closes.
    let _ = std::io::copy(&mut response.socket(), &mut rest);
    assert!(rest.is_empty(), "{} bytes follow the head", rest.len());
    drop(response.read(&mut [0; 1]));
}

#[test]
fn other_sites_may_play_unless_configuration_says_otherwise() {
    let tags = sample_tags();
    for (config, expected) in [
        ("", Some("*")),
        ("[http]\ncors_allow_origin = 'https://example.org'\n", Some("https://example.org")),
        ("[http]\ncors_allow_origin = ''\n", None),
    ] {
        let server = Server::start(config);
        let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
        publisher.send_tags(&tags[..40]);
        let headers = [("Origin", "https://example.org")];
        let response = http::open(server.http, "GET", "/live/mill.flv", &headers).expect("play");
        assert_eq!(response.header("access-control-allow-origin"), expected, "with {config:?}");
        let api = http::request(server.http, "GET", "/api/v1/streams", &headers).expect("GET");
        assert_eq!(
            api.header("access-control-allow-origin"),
            None,
            "the management API never allows other sites"
        );
    }
}

#[test]
fn a_preflight_request_is_answered() {
    let server = Server::start("");
    let headers = [("Origin", "https://example.org"), ("Access-Control-Request-Method", "GET")];
    let response = http::request(server.http, "OPTIONS", "/live/mill.flv", &headers).expect("an answer");
    assert_eq!(response.status, 204);
    assert_eq!(response.header("access-control-allow-origin"), Some("*"));
    assert!(response.header("access-control-allow-methods").is_some_and(|methods| methods.contains("GET")));
}

#[test]
fn a_player_without_a_publisher_is_refused_at_once_when_so_configured() {
    let server = Server::start("[stream]\nwait_for_publisher_seconds = 0\n");
    let response = http::get(server.http, "/live/nobody.flv").expect("an answer");
    assert_eq!(response.status, 404);
    server.wait_for_session_count(0);
}

#[test]
fn a_player_without_a_publisher_is_ended_when_the_wait_is_over() {
    let mut server = Server::start("[stream]\nwait_for_publisher_seconds = 1\n");
    let mut response = http::open(server.http, "GET", "/live/nobody.flv", &[]).expect("an answer");
    let mut body = Vec::new();
    response.read_to_end(&mut body).expect("the response ends within the patience of the test");
    assert!(response.status == 404 || response.status == 200, "status {}", response.status);
    assert!(body.len() < 4096, "no media came: {} bytes", body.len());
    server.wait_for_session_count(0);
    server.assert_healthy();
}

#[test]
fn the_body_is_framed_as_the_client_s_version_of_http_allows() {
    let server = Server::start("[stream]\nwait_for_publisher_seconds = 1\n");
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&sample_tags()[..60]);
    let mut bodies = Vec::new();
    let mut responses = Vec::new();
    for (version, transfer_encoding) in [("1.0", None), ("1.1", Some("chunked"))] {
        let request = format!("GET /live/mill.flv HTTP/{version}\r\nHost: localhost\r\n\r\n");
        let response = http::send(server.http, request.as_bytes()).expect("an answer");
        assert_eq!(response.status, 200, "HTTP/{version}");
        assert_eq!(response.header("transfer-encoding"), transfer_encoding, "HTTP/{version}");
        responses.push(response);
    }
    publisher.end();
    for mut response in responses {
        let mut body = Vec::new();
        // Of a chunked body this fails unless the last chunk came.
        response.read_to_end(&mut body).expect("the response ends in order");
        bodies.push(body);
    }
    assert!(bodies[0].starts_with(b"FLV") && bodies[0].len() > 10_000, "{} bytes", bodies[0].len());
    assert!(bodies[0] == bodies[1], "and the body is the same");
}

#[test]
fn targets_in_absolute_form_are_understood_and_host_is_required() {
    let server = Server::start("");
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&sample_tags()[..60]);
    let address = server.http;
    // RFC 9112 sections 3.2 and 3.2.2.
    for (request, status) in [
        (format!("GET http://{address}/live/mill.flv HTTP/1.1\r\nHost: {address}\r\n\r\n"), 200),
        (format!("GET http://{address}/healthz HTTP/1.1\r\nHost: {address}\r\n\r\n"), 200),
        ("GET /live/mill.flv HTTP/1.1\r\n\r\n".to_owned(), 400),
    ] {
        let response = http::send(address, request.as_bytes()).expect("an answer");
        assert_eq!(response.status, status, "{request}");
    }
}

#[test]
fn requests_that_name_no_stream_are_refused() {
    let mut server = Server::start("[stream]\nwait_for_publisher_seconds = 0\n");
    let long = format!("/live/{}.flv", "x".repeat(10_000));
    for (path, remark) in [
        ("/live/../live/mill.flv", "a dot segment"),
        ("/live/%2e%2e/mill.flv", "an encoded dot segment"),
        ("/live/a%00b.flv", "NUL"),
        ("/live/%ff%fe.flv", "not UTF-8"),
        ("/live/%zz.flv", "a broken escape"),
        ("/live/.flv", "an empty name"),
        ("//mill.flv", "an empty app"),
        (long.as_str(), "10 kB"),
    ] {
        let status = http::get(server.http, path).unwrap_or_else(|error| panic!("{remark}: {error}")).status;
        assert!((400..500).contains(&status), "{remark}: {status}");
    }
    let post =
        http::request(server.http, "POST", "/live/mill.flv", &[("Content-Length", "0")]).expect("an answer");
    assert_eq!(post.status, 405);
    server.assert_healthy();
    assert_eq!(server.api("/api/v1/streams")["streams"], serde_json::json!([]), "no stream came into being");
}

#[test]
fn truncated_and_oversized_requests_end_with_their_connection() {
    let mut server = Server::start("[limits]\nhandshake_timeout_ms = 500\n");
    let request =
        b"GET /live/mill.flv HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r";
    for length in 0..request.len() {
        let mut socket = std::net::TcpStream::connect(server.http).expect("connect");
        std::io::Write::write_all(&mut socket, &request[..length]).expect("send");
        if length % 8 == 0 {
            assert!(
                crate::common::raw::read_until_closed(&mut socket, crate::common::TIMEOUT).is_some(),
                "closed at the deadline"
            );
        }
    }
    let endless = [b"GET /live/mill.flv HTTP/1.1\r\nX: ".to_vec(), vec![b'x'; 1 << 20]].concat();
    let answer = http::send(server.http, &endless).map(|response| response.status);
    assert!(answer.as_ref().is_err() || matches!(answer, Ok(400..=499)), "a megabyte of head: {answer:?}");
    server.wait_for_session_count(0);
    server.assert_healthy();
}
