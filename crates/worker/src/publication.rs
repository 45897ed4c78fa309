//! One publication machine for both lanes of a stream: claim, take over, subscribe, end.
//!
//! The home of a publication is the worker of its publisher; a bridge publishes the other lane there. Other workers with
//! players subscribe by message and mirror what comes. What only one lane has (channels of frames, viewers of packets)
//! is behind a `match` on [`Lane`].

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crate::event_loop::Worker;
use crate::ids::{BridgeId, ConnId, FrameStreamId, PacketStreamId, PeerId, WorkerIndex};
use crate::mailbox::{MessageBody, Start, WorkerMessage};
use crate::packets::inputs;
use crate::registry::{Claim, Epoch, Lane, Origin, PublishedTracks, StreamId};
use worker_api::EndReason;
use worker_api::rtc::RtcRole;
use worker_api::settings::settings_for;

/// Messages taken from one other worker per turn; the rest wait for the next turn.
const MESSAGES_MAX: usize = 4096;

/// Where one lane of a stream comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) epoch: Epoch,
    pub(crate) origin: Origin,
}

/// Another worker that gets what is published here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Remote {
    pub(crate) worker: WorkerIndex,
    /// Frames to it were lost since the last one that it got.
    pub(crate) lost: bool,
}

/// What both lanes of a stream have on a worker: where it comes from and whom it goes to.
#[derive(Debug)]
pub(crate) struct Publication {
    pub(crate) id: StreamId,
    /// `app/name`.
    pub(crate) key: Arc<str>,
    /// Length of the app in `key`.
    app_bytes: usize,
    pub(crate) source: Option<Source>,
    /// Workers that get everything, when the source is local.
    pub(crate) remotes: Vec<Remote>,
    /// Sessions that play it here.
    pub(crate) players: u32,
    /// The bridge that it goes to.
    pub(crate) bridge: Option<BridgeId>,
    pub(crate) live_since_ms: u64,
}

impl Publication {
    /// Without a source and without players.
    pub(crate) fn new(id: StreamId, (app, name): (&str, &str)) -> Self {
        Self {
            id,
            key: format!("{app}/{name}").into(),
            app_bytes: app.len(),
            source: None,
            remotes: Vec::new(),
            players: 0,
            bridge: None,
            live_since_ms: 0,
        }
    }

    /// App part of the key.
    pub(crate) fn app(&self) -> &str {
        &self.key[..self.app_bytes]
    }

    /// Stream part of the key.
    pub(crate) fn name(&self) -> &str {
        &self.key[self.app_bytes + 1..]
    }

    /// The connection of this worker that publishes it as frames.
    pub(crate) fn connection(&self) -> Option<ConnId> {
        match self.source?.origin {
            Origin::Connection(conn) => Some(conn),
            Origin::Peer(_) | Origin::Bridge | Origin::Worker => None,
        }
    }

    /// The WebRTC session of this worker that publishes it as packets.
    pub(crate) fn peer(&self) -> Option<PeerId> {
        match self.source?.origin {
            Origin::Peer(peer) => Some(peer),
            Origin::Connection(_) | Origin::Bridge | Origin::Worker => None,
        }
    }

    /// Whether a client of this worker publishes it.
    pub(crate) fn has_client(&self) -> bool {
        self.source.is_some_and(|source| source.origin.is_client())
    }

    /// Whether this worker is the home: a publisher or a bridge is here.
    pub(crate) fn is_home(&self) -> bool {
        self.source.is_some_and(|source| source.origin.is_local())
    }
}

/// One lane of a stream on this worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LaneStream {
    /// Its frames.
    Frames(FrameStreamId),
    /// Its packets.
    Packets(PacketStreamId),
}

impl LaneStream {
    /// Which lane it is.
    pub(crate) fn lane(self) -> Lane {
        match self {
            Self::Frames(_) => Lane::Frames,
            Self::Packets(_) => Lane::Packets,
        }
    }
}

/// A session of this worker that begins to publish.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NewPublisher<'a> {
    /// Of frames: this session.
    Frames(ConnId),
    /// Of packets, which are these tracks: the WebRTC session that is inserted next.
    Packets(&'a PublishedTracks),
}

impl Worker {
    /// A lane of a stream, if this worker has it.
    fn find_stream(&self, lane: Lane, id: StreamId) -> Option<LaneStream> {
        match lane {
            Lane::Frames => self.streams.find(id).map(LaneStream::Frames),
            Lane::Packets => self.rtc.streams.find(id).map(LaneStream::Packets),
        }
    }

    fn find_or_insert_stream(&mut self, lane: Lane, id: StreamId, name: (&str, &str)) -> LaneStream {
        let applications = &self.ctx.settings.applications;
        match lane {
            Lane::Frames => {
                LaneStream::Frames(self.streams.find_or_insert(id, name, applications, self.ctx.now_ms))
            }
            Lane::Packets => {
                let wait = settings_for(applications, name.0).wait_for_publisher;
                LaneStream::Packets(self.rtc.streams.find_or_insert(id, name, wait))
            }
        }
    }

    fn publication(&self, stream: LaneStream) -> Option<&Publication> {
        match stream {
            LaneStream::Frames(stream) => Some(&self.streams.slab.get(stream)?.publication),
            LaneStream::Packets(stream) => Some(&self.rtc.streams.slab.get(stream)?.publication),
        }
    }

    fn publication_mut(&mut self, stream: LaneStream) -> Option<&mut Publication> {
        match stream {
            LaneStream::Frames(stream) => Some(&mut self.streams.slab.get_mut(stream)?.publication),
            LaneStream::Packets(stream) => Some(&mut self.rtc.streams.slab.get_mut(stream)?.publication),
        }
    }

    /// The publisher that has claimed the stream begins.
    pub(crate) fn start_publication(
        &mut self,
        claim: &Claim,
        name: (&str, &str),
        publisher: NewPublisher<'_>,
    ) {
        let &Claim { id, epoch, replaced, .. } = claim;
        let lane = match publisher {
            NewPublisher::Frames(_) => Lane::Frames,
            NewPublisher::Packets(_) => Lane::Packets,
        };
        if let Some(home) = replaced.filter(|home| home.worker != self.ctx.worker) {
            self.ctx.send(home.worker, (id, home.epoch, lane), MessageBody::Replaced);
        }
        self.end_older_publisher(id, epoch);
        let stream = self.find_or_insert_stream(lane, id, name);
        let (origin, tracks) = match publisher {
            NewPublisher::Frames(conn) => (Origin::Connection(conn), None),
            // Nobody ends between here and the insertion.
            NewPublisher::Packets(tracks) => (Origin::Peer(self.rtc.sessions.vacant_id()), Some(tracks)),
        };
        if let (LaneStream::Packets(stream), Some(tracks)) = (stream, tracks) {
            let packets = &mut self.rtc.streams.slab[stream].packets;
            packets.publisher_started(self.ctx.now, epoch.0, inputs::publisher(tracks));
        }
        for &worker in &claim.subscribers {
            let start = match tracks {
                None => Start::Frames(Vec::new()),
                Some(tracks) => Start::Packets { tracks: Arc::clone(tracks), packets: Vec::new() },
            };
            self.ctx.send(worker, (id, epoch, lane), MessageBody::Start(Box::new(start)));
        }
        if let Some(publication) = self.publication_mut(stream) {
            let remotes = claim.subscribers.iter().map(|&worker| Remote { worker, lost: false });
            publication.remotes = remotes.collect();
        }
        self.start_source(stream, Source { epoch, origin }, tracks.map(Arc::clone));
    }

    /// A source begins, here or on another worker; of packets, which are `tracks`.
    pub(crate) fn start_source(
        &mut self,
        stream: LaneStream,
        source: Source,
        tracks: Option<PublishedTracks>,
    ) {
        let now_ms = self.ctx.now_ms;
        if let Some(publication) = self.publication_mut(stream) {
            publication.source = Some(source);
            publication.live_since_ms = now_ms;
        }
        match stream {
            LaneStream::Frames(stream) => self.streams.slab[stream].publisher_started(),
            LaneStream::Packets(stream) => self.rtc.streams.slab[stream].tracks = tracks,
        }
        self.set_waiting(stream, None);
    }

    /// Closes this worker's publisher of a stream if its publication is older than `epoch`, which replaces it.
    ///
    /// The stream may be gone afterwards. Whoever learns first of a newer publication does this: messages of
    /// different workers about one stream can arrive in any order.
    fn end_older_publisher(&mut self, id: StreamId, epoch: Epoch) {
        for lane in [Lane::Frames, Lane::Packets] {
            let stream = self.find_stream(lane, id).and_then(|stream| self.publication(stream));
            let older = stream.and_then(|stream| stream.source).filter(|source| source.epoch < epoch);
            match older.map(|source| source.origin) {
                Some(Origin::Connection(conn)) => self.end(conn, EndReason::TakenOver),
                Some(Origin::Peer(peer)) => self.rtc_end(peer, EndReason::TakenOver),
                Some(Origin::Bridge | Origin::Worker) | None => {}
            }
        }
    }

    /// Ends what `source` publishes here. Nothing happens if the stream has a newer source already.
    pub(crate) fn end_publication(&mut self, stream: LaneStream, source: Source) {
        let publication = self.publication_mut(stream);
        let Some(publication) = publication.filter(|publication| publication.source == Some(source)) else {
            return;
        };
        let (id, key) = (publication.id, Arc::clone(&publication.key));
        let remotes = std::mem::take(&mut publication.remotes);
        let is_client = source.origin.is_client();
        if is_client {
            self.ctx.directory.release(&key, source.epoch);
        }
        for remote in remotes {
            self.ctx.send(remote.worker, (id, source.epoch, stream.lane()), MessageBody::End);
        }
        self.end_source(stream);
        if is_client {
            self.bridge_source_ended(id, source.epoch);
        }
    }

    fn end_source(&mut self, stream: LaneStream) {
        if let Some(publication) = self.publication_mut(stream) {
            publication.source = None;
        }
        if let LaneStream::Packets(stream) = stream {
            self.rtc.streams.slab[stream].packets.publisher_ended(self.ctx.now);
        }
        self.set_waiting(stream, Some(self.ctx.now_ms));
        self.forget_if_unused(stream);
    }

    /// Notes in the stream's players since when they have been without a publisher.
    fn set_waiting(&mut self, stream: LaneStream, since_ms: Option<u64>) {
        match stream {
            LaneStream::Frames(stream) => {
                let channels = self.streams.slab[stream].channels.iter().flatten();
                for player in channels.flat_map(|channel| channel.schedule.all_players()) {
                    let session = self.sessions.get_mut(ConnId(player.0));
                    if let Some(play) = session.and_then(|session| session.play_mut()) {
                        play.waiting_since_ms = since_ms;
                    }
                }
            }
            LaneStream::Packets(stream) => {
                for (_, session) in self.rtc.sessions.iter_mut() {
                    if session.stream == stream && session.role == RtcRole::Play {
                        session.waiting_since_ms = since_ms;
                    }
                }
            }
        }
    }

    /// Makes sure that this lane of a stream comes to this worker. `None` when the stream has no publisher and the
    /// application does not let players wait for one.
    pub(crate) fn subscribe(&mut self, lane: Lane, key: &str, (app, name): (&str, &str)) -> Option<StreamId> {
        let (id, home) = self.ctx.directory.subscribe(key, self.ctx.worker, lane);
        let stream = self.find_or_insert_stream(lane, id, (app, name));
        // With players here already this worker has been a subscriber since before.
        let is_first = self.publication(stream).is_some_and(|publication| publication.players == 0);
        let wait = self.ctx.settings_for(app).wait_for_publisher;
        if home.is_none() && wait == Some(Duration::ZERO) {
            if is_first {
                self.unsubscribe(stream);
            }
            return None;
        }
        if let Some(home) = home.filter(|home| is_first && home.worker != self.ctx.worker) {
            self.ctx.send(home.worker, (id, home.epoch, lane), MessageBody::Subscribe);
        }
        Some(id)
    }

    /// The last player has left (or none came): this lane of the stream need not come here any more.
    pub(crate) fn unsubscribe(&mut self, stream: LaneStream) {
        let Some(publication) = self.publication(stream) else { return };
        let (id, lane) = (publication.id, stream.lane());
        let home = self.ctx.directory.unsubscribe(&publication.key, self.ctx.worker, lane);
        if let Some(home) = home.filter(|home| home.worker != self.ctx.worker) {
            self.ctx.send(home.worker, (id, home.epoch, lane), MessageBody::Unsubscribe);
        }
        self.forget_if_unused(stream);
    }

    /// Forgets a stream that is neither published nor played here.
    fn forget_if_unused(&mut self, stream: LaneStream) {
        let is_unused = |publication: &Publication| publication.players == 0 && !publication.is_home();
        if !self.publication(stream).is_some_and(is_unused) {
            return;
        }
        match stream {
            LaneStream::Frames(stream) => self.streams.remove(stream),
            LaneStream::Packets(stream) => {
                if let Some(stream) = self.rtc.streams.remove(stream) {
                    self.rtc_keep_counts(&stream);
                }
            }
        }
    }

    /// Takes in what other workers have sent.
    pub(crate) fn receive_messages(&mut self) {
        for worker in self.ctx.mailboxes.workers() {
            for _ in 0..MESSAGES_MAX {
                let Some(message) = self.ctx.mailboxes.receive(worker) else { break };
                if message.lane == Lane::Frames {
                    self.handle_message(worker, message);
                    continue;
                }
                // A defect that a packet meets ends its stream's sessions here, and nothing else.
                let id = message.stream;
                let handled = catch_unwind(AssertUnwindSafe(|| self.handle_message(worker, message)));
                if handled.is_err()
                    && let Some(stream) = self.rtc.streams.find(id)
                {
                    self.rtc_stream_panicked(stream);
                }
            }
        }
    }

    fn handle_message(&mut self, from: WorkerIndex, message: WorkerMessage) {
        let WorkerMessage { stream: id, epoch, lane, body } = message;
        match body {
            MessageBody::Frame { frame, after_loss } => {
                let Some(LaneStream::Frames(stream)) = self.mirrored(lane, id, epoch) else { return };
                self.ctx.counters.ring_frames_in += 1;
                if after_loss {
                    self.streams.slab[stream].relay.frames_lost();
                }
                self.deliver(stream, &frame);
            }
            MessageBody::Packet(packet) => {
                let Some(LaneStream::Packets(stream)) = self.mirrored(lane, id, epoch) else { return };
                // What is refused was known already, or too old by now.
                let _ = self.rtc.streams.slab[stream].packets.receive_mirrored(self.ctx.now, &packet);
                self.rtc.counters.ring_packets_in += 1;
                self.rtc.mark_dirty(stream);
            }
            MessageBody::Subscribe => self.add_remote(lane, from, id),
            MessageBody::Unsubscribe => {
                let Some(stream) = self.find_stream(lane, id) else { return };
                if let Some(publication) = self.publication_mut(stream) {
                    publication.remotes.retain(|remote| remote.worker != from);
                }
                if let LaneStream::Frames(stream) = stream {
                    self.update_read_interest(stream);
                }
            }
            MessageBody::Start(start) => self.start_mirror(id, epoch, *start),
            MessageBody::End => {
                if let Some(stream) = self.mirrored(lane, id, epoch) {
                    self.end_source(stream);
                }
            }
            // Older than what comes after it.
            MessageBody::Replaced => self.end_older_publisher(id, Epoch(epoch.0 + 1)),
            MessageBody::Contested => {
                self.rtc_end_silent(id, epoch);
            }
            MessageBody::KeyFrameWanted(track) => {
                let Some(stream) = self.rtc.streams.find(id) else { return };
                self.rtc.streams.slab[stream].packets.request_key_frame(self.ctx.now, track);
                self.rtc.mark_dirty(stream);
            }
        }
    }

    /// The stream, if this publication on another worker is what this lane of it shows here.
    fn mirrored(&self, lane: Lane, id: StreamId, epoch: Epoch) -> Option<LaneStream> {
        let stream = self.find_stream(lane, id)?;
        let source = self.publication(stream)?.source?;
        (source == Source { epoch, origin: Origin::Worker }).then_some(stream)
    }

    /// A publication begins on another worker.
    fn start_mirror(&mut self, id: StreamId, epoch: Epoch, start: Start) {
        self.end_older_publisher(id, epoch);
        let source = Source { epoch, origin: Origin::Worker };
        match start {
            Start::Frames(frames) => {
                let Some(stream) = self.streams.find(id) else { return };
                let before = self.streams.slab[stream].publication.source;
                if before.is_none_or(|before| before.epoch < epoch) {
                    self.start_source(LaneStream::Frames(stream), source, None);
                    for frame in &frames {
                        self.deliver(stream, frame);
                    }
                }
            }
            Start::Packets { tracks, packets } => {
                let Some(stream) = self.rtc.streams.find(id) else { return };
                let before = self.rtc.streams.slab[stream].publication.source;
                // A bridge says again what the same publication is, when it knows better.
                if before.is_some_and(|before| before.epoch > epoch) {
                    return;
                }
                self.start_source(LaneStream::Packets(stream), source, Some(tracks));
                for packet in &packets {
                    let _ = self.rtc.streams.slab[stream].packets.receive_mirrored(self.ctx.now, packet);
                }
                self.rtc.mark_dirty(stream);
                self.rtc_review_video(stream);
            }
        }
    }

    /// Another worker gets this lane of a stream from now on, if it is published here; first what a new player begins with.
    pub(crate) fn add_remote(&mut self, lane: Lane, worker: WorkerIndex, id: StreamId) {
        match lane {
            Lane::Frames => self.bridge_to_frames(id),
            Lane::Packets => self.bridge_to_packets(id),
        }
        let Some(stream) = self.find_stream(lane, id) else { return };
        let Some(publication) = self.publication_mut(stream) else { return };
        let Some(Source { epoch, .. }) = publication.source.filter(|source| source.origin.is_local()) else {
            return;
        };
        if publication.remotes.iter().any(|remote| remote.worker == worker) {
            return;
        }
        publication.remotes.push(Remote { worker, lost: false });
        let start = match stream {
            LaneStream::Frames(stream) => {
                self.update_read_interest(stream);
                let relay = &self.streams.slab[stream].relay;
                let gop = relay.gop().frames().map(|(_, frame)| frame);
                let headers = if gop.len() > 0 { relay.entry_headers() } else { relay.headers() };
                Start::Frames(headers.iter().chain(gop).map(Arc::clone).collect())
            }
            LaneStream::Packets(stream) => {
                let entry = &self.rtc.streams.slab[stream];
                let tracks = entry.tracks.clone().unwrap_or_default();
                Start::Packets { tracks, packets: entry.packets.cached(self.ctx.now).cloned().collect() }
            }
        };
        self.ctx.send(worker, (id, epoch, lane), MessageBody::Start(Box::new(start)));
    }
}
