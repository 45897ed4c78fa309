//! What workers say of streams that begin and cease to be published, for who does something with each of
//! them.

use std::sync::Arc;

use tokio::sync::mpsc::Sender;

/// Streams whose news may wait; news that find no room are dropped, which is logged.
pub const PUBLISHED_MAX: usize = 4096;

/// A stream begins to be published on this node, or goes on with another publisher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamPublished {
    /// `app/name`.
    pub key: Arc<str>,
    /// Length of the app in `key`.
    pub app_bytes: usize,
    /// Another node publishes it, and it is fetched from there.
    pub is_fetched: bool,
}

/// What workers say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamNews {
    /// A stream begins.
    Published(StreamPublished),
    /// `app/name` has ended. Another worker may have begun with it meanwhile, and have said so before: look
    /// whether it is published.
    Ended(Arc<str>),
}

impl StreamNews {
    /// `app/name`.
    pub fn key(&self) -> &Arc<str> {
        match self {
            Self::Published(StreamPublished { key, .. }) | Self::Ended(key) => key,
        }
    }
}

/// Where workers send it.
pub type NewsSender = Sender<StreamNews>;
