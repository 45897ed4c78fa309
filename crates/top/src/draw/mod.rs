//! The layout of the screen by its size.
//!
//! From top to bottom: the server and its totals, its workers, streams, sessions, curves of the
//! selected row, keys; or for the cluster: totals, nodes, links, the selected row. What does not fit
//! is left out in this order: the selected row, workers, the table without the focus, totals.

mod detail;
mod header;
mod help;
mod pen;
mod table;

use std::time::Instant;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Position, Rect};

use super::app::{App, Focus};
use super::cluster::{LINKS, NODES};
use super::columns::{Column, SESSIONS, STREAMS};
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
    /// Streams or nodes.
    upper: Rect,
    /// Sessions or links.
    lower: Rect,
    /// The selected row.
    detail: Rect,
    keys: Rect,
}

/// Draws everything.
pub(crate) fn draw(frame: &mut Frame<'_>, app: &mut App, theme: Theme, now: Instant) {
    let areas = areas(frame.area(), app);
    let mut pen = Pen { buffer: frame.buffer_mut(), theme };
    header::title(&mut pen, areas.title, app, now);
    if app.shows_cluster() {
        header::cluster(&mut pen, areas.totals, app);
        let (nodes, links) = (app.focus == Focus::Nodes, app.focus == Focus::Links);
        let titles = [table::nodes_title(app), table::links_title(app)];
        table::draw(&mut pen, areas.upper, &app.cluster, &mut app.nodes, &titles[0], nodes);
        table::draw(&mut pen, areas.lower, &app.cluster, &mut app.links, &titles[1], links);
        detail::draw_cluster(&mut pen, areas.detail, app);
    } else {
        header::totals(&mut pen, areas.totals, app);
        draw_server(&mut pen, areas, app);
    }
    if let Some(first) = &mut app.help {
        let body = [areas.workers, areas.upper, areas.lower, areas.detail];
        help::draw(&mut pen, body.into_iter().reduce(Rect::union).unwrap_or_default(), first);
    }
    let cursor = help::keys(&mut pen, areas.keys, app);
    if let Some(x) = cursor {
        frame.set_cursor_position(Position::new(x, areas.keys.y));
    }
}

/// Workers, streams and sessions.
fn draw_server(pen: &mut Pen<'_>, areas: Areas, app: &mut App) {
    if !app.has_data {
        header::waiting(pen, areas.lower, app);
        return;
    }
    header::workers(pen, areas.workers, &app.message);
    let (streams, sessions) = (app.focus == Focus::Streams, app.focus == Focus::Sessions);
    let titles = [table::streams_title(app), table::sessions_title(app)];
    table::draw(pen, areas.upper, &app.message, &mut app.streams, &titles[0], streams);
    table::draw(pen, areas.lower, &app.message, &mut app.sessions, &titles[1], sessions);
    detail::draw(pen, areas.detail, app);
}

fn areas(whole: Rect, app: &App) -> Areas {
    let height = whole.height;
    let is_cluster = app.shows_cluster();
    let has_data = if is_cluster { !app.cluster.nodes.is_empty() } else { app.has_data };
    let when = |least: u16, lines: u16| if height >= least && has_data { lines } else { 0 };
    let workers = if is_cluster { 0 } else { header::worker_lines(&app.message, whole) };
    let workers = when(HEIGHT_FOR_WORKERS, workers);
    let detail = when(HEIGHT_FOR_CURVES, if is_cluster { detail::CLUSTER_LINES } else { detail::LINES });
    let [title, totals, workers, body, detail, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(u16::from(height >= HEIGHT_FOR_TOTALS)),
        Constraint::Length(workers),
        Constraint::Min(0),
        Constraint::Length(detail),
        Constraint::Length(u16::from(height > 2)),
    ])
    .areas(whole);
    let upper = if has_data { upper_height(body.height, app) } else { 0 };
    let [upper, lower] = Layout::vertical([Constraint::Length(upper), Constraint::Min(0)]).areas(body);
    Areas { title, totals, workers, upper, lower, detail, keys }
}

/// Lines of the upper table: what it needs, at most a third, or half while it has the focus. Nodes, of which
/// there are as many as links, have half, or more if links leave it.
fn upper_height(body: u16, app: &App) -> u16 {
    let lines = |rows: usize| u16::try_from(rows).unwrap_or(u16::MAX).saturating_add(table::HEAD);
    let (needed, most, is_focused) = match app.focus {
        Focus::Nodes | Focus::Links => {
            let left = body.saturating_sub(lines(app.links.rows().len()));
            (lines(app.nodes.rows().len()), left.max(body / 2), app.focus == Focus::Nodes)
        }
        Focus::Streams => (lines(app.streams.rows().len()), body / 2, true),
        Focus::Sessions => (lines(app.streams.rows().len()), body / 3, false),
    };
    if body < HEIGHT_FOR_BOTH {
        return if is_focused { body } else { 0 };
    }
    needed.clamp(table::HEAD + 1, most.max(table::HEAD + 1))
}

/// All tables, for help: the header of each column, and what it shows.
fn all_columns() -> [(&'static str, Vec<[&'static str; 2]>); 4] {
    fn words<M>(columns: &[Column<M>]) -> Vec<[&'static str; 2]> {
        columns.iter().map(|column| [column.title, column.meaning]).collect()
    }
    [
        ("Streams", words(&STREAMS)),
        ("Sessions", words(&SESSIONS)),
        ("Nodes", words(&NODES)),
        ("Links", words(&LINKS)),
    ]
}

#[cfg(test)]
mod tests;
