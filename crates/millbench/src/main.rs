//! `millbench`: see `cli.rs` for the command line and `lib.rs` for the parts.

use std::process::ExitCode;

use clap::Parser;
use millbench::cli::{Cli, Command, FlvCommand, LoadArgs, RtmpCommand, RtspCommand};
use millbench::hls::cli::HlsCommand;
use millbench::net::Protocols;
use millbench::option_values::RunArgs;
use millbench::report::RunReport;
use millbench::rtc::cli::{RtcCommand, RtcLoadArgs};
use millbench::rtc::report::RtcReport;
use millbench::{bottleneck, floor, hls, rtc, run};
use serde::Serialize;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match &cli.command {
        Command::Rtmp(RtmpCommand::Publish(args)) => {
            run::publish(args, Protocols::Rtmp).and_then(|report| show_rtmp(&report, &args.load))
        }
        Command::Rtmp(RtmpCommand::Play(args)) => {
            run::play(args, Protocols::Rtmp).and_then(|report| show_rtmp(&report, &args.load))
        }
        Command::Flv(FlvCommand::Play(args)) => {
            run::play(args, Protocols::HttpFlv).and_then(|report| show_rtmp(&report, &args.load))
        }
        Command::Ts(FlvCommand::Play(args)) => {
            run::play(args, Protocols::HttpTs).and_then(|report| show_rtmp(&report, &args.load))
        }
        Command::Srt(RtmpCommand::Publish(args)) => {
            run::publish(args, Protocols::Srt).and_then(|report| show_rtmp(&report, &args.load))
        }
        Command::Srt(RtmpCommand::Play(args)) => {
            run::play(args, Protocols::Srt).and_then(|report| show_rtmp(&report, &args.load))
        }
        Command::Rtsp(RtspCommand::Play(args)) => {
            let protocol = if args.udp { Protocols::RtspUdp } else { Protocols::RtspTcp };
            run::play(&args.play, protocol).and_then(|report| show_rtmp(&report, &args.play.load))
        }
        Command::Hls(HlsCommand::Play(args)) => hls::run::play(args).and_then(|report| {
            let html = String::new;
            show(&args.run, &report, report.outcome.ok, || report.table(), html)
        }),
        Command::Hls(HlsCommand::Floor(args)) => hls::floor::run(args).map(|()| ExitCode::SUCCESS),
        Command::Rtc(RtcCommand::Publish(args)) => {
            rtc::run::publish(args).and_then(|report| show_rtc(&report, &args.load))
        }
        Command::Rtc(RtcCommand::Play(args)) => {
            rtc::run::play(args).and_then(|report| show_rtc(&report, &args.load))
        }
        Command::Rtc(RtcCommand::Floor(args)) => rtc::floor::run(args).map(|()| ExitCode::SUCCESS),
        Command::Bottleneck(args) => bottleneck::run(args).map(|()| ExitCode::SUCCESS),
        Command::Floor(args) => floor::run(args).map(|()| ExitCode::SUCCESS),
    };
    done.unwrap_or_else(|message| {
        eprintln!("millbench: {message}");
        ExitCode::from(2)
    })
}

/// Prints and writes a report; the exit code is the verdict.
fn show(
    run: &RunArgs,
    report: &impl Serialize,
    is_ok: bool,
    table: impl FnOnce() -> String,
    html: impl FnOnce() -> String,
) -> Result<ExitCode, String> {
    if run.json {
        println!("{}", serde_json::to_string(report).map_err(|error| format!("JSON: {error}"))?);
    } else {
        print!("{}", table());
    }
    if let Some(path) = &run.html {
        std::fs::write(path, html()).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(if is_ok { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn show_rtmp(report: &RunReport, load: &LoadArgs) -> Result<ExitCode, String> {
    show(&load.run, report, report.outcome.ok, || report.table(), || report.html())
}

fn show_rtc(report: &RtcReport, load: &RtcLoadArgs) -> Result<ExitCode, String> {
    show(&load.run, report, report.outcome.ok, || report.table(), || report.html())
}
