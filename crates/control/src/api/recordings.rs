//! Recordings in the management API: which streams are recorded, and which files there are.

use std::path::Path as FilePath;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Failure, StreamName};
use crate::Context;
use crate::access::RecordsOnly;
use crate::error_response::ErrorBody;
use ::uploads::{UploadState, Uploads};
use recording::catalogue::{Entry, State as RecordingState};
use recording::names::RecordingName;
use recording::{DirectoryStatus, NotStarted, Recording, Started};
use worker_api::time;

/// Files of an answer, if the request does not say how many.
const FILES_BY_DEFAULT: usize = 1_000;
/// Files of an answer at most.
const FILES_MAX: usize = 10_000;

/// What is recorded, and what was.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RecordingList {
    /// Whether a directory is configured.
    enabled: bool,
    /// Streams that are recorded at present, by app and name.
    active: Vec<ActiveRecording>,
    directories: Vec<RecordDirectory>,
    /// Files, the newest first.
    files: Vec<RecordedFile>,
    /// Files that match the request, those beyond its limit included.
    files_total: usize,
}

/// A stream that is recorded.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ActiveRecording {
    app: String,
    name: String,
    /// `rule` or `api`.
    started_by: &'static str,
    /// Since when (RFC 3339).
    since: String,
    directory: String,
    /// `mp4` or `flv`.
    format: &'static str,
    bytes: u64,
    fragments: u64,
    /// Fragments left out because the disk was too slow, or refused them. Each gap begins a new file.
    lost_fragments: u64,
    files: u64,
}

/// A directory of recordings.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RecordDirectory {
    path: String,
    /// Why the disk takes nothing at present.
    failure: Option<String>,
    /// Whether the disk is too slow at present, so that recordings have gaps.
    too_slow: bool,
    queued_bytes: u64,
    files: u64,
    /// Bytes of all files.
    bytes: u64,
    /// Bytes that its file system has left.
    free_bytes: Option<u64>,
    lost_fragments: u64,
}

/// A file.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RecordedFile {
    app: String,
    name: String,
    /// Name of the file, as it is or will be when it is complete.
    #[schema(example = "20261127T190500.123Z.mp4")]
    file: String,
    /// Path below the directory, as it is now.
    path: String,
    directory: String,
    /// `in_progress`; `unfinished`: over, and completed soon; `complete`.
    state: &'static str,
    /// Wall clock of its begin (RFC 3339).
    start: String,
    start_ms: u64,
    /// Those of files of an earlier run are read after the start: `null` until then, and if a file does not
    /// say it.
    duration_ms: Option<u64>,
    bytes: u64,
    /// `mp4` or `flv`.
    format: &'static str,
    /// How far its upload is; `null` if it is not sent anywhere, or not yet.
    upload: Option<FileUpload>,
}

/// How far the upload of a file is.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FileUpload {
    /// `waiting`, `uploading`, `confirmed` or `failed`: it is tried again.
    state: &'static str,
    /// Bytes that the store has taken of a file that is being sent.
    sent_bytes: Option<u64>,
    /// Why the last attempt failed, in words.
    reason: Option<String>,
    /// Until the next attempt.
    retry_in_ms: Option<u64>,
}

/// Which files are listed.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct FileQuery {
    /// Only those of this application
    app: Option<String>,
    /// Only those of streams of this name
    name: Option<String>,
    /// Only those of streams whose `app/name` contains this
    search: Option<String>,
    /// Files listed at most, 1000 unless it is given, 10000 at most
    limit: Option<usize>,
}

/// A recording to start.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewRecording {
    /// Application of the stream.
    #[schema(example = "live")]
    app: String,
    /// Its name.
    #[schema(example = "cam")]
    name: String,
}

/// A file in the path of a request.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct FileName {
    /// Application; a `/` in it is written `%2F`
    pub(super) app: String,
    /// Name of the stream, percent-encoded
    pub(super) name: String,
    /// `file` of the file
    pub(super) file: String,
}

impl From<&Recording> for ActiveRecording {
    fn from(recording: &Recording) -> Self {
        Self {
            app: recording.app.clone(),
            name: recording.name.clone(),
            started_by: match recording.started_by {
                Started::Rule => "rule",
                Started::Api => "api",
            },
            since: rfc3339(recording.since),
            directory: recording.files.directory.display().to_string(),
            format: recording.files.format.extension(),
            bytes: recording.bytes(),
            fragments: recording.fragments(),
            lost_fragments: recording.fragments_lost(),
            files: recording.files_begun(),
        }
    }
}

impl From<DirectoryStatus> for RecordDirectory {
    fn from(status: DirectoryStatus) -> Self {
        Self {
            path: status.path.display().to_string(),
            failure: status.failure,
            too_slow: status.is_losing,
            queued_bytes: status.queued_bytes,
            files: status.recordings,
            bytes: status.recorded_bytes,
            free_bytes: status.free_bytes,
            lost_fragments: status.fragments_lost,
        }
    }
}

impl From<UploadState> for FileUpload {
    fn from(state: UploadState) -> Self {
        let mut upload = Self { state: state.name(), sent_bytes: None, reason: None, retry_in_ms: None };
        match state {
            UploadState::Waiting | UploadState::Confirmed { .. } => {}
            UploadState::Uploading { sent_bytes } => upload.sent_bytes = Some(sent_bytes),
            UploadState::Failed { why, retry_in, .. } => {
                upload.reason = Some(why);
                upload.retry_in_ms = Some(u64::try_from(retry_in.as_millis()).unwrap_or(u64::MAX));
            }
        }
        upload
    }
}

impl RecordedFile {
    fn new(directory: &FilePath, name: &RecordingName, entry: &Entry, uploads: Option<&Uploads>) -> Self {
        let (app, stream) = name.stream_name();
        let is_complete = entry.state == RecordingState::Complete;
        let path = if is_complete { name.path() } else { name.part_path() };
        Self {
            app,
            name: stream,
            file: name.file_name(),
            path: path.display().to_string(),
            directory: directory.display().to_string(),
            state: entry.state.name(),
            start: rfc3339(name.start),
            start_ms: name.start.as_millis() as u64,
            duration_ms: entry.duration.map(|duration| duration.as_millis() as u64),
            bytes: entry.bytes,
            format: name.format.extension(),
            upload: uploads
                .filter(|_| is_complete)
                .and_then(|uploads| uploads.state(&directory.join(name.path())).map(FileUpload::from)),
        }
    }
}

fn rfc3339(since_1970: Duration) -> String {
    time::rfc3339(UNIX_EPOCH + since_1970)
}

/// Streams that are recorded, directories, and files, the newest first.
#[utoipa::path(get, path = "/api/v1/recordings", tag = "recordings", params(FileQuery), responses(
    (status = 200, description = "Recordings", body = RecordingList),
    (status = 400, description = "A parameter is not valid", body = ErrorBody),
))]
pub(super) async fn recordings(
    State(context): State<Arc<Context>>,
    query: Result<Query<FileQuery>, QueryRejection>,
) -> Result<Json<RecordingList>, Failure> {
    let Query(query) = query?;
    let limit = query.limit.unwrap_or(FILES_BY_DEFAULT).min(FILES_MAX);
    let Some(recordings) = &context.recordings else {
        let none = RecordingList {
            enabled: false,
            active: Vec::new(),
            directories: Vec::new(),
            files: Vec::new(),
            files_total: 0,
        };
        return Ok(Json(none));
    };
    let mut files = recordings.list();
    files.retain(|(_, name, _)| {
        let (app, stream) = name.stream_name();
        query.app.as_ref().is_none_or(|wanted| *wanted == app)
            && query.name.as_ref().is_none_or(|wanted| *wanted == stream)
            && query.search.as_ref().is_none_or(|part| format!("{app}/{stream}").contains(part.as_str()))
    });
    files.sort_by_key(|(_, name, _)| std::cmp::Reverse(name.start));
    let listed = files.iter().take(limit);
    Ok(Json(RecordingList {
        enabled: true,
        active: recordings.active().iter().map(|recording| ActiveRecording::from(&**recording)).collect(),
        directories: recordings.directories().into_iter().map(RecordDirectory::from).collect(),
        files: listed
            .map(|(directory, name, entry)| {
                RecordedFile::new(directory, name, entry, context.uploads.as_ref())
            })
            .collect(),
        files_total: files.len(),
    }))
}

/// Begins to record a stream, until it ends or the recording is stopped. It waits for a publisher as players
/// do.
#[utoipa::path(post, path = "/api/v1/recordings", tag = "recordings", request_body = NewRecording, responses(
    (status = 201, description = "It is recorded"),
    (status = 400, description = "The body or the name is not valid", body = ErrorBody),
    (status = 404, description = "Nobody publishes the stream, and players do not wait", body = ErrorBody),
    (status = 409, description = "It is recorded already (`exists`), no directory is configured for it (`off`), it cannot be (`not_frames`), or there are too many (`full`)", body = ErrorBody),
))]
pub(super) async fn start_recording(
    State(context): State<Arc<Context>>,
    records_only: Option<Extension<RecordsOnly>>,
    body: Result<Json<NewRecording>, JsonRejection>,
) -> Result<StatusCode, Failure> {
    let Json(NewRecording { app, name }) = body?;
    may_record(&context, records_only, &app, &name)?;
    if context.names.check(&app, &name).is_err() {
        return Err(Failure::BadRequest(format!("`{app}/{name}` is no name of a stream")));
    }
    let started = match &context.recordings {
        Some(recordings) => recordings.start(&app, &name).await,
        None => Err(NotStarted::NoDirectory),
    };
    let conflict = |code, message: &str| Failure::Conflict(code, message.to_owned());
    started.map(|()| StatusCode::CREATED).map_err(|reason| match reason {
        NotStarted::NotPublished => Failure::NotFound("nobody publishes the stream"),
        NotStarted::Exists => conflict("exists", "the stream is being recorded"),
        NotStarted::NoDirectory => conflict("off", "`record.directory` is not set"),
        NotStarted::NotFrames => conflict("not_frames", "it is published by WebRTC, and bridges are off"),
        NotStarted::Full => conflict("full", "there are as many recordings or sessions as there may be"),
    })
}

/// Ends the recording of a stream; its file is complete a moment later. A rule of the configuration begins
/// another one when the stream is published again.
#[utoipa::path(delete, path = "/api/v1/recordings/{app}/{name}", tag = "recordings", params(StreamName), responses(
    (status = 204, description = "It has ended"),
    (status = 400, description = "The path is not valid UTF-8", body = ErrorBody),
    (status = 404, description = "The stream is not recorded", body = ErrorBody),
))]
pub(super) async fn stop_recording(
    State(context): State<Arc<Context>>,
    records_only: Option<Extension<RecordsOnly>>,
    path: Result<Path<StreamName>, PathRejection>,
) -> Result<StatusCode, Failure> {
    let Path(StreamName { app, name }) = path?;
    may_record(&context, records_only, &app, &name)?;
    let none = Failure::NotFound("the stream is not recorded");
    let Some(recordings) = &context.recordings else { return Err(none) };
    if recordings.stop(&app, &name).await { Ok(StatusCode::NO_CONTENT) } else { Err(none) }
}

/// Whether one who may not use the whole API may record the stream.
fn may_record(
    context: &Context,
    records_only: Option<Extension<RecordsOnly>>,
    app: &str,
    name: &str,
) -> Result<(), Failure> {
    let Some(Extension(sender)) = records_only else { return Ok(()) };
    sender.may_record(context, app, name).map_err(Failure::Denied)
}

/// Removes a complete recording.
#[utoipa::path(delete, path = "/api/v1/recordings/{app}/{name}/{file}", tag = "recordings", params(FileName), responses(
    (status = 204, description = "It is gone"),
    (status = 400, description = "The path is not valid UTF-8", body = ErrorBody),
    (status = 404, description = "There is no such recording", body = ErrorBody),
    (status = 409, description = "It is not complete", body = ErrorBody),
))]
pub(super) async fn remove_file(
    State(context): State<Arc<Context>>,
    path: Result<Path<FileName>, PathRejection>,
) -> Result<StatusCode, Failure> {
    let Path(FileName { app, name, file }) = path?;
    let none = Failure::NotFound("there is no such recording");
    let Some(recordings) = &context.recordings else { return Err(none) };
    let Some((directory, known, entry)) = recordings.find(&app, &name, &file) else { return Err(none) };
    match entry.state {
        RecordingState::Complete => {}
        RecordingState::InProgress => {
            let message = "the recording is in progress: end it first";
            return Err(Failure::Conflict("in_progress", message.to_owned()));
        }
        RecordingState::Unfinished => {
            let message = "the recording has ended, and its file is being completed";
            return Err(Failure::Conflict("unfinished", message.to_owned()));
        }
    }
    if recordings.remove(&directory, &known).await { Ok(StatusCode::NO_CONTENT) } else { Err(none) }
}
