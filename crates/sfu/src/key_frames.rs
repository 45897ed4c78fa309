//! Key-frame requests for one encoding: merged, throttled, repeated until a key frame comes.
//!
//! However many viewers ask, a source is asked at most every [`INTERVAL`]; each request makes it
//! send a large frame to everybody.

use std::time::{Duration, Instant};

/// Requests to one source.
#[derive(Debug, Default)]
pub(crate) struct KeyFrameRequests {
    /// Since when a key frame has been wanted.
    wanted_since: Option<Instant>,
    last_sent: Option<Instant>,
    fir_sequence: u8,
}

impl KeyFrameRequests {
    /// A key frame is wanted.
    pub(crate) fn want(&mut self, now: Instant) {
        self.wanted_since.get_or_insert(now);
    }

    /// A key frame has begun to arrive: every request is satisfied.
    pub(crate) fn satisfied(&mut self) {
        self.wanted_since = None;
    }

    /// Whether to send a request now; if so it counts as sent.
    pub(crate) fn poll(&mut self, now: Instant) -> bool {
        let due = self.next_due().is_some_and(|due| due <= now);
        if due {
            self.last_sent = Some(now);
        }
        due
    }

    /// When the next request may be sent, if one is wanted.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let since = self.wanted_since?;
        let Some(last) = self.last_sent else { return Some(since) };
        // An encoder that has not answered for long is not likely to; it is asked less often.
        let patience = last.saturating_duration_since(since) > IMPATIENT;
        Some((last + if patience { LONG_INTERVAL } else { INTERVAL }).max(since))
    }

    /// Sequence number of the next full intra request (RFC 5104 section 4.3.1.1).
    pub(crate) fn next_fir(&mut self) -> u8 {
        self.fir_sequence = self.fir_sequence.wrapping_add(1);
        self.fir_sequence
    }
}

/// Time between two requests: two a second.
pub(crate) const INTERVAL: Duration = Duration::from_millis(500);
/// The same once [`IMPATIENT`] has passed without a key frame.
const LONG_INTERVAL: Duration = Duration::from_secs(2);
const IMPATIENT: Duration = Duration::from_secs(10);
