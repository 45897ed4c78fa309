//! The report as one HTML page: verdict, figures of each step, charts over time. Nothing is fetched.

use std::fmt::Write;

use super::page::{self, Cards, Head, Window, dash, escape, milliseconds};
use super::{RunReport, StepReport, bit_rate, byte_count};

/// Renders the whole page.
pub(super) fn render(report: &RunReport) -> String {
    let outcome = &report.outcome;
    let mut page = page::begin(&Head {
        title: &report.command,
        version: &report.version,
        about: &format!("{} · threads: {}", report.machine, report.threads),
        begun_at_unix_s: report.begun_at_unix_s,
        verdict: if outcome.ok { Ok("every byte arrived") } else { Err("not everything worked") },
    });
    page += &cards(report);
    page += &problems(report);
    page += &steps(&report.steps);
    let windows: Vec<Window> = report
        .steps
        .iter()
        .map(|step| (step.begun_s, step.begun_s + step.seconds, step.sessions.to_string()))
        .collect();
    page += &page::charts(&report.points, &windows);
    page += &page::observed(&report.observed);
    page += &notes(report);
    page + page::END
}

/// The figures one looks for first, of the last step.
fn cards(report: &RunReport) -> String {
    let Some(step) = report.steps.last() else { return String::new() };
    let mut cards = Cards::new();
    cards.add(&step.sessions_up.to_string(), &format!("of {}", step.sessions), "sessions up");
    cards.add_rate(step.media_bits_per_second, "media");
    if let Some(latency) = step.latency {
        cards.add(&format!("{:.0}", latency.p50_ms), "ms", "latency p50");
        cards.add(&format!("{:.0}", latency.p99_ms), "ms", "latency p99");
    }
    if let Some(server) = step.server {
        cards.add(&format!("{:.3}", server.cpu_ms_per_client_s), "ms/s", "server CPU per client");
        cards.add(&format!("{:.0}", server.core_percent), "%", "server, of one core");
        cards.add(&format!("{:.1}", server.rss_kib_per_client), "KiB", "server memory per client");
    }
    if let Some(first) = report.outcome.first_frame {
        cards.add(&format!("{:.0}", first.p99_ms), "ms", "first frame p99");
    }
    cards.add(&format!("{:.0}", step.generator_core_percent), "%", "generator, of one core");
    cards.finish()
}

fn problems(report: &RunReport) -> String {
    let outcome = &report.outcome;
    let mut items = String::new();
    for (reason, count) in &outcome.failures {
        let _ = write!(items, "<li><b>{count}</b> × {}</li>", escape(reason));
    }
    if outcome.missing_bytes > 0 || outcome.missing_messages > 0 {
        let (messages, bytes) = (outcome.missing_messages, outcome.missing_bytes);
        let _ = write!(items, "<li>missing: <b>{messages}</b> messages, <b>{bytes}</b> bytes</li>");
    }
    if outcome.excess_bytes > 0 {
        let _ = write!(items, "<li>too much: <b>{}</b> bytes</li>", outcome.excess_bytes);
    }
    if items.is_empty() { items } else { format!("<ul class=\"problems\">{items}</ul>\n") }
}

fn steps(steps: &[StepReport]) -> String {
    let mut html = "<section class=\"wide\"><table><thead><tr><th>sessions<th>up<th>media<th>delivered\
                    <th>latency p50<th>p99<th>stalls<th>server CPU per client<th>user / sys\
                    <th>memory per client<th>generator CPU per client<th>reads per client</tr></thead><tbody>"
        .to_owned();
    for step in steps {
        let server = |text: &dyn Fn(&super::ServerStep) -> String| dash(step.server.as_ref().map(text));
        let _ = write!(
            html,
            "<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{:.4} ms/s<td>{:.1} /s</tr>",
            step.sessions,
            step.sessions_up,
            bit_rate(step.media_bits_per_second),
            step.delivered.map_or("unknown".to_owned(), |ratio| format!("{:.4} %", ratio * 100.0)),
            milliseconds(step.latency.map(|latency| latency.p50_ms)),
            milliseconds(step.latency.map(|latency| latency.p99_ms)),
            step.stalls,
            server(&|server| format!("{:.4} ms/s", server.cpu_ms_per_client_s)),
            server(&|server| format!("{:.0} / {:.0} %", server.user_percent, server.system_percent)),
            server(&|server| format!("{:.1} KiB", server.rss_kib_per_client)),
            step.generator_cpu_ms_per_client_s,
            step.reads_per_client_s,
        );
    }
    html + "</tbody></table></section>\n"
}

/// What the figures mean, in a few lines.
fn notes(report: &RunReport) -> String {
    let outcome = &report.outcome;
    let mut html = "<section class=\"notes\"><p>".to_owned();
    match outcome.expected_bytes {
        Some(expected) => {
            let (received, expected) =
                (byte_count(outcome.received_bytes as f64), byte_count(expected as f64));
            let _ = write!(
                html,
                "Over the whole run {received} of {expected} arrived, checked per session by stamps in the stream. "
            );
        }
        None if outcome.players_unstamped > 0 => {
            html += "The stream carries no stamps: expected bytes are unknown and latency is not measured. ";
        }
        None => {}
    }
    if outcome.players_stalled > 0 {
        let _ = write!(
            html,
            "{} players stalled, {} times, {:.0} ms dry on average. ",
            outcome.players_stalled, outcome.stalls, outcome.stalled_ms_mean
        );
    }
    html + "Shaded spans are the measured steps. Latency is from the publisher's socket to the player's, of frames \
            sent after the player had joined. CPU per client is user and system time of the process divided by \
            sessions and seconds.</p></section>\n"
}

#[cfg(test)]
mod tests {
    use super::super::Point;
    use super::*;

    #[test]
    fn the_page_fetches_nothing_and_escapes_what_it_is_given() {
        let mut report = RunReport { command: "rtmp play <script>".to_owned(), ..RunReport::default() };
        report.outcome.failures.insert("the server refused: <b>&".to_owned(), 2);
        report.points.push(Point { t: 1.0, sessions_up: 3, ..Point::default() });
        report.steps.push(StepReport { sessions: 3, ..StepReport::default() });
        let page = render(&report);
        assert!(page.contains("rtmp play &lt;script&gt;") && page.contains("&lt;b&gt;&amp;"));
        for fetched in ["<script", "src=", "href=", "url(", "@import", "http:"] {
            assert!(!page.contains(fetched), "{fetched}");
        }
    }
}
