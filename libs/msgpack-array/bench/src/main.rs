//! What does an element of an array of numbers cost, encoded and decoded, and what does it cost
//! others?
//!
//! For each case (operation, type, distribution, length) all contenders take turns, round after
//! round, in samples of a fraction of a millisecond of processor time, each behind a warm-up; of
//! the longest arrays a sample is one array. Each result is compared with what `rmp` makes of the
//! same numbers before anything is timed. `ns_per_element` is the median of the samples, `gbps`
//! gigabytes (10^9) of encoded array per second, and a ratio is the other's time divided by ours. A
//! spread (from quartile to quartile, by the median) above 10 % is printed beside the figure.

mod contender;
mod measure;
mod number;
mod options;
mod values;

use std::process::ExitCode;

use crate::contender::{CXX, MEMCPY, NON_TEMPORAL, Named, Op, Output, RMP, RMP_SERDE, WITH};
use crate::measure::{Figures, Samples, cpu_ns, pin_to_core};
use crate::number::Number;
use crate::options::{HUGE, Options, USAGE};
use crate::values::{Pool, Values};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let options = match Options::parse(&arguments) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("msgpack-array-bench: {problem}\nusage: {USAGE}");
            return ExitCode::FAILURE;
        }
    };
    if let Err(error) = pin_to_core(options.core) {
        eprintln!("msgpack-array-bench: cannot stay on core {}: {error}", options.core);
    }
    println!("seed {}", options.seed);
    if cfg!(not(msgpack_cxx)) {
        println!("SKIPPED msgpack-array cxx: its headers (libmsgpack-cxx-dev) were not there at build time");
    }
    for &n in &options.sizes {
        for name in &options.types {
            match *name {
                "i8" => cases::<i8>(n, &options),
                "i16" => cases::<i16>(n, &options),
                "i32" => cases::<i32>(n, &options),
                "i64" => cases::<i64>(n, &options),
                "u8" => cases::<u8>(n, &options),
                "u16" => cases::<u16>(n, &options),
                "u32" => cases::<u32>(n, &options),
                "u64" => cases::<u64>(n, &options),
                "f32" => cases::<f32>(n, &options),
                "f64" => cases::<f64>(n, &options),
                _ => cases::<bool>(n, &options),
            }
        }
    }
    ExitCode::SUCCESS
}

fn cases<T: Number>(n: usize, options: &Options) {
    for &values in options.values.iter().filter(|values| T::has(**values)) {
        let ops = options.ops.iter().filter(|op| !options.quick || has_goal::<T>(**op, values, n));
        let mut pool = None;
        for &op in ops {
            let seed = options.seed ^ (n as u64) << 32;
            let pool = pool.get_or_insert_with(|| Pool::<T>::new(values, n, options.pool_elements, seed));
            Case { op, values, pool }.measure(options);
        }
    }
}

/// Whether a case belongs to the short run: of the longest arrays only those with a goal, as they
/// take long.
fn has_goal<T: Number>(op: Op, values: Values, n: usize) -> bool {
    let huge = ["i8", "i16", "i32", "i64", "u32", "f32", "f64"];
    n < HUGE || op == Op::Encode && values == Values::Random && huge.contains(&T::NAME)
}

/// One line of the table.
struct Case<'a, T> {
    op: Op,
    values: Values,
    pool: &'a Pool<T>,
}

impl<T: Number> Case<'_, T> {
    fn measure(&self, options: &Options) {
        let n = self.pool.n;
        let mut output = Output::new(n);
        let mut contenders = Named::<T>::all(&options.isas, n);
        for contender in &mut contenders {
            for index in 0..self.pool.values.len() {
                contender.check(self.op, self.pool, index, &mut output);
            }
        }
        let mut samples: Vec<Samples> = contenders.iter().map(|_| Samples::default()).collect();
        let arrays: Vec<usize> =
            contenders.iter_mut().map(|contender| self.arrays_per_sample(contender, &mut output)).collect();
        let rounds = if n >= HUGE { (options.rounds / 15).max(5) } else { options.rounds };
        let mut first = 0;
        for round in 0..rounds {
            // Each round starts with another contender and other arrays.
            for turn in 0..contenders.len() {
                let index = (turn + round) % contenders.len();
                let ns = self.sample(&mut contenders[index], arrays[index], first, &mut output);
                samples[index].push(ns);
                first = (first + 1) % self.pool.values.len();
            }
        }
        self.print(&contenders, &samples, options);
    }

    /// So many arrays that a sample takes as long as it should.
    fn arrays_per_sample(&self, contender: &mut Named<T>, output: &mut Output<T>) -> usize {
        let mut arrays = 1;
        loop {
            let ns = self.sample(contender, arrays, 0, output) * (arrays * self.pool.n) as f64;
            if ns >= SAMPLE_NS / 2.0 {
                return ((arrays as f64 * SAMPLE_NS / ns) as usize).max(1);
            }
            arrays *= 2;
        }
    }

    /// Nanoseconds per element over `arrays` arrays, behind a warm-up over a quarter of it. A
    /// single array is its own.
    fn sample(&self, contender: &mut Named<T>, arrays: usize, first: usize, output: &mut Output<T>) -> f64 {
        let warm_up = arrays / 4;
        contender.run(self.op, self.pool, first, warm_up, output);
        let begun = cpu_ns();
        contender.run(self.op, self.pool, first + warm_up, arrays, output);
        (cpu_ns() - begun) / (arrays * self.pool.n) as f64
    }

    fn print(&self, contenders: &[Named<T>], samples: &[Samples], options: &Options) {
        let figures: Vec<Figures> = samples.iter().map(Samples::figures).collect();
        let counted = |figures: &Figures| if options.minimum { figures.min } else { figures.median };
        let of = |name: &str| {
            let index = contenders.iter().position(|contender| contender.name == name)?;
            Some(counted(&figures[index]))
        };
        let case =
            format!("op={} type={} values={} n={}", self.op.name(), T::NAME, self.values.name(), self.pool.n);
        let mut table = format!("{case}, ns per element:");
        for (contender, figures) in contenders.iter().zip(&figures) {
            table += &format!(" {} {:.4}", contender.name, counted(figures));
            if figures.spread() > 0.10 {
                table += &format!(" (spread {:.0} %)", figures.spread() * 100.0);
            }
        }
        println!("{table}");
        let copy = [of(MEMCPY), of(NON_TEMPORAL)].into_iter().flatten().reduce(f64::min);
        for (contender, figures) in contenders.iter().zip(&figures) {
            let Some(isa) = contender.isa else { continue };
            let ns = counted(figures);
            // `nan` for a contender that is not here, as all benchmarks print it.
            let ratio = |other: Option<f64>| other.map_or("nan".into(), |other| format!("{:.3}", other / ns));
            println!(
                "RESULT msgpack-array {case} isa={} ns_per_element={ns:.4} gbps={:.2} vs_rmp={} vs_cxx={} vs_memcpy={}",
                isa.name(),
                self.pool.bytes() / (ns * self.pool.n as f64),
                ratio(of(RMP)),
                ratio(of(CXX)),
                ratio(copy),
            );
        }
        if let (Some(with), Some(without)) = (of(WITH), of(RMP_SERDE)) {
            println!(
                "RESULT msgpack-array-serde {case} ns_per_element={with:.4} vs_rmp_serde={:.2}",
                without / with
            );
        }
    }
}

/// Short, so that most samples are not interrupted; long against reading the clock (half a
/// microsecond).
const SAMPLE_NS: f64 = 200_000.0;
