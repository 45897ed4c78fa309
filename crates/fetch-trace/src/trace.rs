//! Lists of reads as text: a line `offset,length` for each, with or without a header line.

use std::io::{BufRead, Read as _};

/// Maximum reads in a trace; a longer one is refused.
pub(crate) const READS_MAX: usize = 1_000_000;
/// Maximum bytes of a line, so that a file of another kind is refused before it is in memory.
const LINE_BYTES_MAX: u64 = 256;

/// Bytes to read, and the line that asks for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// First byte in the file.
    pub offset: u64,
    /// Bytes; `offset + length` does not overflow.
    pub length: u64,
    /// Line of the trace, from 1.
    pub line: usize,
}

/// The reads in their order. Errors name the line.
pub(crate) fn parse(mut text: impl BufRead) -> Result<Vec<Wanted>, String> {
    let mut reads = Vec::new();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let mut piece = (&mut text).take(LINE_BYTES_MAX);
        if piece.read_until(b'\n', &mut line).map_err(|error| error.to_string())? == 0 {
            break;
        }
        if line.len() as u64 == LINE_BYTES_MAX && !line.ends_with(b"\n") {
            return Err(format!("line {number}: longer than {LINE_BYTES_MAX} bytes"));
        }
        let words = std::str::from_utf8(&line).map_err(|_| format!("line {number}: not text"))?;
        // Spreadsheets put a byte order mark before the first line.
        let words = if number == 1 { words.strip_prefix('\u{feff}').unwrap_or(words) } else { words }.trim();
        if words.is_empty() || reads.is_empty() && is_heading(words) {
            continue;
        }
        if reads.len() == READS_MAX {
            return Err(format!("line {number}: more than {READS_MAX} reads"));
        }
        reads.push(wanted(words, number)?);
    }
    if reads.is_empty() { Err("no read in it".to_owned()) } else { Ok(reads) }
}

fn wanted(words: &str, line: usize) -> Result<Wanted, String> {
    let numbers = words.split_once(',').and_then(|(offset, length)| {
        let number = |text: &str| text.trim().parse::<u64>().ok();
        Some((number(offset)?, number(length)?))
    });
    let Some((offset, length)) = numbers else {
        return Err(format!("line {line}: expected offset,length, two whole numbers: {words:?}"));
    };
    if offset.checked_add(length).is_none() {
        return Err(format!("line {line}: ends beyond what files can hold"));
    }
    Ok(Wanted { offset, length, line })
}

/// Whether a line names its columns instead of filling them.
fn is_heading(words: &str) -> bool {
    words.split(',').all(|word| word.trim().starts_with(|first: char| first.is_ascii_alphabetic()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(text: &str) -> Result<Vec<(u64, u64, usize)>, String> {
        Ok(parse(text.as_bytes())?.iter().map(|read| (read.offset, read.length, read.line)).collect())
    }

    #[test]
    fn a_heading_is_optional() {
        assert_eq!(reads("0,48\n100,7\n"), Ok(vec![(0, 48, 1), (100, 7, 2)]));
        assert_eq!(reads("offset,length\r\n0,48\r\n\r\n 100 , 7"), Ok(vec![(0, 48, 2), (100, 7, 4)]));
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_line() {
        assert_eq!(reads("\u{feff}offset,length\r\n0,48\r\n"), Ok(vec![(0, 48, 2)]));
        assert_eq!(reads("\u{feff}0,48\n100,7\n"), Ok(vec![(0, 48, 1), (100, 7, 2)]));
        assert!(reads("0,48\n\u{feff}100,7\n").is_err(), "in the middle it is no text of a list");
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let long = format!("0,1\n{},1\n", "7".repeat(400));
        let cases = [
            ("0,48\noffset,length\n", "line 2: expected offset,length"),
            ("0,48\n\n-1,2\n", "line 3: expected offset,length"),
            ("0;48\n", "line 1: expected offset,length"),
            ("0,4,8\n", "line 1: expected offset,length"),
            ("18446744073709551615,1\n", "line 1: ends beyond"),
            ("18446744073709551616,1\n", "line 1: expected"),
            (long.as_str(), "line 2: longer than 256 bytes"),
            ("", "no read"),
            ("offset,length\n", "no read"),
        ];
        for (text, expected) in cases {
            let error = reads(text).expect_err(text);
            assert!(error.starts_with(expected), "{text:?}: {error}");
        }
        assert_eq!(parse(&b"\xff\xfe\n"[..]), Err("line 1: not text".to_owned()));
    }

    #[test]
    fn more_reads_than_the_limit_are_refused() {
        let text = "1,1\n".repeat(READS_MAX);
        assert_eq!(parse(text.as_bytes()).map(|reads| reads.len()), Ok(READS_MAX));
        let error = parse(format!("{text}2,2\n").as_bytes()).expect_err("one too many");
        assert_eq!(error, "line 1000001: more than 1000000 reads");
    }
}
