//! The body of a response, which drives its connection while it is waited for.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{self, HeaderMap};
use hyper::body::{Body as _, Incoming};

use super::client::{Inner, text_of};
use super::connection::{Connection, PIECE_BYTES_MAX};
use super::pool::Origin;
use super::stall_timer::StallTimer;
use crate::error::SourceError;

/// Longest body of a redirect or an error that is read so that its connection can be used again, in
/// bytes.
const SHORT_BODY_BYTES_MAX: u64 = 16 << 10;

/// The body of a response. Dropping it before its end closes the connection (HTTP/1.1) or resets
/// the stream (HTTP/2).
pub struct ResponseBody {
    /// `None` after an error.
    incoming: Option<Incoming>,
    /// `None` when the body has ended.
    connection: Option<Connection>,
    client: Arc<Inner>,
    origin: Origin,
    stall_timer: StallTimer,
    /// Received bytes that exceed one piece.
    rest: Bytes,
}

impl ResponseBody {
    pub(crate) fn new(
        incoming: Incoming,
        connection: Connection,
        client: Arc<Inner>,
        origin: Origin,
    ) -> Self {
        if let Connection::Shared(shared) = &connection {
            shared.begin_answer();
        }
        let stall_timer = StallTimer::new(client.config.idle_timeout, client.config.bytes_per_second_min);
        Self {
            incoming: Some(incoming),
            connection: Some(connection),
            client,
            origin,
            stall_timer,
            rest: Bytes::new(),
        }
    }

    /// The next bytes, 1 to 65,536; `None` at the end. After an error nothing more comes.
    pub fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, SourceError>>> {
        if !self.rest.is_empty() {
            let rest = std::mem::take(&mut self.rest);
            return Poll::Ready(Some(self.received(rest)));
        }
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
        self.stall_timer.poll_wait(context).map(|error| {
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
    /// With HTTP/2, of all responses on the connection.
    pub fn bytes_buffered(&self) -> u64 {
        self.connection.as_ref().map_or(0, |connection| connection.link().buffered_bytes())
    }

    fn received(&mut self, mut data: Bytes) -> Result<Bytes, SourceError> {
        if data.len() > PIECE_BYTES_MAX {
            self.rest = data.split_off(PIECE_BYTES_MAX);
        }
        self.client.bytes_received.fetch_add(data.len() as u64, Ordering::Relaxed);
        if let Some(connection) = &self.connection {
            connection.link().took(data.len() as u64);
        }
        if let Err(error) = self.stall_timer.received(data.len()) {
            self.give_up();
            return Err(error);
        }
        Ok(data)
    }

    /// The response is complete: the connection can take another request.
    fn give_back(&mut self, context: &mut Context<'_>) {
        let Some(mut connection) = self.take_connection() else { return };
        self.client.note(&connection, None);
        // The response's end may be the connection's, too.
        let has_ended = connection.poll_drive(context);
        if let (Connection::Single(single), false) = (connection, has_ended) {
            self.client.pool.put(&self.origin, single);
        }
    }

    /// The connection takes no more requests; responses that share it may continue.
    fn give_up(&mut self) {
        self.incoming = None;
        self.rest.clear();
        if let Some(connection) = self.take_connection() {
            self.client.pool.forget(&connection);
        }
    }

    fn take_connection(&mut self) -> Option<Connection> {
        let connection = self.connection.take();
        if let Some(Connection::Shared(shared)) = &connection {
            shared.end_answer();
        }
        connection
    }

    /// Reads what is left if it is short, so that the connection can be used again.
    pub(crate) async fn drain(&mut self, headers: &HeaderMap) {
        let length =
            headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        if length.is_none_or(|length| length > SHORT_BODY_BYTES_MAX) {
            return;
        }
        // A body that does not come in time or breaks costs its connection, which is dropped with
        // it.
        let timeout = self.client.config.head_timeout;
        let _ = tokio::time::timeout(timeout, async { while let Some(Ok(_)) = self.data().await {} }).await;
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        // The HTTP/2 connection may not be polled again for a long time: the reset has to leave
        // now.
        self.incoming = None;
        if let Some(Connection::Shared(shared)) = self.take_connection()
            && tokio::runtime::Handle::try_current().is_ok()
        {
            shared.poll_drive(&mut Context::from_waker(std::task::Waker::noop()));
        }
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseBody").field("connection", &self.connection).finish_non_exhaustive()
    }
}
