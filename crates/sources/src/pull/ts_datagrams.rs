//! Datagrams of MPEG-TS, bare or in RTP (RFC 2250 section 2), to the bytes of the stream.
//!
//! Those in RTP are put in order; whose they are is for `udp.rs`.

use std::collections::BTreeMap;

use mpegts::{PACKET_BYTES, PACKET_DISTANCES, SYNC_BYTE};
use rtp::Packet;

/// The payload type of MPEG-TS (RFC 3551 section 6).
const PAYLOAD_TYPE: u8 = 33;
/// Datagrams that wait for one ahead of them.
const REORDER_MAX: usize = 16;
/// Numbers of RTP that are further apart are of another sequence.
const FAR: u16 = 1024;

/// Puts the datagrams of one sender in order. At most 16 wait for one ahead of them.
#[derive(Debug, Default)]
pub struct TsDatagrams {
    order: Order,
}

impl TsDatagrams {
    /// Takes a datagram in and hands on what is complete up to it. Whether it has packets of a transport
    /// stream.
    pub fn push(&mut self, datagram: &[u8], mut hand_on: impl FnMut(&[u8])) -> bool {
        let (payload, number) = read(datagram);
        match number {
            None => hand_on(payload),
            Some(number) => self.order.push(number, payload, hand_on),
        }
        has_packets(payload)
    }

    /// Datagrams that wait.
    pub fn waiting(&self) -> usize {
        self.order.waiting.len()
    }
}

/// The packets in a datagram, and its number if it is RTP.
fn read(datagram: &[u8]) -> (&[u8], Option<u16>) {
    // Time stamps ahead of packets may look like RTP.
    let with_stamps = PACKET_DISTANCES[1];
    let is_stamped = !datagram.is_empty()
        && datagram.len().is_multiple_of(with_stamps)
        && datagram.chunks(with_stamps).all(|packet| packet[with_stamps - PACKET_BYTES] == SYNC_BYTE);
    if is_stamped || datagram.first() == Some(&SYNC_BYTE) {
        return (datagram, None);
    }
    match Packet::parse(datagram) {
        Ok(packet) if packet.payload_type() == PAYLOAD_TYPE => {
            (packet.payload(), Some(packet.sequence_number()))
        }
        // Packets may be cut anywhere, too.
        _ => (datagram, None),
    }
}

/// Whether packets of a transport stream may be in there: where one begins, the next one does behind it.
fn has_packets(payload: &[u8]) -> bool {
    if payload.len() < PACKET_BYTES {
        return false;
    }
    let is_sync = |at: usize| payload.get(at).is_none_or(|byte| *byte == SYNC_BYTE);
    PACKET_DISTANCES.iter().any(|distance| {
        let begin = (0..payload.len().min(*distance)).find(|at| is_sync(*at));
        begin.is_some_and(|begin| is_sync(begin + distance) && is_sync(begin + 2 * distance))
    })
}

/// Puts RTP packets in order, as far as a few that are late.
#[derive(Debug, Default)]
struct Order {
    /// The number that is next.
    next: Option<u16>,
    /// By how much further they are.
    waiting: BTreeMap<u64, Vec<u8>>,
    /// The number that is next, never wrapped.
    position: u64,
}

impl Order {
    fn push(&mut self, number: u16, payload: &[u8], mut hand_on: impl FnMut(&[u8])) {
        let next = *self.next.get_or_insert(number);
        let ahead = number.wrapping_sub(next);
        match ahead {
            0 => {
                hand_on(payload);
                self.advance(1);
            }
            1..=FAR => {
                self.waiting.entry(self.position + u64::from(ahead)).or_insert_with(|| payload.to_vec());
            }
            // It comes twice, or too late.
            _ if next.wrapping_sub(number) <= FAR => {}
            // The sender has begun again.
            _ => {
                std::mem::take(&mut self.waiting).values().for_each(|payload| hand_on(payload));
                hand_on(payload);
                self.next = Some(number.wrapping_add(1));
            }
        }
        while let Some((&position, _)) = self.waiting.first_key_value()
            && (position == self.position || self.waiting.len() > REORDER_MAX)
        {
            let payload = self.waiting.remove(&position).unwrap_or_default();
            hand_on(&payload);
            self.advance(position - self.position + 1);
        }
    }

    fn advance(&mut self, by: u64) {
        self.position += by;
        self.next = self.next.map(|next| next.wrapping_add(by as u16));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(numbers: &[u16]) -> Vec<u8> {
        let (mut order, mut out) = (Order::default(), Vec::new());
        for (at, number) in numbers.iter().enumerate() {
            order.push(*number, &[at as u8], |payload| out.push(payload[0]));
            assert!(order.waiting.len() <= REORDER_MAX);
        }
        out
    }

    #[test]
    fn rtp_packets_are_put_in_order() {
        assert_eq!(ordered(&[65_534, 65_535, 1, 0, 2]), [0, 1, 3, 2, 4], "around the end");
        assert_eq!(ordered(&[5, 7, 7, 6, 5, 8]), [0, 3, 1, 5], "twice");
        let lost: Vec<u16> = [1].into_iter().chain(3..25).collect();
        assert_eq!(ordered(&lost), (0..23).collect::<Vec<u8>>(), "one that never comes");
        assert_eq!(ordered(&[40_000, 40_001, 7, 8]), [0, 1, 2, 3], "a sender that begins again");
    }

    #[test]
    fn datagrams_are_bare_or_rtp() {
        let bare = [&[0x47][..], &[0; 187]].concat();
        assert_eq!(read(&bare), (&bare[..], None));
        let rtp = [&[0x80, 33, 0x12, 0x34, 0, 0, 0, 0, 0, 0, 0, 0][..], &bare].concat();
        assert_eq!(read(&rtp), (&bare[..], Some(0x1234)));
        // A time stamp that looks like RTP, and the parity of a code.
        let stamped = [&[0x80, 33, 0x12, 0x34][..], &bare].concat().repeat(7);
        let with_parity = [&bare[..], &[7; 16]].concat().repeat(7);
        for datagram in [stamped, with_parity] {
            assert_eq!(read(&datagram), (&datagram[..], None));
            assert!(has_packets(&datagram) && !has_packets(&vec![7; datagram.len()]));
        }
    }
}
