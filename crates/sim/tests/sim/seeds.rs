use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sim::swarm::Config;

/// Seeds of every run of the tests: as many as fit into a minute without optimisation.
const SEEDS: u64 = 12;

#[test]
fn no_seed_finds_anything() {
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let run = || {
        let (mut virtual_time, mut frames, mut found) = (Duration::ZERO, 0, Vec::new());
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= SEEDS {
                return (virtual_time, frames, found);
            }
            let outcome = Config::of(seed).run(false);
            virtual_time += outcome.virtual_time;
            frames += outcome.frames + outcome.packets;
            found.extend(outcome.violations.iter().map(|text| format!("make sim SEED={seed}: {text}")));
        }
    };
    let all: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let virtual_time: Duration = all.iter().map(|(time, ..)| *time).sum();
    let frames: u64 = all.iter().map(|(_, frames, _)| frames).sum();
    let found: Vec<_> = all.into_iter().flat_map(|(.., found)| found).collect();
    // Past what the harness captures: every run of the tests says how much was covered.
    let hours = virtual_time.as_secs_f64() / 3600.0;
    let _ = writeln!(
        std::io::stdout(),
        "\nRESULT sim-test seeds={SEEDS} virtual_hours={hours:.2} frames={frames}"
    );
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(frames > 10_000, "players got {frames} frames");
}
