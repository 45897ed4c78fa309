//! The client's end of an RTMP connection: one stream, published or played.
//!
//! ```text
//!  handshake ─▶ connect ─▶ [releaseStream, FCPublish] createStream ─▶ publish | play ─▶ Started
//! ```
//!
//! It speaks in the order ffmpeg and OBS do. Connecting the socket, TLS, deadlines and trying again are
//! the caller's.

mod replies;

use std::collections::VecDeque;

use super::amf0::Value;
use super::chunk::{ChunkWriter, ReaderLimits};
use super::command::{self, object};
use super::connection::{Connection, Handshake, SET_BUFFER_LENGTH};
use super::enhanced;
use super::handshake::ClientHandshake;
pub use super::handshake::HandshakeForm;
use super::message::{MESSAGE_BYTES_MAX, MediaMessage, MessageHeader, SET_DATA_FRAME, type_id};
use super::{RtmpError, RtmpUrl};
use crate::MediaKind;

/// How a [`ClientSession`] behaves.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// Keep only the first so many bytes of each audio, video and data payload. Default: all.
    ///
    /// For load generators: the rest is counted and never copied.
    pub keep_payload_bytes: Option<u32>,
    /// Chunk size to publish with, in bytes, 1..=2^31-1. Default 60,000, as ffmpeg.
    pub chunk_size: u32,
    /// Window in which the server is asked to acknowledge, in bytes. Default 2,500,000.
    pub window_ack_bytes: u32,
    /// Longest message to accept, in bytes. Default 2^24-1, the longest there is.
    pub max_message_bytes: u32,
    /// Memory for unfinished messages, in bytes. Default 32 MiB.
    pub partial_memory_bytes: u32,
    /// Form of the handshake. Default simple.
    pub handshake: HandshakeForm,
    /// `flashVer` to name in `connect`.
    pub flash_version: String,
    /// State Enhanced RTMP capabilities in `connect`: any codec, multitrack, ModEx. Default true.
    pub enhanced: bool,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            keep_payload_bytes: None,
            chunk_size: 60_000,
            window_ack_bytes: 2_500_000,
            max_message_bytes: MESSAGE_BYTES_MAX as u32,
            partial_memory_bytes: 32 << 20,
            handshake: HandshakeForm::Simple,
            flash_version: "FMLE/3.0 (compatible; Millstream)".to_owned(),
            enhanced: true,
        }
    }
}

/// Something the caller must know.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientEvent {
    /// The server accepted: media may be sent, or will come.
    Started,
    /// Media of the played stream.
    Media(MediaMessage),
    /// Any other status of the server after the start, e.g. `NetStream.Play.UnpublishNotify`.
    Status {
        /// Its code.
        code: String,
        /// Its description; empty if left out.
        description: String,
    },
    /// The server refused before the start. The session is over.
    Rejected {
        /// Code of the status or error; `NetConnection.Call.Failed` if left out.
        code: String,
        /// Its description; empty if left out.
        description: String,
    },
    /// The server ended the stream. The session is over.
    Ended {
        /// Code of the status, e.g. `NetStream.Play.Stop`.
        code: String,
    },
}

/// One RTMP connection, client side.
///
/// **After creation and after each [`handle_input`](Self::handle_input), take all of
/// [`poll_event`](Self::poll_event), then write and drain [`output`](Self::output).**
#[derive(Debug)]
pub struct ClientSession {
    connection: Connection,
    writer: ChunkWriter,
    events: VecDeque<ClientEvent>,
    stage: Stage,
    /// Message stream the server gave us.
    stream_id: u32,
    /// What to ask for.
    request: Option<Box<Request>>,
    publishes: bool,
    /// The server has stated what it can do of Enhanced RTMP.
    server_is_enhanced: bool,
    keep_payload_bytes: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Handshaking,
    Connecting,
    CreatingStream,
    Starting,
    Started,
    Over,
}

#[derive(Debug)]
struct Request {
    url: RtmpUrl,
    config: ClientConfig,
}

impl ClientSession {
    /// A session that will publish to `url`. `seed` makes the handshake's random bytes.
    pub fn publish(url: &RtmpUrl, config: &ClientConfig, seed: u64) -> Self {
        Self::new(url, config, seed, true)
    }

    /// A session that will play `url`. `seed` makes the handshake's random bytes.
    pub fn play(url: &RtmpUrl, config: &ClientConfig, seed: u64) -> Self {
        Self::new(url, config, seed, false)
    }

    fn new(url: &RtmpUrl, config: &ClientConfig, seed: u64, publishes: bool) -> Self {
        let mut out = Vec::new();
        let handshake = Handshake::Client(ClientHandshake::new(config.handshake, seed, &mut out));
        let limits = ReaderLimits {
            message_bytes: config.max_message_bytes,
            partial_bytes: config.partial_memory_bytes,
            keep_payload_bytes: config.keep_payload_bytes.unwrap_or(u32::MAX),
        };
        Self {
            connection: Connection::new(handshake, out, limits, config.window_ack_bytes),
            writer: ChunkWriter::new(),
            events: VecDeque::new(),
            stage: Stage::Handshaking,
            stream_id: 0,
            request: Some(Box::new(Request { url: url.clone(), config: config.clone() })),
            publishes,
            server_is_enhanced: false,
            keep_payload_bytes: limits.keep_payload_bytes,
        }
    }

    /// Takes all of `input` apart. After an error the session is over.
    pub fn handle_input(&mut self, mut input: &[u8]) -> Result<(), RtmpError> {
        self.connection.note_received(input.len());
        while let Some(message) = self.connection.next(&mut input)? {
            if command::is_command(message.header.type_id) {
                self.handle_command(&message)?;
            } else if let Ok(media) = message.into_media() {
                self.handle_media(media);
            }
        }
        if self.stage == Stage::Handshaking && self.connection.handshake_done() {
            self.send_connect();
        }
        self.connection.acknowledge();
        Ok(())
    }

    /// The next event, oldest first.
    pub fn poll_event(&mut self) -> Option<ClientEvent> {
        self.events.pop_front()
    }

    /// Bytes waiting to be written; the caller drains them. They end at a message boundary.
    pub fn output(&mut self) -> &mut Vec<u8> {
        self.connection.output()
    }

    /// Appends a media message of the published stream to the output.
    ///
    /// Metadata is marked for the server to keep (`@setDataFrame`). Ignored while not publishing.
    pub fn send_media(&mut self, kind: MediaKind, timestamp: u32, payload: &[u8]) {
        if self.stage != Stage::Started || !self.publishes {
            return;
        }
        let header =
            MessageHeader { type_id: type_id(kind), stream_id: self.stream_id, timestamp, length: 0 };
        let marked;
        let (chunk_stream_id, payload) = match kind {
            MediaKind::Audio => (4, payload),
            MediaKind::Video => (6, payload),
            MediaKind::Data => {
                marked = [SET_DATA_FRAME, payload].concat();
                (7, &marked[..])
            }
        };
        self.writer.write(self.connection.output(), chunk_stream_id, header, payload);
    }

    /// Asks the server to pause or go on at `at_ms` of the played stream (7.2.2.9).
    pub fn pause(&mut self, paused: bool, at_ms: u32) {
        self.call_stream("pause", &[Value::Null, paused.into(), f64::from(at_ms).into()]);
    }

    /// Ends the stream: `FCUnpublish` if it is published, `deleteStream`. Flush and close.
    pub fn end(&mut self) {
        if self.publishes && self.stage == Stage::Started {
            let name = self.request.as_deref().map_or("", |request| &*request.url.stream);
            let name = Value::from(name);
            command::send(&mut self.connection, 0, "FCUnpublish", 6.0, &[Value::Null, name]);
        }
        if matches!(self.stage, Stage::Starting | Stage::Started) {
            let stream_id = Value::Number(f64::from(self.stream_id));
            command::send(&mut self.connection, 0, "deleteStream", 0.0, &[Value::Null, stream_id]);
        }
        self.stage = Stage::Over;
    }

    /// Whether the server has said that it understands Enhanced RTMP; known from the start on.
    pub fn server_is_enhanced(&self) -> bool {
        self.server_is_enhanced
    }

    /// Bytes received, handshake included.
    pub fn bytes_in(&self) -> u64 {
        self.connection.bytes_in()
    }

    /// Servers begin a stream with two data messages of their own, which are no part of it.
    fn handle_media(&mut self, mut media: MediaMessage) {
        if media.kind == MediaKind::Data {
            if SERVER_DATA.iter().any(|prefix| media.payload.starts_with(prefix)) {
                return;
            }
            media.payload.truncate(self.keep_payload_bytes as usize);
        }
        self.events.push_back(ClientEvent::Media(media));
    }

    fn send_connect(&mut self) {
        let Some(request) = self.request.as_deref() else { return };
        let mut properties = vec![
            ("app", Value::from(&*request.url.app)),
            ("type", "nonprivate".into()),
            ("flashVer", Value::from(&*request.config.flash_version)),
            ("tcUrl", Value::from(&*request.url.tc_url())),
        ];
        if request.config.enhanced {
            properties.extend(enhanced::forward_anything());
        }
        let chunk_size = request.config.chunk_size.clamp(1, 0x7fff_ffff);
        command::send(&mut self.connection, 0, "connect", CONNECT, &[object(&properties)]);
        self.connection.announce_chunk_size(chunk_size);
        self.writer.adopt_chunk_size(chunk_size);
        self.stage = Stage::Connecting;
    }

    fn send_create_stream(&mut self) {
        let Some(request) = self.request.as_deref() else { return };
        self.connection.announce_window(request.config.window_ack_bytes);
        let name = Value::from(&*request.url.stream);
        if self.publishes {
            command::send(&mut self.connection, 0, "releaseStream", 2.0, &[Value::Null, name.clone()]);
            command::send(&mut self.connection, 0, "FCPublish", 3.0, &[Value::Null, name]);
        }
        command::send(&mut self.connection, 0, "createStream", CREATE_STREAM, &[Value::Null]);
        self.stage = Stage::CreatingStream;
    }

    fn send_start(&mut self) {
        let Some(request) = self.request.as_deref() else { return };
        let name = Value::from(&*request.url.stream);
        self.stage = Stage::Starting;
        if self.publishes {
            self.call_stream("publish", &[Value::Null, name, "live".into()]);
        } else {
            // -2000 is how ffmpeg and librtmp write "live or recorded".
            self.call_stream("play", &[Value::Null, name, Value::Number(-2000.0)]);
            self.connection.user_control_pair(SET_BUFFER_LENGTH, self.stream_id, BUFFER_MS);
        }
    }

    fn call_stream(&mut self, name: &str, values: &[Value]) {
        command::send(&mut self.connection, self.stream_id, name, 5.0, values);
    }
}

/// Transaction ids of the two calls whose results are waited for.
const CONNECT: f64 = 1.0;
const CREATE_STREAM: f64 = 4.0;

/// `|RtmpSampleAccess` and the `onStatus` of NetStream.Data.Start, as AMF0 strings.
const SERVER_DATA: [&[u8]; 2] = [b"\x02\x00\x11|RtmpSampleAccess", b"\x02\x00\x08onStatus"];

/// Buffer length told to the server, in milliseconds; live servers do not use it.
const BUFFER_MS: u32 = 3000;
