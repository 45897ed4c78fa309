//! `/certificate.sha256`: the hash of MoQ's certificate for trials, open to everybody, as pages
//! fetch it whose player has a URL with `http` (`@moq/net`).
//!
//! A certificate is no secret: every client gets it with its first packets. Who changes this answer
//! on its way can stand between a client and the server, which is what `tls.certificate` is for.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header};
use axum::routing::get;

use super::Context;

pub(super) fn router() -> Router<Arc<Context>> {
    Router::new().route("/certificate.sha256", get(hash))
}

async fn hash(State(context): State<Arc<Context>>) -> (StatusCode, [(HeaderName, &'static str); 1], String) {
    let anyone = [(header::ACCESS_CONTROL_ALLOW_ORIGIN, "*")];
    match context.moq.as_ref().and_then(|moq| moq.certificate_hash()) {
        Some(hash) => (StatusCode::OK, anyone, hash),
        None => (StatusCode::NOT_FOUND, anyone, "no certificate for trials\n".to_owned()),
    }
}
