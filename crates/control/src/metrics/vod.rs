//! Metrics of video on demand.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;

use super::{Context, counter, gauge};
use ::vod::Library;

pub(super) fn encode(context: &Context, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let status = context.vod.as_ref().map(Library::status).unwrap_or_default();
    // `_total` is added.
    for (name, help, value) in [
        ("millstream_vod_requests", "Requests for recordings and files, and lists of them", status.requests),
        ("millstream_vod_refused", "Those of them refused because there were too many", status.refused),
        ("millstream_vod_failed", "Answers that ended early because a file could not be read", status.failed),
        ("millstream_vod_sent_bytes", "Bytes of files and segments handed to connections", status.bytes),
        ("millstream_vod_indexes_read", "Indexes of files read", status.indexes),
        ("millstream_vod_unplayable", "Files refused for what is in them", status.unplayable),
        (
            "millstream_vod_remote_index_requests",
            "Requests sent to other servers for indexes of files",
            status.remote_requests,
        ),
        (
            "millstream_vod_remote_index_bytes",
            "Bytes received from other servers for indexes of files",
            status.remote_bytes,
        ),
    ] {
        counter(encoder, name, help, value)?;
    }
    for (name, help, value) in [
        ("millstream_vod_active_requests", "Requests being answered", status.active),
        ("millstream_vod_open_files", "Files open for them", status.open_files),
        ("millstream_vod_indexes", "Files whose index is kept", status.cached),
        ("millstream_vod_index_bytes", "Bytes of indexes that are kept", status.cached_bytes),
    ] {
        gauge(encoder, name, help, value as f64)?;
    }
    Ok(())
}
