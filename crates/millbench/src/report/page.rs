//! What the HTML reports of all protocols have in common: head, figures at a glance, charts.

use std::fmt::Write;

use super::chart::{Chart, Line};
use super::{CoreShares, HotFunction, Observed, Point, bit_rate};

/// What stands at the top.
#[derive(Debug)]
pub(crate) struct Head<'a> {
    pub(crate) title: &'a str,
    pub(crate) version: &'a str,
    /// Machine and settings.
    pub(crate) about: &'a str,
    pub(crate) begun_at_unix_s: u64,
    /// In words; an error if the run was no success.
    pub(crate) verdict: Result<&'a str, &'a str>,
}

/// Begin and end of a measured step, and what to write there.
pub(crate) type Window = (f64, f64, String);

/// The page up to its figures.
pub(crate) fn begin(head: &Head<'_>) -> String {
    let (class, verdict) = match head.verdict {
        Ok(verdict) => ("ok", verdict),
        Err(verdict) => ("bad", verdict),
    };
    let title = escape(head.title);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\
         <style>{STYLE}</style></head>\n<body><main>\n\
         <header><p class=\"brand\">millbench {}</p><h1>{title}</h1><p class=\"sub\">{} · {}</p>\
         <p class=\"verdict {class}\">{verdict}</p></header>\n",
        escape(head.version),
        escape(head.about),
        utc(head.begun_at_unix_s),
    )
}

/// The figures one looks for first.
#[derive(Debug)]
pub(crate) struct Cards(String);

impl Cards {
    pub(crate) fn new() -> Cards {
        Cards("<section class=\"cards\">".to_owned())
    }

    pub(crate) fn add(&mut self, value: &str, unit: &str, name: &str) {
        let _ =
            write!(self.0, "<div><strong>{value}<small> {unit}</small></strong><span>{name}</span></div>");
    }

    pub(crate) fn add_rate(&mut self, bits_per_second: f64, name: &str) {
        let rate = bit_rate(bits_per_second);
        let (value, unit) = rate.split_once(' ').unwrap_or((&rate, ""));
        self.add(value, unit, name);
    }

    pub(crate) fn finish(self) -> String {
        self.0 + "</section>\n"
    }
}

/// A figure of a table, or a dash.
pub(crate) fn dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "–".to_owned())
}

/// A time of a table.
pub(crate) fn milliseconds(value: Option<f64>) -> String {
    dash(value.map(|value| format!("{value:.1} ms")))
}

/// Everything over time.
pub(crate) fn charts(points: &[Point], windows: &[Window]) -> String {
    let seconds = points.last().map_or(0.0, |point| point.t);
    let line = |name: &'static str, colour: u8, value: &dyn Fn(&Point) -> Option<f64>| Line {
        name,
        colour,
        values: points.iter().map(|point| (point.t, value(point))).collect(),
    };
    let mut html = "<section class=\"charts\">\n".to_owned();
    let mut chart = |title: &str, unit: &str, mut lines: Vec<Line<'_>>| {
        lines.retain(|line| line.values.iter().any(|value| value.1.is_some()));
        if !lines.is_empty() {
            html += &Chart { title, unit, lines, windows, seconds }.render();
        }
    };
    let mut sessions = vec![line("up", 1, &|point| Some(point.sessions_up as f64))];
    if points.iter().any(|point| point.sessions_failed > 0) {
        sessions.push(line("failed", 3, &|point| Some(point.sessions_failed as f64)));
    }
    chart("Sessions", "", sessions);
    let (unit, scale) = bit_scale(points.iter().map(|point| point.media_bits_per_second));
    chart("Media", unit, vec![line("media", 1, &|point| Some(point.media_bits_per_second / scale))]);
    let packets = line("packets", 1, &|point| point.packets_per_second.map(|packets| packets / 1000.0));
    chart("Packets of media", "thousands per second", vec![packets]);
    if points.iter().any(|point| point.lost.is_some_and(|lost| lost > 0)) {
        chart("Packets missing so far", "", vec![line("missing", 3, &|point| Some(point.lost? as f64))]);
    }
    let p50 = line("p50", 1, &|point| point.latency_ms_p50);
    chart("End-to-end latency", "ms", vec![line("p99", 2, &|point| point.latency_ms_p99), p50]);
    let generator = line("generator", 4, &|point| Some(point.generator_core_percent));
    let server = line("server", 1, &|point| point.server_core_percent);
    chart("CPU", "% of one core", vec![generator, server]);
    // Of all cores together, one upon the other.
    let cores = |shares: fn(&CoreShares) -> f64| {
        move |point: &Point| {
            let count = point.cores.len() as f64;
            (count > 0.0).then(|| point.cores.iter().map(shares).sum::<f64>() / count)
        }
    };
    chart(
        "All cores",
        "% busy",
        vec![
            line("+ soft interrupts", 2, &cores(|core| core.user + core.system + core.soft)),
            line("+ system", 4, &cores(|core| core.user + core.system)),
            line("user", 1, &cores(|core| core.user)),
        ],
    );
    chart(
        "Interface",
        "thousand packets per second",
        vec![
            line("out", 2, &|point| Some(point.interface?.packets_out / 1000.0)),
            line("in", 1, &|point| Some(point.interface?.packets_in / 1000.0)),
        ],
    );
    let both = points.iter().filter_map(|point| point.interface).flat_map(|it| [it.bits_in, it.bits_out]);
    let (unit, scale) = bit_scale(both);
    chart(
        "Interface",
        unit,
        vec![
            line("out", 2, &|point| Some(point.interface?.bits_out / scale)),
            line("in", 1, &|point| Some(point.interface?.bits_in / scale)),
        ],
    );
    let rss = line("RSS", 1, &|point| point.server_rss_kib.map(|kib| kib as f64 / 1024.0));
    chart("Server memory (RSS)", "MiB", vec![rss]);
    let reads = line("reads", 1, &|point| Some(point.reads_per_client_s));
    chart("How finely media arrives", "reads per session and second", vec![reads]);
    html + "</section>\n"
}

/// The unit of rates, and how many bits per second it has.
fn bit_scale(rates: impl Iterator<Item = f64>) -> (&'static str, f64) {
    if rates.fold(0.0, f64::max) < 1e9 { ("Mbit/s", 1e6) } else { ("Gbit/s", 1e9) }
}

/// Hot functions, and what a browser saw.
pub(crate) fn observed(observed: &Observed) -> String {
    let mut html = String::new();
    if let Some(browser) = &observed.browser {
        let _ = writeln!(html, "<p class=\"browser\"><b>Browser</b> {}</p>", escape(&browser.line()));
    }
    if let Some(hot) = observed.hot_functions.as_ref().filter(|hot| !hot.is_empty()) {
        html += "<section class=\"wide\"><table class=\"hot\"><thead><tr><th>server's time<th>function<th>of</tr>\
                 </thead><tbody>";
        for HotFunction { percent, function, of } in hot {
            let (function, of) = (escape(function), escape(of));
            let _ = write!(html, "<tr><td>{percent:.1} %<td>{function}<td>{of}</tr>");
        }
        html += "</tbody></table></section>\n";
    }
    if let Some(trouble) = &observed.perf_trouble {
        let _ = writeln!(html, "<p class=\"browser\">{}</p>", escape(trouble));
    }
    html
}

/// Text that is no markup.
pub(crate) fn escape(text: &str) -> String {
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

/// The end of a page.
pub(crate) const END: &str = "</main></body></html>\n";

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
.browser{background:var(--card);border:1px solid var(--rule);border-radius:10px;padding:10px 14px;margin:16px 0}
.hot{margin-top:16px}.hot th+th,.hot td+td{text-align:left}.hot td+td{font-family:ui-monospace,monospace;font-size:13px;white-space:normal;overflow-wrap:anywhere}
.notes{color:var(--dim);font-size:13px;margin-top:16px;max-width:80ch}
";

#[cfg(test)]
mod tests {
    use super::*;

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
