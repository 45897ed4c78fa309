//! Chunk streams that break the rules, or stretch them.

use std::io::Write;

use crate::common::flv::sample_tags;
use crate::common::raw::{self, chunk_header, set_chunk_size};
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;

#[test]
fn chunk_sizes_that_cannot_be_end_the_connection() {
    let mut server = Server::start("[limits]\nhandshake_timeout_ms = 600000\n");
    for (bytes, remark) in [
        (set_chunk_size(0), "zero"),
        (set_chunk_size(0x8000_0000), "2^31: the highest bit must be zero"),
        (set_chunk_size(u32::MAX), "2^32 - 1"),
        ([chunk_header(2, 0, 3, 1, 0), vec![0, 0, 128]].concat(), "a Set Chunk Size of three bytes"),
        (vec![0xc5], "a continuation of nothing"),
    ] {
        let mut socket = raw::handshake(server.rtmp);
        socket.write_all(&bytes).expect("send");
        assert!(
            raw::read_until_closed(&mut socket, crate::common::TIMEOUT).is_some(),
            "{remark}: the connection is closed"
        );
    }
    server.assert_healthy();
}

#[test]
fn more_than_64_chunk_streams_end_the_connection() {
    let mut server = Server::start("[limits]\nhandshake_timeout_ms = 600000\n");
    let mut socket = raw::handshake(server.rtmp);
    for chunk_stream in 3..200 {
        // Two bytes announced, one chunk of one byte: the message stays open, so the stream must be
        // remembered.
        let bytes = [set_chunk_size(1), chunk_header(chunk_stream, 0, 2, 9, 1), vec![0]].concat();
        if socket.write_all(&bytes).is_err() {
            break;
        }
    }
    assert!(
        raw::read_until_closed(&mut socket, crate::common::TIMEOUT).is_some(),
        "the connection is closed"
    );
    server.assert_healthy();
}

#[test]
fn chunks_of_one_byte_and_of_16_mb_carry_the_same_messages() {
    let tags = sample_tags();
    for chunk_size in [1, 2, 127, 65_535, 0xff_ffff, 0x7fff_ffff] {
        let server = Server::start("");
        let mut player = RtmpClient::play(server.rtmp, "live/mill");
        let mut publisher = RtmpClient::publish_in_chunks(server.rtmp, "live/mill", chunk_size);
        publisher.send_tags(&tags[..80]);
        let sent: Vec<_> = tags[..80].iter().filter(|tag| tag.kind != rtmp::MediaKind::Data).collect();
        for (index, (got, want)) in player.take_frames(sent.len()).iter().zip(&sent).enumerate() {
            assert!(got.payload == want.body, "message {index} with chunks of {chunk_size}");
        }
    }
}

#[test]
fn messages_interleaved_chunk_by_chunk_are_put_together_again() {
    let server = Server::start("");
    let mut player = RtmpClient::play(server.rtmp, "live/mill");
    let mut publisher = RtmpClient::publish_in_chunks(server.rtmp, "live/mill", 100);
    let video = [vec![0x17, 1, 0, 0, 0], (0..995).map(|index| index as u8).collect()].concat();
    let audio = [vec![0xaf, 1], vec![0x55; 298]].concat();
    publisher.send(rtmp::MediaKind::Video, 0, &[0x17, 0, 0, 0, 0, 1, 0x4d, 0x40, 0x1e, 0xff, 0xe0, 0, 0]);
    publisher.send(rtmp::MediaKind::Audio, 0, &[0xaf, 0, 0x12, 0x10]);
    let mut bytes = Vec::new();
    for part in 0..10 {
        if part == 0 {
            bytes.extend(chunk_header(20, 40, 1000, 9, 1));
        } else {
            bytes.push(0xc0 | 20);
        }
        bytes.extend(&video[part * 100..][..100]);
        if part < 3 {
            if part == 0 {
                bytes.extend(chunk_header(21, 40, 300, 8, 1));
            } else {
                bytes.push(0xc0 | 21);
            }
            bytes.extend(&audio[part * 100..][..100]);
        }
    }
    publisher.send_raw(&bytes);
    let frames = player.take_frames(4);
    assert!(frames[2].payload == audio, "the audio is complete first");
    assert!(frames[3].payload == video);
}

#[test]
fn a_connection_cut_after_any_byte_harms_nobody() {
    let mut server = Server::start("");
    let tags = sample_tags();
    let mut player = RtmpClient::play(server.rtmp, "live/good");
    let mut publisher = RtmpClient::publish(server.rtmp, "live/good");
    publisher.send_tags(&tags[..60]);
    let mut session = raw::connect_and_create("live");
    session.extend(raw::publish("mill"));
    session.extend(chunk_header(4, 0, 128, 9, 1));
    session.extend([0x17; 128]);
    for length in 0..session.len() {
        let mut socket = raw::handshake(server.rtmp);
        socket.write_all(&session[..length]).expect("send");
    }
    publisher.send_tags(&tags[60..120]);
    player.take_frames(110);
    server.wait_for_session_count(2);
    server.assert_healthy();
}

#[test]
fn malformed_commands_end_only_their_own_connection() {
    let mut server = Server::start("");
    let nested: Vec<u8> = b"\x03\0\x01a".repeat(2_000);
    let message = |body: &[u8]| {
        let mut bytes = set_chunk_size(65_536);
        bytes.extend(chunk_header(3, 0, body.len() as u32, 20, 0));
        bytes.extend(body);
        bytes
    };
    for (bytes, remark) in [
        (message(b"\x02\xff\xffconnect"), "a string longer than its message"),
        (
            message(&[b"\x02\0\x07connect\0\0\0\0\0\0\0\0\0".as_slice(), &nested].concat()),
            "objects 2000 deep",
        ),
        (message(b"\x0a\xff\xff\xff\xff"), "an array of 2^32 values"),
        (message(b"\x08\xff\xff\xff\xff\0\x01a"), "an ECMA array of 2^32 members"),
        (message(b"\x63"), "a type that does not exist"),
        (message(b"\x00\x7f\xf0\0\0\0\0\0\0"), "a number for a name"),
        (message(b""), "nothing"),
        (message(b"\x0c\xff\xff\xff\xff"), "a long string of 4 GB"),
    ] {
        let mut socket = raw::handshake(server.rtmp);
        socket.write_all(&bytes).expect("send");
        // Ignoring an unknown command is as correct as closing; dying is not.
        let _ = socket.write_all(&raw::connect_and_create("live"));
        let mut healthy = RtmpClient::begin_play(server.rtmp, "live/mill");
        assert!(healthy.wait_started().is_ok(), "{remark}: others are served");
    }
    server.assert_healthy();
}
