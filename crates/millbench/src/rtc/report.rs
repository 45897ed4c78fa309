//! What a run of WebRTC sessions found out, as JSON and as text.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use super::delays::DelaysByKind;
use super::html;
use super::track::Counts;
use crate::report::{Observed, Point, ServerStep};
use crate::stats::Percentiles;

/// Everything a run found out. Fields are added, not changed.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RtcReport {
    /// What ran, as one line.
    pub command: String,
    /// Version of the load generator.
    pub version: String,
    /// Processor, kernel and cores of this machine.
    pub machine: String,
    /// One packet in as many was decrypted; 0 for none.
    pub decrypted_one_in: u32,
    /// Kinds of offers that viewers made: payload types and ids of header extensions. `None` without viewers.
    pub shapes: Option<usize>,
    /// SRTP profiles that sessions agreed on, and how many did.
    pub profiles: BTreeMap<String, usize>,
    /// Where latency ends: `kernel` (arrival) or `program` (when it looked).
    pub arrival_times: &'static str,
    /// Begin of the run, seconds since the Unix epoch.
    pub begun_at_unix_s: u64,
    /// Measured steps.
    pub steps: Vec<RtcStep>,
    /// Values over time.
    pub points: Vec<Point>,
    /// What else was looked at.
    #[serde(flatten)]
    pub observed: Observed,
    /// The end.
    pub outcome: RtcOutcome,
}

/// One measured step: N sessions held for a while.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RtcStep {
    /// Sessions asked for.
    pub sessions: usize,
    /// Sessions up at the end of the step.
    pub sessions_up: usize,
    /// Publishers up at the end of the step.
    pub publishers_up: usize,
    /// Begin of the measured time, seconds since the begin of the run.
    pub begun_s: f64,
    /// Measured time, seconds.
    pub seconds: f64,
    /// Packets of media that viewers received, or that publishers sent when only they are counted.
    pub packets: u64,
    /// Bits of these packets per second.
    pub media_bits_per_second: f64,
    /// The server's CPU time per such packet, microseconds, with `--server-pid`.
    pub us_per_packet: Option<f64>,
    /// Packets of media received, of all that the publishers sent in that time to as many viewers.
    /// Of RTMP publishers: whole frames and audio packets of 20 ms.
    pub delivered: Option<f64>,
    /// Sequence numbers that viewers should have got.
    pub expected: u64,
    /// Packets that are missing, by sequence number or by mark.
    pub lost: u64,
    /// Lost audio packets, which are not requested again unless configured.
    pub lost_audio: u64,
    /// Those of them that are video.
    pub lost_video: u64,
    /// Those of them that were numbered away by the server.
    pub hidden: u64,
    /// Packets skipped for viewers that were still catching up, before a key frame. Not among
    /// `lost`.
    pub skipped: u64,
    /// Pictures whose last packet came.
    pub frames: u64,
    /// Packets that came twice.
    pub duplicates: u64,
    /// Packets that came after later ones.
    pub reordered: u64,
    /// Packets that came because they were asked for.
    pub repaired: u64,
    /// From the publisher's send call to the arrival at a viewer.
    pub latency: Option<Percentiles>,
    /// The same by kind of media.
    pub delays: DelaysByKind,
    /// From the time an audio frame was published by RTMP to the arrival of the packet that begins with it.
    pub audio_latency: Option<Percentiles>,
    /// Interarrival jitter (RFC 3550) of each received track.
    pub jitter: Option<Percentiles>,
    /// The longest time without a packet of media of each viewer.
    pub longest_pause: Option<Percentiles>,
    /// From the begin of a viewer to its first whole key frame, for those started in this step.
    pub first_key: Option<Percentiles>,
    /// From the begin of a publisher to its keys, for those started in this step.
    pub connected: Option<Percentiles>,
    /// How late this program sent what publishers had to send.
    pub send_lateness: Option<Percentiles>,
    /// Sequence numbers that viewers asked for again.
    pub nacks_sent: u64,
    /// Sequence numbers that publishers were asked for.
    pub nacks_received: u64,
    /// Packets that publishers sent again.
    pub nacks_answered: u64,
    /// Key frames that viewers asked for.
    pub plis_sent: u64,
    /// Key frames that publishers were asked for.
    pub plis_received: u64,
    /// Reports of arrivals that viewers sent.
    pub transport_reports_sent: u64,
    /// The server's cost, with `--server-pid`.
    pub server: Option<ServerStep>,
    /// This program's CPU time, percent of one core.
    pub generator_core_percent: f64,
    /// CPU time of everything else on this machine, percent of one core, with `--server-pid`.
    pub others_core_percent: Option<f64>,
    /// Calls that received something, per session and second.
    pub reads_per_client_s: f64,
}

/// How the run ended.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RtcOutcome {
    /// No session failed, nothing was missing, nothing was wrong.
    pub ok: bool,
    /// Stopped by a signal before its time.
    pub interrupted: bool,
    /// Sessions that did all they should.
    pub succeeded: usize,
    /// Sessions that failed.
    pub failed: usize,
    /// Failures by reason.
    pub failures: BTreeMap<String, usize>,
    /// Packets of all viewers over the whole run.
    pub expected: u64,
    /// Packets missing in the end.
    pub lost: u64,
    /// Packets decrypted.
    pub decrypted: u64,
    /// Packets that were not authentic.
    pub not_authentic: u64,
    /// Packets the replay window refused.
    pub replayed: u64,
    /// Packets of an unknown kind or payload type.
    pub unknown: u64,
    /// Media before there were keys, or from another address.
    pub early: u64,
    /// Datagrams that could not be sent.
    pub not_sent: u64,
    /// Datagrams that `--loss` took away, both directions.
    pub taken_away: u64,
    /// Sender reports that viewers got.
    pub sender_reports: u64,
    /// Receiver reports that publishers got.
    pub receiver_reports: u64,
    /// Reports on transport-wide congestion control that publishers got.
    pub transport_feedback: u64,
}

impl RtcStep {
    /// Takes over what tracks counted.
    pub fn set_counts(&mut self, counts: &Counts) {
        self.expected = counts.expected;
        self.lost = counts.lost();
        self.hidden = counts.hidden;
        self.skipped = counts.skipped;
        self.frames = counts.frames;
        self.duplicates = counts.duplicates;
        self.reordered = counts.reordered;
        self.repaired = counts.repaired;
    }
}

impl RtcReport {
    /// The human form.
    pub fn table(&self) -> String {
        let mut text = format!("{}\n{}\n", self.command, self.machine);
        let profiles: Vec<String> =
            self.profiles.iter().map(|(name, count)| format!("{name} {count}")).collect();
        let one_in = match self.decrypted_one_in {
            0 => "none after the first key frame".to_owned(),
            1 => "all".to_owned(),
            n => format!("one in {n}"),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "decrypted: {one_in}; SRTP: {}; arrival times: {}",
            if profiles.is_empty() { "none".to_owned() } else { profiles.join(", ") },
            self.arrival_times
        );
        if let Some(shapes) = self.shapes {
            let _ = writeln!(text, "header shapes of the viewers: {shapes}");
        }
        for step in &self.steps {
            text.push_str(&step.text());
        }
        text.push_str(&self.outcome.text());
        text.push_str(&self.observed.text());
        text
    }

    /// A self-contained page with charts.
    pub fn html(&self) -> String {
        html::render(self)
    }
}

impl RtcStep {
    fn text(&self) -> String {
        let mut text = format!(
            "\nn={} up={} ({:.1} s): {} packets, lost {} (audio {}, video {}, hidden {}), twice {}, late {}, repaired {}\n",
            self.sessions,
            self.sessions_up,
            self.seconds,
            self.packets,
            self.lost,
            self.lost_audio,
            self.lost_video,
            self.hidden,
            self.duplicates,
            self.reordered,
            self.repaired
        );
        if let (Some(server), Some(us)) = (&self.server, self.us_per_packet) {
            let _ = writeln!(
                text,
                "  server: {us:.2} us/packet, {:.4} ms/client/s, core {:.0} % ({:.0} user), {:.0} KiB/client",
                server.cpu_ms_per_client_s,
                server.core_percent,
                server.user_percent,
                server.rss_kib_per_client
            );
        }
        let times = [
            ("latency", &self.latency),
            ("  of audio", &self.delays.audio),
            ("  of video but key frames", &self.delays.video),
            ("  of key frames", &self.delays.key),
            ("  of whole key frames to the last viewer", &self.delays.key_complete),
            ("audio latency", &self.audio_latency),
            ("jitter", &self.jitter),
            ("longest pause of each viewer", &self.longest_pause),
            ("first key frame", &self.first_key),
            ("publisher connected", &self.connected),
            ("sent late", &self.send_lateness),
        ];
        for (name, times) in times {
            let Some(times) = times else { continue };
            let _ = writeln!(
                text,
                "  {name}: p50 {:.2} ms, p95 {:.2} ms, p99 {:.2} ms, max {:.1} ms ({})",
                times.p50_ms, times.p95_ms, times.p99_ms, times.max_ms, times.count
            );
        }
        let _ = writeln!(
            text,
            "  nacks: sent {}, received {}, answered {}; key frames asked: {} by viewers, {} of publishers; generator {:.0} %",
            self.nacks_sent,
            self.nacks_received,
            self.nacks_answered,
            self.plis_sent,
            self.plis_received,
            self.generator_core_percent
        );
        text
    }
}

impl RtcOutcome {
    fn text(&self) -> String {
        let mut text = format!(
            "\n{}: {} {} worked, {} failed; {} of {} packets missing\n",
            if self.ok { "ok" } else { "FAILED" },
            self.succeeded,
            if self.succeeded == 1 { "session" } else { "sessions" },
            self.failed,
            self.lost,
            self.expected
        );
        for (reason, count) in &self.failures {
            let _ = writeln!(text, "  {count} x {reason}");
        }
        let wrong = [
            ("not authentic", self.not_authentic),
            ("of unknown kind", self.unknown),
            ("before keys or from elsewhere", self.early),
            ("refused by the replay window", self.replayed),
            ("not sent", self.not_sent),
            ("taken away by --loss", self.taken_away),
        ];
        for (what, count) in wrong {
            if count > 0 {
                let _ = writeln!(text, "  {count} packets {what}");
            }
        }
        text
    }
}
