//! Runs seeds: `sim [--seeds N] [--first SEED] [--threads N] [--seconds N] [--until-found]`,
//! `sim --seed SEED [--load] [--trace] [--config] [--shrink]`; `--load` instead of what seeds stand for.

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sim::swarm::{Config, Outcome};
use worker_api::time::thread_cpu_time;

#[expect(clippy::disallowed_methods, reason = "how long simulations take is told in real time")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)?.parse::<u64>().ok()
    };
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let started = Instant::now();
    if let Some(seed) = value("--seed") {
        let config = if has("--load") { Config::load(seed) } else { Config::of(seed) };
        if has("--config") {
            println!("{config:#?}");
        }
        let watch = Watch::begin(seed);
        let outcome = config.run(has("--trace"));
        watch.end();
        if has("--shrink") && !outcome.violations.is_empty() {
            let (smaller, steps) = config.shrink();
            println!(
                "still fails with: {}",
                if steps.is_empty() { "all of it".to_owned() } else { steps.join(", ") }
            );
            println!("{:#?}", smaller.run(false).violations);
        }
        println!("{outcome:#?}");
        return if outcome.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let (seeds, first) = (value("--seeds").unwrap_or(200), value("--first").unwrap_or(0));
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let threads = value("--threads").unwrap_or(cores);
    let limit = value("--seconds").map(Duration::from_secs);
    let next = AtomicU64::new(first);
    let total = Mutex::new((0_u64, Outcome::default(), Vec::<u64>::new()));
    let cpu_total = AtomicU64::new(0);
    let (load, until_found) = (has("--load"), has("--until-found"));
    // A panic of a worker is told as what was found.
    std::panic::set_hook(Box::new(|_| {}));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let found = total.lock().is_ok_and(|total| !total.2.is_empty());
                    if until_found && found {
                        return;
                    }
                    if seed >= first + seeds || limit.is_some_and(|limit| started.elapsed() > limit) {
                        return;
                    }
                    let config = if load { Config::load(seed) } else { Config::of(seed) };
                    let watch = Watch::begin(seed);
                    let mut outcome = config.run(false);
                    let cpu = watch.end();
                    if load {
                        // What comes behind the load is as good as nothing.
                        outcome.virtual_time = config.lasts;
                    }
                    let mut total = total.lock().expect("no thread panics while it holds this");
                    total.0 += 1;
                    cpu_total.fetch_add(cpu.as_nanos() as u64, Ordering::Relaxed);
                    total.1.virtual_time += outcome.virtual_time;
                    total.1.checks += outcome.checks;
                    total.1.steps += outcome.steps;
                    total.1.frames += outcome.frames;
                    total.1.packets += outcome.packets;
                    total.1.relayed += outcome.relayed;
                    total.1.missed += outcome.missed;
                    total.1.runs += outcome.runs;
                    total.1.joined += outcome.joined;
                    if let Some(found) = outcome.violations.first() {
                        let arguments = if load { "'--load --shrink'" } else { "--shrink" };
                        println!("seed {seed}: {found}\n  replay: make sim SEED={seed} ARGS={arguments}");
                        total.2.push(seed);
                    }
                }
            });
        }
    });
    let (ran, all, failed) = total.into_inner().expect("no thread panicked");
    let took = started.elapsed().as_secs_f64();
    println!(
        "{ran} seeds, {} failed, {} turns, {} frames, {} packets ({} runs, {} joined), {} between nodes, \
         {} frames missed, {took:.1} s",
        failed.len(),
        all.steps,
        all.frames,
        all.packets,
        all.runs,
        all.joined,
        all.relayed,
        all.missed
    );
    let name = if load { "sim-speed" } else { "sim" };
    let cpu = Duration::from_nanos(cpu_total.into_inner()).as_secs_f64();
    println!(
        "RESULT {name} seeds={ran} virtual_hours={:.2} speed={:.1} speed_per_core={:.1} invariants={} {}",
        all.virtual_time.as_secs_f64() / 3600.0,
        all.virtual_time.as_secs_f64() / took,
        all.virtual_time.as_secs_f64() / cpu,
        all.checks,
        // Of the last run that was recorded; the commit of each is in the file.
        include_str!("../../mutants/found.txt").lines().next().unwrap_or_default()
    );
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Time of a core that a simulation may take at most: a hundred times what long ones do.
const SIMULATION_MAX: Duration = Duration::from_secs(60);

/// Of the times in a thread's `stat`, in a second (`sysconf(_SC_CLK_TCK)`, which is 100 on Linux).
const TICKS_PER_SECOND: f64 = 100.0;

/// Somebody who ends the process when a simulation does not end, because a turn of it does not.
struct Watch {
    thread: std::thread::Thread,
    is_over: Arc<AtomicBool>,
    before: Duration,
}

impl Watch {
    /// Watches what this thread does from now on.
    fn begin(seed: u64) -> Self {
        // What others can see of its time: in ticks of 10 ms, and there whatever else the kernel counts.
        let stat = std::fs::read_link("/proc/thread-self").expect("Linux has /proc");
        let stat = Path::new("/proc").join(stat).join("stat");
        let used = move || std::fs::read_to_string(&stat).ok().and_then(|text| cpu_time(&text));
        let before = used().expect("a thread has a time");
        let is_over = Arc::new(AtomicBool::new(false));
        let its_end = Arc::clone(&is_over);
        let watcher = std::thread::spawn(move || {
            while !its_end.load(Ordering::Relaxed) {
                if used().is_some_and(|used| used.saturating_sub(before) > SIMULATION_MAX) {
                    println!(
                        "seed {seed}: does not end: a turn goes on for ever\n  replay: make sim SEED={seed}"
                    );
                    std::process::exit(1);
                }
                std::thread::park_timeout(Duration::from_secs(1));
            }
        });
        Self { thread: watcher.thread().clone(), is_over, before: thread_cpu_time() }
    }

    /// It has ended; how much time of a core it took: on a machine with other work that is what a simulation
    /// costs.
    fn end(self) -> Duration {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.unpark();
        thread_cpu_time().saturating_sub(self.before)
    }
}

/// Time for which a thread has had a core, by its `stat` (proc_pid_stat(5): `utime` and `stime`, the 14th and
/// 15th value; the second is a name in brackets, which may have brackets and spaces).
fn cpu_time(stat: &str) -> Option<Duration> {
    let (_, values) = stat.rsplit_once(')')?;
    let mut ticks = values.split_whitespace().skip(11).map(str::parse::<u64>);
    let (user, system) = (ticks.next()?.ok()?, ticks.next()?.ok()?);
    Some(Duration::from_secs_f64((user + system) as f64 / TICKS_PER_SECOND))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_thread_is_read_behind_its_name() {
        let stat = "7 (a) b) R 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 3";
        assert_eq!(cpu_time(stat), Some(Duration::from_secs(3)));
        assert_eq!(cpu_time("7 (a) R 1 2 3"), None);
    }
}
