//! Which transport-wide number a packet had, by SSRC and sequence number: congestion control
//! feedback (RFC 8888) names packets so, and the controller knows them by their order on the
//! transport.
//!
//! For each SSRC a ring by sequence number, of which entries are free again once their packets are
//! known to have arrived. It grows, up to a limit, while packets leave it that nobody has spoken of and
//! that the controller still remembers: a transport takes 8 bytes for each packet that is not reported.

use std::cmp::Reverse;

use congestion::{Ecn, PacketReport};
use rtp::rtcp::{CongestionFeedback, NtpMiddle};

/// Numbers of the packets of one transport.
#[derive(Debug, Default)]
pub(crate) struct StreamNumbers {
    streams: Vec<Stream>,
    /// Of the packet that was sent last; wraps at 2^32.
    newest: u32,
    /// The time of the last report, unwrapped, in units of 2^-16 s.
    report_time: Option<i64>,
    /// Packets reported to have come that were never sent, or too long ago, or are known to have.
    pub(crate) unmatched: u64,
}

#[derive(Debug)]
struct Stream {
    ssrc: u32,
    ring: Vec<Entry>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    number: u32,
    sequence_number: u16,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Holds no packet, or one that is known to have arrived.
    Free,
    Sent,
    /// Reported as missing, which may yet be taken back.
    Missing,
}

impl StreamNumbers {
    /// A packet leaves under this transport-wide number; numbers rise by one with each packet.
    #[inline]
    pub(crate) fn sent(&mut self, ssrc: u32, sequence_number: u16, number: u16) {
        let newest = self.newest.wrapping_add(u32::from(number.wrapping_sub(self.newest as u16)));
        self.newest = newest;
        let at = match self.streams.iter().position(|stream| stream.ssrc == ssrc) {
            Some(at) => at,
            None if self.streams.len() < SSRCS_MAX => {
                self.streams.push(Stream { ssrc, ring: vec![FREE; PACKETS_MIN] });
                self.streams.len() - 1
            }
            None => {
                tracing::trace!(ssrc, "packet not remembered for feedback: too many SSRCs");
                return;
            }
        };
        let ring = &mut self.streams[at].ring;
        let old = ring[usize::from(sequence_number) & (ring.len() - 1)];
        let is_young = newest.wrapping_sub(old.number) < PACKETS_MAX as u32;
        if old.state == State::Sent && is_young && ring.len() < PACKETS_MAX {
            grow(ring);
        }
        let at = usize::from(sequence_number) & (ring.len() - 1);
        ring[at] = Entry { number: newest, sequence_number, state: State::Sent };
    }

    /// What a report says of packets that were sent, in the order of their numbers.
    ///
    /// Looks at no more blocks and packets than a transport can have under way. What it does not
    /// know is counted: blocks that overlap, that begin anywhere, or are of others' SSRCs say nothing.
    pub(crate) fn take(&mut self, feedback: &CongestionFeedback<'_>) -> Vec<PacketReport> {
        let report_us = (self.unwrap_time(feedback.report_time) * 1_000_000) >> 16;
        let mut found: Vec<(u32, PacketReport)> = Vec::new();
        let mut left = PACKETS_MAX;
        for stream in feedback.streams().take(BLOCKS_MAX) {
            let known = self.streams.iter_mut().find(|known| known.ssrc == stream.ssrc);
            let Some(known) = known else {
                self.unmatched += stream.len() as u64;
                tracing::trace!(ssrc = stream.ssrc, "feedback on an SSRC that was not sent");
                continue;
            };
            let mask = known.ring.len() - 1;
            for packet in stream.packets().take(left) {
                left -= 1;
                let entry = &mut known.ring[usize::from(packet.sequence_number) & mask];
                let age = self.newest.wrapping_sub(entry.number);
                let is_sent = entry.state != State::Free && entry.sequence_number == packet.sequence_number;
                if !is_sent || age >= PACKETS_MAX as u32 {
                    // Numbers that were left out did not arrive, which is no lie.
                    self.unmatched += u64::from(packet.received);
                    continue;
                }
                let number = entry.number as u16;
                if !packet.received {
                    entry.state = State::Missing;
                    found.push((age, PacketReport { number, arrival_us: None, ecn: Ecn::None }));
                    continue;
                }
                entry.state = State::Free;
                // One that came at a time that is not given is neither lost nor early.
                let Some(offset) = packet.offset else { continue };
                let arrival_us = report_us - i64::from(offset) * 1_000_000 / 1024;
                let ecn = match packet.ecn {
                    0 => Ecn::None,
                    3 => Ecn::Marked,
                    _ => Ecn::Capable,
                };
                found.push((age, PacketReport { number, arrival_us: Some(arrival_us), ecn }));
            }
        }
        found.sort_unstable_by_key(|(age, _)| Reverse(*age));
        found.into_iter().map(|(_, report)| report).collect()
    }

    /// In units of 2^-16 s since some beginning: the time of reports wraps after 18 hours, and this after two
    /// years, so that reports which jump by hours each do not carry it away.
    fn unwrap_time(&mut self, time: NtpMiddle) -> i64 {
        let time = match self.report_time {
            Some(last) => last + i64::from(time.0.wrapping_sub(last as u32).cast_signed()),
            None => i64::from(time.0),
        };
        let time = time.rem_euclid(TIME_WRAPS);
        self.report_time = Some(time);
        time
    }
}

/// Doubles a ring.
fn grow(ring: &mut Vec<Entry>) {
    let old = std::mem::replace(ring, vec![FREE; 2 * ring.len()]);
    for entry in old.into_iter().filter(|entry| entry.state != State::Free) {
        let at = usize::from(entry.sequence_number) & (ring.len() - 1);
        ring[at] = entry;
    }
}

const FREE: Entry = Entry { number: 0, sequence_number: 0, state: State::Free };

/// SSRCs of one transport: of each of its tracks the media, its retransmissions and its repair packets.
/// Packets of others are sent, and what is reported of them says nothing.
const SSRCS_MAX: usize = 24;
/// Of an SSRC that was just begun.
const PACKETS_MIN: usize = 64;
/// As many as the controller remembers of a transport.
const PACKETS_MAX: usize = 4096;
/// Two years, and a multiple of what the time of reports wraps after.
const TIME_WRAPS: i64 = 1 << 42;
/// Blocks of one report that are looked at.
const BLOCKS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use rtp::rtcp::{Rtcp, packets};

    use super::*;

    /// A report at `time` of blocks of SSRC, first number, and what is said of each.
    fn report(time: u32, blocks: &[(u32, u16, &[u16])]) -> Vec<u8> {
        let mut body = vec![0, 0, 0, 7];
        for (ssrc, begin, reports) in blocks {
            body.extend(ssrc.to_be_bytes());
            body.extend(begin.to_be_bytes());
            body.extend((reports.len() as u16).to_be_bytes());
            reports.iter().for_each(|report| body.extend(report.to_be_bytes()));
            body.resize(body.len().next_multiple_of(4), 0);
        }
        body.extend(time.to_be_bytes());
        [&[0x8b, 205][..], &((body.len() / 4) as u16).to_be_bytes(), &body].concat()
    }

    fn take(numbers: &mut StreamNumbers, time: u32, blocks: &[(u32, u16, &[u16])]) -> Vec<PacketReport> {
        let bytes = report(time, blocks);
        let Some(Ok(Rtcp::CongestionFeedback(feedback))) = packets(&bytes).next() else {
            panic!("{bytes:x?}")
        };
        numbers.take(&feedback)
    }

    fn reported(reports: &[PacketReport]) -> Vec<(u16, bool)> {
        reports.iter().map(|report| (report.number, report.arrival_us.is_some())).collect()
    }

    const CAME: u16 = 0x8000;

    #[test]
    fn packets_of_several_streams_are_reported_in_the_order_they_left() {
        let mut numbers = StreamNumbers::default();
        for (number, (ssrc, sequence_number)) in
            [65_534, 65_535, 0, 1, 2].into_iter().zip([(1, 65_535), (2, 7), (1, 0), (3, 1), (1, 1)])
        {
            numbers.sent(ssrc, sequence_number, number);
        }
        let reports = take(
            &mut numbers,
            5 << 16,
            &[(1, 65_535, &[CAME | 1024, 0, CAME]), (3, 1, &[0xe000 | 512]), (2, 7, &[0xa000])],
        );
        assert_eq!(reported(&reports), [(65_534, true), (65_535, true), (0, false), (1, true), (2, true)]);
        let times: Vec<_> = reports.iter().map(|report| report.arrival_us).collect();
        assert_eq!(times, [Some(4_000_000), Some(5_000_000), None, Some(4_500_000), Some(5_000_000)]);
        let marks: Vec<_> = reports.iter().map(|report| report.ecn).collect();
        assert_eq!(marks, [Ecn::None, Ecn::Capable, Ecn::None, Ecn::Marked, Ecn::None]);
        assert_eq!(numbers.unmatched, 0);
    }

    #[test]
    fn what_is_said_again_counts_once_and_what_was_missing_may_come() {
        let mut numbers = StreamNumbers::default();
        (0..4).for_each(|number| numbers.sent(9, 100 + number, number));
        let first = take(&mut numbers, 1 << 16, &[(9, 100, &[CAME, 0, CAME, CAME])]);
        assert_eq!(reported(&first), [(0, true), (1, false), (2, true), (3, true)]);
        let overlapping: &[(u32, u16, &[u16])] = &[(9, 100, &[CAME, CAME, 0]), (9, 101, &[0, CAME, CAME])];
        assert_eq!(reported(&take(&mut numbers, 1 << 16, overlapping)), [(1, true)]);
        assert_eq!(numbers.unmatched, 3);
    }

    #[test]
    fn reports_of_what_was_never_sent_say_nothing_in_bounded_time() {
        let mut numbers = StreamNumbers::default();
        (0..50).for_each(|number| numbers.sent(9, number, number));
        let long = vec![CAME; 16_000];
        let mut blocks: Vec<(u32, u16, &[u16])> = vec![(4, 0, &long[..100]), (9, 5_000, &long)];
        blocks.extend(std::iter::repeat_n((9, 60, &[][..]), 500));
        blocks.push((9, 0, &[CAME]));
        assert_eq!(take(&mut numbers, 1, &blocks), []);
        assert_eq!(numbers.unmatched, 100 + PACKETS_MAX as u64);
        // Of one that begins before them, those that were sent.
        assert_eq!(take(&mut numbers, 2, &[(9, 65_500, &long[..200])]).len(), 50);
    }

    #[test]
    fn a_receiver_that_reports_nothing_takes_no_more_than_a_limit() {
        let mut numbers = StreamNumbers::default();
        for number in 0..200_000u32 {
            let ssrc = if number % 50 == 0 { 2 } else { 1 };
            numbers.sent(ssrc, (number / if ssrc == 2 { 50 } else { 1 }) as u16, number as u16);
        }
        let held: usize = numbers.streams.iter().map(|stream| stream.ring.len()).sum();
        assert_eq!(held, 4096 + 128, "of the second there are 82 among those remembered");
        for ssrc in 3..100 {
            numbers.sent(ssrc, 0, 0);
        }
        assert_eq!(numbers.streams.len(), SSRCS_MAX);
    }

    #[test]
    fn a_number_of_long_ago_is_not_taken_for_a_new_packet() {
        let mut numbers = StreamNumbers::default();
        numbers.sent(1, 5, 0);
        (1..=65_537u32).for_each(|number| numbers.sent(2, number as u16, number as u16));
        assert_eq!(take(&mut numbers, 1, &[(1, 5, &[CAME])]), []);
    }

    #[test]
    fn times_go_on_where_those_of_reports_wrap() {
        let mut numbers = StreamNumbers::default();
        (0..2).for_each(|number| numbers.sent(1, number, number));
        let before = take(&mut numbers, 0xffff_0000, &[(1, 0, &[CAME])])[0].arrival_us;
        let after = take(&mut numbers, 0x0001_0000, &[(1, 1, &[CAME])])[0].arrival_us;
        assert_eq!(after.zip(before).map(|(after, before)| after - before), Some(2_000_000));
    }

    #[test]
    fn times_that_jump_by_hours_each_are_no_harm() {
        let mut numbers = StreamNumbers::default();
        for number in 0..20_000u32 {
            numbers.sent(1, number as u16, number as u16);
            let time = number.wrapping_mul(0x7fff_ffff);
            let reports = take(&mut numbers, time, &[(1, number as u16, &[CAME])]);
            assert!(reports[0].arrival_us.is_some_and(|us| (0..=i64::MAX >> 16).contains(&us)));
        }
    }

    proptest! {
        /// Whatever is sent and reported: each packet arrives at most once, nothing arrives that was not
        /// sent, and what is handed on is in order and bounded.
        #[test]
        fn hostile_reports_say_no_more_than_was_sent(
            steps in prop::collection::vec(
                (any::<bool>(), 0u32..6, any::<u16>(), 0usize..300, any::<u32>(), any::<u16>()),
                1..80,
            )
        ) {
            let mut numbers = StreamNumbers::default();
            let (mut next, mut came) = (65_000u16, BTreeSet::new());
            for (sends, ssrc, begin, count, time, what) in steps {
                if sends {
                    for at in 0..count as u16 {
                        numbers.sent(ssrc, begin.wrapping_add(at), next);
                        next = next.wrapping_add(1);
                    }
                    continue;
                }
                let said: Vec<u16> = (0..count as u16).map(|at| what.rotate_left(at.into()) ^ at).collect();
                let blocks: &[(u32, u16, &[u16])] =
                    &[(ssrc, begin, &said), (ssrc, begin.wrapping_add(3), &said), (ssrc / 2, begin, &said)];
                let reports = take(&mut numbers, time, blocks);
                prop_assert!(reports.len() <= PACKETS_MAX);
                let back = |report: &PacketReport| next.wrapping_sub(report.number);
                prop_assert!(reports.is_sorted_by_key(|report| Reverse(back(report))));
                for report in reports {
                    prop_assert!((1..=next.wrapping_sub(65_000)).contains(&back(&report)));
                    prop_assert!(report.arrival_us.is_none() || came.insert(report.number));
                }
            }
            let held: usize = numbers.streams.iter().map(|stream| stream.ring.len()).sum();
            prop_assert!(held <= SSRCS_MAX * PACKETS_MAX);
        }
    }
}
