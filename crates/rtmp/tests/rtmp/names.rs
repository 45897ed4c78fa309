//! Names a peer may choose, and what it is told about those it may not.

use crate::common::*;
use rtmp::RtmpError;
use rtmp::amf0::Value;
use rtmp::name::{NAME_BYTES_MAX, stream_of};
use rtmp::server::{ServerConfig, ServerEvent};

/// An AMF0 string of any bytes, UTF-8 or not.
fn raw_string(bytes: &[u8]) -> Vec<u8> {
    [&[2][..], &(bytes.len() as u16).to_be_bytes(), bytes].concat()
}

fn call(name: &str, stream: &[u8]) -> Vec<u8> {
    let payload = [amf(&[name.into(), 5.0.into(), Value::Null]), raw_string(stream)].concat();
    message0(3, 0, 20, &payload)
}

const BAD: [&[u8]; 12] = [
    b"",
    b"..",
    b"../x",
    b"a/../b",
    b"a//b",
    b"/a",
    b"a/",
    b"a\0b",
    b"a\x1b[31mb",
    b"\xff\xfe",
    b"?token=x",
    b"a\\b",
];

#[test]
fn bad_stream_names_get_a_status_and_end_the_session() {
    let long = vec![b'x'; 10_000];
    for name in BAD.into_iter().chain([&long[..], &long[..256]]) {
        for (function, code) in
            [("publish", "NetStream.Publish.BadName"), ("play", "NetStream.Play.StreamNotFound")]
        {
            let mut server = server_connected(&ServerConfig::default());
            assert_eq!(server.handle_input(&call(function, name)), Err(RtmpError::NameInvalid), "{name:?}");
            assert_eq!(codes(&said(&mut server)), [code]);
            assert!(server.poll_event().is_none());
        }
    }
}

#[test]
fn a_slash_in_a_name_makes_no_application_longer_than_others() {
    // `live` is the application.
    let names = [250, 251].map(|length| format!("{}/x", "a".repeat(length)));
    let mut server = server_connected(&ServerConfig::default());
    assert_eq!(server.handle_input(&call("play", names[0].as_bytes())), Ok(()));
    let Some(ServerEvent::Play(play)) = server.poll_event() else { panic!("no play") };
    assert_eq!(stream_of("live", &play.name).0.len(), NAME_BYTES_MAX);
    let mut server = server_connected(&ServerConfig::default());
    assert_eq!(server.handle_input(&call("play", names[1].as_bytes())), Err(RtmpError::NameInvalid));
    assert_eq!(codes(&said(&mut server)), ["NetStream.Play.StreamNotFound"]);
}

#[test]
fn bad_applications_get_an_error_and_end_the_session() {
    for app in [&b"../live"[..], b"", b"a\0", b"\xff", b"/", &[b'x'; 10_000]] {
        let mut server = server_after_handshake(&ServerConfig::default());
        let object = [&[3, 0, 3][..], b"app", &raw_string(app), &[0, 0, 9]].concat();
        let payload = [amf(&["connect".into(), 1.0.into()]), object].concat();
        assert_eq!(server.handle_input(&message0(3, 0, 20, &payload)), Err(RtmpError::NameInvalid));
        assert_eq!(codes(&said_in_chunks(&mut server, 128)), ["NetConnection.Connect.Rejected"]);
    }
}

#[test]
fn names_and_queries_arrive_apart() {
    let mut server = server_after_handshake(&ServerConfig::default());
    let object = object(&[
        ("app", "live/?token=app".into()),
        ("tcUrl", "rtmp://h/live?token=tc".into()),
        ("flashVer", "OBS".into()),
    ]);
    server.handle_input(&command("connect", 1.0, &[object])).unwrap();
    let Some(ServerEvent::Connect(connect)) = server.poll_event() else { panic!("no connect") };
    assert_eq!((&*connect.app, &*connect.query, &*connect.flash_version), ("live", "token=app", "OBS"));
    server.accept_connect();
    server.handle_input(&call("publish", b"cam/1?token=x&y=z")).unwrap();
    let Some(ServerEvent::Publish(publish)) = server.poll_event() else { panic!("no publish") };
    assert_eq!((&*publish.name, &*publish.query, &*publish.mode), ("cam/1", "token=x&y=z", ""));
}

#[test]
fn the_query_of_tc_url_stands_in_for_that_of_app() {
    let mut server = server_after_handshake(&ServerConfig::default());
    let object = object(&[("app", "live".into()), ("tcUrl", "rtmp://h/live?token=tc".into())]);
    server.handle_input(&command("connect", 1.0, &[object])).unwrap();
    let Some(ServerEvent::Connect(connect)) = server.poll_event() else { panic!("no connect") };
    assert_eq!(connect.query, "token=tc");
}

#[test]
fn play_arguments_arrive() {
    let mut server = server_connected(&ServerConfig::default());
    let arguments =
        [Value::Null, "clock?token=x".into(), Value::Number(-2000.0), Value::Number(-1.0), false.into()];
    server.handle_input(&command("play", 0.0, &arguments)).unwrap();
    let Some(ServerEvent::Play(play)) = server.poll_event() else { panic!("no play") };
    assert_eq!((&*play.name, &*play.query, play.start, play.duration), ("clock", "token=x", -2000.0, -1.0));
    server.accept_play();
    let codes = codes(&said(&mut server));
    assert_eq!(codes, ["NetStream.Play.Start"], "no reset was asked for");
}
