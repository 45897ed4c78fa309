//! Signed tokens (JWT) wherever a token is taken.

use std::io::Read;

use jsonwebtoken::{EncodingKey, Header, encode};
use serde_json::json;

use crate::common::flv::{TagReader, sample_tags};
use crate::common::key_server::KeyServer;
use crate::common::rtmp::RtmpClient;
use crate::common::server::{ScratchDir, Server};
use crate::common::{eventually, http};

const SECRET: &str = "a secret that only this test and its server know";

fn config(more: &str) -> String {
    format!("[auth]\njwt_secret = '{SECRET}'\nmanage = 'token_or_loopback'\n{more}\n")
}

fn now() -> u64 {
    worker_api::time::since_1970().as_secs()
}

fn token(stream: &str, actions: &str, seconds: i64) -> String {
    let claims = json!({
        "exp": now().saturating_add_signed(seconds), "stream": [stream], "actions": actions
    });
    encode(&Header::default(), &claims, &EncodingKey::from_secret(SECRET.as_bytes()).expect("a secret"))
        .expect("a token")
}

#[test]
fn a_token_opens_what_it_names_by_every_protocol() {
    let server = Server::start(&config(""));
    let publish = |token: &str| RtmpClient::begin_publish(server.rtmp, &format!("live/mill?token={token}"));
    for (claims, remark) in [
        (token("live/mill", "play", 60), "another action"),
        (token("live/wheel", "publish", 60), "another stream"),
        (token("live/mill", "publish", -60), "an hour that has passed"),
        ("a.b.c".to_owned(), "no token"),
    ] {
        assert!(publish(&claims).wait_started().is_err(), "{remark}");
    }
    assert!(RtmpClient::begin_publish(server.rtmp, "live/mill").wait_started().is_err(), "nothing shown");
    let own = token("live/*", "publish", 60);
    let mut publisher = RtmpClient::publish(server.rtmp, &format!("live/mill?token={own}"));
    publisher.send_tags(&sample_tags()[..60]);

    let player = token("live/mill", "play", 60);
    let status = |path: &str, query: &str| {
        http::open(server.http, "GET", &format!("{path}{query}"), &[]).expect("an answer").status
    };
    let expired = token("live/mill", "play", -60);
    for path in
        ["/live/mill.flv", "/live/mill.ts", "/live/mill.m3u8", "/live/mill.mpd", "/vod/live/live/mill.m3u8"]
    {
        for (query, code, challenge) in [
            (String::new(), "token_missing", "Bearer"),
            ("?token=guess".to_owned(), "token_wrong", "Bearer error=\"invalid_token\""),
            (format!("?token={own}"), "token_action", "Bearer error=\"invalid_token\""),
            (format!("?token={expired}"), "token_expired", "Bearer error=\"invalid_token\""),
        ] {
            let refused =
                http::request(server.http, "GET", &format!("{path}{query}"), &[]).expect("an answer");
            assert_eq!(
                (refused.status, refused.header("www-authenticate")),
                (401, Some(challenge)),
                "{path}"
            );
            assert_eq!(refused.json()["error"]["code"], code, "{path}");
            assert!(!refused.text().contains(&own) && !refused.text().contains(&expired));
        }
    }
    assert_eq!(status("/live/mill.flv", &format!("?token={player}")), 200);
    let mut viewer = RtmpClient::play(server.rtmp, &format!("live/mill?token={player}"));
    publisher.send_tags(&sample_tags()[60..120]);
    viewer.take_frames(50);
    let whep = |token: &str| {
        let headers = [("Authorization", &*format!("Bearer {token}")), ("Content-Type", "application/sdp")];
        http::request(server.http, "POST", "/whep/live/mill", &headers).expect("an answer")
    };
    // The body is missing, which is looked at once who asks is let in.
    assert_eq!(whep(&player).status, 400);
    let refused = whep(&own);
    assert_eq!(refused.status, 401);
    assert_eq!(refused.json()["error"]["code"], "token_action");
    assert!(!refused.text().contains(&own));
}

#[test]
fn the_api_takes_tokens_that_allow_management() {
    let server = Server::start(&config(""));
    let answer = |token: &str| {
        let headers = [("Authorization", &*format!("Bearer {token}"))];
        http::request(server.http, "GET", "/api/v1/streams", &headers).expect("an answer")
    };
    assert_eq!(answer(&token("*", "manage", 60)).status, 200);
    for (token, code) in [
        (token("*", "publish play openid", 60), "token_action"),
        (token("*", "manage", -60), "token_expired"),
        ("e30.e30.e30".to_owned(), "token_malformed"),
        ("keeper".to_owned(), "token_wrong"),
    ] {
        let refused = answer(&token);
        assert_eq!(refused.status, 401);
        assert_eq!(refused.json()["error"]["code"], code);
    }
}

#[test]
fn sessions_end_with_their_token_where_that_is_configured() {
    let server = Server::start(&config("jwt_ends_sessions = true\njwt_leeway_seconds = 0"));
    let forever = token("live/*", "publish", 3_600);
    let mut publisher = RtmpClient::publish(server.rtmp, &format!("live/mill?token={forever}"));
    publisher.send_tags(&sample_tags()[..60]);
    let brief = token("live/mill", "play", 3);
    let path = format!("/live/mill.flv?token={brief}");
    let mut player = TagReader::new(http::open(server.http, "GET", &path, &[]).expect("an answer"));
    let mut other = RtmpClient::play(server.rtmp, &format!("live/mill?token={brief}"));
    other.take_frames(50);
    server.wait_for_players("live/mill", 2);
    while player.next().is_some() {}
    while other.next_event().is_some() {}
    server.wait_for_players("live/mill", 0);
    let metrics = http::request(server.http, "GET", "/metrics", &[]).expect("an answer").text();
    let ended = "millstream_sessions_ended_total{worker=\"0\",cause=\"token_expired\"} 2";
    assert!(metrics.contains(ended), "{metrics}");
    // The publisher's is valid.
    let again = token("live/mill", "play", 60);
    let mut again = RtmpClient::play(server.rtmp, &format!("live/mill?token={again}"));
    publisher.send_tags(&sample_tags()[60..120]);
    again.take_frames(50);
}

#[test]
fn a_download_is_broken_off_with_its_token_where_that_is_configured() {
    // Of holes; to read it takes minutes.
    const LENGTH: u64 = 1 << 40;
    let dir = ScratchDir::new();
    let file = std::fs::File::create(dir.path().join("film.mp4")).expect("a file");
    file.set_len(LENGTH).expect("a file of holes");
    let auth = config("jwt_ends_sessions = true\njwt_leeway_seconds = 0");
    let server = Server::start(&format!("{auth}[vod]\nroot = '{}'\n", dir.path().display()));
    let brief = token("vod/files/*", "play", 3);
    let path = format!("/vod/files/film.mp4?token={brief}");
    let mut download = http::open(server.http, "GET", &path, &[]).expect("an answer");
    assert_eq!(download.status, 200);
    let (mut read, mut buffer) = (0, vec![0; 64 << 10]);
    while let Ok(count @ 1..) = download.read(&mut buffer) {
        read += count as u64;
    }
    assert!(0 < read && read < LENGTH, "{read}");
    assert_eq!(http::request(server.http, "GET", &path, &[]).expect("an answer").status, 401);
}

#[test]
fn keys_are_read_from_a_server() {
    let mut keys = KeyServer::start();
    let address = keys.address;
    let server = Server::start(&format!(
        "[sources]\nallow_private_addresses = true\n[auth]\njwks_url = 'http://{address}/keys'\n\
         jwt_issuer = 'https://id.example'\njwt_audience = 'mill'\n"
    ));
    assert!(keys.take_request().starts_with("GET /keys HTTP/1.1\r\n"));
    let token = |audience: &str| {
        keys.token(&json!({
            "exp": now() + 60, "iss": "https://id.example", "aud": audience,
            "stream": "live/*", "actions": ["publish"]
        }))
    };
    let publish = |token: &str| {
        RtmpClient::begin_publish(server.rtmp, &format!("live/mill?token={token}")).wait_started()
    };
    eventually("the keys are known", || publish(&token("mill")).ok());
    assert!(publish(&token("wheel")).is_err());
}

#[test]
fn recordings_of_its_streams_are_begun_and_ended_by_who_may_record_them() {
    let directory = ScratchDir::new();
    let record = format!("[record]\ndirectory = '{}'\n", directory.path().display());
    let server = Server::start(&format!("{}{record}", config("")));
    let own = token("live/*", "publish", 60);
    let mut publisher = RtmpClient::publish(server.rtmp, &format!("live/mill?token={own}"));
    publisher.send_tags(&sample_tags()[..60]);
    let ask = |method: &str, path: &str, stream: &str, token: &str| {
        let body = json!({ "app": "live", "name": stream }).to_string();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut answer = http::send(server.http, request.as_bytes()).expect("an answer");
        let mut text = String::new();
        answer.read_to_string(&mut text).expect("text");
        let json = serde_json::from_str(&text).unwrap_or(json!(null));
        (answer.status, json["error"]["code"].as_str().unwrap_or_default().to_owned())
    };
    let all = "/api/v1/recordings";
    let begin = |token: &str| ask("POST", all, "mill", token);
    let refused = |code: &str| (401, code.to_owned());
    assert_eq!(begin(&token("live/mill", "publish play", 60)), refused("token_action"));
    assert_eq!(begin(&token("live/wheel", "record", 60)), refused("token_stream"));
    assert_eq!(begin(&token("live/mill", "record", -60)), refused("token_expired"));
    let recorder = token("live/mill", "record", 60);
    assert_eq!(begin(&recorder), (201, String::new()));
    assert_eq!(begin(&recorder), (409, "exists".to_owned()));
    // The rest of the API is closed to it.
    for (method, path) in [
        ("GET", all),
        ("GET", "/api/v1/streams"),
        ("POST", "/api/v1/pulls"),
        ("DELETE", "/api/v1/recordings/live/mill/20261127T190500.123Z.mp4"),
        ("DELETE", "/api/v1/sessions/0-1"),
    ] {
        assert_eq!(ask(method, path, "mill", &recorder), refused("token_action"), "{method} {path}");
    }
    let one = "/api/v1/recordings/live/mill";
    assert_eq!(ask("DELETE", one, "", &token("live/wheel", "record", 60)), refused("token_stream"));
    assert_eq!(ask("DELETE", one, "", &recorder), (204, String::new()));
    assert_eq!(ask("POST", all, "mill", &token("other", "manage", 60)).0, 201, "who manages may as well");
}
