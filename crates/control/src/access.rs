//! Puts the management rule in front of the API and of metrics.
//!
//! Reads from the request what the rule asks about; the decision is `auth::manage`'s.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, Uri};
use axum::middleware::Next;
use axum::response::Response;

use super::{Context, Peer, RecordingFiles, error_response, stats};
use worker_api::Refused;
use worker_api::auth::Denied;
use worker_api::auth::manage::WebRequest;
use worker_api::pattern;
use worker_api::time::since_1970;

/// Lets a request through to the API, or answers 401 or 403.
pub(crate) async fn manage(
    State(context): State<Arc<Context>>,
    Extension(peer): Extension<Peer>,
    request: Request,
    next: Next,
) -> Response {
    // A browser cannot add `Authorization` to a WebSocket handshake.
    let is_stream = request.uri().path() == stats::STREAM_PATH;
    let shown = is_stream.then(|| stats::token_of_protocols(request.headers())).flatten();
    // Nor can it add one to the requests of a `<video>`: their URL has a signature.
    if context.recording_files.opens(request.method(), request.uri()) {
        return next.run(request).await;
    }
    let mut asked = web_request(&request, peer);
    asked.token = asked.token.or(shown.as_deref());
    let allowed = context.policy().manage.may_manage(&asked);
    if let (Err(denied), None) = (allowed, asked.token)
        && RecordingFiles::is_link(request.method(), request.uri())
    {
        let reason = "the link is not valid, or has ended";
        return error_response::refused(Refused { reason, ..denied.into() });
    }
    if allowed.is_err()
        && starts_or_stops_recording(request.method(), request.uri().path())
        && let Ok(()) = context.policy().manage.may_record(&asked, |_| true)
    {
        let token = asked.token.unwrap_or_default().into();
        let mut request = request;
        request.extensions_mut().insert(RecordsOnly { token, peer });
        return next.run(request).await;
    }
    decide(allowed, request, next).await
}

/// The sender may begin and end recordings of some streams, and nothing else: the handler asks of which.
#[derive(Clone)]
pub(crate) struct RecordsOnly {
    token: Arc<str>,
    peer: Peer,
}

impl RecordsOnly {
    /// Whether the stream is one of them.
    pub(crate) fn may_record(&self, context: &Context, app: &str, name: &str) -> Result<(), Denied> {
        let request = Request::new(axum::body::Body::empty());
        let asked = WebRequest { token: Some(&self.token), ..web_request(&request, self.peer) };
        context.policy().manage.may_record(&asked, |pattern| pattern::matches_parts(pattern, app, name))
    }
}

/// Whether a request begins or ends a recording: `POST /api/v1/recordings`, `DELETE` of a stream below it.
fn starts_or_stops_recording(method: &Method, path: &str) -> bool {
    match path.strip_prefix("/api/v1/recordings") {
        Some("") => method == Method::POST,
        Some(stream) => method == Method::DELETE && stream.matches('/').count() == 2,
        None => false,
    }
}

/// Whether the sender of a handshake for statistics may still read them: what it showed is asked about again.
pub(crate) fn may_still_read(context: &Context, uri: Uri, headers: HeaderMap, peer: Peer) -> bool {
    let shown = stats::token_of_protocols(&headers);
    let mut request = Request::default();
    (*request.uri_mut(), *request.headers_mut()) = (uri, headers);
    let mut asked = web_request(&request, peer);
    asked.token = asked.token.or(shown.as_deref());
    context.policy().manage.may_manage(&asked).is_ok()
}

/// The same for `/metrics`.
pub(crate) async fn metrics(
    State(context): State<Arc<Context>>,
    Extension(peer): Extension<Peer>,
    request: Request,
    next: Next,
) -> Response {
    let allowed = context.policy().manage.may_read_metrics(&web_request(&request, peer));
    decide(allowed, request, next).await
}

async fn decide(allowed: Result<(), Denied>, request: Request, next: Next) -> Response {
    match allowed {
        Ok(()) => next.run(request).await,
        Err(denied) => error_response::refused(denied.into()),
    }
}

/// What `request` shows about its sender.
pub(crate) fn web_request(request: &Request, peer: Peer) -> WebRequest<'_> {
    let headers = request.headers();
    WebRequest {
        peer: peer.address.ip(),
        token: text(headers, "authorization").and_then(bearer),
        host: host(request),
        origin: text(headers, "origin"),
        fetch_site: text(headers, "sec-fetch-site"),
        forwarded: headers.keys().any(|name| is_forwarding(name.as_str())),
        now: since_1970(),
        state_changing: !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS),
    }
}

/// The host a request is for: from an absolute target if it has one (RFC 9112 §3.2.2), else from `Host`.
pub(crate) fn host(request: &Request) -> Option<&str> {
    request.uri().authority().map(|authority| authority.as_str()).or_else(|| text(request.headers(), "host"))
}

/// Whether a header shows that a proxy forwarded the request.
fn is_forwarding(name: &str) -> bool {
    matches!(name, "forwarded" | "via" | "x-real-ip") || name.starts_with("x-forwarded-")
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    // A value that is not ASCII must not count as absent: it is present and matches nothing.
    headers.get(name).map(|value| value.to_str().unwrap_or("\u{fffd}"))
}

/// Token of `Bearer TOKEN` (RFC 6750 §2.1); the scheme in any case.
fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
