//! What caches of key frames may be: less while memory is short.

/// Smallest part of what it may be that the cache of a stream shrinks to.
const CACHE_DIVISOR_MAX: usize = 64;
/// Seconds with enough memory after which caches grow again, by the same steps.
const SECONDS_OF_PLENTY: u32 = 10;

/// What caches may be at present.
#[derive(Debug)]
pub(crate) struct Caches {
    /// Of what the settings say.
    divisor: usize,
    /// Seconds with enough memory.
    plenty: u32,
}

impl Default for Caches {
    fn default() -> Self {
        Self { divisor: 1, plenty: 0 }
    }
}

impl Caches {
    /// What a cache may be at present that the settings let be so large.
    pub(crate) fn share(&self, bytes_max: usize) -> usize {
        bytes_max / self.divisor
    }

    /// A second has ended; the new divisor if it is another one. They are halved each second while memory is
    /// short, and grow slowly, so that they do not swing.
    pub(crate) fn second(&mut self, is_short: bool) -> Option<usize> {
        let before = self.divisor;
        self.plenty = if is_short { 0 } else { self.plenty + 1 };
        if is_short {
            self.divisor = (self.divisor * 2).min(CACHE_DIVISOR_MAX);
        } else if self.divisor > 1 && self.plenty >= SECONDS_OF_PLENTY {
            (self.divisor, self.plenty) = (self.divisor / 2, 0);
        }
        (self.divisor != before).then_some(self.divisor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_shrink_at_once_and_grow_slowly() {
        let mut caches = Caches::default();
        let divisors: Vec<_> = (0..8).filter_map(|_| caches.second(true)).collect();
        assert_eq!(divisors, [2, 4, 8, 16, 32, 64]);
        let grown: Vec<_> = (1..=30).filter_map(|second| Some((second, caches.second(false)?))).collect();
        assert_eq!(grown, [(10, 32), (20, 16), (30, 8)]);
        assert_eq!(caches.second(true), Some(16));
        assert!((0..9).all(|_| caches.second(false).is_none()), "it was short a moment ago");
    }
}
