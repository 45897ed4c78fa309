//! Comparing one SSRC with many at once: a file per instruction set, and the one place that chooses among them.
//!
//! Every lane file has the same two functions and no policy. `matches` is on the path of every packet and has to be
//! inlined, which a function with instructions beyond the build's own cannot be: it is chosen when compiling.
//! `position` runs over arrays long enough to pay for a call: it is chosen by what the CPU has.
//! This folder is the only one of the crate with `unsafe` in it.

#[cfg(target_arch = "x86_64")]
#[allow(dead_code, reason = "what the CPU or the build has more of than this is used instead")]
mod avx2;
#[cfg(target_arch = "x86_64")]
#[allow(dead_code, reason = "only builds for AVX-512 compare blocks with it")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
#[allow(
    dead_code,
    reason = "used where there is nothing better, under Miri, and by every test as the oracle"
)]
mod scalar;
#[cfg(target_arch = "x86_64")]
#[allow(dead_code, reason = "builds for AVX2 or AVX-512 compare blocks with that")]
mod sse2;

/// SSRCs that `matches` compares in one go: two SSE2 or NEON registers, one of AVX2.
pub(crate) const BLOCK: usize = 8;

/// Bit `i` is set where `block[i] == ssrc`.
#[inline(always)]
pub(crate) fn matches(block: &[u32; BLOCK], ssrc: u32) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: every x86-64 CPU has SSE2.
    return unsafe { sse2::matches(block, ssrc) };
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: every 64-bit ARM CPU this is compiled for has NEON.
    return unsafe { neon::matches(block, ssrc) };
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    scalar::matches(block, ssrc)
}

/// Where `ssrc` is first in `ssrcs`.
pub(crate) fn position(ssrcs: &[u32], ssrc: u32) -> Option<usize> {
    #[cfg(all(target_arch = "x86_64", feature = "std", not(miri)))]
    {
        if std::is_x86_feature_detected!("avx512f") {
            // SAFETY: the CPU has AVX-512F, as just asked.
            return unsafe { avx512::position(ssrcs, ssrc) };
        }
        if std::is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has AVX2, as just asked.
            return unsafe { avx2::position(ssrcs, ssrc) };
        }
    }
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: every x86-64 CPU has SSE2.
    return unsafe { sse2::position(ssrcs, ssrc) };
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: every 64-bit ARM CPU this is compiled for has NEON.
    return unsafe { neon::position(ssrcs, ssrc) };
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    scalar::position(ssrcs, ssrc)
}
