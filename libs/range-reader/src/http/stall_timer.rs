//! Time limits of a body: one on silence, and a minimum rate.
//!
//! Only time spent waiting counts. A reader that takes its time between reads is not the server's
//! fault.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use crate::error::SourceError;

/// The timer of one body.
#[derive(Debug)]
pub(crate) struct StallTimer {
    idle_timeout: Duration,
    bytes_per_second_min: u64,
    /// Made at the first wait and used again.
    timer: Option<Pin<Box<Sleep>>>,
    waiting_since: Option<Instant>,
    /// Time waited and bytes received since the rate was last judged; `waited < idle_timeout`.
    waited: Duration,
    bytes: u64,
}

impl StallTimer {
    pub(crate) fn new(idle_timeout: Duration, bytes_per_second_min: u64) -> Self {
        Self {
            idle_timeout,
            bytes_per_second_min,
            timer: None,
            waiting_since: None,
            waited: Duration::ZERO,
            bytes: 0,
        }
    }

    /// Nothing has arrived: starts or continues to wait. Ready when it has been too long.
    pub(crate) fn poll_wait(&mut self, context: &mut Context<'_>) -> Poll<SourceError> {
        if self.waiting_since.is_none() {
            let now = Instant::now();
            self.waiting_since = Some(now);
            match &mut self.timer {
                Some(timer) => timer.as_mut().reset(now + self.idle_timeout),
                none => *none = Some(Box::pin(tokio::time::sleep(self.idle_timeout))),
            }
        }
        let timer = self.timer.as_mut().expect("made above");
        timer.as_mut().poll(context).map(|()| {
            self.waiting_since = None;
            SourceError::transient(format!("no byte in {:?}", self.idle_timeout))
        })
    }

    /// Bytes have arrived. An error if they came too slowly.
    pub(crate) fn received(&mut self, bytes: usize) -> Result<(), SourceError> {
        self.bytes = self.bytes.saturating_add(bytes as u64);
        let Some(since) = self.waiting_since.take() else { return Ok(()) };
        let waited = since.elapsed();
        // Longer than the timer allows: the caller was not waiting any more.
        if waited <= self.idle_timeout {
            self.waited += waited;
        }
        if self.waited < self.idle_timeout {
            return Ok(());
        }
        let is_slow = (self.bytes as f64) < self.bytes_per_second_min as f64 * self.waited.as_secs_f64();
        let (bytes, waited) = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.waited));
        if is_slow {
            return Err(SourceError::transient(format!("too slow: {bytes} bytes in {waited:?}")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    const IDLE: Duration = Duration::from_secs(20);

    /// Waits for `time`, or for the timeout.
    async fn wait(stall_timer: &mut StallTimer, time: Duration) -> Option<SourceError> {
        tokio::time::timeout(time, poll_fn(|context| stall_timer.poll_wait(context))).await.ok()
    }

    #[tokio::test(start_paused = true)]
    async fn silence_ends_after_the_timeout_and_bytes_start_it_anew() {
        let mut stall_timer = StallTimer::new(IDLE, 0);
        for _ in 0..5 {
            assert_eq!(wait(&mut stall_timer, Duration::from_secs(19)).await, None);
            stall_timer.received(1).unwrap();
        }
        assert!(wait(&mut stall_timer, Duration::from_secs(21)).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_drip_below_the_least_rate_is_an_error_and_one_above_it_is_not() {
        for (bytes, is_error) in [(99, true), (101, false)] {
            let mut stall_timer = StallTimer::new(IDLE, 100);
            let mut failed = false;
            for _ in 0..100 {
                assert_eq!(wait(&mut stall_timer, Duration::from_secs(1)).await, None);
                failed |= stall_timer.received(bytes).is_err();
            }
            assert_eq!(failed, is_error, "{bytes} bytes a second");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn time_in_which_nobody_waits_does_not_count() {
        let mut stall_timer = StallTimer::new(IDLE, 100);
        for _ in 0..10 {
            // One look, then something else for ten minutes.
            assert_eq!(wait(&mut stall_timer, Duration::from_millis(1)).await, None);
            tokio::time::sleep(Duration::from_secs(600)).await;
            stall_timer.received(10).unwrap();
            tokio::time::sleep(Duration::from_secs(600)).await;
            stall_timer.received(10).unwrap();
        }
    }
}
