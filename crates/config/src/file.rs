//! Reads the TOML file into entries that remember their line.
//!
//! Knows the structure of the file (sections, lists of tables), not what the keys mean: that is
//! decided in `lib.rs` with the table of `keys.rs`. Syntax errors are reported with their line like
//! every other error.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, Origin};
use super::value::Raw;

/// Lists of tables: path of the list in the file.
pub const LISTS: [&str; 10] = [
    "application",
    "auth.publish",
    "auth.play",
    "pull",
    "push",
    "channel",
    "record.rule",
    "srt.stream",
    "tls.certificates",
    "vod.remote",
];

/// One `key = value`.
#[derive(Debug, Clone)]
pub struct Entry {
    /// `section.name`; within a list only `name`.
    pub path: String,
    /// The value as written.
    pub value: Raw,
    /// Where.
    pub origin: Origin,
}

/// One table of a list such as `[[application]]`.
#[derive(Debug, Clone)]
pub struct ListTable {
    /// Which list, one of `LISTS`.
    pub list: &'static str,
    /// Its keys.
    pub entries: Vec<Entry>,
    /// Where it begins.
    pub origin: Origin,
}

/// The contents of a file, in order.
#[derive(Debug, Clone, Default)]
pub struct FileContent {
    /// Names of the tables at the top, and where they begin.
    pub sections: Vec<(String, Origin)>,
    /// Keys of sections.
    pub entries: Vec<Entry>,
    /// Tables of lists.
    pub tables: Vec<ListTable>,
}

/// Reads `text`; `name` is the file's name in errors.
pub fn parse(name: &str, text: &str) -> Result<FileContent, Vec<ConfigError>> {
    let lines = Lines { name, text };
    let (root, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let explain = |error: &toml::de::Error| {
            let origin = lines.origin(error.span().map_or(0, |span| span.start));
            ConfigError::new(&origin, format!("not valid TOML: {}", error.message()))
        };
        return Err(errors.iter().map(explain).collect());
    }
    let mut content = FileContent::default();
    collect(root.get_ref(), "", &lines, &mut content);
    Ok(content)
}

/// Walks `table`, whose path is `prefix` (empty or ending in a dot).
fn collect(table: &DeTable<'_>, prefix: &str, lines: &Lines<'_>, content: &mut FileContent) {
    for (key, value) in table {
        let path = format!("{prefix}{}", key.get_ref());
        let origin = lines.origin(key.span().start);
        if let Some(list) = LISTS.into_iter().find(|list| *list == path)
            && let Some(items) = tables_of(value.get_ref())
        {
            content.tables.extend(items.into_iter().map(|item| list_table(list, item, lines)));
        } else if let DeValue::Table(inner) = value.get_ref() {
            if prefix.is_empty() {
                content.sections.push((path.clone(), origin));
            }
            collect(inner, &format!("{path}."), lines, content);
        } else {
            content.entries.push(Entry { path, value: raw(value.get_ref()), origin });
        }
    }
}

/// The elements of an array when all of them are tables.
fn tables_of<'a, 'i>(value: &'a DeValue<'i>) -> Option<Vec<&'a Spanned<DeValue<'i>>>> {
    let DeValue::Array(items) = value else { return None };
    let items: Vec<_> = items.iter().collect();
    items.iter().all(|item| item.get_ref().is_table()).then_some(items)
}

fn list_table(list: &'static str, item: &Spanned<DeValue<'_>>, lines: &Lines<'_>) -> ListTable {
    let entry = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
        let key: &Spanned<std::borrow::Cow<'_, str>> = key;
        Entry {
            path: key.get_ref().to_string(),
            value: raw(value.get_ref()),
            origin: lines.origin(key.span().start),
        }
    };
    let entries =
        item.get_ref().as_table().map(|table| table.iter().map(entry).collect()).unwrap_or_default();
    ListTable { list, entries, origin: lines.origin(item.span().start) }
}

fn raw(value: &DeValue<'_>) -> Raw {
    match value {
        DeValue::String(text) => Raw::Text(text.to_string()),
        DeValue::Boolean(value) => Raw::Bool(*value),
        DeValue::Integer(integer) => match i64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(value) => Raw::Integer(value),
            Err(_) => Raw::Unsupported("number that is too large"),
        },
        DeValue::Array(items) => Raw::List(items.iter().map(|item| raw(item.get_ref())).collect()),
        DeValue::Float(_) => Raw::Unsupported("number with a fraction"),
        DeValue::Datetime(moment) => Raw::Moment(moment.to_string()),
        DeValue::Table(_) => Raw::Unsupported("table"),
    }
}

/// Turns byte offsets into line numbers.
struct Lines<'a> {
    name: &'a str,
    text: &'a str,
}

impl Lines<'_> {
    fn origin(&self, offset: usize) -> Origin {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        Origin::File { path: self.name.to_owned(), line }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_and_lists_remember_their_line() {
        let text = "[rtmp]\nlisten = \"*:1\"\n\n[[application]]\nname = \"a\"\nmerge_latency_ms = 0\n[auth]\nmanage='token'\n[[auth.play]]\nstream='*'\n";
        let content = parse("m.toml", text).expect("valid");
        let found: Vec<_> =
            content.entries.iter().map(|entry| format!("{} {}", entry.path, entry.origin)).collect();
        let mut sorted = found.clone();
        sorted.sort();
        assert_eq!(sorted, ["auth.manage m.toml:8", "rtmp.listen m.toml:2"]);
        let lists: Vec<_> = content.tables.iter().map(|table| (table.list, table.entries.len())).collect();
        assert!(lists.contains(&("application", 2)) && lists.contains(&("auth.play", 1)), "{lists:?}");
    }

    #[test]
    fn a_syntax_error_names_its_line() {
        let errors = parse("m.toml", "[rtmp]\nlisten = \n").expect_err("no value");
        assert!(errors[0].to_string().starts_with("m.toml:2: not valid TOML"), "{}", errors[0]);
    }
}
