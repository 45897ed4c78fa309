//! A disk in memory that keeps every write, so that it can be as it was after any part of them; full,
//! refusing or gone when a test says so.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::storage::{Entry, Storage, StoredFile};

/// Linux's numbers.
const ENOENT: i32 = 2;
const EIO: i32 = 5;
const EEXIST: i32 = 17;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;

#[derive(Debug, Clone)]
pub(super) enum Op {
    Create(PathBuf),
    Append(PathBuf, Vec<u8>),
    WriteAt(PathBuf, u64, Vec<u8>),
    SetLen(PathBuf, u64),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) files: BTreeMap<PathBuf, Vec<u8>>,
    folders: BTreeSet<PathBuf>,
    pub(super) ops: Vec<Op>,
    /// Bytes that find room; `None`: all.
    pub(super) room: Option<u64>,
    pub(super) is_read_only: bool,
    pub(super) is_gone: bool,
    pub(super) fails_sync: bool,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Memory(Arc<Mutex<State>>);

impl Memory {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Another one, as this is after some writes; of the last, `bytes` have come.
    pub(super) fn after(ops: &[Op], bytes: usize) -> Self {
        let memory = Self::default();
        for (index, op) in ops.iter().enumerate() {
            let is_last = index + 1 == ops.len();
            memory.state().apply(op, if is_last { bytes } else { usize::MAX });
        }
        memory
    }

    /// The files that there are.
    pub(super) fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        self.state().files.clone()
    }
}

impl State {
    fn apply(&mut self, op: &Op, most: usize) {
        match op {
            Op::Create(path) => {
                self.folders.extend(path.ancestors().skip(1).map(Path::to_owned));
                self.files.insert(path.clone(), Vec::new());
            }
            Op::Append(path, bytes) => {
                let file = self.files.get_mut(path).unwrap();
                file.extend_from_slice(&bytes[..bytes.len().min(most)]);
            }
            Op::WriteAt(path, at, bytes) => {
                let bytes = &bytes[..bytes.len().min(most)];
                let file = self.files.get_mut(path).unwrap();
                file[*at as usize..*at as usize + bytes.len()].copy_from_slice(bytes);
            }
            Op::SetLen(path, len) => self.files.get_mut(path).unwrap().resize(*len as usize, 0),
            Op::Rename(from, to) => {
                let file = self.files.remove(from).unwrap();
                assert!(self.files.insert(to.clone(), file).is_none(), "a complete file is replaced");
            }
            Op::Remove(path) => _ = self.files.remove(path),
        }
    }

    fn change(&mut self, op: Op) -> io::Result<()> {
        if self.is_read_only {
            return Err(io::Error::from_raw_os_error(EROFS));
        }
        if let (Op::Append(_, bytes), Some(left)) = (&op, &mut self.room) {
            let room = bytes.len().min(*left as usize);
            *left -= room as u64;
            if room < bytes.len() {
                self.apply(&op, room);
                return Err(io::Error::from_raw_os_error(ENOSPC));
            }
        }
        self.apply(&op, usize::MAX);
        self.ops.push(op);
        Ok(())
    }

    fn find(&self, path: &Path) -> io::Result<&Vec<u8>> {
        let file = self.files.get(path).filter(|_| !self.is_gone);
        file.ok_or_else(|| io::Error::from_raw_os_error(ENOENT))
    }
}

impl Storage for Memory {
    fn create_folders(&mut self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        if state.is_read_only {
            return Err(io::Error::from_raw_os_error(EROFS));
        }
        state.folders.extend(path.ancestors().map(Path::to_owned));
        Ok(())
    }

    fn create(&mut self, path: &Path) -> io::Result<Box<dyn StoredFile>> {
        let mut state = self.state();
        if state.files.contains_key(path) {
            return Err(io::Error::from_raw_os_error(EEXIST));
        }
        state.change(Op::Create(path.to_owned()))?;
        Ok(Box::new(MemoryFile(self.clone(), path.to_owned())))
    }

    fn open(&mut self, path: &Path, _writes: bool) -> io::Result<Box<dyn StoredFile>> {
        self.state().find(path)?;
        Ok(Box::new(MemoryFile(self.clone(), path.to_owned())))
    }

    fn list(&mut self, path: &Path) -> io::Result<Vec<Entry>> {
        let state = self.state();
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        let folders = state.folders.iter().filter(|folder| folder.parent() == Some(path));
        let folders = folders.map(|folder| Entry { name: name(folder), is_folder: true, bytes: 0 });
        let files = state.files.iter().filter(|(file, _)| file.parent() == Some(path));
        let files = files.map(|(file, bytes)| Entry {
            name: name(file),
            is_folder: false,
            bytes: bytes.len() as u64,
        });
        Ok(folders.chain(files).collect())
    }

    fn exists(&mut self, path: &Path) -> io::Result<bool> {
        Ok(self.state().files.contains_key(path))
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.find(from)?;
        state.change(Op::Rename(from.to_owned(), to.to_owned()))
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.find(path)?;
        state.change(Op::Remove(path.to_owned()))
    }

    fn sync_folder(&mut self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sync_all(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn check(&mut self) -> io::Result<()> {
        if self.state().is_gone { Err(io::Error::other("the directory is gone")) } else { Ok(()) }
    }
}

#[derive(Debug)]
struct MemoryFile(Memory, PathBuf);

impl StoredFile for MemoryFile {
    fn append(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let mut state = self.0.state();
        state.find(&self.1)?;
        state.change(Op::Append(self.1.clone(), parts.concat()))
    }

    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.0.state();
        state.find(&self.1)?;
        state.change(Op::WriteAt(self.1.clone(), at, bytes.to_vec()))
    }

    fn read_at(&mut self, at: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let state = self.0.state();
        let file = state.find(&self.1)?;
        let from = (at as usize).min(file.len());
        let count = bytes.len().min(file.len() - from);
        bytes[..count].copy_from_slice(&file[from..from + count]);
        Ok(count)
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        let mut state = self.0.state();
        state.find(&self.1)?;
        state.change(Op::SetLen(self.1.clone(), len))
    }

    fn length(&mut self) -> io::Result<u64> {
        Ok(self.0.state().find(&self.1)?.len() as u64)
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.0.state().fails_sync { Err(io::Error::from_raw_os_error(EIO)) } else { Ok(()) }
    }
}
