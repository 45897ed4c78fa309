//! The layout of the screen by its size.
//!
//! From top to bottom: the server and its totals, its workers, streams, sessions, curves of the
//! selected row, keys. What does not fit is left out in this order: curves, workers, the table
//! without the focus, totals.

mod detail;
mod header;
mod help;
mod pen;
mod table;

use std::time::Instant;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Position, Rect};

use super::app::{App, Focus};
use super::columns::{SESSIONS, STREAMS};
use super::theme::Theme;
use pen::Pen;

/// Minimum height of the terminal for each of the optional parts.
const HEIGHT_FOR_TOTALS: u16 = 6;
const HEIGHT_FOR_WORKERS: u16 = 12;
const HEIGHT_FOR_CURVES: u16 = 18;
/// Minimum height of the two tables together: a title, a header and three rows each.
const HEIGHT_FOR_BOTH: u16 = 10;

/// Where everything is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Areas {
    title: Rect,
    totals: Rect,
    workers: Rect,
    streams: Rect,
    sessions: Rect,
    curves: Rect,
    keys: Rect,
}

/// Draws everything.
pub(crate) fn draw(frame: &mut Frame<'_>, app: &mut App, theme: Theme, now: Instant) {
    let areas = areas(frame.area(), app);
    let mut pen = Pen { buffer: frame.buffer_mut(), theme };
    header::title(&mut pen, areas.title, app, now);
    header::totals(&mut pen, areas.totals, app);
    if app.has_data {
        header::workers(&mut pen, areas.workers, &app.message);
        let (streams, sessions) = (app.focus == Focus::Streams, app.focus == Focus::Sessions);
        let titles = [table::streams_title(app), table::sessions_title(app)];
        table::draw(&mut pen, areas.streams, &app.message, &mut app.streams, &titles[0], streams);
        table::draw(&mut pen, areas.sessions, &app.message, &mut app.sessions, &titles[1], sessions);
        detail::draw(&mut pen, areas.curves, app);
    } else {
        header::waiting(&mut pen, areas.sessions, app);
    }
    if let Some(first) = &mut app.help {
        let body = [areas.workers, areas.streams, areas.sessions, areas.curves];
        help::draw(&mut pen, body.into_iter().reduce(Rect::union).unwrap_or_default(), first);
    }
    let cursor = help::keys(&mut pen, areas.keys, app);
    if let Some(x) = cursor {
        frame.set_cursor_position(Position::new(x, areas.keys.y));
    }
}

fn areas(whole: Rect, app: &App) -> Areas {
    let height = whole.height;
    let when = |least: u16, lines: u16| if height >= least && app.has_data { lines } else { 0 };
    let workers = when(HEIGHT_FOR_WORKERS, header::worker_lines(&app.message, whole));
    let curves = when(HEIGHT_FOR_CURVES, detail::LINES);
    let [title, totals, workers, body, curves, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(u16::from(height >= HEIGHT_FOR_TOTALS)),
        Constraint::Length(workers),
        Constraint::Min(0),
        Constraint::Length(curves),
        Constraint::Length(u16::from(height > 2)),
    ])
    .areas(whole);
    let streams = streams_height(body.height, app);
    let [streams, sessions] = Layout::vertical([Constraint::Length(streams), Constraint::Min(0)]).areas(body);
    Areas { title, totals, workers, streams, sessions, curves, keys }
}

/// Lines of the table of streams: what it needs, at most a third, or half while it has the focus.
fn streams_height(body: u16, app: &App) -> u16 {
    if !app.has_data {
        return 0;
    }
    if body < HEIGHT_FOR_BOTH {
        return if app.focus == Focus::Streams { body } else { 0 };
    }
    let needed = u16::try_from(app.streams.rows().len()).unwrap_or(u16::MAX).saturating_add(table::HEAD);
    let most = if app.focus == Focus::Streams { body / 2 } else { body / 3 };
    needed.clamp(table::HEAD + 1, most.max(table::HEAD + 1))
}

/// Both tables, for help.
fn all_columns() -> [(&'static str, &'static [super::columns::Column]); 2] {
    [("Streams", &STREAMS), ("Sessions", &SESSIONS)]
}

#[cfg(test)]
mod tests;
