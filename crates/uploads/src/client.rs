//! HTTP for the store: hyper and rustls, with a pace for what is sent and a limit on time without progress.
//!
//! `object_store` signs requests and reads answers; this carries them. A request may take as long as bytes
//! move: large parts on slow links are no failure, and a server that hangs is one soon.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::Method;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector as TcpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse,
    HttpResponseBody, HttpService,
};
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use worker_api::trust::client_config;

use crate::bandwidth::Bandwidth;

/// Time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Unused connections are kept for this long.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of an answer to anything but a read of an object. The largest are lists of errors.
const ANSWER_BYTES_MAX: u64 = 1024 * 1024;

/// Carries the requests of a store.
#[derive(Debug, Clone)]
pub(crate) struct Connector(Arc<Service>);

#[derive(Debug)]
struct Service {
    client: Client<HttpsConnector<TcpConnector>, PacedBody>,
    bandwidth: Arc<Bandwidth>,
    stall_timeout: Duration,
}

impl Connector {
    /// Trusts the system's authorities and those in `extra_roots_pem`.
    pub(crate) fn new(
        bandwidth: Arc<Bandwidth>,
        stall_timeout: Duration,
        extra_roots_pem: &[u8],
    ) -> Result<Self, String> {
        let tls = client_config(extra_roots_pem)?;
        let mut tcp = TcpConnector::new();
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
            .build(connector);
        Ok(Self(Arc::new(Service { client, bandwidth, stall_timeout })))
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Connector {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let Service { client, bandwidth, stall_timeout } = &*self.0;
        let stall_timeout = *stall_timeout;
        let bytes_max = if request.method() == Method::GET { u64::MAX } else { ANSWER_BYTES_MAX };
        let progress = Arc::new(AtomicU64::new(0));
        let request = request.map(|body| PacedBody {
            body,
            rest: Bytes::new(),
            bandwidth: Arc::clone(bandwidth),
            pause: None,
            progress: Arc::clone(&progress),
        });
        let mut response = std::pin::pin!(client.request(request));
        let mut seen = 0;
        let response = loop {
            tokio::select! {
                response = &mut response => break response,
                () = sleep(stall_timeout) => {
                    let now = progress.load(Ordering::Relaxed);
                    if std::mem::replace(&mut seen, now) == now {
                        return Err(stalled(stall_timeout));
                    }
                }
            }
        };
        let response = response.map_err(|error| {
            let kind = if error.is_connect() { HttpErrorKind::Connect } else { HttpErrorKind::Interrupted };
            HttpError::new_boxed(kind, innermost(&error).into())
        })?;
        Ok(response.map(|body| {
            let stall = Box::pin(sleep(stall_timeout));
            HttpResponseBody::new(Answer { body, bytes_left: bytes_max, stall, stall_timeout })
        }))
    }
}

fn stalled(after: Duration) -> HttpError {
    let text = format!("no progress for {} s", after.as_secs_f64());
    HttpError::new(HttpErrorKind::Timeout, io::Error::new(io::ErrorKind::TimedOut, text))
}

/// What happened, without the layers that only pass it on.
fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// A request body that is handed out in small chunks at the pace of the bandwidth.
struct PacedBody {
    body: HttpRequestBody,
    /// Taken from the body, to be handed out next.
    rest: Bytes,
    bandwidth: Arc<Bandwidth>,
    /// Until when the next chunk has to wait, once that is known.
    pause: Option<(Pin<Box<Sleep>>, usize)>,
    /// Grows with each chunk.
    progress: Arc<AtomicU64>,
}

impl Body for PacedBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let this = &mut *self;
        while this.rest.is_empty() {
            match ready!(Pin::new(&mut this.body).poll_frame(context)) {
                Some(Ok(frame)) => this.rest = frame.into_data().unwrap_or_default(),
                end => return Poll::Ready(end),
            }
        }
        let (pause, bytes) = this.pause.get_or_insert_with(|| {
            let bytes = this.rest.len().min(this.bandwidth.chunk_bytes());
            let at = this.bandwidth.take(bytes, Instant::now());
            (Box::pin(sleep_until(at)), bytes)
        });
        ready!(pause.as_mut().poll(context));
        let chunk = this.rest.split_to(*bytes);
        this.pause = None;
        this.progress.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let body = self.body.size_hint().exact().unwrap_or(0);
        SizeHint::with_exact(body + self.rest.len() as u64)
    }
}

/// An answer that neither hangs nor has no end.
struct Answer {
    body: Incoming,
    bytes_left: u64,
    stall: Pin<Box<Sleep>>,
    stall_timeout: Duration,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let this = &mut *self;
        match Pin::new(&mut this.body).poll_frame(context) {
            Poll::Pending => {
                ready!(this.stall.as_mut().poll(context));
                Poll::Ready(Some(Err(stalled(this.stall_timeout))))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Ready(Some(Err(error))) => {
                let error = HttpError::new_boxed(HttpErrorKind::Interrupted, innermost(&error).into());
                Poll::Ready(Some(Err(error)))
            }
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
                let Some(left) = this.bytes_left.checked_sub(bytes) else {
                    let error = io::Error::new(io::ErrorKind::InvalidData, "the answer is too long");
                    return Poll::Ready(Some(Err(HttpError::new(HttpErrorKind::Decode, error))));
                };
                this.bytes_left = left;
                let deadline = Instant::now() + this.stall_timeout;
                this.stall.as_mut().reset(deadline);
                Poll::Ready(Some(Ok(frame)))
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
