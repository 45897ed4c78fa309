//! The report of WebRTC sessions as one HTML page. Nothing is fetched.

use std::fmt::Write;

use super::report::{RtcReport, RtcStep};
use crate::report::bit_rate;
use crate::report::page::{self, Cards, Head, Window, dash, escape, milliseconds};

/// Renders the whole page.
pub(super) fn render(report: &RtcReport) -> String {
    let outcome = &report.outcome;
    let profiles: Vec<String> =
        report.profiles.iter().map(|(name, count)| format!("{name} {count}")).collect();
    let mut page = page::begin(&Head {
        title: &report.command,
        version: &report.version,
        about: &format!("{} · SRTP: {}", report.machine, profiles.join(", ")),
        begun_at_unix_s: report.begun_at_unix_s,
        verdict: match (outcome.ok, outcome.lost) {
            (true, 0) => Ok("every packet arrived"),
            (true, _) => Ok("no more is missing than accepted"),
            (false, _) => Err("not everything worked"),
        },
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
fn cards(report: &RtcReport) -> String {
    let Some(step) = report.steps.last() else { return String::new() };
    let mut cards = Cards::new();
    cards.add(&step.sessions_up.to_string(), &format!("of {}", step.sessions), "sessions up");
    cards.add_rate(step.media_bits_per_second, "media");
    cards.add(
        &format!("{:.1}", step.packets as f64 / step.seconds.max(f64::MIN_POSITIVE) / 1000.0),
        "k/s",
        "packets",
    );
    cards.add(&step.lost.to_string(), "", "packets missing");
    if let Some(latency) = step.latency {
        cards.add(&format!("{:.1}", latency.p50_ms), "ms", "latency p50");
        cards.add(&format!("{:.1}", latency.p99_ms), "ms", "latency p99");
    }
    if let (Some(us), Some(server)) = (step.us_per_packet, step.server) {
        cards.add(&format!("{us:.2}"), "µs", "server CPU per packet");
        cards.add(&format!("{:.0}", server.core_percent), "%", "server, of one core");
        cards.add(&format!("{:.0}", server.rss_kib_per_client), "KiB", "server memory per client");
    }
    if let Some(first) = step.first_key {
        cards.add(&format!("{:.0}", first.p99_ms), "ms", "first key frame p99");
    }
    cards.add(&format!("{:.0}", step.generator_core_percent), "%", "generator, of one core");
    cards.finish()
}

fn problems(report: &RtcReport) -> String {
    let outcome = &report.outcome;
    let mut items = String::new();
    for (reason, count) in &outcome.failures {
        let _ = write!(items, "<li><b>{count}</b> × {}</li>", escape(reason));
    }
    let packets = [
        (outcome.lost, "missing in the end"),
        (outcome.not_authentic, "not authentic"),
        (outcome.unknown, "of an unknown kind"),
        (outcome.not_sent, "not sent"),
    ];
    for (count, what) in packets.into_iter().filter(|(count, _)| *count > 0) {
        let _ = write!(items, "<li><b>{count}</b> packets {what}</li>");
    }
    if items.is_empty() { items } else { format!("<ul class=\"problems\">{items}</ul>\n") }
}

fn steps(steps: &[RtcStep]) -> String {
    let mut html = "<section class=\"wide\"><table><thead><tr><th>sessions<th>up<th>media<th>packets<th>missing\
                    <th>repaired<th>latency p50<th>p99<th>jitter p99<th>first key frame p99<th>server CPU per packet\
                    <th>user / sys<th>memory per client<th>generator</tr></thead><tbody>"
        .to_owned();
    for step in steps {
        let server = step.server.as_ref();
        let _ = write!(
            html,
            "<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{:.0} %</tr>",
            step.sessions,
            step.sessions_up,
            bit_rate(step.media_bits_per_second),
            step.packets,
            step.lost,
            step.repaired,
            milliseconds(step.latency.map(|latency| latency.p50_ms)),
            milliseconds(step.latency.map(|latency| latency.p99_ms)),
            milliseconds(step.jitter.map(|jitter| jitter.p99_ms)),
            milliseconds(step.first_key.map(|first| first.p99_ms)),
            dash(step.us_per_packet.map(|us| format!("{us:.2} µs"))),
            dash(server.map(|server| format!("{:.0} / {:.0} %", server.user_percent, server.system_percent))),
            dash(server.map(|server| format!("{:.0} KiB", server.rss_kib_per_client))),
            step.generator_core_percent,
        );
    }
    html + "</tbody></table></section>\n"
}

/// What the figures mean, in a few lines.
fn notes(report: &RtcReport) -> String {
    let decrypted = match report.decrypted_one_in {
        0 => "no packet after the first key frame".to_owned(),
        1 => "every packet".to_owned(),
        n => format!("one packet in {n}"),
    };
    format!(
        "<section class=\"notes\"><p>Viewers decrypted {decrypted}. Shaded spans are the measured steps. Latency is \
         from the publisher's send call to the arrival in the viewer's socket, of packets with a send time. Packets are \
         missing by sequence number, or by the publisher's marks where a server has renumbered; media is counted as RTP \
         packets.</p></section>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Point;

    #[test]
    fn the_page_fetches_nothing_and_escapes_what_it_is_given() {
        let mut report = RtcReport { command: "rtc play <script>".to_owned(), ..RtcReport::default() };
        report.outcome.failures.insert("the server answered 503: <b>&".to_owned(), 2);
        report.points.push(Point { t: 1.0, sessions_up: 3, ..Point::default() });
        report.steps.push(RtcStep { sessions: 3, lost: 7, ..RtcStep::default() });
        let page = render(&report);
        assert!(page.contains("rtc play &lt;script&gt;") && page.contains("&lt;b&gt;&amp;"));
        for fetched in ["<script", "src=", "href=", "url(", "@import", "http:"] {
            assert!(!page.contains(fetched), "{fetched}");
        }
        assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
    }
}
