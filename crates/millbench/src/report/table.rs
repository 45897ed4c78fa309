//! The human form of a report: a row per step, then the outcome in sentences.

use std::fmt::Write;

use super::{Outcome, RunReport, StepReport, bit_rate, byte_count};

/// Renders the whole report as text.
pub(super) fn render(report: &RunReport) -> String {
    let mut text = format!("{}  ({}, threads: {})\n", report.command, report.machine, report.threads);
    if let Some(sample) = &report.sample {
        let rate = bit_rate(sample.bits_per_second);
        let _ = writeln!(text, "sample: {rate}, {:.1} messages/s", sample.messages_per_second);
    }
    text.push('\n');
    text += &grid(&report.steps);
    text.push('\n');
    text += &outcome(&report.outcome);
    text += &report.observed.text();
    text
}

/// Right-aligned columns; a column without any value is left out.
fn grid(steps: &[StepReport]) -> String {
    type Cell = fn(&StepReport) -> Option<String>;
    let columns: [(&str, Cell); 14] = [
        ("sessions", |step| Some(step.sessions.to_string())),
        ("up", |step| Some(step.sessions_up.to_string())),
        ("media", |step| Some(bit_rate(step.media_bits_per_second))),
        ("delivered", |step| step.delivered.map(|ratio| format!("{ratio:.6}"))),
        ("p50 ms", |step| step.latency.map(|latency| format!("{:.1}", latency.p50_ms))),
        ("p99 ms", |step| step.latency.map(|latency| format!("{:.1}", latency.p99_ms))),
        ("stalls", |step| Some(step.stalls.to_string())),
        ("server core %", |step| step.server.map(|server| format!("{:.1}", server.core_percent))),
        ("user/sys %", |step| {
            step.server.map(|server| format!("{:.0}/{:.0}", server.user_percent, server.system_percent))
        }),
        ("server ms/client/s", |step| step.server.map(|server| format!("{:.4}", server.cpu_ms_per_client_s))),
        ("RSS kB/client", |step| step.server.map(|server| format!("{:.1}", server.rss_kib_per_client))),
        ("generator ms/client/s", |step| Some(format!("{:.4}", step.generator_cpu_ms_per_client_s))),
        ("others core %", |step| step.others_core_percent.map(|percent| format!("{percent:.0}"))),
        ("reads/client/s", |step| Some(format!("{:.1}", step.reads_per_client_s))),
    ];
    let mut rows = vec![String::new(); steps.len() + 1];
    for (title, cell) in columns {
        let cells: Vec<Option<String>> = steps.iter().map(cell).collect();
        if cells.iter().all(Option::is_none) {
            continue;
        }
        let texts: Vec<String> =
            cells.into_iter().map(|cell| cell.unwrap_or_else(|| "-".to_owned())).collect();
        let width = texts.iter().map(String::len).max().unwrap_or(0).max(title.len());
        for (row, text) in rows.iter_mut().zip(std::iter::once(title).chain(texts.iter().map(String::as_str)))
        {
            let _ = write!(row, "{text:>width$}  ");
        }
    }
    rows.iter().map(|row| format!("{}\n", row.trim_end())).collect()
}

fn outcome(outcome: &Outcome) -> String {
    let mut text = String::new();
    let mut line = |sentence: String| {
        text += &sentence;
        text.push('\n');
    };
    if let Some(first) = outcome.first_frame {
        line(format!("first frame after {:.1} ms (p50), {:.1} ms (p99)", first.p50_ms, first.p99_ms));
    }
    match outcome.expected_bytes {
        Some(expected) => line(format!(
            "received {} of {} expected by stamps",
            byte_count(outcome.received_bytes as f64),
            byte_count(expected as f64)
        )),
        None if outcome.players_unstamped > 0 => line(format!(
            "{} players got a stream without stamps: expected bytes unknown, completeness not checked",
            outcome.players_unstamped
        )),
        None => {}
    }
    if outcome.players_stalled > 0 {
        line(format!(
            "{} stalls at {} players, {:.0} ms dry on average",
            outcome.stalls, outcome.players_stalled, outcome.stalled_ms_mean
        ));
    }
    if let Some(late) = outcome.send_lateness {
        line(format!("publishing was late by {:.1} ms (p50), {:.1} ms (p99)", late.p50_ms, late.p99_ms));
    }
    if outcome.interrupted {
        line("stopped by a signal".to_owned());
    }
    for (reason, count) in &outcome.failures {
        line(format!("FAILED {count} x {reason}"));
    }
    if outcome.missing_bytes > 0 || outcome.missing_messages > 0 {
        line(format!("MISSING {} messages, {} bytes", outcome.missing_messages, outcome.missing_bytes));
    }
    if outcome.excess_bytes > 0 {
        line(format!("EXCESS {} bytes", outcome.excess_bytes));
    }
    let verdict = if outcome.ok { "OK" } else { "NOT OK" };
    line(format!("{verdict}: {} sessions succeeded, {} failed", outcome.succeeded, outcome.failed));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_empty_ones_are_left_out() {
        let step = |sessions, delivered| StepReport { sessions, delivered, ..StepReport::default() };
        let text = grid(&[step(300, Some(1.0)), step(8000, None)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[0].starts_with("sessions  up"), "{text}");
        assert!(lines[1].starts_with("     300   0"), "{text}");
        assert!(lines[2].contains("  -  "), "{text}");
        assert!(!text.contains("server core"), "{text}");
    }

    #[test]
    fn failures_are_said_once_each_with_their_number() {
        let mut bad = Outcome { failed: 3, missing_bytes: 7, ..Outcome::default() };
        bad.failures.insert("connect: Connection refused".to_owned(), 3);
        let text = outcome(&bad);
        assert!(text.contains("FAILED 3 x connect: Connection refused\n"), "{text}");
        assert!(text.contains("MISSING 0 messages, 7 bytes\n"), "{text}");
        assert!(text.contains("NOT OK: 0 sessions succeeded, 3 failed\n"), "{text}");
        assert!(outcome(&Outcome { ok: true, ..Outcome::default() }).starts_with("OK: "));
    }
}
