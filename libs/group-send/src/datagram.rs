//! A datagram on its way to the network, and its result: what policy, back ends and system calls
//! exchange.

use crate::error::SendError;
use crate::recv::Ecn;
use std::net::SocketAddr;

/// Datagrams handed to a back end in one call, at most. Bounds its buffers; the kernel takes up to
/// 1024 messages.
pub(crate) const CHUNK: usize = 256;

/// One datagram, gathered from up to three slices; empty ones are allowed.
#[derive(Clone, Copy)]
pub(crate) struct Datagram<'a> {
    pub(crate) destination: &'a SocketAddr,
    pub(crate) parts: [&'a [u8]; 3],
    /// Departure time, in nanoseconds of the clock that the socket was given (`SO_TXTIME`); 0 for
    /// at once.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux knows such times"))]
    pub(crate) departure_ns: u64,
    /// The mark it leaves with; `NotEct`: as the socket marks it.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux marks single datagrams"))]
    pub(crate) ecn: Ecn,
}

impl Datagram<'_> {
    pub(crate) fn len(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }
}

/// The result for one datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Not tried, or the kernel had no room at that moment.
    Unsent,
    Sent,
    Failed(SendError),
}
