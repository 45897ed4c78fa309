//! How fast bytes may go out, all files together.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Bytes of a request body that are handed out at a time.
const CHUNK_BYTES_MAX: usize = 64 * 1024;
/// Smaller ones would cost more calls than they even out.
const CHUNK_BYTES_MIN: usize = 1024;

/// A rate that uploads share.
#[derive(Debug)]
pub(crate) struct Bandwidth {
    bytes_per_second: Option<u64>,
    /// When the bytes that were let through so far are paid for.
    paid_until: Mutex<Option<Instant>>,
}

impl Bandwidth {
    pub(crate) fn new(bytes_per_second: Option<u64>) -> Self {
        Self { bytes_per_second, paid_until: Mutex::new(None) }
    }

    /// Bytes to ask for at a time: a tenth of a second's.
    pub(crate) fn chunk_bytes(&self) -> usize {
        let tenth = self.bytes_per_second.map_or(u64::MAX, |rate| rate / 10);
        usize::try_from(tenth).unwrap_or(usize::MAX).clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX)
    }

    /// Takes `bytes`, and says when they may go out.
    pub(crate) fn take(&self, bytes: usize, now: Instant) -> Instant {
        let Some(rate) = self.bytes_per_second.filter(|rate| *rate > 0) else { return now };
        let mut paid_until = self.paid_until.lock().unwrap_or_else(PoisonError::into_inner);
        // Time in which nothing was sent is not saved up.
        let at = paid_until.map_or(now, |until| until.max(now));
        *paid_until = Some(at + Duration::from_secs_f64(bytes as f64 / rate as f64));
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_let_through_at_the_rate_and_pauses_are_not_saved_up() {
        let now = Instant::now();
        let bandwidth = Bandwidth::new(Some(100_000));
        assert_eq!(bandwidth.chunk_bytes(), 10_000);
        assert_eq!(bandwidth.take(50_000, now), now);
        assert_eq!(bandwidth.take(50_000, now), now + Duration::from_millis(500));
        let later = now + Duration::from_secs(100);
        assert_eq!(bandwidth.take(50_000, later), later);
        assert_eq!(bandwidth.take(1, later), later + Duration::from_millis(500));
        let free = Bandwidth::new(None);
        assert_eq!((free.chunk_bytes(), free.take(1 << 40, now)), (CHUNK_BYTES_MAX, now));
    }
}
