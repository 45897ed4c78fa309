//! WebRTC on a worker: sockets, sessions and the path of a packet from a publisher to its viewers.

pub mod control;
#[expect(dead_code, reason = "wired with the first session")]
pub(crate) mod sockets;
