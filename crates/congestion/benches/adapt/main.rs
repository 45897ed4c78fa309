//! How well does a viewer's rate follow its path, and how long is the queue, against the published
//! GCC and a fixed rate?
//!
//! Run: `scripts/bench adapt [--quick]`. Everything happens in virtual time from seeds. With
//! `--case C --seed N --draw` one run, drawn. `--trace FILE --case recorded`: a recording of a link, as
//! mahimahi has them.

mod cases;
mod cost;
mod gcc;
mod sender;
mod world;

use cases::{CASES, percentile};
use netsim::{bottleneck as path, bulk_tcp as tcp};
use world::Source;

/// Seeds that the controller was tuned with are below 1000; figures are of others.
const TEST_SEEDS: u64 = 1001;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let value = |name: &str| {
        arguments.iter().position(|argument| argument == name).and_then(|at| arguments.get(at + 1)).cloned()
    };
    let seeds = value("--seeds")
        .map_or(if has("--quick") { 31 } else { 101 }, |text| text.parse().expect("a number of seeds"));
    let first = if has("--tune") { 1 } else { TEST_SEEDS };
    let first = value("--seed").map_or(first, |text| text.parse().expect("a seed"));
    let seeds = if value("--seed").is_some() { 1 } else { seeds };
    let wanted = value("--case");
    let contenders = value("--contender").unwrap_or("ours,gcc,fixed".into());
    let sources = value("--source").unwrap_or("elastic,layered".into());

    let recording = value("--trace");
    if let Some(file) = &recording {
        cases::take_recording(&std::fs::read_to_string(file).expect("a recording"));
    }
    let mut results = Vec::new();
    for case in CASES
        .iter()
        .chain(recording.as_ref().map(|_| &cases::RECORDED))
        .filter(|case| wanted.as_ref().is_none_or(|wanted| wanted.split(',').any(|one| one == **case)))
    {
        for (name, source) in [("elastic", Source::Elastic), ("layered", Source::Layered)] {
            if !sources.contains(name) {
                continue;
            }
            for contender in ["ours", "gcc", "fixed"] {
                if !contenders.contains(contender) || (contender == "fixed" && source == Source::Elastic) {
                    continue;
                }
                let runs: Vec<_> = (first..first + seeds)
                    .map(|seed| cases::run(case, source, contender, seed, has("--draw")).values())
                    .collect();
                let mut median = format!("case={case} kind=sim source={name} contender={contender}");
                let mut spread = String::new();
                for (at, (key, _)) in runs[0].iter().enumerate() {
                    let mut values: Vec<f64> = runs.iter().map(|run| run[at].1).collect();
                    let middle = percentile(&mut values, 0.5);
                    let (least, most) = (values[0], values[values.len() - 1]);
                    let worst = if matches!(*key, "utilisation" | "jain" | "tcp_share" | "layer") {
                        least
                    } else {
                        most
                    };
                    median += &format!(" {key}={}", number(middle));
                    if matches!(
                        *key,
                        "utilisation" | "queue_ms_p95" | "freeze_ms" | "settle_s" | "jain" | "tcp_share"
                    ) && !worst.is_nan()
                    {
                        spread += &format!(" {key} {}", number(worst));
                    }
                }
                let shorter = median.replace(" kind=sim", "").replace("=", " ");
                println!("{shorter}; worst of {seeds}:{spread}");
                results.push(median);
            }
        }
    }
    let costs = if wanted.is_none() { cost::measure() } else { Vec::new() };
    for result in results {
        println!("RESULT adapt {result}");
    }
    for cost in costs {
        println!("RESULT adapt-estimator {cost}");
    }
}

fn number(value: f64) -> String {
    if value.is_nan() {
        "nan".into()
    } else if value.abs() >= 100.0 {
        format!("{value:.0}")
    } else if value.abs() >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.3}")
    }
}
