//! Which files of a directory are complete.

use std::fs::{self, Metadata};
use std::io;
use std::path::Path;
use std::time::UNIX_EPOCH;

use crate::journal::FileIdentity;

/// Folders within folders that are looked into.
const DEPTH_MAX: usize = 8;

/// A complete file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// Path below the directory.
    pub(crate) path: String,
    pub(crate) file: FileIdentity,
}

/// Whether a file of this path below its directory is to be sent: by its ending, and nothing that is hidden.
/// Who writes a file gives it such a name when it is complete.
pub(crate) fn is_complete(path: &str, suffixes: &[String]) -> bool {
    suffixes.iter().any(|suffix| path.ends_with(suffix.as_str()))
        && path.split('/').all(|part| !part.is_empty() && !part.starts_with('.'))
}

pub(crate) fn identity(metadata: &Metadata) -> FileIdentity {
    let modified = metadata.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    FileIdentity { bytes: metadata.len(), modified_ns: modified.map_or(0, |since| since.as_nanos()) }
}

/// All complete files below `directory`, the oldest first. Links are not followed.
///
/// # Errors
/// The directory cannot be read. A folder below it that has just gone is no error.
pub(crate) fn complete_files(directory: &Path, suffixes: &[String]) -> io::Result<Vec<Found>> {
    let mut found = Vec::new();
    let mut folders = vec![(String::new(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        let entries = match fs::read_dir(directory.join(&folder)) {
            Err(error) if depth > 0 && error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            // Names that are not UTF-8 are no names of objects.
            let (Ok(name), Ok(metadata)) = (entry.file_name().into_string(), entry.metadata()) else {
                continue;
            };
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            if metadata.is_dir() && depth < DEPTH_MAX {
                folders.push((path, depth + 1));
            } else if metadata.is_file() && is_complete(&path, suffixes) {
                found.push(Found { path, file: identity(&metadata) });
            }
        }
    }
    found.sort_by(|a, b| (a.file.modified_ns, &a.path).cmp(&(b.file.modified_ns, &b.path)));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_visible_files_with_a_last_name_are_complete() {
        let suffixes = [".mp4".to_owned(), ".flv".to_owned()];
        let cases = [
            ("live/cam/1.mp4", true),
            ("live%2Fx/cam/1.flv", true),
            ("live/cam/1.mp4.part", false),
            (".uploads.journal", false),
            ("live/.hidden/1.mp4", false),
            ("live//1.mp4", false),
            ("1.ts", false),
        ];
        for (path, expected) in cases {
            assert_eq!(is_complete(path, &suffixes), expected, "{path}");
        }
    }
}
