//! `/.well-known/acme-challenge/`: what a certificate authority asks to see that a name is this
//! server's (http-01).
//!
//! Open to everybody, since authorities ask from anywhere (RFC 8555 section 8.3); the answer proves
//! something to whoever made the token, and is there only while an order is open.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, StatusCode};
use axum::routing::get;
use worker_api::challenges::HTTP_PATH;

use super::Context;

pub(super) fn router() -> Router<Arc<Context>> {
    Router::new().route(&format!("{HTTP_PATH}{{token}}"), get(answer))
}

async fn answer(
    State(context): State<Arc<Context>>,
    Path(token): Path<String>,
) -> (StatusCode, [(HeaderName, &'static str); 1], String) {
    let store = context.reload.certificates.as_ref();
    match store.and_then(|store| store.challenges.http_answer(&token)) {
        Some(text) => (StatusCode::OK, [(CONTENT_TYPE, "application/octet-stream")], text),
        None => {
            let text = "no such challenge\n".to_owned();
            (StatusCode::NOT_FOUND, [(CONTENT_TYPE, "text/plain")], text)
        }
    }
}
