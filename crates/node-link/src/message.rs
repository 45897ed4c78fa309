//! Messages, once both nodes have introduced themselves.
//!
//! ```text
//! kind:1 | length:2 | what the kind says
//! ```
//! Streams are named once, when they are asked for, and by a number of the fetching node from then on. Each
//! direction of a link has its own numbers.
//!
//! | kind | from | says |
//! |---|---|---|
//! | 1 subscribe | fetching | number, bytes it takes ahead, name of the stream |
//! | 2 accept | serving | number, lane, which publication it is, its tracks |
//! | 3 refuse | serving | number, why, nodes that may have room |
//! | 4 unsubscribe | fetching | number; answered by `end` unless that is under way |
//! | 5 end | serving | number, why; the number is free |
//! | 6 credit | fetching | number, bytes it has used |
//! | 7 frame | serving | number, head of a frame, its bytes or the first of them |
//! | 8 more | serving | number, the next bytes of its frame |
//! | 9 gap | serving | number, frames that were left out before the next one |
//! | 10 ping, 11 pong | both | a number |
//! | 12 goodbye | both | why the link is closed |
//! | 13 relay | both | address of the node for datagrams |
//! | 14 key | serving | number, a key of the stream, which packets are sealed with after the one before |
//! | 15 attach | fetching | number, handle in datagrams, the first packet it lacks |
//! | 16 left | fetching | number, a node that had the stream's keys by way of this one and has let it go |
//!
//! 13 to 16 belong to streams of packets, whose media goes by UDP (crate `relay`); what they carry is
//! opaque here. Such a stream is accepted with its tracks, and its keys follow.

use std::fmt;

use zeroize::ZeroizeOnDrop;

use crate::error::{Goodbye, LinkError, StreamEnd, StreamRefusal};
use crate::limits::{
    ADDRESS_BYTES_MAX, MESSAGE_BYTES_MAX, NAME_BYTES_MAX, OTHERS_MAX, STREAM_BYTES_MAX, TRACKS_BYTES_MAX,
};
use crate::wire::{Reader, put_bytes, put_number};

/// In which form a stream crosses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Frames, on the link itself.
    Frames,
    /// RTP packets, beside it.
    Packets,
}

/// What a node serves under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publication {
    /// Its lane.
    pub lane: Lane,
    /// Which start of its home node it is of.
    pub instance: u64,
    /// Its number in the cluster: a stream that goes on from another parent is the same publication.
    pub epoch: u64,
    /// Tracks of packets, in the server's own form; at most [`TRACKS_BYTES_MAX`].
    pub tracks: Vec<u8>,
}

/// Bytes of a stream's key.
pub const STREAM_KEY_BYTES: usize = 32;

/// A key of a stream of packets, with its epoch.
#[derive(Clone, PartialEq, Eq, ZeroizeOnDrop)]
pub struct StreamKey(pub [u8; STREAM_KEY_BYTES]);

/// A packet's place in its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Lower bits of its epoch.
    pub epoch: u8,
    /// Its index in that.
    pub index: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    Subscribe { id: u32, window: u32, stream: &'a str },
    Accept { id: u32, publication: Publication },
    Refuse { id: u32, why: StreamRefusal, others: Vec<String> },
    Unsubscribe { id: u32 },
    End { id: u32, why: StreamEnd },
    Credit { id: u32, bytes: u32 },
    Frame { id: u32, head_and_bytes: &'a [u8] },
    More { id: u32, bytes: &'a [u8] },
    Gap { id: u32, frames: u32 },
    Ping(u32),
    Pong(u32),
    Goodbye(Goodbye),
    Relay { address: &'a str },
    Key { id: u32, key: StreamKey },
    Attach { id: u32, handle: u16, from: Option<Position> },
    Left { id: u32, node: &'a str },
}

/// Bytes before what a message says.
pub(crate) const HEADER_BYTES: usize = 3;

impl<'a> Message<'a> {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put(out, self.kind(), |out| match self {
            Self::Subscribe { id, window, stream } => {
                put_number(out, u64::from(*id));
                put_number(out, u64::from(*window));
                put_bytes(out, stream.as_bytes());
            }
            Self::Accept { id, publication } => {
                put_number(out, u64::from(*id));
                out.push(u8::from(publication.lane == Lane::Packets));
                out.extend(publication.instance.to_be_bytes());
                out.extend(publication.epoch.to_be_bytes());
                put_bytes(out, &publication.tracks);
            }
            Self::Refuse { id, why, others } => {
                put_number(out, u64::from(*id));
                out.push(why.number());
                put_number(out, others.len() as u64);
                others.iter().for_each(|other| put_bytes(out, other.as_bytes()));
            }
            Self::Unsubscribe { id } => put_number(out, u64::from(*id)),
            Self::End { id, why } => {
                put_number(out, u64::from(*id));
                out.push(why.number());
            }
            Self::Credit { id, bytes: number } | Self::Gap { id, frames: number } => {
                put_number(out, u64::from(*id));
                put_number(out, u64::from(*number));
            }
            Self::Frame { id, head_and_bytes: bytes } | Self::More { id, bytes } => {
                put_number(out, u64::from(*id));
                out.extend(*bytes);
            }
            Self::Ping(number) | Self::Pong(number) => put_number(out, u64::from(*number)),
            Self::Goodbye(why) => out.push(why.number()),
            Self::Relay { address } => put_bytes(out, address.as_bytes()),
            Self::Key { id, key } => {
                put_number(out, u64::from(*id));
                out.extend(key.0);
            }
            Self::Attach { id, handle, from } => {
                put_number(out, u64::from(*id));
                out.extend(handle.to_be_bytes());
                out.push(u8::from(from.is_some()));
                if let Some(Position { epoch, index }) = from {
                    out.push(*epoch);
                    out.extend(index.to_be_bytes());
                }
            }
            Self::Left { id, node } => {
                put_number(out, u64::from(*id));
                put_bytes(out, node.as_bytes());
            }
        });
    }

    /// Reads the message at the beginning of `input`, and how many bytes it is; `None` while it is not
    /// complete.
    pub(crate) fn read(input: &'a [u8]) -> Result<Option<(Self, usize)>, LinkError> {
        let &[kind, high, low, ref rest @ ..] = input else { return Ok(None) };
        let len = usize::from(u16::from_be_bytes([high, low]));
        if len > MESSAGE_BYTES_MAX {
            return Err(LinkError::Malformed("a message that is too long"));
        }
        let Some(body) = rest.get(..len) else { return Ok(None) };
        let mut read = Reader::new(body, name(kind));
        let message = match kind {
            10 => Self::Ping(read.number32()?),
            11 => Self::Pong(read.number32()?),
            12 => {
                let why = Goodbye::from_number(read.byte()?);
                Self::Goodbye(why.ok_or_else(|| read.malformed())?)
            }
            13 => Self::Relay { address: read.text(ADDRESS_BYTES_MAX)? },
            _ => Self::read_of_stream(kind, read.number32()?, &mut read)?,
        };
        read.end()?;
        Ok(Some((message, HEADER_BYTES + len)))
    }

    /// One that is about the stream of number `id`.
    fn read_of_stream(kind: u8, id: u32, read: &mut Reader<'a>) -> Result<Self, LinkError> {
        Ok(match kind {
            1 => {
                let window = read.number32()?;
                let stream = read.text(STREAM_BYTES_MAX)?;
                if stream.is_empty() {
                    return Err(read.malformed());
                }
                Self::Subscribe { id, window, stream }
            }
            2 => {
                let lane = match read.byte()? {
                    0 => Lane::Frames,
                    1 => Lane::Packets,
                    _ => return Err(read.malformed()),
                };
                let (instance, epoch) = (read.array().map(u64::from_be_bytes)?, read.array()?);
                let (epoch, tracks) = (u64::from_be_bytes(epoch), read.bytes(TRACKS_BYTES_MAX)?.to_vec());
                Self::Accept { id, publication: Publication { lane, instance, epoch, tracks } }
            }
            3 => {
                let why = StreamRefusal::from_number(read.byte()?).ok_or_else(|| read.malformed())?;
                let count = read.number_to(OTHERS_MAX)?;
                let name = |_| read.text(NAME_BYTES_MAX).map(str::to_owned);
                Self::Refuse { id, why, others: (0..count).map(name).collect::<Result<_, _>>()? }
            }
            4 => Self::Unsubscribe { id },
            5 => {
                let why = StreamEnd::from_number(read.byte()?);
                Self::End { id, why: why.ok_or_else(|| read.malformed())? }
            }
            6 => Self::Credit { id, bytes: read.number32()? },
            7 => Self::Frame { id, head_and_bytes: read.rest() },
            8 => Self::More { id, bytes: read.rest() },
            9 => Self::Gap { id, frames: read.number32()? },
            14 => Self::Key { id, key: StreamKey(read.array()?) },
            15 => {
                let handle = u16::from_be_bytes(read.array()?);
                let from = match read.byte()? {
                    0 => None,
                    1 => Some(Position { epoch: read.byte()?, index: u32::from_be_bytes(read.array()?) }),
                    _ => return Err(read.malformed()),
                };
                Self::Attach { id, handle, from }
            }
            16 => Self::Left { id, node: read.text(NAME_BYTES_MAX)? },
            _ => return Err(LinkError::Malformed("a message of no kind")),
        })
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Subscribe { .. } => 1,
            Self::Accept { .. } => 2,
            Self::Refuse { .. } => 3,
            Self::Unsubscribe { .. } => 4,
            Self::End { .. } => 5,
            Self::Credit { .. } => 6,
            Self::Frame { .. } => 7,
            Self::More { .. } => 8,
            Self::Gap { .. } => 9,
            Self::Ping(_) => 10,
            Self::Pong(_) => 11,
            Self::Goodbye(_) => 12,
            Self::Relay { .. } => 13,
            Self::Key { .. } => 14,
            Self::Attach { .. } => 15,
            Self::Left { .. } => 16,
        }
    }
}

/// Writes a message of `kind` that says what `body` writes.
fn put(out: &mut Vec<u8>, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.extend([kind, 0, 0]);
    let begin = out.len();
    body(out);
    let len = u16::try_from(out.len() - begin).expect("messages are shorter than their limit");
    out[begin - 2..begin].copy_from_slice(&len.to_be_bytes());
}

fn name(kind: u8) -> &'static str {
    const NAMES: [&str; 16] = [
        "a subscription",
        "an acceptance",
        "a refusal",
        "an unsubscription",
        "an end",
        "a credit",
        "a frame",
        "a part of a frame",
        "a gap",
        "a ping",
        "a pong",
        "a goodbye",
        "an address",
        "a key",
        "an attachment",
        "a node that has left",
    ];
    NAMES.get(usize::from(kind).wrapping_sub(1)).copied().unwrap_or("a message of no kind")
}

impl fmt::Debug for StreamKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StreamKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Message<'static>> {
        let publication =
            Publication { lane: Lane::Packets, instance: 7, epoch: 1 << 40, tracks: vec![1, 2, 3] };
        let others = vec!["edge-1".to_owned(), "edge-2".to_owned()];
        let position = Position { epoch: 3, index: 70_000 };
        vec![
            Message::Subscribe { id: 1, window: 1 << 20, stream: "live/жук" },
            Message::Accept { id: 300, publication: publication.clone() },
            Message::Accept { id: 1, publication: Publication { lane: Lane::Frames, ..publication } },
            Message::Refuse { id: 1, why: StreamRefusal::Full, others },
            Message::Refuse { id: 1, why: StreamRefusal::NotHere, others: Vec::new() },
            Message::Unsubscribe { id: u32::MAX },
            Message::End { id: 1, why: StreamEnd::PublisherEnded },
            Message::Credit { id: 1, bytes: 70_000 },
            Message::Frame { id: 1, head_and_bytes: b"head and bytes" },
            Message::More { id: 1, bytes: b"" },
            Message::Gap { id: 1, frames: 12 },
            Message::Ping(1),
            Message::Pong(u32::MAX),
            Message::Goodbye(Goodbye::Leaving),
            Message::Relay { address: "192.0.2.1:8290" },
            Message::Key { id: 1, key: StreamKey([9; STREAM_KEY_BYTES]) },
            Message::Attach { id: 1, handle: 0xfffe, from: Some(position) },
            Message::Attach { id: 1, handle: 0, from: None },
            Message::Left { id: 7, node: "edge-1" },
        ]
    }

    #[test]
    fn messages_are_read_as_they_were_written_and_not_before_they_are_complete() {
        for message in all() {
            let mut bytes = Vec::new();
            message.put(&mut bytes);
            let len = bytes.len();
            bytes.extend(b"next");
            assert_eq!(Message::read(&bytes), Ok(Some((message.clone(), len))));
            for cut in 0..len {
                assert_eq!(Message::read(&bytes[..cut]), Ok(None), "{message:?} cut at {cut}");
            }
        }
        assert!(!format!("{:?}", all()).contains("9, 9"), "keys do not show");
    }

    #[test]
    fn messages_with_a_byte_less_or_more_than_they_say_are_malformed() {
        for message in all() {
            // These say anything.
            if matches!(message, Message::Frame { .. } | Message::More { .. }) {
                continue;
            }
            let mut bytes = Vec::new();
            message.put(&mut bytes);
            let longer = [&bytes[..2], &[bytes[2] + 1], &bytes[3..], &[0]].concat();
            assert!(matches!(Message::read(&longer), Err(LinkError::Malformed(_))), "{message:?}");
            let shorter = [&bytes[..2], &[bytes[2] - 1], &bytes[3..]].concat();
            assert!(matches!(Message::read(&shorter), Err(LinkError::Malformed(_))), "{message:?}");
        }
        let long = [7, 0xff, 0xff];
        assert_eq!(Message::read(&long), Err(LinkError::Malformed("a message that is too long")));
        assert!(Message::read(&[17, 0, 1, 1]).is_err() && Message::read(&[0, 0, 1, 1]).is_err());
    }
}
