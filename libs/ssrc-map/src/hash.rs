//! The keyed hash that says which two slots of the table an SSRC may be in.
//!
//! One 64 x 64 bit multiplication by a secret number, its halves folded together. It need not be
//! perfect: for sets of SSRCs made to hurt it (progressions, grids, powers of two) at most one
//! secret in seven makes a table that does not work out, against one in fifty for random numbers,
//! and then `table.rs` takes another secret. Adding a secret before multiplying gains little there
//! and costs 0.1 ns a look-up; SipHash or two rounds would cost more than the look-up.

/// A secret odd factor.
#[derive(Clone)]
pub(crate) struct Hash(u64);

impl Hash {
    /// The hash of a seed. All of its secrecy is that of `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self(mix(seed.wrapping_add(GOLDEN)) | 1)
    }

    /// Another hash, as independent of this one as two numbers of a generator can be.
    pub(crate) fn next(&self) -> Self {
        Self::new(self.0)
    }

    /// 64 bits, of which the lower 32 and the upper 32 are used as two hashes.
    #[inline(always)]
    pub(crate) fn of(&self, ssrc: u32) -> u64 {
        let product = u128::from(ssrc) * u128::from(self.0);
        product as u64 ^ (product >> 64) as u64
    }
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
/// generators", 2014).
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// 2^64 divided by the golden ratio: the step of SplitMix64.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
