//! The streams of packets a worker knows: published here, or played here, or both.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sfu::{Limits, PacketStream, WallClock};
use slab::Slab;

use crate::registry::{Epoch, Origin, PublishedTracks, StreamId};
use worker_api::settings::RtcSettings;

/// A stream of packets on this worker.
pub(crate) struct RtcStream {
    pub(crate) id: StreamId,
    /// `app/name`, what the directory calls it.
    pub(crate) key: Arc<str>,
    /// Length of the app in `key`.
    app_bytes: usize,
    pub(crate) packets: PacketStream,
    pub(crate) source: Option<RtcSource>,
    /// Workers that get every packet, when the source is local.
    pub(crate) remotes: Vec<usize>,
    /// What the present or last publisher sends.
    pub(crate) tracks: Option<PublishedTracks>,
    /// Sessions that play it here, connected or not.
    pub(crate) players: u32,
    /// The bridge that its packets go to.
    pub(crate) bridge: Option<usize>,
    /// Packets came in since the last fan-out.
    pub(crate) touched: bool,
    /// When its timer is set to, if it is.
    pub(crate) due: Option<Instant>,
    pub(crate) live_since_ms: u64,
    /// How long a player waits for a publisher; `None` for ever.
    pub(crate) wait_for_publisher: Option<Duration>,
}

/// Where a stream's packets come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RtcSource {
    pub(crate) epoch: Epoch,
    pub(crate) origin: Origin,
}

impl RtcStream {
    /// App part of the key.
    pub(crate) fn app(&self) -> &str {
        &self.key[..self.app_bytes]
    }

    /// Stream part of the key.
    pub(crate) fn name(&self) -> &str {
        &self.key[self.app_bytes + 1..]
    }

    /// The publishing session on this worker.
    pub(crate) fn publisher(&self) -> Option<usize> {
        self.source?.origin.session()
    }

    /// Whether packets come in on this worker, from a publisher or a bridge.
    pub(crate) fn is_home(&self) -> bool {
        self.source.is_some_and(|source| source.origin.is_local())
    }

    /// Whether nobody needs this worker to know the stream.
    pub(crate) fn is_unused(&self) -> bool {
        self.players == 0 && !self.is_home()
    }
}

/// See the module.
pub(crate) struct RtcStreams {
    pub(crate) slab: Slab<RtcStream>,
    by_id: HashMap<StreamId, usize>,
    limits: Limits,
    clock: WallClock,
}

impl RtcStreams {
    /// No streams. `clock` is the same on all workers.
    pub(crate) fn new(settings: &RtcSettings, clock: WallClock) -> Self {
        Self { slab: Slab::new(), by_id: HashMap::new(), limits: limits(settings), clock }
    }

    /// Index of a stream.
    pub(crate) fn find(&self, id: StreamId) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    /// Index of a stream, which is made if it is not there.
    pub(crate) fn find_or_insert(
        &mut self,
        id: StreamId,
        (app, name): (&str, &str),
        wait_for_publisher: Option<Duration>,
    ) -> usize {
        if let Some(index) = self.find(id) {
            return index;
        }
        let index = self.slab.insert(RtcStream {
            id,
            key: format!("{app}/{name}").into(),
            app_bytes: app.len(),
            packets: PacketStream::new(self.limits.clone(), self.clock),
            source: None,
            remotes: Vec::new(),
            tracks: None,
            players: 0,
            bridge: None,
            touched: false,
            due: None,
            live_since_ms: 0,
            wait_for_publisher,
        });
        self.by_id.insert(id, index);
        index
    }

    /// Gives a stream an empty state.
    pub(crate) fn start_anew(&mut self, index: usize) {
        if let Some(stream) = self.slab.get_mut(index) {
            stream.packets = PacketStream::new(self.limits.clone(), self.clock);
        }
    }

    /// Forgets a stream.
    pub(crate) fn remove(&mut self, index: usize) -> RtcStream {
        let stream = self.slab.remove(index);
        self.by_id.remove(&stream.id);
        stream
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
