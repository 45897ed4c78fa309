//! Which rows are shown: words the user types, all of which must match.
//!
//! A word matches the id, stream, role or protocol of a session, ignoring case; the prefixes
//! `worker:`, `stream:`, `role:` and `protocol:` select one of them. Names repeat over thousands of
//! sessions, so each is compared once per message, and a session costs one look-up per word.

use std::fmt::Write;

use super::columns::{ROLES, role_of};
use stats::message::StatsMessage;

/// Maximum length of the text.
pub(crate) const TEXT_MAX: usize = 100;

/// The parsed filter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Filter {
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

/// All fields.
const FIELDS: [(&str, Field); 4] = [
    ("worker", Field::Worker),
    ("stream", Field::Stream),
    ("role", Field::Role),
    ("protocol", Field::Protocol),
];

impl Filter {
    /// Parses the text. Any text is valid, though no row may match ([`Filter::check`]); the empty
    /// filter matches everything.
    pub(crate) fn new(text: &str) -> Self {
        Self { words: text.split_whitespace().map(Word::new).collect() }
    }

    /// Whether rows could match: `NAME:` must be a field, and its value a possible one, where the
    /// values are known (for workers and protocols from `message`). It is not an error that no
    /// stream or session matches at the moment. The error lists the possible values.
    pub(crate) fn check(&self, message: Option<&StatsMessage>) -> Result<(), String> {
        self.words.iter().try_for_each(|word| word.check(message))
    }

    /// Rows of `message` that match, in its order.
    ///
    /// A stream matches by its name, or because one of its sessions matches. If `stream`
    /// (`app/name`) is given, only its sessions are listed.
    pub(crate) fn apply(&self, message: &StatsMessage, stream: Option<&str>) -> Fitting {
        let prepared: Vec<_> = self.words.iter().map(|word| Prepared::new(word, message)).collect();
        let of = &message.sessions.stream;
        let mut id = String::new();
        let mut sessions = rows(of.len(), |row| prepared.iter().all(|word| word.fits(message, row, &mut id)));
        let mut fits: Vec<bool> = (0..message.streams.name.len())
            .map(|row| prepared.iter().all(|word| word.streams[row]))
            .collect();
        for row in &sessions {
            if let Some(fits) = fits.get_mut(of[*row as usize] as usize) {
                *fits = true;
            }
        }
        if let Some(stream) = stream {
            let only = message.streams.name.iter().position(|name| name == stream);
            // A stream that has ended has no sessions.
            sessions.retain(|row| only == Some(of[*row as usize] as usize));
        }
        Fitting { streams: rows(fits.len(), |row| fits[row]), sessions }
    }
}

/// Rows that match.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fitting {
    /// Rows of `streams`.
    pub streams: Vec<u32>,
    /// Rows of `sessions`.
    pub sessions: Vec<u32>,
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

    fn check(&self, message: Option<&StatsMessage>) -> Result<(), String> {
        let text = &self.text;
        let one_of = |what: &str, there_are: &[String]| {
            if there_are.iter().any(|name| name.to_lowercase().contains(text)) {
                return Ok(());
            }
            Err(format!("no {what} is `{text}`; there are {}", there_are.join(", ")))
        };
        match (self.of, message) {
            (Field::Any, _) => check_field(text),
            (Field::Role, _) => one_of("role", &ROLES.map(str::to_owned)),
            (Field::Protocol, Some(message)) => one_of("protocol", &message.protocols),
            (Field::Worker, message) => check_worker(text, message),
            (Field::Stream, _) | (Field::Protocol, None) => Ok(()),
        }
    }
}

/// Whether a word has an unknown field's name before its colon. Names of streams may contain colons
/// too, but only after the application's name or `stream:`.
fn check_field(text: &str) -> Result<(), String> {
    match text.split_once(':') {
        Some((name, _)) if !name.is_empty() && name.chars().all(char::is_alphabetic) => {
            let names: Vec<_> = FIELDS.iter().map(|(name, _)| format!("{name}:")).collect();
            Err(format!("there is no `{name}:`, only {}; or stream:{text}", names.join(", ")))
        }
        _ => Ok(()),
    }
}

fn check_worker(text: &str, message: Option<&StatsMessage>) -> Result<(), String> {
    let index = text.parse().ok().filter(|index: &u16| index.to_string() == text);
    let index = index.ok_or_else(|| format!("worker:{text} is no number of a worker"))?;
    let Some(message) = message else { return Ok(()) };
    let there_are = &message.workers.index;
    if there_are.contains(&index) {
        return Ok(());
    }
    let most = there_are.iter().max().map_or("none".to_owned(), |most| format!("0 to {most}"));
    Err(format!("there is no worker {index}, but {most}"))
}

/// A word with the names in one message that it matches.
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

/// Those of `count` rows that match.
fn rows(count: usize, mut fit: impl FnMut(usize) -> bool) -> Vec<u32> {
    (0..u32::try_from(count).unwrap_or(u32::MAX)).filter(|row| fit(*row as usize)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use stats::message::NO_STREAM;

    fn sessions(text: &str, message: &StatsMessage, stream: Option<&str>) -> Vec<u32> {
        Filter::new(text).apply(message, stream).sessions
    }

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
            assert_eq!(sessions(text, &message, None), expected, "{text}");
        }
    }

    #[test]
    fn what_no_row_could_ever_fit_is_an_error() {
        let message = sample::message(2, 3, 12);
        let cases = [
            ("", None),
            ("role:PLAY protocol:flv worker:1 stream:gone nobody live/cam:1 :", None),
            ("stream:cam:1 1:2", None),
            (
                "whep mood:fine",
                Some("no `mood:`, only worker:, stream:, role:, protocol:; or stream:mood:fine"),
            ),
            ("role:nobody", Some("no role is `nobody`; there are publisher, player, pending")),
            ("protocol:srt", Some("no protocol is `srt`; there are rtmp, whep, http-flv")),
            ("worker:2", Some("there is no worker 2, but 0 to 1")),
            ("worker:", Some("worker: is no number")),
            ("worker:-1", Some("worker:-1 is no number")),
            ("worker:01", Some("worker:01 is no number")),
        ];
        for (text, expected) in cases {
            let found = Filter::new(text).check(Some(&message)).err();
            match (&found, expected) {
                (Some(error), Some(expected)) => assert!(error.contains(expected), "{text}: {error}"),
                _ => assert_eq!(found.as_deref(), expected, "{text}"),
            }
        }
        for text in ["protocol:srt", "worker:2"] {
            assert_eq!(Filter::new(text).check(None), Ok(()), "{text}: it depends on the server");
        }
    }

    #[test]
    fn sessions_of_one_stream_are_those_of_its_exact_name() {
        let mut message = sample::message(1, 3, 9);
        message.streams.name = ["live/cam", "live/cam0001", "live/cam000"].map(str::to_owned).to_vec();
        assert_eq!(sessions("", &message, Some("live/cam000")), [2, 5, 8]);
        assert_eq!(sessions("player", &message, Some("live/cam")), [3, 6]);
        assert_eq!(Filter::default().apply(&message, Some("live/cam")).streams, [0, 1, 2]);
        message.sessions.stream.fill(NO_STREAM);
        assert!(sessions("", &message, Some("gone")).is_empty());
    }

    #[test]
    fn streams_fit_by_name_or_by_a_session() {
        let mut message = sample::message(1, 12, 24); // the last twelve are players
        message.sessions.stream[13] = NO_STREAM;
        let cases: [(&str, &[u32]); 5] = [
            ("CAM01 live", &[10, 11]),
            ("stream:cam003 role:player", &[3]),
            ("whep role:player", &[4, 7, 10]), // of 1 the player has left
            ("0-2", &[2, 8, 9, 10, 11]),       // 0-2, and 0-20 to 0-23
            ("nothing", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(Filter::new(text).apply(&message, None).streams, expected, "{text}");
        }
        message.sessions = sample::message(1, 12, 0).sessions;
        assert_eq!(Filter::new("cam011").apply(&message, None).streams, [11], "without any session");
    }
}
