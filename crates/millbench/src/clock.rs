//! The only place of this crate that reads a clock.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Wall clock, nanoseconds since the Unix epoch; 0 before it.
#[expect(clippy::disallowed_methods, reason = "a load generator measures real time")]
pub fn wall_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// A point on the monotonic clock.
#[expect(clippy::disallowed_methods, reason = "a load generator measures real time")]
pub fn monotonic() -> Instant {
    Instant::now()
}
