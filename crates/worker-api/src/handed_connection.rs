//! TCP connections in clear text that another process goes on with, and their streams, as plain values.
//!
//! As sessions of WebRTC (`hand_over.rs`) they are sent as MessagePack maps by name; the socket goes with
//! the message. A field that a later release adds has to have a default. **Secrets are in here**: tokens of
//! clients.

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use delivery::StreamState;
use rtmp::server::SessionState;
use serde::{Deserialize, Serialize};

use crate::hooks::HandedAdmission;
use crate::snapshot::SessionId;

/// A connection that publishes or plays frames by RTMP, or plays them as FLV.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedConnection {
    /// Its id, which stays.
    pub id: SessionId,
    /// Where its client is.
    pub address: SocketAddr,
    /// What it speaks.
    pub protocol: HandedProtocol,
    /// Application.
    pub app: String,
    /// Stream within it.
    pub stream: String,
    /// What it does with that.
    pub media: HandedMedia,
    /// What is to be written first: it ends with a whole message.
    #[serde(with = "serde_bytes")]
    pub pending: Vec<u8>,
    /// `User-Agent` of the request, or the version of the player.
    pub user_agent: Option<Box<str>>,
    /// When it ends because its token does, milliseconds from now.
    pub ends_in_ms: Option<u64>,
    /// When it ends because a hook said so, milliseconds from now.
    pub time_over_in_ms: Option<u64>,
    /// A hook has let it in.
    pub admission: Option<HandedAdmission>,
}

/// What a connection speaks.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum HandedProtocol {
    /// RTMP.
    Rtmp {
        /// Where its machine is.
        session: Box<SessionState>,
        /// Application of `connect`.
        app: String,
        /// Query of that.
        query: String,
        /// The token in it.
        token: Option<String>,
    },
    /// FLV as the body of an HTTP response.
    HttpFlv {
        /// In chunks (HTTP/1.1).
        chunked: bool,
    },
    /// FLV by WebSocket.
    WebSocketFlv {
        /// What has come of a message of the client.
        #[serde(with = "serde_bytes")]
        partial: Vec<u8>,
    },
}

/// What a connection does with its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum HandedMedia {
    /// Publishes it.
    Publish,
    /// Plays it.
    Play {
        /// It has had every message, with those that are pending, and takes the next one that comes. Else it
        /// goes on at a key frame: it was too slow, waits for one, or has paused.
        has_all: bool,
        /// The head of the response, or of the file, has been sent.
        begun: bool,
        /// It has paused (RTMP).
        paused: bool,
    },
}

/// A connection, and its socket.
#[derive(Debug)]
pub struct HandedSocket {
    /// The connection.
    pub connection: Box<HandedConnection>,
    /// A copy of its descriptor.
    pub socket: OwnedFd,
}

/// A stream on one worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedStream {
    /// Index of the worker.
    pub worker: usize,
    /// Application.
    pub app: String,
    /// Stream within it.
    pub stream: String,
    /// Number of the newest frame that has come.
    pub newest: u32,
    /// What players need to go on.
    pub delivery: StreamState,
    /// Its publisher goes on as well. Not sent: whoever takes over knows.
    #[serde(skip)]
    pub is_published: bool,
}

impl HandedStream {
    /// `app/stream`.
    pub fn key(&self) -> String {
        format!("{}/{}", self.app, self.stream)
    }
}

impl HandedConnection {
    /// `app/stream`.
    pub fn key(&self) -> String {
        format!("{}/{}", self.app, self.stream)
    }
}

impl fmt::Debug for HandedConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandedConnection").field("id", &self.id).finish_non_exhaustive()
    }
}
