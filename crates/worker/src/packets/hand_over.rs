//! Sessions that go on in another process: said there by the old one, resumed by the new one.
//!
//! ```text
//! old: hand_over ─▶ frozen ─▶ let_go: those that the other has are silent, the others go on
//! new: freeze ─▶ Worker::resume_session ─▶ resume ─▶ go_on, when the old one has let go
//! ```
//! A session that was said and is not decided about is [handed over](Session::is_handed_over) in
//! both processes, and neither sends anything to it: an index of SRTP is used by one of the two
//! only. So is the connection of one by ICE-TCP, with what has come of a frame and what its socket
//! has not taken.

use std::net::SocketAddr;

use rtc::SrtpKeys;
use sfu::Pacer;
use srtp::{InboundContext, OutboundContext};

use super::Packets;
use super::inputs;
use super::session::{Route, SendTransport, Session, State};
use crate::context::Context;
use crate::hand_over::HandOver;
use crate::ids::PeerId;
use crate::net::{Interest, TcpSocket, Token};
use crate::registry::Published;
use crate::stats::columns::packets_reference;
use worker_api::EndReason;
use worker_api::columns::NO_STREAM;
use worker_api::hand_over::{HandedIceTcp, HandedSession, HandedSrtp, IceTcpSocket};
use worker_api::rtc::{RtcNotice, RtcRole};
use worker_api::snapshot::SessionId;

/// Turns in which queued video has to have left. What is left then is lost, as in a network.
const TURNS_MAX: usize = 64;

impl Packets {
    /// Says what another process needs of the sessions that it can have. Nothing is sent from now
    /// on.
    pub(crate) fn hand_over(&mut self, ctx: &mut Context, over: &mut HandOver) {
        self.forward(ctx);
        for _ in 0..TURNS_MAX {
            if !self.has_video_to_send() {
                break;
            }
            self.send_video(ctx);
            self.flush(ctx);
        }
        self.flush(ctx);
        for peer in self.sessions.ids() {
            let Some(session) = self.handed(ctx, peer) else { continue };
            if session.is_by_tcp() {
                let Some(connection) = self.hand_over_connection(ctx, peer, &session, over) else { continue };
                over.handed.ice_tcp.push(connection);
            }
            over.handed.sessions.push(Box::new(session));
            self.sessions[peer].is_handed_over = true;
            if let Some(transport) = self.transports.get_mut(peer) {
                transport.paused = true;
            }
        }
        self.is_frozen = true;
    }

    /// The connection that a session's media goes over; neither process reads or writes it from now
    /// on. `None` if it has ended, or cannot go over.
    fn hand_over_connection(
        &mut self,
        ctx: &Context,
        peer: PeerId,
        handed: &HandedSession,
        over: &mut HandOver,
    ) -> Option<IceTcpSocket> {
        let Route::Tcp { connection, path } = self.transports.get(peer)?.route else { return None };
        let tcp = self.sockets.tcp.get_mut(connection).filter(|tcp| tcp.path == path)?;
        // All that its socket takes: the less has to go over. One that is broken ends here, when it
        // is read.
        tcp.write().ok()?;
        if path != handed.ice.path || tcp.unsent().len() as u64 > over.room {
            return None;
        }
        let socket = over.duplicate(&tcp.socket, tcp.unsent().len())?;
        ctx.events.remove(&tcp.socket);
        tcp.is_handed_over = true;
        let (received, unsent) = (tcp.deframer.rest().to_vec(), tcp.unsent().to_vec());
        Some(IceTcpSocket { connection: HandedIceTcp { session: handed.id, received, unsent }, socket })
    }

    fn handed(&self, ctx: &Context, peer: PeerId) -> Option<HandedSession> {
        let session = self.sessions.get(peer)?;
        let send = self.transports.get(peer).filter(|transport| !transport.paused)?;
        let (State::Connected(inbound), Some(keys)) = (&session.transport.state, &session.keys) else {
            return None;
        };
        let ice = session.transport.peer.established(ctx.now)?;
        let stream = self.streams.get(session.streams().next()?)?;
        let published = &stream.publication;
        let is_bridged = match ctx.directory.published(&published.key) {
            Published::Packets(_) => false,
            Published::Frames(_) => true,
            Published::Nobody => return None,
        };
        let is_of_client = !stream.is_sent_on && published.source.is_some();
        if !is_of_client {
            return None;
        }
        let (publication, subscription) = (session.publications.first(), session.subscriptions.first());
        let tracks = publication.map(|publication| &publication.tracks);
        let tracks = tracks.or(subscription.map(|subscription| &subscription.tracks))?;
        let viewer = subscription.and_then(|subscription| subscription.viewer);
        if session.role == RtcRole::Play && viewer.is_none() {
            return None;
        }
        let left = |at_ms: Option<u64>| at_ms.map(|at_ms| at_ms.saturating_sub(ctx.now_ms));
        Some(HandedSession {
            id: session.id,
            role: session.role,
            app: published.app().to_owned(),
            stream: published.name().to_owned(),
            address: session.address,
            user_agent: session.user_agent.clone(),
            tracks: tracks.to_vec(),
            published: subscription.map(|subscription| subscription.published.to_vec()).unwrap_or_default(),
            bits_per_second_max: session.bits_per_second_max,
            height_max: session.height_max,
            ends_in_ms: left(session.ends_at_ms),
            time_over_in_ms: left(session.time_over_ms),
            admission: session.admission.as_ref().and_then(|admission| admission.handed()),
            ice,
            ufrags: session.transport.ufrags.to_vec(),
            srtp: HandedSrtp::new(
                (&keys.inbound, &keys.outbound),
                inbound.positions(),
                send.outbound.positions(),
            )?,
            publisher: publication.map(|_| stream.sfu.publisher_position(ctx.now)),
            viewer: viewer.map(|viewer| stream.sfu.viewer_position(ctx.now, viewer)).unwrap_or_default(),
            next_number: send.pacer.as_ref().map_or(0, |pacer| pacer.next_number()),
            is_bridged,
        })
    }

    /// Another process has these sessions, in ascending order, which end here without a word. The others go
    /// on: all of them if it has failed. Answers with those that were to end since they were said.
    pub(crate) fn let_go(&mut self, ctx: &mut Context, gone: &[SessionId]) -> Vec<SessionId> {
        self.decide(ctx, |session| gone.binary_search(&session.id).is_err());
        let gone = self.sessions.iter().filter(|(_, session)| session.is_handed_over);
        gone.filter_map(|(_, session)| session.ends_with.map(|_| session.id)).collect()
    }

    /// Whether another process has this session, or it is not decided which one has it.
    pub(crate) fn is_handed_over(&self, id: SessionId) -> bool {
        self.find(id).and_then(|peer| self.sessions.get(peer)).is_some_and(|session| session.is_handed_over)
    }

    /// Whether another process has this session.
    pub(crate) fn has_gone(&self, id: SessionId) -> bool {
        !self.is_frozen && self.is_handed_over(id)
    }

    /// This process ends: what becomes of the sessions that are handed over is reported by the other one.
    pub(crate) fn forget_gone(&mut self, now: std::time::Instant) {
        for (_, session) in self.sessions.iter_mut().filter(|(_, session)| session.is_handed_over) {
            if let Some(mut admission) = session.admission.take() {
                admission.forget();
            }
            if let Some(trace) = session.trace.take() {
                trace.end(now, EndReason::Draining);
            }
        }
    }

    /// Whether nothing is sent until it is known which sessions go on here.
    pub(crate) fn is_frozen(&self) -> bool {
        self.is_frozen
    }

    /// Sends nothing until it is known which sessions go on here.
    pub(crate) fn freeze(&mut self) {
        self.is_frozen = true;
    }

    /// The other process has let go of the sessions that were resumed here. Those that were ended there in
    /// the meantime end.
    pub(crate) fn go_on(&mut self, ctx: &mut Context, ended: &[SessionId]) {
        self.steer_by_own_tables();
        self.decide(ctx, |_| true);
        for id in ended {
            self.close(ctx, *id, EndReason::Kicked);
        }
    }

    /// Goes on with some of the sessions that are handed over.
    fn decide(&mut self, ctx: &mut Context, goes_on: impl Fn(&Session) -> bool) {
        self.is_frozen = false;
        let mut to_end = Vec::new();
        for (peer, session) in self.sessions.iter_mut().filter(|(_, session)| session.is_handed_over) {
            if goes_on(session) {
                session.is_handed_over = false;
                if let Some(transport) = self.transports.get_mut(peer) {
                    transport.paused = false;
                }
                to_end.extend(session.ends_with.take().map(|reason| (session.id, reason)));
            }
        }
        let sessions = &self.sessions;
        let goes_on = |peer| sessions.get(peer).is_some_and(|session| !session.is_handed_over);
        for connection in self.sockets.tcp.handed_over(goes_on) {
            let Some(tcp) = self.sockets.tcp.get_mut(connection) else { continue };
            tcp.is_handed_over = false;
            // What has come meanwhile is reported, and whether there is room for what has not left.
            if let Err(error) = ctx.events.add(&tcp.socket, Token::IceTcp(connection), Interest::ReadWrite) {
                tracing::warn!(%error, "ICE-TCP connection not registered");
                self.close_tcp(ctx, connection);
            }
        }
        for (id, reason) in to_end {
            self.close(ctx, id, reason);
        }
    }

    /// Whether all sessions have ended, or are another process's.
    pub(crate) fn are_all_gone(&self) -> bool {
        self.sessions.iter().all(|(_, session)| session.is_handed_over)
    }

    /// Whether this worker has a UDP port with this address.
    pub(crate) fn has_port(&self, local: SocketAddr) -> bool {
        self.sockets.ports.iter().any(|(_, port)| port.local == local)
    }

    /// Has a session, which has been inserted, where it was, with its connection if it is by
    /// ICE-TCP; nothing is sent to it before [`Packets::go_on`]. It ends if that is impossible.
    pub(crate) fn resume(
        &mut self,
        ctx: &mut Context,
        peer: PeerId,
        handed: &HandedSession,
        connection: Option<IceTcpSocket>,
    ) -> Result<(), &'static str> {
        let resumed = self.resume_transport(ctx, peer, handed, connection);
        if resumed.is_err() {
            // The other process says goodbye, and reports the end.
            self.end(ctx, peer, EndReason::Defect);
            return resumed;
        }
        self.join(ctx, peer);
        let subscription = self.sessions.get(peer).and_then(|session| session.subscriptions.first());
        if let Some((stream, viewer)) = subscription.and_then(|of| Some((of.stream, of.viewer?))) {
            self.streams[stream].sfu.resume_viewer(ctx.now, viewer, &handed.viewer);
        }
        self.drive(ctx, peer);
        if let Some(transport) = self.transports.get_mut(peer) {
            transport.paused = true;
        }
        Ok(())
    }

    fn resume_transport(
        &mut self,
        ctx: &mut Context,
        peer: PeerId,
        handed: &HandedSession,
        connection: Option<IceTcpSocket>,
    ) -> Result<(), &'static str> {
        let (inbound, outbound) = handed.srtp.keys().map_err(|_| "its keys cannot be used")?;
        let keys = SrtpKeys { profile: inbound.profile(), inbound, outbound };
        let (mut receives, mut sends) = contexts(&keys).ok_or("its keys cannot be used")?;
        let is_resumed = handed.srtp.received().all(|position| receives.resume(&position).is_ok())
            && handed.srtp.sent().all(|position| sends.resume(&position).is_ok());
        if !is_resumed {
            return Err("its indices cannot be used");
        }
        let path = handed.ice.path;
        let route = match connection.filter(|_| handed.is_by_tcp()) {
            Some(IceTcpSocket { connection, socket }) => {
                let socket = TcpSocket::adopt(socket).map_err(|_| "its socket cannot be used")?;
                let connection = self.sockets.tcp.resume(socket, path, peer, connection);
                Route::Tcp { connection, path }
            }
            None => self.route(peer, &path).ok_or("it has no port, or connection")?,
        };
        let session: &mut Session = &mut self.sessions[peer];
        session.keys = Some(Box::new(keys));
        session.transport.state = State::Connected(Box::new(receives));
        let stream = session.streams().next().map_or(NO_STREAM, packets_reference);
        self.columns.takes_role(peer, session.role.for_stats(), stream);
        let pacer = inputs::pacer(session.tracks(), session.bits_per_second_max, &ctx.settings.rtc);
        let pacer = pacer.filter(|_| !session.subscriptions.is_empty()).map(|input| {
            let mut pacer = Box::new(Pacer::new(ctx.now, input));
            pacer.go_on_with(handed.next_number);
            pacer
        });
        self.transports.set(peer, Some(SendTransport { outbound: sends, paused: false, route, pacer }));
        if let Route::Udp { port, remote } = route {
            self.bind_address(peer, port, remote, &path, ctx.now_ms);
        }
        self.counters.connected += 1;
        // Fails when the control side has gone, which ends the process.
        let _ = self.notices.send(RtcNotice::Connected(handed.id));
        Ok(())
    }
}

fn contexts(keys: &SrtpKeys) -> Option<(InboundContext, OutboundContext)> {
    let config = srtp::Config::default();
    let inbound = InboundContext::new(&config, std::slice::from_ref(&keys.inbound)).ok()?;
    Some((inbound, OutboundContext::new(&config, std::slice::from_ref(&keys.outbound)).ok()?))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;
    use std::time::Duration;

    use rtc::sdp::{Feedback, Format, IceCredentials, Source, TrackDescription};
    use rtc::{Established, Path};
    use rtp::extension::ExtensionMap;
    use rtp::payload::{Codec, MediaKind};
    use srtp::{InboundPosition, MasterKey, OutboundPosition, Profile, UsedIndices};

    use super::*;
    use crate::event_loop::Worker;
    use crate::net::Readiness;
    use crate::net::tests::connected;
    use crate::packets::panic_tests::worker;
    use worker_api::hand_over::{HandedOver, HandedSessions};

    /// A session as another process hands it over, whose client is at a port of 192.0.2.1.
    pub(crate) fn session(worker: &Worker, role: RtcRole, client: u16) -> Box<HandedSession> {
        let key = |byte: u8| MasterKey::new(Profile::AeadAes128Gcm, &[byte; 16], &[9; 12]).expect("a key");
        let ice =
            |ufrag: &str| IceCredentials::new(ufrag, "0123456789012345678901234567").expect("credentials");
        let (_, port) = worker.packets.sockets.ports.iter().next().expect("a port");
        let path = Path::udp(port.local, ([192, 0, 2, 1], client).into());
        let ufrag = format!("local{client}");
        let indices = Some(UsedIndices { highest: 70_000, recent: 0b1011 });
        let received = InboundPosition { ssrc: 1, rtp: indices, rtcp: indices };
        let sent = OutboundPosition { ssrc: 2, rtp: indices, rtcp_next: 77 };
        let srtp = HandedSrtp::new((&key(1), &key(2)), [received].into_iter(), [sent].into_iter());
        Box::new(HandedSession {
            id: SessionId::new(0, client.into()),
            role,
            app: "live".to_owned(),
            stream: "a".to_owned(),
            address: "192.0.2.1:9".parse().expect("an address"),
            user_agent: Some("a browser".into()),
            tracks: Vec::new(),
            published: Vec::new(),
            bits_per_second_max: Some(500_000),
            height_max: Some(720),
            ends_in_ms: Some(60_000),
            time_over_in_ms: None,
            admission: None,
            ice: Established {
                local_ice: ice(&ufrag),
                remote_ice: ice("remote"),
                path,
                checked: Duration::from_secs(2),
                proven: Some(path),
                seen: vec![(1, 2), (3, 4)],
            },
            ufrags: vec![ufrag.into()],
            srtp: srtp.expect("a profile of DTLS"),
            publisher: (role == RtcRole::Publish).then(Default::default),
            viewer: Vec::new(),
            next_number: if role == RtcRole::Play { 4_711 } else { 0 },
            is_bridged: false,
        })
    }

    /// What it says of its sessions to another process.
    pub(crate) fn hand_over(worker: &mut Worker) -> HandedOver {
        let mut over = HandOver::new();
        worker.packets.hand_over(&mut worker.ctx, &mut over);
        over.handed
    }

    /// A worker with a publisher and two viewers of another process.
    fn resumed() -> (Worker, HandedSessions, Vec<SessionId>) {
        resumed_with(&[])
    }

    /// The same, each of these tracks.
    fn resumed_with(tracks: &[TrackDescription]) -> (Worker, HandedSessions, Vec<SessionId>) {
        let (mut worker, mut noted) = worker();
        let roles = [(RtcRole::Publish, 5), (RtcRole::Play, 8), (RtcRole::Play, 6)];
        let mut sessions = roles.map(|(role, client)| session(&worker, role, client)).to_vec();
        for session in &mut sessions {
            session.tracks = tracks.to_vec();
            session.published = (0..tracks.len()).collect();
        }
        let mut ids: Vec<_> = sessions.iter().map(|session| session.id).collect();
        worker.await_sessions(8);
        assert_eq!(worker.resume_sessions(sessions.clone(), Vec::new()), ids);
        for id in &ids {
            assert_eq!(noted.try_recv(), Ok(RtcNotice::Connected(*id)));
        }
        ids.sort_unstable();
        (worker, sessions, ids)
    }

    #[test]
    fn sessions_go_on_with_all_that_was_said_of_them() {
        let (mut worker, said, ids) = resumed();
        worker.packets.go_on(&mut worker.ctx, &[]);
        assert_eq!(hand_over(&mut worker).sessions, said);
        assert!(worker.ctx.next_session_id() > ids[2], "no id is given twice");
        let (_, port) = worker.packets.sockets.ports.iter().next().expect("a port");
        let known = said.iter().map(|session| port.session_at(session.ice.path.remote));
        let peers: Vec<_> = ids.iter().map(|id| worker.packets.find(*id)).collect();
        assert_eq!(known.collect::<Vec<_>>(), [peers[0], peers[2], peers[1]]);
        assert!(peers.iter().all(Option::is_some));
    }

    #[test]
    fn nothing_is_sent_until_it_is_known_which_process_has_them() {
        let (mut worker, said, ids) = resumed();
        let is_paused = |worker: &Worker| {
            let paused = ids.iter().map(|id| {
                let peer = worker.packets.find(*id).expect("it is there");
                worker.packets.transports.get(peer).expect("it is connected").paused
            });
            paused.collect::<Vec<_>>()
        };
        assert!(is_paused(&worker) == [true; 3] && worker.packets.is_frozen);
        worker.packets.go_on(&mut worker.ctx, &[]);
        assert!(is_paused(&worker) == [false; 3] && !worker.packets.is_frozen);
        hand_over(&mut worker);
        assert!(is_paused(&worker) == [true; 3] && worker.packets.is_frozen);
        assert_eq!(worker.packets.let_go(&mut worker.ctx, &[]), []);
        assert!(is_paused(&worker) == [false; 3] && !worker.packets.is_frozen);
        assert_eq!(hand_over(&mut worker).sessions, said, "and once more");
    }

    #[test]
    fn what_comes_by_tcp_waits_as_datagrams_do() {
        let (mut worker, _noted) = worker();
        let (server, mut client) = connected();
        let (local, remote) = (server.local_addr().expect("bound"), server.peer_addr().expect("connected"));
        let tcp = &mut worker.packets.sockets.tcp;
        let id = tcp.insert(server.into(), local, remote, 0).expect("room");
        client.write_all(&[0, 9, 1]).expect("room");
        let token = Token::IceTcp(id);
        let comes = [Readiness { token, readable: true, writable: true, closed: false }];
        let taken = |worker: &Worker| worker.packets.sockets.tcp.get(id).map(|tcp| tcp.deframer.rest().len());
        // The system takes its time.
        let next = |worker: &Worker| worker.packets.sockets.tcp.get(id)?.socket.first_byte().ok();
        while next(&worker) != Some(Some(0)) {}
        worker.datagrams_wait_until_ms = worker.ctx.now_ms + 1_000;
        worker.turn(&comes);
        worker.turn(&[]);
        assert_eq!(taken(&worker), Some(0));
        worker.datagrams_wait_until_ms = 0;
        worker.turn(&[]);
        assert_eq!(taken(&worker), Some(3), "it was reported once, and is not forgotten");
        worker.datagrams_wait_until_ms = worker.ctx.now_ms + 1_000;
        drop(client);
        while next(&worker) != Some(None) {}
        worker.turn(&[Readiness { token, readable: true, writable: true, closed: true }]);
        assert_eq!(taken(&worker), Some(3), "its end waits behind what came before");
        worker.datagrams_wait_until_ms = 0;
        worker.turn(&[]);
        assert_eq!(taken(&worker), None);
    }

    #[test]
    fn what_the_other_process_has_ends_without_a_word() {
        let audio = TrackDescription {
            mid: "0".to_owned(),
            kind: MediaKind::Audio,
            formats: vec![Format {
                payload_type: 111,
                codec: Codec::Opus,
                clock_rate: 48_000,
                channels: 2,
                fmtp: String::new(),
                rtx_payload_type: None,
                feedback: Feedback::default(),
            }],
            extensions: ExtensionMap::default(),
            sources: vec![Source { ssrc: 7, rtx_ssrc: None }],
            extmap_allow_mixed: true,
            rids: Vec::new(),
            red: None,
            fec: None,
        };
        let (mut worker, _, ids) = resumed_with(&[audio]);
        worker.packets.go_on(&mut worker.ctx, &[]);
        hand_over(&mut worker);
        let sent = worker.packets.sockets.sent.bytes;
        let of_another_worker = SessionId::new(1, 1);
        let gone = [ids[0], ids[1], of_another_worker];
        assert_eq!(worker.packets.let_go(&mut worker.ctx, &gone), []);
        assert!(!worker.packets.are_all_gone());
        worker.drain(Duration::from_secs(1));
        assert_eq!(worker.packets.find(ids[2]), None, "it has this one still, and ends it");
        assert!(worker.packets.find(ids[0]).is_some());
        assert!(worker.packets.are_all_gone() && worker.is_drained());
        let goodbye = worker.packets.sockets.sent.bytes - sent;
        assert!((60..120).contains(&goodbye), "that to the one which it has still: {goodbye} bytes");
    }

    #[test]
    fn a_session_that_is_ended_meanwhile_ends_in_the_other_process() {
        let (mut worker, said, ids) = resumed();
        worker.packets.go_on(&mut worker.ctx, &[]);
        hand_over(&mut worker);
        assert!(worker.packets.close(&mut worker.ctx, ids[1], EndReason::Kicked));
        assert!(worker.packets.is_handed_over(ids[1]), "it is not ended here");
        assert_eq!(worker.packets.let_go(&mut worker.ctx, &ids), [ids[1]]);
        let (mut other, _noted) = super::super::panic_tests::worker();
        other.await_sessions(8);
        let moved = said.into_iter().map(|mut of| {
            of.ice.path.local = other.packets.sockets.ports.iter().next().expect("a port").1.local;
            of
        });
        let moved = moved.collect();
        assert_eq!(other.resume_sessions(moved, Vec::new()).len(), 3);
        other.packets.go_on(&mut other.ctx, &[ids[1]]);
        let is_there = ids.iter().map(|id| other.packets.find(*id).is_some());
        assert_eq!(is_there.collect::<Vec<_>>(), [true, false, true]);
    }

    #[test]
    fn a_session_that_is_ended_meanwhile_ends_here_if_the_other_process_has_failed() {
        let (mut worker, _, ids) = resumed();
        worker.packets.go_on(&mut worker.ctx, &[]);
        hand_over(&mut worker);
        assert!(worker.packets.close(&mut worker.ctx, ids[1], EndReason::Kicked));
        assert_eq!(worker.packets.let_go(&mut worker.ctx, &[]), []);
        let is_there = ids.iter().map(|id| worker.packets.find(*id).is_some());
        assert_eq!(is_there.collect::<Vec<_>>(), [true, false, true]);
    }

    #[test]
    fn an_application_with_a_slash_stays_one() {
        let (mut worker, _noted) = worker();
        worker.await_sessions(8);
        let mut publisher = session(&worker, RtcRole::Publish, 5);
        publisher.app = "a/b".to_owned();
        assert_eq!(worker.resume_sessions(vec![publisher.clone()], Vec::new()).len(), 1);
        worker.packets.go_on(&mut worker.ctx, &[]);
        assert_eq!(hand_over(&mut worker).sessions, [publisher]);
    }

    #[test]
    fn a_session_that_cannot_go_on_leaves_nothing() {
        let (mut worker, _noted) = worker();
        worker.await_sessions(8);
        let player = session(&worker, RtcRole::Play, 5);
        assert_eq!(worker.resume_sessions(vec![player.clone()], Vec::new()), [], "nobody publishes");
        let elsewhere = Path::udp("203.0.113.1:1".parse().expect("an address"), player.ice.path.remote);
        let mut publisher = session(&worker, RtcRole::Publish, 6);
        publisher.ice.path = elsewhere;
        assert_eq!(worker.resume_sessions(vec![publisher], Vec::new()), [], "no such port");
        let publisher = session(&worker, RtcRole::Publish, 6);
        let mut again = publisher.clone();
        again.id = SessionId::new(0, 99);
        assert_eq!(
            worker.resume_sessions(vec![publisher.clone(), again], Vec::new()),
            [publisher.id],
            "taken"
        );
        worker.packets.go_on(&mut worker.ctx, &[publisher.id]);
        assert_eq!((worker.packets.sessions.len(), worker.packets.streams.iter().count()), (0, 0));
    }
}
