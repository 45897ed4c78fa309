//! Keys of `[telemetry]`.

use crate::section::section;

section! {
    /// Export by OpenTelemetry (OTLP over HTTP, protobuf): traces of sessions, and metrics. See
    /// [telemetry.md](telemetry.md).
    Telemetry = "telemetry" {
        /// URL of the collector, such as `http://127.0.0.1:4318`: `/v1/traces` and `/v1/metrics` are
        /// added. `http://` or `https://`, on any address, without user name and password. Empty:
        /// nothing is exported.
        otlp_endpoint: String = String::new(), secret true,
        cost "Up to 2 MB for 8,192 spans that wait while the collector is away; then they are dropped \
            and counted.";

        /// Header fields of all requests, such as `["Authorization: Bearer SECRET"]`.
        headers: Vec<String> = Vec::new(), unit "`Name: value`", secret true,
        cost "None.";

        /// File that has such fields, one in a line, in addition to `headers`.
        headers_file: String = String::new(),
        cost "None.";

        /// Time for a request with its answer.
        timeout_ms: i64 = 10_000, unit "ms", range 100..=60_000,
        cost "Spans that come while a slow collector is waited for wait as well.";

        /// How many of a million sessions are traced, by chance. Who sends `traceparent` with WHIP or
        /// WHEP decides that for its session.
        samples_per_million: i64 = 1_000_000, unit "sessions", range 0..=1_000_000,
        cost "Three to five spans of about 0.3 kB for each session that is traced.";

        /// How often metrics are exported. 0: never; Prometheus can read them at `/metrics` in any case.
        metrics_seconds: i64 = 60, unit "s", range 0..=3_600,
        cost "As much work as for one reader of `/metrics`.";

        /// `service.name` of all that is exported.
        service_name: String = "millstream".to_owned(),
        cost "None.";

        /// Further attributes of the resource, such as `["deployment.environment.name=staging"]`.
        resource_attributes: Vec<String> = Vec::new(), unit "`name=value`",
        cost "A few bytes in each request.";
    }
}
