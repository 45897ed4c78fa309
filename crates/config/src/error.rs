//! Errors of a configuration, with their locations.
//!
//! All errors of a load are collected, so that one run of `config check` shows all of them.

use std::fmt;

use super::section::Key;
use super::section_keys;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A line of the file.
    File {
        /// The file as it was named.
        path: String,
        /// Line number from 1.
        line: usize,
    },
    /// An environment variable.
    Environment(String),
    /// A flag, with its dashes.
    Flag(String),
    /// Not set anywhere.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line } => write!(f, "{path}:{line}"),
            Self::Environment(name) => write!(f, "environment variable {name}"),
            Self::Flag(name) => write!(f, "{name}"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// Where.
    pub origin: Origin,
    /// What, and what would be right.
    pub message: String,
}

impl ConfigError {
    /// An error at `origin`.
    pub fn new(origin: &Origin, message: impl Into<String>) -> Self {
        Self { origin: origin.clone(), message: message.into() }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.origin {
            Origin::Default => f.write_str(&self.message),
            _ => write!(f, "{}: {}", self.origin, self.message),
        }
    }
}

/// `; the nearest valid one is ...`, for an unknown name; empty when none is near. A name without its
/// section is compared with names alone.
pub fn suggestion(wrong: &str, names: impl IntoIterator<Item = String>) -> String {
    let distance = |name: &str| {
        let compared = if wrong.contains('.') { name } else { name.rsplit('.').next().unwrap_or(name) };
        strsim::damerau_levenshtein(wrong, compared)
    };
    let nearest = names.into_iter().min_by_key(|name| distance(name));
    match nearest.filter(|name| distance(name) <= distance_max(wrong)) {
        Some(name) => nearest_is(&name),
        None => String::new(),
    }
}

/// The same for the name of a key. One that is spelt like another key's flag, path or variable is that key,
/// written the way `show` writes it.
pub fn key_suggestion(
    wrong: &str,
    show: impl Fn(&Key) -> String,
    others: impl IntoIterator<Item = String>,
) -> String {
    let keys = section_keys();
    match keys.iter().find(|key| key.is_spelt(wrong)) {
        Some(key) => nearest_is(&show(key)),
        None => suggestion(wrong, keys.iter().map(show).chain(others)),
    }
}

/// Whether `name` may be what was meant by `wrong`.
pub fn is_near(wrong: &str, name: &str) -> bool {
    strsim::damerau_levenshtein(wrong, name) <= distance_max(wrong)
}

/// A third of the letters, without what all flags and all variables begin with.
fn distance_max(wrong: &str) -> usize {
    wrong.trim_start_matches("MILLSTREAM_").trim_start_matches('-').chars().count().div_ceil(3)
}

fn nearest_is(name: &str) -> String {
    format!("; the nearest valid one is `{name}`")
}
