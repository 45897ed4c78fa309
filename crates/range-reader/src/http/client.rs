//! GET requests: over an idle connection or a new one, redirects followed and judged.
//!
//! What is asked for, and what an answer means, is the caller's; this is also what fetches live streams over HTTP, which
//! have no ranges.

use std::fmt;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Request, StatusCode};
use http_body_util::Empty;
use hyper::body::{Body as _, Incoming};
use tokio::time::Instant;
use url::{Position, Url};

use super::HttpConfig;
use super::address::AddressPolicy;
use super::connection::{Ask, Connection, OpenCount, Single};
use super::link::{Link, Transport};
use super::patience::Patience;
use super::pool::{Origin, Pool};
use super::shared::Shared;
use super::{connect, proxy, redirect, tls};
use crate::error::{Permanent, SourceError};

/// Longest body of a redirect or an error that is read so that its connection can be used again, in bytes.
const SHORT_BODY_BYTES_MAX: u64 = 16 << 10;
const USER_AGENT: &str = concat!("range-reader/", env!("CARGO_PKG_VERSION"));

/// Sends GET requests. Clones share connections.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    config: HttpConfig,
    pool: Pool,
    tls: OnceLock<tls::Connector>,
    requests: AtomicU64,
    connections: AtomicU64,
    open: Arc<AtomicU64>,
    bytes_received: AtomicU64,
    newest: Mutex<Newest>,
}

/// What a client has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientCounts {
    /// Requests sent, those that redirects led to among them.
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

/// An answer whose head has come.
#[derive(Debug)]
pub struct Answer {
    /// Where it comes from, redirects followed; without credentials.
    pub url: Url,
    /// Its status. Redirects have been followed; anything else is handed on, errors too.
    pub status: StatusCode,
    /// Its header fields.
    pub headers: HeaderMap,
    /// The other end of the connection: the server, or a proxy.
    pub peer: Option<SocketAddr>,
    /// Its body.
    pub body: AnswerBody,
}

/// The body of an answer. Dropping it before its end closes the connection (HTTP/1.1) or resets the stream (HTTP/2).
pub struct AnswerBody {
    /// `None` after an error.
    incoming: Option<Incoming>,
    /// `None` when the body has ended.
    connection: Option<Connection>,
    client: Arc<Inner>,
    origin: Origin,
    patience: Patience,
}

impl Client {
    /// A client that has not connected to anything yet.
    ///
    /// # Errors
    /// [`Permanent::Setup`] if a header field is one that the client sets itself.
    pub fn new(config: HttpConfig) -> Result<Self, SourceError> {
        check_fields(&config.headers)?;
        Ok(Self {
            inner: Arc::new(Inner {
                pool: Pool::new(config.connections_max),
                config,
                tls: OnceLock::new(),
                requests: AtomicU64::new(0),
                connections: AtomicU64::new(0),
                open: Arc::default(),
                bytes_received: AtomicU64::new(0),
                newest: Mutex::default(),
            }),
        })
    }

    /// Asks for `url` with `headers` besides those of the configuration, and waits for the head of the answer.
    ///
    /// Credentials in the URL become `authorization`. No header field leaves for another origin than that of `url`,
    /// except `user-agent`, `accept` and `accept-language`.
    ///
    /// # Errors
    /// When nothing could be asked, no head came, or a redirect is not allowed. A status of 4xx or 5xx is no error here.
    pub async fn get(&self, url: &Url, headers: &HeaderMap) -> Result<Answer, SourceError> {
        check_fields(headers)?;
        let mut fields = self.inner.config.headers.clone();
        for (name, value) in headers {
            fields.insert(name, value.clone());
        }
        self.follow(url, None, &fields, &HeaderMap::new()).await
    }

    /// As [`Self::get`], starting at `found` if that is where redirects have led before. `always` goes to every origin.
    pub(crate) async fn fetch(
        &self,
        url: &Url,
        found: Option<&Url>,
        always: &HeaderMap,
    ) -> Result<Answer, SourceError> {
        self.follow(url, found, &self.inner.config.headers, always).await
    }

    async fn follow(
        &self,
        url: &Url,
        found: Option<&Url>,
        fields: &HeaderMap,
        always: &HeaderMap,
    ) -> Result<Answer, SourceError> {
        let (first, mut fields) = redirect::split_credentials(&redirect::checked(url)?, fields);
        let mut target = found.unwrap_or(&first).clone();
        for _ in 0..=self.inner.config.redirects_max {
            if target.origin() != first.origin() {
                // For good: what comes back from elsewhere is not trusted with them again.
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
            connections_open: load(&self.inner.open),
            bytes_received: load(&self.inner.bytes_received),
        }
    }

    /// The newest connection.
    pub(crate) fn newest(&self) -> Newest {
        self.inner.newest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Inner {
    /// One request and its answer, without redirects.
    async fn ask(
        self: &Arc<Self>,
        url: &Url,
        fields: &HeaderMap,
        always: &HeaderMap,
    ) -> Result<Answer, SourceError> {
        let origin = Origin::of(url)?;
        loop {
            let (mut connection, is_reused) = match self.pool.take(&origin) {
                Some(connection) => (connection, true),
                None => (self.connect(&origin).await?, false),
            };
            let form = match self.proxy_to(&origin) {
                _ if connection.is_shared() => Form::Http2,
                Some(proxy) if !origin.is_tls => Form::ToProxy(redirect::basic(proxy)),
                _ => Form::Http1,
            };
            let request = request(url, fields, always, form)?;
            self.requests.fetch_add(1, Ordering::Relaxed);
            let read_before = connection.link().read_bytes();
            let sent = tokio::time::timeout(self.config.head_timeout, connection.send(request)).await;
            match sent {
                Ok(Ok(response)) => return Ok(self.answer(url, origin, connection, response, read_before)),
                // The server closed an idle connection just then: no answer has begun, and GET may be repeated
                // (RFC 9110, 9.2.2).
                Ok(Err(error)) if is_reused && !error.is_parse() && !error.is_timeout() => {
                    self.pool.forget(&connection)
                }
                Ok(Err(error)) => return Err(explain(url, &error)),
                Err(_) => {
                    self.pool.forget(&connection);
                    return Err(SourceError::transient(format!("{}: no answer in time", place(url))));
                }
            }
        }
    }

    fn answer(
        self: &Arc<Self>,
        url: &Url,
        origin: Origin,
        connection: Connection,
        response: http::Response<Incoming>,
        read_before: u64,
    ) -> Answer {
        self.note(&connection, None);
        if let Connection::Shared(shared) = &connection {
            self.pool.share(&origin, shared);
        }
        let (head, incoming) = response.into_parts();
        connection
            .link()
            .begin_body((!connection.is_shared()).then_some(read_before), head_bytes(&head.headers));
        let patience = Patience::new(self.config.idle_timeout, self.config.bytes_per_second_min);
        let client = Arc::clone(self);
        let peer = connection.link().peer();
        let body =
            AnswerBody { incoming: Some(incoming), connection: Some(connection), client, origin, patience };
        Answer { url: url.clone(), status: head.status, headers: head.headers, peer, body }
    }

    async fn connect(&self, origin: &Origin) -> Result<Connection, SourceError> {
        // What is open is in use or idle; idle ones make room.
        while self.open.load(Ordering::Relaxed) >= self.config.connections_max as u64 {
            if !self.pool.drop_oldest() {
                return Err(SourceError::Permanent(Permanent::Limit("connections at a time")));
            }
        }
        let started = Instant::now();
        let opening = tokio::time::timeout(self.config.connect_timeout, self.open(origin));
        let connection = opening.await.unwrap_or_else(|_| {
            Err(SourceError::transient(format!("{}:{}: no connection in time", origin.host, origin.port)))
        })?;
        self.connections.fetch_add(1, Ordering::Relaxed);
        self.note(&connection, Some(started.elapsed()));
        Ok(connection)
    }

    /// TCP, a proxy, TLS, and HTTP on top.
    async fn open(&self, origin: &Origin) -> Result<Connection, SourceError> {
        // Counted from the start: several may be opening.
        let open = OpenCount::new(&self.open);
        let (mut transport, link) = self.transport(origin).await?;
        let mut is_http2 = self.config.http2_prior_knowledge && self.proxy_to(origin).is_none();
        if origin.is_tls {
            let stream = self.tls()?.connect(&origin.host, transport).await?;
            is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            transport = Box::new(stream);
        }
        let io = link.metered(transport);
        let connection = if is_http2 {
            Shared::new(io, link, open).await.map(|shared| Connection::Shared(Arc::new(shared)))
        } else {
            Single::new(io, link, open).await.map(|single| Connection::Single(Box::new(single)))
        };
        connection.map_err(|error| SourceError::transient(format!("{}: {error}", origin.host)))
    }

    /// The bytes to `origin`, or for `http` to the proxy.
    async fn transport(&self, origin: &Origin) -> Result<(Box<dyn Transport>, Link), SourceError> {
        let config = &self.config;
        let Some(proxy) = self.proxy_to(origin) else {
            let stream =
                connect::tcp(&origin.host, origin.port, config.addresses, config.connect_timeout).await?;
            let (socket, link) = Link::new(stream);
            return Ok((Box::new(socket), link));
        };
        proxy::check_host(&origin.host, config.addresses)?;
        let to_proxy = Origin::of(proxy)?;
        let stream =
            connect::tcp(&to_proxy.host, to_proxy.port, AddressPolicy::Any, config.connect_timeout).await?;
        let (socket, link) = Link::new(stream);
        let mut transport: Box<dyn Transport> = Box::new(socket);
        if to_proxy.is_tls {
            let connector = tls::Connector::new(&config.extra_roots_pem, &[b"http/1.1"])?;
            transport = Box::new(connector.connect(&to_proxy.host, transport).await?);
        }
        if origin.is_tls {
            proxy::tunnel(&mut transport, redirect::basic(proxy).as_ref(), origin).await?;
        }
        Ok((transport, link))
    }

    fn proxy_to(&self, origin: &Origin) -> Option<&Url> {
        self.config.proxy.as_ref()?.on_the_way_to(origin)
    }

    fn tls(&self) -> Result<&tls::Connector, SourceError> {
        if let Some(connector) = self.tls.get() {
            return Ok(connector);
        }
        let protocols: &[&[u8]] = if self.config.http2 { &[b"h2", b"http/1.1"] } else { &[b"http/1.1"] };
        let connector = tls::Connector::new(&self.config.extra_roots_pem, protocols)?;
        Ok(self.tls.get_or_init(|| connector))
    }

    fn note(&self, connection: &Connection, time_to_connect: Option<Duration>) {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest.time_to_connect = time_to_connect.or(newest.time_to_connect);
        newest.round_trip = connection.link().round_trip().or(newest.round_trip);
        newest.streams_max = match connection {
            Connection::Shared(shared) => Some(shared.streams_max()),
            Connection::Single(_) => None,
        };
    }
}

impl AnswerBody {
    /// The next bytes, never none at all; `None` at the end. After an error nothing more comes.
    pub fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, SourceError>>> {
        let mut has_driven = false;
        loop {
            let Some(incoming) = &mut self.incoming else { return Poll::Ready(None) };
            match Pin::new(incoming).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => return Poll::Ready(Some(self.received(data))),
                    // Trailers, or nothing.
                    _ => {}
                },
                Poll::Ready(Some(Err(error))) => {
                    self.give_up();
                    return Poll::Ready(Some(Err(SourceError::transient(text_of(&error)))));
                }
                Poll::Ready(None) => {
                    self.give_back(context);
                    return Poll::Ready(None);
                }
                Poll::Pending if has_driven => break,
                Poll::Pending => {
                    let Some(connection) = &mut self.connection else { return Poll::Ready(None) };
                    connection.poll_drive(context);
                    has_driven = true;
                }
            }
        }
        self.patience.poll_wait(context).map(|error| {
            self.give_up();
            Some(Err(error))
        })
    }

    /// As [`Self::poll_data`].
    pub async fn data(&mut self) -> Option<Result<Bytes, SourceError>> {
        std::future::poll_fn(|context| self.poll_data(context)).await
    }

    /// Bytes that are here and have not been taken, in this process and in the kernel's buffer.
    ///
    /// With HTTP/2, of all answers on the connection.
    pub fn bytes_buffered(&self) -> u64 {
        self.connection.as_ref().map_or(0, |connection| connection.link().buffered_bytes())
    }

    fn received(&mut self, data: Bytes) -> Result<Bytes, SourceError> {
        self.client.bytes_received.fetch_add(data.len() as u64, Ordering::Relaxed);
        if let Some(connection) = &self.connection {
            connection.link().took(data.len() as u64);
        }
        if let Err(error) = self.patience.received(data.len()) {
            self.give_up();
            return Err(error);
        }
        Ok(data)
    }

    /// The answer is complete: the connection can take another request.
    fn give_back(&mut self, context: &mut Context<'_>) {
        let Some(mut connection) = self.connection.take() else { return };
        self.client.note(&connection, None);
        // The answer's end may be the connection's, too.
        let has_ended = connection.poll_drive(context);
        if let (Connection::Single(single), false) = (connection, has_ended) {
            self.client.pool.put(&self.origin, single);
        }
    }

    /// The connection is of no use any more; answers that share it may go on.
    fn give_up(&mut self) {
        self.incoming = None;
        if let Some(connection) = self.connection.take() {
            self.client.pool.forget(&connection);
        }
    }

    /// Reads what is left if it is short, so that the connection can be used again.
    pub(crate) async fn drain(&mut self, headers: &HeaderMap) {
        let length =
            headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        if length.is_none_or(|length| length > SHORT_BODY_BYTES_MAX) {
            return;
        }
        // A body that does not come in time or breaks costs its connection, which is dropped with it.
        let timeout = self.client.config.head_timeout;
        let _ = tokio::time::timeout(timeout, async { while let Some(Ok(_)) = self.data().await {} }).await;
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        // Nobody may poll the HTTP/2 connection again for a long time: the reset has to leave now.
        self.incoming = None;
        if let Some(Connection::Shared(shared)) = &self.connection
            && tokio::runtime::Handle::try_current().is_ok()
        {
            shared.poll_drive(&mut Context::from_waker(std::task::Waker::noop()));
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("pool", &self.inner.pool).finish_non_exhaustive()
    }
}

impl fmt::Debug for AnswerBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerBody").field("connection", &self.connection).finish_non_exhaustive()
    }
}

/// Fields that the client sets itself: another value would break the answer's meaning or the connection.
fn check_fields(fields: &HeaderMap) -> Result<(), SourceError> {
    const OWN: [header::HeaderName; 8] = [
        header::HOST,
        header::RANGE,
        header::IF_RANGE,
        header::ACCEPT_ENCODING,
        header::CONNECTION,
        header::CONTENT_LENGTH,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
    ];
    match OWN.iter().find(|name| fields.contains_key(*name)) {
        Some(name) => {
            Err(SourceError::Permanent(Permanent::Setup(format!("the header field {name} cannot be set"))))
        }
        None => Ok(()),
    }
}

/// How a request is written.
enum Form {
    Http1,
    /// To a proxy, with credentials for it.
    ToProxy(Option<HeaderValue>),
    Http2,
}

fn request(url: &Url, fields: &HeaderMap, always: &HeaderMap, form: Form) -> Result<Ask, SourceError> {
    let cannot = || SourceError::Permanent(Permanent::Setup(format!("{} cannot be asked for", place(url))));
    let target = match form {
        Form::Http1 => &url[Position::BeforePath..Position::AfterQuery],
        Form::ToProxy(_) | Form::Http2 => url.as_str(),
    };
    let mut request = Request::get(target).body(Empty::new()).map_err(|_| cannot())?;
    let headers = request.headers_mut();
    headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
    headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
    for (name, value) in fields.iter().chain(always) {
        headers.insert(name, value.clone());
    }
    // What is encoded has no ranges of the file.
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    if !matches!(form, Form::Http2) {
        headers.insert(header::HOST, HeaderValue::from_str(&redirect::authority(url)).map_err(|_| cannot())?);
    }
    if let Form::ToProxy(Some(credentials)) = form {
        headers.insert(header::PROXY_AUTHORIZATION, credentials);
    }
    Ok(request)
}

/// Host and port, for messages: path and query may hold secrets.
pub(crate) fn place(url: &Url) -> String {
    redirect::authority(url)
}

/// About how long a head with these fields is: fields as they stand, and a status line.
fn head_bytes(headers: &HeaderMap) -> u64 {
    let fields: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    fields as u64 + 22
}

fn explain(url: &Url, error: &hyper::Error) -> SourceError {
    let text = format!("{}: {}", place(url), text_of(error));
    if error.is_parse() {
        SourceError::Permanent(Permanent::Setup(text))
    } else {
        SourceError::transient(text)
    }
}

/// An error with its causes.
fn text_of(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
