//! Packets of varying length in one piece of memory that is used again.

use crate::{FIXED_HEADER_LEN, HeaderFields, set_marker_payload_type};

/// RTP packets, whole, one behind the other.
///
/// Grows to what one turn needs and keeps that memory, up to 1 MiB, when it is cleared.
#[derive(Clone, Debug, Default)]
pub struct PacketSlab {
    bytes: Vec<u8>,
    /// Where each packet begins; each ends where the next begins, the last at the end of `bytes`.
    starts: Vec<usize>,
}

impl PacketSlab {
    /// Forgets all packets.
    pub fn clear(&mut self) {
        self.starts.clear();
        self.bytes.clear();
        // One frame of several megabytes is no reason to hold that much for every stream.
        self.bytes.shrink_to(KEPT_BYTES_MAX);
    }

    /// The packets, in the order they were written.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> + DoubleEndedIterator {
        (0..self.starts.len()).map(|index| &self.bytes[self.starts[index]..self.end_of(index)])
    }

    /// How many packets there are.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Bytes of memory held for packets.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    fn end_of(&self, index: usize) -> usize {
        self.starts.get(index + 1).copied().unwrap_or(self.bytes.len())
    }

    #[inline]
    pub(super) fn begin(&mut self, fields: &HeaderFields) {
        let start = self.bytes.len();
        self.starts.push(start);
        let mut header = [0; FIXED_HEADER_LEN];
        fields.write(&[], &mut header);
        self.bytes.extend_from_slice(&header);
    }

    #[inline]
    pub(super) fn put(&mut self, bytes: &[u8]) {
        assert!(!self.starts.is_empty(), "a packet was begun");
        self.bytes.extend_from_slice(bytes);
    }

    /// Sets the marker of the last packet.
    pub(super) fn mark_last(&mut self) {
        let start = *self.starts.last().expect("a packet was begun");
        let header = self.bytes[start..].first_chunk_mut().expect("begun with a header");
        let payload_type = header[1] & 0x7f;
        set_marker_payload_type(header, true, payload_type);
    }
}

/// Memory a slab keeps when it is cleared, in bytes: more than a key frame of 20 Mbit/s.
const KEPT_BYTES_MAX: usize = 1 << 20;
