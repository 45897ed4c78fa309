//! What a seek does, as a pure function of what is known.

use std::time::Duration;

/// What has been measured of the way to the server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkEstimate {
    /// From a request on an open connection to the first byte of its answer.
    pub time_to_first_byte: Duration,
    /// From nothing to an open connection that can take a request: TCP, TLS, proxy.
    pub time_to_connect: Duration,
    /// Bytes a second while bytes were waited for.
    pub bytes_per_second: f64,
    /// Bytes that are here already: in the reader's buffers and in the socket's receive queue.
    pub bytes_buffered: u64,
    /// Bytes that are on their way and will come, wanted or not.
    pub bytes_in_flight: u64,
}

/// What to do about a seek forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SeekPlan {
    /// Read and drop what lies between: it is here already, or comes sooner than an answer to a request.
    Skip,
    /// Let the present answer come to its end, which is near, and ask anew on the same connection.
    AskAfterRest,
    /// Give the present answer up and ask anew: over a new connection with HTTP/1.1, on a new stream with HTTP/2.
    AskAnew,
}
