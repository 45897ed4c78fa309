//! Chunk headers, and one chunk stream as its reader sees it (Adobe RTMP 1.0 sections 5.3.1.1 to 5.3.1.3).
//!
//! The layout is drawn in `mod.rs`. Everything a later header may refer to is kept here, 56 bytes in all,
//! and so is the unfinished message.

use super::super::RtmpError;
use super::super::message::{AUDIO, Message, MessageHeader, VIDEO};
use super::EXTENDED_TIMESTAMP;
use super::reader::ReaderLimits;

/// One chunk stream of a peer.
#[derive(Debug)]
pub(super) struct ChunkStream {
    pub(super) id: u32,
    /// Of the last message that began.
    header: MessageHeader,
    /// Timestamp or delta as last written, extended if it was.
    field: u32,
    /// The last header of format 0, 1 or 2 had an extended timestamp.
    extended: bool,
    /// A message has begun and is not finished.
    in_message: bool,
    /// Bytes of the unfinished message that came, kept or not. `0 <= received <= header.length`.
    received: u32,
    payload: Vec<u8>,
}

/// Format, chunk stream and length of a basic header (5.3.1.1).
#[derive(Debug, Clone, Copy)]
pub(super) struct BasicHeader {
    format: u8,
    pub(super) id: u32,
    bytes: usize,
}

/// A whole chunk header.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChunkHeader {
    format: u8,
    /// Complete but for the time.
    pub(super) message: MessageHeader,
    /// Timestamp or delta.
    field: u32,
    extended: bool,
    /// Length of all of it.
    pub(super) bytes: usize,
}

impl BasicHeader {
    /// Reads it from the front of `bytes`; `None` if they are too few.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let first = *bytes.first()?;
        let (id, length) = match first & 0x3f {
            0 => (64 + u32::from(*bytes.get(1)?), 2),
            1 => (64 + u32::from(*bytes.get(1)?) + 256 * u32::from(*bytes.get(2)?), 3),
            id => (u32::from(id), 1),
        };
        Some(Self { format: first >> 6, id, bytes: length })
    }
}

impl ChunkHeader {
    /// Reads the header whose basic header is at the front of `bytes`; `None` if they are too few.
    ///
    /// Format 1 is taken as the first header of a chunk stream too, as if message stream 0 at time 0 had
    /// gone before: some librtmp versions begin that way.
    pub(super) fn parse(
        basic: &BasicHeader,
        bytes: &[u8],
        stream: Option<&ChunkStream>,
    ) -> Result<Option<Self>, RtmpError> {
        let BasicHeader { format, bytes: start, .. } = *basic;
        let previous = match (stream, format) {
            (Some(stream), _) => stream.header,
            (None, 0 | 1) => MessageHeader { type_id: 0, stream_id: 0, timestamp: 0, length: 0 },
            (None, _) => return Err(RtmpError::HeaderWithoutPrevious),
        };
        let rest = &bytes[start..];
        Ok(match (format, rest) {
            (0, [t0, t1, t2, l0, l1, l2, type_id, s0, s1, s2, s3, rest @ ..]) => {
                let stream_id = u32::from_le_bytes([*s0, *s1, *s2, *s3]);
                let message =
                    MessageHeader { type_id: *type_id, stream_id, length: u24([*l0, *l1, *l2]), ..previous };
                Self::with_time(format, message, u24([*t0, *t1, *t2]), start + 11, rest)
            }
            (1, [t0, t1, t2, l0, l1, l2, type_id, rest @ ..]) => {
                let message = MessageHeader { type_id: *type_id, length: u24([*l0, *l1, *l2]), ..previous };
                Self::with_time(format, message, u24([*t0, *t1, *t2]), start + 7, rest)
            }
            (2, [t0, t1, t2, rest @ ..]) => {
                Self::with_time(format, previous, u24([*t0, *t1, *t2]), start + 3, rest)
            }
            (3, rest) => stream.and_then(|stream| {
                let bytes = start + stream.repeated_timestamp_bytes(rest)?;
                let ChunkStream { field, extended, .. } = *stream;
                Some(Self { format, message: previous, field, extended, bytes })
            }),
            _ => None,
        })
    }

    /// Adds the extended timestamp, if `field` announces one, from `rest`.
    fn with_time(format: u8, message: MessageHeader, field: u32, bytes: usize, rest: &[u8]) -> Option<Self> {
        if field != EXTENDED_TIMESTAMP {
            return Some(Self { format, message, field, extended: false, bytes });
        }
        let field = u32::from_be_bytes(*rest.first_chunk()?);
        Some(Self { format, message, field, extended: true, bytes: bytes + 4 })
    }
}

impl ChunkStream {
    /// A chunk stream on which nothing was sent.
    pub(super) fn new(id: u32) -> Self {
        Self {
            id,
            header: MessageHeader { type_id: 0, stream_id: 0, timestamp: 0, length: 0 },
            field: 0,
            extended: false,
            in_message: false,
            received: 0,
            payload: Vec::new(),
        }
    }

    /// Begins a chunk: the next one of the unfinished message, or the first of a new message. Returns the
    /// bytes that are left of the message.
    pub(super) fn begin_chunk(&mut self, header: &ChunkHeader) -> Result<u32, RtmpError> {
        if self.in_message {
            if header.format != 3 {
                return Err(RtmpError::MessageInterrupted);
            }
        } else {
            // After format 0 the field is the absolute time, and a format 3 that begins a message adds it
            // again: 5.3.1.2.4 says so, and librtmp and ffmpeg read it so.
            let base = if header.format == 0 { 0 } else { self.header.timestamp };
            self.header = MessageHeader { timestamp: base.wrapping_add(header.field), ..header.message };
            self.field = header.field;
            self.extended = header.extended;
            self.in_message = true;
        }
        Ok(self.header.length - self.received)
    }

    /// Adds data to the unfinished message, as far as its payload is kept.
    ///
    /// `partial_bytes` is the sum of the capacities of all unfinished messages of the reader, this one
    /// included.
    pub(super) fn append(
        &mut self,
        data: &[u8],
        limits: &ReaderLimits,
        partial_bytes: &mut usize,
    ) -> Result<(), RtmpError> {
        self.received += data.len() as u32;
        let keep = match self.header.type_id {
            AUDIO | VIDEO => self.header.length.min(limits.keep_payload_bytes) as usize,
            _ => self.header.length as usize,
        };
        let kept = self.payload.len();
        let data = &data[..data.len().min(keep - kept)];
        let needed = kept + data.len();
        let capacity = self.payload.capacity();
        if kept == 0 && needed == keep && capacity == 0 {
            // Most messages of a live stream are one chunk in one read.
            self.payload = data.to_vec();
            *partial_bytes += self.payload.capacity();
            return Ok(());
        }
        if needed > capacity {
            let others = *partial_bytes - capacity;
            let room = (limits.partial_bytes as usize).saturating_sub(others);
            if needed > room && needed < keep {
                return Err(RtmpError::MemoryLimit);
            }
            let ahead = SPECULATIVE_BYTES.saturating_sub(others).max(2 * capacity).min(room).min(keep);
            self.payload.reserve_exact(needed.max(ahead) - kept);
            *partial_bytes = others + self.payload.capacity();
        }
        self.payload.extend_from_slice(data);
        Ok(())
    }

    /// Whether all bytes of the message came.
    pub(super) fn is_whole(&self) -> bool {
        self.received == self.header.length
    }

    /// Ends the message, whole or not, and gives it away.
    pub(super) fn finish(&mut self, partial_bytes: &mut usize) -> Message {
        *partial_bytes -= self.payload.capacity();
        self.in_message = false;
        self.received = 0;
        Message { header: self.header, payload: std::mem::take(&mut self.payload) }
    }

    /// Length of the extended timestamp that a format 3 header is followed by: 4 or 0, `None` when
    /// `bytes` is too short to tell.
    ///
    /// Section 5.3.1.3 wants it repeated, and ffmpeg does so; older librtmp and others leave it out. So it
    /// is there if the next 4 bytes are the last timestamp field of the chunk stream, or, as some write,
    /// the message's own time. Data looks the same once in 2^31.
    fn repeated_timestamp_bytes(&self, bytes: &[u8]) -> Option<usize> {
        if !self.extended {
            return Some(0);
        }
        let base = self.header.timestamp;
        let time = if self.in_message { base } else { base.wrapping_add(self.field) };
        let seen = &bytes[..bytes.len().min(4)];
        let may_be = |value: u32| value.to_be_bytes().starts_with(seen);
        match (may_be(self.field) || may_be(time), seen.len()) {
            (false, _) => Some(0),
            (true, 4) => Some(4),
            (true, _) => None,
        }
    }
}

fn u24([a, b, c]: [u8; 3]) -> u32 {
    u32::from_be_bytes([0, a, b, c])
}

/// Longest chunk header: basic header 3, message header 11, extended timestamp 4.
pub(super) const HEADER_BYTES_MAX: usize = 18;

/// A session may allocate this much, over all its unfinished messages, for bytes that have not come yet,
/// so that a usual message that spans two reads is allocated once.
const SPECULATIVE_BYTES: usize = 16 * 1024;
