//! A packet as the stream keeps it: what was received, taken apart once, and never changed again.
//!
//! A packet holds the payload and those header extensions that are passed on, and knows its place in
//! the output of its track. It has no header: each viewer gets one of its own (`header_profile.rs`).
//! What is known of it and its bytes are one piece of memory.
//!
//! Memory of packets that are no longer needed is used again for new ones. The streams of a thread share it.
//! When a key frame makes a group of pictures superfluous, the packets of other streams take its memory; if
//! each stream kept its own, each would always hold the most it ever needed. A packet that others still hold
//! (a mirror, a batch under way) waits until they let go of it. Only the thread that made a packet takes it
//! back: if a mirror kept it as well, each of the two would wait for the other.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use rtp::extension::Extension;
use rtp::payload::Codec;

use super::clock::NtpRtpMapping;
use super::track::TrackIndex;

/// One received packet. Immutable once others can see it. `B` is `[u8]` wherever there is one.
#[derive(Debug)]
pub struct Packet<B: ?Sized = [u8]> {
    pub(crate) meta: PacketMeta,
    /// Bytes in use.
    len: u32,
    payload_at: u16,
    padded: bool,
    /// Extensions (each: which, length, data), what redundant audio has ahead of the payload, payload, and
    /// one byte of padding when `padded`; then room that is not in use.
    bytes: B,
}

/// What is known of a packet besides its bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PacketMeta {
    pub(crate) track: TrackIndex,
    /// Which publisher: counts up with every one that starts.
    pub(crate) epoch: u64,
    /// Position in the output of the track, continuous over publishers and layers. Its low 16 bits
    /// are sent.
    pub(crate) number: u64,
    /// Output timestamp.
    pub(crate) timestamp: u32,
    pub(crate) clock_rate: u32,
    pub(crate) arrival: Instant,
    pub(crate) codec: Codec,
    pub(crate) marker: bool,
    /// Belongs to a frame a decoder can start with.
    pub(crate) key_frame: bool,
    /// And may be its first packet.
    pub(crate) starts_key_frame: bool,
    /// Fills a number that turned out to be the publisher's padding. Has no payload.
    pub(crate) filler: bool,
    /// The clock mapping of the track, if the publisher has reported.
    pub(crate) mapping: Option<NtpRtpMapping>,
    pub(crate) source: PacketSource,
    /// It came as redundant audio.
    pub(crate) red: Option<RedPrefix>,
}

/// What a packet was before it got a place in an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PacketSource {
    /// The publisher's timestamp.
    pub(crate) timestamp: u32,
    /// Of its encoding: counts up when the numbering restarts.
    pub(crate) generation: u32,
    /// Which encoding of its track.
    pub(crate) encoding: u8,
}

/// What a packet of redundant audio (RED, RFC 2198) has ahead of its own payload: heads, and earlier
/// payloads. They stay together, so that the one is the end of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RedPrefix {
    /// In bytes.
    pub(crate) len: u16,
    /// The publisher's payload type of all that is in it.
    pub(crate) media_payload_type: u8,
}

/// Bytes of extensions a packet carries on; elements beyond are left out. A dependency descriptor
/// with its structure takes up to about 100.
pub(crate) const EXTENSION_BYTES_MAX: usize = 192;

impl Packet {
    /// A packet with this content, in memory that is used again if there is any of its size. Of the
    /// extensions those are taken that are passed on. `payload` begins with the prefix of redundant audio,
    /// if it has one. `None` if it is longer than any datagram.
    pub(crate) fn new<'a>(
        meta: PacketMeta,
        extensions: impl Iterator<Item = (Extension, &'a [u8])>,
        payload: &[u8],
    ) -> Option<Arc<Self>> {
        let mut kept = [0; EXTENSION_BYTES_MAX];
        let mut kept_len = 0;
        for (extension, data) in extensions {
            let Some(which) = PASSED_ON.iter().position(|passed_on| *passed_on == extension) else {
                continue;
            };
            let Ok(len) = u8::try_from(data.len()) else { continue };
            if let Some(([to_which, to_len], rest)) = kept[kept_len..].split_first_chunk_mut()
                && let Some(to_data) = rest.get_mut(..data.len())
            {
                (*to_which, *to_len) = (which as u8, len);
                to_data.copy_from_slice(data);
                kept_len += 2 + data.len();
            }
        }
        let extensions = &kept[..kept_len];

        // A byte more than it has now, for padding.
        let class = class_of(extensions.len() + payload.len() + 1);
        let make = CLASSES.get(class)?.make;
        let spare = SPARES.with_borrow_mut(|spares| spares.take(class));
        let mut packet = spare.unwrap_or_else(|| {
            #[cfg(test)]
            tests::MADE.set(tests::MADE.get() + 1);
            make(meta)
        });
        let content = Arc::get_mut(&mut packet).expect("it is new, or was found to have no other holder");
        content.bytes[..extensions.len()].copy_from_slice(extensions);
        content.bytes[extensions.len()..][..payload.len()].copy_from_slice(payload);
        content.payload_at = extensions.len() as u16 + meta.red.map_or(0, |red| red.len);
        content.len = (extensions.len() + payload.len()) as u32;
        (content.padded, content.meta) = (false, meta);
        if meta.filler {
            content.pad();
        }
        Some(packet)
    }

    /// Takes back a packet that was made on this thread.
    pub(crate) fn recycle(packet: Arc<Self>) {
        SPARES.with_borrow_mut(|spares| spares.keep(packet));
    }

    /// The track it belongs to.
    pub fn track(&self) -> TrackIndex {
        self.meta.track
    }

    /// Position in the output of its track where it was received, continuous over publishers and
    /// layers.
    pub fn number(&self) -> u64 {
        self.meta.number
    }

    /// Which publisher of the stream sent it: counts up.
    pub fn epoch(&self) -> u64 {
        self.meta.epoch
    }

    /// When it arrived.
    pub fn arrival(&self) -> Instant {
        self.meta.arrival
    }

    /// Its codec.
    pub fn codec(&self) -> Codec {
        self.meta.codec
    }

    /// Output timestamp on the worker that received it, in units of [`Packet::clock_rate`]:
    /// continuous over publishers and layers, wraps.
    pub fn timestamp(&self) -> u32 {
        self.meta.timestamp
    }

    /// Units of its timestamp in a second.
    pub fn clock_rate(&self) -> u32 {
        self.meta.clock_rate
    }

    /// The marker bit: the last packet of a frame of video, the first of audio after silence.
    pub fn marker(&self) -> bool {
        self.meta.marker
    }

    /// When some timestamp of its track was captured, by our clock, as far as was known when it
    /// arrived: from the publisher's sender reports, or guessed if it sends none for the first 5 s.
    pub fn clock_mapping(&self) -> Option<NtpRtpMapping> {
        self.meta.mapping
    }

    /// Whether it belongs to a frame a decoder can start with.
    pub fn is_key_frame(&self) -> bool {
        self.meta.key_frame
    }

    /// The payload without padding; empty for a packet that fills the place of the publisher's
    /// padding.
    pub fn media(&self) -> &[u8] {
        let payload = self.payload();
        &payload[..payload.len() - usize::from(self.padded)]
    }

    /// What follows the header: the payload and, if [`Packet::is_padded`], the padding.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.bytes[usize::from(self.payload_at)..self.len as usize]
    }

    /// The payload with the earlier ones ahead of it, if it came as redundant audio, and the publisher's
    /// payload type of what is in that.
    pub(crate) fn red(&self) -> Option<(u8, &[u8])> {
        let RedPrefix { len, media_payload_type } = self.meta.red?;
        let bytes = &self.bytes[usize::from(self.payload_at - len)..self.len as usize];
        Some((media_payload_type, bytes))
    }

    /// The payload of a packet that nobody else has yet.
    pub(crate) fn payload_mut(&mut self) -> &mut [u8] {
        let (from, to) = (usize::from(self.payload_at), self.len as usize);
        &mut self.bytes[from..to]
    }

    /// Whether [`Packet::payload`] ends with padding, which the header must say.
    pub fn is_padded(&self) -> bool {
        self.padded
    }

    /// Bytes of payload, padding and extensions: what is equal for packets whose datagrams are.
    pub(crate) fn sent_len(&self) -> usize {
        self.len as usize
    }

    /// The extensions that are passed on.
    pub(crate) fn extensions(&self) -> impl Iterator<Item = (Extension, &[u8])> + Clone {
        let end = self.payload_at - self.meta.red.map_or(0, |red| red.len);
        let mut rest = &self.bytes[..usize::from(end)];
        std::iter::from_fn(move || {
            let (&[which, len], behind) = rest.split_first_chunk()?;
            let (data, behind) = behind.split_at_checked(usize::from(len))?;
            rest = behind;
            Some((*PASSED_ON.get(usize::from(which))?, data))
        })
    }

    /// Appends a byte of padding, unless it has padding already.
    pub(crate) fn pad(&mut self) {
        if !self.padded {
            self.bytes[self.len as usize] = 1;
            self.len += 1;
            self.padded = true;
        }
    }

    /// Memory it takes, its counts included.
    pub(crate) fn memory(&self) -> usize {
        COUNTS_BYTES + size_of_val(self)
    }
}

impl<const ROOM: usize> Packet<[u8; ROOM]> {
    /// One without content.
    pub(crate) fn empty(meta: PacketMeta) -> Self {
        Self { meta, len: 0, payload_at: 0, padded: false, bytes: [0; ROOM] }
    }
}

thread_local! {
    static SPARES: RefCell<Spares> = RefCell::default();
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
        let Some(of_class) = self.classes.get_mut(class_of(packet.bytes.len())) else { return };
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

/// Extensions that mean the same behind this server as before it. MID is written for each viewer;
/// RID, send time and transport-wide numbers describe the path from the publisher to this server
/// and end here. Between nodes an extension's id follows from its place: new ones come last.
pub(crate) const PASSED_ON: [Extension; 5] = [
    Extension::AudioLevel,
    Extension::VideoOrientation,
    Extension::DependencyDescriptor,
    Extension::PlayoutDelay,
    Extension::AbsCaptureTime,
];

/// The counts of an `Arc`, which stand ahead of its content.
const COUNTS_BYTES: usize = 2 * size_of::<usize>();
/// Memory of a packet besides its room.
const PACKET_OVERHEAD: usize = COUNTS_BYTES + size_of::<Packet<[u8; 0]>>();

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::{Duration, Instant};

    use rtp::HeaderFields;
    use rtp::extension::ExtensionMap;
    use rtp::payload::{Codec, MediaKind};

    use super::super::mirrored::Outputs;
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
            let payload = TrackPayload {
                payload_type: 96,
                codec: Codec::H264,
                clock_rate: 90_000,
                rtx: None,
                red: None,
            };
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
                self.home.take_arrivals(|packet, _| {
                    if is_mirrored {
                        self.crossing.push(Arc::clone(packet));
                    }
                });
                // The other worker is a batch behind.
                if self.number.is_multiple_of(16) {
                    for packet in self.crossing.drain(..) {
                        self.mirror.receive_mirrored(self.now, &packet, Outputs::MAIN).expect("taken in");
                    }
                    self.mirror.take_arrivals(|_, _| {});
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
