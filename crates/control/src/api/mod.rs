//! The management API under `/api/v1`, and its OpenAPI document, generated from these handlers.
//!
//! Each handler asks the workers, and answers 503 when one stays silent: half an answer would look
//! like streams and sessions that ended. Shapes are in `types.rs`; how several workers' views
//! become one is in `merge.rs`.

mod certificates;
mod channels;
mod cluster;
pub(super) mod merge;
mod pulls;
mod pushes;
mod reason;
mod recording_files;
mod recordings;
mod reload;
mod types;
mod upgrade;
mod uploads;
pub(crate) mod urls;

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json, Router, middleware};
use serde::Deserialize;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{IntoResponses, OpenApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::stats::{__path_stats, __path_stats_stream, stats, stats_stream};
use crate::error_response::{ErrorBody, error, refused};
use crate::{Context, Peer, access};
use types::{PublishRules, ServerInfo, SessionList, SessionQuery, Stream, StreamList, Worker, WorkerList};
use urls::{Serves, Urls};
use worker_api::NoAnswer;
use worker_api::auth;
use worker_api::snapshot::WorkerSnapshot;
use worker_api::time;

/// General part of the OpenAPI document; paths and schemas come from the handlers.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Millstream management API",
        description = "Streams, sessions and workers of one Millstream server, and the cluster it is a node of. Open to this machine by default, or with `Authorization: Bearer TOKEN` once a token is configured."
    ),
    components(schemas(ErrorBody)),
    modifiers(&BearerToken)
)]
struct Document;

struct BearerToken;

impl utoipa::Modify for BearerToken {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
        // Either of them: none suffices for clients on the server's own machine.
        document.security = Some(vec![
            SecurityRequirement::default(),
            SecurityRequirement::new("token", std::iter::empty::<String>()),
        ]);
    }
}

/// Routes behind the management rule, and the document that describes them, as JSON.
pub(super) fn router(context: Arc<Context>) -> (Router, Bytes) {
    let (router, mut document) = OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(server))
        .routes(routes!(streams))
        .routes(routes!(stream))
        .routes(routes!(sessions))
        .routes(routes!(kick))
        .routes(routes!(reload::reload))
        .routes(routes!(upgrade::upgrade))
        .routes(routes!(workers))
        .routes(routes!(certificates::certificates))
        .routes(routes!(channels::channels, channels::add_channel))
        .routes(routes!(channels::channel, channels::remove_channel))
        .routes(routes!(channels::skip_item))
        .routes(routes!(pulls::pulls, pulls::add_pull))
        .routes(routes!(pulls::pull, pulls::remove_pull))
        .routes(routes!(pushes::pushes, pushes::add_push))
        .routes(routes!(pushes::push, pushes::remove_push))
        .routes(routes!(recordings::recordings, recordings::start_recording))
        .routes(routes!(recordings::stop_recording))
        .routes(routes!(recordings::remove_file, recording_files::read_file))
        .routes(routes!(recording_files::link))
        .routes(routes!(uploads::uploads))
        .routes(routes!(cluster::cluster))
        .routes(routes!(stats))
        .routes(routes!(stats_stream))
        .routes(routes!(openapi))
        .split_for_parts();
    for path in document.paths.paths.values_mut() {
        for operation in [&mut path.get, &mut path.post, &mut path.delete].into_iter().flatten() {
            operation.responses.responses.extend(Denied::responses());
        }
    }
    // What is optional in an answer is present as null.
    let schemas = document.components.iter_mut().flat_map(|components| &mut components.schemas);
    for (_, schema) in schemas.filter(|(name, _)| !name.starts_with("New")) {
        if let RefOr::T(Schema::Object(object)) = schema {
            object.required = object.properties.keys().cloned().collect();
        }
    }
    // The document itself would take 1.2 MB, in thousands of allocations, as long as the server runs.
    let document = Bytes::from(serde_json::to_vec(&document).expect("it has string keys alone"));
    let router = router
        .layer(Extension(DocumentJson(document.clone())))
        .layer(middleware::from_fn_with_state(Arc::clone(&context), access::manage))
        .with_state(context);
    (router, document)
}

/// The document as it is served.
#[derive(Clone)]
struct DocumentJson(Bytes);

/// What every request may be answered, see `access::manage`.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "for the document")]
enum Denied {
    /// Token missing or wrong
    #[response(status = 401)]
    Unauthorized(ErrorBody),
    /// Not allowed from here
    #[response(status = 403)]
    Forbidden(ErrorBody),
}

/// A stream in the path of a request.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Path)]
struct StreamName {
    /// Application; a `/` in it is written `%2F`
    app: String,
    /// Name of the stream, percent-encoded
    name: String,
}

/// Why a handler could not answer.
enum Failure {
    Worker(NoAnswer),
    ClusterSilent,
    NotFound(&'static str),
    BadRequest(String),
    /// It conflicts with the current state: a code and a message.
    Conflict(&'static str, String),
    /// The sender may not.
    Denied(auth::Denied),
    /// Not at present: a code and a message.
    Unavailable(&'static str, &'static str),
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        match self {
            Self::Worker(NoAnswer { worker, .. }) => {
                let message = format!("worker {worker} did not answer in time");
                error(StatusCode::SERVICE_UNAVAILABLE, "worker_unavailable", message)
            }
            Self::ClusterSilent => {
                let message = "the cluster did not answer in time";
                error(StatusCode::SERVICE_UNAVAILABLE, "cluster_unavailable", message)
            }
            Self::NotFound(message) => error(StatusCode::NOT_FOUND, "not_found", message),
            Self::Denied(denied) => refused(denied.into()),
            Self::BadRequest(message) => error(StatusCode::BAD_REQUEST, "bad_request", message),
            Self::Conflict(code, message) => error(StatusCode::CONFLICT, code, message),
            Self::Unavailable(code, message) => error(StatusCode::SERVICE_UNAVAILABLE, code, message),
        }
    }
}

impl From<NoAnswer> for Failure {
    fn from(no_answer: NoAnswer) -> Self {
        Self::Worker(no_answer)
    }
}

impl From<JsonRejection> for Failure {
    fn from(rejection: JsonRejection) -> Self {
        Self::BadRequest(rejection.body_text())
    }
}

impl From<QueryRejection> for Failure {
    fn from(rejection: QueryRejection) -> Self {
        Self::BadRequest(rejection.body_text())
    }
}

impl From<PathRejection> for Failure {
    fn from(rejection: PathRejection) -> Self {
        Self::BadRequest(rejection.body_text())
    }
}

/// What kind of server this is and how it can be reached.
///
/// Addresses in the answer use the host name the request was sent to.
#[utoipa::path(get, path = "/api/v1/server", tag = "server", responses(
    (status = 200, description = "The server", body = ServerInfo),
))]
async fn server(
    State(context): State<Arc<Context>>,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Json<ServerInfo> {
    Json(ServerInfo {
        name: "Millstream".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_seconds: context.started.elapsed().as_secs(),
        started_at: time::rfc3339(context.started_at),
        workers: context.workers.count(),
        cluster_node: context.cluster.as_ref().map(|cluster| cluster.node().to_owned()),
        demo_stream: context.demo_stream.clone(),
        endpoints: Urls::new(&context.addresses, Serves::of(&context), access::host(&request), peer)
            .endpoints(),
        publish: PublishRules {
            loopback_only: context.policy().publish_is_loopback_only(),
            token_required: context.policy().publish_needs_token(),
        },
        recording: context.recordings.is_some(),
    })
}

/// All streams, those with players that wait for a publisher included.
#[utoipa::path(get, path = "/api/v1/streams", tag = "streams", responses(
    (status = 200, description = "Streams, by app and name", body = StreamList),
    (status = 503, description = "A worker does not answer", body = ErrorBody),
))]
async fn streams(
    State(context): State<Arc<Context>>,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Result<Json<StreamList>, Failure> {
    let urls = Urls::new(&context.addresses, Serves::of(&context), access::host(&request), peer);
    let snapshots = context.workers.snapshots().await?;
    let streams = merged_streams(&context, &snapshots, &urls);
    Ok(Json(StreamList { streams }))
}

fn merged_streams(context: &Context, snapshots: &[WorkerSnapshot], urls: &Urls<'_>) -> Vec<Stream> {
    let mut streams = merge::streams(snapshots, urls, |app, name| context.rtc.playback_options(app, name));
    if let Some(segments) = &context.segments {
        for stream in &mut streams {
            stream.segment_viewers = segments.viewers(&stream.app, &stream.name);
        }
    }
    if let Some(recordings) = &context.recordings {
        for stream in &mut streams {
            stream.recorded = recordings.is_active(&stream.app, &stream.name);
        }
    }
    streams
}

/// One stream.
#[utoipa::path(get, path = "/api/v1/streams/{app}/{name}", tag = "streams", params(StreamName), responses(
    (status = 200, description = "The stream", body = Stream),
    (status = 400, description = "The path is not valid UTF-8", body = ErrorBody),
    (status = 404, description = "No such stream", body = ErrorBody),
    (status = 503, description = "A worker does not answer", body = ErrorBody),
))]
async fn stream(
    State(context): State<Arc<Context>>,
    Extension(peer): Extension<Peer>,
    path: Result<Path<StreamName>, PathRejection>,
    request: Request,
) -> Result<Json<Stream>, Failure> {
    let Path(StreamName { app, name }) = path?;
    let urls = Urls::new(&context.addresses, Serves::of(&context), access::host(&request), peer);
    let snapshots = context.workers.snapshots().await?;
    let streams = merged_streams(&context, &snapshots, &urls);
    let found = streams.into_iter().find(|stream| stream.app == app && stream.name == name);
    found.map(Json).ok_or(Failure::NotFound("no such stream"))
}

/// Sessions, filtered and in pages, in the order in which they came.
#[utoipa::path(get, path = "/api/v1/sessions", tag = "sessions", params(SessionQuery), responses(
    (status = 200, description = "A page of sessions", body = SessionList),
    (status = 400, description = "A parameter is not valid", body = ErrorBody),
    (status = 503, description = "A worker does not answer", body = ErrorBody),
))]
async fn sessions(
    State(context): State<Arc<Context>>,
    query: Result<Query<SessionQuery>, QueryRejection>,
) -> Result<Json<SessionList>, Failure> {
    let Query(query) = query?;
    let listed = query.listed().map_err(Failure::BadRequest)?;
    let snapshots = context.workers.snapshots_with_sessions(&listed).await?;
    Ok(Json(merge::sessions(&snapshots, &query)))
}

/// Ends a session. Its player or publisher is told and disconnected.
#[utoipa::path(delete, path = "/api/v1/sessions/{id}", tag = "sessions", params(
    ("id" = String, Path, description = "`id` of the session"),
), responses(
    (status = 204, description = "It ends"),
    (status = 400, description = "The path is not valid UTF-8", body = ErrorBody),
    (status = 404, description = "No such session", body = ErrorBody),
    (status = 503, description = "The worker does not answer", body = ErrorBody),
))]
async fn kick(
    State(context): State<Arc<Context>>,
    path: Result<Path<String>, PathRejection>,
) -> Result<StatusCode, Failure> {
    const NONE: Failure = Failure::NotFound("no such session");
    let Path(id) = path?;
    let session = id.parse().map_err(|_| NONE)?;
    if context.workers.kick(session).await? {
        tracing::info!(session = %session, "session ended through the API");
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(NONE)
    }
}

/// Load and counters of each worker.
#[utoipa::path(get, path = "/api/v1/workers", tag = "workers", responses(
    (status = 200, description = "Workers by index", body = WorkerList),
    (status = 503, description = "A worker does not answer", body = ErrorBody),
))]
async fn workers(State(context): State<Arc<Context>>) -> Result<Json<WorkerList>, Failure> {
    let snapshots = context.workers.snapshots().await?;
    Ok(Json(WorkerList { workers: snapshots.iter().map(Worker::from).collect() }))
}

/// This document.
#[utoipa::path(get, path = "/api/v1/openapi.json", tag = "server", responses(
    (status = 200, description = "OpenAPI 3.1"),
))]
async fn openapi(Extension(DocumentJson(document)): Extension<DocumentJson>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], document)
}
