//! As much of a terminal as the program under test uses: text, cursor, clearing, the alternate screen.
//!
//! Sequences are those of ECMA-48 and of xterm (private modes). One that is not known fails the
//! test, so that none is shown as text.

/// Larger than any size the tests set.
const WIDTH: usize = 250;
const HEIGHT: usize = 80;

/// What is seen after some output.
pub(crate) struct Screen {
    cells: Vec<Vec<char>>,
    row: usize,
    column: usize,
    /// Whether the alternate screen is shown.
    pub(crate) alternate: bool,
    /// Whether the cursor is shown.
    pub(crate) cursor: bool,
    /// Whether any colour was set.
    pub(crate) coloured: bool,
}

impl Screen {
    /// The screen after `output`. A sequence that has not come in full is left for later.
    pub(crate) fn after(output: &[u8]) -> Self {
        let mut screen = Self {
            cells: vec![vec![' '; WIDTH]; HEIGHT],
            row: 0,
            column: 0,
            alternate: false,
            cursor: true,
            coloured: false,
        };
        let text = String::from_utf8_lossy(output);
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            match c {
                '\u{1b}' => match rest.next() {
                    Some('[') => screen.control(&mut rest),
                    Some(other) => panic!("unknown escape {other:?}"),
                    None => {}
                },
                '\r' => screen.column = 0,
                '\n' => screen.row = (screen.row + 1).min(HEIGHT - 1),
                c => screen.put(c),
            }
        }
        screen
    }

    /// Lines without the blanks at their ends.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.cells.iter().map(|line| line.iter().collect::<String>().trim_end().to_owned()).collect()
    }

    /// Whether `text` is on any line.
    pub(crate) fn shows(&self, text: &str) -> bool {
        self.lines().iter().any(|line| line.contains(text))
    }

    /// Place of the last line with text.
    pub(crate) fn last_line(&self) -> Option<usize> {
        self.lines().iter().rposition(|line| !line.is_empty())
    }

    fn put(&mut self, c: char) {
        self.cells[self.row][self.column] = c;
        self.column = (self.column + 1).min(WIDTH - 1);
    }

    /// A control sequence: parameters and a final letter.
    fn control(&mut self, rest: &mut std::str::Chars<'_>) {
        let mut parameters = String::new();
        let last = loop {
            match rest.next() {
                Some(c) if ('@'..='~').contains(&c) => break c,
                Some(c) => parameters.push(c),
                None => return,
            }
        };
        let number = |index: usize| {
            parameters.split(';').nth(index).and_then(|text| text.parse::<usize>().ok()).unwrap_or(1)
        };
        match (last, parameters.as_str()) {
            ('H', _) => (self.row, self.column) = (number(0) - 1, number(1) - 1),
            ('J', "2") => self.cells.iter_mut().for_each(|line| line.fill(' ')),
            ('m', "" | "0" | "1" | "4" | "7" | "22" | "24" | "27" | "39" | "49" | "59") => {}
            ('m', _) => self.coloured = true,
            ('h' | 'l', "?1049") => self.alternate = last == 'h',
            ('h' | 'l', "?25") => self.cursor = last == 'h',
            _ => panic!("unknown sequence {parameters:?} {last:?}"),
        }
    }
}
