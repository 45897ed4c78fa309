//! Random numbers with a seed that a failing test prints.
//!
//! SplitMix64: good enough to choose test cases, and a few lines. `SRTP_TEST_SEED` repeats a run.

use std::hash::{BuildHasher, RandomState};
use std::ops::RangeInclusive;

/// A generator; says its seed when a test that uses it panics.
pub struct Random {
    seed: u64,
    state: u64,
}

impl Random {
    /// The seed of the environment variable `SRTP_TEST_SEED`, or another one in every run.
    pub fn new() -> Self {
        let named = std::env::var("SRTP_TEST_SEED").ok();
        let named = named.map(|seed| seed.parse().expect("SRTP_TEST_SEED is a number"));
        Self::with_seed(named.unwrap_or_else(|| RandomState::new().hash_one(0)))
    }

    pub fn with_seed(seed: u64) -> Self {
        Self { seed, state: seed }
    }

    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    pub fn next_u32(&mut self) -> u32 {
        self.next_u64() as u32
    }

    pub fn in_range(&mut self, range: RangeInclusive<usize>) -> usize {
        range.start() + self.next_u64() as usize % (range.end() - range.start() + 1)
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.in_range(1..=n) == 1
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.fill(&mut bytes);
        bytes
    }

    pub fn fill(&mut self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&self.next_u64().to_le_bytes()[..part.len()]);
        }
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.in_range(0..=last));
        }
    }
}

impl Default for Random {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Random {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("repeat with SRTP_TEST_SEED={}", self.seed);
        }
    }
}
