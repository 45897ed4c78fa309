//! Random numbers from a seed (SplitMix64), the same on every machine.

use std::time::Duration;

/// A generator. Not for keys.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number in `0..end`; 0 for an end of 0.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(end)) >> 64) as u64
    }

    /// `true` with this probability, `0.0..=1.0`.
    pub fn chance(&mut self, probability: f64) -> bool {
        // 53 bits, as many as an f64 holds.
        ((self.next_u64() >> 11) as f64) < probability * (1u64 << 53) as f64
    }

    /// A duration that is exponentially distributed around this average.
    pub fn about(&mut self, average: Duration) -> Duration {
        // In `0.0..1.0`, so that the logarithm is not of zero.
        let uniform = (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        average.mul_f64(-(1.0 - uniform).ln())
    }

    /// A duration in `0..=most`.
    pub fn up_to(&mut self, most: Duration) -> Duration {
        Duration::from_nanos(self.below(most.as_nanos() as u64 + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_has_one_sequence_and_probabilities_hold() {
        // First output of SplitMix64 for seed 0, as its authors publish it.
        assert_eq!(Random::new(0).next_u64(), 0xe220_a839_7b1d_cdaf);
        let mut random = Random::new(1);
        for (probability, least, most) in [(0.0, 0, 0), (0.1, 9_500, 10_500), (1.0, 100_000, 100_000)] {
            let hits = (0..100_000).filter(|_| random.chance(probability)).count();
            assert!((least..=most).contains(&hits), "{hits} hits at {probability}");
        }
        assert!((0..1000).all(|_| random.below(3) < 3));
        let sum: Duration = (0..10_000).map(|_| random.about(Duration::from_millis(5))).sum();
        assert!((48..=52).contains(&sum.as_secs()), "10,000 times about 5 ms are {sum:?}");
        assert_eq!(random.below(0), 0);
        assert_eq!(random.up_to(Duration::ZERO), Duration::ZERO);
    }
}
