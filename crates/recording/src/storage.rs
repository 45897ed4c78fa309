//! The file system as recordings use it, so that tests can put another one in its place: slow, full, torn.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use worker_api::directory_lock::DirectoryLock;

/// A directory of recordings. Paths are relative to it.
pub trait Storage: Debug + Send {
    /// Makes a folder and those above it.
    fn create_folders(&mut self, path: &Path) -> io::Result<()>;
    /// Makes a file that is not there yet, to read and write.
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn StoredFile>>;
    /// Opens a file that is there, to read and, if `writes`, to write.
    fn open(&mut self, path: &Path, writes: bool) -> io::Result<Box<dyn StoredFile>>;
    /// What is in a folder; the empty path is the directory itself.
    fn list(&mut self, path: &Path) -> io::Result<Vec<Entry>>;
    /// Whether there is something of this name.
    fn exists(&mut self, path: &Path) -> io::Result<bool>;
    /// Gives a file another name in its folder, which nothing has.
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&mut self, path: &Path) -> io::Result<()>;
    /// Brings the names in a folder to the disk.
    fn sync_folder(&mut self, path: &Path) -> io::Result<()>;
    /// Brings everything that was written to the disk.
    fn sync_all(&mut self) -> io::Result<()>;
    /// Bytes that the file system has left for this process; `None`: it does not say.
    fn free_bytes(&mut self) -> io::Result<Option<u64>> {
        Ok(None)
    }
    /// Fails if the directory is not the one that it was at the begin: the disk is no longer mounted, or
    /// somebody has removed it.
    fn check(&mut self) -> io::Result<()>;
}

/// A file.
pub trait StoredFile: Debug + Send {
    /// Writes behind the end. After an error some of it may be there.
    fn append(&mut self, parts: &[&[u8]]) -> io::Result<()>;
    /// Writes over what is there.
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()>;
    /// Reads up to so many bytes; fewer at the end only.
    fn read_at(&mut self, at: u64, bytes: &mut [u8]) -> io::Result<usize>;
    /// Cuts it off.
    fn set_len(&mut self, len: u64) -> io::Result<()>;
    /// Its length.
    fn length(&mut self) -> io::Result<u64>;
    /// Brings its bytes to the disk.
    fn sync(&mut self) -> io::Result<()>;
}

/// What is in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name there.
    pub name: String,
    /// Whether it is a folder.
    pub is_folder: bool,
    /// Bytes of a file.
    pub bytes: u64,
}

/// Name of the file whose lock says that a server uses the directory.
const LOCK: &str = ".lock";

/// A directory of the real file system.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    /// `None` for those who only read.
    lock: Option<DirectoryLock>,
}

impl Directory {
    /// Takes a directory, which is made if it is not there, for this process alone.
    ///
    /// # Errors
    /// It cannot be made or written to, or another server uses it.
    pub fn lock(path: &Path) -> io::Result<Self> {
        let lock = DirectoryLock::take(path, LOCK, "records there")?;
        Ok(Self { path: path.to_owned(), lock: Some(lock) })
    }

    /// A directory to look at, whoever uses it.
    pub fn read(path: &Path) -> Self {
        Self { path: path.to_owned(), lock: None }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Storage for Directory {
    fn create_folders(&mut self, path: &Path) -> io::Result<()> {
        let mut above = self.path.clone();
        for component in path.components() {
            let folder = above.join(component);
            match fs::create_dir(&folder) {
                Ok(()) => File::open(&above)?.sync_all()?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
            above = folder;
        }
        Ok(())
    }

    fn create(&mut self, path: &Path) -> io::Result<Box<dyn StoredFile>> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(self.path.join(path))?;
        Ok(Box::new(DiskFile(file)))
    }

    fn open(&mut self, path: &Path, writes: bool) -> io::Result<Box<dyn StoredFile>> {
        let mut file = OpenOptions::new().read(true).write(writes).open(self.path.join(path))?;
        file.seek(SeekFrom::End(0))?;
        Ok(Box::new(DiskFile(file)))
    }

    fn list(&mut self, path: &Path) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(self.path.join(path))? {
            let entry = entry?;
            // A file that has just been removed, or a name that nothing here has.
            let (Ok(metadata), Ok(name)) = (entry.metadata(), entry.file_name().into_string()) else {
                continue;
            };
            if metadata.is_dir() || metadata.is_file() {
                entries.push(Entry { name, is_folder: metadata.is_dir(), bytes: metadata.len() });
            }
        }
        Ok(entries)
    }

    fn exists(&mut self, path: &Path) -> io::Result<bool> {
        self.path.join(path).try_exists()
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        fs::remove_file(self.path.join(path))
    }

    fn sync_folder(&mut self, path: &Path) -> io::Result<()> {
        File::open(self.path.join(path))?.sync_all()
    }

    fn sync_all(&mut self) -> io::Result<()> {
        let directory = File::open(&self.path)?;
        Ok(rustix::fs::syncfs(&directory)?)
    }

    fn free_bytes(&mut self) -> io::Result<Option<u64>> {
        let disk = rustix::fs::statvfs(&self.path)?;
        Ok(Some(disk.f_bavail.saturating_mul(disk.f_frsize)))
    }

    fn check(&mut self) -> io::Result<()> {
        self.lock.as_ref().map_or(Ok(()), DirectoryLock::check)
    }
}

#[derive(Debug)]
struct DiskFile(File);

impl StoredFile for DiskFile {
    fn append(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let mut rest = &mut slices[..];
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            match self.0.write_vectored(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => IoSlice::advance_slices(&mut rest, written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, at)
    }

    fn read_at(&mut self, at: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let mut read = 0;
        while read < bytes.len() {
            match self.0.read_at(&mut bytes[read..], at + read as u64) {
                Ok(0) => break,
                Ok(count) => read += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.0.set_len(len)?;
        self.0.seek(SeekFrom::End(0)).map(|_| ())
    }

    fn length(&mut self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }
}
