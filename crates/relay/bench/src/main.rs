//! What does a relayed packet cost for each node it goes to, by way of sending?
//!
//! Two processes that `scripts/bench relay` starts, each on a core of its own, and on either side of
//! a virtual cable where it may: `relay-bench origin` has a stream and sends it to N nodes,
//! `relay-bench sinks` is these nodes. They talk over a Unix socket: the origin sends a chunk, says
//! how many packets each node is to have by then, and goes on when they have come. CPU time is
//! measured while it sends, and only then.
//!
//! Ways: `loop` encrypts each packet for each node with the node's own key and sends it by a call of
//! its own, as an SFU without group unicast would. All others seal it once (`relay::Sender`) and send
//! it by a back end of `group-send`. The receivers are `relay::Receiver`s, except for `loop`, and all
//! compare each packet with what the stream's was.

mod meter;
mod origin;
mod sinks;
mod traffic;
mod way;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.split_first() {
        Some((command, rest)) if command == "origin" => origin::run(rest),
        Some((command, rest)) if command == "sinks" => sinks::run(rest),
        _ => Err("usage: relay-bench origin|sinks ...".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("relay-bench: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// The value behind `name` in the arguments.
fn option<'a>(arguments: &'a [String], name: &str) -> Option<&'a str> {
    let at = arguments.iter().position(|argument| argument == name)?;
    arguments.get(at + 1).map(String::as_str)
}
