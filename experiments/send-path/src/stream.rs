//! The stream that is sent: the sample's messages as a server writes them, repeated without end.
//!
//! Positions count bytes from the start of a run. Two repetitions lie end to end in memory, so that up to one
//! repetition from any position is one slice; both ends of a connection hold the same copy.

use std::path::Path;

use live::flv::{BodyRole, FlvReader, inspect};
use live::rtmp::MediaKind;
use live::rtmp::chunk::write_play_message;

pub(crate) struct Stream {
    bytes: Vec<u8>,
    loop_ms: u64,
    messages: Vec<Message>,
}

struct Message {
    due_ms: u64,
    /// Offset in the loop at which it ends.
    end: usize,
    key: bool,
}

impl Stream {
    pub(crate) fn load(path: &Path) -> Result<Stream, String> {
        let file = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut reader = FlvReader::new((1 << 24) - 1);
        reader.push(&file);
        let mut tags = Vec::new();
        while let Some(tag) = reader.next_tag().map_err(|error| error.reason())? {
            let role = inspect(tag.kind, &tag.body).map_err(|error| error.reason())?.role;
            if !matches!(role, BodyRole::Config | BodyRole::Metadata | BodyRole::End | BodyRole::Other) {
                tags.push((tag, role == BodyRole::Key));
            }
        }
        tags.sort_by_key(|(tag, _)| tag.timestamp);
        let (Some(first), Some(last)) = (tags.first(), tags.last()) else { return Err("no frames".into()) };
        let (first_ms, last_ms) = (first.0.timestamp, last.0.timestamp);
        let mut bytes = Vec::new();
        let mut messages = Vec::new();
        for (tag, key) in &tags {
            write_play_message(&mut bytes, tag.kind, tag.timestamp - first_ms, &tag.body);
            let key = *key && tag.kind == MediaKind::Video;
            messages.push(Message { due_ms: u64::from(tag.timestamp - first_ms), end: bytes.len(), key });
        }
        bytes.extend_from_within(..);
        Ok(Stream { bytes, loop_ms: u64::from(last_ms - first_ms) + LAST_MESSAGE_MS, messages })
    }

    /// Position after the last message that is due at `now_ms`.
    pub(crate) fn head_at(&self, now_ms: u64) -> u64 {
        let (loops, in_loop_ms) = (now_ms / self.loop_ms, now_ms % self.loop_ms);
        let due = self.messages.partition_point(|message| message.due_ms <= in_loop_ms);
        loops * self.loop_bytes() as u64 + due.checked_sub(1).map_or(0, |last| self.messages[last].end) as u64
    }

    /// When the first message after `now_ms` is due.
    pub(crate) fn next_due_ms(&self, now_ms: u64) -> u64 {
        let (loops, in_loop_ms) = (now_ms / self.loop_ms, now_ms % self.loop_ms);
        let next = self.messages.partition_point(|message| message.due_ms <= in_loop_ms);
        loops * self.loop_ms + self.messages.get(next).map_or(self.loop_ms, |message| message.due_ms)
    }

    /// Offsets in the loop at which batches of about `period_ms` end, one of them just before each key frame.
    pub(crate) fn key_cuts(&self, period_ms: u64) -> Vec<usize> {
        let begins = |index: usize| index.checked_sub(1).map_or(0, |before| self.messages[before].end);
        let keys: Vec<usize> = (0..self.messages.len()).filter(|&index| self.messages[index].key).collect();
        let mut cuts = Vec::new();
        for (number, &key) in keys.iter().enumerate() {
            let from_ms = self.messages[key].due_ms;
            let to_ms = keys.get(number + 1).map_or(self.loop_ms, |&next| self.messages[next].due_ms);
            let parts = ((to_ms - from_ms + period_ms / 2) / period_ms).max(1);
            for part in 0..parts {
                let at_ms = from_ms + part * (to_ms - from_ms) / parts;
                let first = if part == 0 { key } else { self.messages.partition_point(|m| m.due_ms < at_ms) };
                cuts.push(begins(first));
            }
        }
        cuts.dedup();
        cuts
    }

    /// The bytes from one position to another, at most one repetition apart.
    pub(crate) fn span(&self, from: u64, to: u64) -> &[u8] {
        let at = self.offset(from);
        &self.bytes[at..at + (to - from) as usize]
    }

    /// Where a position lies in [`both_loops`](Self::both_loops), in its first half.
    pub(crate) fn offset(&self, position: u64) -> usize {
        (position % self.loop_bytes() as u64) as usize
    }

    pub(crate) fn both_loops(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn loop_bytes(&self) -> usize {
        self.bytes.len() / 2
    }

    pub(crate) fn bytes_per_ms(&self) -> f64 {
        self.loop_bytes() as f64 / self.loop_ms as f64
    }
}

/// Duration of the last message, milliseconds; one AAC frame of the sample.
const LAST_MESSAGE_MS: u64 = 23;
