//! Which rows are shown: words the user types, all of which must fit.
//!
//! A word fits a session by its id, stream, role or protocol, in any case of letters; `worker:`, `stream:`, `role:` and
//! `protocol:` before it ask for one of them. Names repeat over thousands of sessions, so each is looked at once per
//! message, and a session costs one look-up per word.

use std::fmt::Write;

use super::columns::role_of;
use crate::stats::message::{NO_STREAM, StatsMessage};

/// Longest text that is taken; more is not typed.
pub const TEXT_MAX: usize = 100;

/// What is asked of rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    words: Vec<Word>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Word {
    of: Field,
    /// In lower case.
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Any,
    Worker,
    Stream,
    Role,
    Protocol,
}

/// Every field that can be named.
const FIELDS: [(&str, Field); 4] = [
    ("worker", Field::Worker),
    ("stream", Field::Stream),
    ("role", Field::Role),
    ("protocol", Field::Protocol),
];

impl Filter {
    /// Reads what was typed. Everything has a meaning; nothing asks for nothing.
    pub fn new(text: &str) -> Self {
        Self { words: text.split_whitespace().map(Word::new).collect() }
    }

    /// Rows of streams that fit, in the order of the message. Words that only sessions have an answer to let all pass.
    pub fn streams(&self, message: &StatsMessage) -> Vec<u32> {
        let names: Vec<String> = message.streams.name.iter().map(|name| name.to_lowercase()).collect();
        let fits = |word: &Word, row: usize| match word.of {
            Field::Any | Field::Stream => names[row].contains(&word.text),
            Field::Worker | Field::Role | Field::Protocol => true,
        };
        rows(names.len(), |row| self.words.iter().all(|word| fits(word, row)))
    }

    /// Rows of sessions that fit, in the order of the message; only those of `stream` (`app/name`) when one is given.
    pub fn sessions(&self, message: &StatsMessage, stream: Option<&str>) -> Vec<u32> {
        let only = stream.map(|stream| {
            let found = message.streams.name.iter().position(|name| name == stream);
            found.and_then(|row| u32::try_from(row).ok())
        });
        let prepared: Vec<_> = self.words.iter().map(|word| Prepared::new(word, message)).collect();
        let mut id = String::new();
        rows(message.sessions.serial.len(), |row| {
            let stream = message.sessions.stream[row];
            // A stream that is gone has no sessions.
            only.is_none_or(|only| only == Some(stream) && stream != NO_STREAM)
                && prepared.iter().all(|word| word.fits(message, row, &mut id))
        })
    }
}

impl Word {
    fn new(text: &str) -> Self {
        let named = text.split_once(':').and_then(|(name, rest)| {
            let (_, of) = FIELDS.into_iter().find(|(field, _)| name.eq_ignore_ascii_case(field))?;
            Some((of, rest))
        });
        let (of, text) = named.unwrap_or((Field::Any, text));
        Self { of, text: text.to_lowercase() }
    }
}

/// A word with the names of one message that it fits.
struct Prepared<'a> {
    word: &'a Word,
    streams: Vec<bool>,
    protocols: Vec<bool>,
}

impl<'a> Prepared<'a> {
    fn new(word: &'a Word, message: &StatsMessage) -> Self {
        let fits = |names: &[String], of: Field| {
            let asked = word.of == of || word.of == Field::Any;
            names.iter().map(|name| asked && name.to_lowercase().contains(&word.text)).collect()
        };
        Self {
            word,
            streams: fits(&message.streams.name, Field::Stream),
            protocols: fits(&message.protocols, Field::Protocol),
        }
    }

    fn fits(&self, message: &StatsMessage, row: usize, id: &mut String) -> bool {
        let sessions = &message.sessions;
        let stream = || self.streams.get(sessions.stream[row] as usize) == Some(&true);
        let protocol = || self.protocols[usize::from(sessions.protocol[row])];
        let role = || role_of(message, row).contains(&self.word.text);
        match self.word.of {
            Field::Stream => stream(),
            Field::Protocol => protocol(),
            Field::Role => role(),
            Field::Worker => {
                id.clear();
                let _ = write!(id, "{}", sessions.worker[row]);
                *id == self.word.text
            }
            Field::Any => {
                id.clear();
                let _ = write!(id, "{}-{}", sessions.worker[row], sessions.serial[row]);
                stream() || protocol() || role() || id.starts_with(&self.word.text)
            }
        }
    }
}

/// Those of `count` rows that `fit`.
fn rows(count: usize, mut fit: impl FnMut(usize) -> bool) -> Vec<u32> {
    (0..u32::try_from(count).unwrap_or(u32::MAX)).filter(|row| fit(*row as usize)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::sample;

    #[test]
    fn all_words_must_fit() {
        let mut message = sample::message(2, 3, 12);
        message.sessions.stream[11] = NO_STREAM;
        let cases: [(&str, &[u32]); 13] = [
            ("", &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]),
            ("cam001", &[1, 4, 7, 10]),
            ("CAM001  whep", &[1, 4, 7, 10]), // every third session is of that stream and protocol
            ("cam001 rtmp", &[]),
            ("role:publisher", &[0, 1, 2]),
            ("publisher worker:1", &[1]),
            ("worker:1 stream:cam002", &[5]),
            ("1-1", &[1, 11]), // the beginning of an id
            ("protocol:FLV", &[2, 5, 8, 11]),
            ("stream:rtmp", &[]), // a protocol, and no stream
            ("stream:live", &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
            ("mood:fine", &[]), // no such field: part of a name
            ("worker:", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(Filter::new(text).sessions(&message, None), expected, "{text}");
        }
    }

    #[test]
    fn sessions_of_one_stream_are_those_of_its_exact_name() {
        let mut message = sample::message(1, 3, 9);
        message.streams.name[1] = "live/cam0001".to_owned();
        message.streams.name[2] = "live/cam000".to_owned();
        message.streams.name[0] = "live/cam".to_owned();
        let filter = Filter::default();
        assert_eq!(filter.sessions(&message, Some("live/cam000")), [2, 5, 8]);
        assert_eq!(Filter::new("player").sessions(&message, Some("live/cam")), [3, 6]);
        message.sessions.stream.fill(NO_STREAM);
        assert!(filter.sessions(&message, Some("gone")).is_empty());
    }

    #[test]
    fn streams_are_filtered_by_their_names() {
        let message = sample::message(1, 12, 12);
        assert_eq!(Filter::new("CAM01 live").streams(&message), [10, 11]);
        assert_eq!(Filter::new("stream:cam003 role:player").streams(&message), [3]);
        assert!(Filter::new("whep").streams(&message).is_empty());
    }
}
