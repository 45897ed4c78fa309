//! Application and stream names: what is accepted, and where their `?query` is.
//!
//! A stream is `app/name`. Names come from the network and end up in logs, URLs, metrics and JSON, later in
//! file names, so what is odd is refused here, for every protocol, and not repaired. Names are compared as
//! they are: two spellings of one letter (Unicode normalization) are two names.

use std::fmt;
use std::sync::Arc;

use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

/// Longest application or stream name, in bytes, without its query.
pub const NAME_BYTES_MAX: usize = 255;

/// Longest query, in bytes. Longer ones are refused: a token is a few hundred bytes.
pub const QUERY_BYTES_MAX: usize = 4096;

/// Accepted besides letters and digits: what a URL path needs no escapes for (RFC 3986 section 3.3), without
/// what shells, HTML and SQL give a meaning to.
const PUNCTUATION: &str = "-_.~+@:";

/// Which names the streams of this server may have.
///
/// A name is 1 to [`NAME_BYTES_MAX`] bytes of UTF-8: letters and digits of any script, combining marks behind
/// them, `-_.~+@:`, and the extra characters of the rules. An application has parts, divided by `/`. No part
/// is empty or begins with a dot, as `..` and hidden files do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NameRules {
    extra: Arc<str>,
}

/// Why a name is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameError {
    /// It, or a part of it, is empty.
    Empty,
    /// It is longer than [`NAME_BYTES_MAX`].
    TooLong,
    /// A part begins with a dot.
    Dot,
    /// The name of a stream has a slash.
    Slash,
    /// It has a character that is not accepted, or not there.
    Character,
    /// Its query is longer than [`QUERY_BYTES_MAX`] or has control characters.
    Query,
}

impl NameRules {
    /// Rules that accept the characters of `extra`, too.
    ///
    /// # Errors
    /// A character that no name may have: a control character, an invisible one, `/`, `\`, `?` or `#`.
    pub fn new(extra: &str) -> Result<Self, char> {
        let never = |c: &char| c.is_control() || is_invisible(*c) || "/\\?#\u{fffd}".contains(*c);
        extra.chars().find(never).map_or_else(|| Ok(Self { extra: extra.into() }), Err)
    }

    /// Checks the stream `app/name`.
    pub fn check(&self, app: &str, name: &str) -> Result<(), NameError> {
        self.check_parts(app)?;
        if name.contains('/') { Err(NameError::Slash) } else { self.check_parts(name) }
    }

    /// Splits the `name?query` of a `publish` or `play` command and checks both; the query is empty when
    /// there is none. The name may have slashes; see [`stream_of`].
    pub fn split_name<'a>(&self, text: &'a str) -> Result<(&'a str, &'a str), NameError> {
        let (name, query) = text.split_once('?').unwrap_or((text, ""));
        self.check_parts(name)?;
        if is_valid_query(query) { Ok((name, query)) } else { Err(NameError::Query) }
    }

    /// Splits and checks the `app` of a `connect` command.
    ///
    /// As [`split_name`](Self::split_name), but a slash at either end (`rtmp://host/app/` gives `app/`) and
    /// the default instance (`app/_definst_`) of Flash Media Server are taken off first.
    pub fn split_app<'a>(&self, text: &'a str) -> Result<(&'a str, &'a str), NameError> {
        let (app, query) = text.split_once('?').unwrap_or((text, ""));
        let app = app.trim_end_matches('/');
        let app = app.strip_suffix("/_definst_").unwrap_or(app);
        let app = app.strip_prefix('/').unwrap_or(app);
        self.check_parts(app)?;
        if is_valid_query(query) { Ok((app, query)) } else { Err(NameError::Query) }
    }

    fn check_parts(&self, name: &str) -> Result<(), NameError> {
        if name.len() > NAME_BYTES_MAX {
            return Err(NameError::TooLong);
        }
        for part in name.split('/') {
            if part.is_empty() {
                return Err(NameError::Empty);
            }
            if part.starts_with('.') {
                return Err(NameError::Dot);
            }
            // Scripts of India and South East Asia write vowels as marks behind a letter. Anywhere else a
            // mark would change the look of punctuation, or of what surrounds the name.
            let mut after_letter = false;
            for c in part.chars() {
                // What nearly all names consist of, by each request of each player.
                if c.is_ascii_alphanumeric() {
                    after_letter = true;
                    continue;
                }
                let is_mark = c.general_category_group() == GeneralCategoryGroup::Mark;
                after_letter = !is_invisible(c) && if is_mark { after_letter } else { c.is_alphanumeric() };
                if !after_letter && !PUNCTUATION.contains(c) && !self.extra.contains(c) {
                    return Err(NameError::Character);
                }
            }
        }
        Ok(())
    }
}

impl NameError {
    /// What is wrong, for whoever chose the name.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Empty => "the name, or a part of it between slashes, is empty",
            Self::TooLong => "the name is longer than 255 bytes",
            Self::Dot => "the name, or a part of it between slashes, begins with a dot",
            Self::Slash => "the name of a stream has a slash: only applications may",
            Self::Character => {
                "the name has a character other than letters, digits, -_.~+@: and those of limits.name_extra_characters"
            }
            Self::Query => "what follows the name is longer than 4096 bytes or has control characters",
        }
    }
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl std::error::Error for NameError {}

/// Application and name of the stream that a client means by `name` once it is connected to `app`: what
/// comes before the last slash belongs to the application, as in the URLs of all other protocols.
pub fn stream_of(app: &str, name: &str) -> (String, String) {
    match name.rsplit_once('/') {
        Some((more, name)) => (format!("{app}/{more}"), name.to_owned()),
        None => (app.to_owned(), name.to_owned()),
    }
}

/// Value of `key` in a `key=value&key=value` query, percent-decoded; the first one if repeated.
///
/// `None` when it is not there or does not decode to UTF-8; [`has_query_key`] tells which.
pub fn query_value(query: &str, key: &str) -> Option<String> {
    let value = query.split('&').filter_map(|pair| pair.split_once('=')).find(|(name, _)| *name == key)?.1;
    percent_decode(value)
}

/// Whether a query has `key`, with a value or without.
pub fn has_query_key(query: &str, key: &str) -> bool {
    query.split('&').any(|pair| pair.split_once('=').map_or(pair, |(name, _)| name) == key)
}

/// Whether `c` is not seen, or changes the order in which others are seen (bidirectional controls): format
/// characters, line separators, and the letters and marks among `Default_Ignorable_Code_Point`.
fn is_invisible(c: char) -> bool {
    use GeneralCategory::{Format, LineSeparator, ParagraphSeparator};
    matches!(c.general_category(), Format | LineSeparator | ParagraphSeparator)
        || matches!(
            c,
            '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{3164}' | '\u{ffa0}'
        )
        || matches!(c, '\u{180b}'..='\u{180f}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0000}'..='\u{e0fff}')
}

pub(super) fn is_valid_query(query: &str) -> bool {
    query.len() <= QUERY_BYTES_MAX && !query.contains(|c: char| c.is_control() || c == '\u{fffd}')
}

fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let (digits, tail) = tail.split_first_chunk::<2>()?;
        let digit = |byte: u8| char::from(byte).to_digit(16);
        bytes.push((digit(digits[0])? * 16 + digit(digits[1])?) as u8);
        rest = tail;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_split_from_their_query() {
        use NameError::{Character, Dot, Empty, Query, TooLong};
        for (text, expected) in [
            ("clock", Ok(("clock", ""))),
            ("clock?token=a", Ok(("clock", "token=a"))),
            ("clock?a=b?c", Ok(("clock", "a=b?c"))),
            ("clock?$(id)=%20", Ok(("clock", "$(id)=%20"))), // a query is no name
            ("camera/1", Ok(("camera/1", ""))),
            ("", Err(Empty)),
            ("?token=a", Err(Empty)),
            ("/clock", Err(Empty)),
            ("clock/", Err(Empty)),
            ("a//b", Err(Empty)),
            ("a/../b", Err(Dot)),
            ("..", Err(Dot)),
            (".", Err(Dot)),
            ("a\\b", Err(Character)),
            ("a?b\0", Err(Query)),
        ] {
            assert_eq!(NameRules::default().split_name(text), expected, "{text:?}");
        }
        let rules = NameRules::default();
        assert!(rules.split_name(&"x".repeat(NAME_BYTES_MAX)).is_ok());
        assert_eq!(rules.split_name(&"x".repeat(NAME_BYTES_MAX + 1)), Err(TooLong));
        assert_eq!(rules.split_name(&format!("x?{}", "y".repeat(QUERY_BYTES_MAX + 1))), Err(Query));
    }

    #[test]
    fn names_have_letters_and_digits_of_any_script() {
        let rules = NameRules::default();
        for name in [
            "Mill_2.a~b+c@d:e-",
            "-",
            "a..b.",
            "Übung",
            "U\u{308}bung", // the same in two characters
            "Ελλάδα",
            "кино",
            "直播",
            "ライブ",
            "생방송",
            "שידור",
            "بث",
            "हिन्दी", // vowel signs and a virama
            "ไทยที่",  // two marks in a row
            "தமிழ்",
            "४२",
        ] {
            assert_eq!(rules.check("live", name), Ok(()), "{name}");
            assert_eq!(rules.check(&format!("a/{name}"), "x"), Ok(()), "{name}");
        }
    }

    #[test]
    fn what_means_something_elsewhere_is_refused_and_what_is_not_seen() {
        use NameError::{Character, Dot, Empty, Slash};
        let rules = NameRules::default();
        let in_ascii = (0..=127u8).map(char::from).filter(|c| !c.is_ascii_alphanumeric() && *c != '/');
        for c in in_ascii.filter(|c| !PUNCTUATION.contains(*c)) {
            assert_eq!(rules.check("live", &format!("a{c}b")), Err(Character), "{c:?}");
        }
        for (name, expected) in [
            ("%20", Character),
            ("con<script>", Character),
            ("$(id)", Character),
            (".hidden", Dot),
            ("a/b", Slash),
            ("", Empty),
            ("\u{301}a", Character), // a mark without a letter
            ("a-\u{301}", Character),
            ("\u{93f}a", Character),
            ("a\u{34f}\u{301}", Character),
            ("a\u{200b}b", Character), // zero width space
            ("क\u{200d}ष", Character), // zero width joiner
            ("a\u{202e}b", Character), // right-to-left override
            ("a\u{2066}b", Character),
            ("\u{feff}a", Character),
            ("a\u{fe0f}", Character),
            ("a\u{e0061}", Character),
            ("\u{3164}", Character), // a letter that is not seen
            ("a\u{85}", Character),
            ("a\u{2028}", Character),
            ("a\u{a0}b", Character),
            ("a\u{fffd}", Character),
            ("a\u{ff0f}b", Character), // a wide slash
            ("\u{1f3ac}", Character),
        ] {
            assert_eq!(rules.check("live", name), Err(expected), "{name:?}");
        }
        for (app, expected) in
            [("", Empty), ("a//b", Empty), ("a/.b", Dot), ("a/..", Dot), ("a b", Character)]
        {
            assert_eq!(rules.check(app, "x"), Err(expected), "{app:?}");
        }
    }

    #[test]
    fn rules_are_widened_but_not_to_what_no_name_may_have() {
        let rules = NameRules::new(" %\u{1f3ac}").expect("rules");
        assert_eq!(rules.check("a b", "100%\u{1f3ac}"), Ok(()));
        assert_eq!(rules.check("live", "a$"), Err(NameError::Character));
        for never in ['/', '\\', '?', '#', '\n', '\u{7f}', '\u{200b}', '\u{202e}', '\u{fffd}'] {
            assert_eq!(NameRules::new(&format!(" {never}")), Err(never));
        }
    }

    #[test]
    fn apps_lose_slashes_and_the_default_instance() {
        for (text, expected) in [
            ("live", Ok(("live", ""))),
            ("live/", Ok(("live", ""))),
            ("/live", Ok(("live", ""))),
            ("live/_definst_", Ok(("live", ""))),
            ("live/_definst_/", Ok(("live", ""))),
            ("a/b?token=c", Ok(("a/b", "token=c"))),
            ("live/?token=c", Ok(("live", "token=c"))),
            ("/", Err(NameError::Empty)),
            ("../live", Err(NameError::Dot)),
        ] {
            assert_eq!(NameRules::default().split_app(text), expected, "{text:?}");
        }
    }

    #[test]
    fn slashes_of_a_name_belong_to_the_application() {
        let stream = |app: &str, name: &str| (app.to_owned(), name.to_owned());
        assert_eq!(stream_of("live", "mill"), stream("live", "mill"));
        assert_eq!(stream_of("live", "deep/er/mill"), stream("live/deep/er", "mill"));
    }

    #[test]
    fn query_values_are_percent_decoded() {
        let query = "a=1&token=x%2By%3D&bad=%zz&cut=%2&latin=%ff&a=2&empty=";
        for (key, expected) in [
            ("a", Some("1")),
            ("token", Some("x+y=")),
            ("bad", None),
            ("cut", None),
            ("latin", None),
            ("empty", Some("")),
            ("b", None),
        ] {
            assert_eq!(query_value(query, key).as_deref(), expected, "{key}");
            assert_eq!(has_query_key(query, key), key != "b", "{key}");
        }
        assert!(has_query_key("a=1&bare", "bare") && !has_query_key("a=bare&c=b", "bare"));
    }
}
