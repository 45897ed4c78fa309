//! What one token, and one address, may use together: further sessions are refused by their protocols' own
//! words, and who is there goes on.

use rtc::sdp::Direction;
use rtp::payload::Codec;
use serde_json::json;
use srt::Reject;

use crate::common::eventually;
use crate::common::flv::sample_tags;
use crate::common::http;
use crate::common::rtc::{Client, Options};
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use crate::overload::ask_rtsp;
use crate::reload::reload;
use crate::srt_hostile::{call, rejected};

const AUTH: &str = "[auth]\nplay_token = 'meadow'\npublish_token = 'sluice'\n";

/// Those that were refused.
fn refused(server: &Server, reason: &str) -> u64 {
    let text = http::get(server.http, "/metrics").expect("GET /metrics").text();
    let sample = format!("millstream_usage_refused_total{{reason=\"{reason}\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&sample)?.parse().ok()).expect("a sample")
}

fn describe(server: &Server, token: &str) -> String {
    let url = server.rtsp_url(&format!("/live/mill?token={token}"));
    ask_rtsp(server, &format!("DESCRIBE {url} RTSP/1.0\r\nCSeq: 1\r\nAccept: application/sdp\r\n\r\n"))
}

fn get(server: &Server, path: &str) -> http::Response {
    http::request(server.http, "GET", path, &[]).expect("an answer")
}

/// Answer by RTMP to who wants to play with a token.
fn play(server: &Server, token: &str) -> Result<(), String> {
    RtmpClient::begin_play(server.rtmp, &format!("live/mill?token={token}")).wait_started()
}

#[test]
fn a_token_has_so_many_sessions_whatever_their_protocols() {
    let server = Server::spawn(&format!("{AUTH}[limits]\nconnections_per_token = 1\n"));
    let tags = sample_tags();
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill?token=sluice");
    publisher.send_tags(&tags[..60]);
    let mut player = RtmpClient::play(server.rtmp, "live/mill?token=meadow");
    player.take_frames(20);

    let words = "NetConnection.Connect.Rejected: the token has as many connections as it may";
    assert_eq!(play(&server, "meadow"), Err(words.to_owned()));
    for path in ["/live/mill.flv", "/live/mill.ts"] {
        let answer = get(&server, &format!("{path}?token=meadow"));
        assert_eq!((answer.status, answer.header("retry-after")), (429, Some("2")), "{path}");
        assert_eq!(answer.json()["error"]["code"], "token_connections", "{path}");
    }
    let whep =
        Client::try_open(&server, "/whep/live/mill?token=meadow", Direction::Receive, &Options::default());
    let answer = whep.err().expect("it is refused");
    assert_eq!((answer.status, answer.header("retry-after")), (429, Some("5")), "{}", answer.text());
    assert_eq!(answer.json()["error"]["code"], "token_connections");
    let words = "RTSP/1.0 503 the token has as many connections as it may";
    assert_eq!(describe(&server, "meadow"), words);
    assert_eq!(rejected(&server, "read:live/mill?token=meadow", None), Reject::Overload.code());
    assert_eq!(refused(&server, "token_connections"), 6);
    // A token that is wrong is that, and has no place.
    assert!(play(&server, "wrong").expect_err("refused").contains("the token is not valid"));

    let outcome = RtmpClient::begin_publish(server.rtmp, "live/other?token=sluice").wait_started();
    assert!(outcome.expect_err("refused").contains("the token has as many connections as it may"));
    let whip =
        Client::try_open(&server, "/whip/live/other?token=sluice", Direction::Send, &Options::default());
    assert_eq!(whip.err().expect("it is refused").status, 429);

    publisher.send_tags(&tags[60..120]);
    player.take_frames(20);
    drop(player);
    let viewer = eventually("the place of the player is free", || {
        let options = Options { video: Some(Codec::H264), ..Options::default() };
        Client::try_open(&server, "/whep/live/mill?token=meadow", Direction::Receive, &options).ok()
    });
    assert!(play(&server, "meadow").is_err(), "a viewer by WHEP has it");
    assert_eq!(viewer.delete(), 200);
    let caller = eventually("its place is free", || call(&server, "read:live/mill?token=meadow", None).ok());
    assert!(play(&server, "meadow").is_err(), "a caller by SRT has it");
    drop(caller);

    let answer = reload(&server, &format!("{AUTH}[limits]\nconnections_per_token = 2\n"));
    assert_eq!(answer["changed"], json!(["limits.connections_per_token"]));
    eventually("there are two", || play(&server, "meadow").ok());
}

#[test]
fn a_token_connects_so_often() {
    let server = Server::start(&format!("{AUTH}[limits]\nconnects_per_second_per_token = 1\n"));
    let mut let_in = 0;
    let refusal = eventually("it is refused", || match play(&server, "meadow") {
        Ok(()) => {
            let_in += 1;
            None
        }
        Err(reason) => Some(reason),
    });
    assert_eq!(refusal, "NetConnection.Connect.Rejected: the token connects too often");
    assert!(let_in >= 2, "{let_in}");
    assert!(refused(&server, "token_rate") > 0);
    eventually("it is let in a second later", || play(&server, "meadow").ok());
}

#[test]
fn bit_rates_of_a_token_and_of_an_address_refuse_who_comes() {
    let open = "[[auth.play]]\nstream = '*'\nallow = 'anyone'\n";
    for (config, token, code) in [
        (format!("{AUTH}[limits]\nkbps_per_token = 10\n"), "?token=meadow", "token_bitrate"),
        (format!("[limits]\nkbps_per_address = 10\n{open}"), "", "address_bitrate"),
    ] {
        let server = Server::start(&config);
        let tags = sample_tags();
        let mut publisher = RtmpClient::publish(server.rtmp, "live/mill?token=sluice");
        publisher.send_tags(&tags[..60]);
        let mut player = RtmpClient::play(server.rtmp, &format!("live/mill{token}"));
        player.take_frames(20);
        let mut sent = 60;
        eventually("players are refused", || {
            publisher.send_tags(tags.iter().cycle().skip(sent).take(60));
            player.take_frames(30);
            sent += 60;
            let path = format!("/live/mill.flv{token}");
            let answer = http::open(server.http, "GET", &path, &[]).expect("an answer");
            (answer.status == 429).then_some(())
        });
        assert!(refused(&server, code) > 0, "{code}");
        // Who is there goes on.
        publisher.send_tags(tags.iter().cycle().skip(sent).take(60));
        player.take_frames(30);
    }
}
