//! Sockets at which the server takes clients, for another process to take them over.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};

/// What a socket is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SocketKind {
    /// RTMP.
    Rtmp,
    /// RTMP by TLS.
    Rtmps,
    /// HTTP.
    Http,
    /// HTTP by TLS.
    Https,
    /// RTSP.
    Rtsp,
    /// RTSP by TLS.
    Rtsps,
    /// WebRTC by UDP.
    RtcUdp,
    /// WebRTC by TCP.
    RtcTcp,
    /// WebRTC by UDP, at a port that all workers share.
    RtcSharedUdp,
    /// The same by TCP.
    RtcSharedTcp,
    /// SRT.
    Srt,
    /// RTP of RTSP.
    RtspRtp,
    /// RTCP of RTSP.
    RtspRtcp,
}

/// Which socket it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketPlace {
    /// What it is for.
    pub kind: SocketKind,
    /// Which worker has it.
    pub worker: usize,
    /// The address as the configuration has it.
    pub wanted: SocketAddr,
    /// The address that it is bound to.
    pub address: SocketAddr,
}

/// A socket that is bound, and listens if it is of TCP.
#[derive(Debug)]
pub struct BoundSocket {
    /// Which one.
    pub place: SocketPlace,
    /// The socket.
    pub socket: OwnedFd,
}

impl BoundSocket {
    /// The same socket once more.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { place: self.place, socket: self.socket.try_clone()? })
    }
}
