//! Reload of the configuration in the management API.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::Failure;
use crate::Context;
use crate::error_response::{ApiError, ErrorBody};
use crate::reload::{NoReload, Reloaded};

/// Why the configuration was not reloaded. Nothing has changed.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ReloadRefused {
    error: ApiError,
    /// Each mistake by itself, with the file, line and key that it is at.
    #[schema(example = json!(["millstream.toml:3: unknown key `limits.sesions_per_worker`"]))]
    errors: Vec<String>,
}

/// Reads the configuration again and applies what can change while the server runs.
///
/// All of it or, if there is a mistake, nothing. Sessions go on; new requests meet the new rules and limits.
#[utoipa::path(post, path = "/api/v1/config/reload", tag = "server", responses(
    (status = 200, description = "What has changed, and what needs a restart", body = Reloaded),
    (status = 409, description = "The configuration has mistakes; nothing has changed", body = ReloadRefused),
    (status = 503, description = "Too many reloads wait, or the server stops", body = ErrorBody),
))]
pub(super) async fn reload(State(context): State<Arc<Context>>) -> Result<Response, Failure> {
    let answer = context.reload.ask().await.map_err(|no_reload| match no_reload {
        NoReload::Busy => Failure::Unavailable("too_many_reloads", "as many reloads wait as may wait"),
        NoReload::Stopping => Failure::Unavailable("stopping", "the server stops"),
    })?;
    Ok(match &*answer {
        Ok(reloaded) => Json(reloaded).into_response(),
        Err(errors) => {
            let error = ApiError { code: "configuration_refused".to_owned(), message: errors.join("; ") };
            let body = ReloadRefused { error, errors: errors.clone() };
            (StatusCode::CONFLICT, Json(body)).into_response()
        }
    })
}
