//! Sessions that go on in another process: said here by the old one, gone on with by one of the two.
//!
//! ```text
//! old: hold ─▶ hand_over ─▶ let_go: those that the other has are silent, the others go on
//! new: resume_connection.rs ─▶ go_on_with_sessions, when the old one has let go
//! ```
//! A connection that was said and is not decided about is [handed over](Session::is_handed_over) in both
//! processes: neither reads or writes its socket. The one that goes on puts it into its event queue; the
//! other closes its copy, and says nothing to the peer. WebRTC sessions are in `packets/hand_over.rs`.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::time::Instant;

use crate::event_loop::Worker;
use crate::frames::hand_over::HandedStreams;
use crate::frames::stream::Format;
use crate::ids::{ConnId, FrameStreamId};
use crate::net::TcpSocket;
use crate::proto::connections::Connections;
use crate::proto::session::{HookAnswer, Media, Session, State};
use worker_api::EndReason;
use worker_api::hand_over::HandedOver;
use worker_api::handed_connection::{HandedConnection, HandedMedia, HandedProtocol, HandedSocket};
use worker_api::snapshot::SessionId;

/// Most bytes that all players of a worker take along: they are in memory twice, and media waits
/// meanwhile. Players beyond that go on at a key frame; those in the middle of a message, and those
/// of WebRTC by TCP, connect again.
const PENDING_BYTES_MAX: u64 = 64 << 20;

/// What is handed over, as it comes together.
#[derive(Debug)]
pub(crate) struct HandOver {
    pub(crate) handed: HandedOver,
    /// Bytes that players may still take along.
    pub(crate) room: u64,
    /// Connections left out for want of a file descriptor: each takes two for a moment.
    without_descriptor: usize,
}

impl HandOver {
    pub(crate) fn new() -> Self {
        Self { handed: HandedOver::default(), room: PENDING_BYTES_MAX, without_descriptor: 0 }
    }

    /// A copy of the socket of a connection that takes so many bytes along.
    pub(crate) fn duplicate(&mut self, socket: &TcpSocket, pending: usize) -> Option<OwnedFd> {
        match socket.duplicate() {
            Ok(duplicate) => {
                self.room = self.room.saturating_sub(pending as u64);
                Some(duplicate)
            }
            Err(_) => {
                self.without_descriptor += 1;
                None
            }
        }
    }
}

impl Worker {
    /// What another process needs of the sessions that it can have. Nothing is sent to them from now on.
    pub(crate) fn hand_over(&mut self) -> HandedOver {
        let mut over = HandOver::new();
        self.packets.hand_over(&mut self.ctx, &mut over);
        self.connections.is_decided = false;
        let mut streams = BTreeSet::new();
        for conn in self.connections.sessions.ids() {
            if self.connections.sessions.get(conn).is_some_and(Session::can_go_over) {
                // All that its socket takes: the less has to go over.
                self.write(conn);
            }
            let Some((stream, connection)) = self.handed_connection(conn, over.room) else { continue };
            let session = &mut self.connections.sessions[conn];
            let Some(socket) = session.connection.as_ref().map(|connection| connection.socket()) else {
                continue;
            };
            let Some(duplicate) = over.duplicate(socket, connection.pending.len()) else { continue };
            self.ctx.events.remove(socket);
            session.is_handed_over = true;
            streams.insert(stream);
            if connection.media == HandedMedia::Publish {
                over.handed.bridges.extend(self.handed_bridge(stream));
            }
            over.handed
                .connections
                .push(HandedSocket { connection: Box::new(connection), socket: duplicate });
        }
        let HandOver { mut handed, without_descriptor, .. } = over;
        if without_descriptor > 0 {
            tracing::warn!(
                connections = without_descriptor,
                "not handed over: too few file descriptors (ulimit -n)"
            );
        }
        let streams = streams.into_iter();
        handed.streams = streams.map(|stream| self.frames.hand_over_stream(&self.ctx, stream)).collect();
        handed
    }

    fn handed_connection(&self, conn: ConnId, room: u64) -> Option<(FrameStreamId, HandedConnection)> {
        let session = self.connections.sessions.get(conn)?;
        if !session.can_go_over() || session.waits_for_hook || !session.body.is_empty() {
            return None;
        }
        let (stream, media, pending, format) = match session.media {
            Media::Publish(publish) => {
                let pending = session.pending.rest().to_vec();
                (publish.stream, HandedMedia::Publish, pending, Format::Rtmp)
            }
            Media::Play(id) => {
                let player = self.frames.players.get(id)?;
                let (media, pending) = self.frames.hand_over_player(id, &session.pending, room)?;
                (player.stream, media, pending, player.format)
            }
            Media::None | Media::PublishPackets(_) | Media::Tap(_) => return None,
        };
        let protocol = match &session.state {
            State::Rtmp(rtmp) => HandedProtocol::Rtmp {
                session: Box::new(rtmp.machine.state()?),
                app: rtmp.app.clone(),
                query: rtmp.query.clone(),
                token: rtmp.token.clone(),
            },
            State::HttpBody => HandedProtocol::HttpFlv { chunked: format == Format::FlvChunked },
            State::WebSocket(frames) => HandedProtocol::WebSocketFlv { partial: frames.partial().to_vec() },
            _ => return None,
        };
        let publication = &self.frames.streams.get(stream)?.publication;
        let left = |at_ms: Option<u64>| at_ms.map(|at_ms| at_ms.saturating_sub(self.ctx.now_ms));
        let hook = session.hook.as_ref();
        let admission = hook.and_then(|hook| hook.answer.as_ref().ok()?.handed());
        let connection = HandedConnection {
            id: session.id,
            address: session.address,
            protocol,
            app: publication.app().to_owned(),
            stream: publication.name().to_owned(),
            media,
            pending,
            user_agent: session.user_agent.clone(),
            ends_in_ms: left(session.ends_at_ms),
            time_over_in_ms: left(hook.and_then(|hook| hook.ends_at_ms)),
            admission,
        };
        Some((stream, connection))
    }

    /// Another process has these sessions, in ascending order, which end here without a word. The others go
    /// on: all of them if it has failed. Answers with those that were to end since they were said.
    pub(crate) fn let_go(&mut self, gone: &[SessionId]) -> Vec<SessionId> {
        let mut ended = self.packets.let_go(&mut self.ctx, gone);
        self.decide(|session| gone.binary_search(&session.id).is_err());
        self.connections.is_decided = true;
        let sessions = self.connections.sessions.iter().map(|(_, session)| session);
        let ends = |session: &Session| session.is_handed_over && session.ends_with.is_some();
        ended.extend(sessions.filter(|session| ends(session)).map(|session| session.id));
        ended
    }

    /// The other process has let go of the sessions that were resumed here. Those that were ended there in
    /// the meantime end.
    pub(crate) fn go_on_with_sessions(&mut self, ended: &[SessionId]) {
        self.packets.go_on(&mut self.ctx, ended);
        self.frames.handed = HandedStreams::default();
        self.bridges.handed.clear();
        for (_, session) in self.connections.sessions.iter_mut() {
            if session.is_handed_over && ended.contains(&session.id) {
                session.ends_with = Some(EndReason::Kicked);
            }
        }
        self.decide(|_| true);
    }

    /// Goes on with some of the connections that are handed over.
    fn decide(&mut self, goes_on: impl Fn(&Session) -> bool) {
        for conn in self.connections.sessions.ids() {
            let session = self.connections.sessions.get(conn);
            if session.is_some_and(|session| session.is_handed_over && goes_on(session)) {
                self.go_on_with(conn);
            }
        }
    }

    fn go_on_with(&mut self, conn: ConnId) {
        let now_ms = self.ctx.now_ms;
        let session = &mut self.connections.sessions[conn];
        session.is_handed_over = false;
        // That nothing was read or written is not the peer's doing.
        (session.received_ms, session.written_ms, session.blocked) = (now_ms, now_ms, false);
        let ends_with = session.ends_with.take();
        if let Err(error) = self.connections.register(&self.ctx, conn) {
            let session = self.connections.sessions[conn].id;
            tracing::warn!(%session, %error, "connection not registered");
            return self.remove(conn, EndReason::ConnectionFailed);
        }
        if let Some(reason) = ends_with {
            return self.end(conn, reason);
        }
        if let Some(player) = self.connections.sessions[conn].player() {
            self.frames.go_on_with_player(player, now_ms);
        }
        if let Media::Publish(publish) = &mut self.connections.sessions[conn].media {
            publish.read_at_ms = None;
            let stream = publish.stream;
            self.update_read_interest(stream);
        }
        self.write(conn);
    }

    /// Whether a session is handed over; if so, it ends where it goes on.
    pub(crate) fn ends_later(&mut self, conn: ConnId, reason: EndReason) -> bool {
        let session = self.connections.sessions.get_mut(conn).filter(|session| session.is_handed_over);
        session.map(|session| session.ends_with.get_or_insert(reason)).is_some()
    }
}

impl Connections {
    /// Whether all connections have ended, or are another process's.
    pub(crate) fn are_all_gone(&self) -> bool {
        self.sessions.iter().all(|(_, session)| session.is_handed_over)
    }

    /// Whether another process has this session.
    pub(crate) fn has_gone(&self, id: SessionId) -> bool {
        let is_it = |session: &Session| session.is_handed_over && session.id == id;
        self.is_decided && self.sessions.iter().any(|(_, session)| is_it(session))
    }

    /// This process ends: what becomes of the connections that are handed over is reported by the other one.
    pub(crate) fn forget_gone(&mut self, now: Instant) {
        for (_, session) in self.sessions.iter_mut().filter(|(_, session)| session.is_handed_over) {
            if let Some(HookAnswer { answer: Ok(admission), .. }) = session.hook.as_deref_mut() {
                admission.forget();
            }
            if let Some(trace) = session.trace.take() {
                trace.end(now, EndReason::Draining);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::sync::Arc;

    use rtmp::MediaKind;
    use rtmp::client::{ClientConfig, ClientEvent, ClientSession};
    use rtmp::flv::FlvReader;

    use super::*;
    use crate::net::listen::{Accepted, Door, Entry};
    use crate::net::tests::connected;
    use crate::net::{Readiness, Token};
    use crate::packets::hand_over::tests::session;
    use crate::packets::panic_tests::{open_as, workers};
    use worker_api::auth::{Access, Policy, Rules};
    use worker_api::hand_over::HandedSession;
    use worker_api::rtc::RtcRole;
    use worker_api::settings::WorkerSettings;

    /// Sockets take little, so that players block.
    fn worker() -> Worker {
        let settings = WorkerSettings {
            socket_send_buffer_bytes: Some(16 << 10),
            socket_unsent_bytes_max: 16 << 10,
            ..WorkerSettings::default()
        };
        let mut worker = workers(settings, vec![Vec::new()]).remove(0).0;
        let fallback = Access { anyone: true, ..Access::default() };
        let anyone = || Rules { fallback: fallback.clone(), ..Rules::default() };
        worker.ctx.policy = Arc::new(Policy { publish: anyone(), play: anyone(), ..Policy::default() });
        worker
    }

    /// A turn in which all sockets may have something.
    fn turn(worker: &mut Worker) {
        worker.ctx.now_ms += 50;
        let conns = worker.connections.sessions.ids();
        let ready = |conn| {
            let token = Token::Connection(conn);
            Readiness { token, readable: true, writable: true, closed: false }
        };
        worker.turn(&conns.map(ready).collect::<Vec<_>>());
    }

    /// The client's end of a connection. It does not block.
    trait Client: Read + Write {}
    impl<T: Read + Write> Client for T {}

    fn connect(worker: &mut Worker, door: Door) -> Box<dyn Client> {
        let (server, client) = connected();
        let address = server.peer_addr().expect("an address");
        client.set_nonblocking(true).expect("a socket");
        // What is written leaves at once: turns do not wait.
        client.set_nodelay(true).expect("a socket");
        let entry = Entry { door, tls: false };
        worker.connections.open(&mut worker.ctx, Accepted { entry, socket: server.into(), address });
        Box::new(client)
    }

    fn read_all(socket: &mut dyn Client) -> Vec<u8> {
        let (mut all, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
        loop {
            match socket.read(&mut buffer) {
                Ok(0) => panic!("the connection is closed"),
                Ok(bytes) => all.extend_from_slice(&buffer[..bytes]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return all,
                Err(error) => panic!("the connection has failed: {error}"),
            }
        }
    }

    /// A publisher by RTMP, whose pictures have numbers.
    struct Publisher {
        session: ClientSession,
        socket: Box<dyn Client>,
        next: u32,
    }

    impl Publisher {
        fn begin(worker: &mut Worker) -> Self {
            let url = "rtmp://127.0.0.1/live/a".parse().expect("a URL");
            let session = ClientSession::publish(&url, &ClientConfig::default(), 1);
            let mut publisher = Self { session, socket: connect(worker, Door::Rtmp), next: 0 };
            for _ in 0..100 {
                publisher.flush();
                turn(worker);
                let came = read_all(&mut *publisher.socket);
                publisher.session.handle_input(&came).expect("RTMP");
                if matches!(publisher.session.poll_event(), Some(ClientEvent::Started)) {
                    return publisher;
                }
            }
            panic!("it does not begin");
        }

        /// Writes what the socket takes.
        fn flush(&mut self) {
            while let Ok(bytes @ 1..) = self.socket.write(self.session.output()) {
                self.session.output().drain(..bytes);
            }
        }

        fn send(&mut self, is_key: bool, bytes: usize) {
            let mut body = vec![if is_key { 0x17 } else { 0x27 }, 1, 0, 0, 0];
            body.extend_from_slice(&self.next.to_be_bytes());
            body.resize(bytes, 0x55);
            self.session.send_media(MediaKind::Video, 40 * self.next, &body);
            self.next += 1;
            self.flush();
        }
    }

    /// A player of FLV.
    struct Player {
        socket: Box<dyn Client>,
        came: Vec<u8>,
    }

    impl Player {
        fn begin(worker: &mut Worker) -> Self {
            let mut socket = connect(worker, Door::Http);
            socket.write_all(b"GET /live/a.flv HTTP/1.0\r\n\r\n").expect("taken");
            turn(worker);
            Self { socket, came: Vec::new() }
        }

        fn read(&mut self) {
            self.came.extend(read_all(&mut *self.socket));
        }

        /// Numbers of the pictures that have come.
        fn pictures(&self) -> Vec<u32> {
            let head = self.came.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
            let mut reader = FlvReader::new(1 << 24);
            reader.push(&self.came[head + 4..]);
            let tags = std::iter::from_fn(|| reader.next_tag().expect("FLV"));
            let number = |body: &[u8]| body[5..9].try_into().map(u32::from_be_bytes).expect("four bytes");
            tags.filter(|tag| tag.kind == MediaKind::Video).map(|tag| number(&tag.body)).collect()
        }

        /// Reads until it has this picture.
        fn read_to(&mut self, worker: &mut Worker, last: u32) -> Vec<u32> {
            for _ in 0..1_000 {
                turn(worker);
                self.read();
                if !self.came.is_empty() && self.pictures().last() == Some(&last) {
                    return self.pictures();
                }
            }
            panic!("picture {last} does not come: {:?}", self.pictures());
        }
    }

    /// A worker with a publisher and a player that has had the first pictures.
    fn begun() -> (Worker, Publisher, Player) {
        let mut worker = worker();
        let mut publisher = Publisher::begin(&mut worker);
        let mut player = Player::begin(&mut worker);
        (0..5).for_each(|number| publisher.send(number == 0, 1_000));
        assert_eq!(player.read_to(&mut worker, 4), [0, 1, 2, 3, 4]);
        (worker, publisher, player)
    }

    /// All that another worker has taken, in the order in which it would have come.
    fn resumed(handed: HandedOver) -> (Worker, Vec<SessionId>) {
        let mut other = worker();
        let (publishers, players) = handed.split_publishers();
        let mut ids = other.resume(publishers);
        ids.extend(other.resume(players));
        ids.sort_unstable();
        (other, ids)
    }

    #[test]
    fn what_a_socket_does_not_take_goes_along_and_who_is_far_behind_waits_for_a_key_frame() {
        for (bytes, is_whole) in [(1_000, true), (30_000, true), (400_000, false)] {
            let (mut old, mut publisher, mut player) = begun();
            // The player reads nothing meanwhile.
            for _ in 0..10 {
                publisher.send(false, bytes);
                for _ in 0..10 {
                    publisher.flush();
                    turn(&mut old);
                }
            }
            let handed = old.hand_over();
            let pending: usize = handed.connections.iter().map(|one| one.connection.pending.len()).sum();
            assert_eq!(pending > 0, bytes > 1_000, "{bytes}: {pending} bytes");
            let (mut new, ids) = resumed(handed);
            assert_eq!(ids.len(), 2);
            assert_eq!(old.let_go(&ids), []);
            new.go_on_with_sessions(&[]);
            publisher.send(false, 1_000);
            (0..10).for_each(|_| turn(&mut new));
            publisher.send(true, 1_000);
            let got = player.read_to(&mut new, 16);
            match is_whole {
                true => assert_eq!(got, (0..17).collect::<Vec<_>>(), "{bytes}"),
                false => {
                    let missing = got.windows(2).position(|pair| pair[1] != pair[0] + 1).expect("some miss");
                    assert_eq!(got[missing + 1..], [16], "it goes on with the key frame");
                }
            }
        }
    }

    #[test]
    fn nothing_is_read_or_written_until_it_is_decided() {
        let (mut old, mut publisher, mut player) = begun();
        let handed = old.hand_over();
        let (mut new, ids) = resumed(handed);
        publisher.send(false, 1_000);
        for worker in [&mut old, &mut new] {
            (0..10).for_each(|_| turn(worker));
            let received = worker.ctx.counters.frames_in;
            assert!(received == 0 || received == 5, "{received}");
        }
        player.read();
        assert_eq!(player.pictures(), [0, 1, 2, 3, 4]);
        // It is said that the other one has them, and then that it has failed after all.
        old.let_go(&ids);
        old.let_go(&[]);
        drop(new);
        publisher.send(false, 1_000);
        assert_eq!(player.read_to(&mut old, 6), [0, 1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn who_has_let_go_ends_without_a_word() {
        let (mut old, mut publisher, mut player) = begun();
        let (mut new, ids) = resumed(old.hand_over());
        old.let_go(&ids);
        new.go_on_with_sessions(&[]);
        old.drain(std::time::Duration::from_secs(2));
        assert!(old.is_drained());
        drop(old);
        publisher.send(false, 1_000);
        assert_eq!(player.read_to(&mut new, 5), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn what_is_ended_meanwhile_ends_in_the_process_that_goes_on() {
        let (mut old, _publisher, mut player) = begun();
        let (mut new, ids) = resumed(old.hand_over());
        let plays = |session: &Session| session.player().is_some();
        let (conn, session) =
            old.connections.sessions.iter().find(|(_, session)| plays(session)).expect("a player");
        let id = session.id;
        old.end(conn, EndReason::Kicked);
        let ended = old.let_go(&ids);
        assert_eq!(ended, [id]);
        new.go_on_with_sessions(&ended);
        let mut buffer = [0; 1_000];
        assert_eq!(player.socket.read(&mut buffer).expect("an end"), 0);
        assert_eq!(new.connections.sessions.iter().filter(|(_, session)| plays(session)).count(), 0);
    }

    #[test]
    fn a_player_that_came_before_its_publisher_begins_at_a_key_frame() {
        let (mut old, mut publisher, _player) = begun();
        let (publishers, players) = old.hand_over().split_publishers();
        let mut new = worker();
        let mut early = Player::begin(&mut new);
        let mut ids = new.resume(publishers);
        ids.extend(new.resume(players));
        ids.sort_unstable();
        assert_eq!((ids.len(), old.let_go(&ids)), (2, Vec::new()));
        new.go_on_with_sessions(&[]);
        publisher.send(false, 1_000);
        (0..10).for_each(|_| turn(&mut new));
        publisher.send(true, 1_000);
        assert_eq!(early.read_to(&mut new, 6), [6]);
    }

    #[test]
    fn players_by_a_bridge_go_on_with_it_alone() {
        for has_bridge in [true, false] {
            let (mut old, _publisher, _player) = begun();
            open_as(&mut old, RtcRole::Play, "a").expect("a viewer");
            let mut handed = old.hand_over();
            assert_eq!(handed.bridges.len(), 1);
            handed.bridges.retain(|_| has_bridge);
            let (publishers, _) = handed.split_publishers();
            let mut new = worker();
            new.await_sessions(1_000);
            assert_eq!(new.resume(publishers).len(), 1);
            let viewer = HandedSession { is_bridged: true, ..*session(&new, RtcRole::Play, 500) };
            let sessions = vec![Box::new(viewer)];
            let resumed = new.resume(HandedOver { sessions: sessions.clone(), ..HandedOver::default() });
            assert_eq!(resumed.len(), usize::from(has_bridge));
            new.go_on_with_sessions(&[]);
            let again = new.hand_over();
            assert_eq!(again.bridges.len(), usize::from(has_bridge));
            assert_eq!(again.sessions, if has_bridge { sessions } else { Vec::new() });
        }
    }

    #[test]
    fn what_all_players_take_along_is_bounded() {
        let (mut old, mut publisher, _player) = begun();
        for _ in 0..10 {
            publisher.send(false, 30_000);
            for _ in 0..10 {
                publisher.flush();
                turn(&mut old);
            }
        }
        let frames = &old.frames;
        let (_, session) = old
            .connections
            .sessions
            .iter()
            .find(|(_, session)| session.player().is_some())
            .expect("a player");
        let id = session.player().expect("it plays");
        let of = |room| frames.hand_over_player(id, &session.pending, room);
        let (whole, bytes) = of(PENDING_BYTES_MAX).expect("it goes over");
        assert!(matches!(whole, HandedMedia::Play { has_all: true, .. }) && bytes.len() > 100_000);
        let (begun, rest) = of(31_000).expect("it goes over");
        assert!(matches!(begun, HandedMedia::Play { has_all: false, .. }) && rest.len() < 31_000);
        assert!(of(0).is_none(), "it is in the middle of a message");
    }

    #[test]
    fn a_connection_whose_stream_is_taken_or_did_not_come_stays_with_the_other_process() {
        let (mut old, mut publisher, mut player) = begun();
        let mut handed = old.hand_over();
        handed.streams.clear();
        let mut new = worker();
        let (publishers, _) = handed.split_publishers();
        assert_eq!(new.resume(publishers), []);
        assert!(new.connections.sessions.len() == 0);
        assert!(new.ctx.directory.home("live/a").is_none());
        old.let_go(&[]);
        let mut taken = worker();
        let _other = Publisher::begin(&mut taken);
        let (publishers, _) = old.hand_over().split_publishers();
        assert_eq!(taken.resume(publishers), []);
        assert_eq!(taken.frames.handed.waiting.len(), 1, "its players need its time");
        old.let_go(&[]);
        publisher.send(false, 1_000);
        assert_eq!(player.read_to(&mut old, 5), [0, 1, 2, 3, 4, 5]);
    }
}
