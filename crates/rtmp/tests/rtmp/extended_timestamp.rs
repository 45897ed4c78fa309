//! Extended timestamps: in full headers, as deltas, and repeated or not in chunks of format 3.

use crate::common::*;
use rtmp::chunk::ChunkReader;

const TIME: u32 = 0x0123_4567;

/// A message of 300 bytes in three chunks, each format 3 with what `repeated` says.
fn three_chunks(first: u8, repeated: &[u8]) -> Vec<u8> {
    let payload = vec![first; 300];
    let mut input = header0(6, TIME, 300, 9, 1);
    input.extend(&payload[..128]);
    for piece in [&payload[128..256], &payload[256..]] {
        input.push(0xc6);
        input.extend(repeated);
        input.extend(piece);
    }
    input
}

#[test]
fn peers_that_repeat_it_and_peers_that_do_not_are_both_read() {
    let repeated = three_chunks(9, &TIME.to_be_bytes());
    let left_out = three_chunks(9, &[]);
    // Data that begins like the timestamp, but is not it.
    let similar = three_chunks(0x01, &[]);
    for input in [&repeated, &left_out, &similar] {
        let at_once = read_all(&mut ChunkReader::new(WIDE), input).unwrap();
        assert_eq!((at_once[0].header.timestamp, at_once[0].payload.len()), (TIME, 300));
        assert!(at_once[0].payload.iter().all(|byte| *byte == at_once[0].payload[0]));
        let mut reader = ChunkReader::new(WIDE);
        let bytewise: Vec<_> = input
            .iter()
            .flat_map(|byte| read_all(&mut reader, std::slice::from_ref(byte)).unwrap())
            .collect();
        assert_eq!(bytewise, at_once);
    }
}

/// The last chunk has 0 to 3 bytes, which are those of the timestamp; what follows shows it was data. On
/// chunk stream 0x23 the next header looks like the timestamp's second byte as well.
#[test]
fn short_data_that_looks_like_the_timestamp_is_data() {
    for (rest, next) in [(0, 4), (1, 4), (2, 4), (3, 4), (1, 0x23)] {
        let mut input = header0(6, TIME, 128 + rest, 9, 1);
        input.extend([9; 128]);
        if rest > 0 {
            input.push(0xc6);
            input.extend(&TIME.to_be_bytes()[..rest as usize]);
        }
        input.extend(message0(next, 0x7fff_0000, 8, b"audio"));
        let expected = read_all(&mut ChunkReader::new(WIDE), &input).unwrap();
        assert_eq!(expected.len(), 2, "rest {rest}");
        assert_eq!(expected[1].payload, b"audio");
        let mut reader = ChunkReader::new(WIDE);
        let bytewise: Vec<_> = input
            .iter()
            .flat_map(|byte| read_all(&mut reader, std::slice::from_ref(byte)).unwrap())
            .collect();
        assert_eq!(bytewise, expected, "rest {rest}");
    }
}

#[test]
fn a_delta_may_be_extended_too() {
    let mut input = message0(6, 1000, 9, b"a");
    input.extend([0x46, 0xff, 0xff, 0xff, 0, 0, 1, 9]); // format 1
    input.extend(0x0100_0000u32.to_be_bytes());
    input.push(b'b');
    input.extend([0xc6]); // format 3 begins a message: the same delta, repeated
    input.extend(0x0100_0000u32.to_be_bytes());
    input.push(b'c');
    let messages = read_all(&mut ChunkReader::new(WIDE), &input).unwrap();
    let times: Vec<_> = messages.iter().map(|message| message.header.timestamp).collect();
    assert_eq!(times, [1000, 0x0100_03e8, 0x0200_03e8]);
    assert_eq!(messages[2].payload, b"c");
}

/// Some write the message's own time into format 3 where the header had a delta.
#[test]
fn the_absolute_time_in_a_later_chunk_is_taken_as_the_timestamp() {
    let mut input = message0(6, 1000, 9, b"a");
    input.extend([0x46, 0xff, 0xff, 0xff, 0, 0, 200, 9]);
    input.extend(0x0100_0000u32.to_be_bytes());
    input.extend([5; 128]);
    input.push(0xc6);
    input.extend(0x0100_03e8u32.to_be_bytes());
    input.extend([5; 72]);
    let messages = read_all(&mut ChunkReader::new(WIDE), &input).unwrap();
    assert_eq!(messages[1].payload, [5; 200]);
}

#[test]
fn the_marker_value_itself_is_extended() {
    for time in [0xff_fffe, 0xff_ffff, 0x100_0000, u32::MAX] {
        let messages = read_all(&mut ChunkReader::new(WIDE), &message0(6, time, 9, b"a")).unwrap();
        assert_eq!(messages[0].header.timestamp, time);
    }
}
