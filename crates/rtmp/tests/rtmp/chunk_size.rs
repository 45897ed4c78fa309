//! Set Chunk Size: the ends of its range, and a change between and inside messages.

use crate::common::*;
use rtmp::RtmpError;
use rtmp::chunk::ChunkReader;

#[test]
fn the_ends_of_the_range() {
    for (size, expected) in [
        (0, Err(RtmpError::ChunkSizeZero)),
        (1, Ok(1)),
        (128, Ok(128)),
        (0x7fff_ffff, Ok(1 << 24)),
        (0x8000_0000, Err(RtmpError::ChunkSizeTooLarge)),
        (0xffff_ffff, Err(RtmpError::ChunkSizeTooLarge)),
    ] {
        let mut reader = ChunkReader::new(WIDE);
        let result = read_all(&mut reader, &set_chunk_size(size)).map(|_| reader.chunk_size());
        assert_eq!(result, expected, "{size:#x}");
    }
}

#[test]
fn size_one_makes_a_chunk_of_each_byte() {
    let mut input = set_chunk_size(1);
    input.extend(header0(4, 5, 3, 8, 1));
    input.extend([b'a', 0xc4, b'b', 0xc4, b'c']);
    let messages = read_all(&mut ChunkReader::new(WIDE), &input).unwrap();
    assert_eq!(messages[0].payload, b"abc");
}

#[test]
fn a_change_inside_a_message_holds_from_the_next_chunk() {
    let video = vec![7; 400];
    let mut input = header0(6, 0, 400, 9, 1);
    input.extend(&video[..128]);
    input.extend(set_chunk_size(200));
    input.push(0xc6);
    input.extend(&video[128..328]);
    input.extend(set_chunk_size(1000));
    input.push(0xc6);
    input.extend(&video[328..]);
    let messages = read_all(&mut ChunkReader::new(WIDE), &input).unwrap();
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].payload, video);
}

#[test]
fn a_set_chunk_size_that_is_too_short_is_an_error() {
    let result = read_all(&mut ChunkReader::new(WIDE), &message0(2, 0, 1, &[0, 0, 1]));
    assert_eq!(result, Err(RtmpError::ControlMalformed));
}
