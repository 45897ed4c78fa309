//! Outputs larger than the caches: past them to memory.
//!
//! An ordinary store first reads the line it writes to from memory. Output that will have left the
//! caches before anybody reads it is therefore encoded piece by piece into a stage that stays in
//! the first cache, and whole lines of it go to memory by non-temporal stores. How a piece is
//! encoded and lines are stored is left to the instruction sets.

use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch, _mm_sfence};
use core::mem::MaybeUninit;

use crate::element::Element;

/// Bytes of a line of the caches.
const LINE: usize = 64;

/// A line, or a place for one.
pub(super) type Line = [MaybeUninit<u8>; LINE];

/// Bytes of input that a piece consists of. With longer ones reads and writes take turns instead of
/// going on together; half of it is better for f64 (0.79 instead of 0.93 ns) and worse for i64
/// (0.85 instead of 0.77).
const PIECE_BYTES: usize = 512;

/// Elements' longest forms together from which on the way past the caches is the faster one, where
/// 480 MiB of third-level cache are shared by many: half as long outputs take up to twice the time
/// by it.
const LARGE_BYTES: usize = 24 << 20;

/// How far ahead the input is fetched: farther, and lines are evicted or wait for others that are
/// needed before.
const AHEAD_BYTES: usize = 1024;

/// Encoded bytes on their way, as far from the beginning of a line as they will be in the output.
/// Bytes take two at most, and longer numbers less than that.
#[repr(C, align(64))]
struct Stage([MaybeUninit<u8>; LINE + 2 * PIECE_BYTES + super::SLACK]);

/// Whether `values` are so many that they should be written by [`encode`].
#[inline]
pub(super) fn is_large<T: Element>(values: &[T]) -> bool {
    values.len() >= const { LARGE_BYTES / T::ENCODED_MAX }
}

/// Writes all `values` to `out` by `encode` and returns the length; `out` is at least as long as
/// for `encode`. `stream` copies lines to places for lines, of which there are as many or more;
/// both slices begin at a multiple of 64.
#[inline(never)]
pub(super) fn encode<T>(
    values: &[T],
    out: &mut [MaybeUninit<u8>],
    encode: impl Fn(&[T], &mut [MaybeUninit<u8>]) -> usize,
    stream: impl Fn(&[Line], &mut [Line]),
) -> usize {
    let mut stage = Stage([MaybeUninit::uninit(); _]);
    let line_offset = out.as_ptr().addr() % LINE;
    // Of the stage, bytes `begin..end` are to be written to `out[written..]`: 0 <= begin < LINE,
    // and 0 after the first line.
    let (mut begin, mut end, mut written) = (line_offset, line_offset, 0);
    for piece in values.chunks(PIECE_BYTES / size_of::<T>()) {
        prefetch(piece);
        end += encode(piece, &mut stage.0[end..]);
        let (mut lines, _) = stage.0[..end].as_chunks();
        if begin != 0
            && let [first, rest @ ..] = lines
        {
            written = LINE - begin;
            out[..written].copy_from_slice(&first[begin..]);
            (begin, lines) = (0, rest);
        }
        stream(lines, out[written..].as_chunks_mut().0);
        written += lines.len() * LINE;
        let whole = end / LINE * LINE;
        stage.0.copy_within(whole..end, 0);
        end -= whole;
    }
    // SAFETY: every x86-64 CPU has it. The stores above are ordered before whatever follows, as
    // stores of safe code are.
    unsafe { _mm_sfence() };
    out[written..][..end - begin].copy_from_slice(&stage.0[begin..end]);
    written + end - begin
}

/// Asks for the memory that a later piece will be read from.
#[inline(always)]
fn prefetch<T>(piece: &[T]) {
    for line in (0..size_of_val(piece)).step_by(LINE) {
        let ahead = piece.as_ptr().cast::<i8>().wrapping_add(AHEAD_BYTES + line);
        // SAFETY: a prefetch may have any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(ahead) };
    }
}
