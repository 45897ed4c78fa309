//! Looks at recordings of a directory and repairs them, for `millstream record` and for tests.

use std::io;
use std::path::PathBuf;

use crate::catalogue::{self, Catalogue, State};
use crate::complete::{Completed, complete, make_whole};
use crate::names::RecordingName;
use crate::scan::{Check, Scan, scan};
use crate::storage::Storage;

/// What a look at a recording has found.
#[derive(Debug)]
pub enum Verdict {
    /// It is what was written, to the last byte.
    Sound(Scan),
    /// Its end is missing, or its index: it plays, and can be repaired.
    Unfinished(Scan),
    /// A fragment in it is not what was written, or bytes are there that nobody wrote.
    Damaged(Scan),
    /// It cannot be read.
    Unreadable(io::Error),
}

/// What a repair has done.
#[derive(Debug)]
pub enum Repaired {
    /// There was nothing to do.
    Nothing,
    /// It is complete now, under this name, and lacks so many bytes.
    Completed(PathBuf, u64),
    /// There was nothing in it, and it is gone.
    Removed,
    /// It stays as it is.
    Failed(io::Error),
}

/// All recordings of a directory.
///
/// # Errors
/// It cannot be read.
pub fn list(storage: &mut dyn Storage) -> io::Result<Catalogue> {
    catalogue::read(storage)
}

/// Reads a recording as a whole, checksums included.
pub fn verify(storage: &mut dyn Storage, name: &RecordingName, state: State) -> Verdict {
    let path = if state == State::Complete { name.path() } else { name.part_path() };
    let read =
        storage.open(&path, false).and_then(|mut file| scan(&mut *file, name.format, Check::Everything));
    match read {
        Err(error) => Verdict::Unreadable(error),
        Ok(scan) if !scan.is_sound => Verdict::Damaged(scan),
        Ok(scan) if state == State::Complete && scan.is_complete && scan.fragments > 0 => {
            Verdict::Sound(scan)
        }
        Ok(scan) => Verdict::Unfinished(scan),
    }
}

/// Completes a recording that is not, and cuts off the first damaged fragment and all behind it. A sound one
/// is not touched.
pub fn repair(storage: &mut dyn Storage, name: &RecordingName, state: State) -> Repaired {
    match (state, verify(storage, name, state)) {
        (_, Verdict::Unreadable(error)) => Repaired::Failed(error),
        (State::Complete, Verdict::Sound(_)) => Repaired::Nothing,
        (State::Complete, Verdict::Unfinished(before) | Verdict::Damaged(before)) => {
            // It has its name, and keeps it.
            let lacks = |now: &Scan| before.bytes.saturating_sub(now.bytes);
            let again = storage.open(&name.path(), true).and_then(|mut file| {
                let mut found = scan(&mut *file, name.format, Check::UpToDamage)?;
                if found.fragments == 0 {
                    return Err(io::Error::other("there is nothing in it that could be played"));
                }
                make_whole(&mut *file, name.format, &mut found)?;
                Ok(found)
            });
            match again {
                Ok(found) => Repaired::Completed(name.path(), lacks(&found)),
                Err(error) => Repaired::Failed(error),
            }
        }
        (_, Verdict::Sound(before) | Verdict::Unfinished(before) | Verdict::Damaged(before)) => {
            match complete(storage, name.clone(), None, Check::UpToDamage) {
                Ok(Completed::File(name, scan)) => {
                    Repaired::Completed(name.path(), before.bytes.saturating_sub(scan.bytes))
                }
                Ok(Completed::Empty) => Repaired::Removed,
                Err(error) => Repaired::Failed(error),
            }
        }
    }
}
