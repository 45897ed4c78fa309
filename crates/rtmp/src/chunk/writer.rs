//! Messages to chunks, with compressed headers (Adobe RTMP 1.0 sections 5.3.1.1 to 5.3.1.3).
//!
//! Used where one peer is written to: a publishing client and the commands of both sides. Media for
//! players does not pass here, see `play.rs`.

use super::super::message::{MessageHeader, SET_CHUNK_SIZE};
use super::{
    CHUNK_SIZE_DEFAULT, CHUNK_SIZE_EFFECTIVE_MAX, EXTENDED_TIMESTAMP, push_u24, write_basic_header,
    write_full_header, write_message,
};

/// Writes messages as chunks and remembers per chunk stream what the next header may leave out.
#[derive(Debug, Clone)]
pub struct ChunkWriter {
    chunk_size: u32,
    previous: Vec<Previous>,
}

/// A message to be written by [`ChunkWriter::write_interleaved`].
#[derive(Debug, Clone, Copy)]
pub struct OutgoingMessage<'a> {
    /// Chunk stream to use, 2..=65599; no two messages of one call share it.
    pub chunk_stream_id: u32,
    /// Its header; `length` is taken from `payload`.
    pub header: MessageHeader,
    /// Its payload, at most 2^24-1 bytes.
    pub payload: &'a [u8],
}

/// What the last header on a chunk stream said.
#[derive(Debug, Clone)]
struct Previous {
    chunk_stream_id: u32,
    header: MessageHeader,
    /// The delta that format 3 would repeat. Unknown after format 0 with a time: the specification says
    /// that time (5.3.1.2.4), some readers say 0, so no format 3 is written there.
    delta: Option<u32>,
}

impl Default for ChunkWriter {
    fn default() -> Self {
        Self::new()
    }
}

impl ChunkWriter {
    /// A writer at the default chunk size of 128 bytes.
    pub fn new() -> Self {
        Self { chunk_size: CHUNK_SIZE_DEFAULT, previous: Vec::new() }
    }

    /// Announces `chunk_size` (1..=2^31-1) to the peer and uses it from the next chunk on.
    pub fn set_chunk_size(&mut self, out: &mut Vec<u8>, chunk_size: u32) {
        let chunk_size = chunk_size.clamp(1, 0x7fff_ffff);
        let header = MessageHeader { type_id: SET_CHUNK_SIZE, stream_id: 0, timestamp: 0, length: 4 };
        write_message(out, self.chunk_size, 2, &header, [&[], &chunk_size.to_be_bytes()]);
        self.adopt_chunk_size(chunk_size);
    }

    /// Uses `chunk_size` from the next chunk on; the peer was told already.
    pub(in super::super) fn adopt_chunk_size(&mut self, chunk_size: u32) {
        self.chunk_size = chunk_size.clamp(1, CHUNK_SIZE_EFFECTIVE_MAX);
    }

    /// Appends one message; its length is that of `payload`, at most 2^24-1.
    pub fn write(&mut self, out: &mut Vec<u8>, chunk_stream_id: u32, header: MessageHeader, payload: &[u8]) {
        self.write_interleaved(out, &[OutgoingMessage { chunk_stream_id, header, payload }]);
    }

    /// Appends several messages at once, a chunk of each in turn, so that a long video message does not
    /// hold up the audio beside it (the interleaving of section 5.3).
    pub fn write_interleaved(&mut self, out: &mut Vec<u8>, messages: &[OutgoingMessage<'_>]) {
        let size = self.chunk_size as usize;
        let mut extended = Vec::with_capacity(messages.len());
        for message in messages {
            extended.push(self.write_header(out, message));
            out.extend_from_slice(&message.payload[..size.min(message.payload.len())]);
        }
        let longest = messages.iter().map(|message| message.payload.len()).max().unwrap_or(0);
        for start in (size..longest).step_by(size) {
            for (message, extended) in messages.iter().zip(&extended) {
                let Some(rest) = message.payload.get(start..).filter(|rest| !rest.is_empty()) else {
                    continue;
                };
                write_basic_header(out, 3, message.chunk_stream_id);
                if let Some(field) = extended {
                    out.extend_from_slice(&field.to_be_bytes());
                }
                out.extend_from_slice(&rest[..size.min(rest.len())]);
            }
        }
    }

    /// Writes the shortest header that says it all; returns the extended timestamp it carries.
    fn write_header(&mut self, out: &mut Vec<u8>, message: &OutgoingMessage<'_>) -> Option<u32> {
        let id = message.chunk_stream_id;
        let header = MessageHeader { length: message.payload.len() as u32, ..message.header };
        let Some(previous) = self.previous.iter_mut().find(|previous| previous.chunk_stream_id == id) else {
            self.previous.push(Previous { chunk_stream_id: id, header, delta: delta_after_full(&header) });
            write_full_header(out, id, &header);
            return extended(header.timestamp);
        };
        let before = std::mem::replace(&mut previous.header, header);
        let delta = header.timestamp.wrapping_sub(before.timestamp);
        // A time that goes back has no delta (it would be near 2^32): say it in full. 5.3.1.2.1 asks for it.
        if before.stream_id != header.stream_id || delta > i32::MAX as u32 {
            previous.delta = delta_after_full(&header);
            write_full_header(out, id, &header);
            return extended(header.timestamp);
        }
        let same_kind = before.length == header.length && before.type_id == header.type_id;
        let same_delta = previous.delta.replace(delta) == Some(delta);
        let format = if !same_kind {
            1
        } else if !same_delta {
            2
        } else {
            3
        };
        write_basic_header(out, format, id);
        if format < 3 {
            push_u24(out, delta.min(EXTENDED_TIMESTAMP));
        }
        if format < 2 {
            push_u24(out, header.length);
            out.push(header.type_id);
        }
        let extended = extended(delta);
        if let Some(field) = extended {
            out.extend_from_slice(&field.to_be_bytes());
        }
        extended
    }
}

fn delta_after_full(header: &MessageHeader) -> Option<u32> {
    (header.timestamp == 0).then_some(0)
}

fn extended(field: u32) -> Option<u32> {
    (field >= EXTENDED_TIMESTAMP).then_some(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_as_short_as_every_reader_understands() {
        let header = |timestamp, type_id| MessageHeader { type_id, stream_id: 1, timestamp, length: 0 };
        let mut writer = ChunkWriter::new();
        for (timestamp, type_id, payload, format, remark) in [
            (0, 8, &b"a"[..], 0, "the first"),
            (0, 8, b"b", 3, "all the same, and 0 may be repeated"),
            (20, 8, b"c", 2, "another delta"),
            (40, 8, b"d", 3, "the same delta"),
            (60, 8, b"ee", 1, "another length"),
            (80, 9, b"ff", 1, "another type"),
            (70, 9, b"gg", 0, "time goes back"),
            (140, 9, b"hh", 2, "not 3, though the delta is the time before: readers differ"),
            (0xffff_fff0, 9, b"ii", 0, "further than half the range, which is back"),
            (4, 9, b"jj", 2, "across the wrap"),
        ] {
            let mut out = Vec::new();
            writer.write(&mut out, 6, header(timestamp, type_id), payload);
            assert_eq!(out[0] >> 6, format, "{remark}");
        }
    }
}
