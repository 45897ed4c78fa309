//! Patterns over names: `*` stands for any run of characters, `/` included; everything else for itself.
//!
//! Linear in practice and at worst `pattern * text`; both are short (names have at most 255 bytes).

/// A compiled pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    /// The pattern `text`; every text is one.
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `text` matches as a whole.
    pub fn matches(&self, text: &str) -> bool {
        matches(self.0.as_bytes(), || text.bytes())
    }

    /// Whether `app/stream` matches, without joining them.
    pub fn matches_parts(&self, app: &str, stream: &str) -> bool {
        matches_parts(&self.0, app, stream)
    }
}

/// Whether `app/stream` matches `pattern`.
pub fn matches_parts(pattern: &str, app: &str, stream: &str) -> bool {
    matches(pattern.as_bytes(), || app.bytes().chain([b'/']).chain(stream.bytes()))
}

/// Greedy match with one point to go back to: the last `*` and how far it reached.
fn matches<I: Iterator<Item = u8> + Clone>(pattern: &[u8], text: impl Fn() -> I) -> bool {
    let mut rest = text();
    let mut at = 0;
    let mut back: Option<(usize, I)> = None;
    loop {
        if pattern.get(at) == Some(&b'*') {
            at += 1;
            back = Some((at, rest.clone()));
            continue;
        }
        match (rest.next(), pattern.get(at)) {
            (None, None) => return true,
            (Some(byte), Some(wanted)) if byte == *wanted => at += 1,
            (None, Some(_)) => return false,
            _ => {
                let Some((after_star, from)) = &mut back else { return false };
                if from.next().is_none() {
                    return false;
                }
                at = *after_star;
                rest = from.clone();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_stands_for_any_run() {
        let cases = [
            ("*", "", true),
            ("*", "live/a", true),
            ("live/*", "live/a", true),
            ("live/*", "live/a/b", true),
            ("live/*", "live", false),
            ("live/*", "alive/a", false),
            ("*/cam", "live/cam", true),
            ("*/cam", "live/cam2", false),
            ("a*b*c", "aXbYbZc", true), // the last `*` goes back
            ("a*b*c", "aXbYbZ", false),
            ("live/a", "live/a", true),
            ("live/a", "live/A", false), // names differ in case
            ("", "", true),
            ("", "x", false),
            ("**", "x", true),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(Pattern::new(pattern).matches(text), expected, "{pattern} on {text}");
            if let Some((app, stream)) = text.split_once('/') {
                assert_eq!(
                    Pattern::new(pattern).matches_parts(app, stream),
                    expected,
                    "{pattern} on parts {text}"
                );
            }
        }
    }
}
