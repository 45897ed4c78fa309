//! Playlists and segments over HTTP/2.
//!
//! Workers answer the same requests over HTTP/1.1 by themselves (`segments.rs` there); a connection of HTTP/2
//! is with the control side for all of its life. Both ask the same views of a stream.

use std::borrow::Cow;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ::segments::Segments;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use futures_util::{StreamExt, TryStreamExt};
use hls::Answer;
use media::TrackId;
use percent_encoding::percent_decode_str;
use rtmp::name::query_value;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};
use worker_api::Refused;
use worker_api::segments::{
    FIRST_VIEW_WAIT, ObjectRequest, RECALL_AGAIN, RECALL_WAIT, Ranged, SegmentsState, SegmentsUpdate, Target,
    accepts_gzip,
};
use worker_api::snapshot::{Role, kept_user_agent};
use worker_api::streams::Published;
use worker_api::time::since_1970;
use worker_api::viewers::Viewer;

use crate::context::{Context, Peer};
use crate::ranged::put;
use crate::server::Endless;
use crate::{access, error_response, hooks, ranged};

/// Answers a request for a playlist, a segment or a part.
pub(crate) async fn answer(
    context: Arc<Context>,
    peer: Peer,
    request: Request,
    target: Target<'_>,
) -> Response {
    let checked = check(&context, peer, &request, target);
    let headers = request.headers().clone();
    // It cannot be kept: its body is for one thread only.
    drop(request);
    let found = match checked {
        Ok(Some(asked)) => {
            let key = format!("{}/{}", asked.app, asked.stream);
            match hooks::may_view(&context, peer, &headers, &key, asked.token.as_deref()).await {
                Ok(()) => find(&context, &asked).await,
                Err(refused) => Err(refused),
            }
        }
        Ok(None) => Ok(preflight()),
        Err(refusal) => Err(refusal),
    };
    let mut response = found.unwrap_or_else(error_response::refused);
    crate::rtc::allow_origin(&context, &mut response);
    response
}

/// What is asked of a stream.
struct Asked {
    app: String,
    stream: String,
    object: ObjectRequest,
    is_head: bool,
    address: IpAddr,
    user_agent: Option<Box<str>>,
    token: Option<String>,
}

fn preflight() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let methods = HeaderValue::from_static("GET, HEAD, OPTIONS");
    response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    response
}

/// What a request asks for, if its sender may have it; `None` for a preflight.
fn check(
    context: &Context,
    peer: Peer,
    request: &Request,
    target: Target<'_>,
) -> Result<Option<Asked>, Refused> {
    if request.method() == Method::OPTIONS {
        return Ok(None);
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Err(Refused::new(405, "a stream can only be read"));
    }
    let decode = |text| percent_decode_str(text).decode_utf8().ok().map(Cow::into_owned);
    let (app, stream) = target.stream.rsplit_once('/').unwrap_or_default();
    let names = decode(app).zip(decode(stream));
    let (app, stream) = names.ok_or(Refused::new(404, "a stream is /{app}/{stream}"))?;
    context.names.check(&app, &stream).map_err(|error| Refused::new(400, error.reason()))?;
    let query = request.uri().query().unwrap_or("");
    let token = query_value(query, "token");
    let mut sender = access::web_request(request, peer);
    sender.token = sender.token.or(token.as_deref());
    context.policy().may_play_by_web(&app, &stream, &sender)?;
    let token = sender.token.map(str::to_owned);
    if *context.draining.borrow() {
        return Err(Refused::new(503, "the server is shutting down"));
    }
    let field = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
    let object = ObjectRequest::read(target, query, field(header::ACCEPT_ENCODING).is_some_and(accepts_gzip));
    let is_conditional = request.headers().contains_key(header::IF_RANGE);
    let object = object.map(|object| object.with_range(field(header::RANGE), is_conditional));
    let object = object?;
    let user_agent = field(header::USER_AGENT).map(kept_user_agent);
    let viewer =
        Viewer { address: peer.address.ip(), user_agent: user_agent.as_deref(), token: token.as_deref() };
    // Who plays already goes on.
    if let Some(overload) = context.rtc.overload(Role::Player).filter(|_| object.may_be_first())
        && (object.is_first()
            || !context.segments.as_ref().is_some_and(|known| known.has_viewer(&app, &stream, &viewer)))
    {
        context.rtc.count_overload(Role::Player, overload);
        return Err(Refused::new(503, overload.reason()));
    }
    Ok(Some(Asked {
        app,
        stream,
        object,
        is_head: request.method() == Method::HEAD,
        address: peer.address.ip(),
        // As much of it as workers keep.
        user_agent,
        token,
    }))
}

async fn find(context: &Context, asked: &Asked) -> Result<Response, Refused> {
    let Some(segments) = &context.segments else {
        return Err(Refused::new(404, "streams are not cut into segments here: `hls.mode` is off"));
    };
    let (app, stream) = (&asked.app, &asked.stream);
    // Until the answer; a viewer comes again while the pull lingers.
    let demand = context.pulls.demand(app, stream, asked.address);
    let updates = match context.rtc.published(app, &format!("{app}/{stream}")) {
        Published::Nobody if demand.is_none() => segments.left(app, stream).ok_or(Refused::NO_STREAM)?,
        _ => {
            let watched = segments.watch(app, stream).await;
            watched.ok_or(Refused::new(503, "too many streams are asked for at once"))?
        }
    };
    let within = demand.as_ref().map(|demand| demand.within).unwrap_or_default();
    let (answer, updates) = wait_for(segments, updates, asked, within).await;
    match answer? {
        Answer::Respond(body) => {
            if let (SegmentsState::Objects(view), false) = (&updates.borrow().state, asked.is_head) {
                let (user_agent, token) = (asked.user_agent.as_deref(), asked.token.as_deref());
                view.note_viewer(&Viewer { address: asked.address, user_agent, token }, since_1970());
            }
            Ok(respond(asked, body, updates))
        }
        Answer::Bad(error) => Err(Refused::new(400, error.reason())),
        Answer::Wait { .. } => Err(Refused::new(503, "the stream does not go on")),
        Answer::Recall(_) => Err(Refused::new(503, "the disk is too slow")),
        Answer::NotFound => Err(Refused::new(404, "there is no such part of the stream")),
    }
}

fn respond(asked: &Asked, mut body: hls::Body, updates: watch::Receiver<SegmentsUpdate>) -> Response {
    let ranged = if asked.is_head { Ranged::Whole } else { asked.object.apply_range(&mut body) };
    let mut response = ranged::head(ranged);
    match ranged {
        Ranged::Unsatisfiable { .. } => return response,
        Ranged::Whole if body.cache == hls::Cache::Immutable => {
            put(&mut response, header::ACCEPT_RANGES, "bytes");
        }
        Ranged::Whole | Ranged::Part { .. } => {}
    }
    put(&mut response, header::CONTENT_TYPE, body.content_type);
    put(&mut response, header::CACHE_CONTROL, &body.cache.to_string());
    let growing = body.grows_from.zip(asked.object.segment());
    if growing.is_none() {
        put(&mut response, header::CONTENT_LENGTH, &body.len().to_string());
    }
    if body.is_gzip {
        put(&mut response, header::CONTENT_ENCODING, "gzip");
        put(&mut response, header::VARY, "Accept-Encoding");
    }
    if !asked.is_head {
        // Shared bytes, as a worker sends them: nothing is copied here.
        let pieces = futures_util::stream::iter(body.bytes.into_iter().map(Ok::<_, io::Error>));
        *response.body_mut() = match growing {
            Some((from, (rendition, msn))) => {
                // Each part has the time of a request.
                response.extensions_mut().insert(Endless);
                let growing = Growing { updates, rendition, msn, from: Some(from) };
                let added = futures_util::stream::try_unfold(growing, Growing::next)
                    .map_ok(|parts| futures_util::stream::iter(parts.into_iter().map(Ok::<_, io::Error>)));
                Body::from_stream(pieces.chain(added.try_flatten()))
            }
            None => Body::from_stream(pieces),
        };
    }
    response
}

/// A segment that is sent while it grows.
struct Growing {
    updates: watch::Receiver<SegmentsUpdate>,
    rendition: TrackId,
    msn: u64,
    /// The part to go on with; `None`: it is complete.
    from: Option<u32>,
}

impl Growing {
    /// The parts that have come since. An error if the rest will not come: what was begun cannot be
    /// taken back.
    async fn next(mut self) -> io::Result<Option<(Vec<Bytes>, Self)>> {
        let Some(from) = self.from else { return Ok(None) };
        loop {
            let state = self.updates.borrow_and_update().state.clone();
            let added = match &state {
                SegmentsState::Objects(view) => view.window.growing(self.rendition, self.msn, from),
                _ => None,
            };
            let gone =
                || io::Error::new(io::ErrorKind::UnexpectedEof, "the rest of the segment does not come");
            let (parts, is_complete) = added.ok_or_else(gone)?;
            if is_complete || !parts.is_empty() {
                self.from = (!is_complete).then_some(from + parts.len() as u32);
                return Ok(Some((parts, self)));
            }
            match timeout(WAITS_MAX, self.updates.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return Err(gone()),
            }
        }
    }
}

/// The answer, when there is one, and what comes behind it.
async fn wait_for(
    segments: &Segments,
    mut updates: watch::Receiver<SegmentsUpdate>,
    asked: &Asked,
    begins_within: Duration,
) -> (Result<Answer, Refused>, watch::Receiver<SegmentsUpdate>) {
    let mut until = None;
    let answer = loop {
        let state = updates.borrow_and_update().state.clone();
        let most = match state {
            SegmentsState::Pending => FIRST_VIEW_WAIT + begins_within,
            SegmentsState::Objects(view) => match view.respond(&asked.object, since_1970()) {
                Answer::Wait { timeout } => timeout,
                Answer::Recall(segment) => {
                    segments.recall(&asked.app, &asked.stream, segment);
                    let until = *until.get_or_insert_with(|| Instant::now() + RECALL_WAIT);
                    // A message that found no room is sent again.
                    let again = timeout(RECALL_AGAIN, updates.changed()).await;
                    if Instant::now() >= until {
                        break Ok(Answer::Recall(segment));
                    }
                    match again {
                        Ok(Err(_)) => break Err(Refused::NO_STREAM),
                        Ok(Ok(())) | Err(_) => continue,
                    }
                }
                answer => break Ok(answer),
            },
            SegmentsState::Refused(why) | SegmentsState::Over(why) => break Err(why),
        };
        let until = *until.get_or_insert_with(|| Instant::now() + most.min(WAITS_MAX));
        match timeout_at(until, updates.changed()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => break Err(Refused::NO_STREAM),
            Err(_) => break Ok(Answer::Wait { timeout: most }),
        }
    };
    (answer, updates)
}

/// Longest time that a request waits, or for the next part of a segment: below that in which every
/// request has to be answered, or the others of its connection would end with it.
const WAITS_MAX: Duration = Duration::from_secs(25);
