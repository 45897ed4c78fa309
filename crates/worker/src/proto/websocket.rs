//! The little of RFC 6455 a server needs that only sends: accept key, frame headers, and reading
//! control frames.
//!
//! Outgoing messages are single unmasked binary frames (section 5.2), so a message's header depends
//! on its length alone and is the same for every player. What clients send is read only for close
//! and ping.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};

/// Largest frame a client may send, bytes; players have nothing to say.
const CLIENT_FRAME_BYTES_MAX: usize = 4096;

/// Value of `Sec-WebSocket-Accept` for a `Sec-WebSocket-Key` (section 4.2.2).
pub(crate) fn accept_key(key: &str) -> String {
    let mut hash = Sha1::new();
    hash.update(key.as_bytes());
    hash.update(b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    STANDARD.encode(hash.finalize())
}

/// Header of an unfragmented binary message of `length` bytes (section 5.2).
pub(crate) fn write_binary_header(out: &mut Vec<u8>, length: usize) {
    write_header(out, Opcode::Binary, length);
}

/// A close frame with a status code and a reason (section 5.5.1).
pub(crate) fn write_close(out: &mut Vec<u8>, code: u16, reason: &str) {
    let reason = &reason.as_bytes()[..reason.len().min(123)];
    write_header(out, Opcode::Close, 2 + reason.len());
    out.extend_from_slice(&code.to_be_bytes());
    out.extend_from_slice(reason);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opcode {
    Binary = 2,
    Close = 8,
    Pong = 10,
}

fn write_header(out: &mut Vec<u8>, opcode: Opcode, length: usize) {
    out.push(0x80 | opcode as u8);
    match length {
        0..=125 => out.push(length as u8),
        126..=65_535 => {
            out.push(126);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        _ => {
            out.push(127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
}

/// Reads what a client sends.
#[derive(Debug, Default)]
pub(crate) struct ClientFrames {
    partial: Vec<u8>,
}

/// What came of a client's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientInput {
    /// Go on.
    Continue,
    /// The client closes the connection, or broke the protocol: end it.
    Close,
}

impl ClientFrames {
    /// One that another process has read for: what has come of a frame.
    pub(crate) fn resume(partial: Vec<u8>) -> Self {
        Self { partial }
    }

    /// What has come of a frame.
    pub(crate) fn partial(&self) -> &[u8] {
        &self.partial
    }

    /// Takes bytes in; answers to pings are added to `out`.
    pub(crate) fn handle_input(&mut self, input: &[u8], out: &mut Vec<u8>) -> ClientInput {
        self.partial.extend_from_slice(input);
        let mut consumed = 0;
        let outcome = loop {
            match self.next_frame(&self.partial[consumed..]) {
                Parsed::Incomplete => break ClientInput::Continue,
                Parsed::Invalid => break ClientInput::Close,
                Parsed::Frame { opcode: 8, .. } => break ClientInput::Close,
                Parsed::Frame { opcode, payload, bytes } => {
                    consumed += bytes;
                    if opcode == 9 {
                        write_header(out, Opcode::Pong, payload.len());
                        out.extend_from_slice(&payload);
                    }
                }
            }
        };
        self.partial.drain(..consumed);
        if self.partial.is_empty() {
            self.partial = Vec::new();
        }
        outcome
    }

    /// ```text
    /// | FIN, opcode | MASK, length | 0, 2 or 8 bytes length | 4 bytes mask | payload |
    /// ```
    fn next_frame(&self, bytes: &[u8]) -> Parsed {
        let &[first, second, ..] = bytes else { return Parsed::Incomplete };
        let opcode = first & 0x0f;
        let control = opcode >= 8;
        // Section 5.1: a client masks every frame. Section 5.5: control frames are whole and at
        // most 125 bytes.
        if second & 0x80 == 0 || first & 0x70 != 0 || (control && (first & 0x80 == 0 || second & 0x7f > 125))
        {
            return Parsed::Invalid;
        }
        let (length, head) = match second & 0x7f {
            126 if bytes.len() < 4 => return Parsed::Incomplete,
            126 => (usize::from(u16::from_be_bytes([bytes[2], bytes[3]])), 4),
            127 => return Parsed::Invalid,
            length => (usize::from(length), 2),
        };
        if length > CLIENT_FRAME_BYTES_MAX {
            return Parsed::Invalid;
        }
        let total = head + 4 + length;
        if bytes.len() < total {
            return Parsed::Incomplete;
        }
        let mask = &bytes[head..head + 4];
        let payload = bytes[head + 4..total].iter().zip(mask.iter().cycle()).map(|(byte, key)| byte ^ key);
        Parsed::Frame { opcode, payload: payload.collect(), bytes: total }
    }
}

enum Parsed {
    Incomplete,
    Invalid,
    Frame { opcode: u8, payload: Vec<u8>, bytes: usize },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_key_of_rfc_6455_section_1_3() {
        assert_eq!(accept_key("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn length_takes_the_shortest_form() {
        let rows: [(usize, &[u8]); 4] = [
            (125, &[0x82, 125]),
            (126, &[0x82, 126, 0, 126]),
            (65_535, &[0x82, 126, 0xff, 0xff]),
            (65_536, &[0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ];
        for (length, expected) in rows {
            let mut out = Vec::new();
            write_binary_header(&mut out, length);
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn masked_ping_of_rfc_6455_section_5_7_is_answered_in_any_pieces() {
        let ping = [0x89, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
        for cut in 0..=ping.len() {
            let (mut frames, mut out) = (ClientFrames::default(), Vec::new());
            assert_eq!(frames.handle_input(&ping[..cut], &mut out), ClientInput::Continue);
            assert_eq!(frames.handle_input(&ping[cut..], &mut out), ClientInput::Continue);
            assert_eq!(out, b"\x8a\x05Hello");
        }
    }

    #[test]
    fn close_and_broken_frames_end_the_connection() {
        let rows: [(&[u8], &str); 5] = [
            (&[0x88, 0x80, 1, 2, 3, 4], "close"),
            (&[0x89, 0x05, b'H', b'e'], "not masked"),
            (&[0x82, 0xff, 0, 0, 0, 0, 0, 1, 0, 0], "64-bit length"),
            (&[0xf2, 0x80], "reserved bits"),
            (&[0x09, 0x80], "fragmented control frame"),
        ];
        for (bytes, remark) in rows {
            let outcome = ClientFrames::default().handle_input(bytes, &mut Vec::new());
            assert_eq!(outcome, ClientInput::Close, "{remark}");
        }
    }
}
