//! Handshake packets and their extensions (draft-sharabayko-srt-01 section 3.2.1).
//!
//! ```text
//! version (5; 4 in a caller's induction) | encryption 16, extensions 16 | initial sequence number
//! MTU | flow window, packets | type | socket ID of the sender | SYN cookie | address, 4 words
//! extension: type 16, words 16, content ...
//! ```

use crate::sequence::SequenceNumber;
use crate::wire::{self, SocketId, WireError, word};

/// Bytes of a handshake without extensions.
const BYTES: usize = 48;
/// Extensions of one packet that are looked at.
const EXTENSIONS_MAX: usize = 16;
/// What the extension field of a listener's induction says: "SRT version 5 is spoken here".
const MAGIC: u16 = 0x4a17;
/// Longest stream ID (section 3.2.1.3).
pub const STREAM_ID_BYTES_MAX: usize = 512;

const HSREQ: u16 = 1;
const HSRSP: u16 = 2;
const KMREQ: u16 = 3;
const KMRSP: u16 = 4;
const STREAM_ID: u16 = 5;
const CONGESTION: u16 = 6;
const FILTER: u16 = 7;
const GROUP: u16 = 8;

/// Bits of the extension field of a conclusion: which kinds of extensions follow.
const HAS_HS: u16 = 1;
const HAS_KM: u16 = 2;
const HAS_CONFIG: u16 = 4;

/// Which packet of a handshake it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A caller asks for a cookie, or gets it.
    Induction,
    /// A caller asks for a connection, or gets it.
    Conclusion,
    /// A caller is refused, with this code: see [`Reject`].
    Rejection(u32),
    /// Of two callers that call each other (rendezvous), which is left out here.
    Rendezvous,
}

/// A handshake packet without its extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handshake<'a> {
    /// 4 or 5.
    pub version: u32,
    /// Length of the key in units of 8 bytes, 0 for none.
    pub encryption: u16,
    /// Bits of what follows, or the magic number.
    pub extension_field: u16,
    /// Number of the first data packet.
    pub initial: SequenceNumber,
    /// Longest IP packet.
    pub mtu: u32,
    /// Packets that may be on their way.
    pub flow_window: u32,
    /// Which packet it is.
    pub kind: Kind,
    /// The sender's.
    pub socket: SocketId,
    /// The listener's cookie.
    pub cookie: u32,
    /// Extensions, as they came.
    pub extensions: &'a [u8],
}

/// Why a connection is refused; the codes of libsrt's API (section "Rejection Reasons"), and above 1400
/// those of its access control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reject {
    /// The server ran out of something.
    Resource,
    /// The handshake makes no sense.
    Rogue,
    /// Handshakes of version 5 are spoken only.
    Version,
    /// The passphrase is another one.
    BadSecret,
    /// One end has a passphrase and the other has none.
    Unsecure,
    /// Only live mode is spoken.
    MessageApi,
    /// Only live congestion control is.
    Congestion,
    /// No packet filter is.
    Filter,
    /// No group is.
    Group,
    /// The cipher is not spoken, or not safe as the caller has it.
    Crypto,
    /// The stream ID makes no sense.
    BadRequest,
    /// The token is missing or wrong.
    Unauthorized,
    /// Too many sessions.
    Overload,
    /// Not allowed.
    Forbidden,
    /// There is no such stream.
    NotFound,
    /// The stream has a publisher.
    Conflict,
    /// The stream has a codec that is not carried.
    NotSupported,
    /// The server is shutting down.
    Unavailable,
}

impl Reject {
    /// The handshake type that says it.
    pub fn code(self) -> u32 {
        match self {
            Self::Resource => 1003,
            Self::Rogue => 1004,
            Self::Version => 1008,
            Self::BadSecret => 1010,
            Self::Unsecure => 1011,
            Self::MessageApi => 1012,
            Self::Congestion => 1013,
            Self::Filter => 1014,
            Self::Group => 1015,
            Self::Crypto => 1017,
            Self::BadRequest => 1400,
            Self::Unauthorized => 1401,
            Self::Overload => 1402,
            Self::Forbidden => 1403,
            Self::NotFound => 1404,
            Self::Conflict => 1409,
            Self::NotSupported => 1415,
            Self::Unavailable => 1503,
        }
    }

    /// One sentence.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Resource => "the server has no room for another session",
            Self::Rogue => "the handshake is not a valid one",
            Self::Version => "only SRT handshakes of version 5 are taken",
            Self::BadSecret => "the passphrase is not the right one",
            Self::Unsecure => "one end has a passphrase and the other has none",
            Self::MessageApi => "only live mode is taken",
            Self::Congestion => "only live congestion control is taken",
            Self::Filter => "packet filters are not taken",
            Self::Group => "groups are not taken",
            Self::Crypto => "AES-GCM is taken of libsrt 1.5.4 and later, other ciphers than AES are not",
            Self::BadRequest => "the stream id is not a valid one",
            Self::Unauthorized => "a valid token is required",
            Self::Overload => "the server is at its limit",
            Self::Forbidden => "not allowed",
            Self::NotFound => "there is no such stream",
            Self::Conflict => "the stream has a publisher",
            Self::NotSupported => "the stream has a codec that is not carried",
            Self::Unavailable => "the server is shutting down",
        }
    }
}

/// Flags of HSREQ and HSRSP (section 3.2.1.1.1).
pub(crate) mod flags {
    pub(crate) const TSBPD_SEND: u32 = 1;
    pub(crate) const TSBPD_RECEIVE: u32 = 2;
    pub(crate) const CRYPT: u32 = 4;
    pub(crate) const TOO_LATE_DROP: u32 = 8;
    pub(crate) const PERIODIC_NAK: u32 = 0x10;
    pub(crate) const RETRANSMIT_FLAG: u32 = 0x20;
    pub(crate) const STREAM: u32 = 0x40;
    /// All that this implementation does.
    pub(crate) const OURS: u32 =
        TSBPD_SEND | TSBPD_RECEIVE | CRYPT | TOO_LATE_DROP | PERIODIC_NAK | RETRANSMIT_FLAG;
}

/// The version that is announced: what this speaks is what libsrt 1.5.4 does. One that hears of an older
/// one encrypts by an AES-GCM that is not safe: see [`Capabilities::has_safe_gcm`].
const SRT_VERSION: u32 = 0x0001_0504;

/// Content of HSREQ or HSRSP: what an end can do and how late it plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Capabilities {
    pub(crate) version: u32,
    pub(crate) flags: u32,
    /// Delay of the end that sends this, as receiver, milliseconds.
    pub(crate) receive_delay_ms: u16,
    /// Delay that it wants of the other end, milliseconds.
    pub(crate) send_delay_ms: u16,
}

impl Capabilities {
    /// Ours, with these delays.
    pub(crate) fn ours(receive_delay_ms: u16, send_delay_ms: u16) -> Self {
        Self { version: SRT_VERSION, flags: flags::OURS, receive_delay_ms, send_delay_ms }
    }

    /// Whether AES-GCM is safe with this end. In libsrt 1.5.2 and 1.5.3 nonces had the upper half of the
    /// sequence number only, so that 65,536 packets had the same one. Without times (TSBPD) libsrt
    /// authenticates another header.
    pub(crate) fn has_safe_gcm(&self) -> bool {
        self.version >= 0x0001_0504 && self.flags & (flags::TSBPD_SEND | flags::TSBPD_RECEIVE) != 0
    }
}

/// What the extensions of a conclusion say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Extensions<'a> {
    pub(crate) capabilities: Option<Capabilities>,
    /// Key material, or what became of it in a word.
    pub(crate) keys: Option<&'a [u8]>,
    pub(crate) stream_id: Option<String>,
}

impl<'a> Handshake<'a> {
    pub(crate) fn read(content: &'a [u8]) -> Result<Self, WireError> {
        let (fixed, extensions) = content.split_at_checked(BYTES).ok_or(WireError::TooShort)?;
        let fields = word(fixed, 4);
        let kind = match word(fixed, 20) {
            1 => Kind::Induction,
            0xffff_ffff => Kind::Conclusion,
            0 | 0xffff_fffe | 0xffff_fffd => Kind::Rendezvous,
            code @ 1000..0x8000_0000 => Kind::Rejection(code),
            _ => return Err(WireError::Malformed),
        };
        Ok(Self {
            version: word(fixed, 0),
            encryption: (fields >> 16) as u16,
            extension_field: fields as u16,
            initial: SequenceNumber::new(word(fixed, 8)),
            mtu: word(fixed, 12),
            flow_window: word(fixed, 16),
            kind,
            socket: SocketId(word(fixed, 24)),
            cookie: word(fixed, 28),
            extensions,
        })
    }

    /// Whether the listener of this induction speaks version 5.
    pub(crate) fn has_magic(&self) -> bool {
        self.version == 5 && self.extension_field == MAGIC
    }

    /// Reads the extensions, in the order they have. `is_response`: those of a listener.
    pub(crate) fn read_extensions(&self, is_response: bool) -> Result<Extensions<'a>, Reject> {
        let mut found = Extensions::default();
        let mut rest = self.extensions;
        for _ in 0..EXTENSIONS_MAX {
            if rest.is_empty() {
                return Ok(found);
            }
            let (kind, words) = (word(rest, 0) >> 16, word(rest, 0) & 0xffff);
            let content = rest.get(4..4 + words as usize * 4).ok_or(Reject::Rogue)?;
            rest = &rest[4 + content.len()..];
            match kind as u16 {
                HSREQ | HSRSP if (kind as u16 == HSRSP) == is_response => {
                    if content.len() < 12 {
                        return Err(Reject::Rogue);
                    }
                    let delays = word(content, 8);
                    found.capabilities = Some(Capabilities {
                        version: word(content, 0),
                        flags: word(content, 4),
                        receive_delay_ms: (delays >> 16) as u16,
                        send_delay_ms: delays as u16,
                    });
                }
                KMREQ if !is_response => found.keys = Some(content),
                KMRSP if is_response => found.keys = Some(content),
                STREAM_ID => {
                    if content.len() > STREAM_ID_BYTES_MAX {
                        return Err(Reject::BadRequest);
                    }
                    found.stream_id = Some(String::from_utf8(text(content)).map_err(|_| Reject::BadRequest)?);
                }
                CONGESTION if text(content) != b"live" => return Err(Reject::Congestion),
                FILTER if !content.is_empty() => return Err(Reject::Filter),
                GROUP => return Err(Reject::Group),
                // Extensions that nobody here knows change nothing (section 3.2.1).
                _ => {}
            }
        }
        Err(Reject::Rogue)
    }
}

/// Text of an extension: each word has its bytes in reverse, the last is filled with zeros (section
/// 3.2.1.3).
fn text(content: &[u8]) -> Vec<u8> {
    let mut text: Vec<u8> = content.chunks(4).flat_map(|word| word.iter().rev().copied()).collect();
    // A zero in between is part of it, and of no name that is taken.
    let len = text.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    text.truncate(len);
    text
}

/// A handshake packet to be written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writing<'a> {
    pub(crate) kind: Kind,
    /// The caller's induction, which is of version 4.
    pub(crate) is_first: bool,
    /// The listener's.
    pub(crate) is_response: bool,
    pub(crate) encryption: u16,
    pub(crate) initial: SequenceNumber,
    pub(crate) mtu: u32,
    pub(crate) flow_window: u32,
    pub(crate) socket: SocketId,
    pub(crate) cookie: u32,
    pub(crate) capabilities: Option<Capabilities>,
    pub(crate) keys: Option<&'a [u8]>,
    pub(crate) stream_id: &'a str,
}

impl Writing<'_> {
    /// Appends the packet.
    pub(crate) fn write(&self, timestamp: u32, destination: SocketId, out: &mut Vec<u8>) {
        wire::write_header(wire::HANDSHAKE, 0, 0, timestamp, destination, out);
        let field = match self.kind {
            // Datagrams, as UDT counted (section 4.3.1.1).
            Kind::Induction if self.is_first => 2,
            Kind::Induction => MAGIC,
            _ => {
                let has = |is: bool, bit: u16| if is { bit } else { 0 };
                has(self.capabilities.is_some(), HAS_HS)
                    | has(self.keys.is_some(), HAS_KM)
                    | has(!self.stream_id.is_empty(), HAS_CONFIG)
            }
        };
        let kind = match self.kind {
            Kind::Induction => 1,
            Kind::Conclusion => u32::MAX,
            Kind::Rejection(code) => code,
            Kind::Rendezvous => 0,
        };
        let words = [
            if self.is_first { 4 } else { 5 },
            u32::from(self.encryption) << 16 | u32::from(field),
            self.initial.number(),
            self.mtu,
            self.flow_window,
            kind,
            self.socket.0,
            self.cookie,
            // The peer's address, which tells nobody anything.
            0,
            0,
            0,
            0,
        ];
        words.iter().for_each(|word| out.extend(word.to_be_bytes()));
        let mut extension = |kind: u16, content: &[u8]| {
            out.extend((u32::from(kind) << 16 | (content.len() / 4) as u32).to_be_bytes());
            out.extend_from_slice(content);
        };
        if let Some(capabilities) = self.capabilities {
            let Capabilities { version, flags, receive_delay_ms, send_delay_ms } = capabilities;
            let delays = u32::from(receive_delay_ms) << 16 | u32::from(send_delay_ms);
            let content: Vec<u8> =
                [version, flags, delays].iter().flat_map(|word| word.to_be_bytes()).collect();
            extension(if self.is_response { HSRSP } else { HSREQ }, &content);
        }
        if let Some(keys) = self.keys {
            extension(if self.is_response { KMRSP } else { KMREQ }, keys);
        }
        if !self.stream_id.is_empty() {
            let mut content = self.stream_id.as_bytes().to_vec();
            content.resize(content.len().next_multiple_of(4), 0);
            content.chunks_exact_mut(4).for_each(<[u8]>::reverse);
            extension(STREAM_ID, &content);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Body, Control, Packet};

    fn conclusion(stream_id: &str) -> Vec<u8> {
        let mut out = Vec::new();
        let writing = Writing {
            kind: Kind::Conclusion,
            is_first: false,
            is_response: false,
            encryption: 2,
            initial: SequenceNumber::new(9),
            mtu: 1500,
            flow_window: 8192,
            socket: SocketId(77),
            cookie: 0xdead_beef,
            capabilities: Some(Capabilities::ours(120, 200)),
            keys: Some(&[1; 64]),
            stream_id,
        };
        writing.write(5, SocketId(0), &mut out);
        out
    }

    fn handshake(packet: &[u8]) -> Handshake<'_> {
        match Packet::read(packet) {
            Ok(Packet::Control(Control { body: Body::Handshake(handshake), .. })) => handshake,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_conclusion_comes_back_as_it_went() {
        for stream_id in ["", "a", "read:live/mill", "#!::r=live/mill,m=request"] {
            let packet = conclusion(stream_id);
            let read = handshake(&packet);
            assert_eq!((read.version, read.encryption, read.kind), (5, 2, Kind::Conclusion));
            assert_eq!((read.socket, read.cookie), (SocketId(77), 0xdead_beef));
            let extensions = read.read_extensions(false).expect("they are ours");
            assert_eq!(extensions.capabilities, Some(Capabilities::ours(120, 200)));
            assert_eq!(extensions.keys, Some(&[1; 64][..]));
            assert_eq!(extensions.stream_id.as_deref(), Some(stream_id).filter(|id| !id.is_empty()));
            // What a caller sends is no answer.
            let answer = read.read_extensions(true).expect("they are ours");
            assert_eq!((answer.capabilities, answer.keys), (None, None));
        }
    }

    #[test]
    fn words_of_a_stream_id_are_in_reverse() {
        let packet = conclusion("abcdef");
        assert_eq!(&packet[packet.len() - 8..], b"dcba\0\0fe");
    }

    #[test]
    fn extensions_that_cannot_be_are_refused() {
        let refused = |kind: u16, words: u16, content: &[u8]| {
            let mut packet = conclusion("x");
            packet.extend((u32::from(kind) << 16 | u32::from(words)).to_be_bytes());
            packet.extend_from_slice(content);
            handshake(&packet).read_extensions(false).err()
        };
        assert_eq!(refused(CONGESTION, 1, b"evil"), None, "the bytes of `live` in reverse");
        assert_eq!(refused(CONGESTION, 1, b"elif"), Some(Reject::Congestion));
        assert_eq!(refused(FILTER, 1, b"cef\0"), Some(Reject::Filter));
        assert_eq!(refused(GROUP, 2, &[0; 8]), Some(Reject::Group));
        assert_eq!(refused(HSREQ, 2, &[0; 8]), Some(Reject::Rogue), "too short");
        assert_eq!(refused(HSREQ, 4, &[0; 12]), Some(Reject::Rogue), "longer than the packet");
        assert_eq!(refused(STREAM_ID, 1, &[0xff; 4]), Some(Reject::BadRequest), "no UTF-8");
        assert_eq!(refused(STREAM_ID, 129, &[b'a'; 516]), Some(Reject::BadRequest), "too long");
        assert_eq!(refused(99, 0, &[]), None, "nobody knows it");
        let mut endless = conclusion("x");
        endless.extend([0, 99, 0, 0].repeat(EXTENSIONS_MAX));
        assert_eq!(handshake(&endless).read_extensions(false), Err(Reject::Rogue));
    }

    #[test]
    fn a_handshake_has_a_length_and_a_known_type() {
        let packet = conclusion("");
        assert_eq!(Packet::read(&packet[..wire::HEADER_BYTES + BYTES - 1]), Err(WireError::TooShort));
        for (kind, expected) in [
            (1002, Ok(Kind::Rejection(1002))),
            (0, Ok(Kind::Rendezvous)),
            (0xffff_fffe, Ok(Kind::Rendezvous)),
            (2, Err(WireError::Malformed)),
        ] {
            let mut packet = packet.clone();
            packet[36..40].copy_from_slice(&u32::to_be_bytes(kind));
            let read = Handshake::read(&packet[wire::HEADER_BYTES..]);
            assert_eq!(read.map(|handshake| handshake.kind), expected);
        }
    }
}
