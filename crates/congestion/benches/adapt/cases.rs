//! The cases, and what is read from a run of one.

use std::sync::OnceLock;

use netsim::Random;

use crate::path::{MS, PathConfig, SECOND, Trace, Us};
use crate::world::{LAYERS, Measured, Source, ViewerConfig, World};

pub(crate) const CASES: &[&str] = &[
    "constant_250k",
    "constant_700k",
    "constant_2500k",
    "step",
    "fall",
    "square",
    "lte",
    "loss_2",
    "loss_5",
    "loss_10",
    "bursts",
    "reorder",
    "batches",
    "jitter",
    "two_viewers",
    "tcp",
    "l4s",
];

/// The case of a path that was recorded; only with `--trace FILE`.
pub(crate) const RECORDED: &str = "recorded";
static RECORDING: OnceLock<Vec<f64>> = OnceLock::new();

/// Takes a recording of mahimahi: a line for each packet of 1504 bytes that the link could carry, with its
/// millisecond.
pub(crate) fn take_recording(text: &str) {
    let mut bins: Vec<f64> = Vec::new();
    for line in text.lines() {
        let millisecond: usize = line.trim().parse().expect("a millisecond");
        let bin = millisecond / 100;
        bins.resize(bins.len().max(bin + 1), 0.0);
        bins[bin] += 1504.0 * 8.0 / 0.1;
    }
    RECORDING.set(bins).expect("one recording");
}

/// A part of it, which begins elsewhere with each seed; the end goes on with the beginning.
fn recorded(random: &mut Random, end: Us) -> Trace {
    let bins = RECORDING.get().expect("--trace");
    let from = random.below(bins.len() as u64) as usize;
    let rate = |at: usize| bins[(from + at) % bins.len()].max(10e3);
    Trace((0..(end / (100 * MS)) as usize).map(|at| (at as Us * 100 * MS, rate(at))).collect())
}

/// What a run has shown. Not a number: does not apply.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    pub(crate) utilisation: f64,
    pub(crate) queue_ms_p95: f64,
    pub(crate) loss_percent: f64,
    pub(crate) freeze_ms: f64,
    pub(crate) settle_s: f64,
    pub(crate) drop_s: f64,
    pub(crate) jain: f64,
    pub(crate) tcp_share: f64,
    pub(crate) pacer_ms_p95: f64,
    pub(crate) padding_percent: f64,
    pub(crate) layer: f64,
}

impl Figures {
    pub(crate) fn values(&self) -> [(&'static str, f64); 11] {
        [
            ("utilisation", self.utilisation),
            ("queue_ms_p95", self.queue_ms_p95),
            ("loss_percent", self.loss_percent),
            ("freeze_ms", self.freeze_ms),
            ("settle_s", self.settle_s),
            ("drop_s", self.drop_s),
            ("jain", self.jain),
            ("tcp_share", self.tcp_share),
            ("pacer_ms_p95", self.pacer_ms_p95),
            ("padding_percent", self.padding_percent),
            ("layer", self.layer),
        ]
    }
}

/// Runs a case. `draw` prints rates over time.
pub(crate) fn run(case: &str, source: Source, contender: &'static str, seed: u64, draw: bool) -> Figures {
    let mut random = Random::new(seed);
    let mut end = 60 * SECOND;
    let delay = 10 * MS + random.below(30 * MS);
    let feedback_interval = 50 * MS + random.below(50 * MS);
    let mut path = PathConfig::plain(Trace::constant(2.5e6), delay, 300 * MS);
    let viewer = ViewerConfig { contender, source, ..ViewerConfig::ours(feedback_interval) };
    let mut viewers = vec![viewer.clone()];
    let mut tcp = None;
    match case {
        "constant_250k" => path.trace = Trace::constant(0.25e6),
        "constant_700k" => path.trace = Trace::constant(0.7e6),
        "constant_2500k" => {}
        "step" => path.trace = Trace(vec![(0, 2.5e6), (20 * SECOND, 0.6e6), (40 * SECOND, 2.5e6)]),
        "fall" => path.trace = Trace(vec![(0, 4e6), (20 * SECOND, 0.4e6), (40 * SECOND, 4e6)]),
        "square" => {
            let half = 5 * SECOND;
            path.trace =
                Trace((0..12).map(|at| (at * half, if at % 2 == 0 { 2.5e6 } else { 0.6e6 })).collect());
        }
        "lte" => {
            path.trace = Trace::lte(seed, end);
            path.grant = 5 * MS;
        }
        RECORDED => {
            path.trace = recorded(&mut random, end);
            path.grant = 5 * MS;
        }
        "loss_2" => path.loss = 0.02,
        "loss_5" => path.loss = 0.05,
        "loss_10" => path.loss = 0.10,
        "bursts" => {
            let mut at = 0;
            while at < end {
                at += 2 * SECOND + random.below(6 * SECOND);
                path.outages.push((at, at + 300 * MS));
            }
        }
        "reorder" => path.reorder = 0.05,
        "batches" => path.grant = 10 * MS,
        "jitter" => path.jitter = 30 * MS,
        "two_viewers" => {
            end = 90 * SECOND;
            viewers.push(ViewerConfig { begins: 10 * SECOND, ..viewer });
        }
        "tcp" => {
            end = 90 * SECOND;
            tcp = Some(10 * SECOND);
        }
        // Two packets of 1500 bytes (RFC 9332).
        "l4s" => path.mark_above = Some(10 * MS),
        _ => panic!("no such case: {case}"),
    }
    let trace = path.trace.clone();
    let carried = 1.0 - path.loss;
    let (measured, tcp_bytes) = World::new(path.clone(), viewers, tcp, random.next_u64()).run(end);
    if draw {
        print_drawing(&trace, &measured);
    }

    // With others in the bottleneck: from when all have been there for 10 s.
    let from = if measured.len() > 1 || tcp.is_some() { 20 * SECOND } else { 0 };
    let bins = |bins: &[f64], from: Us, to: Us| {
        (from / (100 * MS)..to / (100 * MS))
            .map(|bin| bins.get(bin as usize).copied().unwrap_or(0.0))
            .sum::<f64>()
    };
    let available = trace.bits(from, end) * carried;
    let arrived: Vec<f64> = measured.iter().map(|viewer| bins(&viewer.arrived, from, end)).collect();
    // The best layer that fits, at each moment.
    let best = |rate: f64| {
        LAYERS.iter().rev().copied().find(|layer| *layer * 1.05 <= rate * carried).unwrap_or(LAYERS[0])
    };
    let could = |from: Us, to: Us| match source {
        Source::Elastic => trace.bits(from, to) * carried,
        Source::Layered => {
            let pieces = (from / (100 * MS)..to / (100 * MS))
                .map(|bin| best(trace.at(bin * 100 * MS) / measured.len() as f64) * 0.1);
            pieces.sum::<f64>() * measured.len() as f64
        }
    };
    let first = &measured[0];
    let mut waits: Vec<f64> =
        measured.iter().flat_map(|viewer| &viewer.waits).map(|us| *us as f64 / 1e3).collect();
    let mut paced: Vec<f64> =
        measured.iter().flat_map(|viewer| &viewer.paced).map(|us| *us as f64 / 1e3).collect();
    let packets: u64 = measured.iter().map(|viewer| viewer.packets).sum();
    let overflowed: u64 = measured.iter().map(|viewer| viewer.overflowed).sum();
    let padding: u64 = measured.iter().map(|viewer| viewer.padding_bytes).sum();
    let sent: f64 = measured.iter().flat_map(|viewer| &viewer.sent).sum();
    let square = arrived.iter().map(|bits| bits * bits).sum::<f64>();
    let total: f64 = arrived.iter().sum();
    let mut layers = first.layers[(from / (100 * MS)) as usize..].to_vec();
    layers.sort_unstable();

    // After rises: until half a second has 85 % of what could be. After falls: until less is sent
    // than fits.
    let mut settle: Vec<f64> = Vec::new();
    let mut fell: Vec<f64> = Vec::new();
    if !["lte", RECORDED].contains(&case) && from == 0 {
        for (at, (begin, rate)) in trace.0.iter().enumerate() {
            let until = trace.0.get(at + 1).map_or(end, |next| next.0);
            if at == 0 || *rate > trace.0[at - 1].1 {
                let bin = (*begin..until.saturating_sub(500 * MS))
                    .step_by(100 * MS as usize)
                    .find(|at| bins(&first.arrived, *at, at + 500 * MS) >= 0.85 * could(*at, at + 500 * MS));
                settle.push((bin.unwrap_or(until) - begin) as f64 / 1e6);
            } else {
                let bin = (*begin..until)
                    .step_by(100 * MS as usize)
                    .find(|at| bins(&first.sent, *at, at + 100 * MS) <= rate * 0.1 * 1.02);
                fell.push((bin.unwrap_or(until) - begin) as f64 / 1e6);
            }
        }
    }
    let worst = |values: &[f64]| values.iter().copied().reduce(f64::max).unwrap_or(f64::NAN);
    Figures {
        utilisation: total / could(from, end),
        queue_ms_p95: percentile(&mut waits, 0.95),
        loss_percent: 100.0 * overflowed as f64 / packets as f64,
        freeze_ms: measured.iter().map(|viewer| freeze_ms(viewer, end)).fold(0.0, f64::max),
        settle_s: worst(&settle),
        drop_s: worst(&fell),
        jain: if arrived.len() > 1 { total * total / (arrived.len() as f64 * square) } else { f64::NAN },
        // What it had before the others came is little: it came last.
        tcp_share: if tcp.is_some() {
            tcp_bytes as f64 * 8.0 / trace.bits(10 * SECOND, end)
        } else {
            f64::NAN
        },
        pacer_ms_p95: percentile(&mut paced, 0.95),
        padding_percent: 100.0 * padding as f64 * 8.0 / sent,
        layer: match source {
            Source::Layered => LAYERS[layers[layers.len() / 2]] / 1e3,
            Source::Elastic => f64::NAN,
        },
    }
    .checked(available)
}

impl Figures {
    fn checked(self, available: f64) -> Self {
        assert!(available > 0.0);
        self
    }
}

/// Time without a picture beyond 150 ms more than usual, up to the end; all of it if there was
/// none.
fn freeze_ms(measured: &Measured, end: Us) -> f64 {
    let Some((last, _)) = measured.shown.last() else { return end as f64 / 1e3 };
    let gaps = measured.shown.windows(2).map(|pair| pair[1].0 - pair[0].0).chain([end - last]);
    gaps.map(|gap| gap as f64 / 1e3).filter(|gap| *gap > 190.0).map(|gap| gap - 40.0).sum()
}

pub(crate) fn percentile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get((values.len() as f64 * part) as usize).or(values.last()).copied().unwrap_or(f64::NAN)
}

fn print_drawing(trace: &Trace, measured: &[Measured]) {
    let ticks = measured[0].rates.len();
    for tick in 0..ticks {
        let cap = trace.at(tick as Us * 100 * MS) / 1e3;
        let mut line = format!("{:6.1} s cap {cap:5.0}", tick as f64 / 10.0);
        for viewer in measured {
            let (estimate, target) = viewer.rates[tick];
            let sent = viewer.sent.get(tick).unwrap_or(&0.0) / 100.0;
            let arrived = viewer.arrived.get(tick).unwrap_or(&0.0) / 100.0;
            line += &format!(
                " | est {:5.0} target {:5.0} sent {sent:5.0} arrived {arrived:5.0} layer {}",
                estimate / 1e3,
                target / 1e3,
                viewer.layers[tick]
            );
        }
        println!("{line}");
    }
}
