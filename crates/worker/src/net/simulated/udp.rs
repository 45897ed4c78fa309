//! UDP of a simulation.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use group_send::{BackendKind, NotChosen, Progress, Received, RecvConfig, SendBatch};
use netsim::kernel;

/// A UDP socket. Never blocks.
#[derive(Debug)]
pub(crate) struct UdpSocket(Arc<kernel::UdpSocket>);

impl UdpSocket {
    /// Binds `address`.
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        kernel::UdpSocket::bind(address).map(|socket| Self(socket.into()))
    }

    /// The address it is bound to.
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Its buffers are what the faults of the simulation say.
    pub(crate) fn enlarge(&self) -> io::Result<()> {
        Ok(())
    }

    /// What sends from it.
    pub(crate) fn sender(&self, _config: &group_send::Config) -> io::Result<UdpSender> {
        Ok(UdpSender(Arc::clone(&self.0)))
    }

    /// Receives what has arrived into `batch`.
    pub(crate) fn receive(&self, batch: &mut ReceivedBatch) -> io::Result<usize> {
        batch.datagrams.clear();
        batch.is_full = self.0.receive(batch.datagrams_max, &mut batch.datagrams)?;
        Ok(batch.datagrams.len())
    }
}

impl AsRawFd for UdpSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.id() as RawFd
    }
}

/// Sends batches of datagrams from a socket.
#[derive(Debug)]
pub(crate) struct UdpSender(Arc<kernel::UdpSocket>);

impl UdpSender {
    /// Sends what is ready, as far as there is room.
    pub(crate) fn flush(&mut self, batch: &mut SendBatch, _budget_bytes: usize) -> Progress {
        let (count, mut taken, mut failed) = (batch.len(), 0, 0);
        let room = self.0.room(count);
        batch.retain(|envelope, bytes| {
            if taken == room {
                return true;
            }
            taken += 1;
            if self.0.refuses() {
                failed += 1;
            } else {
                self.0.send_to(bytes.to_vec(), envelope.destination);
            }
            false
        });
        Progress { sent: taken - failed, failed, blocked: room < count }
    }

    /// How datagrams leave.
    pub(crate) fn backend(&self) -> BackendKind {
        BackendKind::Gso
    }

    /// Nothing was preferred to it.
    pub(crate) fn not_chosen(&self) -> &[NotChosen] {
        &[]
    }

    /// It needs no second socket.
    pub(crate) fn twin_refused(&self) -> Option<&str> {
        None
    }
}

/// The datagrams of one call.
#[derive(Debug)]
pub(crate) struct ReceivedBatch {
    datagrams: Vec<(SocketAddr, Vec<u8>)>,
    datagrams_max: usize,
    is_full: bool,
}

impl ReceivedBatch {
    /// Room for as many datagrams as messages: none come coalesced.
    pub(crate) fn new(config: RecvConfig) -> Self {
        Self { datagrams: Vec::new(), datagrams_max: usize::from(config.messages), is_full: false }
    }

    /// The datagrams, in the order of their arrival.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = Received<&mut [u8]>> {
        self.datagrams.iter_mut().map(|(source, payload)| Received {
            payload: &mut payload[..],
            source: *source,
            ecn: None,
            received_at: None,
            destination: None,
        })
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.datagrams.len()
    }

    /// Whether there may be more.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }
}

/// Addresses of the host whose worker runs.
pub(crate) fn local_addresses(_only: Option<&str>) -> Vec<IpAddr> {
    kernel::local_addresses()
}
