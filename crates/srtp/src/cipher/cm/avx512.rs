//! AES in counter mode on four blocks a register (VAES), and HMAC-SHA1 of sixteen packets at once,
//! a packet per lane.
//!
//! The sixteen packets may differ in length, key and alignment: a block is gathered from each with
//! 16-byte loads and transposed, a packet that has ended no longer changes its lane, and what does
//! not fill a block is padded in a buffer beside it. When sixteen at once pay off is decided in
//! `cm.rs`.
//!
//! Constant time: no branch and no address depends on key, text or hash, only on lengths.
#![expect(unsafe_code, reason = "vector loads and stores through pointers, and calls of code for this CPU")]

use std::arch::x86_64::*;

use zeroize::Zeroize;

use super::{BLOCK_BYTES, LANES, MAC_BYTES, Message, Midstates, inner_blocks};

/// AES-128 has 11 round keys.
pub(super) type Key128 = Key<11>;
/// AES-256 has 15 round keys.
pub(super) type Key256 = Key<15>;

/// Expanded AES key and HMAC midstates; 4 or 5 cache lines, and nothing else is read for a packet.
#[repr(C, align(64))]
pub(super) struct Key<const ROUND_KEYS: usize> {
    pub(super) mac: Midstates,
    pub(super) round_keys: [[u8; 16]; ROUND_KEYS],
    pub(super) supported: Supported,
}

/// That the CPU has the instructions of this file: only a [`Key`] has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Supported(());

impl<const ROUND_KEYS: usize> Key<ROUND_KEYS> {
    /// Expands the keys. **The CPU must run [`Backend::Avx512`](crate::Backend::Avx512)**, which is
    /// asserted here: a key cannot be had otherwise, so holding one is the safety argument of
    /// everything done with it.
    pub(super) fn new(encryption_key: &[u8], auth_key: &[u8; 20]) -> Self {
        assert!(crate::Backend::Avx512.is_supported());
        assert_eq!(encryption_key.len() / 4 + 7, ROUND_KEYS, "AES keys of SRTP are 16 or 32 bytes long");
        // SAFETY: the CPU was asked for these instructions above.
        let round_keys = unsafe { expand(encryption_key) };
        Self { mac: Midstates::new(auth_key), round_keys, supported: Supported(()) }
    }

    /// Counter mode from `source` into `text`, or in place. `source` is as long as `text`.
    #[inline]
    pub(super) fn encrypt(&self, iv: &[u8; 16], source: Option<&[u8]>, text: &mut [u8]) {
        let target = text.as_mut_ptr();
        assert!(source.is_none_or(|source| source.len() == text.len()));
        let source = source.map_or(target.cast_const(), <[u8]>::as_ptr);
        // SAFETY: `new` made this key, so the CPU has the instructions; both pointers are
        // `text.len()` bytes long.
        unsafe { counter_mode(&self.round_keys, u128::from_le_bytes(*iv), source, target, text.len()) }
    }
}

impl<const ROUND_KEYS: usize> Drop for Key<ROUND_KEYS> {
    fn drop(&mut self) {
        self.round_keys.zeroize();
    }
}

/// HMAC-SHA1 of up to [`LANES`] messages. The tags beyond them mean nothing.
#[inline]
pub(super) fn hmac(_: Supported, messages: &[Message<'_>]) -> [[u8; MAC_BYTES]; LANES] {
    if messages.is_empty() {
        return [[0; MAC_BYTES]; LANES];
    }
    // SAFETY: a `Key` was made, so the CPU has the instructions.
    unsafe { hmac_lanes(messages) }
}

/// HMAC-SHA1 of 1 to [`LANES`] messages. The tags beyond them mean nothing.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi2")]
fn hmac_lanes(messages: &[Message<'_>]) -> [[u8; MAC_BYTES]; LANES] {
    let mut tails = [Tail([0; 2 * BLOCK_BYTES]); LANES];
    let mut full = [0; LANES];
    let mut total = [0; LANES];
    let mut macs = [messages[0].mac.0.as_ptr().cast::<u8>(); LANES];
    let mut longest = 0;
    for (lane, message) in messages.iter().enumerate() {
        tails[lane].fill(message);
        full[lane] = message.bytes.len() / BLOCK_BYTES;
        total[lane] = inner_blocks(message.bytes.len());
        macs[lane] = message.mac.0.as_ptr().cast();
        if total[lane] > total[longest] {
            longest = lane;
        }
    }
    // SAFETY: midstates are 48 bytes.
    let (inner, outer, rest) =
        unsafe { (load_words(&macs, 0), load_words(&macs, 16), load_words(&macs, 32)) };

    let mut state = [inner[0], inner[1], inner[2], inner[3], rest[0]];
    let mut row = 0;
    // Until some packet comes to the end of its whole blocks, or of its last one, all advance alike.
    while row < total[longest] {
        // A pointer is such that `pointer + row * BLOCK_BYTES` is the lane's block.
        let block = |lane: usize| {
            if row < full[lane] {
                messages[lane].bytes.as_ptr()
            } else {
                tails[lane].0.as_ptr().wrapping_sub(full[lane] * BLOCK_BYTES)
            }
        };
        // Lanes that have ended, or were never used, read along with the longest one.
        let mut blocks = [block(longest); LANES];
        let mut live: __mmask16 = 0;
        let mut end = total[longest];
        for lane in 0..messages.len() {
            if row < total[lane] {
                blocks[lane] = block(lane);
                live |= 1 << lane;
                end = end.min(if row < full[lane] { full[lane] } else { total[lane] });
            }
        }
        // SAFETY: rows `row..end` are whole blocks of the message or blocks of the tail, in every lane.
        unsafe { compress_rows(&mut state, &blocks, row..end, live) };
        row = end;
    }

    // The outer hash is over the key's block and the 20 bytes of the inner one.
    let zero = _mm512_setzero_si512();
    let mut words = [zero; 16];
    words[..5].copy_from_slice(&state);
    words[5] = _mm512_set1_epi32(i32::MIN);
    words[15] = _mm512_set1_epi32(((BLOCK_BYTES + MAC_BYTES) * 8) as i32);
    let mut state = [outer[0], outer[1], outer[2], outer[3], rest[1]];
    compress(&mut state, words, !0);
    tags(state)
}

/// What of a message does not fill a block, its suffix and the padding (FIPS 180-4 section 5.1.1):
/// one block or two.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Tail([u8; 2 * BLOCK_BYTES]);

impl Tail {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,bmi2")]
    fn fill(&mut self, message: &Message<'_>) {
        let len = message.bytes.len() % BLOCK_BYTES;
        let start = message.bytes.as_ptr().wrapping_add(message.bytes.len() - len).cast();
        // SAFETY: of the 64 bytes only the `len` up to the end of the message are read.
        let rest = unsafe { _mm512_maskz_loadu_epi8(mask(len), start) };
        // SAFETY: the first block is 64 bytes.
        unsafe { _mm512_store_si512(self.0.as_mut_ptr().cast(), rest) };
        self.0[len..len + 4].copy_from_slice(&message.suffix);
        self.0[len + 4] = 0x80;
        let end = if len + 4 + 9 <= BLOCK_BYTES { BLOCK_BYTES } else { 2 * BLOCK_BYTES };
        let bits = ((BLOCK_BYTES + message.bytes.len() + 4) * 8) as u32;
        self.0[end - 4..end].copy_from_slice(&bits.to_be_bytes());
    }
}

/// Hashes the blocks of `rows` in the lanes that are `live`.
///
/// # Safety
/// `blocks[lane] + row * BLOCK_BYTES` is readable for `BLOCK_BYTES`, for every lane, live or not,
/// and every row.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn compress_rows(
    state: &mut [__m512i; 5],
    blocks: &[*const u8; LANES],
    rows: std::ops::Range<usize>,
    live: __mmask16,
) {
    let big_endian = _mm512_broadcast_i32x4(_mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203));
    for row in rows {
        let mut words = [_mm512_setzero_si512(); 16];
        for quarter in 0..4 {
            // SAFETY: 16 bytes of the block of every lane.
            let loaded = unsafe { load_words(blocks, row * BLOCK_BYTES + quarter * 16) };
            for word in 0..4 {
                words[quarter * 4 + word] = _mm512_shuffle_epi8(loaded[word], big_endian);
            }
        }
        compress(state, words, live);
    }
}

/// Four words of 32 bits from every lane, transposed: lane `n` of result `w` is word `w` at
/// `pointers[n] + offset`.
///
/// Quarters of a register are joined by loads, which take no part of the one port that shuffles across them.
///
/// # Safety
/// `pointers[lane] + offset` is readable for 16 bytes, for every lane.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
unsafe fn load_words(pointers: &[*const u8; LANES], offset: usize) -> [__m512i; 4] {
    let load = |lane: usize| {
        let pointer = pointers[lane].wrapping_add(offset).cast();
        // SAFETY: 16 bytes are readable, and the load needs no alignment.
        unsafe { _mm_loadu_si128(pointer) }
    };
    let mut rows = [_mm512_setzero_si512(); 4];
    for (row, joined) in rows.iter_mut().enumerate() {
        let joined_1 = _mm512_inserti32x4::<1>(_mm512_castsi128_si512(load(row)), load(row + 4));
        let joined_2 = _mm512_inserti32x4::<2>(joined_1, load(row + 8));
        *joined = _mm512_inserti32x4::<3>(joined_2, load(row + 12));
    }
    transpose(rows)
}

/// Transposes 4 by 4 words within each quarter.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose(rows: [__m512i; 4]) -> [__m512i; 4] {
    let [low_01, high_01] =
        [_mm512_unpacklo_epi32(rows[0], rows[1]), _mm512_unpackhi_epi32(rows[0], rows[1])];
    let [low_23, high_23] =
        [_mm512_unpacklo_epi32(rows[2], rows[3]), _mm512_unpackhi_epi32(rows[2], rows[3])];
    [
        _mm512_unpacklo_epi64(low_01, low_23),
        _mm512_unpackhi_epi64(low_01, low_23),
        _mm512_unpacklo_epi64(high_01, high_23),
        _mm512_unpackhi_epi64(high_01, high_23),
    ]
}

/// The compression function of SHA-1 (FIPS 180-4 section 6.1.2) in every lane; `state` changes in
/// those that are live.
#[inline]
#[target_feature(enable = "avx512f")]
fn compress(state: &mut [__m512i; 5], mut words: [__m512i; 16], live: __mmask16) {
    let mut working = *state;
    macro_rules! rounds {
        ($($round:literal)*) => { $( round::<$round>(&mut working, &mut words); )* };
    }
    rounds!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19);
    rounds!(20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39);
    rounds!(40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59);
    rounds!(60 61 62 63 64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79);
    for (state, working) in state.iter_mut().zip(working) {
        *state = _mm512_mask_add_epi32(*state, live, *state, working);
    }
}

/// One round. The variables stay where they are and change their names: after five rounds A is in
/// its place again.
#[inline]
#[target_feature(enable = "avx512f")]
fn round<const ROUND: usize>(working: &mut [__m512i; 5], words: &mut [__m512i; 16]) {
    let [a, b, c, d, e] = const {
        let first = 5 - ROUND % 5;
        [first % 5, (first + 1) % 5, (first + 2) % 5, (first + 3) % 5, (first + 4) % 5]
    };
    if ROUND >= 16 {
        let older = _mm512_ternarylogic_epi32::<XOR>(
            words[ROUND % 16],
            words[(ROUND + 2) % 16],
            words[(ROUND + 8) % 16],
        );
        words[ROUND % 16] = _mm512_rol_epi32::<1>(_mm512_xor_si512(older, words[(ROUND + 13) % 16]));
    }
    let (b_, c_, d_) = (working[b], working[c], working[d]);
    let (function, constant) = match ROUND / 20 {
        0 => (_mm512_ternarylogic_epi32::<CHOOSE>(b_, c_, d_), 0x5a82_7999_u32),
        1 => (_mm512_ternarylogic_epi32::<XOR>(b_, c_, d_), 0x6ed9_eba1),
        2 => (_mm512_ternarylogic_epi32::<MAJORITY>(b_, c_, d_), 0x8f1b_bcdc),
        _ => (_mm512_ternarylogic_epi32::<XOR>(b_, c_, d_), 0xca62_c1d6),
    };
    let word = _mm512_add_epi32(words[ROUND % 16], _mm512_set1_epi32(constant.cast_signed()));
    let early = _mm512_add_epi32(_mm512_add_epi32(working[e], word), function);
    working[e] = _mm512_add_epi32(early, _mm512_rol_epi32::<5>(working[a]));
    working[b] = _mm512_rol_epi32::<30>(b_);
}

/// The hash of every lane as bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
fn tags(state: [__m512i; 5]) -> [[u8; MAC_BYTES]; LANES] {
    let big_endian = _mm512_broadcast_i32x4(_mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203));
    let bytes = state.map(|words| _mm512_shuffle_epi8(words, big_endian));
    let rows = transpose([bytes[0], bytes[1], bytes[2], bytes[3]]).map(|row| to_bytes(row));
    let last = to_bytes(bytes[4]);
    let mut tags = [[0; MAC_BYTES]; LANES];
    for (lane, tag) in tags.iter_mut().enumerate() {
        let quarter = lane / 4 * 16;
        tag[..16].copy_from_slice(&rows[lane % 4][quarter..quarter + 16]);
        tag[16..].copy_from_slice(&last[lane * 4..lane * 4 + 4]);
    }
    tags
}

/// Counter mode over `len` bytes.
///
/// The counter is the last two bytes of the block and starts at 0, so that a sum in the last byte
/// alone numbers the 256 blocks of 4096 bytes ("page"), and the byte before it numbers the pages.
/// The first block comes by value: it was written in halves a moment ago, and a load of the whole
/// would wait until they have left the pipeline.
///
/// # Safety
/// `source` and `target` are `len` readable and writable bytes, the same or not overlapping.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,bmi2")]
unsafe fn counter_mode<const ROUND_KEYS: usize>(
    round_keys: &[[u8; 16]; ROUND_KEYS],
    iv: u128,
    source: *const u8,
    target: *mut u8,
    len: usize,
) {
    let mut keys = [_mm512_setzero_si512(); ROUND_KEYS];
    for (key, bytes) in keys.iter_mut().zip(round_keys) {
        *key = _mm512_broadcast_i32x4(from_bytes(bytes));
    }
    let first = _mm512_broadcast_i32x4(_mm_set_epi64x((iv >> 64) as i64, iv as i64));
    let mut at = 0;
    while at < len {
        let page = at / PAGE_BYTES;
        let page_end = len.min(at + PAGE_BYTES);
        let mut blocks = _mm512_xor_si512(first, _mm512_set4_epi32((page as i32) << 16, 0, 0, 0));
        blocks = _mm512_or_si512(
            blocks,
            _mm512_set_epi32(3 << 24, 0, 0, 0, 2 << 24, 0, 0, 0, 1 << 24, 0, 0, 0, 0, 0, 0, 0),
        );
        while page_end - at >= 4 * VECTOR {
            // SAFETY: 256 bytes at `at` lie before `len`.
            blocks =
                unsafe { encrypt::<4, ROUND_KEYS>(&keys, blocks, source.add(at), target.add(at), VECTOR) };
            at += 4 * VECTOR;
        }
        let rest = page_end - at;
        let last = rest - rest.saturating_sub(1) / VECTOR * VECTOR;
        // SAFETY: `at` is at most `len`.
        let (source, target) = unsafe { (source.add(at), target.add(at)) };
        // SAFETY: (whole vectors and `last` bytes are `rest` bytes, which lie before `len`.)
        unsafe {
            match rest.div_ceil(VECTOR) {
                0 => blocks,
                1 => encrypt::<1, ROUND_KEYS>(&keys, blocks, source, target, last),
                2 => encrypt::<2, ROUND_KEYS>(&keys, blocks, source, target, last),
                3 => encrypt::<3, ROUND_KEYS>(&keys, blocks, source, target, last),
                _ => encrypt::<4, ROUND_KEYS>(&keys, blocks, source, target, last),
            }
        };
        at = page_end;
    }
}

/// Encrypts `VECTORS` times 64 bytes, `last` of them (1 to 64) in the last vector. Returns the
/// blocks after them.
///
/// # Safety
/// `source` and `target` are so many readable and writable bytes, the same or not overlapping.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,bmi2")]
unsafe fn encrypt<const VECTORS: usize, const ROUND_KEYS: usize>(
    keys: &[__m512i; ROUND_KEYS],
    mut blocks: __m512i,
    source: *const u8,
    target: *mut u8,
    last: usize,
) -> __m512i {
    let mut stream = [_mm512_setzero_si512(); VECTORS];
    for stream in &mut stream {
        *stream = _mm512_xor_si512(blocks, keys[0]);
        blocks = _mm512_add_epi32(blocks, _mm512_set4_epi32(4 << 24, 0, 0, 0));
    }
    for key in &keys[1..ROUND_KEYS - 1] {
        for stream in &mut stream {
            *stream = _mm512_aesenc_epi128(*stream, *key);
        }
    }
    for (at, stream) in stream.into_iter().enumerate() {
        let stream = _mm512_aesenclast_epi128(stream, keys[ROUND_KEYS - 1]);
        let (source, target) =
            (source.wrapping_add(at * VECTOR).cast(), target.wrapping_add(at * VECTOR).cast());
        if at + 1 < VECTORS || last == VECTOR {
            // SAFETY: the whole vector is within the text; no alignment is needed.
            let text = unsafe { _mm512_loadu_si512(source) };
            // SAFETY: as above.
            unsafe { _mm512_storeu_si512(target, _mm512_xor_si512(text, stream)) };
        } else {
            let (source, target) = (source.cast(), target.cast());
            // SAFETY: only the first `last` bytes are read.
            let text = unsafe { _mm512_maskz_loadu_epi8(mask(last), source) };
            // SAFETY: only the first `last` bytes are written.
            unsafe { _mm512_mask_storeu_epi8(target, mask(last), _mm512_xor_si512(text, stream)) };
        }
    }
    blocks
}

/// Expands an AES key of `ROUND_KEYS` - 7 words (FIPS 197 section 5.2).
#[target_feature(enable = "aes,avx512f")]
fn expand<const ROUND_KEYS: usize>(key: &[u8]) -> [[u8; 16]; ROUND_KEYS] {
    let key_words = ROUND_KEYS - 7;
    let mut words = [[0_u8; 4]; 60];
    for (word, bytes) in words.iter_mut().zip(key.chunks_exact(4)) {
        word.copy_from_slice(bytes);
    }
    let mut constant = 1_u8;
    for at in key_words..4 * ROUND_KEYS {
        let mut word = words[at - 1];
        if at % key_words == 0 {
            word = substitute(word);
            word.rotate_left(1);
            word[0] ^= constant;
            // Doubling in GF(2^8) modulo x^8 + x^4 + x^3 + x + 1.
            constant = (constant << 1) ^ ((constant >> 7) * 0x1b);
        } else if key_words == 8 && at % key_words == 4 {
            word = substitute(word);
        }
        let before = words[at - key_words];
        words[at] = std::array::from_fn(|byte| before[byte] ^ word[byte]);
    }
    let mut round_keys = [[0; 16]; ROUND_KEYS];
    for (bytes, word) in round_keys.as_flattened_mut().chunks_exact_mut(4).zip(&words) {
        bytes.copy_from_slice(word);
    }
    words.zeroize();
    round_keys
}

/// The S-box on each byte of a word.
#[target_feature(enable = "aes")]
fn substitute(word: [u8; 4]) -> [u8; 4] {
    let word = _mm_set1_epi32(i32::from_le_bytes(word));
    _mm_cvtsi128_si32(_mm_aeskeygenassist_si128::<0>(word)).to_le_bytes()
}

/// Selects the first `len` bytes of a register.
#[inline]
#[target_feature(enable = "bmi2")]
fn mask(len: usize) -> __mmask64 {
    _bzhi_u64(!0, len as u32)
}

#[inline]
fn from_bytes(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: both are 16 bytes of which every value is valid.
    unsafe { std::mem::transmute(*bytes) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn to_bytes(register: __m512i) -> [u8; VECTOR] {
    // SAFETY: both are 64 bytes of which every value is valid.
    unsafe { std::mem::transmute(register) }
}

/// Bytes of a register.
const VECTOR: usize = 64;
/// Bytes whose blocks the last byte of the counter can number.
const PAGE_BYTES: usize = 4096;
// Truth tables of three inputs: index 4 * b + 2 * c + d.
const XOR: i32 = 0x96;
const CHOOSE: i32 = 0xca;
const MAJORITY: i32 = 0xe8;
