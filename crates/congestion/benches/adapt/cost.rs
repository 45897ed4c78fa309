//! What does the controller cost for each packet, and how much memory does a viewer take?
//!
//! Viewers of 600 kbit/s and 2.5 Mbit/s whose packets are reported every 50 ms; 16 of them in turns,
//! which stay in the cache, and 400. Nanoseconds a packet, the best of several rounds: `sent`, and
//! its share of `feedback`, reading transport-wide feedback included; `pacing`, which is asked once
//! for each run of three packets, is beside it.

use std::hint::black_box;
use std::time::{Duration, Instant};

use congestion::{Config, Controller, Kind, PacketReport};
use netsim::Clock;
use rtp::rtcp::{Arrival, FeedbackHead, Rtcp, TransportFeedback, packets};

const ROUNDS: usize = 7;
const SECONDS: u64 = 10;
const BYTES: u64 = 1100;

/// What was measured, for RESULT lines.
pub(crate) fn measure() -> Vec<String> {
    let mut results = Vec::new();
    let controller = Controller::new(Config::default(), Clock::new().now());
    println!("a viewer takes {} bytes, history included", controller.memory_bytes());
    println!("{:>10}{:>9}{:>9}{:>9}{:>12}{:>9}", "kbit/s", "viewers", "sent", "pacing", "feedback", "sum");
    for rate in [600_000, 2_500_000] {
        for viewers in [16, 400] {
            let rounds: Vec<_> = (0..ROUNDS).map(|_| round(rate, viewers)).collect();
            let best = |part: usize| rounds.iter().map(|round| round[part]).fold(f64::INFINITY, f64::min);
            let (sent, pacing, feedback) = (best(0), best(1), best(2));
            let sum = sent + feedback;
            println!("{:>10}{viewers:>9}{sent:>9.1}{pacing:>9.1}{feedback:>12.1}{sum:>9.1}", rate / 1000);
            results.push(format!(
                "rate={rate} viewers={viewers} ns_sent={sent:.1} ns_pacing={pacing:.1} \
                 ns_feedback={feedback:.1} ns_sum={sum:.1} bytes={}",
                controller.memory_bytes()
            ));
        }
    }
    results
}

/// Nanoseconds a packet of `sent`, `pacing` and `feedback`.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn round(rate: u64, viewers: usize) -> [f64; 3] {
    let start = Clock::new().now();
    let mut controllers: Vec<_> = (0..viewers).map(|_| Controller::new(Config::default(), start)).collect();
    let seconds = if viewers > 16 { 2 } else { SECONDS };
    // A report every 50 ms.
    let per_report = (rate / 20 / 8 / BYTES).max(1);
    let reports = seconds * 20;
    let (mut sent, mut pacing, mut feedback) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    let mut number = 0u64;
    for report in 0..reports {
        let at = start + Duration::from_millis(50 * report);
        let time = |offset: u64| at + Duration::from_micros(50_000 * offset / per_report);
        let mut bytes = Vec::new();
        let arrivals: Vec<_> = (0..per_report)
            .map(|offset| {
                let us = 20_000 + (time(offset) - start).as_micros() as i64;
                Arrival { sequence_number: 0x1_0000 + number + offset, ticks: us / 250 }
            })
            .collect();
        let head =
            FeedbackHead { sender_ssrc: 1, media_ssrc: 2, count: report as u8, base: 0x1_0000 + number };
        TransportFeedback::write(&mut bytes, &head, &arrivals);

        let began = Instant::now();
        for controller in &mut controllers {
            for offset in (0..per_report).step_by(3) {
                black_box(controller.pacing(time(offset)));
            }
        }
        pacing += began.elapsed();
        let began = Instant::now();
        for controller in &mut controllers {
            for offset in 0..per_report {
                controller.sent((number + offset) as u16, BYTES as usize, time(offset), Kind::Video);
            }
        }
        sent += began.elapsed();
        let began = Instant::now();
        for controller in &mut controllers {
            let Some(Ok(Rtcp::TransportFeedback(read))) = packets(&bytes).next() else {
                panic!("what was written is read")
            };
            controller.feedback(read.packets().map(PacketReport::from), at + Duration::from_millis(80));
        }
        feedback += began.elapsed();
        number += per_report;
    }
    let count = (number * viewers as u64) as f64;
    assert!(controllers.iter().all(|controller| controller.estimate() > 0));
    [sent, pacing, feedback].map(|time| time.as_nanos() as f64 / count)
}
