//! What does a datagram to each of N recipients cost, by back end, against a loop of `sendmsg`
//! calls?
//!
//! Runs in the network namespace that `scripts/bench group-send` makes, where everything sent is
//! dropped at the other end of a cable. In each case all contenders are measured in turn, round
//! after round, in slices of CPU time behind a warm-up. After every slice the interface's counters
//! are compared with what the contender says it sent. Printed is one line per case and contender,
//! for the script to read: `CELL n k bytes before after contender kpps spread soft datagrams
//! payload-bytes`, kpps being the median of thousand datagrams per second of CPU time, spread the
//! middle half of the slices in parts of it, and soft the part of the CPU time that the kernel
//! spent in soft interrupts, which is the far end's.

mod contender;
mod meter;
mod traffic;

use std::process::ExitCode;
use std::str::FromStr;

use crate::contender::{Contender, NAMES};
use crate::meter::{Arrangement, Meter, Sent};
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
    /// Where the cable is plugged in.
    interface: String,
    arrangement: Arrangement,
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
            arrangement: Arrangement::Software,
            seed: random_seed(),
        };
        let mut arguments = arguments.iter();
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or(format!("{name} needs a value"))?;
            match name.as_str() {
                "--case" => options.cases.push(value.parse()?),
                "--contender" => options.contenders.push(value.clone()),
                "--rounds" => options.rounds = number(name, value)?,
                "--slice-ms" => options.slice_ns = number::<u64>(name, value)? * 1_000_000,
                "--core" => options.core = number(name, value)?,
                "--interface" => options.interface.clone_from(value),
                "--arrangement" => options.arrangement = value.parse()?,
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
    let mut entries = Vec::new();
    for name in NAMES.into_iter().filter(|name| options.wants(name)) {
        match Entry::new(name, options) {
            Ok(entry) => entries.push(entry),
            Err(why) => println!("SKIPPED {name}: {why}"),
        }
    }
    for case in &options.cases {
        measure(case, &mut entries, options);
    }
    Ok(())
}

fn measure(case: &Case, entries: &mut Vec<Entry>, options: &Options) {
    let traffic = Traffic::new(case, options.seed);
    for entry in &mut *entries {
        entry.warm_up(&traffic, options);
    }
    let mut round = 0;
    let is_noisy = |entry: &Entry| entry.failed.is_none() && entry.median_and_spread().1 > SPREAD_MAX;
    while round < options.rounds || round < ROUNDS_FACTOR_MAX * options.rounds && entries.iter().any(is_noisy)
    {
        // Each round starts with another contender.
        for turn in 0..entries.len() {
            let index = (turn + round) % entries.len();
            entries[index].slice(&traffic, options);
        }
        round += 1;
    }
    for entry in &mut *entries {
        match &entry.failed {
            None => entry.report(case),
            Some(why) => println!("FAILED {}: {why} (in {case})", entry.name),
        }
    }
    entries.retain(|entry| entry.failed.is_none());
}

/// A contender, and what its slices gave in this case.
struct Entry {
    name: &'static str,
    contender: Box<dyn Contender>,
    meter: Meter,
    kpps: Vec<f64>,
    used_ns: u64,
    soft_interrupts_ns: u64,
    total: Sent,
    failed: Option<String>,
}

impl Entry {
    fn new(name: &'static str, options: &Options) -> Result<Self, String> {
        let interface = &options.interface;
        let contender = contender::build(name, interface)?;
        let meter = Meter::new(options.core, interface).map_err(|error| format!("{interface}: {error}"))?;
        Ok(Self {
            name,
            contender,
            meter,
            kpps: Vec::new(),
            used_ns: 0,
            soft_interrupts_ns: 0,
            total: Sent::default(),
            failed: None,
        })
    }

    /// Sends what is not measured: a back end may learn its recipients over many calls.
    fn warm_up(&mut self, traffic: &Traffic, options: &Options) {
        self.failed = self.send(traffic, WARM_UP_GROUPS, 0, options).err();
    }

    /// One more slice, unless something has failed.
    fn slice(&mut self, traffic: &Traffic, options: &Options) {
        if self.failed.is_some() {
            return;
        }
        // So many groups at a time that reading the clock does not show.
        let groups = DATAGRAMS_BETWEEN_CLOCKS.div_ceil(traffic.datagrams());
        match self.send(traffic, groups, options.slice_ns, options) {
            Ok(kpps) => self.kpps.push(kpps),
            Err(why) => self.failed = Some(why),
        }
    }

    /// Sends `groups` groups repeatedly for so much CPU time, compares the counts of both sides,
    /// and returns thousand datagrams per second of that time.
    fn send(
        &mut self,
        traffic: &Traffic,
        groups: usize,
        slice_ns: u64,
        options: &Options,
    ) -> Result<f64, String> {
        let slices = traffic.slices();
        let group = slices.group();
        let before = self.meter.counters()?;
        let mut sent = 0;
        let mut send = |contender: &mut dyn Contender| -> Result<usize, String> {
            for _ in 0..groups {
                contender.send(&group)?;
            }
            sent += groups;
            Ok(sent)
        };
        let unmeasured = send(&mut *self.contender)?;
        let soft_interrupts_begun = self.meter.soft_interrupts_ns()?;
        let begun = self.meter.cpu_ns()?;
        let end = meter::process_ns()? + slice_ns;
        while meter::process_ns()? < end {
            send(&mut *self.contender)?;
        }
        let used = self.meter.cpu_ns()? - begun;
        self.used_ns += used;
        self.soft_interrupts_ns += self.meter.soft_interrupts_ns()? - soft_interrupts_begun;
        let datagrams = sent * traffic.datagrams();
        let payload_bytes = sent * traffic.payload_bytes();
        self.meter.verify(before, Sent { datagrams, payload_bytes }, options.arrangement)?;
        self.total.datagrams += datagrams;
        self.total.payload_bytes += payload_bytes;
        Ok(((sent - unmeasured) * traffic.datagrams()) as f64 / used as f64 * 1e6)
    }

    /// The median of the slices, and their middle half in parts of it.
    fn median_and_spread(&self) -> (f64, f64) {
        let mut kpps = self.kpps.clone();
        kpps.sort_by(f64::total_cmp);
        let quantile = |part: f64| {
            let position = part * (kpps.len() - 1) as f64;
            f64::midpoint(kpps[position.floor() as usize], kpps[position.ceil() as usize])
        };
        let median = quantile(0.5);
        (median, (quantile(0.75) - quantile(0.25)) / median)
    }

    fn report(&mut self, case: &Case) {
        let (median, spread) = self.median_and_spread();
        let soft = self.soft_interrupts_ns as f64 / self.used_ns as f64;
        let Sent { datagrams, payload_bytes } = self.total;
        println!("CELL {case} {} {median:.2} {spread:.3} {soft:.3} {datagrams} {payload_bytes}", self.name);
        self.kpps.clear();
        (self.used_ns, self.soft_interrupts_ns) = (0, 0);
        self.total = Sent::default();
    }
}

/// Slices that differ by more are taken again, up to so many times as many: on a machine with other
/// work, three in a row may be disturbed.
const SPREAD_MAX: f64 = 0.1;
const ROUNDS_FACTOR_MAX: usize = 4;
/// One of the back ends opens eight sockets in 256 datagrams: 1000 recipients take 32 groups.
const WARM_UP_GROUPS: usize = 40;
/// The clock of a process costs a fifth of a microsecond, a datagram one.
const DATAGRAMS_BETWEEN_CLOCKS: usize = 512;
