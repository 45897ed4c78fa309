//! Numbers that wrap on the wire made into numbers that do not.
//!
//! A number is taken to be within half a cycle of the highest one seen. Which packets may move the
//! highest one is the caller's choice: only authentic ones should.

/// Whether `a` comes after `b` on a circle of 2^32, the shorter way round. Exactly opposite: neither does.
#[inline]
pub fn is_newer_timestamp(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

macro_rules! unwrapper {
    ($(#[$doc:meta])* $name:ident, $wire:ty, $signed:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            highest: Option<u64>,
        }

        impl $name {
            /// Nothing seen yet.
            pub const fn new() -> Self {
                Self { highest: None }
            }

            /// The number in full, without remembering it.
            ///
            /// The first one gets cycle 1, so that those before it have numbers too. One exactly
            /// half a cycle away is taken to be older.
            #[inline]
            pub fn peek(&self, number: $wire) -> u64 {
                let Some(highest) = self.highest else { return u64::from(number) + (1 << <$wire>::BITS) };
                let distance = number.wrapping_sub(highest as $wire).cast_signed();
                highest.wrapping_add_signed(i64::from(distance))
            }

            /// The number in full; it is the highest from now on if it is higher.
            #[inline]
            pub fn unwrap(&mut self, number: $wire) -> u64 {
                let full = self.peek(number);
                self.highest = Some(self.highest.map_or(full, |highest| highest.max(full)));
                full
            }

            /// The highest number so far.
            #[inline]
            pub fn highest(&self) -> Option<u64> {
                self.highest
            }
        }
    };
}

unwrapper! {
    /// Makes 64-bit sequence numbers of 16-bit ones.
    SequenceUnwrapper, u16, i16
}

unwrapper! {
    /// Makes 64-bit timestamps of 32-bit ones.
    TimestampUnwrapper, u32, i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_way_round_decides() {
        for (a, b, newer) in [
            (1, 0, true),
            (0, 0, false),
            (0, 0xffff_ffff, true),  // wrapped
            (0xffff_ffff, 0, false), // just before the wrap
            (0x7fff_ffff, 0, true),  // as far as it goes
            (0x8000_0000, 0, false), // opposite
            (0, 0x8000_0000, false), // opposite
        ] {
            assert_eq!(is_newer_timestamp(a, b), newer, "{a:#x} after {b:#x}");
        }
    }

    #[test]
    fn numbers_in_full_follow_the_nearest_wrap() {
        let mut sequence = SequenceUnwrapper::new();
        for (number, expected, remark) in [
            (0xfffe, 0x1_fffe, "first: cycle 1"),
            (0xffff, 0x1_ffff, "next"),
            (0x0001, 0x2_0001, "wrapped, one lost"),
            (0xfff0, 0x1_fff0, "late, of the cycle before"),
            (0x0000, 0x2_0000, "late"),
            (0x8000, 0x2_8000, "a jump just short of half a cycle"),
            (0x0000, 0x2_0000, "half a cycle: older"),
            (0xffff, 0x2_ffff, "onwards"),
            (0x0000, 0x3_0000, "wrapped again"),
        ] {
            assert_eq!(sequence.peek(number), expected, "{remark}");
            assert_eq!(sequence.unwrap(number), expected, "{remark}");
        }
        assert_eq!(sequence.highest(), Some(0x3_0000));
    }

    #[test]
    fn what_came_before_the_first_has_a_number() {
        let mut sequence = SequenceUnwrapper::new();
        assert_eq!(sequence.unwrap(0), 0x1_0000);
        assert_eq!(sequence.unwrap(0xffff), 0xffff);
        assert_eq!(sequence.unwrap(0x8000), 0x8000);
        let mut timestamp = TimestampUnwrapper::new();
        assert_eq!(timestamp.unwrap(5), 0x1_0000_0005);
        assert_eq!(timestamp.unwrap(0xffff_ffff), 0xffff_ffff);
    }

    #[test]
    fn a_thousand_cycles_are_counted() {
        let mut sequence = SequenceUnwrapper::new();
        let mut timestamp = TimestampUnwrapper::new();
        for step in 0..4000u64 {
            assert_eq!(sequence.unwrap((step * 0x3fff) as u16), 0x1_0000 + step * 0x3fff);
            assert_eq!(timestamp.unwrap((step * 0x3fff_ffff) as u32), 0x1_0000_0000 + step * 0x3fff_ffff);
        }
    }
}
