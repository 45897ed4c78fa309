//! Servers that are nodes of one cluster: what is published on one is played on another.

use std::time::Duration;

use nix::sys::signal::Signal;
use rtc::sdp::Direction;
use rtmp::MediaKind;
use rtp::payload::Codec;

use crate::common::bridge::{LivePublisher, Viewed, video_sample};
use crate::common::cluster::{Cluster, play, publish_when_free, wait_for_lines};
use crate::common::eventually;
use crate::common::flv::{TagReader, is_frame, sample_tags};
use crate::common::rtc::{Client, Options};
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use crate::common::websocket::{self, Messages};

#[test]
fn frames_of_one_node_arrive_on_another_byte_for_byte() {
    let Some(cluster) = Cluster::start() else { return };
    let (a, b) = (cluster.node("a"), cluster.node("b"));
    wait_for_lines(&b, "linked to a node", 1);
    let tags = sample_tags();
    let half = tags.iter().position(|tag| tag.timestamp > 3_000).expect("a longer sample");
    let mut publisher = RtmpClient::publish(a.rtmp, "live/mill");
    publisher.send_tags(&tags[..half]);
    wait_for_lines(&a, "published in the cluster", 1);

    let mut player = play(&b);
    let first = player.next().expect("the stream");
    publisher.send_tags(&tags[half..]);
    // A player begins with headers and the newest key frame; from there on it has everything.
    let mut received = vec![first];
    let last = tags.last().expect("tags");
    while received.last().is_none_or(|tag| tag.body != last.body) {
        received.push(player.next().expect("the stream goes on"));
    }
    let received: Vec<_> = received.iter().filter(is_frame).collect();
    let published: Vec<_> = tags.iter().filter(is_frame).collect();
    let skipped = published.len() - received.len();
    assert!(published[skipped].timestamp <= 3_000, "it begins before what was sent after it came");
    for (got, want) in received.iter().zip(&published[skipped..]) {
        assert_eq!(got.kind, want.kind);
        assert_eq!(
            got.timestamp - received[0].timestamp,
            want.timestamp - published[skipped].timestamp,
            "time of a tag"
        );
        assert!(got.body == want.body, "body of a tag");
    }

    // The node that has it and the one that fetches it say so.
    let node_sessions = |server: &Server, role| server.sessions(&format!("stream=live/mill&role={role}"));
    assert_eq!(node_sessions(&a, "player")[0]["protocol"], "node");
    assert_eq!(node_sessions(&b, "publisher")[0]["protocol"], "node");
    drop(player);
    b.wait_for_publisher("live/mill", false);
    a.wait_for_players("live/mill", 0);
}

#[test]
fn a_player_that_comes_later_begins_with_a_key_frame_each_time_the_stream_is_fetched() {
    let Some(cluster) = Cluster::start() else { return };
    let (a, b) = (cluster.node("a"), cluster.node("b"));
    wait_for_lines(&b, "linked to a node", 1);
    let mut publisher = RtmpClient::publish(a.rtmp, "live/mill");
    publisher.send_tags(sample_tags().iter().filter(|tag| tag.timestamp < 1_000));
    wait_for_lines(&a, "published in the cluster", 1);
    for _ in 0..3 {
        let mut player = play(&b);
        let is_picture = |tag: &rtmp::flv::Tag| tag.kind == MediaKind::Video && is_frame(&tag);
        // Nothing is sent meanwhile: it is what the other node keeps.
        let first = std::iter::from_fn(|| player.next()).find(is_picture).expect("a picture");
        assert!(is_key_frame(&first));
        drop(player);
        b.wait_for_publisher("live/mill", false);
    }
}

#[test]
fn a_second_publisher_is_refused_on_every_node_and_told_where_the_first_is() {
    let Some(cluster) = Cluster::start() else { return };
    let (a, b) = (cluster.node("a"), cluster.node("b"));
    let publisher = RtmpClient::publish(a.rtmp, "live/mill");
    wait_for_lines(&a, "published in the cluster", 1);
    let refusal = eventually("the name is known to be taken", || {
        RtmpClient::begin_publish(b.rtmp, "live/mill").wait_started().err()
    });
    assert!(refusal.contains("another node"), "{refusal}");
    a.wait_for_publisher("live/mill", true);
    publisher.end();
    // It is free again.
    let _second = publish_when_free(&b);
    wait_for_lines(&b, "published in the cluster", 1);
}

#[test]
fn by_policy_a_publisher_takes_the_name_over_from_another_node_and_players_stay() {
    let Some(cluster) = Cluster::start() else { return };
    let config = |name| cluster.config(name, "[stream]\nsecond_publisher = \"take_over\"");
    let (a, b) = (Server::start_workers(2, &config("a")), Server::start_workers(2, &config("b")));
    wait_for_lines(&b, "linked to a node", 1);
    let tags = sample_tags();
    let mut first = RtmpClient::publish(a.rtmp, "live/mill");
    first.send_tags(&tags[..200]);
    wait_for_lines(&a, "published in the cluster", 1);
    let mut players = [play(&a), play(&b)];
    for player in &mut players {
        player.next().expect("the stream");
    }
    let mut second = RtmpClient::publish(b.rtmp, "live/mill");
    let told = first.last_words();
    assert!(told.contains("published on another node"), "{told}");
    second.send_tags(&tags);
    for player in &mut players {
        while player.next().expect("the player is not disconnected").body != tags[tags.len() - 1].body {}
    }
}

#[test]
fn players_of_all_protocols_share_one_fetch() {
    let Some(cluster) = Cluster::start() else { return };
    let (a, b) = (cluster.node("a"), cluster.node("b"));
    wait_for_lines(&b, "linked to a node", 1);
    let _publisher = LivePublisher::start(a.rtmp, "live/mill", sample_tags());
    // Some are on one worker and some on the other.
    let mut by_http: Vec<_> = (0..4).map(|_| play(&b)).collect();
    let mut by_rtmp: Vec<_> = (0..4).map(|_| RtmpClient::play(b.rtmp, "live/mill")).collect();
    let connect = || TagReader::new(Messages::new(websocket::connect(&b, "live/mill")));
    let mut by_websocket: Vec<_> = (0..4).map(|_| connect()).collect();
    let (mut viewer, mut viewed) = (Client::play_h264(&b, "live/mill"), Viewed::default());
    by_http.iter_mut().for_each(|player| _ = player.next().expect("the stream"));
    by_rtmp.iter_mut().for_each(|player| _ = player.take_frames(3));
    by_websocket.iter_mut().for_each(|player| _ = player.next().expect("the stream"));
    viewer.until("a frame and audio", |viewer| {
        viewed.take(viewer);
        viewed.key_frame && viewed.audio > 0
    });
    assert_eq!(a.sessions("stream=live/mill&role=player").len(), 1, "the node, and nobody else");
    assert_eq!(b.log().matches("fetched from another node").count(), 1);
    drop((by_http, by_rtmp, by_websocket));
    // One viewer is enough to keep it.
    b.wait_for_players("live/mill", 1);
    assert_eq!(viewer.delete(), 200);
    b.wait_for_publisher("live/mill", false);
    a.wait_for_players("live/mill", 0);
}

#[test]
fn tokens_secrets_and_media_do_not_go_through_nats() {
    let Some(cluster) = Cluster::start() else { return };
    let overheard = cluster.listen_in();
    let tokens = "linger_ms = 300\n[auth]\npublish_token = \"sluice-7351\"\nplay_token = \"meadow-9042\"";
    let (a, b) = (Server::start(&cluster.config("a", tokens)), Server::start(&cluster.config("b", tokens)));
    wait_for_lines(&b, "linked to a node", 1);
    let tags = sample_tags();
    let mut publisher = RtmpClient::publish(a.rtmp, "live/mill?token=sluice-7351");
    publisher.send_tags(&tags[..200]);
    RtmpClient::play(b.rtmp, "live/mill?token=meadow-9042").take_frames(3);
    // The stream, its codecs, and who fetches it.
    for said in [&b"s.live_2Fmill"[..], b"f.live_2Fmill.b"] {
        eventually("it was overheard", || overheard.contains(said).then_some(()));
    }
    for secret in [&b"sluice-7351"[..], b"meadow-9042", b"the secret of this cluster"] {
        assert!(!overheard.contains(secret), "{}", String::from_utf8_lossy(secret));
    }
    // Headers of codecs are described; what is inside frames is not.
    for frame in tags[..200].iter().filter(is_frame).filter(|tag| tag.body.len() >= 64) {
        assert!(!overheard.contains(&frame.body[32..64]), "of the frame at {} ms", frame.timestamp);
    }
}

#[test]
fn players_of_a_node_that_is_killed_get_the_publisher_that_comes_to_another() {
    let Some(cluster) = Cluster::start() else { return };
    let (a, b, c) = (cluster.spawn("a"), cluster.node("b"), cluster.node("c"));
    wait_for_lines(&c, "linked to a node", 2);
    let tags = sample_tags();
    let mut publisher = RtmpClient::publish(a.rtmp, "live/mill");
    publisher.send_tags(&tags[..200]);
    let mut player = play(&c);
    player.next().expect("the stream");
    drop(a);
    drop(publisher);
    let mut second = publish_when_free(&b);
    second.send_tags(&tags);
    while player.next().expect("the player is not disconnected").body != tags[tags.len() - 1].body {}
}

#[test]
fn nodes_that_do_not_belong_together_say_so_on_both_sides() {
    let Some(cluster) = Cluster::start() else { return };
    let a = cluster.node("a");
    let b = cluster.stranger("b");
    wait_for_lines(&a, "another secret (`cluster.secret_file`)", 1);
    wait_for_lines(&b, "another secret (`cluster.secret_file`)", 1);
    // A second node of a name ends with a message, before it listens for clients.
    let second = config::load(&config::Sources {
        file: Some(("second.toml".to_owned(), cluster.config("a", ""))),
        flags: [
            ("rtmp.listen", "127.0.0.1:0"),
            ("http.listen", "127.0.0.1:0"),
            ("rtc.udp_listen", ""),
            ("srt.listen", ""),
            ("rtsp.listen", ""),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned(), key.to_owned()))
        .to_vec(),
        ..config::Sources::default()
    });
    let error = millstream::Server::start(second.expect("it loads"), std::io::sink()).err();
    let error = error.expect("the name is taken");
    assert!(error.contains("another living node has the name a"), "{error}");
}

#[test]
fn a_node_that_stops_lets_its_publishers_and_players_know_and_is_forgotten_at_once() {
    let Some(cluster) = Cluster::start() else { return };
    let (a, b) = (cluster.spawn("a"), cluster.node("b"));
    wait_for_lines(&b, "linked to a node", 1);
    let tags = sample_tags();
    let mut publisher = RtmpClient::publish(a.rtmp, "live/mill");
    publisher.send_tags(&tags[..200]);
    let mut player = play(&b);
    player.next().expect("the stream");
    let mut a = a;
    a.terminate();
    assert!(a.wait_for_exit(Duration::from_secs(20)).success(), "{}", a.log());
    wait_for_lines(&b, "the node is shutting down", 1);
    // The player waits; the publisher goes to the node that is left.
    let mut second = RtmpClient::publish(b.rtmp, "live/mill");
    second.send_tags(&tags);
    while player.next().expect("the player is not disconnected").body != tags[tags.len() - 1].body {}
}

#[test]
fn packets_of_a_webrtc_publisher_reach_viewers_of_another_node() {
    let Some(cluster) = Cluster::start() else { return };
    let (a, b) = (cluster.node("a"), cluster.node("b"));
    wait_for_lines(&b, "linked to a node", 1);
    let mut publisher = Client::publish(&a, "live/cam");
    wait_for_lines(&a, "published in the cluster", 1);
    let options = Options::default();
    let mut viewers: Vec<Client> =
        (0..3).map(|_| Client::play_when_ready(&b, "live/cam", &options)).collect();
    let mut number = 0;
    for viewer in &mut viewers {
        viewer.until("audio arrives", |viewer| {
            publisher.turn();
            publisher.send_audio(number);
            number += 1;
            !viewer.media.is_empty()
        });
    }
    // It is fetched once, whatever the number of viewers, and let go after the last.
    wait_for_lines(&b, "fetched from another node", 1);
    assert_eq!(b.log().matches("fetched from another node").count(), 1);
    viewers.iter().for_each(|viewer| assert_eq!(viewer.delete(), 200));
    eventually("it is let go", || (b.api("/api/v1/streams")["streams"].as_array()?.is_empty()).then_some(()));
}

#[test]
fn a_stream_of_packets_is_played_as_frames_on_another_node() {
    let Some(cluster) = Cluster::start() else { return };
    let (a, b) = (cluster.node("a"), cluster.node("b"));
    wait_for_lines(&b, "linked to a node", 1);
    let mut publisher = Client::publish(&a, "live/mill");
    wait_for_lines(&a, "published in the cluster", 1);
    let player = std::thread::scope(|scope| {
        let player = scope.spawn(|| {
            let mut player = play(&b);
            std::iter::from_fn(|| player.next()).find(|tag| tag.kind == MediaKind::Audio)
        });
        let mut number = 0;
        while !player.is_finished() {
            publisher.turn();
            publisher.send_audio(number);
            number += 1;
        }
        player.join().expect("no panic")
    });
    assert!(player.is_some(), "audio arrives as frames");
}

#[test]
fn a_node_that_stands_still_is_given_up_and_comes_back_with_its_stream() {
    let Some(cluster) = Cluster::start() else { return };
    let (a, b) = (cluster.spawn("a"), cluster.node("b"));
    wait_for_lines(&b, "linked to a node", 1);
    let tags = sample_tags();
    let (first, rest) = tags.split_at(tags.len() / 2);
    let mut publisher = RtmpClient::publish(a.rtmp, "live/mill");
    publisher.send_tags(first);
    let mut player = play(&b);
    player.next().expect("the stream");
    a.signal(Signal::SIGSTOP);
    wait_for_lines(&b, "link lost: nothing was heard of the other node", 1);
    a.signal(Signal::SIGCONT);
    wait_for_lines(&b, "linked to a node", 2);
    publisher.send_tags(rest);
    while player.next().expect("the player is not disconnected").body != tags[tags.len() - 1].body {}
    assert_eq!(b.sessions("stream=live/mill&role=publisher").len(), 1);
}

#[test]
fn a_viewer_on_another_node_gets_a_stream_of_frames_with_its_first_answer() {
    let Some(cluster) = Cluster::start() else { return };
    let (a, b) = (cluster.node("a"), cluster.node("b"));
    wait_for_lines(&b, "linked to a node", 1);
    let _publisher = LivePublisher::start(a.rtmp, "live/mill", sample_tags());
    // What it is as packets travels with its name.
    let (mut viewer, mut viewed) = (Client::play_h264(&b, "live/mill"), Viewed::default());
    viewer.until("a frame and audio", |viewer| {
        viewed.take(viewer);
        viewed.key_frame && viewed.audio > 0
    });
}

#[test]
fn each_node_answers_viewers_by_its_own_bridges_and_as_the_home_would() {
    let Some(cluster) = Cluster::start() else { return };
    let bridges = |name, on: bool| cluster.config(name, &format!("linger_ms = 300\n[stream]\nbridge = {on}"));
    let [off, on, other] =
        [("a", false), ("b", true), ("c", true)].map(|(name, on)| Server::start(&bridges(name, on)));
    for node in [&off, &on, &other] {
        wait_for_lines(node, "linked to a node", 2);
    }
    let _of_off = LivePublisher::start(off.rtmp, "live/off", sample_tags());
    let _of_on = LivePublisher::start(on.rtmp, "live/on", sample_tags());
    let _h265 = LivePublisher::start(on.rtmp, "live/h265", video_sample("h265-b0.flv"));
    let offer = |video| Options { video: Some(video), ..Options::default() };
    // The answer, or why there is none, once what the publisher sends is known.
    let answer = |node: &Server, stream: &str, video| {
        eventually("an answer", || {
            let path = format!("/whep/live/{stream}");
            match Client::try_open(node, &path, Direction::Receive, &offer(video)) {
                Ok(_) => Some(Ok(())),
                Err(response) if matches!(response.status, 404 | 409) => None,
                Err(response) => Some(Err((response.status, response.text()))),
            }
        })
    };
    for stream in ["off", "on"] {
        let (_, reason) = answer(&off, stream, Codec::H264).expect_err("it has no bridges");
        assert!(reason.contains("bridges to WebRTC are off"), "{reason}");
        // That does not keep others from theirs.
        for node in [&on, &other] {
            assert_eq!(answer(node, stream, Codec::H264), Ok(()), "{stream}");
        }
    }
    for video in [Codec::H264, Codec::H265, Codec::Vp8] {
        assert_eq!(answer(&other, "h265", video), answer(&on, "h265", video), "{video:?}");
    }
    let (mut viewer, mut viewed) = (Client::play_h264(&other, "live/off"), Viewed::default());
    viewer.until("a frame and audio", |viewer| {
        viewed.take(viewer);
        viewed.key_frame && viewed.audio > 0
    });
    // People are shown what is published, not what is made of it.
    let codecs = |stream: &str| {
        let streams = other.api("/api/v1/cluster")["streams"].clone();
        let streams = streams.as_array().cloned().unwrap_or_default();
        streams.into_iter().find(|known| known["stream"] == stream).map(|known| known["codecs"].clone())
    };
    assert_eq!(codecs("live/off"), Some(serde_json::json!(["H.264", "AAC"])));
    assert_eq!(codecs("live/h265"), Some(serde_json::json!(["H.265"])));
}

fn is_key_frame(tag: &rtmp::flv::Tag) -> bool {
    tag.kind == MediaKind::Video && tag.body.starts_with(&[0x17, 1])
}
