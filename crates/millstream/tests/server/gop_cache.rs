//! What a new player begins with: the cached group of pictures, the next key frame, or any audio frame.

use crate::common::flv::sample_tags;
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use rtmp::MediaKind;
use rtmp::flv::Tag;

#[test]
fn without_the_cache_a_player_begins_with_the_next_key_frame() {
    let server = Server::start("[stream]\ngop_cache = false\n");
    let tags = sample_tags();
    let second = second_key_frame(&tags);
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&tags[..second - 20]);
    wait_for_bytes(&server, &tags[..second - 20]);
    let mut player = RtmpClient::play(server.rtmp, "live/mill");
    server.wait_for_players("live/mill", 1);
    publisher.send_tags(&tags[second - 20..second + 40]);
    let frames = player.take_frames(10);
    let key = frames.iter().find(|frame| frame.payload.starts_with(&[0x17, 1])).expect("a key frame");
    assert!(key.payload == tags[second].body, "the second key frame, not the first");
    assert!(!frames.iter().any(|frame| frame.payload.starts_with(&[0x27])) || frames[0].payload.len() < 100);
}

#[test]
fn a_group_that_outgrows_the_cache_is_not_offered() {
    let server = Server::start("[stream]\ngop_cache_max_bytes = 60000\n");
    let tags = sample_tags();
    let second = second_key_frame(&tags);
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&tags[..second - 20]);
    wait_for_bytes(&server, &tags[..second - 20]);
    assert_eq!(server.api("/api/v1/streams/live/mill")["gop"]["frames"], 0, "given up");
    let mut player = RtmpClient::play(server.rtmp, "live/mill");
    server.wait_for_players("live/mill", 1);
    publisher.send_tags(&tags[second - 20..second + 40]);
    let key = player.take_frames(10).into_iter().find(|frame| frame.payload.starts_with(&[0x17, 1]));
    assert!(key.expect("a key frame").payload == tags[second].body, "the second key frame, not the first");
}

#[test]
fn a_stream_without_video_begins_with_any_sound() {
    let server = Server::start("");
    let tags: Vec<Tag> = sample_tags().into_iter().filter(|tag| tag.kind == MediaKind::Audio).collect();
    let mut publisher = RtmpClient::publish(server.rtmp, "live/radio");
    publisher.send_tags(&tags[..100]);
    wait_for_bytes_of(&server, "live/radio", &tags[..100]);
    let mut rtmp = RtmpClient::play(server.rtmp, "live/radio");
    server.wait_for_players("live/radio", 1);
    publisher.send_tags(&tags[100..101]);
    let frames = rtmp.take_frames(2);
    assert!(frames[0].payload == tags[0].body, "the AAC configuration first");
    let at = tags.iter().position(|tag| tag.body == frames[1].payload).expect("a frame of the source");
    assert!(at >= 99, "audio of now (frame {at}), not of the beginning");
    publisher.send_tags(&tags[101..150]);
    let rest = rtmp.take_frames(149 - at);
    assert!(rest.iter().zip(&tags[at + 1..]).all(|(got, want)| got.payload == want.body), "without a gap");
}

#[test]
fn repeated_configuration_is_not_repeated_to_players() {
    let server = Server::start("");
    let tags = sample_tags();
    let configuration: Vec<&Tag> = tags[..3].iter().collect();
    let mut player = RtmpClient::play(server.rtmp, "live/mill");
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&tags[..40]);
    publisher.send_tags(configuration);
    publisher.send_tags(&tags[40..80]);
    let sent: Vec<&Tag> = tags[..80].iter().filter(|tag| tag.kind != MediaKind::Data).collect();
    for (got, want) in player.take_frames(sent.len()).iter().zip(sent) {
        assert!(got.payload == want.body);
    }
}

fn second_key_frame(tags: &[Tag]) -> usize {
    let keys = tags.iter().enumerate().filter(|(_, tag)| tag.body.starts_with(&[0x17, 1]));
    keys.map(|(index, _)| index).nth(1).expect("two key frames")
}

fn wait_for_bytes(server: &Server, tags: &[Tag]) {
    wait_for_bytes_of(server, "live/mill", tags);
}

fn wait_for_bytes_of(server: &Server, stream: &str, tags: &[Tag]) {
    let media = tags.iter().filter(|tag| tag.kind != MediaKind::Data);
    let sent: u64 = media.map(|tag| tag.body.len() as u64).sum();
    crate::common::eventually("the server has read what was published", || {
        (server.api(&format!("/api/v1/streams/{stream}"))["bytes_in"].as_u64()? >= sent).then_some(())
    });
}
