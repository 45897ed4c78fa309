//! Where ranges come from.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;

use crate::error::SourceError;
use crate::ranges::ByteRange;

/// What pins a version of a file: its entity tag and date, as the server gave them (RFC 9110, 8.8).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Validator {
    /// `ETag`, quotes and `W/` included.
    pub etag: Option<String>,
    /// `Last-Modified`, as it stands.
    pub last_modified: Option<String>,
}

/// One request.
#[derive(Debug, Clone)]
pub struct RangeRequest {
    /// At least one; in ascending order, not empty, not touching each other. An open-ended range
    /// stands alone.
    pub ranges: Vec<ByteRange>,
    /// What the file must still be. `None` for the first request.
    pub pinned: Option<Arc<Pinned>>,
}

/// Properties of the file according to the first response; later ones must agree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pinned {
    /// Length of the whole file in bytes, if the server says it.
    pub total_bytes: Option<u64>,
    /// Its version.
    pub validator: Validator,
}

/// A response whose head has arrived.
#[derive(Debug)]
pub struct Response<B> {
    /// Its properties of the file. Already compared with the request's.
    pub pinned: Pinned,
    /// The server sends the whole file whatever is asked (200 instead of 206, or several ranges
    /// answered by everything).
    pub is_whole_file: bool,
    /// The bytes.
    pub body: B,
}

/// What a body consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyEvent {
    /// What follows are the bytes from `start` on; `end` if the server says it. Parts come in any
    /// order.
    Part {
        /// The range.
        range: ByteRange,
    },
    /// Bytes of the present part.
    Data(Bytes),
    /// All parts are complete. The connection can take another request.
    End,
}

/// Bytes of a response. Dropping it before [`BodyEvent::End`] gives it up: HTTP/1.1 closes the
/// connection, HTTP/2 resets the stream.
pub trait Body: Send + Unpin {
    /// The next event. After an error or `End` nothing more comes.
    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Result<BodyEvent, SourceError>>;

    /// Bytes of this body that are here already, in the client's and the kernel's buffers, as far
    /// as known.
    fn bytes_buffered(&self) -> u64;
}

/// What a source's connections are like.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SourceState {
    /// Smoothed round-trip time of the newest connection, by the kernel.
    pub round_trip: Option<Duration>,
    /// How long the newest connection took to open: name, TCP, TLS, proxy.
    pub time_to_connect: Option<Duration>,
    /// Requests that can be in flight at a time: streams with HTTP/2, connections with HTTP/1.1.
    pub requests_at_once: usize,
    /// Giving a response up costs nothing but what is in flight (HTTP/2); else the connection
    /// (HTTP/1.1).
    pub can_reset: bool,
    /// The server takes ranges: it has answered with one, or says that it does.
    pub takes_ranges: bool,
    /// The server has answered several ranges with several ranges; `None`: not tried yet.
    pub takes_several_ranges: Option<bool>,
    /// Requests sent.
    pub requests: u64,
    /// Connections opened.
    pub connections: u64,
    /// Connections open now.
    pub connections_open: u64,
    /// Bytes received of responses, heads left out.
    pub bytes_received: u64,
}

/// Something ranges can be asked of.
///
/// Nothing happens unless a future or a body of it is polled: a source spawns no tasks. The engine
/// polls from one task at a time, with one waker for all; it leaves bodies unpolled while its
/// window is full.
pub trait Source: Send + Unpin + 'static {
    /// Bytes of a response.
    type Body: Body + 'static;

    /// Sends a request and waits for the head of its response, over an idle connection or a new
    /// one.
    ///
    /// Several may be in flight, [`SourceState::requests_at_once`] at most with those bodies that
    /// have not ended, so the future owns what it needs. Dropping it gives the request up.
    fn open(
        &mut self,
        request: RangeRequest,
    ) -> impl Future<Output = Result<Response<Self::Body>, SourceError>> + Send + 'static;

    /// How things are.
    fn state(&self) -> SourceState;
}
