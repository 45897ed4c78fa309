//! Nodes, clients and the paths between them.

pub(crate) mod media;
pub(crate) mod node;
pub(crate) mod path;

use std::time::{Duration, Instant};

/// How long something may take that is to happen: longer than on the slowest machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// The clock of tests in real time.
#[expect(clippy::disallowed_methods, reason = "clients in real time read the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
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
    let deadline = now() + TIMEOUT;
    loop {
        clients.iter_mut().for_each(|client| client.turn());
        if check(clients) {
            return;
        }
        assert!(now() < deadline, "not within {TIMEOUT:?}: {what}");
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
    let deadline = now() + TIMEOUT;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(now() < deadline, "not within {TIMEOUT:?}: {what}");
        std::thread::yield_now();
    }
}
