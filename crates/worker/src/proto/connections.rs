//! TCP connections: opened, read, told why they end, and taken out.
//!
//! [`Connections`] has a session (`session.rs`) for each connection, and for each publisher inside this
//! process. It reads what clients send and says what they ask for, one [`ClientRequest`] after the other; the
//! worker acts on it (`requests.rs`) and has it answered here. How players are written to is in
//! `frames/serve.rs`.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use media::Frame;
use rtmp::RtmpError;
use rtmp::flv::{FlvError, read_frames};
use rtmp::name::{query_value, stream_of};
use rtmp::server::{ServerConfig, ServerEvent, ServerSession, SessionState};

use super::http::{self, MediaRequest};
use super::idle::NextRequest;
use super::session::{HttpHead, Media, PendingClaim, Rtmp, Session, State};
use super::websocket::{self, ClientInput};
use crate::context::{Context, READ_BYTES};
use crate::frames::stream::{Format, write_end};
use crate::ids::{ConnId, Table, TableId};
use crate::net::connection::{Connection, ReadOutcome};
use crate::net::listen::{Accepted, Door};
use crate::net::{Interest, Readiness, Token};
use crate::rtsp::{RtspLink, RtspPorts};
use crate::stats::columns::Columns;
use crate::timers::Timers;
use worker_api::settings::WorkerSettings;
use worker_api::snapshot::{Protocol, SessionId, kept_user_agent};
use worker_api::{EndReason, Refused};

/// Bytes read per call from a connection that does not publish.
pub(crate) const COMMAND_READ_BYTES: usize = 16 << 10;
/// Silence after which the kernel asks a peer whether it is still there.
const KEEPALIVE: Duration = Duration::from_secs(60);
/// First byte of TLS: the record type of a handshake (RFC 8446 section 5.1).
const TLS_HANDSHAKE: u8 = 0x16;
/// Time a session has to take its last bytes, milliseconds.
pub(crate) const LINGER_MS: u64 = 2_000;
/// Time after which a publisher whose stream was taken is looked at again, milliseconds: an encoder that
/// reconnects at once can be faster than the news that its old connection has ended, which takes two reads
/// where nobody watches.
const CLAIM_AGAIN_MS: u64 = 250;

/// The connections of a worker.
#[derive(Debug)]
pub(crate) struct Connections {
    pub(crate) sessions: Table<ConnId, Session>,
    /// What `sessions` have counted, by the same id.
    pub(crate) columns: Columns,
    /// Sessions with more input than one turn takes.
    read_again: VecDeque<ConnId>,
    /// Nothing is read of those that another process could have.
    pub(crate) is_held: bool,
    /// It is decided which process has those that are handed over.
    pub(crate) is_decided: bool,
    /// Publishers nobody watches, by the time their sockets are to be read.
    pub(super) unwatched: Timers<u64, ConnId>,
    /// Whose input meets a defect.
    #[cfg(test)]
    pub(crate) defect: Option<ConnId>,
    /// Publishers whose stream seemed taken: when they ask again.
    claims: VecDeque<(u64, PendingClaim)>,
    /// Ports that SETUP answers with.
    pub(crate) rtsp_ports: RtspPorts,
    rtmp_config: ServerConfig,
}

/// A client from which nothing has come for this long is not waited for, milliseconds.
const RECENT_MS: u64 = 100;

/// What a client asks for.
#[derive(Debug)]
pub(crate) enum ClientRequest {
    /// Frames of its stream, of one message (RTMP).
    Frames(Result<(Frame, Vec<Frame>), FlvError>),
    /// To publish a stream (RTMP).
    Publish(PendingClaim),
    /// To play a stream (RTMP).
    Play { app: String, name: String, query: String, token: Option<String> },
    /// To pause, or to go on (RTMP).
    Pause(bool),
    /// To publish or play no more, and to stay (RTMP).
    CloseStream,
    /// A stream by HTTP.
    Stream(MediaRequest),
    /// Something by RTSP.
    Rtsp(rtsp::Event),
    /// Something by HTTP that the control side answers.
    Control,
    /// Something by HTTP that is refused.
    Bad(Refused),
}

/// What came of reading a connection.
#[derive(Debug)]
pub(crate) enum Read {
    /// Nothing.
    Nothing,
    /// Input. After what it asks for the session ends if there is a reason; its end is to be read next if it
    /// is known to be there.
    Input { ends: Option<EndReason>, to_end: bool },
    /// It is a publisher inside this process, which has frames in place of bytes.
    Frames,
    /// It is over.
    Over(EndReason),
}

impl Connections {
    /// None yet.
    pub(crate) fn new(settings: &WorkerSettings) -> Self {
        Self {
            sessions: Table::default(),
            columns: Columns::default(),
            read_again: VecDeque::new(),
            is_held: false,
            is_decided: false,
            unwatched: Timers::default(),
            #[cfg(test)]
            defect: None,
            claims: VecDeque::new(),
            rtsp_ports: RtspPorts::default(),
            rtmp_config: rtmp_config(settings),
        }
    }

    /// Connections that are opened from now on have these limits.
    pub(crate) fn apply_settings(&mut self, settings: &WorkerSettings) {
        self.rtmp_config = rtmp_config(settings);
    }

    /// How many are about to say what they want: something has come from them a moment ago.
    pub(crate) fn undecided(&self, now_ms: u64) -> usize {
        let is_undecided = |session: &Session| {
            let waits = matches!(&session.state, State::HttpHead(head) if head.waits);
            let is_recent = now_ms < session.received_ms + RECENT_MS;
            let has_none = matches!(session.media, Media::None) && session.body.is_empty();
            has_none && is_recent && !waits && !session.awaits_request() && session.closing_at_ms.is_none()
        };
        self.sessions.iter().filter(|(_, session)| is_undecided(session)).count()
    }

    /// Takes a connection that was accepted, here or by a worker that is full.
    pub(crate) fn open(&mut self, ctx: &mut Context, accepted: Accepted) {
        let Accepted { entry, socket, address } = accepted;
        ctx.counters.accepted += 1;
        if self.is_full(ctx) {
            return;
        }
        let Ok(place) = ctx.place_of(address.ip()) else {
            ctx.counters.refused_address += 1;
            return tracing::debug!(%address, "refused: too many connections of this address");
        };
        let connection = match Connection::accept(socket, entry.tls_config(&ctx.settings), place) {
            Ok(connection) => connection,
            Err(error) => return tracing::error!(%error, "no TLS session"),
        };
        let (state, protocol) = match entry.door {
            Door::Rtmp => rtmp_state(&self.rtmp_config, entry.tls),
            Door::Http => http_state(entry.tls),
            // What is listed of it before it has said anything.
            Door::Shared(doors) => (State::Undecided(doors), Protocol::HttpFlv),
            Door::Rtsp => {
                let Some(pending) = ctx.rtsp_pending.take(address.ip()) else {
                    ctx.counters.refused_full += 1;
                    return tracing::debug!(%address, "refused: too many connections that do nothing yet");
                };
                let local = connection.socket().local_addr().ok();
                let udp = local.filter(|_| !entry.tls).and_then(|local| self.rtsp_ports.at(local.ip()));
                let protocol = if entry.tls { Protocol::Rtsps } else { Protocol::Rtsp };
                (State::Rtsp(Box::new(RtspLink::new(udp, pending))), protocol)
            }
        };
        let conn = self.add(ctx, Some(connection), address, state, protocol);
        if let Err(error) = self.register(ctx, conn) {
            self.drop_unregistered(conn, &error);
        }
    }

    /// Takes an HTTP connection that was idle, or comes back from the control side, with its next request, or
    /// the beginning of one.
    pub(crate) fn expect_request(&mut self, ctx: &mut Context, next: NextRequest) -> Option<ConnId> {
        if self.is_full(ctx) {
            next.idle.close();
            return None;
        }
        let protocol = if next.idle.connection.is_tls() { Protocol::HttpsFlv } else { Protocol::HttpFlv };
        let head = HttpHead {
            bytes: next.bytes,
            requests: next.idle.requests,
            slot: next.idle.slot,
            ..HttpHead::default()
        };
        let (connection, address) = (Some(next.idle.connection), next.idle.address);
        let conn = self.add(ctx, connection, address, State::HttpHead(Box::new(head)), protocol);
        let session = &mut self.sessions[conn];
        session.peer_closed = next.peer_closed;
        let Some(connection) = &session.connection else { return None };
        let (socket, token, interest) = (connection.socket(), Token::Connection(conn), Interest::ReadWrite);
        let registered = match next.was_idle {
            true => ctx.events.change(socket, token, interest),
            // Bytes that have arrived since are announced by this.
            false => ctx.events.add(socket, token, interest),
        };
        if let Err(error) = registered {
            self.drop_unregistered(conn, &error);
            return None;
        }
        if next.was_idle {
            // The socket may hold more, for which no event comes.
            self.read_next_turn(conn);
        }
        Some(conn)
    }

    /// Whether there is no room for another; if so, counts that one was refused.
    pub(crate) fn is_full(&self, ctx: &mut Context) -> bool {
        let is_full = self.sessions.len() >= ctx.settings.sessions_max;
        ctx.counters.refused_full += u64::from(is_full);
        is_full
    }

    /// Adds a session; its socket, if it has one, is not registered yet.
    pub(crate) fn add(
        &mut self,
        ctx: &mut Context,
        connection: Option<Connection>,
        address: SocketAddr,
        state: State,
        protocol: Protocol,
    ) -> ConnId {
        let id = ctx.next_session_id();
        self.add_as(ctx, id, connection, address, (state, protocol))
    }

    /// The same with an id that it has already.
    pub(crate) fn add_as(
        &mut self,
        ctx: &Context,
        id: SessionId,
        connection: Option<Connection>,
        address: SocketAddr,
        (state, protocol): (State, Protocol),
    ) -> ConnId {
        let conn = self.sessions.insert(Session {
            connection,
            id,
            address,
            state,
            media: Media::None,
            pending: Default::default(),
            body: Default::default(),
            blocked: false,
            reads_again: false,
            peer_closed: false,
            closing_at_ms: None,
            ends_at_ms: None,
            hook: None,
            waits_for_hook: false,
            asked_since_ms: ctx.now_ms,
            unused_since_ms: ctx.now_ms,
            received_ms: ctx.now_ms,
            written_ms: ctx.now_ms,
            user_agent: None,
            uses: None,
            trace: None,
            is_handed_over: false,
            ends_with: None,
        });
        self.columns.open(conn, id, protocol, ctx.now_ms);
        conn
    }

    /// Puts its socket into the event queue, which says whatever is ready already.
    pub(crate) fn register(&mut self, ctx: &Context, conn: ConnId) -> io::Result<()> {
        let Some(connection) = &self.sessions[conn].connection else { return Ok(()) };
        let socket = connection.socket();
        // Messages are merged here, on purpose and for a known time; Nagle's algorithm would add its own.
        socket.set_nodelay()?;
        socket.set_unsent_bytes_max(ctx.settings.socket_unsent_bytes_max)?;
        socket.set_keepalive(KEEPALIVE)?;
        if let Some(bytes) = ctx.settings.socket_send_buffer_bytes {
            socket.set_send_buffer(bytes as usize)?;
        }
        ctx.events.add(socket, Token::Connection(conn), Interest::ReadWrite)
    }

    /// Drops a session that the system gives no events of.
    fn drop_unregistered(&mut self, conn: ConnId, error: &io::Error) {
        if let Some(session) = self.sessions.remove(conn) {
            tracing::warn!(session = %session.id, %error, "connection not registered");
            self.columns.close(conn);
        }
    }

    /// Something happened to a connection: whether it is to be read, and whether it is to be written to.
    pub(crate) fn event(&mut self, conn: ConnId, ready: &Readiness) -> (bool, bool) {
        let Some(session) = self.sessions.get_mut(conn) else { return (false, false) };
        session.peer_closed |= ready.closed;
        let waits_for_room = session.blocked || session.holds_ciphertext();
        session.blocked &= !ready.writable;
        // One read per session and turn: one that sends without pause must not come round twice as often.
        let reads = (ready.readable || session.peer_closed) && !session.reads_again;
        (reads, ready.writable && waits_for_room)
    }

    /// Nothing is read of sessions that another process could have, or is again.
    pub(crate) fn hold(&mut self, is_held: bool) {
        if std::mem::replace(&mut self.is_held, is_held) && !is_held {
            // What has come meanwhile was announced then, to those that have begun to close since as well.
            self.sessions.ids().for_each(|conn| self.read_next_turn(conn));
        }
    }

    /// Reads once from a connection.
    pub(crate) fn read(&mut self, ctx: &mut Context, conn: ConnId) -> Read {
        #[cfg(test)]
        assert_ne!(self.defect, Some(conn), "a defect, planted");
        let Some(session) = self.sessions.get_mut(conn) else { return Read::Nothing };
        if session.is_handed_over || (self.is_held && session.can_go_over()) {
            return Read::Nothing;
        }
        let Some(connection) = &mut session.connection else { return Read::Frames };
        if let State::Undecided(doors) = session.state
            && !connection.is_tls()
            && let Some(config) = doors.tls_config(&ctx.settings)
        {
            match connection.socket().first_byte() {
                Ok(Some(TLS_HANDSHAKE)) => {
                    if let Err(error) = connection.begin_tls(config) {
                        tracing::error!(%error, "no TLS session");
                        return Read::Over(EndReason::TlsFailed);
                    }
                }
                // What comes of it is seen when it is read.
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Read::Nothing,
                Err(_) => return Read::Over(EndReason::ConnectionFailed),
            }
        }
        // Only publishers have much to say. What answers to the rest of it would take is bounded by this.
        let is_publisher = matches!(session.media, Media::Publish(_) | Media::PublishPackets(_));
        let most = if is_publisher || connection.is_tls() { READ_BYTES } else { COMMAND_READ_BYTES };
        let (bytes, more) = match connection.read(&mut ctx.read_buffer[..most], &mut ctx.cipher_buffer) {
            Ok(ReadOutcome::Data { bytes, more }) => (bytes, more),
            Ok(ReadOutcome::WouldBlock) => return Read::Nothing,
            Ok(ReadOutcome::Closed) => return Read::Over(EndReason::ClosedByPeer),
            Err(error) => {
                let is_tls_error = connection.is_tls() && error.kind() == io::ErrorKind::Other;
                ctx.counters.protocol_errors += u64::from(is_tls_error);
                tracing::debug!(session = %session.id, %error, is_tls_error, "connection failed");
                let reason = if is_tls_error { EndReason::TlsFailed } else { EndReason::ConnectionFailed };
                return Read::Over(reason);
            }
        };
        session.received_ms = ctx.now_ms;
        self.columns.received(conn, bytes as u64);
        ctx.counters.bytes_in += bytes as u64;
        ctx.load.bytes_in += bytes as u64;
        if let State::Undecided(doors) = session.state
            && let Some(&first) = ctx.read_buffer[..bytes].first()
        {
            let tls = connection.is_tls();
            let protocol;
            (session.state, protocol) = match doors.spoken(first, tls) {
                Some(Door::Rtmp) => rtmp_state(&self.rtmp_config, tls),
                Some(_) => http_state(tls),
                None => {
                    ctx.counters.protocol_errors += 1;
                    return Read::Over(EndReason::Protocol("nobody here speaks this protocol"));
                }
            };
            self.columns.stats.protocol[conn.index()] = protocol;
        }
        let ends = session.handle_input(&ctx.read_buffer[..bytes]);
        let to_end = session.peer_closed;
        if more && !to_end {
            self.read_next_turn(conn);
        }
        Read::Input { ends, to_end }
    }

    /// What the session asks for next, of what it has sent.
    pub(crate) fn next_request(&mut self, conn: ConnId) -> Option<ClientRequest> {
        let session = self.sessions.get_mut(conn).filter(|session| session.closing_at_ms.is_none())?;
        match &mut session.state {
            State::Rtmp(_) | State::Rtsp(_) if session.waits_for_hook => None,
            State::Rtmp(rtmp) => loop {
                return Some(match rtmp.machine.poll_event()? {
                    ServerEvent::Media(message) => ClientRequest::Frames(read_frames(message)),
                    ServerEvent::Connect(request) => {
                        rtmp.token = query_value(&request.query, "token");
                        rtmp.app = request.app;
                        rtmp.query = request.query;
                        rtmp.machine.accept_connect();
                        session.user_agent = Some(kept_user_agent(&request.flash_version));
                        continue;
                    }
                    ServerEvent::Publish(request) => {
                        let token = query_value(&request.query, "token").or_else(|| rtmp.token.clone());
                        let (session, (app, name)) = (session.id, stream_of(&rtmp.app, &request.name));
                        ClientRequest::Publish(PendingClaim { session, conn, app, name, token })
                    }
                    ServerEvent::Play(request) => {
                        let token = query_value(&request.query, "token").or_else(|| rtmp.token.clone());
                        let (app, name) = stream_of(&rtmp.app, &request.name);
                        ClientRequest::Play { app, name, query: request.query, token }
                    }
                    ServerEvent::Pause { paused, .. } => ClientRequest::Pause(paused),
                    ServerEvent::StreamEnded => ClientRequest::CloseStream,
                });
            },
            State::HttpHead(head) if head.waits || !session.body.is_empty() => {
                // Answers leave in the order of requests: the next one waits for its turn.
                let is_too_much = head.bytes.len() > http::HEAD_BYTES_MAX;
                let too_much = Refused::new(431, "too many requests before their answers");
                is_too_much.then_some(ClientRequest::Bad(too_much))
            }
            State::HttpHead(head) => {
                // A head cannot be complete without a line end; a client that drips bytes costs no parsing.
                let has_line = head.bytes[head.seen..].contains(&b'\n');
                if head.seen > 0 && !has_line && head.bytes.len() < http::HEAD_BYTES_MAX {
                    return None;
                }
                head.seen = head.bytes.len();
                match http::parse(&head.bytes, &self.rtmp_config.names) {
                    http::Request::Incomplete => None,
                    http::Request::Bad(refused) => Some(ClientRequest::Bad(refused)),
                    http::Request::Control => Some(ClientRequest::Control),
                    http::Request::Media(request) => {
                        head.bytes.drain(..request.head_bytes);
                        head.seen = 0;
                        session.user_agent = request.user_agent.as_deref().map(Box::from);
                        Some(ClientRequest::Stream(*request))
                    }
                }
            }
            State::Rtsp(_) => Some(ClientRequest::Rtsp(self.next_of_rtsp(conn)?)),
            State::Undecided(_)
            | State::HttpBody
            | State::WebSocket(_)
            | State::Internal(_)
            | State::Tap
            | State::Srt(_) => None,
        }
    }

    /// Reads a session again in the next turn.
    pub(crate) fn read_next_turn(&mut self, conn: ConnId) {
        if let Some(session) = self.sessions.get_mut(conn).filter(|session| !session.reads_again) {
            session.reads_again = true;
            self.read_again.push_back(conn);
        }
    }

    /// How many were to be read again; call [`next_read`](Self::next_read) as often.
    pub(crate) fn reads(&self) -> usize {
        self.read_again.len()
    }

    /// The next session that is to be read again, if it is still there.
    pub(crate) fn next_read(&mut self) -> Option<ConnId> {
        let conn = self.read_again.pop_front()?;
        let session = self.sessions.get_mut(conn).filter(|session| session.reads_again)?;
        session.reads_again = false;
        Some(conn)
    }

    /// Asks again for a stream in a moment: the question of its publisher stays open, and what it sends
    /// meanwhile waits within the limit of the RTMP session.
    pub(crate) fn claim_later(&mut self, ctx: &Context, claim: PendingClaim) {
        self.claims.push_back((ctx.now_ms + CLAIM_AGAIN_MS, claim));
    }

    /// The next publisher that asks again for a stream that was taken a moment ago.
    pub(crate) fn next_claim(&mut self, now_ms: u64) -> Option<PendingClaim> {
        while let Some((_, claim)) = self.claims.pop_front_if(|(due_ms, _)| *due_ms <= now_ms) {
            let is_there =
                |session: &&Session| session.id == claim.session && session.closing_at_ms.is_none();
            if self.sessions.get(claim.conn).filter(is_there).is_some() {
                return Some(claim);
            }
        }
        None
    }

    /// When a publisher is due, to be read or to ask again.
    pub(crate) fn next_due_ms(&self) -> u64 {
        let read = self.unwatched.next().unwrap_or(u64::MAX);
        self.claims.front().map_or(u64::MAX, |(due_ms, _)| *due_ms).min(read)
    }

    /// The RTMP session that another process was in.
    pub(crate) fn resume_rtmp(&self, state: SessionState) -> Result<ServerSession, RtmpError> {
        ServerSession::resume(&self.rtmp_config, state)
    }

    /// Sets whether input of a session is an event.
    pub(crate) fn set_readable(&mut self, ctx: &Context, conn: ConnId, readable: bool) -> io::Result<()> {
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
        ctx.events.change(connection.socket(), Token::Connection(conn), interest)
    }

    /// Tells the peer why its session ends; what it played, if it did, and whether anything of that was sent.
    /// The connection closes once the last bytes have been taken.
    pub(crate) fn close(
        &mut self,
        ctx: &Context,
        conn: ConnId,
        reason: EndReason,
        played: Option<(Format, bool)>,
    ) {
        let session = &mut self.sessions[conn];
        match played {
            Some((format, false)) if format.http_body().is_some() => {
                let fields = http::common_fields(ctx.settings.cors_allow_origin.as_deref(), false);
                let status = if matches!(reason, EndReason::NotCarried(_)) { 406 } else { 404 };
                let refused = Refused::new(status, reason.text());
                http::write_refusal(&mut session.pending.bytes, &refused, &fields, true);
            }
            Some((format, true)) => write_end(format, &mut session.pending.bytes),
            _ => {}
        }
        session.closing_at_ms = Some(ctx.now_ms + LINGER_MS);
        self.columns.retire(conn);
        match &mut session.state {
            State::Rtmp(rtmp) => {
                rtmp.machine.close(reason.text());
                session.collect_output();
            }
            // 1001: the endpoint is going away (RFC 6455 section 7.4.1).
            State::WebSocket(_) => websocket::write_close(&mut session.pending.bytes, 1001, reason.text()),
            // RTSP has no word for it: the connection closes, and the session with it.
            State::Undecided(_)
            | State::HttpHead(_)
            | State::HttpBody
            | State::Internal(_)
            | State::Tap
            | State::Srt(_)
            | State::Rtsp(_) => {}
        }
        session.blocked = false;
    }

    /// Takes a session's socket out of the loop, for good.
    pub(crate) fn take(&mut self, ctx: &Context, conn: ConnId) -> Option<Session> {
        let session = self.sessions.remove(conn)?;
        self.columns.close(conn);
        if let Some(connection) = &session.connection {
            ctx.events.remove(connection.socket());
        }
        Some(session)
    }
}

impl Session {
    /// Takes in what it has sent. If that breaks the protocol, or ends it, says why the session ends.
    pub(crate) fn handle_input(&mut self, input: &[u8]) -> Option<EndReason> {
        if self.closing_at_ms.is_some() {
            return None;
        }
        match &mut self.state {
            State::Rtmp(rtmp) => {
                rtmp.machine.handle_input(input).err().map(|error| EndReason::Protocol(error.reason()))
            }
            State::HttpHead(head) => {
                head.bytes.extend_from_slice(input);
                None
            }
            State::Undecided(_) | State::HttpBody | State::Internal(_) | State::Tap | State::Srt(_) => None,
            State::Rtsp(link) => {
                link.machine.handle_input(input);
                None
            }
            State::WebSocket(frames) => match frames.handle_input(input, &mut self.pending.bytes) {
                ClientInput::Continue => None,
                ClientInput::Close => Some(EndReason::ClosedByPeer),
            },
        }
    }

    /// Moves what the machine of RTMP or RTSP wants to say to the private bytes.
    pub(crate) fn collect_output(&mut self) {
        let output = match &mut self.state {
            State::Rtmp(rtmp) => rtmp.machine.output(),
            State::Rtsp(link) => link.machine.output(),
            _ => return,
        };
        if !output.is_empty() {
            self.pending.bytes.append(output);
        }
    }
}

/// What a client by RTMP begins with.
fn rtmp_state(config: &ServerConfig, tls: bool) -> (State, Protocol) {
    // Random bytes of a handshake need not be secret (Adobe RTMP 1.0 section 5.2.3), only different.
    let seed = RandomState::new().hash_one(());
    let machine = ServerSession::new(config, seed);
    let rtmp = Rtmp { machine, app: String::new(), query: String::new(), token: None };
    (State::Rtmp(Box::new(rtmp)), if tls { Protocol::Rtmps } else { Protocol::Rtmp })
}

/// What a client by HTTP begins with.
fn http_state(tls: bool) -> (State, Protocol) {
    (State::HttpHead(Box::default()), if tls { Protocol::HttpsFlv } else { Protocol::HttpFlv })
}

/// What RTMP may take of a client. One message of audio and one of video may be unfinished at a time.
fn rtmp_config(settings: &WorkerSettings) -> ServerConfig {
    let max_message_bytes = settings.message_bytes_max;
    let publish_memory_bytes = max_message_bytes.saturating_mul(2);
    let names = settings.names.clone();
    ServerConfig { max_message_bytes, publish_memory_bytes, names, ..ServerConfig::default() }
}
