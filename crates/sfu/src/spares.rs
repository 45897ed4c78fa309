//! Memory of packets that are no longer needed, used again for new ones.
//!
//! The streams of a thread share it. When a key frame makes a group of pictures superfluous, the
//! packets of other streams take its memory; if each stream kept its own, each would always hold the
//! most it ever needed. A packet that others still hold (a mirror, a batch under way) waits here until
//! they let go of it. Only the thread that made a packet takes it back: if a mirror kept it as well,
//! each of the two would wait for the other.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use super::packet::{PACKET_OVERHEAD, Packet, PacketMeta, Parts};

thread_local! {
    static SPARES: RefCell<Spares> = RefCell::default();
}

/// A packet with this content. `None` if it is longer than any datagram.
pub(crate) fn packet(meta: PacketMeta, parts: &Parts<'_>) -> Option<Arc<Packet>> {
    let class = class_of(parts.room());
    let make = CLASSES.get(class)?.make;
    let known = SPARES.with_borrow_mut(|spares| spares.take(class));
    let mut packet = known.unwrap_or_else(|| {
        #[cfg(test)]
        tests::MADE.set(tests::MADE.get() + 1);
        make(meta)
    });
    let content = Arc::get_mut(&mut packet).expect("it is new, or was found to have no other holder");
    content.fill(meta, parts);
    Some(packet)
}

/// Takes back a packet that was made on this thread.
pub(crate) fn recycle(packet: Arc<Packet>) {
    SPARES.with_borrow_mut(|spares| spares.keep(packet));
}

/// Unused packets by size. The one that was used last goes first: it is more likely to be in the
/// processor's caches.
#[derive(Debug)]
struct Spares {
    classes: [VecDeque<Arc<Packet>>; CLASSES.len()],
    bytes: usize,
}

impl Default for Spares {
    fn default() -> Self {
        Self { classes: std::array::from_fn(|_| VecDeque::new()), bytes: 0 }
    }
}

impl Spares {
    fn take(&mut self, class: usize) -> Option<Arc<Packet>> {
        let spares = &mut self.classes[class];
        let mut packet = spares.pop_back()?;
        if Arc::get_mut(&mut packet).is_none() {
            // A mirror has what came of late; hardly what has been unused longest.
            spares.push_back(packet);
            packet = spares.pop_front()?;
            if Arc::get_mut(&mut packet).is_none() {
                // Its other holders may have let go by the time it is its turn again.
                spares.push_back(packet);
                return None;
            }
        }
        self.bytes -= packet.memory();
        Some(packet)
    }

    /// Beyond the limit, those of the size that has most of the memory go, the longest unused first: no
    /// burst of one size takes the place of all others.
    fn keep(&mut self, packet: Arc<Packet>) {
        let Some(of_class) = self.classes.get_mut(class_of(packet.room())) else { return };
        self.bytes += packet.memory();
        of_class.push_back(packet);
        while self.bytes > SPARE_BYTES_MAX
            && let Some((most, _)) =
                self.classes.iter_mut().zip(&CLASSES).max_by_key(|(spares, class)| spares.len() * class.room)
            && let Some(freed) = most.pop_front()
        {
            self.bytes -= freed.memory();
        }
    }
}

/// The first class with this much room, or their number.
fn class_of(room: usize) -> usize {
    CLASSES.partition_point(|class| class.room < room)
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
/// memory (four to each power of two), so that rounding costs 9 % on average, and never more than a
/// quarter, whatever sizes a publisher chooses. The last holds the longest datagram.
const CLASSES: [Class; 37] = [
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
    Class::new::<{ 1_792 - PACKET_OVERHEAD }>(),
    Class::new::<{ 2_048 - PACKET_OVERHEAD }>(),
    Class::new::<{ 2_560 - PACKET_OVERHEAD }>(),
    Class::new::<{ 3_072 - PACKET_OVERHEAD }>(),
    Class::new::<{ 3_584 - PACKET_OVERHEAD }>(),
    Class::new::<{ 4_096 - PACKET_OVERHEAD }>(),
    Class::new::<{ 5_120 - PACKET_OVERHEAD }>(),
    Class::new::<{ 6_144 - PACKET_OVERHEAD }>(),
    Class::new::<{ 7_168 - PACKET_OVERHEAD }>(),
    Class::new::<{ 8_192 - PACKET_OVERHEAD }>(),
    Class::new::<{ 10_240 - PACKET_OVERHEAD }>(),
    Class::new::<{ 12_288 - PACKET_OVERHEAD }>(),
    Class::new::<{ 14_336 - PACKET_OVERHEAD }>(),
    Class::new::<{ 16_384 - PACKET_OVERHEAD }>(),
    Class::new::<{ 20_480 - PACKET_OVERHEAD }>(),
    Class::new::<{ 24_576 - PACKET_OVERHEAD }>(),
    Class::new::<{ 28_672 - PACKET_OVERHEAD }>(),
    Class::new::<{ 32_768 - PACKET_OVERHEAD }>(),
    Class::new::<{ 40_960 - PACKET_OVERHEAD }>(),
    Class::new::<{ 49_152 - PACKET_OVERHEAD }>(),
    Class::new::<{ 57_344 - PACKET_OVERHEAD }>(),
    Class::new::<{ 65_536 - PACKET_OVERHEAD }>(),
    Class::new::<{ 81_920 - PACKET_OVERHEAD }>(),
];

/// Unused packets of a thread. A worker of 1500 publishers takes in and lets go 200 kB between two
/// turns of its timers; the rest is for groups of pictures that end together.
const SPARE_BYTES_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::{Duration, Instant};

    use rtp::HeaderFields;
    use rtp::extension::ExtensionMap;
    use rtp::payload::{Codec, MediaKind};

    use super::super::packet::EXTENSION_BYTES_MAX;
    use super::super::{Limits, PacketStream, PublisherInput, TrackInput, TrackPayload, WallClock};
    use super::*;

    thread_local! {
        /// Packets for which there was no memory to be used again.
        pub(super) static MADE: Cell<usize> = const { Cell::new(0) };
    }

    /// A stream of video, and what another worker has of it.
    struct World {
        home: PacketStream,
        mirror: PacketStream,
        crossing: Vec<Arc<Packet>>,
        now: Instant,
        number: u16,
    }

    impl World {
        fn new() -> Self {
            #[expect(clippy::disallowed_methods, reason = "a test is where virtual time begins")]
            let now = Instant::now();
            let payload =
                TrackPayload { payload_type: 96, codec: Codec::H264, clock_rate: 90_000, rtx: None };
            let track = TrackInput {
                kind: MediaKind::Video,
                mid: String::new(),
                payloads: vec![payload],
                extensions: ExtensionMap::new(),
                ssrcs: vec![(7, None)],
                rids: Vec::new(),
                nack: false,
                pli: true,
                fir: false,
                transport_cc: false,
                remb: false,
            };
            let (home, mirror) = (stream(now), stream(now));
            let mut world = Self { home, mirror, crossing: Vec::new(), now, number: 0 };
            let input = PublisherInput { tracks: vec![track], ..PublisherInput::default() };
            world.home.publisher_started(now, 1, input);
            world
        }

        /// Plays packets of this length, one each millisecond, and returns how many were made of new memory.
        fn play(&mut self, packets: u16, len: usize, is_mirrored: bool) -> usize {
            let before = MADE.get();
            for _ in 0..packets {
                let fields = HeaderFields {
                    marker: true,
                    payload_type: 96,
                    sequence_number: self.number,
                    timestamp: u32::from(self.number) * 90,
                    ssrc: 7,
                };
                let is_key = self.number.is_multiple_of(64);
                self.home.receive_packet(self.now, &fields, &vec![1; len], is_key).expect("taken in");
                self.home.take_arrivals(|packet| {
                    if is_mirrored {
                        self.crossing.push(Arc::clone(packet));
                    }
                });
                // The other worker is a batch behind.
                if self.number.is_multiple_of(16) {
                    for packet in self.crossing.drain(..) {
                        self.mirror.receive_mirrored(self.now, &packet).expect("taken in");
                    }
                    self.mirror.take_arrivals(|_| {});
                }
                for stream in [&mut self.home, &mut self.mirror] {
                    stream.prepare_batch(MediaKind::Video);
                    stream.finish_batch(MediaKind::Video);
                }
                self.now += Duration::from_millis(1);
                self.number += 1;
            }
            MADE.get() - before
        }
    }

    fn stream(now: Instant) -> PacketStream {
        PacketStream::new(Limits::default(), WallClock { at: now, ntp: rtp::rtcp::NtpTime(1) })
    }

    #[test]
    fn packets_that_another_worker_had_are_used_again() {
        let mut world = World::new();
        assert!(world.play(2_000, 1_000, true) >= 1_500, "a history");
        assert_eq!(world.play(6_000, 1_000, true), 0);
        (world.mirror, world.crossing) = (stream(world.now), Vec::new());
        assert_eq!(world.play(6_000, 1_000, false), 0);
    }

    #[test]
    fn large_packets_do_not_take_the_place_of_all_others() {
        let mut world = World::new();
        // Together the spares of these two sizes were more than there may be.
        world.play(20, 60_000, false);
        world.play(20, 3_900, false);
        world.play(4_000, 1_000, false);
        assert_eq!(world.play(4_000, 1_000, false), 0);
        let kept = SPARES.with_borrow(|spares| {
            (spares.bytes, spares.classes.iter().flatten().cloned().collect::<Vec<_>>())
        });
        assert!(kept.0 <= SPARE_BYTES_MAX);
        assert_eq!(kept.0, kept.1.iter().map(|packet| packet.memory()).sum::<usize>());
    }

    #[test]
    fn sizes_rise_by_a_quarter_at_most_and_the_last_holds_any_datagram() {
        let memory = |class: &Class| class.room + PACKET_OVERHEAD;
        for pair in CLASSES.windows(2) {
            assert!(memory(&pair[0]) < memory(&pair[1]) && 4 * memory(&pair[1]) <= 5 * memory(&pair[0]));
        }
        let longest = usize::from(u16::MAX) + EXTENSION_BYTES_MAX + 1;
        assert_eq!(class_of(longest), CLASSES.len() - 1);
        for (at, class) in CLASSES.iter().enumerate() {
            assert_eq!((class_of(class.room), class_of(class.room + 1)), (at, at + 1));
        }
    }
}
