//! WHIP (RFC 9725) and WHEP (draft-ietf-wish-whep): offers in, answers out, sessions changed and ended by
//! their URL.
//!
//! ```text
//! POST /whip/{app}/{stream} ─▶ rate ─▶ token ─▶ offer read ─▶ reservation ─▶ answer made ─▶ worker opens ─▶ 201, Location
//! PATCH, DELETE /rtc/session/{token} ─▶ registry ─▶ worker
//! POST /rtc/session/{token}/layer ─▶ registry ─▶ worker
//! GET /rtc/session/{token}/sse ─▶ registry ─▶ events, until the session ends
//! ```
//!
//! A worker is given facts that have been checked, and opens a session of them; media and its end are the
//! worker's. The worker reports (`RtcNotice`), and the URL goes with the session.

mod candidates;
mod control;
mod events;
mod formats;
mod headers;
mod layer;
mod listeners;
mod open;
mod refusal;
mod registry;
mod session;
mod target;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use axum::{Extension, Router};

use super::{Context, Peer, access};
pub(super) use control::PlaybackOptions;
pub use control::{Lookup, Redirect, RtcControl, RtcParts};

use headers::{
    ACCEPT_PATCH, ACCEPT_POST, ENDPOINT_METHODS, EVENTS_METHODS, FRAGMENT, JSON, LAYER_METHODS, SDP,
    SESSION_METHODS,
};
use refusal::Refusal;
use target::Target;
use worker_api::auth::{Denied, Permit};
use worker_api::rtc::RtcRole;
use worker_api::time::since_1970;
use worker_api::usage::Uses;

/// Largest offer that is read: one of a hundred tracks.
pub(super) const OFFER_BYTES_MAX: u64 = rtc::sdp::SDP_BYTES_MAX as u64;
/// Where sessions are.
const SESSION_PATH: &str = "/rtc/session/";

/// Whether offers are posted to `path`, which may be larger than what other paths take.
pub(super) fn takes_offers(path: &str) -> bool {
    path.starts_with("/whip/") || path.starts_with("/whep/")
}

/// Whether `path`, which no route takes, was meant for WHIP or WHEP: other servers have
/// `/{app}/{stream}/whip`, or `/whip` alone.
pub(super) fn is_misplaced(path: &str) -> bool {
    let path = path.trim_end_matches('/');
    path.ends_with("/whip") || path.ends_with("/whep")
}

/// Says where WHIP and WHEP are.
pub(super) fn misplaced() -> Response {
    Refusal::Misplaced.into_response()
}

/// Routes of WHIP and WHEP.
pub(super) fn router() -> Router<Arc<Context>> {
    Router::new()
        .route("/whip/{*stream}", any(whip))
        .route("/whep/{*stream}", any(whep))
        .route("/rtc/session/{token}", any(of_session))
        .route("/rtc/session/{token}/layer", any(of_layer))
        .route("/rtc/session/{token}/sse", any(of_events))
}

async fn whip(
    State(context): State<Arc<Context>>,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Response {
    endpoint(&context, peer, RtcRole::Publish, request).await
}

async fn whep(
    State(context): State<Arc<Context>>,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Response {
    endpoint(&context, peer, RtcRole::Play, request).await
}

/// A stream's URL.
async fn endpoint(context: &Context, peer: Peer, role: RtcRole, request: Request) -> Response {
    let result = match *request.method() {
        Method::POST => open::open(context, peer, role, request).await,
        Method::OPTIONS => options(context, peer, role, &request),
        // RFC 9725 section 4.1: there is nothing to show, and that is no error.
        Method::GET | Method::HEAD => Ok(StatusCode::NO_CONTENT.into_response()),
        _ => Err(Refusal::Method(ENDPOINT_METHODS)),
    };
    with_origin(context, result)
}

/// A session's URL.
async fn of_session(
    State(context): State<Arc<Context>>,
    Extension(peer): Extension<Peer>,
    token: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let token = token.map(|Path(token)| token).unwrap_or_default();
    let result = match *request.method() {
        Method::PATCH => session::patch(&context, peer, &token, request).await,
        Method::DELETE => session::delete(&context, peer, &token).await,
        Method::GET | Method::HEAD => session::look(&context, peer, &token),
        Method::OPTIONS => Ok(preflight(SESSION_METHODS, ACCEPT_PATCH, FRAGMENT)),
        _ => Err(Refusal::Method(SESSION_METHODS)),
    };
    with_origin(&context, result)
}

/// The URL of a session's layers.
async fn of_layer(
    State(context): State<Arc<Context>>,
    Extension(peer): Extension<Peer>,
    token: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let token = token.map(|Path(token)| token).unwrap_or_default();
    let result = match *request.method() {
        Method::POST => layer::choose(&context, peer, &token, request).await,
        Method::DELETE => layer::leave_to_server(&context, peer, &token).await,
        Method::OPTIONS => Ok(preflight(LAYER_METHODS, ACCEPT_POST, JSON)),
        _ => Err(Refusal::Method(LAYER_METHODS)),
    };
    with_origin(&context, result)
}

/// The URL of a session's events.
async fn of_events(
    State(context): State<Arc<Context>>,
    Extension(peer): Extension<Peer>,
    token: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let token = token.map(|Path(token)| token).unwrap_or_default();
    let result = match *request.method() {
        Method::GET => events::listen(&context, peer, &token, request.uri()),
        Method::POST => events::create(&context, peer, &token, request).await,
        Method::OPTIONS => Ok(preflight(EVENTS_METHODS, ACCEPT_POST, JSON)),
        _ => Err(Refusal::Method(EVENTS_METHODS)),
    };
    with_origin(&context, result)
}

fn with_origin(context: &Context, result: Result<Response, Refusal>) -> Response {
    if matches!(result, Err(Refusal::Denied(denied)) if !denied.is_exceeded()) {
        context.rtc.denied.fetch_add(1, Ordering::Relaxed);
    }
    let mut response = result.unwrap_or_else(IntoResponse::into_response);
    headers::allow_origin(response.headers_mut(), context.rtc.settings().cors_allow_origin.as_deref());
    response
}

/// Answers OPTIONS of a stream's URL (RFC 9725 section 4.2).
///
/// ICE servers are named to clients that must know them before they make an offer (section 4.6), but not to a
/// preflight, and only to who may have a session: their credentials are worth something.
fn options(context: &Context, peer: Peer, role: RtcRole, request: &Request) -> Result<Response, Refusal> {
    let mut response = preflight(ENDPOINT_METHODS, ACCEPT_POST, SDP);
    let is_preflight = request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let settings = context.rtc.settings();
    let servers = &settings.rtc.ice_servers;
    if !is_preflight && context.rtc.is_on() && !servers.is_empty() {
        context.rtc.admit(peer.address.ip())?;
        let target = Target::read(request.uri(), &context.names)?;
        if may(context, peer, role, &target, request).is_ok() {
            headers::link_ice_servers(response.headers_mut(), servers);
        }
    }
    Ok(response)
}

/// Lets pages of other origins read an answer, as configured.
pub(crate) fn allow_origin(context: &Context, response: &mut Response) {
    headers::allow_origin(response.headers_mut(), context.rtc.settings().cors_allow_origin.as_deref());
}

fn preflight(methods: &'static str, accepts: HeaderName, media_type: &'static str) -> Response {
    let mut response = Response::new(Body::empty());
    let headers = response.headers_mut();
    headers::allow_methods(headers, methods);
    headers.insert(header::ALLOW, HeaderValue::from_static(methods));
    headers.insert(accepts, HeaderValue::from_static(media_type));
    response
}

/// Whether the sender may have a session of `role`.
fn may(
    context: &Context,
    peer: Peer,
    role: RtcRole,
    target: &Target,
    request: &Request,
) -> Result<Permit, Denied> {
    let mut sender = access::web_request(request, peer);
    sender.token = sender.token.or(target.token.as_deref());
    let policy = context.policy();
    match role {
        RtcRole::Publish => policy.may_publish_by_web(&target.app, &target.stream, &sender),
        RtcRole::Play => policy.may_play_by_web(&target.app, &target.stream, &sender),
    }
}

/// Whether the sender's token and address have room for a session, which holds its place from then on.
fn uses(context: &Context, peer: Peer, target: &Target, request: &Request) -> Result<Uses, Denied> {
    let token = access::web_request(request, peer).token.or(target.token.as_deref());
    let settings = context.rtc.settings();
    let (of, now) = ((token, peer.address.ip()), tokio::time::Instant::now().into_std());
    let uses = settings.usage.take(&settings.usage_limits, of, now, since_1970().as_secs());
    uses.map_err(Denied::Exceeded)
}

/// The body as text, at most `limit` bytes.
async fn text(body: Body, limit: u64) -> Result<String, Refusal> {
    // The only other reason for an error is a connection that broke, and then nobody reads the answer.
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let bytes = axum::body::to_bytes(body, limit).await.map_err(|_| Refusal::TooLarge)?;
    String::from_utf8(bytes.into()).map_err(|_| Refusal::NotText)
}

/// Nobody is let in, or answered, while the server stops.
fn not_stopping(context: &Context) -> Result<(), Refusal> {
    if *context.draining.borrow() { Err(Refusal::Draining) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
