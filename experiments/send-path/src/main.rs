//! What does it cost the kernel to send one stream to many sockets, and does another way cost less?
//!
//! Each case sends the same bytes at the same rate over loopback, from one thread on core 0 to a process on core 1
//! that reads and compares everything. Cases of a group run in turn or side by side, round after round; shown are medians, and
//! the ratio to the group's first case, taken round by round. `core` is the whole of core 0, from the rounds (`quiet`)
//! in which nobody else took much of it. docs/decisions/0003-send-path.md has the results.

mod groups;
mod machine;
mod method;
mod options;
mod receiver;
mod sender;
mod stream;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::groups::Group;
use crate::sender::{OTHERS_MAX, Outcome, Setting};
use crate::stream::Stream;

#[derive(Parser)]
#[command(about)]
struct Args {
    /// Groups of cases to run; all when none is given. `list` names them.
    groups: Vec<String>,
    /// FLV file to repeat.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../media/demo.flv"))]
    sample: PathBuf,
    #[arg(long, default_value_t = 2000)]
    connections: usize,
    /// Length of one measurement.
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    #[command(subcommand)]
    part: Option<Part>,
}

#[derive(Subcommand)]
enum Part {
    /// The receiving process; started by the sending one.
    #[command(hide = true)]
    Receive {
        address: SocketAddr,
        #[command(flatten)]
        options: receiver::ReceiverOptions,
    },
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("send-path: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), String> {
    let stream = Stream::load(&args.sample)?;
    machine::ensure_descriptors(args.connections as u64 + 64)?;
    if let Some(Part::Receive { address, options }) = &args.part {
        machine::pin_to_core(sender::RECEIVER_CORE)?;
        return receiver::run(&stream, *address, args.connections, *options);
    }
    let groups = groups::all(&stream);
    if args.groups.iter().any(|name| name == "list") {
        groups.iter().for_each(|group| println!("{:14} {}", group.name, group.question));
        return Ok(());
    }
    if let Some(name) = args.groups.iter().find(|name| groups.iter().all(|group| group.name != **name)) {
        return Err(format!("there is no group {name}; `list` names them"));
    }
    machine::pin_to_core(sender::SENDER_CORE)?;
    let chosen = |group: &&Group| args.groups.is_empty() || args.groups.contains(&group.name);
    groups.iter().filter(chosen).try_for_each(|group| measure(&stream, group, args))
}

fn measure(stream: &Stream, group: &Group, args: &Args) -> Result<(), String> {
    let setting = Setting { sample: &args.sample, connections: args.connections, seconds: args.seconds };
    let mut rounds: Vec<Vec<Outcome>> = Vec::new();
    for round in 1..=args.rounds {
        eprintln!("{} round {round} of {}", group.name, args.rounds);
        rounds.push(match group.side_by_side {
            true => sender::run(stream, &group.cases, round, &setting)?,
            false => {
                let outcomes = group.cases.iter().map(|case| sender::run_alone(stream, case, &setting));
                outcomes.collect::<Result<_, _>>()?
            }
        });
    }
    println!("\n{}: {}", group.name, group.question);
    println!(
        "{} connections, {} rounds of {} s, CPU-ms per client-second",
        args.connections, args.rounds, args.seconds
    );
    println!(
        "{}",
        if group.side_by_side { "side by side; core and receiver are sums" } else { "each alone" }
    );
    println!(
        "{:34} {:>7} {:>15} {:>6} {:>7} {:>5} {:>8} {:>7} {:>6} {:>6} {:>6}",
        "case",
        "sender",
        "min..max",
        "ratio",
        "core",
        "quiet",
        "receiver",
        "B/write",
        "short",
        "copied",
        "turnms"
    );
    for (index, case) in group.cases.iter().enumerate() {
        let column = |value: fn(&Outcome) -> f64| sorted(rounds.iter().map(|round| value(&round[index])));
        let sender = column(|outcome| outcome.sender);
        let ratio = sorted(rounds.iter().map(|round| round[index].sender / round[0].sender));
        let quiet = rounds.iter().map(|round| &round[index]).filter(|outcome| outcome.others < OTHERS_MAX);
        let core = sorted(quiet.map(|outcome| outcome.core));
        println!(
            "{:34} {:7.4} {:>15} {:6.3} {:7.4} {:>5} {:8.4} {:7.0} {:6.3} {:6.3} {:6.1}",
            case.name,
            median(&sender),
            format!("{:.4}..{:.4}", sender[0], sender[sender.len() - 1]),
            median(&ratio),
            median(&core),
            core.len(),
            median(&column(|outcome| outcome.receiver)),
            median(&column(|outcome| outcome.write_bytes)),
            median(&column(|outcome| outcome.short)),
            median(&column(|outcome| outcome.copied)),
            median(&column(|outcome| outcome.turn_ms)),
        );
    }
    Ok(())
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// NaN of nothing.
fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.is_empty() {
        return f64::NAN;
    }
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}
