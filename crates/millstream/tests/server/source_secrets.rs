//! What lets in (user names, passwords, queries of URLs) is used, and shown nowhere: not in the log
//! at its most talkative, not by the API, not in metrics.

use crate::common::channel::{FileServer, Player, make_mp4, wait_for_channel};
use crate::common::http;
use crate::common::origin::{Origin, add_pull, post, wait_for_pull};
use crate::common::server::{ScratchDir, Server};
use serde_json::json;

#[test]
fn credentials_in_urls_of_items_and_pulls_show_nowhere() {
    let dir = ScratchDir::new();
    make_mp4(&dir.path().join("a.mp4"), 0, 2);
    std::fs::write(dir.path().join("text.mp4"), b"this is no film").expect("written");
    let files = FileServer::start(dir.path());
    let origin = Origin::start();
    let server = Server::start(
        "[log]\nlevel = 'trace'\n[sources]\nallow_private_addresses = true\nretry_min_ms = 50\nretry_max_ms = 100\n",
    );
    let with_secrets = |url: String| {
        let rest = url.strip_prefix("http://").expect("a URL of HTTP").to_owned();
        format!("http://me-secret:word-secret@{rest}?key=query-secret#part-secret")
    };
    let items = ["a.mp4", "missing.mp4", "text.mp4"].map(|name| with_secrets(files.url(name)));
    let new = json!({ "app": "live", "name": "films", "items": items });
    let added = post(&server, "/api/v1/channels", &new.to_string());
    assert_eq!(added.status, 201, "{}", added.text());
    add_pull(&server, "pulled", &with_secrets(origin.url("/live.flv")));
    let mut asked = origin.accept();
    assert_eq!(asked.header("authorization"), Some("Basic bWUtc2VjcmV0OndvcmQtc2VjcmV0"), "they are used");
    assert!(asked.head[0].contains("key=query-secret"), "{}", asked.head[0]);
    asked.send(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
    Player::start(&server, "live/films").play(1_000);
    let round = |now: &serde_json::Value| now["items_failed"].as_u64() >= Some(2);
    wait_for_channel(&server, "live/films", "round", round);
    wait_for_pull(&server, "pulled", "refused", |now| now["last_error"].is_string());
    let again = post(&server, "/api/v1/channels", &new.to_string());
    let worse = json!({ "app": "live", "name": "other", "items": [with_secrets(files.url("a")) + "\n"] });
    let refused = post(&server, "/api/v1/channels", &worse.to_string());
    assert_eq!((again.status, refused.status), (409, 400));
    let metrics = http::get(server.http, "/metrics").expect("metrics").text();
    let mut shown = vec![added.text(), again.text(), refused.text(), metrics, server.log()];
    for path in ["channels", "pulls", "sessions", "streams"] {
        shown.push(server.api(&format!("/api/v1/{path}")).to_string());
    }
    for text in &shown {
        assert!(
            !text.contains("secret"),
            "{}",
            text.lines().find(|line| line.contains("secret")).unwrap_or("")
        );
        assert!(!text.contains("bWUtc2VjcmV0"), "{text}");
    }
    let log = server.log();
    assert!(log.contains("items[1]") && log.contains("/missing.mp4?..."), "items are named: {log}");
}
