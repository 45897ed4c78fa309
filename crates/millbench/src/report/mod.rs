//! The result of a run, and the forms it is shown in: table, JSON, HTML.

mod chart;
mod html;
mod observed;
pub(crate) mod page;
mod table;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::stats::Percentiles;
pub use observed::{BrowserView, CoreShares, HotFunction, InterfaceRates, Observed, Seen};

/// Everything a run found out. Its JSON form is stable: fields are added, not changed.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RunReport {
    /// What ran, as one line: `rtmp play rtmp://...`.
    pub command: String,
    /// Version of the load generator.
    pub version: String,
    /// Begin of the run, seconds since the Unix epoch.
    pub begun_at_unix_s: u64,
    /// Processor, kernel and cores of this machine.
    pub machine: String,
    /// Event-loop threads.
    pub threads: usize,
    /// What was published, if this process published.
    pub sample: Option<SampleReport>,
    /// Measured steps.
    pub steps: Vec<StepReport>,
    /// Values over time.
    pub points: Vec<Point>,
    /// What else was looked at.
    #[serde(flatten)]
    pub observed: Observed,
    /// The end.
    pub outcome: Outcome,
}

/// The published sample.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SampleReport {
    /// Mean rate of audio and video payloads with stamps, bits per second.
    pub bits_per_second: f64,
    /// Audio and video messages per second.
    pub messages_per_second: f64,
    /// Whether players can check every byte.
    pub stamped: bool,
}

/// One measured step: N sessions held for a while.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StepReport {
    /// Sessions asked for.
    pub sessions: usize,
    /// Sessions up at the end of the step.
    pub sessions_up: usize,
    /// Begin of the measured time, seconds since the begin of the run.
    pub begun_s: f64,
    /// Measured time, seconds.
    pub seconds: f64,
    /// Media payload per second over all sessions, bits.
    pub media_bits_per_second: f64,
    /// Bytes that should have arrived; `None` for a stream without stamps.
    pub expected_bytes: Option<u64>,
    /// Bytes that did arrive.
    pub received_bytes: u64,
    /// `received / expected`; 1 means every byte. Sessions that are not up, or that
    /// fell behind by more than a second, count as missing.
    pub delivered: Option<f64>,
    /// End-to-end latency of live frames.
    pub latency: Option<Percentiles>,
    /// Playback stalls that began in the step.
    pub stalls: u64,
    /// The server's cost, with `--server-pid`.
    pub server: Option<ServerStep>,
    /// The generator's own CPU time per session and second, milliseconds.
    pub generator_cpu_ms_per_client_s: f64,
    /// The generator's own CPU time, percent of one core.
    pub generator_core_percent: f64,
    /// CPU time of everything else on this machine, percent of one core, with `--server-pid`. Above
    /// a few percent the other figures are disturbed: a server that gets its core late finds more
    /// to do at once.
    pub others_core_percent: Option<f64>,
    /// `read` calls per session and second: how finely the server's writes arrive.
    pub reads_per_client_s: f64,
    /// Datagrams of media that players received; none by TCP.
    pub packets: u64,
    /// The server's CPU time for each of them, microseconds.
    pub us_per_packet: Option<f64>,
}

/// What a step cost the server.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct ServerStep {
    /// CPU time per session and second, milliseconds.
    pub cpu_ms_per_client_s: f64,
    /// CPU time, percent of one core.
    pub core_percent: f64,
    /// User part of it (from ticks of 10 ms).
    pub user_percent: f64,
    /// System part of it (from ticks of 10 ms).
    pub system_percent: f64,
    /// Resident memory at the end of the step, KiB.
    pub rss_kib: u64,
    /// Growth of resident memory since before the first session, per session, KiB.
    pub rss_kib_per_client: f64,
}

/// Values at one moment of the run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Point {
    /// Time since the begin of the run, seconds.
    pub t: f64,
    /// Sessions up.
    pub sessions_up: usize,
    /// Sessions failed.
    pub sessions_failed: usize,
    /// Media payload per second since the last point, bits.
    pub media_bits_per_second: f64,
    /// Median latency since the last point, milliseconds.
    pub latency_ms_p50: Option<f64>,
    /// 99th percentile of latency since the last point, milliseconds.
    pub latency_ms_p99: Option<f64>,
    /// Server CPU since the last point, percent of one core.
    pub server_core_percent: Option<f64>,
    /// Server memory, KiB.
    pub server_rss_kib: Option<u64>,
    /// `read` calls per session and second since the last point.
    pub reads_per_client_s: f64,
    /// Own CPU since the last point, percent of one core.
    pub generator_core_percent: f64,
    /// Packets of media per second since the last point; of WebRTC only.
    pub packets_per_second: Option<f64>,
    /// Packets missing so far; of WebRTC only.
    pub lost: Option<u64>,
    /// Each core of this machine since the last point.
    pub cores: Vec<CoreShares>,
    /// The interface since the last point.
    pub interface: Option<InterfaceRates>,
}

/// How the run ended.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    /// No session failed and nothing was missing.
    pub ok: bool,
    /// Stopped by a signal before its time.
    pub interrupted: bool,
    /// Sessions that did all they should.
    pub succeeded: usize,
    /// Sessions that failed.
    pub failed: usize,
    /// Failures by reason.
    pub failures: BTreeMap<String, usize>,
    /// Bytes that should have arrived over the whole run, according to the stamps.
    pub expected_bytes: Option<u64>,
    /// Bytes of these that did arrive, plus anything too much.
    pub received_bytes: u64,
    /// Missing messages.
    pub missing_messages: u64,
    /// Missing bytes.
    pub missing_bytes: u64,
    /// Bytes that came twice or were never sent.
    pub excess_bytes: u64,
    /// Players whose stream carried no stamps: completeness not checked.
    pub players_unstamped: usize,
    /// Playback stalls.
    pub stalls: u64,
    /// Players that stalled at least once.
    pub players_stalled: usize,
    /// Mean time spent dry per player that stalled, milliseconds.
    pub stalled_ms_mean: f64,
    /// Time from connecting to the first frame.
    pub first_frame: Option<Percentiles>,
    /// How late this process sent what it published: its own health.
    pub send_lateness: Option<Percentiles>,
}

impl RunReport {
    /// The human form.
    pub fn table(&self) -> String {
        table::render(self)
    }

    /// A self-contained page with charts.
    pub fn html(&self) -> String {
        html::render(self)
    }
}

/// `4.84 Gbit/s`, with a decimal prefix that keeps three digits.
pub(crate) fn bit_rate(bits_per_second: f64) -> String {
    let (divisor, unit) = match bits_per_second {
        value if value >= 1e9 => (1e9, "Gbit/s"),
        value if value >= 1e6 => (1e6, "Mbit/s"),
        value if value >= 1e3 => (1e3, "kbit/s"),
        _ => (1.0, "bit/s"),
    };
    let value = bits_per_second / divisor;
    let decimals = if value >= 100.0 || divisor == 1.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.decimals$} {unit}")
}

/// `12 345`
pub(crate) fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// `1.46 GB`, with a decimal prefix that keeps three digits.
fn byte_count(bytes: f64) -> String {
    bit_rate(bytes).replace("bit/s", "B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_keep_three_digits() {
        let cases = [
            (0.0, "0 bit/s"),
            (999.0, "999 bit/s"),
            (605_000.0, "605 kbit/s"),
            (1_210_000_000.0, "1.21 Gbit/s"),
            (12_100_000.0, "12.1 Mbit/s"),
        ];
        for (value, text) in cases {
            assert_eq!(bit_rate(value), text);
        }
        assert_eq!(byte_count(1_460_000_000.0), "1.46 GB");
        assert_eq!(byte_count(12.0), "12 B");
    }
}
