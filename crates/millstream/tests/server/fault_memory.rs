//! Messages that are announced and never sent must not cost what they announce.

use std::io::Write;
use std::net::TcpStream;

use crate::common::flv::sample_tags;
use crate::common::raw::{self, chunk_header};
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;

const MIB: u64 = 1 << 20;

#[test]
fn a_thousand_connections_that_announce_16_mb_on_64_chunk_streams_each() {
    const COUNT: usize = 1_000;
    let _turn = crate::common::many_descriptors(2 * COUNT as u64 + 200);
    for message_max_bytes in [16_777_215_u32, 8_388_608] {
        let mut server = Server::spawn(&format!("[limits]\nmessage_max_bytes = {message_max_bytes}\n"));
        let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
        let mut player = RtmpClient::play(server.rtmp, "live/mill");
        let tags = sample_tags();
        publisher.send_tags(&tags[..120]);
        player.take_frames(110);
        let before = server.resident_bytes();
        let mut sockets: Vec<TcpStream> = (0..COUNT).map(|_| raw::handshake(server.rtmp)).collect();
        for (index, socket) in sockets.iter_mut().enumerate() {
            // Half of them announce as strangers, half as accepted publishers.
            if index % 2 == 0 {
                let publish =
                    [raw::connect_and_create("flood"), raw::publish(format!("number-{index}"))].concat();
                socket.write_all(&publish).expect("send");
            }
            // A refusal is as good as patience: only the server's memory counts.
            let _ = socket.write_all(&one_byte_on_each_chunk_stream());
        }
        if message_max_bytes == 16_777_215 {
            crate::common::eventually("the accepted publishers are known", || {
                let listing = server.api("/api/v1/sessions?role=publisher&limit=1");
                (listing["total"].as_u64()? > 1 || server.session_count() < COUNT as u64 / 2).then_some(())
            });
        }
        publisher.send_tags(&tags[120..240]);
        player.take_frames(110);
        let grown = server.resident_bytes().saturating_sub(before);
        assert!(grown <= 50 * MIB, "{} MiB for {COUNT} connections", grown / MIB);
        server.assert_healthy();
    }
}

#[test]
fn nested_objects_of_64_connections_at_once() {
    const COUNT: usize = 64;
    const BYTES: usize = 400_000;
    let nested = [3, 0, 1, b'a'].repeat(BYTES / 4);
    // Commands, also in the AMF3 wrapper, and metadata.
    for kind in [20, 17, 18] {
        let mut server = Server::spawn("");
        let before = server.resident_bytes();
        let mut sockets: Vec<TcpStream> = (0..COUNT).map(|_| raw::handshake(server.rtmp)).collect();
        for (index, socket) in sockets.iter_mut().enumerate() {
            let publish =
                [raw::connect_and_create("flood"), raw::publish(format!("number-{index}"))].concat();
            socket.write_all(&publish).expect("send");
        }
        crate::common::eventually("all are publishers", || {
            (server.sessions("role=publisher").len() == COUNT).then_some(())
        });
        for socket in &mut sockets {
            // All but the last byte: as much as can be held at once. A refusal is an end as well.
            let _ = socket.write_all(&raw::set_chunk_size(BYTES as u32));
            let _ = socket.write_all(&chunk_header(8, 0, BYTES as u32, kind, 1));
            let _ = socket.write_all(&nested[..BYTES - 1]);
        }
        crate::common::eventually("all of it is read or refused", || {
            let publishers = server.sessions("role=publisher");
            publishers.iter().all(|one| one["bytes_in"].as_u64() >= Some(BYTES as u64)).then_some(())
        });
        let grown = server.resident_bytes().saturating_sub(before);
        assert!(grown < 16 * MIB, "{} KiB for messages of type {kind}", grown >> 10);
        server.assert_healthy();
    }
}

#[test]
fn a_publisher_may_not_hold_more_than_the_largest_message_in_parts() {
    let mut server = Server::start("[limits]\nmessage_max_bytes = 65536\n");
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send(rtmp::MediaKind::Video, 0, &vec![0x17; 60_000]);
    crate::common::eventually("a message below the limit is taken", || {
        (server.api("/api/v1/streams/live/mill")["bytes_in"].as_u64()? >= 60_000).then_some(())
    });
    publisher.send(rtmp::MediaKind::Video, 0, &vec![0x17; 70_000]);
    while publisher.next_event().is_some() {}
    crate::common::eventually("the reason is in the log", || {
        server.log().to_ascii_lowercase().contains("message").then_some(())
    });
    server.assert_healthy();
}

#[test]
fn frames_of_one_byte_do_not_cost_a_hundred() {
    let mut server = Server::spawn("");
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&sample_tags()[..60]);
    crate::common::eventually("the stream is there", || {
        (server.api("/api/v1/streams/live/mill")["gop"]["frames"].as_u64()? > 20).then_some(())
    });
    let before = server.resident_bytes();
    // A million pictures without content at one and the same time, in one group of pictures.
    let message = [chunk_header(6, 0, 5, 9, 1), vec![0x27, 1, 0, 0, 0]].concat();
    let batch = message.repeat(1_000);
    for _ in 0..1_000 {
        publisher.send_raw(&batch);
    }
    crate::common::eventually("all of it is read", || {
        (server.api("/api/v1/streams/live/mill")["bytes_in"].as_u64()? >= 5_000_000).then_some(())
    });
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown <= 40 * MIB, "{} MiB for a GOP cache of 8 MiB", grown / MIB);
    server.assert_healthy();
}

/// Chunk size 1, then one chunk of one byte on each of 64 chunk streams: 64 messages of 16 MB are in
/// progress.
fn one_byte_on_each_chunk_stream() -> Vec<u8> {
    let mut bytes = raw::set_chunk_size(1);
    for chunk_stream in 3..67 {
        bytes.extend(chunk_header(chunk_stream, 0, 0xff_ffff, 9, 1));
        bytes.push(0x17);
    }
    bytes
}
