//! Retransmission payload format (RFC 4588): the original sequence number, then the original payload.
//!
//! ```text
//! | RTP header of the retransmission stream | OSN (16) | original payload |      RFC 4588 section 4
//! ```
//! Marker, timestamp and header extensions are the original's; sequence number, SSRC and payload type are the
//! retransmission stream's own. What is resent, and when, is decided in `sfu`.

use std::error::Error;
use std::fmt;

use crate::packet::{FIXED_HEADER_LEN, Packet, set_marker_payload_type, set_sequence_number, set_ssrc};

/// Bytes of the original sequence number ahead of the payload.
pub const OSN_LEN: usize = 2;

/// A retransmission without an original in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnwrapError {
    /// Not RTP.
    NotRtp,
    /// Nothing but padding: senders probe for bandwidth with such packets.
    PaddingOnly,
    /// One byte: too short for a sequence number.
    TooShort,
}

impl fmt::Display for UnwrapError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NotRtp => "a retransmission that is not RTP",
            Self::PaddingOnly => "a retransmission of nothing but padding",
            Self::TooShort => "a retransmission without its original sequence number",
        })
    }
}

impl Error for UnwrapError {}

/// Original sequence number and payload of a retransmission's payload.
#[inline]
pub fn unwrap(payload: &[u8]) -> Option<(u16, &[u8])> {
    let (osn, original) = payload.split_first_chunk()?;
    Some((u16::from_be_bytes(*osn), original))
}

/// The two bytes to send between header and original payload.
#[inline]
pub fn osn(original_sequence_number: u16) -> [u8; OSN_LEN] {
    original_sequence_number.to_be_bytes()
}

/// Makes the original packet of the retransmission that fills `packet`, and returns it: the end of
/// `packet`, two bytes shorter, with the header moved over the original sequence number. Padding
/// remains.
///
/// The original may be empty: a retransmitted padding packet.
pub fn unwrap_in_place(packet: &mut [u8], ssrc: u32, payload_type: u8) -> Result<&mut [u8], UnwrapError> {
    let parsed = Packet::parse(packet).map_err(|_| UnwrapError::NotRtp)?;
    let (header_len, marker) = (parsed.header_len(), parsed.marker());
    let osn = match parsed.payload() {
        [] => return Err(UnwrapError::PaddingOnly),
        payload => unwrap(payload).ok_or(UnwrapError::TooShort)?.0,
    };
    packet.copy_within(..header_len, OSN_LEN);
    let original = &mut packet[OSN_LEN..];
    if let Some(header) = original.first_chunk_mut::<FIXED_HEADER_LEN>() {
        set_marker_payload_type(header, marker, payload_type);
        set_sequence_number(header, osn);
        set_ssrc(header, ssrc);
    }
    Ok(original)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HeaderFields;

    /// A packet with an extension and padding, as sent and as retransmitted.
    fn pair(payload: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let extension = [0xbe, 0xde, 0, 1, 0x10, 9, 0, 0];
        let fields = HeaderFields {
            marker: true,
            payload_type: 96,
            sequence_number: 0xfffe,
            timestamp: 77,
            ssrc: 0x1111,
        };
        let write = |fields: &HeaderFields, osn: &[u8]| {
            let mut packet = vec![0; 20];
            fields.write(&extension, &mut packet);
            crate::set_padding(packet.first_chunk_mut().unwrap(), true);
            packet.extend(osn);
            packet.extend(payload);
            packet.extend([0, 0, 3]);
            packet
        };
        let resent = HeaderFields { payload_type: 97, sequence_number: 5, ssrc: 0x2222, ..fields };
        (write(&fields, &[]), write(&resent, &osn(0xfffe)))
    }

    #[test]
    fn the_original_comes_out_byte_for_byte() {
        for payload in [&b"picture"[..], b"", b"x"] {
            let (original, mut resent) = pair(payload);
            assert_eq!(unwrap_in_place(&mut resent, 0x1111, 96), Ok(&mut original.clone()[..]));
        }
    }

    #[test]
    fn what_holds_no_original_is_refused_and_left_alone() {
        let (_, resent) = pair(b"");
        for (packet, expected) in [
            (resent[..resent.len() - 1].to_vec(), UnwrapError::NotRtp), // padding count is now 0
            (vec![0x80; 5], UnwrapError::NotRtp),
            (vec![0x80; 12], UnwrapError::PaddingOnly),
            (vec![0x80; 13], UnwrapError::TooShort),
        ] {
            let mut changed = packet.clone();
            assert_eq!(unwrap_in_place(&mut changed, 1, 2), Err(expected));
            assert_eq!(changed, packet);
        }
        assert_eq!(unwrap(&[1]), None);
        assert_eq!(unwrap(&[1, 2]), Some((0x0102, &[][..])));
    }
}
