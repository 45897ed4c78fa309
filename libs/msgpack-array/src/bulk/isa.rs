//! Instruction sets there is code for, and which of them this machine has.
//!
//! The CPU is asked once per process: later calls read one byte. With `std` its detection is asked,
//! which also knows what the operating system saves; without it `CPUID` and `XCR0` are read here.
//! Which code an instruction set stands for is left to `encode/` and `decode/`.

use core::sync::atomic::{AtomicU8, Ordering};

/// An instruction set that there is code for. A later one in the order of the variants is the
/// better one, where both are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Isa {
    /// No vectors. Always there.
    Scalar,
    /// x86-64: SSSE3, SSE4.1 and POPCNT.
    Sse,
    /// x86-64: AVX2 with BMI1, BMI2, LZCNT and POPCNT, which every CPU with AVX2 has had so far.
    Avx2,
    /// x86-64: AVX-512 F, BW, CD, DQ, VL, VBMI and VBMI2 on top of [`Avx2`](Self::Avx2): Ice Lake,
    /// Zen 4 and later ones.
    Avx512,
    /// 64-bit ARM, little-endian.
    Neon,
    /// WebAssembly's vectors of 128 bits, where the crate was compiled with them
    /// (`-C target-feature=+simd128`).
    Simd128,
}

impl Isa {
    /// All of them, for this machine or not.
    pub const ALL: [Self; 6] = [Self::Scalar, Self::Sse, Self::Avx2, Self::Avx512, Self::Neon, Self::Simd128];

    /// The best one of this machine. Asks the CPU once per process.
    #[inline]
    pub fn detect() -> Self {
        let best = (available_set() & !KNOWN).ilog2();
        Self::ALL[best as usize]
    }

    /// Whether this machine has it.
    #[inline]
    pub fn is_available(self) -> bool {
        available_set() & self.bit() != 0
    }

    /// Those of this machine, the best one last. [`Scalar`](Self::Scalar) is always among them.
    pub fn available() -> impl DoubleEndedIterator<Item = Self> {
        Self::ALL.into_iter().filter(|isa| isa.is_available())
    }

    /// Its name in lower case: `scalar`, `sse`, `avx2`, `avx512`, `neon`,
    /// `simd128`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Sse => "sse",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Neon => "neon",
            Self::Simd128 => "simd128",
        }
    }

    /// The one with this [`name`](Self::name), whether this machine has it or not.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|isa| isa.name() == name)
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Set in [`AVAILABLE`] as soon as the rest of it means something.
const KNOWN: u8 = 0x80;

/// A bit per instruction set of this machine. Threads that race to set it all write the same.
static AVAILABLE: AtomicU8 = AtomicU8::new(0);

#[inline]
fn available_set() -> u8 {
    match AVAILABLE.load(Ordering::Relaxed) {
        0 => ask(),
        set => set,
    }
}

#[cold]
fn ask() -> u8 {
    let mut set = KNOWN | Isa::Scalar.bit();
    #[cfg(target_arch = "x86_64")]
    {
        #[cfg(feature = "std")]
        let features = x86::detected_by_std();
        #[cfg(not(feature = "std"))]
        let features = x86::detected_by_cpuid();
        set |= features.set();
    }
    if cfg!(all(target_arch = "aarch64", target_endian = "little", target_feature = "neon")) {
        set |= Isa::Neon.bit();
    }
    if cfg!(all(target_arch = "wasm32", target_feature = "simd128")) {
        set |= Isa::Simd128.bit();
    }
    AVAILABLE.store(set, Ordering::Relaxed);
    set
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Isa;

    /// What the CPU has and the operating system lets programs use, as far as it matters here.
    #[derive(Debug, PartialEq, Eq)]
    pub(super) struct Features {
        sse: bool,
        avx2: bool,
        avx512: bool,
    }

    impl Features {
        pub(super) fn set(&self) -> u8 {
            let Self { sse, avx2, avx512 } = *self;
            [(sse, Isa::Sse), (sse && avx2, Isa::Avx2), (sse && avx2 && avx512, Isa::Avx512)]
                .into_iter()
                .fold(0, |set, (there, isa)| if there { set | isa.bit() } else { set })
        }
    }

    #[cfg(feature = "std")]
    pub(super) fn detected_by_std() -> Features {
        use std::is_x86_feature_detected as has;
        Features {
            sse: has!("ssse3") && has!("sse4.1") && has!("popcnt"),
            avx2: has!("avx2") && has!("bmi1") && has!("bmi2") && has!("lzcnt"),
            avx512: has!("avx512f")
                && has!("avx512bw")
                && has!("avx512cd")
                && has!("avx512dq")
                && has!("avx512vl")
                && has!("avx512vbmi")
                && has!("avx512vbmi2"),
        }
    }

    /// The same without the standard library (Intel SDM volume 2A, `CPUID`; volume 1 section 14.3
    /// for AVX, 15.2 for AVX-512).
    #[cfg(any(not(feature = "std"), all(test, not(miri))))]
    pub(super) fn detected_by_cpuid() -> Features {
        use core::arch::x86_64::{__cpuid, __cpuid_count};

        let highest = __cpuid(0).eax;
        let highest_extended = __cpuid(0x8000_0000).eax;
        let leaf1 = __cpuid(1).ecx;
        let (leaf7_ebx, leaf7_ecx) = match highest {
            7.. => (__cpuid_count(7, 0).ebx, __cpuid_count(7, 0).ecx),
            _ => (0, 0),
        };
        let extended1 = if highest_extended >= 0x8000_0001 { __cpuid(0x8000_0001).ecx } else { 0 };
        let saved = if leaf1 & OSXSAVE == 0 { 0 } else { registers_saved() };
        Features {
            sse: all(leaf1, SSSE3 | SSE4_1 | POPCNT),
            avx2: all(saved, YMM)
                && all(leaf1, AVX)
                && all(leaf7_ebx, AVX2 | BMI1 | BMI2)
                && all(extended1, LZCNT),
            avx512: all(saved, ZMM)
                && all(leaf7_ebx, AVX512F | AVX512DQ | AVX512CD | AVX512BW | AVX512VL)
                && all(leaf7_ecx, AVX512_VBMI | AVX512_VBMI2),
        }
    }

    #[cfg(any(not(feature = "std"), all(test, not(miri))))]
    fn registers_saved() -> u32 {
        // SAFETY: only called when CPUID says OSXSAVE, so XGETBV exists and may be executed.
        unsafe { core::arch::x86_64::_xgetbv(0) as u32 }
    }

    #[cfg(any(not(feature = "std"), all(test, not(miri))))]
    fn all(word: u32, bits: u32) -> bool {
        word & bits == bits
    }

    #[cfg(any(not(feature = "std"), all(test, not(miri))))]
    mod bits {
        /// Leaf 1, ECX.
        pub(super) const SSSE3: u32 = 1 << 9;
        pub(super) const SSE4_1: u32 = 1 << 19;
        pub(super) const POPCNT: u32 = 1 << 23;
        pub(super) const OSXSAVE: u32 = 1 << 27;
        pub(super) const AVX: u32 = 1 << 28;
        /// Leaf 7, EBX.
        pub(super) const BMI1: u32 = 1 << 3;
        pub(super) const AVX2: u32 = 1 << 5;
        pub(super) const BMI2: u32 = 1 << 8;
        pub(super) const AVX512F: u32 = 1 << 16;
        pub(super) const AVX512DQ: u32 = 1 << 17;
        pub(super) const AVX512CD: u32 = 1 << 28;
        pub(super) const AVX512BW: u32 = 1 << 30;
        pub(super) const AVX512VL: u32 = 1 << 31;
        /// Leaf 7, ECX.
        pub(super) const AVX512_VBMI: u32 = 1 << 1;
        pub(super) const AVX512_VBMI2: u32 = 1 << 6;
        /// Leaf 0x8000_0001, ECX.
        pub(super) const LZCNT: u32 = 1 << 5;
        /// XCR0: SSE and AVX state; and with it opmask, upper halves of ZMM0-15, ZMM16-31.
        pub(super) const YMM: u32 = 0x06;
        pub(super) const ZMM: u32 = 0xe6;
    }
    #[cfg(any(not(feature = "std"), all(test, not(miri))))]
    use bits::*;

    /// The two ways to ask give one answer.
    #[cfg(all(test, feature = "std", not(miri)))]
    #[test]
    fn cpuid_says_what_std_says() {
        assert_eq!(detected_by_cpuid(), detected_by_std());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_instruction_set_is_the_last_available_one() {
        assert_eq!(Isa::available().next(), Some(Isa::Scalar));
        assert_eq!(Isa::available().last(), Some(Isa::detect()));
        assert!(Isa::ALL.is_sorted());
    }

    #[test]
    fn names_are_read_back() {
        for isa in Isa::ALL {
            assert_eq!(Isa::from_name(isa.name()), Some(isa));
        }
        assert_eq!(Isa::from_name("AVX2"), None);
    }

    #[test]
    fn what_is_built_in_is_available() {
        assert_eq!(Isa::Neon.is_available(), cfg!(all(target_arch = "aarch64", target_endian = "little")));
        assert_eq!(
            Isa::Simd128.is_available(),
            cfg!(all(target_arch = "wasm32", target_feature = "simd128"))
        );
        if cfg!(target_arch = "aarch64") {
            assert!(!Isa::Sse.is_available());
        }
        assert!(Isa::available().all(Isa::is_available));
    }
}
