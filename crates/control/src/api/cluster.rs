//! The cluster in the management API: its nodes, this node's links, who feeds whom with which stream.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use serde::Deserialize;

use super::Failure;
use crate::Context;
use crate::cluster::{self, ClusterSnapshot, ListedStreams};
use crate::error_response::ErrorBody;

/// Most streams of one page.
const PAGE_MAX: usize = 1000;
/// Streams of a page when the request does not say.
const PAGE_DEFAULT: usize = 100;

/// Which streams to list.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ClusterQuery {
    /// Only this one, as `app/name`.
    stream: Option<String>,
    /// Only those with this in `app/name`, in any case of its letters.
    search: Option<String>,
    /// Streams to skip.
    #[param(default = 0)]
    offset: usize,
    /// Streams to list, at most 1000; 100 when left out.
    #[param(default = 100, maximum = 1000)]
    limit: Option<usize>,
}

/// The cluster as this node sees it.
///
/// Nodes and links are complete, streams come in pages. `cluster_node` of `/api/v1/server` says whether there
/// is a cluster.
#[utoipa::path(get, path = "/api/v1/cluster", tag = "cluster", params(ClusterQuery), responses(
    (status = 200, description = "The cluster", body = ClusterSnapshot),
    (status = 400, description = "A parameter is not valid", body = ErrorBody),
    (status = 404, description = "This server is a single node", body = ErrorBody),
    (status = 503, description = "The cluster does not answer", body = ErrorBody),
))]
pub(super) async fn cluster(
    State(context): State<Arc<Context>>,
    query: Result<Query<ClusterQuery>, QueryRejection>,
) -> Result<Json<ClusterSnapshot>, Failure> {
    let Query(ClusterQuery { stream, search, offset, limit }) = query?;
    let source =
        context.cluster.as_deref().ok_or(Failure::NotFound("this server is not part of a cluster"))?;
    let limit = limit.unwrap_or(PAGE_DEFAULT).min(PAGE_MAX);
    let listed = ListedStreams { stream, search, offset, limit };
    cluster::ask(source, listed).await.map(Json).ok_or(Failure::ClusterSilent)
}
