//! The JSON body that every error has, whichever part of the server answers.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

/// Body of every error.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ErrorBody {
    pub(crate) error: ApiError,
}

/// What went wrong.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ApiError {
    /// For programs; does not change.
    #[schema(example = "not_found")]
    pub(crate) code: String,
    /// For people.
    pub(crate) message: String,
}

/// An error as JSON.
pub(crate) fn error(status: StatusCode, code: &'static str, message: impl Into<String>) -> Response {
    let body = ErrorBody { error: ApiError { code: code.to_owned(), message: message.into() } };
    (status, Json(body)).into_response()
}
