//! Which rendition of a track each viewer gets, and how it changes from one to another.
//!
//! [`PacketStream::set_layer`] sets a viewer's target: as its path allows (`share.rs`), or as the
//! viewer asks. Within an encoding the viewer changes at a frame that its decoder can go on with. To
//! another encoding, or to more spatial layers, it changes where a key frame of that begins:
//!
//! ```text
//!  rendition a   n-2  n-1 | n    n+1
//!  rendition b   m-1      | m    m+1          m: first packet of a key frame
//!  viewer gets   a's n-2, n-1, then b's m, m+1 under the numbers of n and n+1
//! ```
//! What is still missing of a's numbers before n goes out under its own numbers, whenever it comes,
//! and is sent again when it is asked for: the viewer remembers the last stretches of what it got.
//! Timestamps go on by capture time where sender reports of both tell it, else by the time that
//! passed.
//!
//! An encoding that falls silent is replaced by the best one that is less, or the least that is
//! left, as long as it is silent.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rtp::payload::MediaKind;
use tracing::trace;

use super::dependencies::{self, Dependencies, Part, PartsHad};
use super::encoding::{Encoding, SILENT_AFTER};
use super::feedback::VIEWER_REQUEST_INTERVAL;
use super::layers::{self, Layer, LayerRate};
use super::pictures::PictureShift;
use super::rendition::{Rendition, RenditionId};
use super::repeats::forget_repeats;
use super::rtp_rewriter::{EncodingId, rtp_units};
use super::share::Share;
use super::stream::PacketStream;
use super::track::{Track, TrackIndex};
use super::viewer::{ColdTrack, NEVER, Progress, Viewer, ViewerTrack};
use super::viewers::ViewerId;

/// What a viewer that has had a target gets of a track.
#[derive(Debug)]
pub(crate) struct ViewerLayers {
    /// What was asked for.
    wanted: Layer,
    /// The output that it gets.
    pub(crate) current: RenditionId,
    /// The one that it is to get: what is wanted, or instead of it.
    target: RenditionId,
    /// What it got before, the oldest first.
    pub(crate) previous: VecDeque<Segment>,
    /// What it has had of the encoding that it gets, where that has decode targets.
    had: PartsHad,
}

/// Packets that a viewer got of an output before it changed to another one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    pub(crate) rendition: RenditionId,
    /// How it got them; up to `until`.
    pub(crate) track: ViewerTrack,
}

impl ViewerLayers {
    /// How the viewer gets a packet, if it does; `now` is how it gets what is current.
    pub(crate) fn segment_of<'a>(
        &'a self,
        now: &'a ViewerTrack,
        rendition: RenditionId,
        number: u64,
    ) -> Option<&'a ViewerTrack> {
        let has = |track: &ViewerTrack| (track.from..track.until).contains(&number);
        if rendition == self.current && has(now) {
            return Some(now);
        }
        let before = self.previous.iter().rev().filter(|segment| segment.rendition == rendition);
        before.map(|segment| &segment.track).find(|track| has(track))
    }
}

impl PacketStream {
    /// What there is of a track of video to choose from, from the least bits to the most. Empty without
    /// a publisher.
    pub fn layers(&self, now: Instant, track: TrackIndex) -> Vec<LayerRate> {
        let Some(track) = self.tracks.get(track).filter(|track| track.index.kind() == MediaKind::Video)
        else {
            return Vec::new();
        };
        let mut all = Vec::new();
        for at in layers::ascending(&track.encodings) {
            let encoding = &track.encodings[usize::from(at)];
            let is_live = encoding.is_live(now);
            let (spatial_max, temporal_max) = encoding.highest_layers();
            let first = all.len();
            for (spatial, temporal) in (0..=spatial_max)
                .flat_map(|spatial| (0..=temporal_max).map(move |temporal| (spatial, temporal)))
            {
                let layer = track.canonical(Layer { encoding: Some(at), spatial, temporal });
                let bits_per_second = match &encoding.layers {
                    Some(layers) if layer != Layer::of(at) => layers.up_to(spatial, temporal),
                    _ => encoding.bits_per_second(),
                };
                let size = encoding.sizes.of(spatial);
                all.push(LayerRate { layer, bits_per_second, is_live, size });
            }
            all[first..].sort_by_key(|one| one.bits_per_second);
        }
        // Encodings whose rate is not known yet stand by their names.
        if all.iter().all(|one| one.bits_per_second > 0) {
            all.sort_by_key(|one| one.bits_per_second);
        }
        all
    }

    /// Sets what a viewer is to get of a track of video. It takes effect where a decoder can change
    /// over: a key frame is asked for where one is needed. [`Layer::BEST`] is what viewers get
    /// without a target.
    pub fn set_layer(&mut self, now: Instant, id: ViewerId, track: TrackIndex, layer: Layer) {
        let Some(viewer) = self.viewers.get_mut(id) else { return };
        let Some(at) = viewer.cold.tracks.iter().position(|cold| cold.track == track) else { return };
        let is_new = viewer.cold.tracks[at].layers.is_none();
        if track.kind() == MediaKind::Audio || is_new && layer == Layer::BEST {
            return;
        }
        let track = self.tracks.get_or_new(track);
        let main = RenditionId::MAIN;
        let layers = viewer.cold.tracks[at].layers.get_or_insert_with(|| {
            Box::new(ViewerLayers {
                wanted: layer,
                current: main,
                target: main,
                previous: VecDeque::new(),
                had: PartsHad::default(),
            })
        });
        layers.wanted = layer;
        if is_new {
            track.layered += 1;
            // What it gets, and what it is to get.
            track.main.users += 2;
            viewer.tracks[track.index].is_layered = true;
        }
        if retarget(now, id, viewer, at, track) {
            self.queue_viewer(id);
        }
    }

    /// A viewer gets the main output of a track with this added to its timestamps, which it has had in
    /// another process.
    pub(crate) fn resume_shift(&mut self, id: ViewerId, index: TrackIndex, timestamp_shift: u32) {
        let Some(viewer) = self.viewers.get_mut(id).filter(|_| timestamp_shift != 0) else { return };
        let Some(cold) = viewer.cold.tracks.iter_mut().find(|cold| cold.track == index) else { return };
        let (main, track) = (RenditionId::MAIN, self.tracks.get_or_new(index));
        if cold.layers.is_none() {
            cold.layers = Some(Box::new(ViewerLayers {
                wanted: Layer::BEST,
                current: main,
                target: main,
                previous: VecDeque::new(),
                had: PartsHad::default(),
            }));
            track.layered += 1;
            // What it gets, and what it is to get.
            track.main.users += 2;
        }
        let hot = &mut viewer.tracks[index];
        (hot.is_layered, hot.plain, hot.timestamp_shift) = (true, RenditionId::NONE, timestamp_shift);
    }

    /// What a viewer gets of a track, and what it is to get. [`Layer::BEST`] where it has no
    /// target.
    pub fn layer_of(&self, viewer: ViewerId, track: TrackIndex) -> Option<(Layer, Layer)> {
        let cold = self.viewers.get(viewer)?.cold.tracks.iter().find(|cold| cold.track == track)?;
        let Some(layers) = &cold.layers else { return Some((Layer::BEST, Layer::BEST)) };
        let current = self.tracks.get(track)?.rendition(layers.current)?.layer;
        Some((current, layers.wanted))
    }

    /// Sends on what a packet has become in other renditions than the main one, and lets viewers
    /// change over to these.
    #[cold]
    pub(crate) fn forward_placed(&mut self, now: Instant, track: TrackIndex) {
        let mut placed = std::mem::take(&mut self.placed);
        for forward in placed.drain(..) {
            let (rendition, number) = (forward.rendition, forward.number);
            self.add_to_batch(now, forward);
            self.switch_waiting(now, track, rendition, number);
        }
        self.placed = placed;
    }

    /// Changes viewers over that wait for a key frame of a rendition, if one has begun. The packet
    /// with this number has just been added to what is sent live.
    pub(crate) fn switch_waiting(
        &mut self,
        now: Instant,
        index: TrackIndex,
        rendition: RenditionId,
        added: u64,
    ) {
        let Some(track) = self.tracks.get_mut(index) else { return };
        let Some(output) = track.rendition(rendition) else { return };
        let is_border = !output.at_border.is_empty()
            && (output.cache.begins_frame(added) || track.begins_layer_frame(output, added));
        let start = if output.waiting.is_empty() { None } else { output.cache.switch_start(now) };
        // Nearly always: nothing of the key frame has been sent yet to viewers of this rendition.
        let is_newest = start.is_some_and(|start| added == start && output.cache.end() == start + 1);
        let needs_another = start.is_none() && !output.waiting.is_empty() && output.cache.lacks_start(now);
        if needs_another {
            track.want_key_frame_of(now, rendition);
        }
        if is_border {
            self.switch_at_border(now, index, rendition, added);
        }
        let Some(track) = self.tracks.get_mut(index) else { return };
        let (Some(start), Some(output)) = (start, track.rendition_mut(rendition)) else { return };
        let mut waiting = std::mem::take(&mut output.waiting);
        let (mut behind, mut at_border, mut is_too_late) = (Vec::new(), Vec::new(), false);
        waiting.retain_mut(|(id, since)| {
            if start < *since {
                return true;
            }
            let Some(viewer) = self.viewers.get_mut(*id) else { return false };
            if !is_newest && needs_no_key_frame(viewer, track, rendition) {
                // It has got this key frame already, or some of it.
                at_border.push(*id);
                return false;
            }
            if has_begun(viewer, track, rendition, start, is_newest) {
                // It has got the lower layers of it.
                *since = start + 1;
                is_too_late = true;
                return true;
            }
            switch(now, viewer, track, rendition, start, is_newest);
            if !is_newest {
                behind.push(*id);
            }
            false
        });
        if let Some(output) = track.rendition_mut(rendition) {
            output.waiting = waiting;
            output.at_border.append(&mut at_border);
        }
        if is_too_late {
            track.want_key_frame_of(now, rendition);
        }
        for id in behind {
            self.queue_viewer(id);
        }
    }

    /// Changes viewers over that get another part of the same encoding, at the frame that begins
    /// with this packet.
    #[cold]
    fn switch_at_border(&mut self, now: Instant, index: TrackIndex, rendition: RenditionId, start: u64) {
        let Some(track) = self.tracks.get_mut(index) else { return };
        let Some(output) = track.rendition_mut(rendition) else { return };
        let mut waiting = std::mem::take(&mut output.at_border);
        let (mut for_key_frame, mut again) = (Vec::new(), Vec::new());
        waiting.retain(|id| {
            let Some(viewer) = self.viewers.get_mut(*id) else { return false };
            if !needs_no_key_frame(viewer, track, rendition) {
                for_key_frame.push((*id, start + 1));
                return false;
            }
            // To more not before it has caught up.
            let is_live = viewer.tracks[index].until == NEVER;
            let may_go = (is_live || is_less(viewer, track, rendition))
                && may_switch_at(viewer, track, rendition, start);
            if may_go {
                switch(now, viewer, track, rendition, start, true);
                again.push(*id);
            }
            !may_go
        });
        if !for_key_frame.is_empty() {
            track.want_key_frame_of(now, rendition);
        }
        if let Some(output) = track.rendition_mut(rendition) {
            output.at_border = waiting;
            output.waiting.append(&mut for_key_frame);
        }
        // It may have been a step on the way.
        for id in again {
            let Some(track) = self.tracks.get_mut(index) else { return };
            if let Some(viewer) = self.viewers.get_mut(id)
                && let Some(at) = viewer.cold.tracks.iter().position(|cold| cold.track == index)
            {
                retarget(now, id, viewer, at, track);
            }
        }
    }

    /// Gives viewers another rendition whose target has fallen silent, and those theirs whose target has
    /// come back.
    #[cold]
    pub(crate) fn review_targets(&mut self, now: Instant, index: TrackIndex) {
        let Some(track) = self.tracks.get_mut(index) else { return };
        if track.review_at.is_some_and(|at| now < at) {
            return;
        }
        track.review_at = Some(now + REVIEW_INTERVAL);
        let layers = track.layers_now(now);
        if track.layers_seen.replace(layers) == Some(layers) {
            return;
        }
        let mut changed = Vec::new();
        for (id, viewer) in self.viewers.iter_mut_with_ids() {
            let of_track = |cold: &ColdTrack| cold.track == index && cold.layers.is_some();
            if let Some(at) = viewer.cold.tracks.iter().position(of_track)
                && retarget(now, id, viewer, at, track)
            {
                changed.push(id);
            }
        }
        for id in changed {
            self.queue_viewer(id);
        }
    }

    /// A viewer leaves.
    pub(crate) fn forget_layers(&mut self, id: ViewerId, cold: &ColdTrack) {
        let Some(layers) = &cold.layers else { return };
        let Some(track) = self.tracks.get_mut(cold.track) else { return };
        track.layered -= 1;
        if let Some(target) = track.rendition_mut(layers.target) {
            target.forget(id);
        }
        track.release(layers.current);
        track.release(layers.target);
    }
}

/// Finds the rendition for what a viewer wants, and has the viewer wait for it. `true` if it has
/// got it already, since it has not been sent anything: it may begin with what is cached.
fn retarget(now: Instant, id: ViewerId, viewer: &mut Viewer, at: usize, track: &mut Track) -> bool {
    let cold = &mut viewer.cold.tracks[at];
    let Some(layers) = &mut cold.layers else { return false };
    let target = track.step_to(layers.current, track.resolve(now, layers.wanted));
    let (before, rendition) = (layers.target, RenditionId::of(target));
    if rendition == before {
        return false;
    }
    track.hold(now, target);
    if let Some(before) = track.rendition_mut(before) {
        before.forget(id);
    }
    track.release(before);
    layers.target = rendition;
    if rendition == layers.current {
        return false;
    }
    let hot = &mut viewer.tracks[track.index];
    if cold.state == Progress::Waiting && hot.packets == 0 {
        track.hold(now, target);
        track.release(layers.current);
        (layers.current, hot.plain) = (rendition, rendition);
        return true;
    }
    let needs_none = needs_no_key_frame(viewer, track, rendition);
    if let Some(output) = track.rendition_mut(rendition) {
        match needs_none {
            true => output.at_border.push(id),
            false => output.waiting.push((id, output.cache.end())),
        }
    }
    if !needs_none {
        // Who changes to and fro does not take the key frames of all others.
        let asked_at = &mut viewer.cold.key_frame_asked_at;
        if asked_at.is_some_and(|at| now.saturating_duration_since(at) < VIEWER_REQUEST_INTERVAL) {
            track.want_key_frame_for_slow_viewer(now, rendition);
        } else {
            *asked_at = Some(now);
            track.want_key_frame_of(now, rendition);
        }
    }
    false
}

/// Whether a viewer can change to this rendition without a key frame: what it gets is of the same
/// encoding, and of no lower spatial layers; or, where these do without each other, of the same.
fn needs_no_key_frame(viewer: &Viewer, track: &Track, rendition: RenditionId) -> bool {
    let cold = viewer.cold.tracks.iter().find(|cold| cold.track == track.index);
    let current = cold.and_then(|cold| track.rendition(cold.rendition()));
    current.zip(track.rendition(rendition)).is_some_and(|(current, other)| {
        current.is_of_source(other)
            && match track.parts_of(current, other) {
                Some((known, of_current, of_other)) => known.is_reachable(of_current, of_other),
                // Its structure is not known yet.
                None if track.awaits_structure(other) => false,
                None => other.layer.spatial <= current.layer.spatial,
            }
    })
}

/// Whether a viewer has been sent something, of the same encoding, that belongs behind this packet of
/// another rendition, or is this packet.
fn has_begun(viewer: &Viewer, track: &Track, rendition: RenditionId, start: u64, is_newest: bool) -> bool {
    let cold = viewer.cold.tracks.iter().find(|cold| cold.track == track.index);
    let current = cold.and_then(|cold| track.rendition(cold.rendition()));
    let Some((current, other)) = current.zip(track.rendition(rendition)) else { return false };
    let is_ahead = || other.cache.get(start).is_some_and(|first| current.is_ahead_of(other, first));
    current.is_of_source(other) && (!is_newest || is_ahead())
}

/// Whether this rendition leaves out more of the encoding than what the viewer gets.
fn is_less(viewer: &Viewer, track: &Track, rendition: RenditionId) -> bool {
    let cold = viewer.cold.tracks.iter().find(|cold| cold.track == track.index);
    let current = cold.and_then(|cold| track.rendition(cold.rendition()));
    current.zip(track.rendition(rendition)).is_some_and(|(current, other)| {
        match track.parts_of(current, other) {
            Some((known, of_current, of_other)) => known.contains(of_current, of_other),
            None => {
                other.layer.temporal < current.layer.temporal && other.layer.spatial <= current.layer.spatial
            }
        }
    })
}

/// Whether a decoder that has what the viewer gets can go on with this packet of another rendition
/// of the same encoding, which begins a frame: always, if that has no more temporal layers.
fn may_switch_at(viewer: &Viewer, track: &Track, rendition: RenditionId, number: u64) -> bool {
    let cold = viewer.cold.tracks.iter().find(|cold| cold.track == track.index);
    let Some(current) = cold.and_then(|cold| track.rendition(cold.rendition())) else { return false };
    let Some(other) = track.rendition(rendition) else { return false };
    let Some(first) = other.cache.get(number) else { return false };
    if current.is_ahead_of(other, first) {
        return false;
    }
    if let Some((known, of_current, of_other)) = track.parts_of(current, other) {
        let layers = cold.and_then(|cold| cold.layers.as_ref());
        let frame = known.frame_of(first.packet.extensions()).filter(|frame| frame.head.starts_frame);
        let (Some(layers), Some(frame)) = (layers, frame) else { return false };
        return known.may_change(&layers.had, of_current, of_other, &frame);
    }
    if other.layer.temporal <= current.layer.temporal {
        return true;
    }
    let encoding = other.source().and_then(|source| track.encodings.get(usize::from(source.layer)));
    let highest = encoding.map_or(0, |encoding| encoding.highest_layers().1);
    let layers = rtp::payload::layers(first.packet.codec(), first.packet.media());
    layers.temporal_reach(current.layer.temporal) >= other.layer.temporal.min(highest)
}

/// Changes a viewer over to the rendition whose packet `start` a decoder can go on with.
/// `is_newest`: none but that has to be sent to it, and that comes live.
fn switch(
    now: Instant,
    viewer: &mut Viewer,
    track: &mut Track,
    rendition: RenditionId,
    start: u64,
    is_newest: bool,
) {
    let (token, share) = (viewer.token(), viewer.cold.share.current());
    let Some(cold) = viewer.cold.tracks.iter_mut().find(|cold| cold.track == track.index) else { return };
    let Some(layers) = &mut cold.layers else { return };
    let hot = &mut viewer.tracks[track.index];
    let (Some(old), Some(new)) = (track.rendition(layers.current), track.rendition(rendition)) else {
        return;
    };
    let Some(first) = new.cache.get(start) else { return };

    // Where what it gets ends. What is on its way to it live stands before that, unless it is this
    // packet.
    let end = old.cache.end();
    let is_shared = is_newest && old.has_newest_of(new);
    let until = if hot.until == NEVER { end - u64::from(is_shared) } else { hot.until };
    let next = hot.sequence_number(until);
    let clock_rate = first.packet.clock_rate();
    let timestamp = following_timestamp(old, new, first.timestamp, first.packet.arrival(), clock_rate)
        .map_or(first.timestamp, |timestamp| timestamp.wrapping_add(hot.timestamp_shift));
    trace!(viewer = token, from = ?old.layer, to = ?new.layer, next, timestamp, "a viewer changes layers");
    if is_newest {
        forget_repeats(&mut viewer.cold.repeats, &mut viewer.cold.stats);
    }
    if hot.from < until {
        if layers.previous.len() >= SEGMENTS_MAX {
            layers.previous.pop_front();
        }
        let before = ViewerTrack { until, ..*hot };
        layers.previous.push_back(Segment { rendition: layers.current, track: before });
    }
    // With a share of the video, packets are chosen where they come from the cache.
    let is_live = is_newest && share == Share::All;
    (hot.from, hot.until) = (start, if is_live { NEVER } else { start });
    cold.state = if is_live { Progress::Live } else { Progress::CatchingUp };
    (hot.catch_up_until, hot.catch_up_timestamp) = (0, 0);
    hot.sequence_shift = next.wrapping_sub(start as u16);
    hot.timestamp_shift = timestamp.wrapping_sub(first.timestamp);
    if let Some(last) = old.cache.last_before(until) {
        hot.pictures = hot.pictures.following(last, &first.packet, old.is_of_source(new));
    }
    let first_frame = dependencies::frame_begun(&first.packet);
    let parts = if old.is_of_source(new) { track.parts_of(old, new) } else { None };
    if let (Some((known, before, part)), Some(first_frame)) = (parts, first_frame) {
        layers.had.changed(first_frame, before, part);
        // Packets of an output that leaves out layers say themselves what is active.
        let was_told = old.is_limited() || hot.pictures.all_active.is_some();
        let is_told = was_told && !new.is_limited();
        hot.pictures.all_active = known.all_active().filter(|_| is_told);
    } else {
        layers.had.clear();
    }
    let is_plain = hot.timestamp_shift == 0 && hot.pictures == PictureShift::NONE;
    hot.plain = if is_plain { rendition } else { RenditionId::NONE };
    let before = std::mem::replace(&mut layers.current, rendition);
    let (from, layer) = (old.layer, new.layer);
    let stats = &mut viewer.cold.stats;
    match track.rank(layer).cmp(&track.rank(from)) {
        Ordering::Greater => stats.switches_up += 1,
        Ordering::Less => stats.switches_down += 1,
        Ordering::Equal => {}
    }
    track.hold(now, layer);
    track.release(before);
}

/// The timestamp, as one of `old`, of a packet of `new` that arrived at `arrival`: the same if both
/// have the same source; else by capture time if sender reports tell it, and it is near the one by
/// the time that passed, and later than all before. `None` if there was nothing before.
fn following_timestamp(
    old: &Rendition,
    new: &Rendition,
    timestamp: u32,
    arrival: Instant,
    clock_rate: u32,
) -> Option<u32> {
    if old.is_of_source(new) {
        let shift = old.source_shift()?.wrapping_sub(new.source_shift()?);
        return Some(timestamp.wrapping_add(shift));
    }
    let (newest, newest_arrival) = old.rewriter.newest()?;
    let later = newest.wrapping_add(1);
    let passed =
        newest.wrapping_add(rtp_units(arrival.saturating_duration_since(newest_arrival), clock_rate));
    let aligned = old.mapping.zip(new.mapping).map(|(from, to)| {
        from.timestamp_at(to.at, clock_rate).wrapping_add(timestamp.wrapping_sub(to.timestamp))
    });
    let tolerance = rtp_units(ALIGNMENT_MAX, clock_rate);
    let near = |aligned: &u32| aligned.wrapping_sub(passed).cast_signed().unsigned_abs() <= tolerance;
    let chosen = aligned.filter(near).unwrap_or(passed);
    Some(if rtp::sequence::is_newer_timestamp(chosen, newest) { chosen } else { later })
}

impl Track {
    /// The encoding of an output, if it has descriptors.
    fn dependencies_of(&self, output: &Rendition) -> Option<&Dependencies> {
        let at = output.source()?.layer;
        self.encodings.get(usize::from(at))?.dependencies.as_deref()
    }

    /// Whether what an output leaves out is not known yet.
    fn awaits_structure(&self, output: &Rendition) -> bool {
        output.is_limited() && self.dependencies_of(output).is_some_and(|known| !known.is_known())
    }

    /// What two outputs have of one encoding, if it has decode targets to choose from.
    fn parts_of(&self, one: &Rendition, other: &Rendition) -> Option<(&Dependencies, Part, Part)> {
        let known = self.dependencies_of(other).filter(|known| known.has_choice())?;
        Some((known, known.part_of(one.layer)?, known.part_of(other.layer)?))
    }

    /// Whether this packet, the newest of an output, begins a frame: pictures of several spatial layers have
    /// as many.
    fn begins_layer_frame(&self, output: &Rendition, number: u64) -> bool {
        let is_newest = number + 1 == output.cache.end();
        is_newest
            && self.dependencies_of(output).is_some_and(Dependencies::has_choice)
            && output
                .cache
                .get(number)
                .is_some_and(|first| dependencies::frame_begun(&first.packet).is_some())
    }

    /// By which layers are compared: more for what takes more.
    fn rank(&self, layer: Layer) -> (usize, u8, u8) {
        let encoding = layer.encoding.or(self.main.rewriter.encoding().map(|main| main.layer));
        let order = layers::ascending(&self.encodings);
        let at = order.iter().position(|at| Some(*at) == encoding);
        (at.unwrap_or_default(), layer.spatial, layer.temporal)
    }

    /// What is given to a viewer that wants this.
    fn resolve(&self, now: Instant, wanted: Layer) -> Layer {
        let Some(encoding) = wanted.encoding.filter(|at| usize::from(*at) < self.encodings.len()) else {
            let least = layers::ascending(&self.encodings).first().copied();
            // An encoding that this publisher does not have.
            return match least.filter(|_| wanted.encoding.is_some() && self.encodings.len() > 1) {
                Some(least) => self.resolve(now, Layer::of(least)),
                None => Layer::BEST,
            };
        };
        let alive = self.alive_mask(now);
        let is_live = |at: &u8| alive & 1 << at != 0;
        let given = if is_live(&encoding) {
            self.canonical(wanted)
        } else {
            match layers::fallback(&self.encodings, encoding, is_live) {
                Some(other) => Layer::of(other),
                None => self.canonical(wanted),
            }
        };
        // The only encoding is the best.
        let is_all = self.encodings.len() == 1 && (given.spatial, given.temporal) == (Layer::ALL, Layer::ALL);
        let is_full = self.renditions.len() >= RENDITIONS_MAX
            && self.renditions.iter().all(|rendition| rendition.layer != given);
        if is_all || is_full { Layer::BEST } else { given }
    }

    /// The same layer without limits that leave out nothing, as far as is known.
    fn canonical(&self, layer: Layer) -> Layer {
        let encoding = layer.encoding.and_then(|at| self.encodings.get(usize::from(at)));
        let (spatial, temporal) = encoding.map_or((0, 0), Encoding::highest_layers);
        let is_nested = |encoding: &Encoding| encoding.dependencies.as_ref().is_none_or(|it| it.is_nested());
        if (layer.spatial, layer.temporal) != (Layer::ALL, Layer::ALL) && !encoding.is_none_or(is_nested) {
            // The highest layers are not all there is.
            return Layer {
                spatial: layer.spatial.min(spatial),
                temporal: layer.temporal.min(temporal),
                ..layer
            };
        }
        let limit = |wanted: u8, highest: u8| if wanted < highest { wanted } else { Layer::ALL };
        Layer { spatial: limit(layer.spatial, spatial), temporal: limit(layer.temporal, temporal), ..layer }
    }

    /// What a viewer changes to next on its way to a layer: within an encoding it goes up by one
    /// temporal layer at a time, as decoders can.
    fn step_to(&self, current: RenditionId, target: Layer) -> Layer {
        let Some(current) = self.rendition(current).map(|rendition| rendition.layer) else { return target };
        let next = current.temporal.saturating_add(1);
        let encoding = target.encoding.or_else(|| self.main.source().map(|source| source.layer));
        let of_encoding = encoding.and_then(|at| self.encodings.get(usize::from(at)));
        let has_targets =
            |encoding: &Encoding| encoding.dependencies.as_ref().is_some_and(|it| it.has_choice());
        // Descriptors say where it can go up by more.
        let is_on_the_way = !of_encoding.is_some_and(has_targets)
            && current.encoding.is_some()
            && current.encoding == encoding
            && current.spatial >= target.spatial
            && target.temporal > next;
        if !is_on_the_way {
            return target;
        }
        let step = self.canonical(Layer { encoding, temporal: next, ..target });
        // The last step is to the target, which may be the main output.
        if step.temporal == Layer::ALL { target } else { step }
    }

    /// What there is to choose from, in a number that changes with it.
    fn layers_now(&self, now: Instant) -> u64 {
        let layers = self.encodings.iter().map(Encoding::highest_layers);
        layers.fold(u64::from(self.alive_mask(now)), |choice, (spatial, temporal)| {
            choice << 4 | u64::from(spatial) << 2 | u64::from(temporal)
        })
    }

    /// Which encodings are alive. When a publisher begins, those that have not yet sent anything
    /// are taken for alive as well for as long as others may be silent.
    fn alive_mask(&self, now: Instant) -> u8 {
        let began = self.encodings.iter().filter_map(|encoding| encoding.first_arrival).min();
        let is_young = began.is_none_or(|began| now < began + SILENT_AFTER);
        let is_live =
            |encoding: &Encoding| encoding.is_live(now) || is_young && encoding.first_arrival.is_none();
        let live = self.encodings.iter().enumerate().filter(|(_, encoding)| is_live(encoding));
        live.fold(0, |mask, (at, _)| mask | 1 << at)
    }

    /// One more viewer gets a layer, or is to get it, or mirrors are.
    pub(crate) fn hold(&mut self, now: Instant, layer: Layer) {
        let id = RenditionId::of(layer);
        if self.rendition(id).is_none() {
            self.renditions_made += 1;
            let encoding = layer.encoding.and_then(|at| self.encodings.get(usize::from(at)));
            // One that does not come from another node begins with a key frame.
            let comes = |at: u8| self.relayed.as_ref().is_none_or(|relayed| relayed.arriving().has(at));
            let encoding = encoding.filter(|encoding| encoding.is_live(now));
            let running = encoding.zip(layer.encoding.filter(|at| comes(*at))).map(|(encoding, layer)| {
                (EncodingId { epoch: self.epoch, layer, generation: encoding.generation }, encoding)
            });
            let next = running.and_then(|(id, encoding)| Some((id, encoding.reception.highest()? + 1)));
            // A rendition that comes and goes never has the same number for two packets.
            let base = self.renditions_made << NUMBERS_BITS;
            let mut rendition = Rendition::new(layer, base, next);
            rendition.awaited = running.map(|(id, _)| id).filter(|_| next.is_none());
            self.renditions.push(rendition);
        }
        if let Some(rendition) = self.rendition_mut(id) {
            (rendition.users, rendition.idle_since) = (rendition.users + 1, None);
        }
    }

    /// One fewer does.
    pub(crate) fn release(&mut self, id: RenditionId) {
        if let Some(rendition) = self.rendition_mut(id) {
            rendition.users = rendition.users.saturating_sub(1);
        }
    }

    /// Drops renditions that nobody gets, once nothing of them can be asked for again.
    #[cold]
    pub(crate) fn expire_renditions(&mut self, now: Instant, history: Duration) {
        for rendition in &mut self.renditions {
            rendition.early.expire(now);
            if rendition.users == 0 {
                rendition.idle_since.get_or_insert(now);
            }
        }
        let before = self.renditions.len();
        self.renditions.retain(|rendition| !rendition.is_over(now, history));
        if self.renditions.len() < before {
            // There may be room for one that had none.
            self.layers_seen = None;
        }
    }
}

/// How often it is checked which encodings are alive.
const REVIEW_INTERVAL: Duration = Duration::from_millis(100);
/// Outputs of a track besides the main one. A target beyond gets that. Those that only mirrors need come on
/// top: no more than a publisher has layers.
const RENDITIONS_MAX: usize = 16;
/// Stretches of what a viewer got before that are remembered. With requests for key frames twice a
/// second it is sent all of them again for as long as a packet is kept.
pub(crate) const SEGMENTS_MAX: usize = 4;
/// Numbers of one rendition: those of 34 years at 1,000 packets a second.
const NUMBERS_BITS: u32 = 40;
/// A capture time that is further than this from the time of arrival is not believed.
const ALIGNMENT_MAX: Duration = Duration::from_millis(500);
