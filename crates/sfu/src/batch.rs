//! The packets of one batch, their headers, and which viewers have got them.
//!
//! What arrived together leaves together: for each viewer all of its packets in a row, so that the
//! sender can make runs of equal datagrams. Audio and video have a batch each. A batch may stay open
//! while the caller does something else, so that a key frame to thousands of viewers holds up nothing;
//! what arrives meanwhile is for the next batch. A viewer whose socket has no room is put off, and is
//! asked for again before the next batch; the others do not wait for it.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use rtp::payload::MediaKind;
use tracing::trace;

use super::header_profile::{HeaderProfiles, HeaderTemplate, ProfileId, ViewerFields};
use super::mirrored::Outputs;
use super::packet::Packet;
use super::rendition::RenditionId;
use super::stream::PacketStream;
use super::track::TrackIndex;
use super::viewer::Viewer;
use super::viewers::{ViewerId, Viewers};

/// A packet that goes to the viewers in this batch.
#[derive(Debug, Clone)]
pub(crate) struct Forward {
    pub(crate) track: TrackIndex,
    /// Which output of the track it is of, with a number and a timestamp of that.
    pub(crate) rendition: RenditionId,
    pub(crate) number: u64,
    pub(crate) timestamp: u32,
    /// Later numbers were there before it.
    pub(crate) is_late: bool,
    /// What other workers get of it; `None` if that is another output's.
    pub(crate) outputs: Option<Outputs>,
    pub(crate) packet: Arc<Packet>,
}

impl Forward {
    /// Whether two packets are of the same frame of the same output.
    fn is_of_frame(&self, other: &Self) -> bool {
        (self.track, self.rendition, self.timestamp) == (other.track, other.rendition, other.timestamp)
    }
}

/// A batch ready to be sent. **Ask [`Viewer::header_for`] for every packet of each viewer that
/// [`Batch::next_viewer`] returns; after the last one, finish the batch.** In between anything may
/// happen to the stream: [`PacketStream::prepare_batch`] returns the same batch, which goes on with the
/// viewer behind the last.
#[derive(Debug)]
pub struct Batch<'a> {
    /// The packets of the open batch, with headers made.
    packets: BatchPackets<'a>,
    /// The packets for a viewer that was put off.
    older: BatchPackets<'a>,
    /// The packets of batches that viewers were put off for, and of the open one.
    all: &'a [Forward],
    put_off: &'a mut VecDeque<PutOff>,
    /// Which of them is asked for again next, and how many of its viewers have not been.
    retry: (usize, usize),
    /// How many of them are.
    retries: usize,
    /// The slot that was given last, and which batch, unless it was the open one.
    last: (usize, Option<usize>),
    viewers: &'a mut Viewers,
    backlog: &'a mut VecDeque<ViewerId>,
    waiting_for_key_frame: &'a mut Vec<ViewerId>,
    walk: &'a mut Walk,
}

impl<'a> Batch<'a> {
    /// The next viewer, and the packets to send to it: first those who were put off, each with the batch
    /// that it was put off for. `None` when all have had their turn.
    #[inline]
    pub fn next_viewer(&mut self) -> Option<(&mut Viewer, &BatchPackets<'a>)> {
        if self.retry.0 < self.retries
            && let Some(slot) = self.next_retry()
        {
            return Some((self.viewers.at_slot(slot)?, &self.older));
        }
        if self.packets.is_empty() {
            return None;
        }
        let slot = self.walk.next(self.viewers)?;
        self.last = (slot, None);
        Some((self.viewers.at_slot(slot)?, &self.packets))
    }

    /// The slot of the next viewer that was put off before this batch was prepared.
    #[cold]
    fn next_retry(&mut self) -> Option<usize> {
        let (at, left) = &mut self.retry;
        while *at < self.retries {
            while *left > 0 {
                *left -= 1;
                let PutOff { from, packets, since, ref mut slots } = self.put_off[*at];
                let slot = slots.pop_front()?;
                if self.viewers.is_occupied(slot) {
                    self.last = (slot, Some(*at));
                    (self.older.forwards, self.older.since) = (&self.all[from..from + packets], since);
                    return Some(slot);
                }
            }
            *at += 1;
            *left = self.put_off.get(*at).map_or(0, |next| next.slots.len());
        }
        None
    }

    /// The path of the viewer that was given last has no room for its batch from packet `index` on.
    /// What of it the viewer does not get now, [`Viewer::header_for`] refuses from here on.
    pub fn fall_behind(&mut self, index: usize) {
        let (slot, retried) = self.last;
        let packets = if retried.is_some() { &self.older } else { &self.packets };
        let Some(id) = self.viewers.id_of(slot) else { return };
        let Some(viewer) = self.viewers.at_slot(slot) else { return };
        if viewer.fall_behind(packets, index) {
            viewer.queue(id, self.backlog, self.waiting_for_key_frame);
        }
    }

    /// The viewer that was given last has not been sent anything: its turn comes again when the batch, or the
    /// next, is prepared.
    pub fn put_off(&mut self) {
        let (slot, retried) = self.last;
        let from = self.all.len() - self.packets.len();
        let at = retried.or_else(|| self.put_off.iter().rposition(|put_off| put_off.from == from));
        match at {
            Some(at) => self.put_off[at].slots.push_back(slot),
            None => {
                let (packets, since, slots) = (self.packets.len(), self.packets.since, [slot].into());
                self.put_off.push_back(PutOff { from, packets, since, slots });
            }
        }
    }
}

/// A batch that viewers were put off for.
#[derive(Debug)]
struct PutOff {
    /// Where it begins in the queue.
    from: usize,
    packets: usize,
    /// When the first of them came.
    since: Option<Instant>,
    /// Slots of the viewers.
    slots: VecDeque<usize>,
}

/// The packets of a batch.
#[derive(Debug, Clone, Copy)]
pub struct BatchPackets<'a> {
    pub(crate) forwards: &'a [Forward],
    pub(crate) templates: &'a [HeaderTemplate],
    pub(crate) profiles: &'a HeaderProfiles,
    /// How many of them some viewer has no payload type for.
    unsupported: &'a Cell<u64>,
    /// When the first of them came.
    since: Option<Instant>,
}

impl<'a> BatchPackets<'a> {
    /// The header of packet `index` for viewers of a profile. `None` if there is no template: the
    /// header has to be written.
    #[inline]
    pub(crate) fn template(&self, index: usize, profile: ProfileId) -> Option<&'a HeaderTemplate> {
        let (slot, width) = (self.profiles.slot(profile), self.profiles.templates());
        if slot < width { self.templates.get(index * width + slot) } else { None }
    }

    /// Notes that packet `index` does not go to a viewer because that does not take its codec.
    #[cold]
    pub(crate) fn note_unsupported(&self, index: usize, viewer: u64) {
        let codec = self.forwards.get(index).map(|forward| forward.packet.codec());
        trace!(viewer, ?codec, "dropped a packet: the viewer does not take its codec");
        self.unsupported.set(self.unsupported.get() + 1);
    }

    /// Whether packet `index` came later than others behind it: a viewer that has fallen behind has
    /// passed it.
    pub fn is_late(&self, index: usize) -> bool {
        self.forwards.get(index).is_some_and(|forward| forward.is_late)
    }

    /// Number of packets.
    pub fn len(&self) -> usize {
        self.forwards.len()
    }

    /// Since when the first of them has been here.
    pub fn since(&self) -> Option<Instant> {
        self.since
    }

    /// Whether there are no packets.
    pub fn is_empty(&self) -> bool {
        self.forwards.is_empty()
    }

    /// What follows the header of a packet for viewers of a profile, who take its codec.
    #[inline]
    pub(crate) fn payload(&self, forward: &'a Forward, profile: ProfileId) -> &'a [u8] {
        if forward.packet.red().is_none() {
            return forward.packet.payload();
        }
        let sent = self.profiles.get(profile).and_then(|profile| profile.sent(&forward.packet));
        sent.map_or(&[], |(_, payload)| payload)
    }
}

/// Which viewers have had their turn: those in the first `passed` slots from `start` on, around the end.
#[derive(Debug, Clone, Copy, Default)]
struct Walk {
    start: usize,
    passed: usize,
    /// Slots when the walk began.
    slots: usize,
}

impl Walk {
    /// Viewers take turns at being first. The start moves on by one: a viewer's packets come a little
    /// earlier each time, until it is the last. If it moved further, that would be jitter to everybody.
    fn begin(&mut self, slots: usize) {
        let start = if self.start + 1 < slots { self.start + 1 } else { 0 };
        *self = Self { start, passed: 0, slots };
    }

    fn slot(&self, at: usize) -> usize {
        let slot = self.start + at;
        if slot < self.slots { slot } else { slot - self.slots }
    }

    /// The next slot with a viewer.
    #[inline]
    fn next(&mut self, viewers: &Viewers) -> Option<usize> {
        let next = (self.passed..self.slots).find(|at| viewers.is_occupied(self.slot(*at)));
        self.passed = next.map_or(self.slots, |at| at + 1);
        next.map(|at| self.slot(at))
    }

    /// Whether the viewer in this slot has had its turn, or there is none for it since it came later.
    fn has_passed(&self, slot: usize) -> bool {
        let at = if slot < self.start { slot + self.slots - self.start } else { slot - self.start };
        slot >= self.slots || at < self.passed
    }
}

/// What viewers are still to be sent live.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    /// Packets that [`PacketStream::take_arrivals`] has not taken, of all tracks.
    arrivals: Vec<Forward>,
    /// When the first of them came. Packets of another worker's cache arrived there long before.
    arrivals_since: Option<Instant>,
    audio: Queue,
    video: Queue,
}

/// Audio or video: batches that viewers were put off for, the open batch, and the packets of the next one,
/// in this order. Memory is used again.
#[derive(Debug, Default)]
struct Queue {
    forwards: Vec<Forward>,
    /// Batches that viewers were put off for, the last of which may be the open one.
    put_off: VecDeque<PutOff>,
    /// How many packets there are before those of the open batch.
    owed: usize,
    /// How many are in the open batch; 0 if none is open.
    open: usize,
    /// When the first packet of the open batch came, and the first of the others.
    since: [Option<Instant>; 2],
    /// One for each packet of the open batch and profile that has templates, as far as there is room.
    templates: Vec<HeaderTemplate>,
    /// Which templates profiles had when these were made.
    templates_version: Option<u64>,
    /// Packets that did not go to a viewer because that does not take their codec, counted by the batch.
    unsupported: Cell<u64>,
    walk: Walk,
}

impl Batches {
    fn of(&self, kind: MediaKind) -> &Queue {
        if kind == MediaKind::Audio { &self.audio } else { &self.video }
    }

    fn of_mut(&mut self, kind: MediaKind) -> &mut Queue {
        if kind == MediaKind::Audio { &mut self.audio } else { &mut self.video }
    }

    /// The packets of a track that the viewer in this slot will get live, in an open batch or the next:
    /// no other way of sending may include them.
    pub(crate) fn pending(&self, slot: usize, track: TrackIndex, rendition: RenditionId) -> Pending<'_> {
        let queue = self.of(track.kind());
        let passed = if queue.walk.has_passed(slot) { queue.open } else { 0 };
        let put_off = queue.put_off.iter().find(|put_off| put_off.slots.contains(&slot));
        let had = put_off.map_or(queue.owed + passed, |put_off| put_off.from);
        let parts = [&queue.forwards[had..], &self.arrivals];
        let pending =
            Pending { parts, track, rendition, first: u64::MAX, last: 0, count: 0, found: Cell::new(0) };
        let bounds = |(first, last, count): (u64, u64, u64), number: u64| {
            (first.min(number), last.max(number), count + 1)
        };
        let (first, last, count) = pending.numbers().fold((u64::MAX, 0, 0), bounds);
        Pending { first, last, count, ..pending }
    }
}

/// Packets of one output of a track that a viewer will get live.
#[derive(Debug)]
pub(crate) struct Pending<'a> {
    parts: [&'a [Forward]; 2],
    track: TrackIndex,
    rendition: RenditionId,
    /// The lowest number.
    first: u64,
    /// The highest.
    last: u64,
    count: u64,
    /// Where the last one that was looked for stands.
    found: Cell<usize>,
}

impl Pending<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn numbers(&self) -> impl Iterator<Item = u64> {
        let all = self.parts.into_iter().flatten();
        let of_track =
            all.filter(|forward| forward.track == self.track && forward.rendition == self.rendition);
        of_track.map(|forward| forward.number)
    }

    /// Whether this number is one of them. They are among the newest, so that most are not.
    pub(crate) fn contains(&self, number: u64) -> bool {
        let is_between = self.first <= number && number <= self.last;
        // All between are there, unless some are missing.
        is_between && (self.last - self.first + 1 == self.count || self.find(number))
    }

    /// Looks for a number, first behind the one that was found last: with many that wait, and many viewers
    /// that join, it would take long to look for each of a row from the beginning.
    fn find(&self, number: u64) -> bool {
        let [first, second] = self.parts;
        let len = first.len() + second.len();
        let is_it = |at: &usize| {
            let forward = first.get(*at).unwrap_or_else(|| &second[*at - first.len()]);
            forward.track == self.track && forward.rendition == self.rendition && forward.number == number
        };
        let found = (self.found.get()..len).chain(0..self.found.get()).find(is_it);
        self.found.set(found.unwrap_or(self.found.get()));
        found.is_some()
    }

    /// Whether one of them has a lower number.
    pub(crate) fn has_before(&self, number: u64) -> bool {
        self.first < number
    }
}

impl PacketStream {
    /// Adds a packet to what will be sent.
    pub(crate) fn add_to_batch(&mut self, now: Instant, forward: Forward) {
        // A key frame is what waiting viewers begin with; and the first packet of a track shows
        // that there is a publisher that can be asked for one.
        let output = self.tracks.get(forward.track).and_then(|track| track.rendition(forward.rendition));
        if forward.packet.is_key_frame() {
            self.first_key_frame.get_or_insert(now);
        }
        if forward.packet.is_key_frame()
            || output.is_some_and(|output| output.cache.first() == forward.number)
        {
            self.queue_waiting();
        }
        let Batches { arrivals, arrivals_since, .. } = &mut self.batches;
        if arrivals.len() >= BATCH_PACKETS_MAX {
            trace!(packets = arrivals.len(), "dropped packets that nobody took");
            self.stats.unsent_packets += arrivals.len() as u64;
            arrivals.clear();
        }
        if arrivals.is_empty() {
            *arrivals_since = Some(now);
        }
        arrivals.push(forward);
    }

    /// Whether packets wait for [`PacketStream::take_arrivals`].
    pub fn has_arrivals(&self) -> bool {
        !self.batches.arrivals.is_empty()
    }

    /// Queues the packets that arrived since the last call for the next batches, and pads those that
    /// [`Limits::equalise_runs`](super::Limits::equalise_runs) wants padded. `take` gets each, in order
    /// of arrival, for other workers and bridges: they need not wait until viewers have been sent it.
    /// Bridges take what is of the main output, other workers what they want
    /// ([`LayersWanted::of`](super::LayersWanted::of)).
    pub fn take_arrivals(&mut self, mut take: impl FnMut(&Arc<Packet>, Outputs)) {
        // Packetisers cut frames into parts that differ by a byte, and only equal datagrams leave in
        // one run: pad packets that are one byte shorter than the longest of their frame.
        let arrivals = &mut self.batches.arrivals;
        for frame in arrivals.chunk_by_mut(Forward::is_of_frame) {
            let track = frame[0].track;
            if frame[0].rendition != RenditionId::MAIN {
                continue;
            }
            if !self.limits.equalise_runs || track.kind() != MediaKind::Video {
                continue;
            }
            let Some(track) = self.tracks.get_mut(track) else { continue };
            let packets = frame.iter().map(|forward| &forward.packet);
            let Some(longest) = packets.max_by_key(|packet| packet.sent_len()).map(Arc::clone) else {
                continue;
            };
            for forward in frame.iter_mut().filter(|one| one.packet.sent_len() + 1 == longest.sent_len()) {
                // Only a sole holder may change a packet, so the batch gives its reference away and
                // holds another packet meanwhile.
                let packet = std::mem::replace(&mut forward.packet, Arc::clone(&longest));
                forward.packet = track.main.cache.pad(forward.number, packet);
            }
        }
        let (mut arrivals, since) = (std::mem::take(arrivals), self.batches.arrivals_since);
        for forward in arrivals.drain(..) {
            if let Some(outputs) = forward.outputs {
                take(&forward.packet, outputs);
            }
            // Viewers that come later have it from the cache.
            if self.viewers.is_empty() {
                continue;
            }
            let queue = self.batches.of_mut(forward.track.kind());
            if queue.forwards.len() >= BATCH_PACKETS_MAX {
                trace!(packets = queue.forwards.len(), "dropped packets: too many wait to be sent");
                self.stats.unsent_packets += queue.forwards.len() as u64;
                (queue.open, queue.owed, queue.templates_version) = (0, 0, None);
                queue.forwards.clear();
                queue.put_off.clear();
            }
            if queue.forwards.len() == queue.owed + queue.open {
                queue.since[1] = since;
            }
            queue.forwards.push(forward);
        }
        arrivals.shrink_to(RETAINED_BYTES / size_of::<Forward>());
        self.batches.arrivals = arrivals;
    }

    /// Audio or video that viewers wait for: since when the first of its packets has been here, and how
    /// many datagrams it takes to send, at most. Of an open batch, that batch alone, and those before it that
    /// viewers were put off for.
    pub fn waiting(&self, kind: MediaKind) -> Option<(Instant, usize)> {
        let queue = self.batches.of(kind);
        let (packets, since) = match queue.open {
            0 => (queue.forwards.len() - queue.owed, queue.since[1]),
            open => (open, queue.since[0]),
        };
        let put_off: usize = queue.put_off.iter().map(|one| one.packets * one.slots.len()).sum();
        let oldest = queue.put_off.iter().find(|one| !one.slots.is_empty());
        let since = oldest.map_or(since.filter(|_| packets > 0), |oldest| oldest.since)?;
        Some((since, packets * self.viewers.len() + put_off))
    }

    /// The open batch of this kind; if there is none, one of the packets that were taken since the last,
    /// whose headers are made now. Finish it with [`PacketStream::finish_batch`].
    pub fn prepare_batch(&mut self, kind: MediaKind) -> Batch<'_> {
        let queue = self.batches.of_mut(kind);
        queue.drop_served();
        if queue.open == 0 && queue.forwards.len() > queue.owed {
            (queue.open, queue.templates_version) = (queue.forwards.len() - queue.owed, None);
            queue.since[0] = queue.since[1];
            queue.walk.begin(self.viewers.slots());
        }
        // Viewers that come and go may change what there are templates for.
        let version = Some(self.profiles.version());
        if std::mem::replace(&mut queue.templates_version, version) != version {
            queue.templates.clear();
            for forward in &queue.forwards[queue.owed..queue.owed + queue.open] {
                if queue.templates.len() + self.profiles.templates() > TEMPLATES_MAX {
                    break;
                }
                // SSRC and sequence number are the viewer's, and written over for each.
                let (sequence_number, timestamp) = (forward.number as u16, forward.timestamp);
                let fields = ViewerFields { sequence_number, timestamp, ..ViewerFields::default() };
                queue.templates.extend(self.profiles.templated().map(|profile| {
                    let mut template = HeaderTemplate::EMPTY;
                    let len = profile
                        .and_then(|profile| profile.header(&forward.packet, fields, &mut template.bytes));
                    template.len = len.unwrap_or(0) as u16;
                    template
                }));
            }
        }
        let all = &queue.forwards[..queue.owed + queue.open];
        let packets = BatchPackets {
            forwards: &all[queue.owed..],
            templates: &queue.templates,
            profiles: &self.profiles,
            unsupported: &queue.unsupported,
            since: queue.since[0],
        };
        let first = queue.put_off.front().map_or(0, |first| first.slots.len());
        Batch {
            packets,
            // There are no templates of these: each header is written.
            older: BatchPackets { forwards: &[], templates: &[], ..packets },
            all,
            retry: (0, first),
            retries: queue.put_off.len(),
            put_off: &mut queue.put_off,
            last: (0, None),
            viewers: &mut self.viewers,
            backlog: &mut self.backlog,
            waiting_for_key_frame: &mut self.waiting_for_key_frame,
            walk: &mut queue.walk,
        }
    }

    /// Gives up what waits and is too late to be of use: the first batch that viewers were put off for, or
    /// the open batch, or what came before `before`, the first packet in any case.
    pub fn drop_late(&mut self, kind: MediaKind, before: Instant) {
        let queue = self.batches.of_mut(kind);
        queue.drop_served();
        let owed = queue.owed;
        if let Some(first) = queue.put_off.front_mut().filter(|first| first.from < owed) {
            trace!(packets = first.packets, "dropped packets: viewers were put off for too long");
            self.stats.unsent_packets += first.packets as u64;
            first.slots.clear();
            return queue.drop_served();
        }
        // What is left are viewers that were put off for the open batch.
        queue.put_off.clear();
        if queue.open == 0 {
            let late = queue.forwards.iter().take_while(|forward| forward.packet.arrival() < before).count();
            queue.open = late.max(1).min(queue.forwards.len());
            queue.since[1] = queue.forwards.get(queue.open).map(|forward| forward.packet.arrival());
        }
        trace!(packets = queue.open, "dropped packets: they waited for too long");
        self.stats.unsent_packets += queue.open as u64;
        self.finish_batch(kind);
    }

    /// Ends the open batch: it has been sent, but to viewers that were put off. Says whether any still are.
    pub fn finish_batch(&mut self, kind: MediaKind) -> bool {
        let queue = self.batches.of_mut(kind);
        self.stats.unsupported_packets += queue.unsupported.take();
        let (owed, open) = (queue.owed, std::mem::take(&mut queue.open));
        if queue.put_off.back().is_some_and(|last| last.from == owed) {
            queue.owed += open;
        } else {
            queue.forwards.drain(owed..owed + open);
        }
        queue.drop_served();
        queue.templates.clear();
        queue.templates_version = None;
        // A burst, or a crowd of viewers, is no reason to keep its memory until the next large
        // batch.
        queue.forwards.shrink_to(RETAINED_BYTES / size_of::<Forward>());
        queue.templates.shrink_to(RETAINED_BYTES / size_of::<HeaderTemplate>());
        !queue.put_off.is_empty()
    }
}

impl Queue {
    /// Drops batches that viewers were put off for and have got since.
    fn drop_served(&mut self) {
        while let Some(first) = self.put_off.front().filter(|first| first.slots.is_empty()) {
            // Of the open batch the packets stay.
            let sent = if first.from < self.owed { first.packets } else { 0 };
            self.put_off.pop_front();
            self.forwards.drain(..sent);
            self.owed -= sent;
            self.put_off.iter_mut().for_each(|one| one.from -= sent);
        }
    }
}

/// Packets that wait, taken or not. More than a receive batch holds; a caller that sends no batches
/// loses them, which [`StreamStats::unsent_packets`](super::StreamStats) counts, and nothing grows.
const BATCH_PACKETS_MAX: usize = 8_192;
/// Templates of one batch, 4 MB: those of 16,384 packets while viewers have one profile, of 512
/// with as many profiles as have templates. Headers of later packets are written for each viewer.
const TEMPLATES_MAX: usize = 16_384;
/// Memory each buffer of a batch keeps for the next.
const RETAINED_BYTES: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use rtp::HeaderFields;
    use rtp::extension::{Extension, ExtensionMap, Form};
    use rtp::payload::Codec;

    use super::super::clock::WallClock;
    use super::super::header_profile::HEADER_LEN_MAX;
    use super::super::inputs::{
        PublisherInput, TrackInput, TrackPayload, ViewerInput, ViewerPayload, ViewerTrackInput,
    };
    use super::super::limits::Limits;
    use super::super::outlet::plain_outlet;
    use super::*;

    const VIEWERS: u64 = 1_000;
    /// With 32 profiles more templates than there is room for.
    const PACKETS: u16 = 520;
    const MID_ID: u8 = 3;

    fn audio() -> TrackInput {
        let format =
            TrackPayload { payload_type: 111, codec: Codec::Opus, clock_rate: 48_000, rtx: None, red: None };
        TrackInput {
            kind: MediaKind::Audio,
            mid: String::new(),
            payloads: vec![format],
            extensions: ExtensionMap::new(),
            ssrcs: vec![(7, None)],
            rids: Vec::new(),
            nack: false,
            pli: false,
            fir: false,
            transport_cc: false,
            remb: false,
        }
    }

    fn viewer(token: u64, mid: &str) -> ViewerInput {
        let track = ViewerTrackInput {
            track: TrackIndex::new(MediaKind::Audio, 0).expect("the first"),
            ssrc: 1_000 + token as u32,
            rtx_ssrc: None,
            mid: mid.to_owned(),
            payloads: vec![ViewerPayload { codec: Codec::Opus, payload_type: 50, rtx: None, red: None }],
            extensions: [(MID_ID, Extension::Mid)].into_iter().collect(),
            form: Form::OneByte,
            fec: None,
            nack: false,
        };
        ViewerInput { token, cname: String::new(), tracks: vec![track] }
    }

    fn receive(stream: &mut PacketStream, now: Instant, sequence_number: u16) {
        let timestamp = u32::from(sequence_number) * 960;
        let fields = HeaderFields { marker: false, payload_type: 111, sequence_number, timestamp, ssrc: 7 };
        let mut packet = [0x78; 20];
        fields.write(&[], &mut packet);
        stream.receive(now, &packet).expect("taken in");
    }

    fn bytes<T>(buffer: &Vec<T>) -> usize {
        buffer.capacity() * size_of::<T>()
    }

    /// A stream whose viewers are live: `mid_of` names their MIDs.
    fn stream(now: Instant, mid_of: impl Fn(u64) -> String) -> PacketStream {
        let mut stream =
            PacketStream::new(Limits::default(), WallClock { at: now, ntp: rtp::rtcp::NtpTime(1) });
        let input = PublisherInput { tracks: vec![audio()], ..PublisherInput::default() };
        stream.publisher_started(now, 1, input);
        for token in 0..VIEWERS {
            stream.join(now, &viewer(token, &mid_of(token))).expect("room");
        }
        receive(&mut stream, now, 0);
        stream.take_arrivals(|_, _| {});
        stream.prepare_batch(MediaKind::Audio);
        stream.finish_batch(MediaKind::Audio);
        stream.send_backlog(now, usize::MAX, &mut plain_outlet(|_, _, _, _| {}));
        stream
    }

    /// Receives a batch and checks each header of each viewer; returns the bytes of templates there
    /// were.
    fn check_turn(
        stream: &mut PacketStream,
        now: Instant,
        mid_of: impl Fn(u64) -> String,
        from: u16,
    ) -> usize {
        (0..PACKETS).for_each(|at| receive(stream, now, from + at));
        stream.take_arrivals(|_, _| {});
        let datagrams = usize::from(PACKETS) * VIEWERS as usize;
        assert_eq!(stream.waiting(MediaKind::Audio), Some((now, datagrams)));
        let templates = {
            let mut batch = stream.prepare_batch(MediaKind::Audio);
            let templates = size_of_val(batch.packets.templates);
            while let Some((viewer, packets)) = batch.next_viewer() {
                let mut last = None;
                for at in 0..packets.len() {
                    let mut header = [0xee; HEADER_LEN_MAX];
                    let len = viewer.header_for(packets, at, None, &mut header).expect("it is live");
                    let packet = rtp::Packet::parse(&header[..len]).expect("a packet");
                    let token = viewer.token();
                    assert_eq!((packet.ssrc(), packet.payload_type()), (1_000 + token as u32, 50));
                    let mid = packet.extensions().map(|(id, data)| (id, data.to_vec())).collect::<Vec<_>>();
                    assert_eq!(mid, [(MID_ID, mid_of(token).into_bytes())]);
                    let number = packet.sequence_number();
                    assert!(last.is_none_or(|last: u16| last.wrapping_add(1) == number));
                    last = Some(number);
                }
            }
            templates
        };
        stream.finish_batch(MediaKind::Audio);
        assert_eq!(stream.waiting(MediaKind::Audio), None);
        templates
    }

    #[test]
    fn what_is_pending_is_found_however_it_came_and_in_whichever_order_it_is_looked_for() {
        #[expect(clippy::disallowed_methods, reason = "a test is where virtual time begins")]
        let now = Instant::now();
        let mut stream = stream(now, |_| "a".to_owned());
        // Some are missing, one comes late, and some have not been taken.
        let came = [1, 2, 4, 5, 9, 8, 10];
        came.into_iter().for_each(|number| receive(&mut stream, now, number));
        stream.take_arrivals(|_, _| {});
        receive(&mut stream, now, 12);
        let track = TrackIndex::new(MediaKind::Audio, 0).expect("the first");
        let pending = stream.batches.pending(0, track, RenditionId::MAIN);
        let all: Vec<u64> = pending.numbers().collect();
        assert_eq!(all.len(), came.len() + 1);
        let first = *all.iter().min().expect("not empty");
        let asked = (0..20).chain((0..20).rev()).chain([7, 3, 11, 0, 5, 5]).map(|at| first - 1 + at);
        for number in asked {
            assert_eq!(pending.contains(number), all.contains(&number), "{number} of {all:?}");
        }
    }

    #[test]
    fn a_thousand_viewers_with_mids_of_their_own_cost_no_more_memory_than_any_and_get_right_headers() {
        #[expect(clippy::disallowed_methods, reason = "a test is where virtual time begins")]
        let now = Instant::now();
        // All different; all but a few hundred different; and all the same.
        let different: [fn(u64) -> String; 3] =
            [|token| token.to_string(), |token| (token % 400).to_string(), |_| "a".to_owned()];
        for (mid_of, templates_max) in different.into_iter().zip([0, TEMPLATES_MAX, usize::from(PACKETS)]) {
            let mut stream = stream(now, mid_of);
            for from in [1, 1 + PACKETS] {
                let templates = check_turn(&mut stream, now, mid_of, from);
                assert!(templates <= templates_max * size_of::<HeaderTemplate>(), "{templates}");
            }
            let Batches { arrivals, audio, .. } = &stream.batches;
            for kept in [bytes(arrivals), bytes(&audio.forwards), bytes(&audio.templates)] {
                assert!(kept <= RETAINED_BYTES, "{kept}");
            }
            let mut viewers = stream.viewers.iter_mut_with_ids();
            assert!(viewers.all(|(_, viewer)| viewer.stats().packets > u64::from(PACKETS)));
        }
    }
}
