//! Timestamps go on across 2^24 and wrap at 2^32, whoever writes them.

use crate::common::*;
use rtmp::MediaKind;
use rtmp::chunk::{ChunkReader, ChunkWriter, write_play_message};
use rtmp::flv::{FlvReader, write_file_header, write_tag};
use rtmp::message::MessageHeader;

/// Times of a stream that crosses each border, with one step back.
const TIMES: [u32; 12] = [
    0xff_fff0,
    0xff_fffe,
    0xff_ffff,
    0x100_0000,
    0x100_0014,
    0x100_0028,
    0xffff_fff0,
    0xffff_ffff,
    0,
    40,
    20,
    60,
];

#[test]
fn the_writer_with_compressed_headers() {
    for chunk_size in [1, 50, 60_000] {
        let (mut out, mut writer) = (Vec::new(), ChunkWriter::new());
        writer.set_chunk_size(&mut out, chunk_size);
        for (index, timestamp) in TIMES.into_iter().enumerate() {
            let payload = vec![index as u8; 100];
            let header = MessageHeader { type_id: 9, stream_id: 1, timestamp, length: 0 };
            writer.write(&mut out, 6, header, &payload);
        }
        let messages = read_all(&mut ChunkReader::new(WIDE), &out).unwrap();
        let times: Vec<_> = messages.iter().map(|message| message.header.timestamp).collect();
        assert_eq!(times, TIMES, "chunk size {chunk_size}");
        assert!(
            messages.iter().enumerate().all(|(index, message)| message.payload == vec![index as u8; 100])
        );
    }
}

#[test]
fn the_writer_for_players() {
    let mut out = set_chunk_size(60_000);
    for (index, timestamp) in TIMES.into_iter().enumerate() {
        write_play_message(&mut out, MediaKind::Video, timestamp, &vec![index as u8; 130_000]);
    }
    let messages = read_all(&mut ChunkReader::new(WIDE), &out).unwrap();
    for (index, (message, timestamp)) in messages.iter().zip(TIMES).enumerate() {
        assert_eq!((message.header.timestamp, message.header.stream_id), (timestamp, 1));
        assert!(message.payload == vec![index as u8; 130_000]);
    }
    assert_eq!(messages.len(), TIMES.len());
}

#[test]
fn flv_tags() {
    let mut file = Vec::new();
    write_file_header(&mut file, false, true);
    for timestamp in TIMES {
        write_tag(&mut file, MediaKind::Video, timestamp, b"x");
    }
    let mut reader = FlvReader::new(10);
    reader.push(&file);
    let times: Vec<_> = std::iter::from_fn(|| reader.next_tag().unwrap()).map(|tag| tag.timestamp).collect();
    assert_eq!(times, TIMES);
}

/// A publisher whose deltas carry its time over 2^24 without ever sending a full header again.
#[test]
fn deltas_alone_cross_both_borders() {
    for start in [0xff_ffe0u32, 0xffff_ffe0] {
        let mut input = message0(4, start, 8, b"a");
        for _ in 0..4 {
            input.extend([0x84, 0, 0, 20, b'b']); // format 2, delta 20
        }
        input.extend([0xc4, b'c']); // format 3: the same delta
        let messages = read_all(&mut ChunkReader::new(WIDE), &input).unwrap();
        let times: Vec<_> = messages.iter().map(|message| message.header.timestamp).collect();
        assert_eq!(times, (0..6).map(|index| start.wrapping_add(index * 20)).collect::<Vec<_>>());
    }
}
