//! Commands: AMF0 messages that call something at the other end (Adobe RTMP 1.0 section 7.2).
//!
//! ```text
//!  command:  name (string) | transaction id (number) | command object or null | arguments ...
//!  reply:    "_result" or "_error" | same transaction id | properties or null | information
//!  status:   "onStatus" | 0 | null | { level, code, description }
//! ```

use super::RtmpError;
use super::amf0::{Decoder, Limits, Value, encode};
use super::connection::Connection;
use super::message::{COMMAND_AMF0, COMMAND_AMF3, DATA_AMF0, Message};

/// Chunk streams of what is neither control (2) nor media (4, 6, 7).
const CONNECTION_CHUNK_STREAM: u32 = 3;
const STREAM_CHUNK_STREAM: u32 = 5;

/// A command as received: its name, its transaction and what follows.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) name: String,
    /// 0: no reply is wanted.
    pub(super) transaction: f64,
    /// The command object; `Null` if left out.
    pub(super) object: Value,
    pub(super) arguments: Vec<Value>,
}

impl Command {
    /// Reads a message of type 20 or 17.
    pub(super) fn parse(message: &Message) -> Result<Self, RtmpError> {
        let payload = match message.header.type_id {
            COMMAND_AMF3 => strip_amf3_wrapper(&message.payload),
            _ => &message.payload,
        };
        let mut values = Decoder::new(payload, Limits::COMMAND);
        let Some(Value::String(name)) = values.next_value()? else { return Err(RtmpError::AmfMalformed) };
        let transaction = values.next_value()?.as_ref().and_then(Value::as_number).unwrap_or(0.0);
        let object = values.next_value()?.unwrap_or(Value::Null);
        let mut arguments = Vec::new();
        while let Some(value) = values.next_value()? {
            arguments.push(value);
        }
        Ok(Self { name, transaction, object, arguments })
    }

    /// Text of argument `index`, empty if it is none.
    pub(super) fn text(&self, index: usize) -> &str {
        self.arguments.get(index).and_then(Value::as_str).unwrap_or("")
    }

    pub(super) fn number(&self, index: usize) -> Option<f64> {
        self.arguments.get(index).and_then(Value::as_number)
    }

    pub(super) fn boolean(&self, index: usize) -> Option<bool> {
        self.arguments.get(index).and_then(Value::as_bool)
    }
}

pub(super) fn is_command(type_id: u8) -> bool {
    matches!(type_id, COMMAND_AMF0 | COMMAND_AMF3)
}

/// Sends a command on message stream `stream_id`.
pub(super) fn send(
    connection: &mut Connection,
    stream_id: u32,
    name: &str,
    transaction: f64,
    values: &[Value],
) {
    let mut payload = Vec::with_capacity(128);
    encode(&mut payload, &name.into());
    encode(&mut payload, &transaction.into());
    values.iter().for_each(|value| encode(&mut payload, value));
    let chunk_stream = if stream_id == 0 { CONNECTION_CHUNK_STREAM } else { STREAM_CHUNK_STREAM };
    connection.send(chunk_stream, COMMAND_AMF0, stream_id, &payload);
}

/// Sends AMF0 data on message stream `stream_id`.
pub(super) fn send_data(connection: &mut Connection, stream_id: u32, values: &[Value]) {
    let mut payload = Vec::with_capacity(64);
    values.iter().for_each(|value| encode(&mut payload, value));
    connection.send(STREAM_CHUNK_STREAM, DATA_AMF0, stream_id, &payload);
}

/// Sends `onStatus`.
pub(super) fn send_status(
    connection: &mut Connection,
    stream_id: u32,
    level: &str,
    code: &str,
    description: &str,
) {
    send(connection, stream_id, "onStatus", 0.0, &[Value::Null, information(level, code, description)]);
}

/// The information object of a reply or status.
pub(super) fn information(level: &str, code: &str, description: &str) -> Value {
    object(&[("level", level.into()), ("code", code.into()), ("description", description.into())])
}

/// An object with these properties.
pub(super) fn object(properties: &[(&str, Value)]) -> Value {
    Value::Object(properties.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
}

fn strip_amf3_wrapper(payload: &[u8]) -> &[u8] {
    payload.strip_prefix(&[0]).unwrap_or(payload)
}
