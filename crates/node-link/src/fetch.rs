//! The receiving side of one stream: parts of frames become frames, and what was taken becomes credit.

use std::time::Duration;

use media::{Frame, Timestamp};

use crate::error::LinkError;
use crate::frame::{FRAME_COST, Head};
use crate::limits::{CHUNK_BYTES_MAX, KEYS_AGAIN, KEYS_AT_ONCE, WINDOW_BYTES};
use crate::wire::Reader;

#[derive(Debug)]
pub(crate) struct Fetch {
    pub(crate) state: State,
    /// The frame that is coming, and what has come of it.
    coming: Option<(Head, Vec<u8>)>,
    /// Of the frame that came last.
    before: Timestamp,
    /// Bytes that the other node may still send; below 0 when it has finished a frame.
    window: i64,
    /// Bytes used that it does not know of yet.
    used: u32,
    /// The next frame says that others were left out before it.
    has_gap: bool,
    /// Keys that may still come, and since when that is so.
    keys: (u32, Duration),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// No answer yet.
    Asked,
    /// The other node sends.
    Accepted,
    /// This node wants no more; what is under way is dropped.
    LetGo,
}

impl Fetch {
    pub(crate) fn new() -> Self {
        Self {
            state: State::Asked,
            coming: None,
            before: Timestamp::ZERO,
            window: i64::from(WINDOW_BYTES),
            used: 0,
            has_gap: false,
            keys: (KEYS_AT_ONCE, Duration::ZERO),
        }
    }

    /// Frames were left out.
    pub(crate) fn skip(&mut self) -> Result<(), LinkError> {
        if std::mem::replace(&mut self.has_gap, true) {
            return Err(LinkError::Malformed("a gap behind another"));
        }
        Ok(())
    }

    /// A key came.
    pub(crate) fn count_key(&mut self, now: Duration) -> Result<(), LinkError> {
        let (left, since) = &mut self.keys;
        if now.saturating_sub(*since) > KEYS_AGAIN {
            (*left, *since) = (KEYS_AT_ONCE, now);
        }
        *left = left.checked_sub(1).ok_or(LinkError::Malformed("a key behind too many others"))?;
        Ok(())
    }

    /// A frame begins; returned if it is complete.
    pub(crate) fn begin(&mut self, head_and_bytes: &[u8]) -> Result<Option<Frame>, LinkError> {
        if self.coming.is_some() {
            return Err(LinkError::Malformed("a frame within another"));
        }
        if self.window <= 0 {
            return Err(LinkError::BeyondCredit);
        }
        let mut read = Reader::new(head_and_bytes, "a frame");
        let head = Head::read(&mut read, self.before)?;
        self.before = head.dts();
        self.has_gap = false;
        self.window -= FRAME_COST as i64;
        // As much as is announced only where that is little: memory is to grow with what comes.
        let bytes = Vec::with_capacity(head.bytes.min(4 * CHUNK_BYTES_MAX));
        self.coming = Some((head, bytes));
        self.go_on(read.rest())
    }

    /// Whether a frame has come in part.
    pub(crate) fn is_coming(&self) -> bool {
        self.coming.is_some()
    }

    /// The next bytes of a frame; returned if it is complete.
    pub(crate) fn go_on(&mut self, part: &[u8]) -> Result<Option<Frame>, LinkError> {
        let Some((head, bytes)) = &mut self.coming else {
            return Err(LinkError::Malformed("a part of no frame"));
        };
        if part.len() > head.bytes - bytes.len() {
            return Err(LinkError::Malformed("a frame longer than it said"));
        }
        bytes.extend_from_slice(part);
        self.window -= part.len() as i64;
        if bytes.len() < head.bytes {
            return Ok(None);
        }
        let (head, mut bytes) = self.coming.take().expect("it was there above");
        bytes.shrink_to_fit();
        Ok(Some(head.into_frame(bytes)))
    }

    /// Frames of this cost were used; returns credit to be given, once it is worth a message.
    pub(crate) fn used(&mut self, cost: usize) -> Option<u32> {
        self.used = self.used.saturating_add(u32::try_from(cost).unwrap_or(u32::MAX));
        if self.used < WINDOW_BYTES / 4 {
            return None;
        }
        self.window += i64::from(self.used);
        Some(std::mem::take(&mut self.used))
    }
}
