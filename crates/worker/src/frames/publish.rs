//! Frames in: publishers on this worker, and streams whose home is another one.

use std::sync::Arc;

use delivery::{Frame, FrameRole, Received, Track};
use rtmp::MediaMessage;
use rtmp::flv::{self, Codec};

use crate::event_loop::Worker;
use crate::frames::channel::{self, Channel, Format};
use crate::frames::streams::{LocalStream, Remote, Source};
use crate::mailbox::Crossing;
use crate::proto::session::{Media, Publish};
use crate::registry::{Claim, Epoch, Origin, StreamId};
use crate::stats::columns::frames_reference;
use worker_api::auth::Denied;
use worker_api::link::TAKEN_OVER;
use worker_api::settings::SecondPublisher;
use worker_api::snapshot::Role;

/// Messages taken from one other worker per turn; the rest wait for the next turn.
const CROSSINGS_MAX: usize = 4096;

/// What a publisher shows.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Credential<'a> {
    /// A client's token, if it has one.
    Token(Option<&'a str>),
    /// It is a part of this server: the rules are for clients. It never takes a stream over, so that it cannot fight
    /// with a client about one.
    Own,
}

/// Why a publisher is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PublishRefusal {
    /// By the rules of authorisation.
    Denied(Denied),
    /// The stream has a publisher, and newcomers are refused.
    Taken,
    /// The server is shutting down.
    Draining,
}

impl PublishRefusal {
    /// For the publisher and the log.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Denied(denied) => denied.reason(),
            Self::Taken => "the stream is already being published",
            Self::Draining => "the server is shutting down",
        }
    }
}

impl Worker {
    /// Makes the session the publisher of a stream.
    pub(crate) fn publish(
        &mut self,
        index: usize,
        (app, name): (&str, &str),
        credential: Credential<'_>,
    ) -> Result<(), PublishRefusal> {
        let session = &self.sessions[index];
        let (id, address) = (session.id, session.address);
        let key = format!("{app}/{name}");
        let claim = self.claim(&key, (app, name), credential, address).inspect_err(|refusal| {
            let reason = refusal.reason();
            match credential {
                // It is told, and says so itself, with its name.
                Credential::Own => {
                    tracing::debug!(session = %id, stream = key, reason, "source of this server refused");
                }
                Credential::Token(_) => {
                    tracing::info!(session = %id, %address, stream = key, reason, "publisher refused");
                }
            }
        })?;
        if let Some(home) = claim.replaced.filter(|home| home.worker != self.parts.index) {
            self.tell(home.worker, Crossing::Replaced { stream: claim.id, epoch: home.epoch });
        }
        self.end_older_publisher(claim.id, claim.epoch);
        self.rtc_end_older_publisher(claim.id, claim.epoch);
        let applications = &self.parts.settings.applications;
        let stream = self.streams.find_or_insert(claim.id, (app, name), applications, self.now_ms);
        for &worker in &claim.subscribers {
            let start = Crossing::Start { stream: claim.id, epoch: claim.epoch, frames: Vec::new() };
            self.tell(worker, start);
        }
        let local = &mut self.streams.slab[stream];
        local.remotes = claim.subscribers.iter().map(|&worker| Remote { worker, lost: false }).collect();
        self.start_source(stream, Source { epoch: claim.epoch, origin: Origin::Session(index) });
        self.sessions[index].media = Media::Publish(Publish { stream, epoch: claim.epoch, read_at_ms: None });
        self.columns.takes_role(index, Role::Publisher, frames_reference(stream));
        self.watch_or_not(stream);
        tracing::info!(session = %id, %address, stream = key, "publisher started");
        // Where bridges are off this is known before anything has come.
        self.describe_as_packets(stream);
        if claim.bridged.is_empty() {
            self.bridge_to_packets_if_wanted(claim.id);
        } else {
            self.bridge_to_packets(claim.id);
        }
        Ok(())
    }

    fn claim(
        &mut self,
        key: &str,
        (app, name): (&str, &str),
        credential: Credential<'_>,
        address: std::net::SocketAddr,
    ) -> Result<Claim, PublishRefusal> {
        if self.draining_until.is_some() {
            return Err(PublishRefusal::Draining);
        }
        let take_over = match credential {
            Credential::Own => false,
            Credential::Token(token) => {
                if let Err(denied) = self.parts.policy.may_publish(app, name, token, address.ip()) {
                    self.counters.unauthorized += 1;
                    return Err(PublishRefusal::Denied(denied));
                }
                let settings = worker_api::settings::settings_for(&self.parts.settings.applications, app);
                settings.second_publisher == SecondPublisher::TakeOver
            }
        };
        self.parts.directory.claim(key, self.parts.index, take_over, None).map_err(|_| PublishRefusal::Taken)
    }

    /// Closes this worker's publisher of a stream if its publication is older than `epoch`, which replaces it.
    ///
    /// The stream may be gone afterwards. Whoever learns first of a newer publication does this: messages of
    /// different workers about one stream can arrive in any order.
    pub(crate) fn end_older_publisher(&mut self, id: StreamId, epoch: Epoch) {
        let source = self.streams.find(id).and_then(|stream| self.streams.slab[stream].source);
        if let Some(publisher) =
            source.filter(|source| source.epoch < epoch).and_then(|source| source.origin.session())
        {
            self.end(publisher, TAKEN_OVER);
        }
    }

    /// A source of frames begins, here or on another worker.
    pub(crate) fn start_source(&mut self, stream: usize, source: Source) {
        let local = &mut self.streams.slab[stream];
        local.source = Some(source);
        local.live_since_ms = self.now_ms;
        (local.video, local.audio) = (None, None);
        (local.out_of_order, local.first) = (0, [None, None]);
        (local.describes, local.describe_at_ms, local.warned) = (0, None, false);
        local.relay.publisher_started();
        for channel in local.channels.iter_mut().flatten() {
            channel.log.forget_entry();
        }
        self.set_waiting(stream, None);
    }

    pub(crate) fn end_source(&mut self, stream: usize) {
        self.streams.slab[stream].source = None;
        self.set_waiting(stream, Some(self.now_ms));
        self.forget_if_unused(stream);
    }

    fn set_waiting(&mut self, stream: usize, since_ms: Option<u64>) {
        let channels = self.streams.slab[stream].channels.iter().flatten();
        for player in channels.flat_map(|channel| channel.schedule.all_players()) {
            if let Some(play) =
                self.sessions.get_mut(player.0 as usize).and_then(|session| session.play_mut())
            {
                play.waiting_since_ms = since_ms;
            }
        }
    }

    /// The publishing session leaves its stream.
    pub(crate) fn unpublish(&mut self, index: usize, publish: Publish) {
        let Publish { stream, epoch, .. } = publish;
        let Some(local) = self.streams.slab.get_mut(stream) else { return };
        // Only what is its own: the stream may have a newer source already.
        if local.source != Some(Source { epoch, origin: Origin::Session(index) }) {
            return;
        }
        self.parts.directory.release(&local.key, epoch);
        let id = local.id;
        for remote in std::mem::take(&mut local.remotes) {
            self.tell(remote.worker, Crossing::Gone { stream: id, epoch });
        }
        self.end_source(stream);
        self.bridge_source_ended(id, epoch);
    }

    /// A media message of the publishing session.
    pub(crate) fn receive_message(&mut self, index: usize, message: MediaMessage) {
        let Media::Publish(Publish { stream, .. }) = self.sessions[index].media else { return };
        self.counters.frames_in += 1;
        self.columns.passed(index, 1);
        // A message nobody can make sense of is not worth a publisher's session: leave it out.
        let Some((frame, info)) = channel::frame_of(message) else {
            self.counters.frames_invalid += 1;
            return;
        };
        let received = self.spread(stream, &frame, info.codec);
        let local = &mut self.streams.slab[stream];
        // What players have already, or need not know, a bridge may need.
        let is_for_bridges = matches!(frame.role, FrameRole::Config | FrameRole::End);
        let repeated = is_for_bridges.then_some(local.relay.timeline_head_ms());
        let Some(time_ms) = received.map(|received| received.time_ms).or(repeated) else { return };
        let bridge = local.bridge;
        // Headers say what there is; without one, the first frame, or the first key frame where the header says nothing; and
        // B-frames, what can be done about them.
        let news = frame.role == FrameRole::Config && received.is_some()
            || frame.role == FrameRole::End
            || local.is_undescribed(&frame)
            || frame.role == FrameRole::Key && local.describe_at_ms.is_some()
            || local.has_shown_order(frame.track, info.composition_ms);
        if let Some(bridge) = bridge {
            self.bridge_frame(bridge, time_ms, &frame);
        } else if news {
            self.describe_as_packets(stream);
        }
    }

    /// Hands a frame that has come in here, from a publisher or a bridge, to other workers and the players of this one.
    pub(crate) fn spread(&mut self, stream: usize, frame: &Arc<Frame>, codec: Codec) -> Option<Received> {
        let local = &mut self.streams.slab[stream];
        note_format(local, frame, codec);
        let Source { epoch, .. } = local.source?;
        let id = local.id;
        for remote in &mut local.remotes {
            let Some(neighbour) = &mut self.parts.neighbours[remote.worker] else { continue };
            let (frame, after_loss) = (Arc::clone(frame), remote.lost);
            remote.lost = neighbour.offer(Crossing::Frame { stream: id, epoch, frame, after_loss }).is_err();
            self.counters.ring_drops += u64::from(remote.lost);
        }
        self.deliver(stream, frame)
    }

    /// Hands a frame to the players of this worker.
    fn deliver(&mut self, stream: usize, frame: &Arc<Frame>) -> Option<Received> {
        let received = self.streams.slab[stream].relay.receive(self.now_ms, frame)?;
        let now_ms = self.now_ms;
        for format in 0..Format::COUNT {
            let local = &self.streams.slab[stream];
            let Some(channel) = &local.channels[format] else { continue };
            let messages_max = u64::from(local.settings.merge_messages);
            let rolls = channel.log.rolls(Channel::bytes_hint(frame));
            let keep_from = rolls.then(|| self.oldest_needed(stream, channel));
            let Some(channel) = self.channel_mut(stream, format) else { continue };
            if let Some(keep_from) = keep_from {
                channel.log.evict(keep_from);
            }
            channel.append(frame, received, now_ms);
            self.arm(stream, format, messages_max);
        }
        Some(received)
    }

    /// Position in the log from which on bytes are still needed, by players or for new ones.
    fn oldest_needed(&self, stream: usize, channel: &Channel) -> u64 {
        let relay = &self.streams.slab[stream].relay;
        let for_new_players = relay.gop().frames().len() > 0;
        let entry = channel.log.entry().filter(|_| for_new_players).map(|(_, mark)| mark.position);
        let players = channel.schedule.all_players();
        let positions =
            players.filter_map(|player| self.sessions.get(player.0 as usize)?.play()?.cursor.position());
        positions.chain(entry).min().unwrap_or(channel.log.head())
    }

    /// Takes in what other workers have sent.
    pub(crate) fn receive_crossings(&mut self) {
        for worker in 0..self.parts.neighbours.len() {
            for _ in 0..CROSSINGS_MAX {
                let Some(crossing) = self.parts.neighbours[worker].as_mut().and_then(|other| other.receive())
                else {
                    break;
                };
                self.handle_crossing(worker, crossing);
            }
        }
    }

    fn handle_crossing(&mut self, worker: usize, crossing: Crossing) {
        match crossing {
            Crossing::Subscribe(id) => self.add_remote(worker, id),
            Crossing::Unsubscribe(id) => {
                if let Some(stream) = self.streams.find(id) {
                    self.streams.slab[stream].remotes.retain(|remote| remote.worker != worker);
                    self.watch_or_not(stream);
                }
            }
            Crossing::Start { stream: id, epoch, frames } => {
                self.end_older_publisher(id, epoch);
                let Some(stream) = self.streams.find(id) else { return };
                if self.streams.slab[stream].source.is_none_or(|source| source.epoch < epoch) {
                    self.start_source(stream, Source { epoch, origin: Origin::Worker });
                    for frame in &frames {
                        self.deliver(stream, frame);
                    }
                }
            }
            Crossing::Frame { stream: id, epoch, frame, after_loss } => {
                let Some(stream) = self.remote_source(id, epoch) else { return };
                self.counters.ring_frames_in += 1;
                if after_loss {
                    self.streams.slab[stream].relay.frames_lost();
                }
                self.deliver(stream, &frame);
            }
            Crossing::Gone { stream: id, epoch } => {
                if let Some(stream) = self.remote_source(id, epoch) {
                    self.end_source(stream);
                }
            }
            // Older than what comes after it.
            Crossing::Replaced { stream: id, epoch } => {
                self.end_older_publisher(id, Epoch(epoch.0 + 1));
                self.rtc_end_older_publisher(id, Epoch(epoch.0 + 1));
            }
            crossing => self.rtc_crossing(worker, crossing),
        }
    }

    /// The stream, if this publication on another worker is what it shows.
    fn remote_source(&self, id: StreamId, epoch: Epoch) -> Option<usize> {
        let stream = self.streams.find(id)?;
        (self.streams.slab[stream].source? == Source { epoch, origin: Origin::Worker }).then_some(stream)
    }

    fn add_remote(&mut self, worker: usize, id: StreamId) {
        self.bridge_to_frames(id);
        let Some(stream) = self.streams.find(id) else { return };
        let local = &mut self.streams.slab[stream];
        let Some(Source { epoch, .. }) = local.source.filter(|source| source.origin.is_local()) else {
            return;
        };
        if local.remotes.iter().all(|remote| remote.worker != worker) {
            local.remotes.push(Remote { worker, lost: false });
            self.watch_or_not(stream);
            let local = &self.streams.slab[stream];
            let gop = local.relay.gop().frames().map(|(_, frame)| frame);
            let headers = if gop.len() > 0 { local.relay.entry_headers() } else { local.relay.headers() };
            let frames = headers.iter().chain(gop).map(Arc::clone).collect();
            self.tell(worker, Crossing::Start { stream: id, epoch, frames });
        }
    }

    /// Sends another worker something that must arrive.
    pub(crate) fn tell(&mut self, worker: usize, crossing: Crossing) {
        if let Some(neighbour) = self.parts.neighbours.get_mut(worker).and_then(Option::as_mut) {
            neighbour.tell(crossing);
        }
    }

    /// Forgets a stream that is neither published nor played here.
    pub(crate) fn forget_if_unused(&mut self, stream: usize) {
        if self.streams.slab[stream].is_unused() {
            self.streams.remove(stream);
        }
    }
}

/// Remembers what the publisher sends, for those who ask.
fn note_format(local: &mut LocalStream, frame: &Frame, codec: Codec) {
    let config = frame.role == FrameRole::Config;
    if frame.role == FrameRole::End {
        return local.track_ended(frame.track);
    }
    match frame.track {
        Track::Video if config || (local.video.is_none() && codec != Codec::None) => {
            local.video = Some((codec, flv::video_format(codec, &frame.payload)));
        }
        Track::Audio if config || (local.audio.is_none() && codec != Codec::None) => {
            local.audio = Some((codec, flv::audio_format(codec, &frame.payload)));
        }
        _ => {}
    }
}
