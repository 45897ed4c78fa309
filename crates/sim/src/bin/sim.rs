//! Runs seeds: `sim [--seeds N] [--first SEED] [--threads N] [--seconds N] [--until-found]`,
//! `sim --seed SEED [--load] [--trace] [--config] [--shrink]`; `--load` instead of what seeds stand for.

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sim::swarm::{Config, Outcome};
use worker_api::time::thread_cpu_time;

const USAGE: &str =
    "usage: sim [--seeds N] [--first SEED] [--threads N] [--seconds N] [--until-found] [--load]
       sim --seed SEED [--load] [--trace] [--config] [--shrink]";

/// What is to be run.
#[derive(Debug, Default)]
struct Arguments {
    seed: Option<u64>,
    seeds: Option<u64>,
    first: u64,
    threads: Option<u64>,
    limit: Option<Duration>,
    until_found: bool,
    load: bool,
    trace: bool,
    config: bool,
    shrink: bool,
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut arguments = Self::default();
        while let Some(word) = words.next() {
            let mut number = || {
                let value = words.next().unwrap_or_default();
                value.parse::<u64>().map_err(|_| format!("{word} takes a number, and not {value:?}"))
            };
            match word.as_str() {
                "--seed" => arguments.seed = Some(number()?),
                "--seeds" => arguments.seeds = Some(number()?),
                "--first" => arguments.first = number()?,
                "--threads" => arguments.threads = Some(number()?),
                "--seconds" => arguments.limit = Some(Duration::from_secs(number()?)),
                "--until-found" => arguments.until_found = true,
                "--load" => arguments.load = true,
                "--trace" => arguments.trace = true,
                "--config" => arguments.config = true,
                "--shrink" => arguments.shrink = true,
                _ => return Err(format!("{word} is unknown")),
            }
        }
        Ok(arguments)
    }

    /// The simulation of a seed.
    fn config(&self, seed: u64) -> Config {
        if self.load { Config::load(seed) } else { Config::of(seed) }
    }

    /// The command that runs a seed again.
    fn replay(&self, seed: u64, more: &str) -> String {
        let load = if self.load { "--load " } else { "" };
        match format!("{load}{more}").trim_end() {
            "" => format!("make sim SEED={seed}"),
            arguments => format!("make sim SEED={seed} ARGS='{arguments}'"),
        }
    }
}

fn main() -> ExitCode {
    let arguments = match Arguments::parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("sim: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let is_right = match arguments.seed {
        Some(seed) => run_again(&arguments, seed),
        None => run_many(&arguments),
    };
    if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs one seed, and says whether nothing was found.
fn run_again(arguments: &Arguments, seed: u64) -> bool {
    let config = arguments.config(seed);
    if arguments.config {
        println!("{config:#?}");
    }
    let watch = Watch::begin(arguments.replay(seed, ""));
    let outcome = config.run(arguments.trace && !arguments.shrink);
    watch.end();
    if arguments.shrink && !outcome.violations.is_empty() {
        let (smaller, steps) = config.shrink(&outcome);
        let left_out = if steps.is_empty() { "all of it".to_owned() } else { steps.join(", ") };
        println!("still fails with: {left_out}");
        println!("{:#?}", smaller.run(arguments.trace).violations);
    }
    println!("{outcome:#?}");
    outcome.violations.is_empty()
}

/// What many seeds have come to.
#[derive(Debug, Default)]
struct Total {
    seeds: u64,
    outcome: Outcome,
    failed: Vec<u64>,
    cpu: Duration,
}

/// Runs seeds on several threads, and says whether nothing was found.
#[expect(clippy::disallowed_methods, reason = "how long simulations take is told in real time")]
fn run_many(arguments: &Arguments) -> bool {
    let started = Instant::now();
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let threads = arguments.threads.unwrap_or(cores);
    let end = arguments.first + arguments.seeds.unwrap_or(200);
    let next = AtomicU64::new(arguments.first);
    let total = Mutex::new(Total::default());
    // A panic of a worker is told as what was found.
    std::panic::set_hook(Box::new(|_| {}));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let has_found = total.lock().is_ok_and(|total| !total.failed.is_empty());
                    let is_over = arguments.limit.is_some_and(|limit| started.elapsed() > limit);
                    if seed >= end || is_over || arguments.until_found && has_found {
                        return;
                    }
                    let config = arguments.config(seed);
                    let watch = Watch::begin(arguments.replay(seed, ""));
                    let mut outcome = config.run(false);
                    let cpu = watch.end();
                    if arguments.load {
                        // What comes behind the load is as good as nothing.
                        outcome.virtual_time = config.lasts;
                    }
                    let mut total = total.lock().expect("no thread panics while it holds this");
                    total.seeds += 1;
                    total.cpu += cpu;
                    if let Some(found) = outcome.violations.first() {
                        println!("seed {seed}: {found}\n  replay: {}", arguments.replay(seed, "--shrink"));
                        total.failed.push(seed);
                    }
                    total.outcome += outcome;
                }
            });
        }
    });
    let total = total.into_inner().expect("no thread panicked");
    report(arguments, &total, started.elapsed());
    total.failed.is_empty()
}

fn report(arguments: &Arguments, total: &Total, took: Duration) {
    let (all, took) = (&total.outcome, took.as_secs_f64());
    println!(
        "{} seeds, {} failed, {} turns, {} frames, {} packets ({} runs, {} joined), {} between nodes, \
         {} frames missed, {took:.1} s",
        total.seeds,
        total.failed.len(),
        all.steps,
        all.frames,
        all.packets,
        all.runs,
        all.joined,
        all.relayed,
        all.missed
    );
    println!(
        "RESULT {} seeds={} virtual_hours={:.2} speed={:.1} speed_per_core={:.1} invariants={} {}",
        if arguments.load { "sim-speed" } else { "sim" },
        total.seeds,
        all.virtual_time.as_secs_f64() / 3600.0,
        all.virtual_time.as_secs_f64() / took,
        all.virtual_time.as_secs_f64() / total.cpu.as_secs_f64(),
        all.checks,
        // Of the last run that was recorded; the commit of each is in the file.
        include_str!("../../mutants/found.txt").lines().next().unwrap_or_default()
    );
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
    /// Watches what this thread does from now on, which the command runs again.
    fn begin(replay: String) -> Self {
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
                    println!("does not end: a turn goes on for ever\n  replay: {replay}");
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

    fn parse(line: &str) -> Result<Arguments, String> {
        Arguments::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let arguments = parse("--seed 47 --load --shrink").unwrap();
        assert_eq!((arguments.seed, arguments.load, arguments.shrink), (Some(47), true, true));
        assert_eq!(arguments.replay(47, "--shrink"), "make sim SEED=47 ARGS='--load --shrink'");
        assert_eq!(Arguments::default().replay(47, ""), "make sim SEED=47");
        for line in ["--seed 47l1", "--seed", "--seeds x", "--sede 4", "4"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn the_time_of_a_thread_is_read_behind_its_name() {
        let stat = "7 (a) b) R 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 3";
        assert_eq!(cpu_time(stat), Some(Duration::from_secs(3)));
        assert_eq!(cpu_time("7 (a) R 1 2 3"), None);
    }
}
