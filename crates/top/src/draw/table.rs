//! A table on the screen: its title, headers of the columns that fit, and the rows around the selected one.

use ratatui::layout::Rect;
use ratatui::style::Style;

use super::pen::{Pen, line};
use crate::app::App;
use crate::columns::{Column, FLEXIBLE, fitting};
use crate::format::grouped;
use crate::table::TableView;

/// Lines above the rows.
pub(super) const HEAD: u16 = 2;

/// A column and where it is on each line.
struct ColumnLayout {
    column: usize,
    x: u16,
    width: u16,
}

/// Draws `table`.
pub(super) fn draw<M>(
    pen: &mut Pen<'_>,
    area: Rect,
    message: &M,
    table: &mut TableView<M>,
    title: &str,
    focused: bool,
) {
    if area.is_empty() {
        return;
    }
    pen.title(line(area, 0), title, focused);
    let layouts = layouts(table.columns, table.sort, area);
    headers(pen, line(area, 1), table, &layouts);
    let columns = table.columns;
    let (rows, selected) = table.visible(area.height.saturating_sub(HEAD).into());
    for (index, row) in (0u16..).zip(rows) {
        let of_line = line(area, HEAD + index);
        for place in &layouts {
            cell(pen, place.on(of_line), message, &columns[place.column], *row as usize);
        }
        if usize::from(index) == selected {
            pen.restyle(of_line, pen.theme.selected(focused));
        }
    }
}

/// Title of the table of streams.
pub(super) fn streams_title(app: &App) -> String {
    let all = app.message.streams.name.len();
    format!("Streams {}{}", counts(&app.streams, all), filtered(app))
}

/// Title of the table of sessions.
pub(super) fn sessions_title(app: &App) -> String {
    let all = app.message.sessions.serial.len();
    let of = app.only_stream.as_ref().map(|stream| format!(" of {stream}")).unwrap_or_default();
    format!("Sessions{of} {}{}", counts(&app.sessions, all), filtered(app))
}

/// Title of the table of nodes.
pub(super) fn nodes_title(app: &App) -> String {
    format!("Nodes {}", counts(&app.nodes, app.cluster.nodes.len()))
}

/// Title of the table of links.
pub(super) fn links_title(app: &App) -> String {
    format!("Links of {} {}", app.cluster.node, counts(&app.links, app.cluster.links.len()))
}

/// `17/300 of 10,000`: number of the selected row, rows, and rows without the filter.
fn counts<M>(table: &TableView<M>, all: usize) -> String {
    let shown = table.rows().len();
    let place = format!("{}/{}", grouped(table.selected_place() as u64), grouped(shown as u64));
    if shown == all { place } else { format!("{place} of {}", grouped(all as u64)) }
}

fn filtered(app: &App) -> String {
    match &app.filter_error {
        _ if app.filter.is_empty() => String::new(),
        None => format!(", filter \"{}\"", app.filter),
        Some(error) => format!(", filter \"{}\": {error}", app.filter),
    }
}

fn headers<M>(pen: &mut Pen<'_>, area: Rect, table: &TableView<M>, layouts: &[ColumnLayout]) {
    for place in layouts {
        let column = &table.columns[place.column];
        let sorted = place.column == table.sort;
        let style = pen.theme.header(sorted);
        let arrow = pen.theme.arrow(table.is_descending());
        let text = match (sorted, column.is_figure) {
            (false, _) => column.title.to_owned(),
            (true, true) => format!("{arrow}{}", column.title),
            (true, false) => format!("{}{arrow}", column.title),
        };
        write(pen, place.on(area), column, &text, style);
    }
}

fn cell<M>(pen: &mut Pen<'_>, area: Rect, message: &M, column: &Column<M>, row: usize) {
    let value = (column.value)(message, row);
    let style = pen.theme.level((column.judge)(value.clone()));
    let text = (column.text)(value);
    write(pen, area, column, &text, style);
}

fn write<M>(pen: &mut Pen<'_>, area: Rect, column: &Column<M>, text: &str, style: Style) {
    if column.is_figure {
        pen.right(area, text, style);
    } else {
        pen.left(area, text, style);
    }
}

impl ColumnLayout {
    fn on(&self, area: Rect) -> Rect {
        Rect { x: self.x, width: self.width, ..area }
    }
}

/// Positions of the columns that fit into `area`. The flexible one takes the remaining space.
fn layouts<M>(columns: &[Column<M>], sorted: usize, area: Rect) -> Vec<ColumnLayout> {
    let chosen = fitting(columns, area.width, sorted);
    let fixed: u16 = chosen.iter().map(|at| columns[*at].width).sum();
    let between = u16::try_from(chosen.len().saturating_sub(1)).unwrap_or(u16::MAX);
    let flexible = area.width.saturating_sub(fixed).saturating_sub(between);
    let mut x = area.x;
    chosen
        .into_iter()
        .map(|column| {
            let width = if columns[column].width == FLEXIBLE { flexible } else { columns[column].width };
            let width = width.min(area.right().saturating_sub(x));
            let place = ColumnLayout { column, x, width };
            x = (x + width + 1).min(area.right());
            place
        })
        .collect()
}
