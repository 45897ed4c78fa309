//! Metrics of MoQ beyond those that all sessions have.

use std::fmt;
use std::sync::atomic::Ordering;

use prometheus_client::encoding::DescriptorEncoder;

use super::{Context, counter, gauge};

/// None of them where it is off: most servers are built without.
pub(super) fn encode(context: &Context, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let Some(status) = &context.moq else { return Ok(()) };
    let value = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    gauge(
        encoder,
        "millstream_moq_connections",
        "Clients by MoQ; each has a session for every stream that it plays or publishes",
        value(&status.sessions) as f64,
    )?;
    // `_total` is added.
    for (name, help, value) in [
        ("millstream_moq_accepted", "Clients by MoQ that were let in", value(&status.accepted)),
        ("millstream_moq_refused", "Clients by MoQ that were refused", value(&status.refused)),
        ("millstream_moq_failed", "Connections that did not become sessions of MoQ", value(&status.failed)),
        (
            "millstream_moq_invalid_frames",
            "Frames of publishers by MoQ that made no sense",
            value(&status.invalid),
        ),
    ] {
        counter(encoder, name, help, value)?;
    }
    Ok(())
}
