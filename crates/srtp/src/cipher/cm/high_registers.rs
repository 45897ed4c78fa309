//! Two steps on the registers zmm16 to zmm31 only, for use between the instructions of the SHA extensions.
//!
//! The SHA extensions have only the legacy encoding, and a legacy instruction costs about 400 cycles here for as long
//! as the upper part of any of zmm0 to zmm15 is in use; zmm16 to zmm31, which legacy code cannot name, do not count.
//! A compiler cannot be told to keep a value in them across code, hence assembly. Which bytes, is decided by `chain.rs`.
#![expect(unsafe_code, reason = "assembly: the only way to choose the registers")]

use std::arch::asm;
use std::arch::x86_64::__m128i;

/// Encrypts `len` bytes, 1 to 64, with the key stream of the four counter blocks `block`, `block` + 1, +2 and +3,
/// where the last byte of `block` is a multiple of 4.
///
/// # Safety
/// `source` and `target` are `len` readable and writable bytes, the same or not overlapping. `ROUND_KEYS` is 11 or 15.
/// The CPU runs [`Backend::Avx512`](crate::Backend::Avx512).
#[inline]
#[target_feature(enable = "avx512bw,avx512dq,avx512vl,vaes")]
pub(super) unsafe fn encrypt<const ROUND_KEYS: usize>(
    round_keys: &[[u8; 16]; ROUND_KEYS],
    block: __m128i,
    source: *const u8,
    target: *mut u8,
    len: usize,
) {
    const { assert!(ROUND_KEYS == 11 || ROUND_KEYS == 15) };
    debug_assert!((1..=64).contains(&len));
    let live = u64::MAX >> (64 - len);
    macro_rules! steps {
        ($last:literal, $($offset:literal)*) => {
            // SAFETY: reads `ROUND_KEYS` round keys, 64 bytes of `COUNTERS`, and of `source` only the bytes in `live`;
            // writes only those of `target`. Only declared registers change.
            unsafe {
                asm!(
                    "vinserti32x4 ymm16, {block:y}, {block}, 1",
                    "vporq ymm17, ymm16, [{counters} + 32]",
                    "vporq ymm16, ymm16, [{counters}]",
                    "vbroadcasti32x4 ymm18, [{keys}]",
                    "vpxorq ymm16, ymm16, ymm18",
                    "vpxorq ymm17, ymm17, ymm18",
                    $(
                        concat!("vbroadcasti32x4 ymm18, [{keys} + ", $offset, "]"),
                        "vaesenc ymm16, ymm16, ymm18",
                        "vaesenc ymm17, ymm17, ymm18",
                    )*
                    concat!("vbroadcasti32x4 ymm18, [{keys} + ", $last, "]"),
                    "vaesenclast ymm16, ymm16, ymm18",
                    "vaesenclast ymm17, ymm17, ymm18",
                    "vmovdqu8 ymm18 {{{low}}} {{z}}, [{source}]",
                    "vmovdqu8 ymm19 {{{high}}} {{z}}, [{source} + 32]",
                    "vpxorq ymm16, ymm16, ymm18",
                    "vpxorq ymm17, ymm17, ymm19",
                    "vmovdqu8 [{target}] {{{low}}}, ymm16",
                    "vmovdqu8 [{target} + 32] {{{high}}}, ymm17",
                    block = in(xmm_reg) block,
                    counters = in(reg) &COUNTERS.0,
                    keys = in(reg) round_keys,
                    source = in(reg) source,
                    target = in(reg) target,
                    low = in(kreg) live as u32,
                    high = in(kreg) (live >> 32) as u32,
                    out("ymm16") _,
                    out("ymm17") _,
                    out("ymm18") _,
                    out("ymm19") _,
                    options(nostack, preserves_flags),
                );
            }
        };
    }
    if ROUND_KEYS == 11 {
        steps!(160, 16 32 48 64 80 96 112 128 144);
    } else {
        steps!(224, 16 32 48 64 80 96 112 128 144 160 176 192 208);
    }
}

/// Puts `len` bytes, 0 to 63, at the start of `target`, which is zero there, and leaves the others as they are.
///
/// All is written at once, so that a read of any part soon after need not wait for memory.
///
/// # Safety
/// `source` is `len` readable bytes. The CPU runs [`Backend::Avx512`](crate::Backend::Avx512).
#[inline]
#[target_feature(enable = "avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn join(source: *const u8, len: usize, target: &mut [u8; 64]) {
    debug_assert!(len < 64);
    let live = (1_u64 << len) - 1;
    // SAFETY: reads of `source` only the bytes in `live`, reads and writes the 64 bytes of `target`.
    unsafe {
        asm!(
            "vmovdqu8 zmm16 {{{live}}} {{z}}, [{source}]",
            "vporq zmm16, zmm16, [{target}]",
            "vmovdqu64 [{target}], zmm16",
            source = in(reg) source,
            target = in(reg) target,
            live = in(kreg) live,
            out("zmm16") _,
            options(nostack, preserves_flags),
        );
    }
}

/// What is added to the counter block in each quarter of a register: 0 to 3 in the last byte, big-endian.
#[repr(align(64))]
struct Counters([u8; 64]);

static COUNTERS: Counters = Counters({
    let mut bytes = [0; 64];
    bytes[31] = 1;
    bytes[47] = 2;
    bytes[63] = 3;
    bytes
});
