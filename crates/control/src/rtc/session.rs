//! PATCH and DELETE: a session is changed and ended by whoever knows its URL.
//!
//! A fragment with new credentials restarts ICE, any other brings candidates, which a side that is
//! ICE-lite has no use for, but must take (RFC 9725 section 4.3). Entity tags name the ICE session:
//! its user fragment on this side.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rtc::sdp::{IceCredentials, TrickleFragment, parse_fragment};

use super::candidates::candidates;
use super::control::{IceSession, Session};
use super::headers::{self, FRAGMENT, IfMatch};
use super::open::new_credentials;
use super::refusal::Refusal;
use super::text;
use crate::BODY_BYTES_MAX;
use crate::{Context, Peer};
use worker_api::rtc::RtcPatch;
use worker_api::snapshot::SessionId;

/// Answers 204 to candidates, 200 to an ICE restart.
pub(super) async fn patch(
    context: &Context,
    peer: Peer,
    token: &str,
    request: Request,
) -> Result<Response, Refusal> {
    let (id, session) = find(context, peer, token)?;
    context.rtc.admit(peer.address.ip())?;
    if !headers::is_of_type(request.headers(), FRAGMENT) {
        return Err(Refusal::MediaType(FRAGMENT));
    }
    let if_match = match IfMatch::read(request.headers()) {
        IfMatch::Absent => return Err(Refusal::NoIfMatch),
        IfMatch::Malformed => return Err(Refusal::IfMatch),
        other => other,
    };
    let fragment = parse_fragment(&text(request.into_body(), BODY_BYTES_MAX).await?)?;
    let mut ice = session.ice.lock().await;
    if !if_match.holds_for(&ice.tag) {
        return Err(Refusal::OtherIceSession);
    }
    let Some(remote) = requested_credentials(&fragment, &ice.remote)? else {
        change(context, id, RtcPatch::Candidates(fragment.candidates)).await?;
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let local = new_credentials(session.worker)?;
    let candidates = fragment.candidates;
    let restart = RtcPatch::Restart { local: local.clone(), remote: remote.clone(), candidates };
    change(context, id, restart).await?;
    *ice = IceSession { tag: local.ufrag.clone(), remote };
    tracing::debug!(session = %id, "ICE restarted");
    Ok(restarted(context, &session, &local))
}

/// Has the worker make a change. A session that has gone meanwhile is about to lose its URL.
async fn change(context: &Context, id: SessionId, patch: RtcPatch) -> Result<(), Refusal> {
    if context.workers.rtc_patch(id, patch).await? { Ok(()) } else { Err(Refusal::NoSession) }
}

/// The credentials of an ICE restart; `None` when the fragment is about the present ones, or about none.
fn requested_credentials(
    fragment: &TrickleFragment,
    present: &IceCredentials,
) -> Result<Option<IceCredentials>, Refusal> {
    let same_ufrag = fragment.ufrag.as_ref().is_none_or(|ufrag| *ufrag == present.ufrag);
    let same_password = fragment.password.as_ref().is_none_or(|password| *password == present.password);
    if same_ufrag && same_password {
        return Ok(None);
    }
    // Both must be new (RFC 8445 section 9): half of it is no restart, and nothing else either.
    match fragment.ice() {
        Some(remote) if !same_ufrag => Ok(Some(remote)),
        _ => Err(Refusal::HalfCredentials),
    }
}

fn restarted(context: &Context, session: &Session, local: &IceCredentials) -> Response {
    let endpoint = context.rtc.parts.endpoints.get(session.worker);
    let candidates = endpoint
        .map(|endpoint| candidates(endpoint, &context.rtc.announced(session.asked), session.client))
        .unwrap_or_default();
    let body = TrickleFragment::restarted(local, &candidates, &session.mid).to_string();
    let mut response = body.into_response();
    let out = response.headers_mut();
    out.insert(header::CONTENT_TYPE, HeaderValue::from_static(FRAGMENT));
    out.extend(headers::etag(&local.ufrag));
    response
}

/// Ends the session. Entity tags are of no account here (RFC 9725 section 4.3.1).
pub(super) async fn delete(context: &Context, peer: Peer, token: &str) -> Result<Response, Refusal> {
    let (id, _) = find(context, peer, token)?;
    if !context.workers.rtc_close(id).await? {
        return Err(Refusal::NoSession);
    }
    tracing::info!(session = %id, "WebRTC session ended by its client");
    Ok(Response::new(Body::empty()))
}

/// Whether there is such a session: 204, as there is nothing to show.
pub(super) fn look(context: &Context, peer: Peer, token: &str) -> Result<Response, Refusal> {
    find(context, peer, token).map(|_| StatusCode::NO_CONTENT.into_response())
}

/// Guesses count as requests of their address. Who knows the URL is not held up: thousands of
/// clients of one machine may say goodbye at once.
pub(super) fn find(context: &Context, peer: Peer, token: &str) -> Result<(SessionId, Arc<Session>), Refusal> {
    if let Some(found) = context.rtc.registry.find(token) {
        return Ok(found);
    }
    context.rtc.admit(peer.address.ip())?;
    Err(Refusal::NoSession)
}
