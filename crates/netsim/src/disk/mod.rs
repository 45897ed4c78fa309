//! What a disk has: nodes, names and the journal, how long calls take, and what a power cut leaves.
//!
//! It knows neither the kernel nor the clock. Programs use it by the handles of `kernel::disk`.

pub(crate) mod image;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::{Duration, Instant};

use crate::Random;
use image::FileState;

/// What a disk is like and what goes wrong with it. Probabilities are of each call.
#[derive(Debug, Clone)]
pub struct DiskFaults {
    /// Least time of a call that reaches the disk: reading, syncing, and writing more than it keeps up with.
    pub latency: Duration,
    /// Most that is added to it.
    pub jitter: Duration,
    /// Bytes per second of reading and writing; `None`: any.
    pub bytes_per_second: Option<u64>,
    /// Bytes that are written and not on the disk yet, before a write has to wait.
    pub dirty_bytes_max: u64,
    /// Probability that a call of any kind, a write too, has to wait longer.
    pub stall: f64,
    /// Most that it waits then.
    pub stall_max: Duration,
    /// Bytes of all files together; `None`: any.
    pub capacity_bytes: Option<u64>,
    /// Probability that a write, or what makes a file or directory, finds that others have filled the disk:
    /// before it, or in the middle of it.
    pub full: f64,
    /// How long others keep it full, at most.
    pub full_max: Duration,
    /// Probability that a read fails (`EIO`).
    pub read_error: f64,
    /// Probability that a write or a change of names fails (`EIO`). It has changed nothing.
    pub write_error: f64,
    /// Probability that a sync fails (`EIO`).
    pub sync_error: f64,
}

impl Default for DiskFaults {
    fn default() -> Self {
        Self {
            latency: Duration::from_micros(100),
            jitter: Duration::ZERO,
            bytes_per_second: None,
            dirty_bytes_max: 64 << 20,
            stall: 0.0,
            stall_max: Duration::from_secs(5),
            capacity_bytes: None,
            full: 0.0,
            full_max: Duration::from_secs(10),
            read_error: 0.0,
            write_error: 0.0,
            sync_error: 0.0,
        }
    }
}

pub(crate) type Inode = u64;
pub(crate) const ROOT: Inode = 0;

/// Directories and files by directory and name.
pub(crate) type Names = BTreeMap<(Inode, String), Inode>;

/// A change of names, as the journal has it.
#[derive(Debug)]
pub(crate) struct NameChange {
    pub(crate) removed: Option<(Inode, String)>,
    pub(crate) added: Option<((Inode, String), Inode)>,
    /// When it is on the disk for certain.
    pub(crate) durable_at: Option<Instant>,
}

#[derive(Debug)]
pub(crate) enum Node {
    Dir,
    File(FileState),
}

#[derive(Debug)]
pub(crate) struct DiskState {
    pub(crate) random: Random,
    pub(crate) faults: DiskFaults,
    pub(crate) nodes: BTreeMap<Inode, Node>,
    pub(crate) last_inode: Inode,
    pub(crate) names: Names,
    /// Those that a power cut leaves at least.
    pub(crate) durable_names: Names,
    pub(crate) journal: VecDeque<NameChange>,
    /// Written, and not on the disk yet.
    pub(crate) dirty_bytes: u64,
    pub(crate) busy_until: Instant,
    /// What others have filled the disk with, and until when.
    pub(crate) others: Option<(u64, Instant)>,
    pub(crate) epoch: u64,
}

impl DiskState {
    /// The directory of a path, and its name there.
    pub(crate) fn parent(&self, path: &str) -> io::Result<(Inode, String)> {
        let (dir, name) = path.rsplit_once('/').ok_or_else(|| errno(EINVAL))?;
        if name.is_empty() || name == "." || name == ".." {
            return Err(errno(EINVAL));
        }
        Ok((self.dir(dir)?, name.to_owned()))
    }

    pub(crate) fn dir(&self, path: &str) -> io::Result<Inode> {
        let mut dir = ROOT;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            dir = *self.names.get(&(dir, name.to_owned())).ok_or_else(|| errno(ENOENT))?;
            if !matches!(self.nodes.get(&dir), Some(Node::Dir)) {
                return Err(errno(ENOTDIR));
            }
        }
        Ok(dir)
    }

    pub(crate) fn entries(&self, dir: Inode) -> impl Iterator<Item = (&str, Inode)> {
        let within = self.names.range((dir, String::new())..(dir + 1, String::new()));
        within.map(|((_, name), inode)| (name.as_str(), *inode))
    }

    pub(crate) fn file(&mut self, inode: Inode) -> Option<&mut FileState> {
        match self.nodes.get_mut(&inode) {
            Some(Node::File(file)) => Some(file),
            _ => None,
        }
    }

    pub(crate) fn file_ref(&self, inode: Inode) -> Option<&FileState> {
        match self.nodes.get(&inode) {
            Some(Node::File(file)) => Some(file),
            _ => None,
        }
    }

    pub(crate) fn add(&mut self, node: Node) -> Inode {
        self.last_inode += 1;
        self.nodes.insert(self.last_inode, node);
        self.last_inode
    }

    pub(crate) fn change_names(
        &mut self,
        removed: Option<(Inode, String)>,
        added: Option<((Inode, String), Inode)>,
        now: Instant,
    ) {
        let change = NameChange { removed, added, durable_at: None };
        change.apply(&mut self.names);
        self.journal.push_back(change);
        self.settle(now);
        self.forget_unnamed();
    }

    /// What was to be on the disk by now is.
    pub(crate) fn settle(&mut self, now: Instant) {
        while self.journal.front().is_some_and(|change| change.durable_at.is_some_and(|at| at <= now)) {
            self.settle_name();
        }
        for node in self.nodes.values_mut() {
            if let Node::File(file) = node {
                file.settle(now, &mut self.random);
            }
        }
        if self.others.is_some_and(|(_, until)| until <= now) {
            self.others = None;
        }
    }

    pub(crate) fn settle_name(&mut self) {
        if let Some(change) = self.journal.pop_front() {
            change.apply(&mut self.durable_names);
        }
    }

    /// Drops files that nobody can come to any more, after a power cut neither.
    pub(crate) fn forget_unnamed(&mut self) {
        let Self { nodes, names, durable_names, journal, .. } = self;
        let mut named: Vec<Inode> = names.values().chain(durable_names.values()).copied().collect();
        named.extend(journal.iter().filter_map(|change| change.added.as_ref().map(|(_, inode)| *inode)));
        named.sort_unstable();
        nodes.retain(|inode, node| {
            let is_open = matches!(node, Node::File(file) if file.handles > 0);
            *inode == ROOT || is_open || named.binary_search(inode).is_ok()
        });
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        let mut there: Vec<Inode> = self.names.values().copied().collect();
        there.sort_unstable();
        let files = self.nodes.iter().filter_map(|(inode, node)| match node {
            Node::File(file) if file.handles > 0 || there.binary_search(inode).is_ok() => Some(file),
            _ => None,
        });
        files.map(|file| file.len() as u64).sum()
    }

    /// How many of `wanted` more bytes there is room for.
    pub(crate) fn room(&mut self, wanted: u64, now: Instant) -> u64 {
        let capacity = self.faults.capacity_bytes.unwrap_or(u64::MAX);
        if wanted == 0 {
            return 0;
        }
        let fills = self.faults.full > 0.0 && self.others.is_none() && self.random.chance(self.faults.full);
        if !fills && self.others.is_none() && self.faults.capacity_bytes.is_none() {
            return wanted;
        }
        let free = capacity.saturating_sub(self.used_bytes());
        if fills {
            let left = self.random.below(wanted).min(free);
            let until = now + self.random.up_to(self.faults.full_max);
            self.others = Some((free - left, until));
        }
        free.saturating_sub(self.others.map_or(0, |(bytes, _)| bytes)).min(wanted)
    }

    /// A new file or directory needs some room.
    pub(crate) fn check_room_for_name(&mut self, now: Instant) -> io::Result<()> {
        if self.room(1, now) == 0 { Err(errno(ENOSPC)) } else { Ok(()) }
    }

    /// `EIO`, with this probability.
    pub(crate) fn fails(&mut self, probability: impl Fn(&DiskFaults) -> f64) -> io::Result<()> {
        let probability = probability(&self.faults);
        if probability > 0.0 && self.random.chance(probability) { Err(errno(EIO)) } else { Ok(()) }
    }

    /// When a call that would return at `at` does.
    pub(crate) fn stalled(&mut self, at: Instant) -> Instant {
        let stalls = self.faults.stall > 0.0 && self.random.chance(self.faults.stall);
        if stalls { at + self.random.up_to(self.faults.stall_max) } else { at }
    }

    /// When a call is done that needs the disk for so many bytes, from `from` on: one after the other.
    pub(crate) fn reach(&mut self, from: Instant, bytes: u64) -> Instant {
        let DiskFaults { latency, jitter, bytes_per_second, .. } = self.faults;
        let moves = bytes_per_second
            .map_or(Duration::ZERO, |rate| Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64));
        let at = from.max(self.busy_until) + latency + self.random.up_to(jitter) + moves;
        self.busy_until = self.stalled(at);
        self.busy_until
    }

    /// When everything that is dirty is on the disk.
    pub(crate) fn reach_all(&mut self, now: Instant) -> Instant {
        let bytes = std::mem::take(&mut self.dirty_bytes);
        self.reach(now, bytes)
    }
}

impl NameChange {
    fn apply(&self, names: &mut Names) {
        if let Some(removed) = &self.removed {
            names.remove(removed);
        }
        if let Some((entry, inode)) = &self.added {
            names.insert(entry.clone(), *inode);
        }
    }
}

/// It is durable by `at`, if not before.
pub(crate) fn durable(durable_at: &mut Option<Instant>, at: Instant) {
    *durable_at = Some(durable_at.map_or(at, |before| before.min(at)));
}

/// Least time of a call that does not reach the disk.
pub(crate) const CALL: Duration = Duration::from_micros(2);

pub(crate) const ENOENT: i32 = 2;
pub(crate) const EIO: i32 = 5;
pub(crate) const EBADF: i32 = 9;
pub(crate) const EEXIST: i32 = 17;
pub(crate) const ENOTDIR: i32 = 20;
pub(crate) const EISDIR: i32 = 21;
pub(crate) const EINVAL: i32 = 22;
pub(crate) const ENOSPC: i32 = 28;
pub(crate) const ENOTEMPTY: i32 = 39;

/// An error by Linux's number.
pub(crate) fn errno(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}
