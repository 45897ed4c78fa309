//! Files of recordings in the management API: to play and to download.
//!
//! Files are read on threads that may wait for a disk, a piece at a time as the client takes them.

#![allow(unused_qualifications, reason = "in what utoipa makes of the description")]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, header};
use axum::response::Response;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::spawn_blocking;
use utoipa::ToSchema;

use super::Failure;
use super::recordings::FileName;
use crate::Context;
use crate::error_response::ErrorBody;
use crate::ranged::{self, put};
use crate::recording_files::LINK_LASTS;
use crate::server::Endless;
use recording::catalogue::{Entry, State as RecordingState};
use recording::names::RecordingName;
use recording::settings::Format;
use worker_api::segments::Ranged;

/// Bytes read at a time.
const PIECE_BYTES: u64 = 128 << 10;
/// What stands for itself in the paths of links.
const IN_PATHS: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A link to a file.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FileLink {
    /// Path and query. Whoever has it may read the file without a token.
    #[schema(example = "/api/v1/recordings/live/cam/20261127T190500.123Z.mp4?until=4000&signature=...")]
    url: String,
    /// How long it may be used.
    valid_seconds: u64,
}

/// Makes a link to a file for players and downloads that cannot send a token: `GET` there needs none, for an
/// hour.
#[utoipa::path(post, path = "/api/v1/recordings/{app}/{name}/{file}/link", tag = "recordings", params(FileName), responses(
    (status = 200, description = "The link", body = FileLink),
    (status = 400, description = "The path is not valid UTF-8", body = ErrorBody),
    (status = 404, description = "There is no such recording", body = ErrorBody),
))]
pub(super) async fn link(
    State(context): State<Arc<Context>>,
    path: Result<Path<FileName>, PathRejection>,
) -> Result<Json<FileLink>, Failure> {
    let Path(name) = path?;
    find(&context, &name)?;
    let part = |text| utf8_percent_encode(text, IN_PATHS);
    let path = format!("/api/v1/recordings/{}/{}/{}", part(&name.app), part(&name.name), part(&name.file));
    let url = context.recording_files.link(&path);
    Ok(Json(FileLink { url, valid_seconds: LINK_LASTS.as_secs() }))
}

/// The file, or a range of it. Of one that is in progress, what there is by now, and no ranges.
#[utoipa::path(get, path = "/api/v1/recordings/{app}/{name}/{file}", tag = "recordings", params(FileName), responses(
    (status = 200, description = "The file", content_type = "video/mp4"),
    (status = 206, description = "The range of it that was asked for", content_type = "video/mp4"),
    (status = 400, description = "The path is not valid UTF-8", body = ErrorBody),
    (status = 404, description = "There is no such recording", body = ErrorBody),
    (status = 416, description = "It has no such range", body = ErrorBody),
    (status = 503, description = "Too many recordings are read at once, or the disk fails", body = ErrorBody),
))]
pub(super) async fn read_file(
    State(context): State<Arc<Context>>,
    path: Result<Path<FileName>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let Path(name) = path?;
    let (directory, name, entry) = find(&context, &name)?;
    let busy = Failure::Unavailable("busy", "too many recordings are read at once");
    let place = context.recording_files.reader().ok_or(busy)?;
    let opened = spawn_blocking(move || open(&directory, &name, &entry)).await.map_err(io::Error::other);
    let opened = opened.flatten().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Failure::NotFound("the file is gone"),
        _ => Failure::Unavailable("disk", "the file cannot be read"),
    })?;
    Ok(respond(opened, place, &headers))
}

fn find(context: &Context, name: &FileName) -> Result<(PathBuf, RecordingName, Entry), Failure> {
    let found = context.recordings.as_ref();
    let found = found.and_then(|recordings| recordings.find(&name.app, &name.name, &name.file));
    found.ok_or(Failure::NotFound("there is no such recording"))
}

struct Opened {
    file: File,
    bytes: u64,
    format: Format,
    /// Of a file that stays as it is.
    etag: Option<String>,
}

fn open(directory: &std::path::Path, name: &RecordingName, entry: &Entry) -> io::Result<Opened> {
    let is_complete = entry.state == RecordingState::Complete;
    let part = directory.join(name.part_path());
    let opened = if is_complete { File::open(directory.join(name.path())) } else { File::open(part) };
    // It may have been completed since it was found.
    let file = match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !is_complete => {
            File::open(directory.join(name.path()))?
        }
        opened => opened?,
    };
    let bytes = file.metadata()?.len();
    let etag = is_complete.then(|| format!("\"{bytes:x}-{:x}\"", name.start.as_millis()));
    Ok(Opened { file, bytes, format: name.format, etag })
}

fn respond(opened: Opened, place: OwnedSemaphorePermit, headers: &HeaderMap) -> Response {
    let Opened { file, bytes, format, etag } = opened;
    // Of what grows there are no ranges.
    let ranged = if etag.is_some() { ranged::asked(headers, etag.as_deref(), bytes) } else { Ranged::Whole };
    let mut response = ranged::head(ranged);
    let (first, length) = match ranged {
        Ranged::Whole => (0, bytes),
        Ranged::Part { first, last, .. } => (first, last - first + 1),
        Ranged::Unsatisfiable { .. } => return response,
    };
    let pieces = Pieces { file: Arc::new(file), at: first, left: length, _place: place };
    *response.body_mut() = Body::from_stream(futures_util::stream::try_unfold(pieces, Pieces::next));
    // As long as it moves, it may take as long as it likes.
    response.extensions_mut().insert(Endless);
    let media_type = match format {
        Format::Mp4 => "video/mp4",
        Format::Flv => "video/x-flv",
    };
    put(&mut response, header::CONTENT_TYPE, media_type);
    put(&mut response, header::CONTENT_LENGTH, &length.to_string());
    put(&mut response, header::ACCEPT_RANGES, if etag.is_some() { "bytes" } else { "none" });
    if let Some(etag) = &etag {
        put(&mut response, header::ETAG, etag);
    }
    response
}

/// What is still to be read of a file.
struct Pieces {
    file: Arc<File>,
    at: u64,
    left: u64,
    _place: OwnedSemaphorePermit,
}

impl Pieces {
    async fn next(mut self) -> io::Result<Option<(Bytes, Self)>> {
        if self.left == 0 {
            return Ok(None);
        }
        let (file, at, count) = (Arc::clone(&self.file), self.at, self.left.min(PIECE_BYTES));
        let read = spawn_blocking(move || {
            let mut bytes = vec![0; count as usize];
            file.read_exact_at(&mut bytes, at).map(|()| Bytes::from(bytes))
        });
        let bytes = read.await.map_err(io::Error::other)??;
        self.at += count;
        self.left -= count;
        Ok(Some((bytes, self)))
    }
}
