//! Metrics of uploads.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;

use super::{Context, counter, counters, gauge, gauges};
use ::uploads::{Cause, UploadState, Uploads};

pub(super) fn encode(context: &Context, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let totals = context.uploads.as_ref().map(Uploads::totals).unwrap_or_default();
    let states = UploadState::NAMES.into_iter().zip(totals.files);
    let states = states.map(|(state, files)| ([("state", state)], files as f64));
    gauges(encoder, "millstream_uploads", "Recordings by the state of their upload", states)?;
    let help = "Bytes of recordings that the store has not confirmed";
    gauge(encoder, "millstream_upload_unconfirmed_bytes", help, totals.unconfirmed_bytes as f64)?;
    let help = "Directories whose journal of uploads cannot be written at present";
    gauge(encoder, "millstream_upload_journals_failing", help, totals.journals_failing as f64)?;
    // `_total` is added.
    for (name, help, value) in [
        ("millstream_upload_sent_bytes", "Bytes that the store has taken", totals.sent_bytes),
        ("millstream_uploads_sent", "Recordings confirmed after they were sent", totals.sent),
        ("millstream_uploads_already_there", "Recordings that the store had", totals.already_there),
        ("millstream_uploads_resumed", "Uploads that went on where an earlier attempt ended", totals.resumed),
        (
            "millstream_uploads_removed_local",
            "Recordings removed from this machine because the store has them",
            totals.removed,
        ),
        (
            "millstream_uploads_not_followed",
            "Times that a recording was left for later because there were too many",
            totals.not_followed,
        ),
    ] {
        counter(encoder, name, help, value)?;
    }
    let segments = context.uploads.as_ref().map(Uploads::mirror_totals).unwrap_or_default();
    let help = "Streams being uploaded, and ended ones with segments still to delete";
    gauge(encoder, "millstream_upload_streams", help, segments.streams as f64)?;
    let help = "Bytes of segments that wait for the store";
    gauge(encoder, "millstream_upload_segments_waiting_bytes", help, segments.waiting_bytes as f64)?;
    for (name, help, value) in [
        ("millstream_upload_segments_sent", "Segments that the store has confirmed", segments.sent),
        ("millstream_upload_segments_sent_bytes", "Bytes of them", segments.sent_bytes),
        ("millstream_upload_playlists_written", "Playlists written to the store", segments.playlists),
        (
            "millstream_upload_segments_left_out",
            "Segments that were left out because the store was slow, away, or had another object",
            segments.left_out,
        ),
        ("millstream_upload_segments_deleted", "Segments and playlists deleted", segments.deleted),
        ("millstream_upload_segments_failures", "Requests for segments that failed", segments.failures),
    ] {
        counter(encoder, name, help, value)?;
    }
    let causes = Cause::ALL.into_iter().zip(totals.failures);
    let causes = causes.map(|(cause, failures)| ([("cause", cause.name())], failures));
    counters(encoder, "millstream_upload_failures", "Attempts that failed", causes)
}
