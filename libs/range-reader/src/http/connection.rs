//! One connection that speaks HTTP, driven by the tasks that wait for it.
//!
//! hyper splits a connection into a handle that sends requests and a future that moves bytes. That
//! future is usually spawned; here it is polled together with the response, so that nothing runs
//! when no task waits, and dropping the last handle closes the socket. An HTTP/1.1 connection
//! belongs to one response at a time; HTTP/2 is in `shared.rs`.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::sync::Notify;

use super::link::{Link, Metered};
use super::shared::Shared;

/// Longest head of a response, in bytes.
pub(crate) const HEAD_BYTES_MAX: usize = 64 << 10;
/// Header fields of a response.
pub(crate) const HEAD_FIELDS_MAX: usize = 128;
/// Informational answers (1xx; RFC 9110, 15.2) before the one to a request. A server that works on
/// it says so now and then, or hints at what to fetch besides; more of them only keep this side
/// busy.
const INFORMATIONAL_MAX: u32 = 32;
/// Bytes that hyper reads at once, and ahead of what is asked of a body.
const READ_BUFFER_BYTES_MAX: usize = PIECE_BYTES_MAX;

/// Bytes of a body that are handed on at once: small beside a reader's window, so that one piece
/// does not overfill it.
pub(crate) const PIECE_BYTES_MAX: usize = 64 << 10;

/// A request without a body.
pub(crate) type GetRequest = Request<Empty<Bytes>>;

/// Why no head of a response came.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// The connection failed, or what came is no response.
    Http(hyper::Error),
    /// Something else arrived instead, repeatedly.
    Flood,
}

impl From<hyper::Error> for RequestError {
    fn from(error: hyper::Error) -> Self {
        Self::Http(error)
    }
}

/// A connection that can take a request, or whose response is being read.
#[derive(Debug)]
pub(crate) enum Connection {
    /// HTTP/1.1: one response at a time.
    Single(Box<Single>),
    /// HTTP/2: many.
    Shared(Arc<Shared>),
}

impl Connection {
    /// Sends a request and waits for the head of its response. Adds one to `sent` once it has left.
    pub(crate) async fn send(
        &mut self,
        request: GetRequest,
        sent: &AtomicU64,
    ) -> Result<Response<Incoming>, RequestError> {
        let link = self.link().clone();
        let (written, acknowledged) = (link.written_bytes(), link.acknowledged_bytes());
        let mut has_left = false;
        let mut sending = pin!(async {
            match self {
                Self::Single(single) => single.send(request).await,
                Self::Shared(shared) => shared.send(request).await,
            }
        });
        let result = std::future::poll_fn(|context| {
            let polled = sending.as_mut().poll(context);
            if !has_left && link.written_bytes() > written {
                has_left = true;
                sent.fetch_add(1, Ordering::Relaxed);
            }
            polled
        })
        .await;
        // The server had closed the connection before the request came: its kernel acknowledges
        // nothing of it, and the server never sees it. One that has read a request and then closes
        // acknowledges it with the close.
        let is_closed = matches!(&result, Err(RequestError::Http(error)) if error.is_incomplete_message());
        if has_left && is_closed && acknowledged.is_some() && link.acknowledged_bytes() == acknowledged {
            sent.fetch_sub(1, Ordering::Relaxed);
        }
        result
    }

    /// Moves bytes. `true`: the connection has ended, and what it has for a body is with the body.
    pub(crate) fn poll_drive(&mut self, context: &mut Context<'_>) -> bool {
        match self {
            Self::Single(single) => single.poll_drive(context),
            Self::Shared(shared) => shared.poll_drive(context),
        }
    }

    /// The socket.
    pub(crate) fn link(&self) -> &Link {
        match self {
            Self::Single(single) => &single.link,
            Self::Shared(shared) => shared.link(),
        }
    }

    /// Several responses at a time.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Self::Shared(_))
    }
}

/// An HTTP/1.1 connection.
#[derive(Debug)]
pub(crate) struct Single {
    sender: http1::SendRequest<Empty<Bytes>>,
    driver: http1::Connection<TokioIo<Metered>, Empty<Bytes>>,
    has_ended: bool,
    link: Link,
    _open: OpenCount,
}

impl Single {
    pub(crate) async fn new(io: Metered, link: Link, open: OpenCount) -> hyper::Result<Self> {
        let (sender, driver) = http1::Builder::new()
            .max_headers(HEAD_FIELDS_MAX)
            .max_header_size(HEAD_BYTES_MAX)
            .max_buf_size(READ_BUFFER_BYTES_MAX)
            .handshake(TokioIo::new(io))
            .await?;
        Ok(Self { sender, driver, has_ended: false, link, _open: open })
    }

    async fn send(&mut self, mut request: GetRequest) -> Result<Response<Incoming>, RequestError> {
        // The response before has been read to its end; the connection may still have to notice.
        std::future::poll_fn(|context| {
            let ended = poll_drive(&mut self.driver, &mut self.has_ended, context);
            match self.sender.poll_ready(context) {
                Poll::Pending if !ended => Poll::Pending,
                // Sending fails with the reason.
                _ => Poll::Ready(()),
            }
        })
        .await;
        let informational = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&informational);
        hyper::ext::on_informational(&mut request, move |_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let mut answer = pin!(self.sender.send_request(request));
        std::future::poll_fn(|context| {
            if let Poll::Ready(result) = answer.as_mut().poll(context) {
                return Poll::Ready(result.map_err(RequestError::from));
            }
            poll_drive(&mut self.driver, &mut self.has_ended, context);
            if informational.load(Ordering::Relaxed) > INFORMATIONAL_MAX {
                return Poll::Ready(Err(RequestError::Flood));
            }
            answer.as_mut().poll(context).map_err(RequestError::from)
        })
        .await
    }

    fn poll_drive(&mut self, context: &mut Context<'_>) -> bool {
        poll_drive(&mut self.driver, &mut self.has_ended, context)
    }
}

/// Polls a driver unless it has ended; whether it has. Its error reaches the task that waits for
/// the response.
fn poll_drive(driver: &mut (impl Future + Unpin), has_ended: &mut bool, context: &mut Context<'_>) -> bool {
    if !*has_ended {
        *has_ended = Pin::new(driver).poll(context).is_ready();
    }
    *has_ended
}

/// One open connection in a count of them.
#[derive(Debug)]
pub(crate) struct OpenCount(Arc<Open>);

impl OpenCount {
    pub(crate) fn new(open: &Arc<Open>) -> Self {
        open.count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(open))
    }
}

impl Drop for OpenCount {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Relaxed);
        self.0.freed.notify_waiters();
    }
}

/// The connections of a client that are open.
#[derive(Debug, Default)]
pub(crate) struct Open {
    count: AtomicU64,
    /// One has been closed, or is idle now.
    pub(crate) freed: Notify,
}

impl Open {
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}
