//! Streams as segments (HLS, DASH): requests are answered from what the thread `segments` has made.
//!
//! That thread cuts a stream once for all workers. A worker that is asked for one requests it once, and from
//! then on gets a new view of it whenever there is a new part: shared bytes, and playlists that are written
//! already. A request that has to wait for a part (RFC 8216bis section 6.2.5.2) is a row in the stream's
//! list, looked at with each view; it has no thread and no timer of its own.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use bytes::Bytes;
use hls::{Answer, SegmentId};

use crate::event_loop::Worker;
use crate::ids::{ConnId, SegmentStreamId, Table, TableId};
use crate::net::Clock;
use crate::proto::http::{self, Form, MediaRequest, Method};
use crate::proto::session::{Body, State};
use crate::publication::PlayRefusal;
use crate::registry::{Published, WatchedBy};
use crate::requests::PLAYED_ELSEWHERE;
use worker_api::auth::{Action, Denied};
use worker_api::segments::{
    FIRST_VIEW_WAIT, RECALL_AGAIN, RECALL_WAIT, Ranged, SegmentsState, SegmentsUpdate, SegmentsWanted, Want,
    WantedSender,
};
use worker_api::snapshot::{Protocol, Role, SessionId};
use worker_api::viewers::Viewer;
use worker_api::{EndReason, Refused};

/// Requests of one worker that wait; further ones are answered 503.
const WAITING_MAX: usize = 65_536;

/// Longest time that a segment is sent for while it grows: beyond any segment.
const GROWS_FOR_MAX: Duration = Duration::from_secs(60);

/// The streams of a worker that are played as segments.
#[derive(Debug, Default)]
pub(crate) struct Segments {
    streams: Table<SegmentStreamId, SegmentStream>,
    by_key: HashMap<Arc<str>, SegmentStreamId>,
    /// Requests that wait, of all streams.
    waiting: usize,
}

/// To and from the thread that makes segments.
#[derive(Debug)]
pub(crate) struct SegmentQueues {
    pub(crate) wanted: WantedSender,
    pub(crate) updates: Receiver<SegmentsUpdate>,
}

/// One stream.
#[derive(Debug)]
struct SegmentStream {
    key: Arc<str>,
    app_bytes: usize,
    /// What can be requested.
    state: SegmentsState,
    waiting: Vec<Waiting>,
    /// When it was asked for last.
    asked_ms: u64,
    /// How long a request waits for the first view.
    first_view_within: Duration,
}

/// A request that waits.
#[derive(Debug)]
struct Waiting {
    conn: ConnId,
    session: SessionId,
    request: MediaRequest,
    /// It is answered 503 then.
    until_ms: u64,
    /// It gets a segment that still grows, and has had the parts before this one.
    grows_from: Option<u32>,
    /// When its segment was asked for that is on disk.
    recalled_ms: u64,
}

impl Worker {
    /// A client asks for a playlist, a segment or a part. What it sent behind the request is in its session.
    pub(crate) fn segment_request(&mut self, conn: ConnId, request: MediaRequest) {
        let protocol =
            if self.connections.sessions[conn].is_tls() { Protocol::HlsTls } else { Protocol::Hls };
        self.connections.columns.stats.protocol[conn.index()] = protocol;
        let (app, stream) = (&*request.app, &*request.stream);
        let checked = match request.method {
            Method::Options => return self.answer_request(conn, &request, None, None),
            Method::Get | Method::Head if self.ctx.draining_until.is_some() => {
                Err(PlayRefusal::Draining.into())
            }
            Method::Get | Method::Head => {
                let permit = self.permit(conn, Action::Play, (app, stream), request.token.as_deref());
                permit.map_err(Refused::from)
            }
            _ => Err(Refused::new(405, "a stream can only be read")),
        };
        if let Err(refusal) = checked {
            return self.refuse_segment(conn, &request, refusal);
        }
        // Who plays already goes on here, since its tag is known to no other node.
        let is_first = matches!(&request.form, Form::Segments(object) if object.is_first());
        if let Some(location) = self.redirect(conn, &request, is_first) {
            let refused = Refused::new(307, PLAYED_ELSEWHERE);
            return self.answer_request(conn, &request, Some(refused), Some(&location));
        }
        if let Some(overload) = self.overload(Role::Player)
            && self.begins_to_view(conn, &request)
        {
            self.ctx.counters.overload.count(Role::Player, overload);
            return self.refuse_segment(conn, &request, PlayRefusal::Overloaded(overload).into());
        }
        match self.may_view(conn, request) {
            Some((request, Ok(()))) => self.segment_admitted(conn, request),
            Some((request, Err(denied))) => self.segment_denied(conn, &request, denied),
            // It goes on when the hook has answered.
            None => {}
        }
    }

    /// Whether a request is the first of its client: for the first playlist, or for an MPD by one who has had
    /// nothing of the stream lately.
    fn begins_to_view(&self, conn: ConnId, request: &MediaRequest) -> bool {
        let Form::Segments(object) = &request.form else { return false };
        if object.is_first() || !object.may_be_first() {
            return object.is_first();
        }
        let address = self.connections.sessions[conn].address.ip();
        let (user_agent, token) = (request.user_agent.as_deref(), request.token.as_deref());
        let key = format!("{}/{}", request.app, request.stream);
        let stream = self.segments.by_key.get(&*key).and_then(|id| self.segments.streams.get(*id));
        match stream.map(|stream| &stream.state) {
            Some(SegmentsState::Objects(view)) => {
                !view.has_viewer(&Viewer { address, user_agent, token }, Clock::since_1970())
            }
            _ => true,
        }
    }

    /// A request whose client may have what it asks for.
    pub(crate) fn segment_admitted(&mut self, conn: ConnId, request: MediaRequest) {
        let address = self.connections.sessions[conn].address.ip();
        match self.find_segments(&request, address) {
            Ok(stream) => self.answer_or_wait(conn, request, stream),
            Err(refusal) => self.refuse_segment(conn, &request, refusal),
        }
    }

    /// A request whose client the hook does not let in.
    pub(crate) fn segment_denied(&mut self, conn: ConnId, request: &MediaRequest, denied: Denied) {
        self.ctx.counters.unauthorized += 1;
        self.refuse_segment(conn, request, denied.into());
    }

    fn refuse_segment(&mut self, conn: ConnId, request: &MediaRequest, refused: Refused) {
        self.ctx.counters.segments_refused += 1;
        self.answer_request(conn, request, Some(refused), None);
    }

    /// The stream that a request is about; the first request has it cut.
    fn find_segments(&mut self, request: &MediaRequest, address: IpAddr) -> Result<SegmentStreamId, Refused> {
        let key = format!("{}/{}", request.app, request.stream);
        if let Some(&id) = self.segments.by_key.get(&*key) {
            return Ok(id);
        }
        let Some(queues) = &self.control.segments else {
            return Err(Refused::new(404, "streams are not cut into segments here: `hls.mode` is off"));
        };
        let published = self.published_as_frames(&key, &request.app)?;
        let begins_within = self.ctx.directory.begins_within(&key);
        if published == Published::Nobody && !self.ctx.directory.is_elsewhere(&key) && begins_within.is_none()
        {
            return Err(PlayRefusal::NotFound.into());
        }
        let (key, app_bytes, worker) = (Arc::<str>::from(key), request.app.len(), self.ctx.worker.index());
        let wanted = SegmentsWanted { key: Arc::clone(&key), app_bytes, want: Want::Updates(worker) };
        if queues.wanted.try_send(wanted).is_err() {
            return Err(Refused::new(503, "too many streams are asked for at once"));
        }
        let asked_ms = self.ctx.now_ms;
        let (state, waiting) = (SegmentsState::Pending, Vec::new());
        let first_view_within = FIRST_VIEW_WAIT + begins_within.unwrap_or_default();
        let stream =
            SegmentStream { key: Arc::clone(&key), app_bytes, state, waiting, asked_ms, first_view_within };
        let id = self.segments.streams.insert(stream);
        self.watch_segments(&key, (true, Some(address)));
        self.segments.by_key.insert(key, id);
        Ok(id)
    }

    /// Reports that clients of this worker ask for segments of a stream, the first at this address, or none
    /// any more.
    fn watch_segments(&self, key: &str, is_watched: (bool, Option<IpAddr>)) {
        if self.ctx.directory.has_other_sources() {
            self.ctx.directory.set_watched(key, self.ctx.worker, WatchedBy::Segments, is_watched);
        }
    }

    /// A publication has begun here. Where all of them are cut, so is this one.
    pub(crate) fn cut_if_always(&self, key: &Arc<str>, app_bytes: usize) {
        let cuts_all = self.ctx.settings.segments.as_ref().is_some_and(|segments| segments.always);
        let Some(queues) = self.control.segments.as_ref().filter(|_| cuts_all) else { return };
        let (key, worker) = (Arc::clone(key), self.ctx.worker.index());
        let wanted = SegmentsWanted { key, app_bytes, want: Want::Updates(worker) };
        if let Err(error) = queues.wanted.try_send(wanted) {
            tracing::warn!(%error, "a stream is not cut into segments before it is asked for");
        }
    }

    /// Answers a request from what there is, or has it wait.
    fn answer_or_wait(&mut self, conn: ConnId, request: MediaRequest, id: SegmentStreamId) {
        self.segments.streams[id].asked_ms = self.ctx.now_ms;
        let most = match self.respond(id, &request) {
            Ok(Answer::Wait { timeout }) => timeout,
            Ok(Answer::Recall(segment)) => {
                self.recall_segment(id, segment);
                RECALL_WAIT
            }
            Ok(Answer::Respond(body)) => return self.send_object(conn, request, id, body),
            Ok(answer) => return self.refuse_answer(conn, &request, &answer),
            Err(refused) => return self.refuse_segment(conn, &request, refused),
        };
        self.wait(conn, request, id, most, None);
    }

    /// What the newest view says to a request.
    fn respond(&self, id: SegmentStreamId, request: &MediaRequest) -> Result<Answer, Refused> {
        let Form::Segments(object) = &request.form else { return Ok(Answer::NotFound) };
        let now = Clock::since_1970();
        let answer = match &self.segments.streams[id].state {
            SegmentsState::Pending => Answer::Wait { timeout: self.segments.streams[id].first_view_within },
            SegmentsState::Objects(view) => view.respond(object, now),
            SegmentsState::Refused(why) | SegmentsState::Over(why) => return Err(*why),
        };
        // Without chunks a body has a length, and that of a segment that grows is not known.
        let cannot_grow = |body: &hls::Body| body.grows_from.is_some() && !request.chunked;
        Ok(match answer {
            Answer::Respond(body) if cannot_grow(&body) => Answer::Wait { timeout: GROWS_FOR_MAX },
            answer => answer,
        })
    }

    /// Has a segment read from disk. If there is no room for the message it is sent again later.
    fn recall_segment(&self, id: SegmentStreamId, segment: SegmentId) {
        let Some(queues) = &self.control.segments else { return };
        let SegmentStream { key, app_bytes, .. } = &self.segments.streams[id];
        let (key, app_bytes) = (Arc::clone(key), *app_bytes);
        let _ = queues.wanted.try_send(SegmentsWanted { key, app_bytes, want: Want::Recall(segment) });
    }

    fn wait(
        &mut self,
        conn: ConnId,
        request: MediaRequest,
        id: SegmentStreamId,
        most: Duration,
        grows_from: Option<u32>,
    ) {
        if self.segments.waiting >= WAITING_MAX && grows_from.is_none() {
            return self.refuse_segment(conn, &request, Refused::new(503, "too many requests wait"));
        }
        let session = &mut self.connections.sessions[conn];
        if let State::HttpHead(head) = &mut session.state {
            head.waits = true;
        }
        let (session, recalled_ms) = (session.id, self.ctx.now_ms);
        let until_ms = self.ctx.now_ms + most.as_millis() as u64;
        let waiting = Waiting { conn, session, request, until_ms, grows_from, recalled_ms };
        self.segments.streams[id].waiting.push(waiting);
        self.segments.waiting += 1;
    }

    /// Takes what the thread has made, and answers those that waited for it.
    pub(crate) fn receive_segments(&mut self) {
        while let Some(queues) = &self.control.segments
            && let Ok(SegmentsUpdate { key, state }) = queues.updates.try_recv()
        {
            let Some(&id) = self.segments.by_key.get(&key) else { continue };
            let is_over = matches!(state, SegmentsState::Over(_));
            self.segments.streams[id].state = state;
            if is_over {
                // Before what waits is answered: a request that comes behind has it cut again.
                self.segments.by_key.remove(&key);
                self.watch_segments(&key, (false, None));
            }
            self.review_waiting(id);
            if is_over {
                self.segments.streams.remove(id);
            }
        }
    }

    /// Looks at the requests of a stream that wait: what there is by now is answered, and what has waited
    /// for too long.
    fn review_waiting(&mut self, id: SegmentStreamId) {
        let waiting = std::mem::take(&mut self.segments.streams[id].waiting);
        self.segments.waiting -= waiting.len();
        let now_ms = self.ctx.now_ms;
        for mut one in waiting {
            let conn = one.conn;
            let session = self.connections.sessions.get(conn);
            if session.is_none_or(|session| session.id != one.session || session.closing_at_ms.is_some()) {
                continue;
            }
            if one.grows_from.is_some() {
                self.send_growing(id, one);
                continue;
            }
            let answer = self.respond(id, &one.request);
            let is_early = now_ms < one.until_ms;
            match answer {
                Ok(answer @ (Answer::Wait { .. } | Answer::Recall(_))) if is_early => {
                    let is_due = now_ms >= one.recalled_ms + RECALL_AGAIN.as_millis() as u64;
                    if let Answer::Recall(segment) = answer
                        && is_due
                    {
                        one.recalled_ms = now_ms;
                        self.recall_segment(id, segment);
                    }
                    self.segments.waiting += 1;
                    self.segments.streams[id].waiting.push(one);
                }
                Ok(Answer::Recall(_)) => {
                    let refused = Refused::new(503, "the disk is too slow");
                    self.answer_waiting(conn, |worker| worker.refuse_segment(conn, &one.request, refused));
                }
                Ok(Answer::Wait { .. }) => {
                    let refused = Refused::new(503, "the stream does not go on");
                    self.answer_waiting(conn, |worker| worker.refuse_segment(conn, &one.request, refused));
                }
                Err(refused) => {
                    self.answer_waiting(conn, |worker| worker.refuse_segment(conn, &one.request, refused));
                }
                Ok(Answer::Respond(body)) => {
                    // Who has waited has only now something to ask on with.
                    self.segments.streams[id].asked_ms = now_ms;
                    self.answer_waiting(conn, |worker| worker.send_object(conn, one.request, id, body));
                }
                Ok(answer) => {
                    self.answer_waiting(conn, |worker| worker.refuse_answer(conn, &one.request, &answer));
                }
            }
        }
    }

    /// Sends what has been added to a segment that grows.
    fn send_growing(&mut self, id: SegmentStreamId, mut waiting: Waiting) {
        let (Form::Segments(object), Some(from)) = (&waiting.request.form, waiting.grows_from) else {
            return;
        };
        let parts = match (&self.segments.streams[id].state, object.segment()) {
            (SegmentsState::Objects(view), Some((rendition, msn))) => {
                view.window.growing(rendition, msn, from)
            }
            _ => None,
        };
        let conn = waiting.conn;
        let is_over_time = self.ctx.now_ms >= waiting.until_ms;
        let Some((parts, is_complete)) = parts.filter(|_| !is_over_time) else {
            // What was begun cannot be taken back: the client sees that its end is missing.
            return self.remove(conn, EndReason::StreamGone);
        };
        waiting.grows_from = Some(from + parts.len() as u32);
        let body = &mut self.connections.sessions[conn].body;
        parts.into_iter().for_each(|part| push_chunk(body, part));
        if is_complete {
            body.push(Bytes::from_static(b"0\r\n\r\n"));
            let request = waiting.request;
            return self.answer_waiting(conn, |worker| {
                let stays = worker.connection_stays(conn, &request);
                worker.object_sent(conn, stays);
            });
        }
        self.segments.waiting += 1;
        self.segments.streams[id].waiting.push(waiting);
        self.write(conn);
    }

    /// Answers a request that has waited, and reads on what its client has sent since.
    fn answer_waiting(&mut self, conn: ConnId, answer: impl FnOnce(&mut Self)) {
        if let State::HttpHead(head) = &mut self.connections.sessions[conn].state {
            head.waits = false;
        }
        self.ctx.counters.segments_waited += 1;
        answer(self);
        self.handle_requests(conn, None);
    }

    /// Answers with an object.
    fn send_object(&mut self, conn: ConnId, request: MediaRequest, id: SegmentStreamId, mut body: hls::Body) {
        let is_get = request.method == Method::Get;
        let ranged = match &request.form {
            // Only of a GET (RFC 9110 section 14.2).
            Form::Segments(object) if is_get => object.apply_range(&mut body),
            _ => Ranged::Whole,
        };
        let stays = self.connection_stays(conn, &request);
        let mut fields = http::common_fields(self.ctx.settings.cors_allow_origin.as_deref(), stays);
        let session = &mut self.connections.sessions[conn];
        if let Ranged::Unsatisfiable { of } = ranged {
            self.ctx.counters.segments_refused += 1;
            fields += &format!("Content-Range: bytes */{of}\r\n");
            let refused = Refused::new(416, "there are no such bytes of it");
            http::write_refusal(&mut session.pending.bytes, &refused, &fields, true);
            return self.object_sent(conn, stays);
        }
        self.ctx.counters.segments_answered += 1;
        if let (SegmentsState::Objects(view), true) = (&self.segments.streams[id].state, is_get) {
            let address = session.address.ip();
            let (user_agent, token) = (request.user_agent.as_deref(), request.token.as_deref());
            view.note_viewer(&Viewer { address, user_agent, token }, Clock::since_1970());
        }
        http::write_object_head(&mut session.pending.bytes, &body, ranged, &fields);
        for piece in body.bytes.into_iter().filter(|_| is_get) {
            match body.grows_from {
                Some(_) => push_chunk(&mut session.body, piece),
                None => session.body.push(piece),
            }
        }
        if is_get && body.grows_from.is_some() {
            self.wait(conn, request, id, GROWS_FOR_MAX, body.grows_from);
            return self.write(conn);
        }
        self.object_sent(conn, stays);
    }

    /// An object is on its way. It is no session that has ended, as other answers are counted: a player asks
    /// for several each second.
    fn object_sent(&mut self, conn: ConnId, stays: bool) {
        match stays {
            true => self.await_next_request(conn),
            false => self.end(conn, EndReason::Answered("segment answered")),
        }
    }

    /// Answers that there is no such object.
    fn refuse_answer(&mut self, conn: ConnId, request: &MediaRequest, answer: &Answer) {
        let refused = match answer {
            Answer::Bad(error) => Refused::new(400, error.reason()),
            _ => Refused::new(404, "there is no such part of the stream"),
        };
        self.refuse_segment(conn, request, refused);
    }

    /// Looks for requests that have waited for too long, and streams that nobody has asked for.
    pub(crate) fn sweep_segments(&mut self) {
        let now_ms = self.ctx.now_ms;
        for id in self.segments.streams.ids() {
            let Some(stream) = self.segments.streams.get(id) else { continue };
            if stream.waiting.iter().any(|one| one.until_ms <= now_ms) {
                self.review_waiting(id);
            }
            let linger_ms =
                self.ctx.settings.segments.as_ref().map_or(0, |segments| segments.linger.as_millis() as u64);
            let stream = &self.segments.streams[id];
            if stream.waiting.is_empty() && now_ms - stream.asked_ms > linger_ms {
                self.leave_segments(id);
            }
        }
    }

    /// Nobody plays a stream here any more.
    fn leave_segments(&mut self, id: SegmentStreamId) {
        let (Some(queues), Some(stream)) = (&self.control.segments, self.segments.streams.get(id)) else {
            return;
        };
        let (key, app_bytes, worker) = (Arc::clone(&stream.key), stream.app_bytes, self.ctx.worker.index());
        // If there is no room it is tried again with the next sweep.
        if queues.wanted.try_send(SegmentsWanted { key, app_bytes, want: Want::Nothing(worker) }).is_ok() {
            self.watch_segments(&stream.key, (false, None));
            self.segments.forget(id);
        }
    }
}

/// A piece as a chunk (RFC 9112 section 7.1).
fn push_chunk(body: &mut Body, piece: Bytes) {
    body.push(Bytes::from(format!("{:x}\r\n", piece.len())));
    body.push(piece);
    body.push(Bytes::from_static(b"\r\n"));
}

impl Segments {
    /// Forgets a stream for which no request waits.
    fn forget(&mut self, id: SegmentStreamId) {
        if let Some(stream) = self.streams.remove(id) {
            self.by_key.remove(&stream.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::mpsc::sync_channel;

    use tokio::sync::mpsc;

    use super::*;
    use crate::ids::WorkerIndex;
    use crate::net::tests::connected;
    use crate::packets::panic_tests::worker;
    use crate::registry::Claimant;
    use worker_api::auth::{Access, Policy, Rules};
    use worker_api::handoff::Handoff;
    use worker_api::segments::NO_CODECS;

    /// A worker on which a stream is published, and a client that has asked for its playlist so many times.
    fn asked_for_a_playlist(
        times: usize,
        waiting: usize,
    ) -> (
        Worker,
        mpsc::Receiver<SegmentsWanted>,
        std::sync::mpsc::SyncSender<SegmentsUpdate>,
        impl Read + use<>,
    ) {
        let (mut worker, _noted) = worker();
        worker.segments.waiting = waiting;
        let play = Rules { rules: Vec::new(), fallback: Access::anyone() };
        worker.ctx.policy = Arc::new(Policy { play, ..Policy::default() });
        let (wanted, asked) = mpsc::channel(8);
        let (updates, received) = sync_channel(8);
        worker.control.segments = Some(SegmentQueues { wanted, updates: received });
        let publisher = Claimant::Publisher { takes_over: false };
        let claim = worker.ctx.directory.claim("live/a", WorkerIndex::at(0), publisher, None);
        claim.expect("nobody publishes it");
        let (stream, client) = connected();
        let peer = stream.peer_addr().expect("an address");
        let home = worker.control.home.clone();
        let buffered = b"GET /live/a.m3u8 HTTP/1.1\r\nHost: a\r\n\r\n".repeat(times);
        let handoff =
            Handoff { stream, tls: None, buffered, peer, requests: 1, slot: None, place: None, home };
        let next = worker.idle.take_back(&mut worker.ctx, handoff).expect("a request");
        worker.resume_http(next);
        (worker, asked, updates, client)
    }

    fn answer_of(client: &mut impl Read) -> String {
        let mut answer = [0; 512];
        let bytes = client.read(&mut answer).expect("an answer");
        String::from_utf8_lossy(&answer[..bytes]).into_owned()
    }

    #[test]
    fn a_request_behind_one_whose_stream_is_over_is_not_forgotten() {
        let (mut worker, mut asked, updates, mut client) = asked_for_a_playlist(2, 0);
        let key = asked.try_recv().expect("the stream is to be cut").key;
        let state = SegmentsState::Over(Refused::NO_STREAM);
        updates.send(SegmentsUpdate { key, state }).expect("room");
        worker.receive_segments();
        let answer = answer_of(&mut client);
        assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
        assert!(
            asked.try_recv().is_ok_and(|wanted| matches!(wanted.want, Want::Updates(_))),
            "it is to be cut again"
        );
        assert_eq!((worker.segments.waiting, worker.segments.streams.len()), (1, 1));
    }

    #[test]
    fn one_request_more_than_may_wait_is_answered_503() {
        let (worker, _asked, _updates, mut client) = asked_for_a_playlist(1, WAITING_MAX);
        let answer = answer_of(&mut client);
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert_eq!(worker.segments.waiting, WAITING_MAX);
        let (worker, ..) = asked_for_a_playlist(1, WAITING_MAX - 1);
        assert_eq!(worker.segments.waiting, WAITING_MAX);
    }

    #[test]
    fn a_stream_that_cannot_be_cut_is_refused_with_the_reason_as_long_as_that_is_so() {
        let (mut worker, mut asked, updates, mut client) = asked_for_a_playlist(1, 0);
        let key = asked.try_recv().expect("the stream is to be cut").key;
        let state = SegmentsState::Refused(NO_CODECS);
        updates.send(SegmentsUpdate { key, state }).expect("room");
        worker.receive_segments();
        let answer = answer_of(&mut client);
        assert!(answer.starts_with("HTTP/1.1 404 ") && answer.contains("VP8"), "{answer}");
        assert_eq!((worker.segments.waiting, worker.segments.streams.len()), (0, 1));
    }
}
