//! Figures, printed and not judged: what one hop adds to the delay of a packet, and to the bytes of a stream.
//!
//! ```sh
//! cargo test --release -p worker --test worker packets::figures -- --ignored --nocapture
//! ```

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rtc_test::{OfferOptions, UdpClient, audio_fields, video_fields, vp8_frame};

use crate::packets::common::node::{Node, link};
use crate::packets::common::{now, until};

/// Bytes of UDP and IPv4 in front of each payload.
const HEADERS: u64 = 28;
/// Where the number of a packet is in its payload.
const NUMBER_AT: usize = 11;

/// What a viewer got: when each packet came, by its number, and how many bytes that were.
#[derive(Default)]
struct Seen {
    at: HashMap<u32, Instant>,
    bytes: u64,
}

/// Takes what comes until it is told to stop.
fn watch(client: &mut UdpClient, stop: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    while !stop.load(Ordering::Relaxed) {
        client.wait(now() + Duration::from_millis(20));
        let at = now();
        for packet in client.media.drain(..) {
            let Ok(packet) = rtp::Packet::parse(&packet) else { continue };
            let Some(number) = packet.payload().get(NUMBER_AT..NUMBER_AT + 4) else { continue };
            let number = u32::from_be_bytes(number.try_into().expect("four bytes"));
            seen.at.insert(number, at);
            // With the tag of AES-GCM, as it came.
            seen.bytes += packet.bytes().len() as u64 + 16 + HEADERS;
        }
    }
    seen
}

/// Sends audio and video for some seconds; when each packet left, by its number.
fn publish(client: &mut UdpClient, video_bits_per_second: u32, seconds: u32) -> HashMap<u32, Instant> {
    let (mut sent, mut number, mut sequence) = (HashMap::new(), 0u32, 0u16);
    let parts = (video_bits_per_second / 8 / 25).div_ceil(1_150).max(1);
    let bytes = (video_bits_per_second / 8 / 25 / parts) as usize;
    let began = now();
    let mut numbered = |mut payload: Vec<u8>| {
        payload.resize(payload.len().max(NUMBER_AT + 4), 0);
        payload[NUMBER_AT..NUMBER_AT + 4].copy_from_slice(&number.to_be_bytes());
        sent.insert(number, now());
        number += 1;
        payload
    };
    for tick in 0..seconds * 50 {
        client.turn();
        if tick.is_multiple_of(2) {
            let frame = tick / 2;
            for part in 0..parts {
                let mut fields = video_fields(frame);
                (fields.sequence_number, fields.marker) = (sequence, part + 1 == parts);
                sequence = sequence.wrapping_add(1);
                let mut payload = vp8_frame(frame, frame.is_multiple_of(50), bytes);
                if part > 0 {
                    payload[0] = 0;
                }
                client.send_rtp(fields, &numbered(payload));
            }
        }
        // Opus of 96 kbit/s.
        client.send_rtp(audio_fields(tick), &numbered(vec![0xf8; 240]));
        let due = began + Duration::from_millis(20) * (tick + 1);
        thread::sleep(due.saturating_duration_since(now()));
    }
    sent
}

fn percentile(sorted: &[f64], part: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * part) as usize]
}

#[test]
#[ignore = "prints figures, and takes a minute"]
fn one_hop() {
    for (name, rate) in [("600k", 600_000), ("2500k", 2_500_000)] {
        let (one, other) = (Node::start(1), Node::start(1));
        let link = link(&one, &other);
        let mut publisher = one.publish(0, "live/a", &OfferOptions::default());
        other.fetch_from(&one, "live/a", link);
        let (mut near, mut far) = (one.play(0, "live/a"), other.play(0, "live/a"));
        until("connected", &mut [&mut publisher, &mut near, &mut far], |clients| {
            clients.iter().all(|client| client.is_connected())
        });
        let stop = AtomicBool::new(false);
        let (sent, near, far) = thread::scope(|scope| {
            let near = scope.spawn(|| watch(&mut near, &stop));
            let far = scope.spawn(|| watch(&mut far, &stop));
            let sent = publish(&mut publisher, rate, 20);
            stop.store(true, Ordering::Relaxed);
            (sent, near.join().expect("no panic"), far.join().expect("no panic"))
        });
        let mut added: Vec<f64> = near
            .at
            .iter()
            .filter_map(|(number, near)| {
                let far = far.at.get(number)?;
                let ahead = near.saturating_duration_since(*far).as_secs_f64();
                Some((far.saturating_duration_since(*near).as_secs_f64() - ahead) * 1_000.0)
            })
            .collect();
        added.sort_by(f64::total_cmp);
        let stats = one.stats().counters;
        let between = stats.bytes_out + stats.datagrams_out * HEADERS;
        let back = other.stats().counters;
        let back = back.bytes_out + back.datagrams_out * HEADERS;
        println!(
            "one hop, {name}: {} packets, {} at the first node, {} at the other; added latency {:.2} ms \
             (p50), {:.2} ms (p99); bytes between nodes {:.3} of a viewer's, {:.3} with those back",
            sent.len(),
            near.at.len(),
            far.at.len(),
            percentile(&added, 0.5),
            percentile(&added, 0.99),
            between as f64 / far.bytes as f64,
            (between + back) as f64 / far.bytes as f64,
        );
    }
}
