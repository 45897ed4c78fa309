//! Helpers of the behaviour tests: raw chunks, raw commands, and two sessions joined without a network.
#![allow(dead_code, unreachable_pub, reason = "a module of two test binaries, each of which uses some of it")]

use rtmp::amf0::{Value, encode};
use rtmp::chunk::{ChunkReader, ReaderLimits};
use rtmp::client::{ClientConfig, ClientEvent, ClientSession};
use rtmp::message::Message;
use rtmp::server::{ServerConfig, ServerEvent, ServerSession};
use rtmp::{RtmpError, RtmpUrl};

/// Limits that no well-behaved message meets.
pub const WIDE: ReaderLimits =
    ReaderLimits { message_bytes: 0xff_ffff, partial_bytes: 64 << 20, keep_payload_bytes: u32::MAX };

/// A chunk header of format 0 with a 1-byte basic header.
pub fn header0(chunk_stream: u8, time: u32, length: u32, type_id: u8, stream: u32) -> Vec<u8> {
    let mut header = vec![chunk_stream];
    header.extend_from_slice(&time.min(0xff_ffff).to_be_bytes()[1..]);
    header.extend_from_slice(&length.to_be_bytes()[1..]);
    header.push(type_id);
    header.extend_from_slice(&stream.to_le_bytes());
    if time >= 0xff_ffff {
        header.extend_from_slice(&time.to_be_bytes());
    }
    header
}

/// A message in one chunk of format 0.
pub fn message0(chunk_stream: u8, time: u32, type_id: u8, payload: &[u8]) -> Vec<u8> {
    [header0(chunk_stream, time, payload.len() as u32, type_id, 1), payload.to_vec()].concat()
}

/// Set Chunk Size with any value.
pub fn set_chunk_size(size: u32) -> Vec<u8> {
    message0(2, 0, 1, &size.to_be_bytes())
}

/// All messages in `input`, or the error in it.
pub fn read_all(reader: &mut ChunkReader, mut input: &[u8]) -> Result<Vec<Message>, RtmpError> {
    let mut messages = Vec::new();
    while let Some(message) = reader.next_message(&mut input)? {
        messages.push(message);
    }
    assert!(input.is_empty(), "the reader takes all of its input");
    Ok(messages)
}

/// AMF0 bytes of some values.
pub fn amf(values: &[Value]) -> Vec<u8> {
    let mut bytes = Vec::new();
    values.iter().for_each(|value| encode(&mut bytes, value));
    bytes
}

/// An AMF0 object.
pub fn object(properties: &[(&str, Value)]) -> Value {
    Value::Object(properties.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
}

/// A command message in one chunk; set the chunk size large before.
pub fn command(name: &str, transaction: f64, values: &[Value]) -> Vec<u8> {
    let payload = [amf(&[name.into(), transaction.into()]), amf(values)].concat();
    message0(3, 0, 20, &payload)
}

/// A server session behind its handshake, at a large chunk size, with its output drained.
pub fn server_after_handshake(config: &ServerConfig) -> ServerSession {
    let mut server = ServerSession::new(config, 1);
    let mut hello = vec![0; 1 + 2 * 1536];
    hello[0] = 3;
    server.handle_input(&hello).unwrap();
    server.handle_input(&set_chunk_size(1 << 20)).unwrap();
    assert_eq!(server.output().len(), hello.len());
    server.output().clear();
    server
}

/// A server session that accepted `connect` to `live`, with its output drained.
pub fn server_connected(config: &ServerConfig) -> ServerSession {
    let mut server = server_after_handshake(config);
    server.handle_input(&command("connect", 1.0, &[object(&[("app", "live".into())])])).unwrap();
    assert!(matches!(server.poll_event(), Some(ServerEvent::Connect(_))));
    server.accept_connect();
    server.output().clear();
    server
}

/// A server session with an accepted publisher of `live/stream`, with its output drained.
pub fn server_publishing(config: &ServerConfig) -> ServerSession {
    let mut server = server_connected(config);
    server.handle_input(&command("publish", 5.0, &[Value::Null, "stream".into(), "live".into()])).unwrap();
    assert!(matches!(server.poll_event(), Some(ServerEvent::Publish(_))));
    server.accept_publish();
    server.output().clear();
    server
}

/// A server session with an accepted player of `live/stream`, with its output drained.
pub fn server_playing(config: &ServerConfig) -> ServerSession {
    let mut server = server_connected(config);
    server.handle_input(&command("play", 0.0, &[Value::Null, "stream".into()])).unwrap();
    assert!(matches!(server.poll_event(), Some(ServerEvent::Play(_))));
    server.accept_play();
    server.output().clear();
    server
}

/// Takes the server's output apart: control messages as they are, commands as values.
pub fn said(server: &mut ServerSession) -> Vec<Said> {
    said_in_chunks(server, 60_000)
}

/// The same of a server that may have announced another chunk size, or none yet: 128.
pub fn said_in_chunks(server: &mut ServerSession, chunk_size: u32) -> Vec<Said> {
    let mut reader = ChunkReader::new(WIDE);
    let output = std::mem::take(server.output());
    let input = [set_chunk_size(chunk_size), output].concat();
    read_all(&mut reader, &input).unwrap().into_iter().map(Said::from).collect()
}

/// One message of a session's output.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    Values(Vec<Value>),
    Control(u8, Vec<u8>),
}

impl From<Message> for Said {
    fn from(message: Message) -> Self {
        if !matches!(message.header.type_id, 18 | 20) {
            return Self::Control(message.header.type_id, message.payload);
        }
        let mut decoder = rtmp::amf0::Decoder::new(&message.payload, rtmp::amf0::Limits::COMMAND);
        Self::Values(std::iter::from_fn(|| decoder.next_value().unwrap()).collect())
    }
}

/// Codes of the `onStatus`, `_result` and `_error` information in the output, in order.
pub fn codes(said: &[Said]) -> Vec<String> {
    let code = |said: &Said| match said {
        Said::Values(values) => match values.iter().find_map(|value| value.get("code")) {
            Some(Value::String(code)) => Some(code.clone()),
            _ => None,
        },
        Said::Control(..) => None,
    };
    said.iter().filter_map(code).collect()
}

pub fn url() -> RtmpUrl {
    "rtmp://localhost/live/stream?token=secret".parse().unwrap()
}

/// A client and a server joined back to back, and everything they told.
pub struct Pair {
    pub client: ClientSession,
    pub server: ServerSession,
    /// All that the client wrote.
    pub client_bytes: Vec<u8>,
    pub client_events: Vec<ClientEvent>,
    pub server_events: Vec<ServerEvent>,
}

impl Pair {
    pub fn publish(config: &ClientConfig) -> Self {
        Self::new(ClientSession::publish(&url(), config, 7))
    }

    pub fn play(config: &ClientConfig) -> Self {
        Self::new(ClientSession::play(&url(), config, 7))
    }

    fn new(client: ClientSession) -> Self {
        let server = ServerSession::new(&ServerConfig::default(), 8);
        let (client_events, server_events) = Default::default();
        let mut pair = Self { client, server, client_bytes: Vec::new(), client_events, server_events };
        pair.run();
        pair
    }

    /// Moves bytes until both are silent; every question is answered with yes.
    pub fn run(&mut self) {
        loop {
            let to_server = std::mem::take(self.client.output());
            self.client_bytes.extend(&to_server);
            self.server.handle_input(&to_server).unwrap();
            while let Some(event) = self.server.poll_event() {
                match event {
                    ServerEvent::Connect(_) => self.server.accept_connect(),
                    ServerEvent::Publish(_) => self.server.accept_publish(),
                    ServerEvent::Play(_) => self.server.accept_play(),
                    _ => {}
                }
                self.server_events.push(event);
            }
            let to_client = std::mem::take(self.server.output());
            self.client.handle_input(&to_client).unwrap();
            self.client_events.extend(std::iter::from_fn(|| self.client.poll_event()));
            if to_server.is_empty() && to_client.is_empty() {
                return;
            }
        }
    }
}
