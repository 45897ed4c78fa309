//! The first lines: server, connection, totals, and the load of each worker.

use std::time::Instant;

use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::pen::{Pen, after, line, width};
use crate::app::{App, Link};
use crate::columns::Level;
use crate::format;
use stats::message::{ROLE_PLAYER, ROLE_PUBLISHER, StatsMessage, Workers};

/// Maximum lines for workers, and the share of the screen's height they may take.
const WORKER_LINES_MAX: u16 = 8;
const WORKER_LINES_SHARE: u16 = 5;
/// Characters of a worker where there is no line for each, and of its bar on a line of its own.
const SHORT_WORKER: u16 = 20;
const BAR: u16 = 20;

/// The first line.
pub(super) fn title(pen: &mut Pen<'_>, area: Rect, app: &App, now: Instant) {
    let style = pen.theme.title(true);
    let server = format!("{}  ", app.server);
    let (text, level) = link(app, now);
    let mut name = "millstream top  ";
    if width(name) + width(&server) + width(&text) > area.width {
        name = "";
    }
    let rest = pen.pieces(area, &[(name, style), (&server, Style::new()), (&text, pen.theme.level(level))]);
    let rest = after(rest, (rest.x + 2).min(area.right()));
    if app.has_data {
        let time = format!("{} UTC", format::time_of_day(app.message.time_ms));
        if width(&time) <= rest.width {
            pen.right(rest, &time, Style::new());
        }
    }
    if app.paused {
        pen.left(rest, " PAUSED ", Style::new().add_modifier(Modifier::REVERSED));
    }
}

fn link(app: &App, now: Instant) -> (String, Level) {
    match &app.link {
        Link::Connecting => ("connecting".to_owned(), Level::Warning),
        Link::Connected => ("connected".to_owned(), Level::Good),
        Link::Lost { retry_at, .. } => {
            let seconds = retry_at.saturating_duration_since(now).as_secs_f32().ceil();
            (format!("no connection, again in {seconds:.0} s"), Level::Bad)
        }
    }
}

/// What is shown before the first message.
pub(super) fn waiting(pen: &mut Pen<'_>, area: Rect, app: &App) {
    let text = match &app.link {
        Link::Lost { .. } => "The server cannot be reached; it is tried again until you press q.",
        Link::Connecting | Link::Connected => "Waiting for the first message.",
    };
    pen.left(line(area, 1), text, Style::new());
}

/// The second line: totals of the server, or why there is no connection.
pub(super) fn totals(pen: &mut Pen<'_>, area: Rect, app: &App) {
    if let Link::Lost { reason, .. } = &app.link {
        pen.left(area, reason, pen.theme.level(Level::Bad));
        return;
    }
    if !app.has_data {
        return;
    }
    let message = &app.message;
    let of_role = |role| message.sessions.role.iter().filter(|other| **other == role).count();
    let live = message.streams.live.iter().filter(|live| **live).count();
    let sum = |column: &[u64]| {
        format::bits_per_second(column.iter().fold(0, |sum: u64, rate| sum.saturating_add(*rate)))
    };
    let count = |count: usize| format::grouped(count as u64);
    let parts = [
        ("sessions ", count(message.sessions.serial.len())),
        ("  in ", sum(&message.workers.bits_in_per_second)),
        ("  out ", sum(&message.workers.bits_out_per_second)),
        ("  streams ", count(message.streams.name.len())),
        (" live ", count(live)),
        ("  publishers ", count(of_role(ROLE_PUBLISHER))),
        ("  players ", count(of_role(ROLE_PLAYER))),
    ];
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let mut rest = area;
    for (name, figure) in &parts {
        if width(name) + width(figure) > rest.width {
            break;
        }
        rest = pen.pieces(rest, &[(name, Style::new()), (figure, bold)]);
    }
}

/// The second line of the cluster: what there is of it, or why there is nothing newer.
pub(super) fn cluster(pen: &mut Pen<'_>, area: Rect, app: &App) {
    if let Some(note) = &app.cluster_note {
        pen.left(area, note, pen.theme.level(Level::Warning));
        return;
    }
    let cluster = &app.cluster;
    let (up, links) = (cluster.links_up(), cluster.links.len());
    let streams = &cluster.streams_by_home;
    let directory = &cluster.directory;
    let heard = match &directory.last_problem {
        _ if directory.heard => format!("NATS {}", directory.server_version),
        Some(problem) => format!("NATS not heard: {problem}"),
        None => "NATS not heard".to_owned(),
    };
    let good = |holds| pen.theme.level(if holds { Level::Plain } else { Level::Bad });
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let parts = [
        ("node ", cluster.node.clone(), bold),
        ("  nodes ", format::grouped(cluster.nodes.len() as u64), bold),
        ("  links up ", format!("{up} of {links}"), good(up == links).add_modifier(Modifier::BOLD)),
        ("  streams here ", format::grouped(streams.here), bold),
        (" fetched ", format::grouped(streams.fetched), bold),
        (" elsewhere ", format::grouped(streams.elsewhere), bold),
        ("  ", heard, good(directory.heard)),
    ];
    let mut rest = area;
    for (name, figure, style) in &parts {
        if width(name) + width(figure) > rest.width {
            break;
        }
        rest = pen.pieces(rest, &[(name, Style::new()), (figure, *style)]);
    }
}

/// Lines that workers take on a screen of this size: one each if there is room, or several on a line.
pub(super) fn worker_lines(message: &StatsMessage, screen: Rect) -> u16 {
    let most = (screen.height / WORKER_LINES_SHARE).clamp(1, WORKER_LINES_MAX);
    let workers = u16::try_from(message.workers.index.len()).unwrap_or(u16::MAX);
    if workers <= most { workers } else { workers.div_ceil(per_line(screen.width)).min(most) }
}

/// Workers on a line when they share lines.
fn per_line(width: u16) -> u16 {
    (width / SHORT_WORKER).max(1)
}

/// The load of each worker.
pub(super) fn workers(pen: &mut Pen<'_>, area: Rect, message: &StatsMessage) {
    let workers = &message.workers;
    let count = workers.index.len();
    if count <= usize::from(area.height) {
        for row in 0..count {
            worker(pen, line(area, row as u16), workers, row);
        }
        return;
    }
    let per_line = usize::from(per_line(area.width));
    let places = per_line * usize::from(area.height);
    // The last cell says how many more there are.
    let shown = if count > places { places.saturating_sub(1) } else { count };
    let place = |index: usize| {
        let (x, y) = ((index % per_line) as u16, (index / per_line) as u16);
        let of_line = line(area, y);
        let x = of_line.x + x * SHORT_WORKER;
        Rect { x, width: SHORT_WORKER.min(of_line.right().saturating_sub(x)), ..of_line }
    };
    for row in 0..shown {
        short_worker(pen, place(row), workers, row);
    }
    if shown < count {
        let known = workers.load_percent[shown..].iter().copied().filter(|percent| percent.is_finite());
        let most = known.fold(0.0, f32::max);
        let text = format!("{} more, max {most:.0}%", count - shown);
        pen.left(place(shown), &text, pen.theme.level(load(most)));
    }
}

fn worker(pen: &mut Pen<'_>, area: Rect, workers: &Workers, row: usize) {
    let percent = workers.load_percent[row];
    let name = format!("worker {:<3}", workers.index[row]);
    let figures = [
        format!(" {:>5} %", format::real(percent)),
        format!("  in {:<12}", format::bits_per_second(workers.bits_in_per_second[row])),
        format!(" out {:<12}", format::bits_per_second(workers.bits_out_per_second[row])),
        format!(" sessions {:<7}", format::grouped(workers.sessions[row].into())),
        format!(" snapshot {} us", workers.snapshot_us[row]),
    ];
    let bar = bar(percent, BAR);
    let judged = pen.theme.level(load(percent).max(Level::Good));
    let rest = pen.pieces(area, &[(&name, Style::new()), (&bar, judged)]);
    pen.whole_pieces(rest, &figures.each_ref().map(|figure| (figure.as_str(), Style::new())));
}

fn short_worker(pen: &mut Pen<'_>, area: Rect, workers: &Workers, row: usize) {
    let percent = workers.load_percent[row];
    let name = format!("{:>3}", workers.index[row]);
    let figure =
        if percent.is_finite() { format!("{percent:>4.0}%") } else { format!("{:>5}", format::UNKNOWN) };
    let style = pen.theme.level(load(percent).max(Level::Good));
    pen.pieces(area, &[(name.as_str(), Style::new()), (&bar(percent, 10), style), (&figure, Style::new())]);
}

/// `[||||      ]`, `width` characters with the brackets.
fn bar(percent: f32, width: u16) -> String {
    let inner = usize::from(width - 2);
    let percent = if percent.is_finite() { percent.clamp(0.0, 100.0) } else { 0.0 };
    let full = (percent / 100.0 * inner as f32).round() as usize;
    format!("[{}{}]", "|".repeat(full), " ".repeat(inner - full))
}

/// Rates the load of a core by what is left for a burst.
fn load(percent: f32) -> Level {
    match percent {
        percent if !percent.is_finite() => Level::Plain,
        percent if percent >= 90.0 => Level::Bad,
        percent if percent >= 70.0 => Level::Warning,
        _ => Level::Plain,
    }
}
