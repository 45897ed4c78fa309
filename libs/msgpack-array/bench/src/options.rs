//! The command line.

use msgpack_array::Isa;

use crate::contender::Op;
use crate::values::{POOL_ELEMENTS, Values};

/// Names of the element types, in the order of the tables.
pub(crate) const TYPES: [&str; 11] =
    ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64", "bool"];

/// Elements of the arrays that are measured when nothing else is asked for.
pub(crate) const SIZES: [usize; 3] = [64, 1024, HUGE];

/// The size that no cache holds.
pub(crate) const HUGE: usize = 16 << 20;

pub(crate) const USAGE: &str =
    "msgpack-array-bench [--quick] [--op encode|decode]... [--type T]... [--values random|small|one_width|mixed]...
       [--n N]... [--isa avx512|avx2|sse|neon|scalar]... [--rounds N] [--minimum] [--seed N] [--core N] [--pool N]";

/// Which cases, and how.
pub(crate) struct Options {
    pub(crate) quick: bool,
    pub(crate) ops: Vec<Op>,
    pub(crate) types: Vec<&'static str>,
    pub(crate) values: Vec<Values>,
    pub(crate) sizes: Vec<usize>,
    /// Instruction sets of this machine that were asked for.
    pub(crate) isas: Vec<Isa>,
    /// Samples of each contender in each case; a fifteenth of it (five at least) for the largest
    /// arrays.
    pub(crate) rounds: usize,
    /// Compare minimums instead of medians: for a machine that is busy with other things.
    pub(crate) minimum: bool,
    pub(crate) seed: u64,
    pub(crate) core: usize,
    /// Elements of all arrays in rotation, at least.
    pub(crate) pool_elements: usize,
}

impl Options {
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut options = Self {
            quick: false,
            ops: Vec::new(),
            types: Vec::new(),
            values: Vec::new(),
            sizes: Vec::new(),
            isas: Vec::new(),
            rounds: 0,
            minimum: false,
            seed: random_seed(),
            core: 0,
            pool_elements: POOL_ELEMENTS,
        };
        let mut arguments = arguments.iter();
        while let Some(name) = arguments.next() {
            match name.as_str() {
                "--quick" => options.quick = true,
                "--minimum" => options.minimum = true,
                _ => {
                    let value = arguments.next().ok_or(format!("{name} needs a value, or does not exist"))?;
                    options.set(name, value)?;
                }
            }
        }
        fill(&mut options.ops, &Op::ALL);
        fill(&mut options.types, &TYPES);
        fill(&mut options.values, &Values::ALL);
        fill(&mut options.sizes, &SIZES);
        if options.isas.is_empty() {
            options.isas.extend(Isa::available().rev());
        }
        if options.rounds == 0 {
            options.rounds = if options.quick { 35 } else { 151 };
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let number = || value.parse::<u64>().map_err(|error| format!("{name} {value}: {error}"));
        let unknown = || format!("{name} {value}: there is no such thing");
        match name {
            "--op" => self.ops.push(*Op::ALL.iter().find(|op| op.name() == value).ok_or_else(unknown)?),
            "--type" => self.types.push(TYPES.iter().find(|name| **name == value).ok_or_else(unknown)?),
            "--values" => {
                self.values.push(*Values::ALL.iter().find(|each| each.name() == value).ok_or_else(unknown)?);
            }
            "--n" => self.sizes.push(number()?.max(1) as usize),
            "--isa" => {
                let isa = Isa::from_name(value).ok_or_else(unknown)?;
                if isa.is_available() {
                    self.isas.push(isa);
                } else {
                    return Err(format!("{name} {value}: not on this machine"));
                }
            }
            "--rounds" => self.rounds = number()?.max(1) as usize,
            "--seed" => self.seed = number()?,
            "--core" => self.core = number()? as usize,
            "--pool" => self.pool_elements = number()? as usize,
            _ => return Err(format!("unknown option {name}")),
        }
        Ok(())
    }
}

fn fill<T: Copy>(chosen: &mut Vec<T>, all: &[T]) {
    if chosen.is_empty() {
        chosen.extend_from_slice(all);
    }
}

/// New numbers in every run, so that nothing can be tuned to them; printed, so that a run can be
/// repeated.
fn random_seed() -> u64 {
    use std::hash::BuildHasher;
    std::hash::RandomState::new().hash_one(0)
}
