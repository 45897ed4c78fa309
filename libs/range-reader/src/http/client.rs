//! GET requests: over an idle connection or a new one, redirects followed and judged.
//!
//! What is asked for, and what a response means, is the caller's; this is also what fetches live
//! streams over HTTP, which have no ranges.

use std::fmt;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use http::StatusCode;
use http::header::{HeaderMap, HeaderValue, RANGE};
use hyper::body::Incoming;
use url::Url;

use super::connection::{Connection, Open, RequestError};
use super::pool::{Origin, Pool};
use super::request::{Form, check_fields, head_bytes, request};
pub use super::response_body::ResponseBody;
use super::{HttpConfig, redirect, tls};
use crate::error::{Permanent, SourceError};

/// Sends GET requests. Clones share connections.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

/// What clones of a client share.
pub(crate) struct Inner {
    pub(crate) config: HttpConfig,
    pub(crate) pool: Pool,
    pub(crate) tls: OnceLock<tls::Connector>,
    pub(crate) requests: AtomicU64,
    pub(crate) connections: AtomicU64,
    pub(crate) open: Arc<Open>,
    pub(crate) bytes_received: AtomicU64,
    pub(crate) newest: Mutex<Newest>,
}

/// What a client has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientCounts {
    /// Requests that a server has seen, redirected ones included. On Linux, a request on a connection
    /// that the server had just closed is not counted, unless it is cancelled before that shows.
    /// Elsewhere it is counted. Over HTTP/2, whose requests share a connection, it may be one more or
    /// less.
    pub requests: u64,
    /// Connections opened.
    pub connections: u64,
    /// Connections open now.
    pub connections_open: u64,
    /// Bytes of bodies handed on.
    pub bytes_received: u64,
}

/// What is known of the newest connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Newest {
    pub(crate) time_to_connect: Option<Duration>,
    pub(crate) round_trip: Option<Duration>,
    /// Streams at a time, of HTTP/2.
    pub(crate) streams_max: Option<usize>,
}

/// A response whose head has arrived.
#[derive(Debug)]
pub struct HttpResponse {
    /// Where it comes from, redirects followed; without credentials.
    pub url: Url,
    /// Its status. Redirects have been followed; anything else is handed on, errors too.
    pub status: StatusCode,
    /// Its header fields.
    pub headers: HeaderMap,
    /// The other end of the connection: the server, or a proxy.
    pub peer: Option<SocketAddr>,
    /// Its body.
    pub body: ResponseBody,
}

impl Client {
    /// A client that has not connected to anything yet.
    ///
    /// # Errors
    /// [`Permanent::Setup`] if a header field is one that the client sets itself.
    pub fn new(config: HttpConfig) -> Result<Self, SourceError> {
        check_fields(&config.headers)?;
        let open = Arc::<Open>::default();
        Ok(Self {
            inner: Arc::new(Inner {
                pool: Pool::new(config.connections_max, Arc::clone(&open)),
                config,
                tls: OnceLock::new(),
                requests: AtomicU64::new(0),
                connections: AtomicU64::new(0),
                open,
                bytes_received: AtomicU64::new(0),
                newest: Mutex::default(),
            }),
        })
    }

    /// Asks for `url` with `headers` besides those of the configuration, and waits for the head of
    /// the response.
    ///
    /// Credentials in the URL become `authorization`. No header field leaves for another origin
    /// than that of `url`, except `user-agent`, `accept` and `accept-language`.
    ///
    /// # Errors
    /// When nothing could be asked, no head came, or a redirect is not allowed. A status of 4xx or
    /// 5xx is no error here.
    pub async fn get(&self, url: &Url, headers: &HeaderMap) -> Result<HttpResponse, SourceError> {
        check_fields(headers)?;
        let mut fields = self.inner.config.headers.clone();
        for (name, value) in headers {
            fields.insert(name, value.clone());
        }
        self.follow(url, None, &fields, &HeaderMap::new()).await
    }

    /// Asks for the bytes `range` of `url`, which are some; otherwise as [`Self::get`].
    ///
    /// A server that knows no ranges answers with all of it and 200; what came is the caller's to check.
    pub async fn get_range(&self, url: &Url, range: Range<u64>) -> Result<HttpResponse, SourceError> {
        let value = format!("bytes={}-{}", range.start, range.end.saturating_sub(1));
        let value = HeaderValue::try_from(value).expect("numbers are allowed in header fields");
        self.fetch(url, None, &HeaderMap::from_iter([(RANGE, value)])).await
    }

    /// As [`Self::get`], starting at `found` if that is where redirects have led before. `always`
    /// goes to every origin.
    pub(crate) async fn fetch(
        &self,
        url: &Url,
        found: Option<&Url>,
        always: &HeaderMap,
    ) -> Result<HttpResponse, SourceError> {
        self.follow(url, found, &self.inner.config.headers, always).await
    }

    async fn follow(
        &self,
        url: &Url,
        found: Option<&Url>,
        fields: &HeaderMap,
        always: &HeaderMap,
    ) -> Result<HttpResponse, SourceError> {
        let (first, mut fields) = redirect::split_credentials(&redirect::checked(url)?, fields);
        let mut target = found.unwrap_or(&first).clone();
        for _ in 0..=self.inner.config.redirects_max {
            if target.origin() != first.origin() {
                // Permanently: after a redirect to another origin, credentials are not sent again
                // even if a later one returns.
                fields = redirect::harmless(&fields);
            }
            let (bare, fields) = redirect::split_credentials(&target, &fields);
            let mut answer = self.inner.ask(&bare, &fields, always).await?;
            match redirect::target(&bare, answer.status, &answer.headers, self.inner.config.allow_downgrade)?
            {
                None => return Ok(answer),
                Some(next) => {
                    answer.body.drain(&answer.headers).await;
                    target = next;
                }
            }
        }
        Err(SourceError::Permanent(Permanent::Limit("redirects in a row")))
    }

    /// The configuration.
    pub(crate) fn config(&self) -> &HttpConfig {
        &self.inner.config
    }

    /// What has been done so far.
    pub fn counts(&self) -> ClientCounts {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ClientCounts {
            requests: load(&self.inner.requests),
            connections: load(&self.inner.connections),
            connections_open: self.inner.open.count(),
            bytes_received: load(&self.inner.bytes_received),
        }
    }

    /// The newest connection.
    pub(crate) fn newest(&self) -> Newest {
        self.inner.newest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Inner {
    /// One request and its response, without redirects.
    async fn ask(
        self: &Arc<Self>,
        url: &Url,
        fields: &HeaderMap,
        always: &HeaderMap,
    ) -> Result<HttpResponse, SourceError> {
        let origin = Origin::of(url)?;
        loop {
            let (mut connection, is_reused) = self.connection(&origin).await?;
            let request = request(url, fields, always, self.form(&origin, &connection))?;
            let read_before = connection.link().read_bytes();
            let sending = connection.send(request, &self.requests);
            let sent = tokio::time::timeout(self.config.head_timeout, sending).await;
            match sent {
                Ok(Ok(response)) => return Ok(self.answer(url, origin, connection, response, read_before)),
                // The server closed an idle connection just then: no response has begun, and GET
                // may be repeated (RFC 9110, 9.2.2).
                Ok(Err(RequestError::Http(error)))
                    if is_reused && !error.is_parse() && !error.is_timeout() =>
                {
                    self.pool.forget(&connection)
                }
                Ok(Err(RequestError::Http(error))) => return Err(explain(url, &error)),
                Ok(Err(RequestError::Flood)) => {
                    self.pool.forget(&connection);
                    return Err(match connection {
                        Connection::Single(_) => SourceError::Permanent(Permanent::Lying(
                            "informational ones (1xx) without end come before it",
                        )),
                        // Among many streams it cannot be reported for certain what those bytes
                        // are.
                        Connection::Shared(_) => SourceError::transient(format!(
                            "{}: no answer among all that comes",
                            redirect::authority(url)
                        )),
                    });
                }
                Err(_) => {
                    self.pool.forget(&connection);
                    return Err(SourceError::transient(format!(
                        "{}: no answer in time",
                        redirect::authority(url)
                    )));
                }
            }
        }
    }

    fn form(&self, origin: &Origin, connection: &Connection) -> Form {
        match self.proxy_to(origin) {
            _ if connection.is_shared() => Form::Http2,
            Some(proxy) if !origin.is_tls => Form::ToProxy(redirect::basic(proxy)),
            _ => Form::Http1,
        }
    }

    fn answer(
        self: &Arc<Self>,
        url: &Url,
        origin: Origin,
        connection: Connection,
        response: http::Response<Incoming>,
        read_before: u64,
    ) -> HttpResponse {
        self.note(&connection, None);
        if let Connection::Shared(shared) = &connection {
            self.pool.share(&origin, shared);
        }
        let (head, incoming) = response.into_parts();
        let link = connection.link();
        link.begin_body((!connection.is_shared()).then_some(read_before), head_bytes(&head.headers));
        let peer = link.peer();
        let body = ResponseBody::new(incoming, connection, Arc::clone(self), origin);
        HttpResponse { url: url.clone(), status: head.status, headers: head.headers, peer, body }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("pool", &self.inner.pool).finish_non_exhaustive()
    }
}

/// Messages name host and port only: path and query may hold secrets.
fn explain(url: &Url, error: &hyper::Error) -> SourceError {
    let text = format!("{}: {}", redirect::authority(url), text_of(error));
    if error.is_parse() {
        SourceError::Permanent(Permanent::Setup(text))
    } else {
        SourceError::transient(text)
    }
}

/// An error with its causes.
pub(crate) fn text_of(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
