//! Repair packets for the video of one viewer (`rtp::fec`): how many, and when.
//!
//! ```text
//! its reports, the budget ---> plan ---> a group: so many packets, so many repair packets
//! packets as they are sent -----------> Generator ---> repair packets behind the last of a group
//! ```
//! A repair packet brings a lost packet back without a question, which on a long path is sooner
//! than a retransmission; but it has to be sent whether anything is lost or not. So there are as
//! many as the loss that the viewer reports asks for and the budget has room for, and none where
//! retransmission is in time. With 210 packets a second over a round trip of 150 ms, 7 repair
//! packets for 100 packets bring back seven of ten where 2 % are lost, and 19 for 100 three of four
//! where 5 % are (`tests/sfu/network_faults/repairs.rs`). A packet of 1,170 bytes costs 0.15 to
//! 0.25 us where it is protected and 2 ns where it is not (2026-11, AMD EPYC, shared with other
//! work).
//!
//! A viewer has one for each track that FlexFEC was agreed on for (`ColdTrack`). It is fed where
//! packets leave, live ([`Viewer::protect`](super::Viewer::protect)) and from the cache
//! (`joining.rs`); `share.rs` sets the budget.

use std::ops::Range;
use std::time::{Duration, Instant};

use rtp::extension::ExtensionMap;
use rtp::fec::{
    GROUP_NUMBERS_MAX, Generator, PROTECTED_LEN_MAX, ProtectError, REPAIR_HEADER_LEN_MAX,
    REPAIR_PAYLOAD_LEN_MAX, ROWS_MAX, volatile_ids,
};
use rtp::{FIXED_HEADER_LEN, HEADER_LEN_MAX, HeaderFields};

/// Longest repair packet, in bytes, with the longest block of header extensions.
pub const REPAIR_LEN_MAX: usize = HEADER_LEN_MAX + REPAIR_PAYLOAD_LEN_MAX;

/// What decides about repair packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProtectedPath {
    /// Share of packets that were lost lately, `0.0..=1.0`.
    pub fraction_lost: f32,
    /// `None`: not measured yet.
    pub round_trip: Option<Duration>,
    /// Packets of video a second.
    pub packets_per_second: f32,
    /// Most repair packets for each packet of video that the budget has room for.
    pub share_max: f32,
}

/// A group of packets, and the repair packets behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProtectionPlan {
    /// Packets of video: `2 * repairs <= packets <= 46`.
    pub packets: u8,
    /// Repair packets, `1..=4`; each is for every `repairs`th packet.
    pub repairs: u8,
}

impl ProtectionPlan {
    /// What loss `p` and round trip `rtt` ask for, if anything.
    ///
    /// **None below `p` = 1 %**: a packet in a hundred is what retransmission is for. **None up to
    /// `rtt` = 60 ms**: a gap is seen with the next picture, 33 ms later at 30 a second, and
    /// answered one round trip later; so the packet is there within the 100 ms that a player holds.
    ///
    /// **Packets per repair packet, `m`.** A lost packet comes back unless one more of the `m`
    /// others, the repair packet among them, is lost: `1 - (1 - p)^m`. That is to be a quarter at
    /// most: `m <= ln(3/4) / ln(1 - p)`, which is 28 at 1 %, 14 at 2 %, 5 at 5 %, 2 at 10 %, so
    /// that repair packets are about 3.5 to 5 times the loss. At least 2.
    ///
    /// **Time.** A row has to be full before a retransmission would be there: `m <= rate * rtt`,
    /// with at most 250 ms. A slow stream gets more than its loss asks for, or nothing.
    ///
    /// **Budget.** `m >= 1 / share_max`. If that takes longer than a round trip: none.
    ///
    /// **Rows.** As many as half a round trip fills, at most 4: a burst of as many packets comes
    /// back, for no more repair packets, but somewhat later.
    #[must_use]
    pub fn for_path(path: &ProtectedPath) -> Option<Self> {
        let ProtectedPath { fraction_lost, round_trip, packets_per_second, share_max } = *path;
        let round_trip = round_trip.filter(|round_trip| *round_trip > RETRANSMITTED_IN_TIME)?;
        if fraction_lost < FRACTION_LOST_MIN || share_max <= 0.0 {
            return None;
        }
        let in_time = packets_per_second * round_trip.min(GROUP_DURATION_MAX).as_secs_f32();
        let (in_time, in_half) = (in_time as u32, (in_time / 2.0) as u32);
        let most = in_time.min(u32::from(GROUP_NUMBERS_MAX));
        let asked = ((1.0 - UNREPAIRED_MAX).ln() / (1.0 - fraction_lost.min(0.5)).ln()) as u32;
        let afforded = (1.0 / share_max).ceil() as u32;
        let per_repair = asked.max(PER_REPAIR_MIN).min(most).max(afforded);
        if per_repair > most || per_repair < PER_REPAIR_MIN {
            return None;
        }
        let rows = (in_half.min(most) / per_repair).clamp(1, ROWS_MAX as u32);
        Some(Self { packets: (rows * per_repair) as u8, repairs: rows as u8 })
    }
}

/// What was agreed on for a viewer's track.
#[derive(Debug, Clone, Copy)]
pub struct ProtectionInput {
    /// Payload type of repair packets.
    pub payload_type: u8,
    /// Their SSRC.
    pub ssrc: u32,
    /// The viewer's header extensions.
    pub extensions: ExtensionMap,
}

/// What a viewer was sent of repair packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProtectionStats {
    /// Repair packets.
    pub repairs: u64,
    /// Their bytes, with RTP header.
    pub repair_bytes: u64,
    /// Packets of video that they were for.
    pub protected_packets: u64,
    /// Repair packets that the budget had no room for.
    pub unaffordable: u64,
}

/// Repair packets for one track of one viewer.
///
/// **To be driven like this:** [`Protection::handle_packet`] for each packet of video that was
/// sent, in plaintext, then [`Protection::poll_repair`] as long as [`Protection::has_repair`];
/// [`Protection::handle_report`] for each report of the viewer, and [`Protection::set_budget`]
/// whenever that changes. Retransmissions are not passed on: they are a stream of their own.
///
/// **One is made for an SSRC and its keys, and kept as long as these:** its numbers go on from the
/// last repair packet, as a number that is used twice would be an SRTP index that is used twice.
#[derive(Debug)]
pub struct Protection {
    payload_type: u8,
    ssrc: u32,
    next_sequence_number: u16,
    volatile_ids: [u8; 2],
    budget: Budget,
    fraction_lost: f32,
    rate: Rate,
    plan: Option<ProtectionPlan>,
    /// Made when there is something to protect: some 6 kB.
    generator: Option<Box<Generator>>,
    /// Reports since there was a plan.
    idle_reports: u8,
    group: Option<Group>,
    /// Rows of the last full group that are still to be written.
    due: Range<usize>,
    /// Of the newest packet of that.
    timestamp: u32,
    stats: ProtectionStats,
}

/// A group that is being filled.
#[derive(Debug, Clone, Copy)]
struct Group {
    plan: ProtectionPlan,
    began: Instant,
}

impl Protection {
    /// Nothing is protected before the viewer has reported loss and there is a budget.
    pub fn new(input: &ProtectionInput) -> Self {
        Self {
            payload_type: input.payload_type,
            ssrc: input.ssrc,
            next_sequence_number: 0,
            volatile_ids: volatile_ids(&input.extensions),
            budget: Budget::default(),
            fraction_lost: 0.0,
            rate: Rate::default(),
            plan: None,
            generator: None,
            idle_reports: 0,
            group: None,
            due: 0..0,
            timestamp: 0,
            stats: ProtectionStats::default(),
        }
    }

    /// Bits per second that repair packets may take, with RTP headers and without what is added to
    /// these and by encryption. At first none.
    ///
    /// What the path carries beyond the media: repair packets in place of media would be the worse
    /// deal.
    pub fn set_budget(&mut self, now: Instant, bits_per_second: u64) {
        self.budget.set(now, bits_per_second);
    }

    /// Takes the viewer's report on this track: the share of packets that were lost since the one
    /// before, and the round trip as it is known. Reports come about once a second.
    pub fn handle_report(&mut self, now: Instant, fraction_lost: f32, round_trip: Option<Duration>) {
        // Of a hundred packets a second, one lost makes 1 %: four reports make it a figure.
        self.fraction_lost += (fraction_lost.clamp(0.0, 1.0) - self.fraction_lost) * NEWEST_REPORT_SHARE;
        self.rate.measure(now);
        let largest = (self.rate.longest + REPAIR_HEADER_LEN_MAX) as f32 * 8.0 * self.rate.packets_per_second;
        let share_max = if largest > 0.0 { self.budget.bits_per_second as f32 / largest } else { 0.0 };
        self.plan = ProtectionPlan::for_path(&ProtectedPath {
            fraction_lost: self.fraction_lost,
            round_trip,
            packets_per_second: self.rate.packets_per_second,
            share_max,
        });
        if self.plan.is_some() {
            self.idle_reports = 0;
            let rows = || Box::new(Generator::new(ROWS_MAX, self.volatile_ids));
            self.generator.get_or_insert_with(rows);
        } else {
            self.group = None;
            self.idle_reports = self.idle_reports.saturating_add(1);
            if self.idle_reports >= IDLE_REPORTS_MAX {
                self.generator = None;
            }
        }
    }

    /// Takes a packet of video that was sent, before it was encrypted: its header, and what
    /// follows.
    ///
    /// Repair packets that are due and were not asked for are given up.
    #[inline]
    pub fn handle_packet(&mut self, now: Instant, header: &[u8], payload: &[u8]) {
        self.rate.note(now, header.len() + payload.len());
        if self.plan.is_some() || self.group.is_some() {
            self.protect(now, header, payload);
        }
    }

    fn protect(&mut self, now: Instant, header: &[u8], payload: &[u8]) {
        let Some(generator) = self.generator.as_deref_mut() else { return };
        // Whatever was lost of a group that takes so long has been sent again.
        let is_over = |group: &Group| now.saturating_duration_since(group.began) > GROUP_DURATION_MAX;
        if !self.due.is_empty() || self.group.as_ref().is_some_and(is_over) {
            (self.due, self.group) = (0..0, None);
        }
        let mut added = Err(ProtectError::TooFar);
        if self.group.is_some() {
            added = generator.add(header, payload);
        }
        // The first of a group, or the first behind a gap as long as a group can be.
        if added == Err(ProtectError::TooFar) {
            self.group = self.plan.map(|plan| Group { plan, began: now });
            let Some(group) = &self.group else { return };
            generator.begin(usize::from(group.plan.repairs));
            added = generator.add(header, payload);
        }
        let Some(Group { plan, .. }) = self.group else { return };
        if added.is_err() {
            // Too long, or late: it is not protected.
            self.group = self.group.filter(|_| generator.packets() > 0);
            return;
        }
        // Nearly full at the end of a picture: the next packet may be long in coming.
        let (packets, is_end) = (generator.packets(), header[1] & MARKER_BIT != 0);
        if packets >= usize::from(plan.packets) || is_end && 4 * packets >= 3 * usize::from(plan.packets) {
            self.group = None;
            self.timestamp = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
            self.finish_group(now);
        }
    }

    /// Makes as many of the group's repair packets due as the budget has room for.
    fn finish_group(&mut self, now: Instant) {
        let Some(generator) = self.generator.as_deref() else { return };
        let rows = generator.rows();
        let affordable =
            (0..rows).find(|row| !self.budget.spend(now, FIXED_HEADER_LEN + generator.payload_len(*row)));
        self.due = 0..affordable.unwrap_or(rows);
        self.stats.unaffordable += (rows - self.due.end) as u64;
        if !self.due.is_empty() {
            self.stats.protected_packets += generator.packets() as u64;
        }
    }

    /// Whether a repair packet is to be sent now.
    #[inline]
    pub fn has_repair(&self) -> bool {
        !self.due.is_empty()
    }

    /// Goes on after the repair packets of another process, which had the same SSRC and keys.
    pub(crate) fn go_on_with(&mut self, sequence_number: u16) {
        self.next_sequence_number = sequence_number;
    }

    /// SSRC and sequence number of the next repair packet.
    pub(crate) fn next_repair(&self) -> (u32, u16) {
        (self.ssrc, self.next_sequence_number)
    }

    /// Writes the next repair packet, with this block of header extensions
    /// ([`BlockWriter`](rtp::extension::BlockWriter); empty for none), to the start of `out` and
    /// returns its length. It goes out as it is, encrypted, and counts as what was asked for again
    /// does: for congestion control it is a repeat.
    ///
    /// `None` if none is due, or `out` has no room for it, and then it is given up;
    /// [`REPAIR_LEN_MAX`] bytes are always enough.
    pub fn poll_repair(&mut self, extension_block: &[u8], out: &mut [u8]) -> Option<usize> {
        let row = self.due.next()?;
        let fields = HeaderFields {
            marker: false,
            payload_type: self.payload_type,
            sequence_number: self.next_sequence_number,
            timestamp: self.timestamp,
            ssrc: self.ssrc,
        };
        let (header, parity) = out.split_at_mut_checked(FIXED_HEADER_LEN + extension_block.len())?;
        let len = self.generator.as_deref()?.write(row, parity)? + fields.write(extension_block, header);
        self.next_sequence_number = self.next_sequence_number.wrapping_add(1);
        self.stats.repairs += 1;
        self.stats.repair_bytes += len as u64;
        Some(len)
    }

    /// What the last report led to; `None`: nothing is protected.
    pub fn plan(&self) -> Option<ProtectionPlan> {
        self.plan
    }

    /// Counts and totals.
    pub fn stats(&self) -> ProtectionStats {
        self.stats
    }
}

/// Bits per second that may be spent, and what is saved up of it.
#[derive(Debug, Clone, Copy, Default)]
struct Budget {
    bits_per_second: u64,
    /// `0 <= saved_bytes <= bits_per_second / 8 * SAVED_SECONDS`, as of `at`.
    saved_bytes: f32,
    at: Option<Instant>,
}

impl Budget {
    fn set(&mut self, now: Instant, bits_per_second: u64) {
        self.save(now);
        self.bits_per_second = bits_per_second;
    }

    /// Whether there was enough for so many bytes, which are spent then.
    fn spend(&mut self, now: Instant, bytes: usize) -> bool {
        self.save(now);
        let is_enough = self.saved_bytes >= bytes as f32;
        if is_enough {
            self.saved_bytes -= bytes as f32;
        }
        is_enough
    }

    fn save(&mut self, now: Instant) {
        let passed = self.at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        self.at = Some(now);
        let bytes_per_second = self.bits_per_second as f32 / 8.0;
        // Enough for key frames, which have several groups at once.
        let most = bytes_per_second * SAVED_SECONDS;
        self.saved_bytes = (self.saved_bytes + bytes_per_second * passed.as_secs_f32()).min(most);
    }
}

/// Packets of video a second, and how long they are.
#[derive(Debug, Clone, Copy, Default)]
struct Rate {
    packets_per_second: f32,
    /// Of what was measured.
    longest: usize,
    since: Option<Instant>,
    packets: u32,
    longest_since: usize,
}

impl Rate {
    #[inline]
    fn note(&mut self, now: Instant, len: usize) {
        self.since.get_or_insert(now);
        self.packets += 1;
        self.longest_since = self.longest_since.max(len.min(PROTECTED_LEN_MAX));
    }

    /// Measures over the time since the last measurement, if it was long enough.
    fn measure(&mut self, now: Instant) {
        let Some(since) = self.since else { return };
        let passed = now.saturating_duration_since(since);
        if passed >= MEASURED_OVER_MIN {
            self.packets_per_second = self.packets as f32 / passed.as_secs_f32();
            self.longest = self.longest_since;
            (self.since, self.packets, self.longest_since) = (Some(now), 0, 0);
        }
    }
}

/// Loss from which packets are protected.
const FRACTION_LOST_MIN: f32 = 0.01;
/// Round trip up to which a packet that is sent again is in time.
const RETRANSMITTED_IN_TIME: Duration = Duration::from_millis(60);
/// Share of lost packets that do not come back, of those that would come back if only they were
/// lost.
const UNREPAIRED_MAX: f32 = 0.25;
/// Fewest packets of video for a repair packet.
const PER_REPAIR_MIN: u32 = 2;
/// Longest time from the first packet of a group to its repair packets: `repair-window` of our
/// answers.
const GROUP_DURATION_MAX: Duration = Duration::from_millis(250);
/// Weight of the newest report in the loss that counts.
const NEWEST_REPORT_SHARE: f32 = 0.25;
/// Time over which the rate of packets is measured, at least.
const MEASURED_OVER_MIN: Duration = Duration::from_millis(500);
/// Seconds of the budget that can be saved up.
const SAVED_SECONDS: f32 = 0.5;
/// Reports without anything to protect after which memory is given back: half a minute.
const IDLE_REPORTS_MAX: u8 = 30;
/// M in the second byte of an RTP header (RFC 3550 section 5.1).
const MARKER_BIT: u8 = 0x80;

#[cfg(test)]
mod tests {
    use rtp::Packet;
    use rtp::extension::Extension;
    use rtp::fec::Repair;

    use super::*;

    fn path(
        fraction_lost: f32,
        round_trip_ms: u64,
        packets_per_second: f32,
        share_max: f32,
    ) -> ProtectedPath {
        let round_trip = Some(Duration::from_millis(round_trip_ms));
        ProtectedPath { fraction_lost, round_trip, packets_per_second, share_max }
    }

    #[test]
    fn repair_packets_are_as_many_as_loss_asks_for_and_the_budget_has() {
        for (loss, round_trip_ms, rate, share, expected, remark) in [
            (0.009, 200, 300.0, 1.0, None, "retransmission is enough"),
            (0.010, 200, 300.0, 1.0, Some((28, 1)), "one in 28"),
            (0.020, 200, 300.0, 1.0, Some((28, 2)), "one in 14, and a burst of two"),
            (0.020, 200, 150.0, 1.0, Some((14, 1)), "half a round trip has one row only"),
            (0.050, 200, 300.0, 1.0, Some((20, 4)), "one in 5"),
            (0.100, 200, 300.0, 1.0, Some((8, 4)), "one in 2"),
            (0.900, 200, 300.0, 1.0, Some((8, 4)), "never more than that"),
            (0.050, 60, 300.0, 1.0, None, "retransmission is in time"),
            (0.050, 61, 300.0, 1.0, Some((5, 1)), "it is not any more"),
            (0.010, 100, 100.0, 1.0, Some((10, 1)), "a round trip has no more than 10"),
            (0.010, 100, 10.0, 1.0, None, "or one: that would be sending all twice"),
            (0.010, 9_000, 100.0, 1.0, Some((25, 1)), "nobody keeps packets for seconds"),
            (0.010, 9_000, 9_000.0, 1.0, Some((28, 1)), "as many rows as fit in 46 numbers"),
            (0.100, 200, 300.0, 0.10, Some((30, 3)), "the budget has room for a tenth"),
            (0.100, 200, 300.0, 0.02, None, "or for one in 50, which reaches too far"),
            (0.010, 100, 100.0, 0.05, None, "one in 20 would come after a retransmission"),
            (0.100, 200, 300.0, 0.0, None, "no budget"),
        ] {
            let plan = ProtectionPlan::for_path(&path(loss, round_trip_ms, rate, share));
            assert_eq!(plan.map(|plan| (plan.packets, plan.repairs)), expected, "{loss}: {remark}");
        }
        let unknown = ProtectedPath { round_trip: None, ..path(0.1, 0, 300.0, 1.0) };
        assert_eq!(ProtectionPlan::for_path(&unknown), None, "it is not known whether they are late");
    }

    #[test]
    fn every_plan_keeps_to_what_it_promises() {
        let mut plans = 0;
        for loss in (0..100).map(|percent| percent as f32 / 100.0) {
            for round_trip_ms in [0, 50, 61, 80, 120, 250, 1_000] {
                for rate in [0.0, 3.0, 30.0, 100.0, 250.0, 2_000.0] {
                    for share in [0.0, 0.01, 0.03, 0.1, 0.3, 0.5, 2.0] {
                        let path = path(loss, round_trip_ms, rate, share);
                        let Some(plan) = ProtectionPlan::for_path(&path) else { continue };
                        plans += 1;
                        let (packets, repairs) = (f32::from(plan.packets), f32::from(plan.repairs));
                        assert!((1..=4).contains(&plan.repairs) && plan.packets <= 46, "{path:?} {plan:?}");
                        assert!(2 * plan.repairs <= plan.packets, "{path:?} {plan:?}");
                        assert!(repairs <= share * packets * 1.001, "{path:?} {plan:?}");
                        assert!(loss >= 0.01 && round_trip_ms > 60, "{path:?} {plan:?}");
                        let seconds = packets / rate;
                        let most = round_trip_ms.min(250) as f32 / 1_000.0;
                        assert!(seconds <= most * 1.001, "{path:?} {plan:?}: {seconds} s");
                        // Where there is no other limit, three of four come back.
                        let comes_back = (1.0 - loss).powf(packets / repairs);
                        let is_enough = share >= 0.5 && loss <= 0.13;
                        assert!(!is_enough || comes_back >= 0.745, "{path:?} {plan:?}: {comes_back}");
                    }
                }
            }
        }
        assert!(plans > 1_000, "{plans}");
    }

    const MEDIA_SSRC: u32 = 9;

    fn protection() -> Protection {
        let extensions = [(1, Extension::Mid), (3, Extension::TransportCc)].into_iter().collect();
        Protection::new(&ProtectionInput { payload_type: 49, ssrc: 77, extensions })
    }

    /// Packets of 30 pictures a second, of a path that loses some, and what was made of them.
    struct Run {
        now: Instant,
        protection: Protection,
        packets_per_picture: u16,
        number: u16,
        repairs: Vec<Vec<u8>>,
    }

    impl Run {
        fn new(packets_per_picture: u16) -> Self {
            let (now, protection) = (netsim::Clock::new().now(), protection());
            Self { now, protection, packets_per_picture, number: 0, repairs: Vec::new() }
        }

        fn packet(&mut self, is_last: bool, len: usize) {
            let fields = HeaderFields {
                marker: is_last,
                payload_type: 96,
                sequence_number: self.number,
                timestamp: 7,
                ssrc: MEDIA_SSRC,
            };
            let mut header = [0; FIXED_HEADER_LEN];
            fields.write(&[], &mut header);
            self.number = self.number.wrapping_add(1);
            self.protection.handle_packet(self.now, &header, &vec![1; len - FIXED_HEADER_LEN]);
        }

        fn poll(&mut self) {
            let mut out = [0; REPAIR_LEN_MAX];
            while self.protection.has_repair() {
                let len = self.protection.poll_repair(&[], &mut out).expect("there is room");
                self.repairs.push(out[..len].to_vec());
            }
            assert_eq!(self.protection.poll_repair(&[], &mut out), None);
        }

        fn second(&mut self, fraction_lost: f32, round_trip_ms: u64) {
            for _ in 0..30 {
                for at in 1..=self.packets_per_picture {
                    self.packet(at == self.packets_per_picture, 1_000);
                    self.poll();
                }
                self.now += Duration::from_nanos(33_333_333);
            }
            let round_trip = Some(Duration::from_millis(round_trip_ms));
            self.protection.handle_report(self.now, fraction_lost, round_trip);
        }
    }

    #[test]
    fn nothing_is_made_before_there_are_loss_and_a_budget() {
        let mut run = Run::new(6);
        (0..3).for_each(|_| run.second(0.05, 200));
        assert!(run.repairs.is_empty() && run.protection.generator.is_none(), "no budget");
        let mut run = Run::new(6);
        run.protection.set_budget(run.now, 1_000_000);
        (0..20).for_each(|_| run.second(0.005, 200));
        assert!(run.repairs.is_empty(), "no loss to speak of");
        (0..9).for_each(|_| run.second(0.05, 50));
        assert!(run.repairs.is_empty() && run.protection.generator.is_none(), "retransmission is in time");
        (0..4).for_each(|_| run.second(0.05, 200));
        assert!(run.repairs.len() > 20, "{}", run.repairs.len());
    }

    #[test]
    fn repair_packets_stay_within_the_budget_whatever_the_loss() {
        for (budget, packets_per_picture) in [(50_000, 6), (200_000, 6), (200_000, 30), (5_000_000, 6)] {
            let mut run = Run::new(packets_per_picture);
            run.protection.set_budget(run.now, budget);
            for second in 1..=30_u64 {
                run.second(0.3, 150);
                let bits: usize = run.repairs.iter().map(|repair| 8 * repair.len()).sum();
                assert!(bits as u64 <= budget * second, "{bits} bits in {second} s of {budget}");
            }
            let bits: usize = run.repairs.iter().map(|repair| 8 * repair.len()).sum();
            // 180 packets of 8 kbit a second: half as many repair packets are the most there are.
            let most = (budget * 30).min(30 * 180 / 2 * 8_200);
            let expected = if budget == 50_000 { 0 } else { most / 2 };
            assert!(bits as u64 >= expected, "{bits} bits of {most}");
            let stats = run.protection.stats();
            assert_eq!((stats.repairs as usize, 8 * stats.repair_bytes as usize), (run.repairs.len(), bits));
        }
    }

    #[test]
    fn no_number_is_used_twice_also_when_memory_was_given_back() {
        let mut run = Run::new(6);
        run.protection.set_budget(run.now, 1_000_000);
        (0..8).for_each(|_| run.second(0.08, 200));
        let first = run.repairs.len();
        (0..IDLE_REPORTS_MAX + 20).for_each(|_| run.second(0.0, 200));
        assert!(run.protection.generator.is_none());
        (0..8).for_each(|_| run.second(0.08, 200));
        assert!(run.protection.generator.is_some() && run.repairs.len() > first + 50);
        let mut protected = Vec::new();
        for (at, repair) in run.repairs.iter().enumerate() {
            let packet = Packet::parse(repair).expect("RTP");
            assert_eq!(usize::from(packet.sequence_number()), at);
            assert_eq!((packet.ssrc(), packet.payload_type(), packet.marker()), (77, 49, false));
            let repair = Repair::parse(packet.payload()).expect("a repair packet");
            assert_eq!(repair.ssrc(), MEDIA_SSRC);
            protected.extend(repair.sequence_numbers());
        }
        let count = protected.len();
        protected.sort_unstable();
        protected.dedup();
        assert_eq!(protected.len(), count, "no packet is in two groups");
        assert_eq!(run.protection.stats().protected_packets as usize, count);
    }

    #[test]
    fn repair_packets_that_nobody_asked_for_are_given_up() {
        let mut run = Run::new(6);
        run.protection.set_budget(run.now, 1_000_000);
        (0..8).for_each(|_| run.second(0.05, 200));
        let made = run.repairs.len();
        while !run.protection.has_repair() {
            run.packet(false, 500);
        }
        run.packet(false, 500);
        assert!(!run.protection.has_repair());
        run.poll();
        assert_eq!(run.repairs.len(), made);
        let short = &mut [0; 100][..];
        while !run.protection.has_repair() {
            run.packet(false, 500);
        }
        assert_eq!(run.protection.poll_repair(&[], short), None, "no room");
    }

    #[test]
    fn what_is_too_long_or_late_is_left_out_of_its_group() {
        let mut run = Run::new(6);
        run.protection.set_budget(run.now, 1_000_000);
        (0..8).for_each(|_| run.second(0.05, 200));
        run.repairs.clear();
        let mut expected = Vec::new();
        // Behind a pause, with whatever was begun before.
        run.now += GROUP_DURATION_MAX * 2;
        loop {
            let number = run.number;
            expected.push(number);
            run.packet(false, 500);
            if run.protection.has_repair() {
                break;
            }
            run.packet(false, PROTECTED_LEN_MAX + 1);
            run.number = number;
            run.packet(false, 500);
            run.number = number + 2;
        }
        run.poll();
        let mut found: Vec<u16> = Vec::new();
        for repair in &run.repairs {
            let packet = Packet::parse(repair).expect("RTP");
            found.extend(Repair::parse(packet.payload()).expect("a repair packet").sequence_numbers());
        }
        found.sort_unstable();
        assert_eq!(found, expected);
    }
}
