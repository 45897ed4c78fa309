//! Sockets: listeners, TCP and TLS connections, UDP ports, and ICE over TCP.
//!
//! Bytes in and out, and nothing about what they mean; `proto` and `packets` read them.

pub(crate) mod accept;
pub(crate) mod connection;
pub(crate) mod ice_tcp;
pub(crate) mod listen;
pub(crate) mod udp_bind;
pub(crate) mod udp_port;
