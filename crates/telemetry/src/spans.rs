//! Spans to the collector: collected into batches, sent again while it is away, given up after a time.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind as OtlpKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span as OtlpSpan, Status};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout_at};
use worker_api::EndReason;
use worker_api::snapshot::Role;
use worker_api::time::since_1970;
use worker_api::traces::{Span, SpanKind};

use crate::client::{Failure, OtlpClient};
use crate::settings::TelemetrySettings;
use crate::status::{ExportResult, Signal, TelemetryStatus};

/// Spans of one request, at most: about 200 kB.
const BATCH_MAX: usize = 512;
/// How long the first span of a batch waits for others.
const COLLECT: Duration = Duration::from_secs(1);
/// First wait before a batch is sent again; doubled each time.
const RETRY_FIRST: Duration = Duration::from_millis(500);
/// Longest wait.
const RETRY_MAX: Duration = Duration::from_secs(10);
/// For how long a batch is sent again. Then it is dropped: what the queue has is newer.
const RETRY_FOR: Duration = Duration::from_secs(30);

/// A clock that was set, rather than read late because the thread had to wait between its two readings.
const CLOCK_SET_MIN: Duration = Duration::from_millis(10);

/// Attributes of resources and spans.
pub(crate) fn attribute(key: impl Into<String>, value: impl Into<String>) -> KeyValue {
    let value = Some(AnyValue { value: Some(Value::StringValue(value.into())) });
    KeyValue { key: key.into(), value, ..KeyValue::default() }
}

/// What is said of this server.
pub(crate) fn resource(settings: &TelemetrySettings) -> Resource {
    let attributes = settings.resource.iter().map(|(key, value)| attribute(key, value)).collect();
    Resource { attributes, ..Resource::default() }
}

/// Who says it.
pub(crate) fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: "millstream".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    }
}

/// The time of day of moments on the clock of spans. It stays the same from batch to batch, so that the
/// stages of a session follow each other without a gap wherever a batch ends, until the clock is set.
#[derive(Debug, Clone, Copy)]
struct SpanClock {
    at: std::time::Instant,
    since_1970: Duration,
}

impl SpanClock {
    /// Of a moment and its time of day.
    fn new(at: Instant, since_1970: Duration) -> Self {
        Self { at: at.into_std(), since_1970 }
    }

    /// Takes a later reading of both clocks.
    fn read(&mut self, now: Instant, since_1970: Duration) {
        let expected = self.since_1970 + now.into_std().saturating_duration_since(self.at);
        if expected.abs_diff(since_1970) >= CLOCK_SET_MIN {
            *self = Self::new(now, since_1970);
        }
    }

    fn nanoseconds(self, moment: std::time::Instant) -> u64 {
        let before = self.at.saturating_duration_since(moment);
        let after = moment.saturating_duration_since(self.at);
        let since_1970 = (self.since_1970 + after).saturating_sub(before);
        u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The export of spans.
pub(crate) struct SpansExport {
    client: OtlpClient,
    settings: Arc<TelemetrySettings>,
    status: Arc<TelemetryStatus>,
    clock: SpanClock,
    /// The last batch was not exported.
    is_failing: bool,
}

impl SpansExport {
    pub(crate) fn new(
        client: OtlpClient,
        settings: Arc<TelemetrySettings>,
        status: Arc<TelemetryStatus>,
    ) -> Self {
        let clock = SpanClock::new(Instant::now(), since_1970());
        Self { client, settings, status, clock, is_failing: false }
    }

    /// Exports until `stopped`, and then what is in the queue.
    pub(crate) async fn run(mut self, mut spans: mpsc::Receiver<Span>, mut stopped: oneshot::Receiver<()>) {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        loop {
            let work = async {
                collect(&mut spans, &mut batch).await;
                self.export_until(&batch, Instant::now() + RETRY_FOR).await;
            };
            tokio::select! {
                () = work => {}
                _ = &mut stopped => break,
            }
            batch.clear();
        }
        // One try each: whoever stops the server does not wait for a collector that is away.
        spans.close();
        loop {
            while batch.len() < BATCH_MAX
                && let Ok(span) = spans.try_recv()
            {
                batch.push(span);
            }
            if batch.is_empty() {
                return;
            }
            self.export_until(&batch, Instant::now()).await;
            batch.clear();
        }
    }

    /// Exports a batch, again until `until` while that makes sense.
    async fn export_until(&mut self, batch: &[Span], until: Instant) {
        self.clock.read(Instant::now(), since_1970());
        let request = self.request(batch);
        let mut wait = RETRY_FIRST;
        let failure = loop {
            let answer = self.client.export(&self.settings.traces, &request).await;
            match answer {
                Ok(ExportTraceServiceResponse { partial_success }) => {
                    self.status.count(Signal::Traces, ExportResult::Ok);
                    let rejected = partial_success.map_or(0, |partial| partial.rejected_spans);
                    // At most what it was sent, whatever it says.
                    let rejected = u64::try_from(rejected).unwrap_or(0).min(batch.len() as u64);
                    self.status.count_exported(batch.len() as u64, rejected);
                    if std::mem::take(&mut self.is_failing) {
                        tracing::info!("traces are exported again");
                    }
                    return;
                }
                Err(failure) => {
                    self.status.count(Signal::Traces, failure.result());
                    let asked = match failure {
                        Failure::Later(_, Some(asked)) => asked,
                        _ => wait,
                    };
                    if !failure.is_temporary() || Instant::now() + asked >= until {
                        break failure;
                    }
                    sleep(asked).await;
                    wait = (wait * 2).min(RETRY_MAX);
                }
            }
        };
        self.status.count_failed(batch.len() as u64);
        // Once, and not for each batch.
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::warn!(reason = %failure, spans = batch.len(), "traces are not exported");
        }
    }

    fn request(&self, batch: &[Span]) -> ExportTraceServiceRequest {
        let spans = batch.iter().map(|span| otlp_span(span, self.clock)).collect();
        let scope_spans = ScopeSpans { scope: Some(scope()), spans, ..ScopeSpans::default() };
        let of_resource = ResourceSpans {
            resource: Some(resource(&self.settings)),
            scope_spans: vec![scope_spans],
            ..ResourceSpans::default()
        };
        ExportTraceServiceRequest { resource_spans: vec![of_resource] }
    }
}

/// Waits for spans, and a moment for others.
async fn collect(spans: &mut mpsc::Receiver<Span>, batch: &mut Vec<Span>) {
    if batch.is_empty() && spans.recv_many(batch, BATCH_MAX).await == 0 {
        // Nothing is traced any more; the end of the server comes.
        std::future::pending::<()>().await;
    }
    let until = Instant::now() + COLLECT;
    while batch.len() < BATCH_MAX {
        let room = BATCH_MAX - batch.len();
        match timeout_at(until, spans.recv_many(batch, room)).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
}

/// A span as OTLP has it.
fn otlp_span(span: &Span, clock: SpanClock) -> OtlpSpan {
    let role = if span.role == Role::Publisher { "publish" } else { "play" };
    let protocol = span.protocol.name();
    let mut attributes = vec![
        attribute("millstream.stream", &*span.stream),
        attribute("millstream.protocol", protocol),
        attribute("millstream.role", role),
        attribute("client.address", span.address.ip().to_string()),
    ];
    attributes.extend(span.session.map(|session| attribute("millstream.session", session.to_string())));
    let (name, kind, reason) = match &span.kind {
        SpanKind::Session(reason) => (format!("{role} {protocol}"), OtlpKind::Server, Some(*reason)),
        SpanKind::Stage(stage, reason) => (stage.name().to_owned(), OtlpKind::Internal, *reason),
    };
    if let Some(reason) = reason {
        attributes.push(attribute("millstream.reason", reason.text()));
        attributes.push(attribute("millstream.cause", reason.cause()));
    }
    let status = reason
        .filter(|reason| is_error(*reason))
        .map(|reason| Status { code: StatusCode::Error as i32, message: reason.text().to_owned() });
    OtlpSpan {
        trace_id: span.trace.to_be_bytes().to_vec(),
        span_id: span.id.to_be_bytes().to_vec(),
        parent_span_id: if span.parent == 0 { Vec::new() } else { span.parent.to_be_bytes().to_vec() },
        name,
        kind: kind as i32,
        start_time_unix_nano: clock.nanoseconds(span.began),
        end_time_unix_nano: clock.nanoseconds(span.ended),
        attributes,
        status,
        ..OtlpSpan::default()
    }
}

/// Whether a session that ends like this has not got what it came for. What was decided, by its client, by
/// the operator or by time, is none.
fn is_error(reason: EndReason) -> bool {
    !matches!(
        reason.cause(),
        "closed_by_peer"
            | "kicked"
            | "token_expired"
            | "time_over"
            | "taken_over"
            | "preempted"
            | "draining"
            | "closed"
            | "answered"
    )
}

#[cfg(test)]
mod tests {
    use worker_api::traces::{SAMPLES_OF, Traced, Traces};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn times_and_ids_are_those_of_the_session() {
        let (traces, mut spans) = Traces::new(SAMPLES_OF);
        let address = "192.0.2.1:5000".parse().expect("an address");
        let start = Instant::now();
        let began = start.into_std();
        let of = Traced {
            protocol: worker_api::snapshot::Protocol::Whip,
            role: Role::Publisher,
            stream: "live/mill".into(),
            address,
        };
        let trace = traces.begin(began, None, of).expect("sampled");
        trace.end(began + Duration::from_millis(250), EndReason::ConnectTimeout);
        let clock = SpanClock::new(start + Duration::from_secs(1), Duration::from_secs(1_800_000_000));
        let (stage, session) = (spans.recv().await.expect("one"), spans.recv().await.expect("one more"));
        let (stage, session) = (otlp_span(&stage, clock), otlp_span(&session, clock));
        assert_eq!((&*stage.name, &*session.name), ("request", "publish whip"));
        assert_eq!(session.start_time_unix_nano, 1_799_999_999_000_000_000);
        assert_eq!(session.end_time_unix_nano, 1_799_999_999_250_000_000);
        assert_eq!((session.trace_id.len(), session.span_id.len()), (16, 8));
        assert_eq!((&stage.trace_id, &stage.parent_span_id), (&session.trace_id, &session.span_id));
        assert!(session.parent_span_id.is_empty());
        assert_eq!(session.status.expect("a status").code, StatusCode::Error as i32);
    }
    #[tokio::test(start_paused = true)]
    async fn a_moment_keeps_its_time_of_day_until_the_clock_is_set() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let day = |ms| Duration::from_secs(1_800_000_000) + Duration::from_millis(ms);
        let mut clock = SpanClock::new(at(0), day(0));
        let moment = at(500).into_std();
        // The time of day was read 3 ms after the other clock.
        clock.read(at(1_000), day(1_003));
        assert_eq!(u128::from(clock.nanoseconds(moment)), day(500).as_nanos());
        let two_minutes_back = day(2_000) - Duration::from_secs(120);
        clock.read(at(2_000), two_minutes_back);
        let expected = two_minutes_back - Duration::from_millis(1_500);
        assert_eq!(u128::from(clock.nanoseconds(moment)), expected.as_nanos());
    }
}
