//! What differs between the copies of one frame: the records that the program reads, and their
//! owners.
//!
//! Checksums are complete: the payload, which is the same for all, is summed once by the caller,
//! and a record adds its headers and private bytes (`frame.rs`). So it does not matter whether the
//! device computes checksums.

use crate::backend::tc_clone::replicator::{COPIES_MAX, HEAD_MAX, Shape, TAIL_MAX};
use crate::frame::{Header, Sum};
use arrayvec::ArrayVec;

pub(super) struct Copies {
    /// One behind the other.
    records: Box<[u8]>,
    end: usize,
    owners: ArrayVec<u32, COPIES_MAX>,
    /// IPv4 identification of datagrams that routers may fragment (RFC 6864 section 4.1).
    identification: u16,
}

impl Copies {
    pub(super) fn new() -> Self {
        let records = vec![0; COPIES_MAX * (HEAD_MAX + TAIL_MAX)].into_boxed_slice();
        Self { records, end: 0, owners: ArrayVec::new(), identification: 0 }
    }

    pub(super) fn clear(&mut self) {
        self.end = 0;
        self.owners.clear();
    }

    /// Adds a copy: `parts` are the private bytes before, the payload, which adds up to `payload`,
    /// and those after it.
    ///
    /// # Panics
    /// If there are [`COPIES_MAX`], or the parts are not of the shape.
    pub(super) fn push(
        &mut self,
        owner: u32,
        header: &Header,
        parts: [&[u8]; 3],
        payload: Sum,
        shape: Shape,
    ) {
        let [before, shared, after] = parts;
        let record = &mut self.records[self.end..self.end + shape.record_len()];
        let (head, tail) = record.split_at_mut(shape.head);
        head[header.len()..].copy_from_slice(before);
        tail.copy_from_slice(after);
        let sum = Sum::of(before)
            .followed_by(before.len(), payload)
            .followed_by(before.len() + shared.len(), Sum::of(after));
        self.identification = self.identification.wrapping_add(1);
        header.write(self.identification, before.len() + shared.len() + after.len(), sum, head);
        self.end += shape.record_len();
        self.owners.push(owner);
    }

    pub(super) fn is_full(&self) -> bool {
        self.owners.is_full()
    }

    pub(super) fn records(&self) -> &[u8] {
        &self.records[..self.end]
    }

    /// Whose each record is.
    pub(super) fn owners(&self) -> &[u32] {
        &self.owners
    }
}
