//! The bytes of a stream in one wire format, serialised once and read by every player of that
//! format.
//!
//! A log is a sequence of messages laid end to end in large segments and addressed by absolute byte
//! position. A player is just a position, so a merged write is one contiguous slice (two at a
//! segment's end), the same memory for all players at the same place. Old segments go when nobody
//! may need them any more. Which position a player should have is decided in `cursor.rs`.

use std::collections::VecDeque;
use std::io::IoSlice;

/// Capacity of an ordinary segment, bytes; a larger message gets a segment of its own size.
pub const SEGMENT_BYTES: usize = 64 << 10;

/// Where a message begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Absolute position of its first byte.
    pub position: u64,
    /// Stream time, milliseconds.
    pub time_ms: u64,
    /// When it was appended; what a player's delay is measured by, because publishers' clocks jump.
    pub arrived_ms: u64,
    /// Whether a player may begin here.
    pub entry: bool,
}

/// Serialised messages of one stream in one format.
///
/// `start() <= entry() <= head()`; positions below `start()` are gone.
#[derive(Debug, Default)]
pub struct DeliveryLog {
    segments: VecDeque<Segment>,
    marks: VecDeque<Mark>,
    /// Sequence number of `marks[0]`.
    first_mark: u64,
    head: u64,
    /// Sequence number of the newest entry mark.
    entry: Option<u64>,
}

#[derive(Debug)]
struct Segment {
    start: u64,
    bytes: Vec<u8>,
}

impl DeliveryLog {
    /// Appends one message, whose mark must have the position `head()`. `write` adds its bytes to
    /// the buffer it is given; `bytes_hint`, the most they can be, chooses the segment.
    pub fn append(&mut self, mark: Mark, bytes_hint: usize, write: impl FnOnce(&mut Vec<u8>)) {
        debug_assert_eq!(mark.position, self.head);
        if mark.entry {
            self.entry = Some(self.next_message());
        }
        self.marks.push_back(mark);
        let segment = self.segment_for(bytes_hint);
        let before = segment.bytes.len();
        write(&mut segment.bytes);
        self.head += (segment.bytes.len() - before) as u64;
    }

    /// Drops whole segments that end at or before `keep_from`, and their messages.
    pub fn evict(&mut self, keep_from: u64) {
        while self.segments.len() > 1 && self.segments[1].start <= keep_from {
            self.segments.pop_front();
        }
        let start = self.start();
        while self.marks.front().is_some_and(|mark| mark.position < start) {
            self.marks.pop_front();
            self.first_mark += 1;
        }
        if self.entry.is_some_and(|entry| entry < self.first_mark) {
            self.entry = None;
        }
    }

    /// Players no longer start at what was written so far: the publisher changed.
    pub fn forget_entry(&mut self) {
        self.entry = None;
    }

    /// Fills `slices` with the bytes from `position` to `end` and returns how many slices and bytes
    /// that is; fewer bytes than asked for when the slices run out.
    ///
    /// Needs `start() <= position <= end <= head()`.
    pub fn slices<'a>(&'a self, position: u64, end: u64, slices: &mut [IoSlice<'a>]) -> (usize, usize) {
        debug_assert!(self.start() <= position && position <= end && end <= self.head);
        let first = self.segments.partition_point(|segment| segment.end() <= position);
        let (mut count, mut bytes) = (0, 0);
        for segment in self.segments.range(first..) {
            if count == slices.len() || segment.start >= end {
                break;
            }
            let from = position.saturating_sub(segment.start) as usize;
            let to = segment.bytes.len().min((end - segment.start) as usize);
            slices[count] = IoSlice::new(&segment.bytes[from..to]);
            count += 1;
            bytes += to - from;
        }
        (count, bytes)
    }

    /// Whether `append` with this hint begins a new segment: the time to call
    /// [`evict`](Self::evict).
    pub fn rolls(&self, bytes_hint: usize) -> bool {
        self.segments.back().is_none_or(|segment| !segment.takes(bytes_hint))
    }

    /// Position after the newest message.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Position of the oldest byte still held.
    pub fn start(&self) -> u64 {
        self.segments.front().map_or(self.head, |segment| segment.start)
    }

    /// The newest message at which a player may begin: its sequence number and mark.
    pub fn entry(&self) -> Option<(u64, Mark)> {
        let entry = self.entry?;
        Some((entry, *self.marks.get((entry - self.first_mark) as usize)?))
    }

    /// The message that `position` lies in: its sequence number and mark. `None` at the head.
    pub fn message_at(&self, position: u64) -> Option<(u64, Mark)> {
        if position >= self.head {
            return None;
        }
        let index = self.marks.partition_point(|mark| mark.position <= position).checked_sub(1)?;
        Some((self.first_mark + index as u64, self.marks[index]))
    }

    /// End of the message that `position` lies in; `position` itself where a message begins there,
    /// or at the head.
    pub fn message_end(&self, position: u64) -> u64 {
        let index = self.marks.partition_point(|mark| mark.position < position);
        self.marks.get(index).map_or(self.head, |mark| mark.position)
    }

    /// Sequence number the next message will have; counts from 0.
    pub fn next_message(&self) -> u64 {
        self.first_mark + self.marks.len() as u64
    }

    /// When the newest message was appended, milliseconds.
    pub fn last_arrived_ms(&self) -> u64 {
        self.marks.back().map_or(0, |mark| mark.arrived_ms)
    }

    /// Bytes of memory the segments hold.
    pub fn memory_bytes(&self) -> usize {
        self.segments.iter().map(|segment| segment.bytes.capacity()).sum()
    }

    fn segment_for(&mut self, bytes_hint: usize) -> &mut Segment {
        if self.rolls(bytes_hint) {
            let capacity = SEGMENT_BYTES.max(bytes_hint);
            self.segments.push_back(Segment { start: self.head, bytes: Vec::with_capacity(capacity) });
        }
        self.segments.back_mut().expect("a segment was pushed when there was none with room")
    }
}

impl Segment {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    fn takes(&self, bytes_hint: usize) -> bool {
        self.bytes.capacity() - self.bytes.len() >= bytes_hint
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn append(log: &mut DeliveryLog, time_ms: u64, entry: bool, bytes: &[u8]) {
        let mark = Mark { position: log.head(), time_ms, arrived_ms: time_ms, entry };
        log.append(mark, bytes.len(), |out| out.extend_from_slice(bytes));
    }

    fn read(log: &DeliveryLog, mut position: u64, slices_max: usize) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            let mut slices = vec![IoSlice::new(&[]); slices_max];
            let (count, bytes) = log.slices(position, log.head(), &mut slices);
            slices[..count].iter().for_each(|slice| all.extend_from_slice(slice));
            position += bytes as u64;
            if bytes == 0 {
                assert_eq!(position, log.head());
                return all;
            }
        }
    }

    #[test]
    fn marks_tell_where_messages_begin_and_end() {
        let mut log = DeliveryLog::default();
        append(&mut log, 0, true, b"abc");
        append(&mut log, 40, false, b"de");
        assert_eq!(log.message_at(2).map(|(number, mark)| (number, mark.position)), Some((0, 0)));
        assert_eq!(log.message_at(3).map(|(number, mark)| (number, mark.time_ms)), Some((1, 40)));
        assert_eq!(log.message_at(5), None);
        let ends = [(0, 0), (1, 3), (3, 3), (4, 5), (5, 5)];
        ends.iter().for_each(|&(position, end)| assert_eq!(log.message_end(position), end, "{position}"));
    }

    #[test]
    fn eviction_keeps_whole_segments_and_forgets_lost_entries() {
        let mut log = DeliveryLog::default();
        append(&mut log, 0, true, &[1; SEGMENT_BYTES]);
        append(&mut log, 40, false, &[2; SEGMENT_BYTES]);
        log.evict(SEGMENT_BYTES as u64 - 1);
        assert_eq!((log.start(), log.entry().map(|(_, mark)| mark.position)), (0, Some(0)));
        log.evict(SEGMENT_BYTES as u64);
        assert_eq!((log.start(), log.entry()), (SEGMENT_BYTES as u64, None));
        assert_eq!(read(&log, log.start(), 4), vec![2; SEGMENT_BYTES]);
        assert_eq!(log.next_message(), 2);
    }

    proptest! {
        #[test]
        fn reads_back_what_was_written(
            sizes in prop::collection::vec(0usize..100_000, 1..20), slices_max in 1usize..5, evict_at in 0.0f64..1.0
        ) {
            let mut log = DeliveryLog::default();
            let mut plain = Vec::new();
            for (index, size) in sizes.iter().enumerate() {
                let bytes = vec![index as u8; *size];
                append(&mut log, index as u64, index % 3 == 0, &bytes);
                plain.extend_from_slice(&bytes);
            }
            prop_assert_eq!(log.head(), plain.len() as u64);
            prop_assert_eq!(&read(&log, 0, slices_max), &plain);
            let keep_from = (evict_at * plain.len() as f64) as u64;
            log.evict(keep_from);
            prop_assert!(log.start() <= keep_from);
            prop_assert_eq!(&read(&log, keep_from, slices_max)[..], &plain[keep_from as usize..]);
        }
    }
}
