//! Origins that misbehave: each failure is reported, tried again, and harms nobody.

use crate::common::flv::sample_tags;
use crate::common::http;
use crate::common::origin::{LOCAL, Origin, add_pull, wait_for_pull};
use crate::common::server::Server;

#[test]
fn what_is_wrong_is_told_and_tried_again() {
    let mut server = Server::start(&format!("{LOCAL}stall_timeout_ms = 400\nconnect_timeout_ms = 400\n"));
    let head = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
    let tag = |header: &[u8]| [b"FLV\x01\x05\0\0\0\x09\0\0\0\0", header].concat();
    let cases: [(&str, Vec<u8>, bool, &str); 9] = [
        ("not-found", b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec(), false, "404"),
        ("busy", b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".to_vec(), false, "503"),
        ("a-page", [head.as_bytes(), b"<!doctype html>"].concat(), false, "FLV"),
        (
            "too-long",
            [head.as_bytes(), &tag(&[9, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0])].concat(),
            false,
            "large",
        ),
        ("no-answer", Vec::new(), true, "answer"),
        ("no-media", [head.as_bytes(), &tag(&[])].concat(), true, "nothing"),
        ("not-http", b"220 ftp.example ready\r\n\r\n".to_vec(), false, ""),
        ("closed", Vec::new(), false, ""),
        ("ended", [head.as_bytes(), &tag(&[])].concat(), false, "ended"),
    ];
    for (name, bytes, stays_open, expected) in cases {
        let origin = Origin::start();
        add_pull(&server, name, &origin.url("/cam.flv"));
        let mut asked = origin.accept();
        asked.send(&bytes);
        let held = stays_open.then_some(asked);
        let pull = wait_for_pull(&server, name, "failed", |pull| pull["last_error"].is_string());
        let error = pull["last_error"].as_str().expect("a reason");
        assert!(error.contains(expected) && !error.is_empty(), "{name}: {error}");
        assert!(server.sessions(&format!("stream=live/{name}")).is_empty(), "{name} was never published");
        let mut again = origin.accept();
        again.begin();
        again.send_tags(&sample_tags()[..50], 0);
        server.wait_for_publisher(&format!("live/{name}"), true);
        let path = format!("/api/v1/pulls/live/{name}");
        assert_eq!(http::request(server.http, "DELETE", &path, &[]).expect("an answer").status, 204);
        drop(held);
    }
    server.assert_healthy();
}

#[test]
fn a_source_that_falls_silent_is_given_up_however_it_drips() {
    let server = Server::start(&format!("{LOCAL}stall_timeout_ms = 600\n"));
    let origin = Origin::start();
    add_pull(&server, "cam", &origin.url("/cam.flv"));
    let mut asked = origin.accept();
    asked.begin();
    asked.send_tags(&sample_tags()[..50], 0);
    server.wait_for_publisher("live/cam", true);
    // A tag that is announced, and of which a byte comes now and then.
    asked.send(&[9, 0, 100, 0, 0, 0, 0, 0, 0, 0, 0]);
    let pull = wait_for_pull(&server, "cam", "given up", |pull| {
        asked.try_send(&[0]);
        pull["last_error"].is_string()
    });
    assert!(pull["last_error"].as_str().expect("a reason").contains("nothing"), "{pull}");
    server.wait_for_publisher("live/cam", false);
    origin.accept();
}

#[test]
fn a_large_stream_is_taken_whole_and_at_once() {
    let server = Server::start(LOCAL);
    let origin = Origin::start();
    add_pull(&server, "cam", &origin.url("/cam.flv"));
    let mut asked = origin.accept();
    asked.begin();
    let (tags, mut sent) = (sample_tags(), 0u64);
    for round in 0..40 {
        asked.send_tags(&tags, round * 10_000);
        sent += tags.iter().map(|tag| tag.body.len() as u64 + 15).sum::<u64>();
    }
    let pull = wait_for_pull(&server, "cam", "through", |pull| pull["bytes"].as_u64() >= Some(sent));
    assert_eq!((&pull["state"], pull["bytes"].as_u64()), (&"live".into(), Some(sent + 13)), "{pull}");
    crate::common::eventually("the worker has all of it", || {
        let stream = server.api("/api/v1/streams/live/cam");
        (stream["bytes_in"].as_u64()? == sent - 15 * 40 * tags.len() as u64).then_some(())
    });
}
