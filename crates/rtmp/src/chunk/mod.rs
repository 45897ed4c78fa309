//! The chunk stream: messages cut in chunks that may be interleaved (Adobe RTMP 1.0 section 5.3).
//!
//! ```text
//!  chunk:   basic header | message header | extended timestamp | data
//!           1..3 bytes     11, 7, 3, 0      0 or 4               min(chunk size, rest of message)
//!
//!  basic:   +--------+  +--------+--------+  +--------+--------+--------+
//!           |ff cs id|  |ff 0    |id - 64 |  |ff 1    |  id - 64, LE    |
//!           +--------+  +--------+--------+  +--------+--------+--------+
//!            id 2..63        id 64..319          id 64..65599
//!
//!  fmt 0:   timestamp 24 | length 24 | type 8 | message stream id 32, little endian
//!  fmt 1:   delta 24     | length 24 | type 8
//!  fmt 2:   delta 24
//!  fmt 3:   -
//! ```
//!
//! `reader.rs` turns bytes into messages, `writer.rs` messages into bytes with state per chunk stream, and
//! `play.rs` writes the media bytes that are the same for every player. `state.rs` says where a
//! reader is. What a message means is decided in `connection.rs` and above; only Set Chunk Size and
//! Abort are handled here, since they change how the next chunk is read.

mod play;
mod reader;
mod state;
mod writer;

pub use play::{write_play_message, write_play_parts};
pub use reader::{ChunkReader, ReaderLimits};
pub(super) use state::ReaderState;
pub use writer::{ChunkWriter, OutgoingMessage};

use std::ops::RangeInclusive;

use super::message::MessageHeader;

/// Chunk size of a new connection, in bytes (5.4.1).
pub const CHUNK_SIZE_DEFAULT: u32 = 128;

/// Chunk size the server announces and writes to every player, in bytes.
///
/// Nearly every message of a live stream then is one chunk: a header and the payload as it is. It stays
/// below 65,536 because that is the largest some players accept.
pub const PLAY_CHUNK_SIZE: u32 = 60_000;

/// Largest chunk size that has an effect: a message is at most 2^24-1 bytes long, so larger values mean
/// the same. Larger ones up to 2^31-1 are accepted (5.4.1) and taken as this.
pub const CHUNK_SIZE_EFFECTIVE_MAX: u32 = 1 << 24;

/// Chunk stream ids a peer may use on one connection. Encoders use 3 to 8; the 65th ends the session.
pub const CHUNK_STREAMS_MAX: usize = 64;

/// Ids that a basic header can have (5.3.1.1).
const CHUNK_STREAM_IDS: RangeInclusive<u32> = 2..=65_599;

/// Value of the 24-bit timestamp field that announces an extended timestamp (5.3.1.3).
const EXTENDED_TIMESTAMP: u32 = 0xff_ffff;

/// Appends a message with a full header and no reference to what was written before.
///
/// The payload is `header.length` bytes in two parts, the first shorter than a chunk. An extended timestamp
/// is repeated in each chunk (5.3.1.3).
pub(super) fn write_message(
    out: &mut Vec<u8>,
    chunk_size: u32,
    chunk_stream_id: u32,
    header: &MessageHeader,
    [head, rest]: [&[u8]; 2],
) {
    let chunk_size = chunk_size as usize;
    let length = head.len() + rest.len();
    out.reserve(length + 18 + 7 * (length / chunk_size));
    write_full_header(out, chunk_stream_id, header);
    out.extend_from_slice(head);
    let (first, rest) = rest.split_at(rest.len().min(chunk_size - head.len()));
    out.extend_from_slice(first);
    for chunk in rest.chunks(chunk_size) {
        write_basic_header(out, 3, chunk_stream_id);
        if header.timestamp >= EXTENDED_TIMESTAMP {
            out.extend_from_slice(&header.timestamp.to_be_bytes());
        }
        out.extend_from_slice(chunk);
    }
}

/// Writes basic and message header of format 0, with the extended timestamp where needed.
fn write_full_header(out: &mut Vec<u8>, chunk_stream_id: u32, header: &MessageHeader) {
    write_basic_header(out, 0, chunk_stream_id);
    push_u24(out, header.timestamp.min(EXTENDED_TIMESTAMP));
    push_u24(out, header.length);
    out.push(header.type_id);
    out.extend_from_slice(&header.stream_id.to_le_bytes());
    if header.timestamp >= EXTENDED_TIMESTAMP {
        out.extend_from_slice(&header.timestamp.to_be_bytes());
    }
}

/// Writes a basic header; `chunk_stream_id` is 2..=65599.
fn write_basic_header(out: &mut Vec<u8>, format: u8, chunk_stream_id: u32) {
    let format = format << 6;
    match chunk_stream_id {
        0..=63 => out.push(format | chunk_stream_id as u8),
        64..=319 => out.extend_from_slice(&[format, (chunk_stream_id - 64) as u8]),
        _ => {
            let [low, high, ..] = (chunk_stream_id - 64).to_le_bytes();
            out.extend_from_slice(&[format | 1, low, high]);
        }
    }
}

fn push_u24(out: &mut Vec<u8>, value: u32) {
    let [_, a, b, c] = value.to_be_bytes();
    out.extend_from_slice(&[a, b, c]);
}
