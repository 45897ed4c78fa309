//! What the configuration says about telemetry.

use std::fmt;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Uri};

/// Where to export, and what.
#[derive(Clone)]
pub struct TelemetrySettings {
    /// Where traces go.
    pub traces: Uri,
    /// Where metrics go.
    pub metrics: Uri,
    /// Sent with each request. They may be secret.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Time for a request with its answer.
    pub timeout: Duration,
    /// How many of [`SAMPLES_OF`](worker_api::traces::SAMPLES_OF) sessions are traced.
    pub samples: u32,
    /// How often metrics are exported; zero: never.
    pub metrics_every: Duration,
    /// What is said of this server with everything that is exported: names and values.
    pub resource: Vec<(String, String)>,
    /// Certificates in PEM that are trusted besides the system's.
    pub extra_roots_pem: Vec<u8>,
}

impl fmt::Debug for TelemetrySettings {
    /// Without headers and URLs, which may have a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TelemetrySettings")
            .field("timeout", &self.timeout)
            .field("samples", &self.samples)
            .field("resource", &self.resource)
            .finish_non_exhaustive()
    }
}
