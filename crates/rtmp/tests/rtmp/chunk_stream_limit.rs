//! A connection uses at most 64 chunk streams, in any of the three forms of their ids.

use crate::common::*;
use rtmp::RtmpError;
use rtmp::chunk::{CHUNK_STREAMS_MAX, ChunkReader, ChunkWriter};
use rtmp::message::MessageHeader;

#[test]
fn the_sixty_fifth_id_is_refused() {
    for first_id in [3, 60, 64, 300, 65_000] {
        let (mut out, mut writer) = (Vec::new(), ChunkWriter::new());
        let mut reader = ChunkReader::new(WIDE);
        for index in 0..CHUNK_STREAMS_MAX as u32 + 1 {
            let header = MessageHeader { type_id: 8, stream_id: 1, timestamp: 0, length: 0 };
            writer.write(&mut out, first_id + index, header, b"a");
            let result = read_all(&mut reader, &std::mem::take(&mut out));
            match index {
                0..64 => assert_eq!(result.unwrap().len(), 1),
                _ => assert_eq!(result, Err(RtmpError::TooManyChunkStreams)),
            }
        }
    }
}

#[test]
fn the_first_header_of_a_chunk_stream_must_say_the_length() {
    for format in [2u8, 3] {
        let input = [format << 6 | 5, 0, 0, 0, 0];
        let result = read_all(&mut ChunkReader::new(WIDE), &input);
        assert_eq!(result, Err(RtmpError::HeaderWithoutPrevious));
    }
    // Format 1 does; librtmp begins so at times.
    let messages = read_all(&mut ChunkReader::new(WIDE), &[0x45, 0, 0, 9, 0, 0, 1, 8, b'a']).unwrap();
    assert_eq!((messages[0].header.timestamp, messages[0].header.stream_id), (9, 0));
}
