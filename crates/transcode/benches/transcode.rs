//! What does transcoding one stream of audio cost a thread, and how much does it delay?
//!
//! Pink noise and a chord, stereo: AAC-LC of 128 kbit/s at 44.1 kHz to Opus of 96 kbit/s; with
//! feature `fdk-aac` also Opus back to AAC of 128 kbit/s. `us_per_frame` is CPU time per piece that
//! comes out (20 ms of Opus, 21.3 ms of AAC), the best of several rounds of ten seconds;
//! `percent_of_core` is the time for a second of audio. `added_latency_ms` is how much later than
//! the end of its input a sample is in a finished piece at most, decoder included: what a player
//! must wait longer.
//!
//! Run: `cargo bench -p transcode` (and `--features fdk-aac`). Arguments other than `--bench` name
//! the parts to run.

#[path = "../tests/transcode/common.rs"]
#[allow(dead_code, reason = "the tests use the rest of it")]
mod common;

use std::time::Duration;

use common::{Sample, sample};
use media::CodedAudio;
use transcode::{AacSettings, OpusSettings, ToAac, ToOpus};

/// Length of a round.
const ROUND_US: i64 = 10_000_000;
const ROUNDS: usize = 7;

fn main() {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let is_wanted = |part: &str| wanted.is_empty() || wanted.iter().any(|name| name == part);
    let audio = sample("aac-44100-busy.aac");
    let input = repeated(&audio);
    let mut opus = Vec::new();
    if is_wanted("aac2opus") || is_wanted("opus2aac") {
        let mut best = Duration::MAX;
        for _ in 0..ROUNDS {
            let mut transcoder = ToOpus::new(OpusSettings { bits_per_second: 96_000 });
            opus.clear();
            best = best.min(timed(|| {
                for piece in &input {
                    transcoder.push(Some(&audio.format), piece.pts_us, &piece.data, &mut opus).unwrap();
                }
            }));
        }
        // Each packet needs the piece that brought its last sample: how far the time had come when
        // it was made.
        let mut transcoder = ToOpus::new(OpusSettings { bits_per_second: 96_000 });
        let format = audio.format.clone();
        let push = |piece: &CodedAudio, out: &mut Vec<CodedAudio>| {
            transcoder.push(Some(&format), piece.pts_us, &piece.data, out).unwrap();
        };
        if is_wanted("aac2opus") {
            print("aac2opus", best, opus.len(), latency_us(&input, push));
        }
    }
    if is_wanted("opus2aac") {
        opus_to_aac(&opus);
    }
}

fn opus_to_aac(opus: &[CodedAudio]) {
    let settings = AacSettings { bits_per_second: 128_000 };
    if let Err(error) = ToAac::new(settings) {
        println!("part=opus2aac left out: {error}");
        return;
    }
    let (mut best, mut frames) = (Duration::MAX, 0);
    for _ in 0..ROUNDS {
        let (mut transcoder, mut out) = (ToAac::new(settings).unwrap(), Vec::new());
        best = best.min(timed(|| {
            for packet in opus {
                transcoder.push(packet.pts_us, &packet.data, &mut out).unwrap();
            }
        }));
        frames = out.len();
    }
    let mut transcoder = ToAac::new(settings).unwrap();
    let push = |packet: &CodedAudio, out: &mut Vec<CodedAudio>| {
        transcoder.push(packet.pts_us, &packet.data, out).unwrap()
    };
    print("opus2aac", best, frames, latency_us(opus, push));
}

fn print(part: &str, best: Duration, frames: usize, latency_us: i64) {
    println!(
        "part={part} us_per_frame={:.1} percent_of_core={:.2} added_latency_ms={:.1}",
        best.as_secs_f64() * 1e6 / frames as f64,
        best.as_secs_f64() * 1e8 / ROUND_US as f64,
        latency_us as f64 / 1e3,
    );
}

/// The sample again and again, for the length of a round.
fn repeated(audio: &Sample) -> Vec<CodedAudio> {
    let mut pieces = Vec::new();
    // The first pieces hold the encoder's delay, the last one is cut short.
    let loops = &audio.pieces[2..audio.pieces.len() - 1];
    loop {
        for (_, data) in loops {
            let pts_us = common::BASE_US + pieces.len() as i64 * 1_024_000_000 / 44_100;
            if pts_us >= common::BASE_US + ROUND_US {
                return pieces;
            }
            pieces.push(CodedAudio { pts_us, format: None, data: data.clone() });
        }
    }
}

/// The longest that the start of a piece waits for the packet with its audio, against the piece it came in.
///
/// A piece is there when the next one begins, so a packet made from piece `n` is there at the time
/// of piece `n + 1`; a player that takes the packets needs that much more buffer than one that
/// takes the pieces.
fn latency_us(input: &[CodedAudio], mut push: impl FnMut(&CodedAudio, &mut Vec<CodedAudio>)) -> i64 {
    let mut longest = 0;
    let mut out = Vec::new();
    for pair in input.windows(2) {
        push(&pair[0], &mut out);
        let piece_us = pair[1].pts_us - pair[0].pts_us;
        for packet in out.drain(..) {
            longest = longest.max(pair[1].pts_us - packet.pts_us - piece_us);
        }
    }
    longest
}

fn timed(run: impl FnOnce()) -> Duration {
    let begin = cpu_time();
    run();
    cpu_time() - begin
}

/// CPU time of this thread: what others do on the machine is not in it. The first figure of the
/// scheduler's statistics, in nanoseconds.
fn cpu_time() -> Duration {
    let statistics =
        std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has statistics of threads");
    let nanoseconds = statistics.split_whitespace().next().and_then(|figure| figure.parse().ok());
    Duration::from_nanos(nanoseconds.expect("the first figure is a number"))
}
