//! How far a [`ChunkReader`] is, for one in another process to go on with.
//!
//! Of the peer's chunks, everything that a later header may refer to, and what has come of
//! unfinished messages and of a header that is cut. What it reads next is what the first one would
//! have read; only the room that is reserved ahead for a message (`SPECULATIVE_BYTES`) does not go
//! over.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::super::RtmpError;
use super::super::message::MessageHeader;
use super::reader::{AT_HEADER, BasicHeader, ChunkHeader, ChunkStream, HEADER_BYTES_MAX};
use super::{CHUNK_SIZE_EFFECTIVE_MAX, CHUNK_STREAM_IDS, CHUNK_STREAMS_MAX, ChunkReader, ReaderLimits};

/// Where a reader is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct ReaderState {
    chunk_size: u32,
    streams: Vec<ChunkStreamState>,
    /// The chunk that is being read; `None` when a header is next.
    chunk: Option<UnfinishedChunk>,
    /// A header cut by the end of the input.
    #[serde(with = "serde_bytes")]
    header: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ChunkStreamState {
    id: u32,
    type_id: u8,
    stream_id: u32,
    timestamp: u32,
    length: u32,
    /// Timestamp or delta as last written.
    field: u32,
    extended: bool,
    message: Option<UnfinishedMessage>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct UnfinishedMessage {
    /// Bytes that came, kept or not.
    received: u32,
    #[serde(with = "serde_bytes")]
    payload: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct UnfinishedChunk {
    /// Which of `streams` it is of.
    stream: usize,
    /// Bytes of it still to come.
    left: u32,
}

impl ChunkReader {
    /// Where it is. All input is to have been taken apart: [`Self::next_message`] has returned
    /// `None`.
    pub(in super::super) fn state(&self) -> ReaderState {
        let is_in_chunk = self.current != AT_HEADER;
        ReaderState {
            chunk_size: self.chunk_size,
            streams: self.streams.iter().map(ChunkStreamState::of).collect(),
            chunk: is_in_chunk.then_some(UnfinishedChunk { stream: self.current, left: self.left_in_chunk }),
            header: self.stash[..usize::from(self.stash_bytes)].to_vec(),
        }
    }

    /// One that goes on from `state`.
    ///
    /// # Errors
    ///
    /// What is unfinished exceeds the limits, or no reader can be there.
    pub(in super::super) fn resume(limits: ReaderLimits, state: ReaderState) -> Result<Self, RtmpError> {
        if state.streams.len() > CHUNK_STREAMS_MAX {
            return Err(RtmpError::TooManyChunkStreams);
        }
        let mut reader = Self::new(limits);
        let mut ids = HashSet::new();
        for stream in state.streams {
            let stream = stream.resume(&limits)?;
            if !CHUNK_STREAM_IDS.contains(&stream.id) || !ids.insert(stream.id) {
                return Err(RtmpError::StateImpossible);
            }
            reader.partial_bytes += stream.payload.capacity();
            reader.streams.push(stream);
        }
        if reader.partial_bytes > limits.partial_bytes as usize {
            return Err(RtmpError::MemoryLimit);
        }
        if !(1..=CHUNK_SIZE_EFFECTIVE_MAX).contains(&state.chunk_size) {
            return Err(RtmpError::StateImpossible);
        }
        reader.chunk_size = state.chunk_size;
        if let Some(chunk) = state.chunk {
            let stream = reader.streams.get(chunk.stream).filter(|stream| stream.in_message);
            let left_in_message = stream.map_or(0, |stream| stream.header.length - stream.received);
            // The chunk size does not change within a chunk.
            let is_possible = (1..=left_in_message.min(state.chunk_size)).contains(&chunk.left);
            if !is_possible || !state.header.is_empty() {
                return Err(RtmpError::StateImpossible);
            }
            (reader.current, reader.left_in_chunk) = (chunk.stream, chunk.left);
        }
        if !reader.is_cut_header(&state.header) {
            return Err(RtmpError::StateImpossible);
        }
        reader.stash[..state.header.len()].copy_from_slice(&state.header);
        reader.stash_bytes = state.header.len() as u8;
        Ok(reader)
    }

    /// Whether `bytes` are too few for the header that they begin.
    fn is_cut_header(&self, bytes: &[u8]) -> bool {
        if bytes.len() >= HEADER_BYTES_MAX {
            return false;
        }
        let Some(basic) = BasicHeader::parse(bytes) else { return true };
        let stream = self.streams.iter().find(|stream| stream.id == basic.id);
        matches!(ChunkHeader::parse(&basic, bytes, stream), Ok(None))
    }
}

impl ChunkStreamState {
    fn of(stream: &ChunkStream) -> Self {
        let MessageHeader { type_id, stream_id, timestamp, length } = stream.header;
        let message = UnfinishedMessage { received: stream.received, payload: stream.payload.clone() };
        Self {
            id: stream.id,
            type_id,
            stream_id,
            timestamp,
            length,
            field: stream.field,
            extended: stream.extended,
            message: stream.in_message.then_some(message),
        }
    }

    fn resume(self, limits: &ReaderLimits) -> Result<ChunkStream, RtmpError> {
        let Self { id, type_id, stream_id, timestamp, length, field, extended, message } = self;
        let mut stream = ChunkStream {
            header: MessageHeader { type_id, stream_id, timestamp, length },
            field,
            extended,
            ..ChunkStream::new(id)
        };
        let Some(UnfinishedMessage { received, mut payload }) = message else { return Ok(stream) };
        if length > limits.longest(type_id) {
            return Err(RtmpError::MessageTooLarge);
        }
        let kept = received.min(stream.kept_bytes(limits));
        if received >= length || payload.len() != kept as usize {
            return Err(RtmpError::StateImpossible);
        }
        // Memory is counted by capacities, and reading the state may have reserved more.
        payload.shrink_to_fit();
        (stream.in_message, stream.received, stream.payload) = (true, received, payload);
        Ok(stream)
    }
}
