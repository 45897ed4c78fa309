//! Layers inside one encoding of AV1, by its dependency descriptors: whatever is chosen when, each viewer
//! gets frames that it can decode, and knows which decode targets it has.

mod elsewhere;

use rtp::extension::{DecodeTarget, DependencyReader, FrameDependencies, Indication};

use super::*;
use crate::packets::descriptor_model::{Descriptor, Row, Structure, l1t3, l3t3, table};

const AV1: u8 = 45;
const VIEWER_AV1: u8 = 66;
const DESCRIPTOR: u8 = 9;

/// A model of an encoder: which templates the frames of its pictures have, from a key picture on and then
/// again and again.
struct Encoder {
    structure: Structure,
    key: Vec<Vec<u8>>,
    period: Vec<Vec<u8>>,
    /// Pictures since the key picture.
    since: usize,
    picture: u16,
    frame: u16,
    /// Last frame of each chain.
    chains: Vec<Option<u16>>,
    number: u16,
    key_due: bool,
    /// Packets of a frame by its spatial layer.
    parts: [u16; 3],
}

impl Encoder {
    fn new(structure: Structure, key: &[&[u8]], period: &[&[u8]]) -> Self {
        let owned = |pictures: &[&[u8]]| pictures.iter().map(|frames| frames.to_vec()).collect();
        let chains = vec![None; structure.chain_count];
        Self {
            structure,
            key: owned(key),
            period: owned(period),
            since: 0,
            picture: 0,
            // Wraps soon.
            frame: 65_500,
            chains,
            number: 65_400,
            key_due: true,
            parts: [1, 2, 3],
        }
    }

    fn l1t2() -> Self {
        let rows: [Row<'_>; 3] =
            [(0, 0, &[], &[0], "SS"), (0, 0, &[2], &[2], "SS"), (0, 1, &[1], &[1], "D-")];
        Self::new(table(&rows, &[0, 0]), &[&[0], &[2]], &[&[1], &[2]])
    }

    fn l1t3() -> Self {
        Self::new(l1t3(), &[&[0], &[3], &[2], &[4]], &[&[1], &[3], &[2], &[4]])
    }

    fn l2t1() -> Self {
        let rows: [Row<'_>; 4] = [
            (0, 0, &[], &[0, 0], "SS"),
            (0, 0, &[2], &[2, 1], "RS"),
            (1, 0, &[1], &[1, 1], "S-"),
            (1, 0, &[2, 1], &[1, 1], "S-"),
        ];
        Self::new(table(&rows, &[1, 0]), &[&[0, 2]], &[&[1, 3]])
    }

    fn l3t3() -> Self {
        let key: [&[u8]; 4] = [&[0, 5, 10], &[3, 8, 13], &[2, 7, 12], &[4, 9, 14]];
        Self::new(l3t3(), &key, &[&[1, 6, 11], key[1], key[2], key[3]])
    }

    fn l3t3_key() -> Self {
        let none: &[u8] = &[0, 0, 0];
        let rows: [Row<'_>; 14] = [
            (0, 0, &[], none, "SSSSSSSSS"),
            (0, 0, &[12], none, "------SSS"),
            (0, 1, &[6], none, "------SD-"),
            (0, 2, &[3], none, "------D--"),
            (1, 0, &[1], none, "SSSSSS---"),
            (1, 0, &[12], none, "---SSS---"),
            (1, 1, &[6], none, "---SD----"),
            (1, 2, &[3], none, "---D-----"),
            (2, 0, &[1], none, "SSS------"),
            (2, 0, &[12], none, "SSS------"),
            (2, 1, &[6], none, "SD-------"),
            (2, 2, &[3], none, "D--------"),
            (2, 2, &[3], none, "D--------"),
            (2, 2, &[3], none, "D--------"),
        ];
        let structure = table(&rows, &[2, 2, 2, 1, 1, 1, 0, 0, 0]);
        let highest: &[u8] = &[3, 7, 11];
        let key: [&[u8]; 4] = [&[0, 4, 8], highest, &[2, 6, 10], highest];
        Self::new(structure, &key, &[&[1, 5, 9], highest, key[2], highest])
    }

    fn all() -> [(&'static str, Self); 5] {
        [
            ("L1T2", Self::l1t2()),
            ("L1T3", Self::l1t3()),
            ("L2T1", Self::l2t1()),
            ("L3T3", Self::l3t3()),
            ("L3T3_KEY", Self::l3t3_key()),
        ]
    }

    /// The packets of the next picture.
    fn picture(&mut self) -> Vec<Rtp> {
        let is_key = std::mem::take(&mut self.key_due);
        if is_key {
            self.since = 0;
            self.chains.fill(None);
        }
        let templates = match self.key.get(self.since) {
            Some(templates) => templates.clone(),
            None => self.period[(self.since - self.key.len()) % self.period.len()].clone(),
        };
        self.since += 1;
        let mut packets = Vec::new();
        for (at, id) in templates.iter().enumerate() {
            let template = &self.structure.templates[usize::from(*id)];
            let differences =
                self.chains.iter().map(|last| last.map_or(0, |last| self.frame.wrapping_sub(last)));
            let differences: Vec<u8> = differences.map(|difference| difference as u8).collect();
            let parts = self.parts[usize::from(template.spatial)];
            for part in 0..parts {
                let starts_key = is_key && at == 0 && part == 0;
                let descriptor = Descriptor {
                    start: part == 0,
                    end: part + 1 == parts,
                    template_id: *id,
                    frame_number: self.frame,
                    has_structure: starts_key,
                    chains: Some(differences.clone()),
                    ..Descriptor::default()
                };
                let mut payload = match (starts_key, part) {
                    (true, _) => vec![0x18, 0x08, 0, 0],
                    (false, 0) => vec![0x10, 0x34, template.temporal << 5 | template.spatial << 3],
                    (false, _) => vec![0x90, 1],
                };
                payload.resize(100 + 100 * usize::from(template.spatial), 0xab);
                payload.extend(self.picture.to_be_bytes());
                payload.extend(self.frame.to_be_bytes());
                payload.push(part as u8);
                let fields = HeaderFields {
                    marker: at + 1 == templates.len() && part + 1 == parts,
                    payload_type: AV1,
                    sequence_number: self.number,
                    timestamp: u32::from(self.picture).wrapping_mul(3_600),
                    ssrc: VIDEO_SSRC,
                };
                self.number = self.number.wrapping_add(1);
                let packet = Rtp { fields, extensions: Vec::new(), payload, padding: 0 };
                packets.push(packet.with(DESCRIPTOR_ID, &descriptor.write(&self.structure)));
            }
            for (chain, last) in self.chains.iter_mut().enumerate() {
                let protected = self.structure.protected_by.iter().zip(template.indications.chars());
                let mut of_chain = protected.filter(|(protected_by, _)| usize::from(**protected_by) == chain);
                if of_chain.all(|(_, indication)| matches!(indication, 'S' | 'R')) {
                    *last = Some(self.frame);
                }
            }
            self.frame = self.frame.wrapping_add(1);
        }
        self.picture = self.picture.wrapping_add(1);
        packets
    }
}

/// A stream of such an encoder.
struct Svc {
    world: World,
    encoder: Encoder,
    random: Random,
    late: BTreeMap<u16, Vec<Rtp>>,
    /// Of 1,000 packets, how many come later, change places, and come twice.
    faults: u64,
    requests: usize,
}

fn av1_viewer(token: u64) -> sfu::ViewerInput {
    let mut input = viewer(token);
    let payload = ViewerPayload { codec: Codec::Av1, payload_type: VIEWER_AV1, rtx: None, red: None };
    input.tracks[1].payloads.push(payload);
    input.tracks[1].extensions = [(DESCRIPTOR, Extension::DependencyDescriptor)].into_iter().collect();
    input
}

impl Svc {
    fn new(encoder: Encoder, seed: u64) -> Self {
        let mut world = World::new(Limits::default());
        let mut track = video_input();
        let payload_type = AV1;
        track.payloads.push(TrackPayload {
            payload_type,
            codec: Codec::Av1,
            clock_rate: 90_000,
            rtx: None,
            red: None,
        });
        world.publish(vec![audio_input(), track]);
        let random = Random::new(seed);
        Self { world, encoder, random, late: BTreeMap::new(), faults: 0, requests: 0 }
    }

    fn play(&mut self, pictures: usize) {
        for _ in 0..pictures {
            let at = self.encoder.picture;
            let mut arriving = self.late.remove(&at).unwrap_or_default();
            let mut sent = self.encoder.picture();
            for index in 1..sent.len() {
                if self.random.next_u64() % 1_000 < self.faults {
                    sent.swap(index - 1, index);
                }
            }
            for packet in sent {
                if self.random.next_u64() % 1_000 < self.faults {
                    let later = at.wrapping_add(1 + (self.random.next_u64() % 3) as u16);
                    self.late.entry(later).or_default().push(packet);
                    continue;
                }
                if self.random.next_u64() % 1_000 < self.faults {
                    arriving.push(packet.clone());
                }
                arriving.push(packet);
            }
            for packet in arriving {
                let _ = self.world.receive(&packet);
            }
            self.world.wait(FRAME);
            let asked = self.world.key_frame_requests().len();

            self.requests += asked;
            self.encoder.key_due |= asked > 0;
        }
    }

    fn set(&mut self, id: ViewerId, layer: Layer) {
        self.world.stream.set_layer(self.world.now, id, video(), layer);
        self.world.settle();
    }

    fn switches(&self, id: ViewerId) -> usize {
        let stats = self.world.stream.viewer_stats(id).unwrap();
        (stats.switches_up + stats.switches_down) as usize
    }

    /// Spatial and temporal layers that there are to choose from.
    fn layers(&self) -> (u8, u8) {
        let templates = &self.encoder.structure.templates;
        let of = |value: fn(&crate::packets::descriptor_model::Template) -> u8| {
            templates.iter().map(value).max().unwrap()
        };
        (of(|template| template.spatial), of(|template| template.temporal))
    }

    fn any_layer(&mut self) -> Layer {
        let (spatial, temporal) = self.layers();
        let spatial = self.random.below(u64::from(spatial) + 1) as u8;
        let temporal = self.random.below(u64::from(temporal) + 1) as u8;
        if self.random.chance(0.1) { Layer::BEST } else { Layer { encoding: Some(0), spatial, temporal } }
    }
}

/// What a decoder of the viewer checks, packet by packet.
struct Decoder {
    reader: DependencyReader,
    number: Option<u16>,
    /// Frames that it has got, and the last one.
    frames: BTreeSet<u16>,
    before: Option<(FrameDependencies, u32, u16)>,
    marker: bool,
    /// Decode targets that are active, by the last mask it got.
    active: u32,
    pictures: usize,
    /// Frames by their layers.
    layers: BTreeMap<(u8, u8), usize>,
}

impl Decoder {
    fn new() -> Self {
        Self {
            reader: DependencyReader::new(),
            number: None,
            frames: BTreeSet::new(),
            before: None,
            marker: true,
            active: 0,
            pictures: 0,
            layers: BTreeMap::new(),
        }
    }

    /// The next packets by their numbers.
    fn take(&mut self, got: &[Got]) {
        for got in in_order_of_numbers(got) {
            let packet = got.packet();
            let number = packet.sequence_number();
            assert!(
                self.number.is_none_or(|before| number == before.wrapping_add(1)),
                "a gap before {number}"
            );
            self.number = Some(number);
            // In place of one that came too late to be left out.
            if packet.payload().is_empty() {
                assert_eq!(packet.extensions().count(), 0);
                continue;
            }
            let (_, data) = packet.extensions().find(|(id, _)| *id == DESCRIPTOR).expect("a descriptor");
            let frame = self.reader.read(data).expect("a descriptor that can be read");
            self.active = self.reader.active_decode_targets();
            let [.., high, low, part] = *packet.payload() else { panic!("short") };
            let (sent_as, part) = (u16::from_be_bytes([high, low]), u16::from(part));
            assert_eq!(frame.head.frame_number, sent_as, "its number as the publisher had it");
            assert_eq!(frame.head.starts_frame, part == 0);
            self.follows(&frame, packet.timestamp(), part);
            if part == 0 {
                self.begins(&frame);
            }
            self.marker = packet.marker();
            self.before = Some((frame, packet.timestamp(), part));
        }
    }

    fn follows(&mut self, frame: &FrameDependencies, timestamp: u32, part: u16) {
        let Some((before, timestamp_before, part_before)) = self.before else {
            assert!(frame.head.has_structure, "it begins with a key frame");
            return;
        };
        let is_same = before.head.frame_number == frame.head.frame_number;
        assert_eq!(is_same, part > 0, "frames are whole: {:?} behind {:?}", frame.head, before.head);
        assert!(!is_same || part == part_before + 1);
        assert!(is_same || before.head.ends_frame, "{:?} is cut short", before.head);
        assert_eq!(
            timestamp != timestamp_before,
            self.marker,
            "pictures end with a marker: {:?}",
            frame.head
        );
        let is_later = rtp::sequence::is_newer_timestamp(timestamp, timestamp_before);
        assert!(timestamp == timestamp_before || is_later, "{:?} behind {:?}", frame.head, before.head);
        self.pictures += usize::from(timestamp != timestamp_before);
    }

    fn begins(&mut self, frame: &FrameDependencies) {
        let number = frame.head.frame_number;
        for needed in frame.referred_frames() {
            assert!(self.frames.contains(&needed), "{number} lacks {needed}");
        }
        // Nothing of what is active is missing.
        let structure = self.reader.structure();
        let previous: Vec<Option<u16>> = frame.previous_in_chains().collect();
        let all = structure.decode_targets();
        let active: Vec<DecodeTarget> = all.filter(|target| target.bit() & self.active != 0).collect();
        for target in &active {
            let target = *target;
            let chain = structure.chain_of(target).unwrap();
            if let Some(previous) = previous[chain] {
                let has = self.frames.contains(&previous);
                assert!(has, "{number}: {previous} of the active {target:?} is missing, {:b}", self.active);
            }
        }
        let is_of = |target: DecodeTarget| frame.indication(target) != Indication::NotPresent;
        assert!(active.into_iter().any(is_of), "{number} is of no active decode target, {:b}", self.active);
        self.frames.insert(number);
        let old = number.wrapping_sub(400);
        self.frames.retain(|kept| number.wrapping_sub(*kept) < 400 && *kept != old);
        *self.layers.entry((frame.layer.spatial, frame.layer.temporal)).or_default() += 1;
    }
}

fn in_order_of_numbers(packets: &[Got]) -> Vec<&Got> {
    let Some(first) = packets.first().map(Got::number) else { return Vec::new() };
    let mut sorted: Vec<&Got> = packets.iter().collect();
    sorted.sort_by_key(|got| got.number().wrapping_sub(first.wrapping_sub(1_000)));
    sorted
}

#[test]
fn each_layer_is_given_as_it_is_chosen() {
    for (name, encoder) in Encoder::all() {
        let mut svc = Svc::new(encoder, 1);
        let id = svc.world.join_as(&av1_viewer(1));
        svc.play(60);
        let (spatial_max, temporal_max) = svc.layers();
        let mut decoder = Decoder::new();
        decoder.take(svc.world.video(1));
        for spatial in (0..=spatial_max).chain((0..=spatial_max).rev()) {
            for temporal in (0..=temporal_max).chain((0..=temporal_max).rev()) {
                svc.set(id, Layer { encoding: Some(0), spatial, temporal });
                svc.world.got.clear();
                svc.play(120);
                let got = svc.world.video(1).to_vec();
                decoder.take(&got);
                let (settled, mut recent) = (got[got.len() / 2].number(), Decoder::new());
                // Of the last pictures.
                let tail: Vec<Got> =
                    got.iter().filter(|one| one.number().wrapping_sub(settled) < 0x8000).cloned().collect();
                recent.reader = decoder.reader.clone();
                let mut layers = BTreeSet::new();
                for one in &tail {
                    let packet = one.packet();
                    let (_, data) = packet.extensions().find(|(id, _)| *id == DESCRIPTOR).unwrap();
                    let frame = recent.reader.read(data).unwrap();
                    layers.insert((frame.layer.spatial, frame.layer.temporal));
                }
                assert!(layers.contains(&(spatial, temporal)), "{name} {spatial} {temporal}: {layers:?}");
                let within = layers.iter().all(|(s, t)| *s <= spatial && *t <= temporal);
                assert!(within, "{name} {spatial} {temporal}: {layers:?}");
                let structure = decoder.reader.structure();
                let wanted = rtp::extension::Layer { spatial, temporal };
                let target = structure.best_within(wanted, structure.all_decode_targets()).unwrap();
                assert_eq!(decoder.active, structure.contained_in(target), "{name} {spatial} {temporal}");
            }
        }
    }
}

#[test]
fn temporal_layers_need_no_key_frame_and_spatial_ones_only_where_nothing_else_will_do() {
    for (name, encoder, plan, key_frames) in [
        ("L1T3", Encoder::l1t3(), &[(0, 0), (0, 2), (0, 1), (0, 2)][..], 0),
        ("L3T3 down", Encoder::l3t3(), &[(1, 2), (1, 0), (0, 2), (0, 0)], 0),
        ("L3T3 up", Encoder::l3t3(), &[(0, 2), (2, 2)], 1),
        ("L3T3_KEY", Encoder::l3t3_key(), &[(2, 0), (2, 2), (1, 2), (1, 0), (1, 1)], 1),
    ] {
        let mut svc = Svc::new(encoder, 2);
        let id = svc.world.join_as(&av1_viewer(1));
        svc.play(100);
        let before = svc.requests;
        let mut decoder = Decoder::new();
        for (spatial, temporal) in plan {
            svc.set(id, Layer { encoding: Some(0), spatial: *spatial, temporal: *temporal });
            svc.play(100);
        }
        decoder.take(svc.world.video(1));
        assert_eq!(svc.requests - before, key_frames, "{name}: {before} before");
    }
}

#[test]
fn whatever_viewers_choose_and_however_packets_come_they_can_decode_what_they_get() {
    for (seed, (name, encoder)) in (0..4).flat_map(|seed| Encoder::all().map(|encoder| (seed, encoder))) {
        let mut svc = Svc::new(encoder, seed);
        let ids: Vec<ViewerId> = (1..=4).map(|token| svc.world.join_as(&av1_viewer(token))).collect();
        svc.play(50);
        svc.faults = 40;
        for _ in 0..100 {
            let (viewer, layer) = (svc.random.below(4) as usize, svc.any_layer());
            svc.set(ids[viewer], layer);
            let pictures = 1 + svc.random.below(12) as usize;
            svc.play(pictures);
        }
        svc.faults = 0;
        svc.play(10);
        for (id, token) in ids.iter().zip(1..) {
            let mut decoder = Decoder::new();
            let got = svc.world.video(token).to_vec();
            decoder.take(&extended(&got));
            assert!(svc.switches(*id) >= 5, "{name} {seed}: {}", svc.switches(*id));
            assert!(decoder.pictures > 100, "{name} {seed}: {}", decoder.pictures);
        }
    }
}

/// By their numbers, which wrap.
fn extended(packets: &[Got]) -> Vec<Got> {
    let mut extended: Vec<(i64, &Got)> = Vec::new();
    for got in packets {
        let (newest, number) = extended.last().map_or((0, got.number()), |last| (last.0, last.1.number()));
        extended.push((newest + i64::from(got.number().wrapping_sub(number).cast_signed()), got));
    }
    extended.sort_by_key(|one| one.0);
    extended.into_iter().map(|one| one.1.clone()).collect()
}

#[test]
fn ten_thousand_changes_leave_nothing_behind() {
    let mut svc = Svc::new(Encoder::l1t3(), 7);
    svc.encoder.parts = [1; 3];
    let id = svc.world.join_as(&av1_viewer(1));
    svc.play(50);
    let mut decoder = Decoder::new();
    decoder.take(svc.world.video(1));
    let (mut memory, requests) = (0, svc.requests);
    while svc.switches(id) < 10_000 {
        svc.world.got.clear();
        svc.encoder.key_due = true;
        for _ in 0..100 {
            let layer = svc.any_layer();
            svc.set(id, layer);
            svc.play(4);
        }
        decoder.take(svc.world.video(1));
        let now = svc.world.stream.stats().cached_memory_bytes;
        memory = if memory == 0 { now } else { memory };
        assert!(now < 2 * memory && svc.world.stream.is_within_limits(), "{now} bytes, at first {memory}");
    }
    assert_eq!(svc.requests, requests, "no key frame was needed");
}

/// Without descriptors a decoder of AV1 cannot tell the frames of a picture apart.
#[test]
fn who_takes_no_descriptors_gets_the_lowest_pictures_of_av1() {
    for (has_descriptors, encoder) in
        [(true, Encoder::l3t3()), (false, Encoder::l3t3()), (false, Encoder::l1t3())]
    {
        let mut svc = Svc::new(encoder, 5);
        let (spatial_max, _) = svc.layers();
        let mut input = av1_viewer(1);
        if !has_descriptors {
            input.tracks[1].extensions = Default::default();
        }
        let id = svc.world.join_as(&input);
        let mut pacer = pacer(svc.world.now, 50_000_000, true);
        for _ in 0..100 {
            svc.play(1);
            svc.world.stream.adapt(svc.world.now, id, &mut pacer);
            svc.world.settle();
        }
        let (current, _) = svc.world.stream.layer_of(id, video()).unwrap();
        let is_lowest = current.spatial == 0;
        assert_eq!(is_lowest, !has_descriptors && spatial_max > 0, "{has_descriptors} {current:?}");
    }
}

/// Whatever a path carries: large pictures come at half of their rate at least, or smaller ones do.
#[test]
fn paths_choose_no_quarter_of_large_pictures() {
    let mut svc = Svc::new(Encoder::l3t3(), 6);
    let id = svc.world.join_as(&av1_viewer(1));
    svc.play(60);
    let rates: Vec<u64> =
        svc.world.stream.layers(svc.world.now, video()).iter().map(|layer| layer.bits_per_second).collect();
    let mut chosen = Vec::new();
    for rate in rates {
        let mut pacer = pacer(svc.world.now, rate * 112 / 100, true);
        for _ in 0..30 {
            svc.world.stream.adapt(svc.world.now, id, &mut pacer);
            svc.play(1);
        }
        let (_, wanted) = svc.world.stream.layer_of(id, video()).unwrap();
        assert!(wanted.spatial == 0 || wanted.temporal >= 1, "{rate}: {wanted:?}");
        chosen.push((wanted.spatial, wanted.temporal));
    }
    chosen.dedup();
    assert!(chosen.len() >= 4, "{chosen:?}");
}
