//! Array of SSRC and pointer, searched from the front, as libsrtp's main branch keeps its streams.

use super::{Contender, Heap, Stream};

pub(crate) struct Array {
    entries: Vec<Entry>,
}

struct Entry {
    ssrc: u32,
    stream: Box<Stream>,
}

impl Contender for Array {
    const NAME: &'static str = "array";

    fn build(streams: &[Stream], heap: &mut Heap) -> Self {
        let entries = heap.scatter(streams).into_iter().map(|stream| Entry { ssrc: stream.ssrc, stream });
        Self { entries: entries.collect() }
    }

    #[inline]
    fn find(&self, ssrc: u32) -> Option<&Stream> {
        self.entries.iter().find(|entry| entry.ssrc == ssrc).map(|entry| &*entry.stream)
    }
}
