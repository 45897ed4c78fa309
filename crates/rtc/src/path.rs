//! A pair of socket addresses and the transport between them.
//!
//! It is what RFC 8445 calls a candidate pair: peers validate paths, and the worker finds the peer
//! of a datagram by its path.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::sdp::Transport;

/// Both socket addresses of a connection between this host and a peer, and the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Path {
    /// Our address the datagram came to, or leaves from. With NAT 1:1 the address of the socket,
    /// not the announced one.
    pub local: SocketAddr,
    /// Address of the peer, as seen from here.
    pub remote: SocketAddr,
    /// What carries the datagrams.
    pub transport: Transport,
}

impl Path {
    /// A UDP path.
    #[must_use]
    pub fn udp(local: SocketAddr, remote: SocketAddr) -> Self {
        Self { local, remote, transport: Transport::Udp }
    }

    /// A TCP path: datagrams framed as RFC 4571 says.
    #[must_use]
    pub fn tcp(local: SocketAddr, remote: SocketAddr) -> Self {
        Self { local, remote, transport: Transport::Tcp }
    }

    /// Whether the peer's host is the same as on `other`: a NAT that forgets a mapping changes the
    /// port only (RFC 4787 REQ-2 keeps the address of a host behind it).
    #[must_use]
    pub fn same_remote_host(&self, other: &Path) -> bool {
        canonical(self.remote.ip()) == canonical(other.remote.ip())
    }
}

/// An IPv4 address that came through an IPv6 socket is the IPv4 address.
fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}
