//! Replay window: which of the newest indices have been seen (RFC 3711 section 3.3.2).
//!
//! Used on both sides: a receiver drops what it has accepted before, a sender refuses to protect an
//! index twice. One bit an index in a ring of 64-bit words. Looking and marking are two functions:
//! a packet is authenticated between.

/// The newest indices and whether each was seen.
///
/// `0 <= highest - index < size` for every index the window knows; older ones are too old, newer
/// ones are new.
#[derive(Clone, Debug)]
pub(crate) struct ReplayWindow {
    /// Highest index marked; meaningless before the first.
    highest: u64,
    /// Indices in the window, `64 <= size <= 64 * words.len()`.
    size: u64,
    /// A power of two of words, so that a place in the ring is a mask away.
    words: Box<[u64]>,
    begun: bool,
}

/// What a window says of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Not seen before.
    New,
    /// Seen before.
    Seen,
    /// Before the window.
    TooOld,
}

impl ReplayWindow {
    /// A window of `size` indices, a multiple of 64.
    pub(crate) fn new(size: usize) -> Self {
        let words = (size / 64).next_power_of_two();
        Self { highest: 0, size: size as u64, words: vec![0; words].into_boxed_slice(), begun: false }
    }

    /// Whether `size` may be asked for.
    pub(crate) fn is_valid_size(size: usize) -> bool {
        (64..=32_768).contains(&size) && size.is_multiple_of(64)
    }

    /// The highest index marked.
    #[inline]
    pub(crate) fn highest(&self) -> Option<u64> {
        self.begun.then_some(self.highest)
    }

    /// What is known of `index`. Changes nothing.
    #[inline]
    pub(crate) fn look(&self, index: u64) -> Verdict {
        if !self.begun || index > self.highest {
            Verdict::New
        } else if self.highest - index >= self.size {
            Verdict::TooOld
        } else if self.words[self.word(index)] & bit(index) != 0 {
            Verdict::Seen
        } else {
            Verdict::New
        }
    }

    /// Marks `index`, which [`look`](Self::look) has found to be new.
    #[inline]
    pub(crate) fn mark(&mut self, index: u64) {
        debug_assert_eq!(self.look(index), Verdict::New);
        if !self.begun {
            self.begun = true;
            self.highest = index;
        } else if index > self.highest {
            // The window moves up: the places of the indices skipped and of `index` become free.
            let first = self.highest + 1;
            self.highest = index;
            if first == index {
                let word = self.word(index);
                self.words[word] &= !bit(index);
            } else {
                self.free(first, index);
            }
        }
        let word = self.word(index);
        self.words[word] |= bit(index);
    }

    /// Frees the places of `first..=last`, `first < last`.
    fn free(&mut self, first: u64, last: u64) {
        if last - first >= 64 * self.words.len() as u64 {
            self.words.fill(0);
            return;
        }
        let (first_word, last_word) = (first / 64, last / 64);
        for word in first_word..=last_word {
            let from = if word == first_word { u64::MAX << (first % 64) } else { u64::MAX };
            let to = if word == last_word { u64::MAX >> (63 - last % 64) } else { u64::MAX };
            let place = self.word(word * 64);
            self.words[place] &= !(from & to);
        }
    }

    #[inline]
    fn word(&self, index: u64) -> usize {
        (index / 64) as usize & (self.words.len() - 1)
    }
}

const fn bit(index: u64) -> u64 {
    1 << (index % 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// The same by a set of all indices ever marked.
    #[derive(Default)]
    struct Naive(BTreeSet<u64>);

    impl Naive {
        fn look(&self, index: u64, size: u64) -> Verdict {
            match self.0.last() {
                Some(&highest) if highest >= index && highest - index >= size => Verdict::TooOld,
                _ if self.0.contains(&index) => Verdict::Seen,
                _ => Verdict::New,
            }
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_set(
            size in prop::sample::select(vec![64usize, 128, 192, 1024]),
            start in 0u64..5000,
            steps in prop::collection::vec((-1500i64..1500, 0u8..4), 1..400),
        ) {
            let (mut window, mut naive) = (ReplayWindow::new(size), Naive::default());
            let mut position = start as i64;
            for (step, kind) in steps {
                // Most steps are small, as in a real stream; some jump by more than the window.
                let step = match kind { 0 => step, 1 => step / 10, _ => step / 400 };
                let index = (position + step).max(0) as u64;
                prop_assert_eq!(window.look(index), naive.look(index, size as u64), "index {}", index);
                if window.look(index) == Verdict::New {
                    window.mark(index);
                    naive.0.insert(index);
                    position = position.max(index as i64);
                }
            }
        }
    }
}
