//! What SRTP must know of RTP and RTCP headers: where the payload begins, and whose packet it is.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! |V=2|P|X|  CC   |M|     PT      |       sequence number         |   RFC 3550 section 5.1
//! |                           timestamp                           |
//! |                             SSRC                              |
//! |                    CSRC x CC, then if X:                      |
//! |      defined by profile       |     length (32-bit words)     |   RFC 3550 section 5.3.1
//! |                       header extension                        |
//! ```
//! Padding lies inside the encrypted part and is of no interest here.

/// Bytes of the fixed RTP header.
pub(crate) const RTP_FIXED: usize = 12;
/// Bytes of an RTCP packet that stay in the clear: the first header and the sender's SSRC (RFC 3711
/// section 3.4).
pub(crate) const RTCP_CLEAR: usize = 8;
/// Longest packet taken, in bytes: a UDP datagram cannot be longer.
pub(crate) const PACKET_MAX: usize = 65_535;

/// Why bytes are not an RTP or RTCP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderError {
    TooShort,
    TooLong,
    BadVersion,
    BadHeader,
}

/// The fields of an RTP header that SRTP works with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RtpHeader {
    pub(crate) ssrc: u32,
    pub(crate) sequence: u16,
    /// Bytes up to the payload; at most the packet's length.
    pub(crate) len: usize,
}

impl RtpHeader {
    /// Reads the header of `packet`, whose header must lie inside it.
    #[inline]
    pub(crate) fn parse(packet: &[u8]) -> Result<Self, HeaderError> {
        let fixed: &[u8; RTP_FIXED] = packet.first_chunk().ok_or(HeaderError::TooShort)?;
        if packet.len() > PACKET_MAX {
            return Err(HeaderError::TooLong);
        }
        if fixed[0] >> 6 != 2 {
            return Err(HeaderError::BadVersion);
        }
        let mut len = RTP_FIXED + 4 * usize::from(fixed[0] & 0x0f);
        if fixed[0] & 0x10 != 0 {
            let extension: &[u8; 4] =
                packet.get(len..).and_then(|rest| rest.first_chunk()).ok_or(HeaderError::BadHeader)?;
            len += 4 + 4 * usize::from(u16::from_be_bytes([extension[2], extension[3]]));
        }
        if len > packet.len() {
            return Err(HeaderError::BadHeader);
        }
        let sequence = u16::from_be_bytes([fixed[2], fixed[3]]);
        let ssrc = u32::from_be_bytes([fixed[8], fixed[9], fixed[10], fixed[11]]);
        Ok(Self { ssrc, sequence, len })
    }
}

/// SSRC of the sender of an RTCP packet, the first of a compound packet.
pub(crate) fn rtcp_sender(packet: &[u8]) -> Result<u32, HeaderError> {
    let clear: &[u8; RTCP_CLEAR] = packet.first_chunk().ok_or(HeaderError::TooShort)?;
    if packet.len() > PACKET_MAX {
        return Err(HeaderError::TooLong);
    }
    if clear[0] >> 6 != 2 {
        return Err(HeaderError::BadVersion);
    }
    Ok(u32::from_be_bytes([clear[4], clear[5], clear[6], clear[7]]))
}

macro_rules! from_header_error {
    ($($error:ty),*) => {$(
        impl From<HeaderError> for $error {
            fn from(error: HeaderError) -> Self {
                match error {
                    HeaderError::TooShort => Self::TooShort,
                    HeaderError::TooLong => Self::TooLong,
                    HeaderError::BadVersion => Self::BadVersion,
                    HeaderError::BadHeader => Self::BadHeader,
                }
            }
        }
    )*};
}
from_header_error!(crate::ProtectError, crate::UnprotectError);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_begins_behind_csrcs_and_extension() {
        let mut packet = [0u8; 64];
        packet[2..4].copy_from_slice(&[0x12, 0x34]);
        packet[8..12].copy_from_slice(&[1, 2, 3, 4]);
        for (first, words, expected) in [
            (0x80, 0, Ok(12)),                       // fixed header only
            (0xa3, 0, Ok(24)),                       // padding bit, three CSRCs
            (0x90, 0, Ok(16)),                       // empty extension
            (0x92, 9, Ok(60)),                       // two CSRCs, nine words
            (0x92, 10, Ok(64)),                      // reaches the end exactly
            (0x92, 11, Err(HeaderError::BadHeader)), // one word too many
            (0x40, 0, Err(HeaderError::BadVersion)), // version 1
        ] {
            packet[0] = first;
            let extension = 12 + 4 * usize::from(first & 0x0f);
            packet[extension + 2..extension + 4].copy_from_slice(&u16::to_be_bytes(words));
            let parsed = RtpHeader::parse(&packet);
            assert_eq!(parsed.map(|header| header.len), expected, "first byte {first:#x}, {words} words");
            if let Ok(header) = parsed {
                assert_eq!((header.ssrc, header.sequence), (0x0102_0304, 0x1234));
            }
        }
        assert_eq!(RtpHeader::parse(&[0x80; 11]), Err(HeaderError::TooShort));
        assert_eq!(RtpHeader::parse(&[0x8f; 71]), Err(HeaderError::BadHeader), "fifteen CSRCs need 72 bytes");
        assert_eq!(RtpHeader::parse(&[0x90; 15]), Err(HeaderError::BadHeader), "half an extension header");
    }
}
