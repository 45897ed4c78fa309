//! Times of one stream on both sides of a bridge, so that audio and video stay together.
//!
//! Frames are stamped in milliseconds of one stream time, packets in units of a clock for each track, tied together
//! by sender reports only (RFC 3550 section 6.4.1). To packets, [`StreamClock`] says which stream time it is now,
//! [`VideoTimestamps`] and [`AudioTimestamps`] stamp the packets and [`ClockMappings`] say which
//! timestamps belong together. To frames, [`CaptureClock`] puts the timestamps of both tracks on one stream time. What is
//! measured are clocks of others: all of them may drift, jump and stand still.

mod capture;
mod delay;
mod mappings;
mod stream;
mod timestamps;

pub use capture::{CaptureClock, START_US, Stamp};
pub use mappings::ClockMappings;
pub(crate) use mappings::MappingSchedule;
pub use stream::StreamClock;
pub use timestamps::{AudioTimestamps, VideoTimestamps, rtp_timestamp};

use std::time::{Duration, Instant};

/// Microseconds from `base` to `at`, negative if `at` is before.
fn micros(base: Instant, at: Instant) -> i64 {
    let length = |duration: Duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
    match at.checked_duration_since(base) {
        Some(later) => length(later),
        None => -length(base - at),
    }
}
