//! Writes text into the screen's buffer, cut to fit, aligned left or right.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Span;

use crate::theme::Theme;

/// Writes with one theme.
pub(super) struct Pen<'a> {
    pub(super) buffer: &'a mut Buffer,
    pub(super) theme: Theme,
}

/// Columns `text` takes on the screen.
pub(super) fn width(text: &str) -> u16 {
    u16::try_from(Span::raw(text).width()).unwrap_or(u16::MAX)
}

impl Pen<'_> {
    /// Writes `text` at the left of the first line of `area`; returns the column after it.
    pub(super) fn left(&mut self, area: Rect, text: &str, style: Style) -> u16 {
        if area.is_empty() {
            return area.x;
        }
        if width(text) <= area.width {
            return self.buffer.set_stringn(area.x, area.y, text, area.width.into(), style).0;
        }
        let kept = usize::from(area.width) - 1;
        let (x, y) = self.buffer.set_stringn(area.x, area.y, text, kept, style);
        self.buffer.set_stringn(x, y, self.theme.ellipsis(), usize::from(area.right() - x), style).0
    }

    /// Writes `text` at the right of the first line of `area`.
    pub(super) fn right(&mut self, area: Rect, text: &str, style: Style) {
        let free = area.width.saturating_sub(width(text));
        self.left(Rect { x: area.x + free, width: area.width - free, ..area }, text, style);
    }

    /// Writes pieces one after the other; returns the rest of the line.
    pub(super) fn pieces(&mut self, mut area: Rect, pieces: &[(&str, Style)]) -> Rect {
        for (text, style) in pieces {
            area = after(area, self.left(area, text, *style));
        }
        area
    }

    /// Writes pieces one after the other as long as they fit completely; returns the rest of the
    /// line.
    pub(super) fn whole_pieces(&mut self, mut area: Rect, pieces: &[(&str, Style)]) -> Rect {
        for piece in pieces {
            if width(piece.0) > area.width {
                break;
            }
            area = self.pieces(area, &[*piece]);
        }
        area
    }

    /// A title with a line beside it, over the whole first line of `area`.
    pub(super) fn title(&mut self, area: Rect, title: &str, focused: bool) {
        if area.is_empty() {
            return;
        }
        let style = self.theme.title(focused);
        let rest =
            self.pieces(area, &[(self.theme.rule(), style), (" ", style), (title, style), (" ", style)]);
        self.left(rest, &self.theme.rule().repeat(rest.width.into()), style);
    }

    /// Sets the style of a whole area.
    pub(super) fn restyle(&mut self, area: Rect, style: Style) {
        self.buffer.set_style(area, style);
    }
}

/// The rest of `area` from column `x` on.
pub(super) fn after(area: Rect, x: u16) -> Rect {
    Rect { x, width: area.right().saturating_sub(x), ..area }
}

/// Line `index` of `area`; empty beyond its end.
pub(super) fn line(area: Rect, index: u16) -> Rect {
    if index < area.height {
        Rect { y: area.y + index, height: 1, ..area }
    } else {
        Rect { height: 0, ..area }
    }
}
