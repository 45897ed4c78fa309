//! RTCP to the publisher: NACKs, receiver reports, transport feedback, key-frame requests.
//!
//! Receiver reports describe the path from the publisher to this server. Those of viewers describe
//! their own networks and are not passed on.

use std::time::{Duration, Instant};

use rtp::payload::MediaKind;
use rtp::rtcp::{
    Arrival, FeedbackHead, Fir, FirEntry, Nack, Pli, REPORT_BLOCKS_MAX, ReceiverReport, Remb, ReportBlock,
    SourceDescription, TransportFeedback,
};
use rtp::sequence::SequenceUnwrapper;

use super::demand::Retention;
use super::nack::MISSING_AGE_MAX;
use super::publisher::Publisher;
use super::reports;
use super::stream::{PacketStream, StreamStats};
use super::track::{Track, Tracks};

impl PacketStream {
    /// Appends RTCP that is due to the publisher, a compound packet in plaintext. `false` if
    /// nothing is.
    ///
    /// Call it at the end of each turn in which something arrived, and at
    /// [`PacketStream::next_timeout`], **until it returns `false`**: a packet is at most 1180
    /// bytes, that it fits a datagram of 1200, and the rest comes with the next.
    pub fn poll_feedback(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        for track in self.tracks.iter_mut() {
            track.main.early.expire(now);
            if !track.renditions.is_empty() {
                track.expire_renditions(now, self.limits.history_duration);
            }
        }
        let Some(publisher) = self.publisher.as_mut() else {
            self.expire(now);
            return false;
        };
        if !publisher.takes_rtcp || publisher.next_due(&self.tracks).is_none_or(|due| due > now) {
            return false;
        }
        let start = out.len();
        let ssrc = publisher.input.feedback_ssrc;
        let is_report = publisher.report_at <= now;
        if is_report {
            publisher.report_at = now + REPORT_INTERVAL;
            report(now, publisher, &mut self.tracks, out);
            SourceDescription::write_cname(out, ssrc, &publisher.input.cname);
        } else if !publisher.input.reduced_size {
            // A compound packet starts with a report and has a CNAME (RFC 3550 section 6.1).
            ReceiverReport::write(out, ssrc, &[]);
            SourceDescription::write_cname(out, ssrc, &publisher.input.cname);
        }
        let head = out.len();
        let len_max = start + COMPOUND_BYTES_MAX;
        // What fits behind the longest report comes first, what is long last.
        publisher.remb(now, &self.tracks, out);
        for track in self.tracks.iter_mut() {
            ask_for_key_frames(now, ssrc, track, len_max, out, &mut self.stats);
        }
        publisher.transport_feedback(now, &self.tracks, len_max, out);
        for track in self.tracks.iter_mut() {
            let retention = track.retention(now, self.unwatched_since.is_none(), &self.limits);
            nack(now, ssrc, publisher.expected_round_trip(), retention, track, len_max, out, &mut self.stats);
        }
        if out.len() == head && !is_report {
            out.truncate(start);
        }
        out.len() > start
    }

    /// When something is to be done although nothing arrives: feedback, cached and held packets, reports,
    /// and on a mirror, or of another node's stream, requests for key frames
    /// ([`PacketStream::poll_key_frame_request`]).
    pub fn next_timeout(&self) -> Option<Instant> {
        let feedback = self.publisher.as_ref().and_then(|publisher| publisher.next_due(&self.tracks));
        let requests = self.tracks.iter().filter(|_| self.publisher.is_none()).flat_map(|track| {
            let of_encodings = track.encodings.iter().map(|encoding| &encoding.key_frames);
            of_encodings.chain([&track.key_frames]).filter_map(KeyFrameRequests::next_due)
        });
        let kept = self.limits.history_duration;
        let unused = self.tracks.iter().filter_map(|track| Some(track.of_home.unused_since? + kept)).min();
        // More of the cache for viewers that join; hardly ever are there any.
        let backlog = if self.backlog.is_empty() { None } else { self.next_backlog() };
        // Nothing can be reported before a clock mapping is known.
        let can_report = self.tracks.iter().any(|track| track.main.mapping.is_some());
        let first_reports = self.first_reports_at.filter(|_| can_report);
        let reported_at = self.reported_at.filter(|_| !self.viewers.is_empty());
        let steps = self.viewers.slots().clamp(1, reports::REPORT_STEPS) as u32;
        let reports = reported_at.map(|at| at + reports::REPORT_INTERVAL / steps);
        let outputs = self.tracks.iter().flat_map(Track::outputs);
        let early = outputs.filter_map(|output| output.early.next_due()).min();
        let renditions = self.tracks.iter().flat_map(|track| &track.renditions);
        // One that has just lost its last user is due: on a mirror there may be no other reason to look.
        let history = self.limits.history_duration;
        let idle = renditions.filter(|rendition| rendition.users == 0).filter_map(|rendition| {
            let newest = || rendition.rewriter.newest().map(|(_, arrival)| arrival);
            rendition.idle_since.map(|since| since + history).or_else(newest)
        });
        let idle = idle.min();
        let due =
            [feedback, requests.min(), unused, backlog, first_reports, reports, early, idle, self.expires_at];
        due.into_iter().flatten().min()
    }
}

impl Publisher {
    fn next_due(&self, tracks: &Tracks) -> Option<Instant> {
        let encodings = tracks.iter().flat_map(|track| {
            let can_ask = can_ask_for_key_frames(track);
            track.encodings.iter().map(move |encoding| (encoding, can_ask && encoding.ssrc.is_some()))
        });
        let of_sources = encodings.flat_map(|(encoding, can_ask)| {
            [encoding.nacks.next_due(), encoding.key_frames.next_due().filter(|_| can_ask)]
        });
        let report_at = Some(self.report_at).filter(|_| self.takes_rtcp);
        let others = [self.arrivals.as_ref().and_then(|arrivals| arrivals.next_due()), report_at];
        of_sources.chain(others).flatten().min()
    }

    fn transport_feedback(&mut self, now: Instant, tracks: &Tracks, len_max: usize, out: &mut Vec<u8>) {
        let mut encodings = tracks.iter().flat_map(|track| &track.encodings);
        if let Some(arrivals) = &mut self.arrivals {
            // It describes the transport, not an SSRC, and is due even while no SSRC is identified.
            let media_ssrc = encodings.find_map(|encoding| encoding.ssrc).unwrap_or(0);
            arrivals.poll(now, self.input.feedback_ssrc, media_ssrc, len_max, out);
        }
    }

    /// A limit for publishers that have no transport-wide feedback.
    fn remb(&mut self, now: Instant, tracks: &Tracks, out: &mut Vec<u8>) {
        if self.arrivals.is_some() || self.remb_at > now {
            return;
        }
        let with_remb = tracks.iter().filter(|track| track.input.as_ref().is_some_and(|input| input.remb));
        let encodings = || with_remb.clone().flat_map(|track| &track.encodings);
        let mut ssrcs = [0; REMB_SSRCS_MAX];
        let known = ssrcs.iter_mut().zip(encodings().filter_map(|encoding| encoding.ssrc));
        let count = known.map(|(to, ssrc)| *to = ssrc).count();
        if count > 0 {
            self.remb_at = now + REPORT_INTERVAL;
            let received = encodings().map(|encoding| encoding.bits_per_second()).sum();
            let limit = self.estimate.limit(received);
            Remb::write(out, self.input.feedback_ssrc, limit, &ssrcs[..count]);
        }
    }
}

/// A report on as many encodings as it holds; with more, each report covers the next ones.
fn report(now: Instant, publisher: &mut Publisher, tracks: &mut Tracks, out: &mut Vec<u8>) {
    let encodings =
        || tracks.iter().flat_map(|track| &track.encodings).filter(|encoding| encoding.ssrc.is_some());
    let count = encodings().count();
    let from = if publisher.report_from < count { publisher.report_from } else { 0 };
    publisher.report_from = from + REPORT_BLOCKS_MAX;
    let mut blocks = [ReportBlock::default(); REPORT_BLOCKS_MAX];
    let encodings = tracks.iter_mut().flat_map(|track| &mut track.encodings);
    let known = encodings.filter_map(|encoding| encoding.ssrc.map(|ssrc| (ssrc, encoding)));
    let made = known.skip(from).filter_map(|(ssrc, encoding)| encoding.reception.report(ssrc, now));
    let made = blocks.iter_mut().zip(made).map(|(to, block)| *to = block).count();
    let blocks = &blocks[..made];
    publisher.estimate.worst_fraction_lost =
        blocks.iter().map(|block| block.fraction_lost).max().unwrap_or(0);
    ReceiverReport::write(out, publisher.input.feedback_ssrc, blocks);
}

#[expect(clippy::too_many_arguments, reason = "parts of the stream that are borrowed apart")]
fn nack(
    now: Instant,
    ssrc: u32,
    round_trip: Duration,
    retention: Retention,
    track: &mut Track,
    len_max: usize,
    out: &mut Vec<u8>,
    stats: &mut StreamStats,
) {
    // What is too old to be kept when it comes is not asked for.
    let age_max = if retention.gop { MISSING_AGE_MAX } else { retention.history.min(MISSING_AGE_MAX) };
    for encoding in &mut track.encodings {
        let Some(media_ssrc) = encoding.ssrc else { continue };
        // At worst each number takes an entry.
        let room = len_max.saturating_sub(out.len() + NACK_HEAD_BYTES) / NACK_ENTRY_BYTES;
        if room == 0 {
            return;
        }
        let mut lost = [0; NACKED_AT_ONCE];
        let mut count = 0;
        encoding.nacks.poll(now, round_trip, age_max, room.min(NACKED_AT_ONCE), |sequence| {
            lost[count] = sequence as u16;
            count += 1;
        });
        stats.nacked_packets += Nack::write(out, ssrc, media_ssrc, &lost[..count]) as u64;
    }
}

/// Whether a publisher takes requests for key frames of a track.
pub(crate) fn can_ask_for_key_frames(track: &Track) -> bool {
    track.index.kind() == MediaKind::Video && track.input.as_ref().is_some_and(|input| input.pli || input.fir)
}

fn ask_for_key_frames(
    now: Instant,
    ssrc: u32,
    track: &mut Track,
    len_max: usize,
    out: &mut Vec<u8>,
    stats: &mut StreamStats,
) {
    let Some(input) = track.input.as_ref().filter(|_| can_ask_for_key_frames(track)) else { return };
    for encoding in &mut track.encodings {
        let Some(media_ssrc) = encoding.ssrc else { continue };
        if out.len() + FIR_BYTES > len_max || encoding.key_frames.poll(now).is_none() {
            continue;
        }
        stats.key_frame_requests += 1;
        if input.pli {
            Pli { sender_ssrc: ssrc, media_ssrc }.write(out);
        } else {
            let sequence_number = encoding.key_frames.next_fir();
            Fir::write(out, ssrc, FirEntry { ssrc: media_ssrc, sequence_number });
        }
    }
}

/// Arrival times of a publisher's packets, for its congestion control
/// (draft-holmer-rmcat-transport-wide-cc-extensions-01): what has arrived since the last feedback.
///
/// Arrivals are recorded by transport-wide number and reported some ten times a second. A publisher
/// that sends nothing gets no feedback.
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
        let due = if self.arrivals.len() >= SOON_PACKETS { now } else { now + TRANSPORT_FEEDBACK_INTERVAL };
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
            // Some 15 packets are usual; a burst is no reason to keep its memory.
            self.arrivals.shrink_to(ARRIVALS_KEPT);
        }
    }
}

/// A limit on the publisher's bitrate, from the loss between it and this server; sent as REMB.
///
/// Less than 2 %: 8 % more a second, and at least half as much again as it sends now; more than 10
/// %: a little less than what arrives; between: as it was.
#[derive(Debug)]
pub(crate) struct Estimate {
    bits_per_second: u64,
    pub(crate) worst_fraction_lost: u8,
}

impl Default for Estimate {
    fn default() -> Self {
        Self { bits_per_second: LIMIT_AT_FIRST, worst_fraction_lost: 0 }
    }
}

impl Estimate {
    fn limit(&mut self, received_bits_per_second: u64) -> u64 {
        let limit = match self.worst_fraction_lost {
            0..=5 => (self.bits_per_second * 108 / 100).max(received_bits_per_second * 3 / 2),
            6..=25 => self.bits_per_second,
            _ => self.bits_per_second.min(received_bits_per_second * 85 / 100),
        };
        self.bits_per_second = limit.clamp(LIMIT_MIN, LIMIT_MAX);
        self.bits_per_second
    }
}

/// Key-frame requests for one encoding: merged, throttled, repeated until a key frame comes.
///
/// However many viewers ask, a source is asked at most every [`KEY_FRAME_INTERVAL`]; each request makes it
/// send a large frame to everybody.
#[derive(Debug, Default)]
pub(crate) struct KeyFrameRequests {
    /// Since when a key frame has been wanted.
    wanted_since: Option<Instant>,
    last_sent: Option<Instant>,
    /// Only single viewers want it.
    is_for_one: bool,
    fir_sequence: u8,
}

impl KeyFrameRequests {
    /// A key frame is wanted.
    pub(crate) fn want(&mut self, now: Instant) {
        self.wanted_since = Some(self.wanted_since.map_or(now, |since| since.min(now)));
        self.is_for_one = false;
    }

    /// Single viewers want one: it is asked for seldom, since all others get it too.
    pub(crate) fn want_for_one(&mut self, now: Instant) {
        self.is_for_one |= self.wanted_since.is_none();
        let from = self.last_sent.map_or(now, |last| now.max(last + VIEWER_REQUEST_INTERVAL));
        self.wanted_since = Some(self.wanted_since.map_or(from, |since| since.min(from)));
    }

    /// Whether the last request was that long ago.
    pub(crate) fn may_send(&self, now: Instant, interval: Duration) -> bool {
        self.last_sent.is_none_or(|last| now >= last + interval)
    }

    /// A key frame has begun to arrive: every request is satisfied.
    pub(crate) fn satisfied(&mut self) {
        (self.wanted_since, self.is_for_one) = (None, false);
    }

    /// Whether to send a request now, and whether only single viewers need it; if so it counts as sent.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<bool> {
        let is_due = self.next_due().is_some_and(|due| due <= now);
        if is_due {
            self.last_sent = Some(now);
        }
        is_due.then_some(self.is_for_one)
    }

    /// When the next request may be sent, if one is wanted.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let since = self.wanted_since?;
        let Some(last) = self.last_sent else { return Some(since) };
        // An encoder that has not answered for long is not likely to; it is asked less often.
        let patience = last.saturating_duration_since(since) > IMPATIENT;
        Some((last + if patience { LONG_KEY_FRAME_INTERVAL } else { KEY_FRAME_INTERVAL }).max(since))
    }

    /// Sequence number of the next full intra request (RFC 5104 section 4.3.1.1).
    pub(crate) fn next_fir(&mut self) -> u8 {
        self.fir_sequence = self.fir_sequence.wrapping_add(1);
        self.fir_sequence
    }
}

/// Time after any request before one on behalf of single viewers.
pub(crate) const VIEWER_REQUEST_INTERVAL: Duration = Duration::from_secs(3);
/// Time between two requests for a key frame: two a second.
pub(crate) const KEY_FRAME_INTERVAL: Duration = Duration::from_millis(500);
/// The same once [`IMPATIENT`] has passed without a key frame.
const LONG_KEY_FRAME_INTERVAL: Duration = Duration::from_secs(2);
const IMPATIENT: Duration = Duration::from_secs(10);
/// Time between receiver reports, and REMB.
pub(crate) const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// Packets of one source asked for in one message. The rest is asked for in the next. Below
/// [`rtp::rtcp::NACK_ENTRIES_MAX`], so that none is taken for asked that was not.
const NACKED_AT_ONCE: usize = 250;
/// Longest compound packet in plaintext: a datagram of 1200 bytes, which pass everywhere, without
/// what SRTCP adds.
const COMPOUND_BYTES_MAX: usize = 1_180;
// The longest report, the longest name, and a limit for the publisher.
const _: () = assert!(8 + 24 * REPORT_BLOCKS_MAX + 268 + 20 + 4 * REMB_SSRCS_MAX <= COMPOUND_BYTES_MAX);
/// Head of a NACK and each entry (RFC 4585 section 6.2.1), and the longer of the two requests for a
/// key frame, a FIR with one entry (RFC 5104 section 4.3.1).
const NACK_HEAD_BYTES: usize = 12;
const NACK_ENTRY_BYTES: usize = 4;
const FIR_BYTES: usize = 20;
/// SSRCs that are named in a limit for the publisher.
const REMB_SSRCS_MAX: usize = 16;
const LIMIT_AT_FIRST: u64 = 2_500_000;
const LIMIT_MIN: u64 = 150_000;
const LIMIT_MAX: u64 = 50_000_000;
/// Packets noted between two feedbacks. Further ones are not, and seem lost to the publisher.
const ARRIVALS_MAX: usize = 4_096;
/// Places for them that are kept.
const ARRIVALS_KEPT: usize = 128;
/// Unit of arrival times.
const MICROS_PER_TICK: i64 = 250;
/// Time between transport feedbacks. Browsers adapt their rate about this often: with half of it Chromium's
/// estimate of its uplink was no higher (0.87 of 0.7 Mbit/s, before 0.89; 0.86 and 0.87 of 2.5).
const TRANSPORT_FEEDBACK_INTERVAL: Duration = Duration::from_millis(100);
/// So many packets are reported at once: as many as a feedback of 720 bytes holds however they came
/// (20 of head, 298 of statuses for 1024 numbers, two for each arrival), so that one always fits.
const SOON_PACKETS: usize = 200;
