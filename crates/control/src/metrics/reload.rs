//! Metrics of reloads of the configuration, and of certificates.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::DescriptorEncoder;

use super::{Context, counters, gauge, gauges};

pub(super) fn encode(context: &Context, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let of = &context.reload.counters;
    let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    // `_total` is added.
    let help = "Reloads of the configuration, by result";
    let results = [("succeeded", value(&of.succeeded)), ("refused", value(&of.refused))];
    let results = results.into_iter().map(|(result, count)| ([("result", result)], count));
    counters(encoder, "millstream_config_reloads", help, results)?;
    let help = "When the configuration in effect was read, seconds since 1970";
    gauge(encoder, "millstream_config_last_success_seconds", help, value(&of.last_success) as f64)?;
    let help = "Times that changed files of certificates were read without a reload, by result";
    let taken = [("succeeded", value(&of.certificates_taken)), ("refused", value(&of.certificates_refused))];
    let taken = taken.into_iter().map(|(result, count)| ([("result", result)], count));
    counters(encoder, "millstream_certificate_changes", help, taken)?;
    let certificates = context.reload.certificates.as_ref().map(|store| store.list()).unwrap_or_default();
    let help = "When a certificate in use expires, seconds since 1970";
    let expiry = certificates.iter().enumerate().map(|(index, certificate)| {
        let name = certificate.names.first().cloned().unwrap_or_default();
        ([("index", index.to_string()), ("name", name)], certificate.not_after.as_secs_f64())
    });
    gauges(encoder, "millstream_certificate_expiry_seconds", help, expiry)
}
