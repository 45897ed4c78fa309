//! What of its video a viewer gets by what its path carries: a layer, and less than that where not even the
//! least of them fits.
//!
//! Down at once, to the best layer that fits; up one or more when the path has shown for a while that it
//! carries that. Below the least layer a viewer gets each group of pictures as far as there is room, then key
//! frames only, then nothing but audio; and all of it again when there is room, for which is probed.
//!
//! Some cannot be probed: without RTX there is nothing to fill a probe with, and without reports of packets
//! nothing to see of it. Then only video shows whether there is room for more. Such a viewer keeps all of the
//! least layer, each group of pictures as far as there is room: what waits makes the probes, and raises a
//! receiver's own estimate. If all it reports is losses, that would keep the queue full in which its audio
//! waits: it gets no less than key frames, and its estimate rises by time ([`congestion`]). The next layer is
//! tried now and then, less often each time that it was too much.

use std::time::{Duration, Instant};

use congestion::Bottleneck;
use rtp::payload::{Codec, MediaKind};

use super::layers::{Layer, LayerRate};
use super::pacer::Pacer;
use super::rendition::RenditionId;
use super::stream::PacketStream;
use super::track::{Track, TrackIndex, Tracks};
use super::viewer::{ColdTrack, Progress, Viewer};
use super::viewers::ViewerId;

/// Which packets of its video tracks, or of the layers it has of them, a viewer gets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Share {
    /// None: the path carries no more than audio.
    Nothing,
    /// Key frames.
    KeyFrames,
    /// All, as fast as the path takes them.
    #[default]
    All,
}

/// The bits per second that shares of the least layers take, audio included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Rates {
    key_frames: u64,
    all: u64,
}

/// Decides about the share of one viewer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShareControl {
    share: Share,
    /// Since when the path has not carried what it should.
    short_since: Option<Instant>,
    /// Since when it has carried more.
    ample_since: Option<Instant>,
    changed_at: Instant,
}

/// Decides about the layer of one track for one viewer.
#[derive(Debug, Default)]
pub(crate) struct LayerControl {
    /// What it has decided for; `None` before it has.
    chosen: Option<Layer>,
    /// Since when the path has carried more than the layer.
    ample_since: Option<Instant>,
    down_at: Option<Instant>,
    /// Once a layer was kept that needs nearly all of the path.
    filling: Option<Box<Filling>>,
    /// Of a viewer that cannot be probed.
    trials: Option<Box<Trials>>,
    /// What the viewer has asked for.
    pub(crate) fixed: Option<Layer>,
}

/// Room for a track of video, in bits per second.
#[derive(Debug, Clone, Copy)]
struct Room {
    /// By what the path is estimated to carry for longer: that leaves some of it free.
    budget: u64,
    /// By what its bottleneck was seen to carry.
    bottleneck: Option<Bottleneck>,
    is_probed: bool,
}

/// A layer that needs nearly all that the bottleneck carries, more than the estimate allows: 500 kbit/s with
/// audio and headers on a path of 600, say. It is as even as a path needs it to be, or it is not: that shows
/// when it is sent.
#[derive(Debug, Default)]
struct Filling {
    since: Option<Instant>,
    /// Its video came too late to be sent.
    is_late: bool,
    /// It was too much: not again for so long, and from then on.
    pause: Duration,
    not_before: Option<Instant>,
}

impl Filling {
    /// The layer is kept for this reason, or is not.
    fn note(&mut self, now: Instant, is_so: bool) {
        self.since = if is_so { self.since.or(Some(now)) } else { None };
    }

    /// It was too much.
    fn failed(&mut self, now: Instant) {
        let Some(since) = self.since.take() else { return };
        let held = now.saturating_duration_since(since);
        let pause = if held >= FILLED_FOR { TRY_AFTER } else { 2 * self.pause };
        self.pause = pause.clamp(TRY_AFTER, TRY_AFTER_MAX);
        self.not_before = Some(now + self.pause);
    }

    fn may_begin(&self, now: Instant) -> bool {
        self.not_before.is_none_or(|at| at <= now)
    }
}

/// When the next higher layer is tried.
#[derive(Debug)]
struct Trials {
    /// Since when there has been the present layer.
    since: Instant,
    /// It is being tried.
    is_trial: bool,
    /// How long it is kept before the next one is tried.
    pause: Duration,
}

impl ShareControl {
    /// All, until the path has shown that it does not carry that.
    pub(crate) fn new(now: Instant) -> Self {
        Self { share: Share::All, short_since: None, ample_since: None, changed_at: now }
    }

    pub(crate) fn current(&self) -> Share {
        self.share
    }

    /// The path carries `estimate` now, and no less than `floor` is sent. Whether the share changes.
    fn review(&mut self, now: Instant, estimate: u64, rates: &Rates, floor: Share) -> bool {
        let (below, above) = match self.share {
            Share::All => (percent(rates.all, 70), u64::MAX),
            Share::KeyFrames => (percent(rates.key_frames, 80), percent(rates.all, 90)),
            Share::Nothing => (0, percent(rates.key_frames, 106)),
        };
        let short = lasts(&mut self.short_since, now, estimate < below);
        let ample = lasts(&mut self.ample_since, now, estimate >= above);
        let is_settled = now.saturating_duration_since(self.changed_at) >= SETTLED_AFTER;
        let share = if short >= SHORT_FOR {
            if self.share == Share::All && estimate >= percent(rates.key_frames, 80) {
                Share::KeyFrames
            } else {
                Share::Nothing
            }
        } else if is_settled && ample >= AMPLE_FOR {
            if estimate >= percent(rates.all, 90) { Share::All } else { Share::KeyFrames }
        } else {
            self.share
        };
        let share = share.max(floor);
        if share == self.share {
            return false;
        }
        *self = Self { share, short_since: None, ample_since: None, changed_at: now };
        true
    }
}

impl LayerControl {
    /// Video came too late to be sent: its layer takes more than the path carries.
    pub(crate) fn note_late(&mut self) {
        if let Some(filling) = &mut self.filling {
            filling.is_late = true;
        }
    }

    /// The layer for a path with this room, of at least one in `choices`, which rise.
    /// What cannot be probed is tried.
    fn choose(&mut self, now: Instant, room: Room, choices: &[LayerRate]) -> Layer {
        let Room { budget, bottleneck, is_probed } = room;
        let takes = |at: usize| percent(choices[at].bits_per_second, 105);
        let best_within =
            |share: u64| (0..choices.len()).rev().find(|at| takes(*at) <= percent(budget, share));
        let fills = |at: usize, share: u64| {
            bottleneck.is_some_and(|most| takes(at) <= percent(most.bits_per_second, share))
        };
        let chosen = self.chosen.and_then(|layer| choices.iter().position(|choice| choice.layer == layer));
        let Some(current) = chosen else {
            // It begins, or what it had is there no more.
            let first = best_within(FITS_PERCENT).unwrap_or(0);
            (self.ample_since, self.trials) = (None, None);
            return *self.chosen.insert(choices[first].layer);
        };
        let trials = self.trials.take().filter(|_| !is_probed);
        let mut trials = trials.or_else(|| {
            (!is_probed).then(|| Box::new(Trials { since: now, is_trial: false, pause: TRY_AFTER }))
        });
        let passed = trials.as_ref().map_or(Duration::ZERO, |it| now.saturating_duration_since(it.since));
        // What is tried needs a key frame, and time to be sent.
        let is_trial = trials.as_ref().is_some_and(|it| it.is_trial) && passed < TRIAL;
        let is_due = trials.as_ref().is_some_and(|it| !is_trial && passed >= it.pause);
        let is_over = takes(current) > percent(budget, 102);
        let is_settled = self.down_at.is_none_or(|at| now.saturating_duration_since(at) >= SETTLED_AFTER);
        // What waits for the queue of the layer before to go is late for no reason of this one.
        let was_late = self.filling.as_mut().is_some_and(|filling| std::mem::take(&mut filling.is_late));
        let is_late = was_late && is_settled;
        let is_too_much = current > 0 && !is_trial && is_over && (is_late || !fills(current, 100));
        let next_one = Some(current + 1).filter(|at| *at < choices.len());
        let has_room = next_one.is_some_and(|at| takes(at) <= percent(budget, AMPLE_PERCENT));
        let may_fill = |filling: &Option<Box<Filling>>| filling.as_ref().is_none_or(|it| it.may_begin(now));
        let is_confirmed = bottleneck.is_some_and(|most| most.is_confirmed) && may_fill(&self.filling);
        let is_ample = has_room || is_confirmed && next_one.is_some_and(|at| fills(at, FITS_PERCENT));
        let ample = lasts(&mut self.ample_since, now, is_ample);
        let next = if is_too_much {
            self.down_at = Some(now);
            if let Some(filling) = &mut self.filling {
                filling.failed(now);
            }
            let filled = (0..current).rev().find(|at| fills(*at, FITS_PERCENT) && may_fill(&self.filling));
            let best = best_within(FITS_PERCENT).max(filled);
            best.unwrap_or(0).min(current - 1)
        } else if is_ample && is_settled && ample >= AMPLE_FOR {
            best_within(AMPLE_PERCENT).unwrap_or(0).max(if has_room { current } else { current + 1 })
        } else if is_due && current + 1 < choices.len() {
            current + 1
        } else {
            current
        };
        let is_filling = takes(next) > percent(budget, 102) && fills(next, 100);
        if is_filling || self.filling.is_some() {
            self.filling.get_or_insert_default().note(now, is_filling);
        }
        if let Some(trials) = &mut trials {
            if is_too_much {
                let was_tried = trials.is_trial;
                trials.pause = if was_tried { (2 * trials.pause).min(TRY_AFTER_MAX) } else { TRY_AFTER };
            } else if trials.is_trial && !is_trial {
                // It has room.
                trials.pause = TRY_AFTER;
            }
            trials.is_trial &= is_trial;
            if next != current {
                (trials.since, trials.is_trial) = (now, next > current && !is_ample);
            }
        }
        self.trials = trials;
        if next != current {
            self.ample_since = None;
        }
        *self.chosen.insert(choices[next].layer)
    }
}

/// How long something has been so, if it is.
fn lasts(since: &mut Option<Instant>, now: Instant, is_so: bool) -> Duration {
    *since = if is_so { since.or(Some(now)) } else { None };
    since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since) + Duration::from_nanos(1))
}

fn percent(rate: u64, percent: u64) -> u64 {
    rate / 100 * percent
}

impl PacketStream {
    /// What a viewer's path carries may have changed: it gets as much of its video as that allows.
    /// To be called when it has joined; afterwards its reports do ([`PacketStream::viewer_rtcp`]).
    pub fn adapt(&mut self, now: Instant, id: ViewerId, pacer: &mut Pacer) {
        let Some(viewer) = self.viewers.get(id) else { return };
        let estimate = pacer.estimate();
        let is_of = |cold: &&ColdTrack, kind| cold.track.kind() == kind;
        let audio = viewer.cold.tracks.iter().filter(|cold| is_of(cold, MediaKind::Audio));
        let audio: u64 = audio
            .filter_map(|cold| self.tracks.get(cold.track))
            // Headers and tags are half as much again for packets as small as these.
            .map(|track| percent(track.bits_per_second(now), 150))
            .sum();
        let videos = viewer.cold.tracks.iter().filter(|cold| is_of(cold, MediaKind::Video)).count() as u64;
        let has_padding = |cold: &ColdTrack| {
            cold.rtx_ssrc.is_some()
                && cold.track.kind() == MediaKind::Video
                && viewer.tracks[cold.track].has_transport_number
        };
        let is_probed = pacer.reports_packets() && viewer.cold.tracks.iter().any(has_padding);
        let floor = match (is_probed, pacer.sees_queues()) {
            (true, _) => Share::Nothing,
            (false, true) => Share::All,
            (false, false) => Share::KeyFrames,
        };
        let for_each = |rate: u64| rate.saturating_sub(audio) / videos.max(1);
        let budget = for_each(estimate);
        let bottleneck = pacer.bottleneck(now);
        let bottleneck =
            bottleneck.map(|seen| Bottleneck { bits_per_second: for_each(seen.bits_per_second), ..seen });
        // What a socket carries only what it takes for longer than a probe shows.
        let is_probed = is_probed && !pacer.has_socket();
        let room = Room { budget, bottleneck, is_probed };
        let mut rates = Rates { key_frames: audio, all: audio };
        let mut demand = audio;
        let share = viewer.cold.share.current();
        for at in 0..viewer.cold.tracks.len() {
            let Some((track, least, most)) = self.adapt_track(now, id, at, room) else {
                continue;
            };
            let Some(track) = self.tracks.get(track) else { continue };
            let rendition = self.viewers.get(id).and_then(|viewer| viewer.cold.tracks.get(at));
            let rendition = rendition.map(ColdTrack::rendition).unwrap_or_default();
            rates.all += least;
            // Looked at only where it may count: it is a walk over a key frame.
            rates.key_frames += match share == Share::All && budget >= least {
                true => least,
                false => percent(track.key_frame_bits_per_second(rendition), 105).min(least),
            };
            demand += most;
        }
        pacer.demand(demand.max(DEMAND_MIN));
        let probes = pacer.wants_more();
        let Some(viewer) = self.viewers.get_mut(id) else { return };
        let is_changed = videos > 0 && viewer.cold.share.review(now, estimate, &rates, floor);
        if is_changed {
            let share = viewer.cold.share.current();
            tracing::debug!(viewer = viewer.token(), ?share, estimate, "another share of the video");
            viewer.hold_back(&self.tracks, share);
        }
        if is_changed || probes {
            self.queue_viewer(id);
        }
    }

    /// Chooses a layer of a video track. The track, what its least layer takes, and the most that could be
    /// used of it.
    fn adapt_track(
        &mut self,
        now: Instant,
        id: ViewerId,
        at: usize,
        room: Room,
    ) -> Option<(TrackIndex, u64, u64)> {
        let budget = room.budget;
        let index = self.viewers.get(id)?.cold.tracks.get(at)?.track;
        if index.kind() == MediaKind::Audio {
            return None;
        }
        self.review_choices(now, index);
        let track = self.tracks.get(index)?;
        let choices = &track.choices;
        let top = choices.last().map(|top| top.layer);
        let height_max = self.viewers.get(id)?.cold.height_max;
        let fitting = height_max.map(|most| no_higher_than(most, choices));
        let viewer = self.viewers.get(id)?;
        let profile = self.profiles.get(viewer.tracks[index].profile);
        let is_plain = profile.is_some_and(|profile| !profile.has_descriptors());
        let fitting = match is_plain && track.needs_descriptors() {
            true => Some(lowest_pictures(track, fitting.as_deref().unwrap_or(choices))),
            false => fitting,
        };
        if choices.len() < 2 {
            let all = percent(track.bits_per_second(now), 105);
            let cold = self.viewers.get_mut(id)?.cold.tracks.get_mut(at)?;
            if let Some(protection) = &mut cold.protection {
                protection.set_budget(now, budget.saturating_sub(all));
            }
            // Some more than what there is, so that bursts of it find room.
            return Some((index, all, percent(all, 150)));
        }
        let choices = fitting.as_deref().unwrap_or(choices);
        let cold = self.viewers.get_mut(id)?.cold.tracks.get_mut(at)?;
        let least = percent(choices[0].bits_per_second, 105);
        let most = percent(choices[choices.len() - 1].bits_per_second, 130);
        let layer = match cold.layer_control.fixed {
            Some(fixed) => fixed,
            None => cold.layer_control.choose(now, room, choices),
        };
        // What is left may repair losses.
        let taken =
            choices.iter().find(|choice| choice.layer == layer).map_or(0, |choice| choice.bits_per_second);
        if let Some(protection) = &mut cold.protection {
            protection.set_budget(now, budget.saturating_sub(percent(taken, 105)));
        }
        // The best of all goes to most viewers in one and the same way.
        let is_whole = (layer.spatial, layer.temporal) == (Layer::ALL, Layer::ALL);
        let layer = if Some(layer) == top && is_whole { Layer::BEST } else { layer };
        self.set_layer(now, id, index, layer);
        Some((index, least, most))
    }

    /// Keeps a viewer to layers whose pictures are no higher than this, as far as their sizes are known; to
    /// the least layer if all are higher. What it has asked for ([`PacketStream::fix_layer`]) it gets.
    pub fn limit_height(&mut self, viewer: ViewerId, most: Option<u16>) {
        if let Some(viewer) = self.viewers.get_mut(viewer) {
            viewer.cold.height_max = most;
        }
    }

    /// Gives a viewer this layer of a track whatever its path carries; with `None` its path decides.
    pub fn fix_layer(&mut self, now: Instant, viewer: ViewerId, track: TrackIndex, layer: Option<Layer>) {
        let Some(of_viewer) = self.viewers.get_mut(viewer) else { return };
        let Some(cold) = of_viewer.cold.tracks.iter_mut().find(|cold| cold.track == track) else { return };
        cold.layer_control.fixed = layer;
        // Where there is nothing to choose, no path ends the fixed one.
        let has_choice = self.tracks.get(track).is_some_and(|track| track.choices.len() > 1);
        if let Some(layer) = layer.or((!has_choice).then_some(Layer::BEST)) {
            self.set_layer(now, viewer, track, layer);
        }
    }

    /// Looks again at what there is to choose from of a track, now and then. Rates are averages of some
    /// seconds: a key frame is no reason to change.
    fn review_choices(&mut self, now: Instant, index: TrackIndex) {
        let Some(track) = self.tracks.get(index) else { return };
        if track.choices_at.is_some_and(|at| now.saturating_duration_since(at) < CHOICES_INTERVAL) {
            return;
        }
        let mut choices = self.layers(now, index);
        choices.retain(|choice| choice.is_live && choice.bits_per_second > 0);
        let Some(track) = self.tracks.get_mut(index) else { return };
        let least = choices.iter().min_by_key(|choice| choice.bits_per_second);
        let lowest = least.and_then(|least| least.layer.encoding);
        choices.retain(|choice| is_smooth(track, choice.layer, lowest));
        for choice in &mut choices {
            let before = track.choices.iter().find(|before| before.layer == choice.layer);
            if let Some(before) = before.map(|before| before.bits_per_second) {
                choice.bits_per_second = (3 * before + choice.bits_per_second) / 4;
            }
        }
        choices.sort_by_key(|choice| choice.bits_per_second);
        (track.choices, track.choices_at) = (choices, Some(now));
    }
}

/// Of at least one choice those that a viewer gets with a limit on their height.
fn no_higher_than(most: u16, choices: &[LayerRate]) -> Vec<LayerRate> {
    let fits = |choice: &&LayerRate| choice.size.is_none_or(|size| size.height <= most);
    let fitting: Vec<LayerRate> = choices.iter().filter(fits).copied().collect();
    if fitting.is_empty() { choices.iter().take(1).copied().collect() } else { fitting }
}

/// Whether a layer has at least half of the pictures, or lowest ones of the lowest encoding: a quarter of
/// large ones takes as much as all of the next smaller ones.
fn is_smooth(track: &Track, layer: Layer, lowest: Option<u8>) -> bool {
    let encoding = layer.encoding.and_then(|at| track.encodings.get(usize::from(at)));
    let (spatial_max, temporal_max) = encoding.map_or((0, 0), |encoding| encoding.highest_layers());
    let is_lowest = (spatial_max == 0 || layer.spatial == 0) && layer.encoding == lowest;
    is_lowest || layer.temporal.saturating_add(1) >= temporal_max
}

/// Of at least one choice those without spatial layers above the lowest, or the least of all.
fn lowest_pictures(track: &Track, choices: &[LayerRate]) -> Vec<LayerRate> {
    let is_one = |encoding: Option<u8>| {
        let encoding = encoding.and_then(|at| track.encodings.get(usize::from(at)));
        encoding.is_none_or(|encoding| encoding.highest_layers().0 == 0)
    };
    let is_lowest = |choice: &&LayerRate| choice.layer.spatial == 0 || is_one(choice.layer.encoding);
    let lowest: Vec<LayerRate> = choices.iter().filter(is_lowest).copied().collect();
    if lowest.is_empty() { choices.iter().take(1).copied().collect() } else { lowest }
}

impl Viewer {
    /// With less than all it gets nothing live: packets are chosen where they come from the cache.
    fn hold_back(&mut self, tracks: &Tracks, share: Share) {
        for cold in &mut self.cold.tracks {
            let is_video = cold.track.kind() == MediaKind::Video;
            if share < Share::All
                && is_video
                && cold.state == Progress::Live
                && let Some(output) =
                    tracks.get(cold.track).and_then(|track| track.rendition(cold.rendition()))
            {
                self.tracks[cold.track].until = output.cache.end();
                cold.state = Progress::CatchingUp;
            }
        }
    }
}

impl Track {
    /// Whether spatial layers can be told apart by dependency descriptors only: decoders of AV1 without them
    /// take each layer for a picture of its own, and Chromium's decodes none.
    fn needs_descriptors(&self) -> bool {
        let newest = self.main.cache.end().checked_sub(1).and_then(|newest| self.main.cache.get(newest));
        newest.is_some_and(|newest| newest.packet.codec() == Codec::Av1)
            && self.encodings.iter().any(|encoding| encoding.highest_layers().0 > 0)
    }

    /// Of what is forwarded, over the last seconds.
    pub(crate) fn bits_per_second(&self, now: Instant) -> u64 {
        self.main.recent.as_ref().map_or(0, |recent| recent.bits_per_second(now))
    }

    /// What key frames alone take; where they come often, one in two seconds will do.
    fn key_frame_bits_per_second(&self, rendition: RenditionId) -> u64 {
        let output = self.rendition(rendition).unwrap_or(&self.main);
        let Some(packets) = output.cache.key_frame() else { return 0 };
        let bytes: usize = packets.map(|packet| packet.payload().len() + rtp::FIXED_HEADER_LEN).sum();
        let units = u64::from(self.key_frame_distance.unwrap_or(0));
        let interval_ms = units * 1_000 / u64::from(self.clock_rate.max(1_000));
        8_000 * bytes as u64 / interval_ms.clamp(2_000, 3_000)
    }
}

/// How long the path must be too narrow for the least layer before less than that is sent: the path
/// of a viewer that has just joined is still being measured.
const SHORT_FOR: Duration = Duration::from_millis(1_000);
/// How long it must be wide enough before more is sent.
const AMPLE_FOR: Duration = Duration::from_millis(200);
/// No more is sent for so long after a change of the share, or a step down of the layer.
const SETTLED_AFTER: Duration = Duration::from_secs(1);
/// How long who cannot be probed keeps a layer before the next one is tried, at first and at most.
const TRY_AFTER: Duration = Duration::from_secs(5);
const TRY_AFTER_MAX: Duration = Duration::from_secs(40);
/// How long a layer is tried: a key frame comes first.
const TRIAL: Duration = Duration::from_millis(2_500);
/// A layer fits if it takes no more of the room than this, and is gone up to if it takes less.
const FITS_PERCENT: u64 = 98;
const AMPLE_PERCENT: u64 = 94;
/// A layer that was kept for so long was right.
const FILLED_FOR: Duration = Duration::from_secs(20);
/// How often it is looked at what layers there are.
const CHOICES_INTERVAL: Duration = Duration::from_millis(300);
/// The least that is probed for: bits per second.
const DEMAND_MIN: u64 = 300_000;

#[cfg(test)]
mod tests {
    use rtp::payload::PictureSize;

    use super::*;

    fn choices(rates: &[u64]) -> Vec<LayerRate> {
        let choice = |(at, rate): (usize, &u64)| LayerRate {
            layer: Layer::of(at as u8),
            bits_per_second: *rate,
            is_live: true,
            size: None,
        };
        rates.iter().enumerate().map(choice).collect()
    }

    fn probed(budget: u64) -> Room {
        Room { budget, bottleneck: None, is_probed: true }
    }

    #[test]
    fn a_layer_that_fills_what_the_bottleneck_carries_is_kept_unless_it_is_late() {
        #[expect(clippy::disallowed_methods, reason = "a test is where virtual time begins")]
        let start = Instant::now();
        let choices = choices(&[150_000, 500_000, 1_700_000]);
        let mut control = LayerControl::default();
        let seen = |bits_per_second, is_confirmed| Some(Bottleneck { bits_per_second, is_confirmed });
        // Milliseconds, estimate, bottleneck, whether its video was late, the layer.
        let rows = [
            (0, 2_300_000, seen(2_500_000, true), false, 2, "the best that fits"),
            (100, 500_000, seen(540_000, false), false, 1, "down to what fills it, at once"),
            (500, 500_000, seen(540_000, false), true, 1, "late because of the layer before"),
            (900, 500_000, seen(526_000, false), false, 1, "kept"),
            (1_000, 480_000, seen(520_000, true), false, 0, "it does not fit"),
            (2_100, 500_000, seen(540_000, true), false, 0, "for five seconds"),
            (6_100, 500_000, seen(540_000, false), false, 0, "not before it was seen twice"),
            (6_200, 500_000, seen(540_000, true), false, 0, "nor at once"),
            (6_500, 500_000, seen(540_000, true), false, 1, "again"),
            (9_000, 500_000, seen(540_000, true), true, 0, "late"),
            (18_000, 500_000, seen(540_000, true), false, 0, "for twice as long"),
            (19_100, 500_000, seen(540_000, true), false, 0, "nor at once then"),
            (19_400, 500_000, seen(540_000, true), false, 1, "and again"),
            (25_000, 900_000, None, false, 1, "with room"),
            (26_000, 500_000, None, false, 0, "nobody knows what it carries"),
        ];
        for (at, budget, bottleneck, is_late, expected, remark) in rows {
            if is_late {
                control.note_late();
            }
            let room = Room { bottleneck, ..probed(budget) };
            let layer = control.choose(start + Duration::from_millis(at), room, &choices);
            assert_eq!(layer, Layer::of(expected), "{at}: {remark}");
        }
    }

    #[test]
    fn a_layer_is_left_at_once_and_gone_up_to_when_there_has_been_room_for_a_while() {
        #[expect(clippy::disallowed_methods, reason = "a test is where virtual time begins")]
        let start = Instant::now();
        let choices = choices(&[150_000, 500_000, 1_700_000]);
        let mut control = LayerControl::default();
        let rows = [
            (0, 1_000_000, 1, "the best that fits at first"),
            (100, 2_500_000, 1, "not at the first sight of more"),
            (200, 1_000_000, 1, "which was gone"),
            (300, 2_500_000, 1, "again"),
            (550, 2_500_000, 2, "and for 200 ms"),
            (600, 1_790_000, 2, "it just fits"),
            (700, 600_000, 1, "down at once"),
            (800, 100_000, 0, "by as many as it takes"),
            (900, 100_000, 0, "the least is kept"),
            (1_000, 3_000_000, 0, "not within a second"),
            (1_700, 3_000_000, 0, "nor at its end"),
            (1_801, 3_000_000, 2, "then as far as there is room"),
        ];
        for (at, budget, expected, remark) in rows {
            let layer = control.choose(start + Duration::from_millis(at), probed(budget), &choices);
            assert_eq!(layer, Layer::of(expected), "{remark}");
        }
    }

    #[test]
    fn who_cannot_be_probed_gets_the_next_layer_to_try_less_often_each_time_that_it_does_not_fit() {
        #[expect(clippy::disallowed_methods, reason = "a test is where virtual time begins")]
        let start = Instant::now();
        let choices = choices(&[150_000, 500_000, 1_700_000]);
        let mut control = LayerControl::default();
        let (mut layer, mut ups) = (Layer::of(0), Vec::new());
        for at in 0..1_000 {
            let now = start + Duration::from_millis(100 * at);
            let chosen = control.choose(now, Room { is_probed: false, ..probed(225_000) }, &choices);
            if chosen != layer && chosen == Layer::of(1) {
                ups.push(at / 10);
            }
            layer = chosen;
        }
        assert_eq!(ups, [5, 17, 40, 82], "then each 40 s and what a trial takes");
        // One that fits stays.
        let mut up_at = None;
        for at in 1_000..2_000 {
            let budget = if layer == Layer::of(0) { 225_000 } else { 750_000 };
            let room = Room { is_probed: false, ..probed(budget) };
            layer = control.choose(start + Duration::from_millis(100 * at), room, &choices);
            up_at = up_at.or((layer == Layer::of(1)).then_some(at));
        }
        assert!(up_at.is_some_and(|at| at < 1_500), "{up_at:?}");
    }

    #[test]
    fn a_limit_on_the_height_leaves_what_fits_or_is_unknown_or_else_the_least() {
        let size = |height| Some(PictureSize { width: 2 * height, height });
        let mut all = choices(&[150_000, 500_000, 1_700_000]);
        (all[0].size, all[1].size, all[2].size) = (size(180), size(360), size(720));
        let fitting = |most, all: &[LayerRate]| -> Vec<u8> {
            no_higher_than(most, all).iter().filter_map(|choice| choice.layer.encoding).collect()
        };
        assert_eq!(fitting(720, &all), [0, 1, 2]);
        assert_eq!(fitting(719, &all), [0, 1]);
        assert_eq!(fitting(180, &all), [0]);
        assert_eq!(fitting(100, &all), [0], "the least");
        all[1].size = None;
        assert_eq!(fitting(180, &all), [0, 1], "whose size is not known");
    }

    #[test]
    fn a_layer_that_is_gone_is_replaced_by_what_fits() {
        #[expect(clippy::disallowed_methods, reason = "a test is where virtual time begins")]
        let now = Instant::now();
        let mut control = LayerControl::default();
        assert_eq!(control.choose(now, probed(9_000_000), &choices(&[1, 2, 3])), Layer::of(2));
        assert_eq!(control.choose(now, probed(9_000_000), &choices(&[1, 2])), Layer::of(1));
    }
}
