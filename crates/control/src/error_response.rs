//! The JSON body that every error has, whichever part of the server answers.

use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use worker_api::Refused;

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

/// A request for media that is refused.
pub(crate) fn refused(refused: Refused) -> Response {
    let status = StatusCode::from_u16(refused.status).unwrap_or(StatusCode::BAD_REQUEST);
    let mut response = (status, [(header::CONTENT_TYPE, "application/json")], refused.body()).into_response();
    for (name, value) in refused.fields() {
        if let Ok(name) = HeaderName::from_bytes(name.as_bytes()) {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
    }
    response
}

/// An error as JSON.
pub(crate) fn error(status: StatusCode, code: &'static str, message: impl Into<String>) -> Response {
    let body = ErrorBody { error: ApiError { code: code.to_owned(), message: message.into() } };
    (status, Json(body)).into_response()
}
