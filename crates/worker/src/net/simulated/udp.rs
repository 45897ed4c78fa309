//! UDP of a simulation: `group_send` with the kernel of the simulation in place of system calls.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use group_send::BackendKind;
use group_send::internals::{IncomingMessage, OutgoingMessage, OutgoingMessages, sender_over};
use group_send::steering::{Instruction, Steering};
use netsim::kernel;

pub(crate) use group_send::{RecvBatch as ReceivedBatch, Sender as UdpSender};

/// A UDP socket. Never blocks.
#[derive(Debug)]
pub(crate) struct UdpSocket(Arc<kernel::UdpSocket>);

impl UdpSocket {
    /// Binds `address`.
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        kernel::UdpSocket::bind(address).map(|socket| Self(socket.into()))
    }

    /// Hosts of a simulation have one worker at an address.
    pub(crate) fn share(&self) -> io::Result<()> {
        Ok(())
    }

    /// The same as [`UdpSocket::bind`].
    pub(crate) fn bind_shared(address: SocketAddr) -> io::Result<Self> {
        Self::bind(address)
    }

    /// Servers of a simulation take nothing over.
    pub(crate) fn adopt(_socket: OwnedFd) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Nothing is handed over.
    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Hosts of a simulation have a port for each worker.
    pub(crate) fn steer(&self, _program: &[Instruction]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The same.
    pub(crate) fn steer_by_table(&self, _steering: &Steering) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The address it is bound to.
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Its buffers are what the faults of the simulation say; datagrams of one sender may come together.
    pub(crate) fn enlarge(&self) -> io::Result<()> {
        self.0.join_received();
        Ok(())
    }

    /// Datagrams that the kernel has taken from it.
    pub(crate) fn taken(&self) -> u64 {
        self.0.taken()
    }

    /// What sends from it: the first of the ways that are through a socket.
    pub(crate) fn sender(&self, config: &group_send::Config) -> io::Result<UdpSender> {
        use BackendKind::{Gso, Sendmmsg, Sendmsg};
        let kind = config.backends.iter().find(|kind| matches!(kind, Gso | Sendmmsg | Sendmsg));
        let kind = kind.ok_or_else(|| io::Error::other("no way through a socket"))?;
        Ok(sender_over(*kind, Outgoing(Arc::clone(&self.0))))
    }

    /// Receives what has arrived into `batch`.
    pub(crate) fn receive(&self, batch: &mut ReceivedBatch) -> io::Result<usize> {
        batch.receive_from(|most| {
            let messages = self.0.receive_messages(most)?;
            let messages = messages.into_iter().map(|message| IncomingMessage {
                // The kernel says it of messages of several only.
                segment_bytes: (message.datagrams() > 1).then_some(message.segment_bytes as u16),
                source: message.source,
                bytes: message.bytes,
            });
            Ok(messages.collect())
        })
    }
}

impl AsRawFd for UdpSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.id() as RawFd
    }
}

/// Sending from a socket.
struct Outgoing(Arc<kernel::UdpSocket>);

impl OutgoingMessages for Outgoing {
    fn send(&mut self, messages: Vec<OutgoingMessage>) -> Result<usize, i32> {
        let messages = messages
            .into_iter()
            .map(|message| kernel::Outgoing { destination: message.destination, segments: message.segments });
        self.0.send_messages(messages.collect()).map_err(kernel::SendFault::errno)
    }
}

/// Addresses of the host whose worker runs.
pub(crate) fn local_addresses(_only: Option<&str>) -> Vec<IpAddr> {
    kernel::local_addresses()
}

/// Hosts of a simulation have no interfaces with names.
pub(crate) fn interface_of(_address: IpAddr) -> Option<String> {
    None
}
