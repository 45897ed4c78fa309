//! Pushes in the management API: streams of this server that are sent on to other servers.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Failure;
use super::types::SrtSession;
use crate::Context;
use crate::error_response::ErrorBody;
use ::pushes::{NotAdded, PushSpec, Rule};
use sources::pull;
use sources::settings::AddedBy;
use worker_api::snapshot::Role;
use worker_api::time;

/// All pushes.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PushList {
    pushes: Vec<Push>,
}

/// Streams that are sent on to another server.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Push {
    id: u64,
    source: AddedBy,
    /// Which streams: a pattern of `app/name`.
    #[schema(example = "live/*")]
    stream: String,
    /// Where to; without user name, password, query and stream key.
    #[schema(example = "rtmp://backup.example/{app}/{stream}?...")]
    url: String,
    /// Streams that are published at present and match, by name.
    streams: Vec<PushedStream>,
}

/// One stream on its way to one target.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PushedStream {
    app: String,
    name: String,
    url: String,
    state: pull::State,
    /// Since when it has been in this state (RFC 3339).
    since: String,
    /// Attempts since it was live last, the present one among them; while it is live, those that it took.
    attempts: u32,
    /// Times it became live again.
    reconnects: u64,
    /// Attempts that failed since the stream began.
    failures: u64,
    /// Why the last attempt that failed did; it stays when the push is live again.
    last_error: Option<String>,
    /// When that was (RFC 3339).
    last_error_at: Option<String>,
    /// Time until the next attempt, while it waits for one.
    retry_in_ms: Option<u64>,
    /// Tracks that the target cannot carry, while others go on: why.
    not_carried: Option<String>,
    /// Bytes sent.
    bytes: u64,
    bitrate_bits_per_second: u64,
    /// Frames sent.
    frames: u64,
    /// Frames that the target was too slow for, or cannot carry.
    frames_left_out: u64,
    /// Its connection, while it has one by SRT.
    srt: Option<SrtSession>,
}

/// A push to start. It is forgotten when the server restarts; lasting ones are in the configuration.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewPush {
    /// Which streams: a pattern of `app/name`, in which `*` stands for any run of characters.
    #[schema(example = "live/cam")]
    stream: String,
    /// `rtmp`, `rtmps`, `rtsp`, `rtsps`, `whip`, `whips`, `srt` or `udp`; `{app}` and `{stream}` stand for
    /// the names of the stream. Addresses that are not public, and `udp`, are refused unless the
    /// configuration allows them.
    #[schema(example = "rtmp://backup.example/{app}/{stream}")]
    url: String,
    /// Bearer token that a WHIP endpoint wants; never shown.
    #[serde(default)]
    token: Option<String>,
}

/// The number of a push.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
pub(super) struct PushId {
    /// As the list has it.
    id: u64,
}

impl From<&Rule> for Push {
    fn from(rule: &Rule) -> Self {
        Self {
            id: rule.id,
            source: rule.added_by,
            stream: rule.spec.stream.as_str().to_owned(),
            url: rule.spec.to_string(),
            streams: rule.active().iter().map(|push| PushedStream::from(&**push)).collect(),
        }
    }
}

impl From<&::pushes::Push> for PushedStream {
    fn from(push: &::pushes::Push) -> Self {
        let status = push.status();
        let (last_error, failed_at) = status.link.last_error.clone().unzip();
        Self {
            app: push.app.clone(),
            name: push.name.clone(),
            url: push.url.clone(),
            state: status.link.state,
            since: time::rfc3339(status.link.since),
            attempts: status.link.attempts,
            reconnects: status.link.reconnects,
            failures: status.link.failures,
            retry_in_ms: status.link.retry_in().map(|pause| pause.as_millis() as u64),
            bitrate_bits_per_second: status.link.bits_per_second(),
            bytes: status.link.bytes,
            frames: status.frames,
            frames_left_out: status.left_out,
            srt: status.link.srt.as_ref().map(|srt| SrtSession::new(srt, Role::Player)),
            not_carried: status.not_carried,
            last_error,
            last_error_at: failed_at.map(time::rfc3339),
        }
    }
}

/// All pushes, those of the configuration and those added here.
#[utoipa::path(get, path = "/api/v1/pushes", tag = "pushes", responses(
    (status = 200, description = "Pushes, by number", body = PushList),
))]
pub(super) async fn pushes(State(context): State<Arc<Context>>) -> Json<PushList> {
    Json(PushList { pushes: context.pushes.list().iter().map(|rule| Push::from(&**rule)).collect() })
}

/// Starts a push, also of streams that are published already. Whether it works shows in its state.
#[utoipa::path(post, path = "/api/v1/pushes", tag = "pushes", request_body = NewPush, responses(
    (status = 201, description = "It has started", body = Push),
    (status = 400, description = "The body is not valid, or the pattern, URL or address cannot be used", body = ErrorBody),
    (status = 409, description = "There is such a push already (`exists`), or there are too many (`full`)", body = ErrorBody),
))]
pub(super) async fn add_push(
    State(context): State<Arc<Context>>,
    body: Result<Json<NewPush>, JsonRejection>,
) -> Result<(StatusCode, Json<Push>), Failure> {
    let Json(NewPush { stream, url, token }) = body?;
    let spec = PushSpec::new(&stream, &url).and_then(|spec| spec.with_token(token.as_deref()));
    let spec = spec.map_err(|reason| Failure::BadRequest(format!("a push {reason}")))?;
    match context.pushes.add(spec, AddedBy::Api) {
        Ok(rule) => Ok((StatusCode::CREATED, Json(Push::from(&*rule)))),
        Err(NotAdded::Exists) => {
            Err(Failure::Conflict("exists", "there is a push of these streams to this target".to_owned()))
        }
        Err(NotAdded::Forbidden(reason)) => Err(Failure::BadRequest(format!("`url`: {reason}"))),
        Err(NotAdded::Full) => Err(Failure::Conflict("full", "`pushes.rules_max` is reached".to_owned())),
    }
}

/// One push.
#[utoipa::path(get, path = "/api/v1/pushes/{id}", tag = "pushes", params(PushId), responses(
    (status = 200, description = "The push", body = Push),
    (status = 400, description = "The path is not a number", body = ErrorBody),
    (status = 404, description = "No such push", body = ErrorBody),
))]
pub(super) async fn push(
    State(context): State<Arc<Context>>,
    path: Result<Path<PushId>, PathRejection>,
) -> Result<Json<Push>, Failure> {
    let Path(PushId { id }) = path?;
    context.pushes.find(id).map(|rule| Json(Push::from(&*rule))).ok_or(Failure::NotFound("no such push"))
}

/// Ends a push of all its streams. One of the configuration is back after a restart.
#[utoipa::path(delete, path = "/api/v1/pushes/{id}", tag = "pushes", params(PushId), responses(
    (status = 204, description = "It has ended"),
    (status = 400, description = "The path is not a number", body = ErrorBody),
    (status = 404, description = "No such push", body = ErrorBody),
))]
pub(super) async fn remove_push(
    State(context): State<Arc<Context>>,
    path: Result<Path<PushId>, PathRejection>,
) -> Result<StatusCode, Failure> {
    let Path(PushId { id }) = path?;
    match context.pushes.remove(id) {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(Failure::NotFound("no such push")),
    }
}
