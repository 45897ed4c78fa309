//! What does one more viewer cost for each packet, and what does receiving one cost?
//!
//! A stream of 600 kbit/s: 71 packets of video a second, two or three to a frame and 1 kB each, and
//! 50 of audio. Sweeps the number of viewers and of profiles (kinds of browsers); the figures are
//! nanoseconds, the best of several rounds. `header` is one header for one viewer, written into a
//! buffer that stays; `patch` is the obvious least, copying 20 bytes and writing two fields, for
//! comparison. `receive` is all that happens to a packet between the cipher and the viewers:
//! source, extended number, jitter, transport-wide number, payload, copy, cache. `join` is a viewer
//! that joins, gets two seconds from the cache, and leaves, per packet. `numbered` is a header with a
//! transport-wide number in it, `known` one that is remembered by SSRC and sequence number instead (RFC
//! 8888), none of which is reported: both with a viewer's congestion control beside it.
//!
//! Run: `cargo bench -p sfu`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use rtp::HeaderFields;
use rtp::extension::{BlockWriter, Extension, ExtensionMap, Form};
use rtp::payload::{Codec, MediaKind};
use rtp::rtcp::NtpTime;
use sfu::{
    HEADER_LEN_MAX, Limits, Pacer, PacerInput, PacketStream, PublisherInput, TrackIndex, TrackInput,
    TrackPayload, Viewer, ViewerInput, ViewerPayload, ViewerTrackInput, WallClock, plain_outlet,
};

const ROUNDS: usize = 9;
const SECONDS: usize = 4;
const KINDS: [MediaKind; 2] = [MediaKind::Audio, MediaKind::Video];

fn main() {
    println!(
        "a viewer takes {} bytes where every packet looks, and less than 1 kB in all",
        size_of::<Viewer>()
    );
    let packets = media(SECONDS);
    println!("receive  {:6.1} ns a packet", best(|| receive(&packets)));
    println!("join     {:6.1} ns a packet of the cache", best(|| join(&packets)));
    println!("patch    {:6.1} ns", best(patch));
    println!("{:>9}{:>9}{:>9}{:>9}{:>9}", "viewers", "profiles", "header", "numbered", "known");
    for viewers in [1, 10, 100, 1_000, 2_500] {
        for profiles in [1, 3] {
            let [plain, numbered, known] = [Numbers::None, Numbers::InHeaders, Numbers::ByStream]
                .map(|numbers| best(|| fan_out(&packets, viewers, profiles, numbers)));
            println!("{viewers:>9}{profiles:>9}{plain:>9.1}{numbered:>9.1}{known:>9.1}");
        }
    }
}

/// How viewers report packets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Numbers {
    None,
    InHeaders,
    ByStream,
}

/// The least nanoseconds an operation took of all rounds, each of which returns its time and
/// operations.
fn best(mut round: impl FnMut() -> (Duration, usize)) -> f64 {
    let rounds = (0..ROUNDS).map(|_| round()).map(|(took, count)| took.as_nanos() as f64 / count as f64);
    rounds.fold(f64::INFINITY, f64::min)
}

#[expect(clippy::disallowed_methods, reason = "a bench reads the clock")]
fn clock() -> Instant {
    Instant::now()
}

/// When it arrives, in microseconds, and the packet.
type Media = Vec<(u64, Vec<u8>)>;

/// The packets of some seconds, in order of arrival.
fn media(seconds: usize) -> Media {
    let mut packets = Vec::new();
    let (mut video, mut audio, mut wide) = (65_000u16, 20u16, 0u16);
    for at in 0..seconds * 50 {
        let time = at as u64 * 20_000;
        wide = wide.wrapping_add(1);
        packets.push((time, rtp(111, audio, at as u32 * 960, 2, true, wide, &[0x78; 120])));
        audio = audio.wrapping_add(1);
        if at % 2 == 0 {
            let frame = at / 2;
            let parts = 2 + usize::from(frame % 6 == 0);
            let key = frame % 50 == 0;
            for part in 0..parts {
                let mut payload = [0x5a; 1_000];
                payload[0] = if key { 0x65 } else { 0x41 };
                // The first slice of a video begins with its first macroblock.
                payload[1] = if part == 0 { 0x88 } else { 0x08 };
                wide = wide.wrapping_add(1);
                let marker = part + 1 == parts;
                packets.push((time, rtp(96, video, frame as u32 * 3_600, 1, marker, wide, &payload)));
                video = video.wrapping_add(1);
            }
        }
    }
    packets
}

fn rtp(
    payload_type: u8,
    sequence_number: u16,
    timestamp: u32,
    ssrc: u32,
    marker: bool,
    wide: u16,
    payload: &[u8],
) -> Vec<u8> {
    let mut block = [0; 64];
    let mut writer = BlockWriter::new(&mut block, Form::OneByte);
    writer.push(1, b"0").expect("room");
    writer.push(5, &wide.to_be_bytes()).expect("room");
    let len = writer.finish();
    let fields = HeaderFields { marker, payload_type, sequence_number, timestamp, ssrc };
    let mut bytes = vec![0; 12 + len];
    fields.write(&block[..len], &mut bytes);
    bytes.extend(payload);
    bytes
}

fn stream(now: Instant) -> PacketStream {
    let extensions: ExtensionMap = [(1, Extension::Mid), (5, Extension::TransportCc)].into_iter().collect();
    let track = |kind, payload_type, codec: Codec, ssrc| TrackInput {
        kind,
        mid: "0".to_owned(),
        payloads: vec![TrackPayload {
            payload_type,
            codec,
            clock_rate: rtp::payload::clock_rate(codec),
            rtx: None,
            red: None,
        }],
        extensions,
        ssrcs: vec![(ssrc, None)],
        rids: Vec::new(),
        nack: true,
        pli: true,
        fir: false,
        transport_cc: true,
        remb: false,
    };
    let mut stream = PacketStream::new(Limits::default(), WallClock { at: now, ntp: NtpTime(1 << 60) });
    let tracks =
        vec![track(MediaKind::Audio, 111, Codec::Opus, 2), track(MediaKind::Video, 96, Codec::H264, 1)];
    let input = PublisherInput { tracks, feedback_ssrc: 1, cname: "bench".to_owned(), reduced_size: true };
    stream.publisher_started(now, 1, input);
    stream
}

fn viewer(token: u64, profile: u8, numbers: Numbers) -> ViewerInput {
    let number = Some((5, Extension::TransportCc)).filter(|_| numbers == Numbers::InHeaders);
    let track = |kind, ssrc, codec, payload_type| ViewerTrackInput {
        track: TrackIndex::new(kind, 0).expect("the first"),
        ssrc,
        rtx_ssrc: None,
        mid: "0".to_owned(),
        payloads: vec![ViewerPayload { codec, payload_type, rtx: None, red: None }],
        extensions: std::iter::once((1 + profile, Extension::Mid)).chain(number).collect(),
        form: Form::Either,
        fec: None,
        nack: true,
    };
    let tracks = vec![
        track(MediaKind::Audio, 10, Codec::Opus, 111),
        track(MediaKind::Video, 11, Codec::H264, 96 + profile),
    ];
    ViewerInput { token, cname: "bench".to_owned(), tracks }
}

/// Calls `with` for each turn of the stream: the packets of one instant.
fn turns(packets: &Media, start: Instant, mut with: impl FnMut(Instant, &[(u64, Vec<u8>)])) {
    for batch in packets.chunk_by(|one, other| one.0 == other.0) {
        with(start + Duration::from_micros(batch[0].0), batch);
    }
}

fn receive(packets: &Media) -> (Duration, usize) {
    let start = clock();
    let mut stream = stream(start);
    let mut feedback = Vec::new();
    let (mut took, mut forwarded) = (Duration::ZERO, 0);
    turns(packets, start, |now, batch| {
        let begun = clock();
        for (_, rtp) in batch {
            black_box(stream.receive(now, rtp).expect("taken"));
        }
        feedback.clear();
        stream.poll_feedback(now, &mut feedback);
        took += begun.elapsed();
        stream.take_arrivals(|_, _| forwarded += 1);
        for kind in KINDS {
            stream.prepare_batch(kind);
            stream.finish_batch(kind);
        }
    });
    assert_eq!(forwarded, packets.len());
    (took, packets.len())
}

fn fan_out(packets: &Media, viewers: u64, profiles: u64, numbers: Numbers) -> (Duration, usize) {
    let start = clock();
    let mut stream = stream(start);
    let mut pacers = Vec::new();
    for token in 0..viewers {
        stream.join(start, &viewer(token, (token % profiles) as u8, numbers)).expect("room");
        let input = PacerInput {
            reports_packets: numbers == Numbers::InHeaders,
            reports_streams: numbers == Numbers::ByStream,
            start_bits_per_second: 1_000_000,
            most_bits_per_second: 50_000_000,
        };
        pacers.push((numbers != Numbers::None).then(|| Box::new(Pacer::new(start, input))));
    }
    let (mut took, mut headers, mut header) = (Duration::ZERO, 0, [0; HEADER_LEN_MAX]);
    turns(packets, start, |now, batch| {
        for (_, rtp) in batch {
            stream.receive(now, rtp).expect("taken");
        }
        let begun = clock();
        stream.take_arrivals(|_, _| {});
        for kind in KINDS {
            let mut batch = stream.prepare_batch(kind);
            while let Some((viewer, packets)) = batch.next_viewer() {
                let mut pacer = pacers[viewer.token() as usize].as_deref_mut();
                for index in 0..packets.len() {
                    if let Some(len) = viewer.header_for(packets, index, pacer.as_deref_mut(), &mut header) {
                        black_box(&header[..len]);
                        headers += 1;
                    }
                }
            }
            stream.finish_batch(kind);
        }
        took += begun.elapsed();
        stream.send_backlog(now, usize::MAX, &mut plain_outlet(|_, _, _, _| {}));
    });
    // All but those of the first turn, in which viewers begin.
    assert!(headers + 4 * viewers as usize >= packets.len() * viewers as usize, "{headers}");
    (took, headers)
}

fn join(packets: &Media) -> (Duration, usize) {
    let start = clock();
    let mut stream = stream(start);
    let mut now = start;
    turns(packets, start, |at, batch| {
        now = at;
        for (_, rtp) in batch {
            stream.receive(now, rtp).expect("taken");
        }
        stream.take_arrivals(|_, _| {});
        for kind in KINDS {
            stream.prepare_batch(kind);
            stream.finish_batch(kind);
        }
    });
    let (begun, mut sent) = (clock(), 0);
    for token in 0..200 {
        let id = stream.join(now, &viewer(token, 0, Numbers::None)).expect("room");
        // What it is not sent at once it gets in the time that passes.
        for _ in 0..4 {
            stream.send_backlog(
                now,
                usize::MAX,
                &mut plain_outlet(|_, _, header, payload| {
                    black_box((header, payload));
                    sent += 1;
                }),
            );
            now += Duration::from_millis(20);
        }
        stream.leave(id);
        now = start + Duration::from_secs(SECONDS as u64);
    }
    (begun.elapsed(), sent)
}

fn patch() -> (Duration, usize) {
    const COUNT: usize = 1_000_000;
    let (template, mut header) = ([0u8; 20], [0u8; HEADER_LEN_MAX]);
    let begun = clock();
    for at in 0..COUNT {
        header[..20].copy_from_slice(black_box(&template));
        header[2..4].copy_from_slice(&(at as u16).to_be_bytes());
        header[8..12].copy_from_slice(&(at as u32).to_be_bytes());
        black_box(&header);
    }
    (begun.elapsed(), COUNT)
}
