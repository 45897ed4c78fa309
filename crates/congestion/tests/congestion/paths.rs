//! Any constant path: what holds of the estimate over it.

use proptest::prelude::*;

use crate::path::{MS, PathConfig, SECOND, Trace, Us};
use crate::world::{Measured, Source, ViewerConfig, World};

const END: Us = 40 * SECOND;

fn run(path: PathConfig, feedback_interval: Us, seed: u64) -> Measured {
    run_source(Source::Elastic, path, feedback_interval, seed)
}

fn run_source(source: Source, path: PathConfig, feedback_interval: Us, seed: u64) -> Measured {
    let viewer = ViewerConfig { source, ..ViewerConfig::ours(feedback_interval) };
    World::new(path, vec![viewer], None, seed).run(END).0.remove(0)
}

fn constant(rate: f64, delay: Us) -> PathConfig {
    PathConfig::plain(Trace::constant(rate), delay, 300 * MS)
}

fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    values.clone().sum::<f64>() / values.count() as f64
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_constant_path_is_used_and_never_exceeded_by_half(
        kbits in 200u32..6000, delay in 5u64..100, interval in 40u64..200, seed in any::<u64>()
    ) {
        let rate = f64::from(kbits) * 1e3;
        let measured = run(constant(rate, delay * MS), interval * MS, seed);
        // The start is a guess; from the first report on it is what arrived.
        for (tick, (estimate, _)) in measured.rates.iter().enumerate().skip(20) {
            prop_assert!(*estimate <= 1.5 * rate * 1.05, "{estimate} of {rate} at {tick}");
        }
        // Never stuck: the second half is used.
        let used = measured.arrived[200..390].iter().sum::<f64>() / (19.0 * rate);
        prop_assert!(used >= 0.8, "{used} of {rate} used");
        // No swinging: of the last 20 s, nine of ten estimates within 20 % of their mean.
        let late = measured.rates[200..].iter().map(|(estimate, _)| *estimate);
        let middle = mean(late.clone());
        let outside = late.clone().filter(|estimate| (estimate / middle - 1.0).abs() > 0.2).count();
        prop_assert!(outside * 10 <= late.count(), "{outside} estimates far from {middle} of {rate}");
    }

    #[test]
    fn random_losses_do_not_bring_it_down(
        kbits in 500u32..4000, loss in 0.0f64..0.12, reorder in 0.0f64..0.03, seed in any::<u64>()
    ) {
        let rate = f64::from(kbits) * 1e3;
        let path = PathConfig { loss, reorder, ..constant(rate, 20 * MS) };
        let measured = run(path, 60 * MS, seed);
        // Packets that come late are asked for too early, which takes as much again.
        let used = measured.arrived[100..390].iter().sum::<f64>() / (29.0 * rate * (1.0 - loss));
        prop_assert!(used >= 0.55, "{used} of {rate} used at a loss of {loss}");
    }

    #[test]
    fn whatever_the_path_does_it_is_followed(
        rates in prop::collection::vec(300_000f64..3e6, 4), seed in any::<u64>()
    ) {
        let pieces = rates.iter().enumerate().map(|(at, rate)| (at as Us * 10 * SECOND, *rate));
        let path = PathConfig { trace: Trace(pieces.collect()), ..constant(1.0, 30 * MS) };
        let measured = run(path, 70 * MS, seed);
        for (piece, rate) in rates.iter().enumerate() {
            let settled = piece * 100 + 50..piece * 100 + 95;
            let used = measured.arrived[settled.clone()].iter().sum::<f64>() / (4.5 * rate);
            prop_assert!(used >= 0.6, "{used} of {rate} used after five seconds of it");
            let sent = measured.sent[settled].iter().sum::<f64>() / (4.5 * rate);
            prop_assert!(sent <= 1.1, "{sent} of {rate} sent after five seconds of it");
        }
    }
}

/// Losses while a low layer was sent bounded the rate by what that layer took, and probes did not
/// lift the bound.
#[test]
fn a_low_layer_is_left_on_a_path_that_loses_some() {
    for seed in 0..30 {
        let path = PathConfig { loss: 0.02, ..constant(2.5e6, 10 * MS + seed % 7 * 5 * MS) };
        let measured = run_source(Source::Layered, path, 70 * MS, seed);
        let used = measured.arrived[200..390].iter().sum::<f64>() / (19.0 * 1.7e6);
        assert!(used > 0.7, "{used} of the best layer with seed {seed}");
    }
}

/// Waits that come and go are no queue, and what is measured between them is no capacity.
#[test]
fn a_path_that_holds_packets_up_is_used() {
    for (jitter, grant) in [(20 * MS, 0), (0, 10 * MS)] {
        let path = PathConfig { jitter, grant, ..constant(2.5e6, 20 * MS) };
        let measured = run(path, 70 * MS, 3);
        let used = measured.arrived[100..390].iter().sum::<f64>() / (29.0 * 2.5e6);
        assert!(used > 0.85, "{used} used, held up for {jitter} us, handed on each {grant} us");
    }
}
