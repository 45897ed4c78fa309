//! What does a bridge cost for each picture, each way, and how does that grow with the bitrate?
//!
//! H.264 of 30 pictures a second, a key frame of six times the size every two seconds, with Opus beside it,
//! at 0.6, 2 and 8 Mbit/s. `packetise` is all between a frame and RTP packets (parameter sets, which pictures
//! are sent, cutting, headers, timestamps); `receive` is what follows, the packets' way into their stream.
//! `depacketise` is all between a packet of the stream and a frame (order, putting together, key frames,
//! records, stream time). `copy` is the obvious least, a copy of the picture into pieces of as many bytes.
//! `us_per_frame` is the best of several rounds of ten seconds, the audio of that time included.
//!
//! Run: `cargo bench -p bridge`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bridge::{
    AUDIO_SSRC, BFrames, FrameToRtp, FrameToRtpSettings, FramesOut, PacketsOut, RtpToFrame,
    RtpToFrameSettings, VIDEO_SSRC, payload_type,
};
use media::{Codec, Frame, FrameRole, MediaKind, Timestamp, TrackId};
use rtp::FIXED_HEADER_LEN;
use rtp::extension::ExtensionMap;
use rtp::rtcp::NtpTime;
use sfu::{Limits, Packet, PacketStream, PublisherInput, TrackInput, TrackPayload, WallClock};

const ROUNDS: usize = 15;
const SECONDS: u64 = 10;
const PICTURES_PER_SECOND: u64 = 30;
const GOP: u64 = 60;
/// Bytes of a payload, as the server makes them.
const PAYLOAD_BYTES: usize = 1_180;

fn main() {
    println!(
        "{:>12}{:>12}{:>14}{:>14}{:>14}",
        "part", "Mbit/s", "us_per_frame", "ns_per_packet", "packets/frame"
    );
    for bits_per_second in [600_000, 2_000_000, 8_000_000] {
        let frames = frames(bits_per_second);
        let pictures = frames.iter().filter(|(_, frame)| frame.track.kind == MediaKind::Video).count() - 1;
        let (rtp, packets) = bridged(&frames);
        check(&frames, &packets);
        let print = |part: &str, took: Duration| {
            let (us, ns) = (took.as_secs_f64() * 1e6, took.as_secs_f64() * 1e9);
            println!(
                "{part:>12}{:>12.1}{:>14.2}{:>14.0}{:>14.1}",
                bits_per_second as f64 / 1e6,
                us / pictures as f64,
                ns / packets.len() as f64,
                packets.len() as f64 / pictures as f64,
            );
        };
        print("copy", best(|| copy(&frames)));
        print("packetise", best(|| packetise(&frames)));
        print("receive", best(|| receive(&rtp)));
        print("depacketise", best(|| depacketise(&packets)));
    }
}

/// The least time of all rounds.
fn best(mut round: impl FnMut() -> Duration) -> Duration {
    (0..ROUNDS).map(|_| round()).min().unwrap_or_default()
}

#[expect(clippy::disallowed_methods, reason = "a bench reads the clock")]
fn clock() -> Instant {
    Instant::now()
}

/// When each frame comes, and the frame.
type Frames = Vec<(Timestamp, Arc<Frame>)>;

/// Headers, then pictures and audio in order.
fn frames(bits_per_second: usize) -> Frames {
    let mut frames = vec![frame(0, TrackId::VIDEO, FrameRole::Config, video_config())];
    // A key frame counts for six.
    let unit = bits_per_second / 8 * GOP as usize / (GOP as usize + 5) / PICTURES_PER_SECOND as usize;
    for at in 0..SECONDS * PICTURES_PER_SECOND {
        let is_key = at.is_multiple_of(GOP);
        let role = if is_key { FrameRole::Key } else { FrameRole::Inter };
        let bytes = if is_key { 6 * unit } else { unit / 2 + unit * (at % 7) as usize / 6 };
        let time_ms = at * 1_000 / PICTURES_PER_SECOND;
        frames.push(frame(time_ms, TrackId::VIDEO, role, picture(at, is_key, bytes)));
    }
    for at in 0..SECONDS * 50 {
        let mut packet = vec![0xfc];
        packet.extend((0..240u64).map(|byte| (byte * 7 + at) as u8));
        frames.push(frame(at * 20, TrackId::AUDIO, FrameRole::Audio, packet));
    }
    frames.sort_by_key(|(time, _)| *time);
    frames
}

fn frame(time_ms: u64, track: TrackId, role: FrameRole, data: Vec<u8>) -> (Timestamp, Arc<Frame>) {
    let time = Timestamp::from_millis(time_ms as i64);
    let codec = if track == TrackId::VIDEO { Codec::H264 } else { Codec::Opus };
    (time, Arc::new(Frame::new(track, role, codec, (time, time), data)))
}

fn at(start: Instant, time: Timestamp) -> Instant {
    start + Duration::from_micros(time.micros() as u64)
}

/// Parameter sets as x264 makes them (baseline): frame numbers of four bits, output in the order of decoding.
const SPS: &[u8] = &[
    0x67, 0x42, 0xc0, 0x0a, 0xdc, 0x96, 0xc0, 0x44, 0x00, 0x00, 0x03, 0x00, 0x04, 0x00, 0x00, 0x03, 0x00,
    0xc8, 0x3c, 0x48, 0x9e,
];
const PPS: &[u8] = &[0x68, 0xce, 0x0f, 0xc8];

/// A slice: its header, and bytes that look like coded data.
fn picture(at: u64, is_key: bool, bytes: usize) -> Vec<u8> {
    let frame_number = (at % GOP % 16) as u32;
    // first_mb_in_slice, slice_type, pic_parameter_set_id, frame_num; then idr_pic_id and dec_ref_pic_marking
    // of an IDR picture, or three flags for what is not changed; slice_qp_delta (H.264 section 7.3.3). Pairs
    // of value and bits.
    let (unit, fields) = match is_key {
        true if at.is_multiple_of(2 * GOP) => {
            (0x65, &[(1, 1), (8, 7), (1, 1), (0, 4), (1, 1), (0, 2), (1, 1)])
        }
        true => (0x65, &[(1, 1), (8, 7), (1, 1), (0, 4), (2, 3), (0, 2), (1, 1)]),
        false => (0x41, &[(1, 1), (6, 5), (1, 1), (frame_number, 4), (0, 2), (0, 1), (1, 1)]),
    };
    let (bits, len) =
        fields.iter().fold((0, 0), |(bits, len), (value, more)| (bits << more | value, len + more));
    let head = ((bits << (32 - len)) | ((1 << (32 - len)) - 1)).to_be_bytes();
    let mut body = Vec::new();
    body.extend((5 + bytes as u32).to_be_bytes());
    body.push(unit);
    body.extend(head);
    let mut random = netsim::Random::new(at);
    body.extend((0..bytes).map(|_| 1 + random.below(255) as u8));
    body
}

fn video_config() -> Vec<u8> {
    media::config::avc_record(&[SPS], &[PPS]).expect("they are parameter sets").bytes
}

fn to_packets(now: Instant) -> FrameToRtp {
    FrameToRtp::new(FrameToRtpSettings { b_frames: BFrames::Drop, payload_bytes_max: PAYLOAD_BYTES }, now)
}

fn to_frames(now: Instant) -> RtpToFrame {
    let settings = RtpToFrameSettings {
        delay_max: Duration::from_millis(250),
        key_frame_interval_max: Duration::from_secs(2),
        audio_to_aac: false,
    };
    RtpToFrame::new(settings, now)
}

/// A stream of packets with the publisher that a bridge is.
fn stream(now: Instant) -> PacketStream {
    let wall = WallClock { at: now, ntp: NtpTime(0xe000_0000_0000_0000) };
    let mut stream = PacketStream::new(Limits::default(), wall);
    let track = |kind: MediaKind, codec: Codec, ssrc| TrackInput {
        kind,
        mid: String::new(),
        payloads: vec![TrackPayload {
            payload_type: payload_type(codec),
            codec,
            clock_rate: rtp::payload::clock_rate(codec),
            rtx: None,
            red: None,
        }],
        extensions: ExtensionMap::new(),
        ssrcs: vec![(ssrc, None)],
        rids: Vec::new(),
        nack: false,
        pli: false,
        fir: false,
        transport_cc: false,
        remb: false,
    };
    let tracks = vec![
        track(MediaKind::Audio, Codec::Opus, AUDIO_SSRC),
        track(MediaKind::Video, Codec::H264, VIDEO_SSRC),
    ];
    let input = PublisherInput { tracks, feedback_ssrc: 1, cname: "server".to_owned(), reduced_size: true };
    stream.publisher_started(now, 1, input);
    stream
}

/// When it came, and what.
type Timed<T> = Vec<(Instant, T)>;

/// All packets of the frames, as they are written and as their stream keeps them.
fn bridged(frames: &Frames) -> (Timed<Vec<u8>>, Timed<Arc<Packet>>) {
    let start = clock();
    let (mut bridge, mut stream, mut out) = (to_packets(start), stream(start), PacketsOut::default());
    let (mut rtp, mut packets) = (Vec::new(), Vec::new());
    for (time, frame) in frames {
        let now = at(start, *time);
        bridge.frame(now, *time, frame, &mut out);
        for (fields, payload, is_key) in out.packets() {
            let mut packet = vec![0; FIXED_HEADER_LEN];
            fields.write(&[], &mut packet);
            packet.extend_from_slice(payload);
            rtp.push((now, packet));
            stream.receive_packet(now, fields, payload, is_key).expect("the bridge is the publisher");
        }
        out.clear();
        stream.take_arrivals(|packet, _| packets.push((now, Arc::clone(packet))));
        send_to_nobody(&mut stream);
    }
    assert_eq!(bridge.stats().broken, 0, "the pictures make sense");
    (rtp, packets)
}

fn send_to_nobody(stream: &mut PacketStream) {
    for kind in [MediaKind::Audio, MediaKind::Video] {
        stream.prepare_batch(kind);
        stream.finish_batch(kind);
    }
}

/// Every picture must come back as it was.
fn check(frames: &Frames, packets: &Timed<Arc<Packet>>) {
    let mut bridge = to_frames(packets[0].0);
    let mut out = FramesOut::default();
    packets.iter().for_each(|(now, packet)| bridge.packet(*now, packet, &mut out));
    let pictures = |frames: &mut dyn Iterator<Item = &Arc<Frame>>| {
        let is_picture = |frame: &&Arc<Frame>| matches!(frame.role, FrameRole::Key | FrameRole::Inter);
        frames.filter(is_picture).map(|frame| frame.data().to_vec()).collect::<Vec<_>>()
    };
    let before = pictures(&mut frames.iter().map(|(_, frame)| frame));
    let after = pictures(&mut out.frames.iter());
    assert!(before == after, "{} pictures went in and {} came out", before.len(), after.len());
}

fn copy(frames: &Frames) -> Duration {
    let mut to = vec![0; 1 << 20];
    let begun = clock();
    for (_, frame) in frames {
        for (piece, place) in frame.data().chunks(PAYLOAD_BYTES).zip(to.chunks_mut(PAYLOAD_BYTES + 12)) {
            place[12..12 + piece.len()].copy_from_slice(piece);
        }
        black_box(&mut to);
    }
    clock() - begun
}

fn packetise(frames: &Frames) -> Duration {
    let start = clock();
    let (mut bridge, mut out) = (to_packets(start), PacketsOut::default());
    let begun = clock();
    for (time, frame) in frames {
        bridge.frame(at(start, *time), *time, frame, &mut out);
        black_box(out.packets().len());
        out.clear();
    }
    clock() - begun
}

fn receive(rtp: &Timed<Vec<u8>>) -> Duration {
    let mut stream = stream(rtp[0].0);
    let begun = clock();
    for (now, packet) in rtp {
        black_box(stream.receive(*now, packet).is_ok());
        if packet[1] & 0x80 != 0 {
            stream.take_arrivals(|packet, _| _ = black_box(packet));
            send_to_nobody(&mut stream);
        }
    }
    clock() - begun
}

fn depacketise(packets: &Timed<Arc<Packet>>) -> Duration {
    let (mut bridge, mut out) = (to_frames(packets[0].0), FramesOut::default());
    let begun = clock();
    for (now, packet) in packets {
        bridge.packet(*now, packet, &mut out);
        black_box(out.frames.len());
        out.frames.clear();
    }
    clock() - begun
}
