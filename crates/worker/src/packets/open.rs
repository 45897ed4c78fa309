//! Sessions begin and end: what the control side asks for, who publishes and who plays.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use rtc::Peer;

use crate::event_loop::Worker;
use crate::mailbox::Crossing;
use crate::packets::inputs;
use crate::packets::session::RtcSession;
use crate::packets::streams::RtcSource;
use crate::registry::{Epoch, Lane, Origin, Published, PublishedTracks, StreamId, Taken, WebrtcAvailability};
use worker_api::rtc::{RtcNotice, RtcOpen, RtcPatch, RtcRefusal, RtcRole};
use worker_api::settings::SecondPublisher;
use worker_api::settings::settings_for;
use worker_api::snapshot::SessionId;

/// A publisher that is heard from in no way for this long gives way to another, milliseconds. One that is there sends
/// media or reports; if it has nothing to send, a check at least every 6 s (RFC 7675 section 5.1), of which one may be lost.
const SILENT_MS: u64 = 13_000;

impl Worker {
    /// Opens a session and answers.
    pub(crate) fn rtc_open(&mut self, mut open: RtcOpen) {
        let reply = std::mem::replace(&mut open.reply, tokio::sync::oneshot::channel().0);
        let opened = self.rtc_make(open);
        // An asker that has given up never told anybody of the session.
        if reply.send(opened).is_err()
            && let Some(index) = opened.ok().and_then(|id| self.rtc.find(id))
        {
            self.rtc_end(index, "nobody waited for the answer");
        }
    }

    fn rtc_make(&mut self, open: RtcOpen) -> Result<SessionId, RtcRefusal> {
        let RtcOpen { role, app, stream, address, user_agent, peer, tracks, published, .. } = open;
        let ufrag: Box<str> = peer.local_ice.ufrag.as_str().into();
        self.rtc_admit()?;
        let peer = Peer::new(peer, self.now).map_err(|error| {
            tracing::warn!(%error, "no peer");
            RtcRefusal::Invalid
        })?;
        self.last_serial += 1;
        let id = SessionId::new(self.parts.index, self.last_serial);
        let tracks: PublishedTracks = tracks.into();
        let attached = match role {
            RtcRole::Publish => self.rtc_publish((&app, &stream), &tracks),
            RtcRole::Play => self.rtc_play((&app, &stream)).map(|stream| (stream, None)),
        };
        let (stream_index, epoch) = attached?;
        let live = self.rtc.streams.slab[stream_index].source.is_some();
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
            received_ms: self.now_ms,
            lost_ms: None,
            waiting_since_ms: (!live).then_some(self.now_ms),
            due: None,
        };
        let index = self.rtc.insert(session, self.now_ms);
        tracing::info!(session = %id, %address, stream = format!("{app}/{stream}"), ?role, "session opened");
        self.rtc.counters.opened += 1;
        self.rtc_drive(index);
        Ok(id)
    }

    fn rtc_admit(&self) -> Result<(), RtcRefusal> {
        if self.draining_until.is_some() {
            return Err(RtcRefusal::Draining);
        }
        if self.rtc.sessions.len() >= self.parts.settings.rtc.sessions_max {
            return Err(RtcRefusal::Full);
        }
        Ok(())
    }

    /// Makes the session that is inserted next the publisher of a stream; what comes from it is `tracks`.
    fn rtc_publish(
        &mut self,
        (app, name): (&str, &str),
        tracks: &PublishedTracks,
    ) -> Result<(usize, Option<Epoch>), RtcRefusal> {
        let key = format!("{app}/{name}");
        let settings = settings_for(&self.parts.settings.applications, app);
        let take_over = settings.second_publisher == SecondPublisher::TakeOver;
        let claim = |worker: &Self| {
            let tracks = Some(Arc::clone(tracks));
            worker.parts.directory.claim(&key, worker.parts.index, take_over, tracks)
        };
        let claim = match claim(self) {
            // An encoder that crashed comes back before its old session has been given up.
            Err(Taken) if self.rtc_contest(&key) => claim(self),
            other => other,
        };
        let claim = claim.map_err(|Taken| RtcRefusal::Taken)?;
        if let Some(home) = claim.replaced.filter(|home| home.worker != self.parts.index) {
            self.tell(home.worker, Crossing::Replaced { stream: claim.id, epoch: home.epoch });
        }
        self.end_older_publisher(claim.id, claim.epoch);
        self.rtc_end_older_publisher(claim.id, claim.epoch);
        let wait = settings.wait_for_publisher;
        let stream = self.rtc.streams.find_or_insert(claim.id, (app, name), wait);
        for &worker in &claim.subscribers {
            let (stream, epoch, tracks) = (claim.id, claim.epoch, Arc::clone(tracks));
            self.tell(worker, Crossing::PacketsStart { stream, epoch, tracks, packets: Vec::new() });
        }
        let input = inputs::publisher(tracks);
        let entry = &mut self.rtc.streams.slab[stream];
        entry.remotes = claim.subscribers;
        entry.packets.publisher_started(self.now, claim.epoch.0, input);
        // Nobody ends between here and the insertion.
        let origin = Origin::Session(self.rtc.sessions.vacant_key());
        self.rtc_start_source(stream, RtcSource { epoch: claim.epoch, origin }, Arc::clone(tracks));
        let waits_here =
            self.streams.find(claim.id).is_some_and(|frames| self.streams.slab[frames].players > 0);
        if waits_here || !claim.bridged.is_empty() {
            self.bridge_to_frames(claim.id);
        }
        Ok((stream, Some(claim.epoch)))
    }

    /// Somebody else wants to publish a stream: if its publisher has fallen silent, it ends. True if it has; one on another
    /// worker ends a moment later, and whoever asks again gets in.
    fn rtc_contest(&mut self, key: &str) -> bool {
        let Some((stream, home)) = self.parts.directory.home(key) else { return true };
        if home.worker != self.parts.index {
            self.tell(home.worker, Crossing::Contested { stream, epoch: home.epoch });
            return false;
        }
        self.rtc_end_silent(stream, home.epoch)
    }

    fn rtc_end_silent(&mut self, id: StreamId, epoch: Epoch) -> bool {
        let Some(stream) = self.rtc.streams.find(id) else { return false };
        let Some(RtcSource { origin: Origin::Session(index), .. }) =
            self.rtc.streams.slab[stream].source.filter(|source| source.epoch == epoch)
        else {
            return false;
        };
        let silent =
            self.rtc.sessions.get(index).is_some_and(|session| self.now_ms - session.received_ms > SILENT_MS);
        if silent {
            self.rtc_end(index, "silent, and another publisher came");
        }
        silent
    }

    /// A source of packets begins, here or on another worker.
    pub(crate) fn rtc_start_source(&mut self, stream: usize, source: RtcSource, tracks: PublishedTracks) {
        let entry = &mut self.rtc.streams.slab[stream];
        entry.source = Some(source);
        entry.tracks = Some(tracks);
        entry.live_since_ms = self.now_ms;
        self.rtc_set_waiting(stream, None);
    }

    /// Whether somebody plays a stream here.
    pub(crate) fn rtc_is_played(&self, stream: usize) -> bool {
        self.rtc.streams.slab[stream].players > 0
    }

    fn rtc_set_waiting(&mut self, stream: usize, since_ms: Option<u64>) {
        for (_, session) in &mut self.rtc.sessions {
            if session.stream == stream && session.role == RtcRole::Play {
                session.waiting_since_ms = since_ms;
            }
        }
    }

    /// The home has said anew what a stream is: it may have turned out to have no video for WebRTC.
    fn rtc_review_video(&mut self, stream: usize) {
        let has_video = |tracks: &PublishedTracks| {
            tracks.iter().any(|track| track.kind == rtp::payload::MediaKind::Video)
        };
        match self.parts.directory.published(&self.rtc.streams.slab[stream].key) {
            Published::Frames(WebrtcAvailability::Tracks(tracks, Some(_))) if has_video(&tracks) => {}
            Published::Frames(WebrtcAvailability::Impossible(_) | WebrtcAvailability::Tracks(_, Some(_))) => {
                self.rtc_end_video_players(stream);
            }
            _ => {}
        }
    }

    /// Ends the players on this worker that wait for a picture of a stream which turned out to have none for them.
    pub(crate) fn rtc_end_video_players(&mut self, stream: usize) {
        let waits = |session: &RtcSession| {
            session.stream == stream
                && session.role == RtcRole::Play
                && session.tracks.iter().any(|track| track.kind == rtp::payload::MediaKind::Video)
        };
        let players: Vec<usize> =
            self.rtc.sessions.iter().filter_map(|(index, session)| waits(session).then_some(index)).collect();
        for player in players {
            self.rtc_end(player, "the video cannot be shown by WebRTC");
        }
    }

    /// Closes this worker's publisher of packets if its publication is older than `epoch`, which replaces it.
    pub(crate) fn rtc_end_older_publisher(&mut self, id: StreamId, epoch: Epoch) {
        let source = self.rtc.streams.find(id).and_then(|stream| self.rtc.streams.slab[stream].source);
        let older = source.filter(|source| source.epoch < epoch);
        if let Some(publisher) = older.and_then(|source| source.origin.session()) {
            self.rtc_end(publisher, "another publisher took over");
        }
    }

    /// Counts a player of a stream in, and gets the stream if this worker does not have it.
    fn rtc_play(&mut self, (app, name): (&str, &str)) -> Result<usize, RtcRefusal> {
        let key = format!("{app}/{name}");
        let worker = self.parts.index;
        let (id, home) = self.parts.directory.subscribe(&key, worker, Lane::Packets);
        let settings = settings_for(&self.parts.settings.applications, app);
        let stream = self.rtc.streams.find_or_insert(id, (app, name), settings.wait_for_publisher);
        let entry = &mut self.rtc.streams.slab[stream];
        entry.players += 1;
        let is_first = entry.players == 1;
        if home.is_none() && entry.wait_for_publisher == Some(Duration::ZERO) {
            self.rtc_leave(stream, None);
            return Err(RtcRefusal::NotFound);
        }
        if let Some(home) = home.filter(|home| is_first && home.worker != worker) {
            self.tell(home.worker, Crossing::PacketsSubscribe(id));
        }
        self.bridge_to_packets(id);
        Ok(stream)
    }

    /// Changes a session; says whether it exists.
    pub(crate) fn rtc_patch(&mut self, id: SessionId, patch: RtcPatch) -> bool {
        let Some(index) = self.rtc.find(id) else { return false };
        let mut changed = false;
        self.rtc_guarded(index, |worker| changed = worker.rtc_change(index, patch));
        changed
    }

    fn rtc_change(&mut self, index: usize, patch: RtcPatch) -> bool {
        let session = &mut self.rtc.sessions[index];
        match patch {
            RtcPatch::Candidates(candidates) => {
                candidates
                    .iter()
                    .for_each(|candidate| session.peer.add_remote_candidate(self.now, candidate));
            }
            RtcPatch::Restart { local, remote, candidates } => {
                let ufrag: Box<str> = local.ufrag.as_str().into();
                if session.peer.restart_ice(self.now, local, remote, &candidates).is_err() {
                    return false;
                }
                session.lost_ms = session.lost_ms.map(|_| self.now_ms);
                if session.ufrags.is_full() {
                    let old = session.ufrags.remove(0);
                    self.rtc.by_ufrag.remove(&old);
                }
                self.rtc.sessions[index].ufrags.push(ufrag.clone());
                self.rtc.by_ufrag.insert(ufrag, index);
            }
        }
        self.rtc_drive(index);
        true
    }

    /// Ends a session by its id; says whether it existed.
    pub(crate) fn rtc_close(&mut self, id: SessionId, reason: &'static str) -> bool {
        let found = self.rtc.find(id);
        if let Some(index) = found {
            self.rtc_guarded(index, |worker| worker.rtc_end(index, reason));
        }
        found.is_some()
    }

    /// Ends a session: the peer is told, its stream is left, and nothing of it stays.
    pub(crate) fn rtc_end(&mut self, index: usize, reason: &'static str) {
        let Some(session) = self.rtc.sessions.get(index) else { return };
        let (id, role, columns) = (session.id, session.role, &self.rtc.columns);
        let (bytes_in, bytes_out) = (columns.bytes_in(index), columns.bytes_out(index));
        let seconds = (self.now_ms - columns.opened_ms(index)) / 1000;
        let stream = self.rtc.streams.slab.get(session.stream).map_or("", |stream| &stream.key);
        tracing::info!(session = %id, ?role, stream, reason, seconds, bytes_in, bytes_out, "session ended");
        self.rtc_say_bye(index, reason);
        self.rtc_leave_all(index);
    }

    /// Takes a session out of its stream and out of every table.
    pub(crate) fn rtc_leave_all(&mut self, index: usize) {
        let Some(session) = self.rtc.sessions.get(index) else { return };
        let (id, role, stream, epoch, viewer) =
            (session.id, session.role, session.stream, session.epoch, session.viewer);
        match (role, epoch) {
            (RtcRole::Publish, Some(epoch)) => self.rtc_unpublish(index, stream, epoch),
            _ => self.rtc_leave(stream, viewer),
        }
        for connection in self.rtc.forget(index) {
            self.rtc_close_tcp(connection);
        }
        let _ = self.rtc.notices.send(RtcNotice::Ended(id));
    }

    /// BYE and close_notify, so that the peer need not wait for its time limits.
    fn rtc_say_bye(&mut self, index: usize, reason: &str) {
        let session = &self.rtc.sessions[index];
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
                self.rtc.send_report(index, &scratch, self.now_ms);
            }
            self.rtc.scratch = scratch;
        }
        self.rtc.sessions[index].peer.close(self.now);
        self.rtc.send_transmits(index, self.now_ms);
    }

    fn rtc_unpublish(&mut self, index: usize, stream: usize, epoch: Epoch) {
        let Some(entry) = self.rtc.streams.slab.get_mut(stream) else { return };
        // Only what is its own: the stream may have a newer source already.
        if entry.source != Some(RtcSource { epoch, origin: Origin::Session(index) }) {
            return;
        }
        self.parts.directory.release(&entry.key, epoch);
        let id = entry.id;
        for worker in std::mem::take(&mut entry.remotes) {
            self.tell(worker, Crossing::PacketsGone { stream: id, epoch });
        }
        self.rtc_end_source(stream);
        self.bridge_source_ended(id, epoch);
    }

    pub(crate) fn rtc_end_source(&mut self, stream: usize) {
        let entry = &mut self.rtc.streams.slab[stream];
        entry.source = None;
        entry.packets.publisher_ended(self.now);
        self.rtc_set_waiting(stream, Some(self.now_ms));
        self.rtc_forget_unused(stream);
    }

    fn rtc_leave(&mut self, stream: usize, viewer: Option<sfu::ViewerId>) {
        let Some(entry) = self.rtc.streams.slab.get_mut(stream) else { return };
        if let Some(viewer) = viewer {
            entry.packets.leave(viewer);
        }
        entry.players -= 1;
        if entry.players > 0 {
            return;
        }
        let id = entry.id;
        let home = self.parts.directory.unsubscribe(&entry.key, self.parts.index, Lane::Packets);
        if let Some(home) = home.filter(|home| home.worker != self.parts.index) {
            self.tell(home.worker, Crossing::PacketsUnsubscribe(id));
        }
        self.rtc_forget_unused(stream);
    }

    fn rtc_forget_unused(&mut self, stream: usize) {
        if self.rtc.streams.slab.get(stream).is_some_and(crate::packets::streams::RtcStream::is_unused) {
            let stream = self.rtc.streams.remove(stream);
            self.rtc_keep_counts(&stream);
        }
    }

    /// What another worker says about a stream of packets. A defect that it meets ends that stream's sessions here.
    pub(crate) fn rtc_crossing(&mut self, from: usize, crossing: Crossing) {
        let of = match &crossing {
            Crossing::PacketsSubscribe(stream) | Crossing::PacketsUnsubscribe(stream) => Some(*stream),
            Crossing::PacketsStart { stream, .. }
            | Crossing::Packet { stream, .. }
            | Crossing::PacketsGone { stream, .. }
            | Crossing::Contested { stream, .. }
            | Crossing::KeyFrameWanted { stream, .. } => Some(*stream),
            _ => None,
        };
        let handled = catch_unwind(AssertUnwindSafe(|| self.rtc_take_crossing(from, crossing)));
        if handled.is_err()
            && let Some(stream) = of.and_then(|id| self.rtc.streams.find(id))
        {
            self.rtc_stream_panicked(stream);
        }
    }

    fn rtc_take_crossing(&mut self, from: usize, crossing: Crossing) {
        match crossing {
            Crossing::PacketsSubscribe(id) => self.rtc_add_remote(from, id),
            Crossing::PacketsUnsubscribe(id) => {
                if let Some(stream) = self.rtc.streams.find(id) {
                    self.rtc.streams.slab[stream].remotes.retain(|&worker| worker != from);
                }
            }
            Crossing::PacketsStart { stream, epoch, tracks, packets } => {
                self.rtc_end_older_publisher(stream, epoch);
                let Some(stream) = self.rtc.streams.find(stream) else { return };
                let newer = |source: RtcSource| source.epoch > epoch;
                if self.rtc.streams.slab[stream].source.is_some_and(newer) {
                    return;
                }
                self.rtc_start_source(stream, RtcSource { epoch, origin: Origin::Worker }, tracks);
                for packet in &packets {
                    // What is refused was known already, or too old by now.
                    let _ = self.rtc.streams.slab[stream].packets.receive_mirrored(self.now, packet);
                }
                self.rtc.touch(stream);
                self.rtc_review_video(stream);
            }
            Crossing::Packet { stream, epoch, packet } => {
                let Some(stream) = self.rtc.streams.find(stream) else { return };
                let entry = &mut self.rtc.streams.slab[stream];
                if entry.source.is_some_and(|source| source.epoch == epoch && !source.origin.is_local()) {
                    let _ = entry.packets.receive_mirrored(self.now, &packet);
                    self.rtc.counters.ring_packets_in += 1;
                    self.rtc.touch(stream);
                }
            }
            Crossing::PacketsGone { stream, epoch } => {
                let Some(stream) = self.rtc.streams.find(stream) else { return };
                let source = self.rtc.streams.slab[stream].source;
                if source != Some(RtcSource { epoch, origin: Origin::Worker }) {
                    return;
                }
                self.rtc_end_source(stream);
            }
            Crossing::Contested { stream, epoch } => {
                self.rtc_end_silent(stream, epoch);
            }
            Crossing::KeyFrameWanted { stream, track } => {
                let Some(index) = self.rtc.streams.find(stream) else { return };
                self.rtc.streams.slab[index].packets.request_key_frame(self.now, track);
                self.rtc.touch(index);
            }
            _ => {}
        }
    }

    pub(crate) fn rtc_add_remote(&mut self, worker: usize, id: StreamId) {
        self.bridge_to_packets(id);
        let Some(stream) = self.rtc.streams.find(id) else { return };
        let entry = &mut self.rtc.streams.slab[stream];
        let source = entry.source.filter(|source| source.origin.is_local());
        let (Some(RtcSource { epoch, .. }), Some(tracks)) = (source, entry.tracks.clone()) else { return };
        if !entry.remotes.contains(&worker) {
            entry.remotes.push(worker);
        }
        let packets = entry.packets.cached(self.now).cloned().collect();
        self.tell(worker, Crossing::PacketsStart { stream: id, epoch, tracks, packets });
    }

    /// A mirror's viewers want a key frame: the home has to ask for it.
    pub(crate) fn rtc_ask_home(&mut self, stream: usize, track: sfu::TrackIndex) {
        let Some(entry) = self.rtc.streams.slab.get(stream) else { return };
        let id = entry.id;
        let home = self.parts.directory.home(&entry.key);
        if let Some((_, home)) = home.filter(|(_, home)| home.worker != self.parts.index) {
            self.tell(home.worker, Crossing::KeyFrameWanted { stream: id, track });
        }
    }
}
