//! `millstream top --once`: one message as text, for scripts; and who gets none, with the reason.

use std::fs;
use std::process::{Command, Output};

use crate::common::flv::sample_tags;
use crate::common::rtmp::RtmpClient;
use crate::common::server::{BINARY, ScratchDir, Server};
use crate::common::{eventually, http};

fn top(arguments: &[&str], token: Option<&str>) -> Output {
    let environment = token.map(|token| ("MILLSTREAM_TOP_TOKEN", token));
    top_in(environment.as_slice(), arguments)
}

fn top_in(environment: &[(&str, &str)], arguments: &[&str]) -> Output {
    let mut command = Command::new(BINARY);
    command.args(["top", "--once"]).args(arguments).env_remove("SSL_CERT_FILE");
    command.envs(environment.iter().copied()).output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_line_for_each_worker_stream_and_session() {
    let server = Server::start_workers(2, "");
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&sample_tags());
    let _player = RtmpClient::play(server.rtmp, "live/mill");
    server.wait_for_players("live/mill", 1);
    let url = server.http.to_string();
    // The statistics follow once a second.
    let printed = eventually("two sessions in the statistics", || {
        let output = top(&["--url", &url], None);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let printed = text(&output.stdout);
        (lines(&printed, "session").len() == 2).then_some(printed)
    });
    assert_eq!(lines(&printed, "worker").len(), 2, "{printed}");
    let stream = &lines(&printed, "stream")[0];
    assert_eq!(stream[1..3], ["live/mill", "live"], "{printed}");
    assert_eq!(stream[4], "1", "players: {printed}");
    let mut roles: Vec<String> = lines(&printed, "session").iter().map(|line| line[3].clone()).collect();
    roles.sort();
    assert_eq!(roles, ["player", "publisher"], "{printed}");
    let ids: Vec<String> =
        server.sessions("").iter().map(|s| s["id"].as_str().unwrap_or("").to_owned()).collect();
    assert!(lines(&printed, "session").iter().all(|line| ids.contains(&line[1])), "{ids:?}: {printed}");
    let player = top(&["--url", &url, "--filter", "role:player", "--sort", "age"], None);
    assert_eq!(lines(&text(&player.stdout), "session").len(), 1);
    for (filter, expected) in [
        ("foo:bar", "stream:, role:"),
        ("worker:2", "there is no worker 2, but 0 to 1"),
        ("protocol:x", "whep"),
    ] {
        let refused = top(&["--url", &url, "--filter", filter], None);
        assert_eq!((refused.status.code(), text(&refused.stdout)), (Some(2), String::new()), "{filter}");
        assert!(text(&refused.stderr).contains(expected), "{}", text(&refused.stderr));
    }
}

#[test]
fn a_single_node_has_no_nodes_to_show() {
    let server = Server::start("");
    let output = top(&["--url", &server.http.to_string(), "--nodes"], None);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), String::new()));
    assert!(
        text(&output.stderr).contains("this server is not part of a cluster"),
        "{}",
        text(&output.stderr)
    );
}

/// Words of the lines of one kind.
fn lines(printed: &str, kind: &str) -> Vec<Vec<String>> {
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    printed.lines().map(words).filter(|words| words[0] == kind).collect()
}

#[test]
fn the_token_is_asked_for_and_taken_from_the_environment() {
    let server = Server::start("[auth]\nmanage_token = 'keeper'\n");
    let url = server.http.to_string();
    let needed = "a token is needed, by MILLSTREAM_TOP_TOKEN or --token";
    for (token, expected) in [(None, needed), (Some("thief"), ": the token is not valid")] {
        let output = top(&["--url", &url], token);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
        assert!(!text(&output.stderr).contains("thief"), "the token is told to nobody");
    }
    assert!(top(&["--url", &url], Some("keeper")).status.success());
    assert!(
        top(&["--url", &url, "--token", "keeper"], Some("thief")).status.success(),
        "the flag is stronger"
    );
}

#[test]
fn tls_is_checked_against_the_authorities_that_were_named() {
    let dir = ScratchDir::new();
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    let [certificate, key] = ["cert.pem", "key.pem"].map(|name| dir.path().join(name).display().to_string());
    fs::write(&certificate, made.cert.pem()).expect("written");
    fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    let server = Server::start(&format!("[tls]\ncertificate = '{certificate}'\nkey = '{key}'\n"));
    let url = format!("https://{}", server.https.expect("an HTTPS address"));
    assert!(top(&["--url", &url, "--ca", &certificate], None).status.success());
    assert!(top(&["--url", &url, "--insecure"], None).status.success());
    let variables = [("SSL_CERT_FILE", certificate.as_str()), ("MILLSTREAM_TOP_URL", &url)];
    assert!(top_in(&variables, &[]).status.success(), "in place of the system's authorities");
    let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    let others = dir.path().join("others.pem").display().to_string();
    fs::write(&others, other.cert.pem()).expect("written");
    let output = top(&["--url", &url, "--ca", &others], None);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("certificate"), "{}", text(&output.stderr));
    let localhost = url.replace("127.0.0.1", "localhost");
    let output = top(&["--url", &localhost, "--ca", &certificate], None);
    assert_eq!(output.status.code(), Some(1), "the certificate is of another name");
}

#[test]
fn who_is_no_millstream_is_found_out() {
    let server = Server::start("");
    assert_eq!(http::get(server.http, "/healthz").expect("an answer").status, 200);
    let output = top(&["--url", &server.rtmp.to_string()], None);
    assert_eq!(output.status.code(), Some(1), "an RTMP port");
    assert!(text(&output.stderr).contains("is it the HTTP port of a Millstream"), "{}", text(&output.stderr));
    let output = top(&["--insecure", "--url", &format!("https://{}", server.http)], None);
    assert_eq!(output.status.code(), Some(1), "a plain port");
    assert!(text(&output.stderr).contains("Or is it http://?"), "{}", text(&output.stderr));
    let output = top(&["--url", &format!("http://{}/elsewhere", server.http)], None);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("is it a Millstream?"), "{}", text(&output.stderr));
    let output = top(&["--url", "ftp://example.org"], None);
    assert_eq!(output.status.code(), Some(2));
    let output =
        Command::new(BINARY).arg("top").stdin(std::process::Stdio::null()).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--once"), "{}", text(&output.stderr));
}
