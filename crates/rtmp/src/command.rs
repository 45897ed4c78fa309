//! Commands: AMF0 messages that call something at the other end (Adobe RTMP 1.0 section 7.2).
//!
//! ```text
//!  command:  name (string) | transaction id (number) | command object or null | arguments ...
//!  reply:    "_result" or "_error" | same transaction id | properties or null | information
//!  status:   "onStatus" | 0 | null | { level, code, description }
//! ```

use std::borrow::Cow;

use super::RtmpError;
use super::amf0::{Decoder, Limits, RawValue, Value, encode};
use super::connection::Connection;
use super::message::{COMMAND_AMF0, COMMAND_AMF3, Message};

/// Chunk streams of what is neither control (2) nor media (4, 6, 7).
const CONNECTION_CHUNK_STREAM: u32 = 3;
const STREAM_CHUNK_STREAM: u32 = 5;

/// A command as received: its name, its transaction and what follows, in place.
#[derive(Debug)]
pub(super) struct Command<'a> {
    pub(super) name: Cow<'a, str>,
    /// 0: no reply is wanted.
    pub(super) transaction: f64,
    /// The command object; null if left out.
    pub(super) object: RawValue<'a>,
    /// As many as any command here has; null if left out.
    pub(super) arguments: [RawValue<'a>; 4],
}

impl<'a> Command<'a> {
    /// Reads a message of type 20 or 17. All of it is checked, also what no command has.
    pub(super) fn parse(message: &'a Message) -> Result<Self, RtmpError> {
        let payload = match message.header.type_id {
            COMMAND_AMF3 => strip_amf3_wrapper(&message.payload),
            _ => &message.payload,
        };
        let mut values = Decoder::new(payload, Limits::COMMAND);
        let name = values.next_raw()?.and_then(RawValue::as_str).ok_or(RtmpError::AmfMalformed)?;
        let transaction = values.next_raw()?.and_then(RawValue::as_number).unwrap_or(0.0);
        let object = values.next_raw()?.unwrap_or(RawValue::NULL);
        let mut arguments = [RawValue::NULL; 4];
        let mut places = arguments.iter_mut();
        while let Some(value) = values.next_raw()? {
            if let Some(place) = places.next() {
                *place = value;
            }
        }
        Ok(Self { name, transaction, object, arguments })
    }

    /// Text of argument `index`, empty if it is none.
    pub(super) fn text(&self, index: usize) -> Cow<'a, str> {
        self.arguments[index].as_str().unwrap_or_default()
    }

    pub(super) fn number(&self, index: usize) -> Option<f64> {
        self.arguments[index].as_number()
    }

    pub(super) fn boolean(&self, index: usize) -> Option<bool> {
        self.arguments[index].as_bool()
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
