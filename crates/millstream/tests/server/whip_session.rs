//! A WHIP session over HTTP against the real server: its URL, changes by PATCH, and its end.

use crate::common::eventually;
use crate::common::http;
use crate::common::rtc::{Client, Options, counter, exchange, start_flow, wait_for_no_sessions};
use crate::common::server::Server;
use rtc::sdp::{Direction, IceCredentials, TrickleFragment};
use serde_json::json;

/// `a=candidate` lines and the present credentials, as a client sends them when it has found more addresses.
fn candidates(client: &Client) -> String {
    let fragment = TrickleFragment {
        ufrag: Some(client.offer.ice.ufrag.clone()),
        password: Some(client.offer.ice.password.clone()),
        candidates: client.offer.candidates.clone(),
        end_of_candidates: true,
        ..TrickleFragment::default()
    };
    fragment.to_string()
}

#[test]
fn a_session_is_listed_changed_and_ended() {
    let server = Server::start("");
    let mut publisher = Client::publish(&server, "live/sub/cam");
    let sessions = server.sessions("stream=live/sub/cam");
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    assert_eq!((&sessions[0]["protocol"], &sessions[0]["role"]), (&json!("whip"), &json!("publisher")));
    publisher.send_audio(0);
    eventually("the session is connected by UDP", || {
        let session = server.sessions("role=publisher").pop()?;
        (session["rtc"]["state"] == "connected" && session["rtc"]["transport"] == "udp").then_some(())
    });
    let stream = server.api("/api/v1/streams/live%2Fsub/cam");
    assert_eq!((&stream["state"], &stream["publisher"]["protocol"]), (&json!("live"), &json!("whip")));
    let kinds: Vec<_> =
        stream["tracks"].as_array().expect("tracks").iter().map(|track| &track["codec"]).collect();
    assert_eq!(kinds, [&json!("Opus"), &json!("VP8")]);
    assert_eq!(stream["urls"]["whep"], format!("http://{}/whep/live/sub/cam", server.http));
    assert_eq!(stream["urls"]["flv"], format!("http://{}/live/sub/cam.flv", server.http), "over a bridge");

    assert_eq!(publisher.patch(&candidates(&publisher), &[]).status, 428);
    assert_eq!(publisher.patch(&candidates(&publisher), &[("If-Match", "\"other\"")]).status, 412);
    let etag = format!("\"{}\"", publisher.answer.remote.ice.ufrag);
    assert_eq!(publisher.patch(&candidates(&publisher), &[("If-Match", &etag)]).status, 204);

    assert_eq!(publisher.delete(), 200);
    assert_eq!(publisher.delete(), 404, "it ends once");
    assert_eq!(publisher.patch(&candidates(&publisher), &[("If-Match", "*")]).status, 404);
    wait_for_no_sessions(&server);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the client's clock is the real one")]
fn ice_restarts_by_patch_and_media_goes_on() {
    let server = Server::start("");
    let mut publisher = Client::publish(&server, "live/a");
    let mut viewer = Client::play(&server, "live/a");
    let next = start_flow(&mut publisher, &mut viewer, 0);
    let local = IceCredentials::new("restarted", &"p".repeat(24)).expect("credentials");
    let restart = TrickleFragment {
        ufrag: Some(local.ufrag.clone()),
        password: Some(local.password.clone()),
        candidates: publisher.offer.candidates.clone(),
        ..TrickleFragment::default()
    };
    let old = format!("\"{}\"", publisher.answer.remote.ice.ufrag);
    let answer = publisher.patch(&restart.to_string(), &[("If-Match", "*")]);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let restarted = rtc::sdp::parse_fragment(&answer.text()).expect("a fragment");
    let remote = restarted.ice().expect("credentials of the server");
    let etag = answer.header("etag").expect("a tag").to_owned();
    assert!(etag != old && etag == format!("\"{}\"", remote.ufrag));
    assert!(!restarted.candidates.is_empty());
    publisher
        .peer
        .restart_ice(std::time::Instant::now(), local, remote, &restarted.candidates)
        .expect("a restart");
    exchange(&mut publisher, &mut viewer, next..next + 50);
    assert_eq!(publisher.patch("a=end-of-candidates\r\n", &[("If-Match", &old)]).status, 412);
    assert_eq!(publisher.patch("a=end-of-candidates\r\n", &[("If-Match", &etag)]).status, 204);
}

#[test]
fn a_session_that_never_connects_is_freed_with_its_url() {
    let server = Server::start("[rtc]\npending_timeout_ms = 1000\n");
    let silent = Client::open(&server, "/whip/live/a", Direction::Send, &Options::default());
    assert_eq!(http::request(server.http, "GET", &silent.session, &[]).expect("a response").status, 204);
    eventually("the URL is forgotten", || {
        let answer = http::request(server.http, "GET", &silent.session, &[]).expect("a response");
        (answer.status == 404).then_some(())
    });
    wait_for_no_sessions(&server);
    eventually("it is counted", || (counter(&server, "sessions_expired") == 1).then_some(()));
    assert_eq!(silent.delete(), 404);
    let mut next = Client::publish(&server, "live/a");
    next.send_audio(0);
    server.wait_for_publisher("live/a", true);
}

#[test]
fn a_kicked_session_loses_its_url() {
    let server = Server::start("");
    let mut publisher = Client::publish(&server, "live/a");
    let id = server.sessions("role=publisher")[0]["id"].as_str().expect("an id").to_owned();
    let answer =
        http::request(server.http, "DELETE", &format!("/api/v1/sessions/{id}"), &[]).expect("a response");
    assert_eq!(answer.status, 204);
    publisher.until("the server says goodbye", |publisher| publisher.closed || publisher.failed.is_some());
    eventually("the URL is forgotten", || (publisher.delete() == 404).then_some(()));
    wait_for_no_sessions(&server);
}
