//! The bytes of a stream in one wire format, serialised once and read by every player of that
//! format.
//!
//! A log is a sequence of messages laid end to end in large segments and addressed by absolute byte
//! position. A player is just a position, so a merged write is one contiguous slice (two at a
//! segment's end), the same memory for all players at the same place. Old segments go when nobody
//! may need them any more.
//!
//! [`Cursor`] decides which position a player should have. A player that falls behind its limits is moved to
//! the newest entry point (a key frame), or waits for the next one; it never delays others, because its queue
//! is only a position. A message once started is always finished, or the player could not parse what follows.
//! `schedule.rs` decides when players are served.

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

    /// Adds the bytes from `position` to `end` to `out`. Needs what [`slices`](Self::slices) needs.
    pub fn copy(&self, mut position: u64, end: u64, out: &mut Vec<u8>) {
        while position < end {
            let mut slice = [IoSlice::new(&[])];
            let (_, bytes) = self.slices(position, end, &mut slice);
            out.extend_from_slice(&slice[0]);
            position += bytes as u64;
        }
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

/// How far a player may fall behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueLimits {
    /// Most bytes behind the head; beyond twice this the player is disconnected.
    pub bytes_max: u64,
    /// Longest time behind the head, milliseconds.
    pub duration_ms_max: u64,
    /// Longest time without taking a byte while bytes are pending, milliseconds.
    pub stall_ms_max: u64,
}

/// What to do with a player now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlayerAction {
    /// Write the bytes from [`Cursor::position`] up to this position.
    Send(u64),
    /// The same, but the stream's headers go first: the player starts, or restarts, at a key frame.
    Begin(u64),
    /// Nothing to write.
    Idle,
    /// Took no byte for too long: disconnect.
    Stalled,
    /// So far behind that the message it is in can no longer be kept: disconnect.
    TooFarBehind,
}

/// A player's position in a [`DeliveryLog`].
#[derive(Debug, Clone, Copy)]
pub struct Cursor {
    position: u64,
    /// Sequence number of the message at `position`.
    message: u64,
    state: CursorState,
    paused: bool,
    /// Head of the log when the player began: it is not slow because it began with a long GOP. `None` until
    /// there is something for it.
    begun_at: Option<u64>,
    progressed_ms: u64,
    dropped: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CursorState {
    /// Takes everything.
    Flowing,
    /// Finishes the message it is in, which ends here, then skips what follows.
    Finishing(u64),
    /// Takes nothing until an entry point with at least this message number; the messages from
    /// `missing_from` on count as dropped (`None` for a player that has not begun).
    Waiting { entry_from: u64, missing_from: Option<u64> },
}

/// Lag below which no limit is looked at: even a low rate fills it in a moment.
const LAG_CHECK_BYTES: u64 = 32 << 10;

impl Cursor {
    /// A new player. It begins at the newest entry point when there is one and `cached` is set,
    /// else at the next one.
    pub fn join(log: &DeliveryLog, cached: bool, now_ms: u64) -> Self {
        let entry_from = if cached { 0 } else { log.next_message() };
        let state = CursorState::Waiting { entry_from, missing_from: None };
        let message = log.next_message();
        let position = log.head();
        Self { position, message, state, paused: false, begun_at: None, progressed_ms: now_ms, dropped: 0 }
    }

    /// A new player that takes every message from now on: it joined before the publisher, and what
    /// it starts with is still to come.
    pub fn join_at_head(log: &DeliveryLog, now_ms: u64) -> Self {
        Self { state: CursorState::Flowing, ..Self::join(log, false, now_ms) }
    }

    /// A player that [joined at the head](Self::join_at_head), and was given nothing so far, begins at the
    /// next entry point after all: the publication has been going on for a while.
    pub fn wait_for_entry(&mut self, log: &DeliveryLog) {
        // `Finishing`: it was paused before it could be given anything.
        let has_begun = matches!(self.state, CursorState::Flowing | CursorState::Finishing(_));
        if has_begun && self.position == log.head() {
            self.state = CursorState::Waiting { entry_from: log.next_message(), missing_from: None };
        }
    }

    /// Takes nothing from the next message on, until [`resume`](Self::resume).
    pub fn pause(&mut self, log: &DeliveryLog) {
        self.paused = true;
        if self.state == CursorState::Flowing {
            self.state = CursorState::Finishing(log.message_end(self.position));
        }
    }

    /// It is not held against the player that it has taken nothing up to now.
    pub fn note_progress(&mut self, now_ms: u64) {
        self.progressed_ms = now_ms;
    }

    /// Resumes after a pause: at the newest entry point if that lies after what the player got,
    /// else at the next.
    pub fn resume(&mut self) {
        self.paused = false;
        if let CursorState::Finishing(_) = self.state {
            // The message it was in is not finished yet: as if there had been no pause.
            self.state = CursorState::Flowing;
        }
    }

    /// Decides what to do at `now_ms`; after `Send` or `Begin` report what was written with
    /// [`advance`](Self::advance).
    pub fn review(&mut self, log: &DeliveryLog, limits: &QueueLimits, now_ms: u64) -> PlayerAction {
        if let CursorState::Finishing(end) = self.state {
            if self.position < end {
                return self.overdue(log, limits, now_ms).unwrap_or(PlayerAction::Send(end));
            }
            let next = log.message_at(end).map_or(log.next_message(), |(number, _)| number);
            // Messages a paused player skips do not count as dropped.
            let missing_from = (!self.paused).then_some(next);
            // A slow player gains nothing from the message it has reached; a paused one goes on
            // with any later one.
            let entry_from = if self.paused { next } else { next + 1 };
            self.state = CursorState::Waiting { entry_from, missing_from };
        }
        if let CursorState::Waiting { entry_from, missing_from } = self.state {
            let usable = log.entry().filter(|(number, _)| *number >= entry_from && !self.paused);
            let Some((number, mark)) = usable else { return PlayerAction::Idle };
            let dropped = missing_from.map_or(0, |from| number.saturating_sub(from));
            if dropped > 0 {
                tracing::trace!(messages = dropped, "messages dropped: the player is too slow");
            }
            self.dropped += dropped;
            (self.position, self.message, self.begun_at) = (mark.position, number, Some(log.head()));
            (self.state, self.progressed_ms) = (CursorState::Flowing, now_ms);
            return PlayerAction::Begin(log.head());
        }
        self.review_flowing(log, limits, now_ms)
    }

    fn review_flowing(&mut self, log: &DeliveryLog, limits: &QueueLimits, now_ms: u64) -> PlayerAction {
        let lag = log.head() - self.position;
        if lag == 0 {
            self.progressed_ms = now_ms;
            return PlayerAction::Idle;
        }
        // It joined before a GOP that has come all at once, from the worker that is the stream's home.
        self.begun_at.get_or_insert(log.head());
        if let Some(action) = self.overdue(log, limits, now_ms) {
            return action;
        }
        let fallen_from = self.fallen_from();
        let fallen = log.head() - fallen_from;
        let is_late = || lag_ms(log, fallen_from) > limits.duration_ms_max;
        if fallen > LAG_CHECK_BYTES && (fallen > limits.bytes_max || is_late()) {
            self.state = CursorState::Finishing(log.message_end(self.position));
            return self.review(log, limits, now_ms);
        }
        PlayerAction::Send(log.head())
    }

    fn overdue(&self, log: &DeliveryLog, limits: &QueueLimits, now_ms: u64) -> Option<PlayerAction> {
        let stalled_since = |since_ms: u64| now_ms.saturating_sub(since_ms) > limits.stall_ms_max;
        // A player that had nothing to take for a while has not stalled: only pending bytes count.
        let waits_since = |(_, mark): (u64, Mark)| stalled_since(mark.arrived_ms);
        if stalled_since(self.progressed_ms) && log.message_at(self.position).is_some_and(waits_since) {
            return Some(PlayerAction::Stalled);
        }
        (log.head() - self.fallen_from() > 2 * limits.bytes_max).then_some(PlayerAction::TooFarBehind)
    }

    /// Where what it is behind by begins: the group of pictures that it began with, which the GOP cache
    /// limits, is not its fault.
    fn fallen_from(&self) -> u64 {
        self.position.max(self.begun_at.unwrap_or_default())
    }

    /// `bytes` from the position on were written at `now_ms`; returns how many messages that
    /// completed.
    pub fn advance(&mut self, log: &DeliveryLog, bytes: u64, now_ms: u64) -> u64 {
        if bytes == 0 {
            return 0;
        }
        self.position += bytes;
        self.progressed_ms = now_ms;
        let message = log.message_at(self.position).map_or(log.next_message(), |(number, _)| number);
        message - std::mem::replace(&mut self.message, message)
    }

    /// Whether it takes every message, and is neither paused nor too slow.
    pub fn takes_all(&self) -> bool {
        self.state == CursorState::Flowing
    }

    /// Whether a message is partly written: nothing else may be written now.
    pub fn is_inside_message(&self, log: &DeliveryLog) -> bool {
        self.position().is_some_and(|position| log.message_end(position) != position)
    }

    /// Position of the next byte to write, and the oldest one needed; `None` when nothing is
    /// needed.
    pub fn position(&self) -> Option<u64> {
        match self.state {
            CursorState::Waiting { .. } => None,
            CursorState::Flowing | CursorState::Finishing(_) => Some(self.position),
        }
    }

    /// The oldest byte that it has yet to get: also that of an entry point it has waited for, until it is
    /// served the next time. A paused player may wait for as long as it likes, and keeps nothing.
    pub fn needed(&self, log: &DeliveryLog) -> Option<u64> {
        match self.state {
            CursorState::Waiting { entry_from, .. } => {
                let (_, mark) = log.entry().filter(|(entry, _)| *entry >= entry_from && !self.paused)?;
                Some(mark.position)
            }
            CursorState::Flowing | CursorState::Finishing(_) => Some(self.position),
        }
    }

    /// Bytes between the position and the head; 0 while waiting for an entry point.
    pub fn lag_bytes(&self, log: &DeliveryLog) -> u64 {
        self.position().map_or(0, |position| log.head() - position)
    }

    /// Time between the arrival of the message at the position and that of the newest one,
    /// milliseconds.
    pub fn lag_ms(&self, log: &DeliveryLog) -> u64 {
        self.position().map_or(0, |position| lag_ms(log, position))
    }

    /// Messages that are neither written as a whole nor counted as left out: it has yet to get them, or they
    /// will count once it goes on. `None` while messages pass it by that are not for it: it has not begun, or
    /// has paused.
    pub fn unsettled(&self, log: &DeliveryLog) -> Option<u64> {
        let from = match self.state {
            CursorState::Waiting { missing_from, .. } => missing_from,
            CursorState::Flowing | CursorState::Finishing(_) => Some(self.message),
        };
        from.filter(|_| !self.paused).map(|from| log.next_message() - from)
    }

    /// Messages left out because the player was too slow.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

fn lag_ms(log: &DeliveryLog, position: u64) -> u64 {
    log.message_at(position).map_or(0, |(_, mark)| log.last_arrived_ms().saturating_sub(mark.arrived_ms))
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
    fn an_entry_point_is_needed_by_whoever_has_waited_for_it() {
        let mut log = DeliveryLog::default();
        append(&mut log, 0, true, b"old");
        let player = Cursor::join(&log, false, 0);
        assert_eq!(player.needed(&log), None, "it came too late for that one");
        append(&mut log, 40, true, b"new");
        append(&mut log, 80, false, b"more");
        assert_eq!((player.position(), player.needed(&log)), (None, Some(3)));
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

#[cfg(test)]
mod cursor_tests {
    use super::*;

    const LIMITS: QueueLimits =
        QueueLimits { bytes_max: 100_000, duration_ms_max: 5_000, stall_ms_max: 10_000 };

    fn append(log: &mut DeliveryLog, time_ms: u64, entry: bool, bytes: usize) {
        let mark = Mark { position: log.head(), time_ms, arrived_ms: time_ms, entry };
        log.append(mark, bytes, |out| out.resize(out.len() + bytes, 0));
    }

    fn log_with_key_frame() -> DeliveryLog {
        let mut log = DeliveryLog::default();
        append(&mut log, 0, true, 10_000);
        append(&mut log, 40, false, 1_000);
        log
    }

    #[test]
    fn new_player_begins_at_the_cached_key_frame_or_waits_for_the_next() {
        let mut log = log_with_key_frame();
        let mut cached = Cursor::join(&log, true, 0);
        let mut fresh = Cursor::join(&log, false, 0);
        assert_eq!(cached.review(&log, &LIMITS, 0), PlayerAction::Begin(11_000));
        assert_eq!(cached.position(), Some(0));
        assert_eq!(fresh.review(&log, &LIMITS, 0), PlayerAction::Idle);
        append(&mut log, 80, true, 500);
        assert_eq!(fresh.review(&log, &LIMITS, 80), PlayerAction::Begin(11_500));
        assert_eq!((fresh.position(), fresh.dropped()), (Some(11_000), 0));
    }

    #[test]
    fn player_that_was_given_nothing_can_be_made_to_wait_for_an_entry() {
        let mut log = DeliveryLog::default();
        let mut cursor = Cursor::join_at_head(&log, 0);
        cursor.wait_for_entry(&log);
        append(&mut log, 0, false, 100);
        assert_eq!(cursor.review(&log, &LIMITS, 0), PlayerAction::Idle);
        append(&mut log, 23, true, 100);
        assert_eq!(cursor.review(&log, &LIMITS, 23), PlayerAction::Begin(200));
        assert_eq!((cursor.position(), cursor.dropped()), (Some(100), 0));
        // One that has something to take goes on with it.
        append(&mut log, 46, false, 100);
        cursor.wait_for_entry(&log);
        assert_eq!(cursor.review(&log, &LIMITS, 46), PlayerAction::Send(300));
    }

    #[test]
    fn player_that_waits_for_a_publisher_misses_nothing() {
        let mut log = DeliveryLog::default();
        let mut cursor = Cursor::join_at_head(&log, 0);
        assert_eq!(cursor.review(&log, &LIMITS, 60_000), PlayerAction::Idle);
        append(&mut log, 0, false, 100);
        append(&mut log, 23, true, 100);
        assert_eq!(
            (cursor.review(&log, &LIMITS, 60_001), cursor.position()),
            (PlayerAction::Send(200), Some(0))
        );
    }

    #[test]
    fn slow_player_finishes_its_message_then_jumps_to_the_key_frame() {
        let mut log = log_with_key_frame();
        let mut cursor = Cursor::join(&log, true, 0);
        cursor.review(&log, &LIMITS, 0);
        cursor.advance(&log, 4_000, 1);
        for step in 0..101 {
            append(&mut log, 80 + step, step == 90, 1_000);
        }
        assert_eq!(
            cursor.review(&log, &LIMITS, 2),
            PlayerAction::Send(10_000),
            "rest of the message it is in"
        );
        cursor.advance(&log, 6_000, 3);
        assert_eq!(cursor.review(&log, &LIMITS, 4), PlayerAction::Begin(log.head()));
        assert_eq!(cursor.position(), Some(11_000 + 90_000));
        assert_eq!(cursor.dropped(), 91, "messages 1 to 91 were left out");
    }

    #[test]
    fn too_long_behind_counts_like_too_many_bytes() {
        let mut log = log_with_key_frame();
        let mut cursor = Cursor::join(&log, true, 0);
        cursor.review(&log, &LIMITS, 0);
        append(&mut log, 100, false, 1_000);
        append(&mut log, 5_101, false, 40_000);
        assert_eq!(cursor.review(&log, &LIMITS, 0), PlayerAction::Idle, "no newer key frame: wait for one");
        append(&mut log, 5_141, true, 10);
        assert_eq!(cursor.review(&log, &LIMITS, 0), PlayerAction::Begin(log.head()));
        assert_eq!(cursor.dropped(), 4);
    }

    #[test]
    fn player_that_begins_with_a_long_group_is_not_slow() {
        let mut log = log_with_key_frame();
        append(&mut log, 9_000, false, 90_000);
        let mut cursor = Cursor::join(&log, true, 9_000);
        assert_eq!(cursor.review(&log, &LIMITS, 9_000), PlayerAction::Begin(log.head()));
        append(&mut log, 9_040, false, 1_000);
        assert_eq!(
            cursor.review(&log, &LIMITS, 9_040),
            PlayerAction::Send(log.head()),
            "9 s and 102 kB behind"
        );
        append(&mut log, 9_080, false, 90_000);
        cursor.advance(&log, 1_000, 9_080);
        append(&mut log, 14_200, true, 1_000);
        assert_eq!(cursor.review(&log, &LIMITS, 14_200), PlayerAction::Send(10_000), "5.1 s since it began");
    }

    #[test]
    fn player_that_takes_nothing_is_stalled_only_while_data_waits() {
        let mut log = log_with_key_frame();
        let mut cursor = Cursor::join(&log, true, 0);
        cursor.review(&log, &LIMITS, 0);
        cursor.advance(&log, 11_000, 0);
        append(&mut log, 60_000, false, 1_000);
        assert_eq!(
            cursor.review(&log, &LIMITS, 60_001),
            PlayerAction::Send(log.head()),
            "the publisher paused"
        );
        cursor.advance(&log, 500, 60_001);
        append(&mut log, 65_000, false, 1_000);
        assert_eq!(cursor.review(&log, &LIMITS, 70_001), PlayerAction::Send(log.head()));
        assert_eq!(
            cursor.review(&log, &LIMITS, 70_002),
            PlayerAction::Stalled,
            "10 s after it took its last byte"
        );
    }

    #[test]
    fn pause_ends_with_a_whole_message_and_resumes_at_a_key_frame() {
        let mut log = log_with_key_frame();
        let mut cursor = Cursor::join(&log, true, 0);
        cursor.review(&log, &LIMITS, 0);
        assert_eq!(cursor.advance(&log, 10_001, 0), 1, "one whole message and a bit");
        cursor.pause(&log);
        assert_eq!(cursor.review(&log, &LIMITS, 0), PlayerAction::Send(11_000));
        assert!(cursor.is_inside_message(&log));
        assert_eq!(cursor.advance(&log, 999, 0), 1);
        append(&mut log, 80, true, 500);
        assert_eq!(cursor.review(&log, &LIMITS, 0), PlayerAction::Idle);
        cursor.resume();
        assert_eq!(cursor.review(&log, &LIMITS, 0), PlayerAction::Begin(11_500));
        assert_eq!(cursor.dropped(), 0);
    }

    #[test]
    fn time_does_not_run_backwards_over_a_pause() {
        let mut log = log_with_key_frame();
        let mut cursor = Cursor::join(&log, true, 0);
        cursor.review(&log, &LIMITS, 0);
        cursor.advance(&log, 11_000, 0);
        cursor.pause(&log);
        append(&mut log, 80, false, 500);
        assert_eq!(cursor.review(&log, &LIMITS, 0), PlayerAction::Idle);
        cursor.resume();
        assert_eq!(
            cursor.review(&log, &LIMITS, 0),
            PlayerAction::Idle,
            "the only key frame is one it has had"
        );
        append(&mut log, 120, true, 500);
        assert_eq!(cursor.review(&log, &LIMITS, 0), PlayerAction::Begin(12_000));
        assert_eq!(cursor.position(), Some(11_500));
    }

    #[test]
    fn a_player_that_begins_with_a_long_gop_is_not_too_far_behind() {
        let mut log = DeliveryLog::default();
        (0..300).for_each(|number| append(&mut log, 40 * number, number == 0, 1_000));
        let mut cursor = Cursor::join(&log, true, 0);
        assert_eq!(cursor.review(&log, &LIMITS, 0), PlayerAction::Begin(300_000));
        let mut earlier = Cursor::join_at_head(&DeliveryLog::default(), 0);
        assert_eq!(earlier.review(&log, &LIMITS, 0), PlayerAction::Send(300_000));
        cursor.advance(&log, 20_500, 0);
        assert_eq!(cursor.review(&log, &LIMITS, 0), PlayerAction::Send(300_000));
        // It takes no more: what has come since is what it is behind by.
        let mut behind = 0;
        while cursor.review(&log, &LIMITS, 0) != PlayerAction::TooFarBehind {
            append(&mut log, 12_000, false, 1_000);
            behind += 1_000;
            assert!(behind <= 2 * LIMITS.bytes_max + 1_000, "never disconnected");
        }
        assert_eq!(behind, 2 * LIMITS.bytes_max + 1_000);
    }

    #[test]
    fn player_stuck_in_one_message_cannot_hold_the_log_for_ever() {
        let mut log = log_with_key_frame();
        let mut cursor = Cursor::join(&log, true, 0);
        cursor.review(&log, &LIMITS, 0);
        for step in 1..400 {
            append(&mut log, 40 * step, false, 1_000);
            cursor.advance(&log, 1, 40 * step);
            if cursor.review(&log, &LIMITS, 40 * step) == PlayerAction::TooFarBehind {
                // Twice the bytes, and those that it began with.
                assert!(log.head() - cursor.position().unwrap() <= 201_000 + 11_000);
                return;
            }
        }
        panic!("never disconnected");
    }
}
