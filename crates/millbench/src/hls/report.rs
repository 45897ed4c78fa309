//! The result of a run, as JSON and as a table.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use crate::report::ServerStep;
use crate::stats::Percentiles;

/// Everything a run found out.
#[derive(Debug, Default, Serialize)]
pub struct HlsReport {
    /// What ran, as one line.
    pub command: String,
    /// How players fetched: `ll`, `plain` or `dash`.
    pub mode: &'static str,
    /// Processor, kernel and cores of this machine.
    pub machine: String,
    /// Measured steps.
    pub steps: Vec<HlsStep>,
    /// The end.
    pub outcome: HlsOutcome,
}

/// N players held for a while.
#[derive(Debug, Default, Serialize)]
pub struct HlsStep {
    /// Players asked for.
    pub sessions: usize,
    /// Players with a picture, not failed, at the end of the step.
    pub sessions_up: usize,
    /// Measured time, seconds.
    pub seconds: f64,
    /// Responses per player and second.
    pub requests_per_client_s: f64,
    /// Bytes of bodies per second over all players, bits.
    pub bits_per_second: f64,
    /// Frames that came as a share of those that should have.
    pub delivered: Option<f64>,
    /// From sending the first frame of a part to the last byte of that part; of the last part of what was
    /// fetched at once.
    pub latency: Option<Percentiles>,
    /// From connecting to the first frame, of players that began for this step.
    pub first_frame: Option<Percentiles>,
    /// The server's cost, with `--server-pid`.
    pub server: Option<ServerStep>,
    /// The generator's own CPU time, percent of one core.
    pub generator_core_percent: f64,
    /// CPU time of everything else on this machine, percent of one core, with `--server-pid`.
    pub others_core_percent: Option<f64>,
}

/// How it ended.
#[derive(Debug, Default, Serialize)]
pub struct HlsOutcome {
    /// Every player played, and no frame is missing.
    pub ok: bool,
    /// Why players failed, and how many.
    pub failures: BTreeMap<String, usize>,
    /// Frames that were never listed to the player that should have had them.
    pub missing_messages: u64,
    /// Of frames that are missing nothing more is known.
    pub missing_bytes: u64,
    /// No byte came twice.
    pub excess_bytes: u64,
}

impl HlsReport {
    /// One line per step, and the end.
    pub fn table(&self) -> String {
        let mut out = format!("{}\n", self.command);
        for step in &self.steps {
            let latency = step.latency.map_or((f64::NAN, f64::NAN), |times| (times.p50_ms, times.p99_ms));
            let first = step.first_frame.map_or(f64::NAN, |times| times.p95_ms);
            let server = step.server.unwrap_or_default();
            let _ = writeln!(
                out,
                "n={} up={} delivered={:.6} latency={:.0}/{:.0} ms first frame={first:.0} ms \
                 requests/client/s={:.1} {:.0} Mbit/s server {:.4} ms/client/s, {:.0} % generator {:.0} %",
                step.sessions,
                step.sessions_up,
                step.delivered.unwrap_or(f64::NAN),
                latency.0,
                latency.1,
                step.requests_per_client_s,
                step.bits_per_second / 1e6,
                server.cpu_ms_per_client_s,
                server.core_percent,
                step.generator_core_percent,
            );
        }
        for (reason, count) in &self.outcome.failures {
            let _ = writeln!(out, "{count} x {reason}");
        }
        let verdict = if self.outcome.ok { "every byte arrived" } else { "FAILED" };
        let _ = writeln!(out, "{verdict}; frames missing: {}", self.outcome.missing_messages);
        out
    }
}
