//! Chunks of several messages may alternate; each message comes out whole, when its last chunk does.

use crate::common::*;
use rtmp::RtmpError;
use rtmp::chunk::{ChunkReader, ChunkWriter, OutgoingMessage};
use rtmp::message::MessageHeader;

fn header(type_id: u8, timestamp: u32) -> MessageHeader {
    MessageHeader { type_id, stream_id: 1, timestamp, length: 0 }
}

#[test]
fn audio_passes_a_long_video_message() {
    let video: Vec<u8> = (0..100_000u32).map(|index| index as u8).collect();
    for chunk_size in [1, 128, 4096, 60_000] {
        for big_ids in [false, true] {
            let ids = if big_ids { [64, 65_599, 320] } else { [4, 5, 6] };
            let (mut out, mut writer) = (Vec::new(), ChunkWriter::new());
            writer.set_chunk_size(&mut out, chunk_size);
            let message = |index: usize, type_id, payload| OutgoingMessage {
                chunk_stream_id: ids[index],
                header: header(type_id, 0x100_0000 + index as u32),
                payload,
            };
            writer.write_interleaved(
                &mut out,
                &[message(0, 9, &video), message(1, 8, b"audio"), message(2, 18, b"")],
            );
            let messages = read_all(&mut ChunkReader::new(WIDE), &out).unwrap();
            assert_eq!(messages.len(), 3);
            let by_type =
                |type_id| messages.iter().find(|message| message.header.type_id == type_id).unwrap();
            assert!(by_type(9).payload == video);
            assert_eq!(by_type(8).payload, b"audio");
            assert_eq!(by_type(18).payload, b"");
            assert_eq!(by_type(9).header.timestamp, 0x100_0000);
            if chunk_size < 60_000 {
                assert_eq!(messages[2].header.type_id, 9, "the long one is last");
            }
        }
    }
}

#[test]
fn abort_drops_the_unfinished_message_only() {
    let mut input = header0(6, 10, 200, 9, 1);
    input.extend([1; 128]);
    input.extend(header0(4, 10, 200, 8, 1));
    input.extend([2; 128]);
    input.extend(message0(2, 0, 2, &[0, 0, 0, 6]));
    input.push(0xc4);
    input.extend([2; 72]);
    input.extend(message0(6, 20, 9, b"next"));
    let mut reader = ChunkReader::new(WIDE);
    let messages = read_all(&mut reader, &input).unwrap();
    assert_eq!(messages.len(), 2);
    assert_eq!(messages[0].payload, [2; 200]);
    assert_eq!(messages[1].payload, b"next");
}

#[test]
fn abort_of_an_unknown_or_finished_chunk_stream_does_nothing() {
    let mut input = message0(4, 0, 8, b"a");
    input.extend(message0(2, 0, 2, &[0, 0, 0, 4]));
    input.extend(message0(2, 0, 2, &[0, 0, 0, 99]));
    input.extend([0xc4, b'b']);
    assert_eq!(read_all(&mut ChunkReader::new(WIDE), &input).unwrap().len(), 2);
}

#[test]
fn a_full_header_inside_a_message_is_an_error() {
    let mut input = header0(6, 10, 200, 9, 1);
    input.extend([1; 128]);
    input.extend(header0(6, 10, 200, 9, 1));
    let result = read_all(&mut ChunkReader::new(WIDE), &input);
    assert_eq!(result, Err(RtmpError::MessageInterrupted));
}
