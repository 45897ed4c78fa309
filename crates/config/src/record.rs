//! Configuration of recordings: `[record]` and `[[record.rule]]`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use recording::settings::{FileSettings, Format, RecordSettings, Retention, Rotation, Rule};
use worker_api::pattern::Pattern;

use super::Config;
use super::keys::Record;
use super::resolve::{Errors, ms, to_u64, to_usize};
use super::value::RecordFormatChoice;

/// What is recorded; `None`: nothing can be.
pub(super) fn settings(config: &Config, errors: &mut Errors) -> Option<RecordSettings> {
    let mut rules = Vec::new();
    for entry in &config.record_rules {
        if entry.rule.stream.is_empty() {
            errors.add(&entry.origin, "[[record.rule]] needs a `stream`, such as \"live/*\"");
        }
        let files = files(&config.rule_record(entry)).filter(|_| entry.rule.record);
        if files.is_none() && entry.rule.record {
            let message = "[[record.rule]] needs a `directory`, its own or that of [record]";
            errors.add(&entry.origin, message);
        }
        rules.push(Rule { pattern: Pattern::new(&entry.rule.stream), files });
    }
    let record = &config.record;
    let settings = RecordSettings {
        by_default: files(record),
        rules,
        fragment: ms(record.fragment_ms),
        sync: Some(ms(record.sync_ms)).filter(|sync| !sync.is_zero()),
        queue_bytes: to_usize(record.queue_bytes),
        queue: seconds(record.queue_seconds),
        recordings_max: to_usize(record.recordings_max),
    };
    (!settings.is_off()).then_some(settings)
}

/// All directories of recordings.
pub(super) fn directories(record: Option<&RecordSettings>) -> Vec<PathBuf> {
    let files = record.into_iter().flat_map(RecordSettings::files);
    let directories: BTreeSet<_> = files.map(|files| files.directory.clone()).collect();
    directories.into_iter().collect()
}

fn files(record: &Record) -> Option<FileSettings> {
    let limit = |value: i64| Some(to_u64(value)).filter(|value| *value > 0);
    (!record.directory.is_empty()).then(|| FileSettings {
        directory: absolute(&record.directory),
        format: match record.format {
            RecordFormatChoice::Mp4 => Format::Mp4,
            RecordFormatChoice::Flv => Format::Flv,
        },
        rotation: Rotation { after: seconds(record.rotate_seconds), bytes: to_u64(record.rotate_bytes) },
        retention: Retention {
            age: limit(record.keep_seconds).map(Duration::from_secs),
            files: limit(record.keep_files).and_then(|files| usize::try_from(files).ok()),
            bytes: limit(record.keep_bytes),
        },
    })
}

/// Two spellings of one directory are one, so that it has one thread: links are resolved where it is there.
fn absolute(directory: &str) -> PathBuf {
    let path = std::path::absolute(directory).unwrap_or_else(|_| Path::new(directory).to_owned());
    std::fs::canonicalize(&path).unwrap_or(path)
}

fn seconds(value: i64) -> Duration {
    Duration::from_secs(to_u64(value))
}
