//! The recordings of a directory, as its thread knows them: for lists, and for what is to be removed.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::names::RecordingName;
use crate::settings::{RecordSettings, Retention};
use crate::storage::Storage;

/// How far a recording is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It is being written.
    InProgress,
    /// Its recording is over, or was cut off, and its index is still to come.
    Unfinished,
    /// It has its name, and stays as it is.
    Complete,
}

impl State {
    /// Name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::InProgress => "in_progress",
            Self::Unfinished => "unfinished",
            Self::Complete => "complete",
        }
    }
}

/// What is known of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// How far it is.
    pub state: State,
    /// Bytes of the file.
    pub bytes: u64,
    /// How long it is played, once that is known.
    pub duration: Option<Duration>,
}

/// All recordings of a directory, in the order of their streams and times.
pub type Catalogue = BTreeMap<RecordingName, Entry>;

/// Reads what is in a directory. Files that no recording has are left out; those without their last name are
/// unfinished.
pub fn read(storage: &mut dyn Storage) -> io::Result<Catalogue> {
    let mut found = Catalogue::new();
    let folders = |entries: Vec<crate::storage::Entry>| entries.into_iter().filter(|entry| entry.is_folder);
    for app in folders(storage.list(Path::new(""))?) {
        for stream in folders(storage.list(Path::new(&app.name))?) {
            let folder = Path::new(&app.name).join(&stream.name);
            for file in storage.list(&folder)? {
                let name = RecordingName::parse(&folder.join(&file.name)).filter(|_| !file.is_folder);
                let Some((name, is_complete)) = name else { continue };
                let state = if is_complete { State::Complete } else { State::Unfinished };
                found.insert(name, Entry { state, bytes: file.bytes, duration: None });
            }
        }
    }
    Ok(found)
}

/// Complete recordings that are not to be kept at `now` since 1970, the oldest first.
pub(crate) fn expired(
    catalogue: &Catalogue,
    settings: &RecordSettings,
    directory: &Path,
    now: Duration,
) -> Vec<RecordingName> {
    let mut of_rule: BTreeMap<usize, (Retention, Vec<_>)> = BTreeMap::new();
    for (name, entry) in catalogue.iter().filter(|(_, entry)| entry.state == State::Complete) {
        let (app, stream) = name.stream_name();
        let Some(files) = settings.on_demand(&app, &stream).filter(|files| files.directory == directory)
        else {
            // Of a rule that is no longer there: it is kept.
            continue;
        };
        let rule = settings.files().position(|known| std::ptr::eq(known, files)).unwrap_or(0);
        of_rule.entry(rule).or_insert((files.retention, Vec::new())).1.push((name, entry));
    }
    let mut expired = Vec::new();
    for (retention, mut recordings) in of_rule.into_values() {
        // The newest first: what is kept is counted from there.
        recordings.sort_by_key(|(name, _)| (std::cmp::Reverse(name.start), *name));
        let mut files: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        let mut bytes = 0;
        for (name, entry) in recordings {
            let count = files.entry((&name.app, &name.stream)).or_default();
            *count += 1;
            bytes += entry.bytes;
            // A clock that was set back makes nothing old.
            let age = now.saturating_sub(name.start);
            let is_old = retention.age.is_some_and(|most| age > most);
            let is_many = retention.files.is_some_and(|most| *count > most);
            let is_large = retention.bytes.is_some_and(|most| bytes > most);
            if is_old || is_many || is_large {
                expired.push(name.clone());
            }
        }
    }
    expired.sort_by_key(|name| name.start);
    expired
}

#[cfg(test)]
mod tests {
    use worker_api::pattern::Pattern;

    use super::*;
    use crate::settings::{FileSettings, Format, Rotation, Rule};

    fn files(retention: Retention) -> FileSettings {
        let rotation = Rotation { after: Duration::from_secs(60), bytes: u64::MAX };
        FileSettings { directory: "/r".into(), format: Format::Mp4, rotation, retention }
    }

    fn settings(rules: Vec<(&str, Retention)>) -> RecordSettings {
        let rule =
            |(pattern, retention)| Rule { pattern: Pattern::new(pattern), files: Some(files(retention)) };
        RecordSettings {
            by_default: None,
            rules: rules.into_iter().map(rule).collect(),
            fragment: Duration::from_secs(1),
            sync: None,
            queue_bytes: 1,
            queue: Duration::from_secs(1),
            recordings_max: 1,
        }
    }

    /// Starts in seconds of what is removed at second 1000, of recordings of 10 bytes.
    fn removed(recordings: &[(&str, u64)], rules: Vec<(&str, Retention)>) -> Vec<u64> {
        let entry = Entry { state: State::Complete, bytes: 10, duration: None };
        let catalogue: Catalogue = recordings
            .iter()
            .map(|(stream, start)| {
                (RecordingName::new("live", stream, Duration::from_secs(*start), Format::Mp4), entry.clone())
            })
            .collect();
        let expired = expired(&catalogue, &settings(rules), Path::new("/r"), Duration::from_secs(1000));
        expired.iter().map(|name| name.start.as_secs()).collect()
    }

    #[test]
    fn recordings_go_by_age_count_and_bytes_the_oldest_first() {
        let all = [("a", 100), ("b", 200), ("a", 300), ("a", 400), ("b", 2000)];
        let none = Retention::default();
        assert_eq!(removed(&all, vec![("live/*", none)]), [0; 0]);
        let age = Retention { age: Some(Duration::from_secs(700)), ..none };
        assert_eq!(removed(&all, vec![("live/*", age)]), [100, 200], "2000 is in the future: not old");
        let count = Retention { files: Some(1), ..none };
        assert_eq!(removed(&all, vec![("live/*", count)]), [100, 200, 300], "of each stream");
        let bytes = Retention { bytes: Some(25), ..none };
        assert_eq!(removed(&all, vec![("live/*", bytes)]), [100, 200, 300], "of all streams");
        assert_eq!(removed(&all, vec![("live/a", bytes), ("*", none)]), [100], "of the streams of a rule");
        assert_eq!(removed(&all, vec![("other/*", count)]), [0; 0], "no rule is for them");
    }
}
