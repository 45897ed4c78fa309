//! RTCP with viewers: their reports and requests, and the sender reports they get.
//!
//! A sender report carries our wall time and the timestamp of that instant by the publisher's own
//! reports, so that audio and video stay in sync across this server; the description after it names
//! the same CNAME for both.

use std::time::{Duration, Instant};

use rtp::payload::MediaKind;
use rtp::rtcp::{
    Bye, NtpMiddle, ReceiverReport, ReportBlocks, Rtcp, SenderInfo, SenderReport, SourceDescription, packets,
};

use super::clock::WallClock;
use super::feedback::VIEWER_REQUEST_INTERVAL;
use super::pacer::Pacer;
use super::resend::{self, Resend};
use super::stream::PacketStream;
use super::track::Tracks;
use super::viewer::{ColdTrack, Progress, Viewer};
use super::viewers::ViewerId;

/// What RTCP of a viewer has said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ViewerEvents {
    /// Packets that were asked for again.
    pub nacked_packets: u64,
    /// Those of them that are not sent again.
    pub not_resent: u64,
    /// Requests for key frames.
    pub key_frame_requests: u64,
    /// It has reported on what it gets: [`PacketStream::viewer_stats`] has news.
    pub is_report: bool,
    /// It sent BYE.
    pub bye: bool,
    /// Something in it could not be read.
    pub is_malformed: bool,
}

/// What is looked at for the NACKs of one datagram, which may be many.
struct NackBudget {
    /// Numbers.
    left: usize,
    /// What its tracks had at least, once it was summed up.
    least_media: Option<u64>,
}

impl PacketStream {
    /// Takes in RTCP of a viewer that has been authenticated: a compound packet. What it says of
    /// the path goes to `pacer`, that of the viewer's transport. Packets to be sent again are
    /// appended to `resend`.
    pub fn viewer_rtcp(
        &mut self,
        now: Instant,
        id: ViewerId,
        rtcp: &[u8],
        mut pacer: Option<&mut Pacer>,
        resend: &mut Vec<Resend>,
    ) -> ViewerEvents {
        let mut events = ViewerEvents::default();
        let (mut is_about_path, mut is_feedback) = (false, false);
        let first = resend.len();
        let mut nacks = NackBudget { left: resend::ANSWERED_MAX, least_media: None };
        // Any RTCP: there are receivers that never report, and they are not gone.
        if let Some(pacer) = &mut pacer {
            pacer.heard_from(now);
        }
        for packet in packets(rtcp) {
            let Ok(packet) = packet else {
                events.is_malformed = true;
                continue;
            };
            match packet {
                Rtcp::Nack(nack) => self.viewer_nack(now, id, &nack, &mut nacks, resend, &mut events),
                Rtcp::Pli(pli) => {
                    events.key_frame_requests +=
                        u64::from(self.viewer_requests_key_frame(now, id, pli.media_ssrc, None));
                }
                Rtcp::Fir(fir) => fir.entries().take(ENTRIES_MAX).for_each(|entry| {
                    let command = Some(entry.sequence_number);
                    events.key_frame_requests +=
                        u64::from(self.viewer_requests_key_frame(now, id, entry.ssrc, command));
                }),
                Rtcp::ReceiverReport(ReceiverReport { blocks, .. })
                | Rtcp::SenderReport(SenderReport { blocks, .. }) => {
                    let is_report = self.viewer_reports(now, id, blocks);
                    events.is_report |= is_report;
                    if let Some(pacer) = pacer.as_deref_mut().filter(|_| is_report) {
                        is_about_path |= self.report_losses(now, id, blocks, pacer);
                    }
                }
                Rtcp::TransportFeedback(feedback) => {
                    if let Some(pacer) = &mut pacer {
                        pacer.transport_feedback(now, &feedback);
                        (is_about_path, is_feedback) = (true, true);
                    }
                }
                Rtcp::CongestionFeedback(feedback) => {
                    if let Some(pacer) = &mut pacer {
                        pacer.congestion_feedback(now, &feedback);
                        (is_about_path, is_feedback) = (true, true);
                    }
                }
                Rtcp::Remb(remb) => {
                    if let Some(pacer) = &mut pacer {
                        pacer.remb(now, &remb);
                        is_about_path = true;
                    }
                }
                Rtcp::Bye(_) => events.bye = true,
                _ => {}
            }
        }
        // The next probe may begin, or more may leave than was thought.
        if let Some(viewer) = self.viewers.get_mut(id).filter(|_| is_feedback) {
            viewer.cold.backlog_due = now;
        }
        if let Some(pacer) = pacer {
            if resend.len() > first {
                self.hold_repeats(now, id, pacer, first, resend);
            }
            if is_about_path && pacer.is_review_due(now) {
                self.adapt(now, id, pacer);
            }
        }
        events
    }

    fn viewer_nack(
        &mut self,
        now: Instant,
        id: ViewerId,
        nack: &rtp::rtcp::Nack<'_>,
        budget: &mut NackBudget,
        resend: &mut Vec<Resend>,
        events: &mut ViewerEvents,
    ) {
        let Some(viewer) = self.viewers.get_mut(id) else { return };
        let Some(at) = viewer.track_of(nack.media_ssrc) else { return };
        let index = viewer.cold.tracks[at].track;
        let Some(track) = self.tracks.get(index) else { return };
        let of_viewer = |cold: &ColdTrack| self.tracks.get(cold.track)?.rendition(cold.rendition());
        let Some(profile) = self.profiles.get(viewer.tracks[index].profile) else { return };
        let taken = viewer.cold.tracks.iter().filter(|cold| viewer.tracks[cold.track].packets > 0);
        let media = taken.filter_map(|cold| of_viewer(cold)?.recent.as_ref());
        let least_media =
            *budget.least_media.get_or_insert_with(|| media.map(|media| media.least(now)).sum());
        let pending = |rendition| self.batches.pending(id.slot(), index, rendition);
        let source = resend::ResendSource { track, profile, pending: &pending, least_media };
        let before = viewer.cold.stats;
        resend::answer(now, viewer, at, nack, &source, &mut budget.left, resend);
        events.nacked_packets += viewer.cold.stats.nacked_packets - before.nacked_packets;
        events.not_resent += viewer.cold.stats.not_resent - before.not_resent;
    }

    /// `false` if it asks for nothing new. `fir` is the number of the command: the same again is a repeat
    /// (RFC 5104 section 4.3.1.1).
    fn viewer_requests_key_frame(
        &mut self,
        now: Instant,
        id: ViewerId,
        media_ssrc: u32,
        fir: Option<u8>,
    ) -> bool {
        let is_alone = self.is_alone();
        let Some(viewer) = self.viewers.get_mut(id) else { return false };
        let Some(at) = viewer.track_of(media_ssrc) else { return false };
        let cold = &mut viewer.cold.tracks[at];
        if fir.is_some() && std::mem::replace(&mut cold.fir_sequence, fir) == fir {
            return false;
        }
        viewer.cold.stats.key_frame_requests += 1;
        // Others that play well get the key frame too: one viewer with a bad path does not take it from them.
        let asked_at = viewer.cold.key_frame_asked_at;
        let is_soon = asked_at.is_some_and(|at| now.saturating_duration_since(at) < VIEWER_REQUEST_INTERVAL);
        let (track, rendition) = (viewer.cold.tracks[at].track, viewer.cold.tracks[at].rendition());
        let Some(track) = self.tracks.get_mut(track) else { return true };
        if is_soon && !is_alone {
            track.want_key_frame_for_slow_viewer(now, rendition);
        } else {
            viewer.cold.key_frame_asked_at = Some(now);
            track.want_key_frame_of(now, rendition);
        }
        true
    }

    /// Whether it reports on any of its tracks.
    fn viewer_reports(&mut self, now: Instant, id: ViewerId, blocks: ReportBlocks<'_>) -> bool {
        let middle = self.clock.ntp(now).middle();
        let Some(viewer) = self.viewers.get_mut(id) else { return false };
        viewer.note_reports(now, middle, blocks, &self.tracks)
    }

    /// Tells congestion control of the losses of video, or of audio without video. `false` if there
    /// are none of its tracks.
    fn report_losses(&self, now: Instant, id: ViewerId, blocks: ReportBlocks<'_>, pacer: &mut Pacer) -> bool {
        let Some(viewer) = self.viewers.get(id) else { return false };
        let reported =
            || blocks.iter().filter_map(|block| viewer.cold.tracks.get(viewer.track_of(block.ssrc)?));
        let of_kind = |kind| {
            let of_kind = reported().filter(|cold| cold.track.kind() == kind);
            of_kind.map(|cold| cold.own_fraction_lost).max()
        };
        let Some(worst) = of_kind(MediaKind::Video).or_else(|| of_kind(MediaKind::Audio)) else {
            return false;
        };
        pacer.report(now, worst, viewer.cold.round_trip);
        true
    }

    /// Sends viewers the reports that are due: calls `send` with the viewer's token and a compound
    /// packet in plaintext.
    ///
    /// Each viewer gets one a second, and the first as soon as the publisher has reported on a
    /// track the viewer gets, again for each further track and for each new publisher. Call it at
    /// [`PacketStream::next_timeout`] and after [`PacketStream::send_backlog`]; a call costs little
    /// when nothing is due.
    pub fn send_reports(&mut self, now: Instant, mut send: impl FnMut(u64, &[u8])) {
        if self.first_reports_at.is_none_or(|at| at <= now) && !self.first_reports.is_empty() {
            self.send_first_reports(now, &mut send);
            self.first_reports_at = (!self.first_reports.is_empty()).then_some(now + FIRST_REPORT_INTERVAL);
        }
        self.send_regular_reports(now, send);
    }

    fn send_first_reports(&mut self, now: Instant, send: &mut impl FnMut(u64, &[u8])) {
        let mut left = FIRST_REPORTS_MAX;
        let mut at = 0;
        while let Some(id) = self.first_reports.get(at).copied().filter(|_| left > 0) {
            let Some(viewer) = self.viewers.get_mut(id) else {
                self.first_reports.swap_remove(at);
                continue;
            };
            if let Some(tracks) = reportable_tracks(viewer, &self.tracks)
                && write_reports(now, &self.clock, viewer, &self.tracks, &mut self.scratch)
            {
                left -= 1;
                viewer.cold.awaits_first_report = false;
                viewer.cold.reported_tracks = tracks;
                viewer.cold.first_reported_at.get_or_insert(now);
                send(viewer.token(), &self.scratch);
            }
            let is_all = usize::from(viewer.cold.reported_tracks) >= viewer.cold.tracks.len();
            let is_over = viewer
                .cold
                .first_reported_at
                .is_some_and(|first_reported_at| now >= first_reported_at + FIRST_REPORTS_FOR);
            if is_all || is_over {
                self.first_reports.swap_remove(at);
            } else {
                at += 1;
            }
        }
    }

    /// Walks through the viewers so that each gets a report once a second, spread over that second.
    fn send_regular_reports(&mut self, now: Instant, mut send: impl FnMut(u64, &[u8])) {
        let slots = self.viewers.slots();
        if slots == 0 {
            self.reported_at = None;
            return;
        }
        let steps = slots.min(REPORT_STEPS);
        let reported_at = *self.reported_at.get_or_insert(now);
        if now < reported_at + REPORT_INTERVAL / steps as u32 {
            return;
        }
        self.reported_at = Some(now);
        for _ in 0..slots.div_ceil(steps) {
            self.reports_slot = if self.reports_slot + 1 < slots { self.reports_slot + 1 } else { 0 };
            let Some(viewer) = self.viewers.at_slot(self.reports_slot) else { continue };
            if !viewer.cold.awaits_first_report
                && write_reports(now, &self.clock, viewer, &self.tracks, &mut self.scratch)
            {
                send(viewer.token(), &self.scratch);
            }
        }
    }

    /// Appends a BYE to a viewer that is about to be removed, a compound packet in plaintext;
    /// `reason` is at most 255 bytes.
    pub fn bye(&mut self, id: ViewerId, reason: &str, out: &mut Vec<u8>) {
        let Some(viewer) = self.viewers.get(id) else { return };
        let mut ssrcs = [0; 31];
        let tracks = viewer.cold.tracks.iter().map(|cold| viewer.tracks[cold.track].ssrc);
        let count = ssrcs.iter_mut().zip(tracks).map(|(to, ssrc)| *to = ssrc).count();
        let Some(first) = ssrcs[..count].first() else { return };
        ReceiverReport::write(out, *first, &[]);
        SourceDescription::write_cname(out, *first, &viewer.cold.cname);
        Bye::write(out, &ssrcs[..count], reason);
    }
}

/// How many tracks a first report can cover, if more than before: all tracks that are sent, or
/// their times could not be compared.
fn reportable_tracks(viewer: &Viewer, tracks: &Tracks) -> Option<u8> {
    let mut count = 0;
    for cold in &viewer.cold.tracks {
        if viewer.tracks[cold.track].packets > 0 {
            tracks.get(cold.track)?.rendition(cold.rendition())?.mapping?;
            count += 1;
        }
    }
    (count > viewer.cold.reported_tracks).then_some(count)
}

/// Writes a sender report for each track of which packets were sent, and a description. `false` if
/// there is none.
fn write_reports(
    now: Instant,
    clock: &WallClock,
    viewer: &Viewer,
    tracks: &Tracks,
    out: &mut Vec<u8>,
) -> bool {
    out.clear();
    let ntp = clock.ntp(now);
    for cold in &viewer.cold.tracks {
        let hot = &viewer.tracks[cold.track];
        let Some(track) = tracks.get(cold.track).filter(|_| hot.packets > 0) else { continue };
        let Some(mapping) = track.rendition(cold.rendition()).and_then(|output| output.mapping) else {
            continue;
        };
        let rtp_timestamp = mapping.timestamp_at(now, track.clock_rate).wrapping_add(hot.timestamp_shift);
        let info =
            SenderInfo { ntp, rtp_timestamp, packets: hot.packets, payload_bytes: hot.payload_bytes as u32 };
        SenderReport::write(out, hot.ssrc, &info, &[]);
    }
    let is_any = !out.is_empty();
    for cold in viewer.cold.tracks.iter().filter(|_| is_any) {
        SourceDescription::write_cname(out, viewer.tracks[cold.track].ssrc, &viewer.cold.cname);
    }
    is_any
}

impl Viewer {
    /// Which of its tracks has this SSRC.
    fn track_of(&self, ssrc: u32) -> Option<usize> {
        self.cold.tracks.iter().position(|cold| self.tracks[cold.track].ssrc == ssrc)
    }

    fn note_reports(
        &mut self,
        at_time: Instant,
        now: NtpMiddle,
        blocks: ReportBlocks<'_>,
        tracks: &Tracks,
    ) -> bool {
        let since_joined = at_time.saturating_duration_since(self.cold.joined_at);
        let (mut worst, mut lost, mut jitter, mut is_any) = (0, 0, Duration::ZERO, false);
        for block in blocks.iter() {
            let Some(at) = self.track_of(block.ssrc) else { continue };
            let Some(track) = tracks.get(self.cold.tracks[at].track) else { continue };
            let clock_rate = track.clock_rate;
            is_any = true;
            let round_trip = self.cold.round_trip;
            let cold = &mut self.cold.tracks[at];
            cold.own_fraction_lost = cold.take_report(since_joined, &self.tracks[track.index], track, &block);
            let lost_share = f32::from(cold.own_fraction_lost) / 256.0;
            if let Some(protection) = &mut cold.protection {
                protection.handle_report(at_time, lost_share, round_trip);
            }
            worst = worst.max(block.fraction_lost);
            lost += i64::from(block.cumulative_lost);
            let seconds = f64::from(block.jitter_rtp_units) / f64::from(clock_rate.max(8_000));
            jitter = jitter.max(Duration::from_secs_f64(seconds));
            if let Some(measured) = now.round_trip(block.last_report, block.delay_since_last_report)
                && measured <= ROUND_TRIP_MAX
            {
                let smoothed = self.cold.round_trip.map_or(measured, |known| (known * 7 + measured) / 8);
                self.cold.round_trip = Some(smoothed);
            }
        }
        if is_any {
            self.cold.stats.fraction_lost = f32::from(worst) / 256.0;
            self.cold.stats.lost = lost;
            self.cold.stats.jitter = jitter;
        }
        is_any
    }

    /// Whether all of its tracks are sent as they come.
    pub fn is_live(&self) -> bool {
        self.cold.tracks.iter().all(|track| track.state == Progress::Live)
    }
}

/// How often viewers without a first report are checked, once a publisher has reported.
const FIRST_REPORT_INTERVAL: Duration = Duration::from_millis(20);
/// How long a viewer with a report on some of its tracks is checked for the others: transcoded
/// audio starts later than video.
const FIRST_REPORTS_FOR: Duration = Duration::from_secs(3);
/// First reports sent at a time: when a publisher comes back, all of its viewers get one.
const FIRST_REPORTS_MAX: usize = 256;
/// Time between two reports to a viewer.
pub(crate) const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// Into how many parts a second of reports is divided at most.
pub(crate) const REPORT_STEPS: usize = 50;
/// Entries of a full intra request that are read.
const ENTRIES_MAX: usize = 16;
/// Round trips longer than this are not believed.
const ROUND_TRIP_MAX: Duration = Duration::from_secs(10);
