//! RTP and RTCP packets of every shape a header can have (RFC 3550 sections 5.1 and 6, RFC 8285 section 4).

use crate::random::Random;

/// An RTP packet with random CSRCs, extension, padding, marker and payload of `payload_len` bytes.
pub fn rtp(random: &mut Random, ssrc: u32, sequence: u16, payload_len: usize) -> Vec<u8> {
    let csrcs = if random.one_in(3) { random.in_range(0..=15) } else { 0 };
    let padded = payload_len > 0 && random.one_in(4);
    let extension = extension(random);
    let mut packet = rtp_header(ssrc, sequence).to_vec();
    packet[0] |= csrcs as u8 | u8::from(padded) << 5 | u8::from(extension.is_some()) << 4;
    packet[1] = random.next_u32() as u8;
    random.fill(&mut packet[4..8]);
    packet.extend(random.bytes(4 * csrcs));
    packet.extend(extension.unwrap_or_default());
    packet.extend(random.bytes(payload_len));
    if padded {
        // The last byte counts the padding, itself included. SRTP encrypts padding as it does payload.
        *packet.last_mut().expect("a padded packet has a payload") =
            random.in_range(1..=payload_len.min(255)) as u8;
    }
    packet
}

/// The twelve bytes of a plain header.
pub fn rtp_header(ssrc: u32, sequence: u16) -> [u8; 12] {
    let mut header = [0x80, 96, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    header[2..4].copy_from_slice(&sequence.to_be_bytes());
    header[8..].copy_from_slice(&ssrc.to_be_bytes());
    header
}

/// Length of the header of a well-formed RTP packet, CSRCs and extension included.
pub fn rtp_header_len(packet: &[u8]) -> usize {
    let fixed = 12 + 4 * usize::from(packet[0] & 15);
    if packet[0] & 0x10 == 0 {
        return fixed;
    }
    fixed + 4 + 4 * usize::from(u16::from_be_bytes([packet[fixed + 2], packet[fixed + 3]]))
}

/// A compound RTCP packet whose first part is a report of `ssrc`, followed by `words` random words.
pub fn rtcp(random: &mut Random, ssrc: u32, words: usize) -> Vec<u8> {
    let mut packet = vec![0x80, 201, 0, 1];
    packet.extend(ssrc.to_be_bytes());
    let behind = random.bytes(4 * words);
    packet.extend(behind);
    packet
}

/// None, one-byte elements, two-byte elements, or words under an unknown profile; possibly without
/// any word.
fn extension(random: &mut Random) -> Option<Vec<u8>> {
    let (profile, words): (u16, Vec<u8>) = match random.in_range(0..=5) {
        0 => (0xbede, vec![0x12, 1, 2, 3, 0x30, 9, 0, 0]),
        1 => (0x1000 | random.in_range(0..=15) as u16, vec![7, 5, 1, 2, 3, 4, 5, 0, 9, 0, 0, 0]),
        2 => {
            let words = random.in_range(0..=20);
            (random.next_u32() as u16, random.bytes(4 * words))
        }
        _ => return None,
    };
    let mut extension = profile.to_be_bytes().to_vec();
    extension.extend(((words.len() / 4) as u16).to_be_bytes());
    extension.extend(words);
    Some(extension)
}
