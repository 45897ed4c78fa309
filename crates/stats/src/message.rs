//! The statistics message, version 1: a map of groups, each of them a map of equally long arrays.
//!
//! ```text
//! { "version": 1, "sequence": .., "time_ms": .., "interval_ms": .., "protocols": [..],
//!   "workers":  { "index": [..], "load_percent": [..], .. },
//!   "streams":  { "name": [..], "live": [..], .. },
//!   "sessions": { "worker": [..], "serial": [..], "stream": [..], .. } }
//! ```
//!
//! Element `i` of every array of a group describes the same worker, stream or session. MessagePack
//! is the form of the wire; JSON has the same keys, and `null` where a float is not a number.
//! Described for readers in docs/statistics.md. A reader ignores keys it does not know; `version`
//! changes only when a key changes its meaning.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The version that is written, and the only one that is read.
pub const VERSION: u32 = 1;
/// WebSocket subprotocol of the stream of messages (RFC 6455 section 1.9).
pub const SUBPROTOCOL: &str = "millstream.stats.v1";
/// Prefix of the subprotocol in which a browser, which cannot set headers here, passes a token: the
/// token follows in base64url without padding (RFC 4648 section 5).
pub const TOKEN_SUBPROTOCOL_PREFIX: &str = "bearer.";
/// Maximum bytes of a message that a reader should accept: enough for a million sessions.
pub const MESSAGE_BYTES_MAX: usize = 128 << 20;
/// `Sessions::stream` of a session that has no stream.
pub const NO_STREAM: u32 = u32::MAX;
/// `Streams::publisher_worker` of a stream without a publisher.
pub const NO_WORKER: i32 = -1;
/// `Sessions::role` of a session that neither publishes nor plays yet.
pub const ROLE_PENDING: u8 = 0;
/// `Sessions::role` of a publisher.
pub const ROLE_PUBLISHER: u8 = 1;
/// `Sessions::role` of a player.
pub const ROLE_PLAYER: u8 = 2;

/// One message: the state of the whole server at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StatsMessage {
    /// Version of the schema, 1.
    pub version: u32,
    /// Grows by one from message to message, since the server started; a gap means that messages
    /// were skipped.
    pub sequence: u64,
    /// When the message was put together, milliseconds since 1970, UTC.
    pub time_ms: u64,
    /// Interval between messages, milliseconds.
    pub interval_ms: u32,
    /// Names of protocols, indexed by `sessions.protocol`.
    pub protocols: Vec<String>,
    /// Workers, one element each.
    pub workers: Workers,
    /// Streams, one element each, in no stable order.
    pub streams: Streams,
    /// Sessions, one element each, in no stable order.
    pub sessions: Sessions,
}

/// Declares a group of columns once: its fields, and that they are equally long.
macro_rules! columns {
    (
        $(#[$about:meta])*
        $Group:ident $([$(#[$text_doc:meta])* $text:ident: String])? {
            $($(#[$doc:meta])* $column:ident: $number:ident,)*
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
        pub struct $Group {
            $($(#[$text_doc])* pub $text: Vec<String>,)?
            $($(#[$doc])* #[serde(with = "msgpack_array::serde")] pub $column: Vec<$number>,)*
        }

        impl $Group {
            fn are_even(&self) -> bool {
                let lengths = [$(self.$text.len(),)? $(self.$column.len(),)*];
                lengths.iter().all(|length| *length == lengths[0])
            }
        }
    };
}

columns! {
    /// Columns of workers.
    Workers {
        /// Index of the worker.
        index: u16,
        /// CPU time in the last second, percent of one core.
        load_percent: f32,
        /// Open sessions.
        sessions: u32,
        /// CPU time the worker took for its part of this message, microseconds.
        snapshot_us: u32,
        /// Bits received in the last second, on all sockets.
        bits_in_per_second: u64,
        /// Bits sent in the last second, on all sockets.
        bits_out_per_second: u64,
    }
}

columns! {
    /// Columns of streams.
    Streams [
        /// `app/name`.
        name: String
    ] {
        /// Whether it has a publisher.
        live: bool,
        /// Worker of its publisher; -1 without one.
        publisher_worker: i32,
        /// Players on all workers, waiting ones included.
        players: u32,
        /// Bits received from its publisher in the last second.
        bits_in_per_second: u64,
        /// Bits sent to its players in the last second.
        bits_out_per_second: u64,
    }
}

columns! {
    /// Columns of sessions.
    Sessions {
        /// Index of the worker that has it. With `serial` this is its id: `worker-serial` as text,
        /// everywhere else in the API.
        worker: u16,
        /// Its number on the worker, below 2^48; never reused.
        serial: u64,
        /// Its stream: an index into the arrays of `streams` of the same message; 4294967295 for none.
        stream: u32,
        /// 0: neither publishes nor plays yet, 1: publisher, 2: player.
        role: u8,
        /// An index into `protocols`.
        protocol: u8,
        /// Time since it was accepted, milliseconds.
        connected_ms: u64,
        /// Bits of the last second, in the direction of its role: received from publishers, sent to players.
        bits_per_second: u64,
        /// RTP packets, or messages of RTMP and FLV, in that direction, so far.
        packets: u64,
        /// The same in the last second.
        packets_per_second: u32,
        /// WebRTC: packets lost so far.
        lost_packets: u64,
        /// WebRTC: share lost, percent: of a publisher's packets in the last second, or of a viewer's
        /// in its last report. Not a number (JSON: `null`) when unknown.
        loss_percent: f32,
        /// WebRTC: round trip by reports, milliseconds; not a number when unknown.
        rtt_ms: f32,
        /// WebRTC: interarrival jitter of the last report, milliseconds (RFC 3550 section 6.4.1); not a
        /// number when unknown.
        jitter_ms: f32,
        /// Player: bytes waiting for it.
        queue_bytes: u64,
        /// Player: how far it is behind: time between the arrivals of the message it gets next and of
        /// the newest one, milliseconds.
        queue_ms: u32,
        /// Player: frames skipped because it was too slow.
        dropped_frames: u64,
    }
}

/// Why bytes are not a message of this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadMessage {
    /// Not MessagePack, or a key is missing or of another type.
    NotAMessage,
    /// A version this reader does not know.
    Version(u32),
    /// The arrays of a group differ in length.
    Uneven(&'static str),
    /// A session names a stream or protocol that the message does not have.
    BadIndex,
}

impl fmt::Display for BadMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAMessage => f.write_str("not a statistics message"),
            Self::Version(version) => {
                write!(f, "statistics of version {version}, of which this program knows {VERSION}")
            }
            Self::Uneven(group) => write!(f, "arrays of `{group}` differ in length"),
            Self::BadIndex => f.write_str("a session names a stream or protocol that is not in the message"),
        }
    }
}

impl std::error::Error for BadMessage {}

/// Read first, to distinguish another version from garbage.
#[derive(Deserialize)]
struct VersionOnly {
    version: u32,
}

impl StatsMessage {
    /// The message as MessagePack.
    ///
    /// # Panics
    /// With more than 2^32 - 1 elements in an array.
    pub fn to_messagepack(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes_hint());
        rmp_serde::encode::write_named(&mut out, self).expect("writing to memory does not fail");
        out
    }

    /// The message as JSON.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("writing to memory does not fail")
    }

    /// Reads a message. After this all arrays of a group are equally long, and `sessions.stream`
    /// and `sessions.protocol` can be used as indices.
    pub fn from_messagepack(bytes: &[u8]) -> Result<Self, BadMessage> {
        let VersionOnly { version } = rmp_serde::from_slice(bytes).map_err(|_| BadMessage::NotAMessage)?;
        if version != VERSION {
            return Err(BadMessage::Version(version));
        }
        let message: Self = msgpack_array::serde::from_slice(bytes).map_err(|_| BadMessage::NotAMessage)?;
        message.check().map(|()| message)
    }

    /// Whether lengths and indices are consistent.
    pub fn check(&self) -> Result<(), BadMessage> {
        let groups = [
            ("workers", self.workers.are_even()),
            ("streams", self.streams.are_even()),
            ("sessions", self.sessions.are_even()),
        ];
        if let Some((group, _)) = groups.into_iter().find(|(_, even)| !even) {
            return Err(BadMessage::Uneven(group));
        }
        let streams = self.streams.name.len();
        let stream_exists = |stream: &u32| *stream == NO_STREAM || (*stream as usize) < streams;
        let protocol_exists = |protocol: &u8| usize::from(*protocol) < self.protocols.len();
        let exist = self.sessions.stream.iter().all(stream_exists)
            && self.sessions.protocol.iter().all(protocol_exists);
        if exist { Ok(()) } else { Err(BadMessage::BadIndex) }
    }

    /// Estimated size of the message, so that the buffer rarely grows while it is written.
    fn bytes_hint(&self) -> usize {
        let names: usize = self.streams.name.iter().map(|name| name.len() + 3).sum();
        1024 + names + self.streams.name.len() * 32 + self.sessions.serial.len() * 96
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message with one worker, two streams and three sessions.
    fn message() -> StatsMessage {
        StatsMessage {
            version: VERSION,
            sequence: 7,
            time_ms: 1_795_262_400_000,
            interval_ms: 1000,
            protocols: vec!["rtmp".to_owned(), "whep".to_owned()],
            workers: Workers {
                index: vec![0],
                load_percent: vec![12.5],
                sessions: vec![3],
                snapshot_us: vec![40],
                bits_in_per_second: vec![2_500_000],
                bits_out_per_second: vec![5_000_000_000],
            },
            streams: Streams {
                name: vec!["live/mill".to_owned(), "live/ü".to_owned()],
                live: vec![true, false],
                publisher_worker: vec![0, NO_WORKER],
                players: vec![1, 0],
                bits_in_per_second: vec![2_500_000, 0],
                bits_out_per_second: vec![2_490_000, 0],
            },
            sessions: Sessions {
                worker: vec![0, 0, 0],
                serial: vec![1, 2, 0xffff_ffff_ffff],
                stream: vec![0, 0, NO_STREAM],
                role: vec![ROLE_PUBLISHER, ROLE_PLAYER, ROLE_PENDING],
                protocol: vec![0, 1, 0],
                connected_ms: vec![60_000, 1000, 3],
                bits_per_second: vec![2_500_000, 2_490_000, 0],
                packets: vec![4000, 300, 0],
                packets_per_second: vec![70, 290, 0],
                lost_packets: vec![0, 3, 0],
                loss_percent: vec![f32::NAN, 1.5, f32::NAN],
                rtt_ms: vec![f32::NAN, 21.25, f32::NAN],
                jitter_ms: vec![f32::NAN, 4.0, f32::NAN],
                queue_bytes: vec![0, 70_000, 0],
                queue_ms: vec![0, 120, 0],
                dropped_frames: vec![0, 12, 0],
            },
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let message = message();
        let read = StatsMessage::from_messagepack(&message.to_messagepack()).expect("a message");
        assert!(read.sessions.rtt_ms[0].is_nan());
        assert_eq!(
            format!("{read:?}"),
            format!("{message:?}"),
            "as text, in which not a number equals itself"
        );
    }

    #[test]
    fn json_has_the_same_keys_and_null_for_what_is_not_known() {
        let message = message();
        let json: serde_json::Value = serde_json::from_slice(&message.to_json()).expect("JSON");
        assert_eq!(json["sessions"]["rtt_ms"], serde_json::json!([null, 21.25, null]));
        assert_eq!(json["streams"]["live"], serde_json::json!([true, false]));
        let mut message = message;
        let Sessions { loss_percent, rtt_ms, jitter_ms, .. } = &mut message.sessions;
        [loss_percent, rtt_ms, jitter_ms].into_iter().for_each(|column| column.fill(1.5));
        let from_json: serde_json::Value = serde_json::from_slice(&message.to_json()).expect("JSON");
        let from_messagepack: serde_json::Value =
            rmp_serde::from_slice(&message.to_messagepack()).expect("MessagePack");
        assert_eq!(from_messagepack, from_json);
    }

    #[test]
    fn keys_of_the_future_are_ignored() {
        let message = message();
        let bytes = message.to_messagepack();
        let mut value: serde_json::Value = serde_json::from_slice(&message.to_json()).expect("JSON");
        let sessions = value["sessions"].as_object_mut().expect("a map");
        sessions.insert("mood".to_owned(), serde_json::json!(["fine", "fine", "fine"]));
        // NaN cannot be written in JSON.
        for column in ["loss_percent", "rtt_ms", "jitter_ms"] {
            sessions.insert(column.to_owned(), serde_json::json!([0.5, 0.5, 0.5]));
        }
        let longer = rmp_serde::to_vec_named(&value).expect("MessagePack");
        assert!(longer.len() > bytes.len() && StatsMessage::from_messagepack(&longer).is_ok());
    }

    #[test]
    fn damaged_messages_are_read_or_refused_and_never_more() {
        let bytes = message().to_messagepack();
        let mut read = 0;
        for at in 0..bytes.len() {
            // A longer array, a longer text, a map, nil, and one bit.
            for damage in [0xdd, 0xdb, 0x8f, 0xc0, bytes[at] ^ 0x01] {
                let mut damaged = bytes.clone();
                damaged[at] = damage;
                if let Ok(message) = StatsMessage::from_messagepack(&damaged) {
                    read += 1;
                    assert_eq!(message.check(), Ok(()));
                }
            }
        }
        assert!(read > 0 && read < bytes.len() * 5, "{read} of {} are still messages", bytes.len() * 5);
    }

    /// Makes a message invalid.
    type Change = fn(&mut StatsMessage);

    #[test]
    fn what_is_wrong_is_told_apart() {
        let bad = |change: Change| {
            let mut message = message();
            change(&mut message);
            StatsMessage::from_messagepack(&message.to_messagepack()).map(|_| ())
        };
        let cases: [(Change, BadMessage); 6] = [
            (|message| message.version = 2, BadMessage::Version(2)),
            (|message| message.workers.index.push(1), BadMessage::Uneven("workers")),
            (|message| message.streams.live.clear(), BadMessage::Uneven("streams")),
            (|message| message.sessions.packets.truncate(2), BadMessage::Uneven("sessions")),
            (|message| message.sessions.stream[0] = 2, BadMessage::BadIndex),
            (|message| message.sessions.protocol[0] = 2, BadMessage::BadIndex),
        ];
        for (change, expected) in cases {
            assert_eq!(bad(change), Err(expected));
        }
        let bytes = message().to_messagepack();
        for end in 0..bytes.len() {
            assert_eq!(StatsMessage::from_messagepack(&bytes[..end]), Err(BadMessage::NotAMessage), "{end}");
        }
    }
}
