//! Metrics of orders of certificates.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;

use super::{Context, counter, counters, gauges};

pub(super) fn encode(context: &Context, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let status = context.acme.clone().unwrap_or_default();
    let failed = status.failed().map(|(cause, count)| ([("result", cause.name())], count));
    let results = std::iter::once(([("result", "issued")], status.issued())).chain(failed);
    // `_total` is added.
    counters(encoder, "millstream_acme_orders", "Orders of certificates, by what came of them", results)?;
    let help = "Times that `acme.state_dir` could not be written to";
    counter(encoder, "millstream_acme_storage_errors", help, status.storage_errors())?;
    let orders = status.orders();
    let next = orders.iter().map(|order| (name(&order.names), order.next_attempt.as_secs_f64()));
    let help = "When a certificate is ordered next, seconds since 1970";
    gauges(encoder, "millstream_acme_next_order_seconds", help, next)?;
    let failures = orders.iter().map(|order| (name(&order.names), f64::from(order.failures)));
    let help = "Orders of a certificate that have failed since the last that succeeded";
    gauges(encoder, "millstream_acme_failures", help, failures)
}

fn name(names: &[String]) -> [(&'static str, String); 1] {
    [("name", names.first().cloned().unwrap_or_default())]
}
