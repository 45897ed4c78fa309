//! Sessions begin and end: what the control side asks for, who publishes and who plays.

use std::sync::Arc;

use rtc::Peer;

use crate::event_loop::Worker;
use crate::ids::{PacketStreamId, PeerId};
use crate::mailbox::MessageBody;
use crate::packets::session::RtcSession;
use crate::publication::{LaneStream, NewPublisher, Source};
use crate::registry::{Epoch, Lane, Origin, Published, PublishedTracks, StreamId, Taken, WebrtcAvailability};
use worker_api::EndReason;
use worker_api::rtc::{RtcNotice, RtcOpen, RtcPatch, RtcRefusal, RtcRole};
use worker_api::settings::SecondPublisher;
use worker_api::snapshot::SessionId;

/// A publisher that is heard from in no way for this long gives way to another, milliseconds. One that is there sends
/// media or reports; if it has nothing to send, a check at least every 6 s (RFC 7675 section 5.1), of which one may be lost.
const SILENT_MS: u64 = 13_000;

impl Worker {
    /// Opens a session and answers.
    pub(crate) fn rtc_open(&mut self, mut open: RtcOpen) {
        let reply = std::mem::replace(&mut open.reply, tokio::sync::oneshot::channel().0);
        let opened = self.create_session(open);
        // An asker that has given up never told anybody of the session.
        if reply.send(opened).is_err()
            && let Some(peer) = opened.ok().and_then(|id| self.rtc.find(id))
        {
            self.rtc_end(peer, EndReason::Abandoned);
        }
    }

    fn create_session(&mut self, open: RtcOpen) -> Result<SessionId, RtcRefusal> {
        let RtcOpen { role, app, stream, address, user_agent, peer, tracks, published, .. } = open;
        let ufrag: Box<str> = peer.local_ice.ufrag.as_str().into();
        self.check_limits()?;
        let peer = Peer::new(peer, self.ctx.now).map_err(|error| {
            tracing::warn!(%error, "no peer");
            RtcRefusal::Invalid
        })?;
        let id = self.ctx.next_session_id();
        let tracks: PublishedTracks = tracks.into();
        let attached = match role {
            RtcRole::Publish => self.rtc_publish((&app, &stream), &tracks),
            RtcRole::Play => self.rtc_play((&app, &stream)).map(|stream| (stream, None)),
        };
        let (stream_index, epoch) = attached?;
        let live = self.rtc.streams.slab[stream_index].publication.source.is_some();
        let session = RtcSession {
            id,
            role,
            address,
            user_agent,
            stream: stream_index,
            epoch,
            viewer: None,
            peer: Box::new(peer),
            tracks,
            published: published.into(),
            inbound: None,
            places: Default::default(),
            ufrags: std::iter::once(ufrag).collect(),
            received_ms: self.ctx.now_ms,
            lost_ms: None,
            waiting_since_ms: (!live).then_some(self.ctx.now_ms),
            due: None,
        };
        let peer = self.rtc.insert(session, self.ctx.now_ms);
        tracing::info!(session = %id, %address, stream = format!("{app}/{stream}"), ?role, "session opened");
        self.rtc.counters.opened += 1;
        self.rtc_drive(peer);
        Ok(id)
    }

    fn check_limits(&self) -> Result<(), RtcRefusal> {
        if self.ctx.draining_until.is_some() {
            return Err(RtcRefusal::Draining);
        }
        if self.rtc.sessions.len() >= self.ctx.settings.rtc.sessions_max {
            return Err(RtcRefusal::Full);
        }
        Ok(())
    }

    /// Makes the session that is inserted next the publisher of a stream; what comes from it is `tracks`.
    fn rtc_publish(
        &mut self,
        (app, name): (&str, &str),
        tracks: &PublishedTracks,
    ) -> Result<(PacketStreamId, Option<Epoch>), RtcRefusal> {
        let key = format!("{app}/{name}");
        let settings = self.ctx.settings_for(app);
        let take_over = settings.second_publisher == SecondPublisher::TakeOver;
        let claim = |worker: &Self| {
            let tracks = Some(Arc::clone(tracks));
            worker.ctx.directory.claim(&key, worker.ctx.worker, take_over, tracks)
        };
        let claim = match claim(self) {
            // An encoder that crashed comes back before its old session has been given up.
            Err(Taken) if self.preempt_silent_publisher(&key) => claim(self),
            other => other,
        };
        let claim = claim.map_err(|Taken| RtcRefusal::Taken)?;
        self.start_publication(&claim, (app, name), NewPublisher::Packets(tracks));
        let stream = self.rtc.streams.find(claim.id).expect("its publication has just begun");
        let waits_here = self
            .streams
            .find(claim.id)
            .is_some_and(|frames| self.streams.slab[frames].publication.players > 0);
        if waits_here || !claim.bridged.is_empty() {
            self.bridge_to_frames(claim.id);
        }
        Ok((stream, Some(claim.epoch)))
    }

    /// Somebody else wants to publish a stream: if its publisher has fallen silent, it ends. True if it has; one on another
    /// worker ends a moment later, and whoever asks again gets in.
    fn preempt_silent_publisher(&mut self, key: &str) -> bool {
        let Some((stream, home)) = self.ctx.directory.home(key) else { return true };
        if home.worker != self.ctx.worker {
            self.ctx.send(home.worker, (stream, home.epoch, Lane::Packets), MessageBody::Contested);
            return false;
        }
        self.rtc_end_silent(stream, home.epoch)
    }

    pub(crate) fn rtc_end_silent(&mut self, id: StreamId, epoch: Epoch) -> bool {
        let Some(stream) = self.rtc.streams.find(id) else { return false };
        let Some(Source { origin: Origin::Peer(peer), .. }) =
            self.rtc.streams.slab[stream].publication.source.filter(|source| source.epoch == epoch)
        else {
            return false;
        };
        let silent = self
            .rtc
            .sessions
            .get(peer)
            .is_some_and(|session| self.ctx.now_ms - session.received_ms > SILENT_MS);
        if silent {
            self.rtc_end(peer, EndReason::Preempted);
        }
        silent
    }

    /// Whether somebody plays a stream here.
    pub(crate) fn rtc_is_played(&self, stream: PacketStreamId) -> bool {
        self.rtc.streams.slab[stream].publication.players > 0
    }

    /// The home has said anew what a stream is: it may have turned out to have no video for WebRTC.
    pub(crate) fn rtc_review_video(&mut self, stream: PacketStreamId) {
        let has_video = |tracks: &PublishedTracks| {
            tracks.iter().any(|track| track.kind == rtp::payload::MediaKind::Video)
        };
        match self.ctx.directory.published(&self.rtc.streams.slab[stream].publication.key) {
            Published::Frames(WebrtcAvailability::Tracks(tracks, Some(_))) if has_video(&tracks) => {}
            Published::Frames(WebrtcAvailability::Impossible(_) | WebrtcAvailability::Tracks(_, Some(_))) => {
                self.rtc_end_video_players(stream);
            }
            _ => {}
        }
    }

    /// Ends the players on this worker that wait for a picture of a stream which turned out to have none for them.
    pub(crate) fn rtc_end_video_players(&mut self, stream: PacketStreamId) {
        let waits = |session: &RtcSession| {
            session.stream == stream
                && session.role == RtcRole::Play
                && session.tracks.iter().any(|track| track.kind == rtp::payload::MediaKind::Video)
        };
        let players: Vec<PeerId> =
            self.rtc.sessions.iter().filter_map(|(peer, session)| waits(session).then_some(peer)).collect();
        for player in players {
            self.rtc_end(player, EndReason::VideoNotPlayable);
        }
    }

    /// Counts a player of a stream in, and gets the stream if this worker does not have it.
    fn rtc_play(&mut self, (app, name): (&str, &str)) -> Result<PacketStreamId, RtcRefusal> {
        let key = format!("{app}/{name}");
        let id = self.subscribe(Lane::Packets, &key, (app, name)).ok_or(RtcRefusal::NotFound)?;
        let stream = self.rtc.streams.find(id).ok_or(RtcRefusal::NotFound)?;
        let publication = &mut self.rtc.streams.slab[stream].publication;
        publication.players += 1;
        self.bridge_to_packets(id);
        Ok(stream)
    }

    /// Changes a session; says whether it exists.
    pub(crate) fn rtc_patch(&mut self, id: SessionId, patch: RtcPatch) -> bool {
        let Some(peer) = self.rtc.find(id) else { return false };
        let mut changed = false;
        self.rtc_guarded(peer, |worker| changed = worker.rtc_change(peer, patch));
        changed
    }

    fn rtc_change(&mut self, peer: PeerId, patch: RtcPatch) -> bool {
        let session = &mut self.rtc.sessions[peer];
        match patch {
            RtcPatch::Candidates(candidates) => {
                candidates
                    .iter()
                    .for_each(|candidate| session.peer.add_remote_candidate(self.ctx.now, candidate));
            }
            RtcPatch::Restart { local, remote, candidates } => {
                let ufrag: Box<str> = local.ufrag.as_str().into();
                if session.peer.restart_ice(self.ctx.now, local, remote, &candidates).is_err() {
                    return false;
                }
                session.lost_ms = session.lost_ms.map(|_| self.ctx.now_ms);
                if session.ufrags.is_full() {
                    let old = session.ufrags.remove(0);
                    self.rtc.by_ufrag.remove(&old);
                }
                self.rtc.sessions[peer].ufrags.push(ufrag.clone());
                self.rtc.by_ufrag.insert(ufrag, peer);
            }
        }
        self.rtc_drive(peer);
        true
    }

    /// Ends a session by its id; says whether it existed.
    pub(crate) fn rtc_close(&mut self, id: SessionId, reason: EndReason) -> bool {
        let found = self.rtc.find(id);
        if let Some(peer) = found {
            self.rtc_guarded(peer, |worker| worker.rtc_end(peer, reason));
        }
        found.is_some()
    }

    /// Ends a session: the peer is told, its stream is left, and nothing of it stays.
    pub(crate) fn rtc_end(&mut self, peer: PeerId, reason: EndReason) {
        let Some(session) = self.rtc.sessions.get(peer) else { return };
        let (id, role, columns) = (session.id, session.role, &self.rtc.columns);
        let (bytes_in, bytes_out) = (columns.bytes_in(peer), columns.bytes_out(peer));
        let seconds = (self.ctx.now_ms - columns.opened_ms(peer)) / 1000;
        let stream = self.rtc.streams.slab.get(session.stream).map_or("", |stream| &*stream.publication.key);
        tracing::info!(session = %id, ?role, stream, reason = reason.text(), seconds, bytes_in, bytes_out, "session ended");
        self.rtc_say_bye(peer, reason.text());
        self.rtc_leave_all(peer, reason);
    }

    /// Takes a session out of its stream and out of every table.
    pub(crate) fn rtc_leave_all(&mut self, peer: PeerId, reason: EndReason) {
        let Some(session) = self.rtc.sessions.get(peer) else { return };
        let (id, role, stream, epoch, viewer) =
            (session.id, session.role, session.stream, session.epoch, session.viewer);
        match (role, epoch) {
            (RtcRole::Publish, Some(epoch)) => {
                let source = Source { epoch, origin: Origin::Peer(peer) };
                self.end_publication(LaneStream::Packets(stream), source);
            }
            _ => self.rtc_leave(stream, viewer),
        }
        for connection in self.rtc.forget(peer) {
            self.rtc_close_tcp(connection);
        }
        self.ctx.counters.ended.count(reason);
        let _ = self.rtc.notices.send(RtcNotice::Ended(id));
    }

    /// BYE and close_notify, so that the peer need not wait for its time limits.
    fn rtc_say_bye(&mut self, peer: PeerId, reason: &str) {
        let session = &self.rtc.sessions[peer];
        // Who no longer consents is sent nothing at all (RFC 7675 section 5.1).
        if session.lost_ms.is_some() {
            return;
        }
        if let Some(viewer) = session.viewer
            && let Some(stream) = self.rtc.streams.slab.get_mut(session.stream)
        {
            let mut scratch = std::mem::take(&mut self.rtc.scratch);
            scratch.clear();
            stream.packets.bye(viewer, reason, &mut scratch);
            if !scratch.is_empty() {
                self.rtc.send_report(peer, &scratch, self.ctx.now_ms);
            }
            self.rtc.scratch = scratch;
        }
        self.rtc.sessions[peer].peer.close(self.ctx.now);
        self.rtc.send_transmits(peer, self.ctx.now_ms);
    }

    fn rtc_leave(&mut self, stream: PacketStreamId, viewer: Option<sfu::ViewerId>) {
        let Some(entry) = self.rtc.streams.slab.get_mut(stream) else { return };
        if let Some(viewer) = viewer {
            entry.packets.leave(viewer);
        }
        entry.publication.players -= 1;
        if entry.publication.players == 0 {
            self.unsubscribe(LaneStream::Packets(stream));
        }
    }

    /// A mirror's viewers want a key frame: the home has to ask for it.
    pub(crate) fn rtc_ask_home(&mut self, stream: PacketStreamId, track: sfu::TrackIndex) {
        let Some(entry) = self.rtc.streams.slab.get(stream) else { return };
        let id = entry.publication.id;
        let home = self.ctx.directory.home(&entry.publication.key);
        if let Some((_, home)) = home.filter(|(_, home)| home.worker != self.ctx.worker) {
            self.ctx.send(home.worker, (id, home.epoch, Lane::Packets), MessageBody::KeyFrameWanted(track));
        }
    }
}
