//! The order in which bytes are read, and the order in which samples are given out: the first goes
//! forward in the file, the second by decoding time.
//!
//! Tracks are interleaved in pieces of a second or so. Reading by decoding time would go back and
//! forth between them. So samples are known ahead of time (an index costs no reading), what lies
//! between the last read and the sample that is due is read on the way, and kept until its time
//! comes. What may be kept is bounded by a window; in files with less interleaving than that, or
//! none, reading goes back, but in long runs.
//!
//! A pure data structure: it decides, `file.rs` reads.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use super::lane::Shown;
use media::Timestamp;

/// A sample in the queue: lane, and number within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlotId {
    pub(super) lane: usize,
    number: u64,
}

/// Samples that are known, of one lane per selected track.
#[derive(Debug)]
pub(super) struct Reorder {
    lanes: Vec<Slots>,
    /// Samples whose reading is not planned: by place in the file.
    unplanned: BTreeMap<(u64, usize, u64), ()>,
    unplanned_bytes: u64,
    /// Samples in the order in which they will be read.
    planned: VecDeque<SlotId>,
    planned_bytes: u64,
    /// Bytes of samples that are read and not given out yet.
    kept_bytes: u64,
    /// Sum of all sizes so far: what lies between two samples in decoding order.
    bytes: u64,
    /// Where reading will be when all that is planned is read.
    position: u64,
    window: u64,
}

#[derive(Debug, Default)]
struct Slots {
    slots: VecDeque<Slot>,
    /// Number of the first slot.
    first: u64,
    /// Number of the first slot that may be unplanned.
    unplanned: u64,
}

#[derive(Debug)]
struct Slot {
    shown: Shown,
    /// Bytes of all samples before it.
    bytes_before: u64,
    is_planned: bool,
    data: Option<Vec<u8>>,
}

impl Reorder {
    /// A queue for so many tracks, which keeps at most about `window` bytes of samples.
    pub(super) fn new(lanes: usize, window: u64, position: u64) -> Self {
        Self {
            lanes: (0..lanes).map(|_| Slots::default()).collect(),
            unplanned: BTreeMap::new(),
            unplanned_bytes: 0,
            planned: VecDeque::new(),
            planned_bytes: 0,
            kept_bytes: 0,
            bytes: 0,
            position,
            window,
        }
    }

    /// Adds the next sample of a lane; lanes have to be served by decoding time.
    pub(super) fn push(&mut self, lane: usize, shown: Shown) {
        let slots = &mut self.lanes[lane];
        let number = slots.first + slots.slots.len() as u64;
        let slot = Slot { shown, bytes_before: self.bytes, is_planned: false, data: None };
        slots.slots.push_back(slot);
        self.bytes += u64::from(shown.size);
        self.unplanned_bytes += u64::from(shown.size);
        self.unplanned.insert((shown.offset, lane, number), ());
    }

    /// Plans the reading of the sample that is due next, and of what is best read along with it.
    /// `false` if all is planned.
    pub(super) fn plan(&mut self) -> bool {
        let Some(due) = self.due_unplanned() else { return false };
        let slot = self.slot(due);
        let (target, limit) = (slot.shown.offset, slot.bytes_before + self.window);
        let is_behind = target < self.position;
        // Going back, it may as well be to what is due of any track.
        let from = if is_behind { self.lowest_due().min(target) } else { self.position };
        let way = self.on_the_way(from, target, limit);
        let run = if is_behind || way.is_none() { self.run_behind(due, limit) } else { Vec::new() };
        for id in way.into_iter().flatten().chain([due]).chain(run) {
            self.plan_one(id);
        }
        true
    }

    /// The sample to be read next, with its place and size.
    pub(super) fn next_read(&self) -> Option<(SlotId, u64, u32)> {
        let id = *self.planned.front()?;
        let shown = &self.slot(id).shown;
        Some((id, shown.offset, shown.size))
    }

    /// Takes the bytes of the sample that [`Reorder::next_read`] gave.
    pub(super) fn fill(&mut self, id: SlotId, data: Vec<u8>) {
        debug_assert_eq!(self.planned.front(), Some(&id));
        self.planned.pop_front();
        let size = u64::from(self.slot(id).shown.size);
        self.planned_bytes -= size;
        self.kept_bytes += size;
        let slots = &mut self.lanes[id.lane];
        slots.slots[(id.number - slots.first) as usize].data = Some(data);
    }

    /// The lane whose first sample is due: the smallest decoding time.
    pub(super) fn due(&self) -> Option<usize> {
        let first = |lane: &usize| self.lanes[*lane].slots.front().map(|slot| slot.shown.dts);
        (0..self.lanes.len()).filter(|lane| first(lane).is_some()).min_by_key(first)
    }

    /// Gives the first sample of a lane out, if it is read.
    pub(super) fn pop(&mut self, lane: usize) -> Option<(Shown, Vec<u8>)> {
        let slots = &mut self.lanes[lane];
        let data = slots.slots.front_mut()?.data.take()?;
        let slot = slots.slots.pop_front()?;
        slots.first += 1;
        slots.unplanned = slots.unplanned.max(slots.first);
        self.kept_bytes -= u64::from(slot.shown.size);
        Some((slot.shown, data))
    }

    /// Reading went elsewhere, for a fragment.
    pub(super) fn moved(&mut self, position: u64) {
        if self.planned.is_empty() {
            self.position = position;
        }
    }

    /// What is planned: ranges of the file in the order in which they are read, neighbours joined.
    pub(super) fn planned_ranges(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for id in &self.planned {
            let shown = &self.slot(*id).shown;
            let end = shown.offset.saturating_add(shown.size.into());
            match ranges.last_mut() {
                Some(last) if last.end == shown.offset => last.end = end,
                _ => ranges.push(shown.offset..end),
            }
        }
        ranges
    }

    pub(super) fn planned_bytes(&self) -> u64 {
        self.planned_bytes
    }

    pub(super) fn unplanned_bytes(&self) -> u64 {
        self.unplanned_bytes
    }

    /// Whether more may be read before something is given out.
    pub(super) fn has_room(&self) -> bool {
        self.kept_bytes < self.window
    }

    /// Known samples.
    pub(super) fn len(&self) -> usize {
        self.lanes.iter().map(|lane| lane.slots.len()).sum()
    }

    pub(super) fn is_empty(&self, lane: usize) -> bool {
        self.lanes[lane].slots.is_empty()
    }

    /// The lowest place in the file among the first unplanned samples of all lanes.
    fn lowest_due(&self) -> u64 {
        let first = |slots: &Slots| {
            slots.slots.get((slots.unplanned - slots.first) as usize).map(|slot| slot.shown.offset)
        };
        self.lanes.iter().filter_map(first).min().unwrap_or(0)
    }

    /// Unplanned samples from `from` up to `target`; `None` if they are so many that going there at
    /// once is better.
    fn on_the_way(&self, from: u64, target: u64, limit: u64) -> Option<Vec<SlotId>> {
        let (mut way, mut bytes) = (Vec::new(), 0);
        for (_, lane, number) in self.unplanned.range((from, 0, 0)..(target, 0, 0)).map(|(key, ())| *key) {
            let id = SlotId { lane, number };
            let slot = self.slot(id);
            if slot.end() <= limit {
                bytes += u64::from(slot.shown.size);
                way.push(id);
            }
            if bytes > self.window / 4 {
                return None;
            }
        }
        Some(way)
    }

    /// Unplanned samples right behind `due` in the file, which come along when reading has to jump
    /// there.
    fn run_behind(&self, due: SlotId, limit: u64) -> Vec<SlotId> {
        let shown = &self.slot(due).shown;
        let mut end = shown.offset.saturating_add(shown.size.into());
        let (mut run, mut bytes) = (Vec::new(), 0);
        for (offset, lane, number) in self.unplanned.range((end, 0, 0)..).map(|(key, ())| *key) {
            let id = SlotId { lane, number };
            let slot = self.slot(id);
            bytes += u64::from(slot.shown.size);
            if offset.saturating_sub(end) > GAP_BYTES_MAX || bytes > self.window / 4 || slot.end() > limit {
                break;
            }
            end = offset.saturating_add(slot.shown.size.into()).max(end);
            if id != due {
                run.push(id);
            }
        }
        run
    }

    fn plan_one(&mut self, id: SlotId) {
        let slots = &mut self.lanes[id.lane];
        let slot = &mut slots.slots[(id.number - slots.first) as usize];
        slot.is_planned = true;
        let shown = slot.shown;
        self.unplanned.remove(&(shown.offset, id.lane, id.number));
        self.unplanned_bytes -= u64::from(shown.size);
        self.planned_bytes += u64::from(shown.size);
        self.planned.push_back(id);
        self.position = shown.offset.saturating_add(shown.size.into());
    }

    /// The unplanned sample with the smallest decoding time.
    fn due_unplanned(&mut self) -> Option<SlotId> {
        let mut due: Option<(Timestamp, SlotId)> = None;
        for (lane, slots) in self.lanes.iter_mut().enumerate() {
            let planned = |slots: &Slots| {
                slots.slots.get((slots.unplanned - slots.first) as usize).is_some_and(|slot| slot.is_planned)
            };
            while planned(slots) {
                slots.unplanned += 1;
            }
            let Some(slot) = slots.slots.get((slots.unplanned - slots.first) as usize) else { continue };
            if due.is_none_or(|(dts, _)| slot.shown.dts < dts) {
                due = Some((slot.shown.dts, SlotId { lane, number: slots.unplanned }));
            }
        }
        due.map(|(_, id)| id)
    }

    fn slot(&self, id: SlotId) -> &Slot {
        let slots = &self.lanes[id.lane];
        &slots.slots[(id.number - slots.first) as usize]
    }
}

impl Slot {
    /// Bytes of all samples up to its end.
    fn end(&self) -> u64 {
        self.bytes_before + u64::from(self.shown.size)
    }
}

/// What is skipped within a run that is read in one go.
const GAP_BYTES_MAX: u64 = 64 << 10;
