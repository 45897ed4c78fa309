//! Log lines: JSON when so configured, and every line about a session carries its id.

use crate::common::flv::sample_tags;
use crate::common::http;
use crate::common::raw;
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use serde_json::Value;

#[test]
fn json_lines_carry_the_session_they_speak_of() {
    let server = Server::start("[log]\nformat = 'json'\nlevel = 'debug'\n");
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&sample_tags()[..60]);
    let mut player = RtmpClient::play(server.rtmp, "live/mill");
    player.take_frames(3);
    drop(http::open(server.http, "GET", "/live/mill.flv", &[]).expect("play"));
    let mut broken = raw::handshake(server.rtmp);
    std::io::Write::write_all(&mut broken, &raw::set_chunk_size(0)).expect("send");
    raw::read_until_closed(&mut broken, crate::common::TIMEOUT).expect("closed");
    player.end();
    publisher.end();
    let expected = ["publisher started", "player joined", "player left", "publisher left", "protocol error"];
    let lines = crate::common::eventually("all of it is logged", || {
        let lines: Vec<Value> = server
            .log()
            .lines()
            .filter(|line| line.starts_with('{'))
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
            .collect();
        let is_there = |message: &str| lines.iter().any(|line| message_of(line) == message);
        expected.iter().all(|message| is_there(message)).then_some(lines)
    });
    for line in lines.iter().filter(|line| expected.contains(&message_of(line))) {
        assert!(find(line, "session").is_some_and(|id| !id.is_empty()), "no session in {line}");
        assert!(line["level"].is_string() && line["timestamp"].is_string(), "{line}");
    }
}

#[test]
fn a_flood_of_bad_peers_does_not_flood_the_log() {
    // So few that a thousand come faster, however busy the machine is.
    let mut server = Server::start("[log]\nlevel = 'debug'\nlines_per_second = 10\n");
    for _ in 0..1_000 {
        let mut broken = raw::handshake(server.rtmp);
        std::io::Write::write_all(&mut broken, &raw::set_chunk_size(0)).expect("send");
    }
    server.wait_for_session_count(0);
    server.assert_healthy();
    let lines = server.log().lines().filter(|line| line.contains("protocol error")).count();
    assert!((1..900).contains(&lines), "{lines} lines for a thousand errors");
}

fn message_of(line: &Value) -> &str {
    line["message"].as_str().or(line["fields"]["message"].as_str()).unwrap_or("")
}

fn find<'a>(line: &'a Value, field: &str) -> Option<&'a str> {
    line[field].as_str().or(line["fields"][field].as_str())
}
