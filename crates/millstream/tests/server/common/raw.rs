//! RTMP bytes written by hand, for what a well-behaved client never sends.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::TIMEOUT;
use super::rtmp::is_closed;

/// Connects and completes the simple handshake (Adobe RTMP specification 1.0, section 5.2).
pub(crate) fn handshake(server: SocketAddr) -> TcpStream {
    let mut socket = TcpStream::connect(server).expect("connect");
    socket.set_read_timeout(Some(TIMEOUT)).expect("set a timeout");
    socket.write_all(&c0_c1()).expect("send C0 and C1");
    let mut s0_s1_s2 = vec![0; 1 + 1536 + 1536];
    socket.read_exact(&mut s0_s1_s2).expect("receive S0, S1 and S2");
    assert_eq!(s0_s1_s2[0], 3, "version in S0");
    socket.write_all(&s0_s1_s2[1..1537]).expect("send C2");
    socket
}

/// C0 and C1 of the simple handshake: version 3, time and version zero, 1528 bytes that are no digest.
pub(crate) fn c0_c1() -> Vec<u8> {
    let mut bytes = vec![3];
    bytes.extend([0; 8]);
    bytes.extend((0..1528u32).map(|index| (index * 31 % 251) as u8));
    bytes
}

/// Basic and message header of a type-0 chunk (Adobe RTMP specification 1.0, section 5.3.1).
pub(crate) fn chunk_header(chunk_stream: u32, timestamp: u32, length: u32, kind: u8, stream: u32) -> Vec<u8> {
    let mut bytes = match chunk_stream {
        2..64 => vec![chunk_stream as u8],
        64..320 => vec![0, (chunk_stream - 64) as u8],
        _ => vec![1, ((chunk_stream - 64) & 0xff) as u8, ((chunk_stream - 64) >> 8) as u8],
    };
    bytes.extend(&timestamp.min(0xff_ffff).to_be_bytes()[1..]);
    bytes.extend(&length.to_be_bytes()[1..]);
    bytes.push(kind);
    bytes.extend(stream.to_le_bytes());
    if timestamp >= 0xff_ffff {
        bytes.extend(timestamp.to_be_bytes());
    }
    bytes
}

/// A complete Set Chunk Size message (section 5.4.1).
pub(crate) fn set_chunk_size(size: u32) -> Vec<u8> {
    let mut bytes = chunk_header(2, 0, 4, 1, 0);
    bytes.extend(size.to_be_bytes());
    bytes
}

/// A command message of AMF0 values, cut into chunks of 128 bytes.
pub(crate) fn command(values: &[Amf]) -> Vec<u8> {
    let mut body = Vec::new();
    values.iter().for_each(|value| value.write(&mut body));
    let mut bytes = chunk_header(3, 0, body.len() as u32, 20, 0);
    for (index, part) in body.chunks(128).enumerate() {
        if index > 0 {
            bytes.push(0xc3);
        }
        bytes.extend(part);
    }
    bytes
}

/// The few AMF0 values commands are made of.
pub(crate) enum Amf<'a> {
    Number(f64),
    Text(&'a [u8]),
    Null,
    Boolean(bool),
    Object(&'a [(&'a str, Amf<'a>)]),
}

impl Amf<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Amf::Number(value) => {
                out.push(0);
                out.extend(value.to_be_bytes());
            }
            Amf::Text(text) => {
                if let Ok(length) = u16::try_from(text.len()) {
                    out.push(2);
                    out.extend(length.to_be_bytes());
                } else {
                    out.push(12);
                    out.extend((text.len() as u32).to_be_bytes());
                }
                out.extend(*text);
            }
            Amf::Null => out.push(5),
            Amf::Boolean(value) => out.extend([1, u8::from(*value)]),
            Amf::Object(members) => {
                out.push(3);
                for (key, value) in *members {
                    out.extend((key.len() as u16).to_be_bytes());
                    out.extend(key.as_bytes());
                    value.write(out);
                }
                out.extend([0, 0, 9]);
            }
        }
    }
}

/// `connect` to `app`, then `createStream`: what comes before publish and play.
pub(crate) fn connect_and_create(app: &str) -> Vec<u8> {
    let mut bytes = command(&[
        Amf::Text(b"connect"),
        Amf::Number(1.0),
        Amf::Object(&[("app", Amf::Text(app.as_bytes())), ("tcUrl", Amf::Text(b"rtmp://localhost/"))]),
    ]);
    bytes.extend(command(&[Amf::Text(b"createStream"), Amf::Number(2.0), Amf::Null]));
    bytes
}

/// `publish` of `name` on message stream 1.
pub(crate) fn publish(name: impl AsRef<[u8]>) -> Vec<u8> {
    let values =
        [Amf::Text(b"publish"), Amf::Number(3.0), Amf::Null, Amf::Text(name.as_ref()), Amf::Text(b"live")];
    on_message_stream_1(command(&values))
}

/// `play` of `name` on message stream 1.
pub(crate) fn play(name: impl AsRef<[u8]>) -> Vec<u8> {
    let values = [Amf::Text(b"play"), Amf::Number(3.0), Amf::Null, Amf::Text(name.as_ref())];
    on_message_stream_1(command(&values))
}

fn on_message_stream_1(mut command: Vec<u8>) -> Vec<u8> {
    command[8..12].copy_from_slice(&1u32.to_le_bytes());
    command
}

/// Reads until the server closes; `None` when it has not within `limit`.
pub(crate) fn read_until_closed(socket: &mut TcpStream, limit: Duration) -> Option<Vec<u8>> {
    socket.set_read_timeout(Some(limit)).expect("set a timeout");
    let mut received = Vec::new();
    match socket.read_to_end(&mut received) {
        Ok(_) => Some(received),
        Err(error) if is_closed(&error) => Some(received),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => None,
        Err(error) => panic!("reading from the server: {error}"),
    }
}
