//! Memory grows with bytes that came, not with bytes that were declared.
//!
//! A binary of its own, because it measures the memory of its process.

#[path = "rtmp/common.rs"]
mod common;

use common::*;
use rtmp::RtmpError;
use rtmp::chunk::ChunkReader;
use rtmp::server::ServerConfig;
use std::sync::{Mutex, PoisonError};

/// 16 MB declared and one byte sent, on 64 chunk streams.
fn attack() -> Vec<u8> {
    let mut input = set_chunk_size(1);
    for id in 0..64u8 {
        let header = header0(0, 0, 0xff_ffff, 9, 1);
        input.extend([0, id]); // chunk stream 64 + id
        input.extend(&header[1..]);
        input.push(7);
    }
    // Chunk stream 2 is one of the 64.
    input.truncate(input.len() - 14);
    input
}

/// By how many bytes `hold` makes the memory of this process grow, with what it returns; pages of files do
/// not count. One measurement at a time: they would see each other.
fn grown_bytes<T>(hold: impl FnOnce() -> T) -> usize {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let anonymous_bytes = || -> usize {
        let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
        let line = rollup.lines().find_map(|line| line.strip_prefix("Anonymous:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
    };
    let before = anonymous_bytes();
    let held = hold();
    let grown = anonymous_bytes().saturating_sub(before);
    drop(held);
    grown
}

#[test]
fn a_thousand_connections_that_declare_a_gigabyte_each_stay_below_50_megabytes() {
    let config = ServerConfig { max_message_bytes: 0xff_ffff, ..ServerConfig::default() };
    for piece in [1, 7, 2000] {
        let session = |_| {
            let mut session = server_after_handshake(&config);
            for piece in attack().chunks(piece) {
                session.handle_input(piece).unwrap();
            }
            assert!(session.buffered_bytes() < 40_000, "{}", session.buffered_bytes());
            session
        };
        let grown = grown_bytes(|| (0..1000).map(session).collect::<Vec<_>>());
        assert!(grown < 50_000_000, "{grown} bytes for a thousand sessions, pieces of {piece}");
    }
}

#[test]
fn the_default_limit_refuses_at_the_header() {
    let mut server = server_after_handshake(&ServerConfig::default());
    assert_eq!(server.handle_input(&header0(6, 0, (8 << 20) + 1, 9, 1)), Err(RtmpError::MessageTooLarge));
    assert_eq!(server.handle_input(&[]), Err(RtmpError::MessageTooLarge), "the session is over");
}

#[test]
fn unfinished_messages_together_are_limited_before_publish_and_wider_after() {
    let mut input = Vec::new();
    for id in 10..20 {
        input.extend(header0(id, 0, 1 << 20, 9, 1));
        input.extend([0; 10_000]);
    }
    let mut idle = server_connected(&ServerConfig::default());
    idle.handle_input(&set_chunk_size(10_000)).unwrap();
    assert_eq!(idle.handle_input(&input), Err(RtmpError::MemoryLimit));
    let mut publisher = server_publishing(&ServerConfig::default());
    publisher.handle_input(&set_chunk_size(10_000)).unwrap();
    publisher.handle_input(&input).unwrap();
    assert!((100_000..250_000).contains(&publisher.buffered_bytes()), "{}", publisher.buffered_bytes());
}

/// Room that is reserved ahead counts, too, and ends where the limit does.
#[test]
fn growing_messages_never_hold_more_than_the_limit() {
    let mut limits = WIDE;
    limits.partial_bytes = 50_000;
    let mut reader = ChunkReader::new(limits);
    read_all(&mut reader, &[header0(5, 0, 1 << 20, 9, 1), vec![0; 128]].concat()).unwrap();
    read_all(&mut reader, &[header0(6, 0, 1 << 20, 9, 1), vec![0; 128]].concat()).unwrap();
    let mut sent = [128, 128];
    let error = loop {
        let id = usize::from(sent[0] > 20_000);
        sent[id] += 128;
        match read_all(&mut reader, &[vec![0xc5 + id as u8], vec![0; 128]].concat()) {
            Ok(_) => {
                assert!(reader.buffered_bytes() <= 50_000 + 1000, "{sent:?}: {}", reader.buffered_bytes())
            }
            Err(error) => break error,
        }
    };
    assert_eq!(error, RtmpError::MemoryLimit);
    assert!(sent.iter().sum::<usize>() > 35_000, "most of the limit can be used: {sent:?}");
}

#[test]
fn finished_and_aborted_messages_give_their_memory_back() {
    let mut reader = ChunkReader::new(WIDE);
    let mut input = header0(6, 0, 1000, 9, 1);
    input.extend([0; 128]);
    read_all(&mut reader, &input).unwrap();
    let held = reader.buffered_bytes();
    read_all(&mut reader, &message0(2, 0, 2, &[0, 0, 0, 6])).unwrap();
    assert!(reader.buffered_bytes() < held - 900);
}

/// Each byte 0xc4 is a whole, empty audio message.
#[test]
fn a_flood_of_empty_messages_leaves_no_memory_behind() {
    let publisher = |_| {
        let mut publisher = server_publishing(&ServerConfig::default());
        publisher.handle_input(&message0(4, 0, 8, b"")).unwrap();
        publisher.handle_input(&[0xc4; 65_536]).unwrap();
        assert_eq!(std::iter::from_fn(|| publisher.poll_event()).count(), 65_537);
        publisher
    };
    let grown = grown_bytes(|| (0..30).map(publisher).collect::<Vec<_>>());
    assert!(grown < 30_000_000, "{grown} bytes for 30 publishers");
}

/// A load generator keeps the first bytes of media and none of the rest.
#[test]
fn kept_bytes_are_the_first_ones_and_the_rest_is_counted() {
    let mut limits = WIDE;
    limits.keep_payload_bytes = 10;
    let mut reader = ChunkReader::new(limits);
    let payload: Vec<u8> = (0..200).collect();
    let mut input = set_chunk_size(7);
    for (id, type_id) in [(6, 9), (3, 20)] {
        input.extend(header0(id, 0, 200, type_id, 1));
        for (index, piece) in payload.chunks(7).enumerate() {
            if index > 0 {
                input.push(0xc0 | id);
            }
            input.extend(piece);
        }
    }
    let messages = read_all(&mut reader, &input).unwrap();
    assert_eq!((messages[0].header.length, &messages[0].payload[..]), (200, &payload[..10]));
    assert_eq!(messages[1].payload, payload, "commands are whole");
    assert!(messages[0].payload.capacity() <= 10);
}
