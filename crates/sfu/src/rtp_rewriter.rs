//! Output numbers and timestamps of one track, continuous whoever sends it.
//!
//! What arrives keeps its own distances: a packet lost on the way here leaves a gap that viewers
//! see and ask for, and one that comes late goes where it belongs. Where the source changes
//! (another publisher, another simulcast layer, a publisher that restarts) numbers go on without a
//! gap and timestamps by the time that passed. A publisher's packets of padding are taken out, and
//! the numbers close up.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Which source a packet comes from: the publisher and the layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EncodingId {
    pub(crate) epoch: u64,
    pub(crate) layer: u8,
    /// Counts up when the layer's numbering restarts.
    pub(crate) generation: u32,
}

/// What the rewriter has to know of a packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) encoding: EncodingId,
    /// Extended sequence number.
    pub(crate) sequence: u64,
    pub(crate) timestamp: u32,
    pub(crate) clock_rate: u32,
    pub(crate) now: Instant,
    /// It has padding only.
    pub(crate) is_padding: bool,
}

/// Where a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rewrite {
    /// It is sent with this number and timestamp.
    Forward { number: u64, timestamp: u32 },
    /// Padding that was taken out: nothing is sent.
    Removed,
    /// Padding that came after later numbers had been given: they cannot close up, so something
    /// must fill the gap.
    Filler { number: u64, timestamp: u32 },
    /// Too late to know where it belongs, or from a source that is not forwarded.
    TooLate,
}

/// Numbers and timestamps of one track.
#[derive(Debug, Default)]
pub(crate) struct RtpRewriter {
    current: Option<Segment>,
    /// The source before, whose late packets still have a place.
    previous: Option<Segment>,
    newest: Option<Newest>,
    /// Added to the first numbers.
    base: u64,
}

/// Where a rewriter is, for one in another process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RewriterPosition {
    /// The present source.
    pub(crate) encoding: EncodingId,
    /// Its highest extended sequence number.
    pub(crate) last: u64,
    /// The output number of the one after that.
    pub(crate) next: u64,
    /// Of the packet with the highest number.
    pub(crate) timestamp: u32,
    /// Output timestamp minus input timestamp.
    pub(crate) timestamp_shift: u32,
}

/// The packet with the highest number.
#[derive(Debug, Clone, Copy)]
struct Newest {
    number: u64,
    timestamp: u32,
    arrival: Instant,
}

/// A stretch of output that comes from one source.
#[derive(Debug)]
struct Segment {
    encoding: EncodingId,
    first: u64,
    last: u64,
    /// Output number minus sequence number, packets taken out left aside; modulo 2^64.
    shift: u64,
    /// Output timestamp minus input timestamp.
    timestamp_shift: u32,
    /// Sequence numbers taken out, rising, those before `first` counted in `shift` already.
    removed: VecDeque<u64>,
}

impl RtpRewriter {
    /// One whose numbers begin at `base` or beyond.
    pub(crate) fn beginning_at(base: u64) -> Self {
        Self { base, ..Self::default() }
    }

    /// Begins with a source that is running, at this extended number. Returns the output number that it
    /// has.
    pub(crate) fn open(&mut self, encoding: EncodingId, sequence: u64) -> u64 {
        let (shift, removed) = (self.base, VecDeque::new());
        let segment =
            Segment { encoding, first: sequence, last: sequence, shift, timestamp_shift: 0, removed };
        self.current = Some(segment);
        sequence.wrapping_add(shift)
    }

    /// Numbers a packet of the current source, or a late one of the source before.
    pub(crate) fn rewrite(&mut self, arrival: &Arrival) -> Rewrite {
        if let Some(current) = &self.current
            && current.encoding == arrival.encoding
            && arrival.sequence > current.last + JUMP_MAX
        {
            self.switch(arrival, None);
        }
        let is_of = |segment: &&mut Segment| {
            segment.encoding == arrival.encoding && segment.first <= arrival.sequence
        };
        let segment = self.current.as_mut().filter(is_of).or_else(|| {
            self.previous.as_mut().filter(is_of).filter(|previous| arrival.sequence <= previous.last)
        });
        let Some(segment) = segment else { return Rewrite::TooLate };
        if segment.removed.contains(&arrival.sequence) {
            return Rewrite::Removed;
        }
        let is_late = arrival.sequence < segment.last;
        segment.last = segment.last.max(arrival.sequence);
        if arrival.is_padding && !is_late {
            segment.remove(arrival.sequence);
            return Rewrite::Removed;
        }
        let removed = segment.removed.iter().filter(|removed| **removed < arrival.sequence).count() as u64;
        let number = arrival.sequence.wrapping_add(segment.shift).wrapping_sub(removed);
        let timestamp = arrival.timestamp.wrapping_add(segment.timestamp_shift);
        if arrival.is_padding {
            return Rewrite::Filler { number, timestamp };
        }
        if self.newest.is_none_or(|newest| number > newest.number) {
            self.newest = Some(Newest { number, timestamp, arrival: arrival.now });
        }
        Rewrite::Forward { number, timestamp }
    }

    /// Makes the source of `arrival` the current one, which begins with it. `timestamp` is the
    /// output timestamp if it is known better than from the time that passed.
    pub(crate) fn switch(&mut self, arrival: &Arrival, timestamp: Option<u32>) {
        let (number, passed) = match self.newest {
            Some(newest) => {
                let passed =
                    rtp_units(arrival.now.saturating_duration_since(newest.arrival), arrival.clock_rate);
                (newest.number + 1, newest.timestamp.wrapping_add(passed.max(1)))
            }
            None => (self.base.wrapping_add(arrival.sequence), arrival.timestamp),
        };
        let segment = Segment {
            encoding: arrival.encoding,
            first: arrival.sequence,
            last: arrival.sequence,
            shift: number.wrapping_sub(arrival.sequence),
            timestamp_shift: timestamp.unwrap_or(passed).wrapping_sub(arrival.timestamp),
            removed: VecDeque::new(),
        };
        self.previous = self.current.replace(segment);
    }

    /// Where it is; `None` before the first packet.
    pub(crate) fn position(&self) -> Option<RewriterPosition> {
        let (segment, newest) = (self.current.as_ref()?, self.newest?);
        let next = segment.last.wrapping_add(1).wrapping_add(segment.shift);
        Some(RewriterPosition {
            encoding: segment.encoding,
            last: segment.last,
            next: next.wrapping_sub(segment.removed.len() as u64),
            timestamp: newest.timestamp,
            timestamp_shift: segment.timestamp_shift,
        })
    }

    /// Goes on where another one was. What is late from before is refused: who has had it is not known here.
    pub(crate) fn resume(&mut self, position: RewriterPosition, now: Instant) {
        let RewriterPosition { encoding, last, next, timestamp, timestamp_shift } = position;
        self.current = Some(Segment {
            encoding,
            first: last.wrapping_add(1),
            last,
            shift: next.wrapping_sub(last.wrapping_add(1)),
            timestamp_shift,
            removed: VecDeque::new(),
        });
        self.newest = next.checked_sub(1).map(|number| Newest { number, timestamp, arrival: now });
    }

    /// Number after the highest.
    pub(crate) fn next(&self) -> Option<u64> {
        self.newest.map(|newest| newest.number + 1)
    }

    /// Timestamp of the packet with the highest number, and when it came.
    pub(crate) fn newest(&self) -> Option<(u32, Instant)> {
        self.newest.map(|newest| (newest.timestamp, newest.arrival))
    }

    /// The source that is being forwarded.
    pub(crate) fn encoding(&self) -> Option<EncodingId> {
        self.current.as_ref().map(|current| current.encoding)
    }

    /// Output timestamp minus input timestamp of the current source.
    pub(crate) fn timestamp_shift(&self) -> Option<u32> {
        self.current.as_ref().map(|current| current.timestamp_shift)
    }

    /// Output timestamp of the first packet of another source, if its timestamps go on where those
    /// of the current one end: a bridge stamps by one clock, whichever publisher it begins with.
    /// Reports already sent stay true then.
    pub(crate) fn continued(&self, arrival: &Arrival) -> Option<u32> {
        let timestamp = arrival.timestamp.wrapping_add(self.timestamp_shift()?);
        let expected = self.expected_timestamp(arrival.now, arrival.clock_rate)?;
        let ahead = timestamp.wrapping_sub(expected).cast_signed();
        let ahead_max = rtp_units(AHEAD_MAX, arrival.clock_rate).cast_signed();
        let is_later = rtp::sequence::is_newer_timestamp(timestamp, self.newest?.timestamp);
        (is_later && ahead <= ahead_max).then_some(timestamp)
    }

    /// What the timestamp of a packet that arrives `now` should be, from the newest and the time
    /// since.
    pub(crate) fn expected_timestamp(&self, now: Instant, clock_rate: u32) -> Option<u32> {
        let newest = self.newest?;
        let passed = rtp_units(now.saturating_duration_since(newest.arrival), clock_rate);
        Some(newest.timestamp.wrapping_add(passed))
    }
}

impl Segment {
    fn remove(&mut self, sequence: u64) {
        self.removed.push_back(sequence);
        if self.removed.len() > REMOVED_MAX
            && let Some(oldest) = self.removed.pop_front()
        {
            // Numbers before it are forgotten with it.
            self.first = oldest + 1;
            self.shift = self.shift.wrapping_sub(1);
        }
    }
}

/// Duration as a number of RTP timestamp units; wraps as timestamps do.
pub(crate) fn rtp_units(duration: Duration, clock_rate: u32) -> u32 {
    let whole = duration.as_secs().wrapping_mul(u64::from(clock_rate));
    let part = u64::from(duration.subsec_nanos()) * u64::from(clock_rate) / 1_000_000_000;
    whole.wrapping_add(part) as u32
}

/// A publisher that skips more numbers than this has restarted (RFC 3550 appendix A.1,
/// MAX_DROPOUT): no gap is left.
pub(crate) const JUMP_MAX: u64 = 3_000;

/// Timestamps that are further ahead of the time that passed than this do not go on, they jump.
const AHEAD_MAX: Duration = Duration::from_millis(500);

/// Places of padding remembered, for late packets before them. Probing sends some dozens in a row.
const REMOVED_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "a test is where virtual time begins")]
    fn start() -> Instant {
        Instant::now() + Duration::from_secs(1_000_000)
    }

    fn arrival(sequence: u64, timestamp: u32, epoch: u64, now: Instant) -> Arrival {
        let encoding = EncodingId { epoch, layer: 0, generation: 0 };
        Arrival { encoding, sequence, timestamp, clock_rate: 90_000, now, is_padding: false }
    }

    fn at(number: u64, timestamp: u32) -> Rewrite {
        Rewrite::Forward { number, timestamp }
    }

    #[test]
    fn the_first_source_keeps_its_numbers_and_the_next_goes_on_from_them() {
        let (mut rewriter, now) = (RtpRewriter::default(), start());
        let first = arrival(70_000, 5, 1, now);
        assert_eq!(rewriter.rewrite(&first), Rewrite::TooLate, "nobody has made it the encoding yet");
        rewriter.switch(&first, None);
        assert_eq!(rewriter.rewrite(&first), at(70_000, 5));
        assert_eq!(rewriter.rewrite(&arrival(70_002, 15, 1, now)), at(70_002, 15));
        let later = now + Duration::from_secs(1);
        let next = arrival(9, u32::MAX, 2, later);
        rewriter.switch(&next, None);
        assert_eq!(rewriter.rewrite(&next), at(70_003, 90_015));
        assert_eq!(rewriter.rewrite(&arrival(10, 99, 2, later)), at(70_004, 90_015 + 100));
        assert_eq!(
            rewriter.rewrite(&arrival(70_001, 10, 1, later)),
            at(70_001, 10),
            "a late one of the last"
        );
        assert_eq!(rewriter.rewrite(&arrival(70_003, 20, 1, later)), Rewrite::TooLate, "which has ended");
        assert_eq!(rewriter.rewrite(&arrival(8, 0, 2, later)), Rewrite::TooLate, "before the beginning");
    }

    #[test]
    fn without_time_between_timestamps_still_rise() {
        let (mut rewriter, now) = (RtpRewriter::default(), start());
        for epoch in 1..5 {
            let first = arrival(100, 7, epoch, now);
            rewriter.switch(&first, None);
            assert_eq!(rewriter.rewrite(&first), at(100 + epoch - 1, 7 + epoch as u32 - 1));
        }
    }

    #[test]
    fn a_known_timestamp_goes_before_the_time_that_passed() {
        let (mut rewriter, now) = (RtpRewriter::default(), start());
        let first = arrival(1, 0, 1, now);
        rewriter.switch(&first, None);
        rewriter.rewrite(&first);
        let other = arrival(50, 1_000, 2, now + Duration::from_secs(1));
        rewriter.switch(&other, Some(77_777));
        assert_eq!(rewriter.rewrite(&other), at(2, 77_777));
        assert_eq!(rewriter.timestamp_shift(), Some(76_777));
    }

    #[test]
    fn timestamps_that_go_on_are_told_from_new_ones() {
        let (mut rewriter, now) = (RtpRewriter::default(), start());
        let first = arrival(1, 1_000_000, 1, now);
        assert_eq!(rewriter.continued(&first), None, "there is nothing to go on from");
        rewriter.switch(&first, Some(77));
        rewriter.rewrite(&first);
        let rows = [
            (1_900_000, Some(900_077), "ten seconds later"),
            (1_000_001, Some(78), "a group of pictures from the cache begins earlier"),
            (1_000_000, None, "not later"),
            (1_945_000, Some(945_077), "half a second ahead"),
            (1_945_001, None, "more"),
            (4_000_000_000, None, "unrelated"),
        ];
        for (timestamp, continued, remark) in rows {
            let next = arrival(7, timestamp, 2, now + Duration::from_secs(10));
            assert_eq!(rewriter.continued(&next), continued, "{remark}");
        }
    }

    #[test]
    fn padding_is_taken_out_once_and_remembered_for_late_ones() {
        let (mut rewriter, now) = (RtpRewriter::default(), start());
        let padding = |sequence| Arrival { is_padding: true, ..arrival(sequence, 0, 1, now) };
        let first = arrival(100, 0, 1, now);
        rewriter.switch(&first, None);
        rewriter.rewrite(&first);
        assert_eq!(rewriter.rewrite(&padding(101)), Rewrite::Removed);
        assert_eq!(rewriter.rewrite(&padding(101)), Rewrite::Removed, "again");
        assert_eq!(rewriter.rewrite(&padding(103)), Rewrite::Removed);
        assert_eq!(rewriter.rewrite(&arrival(104, 0, 1, now)), at(102, 0));
        assert_eq!(rewriter.rewrite(&arrival(102, 0, 1, now)), at(101, 0), "between the two");
        assert_eq!(rewriter.next(), Some(103));
    }
}
