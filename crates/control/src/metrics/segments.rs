//! Metrics of segments on disk.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;

use super::{Context, counter, gauge};
use ::segments::Segments;

pub(super) fn encode(context: &Context, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let store = context.segments.as_ref().and_then(Segments::store).unwrap_or_default();
    let help = "Segments of long windows on disk (`hls.directory`)";
    gauge(encoder, "millstream_segments_stored", help, store.segments as f64)?;
    let help = "Bytes of segments on disk";
    gauge(encoder, "millstream_segments_stored_bytes", help, store.bytes as f64)?;
    let help = "1 while the disk of segments fails, and windows are shorter";
    let failing = f64::from(u8::from(store.is_failing));
    gauge(encoder, "millstream_segments_disk_failing", help, failing)?;
    // `_total` is added.
    let help = "Calls that the disk of segments failed";
    counter(encoder, "millstream_segments_disk_errors", help, store.errors)?;
    let help = "Segments read from disk for players";
    counter(encoder, "millstream_segments_recalled", help, store.recalled)?;
    let help = "Times that a segment was read from disk later, because too much was read already";
    counter(encoder, "millstream_segments_recalls_deferred", help, store.deferred)
}
