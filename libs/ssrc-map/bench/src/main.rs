//! What does one look-up of an SSRC cost, by streams, access pattern and cache pressure, and what
//! do others take?
//!
//! For each cell: several sets of random keys; for each set all contenders are rebuilt and measured
//! in turn, round after round, in repetitions of a fraction of a millisecond, each behind a
//! warm-up. Every repetition's sum is compared with what it must be. Printed is one line per cell
//! and contender, for `scripts/bench ssrc-map` to read: `CELL n pattern pressure contender median
//! min` in nanoseconds per look-up. Under pressure the packets' own cost, measured in the same
//! round, is subtracted; the contender `packets` is that cost.

mod contender;
mod measure;
mod traffic;

use std::ops::Range;
use std::process::ExitCode;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::contender::{
    Array, BTree, Contender, HashbrownFold, HashbrownMultiply, Heap, List, Sse2, SsrcMapOurs, StdHash,
};
use crate::measure::{Pool, back_to_back, now_ns, packets_alone, under_pressure};
use crate::traffic::{Pattern, SEQUENCE_LEN, Traffic};

const STREAMS: [usize; 13] = [1, 2, 3, 5, 8, 10, 20, 30, 50, 100, 200, 1000, 10_000];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let options = match Options::parse(&arguments) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!(
                "ssrc-map-bench: {problem}\nusage: ssrc-map-bench [--quick] [--seed N] [--core N] [--pool-kib N] [--n N]..."
            );
            return ExitCode::FAILURE;
        }
    };
    if let Err(error) = pin_to_core(options.core) {
        eprintln!("ssrc-map-bench: cannot stay on core {}: {error}", options.core);
    }
    println!("seed {}", options.seed);
    let mut pool = Pool::new(options.pool_kib, &mut SmallRng::seed_from_u64(options.seed));
    for &n in STREAMS.iter().filter(|n| options.streams.is_empty() || options.streams.contains(n)) {
        for pattern in Pattern::ALL {
            for pressure in [false, true] {
                Cell { n, pattern, pressure }.measure(&options, &mut pool);
            }
        }
    }
    ExitCode::SUCCESS
}

struct Options {
    key_sets: u64,
    rounds: usize,
    seed: u64,
    core: usize,
    /// Size of the pool of packets. Default 1024: 20 first-level caches and half of a second-level
    /// one, where a packet is that the kernel has just copied. With tens of megabytes the packet
    /// costs 50 to 300 ns of a cache and a bus which others use too, and what a look-up adds is
    /// lost in 2 ns of noise (0.1 ns with the default).
    pool_kib: usize,
    /// Only these numbers of streams; all when empty.
    streams: Vec<usize>,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut options = Self {
            key_sets: 20,
            rounds: 20,
            seed: random_seed(),
            core: 0,
            pool_kib: 1024,
            streams: Vec::new(),
        };
        let mut arguments = arguments.iter();
        while let Some(name) = arguments.next() {
            let mut number = || {
                let value = arguments.next().ok_or(format!("{name} needs a number"))?;
                value.parse::<u64>().map_err(|error| format!("{name} {value}: {error}"))
            };
            match name.as_str() {
                "--quick" => (options.key_sets, options.rounds) = (8, 10),
                "--seed" => options.seed = number()?,
                "--core" => options.core = number()? as usize,
                "--pool-kib" => options.pool_kib = number()? as usize,
                "--n" => options.streams.push(number()? as usize),
                _ => return Err(format!("unknown option {name}")),
            }
        }
        Ok(options)
    }
}

/// New keys in every run, so that nothing can be tuned to them; printed, so that a run can be
/// repeated.
fn random_seed() -> u64 {
    use std::hash::BuildHasher;
    std::hash::RandomState::new().hash_one(0)
}

fn pin_to_core(core: usize) -> nix::Result<()> {
    let mut set = CpuSet::new();
    set.set(core)?;
    sched_setaffinity(Pid::from_raw(0), &set)
}

/// One number of streams, pattern and pressure.
struct Cell {
    n: usize,
    pattern: Pattern,
    pressure: bool,
}

impl Cell {
    fn measure(&self, options: &Options, pool: &mut Pool) {
        let mut figures: Vec<Figures> = Vec::new();
        let mut packets = Figures::new("packets");
        for key_set in 0..options.key_sets {
            let seed = options.seed ^ (key_set << 32) ^ (self.n as u64);
            let traffic = Traffic::new(self.n, self.pattern, seed);
            let mut heap = Heap::new(SmallRng::seed_from_u64(!seed));
            let mut tables = tables(&traffic, &mut heap);
            let mut positions = SmallRng::seed_from_u64(seed.rotate_left(17));
            if figures.is_empty() {
                figures = tables.iter().map(|table| Figures::new(table.name())).collect();
            }
            if self.pressure {
                // The packets as well were driven out while the tables were built.
                repeat_packets_alone(&traffic, &mut positions, pool);
            }
            let parts: Vec<Parts> =
                tables.iter_mut().map(|table| self.parts(&mut **table, &traffic, pool)).collect();
            for round in 0..options.rounds {
                let alone =
                    if self.pressure { repeat_packets_alone(&traffic, &mut positions, pool) } else { 0.0 };
                packets.ns.push(alone);
                // Each round starts with another contender.
                for turn in 0..tables.len() {
                    let index = (turn + round) % tables.len();
                    let ns = self.repeat(&mut *tables[index], &traffic, parts[index], &mut positions, pool);
                    figures[index].ns.push(ns - alone);
                }
            }
        }
        if self.pressure {
            figures.push(packets);
        }
        for figures in &mut figures {
            let (median, min) = figures.median_and_min();
            let Self { n, pattern, pressure } = self;
            println!(
                "CELL {n} {} {} {} {median:.4} {min:.4}",
                pattern.name(),
                u8::from(*pressure),
                figures.name
            );
        }
    }

    /// How many look-ups of this contender take as long as a repetition and its warm-up should.
    fn parts(&self, table: &mut dyn Table, traffic: &Traffic, pool: &mut Pool) -> Parts {
        let mut len = LOOK_UPS_MIN;
        let ns = loop {
            // The first time everything is cold: what was built last has driven out the rest.
            self.time(table, traffic, 0..len, pool);
            let ns = self.time(table, traffic, 0..len, pool);
            if ns * len as f64 >= REPETITION_NS / 4.0 || len == SEQUENCE_LEN {
                break ns;
            }
            len *= 2;
        };
        let within = |wanted_ns: f64| ((wanted_ns / ns) as usize).clamp(LOOK_UPS_MIN, SEQUENCE_LEN);
        let measured = within(REPETITION_NS);
        // Until each stream has been looked up a few times, but at least a quarter of the measured
        // look-ups. The limit is for contenders that scan: one of their look-ups visits many
        // streams.
        let warm_up =
            within(WARM_UP_MAX_NS).min((4 * self.n * self.pattern.look_ups_a_stream()).max(measured / 4));
        Parts { warm_up, measured }
    }

    /// Nanoseconds per look-up of one repetition behind its warm-up, somewhere in the sequence.
    fn repeat(
        &self,
        table: &mut dyn Table,
        traffic: &Traffic,
        parts: Parts,
        positions: &mut SmallRng,
        pool: &mut Pool,
    ) -> f64 {
        self.time(table, traffic, part(positions, parts.warm_up), pool);
        self.time(table, traffic, part(positions, parts.measured), pool)
    }

    /// Nanoseconds per look-up of this part of the sequence.
    fn time(&self, table: &mut dyn Table, traffic: &Traffic, part: Range<usize>, pool: &mut Pool) -> f64 {
        let sequence = &traffic.sequence[part.clone()];
        let pool = if self.pressure { Some(pool) } else { None };
        let begun = now_ns();
        let sum = table.look_up(sequence, pool);
        let ns = now_ns() - begun;
        assert_eq!(sum, traffic.expected(part), "{} found the wrong streams", table.name());
        ns as f64 / sequence.len() as f64
    }
}

/// Look-ups of one repetition.
#[derive(Clone, Copy)]
struct Parts {
    warm_up: usize,
    measured: usize,
}

/// Short, so that most repetitions are not interrupted; long against reading the clock.
const REPETITION_NS: f64 = 200_000.0;
const WARM_UP_MAX_NS: f64 = 5_000_000.0;
/// Of a table so slow that a single look-up takes longer than a repetition should.
const LOOK_UPS_MIN: usize = 16;

fn repeat_packets_alone(traffic: &Traffic, positions: &mut SmallRng, pool: &mut Pool) -> f64 {
    let len = 16_384;
    packets_alone(&traffic.sequence[part(positions, len / 4)], pool);
    let sequence = &traffic.sequence[part(positions, len)];
    let begun = now_ns();
    packets_alone(sequence, pool);
    (now_ns() - begun) as f64 / len as f64
}

/// A part of the sequence, `len` look-ups long.
fn part(positions: &mut SmallRng, len: usize) -> Range<usize> {
    let start = positions.random_range(0..=SEQUENCE_LEN - len);
    start..start + len
}

/// A contender of any type.
trait Table {
    fn name(&self) -> &'static str;
    fn look_up(&mut self, sequence: &[u32], pool: Option<&mut Pool>) -> u64;
}

impl<C: Contender> Table for C {
    fn name(&self) -> &'static str {
        C::NAME
    }

    fn look_up(&mut self, sequence: &[u32], pool: Option<&mut Pool>) -> u64 {
        match pool {
            Some(pool) => under_pressure(self, sequence, pool),
            None => back_to_back(self, sequence),
        }
    }
}

/// All contenders, holding the same streams.
fn tables(traffic: &Traffic, heap: &mut Heap) -> Vec<Box<dyn Table>> {
    fn table<C: Contender + 'static>(traffic: &Traffic, heap: &mut Heap) -> Box<dyn Table> {
        Box::new(C::build(&traffic.streams, heap))
    }
    vec![
        table::<SsrcMapOurs>(traffic, heap),
        table::<List>(traffic, heap),
        table::<Array>(traffic, heap),
        table::<Sse2>(traffic, heap),
        table::<BTree>(traffic, heap),
        table::<StdHash>(traffic, heap),
        table::<HashbrownFold>(traffic, heap),
        table::<HashbrownMultiply>(traffic, heap),
    ]
}

/// Repetitions of one contender.
struct Figures {
    name: &'static str,
    ns: Vec<f64>,
}

impl Figures {
    fn new(name: &'static str) -> Self {
        Self { name, ns: Vec::new() }
    }

    fn median_and_min(&mut self) -> (f64, f64) {
        self.ns.sort_by(f64::total_cmp);
        let middle = self.ns.len() / 2;
        let median = if self.ns.len().is_multiple_of(2) {
            f64::midpoint(self.ns[middle - 1], self.ns[middle])
        } else {
            self.ns[middle]
        };
        (median, self.ns[0])
    }
}
