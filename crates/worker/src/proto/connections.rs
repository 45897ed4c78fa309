//! TCP connections as the event loop sees them: opened, read, and taken out.
//!
//! This file only moves bytes and events. What a connection speaks is in `proto/`, how players are written to
//! in `frames/serve.rs`.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use media::Frame;
use rtmp::MediaMessage;
use rtmp::flv::read_frames;
use rtmp::server::ServerSession;

use crate::context::READ_BYTES;
use crate::event_loop::Worker;
use crate::frames::FrameAction;
use crate::ids::{ConnId, FrameStreamId, TableId};
use crate::net::connection::{Connection, ReadOutcome};
use crate::net::listen::Entry;
use crate::net::{Interest, Readiness, TcpSocket, Token};
use crate::proto::session::{Media, Pending, Publish, Rtmp, Session, State, Written};
use worker_api::EndReason;
use worker_api::snapshot::Protocol;

/// Bytes read per call from a connection that does not publish.
const COMMAND_READ_BYTES: usize = 16 << 10;
/// Silence after which the kernel asks a peer whether it is still there.
const KEEPALIVE: Duration = Duration::from_secs(60);

impl Worker {
    /// Something happened to a connection.
    pub(crate) fn connection_event(&mut self, conn: ConnId, ready: &Readiness) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        session.peer_closed |= ready.closed;
        // One read per session and turn: one that sends without pause must not come round twice as often.
        if (ready.readable || session.peer_closed) && !session.reads_again {
            self.read(conn);
        }
        if ready.writable {
            let Some(session) = self.sessions.get_mut(conn) else { return };
            if std::mem::take(&mut session.blocked) || session.holds_ciphertext() {
                self.write(conn);
            }
        }
    }

    /// Reads once from a session, or until its end when the peer is known to have closed.
    pub(crate) fn read(&mut self, conn: ConnId) {
        loop {
            let Some(session) = self.sessions.get_mut(conn) else { return };
            let Some(connection) = &mut session.connection else { return self.take_frames(conn) };
            let to_end = session.peer_closed;
            let mut plain = std::mem::take(&mut self.ctx.read_buffer);
            // Only publishers have much to say. What answers to the rest of it would take is bounded by this.
            let is_publisher = matches!(session.media, Media::Publish(_));
            let most = if is_publisher || connection.is_tls() { READ_BYTES } else { COMMAND_READ_BYTES };
            let outcome = connection.read(&mut plain[..most], &mut self.cipher);
            let again = match outcome {
                Ok(ReadOutcome::Data { bytes, more }) => {
                    session.received_ms = self.ctx.now_ms;
                    self.columns.received(conn, bytes as u64);
                    self.ctx.counters.bytes_in += bytes as u64;
                    self.ctx.load.bytes_in += bytes as u64;
                    self.handle_input(conn, &plain[..bytes]);
                    if more && !to_end {
                        self.read_next_turn(conn);
                    }
                    to_end
                }
                Ok(ReadOutcome::WouldBlock) => false,
                Ok(ReadOutcome::Closed) => {
                    self.remove(conn, EndReason::ClosedByPeer);
                    false
                }
                Err(error) => {
                    self.connection_failed(conn, &error);
                    false
                }
            };
            self.ctx.read_buffer = plain;
            if !again {
                return;
            }
        }
    }

    pub(crate) fn read_next_turn(&mut self, conn: ConnId) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        if !std::mem::replace(&mut session.reads_again, true) {
            self.read_again.push(conn);
        }
    }

    fn connection_failed(&mut self, conn: ConnId, error: &io::Error) {
        let Some(session) = self.sessions.get(conn) else { return };
        let id = session.id;
        if session.is_tls() && error.kind() == io::ErrorKind::Other {
            self.ctx.counters.protocol_errors += 1;
            tracing::debug!(session = %id, %error, "TLS failed");
            self.remove(conn, EndReason::TlsFailed);
        } else {
            tracing::debug!(session = %id, %error, "connection failed");
            self.remove(conn, EndReason::ConnectionFailed);
        }
    }

    /// A media message of the publishing session.
    pub(crate) fn receive_message(&mut self, conn: ConnId, message: MediaMessage) {
        let Media::Publish(Publish { stream, .. }) = self.sessions[conn].media else { return };
        self.ctx.counters.frames_in += 1;
        self.columns.passed(conn, 1);
        // A message nobody can make sense of is not worth a publisher's session: leave it out.
        let Ok((first, others)) = read_frames(message) else {
            self.ctx.counters.frames_invalid += 1;
            return;
        };
        self.receive_frame(stream, &Arc::new(first));
        for frame in others {
            self.receive_frame(stream, &Arc::new(frame));
        }
    }

    /// A frame of a stream's publisher.
    pub(crate) fn receive_frame(&mut self, stream: FrameStreamId, frame: &Arc<Frame>) {
        match self.frames.receive(&mut self.ctx, stream, frame) {
            FrameAction::None => {}
            FrameAction::Bridge(bridge, time) => self.bridge_frame(bridge, time, frame),
            FrameAction::Describe => self.describe_as_packets(stream),
        }
    }

    /// Serves the players whose time has come.
    pub(crate) fn serve_due_players(&mut self) {
        while let Some(conn) = self.frames.next_due(self.ctx.now_ms) {
            self.write(conn);
        }
    }

    /// Writes what there is for a session now.
    pub(crate) fn write(&mut self, conn: ConnId) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        let mut written = Written::default();
        let result = match session.media {
            Media::Play(player) => self.frames.serve(&mut self.ctx, player, session, &mut written),
            Media::None | Media::Publish(_) => session.write_pending(self.ctx.now_ms, &mut written),
        };
        self.columns.sent(conn, written.bytes);
        self.columns.passed(conn, written.messages);
        self.columns.told.dropped_frames[conn.index()] = written.dropped;
        self.ctx.counters.writes += written.writes;
        self.ctx.counters.bytes_out += written.bytes;
        self.ctx.counters.frames_out += written.messages;
        self.ctx.load.bytes_out += written.bytes;
        if let Err(reason) = result {
            return self.remove(conn, reason);
        }
        if session.closing_at_ms.is_some()
            && session.pending.len() == 0
            && !session.holds_ciphertext()
            && let Some(connection) = &mut session.connection
        {
            // The peer closes when it has read to the end; until then its input is read and forgotten, or the
            // kernel would answer it with a reset that can overtake our last bytes.
            connection.finish();
        }
    }

    /// Takes a connection that was accepted.
    pub(crate) fn open(&mut self, entry: Entry, socket: TcpSocket, address: SocketAddr) {
        self.ctx.counters.accepted += 1;
        if self.sessions.len() >= self.ctx.settings.sessions_max {
            self.ctx.counters.refused_full += 1;
            return;
        }
        let settings = &self.ctx.settings;
        let tls = if entry.rtmp { &settings.rtmps_tls } else { &settings.https_tls };
        let connection = match Connection::accept(socket, tls.as_ref().filter(|_| entry.tls)) {
            Ok(connection) => connection,
            Err(error) => return tracing::error!(%error, "no TLS session"),
        };
        let (state, protocol) = if entry.rtmp {
            let machine = ServerSession::new(&self.rtmp_config, Self::seed());
            let rtmp = Rtmp { machine, app: String::new(), token: None };
            (State::Rtmp(Box::new(rtmp)), if entry.tls { Protocol::Rtmps } else { Protocol::Rtmp })
        } else {
            let protocol = if entry.tls { Protocol::HttpsFlv } else { Protocol::HttpFlv };
            (State::HttpHead(Box::default()), protocol)
        };
        let conn = self.add_session(Some(connection), address, state, protocol);
        if let Err(error) = self.register(conn) {
            self.drop_unregistered(conn, &error);
        }
    }

    /// Adds a session; its socket, if it has one, is not registered yet.
    pub(crate) fn add_session(
        &mut self,
        connection: Option<Connection>,
        address: SocketAddr,
        state: State,
        protocol: Protocol,
    ) -> ConnId {
        let id = self.ctx.next_session_id();
        let conn = self.sessions.insert(Session {
            connection,
            id,
            address,
            state,
            media: Media::None,
            pending: Pending::default(),
            blocked: false,
            reads_again: false,
            peer_closed: false,
            closing_at_ms: None,
            unused_since_ms: self.ctx.now_ms,
            received_ms: self.ctx.now_ms,
            written_ms: self.ctx.now_ms,
            user_agent: None,
        });
        self.columns.open(conn, id, protocol, self.ctx.now_ms);
        conn
    }

    /// Drops a session that the system gives no events of.
    pub(crate) fn drop_unregistered(&mut self, conn: ConnId, error: &io::Error) {
        if let Some(session) = self.sessions.remove(conn) {
            tracing::warn!(session = %session.id, %error, "connection not registered");
            self.columns.close(conn);
        }
    }

    pub(crate) fn register(&mut self, conn: ConnId) -> io::Result<()> {
        let Some(connection) = &self.sessions[conn].connection else { return Ok(()) };
        let socket = connection.socket();
        // Messages are merged here, on purpose and for a known time; Nagle's algorithm would add its own.
        socket.set_nodelay()?;
        socket.set_unsent_bytes_max(self.ctx.settings.socket_unsent_bytes_max)?;
        socket.set_keepalive(KEEPALIVE)?;
        if let Some(bytes) = self.ctx.settings.socket_send_buffer_bytes {
            socket.set_send_buffer(bytes as usize)?;
        }
        self.ctx.events.add(socket, Token::Connection(conn), Interest::ReadWrite)
    }

    /// Random bytes of an RTMP handshake need not be secret (Adobe RTMP 1.0 section 5.2.3), only different.
    fn seed() -> u64 {
        use std::hash::{BuildHasher, RandomState};
        RandomState::new().hash_one(())
    }

    /// Sets whether input of a session is an event.
    pub(crate) fn set_readable(&mut self, conn: ConnId, readable: bool) -> io::Result<()> {
        let session = &mut self.sessions[conn];
        let Some(connection) = &session.connection else {
            if let State::Internal(frames) = &mut session.state {
                frames.set_wakes(readable);
                if readable {
                    // What came meanwhile has woken nobody.
                    self.read_next_turn(conn);
                }
            }
            return Ok(());
        };
        let interest = if readable { Interest::ReadWrite } else { Interest::Write };
        self.ctx.events.change(connection.socket(), Token::Connection(conn), interest)
    }

    /// Takes a session's socket out of the loop, for good.
    pub(crate) fn take(&mut self, conn: ConnId) -> Option<Session> {
        let session = self.sessions.remove(conn)?;
        self.columns.close(conn);
        if let Some(connection) = &session.connection {
            self.ctx.events.remove(connection.socket());
        }
        Some(session)
    }
}
