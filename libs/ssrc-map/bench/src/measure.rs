//! The measured loops and the clock.
//!
//! Back to back: nothing but look-ups, which do not wait for each other. Under pressure: before
//! each look-up a packet of 1200 bytes is read out of a pool far larger than the first-level cache,
//! and the SSRC comes out of its header, as it does in a server. The same loop without the look-up
//! says what the packet costs.

use std::arch::asm;
use std::hint::black_box;

use nix::time::{ClockId, clock_gettime};

use rand::rngs::SmallRng;

use crate::contender::{Contender, shuffle};
use crate::traffic::MISS;

/// Adds up what the look-ups find.
#[inline(never)]
pub(crate) fn back_to_back<C: Contender>(table: &C, sequence: &[u32]) -> u64 {
    let mut sum = 0_u64;
    for &ssrc in sequence {
        sum = sum.wrapping_add(found(table, ssrc));
    }
    black_box(sum)
}

/// The same with a packet read before each look-up.
#[inline(never)]
pub(crate) fn under_pressure<C: Contender>(table: &C, sequence: &[u32], pool: &mut Pool) -> u64 {
    let mut sum = 0_u64;
    for &ssrc in sequence {
        let (header, touched) = opaque_mut(pool).read_next();
        sum = sum.wrapping_add(touched).wrapping_add(found(table, ssrc ^ header));
    }
    black_box(sum)
}

/// The packets alone; adds up the SSRCs.
#[inline(never)]
pub(crate) fn packets_alone(sequence: &[u32], pool: &mut Pool) -> u64 {
    let mut sum = 0_u64;
    for &ssrc in sequence {
        let (header, touched) = opaque_mut(pool).read_next();
        sum = sum.wrapping_add(touched).wrapping_add(u64::from(ssrc ^ header));
    }
    black_box(sum)
}

#[inline(always)]
fn found<C: Contender>(table: &C, ssrc: u32) -> u64 {
    match opaque(table).find(ssrc) {
        Some(stream) => stream.packets,
        None => MISS,
    }
}

/// The same reference, of which the compiler knows nothing: each look-up starts from the table in
/// memory, as it does when there is a packet's work in between. `black_box` would cost a trip
/// through the stack.
#[inline(always)]
fn opaque<T>(value: &T) -> &T {
    let mut pointer: *const T = value;
    // SAFETY: no instruction is executed; the compiler merely has to assume that memory and
    // `pointer` have changed.
    unsafe { asm!("/* {0} */", inout(reg) pointer, options(nostack, preserves_flags)) };
    // SAFETY: `pointer` was made of `value`, which lives as long as the result.
    unsafe { &*pointer }
}

/// The same for what is changed. A pool whose fields had to be in registers all the time would
/// leave a look-up too few, and each contender would pay another price for it.
#[inline(always)]
fn opaque_mut<T>(value: &mut T) -> &mut T {
    let mut pointer: *mut T = value;
    // SAFETY: no instruction is executed; the compiler merely has to assume that memory and
    // `pointer` have changed.
    unsafe { asm!("/* {0} */", inout(reg) pointer, options(nostack, preserves_flags)) };
    // SAFETY: `pointer` was made of `value`, which is borrowed as long as the result.
    unsafe { &mut *pointer }
}

/// Received packets in the order in which an aged free list returns buffers: random, but the same
/// each time.
///
/// All bytes are zero, so reading them changes no result.
pub(crate) struct Pool {
    lines: Vec<Line>,
    /// Packets by number.
    order: Vec<u32>,
    /// Position in `order`.
    next: usize,
}

#[derive(Clone)]
#[repr(C, align(64))]
struct Line([u32; 16]);

/// 1200 bytes.
const LINES_PER_PACKET: usize = 1200_usize.div_ceil(64);

/// Where an RTP header has its SSRC (RFC 3550 section 5.1), in words.
const SSRC_WORD: usize = 2;

impl Pool {
    pub(crate) fn new(kibibytes: usize, random: &mut SmallRng) -> Self {
        let packets = (kibibytes * 1024 / size_of::<Line>() / LINES_PER_PACKET).max(1);
        let mut lines = vec![Line([1; 16]); packets * LINES_PER_PACKET];
        // Written twice: memory never written to is one page of zeros, many times over.
        for line in black_box(&mut lines) {
            *line = Line([0; 16]);
        }
        let mut order: Vec<u32> = (0..packets as u32).collect();
        shuffle(&mut order, random);
        Self { lines: black_box(lines), order, next: 0 }
    }

    /// Reads a word of each cache line; returns that of the SSRC, and the sum.
    #[inline(always)]
    fn read_next(&mut self) -> (u32, u64) {
        let start = self.order[self.next] as usize * LINES_PER_PACKET;
        let (lines, _) = self.lines[start..].split_first_chunk::<LINES_PER_PACKET>().expect("whole packets");
        let lines = opaque(lines);
        self.next += 1;
        if self.next == self.order.len() {
            self.next = 0;
        }
        let mut sum = lines.iter().fold(0_u64, |sum, line| sum.wrapping_add(u64::from(line.0[SSRC_WORD])));
        // A packet is read before its look-up. The compiler would put the additions off until after
        // it, and spill their operands around it, as many as the look-up happens to leave registers
        // for. SAFETY: no instruction is executed; the compiler merely has to assume that `sum` has
        // changed.
        unsafe { asm!("/* {0} */", inout(reg) sum, options(nomem, nostack, preserves_flags)) };
        (lines[0].0[SSRC_WORD], sum)
    }
}

/// Nanoseconds of processor time of this thread: what others do meanwhile is not counted.
pub(crate) fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every Linux has this clock");
    time.tv_sec().cast_unsigned() * 1_000_000_000 + time.tv_nsec().cast_unsigned()
}
