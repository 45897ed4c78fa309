//! Virtual time.

use std::time::{Duration, Instant};

use netsim::kernel;

/// When simulations begin, since 1970.
const BEGIN: Duration = Duration::from_secs(1_800_000_000);

/// What time it is in the simulation.
#[derive(Debug)]
pub(crate) struct Clock;

impl Clock {
    /// The time of the simulation.
    pub(crate) fn now() -> Instant {
        kernel::now()
    }

    /// The time of day, since 1970.
    pub(crate) fn since_1970() -> Duration {
        BEGIN + kernel::elapsed()
    }

    /// Nothing costs anything.
    pub(crate) fn thread_cpu_time() -> Duration {
        Duration::ZERO
    }
}
