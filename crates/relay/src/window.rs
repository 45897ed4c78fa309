//! Which numbers of a rising sequence have come: one bit each for the last so many.

/// Invariant: bits of numbers from `end` on are 0.
#[derive(Debug)]
pub(crate) struct Window {
    /// The number after the highest that came.
    end: u64,
    /// The lowest that came, or that is known to have been sent.
    first: u64,
    bits: Box<[u64]>,
}

impl Window {
    /// For the last `numbers`, a multiple of 64.
    pub(crate) fn new(numbers: usize) -> Self {
        Self { end: 0, first: u64::MAX, bits: vec![0; numbers / 64].into_boxed_slice() }
    }

    /// The same, where it is known that numbers begin with 0.
    pub(crate) fn from_zero(numbers: usize) -> Self {
        Self { first: 0, ..Self::new(numbers) }
    }

    /// Whether it is known from where on numbers count.
    pub(crate) fn has_begun(&self) -> bool {
        self.first < u64::MAX
    }

    /// Whether a number has not come yet. Those too old to tell have.
    #[inline]
    pub(crate) fn is_new(&self, number: u64) -> bool {
        if number >= self.end {
            return true;
        }
        let (word, bit) = self.place(number);
        self.end - number <= self.size() && self.bits[word] & bit == 0
    }

    /// A number has come, which is new.
    #[inline]
    pub(crate) fn accept(&mut self, number: u64) {
        if number >= self.end {
            if number - self.end >= self.size() {
                self.bits.fill(0);
            } else {
                for skipped in self.end..number {
                    let (word, bit) = self.place(skipped);
                    self.bits[word] &= !bit;
                }
            }
            self.end = number + 1;
        }
        self.first = self.first.min(number);
        let (word, bit) = self.place(number);
        self.bits[word] |= bit;
    }

    /// The lowest number that may still come, since the first that came and among the last `numbers`.
    pub(crate) fn first_missing(&self, numbers: u64) -> u64 {
        let from = self.end.saturating_sub(numbers.min(self.size())).max(self.first);
        (from..self.end).find(|number| self.is_new(*number)).unwrap_or(self.end)
    }

    fn size(&self) -> u64 {
        self.bits.len() as u64 * 64
    }

    #[inline]
    fn place(&self, number: u64) -> (usize, u64) {
        (number as usize / 64 % self.bits.len(), 1 << (number % 64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn it_agrees_with_a_set_of_all_numbers() {
        for seed in 0..20 {
            let (mut window, mut twin) = (Window::new(128), BTreeSet::new());
            let mut random = netsim::Random::new(seed);
            let mut near = 0u64;
            for _ in 0..5_000 {
                let step = if random.chance(0.01) { 300 } else { 3 };
                near += random.below(step);
                let number = near.saturating_sub(random.below(150));
                let highest = twin.last().copied().map_or(0, |last: u64| last + 1);
                let expected = number >= highest || highest - number <= 128 && !twin.contains(&number);
                assert_eq!(window.is_new(number), expected, "seed {seed}, number {number}");
                if expected {
                    window.accept(number);
                    twin.insert(number);
                }
                let from = twin.last().unwrap().saturating_sub(99).max(*twin.first().unwrap());
                let missing = (from..).find(|number| !twin.contains(number)).unwrap();
                assert_eq!(window.first_missing(100), missing, "seed {seed}, after {number}");
                assert_eq!(window.end, twin.last().unwrap() + 1);
            }
        }
    }

    #[test]
    fn what_is_known_to_begin_with_0_lacks_the_first_ones() {
        let (mut window, mut other) = (Window::from_zero(128), Window::new(128));
        assert_eq!((window.first_missing(100), window.has_begun(), other.has_begun()), (0, true, false));
        window.accept(3);
        other.accept(3);
        assert_eq!((window.first_missing(100), other.first_missing(100)), (0, 4));
        assert!(other.has_begun());
    }
}
