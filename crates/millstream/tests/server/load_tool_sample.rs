//! The load generator publishes files of every kind that it takes, and gets every packet of them back.

use std::path::Path;

use clap::Parser;
use millbench::cli::{Cli, Command};
use millbench::rtc;
use millbench::rtc::cli::RtcCommand;
use millbench::rtc::report::RtcReport;

use crate::common::server::Server;

fn play(server: &Server, arguments: &str, sample: &str) -> RtcReport {
    let url = format!("http://{}/whep/live/sample", server.http);
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../millbench/tests/samples").join(sample);
    let words = ["millbench", "rtc", "play", &url, "--quiet", "--settle", "0", "--start-timeout", "30"];
    let sample = ["--sample", sample.to_str().expect("a path of text")];
    let cli = Cli::try_parse_from(words.into_iter().chain(sample).chain(arguments.split_whitespace()));
    match cli.expect("valid options").command {
        Command::Rtc(RtcCommand::Play(args)) => rtc::run::play(&args).expect("a run"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_picture_of_a_file_comes_back() {
    let server = Server::start("");
    for sample in ["h264-opus.mp4", "vp8-opus.webm", "av1-opus.webm"] {
        let report = play(&server, "--publish -n 2 --duration 3", sample);
        assert!(report.outcome.ok && report.outcome.succeeded == 3, "{sample}: {:?}", report.outcome);
        assert!(report.command.ends_with(&format!(" --sample {sample}")), "{}", report.command);
        let step = &report.steps[0];
        // 20 pictures a second to each of two viewers.
        assert!((90..=140).contains(&step.frames), "{sample}: {} pictures", step.frames);
        let latency = step.latency.expect("audio has send times");
        assert!(latency.count > 200, "{sample}: {latency:?}");
        server.wait_for_session_count(0);
    }
}
