//! AES-GCM on four blocks a register: VAES for the key stream, VPCLMULQDQ for GHASH, one pass over the text.
//!
//! The only unsafe code of GCM. Method, all from public literature: the text is byte-reversed and
//! the powers of H are kept divided by x, which saves GHASH its bit reflection and its shift
//! (Gueron and Kounavis, "Intel Carry-Less Multiplication Instruction and its Usage for Computing
//! the GCM Mode"); products of up to seventeen blocks are summed before one reduction, by powers
//! H^17 to H^1. What a nonce is and which lengths are allowed is decided above.
//!
//! Constant time: no branch and no address depends on key, text or tag, only on lengths.
#![expect(unsafe_code, reason = "loads, stores and calls of vector code; see the arguments above each")]

use std::arch::x86_64::*;
use std::marker::PhantomData;

use zeroize::Zeroize;

use super::TAG_BYTES;

/// AES-128: 17 powers and 11 round keys.
pub(super) type Key128 = Key<28>;
/// AES-256: 17 powers and 15 round keys.
pub(super) type Key256 = Key<32>;

/// Powers of H, then round keys; 7 or 8 cache lines, and nothing else is read for a packet.
///
/// `blocks[17 - k]` is H^k / x, for k = 17 down to 1, byte-reversed. Four consecutive blocks are
/// the factors of four consecutive blocks of text. A load that starts at H^3 or later runs on into
/// round keys: lanes without text are zero, so what they are multiplied by does not count.
#[repr(C, align(64))]
pub(super) struct Key<const BLOCKS: usize> {
    blocks: [[u8; 16]; BLOCKS],
}

impl<const BLOCKS: usize> Key<BLOCKS> {
    /// Rounds of AES: 10 or 14.
    const ROUNDS: usize = BLOCKS - POWERS - 1;

    /// Expands a key. This is the only constructor and checks the CPU, so the kernel may run with
    /// any key.
    ///
    /// # Panics
    /// When the CPU cannot run [`Backend::Avx512`](crate::Backend::Avx512), or `bytes` are not as
    /// many as the type says.
    pub(super) fn new(bytes: &[u8]) -> Self {
        assert!(crate::Backend::Avx512.is_supported());
        assert_eq!(bytes.len(), 4 * (Self::ROUNDS - 6), "the key's length is the type's");
        let mut key = Self { blocks: [[0; 16]; BLOCKS] };
        // SAFETY: the CPU was asked for these instructions, above.
        unsafe { expand(&mut key, bytes) };
        key
    }

    #[inline]
    pub(super) fn seal(
        &self,
        nonce: &[u8; 12],
        aad: &[u8],
        source: Option<&[u8]>,
        text: &mut [u8],
    ) -> [u8; TAG_BYTES] {
        let (nonce, text) = (words(nonce), Text::new(source, text));
        // SAFETY: `new` made this key, so the CPU has these instructions.
        to_bytes(unsafe { pass::<BLOCKS, false>(self, nonce, aad, text) })
    }

    #[inline]
    pub(super) fn open(&self, nonce: &[u8; 12], aad: &[u8], text: &mut [u8], tag: &[u8; TAG_BYTES]) -> bool {
        let nonce = words(nonce);
        // SAFETY: `new` made this key, so the CPU has these instructions.
        let expected = to_bytes(unsafe { pass::<BLOCKS, true>(self, nonce, aad, Text::new(None, text)) });
        // One comparison of 128 bits: no early exit to measure.
        let right = u128::from_ne_bytes(expected) == u128::from_ne_bytes(*tag);
        if !right {
            // SAFETY: as above. The same key stream once more makes the ciphertext of the plaintext again.
            unsafe { pass::<BLOCKS, true>(self, nonce, aad, Text::new(None, text)) };
        }
        right
    }
}

impl<const BLOCKS: usize> Drop for Key<BLOCKS> {
    fn drop(&mut self) {
        self.blocks.zeroize();
    }
}

/// Powers of H in a key.
const POWERS: usize = 17;
/// Bytes of a register.
const VECTOR: usize = 64;
/// Bytes encrypted per turn of the main loop. Four registers are in flight: a round of AES takes
/// three cycles and one can start in each, so three keep its port busy.
const CHUNK: usize = 4 * VECTOR;

/// Eight bytes and four of a nonce, little-endian. By value: the nonce has just been computed, and
/// a wide load of bytes whose narrower stores are still pending waits until the previous packet is
/// done. That was 9 of 33 ns for 160 bytes.
type Nonce = (i64, u32);

#[inline]
fn words(nonce: &[u8; 12]) -> Nonce {
    let (low, high) = nonce.split_first_chunk().expect("12 bytes begin with 8");
    (i64::from_le_bytes(*low), u32::from_le_bytes(high.try_into().expect("and end with 4")))
}

/// Where text is read and where it is written: `len` bytes each, the same memory or not overlapping.
///
/// **Invariant:** for `'a`, `len` bytes from `source` may be read and `len` bytes from `target` may
/// be written.
struct Text<'a> {
    source: *const u8,
    target: *mut u8,
    len: usize,
    memory: PhantomData<(&'a [u8], &'a mut [u8])>,
}

impl<'a> Text<'a> {
    #[inline]
    fn new(source: Option<&'a [u8]>, text: &'a mut [u8]) -> Self {
        assert!(source.is_none_or(|source| source.len() == text.len()));
        let len = text.len();
        let target = text.as_mut_ptr();
        let source = source.map_or(target.cast_const(), <[u8]>::as_ptr);
        Self { source, target, len, memory: PhantomData }
    }

    #[inline]
    fn skip(self, bytes: usize) -> Self {
        assert!(bytes <= self.len);
        let (source, target) = (self.source.wrapping_add(bytes), self.target.wrapping_add(bytes));
        Self { source, target, len: self.len - bytes, memory: PhantomData }
    }
}

/// Encrypts or decrypts and returns the tag. `OPEN` says on which side of the key stream the ciphertext is.
#[target_feature(enable = "avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn pass<const BLOCKS: usize, const OPEN: bool>(
    key: &Key<BLOCKS>,
    nonce: Nonce,
    aad: &[u8],
    text: Text<'_>,
) -> __m128i {
    let round_keys = round_keys(key);
    let start = counter_start(nonce, &round_keys);
    let mut product = Product::zero();
    let mut hash = _mm_setzero_si128();
    let aad_blocks = aad.len().div_ceil(16);
    let tail_blocks = (text.len % CHUNK).div_ceil(16);
    if text.len < CHUNK && aad.len() <= VECTOR && aad_blocks + tail_blocks < POWERS {
        product.add(reverse(load_up_to_64(aad)), powers(key, aad_blocks + tail_blocks + 1));
    } else {
        hash = hash_aad(key, aad);
    }

    let mut at = 0;
    let mut pending = [_mm512_setzero_si512(); 4];
    while at + CHUNK <= text.len {
        let mut input = [_mm512_setzero_si512(); 4];
        for (i, input) in input.iter_mut().enumerate() {
            let source = text.source.wrapping_add(at + i * VECTOR);
            // SAFETY: at + 256 <= len, so these are 64 readable bytes of the source.
            *input = unsafe { _mm512_loadu_si512(source.cast()) };
        }
        if OPEN {
            pending = input;
        }
        let stream;
        if OPEN || at > 0 {
            (stream, hash) = key_stream_and_hash(key, &round_keys, counters(start, at / 16), &pending, hash);
        } else {
            stream = key_stream::<BLOCKS, 4>(&round_keys, counters(start, at / 16));
        }
        for i in 0..4 {
            let output = _mm512_xor_si512(input[i], stream[i]);
            let target = text.target.wrapping_add(at + i * VECTOR);
            // SAFETY: at + 256 <= len, so these are 64 writable bytes of the target.
            unsafe { _mm512_storeu_si512(target.cast(), output) };
            if !OPEN {
                pending[i] = output;
            }
        }
        at += CHUNK;
    }
    if !OPEN && at > 0 {
        hash = hash_chunk(key, &pending, hash);
    }

    let lengths = _mm_set_epi64x(aad.len() as i64 * 8, text.len as i64 * 8);
    let state = Tail { product, hash, start, block: at / 16, lengths };
    let rest = text.skip(at);
    match tail_blocks / 4 {
        0 => finish::<BLOCKS, OPEN, 1>(key, &round_keys, state, rest),
        1 => finish::<BLOCKS, OPEN, 2>(key, &round_keys, state, rest),
        2 => finish::<BLOCKS, OPEN, 3>(key, &round_keys, state, rest),
        3 => finish::<BLOCKS, OPEN, 4>(key, &round_keys, state, rest),
        _ => finish::<BLOCKS, OPEN, 5>(key, &round_keys, state, rest),
    }
}

/// What the main loop hands to [`finish`]: products not yet reduced, or a hash, or neither (never both).
struct Tail {
    product: Product,
    hash: __m128i,
    start: __m512i,
    block: usize,
    lengths: __m128i,
}

/// The last 0 to 255 bytes, the block of lengths and the tag, in `VECTORS` registers and one reduction.
///
/// `VECTORS` is the number of the text's blocks divided by 4, plus 1, so the last register has a
/// lane or more to spare: the last lane of it makes the tag's pad, E(K, J0), at no cost of its own,
/// and the hash has the lengths in the lane behind the text.
#[inline]
#[target_feature(enable = "avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn finish<const BLOCKS: usize, const OPEN: bool, const VECTORS: usize>(
    key: &Key<BLOCKS>,
    round_keys: &RoundKeys,
    tail: Tail,
    text: Text<'_>,
) -> __m128i {
    let Tail { mut product, hash, start, block, lengths } = tail;
    let blocks = text.len.div_ceil(16);
    assert_eq!(VECTORS, blocks / 4 + 1);
    let mut states = counters::<VECTORS>(start, block);
    // J0 is the nonce with the counter 1.
    let one = _mm512_broadcast_i32x4(_mm_set_epi32(1 << 24, 0, 0, 0));
    states[VECTORS - 1] = _mm512_mask_xor_epi64(states[VECTORS - 1], 0xc0, start, one);
    let stream = key_stream::<BLOCKS, VECTORS>(round_keys, states);
    let pad = _mm512_extracti32x4_epi32::<3>(stream[VECTORS - 1]);

    for (i, stream) in stream.into_iter().enumerate() {
        let (source, target) = (text.source.wrapping_add(i * VECTOR), text.target.wrapping_add(i * VECTOR));
        let cipher = if i + 2 < VECTORS {
            // SAFETY: `blocks` is at least 4 * (VECTORS - 1), so these 64 readable bytes lie before
            // the last 4 blocks.
            let input = unsafe { _mm512_loadu_si512(source.cast()) };
            let output = _mm512_xor_si512(input, stream);
            // SAFETY: as above, 64 writable bytes.
            unsafe { _mm512_storeu_si512(target.cast(), output) };
            if OPEN { input } else { output }
        } else {
            let mask = _bzhi_u64(u64::MAX, text.len.saturating_sub(i * VECTOR) as u32);
            // SAFETY: the mask is as long as what is left of the source; other bytes are not read.
            let input = unsafe { _mm512_maskz_loadu_epi8(mask, source.cast()) };
            let output = _mm512_xor_si512(input, stream);
            // SAFETY: the mask is as long as what is left of the target; other bytes are not written.
            unsafe { _mm512_mask_storeu_epi8(target.cast(), mask, output) };
            if OPEN { input } else { _mm512_maskz_mov_epi8(mask, output) }
        };
        let mut hashed = reverse(cipher);
        if i == VECTORS - 1 {
            let lane = 3 << (2 * (blocks % 4));
            hashed = _mm512_mask_broadcast_i64x2(hashed, lane, lengths);
        }
        if i == 0 {
            hashed = _mm512_xor_si512(hashed, _mm512_zextsi128_si512(hash));
        }
        product.add(hashed, powers(key, blocks + 1 - 4 * i));
    }
    _mm_xor_si128(pad, reverse_128(product.reduce()))
}

/// GHASH of the associated data, padded with zeros to whole blocks.
#[inline]
#[target_feature(enable = "avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn hash_aad<const BLOCKS: usize>(key: &Key<BLOCKS>, aad: &[u8]) -> __m128i {
    let mut hash = _mm_setzero_si128();
    for piece in aad.chunks(VECTOR) {
        let blocks = _mm512_xor_si512(reverse(load_up_to_64(piece)), _mm512_zextsi128_si512(hash));
        let mut product = Product::zero();
        product.add(blocks, powers(key, piece.len().div_ceil(16)));
        hash = product.reduce();
    }
    hash
}

/// GHASH of `hash` and sixteen blocks.
#[inline]
#[target_feature(enable = "avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn hash_chunk<const BLOCKS: usize>(key: &Key<BLOCKS>, blocks: &[__m512i; 4], hash: __m128i) -> __m128i {
    let mut product = Product::zero();
    for i in [1, 2, 3] {
        product.add(reverse(blocks[i]), powers(key, 16 - 4 * i));
    }
    product.add(_mm512_xor_si512(reverse(blocks[0]), _mm512_zextsi128_si512(hash)), powers(key, 16));
    product.reduce()
}

/// Sixteen blocks of key stream, and meanwhile GHASH of `hash` and sixteen blocks: the one keeps
/// port 0 busy, the other port 5.
#[inline]
#[target_feature(enable = "avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn key_stream_and_hash<const BLOCKS: usize>(
    key: &Key<BLOCKS>,
    round_keys: &RoundKeys,
    mut states: [__m512i; 4],
    blocks: &[__m512i; 4],
    hash: __m128i,
) -> ([__m512i; 4], __m128i) {
    let mut product = Product::zero();
    rounds::<4, 1, 2>(&mut states, round_keys);
    product.add(reverse(blocks[1]), powers(key, 12));
    rounds::<4, 3, 4>(&mut states, round_keys);
    product.add(reverse(blocks[2]), powers(key, 8));
    rounds::<4, 5, 6>(&mut states, round_keys);
    product.add(reverse(blocks[3]), powers(key, 4));
    rounds::<4, 7, 9>(&mut states, round_keys);
    product.add(_mm512_xor_si512(reverse(blocks[0]), _mm512_zextsi128_si512(hash)), powers(key, 16));
    last_rounds::<BLOCKS, 4>(&mut states, round_keys);
    (states, product.reduce())
}

/// AES of `VECTORS` registers of counters.
#[inline]
#[target_feature(enable = "avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn key_stream<const BLOCKS: usize, const VECTORS: usize>(
    round_keys: &RoundKeys,
    mut states: [__m512i; VECTORS],
) -> [__m512i; VECTORS] {
    rounds::<VECTORS, 1, 3>(&mut states, round_keys);
    rounds::<VECTORS, 4, 6>(&mut states, round_keys);
    rounds::<VECTORS, 7, 9>(&mut states, round_keys);
    last_rounds::<BLOCKS, VECTORS>(&mut states, round_keys);
    states
}

/// AES's rounds `FIRST` to `LAST`; few at a time, so that the compiler unrolls the loop and keeps
/// all in registers.
#[inline]
#[target_feature(enable = "avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn rounds<const VECTORS: usize, const FIRST: usize, const LAST: usize>(
    states: &mut [__m512i; VECTORS],
    round_keys: &RoundKeys,
) {
    for round_key in &round_keys[FIRST..=LAST] {
        for state in states.iter_mut() {
            *state = _mm512_aesenc_epi128(*state, *round_key);
        }
    }
}

/// AES's rounds from the tenth.
#[inline]
#[target_feature(enable = "avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn last_rounds<const BLOCKS: usize, const VECTORS: usize>(
    states: &mut [__m512i; VECTORS],
    round_keys: &RoundKeys,
) {
    if Key::<BLOCKS>::ROUNDS == 14 {
        rounds::<VECTORS, 10, 11>(states, round_keys);
        rounds::<VECTORS, 12, 13>(states, round_keys);
    }
    for state in states.iter_mut() {
        *state = _mm512_aesenclast_epi128(*state, round_keys[Key::<BLOCKS>::ROUNDS]);
    }
}

/// Round keys in all four lanes; only the first 11 or 15 are used.
type RoundKeys = [__m512i; 15];

#[inline]
#[target_feature(enable = "avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn round_keys<const BLOCKS: usize>(key: &Key<BLOCKS>) -> RoundKeys {
    let mut round_keys = [_mm512_setzero_si512(); 15];
    for (wide, bytes) in round_keys.iter_mut().zip(&key.blocks[POWERS..]) {
        *wide = _mm512_broadcast_i32x4(load_128(bytes));
    }
    round_keys
}

/// The nonce in every lane, with the first round key.
#[inline]
#[target_feature(enable = "avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn counter_start((low, high): Nonce, round_keys: &RoundKeys) -> __m512i {
    let nonce = _mm512_broadcast_i32x4(_mm_set_epi64x(i64::from(high), low));
    _mm512_xor_si512(nonce, round_keys[0])
}

/// AES states before the first round, for the text's blocks from `block` on, which is a multiple of 16.
///
/// The text's first counter is 2, so the low four bits of the counters are the same for every
/// `block`, and with them the bits to exclusive-or: no addition, no turning of the byte order.
/// Every fourth register ends in the next 16.
#[inline]
#[target_feature(enable = "avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn counters<const VECTORS: usize>(start: __m512i, block: usize) -> [__m512i; VECTORS] {
    let sixteen = |block: usize| _mm512_maskz_set1_epi32(0x8888, (block as u32).swap_bytes() as i32);
    let (these, next) = (sixteen(block), sixteen(block + 16));
    let mut states = [start; VECTORS];
    for (i, state) in states.iter_mut().enumerate() {
        let high = match i {
            0..3 => these,
            3 => _mm512_mask_mov_epi64(these, 0xf0, next),
            _ => next,
        };
        *state = xor3(start, high, low_counters([2, 6, 10, 14][i % 4]));
    }
    states
}

/// Low four bits of the counters from `first` on, where the counter has its last byte.
#[inline]
#[target_feature(enable = "avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn low_counters(first: i32) -> __m512i {
    let low = |lane| ((first + lane) % 16) << 24;
    _mm512_set_epi32(low(3), 0, 0, 0, low(2), 0, 0, 0, low(1), 0, 0, 0, low(0), 0, 0, 0)
}

/// Sum of products of 128-bit polynomials, not reduced: in each lane `high * x^128 + middle * x^64 + low`.
#[derive(Clone, Copy)]
struct Product {
    low: __m512i,
    middle: __m512i,
    high: __m512i,
}

impl Product {
    #[inline]
    #[target_feature(enable = "avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    fn zero() -> Self {
        let zero = _mm512_setzero_si512();
        Self { low: zero, middle: zero, high: zero }
    }

    #[inline]
    #[target_feature(enable = "avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    fn add(&mut self, a: __m512i, b: __m512i) {
        self.low = _mm512_xor_si512(self.low, _mm512_clmulepi64_epi128::<0x00>(a, b));
        self.high = _mm512_xor_si512(self.high, _mm512_clmulepi64_epi128::<0x11>(a, b));
        let (one, other) = (_mm512_clmulepi64_epi128::<0x01>(a, b), _mm512_clmulepi64_epi128::<0x10>(a, b));
        self.middle = xor3(self.middle, one, other);
    }

    /// The sum over the lanes, modulo GHASH's polynomial.
    ///
    /// Bits are reflected, so the low 128 bits are those too many. Each 64 of them, times x^128 mod
    /// p = 1 + x + x^2 + x^7, go 64 bits up: the 1 by exchanging halves, the rest by the constant.
    #[inline]
    #[target_feature(enable = "avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
    fn reduce(self) -> __m128i {
        let polynomial = _mm512_set1_epi64(0xc2_u64.rotate_right(8) as i64);
        let first = _mm512_clmulepi64_epi128::<0x00>(self.low, polynomial);
        let middle = xor3(self.middle, first, exchange_halves(self.low));
        let second = _mm512_clmulepi64_epi128::<0x00>(middle, polynomial);
        let lanes = xor3(self.high, second, exchange_halves(middle));
        let pairs = _mm256_xor_si256(_mm512_castsi512_si256(lanes), _mm512_extracti64x4_epi64::<1>(lanes));
        _mm_xor_si128(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256::<1>(pairs))
    }
}

#[inline]
#[target_feature(enable = "avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn xor3(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    _mm512_ternarylogic_epi64::<0x96>(a, b, c)
}

#[inline]
#[target_feature(enable = "avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn exchange_halves(a: __m512i) -> __m512i {
    _mm512_shuffle_epi32::<0x4e>(a)
}

/// H^highest and the three powers below it, one a lane.
#[inline]
#[target_feature(enable = "avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn powers<const BLOCKS: usize>(key: &Key<BLOCKS>, highest: usize) -> __m512i {
    let blocks = &key.blocks[POWERS - highest..][..4];
    // SAFETY: four blocks are 64 readable bytes.
    unsafe { _mm512_loadu_si512(blocks.as_ptr().cast()) }
}

/// Up to 64 bytes, then zeros.
#[inline]
#[target_feature(enable = "avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn load_up_to_64(bytes: &[u8]) -> __m512i {
    let mask = _bzhi_u64(u64::MAX, bytes.len().min(VECTOR) as u32);
    // SAFETY: the mask is not longer than `bytes`; other bytes are not read.
    unsafe { _mm512_maskz_loadu_epi8(mask, bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn load_128(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: 16 readable bytes.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

/// Bytes of each lane in reverse order: GHASH's first bit becomes the highest.
#[inline]
#[target_feature(enable = "avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn reverse(blocks: __m512i) -> __m512i {
    _mm512_shuffle_epi8(blocks, _mm512_broadcast_i32x4(reversed_order()))
}

#[inline]
#[target_feature(enable = "avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn reverse_128(block: __m128i) -> __m128i {
    _mm_shuffle_epi8(block, reversed_order())
}

#[inline]
#[target_feature(enable = "avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn reversed_order() -> __m128i {
    _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
}

fn to_bytes(block: __m128i) -> [u8; 16] {
    let mut bytes = [0; 16];
    // SAFETY: 16 writable bytes. SSE2 is part of x86-64.
    unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), block) };
    bytes
}

/// Key expansion (FIPS 197 §5.2) and the powers of H = E(K, 0). Once per key.
#[target_feature(enable = "avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn expand<const BLOCKS: usize>(key: &mut Key<BLOCKS>, bytes: &[u8]) {
    let key_words = bytes.len() / 4;
    let (powers, round_keys) = key.blocks.split_at_mut(POWERS);
    let words = round_keys.as_flattened_mut().as_chunks_mut::<4>().0;
    words.as_flattened_mut()[..bytes.len()].copy_from_slice(bytes);
    let mut constant = 1_u32;
    for i in key_words..words.len() {
        let mut word = u32::from_le_bytes(words[i - 1]);
        if i % key_words == 0 {
            word = substitute(word).rotate_right(8) ^ constant;
            constant = (constant << 1) ^ ((constant >> 7) * 0x11b);
        } else if key_words > 6 && i % key_words == 4 {
            word = substitute(word);
        }
        words[i] = (u32::from_le_bytes(words[i - key_words]) ^ word).to_le_bytes();
    }

    let mut hash_key = load_128(&round_keys[0]);
    for round_key in &round_keys[1..round_keys.len() - 1] {
        hash_key = _mm_aesenc_si128(hash_key, load_128(round_key));
    }
    hash_key = _mm_aesenclast_si128(hash_key, load_128(&round_keys[round_keys.len() - 1]));
    // H / x: reflected, that is a shift to the left; the coefficient that falls out is 1 / x =
    // x^127 + x^6 + x + 1.
    let hash_key = u128::from_be_bytes(to_bytes(hash_key));
    let first = (hash_key << 1) ^ ((hash_key >> 127) * (0xc2 << 120 | 1));
    powers[POWERS - 1] = first.to_le_bytes();
    let first = _mm512_zextsi128_si512(load_128(&powers[POWERS - 1]));
    for i in (0..POWERS - 1).rev() {
        let mut product = Product::zero();
        product.add(_mm512_zextsi128_si512(load_128(&powers[i + 1])), first);
        powers[i] = to_bytes(product.reduce());
    }
}

/// AES's S-box on four bytes, in constant time: with four equal columns ShiftRows changes nothing.
#[target_feature(enable = "avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
fn substitute(word: u32) -> u32 {
    _mm_cvtsi128_si32(_mm_aesenclast_si128(_mm_set1_epi32(word as i32), _mm_setzero_si128())) as u32
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::ptr::NonNull;

    use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

    use super::*;

    const PAGE: usize = 4096;

    /// Two pages between two that may not be touched.
    struct Guarded(NonNull<std::ffi::c_void>);

    impl Guarded {
        fn new() -> Self {
            let (len, open) =
                (NonZeroUsize::new(4 * PAGE).expect("not 0"), ProtFlags::PROT_READ | ProtFlags::PROT_WRITE);
            // SAFETY: new memory at an address of the kernel's choice.
            let start = unsafe { mmap_anonymous(None, len, ProtFlags::PROT_NONE, MapFlags::MAP_PRIVATE) };
            let start = start.expect("four pages are there");
            // SAFETY: the second page of four.
            let middle = unsafe { start.add(PAGE) };
            // SAFETY: two pages of our own, to which no reference exists yet.
            unsafe { mprotect(middle, 2 * PAGE, open) }.expect("may be opened");
            Self(start)
        }

        fn bytes(&mut self) -> &mut [u8] {
            // SAFETY: the second and third page may be read and written as long as `self` lives.
            unsafe { std::slice::from_raw_parts_mut(self.0.as_ptr().cast::<u8>().add(PAGE), 2 * PAGE) }
        }
    }

    impl Drop for Guarded {
        fn drop(&mut self) {
            // SAFETY: mapped by `new`, and `bytes` borrows from `self`.
            unsafe { munmap(self.0, 4 * PAGE) }.expect("was mapped");
        }
    }

    /// A byte read or written before or behind associated data, source or target is a segmentation fault.
    #[test]
    fn nothing_outside_the_slices_is_touched() {
        if !crate::Backend::Avx512.is_supported() {
            return;
        }
        let key = Key128::new(&[7; 16]);
        let (mut aad_pages, mut source_pages, mut target_pages) =
            (Guarded::new(), Guarded::new(), Guarded::new());
        let (aad_pages, source_pages) = (aad_pages.bytes(), source_pages.bytes());
        let target_pages = target_pages.bytes();
        aad_pages.fill(1);
        source_pages.fill(2);
        for len in (0..=520).chain([1199, 1200, 1201, 2 * PAGE]) {
            for aad_len in [0, 1, 12, 20, 63, 64, 65, 100] {
                let (aad, source) = (&aad_pages[..aad_len], &source_pages[..len]);
                let tag = key.seal(&[3; 12], aad, Some(source), &mut target_pages[..len]);
                assert!(
                    key.open(&[3; 12], aad, &mut target_pages[..len], &tag),
                    "at the start, {aad_len}, {len}"
                );

                let (aad, source) = (&aad_pages[2 * PAGE - aad_len..], &source_pages[2 * PAGE - len..]);
                let target = &mut target_pages[2 * PAGE - len..];
                assert_eq!(
                    key.seal(&[3; 12], aad, Some(source), target),
                    tag,
                    "at the end, {aad_len}, {len}"
                );
                assert!(key.open(&[3; 12], aad, target, &tag), "at the end, {aad_len}, {len}");
                assert_eq!(target, source);
            }
        }
    }
}
