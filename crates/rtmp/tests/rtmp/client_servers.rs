//! A client with servers that refuse, that number streams differently, or that do not know every command.

use crate::common::*;
use rtmp::MediaKind;
use rtmp::amf0::Value;
use rtmp::client::{ClientConfig, ClientEvent, ClientSession};

/// A client whose handshake is done and whose `connect` was drained.
fn connecting(publishes: bool, config: &ClientConfig) -> ClientSession {
    let mut client = match publishes {
        true => ClientSession::publish(&url(), config, 1),
        false => ClientSession::play(&url(), config, 1),
    };
    let mut hello = vec![0; 1 + 2 * 1536];
    hello[0] = 3;
    client.handle_input(&hello).unwrap();
    client.handle_input(&set_chunk_size(60_000)).unwrap();
    client.output().clear();
    client
}

fn reply(client: &mut ClientSession, name: &str, transaction: f64, value: Value) {
    client.handle_input(&command(name, transaction, &[Value::Null, value])).unwrap();
}

fn information(level: &str, code: &str) -> Value {
    object(&[("level", level.into()), ("code", code.into()), ("description", "why".into())])
}

fn rejected(code: &str) -> Option<ClientEvent> {
    Some(ClientEvent::Rejected { code: code.to_owned(), description: "why".to_owned() })
}

#[test]
fn a_refusal_at_any_step_is_told_with_its_code() {
    let mut client = connecting(true, &ClientConfig::default());
    reply(&mut client, "_error", 1.0, information("error", "NetConnection.Connect.Rejected"));
    assert_eq!(client.poll_event(), rejected("NetConnection.Connect.Rejected"));
    for (publishes, code) in [(true, "NetStream.Publish.BadName"), (false, "NetStream.Play.StreamNotFound")] {
        let mut client = connecting(publishes, &ClientConfig::default());
        reply(&mut client, "_result", 1.0, Value::Null);
        reply(&mut client, "_result", 4.0, 1.0.into());
        reply(&mut client, "onStatus", 0.0, information("error", code));
        assert_eq!(client.poll_event(), rejected(code));
        client.output().clear();
        client.send_media(MediaKind::Video, 0, b"x");
        assert!(client.output().is_empty(), "nothing is sent after a refusal");
    }
}

#[test]
fn unknown_optional_commands_and_other_stream_ids_are_no_obstacle() {
    let mut client = connecting(true, &ClientConfig::default());
    reply(&mut client, "_result", 1.0, Value::Null);
    for transaction in [2.0, 3.0] {
        reply(&mut client, "_error", transaction, information("error", "NetConnection.Call.Failed"));
    }
    reply(&mut client, "_result", 4.0, 7.0.into());
    reply(&mut client, "onStatus", 0.0, information("status", "NetStream.Publish.Start"));
    assert_eq!(client.poll_event(), Some(ClientEvent::Started));
    client.output().clear();
    client.send_media(MediaKind::Video, 0, b"x");
    assert_eq!(client.output()[8..12], [7, 0, 0, 0], "the message stream the server gave");
}

#[test]
fn a_load_generators_client_keeps_what_it_asked_for() {
    let config = ClientConfig { keep_payload_bytes: Some(4), ..ClientConfig::default() };
    let mut client = connecting(false, &config);
    reply(&mut client, "_result", 1.0, Value::Null);
    reply(&mut client, "_result", 4.0, 1.0.into());
    reply(&mut client, "onStatus", 0.0, information("status", "NetStream.Play.Start"));
    assert_eq!(client.poll_event(), Some(ClientEvent::Started));
    for (type_id, payload) in [(9, &b"video"[..]), (8, b"aac"), (18, b"\x02\x00\x0aonMetaData")] {
        client.handle_input(&message0(6, 0, type_id, payload)).unwrap();
        let Some(ClientEvent::Media(media)) = client.poll_event() else { panic!("no media") };
        assert_eq!(media.length as usize, payload.len());
        assert_eq!(media.payload, payload[..payload.len().min(4)]);
    }
}
