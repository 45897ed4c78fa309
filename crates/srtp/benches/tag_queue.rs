//! What does a packet in counter mode cost when its tag is computed with others, by how many wait
//! for each other?
//!
//! Frames of one to eleven packets go to 400 viewers, each with keys of its own, viewer by viewer
//! into one slab, as a server does. Beside it GCM, single calls, and the other shape:
//! `protect_rtp_batch` on one packet of sixteen viewers at a time. Nanoseconds of a packet, the
//! best of several rounds; with perf's permission user instructions are best counted from outside
//! (`perf stat`, one case by its name).
//!
//! Run: `cargo bench -p srtp --bench tag_queue [CASE]`.

use std::hint::black_box;
use std::time::Instant;

use srtp::{
    Config, MasterKey, OutboundContext, Outgoing, Plaintext, Profile, TagPlaces, TagQueue, protect_rtp_batch,
};

const VIEWERS: usize = 400;
const ROUNDS: usize = 9;
const ROOM: usize = 1300;
const HEADER: usize = 20;
/// Payloads of a frame each: audio, a picture in between, one whose last packet is short, and a key frame.
const FRAMES: [(&str, &[usize]); 4] = [
    ("audio", &[120]),
    ("video", &[1150]),
    ("uneven", &[1150, 1150, 300]),
    ("key", &[1150, 1150, 1150, 1150, 1150, 1150, 1150, 1150, 1150, 1150, 500]),
];
const WAITING: [usize; 7] = [4, 8, 16, 32, 64, 128, 256];

/// What a server sends in one go.
struct Slab(Vec<u8>);

impl TagPlaces<u32> for Slab {
    fn packet(&self, place: u32) -> &[u8] {
        &self.0[place as usize..][..ROOM]
    }

    fn packet_mut(&mut self, place: u32) -> &mut [u8] {
        &mut self.0[place as usize..][..ROOM]
    }
}

fn main() {
    // Cargo passes `--bench` to it.
    let only = std::env::args().nth(1).filter(|argument| !argument.starts_with('-'));
    let wanted = |case: &str| only.as_deref().is_none_or(|only| case == only);
    for (frame, lens) in FRAMES {
        let case = |name: String, run: &mut dyn FnMut() -> f64| {
            if wanted(&name) {
                println!("{name:24} {:7.1} ns a packet", run());
            }
        };
        case(format!("{frame}-gcm"), &mut || single(Profile::AeadAes128Gcm, lens));
        case(format!("{frame}-alone"), &mut || single(Profile::AesCm128HmacSha1_80, lens));
        case(format!("{frame}-across"), &mut || across(lens));
        for waiting in WAITING {
            case(format!("{frame}-waiting-{waiting}"), &mut || later(lens, waiting));
        }
    }
}

fn contexts(profile: Profile) -> Vec<OutboundContext> {
    let salt_len = if profile == Profile::AeadAes128Gcm { 12 } else { 14 };
    let context = |viewer: usize| {
        let key = MasterKey::new(profile, &[viewer as u8; 16], &vec![(viewer >> 8) as u8; salt_len])
            .expect("lengths");
        OutboundContext::new(&Config::default(), &[key]).expect("a valid configuration")
    };
    (0..VIEWERS).map(context).collect()
}

/// A header of twenty bytes: fixed part and an extension of one word.
fn header(sequence: u16) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[0] = 0x90;
    header[2..4].copy_from_slice(&sequence.to_be_bytes());
    header[11] = 42;
    header[12..16].copy_from_slice(&[0xbe, 0xde, 0, 1]);
    header
}

/// Nanoseconds of a packet, the best of some rounds of frames to all viewers.
fn best(lens: &[usize], mut frame: impl FnMut(u16)) -> f64 {
    let frames = 4000 / (VIEWERS * lens.len()).min(4000) + 1;
    let mut sequence = 0;
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let began = now();
        for _ in 0..frames {
            frame(sequence);
            sequence += lens.len() as u16;
        }
        let packets = frames * VIEWERS * lens.len();
        best = best.min(began.elapsed().as_nanos() as f64 / packets as f64);
    }
    best
}

fn single(profile: Profile, lens: &[usize]) -> f64 {
    let (mut contexts, mut slab) = (contexts(profile), vec![0; VIEWERS * lens.len() * ROOM]);
    let payload = vec![0x5a; ROOM];
    best(lens, |sequence| {
        let mut at = 0;
        for context in &mut contexts {
            for (number, len) in lens.iter().enumerate() {
                let out = &mut slab[at..at + len + HEADER + 16];
                let header = header(sequence + number as u16);
                at += context.protect_rtp_from(&header, &payload[..*len], out).expect("a fresh index");
            }
        }
        black_box(&slab);
    })
}

fn later(lens: &[usize], waiting: usize) -> f64 {
    let mut contexts = contexts(Profile::AesCm128HmacSha1_80);
    let mut slab = Slab(vec![0; (VIEWERS * lens.len() + 1) * ROOM]);
    let mut tags = TagQueue::new(waiting);
    let payload = vec![0x5a; ROOM];
    best(lens, |sequence| {
        let mut at = 0;
        for context in &mut contexts {
            for (number, len) in lens.iter().enumerate() {
                if tags.is_full() {
                    tags.finish(&mut slab);
                }
                let header = header(sequence + number as u16);
                let plaintext = Plaintext::From { header: &header, payload: &payload[..*len] };
                let out = &mut slab.0[at..at + len + HEADER + 16];
                at += context.protect_rtp_later(plaintext, out, &mut tags, at as u32).expect("a fresh index");
            }
        }
        tags.finish(&mut slab);
        black_box(&slab.0);
    })
}

fn across(lens: &[usize]) -> f64 {
    let mut contexts = contexts(Profile::AesCm128HmacSha1_80);
    let frame_bytes: usize = lens.iter().map(|len| len + HEADER + 10).sum();
    let mut slab = vec![0; VIEWERS * frame_bytes];
    let payload = vec![0x5a; ROOM];
    best(lens, |sequence| {
        for (contexts, slab) in contexts.chunks_mut(16).zip(slab.chunks_mut(16 * frame_bytes)) {
            let mut before = 0;
            for (number, len) in lens.iter().enumerate() {
                let header = header(sequence + number as u16);
                let mut packets: arrayvec::ArrayVec<Outgoing<'_>, 16> = slab
                    .chunks_mut(frame_bytes)
                    .enumerate()
                    .map(|(context, frame)| Outgoing {
                        context,
                        plaintext: Plaintext::From { header: &header, payload: &payload[..*len] },
                        out: &mut frame[before..before + len + HEADER + 10],
                        result: Ok(0),
                    })
                    .collect();
                protect_rtp_batch(contexts, &mut packets);
                assert!(packets.iter().all(|packet| packet.result.is_ok()));
                before += len + HEADER + 10;
            }
        }
        black_box(&slab);
    })
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn now() -> Instant {
    Instant::now()
}
