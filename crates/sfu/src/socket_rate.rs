//! What a TCP connection to a viewer carries, by what its socket takes (RFC 4571, ICE-TCP).
//!
//! The kernel sends as its own congestion control allows and takes more when it has; what it does not
//! take waits before it. While something waits, what it takes is what the connection carries. So the
//! estimate is bounded by that, and rises again, slowly, while nothing waits and what is sent
//! needs it; or at once to what was taken although it is more: a layer that was tried.

use std::time::{Duration, Instant};

/// The state of one connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SocketRate {
    waiting: usize,
    taken: u64,
    /// When what is measured now began, and what had been taken by then.
    since: (Instant, u64),
    /// Nothing waited in that time when it was looked once.
    was_empty: bool,
    /// The same, since when something has waited at each look.
    waiting_since: Option<(Instant, u64)>,
    /// Bits per second; `None`: it has always taken everything.
    bound: Option<u64>,
}

impl SocketRate {
    pub(crate) fn new(now: Instant, taken: u64) -> Self {
        Self { waiting: 0, taken, since: (now, taken), was_empty: false, waiting_since: None, bound: None }
    }

    /// Takes what waits now and has been taken in all. `estimate`: what is believed without the socket.
    pub(crate) fn note(&mut self, now: Instant, waiting: usize, taken: u64, estimate: u64) {
        (self.waiting, self.taken) = (waiting, taken);
        let rate_since = |(began, before): (Instant, u64)| {
            let passed = now.saturating_duration_since(began);
            let bytes = taken.saturating_sub(before);
            (passed >= MEASURED).then(|| (bytes as f64 * 8.0 / passed.as_secs_f64()) as u64)
        };
        if waiting == 0 {
            (self.waiting_since, self.was_empty) = (None, true);
        } else if let Some(rate) = rate_since(*self.waiting_since.get_or_insert((now, taken))) {
            self.bound = Some((rate / 100 * SHARE_PERCENT).max(RATE_MIN));
            (self.waiting_since, self.since, self.was_empty) = (Some((now, taken)), (now, taken), false);
            return;
        }
        // What waits for a moment, as the packets of a picture do, says nothing.
        let Some(rate) = rate_since(self.since) else { return };
        if self.was_empty
            && let Some(bound) = self.bound.filter(|bound| rate > bound / 2)
        {
            // What it took at once it carries, and may carry more.
            let raised = rate.max(bound + bound / 100 * RAISE_PERCENT);
            self.bound = Some(raised).filter(|raised| *raised < estimate);
        }
        (self.since, self.was_empty) = ((now, taken), waiting == 0);
    }

    /// The estimate as far as the socket bears it out.
    pub(crate) fn bound(&self, estimate: u64) -> u64 {
        self.bound.map_or(estimate, |bound| bound.min(estimate))
    }

    /// How many bytes of video may be put before the socket, or how long until any may: at this rate no
    /// more wait there than [`QUEUE_MAX`] of it, or two packets.
    pub(crate) fn room(&self, bits_per_second: u64) -> Result<usize, Duration> {
        let bytes_per_second = (bits_per_second / 8).max(1);
        let most = bytes_per_second * QUEUE_MAX.as_millis() as u64 / 1_000;
        let most = most.clamp(WAITING_MIN, WAITING_MAX);
        match (self.waiting as u64).checked_sub(most) {
            None => Ok(most as usize - self.waiting),
            Some(over) => {
                let wait = Duration::from_micros(over.saturating_mul(1_000_000) / bytes_per_second);
                Err(wait.clamp(ASKED_AGAIN_MIN, ASKED_AGAIN_MAX))
            }
        }
    }
}

/// How long something has to wait until its rate is believed.
const MEASURED: Duration = Duration::from_millis(200);
/// Part of what was taken that is sent: the rest empties what waits.
const SHARE_PERCENT: u64 = 92;
/// By how much the bound rises in each measured time in which nothing waited: 13 % a second.
const RAISE_PERCENT: u64 = 3;
/// Least bound, in bits per second: a connection that took nothing for a moment is not given up.
const RATE_MIN: u64 = 50_000;
/// Most that may wait before the socket, at the rate of the estimate.
const QUEUE_MAX: Duration = Duration::from_millis(50);
/// May wait in any case, in bytes.
const WAITING_MIN: u64 = 2_400;
/// Most in any case, in bytes: before anything is known of a slow connection this is a second of it.
const WAITING_MAX: u64 = 32 << 10;
const ASKED_AGAIN_MIN: Duration = Duration::from_millis(2);
const ASKED_AGAIN_MAX: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    /// A socket that takes 100 bytes each millisecond, of which as many are there, for so many ms.
    fn run(socket: &mut SocketRate, at: &mut Instant, sent_each_ms: usize, milliseconds: u64) {
        for _ in 0..milliseconds {
            *at += Duration::from_millis(1);
            let waiting = socket.waiting + sent_each_ms;
            let taken = waiting.min(100);
            socket.note(*at, waiting - taken, socket.taken + taken as u64, 50_000_000);
        }
    }

    #[test]
    fn what_it_takes_while_something_waits_is_the_rate() {
        let mut at = netsim::Clock::new().now();
        let mut socket = SocketRate::new(at, 0);
        run(&mut socket, &mut at, 90, 2_000);
        assert_eq!(socket.bound(50_000_000), 50_000_000, "it takes everything");
        run(&mut socket, &mut at, 150, 1_000);
        let bound = socket.bound(50_000_000);
        assert!((720_000..=745_000).contains(&bound), "{bound} of 800,000");
        let wait = socket.room(bound).expect_err("50 kB wait");
        assert!(wait >= ASKED_AGAIN_MIN && wait <= ASKED_AGAIN_MAX);
        // It is emptied, and what is needed is tried again.
        run(&mut socket, &mut at, 0, 1_000);
        assert_eq!(socket.room(bound), Ok(bound as usize / 8 / 20));
        let emptied = socket.bound(50_000_000);
        run(&mut socket, &mut at, 0, 5_000);
        assert_eq!(socket.bound(50_000_000), emptied, "who sends nothing shows nothing");
        run(&mut socket, &mut at, 80, 3_000);
        let raised = socket.bound(50_000_000);
        assert!(raised > emptied * 5 / 4 && raised < emptied * 2, "{emptied} became {raised}");
        // Another path: it takes more, and that counts.
        let mut taken = socket.taken;
        for _ in 0..500 {
            at += Duration::from_millis(1);
            taken += 400;
            socket.note(at, 0, taken, 50_000_000);
        }
        assert!(socket.bound(50_000_000) >= 3_100_000, "{}", socket.bound(50_000_000));
    }

    #[test]
    fn one_that_takes_nothing_gets_little_and_is_asked_again() {
        let mut at = netsim::Clock::new().now();
        let mut socket = SocketRate::new(at, 0);
        for _ in 0..1_000 {
            at += Duration::from_millis(1);
            socket.note(at, 100_000, 0, 1_000_000);
        }
        assert_eq!(socket.bound(1_000_000), RATE_MIN);
        assert_eq!(socket.room(RATE_MIN), Err(ASKED_AGAIN_MAX));
    }
}
