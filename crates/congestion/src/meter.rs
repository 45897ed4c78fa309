//! Rates: of bytes over a sliding window, and of packets that followed each other without a pause.

/// Bytes over the last 800 ms, in slots of 25 ms of whichever clock the caller has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter {
    slots: [u32; SLOTS],
    /// Number of the slot that is filled, `time / 25 ms`; `None` before the first byte.
    newest: Option<i64>,
    first: i64,
}

impl Meter {
    #[inline]
    pub(crate) fn add(&mut self, at_us: i64, bytes: u32) {
        let slot = at_us.div_euclid(SLOT_US);
        let newest = *self.newest.get_or_insert_with(|| {
            self.first = slot;
            slot
        });
        if slot > newest {
            for passed in 1..=(slot - newest).min(SLOTS as i64) {
                self.slots[index(newest + passed)] = 0;
            }
            self.newest = Some(slot);
        } else if newest - slot >= SLOTS as i64 {
            return;
        }
        let bytes_of_slot = &mut self.slots[index(slot)];
        // A receiver may name one time for everything.
        *bytes_of_slot = bytes_of_slot.saturating_add(bytes);
    }

    /// Bits per second over the `window` (at most 800 ms) that ends at `at_us`, counted from the
    /// first byte if that is later; `None` before anything of 50 ms.
    pub(crate) fn rate(&self, at_us: i64, window_us: i64) -> Option<f64> {
        let newest = self.newest?;
        let end = at_us.div_euclid(SLOT_US);
        // The slot that is being filled is left out: it would be counted in full.
        let begin = (end - window_us / SLOT_US).max(self.first);
        let slots = end - begin;
        if slots < 2 {
            return None;
        }
        let sum: u64 = (begin..end)
            .filter(|slot| *slot <= newest && newest - slot < SLOTS as i64)
            .map(|slot| u64::from(self.slots[index(slot)]))
            .sum();
        Some(sum as f64 * 8e6 / (slots * SLOT_US) as f64)
    }
}

fn index(slot: i64) -> usize {
    slot.rem_euclid(SLOTS as i64) as usize
}

const SLOTS: usize = 32;
const SLOT_US: i64 = 25_000;

/// Rate at which packets left the bottleneck one right after the other: bytes of each but the
/// first, over the time between arrivals. Older ones count less and less.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spacing {
    bytes: f32,
    gap_us: f32,
    packets: f32,
    /// When something was added, on our clock.
    at_us: u64,
}

impl Spacing {
    #[inline]
    pub(crate) fn add(&mut self, bytes: u16, gap_us: i64, now_us: u64, memory_us: f32) {
        if self.gap_us > memory_us || self.packets > 32.0 {
            self.bytes *= 0.5;
            self.gap_us *= 0.5;
            self.packets *= 0.5;
        }
        self.bytes += f32::from(bytes);
        self.gap_us += gap_us as f32;
        self.packets += 1.0;
        self.at_us = now_us;
    }

    /// Bits per second, if `packets` of them were seen and the last at most `age_us` ago.
    pub(crate) fn rate(&self, packets: f32, now_us: u64, age_us: u64) -> Option<f64> {
        let known = self.packets >= packets && now_us.saturating_sub(self.at_us) <= age_us;
        // Gaps of nothing are a clock or a network that hands packets on in batches: faster than
        // can be told.
        known.then(|| f64::from(self.bytes) * 8e6 / f64::from(self.gap_us.max(1.0)))
    }

    pub(crate) fn at_us(&self) -> u64 {
        self.at_us
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_over_whole_slots_of_the_window() {
        let mut meter = Meter::default();
        assert_eq!(meter.rate(0, 500_000), None);
        for at in 0..100 {
            meter.add(10_000 * at, 1250);
        }
        assert_eq!(meter.rate(1_000_000, 500_000), Some(1e6));
        assert_eq!(meter.rate(1_250_000, 500_000), Some(0.5e6), "half of it was quiet");
        assert_eq!(meter.rate(5_000_000, 500_000), Some(0.0));
        meter.add(-5_000_000, 1_000_000);
        assert_eq!(meter.rate(1_000_000, 500_000), Some(1e6), "too old to count");
    }

    #[test]
    fn spacing_is_bytes_over_gaps_and_ages() {
        let mut spacing = Spacing::default();
        for _ in 0..4 {
            spacing.add(1250, 10_000, 7, 100_000.0);
        }
        assert_eq!(spacing.rate(5.0, 7, 100), None, "too few");
        assert_eq!(spacing.rate(4.0, 7, 100), Some(1e6));
        assert_eq!(spacing.rate(4.0, 200, 100), None, "too old");
    }
}
