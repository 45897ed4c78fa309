//! The control side: everything HTTP that is not media.
//!
//! A worker that finds a request is not media hands the connection over; here it is served by an ordinary router on
//! a small async runtime: WHIP and WHEP, management API, health, metrics, console. Workers are asked through `link.rs`,
//! never shared. Each connection serves one request and is closed, because the next one might be for media, which only
//! workers serve.

mod access;
mod api;
mod connection;
mod console;
mod context;
mod error_response;
mod health;
mod metrics;
mod peers;
pub mod rtc;
pub mod stats;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::{Semaphore, mpsc};
use tower::ServiceExt;

pub use context::{Context, Peer};

use connection::Connection;
use context::BODY_BYTES_MAX;
use peers::PeerSlots;
use worker_api::link::Handoff;

/// Connections served at the same time; with more, workers answer 503 once their queue to us is full.
const CONNECTIONS_MAX: usize = 1024;
/// Time that requests in progress get when the server stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);
/// Time for one connection, from hand-over to the last byte of the answer.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);
/// Buffer of a connection; the worker has bounded the request head already.
const BUFFER_BYTES_MAX: usize = 64 << 10;

/// Serves connections until the workers have gone and the queue is empty.
pub async fn serve(context: Arc<Context>, mut handoffs: mpsc::Receiver<Handoff>) {
    let router = router(Arc::clone(&context));
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let peers = PeerSlots::default();
    while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
        let Some(handoff) = handoffs.recv().await else { break };
        // Too many from one address: closed, so that somebody else gets an answer.
        let Some(peer_slot) = peers.take(handoff.peer.ip()) else { continue };
        let router = router.clone();
        tokio::spawn(async move {
            serve_connection(router, handoff).await;
            drop((slot, peer_slot));
        });
    }
    // Requests under way are answered before the process ends.
    let all = async {
        let _ = slots.acquire_many(CONNECTIONS_MAX as u32).await;
        context.stats.all_closed().await;
    };
    let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, all).await;
}

async fn serve_connection(router: Router, handoff: Handoff) {
    let peer = Peer { address: handoff.peer, tls: handoff.tls.is_some() };
    let connection = match Connection::new(handoff) {
        Ok(connection) => connection,
        Err(error) => {
            tracing::warn!(%error, "a connection could not be taken over from its worker");
            return;
        }
    };
    let service = hyper::service::service_fn(move |mut request: Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(peer);
        router.clone().oneshot(request)
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(CONNECTION_TIMEOUT)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(TokioIo::new(connection), service)
        // What is upgraded goes on by itself, under limits of its own.
        .with_upgrades();
    match tokio::time::timeout(CONNECTION_TIMEOUT, served).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(peer = %peer.address, %error, "HTTP connection ended early"),
        Err(_) => tracing::debug!(peer = %peer.address, "HTTP connection closed: time limit"),
    }
}

/// The whole router: API and metrics behind the management rule, WHIP and WHEP behind those of streams, health and
/// console in the open.
fn router(context: Arc<Context>) -> Router {
    let (api, _) = api::router(Arc::clone(&context));
    let metrics =
        metrics::router().route_layer(middleware::from_fn_with_state(Arc::clone(&context), access::metrics));
    Router::new()
        .merge(health::router())
        .merge(rtc::router())
        .merge(metrics)
        .with_state(context)
        .merge(api)
        .fallback(console::asset)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(middleware::from_fn(limits_and_headers))
}

async fn method_not_allowed() -> Response {
    error_response::error(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "this path does not take this method",
    )
}

/// Refuses what no route should see, and adds the headers every answer has.
async fn limits_and_headers(request: Request, next: Next) -> Response {
    let length = request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let limit = if rtc::takes_offers(request.uri().path()) { rtc::OFFER_BYTES_MAX } else { BODY_BYTES_MAX };
    let too_long = length.is_some_and(|text| text.parse::<u64>().is_ok_and(|length| length > limit));
    let mut response = if request.headers().get_all(header::HOST).iter().count() > 1 {
        // RFC 9112 §3.2; with two, what is checked and what is meant could differ.
        error_response::error(StatusCode::BAD_REQUEST, "bad_request", "more than one Host header")
    } else if too_long {
        let message = format!("the request body is larger than {limit} bytes");
        error_response::error(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", message)
    } else {
        next.run(request).await
    };
    let switches = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    // One request a connection, unless it becomes something else. (hyper's own `keep_alive(false)` would say `close` there, too.)
    if switches {
        headers.remove(header::CACHE_CONTROL);
    } else {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response.into_response()
}

#[cfg(test)]
mod tests;
