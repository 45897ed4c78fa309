//! What there is to play.

use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use recording::catalogue::State;

use crate::library::{Inner, Library, Slot, read};
use crate::names::{Source, is_playable_name};
use crate::source::open_local;
use crate::{Film, VodError};

/// Entries of folders that are looked at for a list.
const ENTRIES_MAX: usize = 100_000;
/// Files that are looked into for one page: the next request for it finds these known. That of a
/// film of two hours has 3 MB of index.
const LOOKS_MAX: usize = 64;
/// Files of which it is kept what was found.
const LOOKED_MAX: usize = 16_384;
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
    /// Its codecs, if it was looked into.
    pub codecs: Vec<String>,
    /// Why it is not played by HLS and DASH, if it was looked into and is not.
    pub unplayable: Option<String>,
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
            if name.app.contains('~') || name.stream.contains('~') {
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
                    unplayable: None,
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
                    let (duration, codecs, unplayable, start) = (None, Vec::new(), None, None);
                    items.push(Item { path, source, kind, bytes, duration, codecs, unplayable, start });
                }
            }
        }
        items.sort_by(|a, b| a.path.cmp(&b.path));
        let has_more = items.len() > listing.limit;
        items.truncate(listing.limit);
        let mut left = LOOKS_MAX;
        for item in &mut items {
            match self.inner.cache.peek(&item.source).map(|known| known.film) {
                Some(Ok(film)) => {
                    let film = read(&film);
                    item.codecs = film.codecs();
                    item.duration = item.duration.or(Some(film.duration()));
                }
                Some(Err(error)) => item.unplayable = reason(error),
                None => match self.inner.look(&item.source, &mut left) {
                    Ok(codecs) => item.codecs = codecs,
                    Err(error) => item.unplayable = reason(error),
                },
            }
        }
        Ok(Listed { items, has_more, is_cut })
    }
}

impl Inner {
    /// The codecs of a file: as they were found before, or, if it is not the last that may be
    /// looked into for now, by looking into it.
    fn look(&self, source: &Source, left: &mut usize) -> Result<Vec<String>, VodError> {
        let (file, stamp) = open_local(&self.settings, source)?;
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((before, codecs)) = looked.get(source)
            && (stamp == *before || stamp.is_later_of(before))
        {
            return codecs.clone();
        }
        drop(looked);
        let Some(fewer) = left.checked_sub(1) else { return Ok(Vec::new()) };
        *left = fewer;
        let is_recording = matches!(source, Source::Recording { .. });
        let input = self.input(stamp.length, stamp.grows, is_recording, true);
        let codecs = Film::read_codecs(BufReader::with_capacity(16 << 10, file), input);
        let codecs = codecs.map_err(|error| error.of_file(&source.url_path()));
        let is_known = match &codecs {
            Ok(codecs) => !codecs.is_empty(),
            Err(error) => !stamp.grows && matches!(error, VodError::Unplayable(_)),
        };
        if is_known {
            looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
            if looked.len() >= LOOKED_MAX {
                looked.clear();
            }
            looked.insert(source.clone(), (stamp, codecs.clone()));
        }
        codecs
    }
}

/// What a list says of a file that is not played.
fn reason(error: VodError) -> Option<String> {
    match error {
        VodError::Unplayable(reason) => Some(reason),
        // It is gone meanwhile, or may be read the next time.
        _ => None,
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
