//! Enhanced RTMP (FourCC codecs, multitrack) is relayed untouched and named in the API.

use crate::common::flv::TagReader;
use crate::common::http;
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use crate::common::websocket::{self, Messages};
use rtmp::flv::Tag;
use rtmp::{MediaKind, MediaMessage};

#[test]
fn fourcc_and_multitrack_messages_arrive_byte_for_byte() {
    // Extended video header of Enhanced RTMP v1: high bit, frame type (1 key, 2 inter), packet type (0
    // sequence start, 1 coded frames with composition time, 3 without, 6 multitrack); then the FourCC.
    let hevc = |first: u8, rest: &[u8]| [&[first], b"hvc1".as_slice(), rest].concat();
    let messages: Vec<(MediaKind, u32, Vec<u8>)> = vec![
        (MediaKind::Video, 0, hevc(0x90, &[1; 40])),
        // Audio: sound format 9, packet type 0 (sequence start), 1 (coded frames); Opus.
        (
            MediaKind::Audio,
            0,
            [&[0x90], b"Opus".as_slice(), b"OpusHead\x01\x02\x38\x01\x80\xbb\0\0\0\0\0"].concat(),
        ),
        (MediaKind::Video, 0, hevc(0x91, &[0, 0, 0, 9, 9, 9, 9])),
        (MediaKind::Audio, 20, [&[0x91], b"Opus".as_slice(), &[7; 100]].concat()),
        (MediaKind::Video, 40, hevc(0xa3, &vec![5; 70_000])),
        // One track of multitrack video: packet type 6, then multitrack type 0 with packet type 3, FourCC,
        // track 1.
        (MediaKind::Video, 80, [&[0xa6, 0x03], b"av01".as_slice(), &[1], &[3; 50]].concat()),
        (MediaKind::Video, 120, hevc(0xa3, &[6; 10])),
    ];
    for workers in [1, 2] {
        let server = Server::start_workers(workers, "");
        let mut players: Vec<_> = (0..4).map(|_| RtmpClient::play(server.rtmp, "live/hevc")).collect();
        server.wait_for_players("live/hevc", 4);
        let mut publisher = RtmpClient::publish(server.rtmp, "live/hevc");
        for (kind, timestamp, body) in &messages {
            publisher.send(*kind, *timestamp, body);
        }
        for player in &mut players {
            for (index, (got, want)) in player.take_frames(messages.len()).iter().zip(&messages).enumerate() {
                assert_eq!(got.kind, want.0, "kind of message {index}");
                assert!(
                    got.payload == want.2,
                    "message {index} is {} bytes, not {}",
                    got.payload.len(),
                    want.2.len()
                );
            }
        }
        let stream = crate::common::eventually("the codecs are known", || {
            let stream = server.api("/api/v1/streams/live/hevc");
            (stream["video"].is_object() && stream["audio"].is_object()).then_some(stream)
        });
        assert_eq!(stream["video"]["codec"], "H.265");
        assert_eq!(stream["audio"]["codec"], "Opus");
    }
}

/// Two audio tracks: a player that comes later gets the configuration of both.
#[test]
fn players_that_come_later_get_the_configuration_of_each_track() {
    let config =
        |track: u8| [b"\x95\x00Opus".as_slice(), &[track], b"OpusHead\x01\x02", &[track; 9]].concat();
    let audio = |track: u8, at: u8| [b"\x95\x01Opus".as_slice(), &[track, 0xfc, at, 7]].concat();
    for workers in [1, 2] {
        let server = Server::start_workers(workers, "");
        let mut publisher = RtmpClient::publish(server.rtmp, "live/tracks");
        for track in [0, 1] {
            publisher.send(MediaKind::Audio, 0, &config(track));
        }
        publisher.send(MediaKind::Audio, 20, &audio(0, 1));
        crate::common::eventually("the audio is known", || {
            server.api("/api/v1/streams/live/tracks")["audio"].is_object().then_some(())
        });
        let mut players: Vec<_> = (0..4).map(|_| RtmpClient::play(server.rtmp, "live/tracks")).collect();
        server.wait_for_players("live/tracks", 4);
        publisher.send(MediaKind::Audio, 40, &audio(0, 2));
        for player in &mut players {
            let got: Vec<_> = player.take_frames(3).into_iter().map(|frame| frame.payload).collect();
            assert_eq!(got, [config(0), config(1), audio(0, 2)]);
        }
    }
}

/// As OBS sends them: the first audio track as in FLV 10.1, so that every player has it, the second one in
/// Enhanced RTMP; and both in one body, as other encoders do.
#[test]
fn two_audio_tracks_arrive_byte_for_byte_over_rtmp_http_flv_and_websocket_flv() {
    let group = |number: u8, at: u32| {
        let key = [b"\x17\x01\0\0\x28".as_slice(), &[number; 70_000]].concat();
        let inter = [b"\x27\x01\0\0\0".as_slice(), &[number; 3_000]].concat();
        let first = [b"\xaf\x01".as_slice(), &[number; 200]].concat();
        let second = [b"\x95\x01mp4a\x01".as_slice(), &[number; 90]].concat();
        let both = [b"\x95\x11mp4a\0\0\0\x01".as_slice(), &[number], b"\x01\0\0\x02", &[number; 2]].concat();
        [
            (MediaKind::Video, at, key),
            (MediaKind::Audio, at, first),
            (MediaKind::Audio, at + 5, second.clone()),
            (MediaKind::Video, at + 40, inter),
            (MediaKind::Audio, at + 43, both),
            (MediaKind::Audio, at + 64, second),
        ]
    };
    let configs = [
        (MediaKind::Video, 0, b"\x17\0\0\0\0avcC".to_vec()),
        (MediaKind::Audio, 0, b"\xaf\0\x11\x90".to_vec()),
        (MediaKind::Audio, 0, b"\x95\0mp4a\x01\x12\x08".to_vec()),
    ];
    let beginning = [configs.as_slice(), &group(1, 0)].concat();
    let rest = group(2, 100);
    let messages = [beginning.as_slice(), &rest].concat();
    let take = |next: &mut dyn FnMut() -> Tag| -> Vec<(MediaKind, u32, Vec<u8>)> {
        let tags = std::iter::from_fn(|| Some(next())).filter(|tag| tag.kind != MediaKind::Data);
        let tags: Vec<_> = tags.take(messages.len()).collect();
        let start = tags[0].timestamp;
        tags.into_iter().map(|tag| (tag.kind, tag.timestamp - start, tag.body)).collect()
    };
    let over_rtmp = |server: &Server| {
        let mut player = RtmpClient::play(server.rtmp, "live/tracks");
        take(&mut || {
            let MediaMessage { kind, timestamp, payload, .. } =
                player.next_media().expect("the stream goes on");
            Tag { kind, timestamp, body: payload }
        })
    };
    let over_http = |server: &Server| {
        let response = http::open(server.http, "GET", "/live/tracks.flv", &[]).expect("play");
        let mut tags = TagReader::new(response);
        take(&mut || tags.next().expect("the stream goes on"))
    };
    let over_websocket = |server: &Server| {
        let mut tags = TagReader::new(Messages::new(websocket::connect(server, "live/tracks")));
        take(&mut || tags.next().expect("the stream goes on"))
    };
    type Play<'a> = (&'a str, &'a (dyn Fn(&Server) -> Vec<(MediaKind, u32, Vec<u8>)> + Sync));
    let protocols: [Play<'_>; 3] =
        [("RTMP", &over_rtmp), ("HTTP-FLV", &over_http), ("WebSocket-FLV", &over_websocket)];
    for workers in [1, 2] {
        let server = &Server::start_workers(workers, "");
        std::thread::scope(|scope| {
            let mut players = Vec::new();
            // Several of each, so that some are on the worker that the publisher is not on.
            let mut join = |when| {
                for (protocol, play) in protocols.into_iter().cycle().take(9) {
                    players.push((protocol, when, scope.spawn(move || play(server))));
                }
                server.wait_for_players("live/tracks", players.len());
            };
            join("before the publisher");
            let mut publisher = RtmpClient::publish(server.rtmp, "live/tracks");
            for (kind, timestamp, body) in &beginning {
                publisher.send(*kind, *timestamp, body);
            }
            crate::common::eventually("the first group of pictures is cached", || {
                let frames = server.api("/api/v1/streams/live/tracks")["gop"]["frames"].as_u64()?;
                (frames >= 6).then_some(())
            });
            join("after it");
            for (kind, timestamp, body) in &rest {
                publisher.send(*kind, *timestamp, body);
            }
            for (protocol, when, player) in players {
                let got = player.join().expect("a player");
                assert!(got == messages, "{protocol}, joined {when}, {workers} workers");
            }
        });
    }
}
