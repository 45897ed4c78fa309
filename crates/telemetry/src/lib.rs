//! OpenTelemetry: traces of sessions, and the metrics that `/metrics` has, to a collector by OTLP over HTTP.
//!
//! ```text
//! workers, control --Span--> queue (bounded) --> spans.rs: batches --> POST {endpoint}/v1/traces
//! text of /metrics ------- every so often -----> metrics.rs -------> POST {endpoint}/v1/metrics
//! ```
//!
//! Tasks on the control side's runtime; what sessions hand over is `worker_api::traces`. A collector that is
//! away, slow or wrong delays nobody: each request has a deadline and each answer a limit, what waits is
//! bounded, and what is dropped is counted.

mod client;
mod metrics;
mod openmetrics;
pub mod settings;
mod spans;
pub mod status;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use worker_api::time::since_1970;
use worker_api::traces::Traces;

use crate::client::OtlpClient;
use crate::metrics::MetricsExport;
use crate::settings::TelemetrySettings;
use crate::spans::SpansExport;
use crate::status::TelemetryStatus;

/// Time that spans have to be exported when the server stops.
const FLUSH: Duration = Duration::from_secs(3);

/// An export that runs.
#[derive(Debug)]
pub struct Telemetry {
    traces: Traces,
    status: Arc<TelemetryStatus>,
    settings: Arc<TelemetrySettings>,
    client: OtlpClient,
    stop: oneshot::Sender<()>,
    spans: JoinHandle<()>,
    metrics: Option<JoinHandle<()>>,
}

impl Telemetry {
    /// Starts the export of traces on the present runtime.
    ///
    /// # Errors
    /// Certificates that cannot be read: a sentence.
    pub fn start(settings: TelemetrySettings) -> Result<Self, String> {
        let settings = Arc::new(settings);
        let client = OtlpClient::new(&settings)?;
        let (traces, spans) = Traces::new(settings.samples);
        let status = Arc::new(TelemetryStatus::new(traces.clone()));
        let (stop, stopped) = oneshot::channel();
        let export = SpansExport::new(client.clone(), Arc::clone(&settings), Arc::clone(&status));
        let spans = tokio::spawn(export.run(spans, stopped));
        Ok(Self { traces, status, settings, client, stop, spans, metrics: None })
    }

    /// Exports metrics as well, if the settings want it: what `text` gives, in the text format of OpenMetrics.
    pub fn export_metrics<F>(&mut self, text: impl Fn() -> F + Send + Sync + 'static)
    where
        F: Future<Output = Option<String>> + Send + 'static,
    {
        if self.settings.metrics_every.is_zero() {
            return;
        }
        let export = MetricsExport {
            client: self.client.clone(),
            settings: Arc::clone(&self.settings),
            status: Arc::clone(&self.status),
            began: since_1970(),
        };
        self.metrics = Some(tokio::spawn(export.run(text)));
    }

    /// Sessions are traced by this.
    pub fn traces(&self) -> Traces {
        self.traces.clone()
    }

    /// How it goes.
    pub fn status(&self) -> Arc<TelemetryStatus> {
        Arc::clone(&self.status)
    }

    /// Ends it: spans that wait have a few seconds.
    pub async fn stop(mut self) {
        if let Some(metrics) = &self.metrics {
            metrics.abort();
        }
        // It has ended already if nobody takes this.
        let _ = self.stop.send(());
        if tokio::time::timeout(FLUSH, &mut self.spans).await.is_err() {
            self.spans.abort();
        }
    }
}
