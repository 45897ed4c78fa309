//! The control side: everything HTTP that is not media.
//!
//! A worker that finds a request is not media hands the connection over; here it is served by an ordinary
//! router on a small async runtime: WHIP and WHEP, management API, health, metrics, console. Workers are
//! asked through `link.rs`, never shared. How long a connection stays is in `server/`.

mod access;
mod acme;
mod api;
pub mod cluster;
mod console;
mod context;
mod error_response;
mod health;
mod hooks;
pub mod memory;
mod merged;
mod metrics;
mod moq;
mod ranged;
mod recording_files;
pub mod reload;
pub mod rtc;
mod segments;
mod server;
pub mod stats;
pub mod upgrade;
mod vod;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Extension, Request};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};

pub use api::urls::Serves;
pub use context::{Context, HttpCounters, Peer, RecordingFiles};
pub use metrics::{NoMetrics, metrics_text};

use context::BODY_BYTES_MAX;
use tokio::sync::mpsc;
use worker_api::handoff::Handoff;
use worker_api::segments::{Target, is_on_demand};

/// Serves connections until the workers have gone and the queue is empty.
pub async fn serve(context: Arc<Context>, handoffs: mpsc::Receiver<Handoff>) {
    let router = router(Arc::clone(&context));
    server::serve(context, router, handoffs).await;
}

/// The whole router: API and metrics behind the management rule, WHIP and WHEP behind those of streams,
/// health and console in the open.
fn router(context: Arc<Context>) -> Router {
    let (api, _) = api::router(Arc::clone(&context));
    let of_streams = Arc::clone(&context);
    let metrics =
        metrics::router().route_layer(middleware::from_fn_with_state(Arc::clone(&context), access::metrics));
    Router::new()
        .merge(health::router())
        .merge(acme::router())
        .merge(moq::router())
        .merge(rtc::router())
        .merge(metrics)
        .with_state(context)
        .merge(api)
        .fallback(move |Extension(peer): Extension<Peer>, request: Request| {
            stream_or_asset(Arc::clone(&of_streams), peer, request)
        })
        .method_not_allowed_fallback(method_not_allowed)
        .layer(middleware::from_fn(limits_and_headers))
}

/// A stream, a recording or a file to play, or a file of the console: what no route has.
async fn stream_or_asset(context: Arc<Context>, peer: Peer, request: Request) -> Response {
    let uri = request.uri().clone();
    if is_on_demand(uri.path()) {
        return vod::answer(context, peer, request).await;
    }
    match Target::read(uri.path()) {
        Some(target) => segments::answer(context, peer, request, target).await,
        None => console::asset(request.method().clone(), uri, request.headers().clone()).await,
    }
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
    if switches {
        headers.remove(header::CACHE_CONTROL);
    } else {
        headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    }
    response.into_response()
}

#[cfg(test)]
mod tests;
