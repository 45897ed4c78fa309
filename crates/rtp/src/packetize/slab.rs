//! Packets of varying length in one piece of memory that is used again.

use crate::HeaderFields;

/// RTP packets as values: the fields of each header, and the payloads one behind the other.
///
/// Grows to the size one turn needs and keeps that memory, up to 1 MiB, when it is cleared.
#[derive(Clone, Debug, Default)]
pub struct PacketSlab {
    payloads: Vec<u8>,
    /// Each header, and where its payload begins; it ends where the next begins, the last at the
    /// end of `payloads`.
    packets: Vec<(HeaderFields, usize)>,
}

impl PacketSlab {
    /// Forgets all packets.
    pub fn clear(&mut self) {
        self.packets.clear();
        self.payloads.clear();
        // One frame of several megabytes is no reason to hold that much for every stream.
        self.payloads.shrink_to(KEPT_BYTES_MAX);
    }

    /// Header and payload of each packet, in the order they were written.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&HeaderFields, &[u8])> + DoubleEndedIterator {
        self.packets.iter().enumerate().map(|(index, (fields, start))| {
            let end = self.packets.get(index + 1).map_or(self.payloads.len(), |(_, next)| *next);
            (fields, &self.payloads[*start..end])
        })
    }

    /// How many packets there are.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Bytes of memory held for payloads.
    pub fn memory_bytes(&self) -> usize {
        self.payloads.capacity()
    }

    #[inline]
    pub(super) fn begin(&mut self, fields: HeaderFields) {
        self.packets.push((fields, self.payloads.len()));
    }

    #[inline]
    pub(super) fn put(&mut self, bytes: &[u8]) {
        assert!(!self.packets.is_empty(), "a packet was begun");
        self.payloads.extend_from_slice(bytes);
    }

    /// Sets the marker of the last packet.
    pub(super) fn mark_last(&mut self) {
        self.packets.last_mut().expect("a packet was begun").0.marker = true;
    }
}

/// Memory a slab keeps when it is cleared, in bytes: more than a key frame of 20 Mbit/s.
const KEPT_BYTES_MAX: usize = 1 << 20;
