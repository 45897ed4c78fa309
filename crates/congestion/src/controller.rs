//! The controller of one transport: what was sent and reported goes in, a rate and its pacing come
//! out.

use std::time::{Duration, Instant};

mod feedback;
mod pacing;
mod probing;
mod rate;
mod silence;

use crate::delay::Delay;
use crate::ecn::{EcnCheck, EcnPath};
use crate::history::History;
use crate::loss::Loss;
use crate::meter::{Meter, Spacing};
use crate::probe::Probe;

/// Bounds of the rate, in bits per second.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Before anything is known. Default 300 kbit/s.
    pub start: u64,
    /// The estimate is never less, unless feedback stops; at least 1 kbit/s. Default 50 kbit/s.
    pub floor: u64,
    /// Never more, and at least the floor. Default 50 Mbit/s.
    pub ceiling: u64,
    /// Whether the receiver has agreed to report each packet. Without, there is no probing, REMB
    /// and the losses of receiver reports decide, and only these end silence. Default: yes.
    pub packet_reports: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { start: 300_000, floor: 50_000, ceiling: 50_000_000, packet_reports: true }
    }
}

/// What a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Never paced.
    Audio,
    /// Video.
    Video,
    /// Video that was asked for again (RFC 4588), or repair packets for it. Leaves less for new video.
    Repeat,
    /// Nothing: it fills a probe.
    Padding,
}

/// Congestion marks of a packet that arrived (RFC 3168, RFC 9331).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// Not known, or not capable.
    #[default]
    None,
    /// ECT(0) or ECT(1): not marked.
    Capable,
    /// Congestion experienced.
    Marked,
}

/// What the receiver says of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketReport {
    /// Its transport-wide number.
    pub number: u16,
    /// When it arrived, in microseconds of the receiver's clock; `None`: it did not.
    pub arrival_us: Option<i64>,
    /// How it was marked.
    pub ecn: Ecn,
}

impl From<rtp::rtcp::PacketStatus> for PacketReport {
    fn from(status: rtp::rtcp::PacketStatus) -> Self {
        let arrival_us = status.arrival_ticks.map(|ticks| ticks * 250);
        Self { number: status.sequence_number, arrival_us, ecn: Ecn::None }
    }
}

/// What may be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Start packets of video as long as fewer bytes than this were sent; 0: none.
    pub bytes: usize,
    /// When there is no video: send one packet of padding (or an old packet again) of about this
    /// size; 0: none.
    pub padding_bytes: usize,
    /// When to ask again if something waits; padding may be due then as well.
    pub next: Option<Instant>,
}

/// What a bottleneck was seen to carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bottleneck {
    /// All of it, in bits per second.
    pub bits_per_second: u64,
    /// It was seen twice in a row.
    pub is_confirmed: bool,
}

/// What a console shows of a viewer's path. Rates in bits per second.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot {
    /// See [`Controller::estimate`].
    pub estimate: u64,
    /// See [`Controller::target`].
    pub target: u64,
    /// What arrived lately.
    pub delivered: u64,
    /// What was sent lately.
    pub sent: u64,
    /// What packets waited at least in the last report.
    pub queue: Duration,
    /// Round trip of the last report.
    pub round_trip: Option<Duration>,
    /// Probes begun.
    pub probes: u64,
    /// Reports of packets that were never sent, of times that cannot be, and said twice.
    pub ignored: u64,
}

/// Congestion control of one transport.
#[derive(Debug)]
pub struct Controller {
    config: Config,
    epoch: Instant,
    history: History,
    delay: Delay,
    delay_of_small: Delay,
    loss: Loss,
    sent: Meter,
    repeats: Meter,
    /// On the receiver's clock.
    delivered: Meter,
    /// Shown while packets wait in the bottleneck.
    busy: Spacing,
    /// Of packets that we sent at once.
    trains: Spacing,
    last: Option<LastArrival>,
    /// The rate before its bounds.
    rate: f64,
    /// Of the bottleneck, while it is known.
    capacity: Option<f64>,
    capacity_us: u64,
    /// It was seen twice in a row.
    capacity_is_confirmed: bool,
    /// How far apart the last values of it were, as a share.
    unsteady: f64,
    /// The capacity that was known last.
    serial_rate: f64,
    /// Best rates that arrived, of this period of 5 s and the one before.
    best: [f64; 2],
    best_period: u64,
    demand: f64,
    remb: Option<f64>,
    remb_fell_us: u64,
    queue_us: i64,
    over_since: Option<u64>,
    least_while_over: i64,
    over_reports: u32,
    over_us: u64,
    most_while_over: i64,
    /// Of the queue that is to go away.
    standing: Standing,
    /// Others keep the queue full; since when.
    competing_since: Option<u64>,
    /// It has shown to be somebody's: it moves.
    is_contested: bool,
    /// Until when that is likely to be so again, and for how long it is taken for granted then.
    competed_until_us: u64,
    compete_us: u64,
    /// Mean of the rate over the last seconds beside others, where each of their losses cuts it.
    mean_beside_others: f64,
    cut_us: u64,
    grown_us: u64,
    marked_share: f64,
    marked_us: u64,
    ecn: EcnCheck,
    round_trip_us: u64,
    round_trip_least_us: u64,
    report_us: u64,
    report_interval_us: u64,
    /// Since when something is under way and nothing was reported.
    waiting_since: Option<u64>,
    /// How long nothing was reported before a pause in which nothing was sent.
    waited_us: u64,
    halved: u32,
    rate_before_silence: f64,
    stopped: bool,
    probe: Option<Probe>,
    probes: u64,
    /// How many numbers in reports were looked at, and since when these count.
    looked_at: usize,
    looked_us: u64,
    probe_factor: f64,
    next_probe_us: u64,
    probe_pause_us: u64,
    hint_pause_us: u64,
    /// Packets that left together were the reason for the last probe.
    was_hinted: bool,
    probe_ended_us: u64,
    /// When a probe raised the rate last, and to what, until it has held for a while.
    raised: Option<(u64, f64)>,
    paced_us: u64,
    debt_bytes: f64,
    /// Of everything, against the target.
    long_debt_bytes: f64,
    /// More waits than may be sent ahead of the target.
    is_backlogged: bool,
    sent_us: u64,
    ignored: u64,
    ignored_in_a_row: u32,
    missing_run: u32,
    /// By how much packets wait longer than the ones before them, beyond what a queue explains;
    /// mean.
    jitter_us: f64,
    /// Receiver reports in a row with more than ten times what TCP would send.
    breaches: u32,
    breached_us: u64,
}

#[derive(Clone, Copy, Debug)]
struct LastArrival {
    number: u64,
    sent_us: u64,
    arrival_us: i64,
    wait_us: i64,
}

/// Whether a queue goes away as one of ours would while less is sent.
#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    /// The rate when the queue was seen first, and what the bottleneck was taken to carry then.
    rate: f64,
    capacity: f64,
    /// When it was looked at last, and how long it was.
    looked: Option<(u64, i64)>,
    /// How many times in a row it had not gone.
    times: u32,
}

/// What one call of `feedback` was about.
#[derive(Default)]
struct Batch {
    received: u32,
    lost: i32,
    least_wait: Option<i64>,
    /// Of the last three packets.
    last_waits: [i64; 3],
    newest: Option<(u64, u64)>,
    marked: u32,
    capable: u32,
    /// Arrived as not ECN-capable.
    plain: u32,
}

impl Controller {
    /// A controller that knows nothing.
    pub fn new(config: Config, at: Instant) -> Self {
        let floor = config.floor.max(FLOOR_LEAST);
        let config = Config { floor, ceiling: config.ceiling.max(floor), ..config };
        Self {
            config,
            epoch: at - Duration::from_secs(1),
            history: History::new(config.packet_reports),
            delay: Delay::new(),
            delay_of_small: Delay::new(),
            loss: Loss::default(),
            sent: Meter::default(),
            repeats: Meter::default(),
            delivered: Meter::default(),
            busy: Spacing::default(),
            trains: Spacing::default(),
            last: None,
            rate: config.start as f64,
            capacity: None,
            capacity_us: 0,
            capacity_is_confirmed: false,
            unsteady: 0.0,
            serial_rate: f64::INFINITY,
            best: [0.0; 2],
            best_period: 0,
            demand: config.ceiling as f64,
            remb: None,
            remb_fell_us: 0,
            queue_us: 0,
            over_since: None,
            least_while_over: 0,
            over_reports: 0,
            over_us: 0,
            most_while_over: 0,
            standing: Standing::default(),
            competing_since: None,
            is_contested: false,
            competed_until_us: 0,
            compete_us: 0,
            mean_beside_others: 0.0,
            cut_us: 0,
            grown_us: 0,
            marked_share: 0.0,
            marked_us: 0,
            ecn: EcnCheck::default(),
            round_trip_us: 100_000,
            round_trip_least_us: u64::MAX,
            report_us: 0,
            report_interval_us: 100_000,
            waiting_since: None,
            waited_us: 0,
            looked_us: 0,
            looked_at: 0,
            halved: 0,
            rate_before_silence: 0.0,
            stopped: false,
            probe: None,
            probes: 0,
            probe_factor: 3.0,
            next_probe_us: 0,
            probe_pause_us: 1_000_000,
            hint_pause_us: HINT_PAUSE_US,
            was_hinted: false,
            probe_ended_us: 0,
            raised: None,
            paced_us: 0,
            debt_bytes: 0.0,
            long_debt_bytes: 0.0,
            is_backlogged: false,
            sent_us: 0,
            ignored: 0,
            ignored_in_a_row: 0,
            missing_run: 0,
            jitter_us: 0.0,
            breaches: 0,
            breached_us: 0,
        }
    }

    /// Notes that a packet of so many bytes left.
    #[inline]
    pub fn sent(&mut self, number: u16, bytes: usize, at: Instant, kind: Kind) {
        let now = self.micros(at);
        self.sent_us = now;
        let mut cluster = 0;
        if let Some(probe) = self.probe.as_mut().filter(|probe| !probe.is_sent()) {
            cluster = probe.cluster;
            probe.bytes_left -= bytes as i64;
            probe.packets_left -= 1;
            probe.sent.add(now as i64, bytes as u16);
        }
        self.history.sent(number, bytes, now, cluster);
        self.left(bytes, now, kind);
    }

    /// Notes that a packet that the receiver missed was sent again unchanged, under the number that it had.
    /// Its delay is not looked at, as nobody knows which of the two arrives.
    pub fn sent_again(&mut self, number: u16, bytes: usize, at: Instant) {
        let now = self.micros(at);
        self.sent_us = now;
        self.missing_run += u32::from(self.history.sent_again(number, now));
        self.left(bytes, now, Kind::Repeat);
    }

    /// [`sent`](Self::sent) for packets that nobody will report ([`Config::packet_reports`]), as many at
    /// a time as you like: they have no numbers.
    pub fn sent_unreported(&mut self, bytes: usize, at: Instant, kind: Kind) {
        let now = self.micros(at);
        if now.saturating_sub(self.sent_us) > PAUSE_US {
            // There was nothing to report on.
            self.pause_waiting(PAUSE_US);
        }
        self.sent_us = now;
        self.left(bytes, now, kind);
    }

    #[inline]
    fn left(&mut self, bytes: usize, now: u64, kind: Kind) {
        self.sent.add(now as i64, bytes as u32);
        if kind == Kind::Repeat {
            self.repeats.add(now as i64, bytes as u32);
        }
        if kind != Kind::Audio {
            self.debt_bytes += bytes as f64;
        }
        self.long_debt_bytes += bytes as f64;
        if self.waiting_since.is_none() {
            self.waiting_since = Some(now - self.waited_us.min(now));
            self.waited_us = 0;
        }
    }

    /// Whether nothing may be sent: there was no report for too long.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    fn estimate_bits(&self) -> f64 {
        let mut rate = self.rate;
        if let Some(bound) = self.loss.bound {
            rate = rate.min(bound);
        }
        if let Some(remb) = self.remb.filter(|_| self.config.packet_reports) {
            rate = rate.min(remb);
        }
        let best = self.best[0].max(self.best[1]);
        let shown = match self.config.packet_reports {
            true if best > 0.0 => 1.5 * best,
            true => self.config.start as f64,
            // Losses have to show that it is too much.
            false => f64::INFINITY,
        };
        rate.min(shown).clamp(self.config.floor as f64, self.config.ceiling as f64)
    }

    /// What the path carries for longer, in bits per second: choose layers by it.
    pub fn estimate(&self) -> u64 {
        if self.stopped {
            return 0;
        }
        let now = self.estimate_bits();
        let estimate = match self.competing_since {
            // A layer is not left for one loss, nor gone up to for a moment before the next one.
            Some(_) => self.mean_beside_others.clamp(0.5 * now, 1.5 * now).min(self.config.ceiling as f64),
            None => now,
        };
        estimate as u64
    }

    /// What the bottleneck was seen to carry lately. More than the estimate, which leaves some of it free so
    /// that the queue stays short: who sends at an even rate may use nearly all.
    pub fn bottleneck(&self, at: Instant) -> Option<Bottleneck> {
        let is_fresh = self.micros(at).saturating_sub(self.capacity_us) < CAPACITY_FRESH_US;
        let capacity =
            self.capacity.filter(|_| is_fresh && self.competing_since.is_none() && !self.stopped)?;
        Some(Bottleneck { bits_per_second: capacity as u64, is_confirmed: self.capacity_is_confirmed })
    }

    /// What to send now, in bits per second, repeats included: less than
    /// [`estimate`](Self::estimate) while a queue is to go away.
    pub fn target(&self) -> u64 {
        if self.stopped { 0 } else { (self.estimate_bits() * self.drain()) as u64 }
    }

    /// What of [`target`](Self::target) is left for new video and audio, with their headers: a little less
    /// while packets wait for their pace, or they would wait for ever.
    pub fn media_target(&self, at: Instant) -> u64 {
        let repeats = self.repeats.rate(self.micros(at) as i64, 500_000).unwrap_or(0.0);
        let target = self.target() as f64;
        let new = if self.is_backlogged { 0.95 * target } else { target };
        (new - repeats).max(0.5 * target) as u64
    }

    /// The most that the source could use now. Nothing above it is probed for.
    pub fn demand(&mut self, bits_per_second: u64) {
        self.demand = bits_per_second as f64;
    }

    /// Whether packets may leave as ECN-capable (RFC 9331), where the receiver reports marks: not once
    /// they were seen to arrive without, or not at all, or marked for no reason.
    pub fn is_ecn_usable(&self) -> bool {
        self.ecn.path != EcnPath::Unusable
    }

    /// Whether packets that left as ECN-capable were seen to arrive so.
    pub fn is_ecn_proven(&self) -> bool {
        self.ecn.path == EcnPath::Capable
    }

    /// Takes the receiver's own estimate (REMB). It bounds the rate, and is the rate where packets
    /// are not reported, if it has not fallen for 3 s up to half more; but raises it by no more than
    /// receiver reports show.
    pub fn remb(&mut self, bits_per_second: u64, at: Instant) {
        let now = self.micros(at);
        let remb = bits_per_second as f64;
        if self.remb.is_none_or(|before| remb < 0.97 * before) {
            self.remb_fell_us = now;
        }
        self.remb = Some(remb);
        if !self.config.packet_reports {
            // Receivers let it rise to what arrives and half as much again. While little is sent it says how
            // little that is, and more has to be sent for it to say more.
            let steady = now.saturating_sub(self.remb_fell_us) as f64 / 1e6;
            let headroom = (1.0 + REMB_HEADROOM * (steady - REMB_STEADY)).clamp(1.0, REMB_HEADROOM_MAX);
            self.rate = (headroom * remb).min(self.demand.max(remb)).min(self.most_shown(now));
            self.heard(now);
        }
    }

    /// What to show.
    pub fn snapshot(&self, at: Instant) -> Snapshot {
        let now = self.micros(at);
        Snapshot {
            estimate: self.estimate(),
            target: self.target(),
            delivered: self.delivered_rate(500_000).unwrap_or(0.0) as u64,
            sent: self.sent.rate(now as i64, 500_000).unwrap_or(0.0) as u64,
            queue: Duration::from_micros(self.queue_us as u64),
            round_trip: self.last.map(|_| Duration::from_micros(self.round_trip_us)),
            probes: self.probes,
            ignored: self.ignored,
        }
    }

    /// Bytes it takes, with what it has allocated.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.history.heap_bytes()
    }

    fn micros(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.epoch).as_micros() as u64
    }

    fn instant(&self, us: u64) -> Instant {
        self.epoch + Duration::from_micros(us)
    }
}

/// A packet of usual size.
const PACKET_BITS: f64 = 1200.0 * 8.0;
/// Least floor, bits per second: a rate of nothing would never come back.
const FLOOR_LEAST: u64 = 1_000;
/// Who was sent nothing for so long has no reason to say anything.
const PAUSE_US: u64 = 2_000_000;
/// For how long it is known what the bottleneck carries. Probes show it again each 2.5 s.
const CAPACITY_FRESH_US: u64 = 6_000_000;
/// How much more than REMB is sent for each second beyond some in which it has not fallen, and at most.
const REMB_HEADROOM: f64 = 0.1;
const REMB_STEADY: f64 = 3.0;
const REMB_HEADROOM_MAX: f64 = 1.5;
const PROBE_PAUSE_US: u64 = 1_000_000;
const HINT_PAUSE_US: u64 = 200_000;
