//! Chunks to messages (Adobe RTMP 1.0 section 5.3.1).
//!
//! Payload bytes go from the caller's slice straight into the message they belong to; only a chunk
//! header that is cut by the end of the input is set aside (at most 18 bytes). Memory grows with bytes
//! received and never with bytes declared: a message of 16 MB of which one byte came costs its state
//! (56 bytes) and a small allocation.
//!
//! The reader applies Set Chunk Size and Abort itself and does not return them. Of others it knows
//! the longest. The layout of the headers is drawn in `mod.rs`.

use super::super::RtmpError;
use super::super::message::{
    ABORT, AUDIO, COMMAND_AMF0, COMMAND_AMF3, COMMAND_BYTES_MAX, DATA_AMF0, DATA_AMF3, DATA_BYTES_MAX,
    Message, MessageHeader, SET_CHUNK_SIZE, VIDEO,
};
use super::{CHUNK_SIZE_DEFAULT, CHUNK_SIZE_EFFECTIVE_MAX, CHUNK_STREAMS_MAX, EXTENDED_TIMESTAMP};

/// What a [`ChunkReader`] accepts and keeps.
#[derive(Debug, Clone, Copy)]
pub struct ReaderLimits {
    /// Longest message, in bytes; a header that declares more is an error at once. Commands have
    /// [`COMMAND_BYTES_MAX`] besides.
    pub message_bytes: u32,
    /// Bytes that all unfinished messages may hold together.
    pub partial_bytes: u32,
    /// Bytes of the payload kept of audio and video messages; the rest is counted and skipped.
    pub keep_payload_bytes: u32,
}

impl ReaderLimits {
    /// Longest message of a type, in bytes.
    pub(super) fn longest(&self, type_id: u8) -> u32 {
        match type_id {
            COMMAND_AMF0 | COMMAND_AMF3 => self.message_bytes.min(COMMAND_BYTES_MAX),
            _ => self.message_bytes,
        }
    }
}

/// Reassembles messages from the chunk stream of one peer.
#[derive(Debug)]
pub struct ChunkReader {
    limits: ReaderLimits,
    pub(super) chunk_size: u32,
    pub(super) streams: Vec<ChunkStream>,
    /// Sum of the capacities of unfinished messages.
    pub(super) partial_bytes: usize,
    /// Index of the chunk stream whose chunk is being read, or `AT_HEADER`.
    pub(super) current: usize,
    /// Data bytes still to come of that chunk.
    pub(super) left_in_chunk: u32,
    /// A header cut by the end of the input: `stash[..stash_bytes]`.
    pub(super) stash: [u8; HEADER_BYTES_MAX],
    pub(super) stash_bytes: u8,
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
            if !stream.is_whole() {
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
            if let Some(used) = self.begin_chunk(input)? {
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
        let Some(used) = self.begin_chunk(&stash[..before + added])? else {
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
    fn begin_chunk(&mut self, bytes: &[u8]) -> Result<Option<usize>, RtmpError> {
        let Some(basic) = BasicHeader::parse(bytes) else { return Ok(None) };
        let known = self.streams.iter().position(|stream| stream.id == basic.id);
        let previous = known.map(|index| &self.streams[index]);
        let Some(header) = ChunkHeader::parse(&basic, bytes, previous)? else { return Ok(None) };
        if header.message.length > self.limits.longest(header.message.type_id) {
            return Err(RtmpError::MessageTooLarge);
        }
        let index = match known {
            Some(index) => index,
            None if self.streams.len() == CHUNK_STREAMS_MAX => return Err(RtmpError::TooManyChunkStreams),
            None => {
                self.streams.push(ChunkStream::new(basic.id));
                self.streams.len() - 1
            }
        };
        let left_in_message = self.streams[index].begin_chunk(&header)?;
        self.current = index;
        self.left_in_chunk = self.chunk_size.min(left_in_message);
        Ok(Some(header.bytes))
    }

    /// Takes the data of the current chunk; true when the chunk is whole.
    fn read_data(&mut self, input: &mut &[u8]) -> Result<bool, RtmpError> {
        let (data, rest) = input.split_at(input.len().min(self.left_in_chunk as usize));
        *input = rest;
        self.left_in_chunk -= data.len() as u32;
        self.streams[self.current].append(data, &self.limits, &mut self.partial_bytes)?;
        Ok(self.left_in_chunk == 0)
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
        let id = first_u32(payload)?;
        if let Some(stream) = self.streams.iter_mut().find(|stream| stream.id == id) {
            stream.finish(&mut self.partial_bytes);
        }
        Ok(())
    }
}

/// One chunk stream of a peer: everything a later header may refer to, 56 bytes in all, and the unfinished
/// message.
#[derive(Debug)]
pub(super) struct ChunkStream {
    pub(super) id: u32,
    /// Of the last message that began.
    pub(super) header: MessageHeader,
    /// Timestamp or delta as last written, extended if it was.
    pub(super) field: u32,
    /// The last header of format 0, 1 or 2 had an extended timestamp.
    pub(super) extended: bool,
    /// A message has begun and is not finished.
    pub(super) in_message: bool,
    /// Bytes of the unfinished message that came, kept or not. `0 <= received <= header.length`.
    pub(super) received: u32,
    pub(super) payload: Vec<u8>,
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
    message: MessageHeader,
    /// Timestamp or delta.
    field: u32,
    extended: bool,
    /// Length of all of it.
    bytes: usize,
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
    fn begin_chunk(&mut self, header: &ChunkHeader) -> Result<u32, RtmpError> {
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
    fn append(
        &mut self,
        data: &[u8],
        limits: &ReaderLimits,
        partial_bytes: &mut usize,
    ) -> Result<(), RtmpError> {
        self.received += data.len() as u32;
        let keep = self.kept_bytes(limits) as usize;
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

    /// How many of the first bytes of the message are kept.
    pub(super) fn kept_bytes(&self, limits: &ReaderLimits) -> u32 {
        match self.header.type_id {
            AUDIO | VIDEO => self.header.length.min(limits.keep_payload_bytes),
            DATA_AMF0 | DATA_AMF3 if self.header.length > DATA_BYTES_MAX => 0,
            _ => self.header.length,
        }
    }

    /// Whether all bytes of the message came.
    fn is_whole(&self) -> bool {
        self.received == self.header.length
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

fn first_u32(payload: &[u8]) -> Result<u32, RtmpError> {
    payload.first_chunk().map(|bytes| u32::from_be_bytes(*bytes)).ok_or(RtmpError::ControlMalformed)
}

fn u24([a, b, c]: [u8; 3]) -> u32 {
    u32::from_be_bytes([0, a, b, c])
}

/// No chunk is being read: a header is next.
pub(super) const AT_HEADER: usize = usize::MAX;

/// Longest chunk header: basic header 3, message header 11, extended timestamp 4.
pub(super) const HEADER_BYTES_MAX: usize = 18;

/// A session may allocate this much, over all its unfinished messages, for bytes that have not come yet,
/// so that a usual message that spans two reads is allocated once.
const SPECULATIVE_BYTES: usize = 16 * 1024;
