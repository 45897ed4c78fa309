//! The streams of packets a worker knows: published here, or played here, or both.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use sfu::{Limits, PacketStream, WallClock};

use crate::ids::{PacketStreamId, Table};
use crate::publication::Publication;
use crate::registry::{PublishedTracks, StreamId};
use worker_api::settings::RtcSettings;

/// A stream of packets on this worker.
pub(crate) struct RtcStream {
    pub(crate) publication: Publication,
    pub(crate) packets: PacketStream,
    /// What the present or last publisher sends.
    pub(crate) tracks: Option<PublishedTracks>,
    /// Packets came in since the last fan-out.
    pub(crate) dirty: bool,
    /// When its timer is set to, if it is.
    pub(crate) due: Option<Instant>,
    /// How long a player waits for a publisher; `None` for ever.
    pub(crate) wait_for_publisher: Option<Duration>,
}

/// The table of streams of packets.
pub(crate) struct RtcStreams {
    pub(crate) slab: Table<PacketStreamId, RtcStream>,
    by_id: HashMap<StreamId, PacketStreamId>,
    limits: Limits,
    clock: WallClock,
}

impl RtcStreams {
    /// No streams. `clock` is the same on all workers.
    pub(crate) fn new(settings: &RtcSettings, clock: WallClock) -> Self {
        Self { slab: Table::default(), by_id: HashMap::new(), limits: limits(settings), clock }
    }

    /// Id of a stream.
    pub(crate) fn find(&self, id: StreamId) -> Option<PacketStreamId> {
        self.by_id.get(&id).copied()
    }

    /// Id of a stream, which is made if it is not there.
    pub(crate) fn find_or_insert(
        &mut self,
        id: StreamId,
        (app, name): (&str, &str),
        wait_for_publisher: Option<Duration>,
    ) -> PacketStreamId {
        if let Some(stream) = self.find(id) {
            return stream;
        }
        let stream = self.slab.insert(RtcStream {
            publication: Publication::new(id, (app, name)),
            packets: PacketStream::new(self.limits.clone(), self.clock),
            tracks: None,
            dirty: false,
            due: None,
            wait_for_publisher,
        });
        self.by_id.insert(id, stream);
        stream
    }

    /// Gives a stream an empty state.
    pub(crate) fn start_anew(&mut self, stream: PacketStreamId) {
        if let Some(stream) = self.slab.get_mut(stream) {
            stream.packets = PacketStream::new(self.limits.clone(), self.clock);
        }
    }

    /// Forgets a stream.
    pub(crate) fn remove(&mut self, stream: PacketStreamId) -> Option<RtcStream> {
        let stream = self.slab.remove(stream)?;
        self.by_id.remove(&stream.publication.id);
        Some(stream)
    }
}

fn limits(settings: &RtcSettings) -> Limits {
    Limits {
        history_duration: settings.history,
        history_bytes_max: settings.history_bytes_max,
        gop_cache: settings.gop_cache,
        gop_bytes_max: settings.gop_cache_bytes_max,
        gop_duration_max: settings.gop_cache_duration_max,
        equalise_runs: settings.pad_runs,
        ..Limits::default()
    }
}
