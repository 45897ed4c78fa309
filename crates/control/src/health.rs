//! `/healthz` and `/readyz`, open to everybody: they say nothing but yes or no.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;

use super::Context;

pub(super) fn router() -> Router<Arc<Context>> {
    Router::new().route("/healthz", get(async || "ok\n")).route("/readyz", get(readyz))
}

/// Whether new sessions should be sent here: every worker answers, and the server is not stopping.
async fn readyz(State(context): State<Arc<Context>>) -> (StatusCode, &'static str) {
    if *context.draining.borrow() {
        return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n");
    }
    if context.workers.all_answer().await {
        (StatusCode::OK, "ready\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "a worker does not answer\n")
    }
}
