//! The bytes of a file: as programs see them, and as they are on the disk.

use std::collections::VecDeque;
use std::time::Instant;

use super::durable;
use crate::Random;

/// What is written as a whole or not at all.
const SECTOR: usize = 512;

/// A change of a file.
#[derive(Debug)]
pub(crate) enum Change {
    /// These bytes, from here on.
    Bytes(usize, Vec<u8>),
    /// It has this length.
    Length(usize),
}

/// A change that may not be on the disk.
#[derive(Debug)]
struct Unsynced {
    change: Change,
    durable_at: Option<Instant>,
    /// A sync failed that was for it: it is on the disk or not, whatever a later one returns.
    is_uncertain: bool,
}

/// Bytes of a sector that were not written, and are if the sector is written again: it is so as a whole.
#[derive(Debug)]
struct Lost {
    sector: usize,
    offset: usize,
    bytes: Vec<u8>,
}

/// What a file is.
#[derive(Debug, Default)]
pub(crate) struct FileState {
    /// Times it is open.
    pub(crate) handles: usize,
    bytes: Vec<u8>,
    /// What a power cut leaves at least.
    on_disk: Vec<u8>,
    unsynced: VecDeque<Unsynced>,
    lost: Vec<Lost>,
}

impl FileState {
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn change(&mut self, change: Change) {
        change.apply(&mut self.bytes, &mut Vec::new(), |_| true);
        self.unsynced.push_back(Unsynced { change, durable_at: None, is_uncertain: false });
    }

    /// All changes up to now are on the disk by `at`, or nobody knows.
    pub(crate) fn sync(&mut self, at: Instant, is_done: bool) {
        for unsynced in &mut self.unsynced {
            if is_done {
                durable(&mut unsynced.durable_at, at);
            } else {
                unsynced.is_uncertain |= unsynced.durable_at.is_none();
            }
        }
    }

    /// What was to be on the disk by now is.
    pub(crate) fn settle(&mut self, now: Instant, random: &mut Random) {
        while let Some(first) = self.unsynced.front()
            && first.durable_at.is_some_and(|at| at <= now)
        {
            let Some(Unsynced { change, is_uncertain, .. }) = self.unsynced.pop_front() else { break };
            let share = if is_uncertain { any_share(random) } else { 1.0 };
            let survives = |_| share == 1.0 || random.chance(share);
            change.apply(&mut self.on_disk, &mut self.lost, survives);
        }
    }

    /// The power is cut: what is on the disk is the file.
    pub(crate) fn cut(&mut self, random: &mut Random) {
        let count = self.unsynced.len() as u64;
        // Nothing, all up to one and the beginning of that, or any sectors of any.
        let (whole, share) = match random.below(4) {
            0 => (0, None),
            1 => (random.below(count + 1) as usize, None),
            _ => (0, Some(any_share(random))),
        };
        for (index, Unsynced { change, .. }) in self.unsynced.drain(..).enumerate() {
            let torn = if index == whole && whole > 0 { random.below(change.sectors() + 1) } else { 0 };
            change.apply(&mut self.on_disk, &mut self.lost, |sector| match share {
                Some(share) => random.chance(share),
                None => index < whole || sector < torn,
            });
        }
        self.lost.clear();
        self.bytes.clone_from(&self.on_disk);
    }
}

/// Of which share of the sectors something is true: none, some, or all.
fn any_share(random: &mut Random) -> f64 {
    random.below(5) as f64 / 4.0
}

impl Change {
    /// Sectors that it touches; a length is one.
    fn sectors(&self) -> u64 {
        match self {
            Self::Bytes(offset, bytes) => ((offset + bytes.len()).div_ceil(SECTOR) - offset / SECTOR) as u64,
            Self::Length(_) => 1,
        }
    }

    /// Makes it, in those of its sectors, counted from its first, of which `survives` is true. The others go
    /// to `lost`, and come from there as soon as the same sector is written.
    fn apply(&self, image: &mut Vec<u8>, lost: &mut Vec<Lost>, mut survives: impl FnMut(u64) -> bool) {
        let (mut offset, mut rest) = match self {
            Self::Length(len) => {
                if survives(0) {
                    image.resize(*len, 0);
                    lost.retain(|lost| lost.offset + lost.bytes.len() <= *len);
                }
                return;
            }
            Self::Bytes(offset, bytes) => (*offset, &bytes[..]),
        };
        for index in 0..self.sectors() {
            let sector = offset / SECTOR;
            let (piece, behind) = rest.split_at(rest.len().min((sector + 1) * SECTOR - offset));
            if survives(index) {
                for earlier in lost.extract_if(.., |lost| lost.sector == sector) {
                    write(image, earlier.offset, &earlier.bytes);
                }
                write(image, offset, piece);
            } else {
                lost.push(Lost { sector, offset, bytes: piece.to_vec() });
            }
            (offset, rest) = (offset + piece.len(), behind);
        }
    }
}

fn write(image: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    if image.len() < offset + bytes.len() {
        image.resize(offset + bytes.len(), 0);
    }
    image[offset..offset + bytes.len()].copy_from_slice(bytes);
}
