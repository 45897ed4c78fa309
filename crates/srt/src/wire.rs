//! Packets as they are on the wire (draft-sharabayko-srt-01 section 3).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-------------------------------------------------------------+
//! |0|                    Packet Sequence Number                   |  data
//! |P P|O|K K|R|                 Message Number                    |
//! +-+-----------------------------+-------------------------------+
//! |1|        Control Type         |            Subtype            |  control
//! |                   Type-specific Information                   |
//! +---------------------------------------------------------------+
//! |                           Timestamp                           |  both
//! |                   Destination Socket ID                       |
//! +---------------------------------------------------------------+
//! ```
//!
//! Reading allocates nothing and never panics. What follows a control packet's content is ignored:
//! libsrt pads contents that are empty with a word.

use crate::handshake::Handshake;
use crate::sequence::SequenceNumber;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 16;
/// Bytes of an IPv4 packet on Ethernet, the "MTU" of handshakes.
pub const MTU: u32 = 1500;
/// Bytes of IPv4 and UDP headers in it.
const IP_UDP_BYTES: usize = 28;
/// Longest datagram.
pub const DATAGRAM_BYTES_MAX: usize = MTU as usize - IP_UDP_BYTES;
/// Longest payload of a data packet.
pub const PAYLOAD_BYTES_MAX: usize = DATAGRAM_BYTES_MAX - HEADER_BYTES;
/// Payload of a data packet that carries packets of a transport stream: seven of them.
pub const TS_PAYLOAD_BYTES: usize = 7 * 188;

/// Number by which one end knows a connection. 0 in the first packet of a handshake, which knows none yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SocketId(pub u32);

impl SocketId {
    /// One that nobody can guess.
    pub fn random() -> Self {
        let mut bytes = [0; 4];
        aws_lc_rs::rand::fill(&mut bytes).expect("the system has random bytes");
        // The two highest bits are of other kinds of sockets in libsrt.
        Self((u32::from_be_bytes(bytes) & 0x3fff_ffff).max(1))
    }
}

/// Why bytes are no packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireError {
    /// Shorter than its header or its content says.
    TooShort,
    /// A control packet of no known type.
    UnknownType,
    /// What it holds cannot be.
    Malformed,
}

/// A packet.
#[derive(Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// Media.
    Data(Data<'a>),
    /// Everything else.
    Control(Control<'a>),
}

/// Which of the two keys a payload is encrypted with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyFlag {
    /// None: it is not encrypted.
    Clear,
    /// The even one.
    Even,
    /// The odd one.
    Odd,
}

/// A data packet.
#[derive(Debug, PartialEq, Eq)]
pub struct Data<'a> {
    /// Its number.
    pub sequence: SequenceNumber,
    /// Number of its message, 26 bits; in live mode each packet is one.
    pub message: u32,
    /// Its key.
    pub key: KeyFlag,
    /// It is sent again.
    pub retransmitted: bool,
    /// When it was given to the sender, microseconds of its clock.
    pub timestamp: u32,
    /// Socket that it is for.
    pub destination: SocketId,
    /// Content, perhaps encrypted.
    pub payload: &'a [u8],
}

/// A control packet.
#[derive(Debug, PartialEq, Eq)]
pub struct Control<'a> {
    /// When it was sent, microseconds of the sender's clock.
    pub timestamp: u32,
    /// Socket that it is for; 0 for a listener.
    pub destination: SocketId,
    /// What it says.
    pub body: Body<'a>,
}

/// What a control packet says.
#[derive(Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// Handshake (section 3.2.1).
    Handshake(Handshake<'a>),
    /// The sender is there (3.2.3).
    KeepAlive,
    /// What has arrived (3.2.4).
    Ack {
        /// Number of the acknowledgement, which its ACKACK repeats; 0 in a light one.
        number: u32,
        /// What it says.
        ack: Ack,
    },
    /// What is missing (3.2.5).
    Nak(LossList<'a>),
    /// The peer is congested (3.2.6); obsolete.
    CongestionWarning,
    /// The connection is over (3.2.7).
    Shutdown,
    /// An acknowledgement has arrived (3.2.8).
    AckAck {
        /// Its number.
        number: u32,
    },
    /// Packets that the sender has dropped (3.2.9).
    DropRequest {
        /// The first.
        first: SequenceNumber,
        /// The last.
        last: SequenceNumber,
    },
    /// The peer failed (3.2.10); of files only.
    PeerError,
    /// New keys, or what became of them (3.2.2).
    Key {
        /// It is the answer.
        is_response: bool,
        /// The key material, or the state in a word.
        content: &'a [u8],
    },
}

/// What an acknowledgement says (section 3.2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// The first packet that has not arrived.
    pub next: SequenceNumber,
    /// The rest; a light acknowledgement has none.
    pub full: Option<AckDetails>,
}

/// The rest of an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AckDetails {
    /// Round trip, microseconds.
    pub rtt_us: u32,
    /// Its variance, microseconds.
    pub rtt_variance_us: u32,
    /// Packets for which there is room.
    pub room_packets: u32,
    /// Packets that arrive in a second.
    pub packets_per_second: u32,
    /// Packets that the path is thought to carry in a second.
    pub capacity_packets_per_second: u32,
    /// Bytes that arrive in a second.
    pub bytes_per_second: u32,
}

/// Ranges of missing packets (appendix A).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LossList<'a>(&'a [u8]);

impl<'a> LossList<'a> {
    /// First and last number of each range; a range that cannot be ends the list.
    pub fn ranges(self) -> impl Iterator<Item = (SequenceNumber, SequenceNumber)> + use<'a> {
        let mut words = self.0.chunks_exact(4).map(|bytes| word(bytes, 0));
        std::iter::from_fn(move || {
            let first = words.next()?;
            let last = if first & CONTROL_BIT == 0 { first } else { words.next()? };
            let (first, end) = (SequenceNumber::new(first), SequenceNumber::new(last));
            (last & CONTROL_BIT == 0 && end.since(first) >= 0).then_some((first, end))
        })
    }
}

const CONTROL_BIT: u32 = 0x8000_0000;

pub(crate) const HANDSHAKE: u16 = 0;
const KEEP_ALIVE: u16 = 1;
const ACK: u16 = 2;
const NAK: u16 = 3;
const CONGESTION_WARNING: u16 = 4;
const SHUTDOWN: u16 = 5;
const ACK_ACK: u16 = 6;
const DROP_REQUEST: u16 = 7;
const PEER_ERROR: u16 = 8;
const USER_DEFINED: u16 = 0x7fff;
const KEY_REQUEST: u16 = 3;
const KEY_RESPONSE: u16 = 4;

/// The word at `at`, which is there.
pub(crate) fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]))
}

/// Socket that a datagram is for, if it is long enough to have one.
pub fn destination(datagram: &[u8]) -> Option<SocketId> {
    (datagram.len() >= HEADER_BYTES).then(|| SocketId(word(datagram, 12)))
}

impl<'a> Packet<'a> {
    /// Reads a datagram.
    pub fn read(datagram: &'a [u8]) -> Result<Self, WireError> {
        let (header, content) = datagram.split_at_checked(HEADER_BYTES).ok_or(WireError::TooShort)?;
        let (first, second) = (word(header, 0), word(header, 4));
        let (timestamp, destination) = (word(header, 8), SocketId(word(header, 12)));
        if first & CONTROL_BIT == 0 {
            let key = match second >> 27 & 3 {
                0 => KeyFlag::Clear,
                1 => KeyFlag::Even,
                2 => KeyFlag::Odd,
                _ => return Err(WireError::Malformed),
            };
            return Ok(Self::Data(Data {
                sequence: SequenceNumber::new(first),
                message: second & 0x03ff_ffff,
                key,
                retransmitted: second >> 26 & 1 != 0,
                timestamp,
                destination,
                payload: content,
            }));
        }
        let has = |bytes: usize| if content.len() >= bytes { Ok(()) } else { Err(WireError::TooShort) };
        let body = match (first >> 16 & 0x7fff) as u16 {
            HANDSHAKE => Body::Handshake(Handshake::read(content)?),
            KEEP_ALIVE => Body::KeepAlive,
            ACK => {
                has(4)?;
                let full = (second != 0).then(|| AckDetails {
                    rtt_us: word(content, 4),
                    rtt_variance_us: word(content, 8),
                    room_packets: word(content, 12),
                    packets_per_second: word(content, 16),
                    capacity_packets_per_second: word(content, 20),
                    bytes_per_second: word(content, 24),
                });
                if full.is_some() {
                    has(16)?;
                }
                Body::Ack { number: second, ack: Ack { next: SequenceNumber::new(word(content, 0)), full } }
            }
            NAK => {
                has(4)?;
                Body::Nak(LossList(content))
            }
            CONGESTION_WARNING => Body::CongestionWarning,
            SHUTDOWN => Body::Shutdown,
            ACK_ACK => Body::AckAck { number: second },
            DROP_REQUEST => {
                has(8)?;
                Body::DropRequest {
                    first: SequenceNumber::new(word(content, 0)),
                    last: SequenceNumber::new(word(content, 4)),
                }
            }
            PEER_ERROR => Body::PeerError,
            USER_DEFINED => match first as u16 {
                subtype @ (KEY_REQUEST | KEY_RESPONSE) => {
                    Body::Key { is_response: subtype == KEY_RESPONSE, content }
                }
                _ => return Err(WireError::UnknownType),
            },
            _ => return Err(WireError::UnknownType),
        };
        Ok(Self::Control(Control { timestamp, destination, body }))
    }
}

impl Data<'_> {
    /// Writes it to the beginning of `out`, which has room for it; its length.
    pub(crate) fn write(&self, out: &mut [u8]) -> usize {
        let len = HEADER_BYTES + self.payload.len();
        out[..HEADER_BYTES].copy_from_slice(&self.header());
        out[HEADER_BYTES..len].copy_from_slice(self.payload);
        len
    }

    /// What stands ahead of its payload.
    pub(crate) fn header(&self) -> [u8; HEADER_BYTES] {
        let key = match self.key {
            KeyFlag::Clear => 0,
            KeyFlag::Even => 1,
            KeyFlag::Odd => 2,
        };
        // Each packet is a whole message (both bits of P), in order not being asked for.
        let second = 3 << 30 | key << 27 | u32::from(self.retransmitted) << 26 | self.message & 0x03ff_ffff;
        let words = [self.sequence.number(), second, self.timestamp, self.destination.0];
        let mut header = [0; HEADER_BYTES];
        for (place, word) in header.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        header
    }
}

/// A control packet to be written: its content, without time and destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outgoing<'a> {
    KeepAlive,
    Ack {
        number: u32,
        ack: Ack,
    },
    /// Ranges that are not empty, at most [`RANGES_MAX`] of them.
    Nak(&'a [(SequenceNumber, SequenceNumber)]),
    Shutdown,
    AckAck {
        number: u32,
    },
    DropRequest {
        message: u32,
        first: SequenceNumber,
        last: SequenceNumber,
    },
    KeyRequest(&'a [u8]),
    KeyResponse(&'a [u8]),
}

/// Ranges of one NAK.
pub(crate) const RANGES_MAX: usize = PAYLOAD_BYTES_MAX / 8;

impl Outgoing<'_> {
    /// Appends it.
    pub(crate) fn write(self, timestamp: u32, destination: SocketId, out: &mut Vec<u8>) {
        let (kind, subtype, info) = match self {
            Self::KeepAlive => (KEEP_ALIVE, 0, 0),
            Self::Ack { number, .. } => (ACK, 0, number),
            Self::Nak(_) => (NAK, 0, 0),
            Self::Shutdown => (SHUTDOWN, 0, 0),
            Self::AckAck { number } => (ACK_ACK, 0, number),
            Self::DropRequest { message, .. } => (DROP_REQUEST, 0, message),
            Self::KeyRequest(_) => (USER_DEFINED, KEY_REQUEST, 0),
            Self::KeyResponse(_) => (USER_DEFINED, KEY_RESPONSE, 0),
        };
        write_header(kind, subtype, info, timestamp, destination, out);
        let mut words = |words: &[u32]| words.iter().for_each(|word| out.extend(word.to_be_bytes()));
        match self {
            // Contents that are empty have a word, as libsrt's have.
            Self::KeepAlive | Self::Shutdown | Self::AckAck { .. } => words(&[0]),
            Self::Ack { ack: Ack { next, full: None }, .. } => words(&[next.number()]),
            Self::Ack { ack: Ack { next, full: Some(full) }, .. } => words(&[
                next.number(),
                full.rtt_us,
                full.rtt_variance_us,
                full.room_packets,
                full.packets_per_second,
                full.capacity_packets_per_second,
                full.bytes_per_second,
            ]),
            Self::Nak(ranges) => {
                for (first, last) in ranges {
                    match first == last {
                        true => words(&[first.number()]),
                        false => words(&[CONTROL_BIT | first.number(), last.number()]),
                    }
                }
            }
            Self::DropRequest { first, last, .. } => words(&[first.number(), last.number()]),
            Self::KeyRequest(content) | Self::KeyResponse(content) => out.extend_from_slice(content),
        }
    }
}

/// Appends the header of a control packet.
pub(crate) fn write_header(
    kind: u16,
    subtype: u16,
    info: u32,
    timestamp: u32,
    destination: SocketId,
    out: &mut Vec<u8>,
) {
    let first = CONTROL_BIT | u32::from(kind) << 16 | u32::from(subtype);
    for word in [first, info, timestamp, destination.0] {
        out.extend(word.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: SocketId = SocketId(0x0102_0304);

    fn seq(number: u32) -> SequenceNumber {
        SequenceNumber::new(number)
    }

    fn written(packet: Outgoing<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        packet.write(77, HERE, &mut out);
        out
    }

    #[test]
    fn control_packets_come_back_as_they_went() {
        let full = AckDetails {
            rtt_us: 1,
            rtt_variance_us: 2,
            room_packets: 3,
            packets_per_second: 4,
            capacity_packets_per_second: 5,
            bytes_per_second: 6,
        };
        let (light, ack) = (Ack { next: seq(9), full: None }, Ack { next: seq(9), full: Some(full) });
        let cases = [
            (Outgoing::KeepAlive, Body::KeepAlive),
            (Outgoing::Ack { number: 7, ack }, Body::Ack { number: 7, ack }),
            (Outgoing::Ack { number: 0, ack: light }, Body::Ack { number: 0, ack: light }),
            (Outgoing::Shutdown, Body::Shutdown),
            (Outgoing::AckAck { number: 8 }, Body::AckAck { number: 8 }),
            (
                Outgoing::DropRequest { message: 1, first: seq(2), last: seq(3) },
                Body::DropRequest { first: seq(2), last: seq(3) },
            ),
            (Outgoing::KeyRequest(b"keys"), Body::Key { is_response: false, content: b"keys" }),
            (Outgoing::KeyResponse(b"keys"), Body::Key { is_response: true, content: b"keys" }),
        ];
        for (packet, body) in cases {
            let bytes = written(packet);
            let expected = Packet::Control(Control { timestamp: 77, destination: HERE, body });
            assert_eq!(Packet::read(&bytes), Ok(expected));
            assert_eq!(destination(&bytes), Some(HERE));
        }
    }

    #[test]
    fn losses_are_single_numbers_and_ranges() {
        let ranges = [(seq(5), seq(5)), (seq(7), seq(9)), (seq(0x7fff_ffff), seq(1))];
        let bytes = written(Outgoing::Nak(&ranges));
        assert_eq!(bytes.len(), HEADER_BYTES + 4 + 8 + 8);
        let Ok(Packet::Control(Control { body: Body::Nak(list), .. })) = Packet::read(&bytes) else {
            panic!("no NAK");
        };
        assert_eq!(list.ranges().collect::<Vec<_>>(), ranges);
        // A range without its end, one that goes backwards, one whose end begins a range.
        for words in [&[0x8000_0001u32][..], &[0x8000_0005, 4], &[0x8000_0005, 0x8000_0006, 7]] {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            assert_eq!(LossList(&bytes).ranges().count(), 0, "{words:x?}");
        }
    }

    #[test]
    fn data_packets_come_back_as_they_went() {
        for key in [KeyFlag::Clear, KeyFlag::Even, KeyFlag::Odd] {
            let data = Data {
                sequence: seq(0x7fff_fffe),
                message: 0x03ff_fffe,
                key,
                retransmitted: key == KeyFlag::Odd,
                timestamp: u32::MAX,
                destination: HERE,
                payload: b"media",
            };
            let mut out = [0; 64];
            let len = data.write(&mut out);
            assert_eq!(Packet::read(&out[..len]), Ok(Packet::Data(data)));
        }
    }

    #[test]
    fn what_is_cut_off_is_no_packet() {
        let nak = written(Outgoing::Nak(&[(seq(1), seq(1))]));
        for len in 0..nak.len() {
            assert_eq!(Packet::read(&nak[..len]), Err(WireError::TooShort), "{len}");
        }
        // Both keys at once.
        let mut data = [0; 20];
        data[4] = 0x18;
        assert_eq!(Packet::read(&data), Err(WireError::Malformed));
    }
}
