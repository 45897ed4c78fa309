//! Chunks to messages (Adobe RTMP 1.0 section 5.3.1).
//!
//! Payload bytes go from the caller's slice straight into the message they belong to; only a chunk
//! header that is cut by the end of the input is set aside (at most 18 bytes). Memory grows with bytes
//! received and never with bytes declared: a message of 16 MB of which one byte came costs its state
//! (56 bytes) and a small allocation.
//!
//! The reader applies Set Chunk Size and Abort itself and does not return them. It knows no other type.

use super::super::RtmpError;
use super::super::message::{
    ABORT, AUDIO, DATA_AMF0, DATA_AMF3, Message, MessageHeader, SET_CHUNK_SIZE, VIDEO,
};
use super::{CHUNK_SIZE_DEFAULT, CHUNK_SIZE_EFFECTIVE_MAX, CHUNK_STREAMS_MAX, EXTENDED_TIMESTAMP};

/// What a [`ChunkReader`] accepts and keeps.
#[derive(Debug, Clone, Copy)]
pub struct ReaderLimits {
    /// Longest message, in bytes; a header that declares more is an error at once.
    pub message_bytes: u32,
    /// Bytes that all unfinished messages may hold together.
    pub partial_bytes: u32,
    /// Bytes of the payload kept of audio and video messages; the rest is counted and skipped.
    pub keep_payload_bytes: u32,
}

/// Reassembles messages from the chunk stream of one peer.
#[derive(Debug)]
pub struct ChunkReader {
    limits: ReaderLimits,
    chunk_size: u32,
    streams: Vec<ChunkStream>,
    /// Sum of the capacities of unfinished messages.
    partial_bytes: usize,
    /// Index of the chunk stream whose chunk is being read, or `AT_HEADER`.
    current: usize,
    /// Data bytes still to come of that chunk.
    left_in_chunk: u32,
    /// A header cut by the end of the input: `stash[..stash_bytes]`.
    stash: [u8; HEADER_BYTES_MAX],
    stash_bytes: u8,
}

/// What later headers of a chunk stream may refer to, and its unfinished message.
#[derive(Debug)]
struct ChunkStream {
    id: u32,
    header: MessageHeader,
    /// Timestamp or delta as last written, extended if it was.
    field: u32,
    /// The last header of format 0, 1 or 2 had an extended timestamp.
    extended: bool,
    /// Bytes of the unfinished message that came, kept or not. `0 <= received <= header.length`.
    received: u32,
    /// A message has begun and is not finished.
    in_message: bool,
    payload: Vec<u8>,
}

impl ChunkReader {
    /// A reader at the default chunk size of 128 bytes.
    pub fn new(limits: ReaderLimits) -> Self {
        Self {
            limits,
            chunk_size: CHUNK_SIZE_DEFAULT,
            streams: Vec::new(),
            partial_bytes: 0,
            current: AT_HEADER,
            left_in_chunk: 0,
            stash: [0; HEADER_BYTES_MAX],
            stash_bytes: 0,
        }
    }

    /// Takes bytes from the front of `input` until a message is whole.
    ///
    /// `Ok(None)` means that all of `input` was taken and more is needed. After an error the reader is of
    /// no further use.
    pub fn next_message(&mut self, input: &mut &[u8]) -> Result<Option<Message>, RtmpError> {
        loop {
            if self.current == AT_HEADER && !self.read_header(input)? {
                return Ok(None);
            }
            if !self.read_data(input)? {
                return Ok(None);
            }
            let index = std::mem::replace(&mut self.current, AT_HEADER);
            let stream = &mut self.streams[index];
            if stream.received < stream.header.length {
                continue;
            }
            let message = stream.finish(&mut self.partial_bytes);
            match message.header.type_id {
                SET_CHUNK_SIZE => self.set_chunk_size(&message.payload)?,
                ABORT => self.abort(&message.payload)?,
                _ => return Ok(Some(message)),
            }
        }
    }

    /// Replaces the limits; unfinished messages stay.
    pub fn set_limits(&mut self, limits: ReaderLimits) {
        self.limits = limits;
    }

    /// Present chunk size of the peer, in bytes.
    pub fn chunk_size(&self) -> u32 {
        self.chunk_size
    }

    /// Memory held for this peer's input, in bytes: chunk stream states and unfinished messages.
    pub fn buffered_bytes(&self) -> usize {
        self.partial_bytes + self.streams.capacity() * size_of::<ChunkStream>()
    }

    /// Gives back memory beyond what is in use.
    pub fn trim(&mut self) {
        self.streams.shrink_to_fit();
    }

    /// Reads a header, from the stash and `input`; false when it needs more bytes.
    fn read_header(&mut self, input: &mut &[u8]) -> Result<bool, RtmpError> {
        if self.stash_bytes == 0 {
            if let Some(used) = self.apply_header(input)? {
                *input = &input[used..];
                return Ok(true);
            }
            // No header is longer than the stash, so an incomplete one fits.
            self.stash[..input.len()].copy_from_slice(input);
            self.stash_bytes = input.len() as u8;
            *input = &[];
            return Ok(false);
        }
        let before = usize::from(self.stash_bytes);
        let added = input.len().min(HEADER_BYTES_MAX - before);
        let mut stash = self.stash;
        stash[before..before + added].copy_from_slice(&input[..added]);
        let Some(used) = self.apply_header(&stash[..before + added])? else {
            self.stash = stash;
            self.stash_bytes = (before + added) as u8;
            *input = &input[added..];
            return Ok(false);
        };
        self.stash_bytes = 0;
        if used >= before {
            *input = &input[used - before..];
            return Ok(true);
        }
        // An extended timestamp that seemed to come was data: the chunk's, and then a header's again.
        let mut given_back = &stash[used..before];
        self.read_data(&mut given_back)?;
        self.stash[..given_back.len()].copy_from_slice(given_back);
        self.stash_bytes = given_back.len() as u8;
        Ok(true)
    }

    /// Parses the header at the front of `bytes` and begins its chunk; returns the header's length, or
    /// `None` and no change when `bytes` ends too early.
    fn apply_header(&mut self, bytes: &[u8]) -> Result<Option<usize>, RtmpError> {
        let Some((format, id, basic)) = read_basic_header(bytes) else { return Ok(None) };
        let fields_end = basic + MESSAGE_HEADER_BYTES[format];
        let Some(fields) = bytes.get(basic..fields_end) else { return Ok(None) };
        let known = self.find(id);
        let (header, field, extended, used) = if format == 3 {
            let index = known.ok_or(RtmpError::HeaderWithoutPrevious)?;
            let stream = &self.streams[index];
            let Some(repeated) = stream.repeated_timestamp_bytes(&bytes[fields_end..]) else {
                return Ok(None);
            };
            (stream.header, stream.field, stream.extended, fields_end + repeated)
        } else {
            let field = u24(fields);
            let extended = field == EXTENDED_TIMESTAMP;
            let used = fields_end + if extended { 4 } else { 0 };
            let Some(long) = bytes.get(fields_end..used) else { return Ok(None) };
            let field =
                if extended { u32::from_be_bytes([long[0], long[1], long[2], long[3]]) } else { field };
            (
                read_fields(format, fields, known.map(|index| self.streams[index].header))?,
                field,
                extended,
                used,
            )
        };
        if header.length > self.limits.message_bytes {
            return Err(RtmpError::MessageTooLarge);
        }
        let index = match known {
            Some(index) => index,
            None => self.add(id)?,
        };
        let stream = &mut self.streams[index];
        if stream.in_message {
            if format != 3 {
                return Err(RtmpError::MessageInterrupted);
            }
        } else {
            // After format 0 the field is the absolute time, and a format 3 that begins a message adds it
            // again: 5.3.1.2.4 says so, and librtmp and ffmpeg read it so.
            let base = if format == 0 { 0 } else { stream.header.timestamp };
            stream.header = MessageHeader { timestamp: base.wrapping_add(field), ..header };
            stream.field = field;
            stream.extended = extended;
            stream.received = 0;
            stream.in_message = true;
        }
        self.current = index;
        self.left_in_chunk = self.chunk_size.min(stream.header.length - stream.received);
        Ok(Some(used))
    }

    /// Takes the data of the current chunk; true when the chunk is whole.
    fn read_data(&mut self, input: &mut &[u8]) -> Result<bool, RtmpError> {
        let (data, rest) = input.split_at(input.len().min(self.left_in_chunk as usize));
        *input = rest;
        self.left_in_chunk -= data.len() as u32;
        self.streams[self.current].append(data, &self.limits, &mut self.partial_bytes)?;
        Ok(self.left_in_chunk == 0)
    }

    fn find(&self, id: u32) -> Option<usize> {
        self.streams.iter().position(|stream| stream.id == id)
    }

    fn add(&mut self, id: u32) -> Result<usize, RtmpError> {
        if self.streams.len() == CHUNK_STREAMS_MAX {
            return Err(RtmpError::TooManyChunkStreams);
        }
        self.streams.push(ChunkStream {
            id,
            header: MessageHeader { type_id: 0, stream_id: 0, timestamp: 0, length: 0 },
            field: 0,
            extended: false,
            received: 0,
            in_message: false,
            payload: Vec::new(),
        });
        Ok(self.streams.len() - 1)
    }

    /// Set Chunk Size (5.4.1): one bit that is zero, then 31 bits of at least 1.
    fn set_chunk_size(&mut self, payload: &[u8]) -> Result<(), RtmpError> {
        match first_u32(payload)? {
            0 => Err(RtmpError::ChunkSizeZero),
            0x8000_0000.. => Err(RtmpError::ChunkSizeTooLarge),
            size => {
                self.chunk_size = size.min(CHUNK_SIZE_EFFECTIVE_MAX);
                Ok(())
            }
        }
    }

    /// Abort (5.4.2): the unfinished message of the named chunk stream is dropped, if there is one.
    fn abort(&mut self, payload: &[u8]) -> Result<(), RtmpError> {
        if let Some(index) = self.find(first_u32(payload)?) {
            self.streams[index].finish(&mut self.partial_bytes);
        }
        Ok(())
    }
}

impl ChunkStream {
    /// Adds data to the unfinished message, as far as its payload is kept.
    fn append(
        &mut self,
        data: &[u8],
        limits: &ReaderLimits,
        partial_bytes: &mut usize,
    ) -> Result<(), RtmpError> {
        self.received += data.len() as u32;
        let keep = match self.header.type_id {
            AUDIO | VIDEO | DATA_AMF0 | DATA_AMF3 => {
                self.header.length.min(limits.keep_payload_bytes) as usize
            }
            _ => self.header.length as usize,
        };
        let kept = self.payload.len();
        let data = &data[..data.len().min(keep - kept)];
        let needed = kept + data.len();
        let capacity = self.payload.capacity();
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

    /// Ends the message, whole or not, and gives it away.
    fn finish(&mut self, partial_bytes: &mut usize) -> Message {
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
        let time = if self.in_message {
            self.header.timestamp
        } else {
            self.header.timestamp.wrapping_add(self.field)
        };
        let seen = &bytes[..bytes.len().min(4)];
        let may_be = |value: u32| value.to_be_bytes().starts_with(seen);
        match (may_be(self.field) || may_be(time), seen.len()) {
            (false, _) => Some(0),
            (true, 4) => Some(4),
            (true, _) => None,
        }
    }
}

/// Format, chunk stream id and length of a basic header (5.3.1.1).
fn read_basic_header(bytes: &[u8]) -> Option<(usize, u32, usize)> {
    let first = *bytes.first()?;
    let format = usize::from(first >> 6);
    match first & 0x3f {
        0 => Some((format, 64 + u32::from(*bytes.get(1)?), 2)),
        1 => Some((format, 64 + u32::from(*bytes.get(1)?) + 256 * u32::from(*bytes.get(2)?), 3)),
        id => Some((format, u32::from(id), 1)),
    }
}

/// The message header of format 0, 1 or 2 (5.3.1.2) without its time.
///
/// Format 1 is taken as the first header of a chunk stream too, as if stream 0 had gone before: some
/// librtmp versions begin that way.
fn read_fields(
    format: usize,
    fields: &[u8],
    previous: Option<MessageHeader>,
) -> Result<MessageHeader, RtmpError> {
    let fresh = MessageHeader { type_id: 0, stream_id: 0, timestamp: 0, length: 0 };
    let previous = match (format, previous) {
        (2, None) => return Err(RtmpError::HeaderWithoutPrevious),
        (_, previous) => previous.unwrap_or(fresh),
    };
    Ok(match fields {
        [_, _, _, length @ .., type_id] if format == 1 => {
            MessageHeader { length: u24(length), type_id: *type_id, ..previous }
        }
        [_, _, _, l0, l1, l2, type_id, id @ ..] if format == 0 => MessageHeader {
            length: u24(&[*l0, *l1, *l2]),
            type_id: *type_id,
            stream_id: id.iter().rev().fold(0, |id, byte| id << 8 | u32::from(*byte)),
            ..previous
        },
        _ => previous,
    })
}

fn u24(bytes: &[u8]) -> u32 {
    u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]])
}

fn first_u32(payload: &[u8]) -> Result<u32, RtmpError> {
    payload.first_chunk().map(|bytes| u32::from_be_bytes(*bytes)).ok_or(RtmpError::ControlMalformed)
}

const AT_HEADER: usize = usize::MAX;

/// Basic header 3, message header 11, extended timestamp 4.
const HEADER_BYTES_MAX: usize = 18;

/// Length of the message header by format.
const MESSAGE_HEADER_BYTES: [usize; 4] = [11, 7, 3, 0];

/// A session may allocate this much, over all its unfinished messages, for bytes that have not come yet,
/// so that a usual message that spans two reads is allocated once.
const SPECULATIVE_BYTES: usize = 16 * 1024;
