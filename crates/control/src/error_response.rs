//! The JSON body that every error has, whichever part of the server answers.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use worker_api::Refused;

/// When a client that is refused because there is too much to do may come again, seconds.
pub(crate) const RETRY_AFTER: &str = "2";

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
    let mut response = error(status, refused.code, refused.reason);
    if let Some(challenge) = refused.challenge {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    }
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
    }
    response
}

/// An error as JSON.
pub(crate) fn error(status: StatusCode, code: &'static str, message: impl Into<String>) -> Response {
    let body = ErrorBody { error: ApiError { code: code.to_owned(), message: message.into() } };
    (status, Json(body)).into_response()
}
