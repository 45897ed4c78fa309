//! Publishers by MoQ: what they send is the stream of every other door, and who may not publish is
//! refused with a reason.

use std::sync::mpsc;
use std::time::Duration;

use media::{Frame, FrameRole};
use moq::moq_net::{self, Error, SessionError, Timescale, Timestamp, broadcast, group, track};
use moq::outgoing::Outgoing;
use rtmp::MediaKind;
use rtmp::flv::{Tag, read_frames};

use crate::common::flv::{TagReader, is_frame, sample_tags};
use crate::common::http;
use crate::common::moq::{MoqClient, runtime, soon};
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;

/// Nothing that a test sends at once is too old.
const MOQ: &str = "[moq]\nlisten = [\"127.0.0.1:0\"]\nmax_age_ms = 60000\n";

/// A broadcast that this client publishes.
struct Broadcast {
    producer: broadcast::Producer,
    outgoing: Outgoing,
    catalog: track::Producer,
    tracks: Vec<(track::Producer, Option<group::Producer>)>,
}

impl Broadcast {
    fn announce(client: &MoqClient, name: &str) -> Self {
        let producer = client.publish.create_broadcast(name).expect("a broadcast");
        let catalog = producer.create_track("catalog.json", None).expect("a track");
        producer.announce(moq_net::origin::Route::default()).expect("announced");
        Self { producer, outgoing: Outgoing::default(), catalog, tracks: Vec::new() }
    }

    fn send(&mut self, frames: &[Frame]) {
        for frame in frames {
            let Some(unit) = self.outgoing.frame(frame) else { continue };
            let known = self.tracks.iter().position(|(track, _)| track.name() == unit.track);
            let at = known.unwrap_or_else(|| {
                let info = track::Info::default()
                    .with_timescale(Timescale::MICRO)
                    .with_max_age(Duration::from_secs(60));
                let track = self.producer.create_track(unit.track, info).expect("a track");
                self.tracks.push((track, None));
                self.tracks.len() - 1
            });
            let (track, group) = &mut self.tracks[at];
            if unit.begins_group {
                if let Some(group) = group.take() {
                    group.finish().expect("finished");
                }
                *group = Some(track.append_group().expect("a group"));
            }
            let time = Timestamp::from_micros(unit.time_us).expect("a time");
            group.as_mut().expect("it has begun").write_frame(time, unit.payload).expect("written");
            if unit.ends_group {
                group.take().expect("it has begun").finish().expect("finished");
            }
        }
        if let Some(catalog) = self.outgoing.changed_catalog() {
            self.catalog.write_frame(Timestamp::ZERO, catalog.to_json()).expect("written");
        }
    }
}

fn frames(tags: &[Tag]) -> Vec<Frame> {
    tags.iter().filter_map(|tag| read_frames(tag.clone().into()).ok()).map(|(frame, _)| frame).collect()
}

/// Time of presentation in milliseconds and data, by kind.
fn shown(tags: &[Tag], kind: MediaKind) -> Vec<(i64, Vec<u8>)> {
    let tags: Vec<Tag> = tags.iter().filter(|tag| tag.kind == kind).filter(is_frame).cloned().collect();
    let frames = frames(&tags).into_iter().filter(|frame| frame.role != FrameRole::Config);
    frames.map(|frame| (frame.pts.millis(), frame.data().to_vec())).collect()
}

#[test]
fn what_is_published_by_moq_is_played_by_flv() {
    let server = Server::start(MOQ);
    let tags: Vec<Tag> = sample_tags();
    let wanted = tags.iter().filter(is_frame).count();
    let (received, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        let address = server.http;
        scope.spawn(move || {
            let response = http::open(address, "GET", "/live/cam.flv", &[]).expect("play");
            let mut reader = TagReader::new(response);
            let mut count = 0;
            while count < wanted {
                let tag = reader.next().expect("the stream goes on");
                count += usize::from(is_frame(&&tag));
                received.send(tag).expect("the test waits");
            }
        });
        server.wait_for_players("live/cam", 1);
        runtime().block_on(async {
            let client = MoqClient::connect(&server, "live").await;
            let mut broadcast = Broadcast::announce(&client, "cam");
            broadcast.send(&frames(&tags));
            let all = tokio::task::spawn_blocking(move || receive.iter().collect::<Vec<Tag>>());
            let all = soon("all frames by FLV", all).await.expect("no panic");
            for kind in [MediaKind::Video, MediaKind::Audio] {
                let (got, want) = (shown(&all, kind), shown(&tags, kind));
                assert_eq!(got.len(), want.len(), "{kind:?}");
                for (index, (got, want)) in got.iter().zip(&want).enumerate() {
                    assert!(got.1 == want.1, "{kind:?} {index}");
                }
            }
            let sessions = server.sessions("role=publisher&stream=live/cam");
            assert_eq!((sessions.len(), &sessions[0]["protocol"]), (1, &"moq".into()));
            // The stream ends with its broadcast, and the session goes on.
            broadcast.producer.close();
            drop(broadcast);
            tokio::task::spawn_blocking(move || {
                server.wait_for_publisher("live/cam", false);
                server
            })
            .await
            .expect("no panic");
        });
    });
}

/// What the server says to a client that announces this broadcast.
async fn refusal(server: &Server, path: &str, name: &str) -> Error {
    let client = MoqClient::connect(server, path).await;
    let mut broadcast = Broadcast::announce(&client, name);
    broadcast.send(&frames(&sample_tags()[..40]));
    soon("the session is refused", client.session.closed()).await
}

#[test]
fn who_may_not_publish_or_play_is_refused_with_a_reason() {
    let server = Server::start(&format!(
        "{MOQ}[auth]\npublish_token = \"sesame\"\n\
         [[auth.play]]\nstream = \"secret/*\"\ntokens = [\"meadow\"]\n\
         [[auth.play]]\nstream = \"live/*\"\nallow = \"anyone\"\n"
    ));
    runtime().block_on(async {
        for path in ["live", "live/cam", "live/cam?token=wrong"] {
            let name = if path == "live" { "cam" } else { "" };
            let error = refusal(&server, path, name).await;
            assert!(matches!(error, Error::Session(SessionError::Unauthorized)), "{path}: {error}");
        }
        // At the handshake, with its status, where the URL says all.
        for path in ["secret/cam", "secret/cam?token=wrong"] {
            let error = MoqClient::try_connect(&server, path).await.err().expect("refused");
            assert!(error.contains("401"), "{error}");
        }
        assert!(MoqClient::try_connect(&server, "live/.hidden").await.is_err());
        let error = refusal(&server, "live?token=sesame", "not valid").await;
        assert!(matches!(error, Error::Session(SessionError::ProtocolViolation)), "{error}");
        MoqClient::connect(&server, "secret/cam?token=meadow").await;
        let client = MoqClient::connect(&server, "live/cam?token=sesame").await;
        let mut broadcast = Broadcast::announce(&client, "");
        broadcast.send(&frames(&sample_tags()[..40]));
        let waits = tokio::task::spawn_blocking(move || {
            server.wait_for_publisher("live/cam", true);
            server
        });
        let server = waits.await.expect("no panic");
        // The name is taken.
        let error = refusal(&server, "live?token=sesame", "cam").await;
        assert!(matches!(error, Error::Session(SessionError::Unauthorized)), "{error}");
        server.wait_for_publisher("live/cam", true);
    });
}

#[test]
fn who_may_publish_and_not_play_publishes() {
    let server =
        Server::start(&format!("{MOQ}[auth]\npublish_token = \"sesame\"\nplay_token = \"meadow\"\n"));
    runtime().block_on(async {
        let client = MoqClient::connect(&server, "live/cam?token=sesame").await;
        let mut broadcast = Broadcast::announce(&client, "");
        broadcast.send(&frames(&sample_tags()[..40]));
        // The client goes on meanwhile.
        let waits = tokio::task::spawn_blocking(move || server.wait_for_publisher("live/cam", true));
        waits.await.expect("no panic");
    });
}

#[test]
fn a_kick_ends_the_session_at_the_client() {
    let server = Server::start(MOQ);
    let mut publisher = RtmpClient::publish(server.rtmp, "live/cam");
    publisher.send_tags(&sample_tags()[..40]);
    runtime().block_on(async {
        let client = MoqClient::connect(&server, "live/cam").await;
        let broadcast = client.broadcast("").await;
        let track = broadcast.track("catalog.json").expect("a track").subscribe(None);
        let _track = soon("the catalogue", track).await.expect("a track");
        server.wait_for_players("live/cam", 1);
        let session = server.sessions("role=player&stream=live/cam").remove(0);
        let path = format!("/api/v1/sessions/{}", session["id"].as_str().expect("an id"));
        let answer = http::request(server.http, "DELETE", &path, &[]).expect("answered");
        assert!(answer.status < 300, "{}", answer.text());
        soon("the session is over", client.session.closed()).await;
        server.wait_for_players("live/cam", 0);
    });
}
