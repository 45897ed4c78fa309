//! Nodes, clients and the paths between them.

pub(crate) mod media;
pub(crate) mod node;
pub(crate) mod path;

use std::time::{Duration, Instant};

/// How long something may take that is to happen: longer than on the slowest machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The clock of tests in real time.
#[expect(clippy::disallowed_methods, reason = "clients in real time read the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Time that is left for something to happen. While all of the process stands still, none of it passes.
pub(crate) struct Patience {
    left: Duration,
    looked: Instant,
}

impl Patience {
    pub(crate) fn new() -> Self {
        Self { left: TIMEOUT, looked: now() }
    }

    /// # Panics
    /// With `what` when nothing is left.
    pub(crate) fn wait_for(&mut self, what: &str) {
        let passed = now() - std::mem::replace(&mut self.looked, now());
        self.left = self.left.saturating_sub(passed.min(Duration::from_secs(1)));
        assert!(!self.left.is_zero(), "not within {TIMEOUT:?}: {what}");
    }
}

/// Turns all clients until `check` holds.
///
/// # Panics
/// With `what` after [`TIMEOUT`].
pub(crate) fn until(
    what: &str,
    clients: &mut [&mut rtc_test::UdpClient],
    mut check: impl FnMut(&mut [&mut rtc_test::UdpClient]) -> bool,
) {
    let mut patience = Patience::new();
    loop {
        clients.iter_mut().for_each(|client| client.turn());
        if check(clients) {
            return;
        }
        patience.wait_for(what);
        match clients.split_last_mut() {
            Some((last, _)) => last.wait(now() + Duration::from_millis(2)),
            None => std::thread::yield_now(),
        }
    }
}

/// Asks until there is an answer.
///
/// # Panics
/// With `what` after [`TIMEOUT`].
pub(crate) fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let mut patience = Patience::new();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        patience.wait_for(what);
        std::thread::yield_now();
    }
}
