//! One RTP packet (RFC 3550 section 5.1): read as a view over its bytes, its header written or patched.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! |V=2|P|X|  CC   |M|     PT      |       sequence number         |
//! |                           timestamp                           |
//! |                             SSRC                              |
//! |                    CSRC x CC, then if X:                      |
//! |      defined by profile       |     length (32-bit words)     |   RFC 3550 section 5.3.1
//! |                       header extension                        |
//! |                    payload, then if P: padding, its last byte being how many bytes of it there are
//! ```
//! What the elements of a header extension mean is in `extension`, what the payload means in `payload`.

use std::error::Error;
use std::fmt;

use crate::extension::Elements;

/// Bytes of the fixed part of an RTP header.
pub const FIXED_HEADER_LEN: usize = 12;
/// Longest packet taken, in bytes: a UDP datagram cannot be longer.
pub const PACKET_LEN_MAX: usize = 65_535;
/// Longest header [`HeaderFields::write`] writes, in bytes: the fixed part and the longest block of
/// extensions.
pub const HEADER_LEN_MAX: usize = FIXED_HEADER_LEN + crate::extension::BLOCK_LEN_MAX;

/// Why bytes are not an RTP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// Shorter than the fixed header.
    TooShort,
    /// Longer than [`PACKET_LEN_MAX`].
    TooLong,
    /// Not version 2.
    BadVersion,
    /// CSRCs or the header extension reach behind the end.
    BadHeader,
    /// Zero bytes of padding, or more than there are behind the header.
    BadPadding,
}

impl fmt::Display for ParseError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::TooShort => "shorter than an RTP header",
            Self::TooLong => "longer than a datagram can be",
            Self::BadVersion => "not RTP version 2",
            Self::BadHeader => "the RTP header reaches behind the end of the packet",
            Self::BadPadding => "the RTP padding reaches into the header",
        })
    }
}

impl Error for ParseError {}

/// A view over one whole, checked RTP packet. Nothing is copied.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    bytes: &'a [u8],
    fixed: &'a [u8; FIXED_HEADER_LEN],
    /// `12 <= header_len <= payload_end <= bytes.len()`.
    header_len: usize,
    payload_end: usize,
}

impl<'a> Packet<'a> {
    /// Parses the packet that fills `bytes`; version, CSRCs, extension and padding must be valid.
    ///
    /// Elements inside the header extension are not looked at: a broken one ends [`Packet::extensions`], as
    /// RFC 8285 section 4.2 wants it.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let fixed: &[u8; FIXED_HEADER_LEN] = bytes.first_chunk().ok_or(ParseError::TooShort)?;
        if bytes.len() > PACKET_LEN_MAX {
            return Err(ParseError::TooLong);
        }
        if fixed[0] >> 6 != 2 {
            return Err(ParseError::BadVersion);
        }
        let mut header_len = FIXED_HEADER_LEN + 4 * usize::from(fixed[0] & 0x0f);
        if fixed[0] & EXTENSION_BIT != 0 {
            let head: &[u8; 4] =
                bytes.get(header_len..).and_then(|rest| rest.first_chunk()).ok_or(ParseError::BadHeader)?;
            header_len += 4 + 4 * usize::from(u16::from_be_bytes([head[2], head[3]]));
        }
        if header_len > bytes.len() {
            return Err(ParseError::BadHeader);
        }
        let mut payload_end = bytes.len();
        if fixed[0] & PADDING_BIT != 0 {
            let padding = usize::from(bytes[payload_end - 1]);
            if padding == 0 || padding > payload_end - header_len {
                return Err(ParseError::BadPadding);
            }
            payload_end -= padding;
        }
        Ok(Self { bytes, fixed, header_len, payload_end })
    }

    /// The five fields every forwarded packet has.
    #[inline]
    pub fn fields(&self) -> HeaderFields {
        HeaderFields {
            marker: self.marker(),
            payload_type: self.payload_type(),
            sequence_number: self.sequence_number(),
            timestamp: self.timestamp(),
            ssrc: self.ssrc(),
        }
    }

    /// The marker bit; for video the last packet of a frame, for audio the first after silence.
    #[inline]
    pub fn marker(&self) -> bool {
        self.fixed[1] & 0x80 != 0
    }

    /// Payload type, `0..=127`.
    #[inline]
    pub fn payload_type(&self) -> u8 {
        self.fixed[1] & 0x7f
    }

    /// Sequence number; wraps at 2^16.
    #[inline]
    pub fn sequence_number(&self) -> u16 {
        u16::from_be_bytes([self.fixed[2], self.fixed[3]])
    }

    /// Timestamp in units of the payload's clock; wraps at 2^32.
    #[inline]
    pub fn timestamp(&self) -> u32 {
        u32::from_be_bytes([self.fixed[4], self.fixed[5], self.fixed[6], self.fixed[7]])
    }

    /// SSRC: whose packet it is.
    #[inline]
    pub fn ssrc(&self) -> u32 {
        u32::from_be_bytes([self.fixed[8], self.fixed[9], self.fixed[10], self.fixed[11]])
    }

    /// Bytes ahead of the payload: fixed header, CSRCs, header extension.
    #[inline]
    pub fn header_len(&self) -> usize {
        self.header_len
    }

    /// The payload without padding; empty in a packet that is padding only.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header_len..self.payload_end]
    }

    /// Bytes of padding behind the payload, the byte that counts them included; `0..=255`.
    #[inline]
    pub fn padding_len(&self) -> usize {
        self.bytes.len() - self.payload_end
    }

    /// Contributing sources, at most 15 (RFC 3550 section 5.1).
    pub fn csrcs(&self) -> impl ExactSizeIterator<Item = u32> + 'a {
        let end = FIXED_HEADER_LEN + 4 * usize::from(self.fixed[0] & 0x0f);
        self.bytes[FIXED_HEADER_LEN..end]
            .chunks_exact(4)
            .map(|csrc| u32::from_be_bytes([csrc[0], csrc[1], csrc[2], csrc[3]]))
    }

    /// The header extension with its four-byte head, padding inside it included; empty if there is none.
    #[inline]
    pub fn extension_block(&self) -> &'a [u8] {
        if self.fixed[0] & EXTENSION_BIT == 0 {
            return &[];
        }
        &self.bytes[FIXED_HEADER_LEN + 4 * usize::from(self.fixed[0] & 0x0f)..self.header_len]
    }

    /// Id and data of each element of the header extension, one- or two-byte form (RFC 8285).
    #[inline]
    pub fn extensions(&self) -> Elements<'a> {
        Elements::new(self.extension_block())
    }

    /// The whole packet.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

/// The fields of a header that has no CSRCs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeaderFields {
    /// Marker bit.
    pub marker: bool,
    /// Payload type; its low seven bits count.
    pub payload_type: u8,
    /// Sequence number.
    pub sequence_number: u16,
    /// Timestamp in units of the payload's clock.
    pub timestamp: u32,
    /// SSRC.
    pub ssrc: u32,
}

impl HeaderFields {
    /// Writes the header with a ready-made block of extensions (`extension::BlockWriter`; empty for
    /// none) to the start of `out` and returns its length in bytes, `12 + extension_block.len()`.
    ///
    /// # Panics
    ///
    /// If `out` is shorter than that.
    #[inline]
    pub fn write(&self, extension_block: &[u8], out: &mut [u8]) -> usize {
        debug_assert!(extension_block.len().is_multiple_of(4), "a block of whole words");
        let fixed: &mut [u8; FIXED_HEADER_LEN] = out.first_chunk_mut().expect("room for an RTP header");
        fixed[0] = 0x80 | if extension_block.is_empty() { 0 } else { EXTENSION_BIT };
        set_marker_payload_type(fixed, self.marker, self.payload_type);
        set_sequence_number(fixed, self.sequence_number);
        set_timestamp(fixed, self.timestamp);
        set_ssrc(fixed, self.ssrc);
        let len = FIXED_HEADER_LEN + extension_block.len();
        out[FIXED_HEADER_LEN..len].copy_from_slice(extension_block);
        len
    }
}

/// Replaces marker and payload type of a written header.
#[inline]
pub fn set_marker_payload_type(header: &mut [u8; FIXED_HEADER_LEN], marker: bool, payload_type: u8) {
    header[1] = u8::from(marker) << 7 | payload_type & 0x7f;
}

/// Replaces the sequence number of a written header.
#[inline]
pub fn set_sequence_number(header: &mut [u8; FIXED_HEADER_LEN], sequence_number: u16) {
    header[2..4].copy_from_slice(&sequence_number.to_be_bytes());
}

/// Replaces the timestamp of a written header.
#[inline]
pub fn set_timestamp(header: &mut [u8; FIXED_HEADER_LEN], timestamp: u32) {
    header[4..8].copy_from_slice(&timestamp.to_be_bytes());
}

/// Replaces the SSRC of a written header.
#[inline]
pub fn set_ssrc(header: &mut [u8; FIXED_HEADER_LEN], ssrc: u32) {
    header[8..12].copy_from_slice(&ssrc.to_be_bytes());
}

/// Sets or clears the padding bit of a written header. The caller appends the padding, the last
/// byte of which is its length.
#[inline]
pub fn set_padding(header: &mut [u8; FIXED_HEADER_LEN], padded: bool) {
    header[0] = header[0] & !PADDING_BIT | if padded { PADDING_BIT } else { 0 };
}

const EXTENSION_BIT: u8 = 0x10;
const PADDING_BIT: u8 = 0x20;

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(first: u8, rest: &[u8]) -> Vec<u8> {
        let mut bytes = vec![first, 0xe0, 0x12, 0x34, 0, 1, 2, 3, 9, 8, 7, 6];
        bytes.extend(rest);
        bytes
    }

    #[test]
    fn every_field_is_where_the_rfc_has_it() {
        let bytes =
            packet(0xb2, &[0, 0, 0, 1, 0, 0, 0, 2, 0xbe, 0xde, 0, 1, 0x10, 0xaa, 0, 0, b'h', b'i', 0, 0, 3]);
        let packet = Packet::parse(&bytes).unwrap();
        assert!(packet.marker());
        assert_eq!(packet.payload_type(), 0x60);
        assert_eq!(packet.sequence_number(), 0x1234);
        assert_eq!(packet.timestamp(), 0x0001_0203);
        assert_eq!(packet.ssrc(), 0x0908_0706);
        assert_eq!(packet.csrcs().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(packet.header_len(), 28);
        assert_eq!(packet.extension_block(), [0xbe, 0xde, 0, 1, 0x10, 0xaa, 0, 0]);
        assert_eq!(packet.extensions().collect::<Vec<_>>(), [(1, &[0xaa][..])]);
        assert_eq!(packet.payload(), b"hi");
        assert_eq!(packet.padding_len(), 3);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (first, rest, expected) in [
            (0x80, &[][..], Ok(())),                                 // header only
            (0x40, &[], Err(ParseError::BadVersion)),                // version 1
            (0xc0, &[], Err(ParseError::BadVersion)),                // version 3
            (0x81, &[0; 3], Err(ParseError::BadHeader)),             // three quarters of a CSRC
            (0x81, &[0; 4], Ok(())),                                 // one CSRC
            (0x8f, &[0; 59], Err(ParseError::BadHeader)),            // fifteen need 60 bytes
            (0x90, &[0; 3], Err(ParseError::BadHeader)),             // half an extension head
            (0x90, &[0; 4], Ok(())),                                 // an empty extension
            (0x90, &[0, 0, 0, 1], Err(ParseError::BadHeader)),       // a word that is missing
            (0x90, &[0, 0, 0xff, 0xff], Err(ParseError::BadHeader)), // 262140 bytes that are missing
            (0xa0, &[0], Err(ParseError::BadPadding)),               // no padding, and the bit is set
            (0xa0, &[2], Err(ParseError::BadPadding)),               // one byte more than there is
            (0xa0, &[1], Ok(())),                                    // padding only
            (0xa0, &[], Err(ParseError::BadPadding)),                // the count would be in the SSRC
        ] {
            let bytes = packet(first, rest);
            assert_eq!(Packet::parse(&bytes).map(|_| ()), expected, "first byte {first:#x}, then {rest:?}");
        }
        assert_eq!(Packet::parse(&[0x80; 11]).unwrap_err(), ParseError::TooShort);
        assert_eq!(Packet::parse(&vec![0x80; PACKET_LEN_MAX + 1]).unwrap_err(), ParseError::TooLong);
        assert!(Packet::parse(&vec![0x80; PACKET_LEN_MAX]).is_ok());
    }

    #[test]
    fn a_written_header_is_patched_field_by_field() {
        let mut out = [0xff; 20];
        let fields =
            HeaderFields { marker: false, payload_type: 111, sequence_number: 1, timestamp: 2, ssrc: 3 };
        assert_eq!(fields.write(&[0xbe, 0xde, 0, 1, 0x10, 5, 0, 0], &mut out), 20);
        let fixed = out.first_chunk_mut().unwrap();
        set_marker_payload_type(fixed, true, 0xff);
        set_sequence_number(fixed, 0xfffe);
        set_timestamp(fixed, 0xffff_fffd);
        set_ssrc(fixed, 0xdead_beef);
        let packet = Packet::parse(&out).unwrap();
        assert_eq!(
            packet.fields(),
            HeaderFields {
                marker: true,
                payload_type: 127,
                sequence_number: 0xfffe,
                timestamp: 0xffff_fffd,
                ssrc: 0xdead_beef
            }
        );
        assert_eq!(packet.extensions().collect::<Vec<_>>(), [(1, &[5][..])]);
        set_padding(out.first_chunk_mut().unwrap(), true);
        out[19] = 1;
        assert_eq!(Packet::parse(&out).unwrap_err(), ParseError::BadPadding, "the header is no padding");
        set_padding(out.first_chunk_mut().unwrap(), false);
        assert_eq!(Packet::parse(&out).unwrap().padding_len(), 0);
    }
}
