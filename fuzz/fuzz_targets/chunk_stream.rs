//! Chunk stream: no input panics, memory stays within its limit, and where the input is cut changes nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use live::rtmp::RtmpError;
use live::rtmp::chunk::{ChunkReader, ReaderLimits};
use live::rtmp::message::Message;

const LIMITS: ReaderLimits =
    ReaderLimits { message_bytes: 1 << 20, partial_bytes: 64 << 10, keep_payload_bytes: u32::MAX };

/// States of 64 chunk streams with room to grow, beside the bytes of unfinished messages.
const STATES_BYTES_MAX: usize = 128 * 128;

fuzz_target!(|data: &[u8]| {
    let Some((&step, data)) = data.split_first() else { return };
    let whole = read(data, data.len().max(1));
    let pieces = read(data, usize::from(step).max(1));
    assert_eq!(whole, pieces);
});

/// Reads in pieces of `step` bytes.
fn read(data: &[u8], step: usize) -> (Vec<Message>, Option<RtmpError>) {
    let mut reader = ChunkReader::new(LIMITS);
    let mut messages = Vec::new();
    for mut piece in data.chunks(step) {
        loop {
            match reader.next_message(&mut piece) {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(error) => return (messages, Some(error)),
            }
            assert!(reader.buffered_bytes() <= LIMITS.partial_bytes as usize + STATES_BYTES_MAX);
        }
        assert!(piece.is_empty(), "no message came, so all was taken");
    }
    (messages, None)
}
