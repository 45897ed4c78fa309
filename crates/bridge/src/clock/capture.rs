//! Puts the RTP timestamps of audio and video on one stream time.
//!
//! ```text
//!  timestamp ─▶ media time of the track ─▶ + offset = time of capture ─▶ + axis + residue = stream time
//!               (unwrapped, in µs)          by sender reports             (nothing steps)
//! ```
//!
//! The offset of a track comes from the publisher's sender reports; before both tracks have them,
//! from the packets that came with the least delay. When it changes, nothing must step: audio keeps
//! its times, sample by sample (the axis moves instead), and the picture moves to where it belongs
//! by a few percent of the time that passes, which nobody sees. So stream time runs as the
//! publisher's audio does, and without audio as its picture. What to do about missing packets is
//! decided elsewhere.

use std::time::Instant;

use rtp::payload::MediaKind;
use sfu::{NtpRtpMapping, Packet};

use super::{LeastDelay, micros};

/// What is to be known of a packet to give it a time.
#[derive(Debug, Clone, Copy)]
pub struct Stamp {
    /// Audio or video.
    pub kind: MediaKind,
    /// RTP timestamp in units of `clock_rate`; wraps.
    pub timestamp: u32,
    /// Units in a second.
    pub clock_rate: u32,
    /// When it arrived.
    pub arrival: Instant,
    /// What links timestamps of its track to our clock, if known.
    pub mapping: Option<NtpRtpMapping>,
}

impl From<&Packet> for Stamp {
    fn from(packet: &Packet) -> Self {
        Self {
            kind: packet.track().kind(),
            timestamp: packet.timestamp(),
            clock_rate: packet.clock_rate(),
            arrival: packet.arrival(),
            mapping: packet.clock_mapping(),
        }
    }
}

/// Stream time of what a publisher sends: one track of audio, one of video, or either alone.
#[derive(Debug, Default)]
pub struct CaptureClock {
    base: Option<Instant>,
    axis_us: i64,
    /// Audio and video.
    tracks: [Track; 2],
}

/// One track.
#[derive(Debug, Clone, Default)]
struct Track {
    line: Option<Line>,
    /// Media time to time of capture.
    offset_us: i64,
    /// The offset is by a sender report, of this publisher or continued from one before.
    is_mapped: bool,
    /// It has not begun, or was silent: its times may step.
    is_free: bool,
    /// What is left of a change, added to the stream time until it is gone.
    residue_us: i64,
    /// The newest mapping, and the offset it means while that is not used yet.
    mapping: Option<NtpRtpMapping>,
    pending: Option<Pending>,
    delay: LeastDelay,
}

/// Timestamps counted on beyond their 32 bits. Begins again where they are not continuous.
#[derive(Debug, Clone, Copy)]
struct Line {
    start_us: i64,
    /// When it began, by arrival.
    began_us: i64,
    units: i64,
    timestamp: u32,
    clock_rate: u32,
    arrival_us: i64,
    /// When its packets last began to arrive after a pause.
    flows_since_us: i64,
    /// How much later the newest arrived than the quickest.
    lateness_us: i64,
    /// Stream time of the newest.
    time_us: i64,
}

#[derive(Debug, Clone, Copy)]
struct Pending {
    offset_us: i64,
    since_us: i64,
}

impl CaptureClock {
    /// A clock nothing has gone through.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stream time in microseconds of a packet: of the first of each frame of video,
    /// of each packet of audio, in the order of their numbers.
    ///
    /// Begins near [`START_US`], is never negative, and never decreases for audio; for video only
    /// where the publisher's timestamps do (pictures not sent in the order they are shown). The
    /// same stamp again gives the same time as long as none of another frame of its track came
    /// between.
    pub fn time_us(&mut self, stamp: &Stamp) -> i64 {
        let base = *self.base.get_or_insert(stamp.arrival);
        let at_us = micros(base, stamp.arrival);
        let is_audio = stamp.kind == MediaKind::Audio;
        let which = if is_audio { AUDIO } else { VIDEO };
        let passed_us = self.advance(which, stamp, at_us).clamp(0, PASSED_US_MAX);
        self.note_mapping(which, stamp, base, at_us);
        self.choose_offsets(which, at_us);

        // What is left of changes wears off by a share of the time that passed.
        let track = &mut self.tracks[which];
        let faster_us = (track.residue_us.abs() * passed_us / FAST_SETTLING_US).min(passed_us / 2);
        let most_us = faster_us.max(passed_us / SLEW_DIVISOR);
        track.residue_us -= track.residue_us.clamp(-most_us, most_us);

        let Some(line) = &mut track.line else { return 0 };
        let time_us = (line.media_us() + track.offset_us + self.axis_us + track.residue_us).max(0);
        line.time_us = if is_audio { time_us.max(line.time_us) } else { time_us };
        line.time_us
    }

    /// Moves the media time of a track to the stamp. Returns by how much.
    fn advance(&mut self, which: usize, stamp: &Stamp, at_us: i64) -> i64 {
        if self.tracks.iter().all(|track| track.line.is_none()) {
            self.axis_us = START_US - at_us;
        }
        let other = self.tracks[1 - which].line;
        let track = &mut self.tracks[which];
        let Some(line) = track.line else {
            track.begin(Line::new(stamp, at_us, at_us));
            // What changed of the other track before this one began is none of its times.
            (track.is_free, track.residue_us) = (true, 0);
            return 0;
        };
        if at_us - line.arrival_us >= LIVE_US {
            (track.is_free, track.residue_us) = (true, 0);
        }
        let units = i64::from(stamp.timestamp.wrapping_sub(line.timestamp).cast_signed());
        let next = Line { units: line.units + units, timestamp: stamp.timestamp, ..line };
        let delay_us = at_us - next.media_us();
        let least_us = track.delay.least().unwrap_or(delay_us);
        let lateness_us = delay_us - least_us;
        if stamp.clock_rate != line.clock_rate || !is_continuous(&line, &next, lateness_us, at_us, other) {
            // It goes on by the time that passed; its next report tells better.
            let media_us = (at_us - least_us).max(line.media_us() + SEAM_US);
            track.begin(Line { time_us: line.time_us, ..Line::new(stamp, media_us, at_us) });
            return media_us - line.media_us();
        }
        track.delay.note(at_us, delay_us);
        let paused = at_us - line.arrival_us >= FLOWS_US;
        let flows_since_us = if paused { at_us } else { line.flows_since_us };
        let lateness_us = lateness_us.max(0);
        track.line = Some(Line { arrival_us: at_us, lateness_us, flows_since_us, ..next });
        next.media_us() - line.media_us()
    }

    /// Takes notice of what a new report says.
    fn note_mapping(&mut self, which: usize, stamp: &Stamp, base: Instant, at_us: i64) {
        let track = &mut self.tracks[which];
        let Some(line) = track.line.filter(|_| stamp.mapping != track.mapping) else { return };
        track.mapping = stamp.mapping;
        let Some(mapping) = stamp.mapping else { return };
        let units = i64::from(stamp.timestamp.wrapping_sub(mapping.timestamp).cast_signed());
        let captured_us = micros(base, mapping.at) + units_us(units, line.clock_rate);
        if (captured_us - at_us).abs() > MAPPING_OFF_US_MAX {
            return;
        }
        let offset_us = captured_us - line.media_us();
        let since_us = track.pending.map_or(at_us, |pending| pending.since_us);
        track.pending = Some(Pending { offset_us, since_us });
    }

    /// Uses what reports of both tracks agree on, or what those of one insist on; without any, the
    /// least delay.
    fn choose_offsets(&mut self, which: usize, at_us: i64) {
        let live = || self.tracks.iter().filter(|track| track.is_live(at_us));
        let are_known = live().all(|track| track.is_mapped || track.pending.is_some());
        let is_agreed = live().all(|track| track.pending.is_some());
        let held_up_us = self.tracks.each_ref().map(|track| track.held_up_us(at_us));
        let mut changes = [0; 2];
        for (at, track) in self.tracks.iter_mut().enumerate() {
            let is_due = |pending: &Pending| {
                let is_small = (pending.offset_us - track.offset_us).abs() <= SMALL_US;
                let is_long_so = at_us - pending.since_us >= INSIST_US;
                are_known && (is_agreed || !track.is_mapped || track.is_free || is_small || is_long_so)
            };
            let offset_us = match track.pending.filter(is_due) {
                Some(pending) => {
                    (track.is_mapped, track.pending) = (true, None);
                    pending.offset_us
                }
                None if track.is_mapped => continue,
                None => track.delay.least().unwrap_or(0) - held_up_us[1 - at],
            };
            if !track.is_free {
                changes[at] = offset_us - track.offset_us;
            }
            track.offset_us = offset_us;
        }
        // The axis moves so that the reference stays where it is, and the other track follows.
        let has_audio = self.tracks[AUDIO].is_live(at_us) && !self.tracks[AUDIO].is_free;
        let reference = if has_audio { AUDIO } else { VIDEO };
        self.axis_us -= changes[reference];
        self.tracks[1 - reference].residue_us += changes[reference] - changes[1 - reference];
        self.tracks[which].is_free = false;
    }
}

impl Track {
    fn begin(&mut self, line: Line) {
        self.delay = LeastDelay::default();
        self.delay.note(line.arrival_us, line.arrival_us - line.media_us());
        (self.line, self.pending) = (Some(line), None);
    }

    fn is_live(&self, at_us: i64) -> bool {
        self.line.is_some_and(|line| at_us - line.arrival_us < LIVE_US)
    }

    /// How long after capture the quickest packet arrived, if reports tell.
    fn held_up_us(&self, at_us: i64) -> i64 {
        let least_us = self.delay.least().filter(|_| self.is_mapped && self.is_live(at_us));
        least_us.map_or(0, |least_us| (least_us - self.offset_us).clamp(0, HELD_UP_US_MAX))
    }
}

impl Line {
    fn new(stamp: &Stamp, start_us: i64, arrival_us: i64) -> Self {
        Self {
            start_us,
            began_us: arrival_us,
            units: 0,
            timestamp: stamp.timestamp,
            clock_rate: stamp.clock_rate.max(1),
            arrival_us,
            flows_since_us: arrival_us,
            lateness_us: 0,
            time_us: 0,
        }
    }

    /// Whether its packets came undelayed and without a pause from `since_us` until `at_us`.
    fn has_flown(&self, since_us: i64, at_us: i64) -> bool {
        self.flows_since_us < since_us + FLOWS_US
            && (at_us - self.arrival_us).abs() < FLOWS_US
            && self.lateness_us < FLOWS_US
    }

    fn media_us(&self) -> i64 {
        self.start_us + units_us(self.units, self.clock_rate)
    }
}

/// Whether a step of the timestamps can be believed, by how late the packet would be then.
///
/// A packet from the future cannot, nor one from long ago. One that is much later than the one
/// before was held up by the network, unless the other track came through all the while: then the
/// publisher stopped the track's clock.
fn is_continuous(line: &Line, next: &Line, lateness_us: i64, at_us: i64, other: Option<Line>) -> bool {
    let has_stood_still = lateness_us - line.lateness_us > STOOD_STILL_US
        && other.is_some_and(|other| other.has_flown(line.arrival_us, at_us));
    // What was kept until the connection stood comes at once.
    let is_beginning = at_us - line.began_us < BEGINNING_US;
    let future_us_max = if is_beginning { FUTURE_US_MAX_AT_FIRST } else { FUTURE_US_MAX };
    next.media_us() - line.media_us() >= -BACK_US_MAX && lateness_us >= -future_us_max && !has_stood_still
}

fn units_us(units: i64, clock_rate: u32) -> i64 {
    (i128::from(units) * 1_000_000).div_euclid(i128::from(clock_rate.max(1))) as i64
}

const AUDIO: usize = 0;
const VIDEO: usize = 1;

/// Stream time of the first packet: other tracks may begin with something captured before it.
pub const START_US: i64 = 1_000_000;
/// Least step over a break.
const SEAM_US: i64 = 1_000;
/// Timestamps further back than this are a new beginning. Pictures in another order than shown are
/// 16 frames apart.
const BACK_US_MAX: i64 = 1_000_000;
/// Timestamps further ahead of the time that passed than this are a jump.
const FUTURE_US_MAX: i64 = 1_000_000;
/// The same for what comes at the beginning, and how long that is.
const FUTURE_US_MAX_AT_FIRST: i64 = 10_000_000;
const BEGINNING_US: i64 = 2_000_000;
/// Longest time from capture to arrival that one track lets guess of the other.
const HELD_UP_US_MAX: i64 = 1_000_000;
/// How late a packet must be to have been stamped by a clock that stood still: senders hold back less.
const STOOD_STILL_US: i64 = 3_000_000;
/// Pieces that come within this of each other, and no later than this, flow.
const FLOWS_US: i64 = 1_000_000;
/// A track that has sent nothing for so long is not waited for.
const LIVE_US: i64 = 6_000_000;
/// A mapping that makes a packet captured this far from its arrival is that of other timestamps.
const MAPPING_OFF_US_MAX: i64 = 30_000_000;
/// A report that changes less than this needs no agreement of the other track.
const SMALL_US: i64 = 20_000;
/// How long a report that changes much waits for one of the other track: browsers report audio every 5 s.
const INSIST_US: i64 = 6_000_000;
/// Most time that is let to wear off changes at once.
const PASSED_US_MAX: i64 = 3_600_000_000;
/// The picture moves by 5 % of the time that passes, as a rule.
const SLEW_DIVISOR: i64 = 20;
/// Larger differences wear off in about this time.
const FAST_SETTLING_US: i64 = 500_000;
