//! Video in slices, in virtual time: what a worker sends in which turn, and to whom first. Nothing leaves:
//! the datagrams are taken from the flushes, in their order.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use rtp::HeaderFields;
use rtp::extension::{ExtensionMap, Form};
use rtp::payload::{Codec, MediaKind};
use sfu::{
    Limits, PacketStream, PublisherInput, TrackIndex, TrackInput, TrackPayload, ViewerInput, ViewerPayload,
    ViewerTrackInput, WallClock,
};
use srtp::{MasterKey, OutboundContext, Profile};

use super::panic_tests::{open_as, workers};
use super::session::{Route, SendTransport};
use super::video_queue::{CATCH_UP_DATAGRAMS, SLICE_DATAGRAMS, USELESS_AFTER};
use crate::event_loop::Worker;
use crate::ids::{PacketStreamId, PeerId, PortId};
use worker_api::EndReason;
use worker_api::rtc::RtcRole;
use worker_api::settings::WorkerSettings;

const KINDS: [MediaKind; 2] = [MediaKind::Audio, MediaKind::Video];
/// Packets of a key frame.
const PARTS: u16 = 11;
/// Viewers of a stream whose key frames take more than three slices.
const MANY: usize = 150;
/// Viewers whose packets of a key frame make a slice.
const SERVED: usize = SLICE_DATAGRAMS.div_ceil(PARTS as usize);

/// A worker, and what its publishers have sent.
struct World {
    worker: Worker,
    /// Its ports, which viewers are dealt out to.
    ports: u32,
    next: [u16; 2],
}

/// A datagram that was sent: to whom, and whether it is audio or video.
type Sent = (PeerId, MediaKind, u16);

impl World {
    fn new() -> Self {
        Self::with_ports(1)
    }

    fn with_ports(ports: u32) -> Self {
        let mut settings = WorkerSettings::default();
        settings.rtc.udp = vec!["127.0.0.1:0".parse().expect("an address"); ports as usize];
        let mut worker = workers(settings, vec![Vec::new()]).remove(0).0;
        (0..ports).for_each(|port| worker.packets.sockets.ports[PortId(port)].record_only());
        Self { worker, ports, next: [0; 2] }
    }

    /// A stream with so many viewers, all live.
    fn stream(&mut self, name: &str, viewers: usize) -> PacketStreamId {
        let stream = self.join(name, viewers);
        let now = self.worker.ctx.now;
        let tracks = KINDS.map(publisher_track).into();
        let input = PublisherInput { tracks, ..PublisherInput::default() };
        self.worker.packets.streams[stream].sfu.publisher_started(now, 1, input);
        // What everybody begins with.
        self.video(stream, 1, true);
        self.audio(stream);
        self.worker.packets.forward(&mut self.worker.ctx);
        while !self.worker.packets.video.is_empty() {
            self.turn();
        }
        self.take_sent();
        stream
    }

    /// So many players of a stream are connected.
    fn join(&mut self, name: &str, players: usize) -> PacketStreamId {
        let mut stream = None;
        for _ in 0..players {
            let id = open_as(&mut self.worker, RtcRole::Play, name).expect("a player");
            let peer = self.worker.packets.find(id).expect("its index");
            stream = Some(self.connect(peer, &KINDS));
        }
        stream.expect("a stream has viewers here")
    }

    /// Lets a player have media of these kinds, as if ICE and DTLS were done.
    fn connect(&mut self, peer: PeerId, kinds: &[MediaKind]) -> PacketStreamId {
        let key = MasterKey::new(Profile::AeadAes128Gcm, &[7; 16], &[9; 12]).expect("a key");
        let outbound = OutboundContext::new(&srtp::Config::default(), &[key]).expect("keys");
        let port = PortId(peer.0 % self.ports);
        let route = Route::Udp { port, remote: address(peer) };
        let packets = &mut self.worker.packets;
        packets.transports.set(peer, Some(SendTransport { outbound, route, paused: false, pacer: None }));
        packets.sockets.ports[port].peers.insert(address(peer).into(), peer).expect("room");
        let subscription = &mut packets.sessions[peer].subscriptions[0];
        let tracks = kinds.iter().map(|kind| viewer_track(*kind, peer)).collect();
        let input = ViewerInput { token: u64::from(peer.0), cname: String::new(), tracks };
        let stream = &mut packets.streams[subscription.stream];
        subscription.viewer = Some(stream.sfu.join(self.worker.ctx.now, &input).expect("room"));
        subscription.stream
    }

    fn video(&mut self, stream: PacketStreamId, parts: u16, is_key: bool) {
        for _ in 0..parts {
            self.packet(stream, MediaKind::Video, is_key);
        }
    }

    fn audio(&mut self, stream: PacketStreamId) {
        self.packet(stream, MediaKind::Audio, false);
    }

    fn packet(&mut self, stream: PacketStreamId, kind: MediaKind, is_key: bool) {
        let next = &mut self.next[kind as usize];
        *next += 1;
        let fields = fields(kind, *next);
        let sfu = &mut self.worker.packets.streams[stream].sfu;
        sfu.receive_packet(self.worker.ctx.now, &fields, &[0x5a; 100], is_key).expect("taken");
        self.worker.packets.streams.mark_dirty(stream);
    }

    /// The end of a turn of the loop.
    fn turn(&mut self) -> Vec<Sent> {
        self.worker.packets.forward(&mut self.worker.ctx);
        self.worker.packets.send_video(&mut self.worker.ctx);
        self.take_sent()
    }

    /// The packets of media, in the order in which they left.
    fn take_sent(&mut self) -> Vec<Sent> {
        let ports = (0..self.ports).map(PortId);
        let datagrams = ports.flat_map(|port| self.worker.packets.sockets.ports[port].take_recorded());
        let datagrams: Vec<_> = datagrams.collect();
        let sent = datagrams.iter().filter_map(|(remote, datagram)| {
            let packet = rtp::Packet::parse(datagram).expect("a header is not encrypted");
            // RTCP looks like other payload types (RFC 5761 section 4).
            let kind = KINDS.into_iter().find(|kind| 96 + *kind as u8 == packet.payload_type())?;
            let peer = (0..1_000).map(PeerId).find(|peer| address(*peer) == *remote).expect("a viewer");
            Some((peer, kind, packet.sequence_number()))
        });
        sent.collect()
    }

    fn wait(&mut self, milliseconds: u64) {
        self.worker.ctx.now += Duration::from_millis(milliseconds);
        self.worker.ctx.now_ms += milliseconds;
    }
}

fn address(peer: PeerId) -> SocketAddr {
    (Ipv4Addr::new(127, 1, (peer.0 >> 8) as u8, peer.0 as u8), 9).into()
}

/// Of a packet of a publisher.
pub(crate) fn fields(kind: MediaKind, number: u16) -> HeaderFields {
    HeaderFields {
        marker: false,
        payload_type: 96 + kind as u8,
        sequence_number: number,
        timestamp: u32::from(number) * 900,
        ssrc: 1 + kind as u32,
    }
}

fn codec(kind: MediaKind) -> Codec {
    if kind == MediaKind::Audio { Codec::Opus } else { Codec::H264 }
}

pub(crate) fn publisher_track(kind: MediaKind) -> TrackInput {
    let payload_type = 96 + kind as u8;
    TrackInput {
        kind,
        mid: String::new(),
        payloads: vec![TrackPayload {
            payload_type,
            codec: codec(kind),
            clock_rate: 90_000,
            rtx: None,
            red: None,
        }],
        extensions: ExtensionMap::new(),
        ssrcs: vec![(1 + kind as u32, None)],
        rids: Vec::new(),
        nack: false,
        pli: true,
        fir: false,
        transport_cc: false,
        remb: false,
    }
}

pub(crate) fn viewer_track(kind: MediaKind, peer: PeerId) -> ViewerTrackInput {
    ViewerTrackInput {
        track: TrackIndex::new(kind, 0).expect("the first"),
        ssrc: 2 * peer.0 + kind as u32,
        rtx_ssrc: None,
        mid: String::new(),
        payloads: vec![ViewerPayload {
            codec: codec(kind),
            payload_type: 96 + kind as u8,
            rtx: None,
            red: None,
        }],
        extensions: ExtensionMap::new(),
        form: Form::Either,
        fec: None,
        nack: false,
    }
}

#[test]
fn of_a_viewer_without_a_path_the_packets_that_it_takes_are_counted() {
    let mut world = World::new();
    let stream = world.stream("a", 1);
    let id = open_as(&mut world.worker, RtcRole::Play, "a").expect("a player");
    let listener = world.worker.packets.find(id).expect("its index");
    world.connect(listener, &[MediaKind::Audio]);
    world.audio(stream);
    assert!(world.turn().iter().any(|(peer, ..)| *peer == listener), "it has begun");
    world.worker.packets.transports.get_mut(listener).expect("connected").paused = true;
    world.audio(stream);
    world.video(stream, 3, false);
    world.turn();
    assert_eq!(world.worker.packets.sockets.sent.paused, 1, "it takes no video");
}

/// The viewers that were sent video, in order; each must have been sent all `parts` in a row.
fn served(sent: &[Sent], parts: u16) -> Vec<PeerId> {
    let video: Vec<&Sent> = sent.iter().filter(|(_, kind, _)| *kind == MediaKind::Video).collect();
    let runs: Vec<&[&Sent]> = video.chunk_by(|a, b| a.0 == b.0).collect();
    for run in &runs {
        assert_eq!(run.len(), usize::from(parts), "a run is whole");
        assert!(run.is_sorted_by(|a, b| a.2 + 1 == b.2), "and in order: {run:?}");
    }
    runs.iter().map(|run| run[0].0).collect()
}

#[test]
fn audio_leaves_before_the_rest_of_a_key_frame_to_many() {
    let mut world = World::new();
    let stream = world.stream("a", MANY);
    world.video(stream, PARTS, true);
    let mut reached = served(&world.turn(), PARTS);
    assert_eq!(reached.len(), SERVED, "a slice, no more than the packets of one viewer longer");
    assert_eq!(world.worker.packets.timeout(world.worker.ctx.now), Duration::ZERO, "the loop goes on");
    while reached.len() < MANY {
        world.audio(stream);
        let sent = world.turn();
        let audio = sent.iter().take_while(|(_, kind, _)| *kind == MediaKind::Audio);
        assert_eq!(audio.count(), MANY, "to everybody, before any video");
        reached.extend(served(&sent[MANY..], PARTS));
    }
    reached.sort_unstable();
    reached.dedup();
    assert_eq!(reached.len(), MANY, "each viewer once");
    assert_eq!(world.worker.packets.counters.video_left, 3);
    assert!(world.worker.packets.video.is_empty());
}

#[test]
fn what_fits_into_a_slice_leaves_in_the_turn_in_which_it_came() {
    let mut world = World::new();
    let streams = [world.stream("a", 10), world.stream("b", 10)];
    for stream in streams {
        world.audio(stream);
        world.video(stream, 2, false);
    }
    let sent = world.turn();
    assert_eq!((sent.len(), served(&sent, 2).len()), (60, 20));
    assert_eq!(world.worker.packets.counters.video_left, 0);
}

#[test]
fn a_small_frame_overtakes_a_large_one_that_is_not_due_yet() {
    let mut world = World::new();
    let (many, few) = (world.stream("many", MANY), world.stream("few", 2));
    // Due in 6.6 ms.
    world.video(many, PARTS, true);
    assert_eq!(served(&world.turn(), PARTS).len(), SERVED);
    world.wait(1);
    world.video(few, 1, false);
    let sent = world.turn();
    assert_eq!(served(&sent[..2], 1), [MANY, MANY + 1].map(|peer| PeerId(peer as u32)), "in time");
    assert_eq!(served(&sent[2..], PARTS).len(), SERVED);
    world.wait(6);
    world.video(few, 1, false);
    let sent = world.turn();
    assert_eq!(served(&sent, PARTS).len(), SERVED, "that it is late is over: the large one is first");
    let sent = world.turn();
    let (large, small) = sent.split_at(sent.len() - 2);
    assert_eq!(served(large, PARTS).len(), MANY - 3 * SERVED);
    assert_eq!(served(small, 1).len(), 2);
}

#[test]
fn a_worker_that_is_late_catches_up_before_it_reads_more() {
    let mut world = World::new();
    let stream = world.stream("a", MANY);
    world.video(stream, PARTS, true);
    world.turn();
    world.wait(7 + 101);
    assert_eq!(served(&world.turn(), PARTS).len(), MANY - SERVED);
}

#[test]
fn a_worker_with_more_than_it_can_send_drops_old_video_and_no_audio() {
    let mut world = World::new();
    let (stream, other) = (world.stream("a", MANY), world.stream("b", 1));
    world.video(stream, PARTS, true);
    let reached = served(&world.turn(), PARTS).len();
    world.wait(7 + USELESS_AFTER.as_millis() as u64 + 1);
    world.audio(stream);
    world.video(stream, 1, false);
    world.video(other, 1, false);
    let sent = world.turn();
    assert_eq!(sent.iter().filter(|(_, kind, _)| *kind == MediaKind::Audio).count(), MANY);
    assert_eq!(served(&sent[MANY..], 1).len(), MANY + 1, "of what is new, each its own");
    let unsent = world.worker.packets.streams[stream].sfu.stats().unsent_packets;
    assert_eq!((reached, unsent), (SERVED, u64::from(PARTS)));
    // Nobody was sent any of it yet: what has just come is not dropped with it.
    world.video(other, 3, false);
    world.worker.packets.forward(&mut world.worker.ctx);
    world.wait(USELESS_AFTER.as_millis() as u64 + 1);
    world.video(other, 2, true);
    assert_eq!(served(&world.turn(), 2).len(), 1);
    assert_eq!(world.worker.packets.streams[other].sfu.stats().unsent_packets, 3);
}

#[test]
fn no_turn_sends_more_than_audio_can_wait_for_however_late_video_is() {
    let mut world = World::new();
    let stream = world.stream("a", MANY);
    // 16,500 datagrams.
    let parts = 10 * PARTS;
    world.video(stream, parts, true);
    let mut reached = served(&world.turn(), parts);
    assert_eq!(reached.len(), SLICE_DATAGRAMS.div_ceil(parts.into()));
    world.wait(400);
    while reached.len() < MANY {
        world.audio(stream);
        let sent = world.turn();
        assert!(sent[..MANY].iter().all(|(_, kind, _)| *kind == MediaKind::Audio));
        assert!(sent.len() <= MANY + CATCH_UP_DATAGRAMS + usize::from(parts), "{}", sent.len());
        reached.extend(served(&sent[MANY..], parts));
    }
    reached.sort_unstable();
    reached.dedup();
    assert_eq!(reached.len(), MANY);
}

#[test]
fn video_waits_for_room_in_the_kernel_until_it_is_late() {
    let mut world = World::new();
    let (stream, fresh) = (world.stream("a", MANY), world.stream("fresh", 2));
    // More than a port holds.
    let parts = 10 * PARTS;
    let is_full = |world: &mut World, is_full| {
        world.worker.packets.sockets.ports[PortId(0)].is_full = is_full;
    };
    let counts = |world: &World| world.worker.packets.sockets.sent;
    is_full(&mut world, true);
    world.video(stream, parts, true);
    assert!(world.turn().is_empty(), "a slice, which finds no room");
    for _ in 0..50 {
        world.wait(1);
        assert!(world.turn().is_empty());
        let timeout = world.worker.packets.timeout(world.worker.ctx.now);
        assert!(timeout > Duration::ZERO, "the loop rests");
    }
    assert_eq!(counts(&world).dropped, 0);
    is_full(&mut world, false);
    world.worker.packets.flush(&mut world.worker.ctx);
    assert_eq!(world.worker.packets.timeout(world.worker.ctx.now), Duration::ZERO, "there is room again");
    let mut reached = Vec::new();
    while reached.len() < MANY {
        world.wait(1);
        let video = world.turn().into_iter().filter(|(_, kind, _)| *kind == MediaKind::Video);
        reached.extend(served(&video.collect::<Vec<_>>(), parts));
    }
    assert_eq!(counts(&world).dropped, 0);
    // There is no room for long: what is late is dropped, and nothing else.
    world.turn();
    is_full(&mut world, true);
    world.audio(stream);
    world.video(stream, parts, true);
    world.turn();
    world.wait(90);
    world.turn();
    world.wait(200);
    world.video(fresh, 1, false);
    world.audio(stream);
    let before = counts(&world);
    world.turn();
    world.turn();
    let after = counts(&world);
    let old_audio = MANY as u64;
    assert_eq!(after.dropped - before.dropped, MANY as u64 * u64::from(parts) + old_audio);
    assert_eq!(after.no_room[MediaKind::Audio as usize], old_audio, "each is counted as what it was");
    assert_eq!(after.no_room[MediaKind::Video as usize], MANY as u64 * u64::from(parts));
    assert!(after.blocked - before.blocked <= 4, "the kernel is not asked for each");
    is_full(&mut world, false);
    let sent = world.turn();
    assert_eq!(served(&sent, 1).len(), 2, "of the stream that is not late");
    assert_eq!(sent.len(), MANY + 2, "and the audio");
}

#[test]
fn viewers_at_a_port_with_room_do_not_wait_for_those_at_another() {
    let mut world = World::with_ports(2);
    let stream = world.stream("a", 10);
    let at_port = |port| (0..10).map(PeerId).filter(|peer| peer.0 % 2 == port).collect::<Vec<_>>();
    let (full, free) = (at_port(0), at_port(1));
    let served = |sent: &[Sent], parts| {
        let mut peers = served(sent, parts);
        peers.sort_unstable();
        peers
    };
    let set_full = |world: &mut World, is_full| {
        world.worker.packets.sockets.ports[PortId(0)].is_full = is_full;
        if is_full {
            // With something that is found to have no room.
            world.audio(stream);
            world.turn();
        } else {
            world.worker.packets.flush(&mut world.worker.ctx);
            world.take_sent();
        }
    };
    set_full(&mut world, true);
    for parts in [2, 3] {
        world.video(stream, parts, false);
        assert_eq!(served(&world.turn(), parts), free);
        let timeout = world.worker.packets.timeout(world.worker.ctx.now);
        assert!(timeout > Duration::ZERO, "the loop rests");
        world.wait(20);
    }
    set_full(&mut world, false);
    assert_eq!(world.worker.packets.timeout(world.worker.ctx.now), Duration::ZERO, "there is room again");
    assert_eq!(served(&world.turn(), 2 + 3), full, "each once, in order");
    assert!(world.worker.packets.video.is_empty());
    // What is late is dropped for them, and only that.
    set_full(&mut world, true);
    world.video(stream, 2, false);
    world.turn();
    world.wait(90);
    world.video(stream, 3, false);
    let dropped = world.worker.packets.sockets.sent.dropped;
    assert_eq!(served(&world.turn(), 3), free);
    assert_eq!(world.worker.packets.sockets.sent.dropped, dropped);
    world.wait(20);
    assert!(world.turn().is_empty());
    let audio_and_video = (1 + 2) * full.len() as u64;
    assert_eq!(world.worker.packets.sockets.sent.dropped, dropped + audio_and_video);
    set_full(&mut world, false);
    assert_eq!(served(&world.turn(), 3), full);
}

#[test]
fn viewers_that_join_do_not_wait_for_those_at_a_port_without_room() {
    let mut world = World::with_ports(2);
    let stream = world.stream("a", 2);
    world.video(stream, 54, false);
    world.turn();
    world.worker.packets.sockets.ports[PortId(0)].is_full = true;
    world.audio(stream);
    world.turn();
    // One waits for room; of those that join not all are served in one turn.
    world.video(stream, 1, false);
    world.join("a", 50);
    world.worker.packets.streams.mark_dirty(stream);
    world.turn();
    assert!(world.worker.packets.video.has_backlog());
    assert_eq!(world.worker.packets.timeout(world.worker.ctx.now), Duration::ZERO, "the loop goes on");
}

#[test]
fn a_mirror_that_begins_with_old_packets_makes_nobody_late() {
    let mut world = World::new();
    let many = world.stream("many", MANY);
    let clock = WallClock { at: world.worker.ctx.now, ntp: rtp::rtcp::NtpTime(0) };
    let mut home = PacketStream::new(Limits::default(), clock);
    let tracks = KINDS.map(publisher_track).into();
    home.publisher_started(world.worker.ctx.now, 1, PublisherInput { tracks, ..PublisherInput::default() });
    for number in 0..20 {
        let fields = fields(MediaKind::Video, number);
        home.receive_packet(world.worker.ctx.now, &fields, &[0x5a; 100], number == 0).expect("taken");
    }
    world.wait(2_000);
    world.video(many, PARTS, true);
    let (mirror, now) = (world.join("mirror", 1), world.worker.ctx.now);
    for packet in home.cached(now) {
        world.worker.packets.streams[mirror]
            .sfu
            .receive_mirrored(now, packet, sfu::Outputs::MAIN)
            .expect("taken");
    }
    world.worker.packets.streams.mark_dirty(mirror);
    let sent = world.turn();
    assert_eq!(served(&sent[..20], 20).len(), 1, "what was there before is first");
    assert!(sent.len() <= SLICE_DATAGRAMS + usize::from(PARTS), "{}", sent.len());
}

#[test]
fn audio_waits_for_no_packets_of_viewers_that_join() {
    let mut world = World::new();
    let stream = world.stream("a", 2);
    world.video(stream, 54, false);
    world.turn();
    world.join("a", 50);
    world.worker.packets.streams.mark_dirty(stream);
    let mut got = std::collections::BTreeMap::<PeerId, Vec<u16>>::new();
    for turn in 1.. {
        world.audio(stream);
        let sent = world.turn();
        let audio = sent.iter().take_while(|(_, kind, _)| *kind == MediaKind::Audio);
        assert_eq!(audio.filter(|(peer, ..)| peer.0 < 2).count(), 2, "of those that were there");
        // Audio goes to all that have begun with it.
        assert!(sent.len() <= SLICE_DATAGRAMS + 52, "{}", sent.len());
        for (peer, kind, number) in sent {
            if kind == MediaKind::Video {
                got.entry(peer).or_default().push(number);
            }
        }
        if world.worker.packets.video.is_empty() {
            assert!(turn > 50 * 55 / SLICE_DATAGRAMS, "{turn} turns");
            break;
        }
        assert_eq!(world.worker.packets.timeout(world.worker.ctx.now), Duration::ZERO, "the loop goes on");
    }
    assert_eq!(got.len(), 50);
    for (peer, numbers) in got {
        assert_eq!(numbers.len(), 55, "{peer:?}");
        assert!(numbers.is_sorted_by(|a, b| a + 1 == *b), "{peer:?}: {numbers:?}");
    }
}

#[test]
fn viewers_that_leave_or_have_no_path_in_between_keep_nothing_from_the_others() {
    let mut world = World::new();
    let stream = world.stream("a", MANY);
    world.video(stream, PARTS, true);
    let reached = served(&world.turn(), PARTS);
    let last = reached.last().expect("it is not empty").0;
    // One that is served, the next two, and one of the last slice.
    for gone in [last, last + 1, last + 3] {
        world.worker.packets.end(&mut world.worker.ctx, PeerId(gone), EndReason::Kicked);
    }
    world.take_sent();
    world.worker.packets.transports.get_mut(PeerId(last + 2)).expect("it is connected").paused = true;
    let mut reached: Vec<PeerId> = reached;
    while !world.worker.packets.video.is_empty() {
        reached.extend(served(&world.turn(), PARTS));
    }
    reached.sort_unstable();
    reached.dedup();
    assert_eq!(reached.len(), MANY - 3);
    assert_eq!(world.worker.packets.sockets.sent.paused, u64::from(PARTS));
}

#[test]
fn a_stream_that_fails_with_an_open_batch_leaves_others_alone() {
    let mut world = World::new();
    let (many, few) = (world.stream("many", MANY), world.stream("few", 2));
    world.video(many, PARTS, true);
    world.turn();
    world.worker.packets.stream_panicked(&mut world.worker.ctx, many);
    world.take_sent();
    // Another stream of the same id.
    let again = world.stream("again", 2);
    assert_eq!(again, many);
    world.video(few, 1, false);
    world.video(again, 1, false);
    assert_eq!(served(&world.turn(), 1).len(), 4);
    assert!(world.worker.packets.video.is_empty());
}
