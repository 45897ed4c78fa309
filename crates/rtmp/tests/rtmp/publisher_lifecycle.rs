//! A publisher's session: refusals, media too early and too late, a second publish, the encoders' commands.

use crate::common::*;
use rtmp::MediaKind;
use rtmp::RtmpError;
use rtmp::amf0::Value;
use rtmp::server::{PublishReject, ServerConfig, ServerEvent};

fn publish() -> Vec<u8> {
    command("publish", 5.0, &[Value::Null, "stream".into(), "live".into()])
}

fn media_times(server: &mut rtmp::server::ServerSession) -> Vec<u32> {
    std::iter::from_fn(|| server.poll_event())
        .filter_map(|event| match event {
            ServerEvent::Media(media) => Some(media.timestamp),
            _ => None,
        })
        .collect()
}

#[test]
fn media_behind_publish_waits_for_the_answer() {
    let mut server = server_connected(&ServerConfig::default());
    let input =
        [message0(6, 1, 9, b"before"), publish(), message0(6, 2, 9, b"x"), message0(4, 3, 8, b"y")].concat();
    server.handle_input(&input).unwrap();
    assert!(matches!(server.poll_event(), Some(ServerEvent::Publish(_))));
    assert!(server.poll_event().is_none());
    let waiting = server.buffered_bytes();
    server.accept_publish();
    assert!(server.buffered_bytes() < waiting);
    assert_eq!(media_times(&mut server), [2, 3], "what came before publish is dropped");
    server.handle_input(&message0(6, 4, 9, b"z")).unwrap();
    assert_eq!(media_times(&mut server), [4]);
}

#[test]
fn a_whole_session_may_arrive_in_one_piece() {
    let mut server = server_after_handshake(&ServerConfig::default());
    let connect = command("connect", 1.0, &[object(&[("app", "live".into())])]);
    let create = command("createStream", 2.0, &[Value::Null]);
    let delete = command("deleteStream", 0.0, &[Value::Null, 1.0.into()]);
    server.handle_input(&[connect, create, publish(), message0(6, 2, 9, b"x"), delete].concat()).unwrap();
    assert!(matches!(server.poll_event(), Some(ServerEvent::Connect(_))));
    assert!(server.output().is_empty(), "nothing is answered before connect is");
    server.accept_connect();
    assert!(matches!(server.poll_event(), Some(ServerEvent::Publish(_))));
    server.accept_publish();
    assert!(matches!(server.poll_event(), Some(ServerEvent::Media(_))));
    assert_eq!(server.poll_event(), Some(ServerEvent::StreamEnded));
    assert_eq!(server.poll_event(), None);
}

#[test]
fn waiting_media_is_limited() {
    let mut server = server_connected(&ServerConfig::default());
    server.handle_input(&publish()).unwrap();
    let message = message0(6, 0, 9, &[0; 10_000]);
    let results: Vec<_> = (0..7).map(|_| server.handle_input(&message)).collect();
    assert_eq!(results[5], Ok(()));
    assert_eq!(results[6], Err(RtmpError::MemoryLimit));
}

#[test]
fn a_bad_message_that_waited_ends_the_session_when_its_turn_comes() {
    let mut server = server_connected(&ServerConfig::default());
    server.handle_input(&[publish(), message0(3, 0, 20, &[0])].concat()).unwrap();
    server.accept_publish();
    assert_eq!(server.failure(), Some(RtmpError::AmfMalformed));
    assert_eq!(server.handle_input(b"more"), Err(RtmpError::AmfMalformed));
}

#[test]
fn a_refused_publisher_hears_why_and_its_media_is_dropped() {
    for (reject, code) in [
        (PublishReject::BadName, "NetStream.Publish.BadName"),
        (PublishReject::Unauthorized, "NetStream.Publish.Unauthorized"),
    ] {
        let mut server = server_connected(&ServerConfig::default());
        server.handle_input(&[publish(), message0(6, 2, 9, b"x")].concat()).unwrap();
        server.reject_publish(reject, "why");
        assert_eq!(codes(&said(&mut server)), [code]);
        assert_eq!(media_times(&mut server), Vec::<u32>::new());
        server.handle_input(&publish()).unwrap();
        assert!(matches!(server.poll_event(), Some(ServerEvent::Publish(_))), "it may ask again");
    }
}

#[test]
fn a_second_stream_on_the_session_is_refused_and_the_first_goes_on() {
    let play = command("play", 0.0, &[Value::Null, "stream".into()]);
    for mut server in [server_publishing(&ServerConfig::default()), server_playing(&ServerConfig::default())]
    {
        server.handle_input(&publish()).unwrap();
        server.handle_input(&play).unwrap();
        assert_eq!(codes(&said(&mut server)), ["NetStream.Publish.BadName", "NetStream.Play.Failed"]);
        assert_eq!(server.poll_event(), None);
    }
    let mut server = server_publishing(&ServerConfig::default());
    server.handle_input(&publish()).unwrap();
    server.handle_input(&message0(6, 9, 9, b"x")).unwrap();
    assert_eq!(media_times(&mut server), [9]);
}

#[test]
fn data_loses_its_wrappers_and_aggregates_come_apart() {
    let metadata = b"\x02\x00\x0aonMetaData\x05";
    let set_data_frame = [&b"\x02\x00\x0d@setDataFrame"[..], metadata].concat();
    let mut server = server_publishing(&ServerConfig::default());
    server.handle_input(&message0(5, 7, 18, &set_data_frame)).unwrap();
    server.handle_input(&message0(5, 7, 15, &[&[0][..], &set_data_frame].concat())).unwrap();
    server.handle_input(&message0(5, 7, 18, metadata)).unwrap();
    for _ in 0..3 {
        let Some(ServerEvent::Media(media)) = server.poll_event() else { panic!("no media") };
        assert_eq!((media.kind, &media.payload[..], media.length), (MediaKind::Data, &metadata[..], 14));
    }
    let part = |kind: u8, time: u8, body: &[u8]| {
        let head = [kind, 0, 0, body.len() as u8, 0, 0, time, 0, 0, 0, 0];
        [&head[..], body, &(11 + body.len() as u32).to_be_bytes()].concat()
    };
    let parts =
        [part(9, 100, b"video"), part(8, 120, b"audio"), part(4, 121, b"what"), part(8, 140, b"")].concat();
    server.handle_input(&message0(6, 5000, 22, &parts)).unwrap();
    assert_eq!(media_times(&mut server), [5000, 5020, 5040]);
    for length in 1..parts.len() {
        let mut server = server_publishing(&ServerConfig::default());
        let result = server.handle_input(&message0(6, 5000, 22, &parts[..length]));
        assert!(matches!(result, Ok(()) | Err(RtmpError::AggregateMalformed)));
    }
}

#[test]
fn the_commands_of_encoders_are_answered() {
    let mut server = server_connected(&ServerConfig::default());
    for (name, transaction, answer) in [
        ("releaseStream", 2.0, Some(("_result", Value::Undefined))),
        ("FCPublish", 3.0, Some(("_result", Value::Undefined))),
        ("createStream", 4.0, Some(("_result", Value::Number(1.0)))),
        ("createStream", 5.0, Some(("_result", Value::Number(1.0)))),
        ("getStreamLength", 6.0, Some(("_result", Value::Number(0.0)))),
        ("_checkbw", 7.0, Some(("_result", Value::Undefined))),
        ("receiveAudio", 0.0, None),
        ("onStatus", 0.0, None),
        ("closeStream", 0.0, None),
        ("deleteStream", 0.0, None),
        ("myFunction", 0.0, None),
    ] {
        server.handle_input(&command(name, transaction, &[Value::Null, "stream".into()])).unwrap();
        let expected = answer
            .map(|(reply, value)| Said::Values(vec![reply.into(), transaction.into(), Value::Null, value]));
        assert_eq!(said(&mut server), expected.into_iter().collect::<Vec<_>>(), "{name}");
    }
    server.handle_input(&command("myFunction", 9.0, &[Value::Null])).unwrap();
    assert_eq!(codes(&said(&mut server)), ["NetConnection.Call.Failed"]);
    server.handle_input(&command("FCSubscribe", 0.0, &[Value::Null, "stream".into()])).unwrap();
    assert_eq!(codes(&said(&mut server)), ["NetStream.Play.Start"]);
    assert_eq!(server.poll_event(), None);
}

#[test]
fn amf3_wrapped_commands_are_read() {
    let mut server = server_after_handshake(&ServerConfig::default());
    let payload = amf(&[
        "connect".into(),
        1.0.into(),
        object(&[("app", "live".into()), ("objectEncoding", 3.0.into())]),
    ]);
    server.handle_input(&message0(3, 0, 17, &[vec![0], payload].concat())).unwrap();
    let Some(ServerEvent::Connect(connect)) = server.poll_event() else { panic!("no connect") };
    assert_eq!(connect.app, "live");
    server.accept_connect();
    let said = said(&mut server);
    let Some(Said::Values(result)) = said.iter().find(|said| matches!(said, Said::Values(_))) else {
        panic!()
    };
    assert_eq!(result[3].get("objectEncoding"), Some(&Value::Number(3.0)));
    assert!(
        result[3].get("capsEx").is_none(),
        "a client that said nothing of Enhanced RTMP hears nothing of it"
    );
}

#[test]
fn commands_out_of_order_end_the_session() {
    let mut server = server_after_handshake(&ServerConfig::default());
    assert_eq!(server.handle_input(&publish()), Err(RtmpError::CommandOutOfOrder));
    let mut server = server_connected(&ServerConfig::default());
    let connect = command("connect", 1.0, &[object(&[("app", "live".into())])]);
    assert_eq!(server.handle_input(&connect), Err(RtmpError::CommandOutOfOrder));
}

#[test]
fn a_refused_application_ends_in_an_error_and_silence() {
    let mut server = server_after_handshake(&ServerConfig::default());
    let connect = command("connect", 1.0, &[object(&[("app", "live".into())])]);
    server.handle_input(&[connect, publish()].concat()).unwrap();
    server.close("No such application.");
    assert_eq!(codes(&said(&mut server)), ["NetConnection.Connect.Rejected"]);
    server.handle_input(&publish()).unwrap();
    assert!(server.output().is_empty());
    assert!(matches!(server.poll_event(), Some(ServerEvent::Connect(_))));
    assert_eq!(server.poll_event(), None);
}
