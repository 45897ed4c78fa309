//! Help: keys in the last line, and everything on a page.

use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::{Clear, Widget};

use super::all_columns;
use super::pen::{Pen, after, line, width};
use crate::app::App;
use crate::columns::Level;

/// Keys, what they do in one word and in a sentence.
const KEYS: [(&str, &str, &str); 11] = [
    ("q", "quit", "ends it; so does Ctrl-C"),
    ("?", "help", "this page, and back"),
    ("Tab", "table", "goes to the other table"),
    ("n", "nodes", "nodes and links of the server's cluster, and back"),
    ("Enter", "sessions", "lists the sessions of the selected stream"),
    ("Esc", "back", "sessions, or all of them, again; takes the filter away"),
    ("/", "filter", "words that all must fit: a part of stream, protocol, role, or the"),
    ("Left Right", "sort", "sorts by the column beside; < and > too"),
    ("r", "reverse", "turns the order around"),
    ("Space", "pause", "lets the screen stand still; curves go on"),
    ("Up Down", "move", "selects a row, and stays with it; also j k, Page Up, Page Down"),
];
/// More lines of the page, after a key.
const MORE: [(&str, &str); 3] = [
    ("/", "beginning of an id; worker:0, stream:cam, role:player, protocol:whep"),
    ("Up Down", "End or G: the last row"),
    ("Up Down", "Home or g: the first row, whichever it is"),
];
/// Characters for keys on the page.
const KEYS_WIDTH: u16 = 12;

/// The last line: the filter while it is typed, keys otherwise. Gives the column of the cursor
/// while something is typed.
pub(super) fn keys(pen: &mut Pen<'_>, area: Rect, app: &App) -> Option<u16> {
    if area.is_empty() {
        return None;
    }
    if app.typing {
        let rest = pen.pieces(area, &[("filter: ", pen.theme.key())]);
        // The end of the text must be visible.
        let mut text = app.filter.as_str();
        while width(text) >= rest.width && !text.is_empty() {
            text = &text[text.char_indices().nth(1).map_or(text.len(), |(at, _)| at)..];
        }
        let x = pen.left(rest, text, Style::new());
        let rest = after(area, x + 2);
        match &app.filter_error {
            Some(error) => _ = pen.left(rest, error, pen.theme.level(Level::Bad)),
            None => pen.right(rest, "Enter keeps it, Esc takes it away", Style::new()),
        }
        return Some(x.min(area.right() - 1));
    }
    let mut rest = area;
    for (key, word, _) in KEYS {
        let needed = width(key) + width(word) + 3;
        if rest.width >= needed {
            rest = pen.pieces(rest, &[(key, pen.theme.key()), (" ", Style::new()), (word, Style::new())]);
            rest = after(rest, (rest.x + 2).min(area.right()));
        }
    }
    None
}

/// The page, drawn over `area` from line `first` on; `first` is limited so that the page fills the
/// area.
pub(super) fn draw(pen: &mut Pen<'_>, area: Rect, first: &mut usize) {
    Clear.render(area, pen.buffer);
    let mut lines = Vec::new();
    for (key, _, sentence) in KEYS {
        lines.push((key, sentence));
        lines.extend(MORE.iter().filter(|(of, _)| *of == key).map(|(_, more)| ("", *more)));
    }
    for (title, columns) in all_columns() {
        lines.push(("", ""));
        lines.push((title, ""));
        lines.extend(columns.iter().map(|[title, meaning]| (*title, *meaning)));
    }
    let below = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    *first = (*first).min(lines.len().saturating_sub(below.height.into()));
    let more = usize::from(below.height) < lines.len();
    pen.title(area, if more { "Help (Down for more, ? to leave)" } else { "Help (? to leave)" }, true);
    for (index, (key, sentence)) in (0..below.height).zip(&lines[*first..]) {
        let of_line = line(below, index);
        pen.left(of_line, key, pen.theme.key());
        pen.left(after(of_line, (of_line.x + KEYS_WIDTH).min(of_line.right())), sentence, Style::new());
    }
}
