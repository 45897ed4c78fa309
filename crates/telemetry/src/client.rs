//! One POST of OTLP (OTLP 1.x, "OTLP/HTTP"): protobuf, over a connection that is kept, with a deadline, its
//! answer limited in size, redirects not followed.
//!
//! Where it goes was written by whoever configures the server, so that any address may be reached, as with
//! hooks, and unlike by sources that the API can name.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use prost::Message;
use tokio::time::timeout;
use worker_api::trust::client_config;

use crate::settings::TelemetrySettings;
use crate::status::ExportResult;

/// Largest answer that is read: those of OTLP have a count and a sentence.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Unused connections are kept for this long; batches of spans come every second where sessions do.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections at a time: one for each signal.
const CONNECTIONS: usize = 2;

/// Why an export has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It was refused, and is not sent again.
    Refused(StatusCode),
    /// It was refused, and may be sent again, after this time if one was named (OTLP, "Throttling").
    Later(StatusCode, Option<Duration>),
    /// No connection, or none that is trusted, or it broke.
    Connection,
    /// No answer in time.
    Timeout,
    /// The answer is too long, or none of OTLP. It is not known whether the collector has the data.
    Answer,
}

impl Failure {
    pub(crate) fn result(self) -> ExportResult {
        match self {
            Self::Refused(_) | Self::Later(..) => ExportResult::Refused,
            Self::Connection => ExportResult::Connection,
            Self::Timeout => ExportResult::Timeout,
            Self::Answer => ExportResult::Answer,
        }
    }

    /// Whether the same may be taken later.
    pub(crate) fn is_temporary(self) -> bool {
        matches!(self, Self::Later(..) | Self::Connection | Self::Timeout)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(status) | Self::Later(status, _) => write!(f, "the collector answers {status}"),
            Self::Connection => f.write_str("the collector cannot be reached"),
            Self::Timeout => f.write_str("the collector does not answer in time"),
            Self::Answer => f.write_str("the answer is none of OTLP"),
        }
    }
}

/// Talks to one collector. Clones share its connections.
#[derive(Debug, Clone)]
pub(crate) struct OtlpClient {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    settings: Arc<TelemetrySettings>,
}

impl OtlpClient {
    /// Trusts the system's authorities and those that the settings name.
    pub(crate) fn new(settings: &Arc<TelemetrySettings>) -> Result<Self, String> {
        let tls = client_config(&settings.extra_roots_pem)?;
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(settings.timeout));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(CONNECTIONS)
            .build(connector);
        Ok(Self { client, settings: Arc::clone(settings) })
    }

    /// Exports `message`; gives the answer.
    pub(crate) async fn export<A: Message + Default>(
        &self,
        url: &Uri,
        message: &impl Message,
    ) -> Result<A, Failure> {
        let body = Bytes::from(message.encode_to_vec());
        let sent = timeout(self.settings.timeout, self.post(url, body));
        let answer = sent.await.unwrap_or(Err(Failure::Timeout))?;
        A::decode(answer).map_err(|_| Failure::Answer)
    }

    async fn post(&self, url: &Uri, body: Bytes) -> Result<Bytes, Failure> {
        let mut request = Request::new(Full::new(body));
        (*request.method_mut(), *request.uri_mut()) = (Method::POST, url.clone());
        let headers = request.headers_mut();
        headers.extend(self.settings.headers.iter().cloned());
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        headers.insert(
            header::USER_AGENT,
            HeaderValue::from_static(concat!("millstream/", env!("CARGO_PKG_VERSION"))),
        );
        let response = self.client.request(request).await.map_err(|_| Failure::Connection)?;
        let status = response.status();
        if !status.is_success() {
            let retry_after = response.headers().get(header::RETRY_AFTER);
            let seconds = retry_after.and_then(|value| value.to_str().ok()?.trim().parse().ok());
            return Err(match status {
                StatusCode::TOO_MANY_REQUESTS
                | StatusCode::BAD_GATEWAY
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT => Failure::Later(status, seconds.map(Duration::from_secs)),
                _ => Failure::Refused(status),
            });
        }
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| match error.is::<LengthLimitError>() {
            true => Failure::Answer,
            false => Failure::Connection,
        })?;
        Ok(body.to_bytes())
    }
}
