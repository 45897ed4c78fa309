//! Uploads in the management API: which recordings are on their way to a store, and what hinders them.

#![allow(unused_qualifications, reason = "in what utoipa makes of the description")]

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::Failure;
use crate::Context;
use crate::error_response::ErrorBody;
use ::uploads::{Cause, UploadState, UploadStatus};
use worker_api::time;

/// Files of an answer, if the request does not say how many.
const FILES_BY_DEFAULT: usize = 1_000;
/// Files of an answer at most.
const FILES_MAX: usize = 10_000;

/// Where recordings are sent, and how far they are.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct UploadList {
    /// Whether recordings are sent anywhere.
    enabled: bool,
    /// Where to.
    #[schema(example = "s3://recordings/archive")]
    store: Option<String>,
    /// Files in each state.
    waiting: u64,
    uploading: u64,
    confirmed: u64,
    failed: u64,
    /// Bytes of files that the store has not confirmed.
    unconfirmed_bytes: u64,
    /// Bytes that the store has taken since the start.
    sent_bytes: u64,
    /// Whether the journal beside recordings cannot be written at present.
    journal_failing: bool,
    /// Files: those that failed, are being sent, wait, and are confirmed, in this order.
    files: Vec<UploadedFile>,
    /// Files that match the request, those beyond its limit included.
    files_total: usize,
}

/// A file.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct UploadedFile {
    directory: String,
    /// Path below the directory; the object's key ends in it.
    path: String,
    bytes: u64,
    /// `waiting`, `uploading`, `confirmed` or `failed`: it is tried again.
    state: &'static str,
    /// Bytes that the store has taken of a file that is being sent.
    sent_bytes: Option<u64>,
    /// When the store has confirmed it (RFC 3339).
    confirmed_at: Option<String>,
    /// What kind of failure the last one was.
    cause: Option<&'static str>,
    /// The failure in words.
    reason: Option<String>,
    /// Until the next attempt.
    retry_in_ms: Option<u64>,
    /// Attempts that failed in a row.
    failures: u32,
}

/// Which files are listed.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct UploadQuery {
    /// Only those in this state: waiting, uploading, confirmed or failed
    state: Option<String>,
    /// Files listed at most, 1000 unless it is given, 10000 at most
    limit: Option<usize>,
}

impl From<UploadStatus> for UploadedFile {
    fn from(status: UploadStatus) -> Self {
        let UploadStatus { directory, path, bytes, failures, state } = status;
        let mut file = Self {
            directory,
            path,
            bytes,
            state: state.name(),
            sent_bytes: None,
            confirmed_at: None,
            cause: None,
            reason: None,
            retry_in_ms: None,
            failures,
        };
        match state {
            UploadState::Waiting => {}
            UploadState::Uploading { sent_bytes } => file.sent_bytes = Some(sent_bytes),
            UploadState::Confirmed { at_ms } => {
                file.confirmed_at = Some(time::rfc3339(UNIX_EPOCH + Duration::from_millis(at_ms)));
            }
            UploadState::Failed { cause, why, retry_in } => {
                file.cause = Some(Cause::name(cause));
                file.reason = Some(why);
                file.retry_in_ms = Some(u64::try_from(retry_in.as_millis()).unwrap_or(u64::MAX));
            }
        }
        file
    }
}

/// Where recordings are sent, how far they are, and why those that failed did.
#[utoipa::path(get, path = "/api/v1/uploads", tag = "recordings", params(UploadQuery), responses(
    (status = 200, description = "Uploads", body = UploadList),
    (status = 400, description = "A parameter is not valid", body = ErrorBody),
))]
pub(super) async fn uploads(
    State(context): State<Arc<Context>>,
    query: Result<Query<UploadQuery>, QueryRejection>,
) -> Result<Json<UploadList>, Failure> {
    let Query(UploadQuery { state, limit }) = query?;
    if let Some(state) = state.as_deref().filter(|state| !UploadState::NAMES.contains(state)) {
        let names = UploadState::NAMES.join(", ");
        return Err(Failure::BadRequest(format!("`state` is one of {names}, not `{state}`")));
    }
    let limit = limit.unwrap_or(FILES_BY_DEFAULT).min(FILES_MAX);
    let (totals, store, (files, files_total)) = match &context.uploads {
        Some(uploads) => {
            (uploads.totals(), Some(uploads.store().to_owned()), uploads.list(state.as_deref(), limit))
        }
        None => Default::default(),
    };
    let [waiting, uploading, confirmed, failed] = totals.files;
    Ok(Json(UploadList {
        enabled: context.uploads.is_some(),
        store,
        waiting,
        uploading,
        confirmed,
        failed,
        unconfirmed_bytes: totals.unconfirmed_bytes,
        sent_bytes: totals.sent_bytes,
        journal_failing: totals.journals_failing > 0,
        files: files.into_iter().map(UploadedFile::from).collect(),
        files_total,
    }))
}
