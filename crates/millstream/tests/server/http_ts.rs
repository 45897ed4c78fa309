//! ffmpeg publishes by RTMP and plays by HTTP as MPEG-TS: every frame arrives unchanged.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::common::eventually;
use crate::common::flv::sample_tags;
use crate::common::http;
use crate::common::rtc::{Client, Options};
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use crate::common::tools::{Frames, Player, frames_with, publish, sample};
use rtc::sdp::Direction;
use rtmp::MediaKind;
use rtmp::flv::Tag;
use rtp::payload::Codec;

/// What a transport stream puts around pictures, or has in another form, is left out on both sides.
const UNITS: &str = "filter_units=remove_types=7-9";

fn source() -> Frames {
    let filter = format!("h264_mp4toannexb,{UNITS}");
    Frames { extradata: Vec::new(), ..frames_with(&sample(), &["-bsf:v", &filter]) }
}

fn play(server: &Server, stream: &str, listing: &str) -> Player {
    let url = format!("http://{}/{stream}.ts", server.http);
    let options = [&["-bsf:v", UNITS][..], &["-bsf:a", "aac_adtstoasc"]];
    Player::start_with(&url, server.dir.path().join(listing), options)
}

/// ffmpeg knows where a picture ends by the next one: it does not have the last until the stream ends.
fn assert_is_source(player: Player) {
    let (played, mut source) = (player.frames_after_end().of_transport_stream(), source());
    source.video.truncate(played.video.len().max(source.video.len() - 1));
    played.assert_same_as(&source);
}

#[test]
fn ffmpeg_plays_by_mpeg_ts_exactly_what_ffmpeg_published() {
    let server = Server::start("");
    let players = ["first", "second"].map(|listing| play(&server, "live/mill", listing));
    server.wait_for_players("live/mill", 2);
    publish(&server.rtmp_url("live/mill"), 4).finish();
    for player in players {
        assert_is_source(player);
    }
}

#[test]
fn a_player_on_another_worker_gets_the_same() {
    let server = Server::start_workers(2, "");
    let players: Vec<_> = (0..4).map(|at| play(&server, "live/mill", &format!("player-{at}"))).collect();
    server.wait_for_players("live/mill", 4);
    publish(&server.rtmp_url("live/mill"), 4).finish();
    for player in players {
        assert_is_source(player);
    }
}

#[test]
fn requests_for_a_transport_stream_are_answered_as_those_for_flv() {
    let server = Server::start("");
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(sample_tags().iter().filter(|tag| tag.timestamp < 3_000));
    eventually("the stream has a group of pictures", || {
        (server.api("/api/v1/streams/live/mill")["gop"]["frames"].as_u64()? > 20).then_some(())
    });
    let head = http::request(server.http, "HEAD", "/live/mill.ts", &[]).expect("an answer");
    assert_eq!((head.status, head.header("content-type")), (200, Some("video/mp2t")));
    let options = http::request(server.http, "OPTIONS", "/live/mill.ts", &[]).expect("an answer");
    assert_eq!(options.status, 204);
    // A late player begins with the tables and a key frame.
    let mut player = http::open(server.http, "GET", "/live/mill.ts", &[]).expect("an answer");
    assert_eq!((player.status, player.header("content-type")), (200, Some("video/mp2t")));
    let mut packets = [0; 188 * 3];
    player.read_exact(&mut packets).expect("packets");
    let (packets, _) = packets.as_chunks::<188>();
    let pids = packets.iter().map(|packet| u16::from_be_bytes([packet[1] & 0x1f, packet[2]]));
    assert_eq!(pids.collect::<Vec<_>>()[..2], [0, 0x1000]);
    let session = &server.sessions("stream=live/mill&role=player")[0];
    assert_eq!(session["protocol"], "http-ts");
}

/// By HTTP/1.0, which has no chunks.
#[test]
fn a_publisher_by_webrtc_is_played() {
    let server = Server::start("");
    // One who may send VP8 alone is refused to players at once.
    let _other = Client::publish(&server, "live/vp8");
    let refused = http::get(server.http, "/live/vp8.ts").expect("an answer");
    assert_eq!(refused.status, 406);
    assert_eq!(refused.json()["error"]["message"], "MPEG-TS cannot carry VP8");
    let options = Options { video: Some(Codec::H264), ..Options::default() };
    let mut publisher = Client::open(&server, "/whip/live/a", Direction::Send, &options);
    publisher.connect();
    let mut player = TcpStream::connect(server.http).expect("a connection");
    player.write_all(b"GET /live/a.ts HTTP/1.0\r\n\r\n").expect("a request");
    player.set_nonblocking(true).expect("a socket that does not wait");
    let (mut bytes, mut number) = (Vec::new(), 0);
    let body = eventually("packets of audio", || {
        publisher.turn();
        for _ in 0..5 {
            publisher.send_audio(number);
            number += 1;
        }
        let _ = player.read_to_end(&mut bytes);
        let head = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
        (bytes.len() - head > 40 * 188).then(|| bytes[head + 4..].to_vec())
    });
    let (packets, _) = body.as_chunks::<188>();
    assert!(packets.iter().all(|packet| packet[0] == 0x47));
    for pid in [0, 0x1000, 0x104] {
        let of_pid = |packet: &&[u8; 188]| u16::from_be_bytes([packet[1] & 0x1f, packet[2]]) == pid;
        let counters: Vec<u8> = packets.iter().filter(of_pid).map(|packet| packet[3] & 0x1f).collect();
        assert!(counters.len() > 1, "PID {pid:#x}");
        assert!(
            counters.windows(2).all(|pair| pair[1] & 15 == (pair[0] + pair[1] / 16) & 15),
            "{counters:?}"
        );
    }
}

#[test]
fn what_a_transport_stream_cannot_carry_is_refused_with_the_reason() {
    let server = Server::start("");
    let av1 = |head: u8, behind: &[u8]| Tag {
        kind: MediaKind::Video,
        timestamp: 0,
        body: [&[head][..], b"av01", behind].concat(),
    };
    let record = b"\x81\x01\x0c\x00\x0a\x0b\x00\x00\x00\x0c\xc5\x03\x69\x36\xbe\x40\x10";
    let (config, key) = (av1(0x90, record), av1(0x91, &[0x12, 0, 0x32, 1, 0]));
    // Whoever is there before the publisher learns it from the first picture.
    std::thread::scope(|scope| {
        let early = scope.spawn(|| http::get(server.http, "/live/av1.ts").expect("an answer"));
        server.wait_for_players("live/av1", 1);
        let mut publisher = RtmpClient::publish(server.rtmp, "live/av1");
        publisher.send_tags([&config, &key]);
        let early = early.join().expect("no panic");
        assert_eq!(early.status, 406);
        assert_eq!(early.json()["error"]["message"], "MPEG-TS cannot carry AV1");
        let late = http::get(server.http, "/live/av1.ts").expect("an answer");
        assert_eq!(late.status, 406);
        assert_eq!(late.json()["error"]["message"], "MPEG-TS cannot carry AV1");
        let head = http::request(server.http, "HEAD", "/live/av1.ts", &[]).expect("an answer");
        assert_eq!(head.status, 406);
        server.wait_for_counter("millstream_ts_dropped_frames_total", 1);
    });
}
