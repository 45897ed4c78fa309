//! HTTP as control serves it; what workers count of it is among their counters.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::DescriptorEncoder;

use super::{counter, counters, gauge};
use crate::context::HttpCounters;

/// A copy of [`HttpCounters`].
#[derive(Debug)]
pub(super) struct HttpMetrics {
    http1_requests: u64,
    http2_requests: u64,
    reused_requests: u64,
    refused: u64,
    http2_connections: u64,
    keep_alive_places: usize,
}

impl HttpMetrics {
    pub(super) fn read(counters: &HttpCounters, keep_alive_places: usize) -> Self {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Self {
            http1_requests: read(&counters.http1_requests),
            http2_requests: read(&counters.http2_requests),
            reused_requests: read(&counters.reused_requests),
            refused: read(&counters.refused),
            http2_connections: read(&counters.http2_connections),
            keep_alive_places,
        }
    }

    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Requests that were not for media, by version of HTTP";
        let requests = [("1", self.http1_requests), ("2", self.http2_requests)];
        let requests = requests.into_iter().map(|(version, count)| ([("version", version)], count));
        counters(encoder, "millstream_http_requests", help, requests)?;
        let help = "Those of HTTP/1 on a connection that had carried one before";
        counter(encoder, "millstream_http_reused_requests", help, self.reused_requests)?;
        let help = "HTTP connections closed because their address, or HTTP/2, had too many";
        counter(encoder, "millstream_http_refused_connections", help, self.refused)?;
        let help = "HTTP/1 connections that are kept open, idle or not";
        gauge(encoder, "millstream_http_kept_connections", help, self.keep_alive_places as f64)?;
        let help = "Open connections of HTTP/2";
        gauge(encoder, "millstream_http2_connections", help, self.http2_connections as f64)
    }
}
