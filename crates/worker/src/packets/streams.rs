//! The streams of packets a worker knows: published here, or played here, or both.

use std::collections::HashMap;
use std::ops::{Index, IndexMut};
use std::time::{Duration, Instant};

use media::config::VideoFormat;
use rtp::payload::MediaKind;
use sfu::{EncodingSet, LayersWanted, Limits, PacketStream, TrackIndex, WallClock};

use crate::ids::{PacketStreamId, Table, WorkerIndex};
use crate::publication::{Publication, Source};
use crate::registry::{Epoch, Lane, PublishedTracks, StreamId};
use worker_api::settings::RtcSettings;

/// A stream of packets on this worker.
pub(crate) struct Stream {
    pub(crate) publication: Publication,
    pub(crate) sfu: PacketStream,
    /// What the present or last publisher sends.
    pub(crate) tracks: Option<PublishedTracks>,
    /// Which key frame of each video track was read last, and what it said.
    pub(super) formats: Vec<ReadKeyFrame>,
    /// Other nodes get it from here: their relay is one of its players.
    pub(crate) is_served: bool,
    /// It is another node's, and goes on to further nodes.
    pub(crate) is_sent_on: bool,
    /// Encodings that other nodes get of tracks of several.
    pub(crate) relayed: Vec<(TrackIndex, EncodingSet)>,
    /// It is in the queue of streams to be forwarded.
    pub(super) queued: bool,
    /// It is in the queue of streams with viewers with a backlog.
    pub(super) backlog_queued: bool,
    /// When its video is due, if any is queued.
    pub(super) video_due: Option<Instant>,
    /// When its timer is set to, if it is.
    pub(crate) due: Option<Instant>,
    /// How long a player waits for a publisher; `None` for ever.
    pub(crate) wait_for_publisher: Option<Duration>,
}

impl Stream {
    /// Says who gets it besides viewers here, which is to be right where a viewer may ask for a key frame.
    pub(super) fn note_others(&mut self) {
        let Publication { players, remotes, bridge, .. } = &self.publication;
        self.sfu.set_others(*players > 1 || !remotes.is_empty() || bridge.is_some());
    }

    /// A source begins, here or on another worker: what was known of the one before says nothing of it.
    pub(crate) fn start(&mut self, source: Source, tracks: Option<PublishedTracks>, now_ms: u64) {
        self.publication.start(source, now_ms);
        self.tracks = tracks;
        self.formats.clear();
    }

    /// Another worker needs this of a track, if it still gets this publication.
    pub(crate) fn mirror_wants(
        &mut self,
        now: Instant,
        (worker, epoch): (WorkerIndex, Epoch),
        track: TrackIndex,
        wanted: LayersWanted,
    ) {
        let is_current = |source: &Source| source.epoch == epoch && source.origin.is_local();
        if !self.publication.source.as_ref().is_some_and(is_current) {
            return;
        }
        let mut remotes = self.publication.remotes.iter_mut();
        let Some(remote) = remotes.find(|remote| remote.worker == worker) else { return };
        remote.layers.retain(|(known, _)| *known != track);
        remote.layers.push((track, wanted));
        self.review_mirrored(now);
    }

    /// The encodings that other nodes get of a track, if it crosses by these.
    pub(super) fn relayed_of(&self, track: TrackIndex) -> Option<LayersWanted> {
        let relayed = self.relayed.iter().find(|(known, _)| *known == track);
        relayed.map(|(_, encodings)| LayersWanted::of_encodings(*encodings))
    }

    /// Other workers, or nodes, may need other encodings than before.
    pub(crate) fn review_mirrored(&mut self, now: Instant) {
        for track in TrackIndex::all().filter(|track| track.kind() == MediaKind::Video) {
            let wants = self.publication.remotes.iter().map(|remote| remote.wants(track));
            let wants = wants.chain(self.relayed_of(track));
            self.sfu.set_mirrored(now, track, wants.fold(LayersWanted::MAIN, LayersWanted::and));
        }
    }

    /// Reads the newest key frame of each video track, unless it has been read.
    pub(super) fn read_key_frames(&mut self) {
        for track in TrackIndex::all().filter(|track| track.kind() == MediaKind::Video) {
            let Some(mut packets) = self.sfu.newest_key_frame(track).map(Iterator::peekable) else {
                continue;
            };
            let Some(first) = packets.peek() else { continue };
            let (number, timestamp, codec) = (first.number(), first.timestamp(), first.codec());
            let known = self.formats.iter().position(|read| read.track == track);
            let before = known.map(|known| &self.formats[known]);
            let before = before.filter(|read| read.timestamp == timestamp);
            // It begins earlier than was known whenever an earlier packet comes late.
            let times = before.map_or(0, |read| read.times);
            if before.is_some_and(|read| read.number == number) || times == READ_TIMES_MAX {
                continue;
            }
            let format = bridge::key_frame_format(codec, packets.map(|packet| packet.media()));
            let read = ReadKeyFrame { track, number, timestamp, times: times + 1, format };
            match known {
                Some(known) => self.formats[known] = read,
                None => self.formats.push(read),
            }
        }
    }

    /// What the newest key frame of a track said.
    pub(super) fn format(&self, track: TrackIndex) -> Option<&VideoFormat> {
        self.formats.iter().find(|read| read.track == track)?.format.as_ref()
    }
}

/// A key frame that was read.
pub(super) struct ReadKeyFrame {
    track: TrackIndex,
    /// Of its first packet.
    number: u64,
    timestamp: u32,
    /// How often it was read.
    times: u8,
    format: Option<VideoFormat>,
}

/// How often a key frame is read that gets longer at its beginning: to read one of thousands of packets with
/// each of them would take seconds.
const READ_TIMES_MAX: u8 = 4;

/// The table of streams of packets.
pub(crate) struct Streams {
    pub(super) table: Table<PacketStreamId, Stream>,
    by_id: HashMap<StreamId, PacketStreamId>,
    /// Streams with packets to be forwarded.
    pub(super) dirty: Vec<PacketStreamId>,
    limits: Limits,
    /// The same on all workers.
    pub(crate) clock: WallClock,
}

impl Streams {
    /// No streams. `clock` is the same on all workers.
    pub(crate) fn new(settings: &RtcSettings, clock: WallClock) -> Self {
        let limits = Limits {
            history_duration: settings.history,
            history_bytes_max: settings.history_bytes_max,
            gop_cache: settings.gop_cache,
            gop_bytes_max: settings.gop_cache_bytes_max,
            gop_duration_max: settings.gop_cache_duration_max,
            equalise_runs: settings.pad_runs,
            ..Limits::default()
        };
        Self { table: Table::default(), by_id: HashMap::new(), dirty: Vec::new(), limits, clock }
    }

    /// Packets from the newest key frame on take at most this much from now on, of each track.
    pub(crate) fn limit_gop(&mut self, bytes_max: usize) {
        self.limits.gop_bytes_max = bytes_max;
        self.table.iter_mut().for_each(|(_, stream)| stream.sfu.limit_gop(bytes_max));
    }

    /// A stream, if this worker has it.
    pub(crate) fn find(&self, id: StreamId) -> Option<PacketStreamId> {
        self.by_id.get(&id).copied()
    }

    /// A stream, which is made if it is not there.
    pub(crate) fn find_or_insert(
        &mut self,
        id: StreamId,
        (app, name): (&str, &str),
        wait_for_publisher: Option<Duration>,
    ) -> PacketStreamId {
        if let Some(stream) = self.find(id) {
            return stream;
        }
        let stream = self.table.insert(Stream {
            publication: Publication::new(Lane::Packets, id, (app, name)),
            sfu: PacketStream::new(self.limits.clone(), self.clock),
            tracks: None,
            formats: Vec::new(),
            is_served: false,
            is_sent_on: false,
            relayed: Vec::new(),
            queued: false,
            backlog_queued: false,
            video_due: None,
            due: None,
            wait_for_publisher,
        });
        self.by_id.insert(id, stream);
        stream
    }

    /// A stream.
    pub(crate) fn get(&self, stream: PacketStreamId) -> Option<&Stream> {
        self.table.get(stream)
    }

    /// A stream.
    pub(crate) fn get_mut(&mut self, stream: PacketStreamId) -> Option<&mut Stream> {
        self.table.get_mut(stream)
    }

    /// All streams.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (PacketStreamId, &Stream)> {
        self.table.iter()
    }

    /// `app/name` of a stream, for the log.
    pub(crate) fn key(&self, stream: Option<PacketStreamId>) -> &str {
        stream.and_then(|stream| self.get(stream)).map_or("", |stream| &*stream.publication.key)
    }

    /// Gives a stream an empty state.
    pub(super) fn reset(&mut self, stream: PacketStreamId) {
        if let Some(stream) = self.table.get_mut(stream) {
            stream.sfu = PacketStream::new(self.limits.clone(), self.clock);
            stream.video_due = None;
        }
    }

    /// Forgets a stream.
    pub(crate) fn remove(&mut self, stream: PacketStreamId) -> Option<Stream> {
        let stream = self.table.remove(stream)?;
        self.by_id.remove(&stream.publication.id);
        Some(stream)
    }
}

impl Index<PacketStreamId> for Streams {
    type Output = Stream;

    fn index(&self, stream: PacketStreamId) -> &Stream {
        &self.table[stream]
    }
}

impl IndexMut<PacketStreamId> for Streams {
    fn index_mut(&mut self, stream: PacketStreamId) -> &mut Stream {
        &mut self.table[stream]
    }
}
