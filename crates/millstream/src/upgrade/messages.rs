//! What a server and the one that takes over from it say to each other.
//!
//! ```text
//! old ─▶ Sockets    what listens, with the sockets
//! new ─▶ Prepared   configuration read, all addresses there, threads not started
//! old ─▶ Session    one that goes over, and Url
//! old ─▶ IceTcp     the connection of one by ICE-TCP, with its socket, from version 5 on
//! old ─▶ Stream     one of TCP connections; Connection: one of these, with its socket
//! old ─▶ Bridge     one of a stream to packets
//! old ─▶ Go         the old one accepts nobody any more
//! new ─▶ Resumed    the sessions and connections that it has
//! new ─▶ Serving    it accepts, and goes on with them once it is said that they are its own
//! old ─▶ Yours      the old one sends nothing to them any more
//! old ─▶ Finished   recordings and uploads are closed: their directories are the new one's
//! ```
//!
//! Before `Yours` the new one sends nothing to a session, so that no index of SRTP is used by both, and
//! reads and writes no socket of a connection. Until then it may say `Failed`, or just end, and the old
//! one goes on as if nothing had happened. Messages are maps by name: what a release adds, its
//! neighbours skip or take as its default.

use serde::{Deserialize, Serialize};
use worker_api::snapshot::SessionId;
use worker_api::sockets::SocketPlace;

/// The version of these messages that this release speaks. It understands the one before, too.
pub(super) const VERSION: u32 = 5;
/// From this version on connections of ICE-TCP go over, and the WebRTC sessions that use them.
pub(super) const WITH_ICE_TCP: u32 = 5;

/// What the old server says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToNew {
    Sockets(Sockets),
    /// A WebRTC session, as a message of its own: one that cannot be read is lost alone.
    Session(#[serde(with = "serde_bytes")] Vec<u8>),
    /// The connection of one by ICE-TCP. Its socket goes with the message.
    IceTcp(#[serde(with = "serde_bytes")] Vec<u8>),
    /// The URL of one.
    Url(#[serde(with = "serde_bytes")] Vec<u8>),
    /// A stream of connections.
    Stream(#[serde(with = "serde_bytes")] Vec<u8>),
    /// A bridge of one of these to packets.
    Bridge(#[serde(with = "serde_bytes")] Vec<u8>),
    /// A TCP connection. Its socket goes with the message.
    Connection(#[serde(with = "serde_bytes")] Vec<u8>),
    Go,
    /// Sessions that went over, but for those that were ended since they were said.
    Yours {
        ended: Vec<SessionId>,
    },
    Finished,
}

/// What listens. The descriptors go with the message, in this order.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Sockets {
    pub(super) version: u32,
    /// Release of the old server.
    pub(super) release: String,
    pub(super) places: Vec<SocketPlace>,
    /// About how many sessions will go over.
    #[serde(default)]
    pub(super) sessions: usize,
}

/// What the new server says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToOld {
    Prepared {
        version: u32,
        /// Release of the new server.
        release: String,
    },
    /// It has these sessions.
    Resumed {
        sessions: Vec<SessionId>,
    },
    Serving,
    Failed {
        reason: String,
    },
}

/// Whether this release can speak with one of `version`.
pub(super) fn understands(version: u32) -> bool {
    version == VERSION || version + 1 == VERSION
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_a_later_release_adds_are_skipped() {
        #[derive(Serialize)]
        struct Later {
            version: u32,
            release: &'static str,
            places: Vec<SocketPlace>,
            added: u8,
        }
        let later = Later { version: 2, release: "9.0.0", places: Vec::new(), added: 1 };
        let message = rmp_serde::to_vec_named(&std::collections::HashMap::from([("sockets", later)]));
        let read: ToNew = rmp_serde::from_slice(&message.expect("written")).expect("read");
        assert!(matches!(read, ToNew::Sockets(Sockets { version: 2, .. })));
    }
}
