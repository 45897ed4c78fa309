//! HTTPS to the authority: each request has a deadline, each answer a limit of its size, and no
//! redirect is followed.
//!
//! `instant-acme` takes what an authority says at its word: a directory with something that is no
//! URL, or a time to wait that no clock can count, would end the server. Both are looked at here
//! first.

use std::error::Error as StdError;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use http::header::{RETRY_AFTER, USER_AGENT};
use http::uri::Scheme;
use http::{HeaderValue, Method, Request, Response, Uri};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use worker_api::time::since_1970;
use worker_api::trust::client_config;

use crate::schedule::RETRY_AFTER_MAX;

/// Time for one request with its answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest answer: a chain of ten certificates with long keys is 40 kB.
const ANSWER_BYTES_MAX: usize = 256 << 10;
/// Unused connections are kept for this long.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClientError {
    /// No connection, or none that is trusted: why.
    Connection(String),
    /// Not in time.
    Timeout,
    /// The answer is larger than any should be.
    TooLong,
    /// The answer is a redirect.
    Redirect,
    /// A URL that the authority gave is none with `https`.
    Url(String),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection(reason) => write!(f, "the authority cannot be reached: {reason}"),
            Self::Timeout => write!(f, "the authority did not answer within {} s", REQUEST_TIMEOUT.as_secs()),
            Self::TooLong => write!(f, "the authority's answer is longer than {ANSWER_BYTES_MAX} bytes"),
            Self::Redirect => write!(f, "the authority redirects, which is not followed"),
            Self::Url(url) => write!(f, "the authority names `{url}`, which is no URL with https"),
        }
    }
}

impl StdError for ClientError {}

/// Talks to one authority.
#[derive(Clone)]
pub(crate) struct AcmeClient(Arc<Inner>);

struct Inner {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    /// What the last refusal said about when to ask again.
    retry_after: Mutex<Option<Duration>>,
}

impl AcmeClient {
    /// Trusts the system's authorities and those in `extra_roots_pem`.
    pub(crate) fn new(extra_roots_pem: &[u8]) -> Result<Self, String> {
        let tls = client_config(extra_roots_pem)?;
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(tls).https_only().enable_http1().wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .build(connector);
        Ok(Self(Arc::new(Inner { client, retry_after: Mutex::default() })))
    }

    /// What the last refusal said about when to ask again; asked once.
    pub(crate) fn take_retry_after(&self) -> Option<Duration> {
        self.0.retry_after.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Inner {
    async fn send(&self, request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, ClientError> {
        let (mut head, body) = request.into_parts();
        check_url(&head.uri.to_string())?;
        head.headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        let body = match body.collect().await {
            Ok(body) => body.to_bytes(),
            Err(never) => match never {},
        };
        // The directory, and what says when to renew.
        let is_directory = head.method == Method::GET;
        let asked = async {
            let response = self.client.request(Request::from_parts(head, Full::new(body))).await;
            let (head, body) = response.map_err(|error| connection(&error))?.into_parts();
            let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|error| match error.is::<LengthLimitError>() {
                true => ClientError::TooLong,
                false => connection(&*error),
            })?;
            Ok((head, body.to_bytes()))
        };
        let answer = tokio::time::timeout(REQUEST_TIMEOUT, asked).await;
        let (mut head, body) = answer.map_err(|_| ClientError::Timeout)??;
        if head.status.is_redirection() {
            return Err(ClientError::Redirect);
        }
        let wait = head.headers.get(RETRY_AFTER).and_then(seconds);
        if let Some(wait) = wait {
            head.headers.insert(RETRY_AFTER, wait.as_secs().into());
            if head.status.is_client_error() || head.status.is_server_error() {
                *self.retry_after.lock().unwrap_or_else(PoisonError::into_inner) = Some(wait);
            }
        } else {
            head.headers.remove(RETRY_AFTER);
        }
        if is_directory {
            check_directory(&body)?;
        }
        Ok(BytesResponse::from(Response::from_parts(head, Full::new(body))))
    }
}

impl HttpClient for AcmeClient {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { inner.send(request).await.map_err(|error| Error::Other(Box::new(error))) })
    }
}

/// With what it is about at its end: the first sentence of an error is the least telling.
fn connection(error: &(dyn StdError + 'static)) -> ClientError {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    ClientError::Connection(last.to_string())
}

/// The time to wait (RFC 9110 section 10.2.3), within bounds.
fn seconds(value: &HeaderValue) -> Option<Duration> {
    let text = value.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than a number has are more than the longest.
        return Some(text.parse().map_or(RETRY_AFTER_MAX, Duration::from_secs).min(RETRY_AFTER_MAX));
    }
    let until = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(until.saturating_sub(since_1970()).min(RETRY_AFTER_MAX))
}

fn check_url(text: &str) -> Result<(), ClientError> {
    let url = text.parse::<Uri>().ok();
    let is_good = url.is_some_and(|url| url.scheme() == Some(&Scheme::HTTPS) && url.authority().is_some());
    if is_good { Ok(()) } else { Err(ClientError::Url(text.chars().take(200).collect())) }
}

/// All of its addresses must be some. What is no directory at all is refused where it is read.
fn check_directory(body: &[u8]) -> Result<(), ClientError> {
    let Ok(serde_json::Value::Object(directory)) = serde_json::from_slice(body) else { return Ok(()) };
    // Beside `meta`, and anything that is there to be ignored (Boulder has such a member), all are
    // URLs.
    let names = ["newNonce", "newAccount", "newOrder", "renewalInfo"];
    names.iter().filter_map(|name| directory.get(*name)?.as_str()).try_for_each(check_url)
}

const AGENT: &str = concat!("millstream/", env!("CARGO_PKG_VERSION"));

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::test_server;

    /// An authority that answers everything with `answer`, and a client of it. `{base}` is its
    /// address.
    async fn authority(answer: String) -> (String, AcmeClient) {
        let (base, pem) = test_server::start(move |_, base| answer.replace("{base}", base)).await;
        (format!("{base}/dir"), AcmeClient::new(pem.as_bytes()).expect("a client"))
    }

    async fn ask(url: &str, client: &AcmeClient) -> Result<BytesResponse, ClientError> {
        let request = Request::builder().uri(url).body(BodyWrapper::default()).expect("a request");
        client.0.send(request).await
    }

    #[tokio::test]
    async fn answers_that_no_authority_should_give_are_refused() {
        let cases = [
            ("HTTP/1.1 302 Found\r\nlocation: {base}/other\r\ncontent-length: 0\r\n\r\n", "redirects"),
            ("HTTP/1.1 200 OK\r\n\r\nendless", "longer than"),
            ("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", "cannot be reached"),
            ("SSH-2.0-server\r\n", "cannot be reached"),
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 19\r\n\r\n{\"newNonce\": \"% %\"}",
                "`% %`, which is no URL",
            ),
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 25\r\n\r\n{\"newOrder\": \"http://a/\"}",
                "no URL with https",
            ),
        ];
        for (answer, expected) in cases {
            let (directory, client) = authority(answer.to_owned()).await;
            let error = ask(&directory, &client).await.err().expect(answer).to_string();
            assert!(error.contains(expected), "{answer}: {error}");
        }
    }

    #[tokio::test]
    async fn only_https_to_a_trusted_server_is_spoken() {
        let (directory, client) =
            authority("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}".to_owned()).await;
        assert!(ask(&directory, &client).await.is_ok());
        let plain = directory.replace("https", "http");
        assert!(matches!(ask(&plain, &client).await, Err(ClientError::Url(_))));
        let stranger = AcmeClient::new(b"").expect("a client");
        assert!(matches!(ask(&directory, &stranger).await, Err(ClientError::Connection(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn an_authority_that_does_not_answer_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let directory = format!("https://localhost:{}/", listener.local_addr().expect("bound").port());
        let client = AcmeClient::new(b"").expect("a client");
        assert_eq!(ask(&directory, &client).await.err(), Some(ClientError::Timeout));
    }

    #[tokio::test]
    async fn a_refusal_says_when_to_ask_again_and_no_time_is_beyond_a_clock() {
        for (value, expected) in [
            ("90", Some(Duration::from_secs(90))),
            ("18446744073709551615", Some(RETRY_AFTER_MAX)),
            ("99999999999999999999999", Some(RETRY_AFTER_MAX)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(RETRY_AFTER_MAX)),
            ("Fri, 31 Dec 1999 23:59:59 GMT", Some(Duration::ZERO)),
            ("soon", None),
            ("-5", None),
        ] {
            let answer = format!("HTTP/1.1 429 No\r\nretry-after: {value}\r\ncontent-length: 2\r\n\r\n{{}}");
            let (directory, client) = authority(answer).await;
            let response = ask(&directory, &client).await.expect("an answer");
            assert_eq!(client.take_retry_after(), expected, "{value}");
            let given =
                response.parts.headers.get(RETRY_AFTER).map(|value| value.to_str().expect("text").to_owned());
            assert_eq!(given, expected.map(|time| time.as_secs().to_string()), "{value}");
            assert_eq!(client.take_retry_after(), None, "said once");
        }
    }
}
