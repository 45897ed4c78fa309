//! Connections that wait for the next request.
//!
//! HTTP/1.1 connections are here while idle; HTTP/2 connections stay here while they are used, too.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::time::Instant;
use url::Url;

use super::connection::{Connection, Open, Single};
use super::shared::Shared;
use crate::error::{Permanent, SourceError};

/// An idle connection older than this is closed rather than used: the server, or a middlebox, has
/// closed it or is about to. Common servers keep them for 60 to 75 s.
const IDLE_MAX: Duration = Duration::from_secs(50);

/// Where a connection goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) is_tls: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Origin {
    pub(crate) fn of(url: &Url) -> Result<Self, SourceError> {
        match (url.host_str(), url.port_or_known_default()) {
            (Some(host), Some(port)) => {
                Ok(Self { is_tls: url.scheme() == "https", host: host.to_owned(), port })
            }
            _ => Err(SourceError::Permanent(Permanent::Setup("the URL has no host".to_owned()))),
        }
    }
}

/// The idle connections of a client, oldest first.
#[derive(Debug)]
pub(crate) struct Pool {
    idle: Mutex<Vec<Idle>>,
    idle_max: usize,
    open: Arc<Open>,
}

#[derive(Debug)]
struct Idle {
    origin: Origin,
    connection: Connection,
    since: Instant,
}

impl Pool {
    /// Keeps `idle_max` connections; the oldest one makes room for another.
    pub(crate) fn new(idle_max: usize, open: Arc<Open>) -> Self {
        Self { idle: Mutex::default(), idle_max: idle_max.max(1), open }
    }

    /// A connection to `origin` that can take a request, as far as this side knows.
    pub(crate) fn take(&self, origin: &Origin) -> Option<Connection> {
        // A connection that has just delivered a response may need another poll to be ready; one
        // that has been closed shows it.
        let mut connection = self.pick(origin)?;
        while !connection.is_usable() {
            self.forget(&connection);
            connection = self.pick(origin)?;
        }
        Some(connection)
    }

    /// An HTTP/1.1 connection is idle.
    pub(crate) fn put(&self, origin: &Origin, single: Box<Single>) {
        self.keep(origin, Connection::Single(single));
    }

    /// An HTTP/2 connection can be used by others.
    pub(crate) fn share(&self, origin: &Origin, shared: &Arc<Shared>) {
        let is_known = self.lock().iter().any(|idle| idle.connection.is_same(shared));
        if !is_known {
            self.keep(origin, Connection::Shared(Arc::clone(shared)));
        }
    }

    /// Drops what is kept of `connection`, which takes no more requests.
    pub(crate) fn forget(&self, connection: &Connection) {
        if let Connection::Shared(shared) = connection {
            shared.retire();
            self.lock().retain(|idle| !idle.connection.is_same(shared));
        }
    }

    /// Closes the connection that has been idle for longest; whether there was one.
    pub(crate) fn drop_oldest(&self) -> bool {
        let mut idle = self.lock();
        if idle.is_empty() {
            return false;
        }
        let oldest = idle.remove(0);
        drop(idle);
        drop(oldest);
        true
    }

    fn keep(&self, origin: &Origin, connection: Connection) {
        let mut idle = self.lock();
        let dropped = (idle.len() >= self.idle_max).then(|| idle.remove(0));
        idle.push(Idle { origin: origin.clone(), connection, since: Instant::now() });
        drop(idle);
        drop(dropped);
        self.open.freed.notify_waiters();
    }

    /// The newest one to `origin`; those that are too old are dropped.
    fn pick(&self, origin: &Origin) -> Option<Connection> {
        let mut idle = self.lock();
        idle.retain(|idle| idle.connection.is_shared() || idle.since.elapsed() < IDLE_MAX);
        let index = idle.iter().rposition(|idle| idle.origin == *origin)?;
        if let Connection::Shared(shared) = &idle[index].connection {
            return Some(Connection::Shared(Arc::clone(shared)));
        }
        Some(idle.remove(index).connection)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    fn is_same(&self, other: &Arc<Shared>) -> bool {
        matches!(self, Self::Shared(shared) if Arc::ptr_eq(shared, other))
    }

    /// Looks at the socket once: whether it is still open.
    fn is_usable(&mut self) -> bool {
        let has_ended = self.poll_drive(&mut Context::from_waker(Waker::noop()));
        match self {
            Self::Single(_) => !has_ended,
            Self::Shared(shared) => !has_ended && !shared.is_closed(),
        }
    }
}
