//! What a node of a cluster is started with.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use node_link::Secret;

/// Whether HTTP players and WebRTC viewers are sent to another node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Redirect {
    /// They stay.
    #[default]
    Never,
    /// To the least busy node, when this one has no room or much to do.
    WhenFull,
    /// To the node that the stream is published on.
    Always,
}

/// How this node takes part in its cluster.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How it reaches the directory, and what it says of itself there. Its relay addresses may lack a port:
    /// then that of the socket is added.
    pub directory: cluster::Settings,
    /// Where other nodes reach it.
    pub listen: Vec<SocketAddr>,
    /// What all nodes share.
    pub secret: Secret,
    /// Where that is, if others than the file's owner can read it: the log says so.
    pub exposed_secret_file: Option<PathBuf>,
    /// Nodes that this one feeds with a stream, at most.
    pub fan_out_max: usize,
    /// How long a stream is fetched after its last player.
    pub linger: Duration,
    /// Whether players go to another node.
    pub redirect: Redirect,
    /// Bytes of a frame that the workers take.
    pub frame_bytes_max: usize,
}
