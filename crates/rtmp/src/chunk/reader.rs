//! Chunks to messages (Adobe RTMP 1.0 section 5.3.1).
//!
//! Payload bytes go from the caller's slice straight into the message they belong to; only a chunk
//! header that is cut by the end of the input is set aside (at most 18 bytes). Memory grows with bytes
//! received and never with bytes declared: a message of 16 MB of which one byte came costs its state
//! (56 bytes) and a small allocation.
//!
//! The reader applies Set Chunk Size and Abort itself and does not return them. It knows no other type.

use super::super::RtmpError;
use super::super::message::{ABORT, Message, SET_CHUNK_SIZE};
use super::stream::{BasicHeader, ChunkHeader, ChunkStream, HEADER_BYTES_MAX};
use super::{CHUNK_SIZE_DEFAULT, CHUNK_SIZE_EFFECTIVE_MAX, CHUNK_STREAMS_MAX};

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
        if header.message.length > self.limits.message_bytes {
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

fn first_u32(payload: &[u8]) -> Result<u32, RtmpError> {
    payload.first_chunk().map(|bytes| u32::from_be_bytes(*bytes)).ok_or(RtmpError::ControlMalformed)
}

/// No chunk is being read: a header is next.
const AT_HEADER: usize = usize::MAX;
