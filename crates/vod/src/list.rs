//! What there is to play.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use recording::catalogue::State;
use recording::settings::Format;

use crate::VodError;
use crate::library::{Library, Slot, read};
use crate::names::{Source, is_playable_name};

/// Entries of folders that are looked at for a list.
const ENTRIES_MAX: usize = 100_000;
/// Folders within each other.
const DEPTH_MAX: usize = 32;

/// What is listed.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// Only what has a path that begins so.
    pub prefix: String,
    /// Only what comes behind this path: the last one of the page before.
    pub after: String,
    /// At most so many.
    pub limit: usize,
}

/// A page of the list, in the order of paths.
#[derive(Debug)]
pub struct Listed {
    /// What can be played.
    pub items: Vec<Item>,
    /// Whether there is more behind the last.
    pub has_more: bool,
    /// Whether folders were left out because there are too many files.
    pub is_cut: bool,
}

/// Which kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemKind {
    /// A file below `vod.root`.
    File,
    /// A recording, and how far it is.
    Recording(State),
}

/// A file that can be played.
#[derive(Debug)]
pub struct Item {
    /// Its path in requests.
    pub path: String,
    /// What it is.
    pub source: Source,
    /// Which kind of file.
    pub kind: ItemKind,
    /// Bytes of it.
    pub bytes: u64,
    /// How long it is, if that is known.
    pub duration: Option<Duration>,
    /// Its codecs, if it was played lately.
    pub codecs: Vec<String>,
    /// When a recording begins, since 1970.
    pub start: Option<Duration>,
}

impl Library {
    /// What there is to play. Files of other servers are not listed: nobody knows which there are.
    ///
    /// # Errors
    /// `vod.root` cannot be read.
    pub async fn list(&self, _slot: Slot, listing: Listing) -> Result<Listed, VodError> {
        let library = self.clone();
        let inner = Arc::clone(&self.inner);
        inner.block(false, move || library.list_now(&listing)).await
    }

    fn list_now(&self, listing: &Listing) -> Result<Listed, VodError> {
        let mut items = Vec::new();
        let is_listed = |path: &str| path.starts_with(&listing.prefix) && path > &listing.after[..];
        for (_, name, entry) in self.inner.recordings.iter().flat_map(|recordings| recordings.list()) {
            let (app, stream) = name.stream_name();
            // Names that were cut cannot be asked for.
            if name.format != Format::Mp4 || name.app.contains('~') || name.stream.contains('~') {
                continue;
            }
            let source = Source::Recording { app, stream, file: name.file_name() };
            let path = source.url_path();
            if is_listed(&path) {
                items.push(Item {
                    path,
                    source,
                    kind: ItemKind::Recording(entry.state),
                    bytes: entry.bytes,
                    duration: entry.duration,
                    codecs: Vec::new(),
                    start: Some(name.start),
                });
            }
        }
        let mut is_cut = false;
        if let Some(root) = &self.inner.settings.root {
            let (files, cut) = files_below(root)?;
            is_cut = cut;
            for (path, bytes) in files {
                let source = Source::File { path };
                let path = source.url_path();
                if is_listed(&path) {
                    let kind = ItemKind::File;
                    let (duration, codecs, start) = (None, Vec::new(), None);
                    items.push(Item { path, source, kind, bytes, duration, codecs, start });
                }
            }
        }
        items.sort_by(|a, b| a.path.cmp(&b.path));
        let has_more = items.len() > listing.limit;
        items.truncate(listing.limit);
        for item in &mut items {
            let known = self.inner.cache.peek(&item.source).and_then(|known| known.film.ok());
            if let Some(film) = known {
                let film = read(&film);
                item.codecs = film.codecs();
                item.duration = item.duration.or(Some(film.duration()));
            }
        }
        Ok(Listed { items, has_more, is_cut })
    }
}

/// Files below a directory that may be played, with their paths there and their bytes; links are not
/// followed.
fn files_below(root: &Path) -> Result<(Vec<(String, u64)>, bool), VodError> {
    let mut found = Vec::new();
    let mut folders: Vec<(PathBuf, String, usize)> = vec![(root.to_owned(), String::new(), 0)];
    let mut left = ENTRIES_MAX;
    while let Some((folder, path, depth)) = folders.pop() {
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            // One that is not readable, or has gone meanwhile, has nothing to play.
            Err(_) if depth > 0 => continue,
            Err(error) => return Err(error.into()),
        };
        for entry in entries.flatten() {
            let Some(next) = left.checked_sub(1) else { return Ok((found, true)) };
            left = next;
            let (Ok(name), Ok(kind)) = (entry.file_name().into_string(), entry.file_type()) else { continue };
            if name.starts_with('.') {
                continue;
            }
            let below = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
            if kind.is_dir() && depth + 1 < DEPTH_MAX {
                folders.push((entry.path(), below, depth + 1));
            } else if kind.is_file()
                && is_playable_name(&name)
                && let Ok(metadata) = entry.metadata()
            {
                found.push((below, metadata.len()));
            }
        }
    }
    Ok((found, false))
}
