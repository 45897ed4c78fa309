//! A pull reaches no address that is not public, however it is written, unless the configuration allows it.

use crate::common::origin::{LOCAL, Origin, add_pull, post, wait_for_pull};
use crate::common::server::Server;
use serde_json::json;

#[test]
fn addresses_inside_are_refused_in_every_notation() {
    let mut server = Server::start("[sources]\nretry_min_ms = 50\n");
    let origin = Origin::start();
    let port = origin.address().port();
    let hosts = [
        "127.0.0.1",
        "localhost",
        "127.1.2.3",
        "2130706433", // 127.0.0.1 as one number
        "0x7f.1",
        "0.0.0.0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]", // IPv4-mapped
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]", // NAT64 of 127.0.0.1
        "[2002:7f00:1::]",   // 6to4 of 127.0.0.1
        "10.0.0.1",
        "192.168.1.1",
        "169.254.169.254", // where clouds keep credentials
        "100.64.0.1",
        "[fe80::1]",
        "[fd00::1]",
    ];
    let mut names = Vec::new();
    for (index, host) in hosts.iter().enumerate() {
        for (scheme, path) in
            [("http", "/cam.flv"), ("https", "/cam.flv"), ("rtmp", "/live/cam"), ("rtmps", "/live/cam")]
        {
            let name = format!("{scheme}-{index}");
            let url = format!("{scheme}://{host}:{port}{path}");
            let body = json!({ "app": "live", "name": name, "url": url }).to_string();
            let answer = post(&server, "/api/v1/pulls", &body);
            match answer.status {
                // What says which address it is, is refused at once.
                400 => assert!(answer.text().contains("not a public address"), "{url}: {}", answer.text()),
                201 => names.push((name, host)),
                other => panic!("{url}: {other} {}", answer.text()),
            }
        }
    }
    let resolved: Vec<&str> = names.iter().map(|(_, host)| **host).collect();
    assert!(resolved.contains(&"localhost") && !resolved.contains(&"127.0.0.1"), "{resolved:?}");
    for (name, host) in names {
        let pull = wait_for_pull(&server, &name, "refused", |pull| pull["last_error"].is_string());
        let error = pull["last_error"].as_str().expect("a reason");
        assert!(
            error.contains("not allowed") && error.contains("`sources.allow_private_addresses`"),
            "{name} {host}: {error}"
        );
    }
    assert!(origin.accept_now().is_none(), "nothing was connected to");
    server.assert_healthy();
}

#[test]
fn redirects_are_judged_like_the_first_address() {
    let server = Server::start(LOCAL);
    let origin = Origin::start();
    for (index, target) in
        ["file:///etc/passwd", "rtmp://127.0.0.1/live/cam", "ftp://127.0.0.1/cam"].iter().enumerate()
    {
        let name = format!("cam{index}");
        add_pull(&server, &name, &origin.url(&format!("/{name}.flv")));
        // The pull before may have been tried once more in the meantime.
        let own =
            |asked: &crate::common::origin::Asked| asked.head[0].starts_with(&format!("GET /{name}.flv "));
        let mut asked = std::iter::repeat_with(|| origin.accept()).find(own).expect("asked for");
        asked.send(
            format!("HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n").as_bytes(),
        );
        let pull = wait_for_pull(&server, &name, "refused", |pull| pull["last_error"].is_string());
        assert!(pull["last_error"].as_str().expect("a reason").contains("not allowed"), "{target}: {pull}");
        let removed =
            crate::common::http::request(server.http, "DELETE", &format!("/api/v1/pulls/live/{name}"), &[]);
        assert_eq!(removed.expect("an answer").status, 204);
    }
}

#[test]
fn redirects_without_end_are_given_up() {
    let server = Server::start(
        &format!("{LOCAL}redirects_max = 3\nretry_max_ms = 60000\n").replace("retry_max_ms = 400\n", ""),
    );
    let origin = Origin::start();
    add_pull(&server, "cam", &origin.url("/0.flv"));
    for number in 1..=4 {
        let mut asked = origin.accept();
        assert!(asked.head[0].starts_with(&format!("GET /{}.flv ", number - 1)), "{:?}", asked.head);
        asked.send(
            format!("HTTP/1.1 302 Found\r\nLocation: /{number}.flv\r\nConnection: close\r\n\r\n").as_bytes(),
        );
    }
    let pull = wait_for_pull(&server, "cam", "refused", |pull| pull["last_error"].is_string());
    assert!(pull["last_error"].as_str().expect("a reason").contains("redirects"), "{pull}");
}
