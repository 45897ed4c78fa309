//! Metrics of recordings, per directory.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;

use super::{Context, counters, gauges};
use recording::{DirectoryStatus, Recordings};

type Counter = (&'static str, &'static str, fn(&DirectoryStatus) -> u64);
type Gauge = (&'static str, &'static str, fn(&DirectoryStatus) -> f64);

/// `_total` is added.
const COUNTERS: [Counter; 8] = [
    ("millstream_recording_written_bytes", "Bytes written to recordings", |d| d.written_bytes),
    ("millstream_recording_fragments", "Fragments written", |d| d.fragments),
    (
        "millstream_recording_lost_fragments",
        "Fragments left out because the disk was too slow, or refused them",
        |d| d.fragments_lost,
    ),
    ("millstream_recordings_completed", "Recordings completed", |d| d.files_completed),
    ("millstream_recordings_repaired", "Recordings of an earlier run completed", |d| d.files_repaired),
    (
        "millstream_recordings_removed",
        "Recordings removed by age, number or bytes, or through the API",
        |d| d.files_removed,
    ),
    ("millstream_recording_disk_errors", "Calls that the disk failed", |d| d.errors),
    ("millstream_recording_syncs", "Times that recordings were synced to the disk", |d| d.syncs),
];

const GAUGES: [Gauge; 5] = [
    ("millstream_recording_queued_bytes", "Bytes that wait to be written", |d| d.queued_bytes as f64),
    ("millstream_recording_files", "Recordings in the directory", |d| d.recordings as f64),
    ("millstream_recording_bytes", "Bytes of recordings in the directory", |d| d.recorded_bytes as f64),
    (
        "millstream_recording_disk_failing",
        "1 while the disk fails, or is too slow, and recordings have gaps",
        |d| f64::from(u8::from(d.failure.is_some() || d.is_losing)),
    ),
    (
        "millstream_recording_slowest_write_seconds",
        "Longest time that a write, a sync or completing a file took since the start",
        |d| d.slowest.as_secs_f64(),
    ),
];

pub(super) fn encode(context: &Context, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let recordings = context.recordings.as_ref();
    let directories: Vec<_> = recordings
        .into_iter()
        .flat_map(Recordings::directories)
        .map(|directory| (directory.path.display().to_string(), directory))
        .collect();
    let active = recordings.map_or(0, |recordings| recordings.active().len());
    let help = "Streams that are recorded";
    super::gauge(encoder, "millstream_recordings", help, active as f64)?;
    for (name, help, value) in COUNTERS {
        let samples = directories.iter().map(|(path, d)| ([("directory", path.as_str())], value(d)));
        counters(encoder, name, help, samples)?;
    }
    for (name, help, value) in GAUGES {
        let samples = directories.iter().map(|(path, d)| ([("directory", path.as_str())], value(d)));
        gauges(encoder, name, help, samples)?;
    }
    Ok(())
}
