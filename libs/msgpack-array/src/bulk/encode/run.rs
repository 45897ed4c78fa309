//! The way through an array in blocks, the same for every instruction set.

use core::mem::MaybeUninit;

/// Progress within an array: the remaining elements, and the bytes written so far.
pub(super) struct Run<'a, T> {
    values: &'a [T],
    out: &'a mut [MaybeUninit<u8>],
    written: usize,
}

impl<'a, T: Copy> Run<'a, T> {
    #[inline(always)]
    pub(super) fn new(values: &'a [T], out: &'a mut [MaybeUninit<u8>]) -> Self {
        Self { values, out, written: 0 }
    }

    /// Writes `STEP` elements at a time, as long as `READ` can be read and `ROOM` bytes
    /// overwritten. `block` returns the bytes that count.
    #[inline(always)]
    pub(super) fn blocks<const STEP: usize, const READ: usize, const ROOM: usize>(
        &mut self,
        mut block: impl FnMut(&[T; READ], &mut [MaybeUninit<u8>; ROOM]) -> usize,
    ) {
        while let Some(values) = self.values.first_chunk()
            && let Some(room) = self.out.get_mut(self.written..).and_then(<[_]>::first_chunk_mut)
        {
            self.written += block(values, room);
            self.values = &self.values[STEP..];
        }
    }

    /// Writes what is left, at most `STEP` elements at a time, as long as `ROOM` bytes can be
    /// overwritten.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(super) fn rest<const STEP: usize, const ROOM: usize>(
        &mut self,
        mut block: impl FnMut(&[T], &mut [MaybeUninit<u8>; ROOM]) -> usize,
    ) {
        while !self.values.is_empty()
            && let Some(room) = self.out.get_mut(self.written..).and_then(<[_]>::first_chunk_mut)
        {
            let (values, rest) = self.values.split_at(self.values.len().min(STEP));
            self.written += block(values, room);
            self.values = rest;
        }
    }

    /// Writes what is left by `encode`, and returns how long it all is.
    #[inline(always)]
    pub(super) fn finish(self, encode: impl FnOnce(&[T], &mut [MaybeUninit<u8>]) -> usize) -> usize {
        match self.values {
            [] => self.written,
            values => self.written + encode(values, &mut self.out[self.written..]),
        }
    }
}
