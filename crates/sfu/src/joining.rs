//! Viewers join and leave, and catch up with the live stream.
//!
//! A viewer of video starts with the newest key frame in the cache and gets what followed faster
//! than real time, until it has caught up; then it gets packets as they arrive. Audio starts with
//! the next packet. Without a usable key frame the viewer waits while one is requested; if the next
//! one arrives while it catches up, it continues from there.

use std::time::{Duration, Instant};

use rtp::payload::MediaKind;

use super::batch::Pending;
use super::header_profile::{HEADER_LEN_MAX, HeaderProfile};
use super::inputs::ViewerInput;
use super::limits::Limits;
use super::stream::PacketStream;
use super::track::Track;
use super::viewer::{ColdState, ColdTrack, NEVER, Progress, Viewer, ViewerStats};
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
            stats: ViewerStats::default(),
            backlog_credit: BURST_BYTES,
            backlog_at: now,
            joined_at: now,
            awaits_first_report: true,
            reported_tracks: 0,
            first_reported_at: None,
        };
        let mut viewer = Viewer::new(input.token, cold);
        for track in &input.tracks {
            let hot = &mut viewer.tracks[track.track];
            (hot.ssrc, hot.profile) = (track.ssrc, self.profiles.acquire(HeaderProfile::new(track)));
        }
        let id = self.viewers.insert(viewer);
        self.joining.push_back(id);
        self.first_reports.push(id);
        self.first_reports_at.get_or_insert(now);
        Ok(id)
    }

    /// Removes a viewer. Its id is not used again.
    pub fn leave(&mut self, id: ViewerId) {
        let Some(viewer) = self.viewers.remove(id) else { return };
        for cold in &viewer.cold.tracks {
            self.profiles.release(viewer.tracks[cold.track].profile);
        }
        self.joining.retain(|known| *known != id);
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
        !self.joining.is_empty()
    }

    /// Sends viewers their packets from the cache, at most `most`: calls `send` with the viewer's
    /// token, the packet's kind, its header and what follows it. Returns how many were sent: if
    /// `most`, there may be more.
    ///
    /// Paced, so that a viewer's network is not flooded: call it after each batch, and at
    /// [`PacketStream::next_timeout`]. Viewers take turns. What a batch will bring a viewer, open or not,
    /// it does not get from the cache.
    pub fn send_backlog(
        &mut self,
        now: Instant,
        most: usize,
        mut send: impl FnMut(u64, MediaKind, &[u8], &[u8]),
    ) -> usize {
        let mut left = most;
        for _ in 0..self.joining.len() {
            if left == 0 {
                break;
            }
            let Some(id) = self.joining.pop_front() else { break };
            match self.serve(now, id, &mut left, &mut send) {
                Some(Progress::CatchingUp) => self.joining.push_back(id),
                Some(Progress::Waiting) => self.waiting_for_key_frame.push(id),
                Some(Progress::Live) | None => {}
            }
        }
        most - left
    }

    /// Sends one viewer cached packets and returns its progress: waiting only if all that is left
    /// to do is to wait for a key frame.
    fn serve(
        &mut self,
        now: Instant,
        id: ViewerId,
        left: &mut usize,
        send: &mut impl FnMut(u64, MediaKind, &[u8], &[u8]),
    ) -> Option<Progress> {
        let viewer = self.viewers.get_mut(id)?;
        viewer.add_credit(now);
        let mut furthest_behind = Progress::Live;
        for index in 0..viewer.cold.tracks.len() {
            let track = viewer.cold.tracks[index].track;
            let profile = self.profiles.get(viewer.tracks[track].profile);
            if let Some(track) = self.tracks.get_mut(track)
                && let Some(profile) = profile
            {
                let pending = self.batches.pending(id.slot(), track.index);
                begin(now, viewer, index, track, &self.limits);
                catch_up(now, viewer, index, track, &pending, profile, &self.limits, left, send);
            }
            furthest_behind = match (viewer.cold.tracks[index].state, furthest_behind) {
                (Progress::CatchingUp, _) | (_, Progress::CatchingUp) => Progress::CatchingUp,
                (Progress::Waiting, _) | (_, Progress::Waiting) => Progress::Waiting,
                _ => Progress::Live,
            };
        }
        Some(furthest_behind)
    }

    /// When more of the cache can be sent.
    pub(crate) fn next_backlog(&self) -> Option<Instant> {
        let viewers = self.joining.iter().filter_map(|id| self.viewers.get(*id));
        let catching_up = viewers
            .filter(|viewer| viewer.cold.tracks.iter().any(|track| track.state == Progress::CatchingUp));
        catching_up.map(|viewer| viewer.cold.backlog_at + PACE).min()
    }
}

/// Starts a track, if the cache has a packet to start with.
fn begin(now: Instant, viewer: &mut Viewer, index: usize, track: &mut Track, limits: &Limits) {
    let cold = &mut viewer.cold.tracks[index];
    if cold.state != Progress::Waiting {
        return;
    }
    let start = match cold.track.kind() {
        MediaKind::Audio => {
            track.cache.newest_since(now.checked_sub(AUDIO_AGE_MAX)).or(track.rewriter.next())
        }
        _ => track.cache.start_of_playback(now, viewer.cold.joined_at, limits),
    };
    match start {
        Some(start) => {
            cold.state = Progress::CatchingUp;
            viewer.tracks[cold.track].begin(start, &track.cache);
        }
        // Requested again when a publisher begins, or when the key frame that comes cannot be used.
        None => track.want_key_frame(now),
    }
}

/// Sends cached packets as far as pacing and `left` allow, without those that come live.
///
/// Numbers before `until` have been sent or come live; the others come from here, later. A batch that
/// reaches the viewer in between leaves those out, and then they are no longer pending.
#[expect(clippy::too_many_arguments, reason = "parts of the stream that are borrowed apart")]
fn catch_up(
    now: Instant,
    viewer: &mut Viewer,
    index: usize,
    track: &mut Track,
    pending: &Pending<'_>,
    profile: &HeaderProfile,
    limits: &Limits,
    left: &mut usize,
    send: &mut impl FnMut(u64, MediaKind, &[u8], &[u8]),
) {
    let token = viewer.token();
    let cold = &mut *viewer.cold;
    let of_track = &mut cold.tracks[index];
    if of_track.state != Progress::CatchingUp {
        return;
    }
    let hot = &mut viewer.tracks[of_track.track];
    // Not while some of what is left out has yet to come live: that would not be sent then.
    let newer = track.cache.start_of_playback(now, cold.joined_at, limits);
    let newer = newer.filter(|newer| *newer > hot.until && !pending.has_before(hot.until));
    match newer {
        // There is a newer key frame already: the rest of the previous GOP is not needed.
        Some(newer) => hot.begin(newer, &track.cache),
        // Evicted before the viewer got it. It could not decode what follows.
        None if hot.until < track.cache.first() => {
            hot.from = NEVER;
            of_track.state = Progress::Waiting;
            return track.want_key_frame(now);
        }
        None => {}
    }
    let end = track.cache.end();
    let mut header = [0; HEADER_LEN_MAX];
    while hot.until < end && cold.backlog_credit > 0.0 && *left > 0 {
        if let Some(kept) = track.cache.get(hot.until)
            && !pending.contains(hot.until)
        {
            let to = hot.viewer_fields(hot.until, kept.timestamp);
            if let Some(len) = profile.header(&kept.packet, to, &mut header) {
                let payload = kept.packet.payload();
                send(token, track.index.kind(), &header[..len], payload);
                hot.count(&kept.packet);
                cold.backlog_credit -= (len + payload.len()) as f64;
                *left -= 1;
            }
        }
        hot.until += 1;
    }
    if hot.until >= end {
        hot.until = NEVER;
        of_track.state = Progress::Live;
    }
}

impl Viewer {
    /// Adds pacing credit for the time that passed.
    fn add_credit(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.cold.backlog_at);
        self.cold.backlog_at = now;
        let credit = self.cold.backlog_credit + passed.as_secs_f64() * BYTES_PER_SECOND;
        self.cold.backlog_credit = credit.min(BURST_BYTES);
    }
}

/// Bytes a viewer is sent at once when it joins: most key frames, and no more than routers hold.
const BURST_BYTES: f64 = 64_000.0;
/// How fast it gets the rest: 20 Mbit/s, so that ten seconds of 2 Mbit/s take one.
const BYTES_PER_SECOND: f64 = 2_500_000.0;
/// How often more is sent.
const PACE: Duration = Duration::from_millis(5);
/// A new viewer starts with audio that arrived at most this long ago.
const AUDIO_AGE_MAX: Duration = Duration::from_millis(100);
