//! A simulated disk as a directory of recordings.

use std::io;
use std::path::Path;

use netsim::kernel::disk::{Disk, DiskFile, Open, Pending};
use netsim::kernel::{self, advance_to};

use crate::storage::{Entry, Storage, StoredFile};

#[derive(Debug, Clone, Copy)]
pub(super) struct Simulated(pub(super) Disk);

/// What a call returns, once it does.
fn wait<T>(pending: Pending<T>) -> io::Result<T> {
    advance_to(pending.at().max(kernel::now()));
    pending.take()
}

fn absolute(path: &Path) -> String {
    match path.to_str() {
        Some("") => "/".to_owned(),
        path => format!("/{}", path.expect("UTF-8")),
    }
}

impl Storage for Simulated {
    fn create_folders(&mut self, path: &Path) -> io::Result<()> {
        let mut above = String::new();
        for component in path.components() {
            let parent = if above.is_empty() { "/".to_owned() } else { above.clone() };
            above = format!("{above}/{}", component.as_os_str().to_str().expect("UTF-8"));
            match wait(self.0.create_dir(&above)) {
                Ok(()) => wait(self.0.sync_dir(&parent))?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn create(&mut self, path: &Path) -> io::Result<Box<dyn StoredFile>> {
        Ok(Box::new(File(wait(self.0.open(&absolute(path), Open::New))?)))
    }

    fn open(&mut self, path: &Path, _writes: bool) -> io::Result<Box<dyn StoredFile>> {
        Ok(Box::new(File(wait(self.0.open(&absolute(path), Open::Existing))?)))
    }

    fn list(&mut self, path: &Path) -> io::Result<Vec<Entry>> {
        let entries = wait(self.0.list(&absolute(path)))?;
        let entry = |entry: kernel::disk::DirEntry| Entry {
            name: entry.name,
            is_folder: entry.is_dir,
            bytes: entry.bytes,
        };
        Ok(entries.into_iter().map(entry).collect())
    }

    fn exists(&mut self, path: &Path) -> io::Result<bool> {
        match wait(self.0.open(&absolute(path), Open::Existing)) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        wait(self.0.rename(&absolute(from), &absolute(to)))
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        wait(self.0.remove_file(&absolute(path)))
    }

    fn sync_folder(&mut self, path: &Path) -> io::Result<()> {
        wait(self.0.sync_dir(&absolute(path)))
    }

    fn sync_all(&mut self) -> io::Result<()> {
        Err(io::Error::other("one file does not need it"))
    }

    fn check(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct File(DiskFile);

impl StoredFile for File {
    fn append(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let mut rest = &parts.concat()[..];
        while !rest.is_empty() {
            rest = &rest[wait(self.0.append(rest))?..];
        }
        Ok(())
    }

    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        wait(self.0.write_at(at, bytes)).map(|_| ())
    }

    fn read_at(&mut self, at: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let read = wait(self.0.read_at(at, bytes.len()))?;
        bytes[..read.len()].copy_from_slice(&read);
        Ok(read.len())
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        wait(self.0.set_len(len))
    }

    fn length(&mut self) -> io::Result<u64> {
        Ok(self.0.len())
    }

    fn sync(&mut self) -> io::Result<()> {
        wait(self.0.sync())
    }
}
