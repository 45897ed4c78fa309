//! Threads of one server.

use std::io;
use std::thread::{Builder, JoinHandle};

/// Starts a thread that logs to where the calling thread does: of several servers in one process each has a
/// log of its own, which only its threads know.
pub fn spawn<T: Send + 'static>(
    name: impl Into<String>,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let log = tracing::dispatcher::get_default(Clone::clone);
    Builder::new().name(name.into()).spawn(move || tracing::dispatcher::with_default(&log, body))
}
