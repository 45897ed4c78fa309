//! HTTP as control serves it; what workers count of it is among their counters.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

use prometheus_client::encoding::DescriptorEncoder;

use super::{Context, counter, counters, gauge};

/// Writes what has been counted so far.
pub(super) fn encode(context: &Context, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let http = &context.http;
    let help = "Requests that were not for media, by version of HTTP";
    let requests = [("1", &http.http1_requests), ("2", &http.http2_requests)];
    let requests = requests.into_iter().map(|(version, count)| ([("version", version)], count.load(Relaxed)));
    counters(encoder, "millstream_http_requests", help, requests)?;
    let help = "Those of HTTP/1 on a connection that had carried one before";
    counter(encoder, "millstream_http_reused_requests", help, http.reused_requests.load(Relaxed))?;
    let help = "HTTP connections refused because their address, or their kind, had too many";
    counter(encoder, "millstream_http_refused_connections", help, http.refused.load(Relaxed))?;
    let help = "HTTP/1 connections that are kept open, idle or not";
    gauge(encoder, "millstream_http_kept_connections", help, context.keep_alive.taken() as f64)?;
    let help = "Open connections of HTTP/2";
    gauge(encoder, "millstream_http2_connections", help, http.http2_connections.load(Relaxed) as f64)
}
