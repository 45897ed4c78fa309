//! How things look: with colours or without, with block characters or ASCII.
//!
//! Without colours nothing is lost: what colours say is also in words, figures, and reversed or
//! bold characters.

use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols;

use super::columns::Level;

/// The choice for a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Theme {
    /// Whether colours may be used: the eight that every terminal lets its user choose.
    pub colour: bool,
    /// Whether characters beyond ASCII may be used.
    pub unicode: bool,
}

/// Bars of a curve in ASCII, from nothing to full height.
const ASCII_BARS: symbols::bar::Set<'static> = symbols::bar::Set {
    full: "#",
    seven_eighths: "#",
    three_quarters: "=",
    five_eighths: "=",
    half: "-",
    three_eighths: "-",
    one_quarter: ".",
    one_eighth: ".",
    empty: " ",
};

impl Theme {
    /// The theme for the environment: `NO_COLOR` (not empty) or `TERM=dumb` forbid colours; block
    /// characters need a UTF-8 locale.
    pub(crate) fn of_environment(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        // The first one set applies (POSIX, section 8.2).
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default();
        let locale = locale.to_ascii_lowercase();
        Self {
            colour: set("NO_COLOR").is_none() && set("TERM").is_none_or(|term| term != "dumb"),
            unicode: locale.contains("utf-8") || locale.contains("utf8"),
        }
    }

    /// Style of a rated value.
    pub(crate) fn level(self, level: Level) -> Style {
        match level {
            Level::Plain => Style::new(),
            Level::Good => self.coloured(Color::Green),
            Level::Warning => self.coloured(Color::Yellow),
            Level::Bad => self.coloured(Color::Red).add_modifier(Modifier::BOLD),
        }
    }

    /// The name of the program, titles of tables.
    pub(crate) fn title(self, focused: bool) -> Style {
        let style = self.coloured(Color::Cyan);
        if focused { style.add_modifier(Modifier::BOLD) } else { style }
    }

    /// Headers of columns.
    pub(crate) fn header(self, sorted: bool) -> Style {
        let style = Style::new().add_modifier(Modifier::BOLD);
        if sorted { style.add_modifier(Modifier::UNDERLINED) } else { style }
    }

    /// The selected row.
    pub(crate) fn selected(self, focused: bool) -> Style {
        let style = Style::new();
        if focused { style.add_modifier(Modifier::REVERSED) } else { style.add_modifier(Modifier::BOLD) }
    }

    /// Keys in the last line.
    pub(crate) fn key(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Curves.
    pub(crate) fn curve(self) -> Style {
        self.coloured(Color::Cyan)
    }

    /// What bars are made of.
    pub(crate) fn bars(self) -> symbols::bar::Set<'static> {
        if self.unicode { symbols::bar::NINE_LEVELS } else { ASCII_BARS }
    }

    /// The line beside a title.
    pub(crate) fn rule(self) -> &'static str {
        if self.unicode { "─" } else { "-" }
    }

    /// In place of what does not fit.
    pub(crate) fn ellipsis(self) -> &'static str {
        if self.unicode { "…" } else { "~" }
    }

    /// Direction of an order.
    pub(crate) fn arrow(self, descending: bool) -> &'static str {
        match (self.unicode, descending) {
            (true, true) => "▼",
            (true, false) => "▲",
            (false, true) => "v",
            (false, false) => "^",
        }
    }

    fn coloured(self, colour: Color) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Variables = &'static [(&'static str, &'static str)];

    #[test]
    fn the_environment_decides() {
        let cases: [(Variables, bool, bool); 7] = [
            (&[("TERM", "xterm"), ("LANG", "en_GB.UTF-8")], true, true),
            (&[("LANG", "C.utf8"), ("NO_COLOR", "1")], false, true),
            (&[("NO_COLOR", "")], true, false), // empty is not set
            (&[("TERM", "dumb"), ("LC_ALL", "POSIX"), ("LANG", "en_GB.UTF-8")], false, false),
            (&[("LC_ALL", ""), ("LC_CTYPE", "de_DE.UTF-8"), ("LANG", "C")], true, true),
            (&[("LANG", "de_DE.ISO-8859-1")], true, false),
            (&[], true, false),
        ];
        for (environment, colour, unicode) in cases {
            let variable = |name: &str| {
                environment.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(Theme::of_environment(variable), Theme { colour, unicode }, "{environment:?}");
        }
    }
}
