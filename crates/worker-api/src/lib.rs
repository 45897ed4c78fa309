//! What the workers and the rest of the server say to each other, and nothing else: commands and answers,
//! snapshots, ids, settings, and who may do what.
//!
//! Plain values and bounded queues. The control side, the sources and the workers all depend on this crate;
//! it depends on none of them.

mod address_slots;
pub mod auth;
pub mod certificates;
pub mod challenges;
pub mod cluster;
pub mod columns;
pub mod command;
mod denied;
pub mod directory_lock;
mod end_reason;
pub mod hand_over;
pub mod handed_connection;
pub mod handoff;
pub mod hooks;
pub mod internal;
pub mod live;
pub mod moq;
pub mod overload;
pub mod pattern;
pub mod publications;
pub mod rate;
mod refused;
pub mod relay;
mod role;
pub mod rtc;
pub mod segments;
pub mod settings;
pub mod snapshot;
pub mod sockets;
pub mod streams;
pub mod tap;
pub mod thread;
pub mod time;
pub mod traces;
pub mod trust;
pub mod usage;
pub mod viewers;
mod worker_handles;

pub use address_slots::{AddressSlot, AddressSlots, network};
pub use end_reason::{CAUSES, EndCounters, EndReason};
pub use refused::Refused;
pub use worker_handles::{NoAnswer, RELAY_WORKER, WorkerHandles};

use std::net::SocketAddr;

/// Looks up on which worker a stream is published.
pub type HomeOf = dyn Fn(&str) -> Option<usize> + Send + Sync;

/// Addresses in use, with real port numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListenAddresses {
    /// RTMP.
    pub rtmp: Vec<SocketAddr>,
    /// RTMP over TLS.
    pub rtmps: Vec<SocketAddr>,
    /// HTTP.
    pub http: Vec<SocketAddr>,
    /// HTTP over TLS.
    pub https: Vec<SocketAddr>,
    /// WebRTC over UDP, of all workers.
    pub rtc_udp: Vec<SocketAddr>,
    /// WebRTC over TCP, of all workers.
    pub rtc_tcp: Vec<SocketAddr>,
    /// SRT.
    pub srt: Vec<SocketAddr>,
    /// RTSP.
    pub rtsp: Vec<SocketAddr>,
    /// RTSP over TLS.
    pub rtsps: Vec<SocketAddr>,
    /// RTP and RTCP of RTSP by UDP, of all workers.
    pub rtsp_udp: Vec<SocketAddr>,
    /// Media over QUIC.
    pub moq: Vec<SocketAddr>,
    /// Links of other nodes of the cluster.
    pub nodes: Vec<SocketAddr>,
    /// Packets between nodes.
    pub relay: Option<SocketAddr>,
}
