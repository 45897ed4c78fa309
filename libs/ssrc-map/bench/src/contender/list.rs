//! Linked list of streams, each an allocation of its own, as libsrtp 2.x keeps them.
//!
//! The SSRC is the first field of the structure and `next` the last, in another cache line. A new
//! stream goes first.

use super::{Contender, Heap, Stream};

pub(crate) struct List {
    first: Option<Box<Node>>,
}

#[derive(Clone)]
#[repr(C)]
struct Node {
    stream: Stream,
    next: Option<Box<Node>>,
}

impl Contender for List {
    const NAME: &'static str = "list";

    fn build(streams: &[Stream], heap: &mut Heap) -> Self {
        let nodes: Vec<Node> =
            streams.iter().map(|stream| Node { stream: stream.clone(), next: None }).collect();
        let mut first = None;
        for mut node in heap.scatter(&nodes) {
            node.next = first;
            first = Some(node);
        }
        Self { first }
    }

    #[inline]
    fn find(&self, ssrc: u32) -> Option<&Stream> {
        let mut next = self.first.as_deref();
        while let Some(node) = next {
            if node.stream.ssrc == ssrc {
                return Some(&node.stream);
            }
            next = node.next.as_deref();
        }
        None
    }
}

impl Drop for List {
    /// One by one: dropping the first would recurse as deep as the list is long.
    fn drop(&mut self) {
        let mut next = self.first.take();
        while let Some(mut node) = next {
            next = node.next.take();
        }
    }
}
