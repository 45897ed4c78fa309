//! Viewers with a target: each gets the layer it is given, and what it gets is one stream that can
//! be decoded, whatever the way of the packets does.

mod changes;
mod decoded;
mod descriptors;
mod inside;
mod mirrored;
mod numbers;
mod relayed;
mod sizes;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use netsim::Random;
use rtp::HeaderFields;
use rtp::extension::{DependencyDescriptor, Extension};
use rtp::payload::Codec;
use rtp::payload::vp8::PictureId;
use rtp::rtcp::{Nack, NtpTime, Pli, Rtcp, SenderInfo, SenderReport};
use sfu::{Layer, Limits, Pacer, PacerInput, TrackInput, TrackPayload, ViewerId, ViewerPayload};

use crate::packets::common::{
    DESCRIPTOR_ID, Got, H264, Rtp, VIDEO_SSRC, VP8, World, audio_input, frame, video, video_input,
    video_ssrc, viewer, written,
};

const SSRCS: [u32; 3] = [0x3000, 0x3001, 0x3002];
const RIDS: [&str; 3] = ["q", "h", "f"];
/// The pacer of a path that carries so much, and whose viewer reports packets or does not.
fn pacer(now: Instant, bits_per_second: u64, reports_packets: bool) -> Pacer {
    let input = PacerInput {
        reports_packets,
        reports_streams: false,
        start_bits_per_second: bits_per_second,
        most_bits_per_second: bits_per_second,
    };
    Pacer::new(now, input)
}

/// Packets of a frame of each layer, and bytes of each packet.
const PARTS: [u16; 3] = [1, 2, 3];
const BYTES: [usize; 3] = [200, 500, 1_000];
/// Sizes of the pictures of VP8.
const SIZES: [[u16; 2]; 3] = [[320, 180], [640, 360], [1_280, 720]];
/// 25 frames a second.
const FRAME: Duration = Duration::from_millis(40);

/// Temporal layer of each frame of the pattern, whether it is marked for going up, and how far back
/// the frames are that it refers to.
const PATTERN: [(u8, bool, &[u16]); 4] =
    [(0, false, &[4]), (2, true, &[1]), (1, true, &[2]), (2, false, &[1, 2])];
/// Bytes at the end of each payload: whether it is of a key frame, the frame, the layer, the part,
/// the place in the pattern, and the distance from the key frame.
const TRAILER: usize = 8;

/// A publisher of three layers whose numbers and timestamps have nothing in common.
struct Simulcast {
    codec: Codec,
    /// Temporal layers, of VP8.
    is_temporal: bool,
    /// Frames have dependency descriptors.
    has_descriptors: bool,
    numbers: [u16; 3],
    timestamps: [u32; 3],
    pictures: [u16; 3],
    tl0: [u8; 3],
    /// Frames since the key frame.
    since: [u16; 3],
    frame: u16,
    /// Layers that are on.
    on: Vec<usize>,
    /// Layers whose next frame is a key frame.
    key: BTreeSet<usize>,
}

impl Simulcast {
    fn new(random: &mut Random) -> Self {
        Self {
            codec: Codec::H264,
            is_temporal: false,
            has_descriptors: false,
            numbers: std::array::from_fn(|_| random.next_u64() as u16),
            timestamps: std::array::from_fn(|_| random.next_u64() as u32),
            pictures: std::array::from_fn(|_| random.next_u64() as u16),
            tl0: std::array::from_fn(|_| random.next_u64() as u8),
            since: [0; 3],
            frame: 0,
            on: vec![0, 1, 2],
            key: [0, 1, 2].into(),
        }
    }

    /// The packets of the next picture, in all layers that are on.
    fn picture(&mut self) -> Vec<Rtp> {
        let mut packets = Vec::new();
        for layer in self.on.clone() {
            let key = self.key.remove(&layer);
            self.since[layer] = if key { 0 } else { self.since[layer] + 1 };
            let place = if self.is_temporal { self.since[layer] % 4 } else { 0 };
            let (temporal, sync, _) = PATTERN[usize::from(place)];
            self.pictures[layer] = self.pictures[layer].wrapping_add(1) & 0x7fff;
            if temporal == 0 {
                self.tl0[layer] = self.tl0[layer].wrapping_add(1);
            }
            let timestamp = self.timestamps[layer].wrapping_add(u32::from(self.frame) * 3_600);
            for part in 0..PARTS[layer] {
                let mut payload = match self.codec {
                    Codec::Vp8 => {
                        let [high, low] = (self.pictures[layer] | 0x8000).to_be_bytes();
                        let layers = temporal << 6 | u8::from(sync && self.is_temporal) << 5;
                        let start = if part == 0 { 0x90 } else { 0x80 };
                        let of_frame = [u8::from(!key), 0, 0, 0x9d, 0x01, 0x2a];
                        let [width, height] = SIZES[layer].map(u16::to_le_bytes);
                        let head = [start, 0xe0, high, low, self.tl0[layer], layers];
                        [&head[..], &of_frame, &width, &height].concat()
                    }
                    _ => vec![if key { 0x65 } else { 0x41 }, if part == 0 { 0x88 } else { 0x08 }],
                };
                payload.resize(BYTES[layer] - TRAILER, 0xab);
                payload.push(u8::from(key));
                payload.extend(self.frame.to_be_bytes());
                payload.extend([layer as u8, part as u8, place as u8]);
                payload.extend(self.since[layer].to_be_bytes());
                let fields = HeaderFields {
                    marker: part + 1 == PARTS[layer],
                    payload_type: if self.codec == Codec::Vp8 { VP8 } else { H264 },
                    sequence_number: self.numbers[layer],
                    timestamp,
                    ssrc: SSRCS[layer],
                };
                self.numbers[layer] = self.numbers[layer].wrapping_add(1);
                let mut packet = Rtp { fields, extensions: Vec::new(), payload, padding: 0 };
                if self.has_descriptors {
                    let [high, low] = (self.timestamps[layer] as u16).wrapping_add(self.frame).to_be_bytes();
                    packet = packet.with(DESCRIPTOR_ID, &[0xc0, high, low]);
                }
                packets.push(packet);
            }
        }
        self.frame += 1;
        packets
    }
}

/// A stream with such a publisher, which sends key frames when it is asked for them.
struct Scene {
    world: World,
    publisher: Simulcast,
    random: Random,
    /// Packets on their way, by the picture with which they arrive.
    late: BTreeMap<u16, Vec<Rtp>>,
    /// Shares of packets in 1,000 that come some pictures later, that change places with the next,
    /// and that come twice.
    faults: [u64; 3],
    requests: Vec<u32>,
    /// The publisher sends key frames that it is asked for.
    answers: bool,
    /// The worker sends video to one viewer in a turn at most, and to some only later.
    is_slow: bool,
}

fn simulcast_input() -> TrackInput {
    TrackInput {
        ssrcs: SSRCS.map(|ssrc| (ssrc, None)).to_vec(),
        rids: RIDS.map(str::to_owned).to_vec(),
        ..video_input()
    }
}

impl Scene {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let publisher = Simulcast::new(&mut random);
        let mut world = World::new(Limits::default());
        world.publish(vec![audio_input(), simulcast_input()]);
        let late = BTreeMap::new();
        Self {
            world,
            publisher,
            random,
            late,
            faults: [0; 3],
            requests: Vec::new(),
            answers: true,
            is_slow: false,
        }
    }

    fn of_vp8(seed: u64, is_temporal: bool) -> Self {
        let mut scene = Self::new(seed);
        (scene.publisher.codec, scene.publisher.is_temporal) = (Codec::Vp8, is_temporal);
        scene
    }

    fn play(&mut self, pictures: usize) {
        for _ in 0..pictures {
            let at = self.publisher.frame;
            let mut arriving = self.late.remove(&at).unwrap_or_default();
            let mut sent = self.publisher.picture();
            for index in 1..sent.len() {
                if self.random.next_u64() % 1_000 < self.faults[1] {
                    sent.swap(index - 1, index);
                }
            }
            for packet in sent {
                if self.random.next_u64() % 1_000 < self.faults[0] {
                    let later = at + 1 + (self.random.next_u64() % 3) as u16;
                    self.late.entry(later).or_default().push(packet);
                    continue;
                }
                if self.random.next_u64() % 1_000 < self.faults[2] {
                    arriving.push(packet.clone());
                }
                arriving.push(packet);
            }
            for packet in arriving {
                if !self.is_slow {
                    let _ = self.world.receive(&packet);
                    continue;
                }
                let _ = self.world.stream.receive(self.world.now, &packet.bytes());
                let full = &mut self.world.full;
                match self.random.below(4) {
                    0 => _ = full.insert(1 + self.random.below(3)),
                    1 => full.clear(),
                    _ => {}
                }
                if self.random.chance(0.4) {
                    self.world.turn(self.random.below(3) as usize);
                }
            }
            if self.is_slow && self.random.chance(0.7) {
                self.world.now += FRAME;
                self.world.turn(1);
            } else {
                self.world.wait(FRAME);
            }
            let mut asked = Vec::new();
            self.world.told(|_, packet| {
                if let Rtcp::Pli(pli) = packet {
                    asked.push(pli.media_ssrc);
                }
            });
            for ssrc in asked {
                self.requests.push(ssrc);
                if self.answers {
                    self.publisher.key.insert(SSRCS.iter().position(|known| *known == ssrc).unwrap());
                }
            }
        }
    }

    fn set(&mut self, id: ViewerId, layer: Layer) {
        self.world.stream.set_layer(self.world.now, id, video(), layer);
        self.world.settle();
    }

    fn layer_of(&self, id: ViewerId) -> (Layer, Layer) {
        self.world.stream.layer_of(id, video()).unwrap()
    }
}

/// What a packet says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    layer: usize,
    frame: u16,
    part: u16,
    /// In the pattern of temporal layers.
    place: usize,
    /// Frames since the key frame.
    since: u16,
    is_key: bool,
}

fn place_of(got: &Got) -> Place {
    let packet = got.packet();
    let trailer: [u8; TRAILER] = *packet.payload().last_chunk().unwrap();
    let [key, high, low, layer, part, place, since_high, since_low] = trailer;
    Place {
        layer: usize::from(layer),
        frame: u16::from_be_bytes([high, low]),
        part: u16::from(part),
        place: usize::from(place),
        since: u16::from_be_bytes([since_high, since_low]),
        is_key: key == 1,
    }
}

fn in_order(packets: &[Got]) -> Vec<&Got> {
    let mut extended: Vec<(i64, &Got)> = Vec::new();
    for got in packets {
        let (newest, number) = extended.last().map_or((0, got.number()), |last| (last.0, last.1.number()));
        extended.push((newest + i64::from(got.number().wrapping_sub(number).cast_signed()), got));
    }
    extended.sort_by_key(|one| one.0);
    for pair in extended.windows(2) {
        assert_eq!(pair[1].0, pair[0].0 + 1, "no gap, and nothing twice, behind {:?}", place_of(pair[0].1));
    }
    extended.into_iter().map(|one| one.1).collect()
}

/// The layers that a viewer got, one after the other, after it has been checked that a decoder
/// could show all of it: numbers have no gap, timestamps rise, each stretch of a layer begins with
/// a key frame, and no frame of it is missing that another one refers to. A frame that was under
/// way when its layer ended may be cut off.
fn decoded(packets: &[Got]) -> Vec<usize> {
    let in_order = in_order(packets);
    let is_temporal = in_order.iter().any(|got| place_of(got).place > 0);
    let mut layers: Vec<usize> = Vec::new();
    // The frame before: what it is, its timestamp, and whether it is whole.
    let mut before: Option<(Place, u32, bool)> = None;
    let mut frames: BTreeSet<u16> = BTreeSet::new();
    let mut numbers: Option<(u16, u8)> = None;
    for frame in in_order.chunk_by(|one, other| one.timestamp() == other.timestamp()) {
        let place = place_of(frame[0]);
        let parts: Vec<u16> = frame.iter().map(|got| place_of(got).part).collect();
        assert!(frame.iter().all(|got| place_of(got) == Place { part: place_of(got).part, ..place }));
        let is_whole = parts == (0..PARTS[place.layer]).collect::<Vec<u16>>();
        if place.is_key {
            frames.clear();
        }
        if let Some((last, timestamp, was_whole)) = before {
            let is_later = rtp::sequence::is_newer_timestamp(frame[0].timestamp(), timestamp);
            assert!(is_later, "timestamps rise at {place:?}, {last:?}");
            if place.layer == last.layer {
                assert!(was_whole, "{last:?} is cut off before {place:?}");
                let follows = is_temporal || place.frame == last.frame + 1;
                assert!(place.is_key || follows, "{place:?} follows {last:?}");
            } else {
                assert!(place.is_key, "it begins with {place:?}, no key frame");
            }
        } else {
            assert!(place.is_key);
        }
        for back in PATTERN[place.place].2.iter().filter(|_| is_temporal && !place.is_key) {
            assert!(frames.contains(&(place.since - back)), "{place:?} needs the frame {back} before it");
        }
        frames.insert(place.since);
        // Numbers inside the payload go on as well, of whole frames in a row.
        if frame[0].packet().payload_type() == 62 {
            let of = |got: &Got| {
                let descriptor = rtp::payload::vp8::Descriptor::parse(got.packet().payload()).unwrap();
                let Some(PictureId::Long(picture)) = descriptor.picture_id else { panic!("no picture id") };
                (picture, descriptor.tl0_picture_index.unwrap())
            };
            let (picture, tl0) = of(frame[0]);
            assert!(frame.iter().all(|got| of(got) == (picture, tl0)));
            if let Some((picture_before, tl0_before)) = numbers {
                assert_eq!(picture, (picture_before + 1) & 0x7fff, "{place:?}");
                let is_base = PATTERN[place.place].0 == 0;
                assert_eq!(tl0, tl0_before.wrapping_add(u8::from(is_base)), "{place:?}");
            }
            numbers = Some((picture, tl0));
        }
        if layers.last() != Some(&place.layer) {
            layers.push(place.layer);
        }
        before = Some((place, frame[0].timestamp(), is_whole));
    }
    layers
}
