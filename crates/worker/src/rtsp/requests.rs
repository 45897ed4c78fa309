//! What clients ask for: streams are described, published and played, if they may.

use std::net::SocketAddr;
use std::sync::Arc;

use media::Codec;
use percent_encoding::percent_decode_str;
use rtc::sdp::{Feedback, Format, Source, TrackDescription};
use rtmp::name::query_value;
use rtp::extension::ExtensionMap;
use rtsp::{
    AnnouncedTrack, Credential as Shown, Event, Incoming, IncomingSettings, Offered, Passing, Status, Target,
};

use super::receive::Packet;
use super::{Publishing, RtspLink, Wanted};
use crate::event_loop::Worker;
use crate::frames::stream::Format as WireFormat;
use crate::ids::ConnId;
use crate::packets::inputs;
use crate::proto::connections::Connections;
use crate::proto::session::{Media, PublishPackets, State};
use crate::publication::{Credential, PlayRefusal, PublishRefusal};
use crate::registry::{Origin, PublishedTracks, Taken};
use crate::stats::columns::packets_reference;
use worker_api::EndReason;
use worker_api::auth::{Action, Denied};
use worker_api::rtc::RtcRefusal;
use worker_api::snapshot::Role;

/// How long a stream with one track may have another that is not known yet, milliseconds.
const OTHER_TRACK_MS: u64 = 1_000;

/// An answer that is not 200.
struct Refused {
    status: Status,
    reason: &'static str,
    /// It may show something else.
    challenge: Option<Offered>,
}

impl Connections {
    /// What a client asks for next by RTSP.
    pub(crate) fn next_of_rtsp(&mut self, conn: ConnId) -> Option<Event> {
        let session = self.sessions.get_mut(conn)?;
        let State::Rtsp(link) = &mut session.state else { return None };
        let event = link.machine.poll_event();
        if session.user_agent.is_none() {
            session.user_agent = link.machine.user_agent().map(Box::from);
        }
        event
    }
}

impl Worker {
    /// A client asks for something, or sends a packet.
    pub(crate) fn rtsp_event(&mut self, conn: ConnId, event: Event) {
        match event {
            Event::Media { track, is_rtcp, range } => {
                self.rtsp_packet(conn, track, is_rtcp, Packet::Interleaved(range.0, range.1));
                return;
            }
            Event::Describe(target) => {
                let outcome = self.begin_rtsp(conn, target, Action::Play, Vec::new());
                let outcome = outcome.and_then(|()| self.subscribe_rtsp(conn));
                self.refuse_rtsp(conn, outcome);
            }
            Event::Announce(target, tracks) => {
                let outcome = self.begin_rtsp(conn, target, Action::Publish, tracks);
                if outcome.is_ok()
                    && let Some(link) = self.rtsp_link(conn)
                {
                    link.machine.accept();
                }
                self.refuse_rtsp(conn, outcome);
            }
            Event::Record => {
                let outcome = self.record_rtsp(conn);
                self.refuse_rtsp(conn, outcome);
            }
            Event::Play => {
                let outcome = self.play_rtsp(conn);
                self.refuse_rtsp(conn, outcome);
            }
            Event::Pause => {
                let Some(link) = self.rtsp_link(conn) else { return };
                link.is_on = false;
                if let Some(player) = self.connections.sessions[conn].player() {
                    self.frames.pause(player, true);
                }
            }
            Event::Teardown => self.leave_rtsp(conn),
        }
        if let Some(session) = self.connections.sessions.get_mut(conn) {
            session.collect_output();
        }
    }

    /// What it publishes or plays is over, and its connection stays.
    fn leave_rtsp(&mut self, conn: ConnId) {
        if !self.finish_message(conn) {
            return self.remove(conn, EndReason::StreamClosedByPeer);
        }
        self.detach(conn, EndReason::StreamClosedByPeer);
        if let State::Rtsp(link) = &mut self.connections.sessions[conn].state {
            self.rtsp.ended(conn, link);
            (link.wanted, link.publishing, link.begun_since_ms) = (None, None, None);
            (link.is_on, link.is_apart) = (false, false);
            link.out.clear();
            link.partial.clear();
        }
    }

    /// Notes what a client wants, if it may have it.
    fn begin_rtsp(
        &mut self,
        conn: ConnId,
        target: Target,
        action: Action,
        tracks: Vec<AnnouncedTrack>,
    ) -> Result<(), Refused> {
        if !matches!(self.connections.sessions[conn].media, Media::None) {
            // Another description of what it does not play yet, for which it gets no more time.
            let begun_since_ms = self.rtsp_link(conn).and_then(|link| link.begun_since_ms);
            // Its hook has been asked about what it wants now.
            let hook = self.connections.sessions[conn].hook.take();
            self.leave_rtsp(conn);
            if let Some(session) = self.connections.sessions.get_mut(conn) {
                session.hook = hook;
            }
            let Some(link) = self.rtsp_link(conn) else { return Ok(()) };
            link.begun_since_ms = begun_since_ms;
        }
        let Some((app, name, token)) = self.read_target(&target, action) else {
            return Err(Refused::plain(Status::NotFound, "the name is not a valid one"));
        };
        let wanted = (&*app, &*name);
        match action {
            Action::Publish => self
                .may_publish(conn, wanted, token.as_deref())
                .map_err(|refusal| self.publish_refused_rtsp(wanted, refusal))?,
            _ => self
                .may_play(conn, wanted, token.as_deref())
                .map_err(|refusal| self.play_refused_rtsp(wanted, refusal))?,
        }
        let since_ms = self.ctx.now_ms;
        let Some(link) = self.rtsp_link(conn) else { return Ok(()) };
        link.wanted = Some(Wanted { app, name, token, tracks, since_ms });
        Ok(())
    }

    /// The stream that a URL names, and the token that is shown for it.
    fn read_target(&self, target: &Target, action: Action) -> Option<(String, String, Option<String>)> {
        // What is no UTF-8 is no name.
        let path = percent_decode_str(&target.path).decode_utf8().unwrap_or_default();
        let (app, name) = path.rsplit_once('/').unwrap_or_default();
        self.ctx.settings.names.check(app, name).ok()?;
        let token = match (query_value(&target.query, "token"), &target.credential) {
            (Some(token), _) => Some(token),
            (None, Some(Shown::Token(token))) => Some(token.clone()),
            (None, Some(shown)) => {
                let is_known = |token: &str| shown.knows(token);
                let proven = self.ctx.policy.proven(action, app, name, is_known);
                // What shows no token is a wrong one.
                Some(proven.unwrap_or_default().to_owned())
            }
            (None, None) => None,
        };
        Some((app.to_owned(), name.to_owned(), token))
    }

    /// What a client wants that a hook may have to be asked about, and the token that it shows.
    pub(crate) fn asked_by_rtsp(&self, event: &Event) -> Option<(Action, String, String, Option<String>)> {
        let (target, action) = match event {
            Event::Describe(target) => (target, Action::Play),
            Event::Announce(target, _) => (target, Action::Publish),
            _ => return None,
        };
        let (app, name, token) = self.read_target(target, action)?;
        Some((action, app, name, token))
    }

    /// A stream is to be described: it comes to this worker, and is not played yet.
    fn subscribe_rtsp(&mut self, conn: ConnId) -> Result<(), Refused> {
        let Some(Wanted { app, name, token, .. }) = self.rtsp_link(conn).and_then(|link| link.wanted.take())
        else {
            return Ok(());
        };
        let outcome = self.play(conn, (&app, &name), token.as_deref(), WireFormat::Rtsp);
        let now_ms = self.ctx.now_ms;
        outcome.map_err(|refusal| self.play_refused_rtsp((&app, &name), refusal))?;
        if let Some(player) = self.connections.sessions[conn].player() {
            self.frames.pause(player, true);
        }
        if let Some(link) = self.rtsp_link(conn) {
            link.begun_since_ms.get_or_insert(now_ms);
            link.wanted = Some(Wanted { app, name, token, tracks: Vec::new(), since_ms: now_ms });
            self.rtsp.describing.push(conn);
        }
        Ok(())
    }

    /// Describes streams to those that wait for it, if enough is known of them by now.
    pub(crate) fn describe_rtsp(&mut self) {
        if self.rtsp.describing.is_empty() {
            return;
        }
        for conn in std::mem::take(&mut self.rtsp.describing) {
            let Some(session) = self.connections.sessions.get_mut(conn) else { continue };
            let (Some(player), State::Rtsp(link)) = (session.player(), &mut session.state) else { continue };
            let Some(player) = self.frames.players.get(player) else { continue };
            let Some(wanted) = &link.wanted else { continue };
            let stream = &mut self.frames.streams[player.stream];
            let live_ms = self.ctx.now_ms.saturating_sub(stream.publication.live_since_ms);
            let is_old = stream.publication.source.is_some() && live_ms >= OTHER_TRACK_MS;
            let waited = self.ctx.now_ms.saturating_sub(wanted.since_ms);
            let channel = stream.channels[WireFormat::Rtsp as usize].as_mut();
            let Some(outgoing) = channel.and_then(|channel| channel.rtp.as_mut()) else { continue };
            let outgoing = &mut outgoing.outgoing;
            let tracks: Vec<usize> = outgoing.tracks().collect();
            let is_known = tracks.len() == rtsp::TRACKS || !tracks.is_empty() && is_old;
            if is_known && let Some(text) = outgoing.description(&wanted.name) {
                link.machine.describe(&text, &tracks);
            } else if u128::from(waited) > self.ctx.settings.handshake_timeout.as_millis() / 2 {
                let (status, reason) = match is_old {
                    true => (Status::NotAcceptable, "nothing of the stream is carried by RTSP"),
                    false => (Status::NotFound, PlayRefusal::NotFound.reason()),
                };
                self.refuse_rtsp(conn, Err(Refused::plain(status, reason)));
                self.leave_rtsp(conn);
            } else {
                self.rtsp.describing.push(conn);
                continue;
            }
            if let Some(session) = self.connections.sessions.get_mut(conn) {
                session.collect_output();
            }
            // What has come behind the request is next.
            self.handle_requests(conn, None);
        }
    }

    /// It plays from now on.
    fn play_rtsp(&mut self, conn: ConnId) -> Result<(), Refused> {
        let session = &mut self.connections.sessions[conn];
        let (Some(player), State::Rtsp(link)) = (session.player(), &mut session.state) else {
            return Err(Refused::plain(Status::SessionNotFound, "nothing was described"));
        };
        let Some(stream) = self.frames.players.get(player).map(|player| player.stream) else { return Ok(()) };
        link.set_up(session.address.ip());
        let channel = self.frames.streams[stream].channels[WireFormat::Rtsp as usize].as_ref();
        let described = channel.and_then(|channel| channel.rtp.as_ref());
        let count = described.map_or(0, |rtp| rtp.outgoing.tracks().count());
        link.is_apart |= link.machine.setups().len() < count;
        (link.is_on, link.begun_since_ms, link.pending) = (true, None, None);
        link.machine.accept();
        session.collect_output();
        self.bind_rtsp(conn);
        self.rtsp.counters.played += 1;
        self.frames.pause(player, false);
        self.write(conn);
        Ok(())
    }

    /// It publishes from now on.
    fn record_rtsp(&mut self, conn: ConnId) -> Result<(), Refused> {
        let address = self.connections.sessions[conn].address;
        let (now, settings) = (self.ctx.now, IncomingSettings { delay_max: self.ctx.settings.rtsp.reorder });
        let now_ms = self.ctx.now_ms;
        let Some(link) = self.rtsp_link(conn) else { return Ok(()) };
        link.media_ms = now_ms;
        if link.publishing.is_some() {
            // It goes on after a pause.
            link.is_on = true;
            link.machine.accept();
            return Ok(());
        }
        link.set_up(address.ip());
        if self.has_ports_of_another(conn) {
            return Err(Refused::plain(Status::UnsupportedTransport, "another session has these ports"));
        }
        let Some(wanted) = self.rtsp_link(conn).and_then(|link| link.wanted.take()) else {
            return Err(Refused::plain(Status::NotValidInThisState, "nothing was announced"));
        };
        let name = (&*wanted.app, &*wanted.name);
        // Where bridges are off, nobody but WebRTC could play packets.
        let has_bridge = self.ctx.settings_for(&wanted.app).bridge.enabled;
        let publishing = match as_packets(&wanted.tracks).filter(|_| has_bridge) {
            Some(tracks) => self.publish_packets(conn, &wanted, tracks),
            None => self
                .publish(conn, name, Credential::Token(wanted.token.as_deref()))
                .map(|()| Publishing::Frames(Box::new(Incoming::new(&wanted.tracks, settings, now)))),
        };
        let publishing = publishing.map_err(|refusal| self.publish_refused_rtsp(name, refusal))?;
        let Some(link) = self.rtsp_link(conn) else { return Ok(()) };
        link.publishing = Some(publishing);
        (link.is_on, link.pending) = (true, None);
        link.machine.accept();
        self.bind_rtsp(conn);
        self.rtsp.publishers.push(conn);
        self.rtsp.counters.published += 1;
        Ok(())
    }

    /// Makes it the publisher of packets that go on as they come.
    fn publish_packets(
        &mut self,
        conn: ConnId,
        wanted: &Wanted,
        tracks: Vec<TrackDescription>,
    ) -> Result<Publishing, PublishRefusal> {
        let Wanted { app, name, token, .. } = wanted;
        if self.ctx.draining_until.is_some() {
            return Err(PublishRefusal::Draining);
        }
        let (id, address) = (self.connections.sessions[conn].id, self.connections.sessions[conn].address);
        let key = format!("{app}/{name}");
        let tracks: PublishedTracks = tracks.into();
        let claim = self.may_publish(conn, (app, name), token.as_deref()).and_then(|()| {
            self.claim_packets(&key, app, &tracks).map_err(|refusal| match refusal {
                RtcRefusal::TakenElsewhere => PublishRefusal::Taken(Taken::Elsewhere),
                _ => PublishRefusal::Taken(Taken::Here),
            })
        });
        let refused = claim.as_ref().err().map(|refusal| refusal.reason());
        self.trace_publish(conn, &key, refused);
        let claim = claim?;
        let stream = self.claimed_packets(&claim, (app, name), &tracks);
        let input = inputs::publisher(&tracks);
        self.packets.streams[stream].sfu.publisher_started(self.ctx.now, claim.epoch.0, input);
        self.connections.sessions[conn].media =
            Media::PublishPackets(PublishPackets { stream, epoch: claim.epoch });
        self.connections.columns.takes_role(conn, Role::Publisher, packets_reference(stream));
        self.start_packets(&claim, stream, Origin::Rtsp(conn), Arc::clone(&tracks));
        self.note_published(conn);
        tracing::info!(session = %id, %address, stream = key, "publisher started, packets as they come");
        let ssrcs: Vec<Option<u32>> = ssrcs_of(&wanted.tracks).collect();
        Ok(Publishing::Packets(Box::new(Passing::new(&wanted.tracks, &ssrcs, self.ctx.now))))
    }

    /// Whether what comes from its ports would be taken to be of another session at the same address.
    fn has_ports_of_another(&self, conn: ConnId) -> bool {
        let State::Rtsp(link) = &self.connections.sessions[conn].state else { return false };
        let Some(udp) = link.udp else { return false };
        let is_of_another = |at: usize, address: SocketAddr| {
            let known = self.rtsp.by_address.get(&(2 * udp.pair + at, address));
            known.is_some_and(|(known, _)| *known != conn)
        };
        link.addresses.iter().any(|addresses| {
            let mut addresses = addresses.iter().enumerate();
            addresses.any(|(at, address)| address.is_some_and(|address| is_of_another(at, address)))
        })
    }

    /// Whoever is at the ports of a session sends for it.
    fn bind_rtsp(&mut self, conn: ConnId) {
        // It may have had others before a pause.
        self.rtsp.unbind(conn);
        let State::Rtsp(link) = &self.connections.sessions[conn].state else { return };
        let Some(udp) = link.udp else { return };
        for (track, addresses) in link.addresses.iter().enumerate() {
            for (at, address) in addresses.iter().enumerate() {
                let Some(address) = address else { continue };
                // Who came first keeps it: an address of another cannot be taken from it.
                self.rtsp.by_address.entry((2 * udp.pair + at, *address)).or_insert((conn, track));
            }
        }
    }

    /// Nobody has published in time what a client waits for the description of.
    pub(crate) fn describe_nothing(&mut self, conn: ConnId) {
        let is_waiting = self.rtsp_link(conn).is_some_and(|link| link.machine.is_asked());
        if is_waiting {
            let reason = EndReason::NoPublisher.text();
            self.refuse_rtsp(conn, Err(Refused::plain(Status::NotFound, reason)));
            self.connections.sessions[conn].collect_output();
        }
    }

    fn refuse_rtsp(&mut self, conn: ConnId, outcome: Result<(), Refused>) {
        let Err(Refused { status, reason, challenge }) = outcome else { return };
        self.rtsp.counters.refused += 1;
        let Some(session) = self.connections.sessions.get(conn) else { return };
        tracing::info!(session = %session.id, address = %session.address, ?status, reason, "RTSP client refused");
        let Some(link) = self.rtsp_link(conn) else { return };
        match challenge {
            Some(offered) => link.machine.challenge(offered, reason),
            None => link.machine.refuse(status, reason),
        }
    }

    fn denied_rtsp(&self, action: Action, (app, name): (&str, &str), denied: Denied) -> Refused {
        let digest = self.ctx.policy.takes_proofs(action, app, name);
        let challenge = denied.challenge().map(|_| Offered { basic: true, digest });
        let status = if denied.is_temporary() { Status::ServiceUnavailable } else { Status::Forbidden };
        Refused { status, reason: denied.reason(), challenge }
    }

    fn publish_refused_rtsp(&self, name: (&str, &str), refusal: PublishRefusal) -> Refused {
        let status = match refusal {
            PublishRefusal::Denied(denied) => return self.denied_rtsp(Action::Publish, name, denied),
            PublishRefusal::Taken(_) => Status::Forbidden,
            PublishRefusal::Overloaded(_) | PublishRefusal::Draining => Status::ServiceUnavailable,
        };
        Refused::plain(status, refusal.reason())
    }

    fn play_refused_rtsp(&self, name: (&str, &str), refusal: PlayRefusal) -> Refused {
        let status = match refusal {
            PlayRefusal::Denied(denied) => return self.denied_rtsp(Action::Play, name, denied),
            PlayRefusal::NotFound => Status::NotFound,
            PlayRefusal::NotFrames | PlayRefusal::NotCarried(_) => Status::NotAcceptable,
            PlayRefusal::Overloaded(_) | PlayRefusal::Draining => Status::ServiceUnavailable,
        };
        Refused::plain(status, refusal.reason())
    }

    pub(super) fn rtsp_link(&mut self, conn: ConnId) -> Option<&mut RtspLink> {
        match &mut self.connections.sessions.get_mut(conn)?.state {
            State::Rtsp(link) => Some(link),
            _ => None,
        }
    }
}

/// SSRCs that packets of announced tracks get inside this server, of those that are carried.
fn ssrcs_of(tracks: &[AnnouncedTrack]) -> impl Iterator<Item = Option<u32>> + '_ {
    (1..).zip(rtsp::carried(tracks)).map(|(ssrc, is_carried)| is_carried.then_some(ssrc))
}

/// Announced tracks as WebRTC describes them, if all that are carried can go on as they come.
fn as_packets(tracks: &[AnnouncedTrack]) -> Option<Vec<TrackDescription>> {
    let carried = tracks.iter().zip(ssrcs_of(tracks)).filter_map(|(track, ssrc)| Some((track, ssrc?)));
    let described = carried.map(|(track, ssrc)| {
        track.passes_on().then(|| TrackDescription {
            mid: String::new(),
            kind: track.kind,
            formats: vec![Format {
                payload_type: track.payload_type,
                codec: track.codec,
                clock_rate: track.clock_rate,
                channels: if track.codec == Codec::Opus { 2 } else { 1 },
                fmtp: track.passed_fmtp(),
                rtx_payload_type: None,
                feedback: Feedback::default(),
            }],
            extensions: ExtensionMap::default(),
            sources: vec![Source { ssrc, rtx_ssrc: None }],
            extmap_allow_mixed: false,
            rids: Vec::new(),
            red: None,
            fec: None,
        })
    });
    described.collect()
}

impl Refused {
    fn plain(status: Status, reason: &'static str) -> Self {
        Self { status, reason, challenge: None }
    }
}
