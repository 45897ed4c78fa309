//! `millbench`: see `cli.rs` for the command line and `lib.rs` for the parts.

use std::process::ExitCode;

use clap::Parser;
use millbench::cli::{Cli, Command, FlvCommand, LoadArgs, RtmpCommand};
use millbench::net::Protocols;
use millbench::report::RunReport;
use millbench::rtc::cli::{RtcCommand, RtcLoadArgs};
use millbench::rtc::report::RtcReport;
use millbench::{floor, rtc, run};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match &cli.command {
        Command::Rtmp(RtmpCommand::Publish(args)) => {
            run::publish(args).and_then(|report| show(&report, &args.load))
        }
        Command::Rtmp(RtmpCommand::Play(args)) => {
            run::play(args, Protocols::Rtmp).and_then(|report| show(&report, &args.load))
        }
        Command::Flv(FlvCommand::Play(args)) => {
            run::play(args, Protocols::HttpFlv).and_then(|report| show(&report, &args.load))
        }
        Command::Rtc(RtcCommand::Publish(args)) => {
            rtc::run::publish(args).and_then(|report| show_rtc(&report, &args.load))
        }
        Command::Rtc(RtcCommand::Play(args)) => {
            rtc::run::play(args).and_then(|report| show_rtc(&report, &args.load))
        }
        Command::Floor(args) => floor::run(args).map(|()| ExitCode::SUCCESS),
    };
    done.unwrap_or_else(|message| {
        eprintln!("millbench: {message}");
        ExitCode::from(2)
    })
}

/// Prints and writes the report; the exit code is the verdict.
fn show(report: &RunReport, load: &LoadArgs) -> Result<ExitCode, String> {
    if load.run.json {
        let json = serde_json::to_string(report).map_err(|error| format!("JSON: {error}"))?;
        println!("{json}");
    } else {
        print!("{}", report.table());
    }
    if let Some(path) = &load.html {
        std::fs::write(path, report.html()).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(if report.outcome.ok { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Prints the report of WebRTC sessions; the exit code is the verdict.
fn show_rtc(report: &RtcReport, load: &RtcLoadArgs) -> Result<ExitCode, String> {
    if load.run.json {
        println!("{}", serde_json::to_string(report).map_err(|error| format!("JSON: {error}"))?);
    } else {
        print!("{}", report.table());
    }
    Ok(if report.outcome.ok { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
