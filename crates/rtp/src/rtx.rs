//! Retransmission payload format (RFC 4588): the original sequence number, then the original payload.
//!
//! ```text
//! | RTP header of the retransmission stream | OSN (16) | original payload |      RFC 4588 section 4
//! ```
//! Marker, timestamp and header extensions are the original's; sequence number, SSRC and payload type are the
//! retransmission stream's own. What is resent, and when, is decided in `sfu`.

/// Bytes of the original sequence number ahead of the payload.
pub const OSN_LEN: usize = 2;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_original_is_behind_its_number() {
        assert_eq!(unwrap(&[1]), None);
        assert_eq!(unwrap(&[1, 2]), Some((0x0102, &[][..])));
        assert_eq!(unwrap(&[1, 2, 3]), Some((0x0102, &[3][..])));
    }
}
