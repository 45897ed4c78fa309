//! Arrival times of a publisher's packets, for its congestion control
//! (draft-holmer-rmcat-transport-wide-cc-extensions-01).
//!
//! Arrivals are recorded by transport-wide number and reported some ten times a second. A publisher
//! that sends nothing gets no feedback.

use std::time::{Duration, Instant};

use rtp::rtcp::{Arrival, FeedbackHead, TransportFeedback};
use rtp::sequence::SequenceUnwrapper;

/// What has arrived since the last feedback.
#[derive(Debug)]
pub(crate) struct Arrivals {
    origin: Instant,
    /// Id of the extension with the transport-wide number, the same on all m-lines.
    extension_id: u8,
    sequences: SequenceUnwrapper,
    /// In rising order.
    arrivals: Vec<Arrival>,
    /// First number the next feedback covers.
    base: Option<u64>,
    count: u8,
    due: Option<Instant>,
}

impl Arrivals {
    pub(crate) fn new(origin: Instant, extension_id: u8) -> Self {
        let sequences = SequenceUnwrapper::new();
        Self { origin, extension_id, sequences, arrivals: Vec::new(), base: None, count: 0, due: None }
    }

    /// Notes a packet, if it has a transport-wide number. False if there is no room for it: it
    /// will seem lost to the publisher.
    pub(crate) fn note(&mut self, now: Instant, packet: &rtp::Packet<'_>) -> bool {
        let number = packet.extensions().find(|(id, _)| *id == self.extension_id);
        let Some(number) = number.and_then(|(_, data)| data.first_chunk()) else { return true };
        let sequence_number = self.sequences.unwrap(u16::from_be_bytes(*number));
        if sequence_number < *self.base.get_or_insert(sequence_number) {
            // Its number has been reported as lost, which cannot be taken back.
            return true;
        }
        if self.arrivals.len() >= ARRIVALS_MAX {
            return false;
        }
        let ticks = now.saturating_duration_since(self.origin).as_micros() as i64 / MICROS_PER_TICK;
        let arrival = Arrival { sequence_number, ticks };
        // Nearly always the end.
        let at = self.arrivals.iter().rposition(|known| known.sequence_number <= sequence_number);
        match at {
            Some(at) if self.arrivals[at].sequence_number == sequence_number => return true,
            Some(at) => self.arrivals.insert(at + 1, arrival),
            None => self.arrivals.insert(0, arrival),
        }
        let due = if self.arrivals.len() >= SOON_PACKETS { now } else { now + INTERVAL };
        self.due = Some(self.due.map_or(due, |known| known.min(due)));
        true
    }

    /// When a feedback is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.due
    }

    /// Appends the feedback that is due, as far as `out` gets no longer than `len_max`. The rest
    /// remains due.
    pub(crate) fn poll(
        &mut self,
        now: Instant,
        sender_ssrc: u32,
        media_ssrc: u32,
        len_max: usize,
        out: &mut Vec<u8>,
    ) {
        if self.due.is_none_or(|due| due > now) {
            return;
        }
        let mut told = 0;
        while let (Some(base), false) = (self.base, told == self.arrivals.len()) {
            let (start, head) =
                (out.len(), FeedbackHead { sender_ssrc, media_ssrc, count: self.count, base });
            let rest = &self.arrivals[told..];
            let written = TransportFeedback::write(out, &head, &rest[..rest.len().min(SOON_PACKETS)]);
            if out.len() > len_max {
                out.truncate(start);
                break;
            }
            self.count = self.count.wrapping_add(1);
            self.base = Some(written.next_base);
            told += written.arrivals;
        }
        self.arrivals.drain(..told);
        if self.arrivals.is_empty() {
            self.due = None;
        }
    }
}

/// Packets noted between two feedbacks. Further ones are not, and seem lost to the publisher.
const ARRIVALS_MAX: usize = 4_096;
/// Unit of arrival times.
const MICROS_PER_TICK: i64 = 250;
/// Time between feedbacks. Browsers adapt their rate about this often.
const INTERVAL: Duration = Duration::from_millis(100);
/// So many packets are reported at once: as many as a feedback of 720 bytes holds however they came
/// (20 of head, 298 of statuses for 1024 numbers, two for each arrival), so that one always fits.
const SOON_PACKETS: usize = 200;
