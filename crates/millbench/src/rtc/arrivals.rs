//! What a viewer reports of arrivals, for the server's congestion control
//! (draft-holmer-rmcat-transport-wide-cc-extensions-01).
//!
//! The transport-wide number is in the readable part of a packet, so that nothing is decrypted for
//! it. Times are the kernel's.

use std::time::{Duration, Instant};

use rtp::Packet;
use rtp::rtcp::{Arrival, FeedbackHead, TransportFeedback};
use rtp::sequence::SequenceUnwrapper;

/// Arrivals that were not reported yet.
#[derive(Debug)]
pub struct Arrivals {
    extension_id: u8,
    sequences: SequenceUnwrapper,
    /// In rising order of their numbers.
    arrivals: Vec<Arrival>,
    /// First number of the next report.
    base: Option<u64>,
    /// What times count from, wall clock nanoseconds.
    origin_ns: Option<u64>,
    count: u8,
    interval: Duration,
    due: Instant,
}

impl Arrivals {
    /// For packets with the number in this extension. Viewers of different `number` have intervals
    /// from [`INTERVAL_MIN`] to twice that.
    pub fn new(extension_id: u8, number: usize, now: Instant) -> Arrivals {
        let interval = INTERVAL_MIN + INTERVAL_MIN * (number % 11) as u32 / 10;
        let sequences = SequenceUnwrapper::new();
        let due = now + interval;
        Arrivals {
            extension_id,
            sequences,
            arrivals: Vec::new(),
            base: None,
            origin_ns: None,
            count: 0,
            interval,
            due,
        }
    }

    /// Notes a packet of media, encrypted or not, that arrived at this wall clock time.
    pub fn note(&mut self, packet: &[u8], at_ns: u64) {
        let Some(number) = transport_number(packet, self.extension_id) else { return };
        let sequence_number = self.sequences.unwrap(number);
        if sequence_number < *self.base.get_or_insert(sequence_number) || self.arrivals.len() >= ARRIVALS_MAX
        {
            return;
        }
        let origin_ns = *self.origin_ns.get_or_insert(at_ns);
        let ticks = (at_ns as i64 - origin_ns as i64) / NANOS_PER_TICK;
        // Nearly always the end.
        let at = self.arrivals.iter().rposition(|known| known.sequence_number <= sequence_number);
        match at {
            Some(at) if self.arrivals[at].sequence_number == sequence_number => {}
            Some(at) => self.arrivals.insert(at + 1, Arrival { sequence_number, ticks }),
            None => self.arrivals.insert(0, Arrival { sequence_number, ticks }),
        }
    }

    /// Replaces `out` by a report if one is due. Call it until it returns `false`.
    pub fn poll(&mut self, now: Instant, sender_ssrc: u32, media_ssrc: u32, out: &mut Vec<u8>) -> bool {
        let Some(base) = self.base.filter(|_| self.due <= now && !self.arrivals.is_empty()) else {
            return false;
        };
        out.clear();
        let head = FeedbackHead { sender_ssrc, media_ssrc, count: self.count, base };
        let some = &self.arrivals[..self.arrivals.len().min(REPORTED_AT_ONCE)];
        let written = TransportFeedback::write(out, &head, some);
        self.count = self.count.wrapping_add(1);
        self.base = Some(written.next_base);
        self.arrivals.drain(..written.arrivals);
        if self.arrivals.is_empty() {
            self.due = now + self.interval;
        }
        !out.is_empty()
    }
}

/// Shortest time between two reports; the longest is twice as long.
pub const INTERVAL_MIN: Duration = Duration::from_millis(50);

/// The number in the header, which SRTP leaves readable (RFC 3711 section 3.1).
fn transport_number(packet: &[u8], extension_id: u8) -> Option<u16> {
    // The last byte of an encrypted packet is no count of padding.
    let mut head = [0; HEADER_BYTES_MAX];
    let length = packet.len().min(HEADER_BYTES_MAX);
    head[..length].copy_from_slice(&packet[..length]);
    head[0] &= !PADDING;
    let parsed = Packet::parse(&head[..length]).ok()?;
    let (_, data) = parsed.extensions().find(|(id, _)| *id == extension_id)?;
    data.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

/// Bit of the first byte (RFC 3550 section 5.1).
const PADDING: u8 = 0x20;
/// Longer than any header a server sends.
const HEADER_BYTES_MAX: usize = 128;
/// Unit of arrival times: 250 us.
const NANOS_PER_TICK: i64 = 250_000;
/// As many as fit a datagram however they came.
const REPORTED_AT_ONCE: usize = 200;
/// Arrivals that wait for a report; further ones seem lost to the server.
const ARRIVALS_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use rtp::rtcp::{PacketStatus, Rtcp, packets};

    use super::*;

    /// A header with a transport-wide number in extension 3, and what follows encrypted.
    fn packet(number: u16) -> Vec<u8> {
        let mut bytes = vec![0xb0, 96, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0xbe, 0xde, 0, 1, 0x31];
        bytes.extend(number.to_be_bytes());
        bytes.extend([0, 0xff, 0xff, 0xff, 0xff]);
        bytes
    }

    fn reported(arrivals: &mut Arrivals, now: Instant) -> Option<(u8, Vec<PacketStatus>)> {
        let mut out = Vec::new();
        if !arrivals.poll(now, 1, 2, &mut out) {
            return None;
        }
        match packets(&out).next() {
            Some(Ok(Rtcp::TransportFeedback(feedback))) => {
                Some((feedback.count, feedback.packets().collect()))
            }
            other => panic!("no feedback: {other:?}"),
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    fn what_arrived_is_reported_once_in_its_order() {
        let begin = Instant::now();
        let mut arrivals = Arrivals::new(3, 0, begin);
        for (number, at_ms) in [(65_534, 0), (0, 10), (65_535, 11), (0, 12), (2, 20)] {
            arrivals.note(&packet(number), 1_000_000_000 + at_ms * 1_000_000);
        }
        arrivals.note(&[0x80, 96, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3], 0);
        assert_eq!(reported(&mut arrivals, begin), None, "not yet");
        let status = |sequence_number, ms: Option<i64>| PacketStatus {
            sequence_number,
            arrival_ticks: ms.map(|ms| ms * 4),
        };
        let expected = vec![
            status(65_534, Some(0)),
            status(65_535, Some(11)),
            status(0, Some(10)),
            status(1, None),
            status(2, Some(20)),
        ];
        let due = begin + INTERVAL_MIN;
        assert_eq!(reported(&mut arrivals, due), Some((0, expected)));
        assert_eq!(reported(&mut arrivals, due), None);
        arrivals.note(&packet(3), 1_060_000_000);
        assert_eq!(reported(&mut arrivals, due), None, "one was sent a moment ago");
        assert_eq!(reported(&mut arrivals, due + INTERVAL_MIN), Some((1, vec![status(3, Some(60))])));
    }
}
