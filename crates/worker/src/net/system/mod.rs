//! The operating system: `epoll` by `mio`, sockets, and the clock. See the module above for what it promises.

pub(super) mod clock;
pub(super) mod event_queue;
#[cfg(test)]
pub(super) mod peer;
pub(super) mod tcp;
pub(super) mod udp;
