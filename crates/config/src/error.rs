//! Errors of a configuration, with their locations.
//!
//! All errors of a load are collected, so that one run of `config check` shows all of them.

use std::fmt;

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

/// `; the nearest valid one is ...`, for an unknown name. A name without its section is compared
/// with names alone.
pub fn suggestion(wrong: &str, names: impl IntoIterator<Item = String>) -> String {
    let distance = |name: &str| {
        let compared = if wrong.contains('.') { name } else { name.rsplit('.').next().unwrap_or(name) };
        strsim::damerau_levenshtein(wrong, compared)
    };
    match names.into_iter().min_by_key(|name| distance(name)) {
        Some(name) => format!("; the nearest valid one is `{name}`"),
        None => String::new(),
    }
}
