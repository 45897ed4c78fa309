//! One POST: signed, over a connection that is kept, its answer limited in size, redirects not followed.
//!
//! How long it may take is the caller's. Where it goes was written by whoever configures the server, so that
//! any address may be reached, unlike by sources that the API can name.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderName, HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use sha2::Sha256;
use worker_api::hooks::HookEvent;
use worker_api::time::since_1970;
use worker_api::trust::client_config;

use crate::resolver::Resolver;
use crate::settings::HookSettings;
use crate::status::CallResult;

/// Largest answer that is read.
pub(crate) const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Time to connect, at most; the time of the question may be less.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Unused connections are kept for this long: less than servers keep them, of which Node.js closes them after
/// 5 s.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);
/// Seconds since 1970 at which the request was signed.
const TIME: HeaderName = HeaderName::from_static("millstream-time");
/// `sha256=`, and HMAC-SHA256 of time, a dot and the body, in hexadecimal.
const SIGNATURE: HeaderName = HeaderName::from_static("millstream-signature");
/// The event.
const EVENT: HeaderName = HeaderName::from_static("millstream-event");

/// Sends events. The tests have one without a network.
pub(crate) trait Post: Send + Sync + 'static {
    /// Sends `body` to where `event` goes; gives the status and the body of the answer.
    fn post(
        &self,
        event: HookEvent,
        body: Bytes,
    ) -> impl Future<Output = Result<(StatusCode, Bytes), CallResult>> + Send;
}

/// Sends events by HTTP.
pub(crate) struct HttpPost {
    client: Client<HttpsConnector<HttpConnector<Resolver>>, Full<Bytes>>,
    settings: Arc<HookSettings>,
}

impl HttpPost {
    /// Trusts the system's authorities and those that the settings name.
    pub(crate) fn new(settings: Arc<HookSettings>) -> Result<Self, String> {
        let tls = client_config(&settings.extra_roots_pem)?;
        let mut tcp = HttpConnector::new_with_resolver(Resolver::of_system());
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(settings.concurrency)
            .build(connector);
        Ok(Self { client, settings })
    }
}

impl Post for HttpPost {
    async fn post(&self, event: HookEvent, body: Bytes) -> Result<(StatusCode, Bytes), CallResult> {
        let Some(url) = self.settings.url(event) else { return Err(CallResult::Connection) };
        let time = since_1970().as_secs().to_string();
        let signature = signature(&self.settings.secret, &time, &body);
        let field = |text: String| HeaderValue::try_from(text).map_err(|_| CallResult::Connection);
        let request = Request::builder()
            .method(Method::POST)
            .uri(url.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, concat!("millstream/", env!("CARGO_PKG_VERSION")))
            .header(EVENT, event.name())
            .header(TIME, field(time)?)
            .header(SIGNATURE, field(signature)?)
            .body(Full::new(body))
            .map_err(|_| CallResult::Connection)?;
        let response = match self.client.request(request.clone()).await {
            Ok(response) => response,
            Err(error) if error.is_connect() => return Err(CallResult::Connection),
            // Closed without an answer: most likely it was kept, and closed as the request came. The receiver
            // knows the event by its id.
            Err(_) => self.client.request(request).await.map_err(|_| CallResult::Connection)?,
        };
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| match error.is::<LengthLimitError>() {
            true => CallResult::TooLong,
            false => CallResult::Connection,
        })?;
        Ok((status, body.to_bytes()))
    }
}

/// Value of the header that proves to the receiver that a request is this server's, and recent.
pub(crate) fn signature(secret: &[u8], time: &str, body: &[u8]) -> String {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(secret).expect("HMAC takes keys of any length");
    mac.update(time.as_bytes());
    mac.update(b".");
    mac.update(body);
    let digest = mac.finalize().into_bytes();
    digest.iter().fold("sha256=".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    async fn read_request(connection: &mut TcpStream) -> String {
        let mut request = Vec::new();
        while !request.ends_with(b"{}") {
            assert_ne!(connection.read_buf(&mut request).await.expect("readable"), 0, "the whole request");
        }
        String::from_utf8(request).expect("text")
    }

    fn post_to(listener: &TcpListener) -> HttpPost {
        let url = format!("http://{}/", listener.local_addr().expect("bound"));
        let url = http::Uri::try_from(url).expect("a URL");
        let settings = HookSettings {
            urls: HookEvent::ALL.map(|_| Some(url.clone())),
            secret: b"mill".to_vec(),
            timeout: Duration::from_secs(2),
            allows_on_error: false,
            concurrency: 8,
            play_batch: Duration::ZERO,
            queue_max: 8,
            retry_for: Duration::from_secs(2),
            extra_roots_pem: Vec::new(),
        };
        HttpPost::new(Arc::new(settings)).expect("settings that work")
    }

    #[tokio::test]
    async fn a_kept_connection_that_is_closed_as_a_question_comes_refuses_nobody() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let post = post_to(&listener);
        let server = tokio::spawn(async move {
            let answer = b"HTTP/1.1 204 No Content\r\n\r\n";
            let (mut kept, _) = listener.accept().await.expect("a connection");
            read_request(&mut kept).await;
            kept.write_all(answer).await.expect("writable");
            let unanswered = read_request(&mut kept).await;
            drop(kept);
            let (mut next, _) = listener.accept().await.expect("a connection");
            let again = read_request(&mut next).await;
            next.write_all(answer).await.expect("writable");
            // What never gets an answer is not sent for ever.
            read_request(&mut next).await;
            drop(next);
            let (mut last, _) = listener.accept().await.expect("a connection");
            read_request(&mut last).await;
            drop((last, listener));
            (unanswered, again)
        });
        for expected in [Ok(StatusCode::NO_CONTENT), Ok(StatusCode::NO_CONTENT), Err(CallResult::Connection)]
        {
            let answer = post.post(HookEvent::Play, Bytes::from_static(b"{}")).await;
            assert_eq!(answer.map(|(status, _)| status), expected);
        }
        let (unanswered, again) = server.await.expect("served");
        assert_eq!(unanswered, again);
    }

    #[test]
    fn the_signature_is_hmac_sha256_of_time_and_body() {
        // python3 -c 'import hmac; print(hmac.new(b"mill", b"1800000000.{}", "sha256").hexdigest())'
        assert_eq!(signature(b"mill", "1800000000", b"{}"), EXPECTED);
    }

    const EXPECTED: &str = "sha256=24e524c5080db88fcab2ecacf255c5b0a50df5a07c20d0109b3ab954415b5ce1";
}
