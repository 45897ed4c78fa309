//! Memory of packets that are no longer needed, used again for new ones.
//!
//! The streams of a thread share it. When a key frame makes a group of pictures superfluous, the
//! packets of other streams take its memory; if each stream kept its own, each would always hold the
//! most it ever needed. A packet others still hold (another worker, a batch under way) waits its
//! turn and is given up if there are too many.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use super::packet::{PACKET_OVERHEAD, Packet, PacketMeta, Parts};

thread_local! {
    static SPARES: RefCell<Spares> = RefCell::default();
}

/// A packet with this content. `None` if it is longer than any datagram.
pub(crate) fn packet(meta: PacketMeta, parts: &Parts<'_>) -> Option<Arc<Packet>> {
    let class = CLASSES.iter().position(|class| parts.room() <= class.room)?;
    let known = SPARES.with_borrow_mut(|spares| spares.take(class));
    let mut packet = known.unwrap_or_else(|| (CLASSES[class].make)(meta));
    let content = Arc::get_mut(&mut packet).expect("it is new, or was found to have no other holder");
    content.fill(meta, parts);
    Some(packet)
}

/// Takes back a packet.
pub(crate) fn recycle(packet: Arc<Packet>) {
    SPARES.with_borrow_mut(|spares| spares.keep(packet));
}

/// Unused packets by size, the longest unused first.
#[derive(Debug, Default)]
struct Spares {
    classes: [VecDeque<Arc<Packet>>; CLASSES.len()],
    bytes: usize,
}

impl Spares {
    fn take(&mut self, class: usize) -> Option<Arc<Packet>> {
        let mut packet = self.classes[class].pop_front()?;
        if Arc::get_mut(&mut packet).is_none() {
            // Its other holders may have let go by the time it is first again.
            self.classes[class].push_back(packet);
            return None;
        }
        self.bytes -= packet.memory();
        Some(packet)
    }

    fn keep(&mut self, packet: Arc<Packet>) {
        let class = CLASSES.iter().position(|class| class.room == packet.room());
        let bytes = self.bytes + packet.memory();
        if let Some(class) = class.filter(|_| bytes <= SPARE_BYTES_MAX) {
            self.classes[class].push_back(packet);
            self.bytes = bytes;
        }
    }
}

/// Packets of one size.
struct Class {
    room: usize,
    make: fn(PacketMeta) -> Arc<Packet>,
}

impl Class {
    const fn new<const ROOM: usize>() -> Self {
        Self { room: ROOM, make: |meta| Arc::new(Packet::<[u8; ROOM]>::empty(meta)) }
    }
}

/// By rising size. With what a packet has besides, they fill the sizes in which allocators hand out
/// memory (four to each power of two), so that rounding costs 9 % on average and not twice that. The
/// last holds the longest datagram.
const CLASSES: [Class; 16] = [
    Class::new::<{ 160 - PACKET_OVERHEAD }>(),
    Class::new::<{ 192 - PACKET_OVERHEAD }>(),
    Class::new::<{ 224 - PACKET_OVERHEAD }>(),
    Class::new::<{ 256 - PACKET_OVERHEAD }>(),
    Class::new::<{ 320 - PACKET_OVERHEAD }>(),
    Class::new::<{ 384 - PACKET_OVERHEAD }>(),
    Class::new::<{ 448 - PACKET_OVERHEAD }>(),
    Class::new::<{ 512 - PACKET_OVERHEAD }>(),
    Class::new::<{ 640 - PACKET_OVERHEAD }>(),
    Class::new::<{ 768 - PACKET_OVERHEAD }>(),
    Class::new::<{ 896 - PACKET_OVERHEAD }>(),
    Class::new::<{ 1_024 - PACKET_OVERHEAD }>(),
    Class::new::<{ 1_280 - PACKET_OVERHEAD }>(),
    Class::new::<{ 1_536 - PACKET_OVERHEAD }>(),
    Class::new::<{ 4_096 - PACKET_OVERHEAD }>(),
    Class::new::<{ 66_048 - PACKET_OVERHEAD }>(),
];

/// Unused packets of a thread. A worker of 1500 publishers takes in and lets go 200 kB between two
/// turns of its timers; the rest is for groups of pictures that end together.
const SPARE_BYTES_MAX: usize = 1 << 20;
