//! Video that turns out to be none for WebRTC only with its frames, which its sequence header does not tell:
//! players of audio get audio, players of video are told why not, and the bridge is one bridge all the time.

use crate::common::bridge::{
    LivePublisher, SteppedPublisher, Viewed, is_header, metric, sample_audio, video_sample, wait_for_metric,
};
use crate::common::eventually;
use crate::common::http::{self, Response};
use crate::common::rtc::{Client, Options};
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use rtc::sdp::Direction;
use rtmp::MediaKind;
use rtmp::flv::Tag;
use rtp::payload::Codec;

const STARTED: &str = "millstream_bridge_started_total";
const DIRECTION: &str = "rtmp_to_webrtc";

/// Its fifth frame after the sequence header is the last before one may need a B-frame.
const REFUSED: &str = "h264-pyramid-medium.flv";
const FRAMES_BEFORE: usize = 5;
/// After these, the server has looked at what comes out of order; there are 20 in a group.
const PICTURES_SEEN: usize = 40;

fn audio_only() -> Options {
    Options { audio_only: true, ..Options::default() }
}

fn with_h264() -> Options {
    Options { video: Some(Codec::H264), ..Options::default() }
}

/// The frames, and as much audio, in the order of their times; headers first.
fn video_and_audio() -> Vec<Tag> {
    let mut tags = video_sample(REFUSED);
    let end = tags.last().expect("frames").timestamp;
    tags.extend(sample_audio().into_iter().filter(|tag| tag.timestamp <= end));
    tags.sort_by_key(|tag| (!is_header(tag), tag.timestamp));
    tags
}

/// A publisher whose frames the server has seen, a group and a half of them.
fn publisher_with_seen_pictures(server: &Server) -> LivePublisher {
    let mut player = RtmpClient::play(server.rtmp, "live/b");
    let publisher = LivePublisher::start(server.rtmp, "live/b", video_and_audio());
    for _ in 0..PICTURES_SEEN {
        while player.next_media().expect("the stream goes on").kind != MediaKind::Video {}
    }
    let refused = Client::try_open(server, "/whep/live/b", Direction::Receive, &with_h264());
    assert_names_b_frames(&refused.err().expect("nobody who asks for video is let in"));
    publisher
}

fn assert_names_b_frames(refused: &Response) {
    assert_eq!((refused.status, refused.json()["error"]["code"].as_str()), (406, Some("not_playable")));
    assert!(refused.text().contains("B-frames"), "{}", refused.text());
}

/// Runs until so much audio has come that none of it was on its way before.
fn hear(player: &mut Client, meanwhile: &mut dyn FnMut()) {
    player.turn();
    let mut viewed = Viewed::default();
    viewed.take(player);
    viewed = Viewed::default();
    player.until("audio goes on", |player| {
        meanwhile();
        viewed.take(player);
        viewed.audio > 50
    });
    assert_eq!((viewed.frames, player.closed, &player.failed), (0, false, &None));
}

#[test]
fn a_player_of_audio_who_comes_afterwards_hears_on_the_publishers_worker() {
    let mut server = Server::start("");
    let _publisher = publisher_with_seen_pictures(&server);
    hear(&mut Client::play_when_ready(&server, "live/b", &audio_only()), &mut || {});
    wait_for_metric(&server, STARTED, DIRECTION, 1.0);
    server.assert_healthy();
}

#[test]
fn a_player_of_audio_who_comes_afterwards_hears_on_another_worker() {
    let mut server = Server::start_workers(2, "");
    let _publisher = publisher_with_seen_pictures(&server);
    let home = eventually("the publisher's worker is known", || {
        server.api("/api/v1/streams/live/b")["home_worker"].as_u64()
    });
    // A publisher gets the worker with the fewest sessions of WebRTC, of equal ones the first; a player
    // that of its stream, unless it has more than the others: the last one to come is there.
    let mut occupants: Vec<_> =
        (0..=home).map(|number| Client::publish(&server, &format!("live/{number}"))).collect();
    for occupant in occupants.drain(..home as usize) {
        assert_eq!(occupant.delete(), 200);
        eventually("it is gone", || {
            (http::get(server.http, &occupant.session).expect("a response").status == 404).then_some(())
        });
    }
    let mut player = Client::play_when_ready(&server, "live/b", &audio_only());
    hear(&mut player, &mut || {});
    let session = &server.sessions("stream=live/b&role=player")[0];
    assert_eq!(session["worker"].as_u64(), Some(1 - home), "{session}");
    wait_for_metric(&server, STARTED, DIRECTION, 1.0);
    server.assert_healthy();
}

#[test]
fn who_waits_for_pictures_is_sent_away_and_who_listens_stays() {
    for workers in [1, 2] {
        let mut server = Server::start_workers(workers, "");
        let mut publisher = SteppedPublisher::start(server.rtmp, "live/b");
        let frames = video_sample(REFUSED);
        let first_frame = frames.iter().position(|tag| tag.body.get(1) == Some(&1)).expect("frames");
        let (before, after) = frames.split_at(first_frame + FRAMES_BEFORE);
        publisher.client.send_tags(before);
        // Two of each, so that with two workers each has one of each.
        let mut listeners = [0; 2].map(|_| Client::play_when_ready(&server, "live/b", &audio_only()));
        let mut watchers = [0; 2].map(|_| Client::play_h264(&server, "live/b"));
        for player in &mut listeners {
            hear(player, &mut || publisher.turn());
        }
        for player in &mut watchers {
            let mut viewed = Viewed::default();
            player.until("the first frames", |player| {
                publisher.turn();
                viewed.take(player);
                viewed.key_frame && viewed.audio > 0
            });
        }
        publisher.client.send_tags(after);
        for player in &mut watchers {
            player.until("it is sent away", |player| {
                publisher.turn();
                player.closed
            });
        }
        let again = Client::try_open(&server, "/whep/live/b", Direction::Receive, &with_h264());
        assert_names_b_frames(&again.err().expect("nobody who asks for video is let in"));
        for player in &mut listeners {
            hear(player, &mut || publisher.turn());
        }
        wait_for_metric(&server, STARTED, DIRECTION, 1.0);
        assert_eq!(metric(&server, "millstream_bridge_running", DIRECTION), Some(1.0));
        server.assert_healthy();
    }
}
