//! One table: which rows of what came last it shows, in which order, and which of them is selected.
//!
//! The selection belongs to a session or stream, not to a position: it moves with its row when the
//! order changes. Only if it was moved to the first row, it stays there, whichever row that is.

use super::columns::Column;
use stats::message::StatsMessage;

/// A table's state.
pub(crate) struct TableView<M: 'static = StatsMessage> {
    /// Its columns.
    pub columns: &'static [Column<M>],
    /// Index of the column it is sorted by.
    pub sort: usize,
    /// Whether that column's usual order is reversed.
    pub reversed: bool,
    key: fn(&M, usize) -> Key,
    /// Rows of the message, in order.
    rows: Vec<u32>,
    selected: usize,
    /// What is selected; `None`: the first row.
    selected_key: Option<Key>,
    /// Index of the first row on the screen.
    offset: usize,
    /// Rows on the screen when it was drawn last.
    page: usize,
}

/// What a row is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Key {
    /// A session: its worker and number.
    Session(u16, u64),
    /// A stream, `app/name`.
    Stream(String),
    /// A node, or the link to it.
    Node(String),
}

/// A move of the selection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Move {
    /// One row up.
    Up,
    /// One row down.
    Down,
    /// One screen up.
    PageUp,
    /// One screen down.
    PageDown,
    /// To the first row, and stay there.
    First,
    /// To the last row.
    Last,
}

impl<M> TableView<M> {
    /// A table of `columns`, sorted by the one titled `sort`, whose rows are about `key`.
    pub(crate) fn new(columns: &'static [Column<M>], sort: &str, key: fn(&M, usize) -> Key) -> Self {
        let sort = columns.iter().position(|column| column.title == sort).unwrap_or(0);
        Self {
            columns,
            sort,
            reversed: false,
            key,
            rows: Vec::new(),
            selected: 0,
            selected_key: None,
            offset: 0,
            page: 1,
        }
    }

    /// Sorts by the column of that title, ignoring case; false when there is none.
    pub(crate) fn sort_by(&mut self, title: &str) -> bool {
        let found = self.columns.iter().position(|column| column.title.eq_ignore_ascii_case(title));
        self.sort = found.unwrap_or(self.sort);
        found.is_some()
    }

    /// Sorts by the column so many further, in its own order.
    pub(crate) fn sort_by_neighbour(&mut self, step: isize) {
        let count = self.columns.len();
        self.sort = (self.sort + count).saturating_add_signed(step) % count;
        self.reversed = false;
    }

    /// Whether larger values come first.
    pub(crate) fn is_descending(&self) -> bool {
        self.columns[self.sort].is_figure != self.reversed
    }

    /// Shows `rows` of `message`, sorted. The selection stays with its session or stream, or at its
    /// position if that has left.
    pub(crate) fn show(&mut self, message: &M, rows: Vec<u32>) {
        self.rows = self.sorted(message, rows);
        let place = self.selected_key.as_ref().map(|key| {
            let is_it = |row: &u32| (self.key)(message, *row as usize) == *key;
            self.rows.iter().position(is_it)
        });
        match place {
            None => self.selected = 0,
            Some(Some(place)) => self.selected = place,
            Some(None) => self.select(message, self.selected),
        }
    }

    fn sorted(&self, message: &M, rows: Vec<u32>) -> Vec<u32> {
        let (by, first, descending) = (&self.columns[self.sort], &self.columns[0], self.is_descending());
        let mut keyed: Vec<_> =
            rows.into_iter().map(|row| ((by.value)(message, row as usize), row)).collect();
        keyed.sort_unstable_by(|(a, row_a), (b, row_b)| {
            // Equal rows keep their order from second to second: by id or name.
            let tie = || {
                let [a, b] = [row_a, row_b].map(|row| (first.value)(message, *row as usize));
                a.compare(&b, false)
            };
            a.compare(b, descending).then_with(tie)
        });
        keyed.into_iter().map(|(_, row)| row).collect()
    }

    /// Moves the selection.
    pub(crate) fn go(&mut self, message: &M, to: Move) {
        let page = self.page.saturating_sub(1).max(1);
        let place = match to {
            Move::Up => self.selected.saturating_sub(1),
            Move::Down => self.selected + 1,
            Move::PageUp => self.selected.saturating_sub(page),
            Move::PageDown => self.selected.saturating_add(page),
            Move::First => 0,
            Move::Last => usize::MAX,
        };
        self.select(message, place);
        if to == Move::First {
            self.selected_key = None;
        }
    }

    fn select(&mut self, message: &M, place: usize) {
        self.selected = place.min(self.rows.len().saturating_sub(1));
        self.selected_key = self.selected_row().map(|row| (self.key)(message, row));
    }

    /// Rows to draw into `height` lines, with the index of the selected one among them. The
    /// selected row is always included.
    pub(crate) fn visible(&mut self, height: usize) -> (&[u32], usize) {
        self.page = height;
        let lowest = (self.selected + 1).saturating_sub(height);
        let highest = self.rows.len().saturating_sub(height);
        self.offset = self.offset.clamp(lowest.min(self.selected), self.selected).min(highest.max(lowest));
        let end = (self.offset + height).min(self.rows.len());
        (&self.rows[self.offset.min(end)..end], self.selected - self.offset.min(self.selected))
    }

    /// All rows in order.
    pub(crate) fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// Row of the message that is selected.
    pub(crate) fn selected_row(&self) -> Option<usize> {
        self.rows.get(self.selected).map(|row| *row as usize)
    }

    /// Number of the selected row, from 1; 0 without rows.
    pub(crate) fn selected_place(&self) -> usize {
        self.selected + usize::from(!self.rows.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::SESSIONS;
    use crate::filter::Filter;
    use crate::sample;

    fn key(message: &StatsMessage, row: usize) -> Key {
        Key::Session(message.sessions.worker[row], message.sessions.serial[row])
    }

    fn shown(sort: &str, message: &StatsMessage) -> TableView {
        let mut table = TableView::new(&SESSIONS, sort, key);
        table.show(message, Filter::default().apply(message, None).sessions);
        table
    }

    #[test]
    fn rows_are_sorted_by_the_column_and_unknown_ones_are_last() {
        let message = sample::message(2, 3, 6); // rows 1 and 4 are by WebRTC
        let mut table = shown("RTT", &message);
        assert_eq!(table.rows(), [4, 1, 0, 2, 3, 5].map(|row: u32| row), "the rest by id: 0-0 0-2 1-3 1-5");
        table.reversed = true;
        table.show(&message, (0..6).collect());
        assert_eq!(table.rows()[..2], [1, 4]);
        assert_eq!(table.rows()[2..], [0, 2, 3, 5]);
        assert!(table.sort_by("stream") && !table.sort_by("mood"));
        table.reversed = false;
        table.show(&message, (0..6).collect());
        assert_eq!(table.rows(), [0, 3, 4, 1, 2, 5], "cam000: 0-0 1-3, cam001: 0-4 1-1, cam002: 0-2 1-5");
    }

    #[test]
    fn the_selection_moves_with_its_row() {
        let mut message = sample::message(1, 1, 6);
        let mut table = shown("BIT/S", &message);
        assert_eq!(table.rows(), [5, 4, 3, 2, 1, 0]);
        table.go(&message, Move::Down);
        assert_eq!(table.selected_row(), Some(4));
        message.sessions.bits_per_second[4] = 0;
        table.show(&message, (0..6).collect());
        assert_eq!((table.selected_row(), table.selected_place()), (Some(4), 6));
        // Left: the row at its position now.
        table.show(&message, (0..4).collect());
        assert_eq!((table.selected_row(), table.selected_place()), (Some(0), 4));
    }

    #[test]
    fn the_first_place_stays_selected_whoever_is_there() {
        let mut message = sample::message(1, 1, 6);
        let mut table = shown("BIT/S", &message);
        for _ in 0..2 {
            assert_eq!(table.selected_row(), Some(5));
            message.sessions.bits_per_second[2] = u64::MAX;
            table.show(&message, (0..6).collect());
            assert_eq!((table.selected_row(), table.selected_place()), (Some(2), 1));
            message.sessions.bits_per_second[2] = 0;
            table.show(&message, (0..6).collect());
            table.go(&message, Move::Last);
            table.go(&message, Move::First);
        }
    }

    #[test]
    fn the_selected_row_is_on_the_screen_whatever_happens() {
        let message = sample::message(1, 1, 50);
        let mut table = shown("ID", &message);
        let moves =
            [Move::Down, Move::PageDown, Move::Up, Move::Last, Move::PageUp, Move::First, Move::PageDown];
        for (round, to) in moves.into_iter().cycle().take(200).enumerate() {
            table.go(&message, to);
            let count = [50, 3, 0, 17, 1][round / 7 % 5];
            table.show(&message, (0..count).collect());
            let height = [10, 1, 60, 0, 7][round % 5];
            let selected = table.selected_row();
            let (rows, place) = table.visible(height);
            assert!(rows.len() <= height, "round {round}");
            if height > 0 && count > 0 {
                assert_eq!(rows.len(), height.min(count as usize), "the screen is full, round {round}");
                assert_eq!(rows.get(place).map(|row| *row as usize), selected, "round {round}");
            }
        }
    }
}
