//! Upgrade of the program in the management API.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::Failure;
use crate::Context;
use crate::error_response::{ApiError, ErrorBody};
use crate::upgrade::{NoUpgrade, Upgraded};

/// Starts the program again and hands over to it.
///
/// The new process is what is installed now where this one was started from, with the same arguments. If it
/// cannot take over, this one serves as before.
#[utoipa::path(post, path = "/api/v1/upgrade", tag = "server", responses(
    (status = 200, description = "The new server has taken over; this one ends", body = Upgraded),
    (status = 409, description = "The new server could not take over; nothing has changed", body = ErrorBody),
    (status = 503, description = "Too many upgrades wait, or this server cannot hand over", body = ErrorBody),
))]
pub(super) async fn upgrade(State(context): State<Arc<Context>>) -> Result<Response, Failure> {
    let answer = context.upgrade.ask().await.map_err(|no_upgrade| match no_upgrade {
        NoUpgrade::Busy => Failure::Unavailable("too_many_upgrades", "as many upgrades wait as may wait"),
        NoUpgrade::NotHere => {
            Failure::Unavailable("no_upgrade", "this server stops, or is part of a program")
        }
    })?;
    Ok(match answer {
        Ok(upgraded) => Json(upgraded).into_response(),
        Err(reason) => {
            let error = ApiError { code: "upgrade_failed".to_owned(), message: reason };
            (StatusCode::CONFLICT, Json(ErrorBody { error })).into_response()
        }
    })
}
