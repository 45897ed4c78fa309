//! Checksums of payload shared by the recipients of one call, so that it is read once for all.
//!
//! Shared means the same slice: same address, same length. That holds only within one call, during
//! which the caller cannot write to it.

use crate::frame::Sum;

/// The sums of the latest slices, direct-mapped by address: a slice that collides with another is
/// summed again.
pub(super) struct SharedSums {
    entries: [Entry; ENTRIES],
    /// Entries of earlier rounds are invalid.
    round: u64,
}

#[derive(Clone, Copy, Default)]
struct Entry {
    round: u64,
    address: usize,
    len: usize,
    sum: Sum,
}

/// Packets of a video frame that a group is sent at once, generously. A power of two.
const ENTRIES: usize = 64;

/// Slices shorter than this are summed faster than found.
const SHORT: usize = 64;

impl Default for SharedSums {
    fn default() -> Self {
        Self { entries: [Entry::default(); ENTRIES], round: 1 }
    }
}

impl SharedSums {
    /// Another call begins: what slices hold may have changed.
    pub(super) fn forget(&mut self) {
        self.round += 1;
    }

    #[inline]
    pub(super) fn of(&mut self, slice: &[u8]) -> Sum {
        if slice.len() < SHORT {
            return Sum::of(slice);
        }
        let (round, address, len) = (self.round, slice.as_ptr().addr(), slice.len());
        // Slices of one buffer lie at least as far apart as they are long.
        let entry = &mut self.entries[((address / SHORT) ^ (address / (SHORT * ENTRIES))) % ENTRIES];
        if entry.address != address || entry.len != len || entry.round != round {
            *entry = Entry { round, address, len, sum: Sum::of(slice) };
        }
        entry.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_what_it_was_until_the_call_ends() {
        let mut bytes = vec![1u8; 4000];
        let mut sums = SharedSums::default();
        for len in [0, 1, 63, 64, 65, 1200, 4000] {
            for from in [0, 1, 2, 64, 100] {
                let slice = &bytes[from.min(4000 - len)..][..len];
                assert_eq!(sums.of(slice), Sum::of(slice));
                assert_eq!(sums.of(slice), Sum::of(slice));
            }
        }
        bytes.fill(2);
        sums.forget();
        assert_eq!(sums.of(&bytes), Sum::of(&bytes));
    }

    #[test]
    fn more_slices_than_entries_are_summed_as_well() {
        let bytes: Vec<u8> = (0..20_000u32).map(|n| (n % 251) as u8).collect();
        let mut sums = SharedSums::default();
        for _ in 0..2 {
            for slice in bytes.chunks(100).chain(bytes.chunks(99)) {
                assert_eq!(sums.of(slice), Sum::of(slice));
            }
        }
    }
}
