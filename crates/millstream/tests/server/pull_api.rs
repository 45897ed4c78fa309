//! Pulls in the management API: added, listed, removed; what cannot be is refused with a reason,
//! and no secret is shown.

use crate::common::flv::sample_tags;
use crate::common::http;
use crate::common::origin::{LOCAL, Origin, add_pull, post, wait_for_pull};
use crate::common::server::Server;
use serde_json::{Value, json};

#[test]
fn a_pull_is_added_seen_and_removed() {
    let server = Server::start(&format!("{LOCAL}pulls_max = 2\n[limits]\nname_extra_characters = ' '\n"));
    let origin = Origin::start();
    assert_eq!(server.api("/api/v1/pulls"), json!({ "pulls": [] }));
    let url = format!("http://user:secret1@{}/cam.flv?token=secret2", origin.address());
    let answer =
        post(&server, "/api/v1/pulls", &json!({ "app": "a/b", "name": "c d", "url": url }).to_string());
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!((&answer.json()["app"], &answer.json()["source"]), (&json!("a/b"), &json!("api")));
    let mut asked = origin.accept();
    assert!(asked.head[0].starts_with("GET /cam.flv?token=secret2 "), "{:?}", asked.head);
    assert_eq!(asked.header("authorization"), Some("Basic dXNlcjpzZWNyZXQx"), "user:secret1");
    assert!(asked.header("user-agent").is_some_and(|agent| agent.starts_with("millstream/")));
    asked.begin();
    asked.send_tags(&sample_tags()[..50], 0);
    server.wait_for_publisher("a/b/c%20d", true);
    let path = "/api/v1/pulls/a%2Fb/c%20d";
    let pull = server.api(path);
    assert_eq!(
        (&pull["state"], &pull["last_error"], &pull["retry_in_ms"]),
        (&json!("live"), &Value::Null, &Value::Null)
    );
    assert_eq!(
        (&pull["attempts"], &pull["failures"], &pull["last_error_at"]),
        (&json!(1), &json!(0), &Value::Null)
    );
    assert_eq!(server.api("/api/v1/pulls")["pulls"].as_array().map(Vec::len), Some(1));
    let shown = [
        server.api("/api/v1/pulls"),
        server.api("/api/v1/sessions?limit=1000"),
        server.api("/api/v1/streams"),
    ];
    for text in shown.iter().map(Value::to_string).chain([server.log()]) {
        assert!(!text.contains("secret"), "{text}");
    }
    let delete = |status: u16| {
        let answer = http::request(server.http, "DELETE", path, &[]).expect("an answer");
        assert_eq!(answer.status, status, "{}", answer.text());
    };
    delete(204);
    asked.wait_closed();
    server.wait_for_publisher("a/b/c%20d", false);
    delete(404);
    assert_eq!(server.api("/api/v1/pulls"), json!({ "pulls": [] }));
    assert!(origin.accept_now().is_none(), "it is not tried again");
}

#[test]
fn what_cannot_be_is_refused() {
    let server = Server::start(&format!("{LOCAL}pulls_max = 1\n"));
    let url = "http://127.0.0.1:9/cam.flv";
    let body = |app: &str, name: &str, url: &str| json!({ "app": app, "name": name, "url": url }).to_string();
    let cases = [
        (body("live", "cam", "file:///etc/passwd"), 400, "bad_request"),
        (body("live", "cam", "http://"), 400, "bad_request"),
        (body("", "cam", url), 400, "bad_request"),
        (body("live", "../cam", url), 400, "bad_request"),
        (body("live", "a/b", url), 400, "bad_request"),
        (body("live", "cam?x", url), 400, "bad_request"),
        (body("live", "cam", &format!("http://h/{}", "x".repeat(3000))), 400, "bad_request"),
        ("{\"app\":\"live\"}".to_owned(), 400, "bad_request"),
        (json!({ "app": "live", "name": "cam", "url": url, "more": 1 }).to_string(), 400, "bad_request"),
        ("[".to_owned(), 400, "bad_request"),
        (body("live", "cam", url), 201, ""),
        (body("live", "cam", url), 409, "exists"),
        (body("live", "cam2", url), 409, "full"),
    ];
    for (body, status, code) in cases {
        let answer = post(&server, "/api/v1/pulls", &body);
        assert_eq!(answer.status, status, "{body}: {}", answer.text());
        if !code.is_empty() {
            assert_eq!(answer.json()["error"]["code"], code, "{body}");
        }
    }
    for (method, path, status) in [
        ("GET", "/api/v1/pulls/live/other", 404),
        ("DELETE", "/api/v1/pulls/live/other", 404),
        ("DELETE", "/api/v1/pulls", 405),
    ] {
        assert_eq!(
            http::request(server.http, method, path, &[]).expect("an answer").status,
            status,
            "{path}"
        );
    }
}

#[test]
fn the_management_rule_holds() {
    let server = Server::start(&format!("{LOCAL}[auth]\nmanage_token = \"t\"\n"));
    let answer =
        post(&server, "/api/v1/pulls", "{\"app\":\"live\",\"name\":\"cam\",\"url\":\"rtmp://h/a/b\"}");
    assert_eq!(answer.status, 401);
    let with = |token: &str| {
        let field = format!("Bearer {token}");
        http::request(server.http, "GET", "/api/v1/pulls", &[("Authorization", &field)]).expect("an answer")
    };
    assert_eq!(with("wrong").status, 401);
    assert_eq!(with("t").json(), json!({ "pulls": [] }));
}

#[test]
fn state_says_what_it_waits_for() {
    let server = Server::start(&format!("{LOCAL}retry_max_ms = 60000\n").replace("retry_max_ms = 400\n", ""));
    let origin = Origin::start();
    add_pull(&server, "cam", &origin.url("/cam.flv"));
    let mut asked = origin.accept();
    let pull = wait_for_pull(&server, "cam", "connecting", |pull| pull["state"] == "connecting");
    assert_eq!((&pull["attempts"], &pull["retry_in_ms"]), (&json!(1), &Value::Null));
    asked.send(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    let pull = wait_for_pull(&server, "cam", "waiting", |pull| pull["state"] == "waiting");
    assert_eq!((&pull["attempts"], &pull["failures"]), (&json!(1), &json!(1)));
    assert!(pull["last_error"].as_str().is_some_and(|error| error.contains("404")), "{pull}");
    assert!(pull["retry_in_ms"].as_u64().is_some_and(|pause| pause <= 100), "{pull}");
    assert_eq!(pull["since"].as_str().map(str::len), Some("2026-11-21T12:00:00Z".len()));
    assert_eq!(pull["last_error_at"], pull["since"], "it waits since it failed");
}
