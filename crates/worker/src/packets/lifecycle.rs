//! Sessions from their beginning to their end: what the control side asks for, what is over by the clock, and
//! what a session leaves behind.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use super::forward::send_rtcp;
use super::session::{Session, Subscription};
use super::{Action, Packets};
use crate::context::Context;
use crate::ids::{PacketStreamId, PeerId};
use crate::publication::Source;
use crate::registry::{Epoch, Origin, Published, StreamId, WebrtcAvailability};
use crate::stats::columns::packets_reference;
use worker_api::EndReason;
use worker_api::columns::NO_STREAM;
use worker_api::rtc::{RtcNotice, RtcPatch};
use worker_api::snapshot::{Role, SessionId};
use worker_api::traces::Stage;

/// A publisher that is heard from in no way for this long gives way to another, milliseconds. One that is
/// there sends media or reports; if it has nothing to send, a check at least every 6 s (RFC 7675 section
/// 5.1), of which one may be lost.
const SILENT_MS: u64 = 13_000;
/// Time a session whose peer fell silent has for a restart of ICE, milliseconds.
const RESTART_MS_MAX: u64 = 5_000;

impl Packets {
    /// Adds a session.
    pub(crate) fn insert(&mut self, ctx: &mut Context, session: Session) -> PeerId {
        let peer = self.sessions.vacant_id();
        let stream = session.streams().next().map_or(NO_STREAM, packets_reference);
        self.columns.open(peer, session.id, session.protocol(), ctx.now_ms);
        self.columns.takes_role(peer, Role::Pending, stream);
        self.by_id.insert(session.id, peer);
        for ufrag in &session.transport.ufrags {
            self.by_ufrag.insert(ufrag.clone(), peer);
        }
        self.sessions.insert(session);
        self.transports.set(peer, None);
        self.counters.opened += 1;
        peer
    }

    /// Changes a session; says whether it exists.
    pub(crate) fn patch(&mut self, ctx: &mut Context, id: SessionId, patch: RtcPatch) -> bool {
        let Some(peer) = self.find(id) else { return false };
        let mut is_changed = false;
        self.guard(ctx, peer, |packets, ctx| {
            let transport = &mut packets.sessions[peer].transport;
            match patch {
                RtcPatch::Candidates(candidates) => {
                    for candidate in &candidates {
                        transport.peer.add_remote_candidate(ctx.now, candidate);
                    }
                }
                RtcPatch::Restart { local, remote, candidates } => {
                    let ufrag: Box<str> = local.ufrag.as_str().into();
                    if transport.peer.restart_ice(ctx.now, local, remote, &candidates).is_err() {
                        return;
                    }
                    transport.consent_lost_ms = transport.consent_lost_ms.map(|_| ctx.now_ms);
                    if transport.ufrags.is_full() {
                        let old = transport.ufrags.remove(0);
                        packets.by_ufrag.remove(&old);
                    }
                    transport.ufrags.push(ufrag.clone());
                    packets.by_ufrag.insert(ufrag, peer);
                }
            }
            packets.drive(ctx, peer);
            is_changed = true;
        });
        is_changed
    }

    /// Ends a session by its id; says whether it existed.
    pub(crate) fn close(&mut self, ctx: &mut Context, id: SessionId, reason: EndReason) -> bool {
        let found = self.find(id);
        if let Some(peer) = found {
            let session = &mut self.sessions[peer];
            match session.is_handed_over {
                true => session.ends_with = Some(reason),
                false => self.guard(ctx, peer, |packets, ctx| packets.end(ctx, peer, reason)),
            }
        }
        found.is_some()
    }

    /// Ends the session that publishes this, if it has fallen silent; says whether it has.
    pub(crate) fn end_silent(&mut self, ctx: &mut Context, id: StreamId, epoch: Epoch) -> bool {
        let source = self.streams.find(id).and_then(|stream| self.streams[stream].publication.source);
        let Some(Source { origin: Origin::Peer(peer), .. }) = source.filter(|source| source.epoch == epoch)
        else {
            return false;
        };
        let is_silent = self
            .sessions
            .get(peer)
            .is_some_and(|session| ctx.now_ms - session.transport.received_ms > SILENT_MS);
        if is_silent {
            self.end(ctx, peer, EndReason::Preempted);
        }
        is_silent
    }

    /// Call it when a stream's players, its remote workers or its bridge change: with the first of them its
    /// publisher may have to be asked for a key frame, whether or not it sends anything.
    pub(crate) fn update_watched(&mut self, now: Instant, id: PacketStreamId) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        // What is kept of streams that a bridge or another worker publishes here is for players in any case.
        let is_watched = stream.publication.is_watched() || !stream.publication.is_sent_by_client();
        stream.sfu.set_watched(now, is_watched);
        self.streams.mark_dirty(id);
    }

    /// Ends what is over by the clock.
    pub(crate) fn sweep(&mut self, ctx: &mut Context) {
        for port in self.sockets.ports.ids() {
            let udp = &mut self.sockets.ports[port];
            if let Some(change) = udp.reading.review(ctx.now) {
                udp.change_reading(port, &ctx.events, change, ctx.now);
            }
        }
        for listener in std::mem::take(&mut self.accept_later) {
            self.accept_again(listener);
        }
        let is_valid = |peer: PeerId, path: &rtc::Path| {
            self.sessions.get(peer).is_some_and(|session| session.transport.peer.is_valid(path))
        };
        let stale = self.sockets.tcp.stale(is_valid);
        for connection in self.sockets.tcp.overdue(ctx.now_ms).into_iter().chain(stale) {
            self.close_tcp(ctx, connection);
        }
        for peer in self.sessions.ids() {
            if let Some(reason) = self.overdue(ctx, peer) {
                self.guard(ctx, peer, |packets, ctx| packets.end(ctx, peer, reason));
            }
            self.trace_key_frame(peer);
        }
    }

    /// Notes in a session's trace when the first key frame has come from it, or was sent to it. Looked at
    /// a few times a second and not per packet; the time is that of the packet.
    fn trace_key_frame(&mut self, peer: PeerId) {
        let Some(session) = self.sessions.get_mut(peer) else { return };
        let Some(trace) = session.trace.as_mut().filter(|trace| trace.stage() == Stage::FirstKeyFrame) else {
            return;
        };
        let began = match (session.publications.first(), session.subscriptions.first()) {
            (Some(publication), _) => {
                let stream = self.streams.get(publication.stream);
                stream.and_then(|stream| stream.sfu.first_key_frame())
            }
            (None, Some(Subscription { stream, viewer: Some(viewer), .. })) => {
                let stream = self.streams.get(*stream);
                stream.and_then(|stream| stream.sfu.viewer_stats(*viewer)?.video_began)
            }
            (None, _) => None,
        };
        if let Some(began) = began {
            trace.reach(began, Stage::Media);
        }
    }

    /// Why a session is over by the clock, if it is.
    fn overdue(&mut self, ctx: &Context, peer: PeerId) -> Option<EndReason> {
        let session = self.sessions.get(peer)?;
        if session.is_handed_over {
            return None;
        }
        let opened_ms = self.columns.opened_ms(peer);
        let passed = |since_ms: u64, limit: Duration| u128::from(ctx.now_ms - since_ms) > limit.as_millis();
        if ctx.draining_until.is_some() {
            return Some(EndReason::Draining);
        }
        if session.ends_at_ms.is_some_and(|at_ms| ctx.now_ms >= at_ms) {
            return Some(EndReason::TokenExpired);
        }
        if session.time_over_ms.is_some_and(|at_ms| ctx.now_ms >= at_ms) {
            return Some(EndReason::TimeOver);
        }
        if !session.is_connected() && passed(opened_ms, ctx.settings.rtc.pending_timeout) {
            self.counters.expired += 1;
            return Some(EndReason::ConnectTimeout);
        }
        let lost_ms = session.transport.consent_lost_ms;
        if lost_ms.is_some_and(|since_ms| ctx.now_ms - since_ms > RESTART_MS_MAX) {
            self.counters.consent_lost += 1;
            return Some(EndReason::SilentPeer);
        }
        let waits_too_long = |subscription: &Subscription| {
            self.streams.get(subscription.stream).is_some_and(|stream| {
                stream.publication.is_overdue(opened_ms, stream.wait_for_publisher, ctx.now_ms)
            })
        };
        session.subscriptions.iter().any(waits_too_long).then_some(EndReason::NoPublisher)
    }

    /// The home has said again what a stream is: it may have turned out to have no video for WebRTC.
    pub(crate) fn review_video(&mut self, ctx: &mut Context, stream: PacketStreamId) {
        let is_video = |track: &rtc::sdp::TrackDescription| track.kind == rtp::payload::MediaKind::Video;
        match ctx.directory.published(&self.streams[stream].publication.key) {
            Published::Frames(WebrtcAvailability::Tracks(tracks, Some(_))) if tracks.iter().any(is_video) => {
            }
            Published::Frames(WebrtcAvailability::Impossible(_) | WebrtcAvailability::Tracks(_, Some(_))) => {
                self.end_video_players(ctx, stream);
            }
            _ => {}
        }
    }

    /// Ends the players on this worker that wait for a picture of a stream which turned out to have none for
    /// them.
    pub(crate) fn end_video_players(&mut self, ctx: &mut Context, stream: PacketStreamId) {
        let waits = |session: &Session| {
            let mut subscriptions = session.subscriptions.iter();
            subscriptions.any(|subscription| subscription.stream == stream && subscription.has_video())
        };
        let players = self.sessions.iter().filter_map(|(peer, session)| waits(session).then_some(peer));
        for player in players.collect::<Vec<PeerId>>() {
            self.end(ctx, player, EndReason::VideoNotPlayable);
        }
    }

    /// Ends a session: the peer is told, its streams are left, and nothing of it stays.
    pub(crate) fn end(&mut self, ctx: &mut Context, peer: PeerId, reason: EndReason) {
        let Some(session) = self.sessions.get_mut(peer) else { return };
        let (id, role) = (session.id, session.role);
        let (bytes_in, bytes_out) = (self.columns.bytes_in(peer), self.columns.bytes_out(peer));
        let seconds = (ctx.now_ms - self.columns.opened_ms(peer)) / 1000;
        let stream = self.streams.key(session.streams().next());
        let text = reason.text();
        if let Some(mut admission) = session.admission.take() {
            if session.is_handed_over {
                // The other process reports the end.
                admission.forget();
            }
            let bytes = if role == worker_api::rtc::RtcRole::Publish { bytes_in } else { bytes_out };
            admission.note_end(id, session.is_connected(), text, bytes);
        }
        tracing::info!(session = %id, ?role, stream, reason = text, seconds, bytes_in, bytes_out, "session ended");
        // BYE and close_notify, so that the peer need not wait for its time limits. A peer that no longer
        // consents gets nothing at all (RFC 7675 section 5.1).
        if session.transport.consent_lost_ms.is_none() && !session.is_handed_over {
            for subscription in &session.subscriptions {
                let Some(viewer) = subscription.viewer else { continue };
                let Some(stream) = self.streams.get_mut(subscription.stream) else { continue };
                self.scratch.clear();
                stream.sfu.bye(viewer, text, &mut self.scratch);
                if let Some(transport) = self.transports.get_mut(peer).filter(|_| !self.scratch.is_empty()) {
                    send_rtcp(&mut self.sockets, transport, &self.scratch, ctx.now_ms);
                }
            }
            session.transport.peer.close(ctx.now);
            self.send_transmits(peer, ctx.now_ms);
        }
        self.forget(ctx, peer, reason);
    }

    /// Takes a session out of its streams and out of every table.
    fn forget(&mut self, ctx: &mut Context, peer: PeerId, reason: EndReason) {
        while let Some(session) = self.sessions.get_mut(peer)
            && let Some(publication) = session.publications.pop()
        {
            let source = Source { epoch: publication.epoch, origin: Origin::Peer(peer) };
            self.end_publication(ctx, publication.stream, source);
        }
        while let Some(session) = self.sessions.get_mut(peer)
            && let Some(&Subscription { stream: id, viewer, .. }) = session.subscriptions.last()
        {
            let Some(stream) = self.streams.get_mut(id) else {
                session.subscriptions.pop();
                continue;
            };
            if let Some(viewer) = viewer {
                let stats = stream.sfu.viewer_stats(viewer).unwrap_or_default();
                self.counters.padding_bytes += stats.padding_bytes;
                self.counters.times_behind += stats.times_behind;
                self.counters.switches_up += u64::from(stats.switches_up);
                self.counters.switches_down += u64::from(stats.switches_down);
                stream.sfu.leave(viewer);
            }
            // Only now: where leaving meets a defect it is done once more, with the stream's state reset.
            session.subscriptions.pop();
            self.player_left(ctx, id);
        }
        let Some(session) = self.sessions.remove(peer) else { return };
        for (port, remote) in &session.transport.addresses {
            if self.sockets.ports[*port].unbind(*remote, peer)
                && let Some(passing) = &mut self.passing
            {
                passing.unbound(*port, *remote);
            }
        }
        for ufrag in &session.transport.ufrags {
            self.by_ufrag.remove(ufrag);
        }
        self.by_id.remove(&session.id);
        if let Some(trace) = session.trace {
            trace.end(ctx.now, reason);
        }
        if let Some(pacer) = self.transports.get(peer).and_then(|transport| transport.pacer.as_ref()) {
            self.counters.probes += pacer.stats(ctx.now).probes;
        }
        self.transports.set(peer, None);
        self.columns.close(peer);
        for connection in self.sockets.tcp.of_session(peer) {
            self.close_tcp(ctx, connection);
        }
        ctx.counters.ended.count(reason);
        // Fails when the control side has gone, which ends the process.
        let _ = self.notices.send(RtcNotice::Ended(session.id));
    }

    /// A stream has one player more.
    pub(crate) fn player_joined(&mut self, ctx: &Context, id: PacketStreamId) {
        let publication = &mut self.streams[id].publication;
        publication.players += 1;
        publication.report_watched(ctx);
        self.update_watched(ctx.now, id);
    }

    /// A stream has one player less.
    pub(crate) fn player_left(&mut self, ctx: &mut Context, id: PacketStreamId) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        stream.publication.players -= 1;
        stream.publication.report_watched(ctx);
        if stream.publication.players == 0 {
            stream.publication.unsubscribe(ctx);
            self.update_watched(ctx.now, id);
            self.forget_if_unused(id);
        }
    }

    /// Ends what `source` publishes here. Nothing happens if the stream has a newer source already.
    pub(crate) fn end_publication(&mut self, ctx: &mut Context, id: PacketStreamId, source: Source) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        if !stream.publication.end(ctx, source) {
            return;
        }
        stream.sfu.publisher_ended(ctx.now);
        if stream.is_served {
            self.actions.queue.push_back(Action::ServedEnded(stream.publication.id));
        }
        if source.origin.is_publisher() {
            let stream = stream.publication.id;
            self.actions.queue.push_back(Action::PublicationEnded { stream, epoch: source.epoch });
        }
        self.forget_if_unused(id);
    }

    /// Forgets a stream that is neither published nor played here.
    pub(crate) fn forget_if_unused(&mut self, id: PacketStreamId) {
        if self.streams.get(id).is_some_and(|stream| stream.publication.is_unused())
            && let Some(stream) = self.streams.remove(id)
        {
            self.keep_counts(&stream);
        }
    }

    /// Does something for a session; a defect that makes it panic ends that session, and nothing else.
    pub(super) fn guard(
        &mut self,
        ctx: &mut Context,
        peer: PeerId,
        work: impl FnOnce(&mut Self, &mut Context),
    ) {
        if catch_unwind(AssertUnwindSafe(|| work(self, ctx))).is_err() {
            self.session_panicked(ctx, peer);
        }
    }

    /// A defect of ours, met by this session's input: the others go on.
    fn session_panicked(&mut self, ctx: &mut Context, peer: PeerId) {
        ctx.counters.panics += 1;
        let Some(session) = self.sessions.get(peer) else { return };
        tracing::error!(session = %session.id, "a defect in the server ended this session");
        let streams: Vec<PacketStreamId> = session.streams().collect();
        if catch_unwind(AssertUnwindSafe(|| self.end(ctx, peer, EndReason::Defect))).is_err() {
            // Saying goodbye met the defect again, in the peer or in a stream: all are given up, without a
            // word.
            for stream in streams {
                self.reset_stream(stream);
            }
            self.forget(ctx, peer, EndReason::Defect);
        }
    }
}
