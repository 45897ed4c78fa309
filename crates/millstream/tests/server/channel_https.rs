//! Items of channels from a real server over TLS, by HTTP/1.1 and by HTTP/2: certificates are
//! checked, and a private authority can be trusted. A server that speaks HTTP/2 is pulled from as
//! well.

#[allow(dead_code, reason = "a part of it is used")]
#[path = "../../../../libs/range-reader/tests/range-reader/http/nginx.rs"]
mod nginx;

use std::fs;

use crate::common::channel::{Player, assert_in_order, event_kinds, frames_of, make_mp4, wait_for_channel};
use crate::common::eventually;
use crate::common::flv::sample_tags;
use crate::common::origin::{LOCAL, add_pull, post, wait_for_pull};
use crate::common::rtmp::RtmpClient;
use crate::common::server::{ScratchDir, Server};
use crate::common::tools::sample;
use nginx::Nginx;
use rtmp::MediaKind;
use serde_json::json;

#[test]
fn items_are_fetched_over_tls_by_either_protocol() {
    let dir = ScratchDir::new();
    let names = ["a.mp4", "b.mp4"];
    make_mp4(&dir.path().join("a.mp4"), 0, 2);
    make_mp4(&dir.path().join("b.mp4"), 4, 3);
    let bytes = names.map(|name| fs::read(dir.path().join(name)).expect("a file"));
    let files = names.map(|name| frames_of(&dir.path().join(name)));
    for (http2, protocol) in [(false, "HTTP/1.1"), (true, "HTTP/2.0")] {
        let served = [(names[0], bytes[0].as_slice()), (names[1], bytes[1].as_slice())];
        let (origin, certificate) = Nginx::start_tls(http2, &served);
        let authority = dir.path().join("authority.pem");
        fs::write(&authority, certificate.pem()).expect("a file");
        let items = names.map(|name| format!("'{}'", origin.url(&format!("/{name}")))).join(", ");
        let channel = format!("[[channel]]\nstream = 'live/two'\nitems = [{items}]\n");
        let trusting = Server::start(&format!("{LOCAL}ca_file = '{}'\n{channel}", authority.display()));
        let played = Player::start(&trusting, "live/two").play(7_000);
        for kind in [MediaKind::Video, MediaKind::Audio] {
            assert_in_order(&played, &files, kind);
        }
        let channel = trusting.api("/api/v1/channels/live/two");
        assert_eq!((&channel["items_failed"], event_kinds(&channel).len()), (&0.into(), 0), "{channel:#}");
        drop(trusting);
        let answered = eventually("answers are in the log of nginx", || {
            Some(origin.answered()).filter(|log| names.iter().all(|name| log.contains(name)))
        });
        assert!(answered.lines().all(|line| line.contains(protocol)), "{answered}");
    }
}

#[test]
fn an_item_whose_certificate_nobody_vouches_for_is_broken() {
    let dir = ScratchDir::new();
    make_mp4(&dir.path().join("a.mp4"), 0, 2);
    let (origin, certificate) =
        Nginx::start_tls(true, &[("a.mp4", &fs::read(dir.path().join("a.mp4")).expect("a file"))]);
    let authority = dir.path().join("authority.pem");
    fs::write(&authority, certificate.pem()).expect("a file");
    let trusting = Server::start(&format!("{LOCAL}ca_file = '{}'\n", authority.display()));
    let strict = Server::start(LOCAL);
    let url = origin.url("/a.mp4").to_string();
    // Known to nobody; and known, but not for this name.
    for (server, url) in [(&strict, url.clone()), (&trusting, url.replace("127.0.0.1", "localhost"))] {
        let new = json!({ "app": "live", "name": "a", "items": [url] });
        assert_eq!(post(server, "/api/v1/channels", &new.to_string()).status, 201);
        let channel = wait_for_channel(server, "live/a", "without anything to play", |channel| {
            channel["state"] == "retrying" && channel["items"][0]["last_error"].is_string()
        });
        let reason = channel["items"][0]["last_error"].as_str().expect("a reason");
        assert!(reason.contains("certificate"), "{channel:#}");
    }
    assert_eq!(origin.answered(), "", "nothing was asked for");
}

#[test]
fn a_server_that_speaks_http2_is_pulled_from() {
    let dir = ScratchDir::new();
    let file = fs::read(sample()).expect("the sample");
    let (origin, certificate) = Nginx::start_tls(true, &[("live.flv", &file)]);
    let authority = dir.path().join("authority.pem");
    fs::write(&authority, certificate.pem()).expect("a file");
    let server = Server::start(&format!("{LOCAL}ca_file = '{}'\n", authority.display()));
    let mut player = RtmpClient::play(server.rtmp, "live/mill");
    server.wait_for_players("live/mill", 1);
    add_pull(&server, "mill", origin.url("/live.flv").as_str());
    let tags = sample_tags();
    let frames: Vec<_> = tags.iter().filter(|tag| tag.kind != MediaKind::Data).collect();
    let played = player.take_frames(frames.len());
    assert!(played.iter().zip(&frames).all(|(played, sent)| played.payload == sent.body));
    wait_for_pull(&server, "mill", "at its end", |pull| pull["last_error"].is_string());
}
