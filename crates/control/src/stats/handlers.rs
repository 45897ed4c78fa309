//! The two requests.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use super::accept::{Form, form};
use super::socket;
use crate::access::may_still_read;
use crate::error_response::{self, ErrorBody};
use crate::{Context, Peer};
use ::stats::message::{SUBPROTOCOL, StatsMessage};

/// Live statistics of workers, streams and sessions: one array per figure.
///
/// MessagePack unless `Accept` asks for JSON. Rates are of the last full second. See docs/statistics.md.
#[utoipa::path(get, path = "/api/v1/stats", tag = "statistics", responses(
    (status = 200, description = "The newest message", content(
        (StatsMessage = "application/vnd.msgpack"),
        (StatsMessage = "application/json"),
    )),
    (status = 406, description = "`Accept` takes neither form", body = ErrorBody),
    (status = 503, description = "The workers have said nothing yet", body = ErrorBody),
))]
pub(crate) async fn stats(State(context): State<Arc<Context>>, headers: HeaderMap) -> Response {
    let Some(form) = form(&headers) else {
        let message = "the statistics are there as application/vnd.msgpack and application/json";
        return error_response::error(StatusCode::NOT_ACCEPTABLE, "not_acceptable", message);
    };
    let Some(report) = context.stats.newest().await else {
        let message = "the workers have sent no statistics yet";
        return error_response::error(StatusCode::SERVICE_UNAVAILABLE, "worker_unavailable", message);
    };
    let (media_type, body) = match form {
        Form::MessagePack(media_type) => (media_type, report.messagepack()),
        Form::Json => ("application/json", report.json()),
    };
    let fields = [
        (header::CONTENT_TYPE, HeaderValue::from_static(media_type)),
        (header::VARY, HeaderValue::from_static("accept")),
    ];
    (fields, body).into_response()
}

/// The same every second, as binary messages of a WebSocket (RFC 6455), the first one at once.
///
/// Subprotocol `millstream.stats.v1`. A browser shows its token as one more subprotocol: `bearer.`
/// and the token in base64url. A reader that is slow skips messages. See docs/statistics.md.
#[utoipa::path(get, path = "/api/v1/stats/stream", tag = "statistics", responses(
    (status = 101, description = "Binary messages follow, each as MessagePack of `/api/v1/stats`"),
    (status = 400, description = "Not a proper handshake, or other subprotocols only", body = ErrorBody),
    (status = 426, description = "A WebSocket handshake is needed", body = ErrorBody),
    (status = 503, description = "Too many readers", body = ErrorBody),
))]
pub(crate) async fn stats_stream(
    State(context): State<Arc<Context>>,
    Extension(peer): Extension<Peer>,
    uri: Uri,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    let upgrade = match upgrade {
        Ok(upgrade) => upgrade,
        Err(rejection) => return no_handshake(&rejection),
    };
    if !socket::takes_version(&headers) {
        let message = format!("the only subprotocol here is {SUBPROTOCOL}");
        return error_response::error(StatusCode::BAD_REQUEST, "unknown_subprotocol", message);
    }
    let Some((slot, newest)) = context.stats.subscribe() else {
        let message = "as many readers of statistics as there may be";
        return error_response::error(StatusCode::SERVICE_UNAVAILABLE, "too_many_subscribers", message);
    };
    let mut version = context.current.version();
    let may_read = move || {
        let before = std::mem::replace(&mut version, context.current.version());
        before == version || may_still_read(&context, uri.clone(), headers.clone(), peer)
    };
    socket::limited(upgrade)
        .protocols([SUBPROTOCOL])
        .on_upgrade(move |socket| socket::run(socket, slot, newest, may_read))
}

fn no_handshake(rejection: &WebSocketUpgradeRejection) -> Response {
    let is_http = matches!(
        rejection,
        WebSocketUpgradeRejection::InvalidConnectionHeader(_)
            | WebSocketUpgradeRejection::InvalidUpgradeHeader(_)
    );
    if !is_http {
        return error_response::error(
            StatusCode::BAD_REQUEST,
            "bad_request",
            "not a proper WebSocket handshake, version 13",
        );
    }
    let message = "this is a WebSocket; for one message ask /api/v1/stats";
    let mut response = error_response::error(StatusCode::UPGRADE_REQUIRED, "upgrade_required", message);
    response.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    response
}
