//! Viewers join and leave, and get packets from the cache: those that join until they have caught up with the
//! live stream, and those whose path has no room for what is live.
//!
//! A viewer of video starts with the newest key frame in the cache and gets what followed faster
//! than real time, until it has caught up; then it gets packets as they arrive. Audio starts with
//! the next packet. Without a usable key frame the viewer waits while one is requested; if the next
//! one arrives while it catches up, it continues from there.
//!
//! A viewer whose transport has a [`Pacer`](super::Pacer) gets what its path carries. Where that is less than
//! a batch, it falls behind ([`Batch::fall_behind`](super::Batch::fall_behind)): its position in the cache
//! stands still until there is room, so that what waits for a thousand slow viewers is held once. When it is
//! too late it goes on with the next key frame.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use congestion::Kind;
use rtp::payload::MediaKind;
use tracing::trace;

use super::batch::Pending;
use super::header_profile::{HEADER_LEN_MAX, HeaderProfile};
use super::inputs::ViewerInput;
use super::limits::Limits;
use super::outlet::{self, Header, Outlet};
use super::pictures::PictureShift;
use super::repeats::forget_repeats;
use super::sent_numbers::SentNumbers;
use super::share::{Share, ShareControl};
use super::stream::PacketStream;
use super::track::Track;
use super::viewer::{ColdState, ColdTrack, NEVER, Progress, Queued, Viewer, ViewerStats};
use super::viewers::ViewerId;

/// Why a viewer cannot join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JoinError {
    /// The stream has as many viewers on this worker as it may
    /// ([`Limits::viewers_max`](super::Limits)), or they have 65,535 different kinds of headers
    /// between them.
    Full,
    /// It takes a track twice.
    TrackTwice,
}

impl PacketStream {
    /// Adds a viewer. Its first packets come from [`PacketStream::send_backlog`].
    ///
    /// # Errors
    /// [`JoinError`]; nothing has changed then.
    pub fn join(&mut self, now: Instant, input: &ViewerInput) -> Result<ViewerId, JoinError> {
        if self.viewers.len() >= self.limits.viewers_max || !self.profiles.has_room(input.tracks.len()) {
            return Err(JoinError::Full);
        }
        let is_twice = |(at, track): (usize, &super::inputs::ViewerTrackInput)| {
            input.tracks[..at].iter().any(|before| before.track == track.track)
        };
        if input.tracks.iter().enumerate().any(is_twice) {
            return Err(JoinError::TrackTwice);
        }
        let cold = ColdState {
            generation: self.viewers.next_generation(),
            cname: input.cname.as_str().into(),
            tracks: input.tracks.iter().map(ColdTrack::new).collect(),
            round_trip: None,
            resent_charged: 0,
            memory: None,
            repeats: None,
            stats: ViewerStats::default(),
            backlog_credit: BURST_BYTES,
            backlog_at: now,
            is_paced: false,
            backlog_due: now,
            queued: Queued::ForBacklog,
            share: ShareControl::new(now),
            height_max: None,
            key_frame_asked_at: None,
            joined_at: now,
            awaits_first_report: true,
            reported_tracks: 0,
            first_reported_at: None,
        };
        let mut viewer = Viewer::new(input.token, cold);
        for track in &input.tracks {
            let hot = &mut viewer.tracks[track.track];
            let profile = HeaderProfile::new(track);
            hot.has_transport_number = profile.has_transport_number();
            hot.is_protected = track.fec.is_some();
            hot.keeps_numbers = track.is_sent_again_as_it_was() && hot.has_transport_number;
            (hot.ssrc, hot.profile) = (track.ssrc, self.profiles.acquire(profile));
        }
        for cold in &mut viewer.cold.tracks {
            if viewer.tracks[cold.track].keeps_numbers {
                cold.sent_numbers = Some(Box::new(SentNumbers::new()));
            }
        }
        let id = self.viewers.insert(viewer);
        self.backlog.push_back(id);
        self.first_reports.push(id);
        self.first_reports_at.get_or_insert(now);
        Ok(id)
    }

    /// Removes a viewer. Its id is not used again.
    pub fn leave(&mut self, id: ViewerId) {
        let Some(viewer) = self.viewers.remove(id) else { return };
        for cold in &viewer.cold.tracks {
            self.profiles.release(viewer.tracks[cold.track].profile);
            self.forget_layers(id, cold);
        }
        self.backlog.retain(|known| *known != id);
        self.waiting_for_key_frame.retain(|known| *known != id);
        self.first_reports.retain(|known| *known != id);
        self.first_reports_at = self.first_reports_at.filter(|_| !self.first_reports.is_empty());
    }

    /// How many viewers there are.
    pub fn viewers(&self) -> usize {
        self.viewers.len()
    }

    /// Statistics of a viewer.
    pub fn viewer_stats(&self, id: ViewerId) -> Option<ViewerStats> {
        self.viewers.get(id).map(Viewer::stats)
    }

    /// Whether [`PacketStream::send_backlog`] may have something to send.
    pub fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Sends viewers their packets from the cache, at most `most`, through `outlet`. Returns how
    /// many were sent: if `most`, there may be more.
    ///
    /// Paced, so that a viewer's network is not flooded: call it after each batch, and at
    /// [`PacketStream::next_timeout`]. Viewers take turns. What a batch will bring a viewer, open or not,
    /// it does not get from the cache.
    pub fn send_backlog(&mut self, now: Instant, most: usize, outlet: &mut impl Outlet) -> usize {
        let mut left = most;
        for _ in 0..self.backlog.len() {
            if left == 0 {
                break;
            }
            let Some(id) = self.backlog.pop_front() else { break };
            let queued = match self.viewers.get(id) {
                Some(viewer) if viewer.cold.is_paced && viewer.cold.backlog_due > now => Queued::ForBacklog,
                Some(_) => self.serve(now, id, &mut left, outlet),
                None => continue,
            };
            let Some(viewer) = self.viewers.get_mut(id) else { continue };
            viewer.cold.queued = queued;
            match queued {
                Queued::ForBacklog => self.backlog.push_back(id),
                Queued::ForKeyFrame => self.waiting_for_key_frame.push(id),
                Queued::No => {}
            }
        }
        most - left
    }

    /// Sends one viewer what there is room for. The queue it is in then.
    fn serve(&mut self, now: Instant, id: ViewerId, left: &mut usize, outlet: &mut impl Outlet) -> Queued {
        let is_alone = self.is_alone();
        let Some(viewer) = self.viewers.get_mut(id) else { return Queued::No };
        let token = viewer.token();
        let is_paced = outlet.pacer(token).is_some();
        viewer.cold.is_paced = is_paced;
        if !is_paced {
            viewer.add_credit(now);
        }
        loop {
            let before = *left;
            let padding_bytes = match outlet.pacer(token).map(|pacer| pacer.ask(now)) {
                Some(room) => {
                    viewer.cold.backlog_credit = room.bytes as f64;
                    viewer.cold.backlog_due = room.next;
                    room.padding_bytes
                }
                None => {
                    viewer.cold.backlog_due = now + PACE;
                    0
                }
            };
            self.repeats_sent += viewer.send_repeats(now, left, outlet);
            let mut furthest_behind = Progress::Live;
            for index in 0..viewer.cold.tracks.len() {
                let track = viewer.cold.tracks[index].track;
                let profile = self.profiles.get(viewer.tracks[track].profile);
                if let Some(track) = self.tracks.get_mut(track)
                    && let Some(profile) = profile
                {
                    let rendition = viewer.cold.tracks[index].rendition();
                    let pending = self.batches.pending(id.slot(), track.index, rendition);
                    let context = Context { now, pending, profile, limits: &self.limits, is_alone };
                    begin(viewer, index, track, &context);
                    catch_up(viewer, index, track, &context, left, &mut self.scratch, outlet);
                }
                furthest_behind = match (viewer.cold.tracks[index].state, furthest_behind) {
                    (Progress::CatchingUp, _) | (_, Progress::CatchingUp) => Progress::CatchingUp,
                    (Progress::Waiting, _) | (_, Progress::Waiting) => Progress::Waiting,
                    _ => Progress::Live,
                };
            }
            let has_sent = *left < before;
            // The next one of a probe may be due already: its packets have times of their own.
            if is_paced && has_sent && *left > 0 {
                continue;
            }
            // Whether the path carries more than the viewer gets, only more packets can tell.
            let (probes, is_probing) =
                outlet.pacer(token).map_or((false, false), |pacer| (pacer.wants_more(), pacer.is_probing()));
            if probes && !has_sent && padding_bytes > 0 && *left > 0 {
                let is_sent = self.send_padding(now, id, padding_bytes, outlet);
                *left -= usize::from(is_sent);
                let Some(viewer) = self.viewers.get_mut(id) else { return Queued::No };
                let step = if is_sent { PROBE_STEP } else { PROBE_IDLE };
                viewer.cold.backlog_due = viewer.cold.backlog_due.max(now + step);
                return Queued::ForBacklog;
            }
            let due = &mut viewer.cold.backlog_due;
            return match furthest_behind {
                Progress::CatchingUp => Queued::ForBacklog,
                _ if viewer.cold.repeats.is_some() => Queued::ForBacklog,
                _ if probes => {
                    // A probe whose packets leave late is slower than it was meant to be.
                    let step = if is_probing { PROBE_STEP } else { PROBE_IDLE };
                    *due = (*due).max(now + step);
                    Queued::ForBacklog
                }
                Progress::Waiting => Queued::ForKeyFrame,
                Progress::Live => Queued::No,
            };
        }
    }

    /// Puts a viewer into the queue of those that get packets from the cache.
    pub(crate) fn queue_viewer(&mut self, id: ViewerId) {
        if let Some(viewer) = self.viewers.get_mut(id) {
            viewer.queue(id, &mut self.backlog, &mut self.waiting_for_key_frame);
        }
    }

    /// There is, or can be, a key frame: viewers that wait for one look again.
    pub(crate) fn queue_waiting(&mut self) {
        for id in self.waiting_for_key_frame.drain(..) {
            if let Some(viewer) = self.viewers.get_mut(id) {
                // Due at once: that time has passed.
                (viewer.cold.queued, viewer.cold.backlog_due) = (Queued::ForBacklog, viewer.cold.backlog_at);
                self.backlog.push_back(id);
            }
        }
    }

    /// When more of the cache can be sent.
    pub(crate) fn next_backlog(&self) -> Option<Instant> {
        let viewers = self.backlog.iter().filter_map(|id| self.viewers.get(*id));
        let is_due = |viewer: &&Viewer| {
            let mut tracks = viewer.cold.tracks.iter();
            viewer.cold.is_paced || tracks.any(|track| track.state == Progress::CatchingUp)
        };
        viewers.filter(is_due).map(|viewer| viewer.cold.backlog_due).min()
    }
}

/// What serving a viewer needs of the stream.
struct Context<'a> {
    now: Instant,
    pending: Pending<'a>,
    profile: &'a HeaderProfile,
    limits: &'a Limits,
    /// There is no other viewer here.
    is_alone: bool,
}

/// Starts a track, if the cache has a packet to start with.
fn begin(viewer: &mut Viewer, index: usize, track: &mut Track, context: &Context<'_>) {
    let &Context { now, limits, .. } = context;
    let (share, cold) = (viewer.cold.share.current(), &mut viewer.cold.tracks[index]);
    if cold.state != Progress::Waiting {
        return;
    }
    let hot = &mut viewer.tracks[cold.track];
    let rendition = cold.rendition();
    let Some(output) = track.rendition(rendition) else { return };
    let start = match cold.track.kind() {
        MediaKind::Audio => {
            output.cache.newest_since(now.checked_sub(AUDIO_AGE_MAX)).or(output.rewriter.next())
        }
        _ if share == Share::Nothing => return,
        // Not with what it has had.
        _ => output
            .cache
            .start_of_playback(now, viewer.cold.joined_at, limits)
            .filter(|start| hot.packets == 0 || *start >= hot.until),
    };
    match start {
        Some(start) => {
            cold.state = Progress::CatchingUp;
            hot.begin(start, &output.cache);
            if cold.track.kind() == MediaKind::Video {
                viewer.cold.stats.video_began.get_or_insert(now);
            }
        }
        // Requested again when a publisher begins, or when the key frame that comes cannot be used.
        None if hot.packets == 0 => track.want_key_frame_of(now, rendition),
        // Its path, not the stream, is why it waits: all others get the key frame as well.
        None => track.want_key_frame_for_slow_viewer(now, rendition),
    }
}

/// Sends cached packets as far as pacing and `left` allow, without those that come live.
///
/// Numbers before `until` have been sent or come live; the others come from here, later. A batch that
/// reaches the viewer in between leaves those out, and then they are no longer pending.
fn catch_up(
    viewer: &mut Viewer,
    index: usize,
    track: &mut Track,
    context: &Context<'_>,
    left: &mut usize,
    patched: &mut Vec<u8>,
    outlet: &mut impl Outlet,
) {
    let &Context { now, ref pending, profile, limits, is_alone } = context;
    let token = viewer.token();
    let cold = &mut *viewer.cold;
    let is_paced = cold.is_paced;
    let of_track = &mut cold.tracks[index];
    if of_track.state != Progress::CatchingUp {
        return;
    }
    let kind = track.index.kind();
    let share = if kind == MediaKind::Video { cold.share.current() } else { Share::All };
    let hot = &mut viewer.tracks[of_track.track];
    let rendition = of_track.rendition();
    if is_paced && kind == MediaKind::Video {
        track.note_slow_viewer(now);
    }
    let Some(output) = track.rendition(rendition) else { return };
    if let Some(is_mid_picture) = hot.is_mid_picture(&output.cache) {
        of_track.is_mid_picture = is_mid_picture;
    }
    let next = output.cache.get(hot.until).filter(|_| is_paced && kind == MediaKind::Video);
    let age = next.map_or(Duration::ZERO, |next| now.saturating_duration_since(next.packet.arrival()));
    // A key frame that was begun is worth more than what comes behind it, unless it takes for ever.
    let is_begun = is_paced && hot.is_within_key_frame(&output.cache) && age <= KEY_FRAME_LATE_MAX;
    // What was live is late; not what a viewer that joins begins with.
    let late_by = if is_begun || hot.until < hot.catch_up_until { Duration::ZERO } else { age };
    // Not while some of what is left out has yet to come live: that would not be sent then.
    let newer = output.cache.start_of_playback(now, cold.joined_at, limits);
    let newer = newer.filter(|newer| *newer > hot.until && !pending.has_before(hot.until));
    // So is the rest of another picture, unless that is of no use by now: cut short, it would leave a
    // number that never comes.
    let (is_kept, has_newer) = (hot.until >= output.cache.first(), newer.is_some());
    let is_late = late_by > LATE_MAX && !has_newer && is_kept && !pending.has_before(hot.until);
    // Pictures that are late are better than none for as long as no key frame can be had.
    let may_ask = track.may_have_key_frame(now, rendition, is_alone);
    let late_max = if may_ask { LATE_MAX } else { LATE_WITHOUT_KEY_FRAME };
    if is_late {
        of_track.layer_control.note_late();
        if is_alone {
            track.want_key_frame_of(now, rendition);
        } else {
            track.want_key_frame_for_slow_viewer(now, rendition);
        }
    }
    let Some(output) = track.rendition(rendition) else { return };
    let finishes = of_track.is_mid_picture && late_by <= late_max && is_kept;
    match newer {
        Some(_) if is_begun || finishes => {}
        // There is a newer key frame already: the rest of the previous GOP is not needed.
        Some(newer) if hot.until < hot.catch_up_until || !is_paced => {
            trace!(viewer = token, until = hot.until, newer, "left out up to a newer key frame");
            of_track.left_out = of_track.left_out.saturating_add(hot.leave_gap(of_track.is_mid_picture));
            hot.begin(newer, &output.cache);
        }
        // What comes before it is not kept any more.
        Some(newer) if hot.until < output.cache.first() => {
            trace!(viewer = token, until = hot.until, newer, "not kept any more, up to a key frame");
            forget_repeats(&mut cold.repeats, &mut cold.stats);
            of_track.left_out = of_track.left_out.saturating_add(hot.skip_to(newer, of_track.is_mid_picture));
        }
        // The few packets before it are worth sending.
        Some(newer) if late_by > SKIP_AFTER => {
            trace!(
                viewer = token,
                until = hot.until,
                newer,
                ?late_by,
                "late, and left out up to a key frame"
            );
            of_track.layer_control.note_late();
            forget_repeats(&mut cold.repeats, &mut cold.stats);
            of_track.left_out = of_track.left_out.saturating_add(hot.skip_to(newer, of_track.is_mid_picture));
        }
        // Evicted before the viewer got it. It could not decode what follows.
        None if hot.until < output.cache.first() => {
            trace!(viewer = token, until = hot.until, "not kept any more: it waits for a key frame");
            of_track.left_out = of_track.left_out.saturating_add(hot.leave_gap(of_track.is_mid_picture));
            of_track.state = Progress::Waiting;
            return track.want_key_frame_of(now, rendition);
        }
        // What would be sent now is of no use any more, and what follows is later still.
        None if is_late && late_by > late_max => {
            trace!(viewer = token, until = hot.until, ?late_by, "too late: it waits for a key frame");
            forget_repeats(&mut cold.repeats, &mut cold.stats);
            of_track.left_out = of_track.left_out.saturating_add(hot.leave_gap(of_track.is_mid_picture));
            of_track.state = Progress::Waiting;
            cold.stats.times_behind += 1;
            return;
        }
        _ => {}
    }
    let end = output.cache.end();
    let mut header = [0; HEADER_LEN_MAX];
    // Audio waits for nothing.
    while hot.until < end && (cold.backlog_credit > 0.0 || is_paced && kind == MediaKind::Audio) && *left > 0
    {
        if let Some(kept) = output.cache.get(hot.until)
            && !pending.contains(hot.until)
        {
            if share < Share::All && !(share == Share::KeyFrames && kept.packet.is_key_frame()) {
                trace!(viewer = token, until = hot.until, ?share, "left out: not of its share");
                of_track.left_out = of_track.left_out.saturating_add(hot.leave_gap(of_track.is_mid_picture));
                of_track.state = Progress::Waiting;
                return;
            }
            let to = hot.viewer_fields(hot.until, kept.timestamp);
            if let Some(len) = profile.header(&kept.packet, to, &mut header) {
                let mut payload = profile.sent(&kept.packet).map_or(&[][..], |(_, payload)| payload);
                let sent_bytes = payload.len();
                if let Some(shift) = hot.pictures.of_payload(kept.packet.codec()) {
                    patched.clear();
                    patched.extend_from_slice(payload);
                    shift.apply(patched);
                    payload = patched;
                }
                let has_transport_number = hot.has_transport_number;
                let keeps = of_track.sent_numbers.as_deref_mut();
                let header = Header { bytes: &mut header, len, has_transport_number, keeps };
                let kind = if kind == MediaKind::Audio { Kind::Audio } else { Kind::Video };
                let protection = of_track.protection.as_mut().filter(|_| hot.pictures == PictureShift::NONE);
                if let Some(protection) = protection {
                    protection.handle_packet(now, &header.bytes[..len], payload);
                }
                outlet::send_cached(outlet, now, token, kind, header, payload);
                if let Some(protection) = of_track.protection.as_mut() {
                    outlet::send_repairs(outlet, now, token, profile, protection);
                }
                hot.count(sent_bytes);
                cold.backlog_credit -= (len + payload.len()) as f64;
                *left -= 1;
            }
        }
        hot.until += 1;
    }
    // Who gets key frames only gets them from here.
    if hot.until >= end && share == Share::All {
        hot.until = NEVER;
        of_track.state = Progress::Live;
    }
}

impl Viewer {
    /// Goes into the queue of those that get packets from the cache.
    pub(crate) fn queue(
        &mut self,
        id: ViewerId,
        backlog: &mut VecDeque<ViewerId>,
        waiting_for_key_frame: &mut Vec<ViewerId>,
    ) {
        match std::mem::replace(&mut self.cold.queued, Queued::ForBacklog) {
            Queued::ForBacklog => return,
            Queued::ForKeyFrame => waiting_for_key_frame.retain(|known| *known != id),
            Queued::No => {}
        }
        backlog.push_back(id);
    }

    /// Adds pacing credit for the time that passed.
    fn add_credit(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.cold.backlog_at);
        self.cold.backlog_at = now;
        let credit = self.cold.backlog_credit + passed.as_secs_f64() * BYTES_PER_SECOND;
        self.cold.backlog_credit = credit.min(BURST_BYTES);
    }
}

/// Bytes a viewer without congestion control is sent at once when it joins: most key frames, and no
/// more than routers hold.
const BURST_BYTES: f64 = 64_000.0;
/// How fast it gets the rest: 20 Mbit/s, so that ten seconds of 2 Mbit/s take one.
const BYTES_PER_SECOND: f64 = 2_500_000.0;
/// How often more is sent to it.
const PACE: Duration = Duration::from_millis(5);
/// Between two packets of a probe.
const PROBE_STEP: Duration = Duration::from_millis(1);
/// Between two looks at whether to probe.
const PROBE_IDLE: Duration = Duration::from_millis(10);
/// How late video is from which on a newer key frame is better than what comes before it.
const SKIP_AFTER: Duration = Duration::from_millis(100);
/// How late a key frame may be whose beginning was sent.
const KEY_FRAME_LATE_MAX: Duration = Duration::from_secs(4);
/// How late video may be: what waits longer is dropped up to the next key frame.
const LATE_MAX: Duration = Duration::from_millis(400);
/// How late while no key frame can be asked for: one is, as soon as that may be.
const LATE_WITHOUT_KEY_FRAME: Duration = Duration::from_millis(1_000);
/// A new viewer starts with audio that arrived at most this long ago.
const AUDIO_AGE_MAX: Duration = Duration::from_millis(100);
