//! A disk with a file system, in virtual time: slow, full, broken, and without power.
//!
//! Calls are those of a program's thread for files: none waits, each says by [`Pending`] when a real one
//! would have returned. What a call changes is seen by every later call. What of it is left after
//! [`Disk::cut_power`] is less; the promises are those of a file system with a journal in ordered mode
//! (ext4's default), and no more than that:
//!
//! - **A file's bytes** survive if [`DiskFile::sync`] was called after they were written, has returned
//!   before the cut and was no error. Of later changes any may be lost, in whole 512-byte sectors, in any
//!   combination; a sector is old or new, never a mixture. A length that survives has all sectors below it:
//!   new ones, old ones, or zeros where there was nothing before, never bytes of other files.
//! - **Names** (create, create a directory, rename, remove) survive if [`Disk::sync_dir`] of their directory
//!   has returned before the cut. Of later ones a number survives in the order in which they were made:
//!   whoever finds one finds all before it, in every directory. Each is there as a whole or not at all; a
//!   rename never leaves both names, or none.
//! - **Bytes and names are apart.** A synced file may have lost its name, and a name that survives may be of
//!   a file that is empty or torn: a rename over another file needs a sync of the new one before it, and of
//!   the directory after it.
//! - **After an error of `sync`** the bytes it was for may be lost even if a later one returns without error
//!   (Linux forgets that they were to be written).
//! - **Removed but open** files are there, with their bytes and the room they take, until they are closed.
//!
//! What a disk has, and how much of it survives, is in `netsim::disk`; here are the handles of programs.
//!
//! Left out: permissions, links, locks, direct I/O, mapped files, sectors that decay.
//!
//! Everything follows from the seed of the simulation, and disks draw from numbers of their own: the network
//! of a seed is the same with and without them.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::Instant;

use super::{Kernel, with, with_any};
use crate::Random;
pub use crate::disk::DiskFaults;
use crate::disk::image::{Change, FileState};
use crate::disk::{
    CALL, DiskState, EBADF, EEXIST, EINVAL, EISDIR, ENOENT, ENOSPC, ENOTDIR, ENOTEMPTY, Inode, Names, Node,
    ROOT, durable, errno,
};

/// The result of a call that has not returned yet.
#[derive(Debug)]
#[must_use = "an error may be in it"]
pub struct Pending<T> {
    at: Instant,
    result: io::Result<T>,
}

impl<T> Pending<T> {
    /// When the call returns.
    pub fn at(&self) -> Instant {
        self.at
    }

    /// What it returns.
    ///
    /// # Errors
    /// Linux's: `ENOSPC`, `EIO`, `ENOENT` and so on, and `EBADF` of a file that was opened before the power
    /// was cut.
    ///
    /// # Panics
    /// If the time has not come.
    pub fn take(self) -> io::Result<T> {
        assert!(super::now() >= self.at, "the call has not returned yet");
        self.result
    }
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// It is there.
    Existing,
    /// It is not (`O_CREAT | O_EXCL`).
    New,
    /// Whether or not it is there; it is empty then (`O_CREAT | O_TRUNC`).
    Empty,
    /// Whether or not it is there (`O_CREAT`).
    Any,
}

/// What is listed of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// Its name there.
    pub name: String,
    /// It is a directory.
    pub is_dir: bool,
    /// Bytes of a file.
    pub bytes: u64,
}

/// A disk of the simulation of this thread. Paths begin with `/` and have neither `.` nor `..`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disk(u32);

/// An open file.
#[derive(Debug)]
pub struct DiskFile {
    disk: u32,
    inode: Inode,
    /// Power cuts before it was opened.
    epoch: u64,
}

impl Disk {
    /// An empty one.
    pub fn new(faults: DiskFaults) -> Self {
        with(|kernel| {
            let number = kernel.disks.len() as u32;
            let state = DiskState {
                random: Random::new(kernel.disk_seed ^ u64::from(number) << 40),
                faults,
                nodes: BTreeMap::from([(ROOT, Node::Dir)]),
                last_inode: ROOT,
                names: Names::new(),
                durable_names: Names::new(),
                journal: VecDeque::new(),
                dirty_bytes: 0,
                busy_until: kernel.clock.now(),
                others: None,
                epoch: 0,
            };
            kernel.disks.push(state);
            Self(number)
        })
    }

    /// Changes what goes wrong from now on.
    pub fn set_faults(&self, faults: DiskFaults) {
        with(|kernel| kernel.disks[self.0 as usize].faults = faults);
    }

    /// Bytes of all files that are there.
    pub fn used_bytes(&self) -> u64 {
        with(|kernel| kernel.disks[self.0 as usize].used_bytes())
    }

    /// Opens a file.
    pub fn open(&self, path: &str, how: Open) -> Pending<DiskFile> {
        self.names(1, |disk, now| {
            let (dir, name) = disk.parent(path)?;
            let found = disk.names.get(&(dir, name.clone())).copied();
            let inode = match (found, how) {
                (None, Open::Existing) => return Err(errno(ENOENT)),
                (Some(_), Open::New) => return Err(errno(EEXIST)),
                (Some(inode), _) => inode,
                (None, _) => {
                    disk.check_room_for_name(now)?;
                    let inode = disk.add(Node::File(FileState::default()));
                    disk.change_names(None, Some(((dir, name), inode)), now);
                    inode
                }
            };
            let epoch = disk.epoch;
            let file = disk.file(inode).ok_or_else(|| errno(EISDIR))?;
            file.handles += 1;
            if how == Open::Empty && file.len() > 0 {
                file.change(Change::Length(0));
            }
            Ok(DiskFile { disk: self.0, inode, epoch })
        })
    }

    /// Makes a directory.
    pub fn create_dir(&self, path: &str) -> Pending<()> {
        self.names(2, |disk, now| {
            let (dir, name) = disk.parent(path)?;
            if disk.names.contains_key(&(dir, name.clone())) {
                return Err(errno(EEXIST));
            }
            disk.check_room_for_name(now)?;
            let inode = disk.add(Node::Dir);
            disk.change_names(None, Some(((dir, name), inode)), now);
            Ok(())
        })
    }

    /// Gives a file or directory another name, in place of the file that has it.
    pub fn rename(&self, from: &str, to: &str) -> Pending<()> {
        self.names(3, |disk, now| {
            let (from_entry, to_entry) = (disk.parent(from)?, disk.parent(to)?);
            let inode = *disk.names.get(&from_entry).ok_or_else(|| errno(ENOENT))?;
            if from_entry == to_entry {
                return Ok(());
            }
            let is_dir = disk.file(inode).is_none();
            if is_dir && to.strip_prefix(from).is_some_and(|rest| rest.starts_with('/')) {
                return Err(errno(EINVAL));
            }
            match disk.names.get(&to_entry).copied() {
                Some(other) if disk.file(other).is_none() => {
                    if !is_dir {
                        return Err(errno(EISDIR));
                    }
                    if disk.entries(other).next().is_some() {
                        return Err(errno(ENOTEMPTY));
                    }
                }
                Some(_) if is_dir => return Err(errno(ENOTDIR)),
                _ => {}
            }
            disk.change_names(Some(from_entry), Some((to_entry, inode)), now);
            Ok(())
        })
    }

    /// Removes a file.
    pub fn remove_file(&self, path: &str) -> Pending<()> {
        self.remove(path, false)
    }

    /// Removes a directory that has nothing in it.
    pub fn remove_dir(&self, path: &str) -> Pending<()> {
        self.remove(path, true)
    }

    fn remove(&self, path: &str, wants_dir: bool) -> Pending<()> {
        self.names(4, |disk, now| {
            let entry = disk.parent(path)?;
            let inode = *disk.names.get(&entry).ok_or_else(|| errno(ENOENT))?;
            match (disk.file(inode).is_none(), wants_dir) {
                (true, false) => return Err(errno(EISDIR)),
                (false, true) => return Err(errno(ENOTDIR)),
                _ => {}
            }
            if disk.entries(inode).next().is_some() {
                return Err(errno(ENOTEMPTY));
            }
            disk.change_names(Some(entry), None, now);
            Ok(())
        })
    }

    /// What is in a directory, by name.
    pub fn list(&self, path: &str) -> Pending<Vec<DirEntry>> {
        self.call(5, |disk, now| {
            let at = disk.reach(now, 0);
            let listed = disk.fails(|faults| faults.read_error).and_then(|()| disk.dir(path)).map(|dir| {
                let entries = disk.entries(dir).map(|(name, inode)| {
                    let file = disk.file_ref(inode);
                    let bytes = file.map_or(0, |file| file.len() as u64);
                    DirEntry { name: name.to_owned(), is_dir: file.is_none(), bytes }
                });
                entries.collect()
            });
            (at, listed)
        })
    }

    /// Brings the names in a directory to the disk (`fsync(2)` of the directory).
    pub fn sync_dir(&self, path: &str) -> Pending<()> {
        self.call(6, |disk, now| {
            let at = disk.reach_all(now);
            let synced = disk.dir(path).and_then(|_| disk.fails(|faults| faults.sync_error));
            if synced.is_ok() {
                // The journal is written in order.
                disk.journal.iter_mut().for_each(|change| durable(&mut change.durable_at, at));
            }
            (at, synced)
        })
    }

    /// The power is off and on again: files are closed, and what was not synced may be gone.
    pub fn cut_power(&self) {
        with(|kernel| {
            let now = kernel.clock.now();
            let disk = &mut kernel.disks[self.0 as usize];
            disk.settle(now);
            let left = disk.random.below(disk.journal.len() as u64 + 1) as usize;
            for _ in 0..left {
                disk.settle_name();
            }
            disk.journal.clear();
            disk.names = disk.durable_names.clone();
            for node in disk.nodes.values_mut() {
                if let Node::File(file) = node {
                    file.cut(&mut disk.random);
                    file.handles = 0;
                }
            }
            (disk.dirty_bytes, disk.busy_until) = (0, now);
            disk.epoch += 1;
            disk.forget_unnamed();
            let bytes = disk.used_bytes();
            let names = disk.names.len() as u64;
            kernel.note(bytes << 16 ^ names);
        });
    }

    /// A call, which is noted, and what it returns when.
    fn call<T>(
        &self,
        kind: u64,
        call: impl FnOnce(&mut DiskState, Instant) -> (Instant, io::Result<T>),
    ) -> Pending<T> {
        with(|kernel| kernel.disk_call(self.0, kind, call))
    }

    /// A call that changes names, which is in memory.
    fn names<T>(
        &self,
        kind: u64,
        change: impl FnOnce(&mut DiskState, Instant) -> io::Result<T>,
    ) -> Pending<T> {
        self.call(kind, |disk, now| {
            let at = disk.stalled(now + CALL);
            let result = disk.fails(|faults| faults.write_error).and_then(|()| change(disk, now));
            (at, result)
        })
    }
}

impl DiskFile {
    /// Writes at a place, in front of its end or behind it, and says how many bytes: fewer, if there is no
    /// room for all.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Pending<usize> {
        self.write(Some(offset), bytes)
    }

    /// Writes behind the end.
    pub fn append(&self, bytes: &[u8]) -> Pending<usize> {
        self.write(None, bytes)
    }

    fn write(&self, offset: Option<u64>, bytes: &[u8]) -> Pending<usize> {
        self.call(7, |disk, inode, now| {
            let at = disk.stalled(now + CALL);
            let Some(file) = disk.file_ref(inode) else { return (at, Err(errno(EBADF))) };
            let (len, offset) = (file.len() as u64, offset.unwrap_or(file.len() as u64));
            let end = offset + bytes.len() as u64;
            // Bytes between the end and the place are zeros, and count.
            let room = disk.room(end.saturating_sub(len), now);
            let count = (len + room).min(end).saturating_sub(offset) as usize;
            if let Err(error) = disk.fails(|faults| faults.write_error) {
                return (at, Err(error));
            }
            if count == 0 && !bytes.is_empty() {
                return (at, Err(errno(ENOSPC)));
            }
            if let Some(file) = disk.file(inode)
                && count > 0
            {
                file.change(Change::Bytes(offset as usize, bytes[..count].to_vec()));
            }
            disk.dirty_bytes += count as u64;
            let excess = disk.dirty_bytes.saturating_sub(disk.faults.dirty_bytes_max);
            disk.dirty_bytes -= excess;
            (if excess > 0 { disk.reach(at, excess) } else { at }, Ok(count))
        })
    }

    /// Up to `most` bytes from a place on; fewer at the end only.
    pub fn read_at(&self, offset: u64, most: usize) -> Pending<Vec<u8>> {
        self.call(8, |disk, inode, now| {
            let Some(file) = disk.file_ref(inode) else { return (now, Err(errno(EBADF))) };
            let start = (offset as usize).min(file.len());
            let bytes = file.bytes()[start..(start + most).min(file.len())].to_vec();
            let at = disk.reach(now, bytes.len() as u64);
            (at, disk.fails(|faults| faults.read_error).map(|()| bytes))
        })
    }

    /// Makes it shorter, or longer by zeros.
    pub fn set_len(&self, len: u64) -> Pending<()> {
        self.call(9, |disk, inode, now| {
            let at = disk.stalled(now + CALL);
            let result = disk.fails(|faults| faults.write_error);
            if let Some(file) = disk.file(inode).filter(|_| result.is_ok()) {
                file.change(Change::Length(len as usize));
            }
            (at, result)
        })
    }

    /// Brings its bytes to the disk (`fsync(2)`), behind everything else that is dirty, as a journal in
    /// ordered mode does.
    pub fn sync(&self) -> Pending<()> {
        self.call(10, |disk, inode, now| {
            let at = disk.reach_all(now);
            let result = disk.fails(|faults| faults.sync_error);
            if let Some(file) = disk.file(inode) {
                file.sync(at, result.is_ok());
            }
            (at, result)
        })
    }

    /// Its length.
    pub fn len(&self) -> u64 {
        with(|kernel| {
            let disk = &kernel.disks[self.disk as usize];
            disk.file_ref(self.inode).filter(|_| disk.epoch == self.epoch).map_or(0, |file| file.len() as u64)
        })
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn call<T>(
        &self,
        kind: u64,
        call: impl FnOnce(&mut DiskState, Inode, Instant) -> (Instant, io::Result<T>),
    ) -> Pending<T> {
        with(|kernel| {
            kernel.disk_call(self.disk, kind, |disk, now| {
                if disk.epoch != self.epoch {
                    return (now, Err(errno(EBADF)));
                }
                call(disk, self.inode, now)
            })
        })
    }
}

impl Drop for DiskFile {
    fn drop(&mut self) {
        with_any(|kernel| {
            let Some(disk) = kernel.disks.get_mut(self.disk as usize) else { return };
            if disk.epoch == self.epoch
                && let Some(file) = disk.file(self.inode)
            {
                file.handles = file.handles.saturating_sub(1);
                disk.forget_unnamed();
            }
        });
    }
}

impl Kernel {
    fn disk_call<T>(
        &mut self,
        disk: u32,
        kind: u64,
        call: impl FnOnce(&mut DiskState, Instant) -> (Instant, io::Result<T>),
    ) -> Pending<T> {
        let (now, elapsed) = (self.clock.now(), self.clock.elapsed());
        let state = &mut self.disks[disk as usize];
        state.settle(now);
        let (at, result) = call(state, now);
        let took = (elapsed + at.saturating_duration_since(now)).as_nanos() as u64;
        self.note(took ^ kind << 56 ^ u64::from(result.is_ok()) << 55);
        Pending { at, result }
    }
}
