//! HTTP connections between a worker and the control side, by bounded queues in both directions.
//!
//! A worker hands over a connection whose request is not media. Control answers it and may give the
//! connection back.

use std::net::{SocketAddr, TcpStream};
use std::task::Waker;

use tokio::sync::mpsc;

use super::AddressSlot;

/// Connections waiting for the control side; further ones are answered 503 by the worker.
pub const HANDOFFS_MAX: usize = 256;
/// Connections on their way back to a worker; while there are more, control keeps them.
pub const RETURNS_MAX: usize = 256;

/// An HTTP connection as it changes hands: from a worker, which found a request that is not media, to
/// control, and back once that is answered.
#[derive(Debug)]
pub struct Handoff {
    /// The connection, non-blocking.
    pub stream: TcpStream,
    /// TLS state when it came in by HTTPS: records that are not complete yet are in it.
    pub tls: Option<Box<rustls::ServerConnection>>,
    /// All plaintext that was read and not used. On its way to control, a complete request head comes first.
    pub buffered: Vec<u8>,
    /// Peer address.
    pub peer: SocketAddr,
    /// Requests it has carried before.
    pub requests: u32,
    /// Its place among the connections that are kept open; without one it is closed after the answer.
    pub slot: Option<AddressSlot>,
    /// Its place among the connections of its address; tests need none.
    pub place: Option<AddressSlot>,
    /// The worker that owns it.
    pub home: ReturnQueue,
}

/// Where connections go back to their worker.
#[derive(Debug, Clone)]
pub struct ReturnQueue {
    returned: mpsc::Sender<Handoff>,
    waker: Waker,
}

impl ReturnQueue {
    /// A queue that wakes its worker by `waker`.
    pub fn new(returned: mpsc::Sender<Handoff>, waker: Waker) -> Self {
        Self { returned, waker }
    }
}

impl Handoff {
    /// Gives the connection back to its worker; waits while that has a full queue. Closes it if the worker
    /// has ended.
    pub async fn give_back(self) {
        let home = self.home.clone();
        if home.returned.send(self).await.is_ok() {
            home.waker.wake();
        }
    }
}
