//! What does a datagram to each of N recipients cost, by back end, against a loop of `sendmsg` calls?
//!
//! Runs in the network namespace that `scripts/bench group-send` makes, where everything sent is dropped at the other
//! end of a cable. For each case all contenders are built anew and measured in turn, round after round, in slices of
//! CPU time. After every slice the interface's counters are compared with what the contender says it sent. Printed
//! is one line per case and contender, for the script to read:
//! `CELL n k bytes before after contender kpps spread datagrams payload-bytes`, kpps being the median of thousand
//! datagrams per second of CPU time, and spread the middle half of the slices in parts of it.

mod contender;
mod meter;
mod traffic;

use std::process::ExitCode;
use std::str::FromStr;

use crate::contender::{Contender, NAMES};
use crate::meter::{Meter, Sent};
use crate::traffic::{Case, Traffic};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match Options::parse(&arguments).and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("group-send-bench: {problem}");
            ExitCode::FAILURE
        }
    }
}

struct Options {
    cases: Vec<Case>,
    /// All when empty.
    contenders: Vec<String>,
    rounds: usize,
    slice_ns: u64,
    core: usize,
    /// The cable for all but one contender, and its own for the one that puts a program at the interface's egress,
    /// which the others' datagrams would have to pass.
    interface: String,
    clone_interface: String,
    /// Runs of datagrams leave the interface whole, so that its packet counter counts runs.
    device_segments: bool,
    seed: u64,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut options = Self {
            cases: Vec::new(),
            contenders: Vec::new(),
            rounds: 15,
            slice_ns: 20_000_000,
            core: 0,
            interface: "near0".into(),
            clone_interface: "near1".into(),
            device_segments: false,
            seed: random_seed(),
        };
        let mut arguments = arguments.iter();
        while let Some(name) = arguments.next() {
            if name == "--device-segments" {
                options.device_segments = true;
                continue;
            }
            let value = arguments.next().ok_or(format!("{name} needs a value"))?;
            match name.as_str() {
                "--case" => options.cases.push(value.parse()?),
                "--contender" => options.contenders.push(value.clone()),
                "--rounds" => options.rounds = number(name, value)?,
                "--slice-ms" => options.slice_ns = number::<u64>(name, value)? * 1_000_000,
                "--core" => options.core = number(name, value)?,
                "--interface" => options.interface.clone_from(value),
                "--clone-interface" => options.clone_interface.clone_from(value),
                "--seed" => options.seed = number(name, value)?,
                _ => return Err(format!("unknown option {name}")),
            }
        }
        if let Some(unknown) = options.contenders.iter().find(|c| !NAMES.contains(&c.as_str())) {
            return Err(format!("no contender {unknown}; there are: {}", NAMES.join(", ")));
        }
        if options.cases.is_empty() || options.rounds == 0 {
            return Err("needs --case N,K,BYTES,BEFORE,AFTER, and a round at least".into());
        }
        Ok(options)
    }

    fn wants(&self, name: &str) -> bool {
        self.contenders.is_empty() || self.contenders.iter().any(|c| c == name)
    }
}

fn number<T: FromStr>(name: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{name} {value}: not a number"))
}

/// Other bytes in every run; printed, so that a run can be repeated.
fn random_seed() -> u64 {
    use std::hash::BuildHasher;
    std::hash::RandomState::new().hash_one(0)
}

fn run(options: &Options) -> Result<(), String> {
    println!("seed {}", options.seed);
    meter::pin_to_core(options.core).map_err(|error| format!("core {}: {error}", options.core))?;
    meter::raise_descriptor_limit();
    let mut skipped = Vec::new();
    for case in &options.cases {
        measure(case, options, &mut skipped)?;
    }
    Ok(())
}

/// A contender in a case, and what its slices gave.
struct Entry {
    contender: Box<dyn Contender>,
    meter: Meter,
    kpps: Vec<f64>,
    total: Sent,
}

fn measure(case: &Case, options: &Options, skipped: &mut Vec<&'static str>) -> Result<(), String> {
    let traffic = Traffic::new(case, options.seed);
    let mut entries = Vec::new();
    for name in NAMES.into_iter().filter(|name| options.wants(name)) {
        if skipped.contains(&name) {
            continue;
        }
        let interface = if name == "tc_clone" { &options.clone_interface } else { &options.interface };
        match contender::build(name, interface) {
            Ok(contender) => {
                let meter =
                    Meter::new(options.core, interface).map_err(|error| format!("{interface}: {error}"))?;
                entries.push(Entry { contender, meter, kpps: Vec::new(), total: Sent::default() });
            }
            Err(why) => {
                println!("SKIPPED {name}: {why}");
                skipped.push(name);
            }
        }
    }
    for round in 0..options.rounds {
        // Each round starts with another contender.
        for turn in 0..entries.len() {
            let index = (turn + round) % entries.len();
            slice(&mut entries[index], &traffic, options)?;
        }
    }
    for entry in &mut entries {
        report(case, entry);
    }
    Ok(())
}

/// One slice of a contender behind a warm-up, counted on both sides.
fn slice(entry: &mut Entry, traffic: &Traffic, options: &Options) -> Result<(), String> {
    let name = entry.contender.name();
    let slices = traffic.slices(name == "tc_clone");
    let group = slices.group();
    // So many groups at a time that reading the clock does not show.
    let groups = DATAGRAMS_BETWEEN_CLOCKS.div_ceil(traffic.datagrams());
    let before = entry.meter.counters()?;
    let mut sent = Sent::default();
    let send = |contender: &mut dyn Contender, sent: &mut Sent| -> Result<(), String> {
        for _ in 0..groups {
            contender.send(&group).map_err(|problem| format!("{name}: {problem}"))?;
        }
        sent.add(groups * traffic.datagrams(), groups * traffic.payload_bytes());
        Ok(())
    };
    send(&mut *entry.contender, &mut sent)?;
    let (begun, warm_up) = (entry.meter.cpu_ns()?, sent.datagrams);
    let end = meter::process_ns()? + options.slice_ns;
    while meter::process_ns()? < end {
        send(&mut *entry.contender, &mut sent)?;
    }
    let used = entry.meter.cpu_ns()? - begun;
    entry
        .meter
        .verify(before, sent, options.device_segments)
        .map_err(|problem| format!("{name}: {problem}"))?;
    entry.kpps.push((sent.datagrams - warm_up) as f64 / used as f64 * 1e6);
    entry.total.datagrams += sent.datagrams;
    entry.total.payload_bytes += sent.payload_bytes;
    Ok(())
}

/// The clock of a process costs a fifth of a microsecond, a datagram one.
const DATAGRAMS_BETWEEN_CLOCKS: usize = 512;

fn report(case: &Case, entry: &mut Entry) {
    entry.kpps.sort_by(f64::total_cmp);
    let quantile = |part: f64| {
        let position = part * (entry.kpps.len() - 1) as f64;
        let (low, high) = (position.floor() as usize, position.ceil() as usize);
        f64::midpoint(entry.kpps[low], entry.kpps[high])
    };
    let median = quantile(0.5);
    let spread = (quantile(0.75) - quantile(0.25)) / median;
    let (name, total) = (entry.contender.name(), entry.total);
    println!("CELL {case} {name} {median:.2} {spread:.3} {} {}", total.datagrams, total.payload_bytes);
}
