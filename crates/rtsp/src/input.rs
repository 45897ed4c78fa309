//! What comes on a connection, cut into requests and interleaved packets (RFC 2326 section 10.12).
//!
//! ```text
//! | "$" | channel 8 | length 16 | packet ... |
//! | request line CRLF | fields CRLF ... | CRLF | body ... |
//! ```
//! Heads and bodies have limits that hold before anything is parsed. A head is searched for its end once per
//! byte, however slowly it comes, and read by `rtsp-types` when it is whole. How long the body is has to be
//! said once and plainly: whoever reads the length otherwise would find another request behind it.

use rtsp_types::{Message, ParseError, Request, Response};

/// What an interleaved packet begins with.
pub const MAGIC: u8 = b'$';

/// Bytes ahead of an interleaved packet.
pub(crate) const FRAMING_BYTES: usize = 4;

/// What one connection may send at most.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of a request without its body.
    pub head_bytes_max: usize,
    /// Bytes of a body.
    pub body_bytes_max: usize,
    /// Lines of a head.
    pub lines_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { head_bytes_max: 8 << 10, body_bytes_max: 16 << 10, lines_max: 64 }
    }
}

/// Why a connection's input cannot be read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputError {
    /// A head is longer than allowed, or has too many lines.
    HeadTooLong,
    /// A body is longer than allowed.
    BodyTooLong,
    /// The length of a body is said twice, or is no number.
    Length,
    /// It is no request.
    NoRequest,
    /// It is a request of another version.
    Version,
    /// It is an interleaved packet, and no channel was set up.
    NoChannels,
}

impl InputError {
    /// For the log.
    pub fn reason(self) -> &'static str {
        match self {
            Self::HeadTooLong => "RTSP request head is too long",
            Self::BodyTooLong => "RTSP request body is too long",
            Self::Length => "RTSP request with an ambiguous length",
            Self::NoRequest => "not an RTSP request",
            Self::Version => "not RTSP 1.0",
            Self::NoChannels => "an interleaved packet before any channel was set up",
        }
    }
}

/// The next thing that a connection has sent.
#[derive(Debug)]
pub(crate) enum Item {
    Request(Box<Request<Vec<u8>>>),
    Answer(Box<Response<Vec<u8>>>),
    /// An interleaved packet: where it is, in [`Input::bytes`].
    Packet {
        channel: u8,
        from: usize,
        to: usize,
    },
}

/// Bytes that have come and were not read yet.
#[derive(Debug, Default)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    /// Everything before was read.
    from: usize,
    /// The head at hand has no end before.
    searched: usize,
    /// Requests, answers and packets so far.
    items: u64,
}

impl Input {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.from > 0 {
            self.bytes.drain(..self.from);
            self.searched = self.searched.saturating_sub(self.from);
            self.from = 0;
        }
        self.bytes.extend_from_slice(bytes);
        if self.bytes.is_empty() {
            // An idle connection holds no memory.
            self.bytes = Vec::new();
        }
    }

    /// Bytes that were not read yet.
    pub(crate) fn waiting(&self) -> usize {
        self.bytes.len() - self.from
    }

    /// A part of what has come, as [`Item::Packet`] names it, until more comes.
    pub(crate) fn bytes(&self, from: usize, to: usize) -> &[u8] {
        &self.bytes[from..to]
    }

    /// Requests, answers and packets that have come as a whole.
    pub(crate) fn items(&self) -> u64 {
        self.items
    }

    /// The next thing, if all of it is there. Without `has_channels`, interleaved packets are an error,
    /// before they have come.
    pub(crate) fn next(&mut self, limits: &Limits, has_channels: bool) -> Result<Option<Item>, InputError> {
        // Empty lines between messages are passed over, as everywhere.
        while self.searched <= self.from && matches!(self.bytes.get(self.from), Some(b'\r' | b'\n')) {
            self.from += 1;
        }
        let Some(first) = self.bytes.get(self.from) else { return Ok(None) };
        if *first == MAGIC {
            if !has_channels {
                return Err(InputError::NoChannels);
            }
            let Some(&[_, channel, high, low]) = self.bytes[self.from..].first_chunk() else {
                return Ok(None);
            };
            let from = self.from + FRAMING_BYTES;
            let to = from + usize::from(u16::from_be_bytes([high, low]));
            if to > self.bytes.len() {
                return Ok(None);
            }
            (self.from, self.searched) = (to, to);
            self.items += 1;
            return Ok(Some(Item::Packet { channel, from, to }));
        }
        let Some(head_end) = self.head_end() else {
            // Without a line of its own nothing says what it is, and nothing needs so much to say it.
            return if self.waiting() > limits.head_bytes_max {
                Err(InputError::HeadTooLong)
            } else {
                Ok(None)
            };
        };
        let head = &self.bytes[self.from..head_end];
        if head.len() > limits.head_bytes_max {
            return Err(InputError::HeadTooLong);
        }
        let body_bytes = body_length(head, limits)?;
        if body_bytes > limits.body_bytes_max {
            return Err(InputError::BodyTooLong);
        }
        let Some(message) = self.bytes.get(self.from..head_end + body_bytes) else {
            self.searched = head_end - 1;
            return Ok(None);
        };
        let item = match Message::<Vec<u8>>::parse(message) {
            Ok((Message::Request(request), read)) if read == message.len() => {
                if request.version() != rtsp_types::Version::V1_0 {
                    return Err(InputError::Version);
                }
                Item::Request(Box::new(request))
            }
            Ok((Message::Response(answer), read)) if read == message.len() => Item::Answer(Box::new(answer)),
            Ok(_) | Err(ParseError::Incomplete(_) | ParseError::Error) => return Err(InputError::NoRequest),
        };
        self.from = head_end + body_bytes;
        self.searched = self.from;
        self.items += 1;
        Ok(Some(item))
    }

    /// Where the head at hand ends, its empty line included.
    fn head_end(&mut self) -> Option<usize> {
        // The end may have come in pieces: what is before it is looked at again.
        let from = self.searched.saturating_sub(3).max(self.from);
        let end = self.bytes[from..].windows(4).position(|window| window == b"\r\n\r\n");
        self.searched = self.bytes.len();
        end.map(|at| from + at + 4)
    }
}

/// The length of the body that a head announces.
fn body_length(head: &[u8], limits: &Limits) -> Result<usize, InputError> {
    let mut length = None;
    for (at, line) in head.split(|byte| *byte == b'\n').enumerate() {
        if at > limits.lines_max {
            return Err(InputError::HeadTooLong);
        }
        // Lines that go on in the next one are read by some and not by others.
        if at > 0 && matches!(line.first(), Some(b' ' | b'\t')) {
            return Err(InputError::NoRequest);
        }
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = (line[..colon].trim_ascii(), line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            return Err(InputError::Length);
        }
        if !name.eq_ignore_ascii_case(b"content-length") {
            continue;
        }
        let is_number = !value.is_empty() && value.len() <= 9 && value.iter().all(u8::is_ascii_digit);
        if length.is_some() || !is_number {
            return Err(InputError::Length);
        }
        length = Some(value.iter().fold(0, |number, digit| number * 10 + usize::from(digit - b'0')));
    }
    Ok(length.unwrap_or(0))
}
