//! `GET /api/v1/stats`: one message in the form that was asked for, with the figures that the rest of the API
//! has.

use crate::common::flv::sample_tags;
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use crate::common::{eventually, http, openapi, stats};
use serde_json::{Value, json};

#[test]
fn the_form_is_what_accept_asks_for() {
    let server = Server::start("");
    let _player = RtmpClient::play(server.rtmp, "live/mill");
    server.wait_for_players("live/mill", 1);
    for (accept, status, media_type) in [
        (None, 200, "application/vnd.msgpack"),
        (Some("*/*"), 200, "application/vnd.msgpack"),
        (Some("application/msgpack"), 200, "application/msgpack"),
        (Some("application/vnd.msgpack, application/msgpack"), 200, "application/vnd.msgpack"),
        (Some("application/json"), 200, "application/json"),
        (Some("text/csv"), 406, "application/json"),
    ] {
        let headers: Vec<_> = accept.map(|accept| ("Accept", accept)).into_iter().collect();
        let answer = http::request(server.http, "GET", "/api/v1/stats", &headers).expect("an answer");
        assert_eq!((answer.status, answer.header("content-type")), (status, Some(media_type)), "{accept:?}");
        let message =
            if media_type == "application/json" { answer.json() } else { stats::decode(&answer.body) };
        let expected = if status == 200 { &message["version"] } else { &message["error"]["code"] };
        assert!(*expected == json!(1) || *expected == json!("not_acceptable"), "{accept:?}: {message}");
    }
}

#[test]
fn figures_are_those_of_the_other_requests() {
    let server = Server::start_workers(2, "");
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    let mut player = RtmpClient::play(server.rtmp, "live/mill");
    let _waiting = RtmpClient::play(server.rtmp, "live/nobody");
    server.wait_for_players("live/mill", 1);
    server.wait_for_players("live/nobody", 1);
    publisher.send_tags(&sample_tags()[..60]);
    player.take_frames(50);
    let flv = http::open(server.http, "GET", "/live/mill.flv", &[("User-Agent", "tests")]).expect("play");
    server.wait_for_players("live/mill", 2);
    // Nothing is sent any more: what both requests say stands still.
    let message = eventually("a message with all of it", || {
        let message = json_message(&server);
        let ids: Vec<String> = server.sessions("").iter().map(|session| text(&session["id"])).collect();
        let all_known = ids.iter().all(|id| stats::session(&message, id).is_some());
        let sent = stats::stream(&message, "live/mill")?["bits_in_per_second"].as_u64()?;
        // The connection of a request that has just been answered counts until the worker has seen its end.
        let counts = message["workers"]["sessions"].as_array()?.iter();
        let counted: Option<u64> = counts.map(Value::as_u64).sum();
        (all_known && ids.len() == 4 && sent == 0 && counted == Some(4)).then_some(message)
    });
    for listed in server.sessions("") {
        let id = text(&listed["id"]);
        let session = stats::session(&message, &id).unwrap_or_else(|| panic!("{id} is in {message}"));
        let role = ["pending", "publisher", "player"][session["role"].as_u64().expect("a role") as usize];
        assert_eq!(listed["role"], role, "{id}");
        assert_eq!(
            listed["protocol"],
            message["protocols"][session["protocol"].as_u64().expect("one") as usize]
        );
        let stream = &message["streams"]["name"][session["stream"].as_u64().expect("a stream") as usize];
        assert_eq!(listed["stream"], *stream, "{id}");
        for (key, same) in [("queue_bytes", "queue_bytes"), ("dropped_frames", "dropped_frames")] {
            assert_eq!(session[key], listed[same], "{key} of {id}");
        }
        assert!(
            [&session["rtt_ms"], &session["jitter_ms"], &session["loss_percent"]]
                .iter()
                .all(|value| value.is_null())
        );
        let packets = session["packets"].as_u64().expect("packets");
        let of_stream = *stream == "live/mill";
        assert_eq!(packets >= 50, of_stream, "{id} of {stream} had {packets} messages");
    }
    let mill = stats::stream(&message, "live/mill").expect("the stream");
    let home = server.api("/api/v1/streams/live/mill")["home_worker"].clone();
    assert_eq!(
        (&mill["live"], &mill["players"], &mill["publisher_worker"]),
        (&json!(true), &json!(2), &home)
    );
    let nobody = stats::stream(&message, "live/nobody").expect("the stream");
    assert_eq!(
        (&nobody["live"], &nobody["players"], &nobody["publisher_worker"]),
        (&json!(false), &json!(1), &json!(-1))
    );
    assert_eq!(message["workers"]["index"], json!([0, 1]));
    drop(flv);
}

#[test]
fn the_message_has_the_documented_shape_and_both_forms_the_same_content() {
    let server = Server::start("");
    let _player = RtmpClient::play(server.rtmp, "live/mill");
    server.wait_for_players("live/mill", 1);
    eventually("both forms of one message", || {
        let json = json_message(&server);
        let answer = http::get(server.http, "/api/v1/stats").expect("an answer");
        let messagepack = stats::decode(&answer.body);
        (json["sequence"] == messagepack["sequence"]).then(|| assert_eq!(single(json), single(messagepack)))
    });
    let document = server.api("/api/v1/openapi.json");
    let mut message = json_message(&server);
    let schema = &document["components"]["schemas"]["Sessions"]["properties"];
    // OpenAPI has no word for a number that may be null in JSON only.
    for column in ["loss_percent", "rtt_ms", "jitter_ms"] {
        assert_eq!(schema[column]["items"]["type"], "number", "{schema}");
        message["sessions"][column]
            .as_array_mut()
            .expect("a column")
            .iter_mut()
            .for_each(|value| *value = json!(0.5));
    }
    let found = openapi::departures(&document, "/api/v1/stats", &message);
    assert!(found.is_empty(), "{}", found.join("\n  "));
}

#[test]
fn sessions_can_be_asked_for_by_id() {
    let server = Server::start_workers(2, "");
    let _players: Vec<_> = (0..5).map(|_| RtmpClient::play(server.rtmp, "live/mill")).collect();
    server.wait_for_players("live/mill", 5);
    let all: Vec<String> = server.sessions("").iter().map(|session| text(&session["id"])).collect();
    let wanted = [&all[3], &all[1], &all[4]];
    let path = format!("/api/v1/sessions?ids={},{},{},1-999,77-1", wanted[0], wanted[1], wanted[2]);
    let page = server.api(&path);
    let mut found: Vec<String> =
        page["sessions"].as_array().expect("a list").iter().map(|session| text(&session["id"])).collect();
    let mut expected: Vec<String> = wanted.into_iter().cloned().collect();
    found.sort();
    expected.sort();
    assert_eq!((found, &page["total"]), (expected, &json!(3)), "the others do not exist");
    assert_eq!(server.api(&format!("{path}&role=publisher"))["total"], 0, "other filters still count");
    assert_eq!(server.api("/api/v1/sessions?ids=")["total"], 0, "none are wanted");
    let many = (1..=201).map(|serial| format!("0-{serial}")).collect::<Vec<_>>().join(",");
    for ids in ["x", "1-", "0-1;0-2", many.as_str()] {
        let answer = http::get(server.http, &format!("/api/v1/sessions?ids={ids}")).expect("an answer");
        assert_eq!((answer.status, &answer.json()["error"]["code"]), (400, &json!("bad_request")), "{ids}");
    }
}

fn json_message(server: &Server) -> Value {
    let headers = [("Accept", "application/json")];
    http::request(server.http, "GET", "/api/v1/stats", &headers).expect("an answer").json()
}

fn text(value: &Value) -> String {
    value.as_str().expect("text").to_owned()
}

/// The same with all fractions as the `f32` they are: JSON has the shortest text of one, MessagePack its
/// exact value.
fn single(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => json!(number.as_f64().expect("a float") as f32),
        Value::Array(elements) => elements.into_iter().map(single).collect(),
        Value::Object(map) => map.into_iter().map(|(key, value)| (key, single(value))).collect(),
        other => other,
    }
}
