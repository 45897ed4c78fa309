//! A lock on a directory: one server at a time uses it for one purpose, such as recordings or uploads.
//!
//! It is `flock` on a file of the directory, so it ends with the process, however that ends. File systems
//! without `flock` are refused.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

/// A directory that this process has for itself, until this is dropped.
#[derive(Debug)]
pub struct DirectoryLock {
    path: PathBuf,
    file: File,
}

impl DirectoryLock {
    /// Takes a directory, which is made if it is not there, by the lock of its file `name`. `others` says
    /// what another server that has it does there.
    ///
    /// # Errors
    /// It cannot be made or written to, or another server has it (`ResourceBusy`).
    pub fn take(directory: &Path, name: &str, others: &str) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        let path = directory.join(name);
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { path, file }),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let message = format!("another server {others}: each needs a directory of its own");
                Err(io::Error::new(io::ErrorKind::ResourceBusy, message))
            }
            // A file system without locks.
            Err(error) => Err(error.into()),
        }
    }

    /// Fails if the directory is not the one that was taken: the disk is no longer mounted, or somebody has
    /// removed it.
    ///
    /// # Errors
    /// That, or the file system does not answer.
    pub fn check(&self) -> io::Result<()> {
        let (held, there) = (self.file.metadata()?, fs::metadata(&self.path));
        let is_same = there.is_ok_and(|there| (there.dev(), there.ino()) == (held.dev(), held.ino()));
        if is_same {
            Ok(())
        } else {
            Err(io::Error::other("the directory is gone, or another is in its place"))
        }
    }
}

impl Drop for DirectoryLock {
    /// Closing is not enough: a child of this process has a copy of the descriptor from its fork until it
    /// runs its program, and would keep the lock for that long.
    fn drop(&mut self) {
        // Closed next, which does the same if nobody has a copy.
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("directory-lock-{name}-{}", std::process::id()))
    }

    #[test]
    fn one_has_a_directory_for_each_purpose() {
        let path = directory("purposes");
        let first = DirectoryLock::take(&path, ".lock", "records there").unwrap();
        let error = DirectoryLock::take(&path, ".lock", "records there").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        assert!(error.to_string().starts_with("another server records there: "), "{error}");
        drop(DirectoryLock::take(&path, ".uploads.lock", "sends its files").unwrap());
        drop(first);
        drop(DirectoryLock::take(&path, ".lock", "records there").unwrap());
        fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn a_copy_of_the_descriptor_does_not_keep_a_directory_locked() {
        let path = directory("copy");
        let lock = DirectoryLock::take(&path, ".lock", "").unwrap();
        // As a child that was forked a moment ago has one.
        let copy = lock.file.try_clone().unwrap();
        assert!(DirectoryLock::take(&path, ".lock", "").is_err());
        drop(lock);
        drop(DirectoryLock::take(&path, ".lock", "").unwrap());
        drop(copy);
        fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn a_directory_that_was_replaced_is_noticed() {
        let path = directory("replaced");
        let lock = DirectoryLock::take(&path, ".lock", "").unwrap();
        assert!(lock.check().is_ok());
        fs::remove_dir_all(&path).unwrap();
        assert!(lock.check().is_err(), "it is gone");
        let other = DirectoryLock::take(&path, ".lock", "").unwrap();
        assert!(lock.check().is_err(), "another is in its place");
        drop(other);
        fs::remove_dir_all(&path).unwrap();
    }
}
