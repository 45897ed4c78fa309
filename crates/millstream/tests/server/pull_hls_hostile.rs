//! Servers of HLS that lie, flood or say nothing: the pull says why it fails, and the server lives on.

use std::sync::Arc;

use crate::common::eventually;
use crate::common::origin::{LOCAL, add_pull, wait_for_pull};
use crate::common::server::Server;
use crate::common::web::{Reply, Request, Web};

/// A playlist of one segment.
fn one(more: &str, uri: &str) -> Vec<u8> {
    format!("#EXTM3U\n#EXT-X-TARGETDURATION:1\n{more}#EXTINF:1,\n{uri}\n#EXT-X-ENDLIST\n").into_bytes()
}

fn answer(request: &Request) -> Reply {
    let endless = || Reply::Endless(b"#EXTINF:1,\na.ts\n".repeat(1000));
    match request.target.as_str() {
        "/endless.m3u8" => endless(),
        "/long.m3u8" => Reply::ok([b"#EXTM3U\n".to_vec(), b"a\n".repeat(50_000)].concat()),
        "/page.m3u8" => Reply::ok("<html>"),
        "/drip.m3u8" => Reply::Drip,
        "/self.m3u8" => Reply::ok("#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nself.m3u8\n"),
        "/round.m3u8" => Reply::Whole(302, vec![("Location", "/round.m3u8".to_owned())], Vec::new()),
        "/none.m3u8" => Reply::missing(),
        "/empty.m3u8" => Reply::ok("#EXTM3U\n"),
        "/file.m3u8" => Reply::ok(one("", "file:///etc/passwd")),
        "/flood.m3u8" => Reply::ok(one("", "endless.m3u8")),
        "/noise.m3u8" => Reply::ok(one("", "noise.ts")),
        "/noise.ts" => Reply::ok(vec![0x5a; 100_000]),
        "/sealed.m3u8" => Reply::ok(one("#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"skd://x\"\n", "noise.ts")),
        "/key.m3u8" => Reply::ok(one("#EXT-X-KEY:METHOD=AES-128,URI=\"endless.m3u8\"\n", "noise.ts")),
        "/map.m3u8" => Reply::ok(one("#EXT-X-MAP:URI=\"noise.ts\"\n", "box.m4s")),
        "/box.m4s" => Reply::ok(b"\xff\xff\xff\xffmoof\xff\xff\xff\xff".repeat(1_000)),
        "/missing.m3u8" => Reply::ok(
            [b"#EXTM3U\n".to_vec(), b"#EXTINF:1,\nx.ts\n".repeat(9_000), b"#EXT-X-ENDLIST".to_vec()].concat(),
        ),
        _ => Reply::missing(),
    }
}

#[test]
fn what_is_wrong_is_said_and_harms_nobody() {
    let web = Web::start(answer);
    let config = format!("{LOCAL}stall_timeout_ms = 4000\n");
    let mut server = Server::spawn(&config);
    let cases = [
        ("endless", "the playlist has more than"),
        ("long", "the playlist lists too many"),
        ("page", "what comes is no HLS playlist"),
        ("drip", "the playlist does not come in time"),
        ("self", "a master playlist lists another one, or itself"),
        ("round", "redirects"),
        ("none", "the server answers 404 for the playlist"),
        ("empty", "no new segment"),
        ("file", "not one of http or https"),
        ("flood", "a segment has more than"),
        ("noise", "the playlist has ended"),
        ("sealed", "encrypted by SAMPLE-AES"),
        ("key", "a key has more than"),
        ("map", "the playlist has ended"),
        ("missing", "the server answers 404 for a segment"),
    ];
    cases.iter().for_each(|(name, _)| add_pull(&server, name, &web.url(&format!("/{name}.m3u8"))));
    for (name, expected) in cases {
        wait_for_pull(&server, name, expected, |pull| {
            pull["last_error"].as_str().is_some_and(|error| error.contains(expected))
        });
    }
    // A dozen thousand missing segments are not asked for.
    let asked = web.asked().iter().filter(|of| of.target == "/x.ts").count();
    let failures = server.api("/api/v1/pulls/live/missing")["failures"].as_u64().expect("a number");
    assert!(asked as u64 <= (failures + 1) * 6, "{asked} in {failures} attempts");
    assert!(server.resident_bytes() < 600 << 20, "{}", server.resident_bytes());
    server.assert_healthy();
}

#[test]
fn a_playlist_at_an_address_of_this_network_is_refused_by_number_and_by_name() {
    let web = Arc::new(Web::start(answer));
    let server = Server::start("[sources]\nretry_min_ms = 50\n");
    let refused = crate::common::origin::post(
        &server,
        "/api/v1/pulls",
        &serde_json::json!({ "app": "live", "name": "x", "url": web.url("/page.m3u8") }).to_string(),
    );
    assert_eq!(refused.status, 400, "{}", refused.text());
    let named = web.url("/page.m3u8").replace("127.0.0.1", "localhost");
    add_pull(&server, "x", &named);
    let pull = wait_for_pull(&server, "x", "refused", |pull| pull["last_error"].is_string());
    assert!(pull["last_error"].as_str().is_some_and(|error| error.starts_with("not allowed")), "{pull}");
    assert!(web.asked().is_empty());
}

#[test]
fn credentials_are_for_the_origin_of_the_pull_only() {
    let other = Web::start(|_| Reply::missing());
    let elsewhere = other.url("/x.ts");
    let web = Web::start(move |request| match request.target.as_str() {
        "/a.m3u8?token=secret" => {
            let segments = format!("#EXTINF:1,\nhere.ts\n#EXTINF:1,\n{elsewhere}\n");
            Reply::ok(format!("#EXTM3U\n#EXT-X-TARGETDURATION:1\n{segments}#EXT-X-ENDLIST\n"))
        }
        _ => Reply::missing(),
    });
    let server = Server::start(LOCAL);
    let url = web.url("/a.m3u8?token=secret").replace("http://", "http://user:pass@");
    add_pull(&server, "x", &url);
    eventually("the other server is asked", || (!other.asked().is_empty()).then_some(()));
    assert!(other.asked().iter().all(|of| of.authorization.is_none()));
    let is_known = |of: &Request| of.authorization.as_deref() == Some("Basic dXNlcjpwYXNz");
    assert!(web.asked().len() > 1 && web.asked().iter().all(is_known), "{:?}", web.asked());
    let shown = server.api("/api/v1/pulls/live/x")["url"].as_str().expect("a URL").to_owned();
    assert!(shown.ends_with("/a.m3u8?..."), "{shown}");
    assert!(!shown.contains("pass") && !server.log().contains("secret") && !server.log().contains("pass@"));
}
