//! Ways to find the stream of an SSRC, behind one trait.
//!
//! Each holds its streams as its users do: the C ones point to streams allocated one by one, the
//! Rust maps contain them. `main.rs` decides what is measured, and on which keys.

mod array;
mod list;
mod maps;
mod sse2;

pub(crate) use array::Array;
pub(crate) use list::List;
pub(crate) use maps::{BTree, HashbrownFold, HashbrownMultiply, SsrcMapOurs, StdHash};
pub(crate) use sse2::Sse2;

use rand::Rng;
use rand::rngs::SmallRng;

/// State of one stream, of the size it has in an SRTP library: keys by pointer, replay windows and
/// counters inside.
#[derive(Clone)]
#[repr(C)]
pub(crate) struct Stream {
    /// Beside `packets`, in the first cache line: the best case for a list, which reads both.
    pub(crate) ssrc: u32,
    rollover_counter: u32,
    /// What the benchmark reads of the stream it found.
    pub(crate) packets: u64,
    state: [u64; 23],
}

impl Stream {
    pub(crate) fn new(ssrc: u32, packets: u64) -> Self {
        Self { ssrc, rollover_counter: 0, packets, state: [packets; 23] }
    }
}

/// A table of streams.
pub(crate) trait Contender {
    /// Name in the tables.
    const NAME: &'static str;

    /// A table of these streams, inserted in this order.
    fn build(streams: &[Stream], heap: &mut Heap) -> Self;

    /// The stream of `ssrc`.
    fn find(&self, ssrc: u32) -> Option<&Stream>;
}

/// Where streams of their own allocation lie: in random order, among the other things a server
/// allocates meanwhile.
pub(crate) struct Heap {
    random: SmallRng,
    /// Keys, cipher contexts, replay windows; freed after the cell, so that they stay in between.
    others: Vec<Box<[u8]>>,
}

impl Heap {
    pub(crate) fn new(random: SmallRng) -> Self {
        Self { random, others: Vec::new() }
    }

    /// One box per value, in the order of `values`, whose addresses are in random order.
    pub(crate) fn scatter<T: Clone>(&mut self, values: &[T]) -> Vec<Box<T>> {
        let mut order: Vec<usize> = (0..values.len()).collect();
        shuffle(&mut order, &mut self.random);
        let mut boxes: Vec<Option<Box<T>>> = values.iter().map(|_| None).collect();
        for index in order {
            boxes[index] = Some(Box::new(values[index].clone()));
            let other = vec![0xa5; self.random.random_range(32..1024)].into_boxed_slice();
            self.others.push(other);
        }
        boxes.into_iter().map(|slot| slot.expect("the order names every index")).collect()
    }
}

/// Fisher and Yates.
pub(crate) fn shuffle<T>(values: &mut [T], random: &mut SmallRng) {
    for index in (1..values.len()).rev() {
        values.swap(index, random.random_range(0..=index));
    }
}
