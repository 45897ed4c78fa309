//! One track of a stream: its sources (layers), which of them is forwarded, and what was forwarded.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rtp::payload::{MediaKind, PayloadInfo};

use super::clock::{NtpRtpMapping, rtp_units};
use super::history::{History, Kept, NotKept};
use super::inputs::{TrackIndex, TrackInput, TrackPayload};
use super::key_frames;
use super::layers;
use super::limits::{LAYERS_MAX, Limits};
use super::numbering::{Arrival, Numbering, Place, SourceId};
use super::packet::{Facts, Packet, Pool};
use super::source::Source;

/// State of one track. It outlives publishers.
#[derive(Debug)]
pub(crate) struct Track {
    pub(crate) index: TrackIndex,
    /// What the current publisher negotiated; `None` on a mirror and without a publisher.
    pub(crate) input: Option<TrackInput>,
    pub(crate) sources: Vec<Source>,
    pub(crate) numbering: Numbering,
    pub(crate) history: History,
    /// A mirror's viewers want a key frame, which only the home can ask for.
    pub(crate) wishes_key_frame: Option<Instant>,
    /// When the last wish was told.
    wished_at: Option<Instant>,
    /// The newest packet's clock rate and link to time, with this worker's timestamps.
    pub(crate) clock_rate: u32,
    pub(crate) anchor: Option<NtpRtpMapping>,
    /// The same guessed from arrivals, for publishers that do not report.
    guess: Option<NtpRtpMapping>,
}

/// The tracks of a stream, by [`TrackIndex::position`].
#[derive(Debug, Default)]
pub(crate) struct Tracks {
    slots: Vec<Option<Box<Track>>>,
}

impl Tracks {
    #[inline]
    pub(crate) fn get(&self, position: usize) -> Option<&Track> {
        self.slots.get(position)?.as_deref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, position: usize) -> Option<&mut Track> {
        self.slots.get_mut(position)?.as_deref_mut()
    }

    pub(crate) fn get_or_new(&mut self, index: TrackIndex) -> &mut Track {
        let len = self.slots.len().max(index.position() + 1);
        self.slots.resize_with(len, || None);
        self.slots[index.position()].get_or_insert_with(|| Box::new(Track::new(index)))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Track> + Clone {
        self.slots.iter().flatten().map(|track| &**track)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Track> {
        self.slots.iter_mut().flatten().map(|track| &mut **track)
    }
}

/// A received packet, identified.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Identified {
    pub(crate) layer: u8,
    pub(crate) generation: u32,
    pub(crate) epoch: u64,
    pub(crate) sequence: u64,
    pub(crate) timestamp: u32,
    pub(crate) marker: bool,
    pub(crate) is_padding: bool,
    pub(crate) format: TrackPayload,
    pub(crate) info: PayloadInfo,
    /// The publisher has had time to report on its clock and has not.
    pub(crate) may_guess: bool,
}

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is in the history under this number and goes to the viewers.
    Forward(u64),
    /// It was padding, or of a layer that is not forwarded.
    NotForwarded,
    Duplicate,
    TooOld,
}

impl Track {
    pub(crate) fn new(index: TrackIndex) -> Self {
        Self {
            index,
            input: None,
            sources: Vec::new(),
            numbering: Numbering::default(),
            history: History::default(),
            wishes_key_frame: None,
            wished_at: None,
            clock_rate: 0,
            anchor: None,
            guess: None,
        }
    }

    /// A publisher begins that has this track.
    pub(crate) fn start(&mut self, input: TrackInput) {
        self.end();
        let layers = input.ssrcs.len().max(input.rids.len()).clamp(1, LAYERS_MAX);
        self.sources = (0..layers)
            .map(|layer| {
                let signalled = input.ssrcs.get(layer);
                Source::new(signalled.map(|ssrcs| ssrcs.0), signalled.and_then(|ssrcs| ssrcs.1))
            })
            .collect();
        self.input = Some(input);
    }

    /// A key frame is wanted, by whoever is there to be asked.
    pub(crate) fn want_key_frame(&mut self, now: Instant) {
        if self.index.kind() == MediaKind::Audio {
            return;
        }
        let held = self.numbering.source().map_or(0, |source| usize::from(source.layer));
        let held = if held < self.sources.len() { held } else { 0 };
        match self.sources.get_mut(held) {
            Some(source) => source.key_frames.want(now),
            None => {
                let next = self.wished_at.map_or(now, |at| now.max(at + key_frames::INTERVAL));
                self.wishes_key_frame.get_or_insert(next);
            }
        }
    }

    /// Whether the home is to be told now that a key frame is wanted, which it is as often as a publisher is asked.
    pub(crate) fn take_wish(&mut self, now: Instant) -> bool {
        let is_due = self.wishes_key_frame.is_some_and(|at| at <= now);
        if is_due {
            (self.wishes_key_frame, self.wished_at) = (None, Some(now));
        }
        is_due
    }

    /// The publisher has gone. What it sent can still be sent again, but nobody begins with it.
    pub(crate) fn end(&mut self) {
        self.input = None;
        self.sources = Vec::new();
        self.history.end_gop();
        (self.anchor, self.guess) = (None, None);
        self.wishes_key_frame = None;
    }

    /// Puts a packet of the publisher where it belongs.
    pub(crate) fn receive<'a>(
        &mut self,
        now: Instant,
        packet: &Identified,
        content: (impl Iterator<Item = (rtp::extension::Extension, &'a [u8])>, &[u8]),
        limits: &Limits,
        pool: &mut Pool,
    ) -> Taken {
        let arrival = Arrival {
            source: SourceId { epoch: packet.epoch, layer: packet.layer, generation: packet.generation },
            sequence: packet.sequence,
            timestamp: packet.timestamp,
            clock_rate: packet.format.clock_rate,
            now,
            is_padding: packet.is_padding,
        };
        self.choose_layer(&arrival, packet);
        let (number, timestamp, filler) = match self.numbering.place(&arrival) {
            Place::At { number, timestamp } => (number, timestamp, false),
            Place::Filler { number, timestamp } => (number, timestamp, true),
            Place::Removed => return Taken::NotForwarded,
            Place::Nowhere if self.numbering.source() == Some(arrival.source) => return Taken::TooOld,
            Place::Nowhere => return Taken::NotForwarded,
        };
        if self.numbering.source() == Some(arrival.source) {
            self.guess_anchor(now, timestamp, packet.format.clock_rate);
            self.anchor = self.source_anchor(packet.layer).or(self.guess.filter(|_| packet.may_guess));
        }
        let facts = Facts {
            track: self.index,
            epoch: packet.epoch,
            number,
            timestamp,
            clock_rate: packet.format.clock_rate,
            arrival: now,
            codec: packet.format.codec,
            marker: packet.marker,
            key_frame: packet.info.key_frame && !filler && self.index.kind() == MediaKind::Video,
            filler,
            anchor: self.anchor,
        };
        let (extensions, payload) = content;
        let packet = pool.packet(facts, extensions, payload);
        self.keep(number, timestamp, packet, limits, pool)
    }

    /// A source has reported on its clock. What it said of both tracks counts from now on, not from the next packet of
    /// each.
    pub(crate) fn reported(&mut self, source: SourceId) {
        if self.numbering.source() == Some(source) {
            self.anchor = self.source_anchor(source.layer);
        }
    }

    /// Puts a packet of the home worker where it belongs here.
    pub(crate) fn receive_mirrored(
        &mut self,
        packet: &Arc<Packet>,
        limits: &Limits,
        pool: &mut Pool,
    ) -> Taken {
        let facts = &packet.facts;
        let arrival = Arrival {
            source: SourceId { epoch: facts.epoch, layer: 0, generation: 0 },
            sequence: facts.number,
            timestamp: facts.timestamp,
            clock_rate: facts.clock_rate,
            now: facts.arrival,
            is_padding: false,
        };
        let current = self.numbering.source().map(|source| source.epoch);
        if current.is_none_or(|epoch| epoch < facts.epoch) {
            self.history.end_gop();
            self.numbering.switch(&arrival, self.continued_timestamp(&arrival));
            self.anchor = None;
        }
        let Place::At { number, timestamp } = self.numbering.place(&arrival) else { return Taken::TooOld };
        if let Some(mut anchor) = facts.anchor {
            anchor.timestamp = anchor.timestamp.wrapping_add(timestamp.wrapping_sub(facts.timestamp));
            self.anchor = Some(anchor);
        }
        self.keep(number, timestamp, Arc::clone(packet), limits, pool)
    }

    fn keep(
        &mut self,
        number: u64,
        timestamp: u32,
        packet: Arc<Packet>,
        limits: &Limits,
        pool: &mut Pool,
    ) -> Taken {
        self.clock_rate = packet.facts.clock_rate;
        self.wishes_key_frame = self.wishes_key_frame.filter(|_| !packet.is_key_frame());
        match self.history.insert(number, Kept { packet, timestamp }, limits, pool) {
            Ok(()) => Taken::Forward(number),
            Err(NotKept::Duplicate) => Taken::Duplicate,
            Err(NotKept::TooOld) => Taken::TooOld,
        }
    }

    /// Makes this packet's layer the one that is forwarded, if it is the one to forward and a decoder can start here.
    fn choose_layer(&mut self, arrival: &Arrival, packet: &Identified) {
        let current = self.numbering.source();
        let is_entry =
            self.index.kind() == MediaKind::Audio || (packet.info.key_frame && packet.info.starts_frame);
        let held = current.filter(|source| source.epoch == arrival.source.epoch).map(|source| source.layer);
        if packet.is_padding || current == Some(arrival.source) {
            return;
        }
        let rids = self.input.as_ref().map_or(&[][..], |input| &input.rids);
        let Some(best) = layers::best(&self.sources, rids, held, arrival.now) else { return };
        // Numbers of a layer that begin anew end what was before.
        let held_is_dead = held.is_none_or(|held| {
            held == packet.layer
                || self.sources.get(usize::from(held)).is_none_or(|source| !source.is_live(arrival.now))
        });
        if is_entry && (best == packet.layer || held_is_dead) {
            let timestamp = match held {
                Some(held) => self.aligned_timestamp(arrival, held),
                None => self.continued_timestamp(arrival),
            };
            if held.is_none_or(|held| held == packet.layer) {
                self.history.end_gop();
            }
            self.numbering.switch(arrival, timestamp);
        } else if let Some(source) = self.sources.get_mut(usize::from(best))
            && (held != Some(best) || best == packet.layer)
        {
            source.key_frames.want(arrival.now);
        }
    }

    /// Output timestamp of the first packet of another publisher, if its timestamps go on.
    fn continued_timestamp(&self, arrival: &Arrival) -> Option<u32> {
        self.numbering.continued(arrival).filter(|_| arrival.clock_rate == self.clock_rate)
    }

    /// Output timestamp of a packet of another layer, from what the sender reports of both say about time. Only one
    /// near to what the time that passed would make it is believed.
    fn aligned_timestamp(&self, arrival: &Arrival, held: u8) -> Option<u32> {
        let (to_at, to_timestamp) = self.sources.get(usize::from(arrival.source.layer))?.sender_report?;
        let (from_at, from_timestamp) = self.sources.get(usize::from(held))?.sender_report?;
        let shift = self.numbering.timestamp_shift()?;
        let reports =
            NtpRtpMapping { at: from_at, timestamp: from_timestamp }.timestamp_at(to_at, arrival.clock_rate);
        let aligned = reports.wrapping_add(arrival.timestamp.wrapping_sub(to_timestamp)).wrapping_add(shift);
        let expected = self.numbering.expected_timestamp(arrival.now, arrival.clock_rate)?;
        let tolerance = rtp_units(Duration::from_millis(500), arrival.clock_rate);
        let off = aligned.wrapping_sub(expected).cast_signed().unsigned_abs();
        let newest = self.history.newest_timestamp()?;
        (off <= tolerance && rtp::sequence::is_newer_timestamp(aligned, newest)).then_some(aligned)
    }

    /// The packet that was under way for the shortest time says best when its like were captured.
    fn guess_anchor(&mut self, now: Instant, timestamp: u32, clock_rate: u32) {
        let is_better = self.guess.is_none_or(|guess| {
            let is_stale = now.saturating_duration_since(guess.at) > GUESS_AGE_MAX;
            is_stale || timestamp.wrapping_sub(guess.timestamp_at(now, clock_rate)).cast_signed() >= 0
        });
        if is_better {
            self.guess = Some(NtpRtpMapping { at: now, timestamp });
        }
    }

    fn source_anchor(&self, layer: u8) -> Option<NtpRtpMapping> {
        let (at, timestamp) = self.sources.get(usize::from(layer))?.sender_report?;
        Some(NtpRtpMapping { at, timestamp: timestamp.wrapping_add(self.numbering.timestamp_shift()?) })
    }
}

/// A guess older than this is made anew: clocks drift.
const GUESS_AGE_MAX: Duration = Duration::from_secs(10);
