//! What the tests of this crate share: groups whose datagrams are all different, and receivers that compare every byte.
//!
//! Nothing here knows a back end or a network namespace; `tests/namespaces` adds those, the other tests use loopback.

#![allow(dead_code, reason = "each test binary uses a part")]

pub(crate) mod receivers;

pub(crate) use receivers::Receivers;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::AsFd;

/// How long a test waits for an event that must come; only a failing test waits so long.
pub(crate) const PATIENCE_MS: u16 = 15_000;

/// Waits until the socket takes datagrams again.
pub(crate) fn wait_writable(socket: &impl AsFd) {
    let mut wanted = [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)];
    let ready = poll(&mut wanted, PollTimeout::from(PATIENCE_MS)).expect("poll");
    assert_eq!(ready, 1, "the socket was not writable within {PATIENCE_MS} ms");
}
