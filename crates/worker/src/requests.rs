//! What clients ask for, and what becomes of it: the way from a connection to its stream and back.
//!
//! `proto` reads a connection and says what it asks for, one [`ClientRequest`] after the other. Here the
//! worker does that, with the subsystems it takes: media goes to `frames` and bridges, a stream is published
//! or played (`publish.rs`), a connection ends or goes to the control side.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use media::{Frame, FrameRole};
use rtmp::flv::FlvError;
use rtmp::server::{PlayReject, PublishReject};

use crate::context::Context;
use crate::event_loop::Worker;
use crate::frames::FrameAction;
use crate::frames::serve::Player;
use crate::frames::stream::Format;
use crate::frames::tap::{ServedTap, Tap};
use crate::ids::{ConnId, FrameStreamId, TableId};
use crate::net::Readiness;
use crate::proto::connections::{ClientRequest, Connections, Read};
use crate::proto::http::{self, Form, MediaRequest, Method};
use crate::proto::idle::{IdleConnection, NextRequest};
use crate::proto::internal::FRAMES_PER_TURN;
use crate::proto::session::{
    ANSWER_BYTES_MAX, HttpHead, Media, PendingClaim, Publish, PublishPackets, Session, State, Written,
};
use crate::proto::websocket::ClientFrames;
use crate::publication::{Credential, LaneStream, PlayRefusal, PublishRefusal, Source};
use crate::registry::{Origin, Taken};
use crate::stats::columns::frames_reference;
use worker_api::auth::Action;
use worker_api::cluster::{RtmpElsewhere, redirected, redirected_rtmp};
use worker_api::columns::NO_STREAM;
use worker_api::handoff::Handoff;
use worker_api::internal::{InternalPublish, Next, PublishRequest, Refusal};
use worker_api::snapshot::{Protocol, Role, kept_user_agent};
use worker_api::tap::{InternalTap, TapRefusal, TapRequest};
use worker_api::traces::Stage;
use worker_api::{EndReason, Refused};

/// For a player that is sent to another node.
pub(crate) const PLAYED_ELSEWHERE: &str = "the stream is played by another node";

impl Worker {
    /// Something happened to a connection.
    pub(crate) fn connection_event(&mut self, conn: ConnId, ready: &Readiness) {
        let (reads, writes) = self.connections.event(conn, ready);
        if reads {
            self.read(conn);
        }
        if writes {
            self.write(conn);
            let session = self.connections.sessions.get(conn);
            let may_ask =
                |session: &Session| matches!(&session.state, State::HttpHead(head) if !head.bytes.is_empty());
            if session.is_some_and(may_ask) {
                // The next request has come while the answer to the one before was being sent.
                self.handle_requests(conn, None);
            }
        }
    }

    /// Lets a session's own machine read what its client has sent; a defect that this meets ends the session,
    /// and nothing else. What sessions share is not touched here: there a panic is nobody's to catch.
    fn guard_machine<T>(
        &mut self,
        conn: ConnId,
        work: impl FnOnce(&mut Connections, &mut Context) -> T,
    ) -> Option<T> {
        let worked = catch_unwind(AssertUnwindSafe(|| work(&mut self.connections, &mut self.ctx)));
        if worked.is_err() {
            self.ctx.counters.panics += 1;
            let session = self.connections.sessions.get(conn).map(|session| session.id);
            tracing::error!(?session, "a defect in the server ended this session");
            self.remove(conn, EndReason::Defect);
        }
        worked.ok()
    }

    /// Reads once from a session, or until its end when the peer is known to have closed.
    pub(crate) fn read(&mut self, conn: ConnId) {
        loop {
            let read = self.guard_machine(conn, |connections, ctx| connections.read(ctx, conn));
            match read.unwrap_or(Read::Nothing) {
                Read::Nothing => return,
                Read::Frames => return self.take_frames(conn),
                Read::Over(reason) => return self.remove(conn, reason),
                Read::Input { ends, to_end } => {
                    self.handle_requests(conn, ends);
                    if !to_end {
                        return;
                    }
                }
            }
        }
    }

    /// Does what a session asks for; then it ends if there is a reason.
    pub(crate) fn handle_requests(&mut self, conn: ConnId, ends: Option<EndReason>) {
        while let Some(request) =
            self.guard_machine(conn, |connections, _| connections.next_request(conn)).flatten()
        {
            if let Some(request) = self.hold_for_hook(conn, request) {
                self.handle_request(conn, request);
            }
        }
        let Some(session) = self.connections.sessions.get_mut(conn) else { return };
        if session.closing_at_ms.is_some() {
            return;
        }
        let ends = match &mut session.state {
            State::Rtsp(link) => {
                link.note_input(self.ctx.now_ms);
                ends.or(link.ends())
            }
            _ => ends,
        };
        if let Some(reason) = ends {
            session.collect_output();
            if let EndReason::Protocol(error) = reason {
                self.ctx.counters.protocol_errors += 1;
                tracing::debug!(session = %session.id, address = %session.address, error, "protocol error");
            }
            return self.end(conn, reason);
        }
        session.collect_output();
        // What a player by HTTP sends is no request: it is served when it is due.
        if session.pending.len() == 0 || matches!(session.state, State::HttpBody) {
            return;
        }
        self.write(conn);
        // A peer that asks and asks but reads nothing is cut off.
        let session = self.connections.sessions.get(conn);
        if session.is_some_and(|session| session.pending.len() > ANSWER_BYTES_MAX + session.pending.owed) {
            self.ctx.counters.protocol_errors += 1;
            self.remove(conn, EndReason::AnswersUnread);
        }
    }

    /// Does one thing that a session asks for.
    pub(crate) fn handle_request(&mut self, conn: ConnId, request: ClientRequest) {
        match request {
            ClientRequest::Frames(read) => self.receive_frames(conn, read),
            ClientRequest::Publish(claim) => self.claim(claim, true),
            ClientRequest::Play { app, name, query, token } => {
                self.play_rtmp(conn, (&app, &name), &query, token.as_deref());
            }
            ClientRequest::Pause(paused) => {
                if let Some(player) = self.connections.sessions[conn].player() {
                    self.frames.pause(player, paused);
                    self.write(conn);
                }
            }
            ClientRequest::CloseStream if self.finish_message(conn) => {
                self.detach(conn, EndReason::StreamClosedByPeer);
            }
            ClientRequest::CloseStream => self.remove(conn, EndReason::StreamClosedByPeer),
            ClientRequest::Stream(request) => match request.form {
                Form::Flv | Form::Ts => self.stream_request(conn, request),
                Form::Segments(_) => self.segment_request(conn, request),
            },
            ClientRequest::Rtsp(event) => self.rtsp_event(conn, event),
            ClientRequest::Control => self.give_to_control(conn),
            ClientRequest::Bad(refused) => {
                self.ctx.counters.protocol_errors += 1;
                self.answer(conn, refused);
            }
        }
    }

    /// The next request comes on an HTTP connection.
    pub(crate) fn resume_http(&mut self, next: NextRequest) {
        if let Some(conn) = self.connections.expect_request(&mut self.ctx, next) {
            self.handle_requests(conn, None);
        }
    }

    /// Frames of the publishing session.
    fn receive_frames(&mut self, conn: ConnId, read: Result<(Frame, Vec<Frame>), FlvError>) {
        let Media::Publish(Publish { stream, .. }) = self.connections.sessions[conn].media else { return };
        self.ctx.counters.frames_in += 1;
        self.connections.columns.passed(conn, 1);
        // A message nobody can make sense of is not worth a publisher's session: leave it out.
        let Ok((first, others)) = read else {
            self.ctx.counters.frames_invalid += 1;
            tracing::trace!(stream = self.stream_key(stream), "message dropped: not a frame");
            return;
        };
        self.receive_frame(stream, &Arc::new(first));
        for frame in others {
            self.receive_frame(stream, &Arc::new(frame));
        }
    }

    /// A frame of a stream's publisher.
    pub(crate) fn receive_frame(&mut self, stream: FrameStreamId, frame: &Arc<Frame>) {
        if frame.role == FrameRole::Key {
            self.trace_key_frame(stream);
        }
        match self.frames.receive(&mut self.ctx, stream, frame) {
            FrameAction::None => {}
            FrameAction::Bridge(bridge, time) => self.bridge_frame(bridge, time, frame),
            FrameAction::Describe => self.describe_as_packets(stream),
        }
    }

    /// Takes frames of the publishers inside this process that have some.
    pub(crate) fn receive_internal(&mut self) {
        while let Some((conn, id)) = self.control.internal.next() {
            // One that has more than a turn takes is in line for the next one already.
            let session = self.connections.sessions.get(conn);
            if session.is_some_and(|session| session.id == id && !session.reads_again) {
                self.take_frames(conn);
            }
        }
    }

    /// Takes frames of one publisher inside this process, as many as it may bring in a turn.
    fn take_frames(&mut self, conn: ConnId) {
        for _ in 0..FRAMES_PER_TURN {
            let frame = match self.connections.next_frame(&mut self.ctx, conn) {
                Next::Frame(frame) => frame,
                Next::Empty => return,
                Next::Over => return self.remove(conn, EndReason::ClosedByPeer),
            };
            if let Media::Publish(publish) = self.connections.sessions[conn].media {
                self.receive_frame(publish.stream, &frame);
            }
        }
        self.connections.read_next_turn(conn);
    }

    /// Reads the publishers nobody watches that are due.
    pub(crate) fn read_unwatched(&mut self) {
        while let Some(due) = self.connections.next_unwatched(self.ctx.now_ms) {
            self.read(due.conn);
            self.connections.was_read(&self.ctx, due);
        }
    }

    /// Makes an RTMP session the publisher of a stream, and tells it.
    fn claim(&mut self, claim: PendingClaim, may_ask_again: bool) {
        let PendingClaim { conn, .. } = claim;
        let credential = Credential::Token(claim.token.as_deref());
        let outcome = self.publish(conn, (&claim.app, &claim.name), credential);
        let State::Rtmp(rtmp) = &mut self.connections.sessions[conn].state else { return };
        match outcome {
            Ok(()) => rtmp.machine.accept_publish(),
            Err(PublishRefusal::Taken(_)) if may_ask_again => self.connections.claim_later(&self.ctx, claim),
            Err(refusal) => {
                let code = match refusal {
                    PublishRefusal::Denied(denied) if denied.is_exceeded() => PublishReject::Overloaded,
                    PublishRefusal::Denied(_) => PublishReject::Unauthorized,
                    PublishRefusal::Taken(_) | PublishRefusal::Draining => PublishReject::BadName,
                    PublishRefusal::Overloaded(_) => PublishReject::Overloaded,
                };
                rtmp.machine.reject_publish(code, refusal.reason());
                self.end(conn, EndReason::Refused(refusal.reason()));
            }
        }
    }

    /// Asks again for the streams that were taken a moment ago.
    pub(crate) fn claim_again(&mut self) {
        while let Some(claim) = self.connections.next_claim(self.ctx.now_ms) {
            let conn = claim.conn;
            self.claim(claim, false);
            // Gives the events that waited for the answer, too.
            let session = self.connections.sessions.get_mut(conn);
            let ends = session.and_then(|session| session.handle_input(&[]));
            self.handle_requests(conn, ends);
        }
    }

    /// Makes an RTMP session a player of a stream, and tells it.
    fn play_rtmp(&mut self, conn: ConnId, name: (&str, &str), query: &str, token: Option<&str>) {
        if let Some(elsewhere) = self.redirect_rtmp(conn, name, query, token) {
            let State::Rtmp(rtmp) = &mut self.connections.sessions[conn].state else { return };
            rtmp.machine.redirect_play((&elsewhere.connection, &elsewhere.stream), PLAYED_ELSEWHERE);
            return self.end(conn, EndReason::Refused(PLAYED_ELSEWHERE));
        }
        let outcome = self.play(conn, name, token, Format::Rtmp);
        let State::Rtmp(rtmp) = &mut self.connections.sessions[conn].state else { return };
        match outcome {
            Ok(()) => {
                rtmp.machine.accept_play();
                rtmp.machine.trim();
                self.connections.sessions[conn].collect_output();
                self.write(conn);
            }
            Err(refusal) => {
                let code = match refusal {
                    PlayRefusal::Denied(denied) if denied.is_exceeded() => PlayReject::Overloaded,
                    PlayRefusal::Denied(_) => PlayReject::Unauthorized,
                    PlayRefusal::Overloaded(_) => PlayReject::Overloaded,
                    _ => PlayReject::StreamNotFound,
                };
                rtmp.machine.reject_play(code, refusal.reason());
                self.end(conn, EndReason::Refused(refusal.reason()));
            }
        }
    }

    /// Makes a publisher inside this process a session, or says why not.
    pub(crate) fn publish_internal(&mut self, publish: InternalPublish) {
        let InternalPublish { request, frames, reply } = publish;
        let PublishRequest { app, name, protocol, address, detail } = request;
        if self.ctx.draining_until.is_some() {
            let _ = reply.send(Err(Refusal::Draining));
            return;
        }
        if self.connections.is_full(&mut self.ctx) {
            let _ = reply.send(Err(Refusal::Full));
            return;
        }
        let state = State::Internal(Box::new(frames));
        let conn = self.connections.add(&mut self.ctx, None, address, state, protocol);
        let session = &mut self.connections.sessions[conn];
        let id = session.id;
        session.user_agent = (!detail.is_empty()).then(|| kept_user_agent(&detail));
        if let State::Internal(frames) = &session.state {
            frames.on_ready(self.control.internal.notifier(conn, id));
        }
        let credential = if protocol == Protocol::Node { Credential::Fetch } else { Credential::Own };
        let outcome = self.publish(conn, (&app, &name), credential);
        let refusal = outcome.err().map(|refusal| EndReason::Refused(refusal.reason()));
        let answer = outcome.map(|()| id).map_err(|refusal| match refusal {
            PublishRefusal::Draining => Refusal::Draining,
            PublishRefusal::Taken(Taken::Elsewhere) => Refusal::TakenElsewhere,
            PublishRefusal::Overloaded(_) => Refusal::Full,
            PublishRefusal::Taken(Taken::Here) | PublishRefusal::Denied(_) => Refusal::Taken,
        });
        // If nobody waits for the answer any more, nobody will use the session.
        let is_awaited = reply.send(answer).is_ok();
        if let Some(reason) = refusal.or((!is_awaited).then_some(EndReason::Abandoned)) {
            self.remove(conn, reason);
        }
    }

    /// Makes a player inside this process a session, or says why not.
    pub(crate) fn play_internal(&mut self, tap: InternalTap) {
        let InternalTap { request: TapRequest { app, name, protocol, address, detail }, frames, reply } = tap;
        if self.ctx.draining_until.is_some() {
            let _ = reply.send(Err(TapRefusal::Draining));
            return;
        }
        if self.connections.is_full(&mut self.ctx) {
            let _ = reply.send(Err(TapRefusal::Full));
            return;
        }
        let key = format!("{app}/{name}");
        // Segments are watched by those who ask for them, a recording and what is sent elsewhere by nobody.
        let keeps = !matches!(protocol, Protocol::Segments | Protocol::Recording | Protocol::Push);
        let asked_by = keeps.then_some(address.ip());
        let stream = match self.subscribe_to_frames(&key, (&app, &name), asked_by) {
            Ok(stream) => stream,
            Err(refusal) => {
                let refusal = match refusal {
                    PlayRefusal::NotFrames => TapRefusal::NotFrames,
                    PlayRefusal::Draining => TapRefusal::Draining,
                    _ => TapRefusal::NotFound,
                };
                let _ = reply.send(Err(refusal));
                return;
            }
        };
        let conn = self.connections.add(&mut self.ctx, None, address, State::Tap, protocol);
        let tap = self.frames.join_tap(&self.ctx, stream, conn, frames, keeps);
        let session = &mut self.connections.sessions[conn];
        let id = session.id;
        session.user_agent = (!detail.is_empty()).then(|| kept_user_agent(&detail));
        session.media = Media::Tap(tap);
        self.connections.columns.takes_role(conn, Role::Player, frames_reference(stream));
        let protocol = protocol.name();
        // Pushes and recordings have none.
        let address = (!address.ip().is_unspecified()).then(|| tracing::field::display(address));
        tracing::info!(session = %id, protocol, address, stream = key, "player joined");
        if reply.send(Ok(id)).is_err() {
            self.remove(conn, EndReason::Abandoned);
        }
    }

    fn stream_request(&mut self, conn: ConnId, request: MediaRequest) {
        let (name, token) = ((&*request.app, &*request.stream), request.token.as_deref());
        let format = Format::of_body(&request.form, request.chunked);
        let outcome = match &request.method {
            Method::Options => Ok(None),
            Method::Other => Err(Refused::new(405, "a stream can only be read")),
            Method::WebSocketVersion => Err(Refused::new(426, "WebSocket version 13 is needed")),
            Method::WebSocketKey => Err(Refused::new(400, "Sec-WebSocket-Key is missing")),
            Method::Head => self.would_play(conn, name, token, format).map(|()| None).map_err(Refused::from),
            Method::Get => Ok(Some(format)),
            Method::WebSocket { .. } if format.is_ts() => {
                Err(Refused::new(400, "by WebSocket, ask for .flv"))
            }
            Method::WebSocket { .. } => Ok(Some(Format::WsFlv)),
        };
        if let Some(location) = self.redirect(conn, &request, true) {
            let refused = Refused::new(307, PLAYED_ELSEWHERE);
            return self.answer_request(conn, &request, Some(refused), Some(&location));
        }
        let outcome = match outcome {
            Ok(Some(format)) => self.play(conn, name, token, format).map_err(Refused::from),
            Ok(None) => return self.answer_request(conn, &request, None, None),
            Err(refusal) => Err(refusal),
        };
        if let Err(refusal) = outcome {
            return self.answer_request(conn, &request, Some(refusal), None);
        }
        let session = &mut self.connections.sessions[conn];
        // What came behind the request, of which only WebSocket clients mean anything.
        let rest = match &mut session.state {
            State::HttpHead(head) => std::mem::take(&mut head.bytes),
            _ => Vec::new(),
        };
        session.state = match request.method {
            Method::WebSocket { accept } => {
                let tls = session.is_tls();
                self.connections.columns.stats.protocol[conn.index()] =
                    if tls { Protocol::WssFlv } else { Protocol::WsFlv };
                http::write_upgrade(&mut session.pending.bytes, &accept);
                State::WebSocket(ClientFrames::default())
            }
            _ => {
                self.connections.columns.stats.protocol[conn.index()] = format.protocol(session.is_tls());
                State::HttpBody
            }
        };
        if let Some(reason) = session.handle_input(&rest) {
            return self.end(conn, reason);
        }
        self.write(conn);
    }

    /// Where a player that may play the stream is to go instead. WebSocket clients follow nobody.
    /// Where this node is full, only those go that have just come.
    pub(crate) fn redirect(
        &mut self,
        conn: ConnId,
        request: &MediaRequest,
        has_come: bool,
    ) -> Option<String> {
        if !matches!(request.method, Method::Get | Method::Head) || !self.ctx.directory.has_other_nodes() {
            return None;
        }
        let base = self.base_elsewhere(&format!("{}/{}", request.app, request.stream), has_come)?;
        let name = (&*request.app, &*request.stream);
        // The node that plays it asks its hook.
        self.permit(conn, Action::Play, name, request.token.as_deref()).ok()?;
        redirected(&base, &request.target)
    }

    /// The same for a player by RTMP.
    pub(crate) fn redirect_rtmp(
        &mut self,
        conn: ConnId,
        (app, name): (&str, &str),
        query: &str,
        token: Option<&str>,
    ) -> Option<RtmpElsewhere> {
        let port = self.ctx.settings.rtmp_elsewhere.filter(|_| self.ctx.directory.has_other_nodes())?;
        let session = &self.connections.sessions[conn];
        // By TLS they stay: what they show is for nobody on the way.
        let State::Rtmp(rtmp) = &session.state else { return None };
        let of_connection = (!session.is_tls()).then(|| rtmp.query.clone())?;
        let base = self.base_elsewhere(&format!("{app}/{name}"), true)?;
        self.permit(conn, Action::Play, (app, name), token).ok()?;
        redirected_rtmp(&base, port, (app, name), (&of_connection, query))
    }

    /// Base URL of the node where players of a stream are to go, if this one has no room or they are not to
    /// stay in any case.
    fn base_elsewhere(&self, key: &str, has_come: bool) -> Option<String> {
        let has_room = || self.ctx.mailboxes.has_room_for_player(self.ctx.settings.sessions_max);
        let is_full = has_come && (!has_room() || self.overload(Role::Player).is_some());
        self.ctx.directory.redirect(key, is_full)
    }

    /// Answers a request that gets no stream. The connection stays open as after an answer of control.
    pub(crate) fn answer_request(
        &mut self,
        conn: ConnId,
        request: &MediaRequest,
        refused: Option<Refused>,
        location: Option<&str>,
    ) {
        let stays = self.connection_stays(conn, request);
        let mut fields = http::common_fields(self.ctx.settings.cors_allow_origin.as_deref(), stays);
        if let Some(location) = location {
            fields = format!("Location: {location}\r\n{fields}");
        }
        let out = &mut self.connections.sessions[conn].pending.bytes;
        let reason = match (refused, &request.method) {
            (Some(refused), method) => {
                http::write_refusal(out, &refused, &fields, *method != Method::Head);
                EndReason::Refused(refused.reason)
            }
            (None, Method::Options) => {
                http::write_preflight(out, &fields);
                EndReason::Answered("preflight answered")
            }
            (None, _) => {
                if let Some(body) = Format::of_body(&request.form, request.chunked).http_body() {
                    http::write_stream_head(out, body, &fields);
                }
                EndReason::Answered("HEAD answered")
            }
        };
        self.answered(conn, stays, reason);
    }

    /// Whether a connection stays open after its answer: a client that asks far ahead has no more than a
    /// head's bytes of requests answered in a turn, also over TLS, where a turn reads more; for the rest it
    /// connects again.
    pub(crate) fn connection_stays(&mut self, conn: ConnId, request: &MediaRequest) -> bool {
        let session = &mut self.connections.sessions[conn];
        let State::HttpHead(head) = &mut session.state else { return false };
        let may_stay =
            request.may_stay && head.bytes.len() <= http::HEAD_BYTES_MAX && self.ctx.draining_until.is_none();
        if head.slot.is_none() && may_stay {
            head.slot = self.ctx.kept_connections.take(session.address.ip());
        }
        may_stay && head.slot.is_some()
    }

    /// An answer is in the session: it leaves, and the next request is read if the connection `stays`.
    pub(crate) fn answered(&mut self, conn: ConnId, stays: bool, reason: EndReason) {
        if !stays {
            return self.end(conn, reason);
        }
        self.leave_hook(conn, false, reason);
        self.connections.sessions[conn].uses = None;
        self.ctx.counters.ended.count(reason);
        self.await_next_request(conn);
    }

    /// An answer is in the session: it leaves, and the next request is read.
    pub(crate) fn await_next_request(&mut self, conn: ConnId) {
        let session = &mut self.connections.sessions[conn];
        if let State::HttpHead(head) = &mut session.state {
            head.requests = head.requests.saturating_add(1);
        }
        session.unused_since_ms = self.ctx.now_ms;
        session.asked_since_ms = self.ctx.now_ms;
        self.write(conn);
    }

    /// Answers a request that is not read on, and closes.
    pub(crate) fn answer(&mut self, conn: ConnId, refused: Refused) {
        let fields = http::common_fields(self.ctx.settings.cors_allow_origin.as_deref(), false);
        http::write_refusal(&mut self.connections.sessions[conn].pending.bytes, &refused, &fields, true);
        self.end(conn, EndReason::Refused(refused.reason));
    }

    /// Has a connection wait for its next request without a session.
    pub(crate) fn go_idle(&mut self, conn: ConnId) {
        let Some(session) = self.connections.take(&self.ctx, conn) else { return };
        if let (Some(connection), State::HttpHead(head)) = (session.connection, session.state) {
            let HttpHead { requests, slot, .. } = *head;
            let (address, since_ms) = (session.address, session.unused_since_ms);
            self.idle.add(&self.ctx, IdleConnection { connection, address, requests, slot, since_ms });
        }
    }

    fn give_to_control(&mut self, conn: ConnId) {
        if !self.connections.sessions[conn].has_sent_all() {
            // The answer to the request before is for the worker to send, and has not been read.
            return self.remove(conn, EndReason::AnswersUnread);
        }
        let handoffs = self.control.handoffs.clone();
        let Ok(permit) = handoffs.try_reserve() else {
            return self.answer(conn, Refused::new(503, "too many requests at once"));
        };
        let Some(session) = self.connections.take(&self.ctx, conn) else { return };
        tracing::trace!(session = %session.id, "handed to the control side");
        let Session { connection: Some(connection), state: State::HttpHead(head), address, .. } = session
        else {
            return;
        };
        self.ctx.counters.http_handed_over += 1;
        let (stream, tls, place) = connection.into_parts();
        permit.send(Handoff {
            stream,
            tls,
            buffered: head.bytes,
            peer: address,
            requests: head.requests,
            slot: head.slot,
            place,
            home: self.control.home.clone(),
        });
    }

    /// Serves the players whose time has come.
    pub(crate) fn serve_due_players(&mut self) {
        while let Some(conn) = self.frames.next_due(self.ctx.now_ms) {
            self.write(conn);
        }
    }

    /// Lets players inside this process know of what is new for them, once for all of it.
    pub(crate) fn serve_taps(&mut self) {
        while let Some(served) = self.frames.next_served_tap() {
            let ServedTap { conn, passed, dropped, wants_key_frame } = served;
            if let Some(stream) = wants_key_frame.and_then(|id| self.packets.streams.find(id)) {
                self.request_key_frame(stream);
            }
            self.connections.columns.sent(conn, passed.bytes);
            self.connections.columns.passed(conn, passed.frames);
            self.connections.columns.stats.dropped_frames[conn.index()] = dropped;
            self.ctx.counters.bytes_out += passed.bytes;
            self.ctx.counters.frames_out += passed.frames;
            self.ctx.load.bytes_out += passed.bytes;
        }
    }

    /// Writes what waits for a session now.
    pub(crate) fn write(&mut self, conn: ConnId) {
        let Some(session) = self.connections.sessions.get_mut(conn) else { return };
        if session.is_handed_over {
            return;
        }
        let mut written = Written::default();
        let result = match session.media {
            Media::Play(player) if session.is_served_apart() => {
                self.frames.serve_apart(&mut self.ctx, player, session, &mut written)
            }
            Media::Play(player) => self.frames.serve(&mut self.ctx, player, session, &mut written),
            Media::None | Media::Publish(_) | Media::PublishPackets(_) | Media::Tap(_) => {
                session.write_pending(self.ctx.now_ms, &mut written)
            }
        };
        if written.messages > 0
            && let Some(trace) = &mut session.trace
        {
            // Players begin with a key frame, where the stream has pictures.
            trace.reach(self.ctx.now, Stage::Media);
        }
        self.connections.columns.sent(conn, written.bytes);
        self.connections.columns.passed(conn, written.messages);
        self.connections.columns.stats.dropped_frames[conn.index()] = written.dropped;
        self.ctx.counters.writes += written.writes;
        self.ctx.counters.bytes_out += written.bytes;
        self.ctx.counters.frames_out += written.messages;
        self.ctx.load.bytes_out += written.bytes;
        match &mut session.state {
            State::Srt(link) => self.srt.mark_dirty(conn, link),
            State::Rtsp(link) => self.rtsp.mark_dirty(conn, link),
            _ => {}
        }
        if let Err(reason) = result {
            let is_told = matches!(reason, EndReason::NotCarried(_));
            return if is_told { self.end(conn, reason) } else { self.remove(conn, reason) };
        }
        if session.closing_at_ms.is_some()
            && session.has_sent_all()
            && let Some(connection) = &mut session.connection
        {
            // The peer closes when it has read to the end; until then its input is read and forgotten, or the
            // kernel would answer it with a reset that can overtake our last bytes.
            connection.finish();
        }
    }

    /// Ends a session in order: its stream is left, the peer is told, and the connection closes once the last
    /// bytes have been taken.
    pub(crate) fn end(&mut self, conn: ConnId, reason: EndReason) {
        if self.ends_later(conn, reason) {
            return;
        }
        let Some(session) = self.connections.sessions.get(conn) else { return };
        if session.closing_at_ms.is_some() {
            return;
        }
        let player = session.player().and_then(|player| self.frames.players.get(player));
        let played = player.map(|player| (player.format, player.begun));
        // A publisher or player inside this process is told by its queue, and has nothing else to take.
        let is_internal = session.connection.is_none();
        let was_counted = session.awaits_request();
        if is_internal || !self.finish_message(conn) {
            return self.remove(conn, reason);
        }
        if !was_counted {
            self.ctx.counters.ended.count(reason);
        }
        self.detach(conn, reason);
        self.connections.close(&self.ctx, conn, reason, played);
        self.write(conn);
    }

    /// Ends a session at once.
    pub(crate) fn remove(&mut self, conn: ConnId, reason: EndReason) {
        if self.ends_later(conn, reason) {
            return;
        }
        if let Some(session) = self.connections.sessions.get(conn) {
            // One that is closing was counted when it ended, one that waits when it was answered.
            if session.closing_at_ms.is_none() && !session.awaits_request() {
                self.ctx.counters.ended.count(reason);
            }
            self.detach(conn, reason);
            let Some(mut session) = self.connections.take(&self.ctx, conn) else { return };
            if let Some(connection) = &mut session.connection {
                connection.finish();
            }
            match session.state {
                State::Srt(link) => self.srt.ended(*link, self.ctx.now, self.ctx.now_ms),
                State::Rtsp(mut link) => self.rtsp.ended(conn, &mut link),
                _ => {}
            }
            tracing::debug!(session = %session.id, reason = reason.text(), "connection closed");
        }
    }

    /// Leaves the stream the session publishes or plays.
    pub(crate) fn detach(&mut self, conn: ConnId, reason: EndReason) {
        let session = &mut self.connections.sessions[conn];
        let id = session.id;
        let (bytes_in, bytes_out) =
            (self.connections.columns.bytes_in(conn), self.connections.columns.bytes_out(conn));
        let seconds = (self.ctx.now_ms - self.connections.columns.opened_ms(conn)) / 1000;
        session.unused_since_ms = self.ctx.now_ms;
        session.asked_since_ms = self.ctx.now_ms;
        let media = session.media;
        session.media = Media::None;
        session.uses = None;
        if let Some(trace) = session.trace.take() {
            trace.end(self.ctx.now, reason);
        }
        self.leave_hook(conn, !matches!(media, Media::None), reason);
        match media {
            Media::None => {}
            Media::Publish(publish) => {
                let stream = self.stream_key(publish.stream);
                tracing::info!(session = %id, stream, reason = reason.text(), seconds, bytes_in, "publisher left");
                if publish.read_at_ms.is_some() {
                    // What it says next is no stream's media. Fails only for a socket that is about to close.
                    let _ = self.connections.set_readable(&self.ctx, conn, true);
                }
                let Publish { stream, epoch, .. } = publish;
                let source = Source { epoch, origin: Origin::Connection(conn) };
                self.end_publication(LaneStream::Frames(stream), source);
            }
            Media::PublishPackets(PublishPackets { stream, epoch }) => {
                let key = self.packets.streams.key(Some(stream));
                tracing::info!(session = %id, stream = key, reason = reason.text(), seconds, bytes_in, "publisher left");
                let source = Source { epoch, origin: Origin::Rtsp(conn) };
                self.end_publication(LaneStream::Packets(stream), source);
            }
            Media::Play(player) => {
                if let Some(Player { stream, cursor, .. }) = self.frames.leave(&mut self.ctx, player) {
                    let (key, dropped) = (self.stream_key(stream), cursor.dropped());
                    tracing::info!(session = %id, stream = key, reason = reason.text(), seconds, bytes_out, dropped, "player left");
                    #[cfg(feature = "simulated")]
                    self.frames.left.push((self.connections.sessions[conn].address, dropped));
                    self.unsubscribe_unless_played(stream);
                }
            }
            Media::Tap(tap) => {
                if let Some(Tap { stream, frames, .. }) = self.frames.leave_tap(&mut self.ctx, tap) {
                    let (key, dropped) = (self.stream_key(stream), frames.dropped());
                    tracing::info!(session = %id, stream = key, reason = reason.text(), seconds, bytes_out, dropped, "player left");
                    self.unsubscribe_unless_played(stream);
                    frames.end(reason);
                }
            }
        }
        self.connections.columns.takes_role(conn, Role::Pending, NO_STREAM);
        // Only now: who is told may publish the stream again at once.
        if let State::Internal(frames) = &mut self.connections.sessions[conn].state {
            frames.end(reason);
        }
    }

    /// Copies the rest of the message that a player is in to its private bytes, before its stream is left.
    /// False when that is too much.
    pub(crate) fn finish_message(&mut self, conn: ConnId) -> bool {
        let session = &mut self.connections.sessions[conn];
        let Some(player) = session.player() else { return true };
        // Who is served apart gets whole packets, and need not be at the end of what all get.
        session.is_served_apart() || self.frames.finish_message(player, &mut session.pending)
    }

    fn stream_key(&self, stream: FrameStreamId) -> &str {
        self.frames.streams.get(stream).map_or("", |stream| &*stream.publication.key)
    }
}

#[cfg(test)]
mod tests;
