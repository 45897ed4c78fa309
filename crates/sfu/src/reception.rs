//! What was received from one source, counted as RFC 3550 counts it (appendices A.1, A.3, A.8).
//!
//! Gives each packet its extended sequence number, knows duplicates, and makes the report block
//! that is sent to the publisher.

use std::time::{Duration, Instant};

use rtp::rtcp::{NtpMiddle, ReportBlock};
use rtp::sequence::SequenceUnwrapper;

use super::rtp_rewriter::{JUMP_MAX, rtp_units};

/// Statistics of one source (SSRC).
#[derive(Debug)]
pub(crate) struct Reception {
    sequences: SequenceUnwrapper,
    first: u64,
    /// Bit `n`: the packet `n` numbers before the highest has arrived.
    window: u128,
    /// The number that would confirm that the source has restarted.
    confirming: Option<u16>,
    received: u64,
    expected_before: u64,
    received_before: u64,
    transit: Option<(u32, Instant)>,
    /// Jitter in timestamp units, times 16.
    jitter_16: u32,
    report: Option<(NtpMiddle, Instant)>,
}

/// How a packet relates to those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sequence {
    /// Taken, with its extended number.
    Fresh(u64),
    /// Taken as the first after a restart of the source, whose numbers are unrelated to those
    /// before.
    Restarted(u64),
    /// Has been received before, or is too late to know.
    Duplicate,
    /// Far from all others; taken only if the next one goes on from it.
    Unconfirmed,
}

impl Reception {
    pub(crate) fn new() -> Self {
        Self {
            sequences: SequenceUnwrapper::new(),
            first: 0,
            window: 0,
            confirming: None,
            received: 0,
            expected_before: 0,
            received_before: 0,
            transit: None,
            jitter_16: 0,
            report: None,
        }
    }

    /// Takes in the sequence number of a packet of the media.
    pub(crate) fn take(&mut self, sequence_number: u16) -> Sequence {
        let taken = self.look(sequence_number);
        self.received += u64::from(matches!(taken, Sequence::Fresh(_) | Sequence::Restarted(_)));
        taken
    }

    /// Takes in the original number of a packet that came again on the stream of retransmissions.
    /// It was lost, and the publisher needs to know: it does not count as received.
    pub(crate) fn take_repair(&mut self, sequence_number: u16) -> Sequence {
        match self.sequences.highest() {
            Some(highest) if self.sequences.peek(sequence_number) <= highest => self.look(sequence_number),
            _ => Sequence::Unconfirmed,
        }
    }

    fn look(&mut self, sequence_number: u16) -> Sequence {
        let Some(highest) = self.sequences.highest() else { return self.begin(sequence_number) };
        let sequence = self.sequences.peek(sequence_number);
        if sequence > highest {
            if sequence - highest > JUMP_MAX {
                return self.confirm(sequence_number);
            }
            self.sequences.unwrap(sequence_number);
            self.window = self.window.checked_shl((sequence - highest) as u32).unwrap_or(0) | 1;
        } else {
            let back = highest - sequence;
            if back > JUMP_MAX {
                return self.confirm(sequence_number);
            }
            // Without a bit for it, it is up to the cache to know it (which reaches further back).
            let bit = 1u128.checked_shl(back as u32).unwrap_or(0);
            if self.window & bit != 0 {
                return Sequence::Duplicate;
            }
            self.window |= bit;
        }
        self.confirming = None;
        Sequence::Fresh(sequence)
    }

    /// Two numbers in a row far from all before are a source that has restarted (RFC 3550 appendix
    /// A.1).
    fn confirm(&mut self, sequence_number: u16) -> Sequence {
        if self.confirming != Some(sequence_number) {
            self.confirming = Some(sequence_number.wrapping_add(1));
            return Sequence::Unconfirmed;
        }
        let (report, jitter_16) = (self.report, self.jitter_16);
        *self = Self { report, jitter_16, ..Self::new() };
        match self.begin(sequence_number) {
            Sequence::Fresh(sequence) => Sequence::Restarted(sequence),
            other => other,
        }
    }

    fn begin(&mut self, sequence_number: u16) -> Sequence {
        self.first = self.sequences.unwrap(sequence_number);
        self.window = 1;
        Sequence::Fresh(self.first)
    }

    /// Takes in when a packet of the media arrived (not a retransmission), for the jitter (appendix
    /// A.8).
    pub(crate) fn measure_jitter(&mut self, timestamp: u32, now: Instant, clock_rate: u32) {
        // The packets of one frame leave together; only their first says something.
        if self.transit.is_some_and(|(earlier, _)| earlier == timestamp) {
            return;
        }
        let Some((earlier, at)) = self.transit.replace((timestamp, now)) else { return };
        let passed = rtp_units(now.saturating_duration_since(at), clock_rate);
        let transit = passed.wrapping_sub(timestamp.wrapping_sub(earlier)).cast_signed().unsigned_abs();
        // A pause or a new clock is no jitter.
        self.jitter_16 = self.jitter_16 + transit.min(clock_rate) - ((self.jitter_16 + 8) >> 4);
    }

    /// Takes in a sender report's time.
    pub(crate) fn note_sender_report(&mut self, middle: NtpMiddle, now: Instant) {
        self.report = Some((middle, now));
    }

    /// The report block for `ssrc`, and the beginning of the next interval. `None` before the first
    /// packet.
    pub(crate) fn report(&mut self, ssrc: u32, now: Instant) -> Option<ReportBlock> {
        let highest = self.sequences.highest()?;
        let expected = highest - self.first + 1;
        let lost = expected.cast_signed() - self.received.cast_signed();
        let expected_interval = expected - self.expected_before;
        let received_interval = self.received - self.received_before;
        (self.expected_before, self.received_before) = (expected, self.received);
        let lost_interval = expected_interval.saturating_sub(received_interval);
        let fraction = (lost_interval << 8).checked_div(expected_interval).unwrap_or(0);
        let (last_report, delay) = match self.report {
            Some((middle, at)) => (middle, NtpMiddle::from_duration(now.saturating_duration_since(at))),
            None => (NtpMiddle(0), NtpMiddle(0)),
        };
        Some(ReportBlock {
            ssrc,
            fraction_lost: fraction.min(255) as u8,
            cumulative_lost: lost.clamp(-0x80_0000, 0x7f_ffff) as i32,
            // The first cycle has number 1 here and 0 on the wire.
            highest_sequence_number: highest.wrapping_sub(1 << 16) as u32,
            jitter_rtp_units: self.jitter_16 >> 4,
            last_report,
            delay_since_last_report: delay,
        })
    }

    /// Packets expected and received so far.
    pub(crate) fn totals(&self) -> (u64, u64) {
        let expected = self.sequences.highest().map_or(0, |highest| highest - self.first + 1);
        (expected, self.received)
    }

    /// The highest extended number.
    pub(crate) fn highest(&self) -> Option<u64> {
        self.sequences.highest()
    }

    /// Jitter of arrivals.
    pub(crate) fn jitter(&self, clock_rate: u32) -> Duration {
        Duration::from_secs_f64(f64::from(self.jitter_16 >> 4) / f64::from(clock_rate.max(1)))
    }
}

/// Bits per second, measured over seconds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rate {
    since: Option<Instant>,
    bytes: u64,
    pub(crate) bits_per_second: u64,
}

impl Rate {
    pub(crate) fn add(&mut self, now: Instant, bytes: usize) {
        let since = *self.since.get_or_insert(now);
        let passed = now.saturating_duration_since(since);
        if passed >= Duration::from_secs(3) {
            // After a pause the rate before it is the better guess.
            (self.since, self.bytes) = (Some(now), 0);
        } else if passed >= Duration::from_secs(1) {
            self.note(self.bytes * 8_000 / passed.as_millis().max(1) as u64);
            (self.since, self.bytes) = (Some(now), 0);
        }
        self.bytes += bytes as u64;
    }

    /// A second with a key frame that somebody asked for has a fifth more than the one before, and is no
    /// reason to leave a layer; a source that changes its rate is.
    fn note(&mut self, measured: u64) {
        let before = self.bits_per_second;
        self.bits_per_second = match measured.abs_diff(before) > before / 4 {
            true => measured,
            false if measured > before => before + (measured - before) / 4,
            false => before.midpoint(measured),
        };
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test is where virtual time begins")]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_extended_and_duplicates_known_however_they_wrap() {
        let mut reception = Reception::new();
        assert_eq!(reception.take(65_534), Sequence::Fresh(65_536 + 65_534));
        assert_eq!(reception.take(1), Sequence::Fresh(2 * 65_536 + 1));
        assert_eq!(reception.take(65_535), Sequence::Fresh(65_536 + 65_535), "late, across the wrap");
        assert_eq!(reception.take(65_535), Sequence::Duplicate);
        assert_eq!(reception.take(65_533), Sequence::Fresh(65_536 + 65_533), "ahead of the first");
        for number in 2..200 {
            assert_eq!(reception.take(number), Sequence::Fresh(2 * 65_536 + u64::from(number)));
            assert_eq!(reception.take(number), Sequence::Duplicate);
        }
        assert_eq!(reception.take(199 - 127), Sequence::Duplicate, "the last the window knows");
        assert_eq!(reception.totals(), (202, 202), "0 never came, and one from before the beginning did");
    }

    #[test]
    fn a_far_number_counts_only_if_the_next_goes_on_from_it() {
        let mut reception = Reception::new();
        reception.take(10);
        assert_eq!(reception.take(5_000), Sequence::Unconfirmed);
        assert_eq!(reception.take(11), Sequence::Fresh(65_536 + 11));
        assert_eq!(reception.take(5_001), Sequence::Unconfirmed, "the one between took it back");
        assert_eq!(reception.take(5_002), Sequence::Restarted(65_536 + 5_002));
        assert_eq!(reception.take(40_000), Sequence::Unconfirmed, "back is as far as ahead");
        assert_eq!(reception.take(40_001), Sequence::Restarted(65_536 + 40_001));
        assert_eq!(reception.take(40_001 + JUMP_MAX as u16), Sequence::Fresh(65_536 + 40_001 + JUMP_MAX));
    }

    #[test]
    fn a_rate_is_steady_through_a_key_frame_and_follows_a_change_at_once() {
        let (mut rate, start) = (Rate::default(), Instant::now());
        let mut at = start;
        let mut second = |bits: usize| {
            for _ in 0..10 {
                rate.add(at, bits / 80);
                at += Duration::from_millis(100);
            }
            rate.add(at, 0);
            rate.bits_per_second
        };
        assert_eq!(second(500_000), 500_000);
        assert_eq!(second(600_000), 525_000, "with a key frame more");
        assert_eq!(second(500_000), 512_500);
        assert_eq!(second(1_000_000), 1_000_000);
        assert_eq!(second(200_000), 200_000);
    }

    #[test]
    fn repairs_never_move_the_highest_number() {
        let mut reception = Reception::new();
        assert_eq!(reception.take_repair(5), Sequence::Unconfirmed, "of a encoding nothing is known of");
        reception.take(10);
        reception.take(12);
        assert_eq!(reception.take_repair(13), Sequence::Unconfirmed);
        assert_eq!(reception.take_repair(11), Sequence::Fresh(65_536 + 11));
        assert_eq!(reception.take(11), Sequence::Duplicate);
        assert_eq!(reception.totals(), (3, 2), "it was lost");
    }
}
