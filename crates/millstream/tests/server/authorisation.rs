//! Who may publish, play and manage.

use crate::common::flv::sample_tags;
use crate::common::http;
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use crate::common::tools::publish;

const TOKENS: &str = "
[auth]
publish_token = 'sluice'
play_token = 'meadow'
manage_token = 'keeper'

[[auth.publish]]
stream = 'studio/*'
tokens = ['red', 'blue']

[[auth.publish]]
stream = 'closed/*'
allow = 'nobody'

[[auth.play]]
stream = 'open/*'
allow = 'anyone'
";

#[test]
fn by_default_this_machine_may_do_everything() {
    let server = Server::start("");
    let _publisher = RtmpClient::publish(server.rtmp, "live/mill");
    let _player = RtmpClient::play(server.rtmp, "live/mill");
    let info = server.api("/api/v1/server");
    assert_eq!(info["publish"]["loopback_only"], true, "and only this machine may publish");
    assert_eq!(info["publish"]["token_required"], false);
}

#[test]
fn publishing_needs_the_token_that_the_first_matching_rule_names() {
    let server = Server::start(TOKENS);
    for (stream, allowed, remark) in [
        ("live/mill", false, "no token"),
        ("live/mill?token=", false, "an empty token"),
        ("live/mill?token=sluic", false, "the beginning of the token"),
        ("live/mill?token=sluicesluice", false, "the token twice"),
        ("live/mill?token=meadow", false, "the token for playing"),
        ("live/mill?token=sluice", true, "the right token"),
        ("studio/one?token=sluice", false, "the general token where a rule has its own"),
        ("studio/one?token=blue", true, "a token of the rule"),
        ("studio/one/two?token=red", true, "the pattern covers the whole rest"),
        ("closed/one?token=sluice", false, "closed for all"),
    ] {
        let answer = RtmpClient::begin_publish(server.rtmp, stream).wait_started();
        assert_eq!(answer.is_ok(), allowed, "{remark}: {answer:?}");
    }
}

#[test]
fn playing_needs_its_token_by_rtmp_and_by_http() {
    let server = Server::start(TOKENS);
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill?token=sluice");
    publisher.send_tags(&sample_tags()[..40]);
    let mut open = RtmpClient::publish(server.rtmp, "open/mill?token=sluice");
    open.send_tags(&sample_tags()[..40]);
    for (stream, query, allowed) in [
        ("live/mill", "", false),
        ("live/mill", "?token=sluice", false),
        ("live/mill", "?token=meadow", true),
        ("open/mill", "", true),
    ] {
        let answer = RtmpClient::begin_play(server.rtmp, &format!("{stream}{query}")).wait_started();
        assert_eq!(answer.is_ok(), allowed, "RTMP {stream}{query}: {answer:?}");
        let path = format!("/{stream}.flv{query}");
        let status = http::open(server.http, "GET", &path, &[]).expect("an answer").status;
        assert_eq!(status == 200, allowed, "{path}: {status}");
        assert!(allowed || matches!(status, 401 | 403), "{path}: {status}");
    }
}

#[test]
fn the_management_api_needs_its_token_and_health_does_not() {
    let server = Server::start(TOKENS);
    for (path, authorization, expected) in [
        ("/healthz", "", [200].as_slice()),
        ("/readyz", "", &[200]),
        ("/api/v1/streams", "", &[401, 403]),
        ("/api/v1/streams", "Bearer sluice", &[401, 403]),
        ("/api/v1/streams", "Bearer keeper", &[200]),
        ("/api/v1/sessions", "Bearer keeper", &[200]),
        ("/api/v1/workers", "", &[401, 403]),
        ("/metrics", "", &[401, 403]),
        ("/metrics", "Bearer keeper", &[200]),
    ] {
        let response =
            http::request(server.http, "GET", path, &[("Authorization", authorization)]).expect("an answer");
        assert!(
            expected.contains(&response.status),
            "GET {path} with {authorization:?}: {}",
            response.status
        );
        if response.status >= 400 && path.starts_with("/api") {
            assert!(response.json()["error"]["code"].is_string(), "{}", response.text());
        }
    }
    let refused = http::request(server.http, "DELETE", "/api/v1/sessions/1", &[]).expect("an answer");
    assert!(matches!(refused.status, 401 | 403), "{}", refused.status);
}

#[test]
fn a_page_of_another_site_cannot_use_the_management_api() {
    let server = Server::start("");
    for (headers, remark) in [
        ([("Origin", "https://example.org"), ("Accept", "*/*")], "a request another site makes"),
        ([("Host", "example.org"), ("Accept", "*/*")], "a name that was made to point here"),
    ] {
        let delete = http::request(server.http, "DELETE", "/api/v1/sessions/1", &headers).expect("an answer");
        assert!(matches!(delete.status, 400 | 401 | 403), "{remark}: {}", delete.status);
    }
}

#[test]
fn ffmpeg_is_refused_without_and_accepted_with_a_token() {
    let server = Server::start(TOKENS);
    publish(&server.rtmp_url("live/mill"), 4).finish_refused();
    publish(&server.rtmp_url("live/mill?token=sluice"), 8).finish();
}

#[test]
fn tokens_appear_in_no_log_line() {
    let server = Server::start(&format!("{TOKENS}\n[log]\nlevel = 'debug'\n"));
    let _ = RtmpClient::begin_publish(server.rtmp, "live/mill?token=guessed-wrong").wait_started();
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill?token=sluice");
    publisher.send_tags(&sample_tags()[..40]);
    let _ = http::open(server.http, "GET", "/live/mill.flv?token=meadow", &[]).expect("an answer");
    crate::common::eventually("the publisher is logged", || server.log().contains("live/mill").then_some(()));
    for secret in ["sluice", "meadow", "keeper", "guessed-wrong"] {
        assert!(!server.log().contains(secret), "{secret} is in the log:\n{}", server.log());
    }
}
