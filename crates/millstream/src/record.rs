//! `millstream record`: recordings of a directory, listed, checked and repaired without a server.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, UNIX_EPOCH};

use recording::catalogue::{Entry, State};
use recording::names::RecordingName;
use recording::repair::{self, Repaired, Verdict};
use recording::settings::RecordSettings;
use recording::storage::{Directory, Storage};
use worker_api::time;

use crate::cli::{RecordAction, RecordArgs};

/// Does it; the exit code says whether all recordings are sound, or could be repaired.
pub(crate) fn run(action: &RecordAction, configured: Option<&RecordSettings>) -> ExitCode {
    let (RecordAction::List(args) | RecordAction::Verify(args) | RecordAction::Repair(args)) = action;
    let directories = directories(args, configured);
    if directories.is_empty() {
        eprintln!("error: no directory: give one, or configure `record.directory`");
        return ExitCode::from(2);
    }
    let mut is_sound = true;
    for directory in directories {
        match of_directory(action, &directory) {
            Ok(sound) => is_sound &= sound,
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {}: {error}", directory.display());
                is_sound = false;
            }
        }
    }
    if is_sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn directories(args: &RecordArgs, configured: Option<&RecordSettings>) -> Vec<PathBuf> {
    if !args.directories.is_empty() {
        return args.directories.clone();
    }
    let mut directories: Vec<_> =
        configured.iter().flat_map(|record| record.files()).map(|files| files.directory.clone()).collect();
    directories.sort();
    directories.dedup();
    directories
}

fn of_directory(action: &RecordAction, path: &Path) -> io::Result<bool> {
    if !path.is_dir() {
        return Err(io::Error::other("is no directory"));
    }
    let mut storage: Box<dyn Storage> = match action {
        RecordAction::Repair(_) => Box::new(Directory::lock(path)?),
        _ => Box::new(Directory::read(path)),
    };
    let mut out = io::stdout().lock();
    let mut is_sound = true;
    for (name, entry) in repair::list(&mut *storage)? {
        let shown = shown(path, &name, entry.state);
        let (word, detail, sound) = match action {
            RecordAction::List(_) => (entry.state.name(), detail(&name, &entry), true),
            RecordAction::Verify(_) => verdict(repair::verify(&mut *storage, &name, entry.state)),
            RecordAction::Repair(_) => repaired(path, repair::repair(&mut *storage, &name, entry.state)),
        };
        writeln!(out, "{word:<11} {detail} {}", shown.display())?;
        is_sound &= sound;
    }
    Ok(is_sound)
}

fn shown(directory: &Path, name: &RecordingName, state: State) -> PathBuf {
    directory.join(if state == State::Complete { name.path() } else { name.part_path() })
}

fn detail(name: &RecordingName, entry: &Entry) -> String {
    format!("{} {:>12}", time::rfc3339(UNIX_EPOCH + name.start), entry.bytes)
}

fn verdict(verdict: Verdict) -> (&'static str, String, bool) {
    let seconds = |duration: Duration| format!("{:.3} s", duration.as_secs_f64());
    match verdict {
        Verdict::Sound(scan) => ("sound", seconds(scan.duration), true),
        Verdict::Unfinished(scan) => ("unfinished", seconds(scan.duration), true),
        Verdict::Damaged(scan) => ("damaged", seconds(scan.duration), false),
        Verdict::Unreadable(error) => ("unreadable", error.to_string(), false),
    }
}

fn repaired(directory: &Path, repaired: Repaired) -> (&'static str, String, bool) {
    match repaired {
        Repaired::Nothing => ("sound", String::new(), true),
        Repaired::Completed(path, lost) => {
            let without = if lost == 0 { String::new() } else { format!(", without {lost} bytes") };
            ("completed", format!("as {}{without}:", directory.join(path).display()), true)
        }
        Repaired::Removed => ("removed", "there was nothing in it:".to_owned(), true),
        Repaired::Failed(error) => ("failed", error.to_string(), false),
    }
}
