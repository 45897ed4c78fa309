//! A pull and clients that publish the same stream: who was first stays, whatever is configured, and a pull
//! that was put off is back when it can be.

use crate::common::flv::sample_tags;
use crate::common::http;
use crate::common::origin::{LOCAL, Origin, add_pull, wait_for_pull};
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;

#[test]
fn a_pull_waits_until_the_stream_is_free() {
    for second in ["refuse", "take_over"] {
        let server = Server::start(&format!("{LOCAL}[stream]\nsecond_publisher = \"{second}\"\n"));
        let tags = sample_tags();
        let mut publisher = RtmpClient::publish(server.rtmp, "live/cam");
        publisher.send_tags(&tags[..50]);
        let origin = Origin::start();
        add_pull(&server, "cam", &origin.url("/cam.flv"));
        let mut asked = origin.accept();
        asked.begin();
        asked.send_tags(&tags[..50], 0);
        let pull = wait_for_pull(&server, "cam", "put off", |pull| pull["last_error"].is_string());
        assert!(pull["last_error"].as_str().expect("a reason").contains("already being published"), "{pull}");
        assert_eq!(server.sessions("stream=live/cam&role=publisher")[0]["protocol"], "rtmp", "{second}");
        publisher.end();
        let mut asked = origin.accept();
        asked.begin();
        asked.send_tags(&tags[..50], 0);
        crate::common::eventually("the pull publishes", || {
            (server.sessions("stream=live/cam&role=publisher").first()?["protocol"] == "pull").then_some(())
        });
    }
}

#[test]
fn a_client_may_take_over_where_that_is_configured_and_the_pull_does_not_fight() {
    let config = LOCAL.replace("retry_max_ms = 400", "retry_max_ms = 60000");
    let server = Server::start(&format!("{config}[stream]\nsecond_publisher = \"take_over\"\n"));
    let tags = sample_tags();
    let origin = Origin::start();
    add_pull(&server, "cam", &origin.url("/cam.flv"));
    let mut asked = origin.accept();
    asked.begin();
    asked.send_tags(&tags[..50], 0);
    server.wait_for_publisher("live/cam", true);
    let mut publisher = RtmpClient::publish(server.rtmp, "live/cam");
    publisher.send_tags(&tags[..50]);
    let pull = wait_for_pull(&server, "cam", "replaced", |pull| pull["state"] == "waiting");
    assert!(pull["last_error"].as_str().expect("a reason").contains("took over"), "{pull}");
    assert!(pull["retry_in_ms"].as_u64() > Some(30_000), "{pull}");
    asked.wait_closed();
    let publishers = server.sessions("stream=live/cam&role=publisher");
    assert_eq!((publishers.len(), &publishers[0]["protocol"]), (1, &"rtmp".into()));
}

#[test]
fn a_pull_that_the_operator_ends_waits_for_the_longest_pause() {
    let config = LOCAL.replace("retry_max_ms = 400", "retry_max_ms = 60000");
    let server = Server::start_workers(2, &config);
    let origin = Origin::start();
    add_pull(&server, "cam", &origin.url("/cam.flv"));
    let mut asked = origin.accept();
    asked.begin();
    asked.send_tags(&sample_tags()[..50], 0);
    server.wait_for_publisher("live/cam", true);
    let session = server.sessions("stream=live/cam&role=publisher")[0]["id"].clone();
    let path = format!("/api/v1/sessions/{}", session.as_str().expect("an id"));
    assert_eq!(http::request(server.http, "DELETE", &path, &[]).expect("an answer").status, 204);
    let pull = wait_for_pull(&server, "cam", "ended", |pull| pull["state"] == "waiting");
    assert!(pull["last_error"].as_str().expect("a reason").contains("operator"), "{pull}");
    assert!(pull["retry_in_ms"].as_u64() > Some(30_000), "{pull}");
    server.wait_for_publisher("live/cam", false);
    asked.wait_closed();
}

#[test]
fn a_server_that_stops_ends_its_pulls_in_order() {
    let mut server = Server::spawn(LOCAL);
    let origin = Origin::start();
    add_pull(&server, "cam", &origin.url("/cam.flv"));
    let mut asked = origin.accept();
    asked.begin();
    asked.send_tags(&sample_tags()[..50], 0);
    server.wait_for_publisher("live/cam", true);
    add_pull(&server, "waits", &origin.url("/other.flv"));
    let waits = origin.accept();
    server.terminate();
    asked.wait_closed();
    waits.wait_closed();
    assert!(server.wait_for_exit(crate::common::TIMEOUT).success());
    let log = server.log();
    assert!(log.contains("stopped") && !log.contains("panicked"), "{log}");
}
