//! Comparing one SSRC with many at once: a file per instruction set, and the one place that chooses
//! among them.
//!
//! Every lane file has the same two functions and no policy. `first` compares 8 SSRCs, or 16 with
//! AVX-512. It is on the path of every packet and has to be inlined, which a function with
//! instructions beyond those of the build cannot be, so it is chosen when compiling. `position`
//! runs over arrays long enough to pay for a call, so it is chosen by what the CPU has. This folder
//! is the only one of the crate with `unsafe` in it.

#[cfg(target_arch = "x86_64")]
#[allow(dead_code, reason = "`first` is for builds for AVX2, `position` where detection is possible")]
mod avx2;
#[cfg(target_arch = "x86_64")]
#[allow(dead_code, reason = "`first` is for builds for AVX-512, `position` where detection is possible")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
#[allow(dead_code, reason = "for other CPUs, and for every test: the oracle")]
mod scalar;
#[cfg(target_arch = "x86_64")]
#[allow(dead_code, reason = "not for builds for more than the baseline")]
mod sse2;

/// As many SSRCs as one comparison takes, so aligned that SSE2 can read them where they are.
#[derive(Clone)]
#[repr(C, align(16))]
pub(crate) struct Block<const LEN: usize>(pub(crate) [u32; LEN]);

/// The functions of this module, from a lane file whose instructions this build takes for granted.
macro_rules! every_cpu_has {
    ($lanes:ident) => {
        pub(crate) use $lanes::BLOCK;

        /// Where `ssrc` is first in `block`; [`BLOCK`] or more if it is not there.
        #[inline(always)]
        pub(crate) fn first(block: &Block<BLOCK>, ssrc: u32) -> usize {
            // SAFETY: the build targets CPUs that have what the lane file needs.
            unsafe { $lanes::first(block, ssrc) }
        }

        /// Where `ssrc` is first in `ssrcs`.
        pub(crate) fn position(ssrcs: &[u32], ssrc: u32) -> Option<usize> {
            #[cfg(all(target_arch = "x86_64", feature = "std"))]
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
            // SAFETY: the build targets CPUs that have what the lane file needs.
            unsafe { $lanes::position(ssrcs, ssrc) }
        }
    };
}

cfg_select! {
    all(target_arch = "x86_64", target_feature = "avx512f") => { every_cpu_has!(avx512); }
    all(target_arch = "x86_64", target_feature = "avx2") => { every_cpu_has!(avx2); }
    target_arch = "x86_64" => { every_cpu_has!(sse2); }
    target_arch = "aarch64" => { every_cpu_has!(neon); }
    _ => { pub(crate) use scalar::{BLOCK, first, position}; }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    /// The scalar functions against a loop written out.
    #[test]
    fn scalar_finds_the_first() {
        for len in 0..=70_u32 {
            let ssrcs: Vec<u32> = (0..len).map(|n| n ^ 0x5555_5555).collect();
            for n in 0..len {
                assert_eq!(scalar::position(&ssrcs, n ^ 0x5555_5555), Some(n as usize));
            }
            assert_eq!(scalar::position(&ssrcs, 0), None);
        }
        assert_eq!(scalar::position(&[7, 8, 7], 7), Some(0));
        assert_eq!(scalar::first(&Block([7, 8, 9, 8]), 8), 1);
        assert!(scalar::first(&Block([7, 8, 9, 8]), 6) >= 4);
    }

    /// Every length, every offset of the array, every place of the SSRC sought, and SSRCs that are
    /// almost the same.
    fn position_is_that_of_scalar(position: impl Fn(&[u32], u32) -> Option<usize>) {
        let mut random = random();
        let ssrcs: Vec<u32> = (0..90).map(|_| random()).collect();
        for offset in (0..=16).step_by(if cfg!(miri) { 13 } else { 1 }) {
            for len in (0..=70).step_by(if cfg!(miri) { 9 } else { 1 }) {
                let ssrcs = &ssrcs[offset..offset + len];
                for sought in [0, 1, u32::MAX, random()] {
                    assert_eq!(position(ssrcs, sought), scalar::position(ssrcs, sought), "{offset} {len}");
                }
                for (at, &ssrc) in ssrcs.iter().enumerate() {
                    assert_eq!(position(ssrcs, ssrc), Some(at), "{offset} {len}");
                    let almost = ssrc ^ (1 << (random() % 32));
                    assert_eq!(position(ssrcs, almost), scalar::position(ssrcs, almost), "{offset} {len}");
                }
            }
        }
        // Few distinct values, so that an SSRC is there more than once, also in one register.
        for _ in 0..if cfg!(miri) { 50 } else { 20_000 } {
            let ssrcs: Vec<u32> = (0..random() % 71).map(|_| random() % 40).collect();
            let sought = random() % 40;
            assert_eq!(position(&ssrcs, sought), scalar::position(&ssrcs, sought), "{sought} in {ssrcs:?}");
        }
    }

    fn first_is_that_of_scalar<const LANES: usize>(first: impl Fn(&Block<LANES>, u32) -> usize) {
        let mut random = random();
        for _ in 0..if cfg!(miri) { 50 } else { 20_000 } {
            let block = Block([(); LANES].map(|()| random() % (LANES as u32 + 2)));
            let sought = random() % (LANES as u32 + 2);
            let (found, expected) = (first(&block, sought), scalar::first(&block, sought));
            // Out of the block is out of the block, wherever.
            assert_eq!(found.min(LANES), expected, "{sought} in {:?}", block.0);
        }
        for lane in 0..LANES {
            for bit in (0..32).step_by(if cfg!(miri) { 9 } else { 1 }) {
                let mut block = Block([u32::MAX; LANES]);
                block.0[lane] = 1 << bit;
                assert_eq!(first(&block, 1 << bit), lane);
                assert!(first(&block, (1 << bit) ^ 0x8000_0001) >= LANES);
            }
        }
    }

    /// Numbers from a seed that is printed, so that a failure can be repeated.
    fn random() -> impl FnMut() -> u32 {
        use std::hash::{BuildHasher, RandomState};
        let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
        let seed: u64 = seed.unwrap_or_else(|| RandomState::new().hash_one(0));
        std::eprintln!("SEED={seed}");
        let mut state = seed;
        move || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            ((state >> 32) ^ (state >> 17)) as u32
        }
    }

    #[test]
    fn the_build_s_own_lanes_are_as_scalar() {
        position_is_that_of_scalar(position);
        first_is_that_of_scalar(first);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn sse2_is_as_scalar() {
        // SAFETY: every x86-64 CPU has SSE2.
        position_is_that_of_scalar(|ssrcs, ssrc| unsafe { sse2::position(ssrcs, ssrc) });
        // SAFETY: every x86-64 CPU has SSE2.
        first_is_that_of_scalar(|block, ssrc| unsafe { sse2::first(block, ssrc) });
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn avx2_is_as_scalar() {
        if !std::is_x86_feature_detected!("avx2") {
            std::eprintln!("skipped: this CPU has no AVX2");
            return;
        }
        // SAFETY: the CPU has AVX2, as just asked.
        position_is_that_of_scalar(|ssrcs, ssrc| unsafe { avx2::position(ssrcs, ssrc) });
        // SAFETY: the CPU has AVX2, as just asked.
        first_is_that_of_scalar(|block, ssrc| unsafe { avx2::first(block, ssrc) });
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn avx512_is_as_scalar() {
        if !std::is_x86_feature_detected!("avx512f") {
            std::eprintln!("skipped: this CPU has no AVX-512");
            return;
        }
        // SAFETY: the CPU has AVX-512F, as just asked.
        position_is_that_of_scalar(|ssrcs, ssrc| unsafe { avx512::position(ssrcs, ssrc) });
        // SAFETY: the CPU has AVX-512F, as just asked.
        first_is_that_of_scalar(|block, ssrc| unsafe { avx512::first(block, ssrc) });
    }

    #[cfg(target_arch = "aarch64")]
    #[test]
    fn neon_is_as_scalar() {
        // SAFETY: every 64-bit ARM CPU this is compiled for has NEON.
        position_is_that_of_scalar(|ssrcs, ssrc| unsafe { neon::position(ssrcs, ssrc) });
        // SAFETY: every 64-bit ARM CPU this is compiled for has NEON.
        first_is_that_of_scalar(|block, ssrc| unsafe { neon::first(block, ssrc) });
    }
}
