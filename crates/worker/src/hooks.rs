//! The operator's hooks: requests to publish or play wait here until they have been answered.
//!
//! A request is held after the token's check and before anything is done for it, and goes on from the same
//! place with the answer in its session. Nothing else waits: the worker goes on with its other sessions, and
//! what the same client sends meanwhile is bounded as while any other answer is owed. **A way in that asks
//! nobody is closed**: [`Worker::authorize`] refuses who has no admission where hooks want to be asked.
//!
//! Players of segments have no session that lasts: their answers are kept for a few seconds (`Viewers`), and
//! asked for again from where all workers' viewers are known.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::Waker;

use srt::Reject;

use crate::event_loop::Worker;
use crate::ids::{ConnId, TableId};
use crate::net::Clock;
use crate::proto::connections::ClientRequest;
use crate::proto::http::{Form, MediaRequest, Method};
use crate::proto::session::{HookAnswer, Media, Session, State};
use worker_api::EndReason;
use worker_api::auth::{Action, Bearer, Denied, Permit};
use worker_api::hooks::{Admitted, Answer, Asker, Hooks, Question, Reply, WorkerAnswer};
use worker_api::snapshot::{Protocol, Role, SessionId};
use worker_api::viewers::Viewer;

/// How long the answer about a viewer of segments counts on a worker before it is asked for again: that is
/// also what tells that the viewer is still there.
const VIEWER_MS: u64 = 5_000;
/// Answers about viewers that are kept; beyond, those that have run out go, or the request fails.
const VIEWERS_MAX: usize = 131_072;

/// Questions of a worker, and the requests that wait for the answers.
#[derive(Debug)]
pub(crate) struct HookQuestions {
    pub(crate) hooks: Hooks,
    answers: Receiver<WorkerAnswer>,
    to_answers: Sender<WorkerAnswer>,
    waker: Waker,
    held: HashMap<u64, Held>,
    /// Callers by SRT among them.
    callers: HashSet<SocketAddr>,
    last_ticket: u64,
    viewers: HashMap<u64, ViewerAnswer>,
}

/// A request that waits.
#[derive(Debug)]
enum Held {
    /// Of a session.
    Request { conn: ConnId, session: SessionId, action: Action, key: String, request: Box<ClientRequest> },
    /// The same for segments.
    Viewer { conn: ConnId, session: SessionId, viewer: u64, request: Box<MediaRequest> },
    /// Of a caller by SRT, which has no session yet: its datagram.
    Srt { port: usize, source: SocketAddr, datagram: Box<[u8]> },
}

/// What is known of a viewer of segments.
#[derive(Debug, Clone, Copy)]
struct ViewerAnswer {
    answer: Result<(), Denied>,
    counts_until_ms: u64,
    /// When it may play no longer.
    ends_at_ms: Option<u64>,
}

impl HookQuestions {
    /// Asks by `hooks`, which wake this worker by `waker`.
    pub(crate) fn new(hooks: Hooks, waker: Waker) -> Self {
        let (to_answers, answers) = channel();
        Self {
            hooks,
            answers,
            to_answers,
            waker,
            held: HashMap::new(),
            callers: HashSet::new(),
            last_ticket: 0,
            viewers: HashMap::new(),
        }
    }

    /// Whether a caller by SRT waits for an answer.
    pub(crate) fn holds_srt(&self, source: SocketAddr) -> bool {
        self.callers.contains(&source)
    }

    fn ask(&mut self, asker: Asker, viewer: Option<u64>, held: Held) {
        self.last_ticket += 1;
        let ticket = self.last_ticket;
        self.held.insert(ticket, held);
        let (answers, waker) = (self.to_answers.clone(), self.waker.clone());
        self.hooks.ask(Question { asker, viewer, reply: Reply::Worker { answers, waker, ticket } });
    }
}

impl Session {
    /// Whether it has been let in to do this.
    fn is_admitted(&self, action: Action, key: &str) -> Option<Result<(), Denied>> {
        let hook = self.hook.as_ref().filter(|hook| hook.action == action && hook.key == key)?;
        Some(hook.answer.as_ref().map(|_| ()).map_err(|denied| *denied))
    }

    fn set_waits_for_hook(&mut self, waits: bool) {
        self.waits_for_hook = waits;
        if let State::HttpHead(head) = &mut self.state {
            head.waits = waits;
        }
    }
}

impl Worker {
    /// Whether a session may do this: by the rules, and by its hook, which has been asked. Notes when it is
    /// to end.
    pub(crate) fn authorize(
        &mut self,
        conn: ConnId,
        action: Action,
        (app, name): (&str, &str),
        token: Option<&str>,
    ) -> Result<(), Denied> {
        let permit = self.permit(conn, action, (app, name), token)?;
        let session = &mut self.connections.sessions[conn];
        session.ends_at_ms = self.ctx.ends_at_ms(permit.until);
        let is_asked = self.control.hooks.as_ref().is_some_and(|asked| asked.hooks.admits(action));
        if is_asked {
            let admitted = session.is_admitted(action, &format!("{app}/{name}"));
            admitted.unwrap_or(Err(Denied::HookFailed)).inspect_err(|_| {
                self.ctx.counters.unauthorized += 1;
                // The next request asks again.
                session.hook = None;
            })?;
        }
        self.take_uses(conn, token)
    }

    /// What the rules say, hooks aside.
    pub(crate) fn permit(
        &mut self,
        conn: ConnId,
        action: Action,
        (app, name): (&str, &str),
        token: Option<&str>,
    ) -> Result<Permit, Denied> {
        let peer = self.connections.sessions[conn].address.ip();
        let bearer = Bearer { token, peer, now: Clock::since_1970() };
        let permit = match action {
            Action::Publish => self.ctx.policy.may_publish(app, name, &bearer),
            _ => self.ctx.policy.may_play(app, name, &bearer),
        };
        permit.inspect_err(|_| self.ctx.counters.unauthorized += 1)
    }

    /// A request goes on, or is held until its hook has answered.
    pub(crate) fn hold_for_hook(&mut self, conn: ConnId, request: ClientRequest) -> Option<ClientRequest> {
        if self.control.hooks.is_none() || self.ctx.draining_until.is_some() {
            return Some(request);
        }
        let asked = match &request {
            ClientRequest::Publish(claim) => {
                Some((Action::Publish, claim.app.clone(), claim.name.clone(), claim.token.clone()))
            }
            ClientRequest::Play { app, name, query, token }
                if self.redirect_rtmp(conn, (app, name), query, token.as_deref()).is_none() =>
            {
                Some((Action::Play, app.clone(), name.clone(), token.clone()))
            }
            ClientRequest::Stream(request)
                if is_played(request) && self.redirect(conn, request, true).is_none() =>
            {
                Some((Action::Play, request.app.clone(), request.stream.clone(), request.token.clone()))
            }
            ClientRequest::Rtsp(event) => self.asked_by_rtsp(event),
            _ => None,
        };
        let Some((action, app, name, token)) = asked else { return Some(request) };
        let is_asked = self.control.hooks.as_ref().is_some_and(|asked| asked.hooks.admits(action));
        let key = format!("{app}/{name}");
        let session = &self.connections.sessions[conn];
        // Who is refused by the rules, or asks again for what it has, goes on to where that is said.
        if !is_asked || session.is_admitted(action, &key).is_some() {
            return Some(request);
        }
        let bearer = Bearer { token: token.as_deref(), peer: session.address.ip(), now: Clock::since_1970() };
        let permit = match action {
            Action::Publish => self.ctx.policy.may_publish(&app, &name, &bearer),
            _ => self.ctx.policy.may_play(&app, &name, &bearer),
        };
        let role = if action == Action::Publish { Role::Publisher } else { Role::Player };
        if permit.is_err() || self.overload(role).is_some() {
            return Some(request);
        }
        let asker = self.asker(conn, action, &key, &request);
        let session = &mut self.connections.sessions[conn];
        session.set_waits_for_hook(true);
        let held = Held::Request { conn, session: session.id, action, key, request: Box::new(request) };
        if let Some(asked) = &mut self.control.hooks {
            asked.ask(asker, None, held);
        }
        None
    }

    fn asker(&self, conn: ConnId, action: Action, key: &str, request: &ClientRequest) -> Asker {
        let session = &self.connections.sessions[conn];
        let protocol = match request {
            ClientRequest::Stream(MediaRequest { method: Method::WebSocket { .. }, .. }) => {
                if session.is_tls() { Protocol::WssFlv } else { Protocol::WsFlv }
            }
            ClientRequest::Stream(MediaRequest { form: Form::Ts, .. }) => {
                if session.is_tls() {
                    Protocol::HttpsTs
                } else {
                    Protocol::HttpTs
                }
            }
            ClientRequest::Stream(MediaRequest { form: Form::Segments(_), .. }) => {
                if session.is_tls() {
                    Protocol::HlsTls
                } else {
                    Protocol::Hls
                }
            }
            ClientRequest::Stream(_) => {
                if session.is_tls() {
                    Protocol::HttpsFlv
                } else {
                    Protocol::HttpFlv
                }
            }
            _ => self.connections.columns.stats.protocol[conn.index()],
        };
        Asker {
            action,
            key: key.into(),
            session: Some(session.id),
            protocol,
            address: session.address,
            user_agent: session.user_agent.clone(),
        }
    }

    /// Whether a viewer may have segments of a stream; the request is held where that has to be asked.
    pub(crate) fn may_view(
        &mut self,
        conn: ConnId,
        request: MediaRequest,
    ) -> Option<(MediaRequest, Result<(), Denied>)> {
        let now_ms = self.ctx.now_ms;
        let Some(asked) = self.control.hooks.as_ref().filter(|asked| asked.hooks.admits(Action::Play)) else {
            return Some((request, Ok(())));
        };
        let key = format!("{}/{}", request.app, request.stream);
        let address = self.connections.sessions[conn].address.ip();
        let (user_agent, token) = (request.user_agent.as_deref(), request.token.as_deref());
        let viewer = asked.hooks.viewer(&key, &Viewer { address, user_agent, token });
        if let Some(known) = asked.viewers.get(&viewer).filter(|known| now_ms < known.counts_until_ms) {
            let has_ended = known.ends_at_ms.is_some_and(|at_ms| now_ms >= at_ms);
            let answer = if has_ended { Err(Denied::Hook) } else { known.answer };
            return Some((request, answer));
        }
        let request = ClientRequest::Stream(request);
        let asker = self.asker(conn, Action::Play, &key, &request);
        let ClientRequest::Stream(request) = request else { return None };
        let session = &mut self.connections.sessions[conn];
        session.set_waits_for_hook(true);
        let held = Held::Viewer { conn, session: session.id, viewer, request: Box::new(request) };
        if let Some(asked) = &mut self.control.hooks {
            asked.ask(asker, Some(viewer), held);
        }
        None
    }

    /// Asks for a caller by SRT, which waits; not for more of them than may be connecting.
    pub(crate) fn hold_srt(
        &mut self,
        asker: Asker,
        port: usize,
        source: SocketAddr,
        datagram: &[u8],
    ) -> Result<(), Reject> {
        let pending_max = self.ctx.settings.srt.pending_max;
        let asked = self.control.hooks.as_mut().filter(|asked| asked.callers.len() < pending_max);
        let asked = asked.ok_or(Reject::Overload)?;
        asked.callers.insert(source);
        asked.ask(asker, None, Held::Srt { port, source, datagram: datagram.into() });
        Ok(())
    }

    /// Goes on with what has been answered.
    pub(crate) fn take_hook_answers(&mut self) {
        while let Some(asked) = &mut self.control.hooks
            && let Ok((ticket, answer)) = asked.answers.try_recv()
        {
            match asked.held.remove(&ticket) {
                Some(Held::Request { conn, session, action, key, request }) => {
                    self.resume_held(conn, session, (action, key), *request, answer);
                }
                Some(Held::Viewer { conn, session, viewer, request }) => {
                    self.resume_viewer(conn, session, viewer, *request, answer);
                }
                Some(Held::Srt { port, source, datagram }) => {
                    asked.callers.remove(&source);
                    self.answer_srt(port, source, &datagram, answer);
                }
                None => {}
            }
            self.carry_out_actions();
        }
    }

    /// The session, if it is still the one that asked.
    fn held_session(&mut self, conn: ConnId, id: SessionId) -> Option<&mut Session> {
        let session = self.connections.sessions.get_mut(conn);
        let session = session.filter(|session| session.id == id && session.closing_at_ms.is_none())?;
        session.set_waits_for_hook(false);
        session.unused_since_ms = self.ctx.now_ms;
        Some(session)
    }

    fn resume_held(
        &mut self,
        conn: ConnId,
        id: SessionId,
        (action, key): (Action, String),
        request: ClientRequest,
        answer: Answer,
    ) {
        let hook = self.hook_answer(action, key, answer);
        let Some(session) = self.held_session(conn, id) else { return };
        // What it had been let in for before is over.
        let has_begun = !matches!(session.media, Media::None);
        self.leave_hook(conn, has_begun, EndReason::StreamClosedByPeer);
        self.connections.sessions[conn].hook = Some(Box::new(hook));
        self.handle_request(conn, request);
        self.go_on(conn, id);
    }

    /// An answer as its session keeps it.
    pub(crate) fn hook_answer(&self, action: Action, key: String, answer: Answer) -> HookAnswer {
        let (answer, until) = match answer {
            Ok(Admitted { admission: Some(admission), limits }) => (Ok(admission), limits.until),
            Ok(Admitted { admission: None, .. }) => (Err(Denied::HookFailed), None),
            Err(denied) => (Err(denied), None),
        };
        HookAnswer { action, key, answer, ends_at_ms: self.ctx.ends_at_ms(until) }
    }

    fn resume_viewer(
        &mut self,
        conn: ConnId,
        id: SessionId,
        viewer: u64,
        request: MediaRequest,
        answer: Answer,
    ) {
        let now_ms = self.ctx.now_ms;
        let ends_at_ms = answer.as_ref().ok().and_then(|admitted| self.ctx.ends_at_ms(admitted.limits.until));
        // It may have used up its time before it came to this worker.
        let has_ended = ends_at_ms.is_some_and(|at_ms| now_ms >= at_ms);
        let answer = if has_ended { Err(Denied::Hook) } else { answer.map(|_| ()) };
        if let Some(asked) = &mut self.control.hooks {
            if asked.viewers.len() >= VIEWERS_MAX {
                asked.viewers.retain(|_, known| now_ms < known.counts_until_ms);
            }
            if asked.viewers.len() < VIEWERS_MAX {
                let counts_until_ms = now_ms + VIEWER_MS;
                asked.viewers.insert(viewer, ViewerAnswer { answer, counts_until_ms, ends_at_ms });
            }
        }
        if self.held_session(conn, id).is_none() {
            return;
        }
        match answer {
            Ok(()) => self.segment_admitted(conn, request),
            Err(denied) => self.segment_denied(conn, &request, denied),
        }
        self.go_on(conn, id);
    }

    /// What came behind the request is next.
    fn go_on(&mut self, conn: ConnId, id: SessionId) {
        let session = self.connections.sessions.get_mut(conn).filter(|session| session.id == id);
        if let Some(session) = session {
            let ends = session.handle_input(&[]);
            self.handle_requests(conn, ends);
        }
    }

    /// A session publishes or plays no longer, and what its hook has let it in for is over.
    pub(crate) fn leave_hook(&mut self, conn: ConnId, has_begun: bool, reason: EndReason) {
        let session = &mut self.connections.sessions[conn];
        let Some(hook) = session.hook.take() else { return };
        if let Ok(mut admission) = hook.answer {
            let columns = &self.connections.columns;
            let bytes = match hook.action {
                Action::Publish => columns.bytes_in(conn),
                _ => columns.bytes_out(conn),
            };
            admission.note_end(session.id, has_begun, reason.text(), bytes);
        }
    }

    /// Forgets viewers of segments that have asked for nothing.
    pub(crate) fn sweep_hooks(&mut self) {
        let now_ms = self.ctx.now_ms;
        if let Some(asked) = &mut self.control.hooks
            && !asked.viewers.is_empty()
            && now_ms / VIEWER_MS != (now_ms.saturating_sub(100)) / VIEWER_MS
        {
            asked.viewers.retain(|_, known| now_ms < known.counts_until_ms);
        }
    }
}

/// Whether a request is to play, and not about segments, which are asked about apart.
fn is_played(request: &MediaRequest) -> bool {
    let plays = matches!(request.method, Method::Get | Method::WebSocket { .. });
    plays && !matches!(request.form, Form::Segments(_))
}
