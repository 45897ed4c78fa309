//! The selected row: curves of what it did in the last two minutes, or a line about a node or link.

use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::widgets::{Sparkline, Widget};

use super::pen::{Pen, line};
use crate::app::{App, Focus};
use crate::cluster::Link;
use crate::columns::{protocol_of, role_of, stream_of};
use crate::format;
use crate::history::{Curves, SAMPLES};

/// Lines it takes: a title, figures, and two of curves.
pub(super) const LINES: u16 = 4;
/// Lines of the cluster's selected row.
pub(super) const CLUSTER_LINES: u16 = 2;
/// Least width of a curve; fewer are shown when there is no room.
const CURVE_MIN: u16 = 26;

/// One curve.
struct Curve {
    name: &'static str,
    /// Which figure of the history it is.
    of: usize,
    text: fn(f32) -> String,
}

/// Of a session whose receiver reports.
const REPORTED: [Curve; 3] = [
    Curve { name: "rate", of: 0, text: rate },
    Curve { name: "loss", of: 1, text: |value| with_unit(value, "%") },
    Curve { name: "round trip", of: 2, text: |value| with_unit(value, "ms") },
];
/// Of other sessions.
const SESSION: [Curve; 2] = [
    Curve { name: "rate", of: 0, text: rate },
    Curve { name: "queue", of: 3, text: |value| with_unit(value, "ms") },
];
const STREAM: [Curve; 3] = [
    Curve { name: "out", of: 0, text: rate },
    Curve { name: "in", of: 1, text: rate },
    Curve { name: "players", of: 2, text: |value| format::grouped(value as u64) },
];

/// Draws curves of the selected row of the table in focus.
pub(super) fn draw(pen: &mut Pen<'_>, area: Rect, app: &App) {
    if area.is_empty() {
        return;
    }
    let (title, curves, of) = match app.focus {
        Focus::Sessions => session(app),
        _ => stream(app),
    };
    pen.title(line(area, 0), &title, false);
    let Some(curves) = curves else { return };
    let count = usize::from(area.width / CURVE_MIN).clamp(1, of.len());
    let areas = Layout::horizontal(vec![Constraint::Fill(1); count]).spacing(1).split(Rect {
        y: area.y + 1,
        height: area.height - 1,
        ..area
    });
    for (area, curve) in areas.iter().zip(of) {
        draw_curve(pen, *area, curves, curve);
    }
}

/// Draws what is known of the selected node or link besides its figures.
pub(super) fn draw_cluster(pen: &mut Pen<'_>, area: Rect, app: &App) {
    let (title, text) = match app.focus {
        Focus::Nodes => app.nodes.selected_row().map(|row| {
            let node = &app.cluster.nodes[row];
            (format!("Node {}", node.name), format!("other nodes reach it at {}", node.relay_tcp))
        }),
        _ => app.links.selected_row().map(|row| {
            let link = &app.cluster.links[row];
            let problem = link.last_problem.as_deref().unwrap_or("nothing has gone wrong");
            (format!("Link to {}", link.node), format!("{} for {}: {problem}", link.state, age(link)))
        }),
    }
    .unwrap_or_default();
    pen.title(line(area, 0), &title, false);
    pen.left(line(area, 1), &text, Style::new());
}

fn age(link: &Link) -> String {
    format::duration_ms(link.state_seconds.saturating_mul(1000))
}

fn session(app: &App) -> (String, Option<&Curves>, &'static [Curve]) {
    let message = &app.message;
    let Some(row) = app.sessions.selected_row() else { return ("No session".to_owned(), None, &SESSION) };
    let (worker, serial) = (message.sessions.worker[row], message.sessions.serial[row]);
    let what = match stream_of(message, row) {
        Some(stream) => format!("{} of {stream}", role_of(message, row)),
        None => role_of(message, row).to_owned(),
    };
    let title = format!(
        "Session {worker}-{serial}, {what} by {}, {} old, {} packets, {} lost",
        protocol_of(message, row),
        format::duration_ms(message.sessions.connected_ms[row]),
        format::scaled(message.sessions.packets[row]),
        format::scaled(message.sessions.lost_packets[row]),
    );
    let reported = message.sessions.loss_percent[row].is_finite() || message.sessions.rtt_ms[row].is_finite();
    let of: &[Curve] = if reported { &REPORTED } else { &SESSION };
    (title, app.history.session(worker, serial), of)
}

fn stream(app: &App) -> (String, Option<&Curves>, &'static [Curve]) {
    let Some(row) = app.streams.selected_row() else { return ("No stream".to_owned(), None, &STREAM) };
    let name = &app.message.streams.name[row];
    (format!("Stream {name}"), app.history.stream(name), &STREAM)
}

fn draw_curve(pen: &mut Pen<'_>, area: Rect, curves: &Curves, curve: &Curve) {
    let values = curves.last(curve.of, usize::from(area.width).min(SAMPLES));
    let known = || values.iter().copied().filter(|value| value.is_finite());
    let newest = values.last().copied().unwrap_or(f32::NAN);
    let most = known().fold(0.0, f32::max);
    let newest = format!("{} {}", curve.name, (curve.text)(newest));
    let largest =
        if known().next().is_some() { format!(", max {}", (curve.text)(most)) } else { String::new() };
    let bold = Style::new().add_modifier(Modifier::BOLD);
    pen.whole_pieces(line(area, 0), &[(&newest, bold), (&largest, Style::new())]);
    // The newest at the right edge.
    let missing = usize::from(area.width) - values.len();
    let bars = values.iter().map(|value| value.is_finite().then(|| thousandths(*value)));
    let bars: Vec<Option<u64>> = std::iter::repeat_n(None, missing).chain(bars).collect();
    Sparkline::default()
        .data(bars)
        .max(thousandths(most).max(1))
        .bar_set(pen.theme.bars())
        .absent_value_symbol(" ")
        .style(pen.theme.curve())
        .render(Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area }, pen.buffer);
}

/// Bars are whole numbers; figures may be smaller than 1.
fn thousandths(value: f32) -> u64 {
    (value.max(0.0) * 1000.0) as u64
}

fn rate(value: f32) -> String {
    format::bits_per_second(value.max(0.0) as u64)
}

fn with_unit(value: f32, unit: &str) -> String {
    if value.is_finite() { format!("{} {unit}", format::real(value)) } else { format::UNKNOWN.to_owned() }
}
