//! Array of SSRCs beside an array of pointers; the first is scanned with SSE2, 16 SSRCs per step
//! and then 4.
//!
//! The scan of libsrtp pull request 508 as its description says it, rewritten. Room for SSRCs grows
//! by 16, so the last step may read beyond the last SSRC; what it finds there does not count.
//! Elsewhere the compiler gets a plain scan.

use super::{Contender, Heap, Stream};

pub(crate) struct Sse2 {
    /// Filled up with zeros to a multiple of 4.
    ssrcs: Vec<u32>,
    #[expect(clippy::vec_box, reason = "streams have allocations of their own, that is the point")]
    streams: Vec<Box<Stream>>,
}

impl Contender for Sse2 {
    const NAME: &'static str = "sse2";

    fn build(streams: &[Stream], heap: &mut Heap) -> Self {
        let mut ssrcs: Vec<u32> = streams.iter().map(|stream| stream.ssrc).collect();
        ssrcs.resize(ssrcs.len().next_multiple_of(4), 0);
        Self { ssrcs, streams: heap.scatter(streams) }
    }

    #[inline]
    fn find(&self, ssrc: u32) -> Option<&Stream> {
        // The padding comes last, so a position in it means that no stream has the SSRC, and is out
        // of range here.
        #[cfg(target_arch = "x86_64")]
        // SAFETY: every x86-64 processor has SSE2.
        let position = unsafe { position(&self.ssrcs, ssrc) };
        #[cfg(not(target_arch = "x86_64"))]
        let position = position(&self.ssrcs, ssrc);
        self.streams.get(position?).map(|stream| &**stream)
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
#[inline]
fn position(ssrcs: &[u32], ssrc: u32) -> Option<usize> {
    use std::arch::x86_64::{
        __m128i, _mm_castsi128_ps, _mm_cmpeq_epi32, _mm_loadu_si128, _mm_movemask_epi8, _mm_movemask_ps,
        _mm_packs_epi16, _mm_packs_epi32, _mm_set1_epi32,
    };
    let wanted = _mm_set1_epi32(ssrc.cast_signed());
    let equal = |four: &[u32; 4]| {
        // SAFETY: `four` is 16 readable bytes, and the load needs no alignment.
        let lanes = unsafe { _mm_loadu_si128(four.as_ptr().cast::<__m128i>()) };
        _mm_cmpeq_epi32(lanes, wanted)
    };
    let (fours, _) = ssrcs.as_chunks::<4>();
    let (sixteens, rest) = fours.as_chunks::<4>();
    for (step, [a, b, c, d]) in sixteens.iter().enumerate() {
        let low = _mm_packs_epi32(equal(a), equal(b));
        let high = _mm_packs_epi32(equal(c), equal(d));
        let found = _mm_movemask_epi8(_mm_packs_epi16(low, high));
        if found != 0 {
            return Some(step * 16 + found.trailing_zeros() as usize);
        }
    }
    for (step, four) in rest.iter().enumerate() {
        let found = _mm_movemask_ps(_mm_castsi128_ps(equal(four)));
        if found != 0 {
            return Some(sixteens.len() * 16 + step * 4 + found.trailing_zeros() as usize);
        }
    }
    None
}

#[cfg(not(target_arch = "x86_64"))]
fn position(ssrcs: &[u32], ssrc: u32) -> Option<usize> {
    ssrcs.iter().position(|&other| other == ssrc)
}
