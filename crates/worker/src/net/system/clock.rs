//! The clocks of the operating system.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What time it is.
#[derive(Debug)]
pub(crate) struct Clock;

impl Clock {
    /// The time that everything is measured by: as of the beginning of a turn it is `Context::now`.
    #[expect(clippy::disallowed_methods, reason = "the worker's only reading of it")]
    pub(crate) fn now() -> Instant {
        Instant::now()
    }

    /// The time of day, since 1970. It can jump: read once at start, and counted on from there.
    #[expect(clippy::disallowed_methods, reason = "the worker's only reading of it")]
    pub(crate) fn since_1970() -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    /// CPU time of the calling thread, to say what something costs; nothing is decided by it.
    pub(crate) fn thread_cpu_time() -> Duration {
        worker_api::time::thread_cpu_time()
    }
}
