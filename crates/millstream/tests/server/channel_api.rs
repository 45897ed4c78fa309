//! Channels in the management API: added, listed, skipped, removed; what cannot be is refused with a reason.

use std::net::TcpListener;

use crate::common::channel::{FileServer, event_kinds, make_mp4, wait_for_channel};
use crate::common::openapi::departures;
use crate::common::origin::post;
use crate::common::server::{ScratchDir, Server};
use crate::common::{eventually, http};
use serde_json::{Value, json};

fn delete(server: &Server, path: &str) -> u16 {
    http::request(server.http, "DELETE", path, &[]).expect("an answer").status
}

#[test]
fn a_channel_is_added_seen_skipped_and_removed() {
    let dir = ScratchDir::new();
    for name in ["a.mp4", "b.mp4"] {
        make_mp4(&dir.path().join(name), 0, 10);
    }
    let mut server = Server::spawn(&format!(
        "[sources]\nfiles_root = '{}'\nchannels_max = 2\n[limits]\nname_extra_characters = ' '\n",
        dir.path().display()
    ));
    let document = server.api("/api/v1/openapi.json");
    let check = |template: &str, path: &str| {
        let found = departures(&document, template, &server.api(path));
        assert!(found.is_empty(), "GET {path}:\n  {}", found.join("\n  "));
    };
    assert_eq!(server.api("/api/v1/channels"), json!({ "channels": [] }));
    let new = json!({ "app": "a/b", "name": "c d", "items": ["a.mp4", "b.mp4"] });
    let added = post(&server, "/api/v1/channels", &new.to_string());
    assert_eq!(added.status, 201, "{}", added.text());
    assert_eq!((&added.json()["source"], &added.json()["loop"]), (&json!("api"), &json!(true)));
    server.wait_for_publisher("a/b/c%20d", true);
    let session = &server.sessions("stream=a/b/c%20d&role=publisher")[0];
    assert_eq!(session["protocol"], "channel", "{session:#}");
    let path = "/api/v1/channels/a%2Fb/c%20d";
    let playing = wait_for_channel(&server, "a%2Fb/c%20d", "playing", |now| now["state"] == "playing");
    assert_eq!((&playing["item"], &playing["duration_ms"]), (&json!(0), &playing["items"][0]["duration_ms"]));
    check("/api/v1/channels/{app}/{name}", path);
    check("/api/v1/channels", "/api/v1/channels");

    assert_eq!(post(&server, &format!("{path}/skip"), "").status, 204);
    let skipped = wait_for_channel(&server, "a%2Fb/c%20d", "on with the next", |now| now["item"] == 1);
    assert_eq!(event_kinds(&skipped), ["skipped"]);
    assert_eq!(skipped["state"], "playing", "the stream goes on");

    let again = post(&server, "/api/v1/channels", &new.to_string());
    assert_eq!((again.status, &again.json()["error"]["code"]), (409, &json!("exists")));
    let other = json!({ "app": "a", "name": "b", "items": ["a.mp4"] });
    assert_eq!(post(&server, "/api/v1/channels", &other.to_string()).status, 201);
    let third = json!({ "app": "a", "name": "c", "items": ["a.mp4"] });
    let full = post(&server, "/api/v1/channels", &third.to_string());
    assert_eq!((full.status, &full.json()["error"]["code"]), (409, &json!("full")));

    let pull = json!({ "app": "a/b", "name": "c d", "url": "rtmp://media.example/live/cam" });
    let taken = post(&server, "/api/v1/pulls", &pull.to_string());
    assert_eq!((taken.status, &taken.json()["error"]["code"]), (409, &json!("exists")));
    assert!(taken.text().contains("there is a channel"), "{}", taken.text());

    assert_eq!(delete(&server, path), 204);
    server.wait_for_publisher("a/b/c%20d", false);
    assert_eq!(post(&server, "/api/v1/pulls", &pull.to_string()).status, 201);
    let taken = post(&server, "/api/v1/channels", &new.to_string());
    assert_eq!((taken.status, &taken.json()["error"]["code"]), (409, &json!("exists")));
    assert!(taken.text().contains("there is a pull"), "{}", taken.text());
    assert_eq!(delete(&server, path), 404);
    assert_eq!(post(&server, &format!("{path}/skip"), "").status, 404);
    assert_eq!(http::get(server.http, path).expect("an answer").status, 404);
    assert_eq!(server.api("/api/v1/channels")["channels"].as_array().map(Vec::len), Some(1));
    eventually("the threads of the items end", || (threads(&server, "channel-item") <= 2).then_some(()));
    server.assert_healthy();
}

#[test]
fn a_channel_that_plays_nothing_cannot_skip() {
    let dir = ScratchDir::new();
    make_mp4(&dir.path().join("a.mp4"), 0, 2);
    let server = Server::start(&format!("[sources]\nfiles_root = '{}'\n", dir.path().display()));
    let new = json!({ "app": "live", "name": "soon", "items": ["a.mp4"], "start": "2100-01-01T00:00:00Z" });
    assert_eq!(post(&server, "/api/v1/channels", &new.to_string()).status, 201);
    wait_for_channel(&server, "live/soon", "waiting", |now| now["state"] == "waiting");
    let refused = post(&server, "/api/v1/channels/live/soon/skip", "");
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (409, &json!("not_playing")));
    assert!(refused.text().contains("`waiting`"), "{}", refused.text());
}

#[test]
fn an_item_that_is_waited_for_is_shown_as_such_and_can_be_skipped() {
    let dir = ScratchDir::new();
    make_mp4(&dir.path().join("a.mp4"), 0, 2);
    let files = format!("allow_private_addresses = true\nfiles_root = '{}'\n", dir.path().display());
    let server = Server::start(&format!("[sources]\n{files}"));
    // Connections open, and nobody answers.
    let silent = TcpListener::bind("127.0.0.1:0").expect("listen");
    let url = format!("http://{}/x.mp4", silent.local_addr().expect("an address"));
    let new = json!({ "app": "live", "name": "films", "items": ["a.mp4", url] });
    assert_eq!(post(&server, "/api/v1/channels", &new.to_string()).status, 201);
    wait_for_channel(&server, "live/films", "playing", |now| now["state"] == "playing");
    let waits =
        wait_for_channel(&server, "live/films", "behind the first item", |now| now["state"] == "opening");
    assert_eq!(waits["item"], Value::Null, "not the item before: {waits:#}");
    assert_eq!((&waits["position_ms"], &waits["duration_ms"]), (&Value::Null, &Value::Null));
    assert_eq!((&waits["next"], &waits["next_ready"]), (&json!(1), &json!(false)));
    assert_eq!(post(&server, "/api/v1/channels/live/films/skip", "").status, 204);
    let again = wait_for_channel(&server, "live/films", "playing again", |now| now["state"] == "playing");
    assert_eq!((&again["item"], &again["loops"]), (&json!(0), &json!(1)), "{again:#}");
    let skipped = &again["events"][0];
    assert_eq!((&skipped["kind"], &skipped["item"]), (&json!("skipped"), &json!(1)), "{again:#}");
}

#[test]
fn what_cannot_be_is_refused_with_its_place() {
    let dir = ScratchDir::new();
    let server = Server::start(&format!("[sources]\nfiles_root = '{}'\n", dir.path().display()));
    let cases = [
        (json!({ "app": "a", "name": "b", "items": [] }), "items"),
        (json!({ "app": "a", "name": "", "items": ["a.mp4"] }), "the name, or a part"),
        (json!({ "app": "a", "name": "b", "items": ["a.mp4", "/etc/passwd"] }), "items[1]"),
        (json!({ "app": "a", "name": "b", "items": ["../a.mp4"] }), "items[0]"),
        (json!({ "app": "a", "name": "b", "items": ["file:///etc/passwd"] }), "scheme `file`"),
        (json!({ "app": "a", "name": "b", "items": ["http://h/a", "rtmp://h/a/b"] }), "items[1]"),
        (json!({ "app": "a", "name": "b", "items": ["a.mp4"], "start": "today" }), "2026-01-01T00:00:00Z"),
        (json!({ "app": "a", "name": "b", "items": ["a.mp4"], "lop": true }), "lop"),
        (json!({ "app": "a", "name": "b" }), "items"),
    ];
    for (body, expected) in cases {
        let answer = post(&server, "/api/v1/channels", &body.to_string());
        assert!([400, 422].contains(&answer.status), "{body}: {}", answer.status);
        assert!(answer.text().contains(expected), "{body}: {}", answer.text());
    }
    assert_eq!(server.api("/api/v1/channels"), json!({ "channels": [] }));
}

#[test]
fn addresses_inside_are_refused_and_nothing_secret_is_shown() {
    let dir = ScratchDir::new();
    make_mp4(&dir.path().join("a.mp4"), 0, 2);
    let origin = FileServer::start(dir.path());
    let port = origin.address().port();
    let server = Server::start("");
    let item = |host: &str| format!("http://me:secret1@{host}:{port}/a.mp4?key=secret2");
    for host in
        ["127.0.0.1", "2130706433", "[::ffff:127.0.0.1]", "[::1]", "0.0.0.0", "169.254.169.254", "10.0.0.1"]
    {
        let new = json!({ "app": "live", "name": "inside", "items": [item(host)] });
        let refused = post(&server, "/api/v1/channels", &new.to_string());
        assert_eq!(refused.status, 400, "{host}");
        let text = refused.text();
        assert!(text.contains("items[0]") && text.contains("not a public address"), "{host}: {text}");
        assert!(!text.contains("secret"), "{text}");
    }
    // A name is judged when it has been resolved.
    let new = json!({ "app": "live", "name": "inside", "items": [item("localhost")] });
    assert_eq!(post(&server, "/api/v1/channels", &new.to_string()).status, 201);
    let channel = wait_for_channel(&server, "live/inside", "refused", |now| {
        now["items"].as_array().expect("items").iter().all(|item| item["last_error"].is_string())
    });
    for item in channel["items"].as_array().expect("items") {
        let error = item["last_error"].as_str().expect("a reason");
        let says_what_allows_it = error.contains("`sources.allow_private_addresses`");
        assert!(error.contains("not allowed") && says_what_allows_it, "{item}");
    }
    assert_eq!(origin.requests(), Vec::<String>::new(), "nothing was connected to");
    for text in [channel.to_string(), server.log(), server.api("/api/v1/channels").to_string()] {
        assert!(!text.contains("secret"), "{text}");
    }
    assert_eq!(channel["items"][0]["location"], format!("http://localhost:{port}/a.mp4?..."));
    assert_eq!(Value::Null, channel["item"]);
}

/// Threads of the server with a name.
fn threads(server: &Server, name: &str) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid())).expect("the server runs");
    let named = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.ok()?.path().join("comm")).ok().filter(|comm| comm.trim() == name)
    };
    tasks.filter_map(named).count()
}
