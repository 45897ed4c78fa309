//! Metrics to the collector: what `/metrics` has, every so often.
//!
//! Nothing is sent again: all values are totals and states, so that the next export has what the one before
//! would have said.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum,
};
use tokio::time::{MissedTickBehavior, interval};
use worker_api::time::since_1970;

use crate::client::OtlpClient;
use crate::openmetrics::{Family, FamilyKind, Number, families};
use crate::settings::TelemetrySettings;
use crate::spans::{attribute, resource, scope};
use crate::status::{ExportResult, Signal, TelemetryStatus};

/// The export of metrics.
pub(crate) struct MetricsExport {
    pub(crate) client: OtlpClient,
    pub(crate) settings: Arc<TelemetrySettings>,
    pub(crate) status: Arc<TelemetryStatus>,
    /// Since when counters count.
    pub(crate) began: Duration,
}

impl MetricsExport {
    /// Exports what `text` gives until it is dropped.
    pub(crate) async fn run<F>(self, text: impl Fn() -> F)
    where
        F: Future<Output = Option<String>>,
    {
        let mut due = interval(self.settings.metrics_every);
        // What a slow collector has made late is not made up for.
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_failing = false;
        loop {
            due.tick().await;
            let Some(text) = text().await else { continue };
            let request = self.request(&families(&text));
            drop(text);
            let answer = self.client.export(&self.settings.metrics, &request).await;
            match answer {
                Ok(ExportMetricsServiceResponse { partial_success }) => {
                    self.status.count(Signal::Metrics, ExportResult::Ok);
                    if let Some(partial) = partial_success.filter(|partial| partial.rejected_data_points > 0)
                    {
                        let message: String = partial.error_message.chars().take(200).collect();
                        tracing::debug!(points = partial.rejected_data_points, message, "metrics rejected");
                    }
                    if std::mem::take(&mut is_failing) {
                        tracing::info!("metrics are exported again");
                    }
                }
                Err(failure) => {
                    self.status.count(Signal::Metrics, failure.result());
                    if !std::mem::replace(&mut is_failing, true) {
                        tracing::warn!(reason = %failure, "metrics are not exported");
                    }
                }
            }
        }
    }

    fn request(&self, families: &[Family]) -> ExportMetricsServiceRequest {
        let (began, now) = (nanoseconds(self.began), nanoseconds(since_1970()));
        let metrics = families.iter().map(|family| metric(family, began, now)).collect();
        let scope_metrics = ScopeMetrics { scope: Some(scope()), metrics, ..ScopeMetrics::default() };
        let of_resource = ResourceMetrics {
            resource: Some(resource(&self.settings)),
            scope_metrics: vec![scope_metrics],
            ..ResourceMetrics::default()
        };
        ExportMetricsServiceRequest { resource_metrics: vec![of_resource] }
    }
}

fn metric(family: &Family, began: u64, now: u64) -> Metric {
    let data_points = family.samples.iter().map(|sample| NumberDataPoint {
        attributes: sample.labels.iter().map(|(name, value)| attribute(name, value)).collect(),
        start_time_unix_nano: if family.kind == FamilyKind::Counter { began } else { 0 },
        time_unix_nano: now,
        value: Some(match sample.value {
            Number::Integer(value) => Value::AsInt(value),
            Number::Float(value) => Value::AsDouble(value),
        }),
        ..NumberDataPoint::default()
    });
    let data_points = data_points.collect();
    let data = match family.kind {
        FamilyKind::Counter => Data::Sum(Sum {
            data_points,
            aggregation_temporality: AggregationTemporality::Cumulative as i32,
            is_monotonic: true,
        }),
        FamilyKind::Gauge => Data::Gauge(Gauge { data_points }),
    };
    Metric {
        name: family.name.clone(),
        description: family.help.clone(),
        data: Some(data),
        ..Metric::default()
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
