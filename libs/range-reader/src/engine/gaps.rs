//! Distances of recent seeks.
//!
//! If all that is known is that seeks go a little forward, gaps are read through: first in pieces,
//! while a pattern may still emerge, then in an open-ended response. The learner handles everything
//! more predictable.

/// Seeks before anything is concluded from them.
const SEEKS_MIN: u32 = 2;
/// Seeks over which the distance is averaged.
const SEEKS_AVERAGED: f64 = 4.0;

/// Average distance of seeks.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    /// Seeks forward in a row.
    seeks: u32,
    bytes: f64,
}

impl Gaps {
    /// The reader moves; a step back restarts the average.
    pub(super) fn note(&mut self, from: u64, to: u64) {
        let Some(gap) = to.checked_sub(from) else {
            *self = Self::default();
            return;
        };
        self.seeks = self.seeks.saturating_add(1);
        let weight = f64::from(self.seeks).min(SEEKS_AVERAGED);
        self.bytes += (gap as f64 - self.bytes) / weight;
    }

    /// The average gap, once there is one, is shorter than this.
    pub(super) fn are_shorter_than(&self, bytes: f64) -> bool {
        self.seeks >= SEEKS_MIN && self.bytes < bytes
    }

    /// The average gap, once there is one, is longer than this.
    pub(super) fn are_longer_than(&self, bytes: f64) -> bool {
        self.seeks >= SEEKS_MIN && self.bytes > bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_is_that_of_the_last_seeks_forward() {
        let mut gaps = Gaps::default();
        let mut position = 0;
        for _ in 0..SEEKS_MIN {
            assert!(!gaps.are_shorter_than(62_500.0), "too early to say");
            gaps.note(position, position + 50_000);
            position += 150_000;
        }
        assert!(gaps.are_shorter_than(62_500.0));
        assert!(!gaps.are_shorter_than(40_000.0));
        gaps.note(position, position + 900_000);
        assert!(!gaps.are_shorter_than(62_500.0), "one long gap tells");
        gaps.note(position, 0);
        assert!(!gaps.are_shorter_than(1e9), "a step back restarts it");
    }
}
