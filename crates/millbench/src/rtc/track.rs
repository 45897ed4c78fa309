//! What a viewer knows of one received track: numbers that came, that are missing, and how evenly they came.
//!
//! Loss is counted by RTP sequence number (RFC 3550 appendix A.1 and A.3), jitter as section 6.4.1
//! defines it. Missing numbers can be requested again (`NACK`, RFC 4585 section 6.2.1). Decrypted
//! packets with the publisher's mark also show whether a server hid a loss by renumbering. Keys and
//! sockets are handled elsewhere.

use std::time::{Duration, Instant};

use super::mark::{self, Mark};
use crate::stats::counted;

/// A received packet, described by its header.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// RTP sequence number.
    pub sequence: u16,
    /// RTP timestamp.
    pub timestamp: u32,
    /// When it came, nanoseconds of any clock that does not jump.
    pub at_ns: u64,
    /// It was sent again (RTX, RFC 4588).
    pub again: bool,
    /// It is the last one of a frame.
    pub ends_frame: bool,
}

/// Counts since the begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Different sequence numbers received, repaired ones included.
    pub received: u64,
    /// Sequence numbers up to the highest one.
    pub expected: u64,
    /// Numbers that came once more.
    pub duplicates: u64,
    /// Numbers that came after a higher one, without those that were sent again.
    pub reordered: u64,
    /// Numbers that came because they were asked for.
    pub repaired: u64,
    /// Numbers further away than the window: a stream that jumps.
    pub jumps: u64,
    /// Packets of the publisher that are missing although no sequence number is; frames, where
    /// frames are marked.
    pub hidden: u64,
    /// The same where a viewer that was still catching up was moved on to the next key frame.
    pub skipped: u64,
    /// Frames whose last packet was received.
    pub frames: u64,
}

impl Counts {
    /// Packets that are missing.
    pub fn lost(&self) -> u64 {
        self.expected.saturating_sub(self.received) + self.hidden
    }
}

counted!(Counts { received, expected, duplicates, reordered, repaired, jumps, hidden, skipped, frames });

/// State of one received track.
#[derive(Debug, Default)]
pub struct ReceivedTrack {
    /// Counts so far.
    pub counts: Counts,
    /// Extended number of the highest packet.
    highest: Option<u64>,
    /// Bit i: the packet `highest - i` was received.
    window: Window,
    /// Missing numbers that may still be asked for, lowest first.
    missing: Vec<Missing>,
    jitter: Jitter,
    last_mark: Option<(u64, Mark)>,
    frame_zero: Option<FrameZero>,
    /// Counts at the last receiver report: expected, received.
    reported: (u64, u64),
}

/// What marks of frames are compared with.
#[derive(Clone, Copy, Debug)]
struct FrameZero {
    publisher: u64,
    /// Number of a frame by its mark.
    number: u64,
    /// Frames counted at its arrival.
    frames: u64,
}

/// Interarrival jitter (RFC 3550 section 6.4.1), RTP units.
#[derive(Clone, Copy, Debug, Default)]
struct Jitter {
    last_transit: Option<i64>,
    value: f64,
}

#[derive(Clone, Copy, Debug)]
struct Missing {
    number: u64,
    since: Instant,
    /// When it is asked for next.
    ask_at: Instant,
}

impl ReceivedTrack {
    /// Takes a packet into account. Returns whether it is one that had not come before.
    pub fn receive(&mut self, now: Instant, arrival: Arrival, clock_rate: u32) -> bool {
        let Some(highest) = self.highest else {
            self.begin(u64::from(arrival.sequence) + (1 << 16));
            self.counts.frames += u64::from(arrival.ends_frame);
            self.jitter.note(&arrival, clock_rate);
            return true;
        };
        let step = arrival.sequence.wrapping_sub(highest as u16) as i16;
        let number = highest.wrapping_add_signed(i64::from(step));
        if step > 0 {
            self.advance(now, highest, number);
            if !arrival.again {
                self.jitter.note(&arrival, clock_rate);
            }
        } else if !self.fill(highest - number, arrival.again) {
            return false;
        }
        self.counts.received += 1;
        self.counts.repaired += u64::from(arrival.again);
        self.counts.frames += u64::from(arrival.ends_frame);
        self.missing.retain(|missing| missing.number != number);
        true
    }

    /// Evaluates the mark of a decrypted packet that [`ReceivedTrack::receive`] has just reported
    /// as new. `may_skip`: packets missing before this one were skipped for a new viewer.
    pub fn note_mark(&mut self, sequence: u16, mark: Mark, may_skip: bool) {
        if mark.counts == mark::Counted::Frames {
            return self.note_frame(mark, may_skip);
        }
        let Some(highest) = self.highest else { return };
        let number = highest.wrapping_add_signed(i64::from(sequence.wrapping_sub(highest as u16) as i16));
        if let Some((last_number, last)) = self.last_mark
            && last.publisher == mark.publisher
        {
            if number <= last_number {
                return;
            }
            let missing = mark.number.wrapping_sub(last.number).saturating_sub(number - last_number);
            let count = if may_skip { &mut self.counts.skipped } else { &mut self.counts.hidden };
            *count += missing;
        }
        self.last_mark = Some((number, mark));
    }

    /// Frames are missing if frames did not end as often as their numbers rose, and missing
    /// packets are too few to have ended them.
    fn note_frame(&mut self, mark: Mark, may_skip: bool) {
        let absent = self.counts.expected.saturating_sub(self.counts.received);
        let zero = match &mut self.frame_zero {
            Some(zero) if zero.publisher == mark.publisher => zero,
            _ if absent > 0 => return,
            zero => zero.insert(FrameZero {
                publisher: mark.publisher,
                number: mark.number,
                frames: self.counts.frames,
            }),
        };
        let sent = mark.number.saturating_sub(zero.number);
        let missing = sent.saturating_sub(self.counts.frames - zero.frames + absent);
        zero.number += missing;
        let count = if may_skip { &mut self.counts.skipped } else { &mut self.counts.hidden };
        *count += missing;
    }

    /// Sequence numbers to ask for now, into `out`; each is asked for again every `retry` until it
    /// is given up.
    pub fn poll_missing(&mut self, now: Instant, retry: Duration, out: &mut Vec<u16>) {
        self.missing.retain(|missing| now.saturating_duration_since(missing.since) < GIVEN_UP_AFTER);
        for missing in &mut self.missing {
            if missing.ask_at <= now {
                out.push(missing.number as u16);
                missing.ask_at = now + retry;
            }
        }
    }

    /// Whether there is anything to ask for, now or later.
    pub fn is_missing_any(&self) -> bool {
        !self.missing.is_empty()
    }

    /// Jitter, seconds; `None` before the first packet.
    pub fn jitter_s(&self, clock_rate: u32) -> Option<f64> {
        self.highest.map(|_| self.jitter.value / f64::from(clock_rate))
    }

    /// Figures of a receiver report since the last one (RFC 3550 section 6.4.1): fraction lost,
    /// cumulative number lost, extended highest sequence number, jitter. `None` before the first
    /// packet.
    pub fn report(&mut self) -> Option<(u8, i32, u32, u32)> {
        let highest = self.highest?;
        let (expected, received) =
            (self.counts.expected - self.reported.0, self.counts.received - self.reported.1);
        self.reported = (self.counts.expected, self.counts.received);
        let lost = expected.saturating_sub(received);
        let fraction = (lost * 256).checked_div(expected).map_or(0, |fraction| fraction.min(255) as u8);
        let cumulative = (self.counts.expected - self.counts.received.min(self.counts.expected)) as i32;
        Some((fraction, cumulative, (highest - (1 << 16)) as u32, self.jitter.value as u32))
    }

    fn begin(&mut self, number: u64) {
        self.highest = Some(number);
        self.window = Window::default();
        self.window.set(0);
        self.missing.clear();
        self.counts.received += 1;
        self.counts.expected += 1;
    }

    fn advance(&mut self, now: Instant, highest: u64, number: u64) {
        let step = number - highest;
        self.counts.expected += step;
        self.counts.jumps += u64::from(step >= JUMP);
        let first = number.saturating_sub(MISSING_MAX as u64).max(highest + 1);
        for number in first..number {
            if self.missing.len() == MISSING_MAX {
                self.missing.remove(0);
            }
            self.missing.push(Missing { number, since: now, ask_at: now });
        }
        self.window.shift(step);
        self.window.set(0);
        self.highest = Some(number);
    }

    /// An older packet; `false` if it is a duplicate or too old to know.
    fn fill(&mut self, age: u64, again: bool) -> bool {
        if age >= Window::BITS || self.window.is_set(age) {
            self.counts.duplicates += 1;
            return false;
        }
        self.window.set(age);
        self.counts.reordered += u64::from(!again);
        true
    }
}

impl Jitter {
    fn note(&mut self, arrival: &Arrival, clock_rate: u32) {
        let at = (u128::from(arrival.at_ns) * u128::from(clock_rate) / 1_000_000_000) as u32;
        let transit = i64::from(at.wrapping_sub(arrival.timestamp) as i32);
        if let Some(last) = self.last_transit.replace(transit) {
            let difference = f64::from((transit as i32).wrapping_sub(last as i32)).abs();
            self.value += (difference - self.value) / 16.0;
        }
    }
}

/// The last 1024 numbers.
#[derive(Debug)]
struct Window([u64; Window::WORDS]);

impl Default for Window {
    fn default() -> Window {
        Window([0; Window::WORDS])
    }
}

impl Window {
    const WORDS: usize = 16;
    const BITS: u64 = 64 * Window::WORDS as u64;

    fn set(&mut self, age: u64) {
        self.0[age as usize / 64] |= 1 << (age % 64);
    }

    fn is_set(&self, age: u64) -> bool {
        self.0[age as usize / 64] >> (age % 64) & 1 == 1
    }

    /// Everything becomes `step` older.
    fn shift(&mut self, step: u64) {
        if step >= Window::BITS {
            self.0 = [0; Window::WORDS];
            return;
        }
        let (words, bits) = (step as usize / 64, step % 64);
        for index in (0..Window::WORDS).rev() {
            let word = |at: Option<usize>| at.map_or(0, |at| self.0[at]);
            let (high, low) = (word(index.checked_sub(words)), word(index.checked_sub(words + 1)));
            self.0[index] = if bits == 0 { high } else { high << bits | low >> (64 - bits) };
        }
    }
}

/// Missing numbers of a track that are asked for at the same time; older ones are given up.
const MISSING_MAX: usize = 512;
const GIVEN_UP_AFTER: Duration = Duration::from_secs(1);

/// More numbers at once than a burst of loss takes away.
const JUMP: u64 = 3000;

#[cfg(test)]
mod tests {
    use super::*;

    const RETRY: Duration = Duration::from_millis(50);

    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    fn now() -> Instant {
        Instant::now()
    }

    fn arrival(sequence: u16) -> Arrival {
        Arrival { sequence, timestamp: 0, at_ns: 0, again: false, ends_frame: false }
    }

    fn receive(track: &mut ReceivedTrack, sequences: impl IntoIterator<Item = u16>) {
        let now = now();
        for sequence in sequences {
            track.receive(now, arrival(sequence), 90_000);
        }
    }

    #[test]
    fn losses_duplicates_and_reordering_are_told_apart() {
        let cases: [(&[u16], [u64; 4], &str); 7] = [
            (&[1, 2, 3], [3, 0, 0, 0], "in order"),
            (&[65_534, 65_535, 0, 1], [4, 0, 0, 0], "across the wrap"),
            (&[1, 2, 5], [3, 2, 0, 0], "two are lost"),
            (&[1, 3, 2, 4], [4, 0, 0, 1], "one overtaken"),
            (&[1, 2, 2, 1, 3], [3, 0, 2, 0], "two came twice"),
            (&[65_535, 1, 0], [3, 0, 0, 1], "overtaken across the wrap"),
            (&[0, 5, 1, 3, 5], [4, 2, 1, 2], "all of it"),
        ];
        for (sequences, [received, lost, duplicates, reordered], remark) in cases {
            let mut track = ReceivedTrack::default();
            receive(&mut track, sequences.iter().copied());
            let counts = track.counts;
            assert_eq!(
                [counts.received, counts.lost(), counts.duplicates, counts.reordered],
                [received, lost, duplicates, reordered],
                "{remark}"
            );
        }
    }

    #[test]
    fn the_window_agrees_with_a_set() {
        let mut random = 7u64;
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            random >> 33
        };
        let (mut track, mut seen) = (ReceivedTrack::default(), std::collections::HashSet::new());
        let (mut highest, mut duplicates) = (1_000u64, 0);
        receive(&mut track, [highest as u16]);
        seen.insert(highest);
        for _ in 0..20_000 {
            let number = if next() % 3 == 0 { highest - next() % 800 } else { highest + next() % 5 };
            highest = highest.max(number);
            duplicates += u64::from(!seen.insert(number) || number < 200);
            receive(&mut track, [number as u16]);
            if number < 200 {
                break;
            }
        }
        assert_eq!(track.counts.received, seen.len() as u64);
        assert_eq!(track.counts.duplicates, duplicates);
    }

    #[test]
    fn missing_numbers_are_asked_for_until_they_come_or_are_given_up() {
        let (mut track, begin, mut asked) = (ReceivedTrack::default(), now(), Vec::new());
        for sequence in [65_534, 2] {
            track.receive(begin, arrival(sequence), 90_000);
        }
        track.poll_missing(begin, RETRY, &mut asked);
        assert_eq!(asked, [65_535, 0, 1]);
        asked.clear();
        track.poll_missing(begin + RETRY / 2, RETRY, &mut asked);
        assert!(asked.is_empty(), "not before the time");
        assert!(track.receive(begin, Arrival { again: true, ..arrival(0) }, 90_000));
        track.poll_missing(begin + RETRY, RETRY, &mut asked);
        assert_eq!(asked, [65_535, 1]);
        assert_eq!((track.counts.repaired, track.counts.reordered, track.counts.lost()), (1, 0, 2));
        track.poll_missing(begin + GIVEN_UP_AFTER, RETRY, &mut asked);
        assert!(!track.is_missing_any());
    }

    #[test]
    fn the_list_of_missing_numbers_is_bounded() {
        let (mut track, mut asked) = (ReceivedTrack::default(), Vec::new());
        receive(&mut track, (0..40).map(|step: u16| step * 500));
        track.poll_missing(now(), RETRY, &mut asked);
        assert_eq!(asked.len(), MISSING_MAX);
        assert_eq!(track.counts.lost(), 39 * 499);
    }

    #[test]
    fn a_loss_that_was_numbered_away_is_found_by_the_marks() {
        let mut track = ReceivedTrack::default();
        for (sequence, publisher, number, hidden) in
            [(10, 1, 100, 0), (11, 1, 101, 0), (13, 1, 103, 0), (14, 1, 106, 2), (15, 2, 0, 2), (16, 2, 1, 2)]
        {
            receive(&mut track, [sequence]);
            track.note_mark(sequence, Mark { publisher, number, ..Mark::default() }, false);
            assert_eq!(track.counts.hidden, hidden, "{sequence}");
        }
    }

    #[test]
    fn what_a_newcomer_skips_is_not_lost() {
        let mut track = ReceivedTrack::default();
        for (sequence, number, may_skip) in
            [(10, 100, false), (11, 150, true), (12, 151, true), (13, 153, false)]
        {
            receive(&mut track, [sequence]);
            track.note_mark(sequence, Mark { publisher: 1, number, ..Mark::default() }, may_skip);
        }
        assert_eq!((track.counts.skipped, track.counts.hidden, track.counts.lost()), (49, 1, 1));
    }

    /// Packets of frames by sequence number, and what was received of each: the end of frame
    /// `number` is marked.
    fn receive_frames(track: &mut ReceivedTrack, packets: &[(u16, Option<u64>, bool)]) {
        let now = now();
        for &(sequence, ends, again) in packets {
            let arrival = Arrival { ends_frame: ends.is_some(), again, ..arrival(sequence) };
            assert!(track.receive(now, arrival, 90_000), "{sequence}");
            if let Some(number) = ends {
                let mark = Mark { publisher: 1, number, counts: mark::Counted::Frames, ..Mark::default() };
                track.note_mark(sequence, mark, false);
            }
        }
    }

    #[test]
    fn a_frame_that_was_numbered_away_is_found_by_the_marks() {
        /// Sequence number, frame that the packet ends, whether it was sent again.
        type Packets = &'static [(u16, Option<u64>, bool)];
        let cases: [(Packets, u64, &str); 5] = [
            (
                &[(1, Some(7), false), (2, None, false), (3, Some(8), false), (4, Some(9), false)],
                0,
                "all came",
            ),
            (
                &[(1, Some(7), false), (2, None, false), (3, Some(9), false), (4, Some(10), false)],
                1,
                "8 is gone",
            ),
            (&[(1, Some(7), false), (3, Some(9), false)], 0, "8 was in the packet that is known to be lost"),
            (
                &[(1, Some(7), false), (3, Some(9), false), (2, Some(8), true), (4, Some(10), false)],
                0,
                "repaired",
            ),
            (
                &[(1, Some(7), false), (3, Some(8), false), (2, None, true), (4, Some(12), false)],
                3,
                "9 to 11",
            ),
        ];
        for (packets, hidden, remark) in cases {
            let mut track = ReceivedTrack::default();
            receive_frames(&mut track, packets);
            assert_eq!(track.counts.hidden, hidden, "{remark}");
        }
    }

    #[test]
    fn jitter_is_zero_for_an_even_stream_and_grows_towards_the_deviation() {
        let (mut even, mut uneven, now) = (ReceivedTrack::default(), ReceivedTrack::default(), now());
        for index in 0..500u32 {
            let on_time = Arrival {
                sequence: index as u16,
                timestamp: (index * 3000).wrapping_sub(7),
                at_ns: u64::from(index) * 100_000_000 / 3,
                again: false,
                ends_frame: false,
            };
            even.receive(now, on_time, 90_000);
            let late_ns = u64::from(index % 2) * 10_000_000;
            uneven.receive(now, Arrival { at_ns: on_time.at_ns + late_ns, ..on_time }, 90_000);
        }
        let jitter_ms = |track: &ReceivedTrack| track.jitter_s(90_000).map(|seconds| seconds * 1e3);
        assert!(jitter_ms(&even).is_some_and(|ms| ms < 0.1), "{:?}", jitter_ms(&even));
        assert!(jitter_ms(&uneven).is_some_and(|ms| (9.9..10.1).contains(&ms)), "{:?}", jitter_ms(&uneven));
    }

    #[test]
    fn reports_tell_what_happened_since_the_last_one() {
        let mut track = ReceivedTrack::default();
        assert_eq!(track.report(), None);
        receive(&mut track, [65_535, 0, 1, 3]);
        assert_eq!(track.report(), Some((51, 1, (1 << 16) + 3, 0)));
        receive(&mut track, [4, 5]);
        assert_eq!(track.report(), Some((0, 1, (1 << 16) + 5, 0)));
    }
}
