//! The operating system of a simulation: `netsim`'s kernel under the names of `system/`.

pub(super) mod clock;
pub(super) mod event_queue;
pub(super) mod peer;
pub(super) mod tcp;
pub(super) mod udp;
