//! What a player hears while it plays: pause, the server's farewell, refusals.

use crate::common::*;
use rtmp::amf0::Value;
use rtmp::client::{ClientConfig, ClientEvent};
use rtmp::server::{PlayReject, ServerConfig, ServerEvent};

#[test]
fn the_start_is_told_in_the_order_players_expect() {
    let mut server = server_connected(&ServerConfig::default());
    server.handle_input(&command("play", 0.0, &[Value::Null, "stream".into()])).unwrap();
    server.accept_play();
    let said = said(&mut server);
    assert_eq!(said[0], Said::Control(4, vec![0, 0, 0, 0, 0, 1]), "Stream Begin");
    assert_eq!(codes(&said), ["NetStream.Play.Reset", "NetStream.Play.Start"]);
    // A data message would be a track for ffmpeg, of which nothing ever follows.
    assert_eq!(said.len(), 3, "{said:?}");
}

#[test]
fn pause_and_unpause_are_answered_and_told() {
    let mut pair = Pair::play(&ClientConfig::default());
    pair.client_events.clear();
    pair.server_events.clear();
    pair.client.pause(true, 1234);
    pair.run();
    pair.client.pause(false, 1300);
    pair.run();
    assert_eq!(
        pair.server_events,
        [ServerEvent::Pause { paused: true, at_ms: 1234 }, ServerEvent::Pause { paused: false, at_ms: 1300 }]
    );
    let codes = pair.client_events.iter().map(|event| match event {
        ClientEvent::Status { code, .. } => &**code,
        event => panic!("{event:?}"),
    });
    assert_eq!(codes.collect::<Vec<_>>(), ["NetStream.Pause.Notify", "NetStream.Unpause.Notify"]);
}

#[test]
fn the_servers_farewell_ends_the_client() {
    for (mut pair, code) in [
        (Pair::play(&ClientConfig::default()), "NetStream.Play.Stop"),
        (Pair::publish(&ClientConfig::default()), "NetStream.Unpublish.Success"),
    ] {
        pair.client_events.clear();
        pair.server.close("Kicked by an operator.");
        pair.run();
        assert_eq!(pair.client_events, [ClientEvent::Ended { code: code.to_owned() }]);
        pair.client.end();
        assert!(pair.client.output().is_empty(), "there is no stream to delete");
    }
}

#[test]
fn a_seek_is_refused_and_the_stream_goes_on() {
    let mut server = server_playing(&ServerConfig::default());
    server.handle_input(&command("seek", 0.0, &[Value::Null, 10.0.into()])).unwrap();
    assert_eq!(codes(&said(&mut server)), ["NetStream.Seek.Failed"]);
    assert!(server.poll_event().is_none());
}

#[test]
fn a_refused_player_hears_why_and_may_ask_again() {
    for (reject, code) in [
        (PlayReject::StreamNotFound, "NetStream.Play.StreamNotFound"),
        (PlayReject::Unauthorized, "NetStream.Play.Failed"),
        (PlayReject::Overloaded, "NetConnection.Connect.Rejected"),
    ] {
        let mut server = server_connected(&ServerConfig::default());
        for _ in 0..2 {
            server.handle_input(&command("play", 0.0, &[Value::Null, "stream".into()])).unwrap();
            assert!(matches!(server.poll_event(), Some(ServerEvent::Play(_))));
            server.reject_play(reject, "why");
            assert_eq!(codes(&said(&mut server)), [code]);
        }
    }
}

#[test]
fn a_player_can_be_sent_to_another_server() {
    let mut server = server_connected(&ServerConfig::default());
    server.redirect_play(("rtmp://b/live", "rtmp://b/live/a"), "not asked for");
    assert!(said(&mut server).is_empty(), "nobody has asked to play");
    server.handle_input(&command("play", 0.0, &[Value::Null, "stream".into()])).unwrap();
    assert!(matches!(server.poll_event(), Some(ServerEvent::Play(_))));
    server.redirect_play(("rtmp://b/live", "rtmp://b/live/a"), "elsewhere");
    let said = said(&mut server);
    assert_eq!(codes(&said), ["NetConnection.Connect.Rejected"]);
    let values = said.iter().find_map(|said| match said {
        Said::Values(values) => values.iter().find_map(|value| value.get("ex").cloned()),
        Said::Control(..) => None,
    });
    let ex = values.expect("where to go");
    assert_eq!(ex.get("code"), Some(&Value::Number(302.0)));
    assert_eq!(ex.get("redirect"), Some(&"rtmp://b/live".into()));
    assert_eq!(ex.get("redirect2"), Some(&"rtmp://b/live/a".into()));
}

#[test]
fn a_player_session_is_small_after_trim() {
    let mut server = server_playing(&ServerConfig::default());
    server.output().clear();
    server.trim();
    assert_eq!(server.output().capacity(), 0);
    let bytes = size_of_val(&server) + server.buffered_bytes();
    assert!(bytes < 1024, "{bytes}");
}
