//! One or two packets under AVX-512 keys: HMAC-SHA1 by the SHA extensions, with the encryption in between.
//!
//! SHA-1 of a packet alone is a chain of instructions of four cycles each, 80 cycles a block, that leaves most of the
//! CPU idle: 64 bytes are encrypted, and the words of a block computed, while another block is hashed.
//! The schedule is by plain vector instructions, because SHA1MSG2 takes four cycles of the very unit that the chain needs.
//!
//! Constant time: no branch and no address depends on key, text or hash, only on lengths.
#![expect(
    unsafe_code,
    reason = "pointers to text that is encrypted while it is hashed, and calls of code for this CPU"
)]

use std::arch::x86_64::*;

use super::sha_ni::{State, finish_tail, in_turn, load, twenty_groups};
use super::{BLOCK_BYTES, CmJob, Inner, MAC_BYTES, Midstates, high_registers, inner_blocks};

/// Encrypts (if asked to) and authenticates `N` packets. Every key is a key of `avx512.rs`.
#[inline]
pub(super) fn run<const N: usize, const ENCRYPT: bool>(mut jobs: [&mut CmJob<'_>; N]) {
    let mut packets = jobs.each_mut().map(|job| Packet::new(job, ENCRYPT));
    // SAFETY: keys of `avx512.rs` exist only where the CPU has these instructions.
    unsafe { hash(&mut packets) };
    let tags = packets.map(|packet| packet.tag);
    for (job, tag) in jobs.into_iter().zip(tags) {
        job.tag = tag;
    }
}

/// Encrypts what is left of the packets and sets their tags.
///
/// A function of its own that begins by clearing the upper parts of registers (see `high_registers.rs`): compilers copy
/// larger structures through whole registers. Nothing larger is copied in here.
#[inline(never)]
#[target_feature(enable = "sha,avx512f,avx512bw,avx512dq,avx512vl,vaes,bmi2")]
fn hash<const N: usize>(packets: &mut [Packet<'_>; N]) {
    _mm256_zeroupper();
    let mut states = [State::ZERO; N];
    let mut rows = [0; N];
    // E is rotated and added by two instructions of a cycle each. SHA1NEXTE takes a cycle longer, which makes the chain 96
    // cycles long instead of 85; so would the blend that the compiler makes of a mask it knows.
    let highest: __mmask8 = std::hint::black_box(0b1000);
    let next = |before, words| _mm_add_epi32(words, _mm_maskz_rol_epi32::<30>(highest, before));
    for at in 0..N {
        states[at] = State::inner(packets[at].mac);
        rows[at] = inner_blocks(packets[at].len);
        for _ in 0..CHUNKS_AHEAD {
            packets[at].encrypt();
        }
    }
    let last = rows.iter().copied().max().unwrap_or(0);
    // The row behind a packet's last is the outer hash. A packet that is through with it runs along until all are.
    for row in 0..=last {
        let mut words = [[_mm_setzero_si128(); 4]; N];
        for at in 0..N {
            if row < rows[at] {
                packets[at].encrypt();
                words[at] = load(packets[at].block(row));
            } else if row == rows[at] {
                words[at] = states[at].outer_block();
                states[at] = State::outer(packets[at].mac);
            }
        }
        twenty_groups!(states, words, N, schedule, next, in_turn);
        for at in 0..N {
            if row == rows[at] {
                packets[at].tag = states[at].tag();
            }
        }
    }
}

/// A packet under way.
struct Packet<'a> {
    mac: &'a Midstates,
    round_keys: RoundKeys<'a>,
    /// Header and payload: written behind `target` and read before it.
    bytes: *mut u8,
    len: usize,
    /// Behind the whole blocks of the packet: suffix and padding, joined by the rest of the packet when it is its turn.
    tail: [u8; 2 * BLOCK_BYTES],
    /// Counter block of the bytes to be encrypted next.
    counter_block: __m128i,
    source: *const u8,
    target: *mut u8,
    /// Bytes still to be encrypted.
    left: usize,
    tag: [u8; MAC_BYTES],
}

#[derive(Clone, Copy)]
enum RoundKeys<'a> {
    Aes128(&'a [[u8; 16]; 11]),
    Aes256(&'a [[u8; 16]; 15]),
}

impl<'a> Packet<'a> {
    #[inline]
    fn new(job: &'a mut &mut CmJob<'_>, encrypt: bool) -> Self {
        let (mac, round_keys) = match &job.key.0 {
            Inner::Aes128(key) => (&key.mac, RoundKeys::Aes128(&key.round_keys)),
            Inner::Aes256(key) => (&key.mac, RoundKeys::Aes256(&key.round_keys)),
            Inner::ShaNi(_) | Inner::Library(_) => unreachable!("the caller sorts jobs by backend"),
        };
        let (bytes, len) = (job.packet.as_mut_ptr(), job.packet.len());
        let left = len - job.payload_offset;
        assert!(job.source.is_none_or(|source| source.len() == left));
        let target = bytes.wrapping_add(job.payload_offset);
        // SAFETY: 16 readable bytes; the load needs no alignment.
        let counter_block = unsafe { _mm_loadu_si128(job.iv.as_ptr().cast()) };
        let mut tail = [0; 2 * BLOCK_BYTES];
        finish_tail(len, job.suffix, &mut tail);
        Self {
            mac,
            round_keys,
            bytes,
            len,
            tail,
            counter_block,
            source: job.source.map_or(target.cast_const(), <[u8]>::as_ptr),
            target,
            left: if encrypt { left } else { 0 },
            tag: [0; MAC_BYTES],
        }
    }

    /// Encrypts the next 64 bytes, if there are any.
    #[inline]
    #[target_feature(enable = "sse2,avx512bw,avx512dq,avx512vl,vaes")]
    fn encrypt(&mut self) {
        if self.left == 0 {
            return;
        }
        let len = self.left.min(BLOCK_BYTES);
        match self.round_keys {
            // SAFETY: of `source` and of `target`, `left` bytes are to come. This code runs, so the CPU can.
            RoundKeys::Aes128(keys) => unsafe {
                high_registers::encrypt(keys, self.counter_block, self.source, self.target, len);
            },
            // SAFETY: as above.
            RoundKeys::Aes256(keys) => unsafe {
                high_registers::encrypt(keys, self.counter_block, self.source, self.target, len);
            },
        }
        self.left -= len;
        self.source = self.source.wrapping_add(BLOCK_BYTES);
        self.target = self.target.wrapping_add(BLOCK_BYTES);
        let count = _mm_extract_epi16::<7>(self.counter_block) as u16;
        let count = count.swap_bytes().wrapping_add(4).swap_bytes();
        self.counter_block = _mm_insert_epi16::<7>(self.counter_block, i32::from(count));
    }

    /// The block that is hashed in `row`; the first one behind the packet's whole blocks is asked for in its turn.
    #[inline]
    #[target_feature(enable = "avx512bw,avx512dq,avx512vl")]
    fn block(&mut self, row: usize) -> &[u8; BLOCK_BYTES] {
        let whole = self.len / BLOCK_BYTES;
        let start = self.bytes.wrapping_add(row * BLOCK_BYTES);
        if row < whole {
            // SAFETY: a whole block of the packet, to which nothing is written while the reference lives.
            return unsafe { &*start.cast() };
        }
        let (blocks, _) = self.tail.as_chunks_mut();
        if row == whole {
            // SAFETY: the packet ends so many bytes behind its whole blocks.
            unsafe { high_registers::join(start, self.len % BLOCK_BYTES, &mut blocks[0]) };
        }
        &self.tail.as_chunks().0[row - whole]
    }
}

/// Words of group `GROUP` of the message schedule (FIPS 180-4 section 6.1.2, step 1), the first one highest.
///
/// From word 32 on, `W[t] = (W[t-3] ^ W[t-8] ^ W[t-14] ^ W[t-16]) <<< 1` put into itself gives `W[t] = (W[t-6] ^
/// W[t-16] ^ W[t-28] ^ W[t-32]) <<< 2`, in which none of four words needs another. Before, the last one needs the first.
#[inline]
#[target_feature(enable = "ssse3,avx512f,avx512vl")]
fn schedule<const GROUP: usize>(words: &[__m128i; 20]) -> __m128i {
    if GROUP >= 8 {
        let back_6 = _mm_alignr_epi8::<8>(words[GROUP - 2], words[GROUP - 1]);
        let older = _mm_ternarylogic_epi32::<XOR>(words[GROUP - 4], words[GROUP - 7], words[GROUP - 8]);
        return _mm_rol_epi32::<2>(_mm_xor_si128(older, back_6));
    }
    let back_14 = _mm_alignr_epi8::<8>(words[GROUP - 4], words[GROUP - 3]);
    let older = _mm_ternarylogic_epi32::<XOR>(words[GROUP - 2], back_14, words[GROUP - 4]);
    let sum = _mm_xor_si128(older, _mm_slli_si128::<4>(words[GROUP - 1]));
    let first = _mm_rol_epi32::<2>(_mm_srli_si128::<12>(sum));
    _mm_xor_si128(_mm_rol_epi32::<1>(sum), first)
}

/// How far the encryption keeps ahead of the hash: what was written a moment ago is slow to read back, as the reads lie
/// across the writes.
const CHUNKS_AHEAD: usize = 2;
/// Truth table of three inputs.
const XOR: i32 = 0x96;
