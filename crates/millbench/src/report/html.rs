//! The report as one HTML page: verdict, figures of each step, charts over time. Nothing is fetched.

use std::fmt::Write;

use super::chart::{Chart, Line};
use super::{Point, RunReport, StepReport, bit_rate, byte_count};

/// Renders the whole page.
pub(super) fn render(report: &RunReport) -> String {
    let verdict =
        if report.outcome.ok { ("ok", "every byte arrived") } else { ("bad", "not everything worked") };
    let title = escape(&report.command);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\
         <style>{STYLE}</style></head>\n<body><main>\n\
         <header><p class=\"brand\">millbench {}</p><h1>{title}</h1><p class=\"sub\">{} · threads: {} · {}</p>\
         <p class=\"verdict {}\">{}</p></header>\n",
        escape(&report.version),
        escape(&report.machine),
        report.threads,
        utc(report.begun_at_unix_s),
        verdict.0,
        verdict.1
    );
    page += &cards(report);
    page += &problems(report);
    page += &steps(&report.steps);
    page += &charts(report);
    page += &notes(report);
    page + "</main></body></html>\n"
}

/// The figures one looks for first, of the last step.
fn cards(report: &RunReport) -> String {
    let Some(step) = report.steps.last() else { return String::new() };
    let mut html = "<section class=\"cards\">".to_owned();
    let mut card = |value: String, unit: &str, name: &str| {
        let _ = write!(html, "<div><strong>{value}<small>{unit}</small></strong><span>{name}</span></div>");
    };
    card(step.sessions_up.to_string(), &format!(" of {}", step.sessions), "sessions up");
    let rate = bit_rate(step.media_bits_per_second);
    let (value, unit) = rate.split_once(' ').unwrap_or((&rate, ""));
    card(value.to_owned(), &format!(" {unit}"), "media");
    if let Some(latency) = step.latency {
        card(format!("{:.0}", latency.p50_ms), " ms", "latency p50");
        card(format!("{:.0}", latency.p99_ms), " ms", "latency p99");
    }
    if let Some(server) = step.server {
        card(format!("{:.3}", server.cpu_ms_per_client_s), " ms/s", "server CPU per client");
        card(format!("{:.0}", server.core_percent), " %", "server, of one core");
        card(format!("{:.1}", server.rss_kib_per_client), " KiB", "server memory per client");
    }
    if let Some(first) = report.outcome.first_frame {
        card(format!("{:.0}", first.p99_ms), " ms", "first frame p99");
    }
    card(format!("{:.0}", step.generator_core_percent), " %", "generator, of one core");
    html + "</section>\n"
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
        let ms = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.1} ms"));
        let server =
            |text: &dyn Fn(&super::ServerStep) -> String| step.server.as_ref().map_or("–".to_owned(), text);
        let _ = write!(
            html,
            "<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{:.4} ms/s<td>{:.1} /s</tr>",
            step.sessions,
            step.sessions_up,
            bit_rate(step.media_bits_per_second),
            step.delivered.map_or("unknown".to_owned(), |ratio| format!("{:.4} %", ratio * 100.0)),
            ms(step.latency.map(|latency| latency.p50_ms)),
            ms(step.latency.map(|latency| latency.p99_ms)),
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

fn charts(report: &RunReport) -> String {
    let points = &report.points;
    let seconds = points.last().map_or(0.0, |point| point.t);
    let windows: Vec<(f64, f64, String)> = report
        .steps
        .iter()
        .map(|step| (step.begun_s, step.begun_s + step.seconds, step.sessions.to_string()))
        .collect();
    let line = |name: &'static str, colour: u8, value: &dyn Fn(&Point) -> Option<f64>| Line {
        name,
        colour,
        values: points.iter().map(|point| (point.t, value(point))).collect(),
    };
    let mut html = "<section class=\"charts\">\n".to_owned();
    let mut chart = |title: &str, unit: &str, lines: Vec<Line<'_>>| {
        if lines.iter().any(|line| line.values.iter().any(|value| value.1.is_some())) {
            html += &Chart { title, unit, lines, windows: &windows, seconds }.render();
        }
    };
    let mut sessions = vec![line("up", 1, &|point| Some(point.sessions_up as f64))];
    if points.iter().any(|point| point.sessions_failed > 0) {
        sessions.push(line("failed", 3, &|point| Some(point.sessions_failed as f64)));
    }
    chart("Sessions", "", sessions);
    chart("Media", "Gbit/s", vec![line("media", 1, &|point| Some(point.media_bits_per_second / 1e9))]);
    let p50 = line("p50", 1, &|point| point.latency_ms_p50);
    chart("End-to-end latency", "ms", vec![line("p99", 2, &|point| point.latency_ms_p99), p50]);
    let generator = line("generator", 4, &|point| Some(point.generator_core_percent));
    let server = line("server", 1, &|point| point.server_core_percent);
    let has_server = report.points.iter().any(|point| point.server_core_percent.is_some());
    chart("CPU", "% of one core", if has_server { vec![generator, server] } else { vec![generator] });
    let rss = line("RSS", 1, &|point| point.server_rss_kib.map(|kib| kib as f64 / 1024.0));
    chart("Server memory (RSS)", "MiB", vec![rss]);
    let reads = line("reads", 1, &|point| Some(point.reads_per_client_s));
    chart("How finely media arrives", "reads per session and second", vec![reads]);
    html + "</section>\n"
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

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// `2026-11-21 12:34 UTC`, by the civil-from-days rule of the proleptic Gregorian calendar.
fn utc(unix_s: u64) -> String {
    let (days, seconds) = (unix_s / 86_400, unix_s % 86_400);
    // Years are counted from 0000-03-01, so that the leap day is the last of its year.
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", seconds / 3600, seconds / 60 % 60)
}

const STYLE: &str = "
:root{--bg:#f6f7f9;--card:#fff;--ink:#171b22;--dim:#667085;--rule:#e4e7ec;--c1:#1570ef;--c2:#e8730c;--c3:#d92d20;--c4:#98a2b3;--shade:#1570ef14}
@media(prefers-color-scheme:dark){:root{--bg:#0e1116;--card:#171b22;--ink:#eef1f5;--dim:#98a2b3;--rule:#2a303b;--c1:#53a2ff;--c2:#ff9f4a;--c3:#ff6b60;--c4:#667085;--shade:#53a2ff1c}}
*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.45 system-ui,sans-serif}
main{max-width:1180px;margin:0 auto;padding:32px 20px 48px}header{position:relative;margin-bottom:20px}
.brand{margin:0;color:var(--dim);font-size:13px;letter-spacing:.04em}h1{margin:2px 0;font-size:24px;overflow-wrap:anywhere}
.sub{margin:0;color:var(--dim)}.verdict{display:inline-block;margin:12px 0 0;padding:3px 12px;border-radius:99px;font-weight:600;color:#fff}
.ok{background:#12844f}.bad{background:#c4281c}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(200px,1fr));gap:12px;margin-bottom:16px}
.cards div,table,figure{background:var(--card);border:1px solid var(--rule);border-radius:10px}
.cards div{padding:12px 14px}.cards strong{display:block;font-size:26px;font-weight:650;font-variant-numeric:tabular-nums;white-space:nowrap}
.cards small{font-size:13px;font-weight:400;color:var(--dim)}.cards span{color:var(--dim);font-size:13px}
.problems{background:var(--card);border:1px solid var(--c3);border-radius:10px;padding:12px 14px 12px 32px;margin:0 0 16px}
.wide{overflow-x:auto;margin-bottom:16px}table{border-collapse:separate;border-spacing:0;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:8px 12px;text-align:right;white-space:nowrap}th{white-space:normal;vertical-align:bottom;font-size:12px;font-weight:500;color:var(--dim)}
tbody td{border-top:1px solid var(--rule)}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(460px,100%),1fr));gap:16px}
figure{margin:0;padding:12px 14px 6px}figcaption{font-weight:600}figcaption span{font-weight:400;color:var(--dim);margin-left:4px}
figcaption b{float:right;margin-left:14px;font-size:13px;font-weight:600}svg{display:block;width:100%;height:auto}
.grid{stroke:var(--rule)}.window{fill:var(--shade)}text{fill:var(--dim);font:11px system-ui,sans-serif}
.label,.tick.x{text-anchor:middle}.tick.y{text-anchor:end}.line{fill:none;stroke-width:2;stroke-linejoin:round}
.line.c1{stroke:var(--c1)}.line.c2{stroke:var(--c2)}.line.c3{stroke:var(--c3)}.line.c4{stroke:var(--c4)}
b.c1{color:var(--c1)}b.c2{color:var(--c2)}b.c3{color:var(--c3)}b.c4{color:var(--c4)}
.notes{color:var(--dim);font-size:13px;margin-top:16px;max-width:80ch}
";

#[cfg(test)]
mod tests {
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

    #[test]
    fn dates_are_civil() {
        let cases = [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_709_251_199, "2024-02-29 23:59 UTC"),
            (1_795_000_000, "2026-11-18 11:06 UTC"),
        ];
        for (unix_s, text) in cases {
            assert_eq!(utc(unix_s), text);
        }
    }
}
