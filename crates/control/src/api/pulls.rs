//! Pulls in the management API: streams of other servers that this one publishes as its own.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::types::SrtSession;
use super::{Failure, StreamName};
use crate::Context;
use crate::error_response::ErrorBody;
use sources::pull::{self, NotAdded, PullSpec};
use sources::settings::AddedBy;
use worker_api::snapshot::Role;
use worker_api::time;

/// All pulls.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PullList {
    pulls: Vec<Pull>,
}

/// A stream of another server that this one publishes.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Pull {
    app: String,
    name: String,
    source: AddedBy,
    /// Where it comes from; without user name, password and query.
    #[schema(example = "rtmp://media.example:1935/live/cam")]
    url: String,
    /// It is begun by the first player and ended after the last. One with `*` in its names begins others,
    /// which are listed while they run.
    on_demand: bool,
    state: pull::State,
    /// Since when it has been in this state (RFC 3339).
    since: String,
    /// Attempts since it was live last, the present one among them; while it is live, those that it took.
    attempts: u32,
    /// Times it became live again.
    reconnects: u64,
    /// Attempts that failed since it was added.
    failures: u64,
    /// Why the last attempt that failed did; it stays when the pull is live again.
    last_error: Option<String>,
    /// When that was (RFC 3339).
    last_error_at: Option<String>,
    /// Time until the next attempt, while it waits for one.
    retry_in_ms: Option<u64>,
    /// Bytes received.
    bytes: u64,
    bitrate_bits_per_second: u64,
    /// Its connection, while it has one by SRT.
    srt: Option<SrtSession>,
}

/// A pull to start. It is forgotten when the server restarts; lasting ones are in the configuration.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewPull {
    /// Application of the stream here.
    #[schema(example = "live")]
    app: String,
    /// Its name.
    #[schema(example = "cam")]
    name: String,
    /// `rtmp`, `rtmps`, `rtsp`, `rtsps`, `srt`, `http` and `https` for FLV, or for HLS if the path ends in
    /// `.m3u8`, `whep` and `wheps`, or `udp` for MPEG-TS that is sent here. Addresses that are not public,
    /// and `udp`, are refused unless the configuration allows them.
    #[schema(example = "rtmp://media.example/live/cam")]
    url: String,
    /// Begun by the first player and ended after the last. Then `*` in `app` and `name` stands for any
    /// characters, and `{app}` and `{stream}` in the path and query of `url` for the names of the stream.
    #[serde(default)]
    on_demand: bool,
    /// Bearer token that a WHEP endpoint wants; never shown.
    #[serde(default)]
    token: Option<String>,
}

impl From<&pull::Pull> for Pull {
    fn from(pull: &pull::Pull) -> Self {
        let status = pull.status();
        let (last_error, failed_at) = status.last_error.clone().unzip();
        Self {
            app: pull.spec.app.clone(),
            name: pull.spec.name.clone(),
            source: pull.added_by,
            url: pull.spec.shown_url(),
            on_demand: pull.spec.on_demand,
            state: status.state,
            since: time::rfc3339(status.since),
            attempts: status.attempts,
            reconnects: status.reconnects,
            failures: status.failures,
            retry_in_ms: status.retry_in().map(|pause| pause.as_millis() as u64),
            bitrate_bits_per_second: status.bits_per_second(),
            bytes: status.bytes,
            srt: status.srt.as_ref().map(|srt| SrtSession::new(srt, Role::Publisher)),
            last_error,
            last_error_at: failed_at.map(time::rfc3339),
        }
    }
}

/// All pulls, those of the configuration and those added here.
#[utoipa::path(get, path = "/api/v1/pulls", tag = "pulls", responses(
    (status = 200, description = "Pulls, by app and name", body = PullList),
))]
pub(super) async fn pulls(State(context): State<Arc<Context>>) -> Json<PullList> {
    Json(PullList { pulls: context.pulls.list().iter().map(|pull| Pull::from(&**pull)).collect() })
}

/// Starts a pull. Whether it works shows in its state.
#[utoipa::path(post, path = "/api/v1/pulls", tag = "pulls", request_body = NewPull, responses(
    (status = 201, description = "It has started", body = Pull),
    (status = 400, description = "The body is not valid, or the name, URL or address cannot be used", body = ErrorBody),
    (status = 409, description = "The stream has a pull or a channel already (`exists`), or there are too many (`full`)", body = ErrorBody),
))]
pub(super) async fn add_pull(
    State(context): State<Arc<Context>>,
    body: Result<Json<NewPull>, JsonRejection>,
) -> Result<(StatusCode, Json<Pull>), Failure> {
    let Json(NewPull { app, name, url, on_demand, token }) = body?;
    let spec = PullSpec::new(&app, &name, &url, on_demand, &context.pulls.settings())
        .and_then(|spec| spec.with_token(token.as_deref()))
        .map_err(|reason| Failure::BadRequest(format!("a pull {reason}")))?;
    match context.pulls.add(spec, AddedBy::Api) {
        Ok(pull) => Ok((StatusCode::CREATED, Json(Pull::from(&*pull)))),
        Err(NotAdded::Exists(kind)) => {
            Err(Failure::Conflict("exists", format!("there is a {} for `{app}/{name}`", kind.shown())))
        }
        Err(NotAdded::Forbidden(reason)) => Err(Failure::BadRequest(format!("`url`: {reason}"))),
        Err(NotAdded::Full) => Err(Failure::Conflict("full", "`sources.pulls_max` is reached".to_owned())),
    }
}

/// One pull.
#[utoipa::path(get, path = "/api/v1/pulls/{app}/{name}", tag = "pulls", params(StreamName), responses(
    (status = 200, description = "The pull", body = Pull),
    (status = 400, description = "The path is not valid UTF-8", body = ErrorBody),
    (status = 404, description = "No such pull", body = ErrorBody),
))]
pub(super) async fn pull(
    State(context): State<Arc<Context>>,
    path: Result<Path<StreamName>, PathRejection>,
) -> Result<Json<Pull>, Failure> {
    let Path(StreamName { app, name }) = path?;
    let found = context.pulls.find(&app, &name);
    found.map(|pull| Json(Pull::from(&*pull))).ok_or(Failure::NotFound("no such pull"))
}

/// Ends a pull, and its publication. One of the configuration is back after a restart.
#[utoipa::path(delete, path = "/api/v1/pulls/{app}/{name}", tag = "pulls", params(StreamName), responses(
    (status = 204, description = "It has ended"),
    (status = 400, description = "The path is not valid UTF-8", body = ErrorBody),
    (status = 404, description = "No such pull", body = ErrorBody),
))]
pub(super) async fn remove_pull(
    State(context): State<Arc<Context>>,
    path: Result<Path<StreamName>, PathRejection>,
) -> Result<StatusCode, Failure> {
    let Path(StreamName { app, name }) = path?;
    if context.pulls.remove(&app, &name) {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(Failure::NotFound("no such pull"))
    }
}
