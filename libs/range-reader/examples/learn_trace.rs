//! What would the learner have fetched ahead for a given list of reads?
//!
//! `cargo run -p range-reader --example learn_trace -- FILE READS.csv`, the list as `offset,length`
//! lines.

use std::error::Error;
use std::ops::Range;

use range_reader::learn::{LearnLimits, Learner, Misses, PredictionLimits};

#[path = "../tests/range-reader/support/replay.rs"]
mod replay;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(file), Some(reads)) = (arguments.next(), arguments.next()) else {
        return Err("usage: learn_trace FILE READS.csv".into());
    };
    let file = std::fs::read(file)?;
    let text = std::fs::read_to_string(reads)?;
    let lines = text.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_digit()));
    let reads: Vec<Range<u64>> = lines.map(parse).collect::<Result<_, _>>()?;
    let limits = PredictionLimits { ranges_max: 200, bytes_max: 2 << 20, file_end: file.len() as u64 };
    let mut learner = Learner::new(LearnLimits::default());
    // 50 ms at 20 Mbit/s.
    learner.note_link(125_000.0, Misses::Hidden);
    let replay = replay::Replay::of(&mut learner, &reads, &file, limits);
    println!("{replay:?}");
    let wasted_bytes = replay.fetched - replay.fetched_and_used;
    let ratio = (replay.used + wasted_bytes + replay.skipped) as f64 / replay.used as f64;
    // 50 ms at 20 Mbit/s for each batch, since this replay asks for nothing before it is missed.
    let cost = (replay.used + wasted_bytes + replay.skipped + 125_000 * replay.batches) as f64 / 2.5e6;
    println!("wasted: {wasted_bytes}, ratio {ratio:.3}, about {cost:.2} s");
    Ok(())
}

fn parse(line: &str) -> Result<Range<u64>, Box<dyn Error>> {
    let (offset, length) = line.split_once(',').ok_or_else(|| format!("not `offset,length`: {line}"))?;
    let offset: u64 = offset.trim().parse()?;
    Ok(offset..offset + length.trim().parse::<u64>()?)
}
