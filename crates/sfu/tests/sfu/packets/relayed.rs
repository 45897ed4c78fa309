//! Another node: its viewers get what those of the first get, and its publisher is asked by no RTCP.

use std::sync::Arc;
use std::time::Duration;

use rtp::extension::Extension;
use rtp::payload::{Codec, MediaKind};
use rtp::rtcp::{NtpTime, Rtcp, SenderInfo, SenderReport};
use sfu::{LAYERS_MAX, Limits, Packet, RelayedTrack, TrackIndex, TrackPayload, ViewerInput};

use crate::packets::common::{
    CAPTURE_ID, DESCRIPTOR_ID, LEVEL_ID, Rtp, VIDEO_SSRC, WALL, World, audio, audio_input, audio_packet,
    audio_ssrc, frame, part, video, video_input, video_ssrc, viewer,
};

/// Payload types between the nodes.
const H264: u8 = 96;
const OPUS: u8 = 111;

/// Two nodes, joined by hand.
struct Pair {
    home: World,
    edge: World,
    /// What crossed.
    crossed: Vec<Vec<u8>>,
}

impl Pair {
    fn new() -> Self {
        let home = World::published();
        let mut edge = World::new(Limits::default());
        (edge.start, edge.now) = (home.start, home.now);
        let payload = |payload_type, codec, clock_rate| TrackPayload {
            payload_type,
            codec,
            clock_rate,
            rtx: None,
            red: None,
        };
        let tracks = [
            (MediaKind::Audio, payload(OPUS, Codec::Opus, 48_000)),
            (MediaKind::Video, payload(H264, Codec::H264, 90_000)),
        ];
        let tracks = tracks.map(|(kind, payload)| RelayedTrack {
            kind,
            payloads: vec![payload],
            encodings: 1,
            rids: Vec::new(),
        });
        edge.stream.relayed_publisher_started(edge.now, 7, tracks);
        Self { home, edge, crossed: Vec::new() }
    }

    /// The publisher sends; what comes of it crosses.
    fn receive(&mut self, packet: &Rtp) {
        self.home.stream.receive(self.home.now, &packet.bytes()).unwrap();
        let crossing = self.arrived();
        self.cross(crossing);
    }

    fn arrived(&mut self) -> Vec<Vec<u8>> {
        let mut crossing = Vec::new();
        self.home.stream.take_arrivals(|packet: &Arc<Packet>, _| {
            let payload_type = if packet.codec() == Codec::Opus { OPUS } else { H264 };
            let mut bytes = Vec::new();
            packet.write_relayed(payload_type, None, &mut bytes);
            crossing.push(bytes);
        });
        self.home.settle();
        crossing
    }

    fn cross(&mut self, crossing: Vec<Vec<u8>>) {
        for bytes in crossing {
            self.edge.stream.receive(self.edge.now, &bytes).unwrap();
            self.crossed.push(bytes);
        }
        self.edge.settle();
    }

    fn wait(&mut self, duration: Duration) {
        self.home.wait(duration);
        self.edge.wait(duration);
    }
}

/// A viewer that takes what is passed on.
fn viewer_with_extensions(token: u64) -> ViewerInput {
    let mut input = viewer(token);
    input.tracks[0].extensions = [(9, Extension::AudioLevel)].into_iter().collect();
    input.tracks[1].extensions =
        [(12, Extension::AbsCaptureTime), (11, Extension::DependencyDescriptor)].into_iter().collect();
    input
}

#[test]
fn viewers_of_both_nodes_get_the_same() {
    let mut pair = Pair::new();
    pair.home.join_as(&viewer_with_extensions(1));
    pair.edge.join_as(&viewer_with_extensions(1));
    for at in 0..100 {
        let capture = u64::from(at).to_be_bytes();
        // Longer than the one-byte form of extensions takes.
        let descriptor = vec![at as u8; 1 + usize::from(at) % 40];
        let video = frame(at, u32::from(at) * 3_600, at % 25 == 0);
        pair.receive(&video.with(CAPTURE_ID, &capture).with(DESCRIPTOR_ID, &descriptor));
        pair.receive(&audio_packet(at, u32::from(at) * 1_920).with(LEVEL_ID, &[at as u8]));
        pair.wait(Duration::from_millis(40));
    }
    for ssrc in [audio_ssrc(1), video_ssrc(1)] {
        let bytes = |world: &World| -> Vec<Vec<u8>> {
            world.got(1, ssrc).iter().map(|got| got.bytes.clone()).collect()
        };
        assert_eq!(bytes(&pair.home).len(), 100);
        assert_eq!(bytes(&pair.home), bytes(&pair.edge));
    }
}

#[test]
fn the_main_output_of_a_simulcast_publisher_crosses_as_one_layer() {
    let mut pair = Pair::new();
    let mut input = video_input();
    input.ssrcs = vec![(VIDEO_SSRC, None), (VIDEO_SSRC + 10, None)];
    pair.home.publish(vec![audio_input(), input]);
    pair.home.join(1);
    pair.edge.join(1);
    for at in 0..100 {
        for layer in [0, 10] {
            // The first one begins late and takes over at its key frame.
            if layer == 0 && at < 50 {
                continue;
            }
            let packet = frame(at, u32::from(at) * 3_600, at % 25 == 0).ssrc(VIDEO_SSRC + layer);
            pair.receive(&packet);
        }
        pair.wait(Duration::from_millis(40));
    }
    assert!(pair.crossed.len() < 130, "{} packets, of which 150 came", pair.crossed.len());
    let got = |world: &World| -> Vec<Vec<u8>> {
        world.video(1).iter().map(|got| got.packet().payload().to_vec()).collect()
    };
    assert_eq!(got(&pair.home), got(&pair.edge));
    assert_eq!(pair.home.timestamps(1), pair.edge.timestamps(1));
}

#[test]
fn padding_that_came_late_fills_its_place_at_the_other_node_too() {
    let mut pair = Pair::new();
    pair.home.join(1);
    pair.edge.join(1);
    pair.receive(&frame(0, 0, true));
    pair.receive(&frame(2, 3_600, false));
    let mut padding = frame(1, 0, false).padded(20);
    padding.payload.clear();
    pair.receive(&padding);
    pair.receive(&frame(3, 7_200, false));
    let numbers = pair.home.numbers(1);
    assert_eq!(numbers.len(), 4);
    assert_eq!(numbers, pair.edge.numbers(1));
}

#[test]
fn what_came_by_another_order_is_where_it_belongs() {
    let mut pair = Pair::new();
    pair.edge.join(1);
    pair.receive(&frame(10, 0, true));
    for number in [11, 12, 13] {
        pair.home.stream.receive(pair.home.now, &frame(number, 3_600, false).bytes()).unwrap();
    }
    let mut crossing = pair.arrived();
    crossing.reverse();
    pair.cross(crossing);
    let mut numbers = pair.edge.numbers(1);
    numbers.sort_unstable();
    assert_eq!(numbers, [10, 11, 12, 13]);
    let again = pair.crossed[1].clone();
    assert_eq!(pair.edge.stream.receive(pair.edge.now, &again), Err(sfu::DropReason::Duplicate));
}

#[test]
fn key_frames_are_asked_of_the_caller_and_the_publisher_gets_no_rtcp() {
    let mut pair = Pair::new();
    let id = pair.edge.join(1);
    pair.edge.wait(Duration::from_secs(3));
    // None has come: it is asked at once, and again every half second.
    assert!((6..=8).contains(&pair.edge.home_requests.len()), "{:?}", pair.edge.home_requests);
    pair.receive(&part(0, 0, true, true));
    pair.edge.home_requests.clear();
    pair.edge.wait(Duration::from_secs(3));
    assert_eq!(pair.edge.home_requests, []);
    for _ in 0..20 {
        pair.edge.viewer_says(id, |rtcp| {
            rtp::rtcp::Pli { sender_ssrc: 5, media_ssrc: video_ssrc(1) }.write(rtcp);
        });
    }
    assert_eq!(pair.edge.home_requests, [video()]);
    pair.receive(&part(5, 3_600, false, true));
    assert_eq!(pair.edge.feedback, [], "what is missing is repaired by the link");
    assert_eq!(pair.edge.stream.publisher_stats().key_frame_requests, 8);
}

#[test]
fn reports_of_the_other_node_tell_the_time_of_capture() {
    let mut pair = Pair::new();
    pair.edge.join(1);
    let report = |ssrc, after: Duration, rtp_timestamp| {
        // Its clock is wrong by an hour.
        let ntp = NtpTime(WALL.0 + (3_600 << 32) + ((after.as_millis() as u64) << 32) / 1_000);
        let info = SenderInfo { ntp, rtp_timestamp, packets: 0, payload_bytes: 0 };
        let mut rtcp = Vec::new();
        SenderReport::write(&mut rtcp, ssrc, &info, &[]);
        rtcp
    };
    pair.receive(&frame(0, 90_000, true));
    pair.receive(&audio_packet(0, 480_000));
    let second = Duration::from_secs(1);
    let (audio, video) = (audio().relayed_ssrc(0), video().relayed_ssrc(0));
    pair.edge.stream.receive_rtcp(pair.edge.now, &report(audio, second, 480_000));
    pair.edge.stream.receive_rtcp(pair.edge.now, &report(video, second / 2, 90_000));
    pair.edge.wait(2 * second);
    let mut times = Vec::new();
    for (_, rtcp) in &pair.edge.reports[&1] {
        for packet in rtp::rtcp::packets(rtcp) {
            if let Ok(Rtcp::SenderReport(report)) = packet {
                let (rate, first) =
                    if report.ssrc == audio_ssrc(1) { (48_000.0, 480_000) } else { (90_000.0, 90_000) };
                let passed = f64::from(report.info.rtp_timestamp.wrapping_sub(first).cast_signed()) / rate;
                let wall = report.info.ntp.0.wrapping_sub(WALL.0) as f64 / f64::from(u32::MAX);
                times.push((report.ssrc, wall - passed));
            }
        }
    }
    // The first packets of both: half a second apart, as the other node said.
    let first = |ssrc| times.iter().find(|(of, _)| *of == ssrc).expect("a report").1;
    let apart = first(audio_ssrc(1)) - first(video_ssrc(1));
    assert!((apart - 0.5).abs() < 0.002, "{apart} s apart");
}

#[test]
fn tracks_and_their_ssrcs_name_each_other() {
    for (track, encoding) in
        TrackIndex::all().flat_map(|track| (0..LAYERS_MAX as u8).map(move |at| (track, at)))
    {
        assert_eq!(TrackIndex::of_relayed_ssrc(track.relayed_ssrc(encoding)), Some((track, encoding)));
    }
    let count = (TrackIndex::all().count() * LAYERS_MAX) as u32;
    assert_eq!([0, count + 1, u32::MAX].map(TrackIndex::of_relayed_ssrc), [None; 3]);
}

/// One of the five packets of a key frame; only the first says that it is one.
fn key_part(at: u16) -> Rtp {
    let mut packet = part(at, 0, true, at == 4);
    // A slice that does not begin with the first macroblock.
    packet.payload[1] = if at == 0 { 0x88 } else { 0x48 };
    packet
}

#[test]
fn what_comes_before_the_first_packet_of_a_key_frame_follows_it() {
    // Behind how many others it comes: of the key frame, and of the next frames.
    for behind in [1, 3, 4, 40] {
        let mut pair = Pair::new();
        pair.edge.join(1);
        let mut crossing = Vec::new();
        for at in 0..60 {
            // A key frame of five packets, then frames of one.
            let packet = match at {
                0..5 => key_part(at),
                _ => frame(at, u32::from(at - 4) * 3_600, false),
            };
            pair.home.stream.receive(pair.home.now, &packet.bytes()).unwrap();
            crossing.extend(pair.arrived());
        }
        let first = crossing.remove(0);
        crossing.insert(behind, first);
        for bytes in crossing {
            pair.cross(vec![bytes]);
            pair.wait(Duration::from_millis(1));
        }
        pair.wait(Duration::from_millis(100));
        assert_eq!(pair.edge.numbers(1).len(), 60, "{behind}");
        assert!(pair.edge.numbers(1).is_sorted_by(|a, b| a < b), "each once, in order");
    }
}

#[test]
fn what_came_long_before_a_key_frame_does_not_follow_it() {
    let mut pair = Pair::new();
    pair.edge.join(1);
    let mut crossing = Vec::new();
    for at in 0..5 {
        let packet = key_part(at);
        pair.home.stream.receive(pair.home.now, &packet.bytes()).unwrap();
        crossing.extend(pair.arrived());
    }
    let first = crossing.remove(0);
    pair.cross(crossing);
    pair.wait(Duration::from_secs(1));
    pair.cross(vec![first]);
    pair.wait(Duration::from_millis(100));
    assert_eq!(pair.edge.numbers(1).len(), 1);
}

#[test]
fn what_waits_for_a_key_frame_is_counted_and_goes_by_itself() {
    let mut pair = Pair::new();
    for at in 0..200 {
        let packet = frame(at, u32::from(at), at == 0);
        pair.home.stream.receive(pair.home.now, &packet.bytes()).unwrap();
        let bytes = pair.arrived();
        pair.cross(if at == 0 { Vec::new() } else { bytes });
    }
    let memory = pair.edge.stream.stats().cached_memory_bytes;
    assert!(memory >= 199 * 64, "{memory}");
    pair.edge.wait(Duration::from_secs(1));
    assert_eq!(pair.edge.stream.stats().cached_memory_bytes, 0);
}

#[test]
fn what_waits_for_a_key_frame_is_bounded_in_bytes_too() {
    let mut world = World::published();
    for at in 0..400 {
        let mut slice = frame(at, u32::from(at), false);
        slice.payload.resize(60_000, 1);
        world.receive(&slice).unwrap();
        assert!(world.stream.is_within_limits());
    }
    let memory = world.stream.stats().cached_memory_bytes;
    assert!((1_000_000..2_000_000).contains(&memory), "{memory}");
}
