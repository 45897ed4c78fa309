//! Publications begin, are played, and end, in both lanes: what takes more than one subsystem.
//!
//! A publisher claims its stream in the directory, which refuses it or names the publication that it replaces
//! (`end_replaced`). Then other workers with players are told (`publish_to`), the stream starts
//! (`start_source`), and a bridge begins if somebody plays it in the other lane. Ends come back as
//! [`Action`]s, because a bridge may have to end.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use media::{Codec, MediaKind};
use mpegts::{Muxer, NotCarried};
use rtc::Peer;
use tokio::sync::mpsc::error::TrySendError;

use crate::context::Context;
use crate::event_loop::Worker;
use crate::frames::stream::Format;
use crate::ids::{ConnId, FrameStreamId, PacketStreamId, TableId};
use crate::mailbox::{MessageBody, Start};
use crate::packets::session::{Session, SessionPublication, Subscription, Transport};
use crate::packets::{Action, inputs};
use crate::proto::session::{Media, Publish};
use crate::publication::{Credential, LaneStream, PlayRefusal, Publication, PublishRefusal, Remote, Source};
use crate::registry::{Claim, Claimant, Epoch, Lane, Origin, Published, PublishedTracks, StreamId, Taken};
use crate::stats::columns::frames_reference;
use worker_api::publications::{StreamNews, StreamPublished};
use worker_api::rtc::{RtcOpen, RtcRefusal, RtcRole};
use worker_api::settings::SecondPublisher;
use worker_api::snapshot::{Protocol, Role, SessionId};
use worker_api::traces::Stage;
use worker_api::{EndReason, auth};

impl Worker {
    /// A lane of a stream, if this worker has it.
    pub(crate) fn find_stream(&self, lane: Lane, id: StreamId) -> Option<LaneStream> {
        match lane {
            Lane::Frames => self.frames.find(id).map(LaneStream::Frames),
            Lane::Packets => self.packets.streams.find(id).map(LaneStream::Packets),
        }
    }

    pub(crate) fn publication(&self, stream: LaneStream) -> Option<&Publication> {
        match stream {
            LaneStream::Frames(stream) => Some(&self.frames.streams.get(stream)?.publication),
            LaneStream::Packets(stream) => Some(&self.packets.streams.get(stream)?.publication),
        }
    }

    pub(crate) fn publication_mut(&mut self, stream: LaneStream) -> Option<&mut Publication> {
        match stream {
            LaneStream::Frames(stream) => Some(&mut self.frames.streams.get_mut(stream)?.publication),
            LaneStream::Packets(stream) => Some(&mut self.packets.streams.get_mut(stream)?.publication),
        }
    }

    /// Makes the session the publisher of a stream.
    pub(crate) fn publish(
        &mut self,
        conn: ConnId,
        (app, name): (&str, &str),
        credential: Credential<'_>,
    ) -> Result<(), PublishRefusal> {
        let session = &self.connections.sessions[conn];
        let (id, address) = (session.id, session.address);
        let key = format!("{app}/{name}");
        let claim = self.claim_frames(conn, &key, (app, name), credential);
        if matches!(credential, Credential::Token(_)) {
            let refused = claim.as_ref().err().map(|refusal| refusal.reason());
            self.trace_publish(conn, &key, refused);
        }
        let claim = claim.inspect_err(|refusal| {
            let reason = refusal.reason();
            match credential {
                // It is told, and says so itself, with its name.
                Credential::Own | Credential::Fetch => {
                    tracing::debug!(session = %id, stream = key, reason, "source of this server refused");
                }
                Credential::Token(_) => {
                    tracing::info!(session = %id, %address, stream = key, reason, "publisher refused");
                }
            }
        })?;
        let stream = self.begin_frames(&claim, (app, name), conn);
        if matches!(credential, Credential::Fetch) {
            self.frames.wait_for_key(stream);
        }
        self.connections.sessions[conn].media =
            Media::Publish(Publish { stream, epoch: claim.epoch, read_at_ms: None });
        self.connections.columns.takes_role(conn, Role::Publisher, frames_reference(stream));
        self.update_read_interest(stream);
        self.note_published(conn);
        tracing::info!(session = %id, %address, stream = key, "publisher started");
        self.bridge_claimed(&claim);
        Ok(())
    }

    /// The stream of a claim of frames begins, with a connection as its publisher.
    pub(crate) fn begin_frames(&mut self, claim: &Claim, name: (&str, &str), conn: ConnId) -> FrameStreamId {
        self.end_replaced(claim, Lane::Frames);
        let stream = self.frames.find_or_insert(&self.ctx, claim.id, name);
        self.publish_to(LaneStream::Frames(stream), claim, || Start::new_frames(false));
        let source = Source { epoch: claim.epoch, origin: Origin::Connection(conn) };
        self.start_source(LaneStream::Frames(stream), source, None);
        stream
    }

    /// Frames of a claim go to those who wait for packets.
    pub(crate) fn bridge_claimed(&mut self, claim: &Claim) {
        if claim.bridged.is_empty() {
            self.bridge_to_packets_if_wanted(claim.id);
        } else {
            self.bridge_to_packets(claim.id);
        }
    }

    /// Tells the hook that has let a session in that its publication has begun.
    pub(crate) fn note_published(&mut self, conn: ConnId) {
        if let Some(hook) = &mut self.connections.sessions[conn].hook
            && let Ok(admission) = &mut hook.answer
        {
            admission.note_published();
        }
    }

    /// Checks the rules, whether there is room for a publisher, and what the hook has said.
    pub(crate) fn may_publish(
        &mut self,
        conn: ConnId,
        name: (&str, &str),
        token: Option<&str>,
    ) -> Result<(), PublishRefusal> {
        if let Some(overload) = self.overload(Role::Publisher) {
            self.permit(conn, auth::Action::Publish, name, token).map_err(PublishRefusal::Denied)?;
            self.ctx.counters.overload.count(Role::Publisher, overload);
            return Err(PublishRefusal::Overloaded(overload));
        }
        self.authorize(conn, auth::Action::Publish, name, token).map_err(PublishRefusal::Denied)
    }

    fn claim_frames(
        &mut self,
        conn: ConnId,
        key: &str,
        (app, name): (&str, &str),
        credential: Credential<'_>,
    ) -> Result<Claim, PublishRefusal> {
        if self.ctx.draining_until.is_some() {
            return Err(PublishRefusal::Draining);
        }
        let claimant = match credential {
            Credential::Fetch => Claimant::Fetch,
            Credential::Own => Claimant::Publisher { takes_over: false },
            Credential::Token(token) => {
                self.may_publish(conn, (app, name), token)?;
                let settings = self.ctx.settings_for(app);
                Claimant::Publisher { takes_over: settings.second_publisher == SecondPublisher::TakeOver }
            }
        };
        self.ctx.directory.claim(key, self.ctx.worker, claimant, None).map_err(PublishRefusal::Taken)
    }

    /// Makes the session a player of a stream.
    pub(crate) fn play(
        &mut self,
        conn: ConnId,
        (app, name): (&str, &str),
        token: Option<&str>,
        format: Format,
    ) -> Result<(), PlayRefusal> {
        let session = &self.connections.sessions[conn];
        let (id, address) = (session.id, session.address);
        let key = format!("{app}/{name}");
        let may_play =
            self.may_play(conn, (app, name), token).and_then(|()| self.check_carried(&key, format));
        let stream = may_play.and_then(|()| self.subscribe_to_frames(&key, (app, name), Some(address.ip())));
        let refused = stream.as_ref().err().map(|refusal| refusal.reason());
        self.trace_play(conn, &key, format, refused);
        let stream = stream.inspect_err(|refusal| {
            tracing::info!(session = %id, %address, stream = key, reason = refusal.reason(), "player refused");
        })?;
        let player = self.frames.join(&self.ctx, stream, conn, format);
        self.connections.sessions[conn].media = Media::Play(player);
        self.ctx.mailboxes.fullness().join();
        self.connections.columns.takes_role(conn, Role::Player, frames_reference(stream));
        tracing::info!(session = %id, %address, stream = key, ?format, "player joined");
        Ok(())
    }

    /// Whether the session could play the stream right now.
    pub(crate) fn would_play(
        &mut self,
        conn: ConnId,
        (app, name): (&str, &str),
        token: Option<&str>,
        format: Format,
    ) -> Result<(), PlayRefusal> {
        if self.ctx.draining_until.is_some() {
            return Err(PlayRefusal::Draining);
        }
        // Nobody plays yet: no hook is asked.
        self.permit(conn, auth::Action::Play, (app, name), token).map_err(PlayRefusal::Denied)?;
        if let Some(overload) = self.overload(Role::Player) {
            return Err(PlayRefusal::Overloaded(overload));
        }
        let key = format!("{app}/{name}");
        self.check_carried(&key, format)?;
        match self.published_as_frames(&key, app)? {
            Published::Nobody if self.ctx.directory.begins_within(&key).is_none() => {
                Err(PlayRefusal::NotFound)
            }
            Published::Nobody | Published::Frames(_) | Published::Packets(_) => Ok(()),
        }
    }

    /// Whether a format has a place for what is known of the stream. What is not known yet is seen when it
    /// comes.
    fn check_carried(&self, key: &str, format: Format) -> Result<(), PlayRefusal> {
        let codecs = if format.is_flv() { Vec::new() } else { self.ctx.directory.codecs(key) };
        let is_carried = |codec: &Codec| match format {
            Format::Rtsp => rtsp::Outgoing::carries(*codec),
            _ => Muxer::carries(*codec),
        };
        let mut video = codecs.iter().filter(|codec| codec.kind() == MediaKind::Video).peekable();
        let has_video = video.peek().is_some();
        let may_be_carried = if has_video { video.any(is_carried) } else { codecs.iter().any(is_carried) };
        let first = codecs.iter().find(|codec| !has_video || codec.kind() == MediaKind::Video);
        match first {
            Some(codec) if !may_be_carried => {
                Err(PlayRefusal::NotCarried(NotCarried::Codec(*codec).reason()))
            }
            _ => Ok(()),
        }
    }

    /// Checks the rules, and what the hook has said.
    pub(crate) fn may_play(
        &mut self,
        conn: ConnId,
        (app, name): (&str, &str),
        token: Option<&str>,
    ) -> Result<(), PlayRefusal> {
        if self.ctx.draining_until.is_some() {
            return Err(PlayRefusal::Draining);
        }
        if let Some(overload) = self.overload(Role::Player) {
            // By the rules first: who may not play hears that. The hook is not asked then.
            self.permit(conn, auth::Action::Play, (app, name), token).map_err(PlayRefusal::Denied)?;
            self.ctx.counters.overload.count(Role::Player, overload);
            return Err(PlayRefusal::Overloaded(overload));
        }
        self.authorize(conn, auth::Action::Play, (app, name), token).map_err(PlayRefusal::Denied)
    }

    /// What is published as a stream, if players of frames can have it.
    pub(crate) fn published_as_frames(&self, key: &str, app: &str) -> Result<Published, PlayRefusal> {
        let published = self.ctx.directory.published(key);
        match published {
            Published::Packets(_) if !self.ctx.settings_for(app).bridge.enabled => {
                Err(PlayRefusal::NotFrames)
            }
            published => Ok(published),
        }
    }

    /// Makes sure that the frames of a stream come to this worker, for one more player.
    pub(crate) fn subscribe_to_frames(
        &mut self,
        key: &str,
        (app, name): (&str, &str),
        address: Option<IpAddr>,
    ) -> Result<FrameStreamId, PlayRefusal> {
        self.published_as_frames(key, app)?;
        let id = self.subscribe(Lane::Frames, key, (app, name), address).ok_or(PlayRefusal::NotFound)?;
        let stream = self.frames.find(id).ok_or(PlayRefusal::NotFound)?;
        let publication = &mut self.frames.streams[stream].publication;
        publication.players += 1;
        publication.report_watched(&self.ctx);
        self.bridge_to_frames(id);
        self.update_read_interest(stream);
        Ok(stream)
    }

    /// Call it when a stream's players or remote workers may have become none, or the first.
    pub(crate) fn update_read_interest(&mut self, stream: FrameStreamId) {
        let publication = &self.frames.streams[stream].publication;
        if let Some(conn) = publication.connection() {
            self.connections.set_watched(&self.ctx, conn, publication.is_watched());
        }
    }

    /// Opens a WebRTC session and answers.
    pub(crate) fn open_session(&mut self, mut open: RtcOpen) {
        let reply = std::mem::replace(&mut open.reply, tokio::sync::oneshot::channel().0);
        let opened = self.create_session(open);
        // An asker that has given up never told anybody of the session.
        if reply.send(opened).is_err()
            && let Ok(id) = opened
        {
            self.packets.close(&mut self.ctx, id, EndReason::Abandoned);
        }
    }

    fn create_session(&mut self, open: RtcOpen) -> Result<SessionId, RtcRefusal> {
        let RtcOpen { role, app, stream: name, address, user_agent, peer, tracks, published, .. } = open;
        let (bits_per_second_max, height_max) = (open.bits_per_second_max, open.height_max);
        if self.ctx.draining_until.is_some() {
            return Err(RtcRefusal::Draining);
        }
        if self.packets.sessions.len() >= self.ctx.settings.rtc.sessions_max {
            return Err(RtcRefusal::Full);
        }
        // Control counts it.
        if let Some(overload) = self.overload(role.into()) {
            return Err(RtcRefusal::Overloaded(overload));
        }
        let Ok(place) = self.ctx.place_of(address.ip()) else {
            self.ctx.counters.refused_address += 1;
            return Err(RtcRefusal::TooManyOfAddress);
        };
        self.ctx.mailboxes.fullness().join();
        let ufrag: Box<str> = peer.local_ice.ufrag.as_str().into();
        let peer = Peer::new(peer, self.ctx.now).map_err(|error| {
            tracing::warn!(%error, "no peer");
            RtcRefusal::Invalid
        })?;
        let key = format!("{app}/{name}");
        let id = self.ctx.next_session_id();
        let tracks: PublishedTracks = tracks.into();
        let mut session = Session {
            id,
            role,
            address,
            _place: place,
            user_agent,
            bits_per_second_max,
            height_max,
            ends_at_ms: self.ctx.ends_at_ms(open.until),
            admission: open.admission,
            time_over_ms: self.ctx.ends_at_ms(open.time_over),
            uses: open.uses,
            trace: open.trace,
            keys: None,
            is_handed_over: false,
            ends_with: None,
            transport: Transport::new(peer, ufrag, self.ctx.now_ms),
            publications: Vec::new(),
            subscriptions: Vec::new(),
        };
        let peer = match role {
            RtcRole::Publish => {
                let claim = self.claim_packets(&key, &app, &tracks)?;
                let stream = self.claimed_packets(&claim, (&app, &name), &tracks);
                let epoch = claim.epoch;
                let input = inputs::publisher(&tracks);
                self.packets.streams[stream].sfu.publisher_started(self.ctx.now, epoch.0, input);
                session.publications =
                    vec![SessionPublication { stream, epoch, tracks: Arc::clone(&tracks) }];
                if let Some(admission) = &mut session.admission {
                    admission.note_published();
                }
                let peer = self.packets.insert(&mut self.ctx, session);
                self.start_packets(&claim, stream, Origin::Peer(peer), tracks);
                peer
            }
            RtcRole::Play => {
                let id = self.subscribe(Lane::Packets, &key, (&app, &name), Some(address.ip()));
                let id = id.ok_or(RtcRefusal::NotFound)?;
                let stream = self.packets.streams.find(id).ok_or(RtcRefusal::NotFound)?;
                self.packets.player_joined(&self.ctx, stream);
                let published = published.into();
                session.subscriptions = vec![Subscription { stream, viewer: None, tracks, published }];
                let peer = self.packets.insert(&mut self.ctx, session);
                self.bridge_to_packets(id);
                peer
            }
        };
        tracing::info!(session = %id, %address, stream = key, ?role, "session opened");
        if let Some(trace) = &mut self.packets.sessions[peer].trace {
            trace.set_session(id);
            trace.reach(self.ctx.now, Stage::Ice);
        }
        self.packets.drive(&mut self.ctx, peer);
        Ok(id)
    }

    /// Claims a stream for a publisher of packets.
    pub(crate) fn claim_packets(
        &mut self,
        key: &str,
        app: &str,
        tracks: &PublishedTracks,
    ) -> Result<Claim, RtcRefusal> {
        let takes_over = self.ctx.settings_for(app).second_publisher == SecondPublisher::TakeOver;
        let claimant = Claimant::Publisher { takes_over };
        let claim = |ctx: &Context| ctx.directory.claim(key, ctx.worker, claimant, Some(Arc::clone(tracks)));
        match claim(&self.ctx) {
            Ok(claim) => return Ok(claim),
            Err(Taken::Elsewhere) => return Err(RtcRefusal::TakenElsewhere),
            Err(Taken::Here) => {}
        }
        // An encoder that crashed comes back before its old session has been given up: a publisher that has
        // fallen silent ends. One on another worker ends a moment later, and whoever asks again gets in.
        if let Some((stream, home)) = self.ctx.directory.home(key) {
            if home.worker != self.ctx.worker {
                self.ctx.send(home.worker, (stream, home.epoch, Lane::Packets), MessageBody::Contested);
                return Err(RtcRefusal::Taken);
            }
            if !self.packets.end_silent(&mut self.ctx, stream, home.epoch) {
                return Err(RtcRefusal::Taken);
            }
            self.carry_out_actions();
        }
        claim(&self.ctx).map_err(|taken| match taken {
            Taken::Here => RtcRefusal::Taken,
            Taken::Elsewhere => RtcRefusal::TakenElsewhere,
        })
    }

    /// The stream of a claim of packets, which begin next. The workers that have players of it get it.
    pub(crate) fn claimed_packets(
        &mut self,
        claim: &Claim,
        (app, name): (&str, &str),
        tracks: &PublishedTracks,
    ) -> PacketStreamId {
        // What waits is of the publication before, which may have been on another worker and have had a
        // bridge there: a bridge that begins here would make the same frames of it again.
        self.packets.forward(&mut self.ctx);
        self.carry_out_actions();
        self.end_replaced(claim, Lane::Packets);
        let wait = self.ctx.settings_for(app).wait_for_publisher;
        let stream = self.packets.streams.find_or_insert(claim.id, (app, name), wait);
        let start = || Start::new_packets(tracks);
        self.publish_to(LaneStream::Packets(stream), claim, start);
        stream
    }

    /// Its publisher is there. A bridge begins if somebody plays it as frames.
    pub(crate) fn start_packets(
        &mut self,
        claim: &Claim,
        stream: PacketStreamId,
        origin: Origin,
        tracks: PublishedTracks,
    ) {
        let source = Source { epoch: claim.epoch, origin };
        self.start_source(LaneStream::Packets(stream), source, Some(tracks));
        let frames = self.frames.find(claim.id);
        let waits_here = frames.is_some_and(|frames| self.frames.streams[frames].publication.players > 0);
        if waits_here || !claim.bridged.is_empty() {
            self.bridge_to_frames(claim.id);
        }
    }

    /// Ends the publication that a claim replaces, here or on another worker.
    fn end_replaced(&mut self, claim: &Claim, lane: Lane) {
        if let Some(home) = claim.replaced.filter(|home| home.worker != self.ctx.worker) {
            self.ctx.send(home.worker, (claim.id, home.epoch, lane), MessageBody::Replaced);
        }
        self.end_older_publisher(claim.id, claim.epoch);
    }

    /// The workers that have players of a claimed stream get what is published from now on.
    fn publish_to(&mut self, stream: LaneStream, claim: &Claim, start: impl Fn() -> Start) {
        for &worker in &claim.subscribers {
            let about = (claim.id, claim.epoch, stream.lane());
            self.ctx.send(worker, about, MessageBody::Start(Box::new(start())));
        }
        if let Some(publication) = self.publication_mut(stream) {
            let remotes = claim.subscribers.iter().copied().map(Remote::new);
            publication.remotes = remotes.collect();
        }
    }

    /// A source begins, here or on another worker; of packets, which are `tracks`.
    pub(crate) fn start_source(
        &mut self,
        stream: LaneStream,
        source: Source,
        tracks: Option<PublishedTracks>,
    ) {
        let now_ms = self.ctx.now_ms;
        match stream {
            LaneStream::Frames(stream) => self.frames.start_source(&self.ctx, stream, source),
            LaneStream::Packets(stream) => {
                self.packets.streams[stream].start(source, tracks, now_ms);
                self.review_served(stream);
            }
        }
        if source.origin.is_publisher()
            && let Some(publication) = self.publication(stream)
        {
            let (key, app_bytes) = (Arc::clone(&publication.key), publication.app().len());
            self.cut_if_always(&key, app_bytes);
            let is_fetched = match source.origin {
                Origin::Connection(conn) => {
                    self.connections.columns.stats.protocol[conn.index()] == Protocol::Node
                }
                origin => origin == Origin::Node,
            };
            let news = StreamNews::Published(StreamPublished { key, app_bytes, is_fetched });
            if let Err(TrySendError::Full(news)) = self.control.news.try_send(news) {
                tracing::warn!(stream = %news.key(), "news of a stream found no room: too many at once");
            }
        }
    }

    /// Closes this worker's publisher of a stream if its publication is older than `epoch`, which replaces
    /// it.
    ///
    /// The stream may be gone afterwards. Whoever learns first of a newer publication does this: messages of
    /// different workers about one stream can arrive in any order.
    pub(crate) fn end_older_publisher(&mut self, id: StreamId, epoch: Epoch) {
        self.end_publishers(id, EndReason::TakenOver, |other| other < epoch);
    }

    /// Ends the publisher of a publication whose home this worker is. Says whether it was there.
    pub(crate) fn end_publisher(&mut self, key: &str, epoch: Epoch, reason: EndReason) -> bool {
        let home = self.ctx.directory.home(key);
        home.is_some_and(|(id, _)| self.end_publishers(id, reason, |other| other == epoch))
    }

    /// Ends this worker's publishers of a stream whose publication is one of `these`.
    fn end_publishers(&mut self, id: StreamId, reason: EndReason, these: impl Fn(Epoch) -> bool) -> bool {
        let mut has_ended = false;
        for lane in [Lane::Frames, Lane::Packets] {
            let stream = self.find_stream(lane, id).and_then(|stream| self.publication(stream));
            let source = stream.and_then(|stream| stream.source).filter(|source| these(source.epoch));
            match source.map(|source| source.origin) {
                Some(Origin::Connection(conn) | Origin::Rtsp(conn)) => self.end(conn, reason),
                Some(Origin::Peer(peer)) => {
                    self.packets.end(&mut self.ctx, peer, reason);
                    self.carry_out_actions();
                }
                Some(Origin::Node) => self.end_fetch(id, reason),
                Some(Origin::Bridge | Origin::Worker) | None => continue,
            }
            has_ended = true;
        }
        has_ended
    }

    /// Ends what `source` publishes. Nothing happens if the stream has a newer source already.
    pub(crate) fn end_publication(&mut self, stream: LaneStream, source: Source) {
        match stream {
            LaneStream::Packets(stream) => {
                self.packets.end_publication(&mut self.ctx, stream, source);
                self.carry_out_actions();
            }
            LaneStream::Frames(stream) => {
                let Some(id) = self.frames.streams.get(stream).map(|local| local.publication.id) else {
                    return;
                };
                let has_ended = self.frames.end_publication(&mut self.ctx, stream, source);
                if has_ended && source.origin.is_publisher() {
                    self.bridge_source_ended(id, source.epoch);
                }
            }
        }
    }

    /// Makes sure that this lane of a stream comes to this worker. `None` when the stream has no publisher
    /// and the application does not let players wait for one. Publishers of other nodes count: their streams
    /// are fetched. `address`: the player's, if it is one.
    pub(crate) fn subscribe(
        &mut self,
        lane: Lane,
        key: &str,
        (app, name): (&str, &str),
        address: Option<IpAddr>,
    ) -> Option<StreamId> {
        let wait = self.ctx.settings_for(app).wait_for_publisher;
        let is_elsewhere = self.ctx.directory.is_elsewhere(key);
        let begins_within = self.ctx.directory.begins_within(key);
        let waits = wait != Some(Duration::ZERO) || is_elsewhere || begins_within.is_some();
        let (id, home) = self.ctx.directory.subscribe(key, self.ctx.worker, lane, waits)?;
        let stream = match lane {
            Lane::Frames => LaneStream::Frames(self.frames.find_or_insert(&self.ctx, id, (app, name))),
            Lane::Packets => LaneStream::Packets(self.packets.streams.find_or_insert(id, (app, name), wait)),
        };
        // With players here already this worker has been a subscriber since before.
        let is_first = self.publication(stream).is_some_and(|publication| publication.players == 0);
        let is_mirrored = home.is_some_and(|home| home.worker != self.ctx.worker);
        if let Some(publication) = self.publication_mut(stream) {
            publication.is_elsewhere |= is_elsewhere || is_mirrored;
            publication.begins_within = begins_within.or(publication.begins_within);
            if address.is_some() || publication.players == publication.unwatching {
                publication.asked_by = address;
            }
        }
        if let Some(home) = home.filter(|home| is_first && home.worker != self.ctx.worker) {
            self.ctx.send(home.worker, (id, home.epoch, lane), MessageBody::Subscribe);
        }
        Some(id)
    }

    /// A player has left; it may have been the last.
    pub(crate) fn unsubscribe_unless_played(&mut self, stream: FrameStreamId) {
        if self.frames.streams[stream].publication.players == 0 {
            self.update_read_interest(stream);
            self.unsubscribe(LaneStream::Frames(stream));
        }
    }

    /// The last player has left (or none came).
    pub(crate) fn unsubscribe(&mut self, stream: LaneStream) {
        match stream {
            LaneStream::Frames(stream) => self.frames.unsubscribe(&mut self.ctx, stream),
            LaneStream::Packets(stream) => {
                if let Some(entry) = self.packets.streams.get(stream) {
                    entry.publication.unsubscribe(&mut self.ctx);
                }
                self.packets.forget_if_unused(stream);
            }
        }
    }

    /// Does what packets want of bridges and other nodes.
    pub(crate) fn carry_out_actions(&mut self) {
        let mut actions = self.packets.take_actions();
        while let Some(action) = actions.queue.pop_front() {
            match action {
                Action::Bridge { bridge, packets } => self.bridge_packets(bridge, &actions.packets[packets]),
                Action::Serve { stream, packets } => self.serve_packets(stream, &actions.relayed[packets]),
                Action::PublicationEnded { stream, epoch } => self.bridge_source_ended(stream, epoch),
                Action::ServedEnded(stream) => self.end_served(stream),
                Action::KeyFrameWanted { stream, track, encoding } => {
                    self.request_of_parent(stream, track, encoding);
                }
                Action::EncodingsWanted { stream, track, encodings } => {
                    self.use_encodings(stream, track, encodings);
                }
                Action::StreamFailed(stream) => {
                    self.bridge_failed(stream);
                    self.end_served(stream);
                    self.end_fetch(stream, EndReason::Defect);
                }
            }
        }
        self.packets.recycle(actions);
    }
}
