//! How far seeks have gone lately.
//!
//! Where nothing better is known than that seeks go a little forward, an answer without end is read through. What is
//! better known is the learner's matter.

/// Seeks before anything is concluded from them.
const SEEKS_MIN: u32 = 3;
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
    /// The reader moves; a step back begins the average anew.
    pub(super) fn note(&mut self, from: u64, to: u64) {
        let Some(gap) = to.checked_sub(from) else {
            *self = Self::default();
            return;
        };
        self.seeks = self.seeks.saturating_add(1);
        let weight = f64::from(self.seeks).min(SEEKS_AVERAGED);
        self.bytes += (gap as f64 - self.bytes) / weight;
    }

    /// The average gap comes in half the time of an answer to a request, in which the link brings `path_bytes`. Where
    /// both take about as long, the request is better: it spares the bytes.
    pub(super) fn are_worth_reading(&self, path_bytes: f64) -> bool {
        self.seeks >= SEEKS_MIN && self.bytes < path_bytes / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_read_through_where_they_cost_less_than_a_round_trip() {
        let mut gaps = Gaps::default();
        let mut position = 0;
        for _ in 0..3 {
            assert!(!gaps.are_worth_reading(125_000.0), "too early to say");
            gaps.note(position, position + 50_000);
            position += 150_000;
        }
        assert!(gaps.are_worth_reading(125_000.0));
        assert!(!gaps.are_worth_reading(80_000.0));
        gaps.note(position, position + 900_000);
        assert!(!gaps.are_worth_reading(125_000.0), "one long gap tells");
        gaps.note(position, 0);
        assert!(!gaps.are_worth_reading(1e9), "a step back begins anew");
    }
}
