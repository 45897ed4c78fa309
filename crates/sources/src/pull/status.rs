//! How a pull, or a push to another server, is doing, for the API and for metrics.

use std::time::{Duration, SystemTime};

use serde::Serialize;
use tokio::time::Instant;
use utoipa::ToSchema;

use worker_api::snapshot::SrtSessionSnapshot;
use worker_api::time;

/// How often the state of an SRT connection is taken.
pub const SRT_EVERY: Duration = Duration::from_millis(500);
/// Shortest time a rate is averaged over, and half the time after which one counts as zero.
const SAMPLE: Duration = Duration::from_secs(1);

/// What a pull or a push does: it waits for a player (pulls only), it connects, it carries media, or it waits
/// after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = PullState)]
pub enum State {
    /// A pull on demand waits for a player.
    Idle,
    /// It connects; a pull also waits for the first media.
    Connecting,
    /// It carries media.
    Live,
    /// It has failed and waits before it tries again.
    Waiting,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Idle, Self::Connecting, Self::Live, Self::Waiting];

    /// Name in the API and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Connecting => "connecting",
            Self::Live => "live",
            Self::Waiting => "waiting",
        }
    }
}

/// State and counters of one pull or push. Changed by its task only.
#[derive(Debug, Clone)]
pub struct Status {
    /// What it does.
    pub state: State,
    /// Since when.
    pub since: SystemTime,
    /// Attempts since it was live last, the present one among them; while it is live, those that it
    /// took.
    pub attempts: u32,
    /// Times it has become live, the first left out.
    pub reconnects: u64,
    /// Attempts that failed, in all.
    pub failures: u64,
    /// Why the last attempt that failed did, or why the present one waits, and when that was.
    pub last_error: Option<(String, SystemTime)>,
    /// Bytes received of bodies and messages; of a push, bytes sent.
    pub bytes: u64,
    /// Its SRT connection, while there is one.
    pub srt: Option<SrtSessionSnapshot>,
    /// What SRT connections that have ended have counted; `None` before the first.
    srt_ended: Option<srt::Counters>,
    retry_at: Option<Instant>,
    was_live: bool,
    bits_per_second: u64,
    sampled: (Instant, u64),
}

/// Of one that begins.
impl Default for Status {
    fn default() -> Self {
        Self::new()
    }
}

impl Status {
    /// Of one that begins.
    pub fn new() -> Self {
        Self {
            state: State::Connecting,
            since: time::now(),
            attempts: 0,
            reconnects: 0,
            failures: 0,
            last_error: None,
            bytes: 0,
            srt: None,
            srt_ended: None,
            retry_at: None,
            was_live: false,
            bits_per_second: 0,
            sampled: (Instant::now(), 0),
        }
    }

    /// Of a pull that waits for a player.
    pub(super) fn of_idle() -> Self {
        Self { state: State::Idle, ..Self::new() }
    }

    /// Nobody plays it.
    pub(super) fn idle(&mut self) {
        self.enter(State::Idle);
        self.end_srt();
        self.attempts = 0;
        self.bits_per_second = 0;
    }

    /// An attempt begins.
    pub fn connecting(&mut self) {
        self.enter(State::Connecting);
        self.end_srt();
        self.attempts = self.attempts.saturating_add(1);
    }

    /// Media is carried.
    pub fn live(&mut self) {
        self.enter(State::Live);
        self.reconnects += u64::from(std::mem::replace(&mut self.was_live, true));
        self.sampled = (Instant::now(), self.bytes);
    }

    /// The attempt has failed; the next one follows after `pause`.
    pub fn failed(&mut self, error: String, pause: Duration) {
        if self.state == State::Live {
            self.attempts = 0;
        }
        self.enter(State::Waiting);
        self.end_srt();
        self.failures += 1;
        self.last_error = Some((error, self.since));
        self.retry_at = Some(Instant::now() + pause);
        self.bits_per_second = 0;
    }

    /// Something is wrong, and the attempt goes on.
    pub fn noticed(&mut self, error: String) {
        self.last_error = Some((error, time::now()));
    }

    /// Bytes came in, or went out.
    pub fn moved(&mut self, bytes: u64) {
        self.bytes += bytes;
        let (at, before) = self.sampled;
        let passed = at.elapsed();
        if passed >= SAMPLE {
            self.bits_per_second = ((self.bytes - before) as f64 * 8.0 / passed.as_secs_f64()) as u64;
            self.sampled = (Instant::now(), self.bytes);
        }
    }

    /// Counters of its SRT connections, all together; `None` if there was none.
    pub fn srt_counters(&self) -> Option<srt::Counters> {
        let Some(present) = &self.srt else { return self.srt_ended };
        let mut counters = self.srt_ended.unwrap_or_default();
        counters.add(&present.counters);
        Some(counters)
    }

    /// Bits per second, averaged over the last second or so.
    pub fn bits_per_second(&self) -> u64 {
        if self.sampled.0.elapsed() < 2 * SAMPLE { self.bits_per_second } else { 0 }
    }

    /// Time until the next attempt, while it waits for one.
    pub fn retry_in(&self) -> Option<Duration> {
        self.retry_at.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// What its connection has counted stays when that is over.
    fn end_srt(&mut self) {
        self.srt_ended = self.srt_counters();
        self.srt = None;
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.since = time::now();
        self.retry_at = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn rates_are_of_the_last_second_and_end_with_the_bytes() {
        let mut status = Status::new();
        status.live();
        for _ in 0..10 {
            tokio::time::advance(Duration::from_millis(100)).await;
            status.moved(1_000);
        }
        assert_eq!((status.bits_per_second(), status.bytes), (80_000, 10_000));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(status.bits_per_second(), 0, "nothing has come for two seconds");
    }

    #[test]
    fn what_srt_connections_have_counted_is_added_up() {
        let link = |packets_in, lost_in| SrtSessionSnapshot {
            counters: srt::Counters { packets_in, lost_in, ..srt::Counters::default() },
            status: srt::Status {
                round_trip: None,
                receive_latency: SAMPLE,
                send_latency: SAMPLE,
                receive_buffer: (0, 0, SAMPLE),
                send_buffer: (0, 0, SAMPLE),
                is_encrypted: false,
            },
        };
        let counted =
            |status: &Status| status.srt_counters().map(|counters| (counters.packets_in, counters.lost_in));
        let mut status = Status::new();
        assert_eq!(counted(&status), None, "it has never been one by SRT");
        for (round, expected) in [(1, (20, 2)), (2, (40, 4))] {
            status.srt = Some(link(10, 1));
            status.srt = Some(link(20, 2));
            assert_eq!(counted(&status), Some(expected), "{round}");
            status.failed("it is over".to_owned(), Duration::ZERO);
            status.connecting();
            assert_eq!((status.srt.clone(), counted(&status)), (None, Some(expected)), "{round}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_are_those_since_it_was_live() {
        let mut status = Status::new();
        for attempt in 1..=3 {
            status.connecting();
            status.failed("no route".to_owned(), Duration::from_secs(4));
            assert_eq!((status.state, status.attempts), (State::Waiting, attempt));
        }
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(status.retry_in(), Some(Duration::from_secs(3)));
        status.connecting();
        assert_eq!(status.retry_in(), None);
        status.live();
        assert_eq!((status.attempts, status.reconnects, status.failures), (4, 0, 3), "the fourth went well");
        status.failed("closed".to_owned(), Duration::ZERO);
        assert_eq!(status.attempts, 0);
        let when = status.since;
        status.connecting();
        status.live();
        assert_eq!((status.attempts, status.reconnects), (1, 1));
        assert_eq!(status.last_error, Some(("closed".to_owned(), when)));
    }
}
