//! What clients ask for: RTMP commands, HTTP request heads, WebSocket control frames.

use rtmp::name::query_value;
use rtmp::server::{PlayReject, PublishReject, ServerEvent};

use crate::event_loop::{LINGER_MS, Worker};
use crate::frames::serve::Player;
use crate::frames::stream::{Format, write_end};
use crate::ids::{ConnId, FrameStreamId, TableId};
use crate::proto::http::{self, MediaRequest, Method, Request};
use crate::proto::session::{ANSWER_BYTES_MAX, Media, Publish, Session, State};
use crate::proto::websocket::{self, ClientFrames, ClientInput};
use crate::publication::{Credential, LaneStream, PlayRefusal, PublishRefusal, Source};
use crate::registry::Origin;
use worker_api::EndReason;
use worker_api::columns::NO_STREAM;
use worker_api::link::Handoff;
use worker_api::snapshot::{Protocol, Role, SessionId};

/// Time after which a publisher whose stream was taken is looked at again, milliseconds: an encoder that
/// reconnects at once can be faster than the news that its old connection has ended, which takes two reads
/// where nobody watches.
const CLAIM_AGAIN_MS: u64 = 250;

/// A publisher whose stream has another, perhaps not for long.
#[derive(Debug)]
pub(crate) struct PendingClaim {
    session: SessionId,
    conn: ConnId,
    name: String,
    token: Option<String>,
}

impl Worker {
    /// Takes in what a session has sent.
    pub(crate) fn handle_input(&mut self, conn: ConnId, input: &[u8]) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        if session.closing_at_ms.is_some() {
            return;
        }
        match &mut session.state {
            State::Rtmp(_) => self.rtmp_input(conn, input),
            State::HttpHead(head) => {
                let head = &mut head.bytes;
                head.extend_from_slice(input);
                // A head cannot be complete without a line end; a client that drips bytes costs no parsing.
                if input.contains(&b'\n') || head.len() == input.len() || head.len() >= http::HEAD_BYTES_MAX {
                    self.http_input(conn);
                }
            }
            State::HttpBody | State::Internal(_) => {}
            State::WebSocket(frames) => match frames.handle_input(input, &mut session.pending.bytes) {
                ClientInput::Continue => self.write_answers(conn),
                ClientInput::Close => self.end(conn, EndReason::ClosedByPeer),
            },
        }
    }

    fn rtmp_input(&mut self, conn: ConnId, input: &[u8]) {
        let Some(State::Rtmp(rtmp)) = self.sessions.get_mut(conn).map(|session| &mut session.state) else {
            return;
        };
        let result = rtmp.machine.handle_input(input);
        while let Some(session) =
            self.sessions.get_mut(conn).filter(|session| session.closing_at_ms.is_none())
        {
            let State::Rtmp(rtmp) = &mut session.state else { return };
            match rtmp.machine.poll_event() {
                Some(event) => self.rtmp_event(conn, event),
                None => break,
            }
        }
        let Some(session) = self.sessions.get_mut(conn).filter(|session| session.closing_at_ms.is_none())
        else {
            return;
        };
        if let Err(error) = result {
            self.ctx.counters.protocol_errors += 1;
            tracing::debug!(session = %session.id, address = %session.address, error = error.reason(), "RTMP error");
            return self.end(conn, EndReason::Protocol(error.reason()));
        }
        session.collect_output();
        self.write_answers(conn);
    }

    /// Writes what a session's own input gave rise to. A peer that asks and asks but reads nothing is cut
    /// off.
    fn write_answers(&mut self, conn: ConnId) {
        if self.sessions[conn].pending.len() > 0 {
            self.write(conn);
        }
        if self
            .sessions
            .get(conn)
            .is_some_and(|session| session.pending.len() > ANSWER_BYTES_MAX + session.pending.owed)
        {
            self.ctx.counters.protocol_errors += 1;
            self.remove(conn, EndReason::AnswersUnread);
        }
    }

    fn rtmp_event(&mut self, conn: ConnId, event: ServerEvent) {
        let session = &mut self.sessions[conn];
        let State::Rtmp(rtmp) = &mut session.state else { return };
        match event {
            ServerEvent::Media(message) => self.receive_message(conn, message),
            ServerEvent::Connect(request) => {
                rtmp.token = token(&request.query);
                rtmp.app = request.app;
                rtmp.machine.accept_connect();
                session.user_agent = Some(request.flash_version.chars().take(128).collect());
            }
            ServerEvent::Publish(request) => {
                let token = token(&request.query).or_else(|| rtmp.token.clone());
                let claim = PendingClaim { session: session.id, conn, name: request.name, token };
                self.answer_publish(claim, true);
            }
            ServerEvent::Play(request) => {
                let token = token(&request.query).or_else(|| rtmp.token.clone());
                let app = rtmp.app.clone();
                let outcome = self.play(conn, (&app, &request.name), token.as_deref(), Format::Rtmp);
                let State::Rtmp(rtmp) = &mut self.sessions[conn].state else { return };
                match outcome {
                    Ok(()) => {
                        rtmp.machine.accept_play();
                        rtmp.machine.trim();
                        self.sessions[conn].collect_output();
                        self.write(conn);
                    }
                    Err(refusal) => {
                        let code = match refusal {
                            PlayRefusal::Denied(_) => PlayReject::Unauthorized,
                            PlayRefusal::NotFound | PlayRefusal::NotFrames | PlayRefusal::Draining => {
                                PlayReject::StreamNotFound
                            }
                        };
                        rtmp.machine.reject_play(code, refusal.reason());
                        self.end(conn, EndReason::Refused(refusal.reason()));
                    }
                }
            }
            ServerEvent::Pause { paused, .. } => {
                if let Media::Play(player) = session.media {
                    self.frames.pause(player, paused);
                    self.write(conn);
                }
            }
            ServerEvent::StreamEnded if self.finish_message(conn) => {
                self.detach(conn, EndReason::StreamClosedByPeer)
            }
            ServerEvent::StreamEnded => self.remove(conn, EndReason::StreamClosedByPeer),
            ServerEvent::PingReply { .. } => {}
        }
    }

    fn answer_publish(&mut self, claim: PendingClaim, may_ask_again: bool) {
        let conn = claim.conn;
        let State::Rtmp(rtmp) = &self.sessions[conn].state else { return };
        let app = rtmp.app.clone();
        let outcome = self.publish(conn, (&app, &claim.name), Credential::Token(claim.token.as_deref()));
        let State::Rtmp(rtmp) = &mut self.sessions[conn].state else { return };
        match outcome {
            Ok(()) => rtmp.machine.accept_publish(),
            // The question stays open; what the encoder sends meanwhile waits within the machine's limit.
            Err(PublishRefusal::Taken) if may_ask_again => {
                self.claims.push_back((self.ctx.now_ms + CLAIM_AGAIN_MS, claim))
            }
            Err(refusal) => {
                let code = match refusal {
                    PublishRefusal::Denied(_) => PublishReject::Unauthorized,
                    PublishRefusal::Taken | PublishRefusal::Draining => PublishReject::BadName,
                };
                rtmp.machine.reject_publish(code, refusal.reason());
                self.end(conn, EndReason::Refused(refusal.reason()));
            }
        }
    }

    /// Asks again for the streams that were taken a moment ago.
    pub(crate) fn claim_again(&mut self) {
        while self.claims.front().is_some_and(|(due_ms, _)| *due_ms <= self.ctx.now_ms) {
            let Some((_, claim)) = self.claims.pop_front() else { return };
            let conn = claim.conn;
            let is_there = |session: &Session| session.id == claim.session && session.closing_at_ms.is_none();
            if self.sessions.get(conn).is_some_and(is_there) {
                self.answer_publish(claim, false);
                // Gives the events that waited for the answer, too.
                self.rtmp_input(conn, &[]);
            }
        }
    }

    /// Acts on the request head of a session, if it is complete.
    pub(crate) fn http_input(&mut self, conn: ConnId) {
        let session = &mut self.sessions[conn];
        let State::HttpHead(head) = &mut session.state else { return };
        match http::parse(&head.bytes) {
            Request::Incomplete => {}
            Request::Bad { status, reason } => {
                self.ctx.counters.protocol_errors += 1;
                self.answer(conn, status, reason, true);
            }
            Request::Control => self.hand_over(conn),
            Request::Media(request) => {
                let rest = head.bytes.split_off(request.head_bytes);
                session.user_agent = request.user_agent.as_deref().map(Box::from);
                self.media_request(conn, request, &rest);
            }
        }
    }

    fn media_request(&mut self, conn: ConnId, request: MediaRequest, rest: &[u8]) {
        let cors = self.ctx.settings.cors_allow_origin.as_deref();
        let session = &mut self.sessions[conn];
        let format = match &request.method {
            Method::Options => {
                http::write_preflight(&mut session.pending.bytes, cors);
                return self.end(conn, EndReason::Answered("preflight answered"));
            }
            Method::Other => return self.answer(conn, 405, "a stream can only be read", true),
            Method::WebSocketVersion => {
                return self.answer(conn, 426, "WebSocket version 13 is needed", true);
            }
            Method::WebSocketKey => return self.answer(conn, 400, "Sec-WebSocket-Key is missing", true),
            Method::Head => return self.head_request(conn, &request),
            Method::Get if request.chunked => Format::FlvChunked,
            Method::Get => Format::Flv,
            Method::WebSocket { .. } => Format::WsFlv,
        };
        if let Err(refusal) =
            self.play(conn, (&request.app, &request.stream), request.token.as_deref(), format)
        {
            return self.answer(conn, refusal.status(), refusal.reason(), true);
        }
        let session = &mut self.sessions[conn];
        session.state = match request.method {
            Method::WebSocket { accept } => {
                let tls = session.is_tls();
                self.columns.told.protocol[conn.index()] =
                    if tls { Protocol::WssFlv } else { Protocol::WsFlv };
                http::write_upgrade(&mut session.pending.bytes, &accept);
                State::WebSocket(ClientFrames::default())
            }
            _ => State::HttpBody,
        };
        if !rest.is_empty() {
            self.handle_input(conn, rest);
        }
        self.write(conn);
    }

    fn head_request(&mut self, conn: ConnId, request: &MediaRequest) {
        let refusal = self.would_play(conn, (&request.app, &request.stream), request.token.as_deref());
        match refusal {
            Ok(()) => {
                let cors = self.ctx.settings.cors_allow_origin.as_deref();
                http::write_stream_head(&mut self.sessions[conn].pending.bytes, cors, request.chunked);
                self.end(conn, EndReason::Answered("HEAD answered"));
            }
            Err(refusal) => self.answer(conn, refusal.status(), refusal.reason(), false),
        }
    }

    /// Answers with a status and a line of text, and closes.
    pub(crate) fn answer(&mut self, conn: ConnId, status: u16, text: &'static str, with_body: bool) {
        let cors = self.ctx.settings.cors_allow_origin.as_deref();
        http::write_answer(&mut self.sessions[conn].pending.bytes, status, text, cors, with_body);
        self.end(conn, EndReason::Refused(text));
    }

    fn hand_over(&mut self, conn: ConnId) {
        let handoffs = self.control.handoffs.clone();
        let Ok(permit) = handoffs.try_reserve() else {
            return self.answer(conn, 503, "too many requests at once", true);
        };
        let Some(session) = self.take(conn) else { return };
        tracing::trace!(session = %session.id, "handed to the control side");
        let Session { connection: Some(connection), state: State::HttpHead(head), address, .. } = session
        else {
            return;
        };
        self.ctx.counters.http_handed_over += 1;
        let (stream, tls) = connection.into_parts();
        permit.send(Handoff {
            stream,
            tls,
            buffered: head.bytes,
            peer: address,
            requests: head.requests,
            slot: head.slot,
            home: self.control.home.clone(),
        });
    }

    /// Ends a session in order: its stream is left, the peer is told, and the connection closes once the last
    /// bytes have been taken.
    pub(crate) fn end(&mut self, conn: ConnId, reason: EndReason) {
        let Some(session) = self.sessions.get(conn) else { return };
        if session.closing_at_ms.is_some() {
            return;
        }
        let player = session.player().and_then(|player| self.frames.players.get(player));
        let play = player.map(|player| (player.format, player.begun));
        let unanswered = matches!(play, Some((Format::Flv | Format::FlvChunked, false)));
        // A publisher inside this process is told by its queue, and has nothing else to take.
        let is_internal = matches!(session.state, State::Internal(_));
        if is_internal || !self.finish_message(conn) {
            return self.remove(conn, reason);
        }
        self.ctx.counters.ended.count(reason);
        self.detach(conn, reason);
        let session = &mut self.sessions[conn];
        if unanswered {
            let cors = self.ctx.settings.cors_allow_origin.as_deref();
            http::write_answer(&mut session.pending.bytes, 404, reason.text(), cors, true);
        } else if let Some((format, true)) = play {
            write_end(format, &mut session.pending.bytes);
        }
        session.closing_at_ms = Some(self.ctx.now_ms + LINGER_MS);
        self.columns.retire(conn);
        match &mut session.state {
            State::Rtmp(rtmp) => {
                rtmp.machine.close(reason.text());
                session.collect_output();
            }
            // 1001: the endpoint is going away (RFC 6455 section 7.4.1).
            State::WebSocket(_) => websocket::write_close(&mut session.pending.bytes, 1001, reason.text()),
            State::HttpHead(_) | State::HttpBody | State::Internal(_) => {}
        }
        session.blocked = false;
        self.write(conn);
    }

    /// Ends a session at once.
    pub(crate) fn remove(&mut self, conn: ConnId, reason: EndReason) {
        if let Some(session) = self.sessions.get(conn) {
            // One that is closing was counted when it ended.
            if session.closing_at_ms.is_none() {
                self.ctx.counters.ended.count(reason);
            }
            self.detach(conn, reason);
            let Some(mut session) = self.take(conn) else { return };
            if let Some(connection) = &mut session.connection {
                connection.finish();
            }
            tracing::debug!(session = %session.id, reason = reason.text(), "connection closed");
        }
    }

    /// Leaves the stream the session publishes or plays.
    fn detach(&mut self, conn: ConnId, reason: EndReason) {
        let session = &mut self.sessions[conn];
        if let State::Internal(frames) = &mut session.state {
            frames.end(reason);
        }
        let id = session.id;
        let (bytes_in, bytes_out) = (self.columns.bytes_in(conn), self.columns.bytes_out(conn));
        let seconds = (self.ctx.now_ms - self.columns.opened_ms(conn)) / 1000;
        session.unused_since_ms = self.ctx.now_ms;
        match std::mem::replace(&mut session.media, Media::None) {
            Media::None => {}
            Media::Publish(publish) => {
                let stream = self.stream_key(publish.stream);
                tracing::info!(session = %id, stream, reason = reason.text(), seconds, bytes_in, "publisher left");
                if publish.read_at_ms.is_some() {
                    // What it says next is no stream's media. Fails only for a socket that is about to close.
                    let _ = self.set_readable(conn, true);
                }
                let Publish { stream, epoch, .. } = publish;
                let source = Source { epoch, origin: Origin::Connection(conn) };
                self.end_publication(LaneStream::Frames(stream), source);
            }
            Media::Play(player) => {
                if let Some(Player { stream, cursor, .. }) = self.frames.leave(&mut self.ctx, player) {
                    let (key, dropped) = (self.stream_key(stream), cursor.dropped());
                    tracing::info!(session = %id, stream = key, reason = reason.text(), seconds, bytes_out, dropped, "player left");
                    if self.frames.streams[stream].publication.players == 0 {
                        self.update_read_interest(stream);
                        self.unsubscribe(LaneStream::Frames(stream));
                    }
                }
            }
        }
        self.columns.takes_role(conn, Role::Pending, NO_STREAM);
    }

    /// Copies the rest of the message that a player is in to its private bytes, before its stream is left.
    /// False when that is too much.
    fn finish_message(&mut self, conn: ConnId) -> bool {
        let session = &mut self.sessions[conn];
        let Some(player) = session.player() else { return true };
        self.frames.finish_message(player, &mut session.pending)
    }

    fn stream_key(&self, stream: FrameStreamId) -> &str {
        self.frames.streams.get(stream).map_or("", |stream| &*stream.publication.key)
    }
}

fn token(query: &str) -> Option<String> {
    query_value(query, "token").map(std::borrow::Cow::into_owned)
}
