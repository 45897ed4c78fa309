//! What both ends of a connection share: handshake, chunk stream, protocol control, acknowledgement.
//!
//! Protocol control messages (Adobe RTMP 1.0 section 5.4) and pings (7.1.7) are handled here and do not
//! leave; commands and media do. Output is written with full headers on chunk streams of their own, so it
//! needs no state and may be mixed with media bytes written elsewhere.

use serde::{Deserialize, Serialize};

use super::RtmpError;
use super::chunk::{
    CHUNK_SIZE_DEFAULT, CHUNK_SIZE_EFFECTIVE_MAX, ChunkReader, ReaderLimits, ReaderState, write_message,
};
use super::handshake::{ClientHandshake, ServerHandshake};
use super::message::*;

/// One connection, either end.
#[derive(Debug)]
pub(super) struct Connection {
    handshake: Option<Box<Handshake>>,
    reader: ChunkReader,
    out: Vec<u8>,
    /// Chunk size of what `out` gets.
    chunk_size: u32,
    bytes_in: u64,
    /// `bytes_in` as last acknowledged.
    acknowledged_in: u64,
    /// The peer wants an acknowledgement after so many bytes.
    window_in: u32,
    /// The window last announced to the peer; 0 before.
    window_out: u32,
}

/// Where a connection is behind its handshake, for another process to go on with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ConnectionState {
    reader: ReaderState,
    chunk_size: u32,
    bytes_in: u64,
    acknowledged_in: u64,
    window_in: u32,
    window_out: u32,
}

#[derive(Debug)]
pub(super) enum Handshake {
    Server(ServerHandshake),
    Client(ClientHandshake),
}

impl Connection {
    /// `out` holds what the handshake has written so far; `window` is assumed until the peer names its own.
    pub(super) fn new(handshake: Handshake, out: Vec<u8>, limits: ReaderLimits, window: u32) -> Self {
        Self {
            handshake: Some(Box::new(handshake)),
            reader: ChunkReader::new(limits),
            out,
            chunk_size: CHUNK_SIZE_DEFAULT,
            bytes_in: 0,
            acknowledged_in: 0,
            window_in: window,
            window_out: 0,
        }
    }

    /// One that goes on from `state`.
    ///
    /// # Errors
    ///
    /// As of [`ChunkReader::resume`]; no connection can be there.
    pub(super) fn resume(limits: ReaderLimits, state: ConnectionState) -> Result<Self, RtmpError> {
        let ConnectionState { reader, chunk_size, bytes_in, acknowledged_in, window_in, window_out } = state;
        let has_chunk_size = (1..=CHUNK_SIZE_EFFECTIVE_MAX).contains(&chunk_size);
        if !has_chunk_size || acknowledged_in > bytes_in || bytes_in > BYTES_IN_MAX {
            return Err(RtmpError::StateImpossible);
        }
        Ok(Self {
            handshake: None,
            reader: ChunkReader::resume(limits, reader)?,
            out: Vec::new(),
            chunk_size,
            bytes_in,
            acknowledged_in,
            window_in,
            window_out,
        })
    }

    /// Where it is; `None` within its handshake, and while there is output to be taken.
    pub(super) fn state(&self) -> Option<ConnectionState> {
        let is_settled = self.handshake_done() && self.out.is_empty();
        is_settled.then(|| ConnectionState {
            reader: self.reader.state(),
            chunk_size: self.chunk_size,
            bytes_in: self.bytes_in,
            acknowledged_in: self.acknowledged_in,
            window_in: self.window_in,
            window_out: self.window_out,
        })
    }

    /// Counts `bytes` of input; call once per input, before [`Self::next`] takes it apart.
    pub(super) fn note_received(&mut self, bytes: usize) {
        self.bytes_in += bytes as u64;
    }

    /// Takes bytes from the front of `input` up to the next command or media; `None` when all is taken.
    pub(super) fn next(&mut self, input: &mut &[u8]) -> Result<Option<Message>, RtmpError> {
        if self.handshake.is_some() && !self.shake_hands(input)? {
            return Ok(None);
        }
        while let Some(message) = self.reader.next_message(input)? {
            match message.header.type_id {
                AUDIO | VIDEO => return Ok(Some(message)),
                ACKNOWLEDGEMENT => _ = field(&message.payload, 0)?,
                WINDOW_ACK_SIZE => self.window_in = field(&message.payload, 0)?.max(WINDOW_IN_MIN),
                SET_PEER_BANDWIDTH => self.handle_peer_bandwidth(field(&message.payload, 0)?),
                USER_CONTROL => self.handle_user_control(&message.payload)?,
                _ => return Ok(Some(message)),
            }
        }
        Ok(None)
    }

    /// Acknowledges what came if the peer's window asks for it (5.4.3); call once per input.
    pub(super) fn acknowledge(&mut self) {
        if self.bytes_in - self.acknowledged_in >= u64::from(self.window_in) && self.handshake.is_none() {
            self.acknowledged_in = self.bytes_in;
            self.control(ACKNOWLEDGEMENT, &(self.bytes_in as u32).to_be_bytes());
        }
    }

    /// Appends a protocol control message: chunk stream 2, message stream 0 (5.4).
    pub(super) fn control(&mut self, type_id: u8, payload: &[u8]) {
        self.send(2, type_id, 0, payload);
    }

    /// Appends a user control message (7.1.7).
    pub(super) fn user_control(&mut self, event: u16, data: u32) {
        let [a, b] = event.to_be_bytes();
        let [c, d, e, f] = data.to_be_bytes();
        self.control(USER_CONTROL, &[a, b, c, d, e, f]);
    }

    /// Appends a user control message with two numbers: Set Buffer Length (7.1.7).
    pub(super) fn user_control_pair(&mut self, event: u16, first: u32, second: u32) {
        let payload = [&event.to_be_bytes()[..], &first.to_be_bytes(), &second.to_be_bytes()].concat();
        self.control(USER_CONTROL, &payload);
    }

    /// Announces the window in which we want acknowledgements (5.4.4).
    pub(super) fn announce_window(&mut self, window: u32) {
        self.window_out = window;
        self.control(WINDOW_ACK_SIZE, &window.to_be_bytes());
    }

    /// Chunk size of what it sends.
    pub(super) fn chunk_size(&self) -> u32 {
        self.chunk_size
    }

    /// Announces and uses another chunk size for what follows (5.4.1).
    pub(super) fn announce_chunk_size(&mut self, chunk_size: u32) {
        self.control(SET_CHUNK_SIZE, &chunk_size.to_be_bytes());
        self.chunk_size = chunk_size;
    }

    /// Appends any message, with a full header and time 0.
    pub(super) fn send(&mut self, chunk_stream_id: u32, type_id: u8, stream_id: u32, payload: &[u8]) {
        let header = MessageHeader { type_id, stream_id, timestamp: 0, length: payload.len() as u32 };
        write_message(&mut self.out, self.chunk_size, chunk_stream_id, &header, [&[], payload]);
    }

    pub(super) fn set_limits(&mut self, limits: ReaderLimits) {
        self.reader.set_limits(limits);
    }

    pub(super) fn output(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    pub(super) fn trim(&mut self) {
        self.reader.trim();
        self.out.shrink_to_fit();
    }

    pub(super) fn handshake_done(&self) -> bool {
        self.handshake.is_none()
    }

    pub(super) fn bytes_in(&self) -> u64 {
        self.bytes_in
    }

    pub(super) fn buffered_bytes(&self) -> usize {
        let handshake = self.handshake.as_deref().map_or(0, |handshake| match handshake {
            Handshake::Server(handshake) => handshake.buffered_bytes(),
            Handshake::Client(handshake) => handshake.buffered_bytes(),
        });
        handshake + self.reader.buffered_bytes()
    }

    fn shake_hands(&mut self, input: &mut &[u8]) -> Result<bool, RtmpError> {
        let done = match self.handshake.as_deref_mut() {
            Some(Handshake::Server(handshake)) => handshake.handle_input(input, &mut self.out)?,
            Some(Handshake::Client(handshake)) => handshake.handle_input(input, &mut self.out)?,
            None => true,
        };
        if done {
            self.handshake = None;
        }
        Ok(done)
    }

    /// 5.4.5: answer with our window if it is not what the peer was told last.
    fn handle_peer_bandwidth(&mut self, window: u32) {
        if window != self.window_out {
            self.announce_window(window);
        }
    }

    /// 7.1.7: pings are answered. All else is ignored, but a reply to a ping may not be too short.
    fn handle_user_control(&mut self, payload: &[u8]) -> Result<(), RtmpError> {
        let event = payload.first_chunk().ok_or(RtmpError::ControlMalformed)?;
        match u16::from_be_bytes(*event) {
            PING_REQUEST => {
                let timestamp = field(payload, 2)?;
                self.user_control(PING_RESPONSE, timestamp);
            }
            PING_RESPONSE => _ = field(payload, 2)?,
            _ => {}
        }
        Ok(())
    }
}

/// User control event types (7.1.7).
pub(super) const STREAM_BEGIN: u16 = 0;
pub(super) const STREAM_EOF: u16 = 1;
pub(super) const SET_BUFFER_LENGTH: u16 = 3;
const PING_REQUEST: u16 = 6;
const PING_RESPONSE: u16 = 7;

/// A window below this is taken as this: a peer that asks for an acknowledgement of every byte would
/// otherwise have us send more than it does.
const WINDOW_IN_MIN: u32 = 4096;

/// More bytes than any connection receives, and few enough that no sum overflows.
const BYTES_IN_MAX: u64 = 1 << 62;

/// The 32-bit field at `offset`.
fn field(payload: &[u8], offset: usize) -> Result<u32, RtmpError> {
    let bytes = payload.get(offset..).and_then(|rest| rest.first_chunk());
    bytes.map(|bytes| u32::from_be_bytes(*bytes)).ok_or(RtmpError::ControlMalformed)
}
