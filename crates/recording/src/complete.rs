//! Makes a file complete, whether its recording has ended in order or not.
//!
//! A fragmented file is playable all the time. An ordinary player of files wants an index as well: it is made
//! of the fragments and goes behind them, and then the placeholder becomes the head of one `mdat` over all
//! that is before the index. The order of writes makes every moment between them a file that opens:
//!
//! 1. what is not whole at the end is cut off, and the index is appended: readers of fragments pass over it;
//! 2. it is on the disk;
//! 3. the placeholder's body, its type and last the one byte of its size that makes it the long one: up to
//!    then it is a small box that readers skip. All of it lies in one sector;
//! 4. that is on the disk, and only then the file gets its name.
//!
//! A complete file that is damaged and cut gets its placeholder back before that.

use std::io;

use cmaf::{PLACEHOLDER_AT, complete_movie};

use crate::names::RecordingName;
use crate::scan::{Check, Scan, scan};
use crate::settings::Format;
use crate::storage::{Storage, StoredFile};

/// What became of a file.
#[derive(Debug)]
pub enum Completed {
    /// It is complete, and what is in it.
    File(RecordingName, Scan),
    /// There was nothing in it, and it is gone.
    Empty,
}

/// Makes the file of `name` that is not complete yet complete.
///
/// # Errors
/// The disk does not do it: the file stays as it is, or with less of what is not whole at its end.
pub fn complete(
    storage: &mut dyn Storage,
    mut name: RecordingName,
    file: Option<Box<dyn StoredFile>>,
    check: Check,
) -> io::Result<Completed> {
    let part = name.part_path();
    let mut file = match file {
        Some(file) => file,
        None => storage.open(&part, true)?,
    };
    let mut found = scan(&mut *file, name.format, check)?;
    if found.fragments == 0 {
        drop(file);
        storage.remove(&part)?;
        return Ok(Completed::Empty);
    }
    make_whole(&mut *file, name.format, &mut found)?;
    drop(file);
    // A name that is taken is that of a complete file, which stays what it is.
    while storage.exists(&name.path())? {
        name.number += 1;
    }
    storage.rename(&part, &name.path())?;
    storage.sync_folder(&name.folder())?;
    Ok(Completed::File(name, found))
}

/// Cuts off what is not whole, and adds the index.
pub(crate) fn make_whole(file: &mut dyn StoredFile, format: Format, found: &mut Scan) -> io::Result<()> {
    if !(format == Format::Mp4 && found.is_complete) {
        if found.is_one_mdat {
            // An index was there: without it, readers have to see fragments.
            file.write_at(PLACEHOLDER_AT, b"\0\0\0\x10free")?;
            file.sync()?;
            found.is_one_mdat = false;
        }
        if found.whole_bytes < found.bytes {
            file.set_len(found.whole_bytes)?;
        }
        found.bytes = found.whole_bytes;
    }
    if format == Format::Mp4 && !found.is_complete {
        let moov = complete_movie(&found.moov, &found.tables);
        let moov = moov.ok_or_else(|| io::Error::other("no index can be made of its first boxes"))?;
        file.append(&[&moov])?;
        file.sync()?;
        file.write_at(PLACEHOLDER_AT + 8, &(found.whole_bytes - PLACEHOLDER_AT).to_be_bytes())?;
        file.write_at(PLACEHOLDER_AT + 4, b"mdat")?;
        file.write_at(PLACEHOLDER_AT + 3, &[1])?;
        found.bytes += moov.len() as u64;
        found.whole_bytes = found.bytes;
        found.is_complete = true;
    }
    file.sync()
}
