//! As much of the packets inside as the relay looks at: whose they are.

/// Whose packet it is: of RTP, or the sender's of RTCP (RFC 3550 sections 5.1 and 6.4).
pub(crate) fn ssrc_of(packet: &[u8]) -> Option<u32> {
    let is_rtcp = is_rtcp(packet)?;
    let at = if is_rtcp { 4 } else { 8 };
    packet.get(at..)?.first_chunk().map(|ssrc| u32::from_be_bytes(*ssrc))
}

/// RTCP or RTP (RFC 5761 section 4); `None` if it is neither.
pub(crate) fn is_rtcp(packet: &[u8]) -> Option<bool> {
    let &[first, second] = packet.first_chunk()?;
    let is_rtcp = (192..=223).contains(&second);
    (first >> 6 == 2 && (is_rtcp || packet.len() >= RTP_HEADER_BYTES)).then_some(is_rtcp)
}

const RTP_HEADER_BYTES: usize = 12;
