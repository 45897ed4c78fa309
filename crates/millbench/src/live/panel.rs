//! The text of the live view: one picture of the run, as lines of a terminal.
//!
//! Bars show user time, system time and soft interrupts in three shades, which differ without
//! colours too.

use console::Style;

use crate::report::{BrowserView, CoreShares, HotFunction, InterfaceRates, Point, bit_rate, thousands};

/// What is shown.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    pub(super) command: String,
    /// What the run does at present.
    pub(super) stage: String,
    /// Sessions it is to hold.
    pub(super) goal: usize,
    pub(super) interface: Option<String>,
    pub(super) point: Point,
    pub(super) hot: Option<Result<Vec<HotFunction>, String>>,
    pub(super) browser: Option<BrowserView>,
}

/// The lines of a view, not longer than `width`, at most `height` of them.
pub(super) fn lines(view: &View, width: usize, height: usize) -> Vec<String> {
    let View { point, .. } = view;
    let seconds = point.t as u64;
    let clock = format!("{:02}:{:02}", seconds / 60, seconds % 60);
    let mut lines = vec![format!("{}  {}", bold(&view.command), dim(&clock))];
    let mut row = |name: &str, text: String| lines.push(format!(" {} {text}", dim(&format!("{name:<9}"))));
    row("sessions", sessions(view));
    row("media", media(point));
    if let (Some(p50), Some(p99)) = (point.latency_ms_p50, point.latency_ms_p99) {
        row("latency", format!("p50 {p50:.2} ms   p99 {p99:.2} ms"));
    }
    row("processes", processes(point));
    if let (Some(name), Some(rates)) = (&view.interface, &point.interface) {
        row(name, interface(rates));
    }
    cores(&point.cores, width, height, &mut row);
    if let Some(browser) = &view.browser {
        row("browser", browser.line());
    }
    match &view.hot {
        None => {}
        Some(Err(reason)) => row("perf", reason.clone()),
        Some(Ok(hot)) if hot.is_empty() => row("perf", "the server did not run".to_owned()),
        Some(Ok(hot)) => {
            for (index, function) in hot.iter().take(HOT_LINES).enumerate() {
                let HotFunction { percent, function, of } = function;
                let name = if index == 0 { "perf" } else { "" };
                row(name, format!("{percent:5.1} %  {} {function}", dim(&format!("{of:<12}"))));
            }
        }
    }
    lines.truncate(height.max(1));
    lines.iter().map(|line| console::truncate_str(line, width, "…").into_owned()).collect()
}

fn sessions(view: &View) -> String {
    let Point { sessions_up, sessions_failed, .. } = view.point;
    let failed = match sessions_failed {
        0 => String::new(),
        count => format!("   {}", Style::new().for_stderr().red().bold().apply_to(format!("{count} failed"))),
    };
    format!("{sessions_up} of {} up{failed}   {}", view.goal, dim(&view.stage))
}

fn media(point: &Point) -> String {
    let mut text = bit_rate(point.media_bits_per_second);
    if let Some(packets) = point.packets_per_second {
        text += &format!("   {} packets/s", thousands(packets));
    }
    match point.lost {
        Some(0) => text += "   none missing",
        Some(lost) => {
            text += &format!("   {}", Style::new().for_stderr().red().apply_to(format!("{lost} missing")));
        }
        None => {}
    }
    text
}

fn processes(point: &Point) -> String {
    let server = match (point.server_core_percent, point.server_rss_kib) {
        (Some(percent), Some(kib)) => {
            format!("server {percent:.0} % of a core, {:.0} MiB   ", kib as f64 / 1024.0)
        }
        _ => String::new(),
    };
    format!("{server}generator {:.0} %", point.generator_core_percent)
}

fn interface(rates: &InterfaceRates) -> String {
    let one = |packets: f64, bits: f64| format!("{} packets/s {}", thousands(packets), bit_rate(bits));
    format!("in {}   out {}", one(rates.packets_in, rates.bits_in), one(rates.packets_out, rates.bits_out))
}

/// A row for each core, or where there are more than fit, for the busiest.
fn cores(cores: &[CoreShares], width: usize, height: usize, row: &mut impl FnMut(&str, String)) {
    let room = height.saturating_sub(OTHER_LINES).max(2);
    let mut shown: Vec<(usize, &CoreShares)> = cores.iter().enumerate().collect();
    let busy = |core: &CoreShares| core.user + core.system + core.soft;
    if shown.len() > room {
        shown.sort_by(|(_, a), (_, b)| busy(b).total_cmp(&busy(a)));
        shown.truncate(room);
        shown.sort_by_key(|(index, _)| *index);
    }
    let cells = width.saturating_sub(56).clamp(10, 40);
    for (index, core) in &shown {
        let CoreShares { user, system, soft } = core;
        let figures = format!("user {user:3.0} %  system {system:3.0} %  soft {soft:3.0} %");
        row(&format!("core {index}"), format!("{}  {figures}", bar(core, cells)));
    }
    if shown.len() < cores.len() {
        row("", dim(&format!("and {} cores that do less", cores.len() - shown.len())));
    }
}

/// A bar of `cells`: each kind of time ends where the sum up to it does.
fn bar(core: &CoreShares, cells: usize) -> String {
    let ends = [core.user, core.user + core.system, core.user + core.system + core.soft];
    let [user, system, soft] =
        ends.map(|percent| ((percent / 100.0 * cells as f64).round() as usize).min(cells));
    let style = || Style::new().for_stderr();
    format!(
        "{}{}{}{}",
        style().cyan().apply_to("█".repeat(user)),
        style().yellow().apply_to("▓".repeat(system - user)),
        style().magenta().apply_to("▒".repeat(soft - system)),
        dim(&"·".repeat(cells - soft))
    )
}

fn dim(text: &str) -> String {
    Style::new().for_stderr().dim().apply_to(text).to_string()
}

fn bold(text: &str) -> String {
    Style::new().for_stderr().bold().apply_to(text).to_string()
}

/// Lines that are not of cores, with some to spare for what was printed before.
const OTHER_LINES: usize = 16;
const HOT_LINES: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> View {
        View {
            command: "rtc play http://h/whep/live/a".to_owned(),
            stage: "measuring".to_owned(),
            goal: 500,
            interface: Some("lo".to_owned()),
            point: Point {
                t: 83.4,
                sessions_up: 500,
                media_bits_per_second: 302.5e6,
                packets_per_second: Some(60_500.0),
                lost: Some(0),
                latency_ms_p50: Some(0.314),
                latency_ms_p99: Some(2.1),
                server_core_percent: Some(61.4),
                server_rss_kib: Some(84 * 1024),
                cores: vec![
                    CoreShares { user: 50.0, system: 25.0, soft: 25.0 },
                    CoreShares { user: 10.0, ..CoreShares::default() },
                ],
                interface: Some(InterfaceRates {
                    packets_in: 1e6,
                    bits_in: 1e9,
                    ..InterfaceRates::default()
                }),
                ..Point::default()
            },
            hot: None,
            browser: None,
        }
    }

    fn text(view: &View, width: usize, height: usize) -> String {
        console::strip_ansi_codes(&lines(view, width, height).join("\n")).into_owned()
    }

    #[test]
    fn every_figure_has_its_line() {
        let hot = HotFunction { percent: 12.34, function: "encrypt".to_owned(), of: "millstream".to_owned() };
        let text = text(&View { hot: Some(Ok(vec![hot])), ..view() }, 100, 40);
        for line in [
            "rtc play http://h/whep/live/a  01:23",
            " sessions  500 of 500 up   measuring",
            " media     302 Mbit/s   60 500 packets/s   none missing",
            " latency   p50 0.31 ms   p99 2.10 ms",
            " processes server 61 % of a core, 84 MiB   generator 0 %",
            " lo        in 1 000 000 packets/s 1.00 Gbit/s   out 0 packets/s 0 bit/s",
            " perf       12.3 %  millstream   encrypt",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}\nis not in\n{text}");
        }
    }

    #[test]
    fn bars_are_as_long_as_a_core_is_busy() {
        let text = text(&view(), 76, 40);
        let bars: Vec<&str> = text.lines().filter(|line| line.starts_with(" core")).collect();
        assert!(bars[0].contains("core 0    ██████████▓▓▓▓▓▒▒▒▒▒  user  50 %"), "{text}");
        assert!(bars[1].contains("core 1    ██··················  user  10 %"), "{text}");
    }

    #[test]
    fn small_terminals_get_less_and_no_line_is_wrapped() {
        let cores = vec![CoreShares::default(); 96];
        let many = View { point: Point { cores, ..view().point }, ..view() };
        for (width, height) in [(200, 60), (80, 24), (40, 10), (20, 3)] {
            let lines = lines(&many, width, height);
            assert!(lines.len() <= height, "{width} x {height}");
            assert!(lines.iter().all(|line| console::measure_text_width(line) <= width), "{lines:#?}");
        }
        assert!(text(&many, 80, 24).contains("and 88 cores that do less"), "{}", text(&many, 80, 24));
    }
}
