//! The keyed hash that says which two slots of the table an SSRC may be in.
//!
//! One 64 x 64 bit multiplication whose halves are folded together. A plain multiplication (keep the upper bits) is a
//! few tenths of a nanosecond less, but whatever its secret factor is, arithmetic progressions land in progressions,
//! and a table of two choices needs more than that. What is done with the two numbers is decided in `table.rs`.

/// Two secret numbers; every reseeding makes new ones of the old.
#[derive(Clone)]
pub(crate) struct Hash {
    offset: u64,
    factor: u64,
}

impl Hash {
    /// The hash of a seed. All of its secrecy is that of `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        let offset = mix(seed.wrapping_add(GOLDEN));
        // Odd, so that it is never zero.
        let factor = mix(offset.wrapping_add(GOLDEN)) | 1;
        Self { offset, factor }
    }

    /// Another hash, as independent of this one as a mixed counter can be.
    pub(crate) fn next(&self) -> Self {
        Self::new(self.offset ^ self.factor.rotate_left(32))
    }

    /// 64 bits of which the lower 32 and the upper 32 are used as two hashes.
    #[inline(always)]
    pub(crate) fn of(&self, ssrc: u32) -> u64 {
        let product = u128::from(self.offset ^ u64::from(ssrc)) * u128::from(self.factor);
        product as u64 ^ (product >> 64) as u64
    }
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// 2^64 divided by the golden ratio: the step of SplitMix64.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
