//! Media messages as every player gets them.
//!
//! The bytes depend on nothing but the message: full header (format 0), a fixed chunk stream per kind,
//! message stream 1, [`PLAY_CHUNK_SIZE`]. So a message is serialised once and the same bytes are handed
//! to any number of players, in any order of joining. The price is 8 bytes more per message than a
//! compressed header would take (at 68 messages a second 4 kbit/s), and it buys one copy for all.

use super::super::message::{MESSAGE_BYTES_MAX, MessageHeader, type_id};
use super::{PLAY_CHUNK_SIZE, write_message};
use crate::MediaKind;

/// Appends one media message to `out`, in the bytes that are the same for every player.
///
/// A message that needs an extended timestamp repeats it in each of its chunks, as section 5.3.1.3 asks.
///
/// # Panics
///
/// If `payload` is longer than [`MESSAGE_BYTES_MAX`]: no message that was received can be.
pub fn write_play_message(out: &mut Vec<u8>, kind: MediaKind, timestamp: u32, payload: &[u8]) {
    write_play_parts(out, kind, timestamp, [&[], payload]);
}

/// The same with a payload in two parts, of which the first is shorter than a chunk
/// ([`TagBody::parts`](crate::flv::TagBody::parts)).
///
/// # Panics
///
/// If the payload is longer than [`MESSAGE_BYTES_MAX`].
pub fn write_play_parts(out: &mut Vec<u8>, kind: MediaKind, timestamp: u32, parts: [&[u8]; 2]) {
    let length = parts[0].len() + parts[1].len();
    assert!(length <= MESSAGE_BYTES_MAX, "a message length is 24 bits");
    let length = length as u32;
    let header = MessageHeader { type_id: type_id(kind), stream_id: PLAY_STREAM_ID, timestamp, length };
    write_message(out, PLAY_CHUNK_SIZE, chunk_stream_id(kind), &header, parts);
}

/// Message stream of everything played and published: the server answers each `createStream` with it.
const PLAY_STREAM_ID: u32 = 1;

/// Not used by commands (3, 5) and control (2), so their headers never meet.
fn chunk_stream_id(kind: MediaKind) -> u32 {
    match kind {
        MediaKind::Audio => 4,
        MediaKind::Video => 6,
        MediaKind::Data => 7,
    }
}
