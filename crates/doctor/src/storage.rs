//! Directories that are written to.

use std::path::Path;

use nix::sys::statvfs::statvfs;

use crate::{Finding, Level, Wanted};

pub(crate) fn examine(wanted: &Wanted, findings: &mut Vec<Finding>) {
    for (key, directory) in &wanted.directories {
        findings.push(directory_is_usable(key, directory));
    }
}

fn directory_is_usable(key: &str, directory: &Path) -> Finding {
    let shown = directory.display();
    // The server makes what is missing, inside of what there is.
    let Some(there) = directory.ancestors().find(|part| part.exists()) else {
        let found = format!("{shown} is nowhere");
        return Finding::new(Level::Fault, "directory", found, format!("mkdir -p {shown}"));
    };
    if !there.is_dir() {
        let found = format!("{} is no directory", there.display());
        return Finding::new(Level::Fault, "directory", found, format!("set {key} to one"));
    }
    if let Err(error) = tempfile::tempfile_in(there) {
        let found = format!("nothing can be written in {}: {error}", there.display());
        return Finding::new(
            Level::Fault,
            "directory",
            found,
            format!("chown it to the server's user, or set {key}"),
        );
    }
    let Ok(space) = statvfs(there) else {
        return Finding::fine("directory", format!("{shown} can be written"));
    };
    #[expect(clippy::useless_conversion, reason = "their width differs between systems")]
    let (free, total) = (
        u64::from(space.blocks_available()) * u64::from(space.fragment_size()),
        u64::from(space.blocks()) * u64::from(space.fragment_size()),
    );
    let found = format!("{shown} has {} of {} GB free", free / 1_000_000_000, total / 1_000_000_000);
    if free >= FREE_MIN {
        return Finding::fine("directory", found);
    }
    Finding::new(
        Level::Warning,
        "directory",
        found,
        "make room, or let old recordings go (record.keep_bytes)",
    )
}

/// Half an hour of a stream of 4 Mbit/s.
const FREE_MIN: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_is_a_fault() {
        let root = tempfile::tempdir().unwrap();
        let missing = root.path().join("not/yet/there");
        assert!(
            directory_is_usable("record.directory", &missing).level < Level::Fault,
            "it is made when needed"
        );
        assert!(!missing.exists(), "nothing is changed");
        let file = root.path().join("file");
        std::fs::write(&file, "").unwrap();
        let finding = directory_is_usable("record.directory", &file.join("below"));
        assert_eq!(finding.level, Level::Fault);
        assert_eq!(finding.mend.unwrap(), "set record.directory to one");
        let finding = directory_is_usable("record.directory", Path::new("/proc/there"));
        assert_eq!(finding.level, Level::Fault, "{finding:?}");
    }
}
